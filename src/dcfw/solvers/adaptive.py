"""DC-FW on a split whose constant L is found during the run (such as ``splits.sliding(phi, L="auto")``).

The split is f = p + L/2 ||x||^2, g = h + L/2 ||x||^2 with p - h = phi.  A small L means tight surrogates and
long steps, but f and g must be convex.  An outer step is repeated with a larger L if phi(x_{t+1}) exceeds the
surrogate (g lies below its linearisation), or if the curvature of f along a step is negative.  Both measure
the L that is needed.  After a few outer steps without repetition L shrinks, though not below the need of the
last step.  Certificates are conditional on the L used, which a few steps do not prove to be sufficient.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dcfw._arrays import eps_of, inner, norm, norm2
from dcfw.functions.base import Linearisation
from dcfw.functions.dc import joined
from dcfw.result import Status
from dcfw.solvers.dcfw import DCFW, Iterate, certificate, minimise_surrogate
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop

GROW = 2.0  # least factor by which L grows
SHRINK = 0.5  # smallest factor by which L shrinks
SAFETY = 1.1  # safety factor on the measured curvature
ATTEMPTS = 60  # repetitions of an outer step before the run ends


class AdaptiveDCFW:
    """DC-FW or boosted DC-FW on a split with unknown L."""

    needs_split = True

    def __init__(self, method: DCFW, split: Any) -> None:
        self.method, self.split, self.name = method, split, method.name

    def solve(self, problem: Problem, run: Run) -> None:
        p, h, x_1 = self.split.p, self.split.h, problem.x0
        x_t = Iterate(x_1, run.grad_f(p, x_1), None, run.linearise(h, x_1))
        # Too small an L costs an attempt or two, too large a one many outer steps.
        size = problem.domain.scale + norm(x_1)
        L = min(1e-3 * norm(x_t.grad - x_t.u.slope) / size or 1.0, self.split.enough)
        if not math.isfinite(L):
            run.bad_gradient()
        problem = self._at(problem, L, 0.0)
        used: list[float] = []
        patience = calm = 1
        try:
            while True:
                run.keep(step=problem.step)
                run.know(f=problem.f)
                here = (x_t, L, used, patience, calm)
                there = run.outer_step(here)
                if there is not here:
                    x_t, L, used, patience, calm = there
                    f, g = self.split.parts(L)
                    if hasattr(problem.inner, "reattach"):
                        problem.inner.reattach(f)
                    problem = replace(problem, f=f, g=g)
                    run.keep(step=problem.step)
                x_t = x_t._replace(value=run.value_of(p, x_t.x, x_t.grad, x_t.value))
                for attempt in range(ATTEMPTS):
                    X_t, needed = self._attempt(problem, run, x_t, L, attempt > 0)
                    if X_t is not None:
                        break
                    patience, calm = min(2 * patience, 64), 0
                    enlarged = max(GROW * L, SAFETY * needed)
                    # Try a stated L before any larger one.
                    enough = self.split.enough
                    L, before = min(enlarged, enough) if enough > L else enlarged, L
                    if run.n_lmo + 2 > run.max_lmo:
                        raise Stop(Status.MAX_LMO)
                    if _drowns(x_t, L):
                        break
                    if hasattr(problem.inner, "go_back"):
                        problem.inner.go_back(x_t.x)
                    problem = self._at(problem, L, before)
                if X_t is None:
                    text = f"No L up to {L:.3g} makes the surrogate an upper bound of phi"
                    reason = "phi's values are inexact, or its gradient is wrong."
                    raise Stop(Status.LINE_SEARCH, f"{text}: {reason}")
                run.certify(*certificate(X_t, x_t.u))
                used.append(L)
                run.end_outer_step()
                x_t = _shifted(self.method.move(problem, run, _shifted(x_t, L), X_t), -L)
                calm += 1
                if calm > patience and max(SHRINK * L, SAFETY * needed) < 0.9 * L:
                    L, before = max(SHRINK * L, SAFETY * needed), L
                    problem, calm = self._at(problem, L, before), 0
        finally:
            run.ledger.extra.update(L_history=used, conditional=self._condition(run, used, L))

    def _attempt(
        self, problem: Problem, run: Run, x_t: Iterate, L: float, again: bool
    ) -> tuple[State | None, float]:
        """Return the inner loop's last point, None if L was too small, and the L needed."""
        start = _shifted(x_t, L)
        try:
            X = minimise_surrogate(problem, run, start, again)
        except Stop as stop:
            if stop.status is not Status.NOT_CONVEX:
                raise
            return None, L + stop.lacking
        d = X.x - x_t.x
        length = norm2(d)
        if length == 0.0:
            return X, 0.0
        if self.split.h.convex:
            # g is convex for every L; f's curvature along d is known.
            return X, L - inner(X.grad - start.grad, d) / length
        assert x_t.value is not None
        phi_t, phi = x_t.value - x_t.u.value, run.value(problem.phi, X.x)
        excess = phi - (phi_t - X.decrease())
        needed = L + 2.0 * excess / length
        # phi may be the small difference of large terms.
        rounding = 64.0 * eps_of(d) * (abs(x_t.value) + abs(x_t.u.value) + abs(phi))
        return (X if excess <= rounding else None), needed

    def _at(self, problem: Problem, L: float, before: float) -> Problem:
        f, g = self.split.parts(L)
        if hasattr(problem.inner, "add_square"):
            problem.inner.add_square(f, L - before)
        return replace(problem, f=f, g=g)

    def _condition(self, run: Run, used: list[float], L: float) -> str:
        # Earlier outer steps belong to another stage of the run.
        step = run.ledger.dc_gap_nit - (run.ledger.nit - len(used))
        if used:
            L = used[step if 0 <= step < len(used) else -1]
        found = f"L = {L:.6g}, found from the curvature along the run, makes both parts convex"
        return joined(getattr(self.split.whole, "conditional", ""), found)


def _drowns(x_t: Iterate, L: float) -> bool:
    """Return whether grad phi = grad f - grad g is lost in the rounding of L x."""
    return eps_of(x_t.x) * L * norm(x_t.x) > 1e-3 * norm(x_t.grad - x_t.u.slope)


def _shifted(x_t: Iterate, L: float) -> Iterate:
    half = 0.5 * L * norm2(x_t.x)
    u = Linearisation(x_t.u.value + half, x_t.u.slope + L * x_t.x, x_t.u.unique)
    value = None if x_t.value is None else x_t.value + half
    return x_t._replace(grad=x_t.grad + L * x_t.x, value=value, u=u)
