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
from dcfw.functions.dc import DC, joined, unproven
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

MANY = 16
"""From this many blocks on, steps with a length for each of them are better than a split of phi."""


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
        ``f - g``; a single function, for which a split is chosen where one is needed
        (:func:`dcfw.splits.best` states the rule) and named in the result; or a callable ``fun(x)`` with
        ``jac``.
    domain : set
        One of :mod:`dcfw.sets`, or any object with ``lmo(G)``, ``contains(x)`` and ``start()``.
    x0 : array or ActiveSet, optional
        Where to start; a feasible point, never written to.  Its array library and device are those of the
        whole solve, and so is its dtype unless the objective's data have another.  The ``active_set`` of an
        earlier result stands for its point, and inner solvers with an active set go on with its atoms (but
        for ``method="block"``). Default: ``domain.start()``.
    method : {"auto", "dcfw", "boosted", "block", "graduated", "fw", "fw-k", "fw-m", "cgs", ...} or solver
        ``"auto"`` is DC-FW for ``f - g`` and for convex functions.  On any other function (and on a smooth
        ``f - g`` over an l2 ball) it begins with steps on phi itself, and changes to DC-FW when their gap no
        longer falls fast (``dcfw.solvers.staged``); with a ``checkpoint``, or a ``step`` other than
        ``"exact"``, it is DC-FW from the start. On a product of 16 sets or more it takes steps with a length
        for each block instead (``dcfw.solvers.block_steps``), and so does ``"block"`` on any product. The
        others are DC-FW, DC-FW with a line search after each outer step, DC-FW on one block at a time (of a
        :class:`~dcfw.sets.Product`), DC-FW on a path of functions that ends at a vertex
        (:mod:`dcfw.solvers.graduated`, for problems whose answer has to be one), or one of the methods it is
        compared with; for finite sums and streams, ``"stochastic"`` and ``"sfw"``, DC-FW and Frank-Wolfe with
        sampled gradients (:mod:`dcfw.solvers.stochastic`).
    step : {"exact", "open-loop", "short", "backtracking", "adaptive"} or a rule from :mod:`dcfw.steps`
        The step size.  FW-K, FW-M and SFW bring their own.
    inner : {"auto", "fw", "away", "pairwise", "blended", "descent", "in-face", "second-order"}
        The inner solver: vanilla steps as in the paper, or one of those with an active set
        (:mod:`dcfw.solvers.active`), which need far fewer calls of the oracle on sets with faces, or in-face
        steps, which store no vertices (:mod:`dcfw.solvers.in_face`), or steps to the minimiser of a quadratic
        model, for an f with ``hessian(x)`` (:mod:`dcfw.solvers.second_order`).  ``"auto"`` is ``"in-face"``
        for DC-FW with a given f that is not a quadratic, over boxes, hypersimplices, assignments and plans;
        it is ``"blended"`` for DC-FW in all its forms with exact steps over a polytope, and for quadratic f
        over another set with faces and at most a million entries (nuclear and spectral balls, spectraplexes,
        their epigraphs, products of all these); it is ``"fw"`` elsewhere.
    lazy : bool
        Whether away and pairwise steps may reuse known vertices instead of asking the oracle.
    tolerance : {"adaptive", "progress"}, float, or a rule from :mod:`dcfw.tolerances`
        When inner loops may stop; a number is a fixed eps.
    tol, rtol : float, optional
        Stop when the FW gap is at most ``max(tol, rtol * first gap)``; where one is given, the other is 0.
        By default, stop at a millionth of the first gap, or of the gap at ``domain.start()`` if x0 is given
        and that gap is larger (or at what rounding allows): the units of phi do not matter.
    maxiter, max_inner : int
        Limits of outer steps (steps, for the one-loop methods; passes, for ``"block"``) and of steps per
        inner loop.
    max_lmo : int, optional
        Budget of linear minimisation calls (for each of the ``restarts``).
    time_limit : float, optional
        Seconds of wall clock (for all of them together).
    restarts : int
        How many runs: the first from x0 (or ``domain.start()``), the others from random points (graduated
        runs share the convex stage, and enter the path at random places).  The best is
        returned, with all values in ``restart_values``.
    callback : callable, optional
        ``callback(intermediate_result)`` at x0 and after each outer step; raise ``StopIteration`` to end
        the run (and with it the restarts).
    rng : None, int or numpy.random.Generator
        Seeds the random restarts, and methods that draw.
    checkpoint : path or dcfw.checkpoints.Checkpoint, optional
        A file to which the state of the run is written every 30 seconds and at its end.  If it is there
        already, the run goes on from it, to the result of a run that was never interrupted, bit for bit.
        It takes ``restarts=1``.  See :class:`dcfw.checkpoints.Checkpoint`.
    jac : callable or True, optional
        For an objective that is a plain callable: its gradient ``jac(x)``, or True if ``fun(x)`` returns
        value and gradient.  Without it the gradient comes from torch or JAX, if x0 is an array of theirs.
    verbose : int
        1 shows a line of progress on the standard error stream, or in the notebook
        (:class:`dcfw.callbacks.progress`).

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
    tol = None if tol is None else _validate.scalar(tol, "tol", low=0.0)
    rtol = None if rtol is None else _validate.scalar(rtol, "rtol", low=0.0, high=1.0)
    if time_limit is not None:
        time_limit = _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    restarts = _validate.integer(restarts, "restarts", low=1)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {type(callback).__name__}")
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
        callback=way.told(callback),
        generator=generator,
        checkpoint=None if checkpoint is None else _checkpoint(checkpoint, solver, restarts),
        seed=rng,
    ).best_of(restarts)
    return way.result(result)


def _in_blocks(solver: Method, phi: Function, domain: Set) -> bool:
    """Return whether to give each block a step length, which needs no split of phi."""
    if not phi.differentiable or phi.convex or phi.affine_grad or isinstance(phi, DC):
        return False
    many = isinstance(domain, Product) and len(domain.sets) >= MANY and not domain.faces
    return isinstance(solver, Block) or (many and isinstance(solver, Auto))


def _worth_a_try(phi: Function, domain: Set, plain: bool) -> bool:
    """Return whether Frank-Wolfe steps on phi itself may make a split unnecessary.

    Minimisers over sets of matrices with faces are hardly ever vertices: those have rank one.  A given f - g
    is left as it is, but on an l2 ball, where steps on phi are so much cheaper (unless options of DC-FW were
    given: ``plain``).
    """
    if not phi.differentiable or phi.convex or domain.faces:
        return False
    if not isinstance(phi, DC):
        return True
    on_a_ball = not phi.affine_grad and ball.applies(domain)
    return plain and on_a_ball and phi.whole is None and not splits.choose(phi, domain).refuted


def parts_of(phi: Function, solver: Method, domain: Set) -> tuple[Parts, Method]:
    """Return phi = f - g as the method needs it, and the method (wrapped, if it has to find L)."""
    if not solver.needs_split:
        if not (phi.differentiable or getattr(solver, "subgradients", False)):
            raise ValueError(
                f"method {solver.name!r} needs the gradient of phi, and phi is not differentiable: use "
                "'dcfw', 'fw-k' or 'fw-m', which take a subgradient of g"
            )
        whole = Parts(phi, phi, Zero(), "none")
        return whole, Restarted(solver) if isinstance(solver, Graduated) else solver
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
    all_of_it = dc if dc.whole is None else dc.whole
    return Parts(all_of_it, dc.f, dc.g, dc.name, joined(dc, unproven(dc)), dc.refuted), solver


def _start(x0: Any, domain: Set, phi: Function) -> tuple[Array, ActiveSet | None]:
    """Return a copy of the start, and the active set that makes it up where x0 is one."""
    atoms = x0 if isinstance(x0, ActiveSet) else None
    if atoms is not None:
        if not all(domain.contains(atom.dense()) for atom in atoms.atoms):
            raise ValueError("x0 must be made of atoms in domain; pass x0.point() to use just the point")
        x0 = atoms.point()
    return copy_of(starting_point(x0, domain, phi)), atoms


def _checkpoint(checkpoint: Any, solver: Method, restarts: int) -> Any:
    """Return the checkpoint as an object, or refuse it where it cannot work."""
    from dcfw.checkpoints import Checkpoint

    if restarts > 1:
        raise ValueError("checkpoint needs restarts=1: give each start, as x0, a file of its own")
    if not isinstance(solver, (*METHODS.values(), AdaptiveDCFW, BlockSteps, Restarted)):
        raise ValueError(
            f"checkpoint is not known to work with method {solver.name!r}, which is not dcfw's own"
        )
    return checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


def starting_point(x0: Any, domain: Set, phi: Function) -> Array:
    """Return x0, or the set's own start, as a feasible array that fits the objective's data."""
    data = phi.template()
    if x0 is None:
        start = _validate.point(domain.start(), "domain.start()", domain)
        x0 = start if data is None or not is_numpy(start) else like(start, data)
    else:
        x0 = _validate.point(x0, "x0", domain)
        if hasattr(x0, "requires_grad"):
            x0 = x0.detach()  # a solve is not part of an autograd graph
        if data is not None and namespace(data) is not namespace(x0):
            raise ValueError(
                f"x0 must be an array like the objective's data: it is a {type(x0).__name__}, and they are "
                f"{type(data).__name__}; convert one of them"
            )
        if data is not None and data.dtype != x0.dtype:
            x0 = like(to_numpy(x0), data)
            # What was rounding in the one precision is an error in the other.
            if domain.projects and not domain.contains(x0, 0.0):
                x0 = domain.project(x0)
    penalised.same_size(phi, domain, x0.shape)
    return x0
