"""One report for every study: a folder with a README, figures, and files for programs.

A study NAME describes its results once, in ``dcfw_studies.NAME_report``: ``sections(store)`` returns texts,
tables and charts, ``files(store)`` the contents of further files by name.  Here the sections become Markdown,
in :mod:`dcfw_studies.pages` a page.  No date, path or machine is written: equal rows give equal files.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcfw.cli.page.parts import Bullets, Cards, Cell, Chart, Code, Column, Part, Picture, Row, Section, Table
from dcfw_studies.store import Store, StoreError, csv_text
from dcfw_studies.study import Study
from dcfw_studies.table_file import shortened


@dataclass(frozen=True)
class Figure(Row):
    """Charts, or tables with heat, drawn side by side into one file of a report."""

    file: str = ""


@dataclass(frozen=True)
class Drawn(Picture):
    """A picture with the name of its file in a report."""

    file: str = ""


class PageOnly(Section):
    """A section of the page only; a report has its numbers in a file."""


def table(caption: str, columns: Mapping[str, str | None], rows: Sequence[Sequence[Any]], note: str) -> Table:
    """Return a table from the titles and formats of its columns (blanks distinguish equal titles).

    >>> table("t", {"method": None, "error": ".1f"}, [["FW", 0.25]], "").columns[1].show(0.25)
    '0.2'
    """
    return Table(caption, [Column(title.strip(), spec) for title, spec in columns.items()], rows, note)


def how_to(study: str, options: str = "") -> Code:
    """Return the commands that run a study and write its report."""
    run = f"dcfw-studies reproduce {study} {options}".strip()
    return Code(f"{run}\ndcfw-studies report STORE --study {study} -o results/{study}")


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(1.0), duration(600.0), duration(9000.0)
    ('1.0 s', '10.0 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def json_text(value: Any, *, allow_nan: bool = True) -> str:
    return json.dumps(value, indent=2, allow_nan=allow_nan) + "\n"


def rows_csv(rows: Sequence[Mapping[str, Any]], without: Sequence[str] = ()) -> str:
    """Return rows as CSV, with the columns of all of them."""
    names = dict.fromkeys(name for row in rows for name in row if name not in without)
    return csv_text(shortened([{name: row.get(name, "") for name in names} for row in rows]))


def not_there(study: Study, store: Store) -> list[Table]:
    """Return the rows of a whole study that a store lacks, with the median time of similar rows."""
    done = store.finished_keys(study)
    missing = Counter(
        (str(task.settings.get("part", "")), task.dataset, task.method)
        for task in study.tasks
        if task.key not in done
    )
    seconds = defaultdict[tuple[str, str], list[float]](list)
    for row in store.rows(study.name):
        seconds[row.get("part", ""), row["dataset"]].append(row["seconds"])
    lines = []
    for (part, dataset, method), count in missing.items():
        like = seconds.get((part, dataset))
        each = duration(statistics.median(like)) if like else "not known"
        lines.append([part, dataset, method, count, each])
    note = f"{sum(missing.values())} of {len(study.tasks)} rows; the time is the median of rows of other "
    note += "methods in the same part, whatever their steps."
    columns = {"part": None, "data": None, "method": None, "rows": "d", "time of each": None}
    return [table("Rows of the whole study that are missing", columns, lines, note)] if lines else []


PathLike = str | os.PathLike[str]


def write_report(
    study: str, store: PathLike, output: PathLike, *, figures: bool = True, **options: Any
) -> list[Path]:
    """Write the report of a study's rows in ``store`` into the folder ``output`` and return its files.

    The store is only read, and may be growing.  Files of an older report are replaced.  ``figures`` needs
    Matplotlib; ``options`` are those of the study's ``files``, such as ``protocol``.
    """
    from dcfw_studies.drawing import draw
    from dcfw_studies.pages import provenance

    module = importlib.import_module(f"dcfw_studies.{study}_report")
    parameters = list(inspect.signature(module.files).parameters.values())[1:]
    options = {p.name: p.default for p in parameters} | options
    with Store(store, readonly=True) as opened:
        try:
            found = module.sections(opened, **options)
            files: dict[str, str] = module.files(opened, **options) if found else {}
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            if isinstance(error, StoreError):
                raise
            raise ValueError(
                f"{os.fspath(store)}: no report can be made of its rows of {study!r} "
                f"({type(error).__name__}: {error!s:.300}); are all of them ours?"
            ) from error
        if not found:
            raise ValueError(f"the store has no row of the study {study!r}: run it first")
        (top,) = found
        top = Section(top.title, top.parts, [*top.sections, provenance(opened, study)], top.summary)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    for part in _figures(top) if figures else []:
        if isinstance(part, Figure):
            drawn += draw(part.parts, folder, part.file)
        else:
            (folder / f"{part.file}.png").write_bytes(part.data)
            drawn.append(f"{part.file}.png")
    files = {**files, "README.md": markdown(top, drawn)}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    return [folder / name for name in [*files, *drawn]]


def _figures(section: Section) -> list[Figure | Drawn]:
    below = [part for inner in section.sections for part in _figures(inner)]
    return [part for part in section.parts if isinstance(part, Figure | Drawn)] + below


def markdown(section: Section, drawn: Sequence[str] = (), level: int = 1) -> str:
    """Return a section as Markdown, with the figures that were drawn.

    >>> print(markdown(Section("Errors", [Bullets(["one", "two"])])), end="")
    # Errors
    <BLANKLINE>
    - one
    - two
    """
    parts = [text for part in section.parts if (text := _markdown(part, drawn))]
    shown = [inner for inner in section.sections if not isinstance(inner, PageOnly)]
    below = [markdown(inner, drawn, level + 1).rstrip("\n") for inner in shown]
    return "\n\n".join([f"{'#' * level} {section.title}", *parts, *below]) + "\n"


def _markdown(part: Part, drawn: Sequence[str]) -> str:
    if isinstance(part, Figure | Drawn):
        if f"{part.file}.png" not in drawn:
            return ""
        if isinstance(part, Drawn):
            return f"![{part.alt}]({part.file}.png)"
        panels = [(p.title, p.caption) if isinstance(p, Chart) else (p.caption, p.note) for p in part.parts]
        notes = " ".join(dict.fromkeys(note for _, note in panels if note))
        titles = "; ".join(title for title, _ in panels)
        return f"![{titles}]({part.file}.png)" + (f"\n\n{notes}" if notes else "")
    write: Mapping[type, Callable[[Any], str]] = {
        Bullets: lambda p: "\n".join(f"- {item}" for item in p.items),
        Code: lambda p: f"```\n{p.text}\n```",
        Cards: lambda p: "\n".join(
            f"- {c.label}: {c.value}" + (f" ({c.note})" if c.note else "") for c in p.cards
        ),
        Table: _markdown_table,
        Row: lambda p: "\n\n".join(text for inner in p.parts if (text := _markdown(inner, drawn))),
        Chart: lambda p: "",
    }
    return write[type(part)](part) if type(part) in write else str(getattr(part, "text", ""))


def _markdown_table(part: Table) -> str:
    columns = [c if isinstance(c, Column) else Column(c) for c in part.columns]
    lines = [[c.title for c in columns], ["---:" if c.numeric else ":---" for c in columns]]
    for row in part.rows:
        cells = (
            cell.text if isinstance(cell, Cell) else column.show(cell)
            for column, cell in zip(columns, row, strict=True)
        )
        lines.append([cell.replace("|", r"\|") for cell in cells])
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"**{part.caption}.** {part.note}".rstrip() + f"\n\n{body}"
