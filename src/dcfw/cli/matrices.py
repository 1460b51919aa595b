"""Matrices from CSV and TSV files with or without labels, and from NumPy, Matrix Market and Excel files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw.qap.labels import check_order
from dcfw.qap.objective import square

SUFFIXES = (".csv", ".tsv", ".txt", ".npy", ".npz", ".mtx", ".xlsx", ".xls")


class Labelled(NamedTuple):
    """A square matrix, and the names of its rows if the file has them."""

    values: Any
    labels: list[str] | None


def read_matrix(path: Path, blank: str | None = None) -> Labelled:
    """Return the square matrix in a file, whose suffix determines the format.

    Empty cells are refused unless ``blank`` is their value.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "flow.csv"
    >>> _ = file.write_text(",desk,door\\ndesk,0,3\\ndoor,1,0\\n")
    >>> read_matrix(file)
    Labelled(values=array([[0, 3],
           [1, 0]]), labels=['desk', 'door'])
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} must be a matrix in one of the formats {', '.join(SUFFIXES)}")
    if suffix in (".npy", ".npz", ".mtx"):
        found = Labelled(_binary(path, suffix), None)
    else:
        cells = _cells(path) if suffix in (".csv", ".tsv", ".txt") else _sheet(path)
        found = _from_cells(path, cells, blank)
    shape = found.values.shape
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"{path} must hold a square matrix, got shape {shape}")
    try:
        return Labelled(square(found.values, str(path)), found.labels)
    except TypeError as error:  # complex numbers or text: wrong in the file, not in the program
        raise ValueError(str(error)) from None


def _cells(path: Path) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8: save it as CSV UTF-8") from None
    line = text.partition("\n")[0]
    delimiter = next((mark for mark in (";", "\t", ",") if mark in line), None)
    if delimiter is None:
        return [words for words in map(str.split, text.splitlines()) if words]
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:  # such as a quotation mark without its counterpart
        raise ValueError(f"{path} is not a table: {error}") from None
    rows = [row for row in lines if any(map(str.strip, row))]
    if delimiter == ",":
        return rows
    points = [[(cell, cell.replace(",", ".", 1)) for cell in row] for row in rows]  # 1,5 is 1.5
    return [[other if _is_number(other) else cell for cell, other in row] for row in points]


def _sheet(path: Path) -> list[list[str]]:
    try:
        import pandas
    except ImportError:
        raise ModuleNotFoundError(f"{path}: Excel files need pandas: pip install pandas openpyxl") from None
    table = pandas.read_excel(path, header=None, dtype=str).fillna("")  # the empty cells
    return [[str(cell) for cell in row] for row in table.values]


def _binary(path: Path, suffix: str) -> Any:
    if suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if suffix == ".mtx":
        from scipy.io import mmread

        return mmread(path)
    with np.load(path, allow_pickle=False) as archive:
        if "indptr" in archive:
            from scipy.sparse import load_npz

            return load_npz(path)
        if len(archive.files) != 1:
            raise ValueError(f"{path} must hold one array, got {', '.join(archive.files)}")
        return archive[archive.files[0]]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python accepts between digits


def _is_text(cell: str) -> bool:
    return bool(cell.strip()) and not _is_number(cell)


def _named(path: Path, cells: Sequence[Sequence[str]]) -> tuple[bool, bool]:
    """Return whether the first row and the first column hold names: text, not only numbers and blanks."""
    corner = cells[0][0]
    header = any(map(_is_text, cells[0][1:]))
    names = any(_is_text(row[0]) for row in cells[header:])
    if header and names and _is_number(corner):  # text among the data
        return False, False
    row, column = [[cell.strip() for cell in line] for line in (cells[0][1:], [r[0] for r in cells[1:]])]
    if not header and not _is_number(corner) and row and row == column:
        counts = [[str(i) for i in range(k, k + len(row))] for k in (0, 1)]
        if row in counts or all(cell.strip() for line in cells[1:] for cell in line):
            raise ValueError(
                f"{path}: the first row and column look like numbers of rows: leave them out (in pandas "
                "to_csv(header=False, index=False)), or write a number into the first cell if they are data"
            )
    return header, names


def _different(path: Path, names: list[str]) -> list[str]:
    """Return names without spaces around them after checking that no two are equal."""
    names = [name.strip() for name in names]
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise ValueError(f"{path} has the name {twice!r} twice: every row needs a name of its own")
    return names


def _from_cells(path: Path, cells: Sequence[Sequence[str]], blank: str | None) -> Labelled:
    """Return the numbers of a table without a first row or a first column of names.

    Columns with the names of the rows in another order are put into the order of the rows.
    """
    if not cells:
        raise ValueError(f"{path} is empty")
    header, names = _named(path, cells)
    body = cells[header:]
    labels = _different(path, [row[0] for row in body]) if names else None
    order = None
    corner = len(cells[0]) - len(body)
    if header and corner in (0, names):
        columns = _different(path, list(cells[0][corner:]))
        if labels is None:
            labels = columns
        if sorted(labels) != sorted(columns):
            check_order(labels, columns, str(path))
        order = [columns.index(label) for label in labels]
    if blank is not None:
        body = [[*row[:names], *(cell if cell.strip() else blank for cell in row[names:])] for row in body]
    values = np.array(_numbers(path, body, names, 2 if header else 1))
    if order is not None and values.shape == (len(order),) * 2:
        values = values[:, order]
    whole = values.astype(np.int64) if np.all(np.abs(values) < 2.0**53) else values
    return Labelled(whole if np.array_equal(whole, values) else values, labels)


def _numbers(path: Path, body: Sequence[Sequence[str]], names: bool, first: int) -> list[list[float]]:
    """Return the numbers of rows without their names; ``first`` is the number of the first row."""
    rows: list[list[float]] = []
    for number, row in enumerate(body, first):
        for column, cell in enumerate(row[names:], 1 + names):
            if not _is_number(cell):
                what = "an empty cell; write 0 there (or use --blanks-are-zero)"
                if cell.strip():
                    what = f"could not convert {cell!r} to a number"
                raise ValueError(f"{path}, row {number}, column {column}: {what}")
        rows.append([float(cell) for cell in row[names:]])
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(f"{path}, row {number}: {len(rows[-1])} numbers where row 1 has {len(rows[0])}")
    return rows
