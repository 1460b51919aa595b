"""The front door: :func:`minimize` resolves its options into a :class:`~dcfw.solvers.task.Task`."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from typing import Any

from dcfw import _validate, splits, steps, tolerances
from dcfw._arrays import Array, copy_of, is_numpy, like, namespace, to_numpy
from dcfw.functions import penalised
from dcfw.functions.base import Function
from dcfw.functions.dc import DC
from dcfw.functions.given import from_callable
from dcfw.functions.sums import Zero
from dcfw.result import Result
from dcfw.sets.base import Set
from dcfw.sets.given import as_set
from dcfw.sets.product import Product
from dcfw.solvers import ball, factored
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.adaptive import AdaptiveDCFW
from dcfw.solvers.block import Block
from dcfw.solvers.block_steps import BlockSteps
from dcfw.solvers.choice import METHODS, Auto, best_inner, check_inner, method_named
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.graduated import Graduated, Restarted
from dcfw.solvers.interrupts import guarded
from dcfw.solvers.problem import Method
from dcfw.solvers.staged import Staged
from dcfw.solvers.task import Parts, Task

MANY = 16  # from this number of blocks on, separate step lengths are better than a split of phi


@guarded
def minimize(
    objective: Any,
    domain: Any,
    x0: Any = None,
    *,
    method: Any = "auto",
    step: Any = "exact",
    inner: Any = "auto",
    lazy: bool = True,
    tolerance: Any = "adaptive",
    tol: float | None = None,
    rtol: float | None = None,
    maxiter: int = 1000,
    max_inner: int = 10_000,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    restarts: int = 1,
    callback: Callable[..., Any] | None = None,
    rng: Any = None,
    checkpoint: Any = None,
    jac: Any = None,
    verbose: int = 0,
) -> Result:
    """Minimise a difference of convex functions over a compact convex set.

    Parameters
    ----------
    objective : DC, function or callable
        ``f - g``; a single function, split by the rule of :func:`dcfw.splits.best` if the method needs it; or
        a callable ``fun(x)`` with ``jac``.
    domain : set
        One of :mod:`dcfw.sets`, or any object with ``lmo(G)``, ``contains(x)`` and ``start()``.
    x0 : array or ActiveSet, optional
        A feasible starting point; default ``domain.start()``.  It determines the array library, the device
        and, unless the objective has data, the dtype of the solve.  The ``active_set`` of an earlier result
        is accepted too, and inner solvers with an active set reuse its atoms (except for ``method="block"``).
    method : {"auto", "dcfw", "boosted", "block", "graduated", "fw", "fw-k", "fw-m", "cgs", ...} or solver
        ``"dcfw"`` is DC-FW; ``"boosted"`` adds a line search after each outer step; ``"block"`` works on one
        block of a :class:`~dcfw.sets.Product` at a time; ``"graduated"`` follows a path of functions that
        ends at a vertex (:mod:`dcfw.solvers.graduated`); ``"stochastic"`` and ``"sfw"`` are DC-FW and
        Frank-Wolfe with sampled gradients for finite sums and streams (:mod:`dcfw.solvers.stochastic`); the
        others are methods for comparison.  ``"auto"`` is DC-FW for ``f - g`` and convex functions.  For other
        functions, and a smooth ``f - g`` over an l2 ball, it starts with steps on phi itself and changes to
        DC-FW when their gap decreases slowly (``dcfw.solvers.staged``), unless ``checkpoint`` or a ``step``
        other than ``"exact"`` is given.  On a product of 16 sets or more (``"block"``: on any product) it
        takes steps with a length for each block (``dcfw.solvers.block_steps``).
    step : {"exact", "open-loop", "short", "backtracking", "adaptive"} or a rule from :mod:`dcfw.steps`
        The step size.  FW-K, FW-M and SFW have their own.
    inner : {"auto", "fw", "away", "pairwise", "blended", "descent", "in-face", "second-order"}
        The inner solver: ``"fw"`` as in the paper; away, pairwise or blended steps with an active set
        (:mod:`dcfw.solvers.active`), which need far fewer oracle calls on sets with faces; in-face steps,
        which store no vertices (:mod:`dcfw.solvers.in_face`); steps to the minimiser of a quadratic model,
        for an f with ``hessian(x)`` (:mod:`dcfw.solvers.second_order`).  ``"auto"`` is ``"in-face"`` for
        DC-FW with a given non-quadratic f over boxes, hypersimplices, assignments and plans; ``"blended"``
        for all forms of DC-FW with exact steps over a polytope, and for quadratic f over other sets with
        faces and at most a million entries (nuclear and spectral balls, spectraplexes, their epigraphs,
        products); else ``"fw"``.
    lazy : bool
        Whether away and pairwise steps may reuse known vertices in place of oracle calls.
    tolerance : {"adaptive", "progress"}, float, or a rule from :mod:`dcfw.tolerances`
        When inner loops may stop; a number is a fixed eps.
    tol, rtol : float, optional
        Stop when the FW gap is at most ``max(tol, rtol * first gap)``; if one is given, the other is 0.
        Default: a millionth of the first gap, or of the gap at ``domain.start()`` if x0 is given and that gap
        is larger, limited by rounding.
    maxiter, max_inner : int
        Limits of outer steps (steps of one-loop methods, passes of ``"block"``) and of steps per inner loop.
    max_lmo : int, optional
        The maximum number of linear minimisation calls in each of the ``restarts``.
    time_limit : float, optional
        The maximum number of seconds for all restarts together.
    restarts : int
        The number of runs: the first from x0 (or ``domain.start()``), the others from random points
        (graduated runs share the convex stage).  The best is returned, with all values in ``restart_values``.
    callback : callable, optional
        ``callback(intermediate_result)`` at x0 and after each outer step; raise ``StopIteration`` to end
        the run and the restarts.
    rng : None, int or numpy.random.Generator
        Seeds the random restarts and stochastic methods.
    checkpoint : path or dcfw.checkpoints.Checkpoint, optional
        A file to which the state is written every 30 seconds and at the end.  If it exists, the run resumes
        from it, with the same result bit for bit.  Requires ``restarts=1``.
    jac : callable or True, optional
        For an objective ``fun(x)``: its gradient ``jac(x)``, or True if ``fun(x)`` returns value and
        gradient. Default: the gradient by torch or JAX, if x0 is one of their arrays.
    verbose : int
        1 shows a line of progress (:class:`dcfw.callbacks.progress`).

    Returns
    -------
    Result
        See :class:`dcfw.Result` for its fields.

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
    second_order = isinstance(method, str) and isinstance(inner, str) and inner == "second-order"
    solver = method_named("dcfw" if second_order and method == "auto" else method)
    phi = from_callable(objective, jac, x0)
    given = as_set(domain)
    options = {"method": method, "inner": inner, "restarts": restarts, "checkpoint": checkpoint}
    completion = factored.prepare(phi, given, options)
    way = penalised.prepare(phi, given) if completion is None else completion
    phi, domain, x0 = way.phi, way.domain, way.start(x0, given)
    if completion is not None:
        inner = completion.inner if inner == "auto" else inner
        solver = solver if completion.part is None else factored.FactoredDCFW(completion.part)
    limits = {
        "maxiter": _validate.integer(maxiter, "maxiter", low=0),
        "max_inner": _validate.integer(max_inner, "max_inner", low=1),
        "max_lmo": None if max_lmo is None else _validate.integer(max_lmo, "max_lmo", low=1),
    }
    tol = _validate.constant(tol, "tol")
    rtol = None if rtol is None else _validate.scalar(rtol, "rtol", low=0.0, high=1.0)
    if time_limit is not None:
        time_limit = _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    restarts = _validate.integer(restarts, "restarts", low=1)
    if callback is not None:
        _validate.function(callback, "callback")
    generator = _validate.generator(rng)
    rule, tolerance_rule = steps.resolve(step), tolerances.resolve(tolerance)
    inner = check_inner(inner, solver)
    lazy = _validate.flag(lazy, "lazy")
    if isinstance(rule, steps.Exact) and inner == "auto" and _in_blocks(solver, phi, domain):
        solver = BlockSteps(domain)
    elif isinstance(solver, Auto):
        plain = inner == "auto" and tolerance == "adaptive"
        staged = checkpoint is None and isinstance(rule, steps.Exact) and _worth_a_try(phi, domain, plain)
        solver = Staged(lambda phi: parts_of(phi, DCFW(), domain)) if staged else DCFW()
    parts, solver = parts_of(phi, solver, domain)
    start, atoms = _start(x0, domain, parts.phi)
    result = Task(
        parts=parts,
        domain=domain,
        solver=solver,
        rule=rule,
        tolerance=tolerance_rule,
        inner=best_inner(solver, parts.f, domain, rule) if inner == "auto" else inner,
        lazy=lazy,
        x0=start,
        atoms=atoms,
        chosen=x0 is not None,
        tolerances=(tol, rtol),
        limits=limits,
        time_limit=time_limit,
        started=started,
        callback=penalised.presented(callback, way.back),
        generator=generator,
        checkpoint=None if checkpoint is None else _checkpoint(checkpoint, solver, restarts),
        seed=rng,
    ).best_of(restarts)
    return way.result(result)


def _in_blocks(solver: Method, phi: Function, domain: Set) -> bool:
    """Return whether to use a step length for each block, which needs no split of phi."""
    if not phi.differentiable or phi.convex or phi.affine_grad or isinstance(phi, DC):
        return False
    many = isinstance(domain, Product) and len(domain.sets) >= MANY and not domain.faces
    return isinstance(solver, Block) or (many and isinstance(solver, Auto))


def _worth_a_try(phi: Function, domain: Set, plain: bool) -> bool:
    """Return whether Frank-Wolfe steps on phi itself may make a split unnecessary.

    They do not over matrix sets with faces, whose vertices have rank one.  A given f - g is replaced only on
    an l2 ball, where steps on phi are much cheaper, and if no options of DC-FW were given (``plain``).
    """
    if not phi.differentiable or phi.convex or domain.faces:
        return False
    if not isinstance(phi, DC):
        return True
    on_a_ball = plain and not phi.affine_grad and ball.applies(domain)
    return on_a_ball and phi.whole is None and not splits.choose(phi, domain).refuted


def parts_of(phi: Function, solver: Method, domain: Set) -> tuple[Parts, Method]:
    """Return phi = f - g in the form that the method needs, and the method (wrapped if it has to find L)."""
    if not solver.needs_split:
        if not (phi.differentiable or getattr(solver, "subgradients", False)):
            raise ValueError(
                f"method {solver.name!r} needs the gradient of phi, and phi is not differentiable: use "
                "'dcfw', 'fw-k' or 'fw-m', which take a subgradient of g"
            )
        whole = Parts(phi, phi, Zero(), "none")
        if isinstance(solver, Graduated):
            return whole, Restarted(solver)
        if isinstance(phi, DC) and phi.whole is None:  # the FW gap bounds the DC gap of convex f and g only
            dc = splits.choose(phi, domain)
            whole = whole._replace(conditional=dc.conditional, refuted=dc.refuted)
        return whole, solver
    dc = splits.choose(phi, domain)
    if isinstance(dc, splits.Auto) and not isinstance(solver, DCFW):
        if dc is phi or not math.isfinite(dc.enough):
            raise ValueError(
                f"objective has a split with L='auto', which method {solver.name!r} cannot find: use "
                "'dcfw' or 'boosted', or give L, as in functions.Smooth(value, grad, lipschitz=L)"
            )
        dc = splits.sliding(phi)
    if isinstance(dc, splits.Auto):
        assert isinstance(solver, DCFW)
        solver = AdaptiveDCFW(solver, dc)
    phi = dc if dc.whole is None else dc.whole
    return Parts(phi, dc.f, dc.g, dc.name, dc.conditional, dc.refuted), solver


def _start(x0: Any, domain: Set, phi: Function) -> tuple[Array, ActiveSet | None]:
    """Return a copy of the start, and x0 if it is an active set."""
    if not isinstance(x0, ActiveSet):
        return copy_of(starting_point(x0, domain, phi)), None
    if not all(domain.contains(atom.dense()) for atom in x0.atoms):
        raise ValueError("x0 must be made of atoms in domain; pass x0.point() to use just the point")
    return copy_of(starting_point(x0.point(), domain, phi)), x0


def _checkpoint(checkpoint: Any, solver: Method, restarts: int) -> Any:
    """Return a :class:`Checkpoint`, or raise if it cannot work."""
    from dcfw.checkpoints import Checkpoint

    if restarts > 1:
        raise ValueError("checkpoint needs restarts=1: give each start, as x0, its own file")
    if not isinstance(solver, (*METHODS.values(), AdaptiveDCFW, BlockSteps, Restarted)):
        raise ValueError(
            f"checkpoint is not known to work with method {solver.name!r}, which is not dcfw's own"
        )
    return checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


def _pulled_in(x0: Array, domain: Set) -> Array:
    """Return the nearest feasible of some points on the way from ``x0`` to the set's own start."""
    inside = like(to_numpy(domain.start()), x0)
    steps = (10.0**k for k in range(-9, 0))
    points = (x0 + step * (inside - x0) for step in steps)
    return next((x for x in points if domain.contains(x)), inside)


def starting_point(x0: Any, domain: Set, phi: Function) -> Array:
    """Return x0, or the set's own start, as a feasible array that fits the objective's data."""
    data = phi.template()
    if x0 is None:
        start = _validate.point(domain.start(), "domain.start()", domain)
        x0 = start if data is None or not is_numpy(start) else like(start, data)
    else:
        x0 = _validate.point(x0, "x0", domain)
        if hasattr(x0, "requires_grad"):
            x0 = x0.detach()  # a solve does not record an autograd graph
        if data is not None and namespace(data) is not namespace(x0):
            raise ValueError(
                f"x0 must be an array like the objective's data: it is a {type(x0).__name__}, and they are "
                f"{type(data).__name__}; convert one of them"
            )
        if data is not None and data.dtype != x0.dtype:
            x0 = like(to_numpy(x0), data)
            # Rounding in one precision is infeasibility in the other.
            if domain.projects and not domain.contains(x0, 0.0):
                x0 = domain.project(x0)
            elif not domain.contains(x0):
                x0 = _pulled_in(x0, domain)
    penalised.same_size(phi, domain, x0.shape)
    return x0
