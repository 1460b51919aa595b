"""Are the stored rows still what the code gives?  Rerun a random sample and compare.

A row is *current* if it carries the hash of today's code (:mod:`dcfw_studies.code_hash`), *unverified* if it
carries another one or none, and *stale* if a rerun gives something else.  Counts, texts and exact objective
values must agree; other numbers to a relative 1e-6.  Times and curves are not compared.
"""

from __future__ import annotations

import importlib
import json
import math
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dcfw_studies.code_hash import code_hash
from dcfw_studies.store import Store
from dcfw_studies.study import Task
from dcfw_studies.workers import Outcome, compute

RELATIVE = 1e-6
STUDIES = ("qap", "alignment", "networks", "inner")
"""Studies whose reports have rows."""

Stored = tuple[Task, dict[str, Any], float, dict[str, str]]


@dataclass
class Check:
    """What became of the rows of one folder.

    Attributes
    ----------
    rows, current : int
        Rows in the folder, and those of today's code.
    outcomes : list of (Task, Outcome)
        What was run again.
    stale : dict
        Task -> the columns that differ, with the stored and the new value.
    too_long : int
        Rows left out of the draw because they take longer than was allowed.
    """

    study: str
    folder: Path
    rows: int
    current: int
    too_long: int
    outcomes: list[tuple[Task, Outcome]] = field(default_factory=list)
    stale: dict[Task, dict[str, tuple[Any, Any]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.folder}: {self.rows} rows, {self.current} of today's code, "
            f"{self.rows - self.current} unverified ({self.too_long} too long to draw); "
            f"{len(self.outcomes)} run again, {len(self.stale)} stale"
        )


def folders(root: Path) -> Iterable[tuple[str, Path]]:
    """Yield the studies with rows under a folder of results: (name of the study, folder)."""
    for file in sorted(root.rglob("rows.csv")):
        name = next((part for part in reversed(file.parent.parts) if part in STUDIES), None)
        if name is not None:
            yield name, file.parent


def read(study: str, folder: Path) -> list[Stored]:
    """Return the rows of a report."""
    module = importlib.import_module(f"dcfw_studies.{study}")
    with Store(":memory:") as store:
        module.import_rows(store, _place(study, folder))
        return store.stored(study)


def _place(study: str, folder: Path) -> str:
    """Return what ``import_rows`` of a study takes."""
    return str(folder / "rows.csv" if study == "qap" else folder)


def check(study: str, folder: Path, sample: int, seed: int, longest: float = math.inf) -> Check:
    """Rerun ``sample`` random rows of a report, of those that took at most ``longest`` seconds."""
    rows, now = read(study, folder), code_hash(f"dcfw_studies.{study}")
    short = [row for row in rows if row[2] <= longest]
    current = sum(versions.get("code") == now for *_, versions in rows)
    found = Check(study, folder, len(rows), current, len(rows) - len(short))
    drawn = np.random.default_rng(seed).permutation(len(short))[:sample]
    run = importlib.import_module(f"dcfw_studies.{study}").row
    for task, result, *_ in (short[i] for i in drawn):
        outcome = compute(run, task)
        found.outcomes.append((task, outcome))
        differing = differences(result, json.loads(outcome.result)) if outcome.result else {}
        if outcome.error:
            differing = {"error": ("", outcome.error)}
        if differing:
            found.stale[task] = differing
    return found


def differences(stored: Mapping[str, Any], rerun: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the columns that two results of a row have in common and do not agree on.

    Examples
    --------
    >>> differences({"value": 7, "gap": 0.1, "seconds": 1.0}, {"value": 8, "gap": 0.1 + 1e-9, "seconds": 2.0})
    {'value': (7, 8)}
    """
    found = {}
    for name in stored.keys() & rerun.keys() - {"seconds"}:
        old, new = stored[name], rerun[name]
        if isinstance(old, dict | list) or isinstance(new, dict | list):
            continue
        if isinstance(old, float) and isinstance(new, int | float):
            if math.isclose(old, new, rel_tol=RELATIVE, abs_tol=1e-12) or (old != old and new != new):
                continue
        elif old == new:
            continue
        found[name] = (old, new)
    return found


def rewrite(found: Check) -> None:
    """Write the report again with the rerun rows in place of the stored ones."""
    from dcfw_studies.catalogue import CATALOGUE

    module = importlib.import_module(f"dcfw_studies.{found.study}")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.db"
        with Store(path) as store:
            for task, outcome in found.outcomes:  # the store keeps the first row of a task
                if outcome.result:
                    store.finish(
                        task,
                        json.loads(outcome.result),
                        seconds=outcome.seconds,
                        started=outcome.started,
                        versions=outcome.versions,
                    )
            module.import_rows(store, _place(found.study, found.folder))
        text = ["protocol=text"] if found.folder.name == "text" else None
        CATALOGUE[found.study].write_report(str(path), found.folder, text)
