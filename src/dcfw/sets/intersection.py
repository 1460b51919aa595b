"""The intersection of sets of which only the linear oracles are known.

min <G, x> over the intersection is a linear programme in the weights of the sets' vertices,

    min <G, x_1>  such that  x_1 = x_i,  x_i = sum_j w_ij a_ij  a convex combination of vertices of set i,

solved by column generation (Dantzig and Wolfe, 1960): a programme with the known vertices gives a point of
all sets and prices y_i of the equations; the oracles of the sets at these prices give new vertices and a
lower bound,

    min_{C_1} <G - sum_i y_i, x> + sum_i min_{C_i} <y_i, x>.

Every answer is a point of the intersection up to rounding, and its distance from the bound is the oracle's
``error``, which certificates include.  Polytopes are solved to the tolerance of the programmes (1e-10 of the
sizes of G and the sets); round sets, which need many columns, to a thousandth of the current Frank-Wolfe gap,
in at most ``ROUNDS`` programmes.  Wolfe's method for the distance between the sets gives the first columns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dcfw._arrays import Array, like, to_numpy
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Oracle, Set
from dcfw.sets.compact import CompactSet
from dcfw.sets.membership import separation

ROUNDS = 120  # programmes per answer
SHARE = 1e-3  # the share of the last Frank-Wolfe gap that an answer may miss
INERTIA = 0.8  # the weight of the best prices so far in the trial prices

Columns = list[np.ndarray]


class IntersectionOracle(Oracle):
    domain: Intersection

    def __init__(self, domain: Intersection) -> None:
        self.domain = domain
        self._columns = [list(columns) for columns in domain._first]

    def __call__(self, G: Array) -> Atom:
        values = np.asarray(to_numpy(G), dtype=np.float64).reshape(-1)
        unit = float(np.abs(values).max()) or 1.0
        wanted = SHARE * self.gap / unit if 0.0 < self.gap < math.inf else 0.0
        x, error = self._solve(values / unit, wanted)
        self.error = unit * error
        return Dense(like(x.reshape(self.domain.shape), G))

    def _solve(self, G: np.ndarray, wanted: float) -> tuple[np.ndarray, float]:
        """Return a point x of all sets, and a bound of how far <G, x> is above the minimum."""
        low, best, value = -math.inf, None, math.inf
        for _ in range(ROUNDS):
            point, w, prices = self._programme(G)
            if float(G @ point) <= value:  # more columns do not raise it, unless HiGHS fails with them
                x, weights, value = point, w, float(G @ point)
            rounding = 1e-11 * float(np.abs(G) @ np.abs(x) + self.domain.diameter)
            # Prices oscillate; mixing them with the best ones so far gives better ones (Wentges, 1997).
            trials = (prices,) if best is None else (INERTIA * best + (1.0 - INERTIA) * prices, prices)
            for trial in trials:
                vertices, bound = self.domain._ask([G - trial.sum(axis=0), *trial])
                if bound > low:
                    low, best = bound, trial
                entered = False
                for columns, vertex in zip(self._columns, vertices, strict=True):
                    if not any(np.array_equal(vertex, column) for column in columns):
                        columns.append(vertex)
                        entered = True
                if entered:
                    break
            if value - low <= max(wanted, rounding) or not entered:
                break
        self._forget(weights)
        return x, max(value - low, 0.0)

    def _programme(self, G: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
        """Return the best point of the hulls of the columns, the columns' weights, and the prices.

        If HiGHS fails, the point is any common one, with prices of zero.
        """
        size, count = len(G), len(self._columns)
        unit = max(float(np.abs(columns).max()) for columns in self._columns) or 1.0  # HiGHS has one scale
        blocks = [np.array(columns).T / unit for columns in self._columns]
        ends = np.cumsum([len(columns) for columns in self._columns])
        A = np.zeros((size * (count - 1) + count, int(ends[-1])))
        for i, (block, end) in enumerate(zip(blocks, ends, strict=True)):
            own = slice(int(end) - block.shape[1], int(end))
            for k in range(count - 1) if i == 0 else (i - 1,):
                A[k * size : (k + 1) * size, own] = block if i == 0 else -block
            A[size * (count - 1) + i, own] = 1.0
        b = np.append(np.zeros(size * (count - 1)), np.ones(count))
        costs = np.append(G @ blocks[0], np.zeros(A.shape[1] - blocks[0].shape[1]))
        w, marginals = _least(costs, A, b)
        weights = np.split(w, ends[:-1])
        prices = marginals[: size * (count - 1)].reshape(count - 1, size)
        return unit * (blocks[0] @ weights[0]), weights, prices

    def _forget(self, weights: list[np.ndarray]) -> None:
        """Drop the oldest columns without weight beyond a number proportional to the entries."""
        most = 4 * math.prod(self.domain.shape) + 32
        for i, (columns, w) in enumerate(zip(self._columns, weights, strict=True)):
            spare = max(len(columns) - most, 0)
            old = set(np.flatnonzero(w == 0.0)[:spare].tolist())
            self._columns[i] = [column for j, column in enumerate(columns) if j not in old]

    def get_state(self) -> Any:
        return [np.array(columns) for columns in self._columns]

    def set_state(self, state: Any) -> None:
        self._columns = [list(np.asarray(columns)) for columns in state]


class Intersection(CompactSet, trusted=True):
    """The points that lie in all of several sets.

    Parameters
    ----------
    sets : sequence of Set
        Sets of one shape with at least one common point; a ValueError says how far apart they are otherwise.

    Notes
    -----
    An oracle call solves several linear programmes with a row for each entry of all sets but one, which is
    practical up to some hundred entries (fewer for round sets).  Sets given by a few inequalities are better
    written as one :class:`Polytope`.  An answer is a vertex only where it is the only minimiser.

    Examples
    --------
    >>> from dcfw.sets import Box, Intersection, L1Ball
    >>> domain = Intersection([L1Ball(3), Box(0.0, 0.4, shape=3)])
    >>> domain.lmo(np.array([-3.0, -2.0, -1.0])).round(9), domain.contains(np.full(3, 0.4))
    (array([0.4, 0.4, 0.2]), False)
    """

    flat = False
    _oracle = IntersectionOracle

    def __init__(self, sets: Sequence[Any]) -> None:
        if isinstance(sets, Set) or not isinstance(sets, Iterable):
            raise TypeError(f"sets must be a sequence of sets, got {type(sets).__name__}")
        self.sets = tuple(sets)
        if not self.sets:
            raise ValueError("sets must not be empty")
        for i, domain in enumerate(self.sets):
            if not isinstance(domain, Set):
                raise TypeError(f"sets[{i}] must be derived from dcfw.sets.Set, got {type(domain).__name__}")
            self.shape = tuple(self.sets[0].shape)
            if tuple(domain.shape) != self.shape:
                raise ValueError(f"sets[{i}] must have the shape {self.shape}, got {tuple(domain.shape)}")
        self.polytope = all(domain.polytope for domain in self.sets)
        self.nonnegative = any(domain.nonnegative for domain in self.sets)
        self.scale = min(domain.scale for domain in self.sets)
        self._first = self._common_columns()

    def _common_columns(self) -> list[Columns]:
        """Return vertices of each set such that their hulls have a common point."""
        columns: list[Columns] = [[] for _ in self.sets]
        size, others = math.prod(self.shape), len(self.sets) - 1

        def apart(H: np.ndarray) -> np.ndarray:
            """Return x_1 - x_i for all i, of the vertices that minimise <H, .>."""
            parts = H.reshape(others, size)
            vertices, _ = self._ask([parts.sum(axis=0), *-parts])
            for kept, vertex in zip(columns, vertices, strict=True):
                kept.append(vertex)
            return np.concatenate([vertices[0] - vertex for vertex in vertices[1:]])

        if not others:
            return [self._ask([np.ones(size)])[0]]
        distance = separation(apart, np.zeros(size * others))
        if distance > 1e-9 * self.scale:
            raise ValueError(f"sets have no common point: they are at least {distance:g} apart")
        return columns

    def _ask(self, directions: list[np.ndarray]) -> tuple[Columns, float]:
        """Return a vertex of each set for its direction, and a lower bound of the sum of the minima."""
        vertices, bound = [], 0.0
        for domain, G in zip(self.sets, directions, strict=True):
            oracle = domain.oracle()
            vertex = oracle(G.reshape(self.shape)).dense()
            vertices.append(np.asarray(vertex, dtype=np.float64).reshape(-1))
            bound += float(G @ vertices[-1]) - oracle.error
        return vertices, bound

    def _atom(self, G: np.ndarray) -> Atom:
        return IntersectionOracle(self)(G)

    def violation(self, x: Array) -> float:
        """Return the largest of the sets' violations, each relative to its set's scale."""
        x = self._values(x)
        return float(self.scale * max(domain.violation(x) / domain.scale for domain in self.sets))

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return min(float(domain.reach(x, d)) for domain in self.sets)

    @functools.cached_property
    def _inside(self) -> np.ndarray:
        directions = np.random.default_rng(0).standard_normal((8, *self.shape))
        return np.asarray(np.mean([self.lmo(G) for G in directions], axis=0))

    def _centre(self) -> np.ndarray:
        return self._inside.copy()

    @property
    def diameter(self) -> float:  # type: ignore[override]
        """An upper bound of the Euclidean diameter, the least of the sets' own."""
        return min(float(domain.diameter) for domain in self.sets)

    def __repr__(self) -> str:
        return f"Intersection([{', '.join(map(repr, self.sets))}])"


def _least(costs: np.ndarray, A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return w >= 0 with A w = b and the least costs, and the prices of the equations.

    A solution exists, but HiGHS may not find it: columns nearly agree where sets are round, and sets that
    touch may be apart by rounding.  Then b is replaced by the nearest A w of another method; if HiGHS fails
    again, those weights are the answer, with prices of zero.
    """
    from scipy.optimize import linprog, lsq_linear, nnls

    nearest = None
    for method, tolerance in (("highs-ds", 1e-10), ("highs-ipm", 1e-10), ("highs-ds", 1e-8)):
        options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        answer = linprog(costs, A_eq=A, b_eq=b, method=method, options=options)
        if answer.status == 0:
            return _exact(A, b, np.maximum(answer.x, 0.0)), np.asarray(answer.eqlin.marginals)
        if nearest is None:
            try:
                nearest = nnls(A, b, maxiter=30 * A.shape[1])[0]
            except RuntimeError:  # too many steps
                nearest = lsq_linear(A, b, bounds=(0.0, math.inf), method="bvls").x
            b = A @ nearest
    return np.asarray(nearest), np.zeros(len(b))


def _exact(A: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return basic weights recomputed without the tolerance of HiGHS where that reduces the residual."""
    used = w > 0.0
    found = np.zeros_like(w)
    found[used] = np.linalg.lstsq(A[:, used], b, rcond=None)[0]
    better = float(np.abs(A @ found - b).max()) < float(np.abs(A @ w - b).max())
    return found if better and float(found.min()) >= 0.0 else w
