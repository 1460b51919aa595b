"""The Birkhoff polytope: doubly stochastic matrices, the convex hull of the permutation matrices.

Its linear oracle is one linear assignment problem.  The projection solves the dual,

    X = max(Y + u 1^T + 1 v^T, 0)   with (u, v) minimising   1/2 ||X||^2 - sum u - sum v,

which is convex and piecewise quadratic, by Newton's method, in ten to thirty steps of O(n^3).
"""

from __future__ import annotations

import math
import time
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, like, to_numpy
from dcfw.sets.atoms import Atom, Dense, Entries, Permutation
from dcfw.sets.base import Oracle, Set, apply, excess, first_hit, in_double, state_in, sums_hit
from dcfw.sets.compact import CompactSet
from dcfw.sets.lap import Assignment
from dcfw.sets.spheres import Spheres, one_sphere, zero_one_sphere


@state_in("_assign")
class BirkhoffOracle(Oracle):
    """A linear assignment solver that starts each solve from the prices of the last one."""

    @cached_property
    def _rows(self) -> np.ndarray:
        return np.arange(self.domain.n)

    @cached_property
    def _assign(self) -> Assignment:  # lazy, because compiled loops have a solver of their own
        return Assignment(self.domain.n)

    @in_double
    def __call__(self, G: Array) -> Atom:
        columns = self._assign(to_numpy(G))
        if isinstance(G, np.ndarray):
            return Permutation(columns, self._rows, G.dtype)
        return Dense(like(Permutation(columns, self._rows).dense(), G))


class Birkhoff(Set, trusted=True):
    """The doubly stochastic n x n matrices {X >= 0, X 1 = 1, X^T 1 = 1}.

    Parameters
    ----------
    n : int
        The order of the matrices.

    Examples
    --------
    >>> from dcfw.sets import Birkhoff
    >>> Birkhoff(3).lmo(np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]]))
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 1.]])

    A cost of +Inf forbids a pair (in ``lmo`` only: a solve needs finite gradients).

    >>> Birkhoff(2).lmo(np.array([[0.0, 3.0], [np.inf, 0.0]]))
    array([[1., 0.],
           [0., 1.]])
    """

    polytope = nonnegative = True
    _oracle = BirkhoffOracle

    def __init__(self, n: int) -> None:
        self.n = _validate.integer(n, "n", low=1)
        self.shape = (self.n, self.n)
        # Two permutations without a common entry differ in 2n places; for n = 1 there is only one.
        self.diameter = math.sqrt(2.0 * self.n) if self.n > 1 else 0.0

    def lmo(self, G: Array) -> Array:
        """Return a minimising permutation matrix, as an array like ``G``; +Inf forbids a pair."""
        if not (to_numpy(_validate.numeric(G, "G")) == np.inf).any():
            return super().lmo(G)
        G = _validate.array(G, "G", shape=self.shape, allow_inf=True)
        below = np.argwhere(np.isneginf(to_numpy(G))).tolist()
        if below:
            raise ValueError(
                f"G has -Inf entries (the first at {tuple(below[0])}); they must be finite, or +Inf for "
                "forbidden pairs"
            )
        try:
            return self._answer(G)
        except ValueError as error:  # infeasible: the solver calls its argument C
            raise ValueError(f"G{str(error).removeprefix('C')}") from None

    def _vertex(self, G: Array) -> Array:
        return like(Permutation(assignment(to_numpy(G))).dense(), G)

    def violation(self, x: Array) -> float:
        x = self._values(x)
        return excess(max(sum_error(x), -float(x.min())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(G - G.mean(axis=0) - G.mean(axis=1)[:, None] + G.mean())

    def entry_bounds(self) -> tuple[Any, Any]:
        return 0.0, math.inf

    def _centre(self) -> np.ndarray:
        return np.full(self.shape, 1.0 / self.n)

    def spheres(self) -> Spheres:
        return one_sphere(self.shape)

    def random(self, rng: Any = None, scale: float = 1.0, *, deadline: float | None = None) -> np.ndarray:
        """Return a random doubly stochastic matrix.

        It is the result of 1000 alternating projections from 1/n + ``scale`` * N(0, 1), moved towards the
        barycentre by as much as the constraints require.

        Parameters
        ----------
        rng : None, int or numpy.random.Generator
            The source of randomness.
        scale : float, default 1.0
            The deviation from the barycentre; 1 in the paper's text, 0.001 in its code.
        deadline : float, optional
            A time of ``time.perf_counter`` after which to stop projecting.
        """
        rng = _validate.generator(rng)
        scale = _validate.scalar(scale, "scale", low=0.0)
        Y = 1.0 / self.n + scale * rng.standard_normal(self.shape)
        return _pull(alternating_projections(Y, deadline=deadline))

    def project(self, x: Array, tol: float = 1e-8) -> Array:
        """Return the doubly stochastic matrix nearest to ``x``.

        Newton's method on the dual stops when all row and column sums are within ``tol`` of 1 (or at
        rounding level, for large entries of ``x``).  Moving the matrix slightly towards the barycentre then
        makes it doubly stochastic to rounding.

        Parameters
        ----------
        x : array
            The matrix to project.
        tol : float, default 1e-8
            The error of the row and column sums at which to stop.

        Examples
        --------
        >>> from dcfw.sets import Birkhoff
        >>> Birkhoff(2).project(np.array([[1.0, 0.0], [0.0, 0.0]]))
        array([[0.75, 0.25],
               [0.25, 0.75]])
        """
        tol = _validate.scalar(tol, "tol", low=0.0, open_low=True)
        return apply(lambda values: _pull(_project_newton(values, tol)), x, self.shape)

    def __repr__(self) -> str:
        return f"Birkhoff({self.n})"


class PartialBirkhoff(CompactSet, trusted=True):
    """The convex hull of the m x n partial assignments of k pairs.

    Parameters
    ----------
    m, n : int
        The numbers of rows and columns.
    k : int, optional
        The number of pairs, by default min(m, n).

    Examples
    --------
    >>> from dcfw.sets import PartialBirkhoff
    >>> PartialBirkhoff(2, 3, k=1).lmo(np.array([[1.0, -2.0, 0.0], [0.0, -1.5, 3.0]]))
    array([[0., 1., 0.],
           [0., 0., 0.]])
    """

    polytope = nonnegative = True

    def __init__(self, m: int, n: int, k: int | None = None) -> None:
        m, n = _validate.integer(m, "m", low=1), _validate.integer(n, "n", low=1)
        self.k = min(m, n) if k is None else _validate.integer(k, "k", low=1, high=min(m, n))
        self.shape = (m, n)
        # Two assignments without a common pair, which exist unless m = n = 1.
        self.diameter = math.sqrt(2.0 * self.k) if m * n > 1 else 0.0

    def _atom(self, G: np.ndarray) -> Entries:
        (m, n), k = self.shape, self.k
        unit = float(np.abs(G).max()) or 1.0
        costs = np.zeros((m + n - k, m + n - k))
        # With nonnegative costs, a pair of dummies, which makes room for one more pair, never pays.
        costs[:m, :n] = G / unit - float(G.min()) / unit
        costs[m:, n:] = 1.0
        columns = assignment(costs)[:m]
        rows = np.flatnonzero(columns < n)
        return Entries(rows * n + columns[rows], np.ones(k), self.shape)

    def violation(self, x: Array) -> float:
        x = self._values(x)
        over = max(float(x.sum(axis=1).max()), float(x.sum(axis=0).max())) - 1.0
        return excess(max(over, abs(float(x.sum()) - self.k) / self.k, -float(x.min())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        m, n = self.shape
        if self.k == m == n:
            return np.asarray(G - G.mean(axis=0) - G.mean(axis=1)[:, None] + G.mean())
        if self.k == min(m, n):
            return np.asarray(G - G.mean(axis=int(m == self.k), keepdims=True))
        return np.asarray(G - G.mean())

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return min(first_hit(x, -d), *(sums_hit(1.0 - x.sum(axis=i), d, i) for i in (0, 1)))

    def spheres(self) -> Spheres:
        return zero_one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return np.full(self.shape, self.k / math.prod(self.shape))

    def __repr__(self) -> str:
        return f"PartialBirkhoff({self.shape[0]}, {self.shape[1]}, k={self.k})"


def assignment(C: np.ndarray) -> np.ndarray:
    """Return the permutation that minimises sum_i C[i, columns[i]], from a cold start."""
    return Assignment(len(C))(C)


def alternating_projections(x: Array, iterations: int = 1000, *, deadline: float | None = None) -> Array:
    """Return a nearly doubly stochastic matrix near the square matrix ``x`` by alternating projections.

    The result is nonnegative; the error of its sums is at rounding level for moderate n but about 1e-3 for
    n = 256 and entries of size 1. The iteration ends early when it no longer moves the point, or after
    ``deadline``, a time of ``time.perf_counter``.

    >>> alternating_projections(np.array([[3.0, 0.0], [0.0, 0.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    x = _validate.array(x, "x", ndim=2)
    if x.shape[0] != x.shape[1] or x.shape[0] == 0:
        raise ValueError(f"x must be a square matrix, got shape {tuple(x.shape)}")
    iterations = _validate.integer(iterations, "iterations", low=1)

    def rule(X: np.ndarray) -> np.ndarray:
        for _ in range(iterations):
            X = _project_sums(X)
            lowest = float(X.min())
            X = np.maximum(X, 0.0)
            late = deadline is not None and time.perf_counter() >= deadline
            if late or lowest >= -np.finfo(np.float64).eps:
                break
        return X

    return apply(rule, x, tuple(x.shape))


def _project_sums(X: np.ndarray) -> np.ndarray:
    """Return the nearest matrix with row and column sums 1 (entries of any sign)."""
    rows, columns = 1.0 - X.sum(axis=1), 1.0 - X.sum(axis=0)
    return np.asarray(X + ((rows - rows.mean())[:, None] + columns) / len(X))


def sum_error(X: np.ndarray) -> float:
    """Return the largest error of a row or column sum."""
    ones, errors = np.ones(len(X)), np.empty((2, len(X)))
    np.matmul(X, ones, out=errors[0])  # twice as fast as sums along an axis
    np.matmul(ones, X, out=errors[1])
    errors -= 1.0
    return float(np.abs(errors, out=errors).max())


def _pull(X: np.ndarray) -> np.ndarray:
    """Return ``X`` with its sums corrected, mixed with the barycentre until no entry is negative."""
    X = _project_sums(X)
    below = max(-float(X.min()), 0.0)
    if below:
        weight = below / (below + 1.0 / len(X))
        X = np.maximum((1.0 - weight) * X + weight / len(X), 0.0)
    return X


def _project_newton(Y: np.ndarray, tol: float) -> np.ndarray:
    """Return max(Y + u 1^T + 1 v^T, 0) with row and column sums 1 to within ``tol``.

    For large Y Newton's method is slow from u = v = 0, because the pieces of the dual are many and narrow.
    So Y is scaled down to a moderate size first and grown back by factors of ten, with warm starts.
    """
    n = len(Y)
    Z = _project_sums(Y)  # removes the mean parts of u and v, which makes u = v = 0 a good start
    size = float(np.abs(Z).max())
    u, v = np.zeros(n), np.zeros(n)
    for power in range(max(0, math.ceil(math.log10(size / 10.0))) if size else 0, 0, -1):
        _, u, v = _dual_newton(Z / 10.0**power, u, v, 1e-2)
        u, v = 10.0 * u, 10.0 * v
    # No sum can be computed more accurately than this.
    return _dual_newton(Z, u, v, max(tol, 4.0 * np.finfo(np.float64).eps * size * math.sqrt(n)))[0]


def _dual_newton(
    Z: np.ndarray, u: np.ndarray, v: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X = max(Z + u 1^T + 1 v^T, 0) with row and column sums 1 to within ``tol``, and its u, v."""

    def evaluate(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
        X = np.maximum(Z + u[:, None] + v, 0.0)
        return X, 0.5 * float(np.vdot(X, X)) - float(u.sum() + v.sum())

    X, value = evaluate(u, v)
    for _ in range(200):
        gu, gv = X.sum(axis=1) - 1.0, X.sum(axis=0) - 1.0
        error = max(float(np.abs(gu).max()), float(np.abs(gv).max()))
        # The Hessian [[diag(M 1), M], [M^T, diag(M^T 1)]] of this piece, M the 0/1 support of X, is singular
        # along (1, -1) on each component of the graph: it is regularised, less and less for fast convergence.
        shift = max(1e-3 * min(1.0, error), 1e-12)
        M = (X > 0.0).astype(np.float64)
        rows, columns = M.sum(axis=1) + shift, M.sum(axis=0) + shift
        # Eliminating the row part leaves one n x n system.
        schur = -(M.T @ (M / rows[:, None]))
        schur[np.diag_indices(len(Z))] += columns
        dv = np.linalg.solve(schur, -gv + M.T @ (gu / rows))
        du = -(gu + M @ dv) / rows
        slope, t = float(gu @ du + gv @ dv), 1.0
        trial, new = evaluate(u + du, v + dv)
        # The slack allows for the rounding of the values, which exceeds their decrease close to the end.
        while new > value + 1e-4 * t * slope + 1e-14 * abs(value) and t > 1e-10:
            t *= 0.5
            trial, new = evaluate(u + t * du, v + t * dv)
        if error <= tol:  # one step more, which squares the error at the end, is kept if it did
            return (trial, u + t * du, v + t * dv) if sum_error(trial) < error else (X, u, v)
        u, v, X, value = u + t * du, v + t * dv, trial, new
    return X, u, v
