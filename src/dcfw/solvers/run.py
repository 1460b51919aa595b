"""One run: its budgets and milestones, and where it ends.

The solvers are written as if nothing could go wrong; a :class:`Run` watches over them.  Oracle calls go
through :class:`~dcfw.solvers.oracles.Oracles`, its base; everything that happens is booked in its
:class:`~dcfw.solvers.ledger.Ledger`; and this file is the one place where a tolerance, a budget or a callback
ends a run.  A run ends by raising :class:`Stop`, which ``minimize`` catches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import numpy as np

from dcfw._arrays import Array, copy_of, eps_of
from dcfw.functions.base import Function
from dcfw.result import Result, Status
from dcfw.sets.base import Oracle
from dcfw.solvers import interrupts
from dcfw.solvers.goal import Goal
from dcfw.solvers.ledger import Ledger
from dcfw.solvers.oracles import Oracles, Stop
from dcfw.tolerances import NoProgress, Tolerance

__all__ = ["Run", "Stop"]

RESERVE = 0.25
"""The largest share of the time limit that is kept back for the last look at the result."""


class Run(Oracles):
    """The services of a run for its solver: counting oracles, milestones, and its end."""

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
        super().__init__(
            objective, oracle, x0, Ledger(time.perf_counter() if started is None else started), split
        )
        self.goal = goal
        self.maxiter = maxiter
        self.max_inner = max_inner
        self.max_lmo = math.inf if max_lmo is None else max_lmo
        self.time_limit = math.inf if time_limit is None else time_limit
        self.deadline = self.ledger.started + self.time_limit
        self.callback = callback
        self.keeper: Any = None
        """The :class:`dcfw.checkpoints.keeper.Keeper` that saves and resumes the run, if there is one."""
        self.resync_period = max(1000, math.prod(self.shape))
        """Steps after which an incremental gradient is recomputed."""
        self.rule: Tolerance | None = None
        self.eps = math.inf
        self.current: Any = None
        """The state of an inner loop that is under way, whose point may be better than the best one."""
        self.vertices_only = False
        """Whether the answer has to be a vertex, so that no other iterate may take its place."""
        self._interrupted = False

    # Counters are read here and written by the ledger alone.

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
        """The FW gap that ends the run; nothing meets it before the first visit."""
        return -1.0 if self.goal.threshold is None else self.goal.threshold

    # -- milestones -------------------------------------------------------------------------------------

    def visit(self, x: Array, fun: float, gap: float, *, certain: bool = True, slack: float = 0.0) -> None:
        """Record an iterate whose FW gap is known; end the run where that is due.

        ``certain`` and ``slack`` are those of :meth:`~dcfw.solvers.ledger.Ledger.record`; a gap that is not
        certain does not end a run as converged.
        """
        if not math.isfinite(fun):
            raise Stop(Status.BAD_ORACLE, f"phi is {fun} {self.where()}.")
        if self.goal.threshold is None and gap == gap:  # not NaN
            self.goal.set(gap)
        now = time.perf_counter()
        self.ledger.record(x, fun, gap, now, certain=certain, slack=slack)
        self.current = None
        if self.callback is not None:
            self._call_back(x, fun, gap)
        if certain and gap <= self.threshold:
            self._converge(x, fun, gap)
        if self.ledger.nit >= self.maxiter:
            raise Stop(Status.MAXITER)
        if self.ledger.n_lmo >= self.max_lmo:
            raise Stop(Status.MAX_LMO)
        self._look_at_clock(now)

    def _look_at_clock(self, now: float) -> None:
        if now >= self.deadline:
            raise Stop(Status.TIME_LIMIT)
        if interrupts.pending():
            raise Stop(Status.INTERRUPTED)

    def _converge(self, x: Array, fun: float, gap: float) -> None:
        """End the run at a stationary point: this one, unless one of lower phi met the tolerance too."""
        best = self.ledger.best
        assert best is not None
        if not best.gap <= self.threshold:  # the gap there may be unknown
            first = self.ledger.history.first()
            if fun > first.fun + 64.0 * eps_of(x) * (abs(fun) + abs(first.fun) + first.gap):
                raise Stop(
                    Status.NO_PROGRESS,
                    f"Steps that may ascend have led to a stationary point with phi = {fun:.6g}, above "
                    f"phi(x0) = {first.fun:.6g}; x is the best point on the way. Take step='exact'.",
                )
            self.ledger.accept(x, fun, gap)
        raise Stop(Status.CONVERGED)

    def tolerance(self, rule: Tolerance, eps: float | None, gap: float) -> float:
        """Return the inner tolerance from here on, or end the run if the rule sees no way to move."""
        try:
            eps = rule.next(eps, gap)
        except NoProgress as reason:
            raise Stop(Status.NO_PROGRESS, str(reason)) from None
        if rule.enough(gap, eps, lambda: 0.0):  # a user-defined rule that would never move
            raise Stop(Status.NO_PROGRESS, f"The FW gap {gap:.3g} already meets the rule's tolerance.")
        self.rule, self.eps = rule, eps
        self.ledger.record_tolerance(eps)
        return eps

    def before_step(self, state: Any) -> None:
        """Called before each Frank-Wolfe step: the place where the clock or Ctrl-C ends a run."""
        self.current = state
        now = time.perf_counter()
        if self.deadline < math.inf and self.ledger.best is not None:
            # The step and the gap of its end take a call of the oracle each: one that is late is not begun.
            used = now - self.ledger.started
            now += min(used / max(self.ledger.n_lmo, 1), RESERVE * self.time_limit)
        self._look_at_clock(now)

    def certify(self, low: float, high: float) -> None:
        """Record the interval for the DC gap of the iterate visited last (from which x_{t+1} came)."""
        self.ledger.certify(low, high)

    def end_outer_step(self) -> None:
        """Go on to t + 1."""
        self.ledger.end_outer_step()

    @contextmanager
    def restricted_to(
        self, block: int, oracle: Any, shape: tuple[int, ...], reserve: int, put: Callable[[Array], Array]
    ) -> Iterator[None]:
        """Within the context, see one block as if it were the whole problem.

        ``reserve`` calls of the LMO budget are left for afterwards; ``put`` makes a point of the whole
        problem from one of the block.
        """
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

    # -- what is told -----------------------------------------------------------------------------------

    def _call_back(self, x: Array, fun: float, gap: float) -> None:
        assert self.callback is not None
        try:
            self.callback(self._intermediate(copy_of(x), fun, gap))  # the callback may write to it
        except StopIteration as stop:
            raise Stop(Status.CALLBACK, str(stop)) from None

    def tell(self, error: BaseException) -> None:
        """Add to an exception that ends the run where it came from, and the best point so far."""
        if self.ledger.best is None:
            return
        fun, x, gap = self.ledger.best
        with suppress(AttributeError, TypeError):  # an exception may have no room for it
            error.intermediate_result = self._intermediate(x, fun, gap)  # type: ignore[attr-defined]
            error.add_note(
                f"This came {self.where()} of dcfw.minimize; the best point so far (phi = {fun:.6g}) is the "
                "x of this exception's attribute intermediate_result."
            )

    def _intermediate(self, x: Array, fun: float, gap: float) -> Result:
        return self._result(Status.RUNNING, Status.RUNNING.sentence, x, fun, gap)

    def result(self, status: Status, detail: str = "") -> Result:
        """Return the result of the run as it stands."""
        best = self.ledger.best
        fun, x, gap = (math.nan, self.x0, math.nan) if best is None else best
        final = math.nan
        if self.current is not None and self.current.x is not x and not self.vertices_only:
            # The run ended inside an inner loop: its last point is at least as good where steps descend.
            value = self._last_value(self.current.x)
            if value < fun or (math.isnan(fun) and math.isfinite(value)):
                x, gap, final = self.current.x, math.nan, value
        if math.isnan(final):
            final = self._last_value(x)  # free of the rounding that adds up in a long run
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
        """Return phi(x) for the result, nan if it cannot be computed."""
        self.ledger.count_value()
        try:
            return float(self.objective.value(x))
        except KeyboardInterrupt:  # what has been found is not lost for it
            if interrupts.insistent():
                raise
            self._interrupted = True
            return math.nan
        except Exception:
            return math.nan

    # -- checkpoints ------------------------------------------------------------------------------------

    def outer_step(self, state: Any = None, settled: bool = True) -> Any:
        """Announce an outer step that begins from the solver's ``state``; return the state to go on from.

        That is ``state`` itself, or, in the first call of a run that is resumed, the one that was saved: then
        the run and all that was given to :meth:`keep` have been restored as well.  Where a budget has just
        cut a step short, ``settled`` is False: a run with a larger budget would not stand here.
        """
        if self.keeper is None:
            return state
        return self.keeper.outer_step(state, settled and self.n_lmo + 1 < self.max_lmo)

    def keep(self, **parts: Any) -> None:
        """Register parts that outlive an outer step and change; they have ``get_state`` and ``set_state``."""
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
        """Go on from ``state``, with the budgets and tolerances of this run; ``rows`` are the history's."""
        self.ledger.set_state(state, rows, time.perf_counter())
        for name in self._KEPT:
            setattr(self, name, state[name])
        for name in self._GOAL:
            setattr(self.goal, name, state[name])
        self.deadline = self.ledger.started + self.time_limit
        self.current = None if state["current"] is None else SimpleNamespace(x=state["current"])
        if len(self.ledger.history):
            self.goal.set(self.ledger.history.first().gap)
