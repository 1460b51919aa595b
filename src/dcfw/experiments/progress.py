"""A progress bar for :func:`dcfw.experiments.run`, with the time left.

It is drawn with rich on the standard error stream, and not at all when that is no terminal: a log file
or a pipe stays clean.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import IO, Any

from dcfw.experiments.study import Task


class ProgressBar:
    """A callable that :func:`~dcfw.experiments.run` accepts as ``progress``; use it in a ``with`` block.

    Parameters
    ----------
    title : str
        Text before the bar, for example the name of the study.
    file : text stream, optional
        Where to draw; the standard error stream by default.
    enabled : bool, optional
        Draw or not; by default only if ``file`` is a terminal.

    Examples
    --------
    >>> from dcfw.experiments import Store, Study, run
    >>> study = Study("demo", lambda dataset, method, seed: {"value": seed}, ["a"], ["fw"], range(3))
    >>> with Store(":memory:") as store, ProgressBar("demo") as progress:
    ...     run(study, store, progress=progress).done
    3
    """

    def __init__(self, title: str, *, file: IO[str] | None = None, enabled: bool | None = None) -> None:
        self.title = title
        self._file = sys.stderr if file is None else file
        self.enabled = self._file.isatty() if enabled is None else enabled
        self._failed = 0
        self._bar: Any = None
        self._line: Any = None

    def __enter__(self) -> ProgressBar:
        if self.enabled:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                # Rows are long and uneven: the speed of the last half minute says nothing.
                TimeRemainingColumn(elapsed_when_finished=False),
                TextColumn("{task.fields[last]}"),
                console=Console(file=self._file),
                speed_estimate_period=24 * 3600.0,
            )
            self._line = self._bar.add_task(self.title, total=None, last="")
            self._bar.start()
        return self

    def __call__(self, done: int, total: int, task: Task, result: dict[str, Any] | None) -> None:
        """Move the bar to ``done`` of ``total``; ``result`` is None if the row of ``task`` failed."""
        self._failed += result is None
        if self._bar is not None:
            failed = f", {self._failed} failed" if self._failed else ""
            self._bar.update(
                self._line, completed=done, total=total, description=self.title + failed, last=str(task)
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
