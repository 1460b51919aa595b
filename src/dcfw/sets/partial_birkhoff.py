"""Partial assignments: {X >= 0, X 1 <= 1, X^T 1 <= 1, sum of all entries = k}.

The vertices are the m x n matrices with k ones, at most one per row and column.  The oracle solves an
assignment problem of order m + n - k with dummy rows and columns for what is not assigned.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.sets.atoms import Entries
from dcfw.sets.base import excess, first_hit, sums_hit
from dcfw.sets.birkhoff import assignment
from dcfw.sets.compact import CompactSet
from dcfw.sets.spheres import Spheres, zero_one_sphere


class PartialBirkhoff(CompactSet, trusted=True):
    """The convex hull of the m x n partial assignments of k pairs.

    Parameters
    ----------
    m, n : int
        The numbers of rows and columns.
    k : int, optional
        The number of pairs, by default min(m, n).

    Examples
    --------
    >>> from dcfw.sets import PartialBirkhoff
    >>> PartialBirkhoff(2, 3, k=1).lmo(np.array([[1.0, -2.0, 0.0], [0.0, -1.5, 3.0]]))
    array([[0., 1., 0.],
           [0., 0., 0.]])
    """

    polytope = nonnegative = True

    def __init__(self, m: int, n: int, k: int | None = None) -> None:
        m, n = _validate.integer(m, "m", low=1), _validate.integer(n, "n", low=1)
        self.k = min(m, n) if k is None else _validate.integer(k, "k", low=1, high=min(m, n))
        self.shape = (m, n)
        # Two assignments without a common pair, which exist unless m = n = 1.
        self.diameter = math.sqrt(2.0 * self.k) if m * n > 1 else 0.0

    def _atom(self, G: np.ndarray) -> Entries:
        (m, n), k = self.shape, self.k
        unit = float(np.abs(G).max()) or 1.0
        costs = np.zeros((m + n - k, m + n - k))
        # With nonnegative costs, a pair of dummies, which makes room for one more pair, never pays.
        costs[:m, :n] = G / unit - float(G.min()) / unit
        costs[m:, n:] = 1.0
        columns = assignment(costs)[:m]
        rows = np.flatnonzero(columns < n)
        return Entries(rows * n + columns[rows], np.ones(k), self.shape)

    def violation(self, x: Array) -> float:
        """Return the largest excess of a row or column sum, relative error of the sum or negative entry."""
        x = self._values(x)
        over = max(float(x.sum(axis=1).max()), float(x.sum(axis=0).max())) - 1.0
        return excess(max(over, abs(float(x.sum()) - self.k) / self.k, -float(x.min())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        m, n = self.shape
        if self.k == m == n:
            return np.asarray(G - G.mean(axis=0) - G.mean(axis=1)[:, None] + G.mean())
        if self.k == min(m, n):
            return np.asarray(G - G.mean(axis=int(m == self.k), keepdims=True))
        return np.asarray(G - G.mean())

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return min(first_hit(x, -d), *(sums_hit(1.0 - x.sum(axis=i), d, i) for i in (0, 1)))

    def spheres(self) -> Spheres:
        return zero_one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return np.full(self.shape, self.k / math.prod(self.shape))

    def __repr__(self) -> str:
        return f"PartialBirkhoff({self.shape[0]}, {self.shape[1]}, k={self.k})"
