"""The paper's four measures of how far a point is from being stationary.

``fw_gap``   <grad f(x) - u, x - s> at the best vertex s: the largest and cheapest measure
``dc_gap``   max_y min_u f(x) - f(y) - <u, x - y>: the decrease of an exact DCA step
``pgm_gap``  L/2 ||x - proj(x - grad phi(x)/L)||^2: the projected gradient measure (sliding split)
``ppm_gap``  L/2 ||x - prox(x)||^2: the proximal point measure (proximal split)

For every decomposition fw_gap >= dc_gap.  For the sliding split dc_gap >= pgm_gap; for the proximal split
dc_gap >= (1 - rho/L) ppm_gap, with rho the weak convexity modulus of phi.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate, splits
from dcfw._arrays import Array, inner, norm, norm2
from dcfw.functions.base import Function, as_function
from dcfw.functions.penalised import prepare
from dcfw.functions.penalties import Composite
from dcfw.functions.quadratic import SquaredNorm
from dcfw.result import Status
from dcfw.sets.base import Set
from dcfw.sets.given import as_set
from dcfw.solvers.dcfw import certificate
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.run import Goal, Run, Stop
from dcfw.steps import Exact


class _Bounds(NamedTuple):
    low: float
    high: float


class Interval(_Bounds):
    """Certified bounds: the true value lies in [low, high], provided that ``conditional`` holds.

    ``conditional`` names what was stated and not computed, as in a result; it is empty if there is no such
    condition.

    >>> from dcfw import gaps
    >>> low, high = gaps.Interval(0.0, 0.5)
    >>> high
    0.5
    """

    conditional: str = ""


def fw_gap(objective: Any, domain: Any, x: Array) -> float:
    """Return the Frank-Wolfe gap <grad f(x) - u, x - s>, with u the subgradient that g returns.

    Parameters
    ----------
    objective : DC or function
        If f contains a norm (``loss + penalty``), the gap is that of the reformulation in which the norm is
        linear, as in ``res.gap``.
    domain : set
    x : array
        A point of the set.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, gaps, sets
    >>> dc = functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([2.0, 1.0]))
    >>> gaps.fw_gap(dc, sets.Simplex(2), np.array([0.5, 0.5]))
    0.25
    """
    phi, domain, x = _without_norm(objective, domain, x)
    gap = math.nan
    with _until_rounding():
        _, gap = _run(phi, domain, x).lmo(_finite_gradient(phi, x), x)
    return gap


def dc_gap(objective: Any, domain: Any, x: Array, accuracy: float = 1e-6, max_lmo: int = 100_000) -> Interval:
    """Return an interval that contains gap_DC(x).

    Frank-Wolfe solves the convex subproblem until the interval has the relative width ``accuracy``, or for
    ``max_lmo`` oracle calls.  If g has several subgradients at x, gap_DC is the minimum over all of them, and
    the lower end is 0.  ``conditional`` of the interval names an assumption that it rests on.

    Parameters
    ----------
    objective : DC or function
        A single function is split by the rule of :func:`dcfw.splits.best`.
    domain : set
    x : array
        A point of the set.
    accuracy : float
    max_lmo : int

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, gaps, sets
    >>> dc = functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([2.0, 1.0]))
    >>> low, high = gaps.dc_gap(dc, sets.Simplex(2), np.array([0.5, 0.5]))
    >>> round(low, 6), round(high, 6)
    (0.0625, 0.0625)
    """
    phi, domain, x = _without_norm(objective, domain, x)
    dc = splits.choose(phi, domain)
    if isinstance(dc, splits.Auto):
        if dc is phi or phi.lipschitz is None:
            raise ValueError("objective must have a known L, on which gap_DC depends: splits.sliding(phi, L)")
        dc = splits.sliding(phi)
    if dc.refuted:
        raise ValueError(f"objective must be a difference of convex functions, but {dc.refuted}")
    accuracy = _validate.scalar(accuracy, "accuracy", low=0.0)
    run = _run(dc, domain, x, max_lmo=_validate.integer(max_lmo, "max_lmo", low=1))
    u = dc.g.linearise(x)
    grad = dc.f.grad(x)
    low, high = 0.0, math.inf
    step = Exact().bind(dc.f, domain)
    with _until_rounding():
        for X in frank_wolfe(run, dc.f, x, grad, step, linear=u.slope, value=dc.f.value(x)):
            low, high = certificate(X, u)
            if X.gap <= accuracy * max(high, 0.0) or run.n_lmo >= max_lmo:
                break
    interval = Interval(max(min(low, high), 0.0), high)
    interval.conditional = dc.conditional
    return interval


def pgm_gap(objective: Any, domain: Any, x: Array, L: float | None = None) -> float:
    """Return the projected gradient measure L/2 ||x - proj(x - grad phi(x)/L)||^2.

    The projection is the set's, or computed by Frank-Wolfe to high accuracy.

    >>> import numpy as np, dcfw
    >>> phi = dcfw.functions.Quadratic(np.diag([1.0, -1.0]))
    >>> dcfw.gaps.pgm_gap(phi, dcfw.sets.Simplex(2), np.array([1.0, 0.0]), L=2.0)
    0.125
    """
    phi, domain, x, L = _without_kinks_in_f(objective, domain, x, L)
    with np.errstate(over="ignore"):
        target = x - _finite_gradient(phi, x) / L
    if not math.isfinite(norm2(target)):
        raise ValueError(f"L must be large enough for the point x - grad phi(x)/L to be finite, got {L:g}")
    nearest = domain.project(target) if domain.projects else _nearest(domain, target, x)
    return 0.5 * L * norm2(x - nearest)


def ppm_gap(objective: Any, domain: Any, x: Array, L: float | None = None, accuracy: float = 1e-10) -> float:
    """Return the proximal point measure L/2 ||x - prox(x)||^2, prox(x) = argmin phi(y) + L/2 ||y - x||^2.

    ``L`` must be at least phi's weak convexity modulus.  The subproblem is solved to the relative
    ``accuracy`` by accelerated projected gradients if the set has a projection, else by Frank-Wolfe.

    >>> import numpy as np, dcfw
    >>> phi = dcfw.functions.Quadratic(np.diag([1.0, -1.0]))
    >>> round(dcfw.gaps.ppm_gap(phi, dcfw.sets.Simplex(2), np.array([1.0, 0.0]), L=2.0), 6)
    0.125
    """
    phi, domain, x, L = _without_kinks_in_f(objective, domain, x, L)
    if not phi.differentiable:
        raise ValueError(
            "objective must be differentiable: g has kinks, and no L makes the subproblem convex; the other "
            "gaps (gaps.dc_gap) are defined"
        )
    accuracy = _validate.scalar(accuracy, "accuracy", low=0.0, high=1.0)
    _finite_gradient(phi, x)
    smooth = phi.lipschitz
    if domain.projects and smooth is not None:
        y = _proximal_point(phi, domain, x, L, smooth + L, accuracy)
    else:
        f = splits.proximal(phi, L).f
        y = _minimiser(phi, f, domain, x, f.grad(x), L * x, accuracy)
    return 0.5 * L * norm2(x - y)


def _proximal_point(phi: Function, domain: Any, x: Array, L: float, smooth: float, accuracy: float) -> Array:
    """Minimise phi(y) + L/2 ||y - x||^2 by FISTA with restarts on the set."""
    y = z = x
    momentum, first = 1.0, None
    for _ in range(20_000):
        grad = phi.grad(z) + L * (z - x)
        new = domain.project(z - grad / smooth)
        move = norm2(new - z)
        first = move if first is None else max(first, move)
        if move <= accuracy**2 * first or move == 0.0:
            return new
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        ahead = new + ((momentum - 1.0) / following) * (new - y)
        if inner(z - new, new - y) > 0.0:  # restart when the momentum points uphill
            ahead, following = new, 1.0
        y, z, momentum = new, ahead, following
    return y


def _without_norm(objective: Any, domain: Any, x: Array) -> tuple[Function, Set, Array]:
    """Return the problem that ``dcfw.minimize`` solves, in which a norm in f is linear."""
    domain = as_set(domain)
    way = prepare(as_function(objective, "objective"), domain)
    return way.phi, way.domain, _validate.point(way.start(x, domain), "x", way.domain)


def _without_kinks_in_f(objective: Any, domain: Any, x: Any, L: Any) -> tuple[Function, Set, Array, float]:
    """Return the validated arguments; raise if f contains a norm, for which the measures are not defined."""
    phi = as_function(objective, "objective")
    if isinstance(phi, Composite):
        raise ValueError(
            f"objective has the norm {phi.norm!r} in its convex part, whose gradient is not unique: "
            "gaps.fw_gap and gaps.dc_gap are defined, or lift the problem by functions.lift"
        )
    domain = as_set(domain)
    x = _validate.point(x, "x", domain)
    if L is None:
        L = phi.lipschitz
        if L is None:
            raise ValueError("L must be given: phi does not know a Lipschitz constant of its gradient")
    return phi, domain, x, _validate.scalar(L, "L", low=0.0, open_low=True)


def _finite_gradient(phi: Function, x: Array) -> Array:
    grad = phi.grad(x)
    if getattr(grad, "shape", None) != x.shape:
        raise ValueError(
            f"objective must have a gradient of the shape {tuple(x.shape)} of x, got {np.shape(grad)}"
        )
    if not math.isfinite(norm(grad)):
        raise ValueError(f"objective must have a finite gradient at x, got one of norm {norm(grad):g}")
    return grad


def _nearest(domain: Any, target: Array, x: Array) -> Array:
    f = SquaredNorm(1.0)
    return _minimiser(f, f, domain, x, x, target, 1e-12)


def _minimiser(
    phi: Function, f: Function, domain: Any, x: Array, grad: Array, u: Array, accuracy: float
) -> Array:
    """Minimise f(y) - <u, y> by Frank-Wolfe from x, where f has the gradient ``grad``."""
    run = _run(phi, domain, x, max_lmo=200_000)
    y = x
    with _until_rounding():
        for X in frank_wolfe(run, f, x, grad, Exact().bind(f, domain), linear=u):
            y = X.x
            if X.gap <= accuracy * max(X.bound, 1e-300) or run.n_lmo >= 200_000:
                break
    return y


@contextmanager
def _until_rounding() -> Iterator[None]:
    """End a loop whose steps are smaller than rounding, but raise for errors of an oracle."""
    try:
        yield
    except Stop as stop:
        if stop.status in (Status.NOT_CONVEX, Status.BAD_ORACLE):
            raise ValueError(f"{stop.status.sentence} {stop.detail}") from None


def _run(objective: Function, domain: Any, x: Array, max_lmo: int | None = None) -> Run:
    oracle = domain.oracle()
    if domain.shape != tuple(x.shape):
        raise ValueError(f"x must have the set's shape {domain.shape}, got {tuple(x.shape)}")
    # The loops here enforce the LMO budget themselves, since they need the gap of the last point.
    limit = None if max_lmo is None else max_lmo + 2
    goal = Goal(0.0, 0.0)
    return Run(objective, oracle, x, goal=goal, maxiter=0, max_inner=1, max_lmo=limit, time_limit=None)


__all__ = ["Interval", "dc_gap", "fw_gap", "pgm_gap", "ppm_gap"]
