"""Swap searches for the quadratic assignment problem: the compiled ones, or NumPy's behind the same methods.

Integer data are searched exactly, in int32 or in float64 without rounding or overflow.  Other data are
searched in float64, and only steps that exceed the rounding error count as improvements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcfw import kernels


@dataclass(frozen=True)
class Layout:
    """A problem ready for swap searches, whose values are ``scale`` times those of the data."""

    problem: Any
    kind: str
    scale: int
    n: int
    exact: bool

    @property
    def rtol(self) -> float:
        """The relative difference up to which two values may be those of one permutation."""
        return 0.0 if self.exact else 1e-12

    def tabu(self, p: np.ndarray, seed: int, *, skewed: bool = False, fixed: int = 0) -> Any:
        return self._make("TabuSearch", p, seed, skewed, fixed)

    def breakout(self, p: np.ndarray, seed: int) -> Any:
        return self._make("BreakoutSearch", p, seed)

    def annealing(self, p: np.ndarray, seed: int) -> Any:
        return self._make("Annealing", p, seed)

    @property
    def forest(self) -> bool:
        """Whether A or B is a weighted forest, for :meth:`tree`; False without the extension."""
        return kernels.native is not None and self.problem.has_forest()

    def tree(self, p: np.ndarray, seed: int) -> Any:
        assert kernels.native is not None, "look at `forest` first"
        return kernels.native.TreeSearch(self.problem, np.ascontiguousarray(p, dtype=np.int64), seed)

    def descent(self, p: np.ndarray, fixed: int = 0) -> Any:
        return self._make("Descent", p, fixed)

    def first_descent(self, p: np.ndarray, order: np.ndarray, fixed: int = 0) -> Any:
        """Return a descent by the first improving swap of the pairs in the given order."""
        return self._make("FirstDescent", p, np.ascontiguousarray(order, dtype=np.int64), fixed)

    def goal(self, target: float | None) -> Any:
        """Return a target value in the searches' units, up to rounding; None is one that is never reached."""
        scaled = -math.inf if target is None else target * self.scale
        if math.isfinite(scaled):
            scaled += self.rtol * abs(scaled)
        return float(scaled) if self.kind == "float64" else math.floor(min(max(scaled, -(2**62)), 2**62))

    def _make(self, name: str, p: np.ndarray, *options: Any) -> Any:
        p = np.ascontiguousarray(p, dtype=np.int64)
        return _class(name, self.kind)(self.problem, p, *options)


def layout(A: np.ndarray, B: np.ndarray, C: np.ndarray | None = None) -> Layout:
    """Lay out dense int64 or float64 matrices; if only one of A and B is symmetric, the other is replaced by
    M + M^T, which doubles the objective."""
    symmetric_A, symmetric_B = np.array_equal(A, A.T), np.array_equal(B, B.T)
    scale = 1 if symmetric_A == symmetric_B else 2
    kind, exact = _kind(A, B, C, scale)
    A, B = A.astype(kind), B.astype(kind)
    C = None if C is None else np.ascontiguousarray(C.astype(kind) * kind(scale))
    if scale == 2:
        A, B = (A, B + B.T) if symmetric_A else (A + A.T, B)
    tolerance, eps = 0.0, float(np.finfo(np.float64).eps)
    if not exact:
        linear = 0.0 if C is None else float(np.abs(C).max())
        tolerance = 32 * len(A) * eps * float(np.abs(A).max()) * float(np.abs(B).max()) + 8 * eps * linear
    name = np.dtype(kind).name
    arguments = (np.ascontiguousarray(A), np.ascontiguousarray(B), C, kind(tolerance).item())
    return Layout(_class("AssignmentProblem", name)(*arguments), name, scale, len(A), exact)


def _class(name: str, kind: str) -> Any:
    if kernels.native is None:  # NumPy's classes take all kinds
        return getattr(kernels.implementation("numpy_swaps"), name)
    return getattr(kernels.native, f"{name}_{kind}")


def _kind(A: np.ndarray, B: np.ndarray, C: np.ndarray | None, scale: int) -> tuple[Any, bool]:
    """Return the type to search in, and whether it is exact."""
    if any(M.dtype.kind != "i" for M in (A, B, C) if M is not None):
        return np.float64, False
    # Python's integers cannot overflow.  Either A or B may be doubled, with the same products.
    largest_A, largest_B = scale * _largest(A), _largest(B)
    largest_C = 0 if C is None else scale * _largest(C)
    sum_A, sum_B = scale * _largest_sum(A), _largest_sum(B)
    # Deltas are sums of four entries of S = A^T B' + A B'^T + C' and a product of four entries each of A
    # and B; an update is a product of differences of differences.  The factor covers all intermediate values.
    product = min(sum_A * largest_B, largest_A * sum_B)
    bound = 4 * (2 * product + largest_C) + 64 * largest_A * largest_B
    if bound < 2**29:
        return np.int32, True
    return np.float64, max(bound, len(A) * (product + largest_C)) < 2**53


def _largest(M: np.ndarray) -> int:
    return max(abs(int(M.min())), abs(int(M.max()))) if M.size else 0


def _largest_sum(M: np.ndarray) -> int:
    if _largest(M) * len(M) > 2**62:
        return _largest(M) * len(M)
    size = np.abs(M)
    return int(max(size.sum(axis=0).max(), size.sum(axis=1).max())) if M.size else 0
