"""The linear assignment problem: the compiled solver, or SciPy's behind the same methods.

Solvers have the method ``assign(cost)``, which returns the columns of the least assignment in a new array or
None if there is none, and the members ``u``, ``v``, ``columns``, ``counters``, ``blocked`` and ``restore``
for :class:`dcfw.sets.lap.Assignment`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw import kernels

LARGEST = 2.0**1000  # of finite costs: sums of a few thousand such numbers are finite


def solver(n: int) -> Any:
    """Return a solver of n x n problems, the compiled one if it is available."""
    return SciPyLap(n) if kernels.native is None else kernels.native.Lap(n)


class SciPyLap:
    """SciPy's solver, which always starts cold, with the dual prices of its last answer."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.reset()

    def reset(self) -> None:
        self.columns = np.full(self.n, -1, dtype=np.int64)
        self.counters = [0] * 5
        self.blocked: tuple[list[int], list[int]] = ([], [])
        self._cost: np.ndarray | None = None
        self._kept = np.zeros(self.n)  # the prices of a restored state

    def assign(self, cost: np.ndarray) -> np.ndarray | None:
        """Return the least assignment, or None if there is none or the costs are not valid."""
        from scipy.optimize import linear_sum_assignment

        usual = type(cost) is np.ndarray and cost.dtype == np.float64 and cost.flags.c_contiguous
        if not usual or cost.shape != (self.n, self.n):
            return None
        self.reset()
        if not (np.isposinf(cost) | (np.abs(cost) <= LARGEST)).all():
            return None
        try:
            self.columns = np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)
        except ValueError:
            self.blocked = blocked(cost)
            return None
        self.counters[0] = 1
        self._cost = cost.copy()
        return self.columns.copy()

    @property
    def u(self) -> np.ndarray:
        if self._cost is None:
            return np.zeros(self.n)
        return np.asarray(self._cost[np.arange(self.n), self.columns] - self.v[self.columns])

    @property
    def v(self) -> np.ndarray:
        """The column prices of the last answer: distances in the graph of exchanges (Bellman and Ford)."""
        if self._cost is None:
            return self._kept.copy()
        v = np.zeros(self.n)
        row_of = np.argsort(self.columns)
        exchange = self._cost[row_of] - self._cost[row_of, np.arange(self.n)][:, None]
        for _ in range(self.n):
            shorter = np.minimum(v, (v[:, None] + exchange).min(axis=0))
            if np.array_equal(shorter, v):
                break
            v = shorter
        return v

    def restore(self, prices: np.ndarray, columns: np.ndarray, counters: list[int]) -> None:
        """Keep a state for ``get_state``; it does not affect the answers."""
        self.reset()
        self._kept, self.columns, self.counters = prices.copy(), columns.copy(), list(counters)


def blocked(cost: np.ndarray) -> tuple[list[int], list[int]]:
    """Return rows whose finite costs are all in the returned columns, which are one fewer."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    allowed = np.isfinite(cost)
    row_of = maximum_bipartite_matching(csr_array(allowed), perm_type="row")
    free = np.setdiff1d(np.arange(len(cost)), row_of)
    rows, columns = [int(free[0])], []  # reached by alternating paths from a free row
    for i in rows:
        new = [int(j) for j in np.flatnonzero(allowed[i]) if j not in columns]
        columns += new
        rows += [int(row_of[j]) for j in new]
    return rows, columns
