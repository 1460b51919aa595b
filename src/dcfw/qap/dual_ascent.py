"""A dual ascent on the first-level reformulation-linearisation of the QAP (Hahn and Grant 1998).

Write the objective as sum_ij L[i, j] x_ij + sum_ijkl Q[i, j, k, l] x_ij x_kl.  Four moves keep it the same
for every
permutation: costs of Q[i, j] may go to their leader L[i, j] (of any row or column of Q[i, j], whose entries
are
chosen once if x_ij is), and back; Q[i, j, k, l] and Q[k, l, i, j] may be exchanged, being costs of the same
pair;
and a reduction of L goes to the bound.  Each round solves the assignment problem of every Q[i, j], takes
its value
into L[i, j], and then the one of L into the bound; what is left of L goes back to Q.  All costs stay
nonnegative, so
that the bound is one.

P. Hahn, T. Grant, "Lower bounds for the quadratic assignment problem based upon a dual formulation",
Operations
Research 46 (1998).
"""

from __future__ import annotations

import math
import time

import numpy as np

from dcfw.kernels.lap import OPTIMAL, solver

SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
"""Numbers that underflow are rounded by up to this, however small they are."""
LARGEST = 32
"""Q has n^4 entries."""
PATIENCE, ENOUGH = 8, 1e-4
"""A round that gains less than this share of the bound, so many times in turn, ends the ascent."""


def dual_ascent(
    A: np.ndarray, B: np.ndarray, C: np.ndarray, *, deadline: float = math.inf, enough: float = math.inf
) -> float:
    """Return the bound for dense float64 matrices; stop at the deadline or at a bound of ``enough``."""
    n = len(A)
    if n == 1:
        return float(A[0, 0] * B[0, 0] + C[0, 0])
    others = np.array([[k for k in range(n) if k != i] for i in range(n)])
    # Q[i, j, a, b]: the a-th of the other rows and the b-th of the other columns.
    Q = np.empty((n, n, n - 1, n - 1))
    for i in range(n):
        for j in range(n):
            Q[i, j] = np.outer(A[i, others[i]], B[j, others[j]])
    L = np.outer(A.diagonal(), B.diagonal()) + C
    shift = float(Q.min())
    bound = 0.0
    if shift < 0.0:  # n (n - 1) of the costs are chosen
        Q -= shift
        bound += shift * n * (n - 1)
    total = float(np.abs(Q).sum() + np.abs(L).sum()) + abs(bound)
    small, large = solver(n - 1), solver(n)
    part, whole = np.empty(n - 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    stale = rounds = 0
    while True:
        rounds += 1
        _share(Q, others)
        for i in range(n):
            for j in range(n):
                R = np.ascontiguousarray(Q[i, j])
                if small.solve(R, part) != OPTIMAL:
                    return -math.inf
                R -= small.u[:, None]
                R -= small.v
                low = min(float(R.min()), 0.0)  # rounding
                R -= low
                Q[i, j] = R
                L[i, j] += float(small.u.sum() + small.v.sum()) + (n - 1) * low
            if time.perf_counter() > deadline:
                break
        if large.solve(np.ascontiguousarray(L), whole) != OPTIMAL:
            return -math.inf
        gain = float(large.u.sum() + large.v.sum())
        L -= large.u[:, None]
        L -= large.v
        low = min(float(L.min()), 0.0)
        L -= low
        gain += n * low
        bound += gain
        stale = stale + 1 if gain <= ENOUGH * abs(bound) else 0
        if bound >= enough or stale >= PATIENCE or n < 3 or time.perf_counter() > deadline:
            return bound - 1e-12 * n * n * total - rounds * n**4 * SMALLEST
        Q += (L / (n - 1))[:, :, None, None]  # what is left of a leader goes back, equally to each row
        L[:] = 0.0


def _share(Q: np.ndarray, others: np.ndarray) -> None:
    """Give both costs of a pair of assignments half of their sum."""
    n = len(Q)
    full = np.zeros((n, n, n, n))
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    rows, columns = others[i][:, :, :, None], others[j][:, :, None, :]
    full[i[:, :, None, None], j[:, :, None, None], rows, columns] = Q
    full = 0.5 * (full + full.transpose(2, 3, 0, 1))
    Q[:] = full[i[:, :, None, None], j[:, :, None, None], rows, columns]
