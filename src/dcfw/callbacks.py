"""Ready-made callbacks for long solves.

>>> import dcfw
>>> show = dcfw.callbacks.progress()          # dcfw.minimize(..., callback=show)
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, TextIO

from dcfw import _validate
from dcfw.progress import Line

LOG = logging.getLogger("dcfw")
PATIENCE = 2.0  # seconds without a first step after which a line is logged
PREPARING = "preparing (data, norms, eigenvalues)"


class progress:
    """One line about a running solve, on a terminal, in a notebook, or in a log.

    It shows the seconds, then step, value, gap and oracle calls of :func:`dcfw.minimize`, or value, bound and
    search of ``dcfw.qap.solve(restarts="auto")``.  In a ``with`` block, as with ``verbose=1``, the seconds
    continue between steps.

    Parameters
    ----------
    every : float
        Seconds between two updates.
    file : text stream, optional
        The output; default: the notebook if there is one, else the standard error stream.
    title : str
        Text before the seconds.

    Examples
    --------
    >>> import sys, numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> dc = functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([3.0, 1.0]))
    >>> show = dcfw.callbacks.progress(every=60.0, file=sys.stdout)
    >>> res = dcfw.minimize(dc, sets.Simplex(2), callback=show)
    0.0 s  step 0  phi -0.25  gap 5.0e-01  1 lmo
    """

    def __init__(self, every: float = 0.2, file: TextIO | None = None, title: str = "") -> None:
        self.every = _validate.scalar(every, "every", low=0.0, allow_inf=True)
        if file is not None and not callable(getattr(file, "write", None)):
            raise TypeError(f"file must be a text stream with a method write, got {type(file).__name__}")
        self.file, self.title = file, _validate.text(title, "title")
        self._line = Line(file)
        self._started, self._next, self._state = time.monotonic(), 0.0, None
        self._drawing, self._over = threading.Lock(), threading.Event()
        self._quiet = False

    def __call__(self, intermediate_result: Any) -> None:
        self._state = intermediate_result
        self._draw()

    def _draw(self, last: bool = False) -> None:
        now = time.monotonic()
        if self._quiet or (now < self._next and not last) or not self._drawing.acquire(blocking=last):
            return
        try:
            self._next = now + self.every
            seconds = f"{self.title} {now - self._started:.1f} s".lstrip()
            self._line.write(f"{seconds}  {_told(self._state)}", last)
        finally:
            self._drawing.release()

    def __enter__(self) -> progress:
        threading.Thread(target=self._beat, name="dcfw-progress", daemon=True).start()
        return self

    def _beat(self) -> None:
        """Draw between steps, and log once if the first step takes long."""
        while not self._over.wait(min(self.every, PATIENCE)):
            if self._state is None and time.monotonic() - self._started > PATIENCE:
                LOG.info("%s: no step after %g s; %s", self.title or "dcfw", PATIENCE, PREPARING)
                break
            self._draw()
        while not self._over.wait(self.every):
            self._draw()

    def __exit__(self, *exception: Any) -> None:
        self._over.set()
        if self._state is not None:
            self._draw(last=True)

    def __reduce__(self) -> Any:
        return _silent, ()  # worker processes show nothing


def _silent() -> progress:
    show = progress()
    show._quiet = True
    return show


def _told(state: Any) -> str:
    """Describe an intermediate or final result."""
    if state is None:
        return PREPARING
    ended = "" if state.status < 0 else f"  {state.status.name}"
    trace = state.get("trace")
    if trace:
        bound = "" if state.bound is None else f"  bound {state.bound:.10g} (gap {state.gap_to_bound:.1%})"
        return f"value {state.fun:.10g} by {trace[-1].search}{bound}  {state.n_starts} starts{ended}"
    name = "phi" if state.get("permutation") is None else "value"
    certified = f" (dc {state.dc_gap[1]:.1e})" if state.dc_gap[1] < state.gap else ""
    gap = f"gap {state.gap:.1e}{certified}"
    return f"step {state.nit}  {name} {state.fun:.6g}  {gap}  {state.n_lmo} lmo{ended}"


def watched(solve: Any, /, *args: Any, **options: Any) -> Any:
    """Call a solver with the progress that ``verbose`` requests, and log slow preparations."""
    verbose = _validate.integer(options.pop("verbose", 0), "verbose", low=0)
    callback = options.get("callback")
    if not (verbose or LOG.isEnabledFor(logging.INFO)) or not (callback is None or callable(callback)):
        return solve(*args, **options)
    where = solve.__module__.split(".")
    show = progress(title=solve.__name__ if len(where) == 2 else f"{where[1]}.{solve.__name__}")
    show._quiet = not verbose
    if not show._line.live:
        show.every = 5.0

    def both(intermediate_result: Any) -> None:
        show(intermediate_result)
        if callback is not None:
            callback(intermediate_result)

    both.only_watches = callback is None  # type: ignore[attr-defined]
    with show:
        show._state = result = solve(*args, **(options | {"callback": both}))
    return result


class target:
    """End the run when phi is at most ``value``.

    >>> import dcfw
    >>> stop = dcfw.callbacks.target(-1.0)
    """

    def __init__(self, value: float) -> None:
        self.value = _validate.scalar(value, "value", allow_inf=True)

    def __call__(self, intermediate_result: Any) -> None:
        if intermediate_result.fun <= self.value:
            raise StopIteration(f"phi reached {intermediate_result.fun:g}.")


__all__ = ["progress", "target"]
