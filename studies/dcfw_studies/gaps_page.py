"""Figure 1 on a page: the three panels, how the gaps grow, and the tables of :mod:`.gaps_report`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from dcfw.cli.page.parts import Bullets, Chart, Code, Part, Picture, Row, Section, Series, Table, Text
from dcfw_studies import gaps
from dcfw_studies.gaps_report import RADII, circle_means, draw_levels, findings, select, tables
from dcfw_studies.store import Store

CAPTIONS = {
    "shape": "Range on circles of radius r around a stationary point, over L/2 r^2",
    "growth": "Exponent of the growth with the distance, near the point",
    "area": f"Area around the point where the measure is below {gaps.FLAT:.0%} of its largest value",
    "bounds": "Which measure bounds which",
}


def sections(store: Store) -> list[Section]:
    """Return the section of the study."""
    rows = select(store.rows("gaps"))
    if not rows:
        return []
    with tempfile.TemporaryDirectory() as folder:
        draw_levels(Path(folder))
        picture = (Path(folder) / "figure_1.png").read_bytes()
    charts = [
        Chart(
            f"gap_{name.upper()} near stationary points",
            "distance to the point",
            "mean over a circle",
            [
                Series(kind, RADII.tolist(), circle_means(name, kind), style=style)
                for style, kind in enumerate(gaps.STATIONARY)
            ],
            x_scale="log",
            y_scale="log",
        )
        for name in ("pgm", "ppm")
    ]
    found = findings(rows)
    parts: list[Part] = [
        Text(
            "phi(x) = sin(pi x1) cos(pi x2) on [-1, 1]^2 with L = pi^2. The sliding split linearises phi, "
            "and its gap (gap_PGM) looks the same at minima, saddles and maxima; the proximal split keeps "
            "phi, and its gap (gap_PPM) does not."
        ),
        Picture(picture, "level curves of phi, gap_PGM and gap_PPM", "Figure 1 of the paper, computed anew."),
        Bullets([text.replace("*", "") for text in found]),
        Row(charts),
        *(_table(name, lines) for name, lines in tables(rows).items()),
        Code("dcfw-studies reproduce gaps --store STORE"),
    ]
    summary = "gap_PPM is flatter at minima and sharper at saddles and maxima; gap_PGM tells none apart."
    return [Section("Figure 1: the gaps of two splits", parts, (), summary)]


def _table(name: str, lines: list[list[str]]) -> Table:
    header, *body = lines
    rows: list[list[Any]] = [list(line) for line in body]
    return Table(CAPTIONS[name], header, rows)
