"""Ready-made callbacks for long solves.

>>> import dcfw
>>> show = dcfw.callbacks.progress()          # dcfw.minimize(..., callback=show)
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from dcfw import _validate


class progress:
    """A one-line progress report on a terminal: outer step, value, gap, LMO calls, seconds.

    Parameters
    ----------
    every : float
        Seconds between two updates.
    file : text stream, optional
        Where to write (default: standard error).

    Examples
    --------
    >>> import sys, numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> dc = functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([3.0, 1.0]))
    >>> show = dcfw.callbacks.progress(every=60.0, file=sys.stdout)
    >>> res = dcfw.minimize(dc, sets.Simplex(2), callback=show)  # doctest: +ELLIPSIS
    step      0  phi -2.50000000e-01  gap 5.00e-01  lmo        1 ... s
    """

    def __init__(self, every: float = 0.2, file: TextIO | None = None) -> None:
        self.every = _validate.scalar(every, "every", low=0.0, allow_inf=True)
        if file is not None and not callable(getattr(file, "write", None)):
            raise TypeError(f"file must be a text stream with a method write, got {type(file).__name__}")
        self.file = file
        self._next = 0.0

    def __call__(self, intermediate_result: Any) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.every
        state = intermediate_result
        stream = self.file or sys.stderr
        terminal, flush = getattr(stream, "isatty", None), getattr(stream, "flush", None)
        end = "\r" if terminal is not None and terminal() else "\n"
        stream.write(
            f"step {state.nit:6d}  phi {state.fun:+.8e}  gap {state.gap:.2e}  "
            f"lmo {state.n_lmo:8d}  {state.time:8.1f} s{end}"
        )
        if flush is not None:
            flush()


class target:
    """End the run once phi has come down to ``value``.

    Examples
    --------
    >>> import dcfw
    >>> stop = dcfw.callbacks.target(-1.0)
    """

    def __init__(self, value: float) -> None:
        self.value = _validate.scalar(value, "value", allow_inf=True)

    def __call__(self, intermediate_result: Any) -> None:
        if intermediate_result.fun <= self.value:
            raise StopIteration(f"phi reached {intermediate_result.fun:g}.")
