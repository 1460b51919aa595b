"""The CSV files of reports: shortening repeated columns, and reading untrusted files into a store."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dcfw_studies.records import encode_result

if TYPE_CHECKING:
    from dcfw_studies.store import Store
    from dcfw_studies.study import Task

ACTIVE = tuple("=+@-\t\r")  # the first characters of spreadsheet formulas
SAME = "same"  # in the column `versions`: as in the row above
DIGESTS = ("text",)  # columns of checksums, which may look like numbers
LARGEST = 64 * 2**20  # bytes of a table that is read: thirty times the size of the largest report
NUMBER = re.compile(
    r"[+-]?([0-9]{1,18}|[0-9]{1,400}\.[0-9]{0,400}|[0-9]\.?[0-9]{0,20}e[+-]?[0-9]{1,3}|inf|nan)",
    re.IGNORECASE,
)
"""Numbers as reports have them; integers fit into 64 bits."""


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
    """Return a cell that no spreadsheet takes for a formula: such a string gets an apostrophe in front.

    >>> inert("=cmd()"), inert("-1.5"), inert(-1.5), inert("plain")
    ("'=cmd()", '-1.5', -1.5, 'plain')
    """
    if not isinstance(value, str) or value.lstrip("'")[:1] not in ACTIVE:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _active(cell: str) -> str:
    """Return a cell without the apostrophe of :func:`inert`."""
    return cell[1:] if cell[:1] == "'" and cell.lstrip("'")[:1] in ACTIVE else cell


def _check_number(cell: str) -> None:
    """Raise if Python would read a cell as a number that no report writes, or that a float cannot hold."""
    try:
        size = abs(float(cell))
    except ValueError:
        return
    if not NUMBER.fullmatch(cell) or (math.isinf(size) and "n" not in cell.lower()):
        raise ValueError(f"{cell[:40]!r} is no number that a report has")


def read_table(path: str | os.PathLike[str], needed: Sequence[str]) -> list[dict[str, str]]:
    """Return the lines of a CSV file that has the ``needed`` columns; an empty cell is an empty string.

    Every line must have as many cells as the header, and the last one an end, so that cut files are refused.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
        raise ValueError(f"{path} is no file, or has more than {LARGEST // 2**20} MB: not read")
    found: list[list[str]] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            text = file.read()
        for cells in csv.reader(io.StringIO(text, newline=""), strict=True):
            if found and cells and len(cells) != len(found[0]):
                many = "more" if len(cells) > len(found[0]) else "fewer"
                raise ValueError(f"{path}, row {len(found) + 1}: {many} cells than the header has")
            found.append(cells)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a CSV file (after row {len(found)}: {error})") from None
    while found and not found[-1]:
        found.pop()
    if [] in found:
        raise ValueError(f"{path}, row {found.index([]) + 1}: an empty line")
    header = [_active(name) for name in found[0]] if found else []
    missing = [repr(name) for name in needed if name not in header]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}: is it a file of a report?")
    twice = [name for number, name in enumerate(header) if name in header[:number]]
    if twice:
        raise ValueError(f"{path} has the column {twice[0][:40]!r} twice")
    if not text.endswith(("\n", "\r")):
        raise ValueError(f"{path}, row {len(found)}: its end is missing; was the file cut?")
    lines, above = [], ""
    for number, cells in enumerate(found[1:], 2):
        with naming(path, number):
            for name, cell in zip(header, cells, strict=True):
                if name not in DIGESTS:
                    _check_number(cell)
        line = dict(zip(header, map(_active, cells), strict=True))
        if line.get("versions") == SAME:
            line["versions"] = above
        above = line.get("versions", "")
        lines.append(line)
    return lines


@contextlib.contextmanager
def naming(path: str | os.PathLike[str], number: int) -> Iterator[None]:
    """Name the row of a file in errors about its values (the header is row 1)."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path}, row {number}: nothing in the column {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}, row {number}: {error}") from None


def read_versions(text: str) -> dict[str, str]:
    """Return the software versions in a cell; none for an older report without them."""
    try:
        found = json.loads(text) if text else {}
    except RecursionError as error:
        raise ValueError(f"versions must be an object of texts ({error})") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"versions must be an object of texts, got {text:.40}")
    return found


def numbers(line: Mapping[str, str], without: Collection[str], counts: Collection[str]) -> dict[str, Any]:
    """Return the cells of a line, except some, as numbers (integers for ``counts``), None where empty."""
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
    """Store the task and the result that ``row`` makes of each line; return how many were new.

    Nothing is stored if a line cannot be used.  Start and versions may be missing in a file.
    """
    found = []
    rows: dict[str, int] = {}
    for number, line in enumerate(read_table(path, needed), 2):
        with naming(path, number):
            started, versions = line.pop("started", ""), read_versions(line.pop("versions", ""))
            task, result = row(line)
            if result.get("seconds") is None:
                raise KeyError("seconds")
            encode_result(task, result)  # raises for this row what a store would refuse
            if rows.setdefault(task.key, number) != number:
                raise ValueError(f"the run of row {rows[task.key]} again")
            found.append((task, result, result["seconds"], started, versions))
    return store.finish_all(found)
