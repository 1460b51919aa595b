"""Parts of a page as HTML.

For safety all text passes through :func:`escape` into markup, and data for the script through
:func:`embedded_json`, which writes no character that could end a script element.  No ``style`` or ``on...``
attribute is written: the page's policy would ignore it.

The script adds what needs it (sorting, filtering, charts), so that without it tables are whole and charts
point to their numbers.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from dcfw.cli.page import parts
from dcfw.cli.page.parts import Chart, Column, Section, beyond_floats

HEAT_STEPS = 10  # the style sheet has the classes heat-0 to heat-10
DIGITS = 6  # significant digits of the numbers in charts


def embedded_json(value: Any) -> str:
    r"""Return JSON that is safe inside a script element for any strings.

    >>> embedded_json({"name": "</script><img>"})
    '{"name":"\\u003c/script\\u003e\\u003cimg\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    # U+2028 and U+2029 are escaped by json.dumps already, like everything beyond ASCII.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def numbers(values: Sequence[float]) -> list[float | int | None]:
    """Return numbers for JSON: rounded for a drawing, None for those that are not finite.

    >>> numbers([1, 2.0, 1 / 3, float("nan")])
    [1, 2, 0.333333, None]
    """
    result: list[float | int | None] = []
    for value in np.asarray([None if beyond_floats(v) else v for v in values], dtype=float):
        if not math.isfinite(value):
            result.append(None)
        elif value == int(value) and abs(value) < 1e15:
            result.append(int(value))
        else:
            result.append(float(f"{value:.{DIGITS}g}"))
    return result


class Renderer:
    """Writes parts as HTML, with unique ids.

    >>> Renderer().part(parts.Text("a < b"))
    '<p>a &lt; b</p>'
    """

    def __init__(self) -> None:
        self._count = 0

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    def part(self, part: parts.Part) -> str:
        if isinstance(part, parts.Text):
            return f"<p>{escape(part.text)}</p>"
        if isinstance(part, parts.Bullets):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in part.items) + "</ul>"
        if isinstance(part, parts.Code):
            return f'<pre tabindex="0"><code>{escape(part.text)}</code></pre>'
        if isinstance(part, parts.Cards):
            return cards(part)
        if isinstance(part, parts.Table):
            return self._table(part)
        if isinstance(part, Chart):
            return self._chart(part)
        if isinstance(part, parts.Row):
            thirds = " thirds" if len(part.parts) == 3 else ""
            return f'<div class="row{thirds}">' + "".join(map(self.part, part.parts)) + "</div>"
        if isinstance(part, parts.Picture):
            return picture(part)
        raise TypeError(f"a section cannot hold a {type(part).__name__}")

    def section(self, section: Section, anchor: str, level: int = 2) -> str:
        """Return a section with all below it; ``anchor`` is its id."""
        # No label: studies may share section names, and landmarks must have unique labels.
        lines = ["<section>", f'<h{level} id="{anchor}">{escape(section.title)}</h{level}>']
        lines += map(self.part, section.parts)
        for below, inner in zip(section.sections, anchors(section.sections, anchor), strict=True):
            lines.append(self.section(below, inner, min(level + 1, 6)))
        return "\n".join([*lines, "</section>"])

    def _table(self, table: parts.Table) -> str:
        name = self._id("table")
        columns = [c if isinstance(c, Column) else Column(c) for c in table.columns]
        head = "".join(
            f'<th scope="col"{" class=number" if c.numeric else ""}>{escape(c.title)}</th>' for c in columns
        )
        body = "\n".join(
            f"<tr>{''.join(_cell(c, row[k], k == 0) for k, c in enumerate(columns))}</tr>"
            for row in table.rows
        )
        return (
            f'<figure class="table"><figcaption><strong id="{name}">{escape(table.caption)}</strong>'
            f"{_note(table.note)}</figcaption>"
            f'<div class="scroll" role="group" aria-labelledby="{name}" tabindex="0">'
            f'<table aria-labelledby="{name}"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
            "</div></figure>"
        )

    def _chart(self, chart: Chart) -> str:
        name = self._id("chart")
        data = {
            "kind": chart.kind,
            "title": chart.title,
            "alt": alternative(chart),
            "x": {"label": chart.x_label, "scale": chart.x_scale},
            "y": {"label": chart.y_label, "scale": chart.y_scale, "floor": chart.y_floor},
            "series": [
                {
                    "name": s.name,
                    "style": place if s.style is None else s.style,
                    "x": numbers(s.x),
                    "y": numbers(s.y),
                    **({"hidden": True} if s.hidden else {}),
                    **({"labels": list(s.labels)} if len(s.labels) else {}),
                    **({"low": numbers(s.low), "high": numbers(s.high)} if len(s.low) else {}),
                }
                for place, s in enumerate(chart.series)
            ],
        }
        return (
            f'<figure class="chart" id="{name}"><figcaption><strong>{escape(chart.title)}</strong>'
            f"{_note(chart.caption)}</figcaption>"
            f'<script type="application/json">{embedded_json(data)}</script>'
            f'<noscript><p class="note">{escape(alternative(chart))} Drawing it needs JavaScript.</p>'
            "</noscript></figure>"
        )


def _note(text: str) -> str:
    return f' <span class="note">{escape(text)}</span>' if text else ""


def _cell(column: Column, value: Any, first: bool) -> str:
    cell = value
    if not isinstance(value, parts.Cell):
        cell = parts.Cell(column.show(value), _sort_key(column, value))
    classes = ["number"] if column.numeric else []
    if cell.heat is not None:
        classes.append(f"heat-{round(HEAT_STEPS * min(max(cell.heat, 0.0), 1.0))}")
    attributes = f' class="{" ".join(classes)}"' if classes else ""
    if cell.sort is not None:
        attributes += f' data-sort="{escape(str(cell.sort))}"'
    tag = "th" if first else "td"
    return f"<{tag}{' scope=row' if first else ''}{attributes}>{escape(cell.text)}</{tag}>"


def _sort_key(column: Column, value: Any) -> float | str | None:
    """Return the exact number behind a formatted one; text sorts as it is."""
    if not column.numeric or value is None or isinstance(value, str) or beyond_floats(value):
        return None
    return float(f"{float(value):.12g}")


def cards(part: parts.Cards) -> str:
    """Return key figures as a list of terms and values."""
    entries = "".join(
        f"<div><dt>{escape(card.label)}</dt><dd>{escape(card.value)}"
        + (f"<small>{escape(card.note)}</small>" if card.note else "")
        + "</dd></div>"
        for card in part.cards
    )
    return f'<dl class="cards">{entries}</dl>'


def picture(part: parts.Picture) -> str:
    """Return an image with its bytes embedded."""
    data = base64.b64encode(part.data).decode("ascii")
    caption = f"<figcaption>{_note(part.caption)}</figcaption>" if part.caption else ""
    source = f"data:{escape(part.media)};base64,{data}"
    return f'<figure class="picture"><img src="{source}" alt="{escape(part.alt)}">{caption}</figure>'


def alternative(chart: Chart) -> str:
    """Return a description of a chart: its axes, and the ends of each line.

    >>> from dcfw.cli.page.parts import Series
    >>> alternative(Chart("Gap", "steps", "FW gap", [Series("FW", [1, 10], [1.0, 0.1])], y_scale="log"))
    'Gap: FW gap (log scale) against steps. FW: 2 points, FW gap from 1 to 0.1.'
    """
    axes = [
        f"{label} (log scale)" if scale == "log" else label
        for label, scale in ((chart.y_label, chart.y_scale), (chart.x_label, chart.x_scale))
    ]
    return " ".join([f"{chart.title}: {axes[0]} against {axes[1]}.", *_lines_in_words(chart)])


def _lines_in_words(chart: Chart) -> Iterator[str]:
    for series in chart.series:
        finite = [v for v in numbers(series.y) if v is not None]
        count = f"{len(finite)} point{'' if len(finite) == 1 else 's'}"
        if not finite:
            yield f"{series.name}: no points."
        elif chart.kind == "scatter":
            yield f"{series.name}: {count}, {chart.y_label} between {min(finite):.3g} and {max(finite):.3g}."
        else:
            yield f"{series.name}: {count}, {chart.y_label} from {finite[0]:.3g} to {finite[-1]:.3g}."


def anchors(sections: Sequence[Section], prefix: str = "s") -> list[str]:
    """Return an id for each section by its place."""
    return [f"{prefix}-{k}" for k in range(1, len(sections) + 1)]
