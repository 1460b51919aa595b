"""Instances of the quadratic assignment problem and the files of QAPLIB that hold them.

A ``.dat`` file is a size n, then the n x n matrix A row by row, then B, all separated by white space:
line breaks mean nothing.  The value of a permutation p is sum_ij A[i, j] B[p(i), p(j)].

A ``.sln`` file is n, the value and a permutation, and is less reliable: most count from 1 and one from
0, some hold the inverse permutation, one states a wrong value.  :func:`read_solution` returns what is
written; :func:`load` checks it against the instance.

Two tables may lie beside the files of QAPLIB, ``solutions.json`` ({name: {n, value, perm}}, counted from 0)
and ``best_known.csv`` (columns name, best_known and status).  What they say is checked, too.

Examples
--------
>>> import tempfile, pathlib
>>> file = pathlib.Path(tempfile.mkdtemp()) / "tiny.dat"
>>> _ = file.write_text("2  0 3 3 0  0 5 5 0")
>>> instance = read(file)
>>> instance
Instance('tiny', n=2)
>>> instance.A
array([[0, 3],
       [3, 0]])
"""

from __future__ import annotations

import csv
import difflib
import json
import math
import os
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate, data
from dcfw._arrays import Array
from dcfw.qap.objective import evaluate

TABLE = "best_known.csv"
"""The table of best values that may lie beside the files."""
STATUSES = ("optimal", "best_known")
NOT_IN_PAPER = frozenset({"tai10a", "tai10b"})
"""In QAPLIB's archive but not on its web list, which is what the paper used."""
_MARK = b"\xef\xbb\xbf"  # what some editors put at the start of UTF-8


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A quadratic assignment problem: minimise sum_ij A[i, j] B[p(i), p(j)] over permutations p.

    Attributes
    ----------
    name : str
        Its name, such as ``"nug12"``.
    A, B : ndarray of shape (n, n)
        int64, or float64 when the data are not integers.
    n : int
        The size.
    best : int, float or None
        The best value known.
    permutation : ndarray or None
        A permutation, counted from 0, of value ``best`` or (rarely: tai100a) the best one at hand.
    status : str or None
        ``"optimal"`` when ``best`` is proven, ``"best_known"`` when it is not, None when it is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> Instance("pair", np.eye(2), np.eye(2), 2, best=2)
    Instance('pair', n=2, best=2)
    """

    name: str
    A: Array
    B: Array
    n: int
    best: int | float | None = None
    permutation: Array | None = None
    status: str | None = None

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best={self.best}"
        status = "" if self.status is None else f", status={self.status!r}"
        return f"Instance({self.name!r}, n={self.n}{best}{status})"


class Solution(NamedTuple):
    """What a ``.sln`` file says: the size, the value and the permutation, counted from 0, as written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dcfw import qap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "tiny.sln")
    ...     _ = file.write_text("3 10\\n2 3 1\\n")
    ...     qap.read_solution(file)
    Solution(n=3, value=10, permutation=array([1, 2, 0]))
    """

    n: int
    value: int | float
    permutation: np.ndarray


def read(path: str | os.PathLike[str]) -> Instance | Solution:
    """Read a QAPLIB file: an :class:`Instance` from ``.dat``, a :class:`Solution` from ``.sln``.

    Parameters
    ----------
    path : path
        A file whose name ends in ``.sln`` is read as a solution, any other as an instance.

    Raises
    ------
    ValueError
        When the file is empty, too short, too long, or holds something that is not a number; the
        message names the file, the line and what was expected.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tiny.sln"
    >>> _ = file.write_text("3 40  2 3 1")
    >>> read(file)
    Solution(n=3, value=40, permutation=array([1, 2, 0]))
    """
    path = _validate.path(path)
    if path.suffix.lower() == ".sln":
        return read_solution(path)
    return _read_instance(path)


def read_solution(path: str | os.PathLike[str]) -> Solution:
    """Read a ``.sln`` file: n, the value and the permutation as written, counted from 0.

    Whether the file counts from 1 (the rule) or from 0 is told by its entries.  Nothing tells whether it
    holds p or its inverse: evaluate both, as :func:`load` does.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "zero.sln"
    >>> _ = file.write_text("3 40  2 0 1")
    >>> read_solution(file).permutation
    array([2, 0, 1])
    """
    path = _validate.path(path)
    numbers = _numbers(path)
    n = _size(path, numbers, lambda n: 2 + n, "n, the value and n entries of a permutation")
    entries = numbers[2:]
    low = min(entries)
    if low not in (0, 1) or sorted(entries) != list(range(int(low), int(low) + n)):
        raise ValueError(
            f"{path.name}: the {n} numbers after the value are not a permutation of 1..{n} (or 0..{n - 1})"
        )
    return Solution(n, numbers[1], np.array(entries, dtype=np.int64) - int(low))


def load(name: str) -> Instance:
    """Return the QAPLIB instance ``name`` from the data folder, with the best value known for it.

    The folder is ``qaplib`` inside the one named by the environment variable ``DCFW_DATA``, or inside
    the cache folder, where ``dcfw fetch qaplib`` puts it.  A file with the name of an instance of QAPLIB but
    other numbers in it gets no best value of QAPLIB's.

    Raises
    ------
    FileNotFoundError
        When there is no such data folder.
    KeyError
        When it has no instance of that name; the message lists similar names.
    ValueError
        When the file, or what lies beside it about its best value, is damaged or does not fit; the message
        names the file and the field.

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
    instance = _read_instance(file)
    best, status = _best_known(file, instance)
    permutation = _known_permutation(file.parent, instance)
    if permutation is not None:
        value = evaluate(instance.A, instance.B, permutation)
        if best is None or (value < best and not _same(value, best)):
            if status == "optimal":
                raise ValueError(
                    f"{file.parent / TABLE}: best_known of {name} is {_short(best)} and said to be optimal, "
                    f"but the permutation beside it has the value {_short(value)}; mend or delete the table"
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
        listed = _csv_column(folder, "paper134")
        if listed:
            found = [name for name in found if listed.get(name) == "1"]
        else:
            found = [name for name in found if name in shipped_best() and name not in NOT_IN_PAPER]
    return sorted(found, key=_natural)


@cache
def shipped_best() -> dict[str, tuple[int, str]]:
    """Return the best values known of QAPLIB's instances, from the table shipped with the library."""
    text = resources.files("dcfw.qap").joinpath("best_known.json").read_text(encoding="utf-8")
    return {name: (int(value), str(status)) for name, (value, status) in json.loads(text).items()}


class _UnknownName(KeyError):
    """A KeyError whose message is shown as written, not quoted."""

    def __str__(self) -> str:
        return str(self.args[0])


def _natural(name: str) -> tuple[str, int, str]:
    """Sort key by letters, then number, then suffix: nug8 before nug12."""
    match = re.match(r"([a-zA-Z]*)(\d*)(.*)", name)
    assert match is not None
    return match[1], int(match[2] or 0), match[3]


def _read_instance(path: Path) -> Instance:
    """Read a ``.dat`` file."""
    numbers = _numbers(path)
    n = _size(path, numbers, lambda n: 1 + 2 * n * n, "n and two n x n matrices")
    try:
        entries = np.array(
            numbers[1:], dtype=np.int64 if all(type(x) is int for x in numbers) else np.float64
        )
    except OverflowError:
        raise ValueError(f"{path.name}: an entry does not fit into 64 bits; rescale the data") from None
    A, B = entries.reshape(2, n, n)
    return Instance(path.stem, A.copy(), B.copy(), n)


def _numbers(path: Path) -> list[Any]:
    """Return the numbers of a file: Python ints when all are integers, else a mix of ints and floats."""
    text = path.read_bytes().removeprefix(_MARK)
    tokens = text.split()
    if not tokens:
        raise ValueError(f"{path.name}: the file is empty; expected the size n first")
    try:
        if b"_" in text:  # Python reads 1_000 as a number, a data file never means it
            raise ValueError
        return [int(token) for token in tokens]
    except ValueError:
        pass
    numbers: list[Any] = []
    for at, line in enumerate(text.splitlines(), start=1):
        for token in line.split():
            number = _number(token)
            if number is None:
                shown = token[:20].decode("utf-8", "replace")
                raise ValueError(
                    f"{path.name}, line {at}: expected a finite number (number {len(numbers) + 1} of the "
                    f"file), got {shown!r}"
                )
            numbers.append(number)
    return numbers


def _number(token: bytes) -> int | float | None:
    """Return the finite number that ``token`` spells, or None."""
    if b"_" in token:
        return None
    for kind in (int, float):
        try:
            number = kind(token)
            return number if math.isfinite(number) else None
        except ValueError:
            continue
        except OverflowError:  # an integer beyond the floats
            return None
    return None


def _size(path: Path, numbers: list[Any], needed: Any, layout: str) -> int:
    """Return n after checking that the file holds just what an instance of that size needs.

    Nothing is allocated from the header's n: a wrong one can only fail this count.
    """
    n = numbers[0]
    if type(n) is not int or n < 1:
        raise ValueError(
            f"{path.name}: the first number must be the size n, an integer of at least 1, got {_short(n)}"
        )
    got = len(numbers)
    if n > got:  # before anything is computed from it: it may have thousands of digits
        raise ValueError(
            f"{path.name} is cut short: with n = {_short(n)} expected {layout}, found {got} numbers"
        )
    expected = needed(n)
    if got != expected:
        kind = "is cut short" if got < expected else "has trailing numbers"
        last = len(path.read_bytes().rstrip().splitlines())
        raise ValueError(
            f"{path.name} {kind}: with n = {n} expected {expected} numbers ({layout}), found {got} up to its "
            f"last line, {last}"
        )
    return n


def _short(number: Any) -> str:
    """Return a number for a message, with the middle left out if it is long."""
    text = str(number)
    return text if len(text) <= 30 else f"{text[:12]}... ({len(text)} characters)"


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same: integers exactly, others up to rounding."""
    if type(one) is int and type(other) is int:
        return one == other
    try:
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # an integer beyond the floats
        return False


def _csv_rows(folder: Path) -> dict[str, dict[str, str | None]]:
    """Return {instance: its row} of ``best_known.csv``, empty when there is no such file."""
    file = folder / TABLE
    if not file.is_file():
        return {}
    rows = {}
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                rows[_field(file, row, "name")] = row
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file} is not a table in CSV form ({error}); mend or delete it") from None
    return rows


def _field(file: Path, row: dict[str, str | None], column: str) -> str:
    """Return the entry of a row of ``best_known.csv``."""
    if column not in row:
        raise ValueError(f"{file}: the column {column!r} is missing")
    entry = row[column]
    if entry is None:
        raise ValueError(f"{file}: a row ends before its column {column!r}: {row.get('name')!r:.40}")
    return entry


def _csv_column(folder: Path, column: str) -> dict[str, str]:
    """Return {instance: entry} for one column of ``best_known.csv``, empty when there is no such file."""
    return {name: _field(folder / TABLE, row, column) for name, row in _csv_rows(folder).items()}


def _best_known(file: Path, instance: Instance) -> tuple[int | float | None, str | None]:
    """Return the best value and its status: from ``best_known.csv`` if it is there, else the shipped table.

    Both are about the instances of QAPLIB: only the numbers of a file tell that it is one of those.
    """
    from dcfw.fetch import checksum, checksums

    table, name = file.with_name(TABLE), instance.name
    known = checksums().get(name)
    if known is not None and checksum(file.read_bytes().removeprefix(_MARK)) != known:
        return None, None
    rows = _csv_rows(file.parent)
    if not rows:
        return shipped_best().get(name, (None, None))
    if name not in rows:
        return None, None
    row = rows[name]
    value, status = _field(table, row, "best_known"), _field(table, row, "status")
    best = _number(value.encode())
    if best is None:
        raise ValueError(f"{table}: best_known of {name} must be a number, got {value!r:.40}")
    if status not in STATUSES:
        raise ValueError(f"{table}: status of {name} must be one of {STATUSES}, got {status!r:.40}")
    if "n" in row and _number(_field(table, row, "n").encode()) != instance.n:
        raise ValueError(
            f"{table}: n of {name} is {row['n']!r:.40}, but {file.name} has n = {instance.n}; "
            "mend or delete the table"
        )
    return best, status


def _known_permutation(folder: Path, instance: Instance) -> np.ndarray | None:
    """Return a known good permutation: from ``solutions.json``, or from the ``.sln`` file and its inverse."""
    table = folder / "solutions.json"
    if table.is_file():
        entry = _solutions(table).get(instance.name)
        if entry is not None:
            return _stated_permutation(table, entry, instance)
    file = folder / f"{instance.name}.sln"
    if not file.is_file():
        return None
    solution = read_solution(file)
    if solution.n != instance.n:
        raise ValueError(f"{file}: a permutation of {solution.n} for an instance of size {instance.n}")
    p = solution.permutation
    return min(p, np.argsort(p), key=lambda q: evaluate(instance.A, instance.B, q))


def _solutions(table: Path) -> dict[str, Any]:
    """Return what ``solutions.json`` holds."""
    try:
        found = json.loads(table.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # of JSON, of UTF-8, of numbers beyond Python's digits
        raise ValueError(f"{table} is not JSON ({error}); mend or delete it") from None
    if not isinstance(found, dict):
        raise ValueError(f"{table} must hold an object with the names of instances; mend or delete it")
    return found


def _stated_permutation(table: Path, entry: Any, instance: Instance) -> np.ndarray:
    """Return the permutation of an entry of ``solutions.json`` after checking all that it says."""
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
            shown = _short(stated) if number else type(stated).__name__
            raise ValueError(
                f"{table}: {field} of {name} must be {true}, as {name}.dat has it, got {shown}; "
                "mend or delete the table"
            )
    return permutation
