"""The simplex, and simplices with an upper bound on each entry: the capped simplex and the hypersimplex.

The linear oracles are an argmin, and a fractional knapsack that fills the entries in increasing order of
their costs.  The projections are clip(x - theta, 0, upper) with one number theta.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, namespace, to_numpy
from dcfw.sets.atoms import Atom, Entries, OneHot
from dcfw.sets.base import AtomOracle, Set, excess, first_hit, in_numpy, one_hot
from dcfw.sets.compact import CompactSet
from dcfw.sets.spheres import Spheres, coordinate_spheres, one_sphere


class SimplexOracle(AtomOracle):
    def runners_up(self, G: Array, count: int) -> list[Atom]:
        domain = self.domain
        return [OneHot(j, domain.radius, domain.shape, G.dtype) for j in least(G, count)]


class Simplex(Set, trusted=True):
    """The simplex {x >= 0, sum of all entries = radius}.

    Parameters
    ----------
    n : int or tuple of int
        The number of entries (or the shape, if x is not a vector).
    radius : float, default 1.0
        The sum of the entries.

    Examples
    --------
    >>> from dcfw.sets import Simplex
    >>> Simplex(3).lmo(np.array([2.0, -1.0, 0.0]))
    array([0., 1., 0.])
    >>> Simplex(3).project(np.array([0.5, 1.5, -4.0]))
    array([0., 1., 0.])
    """

    polytope = nonnegative = True
    _oracle = SimplexOracle

    def __init__(self, n: int | tuple[int, ...], radius: float = 1.0) -> None:
        self.shape = _validate.shape(n, "n")
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.scale = self.radius
        self.diameter = self.radius * math.sqrt(2.0) if math.prod(self.shape) > 1 else 0.0

    def _vertex(self, G: Array) -> Array:
        xp = namespace(G)
        return one_hot(int(xp.argmin(xp.reshape(G, (-1,)))), self.radius, G)

    def _atom(self, G: np.ndarray) -> OneHot:
        return OneHot(int(G.argmin()), self.radius, self.shape, G.dtype)

    def violation(self, x: Array) -> float:
        x = self._values(x)
        return excess(max(abs(float(x.sum()) - self.radius), -float(x.min())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(G - G.mean())

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return first_hit(x, -d)

    def _centre(self) -> np.ndarray:
        return np.full(self.shape, self.radius / math.prod(self.shape))

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a point drawn uniformly from the simplex."""
        weights = _validate.generator(rng).dirichlet(np.ones(math.prod(self.shape)))
        return np.asarray(self.radius * weights.reshape(self.shape))

    def spheres(self) -> Spheres:
        return one_sphere(self.shape)

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the point of the simplex nearest to ``x``."""
        return project_simplex(x, self.radius)


class CappedSimplex(CompactSet, trusted=True):
    """The set {0 <= x <= upper, sum of all entries = radius}, such as portfolios with a largest share.

    Parameters
    ----------
    n : int or tuple of int
        The number of entries (or the shape, if x is not a vector).
    upper : float or array_like
        The largest value of each entry, not negative; the sum must be at least ``radius``.
    radius : float, default 1.0
        The sum of the entries.
    at_most : bool, default False
        Whether smaller sums are allowed too.

    Attributes
    ----------
    diameter : float
        An upper bound of the Euclidean diameter, exact if the bounds are all equal and divide ``radius``.

    Examples
    --------
    >>> from dcfw.sets import CappedSimplex
    >>> CappedSimplex(4, upper=0.4).lmo(np.array([3.0, -1.0, 2.0, 0.0]))
    array([0. , 0.4, 0.2, 0.4])
    """

    polytope = nonnegative = True

    def __init__(
        self, n: int | tuple[int, ...], upper: Any, radius: float = 1.0, at_most: bool = False
    ) -> None:
        self._set_size(n, radius, at_most)
        bound = np.asarray(to_numpy(_validate.array(upper, "upper")), dtype=np.float64)
        if bound.ndim and bound.shape != self.shape:
            raise ValueError(f"upper must be a number or have shape {self.shape}, got {bound.shape}")
        if bool((bound < 0.0).any()):
            raise ValueError(f"upper must not be negative, got {float(bound.min()):g}")
        self.upper = np.broadcast_to(bound, self.shape).copy()
        room = float(self.upper.sum())
        # A sum such as that of ten times 0.1 may miss the radius by rounding.
        if room < self.radius * (1.0 - 1e-12) and not self.at_most:
            raise ValueError(f"upper must sum to radius at least, got {room:g} < {self.radius:g}")
        if room == 0.0:
            raise ValueError("upper must have a positive entry")
        self._set_sum(self.radius)

    def _set_size(self, n: int | tuple[int, ...], radius: float, at_most: bool) -> None:
        self.shape = _validate.shape(n, "n")
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.at_most = _validate.flag(at_most, "at_most")

    def _set_sum(self, total: float) -> None:
        room = float(self.upper.sum())
        self._total = min(total, room)
        self.scale = min(float(self.upper.max()), self._total)
        self._single = not self.at_most and room <= total * (1.0 + 1e-12)
        # The largest sum of |x - y| for two points of the set.
        change = min(2.0 * self._total, room) if self.at_most else 2.0 * min(self._total, room - self._total)
        self.diameter = 0.0 if self._single else longest(self.upper, change)

    def _atom(self, G: np.ndarray) -> Entries:
        flat, upper = G.reshape(-1), self.upper.reshape(-1)
        order = np.argsort(flat, kind="stable")
        if self.at_most:
            order = order[: int(np.searchsorted(flat[order], 0.0))]
        filled = np.cumsum(upper[order])
        values = np.clip(self._total - (filled - upper[order]), 0.0, upper[order])
        taken = np.flatnonzero(values)
        indices = order[taken]
        rank = np.argsort(indices)
        return Entries(indices[rank], values[taken][rank], self.shape)

    def violation(self, x: Array) -> float:
        x = self._values(x)
        error = float(x.sum()) - self._total
        error = (error if self.at_most else abs(error)) * (self.scale / self._total)
        return excess(max(error, -float(x.min()), float((x - self.upper).max())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        free = self.upper > 0.0
        if self._single:
            return np.zeros(self.shape)
        return np.where(free, G if self.at_most else G - G[free].mean(), 0.0)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        step = min(first_hit(self.upper - x, d), first_hit(x, -d))
        rate = float(d.sum())
        if self.at_most and rate > 8.0 * np.finfo(np.float64).eps * float(np.abs(d).sum()):
            step = min(step, max(self._total - float(x.sum()), 0.0) / rate)
        return step

    def entry_bounds(self) -> tuple[Any, Any] | None:
        return None if self.at_most else (0.0, self.upper)

    def _centre(self) -> np.ndarray:
        share = self._total / float(self.upper.sum())
        return np.asarray(self.upper * (min(share, 0.5) if self.at_most else share))

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the point of the set nearest to ``x``, exactly, in O(n log n)."""
        inside = np.clip(x, 0.0, self.upper)
        if self.at_most and float(inside.sum()) <= self._total:
            return np.asarray(inside)
        return self.upper.copy() if self._single else project_capped(x, self.upper, self._total)

    def _parameters(self) -> str:
        low, high = float(self.upper.min()), float(self.upper.max())
        bound = f", upper={high:g}" if low == high else ", upper=..."
        return bound + super()._parameters() + (", at_most=True" if self.at_most else "")


class Hypersimplex(CappedSimplex, trusted=True):
    """The hypersimplex {0 <= x <= radius, sum of all entries = k radius}: the hull of the k-subsets.

    Its vertices have k entries of size ``radius`` and zeros elsewhere; ||x||^2 - radius <1, x> is 0 on them.

    Parameters
    ----------
    n : int or tuple of int
        The number of entries (or the shape, if x is not a vector).
    k : int
        The number of nonzeros of a vertex, from 1 (the simplex) to n (a single point).
    radius : float, default 1.0
        The size of a vertex's entries.
    at_most : bool, default False
        Whether subsets of fewer than k entries are allowed too.

    Examples
    --------
    >>> from dcfw.sets import Hypersimplex
    >>> Hypersimplex(4, k=2).lmo(np.array([3.0, -1.0, 2.0, 0.0]))
    array([0., 1., 0., 1.])
    >>> Hypersimplex(4, k=3, at_most=True).lmo(np.array([3.0, -1.0, 2.0, 0.0]))
    array([0., 1., 0., 0.])
    """

    def __init__(self, n: int | tuple[int, ...], k: int, radius: float = 1.0, at_most: bool = False) -> None:
        self._set_size(n, radius, at_most)
        self.k = _validate.integer(k, "k", low=1, high=math.prod(self.shape))
        self.upper = np.full(self.shape, self.radius)
        self._set_sum(self.k * self.radius)

    def _atom(self, G: np.ndarray) -> Entries:
        flat = G.reshape(-1)
        chosen = np.argpartition(flat, self.k - 1)[: self.k] if self.k < flat.size else np.arange(self.k)
        if self.at_most:
            chosen = chosen[flat[chosen] < 0.0]
        return Entries(np.sort(chosen), np.full(len(chosen), self.radius), self.shape)

    def spheres(self) -> Spheres:
        return coordinate_spheres(0.5 * self.upper) if self.at_most else one_sphere(self.shape)

    def _parameters(self) -> str:
        return f", k={self.k}" + Set._parameters(self) + (", at_most=True" if self.at_most else "")


def longest(upper: np.ndarray, total: float) -> float:
    """Return a bound on ||d|| for |d| <= upper, sum |d| <= total: sum d^2 <= sum |d| upper, a knapsack."""
    largest = float(upper.max())  # in its unit no square overflows
    ordered = np.sort(upper, axis=None)[::-1] / largest
    filled = np.cumsum(ordered)
    return largest * math.sqrt(float(ordered @ np.clip(total / largest - (filled - ordered), 0.0, ordered)))


def least(G: Array, count: int) -> list[int]:
    """Return the flat indices of the second to (``count`` + 1)-th least entries, in increasing order."""
    if not isinstance(G, np.ndarray):
        return []
    flat = G.reshape(-1)
    count = min(count + 1, flat.size)
    found = np.argpartition(flat, count - 1)[:count]
    return found[np.argsort(flat[found], kind="stable")][1:].tolist()  # type: ignore[no-any-return]


def project_simplex(x: np.ndarray, radius: float) -> np.ndarray:
    """Return the projection max(x - theta, 0), theta such that the entries sum to ``radius``.

    It takes O(n log n): the support is the largest set of leading sorted entries that stay positive.
    """
    x = x - x.max()  # changes no projection, and avoids cancellation for large x
    ordered = np.sort(x, axis=None)[::-1]
    sums = np.cumsum(ordered) - radius
    counts = np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered * counts > sums)[-1])
    return np.asarray(np.maximum(x - sums[last] / counts[last], 0.0))


def project_capped(x: np.ndarray, upper: np.ndarray | float, total: float) -> np.ndarray:
    """Return clip(x - theta, 0, upper) with theta such that the sum is ``total`` (0 to that of upper).

    The sum is piecewise linear and decreasing in theta with kinks at x_i and x_i - upper_i: bisection over
    the sorted kinks finds the right piece, and theta is exact on it.
    """

    def filled(theta: float) -> float:
        return float(np.clip(x - theta, 0.0, upper).sum())

    kinks = np.sort(np.concatenate((x, x - upper), axis=None))
    low, high = 0, len(kinks) - 1  # filled(kinks[low]) >= total >= filled(kinks[high]) = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if filled(float(kinks[middle])) > total else (low, middle)
    above, below = filled(float(kinks[low])), filled(float(kinks[high]))
    share = (above - total) / (above - below) if above > below else 0.0
    more = (kinks[high] - kinks[low]) * min(max(share, 0.0), 1.0)
    # Subtracted in two steps: theta itself would round a small step from a large kink.
    return np.asarray(np.clip((x - kinks[low]) - more, 0.0, upper))
