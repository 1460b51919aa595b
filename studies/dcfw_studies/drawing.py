"""The style of the figures of all studies, and their files.

Matplotlib is imported when a figure is drawn, and its global state is neither used nor changed.  The colours
are those of Okabe and Ito, which are distinct for any kind of colour vision.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dcfw.cli.page.parts import Chart, Table
from dcfw.plots import COLOURS, LINES

FEW = 8  # up to this many places on a logarithmic axis each have a label
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")

SETTINGS = {
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8.5, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "figure.dpi": 100,
    "svg.hashsalt": "dcfw",  # the same figure gives the same SVG file
}  # fmt: skip


@contextlib.contextmanager
def drawing() -> Iterator[Any]:
    """Yield Matplotlib's class of figures without a screen, under these settings."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'figures need Matplotlib: pip install "dcfw[plots]", or ask for the report without figures'
        ) from error
    # From the defaults rather than the user's style sheet: the files are the same everywhere.
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "backend": "agg", **SETTINGS}):
        yield Figure


def save(figure: Any, folder: Path, name: str) -> list[str]:
    """Write ``figure`` as PNG and SVG into ``folder`` and return the names of the two files."""
    with drawing():
        figure.savefig(folder / f"{name}.png", dpi=180, facecolor="white")
        figure.savefig(folder / f"{name}.svg", facecolor="white", metadata={"Date": None})
    return [f"{name}.png", f"{name}.svg"]


def draw(panels: Sequence[Chart | Table], folder: Path, name: str) -> list[str]:
    """Draw charts, or tables with heat, side by side; write PNG and SVG and return the names of the files."""
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    lines = -(-len(panels) // columns)
    named = any(series.labels for panel in panels if isinstance(panel, Chart) for series in panel.series)
    size = (13.0, 4.2) if named else ((3.9 if columns > 2 else 5.2) * columns, 3.3 * lines + 0.5)
    with drawing() as figure_class:
        figure = figure_class(figsize=size, layout="constrained")
        grid = list(figure.subplots(lines, columns, squeeze=False).flat)
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid, panels, strict=False):
            if isinstance(panel, Chart):
                _draw_chart(axes, panel)
                found = zip(*axes.get_legend_handles_labels(), strict=True)
                handles |= {label: handle for handle, label in found if label not in handles}
            else:
                _draw_heat(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        if handles:
            place = {"loc": "outside lower center", "ncols": min(len(handles), 5), "frameon": False}
            figure.legend(handles.values(), handles, **place)
        return save(figure, folder, name)


def _draw_chart(axes: Any, chart: Chart) -> None:
    axes.set_xscale(chart.x_scale)
    axes.set_yscale(chart.y_scale)
    for place, series in enumerate(chart.series):
        if series.hidden:
            continue
        number = place if series.style is None else series.style
        look = {"color": COLOURS[number % len(COLOURS)], "label": series.name}
        if chart.kind == "scatter":
            axes.plot(series.x, series.y, MARKERS[number % len(MARKERS)], markersize=5, alpha=0.8, **look)
            if series.labels:
                axes.set_xticks(series.x, series.labels, rotation=90, fontsize=5.5)
                axes.set_xlim(0, max(series.x) + 1)
        else:
            line = LINES[number % len(LINES)]
            steps = {"drawstyle": "steps-post"} if chart.kind == "step" else {}
            axes.plot(series.x, series.y, linestyle=line, linewidth=1.5, **steps, **look)
        if len(series.low):
            axes.fill_between(series.x, series.low, series.high, color=look["color"], alpha=0.15, lw=0)
    places = sorted({x for series in chart.series for x in series.x})
    # Else a short axis has labels such as 3 x 10^0; the places of a scatter may be too close to each other.
    if chart.x_scale == "log" and chart.kind != "scatter" and len(places) <= FEW:
        axes.set_xticks(places, [f"{x:g}" for x in places])
        axes.set_xticks([], minor=True)
    if chart.y_floor is not None:
        axes.set_ylim(bottom=chart.y_floor)
    axes.set_title(textwrap.fill(chart.title, 40))
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.grid(True)


def _draw_heat(axes: Any, table: Table) -> None:
    """Draw a table whose cells have a heat; the first column names the rows."""
    cells = [list(row[1:]) for row in table.rows]
    names = [str(getattr(column, "title", column)) for column in table.columns[1:]]
    heat: list[list[Any]] = [[getattr(cell, "heat", None) for cell in row] for row in cells]
    shades = [[float("nan") if h is None else h for h in row] for row in heat]
    axes.imshow(shades, cmap="viridis", vmin=0.0, vmax=1.0)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            text = "no rows" if cell is None else getattr(cell, "text", cell)
            white = heat[i][j] is not None and heat[i][j] < 0.5
            axes.text(j, i, text, ha="center", va="center", fontsize=7.5, color="w" if white else "k")
    axes.set_xticks(range(len(names)), [name.replace(" (", "\n(") for name in names])
    axes.set_yticks(range(len(cells)), [row[0] for row in table.rows])
    axes.set_title(table.caption)
    axes.tick_params(length=0)
