"""The figures of the alignment study: the paper's three panels, and gap and quality by rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcfw_studies.alignment import RATES, SHORT
from dcfw_studies.alignment_tables import AXES, TITLES, over_seeds, percent


def draw_gaps(rows: list[dict[str, Any]], folder: Path, name: str) -> list[str]:
    """Draw the least FW gap so far against steps, SVDs and time: the paper's three panels."""
    from dcfw_studies.drawing import drawing, save

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
    from dcfw_studies.drawing import COLOURS, drawing, save

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


def _styles() -> dict[str, tuple[str, Any]]:
    from dcfw_studies.drawing import COLOURS, LINES

    return {m: (COLOURS[k], LINES[k % len(LINES)]) for k, m in enumerate(TITLES)}
