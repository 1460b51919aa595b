"""The result of a solve: the point, the reason for stopping, the certificate, and the cost."""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.optimize import OptimizeResult

from dcfw import _html
from dcfw._arrays import to_numpy


class Status(enum.IntEnum):
    """The reason why a run ended; ``status.sentence`` states it in words.

    >>> import dcfw
    >>> dcfw.Status.MAXITER.sentence
    'The iteration limit was reached before the tolerance.'
    """

    sentence: str

    def __new__(cls, value: int, sentence: str) -> Self:
        status = int.__new__(cls, value)
        status._value_ = value
        status.sentence = sentence
        return status

    RUNNING = -1, "The run has not ended."
    CONVERGED = 0, "The Frank-Wolfe gap met the tolerance."
    MAXITER = 1, "The iteration limit was reached before the tolerance."
    MAX_LMO = 2, "The budget of linear minimisation calls was used up."
    TIME_LIMIT = 3, "The time limit was reached."
    CALLBACK = 4, "The callback asked to stop."
    NO_PROGRESS = 5, "No further progress is possible."
    INTERRUPTED = 6, "The run was interrupted from the keyboard."
    BAD_ORACLE = 7, "An oracle returned something unusable."
    NOT_CONVEX = 8, "f or g turned out not to be convex, so DC-FW and its certificates do not apply."
    LINE_SEARCH = 9, "The line search found no acceptable step."
    OPTIMAL = 10, "The value meets the bound: it is optimal."
    TARGET = 11, "The target value was reached."
    FINISHED = 12, "The search has used its budget, as asked."


ENDING = (Status.INTERRUPTED, Status.CALLBACK)  # statuses that also prevent all later runs


class Row(NamedTuple):
    """One row of a history: an iterate, its certificate, and the cost so far."""

    nit: int
    fun: float
    gap: float
    dc_low: float
    dc_high: float
    eps: float
    n_inner: int
    n_lmo: int
    n_grad_f: int
    n_grad_g: int
    n_fun: int
    time: float


ROW = np.dtype([(name, np.int64 if name[0] == "n" else np.float64) for name in Row._fields])
_BYTES = np.dtype((np.void, ROW.itemsize))


class History:
    """The run as columns, one row per outer step (per step for the one-loop methods).

    ``history["gap"]`` is a NumPy array; ``history.columns`` lists all names:

    ======================  ==================================================================
    nit                     outer steps completed before this row
    fun, gap                phi and the FW gap at the iterate
    dc_low, dc_high         the certified interval for its DC gap (once its inner loop is done)
    eps                     the inner tolerance used from this iterate on
    n_inner, n_lmo, ...     the counters when the row was written
    time                    seconds since the start
    ======================  ==================================================================

    Beyond ``limit`` rows, every second row is dropped, and only every second, fourth, ... step is recorded
    from then on.  The first and last rows are kept.
    """

    columns: ClassVar[tuple[str, ...]] = Row._fields

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self._table = np.empty(64, dtype=ROW)
        self._length, self._stride, self._seen = 0, 1, 0
        self._added = 0  # the rows seen, and those that are pending or postponed
        self._pending: list[tuple[float, ...]] = []  # rows to enter together, which is faster
        # Work postponed until the history is read, with the history as its argument: a closure over it would
        # be a cycle, and the matrices of a run would stay in memory until the next garbage collection.
        self._deferred: list[Callable[[History], None]] = []

    def append(self, row: tuple[float, ...]) -> None:
        """Add a :class:`Row`, or a tuple in its order."""
        self._pending.append(row)
        self._added += 1
        if len(self._pending) >= 1024:
            self._flush()

    def extend(self, rows: np.ndarray) -> None:
        """Add an array of dtype :data:`ROW`."""
        self._flush()
        self._enter(rows)
        self._added += len(rows)

    def postpone(self, rows: Callable[[], np.ndarray], count: int) -> None:
        """Add the array of dtype :data:`ROW` and length ``count`` that ``rows`` returns when read."""
        self._added += count
        self._defer(lambda history: history._enter(rows()))

    def snapshot(self) -> History:
        """Return the rows so far as a history of its own, which copies them when it is first read."""
        seen, taken = self._added, History(self.limit)
        taken._added = seen

        def load(own: History) -> None:
            rows = self.table()
            if seen < self._added:  # those of the first ``seen`` that are still kept
                rows = rows[: max(seen // self._stride, min(seen, 1))]
            own._table, own._length, own._seen, own._stride = rows.copy(), len(rows), seen, self._stride

        taken._defer(load)
        return taken

    def amend(self, **values: float) -> None:
        """Set the named columns of the last row."""
        self._flush()
        row = self._table[self._length - 1]
        for name, value in values.items():
            row[name] = value

    def first(self) -> Row:
        return self._row(0)

    def last(self) -> Row:
        return self._row(-1)

    def forget_certificates(self) -> None:
        """Reset the bounds on all DC gaps to the trivial ones."""
        rows = self.table()
        rows["dc_low"], rows["dc_high"] = 0.0, math.inf

    def rescale(self, scale: float, sign: float = 1.0, offset: float = 0.0) -> None:
        """Replace phi by sign * scale * phi + offset, and multiply gaps by scale."""

        def convert(history: History) -> None:
            rows = history._table[: history._length]
            rows["fun"] = sign * scale * rows["fun"] + offset
            for name in ("gap", "dc_low", "dc_high", "eps"):
                rows[name] *= scale

        self._defer(convert)

    def table(self) -> np.ndarray:
        """Return a view of all rows as a structured array; a run may still change the last one."""
        self._flush()
        return self._table[: self._length]

    def get_state(self) -> list[int]:
        """Return what a checkpoint needs besides the rows."""
        self._flush()
        return [self._stride, self._seen]

    def set_state(self, state: list[int], rows: np.ndarray) -> None:
        """Restore from :meth:`get_state` and the rows as a matrix of floats."""
        self._stride, self._seen = state
        self._added = self._seen
        self._pending, self._deferred = [], []
        self._table, self._length = np.empty(max(len(rows), 16), dtype=ROW), len(rows)
        for name, column in zip(self.columns, rows.T, strict=True):
            self._table[name][: self._length] = column

    def __len__(self) -> int:
        return len(self.table())

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return self.table()[name].copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def keys(self) -> tuple[str, ...]:
        return self.columns

    def __getstate__(self) -> dict[str, Any]:
        rows = self.table().copy()  # enters the pending rows
        return {**self.__dict__, "_table": rows, "_pending": [], "_deferred": []}

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"

    def _row(self, index: int) -> Row:
        rows = self.table()
        if not len(rows):
            raise IndexError("the history has no rows yet")
        return Row(*rows[index].item())

    def _defer(self, work: Callable[[History], None]) -> None:
        """Postpone ``work`` until the history is read, after the rows added before."""
        pending, self._pending = self._pending, []
        if pending:
            self._deferred.append(lambda history: history._enter_pending(pending))
        self._deferred.append(work)

    def _flush(self) -> None:
        deferred, self._deferred = self._deferred, []
        for work in deferred:
            work(self)
        pending, self._pending = self._pending, []
        if pending:
            self._enter_pending(pending)

    def _enter_pending(self, pending: list[tuple[float, ...]]) -> None:
        if len(pending) == 1 and self._stride == 1 and self._length < min(len(self._table), self.limit):
            self._table[self._length] = pending[0]  # five times as fast as an array of one row
            self._length += 1
            self._seen += 1
        else:
            self._enter(np.array(pending, dtype=ROW))

    def _enter(self, rows: np.ndarray) -> None:
        if self._stride > 1 or self._length + len(rows) > self.limit:
            for row in rows:
                self._enter_thinned(row)
            return
        self._make_room(len(rows))
        # As bytes, since NumPy copies structured rows field by field.
        self._table.view(_BYTES)[self._length : self._length + len(rows)] = rows.view(_BYTES)
        self._length += len(rows)
        self._seen += len(rows)

    def _enter_thinned(self, row: np.void) -> None:
        # Between two kept rows the newest one replaces the last, so that the end is always recorded.
        if self._stride == 1 or self._seen % self._stride == 0 or self._length <= 1:
            self._make_room(1)
            self._length += 1
        self._table[self._length - 1] = row
        if self._length > self.limit:
            kept = np.unique([*range(0, self._length, 2), self._length - 1])
            self._table, self._length = self._table[kept], len(kept)
            self._stride *= 2
        self._seen += 1

    def _make_room(self, count: int) -> None:
        if self._length + count > len(self._table):
            grown = np.empty(max(2 * len(self._table), self._length + count), dtype=ROW)
            grown.view(_BYTES)[: self._length] = self._table.view(_BYTES)[: self._length]
            self._table = grown


class _Declared(OptimizeResult):  # type: ignore[misc]
    """An ``OptimizeResult`` whose fields and defaults are declared like those of a dataclass.

    Defaults are removed from the class, where they would hide the items of the dictionary.
    """

    _defaults: ClassVar[dict[str, Any]] = {}
    _required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = dict(cls._defaults)
        for name in inspect.get_annotations(cls):
            declared[name] = cls.__dict__.get(name, inspect.Parameter.empty)
            if name in cls.__dict__:
                delattr(cls, name)
        cls._defaults = declared
        cls._required = frozenset(n for n, default in declared.items() if default is inspect.Parameter.empty)

    def __init__(self, **fields: Any) -> None:
        filled = self._defaults | fields
        if len(filled) > len(self._defaults):
            unknown = ", ".join(sorted(filled.keys() - self._defaults.keys()))
            raise TypeError(f"{type(self).__name__} has no field {unknown}")
        if not self._required <= fields.keys():
            missing = ", ".join(name for name in self._defaults if name in self._required - fields.keys())
            raise TypeError(f"{type(self).__name__} needs {missing}")
        super().__init__(filled)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}; result[{name!r}] = value adds an item"
            )
        self[name] = value


class Result(_Declared):
    """A :class:`scipy.optimize.OptimizeResult` with the fields that every solve fills in.

    ``x``        the iterate of lowest phi, or the one that met the tolerance if the run converged
    ``fun``      phi(x)
    ``gap``      the FW gap at x (nan if no oracle gave a usable answer)
    ``dc_gap``   (low, high), an interval that contains the DC gap of the best certified iterate, the one
                 after ``dc_gap_nit`` outer steps
    ``success, status, message, time, history``  how the run ended, its seconds, and its steps as columns
    ``nit, n_inner, n_lmo, n_fun, n_grad_f, n_grad_g, n_resync``  the cost; ``n_fun`` counts values of phi or
                 f, and ``n_grad_g`` subgradients of g with their values
    ``n_check``  the additional calls of the final check: the gap at x and ``contains``
    ``method, split``     the method and the decomposition
    ``threshold``         the FW gap that ends the run, from ``tol`` and ``rtol``
    ``conditional``       the assumption under which the certificate holds, empty if it is unconditional
    ``restart_values, total_time``  the values of all runs, and their total seconds

    The others are None unless the method or inner solver sets them:

    ``active_set``        with an active set, the atoms and weights of x, usable as the next x0 (None for an
                          interrupted run where they disagree with x, and with ``method="block"``)
    ``L_history``         with ``L="auto"``, the constant used in each outer step
    ``n_lmo_blocks``      with ``method="block"``, the calls of each block's oracle (``n_lmo`` is their sum)
    ``gap_of, lower_bound, theta_history``  with ``method="graduated"``, the function that ``gap`` and
                          ``dc_gap`` refer to (x is the best vertex found), a lower bound of phi over all
                          vertices, and the theta of each stage
    ``n_samples, epochs`` with sampled gradients, the number of component gradients, and of passes

    A subclass declares further fields as annotations, with optional defaults, and adds lines to the printed
    text in ``_details``; ``Extended(**result, field=value)`` constructs it.

    >>> import numpy as np, dcfw
    >>> dc = dcfw.functions.SquaredNorm(1.0) - dcfw.functions.Quadratic(np.diag([3.0, 1.0]))
    >>> res = dcfw.minimize(dc, dcfw.sets.Simplex(2), x0=np.array([0.5, 0.5]))
    >>> res.success, res.status.name, res.fun, res.gap
    (True, 'CONVERGED', -1.0, 0.0)
    >>> float(res.history["gap"][0]), float(res.history["gap"][-1])
    (0.5, 0.0)
    """

    x: Any
    fun: float
    success: bool
    status: Status
    message: str
    gap: float
    dc_gap: tuple[float, float]
    dc_gap_nit: int = 0
    nit: int = 0
    n_inner: int = 0
    n_lmo: int = 0
    n_fun: int = 0
    n_grad_f: int = 0
    n_grad_g: int = 0
    n_resync: int = 0
    n_check: int = 0
    time: float
    history: History
    method: str = ""
    split: str = ""
    conditional: str = ""
    threshold: float | None = None
    restart_values: list[float] | None = None
    total_time: float | None = None
    active_set: Any = None
    L_history: list[float] | None = None
    n_lmo_blocks: list[int] | None = None
    gap_of: str | None = None
    lower_bound: float | None = None
    theta_history: list[float] | None = None
    n_samples: int | None = None
    epochs: float | None = None

    def plot(self, ax: Any = None, *, y: str = "certificate", x: str | None = None, **style: Any) -> Any:
        """Draw the certificate, or a column of the history, by :func:`dcfw.plots.plot`; return the axes.

        >>> import dcfw
        >>> from matplotlib.figure import Figure
        >>> res = dcfw.minimize(dcfw.functions.SquaredNorm(1.0), dcfw.sets.Simplex(3), [0.6, 0.4, 0.0])
        >>> res.plot(Figure().subplots(), y="fun", x="time").get_xlabel()
        'seconds'
        """
        from dcfw import plots

        return plots.plot(self, ax, y=y, x=x, **style)

    def withdraw(self, reason: str, status: Status | None = None) -> None:
        """Withdraw the certificate, with ``status`` also success and gap; add ``reason`` to the message."""
        self.dc_gap = (0.0, math.inf)
        self.history.forget_certificates()
        if status is not None:
            self.status, self.success, self.gap, self.message = status, False, math.nan, status.sentence
        self.message = f"{self.message} {reason}"

    def rescale(self, scale: float, sign: float = 1.0, offset: float = 0.0) -> None:
        """Replace phi by sign * scale * phi + offset in all fields except the history."""
        self.fun = sign * scale * self.fun + offset
        self.gap *= scale
        self.threshold = None if self.threshold is None else scale * self.threshold
        self.dc_gap = (scale * self.dc_gap[0], scale * self.dc_gap[1])

    def _details(self) -> list[str]:
        """Return additional lines of the printed text, before the line of x."""
        return []

    def __str__(self) -> str:
        low, high = self.dc_gap
        steps = f"{self.dc_gap_nit} outer step{'' if self.dc_gap_nit == 1 else 's'}"
        known = f"certified, after {steps}" if high < math.inf else "nothing is certified"
        ended = self.status is not Status.RUNNING
        of = "" if self.gap_of is None else f" of {self.gap_of}"
        lines = [
            f" message: {self.message}",
            *([f" success: {self.success} ({self.status.name})"] if ended else []),
            f"     fun: {self.fun!r}",
            f"     gap: {self.gap:.6g}  (Frank-Wolfe gap at x{of})",
            f"  dc_gap: [{low:.6g}, {high:.6g}]  ({known})",
        ]
        if self.lower_bound is not None:
            lines.append(f"   bound: {self.lower_bound:.6g}  (phi is at least that on all vertices)")
        if self.conditional:
            lines.append(f"          provided that {self.conditional}")
        if ended:
            lines.append(f"  method: {self.method}, split: {self.split}")
        lines += [
            f"     nit: {self.nit}  n_inner: {self.n_inner}  n_lmo: {self.n_lmo}  time: {self.time:.3g} s",
            f"   calls: n_fun: {self.n_fun}  n_grad_f: {self.n_grad_f}  n_grad_g: {self.n_grad_g}",
        ]
        values = self.restart_values
        if values is not None and len(values) > 1:
            lines.append(f"restarts: {len(values)}, values from {min(values):.6g} to {max(values):.6g}")
        lines += self._details()
        lines.append(summary("x", self.x))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        gaps = self.history["gap"].tolist()
        line = _html.sparkline(gaps, f"FW gap, {gaps[0]:.1e} to {gaps[-1]:.1e}") if gaps else ""
        return _html.table(f"{type(self).__name__}, {self.status.name}", _html.rows_of(str(self)), line)


def summary(name: str, array: Any) -> str:
    """Return a line with the type and shape of an array, and the entries of a vector."""
    shape = tuple(array.shape)
    body = np.array2string(to_numpy(array), threshold=8, precision=4) if len(shape) == 1 else ""
    return f"{name:>8}: {type(array).__name__}{shape} {body}".rstrip()


def mark_ended(result: Result, status: Status) -> None:
    """Record in the best result of several runs that a later run ended the search."""
    if result.status is not status:
        result.message = f"{status.sentence} Of the run that x comes from: {result.message}"
        result.status, result.success = status, False
