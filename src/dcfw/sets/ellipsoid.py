"""Ellipsoids {(x - c)^T A (x - c) <= radius^2}.

In the eigenbasis of A the oracle is a division, s = c - radius A^{-1} G / sqrt(G^T A^{-1} G), and the
projection one equation in one unknown, solved by Newton's method.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, norm, to_numpy
from dcfw.sets.atoms import Dense
from dcfw.sets.base import excess, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.lp import reach_l2


class Ellipsoid(CompactSet, trusted=True):
    """The ellipsoid {(x - center)^T A (x - center) <= radius^2}.

    Parameters
    ----------
    A : array_like
        A symmetric positive definite matrix, or the vector of its diagonal.
    center : array_like, optional
        The centre, by default the origin.
    radius : float, default 1.0
        The radius.

    Attributes
    ----------
    strong_convexity : float
        lambda_min / (radius sqrt(lambda_max)): the least curvature of the boundary.

    Examples
    --------
    >>> dcfw.sets.Ellipsoid([1.0, 4.0], center=[1.0, 0.0]).lmo(np.array([0.0, 3.0]))
    array([ 1. , -0.5])
    """

    def __init__(self, A: Any, center: Any = None, radius: float = 1.0) -> None:
        matrix = np.asarray(to_numpy(_validate.array(A, "A")), dtype=np.float64)
        if matrix.ndim not in (1, 2) or matrix.size == 0 or matrix.shape[0] != matrix.shape[-1]:
            raise ValueError(
                f"A must be a square matrix or a vector (its diagonal), got shape {matrix.shape}"
            )
        n = len(matrix)
        if matrix.ndim == 1:
            self._eigenvalues, self._basis = matrix.copy(), None
        else:
            if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-10 * float(np.abs(matrix).max())):
                raise ValueError("A must be symmetric")
            self._eigenvalues, self._basis = np.linalg.eigh(0.5 * matrix + 0.5 * matrix.T)
        low, high = float(self._eigenvalues.min()), float(self._eigenvalues.max())
        if low <= n * np.finfo(np.float64).eps * high:
            raise ValueError(f"A must be positive definite, but its lowest eigenvalue is {low:g}")
        self.shape = (n,)
        center = np.zeros(n) if center is None else _validate.array(center, "center", shape=(n,))
        self.center = np.array(to_numpy(center), dtype=np.float64)
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self._axes = self.radius / np.sqrt(self._eigenvalues)  # the half axes: x = c + Q (axes * unit vector)
        self.scale = float(self._axes.min())
        self.diameter = 2.0 * float(self._axes.max())
        self.strong_convexity = float(self._axes.min() / self._axes.max()) / float(self._axes.max())

    def _in(self, x: np.ndarray) -> np.ndarray:
        """Return the coordinates of a direction in the eigenbasis."""
        return x if self._basis is None else np.asarray(self._basis.T @ x)

    def _out(self, y: np.ndarray) -> np.ndarray:
        return y if self._basis is None else np.asarray(self._basis @ y)

    def _atom(self, G: np.ndarray) -> Dense:
        largest = float(np.abs(G).max())
        y = self._axes * self._in(G / largest) if largest > 0.0 else np.eye(1, len(G))[0]
        return Dense(self.center - self._out(self._axes * (y / np.linalg.norm(y))))

    def violation(self, x: Array) -> float:
        """Return the scaled norm minus 1, in units of the shortest half axis."""
        y = self._in(self._values(x) - self.center) / self._axes
        return excess((norm(y) - 1.0) * self.scale)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return reach_l2(self._in(x - self.center) / self._axes, self._in(d) / self._axes, 1.0)

    def _centre(self) -> np.ndarray:
        return self.center.copy()

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the point of the ellipsoid nearest to ``x``."""
        y = self._in(x - self.center)
        z = y / self._axes
        length = norm(z)
        if length <= 1.0:
            return x
        # The nearest point is y / (1 + mu ratios), with mu >= 0 such that it lies on the boundary.  The
        # inverse of its scaled norm is concave and increasing in mu: Newton's method ascends to the root from
        # below.
        ratios = (self._axes.min() / self._axes) ** 2
        mu = length - 1.0
        for _ in range(100):
            scaled = z / (1.0 + mu * ratios)
            length = float(np.linalg.norm(scaled))
            slope = float((scaled**2 * ratios / (1.0 + mu * ratios)).sum()) / length**3
            step = (1.0 - 1.0 / length) / slope
            mu += step
            if abs(step) <= 1e-15 * mu:
                break
        scaled = z / (1.0 + mu * ratios)
        return np.asarray(self.center + self._out(self._axes * scaled / max(1.0, np.linalg.norm(scaled))))

    def _parameters(self) -> str:
        low, high = float(self._eigenvalues.min()), float(self._eigenvalues.max())
        return f", condition={math.sqrt(high) ** 2 / low:.3g}" + super()._parameters()
