"""``dcfw-studies report``: all studies of one or more stores as one page."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from dcfw_studies.commands.settings import AsJson, Settings


def report(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE", help="Files of stores.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    study: Annotated[
        str | None, typer.Option(help="Write README, tables and figures of this study into -o.")
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the studies of stores as one page, with tables to sort and plots to zoom.

    The page is one file that needs no network: every study that is found, its tables beside the published
    numbers, its interactive plots.  A store may be growing while it is read.

    \b
    Examples:
      dcfw-studies report results.db
      dcfw-studies report qap.db alignment.db -o report.html
      dcfw-studies report results.db --json
      dcfw-studies report results.db --study qap -o results/qap
      dcfw-studies report results.db --study qap -o text --set protocol=text
    """
    if study is not None:
        _write_folder(stores, study, output, settings)
        return
    from dcfw import __version__
    from dcfw.cli.page.document import page, write
    from dcfw_studies.pages import collect, key_figures, overview
    from dcfw_studies.store import Store

    with ExitStack() as stack:
        opened = [stack.enter_context(Store(path, readonly=True)) for path in stores]
        collected = collect(opened)
        if not collected:
            names = ", ".join(map(str, stores))
            raise ValueError(f"there is no row in {names} yet: run a study first, then ask for its report")
        html = page(
            "Reproduction report",
            [section for _, _, made in collected for section in made],
            lead="DC-FW, its special cases and its rivals: our numbers beside the published ones. Every "
            "table can be sorted and every plot zoomed; where a study is not complete, its tables say on how "
            "many runs they stand.",
            key_figures=key_figures(collected),
            footer=f"dcfw {__version__}: dcfw-studies report {' '.join(path.name for path in stores)}",
        )
        written = write(output, html)
        size, studies = written.stat().st_size, overview(collected)
    if as_json:
        typer.echo(json.dumps({"output": str(written), "bytes": size, "studies": studies}, indent=2))
    else:
        typer.echo(f"{written}: {len(studies)} studies, {size / 1024:,.0f} kB")


def _write_folder(stores: list[Path], study: str, output: Path, settings: list[str] | None) -> None:
    from dcfw_studies import checks
    from dcfw_studies.catalogue import CATALOGUE

    if len(stores) != 1:
        raise typer.BadParameter("--study takes one STORE")
    entry = CATALOGUE[checks.choice(study, "--study", CATALOGUE)]
    for file in entry.write_report(str(stores[0]), output, settings):
        typer.echo(str(file))
