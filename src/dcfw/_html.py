"""What a notebook shows for results, functions and sets: a small table and a sparkline, all text escaped.

Colours are those of the page (``currentColor``), so that light and dark themes both work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

WIDTH, HEIGHT = 180.0, 32.0


def table(title: str, rows: Mapping[str, Any], below: str = "") -> str:
    """Return a titled table of names and values, with a picture below."""
    from html import escape

    style = "text-align:left;vertical-align:top"
    cells = "".join(
        f"<tr><th style='{style}'>{escape(name)}</th>"
        f"<td style='{style};white-space:pre-wrap'>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<div><b>{escape(title)}</b><table>{cells}</table>{below}</div>"


def rows_of(text: str) -> dict[str, str]:
    """Return the lines ``name: value`` of a printed result as a dictionary.

    >>> rows_of(" fun: 1.0\\n gap: 0  (at x)\\n      provided that L = 1")
    {'fun': '1.0', 'gap': '0  (at x)\\nprovided that L = 1'}
    """
    rows: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        if colon and " " not in name.strip():
            rows[name.strip()] = value.strip()
        elif rows:
            last = next(reversed(rows))
            rows[last] += f"\n{line.strip()}"
    return rows


def sparkline(values: Iterable[float], caption: str) -> str:
    """Return a small SVG of positive values on a logarithmic scale, empty where there are fewer than two."""
    heights = [math.log10(value) for value in values if 0.0 < value < math.inf]
    if len(heights) < 2:
        return ""
    every = max(1, len(heights) // 200)
    heights = [*heights[:-1:every], heights[-1]]
    low, span = min(heights), max(max(heights) - min(heights), 1e-9)
    points = " ".join(
        f"{WIDTH * i / (len(heights) - 1):.1f},{HEIGHT * (1 - (h - low) / span) + 2:.1f}"
        for i, h in enumerate(heights)
    )
    return (
        f"<svg width='{WIDTH:g}' height='{HEIGHT + 4:g}' role='img' aria-label='{caption}'>"
        f"<polyline points='{points}' fill='none' stroke='currentColor' stroke-width='1.5'/></svg> {caption}"
    )
