"""The permutahedron: the hull of all rearrangements of a vector.

The linear oracle sorts, assigning the largest number to the smallest cost.  Membership is majorisation, and
the projection is one isotonic regression (Lim and Wright, 2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, norm, to_numpy
from dcfw.sets.atoms import Dense
from dcfw.sets.base import excess, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.spheres import Spheres, one_sphere


class Permutahedron(CompactSet, trusted=True):
    """The convex hull of the rearrangements of ``w``.

    Parameters
    ----------
    w : array_like
        A vector; its order does not matter.

    Examples
    --------
    >>> from dcfw.sets import Permutahedron
    >>> Permutahedron([1.0, 2.0, 3.0]).lmo(np.array([0.5, -1.0, 0.0]))
    array([1., 3., 2.])
    """

    polytope = True

    def __init__(self, w: Any) -> None:
        values = np.asarray(to_numpy(_validate.array(w, "w", ndim=1)), dtype=np.float64)
        if not len(values):
            raise ValueError("w must not be empty")
        self.w = np.sort(values)[::-1].copy()
        self.shape = self.w.shape
        self.scale = float(np.abs(self.w).max()) or 1.0
        self._tops = np.cumsum(self.w)
        self.diameter = norm(self.w - self.w[::-1])

    def _atom(self, G: np.ndarray) -> Dense:
        s = np.empty(self.shape)
        s[np.argsort(G, kind="stable")] = self.w
        return Dense(s)

    def violation(self, x: Array) -> float:
        """Return the largest excess of a mean of k largest entries over that of w (error for k = n)."""
        tops = np.cumsum(np.sort(self._values(x))[::-1]) - self._tops
        tops[-1] = abs(tops[-1])
        return excess(float((tops / np.arange(1, len(tops) + 1)).max()))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(G - G.mean()) if self.w[0] > self.w[-1] else np.zeros(self.shape)

    def spheres(self) -> Spheres:
        return one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return np.full(self.shape, self._tops[-1] / len(self.w))

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the nearest point, which is x less the decreasing fit of x - w, x in decreasing order."""
        from scipy.optimize import isotonic_regression

        order = np.argsort(-x, kind="stable")
        excesses = x[order] - self.w
        y = np.empty(self.shape)
        # x - fit = w + ((x - w) - fit): the bracket is small where x is large.
        y[order] = self.w + (excesses - isotonic_regression(excesses, increasing=False).x)
        return y
