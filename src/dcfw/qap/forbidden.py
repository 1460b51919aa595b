"""Forbidden pairs: row i of A must not go to row j of B.

The price of a forbidden pair in the linear term exceeds the largest difference of two permutations' values,
so bounds of the priced problem hold for the permitted permutations.  A result with a forbidden pair is
replaced by the nearest permitted permutation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from dcfw.qap.objective import INT64_MAX, dense


def mask_of(pairs: np.ndarray, given: np.ndarray, n: int) -> np.ndarray | None:
    if not len(pairs):
        return None
    mask = np.zeros((n, n), dtype=bool)
    mask[tuple(pairs.T)] = True
    both = given[mask[tuple(given.T)]]
    if len(both):
        raise ValueError(f"partial_match and forbidden both have the pair {both[0].tolist()}")
    mask[given[:, 0]] = mask[:, given[:, 1]] = True
    mask[tuple(given.T)] = False
    rows, columns = linear_sum_assignment(mask)
    if mask[rows, columns].any():
        raise ValueError("forbidden leaves no permutation: some rows have too few places that are allowed")
    return mask


def priced(A: Any, B: Any, C: Any, mask: np.ndarray, sign: int) -> np.ndarray:
    """Return the linear term with the price at forbidden pairs (negative for maximisation)."""
    whole = all(M is None or M.dtype.kind in "iu" for M in (A, B, C))
    C = np.zeros(mask.shape, dtype=np.int64 if whole else np.float64) if C is None else dense(C)
    spread = float(np.sum(C.max(axis=1).astype(float) - C.min(axis=1)))
    sums = (float(abs(M).sum(dtype=np.float64)) for M in (A, B))
    ranges = (float(M.max()) - float(M.min()) for M in (B, A))
    spread += min(size * span for size, span in zip(sums, ranges, strict=True))
    price = spread + max(1.0, 1e-6 * spread)
    exact = whole and price <= INT64_MAX / 4
    return np.asarray(np.where(mask, C + sign * (int(price) if exact else price), C))


def nearest_permitted(permutation: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the permitted permutation that differs in the fewest rows."""
    rows = np.arange(len(permutation))
    stay = ~mask[rows, permutation]
    if stay.all():
        return permutation
    cost = np.where(mask, float(len(rows) + 1), 1.0)
    cost[rows[stay], permutation[stay]] = 0.0
    return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)
