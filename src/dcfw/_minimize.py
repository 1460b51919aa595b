"""The front door: :func:`minimize`."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from typing import Any

from dcfw import _validate, splits, steps, tolerances
from dcfw._arrays import Array, eps_of, is_numpy, like, norm
from dcfw.functions.base import Function, Zero, as_function
from dcfw.result import Result, Status
from dcfw.sets.base import Oracle
from dcfw.solvers.cgs import CGS
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw import FW
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.problem import Method, Problem
from dcfw.solvers.run import Run, Stop

METHODS: dict[str, type] = {"dcfw": DCFW, "fw": FW, "fw-k": FWK, "fw-m": FWM, "cgs": CGS}
INNER: dict[str, Callable[..., Any]] = {"fw": frank_wolfe}


def minimize(
    objective: Any,
    domain: Any,
    x0: Any = None,
    *,
    method: Any = "dcfw",
    step: Any = "exact",
    inner: Any = "fw",
    tolerance: Any = "adaptive",
    tol: float = 1e-6,
    rtol: float = 0.0,
    maxiter: int = 1000,
    max_inner: int = 10_000,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    restarts: int = 1,
    callback: Callable[..., Any] | None = None,
    rng: Any = None,
) -> Result:
    """Minimise a difference of convex functions over a compact convex set.

    Parameters
    ----------
    objective : DC or function
        ``f - g``, or a single function: then a split is chosen (:func:`dcfw.splits.choose` states the
        rule) and named in the result.
    domain : set
        One of :mod:`dcfw.sets`, or any object with ``lmo(G)``, ``contains(x)`` and ``start()``.
    x0 : array, optional
        Where to start; a feasible point, never written to.  Its array library, dtype and device are those
        of the whole solve.  Default: ``domain.start()``.
    method : {"dcfw", "fw", "fw-k", "fw-m", "cgs"} or a solver object
        DC-FW, or one of the methods it is compared with.
    step : {"exact", "open-loop", "short", "backtracking"} or a rule from :mod:`dcfw.steps`
        The step size.  FW-K and FW-M bring their own.
    inner : {"fw"}
        The inner solver.
    tolerance : {"adaptive", "progress"}, float, or a rule from :mod:`dcfw.tolerances`
        When inner loops may stop; a number is a fixed eps.
    tol, rtol : float
        Stop when the FW gap is at most ``max(tol, rtol * first gap)``.
    maxiter, max_inner : int
        Limits of outer steps (steps, for the one-loop methods) and of steps per inner loop.
    max_lmo : int, optional
        Budget of linear minimisation calls.
    time_limit : float, optional
        Seconds of wall clock.
    restarts : int
        How many runs: the first from x0 (or ``domain.start()``), the others from random points.  The best is
        returned, with all values in ``restart_values``.
    callback : callable, optional
        ``callback(intermediate_result)`` after each outer step; raise ``StopIteration`` to end the run.
    rng : None, int or numpy.random.Generator
        Seeds the random restarts.

    Returns
    -------
    Result
        A :class:`scipy.optimize.OptimizeResult`; see :class:`dcfw.Result` for its fields.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> f = functions.SquaredNorm(1.0)
    >>> g = functions.Quadratic(np.diag([3.0, 1.0]))
    >>> res = dcfw.minimize(f - g, sets.Simplex(2), x0=np.array([0.5, 0.5]))
    >>> res.x, res.fun, res.status.name
    (array([1., 0.]), -1.0, 'CONVERGED')
    """
    started = clock.perf_counter()
    solver = _method(method)
    phi = as_function(objective, "objective")
    _check_domain(domain)
    tol = _validate.scalar(tol, "tol", low=0.0)
    rtol = _validate.scalar(rtol, "rtol", low=0.0, high=1.0)
    budgets = {
        "maxiter": _validate.integer(maxiter, "maxiter", low=0),
        "max_inner": _validate.integer(max_inner, "max_inner", low=1),
        "max_lmo": None if max_lmo is None else _validate.integer(max_lmo, "max_lmo", low=1),
    }
    if time_limit is not None:
        time_limit = _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    restarts = _validate.integer(restarts, "restarts", low=1)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {type(callback).__name__}")
    generator = _validate.generator(rng)
    rule, tolerance_rule = steps.resolve(step), tolerances.resolve(tolerance)
    inner_loop = inner if callable(inner) else INNER[_validate.choice(inner, "inner", INNER)]

    if solver.needs_split:
        dc = splits.choose(phi)
        f, g, split, conditional = dc.f, dc.g, dc.name, dc.conditional
        phi = dc if dc.whole is None else dc.whole
    else:
        _need_gradient(phi, solver)
        f, g, split, conditional = phi, Zero(), "none", ""
    x0 = _start(x0, domain, phi)

    def one(start: Array, began: float) -> Result:
        oracle = domain.oracle() if hasattr(domain, "oracle") else Oracle(domain)
        run = Run(
            phi,
            oracle,
            start,
            tol=tol,
            rtol=rtol,
            time_limit=None if time_limit is None else time_limit - (began - started),
            callback=callback,
            started=began,
            **budgets,  # type: ignore[arg-type]
        )
        problem = Problem(
            phi=phi,
            f=f,
            g=g,
            domain=domain,
            x0=start,
            rule=rule,
            step=rule.bind(f, domain),
            tolerance=tolerance_rule,
            inner=inner_loop,
        )
        try:
            solver.solve(problem, run)
            raise AssertionError("a solver ends by raising Stop")
        except Stop as stop:
            result = run.result(stop.status, stop.detail)
        except KeyboardInterrupt:
            result = run.result(Status.INTERRUPTED)
        result.method = solver.name
        result.split = split
        result.conditional = conditional
        return result

    best = one(x0, started)
    values, total = [best.fun], best.time
    for _ in range(restarts - 1):
        if best.status in (Status.INTERRUPTED, Status.CALLBACK):
            break
        if time_limit is not None and clock.perf_counter() - started >= time_limit:
            break
        result = one(_random_start(domain, generator, x0), clock.perf_counter())
        values.append(result.fun)
        total += result.time
        if result.fun < best.fun or math.isnan(best.fun):
            best = result
        if result.status is Status.INTERRUPTED:
            break
    best.restart_values = values
    best.total_time = total
    return best


def _method(method: Any) -> Method:
    if hasattr(method, "solve"):
        return method  # type: ignore[no-any-return]
    return METHODS[_validate.choice(method, "method", METHODS)]()  # type: ignore[no-any-return]


def _need_gradient(phi: Function, solver: Method) -> None:
    if not phi.differentiable:
        raise ValueError(
            f"method {solver.name!r} needs the gradient of phi, and phi is not differentiable: use 'dcfw', "
            "'fw-k' or 'fw-m', which take a subgradient of g"
        )


def _check_domain(domain: Any) -> None:
    missing = [verb for verb in ("lmo", "contains", "start") if not callable(getattr(domain, verb, None))]
    if missing:
        raise TypeError(
            f"domain must have the methods lmo(G), contains(x) and start(); {type(domain).__name__} lacks "
            + ", ".join(missing)
        )


def _start(x0: Any, domain: Any, phi: Function) -> Array:
    if x0 is None:
        start, template = domain.start(), phi.template()
        return start if template is None or is_numpy(template) else like(start, template)
    shape = getattr(domain, "shape", None)
    x0 = _validate.array(x0, "x0", shape=tuple(shape) if shape is not None else None)
    if not domain.contains(x0):
        how = ""
        if hasattr(domain, "violation"):
            violation = float(domain.violation(x0))
            # What single precision cannot represent better is no error of the user's.
            if violation <= 64.0 * eps_of(x0) * max(1.0, norm(x0)):
                return x0
            how = f" (it breaks the constraints by {violation:.3g})"
        hint = "; domain.project(x0) is feasible" if hasattr(domain, "project") else ""
        raise ValueError(f"x0 must lie in the set {domain!r}{how}{hint}")
    return x0


def _random_start(domain: Any, rng: Any, template: Array) -> Array:
    if hasattr(domain, "random"):
        point = domain.random(rng)
    else:
        directions = (rng.standard_normal(tuple(template.shape)) for _ in range(4))
        point = sum(domain.lmo(G) for G in directions) / 4.0
    return like(point, template)
