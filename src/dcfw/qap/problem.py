"""A quadratic assignment problem as it is solved, and the way back to the user's.

Solvers minimise over the free rows and columns, on square matrices of one size.  :class:`Problem` alone maps
values, permutations, matrices and results to those of a user who may maximise, give matrices of different
sizes, fix pairs, and name rows and columns.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.qap.forbidden import mask_of, nearest_permitted, priced
from dcfw.qap.labels import check_linear, labels, positions
from dcfw.qap.objective import INT64_MAX, dense, evaluate, is_sparse, largest, square, value
from dcfw.result import Result

DENSE_UP_TO = 100
"""Sparse problems of at most this size are solved as dense ones: the compiled loop beats any sparsity."""


@dataclass(frozen=True)
class Problem:
    """The minimisation problem of the free rows and columns, and what it leaves out.

    ``whole`` are the padded matrices of the user's problem, ``sizes`` theirs before the padding, ``labels``
    the names of A's rows and of B's rows where they have any, ``forbidden`` a matrix that is True where a
    free row must not go.
    """

    A: Any
    B: Any
    C: Any
    sign: int
    rows: np.ndarray
    columns: np.ndarray
    pairs: np.ndarray
    offset: float
    whole: tuple[Any, Any, Any]
    sizes: tuple[int, int]
    labels: tuple[Any, Any] = (None, None)
    forbidden: np.ndarray | None = None

    @property
    def n(self) -> int:
        """The number of free rows."""
        return len(self.rows)

    def value(self, reduced: Any) -> Any:
        """Return a value of the reduced problem in the user's units."""
        return self.sign * reduced + self.offset

    def reduced_value(self, value: float) -> float:
        """Return a value in the user's units as one of the reduced problem."""
        return self.sign * (value - self.offset)

    def evaluate(self, permutation: np.ndarray) -> Any:
        """Return the value of a whole permutation."""
        A, B, C = self.whole
        return value(A, B, permutation, C)

    def complete(self, permutation: np.ndarray) -> np.ndarray:
        """Return the permutation of the whole problem, without forbidden pairs."""
        if self.forbidden is not None:
            permutation = nearest_permitted(permutation, self.forbidden)
        p = np.empty(self.n + len(self.pairs), dtype=np.int64)
        p[self.rows] = self.columns[permutation]
        p[self.pairs[:, 0]] = self.pairs[:, 1]
        return p

    def reduce(self, permutation: np.ndarray) -> np.ndarray:
        """Return what a whole permutation that has the given pairs does to the free rows."""
        place = np.full(self.n + len(self.pairs), -1, dtype=np.int64)
        place[self.columns] = np.arange(self.n)
        p = np.asarray(place[permutation[self.rows]])
        if (p < 0).any():
            raise ValueError("init must have the pairs of partial_match")
        if self.forbidden is not None and (broken := self.forbidden[np.arange(self.n), p]).any():
            i = int(broken.argmax())
            pair = [int(self.rows[i]), int(self.columns[p[i]])]
            raise ValueError(f"init has the forbidden pair {pair}: change init, or leave it out")
        return p

    def complete_matrix(self, X: np.ndarray) -> np.ndarray:
        """Return the doubly stochastic matrix of the whole problem."""
        if not len(self.pairs):
            return X
        full = np.zeros((self.n + len(self.pairs),) * 2)
        full[np.ix_(self.rows, self.columns)] = X
        full[self.pairs[:, 0], self.pairs[:, 1]] = 1.0
        return full

    def present(self, result: Result, scale: float) -> None:
        """Convert a result of the relaxation, whose phi is 1/scale of the reduced one, to the user's
        units."""
        result.rescale(scale, self.sign, self.offset)
        result.x = self.complete_matrix(result.x)
        result.history = copy.copy(result.history)  # the run continues to write to its own
        result.history.rescale(scale, self.sign, self.offset)

    def matched(self, permutation: np.ndarray) -> list[tuple[Any, Any]] | None:
        """Return the pairs of labels, if A or B has any; without padding."""
        if all(names is None for names in self.labels):
            return None
        names = [
            range(size) if own is None else own for own, size in zip(self.labels, self.sizes, strict=True)
        ]
        return [
            (names[0][i], names[1][j])
            for i, j in enumerate(permutation.tolist())
            if i < self.sizes[0] and j < self.sizes[1]
        ]


def pose(A: Any, B: Any, C: Any, partial_match: Any, maximize: bool, forbidden: Any = None) -> Problem:
    """Return the problem that is solved for the user's data, after checking them."""
    names = (labels(A, "A"), labels(B, "B"))
    check_linear(C, names)
    A, B, C, sizes = _data(A, B, C)
    n = A.shape[0]
    sign = -1 if maximize else 1
    pairs = _pairs(partial_match, n, names)
    mask = mask_of(positions(forbidden, n, names, "forbidden"), pairs, n)
    if mask is not None:
        C = priced(A, B, C, mask, sign)
    whole = (A, B, C)
    rows = columns = np.arange(n)
    offset: float = 0
    if len(pairs):
        rows, columns = np.setdiff1d(rows, pairs[:, 0]), np.setdiff1d(columns, pairs[:, 1])
        A, B, C, offset = _without_pairs(A, B, C, pairs, rows, columns)
        mask = None if mask is None else mask[np.ix_(rows, columns)]
    if len(rows) <= DENSE_UP_TO:
        A, B = dense(A), dense(B)
    A, C = _signed(A, sign), None if C is None else _signed(C, sign)
    return Problem(A, B, C, sign, rows, columns, pairs, offset, whole, sizes, names, mask)


def _signed(M: Any, sign: int) -> Any:
    """Return sign * M without negative zeros, which integers do not have and whose sign LAPACK follows."""
    M = sign * M
    if M.dtype.kind == "f":
        entries = M.data if is_sparse(M) else M
        entries += 0.0
    return M


def _data(A: Any, B: Any, C: Any) -> tuple[Any, Any, Any, tuple[int, int]]:
    """Return the matrices checked and padded to one size."""
    A, B = square(A, "A"), square(B, "B")
    sizes = (int(A.shape[0]), int(B.shape[0]))
    n = max(sizes)
    A, B = padded(A, n), padded(B, n)
    if C is not None:
        C = linear_term(C, sizes, floating=False, allow_inf=True)
        infinite = np.argwhere(np.isinf(C))
        if len(infinite):
            pair = infinite[0].tolist()
            raise ValueError(
                f"C is infinite at {pair}: give pairs that are not allowed as forbidden=[{pair}, ...]"
            )
        C = square(C, "C")
    return A, B, C, sizes


def linear_term(C: Any, sizes: tuple[int, int], name: str = "C", **checks: Any) -> np.ndarray:
    """Return a linear term as an array, after checking its shape, padded to one size."""
    C = dense(C) if is_sparse(C) else to_numpy(_validate.array(C, name, ndim=2, **checks))
    n = max(sizes)
    if C.shape not in (sizes, (n, n)):
        raise ValueError(f"{name} must have shape {sizes}, got {C.shape}")
    return np.asarray(padded(C, n))


def padded(M: Any, n: int) -> Any:
    """Return a matrix with zeros added up to n rows and columns."""
    rows, columns = M.shape
    if rows >= n and columns >= n:
        return M
    if is_sparse(M):
        M = M.copy()
        M.resize((n, n))
        return M
    return np.pad(M, ((0, max(n - rows, 0)), (0, max(n - columns, 0))))


def _pairs(partial_match: Any, n: int, names: tuple[Any, Any]) -> np.ndarray:
    pairs = positions(partial_match, n, names, "partial_match")
    if not len(pairs):
        return pairs
    for column, side in enumerate(("row", "column")):
        values, counts = np.unique(pairs[:, column], return_counts=True)
        if (counts > 1).any():
            twice, known = int(values[counts > 1][0]), names[column]
            what = f"index {twice}" if known is None or twice >= len(known) else repr(known[twice])
            raise ValueError(f"partial_match repeats the {side} {what}")
    return pairs


def _without_pairs(
    A: Any, B: Any, C: Any, pairs: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> tuple[Any, Any, Any, float]:
    """Return the matrices of the free rows and columns, with the linear term and the constant that the given
    pairs leave behind."""
    i, j = pairs.T
    offset = evaluate(A[i][:, i], B[j][:, j], np.arange(len(pairs)), None if C is None else C[np.ix_(i, j)])
    strips = [A[rows][:, i], B[columns][:, j], A[i][:, rows], B[j][:, columns]]
    if A.dtype.kind == B.dtype.kind == "i":  # whatever C is, their products are summed in int64
        added = 0 if C is None or C.dtype.kind != "i" else largest(C)
        if 2 * len(pairs) * largest(A) * largest(B) + added > INT64_MAX:
            strips = [M.astype(np.float64) for M in strips]
    ends_A, ends_B, starts_A, starts_B = (dense(M) for M in strips)
    linear = ends_A @ ends_B.T + starts_A.T @ starts_B
    C = linear if C is None else linear + C[np.ix_(rows, columns)]
    A, B = A[rows][:, rows], B[columns][:, columns]
    return A, B, C, offset
