"""DC-FW, Algorithm 1 of Maskan, Hou, Sra and Yurtsever: Frank-Wolfe for differences of convex functions.

The symbols are the paper's.  :meth:`DCFW.solve` is the outer loop, :func:`minimise_surrogate` the inner one,
whose body (lines 5, 6 and 10: the vertex S, the direction D, the step eta) is
:func:`dcfw.solvers.loop.frank_wolfe`.  Its variants differ in one place each:
:class:`~dcfw.solvers.boosted.BoostedDCFW` in the step from the inner loop's last point to x_{t+1},
:class:`~dcfw.solvers.adaptive.AdaptiveDCFW` in f and g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from dcfw._arrays import Array, eps_of, inner, norm
from dcfw.functions.base import Linearisation
from dcfw.functions.dc import DC
from dcfw.solvers.loop import State, not_convex
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run


class Iterate(NamedTuple):
    """x_t, grad f(x_t), f(x_t) if known, and the linearisation of g there."""

    x: Array
    grad: Array
    value: float | None
    u: Linearisation
    memory: Any = None  # the state that a variant of the method keeps between steps


@dataclass(frozen=True)
class DCFW:
    """Minimise f - g: linearise g at x_t, run Frank-Wolfe on the convex surrogate, repeat."""

    name = "dcfw"
    needs_split = True

    def solve(self, problem: Problem, run: Run) -> None:
        f, g, x_1 = problem.f, problem.g, problem.x0
        x_t = Iterate(x_1, run.grad_f(f, x_1), None, run.linearise(g, x_1))
        while True:  # t = 1, 2, ...
            x_t = run.outer_step(x_t)
            X_t = minimise_surrogate(problem, run, x_t)
            run.certify(*certificate(X_t, x_t.u))
            run.end_outer_step()
            x_t, before = self.move(problem, run, x_t, X_t), x_t
            check_convexity(problem, run, before, x_t)

    def move(self, problem: Problem, run: Run, x_t: Iterate, X_t: State) -> Iterate:
        """Return x_{t+1}, the inner loop's last point, with the only subgradient of g in this outer step."""
        return Iterate(X_t.x, X_t.grad, X_t.value, run.linearise(problem.g, X_t.x))


def minimise_surrogate(problem: Problem, run: Run, x_t: Iterate, again: bool = False) -> State:
    """Run Frank-Wolfe on f - <u_t, .> from x_t until its gap is at most eps/2 (lines 4 to 11).

    ``again`` marks a repeated loop from an x_t that has already been recorded and tested.
    """
    f, frank_wolfe, rule = problem.f, problem.inner, problem.tolerance
    x, grad, f_t, u_t, _ = x_t
    f_t = run.value_of(f, x, grad, f_t)
    for X_tk in frank_wolfe(
        run, f, x, grad, problem.step, linear=u_t.slope, value=f_t, max_steps=run.max_inner
    ):  # k = 1, 2, ...: the vertex S and the gap -<grad f(X_tk) - u_t, D> are known
        if X_tk.k == 1 and not again:
            run.visit(x, f_t - u_t.value, X_tk.gap)  # ends the run when the gap meets tol
            run.tolerance(rule, None if run.rule is None else run.eps, X_tk.gap)
        if rule.enough(X_tk.gap, run.eps, X_tk.decrease):  # the gap is at most eps/2
            break
    return X_tk


def check_convexity(problem: Problem, run: Run, x: Iterate, y: Iterate) -> None:
    """End the run if g is not convex: its tangent at x lies above it at y.

    Parts of splits and the library's quadratics were checked when they were made, and a g known to be convex
    may have other coordinates in each outer step.
    """
    g = problem.g
    if not isinstance(problem.phi, DC) or ((g.affine_grad or g.convex) and not g.by_word):
        return
    slope = x.u.slope
    below = x.u.value + inner(slope, y.x - x.x) - y.u.value
    size = abs(x.u.value) + abs(y.u.value) + norm(slope) * (norm(x.x) + norm(y.x))
    if below > 1024.0 * math.sqrt(math.prod(slope.shape)) * eps_of(slope) * size:
        not_convex(run, f"a tangent of g was {below:.3g} above it", part="g")


def certificate(X: State, u: Linearisation) -> tuple[float, float]:
    """Return an interval that contains gap_DC(x_t), from the inner loop that started there.

    The surrogate's decrease is a lower bound only where g has a single subgradient: gap_DC is the minimum
    over all of them.
    """
    low, high = X.certificate()
    return (low if u.unique else 0.0), high
