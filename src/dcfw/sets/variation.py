"""Signals of bounded variation: {sum |x_{i+1} - x_i| <= radius, mean x = mean}.

The vertices have one jump of size +-radius; the oracle takes one pass over the gradient.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.sets.atoms import Dense
from dcfw.sets.base import excess
from dcfw.sets.compact import CompactSet


class TotalVariation1D(CompactSet, trusted=True):
    """Vectors with total variation at most ``radius`` and a given mean.

    Without a given mean the set would be unbounded, because constants have no variation.

    Parameters
    ----------
    n : int
        The number of entries.
    radius : float, default 1.0
        The largest total variation.
    mean : float, default 0.0
        The mean of the entries.

    Examples
    --------
    >>> from dcfw.sets import TotalVariation1D
    >>> TotalVariation1D(4).lmo(np.array([1.0, 0.0, -1.0, -1.0]))
    array([-0.5, -0.5,  0.5,  0.5])
    """

    polytope = True

    def __init__(self, n: int, radius: float = 1.0, mean: float = 0.0) -> None:
        n = _validate.integer(n, "n", low=1)
        self.shape = (n,)
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.mean = _validate.scalar(mean, "mean")
        self.scale = self.radius
        # A jump after i entries has the length sqrt(i (n-i) / n) radius, which is largest in the middle.
        self.diameter = 2.0 * self.radius * math.sqrt((n // 2) * (n - n // 2) / n)

    def _atom(self, G: np.ndarray) -> Dense:
        n = len(G)
        if n == 1:
            return Dense(np.full(1, self.mean))
        G = G / (float(np.abs(G).max()) or 1.0)
        # <G, jump after i entries> = -(sum of the first i entries of G - mean), times the radius.
        before = np.cumsum(G - G.mean())[:-1]
        at = int(np.abs(before).argmax()) + 1
        jump = self.radius if before[at - 1] >= 0.0 else -self.radius
        s = np.full(n, self.mean - jump * (n - at) / n)
        s[at:] += jump
        return Dense(s)

    def violation(self, x: Array) -> float:
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        with np.errstate(over="ignore"):  # sums of huge entries may be infinite
            variation, mean = float(np.abs(np.diff(x)).sum()), float(x.mean())
        return excess(max(variation - self.radius, abs(mean - self.mean)))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(G - G.mean())

    def _centre(self) -> np.ndarray:
        return np.full(self.shape, self.mean)

    def _parameters(self) -> str:
        return super()._parameters() + ("" if self.mean == 0.0 else f", mean={self.mean:g}")
