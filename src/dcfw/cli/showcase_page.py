"""The page of ``dcfw demo``: what was solved, the table with the certificates, and how the runs converged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcfw.cli.page import (
    Bullets,
    Card,
    Cell,
    Chart,
    Code,
    Column,
    Row,
    Section,
    Series,
    Table,
    Text,
    document,
)
from dcfw.cli.showcase import Outcome

EXAMPLE = """\
import numpy as np
import dcfw
from dcfw import functions, sets

A, b = np.random.default_rng(0).standard_normal((50, 100)), np.ones(50)
phi = functions.LeastSquares(A, b) - 0.5 * functions.L2Norm()
res = dcfw.minimize(phi, sets.L1Ball(100, radius=2.0))
print(res)              # the value, the certificate and what it cost
"""

FLOOR = 1e-6
"""The part of the first gap at which the charts end: a run that ends in a vertex drops to rounding errors."""

HEADS = {"n_grad_g": ("subgradients of g", ",d"), "quality": ("quality", ".1%"), "error": ("error", ".4f")}
"""Columns that only some problems have."""


def demo_page(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the page of a demonstration."""
    from dcfw import __version__

    groups: dict[str, list[Outcome]] = {}
    for entry in outcomes:
        groups.setdefault(entry.solve.problem.key, []).append(entry)
    certified = [o for o in outcomes if o.row["dc_gap"] is not None]
    converged = sum(o.row["status"] == "CONVERGED" for o in certified)
    figures = [
        Card("problems", str(len(groups)), f"{len(outcomes)} solves"),
        Card("seconds in all", f"{seconds:.0f}", "with all methods"),
        Card("converged", f"{converged} of {len(certified)}", "the others used up their oracle calls"),
        *_headlines(groups.get("alignment", ())),
    ]
    return document.page(
        "DC-FW in a minute",
        [*(_section(members) for members in groups.values()), _next_steps()],
        lead="Projection-free minimisation of differences of convex functions, on three problems made on the "
        "spot, beside the methods one would use otherwise. Each solve of dcfw ends with a certificate: an "
        "interval that holds the DC gap of its best iterate, which is 0 exactly at stationary points.",
        key_figures=figures,
        footer=f"Written by dcfw {__version__}: dcfw demo",
    )


def _headlines(members: Sequence[Outcome]) -> list[Card]:
    """Return the card that compares the subgradients taken in the alignment problem."""
    taken = {o.solve.method: o.row["n_grad_g"] for o in members}
    ours, rival = taken.get("DC-FW, the paper's steps"), taken.get("FW-K")
    if ours is None or rival is None:
        return []
    return [Card("subgradients of g, alignment", f"{ours:,}", f"DC-FW; FW-K takes {rival:,}")]


def _section(members: Sequence[Outcome]) -> Section:
    problem = members[0].solve.problem
    return Section(
        problem.title,
        [Text(problem.text), _table(members), Row(list(_charts(members)))],
        summary=_summary(members),
    )


def _summary(members: Sequence[Outcome]) -> str:
    value = min(o.row["value"] for o in members)
    names = [o.solve.method for o in members if o.row["value"] == value]
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.5f}"
    return f"The lowest value, {shown}, was found by {'; '.join(names)}."


def interval_text(dc_gap: Sequence[float] | None) -> str:
    """Return the text of a certificate."""
    return "none" if dc_gap is None else f"[{dc_gap[0]:.2g}, {dc_gap[1]:.2g}]"


def ended(status: str | None) -> str:
    """Return the reason why a run ended; nothing for a solver that gives none."""
    words = {"MAX_LMO": "out of calls", "MAXITER": "out of steps"}
    return "" if status is None else words.get(status, status.lower().replace("_", " "))


def _table(members: Sequence[Outcome]) -> Table:
    extra = [name for name in HEADS if name in members[0].row]
    whole = all(isinstance(o.row["value"], int) for o in members)
    columns = [Column("method"), Column("value", ",d" if whole else ".6f")]
    columns += [Column("certified DC gap", ".2g"), Column("FW gap", ".2g"), Column("oracle calls", ",d")]
    columns += [Column(*HEADS[name]) for name in extra]
    columns += [Column("seconds", ".2f"), Column("ended")]
    lines = []
    for o in members:
        row = o.row
        upper = None if row["dc_gap"] is None else row["dc_gap"][1]
        lines.append(
            [
                row["method"],
                row["value"],
                Cell(interval_text(row["dc_gap"]), upper),
                row["gap"],
                row["lmo_calls"],
                *(row[name] for name in extra),
                row["seconds"],
                ended(row["status"]),
            ]
        )
    oracle = members[0].solve.problem.oracle
    note = f"Lower is better. An oracle call {oracle}."
    return Table("All methods", columns, lines, note)


def _charts(members: Sequence[Outcome]) -> list[Chart]:
    drawn = [(k, o.solve.method, o.curve) for k, o in enumerate(members) if o.curve is not None]
    return [
        Chart(
            title,
            label,
            "least FW gap so far",
            [Series(method, points[axis], points["least"], style=k) for k, method, points in drawn],
            x_scale="log",
            y_scale="log",
            caption=caption,
            y_floor=FLOOR * max(points["least"][0] for _, _, points in drawn) if drawn else None,
        )
        for title, label, axis, caption in (
            ("Convergence against oracle calls", "oracle calls", "n_lmo", "A point for each (outer) step."),
            ("Convergence against time", "seconds", "time", "The same runs."),
        )
    ]


def _next_steps() -> Section:
    commands: list[Any] = [
        Text("A difference of convex functions over a set with a linear oracle takes four lines:"),
        Code(EXAMPLE),
        Bullets(
            [
                "dcfw qap FILE.dat solves an assignment problem of your own",
                "dcfw align --help: align word vectors of which few entries are known",
                "dcfw info says what is installed and which data are found",
            ]
        ),
    ]
    return Section("Your own problem", commands)
