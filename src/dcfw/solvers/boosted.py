"""Boosted DC-FW: extrapolate the outer step while phi falls.

DC-FW's surrogate touches phi at x_t only, so d = x_{t+1} - x_t tends to be too short.  d is also a descent
direction of phi at x_{t+1} (Aragon Artacho, Fleming and Vuong 2018; for a nonsmooth g, Aragon Artacho and
Vuong 2020).  If f and g are quadratic, phi and all gradients along d are known, and the line search is exact
without oracle calls; otherwise values of phi are compared (Armijo's test), first at the length suggested by
the last step.

The step ends at the boundary of the set (``reach``), or, with an active set, where a weight w + lambda (w -
w_t) falls to zero.  The certificate is that of the surrogate at x_t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dcfw._arrays import Array, eps_of, inner
from dcfw.functions.base import Linearisation
from dcfw.solvers.dcfw import DCFW, Iterate
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run

DRIFT = 16.0  # growth of rounding errors by extrapolation at which gradients are recomputed
NOTHING = (0.0, 1.0)  # the initial memory: the growth of the gradient's errors, and the first trial step


@dataclass(frozen=True)
class BoostedDCFW(DCFW):
    """DC-FW with an extrapolating line search after each outer step.

    Parameters
    ----------
    slope : float
        The part of the slope that a trial must achieve (Armijo's test; not used for quadratics).
    trials : int
        The most values of phi per search, besides the one at its start.

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets, splits
    >>> phi = functions.Quadratic(np.diag([3.0, 2.0, -1.0]), np.array([0.0, -1.0, 0.1]))
    >>> plain = dcfw.minimize(splits.sliding(phi), sets.LInfBall(3))
    >>> boosted = dcfw.minimize(splits.sliding(phi), sets.LInfBall(3), method="boosted")
    >>> boosted.nit < plain.nit, boosted.n_grad_g == boosted.nit + 1
    (True, True)
    """

    slope: float = 1e-2
    trials: int = 4
    name = "boosted"

    def move(self, problem: Problem, run: Run, x_t: Iterate, X_t: State) -> Iterate:
        d = X_t.x - x_t.x
        if problem.f.affine_grad and problem.g.affine_grad:
            return self._exact(problem, run, x_t, X_t, d)
        return self._search(problem, run, x_t, X_t, d)

    def _exact(self, problem: Problem, run: Run, x_t: Iterate, X: State, d: Array) -> Iterate:
        """Minimise the parabola phi(x + lambda d), given the gradients at its ends."""
        u = run.linearise(problem.g, X.x)
        unboosted = Iterate(X.x, X.grad, X.value, u, x_t.memory)
        slope = inner(X.grad, d) - inner(u.slope, d)
        if not slope < 0.0:
            return unboosted
        bend_f, bend_g = X.grad - x_t.grad, u.slope - x_t.u.slope
        convexity = inner(bend_g, d)
        curvature = inner(bend_f, d) - convexity
        step = _reach(problem, X.x, d)
        if curvature > 0.0:
            step = min(step, -slope / curvature)
        gain = -step * (slope + 0.5 * step * curvature)
        if not (math.isfinite(step) and gain > 8.0 * eps_of(d) * abs(u.value)):
            return unboosted
        x = _landing(problem, X.x, step, d)
        if x is None:
            return unboosted
        drift = _drift(x_t, step)
        if drift > DRIFT:
            run.ledger.count_resync()
            return Iterate(x, problem.f.grad(x), None, problem.g.linearise(x))
        value = u.value + step * (inner(u.slope, d) + 0.5 * step * convexity)
        there = Linearisation(value, u.slope + step * bend_g, u.unique)
        return Iterate(x, X.grad + step * bend_f, None, there, (drift, 1.0))

    def _search(self, problem: Problem, run: Run, x_t: Iterate, X: State, d: Array) -> Iterate:
        """Halve the step until phi falls enough; double a successful first trial while phi falls."""
        # g's slope along d at x_{t+1} is at least what it was at x_t, so phi's slope is at most this:
        slope = inner(X.grad, d) - inner(x_t.u.slope, d)
        drift, wish = x_t.memory or NOTHING
        reach = _reach(problem, X.x, d) if slope < 0.0 else 0.0
        step, trial, best = 0.0, min(wish, reach), math.inf
        if 0.0 < reach < math.inf:
            here = run.value(problem.phi, X.x)
            for _ in range(self.trials):
                value = run.value(problem.phi, X.x + trial * d)
                if value <= here + self.slope * trial * slope and value < best:
                    step, best, trial = trial, value, min(2.0 * trial, reach)
                    if trial == step:
                        break
                elif step:
                    break
                else:
                    trial *= 0.5
        wish = 2.0 * step if step else max(trial, 1e-3)
        x = _landing(problem, X.x, step, d) if step else None
        if x is None:
            return Iterate(X.x, X.grad, X.value, run.linearise(problem.g, X.x), (drift, wish))
        drift = _drift(x_t, step)
        u = run.linearise(problem.g, x)
        if not problem.f.affine_grad:
            known = best + u.value if drift <= DRIFT else None
            return Iterate(x, run.grad_f(problem.f, x), known, u, (0.0, wish))
        if drift > DRIFT:
            run.ledger.count_resync()
            return Iterate(x, problem.f.grad(x), None, u, (0.0, wish))
        return Iterate(x, X.grad + step * (X.grad - x_t.grad), None, u, (drift, wish))


def _reach(problem: Problem, x: Array, d: Array) -> float:
    """Return the longest step from x along d that the weights, or the set, allow."""
    if hasattr(problem.inner, "room"):
        return float(problem.inner.room())
    return problem.domain.reach(x, problem.domain.tangent(d))


def _drift(x_t: Iterate, step: float) -> float:
    return 1.0 + step * (2.0 + (x_t.memory or NOTHING)[0])


def _landing(problem: Problem, x: Array, step: float, d: Array) -> Array | None:
    """Return x + step d (by the active set's weights if there is one), None if rounding leaves the set."""
    if hasattr(problem.inner, "follow"):
        return problem.inner.follow(step, x + step * d)
    y = x + step * problem.domain.tangent(d)
    return y if problem.domain.contains(y, 0.0) else None
