"""The command line that studies share: ``run STORE`` and ``report STORE -o FOLDER``.

What a user can mend is one line on the standard error stream and exit code 1, as in :mod:`dcfw.cli`; a wrong
command line is exit code 2.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dcfw.terminal import shown
from dcfw_studies.cluster import ClusterError
from dcfw_studies.runner import run as run_study
from dcfw_studies.store import Store, StoreError
from dcfw_studies.study import Study

SHOWN = 3
"""How many different reasons of failures are printed."""


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Turn what a user can mend into one line and exit code 1: only a bug shows a traceback."""
    try:
        yield
    except (StoreError, ClusterError, ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {shown(' '.join(str(error).split())) or type(error).__name__}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def positive(text: str) -> int:
    """Read a number of things from the command line: 1 or more.

    Examples
    --------
    >>> positive("12")
    12
    """
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def processes(text: str) -> int:
    """Read a number of processes from the command line: 1 or more, or -1.

    Examples
    --------
    >>> processes("2"), processes("-1")
    (2, -1)
    """
    return -1 if int(text) == -1 else positive(text)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``run`` of every study takes."""
    parser.add_argument("--n-jobs", type=processes, default=1, help="processes; -1 for one per core")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="compute on a Dask cluster, for example tcp://127.0.0.1:8786"
    )
    parser.add_argument("--stop-after", type=float, help="start no row after that many seconds")


def execute(study: Study, options: argparse.Namespace) -> None:
    """Run ``study`` as the options of ``run`` say, with a bar, and print what was done.

    If rows failed, the reasons are printed too, and the exit code is 1.
    """
    from dcfw_studies.progress import ProgressBar

    try:
        with Store(options.store) as store:
            with ProgressBar(study.name) as bar:
                summary = run_study(
                    study,
                    store,
                    n_jobs=options.n_jobs,
                    dask=options.dask,
                    progress=bar,
                    stop_after=options.stop_after,
                )
            print(summary)
            if summary.failed:
                print(shown("\n".join(reasons(study, store)), keep="\n"), file=sys.stderr)
                sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted; finished rows are kept, the same command goes on from there", file=sys.stderr)
        sys.exit(130)


def reasons(study: Study, store: Store) -> list[str]:
    """Return a line for each of the first few different errors of a study, with the first row that had it."""
    first: dict[str, list[str]] = {}
    keys = {task.key for task in study.tasks}  # a store may have other parts of the study too
    for failure in store.failures(study):
        if failure["key"] not in keys:
            continue
        row = f"{failure['dataset']}, {failure['method']}, seed {failure['seed']}"
        first.setdefault(" ".join(failure["error"].split()), []).append(row)
    lines = [
        f"failed: {rows[0]}{f' and {len(rows) - 1} more' if len(rows) > 1 else ''}: {error}"
        for error, rows in list(first.items())[:SHOWN]
    ]
    if len(first) > SHOWN:
        lines.append(f"failed: {len(first) - SHOWN} other errors; Store.failures() has them all")
    return lines


def main(
    name: str,
    description: str | None,
    make: Callable[[argparse.Namespace], Study],
    report: Callable[[str, str], Iterable[Path]],
    options: Sequence[tuple[str, dict[str, Any]]] = (),
    arguments: Sequence[str] | None = None,
    take: Callable[[Store, str], int] | None = None,
) -> None:
    """Run the study's command line.

    Parameters
    ----------
    name : str
        The study and its module: ``python -m dcfw_studies.NAME``.
    description : str, optional
        What ``--help`` says.
    make : callable
        Turns the options of ``run`` into a study.
    report : callable
        ``report(store, folder)`` writes the report and returns its files.
    options : sequence of (flag, settings)
        What ``run`` takes besides those of every study, for ``add_argument``.
    arguments : sequence of str, optional
        Those of the command line by default.
    take : callable, optional
        ``take(store, folder)`` puts the rows of a report into a store and returns how many were new.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m dcfw_studies.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="compute the rows that the store does not have yet")
    running.add_argument("store")
    for flag, settings in options:
        running.add_argument(flag, **settings)
    add_run_options(running)
    reporting = commands.add_parser("report", help="write tables, figures and a README into a folder")
    reporting.add_argument("store")
    reporting.add_argument("-o", "--output", required=True)
    if take is not None:
        importing = commands.add_parser("import", help="take the rows of a report into a store, to go on")
        importing.add_argument("store")
        importing.add_argument("folder")
    chosen = parser.parse_args(arguments)
    with user_errors():
        if take is not None and chosen.command == "import":
            with Store(chosen.store) as store:
                print(take(store, chosen.folder), "rows are new")
        elif chosen.command == "report":
            for file in report(chosen.store, chosen.output):
                print(file)
        else:
            execute(make(chosen), chosen)
