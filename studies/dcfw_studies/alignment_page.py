"""The alignment study on a page: the paper's three panels as charts, our tables beside the published ones.

The numbers come from :mod:`dcfw_studies.alignment_tables`; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dcfw.cli.page import Card, Cards, Cell, Chart, Code, Column, Row, Section, Series, Table, Text
from dcfw_studies.alignment import DATASETS, LONG, SHORT
from dcfw_studies.alignment_tables import (
    AXES,
    MEASURES,
    PUBLISHED,
    PUBLISHED_QUALITY,
    TITLES,
    by_part,
    choice,
    equal_budgets,
    over_seeds,
    percent,
    rate_table,
    shares,
)
from dcfw_studies.store import Store

NAMES = {"iterations": "steps", "svds": "SVDs", "time": "time"}
QUALITY = ("residual", "mean cosine", "held-out cosine", "P@1", "P@5")

Rows = list[dict[str, Any]]


def sections(store: Store) -> list[Section]:
    """Return the section of the study."""
    rows = store.rows("alignment")
    if not rows:
        return []
    parts = by_part(rows)
    below = [_long(parts["long"], d) for d in DATASETS if any(r["dataset"] == d for r in parts["long"])]
    below += [_rates(parts["rates"])] if parts["rates"] else []
    below += [_choices(parts["choices"])] if parts["choices"] else []
    return [Section("Alignment of embeddings", _what(rows, parts["long"]), below, _take_away(parts["long"]))]


def style(method: str) -> int:
    """Return the number of the colour, dash and marker of a method, as in the report's figures."""
    return list(TITLES).index(method) if method in TITLES else len(TITLES)


def title(method: str) -> str:
    """Return the name of a method in tables and charts."""
    return TITLES.get(method, method)


def _of(rows: Rows, dataset: str, method: str) -> dict[str, Any] | None:
    return next((r for r in rows if (r["dataset"], r["method"]) == (dataset, method)), None)


def _take_away(long: Rows) -> str:
    for dataset in DATASETS:
        ours, rival = _of(long, dataset, "dcfw"), _of(long, dataset, "fw-k")
        if ours and rival:
            return (
                f"On the {dataset} data DC-FW took {ours['n_grad_g']:,} subgradients of g in "
                f"{ours['n_lmo']:,} steps where FW-K takes {rival['n_grad_g']:,} (published: "
                f"{PUBLISHED['dcfw'][1]} and {PUBLISHED['fw-k'][1]:,}), and ended at an FW gap of "
                f"{ours['gap']:.2g} against {rival['gap']:.2g}."
            )
    return "An orthogonal map between two embedding spaces from a few observed entries."


def _what(rows: Rows, long: Rows) -> list[Any]:
    seconds = sum(r["seconds"] for r in rows)
    cards = [Card("runs", f"{len(rows):,}", f"{seconds / 60:.0f} minutes of solving, float64")]
    for dataset in DATASETS:
        ours = _of(long, dataset, "dcfw")
        if ours:
            cards.append(
                Card(
                    f"subgradients of g, {dataset} data",
                    f"{ours['n_grad_g']:,}",
                    f"DC-FW in {ours['n_lmo']:,} steps; published {PUBLISHED['dcfw'][1]}",
                )
            )
            cards.append(
                Card(
                    f"quality, {dataset} data",
                    f"{percent(ours):.1f} %",
                    f"of full Procrustes; published {PUBLISHED_QUALITY} % on other data",
                )
            )
    return [
        Text(
            "Masked least squares minus a nuclear norm over the spectral ball, d = 300. Planted: a random "
            "orthogonal map with noise, 10,000 words; short: of that kind, divided by sqrt(d). Real: English "
            "word2vec and French fastText vectors of dictionary pairs, a fifth of them held out. DC-FW, FW-K "
            "and FW-M as in the authors' code (protocol “published”), lambda = 1e-4, X0 = 0; “exact steps” "
            "and “active set” are ours, the latter is the library's default."
        ),
        Cards(cards),
        Code("dcfw-studies reproduce alignment --full --store STORE"),
    ]


def _long(rows: Rows, dataset: str) -> Section:
    chosen = [r for r in rows if r["dataset"] == dataset]
    first = chosen[0]
    caption = (
        f"{first['words']:,} words, {100 * first['rate']:g} % of the entries observed, seed {first['seed']}."
    )
    charts = [
        Chart(
            f"Gap against {NAMES[axis]}",
            label,
            "least FW gap so far",
            [
                Series(title(r["method"]), spent(r["curve"]), r["curve"]["least"],
                       style=style(r["method"]))
                for r in chosen
            ],
            x_scale="log",
            y_scale="log",
            caption=caption,
        )
        for axis, (label, spent) in AXES.items()
    ]  # fmt: skip
    return Section(
        f"{LONG:,} steps on the {dataset} data",
        [Row(charts), _counts(chosen, dataset), *_budgets(chosen, dataset), _quality(chosen, dataset)],
    )


def _counts(rows: Rows, dataset: str) -> Table:
    lines = []
    for r in rows:
        published = PUBLISHED.get(r["method"])
        beside = None if published is None else ", ".join(f"{v:,}" for v in published)
        keys = ("n_lmo", "n_grad_g", "n_fun", "gap", "dc_gap_high", "seconds")
        lines.append([title(r["method"]), *(r[k] for k in keys), beside])
    columns = [Column("method"), Column("oracle calls", ",d"), Column("subgradients of g", ",d")]
    columns += [Column("values", ",d"), Column("least FW gap", ".3g"), Column("DC gap at most", ".3g")]
    columns += [Column("seconds", ",.0f"), Column("published: calls, subgradients, values")]
    return Table(f"Oracle calls and certificates, {dataset} data", columns, lines, "One run each, seed 0.")


def _budgets(rows: Rows, dataset: str) -> list[Table]:
    found = []
    for axis in ("svds", "time"):
        entries = equal_budgets(rows, axis, 8)
        if entries:
            methods = [m for m in TITLES if m in entries[0]]
            columns = [Column(AXES[axis][0], ",.2f" if axis == "time" else ",.0f")]
            columns += [Column(TITLES[m], ".3g") for m in methods]
            lines = [[e["budget"], *(e[m] for m in methods)] for e in entries]
            caption = f"Least gap at equal {'time' if axis == 'time' else 'numbers of SVDs'}, {dataset} data"
            found.append(Table(caption, columns, lines, "Up to what every method has spent."))
    return found


def _shares(row: dict[str, Any], name: str) -> list[Cell | None]:
    return [Cell(f"{s[0]:.1f} % ({s[1]:.3f})", s[0]) if s else None for s in shares(row, name)]


def _quality_columns(names: Sequence[Column]) -> list[Column]:
    assert len(QUALITY) == len(MEASURES)
    return [*names, *(Column(name, ".1f") for name in QUALITY)]


def _quality(rows: Rows, dataset: str) -> Table:
    lines = [[title(r["method"]), *_shares(r, "map")] for r in rows]
    lines.append(["the first vertex, rounded", *_shares(rows[0], "vertex")])
    lines.append(["a random rotation", *_shares(rows[0], "random")])
    return Table(
        f"Quality after rounding, {dataset} data",
        _quality_columns([Column("map")]),
        lines,
        "As a percentage of Procrustes with every entry known (for residuals the inverse), values in "
        f"brackets. Published: {PUBLISHED_QUALITY} %, of a measure that the paper does not define, on "
        "fastText data that could not be had here.",
    )


def _rates(rows: Rows) -> Section:
    charts = []
    measures: list[tuple[str, str, Callable[[Any], float], str]] = [
        ("Gap", "least FW gap", lambda r: float(r["gap"]), "log"),
        ("Quality", "mean cosine, % of full Procrustes", percent, "linear"),
    ]
    for dataset in sorted({r["dataset"] for r in rows}):
        for name, label, value, scale in measures:
            series = []
            for method in TITLES:
                found = [r for r in rows if (r["dataset"], r["method"]) == (dataset, method)]
                if found:
                    rates, means, lows, highs = over_seeds(found, value)
                    shares_seen = [100 * rate for rate in rates]
                    series.append(
                        Series(TITLES[method], shares_seen, means, low=lows, high=highs, style=style(method))
                    )
            charts.append(
                Chart(
                    f"{name} by rate, {dataset} data",
                    "entries observed (%)",
                    label,
                    series,
                    x_scale="log",
                    y_scale="log" if scale == "log" else "linear",
                    caption=f"{SHORT:,} steps; mean and range over the seeds that were run.",
                )
            )
    columns = [Column("data"), Column("observed", ".0%"), Column("method"), Column("runs", "d")]
    columns += [Column("least gap", ".3g"), Column("subgradients", ".0f"), Column("mean cosine, %", ".1f")]
    columns += [Column("P@1, %", ".1f"), Column("first vertex: cosine, %", ".1f")]
    keys = ("runs", "gap", "n_grad_g", "cosine", "p@1", "vertex")
    lines = [[e["dataset"], e["rate"], TITLES[e["method"]], *(e[k] for k in keys)] for e in rate_table(rows)]
    note = (
        "Means over the seeds that were run (the column says how many); percentages are of full Procrustes."
    )
    return Section("How much must be observed", [Row(charts), Table("Rates", columns, lines, note)])


def _choices(rows: Rows) -> Section:
    lines, vertices = [], {}
    for r in sorted(rows, key=choice):
        lines.append([*choice(r), *_shares(r, "map")])
        vertices[choice(r)[:2]] = _shares(r, "vertex")
    lines += [[*key, None, None, "the first vertex", *cells] for key, cells in vertices.items()]
    columns = _quality_columns(
        [
            Column("data"),
            Column("scaling"),
            Column("factor", "g"),
            Column("lambda", "g"),
            Column("steps", ",d"),
        ]
    )
    note = "DC-FW with exact steps, seed 0, 10 % observed. Percentages are of full Procrustes under the same "
    note += "scaling; the factor multiplies the target vectors in the fit."
    return Section(
        "Lambda, scaling, stop, and a factor on the target", [Table("Choices", columns, lines, note)]
    )
