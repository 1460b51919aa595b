"""The Fantope {0 <= X <= I, trace X = k}: the hull of the orthogonal projections of rank k.

It is the hypersimplex of the eigenvalues: the oracle takes the k lowest eigenvectors, the projection projects
the eigenvalues onto the hypersimplex.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.sets.atoms import Dense
from dcfw.sets.base import excess, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.simplex import project_capped
from dcfw.sets.spheres import Spheres, one_sphere


class Fantope(CompactSet, trusted=True):
    """The symmetric n x n matrices with eigenvalues from 0 to 1 and trace k (sparse PCA, clustering).

    Parameters
    ----------
    n : int
        The order of the matrices.
    k : int
        The trace, from 1 (the spectraplex) to n (a single point).

    Examples
    --------
    >>> from dcfw.sets import Fantope
    >>> Fantope(3, k=2).lmo(np.diag([1.0, -2.0, 0.5])).round(12) + 0.0
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    faces = True

    def __init__(self, n: int, k: int) -> None:
        n = _validate.integer(n, "n", low=1)
        self.k = _validate.integer(k, "k", low=1, high=n)
        self.shape = (n, n)
        self.diameter = math.sqrt(2.0 * min(self.k, n - self.k))

    def _atom(self, G: np.ndarray) -> Dense:
        from scipy.linalg import eigh

        n = self.shape[0]
        if self.k == n:
            return Dense(np.eye(n))
        G = G / (float(np.abs(G).max()) or 1.0)
        # The smaller of two eigenspaces: of the k lowest eigenvalues, or of the others.
        low = 2 * self.k <= n
        _, V = eigh(0.5 * (G + G.T), subset_by_index=(0, self.k - 1) if low else (self.k, n - 1))
        return Dense(V @ V.T if low else np.eye(n) - V @ V.T)

    def violation(self, x: Array) -> float:
        """Return the largest of the asymmetry, the eigenvalues' excess over [0, 1], the trace's error / k."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        values = np.linalg.eigvalsh(0.5 * (x + x.T))
        trace = abs(float(np.trace(x)) - self.k) / self.k
        return excess(max(float(np.abs(x - x.T).max()), -values[0], values[-1] - 1.0, trace))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        n = self.shape[0]
        if self.k == n:
            return np.zeros(self.shape)
        return np.asarray(0.5 * (G + G.T) - np.eye(n) * (float(np.trace(G)) / n))

    def spheres(self) -> Spheres:
        return one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return np.asarray(np.eye(self.shape[0]) * (self.k / self.shape[0]))

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the nearest matrix: the eigenvalues of the symmetric part projected."""
        if self.k == self.shape[0]:
            return np.eye(self.k)
        values, Q = np.linalg.eigh(0.5 * (x + x.T))
        nearest = (Q * project_capped(values, 1.0, float(self.k))) @ Q.T
        return np.asarray(0.5 * (nearest + nearest.T))

    def __repr__(self) -> str:
        return f"Fantope({self.shape[0]}, k={self.k})"
