"""Ctrl-C during a solve: recorded at once, acted on at a safe point, so that no result is lost.

In a public call (:func:`guarded`) the first Ctrl-C sets a flag, which loops check where their state is
consistent; a second one raises ``KeyboardInterrupt`` at once.  Only the main thread receives signals, and a
user's own handler is respected.  ``_signal`` is faster than ``signal``, whose conversion of handlers exceeds
a small solve.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from dcfw.callbacks import LOG, watched
from dcfw.result import Result, Status, mark_ended

P = ParamSpec("P")
R = TypeVar("R", bound=Result)


class _Watch:
    """The number of Ctrl-C since the start of the outermost public call."""

    pressed = 0
    open = False

    def note(self, number: int, frame: Any) -> None:
        """Handle SIGINT: set a flag the first time, then raise (but not while the public call returns)."""
        self.pressed += 1
        if self.pressed > 1 and frame.f_code.co_filename != __file__:
            raise KeyboardInterrupt


_watch = _Watch()


def pending() -> bool:
    return _watch.pressed > 0


def insistent() -> bool:
    return _watch.pressed > 1


def check() -> None:
    if _watch.pressed:
        raise KeyboardInterrupt


def guarded(solve: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public solver: Ctrl-C ends it at a safe point, and ``verbose`` shows progress."""
    shows = "verbose" in inspect.signature(solve).parameters

    @wraps(solve)
    def called(*args: P.args, **options: P.kwargs) -> R:
        told = shows and ("verbose" in options or (LOG.isEnabledFor(logging.INFO) and not _watch.open))
        run: Any = partial(watched, solve) if told else solve
        if _watch.open or threading.current_thread() is not threading.main_thread():
            return run(*args, **options)  # type: ignore[no-any-return]
        if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
            return run(*args, **options)  # type: ignore[no-any-return]
        _signal.signal(_signal.SIGINT, _watch.note)
        try:
            _watch.open = True
            result: R = run(*args, **options)
        finally:
            _watch.open = False
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            pressed, _watch.pressed = _watch.pressed, 0
        if pressed:  # perhaps after the last safe point
            mark_ended(result, Status.INTERRUPTED)
        return result

    return called
