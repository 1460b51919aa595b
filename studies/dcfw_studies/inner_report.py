"""The report of the study of inner solvers: tables, performance profiles, and the rows.

A run is solved when it ended with the requested FW gap; an unsolved run has infinite cost in the profiles.
Costs are compared on the same split (which inner solver?) and between splits with the best inner solver
(which split?).  Values are compared separately: the problems are nonconvex, and methods may end in different
critical points.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from dcfw.cli.page.parts import Card, Cards, Cell, Chart, Section, Series, Text
from dcfw_studies.inner import FAMILIES, INNERS, MAX_LMO, RTOL, THREE
from dcfw_studies.report import Figure, how_to, json_text, rows_csv, table
from dcfw_studies.statistics import performance_profile
from dcfw_studies.store import Store, csv_text

COSTS = {
    "n_lmo": "calls of the linear oracle",
    "n_grad_f": "gradients of f",
    "n_grad_g": "subgradients of g",
    "seconds": "seconds",
}
COLUMNS: tuple[str, ...] = ("dataset", "method", "seed", "value", "status", "gap", "first_gap")
COLUMNS += ("dc_gap_high", "nit", "n_inner", *COSTS)
BEST_INNER = "blended"
FAR = 1e5  # profiles end here

Runs = Mapping[tuple[str, str, int], Mapping[str, Any]]


def sections(store: Store) -> list[Section]:
    rows = store.rows("inner")
    if not rows:
        return []
    runs = _runs(store)
    solvers = solver_table({cost: by_inner(runs, cost) for cost in COSTS})
    best = max(solvers, key=lambda e: (e["solved"], e["n_lmo"]))
    vanilla = next(e for e in solvers if e["inner"] == "fw")
    seeds = sorted({r["seed"] for r in rows})
    families = len({r["dataset"] for r in rows})
    what: list[Any] = [
        Text(
            f"{families} families of DC problems, every split that the family has, the inner solvers "
            f"{', '.join(INNERS)}, seeds {seeds[0]} to {seeds[-1]}. All through `dcfw.minimize` in its "
            f"generic loop, from the same start, to an FW gap of {RTOL:g} times the first one, at most "
            f"{MAX_LMO:,} calls of the linear oracle and 60 seconds a run. What the families are: "
            "`dcfw_studies.inner`."
        ),
        Cards(
            [
                Card("runs", f"{len(rows):,}", f"{sum(r['seconds'] for r in rows) / 60:.0f} minutes"),
                *(_card(f"solved with {e['inner']}", e["solved"], e["problems"]) for e in solvers),
            ]
        ),
        how_to("inner", f"--store STORE --set seeds={len(seeds)}"),
    ]
    summary = (
        f"With {best['inner']} steps DC-FW solved {best['solved']} of {best['problems']} problems within the "
        f"budget, with vanilla Frank-Wolfe steps {vanilla['solved']}."
    )
    below = [_solvers(runs, solvers), _splits(runs), _families(runs)]
    return [Section("Inner solvers and splits", what, [s for s in below if s is not None], summary)]


def files(store: Store) -> dict[str, str]:
    rows = store.rows("inner", versions=True)
    runs = _runs(store)
    families = family_table(runs)
    return {
        "rows.csv": rows_csv([{name: r[name] for name in (*COLUMNS, "versions")} for r in rows]),
        "families.csv": csv_text(families),
        "summary.json": json_text({"families": families, "values": value_table(runs)}),
    }


def _card(title: str, part: int, whole: int) -> Card:
    return Card(title, f"{part / whole:.0%}", f"{part} of {whole} problems")


def _runs(store: Store) -> Runs:
    return {(r["dataset"], r["method"], r["seed"]): r for r in store.rows("inner")}


def cost_of(row: Mapping[str, Any] | None, cost: str) -> float:
    """Return the cost of a run, infinite if it did not converge."""
    if row is None or row["status"] != "CONVERGED":
        return math.inf
    return max(float(row[cost]), 1e-9)


def by_inner(runs: Runs, cost: str) -> dict[str, list[float]]:
    """Return inner solver -> costs, one for each family, split and seed."""
    points = sorted({(family, method.split("/")[1], seed) for family, method, seed in runs})
    return {
        inner: [cost_of(runs.get((f, f"{inner}/{split}", seed)), cost) for f, split, seed in points]
        for inner in INNERS
    }


def by_split(runs: Runs, cost: str) -> dict[str, list[float]]:
    """Return split -> costs with the best inner solver, on the families that have all general splits."""
    general = THREE
    points = sorted({(family, seed) for family, _, seed in runs if set(general) <= set(FAMILIES[family][1])})
    if not points:
        return {}
    return {
        split: [cost_of(runs.get((f, f"{BEST_INNER}/{split}", seed)), cost) for f, seed in points]
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


def family_table(runs: Runs) -> list[dict[str, Any]]:
    """Return one line per family, split and inner solver: runs, solved ones, medians over the seeds."""
    lines = []
    for family, (_, splits) in FAMILIES.items():
        for split, inner in itertools.product(splits, INNERS):
            found = [r for (f, m, _), r in runs.items() if (f, m) == (family, f"{inner}/{split}")]
            if found:
                line: dict[str, Any] = {"family": family, "split": split, "inner": inner, "runs": len(found)}
                line["solved"] = sum(r["status"] == "CONVERGED" for r in found)
                names = ("nit", *COSTS, "value")
                lines.append(line | {name: float(np.median([r[name] for r in found])) for name in names})
    return lines


def value_table(runs: Runs) -> list[dict[str, Any]]:
    """Return, per family and method, how often its value is the lowest of all (to 1e-4 of their range)."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for family in FAMILIES:
        for seed in {s for f, _, s in runs if f == family}:
            values = {m: r["value"] for (f, m, s), r in runs.items() if (f, s) == (family, seed)}
            low, high = min(values.values()), max(values.values())
            for method, value in values.items():
                counts[family, method][0] += value <= low + 1e-4 * max(high - low, 1e-6 * abs(low))
                counts[family, method][1] += 1
    return [
        {"family": family, "method": method, "lowest": lowest, "of": of}
        for (family, method), (lowest, of) in counts.items()
    ]


def _profiles(costs: Mapping[str, Mapping[str, list[float]]], of: str, file: str) -> Figure:
    charts = []
    for cost, entry in costs.items():
        series = []
        for style, (name, (tau, rho)) in enumerate(performance_profile(entry).items()):
            near = tau <= FAR
            reach = min(max(float(tau[-1]), 2.0) * 1.1, FAR)
            series.append(Series(name, [*tau[near], reach], [*rho[near], rho[near][-1]], style=style))
        titles = f"Performance profile: {COSTS[cost]}", f"{COSTS[cost]}, times the best"
        charts.append(
            Chart(*titles, "fraction of problems solved", series, kind="step", x_scale="log", caption=of)
        )
    return Figure(charts, file=file)


def _solvers(runs: Runs, solvers: list[dict[str, Any]]) -> Section:
    columns = {"inner solver": None, "solved": "d", "problems": "d"}
    columns |= {"fewest oracle calls": "d", "fewest gradients of f": "d", "fastest": "d"}
    keys = ("inner", "solved", "problems", "n_lmo", "n_grad_f", "seconds")
    lines = [[e[k] for k in keys] for e in solvers]
    problems = f"{solvers[0]['problems']} problems: a family, a split and a seed each."
    charts = _profiles({cost: by_inner(runs, cost) for cost in COSTS}, problems, "inner_solvers")
    note = f"{problems} A problem is solved when the FW gap was met within the budget."
    return Section("Which inner solver", [table("Inner solvers", columns, lines, note), charts])


def _splits(runs: Runs) -> Section | None:
    costs = {cost: entry for cost in COSTS if (entry := by_split(runs, cost))}
    if not costs:
        return None
    count = len(next(iter(next(iter(costs.values())).values())))
    of = f"{count} problems, inner solver {BEST_INNER!r}."
    return Section("Which split", [_profiles(costs, of, "splits")])


def _families(runs: Runs) -> Section:
    lowest = {(v["family"], v["method"]): v for v in value_table(runs)}
    lines = []
    for e in family_table(runs):
        found = lowest[e["family"], f"{e['inner']}/{e['split']}"]
        lines.append(
            [
                *(e[k] for k in ("family", "split", "inner")),
                Cell(f"{e['solved']}/{e['runs']}", e["solved"] / e["runs"]),
                Cell(f"{found['lowest']}/{found['of']}", found["lowest"] / found["of"]),
                *(e[k] for k in ("nit", "n_lmo", "n_grad_f")),
                *(1e3 * e["seconds"], e["value"]),
            ]
        )
    columns = {"family": None, "split": None, "inner": None, "solved": "d", "lowest": "d"}
    columns |= {"outer steps": ",.0f", "oracle calls": ",.0f", "gradients of f": ",.0f", "ms": ",.1f"}
    note = (
        "Medians over the seeds; those of unsolved runs are at the budget's end. “Lowest” counts the seeds "
        "on which the value is the lowest of all methods on the family, to 1e-4 of the range of their "
        "values."
    )
    listed = table("Families, splits and inner solvers", {**columns, "value": ".6g"}, lines, note)
    return Section("Family by family", [listed])
