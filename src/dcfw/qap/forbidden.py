"""Forbidden pairs: row i of A must not go to row j of B.

A forbidden pair gets a price in the linear term of one more than the most by which two permutations can
differ, so bounds of the priced problem hold for the permitted permutations.  A search that ends at a
forbidden pair all the same is led to the nearest permitted permutation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from dcfw.qap.objective import INT64_MAX, dense


def mask_of(pairs: np.ndarray, given: np.ndarray, n: int) -> np.ndarray | None:
    """Return a matrix that is True at forbidden pairs, after checking it; None where nothing is forbidden."""
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
    """Return the linear term with the price at forbidden pairs (negative where the value is maximised)."""
    whole = all(M is None or M.dtype.kind in "iu" for M in (A, B, C))
    C = np.zeros(mask.shape, dtype=np.int64 if whole else np.float64) if C is None else dense(C)
    spread = float(np.sum(C.max(axis=1).astype(float) - C.min(axis=1)))
    spread += min(_sum_of_sizes(M) * _range(other) for M, other in ((A, B), (B, A)))
    price = spread + max(1.0, 1e-6 * spread)
    exact = whole and price <= INT64_MAX / 4
    return np.asarray(np.where(mask, C + sign * (int(price) if exact else price), C))


def nearest_permitted(permutation: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the permutation itself if it has no forbidden pair, else one that differs in the fewest rows."""
    n = len(permutation)
    if not mask[np.arange(n), permutation].any():
        return permutation
    cost = np.where(mask, float(n + 1), 1.0)
    stay = ~mask[np.arange(n), permutation]
    cost[np.arange(n)[stay], permutation[stay]] = 0.0
    return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)


def _sum_of_sizes(M: Any) -> float:
    return float(abs(M).sum(dtype=np.float64))


def _range(M: Any) -> float:
    return float(M.max()) - float(M.min())
