"""The report of the alignment study: the paper's three panels, the tables beside the published numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dcfw.experiments.alignment import DATASETS, HELD_OUT, LONG, NOISE, RATES, SHORT
from dcfw.experiments.records import software_text
from dcfw.experiments.store import Store, csv_text
from dcfw.experiments.table_file import shortened

TITLES = {
    "dcfw": "DC-FW",
    "fw-k": "FW-K",
    "fw-m": "FW-M",
    "dcfw-exact": "DC-FW, exact steps",
    "dcfw-active": "DC-FW, active set",
}
PUBLISHED = {"dcfw": (10_000, 88, 0), "fw-k": (10_000, 10_000, 0), "fw-m": (10_000, 10_000, 19_990)}
"""Calls of the oracle, subgradients of g, further values of phi, after 10^4 iterations."""
PUBLISHED_QUALITY = 93.11
PAIRS, FIRST_PAIRS = 7733, 4340
"""Pairs in the dictionary whose words both have vectors, and English words among them."""
MEASURES = ("cosine", "held cosine", "p@1", "p@5")
"""How a map is judged; the last three on held-out pairs."""
AXES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "iterations": ("steps", lambda c: c["n_lmo"]),
    "svds": ("SVDs (oracle calls and subgradients)", lambda c: np.add(c["n_lmo"], c["n_grad_g"])),
    "time": ("seconds", lambda c: c["time"]),
}

Row = Mapping[str, Any]


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


def by_part(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the study's three parts."""
    found = list(rows)
    return {part: [r for r in found if r["part"] == part] for part in ("long", "rates", "choices")}


def _rectangular(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    columns = list(dict.fromkeys(name for r in rows for name in r))
    return [{name: r.get(name, "") for name in columns} for r in rows]


def gap_at(row: Row, axis: str, budget: float) -> float:
    """Return the least gap that a run had shown by the time a budget was spent (inf before its first)."""
    spent = np.asarray(AXES[axis][1](row["curve"]))
    seen = int(np.searchsorted(spent, budget, side="right"))
    return float(row["curve"]["least"][seen - 1]) if seen else float("inf")


def equal_budgets(rows: Iterable[Row], axis: str, count: int = 12) -> list[dict[str, float]]:
    """Return the least gaps of all methods at budgets that each of them has reached, on a log scale."""
    runs = {r["method"]: r for r in rows}
    if not runs:
        return []
    spent = {m: np.asarray(AXES[axis][1](r["curve"])) for m, r in runs.items()}
    low, high = max(float(s[0]) for s in spent.values()), min(float(s[-1]) for s in spent.values())
    if not 0.0 < low < high:
        return []
    budgets = np.geomspace(low, high, count)
    budgets[-1] = high
    return [{"budget": float(b), **{m: gap_at(r, axis, b) for m, r in runs.items()}} for b in budgets]


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
            | {k: v for k, v in r.items() if k.startswith(("map ", "vertex ", "full "))}
            for part in parts.values()
            for r in part
        ],
    }


# ------------------------------------------------------------------------------------------- figures


def _styles() -> dict[str, tuple[str, Any]]:
    from dcfw.experiments.drawing import COLOURS, LINES

    return {m: (COLOURS[k], LINES[k % len(LINES)]) for k, m in enumerate(TITLES)}


def draw_gaps(rows: list[dict[str, Any]], folder: Path, name: str) -> list[str]:
    """Draw the least FW gap so far against steps, SVDs and time: the paper's three panels."""
    from dcfw.experiments.drawing import drawing, save

    styles = _styles()
    with drawing() as figure_class:
        figure = figure_class(figsize=(11.0, 3.6), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        for axes, (label, spent) in zip(panels, AXES.values(), strict=True):
            for r in sorted(rows, key=lambda r: list(TITLES).index(r["method"])):
                colour, line = styles[r["method"]]
                axes.loglog(
                    spent(r["curve"]), r["curve"]["least"], color=colour, linestyle=line, linewidth=1.7,
                    label=TITLES[r["method"]],
                )  # fmt: skip
            axes.set_xlabel(label)
            axes.xaxis.set_minor_formatter("")
            axes.grid(True)
        panels[0].set_ylabel("least FW gap so far")
        r = rows[0]
        figure.suptitle(
            f"{r['dataset']} data: d = 300, {r['words']:,} words, {100 * r['rate']:g} % observed",
            fontsize=10.5,
        )
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        return save(figure, folder, name)


def draw_rates(rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Draw gap and quality against the observation rate (mean and range over the seeds)."""
    from dcfw.experiments.drawing import COLOURS, drawing, save

    styles = _styles()
    datasets = sorted({r["dataset"] for r in rows})
    with drawing() as figure_class:
        figure = figure_class(figsize=(8.6, 2.9 * len(datasets) + 0.6), layout="constrained")
        grid = figure.subplots(len(datasets), 2, squeeze=False)
        for line_of_axes, dataset in zip(grid, datasets, strict=True):
            for method in TITLES:
                chosen = [r for r in rows if (r["dataset"], r["method"]) == (dataset, method)]
                if not chosen:
                    continue
                colour, line = styles[method]
                for axes, value in zip(line_of_axes, (lambda r: r["gap"], percent), strict=True):
                    _band(axes, chosen, value, colour, line, TITLES[method])
            vertex = [r for r in rows if (r["dataset"], r["method"]) == (dataset, "dcfw")]
            _band(
                line_of_axes[1],
                vertex,
                lambda r: percent(r, "vertex"),
                COLOURS[6],
                (0, (1, 1)),
                "first vertex",
            )
            line_of_axes[0].set_yscale("log")
            line_of_axes[0].set_ylabel(f"{dataset}\nleast FW gap")
            line_of_axes[1].set_ylabel("mean cosine,\n% of full Procrustes")
            for axes in line_of_axes:
                axes.set_xscale("log")
                axes.set_xticks(RATES, [f"{100 * rate:g} %" for rate in RATES])
                axes.minorticks_off()
                axes.grid(True)
        for axes in grid[-1]:
            axes.set_xlabel("entries observed")
        handles, labels = grid[0, 1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.suptitle(f"{SHORT:,} steps; mean and range over the seeds", fontsize=10.5)
        return save(figure, folder, "rates")


def _band(axes: Any, rows: list[dict[str, Any]], value: Any, colour: str, line: Any, label: str) -> None:
    rates, means, lows, highs = over_seeds(rows, value)
    axes.plot(rates, means, color=colour, linestyle=line, marker="o", ms=3, label=label)
    axes.fill_between(rates, lows, highs, color=colour, alpha=0.15, lw=0)


def over_seeds(
    rows: Iterable[Row], value: Callable[[Row], float]
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return the rates, and at each the mean, the least and the largest value over the seeds."""
    found: dict[float, list[float]] = {}
    for r in rows:
        found.setdefault(r["rate"], []).append(value(r))
    rates = sorted(found)
    means = [float(np.mean(found[rate])) for rate in rates]
    return rates, means, [min(found[rate]) for rate in rates], [max(found[rate]) for rate in rates]


def percent(row: Row, name: str = "map", measure: str = "cosine") -> float:
    """Return the quality of a map as a percentage of that of Procrustes with every entry known."""
    return 100.0 * float(row[f"{name} {measure}"]) / float(row[f"full {measure}"])


# -------------------------------------------------------------------------------------------- README


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
        "`dcfw.experiments.alignment`.",
        "",
        "    python -m dcfw.experiments.alignment run STORE",
        "    python -m dcfw.experiments.alignment report STORE -o results/alignment",
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
    lines += [
        f"Quality after rounding, as a percentage of Procrustes with every entry known (published: "
        f"{PUBLISHED_QUALITY} %, on fastText data that could not be had here):",
        "",
        "| data | method | mean cosine | held-out cosine | P@1 | P@5 |",
        "| --- | --- |" + " ---: |" * 4,
    ]
    for r in rows:
        lines.append(f"| {r['dataset']} | {TITLES[r['method']]} | " + _shares(r, "map") + " |")
    for dataset in DATASETS:
        chosen = [r for r in rows if r["dataset"] == dataset]
        if chosen:
            lines.append(f"| {dataset} | the first vertex, rounded | " + _shares(chosen[0], "vertex") + " |")
    return [*lines, ""]


def shares(row: Row, name: str) -> list[tuple[float, float] | None]:
    """Return percentage and value of each of the four measures of a map, None where it was not measured."""
    return [
        (percent(row, name, measure), float(row[f"{name} {measure}"]))
        if row.get(f"{name} {measure}", "") != ""
        else None
        for measure in MEASURES
    ]


def _shares(row: Row, name: str) -> str:
    return " | ".join(f"{s[0]:.1f} % ({s[1]:.3f})" if s else "" for s in shares(row, name))


def rate_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one line per data set, rate and method: means over the seeds that were run."""
    groups: dict[tuple[str, float, str], list[Row]] = {}
    for r in rows:
        groups.setdefault((r["dataset"], r["rate"], r["method"]), []).append(r)
    order = list(TITLES)
    lines = []
    for (dataset, rate, method), runs in sorted(
        groups.items(), key=lambda item: (item[0][0], item[0][1], order.index(item[0][2]))
    ):
        line: dict[str, Any] = {"dataset": dataset, "rate": rate, "method": method, "runs": len(runs)}
        line["gap"] = float(np.mean([r["gap"] for r in runs]))
        line["n_grad_g"] = float(np.mean([r["n_grad_g"] for r in runs]))
        line["cosine"] = float(np.mean([percent(r) for r in runs]))
        tested = dataset == "real"
        line["p@1"] = float(np.mean([percent(r, measure="p@1") for r in runs])) if tested else None
        line["vertex"] = float(np.mean([percent(r, "vertex") for r in runs]))
        lines.append(line)
    return lines


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
        "| data | scaling | factor | lambda | steps | mean cosine | held-out cosine | P@1 | P@5 |",
        "| --- | --- | ---: | ---: | ---: |" + " ---: |" * 4,
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


def choice(row: Row) -> tuple[str, str, float, float, int]:
    """Return data, scaling, factor, lambda and steps, where a row that does not say has the default."""
    scaling, factor = row.get("scaling") or "unit", row.get("target") or 1.0
    return row["dataset"], scaling, factor, row.get("lam", 1e-4), row["steps"]


CHOSEN = ("scaling", "factor", "lambda", "steps")
"""What there is to choose, in the order of :func:`choice`."""


def verdict(rows: Iterable[Row]) -> str:
    """Say which choices do best on the held-out pairs, as far as the rows tell; nothing if they do not.

    P@1 decides, since cosines under different scalings cannot be compared.
    """
    tested = {choice(r)[1:]: r for r in rows if r["dataset"] == "real" and r.get("map p@1", "") != ""}
    if not tested:
        return ""
    best = max(sorted(tested), key=lambda key: float(tested[key]["map p@1"]))
    row = tested[best]
    ahead = sum(float(r["map p@1"]) > float(r["vertex p@1"]) for r in tested.values())
    held = round(row["words"] * HELD_OUT / (1.0 - HELD_OUT))
    rate = float(row["map p@1"])
    said = [
        "Which choice does best on the real pairs, by P@1 of the held-out words (cosines under different "
        "scalings cannot be compared): "
        + ", ".join(f"{name} {_short(value)}" for name, value in zip(CHOSEN, best, strict=True))
        + f", with {rate:.3f}. The first vertex under the same scaling has {float(row['vertex p@1']):.3f}; "
        f"of the {len(tested)} solutions {ahead} are better than the first vertex of their scaling."
    ]
    means = {name: found for k, name in enumerate(CHOSEN) if (found := _means(tested, k))}
    if means:
        each = (
            f"{name} " + ", ".join(f"{_short(value)} ({mean:.3f})" for value, mean in found.items())
            for name, found in means.items()
        )
        said.append(
            "One choice at a time, the best first, with the mean P@1 over runs that differ in nothing else: "
            + "; ".join(each)
            + "."
        )
    if "steps" in means and next(iter(means["steps"])) == min(means["steps"]):
        said.append("An early stop is best because it stays near the first vertex, before the fit to noise.")
    error = (rate * (1.0 - rate) / max(held, 1)) ** 0.5
    said.append(f"With {held:,} held-out words the standard error of a P@1 is {error:.3f}.")
    return " ".join(said)


def _means(tested: Mapping[tuple[Any, ...], Row], k: int) -> dict[Any, float]:
    """Return the values of one choice, best first, with their means over the runs where all were tried."""
    values = sorted({key[k] for key in tested})
    groups = {key[:k] + key[k + 1 :] for key in tested}
    whole = [g for g in groups if all((*g[:k], value, *g[k:]) in tested for value in values)]
    if len(values) < 2 or not whole:
        return {}
    means = {
        value: float(np.mean([float(tested[(*g[:k], value, *g[k:])]["map p@1"]) for g in sorted(whole)]))
        for value in values
    }
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,g}"


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
