"""FW-M: Millan, Ferreira and Ugon's Frank-Wolfe for DC problems (2023), with backtracking on phi."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run
from dcfw.steps import Backtracking


@dataclass(frozen=True)
class FWM:
    """Steps min(gap / (2^j L ||d||^2), 1) with the first j that passes the test on phi; then L = 2^j L / 2.

    ``L`` is the first estimate (measured on the first step if None); after ``cap`` trials the run ends.
    """

    L: float | None = None
    cap: int = 30
    name = "fw-m"
    needs_split = True

    def solve(self, problem: Problem, run: Run) -> None:
        f, g, phi, x = problem.f, problem.g, problem.phi, problem.x0
        step = Backtracking(L=self.L, cap=self.cap).bind(phi, problem.domain)
        fun = run.value(phi, x)
        grad, tangent = run.grad_f(f, x), partial(run.linearise, g)
        for X in frank_wolfe(run, f, x, grad, step, linear=tangent, value=fun, merit=phi):
            # The value of the accepted trial is that of the next iterate.
            run.visit(X.x, X.value if X.value is not None else run.value(phi, X.x), X.gap)
