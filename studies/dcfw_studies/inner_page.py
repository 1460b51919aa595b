"""The study of inner solvers and splits on a page.

The numbers come from :mod:`dcfw_studies.inner_report`; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcfw.cli.page import Card, Cards, Cell, Chart, Code, Column, Row, Section, Series, Table, Text
from dcfw_studies.inner import INNERS, MAX_LMO, RTOL
from dcfw_studies.inner_report import (
    BEST_INNER,
    COSTS,
    Key,
    by_inner,
    by_split,
    family_table,
    solver_table,
    value_table,
)
from dcfw_studies.statistics import performance_profile
from dcfw_studies.store import Store

FAR = 1e5
"""Profiles end here: who needs so much more than the best has lost."""


def sections(store: Store) -> list[Section]:
    """Return the section of the study."""
    rows = store.rows("inner")
    if not rows:
        return []
    table: dict[Key, Mapping[str, Any]] = {(r["dataset"], r["method"], r["seed"]): r for r in rows}
    solvers = solver_table({cost: by_inner(table, cost) for cost in COSTS})
    best = max(solvers, key=lambda e: (e["solved"], e["n_lmo"]))
    vanilla = next(e for e in solvers if e["inner"] == "fw")
    seeds = sorted({r["seed"] for r in rows})
    families = len({r["dataset"] for r in rows})
    what: list[Any] = [
        Text(
            f"{families} families of DC problems, every split that the family has, the inner solvers "
            f"{', '.join(INNERS)}, seeds {seeds[0]} to {seeds[-1]}. All through dcfw.minimize in its generic "
            f"loop, from the same start, to an FW gap of {RTOL:g} times the first one, at most {MAX_LMO:,} "
            "calls of the linear oracle and 60 seconds a run."
        ),
        Cards(
            [
                Card("runs", f"{len(rows):,}", f"{sum(r['seconds'] for r in rows) / 60:.0f} minutes"),
                *(
                    Card(f"solved with {e['inner']}", f"{e['solved'] / e['problems']:.0%}", _of(e))
                    for e in solvers
                ),
            ]
        ),
        Code(f"dcfw-studies reproduce inner --store STORE --set seeds={len(seeds)}"),
    ]
    summary = (
        f"With {best['inner']} steps DC-FW solved {best['solved']} of {best['problems']} problems within the "
        f"budget, with vanilla Frank-Wolfe steps {vanilla['solved']}."
    )
    below = [_solvers(table, solvers), _splits(table), _families(table)]
    return [Section("Inner solvers and splits", what, [s for s in below if s is not None], summary)]


def _of(entry: Mapping[str, Any]) -> str:
    return f"{entry['solved']} of {entry['problems']} problems"


def _profiles(costs: Mapping[str, Mapping[str, list[float]]], of: str) -> Row:
    charts = []
    for cost, entry in costs.items():
        series = []
        for style, (name, (tau, rho)) in enumerate(performance_profile(entry).items()):
            near = tau <= FAR
            reach = min(max(float(tau[-1]), 2.0) * 1.1, FAR)
            series.append(Series(name, [*tau[near], reach], [*rho[near], rho[near][-1]], style=style))
        charts.append(
            Chart(
                f"Performance profile: {COSTS[cost]}",
                f"{COSTS[cost]}, times the best",
                "fraction of problems solved",
                series,
                kind="step",
                x_scale="log",
                caption=of,
            )
        )
    return Row(charts)


def _solvers(table: Mapping[Key, Mapping[str, Any]], solvers: list[dict[str, Any]]) -> Section:
    columns = [Column("inner solver"), Column("solved", "d"), Column("problems", "d")]
    columns += [
        Column("fewest oracle calls", "d"),
        Column("fewest gradients of f", "d"),
        Column("fastest", "d"),
    ]
    keys = ("inner", "solved", "problems", "n_lmo", "n_grad_f", "seconds")
    lines = [[e[k] for k in keys] for e in solvers]
    problems = f"{solvers[0]['problems']} problems: a family, a split and a seed each."
    charts = _profiles({cost: by_inner(table, cost) for cost in COSTS}, problems)
    note = f"{problems} A problem is solved when the FW gap was met within the budget."
    return Section("Which inner solver", [Table("Inner solvers", columns, lines, note), charts])


def _splits(table: Mapping[Key, Mapping[str, Any]]) -> Section | None:
    costs = {cost: entry for cost in COSTS if (entry := by_split(table, cost))}
    if not costs:
        return None
    count = len(next(iter(next(iter(costs.values())).values())))
    return Section("Which split", [_profiles(costs, f"{count} problems, inner solver {BEST_INNER!r}.")])


def _families(table: Mapping[Key, Mapping[str, Any]]) -> Section:
    lowest = {(v["family"], v["method"]): v for v in value_table(table)}
    lines = []
    for e in family_table(table):
        found = lowest[e["family"], f"{e['inner']}/{e['split']}"]
        lines.append(
            [
                *(e[k] for k in ("family", "split", "inner")),
                Cell(f"{e['solved']}/{e['runs']}", e["solved"] / e["runs"]),
                Cell(f"{found['lowest']}/{found['of']}", found["lowest"] / found["of"]),
                *(e[k] for k in ("nit", "n_lmo", "n_grad_f")),
                1e3 * e["seconds"],
                e["value"],
            ]
        )
    columns = [
        Column("family"),
        Column("split"),
        Column("inner"),
        Column("solved", "d"),
        Column("lowest", "d"),
    ]
    columns += [Column("outer steps", ",.0f"), Column("oracle calls", ",.0f")]
    columns += [Column("gradients of f", ",.0f"), Column("ms", ",.1f"), Column("value", ".6g")]
    note = (
        "Medians over the seeds. “Lowest” counts the seeds on which the value is the lowest of all methods "
    )
    note += "on the family, to 1e-4 of the range of their values."
    return Section("Family by family", [Table("Families, splits and inner solvers", columns, lines, note)])
