"""The report of the study of inner solvers: rows, tables, performance profiles and a README.

A run counts as solved when it ended with the FW gap that was asked for; an unsolved run has infinite cost in
the profiles.  Costs are compared on the same split (which inner solver?) and between splits with the best
inner solver (which split?).  Values are compared apart from costs: the problems are nonconvex, and methods
may end in different critical points.
"""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dcfw_studies.inner import FAMILIES, INNERS, MAX_LMO, RTOL
from dcfw_studies.records import software_text
from dcfw_studies.store import Store, csv_text
from dcfw_studies.table_file import shortened

COSTS = {
    "n_lmo": "calls of the linear oracle",
    "n_grad_f": "gradients of f",
    "n_grad_g": "subgradients of g",
    "seconds": "seconds",
}
COLUMNS = (
    "dataset",
    "method",
    "seed",
    "value",
    "status",
    "gap",
    "first_gap",
    "dc_gap_high",
    "nit",
    "n_inner",
)
BEST_INNER = "blended"

Key = tuple[str, str, int]


def write_report(store: str | os.PathLike[str], output: str | os.PathLike[str]) -> list[Path]:
    """Write the report of the rows in ``store`` into the folder ``output`` and return its files."""
    with Store(store, readonly=True) as opened:
        rows, versions = opened.rows("inner", versions=True), opened.versions("inner")
    if not rows:
        raise ValueError("the store has no row of the study 'inner': run it first")
    table: dict[Key, Mapping[str, Any]] = {(r["dataset"], r["method"], r["seed"]): r for r in rows}
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    solvers = {cost: by_inner(table, cost) for cost in COSTS}
    chosen = {cost: by_split(table, cost) for cost in COSTS}
    drawn = [
        *_draw(solvers, folder, "inner_solvers", "Inner solvers, all families and splits"),
        *_draw(chosen, folder, "splits", f"Splits of the quadratics, inner solver {BEST_INNER!r}"),
    ]
    families = family_table(table)
    values = value_table(table)
    files = {
        "rows.csv": csv_text(
            shortened([{name: r[name] for name in (*COLUMNS, *COSTS, "versions")} for r in rows])
        ),
        "families.csv": csv_text(families),
        "summary.json": json.dumps({"families": families, "values": values}, indent=2) + "\n",
        "README.md": _readme(rows, versions, solvers, families, values, drawn),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    return [folder / name for name in [*files, *drawn]]


def cost_of(row: Mapping[str, Any] | None, cost: str) -> float:
    """Return what a run cost, infinity if it did not get there."""
    if row is None or row["status"] != "CONVERGED":
        return math.inf
    return max(float(row[cost]), 1e-9)


def by_inner(table: Mapping[Key, Mapping[str, Any]], cost: str) -> dict[str, list[float]]:
    """Inner solver -> costs, one for each family, split and seed."""
    points = sorted({(family, method.split("/")[1], seed) for family, method, seed in table})
    return {
        inner: [cost_of(table.get((f, f"{inner}/{split}", seed)), cost) for f, split, seed in points]
        for inner in INNERS
    }


def by_split(table: Mapping[Key, Mapping[str, Any]], cost: str) -> dict[str, list[float]]:
    """Split -> costs with the best inner solver, on the families that have all three general splits."""
    general = ("spectral", "sliding", "proximal")
    points = sorted({(family, seed) for family, _, seed in table if set(general) <= set(FAMILIES[family][1])})
    if not points:
        return {}
    return {
        split: [cost_of(table.get((f, f"{BEST_INNER}/{split}", seed)), cost) for f, seed in points]
        for split in general
    }


def solver_table(solvers: Mapping[str, Mapping[str, list[float]]]) -> list[dict[str, Any]]:
    """Return, per inner solver, how many problems it solved and on how many it was the cheapest.

    ``solvers`` is cost -> :func:`by_inner`.
    """
    best = {c: np.min(list(entry.values()), axis=0) for c, entry in solvers.items()}
    lines = []
    for inner in INNERS:
        costs = {c: np.array(solvers[c][inner]) for c in solvers}
        line: dict[str, Any] = {"inner": inner, "problems": len(costs["n_lmo"])}
        line["solved"] = int(np.isfinite(costs["n_lmo"]).sum())
        line |= {c: int(np.sum(np.isfinite(best[c]) & (costs[c] <= best[c]))) for c in costs}
        lines.append(line)
    return lines


def family_table(table: Mapping[Key, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one line per family, split and inner solver: runs, solved ones, medians over the seeds."""
    lines = []
    for family, (_, splits) in FAMILIES.items():
        for split in splits:
            for inner in INNERS:
                runs = [r for (f, m, _), r in table.items() if (f, m) == (family, f"{inner}/{split}")]
                if not runs:
                    continue
                line: dict[str, Any] = {"family": family, "split": split, "inner": inner, "runs": len(runs)}
                line["solved"] = sum(r["status"] == "CONVERGED" for r in runs)
                for name in ("nit", *COSTS, "value"):
                    line[name] = float(np.median([r[name] for r in runs]))
                lines.append(line)
    return lines


def value_table(table: Mapping[Key, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, per family and method, how often its value is the lowest of all (to 1e-4 of their range)."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for family in FAMILIES:
        for seed in {s for f, _, s in table if f == family}:
            runs = {m: r["value"] for (f, m, s), r in table.items() if (f, s) == (family, seed)}
            low, high = min(runs.values()), max(runs.values())
            for method, value in runs.items():
                counts[family, method][0] += value <= low + 1e-4 * max(high - low, 1e-6 * abs(low))
                counts[family, method][1] += 1
    return [
        {"family": family, "method": method, "lowest": lowest, "of": of}
        for (family, method), (lowest, of) in counts.items()
    ]


def _draw(costs: Mapping[str, Mapping[str, list[float]]], folder: Path, name: str, title: str) -> list[str]:
    from dcfw_studies.drawing import COLOURS, LINES, draw_profiles, drawing, save

    costs = {cost: entry for cost, entry in costs.items() if entry}
    if not costs:
        return []
    with drawing() as figure_class:
        figure = figure_class(figsize=(11.0, 3.4), layout="constrained")
        panels = figure.subplots(1, len(costs), sharey=True)
        for axes, (cost, entry) in zip(np.atleast_1d(panels), costs.items(), strict=True):
            styles = {m: (COLOURS[k], LINES[k % len(LINES)]) for k, m in enumerate(entry)}
            draw_profiles(axes, entry, styles)
            axes.set_xlabel(f"{COSTS[cost]},\ntimes the best")
        np.atleast_1d(panels)[0].set_ylabel("fraction of problems solved")
        count = len(next(iter(next(iter(costs.values())).values())))
        figure.suptitle(f"{title} ({count} problems)", fontsize=10.5)
        handles, labels = np.atleast_1d(panels)[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        return save(figure, folder, name)


def _readme(
    rows: list[dict[str, Any]],
    versions: Iterable[Mapping[str, str]],
    solvers: Mapping[str, Mapping[str, list[float]]],
    families: list[dict[str, Any]],
    values: list[dict[str, Any]],
    drawn: list[str],
) -> str:
    seeds = sorted({r["seed"] for r in rows})
    lines = [
        "# Inner solvers and splits",
        "",
        f"{len(rows)} runs: {len({r['dataset'] for r in rows})} families of DC problems, every split that "
        f"the family has, the inner solvers {', '.join(INNERS)}, seeds {seeds[0]} to {seeds[-1]}. All "
        f"through `dcfw.minimize` in its generic loop, from the same start, to an FW gap of {RTOL:g} times "
        f"the first one, at most {MAX_LMO:,} calls of the linear oracle and 60 seconds a run. What the "
        "families are: `dcfw_studies.inner`.",
        "",
        "    dcfw-studies reproduce inner --store STORE --set seeds=" + str(len(seeds)),
        "    dcfw-studies report STORE --study inner -o results/inner",
        "",
        "Versions: " + "; ".join(map(software_text, versions)) + ". "
        f"Seconds of all runs together: {sum(r['seconds'] for r in rows):.0f} (wall clock, on a machine "
        "that did other things too).",
        "",
        "## Which inner solver",
        "",
    ]
    lines += [f"![performance profiles]({name})\n" for name in drawn if name == "inner_solvers.png"]
    lines += [
        "| inner solver | solved | fewest oracle calls | fewest gradients of f | fastest |",
        "| --- |" + " --- |" * 4,
    ]
    for e in solver_table(solvers):
        lines.append(
            f"| {e['inner']} | {e['solved']} of {e['problems']} | {e['n_lmo']} | {e['n_grad_f']} "
            f"| {e['seconds']} |"
        )
    lines += ["", "## Which split", ""]
    lines += [f"![performance profiles]({name})\n" for name in drawn if name == "splits.png"]
    lines += [
        "## Family by family",
        "",
        "Medians over the seeds; `solved` counts the runs that met the gap within the budget (the medians of "
        "the others are those at the budget's end); `lowest` counts the seeds on which the method's value is "
        "the lowest of all methods on the family, to 1e-4 of the range of their values.",
        "",
        "| family | split | inner | solved | lowest | outer steps | oracle calls | gradients of f | ms "
        "| value |",
        "| --- | --- | --- |" + " ---: |" * 7,
    ]
    lowest = {(v["family"], v["method"]): f"{v['lowest']}/{v['of']}" for v in values}
    for e in families:
        method = f"{e['inner']}/{e['split']}"
        lines.append(
            f"| {e['family']} | {e['split']} | {e['inner']} | {e['solved']}/{e['runs']} | "
            f"{lowest[e['family'], method]} | {e['nit']:.0f} | {e['n_lmo']:.0f} | {e['n_grad_f']:.0f} | "
            f"{1e3 * e['seconds']:.1f} | {e['value']:.6g} |"
        )
    return "\n".join(lines) + "\n"
