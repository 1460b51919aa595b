"""Bounds that linear constraints imply for each variable, by propagating known bounds.

A row ``a x <= b`` bounds ``x_j`` by b less the minimum of the row's other terms.  A few rounds of this, a
standard presolve step (Savelsbergh, 1994), bound nearly every variable at the cost of a few products with the
matrix.  Bounds are relaxed for rounding: none cuts off a point of the polyhedron.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDS = 10  # passes over all rows; bounds that converge slowly are valid after any of them
SLACK = 1e-12  # the share of its terms by which an implied bound is relaxed


class Empty(Exception):
    """No point satisfies the constraints."""


def propagate(A: Any, b: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds that follow from ``A x <= b`` (A sparse) and ``lower <= x <= upper``.

    Raise :class:`Empty` if a row or a pair of bounds cannot be satisfied.
    """
    A = A.tocoo()
    keep = A.data != 0.0
    row, column, entry = A.row[keep], A.col[keep], A.data[keep].astype(np.float64)
    positive = entry > 0.0
    low, high = lower.copy(), upper.copy()
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
    # A row does not bound x_j where another term is unbounded.
    usable = (count[row] - infinite == 0) & np.isfinite(room)
    return np.where(usable, room / entry, np.where(entry > 0.0, np.inf, -np.inf))


def _tightened(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> bool:
    """Return whether any bound appeared, or moved by more than a hundredth of the size of its variable."""
    size = np.maximum(np.abs(after[0]), np.abs(after[1]))
    for old, new in zip(before, after, strict=True):
        appeared, finite = np.isfinite(new) & ~np.isfinite(old), np.isfinite(new) & np.isfinite(old)
        moved = np.abs(new[finite] - old[finite]) > 1e-2 * size[finite]
        if appeared.any() or moved.any():
            return True
    return False
