"""The instances of QAPLIB in the data folder, with the best values known for them.

The folder may also contain the tables ``solutions.json`` ({name: {n, value, perm}}, counted from 0) and
``best_known.csv`` (columns name, best_known and status).  They and ``.sln`` files are checked.
"""

from __future__ import annotations

import csv
import difflib
import json
import math
import re
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import _validate, data
from dcfw.qap.instances import MARK, Instance, number_of, read_instance, read_solution, short
from dcfw.qap.objective import evaluate

TABLE = "best_known.csv"
STATUSES = ("optimal", "best_known")
NOT_IN_PAPER = frozenset({"tai10a", "tai10b"})  # in QAPLIB's archive but not on its web list


def load(name: str) -> Instance:
    """Return the QAPLIB instance ``name`` from the data folder, with the best value known for it.

    The folder is ``qaplib`` in the one named by the environment variable ``DCFW_DATA``, or in the cache
    folder, where ``dcfw-studies fetch qaplib`` puts it.  A file with the name of an instance of QAPLIB but
    other numbers gets no best value.

    Raises
    ------
    FileNotFoundError
        If there is no such data folder.
    KeyError
        If it has no instance of that name; the message lists similar names.
    ValueError
        If the file or an entry about its best value is damaged or inconsistent.

    Examples
    --------
    >>> load("nug12")  # doctest: +SKIP
    Instance('nug12', n=12, best=578, status='optimal')
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'nug12', got {type(name).__name__}")
    available = names()
    if name not in available:
        near = difflib.get_close_matches(name.lower(), available, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "dcfw.qap.names() lists them"
        if name.lower().endswith((".dat", ".sln")):
            hint = "name is an instance's name, not a file; to read a file use dcfw.qap.read(path)"
        raise _UnknownName(f"name {name!r} is not a QAPLIB instance in {data.find('qaplib')}: {hint}")
    file = data.find(f"qaplib/{name}.dat")
    instance = read_instance(file)
    best, status = _best_known(file, instance)
    permutation = _known_permutation(file.parent, instance)
    if permutation is not None:
        value = evaluate(instance.A, instance.B, permutation)
        if best is None or (value < best and not _same(value, best)):
            if status == "optimal":
                raise ValueError(
                    f"{file.parent / TABLE}: best_known of {name} is {short(best)} and said to be optimal, "
                    f"but the permutation beside it has the value {short(value)}; mend or delete the table"
                )
            best, status = value, "best_known"
    return replace(instance, best=best, status=status, permutation=permutation)


def names(paper: bool = False) -> list[str]:
    """Return the names of the instances in the data folder, by family and then by size.

    Parameters
    ----------
    paper : bool
        Only those of QAPLIB's web list, which the paper's study uses (134 when all are there).

    Examples
    --------
    >>> names(paper=True)[:2]  # doctest: +SKIP
    ['bur26a', 'bur26b']
    """
    paper = _validate.flag(paper, "paper")
    folder = data.find("qaplib")
    found = [file.stem for file in folder.glob("*.dat")]
    if paper:
        rows = _csv_rows(folder).items()
        listed = {name for name, row in rows if _field(folder / TABLE, row, "paper134") == "1"}
        known = listed if rows else shipped_best().keys() - NOT_IN_PAPER
        found = [name for name in found if name in known]
    return sorted(found, key=lambda name: re.sub(r"\d+", lambda digits: f"{int(digits[0]):09}", name))


@cache
def shipped_best() -> dict[str, tuple[int, str]]:
    text = resources.files("dcfw.qap").joinpath("best_known.json").read_text(encoding="utf-8")
    return {name: (int(value), str(status)) for name, (value, status) in json.loads(text).items()}


class _UnknownName(KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal: integers exactly, others up to rounding."""
    if type(one) is int and type(other) is int:
        return one == other
    try:
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # an integer beyond the floats
        return False


def _csv_rows(folder: Path) -> dict[str, dict[str, str | None]]:
    file = folder / TABLE
    if not file.is_file():
        return {}
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            return {_field(file, row, "name"): row for row in csv.DictReader(lines)}
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file} is not a table in CSV form ({error}); mend or delete it") from None


def _field(file: Path, row: dict[str, str | None], column: str) -> str:
    if column not in row:
        raise ValueError(f"{file}: the column {column!r} is missing")
    entry = row[column]
    if entry is None:
        raise ValueError(f"{file}: a row ends before its column {column!r}: {row.get('name')!r:.40}")
    return entry


def _best_known(file: Path, instance: Instance) -> tuple[int | float | None, str | None]:
    """Return best value and status from ``best_known.csv`` or the shipped table, for QAPLIB's data only."""
    from dcfw.qap.checksums import checksum, checksums

    table, name = file.with_name(TABLE), instance.name
    known = checksums().get(name)
    if known is not None and checksum(file.read_bytes().removeprefix(MARK)) != known:
        return None, None
    rows = _csv_rows(file.parent)
    if not rows:
        return shipped_best().get(name, (None, None))
    if name not in rows:
        return None, None
    row = rows[name]
    value, status = _field(table, row, "best_known"), _field(table, row, "status")
    best = number_of(value.encode())
    if best is None:
        raise ValueError(f"{table}: best_known of {name} must be a number, got {value!r:.40}")
    if status not in STATUSES:
        raise ValueError(f"{table}: status of {name} must be one of {STATUSES}, got {status!r:.40}")
    if "n" in row and number_of(_field(table, row, "n").encode()) != instance.n:
        raise ValueError(
            f"{table}: n of {name} is {row['n']!r:.40}, but {file.name} has n = {instance.n}; "
            "mend or delete the table"
        )
    return best, status


def _known_permutation(folder: Path, instance: Instance) -> np.ndarray | None:
    """Return a known good permutation: from ``solutions.json``, or from the ``.sln`` file and its inverse."""
    table, file = folder / "solutions.json", folder / f"{instance.name}.sln"
    if table.is_file():
        try:
            found = json.loads(table.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:  # of JSON, of UTF-8, of numbers beyond Python's digits
            raise ValueError(f"{table} is not JSON ({error}); mend or delete it") from None
        if not isinstance(found, dict):
            raise ValueError(f"{table} must hold an object with the names of instances; mend or delete it")
        if found.get(instance.name) is not None:
            return _stated_permutation(table, found[instance.name], instance)
    if not file.is_file():
        return None
    solution = read_solution(file)
    if solution.n != instance.n:
        raise ValueError(f"{file}: a permutation of {solution.n} for an instance of size {instance.n}")
    p = solution.permutation
    return min(p, np.argsort(p), key=lambda q: evaluate(instance.A, instance.B, q))


def _stated_permutation(table: Path, entry: Any, instance: Instance) -> np.ndarray:
    name, n = instance.name, instance.n
    if not isinstance(entry, dict) or "perm" not in entry:
        raise ValueError(f"{table}: the entry of {name} must be an object with the field 'perm'; mend it")
    perm = entry["perm"]
    whole = isinstance(perm, list) and len(perm) == n and all(type(i) is int for i in perm)
    if not whole or sorted(perm) != list(range(n)):
        raise ValueError(
            f"{table}: perm of {name} must be a permutation, a list of {n} integers from 0 to {n - 1}; "
            "mend or delete the table"
        )
    permutation = np.array(perm, dtype=np.int64)
    value = evaluate(instance.A, instance.B, permutation)
    for field, true in (("n", n), ("value", value)):
        stated = entry.get(field, true)
        number = type(stated) in (int, float)
        if not number or not _same(stated, true):
            shown = short(stated) if number else type(stated).__name__
            raise ValueError(
                f"{table}: {field} of {name} must be {true}, as {name}.dat has it, got {shown}; "
                "mend or delete the table"
            )
    return permutation
