"""How the figures of all studies look, and how they are written.

Matplotlib is imported when a figure is drawn, and its global state is neither used nor changed.  The colours
are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dcfw.plots import COLOURS, LINES, performance_profile

SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "figure.dpi": 100,
    # The same figure gives the same SVG file, so that a change in a repository is a change of the data.
    "svg.hashsalt": "dcfw",
}


@contextlib.contextmanager
def drawing() -> Iterator[Any]:
    """Give the class of figures that need no screen, under our settings."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'figures need Matplotlib: pip install "dcfw[plots]", or ask for the report without figures'
        ) from error
    # From the defaults, not from the user's style sheet: the files are to look the same everywhere.
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "backend": "agg", **SETTINGS}):
        yield Figure


def save(figure: Any, folder: Path, name: str) -> list[str]:
    """Write ``figure`` as PNG and SVG into ``folder`` and return the names of the two files."""
    with drawing():
        figure.savefig(folder / f"{name}.png", dpi=180, facecolor="white")
        figure.savefig(folder / f"{name}.svg", facecolor="white", metadata={"Date": None})
    return [f"{name}.png", f"{name}.svg"]


def draw_profiles(axes: Any, costs: Mapping[str, Sequence[float]], styles: Mapping[str, Any]) -> None:
    """Draw the performance profiles of Dolan and Moré on axes; styles: method -> (colour, line style)."""
    performance_profile(costs, ax=axes, styles=styles, legend=False)


__all__ = ["COLOURS", "LINES", "SETTINGS", "draw_profiles", "drawing", "save"]
