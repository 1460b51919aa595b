"""The graduated path of ``native/graduated_path.cpp`` in NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw.kernels.lap import solver


class GraduatedPath:
    def __init__(self, A: np.ndarray, B: np.ndarray, C: np.ndarray, squares_A: Any, squares_B: Any) -> None:
        self.A, self.B, self.C, self.squares = A, B, C, (squares_A, squares_B)
        self.n = len(A)

    def follow(
        self, X: np.ndarray, G: np.ndarray, thetas: list[float], steps: int, tolerance: float, max_lmo: int
    ) -> tuple[np.ndarray, int, int, int]:
        """Return the permutation (empty if an assignment problem failed), LAP solves, steps and stages."""
        AA, BB = self.squares
        R = X if AA is None else AA @ X + X @ BB
        self.lap, self.count = solver(self.n), 0
        inner, stages, p = 0, 0, np.empty(0, dtype=np.int64)
        for theta in thetas:
            stages += 1
            first, settled = -1.0, False
            for _ in range(steps):
                if self.count >= max_lmo:
                    break
                vertex = self._vertex(G + theta * R)
                if vertex is None:
                    return np.empty(0, dtype=np.int64), self.count, inner, stages
                p, S, GS, RS = vertex
                D = S - X
                gap = -float(np.sum((G + theta * R) * D))
                first = gap if first < 0.0 else first
                if not gap > 0.0:
                    settled = np.array_equal(X, S)
                    break
                inner += 1
                curvature = float(np.sum((GS - G + theta * (RS - R)) * D))
                eta = min(1.0, gap / curvature) if curvature > 0.0 else 1.0
                X, G, R = (M + eta * (N - M) if eta < 1.0 else N for M, N in ((X, S), (G, GS), (R, RS)))
                if gap <= tolerance * first:
                    break
            if settled or self.count >= max_lmo:
                break
        last = None
        while self.count < max(max_lmo, 1) and (vertex := self._vertex(G + thetas[-1] * R)) is not None:
            p, _, G, R = vertex
            if last is not None and np.array_equal(p, last):
                break
            last = p
        return p, self.count, inner, stages

    def _vertex(self, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        self.count += 1
        p = self.lap.assign(np.ascontiguousarray(cost))
        if p is None:
            return None
        S = np.eye(self.n)[p]
        G = self.A @ self.B.T[p] + self.A.T @ self.B[p] + self.C
        AA, BB = self.squares
        return p, S, G, S if AA is None else AA[:, np.argsort(p)] + BB[p]
