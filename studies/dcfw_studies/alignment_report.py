"""The report of the alignment study: the paper's three panels, and tables beside the published numbers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from dcfw.cli.page.parts import Bullets, Card, Cards, Cell, Chart, Part, Section, Series, Table, Text
from dcfw_studies import alignment_tables as tables
from dcfw_studies.alignment import DATASETS, LONG, NOISE, SHORT, study
from dcfw_studies.alignment_tables import TITLES
from dcfw_studies.report import Figure, how_to, json_text, not_there, rows_csv, table
from dcfw_studies.store import Store, csv_text

NAMES = {"iterations": "steps", "svds": "SVDs", "time": "time"}
QUALITY = dict.fromkeys(("residual", "mean cosine", "held-out cosine", "P@1", "P@5"), ".1f")  # see MEASURES

Rows = list[dict[str, Any]]


def sections(store: Store) -> list[Section]:
    rows = store.rows("alignment", versions=True)
    if not rows:
        return []
    parts = tables.by_part(rows)
    below = [_long(parts["long"], d) for d in DATASETS if any(r["dataset"] == d for r in parts["long"])]
    below += [make(parts[name]) for name, make in (("rates", _rates), ("choices", _choices)) if parts[name]]
    if left := not_there(study(), store):
        below.append(Section("What is missing", left))
    said = standing(parts["long"])
    summary = (said or ["An orthogonal map between two embedding spaces from a few observed entries."])[0]
    title = "Alignment of partially observed embeddings"
    return [Section(title, [*_what(rows), *([Bullets(said)] if said else [])], below, summary)]


def files(store: Store) -> dict[str, str]:
    rows = store.rows("alignment", versions=True)
    parts = tables.by_part(rows)
    curves = [
        {"dataset": r["dataset"], "method": r["method"], **{k: v[i] for k, v in r["curve"].items()}}
        for r in parts["long"]
        for i in range(len(r["curve"]["gap"]))
    ]
    found = {"rows.csv": rows_csv(rows, without=["curve"]), "summary.json": json_text(summarise(parts))}
    return {**found, "curves.csv": csv_text(curves)} if curves else found


def summarise(parts: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    columns = ("n_lmo", "n_grad_g", "n_fun", "gap", "dc_gap_high", "seconds")
    long = parts["long"]
    return {
        "counts": {f"{r['dataset']}/{r['method']}": {name: r[name] for name in columns} for r in long},
        "equal_budgets": {
            dataset: {
                axis: tables.equal_budgets([r for r in parts["long"] if r["dataset"] == dataset], axis)
                for axis in tables.AXES
            }
            for dataset in sorted({r["dataset"] for r in parts["long"]})
        },
        "quality": [
            {k: r.get(k) for k in ("dataset", "method", "seed", "rate", "part", "lam", "scaling", "steps")}
            | {k: v for k, v in r.items() if k.startswith(("map ", "vertex ", "full ", "random "))}
            for part in parts.values()
            for r in part
        ],
    }


def style(method: str) -> int:
    return list(TITLES).index(method) if method in TITLES else len(TITLES)


def standing(long: Rows) -> list[str]:
    """Compare the paper's DC-FW with FW-K and FW-M, a sentence for each data set."""
    runs = {(r["dataset"], r["method"]): r for r in long}
    said = []
    for dataset in DATASETS:
        ours, *rivals = (runs.get((dataset, m)) for m in ("dcfw", "fw-k", "fw-m"))
        if ours is None or rivals[0] is None:
            continue
        found = [r for r in rivals if r is not None]
        gaps = " and ".join(f"{r['gap']:.2g} ({TITLES[r['method']]}, {r['n_grad_g']:,})" for r in found)
        said.append(
            f"On the {dataset} data DC-FW took {ours['n_grad_g']:,} subgradients of g in {ours['n_lmo']:,} "
            f"steps (published: {tables.PUBLISHED['dcfw'][1]}) and ended at an FW gap of {ours['gap']:.2g}, "
            f"against {gaps}."
        )
    return said


def _what(rows: Rows) -> list[Any]:
    minutes = sum(r["seconds"] for r in rows) / 60
    return [
        Text(
            "Masked least squares minus a nuclear norm over the spectral ball. Planted: E2 = Q E1 + "
            f"{NOISE:g} N, d = 300, 10,000 Gaussian words. Short: of the same kind, all vectors divided by "
            "sqrt(d), so that lambda weighs 300 times as much. Real: English word2vec and French fastText "
            f"vectors (unit rows unless said otherwise) of {tables.FIRST_PAIRS:,} dictionary pairs, a fifth "
            f"of them held out. Of {tables.PAIRS:,} pairs these are the first translations of their English "
            "words: a word with several would count several times in the fit, and draw the map to their "
            "mean. In the test every translation of a held-out word counts as correct. DC-FW, FW-K and FW-M "
            "as in the authors' code (protocol “published”), lambda = 1e-4, X0 = 0; “exact steps” and "
            "“active set” are ours, the latter is `align` by default. What exactly is in "
            "`dcfw_studies.alignment`."
        ),
        Cards([Card("runs", f"{len(rows):,}", f"{minutes:.0f} minutes, float64")]),
        how_to("alignment", "--full --store STORE"),
    ]


def _long(rows: Rows, dataset: str) -> Section:
    chosen = sorted((r for r in rows if r["dataset"] == dataset), key=lambda r: style(r["method"]))
    first = chosen[0]
    of = f"{first['words']:,} words, {100 * first['rate']:g} % of the entries observed, seed {first['seed']}."
    charts = []
    for axis, (label, spent) in _axes(chosen).items():
        series = [
            Series(TITLES[r["method"]], spent(r["curve"]), r["curve"]["least"], style=style(r["method"]))
            for r in chosen
        ]
        title, y_label = f"Gap against {NAMES[axis]}", "least FW gap so far"
        charts.append(Chart(title, label, y_label, series, x_scale="log", y_scale="log", caption=of))
    parts: list[Part] = [Figure(charts, file=f"gaps_{dataset}"), _counts(chosen, dataset)]
    parts += [*_budgets(chosen, dataset), *_against_fw_m(chosen), _quality(chosen, dataset)]
    return Section(f"{LONG:,} steps on the {dataset} data", parts)


def _axes(rows: Rows) -> dict[str, Any]:
    """Return the axes on which runs are comparable: seconds only if one version computed all of them."""
    made = {json.dumps(r.get("versions"), sort_keys=True) for r in rows}
    return {name: axis for name, axis in tables.AXES.items() if name != "time" or len(made) == 1}


def _counts(rows: Rows, dataset: str) -> Table:
    columns = {"method": None, "oracle calls": ",d", "subgradients of g": ",d", "values": ",d"}
    columns |= {"least FW gap": ".3g", "DC gap at most": ".3g", "seconds": ",.0f"}
    columns |= {"published: calls, subgradients, values": None}
    keys = ("n_lmo", "n_grad_g", "n_fun", "gap", "dc_gap_high", "seconds")
    lines = []
    for r in rows:
        published = ", ".join(f"{v:,}" for v in tables.PUBLISHED.get(r["method"], ())) or None
        lines.append([TITLES[r["method"]], *(r[k] for k in keys), published])
    note = "One run each, seed 0."
    if "time" not in _axes(rows):
        note += " The runs were made by different versions, at different loads: do not compare their seconds."
    return table(f"Oracle calls and certificates, {dataset} data", columns, lines, note)


def _budgets(rows: Rows, dataset: str) -> list[Table]:
    found = []
    for axis in [name for name in ("svds", "time") if name in _axes(rows)]:
        if entries := tables.equal_budgets(rows, axis, 8):
            methods = [m for m in TITLES if m in entries[0]]
            columns = {tables.AXES[axis][0]: ",.2f" if axis == "time" else ",.0f"}
            columns |= {TITLES[m]: ".3g" for m in methods}
            lines = [[e["budget"], *(e[m] for m in methods)] for e in entries]
            caption = f"Least gap at equal {'time' if axis == 'time' else 'numbers of SVDs'}, {dataset} data"
            found.append(table(caption, columns, lines, "Up to what every method has spent."))
    return found


def _against_fw_m(rows: Rows) -> list[Text]:
    """Describe where each kind of DC-FW is above FW-M, at all points of the curves."""
    methods = {r["method"] for r in rows}
    said = []
    for method in (m for m in TITLES if m.startswith("dcfw") and {m, "fw-m"} <= methods):
        where = []
        for axis, unit in {"svds": "SVDs", "time": "seconds"}.items():
            if axis in _axes(rows):
                found = tables.above(rows, method, "fw-m", axis)
                where.append(f"nowhere at equal {unit}" if found is None else _between(unit, *found))
        said.append(f"{TITLES[method]}: " + ", ".join(where))
    opening = f"Where the gap is above FW-M's on the {rows[0]['dataset']} data, by half a per cent or more. "
    return [Text(opening + "; ".join(said) + ".")] if said else []


def _between(unit: str, factor: float, *ends: float) -> str:
    low, high = (f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}" for value in ends)
    return f"between {low} and {high} {unit} (by a factor of at most {factor:.2f})"


def _shares(row: dict[str, Any], name: str) -> list[Cell | None]:
    return [Cell(f"{s[0]:.1f} % ({s[1]:.3f})", s[0]) if s else None for s in tables.shares(row, name)]


def _quality(rows: Rows, dataset: str) -> Table:
    lines = [[TITLES[r["method"]], *_shares(r, "map")] for r in rows]
    lines.append(["the first vertex, rounded", *_shares(rows[0], "vertex")])
    lines.append(["a random rotation", *_shares(rows[0], "random")])
    return table(
        f"Quality after rounding, {dataset} data",
        {"map": None, **QUALITY},
        lines,
        "As a percentage of Procrustes with every entry known, values in brackets; for residuals the ratio "
        f"is inverted. Published: {tables.PUBLISHED_QUALITY} %, of a measure that the paper does not define "
        "(the authors' script computes residuals ||R E1 - E2||), on fastText data that could not be had "
        "here. A random rotation is the floor of each measure.",
    )


def _rates(rows: Rows) -> Section:
    def vertex(row: Any) -> float:
        return tables.percent(row, "vertex")

    charts = []
    caption = f"{SHORT:,} steps; mean and range over the seeds that were run."
    measures: list[tuple[str, str, Callable[[Any], float], Any]] = [
        ("Gap", "least FW gap", lambda r: float(r["gap"]), "log"),
        ("Quality", "mean cosine, % of full Procrustes", tables.percent, "linear"),
    ]
    datasets = sorted({r["dataset"] for r in rows})
    for dataset, (name, label, value, y_scale) in itertools.product(datasets, measures):
        lines = {m: value for m in TITLES} | ({"vertex": vertex} if name == "Quality" else {})
        series = []
        for place, (method, of) in enumerate(lines.items()):
            who = "dcfw" if method == "vertex" else method
            if found := [r for r in rows if (r["dataset"], r["method"]) == (dataset, who)]:
                rates, means, lows, highs = tables.over_seeds(found, of)
                percents, title = [100 * rate for rate in rates], TITLES.get(method, "first vertex")
                series.append(Series(title, percents, means, low=lows, high=highs, style=place))
        titles = f"{name} by rate, {dataset} data", "entries observed (%)", label
        charts.append(Chart(*titles, series, x_scale="log", y_scale=y_scale, caption=caption))
    columns = {"data": None, "observed": ".0%", "method": None, "runs": "d", "least gap": ".3g"}
    columns |= {"subgradients": ".0f"}
    columns |= dict.fromkeys(("mean cosine, %", "P@1, %", "first vertex: cosine, %"), ".1f")
    keys = ("runs", "gap", "n_grad_g", "cosine", "p@1", "vertex")
    lines_of = [
        [e["dataset"], e["rate"], TITLES[e["method"]], *(e[k] for k in keys)] for e in tables.rate_table(rows)
    ]
    note = "Means over the seeds that were run (the column says how many); percentages are of full "
    note += "Procrustes."
    parts: list[Part] = [Figure(charts, file="rates"), table("Rates", columns, lines_of, note)]
    return Section("How much must be observed", parts)


def _choices(rows: Rows) -> Section:
    lines, vertices = [], {}
    for r in sorted(rows, key=tables.choice):
        lines.append([*tables.choice(r), *_shares(r, "map")])
        vertices[tables.choice(r)[:2]] = _shares(r, "vertex")
    lines += [[*key, None, None, "the first vertex", *cells] for key, cells in vertices.items()]
    columns = {"data": None, "scaling": None, "factor": "g", "lambda": "g", "steps": ",d", **QUALITY}
    note = (
        "DC-FW with exact steps, seed 0, 10 % observed. Percentages are of full Procrustes under the same "
        "scaling, values in brackets; the factor multiplies the target vectors in the fit. Shrunken data: "
        "E2 = 0.3 Q E1 + 0.5 N with 3472 words."
    )
    said = tables.verdict(rows)
    parts: list[Part] = [table("Choices", columns, lines, note)]
    parts += [*([Text(said)] if said else []), *_why(rows)]
    return Section("Lambda, scaling, stop, and a factor on the target", parts)


def _why(rows: Rows) -> list[Text]:
    """Explain why the first vertex may beat the solution, with the figures of the rows."""
    unit = [r for r in rows if tables.choice(r)[:2] == ("real", "unit") and "sigma median" in r]
    if not unit:
        return []
    real = unit[0]
    observed = real["rate"] * real["words"]
    return [
        Text(
            "Why the first vertex beats the solution on the real pairs: the model says E2 = X E1 with an "
            "orthogonal X, but the least-squares map between these vectors (every entry known) has singular "
            f"values from {real['sigma least']:.2g} to {real['sigma largest']:.2g} with a median of "
            f"{real['sigma median']:.2g}. Where they are small the ball ||X|| <= 1 is no constraint, and "
            f"what is solved is a regression with 300 unknowns and some {observed:.0f} observations per row, "
            "whose noise the rounding to an orthogonal matrix blows up. On the planted data all singular "
            "values are 1 and the ball does the regularising; the shrunken data, where they are 0.3, show "
            "the same reversal as the real ones. A factor on the target brings the solution to the ball: the "
            "larger it is, the closer the solution comes to the first vertex, and in between lies the best "
            "map. A larger lambda drives the singular values to 1 as well, but does not change which "
            "directions the noise has chosen. (`MaskedProcrustes` has `target_scale` for it.)"
        )
    ]
