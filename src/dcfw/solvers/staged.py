"""The default for one function that is not known to be convex: Frank-Wolfe first, DC-FW once that pays.

Plain Frank-Wolfe on phi needs no split, and goes to a vertex in a few steps where phi's minimisers are
vertices, as those of many nonconvex functions are.  Where they are not, it zigzags.  A quadratic on a
polytope then gets an active set, whose steps on phi need no split either (a spectral one takes an
eigendecomposition).  If that stalls, and for any other function, the split is made, and DC-FW continues from
the point reached, with an active set where that pays.  ``python -m bench defaults`` compares this rule with
its parts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dcfw._arrays import Array, inner, norm2
from dcfw.functions.base import Function
from dcfw.sets.atoms import Atom
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.problem import Method, Problem
from dcfw.solvers.run import Run

WINDOW = 8
"""A stage continues as long as its least gap falls, from one such number of steps to the next, by ..."""

FALL = 0.5
"""... this factor."""


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
        first = run.value_of(phi, x, grad)
        run.ledger.extra["split"] = "none (Frank-Wolfe)"
        progress = Progress(WINDOW)
        trail = ActiveSet(x) if isinstance(problem.inner, ActiveLoop) else None
        last: Any = None
        for X in frank_wolfe(run, phi, x, grad, problem.step, value=first, convex=False):
            if trail is not None and last is not None:
                _extend(trail, last[0], last[1], X.x)
            run.visit(X.x, first - X.decrease(), X.gap)
            last = X.x, X.S
            X.last = progress.stalls(X.gap)  # the step to come is taken all the same
        x = X.x
        if trail is not None:
            _extend(trail, last[0], last[1], x)
            trail.normalise()
            x = trail.point()
            problem.inner.resume(trail, x, problem.domain)  # type: ignore[attr-defined]
            if phi.affine_grad:
                x = self._with_atoms(replace(problem, x0=x), run)
        self._go_on(phi, replace(problem, x0=x), run)

    def _with_atoms(self, problem: Problem, run: Run) -> Array:
        """Take steps on phi with the active set while they pay; return the point reached."""
        phi, x = problem.phi, problem.x0
        grad = run.grad_f(phi, x)
        first = run.value_of(phi, x, grad)
        progress = Progress(2 * WINDOW)
        for X in problem.inner(run, phi, x, grad, problem.step, value=first, convex=False):
            run.visit(X.x, first - X.decrease(), X.gap)
            if progress.stalls(X.gap):
                break
        return X.x

    def _go_on(self, phi: Function, problem: Problem, run: Run) -> None:
        parts, method = self.decompose(phi)
        run.ledger.extra.update(split=parts.split, conditional=parts.conditional)
        f, g = parts.f, parts.g
        step = problem.rule.bind(f, problem.domain)
        solver: Method = method
        solver.solve(replace(problem, f=f, g=g, step=step), run)


def _extend(trail: ActiveSet, x: Array, S: Atom, reached: Array) -> None:
    """Update the vertices and weights that make up x for a step that went from x towards S."""
    d = S.dense() - x
    length = norm2(d)
    eta = min(max(inner(reached - x, d) / length, 0.0), 1.0) if length else 0.0
    place = trail.find(S)
    trail.move((-1.0, 1.0, 0.0), trail.add(S) if place is None else place, 0, eta)
