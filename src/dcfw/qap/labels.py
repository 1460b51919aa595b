"""Names of rows and places: those of DataFrames, and pairs given by name.

The columns of a DataFrame must be in the order of its rows, or it would be read as another problem.  The
numbers 0, ..., n - 1 in order, pandas' default, are positions; where a table has other integers as names, an
integer of a pair is a name.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

Names = tuple[list[Any] | None, list[Any] | None]


def labels(M: Any, name: str) -> list[Any] | None:
    """Return the names of a DataFrame's rows (or columns, if only those have names), otherwise None."""
    if not _is_frame(M):
        return None
    rows, columns = list(M.index), list(M.columns)
    if len(rows) == len(columns):
        if numbered(rows) and not _same(rows, columns):
            rows = columns
        elif not numbered(columns) or _same(rows, columns):
            check_order(rows, columns, f"{name} (a DataFrame: {name}[{name}.index] sorts its columns)")
    check_unique(rows, name)
    return rows


def check_unique(names: list[Any], name: str) -> None:
    """Raise ValueError if two rows have one name: pairs and answers could not tell them apart."""
    if len(set(names)) < len(names):
        twice = next(label for k, label in enumerate(names) if label in names[:k])
        raise ValueError(f"{name} has two rows with the name {twice!r}; give each one of its own")


def check_linear(C: Any, names: Names) -> None:
    """Raise ValueError if the rows or columns of C are not in the order of the rows of A and of B."""
    if not _is_frame(C):
        return
    axes = (("index", list(C.index), "A"), ("columns", list(C.columns), "B"))
    for (axis, own, matrix), others in zip(axes, names, strict=True):
        if others is None or len(own) != len(others) or own == others:
            continue
        if _same(own, others) or not (numbered(own) or numbered(others)):
            raise ValueError(
                f"the {axis} of C must be the names of the rows of {matrix} in their order: "
                f"C.reindex({axis}={matrix}.index)"
            )


def in_order(C: Any, names: list[list[Any]], argument: str) -> Any:
    """Return a DataFrame in the order of the nodes' names, and anything else unchanged."""
    if not _is_frame(C):
        return C
    for axis, own in zip(("index", "columns"), names, strict=True):
        given = list(getattr(C, axis))
        if given == own or (numbered(given) and not _same(given, own)):
            continue
        if len(given) != len(own) or not _same(given, own):
            raise ValueError(
                f"the {axis} of {argument} must be the names of the nodes, or plain numbers for their order"
            )
        C = C.reindex(**{axis: own})
    return C


def check_order(rows: list[Any], columns: list[Any], name: str) -> None:
    """Raise ValueError unless the columns of a table have the names of its rows in the same order."""
    if rows == columns:
        return
    missing = [row for row in rows if row not in columns]
    what = f"only its rows have {missing[0]!r}" if missing else "they are in different orders"
    raise ValueError(f"the rows and columns of {name} must have the same names in one order, and {what}")


def positions(pairs: Any, n: int, names: Names, argument: str) -> np.ndarray:
    """Return pairs ``[[i, j], ...]`` or ``{i: j, ...}`` of positions or names as an array of positions."""
    if pairs is None:
        return np.empty((0, 2), dtype=np.int64)
    if np.ma.is_masked(pairs) or hasattr(pairs, "nnz"):
        raise TypeError(f"{argument} must be an ordinary array of pairs, neither masked nor sparse")
    entries = list(pairs.items()) if isinstance(pairs, Mapping) else pairs
    if names != (None, None) and np.iterable(entries):
        places = [None if known is None or numbered(known) else _places(known) for known in names]
        entries = [_located(pair, places, argument) for pair in ([pairs] if _is_list(pairs, 2) else entries)]
    try:
        found = np.atleast_2d(np.asarray(entries))
    except ValueError:
        raise ValueError(f"{argument} must be pairs of integers [[i, j], ...], each of two") from None
    if found.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} must be pairs of integers [[i, j], ...], got shape {found.shape} and dtype "
            f"{found.dtype}; names of rows need A and B as DataFrames"
        )
    if found.min() < 0 or found.max() >= n:
        raise ValueError(f"{argument} must hold indices from 0 to {n - 1}")
    return found.astype(np.int64)


def assignment(given: Any, sizes: tuple[int, int], names: Names, argument: str) -> Any:
    """Return a permutation ``{row: place}``, a Series, or a place for each row of A as max(sizes) numbers
    (padded rows take the remaining places in order), and anything else unchanged.  An array of integers
    counts positions."""
    n = max(sizes)
    if hasattr(given, "items"):
        pairs = positions(dict(given.items()), n, names, argument)
    elif _is_list(given, sizes[0]) and (sizes[0] < sizes[1] or names[1] is not None):
        counted = isinstance(given, np.ndarray) and given.dtype.kind in "iu"
        pairs = positions(list(enumerate(given)), n, (None, None if counted else names[1]), argument)
    else:
        return given
    p = np.full(n, -1, dtype=np.int64)
    p[pairs[:, 0]] = pairs[:, 1]
    for column, (side, known) in enumerate(zip("AB", names, strict=True)):
        twice = np.flatnonzero(np.bincount(pairs[:, column], minlength=n) > 1)
        if len(twice):
            raise ValueError(f"{argument} has the row {_name(twice[0], known)!r} of {side} twice")
    missing = np.flatnonzero(p[: sizes[0]] < 0)
    if len(missing) > max(sizes[0] - sizes[1], 0):
        raise ValueError(f"{argument} has no place for the row {_name(missing[0], names[0])!r} of A")
    p[p < 0] = np.setdiff1d(np.arange(n), p[p >= 0])
    return p


def _name(row: Any, known: list[Any] | None) -> Any:
    return known[row] if known is not None and row < len(known) else int(row)


class _Places(NamedTuple):
    of: dict[Any, int]
    integers: bool  # whether an integer is a name, not a position


def _places(known: list[Any]) -> _Places:
    return _Places({name: k for k, name in enumerate(known)}, any(map(_is_integer, known)))


def _located(pair: Any, places: list[_Places | None], argument: str) -> Any:
    if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
        return pair
    found = list(pair)
    for k, (entry, known) in enumerate(zip(pair, places, strict=True)):
        if known is None:
            continue
        if isinstance(entry, Hashable) and entry in known.of:
            found[k] = known.of[entry]
        elif known.integers or not _is_integer(entry):
            raise ValueError(f"{argument} has {entry!r}, which is not the name of a row of {'AB'[k]}")
    return found


def _is_integer(name: Any) -> bool:
    return isinstance(name, int | np.integer)


def _is_frame(M: Any) -> bool:
    return hasattr(M, "index") and hasattr(M, "columns") and not callable(M.index)


def _is_list(given: Any, length: int) -> bool:
    try:
        return hasattr(given, "__len__") and len(given) == length and np.ndim(given) == 1
    except (TypeError, ValueError):
        return False


def numbered(names: list[Any]) -> bool:
    """Return whether the names are 0, ..., n - 1 in order: pandas' default, which names nothing."""
    return names == list(range(len(names)))


def _same(one: list[Any], two: list[Any]) -> bool:
    return set(one) == set(two)
