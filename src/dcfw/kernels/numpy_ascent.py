"""The rounds of ``native/dual_ascent.cpp`` in NumPy, for installations without the compiled extension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw.kernels.lap import solver
from dcfw.kernels.numpy_swaps import Random


class DualAscent:
    """A dual ascent for dense float64 matrices of order n >= 2; see ``native/dual_ascent.hpp``."""

    def __init__(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        n = self.n = len(A)
        self.others = [np.flatnonzero(np.arange(n) != i) for i in range(n)]
        different = ~np.eye(n, dtype=bool)
        self.open = different[:, None, :, None] & different[None, :, None, :]
        self.pairs = np.multiply.outer(A, B).transpose(0, 2, 1, 3)
        self.pairs = np.where(self.open, self.pairs + self.pairs.transpose(2, 3, 0, 1), 0.0)
        self.leader = np.outer(A.diagonal(), B.diagonal()) + C
        self.total = float(np.abs(self.pairs).sum() + np.abs(self.leader).sum())
        least = min(float(self.pairs.min()), 0.0)
        self.pairs[self.open] -= least
        self.total -= least * self.pairs.size
        self.constant = self.start = 0.5 * least * n * (n - 1)
        self.best, self.rounds = -math.inf, 0
        self.order = list(range(n * n))
        self.random = Random(1)
        self.small, self.large = solver(n - 1), solver(n)

    def round(self, give_back: float) -> bool:
        self.rounds += 1
        n = self.n
        for k in range(n * n - 1, 0, -1):
            j = self.random.below(k + 1)
            self.order[k], self.order[j] = self.order[j], self.order[k]
        if not all(self._visit(*divmod(here, n)) for here in self.order):
            return False
        if (reduced := _reduce(self.large, self.leader)) is None:
            return False
        value, low = reduced
        self.leader -= low
        self.constant += value
        self.best = max(self.best, self.constant)
        back = give_back * max(self.constant - self.start, 0.0)
        self.constant -= back
        self.leader += back / n
        return True

    def _visit(self, i: int, j: int) -> bool:
        """Move a part of the least cost of the pairs of (i, j) to its leader."""
        m = self.n - 1
        block = np.ix_(self.others[i], self.others[j])
        costs = np.ascontiguousarray(self.pairs[i, j][block]) + self.leader[i, j] / m
        if (reduced := _reduce(self.small, costs)) is None:
            return False
        value, low = reduced
        part = 0.2 + 0.7 * self.random.uniform()
        taken = part * value if value > 0.0 else value  # pairs keep nonnegative costs
        self.leader[i, j] = taken
        costs += (value - taken) / m - low
        self.pairs[i, j][block] = costs
        self.pairs[:, :, i, j][block] = costs
        return True


def _reduce(lap: Any, costs: np.ndarray) -> tuple[float, float] | None:
    """Subtract optimal prices from the costs; return their sum and the least cost, or None.  The least cost
    is negative only by rounding; the caller subtracts it, and the sum allows for that."""
    if lap.assign(costs) is None:
        return None
    u, v = np.array(lap.u), np.array(lap.v)
    costs -= u[:, None] + v
    low = min(float(costs.min()), 0.0)
    return sum((u + v).tolist()) + len(costs) * low, low
