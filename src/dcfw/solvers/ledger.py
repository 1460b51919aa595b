"""The ledger of a run: the only place that writes counters, history, certificate and best point.

Solvers report events (a step, an iterate, a certified outer step), and the ledger records them.  A compiled
loop, which takes many steps per call, returns a :class:`Batch` for :meth:`Ledger.book`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dcfw._arrays import Array
from dcfw.result import ROW, History, Result, Row

COUNTERS = (
    "nit", "n_inner", "n_lmo", "n_fun", "n_grad_f", "n_grad_g", "n_resync", "n_check", "dc_gap", "dc_gap_nit",
)  # fmt: skip
KEPT = (*COUNTERS, "since_resync", "extra")


class Best(NamedTuple):
    """The point to return: phi there, the point, and its FW gap (nan if unknown)."""

    fun: float
    x: Array
    gap: float


class Batch(NamedTuple):
    """The record of one call of a compiled loop.

    ``steps`` counts Frank-Wolfe steps, ``lmo`` oracle calls, ``gradients`` those of f (or phi).  If
    ``outer``, these are outer steps, as in plain Frank-Wolfe; then ``fun`` and ``gap`` are phi and the FW gap
    after each step but the last, which is visited as usual, and the call lasted from ``begun`` to ``ended``.
    """

    steps: int
    lmo: int
    gradients: int
    outer: bool = False
    fun: np.ndarray | None = None
    gap: np.ndarray | None = None
    begun: float = 0.0
    ended: float = 0.0


def _rows(batch: Batch, before: Row) -> np.ndarray:
    k = np.arange(1, len(batch.fun) + 1)  # type: ignore[arg-type]
    rows = np.empty(len(k), dtype=ROW)
    for name, value in before._asdict().items():
        rows[name] = value + k if name in ("nit", "n_inner", "n_lmo", "n_grad_f") else value
    rows["fun"], rows["gap"], rows["dc_high"] = batch.fun, batch.gap, batch.gap
    rows["time"] += k * ((batch.ended - batch.begun) / batch.steps)
    return rows


class Ledger:
    """Counters, history, certificate and best point of one run that started at ``started``."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.nit = self.n_inner = self.n_lmo = self.n_fun = 0
        self.n_grad_f = self.n_grad_g = self.n_resync = self.n_check = 0
        self.since_resync = 0
        self.history = History()
        self.best: Best | None = None
        self.dc_gap: tuple[float, float] = (0.0, math.inf)
        self.dc_gap_nit = 0
        self._high = math.inf  # the upper end at the last recorded iterate
        self.extra: dict[str, Any] = {}  # fields of the result that only some methods have
        self.latest = False  # whether to return the last iterate instead of the one of lowest value
        self._block: int | None = None
        self._free = False  # whether gradients do not count

    def count_lmo(self) -> None:
        self.n_lmo += 1
        if self._block is not None:
            self.extra["n_lmo_blocks"][self._block] += 1

    def count_gradient(self) -> None:
        if not self._free:
            self.n_grad_f += 1

    def count_estimate(self) -> None:
        self.n_grad_f += 1

    def count_subgradient(self) -> None:
        self.n_grad_g += 1

    def count_value(self) -> None:
        self.n_fun += 1

    def count_check(self) -> None:
        self.n_check += 1

    @contextmanager
    def _within(self, **values: Any) -> Iterator[None]:
        before = {name: getattr(self, name) for name in values}
        vars(self).update(values)
        try:
            yield
        finally:
            vars(self).update(before)

    def free_gradients(self) -> AbstractContextManager[None]:
        """Do not count gradients within the context: they are those of a proximal term."""
        return self._within(_free=True)

    def block(self, index: int) -> AbstractContextManager[None]:
        """Count the oracle calls within the context as those of one block."""
        return self._within(_block=index)

    def count_step(self, outer: bool) -> None:
        self.n_inner += 1
        if outer:
            self.nit = self.n_inner

    def resync_due(self, period: float, steps: int = 1) -> bool:
        """Count steps that update a gradient incrementally; return whether to recompute it."""
        self.since_resync += steps
        if self.since_resync < period:
            return False
        self.since_resync = 0
        return True

    def count_resync(self) -> None:
        self.n_resync += 1

    def book(self, batch: Batch) -> None:
        if batch.fun is not None and batch.gap is not None and len(batch.fun):
            least = int(batch.gap.argmin())
            if batch.gap[least] < self.dc_gap[1]:
                self.dc_gap, self.dc_gap_nit = (0.0, float(batch.gap[least])), self.nit + least + 1
            before = Row(
                self.nit, 0.0, 0.0, 0.0, 0.0, math.nan, self.n_inner, self.n_lmo, self.n_grad_f,
                self.n_grad_g, self.n_fun, batch.begun - self.started,
            )  # fmt: skip
            self.history.postpone(partial(_rows, batch, before), len(batch.fun))
            self._high = float(batch.gap[-1])
        self.n_inner += batch.steps
        self.n_lmo += batch.lmo
        if not self._free:
            self.n_grad_f += batch.gradients
        if batch.outer:
            self.nit = self.n_inner

    def record(
        self, x: Array, fun: float, gap: float, now: float, *, certain: bool = True, slack: float = 0.0
    ) -> None:
        """Record an iterate: a row of the history, the best point, and the certificate (if ``certain``).

        A known gap breaks a tie of values that are equal up to ``slack``.
        """
        best = self.best
        if (
            best is None
            or self.latest
            or fun < best.fun
            or (math.isnan(best.gap) and gap == gap and fun <= best.fun + slack)
        ):
            self.best = Best(fun, x, gap if certain or self.latest else math.nan)
        self._high = high = gap if certain else math.inf
        # A plain tuple in the order of Row, for speed: in plain Frank-Wolfe every step adds one.
        self.history.append(
            (
                self.nit, fun, gap, 0.0, high, math.nan, self.n_inner, self.n_lmo, self.n_grad_f,
                self.n_grad_g, self.n_fun, now - self.started,
            )
        )  # fmt: skip
        # gap_DC <= FW gap at every point, for every decomposition.
        if certain and gap < self.dc_gap[1]:
            self.dc_gap, self.dc_gap_nit = (0.0, gap), self.nit

    def accept(self, x: Array, fun: float, gap: float) -> None:
        self.best = Best(fun, x, gap)
        if gap < self.dc_gap[1]:
            self.dc_gap, self.dc_gap_nit = (0.0, gap), self.nit

    def record_tolerance(self, eps: float) -> None:
        self.history.amend(eps=eps)

    def certify(self, low: float, high: float) -> None:
        """Record the interval for the DC gap of the last recorded iterate (the one before x_{t+1})."""
        self._high = high = max(min(high, self._high), 0.0)  # below zero is rounding
        low = min(max(low, 0.0), high)
        self.history.amend(dc_low=low, dc_high=high)
        if high <= self.dc_gap[1]:
            self.dc_gap, self.dc_gap_nit = (low, high), self.nit

    def end_outer_step(self) -> None:
        self.nit += 1

    def confirm(self, x: Array, fun: float, gap: float, certain: bool) -> None:
        self.best = Best(fun, x, gap)
        self.history.amend(fun=fun, gap=gap)
        if certain:
            self.dc_gap, self.dc_gap_nit = (0.0, gap), self.nit
            self._high = gap
            self.history.amend(dc_low=0.0, dc_high=gap)

    def forget_certificates(self) -> None:
        self.dc_gap, self._high = (0.0, math.inf), math.inf
        self.history.forget_certificates()

    def fields(self) -> dict[str, Any]:
        """Return the fields of a result, whose owner may change them."""
        extra = {
            name: copy(value) if isinstance(value, list) else value for name, value in self.extra.items()
        }
        return {name: getattr(self, name) for name in COUNTERS} | extra | {"history": self.history.snapshot()}

    def get_state(self, now: float) -> dict[str, Any]:
        state: dict[str, Any] = {name: getattr(self, name) for name in KEPT}
        state["best"] = None if self.best is None else tuple(self.best)
        state["seconds"] = now - self.started
        state["history"] = self.history.get_state()
        return state

    def set_state(self, state: dict[str, Any], rows: np.ndarray, now: float) -> None:
        """Restore a saved state; the clock continues from its seconds."""
        missing = self.extra.keys() - state["extra"].keys()
        if missing:
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        for name in KEPT:
            setattr(self, name, state[name])
        self.best = None if state["best"] is None else Best(*state["best"])
        self.started = now - state["seconds"]
        self.history.set_state(state["history"], rows)
        self._high = self.history.last().dc_high if len(rows) else math.inf


def book_calls(result: Result, n_lmo: int) -> None:
    result.n_lmo += n_lmo
