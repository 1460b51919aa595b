"""The generic Frank-Wolfe loop.

:func:`frank_wolfe` is lines 4 to 11 of Algorithm 1 as a generator: it yields the state at X_1, X_2, ...
after the oracle call there and before the step, so that the caller decides when to stop.  DC-FW runs it on
the surrogate f - <u_t, .>, FW on phi itself, FW-K and FW-M with a new subgradient in every step, CGS on its
proximal subproblem.

References: Frank and Wolfe 1956; Jaggi 2013 (the gap as a certificate).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dcfw._arrays import Array, eps_of, inner, norm
from dcfw._protocol import stateless
from dcfw.functions.base import Function, Linearisation
from dcfw.result import Status
from dcfw.sets.atoms import Atom
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.segment import AffineSegment, Segment, SmoothSegment
from dcfw.steps import LineSearchFailed, Step


@dataclass(slots=True, eq=False)
class State:
    """The state of a Frank-Wolfe loop on m = f - <linear, .>: X_{t,k} with its gradient, vertex and gap.

    ``outer`` is whether a step counts as an outer one (not on a surrogate).  Set ``last`` to end the loop
    after the coming step, without another LMO call.  ``gained`` is m(x_t) - m(X), if known, and ``bound`` the
    least m(x_t) - m(X_{t,j}) + gap_j over the steps with known decrease: for a convex f, m is at least m(x_t)
    - bound on the set. ``tangent`` is the latest linearisation where ``linear`` is a callable.
    """

    run: Run
    f: Function
    x: Array
    grad: Array
    value: float | None = None
    linear: Array | None = None
    step: Any = None
    convex: bool = True
    merit: Function | None = None
    max_steps: float = math.inf
    outer: bool = False
    k: int = 1
    last: bool = False
    S: Atom | None = None
    gap: float = math.inf
    gained: float | None = 0.0
    bound: float = math.inf
    tangent: Linearisation | None = None
    start: tuple[Array, float | None] = field(init=False)

    _KEPT = ("x", "grad", "value", "start", "k", "gained", "bound", "gap")

    def __post_init__(self) -> None:
        self.start = (self.x, self.value)
        if self.outer:
            self.run.keep(loop=self, step=self.step)

    def get_state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._KEPT}

    def set_state(self, state: dict[str, Any]) -> None:
        for name in self._KEPT:
            setattr(self, name, state[name])

    def slope(self) -> Array:
        return self.grad if self.linear is None else self.grad - self.linear

    def ask(self, G: Array) -> Atom:
        """Call the oracle at X, where m has the gradient G, and return the vertex."""
        self.S, self.gap = S, gap = self.run.lmo(G, self.x)
        if self.gained is not None and self.gained + gap < self.bound:
            self.bound = self.gained + gap
        return S

    def advance(self, reserve: int = 1) -> bool:
        """Count the step; return whether to continue, reserving LMO calls for the final FW gap."""
        self.gap = math.inf
        self.k += 1
        ledger = self.run.ledger
        ledger.count_step(self.outer)
        spent = not self.outer and ledger.n_lmo + reserve >= self.run.max_lmo
        return not (spent or self.last or self.k > self.max_steps)

    def decrease(self) -> float:
        """Return m(x_t) - m(X), evaluating f at X if needed."""
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
        """Return bounds for max_x m(x_t) - m(x): the gain so far, and the largest possible one."""
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
    linear: Array | Callable[[Array], Linearisation] | None = None,
    value: float | None = None,
    convex: bool = True,
    merit: Function | None = None,
    max_steps: float = math.inf,
) -> Iterator[State]:
    """Run Frank-Wolfe on f - <linear, .> from x, yielding the state before each step.

    ``grad`` and ``value`` are those of f at x.  ``linear`` is u, or a callable that returns a new tangent
    with slope u at each iterate (FW-K and FW-M).  If ``convex``, negative curvature ends the run.  Step rules
    use the values of ``merit`` (phi for FW-M), f if None.  After ``max_steps`` the loop ends without another
    LMO call.
    """
    subgradient: Any = linear if callable(linear) else None
    outer = linear is None or subgradient is not None
    u = None if subgradient is not None else linear
    X = State(run, f, x, grad, value, u, step, convex, merit, max_steps, outer)
    affine = f.affine_grad and merit is None
    while True:
        if outer:
            run.outer_step()
        if subgradient is not None:
            X.tangent = subgradient(X.x)
            X.linear = X.tangent.slope
        S = X.ask(X.slope())
        yield X
        run.before_step(X)
        gap = X.gap
        if not outer and X.k > 1 and 0.0 < gap <= run.lmo_error:
            return  # the surrogate's gap is within the oracle's error: take the FW gap of phi at x_{t+1}
        descent = _descent(run, gap) if run.lmo_error else gap
        (affine_step if affine else smooth_step)(X, S, descent)
        if not X.advance():
            return


class InnerLoop:
    """An inner loop with the interface of :func:`frank_wolfe`; ``steps`` takes the steps from a new state."""

    def __call__(
        self, run: Run, f: Function, x: Array, grad: Array, step: Step, *, linear: Any = None, **options: Any
    ) -> Iterator[State]:
        return self.steps(State(run, f, x, grad, linear=linear, step=step, outer=linear is None, **options))

    def steps(self, X: State) -> Iterator[State]:
        raise NotImplementedError


def _descent(run: Run, gap: float) -> float:
    """Return <G, X - S>: the FW gap without the error bound of an inexact oracle."""
    descent = gap - run.lmo_error
    if descent <= 0.0 < gap:
        raise Stop(
            Status.NO_PROGRESS,
            f"The vertex found is not a descent direction: the FW gap {gap:.3g} is within the error bound "
            f"{run.lmo_error:.3g} of the linear oracle itself.",
        )
    return max(descent, 0.0)


def affine_step(X: State, S: Atom, descent: float) -> None:
    run, f = X.run, X.f
    walk(X, AffineSegment(X.x, X.grad, S, run.grad_f_at(f, S), descent, X.k, X.convex))
    if run.ledger.resync_due(run.resync_period):
        # Rounding accumulates in the incremental gradient.
        X.grad = f.grad(X.x)
        run.ledger.count_resync()


def walk(X: State, segment: AffineSegment) -> float:
    """Take a step along a segment of a quadratic and return its length."""
    curvature = segment.curvature
    if not math.isfinite(curvature):
        X.run.bad_gradient()
    if curvature < 0.0 and X.convex:
        rounding = segment.rounding_of_curvature()
        if curvature < -rounding and curvature < -rounding_of_hessian(X.f, X.x, segment.end()):
            lacking = -curvature / segment.norm2
            not_convex(X.run, f"the curvature along the step is {curvature:.3g}", lacking)
        segment.curvature = 0.0
    eta = length_of_step(X, segment)
    X.x, X.grad, gained = segment.land(eta)
    assert X.gained is not None
    X.gained += gained
    X.value = None
    return eta


def smooth_step(X: State, S: Atom, descent: float) -> float:
    segment = SmoothSegment(X, S, descent)
    eta = length_of_step(X, segment)
    x, grad, value = segment.land(eta)
    slope = segment.slope(eta)
    if X.convex and X.merit is None and slope < -descent:
        # Slopes are differences: of f's and <u, d>, and the first one of products with x and S.
        sizes = (norm(grad) + (0.0 if X.linear is None else norm(X.linear))) * (norm(x) + norm(segment.d))
        slack = 1e-7 * (abs(slope) + descent) + 64.0 * eps_of(x) * sizes
        slack += rounding_of_hessian(X.f, x, segment.d)
        if slope < -descent - slack:
            lacking = (-descent - slope) / (eta * segment.norm2)
            not_convex(X.run, f"the slope along the step fell from {-descent:.6g} to {slope:.6g}", lacking)
    if X.start[1] is None and segment.known is not None and X.k == 1:
        X.start = (X.start[0], segment.known)
    X.x, X.grad, X.value = x, grad, value
    X.gained = None
    return eta


def length_of_step(X: State, segment: Segment) -> float:
    try:
        eta: float = X.step(segment)
    except LineSearchFailed as failure:
        raise Stop(Status.LINE_SEARCH, str(failure)) from None
    if not 0.0 <= eta <= 1.0:
        raise Stop(Status.BAD_ORACLE, f"the step rule returned {eta}, not a number in [0, 1].")
    if eta < 1e-3 and eta < 0.25 * eps_of(X.x):  # the cheap test first
        raise too_small(X, f" (step {X.k} of an inner loop)")
    return eta


def too_small(X: State, where: str = "") -> Stop:
    text = f"Steps have become smaller than rounding at an FW gap of {X.gap:.3g}{where}."
    return Stop(Status.NO_PROGRESS, text)


def rounding_of_hessian(f: Function, *points: Array) -> float:
    """Return how negative rounding of products with a large Hessian may make the curvature of f."""
    L, size = f.lipschitz, sum(map(norm, points))
    return 0.0 if L is None or math.isinf(L) else 64.0 * eps_of(points[0]) * L * (size * size)  # ** overflows


def not_convex(run: Run, what: str, lacking: float = 0.0, part: str = "f") -> NoReturn:
    raise Stop(
        Status.NOT_CONVEX,
        f"In outer step {run.nit + 1}, after {run.n_inner} steps, {what}; check {part} with dcfw.check, or "
        "use splits.proximal with a larger L.",
        lacking,
    )
