"""The default for one function that is not known to be convex: Frank-Wolfe first, DC-FW once that pays.

Plain Frank-Wolfe on phi needs no split, and goes to a vertex in a few steps where phi's minimisers are
vertices, as those of many nonconvex functions are.  Where they are not, it zigzags.  On a polytope it then
gets an active set, whose steps on phi need no split either; a quadratic has it from the start where several
vertices can enter at a time, as on a simplex.  If that stalls, the split is made, and DC-FW goes on from the
point reached, with an active set where that pays.  ``python -m bench defaults`` compares this rule with its
parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dcfw._arrays import Array, inner, norm2
from dcfw.functions.base import Function
from dcfw.functions.dc import DC
from dcfw.sets.atoms import Atom
from dcfw.solvers import ball, coordinates
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.loop import State, frank_wolfe
from dcfw.solvers.problem import Method, Problem
from dcfw.solvers.run import Run
from dcfw.steps import Exact

WINDOW = 8
"""A stage continues as long as its least gap falls, from one such number of steps to the next, by ..."""

FALL = 0.5
"""... this factor."""

ROUGH = 0.1
"""The slope along a plain step need only fall to this part of the first: the next vertex is another one."""


NEAR = 10.0
"""The last steps of a given f - g, from this multiple of the tolerance on, are DC-FW's, which certifies."""


class Progress:
    """Whether the gaps of a stage still fall fast enough."""

    def __init__(self, window: int) -> None:
        self.window, self.count = window, 0
        self.least = self.before = math.inf

    def stalls(self, gap: float) -> bool:
        self.least, self.count = min(self.least, gap), self.count + 1
        if self.count % self.window:
            return False
        slow, self.before = self.least > FALL * self.before, self.least
        return slow


class Staged:
    """Frank-Wolfe on phi while its gap falls fast, then the method that ``decompose(phi)`` returns.

    ``decompose`` returns the parts phi = f - g and the method for them.
    """

    name = "auto"
    needs_split = False

    def __init__(self, decompose: Any) -> None:
        self.decompose = decompose

    def solve(self, problem: Problem, run: Run) -> None:
        phi, x = problem.phi, problem.x0
        grad = run.grad_f(phi, x)
        if isinstance(phi, DC):  # each part answers for its own value
            first, near = run.value(phi.f, x) - run.value(phi.g, x), NEAR
        else:
            first, near = run.value_of(phi, x, grad), 0.0
        run.ledger.extra["split"] = "none (Frank-Wolfe)"
        active = isinstance(problem.inner, ActiveLoop)
        if ball.applies(problem.domain) and not phi.affine_grad:
            steps = ball.sliding_steps(run, phi, x, grad, first)
            x = _while_they_pay(steps, run, first, Progress(8 * WINDOW), near).x
        elif active and coordinates.applies(phi, problem.domain, x):
            x, grad = self._all_vertices(problem, run, grad, first)
        elif not (active and phi.affine_grad and _many_at_once(phi, run, x, grad)):
            x, grad = self._plain(problem, run, grad, first)
        if active:
            first = run.value_of(phi, x, grad)
            rough = Exact(accuracy=ROUGH).bind(phi, problem.domain)
            steps = problem.inner(run, phi, x, grad, rough, value=first, convex=False)
            # Quadratics know the gradients at their atoms: steps cost little, and may be tried for longer.
            x = _while_they_pay(steps, run, first, Progress(2 * WINDOW if phi.affine_grad else WINDOW // 2)).x
        self._go_on(phi, replace(problem, x0=x), run)

    def _all_vertices(self, problem: Problem, run: Run, grad: Array, first: float) -> tuple[Array, Array]:
        """Take rounds of steps between all vertices of a simplex while they pay."""
        phi: Any = problem.phi
        last: list[State] = []

        def rounds() -> Iterator[State]:
            for X in coordinates.pairwise(run, phi, problem.x0, grad, first):
                last[:] = [X]
                yield X

        try:
            X = _while_they_pay(rounds(), run, first, Progress(WINDOW))
        finally:
            for reached in last:
                problem.inner.hold(coordinates.vertices(reached.x, run.domain.radius), reached.x)  # type: ignore[attr-defined]
        return X.x, X.grad

    def _plain(self, problem: Problem, run: Run, grad: Array, first: float) -> tuple[Array, Array]:
        """Take plain Frank-Wolfe steps while they pay; return the point reached, and its gradient."""
        phi, x = problem.phi, problem.x0
        progress = Progress(WINDOW)
        trail = ActiveSet(x) if isinstance(problem.inner, ActiveLoop) else None
        last: Any = None
        step = Exact(accuracy=ROUGH).bind(phi, problem.domain)
        for X in frank_wolfe(run, phi, x, grad, step, value=first, convex=False):
            if trail is not None and last is not None:
                _extend(trail, last[0], last[1], X.x)
            run.visit(X.x, first - X.decrease(), X.gap)
            last = X.x, X.S
            X.last = progress.stalls(X.gap)  # the step to come is taken all the same
        if trail is None:
            return X.x, X.grad
        _extend(trail, last[0], last[1], X.x)
        trail.normalise()
        x = trail.point()
        problem.inner.hold(trail, x)  # type: ignore[attr-defined]
        return x, run.grad_f(phi, x)

    def _go_on(self, phi: Function, problem: Problem, run: Run) -> None:
        parts, method = self.decompose(phi)
        run.ledger.extra.update(split=parts.split, conditional=parts.conditional)
        f, g = parts.f, parts.g
        step = problem.rule.bind(f, problem.domain)
        solver: Method = method
        solver.solve(replace(problem, f=f, g=g, step=step), run)


def _while_they_pay(
    steps: Iterator[State], run: Run, first: float, progress: Progress, near: float = 0.0
) -> State:
    """Take steps on phi while the gap falls fast, and is not yet within ``near`` times the tolerance."""
    for X in steps:
        if near and X.k > 1 and X.gap <= near * run.threshold:
            break
        run.visit(X.x, first - X.decrease(), X.gap)
        if progress.stalls(X.gap):
            break
    return X


def _many_at_once(phi: Function, run: Run, x: Array, grad: Array) -> bool:
    """Return whether to begin with an active set: several vertices can enter it at a time, and will have to.

    A quadratic on which the first step goes all the way to a vertex may well end at one.
    """
    near = run.runners_up(grad, 1)
    if not near or not phi.prefetch(near):
        return False
    change = run.grad_f_at(phi, near[0]) - grad
    curvature = near[0].inner(change) - inner(x, change)
    return curvature > inner(grad, x) - near[0].inner(grad)


def _extend(trail: ActiveSet, x: Array, S: Atom, reached: Array) -> None:
    """Update the vertices and weights that make up x for a step that went from x towards S."""
    d = S.dense() - x
    length = norm2(d)
    eta = min(max(inner(reached - x, d) / length, 0.0), 1.0) if length else 0.0
    place = trail.find(S)
    trail.move((-1.0, 1.0, 0.0), trail.add(S) if place is None else place, 0, eta)
