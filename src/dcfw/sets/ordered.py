"""Sets of sorted entries: balls of ordered weighted l1 (OWL, SLOPE, OSCAR) and top-k norms, permutahedra.

With the sizes in decreasing order |x|_(1) >= ... >= |x|_(n) and weights w_1 >= ... >= w_n >= 0, the norm is
sum_i w_i |x|_(i).  Its unit ball is the hull of the vectors with i entries +-1/W_i, W_i = w_1 + ... + w_i,
for i = 1, ..., n; such a vector is a vertex unless w_1 = ... = w_i or w_{i+1} = 0 (then it is a mean of
others).  The oracle compares the sums of the i largest |G|, divided by W_i.

The projection onto the ball is the proximal operator of a multiple lambda of the norm: the sorted sizes minus
lambda w, made decreasing by isotonic regression and clipped at 0 (Zeng and Figueiredo, 2014; Bogdan et al.,
2015), with the lambda for which the norm is the radius.  That onto a permutahedron is one isotonic regression
(Lim and Wright, 2016).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, norm, to_numpy
from dcfw.sets.atoms import Atom, Dense, Entries, OneHot, Signs
from dcfw.sets.base import Set, excess, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.spheres import Spheres, one_sphere

FAR = 1e10  # points with a larger entry, in units of the radius, are scaled down before they are projected


class OrderedWeightedL1(CompactSet, trusted=True):
    """The ball of the ordered weighted l1 norm: ``sum_i w_i |x|_(i) <= radius``.

    Parameters
    ----------
    weights : array_like
        w_1 >= w_2 >= ... >= w_n >= 0 with w_1 > 0, one for each entry of x.  All ones give the l1 ball,
        (1, 0, ..., 0) the cube.
    radius : float, default 1.0
        The radius.
    shape : int or tuple of int, optional
        The shape of x, by default a vector.

    Examples
    --------
    >>> from dcfw.sets import OrderedWeightedL1
    >>> OrderedWeightedL1([1.0, 0.6, 0.4]).lmo(np.array([1.0, -0.9, 0.1]))
    array([-0.625,  0.625,  0.   ])
    """

    polytope = True

    def __init__(self, weights: Any, radius: float = 1.0, shape: int | tuple[int, ...] | None = None) -> None:
        w = np.array(to_numpy(_validate.array(weights, "weights", ndim=1)), dtype=np.float64)
        if not len(w) or w[0] <= 0.0 or w[-1] < 0.0 or bool((np.diff(w) > 0.0).any()):
            raise ValueError("weights must be decreasing and not negative, the first of them positive")
        self.shape = (len(w),) if shape is None else _validate.shape(shape)
        if math.prod(self.shape) != len(w):
            raise ValueError(f"weights must have an entry for each of shape {self.shape}, got {len(w)}")
        self.weights = w
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        # In units of the first weight no sum of weights overflows.
        with np.errstate(over="ignore"):
            self._weights, self._radius = w / w[0], float(self.radius / w[0])
        if not 0.0 < self._radius < math.inf:
            raise ValueError(f"weights and radius are too far apart: {w[0]:g} and {self.radius:g}")
        self.scale, w = self._radius, self._weights
        vertices = np.append(w[1:] > 0.0, True) & np.append(True, w[1:] < w[0])
        self._sizes = np.flatnonzero(vertices) + 1
        self._sums = np.cumsum(w)[self._sizes - 1]
        self.diameter = 2.0 * self._radius * float((np.sqrt(self._sizes) / self._sums).max())

    def _atom(self, G: np.ndarray) -> Atom:
        flat = G.reshape(-1)
        order = np.argsort(-np.abs(flat), kind="stable")
        sums = np.cumsum(np.abs(flat[order]) / (np.abs(flat[order[0]]) or 1.0))  # scaled against overflow
        best = int((sums[self._sizes - 1] / self._sums).argmax())
        count, value = int(self._sizes[best]), self._radius / float(self._sums[best])
        if count == flat.size > 1:
            return Signs(np.where(G > 0.0, -1, 1).astype(np.int8), value)
        chosen = np.sort(order[:count])
        values = np.where(flat[chosen] > 0.0, -value, value)
        if count == 1:
            return OneHot(int(chosen[0]), float(values[0]), self.shape)
        return Entries(chosen, values, self.shape)

    def violation(self, x: Array) -> float:
        """Return the excess of the norm over the radius, in units of the first weight."""
        ordered = np.sort(np.abs(self._values(x)), axis=None)[::-1]
        return excess(self._norm(ordered) - self._radius) if np.isfinite(ordered).all() else math.inf

    def _norm(self, ordered: np.ndarray) -> float:
        largest = float(ordered[0])
        return largest * float(self._weights @ (ordered / largest)) if largest > 0.0 else 0.0

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the point of the ball nearest to ``x``, to rounding."""
        from scipy.optimize import brentq, isotonic_regression

        size = np.abs(x).reshape(-1)
        order = np.argsort(-size, kind="stable")
        ordered = size[order]
        if self._norm(ordered) <= self._radius:
            return x
        # From farther away the ball would vanish in rounding, and a scaled point has the same nearest face.
        ordered = ordered * min(1.0, FAR * self._radius / float(ordered[0]))

        def shrunk(multiplier: float) -> np.ndarray:
            fit = isotonic_regression(ordered - multiplier * self._weights, increasing=False)
            return np.asarray(np.maximum(fit.x, 0.0))

        # For a multiplier above the dual norm of x the answer is 0.
        high = 1.001 * float((np.cumsum(ordered)[self._sizes - 1] / self._sums).max())
        root = brentq(lambda t: self._norm(shrunk(t)) - self._radius, 0.0, high, xtol=1e-300, rtol=1e-15)
        nearest = shrunk(root)
        y = np.empty(size.size)
        y[order] = nearest * min(1.0, self._radius / self._norm(nearest))
        return np.asarray(np.copysign(y.reshape(x.shape), x))

    def __repr__(self) -> str:
        shape = self.shape[0] if len(self.shape) == 1 else self.shape
        return f"{type(self).__name__}(shape={shape}, weights=...{self._parameters()})"


class KNormBall(OrderedWeightedL1, trusted=True):
    """The ball of the top-k norm: the k largest absolute values have a sum of at most ``radius``.

    It is the hull of the l1 ball of radius ``radius`` and the cube of radius ``radius / k``.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    k : int
        From 1 (the cube) to the number of entries (the l1 ball).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> from dcfw.sets import KNormBall
    >>> domain = KNormBall(3, k=2)
    >>> domain.lmo(np.array([3.0, -1.0, 0.5])), domain.lmo(np.array([3.0, -2.0, 2.0]))
    (array([-1.,  0.,  0.]), array([-0.5,  0.5, -0.5]))
    """

    def __init__(self, shape: int | tuple[int, ...], k: int, radius: float = 1.0) -> None:
        sizes = _validate.shape(shape)
        n = math.prod(sizes)
        self.k = _validate.integer(k, "k", low=1, high=n)
        super().__init__((np.arange(n) < self.k).astype(np.float64), radius, sizes)

    def _parameters(self) -> str:
        return f", k={self.k}" + super()._parameters()

    __repr__ = Set.__repr__


class Permutahedron(CompactSet, trusted=True):
    """The convex hull of the rearrangements of ``w``, the vectors that ``w`` majorises.

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
