"""The front door: :func:`minimize`."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from dcfw import _validate, splits, steps, tolerances
from dcfw._arrays import Array, copy_of, is_numpy, like, namespace, to_numpy
from dcfw.functions.base import Function, as_function
from dcfw.functions.penalties import Composite, as_composite
from dcfw.functions.quadratic import SquaredNorm
from dcfw.functions.sums import Zero
from dcfw.result import ENDING, Result, Status, mark_ended
from dcfw.sets.base import Set
from dcfw.sets.given import as_set
from dcfw.solvers.active import RULES, ActiveLoop
from dcfw.solvers.active_set import MEMORY, ActiveSet
from dcfw.solvers.adaptive import AdaptiveDCFW
from dcfw.solvers.block import Block
from dcfw.solvers.boosted import BoostedDCFW
from dcfw.solvers.cgs import CGS
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw import FW
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.solvers.graduated import Graduated, Restarted
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.problem import Method, Problem
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.stochastic import SFW, Stochastic

METHODS: dict[str, type] = {
    "dcfw": DCFW,
    "boosted": BoostedDCFW,
    "block": Block,
    "fw": FW,
    "fw-k": FWK,
    "fw-m": FWM,
    "cgs": CGS,
    "graduated": Graduated,
    "stochastic": Stochastic,
    "sfw": SFW,
}
INNER = ("auto", "fw", *RULES)
LARGE = 1_000_000
"""With more entries an active set of matrices is not taken by default."""
ATOMS = 128
"""How many vertices are kept of a set that has infinitely many."""
OWN_FUNCTION = (CGS, Stochastic, SFW, FWK, FWM)
"""Methods whose steps are not along f: their inner function is a square, or they bring steps of their own."""


def minimize(
    objective: Any,
    domain: Any,
    x0: Any = None,
    *,
    method: Any = "dcfw",
    step: Any = "exact",
    inner: Any = "auto",
    lazy: bool = True,
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
    checkpoint: Any = None,
) -> Result:
    """Minimise a difference of convex functions over a compact convex set.

    Parameters
    ----------
    objective : DC or function
        ``f - g``, or a single function: then a split is chosen (:func:`dcfw.splits.best` states the rule)
        and named in the result.
    domain : set
        One of :mod:`dcfw.sets`, or any object with ``lmo(G)``, ``contains(x)`` and ``start()``.
    x0 : array or ActiveSet, optional
        Where to start; a feasible point, never written to.  Its array library and device are those of the
        whole solve, and so is its dtype unless the objective's data have another.  The ``active_set`` of an
        earlier result stands for its point, and inner solvers with an active set go on with its atoms
        (but for ``method="block"``).
        Default: ``domain.start()``.
    method : {"dcfw", "boosted", "block", "graduated", "fw", "fw-k", "fw-m", "cgs", ...} or a solver object
        DC-FW, DC-FW with a line search after each outer step, DC-FW on one block at a time (of a
        :class:`~dcfw.sets.Product`), DC-FW on a path of functions that ends at a vertex
        (:mod:`dcfw.solvers.graduated`, for problems whose answer has to be one), or one of the methods it is
        compared with; for finite sums and streams, ``"stochastic"`` and ``"sfw"``, DC-FW and Frank-Wolfe
        with sampled gradients (:mod:`dcfw.solvers.stochastic`).
    step : {"exact", "open-loop", "short", "backtracking"} or a rule from :mod:`dcfw.steps`
        The step size.  FW-K, FW-M and SFW bring their own.
    inner : {"auto", "fw", "away", "pairwise", "blended"}
        The inner solver: vanilla steps as in the paper, or one of those with an active set
        (:mod:`dcfw.solvers.active`), which need far fewer calls of the oracle on sets with faces.  ``"auto"``
        is ``"blended"`` for DC-FW in all its forms with exact steps over a polytope, and for quadratic f over
        another set with faces and at most a million entries (nuclear and spectral balls, spectraplexes, their
        epigraphs, products of all these); it is ``"fw"`` elsewhere.
    lazy : bool
        Whether away and pairwise steps may reuse known vertices instead of asking the oracle.
    tolerance : {"adaptive", "progress"}, float, or a rule from :mod:`dcfw.tolerances`
        When inner loops may stop; a number is a fixed eps.
    tol, rtol : float
        Stop when the FW gap is at most ``max(tol, rtol * first gap)``.
    maxiter, max_inner : int
        Limits of outer steps (steps, for the one-loop methods) and of steps per inner loop.
    max_lmo : int, optional
        Budget of linear minimisation calls (for each of the ``restarts``).
    time_limit : float, optional
        Seconds of wall clock (for all of them together).
    restarts : int
        How many runs: the first from x0 (or ``domain.start()``), the others from random points (graduated
        runs all start from x0, and are perturbed at random after their convex stage).  The best is
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
    composite = as_composite(phi)
    if isinstance(composite, Composite):
        raise ValueError(
            f"objective has the norm {composite.norm!r} in its convex part, which must be smooth for "
            "Frank-Wolfe: lift it first, objective, domain = functions.lift(objective, domain)"
        )
    domain = as_set(domain)
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
    if not callable(inner) or isinstance(inner, type):  # an inner solver of a user's own is a function
        inner = _validate.choice(inner, "inner", INNER)
    lazy = _validate.flag(lazy, "lazy")
    if inner not in ("auto", "fw") and isinstance(solver, FWK | FWM | SFW):
        raise ValueError(f"method {solver.name!r} takes vanilla steps only: leave inner at 'fw'")

    refuted = ""
    if solver.needs_split:
        dc = splits.choose(phi, domain)
        refuted = dc.refuted
        f, g, split, conditional = dc.f, dc.g, dc.name, dc.conditional
        phi = dc if dc.whole is None else dc.whole
        if isinstance(dc, splits.Auto):
            if not isinstance(solver, DCFW):
                raise ValueError(
                    f"objective has a split with L='auto', which method {solver.name!r} cannot find: use "
                    "'dcfw' or 'boosted', or give L"
                )
            solver = AdaptiveDCFW(solver, dc)
    else:
        _need_gradient(phi, solver)
        f, g, split, conditional = phi, Zero(), "none", ""
    known = x0 if isinstance(x0, ActiveSet) else None
    if known is not None:
        if not all(domain.contains(atom.dense()) for atom in known.atoms):
            raise ValueError("x0 must be made of atoms in domain; pass x0.point() to use just the point")
        x0 = known.point()
    x0 = copy_of(starting_point(x0, domain, phi))
    if isinstance(solver, Graduated):
        solver = Restarted(solver)
    if inner == "auto":
        inner = _best_inner(solver, f, domain, rule)
    if checkpoint is not None:
        checkpoint = _checkpoint(checkpoint, solver, restarts)

    def one(start: Array, began: float) -> Result:
        oracle = domain.oracle()
        run = Run(
            phi,
            oracle,
            start,
            tol=tol,
            rtol=rtol,
            time_limit=None if time_limit is None else time_limit - (began - started),
            callback=callback,
            started=began,
            split=solver.needs_split,
            **budgets,  # type: ignore[arg-type]
        )
        loop = _inner_loop(inner, lazy, domain)
        if isinstance(loop, ActiveLoop) and known is not None and start is x0:
            loop.resume(known, start, domain)
        problem = Problem(
            phi=phi,
            f=f,
            g=g,
            domain=domain,
            x0=start,
            rule=rule,
            step=rule.bind(SquaredNorm(1.0) if isinstance(solver, OWN_FUNCTION) else f, domain),
            tolerance=tolerance_rule,
            inner=loop,
            rng=generator,
        )
        try:
            with (
                nullcontext() if checkpoint is None else _kept(checkpoint, problem, run, oracle, solver, rng)
            ):
                solver.solve(problem, run)
            raise AssertionError("a solver ends by raising Stop")
        except Stop as stop:
            result = run.result(stop.status, stop.detail)
        except KeyboardInterrupt:
            result = run.result(Status.INTERRUPTED)
        except Exception as error:
            run.tell(error)
            raise
        if refuted and result.status is not Status.NOT_CONVEX:
            result.withdraw(f"{refuted}: nothing is certified.")
        if not _left_in(domain, result.x, start):
            result.withdraw(OUTSIDE, Status.BAD_ORACLE)
        result.method = solver.name
        result.split = run.extra.get("split", split)
        result.conditional = run.extra.get("conditional", conditional)
        if isinstance(loop, ActiveLoop):
            result.active_set = loop.active_set(result.x)
        return result

    best = result = one(x0, started)
    values, total, outside = [best.fun], best.time, OUTSIDE in best.message
    for _ in range(restarts - 1):
        if result.status in ENDING:
            break
        if time_limit is not None and clock.perf_counter() - started >= time_limit:
            mark_ended(best, Status.TIME_LIMIT)  # of the runs that were asked for, some are missing
            break
        try:
            # A path perturbs its start by itself; other methods start from random points.
            start = x0 if isinstance(solver, Restarted) else like(domain.random(generator), x0)
            result = one(start, clock.perf_counter())
        except KeyboardInterrupt:  # before the run has begun
            mark_ended(best, Status.INTERRUPTED)
            break
        except Exception as error:
            if not getattr(getattr(error, "intermediate_result", None), "fun", math.inf) <= best.fun:
                with suppress(AttributeError, TypeError):  # an exception may have no room for it
                    error.intermediate_result = best  # type: ignore[attr-defined]
            raise
        values.append(result.fun)
        total += result.time
        outside = outside or OUTSIDE in result.message
        if _rank(result) < _rank(best):
            best = result
    best.restart_values = values
    best.total_time = total
    if outside and OUTSIDE not in best.message:
        mark_ended(best, Status.BAD_ORACLE)
        best.message += " Another run was led out of the set by its lmo: see dcfw.check."
    if result.status in ENDING:
        mark_ended(best, result.status)
    return best


def _best_inner(solver: Method, f: Function, domain: Any, rule: Any) -> str:
    """Return the inner solver that ``inner="auto"`` stands for.

    In the study in results/inner blended steps solved nearly all problems and were fastest in most, vanilla
    steps less than half; ``python -m bench inner`` has larger matrices.  There every atom brings a dense
    gradient, which has to be paid in memory, and pays for quadratics, where it saves gradients.  Plain
    Frank-Wolfe, CGS and the steps of a rule stay what they are; so does the search for L where every look at
    f is a gradient.
    """
    flat = domain.faces and f.affine_grad and math.prod(domain.shape) <= LARGE
    if not ((flat or domain.polytope) and isinstance(rule, steps.Exact)):
        return "fw"
    if isinstance(solver, AdaptiveDCFW):
        return "blended" if f.affine_grad else "fw"
    return "blended" if isinstance(solver, DCFW | Block | Stochastic) else "fw"


def _inner_loop(inner: Any, lazy: bool, domain: Any) -> Callable[..., Any]:
    """Return the inner loop of one run; those with an active set have a state of their own.

    A set that is no polytope has so many vertices that atoms would pile up: there are fewer there.
    """
    if callable(inner):
        return inner  # type: ignore[no-any-return]
    if inner == "fw":
        return frank_wolfe
    if not domain.faces:
        return ActiveLoop(inner, lazy)
    pair = 2 * 8 * math.prod(domain.shape)  # bytes of an atom and its gradient
    return ActiveLoop(inner, lazy, cap=max(min(ATOMS, MEMORY // pair), 32))


def _checkpoint(checkpoint: Any, solver: Method, restarts: int) -> Any:
    """Return the checkpoint that was asked for, if it can be had."""
    from dcfw.checkpoints import Checkpoint

    if restarts > 1:
        raise ValueError("checkpoint needs restarts=1: give each start, as x0, a file of its own")
    if not isinstance(solver, (*METHODS.values(), AdaptiveDCFW, Restarted)):
        raise ValueError(
            f"checkpoint is not known to work with method {solver.name!r}, which is not dcfw's own"
        )
    return checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


@contextmanager
def _kept(
    checkpoint: Any, problem: Problem, run: Run, oracle: Any, solver: Method, rng: Any
) -> Iterator[None]:
    """Have the run saved, and resumed if there is something to resume."""
    from dcfw.checkpoints.fingerprint import describe, fingerprint
    from dcfw.checkpoints.keeper import Keeper

    loop = problem.inner
    name = (
        f"{loop.rule}, lazy={loop.lazy}, cap={loop.cap}" if isinstance(loop, ActiveLoop) else describe(loop)
    )
    run.keeper = keeper = Keeper(checkpoint, run)
    keeper.known = {"f": problem.f, "phi": problem.phi, "tolerance": problem.tolerance}
    keeper.keep(oracle=oracle, inner=loop, step=problem.step, rng=problem.rng)
    if hasattr(problem.tolerance, "get_state"):
        keeper.keep(tolerance=problem.tolerance)
    with keeper.open(fingerprint(problem, solver, name, run.max_inner, rng)):
        yield


def _method(method: Any) -> Method:
    if hasattr(method, "solve") and not isinstance(method, type):
        missing = [name for name in ("name", "needs_split") if not hasattr(method, name)]
        if missing:
            raise TypeError(f"method {type(method).__name__} lacks the attribute {' and '.join(missing)}")
        return method  # type: ignore[no-any-return]
    return METHODS[_validate.choice(method, "method", METHODS)]()  # type: ignore[no-any-return]


def _need_gradient(phi: Function, solver: Method) -> None:
    if not (phi.differentiable or getattr(solver, "subgradients", False)):
        raise ValueError(
            f"method {solver.name!r} needs the gradient of phi, and phi is not differentiable: use 'dcfw', "
            "'fw-k' or 'fw-m', which take a subgradient of g"
        )


OUTSIDE = (
    "The set's contains() says that x is not in it, so its lmo must have returned a point outside: "
    "dcfw.check looks for such mistakes."
)
"""What is said of a set of the user's own whose parts do not agree."""


def _rank(result: Result) -> tuple[bool, float]:
    """Return what the best of several runs has the least of: points outside the set come last, and NaN."""
    return OUTSIDE in result.message, math.inf if math.isnan(result.fun) else result.fun


def _left_in(domain: Set, x: Array, start: Array) -> bool:
    """Return whether the final point lies in the set, tolerating 1e-6 of the distance back to the start."""
    return domain.contains(x) or domain.contains(x + 1e-6 * (start - x))


def starting_point(x0: Any, domain: Set, phi: Function) -> Array:
    """Return x0, or the set's own start, as a feasible array that fits the objective's data."""
    data = phi.template()
    if x0 is None:
        start = _validate.point(domain.start(), "domain.start()", domain)
        x0 = start if data is None or not is_numpy(start) else like(start, data)
    else:
        x0 = _validate.point(x0, "x0", domain)
        if hasattr(x0, "requires_grad"):
            x0 = x0.detach()  # a solve is no part of anybody's graph
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
    if phi.size is not None and phi.size != math.prod(x0.shape):
        raise ValueError(
            f"objective is a function of {phi.size} variables, but the points of {domain!r} have shape "
            f"{tuple(x0.shape)}"
        )
    return x0
