"""The simplex {x >= 0, sum x = radius}, whose linear oracle is one argmin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, namespace
from dcfw.sets.atoms import Atom, OneHot
from dcfw.sets.base import AtomOracle, Oracle, Set, excess, first_hit, in_numpy, one_hot
from dcfw.sets.spheres import Spheres, one_sphere


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

    def __init__(self, n: int | tuple[int, ...], radius: float = 1.0) -> None:
        self.shape = _validate.shape(n, "n")
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.scale = self.radius
        self.diameter = self.radius * math.sqrt(2.0) if math.prod(self.shape) > 1 else 0.0

    def _vertex(self, G: Array) -> Array:
        if isinstance(G, np.ndarray):
            return self._atom(G).dense()
        xp = namespace(G)
        return one_hot(int(xp.argmin(xp.reshape(G, (-1,)))), self.radius, G)

    def _atom(self, G: np.ndarray) -> OneHot:
        return OneHot(int(G.argmin()), self.radius, self.shape, G.dtype)

    def oracle(self) -> Oracle:
        """Return an oracle that answers NumPy gradients with a :class:`~dcfw.sets.atoms.OneHot`."""
        return SimplexOracle(self)

    def violation(self, x: Array) -> float:
        """Return the larger of ``|sum x - radius|`` and the most negative entry's size."""
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


class SimplexOracle(AtomOracle):
    """The argmin, kept as an index."""

    def runners_up(self, G: Array, count: int) -> list[Atom]:
        domain = self.domain
        return [OneHot(j, domain.radius, domain.shape, G.dtype) for j in least(G, count)]


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
