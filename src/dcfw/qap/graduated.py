"""Graduated DC-FW for the quadratic assignment problem: sweep the decomposition from convex to concave.

If r is convex and constant on permutations, phi and phi + theta r have the same minimisers among
permutations for every theta.  With phi + r convex and phi - r concave, follow theta from 1 (no bad local
minima) to -1 (the minimum is at a permutation); each stage starts from the point, gradients and assignment
prices of the last.  At theta = -1 full assignment steps, which never increase phi - r, end at a permutation
that repeats.

A path that is stationary at a permutation S ends there for any theta: <grad r(S), V - S> <= r(V) - r(S) = 0
for every permutation V, so the gap of S decreases with theta.  Later stages are skipped.

Two choices of r, for A and B centred and scaled to unit norm:

``"norm"``
    r = c/2 ||X||^2; theta c falls from half of -lambda_min to -lambda_max, the extreme eigenvalues of the
    Hessian on the tangent space (from those of the centred A and B if one of them is symmetric, else bounds).
``"paper"``
    r = 1/2 ||A X||^2 + 1/2 ||X B||^2 = f + g for the paper's f = 1/4 ||A X + X B||^2,
    g = 1/4 ||A X - X B||^2, so that phi + theta r = (1 + theta) f - (1 - theta) g: the paper's own
    decomposition with its weights swept.

M. Zaslavskiy, F. Bach, J.-P. Vert, "A path following algorithm for the graph matching problem", PAMI 2009;
Z.-Y. Liu, H. Qiao, "GNCCP - graduated nonconvexity and concavity procedure", PAMI 2014; H. Maron, Y. Lipman,
"(Probably) concave graph matching", NeurIPS 2018.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dcfw import kernels
from dcfw.qap.quadratics import doubly_centred

SPLITS = ("norm", "paper")
STAGES, STEPS, TOLERANCE = 60, 6, 0.1  # values of theta, most steps at each, relative gap that ends a stage
# The relative deviation of the entries of the first start and of later ones from 1/n: at the barycentre
# itself the gradient may be constant (esc* of QAPLIB).
FIRST_NOISE, NOISE = 0.05, 0.3
UNLIMITED = 10**12
TRIAL = 2  # steps, to measure their time


class PathEnd(NamedTuple):
    p: np.ndarray
    n_lmo: int
    n_inner: int
    stages: int
    cut: bool = False


@dataclass(frozen=True)
class GraduatedPath:
    kernel: Any
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    ends: tuple[float, float]

    def follow(
        self, X: np.ndarray, stages: int = STAGES, steps: int = STEPS, max_lmo: int | None = None,
        deadline: float | None = None,
    ) -> PathEnd:  # fmt: skip
        """Follow the path from X.

        Nothing interrupts the kernel.  With a deadline it first makes some steps to measure their time, then
        follows a path of as many stages as fit, and a finer one if that was faster than expected.
        """
        limit = UNLIMITED if max_lmo is None else max_lmo
        G = np.ascontiguousarray(self.A @ X @ self.B.T + self.A.T @ X @ self.B + self.C)
        X, stages = np.ascontiguousarray(X), max(stages, 2)

        def run(count: int, most: int) -> PathEnd:
            thetas = np.linspace(*self.ends, count).tolist()
            p, *counts = self.kernel.follow(X, G, thetas, steps, TOLERANCE, most)
            n_lmo, n_inner, made = map(int, counts)
            return PathEnd(np.asarray(p, dtype=np.int64), n_lmo, n_inner, made)

        if deadline is None:
            return run(stages, limit)
        count, budget, n_lmo, n_inner = stages, TRIAL, 0, 0
        while True:
            started = time.perf_counter()
            end = run(count, min(budget, limit - n_lmo))
            n_lmo, n_inner = n_lmo + end.n_lmo, n_inner + end.n_inner
            now = time.perf_counter()
            whole = count == stages and end.n_lmo < budget
            affordable = int(min((deadline - now) / max(now - started, 1e-9) * end.n_lmo, UNLIMITED))
            if whole or n_lmo >= limit or affordable < min(2 * budget, stages * steps):
                return PathEnd(end.p, n_lmo, n_inner, end.stages, cut=not whole and n_lmo < limit)
            count, budget = min(stages, max(affordable // steps, 2)), affordable


def prepare(A: np.ndarray, B: np.ndarray, C: np.ndarray | None, split: str) -> GraduatedPath:
    n = len(A)
    A, a = _normalised(A)
    B, b = _normalised(B)
    linear = np.zeros((n, n)) if C is None else np.ascontiguousarray(C / (a * b), dtype=np.float64)
    squares: tuple[Any, Any] = (None, None)
    ends = (1.0, -1.0)
    if split == "norm":
        low, high = _extreme_curvatures(A, B)
        # Even for convex or concave phi a little of r moves the path towards a permutation.
        least = 1e-3 * max(high, -low, 1e-300)
        ends = (max(-0.5 * low, least), min(-high, -least))
    else:
        squares = np.ascontiguousarray(A.T @ A), np.ascontiguousarray(B @ B.T)
    kernel = kernels.implementation("numpy_graduated").GraduatedPath(A, B, linear, *squares)
    return GraduatedPath(kernel, A, B, linear, ends)


def perturbed_centre(n: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Return a doubly stochastic matrix near the barycentre, by Sinkhorn's scaling of log-normal entries."""
    X = np.exp(noise * rng.standard_normal((n, n)))
    for _ in range(20):
        X /= X.sum(axis=1, keepdims=True)
        X /= X.sum(axis=0)
    return X


def _normalised(M: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the matrix less its mean (which only adds a constant to phi) with norm 1, and the norm."""
    M = M.astype(np.float64)
    centred = M - M.mean()
    norm = float(np.linalg.norm(centred))
    if not norm > 1e-12 * float(np.abs(M).max()):
        return np.zeros_like(M), 1.0
    return np.ascontiguousarray(centred / norm), norm


def _extreme_curvatures(A: np.ndarray, B: np.ndarray) -> tuple[float, float]:
    """Bound the eigenvalues of the Hessian of <A X, X B> on matrices with zero row and column sums."""
    n = len(A)
    if not (np.array_equal(A, A.T) or np.array_equal(B, B.T)):
        size = 2.0 * float(np.linalg.norm(A, 2) * np.linalg.norm(B, 2))
        return -size, size
    ends = []
    for M in (A, B):
        values = np.linalg.eigvalsh(doubly_centred(0.5 * (M + M.T)))
        ends.append((float(values[0]), float(values[-1])))
    products = [2.0 * x * y for x in ends[0] for y in ends[1]]
    return (min(products), max(products)) if n > 1 else (0.0, 0.0)  # no tangent directions for n = 1
