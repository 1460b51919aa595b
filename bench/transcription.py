"""Algorithm 1 for the QAP, transcribed line by line into NumPy and SciPy as a baseline for dcfw.

Variant 1, f, g = 1/4 ||A X +- X B||^2, as in the authors' runs: A and B divided by
their Frobenius norms, the adaptive tolerance, exact line search.  Every gradient is computed in full and
every assignment problem by ``scipy.optimize.linear_sum_assignment``.  The code is a plain implementation of
the paper and not slow on purpose.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment


def dc_frank_wolfe(
    A: np.ndarray, B: np.ndarray, X: np.ndarray, *, rtol: float = 1e-3, max_inner: int
) -> tuple[np.ndarray, int]:
    """Return the point reached from X, and the number of inner steps, at most ``max_inner``."""
    n = len(A)
    A, B = A / np.linalg.norm(A), B / np.linalg.norm(B)
    eps = first = None
    steps = 0
    while True:  # t = 1, 2, ...
        difference = A @ X - X @ B
        u = 0.5 * (A.T @ difference - difference @ B.T)
        k = 1
        while True:
            total = A @ X + X @ B
            G = 0.5 * (A.T @ total + total @ B.T) - u
            _, columns = linear_sum_assignment(G)
            S = np.eye(n)[columns]
            D = S - X
            gap = -np.sum(G * D)
            if k == 1:
                if first is None:
                    first, eps = gap, 0.8 * gap
                elif gap <= rtol * first:
                    return X, steps
                elif gap < eps:
                    eps = 0.8 * gap
            if gap <= eps / 2:
                break
            eta = min(1.0, gap / (0.5 * np.linalg.norm(A @ D + D @ B) ** 2))
            X = X + eta * D
            k += 1
            steps += 1
            if steps == max_inner:
                return X, steps
