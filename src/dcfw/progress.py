"""One line of progress on a terminal, in a notebook, or in a log.

:class:`Bar` shows the fraction of a known amount, :class:`dcfw.callbacks.progress` the state of a solve.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import IO, Any

from dcfw.terminal import shown


class Line:
    """One line of text: rewritten in place on a terminal and in a notebook, appended to anything else."""

    def __init__(self, file: Any = None) -> None:
        self.file = sys.stderr if file is None else file
        self.notebook = file is None and _in_notebook()
        self.live = self.notebook or bool(getattr(self.file, "isatty", lambda: False)())
        self._handle: Any = None

    def write(self, text: str, last: bool = False) -> None:
        """Show a text; ``last`` ends the line."""
        text = shown(text)
        if self.notebook:
            self._display(text)
        elif self.live:
            room = shutil.get_terminal_size().columns - 1
            self.file.write(f"\r{text if len(text) <= room else text[: room - 1] + '…'}\x1b[K" + "\n" * last)
        else:
            self.file.write(f"{text}\n")
        getattr(self.file, "flush", lambda: None)()

    def wipe(self) -> None:
        """Remove the line where this is possible."""
        if self.notebook and self._handle is not None:
            self._display("")
        elif self.live and not self.notebook:
            self.file.write("\r\x1b[K")
            self.file.flush()

    def _display(self, text: str) -> None:
        from html import escape

        from IPython import display

        markup = f"<pre style='margin:0'>{escape(text)}</pre>" if text else ""
        bundle = {"text/plain": text, "text/html": markup}
        if self._handle is None:
            show: Any = display.display
            self._handle = show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


class Bar:
    """A callable ``bar(done, total)`` that draws a bar with the time left; use it in a ``with`` block.

    It draws on ``file``, by default the standard error stream or the notebook, if that is a terminal.
    ``transient`` removes the bar at the end.

    >>> with Bar("features") as bar:
    ...     for done in range(4):
    ...         bar(done, 3)
    """

    every = 0.1  # seconds between two updates

    def __init__(self, title: str, *, file: IO[str] | None = None, transient: bool = False) -> None:
        self.title, self.transient = title, transient
        self._line = Line(file)
        self._started = self._next = time.monotonic()
        self._text = ""

    def __enter__(self) -> Bar:
        if self._line.live:
            self._text = self.title
            self._line.write(self._text)
        return self

    def __call__(self, done: float, total: float, last: str = "") -> None:
        """Move the bar to ``done`` of ``total``; show ``last`` behind it."""
        if not self._line.live:
            return
        now = time.monotonic()
        part = min(max(done / total, 0.0), 1.0) if total else 1.0
        full = round(20 * part)
        used = now - self._started
        left = f"{_clock(used * (1.0 - part) / part)} left" if part else "-:--:-- left"
        self._text = f"{self.title} {'━' * full}{'─' * (20 - full)} {_clock(used)} + {left} {last}"
        if now >= self._next:
            self._next = now + self.every
            self._line.write(self._text)

    def __exit__(self, *exception: object) -> None:
        if self._text and self.transient:
            self._line.wipe()
        elif self._text:
            self._line.write(self._text, last=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
