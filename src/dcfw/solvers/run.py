"""One run: its tolerance, budgets and milestones, and where it ends.

Solvers are written as if nothing could go wrong; a :class:`Run` supervises them.  Only this file ends a run
for a tolerance, a budget or a callback: by raising :class:`Stop`, which :class:`~dcfw.solvers.task.Task`
catches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import numpy as np

from dcfw._arrays import Array, copy_of, eps_of, norm
from dcfw.functions.base import Function
from dcfw.result import Result, Status
from dcfw.sets.base import Oracle
from dcfw.solvers import interrupts
from dcfw.solvers.ledger import Ledger
from dcfw.solvers.oracles import Oracles, Stop
from dcfw.tolerances import NoProgress, Tolerance

__all__ = ["Goal", "Run", "Stop"]

RTOL = 1e-6  # default tolerance, relative to the gap's scale
ROUNDING = 16.0  # rounding errors of an inner product, in units of precision times norms
RESERVE = 0.25  # largest share of the time limit reserved for the final check


class Goal:
    """The FW gap at which a run has converged; ``threshold`` is known from its first gap on.

    It is ``max(tol, rtol * first gap)``; with neither, RTOL times the first gap, or ``elsewhere()``, the gap
    at the set's own start, if that is larger (the user's start may be a solution already), but at least its
    rounding.
    """

    def __init__(self, tol: float | None, rtol: float | None) -> None:
        self.tol, self.rtol = tol, rtol
        self.relative = tol is None and rtol is None
        self.elsewhere: Callable[[], float] = lambda: math.nan
        self.scale: float | None = None
        self.rounding: float | None = None  # of the first gap
        self.threshold: float | None = None

    def measure_rounding(self, G: Array, u: Array | None, x: Array, s: Array) -> None:
        size = norm(G) + (0.0 if u is None else norm(u))
        self.rounding = ROUNDING * eps_of(x) * size * (norm(x) + norm(s))

    def set(self, first: float) -> None:
        if not self.relative:
            self.threshold = max(self.tol or 0.0, (self.rtol or 0.0) * first)
            return
        if self.scale is None:
            known = self.elsewhere()
            self.scale = max(first, known) if math.isfinite(known) else first
        self.threshold = max(RTOL * self.scale, self.rounding or 0.0)


class Run(Oracles):
    """The services of a run for its solver: counting oracles, milestones, and the end."""

    def __init__(
        self,
        objective: Function,
        oracle: Oracle,
        x0: Array,
        *,
        goal: Goal,
        maxiter: int,
        max_inner: int,
        max_lmo: int | None,
        time_limit: float | None,
        callback: Callable[..., Any] | None = None,
        started: float | None = None,
        split: bool = True,
    ) -> None:
        ledger = Ledger(time.perf_counter() if started is None else started)
        super().__init__(objective, oracle, x0, ledger, split)
        self.goal, self.callback, self.maxiter, self.max_inner = goal, callback, maxiter, max_inner
        self.max_lmo = math.inf if max_lmo is None else max_lmo
        self.time_limit = math.inf if time_limit is None else time_limit
        self.deadline = ledger.started + self.time_limit
        self.certify = ledger.certify
        self.end_outer_step = ledger.end_outer_step
        self.keeper: Any = None  # the dcfw.checkpoints.keeper.Keeper, if there is one
        self.resync_period = max(1000, math.prod(self.shape))  # steps between recomputed gradients
        self.rule: Tolerance | None = None
        self.eps = math.inf
        self.current: Any = None  # the state of an inner loop, whose point may be better than the best one
        self.vertices_only = False  # whether only the best point, a vertex, may be returned
        self._interrupted = False

    @property
    def nit(self) -> int:
        return self.ledger.nit

    @property
    def n_inner(self) -> int:
        return self.ledger.n_inner

    @property
    def n_lmo(self) -> int:
        return self.ledger.n_lmo

    @property
    def threshold(self) -> float:
        """The FW gap that ends the run, negative before the first visit."""
        return -1.0 if self.goal.threshold is None else self.goal.threshold

    def visit(self, x: Array, fun: float, gap: float, *, certain: bool = True, slack: float = 0.0) -> None:
        """Record an iterate (see ``Ledger.record``); end the run if it has converged or used up a budget."""
        if not math.isfinite(fun):
            raise Stop(Status.BAD_ORACLE, f"phi is {fun} {self.where()}.")
        if self.goal.threshold is None and gap == gap:  # not NaN
            self.goal.set(gap)
        now = time.perf_counter()
        self.ledger.record(x, fun, gap, now, certain=certain, slack=slack)
        self.current = None
        if self.callback is not None:
            try:
                self.callback(self._intermediate(copy_of(x), fun, gap))  # the callback may overwrite it
            except StopIteration as stop:
                raise Stop(Status.CALLBACK, str(stop)) from None
        if certain and gap <= self.threshold:
            self._converge(x, fun, gap)
        if self.ledger.nit >= self.maxiter:
            raise Stop(Status.MAXITER)
        if self.ledger.n_lmo >= self.max_lmo:
            raise Stop(Status.MAX_LMO)
        self.check_clock(now)

    def _converge(self, x: Array, fun: float, gap: float) -> None:
        best = self.ledger.best
        assert best is not None
        if not best.gap <= self.threshold:  # also if that gap is unknown
            first = self.ledger.history.first()
            if fun > first.fun + 64.0 * eps_of(x) * (abs(fun) + abs(first.fun) + first.gap):
                raise Stop(
                    Status.NO_PROGRESS,
                    f"Steps that may ascend have led to a stationary point with phi = {fun:.6g}, above "
                    f"phi(x0) = {first.fun:.6g}; x is the best point found. Use step='exact'.",
                )
            self.ledger.accept(x, fun, gap)
        raise Stop(Status.CONVERGED)

    def tolerance(self, rule: Tolerance, eps: float | None, gap: float) -> float:
        try:
            eps = rule.next(eps, gap)
        except NoProgress as reason:
            raise Stop(Status.NO_PROGRESS, str(reason)) from None
        if rule.enough(gap, eps, lambda: 0.0):  # a user-defined rule
            raise Stop(Status.NO_PROGRESS, f"The FW gap {gap:.3g} already meets the rule's tolerance.")
        self.rule, self.eps = rule, eps
        self.ledger.record_tolerance(eps)
        return eps

    def before_step(self, state: Any) -> None:
        """End the run before a Frank-Wolfe step if time is over or Ctrl-C was pressed."""
        self.current = state
        now = time.perf_counter()
        if self.deadline < math.inf and self.ledger.best is not None:
            # Do not start an oracle call that would end too late.
            used = now - self.ledger.started
            now += min(used / max(self.ledger.n_lmo, 1), RESERVE * self.time_limit)
        self.check_clock(now)

    @contextmanager
    def restricted_to(
        self, block: int, oracle: Any, shape: tuple[int, ...], reserve: int, put: Callable[[Array], Array]
    ) -> Iterator[None]:
        """Present one block as the whole problem, reserving LMO calls; ``put`` maps its points back."""
        whole = self._oracle, self.shape, self.max_lmo, self.current
        self._oracle, self.shape, self.max_lmo = oracle, shape, self.max_lmo - reserve
        self.current = None
        try:
            with self.ledger.block(block):
                yield
        finally:
            reached = self.current
            self._oracle, self.shape, self.max_lmo, self.current = whole
            if reached is not None:  # a point of the block, reached before the run ended
                self.current = SimpleNamespace(x=put(reached.x))

    def tell(self, error: BaseException) -> None:
        if self.ledger.best is None:
            return
        fun, x, gap = self.ledger.best
        with suppress(AttributeError, TypeError):  # an exception may have no room for it
            error.intermediate_result = self._intermediate(x, fun, gap)  # type: ignore[attr-defined]
            error.add_note(
                f"Raised {self.where()} of dcfw.minimize; the best point so far (phi = {fun:.6g}) is the "
                "x of this exception's attribute intermediate_result."
            )

    def _intermediate(self, x: Array, fun: float, gap: float) -> Result:
        return self._result(Status.RUNNING, Status.RUNNING.sentence, x, fun, gap)

    def result(self, status: Status, detail: str = "") -> Result:
        best = self.ledger.best
        fun, x, gap = (math.nan, self.x0, math.nan) if best is None else best
        final = math.nan
        if self.current is not None and self.current.x is not x and not self.vertices_only:
            # The run ended inside an inner loop: its last point is at least as good if steps descend.
            value = self._last_value(self.current.x)
            if value < fun or (math.isnan(fun) and math.isfinite(value)):
                x, gap, final = self.current.x, math.nan, value
        if math.isnan(final):
            final = self._last_value(x)  # without the accumulated rounding of a long run
        fun = final if math.isfinite(final) else fun
        if status in (Status.NOT_CONVEX, Status.BAD_ORACLE):
            self.ledger.forget_certificates()
        if self._interrupted:
            status, detail = Status.INTERRUPTED, ""
        return self._result(status, f"{status.sentence} {detail}".strip(), x, fun, gap)

    def _result(self, status: Status, message: str, x: Array, fun: float, gap: float) -> Result:
        return Result(
            x=x,
            fun=fun,
            gap=gap,
            success=status is Status.CONVERGED,
            status=status,
            message=message,
            threshold=self.goal.threshold,
            time=time.perf_counter() - self.ledger.started,
            **self.ledger.fields(),
        )

    def _last_value(self, x: Array) -> float:
        self.ledger.count_value()
        try:
            return float(self.objective.value(x))
        except KeyboardInterrupt:  # keep the result
            if interrupts.insistent():
                raise
            self._interrupted = True
            return math.nan
        except Exception:
            return math.nan

    def outer_step(self, state: Any = None, settled: bool = True) -> Any:
        """Announce an outer step from the solver's ``state``; return the state to continue from.

        A resumed run is restored in the first call.  ``settled`` is False where a budget has just cut a step
        short: a run with a larger budget would not be in this state.
        """
        if self.keeper is None:
            return state
        return self.keeper.outer_step(state, settled and self.n_lmo + 1 < self.max_lmo)

    def keep(self, **parts: Any) -> None:
        """Register parts with ``get_state`` and ``set_state`` that change and outlive an outer step."""
        if self.keeper is not None:
            self.keeper.keep(**parts)

    def know(self, **functions: Any) -> None:
        """Register functions that checkpoints save by name and look up again on resume."""
        if self.keeper is not None:
            self.keeper.known.update(functions)

    _KEPT = ("lmo_error", "rule", "eps", "_linearised")
    _GOAL = ("scale", "rounding")

    def get_state(self, now: float) -> dict[str, Any]:
        state = self.ledger.get_state(now) | {name: getattr(self, name) for name in self._KEPT}
        state |= {name: getattr(self.goal, name) for name in self._GOAL}
        state["current"] = None if self.current is None else self.current.x
        return state

    def set_state(self, state: dict[str, Any], rows: np.ndarray) -> None:
        """Continue from ``state`` and the history's ``rows``, with the budgets of this run."""
        self.ledger.set_state(state, rows, time.perf_counter())
        for name in self._KEPT:
            setattr(self, name, state[name])
        for name in self._GOAL:
            setattr(self.goal, name, state[name])
        self.deadline = self.ledger.started + self.time_limit
        self.current = None if state["current"] is None else SimpleNamespace(x=state["current"])
        if len(self.ledger.history):
            self.goal.set(self.ledger.history.first().gap)
