"""The networks study of the paper: does DC-FW keep its behaviour as the set grows, and Frank-Wolfe slow down?

Two networks (see :mod:`dcfw_studies.training`), every tensor in the l_inf ball of radius c in
{1, 10, 100}, L = 10, batches of 256.  The parts of the paper, and one more:

``digits``  the convolutional network on scikit-learn's digits: five seeds, minutes
``head``    dropout and a linear layer on EfficientNet-Lite0 features of all 50,000 images of CIFAR-10: three
            seeds; DC-FW with L in {1, 10, 100}
``cnn``     the convolutional network on CIFAR-10
``gpt``     optimizers with and without norm balls on a byte-level GPT (:mod:`dcfw_studies.gpt`): three seeds

CIFAR-10 comes with ``dcfw-studies fetch cifar10``; its features are computed once and cached.
``--set dataset=cifar100`` runs ``head`` and ``cnn`` on a CIFAR-100 of your own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcfw_studies.store import Store
from dcfw_studies.study import Study, Task
from dcfw_studies.table_file import naming, numbers, read_table, take_rows

PARTS = ("digits", "head", "cnn", "gpt")
RADII = CONSTANTS = (1.0, 10.0, 100.0)
FREE = ("sgd", "adamw")  # methods without a constraint: they have no c
DIGITS_EPOCHS, HEAD_EPOCHS, CNN_EPOCHS = 30, 50, 15
CNN_IMAGES = 50_000


def row(dataset: str, method: str, seed: int, part: str, **settings: Any) -> dict[str, Any]:
    """Train one network once and return its curves and final values.

    It runs on one thread: with two, even SGD takes another path from the first epoch on.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if part == "gpt":
            from dcfw_studies import gpt

            return gpt.row(method, seed, **settings)
        return image_row(dataset, method, seed, **settings)
    finally:
        torch.set_num_threads(threads)


def image_row(
    dataset: str,
    method: str,
    seed: int,
    model: str,
    epochs: int,
    c: float | None = None,
    L: float = 10.0,
    images: int | None = None,
    precision: str = "float32",
) -> dict[str, Any]:
    """Return the curves, inner steps, and the values of the last epoch.

    Epochs are kept in the cache folder until the row is finished, so that a killed run can continue; each
    number of epochs has its own file, or a short run could take the result of a longer one.
    """
    from dcfw.data import cache_folder
    from dcfw_studies.training import Settings, train

    settings = Settings(dataset, model, method, c or 1.0, L, epochs, 256, seed, images, precision)
    kept = cache_folder() / "networks" / f"{settings.fingerprint}-{epochs}.pt"
    run = train(settings, checkpoint=kept if epochs > 1 and dataset != "digits" else None)
    kept.unlink(missing_ok=True)
    curves = {
        name: [None if np.isnan(v) else round(v, 6) for v in values] for name, values in run.curves.items()
    }
    counts = run.curves["inner_steps"]
    return {
        **{name: values[-1] for name, values in curves.items() if name != "seconds"},
        "best_accuracy": max(run.curves["test_accuracy"]),
        "curves": curves,
        "parameters": run.parameters,
        "n_steps": run.steps,
        "n_inner": None if np.isnan(counts[0]) else round(float(np.mean(counts)) * run.steps),
        "seconds": float(sum(run.curves["seconds"])),
    }


def study(
    parts: Sequence[str] = PARTS,
    *,
    seeds: int | None = None,
    epochs: int | None = None,
    images: int | None = None,
    dataset: str = "cifar10",
    precision: str = "bfloat16",
) -> Study:
    """Return parts ("digits", "head", "cnn", "gpt") of the study as one study.

    ``seeds``, ``epochs`` and ``images`` replace the numbers of each part: 5 seeds of 30 epochs, 3 of 50, 1 of
    15.  ``precision``, "float32" or "bfloat16", is that of the layers of ``cnn``: the second takes half of
    the time, and the report compares runs in both.
    """
    tasks: list[Task] = []

    def add(part: str, name: str, method: str, count: int, **settings: Any) -> None:
        settings = {"part": part, "model": "head" if part == "head" else "cnn", **settings}
        radii: tuple[float | None, ...] = (None,) if method in FREE else RADII
        points = itertools.product(radii, range(seeds or count))
        tasks.extend(Task(name, method, seed, {**settings, "c": c}) for c, seed in points)

    for part in parts:
        if part == "digits":
            for method in ("dcfw", "dcfw-exact", "dcfw-paper", "dcfw-authors", "fw", "sfw", *FREE):
                add(part, "digits", method, 5, epochs=epochs or DIGITS_EPOCHS)
        elif part == "head":
            for method in ("dcfw", "dcfw-exact", "dcfw-paper", "dcfw-authors", "fw", "sfw", *FREE):
                for L in CONSTANTS if method == "dcfw" else (10.0,):
                    add(part, dataset, method, 3, epochs=epochs or HEAD_EPOCHS, L=L)
        elif part == "cnn":
            for method in ("dcfw", "dcfw-exact", "dcfw-authors", "fw", "sfw", *FREE):
                settings: dict[str, Any] = {"epochs": epochs or CNN_EPOCHS, "precision": precision}
                if images is not None and images < CNN_IMAGES:
                    settings["images"] = images
                add(part, dataset, method, 1, **settings)
        elif part == "gpt":
            from dcfw_studies import gpt

            tasks += [Task("docstrings", m, seed, {"part": part, **more}) for m, seed, more in gpt.tasks()]
        else:
            raise ValueError(f"parts must be among {', '.join(PARTS)}, got {part!r}")
    return Study("networks", row, tasks=tasks, cost=_cost)


def _cost(task: Task) -> float:
    """Guess the time of a row, so that networks come before heads before digits."""
    if task.settings["part"] == "gpt":
        return 20.0  # in the given order, which has the most important ones first
    each = {"digits": 0.3, "head": 1.0, "cnn": 200.0}[task.settings["part"]]
    return each * float(task.settings["epochs"]) * (1.3 if task.method.startswith("dcfw") else 1.0)


SETTINGS = {"part": str, "model": str, "epochs": int, "c": float, "L": float, "images": int, "precision": str}
COUNTS = ("n_steps", "n_inner", "parameters")
TEXTS = ("dataset", "method", "part", "seed")
ONE_RUN = ("part", "dataset", "method", "L", "c", "seed", "epochs", "images", "precision")
"""The columns of ``curves.csv`` that identify the run of a line; older reports lack the last three."""


def import_rows(store: Store, folder: str) -> int:
    """Put the rows of a report into a store; return how many were new.

    They are in ``rows.csv`` and ``curves.csv``, those of the part ``gpt`` in ``gpt.csv``.
    """
    here, new = Path(folder), 0
    if (here / "gpt.csv").exists():
        new = _import_gpt(store, here / "gpt.csv")
        if not (here / "rows.csv").exists():
            return new
    curves, one_run = _read_curves(here / "curves.csv")

    def read(line: dict[str, str]) -> tuple[Task, dict[str, Any]]:
        settings = {name: kind(line[name]) for name, kind in SETTINGS.items() if line.get(name)}
        settings.setdefault("c", None)
        result = numbers(line, (*SETTINGS, *TEXTS), COUNTS)
        key = tuple(line.get(name, "") for name in one_run)
        if key not in curves:
            raise ValueError("curves.csv has no epoch of this run")
        result["curves"] = curves[key]
        return Task(line["dataset"], line["method"], int(line["seed"]), settings, "networks", 1), result

    needed = ("part", "dataset", "method", "seed", "epochs", "seconds")
    return new + take_rows(store, here / "rows.csv", needed, read)


def _import_gpt(store: Store, file: Path) -> int:
    from dcfw_studies.gpt_report import FIELDS, read_line

    def read(line: dict[str, str]) -> tuple[Task, dict[str, Any]]:
        method, seed, settings, result = read_line(line)
        return Task("docstrings", method, seed, {"part": "gpt", **settings}, "networks", 1), result

    return take_rows(store, file, FIELDS, read)


def _read_curves(file: Path) -> tuple[dict[tuple[str, ...], dict[str, list[float | None]]], list[str]]:
    """Return the curves of each run in ``curves.csv``, and the columns that tell the runs apart."""
    found: dict[tuple[str, ...], dict[int, dict[str, float | None]]] = {}
    lines = read_table(file, ("part", "dataset", "method", "seed", "epoch"))
    one_run = [name for name in ONE_RUN if lines and name in lines[0]]
    for number, line in enumerate(lines, 2):
        with naming(file, number):
            epochs = found.setdefault(tuple(line[name] for name in one_run), {})
            if int(line["epoch"]) in epochs:
                raise ValueError(f"epoch {line['epoch']} of this run is there twice: is it of two runs?")
            values = {name: text for name, text in line.items() if name not in (*one_run, "epoch")}
            epochs[int(line["epoch"])] = {n: float(text) if text else None for n, text in values.items()}
    curves: dict[tuple[str, ...], dict[str, list[float | None]]] = {}
    for run, epochs in found.items():
        ordered = [epochs[epoch] for epoch in sorted(epochs)]
        curves[run] = {name: [values[name] for values in ordered] for name in ordered[0]}
    return curves, one_run
