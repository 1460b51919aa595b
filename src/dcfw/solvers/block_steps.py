"""Frank-Wolfe on a product of sets with a step length for each block.

All blocks move in one step.  With d = s - x and M_i phi's curvature in block i (the secant of the last
steps), the block's short step is eta_i = min(gap_i / (M_i ||d_i||^2), 1); the line search is along (eta_i
d_i), scaled to the longest feasible step.  The first steps have eta_i = 1: where blocks depend on their
neighbours, early decisions lead to worse points (by 0.3 % on the chain of ``python -m bench defaults``).

Reference: Braun, Pokutta and Woodstock 2024 (short steps in each block, with one M found by backtracking).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw._arrays import Array, like, to_numpy
from dcfw.sets.atoms import Dense
from dcfw.sets.product import check_blocks
from dcfw.solvers.loop import State, smooth_step
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run

WARM_UP = 8  # initial Frank-Wolfe steps
FLOOR = 1e-3  # least curvature of a block, relative to the blocks' mean


class BlockSteps:
    """``method="block"`` for one differentiable function without a known split."""

    name = "block"
    needs_split = False

    def __init__(self, domain: Any) -> None:
        self.sizes = np.array([math.prod(shape) for shape in check_blocks(domain).shapes])
        self.starts = np.cumsum(self.sizes) - self.sizes

    def solve(self, problem: Problem, run: Run) -> None:
        phi, x = problem.phi, problem.x0
        grad = run.grad_f(phi, x)
        value = run.value_of(phi, x, grad)
        X = State(run, phi, x, grad, value, step=problem.step, convex=False, outer=True)
        curvature: np.ndarray | None = None
        while True:
            curvature = run.outer_step(curvature)
            S, X.gap = run.lmo(X.grad, X.x)
            if X.value is None:
                X.value = run.value(phi, X.x)
            run.visit(X.x, X.value, X.gap)
            run.before_step(X)
            d = S.dense() - X.x
            gaps = np.maximum(self._sums(-X.grad * d), 0.0)
            eta = np.ones_like(gaps)
            if curvature is not None and X.k > WARM_UP:
                eta = _short(gaps, curvature * self._sums(d * d))
            target = Dense(X.x + like(np.repeat(eta, self.sizes), X.x) * d)
            x, grad = X.x, X.grad
            smooth_step(X, target, float(eta @ gaps))
            curvature = self._curvature(X.x - x, X.grad - grad, curvature)
            X.advance()

    def _sums(self, products: Array) -> np.ndarray:
        return np.asarray(np.add.reduceat(to_numpy(products), self.starts), dtype=np.float64)

    def _curvature(self, moved: Array, change: Array, before: np.ndarray | None) -> np.ndarray | None:
        """Return the blocks' curvatures: the geometric mean of the last step's and those before."""
        length, found = self._sums(moved * moved), self._sums(moved * change)
        still = length == 0.0
        found = np.divide(found, length, out=np.zeros_like(found), where=~still)
        floor = FLOOR * float(np.abs(found).mean())
        if floor == 0.0:
            return before
        found = np.maximum(found, floor)
        return np.asarray(found if before is None else np.where(still, before, np.sqrt(before * found)))


def _short(gaps: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    eta = np.divide(gaps, bounds, out=np.ones_like(gaps), where=bounds > gaps)
    return np.asarray(eta / eta.max())
