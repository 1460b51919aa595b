"""A progress bar for :func:`dcfw_studies.run`, with the time left and the rows that failed.

Like every bar of dcfw it is drawn on the standard error stream, and only if that is a terminal.
"""

from __future__ import annotations

from typing import IO, Any

from dcfw.progress import Bar
from dcfw_studies.study import Task


class ProgressBar:
    """A bar that :func:`~dcfw_studies.run` accepts as ``progress``; use it in a ``with`` block.

    >>> from dcfw_studies import Store, Study, run
    >>> study = Study("demo", lambda dataset, method, seed: {"value": seed}, ["a"], ["fw"], range(3))
    >>> with Store(":memory:") as store, ProgressBar("demo") as progress:
    ...     run(study, store, progress=progress).done
    3
    """

    def __init__(self, title: str, *, file: IO[str] | None = None) -> None:
        self._bar = Bar(title, file=file)
        self._failed = 0

    def __enter__(self) -> ProgressBar:
        self._bar.__enter__()
        return self

    def __call__(self, done: int, total: int, task: Task, result: dict[str, Any] | None) -> None:
        """Move the bar to ``done`` of ``total``; ``result`` is None if the row of ``task`` failed."""
        self._failed += result is None
        failed = f", {self._failed} failed" if self._failed else ""
        self._bar(done, total, last=f"{done}/{total}{failed} {task}")

    def __exit__(self, *exception: Any) -> None:
        self._bar.__exit__(*exception)
