"""The path of ``native/graph_path.hpp`` in NumPy and SciPy, with dense gradients."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment


class GraphPath:
    """The graduated path of two graphs; the arguments are those of the compiled class, as SciPy arrays."""

    def __init__(self, n: int, m: int, pairs: list[Any], U: Any, V: Any, linear: Any, forbidden: Any) -> None:
        self.n, self.m, self.pairs, self.U, self.V = n, m, pairs, U, V
        self.linear = np.zeros((m, m)) if linear is None else linear.toarray()
        self.never = None if forbidden is None else forbidden.toarray() > 0

    def gradients(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        m = self.m
        whole = np.eye(self.n)
        whole[:m, :m] = X
        G = sum((L @ whole @ N)[:m, :m] for L, N in self.pairs) + self.linear
        return np.asarray(G), np.asarray((self.U @ whole + (self.V.T @ whole.T).T)[:m, :m])

    def follow(
        self, thetas: list[float], first_steps: int, steps: int, tolerance: float, weight: float,
        start: np.ndarray, seconds: float,
    ) -> tuple[np.ndarray, int, int, int, bool]:  # fmt: skip
        """Return the free rows' columns, assignment problems, steps, stages and whether time ended the
        path."""
        m, started = self.m, time.perf_counter()
        X = np.full((m, m), (1.0 - weight) / m)
        X[np.arange(m), start] += weight
        G, R = self.gradients(X)
        n_lmo = n_inner = stages = 0
        cut = False
        for theta in thetas:
            stages += 1
            first = None
            for _ in range(first_steps if stages == 1 else steps):
                cut = time.perf_counter() - started >= seconds
                if cut:
                    break
                p = self._vertex(G + theta * R)
                n_lmo += 1
                if len(p) == 0:
                    return p, n_lmo, n_inner, stages, cut
                S = np.eye(m)[p]
                GS, RS = self.gradients(S)
                slope, change = G + theta * R, GS - G + theta * (RS - R)
                gap, curvature = -float(np.vdot(slope, S - X)), float(np.vdot(change, S - X))
                first = gap if first is None else first
                if gap <= 1e-6 * abs(float(np.vdot(slope, X))):
                    break
                n_inner += 1
                eta = gap / curvature if curvature > gap else 1.0
                X, G, R = X + eta * (S - X), G + eta * (GS - G), R + eta * (RS - R)
                if gap <= tolerance * first:
                    break
            if cut:
                break
        last: Any = None
        while True:
            p = self._vertex(G + thetas[-1] * R)
            n_lmo += 1
            if len(p) == 0 or (last is not None and np.array_equal(p, last)) or cut:
                return p, n_lmo, n_inner, stages, cut
            last = p
            G, R = self.gradients(np.eye(m)[p])

    def _vertex(self, cost: np.ndarray) -> np.ndarray:
        try:
            cost = cost if self.never is None else np.where(self.never, np.inf, cost)
            return np.asarray(linear_sum_assignment(cost)[1])
        except ValueError:
            return np.empty(0, dtype=np.int64)
