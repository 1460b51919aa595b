"""The nuclear norm with subgradients computed as polar factors.

>>> g = PolarNuclearNorm(2.0)
>>> g.linearise(np.diag([3.0, -1.0])).slope
array([[ 2.,  0.],
       [ 0., -2.]])
"""

from __future__ import annotations

import numpy as np

from dcfw._arrays import Array, inner, is_numpy
from dcfw.functions.base import Linearisation
from dcfw.functions.norms import NuclearNorm
from dcfw.sets.polar import SMALL, by_eigh


class PolarNuclearNorm(NuclearNorm, trusted=True):
    """scale * ||x||_*, faster than :class:`dcfw.functions.NuclearNorm` for larger x of full rank.

    There the subgradient is the polar factor, at half the cost of an SVD, and its inner product with x is the
    value.
    """

    def linearise(self, x: Array) -> Linearisation:
        if is_numpy(x) and x.ndim == 2 and min(x.shape) > SMALL:
            S = by_eigh(x) if x.shape[0] >= x.shape[1] else by_eigh(x.T)
            if S is not None:
                slope = self.scale * (S if S.shape == x.shape else S.T)
                return Linearisation(inner(slope, x), slope, True)
        return super().linearise(x)

    def value(self, x: Array) -> float:
        if is_numpy(x) and x.ndim == 2:
            return self.scale * float(np.linalg.svd(x, compute_uv=False).sum())
        return super().value(x)
