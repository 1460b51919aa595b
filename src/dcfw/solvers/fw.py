"""FW: the classical Frank-Wolfe method on a smooth, possibly nonconvex phi (Lacoste-Julien 2016)."""

from __future__ import annotations

from dataclasses import dataclass

from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run


@dataclass(frozen=True)
class FW:
    """Frank-Wolfe on phi itself.  Where the curvature along a step is not positive, the step is 1."""

    name = "fw"
    needs_split = False

    def solve(self, problem: Problem, run: Run) -> None:
        phi, x = problem.phi, problem.x0
        grad = run.grad_f(phi, x)
        first = run.value_of(phi, x, grad)
        for X in problem.inner(run, phi, x, grad, problem.step, value=first, convex=False):
            run.visit(X.x, first - X.decrease(), X.gap)
