"""``dcfw-studies study``: look into a store of rows and take them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dcfw.terminal import shown
from dcfw_studies.commands.settings import AsJson, Settings, settings_for

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The file of the store.")]


@group.callback()
def study() -> None:
    """Look into the store of a study, and export its rows.

    A store is safe to read while a study is running.

    \b
    Examples:
      dcfw-studies study status results.db
      dcfw-studies study export results.db qap -o qap.csv
    """


@group.command("status", short_help="Count the rows of each study and method.")
def status(
    store: StorePath,
    as_json: AsJson = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Show the errors of rows that failed.")
    ] = False,
) -> None:
    """Count the rows of each study and method: done, failed, running now.

    \b
    Examples:
      dcfw-studies study status results.db
      dcfw-studies study status results.db --failures
      dcfw-studies study status results.db --json
    """
    from dcfw_studies.store import Store

    with Store(store, readonly=True) as opened:
        counts, errors = opened.status(), opened.failures()
        versions = {name: opened.versions(name) for name in opened.studies()}
    if as_json:
        typer.echo(json.dumps({"studies": counts, "versions": versions, "failures": errors}, indent=2))
        return
    if not counts:
        typer.echo("no rows yet")
        return
    typer.echo(_table(counts))
    for name, found in versions.items():
        if len(found) > 1:
            sets = f"{len(found)} sets of software versions (see --json)"
            typer.echo(f"note: the rows of {shown(name)} come from {sets}")
    if failures:
        for failure in errors:
            place = "/".join(str(failure[name]) for name in ("study", "dataset", "method", "seed"))
            said = f"{place}: {failure['error']}\n{failure['traceback']}".rstrip()
            typer.echo("\n" + shown(said, keep="\n"))


@group.command("export")
def export(
    store: StorePath,
    name: Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The CSV file to write.")],
) -> None:
    """Write the finished rows of a study as a CSV file.

    \b
    Example:
      dcfw-studies study export results.db qap -o qap.csv
    """
    from dcfw_studies.store import Store

    with Store(store, readonly=True) as opened:
        try:
            count = opened.export_csv(output, name)
        except OSError as error:  # it names the temporary file
            raise OSError(
                f"{output} could not be written ({error.strerror or error}): "
                "give a file in a folder that exists and is writable, with -o"
            ) from error
    typer.echo(f"{count} rows written to {output}", err=True)


@group.command("import")
def take(
    store: StorePath,
    name: Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")],
    folder: Annotated[
        Path, typer.Argument(metavar="PATH", help="The folder of a report (qap: its rows.csv).")
    ],
    settings: Settings = None,
) -> None:
    """Take the rows of a report into a store, to go on from there.

    \b
    Examples:
      dcfw-studies study import results.db alignment results/alignment
      dcfw-studies study import results.db qap results/qap/rows.csv
    """
    import importlib

    from dcfw_studies import checks
    from dcfw_studies.catalogue import CATALOGUE
    from dcfw_studies.store import Store

    module = importlib.import_module(f"dcfw_studies.{checks.choice(name, 'STUDY', CATALOGUE)}")
    if not hasattr(module, "import_rows"):
        raise ValueError(f"the study {name!r} is quick to run and cannot be imported")
    options = settings_for(module.import_rows, settings)
    with Store(store) as opened:
        typer.echo(f"{module.import_rows(opened, str(folder), **options)} rows are new", err=True)


def _table(rows: list[dict[str, Any]]) -> str:
    """Return rows with the same names as aligned text, numbers to the right."""
    names = list(rows[0])
    cells = [[f"{v:.1f}" if isinstance(v, float) else shown(str(v)) for v in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    signs = ["<" if isinstance(value, str) else ">" for value in rows[0].values()]
    line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return "\n".join(line.format(*row).rstrip() for row in [names, *cells])
