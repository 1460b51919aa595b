"""DC-FW, Algorithm 1 of the paper: Frank-Wolfe for differences of convex functions.

The method's name for each line of the algorithm is the paper's own; the inner loop's body (lines 5, 6 and
10: the vertex S, the direction D, the step eta) is :func:`dcfw.solvers.loop.frank_wolfe`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcfw.functions.base import Linearisation
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run


@dataclass(frozen=True)
class DCFW:
    """Minimise f - g: linearise g at x_t, run Frank-Wolfe on the convex surrogate, repeat."""

    name = "dcfw"
    needs_split = True

    def solve(self, problem: Problem, run: Run) -> None:
        f, g, frank_wolfe, step = problem.f, problem.g, problem.inner, problem.step
        x_t, f_t, eps = problem.x0, None, None
        grad = run.grad_f(f, x_t)
        while True:  # t = 1, 2, ...
            u_t = run.linearise(g, x_t)  # the only subgradient of g in this outer step
            f_t = run.value_of(f, x_t, grad, f_t)
            for X_tk in frank_wolfe(
                run, f, x_t, grad, step, linear=u_t.slope, value=f_t, max_steps=run.max_inner
            ):  # k = 1, 2, ...: the vertex S and the gap -<grad f(X_tk) - u_t, D> are known
                if X_tk.k == 1:
                    run.visit(x_t, f_t - u_t.value, X_tk.gap)  # ends the run when the gap meets tol
                    eps = run.tolerance(problem.tolerance, eps, X_tk.gap)
                if problem.tolerance.enough(X_tk.gap, run.eps, X_tk.decrease):  # the gap is at most eps/2
                    break
            run.certify(*certificate(X_tk, u_t))
            x_t, grad, f_t = X_tk.x, X_tk.grad, X_tk.value
            run.nit += 1


def certificate(X: State, u: Linearisation) -> tuple[float, float]:
    """Return an interval that contains gap_DC(x_t), from the inner loop that started there.

    The surrogate's decrease is a lower bound only where g has one subgradient: gap_DC takes the least over
    all of them.
    """
    low, high = X.certificate()
    return (low if u.unique else 0.0), high
