"""One run: its budgets, its counters, its history and its best point.

The solvers are written as if nothing could go wrong; a :class:`Run` watches over them.  Every oracle call
goes through it, so there is one way to count, one place where a budget ends a run, and one where an
oracle's answer is looked at.  A run ends by raising :class:`Stop`, which ``minimize`` catches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from dcfw._arrays import Array, copy_of, eps_of, inner, like, namespace, norm
from dcfw.functions.base import Function, Linearisation
from dcfw.result import History, Result, Row, Status
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Oracle
from dcfw.sets.given import as_set
from dcfw.tolerances import NoProgress, Tolerance

UPHILL = 1e-5
"""By how much of its size a slope towards the oracle's answer may be positive: points that are accepted as
feasible may lie outside by some 1e-6."""


class Stop(Exception):
    """Ends a run with a status; ``detail`` completes its sentence.

    ``lacking`` belongs to NOT_CONVEX: how much curvature was missing (per squared length), where known.
    """

    def __init__(self, status: Status, detail: str = "", lacking: float = 0.0) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail
        self.lacking = lacking


def _finite(a: Array) -> bool:
    xp = namespace(a)
    return bool(xp.all(xp.isfinite(a)))


class Run:
    """The bookkeeping of one solve."""

    def __init__(
        self,
        objective: Function,
        oracle: Oracle,
        x0: Array,
        *,
        tol: float,
        rtol: float,
        maxiter: int,
        max_inner: int,
        max_lmo: int | None,
        time_limit: float | None,
        callback: Callable[..., Any] | None = None,
        started: float | None = None,
        split: bool = True,
    ) -> None:
        self.objective = objective
        self._oracle = oracle
        self.lmo_error = 0.0
        self.shape = tuple(x0.shape)
        self.tol = tol
        self.rtol = rtol
        self.maxiter = maxiter
        self.max_inner = max_inner
        self.max_lmo = math.inf if max_lmo is None else max_lmo
        self.started = time.perf_counter() if started is None else started
        self.time_limit = math.inf if time_limit is None else time_limit
        self.deadline = self.started + self.time_limit
        self.callback = callback
        self.keeper: Any = None
        """What saves and resumes the run (:class:`dcfw.checkpoints.keeper.Keeper`), if anything does."""
        self._gradient = "f.grad" if split else "phi.grad"
        self._linearised: Linearisation | None = None
        self._interrupted = False
        self.vertices_only = False
        """Whether the answer has to be a vertex, so that no other iterate may take its place."""

        self.nit = self.n_inner = self.n_lmo = self.n_fun = 0
        self.n_grad_f = self.n_grad_g = self.n_resync = 0
        self.since_resync = 0
        self.resync_period = max(1000, math.prod(self.shape))
        self.threshold: float | None = None

        self.rule: Tolerance | None = None
        self.eps = math.inf

        self.history = History()
        self.extra: dict[str, Any] = {}
        """What a solver wants the result to have besides."""
        self.x0 = x0
        self._numpy = isinstance(x0, np.ndarray)
        self.best: tuple[float, Array, float] | None = None
        self.current: Any = None
        self.dc_gap: tuple[float, float] = (0.0, math.inf)
        self.dc_gap_nit = 0

    # -- oracles, counted and looked at -------------------------------------------------------------

    def lmo(self, G: Array, x: Array) -> tuple[Atom, float]:
        """Return the vertex for G and the FW gap <G, x - s> plus the oracle's own error bound.

        ``lmo_error`` keeps that bound: it belongs to the certificate, but not to the slope towards s.
        """
        self.n_lmo += 1
        oracle = self._oracle
        try:
            S = oracle(G)
        except Exception:  # no answer to a question without sense is not the oracle's fault
            self._blame_gradient(G)
            raise
        # A user's own lmo is trusted with the mathematics, but not with shapes: broadcasting would hide them.
        if S.__class__ is Dense:
            s = self._array(S.array, G.shape, "the set's lmo")
            S = S if s is S.array else Dense(s)
        self.lmo_error = error = oracle.error
        gap = inner(G, x) - S.inner(G) + error
        if not math.isfinite(gap):
            self._blame(G, S)
        if gap > 0.0:
            return S, gap
        # An oracle cannot do worse than x itself, which is in the set: what is below zero should be rounding.
        allowed = UPHILL * norm(G)
        if getattr(oracle, "recalled", False):
            return S, 0.0  # G may be all rounding, and then the answer was made for another rounding of it
        if gap < -allowed * (norm(x) + norm(S.dense())) and gap < -allowed * self._extent(G):
            raise Stop(
                Status.BAD_ORACLE,
                f"the set's lmo returned a point s with <G, s> larger than <G, x> by {-gap:.3g}: it must "
                "minimise <G, s> over the set.",
            )
        return S, 0.0

    def _extent(self, G: Array) -> float:
        """Return the diameter of the set, or its extent in some direction where it does not tell."""
        oracle = getattr(self._oracle, "oracle", self._oracle)  # that of a block remembers the block's
        diameter = as_set(oracle.domain).diameter if isinstance(oracle, Oracle) else math.inf
        if math.isfinite(diameter):
            return diameter
        generic = like(np.random.default_rng(0).standard_normal(tuple(G.shape)), G)
        ends = [oracle(sign * generic).dense() for sign in (1.0, -1.0)]
        return norm(ends[0] - ends[1])

    def grad_f(self, f: Function, x: Array) -> Array:
        self.n_grad_f += 1
        grad = self._array(f.grad(x), x.shape, self._gradient)
        self._look_at_the_clock()
        return grad

    def grad_f_at(self, f: Function, S: Atom) -> Array:
        self.n_grad_f += 1
        return self._array(f.grad_at(S), self.shape, self._gradient)

    def linearise(self, g: Function, x: Array) -> Linearisation:
        self.n_grad_g += 1
        value, slope, unique = g.linearise(x)
        slope = self._array(slope, x.shape, "the subgradient of g")
        self._linearised = answer = Linearisation(value, slope, unique)
        self._check_number(value, "g.value")
        return answer

    def value(self, function: Function, x: Array) -> float:
        self.n_fun += 1
        value = function.value(x)
        self._check_number(value, "phi.value" if function is self.objective else "f.value")
        self._look_at_the_clock()
        return value

    def value_of(self, f: Function, x: Array, grad: Array, known: float | None = None) -> float:
        """Return f(x), free of charge where it is known or follows from the gradient."""
        value = f.value_from_grad(x, grad) if known is None else known
        if value is None:
            return self.value(f, x)
        if not math.isfinite(value):
            self.bad_gradient()
        return value

    def _array(self, answer: Any, shape: tuple[int, ...], oracle: str) -> Array:
        """Return what an oracle has answered, if it is an array like x of this shape with real numbers."""
        if getattr(answer, "shape", None) != shape:
            self._wrong_shape(oracle, answer)
        if not isinstance(answer, np.ndarray):
            return self._like_x(answer, oracle)
        if answer.dtype.kind != "f":
            if answer.dtype.kind not in "biu":
                self.bad(oracle, f"an array of {answer.dtype}")
            answer = answer.astype(self.x0.dtype)
        return answer if self._numpy else self._like_x(answer, oracle)

    def _like_x(self, answer: Any, oracle: str) -> Array:
        """Return an answer of another library than NumPy in the precision of x, which others do not mix."""
        xp = namespace(self.x0)
        try:
            alike = namespace(answer) is xp
        except TypeError:  # no array at all
            alike = False
        if not alike:
            self.bad(oracle, f"a {type(answer).__name__}, where x is a {type(self.x0).__name__},")
        if answer.dtype != self.x0.dtype:
            if xp.isdtype(answer.dtype, "complex floating"):
                self.bad(oracle, f"an array of {answer.dtype}")
            answer = xp.astype(answer, self.x0.dtype)
        return answer

    def _look_at_the_clock(self) -> None:
        """End the run if time is over; a line search may have many calls to go."""
        if self.best is not None and time.perf_counter() >= self.deadline:
            raise Stop(Status.TIME_LIMIT)

    def _check_number(self, value: Any, oracle: str) -> None:
        try:
            fine = math.isfinite(value)
        except TypeError:
            self.bad(oracle, f"an object of type {type(value).__name__}")
        if not fine:
            self.bad(oracle, value)

    def bad(self, oracle: str, answer: object = "NaN or Inf") -> NoReturn:
        raise Stop(Status.BAD_ORACLE, f"{oracle} returned {answer} {self._where()}.")

    def bad_gradient(self) -> NoReturn:
        self.bad(self._gradient)

    def _where(self) -> str:
        return f"in outer step {self.nit + 1} (after {self.n_inner} steps in all)"

    def _wrong_shape(self, oracle: str, got: Any) -> NoReturn:
        found = f"shape {tuple(got.shape)}" if hasattr(got, "shape") else f"a {type(got).__name__}"
        raise Stop(
            Status.BAD_ORACLE, f"{oracle} returned {found}, expected shape {self.shape}, {self._where()}."
        )

    def _blame(self, G: Array, S: Atom) -> NoReturn:
        """Find out which oracle made the gap <G, x - s> NaN or infinite."""

        self._blame_gradient(G)
        if not _finite(S.dense()):
            self.bad("the set's lmo")
        raise Stop(Status.BAD_ORACLE, f"<G, x> overflows {self._where()}: scale the objective down.")

    def _blame_gradient(self, G: Array) -> None:
        """End the run if G is not finite, and say whose fault that is."""
        if self._linearised is not None and not _finite(self._linearised.slope):
            self.bad("the subgradient of g")
        if not _finite(G):
            self.bad_gradient()

    # -- milestones -----------------------------------------------------------------------------------

    def visit(self, x: Array, fun: float, gap: float, *, stage: bool = False) -> None:
        """Record an iterate whose FW gap is known; end the run where that is due.

        The gap of a ``stage`` is that of another function, on the way to phi: it is recorded, but neither
        certifies x nor ends the run.
        """
        if not math.isfinite(fun):
            raise Stop(Status.BAD_ORACLE, f"phi is {fun} {self._where()}.")
        if self.threshold is None:
            self.threshold = max(self.tol, self.rtol * gap)
        if self.best is None or fun < self.best[0]:
            self.best = (fun, x, math.nan if stage else gap)
        self.current = None
        now = time.perf_counter()
        self.history.append(
            Row(
                nit=self.nit,
                fun=fun,
                gap=gap,
                dc_low=0.0,
                dc_high=math.inf if stage else gap,
                eps=math.nan,
                n_inner=self.n_inner,
                n_lmo=self.n_lmo,
                n_grad_f=self.n_grad_f,
                n_grad_g=self.n_grad_g,
                n_fun=self.n_fun,
                time=now - self.started,
            )
        )
        # gap_DC <= FW gap at every point, for every decomposition.
        if gap < self.dc_gap[1] and not stage:
            self.dc_gap, self.dc_gap_nit = (0.0, gap), self.nit
        if self.callback is not None:
            self._call_back(x, fun, gap)
        if gap <= self.threshold and not stage:
            # Of the points that meet the tolerance this one is returned, unless one of lower phi did too.
            if not self.best[2] <= self.threshold:  # the gap there may be unknown
                self._look_for_ascent(x, fun)
                self.best = (fun, x, gap)
            raise Stop(Status.CONVERGED)
        if self.nit >= self.maxiter:
            raise Stop(Status.MAXITER)
        if self.n_lmo >= self.max_lmo:
            raise Stop(Status.MAX_LMO)
        if now >= self.deadline:
            raise Stop(Status.TIME_LIMIT)

    def accept(self, x: Array, fun: float, gap: float) -> None:
        """Make x the best point; its FW gap certifies it, where that is known."""
        self.best = (fun, x, gap)
        if gap < self.dc_gap[1]:
            self.dc_gap, self.dc_gap_nit = (0.0, gap), self.nit

    def _look_for_ascent(self, x: Array, fun: float) -> None:
        """End the run, with the best point so far, where a stationary point lies above phi(x0)."""
        row = self.history.first()
        first, gap = row.fun, row.gap
        if fun > first + 64.0 * eps_of(x) * (abs(fun) + abs(first) + gap):
            raise Stop(
                Status.NO_PROGRESS,
                f"Steps that may ascend have led to a stationary point with phi = {fun:.6g}, above "
                f"phi(x0) = {first:.6g}; x is the best point on the way. Take step='exact'.",
            )

    def tolerance(self, rule: Tolerance, eps: float | None, gap: float) -> float:
        """Return the inner tolerance from here on, or end the run if the rule sees no way to move."""
        try:
            eps = rule.next(eps, gap)
        except NoProgress as reason:
            raise Stop(Status.NO_PROGRESS, str(reason)) from None
        if rule.enough(gap, eps, lambda: 0.0):  # a rule of the user's own that would stay where it is
            raise Stop(Status.NO_PROGRESS, f"The FW gap {gap:.3g} already meets the rule's tolerance.")
        self.rule, self.eps = rule, eps
        self.history.amend(eps=eps)
        return eps

    def certify(self, low: float, high: float) -> None:
        """Record the interval for the DC gap of the iterate visited last (from which x_{t+1} came)."""
        high = max(min(high, self.history.last().dc_high), 0.0)  # below zero is rounding
        low = min(max(low, 0.0), high)
        self.history.amend(dc_low=low, dc_high=high)
        if high <= self.dc_gap[1]:
            self.dc_gap, self.dc_gap_nit = (low, high), self.nit

    def before_step(self, state: Any) -> None:
        """Called before each Frank-Wolfe step: the place where the clock ends a run."""
        self.current = state
        if time.perf_counter() >= self.deadline:
            raise Stop(Status.TIME_LIMIT)

    def _call_back(self, x: Array, fun: float, gap: float) -> None:
        assert self.callback is not None
        try:
            self.callback(self._intermediate(copy_of(x), fun, gap))  # which the callback may write to
        except StopIteration as stop:
            raise Stop(Status.CALLBACK, str(stop)) from None

    def tell(self, error: Exception) -> None:
        """Tell an exception that ends the run where it came, and leave it the best point so far."""
        if self.best is None:
            return
        fun, x, gap = self.best
        with suppress(AttributeError, TypeError):  # an exception may have no room for it
            error.intermediate_result = self._intermediate(x, fun, gap)  # type: ignore[attr-defined]
            error.add_note(
                f"This came {self._where()} of dcfw.minimize; the best point so far (phi = {fun:.6g}) is the "
                "x of this exception's attribute intermediate_result."
            )

    def _intermediate(self, x: Array, fun: float, gap: float) -> Result:
        return Result(
            x=x,
            fun=fun,
            gap=gap,
            dc_gap=self.dc_gap,
            dc_gap_nit=self.dc_gap_nit,
            nit=self.nit,
            n_inner=self.n_inner,
            n_lmo=self.n_lmo,
            n_fun=self.n_fun,
            n_grad_f=self.n_grad_f,
            n_grad_g=self.n_grad_g,
            time=time.perf_counter() - self.started,
            status=Status.RUNNING,
            success=False,
            message=Status.RUNNING.sentence,
            history=self.history,
        )

    # -- checkpoints ------------------------------------------------------------------------------------

    def outer_step(self, state: Any = None, settled: bool = True) -> Any:
        """Tell that an outer step begins, from the solver's ``state``; return the state to go on from.

        That is ``state`` itself, or, in the first call of a run that is resumed, the one that was saved: then
        the run and all that was given to :meth:`keep` have been restored as well.  Where a budget has just
        cut a step short, ``settled`` is False: a run with a larger budget would not stand here.
        """
        if self.keeper is None:
            return state
        return self.keeper.outer_step(state, settled and self.n_lmo + 1 < self.max_lmo)

    def keep(self, **parts: Any) -> None:
        """Name what lives longer than an outer step and changes, and has ``get_state`` and ``set_state``."""
        if self.keeper is not None:
            self.keeper.keep(**parts)

    def know(self, **functions: Any) -> None:
        """Name functions that a resumed run has as well: where a state refers to them, the name is saved."""
        if self.keeper is not None:
            self.keeper.known.update(functions)

    _COUNTERS = (
        "nit",
        "n_inner",
        "n_lmo",
        "n_fun",
        "n_grad_f",
        "n_grad_g",
        "n_resync",
        "since_resync",
        "lmo_error",
        "rule",
        "eps",
        "extra",
        "best",
        "dc_gap",
        "dc_gap_nit",
        "_linearised",
    )

    def get_state(self, now: float) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self._COUNTERS}
        state["seconds"] = now - self.started
        state["current"] = None if self.current is None else self.current.x
        state["history"] = self.history.get_state()
        return state

    def set_state(self, state: dict[str, Any], rows: Any) -> None:
        """Go on from ``state``, with the budgets and tolerances of this run; ``rows`` are the history's."""
        for name in self._COUNTERS:
            setattr(self, name, state[name])
        self.started = time.perf_counter() - state["seconds"]
        self.deadline = self.started + self.time_limit
        self.current = None if state["current"] is None else SimpleNamespace(x=state["current"])
        self.history.set_state(state["history"], rows)
        if len(self.history):
            self.threshold = max(self.tol, self.rtol * self.history.first().gap)

    # -- the end ----------------------------------------------------------------------------------------

    def result(self, status: Status, detail: str = "") -> Result:
        """Return the result of the run as it stands."""
        fun, x, gap = (math.nan, self.x0, math.nan) if self.best is None else self.best
        final = math.nan
        if self.current is not None and self.current.x is not x and not self.vertices_only:
            # The run ended inside an inner loop: its last point is at least as good where steps descend.
            value = self._last_value(self.current.x)
            if value < fun or (math.isnan(fun) and math.isfinite(value)):
                x, gap, final = self.current.x, math.nan, value
        if math.isnan(final):
            final = self._last_value(x)  # free of the rounding that adds up in a long run
        fun = final if math.isfinite(final) else fun
        if self._interrupted:
            status, detail = Status.INTERRUPTED, ""
        if status is Status.NOT_CONVEX:
            self.dc_gap = (0.0, math.inf)
            self.history.forget_certificates()
        message = f"{status.sentence} {detail}".strip()
        return Result(
            x=x,
            fun=fun,
            success=status is Status.CONVERGED,
            status=status,
            message=message,
            nit=self.nit,
            n_inner=self.n_inner,
            gap=gap,
            dc_gap=self.dc_gap,
            dc_gap_nit=self.dc_gap_nit,
            n_fun=self.n_fun,
            n_grad_f=self.n_grad_f,
            n_grad_g=self.n_grad_g,
            n_lmo=self.n_lmo,
            n_resync=self.n_resync,
            time=time.perf_counter() - self.started,
            history=self.history,
            **self.extra,
        )

    def _last_value(self, x: Array) -> float:
        """Return phi(x) for the result, nan if it cannot be had."""
        self.n_fun += 1
        try:
            return float(self.objective.value(x))
        except KeyboardInterrupt:  # what has been found is not lost for it
            self._interrupted = True
            return math.nan
        except Exception:
            return math.nan
