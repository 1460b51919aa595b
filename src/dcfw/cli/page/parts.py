"""What a page is made of: sections of text, cards, tables and charts, as plain data.

A study describes what it wants to show with these classes and knows nothing of HTML; :mod:`render` turns
them into a page.  Every text here is plain text: it is escaped when it is written, whatever it contains.

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
from dataclasses import dataclass, field
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
    """Commands or code, shown as they are."""

    text: str


@dataclass(frozen=True)
class Card:
    """A key figure: what it is, its value, and a remark below it (often the published value)."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Cards:
    """Key figures side by side."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """A cell of a table that needs more than its column says.

    Parameters
    ----------
    text : str
        What is shown.
    sort : float or str, optional
        What the column is sorted by; the text by default.
    heat : float, optional
        Between 0 and 1: how strongly the cell is coloured.
    """

    text: str
    sort: float | str | None = None
    heat: float | None = None


def beyond_floats(value: Any) -> bool:
    """Tell whether a value is an integer too large for a float, with which nothing can be computed."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, and for numbers the format of its values.

    Parameters
    ----------
    title : str
        Its head.
    spec : str, optional
        A format of Python for numbers, such as ``".3f"``, ``",d"`` or ``".1%"``.  None means text.

    Examples
    --------
    >>> Column("error", ".2%").show(0.0138)
    '1.38%'
    >>> Column("calls", ",d").show(None), Column("calls", ",d").show(20000.0)
    ('', '20,000')
    """

    title: str
    spec: str | None = None

    @property
    def numeric(self) -> bool:
        return self.spec is not None

    def show(self, value: Any) -> str:
        """Return the text of a value; nothing for None."""
        if value is None:
            return ""
        if self.spec is None or isinstance(value, str):
            return str(value)
        if beyond_floats(value):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return "unknown" if math.isnan(value) else "∞" if value > 0 else "−∞"
        return format(int(value) if self.spec.endswith("d") else value, self.spec)


@dataclass(frozen=True)
class Table:
    """A table that readers can sort and filter.

    Parameters
    ----------
    caption : str
        What the table shows, in a few words.
    columns : sequence of Column or str
        A string is a column of text.  The first column names the rows.
    rows : sequence of sequences
        Values as the columns format them, or :class:`Cell`.  None is an empty cell.
    note : str
        How the numbers were made: protocol, seeds, on how many runs they stand.
    """

    caption: str
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.caption!r} has {len(self.columns)} columns, and a row of {len(row)} cells"
                )


@dataclass(frozen=True)
class Series:
    """One line (or cloud of points) of a chart.

    Parameters
    ----------
    name : str
        Its entry in the legend.
    x, y : sequences of float
        The points; a value that is not finite interrupts the line.
    labels : sequence of str, optional
        A name for each point, shown when a reader points at it.
    low, high : sequences of float, optional
        A band around the line.
    style : int, optional
        Which colour, dash pattern and marker; by default the place of the series in its chart.  Give the
        same number to the same method in all charts of a study.
    hidden : bool
        Not shown until a reader asks for it in the legend.
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
            entry = getattr(self, name)
            if len(entry) != len(self.x) and (len(entry) or name == "y"):
                raise ValueError(
                    f"series {self.name!r} has {len(self.x)} values of x and {len(entry)} of {name}"
                )


@dataclass(frozen=True)
class Chart:
    """A chart that readers can zoom, read off, and take methods out of.

    Parameters
    ----------
    title, x_label, y_label : str
        What is shown, and the axes.
    series : sequence of Series
        What is drawn; a value that is not positive is left out on a logarithmic axis.
    kind : {"line", "step", "scatter"}
        How points are joined; a step keeps its value until the next point.
    x_scale, y_scale : {"linear", "log"}
        The axes.
    caption : str
        How the numbers were made.
    y_floor : float, optional
        Where the vertical axis ends at first, if a few values far below would flatten all others.
        On a logarithmic axis a line that drops to 0 then leaves the chart; without a floor it ends before.
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
    """Charts or tables that stand side by side where the screen is wide enough."""

    parts: Sequence[Chart | Table]


@dataclass(frozen=True)
class Picture:
    """An image that is part of the page: ``data`` is the file, ``media`` its type (``image/png``, ...)."""

    data: bytes
    alt: str
    caption: str = ""
    media: str = "image/png"


Part: TypeAlias = Text | Bullets | Code | Cards | Table | Chart | Row | Picture


@dataclass(frozen=True)
class Section:
    """A section with its parts and the sections below it.

    Parameters
    ----------
    title : str
        Its heading, and its entry in the list of contents.
    parts : sequence
        Text, Bullets, Code, Cards, Table, Chart, Row or Picture.
    sections : sequence of Section
        What stands below it.
    summary : str
        One or two sentences for the top of the page: what the reader should take away.
    """

    title: str
    parts: Sequence[Part] = ()
    sections: Sequence[Section] = field(default=())
    summary: str = ""

    def walk(self) -> Iterator[Part]:
        """Yield all parts of the section and of those below it; a row as what is in it."""
        for part in self.parts:
            if isinstance(part, Row):
                yield from part.parts
            else:
                yield part
        for section in self.sections:
            yield from section.walk()

    def count(self, kind: type) -> int:
        """Return how many parts of a kind there are."""
        return sum(isinstance(part, kind) for part in self.walk())
