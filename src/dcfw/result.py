"""What a solve returns: the point, why it stopped, what is certified about it, and what it cost."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from dcfw._arrays import to_numpy


class Status(enum.IntEnum):
    """Why a run ended; ``status.sentence`` says it in words.

    Examples
    --------
    >>> import dcfw
    >>> dcfw.Status.MAXITER.sentence
    'The iteration limit was reached before the tolerance.'
    """

    CONVERGED = 0
    MAXITER = 1
    MAX_LMO = 2
    TIME_LIMIT = 3
    CALLBACK = 4
    NO_PROGRESS = 5
    INTERRUPTED = 6
    BAD_ORACLE = 7
    NOT_CONVEX = 8
    LINE_SEARCH = 9

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Status.CONVERGED: "The Frank-Wolfe gap met the tolerance.",
    Status.MAXITER: "The iteration limit was reached before the tolerance.",
    Status.MAX_LMO: "The budget of linear minimisation calls was used up.",
    Status.TIME_LIMIT: "The time limit was reached.",
    Status.CALLBACK: "The callback asked to stop.",
    Status.NO_PROGRESS: "No further progress is possible.",
    Status.INTERRUPTED: "The run was interrupted from the keyboard.",
    Status.BAD_ORACLE: "An oracle returned something unusable.",
    Status.NOT_CONVEX: "f turned out not to be convex, so DC-FW and its certificates do not apply.",
    Status.LINE_SEARCH: "The line search found no acceptable step.",
}

RUNNING = "running"
"""The message of what callbacks are handed: a run that has not ended."""

ENDING = (Status.INTERRUPTED, Status.CALLBACK)
"""What ends not only a run but all that were to follow it."""


class History:
    """The run as columns, one row per outer step (per step for the one-loop methods).

    ``history["gap"]`` is a NumPy array; ``history.columns`` names them all:

    ======================  ==================================================================
    nit                     outer steps completed before this row
    fun, gap                phi and the FW gap at the iterate
    dc_low, dc_high         the certified interval for its DC gap (once its inner loop is done)
    eps                     the inner tolerance used from this iterate on
    n_inner, n_lmo, ...     the counters when the row was written
    time                    seconds since the start
    ======================  ==================================================================

    A run longer than ``limit`` rows is thinned: every second row is dropped, and from then on only every
    second, fourth, ... step is recorded.  First and last rows are kept.
    """

    columns = (
        "nit",
        "fun",
        "gap",
        "dc_low",
        "dc_high",
        "eps",
        "n_inner",
        "n_lmo",
        "n_grad_f",
        "n_grad_g",
        "n_fun",
        "time",
    )

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self.rows: list[list[float]] = []
        self._stride = 1
        self._seen = 0

    def append(self, row: list[float]) -> None:
        # Between two kept rows the newest replaces the last one, so that the end is always there.
        if self._stride > 1 and self._seen % self._stride and len(self.rows) > 1:
            self.rows[-1] = row
        else:
            self.rows.append(row)
            if len(self.rows) > self.limit:
                last = self.rows[-1]
                self.rows = self.rows[::2]
                if self.rows[-1] is not last:
                    self.rows.append(last)
                self._stride *= 2
        self._seen += 1

    def forget_certificates(self) -> None:
        """Have no bounds on DC gaps but the trivial ones."""
        low, high = self.columns.index("dc_low"), self.columns.index("dc_high")
        for row in self.rows:
            row[low], row[high] = 0.0, math.inf

    def get_state(self) -> list[int]:
        """Return what a checkpoint needs besides the rows."""
        return [self._stride, self._seen]

    def set_state(self, state: list[int], rows: np.ndarray) -> None:
        self._stride, self._seen = state
        if rows.shape[1] != len(self.columns):
            raise ValueError(f"the history has {rows.shape[1]} columns, not {len(self.columns)}")
        counts = [name.startswith("n") for name in self.columns]
        self.rows = [
            [int(v) if whole else v for v, whole in zip(row, counts, strict=True)] for row in rows.tolist()
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        index = self.columns.index(name)
        return np.array([row[index] for row in self.rows], dtype=float)

    def keys(self) -> tuple[str, ...]:
        return self.columns

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"


class Result(OptimizeResult):  # type: ignore[misc]
    """A :class:`scipy.optimize.OptimizeResult` with the fields that every solve fills in.

    ``x``        the iterate of lowest phi; of a run that converged, the one that met the tolerance
    ``fun``      phi(x)
    ``gap``      the FW gap at x (nan where the run ended before it was measured)
    ``dc_gap``   (low, high), an interval that contains the DC gap of the best certified iterate, the one
                 after ``dc_gap_nit`` outer steps
    ``success, status, message, time, history``  whether and why it ended, the seconds, the run as columns
    ``nit, n_inner, n_lmo, n_fun, n_grad_f, n_grad_g, n_resync``  what it cost; ``n_fun`` counts values of phi
                 or f, while g's value comes with its subgradient and is counted there
    ``method, split``     what was run
    ``active_set``        with an active set, the atoms and weights that make up x (None where a run was cut
                          off between the two, and with ``method="block"``), usable as the next x0
    ``conditional``       the assumption under which the certificate holds, if it is not unconditional
    ``L_history``         with ``L="auto"``, the constant used in each outer step
    ``n_lmo_blocks``      with ``method="block"``, the calls of each block's oracle (``n_lmo`` is their sum)
    ``n_samples, epochs`` with sampled gradients, how many components' gradients were taken, and that over
                          their number

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> dc = functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([3.0, 1.0]))
    >>> res = dcfw.minimize(dc, sets.Simplex(2), x0=np.array([0.5, 0.5]))
    >>> res.success, res.status.name, res.fun, res.gap
    (True, 'CONVERGED', -1.0, 0.0)
    >>> float(res.history["gap"][0]), float(res.history["gap"][-1])
    (0.5, 0.0)
    """

    def plot(self, ax: Any = None, *, y: str = "gap", x: str = "n_lmo", **style: Any) -> Any:
        """Draw a column of the history against another and return the axes (:func:`dcfw.plots.plot`).

        Parameters
        ----------
        ax : matplotlib axes, optional
            A new figure's unless given.
        y : str
            ``"gap"``, ``"fun"``, ``"excess"``, ``"dc_gap"`` (a band) or another column of the history.
        x : str
            ``"n_lmo"``, ``"nit"``, ``"time"`` or another column.
        **style
            For ``ax.plot``.

        Examples
        --------
        >>> import dcfw
        >>> from matplotlib.figure import Figure
        >>> res = dcfw.minimize(dcfw.functions.SquaredNorm(1.0), dcfw.sets.Simplex(3), [0.6, 0.4, 0.0])
        >>> res.plot(Figure().subplots(), y="fun", x="time").get_xlabel()
        'seconds'
        """
        from dcfw import plots

        return plots.plot(self, ax, y=y, x=x, **style)

    def withdraw(self, reason: str, status: Status | None = None) -> None:
        """Take back the certificate, and the status where another is given; the message says why."""
        self["dc_gap"] = (0.0, math.inf)
        self.history.forget_certificates()
        if status is not None:
            self.status, self.success, self.gap, self.message = status, False, math.nan, status.sentence
        self.message = f"{self.message} {reason}"

    def __str__(self) -> str:
        low, high = self.dc_gap
        known = (
            f"certified, after {self.dc_gap_nit} outer step{'' if self.dc_gap_nit == 1 else 's'}"
            if high < math.inf
            else "nothing is certified"
        )
        lines = [
            f" message: {self.message}",
            # What a callback is handed has not ended, so its status says nothing.
            *([] if self.message == RUNNING else [f" success: {self.success} ({self.status.name})"]),
            f"     fun: {self.fun!r}",
            f"     gap: {self.gap:.6g}  (Frank-Wolfe gap at x)",
            f"  dc_gap: [{low:.6g}, {high:.6g}]  ({known})",
        ]
        if self.get("conditional"):
            lines.append(f"          provided that {self.conditional}")
        if self.message != RUNNING:
            lines.append(f"  method: {self.method}, split: {self.split}")
        lines += [
            f"     nit: {self.nit}  n_inner: {self.n_inner}  n_lmo: {self.n_lmo}  time: {self.time:.3g} s",
            f"   calls: n_fun: {self.n_fun}  n_grad_f: {self.n_grad_f}  n_grad_g: {self.n_grad_g}",
        ]
        if self.get("restart_values") is not None and len(self.restart_values) > 1:
            values = self.restart_values
            lines.append(f"restarts: {len(values)}, values from {min(values):.6g} to {max(values):.6g}")
        if self.get("disagreement") is not None:
            lines.append(f"   edges: agreement: {self.agreement:.6g}  disagreement: {self.disagreement:.6g}")
        if self.get("permutation") is not None:
            lines.append("permutation: " + np.array2string(self.permutation, threshold=200, prefix=" " * 13))
        if self.get("rotation") is not None:
            lines.append(_summary("rotation", self.rotation))
        lines.append(_summary("x", self.x))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def _summary(name: str, array: Any) -> str:
    """Return a line with the type and shape of an array, and the entries of a vector."""
    shape = tuple(array.shape)
    body = np.array2string(to_numpy(array), threshold=8, precision=4) if len(shape) == 1 else ""
    return f"{name:>8}: {type(array).__name__}{shape} {body}".rstrip()


def mark_ended(result: Result, status: Status) -> None:
    """Say in the best result of several runs that a later one was ended, and with it the search."""
    if result.status is not status:
        result.message = f"{status.sentence} Of the run that x comes from: {result.message}"
        result.status, result.success = status, False
