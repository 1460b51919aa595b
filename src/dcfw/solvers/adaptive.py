"""DC-FW on a split whose constant L is found during the run (such as ``splits.sliding(phi, L="auto")``).

The split is f = p + L/2 ||x||^2, g = h + L/2 ||x||^2 with p - h = phi.  A small L means tight surrogates and
long steps, but f and g must be convex.  Each outer step checks what it can:

* **g.**  A convex g lies above its linearisation, which is to say that phi(x_{t+1}) is at most the
  surrogate's value there.  If it is not, the point is not accepted, and the step is made again from x_t with
  a larger L.  For the sliding split that costs no gradient of phi: a new L adds a multiple of x_t to what is
  known.
* **f.**  Negative curvature along a step of the inner loop ends that loop, and the outer step is made again.

Both measure by how much L was too small, and the next L is at least that.  After a few outer steps without
such a surprise L shrinks, though not below what the last step has shown to be needed.  phi falls by at least
what the surrogate does.  Certificates hold for the L that was used, if it makes f and g convex, which a few
steps do not prove: they are marked as conditional on it.
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

GROW = 2.0
"""The least factor by which L grows when it was too small."""

SHRINK = 0.5
"""The smallest factor by which L shrinks after successful steps."""

SAFETY = 1.1
"""Safety factor on the measured curvature."""

ATTEMPTS = 60
"""The number of repetitions of an outer step before the run gives up."""


class AdaptiveDCFW:
    """Run a method of DC-FW's kind (DC-FW itself, or the boosted one) on a split of which L is unknown."""

    needs_split = True

    def __init__(self, method: DCFW, split: Any) -> None:
        self.method = method
        self.split = split
        self.name = method.name

    def solve(self, problem: Problem, run: Run) -> None:
        p, h, x_1 = self.split.p, self.split.h, problem.x0
        x_t = Iterate(x_1, run.grad_f(p, x_1), None, run.linearise(h, x_1))
        # Far too small an L costs an attempt or two, which measure it; far too large a one, many outer steps.
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
                    problem = self._resumed(problem, run, L)
                x_t = x_t._replace(value=run.value_of(p, x_t.x, x_t.grad, x_t.value))
                for attempt in range(ATTEMPTS):
                    X_t, needed = self._attempt(problem, run, x_t, L, attempt > 0)
                    if X_t is not None:
                        break
                    patience, calm = min(2 * patience, 64), 0
                    enlarged = max(GROW * L, SAFETY * needed)
                    # A stated L is tried before any larger one: it may be wrong.
                    enough = self.split.enough
                    L, before = min(enlarged, enough) if enough > L else enlarged, L
                    if run.n_lmo + 2 > run.max_lmo:
                        raise Stop(Status.MAX_LMO)
                    if _drowns(x_t, L):
                        raise _hopeless(L)
                    problem = self._at(problem, L, before, x_t)
                else:
                    raise _hopeless(L)
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
        """Return the inner loop's last point, None if L was seen to be too small, and the L that it needs."""
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
            # g is convex for every L; only f's curvature along d can be measured at no cost.
            return X, L - inner(X.grad - start.grad, d) / length
        assert x_t.value is not None
        phi_t, phi = x_t.value - x_t.u.value, run.value(problem.phi, X.x)
        excess = phi - (phi_t - X.decrease())
        needed = L + 2.0 * excess / length
        # phi may be the small difference of large terms.
        rounding = 64.0 * eps_of(d) * (abs(x_t.value) + abs(x_t.u.value) + abs(phi))
        return (X if excess <= rounding else None), needed

    def _at(self, problem: Problem, L: float, before: float, back_to: Iterate | None = None) -> Problem:
        """Return the problem for another L, and prepare the active set (if there is one) for it."""
        f, g = self.split.parts(L)
        if back_to is not None and hasattr(problem.inner, "go_back"):
            problem.inner.go_back(back_to.x)
        if hasattr(problem.inner, "add_square"):
            problem.inner.add_square(f, L - before)
        return replace(problem, f=f, g=g, step=problem.rule.bind(f, problem.domain))

    def _resumed(self, problem: Problem, run: Run, L: float) -> Problem:
        """Return the problem for the L of a run that has been restored, active set and step rule included."""
        f, g = self.split.parts(L)
        if hasattr(problem.inner, "reattach"):
            problem.inner.reattach(f)
        problem = replace(problem, f=f, g=g, step=problem.rule.bind(f, problem.domain))
        run.keep(step=problem.step)
        return problem

    def _condition(self, run: Run, used: list[float], L: float) -> str:
        # Outer steps before the first of these belong to another stage of the run.
        step = run.ledger.dc_gap_nit - (run.ledger.nit - len(used))
        if used:
            L = used[step if 0 <= step < len(used) else -1]
        found = f"L = {L:.6g}, which was found from the curvature met on the way, makes both parts convex"
        return joined(getattr(self.split.whole, "conditional", ""), found)


def _drowns(x_t: Iterate, L: float) -> bool:
    """Return whether L x is so large that grad phi = grad f - grad g is lost in its rounding."""
    return eps_of(x_t.x) * L * norm(x_t.x) > 1e-3 * norm(x_t.grad - x_t.u.slope)


def _hopeless(L: float) -> Stop:
    return Stop(
        Status.LINE_SEARCH,
        f"No L up to {L:.3g} makes the surrogate an upper bound of phi: phi's values are inexact, or its "
        "gradient is wrong.",
    )


def _shifted(x_t: Iterate, L: float) -> Iterate:
    """Return the iterate for f + L/2 ||x||^2 and g + L/2 ||x||^2."""
    half = 0.5 * L * norm2(x_t.x)
    u = Linearisation(x_t.u.value + half, x_t.u.slope + L * x_t.x, x_t.u.unique)
    value = None if x_t.value is None else x_t.value + half
    return x_t._replace(grad=x_t.grad + L * x_t.x, value=value, u=u)
