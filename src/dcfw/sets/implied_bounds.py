"""Bounds that linear constraints imply for each variable, by propagating the bounds that are known.

A row ``a x <= b`` bounds ``x_j`` by what the other terms of the row leave over at their least.  A few rounds
of this, a standard presolve step (Savelsbergh, 1994), give the size of nearly every variable for the price
of a few products with the matrix.  Rounding is allowed for: no bound cuts off a point of the polyhedron.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDS = 10
"""The number of passes over all rows; where bounds creep towards a limit, any of them will do."""
SLACK = 1e-12
"""By how much of its terms an implied bound is relaxed."""


class Empty(Exception):
    """No point satisfies the constraints."""


def propagate(A: Any, b: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds that follow from ``A x <= b`` (A sparse) and ``lower <= x <= upper``.

    Raises :class:`Empty` if a row or a pair of bounds cannot be met.
    """
    A = A.tocoo()
    row, column, entry = A.row, A.col, A.data.astype(np.float64)
    keep = entry != 0.0
    row, column, entry = row[keep], column[keep], entry[keep]
    low, high = lower.copy(), upper.copy()
    positive = entry > 0.0
    for _ in range(ROUNDS):
        before = low.copy(), high.copy()
        with np.errstate(invalid="ignore", over="ignore"):
            bound = _bounds_of_entries(entry, row, np.where(positive, low[column], high[column]), b)
        np.minimum.at(high, column[positive], bound[positive])
        np.maximum.at(low, column[~positive], bound[~positive])
        if bool((low > high).any()):
            raise Empty
        if not _tightened(before, (low, high)):
            break
    return low, high


def _bounds_of_entries(entry: np.ndarray, row: np.ndarray, extreme: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return for each entry a_ij the bound of x_j that its row implies, infinite where there is none.

    ``extreme`` is the bound of x_j at which a_ij x_j is least.
    """
    least = entry * extreme
    infinite = ~np.isfinite(least)
    finite = np.where(infinite, 0.0, least)
    count = np.bincount(row, infinite, minlength=len(b))
    total = np.bincount(row, finite, minlength=len(b))
    terms = np.bincount(row, np.abs(finite), minlength=len(b)) + np.abs(b)
    if bool(((count == 0) & (total > b + SLACK * terms)).any()):
        raise Empty
    room = b[row] - (total[row] - finite) + SLACK * terms[row]
    # The row says nothing about x_j where another term is unbounded.
    usable = (count[row] - infinite == 0) & np.isfinite(room)
    return np.where(usable, room / entry, np.where(entry > 0.0, np.inf, -np.inf))


def _tightened(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> bool:
    """Return whether any bound appeared, or moved by a hundredth of the size of its variable."""
    size = np.maximum(np.abs(after[0]), np.abs(after[1]))
    for old, new in zip(before, after, strict=True):
        if bool((np.isfinite(new) & ~np.isfinite(old)).any()):
            return True
        both = np.isfinite(new) & np.isfinite(old)
        if bool((np.abs(new[both] - old[both]) > 1e-2 * size[both]).any()):
            return True
    return False
