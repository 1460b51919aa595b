"""``dcfw-studies train``: train a network with bounded weights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dcfw.cli.application import number, wrong_ones_are_usage_errors
from dcfw_studies.commands.settings import AsJson

PAPER, SMALL = {"c": 10.0, "L": 10.0}, {"c": 0.1, "L": 1.0}
"""Radius and constant of the paper's networks, and of a head on the digits, where that radius binds."""


def train(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="digits, cifar10 or cifar100.")
    ] = "digits",
    model: Annotated[
        str | None,
        typer.Option(
            help="cnn (convolutional), or head (linear: on pixels for digits, else on ImageNet features).  "
            "By default head for digits, else cnn."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="dcfw, dcfw-exact, dcfw-paper, fw, sfw, sgd or adamw.")
    ] = "dcfw",
    c: Annotated[
        float | None,
        typer.Option("--radius", "-c", help="Radius of the l_inf ball; 0.1 for a head on digits, else 10."),
    ] = None,
    L: Annotated[
        float | None,
        typer.Option(
            "-L", help="Constant of the surrogate, 1/L is the learning rate; 1 for a head on digits, else 10."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the images.")] = 10,
    batch: Annotated[int, typer.Option(help="Images in a batch.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and dropout.")] = 0,
    images: Annotated[
        int | None, typer.Option(help="Train on this many images only, the first ones.")
    ] = None,
    precision: Annotated[str, typer.Option(help="float32 or bfloat16 (layers only).")] = "float32",
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write the state there after each epoch, and go on from it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a network whose weights stay in an l_inf ball, and show loss and accuracy for each epoch.

    A run that was interrupted goes on from its checkpoint and ends with the same weights.  One that has all
    its epochs, or more, is shown as it is.

    \b
    Examples:
      dcfw-studies train digits
      dcfw-studies train digits --method fw -c 100
      dcfw-studies train cifar10 --model head --epochs 50 --checkpoint head.pt
    """
    from dcfw.progress import Bar

    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError('training needs PyTorch: pip install "dcfw-studies[networks]"') from error
    from dcfw_studies.training import CONSTRAINED, Settings
    from dcfw_studies.training import train as run

    model = model or ("head" if dataset == "digits" else "cnn")
    usual = SMALL if (dataset, model) == ("digits", "head") else PAPER
    with wrong_ones_are_usage_errors():
        settings = Settings(
            dataset=dataset, model=model, method=method, c=usual["c"] if c is None else c,
            L=usual["L"] if L is None else L, epochs=epochs, batch=batch, seed=seed,
            images=images, precision=precision,
        )  # fmt: skip
    if checkpoint is not None and not checkpoint.is_file():  # before the first epoch, not after it
        _check_writable(checkpoint)
    moved = False
    with Bar(f"{method} on {dataset}") as bar:

        def progress(done: int, total: int, latest: Mapping[str, float]) -> None:
            nonlocal moved
            if not moved and checkpoint is not None:  # a run that has all its epochs is only read
                _check_writable(checkpoint)
            moved = True
            bar(done, total, f"test accuracy {latest['test_accuracy']:.3f}" if latest else "")

        trained = run(settings, checkpoint=checkpoint, progress=progress)
    if not moved:
        found = len(trained.curves["seconds"])
        there = f"{checkpoint} already has {found} epoch{'s' * (found != 1)}"
        typer.echo(f"{there}, --epochs is {epochs}: nothing was trained", err=True)
    if as_json:
        plain = {name: [number(value) for value in values] for name, values in trained.curves.items()}
        counts = {"parameters": trained.parameters, "steps": trained.steps, "curves": plain}
        typer.echo(json.dumps({"settings": asdict(settings)} | counts, indent=2, allow_nan=False))
        return
    typer.echo("epoch  train loss  accuracy  test loss  accuracy  inner steps  at bound  seconds")
    curves = trained.curves
    for k in range(len(curves["seconds"])):
        at = {name: values[k] for name, values in curves.items()}
        inner, bound = at["inner_steps"], at["at_bound"]
        typer.echo(
            f"{k + 1:5d}  {at['train_loss']:10.4g}  {100 * at['train_accuracy']:6.1f} %"
            f"  {at['test_loss']:9.4g}  {100 * at['test_accuracy']:6.1f} %"
            f"  {inner if inner == inner else '-':>11.4}  "
            f"{f'{100 * bound:.2g} %' if bound == bound else '-':>8}  {at['seconds']:7.1f}"
        )
    if settings.method in CONSTRAINED:
        share, other = f"{100 * bound:.2g} % of them at the bound", "a larger --radius binds fewer"
        if bound == 0.0:
            share = f"the largest is {curves['largest'][-1]:.3g} and none is at the bound"
            other = "a smaller --radius binds"
        radius = f"[-{settings.c:g}, {settings.c:g}]"
        typer.echo(f"Every weight is in {radius}, {share}; {other}.  Compare the losses.")


def _check_writable(checkpoint: Path) -> None:
    """Raise if a checkpoint could not be written after an epoch."""
    if checkpoint.is_dir():
        raise ValueError(f"--checkpoint must be a file, but {checkpoint} is a folder")
    try:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=checkpoint.parent, prefix=f".{checkpoint.name}."):
            pass
    except OSError as error:
        raise OSError(
            f"the checkpoint {checkpoint} could not be written ({error.strerror or error}): "
            "give a file in a folder that is writable, with --checkpoint"
        ) from error
