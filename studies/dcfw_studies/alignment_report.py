"""The report of the alignment study: the paper's three panels, the tables beside the published numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dcfw_studies.alignment import DATASETS, LONG, NOISE, SHORT
from dcfw_studies.alignment_figures import draw_gaps, draw_rates
from dcfw_studies.alignment_tables import (
    AXES,
    FIRST_PAIRS,
    PAIRS,
    PUBLISHED,
    PUBLISHED_QUALITY,
    TITLES,
    Row,
    above,
    by_part,
    choice,
    equal_budgets,
    rate_table,
    shares,
    verdict,
)
from dcfw_studies.records import software_text
from dcfw_studies.store import Store, csv_text
from dcfw_studies.table_file import shortened


def write_report(store: str | os.PathLike[str], output: str | os.PathLike[str]) -> list[Path]:
    """Write the report of the rows in ``store`` into the folder ``output`` and return its files."""
    with Store(store, readonly=True) as opened:
        rows, versions = opened.rows("alignment", versions=True), opened.versions("alignment")
    if not rows:
        raise ValueError("the store has no row of the study 'alignment': run it first")
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    parts = by_part(rows)
    drawn: list[str] = []
    for dataset in DATASETS:
        chosen = [r for r in parts["long"] if r["dataset"] == dataset]
        if chosen:
            drawn += draw_gaps(chosen, folder, f"gaps_{dataset}")
    if parts["rates"]:
        drawn += draw_rates(parts["rates"], folder)
    plain = [{k: v for k, v in r.items() if k != "curve"} for r in rows]
    curves = [
        {"dataset": r["dataset"], "method": r["method"], **{k: v[i] for k, v in r["curve"].items()}}
        for r in parts["long"]
        for i in range(len(r["curve"]["gap"]))
    ]
    files = {
        "rows.csv": csv_text(shortened(_rectangular(plain))),
        "summary.json": json.dumps(summarise(parts), indent=2) + "\n",
        "README.md": _readme(rows, parts, versions, drawn),
    }
    if curves:
        files["curves.csv"] = csv_text(curves)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    return [folder / name for name in [*files, *drawn]]


def _rectangular(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    columns = list(dict.fromkeys(name for r in rows for name in r))
    return [{name: r.get(name, "") for name in columns} for r in rows]


def summarise(parts: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the tables as JSON values."""
    return {
        "counts": {
            f"{r['dataset']}/{r['method']}": {
                name: r[name] for name in ("n_lmo", "n_grad_g", "n_fun", "gap", "dc_gap_high", "seconds")
            }
            for r in parts["long"]
        },
        "equal_budgets": {
            dataset: {
                axis: equal_budgets([r for r in parts["long"] if r["dataset"] == dataset], axis)
                for axis in AXES
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


def _readme(
    rows: list[dict[str, Any]],
    parts: Mapping[str, list[dict[str, Any]]],
    versions: Iterable[Mapping[str, str]],
    drawn: list[str],
) -> str:
    software = "; ".join(map(software_text, versions))
    lines = [
        "# Alignment of partially observed embeddings",
        "",
        f"{len(rows)} runs, {sum(r['seconds'] for r in rows) / 60:.0f} minutes of solving, float64, one BLAS "
        f"thread. Planted: E2 = Q E1 + {NOISE:g} N, d = 300, 10,000 Gaussian words. Short: of the same kind, "
        "all vectors divided by sqrt(d), so that lambda weighs 300 times as much. Real: English word2vec "
        f"and French fastText vectors (unit rows unless said otherwise) of {FIRST_PAIRS:,} dictionary pairs, "
        f"a fifth of them held out. Of {PAIRS:,} pairs these are the first translations of their English "
        "words: a word with several would count several times in the fit, and draw the map to their mean. In "
        "the test every translation of a held-out word counts as correct. "
        'DC-FW, FW-K and FW-M as in the authors\' code (`protocol="published"`), lambda = 1e-4, X0 = 0; '
        "“exact steps” and “active set” are ours, the latter is `align` by default. What exactly is in "
        "`dcfw_studies.alignment`.",
        "",
        "    dcfw-studies reproduce alignment --full --store STORE",
        "    dcfw-studies report STORE --study alignment -o results/alignment",
        "",
        f"Versions: {software}.",
        "",
    ]
    if parts["long"]:
        lines += _long_lines(parts["long"], drawn)
    if parts["rates"]:
        lines += _rate_lines(parts["rates"], drawn)
    if parts["choices"]:
        lines += _choice_lines(parts["choices"])
    return "\n".join(lines) + "\n"


def _long_lines(rows: list[dict[str, Any]], drawn: list[str]) -> list[str]:
    lines = [
        f"## {LONG:,} steps at 10 % observed",
        "",
        "| data | method | oracle calls | subgradients of g | values | least FW gap | DC gap at most "
        "| seconds | published: calls, subgradients, values |",
        "| --- | --- |" + " ---: |" * 6 + " --- |",
    ]
    for r in rows:
        published = PUBLISHED.get(r["method"])
        beside = "" if published is None else ", ".join(f"{v:,}" for v in published)
        lines.append(
            f"| {r['dataset']} | {TITLES[r['method']]} | {r['n_lmo']:,} | {r['n_grad_g']:,} | {r['n_fun']:,} "
            f"| {r['gap']:.3g} | {r['dc_gap_high']:.3g} | {r['seconds']:.0f} | {beside} |"
        )
    lines.append("")
    for dataset in DATASETS:
        if f"gaps_{dataset}.png" in drawn:
            lines += [f"![gaps on the {dataset} data](gaps_{dataset}.png)", ""]
        chosen = [r for r in rows if r["dataset"] == dataset]
        for axis in ("svds", "time"):
            table = equal_budgets(chosen, axis, 8)
            if table:
                methods = [m for m in TITLES if m in table[0]]
                lines += [
                    f"Least gap so far on the {dataset} data at equal {AXES[axis][0]}:",
                    "",
                    "| " + " | ".join([AXES[axis][0], *(TITLES[m] for m in methods)]) + " |",
                    "| ---: |" + " ---: |" * len(methods),
                ]
                for e in table:
                    cells = [f"{e['budget']:,.0f}" if e["budget"] >= 10 else f"{e['budget']:.2f}"]
                    lines.append("| " + " | ".join([*cells, *(f"{e[m]:.3g}" for m in methods)]) + " |")
                lines.append("")
        lines += _against_fw_m(chosen)
    lines += [
        f"Quality after rounding, as a percentage of Procrustes with every entry known (published: "
        f"{PUBLISHED_QUALITY} %, on fastText data that could not be had here; the paper does not define its "
        "measure, the authors' script computes residuals ||R E1 - E2||). For residuals the ratio is "
        "inverted: 100 % is the residual of full Procrustes. A random rotation is the floor of each measure:",
        "",
        "| data | method | residual | mean cosine | held-out cosine | P@1 | P@5 |",
        "| --- | --- |" + " ---: |" * 5,
    ]
    for r in rows:
        lines.append(f"| {r['dataset']} | {TITLES[r['method']]} | " + _shares(r, "map") + " |")
    for dataset in DATASETS:
        chosen = [r for r in rows if r["dataset"] == dataset]
        if chosen:
            lines.append(f"| {dataset} | the first vertex, rounded | " + _shares(chosen[0], "vertex") + " |")
            lines.append(f"| {dataset} | a random rotation | " + _shares(chosen[0], "random") + " |")
    return [*lines, ""]


def _against_fw_m(rows: list[dict[str, Any]]) -> list[str]:
    """Say where each kind of DC-FW is above FW-M, at all points of the curves."""
    methods = {r["method"] for r in rows}
    if "fw-m" not in methods:
        return []
    said = []
    for method in (m for m in TITLES if m.startswith("dcfw") and m in methods):
        where = []
        for axis, unit in (("svds", "SVDs"), ("time", "seconds")):
            found = above(rows, method, "fw-m", axis)
            where.append(
                f"nowhere at equal {unit}"
                if found is None
                else f"between {_amount(found[1])} and {_amount(found[2])} {unit} (by a factor of at most "
                f"{found[0]:.2f})"
            )
        said.append(f"{TITLES[method]}: " + ", ".join(where))
    opening = f"Where the gap is above FW-M's on the {rows[0]['dataset']} data, by half a per cent or more. "
    return [opening + "; ".join(said) + ".", ""] if said else []


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _shares(row: Row, name: str) -> str:
    return " | ".join(f"{s[0]:.1f} % ({s[1]:.3f})" if s else "" for s in shares(row, name))


def _rate_lines(rows: list[dict[str, Any]], drawn: list[str]) -> list[str]:
    seeds = sorted({r["seed"] for r in rows})
    lines = [
        f"## Rates, {SHORT:,} steps, at most {len(seeds)} seed{'s' if len(seeds) > 1 else ''}",
        "",
        *(["![gap and quality by rate](rates.png)", ""] if "rates.png" in drawn else []),
        "Means over the seeds that were run (the column says how many); percentages are of full Procrustes.",
        "",
        "| data | observed | method | runs | least gap | subgradients | mean cosine | P@1 "
        "| first vertex: cosine |",
        "| --- | ---: | --- |" + " ---: |" * 6,
    ]
    for e in rate_table(rows):
        precision = "" if e["p@1"] is None else f"{e['p@1']:.1f} %"
        lines.append(
            f"| {e['dataset']} | {100 * e['rate']:g} % | {TITLES[e['method']]} | {e['runs']} "
            f"| {e['gap']:.3g} | {e['n_grad_g']:.0f} | {e['cosine']:.1f} % | {precision} "
            f"| {e['vertex']:.1f} % |"
        )
    return [*lines, ""]


def _choice_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## At 10 %: lambda, scaling, stop, and a factor on the target",
        "",
        "DC-FW with exact steps, seed 0; percentages are of full Procrustes under the same scaling, with the "
        "values in brackets. The factor multiplies the target vectors in the fit. Shrunken data: "
        "E2 = 0.3 Q E1 + 0.5 N with 3472 words.",
        "",
        "| data | scaling | factor | lambda | steps | residual | mean cosine | held-out cosine | P@1 | P@5 |",
        "| --- | --- | ---: | ---: | ---: |" + " ---: |" * 5,
    ]
    vertices = {}
    for r in sorted(rows, key=choice):
        dataset, scaling, factor, lam, steps = choice(r)
        shares = _shares(r, "map")
        lines.append(f"| {dataset} | {scaling} | {factor:g} | {lam:g} | {steps:,} | {shares} |")
        vertices[dataset, scaling] = _shares(r, "vertex")
    for (dataset, scaling), cells in vertices.items():
        lines.append(f"| {dataset} | {scaling} | | | the first vertex | {cells} |")
    found = verdict(rows)
    return [*lines, "", *([found, ""] if found else []), *_why(rows)]


def _why(rows: list[dict[str, Any]]) -> list[str]:
    """Say why the first vertex may beat the solution, with the figures of the rows."""
    real = next(
        (r for r in rows if r["dataset"] == "real" and choice(r)[1] == "unit" and "sigma median" in r), None
    )
    if real is None:
        return []
    observed = real["rate"] * real["words"]
    return [
        "Why the first vertex beats the solution on the real pairs: the model says E2 = X E1 with an "
        "orthogonal X, but the least-squares map between these vectors (every entry known) has singular "
        f"values from {real['sigma least']:.2g} to {real['sigma largest']:.2g} with a median of "
        f"{real['sigma median']:.2g}. Where they are small the ball ||X|| <= 1 is no constraint, and what is "
        f"solved is a regression with 300 unknowns and some {observed:.0f} observations per row, whose noise "
        "the rounding to an orthogonal matrix blows up. On the planted data all singular values are 1 and "
        "the ball does the regularising; the shrunken data, where they are 0.3, show the same reversal as "
        "the real ones. A factor on the target brings the solution to the ball: the larger it is, the closer "
        "the solution comes to the first vertex, and in between lies the best map. A larger lambda drives "
        "the singular values to 1 as well, but does not change which directions the noise has chosen. "
        "(`MaskedProcrustes` has `target_scale` for it.)",
        "",
    ]
