"""The CSV files of reports: what is the same from row to row, and taking them back into a store.

Somebody may have edited a file, or never had it from us.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcfw_studies.store import Store
    from dcfw_studies.study import Task

ACTIVE = tuple("=+@-\t\r")
"""The first characters of spreadsheet formulas."""
SAME = "same"
"""In the column ``versions``: as in the row above."""


def shortened(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose ``versions`` are there only where they change; :func:`read_table` undoes it.

    >>> [row["versions"] for row in shortened([{"versions": {"numpy": "2"}}] * 3)]
    [{'numpy': '2'}, 'same', 'same']
    """
    found, above = [], None
    for row in rows:
        now = row.get("versions")
        found.append({**row, "versions": SAME} if now and now == above else dict(row))
        above = now
    return found


def inert(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: such a text gets an apostrophe in front.

    >>> inert("=cmd()"), inert("-1.5"), inert(-1.5), inert("plain")
    ("'=cmd()", '-1.5', -1.5, 'plain')
    """
    if not isinstance(value, str) or value[:1] not in ACTIVE or not value:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def read_table(path: str | os.PathLike[str], needed: Sequence[str]) -> list[dict[str, str]]:
    """Return the lines of a CSV file that has the ``needed`` columns; an empty cell is an empty text."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, restval="")
            lines = list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a CSV file ({error})") from None
    missing = [repr(name) for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}: is it a file of a report?")
    above = ""
    for number, line in enumerate(lines, 2):
        if None in line:
            raise ValueError(f"{path}, row {number}: more cells than the header has")
        line |= {name: cell[1:] for name, cell in line.items() if cell[:1] == "'" and cell[1:2] in ACTIVE}
        if line.get("versions") == SAME:
            line["versions"] = above
        above = line.get("versions", "")
    return lines


@contextlib.contextmanager
def naming(path: str | os.PathLike[str], number: int) -> Iterator[None]:
    """Name the row of a file in errors about its values (the header is row 1).

    >>> with naming("rows.csv", 7):
    ...     int("many")
    Traceback (most recent call last):
    ValueError: rows.csv, row 7: invalid literal for int() with base 10: 'many'
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path}, row {number}: nothing in the column {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}, row {number}: {error}") from None


def read_versions(text: str) -> dict[str, str]:
    """Return the software versions in a cell; none where an older report does not tell.

    >>> read_versions('{"numpy":"2.4.6"}'), read_versions("")
    ({'numpy': '2.4.6'}, {})
    """
    try:
        found = json.loads(text) if text else {}
    except RecursionError as error:
        raise ValueError(f"versions must be an object of texts ({error})") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"versions must be an object of texts, got {text:.40}")
    return found


def numbers(line: Mapping[str, str], without: Collection[str], counts: Collection[str]) -> dict[str, Any]:
    """Return the cells of a line but some as numbers, those of ``counts`` as integers; None where empty."""
    return {
        name: None if text == "" else int(text) if name in counts else float(text)
        for name, text in line.items()
        if name not in without
    }


def take_rows(
    store: Store,
    path: str | os.PathLike[str],
    needed: Sequence[str],
    row: Callable[[dict[str, str]], tuple[Task, dict[str, Any]]],
) -> int:
    """Put the task and the result that ``row`` makes of each line into a store; return how many were new.

    Nothing is stored if a line cannot be used.  Start and versions may be missing in a file.
    """
    found = []
    for number, line in enumerate(read_table(path, needed), 2):
        with naming(path, number):
            started, versions = line.pop("started", ""), read_versions(line.pop("versions", ""))
            task, result = row(line)
            if result.get("seconds") is None:
                raise KeyError("seconds")
            found.append((task, result, result["seconds"], started, versions))
    return store.finish_all(found)
