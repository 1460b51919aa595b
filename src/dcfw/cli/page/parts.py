"""The contents of a page as plain data: sections of text, cards, tables and charts.

Studies describe their results with these classes; :mod:`render` writes them as HTML and escapes all text.

>>> table = Table("Errors", ["method", Column("mean error", ".4f")], [["FW", 0.0138], ["DC-FW", 0.0085]])
>>> chart = Chart("Gap", "steps", "FW gap", [Series("FW", [1, 10], [1.0, 0.1])], y_scale="log")
>>> section = Section("Results", [Text("One run."), table, chart])
>>> section.count(Table), section.count(Chart)
(1, 1)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Scale: TypeAlias = Literal["linear", "log"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short statements."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Commands or code, shown verbatim."""

    text: str


@dataclass(frozen=True)
class Card:
    """A key figure: label, value, and a remark below it (often the published value)."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Cards:
    """Key figures side by side."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """A table cell with its own sort key (the text by default) and a heat between 0 and 1 as its colour."""

    text: str
    sort: float | str | None = None
    heat: float | None = None


def beyond_floats(value: Any) -> bool:
    """Return whether a value is an integer too large for a float."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


@dataclass(frozen=True)
class Column:
    """A table column: its title, and a format such as ``".3f"``, ``",d"`` or ``".1%"`` (None for text).

    >>> Column("error", ".2%").show(0.0138), Column("calls", ",d").show(None), Column("calls", ",d").show(2e4)
    ('1.38%', '', '20,000')
    """

    title: str
    spec: str | None = None

    @property
    def numeric(self) -> bool:
        return self.spec is not None

    def show(self, value: Any) -> str:
        """Return the text of a value, empty for None."""
        if value is None:
            return ""
        if self.spec is None or isinstance(value, str) or beyond_floats(value):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return "unknown" if math.isnan(value) else "∞" if value > 0 else "−∞"
        return format(int(value) if self.spec.endswith("d") else value, self.spec)


@dataclass(frozen=True)
class Table:
    """A table that readers can sort and filter.

    A string among ``columns`` is a text column; the first column names the rows.  Cells are values formatted
    by their column, or :class:`Cell`; None is empty.  ``note`` explains how the numbers were obtained.
    """

    caption: str
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def __post_init__(self) -> None:
        count = len(self.columns)
        for size in map(len, self.rows):
            if size != count:
                raise ValueError(f"table {self.caption!r} has {count} columns, and a row of {size} cells")


@dataclass(frozen=True)
class Series:
    """One line (or cloud of points) of a chart.

    Values that are not finite interrupt the line; ``labels`` name the points, ``low`` and ``high`` draw a
    band.  ``style`` selects colour, dashes and marker (by default the place in the chart), so that a method
    looks the same everywhere.  ``hidden`` lines appear when selected in the legend.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: int | None = None
    hidden: bool = False

    def __post_init__(self) -> None:
        for name in ("y", "labels", "low", "high"):
            size, wanted = len(getattr(self, name)), len(self.x)
            if size != wanted and (size or name == "y"):
                raise ValueError(f"series {self.name!r} has {wanted} values of x and {size} of {name}")


@dataclass(frozen=True)
class Chart:
    """A chart that readers can zoom, read off, and remove methods from.

    A step keeps its value until the next point; logarithmic axes omit values that are not positive.
    ``y_floor`` is the initial lower end of the vertical axis, where a line that drops to 0 on a logarithmic
    axis leaves the chart.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: Literal["line", "step", "scatter"] = "line"
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    caption: str = ""
    y_floor: float | None = None


@dataclass(frozen=True)
class Row:
    """Charts or tables side by side, where the screen is wide enough."""

    parts: Sequence[Chart | Table]


@dataclass(frozen=True)
class Picture:
    """An embedded image: ``data`` is the file, ``media`` its type (``image/png``, ...)."""

    data: bytes
    alt: str
    caption: str = ""
    media: str = "image/png"


Part: TypeAlias = Text | Bullets | Code | Cards | Table | Chart | Row | Picture


@dataclass(frozen=True)
class Section:
    """A heading with its parts and subsections; ``summary`` is for the top of the page."""

    title: str
    parts: Sequence[Part] = ()
    sections: Sequence[Section] = ()
    summary: str = ""

    def walk(self) -> Iterator[Part]:
        """Yield all parts of the section and its subsections, with the contents of rows."""
        for part in self.parts:
            yield from part.parts if isinstance(part, Row) else [part]
        for section in self.sections:
            yield from section.walk()

    def count(self, kind: type) -> int:
        return sum(isinstance(part, kind) for part in self.walk())
