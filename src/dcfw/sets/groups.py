"""Balls of group norms, sum over groups of ||x_g||_p: the constraint form of the group lasso.

The oracle takes the vertex of the l_p ball on the group with the largest dual norm ||G_g||_q.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.sets.atoms import Entries
from dcfw.sets.base import excess, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.lp import lp_diameter, lp_norm, lp_vertex, project_l1
from dcfw.sets.simplex import project_simplex


class GroupBall(CompactSet, trusted=True):
    """The ball {sum over groups of ||x_g||_p <= radius}; ``project`` exists for p = 1 and 2.

    Parameters
    ----------
    groups : array_like of int
        The label of each entry's group; its shape is that of x.
    p : float, default 2.0
        The exponent of the norm of a group, at least 1; ``math.inf`` is allowed.
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> from dcfw.sets import GroupBall
    >>> GroupBall([0, 0, 1, 1]).lmo(np.array([3.0, 4.0, -4.9, 0.0]))
    array([-0.6, -0.8,  0. ,  0. ])
    """

    def __init__(self, groups: Any, p: float = 2.0, radius: float = 1.0) -> None:
        labels = to_numpy(_validate.array(groups, "groups", floating=False))
        if labels.size == 0 or labels.ndim == 0:
            raise ValueError(f"groups must not be empty, got shape {labels.shape}")
        if labels.dtype.kind == "f" and bool((labels != np.round(labels)).any()):
            raise ValueError("groups must hold integers, the labels of the groups")
        self.shape = tuple(labels.shape)
        self.p = _validate.scalar(p, "p", low=1.0, allow_inf=True)
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        _, self.groups, sizes = np.unique(labels.reshape(-1), return_inverse=True, return_counts=True)
        self._order = np.argsort(self.groups, kind="stable")
        self._starts = np.cumsum(sizes) - sizes
        self._members = np.split(self._order, self._starts[1:])
        self.scale, largest = self.radius, int(sizes.max())
        self.diameter = lp_diameter(largest, self.p, self.radius)
        self.polytope = self.p in (1.0, math.inf) or largest == 1
        self.faces = not self.polytope and len(sizes) > 1
        if len(sizes) == 1 and self.p == 2.0:
            self.strong_convexity = 1.0 / self.radius
        if self.p in (1.0, 2.0):
            self.project = self._nearest

    def _norms(self, x: np.ndarray, p: float) -> np.ndarray:
        size = np.abs(x.reshape(-1))[self._order]
        if p == math.inf:
            return np.maximum.reduceat(size, self._starts)
        largest = float(size.max())
        if largest == 0.0 or not math.isfinite(largest):
            return np.full(len(self._starts), largest)
        sums: np.ndarray = np.add.reduceat((size / largest) ** p, self._starts)
        return np.asarray(largest * sums ** (1.0 / p))

    def _atom(self, G: np.ndarray) -> Entries:
        q = math.inf if self.p == 1.0 else 1.0 if self.p == math.inf else self.p / (self.p - 1.0)
        members = self._members[int(self._norms(G, q).argmax())]
        values = lp_vertex(G.reshape(-1)[members], self.p, self.radius)
        return Entries(members, values, self.shape)

    def violation(self, x: Array) -> float:
        return excess(float(self._norms(self._values(x), self.p).sum()) - self.radius)

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    @in_numpy
    def _nearest(self, x: Array) -> Array:
        """Return the nearest point, whose group norms are the projection of those of x onto a simplex."""
        if self.p == 1.0:
            return project_l1(x, self.radius)
        norms = self._norms(x, 2.0)
        if lp_norm(norms, 1.0) <= self.radius:
            return x
        factors = project_simplex(norms, self.radius) / np.where(norms > 0.0, norms, 1.0)
        return np.asarray(x * factors[self.groups].reshape(self.shape))

    def _parameters(self) -> str:
        return f", groups={len(self._members)}, p={self.p:g}" + super()._parameters()
