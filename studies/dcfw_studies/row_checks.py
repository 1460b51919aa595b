"""Are the stored rows still what the code gives?  Rerun a random sample and compare.

A row is *current* if it carries the hash of today's code (:mod:`dcfw_studies.code_hash`), *unverified* if it
carries another one or none, and *stale* if a rerun gives something else.  Counts, strings and exact objective
values must agree, other numbers to a relative 1e-6, gaps to 1e-4 or to 1e-9 of the value; times may differ.

Two kinds of rows may differ in a rerun although the code is right: those that ended at a time limit, and
*unsteady* ones, whose path the last bit decides: where assignment problems have ties (esc*, ste36*, kra*), or
where an alignment with exact steps ends inside the ball and takes polar factors of vanishing gradients.
Reruns of these differ from each other as well if their data are moved by 1e-14.

:func:`check` reruns whole rows.  Rows of networks and alignments take minutes; :func:`check_beginnings`
reruns their first epochs or steps and compares the curves.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dcfw_studies.code_hash import code_hash
from dcfw_studies.records import instructions
from dcfw_studies.store import Store
from dcfw_studies.study import Task
from dcfw_studies.workers import Outcome, compute

RELATIVE, GAPS, NUDGE = 1e-6, 1e-4, 1e-14
ELSEWHERE = 0.02  # three times what 35 such rows differed by between an AMD and an Intel processor
STEPS = 10  # of an alignment that are rerun
STUDIES = ("qap", "alignment", "networks", "inner")  # studies whose reports have rows

Stored = tuple[Task, dict[str, Any], float, dict[str, str]]


@dataclass
class Check:
    """The outcome of the check of one folder.

    ``current`` counts rows of today's code, ``too_long`` rows excluded from the draw, ``timed`` rows that the
    clock ended, ``beginnings`` rows of which only the first epochs or steps were rerun.  ``stale`` and
    ``unsteady`` map tasks to the columns that differ, with the stored and the new value.
    """

    study: str
    folder: Path
    rows: int
    current: int
    too_long: int
    outcomes: list[tuple[Task, Outcome]] = field(default_factory=list)
    stale: dict[Task, dict[str, tuple[Any, Any]]] = field(default_factory=dict)
    unsteady: dict[Task, dict[str, tuple[Any, Any]]] = field(default_factory=dict)
    timed: int = 0
    beginnings: int = 0

    def __str__(self) -> str:
        return (
            f"{self.folder}: {self.rows} rows, {self.current} of today's code, "
            f"{self.rows - self.current} unverified ({self.too_long} too long to draw); "
            f"{len(self.outcomes)} run again, {self.beginnings} begun again, {len(self.stale)} stale, "
            f"{len(self.unsteady)} decided by rounding, {self.timed} by the clock"
        )


def folders(root: Path) -> Iterable[tuple[str, Path]]:
    """Yield (name of the study, folder) of the studies with rows under a folder of results."""
    for file in sorted(root.rglob("rows.csv")):
        name = next((part for part in reversed(file.parent.parts) if part in STUDIES), None)
        if name is not None:
            yield name, file.parent


def take(study: str, folder: Path, store: Store) -> int:
    """Put the rows of a report into a store; return how many were new."""
    module = importlib.import_module(f"dcfw_studies.{study}")
    return int(module.import_rows(store, str(folder / "rows.csv" if study == "qap" else folder)))


def read(study: str, folder: Path) -> list[Stored]:
    with Store(":memory:") as store:
        take(study, folder, store)
        return store.stored(study)


def rows_of(study: str, folder: Path, **settings: Any) -> list[dict[str, Any]]:
    """Return the rows of a report with these settings in the form of a store."""
    with Store(":memory:") as store:
        take(study, folder, store)
        return [row for row in store.rows(study) if settings.items() <= row.items()]


def check(study: str, folder: Path, sample: int, seed: int, longest: float = math.inf) -> Check:
    """Rerun ``sample`` random rows of a report that took at most ``longest`` seconds."""
    rows, now = read(study, folder), code_hash(f"dcfw_studies.{study}")
    short = [row for row in rows if row[2] <= longest]
    current = sum(versions.get("code") == now for *_, versions in rows)
    found = Check(study, folder, len(rows), current, len(rows) - len(short))
    drawn = np.random.default_rng(seed).permutation(len(short))[:sample]
    run = importlib.import_module(f"dcfw_studies.{study}").row
    for task, result, *_ in (short[i] for i in drawn):
        outcome = compute(run, task)
        found.outcomes.append((task, outcome))
        if outcome.error:
            found.stale[task] = {"error": ("", outcome.error)}
            continue
        now = json.loads(outcome.result)
        differing = differences(result, now)
        if differing and "TIME_LIMIT" in (result.get("status"), now.get("status")):
            found.timed += 1
        elif differing:
            kind = found.unsteady if _unsteady(run, task, now) else found.stale
            kind[task] = differing
    return found


def _unsteady(run: Callable[..., Mapping[str, Any]], task: Task, now: Mapping[str, Any]) -> bool:
    """Return whether starts or data that differ by rounding give different rows."""
    if "nudge" not in inspect.signature(run).parameters:
        return False
    arguments = (task.dataset, task.method, task.seed)
    return any(differences(now, run(*arguments, **task.settings, nudge=k * NUDGE)) for k in (1, 2, 3))


def check_beginnings(study: str, folder: Path, sample: int, seed: int) -> Check:
    """Rerun the first two epochs (networks) or 10 steps (alignment) of random rows and compare the curves.

    Of the networks these are runs on digits, since CIFAR-10 is a download and the text of the GPT depends on
    the versions of NumPy and SciPy.  They must record the installed PyTorch.  On another kind of processor
    products are rounded in another way, and all runs differ from the first epoch on, even those of SGD: of
    rows made there only the training loss of that epoch is compared, to ``ELSEWHERE``, and not that of
    open-loop FW, which differs by up to a tenth.
    """
    rows = [row for row in read(study, folder) if _can_begin(study, row)]
    found = Check(study, folder, len(rows), 0, 0)
    module = importlib.import_module(f"dcfw_studies.{study}")
    begin = _epochs if study == "networks" else _steps
    chosen = np.random.default_rng(seed).permutation(len(rows))[:sample]
    for task, result, _, versions in sorted((rows[i] for i in chosen), key=lambda row: row[0].dataset):
        stored, now = begin(module, task, result)
        found.outcomes.append((task, Outcome(task.key, "", 0.0)))
        differing = differences(stored, now)
        if study == "networks" and versions.get("instructions") != instructions():
            old, new = (curves["train_loss 0"] for curves in (stored, now))
            differing = {} if math.isclose(old, new, rel_tol=ELSEWHERE) else {"train_loss 0": (old, new)}
        if differing:
            found.stale[task] = differing
    return found


def _can_begin(study: str, row: Stored) -> bool:
    task, result, _, versions = row
    if study != "networks":
        return "curve" in result
    if task.dataset != "digits" or versions.get("torch") != metadata.version("torch"):
        return False
    return task.method != "fw" or versions.get("instructions") == instructions()


def _epochs(module: Any, task: Task, result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    now = module.row(task.dataset, task.method, task.seed, **{**task.settings, "epochs": 2})["curves"]
    names = [name for name in now if not name.endswith("seconds")]
    return tuple({f"{n} {k}": c[n][k] for n in names for k in (0, 1)} for c in (result["curves"], now))  # type: ignore[return-value]


def _steps(module: Any, task: Task, result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    from dcfw.cli.page.curves import curve

    data = _loaded(module.load, task.dataset, task.seed)
    known = module.observed(task.dataset, task.seed, task.settings["rate"], data.E2.shape)
    history = module.run(task.method, data.E1, data.E2, known, lam=1e-4, steps=STEPS).history

    def gaps(c: Mapping[str, Any]) -> dict[str, Any]:
        return {f"gap {k:.0f}": gap for k, gap in zip(c["n_lmo"], c["gap"], strict=True) if k <= STEPS}

    return gaps(result["curve"]), gaps(curve(history))


@lru_cache(maxsize=1)
def _loaded(load: Any, dataset: str, seed: int) -> Any:
    """Return the data, from the last call if they are the same."""
    return load(dataset, seed)


def differences(stored: Mapping[str, Any], rerun: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the common columns of two results of a row that do not agree.

    >>> differences({"value": 7, "gap": 0.1, "seconds": 1.0}, {"value": 8, "gap": 0.1 + 1e-9, "seconds": 2.0})
    {'value': (7, 8)}
    """
    found = {}
    size = abs(stored["value"]) if isinstance(stored.get("value"), int | float) else 0.0
    for name in stored.keys() & rerun.keys():
        old, new = stored[name], rerun[name]
        if name.endswith("seconds") or isinstance(old, dict | list) or isinstance(new, dict | list):
            continue
        if isinstance(old, float) and isinstance(new, int | float):
            # Gaps are differences of close numbers.
            relative, tiny = (GAPS, 1e-9 * size) if "gap" in name else (RELATIVE, 1e-12)
            if math.isclose(old, new, rel_tol=relative, abs_tol=tiny) or (old != old and new != new):
                continue
        elif old == new:
            continue
        found[name] = (old, new)
    return found


def rewrite(found: Check) -> None:
    """Write the report again with the rerun rows in place of the stored ones."""
    from dcfw_studies.catalogue import CATALOGUE

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.db"
        with Store(path) as store:
            for task, outcome in found.outcomes:  # the store keeps the first row of a task
                if outcome.result:
                    store.finish(task, json.loads(outcome.result), **outcome.made)
            take(found.study, found.folder, store)
        text = ["protocol=text"] if found.folder.name == "text" else None
        CATALOGUE[found.study].write_report(str(path), found.folder, text)
