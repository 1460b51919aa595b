"""The default for one function not known to be convex: Frank-Wolfe first, DC-FW once that pays.

Plain Frank-Wolfe on phi needs no split, and reaches a vertex in a few steps where phi's minimisers are
vertices. Elsewhere it zigzags: on a polytope it continues with an active set (a quadratic has one from the
start where several vertices can enter at a time), and if that stalls, with DC-FW.  ``python -m bench
defaults`` compares this rule with its parts.
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
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run
from dcfw.steps import Exact

WINDOW, FALL = 8, 0.5  # a stage continues while its least gap falls by this factor every WINDOW steps
ROUGH = 0.1  # the slope along a plain step need only fall to this part: the next vertex is another one
NEAR = 10.0  # for f - g, DC-FW takes over at this multiple of the tolerance, to certify


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
    """Frank-Wolfe on phi while its gap falls fast, then DC-FW on ``decompose(phi)``, (parts, method)."""

    name = "auto"
    needs_split = False

    def __init__(self, decompose: Any) -> None:
        self.decompose = decompose

    def solve(self, problem: Problem, run: Run) -> None:
        phi, x = problem.phi, problem.x0
        grad = run.grad_f(phi, x)
        if isinstance(phi, DC):  # each part reports errors in its own value
            first, near = run.value(phi.f, x) - run.value(phi.g, x), NEAR
        else:
            first, near = run.value_of(phi, x, grad), 0.0
        run.ledger.extra["split"] = "none (Frank-Wolfe)"
        loop: Any = problem.inner if isinstance(problem.inner, ActiveLoop) else None
        X = State(run, phi, x, grad, first)
        if ball.applies(problem.domain) and not phi.affine_grad:
            x = _while_they_pay(ball.sliding_steps(X), run, first, Progress(8 * WINDOW), near).x
        elif loop is not None and coordinates.applies(phi, problem.domain, x):
            try:
                _while_they_pay(coordinates.pairwise(X), run, first, Progress(WINDOW))
            finally:
                loop.hold(coordinates.vertices(X.x, run.domain.radius), X.x)
            x, grad = X.x, X.grad
        elif not (loop is not None and phi.affine_grad and _many_at_once(phi, run, x, grad)):
            x, grad = self._plain(problem, run, grad, first)
        if loop is not None:
            first = run.value_of(phi, x, grad)
            rough = Exact(accuracy=ROUGH).bind(phi, problem.domain)
            steps = loop(run, phi, x, grad, rough, value=first, convex=False)
            # For quadratics the gradients at the atoms are known: steps are cheap, and worth more patience.
            x = _while_they_pay(steps, run, first, Progress(2 * WINDOW if phi.affine_grad else WINDOW // 2)).x
        parts, method = self.decompose(phi)
        run.ledger.extra.update(split=parts.split, conditional=parts.conditional)
        method.solve(replace(problem, x0=x, f=parts.f, g=parts.g), run)

    def _plain(self, problem: Problem, run: Run, grad: Array, first: float) -> tuple[Array, Array]:
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
            X.last = progress.stalls(X.gap)  # the loop still takes the coming step
        if trail is None:
            return X.x, X.grad
        _extend(trail, last[0], last[1], X.x)
        trail.normalise()
        x = trail.point()
        problem.inner.hold(trail, x)  # type: ignore[attr-defined]
        return x, run.grad_f(phi, x)


def _while_they_pay(
    steps: Iterator[State], run: Run, first: float, progress: Progress, near: float = 0.0
) -> State:
    """Take steps on phi while the gap falls fast and exceeds ``near`` times the tolerance."""
    for X in steps:
        if near and X.k > 1 and X.gap <= near * run.threshold:
            break
        run.visit(X.x, first - X.decrease(), X.gap)
        if progress.stalls(X.gap):
            break
    return X


def _many_at_once(phi: Function, run: Run, x: Array, grad: Array) -> bool:
    """Return whether several vertices can enter an active set at once, and will have to."""
    near = run.runners_up(grad, 1)
    if not near or not phi.prefetch(near):
        return False
    change = run.grad_f_at(phi, near[0]) - grad
    curvature = near[0].inner(change) - inner(x, change)
    return curvature > inner(grad, x) - near[0].inner(grad)


def _extend(trail: ActiveSet, x: Array, S: Atom, reached: Array) -> None:
    d = S.dense() - x
    length = norm2(d)
    eta = min(max(inner(reached - x, d) / length, 0.0), 1.0) if length else 0.0
    place = trail.find(S)
    trail.move((-1.0, 1.0, 0.0), trail.add(S) if place is None else place, 0, eta)
