"""Simplices with an upper bound on each entry: the capped simplex and the hypersimplex.

The linear oracle is a fractional knapsack: it fills the entries in increasing order of their costs, each up
to its bound, until the sum is reached.  The projection is clip(x - theta, 0, upper) with one number theta.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.sets.atoms import Entries
from dcfw.sets.base import Set, excess, first_hit, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.simplex import project_capped
from dcfw.sets.spheres import Spheres, coordinate_spheres, one_sphere


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
        """Return the largest violation of a bound or relative error of the sum."""
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
