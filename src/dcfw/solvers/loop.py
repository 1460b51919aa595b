"""The generic Frank-Wolfe loop.

:func:`frank_wolfe` is lines 4 to 11 of Algorithm 1 as a generator: it yields the state at X_1, X_2, ...
once the vertex and the gap there are known and before the step is taken, so that the caller decides when to
stop.  DC-FW runs it on the surrogate f - <u_t, .>, FW on phi itself, FW-K and FW-M with a fresh
subgradient in every step, CGS on its proximal subproblem.

References: Frank and Wolfe 1956; Jaggi 2013 (the gap as a certificate).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from dcfw._arrays import Array, eps_of, inner, norm
from dcfw._protocol import stateless
from dcfw.functions.base import Function
from dcfw.result import Status
from dcfw.sets.atoms import Atom
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.segment import AffineSegment, Segment, SmoothSegment
from dcfw.steps import LineSearchFailed, Step


class State:
    """The state of a Frank-Wolfe loop: X_{t,k} with its gradient, its vertex, its gap.

    ``bound`` is the least m(x_t) - m(X_{t,j}) + gap_j over the steps j at which the decrease of the
    surrogate m is known: if f is convex, no point of the set has a surrogate lower than m(x_t) - bound.
    Set ``last`` to end the loop right after the coming step, without a further LMO call.
    """

    __slots__ = (
        "S",
        "bound",
        "f",
        "gained",
        "gap",
        "grad",
        "k",
        "last",
        "linear",
        "run",
        "start",
        "value",
        "x",
    )

    def __init__(self, run: Run, f: Function, x: Array, grad: Array, value: float | None) -> None:
        self.run = run
        self.f = f
        self.x = x
        self.grad = grad
        self.value = value
        self.start = (x, value)
        self.linear: Array | None = None
        self.k = 1
        self.last = False
        self.S: Atom | None = None
        self.gap = math.inf
        self.gained: float | None = 0.0
        self.bound = math.inf

    _KEPT = ("x", "grad", "value", "start", "k", "gained", "bound", "gap")

    def get_state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._KEPT}

    def set_state(self, state: dict[str, Any]) -> None:
        for name in self._KEPT:
            setattr(self, name, state[name])

    def decrease(self) -> float:
        """Return m(x_t) - m(X), evaluating f at X if that has not been done yet."""
        if self.gained is None:
            x0, value0 = self.start
            if value0 is None:
                value0 = self.run.value(self.f, x0)
                self.start = (x0, value0)
            if self.value is None:
                self.value = self.run.value_of(self.f, self.x, self.grad)
            self.gained = value0 - self.value
            if self.linear is not None:
                self.gained -= inner(self.linear, x0) - inner(self.linear, self.x)
        return self.gained

    def certificate(self) -> tuple[float, float]:
        """Return bounds for max_x m(x_t) - m(x): what has been gained, and what could be at most."""
        gained = self.decrease()
        return gained, min(self.bound, gained + self.gap)


@stateless
def frank_wolfe(
    run: Run,
    f: Function,
    x: Array,
    grad: Array,
    step: Step,
    *,
    linear: Array | Callable[[Array], Array] | None = None,
    value: float | None = None,
    convex: bool = True,
    merit: Function | None = None,
    max_steps: float = math.inf,
) -> Iterator[State]:
    """Run Frank-Wolfe on f - <linear, .> from x, yielding the state before each step.

    Parameters
    ----------
    grad, value
        The gradient of f at x, and f(x) where it is known.
    linear
        u, or a callable that gives a fresh one at each iterate (FW-K and FW-M).
    convex
        Whether f is supposed to be convex: then negative curvature ends the run.
    merit
        The function whose values step rules look at (phi for FW-M), f if None.
    max_steps
        How many steps to take at most; the loop then ends without a further LMO call.

    A surrogate's loop leaves the last call of the LMO budget to its successor, so that the FW gap of the
    point that is returned is always known.
    """
    X = State(run, f, x, grad, value)
    subgradient: Any = linear if callable(linear) else None
    surrogate = linear is not None and subgradient is None
    affine = f.affine_grad and merit is None
    if not surrogate:  # the steps of this loop are the outer ones
        run.keep(loop=X, step=step)
    ledger = run.ledger
    while True:
        if not surrogate:
            run.outer_step()
        X.linear = u = linear if subgradient is None else subgradient(X.x)
        X.S, X.gap = S, gap = run.lmo(X.grad if u is None else X.grad - u, X.x)
        if X.gained is not None and X.gained + gap < X.bound:
            X.bound = X.gained + gap
        yield X
        run.before_step(X)
        if surrogate and X.k > 1 and 0.0 < gap <= run.lmo_error:
            return  # within the oracle's error nothing more is known here; at x_{t+1} the FW gap of phi is
        descent = _descent(run, gap) if run.lmo_error else gap
        if affine:
            affine_step(run, f, X, S, descent, step, convex)
        else:
            smooth_step(run, f, X, S, descent, u, step, convex, merit)
        X.gap = math.inf
        X.k += 1
        ledger.count_step(outer=not surrogate)
        if X.last or X.k > max_steps or (surrogate and ledger.n_lmo + 1 >= run.max_lmo):
            return


def _descent(run: Run, gap: float) -> float:
    """Return <G, X - S>, the slope towards S: the FW gap without the error bound of an inexact oracle."""
    descent = gap - run.lmo_error
    if descent <= 0.0 < gap:
        raise Stop(
            Status.NO_PROGRESS,
            f"The vertex found is not a descent direction: the FW gap {gap:.3g} is within the error bound "
            f"{run.lmo_error:.3g} of the linear oracle itself.",
        )
    return max(descent, 0.0)


def affine_step(run: Run, f: Function, X: State, S: Atom, descent: float, step: Step, convex: bool) -> None:
    """Take a step towards S along a quadratic."""
    segment = AffineSegment(X.x, X.grad, S, run.grad_f_at(f, S), descent, X.k, convex)
    curvature = segment.curvature
    if not math.isfinite(curvature):
        run.bad_gradient()
    if curvature < 0.0 and convex:
        slack = segment.rounding_of_curvature()
        if curvature < -slack and curvature < -rounding_of_hessian(f, X.x, S.dense()):
            not_convex(run, f"the curvature along the step is {curvature:.3g}", -curvature / segment.norm2)
        segment.curvature = 0.0
    eta = length_of_step(step, segment, X)
    X.x, X.grad, gained = segment.land(eta)
    assert X.gained is not None
    X.gained += gained
    X.value = None
    if run.ledger.resync_due(run.resync_period):
        # Rounding adds up in the incremental gradient: recompute it periodically.
        X.grad = f.grad(X.x)
        run.ledger.count_resync()


def smooth_step(
    run: Run,
    f: Function,
    X: State,
    S: Atom,
    descent: float,
    u: Array | None,
    step: Step,
    convex: bool,
    merit: Function | None,
) -> float:
    """Take a step towards S and return its length."""
    segment = SmoothSegment(run, f, X.x, X.grad, X.value, S, u, descent, X.k, convex, merit)
    eta = length_of_step(step, segment, X)
    x, grad, value = segment.land(eta)
    slope = segment.slope(eta)
    if convex and merit is None and slope < -descent:
        # Slopes are differences: of f's and <u, d>, and the first one of products with x and with S.
        sizes = (norm(grad) + (0.0 if u is None else norm(u))) * (norm(x) + norm(segment.d))
        slack = 1e-7 * (abs(slope) + descent) + 64.0 * eps_of(x) * sizes
        slack += rounding_of_hessian(f, x, segment.d)
        if slope < -descent - slack:
            lacking = (-descent - slope) / (eta * segment.norm2)
            not_convex(run, f"the slope along the step fell from {-descent:.6g} to {slope:.6g}", lacking)
    if X.start[1] is None and segment._value is not None and X.k == 1:
        X.start = (X.start[0], segment._value)
    X.x, X.grad, X.value = x, grad, value
    X.gained = None
    return eta


def length_of_step(step: Step, segment: Segment, X: State) -> float:
    try:
        eta = step(segment)
    except LineSearchFailed as failure:
        raise Stop(Status.LINE_SEARCH, str(failure)) from None
    if not 0.0 <= eta <= 1.0:
        raise Stop(Status.BAD_ORACLE, f"the step rule returned {eta}, not a number in [0, 1].")
    if eta < 1e-3 and eta < 0.25 * eps_of(X.x):  # the first test is the cheap one
        raise Stop(
            Status.NO_PROGRESS,
            f"Steps have become smaller than rounding at an FW gap of {X.gap:.3g} "
            f"(step {X.k} of an inner loop).",
        )
    return eta


def rounding_of_hessian(f: Function, *points: Array) -> float:
    """Return how negative rounding may make the curvature of f between the points.

    Products with a large Hessian may cancel, and leave gradients whose size says nothing about their errors.
    """
    L, size = f.lipschitz, sum(map(norm, points))
    return 0.0 if L is None or math.isinf(L) else 64.0 * eps_of(points[0]) * L * (size * size)  # ** overflows


def not_convex(run: Run, what: str, lacking: float = 0.0, part: str = "f") -> NoReturn:
    raise Stop(
        Status.NOT_CONVEX,
        f"In outer step {run.nit + 1}, after {run.n_inner} steps, {what}; check {part} with dcfw.check, or "
        "use splits.proximal with a larger L.",
        lacking,
    )
