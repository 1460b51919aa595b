"""``dcfw-studies check-rows``: are the rows of reports still what the code gives?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dcfw_studies.commands.settings import AsJson


def check_rows(
    results: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder with reports.", exists=True, file_okay=False)
    ],
    sample: Annotated[int, typer.Option(help="Rows of each report to run again.", min=0)] = 20,
    longest: Annotated[float, typer.Option(help="Leave out rows that took more seconds.", min=0.0)] = 5.0,
    seed: Annotated[int, typer.Option(help="Which rows are drawn.", min=0)] = 0,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Write the reports again with the rerun rows.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rerun a random sample of the rows of every report, and say which are stale.

    A row carries a hash of the code that made it.  With today's hash it is current, with another one
    unverified, and stale if a rerun gives something else (unless rounding or the clock decided it).  Of
    networks and alignments the first epochs or steps are rerun as well.  Exit code 1 if any row is stale.
    \b
    Examples:
      dcfw-studies check-rows results
      dcfw-studies check-rows results/qap --sample 200 --longest 60 --recompute
    """
    from dcfw_studies.row_checks import check, check_beginnings, folders, rewrite

    found = []
    for study, folder in folders(results):
        outcome = check(study, folder, sample, seed, longest)
        if study in ("alignment", "networks"):
            begun = check_beginnings(study, folder, sample, seed)
            outcome.stale |= begun.stale
            outcome.beginnings = len(begun.outcomes)
        found.append(outcome)
        if not as_json:
            typer.echo(str(outcome))
            for task, columns in outcome.stale.items():
                changes = ", ".join(f"{k} {a} -> {b}" for k, (a, b) in columns.items())
                typer.echo(f"  stale: {task}: {changes}")
        if recompute:
            rewrite(outcome)
    if not found:
        raise ValueError(f"there is no rows.csv of a study under {results}: give the folder of a report")
    if as_json:
        lines = [
            {
                "study": c.study, "folder": str(c.folder), "rows": c.rows, "current": c.current,
                "rerun": len(c.outcomes), "stale": {str(task): columns for task, columns in c.stale.items()},
            }
            for c in found
        ]  # fmt: skip
        typer.echo(json.dumps(lines, indent=2))
    if any(outcome.stale for outcome in found):
        raise typer.Exit(1)
