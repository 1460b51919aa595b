"""The notebook display of results, functions and sets: a small table and a sparkline, with escaped text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

WIDTH, HEIGHT, COLOUR = 180.0, 32.0, "#2a8bc0"  # visible on light and dark pages


def table(title: str, rows: Mapping[str, Any], below: str = "") -> str:
    """Return a titled table of names and values, with an image below."""
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
    """Return a small SVG of positive values on a logarithmic scale, or "" for fewer than two."""
    from urllib.parse import quote

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
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH:g}' height='{HEIGHT + 4:g}'>"
        f"<polyline points='{points}' fill='none' stroke='{COLOUR}' stroke-width='1.5'/></svg>"
    )
    # As an image, since untrusted notebooks remove SVG elements.
    return f"<img src='data:image/svg+xml,{quote(svg)}' alt='{caption}'> {caption}"
