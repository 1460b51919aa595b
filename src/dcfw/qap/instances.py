"""Instances of the quadratic assignment problem and the files of QAPLIB that hold them.

A ``.dat`` file is a size n, then the n x n matrix A row by row, then B, all separated by white space;
line breaks have no meaning.  The value of a permutation p is sum_ij A[i, j] B[p(i), p(j)].

A ``.sln`` file is n, the value and a permutation, and is less reliable: most count from 1 and one from 0,
some hold the inverse permutation, one states a wrong value.  :func:`dcfw.qap.load` checks it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array

MARK = b"\xef\xbb\xbf"  # some editors put this at the start of UTF-8 files


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A quadratic assignment problem: minimise sum_ij A[i, j] B[p(i), p(j)] over permutations p.

    Attributes
    ----------
    name : str
        The name, such as ``"nug12"``.
    A, B : ndarray of shape (n, n)
        int64, or float64 when the data are not integers.
    n : int
        The size.
    best : int, float or None
        The best value known.
    permutation : ndarray or None
        A permutation, counted from 0, of value ``best`` or (rarely: tai100a) the best one available.
    status : str or None
        ``"optimal"`` if ``best`` is proven, ``"best_known"`` if not, None if it is unknown.

    Examples
    --------
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
    """The content of a ``.sln`` file: the size, the value and the permutation, counted from 0, as written.

    Examples
    --------
    >>> Solution(3, 10, [1, 2, 0])
    Solution(n=3, value=10, permutation=[1, 2, 0])
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
        If the file is empty, too short, too long, or holds something that is not a number; the message
        names the file, the line and what was expected.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tiny.dat"
    >>> _ = file.write_text("2  0 3 3 0  0 5 5 0")
    >>> read(file)
    Instance('tiny', n=2)
    """
    path = _validate.path(path)
    return read_solution(path) if path.suffix.lower() == ".sln" else read_instance(path)


def read_solution(path: str | os.PathLike[str]) -> Solution:
    """Read a ``.sln`` file: n, the value and the permutation as written, counted from 0.

    The entries show whether the file counts from 1 (the rule) or from 0.  The file may hold p or its inverse:
    evaluate both, as :func:`load` does.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tiny.sln"
    >>> _ = file.write_text("3 40  2 3 1")
    >>> read_solution(file)
    Solution(n=3, value=40, permutation=array([1, 2, 0]))
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


def read_instance(path: Path) -> Instance:
    numbers = _numbers(path)
    n = _size(path, numbers, lambda n: 1 + 2 * n * n, "n and two n x n matrices")
    kind = np.int64 if all(type(x) is int for x in numbers) else np.float64
    try:
        A, B = np.array(numbers[1:], dtype=kind).reshape(2, n, n)
    except OverflowError:
        raise ValueError(f"{path.name}: an entry does not fit into 64 bits; rescale the data") from None
    return Instance(path.stem, A.copy(), B.copy(), n)


def _numbers(path: Path) -> list[Any]:
    """Return the numbers of a file: Python ints if all are integers, else a mix of ints and floats."""
    text = path.read_bytes().removeprefix(MARK)
    tokens = text.split()
    if not tokens:
        raise ValueError(f"{path.name}: the file is empty; expected the size n first")
    try:
        if b"_" not in text:  # Python would read 1_000 as a number
            return [int(token) for token in tokens]
    except ValueError:
        pass
    numbers: list[Any] = []
    for at, line in enumerate(text.splitlines(), start=1):
        for token in line.split():
            number = _number(token)
            if number is None:
                raise ValueError(
                    f"{path.name}, line {at}: expected a finite number (number {len(numbers) + 1} of the "
                    f"file), got {token[:20].decode('utf-8', 'replace')!r}"
                )
            numbers.append(number)
    return numbers


def _number(token: bytes) -> int | float | None:
    for kind in (int, float):
        try:
            number = kind(token)
            return number if math.isfinite(number) and b"_" not in token else None
        except ValueError:
            continue
        except OverflowError:  # an integer beyond the floats
            return None
    return None


def _size(path: Path, numbers: list[Any], needed: Any, layout: str) -> int:
    """Return n after checking that the file holds exactly the numbers of an instance of that size."""
    n, got = numbers[0], len(numbers)
    if type(n) is not int or n < 1:
        raise ValueError(
            f"{path.name}: the first number must be the size n, an integer of at least 1, got {_short(n)}"
        )
    if n > got:  # before computing with n, which may have thousands of digits
        raise ValueError(f"{path.name} is cut short: n = {_short(n)} needs {layout}, found {got} numbers")
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
    text = str(number)
    return text if len(text) <= 30 else f"{text[:12]}... ({len(text)} characters)"
