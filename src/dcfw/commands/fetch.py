"""``dcfw fetch``: download public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    app.add_typer(group, name="fetch")


@group.callback()
def fetch() -> None:
    """Download public data sets.

    \b
    Example:
      dcfw fetch qaplib
    """


@group.command("qaplib")
def qaplib(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where to put the files; by default where dcfw looks for them.", show_default=False
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Another copy of QAPLIB (https) to use.", show_default=False)
    ] = None,
) -> None:
    """Download the quadratic assignment library QAPLIB (136 instances) and check every file.

    The files go to the folder named by the environment variable DCFW_DATA, or else to dcfw's cache.

    \b
    Examples:
      dcfw fetch qaplib
      dcfw fetch qaplib --folder ~/data/qaplib
    """
    from dcfw.fetch import fetch_qaplib

    announced: set[str] = set()

    def progress(address: str, received: int, total: int | None) -> None:
        if address not in announced:
            announced.add(address)
            typer.echo(f"downloading {address}", err=True)

    typer.echo(fetch_qaplib(folder, url=url, progress=progress))
