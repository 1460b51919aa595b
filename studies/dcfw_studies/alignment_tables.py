"""The numbers of the alignment study's report: gaps at equal budgets, quality, and which choices do best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dcfw_studies.alignment import HELD_OUT

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
PAIRS, FIRST_PAIRS = 7733, 4340  # dictionary pairs whose words both have vectors, and English words in them
MEASURES = ("residual", "cosine", "held cosine", "p@1", "p@5")
"""The measures of a map; the last three on held-out pairs."""
AXES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "iterations": ("steps", lambda c: c["n_lmo"]),
    "svds": ("SVDs (oracle calls and subgradients)", lambda c: np.add(c["n_lmo"], c["n_grad_g"])),
    "time": ("seconds", lambda c: c["time"]),
}

Row = Mapping[str, Any]


def by_part(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = list(rows)
    return {part: [r for r in found if r["part"] == part] for part in ("long", "rates", "choices")}


def gap_at(row: Row, axis: str, budget: float) -> float:
    """Return the least gap that a run had reached when a budget was spent (inf before its first)."""
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


def above(rows: Iterable[Row], method: str, other: str, axis: str) -> tuple[float, float, float] | None:
    """Return the largest factor by which a method's least gap exceeds another's, and the range where it does.

    The curves are compared at all of their points up to the end of the shorter one; a gap exceeds another if
    it is larger by more than half a per cent.  Return None if that happens nowhere.
    """
    runs = {r["method"]: r for r in rows}
    if not {method, other} <= runs.keys():
        return None
    spent = [np.asarray(AXES[axis][1](runs[m]["curve"]), dtype=float) for m in (method, other)]
    low, high = max(s[0] for s in spent), min(s[-1] for s in spent)
    ratios = {
        float(b): gap_at(runs[method], axis, b) / gap_at(runs[other], axis, b)
        for b in np.unique(np.concatenate(spent))
        if low <= b <= high
    }
    found = [b for b, ratio in ratios.items() if ratio > 1.005]
    return (max(ratios.values()), min(found), max(found)) if found else None


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
    """Return the quality of a map in per cent of that of Procrustes with every entry known.

    For residuals, where lower is better, it is the inverse ratio.
    """
    ours, full = float(row[f"{name} {measure}"]), float(row[f"full {measure}"])
    return 100.0 * (full / ours if measure == "residual" else ours / full)


def shares(row: Row, name: str) -> list[tuple[float, float] | None]:
    """Return percentage and value of each measure of a map, None where it was not measured."""
    return [
        (percent(row, name, m), float(row[f"{name} {m}"])) if row.get(f"{name} {m}", "") != "" else None
        for m in MEASURES
    ]


def rate_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one line per data set, rate and method: means over the seeds that were run."""
    groups: dict[tuple[str, float, int], list[Row]] = {}
    order = list(TITLES)
    for r in rows:
        groups.setdefault((r["dataset"], r["rate"], order.index(r["method"])), []).append(r)
    lines = []
    for (dataset, rate, place), runs in sorted(groups.items()):
        values = {name: [r[name] for r in runs] for name in ("gap", "n_grad_g")}
        values |= {"cosine": [percent(r) for r in runs], "vertex": [percent(r, "vertex") for r in runs]}
        values |= {"p@1": [percent(r, measure="p@1") for r in runs]} if dataset == "real" else {}
        line = {"dataset": dataset, "rate": rate, "method": order[place], "runs": len(runs), "p@1": None}
        lines.append(line | {name: float(np.mean(found)) for name, found in values.items()})
    return lines


def choice(row: Row) -> tuple[str, str, float, float, int]:
    """Return data, scaling, factor, lambda and steps, with the defaults where a row lacks them."""
    scaling, factor = row.get("scaling") or "unit", row.get("target") or 1.0
    return row["dataset"], scaling, factor, row.get("lam", 1e-4), row["steps"]


CHOSEN = ("scaling", "factor", "lambda", "steps")  # in the order of `choice`


def verdict(rows: Iterable[Row]) -> str:
    """Describe which choices do best on the held-out pairs; return an empty string without such rows.

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
