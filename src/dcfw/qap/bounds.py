"""Lower bounds on the value of all permutations, which limit the distance of an answer from the optimum.

``"gilmore-lawler"``
    (Gilmore 1962, Lawler 1963)  If i is put on j, row i of A meets row j of B, and the sum of their products
    is at least that with one sorted up and the other down.  These n^2 numbers are the costs of an assignment
    problem, whose optimal value is the bound.
``"projection"``
    (Hadley, Rendl and Wolkowicz 1992)  A permutation matrix is J/n + V Y V^T, V a basis of the vectors that
    add up to 0 and Y orthogonal.  The quadratic part is then at least the product of the eigenvalues of
    V^T A V, sorted up, and V^T B V, sorted down; the linear part is an assignment problem.  One of the
    matrices must be symmetric (then the other is replaced by its symmetric part).
``"convex"``
    (Anstreicher and Brixius 2001)  A convex quadratic programme over doubly stochastic matrices, by
    Frank-Wolfe with a certified gap: :mod:`dcfw.qap.convex_bound`.  Once solved it is at least as strong as
    the projection bound.
``"dual-ascent"``
    (Hahn and Grant 1998)  An ascent on the dual of a linearisation, for n up to 32:
    :mod:`dcfw.qap.dual_ascent`.  Usually the strongest of the four, and the most expensive.

All hold in floating-point arithmetic as well: the possible rounding errors are subtracted.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw.qap.convex_bound import EPS, SMALLEST, basis, convex_bound
from dcfw.qap.dual_ascent import LARGEST as LARGEST_ASCENT
from dcfw.qap.dual_ascent import dual_ascent
from dcfw.qap.objective import dense, largest
from dcfw.qap.problem import Problem, pose
from dcfw.sets import lap

METHODS = ("auto", "gilmore-lawler", "projection", "convex", "dual-ascent")

LARGEST = 2.0**900  # of sums of products
QUICK = 233  # up to this size searches and paths compute a bound, in O(n^3) operations


class IntBound(int):
    method: str


class FloatBound(float):
    method: str


def bound(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    maximize: bool = False,
    partial_match: Any = None,
    forbidden: Any = None,
    method: str = "auto",
    time_limit: float = 2.0,
) -> int | float:
    """Return a lower bound of ``sum_ij A[i, j] B[p(i), p(j)] + sum_i C[i, p(i)]`` over all permutations p.

    Parameters
    ----------
    A, B, C, maximize, partial_match, forbidden
        The problem, as for :func:`dcfw.qap.solve`; an upper bound is returned for ``maximize=True``.
    method : {"auto", "gilmore-lawler", "projection", "convex", "dual-ascent"}
        See :mod:`dcfw.qap.bounds`.  ``"auto"`` returns the best of those that apply and fit in the time.
    time_limit : float
        Seconds for the convex bound and the dual ascent, which give weaker bounds if they are cut short (one
        that ``method`` names makes at least one step).

    Returns
    -------
    int or float
        An int if all data are integers: the bound is rounded up (down for a maximum).  The attribute
        ``method`` names the method that found it.

    Examples
    --------
    >>> from dcfw.qap import evaluate
    >>> A, B = [[0, 3, 1], [3, 0, 2], [1, 2, 0]], [[0, 5, 9], [5, 0, 4], [9, 4, 0]]
    >>> bound(A, B), evaluate(A, B, [2, 1, 0]), bound(A, B, maximize=True)
    (62, 62, 82)
    """
    method = _validate.choice(method, "method", METHODS)
    deadline = time.perf_counter() + _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    problem = pose(A, B, C, partial_match, _validate.flag(maximize, "maximize"), forbidden)
    data = _Data.of(problem)
    if method in ("projection", "convex") and not data.symmetric:
        raise ValueError(f"method {method!r} needs A or B to be symmetric: use 'gilmore-lawler'")
    if method == "dual-ascent" and len(data.A) > LARGEST_ASCENT:
        raise ValueError(f"method 'dual-ascent' is for n up to {LARGEST_ASCENT}: use 'convex'")
    low, by = _best(data, method, deadline) if problem.n else (0, "gilmore-lawler")
    answer = (IntBound if data.whole else FloatBound)(of_whole(problem, low))
    answer.method = by
    return answer


def of_whole(problem: Problem, low: int | float) -> int | float:
    """Return a bound of the reduced problem as one of the user's: less the possible rounding errors of the
    given pairs' constant and linear term."""
    whole = all(M is None or M.dtype.kind == "i" for M in (problem.A, problem.B, problem.C))
    if len(problem.pairs) and not whole:
        A, B, C = problem.whole
        n = A.shape[0]
        size = float(abs(A).sum()) * float(abs(B).max()) + (0.0 if C is None else n * float(abs(C).max()))
        low -= float(4.0 * n * (n + 4) * EPS * size + n * n * SMALLEST)
    return problem.value(low)  # type: ignore[no-any-return]


def _best(data: _Data, method: str, deadline: float) -> tuple[int | float, str]:
    found, by = -math.inf, "gilmore-lawler"
    for name in METHODS[1:] if method == "auto" else (method,):
        value = _one(name, data, deadline, wanted=name == method)
        if value > found:
            found, by = value, name
    return math.ceil(found) if data.whole else found, by


def _one(name: str, data: _Data, deadline: float, wanted: bool) -> float:
    """Return the bound of one method; after the deadline only a wanted one, which makes a single step."""
    parts, small, now = data[:3], len(data.A) <= LARGEST_ASCENT, time.perf_counter()
    late = now > deadline and not wanted
    if name == "gilmore-lawler":
        return gilmore_lawler(*parts, data.exact)
    if name == "dual-ascent":
        return dual_ascent(*parts, deadline=deadline) if small and not late else -math.inf
    if not data.symmetric or (name == "convex" and late):
        return -math.inf
    if name == "projection":
        return projection(*parts)
    return convex_bound(*parts, deadline=now + (0.2 if small else 1.0) * (deadline - now))


class _Data(NamedTuple):
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    whole: bool
    exact: bool
    symmetric: bool

    @classmethod
    def of(cls, problem: Problem) -> _Data:
        A, B, C = dense(problem.A), dense(problem.B), problem.C
        n, whole = len(A), all(part is None or part.dtype.kind == "i" for part in (A, B, C))
        # Costs, prices (sums of up to 2 n + 1 costs) and their sum are exact below 2^53.
        cost = largest(A) * largest(B) * n + (0 if C is None else largest(C)) if whole else 0
        exact = whole and n * (2 * n + 1) * cost < 2**53
        A, B = A.astype(np.float64), B.astype(np.float64)
        C = np.zeros_like(A) if C is None else C.astype(np.float64)
        if n and float(np.abs(A).sum() * np.abs(B).max() + np.abs(C).max()) > LARGEST:
            raise ValueError(f"A, B and C must have products below {LARGEST:.2g}; rescale them")
        return cls(A, B, C, whole, exact, np.array_equal(A, A.T) or np.array_equal(B, B.T))


def quick_bound(problem: Problem, seconds: float = 0.0) -> int | float | None:
    """Return the best of the cheap bounds and, with seconds and n <= 32, of the expensive ones, for the
    reduced problem; None if n is 1 or too large or products overflow."""
    if not 1 < problem.n <= QUICK:
        return None
    try:
        data = _Data.of(problem)
    except ValueError:
        return None
    spend = seconds > 0.0 and problem.n <= LARGEST_ASCENT
    return _best(data, "auto", time.perf_counter() + seconds if spend else -math.inf)[0]


def gilmore_lawler(A: np.ndarray, B: np.ndarray, C: np.ndarray, exact: bool) -> float:
    """Return the bound of Gilmore and Lawler; ``exact`` means that no sum of products is rounded."""
    n = len(A)
    off = ~np.eye(n, dtype=bool)
    up, down = (np.sort(M[off].reshape(n, n - 1), axis=1) for M in (A, B))
    L = up @ down[:, ::-1].T + np.outer(A.diagonal(), B.diagonal()) + C
    size = float(np.abs(A).sum() * np.abs(B).max()) + n * float(np.abs(C).max())
    return _assigned(L, 0.0 if exact else 4.0 * (n + 4) * EPS * size + n * n * SMALLEST)


def projection(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> float:
    n = len(A)
    A, B = 0.5 * (A + A.T), 0.5 * (B + B.T)
    V = basis(n)
    a, b = (np.linalg.eigvalsh(V.T @ M @ V) for M in (A, B))  # in ascending order
    D = (2.0 / n) * np.outer(A.sum(axis=1), B.sum(axis=1)) + C
    size = float(np.linalg.norm(A) * np.linalg.norm(B))
    slack = 16.0 * n * n * EPS * (size + float(np.abs(D).max())) + 16.0 * n * n * SMALLEST
    return _assigned(D, slack) + float(a @ b[::-1]) - float(A.sum() * B.sum()) / n**2


def _assigned(L: np.ndarray, slack: float) -> float:
    """Return a lower bound of the assignment problem with costs L; ``slack`` bounds the rounding error."""
    solver = lap.Assignment(len(L))
    solver(np.ascontiguousarray(L))
    # Feasible prices give a bound; their violation is subtracted in every row.
    missing = float((solver.u[:, None] + solver.v - L).max())
    return math.fsum(solver.u) + math.fsum(solver.v) - len(L) * max(missing, 0.0) - slack
