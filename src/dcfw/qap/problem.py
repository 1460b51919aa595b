"""The conversion between the user's quadratic assignment problem and the one that is solved.

Solvers minimise over the free rows and columns, on square matrices of one size.  :class:`Problem` alone maps
values, permutations, matrices and results back to the user's problem, which may be a maximisation, have
matrices of different sizes, fixed or forbidden pairs, and names of rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.qap.forbidden import mask_of, nearest_permitted, priced
from dcfw.qap.labels import check_linear, labels, positions
from dcfw.qap.objective import INT64_MAX, dense, evaluate, is_sparse, largest, square, value
from dcfw.qap.result import QAPResult
from dcfw.result import Result

DENSE_UP_TO = 100  # sparse problems up to this size are solved faster as dense ones


@dataclass(frozen=True)
class Problem:
    """The minimisation problem of the free rows and columns, and its relation to the user's.

    ``whole`` holds the user's padded matrices, ``sizes`` their sizes before padding, ``labels`` the names of
    A's and of B's rows (or None), and ``forbidden`` is True where a free row must not go.
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
        return len(self.rows)

    def value(self, reduced: Any) -> Any:
        """Return a value of the reduced problem in the user's units."""
        return self.sign * reduced + self.offset

    def reduced_value(self, value: float) -> float:
        """Return a value in the user's units as one of the reduced problem."""
        return self.sign * (value - self.offset)

    def evaluate(self, permutation: np.ndarray) -> Any:
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
        """Return the part of a whole permutation on the free rows; it must have the given pairs."""
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
        if not len(self.pairs):
            return X
        full = np.zeros((self.n + len(self.pairs),) * 2)
        full[np.ix_(self.rows, self.columns)] = X
        full[self.pairs[:, 0], self.pairs[:, 1]] = 1.0
        return full

    def presented(self, solved: Result, scale: float) -> QAPResult:
        """Return a result of the relaxation, whose phi is 1/scale of the reduced one, in the user's units."""
        result = QAPResult(**solved)
        result.rescale(scale, self.sign, self.offset)
        result.x = result.relaxed = self.complete_matrix(result.x)
        result.relaxed_fun = float(result.fun)
        result.history.rescale(scale, self.sign, self.offset)
        return result

    def matched(self, permutation: np.ndarray) -> list[tuple[Any, Any]] | None:
        """Return the pairs of labels, if A or B has any; without padding."""
        if all(names is None for names in self.labels):
            return None
        rows, columns = (own or range(size) for own, size in zip(self.labels, self.sizes, strict=True))
        pairs = enumerate(permutation[: len(rows)].tolist())
        return [(rows[i], columns[j]) for i, j in pairs if j < len(columns)]


def pose(A: Any, B: Any, C: Any, partial_match: Any, maximize: bool, forbidden: Any = None) -> Problem:
    names = (labels(A, "A"), labels(B, "B"))
    check_linear(C, names)
    A, B = square(A, "A"), square(B, "B")
    sizes = (int(A.shape[0]), int(B.shape[0]))
    n = max(sizes)
    A, B = padded(A, n), padded(B, n)
    if C is not None:
        C = linear_term(C, sizes, floating=False, allow_inf=True)
        infinite = np.argwhere(np.isinf(C))
        if len(infinite):
            pair = infinite[0].tolist()
            raise ValueError(f"C is infinite at {pair}: exclude pairs by forbidden=[{pair}, ...]")
        C = square(C, "C")
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
    """Return sign * M without negative zeros, whose sign affects LAPACK."""
    M = sign * M
    if M.dtype.kind == "f":
        entries = M.data if is_sparse(M) else M
        entries += 0.0
    return M


def linear_term(C: Any, sizes: tuple[int, int], name: str = "C", **checks: Any) -> np.ndarray:
    C = to_numpy(_validate.array(dense(C), name, ndim=2, **checks))
    n = max(sizes)
    if C.shape not in (sizes, (n, n)):
        raise ValueError(f"{name} must have shape {sizes}, got {C.shape}")
    return np.asarray(padded(C, n))


def padded(M: Any, n: int) -> Any:
    rows, columns = M.shape
    if rows >= n and columns >= n:
        return M
    if not is_sparse(M):
        return np.pad(M, ((0, max(n - rows, 0)), (0, max(n - columns, 0))))
    M = M.copy()
    M.resize((n, n))
    return M


def _pairs(partial_match: Any, n: int, names: tuple[Any, Any]) -> np.ndarray:
    pairs = positions(partial_match, n, names, "partial_match")
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
    """Return the data of the free rows and columns, with the linear term and constant of the given pairs."""
    i, j = pairs.T
    offset = evaluate(A[i][:, i], B[j][:, j], np.arange(len(pairs)), None if C is None else C[np.ix_(i, j)])
    strips = [A[rows][:, i], B[columns][:, j], A[i][:, rows], B[j][:, columns]]
    if A.dtype.kind == B.dtype.kind == "i":  # products are summed in int64, even if C holds floats
        added = 0 if C is None or C.dtype.kind != "i" else largest(C)
        if 2 * len(pairs) * largest(A) * largest(B) + added > INT64_MAX:
            strips = [M.astype(np.float64) for M in strips]
    ends_A, ends_B, starts_A, starts_B = (dense(M) for M in strips)
    linear = ends_A @ ends_B.T + starts_A.T @ starts_B
    C = linear if C is None else linear + C[np.ix_(rows, columns)]
    return A[rows][:, rows], B[columns][:, columns], C, offset
