"""A progress bar with the time left, for commands: drawn on a terminal, silent everywhere else."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import IO, Any


class Bar:
    """A callable ``bar(done, total)`` that draws a bar on a terminal; use it in a ``with`` block.

    Parameters
    ----------
    title : str
        Text before the bar.
    file : text stream, optional
        Where to draw; the standard error stream by default.  Nothing is drawn if it is not a terminal.
    transient : bool
        Wipe the bar out at the end.

    Examples
    --------
    >>> with Bar("features") as bar:
    ...     for done in range(4):
    ...         bar(done, 3)
    """

    def __init__(self, title: str, *, file: IO[str] | None = None, transient: bool = False) -> None:
        self.title = title
        self.transient = transient
        self._file = sys.stderr if file is None else file
        self._bar: Any = None
        self._line: Any = None
        self._room = 0

    def __enter__(self) -> Bar:
        if self._file.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            console = Console(file=self._file)
            width = 10 if console.width < 100 else 30
            # What is left beside the title, the bar, both times and the spaces between them; without a
            # limit the text behind the bar would squeeze the times.
            self._room = max(console.width - len(self.title) - width - 27, 1)
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(width),
                TimeElapsedColumn(),
                TextColumn("+"),
                TimeRemainingColumn(elapsed_when_finished=False),
                TextColumn("left"),
                TextColumn("{task.fields[last]}", markup=False),
                console=console,
                transient=self.transient,
                # Steps may be long and uneven: the speed of the last half minute says nothing.
                speed_estimate_period=24 * 3600.0,
            )
            self._line = self._bar.add_task(self.title, total=None, last="")
            self._bar.start()
        return self

    def __call__(self, done: float, total: float, last: str = "") -> None:
        """Move the bar to ``done`` of ``total``; ``last`` is shown behind it, as far as there is room."""
        if self._bar is not None:
            if len(last) > self._room:
                last = last[: self._room - 1] + "…"
            self._bar.update(self._line, completed=done, total=total, last=last)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
