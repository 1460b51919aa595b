"""A bound by dual ascent on the first-level reformulation-linearisation of the QAP.

The objective is sum_ij L[i, j] x_ij + sum_ijkl Q[i, j, k, l] x_ij x_kl.  Moving costs between Q[i, j] and
their leader L[i, j], and reductions of L to the bound, changes the value of no permutation.  Hahn and Grant
(1998) repeat such moves by assignment problems, which ends 2 to 5 % below the linear programme's bound.  Here
the parts that move are random and each round gives back a decreasing share of the bound, which ends a few
thousandths below it.  The rounds are in ``kernels/native/dual_ascent.cpp``.

P. Hahn, T. Grant, "Lower bounds for the quadratic assignment problem based upon a dual formulation",
Operations Research 46 (1998); W. P. Adams, T. A. Johnson, "Improved linear programming-based lower bounds for
the quadratic assignment problem", DIMACS 16 (1994).
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dcfw import kernels
from dcfw.qap.convex_bound import EPS, SMALLEST

LARGEST = 32  # the pairs have n^4 costs
ROUNDS = 200  # times n: the number of rounds, if the time allows
GIVEN_BACK = 0.02  # the share of the bound that the first rounds give back; it falls to 0 linearly


def dual_ascent(A: np.ndarray, B: np.ndarray, C: np.ndarray, *, deadline: float) -> float:
    """Return the bound for dense matrices, as good as it is at the deadline."""
    n = len(A)
    if n == 1:
        return float(A[0, 0] * B[0, 0] + C[0, 0])
    matrices = (np.ascontiguousarray(M, dtype=np.float64) for M in (A, B, C))
    ascent = kernels.implementation("numpy_ascent").DualAscent(*matrices)
    start = time.perf_counter()
    progress = 0.0
    while progress < 1.0:
        if not ascent.round(GIVEN_BACK * max(1.0 - 1.1 * progress, 0.0)):
            return -math.inf
        late = (time.perf_counter() - start) / max(deadline - start, 1e-9)
        progress = max(late, ascent.rounds / (ROUNDS * n)) if n > 2 else 1.0
    return _safe(ascent, n)


def _safe(ascent: Any, n: int) -> float:
    """Return the bound less its possible rounding error."""
    relative = 1e-12 + 16.0 * EPS * ascent.rounds
    return float(ascent.best - relative * n * n * ascent.total - ascent.rounds * n**4 * SMALLEST)
