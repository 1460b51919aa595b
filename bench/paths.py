"""Graduated paths against variant 1 with blended steps and against Frank-Wolfe, one run each from one start.

    DCFW_DATA=... python -m bench paths [--rows results/qap/rows.csv] [--output results/qap]

The runs of the other two are the rows of seed 0 of the study (``results/qap/rows.csv``, protocol "published",
n <= 100); the paths start from the same doubly stochastic matrices, which the study derives from the names.
A path follows both r = "norm" and "paper": the better end counts, with the assignment problems of both.
Finished rows of ``paths.csv`` in the output folder are kept.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import qap
from dcfw.qap.graduated import SPLITS, STAGES, STEPS, prepare

SETTINGS = {"equal": (STAGES, STEPS), "fourfold": (430, 4)}
"""Name -> values of theta and steps at each: about as many LAP solves as variant 1, or four times as many."""
RIVALS = {"blended-1": "variant 1, blended", "fw": "FW"}
FIELDS = ("dataset", "n", "setting", "value", "best", "n_lmo")


def published(file: Path) -> dict[str, dict[str, dict[str, int]]]:
    """Return instance -> method -> value, best and n_lmo of the study's runs."""
    runs: dict[str, dict[str, dict[str, int]]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if (row["protocol"], row["seed"]) == ("published", "0") and row["method"] in RIVALS:
                numbers = {name: int(row[name]) for name in ("n", "value", "best", "n_lmo")}
                runs.setdefault(row["dataset"], {})[row["method"]] = numbers
    return {name: run for name, run in runs.items() if len(run) == len(RIVALS) and run["fw"]["n"] <= 100}


def path_rows(name: str, wanted: list[str]) -> list[dict[str, Any]]:
    """Follow both paths of an instance with each of the wanted settings."""
    from dcfw_studies.qap import start

    instance = qap.load(name)
    X = start(name, 0, instance.n, "published")
    paths = [prepare(instance.A, instance.B, None, split) for split in SPLITS]
    rows = []
    for setting in wanted:
        ends = [path.follow(X, *SETTINGS[setting]) for path in paths]
        value = min(int(qap.evaluate(instance.A, instance.B, end.p)) for end in ends)
        counts = {"best": int(instance.best), "n_lmo": sum(end.n_lmo for end in ends)}
        rows.append({"dataset": name, "n": instance.n, "setting": setting, "value": value, **counts})
    return rows


def table(rows: list[dict[str, Any]], runs: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    """Return the lines of the comparison."""
    lines = ["| method | LAP solves (geometric mean) | median relative error | mean relative error |"]
    lines[0] += " wins : losses against variant 1, blended | against FW |"
    lines += ["| --- | --- | --- | --- | --- | --- |"]

    def line(title: str, found: dict[str, tuple[int, int]], *cells: str) -> str:
        best = {name: runs[name]["fw"]["best"] for name in found}
        errors = [(value - best[name]) / max(best[name], 1) for name, (value, _) in found.items()]
        solves = np.exp(np.mean([np.log(max(count, 1)) for _, count in found.values()]))
        numbers = f"{solves:.0f} | {np.median(errors):.4f} | {np.mean(errors):.4f}"
        return f"| {title} ({len(found)} instances) | {numbers} | {' | '.join(cells)} |"

    for method, title in RIVALS.items():
        lines.append(
            line(title, {n: (r[method]["value"], r[method]["n_lmo"]) for n, r in runs.items()}, "", "")
        )
    for setting, (stages, steps) in SETTINGS.items():
        found = {r["dataset"]: (int(r["value"]), int(r["n_lmo"])) for r in rows if r["setting"] == setting}
        cells = []
        for method in RIVALS:
            wins = sum(value < runs[name][method]["value"] for name, (value, _) in found.items())
            losses = sum(value > runs[name][method]["value"] for name, (value, _) in found.items())
            cells.append(f"{wins} : {losses} ({wins / max(losses, 1):.2f})")
        lines.append(line(f"graduated, {stages} values of theta, <= {steps} steps", found, *cells))
    return lines


def main(arguments: list[str]) -> None:
    """Follow the missing paths, print the comparison, and write it on request."""
    parser = argparse.ArgumentParser(prog="python -m bench paths", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=Path("results/qap/rows.csv"))
    parser.add_argument("--output", type=Path, help="write paths.csv and paths.md into this folder")
    options = parser.parse_args(arguments)
    runs = published(options.rows)
    file = None if options.output is None else options.output / "paths.csv"
    rows: list[dict[str, Any]] = []
    if file is not None and file.exists():
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    done = {(row["dataset"], row["setting"]) for row in rows}
    for name in runs:
        rows += path_rows(name, [setting for setting in SETTINGS if (name, setting) not in done])
        if file is not None:
            with file.open("w", encoding="utf-8", newline="") as lines:
                writer = csv.DictWriter(lines, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    text = ["`python -m bench paths --output results/qap`", "", *table(rows, runs), ""]
    sys.stdout.write("\n".join(text))
    if options.output is not None:
        (options.output / "paths.md").write_text("\n".join(text), encoding="utf-8")
