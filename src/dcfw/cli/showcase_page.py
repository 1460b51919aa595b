"""The page of ``dcfw demo``: the problems, a table with certificates for each, and the convergence of the
runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import cos, pi, sin
from typing import Any

from dcfw.cli.page import document, parts
from dcfw.cli.page.parts import Card, Cell, Chart, Column, Picture, Row, Section, Series, Table, Text
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

# The charts end at this part of the first gap: a run that ends in a vertex drops to rounding errors.
FLOOR = 1e-6
# Columns that only some problems have.
HEADS = {"n_grad_g": ("subgradients of g", ",d"), "quality": ("quality", ".1%"), "error": ("error", ".4f")}


def demo_page(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the page of a demonstration."""
    from dcfw import __version__

    groups: dict[str, list[Outcome]] = {}
    for entry in outcomes:
        groups.setdefault(entry.solve.problem.key, []).append(entry)
    words = [_in_words(members) for members in groups.values()]
    return document.page(
        "DC-FW in a minute",
        [*(_section(members) for members in groups.values()), _next_steps()],
        lead=f"{' '.join(words[:1])} Three problems made on the spot in {seconds:.0f} s, each solved by dcfw "
        "and by the methods one would use otherwise. Each solve of dcfw ends with a certificate: an interval "
        "that holds the DC gap of its best iterate, which is 0 exactly at critical points.",
        key_figures=[card for members in groups.values() for card in _card(members)],
        footer=f"Written by dcfw {__version__}: dcfw demo",
    )


def _pair(members: Sequence[Outcome]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of dcfw's default and that of the best rival that is not DC-FW."""
    ours = next((o.row for o in members if o.row["method"] == "DC-FW, default"), members[-1].row)
    rivals = [o.row for o in members if not o.row["method"].startswith("DC-FW")]
    return ours, min(rivals, key=lambda row: (row["status"] != "CONVERGED", row["value"]), default=ours)


def _in_words(members: Sequence[Outcome]) -> str:
    """Return the outcome of one problem in a sentence or two."""
    key = members[0].solve.problem.key
    ours, rival = _pair(members)
    if key == "matching":
        scipy = [o.row for o in members if o.row["method"].startswith("SciPy")]
        other = min(scipy, key=lambda row: row["value"], default=rival)
        return (
            f"DC-FW leaves {ours['value']} edges unmatched; {other['method'].replace(', ', ' (')}"
            f"{')' * (', ' in other['method'])} leaves {other['value']}."
        )
    calls = f"{ours['lmo_calls']:,} oracle calls"
    compared = f"{rival['method']} is {_how(rival)} after {rival['lmo_calls']:,}"
    if key == "alignment":
        return (
            f"DC-FW reaches {ours['quality']:.0%} of the quality with all entries known and is {_how(ours)} "
            f"after {calls}; {compared}."
        )
    return f"DC-FW ends {ours['error']:.1%} from the truth and is {_how(ours)} after {calls}; {compared}."


def _how(row: dict[str, Any]) -> str:
    return "converged" if row["status"] == "CONVERGED" else "not converged"


def _card(members: Sequence[Outcome]) -> list[Card]:
    """Return the key figure of a problem."""
    ours, rival = _pair(members)
    key = members[0].solve.problem.key
    if key == "matching":
        best = min((o.row["value"] for o in members if o.row["method"].startswith("SciPy")), default=0)
        return [Card("edges unmatched", str(ours["value"]), f"SciPy's FAQ leaves {best}")]
    label = {"alignment": "oracle calls, alignment", "regression": "oracle calls, regression"}[key]
    note = f"{rival['method']}: {rival['lmo_calls']:,}, {_how(rival)}"
    return [Card(label, f"{ours['lmo_calls']:,}", note)]


def _section(members: Sequence[Outcome]) -> Section:
    problem = members[0].solve.problem
    words = _in_words(members)
    contents: list[parts.Part] = [Text(words), Text(problem.text), *_picture(members), _table(members)]
    contents.append(Row(_charts(members)))
    return Section(problem.title, contents, summary=words)


def _picture(members: Sequence[Outcome]) -> list[Picture]:
    """Draw the first graph on a ring with the edges matched and lost, for SciPy and for dcfw."""
    drawn = [o for o in members if o.edges is not None]
    if not drawn:
        return []
    scipy = [o for o in drawn if o.row["method"].startswith("SciPy")]
    pair = [*sorted(scipy, key=lambda o: o.row["value"])[:1], drawn[-1]]
    panels = "".join(_ring(o, 150 + 300 * k) for k, o in enumerate(pair))
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {300 * len(pair)} 330">{panels}</svg>'
    told = "; ".join(f"{o.row['method']}: {o.row['value']} edges unmatched" for o in pair)
    caption = "The first graph, once for each matching: edges in red have no counterpart in the second graph."
    return [Picture(svg.encode(), f"Two matchings of the graphs. {told}.", caption, "image/svg+xml")]


def _ring(o: Outcome, centre: int) -> str:
    """Return a graph on a ring as SVG, in mid-tones for light and dark backgrounds."""
    assert o.edges is not None
    n = int(o.edges[:, :2].max()) + 1
    radius = (100, 120, 140)  # neighbours on different rings, so that their edges are visible
    turns = [(radius[k % 3], 2 * pi * k / n) for k in range(n)]
    spots = [(centre + r * sin(turn), 145 - r * cos(turn)) for r, turn in turns]
    lines = []
    for i, j, kept in sorted(o.edges.tolist(), key=lambda edge: -edge[2]):
        (a, b), (c, d) = spots[i], spots[j]
        look = '"#999" stroke-width="0.8"' if kept else '"#d33" stroke-width="1.4"'
        lines.append(f'<path d="M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" stroke={look}/>')
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#2a8bc0"/>' for a, b in spots)
    name = escape(f"{o.row['method']}: {o.row['value']} unmatched")
    text = 'text-anchor="middle" font-family="sans-serif" font-size="14" fill="#888"'
    return f"{''.join(lines)}{dots}" + f'<text x="{centre}" y="315" {text}>{name}</text>'


def interval_text(dc_gap: Sequence[float] | None) -> str:
    """Return a certificate as text."""
    return "none" if dc_gap is None else f"[{dc_gap[0]:.2g}, {dc_gap[1]:.2g}]"


def ended(status: str | None) -> str:
    """Return the reason why a run ended, empty for a solver that gives none."""
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
    for row in (o.row for o in members):
        certified = Cell(interval_text(row["dc_gap"]), None if row["dc_gap"] is None else row["dc_gap"][1])
        measures = [row[name] for name in ("gap", "lmo_calls", *extra, "seconds")]
        lines.append([row["method"], row["value"], certified, *measures, ended(row["status"])])
    note = f"Lower is better. An oracle call {members[0].solve.problem.oracle}."
    return Table("All methods", columns, lines, note)


def _charts(members: Sequence[Outcome]) -> list[Chart]:
    drawn = [(k, o.solve.method, o.curve) for k, o in enumerate(members) if o.curve is not None]
    floor = FLOOR * max(points["least"][0] for _, _, points in drawn) if drawn else None

    def chart(title: str, label: str, axis: str, caption: str) -> Chart:
        lines = [Series(method, points[axis], points["least"], style=k) for k, method, points in drawn]
        logarithmic: dict[str, Any] = {"x_scale": "log", "y_scale": "log", "y_floor": floor}
        return Chart(title, label, "least FW gap so far", lines, caption=caption, **logarithmic)

    return [
        chart("Convergence against oracle calls", "oracle calls", "n_lmo", "A point for each (outer) step."),
        chart("Convergence against time", "seconds", "time", "The same runs."),
    ]


def _next_steps() -> Section:
    lead = Text("A difference of convex functions over a set with a linear oracle takes four lines:")
    commands = [
        "dcfw qap FILE.dat solves an assignment problem of your own",
        "dcfw align --help: align word vectors of which few entries are known",
        "dcfw info says what is installed and which data are found",
    ]
    return Section("Your own problem", [lead, parts.Code(EXAMPLE), parts.Bullets(commands)])
