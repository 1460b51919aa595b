"""``dcfw-studies fetch``: download public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Folder = Annotated[
    Path | None, typer.Option(help="Where to put the files; by default where dcfw looks for them.")
]


@group.callback()
def fetch() -> None:
    """Download public data sets and check every file.

    The files go to the folder named by the environment variable DCFW_DATA, or else to dcfw's cache.

    \b
    Examples:
      dcfw-studies fetch qaplib
      dcfw-studies fetch cifar10
    """


@group.command("qaplib", short_help="Download QAPLIB, the quadratic assignment library.")
def qaplib(
    folder: Folder = None,
    url: Annotated[str | None, typer.Option(help="Another copy of QAPLIB (https) to use.")] = None,
) -> None:
    """Download the quadratic assignment library QAPLIB (136 instances).

    \b
    Examples:
      dcfw-studies fetch qaplib
      dcfw-studies fetch qaplib --folder ~/data/qaplib
    """
    from dcfw_studies.fetch import fetch_qaplib

    typer.echo(fetch_qaplib(folder, url=url))


@group.command("cifar10", short_help="Download CIFAR-10, 60,000 images in 10 classes.")
def cifar10(
    folder: Folder = None,
    features: Annotated[
        bool,
        typer.Option("--features", help="Compute EfficientNet-Lite0 features too (minutes; needs torch)."),
    ] = False,
) -> None:
    """Download the official binary archive of CIFAR-10 (162 MB).

    \b
    Examples:
      dcfw-studies fetch cifar10
      dcfw-studies fetch cifar10 --features
    """
    _cifar("cifar10", folder, features)


@group.command("cifar100", short_help="Download CIFAR-100, 60,000 images in 100 classes.")
def cifar100(folder: Folder = None) -> None:
    """Download the official binary archive of CIFAR-100 (161 MB).

    \b
    Example:
      dcfw-studies fetch cifar100
    """
    _cifar("cifar100", folder, False)


def _cifar(name: str, folder: Path | None, with_features: bool) -> None:
    from dcfw_studies.images import fetch_cifar

    target = fetch_cifar(name, folder)
    if with_features:
        from dcfw.progress import Bar
        from dcfw_studies.images import features
        from dcfw_studies.images.cifar import read_folder

        images = read_folder(target, 10)
        for part, pictures in (("test", images.test), ("training", images.train)):
            with Bar(f"features of the {part} images") as bar:
                features(pictures, progress=bar)
    typer.echo(target)
