"""The figures of the QAPLIB study: errors as in the paper, the heat map beside the published one, costs.

Each function takes the rows (:class:`~dcfw_studies.qap_tables.Runs`) and returns a Matplotlib figure;
what all studies draw alike is in :mod:`dcfw_studies.drawing`.  Nothing here computes: the numbers come
from :mod:`dcfw_studies.qap_tables`.  A method has one colour, one marker and one line style in all
figures; the colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcfw_studies.drawing import drawing, save
from dcfw_studies.qap_tables import (
    COST_METHODS,
    PAPER_METHODS,
    PUBLISHED_HEAT_MAP,
    PUBLISHED_INSTANCES,
    PUBLISHED_RUNS,
    Cell,
    Runs,
    costs,
    heat_map,
    one_block,
    ordered_errors,
    single_run,
    solves_to_the_end,
    title,
)
from dcfw_studies.statistics import Interval, performance_profile

STYLES: dict[str, tuple[str, str, Any]] = {
    "fw": ("#D55E00", "s", "-"),
    "cgs": ("#7F7F7F", "v", (0, (1, 1))),
    "dcfw-2": ("#56B4E9", "^", (0, (5, 1))),
    "dcfw-3": ("#009E73", "D", (0, (3, 1, 1, 1))),
    "dcfw-1": ("#0072B2", "o", "-"),
    "dcfw-balanced": ("#CC79A7", "P", (0, (5, 1))),
    "dcfw-centered": ("#E69F00", "X", (0, (3, 1, 1, 1))),
    "dcfw-spectral": ("#000000", "*", "-"),
    "blended-1": ("#332288", "<", (0, (5, 1))),
    "blended-spectral": ("#882255", ">", (0, (3, 1, 1, 1))),
    "best": ("#117733", "h", (0, (1, 1))),
}
"""Method -> its colour, marker and line style."""


def draw_all(runs: Runs, folder: Path) -> list[str]:
    """Draw all figures for which there are rows and return the names of the files."""
    files: list[str] = []
    for name, draw in (("errors", errors), ("heat_map", heat_maps), ("costs", cost_panels)):
        figure = draw(runs)
        if figure is not None:
            files += save(figure, folder, name)
    return files


# ------------------------------------------------------------------------------------------- errors


def errors(runs: Runs, a: str = "dcfw-1", b: str = "fw", seed: int = 0) -> Any:
    """Draw the assignment errors of two methods, instances from the best to the worst error of ``b``."""
    found = single_run(runs, a, b, seed)
    if found is None:
        return None
    names, error = ordered_errors(runs, a, b, seed)
    panels = [list(part) for part in np.array_split(np.array(names), min(3, len(names)))]
    with drawing() as figure_class:
        figure = figure_class(figsize=(11.5, 2.6 * len(panels) + 0.7), layout="constrained")
        grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        width = max(len(part) for part in panels)
        for axes, part in zip(grid, panels, strict=True):
            _error_panel(axes, part, error, (b, a), width)
        figure.supylabel("assignment error", fontsize=9.5)
        grid[-1].set_xlabel(
            f"instances by {title(b)}'s error (mind the scales); a line has the better one's colour",
            fontsize=9,
        )
        wins, losses, ties = found.score
        figure.suptitle(
            f"{title(a)} better on {wins}, {title(b)} better on {losses}, equal on {ties} "
            f"of {len(names)} instances  (seed {seed}, protocol “{runs.protocol}”)",
            fontsize=10.5,
        )
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, markerscale=1.3)
    return figure


def _error_panel(
    axes: Any,
    names: Sequence[str],
    error: Mapping[str, Mapping[str, float]],
    pair: tuple[str, str],
    width: int,
) -> None:
    places = np.arange(len(names))
    values = {m: np.array([error[m][i] for i in names]) for m in pair}
    low, high = np.minimum(*values.values()), np.maximum(*values.values())
    # The line between the two has the colour of the better one.
    first, second = (values[m] for m in pair)
    colours = [STYLES[pair[0] if x < y else pair[1]][0] for x, y in zip(first, second, strict=True)]
    axes.vlines(places, low, high, color=colours, alpha=0.45, linewidth=1.8, zorder=1)
    for order, m in enumerate(pair):
        colour, marker, _ = STYLES[m]
        # The second one is smaller, so that equal errors show as one mark inside the other.
        axes.plot(
            places, values[m], marker, color=colour, markersize=(6.0, 4.0)[order], label=title(m),
            markeredgecolor="white", markeredgewidth=0.4, zorder=2 + order, clip_on=False,
        )  # fmt: skip
    axes.set_xticks(places, names, rotation=90, fontsize=7.5)
    axes.set_xlim(-0.8, width - 0.2)
    axes.set_ylim(0, 1.06 * max(float(high.max()), 1e-12))
    axes.grid(axis="y")
    axes.tick_params(axis="x", length=2)


# ----------------------------------------------------------------------------------------- heat map


def heat_maps(runs: Runs, methods: Sequence[str] = PAPER_METHODS) -> Any:
    """Draw our heat map beside the published one, with one colour scale: the fraction of instances."""
    ours = heat_map(runs, methods)
    if not ours:
        return None
    share = {pair: cell.wins.mean / len(cell.block.instances) for pair, cell in ours.items()}
    published = {pair: wins.mean / PUBLISHED_INSTANCES for pair, wins in PUBLISHED_HEAT_MAP.items()}
    # A fraction of a handful of instances may be anything: it must not stretch the scale of the others.
    scale = [
        *published.values(),
        *(share[pair] for pair, cell in ours.items() if len(cell.block.instances) >= 20),
    ]
    beyond = min(share.values()) < min(scale), max(share.values()) > max(scale)
    same = one_block(ours)
    with drawing() as figure_class:
        figure = figure_class(figsize=(12.0, 6.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        text = {pair: _cell_text(cell, same is None) for pair, cell in ours.items()}
        limits = 100 * min(scale), 100 * max(scale)
        _heat_panel(left, methods, share, text, limits)
        image = _heat_panel(
            right, methods, published, {p: _interval_text(w) for p, w in PUBLISHED_HEAT_MAP.items()}, limits
        )
        right.set_yticklabels([])
        runs_text = "instances x seeds in each cell" if same is None else _block_text(same)
        left.set_title(f"ours, protocol “{runs.protocol}”: {runs_text}")
        right.set_title(f"published: {PUBLISHED_INSTANCES} instances, {PUBLISHED_RUNS} runs")
        extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(beyond, "neither")
        bar = figure.colorbar(image, ax=[left, right], shrink=0.8, pad=0.015, extend=extend)
        bar.set_label("instances on which the row's method has the lower error (%)")
        bar.outline.set_visible(False)
        figure.supxlabel(
            "instances with a strictly lower error, row against column; 90 % intervals over the runs",
            fontsize=9,
        )
    return figure


def _block_text(block: Any) -> str:
    count = len(block.seeds)
    return f"{len(block.instances)} instances, {count} run{'s' if count > 1 else ''}"


def _interval_text(wins: Interval) -> str:
    if not np.isfinite(wins.low):
        return f"{wins.mean:.1f}"
    return f"{wins.mean:.1f}\n[{wins.low:.2f}, {wins.high:.2f}]"


def _cell_text(cell: Cell, with_block: bool) -> str:
    block = f"\nof {len(cell.block.instances)} x {len(cell.block.seeds)}" if with_block else ""
    return _interval_text(cell.wins) + block


def _luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance: black text has the better contrast above 0.18, white text below."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def _heat_panel(
    axes: Any,
    methods: Sequence[str],
    share: Mapping[tuple[str, str], float],
    text: Mapping[tuple[str, str], str],
    limits: tuple[float, float],
) -> Any:
    count = len(methods)
    values = np.array([[100 * share.get((a, b), np.nan) for b in methods] for a in methods])
    image = axes.imshow(values, cmap="viridis", vmin=limits[0], vmax=limits[1])
    for i, a in enumerate(methods):
        for j, b in enumerate(methods):
            if (a, b) in text:
                dark = _luminance(image.cmap(image.norm(values[i, j]))) < 0.18
                axes.text(j, i, text[a, b], ha="center", va="center", fontsize=8, color="w" if dark else "k")
            else:
                axes.text(j, i, "–" if i == j else "no rows", ha="center", va="center", color="#777777")
    axes.set_xticks(range(count), [title(m).replace(" (", "\n(") for m in methods])
    axes.set_yticks(range(count), [title(m) for m in methods])
    axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.set_axisbelow(False)
    for side in axes.spines.values():
        side.set_visible(False)
    return image


# -------------------------------------------------------------------------------------------- costs


def cost_panels(runs: Runs, seed: int = 0, max_n: int | None = 50) -> Any:
    """Draw LAP solves and seconds of every method, their profile, and the error that they buy."""
    found = costs(runs, seed, max_n)
    if not found.table:
        return None
    methods = [m for m in COST_METHODS if m in found.table]
    solves = {m: np.maximum(runs.get("n_lmo", m, found.block)[:, 0], 1) for m in methods}
    seconds = {m: runs.get("seconds", m, found.block)[:, 0] for m in methods}
    with drawing() as figure_class:
        figure = figure_class(figsize=(11.5, 8.0), layout="constrained")
        (top_left, top_right), (low_left, low_right) = figure.subplots(2, 2)
        _boxes(top_left, methods, solves, "LAP solves per run")
        _boxes(top_right, methods, seconds, "seconds per run")
        top_right.set_yticklabels([])
        _profile(low_left, {m: solves_to_the_end(runs, found, seed)[m] for m in methods})
        _trade(low_right, {m: (found.table[m]["lap_total"], found.table[m]["error_mean"]) for m in methods})
        handles, labels = low_right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        size = "" if max_n is None else f" with n ≤ {max_n}"
        figure.suptitle(
            f"{len(found.block.instances)} instances{size}, seed {seed}, protocol “{runs.protocol}”",
            fontsize=10.5,
        )
    return figure


def _boxes(axes: Any, methods: Sequence[str], values: Mapping[str, np.ndarray], label: str) -> None:
    places = np.arange(len(methods))[::-1]
    drawn = axes.boxplot(
        [values[m] for m in methods], positions=places, widths=0.55, orientation="horizontal",
        showfliers=False, whis=(5, 95), patch_artist=True, medianprops={"color": "black", "linewidth": 1.4},
        whiskerprops={"color": "#555555"}, capprops={"color": "#555555"},
    )  # fmt: skip
    spread = np.random.default_rng(0)
    for box, method, place in zip(drawn["boxes"], methods, places, strict=True):
        colour = STYLES[method][0]
        box.set(facecolor=colour, alpha=0.35, edgecolor=colour)
        jitter = place + spread.uniform(-0.2, 0.2, values[method].size)
        axes.plot(values[method], jitter, ".", color=colour, markersize=3, alpha=0.6, zorder=1)
    axes.set_xscale("log")
    axes.set_yticks(places, [title(m) for m in methods])
    axes.set_ylim(-0.6, len(methods) - 0.4)
    axes.set_title(f"{label}: quartiles, 5 % and 95 %")
    axes.grid(axis="x")


def _profile(axes: Any, values: Mapping[str, np.ndarray]) -> None:
    for method, (tau, rho) in performance_profile(values).items():
        colour, _, line = STYLES[method]
        # Out to the right edge, where the last method has arrived.
        axes.step(
            np.append(tau, 2 * tau[-1]), np.append(rho, rho[-1]), where="post", color=colour,
            linestyle=line, linewidth=1.6,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(1, None)
    axes.set_ylim(0, 1.02)
    axes.set_title("performance profile of LAP solves")
    axes.set_xlabel("LAP solves over the fewest of any method")
    axes.set_ylabel("fraction of instances")
    axes.grid()


def _trade(axes: Any, points: Mapping[str, tuple[float, float]]) -> None:
    for method, (solves, error) in points.items():
        colour, marker, line = STYLES[method]
        axes.plot(
            [solves], [error], marker=marker, color=colour, linestyle=line, label=title(method),
            linewidth=1.6, markersize=12 if marker == "*" else 9,
            markeredgecolor="white", markeredgewidth=0.8,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.margins(x=0.18, y=0.18)
    axes.set_ylim(0, None)
    axes.set_title("what the LAP solves buy")
    axes.set_xlabel("LAP solves on all instances together")
    axes.set_ylabel("mean assignment error")
    axes.grid()
