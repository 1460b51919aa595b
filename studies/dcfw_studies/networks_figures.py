"""The figures of the networks study; the numbers come from :mod:`dcfw_studies.networks_report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcfw_studies.drawing import COLOURS, drawing, save
from dcfw_studies.networks import RADII
from dcfw_studies.networks_report import SHOWN, TITLES, groups, mean_curve, short_names


def _colours() -> dict[str, str]:
    order = (0, 5, 3, 3, 1, 2, 6, 4)  # the two of the paper share a colour
    return dict(zip(TITLES, (COLOURS[k] for k in order), strict=True))


def draw_epochs(rows: list[dict[str, Any]], folder: Path, c: float = 10.0) -> list[str]:
    """Draw loss and accuracy against epochs at c = 10, L = 10, as in the paper's figure."""
    found, names = groups(rows), short_names(rows)
    with drawing() as Figure:
        figure = Figure(figsize=(3.3 * len(names), 5.6), layout="constrained")
        axes = figure.subplots(2, len(names), squeeze=False)
        for column, (panel, name) in enumerate(names.items()):
            for (p, method, L, radius), runs in found.items():
                if p != panel or method not in SHOWN or L != 10.0 or radius not in (None, c):
                    continue
                for ax, measure in zip(axes[:, column], ("loss", "accuracy"), strict=True):
                    for kind, line in (("train", "-"), ("test", (0, (4, 1.5)))):
                        values = mean_curve(runs, f"{kind}_{measure}")
                        label = TITLES[method] if kind == "train" else None
                        ax.plot(
                            np.arange(1, len(values) + 1), values, color=_colours()[method], linestyle=line,
                            lw=1.4, label=label,
                        )  # fmt: skip
            axes[0, column].set_yscale("log")
            axes[0, column].set_title(name, fontsize=9.5)
            axes[1, column].set_xlabel("epoch")
            axes[1, column].set_ylim(0.0, 1.02)
        axes[0, 0].set_ylabel("loss")
        axes[1, 0].set_ylabel("accuracy")
        for ax in axes.flat:
            ax.grid(True)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.suptitle(f"c = {c:g}, L = 10; solid: training, dashed: test; means over seeds", fontsize=10.5)
        return save(figure, folder, "epochs")


def draw_radii(rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Draw accuracy against epochs for each c, as in the paper's second figure."""
    found, names = groups(rows), short_names(rows)
    with drawing() as Figure:
        figure = Figure(figsize=(9.0, 2.6 * len(names) + 0.6), layout="constrained")
        axes = figure.subplots(len(names), len(RADII), squeeze=False, sharey=True)
        for line, (panel, name) in enumerate(names.items()):
            for column, c in enumerate(RADII):
                ax = axes[line, column]
                for (p, method, L, radius), runs in found.items():
                    if p != panel or method not in ("dcfw", "fw", "sfw") or L != 10.0 or radius != c:
                        continue
                    for kind, style in (("train", "-"), ("test", (0, (4, 1.5)))):
                        values = mean_curve(runs, f"{kind}_accuracy")
                        label = TITLES[method] if kind == "train" else None
                        ax.plot(
                            np.arange(1, len(values) + 1), values, color=_colours()[method], linestyle=style,
                            lw=1.4, label=label,
                        )  # fmt: skip
                ax.set_ylim(0.0, 1.02)
                ax.grid(True)
                if line == 0:
                    ax.set_title(f"c = {c:g}")
                if line == len(names) - 1:
                    ax.set_xlabel("epoch")
            axes[line, 0].set_ylabel(f"accuracy\n{name}", fontsize=8.5)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.suptitle("L = 10; solid: training, dashed: test; means over seeds", fontsize=10.5)
        return save(figure, folder, "radii")


def draw_inner(rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """Draw the inner steps of a tensor against epochs, with the two tolerances."""
    found = {
        key: runs for key, runs in groups(rows).items() if key[1] in ("dcfw", "dcfw-paper") and key[2] == 10.0
    }
    drawn = {key[0] for key in found}
    names = {panel: name for panel, name in short_names(rows).items() if panel in drawn}
    if not names:
        return []
    with drawing() as Figure:
        figure = Figure(figsize=(3.3 * len(names), 3.3), layout="constrained")
        axes = figure.subplots(1, len(names), squeeze=False)[0]
        for ax, (panel, name) in zip(axes, names.items(), strict=True):
            for (p, method, _, c), runs in found.items():
                if p != panel:
                    continue
                values = mean_curve(runs, "inner_steps")
                style = "-" if method == "dcfw" else (0, (4, 1.5))
                label = f"c = {c:g}" if method == "dcfw" else None
                colour = COLOURS[RADII.index(c)] if c in RADII else COLOURS[6]
                ax.plot(
                    np.arange(1, len(values) + 1), values, color=colour, linestyle=style, lw=1.4, label=label
                )
            low, high = ax.get_ylim()
            if high > 30.0 * max(low, 1.0):
                ax.set_yscale("log")
            else:
                ax.set_ylim(bottom=0.0)
            ax.set_title(name, fontsize=9.5)
            ax.set_xlabel("epoch")
            ax.grid(True)
        axes[0].set_ylabel("inner steps of a tensor, mean")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        title = "solid: tolerance relative to each step's first gap; dashed: the paper's"
        figure.suptitle(title, fontsize=9.5)
        return save(figure, folder, "inner_steps")
