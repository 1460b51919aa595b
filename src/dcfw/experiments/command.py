"""The command line that small studies share: ``run STORE`` and ``report STORE -o FOLDER``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from dcfw.experiments.runner import run as run_study
from dcfw.experiments.store import Store
from dcfw.experiments.study import Study


def main(
    name: str,
    description: str | None,
    make: Callable[[argparse.Namespace], Study],
    report: Callable[[str, str], Iterable[Path]],
    options: Sequence[tuple[str, dict[str, Any]]] = (),
    arguments: Sequence[str] | None = None,
) -> None:
    """Run the study's command line.

    Parameters
    ----------
    name : str
        The study and its module: ``python -m dcfw.experiments.NAME``.
    description : str, optional
        What ``--help`` says.
    make : callable
        Turns the options of ``run`` into a study.
    report : callable
        ``report(store, folder)`` writes the report and returns its files.
    options : sequence of (flag, settings)
        What ``run`` takes besides ``--n-jobs`` and ``--stop-after``, for ``add_argument``.
    arguments : sequence of str, optional
        Those of the command line by default.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m dcfw.experiments.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="compute the rows that the store does not have yet")
    running.add_argument("store")
    for flag, settings in options:
        running.add_argument(flag, **settings)
    running.add_argument("--n-jobs", type=int, default=1)
    running.add_argument("--stop-after", type=float, help="start no row after that many seconds")
    reporting = commands.add_parser("report", help="write tables, figures and a README into a folder")
    reporting.add_argument("store")
    reporting.add_argument("-o", "--output", required=True)
    chosen = parser.parse_args(arguments)
    if chosen.command == "report":
        for file in report(chosen.store, chosen.output):
            print(file)
        return
    from dcfw.experiments.progress import ProgressBar

    with Store(chosen.store) as store, ProgressBar(name) as bar:
        print(
            run_study(make(chosen), store, n_jobs=chosen.n_jobs, progress=bar, stop_after=chosen.stop_after)
        )
