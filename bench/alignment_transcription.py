"""DC-FW for the alignment of embeddings, written down line by line with NumPy: what dcfw is compared with.

As the paper's authors ran it: start at zero, steps 2/(t_k + 1) with t_k counting the steps of all inner
loops, inner loops that end when the gap is at most eps, eps set to 0.8 times a gap that falls below it.
Every gradient takes two products with all words, and every polar factor a full SVD.  It is meant to be
plain, as someone would write it from the paper, and not to be slow on purpose.
"""

from __future__ import annotations

import numpy as np


def polar(G: np.ndarray) -> np.ndarray:
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return U @ Vt


def dc_frank_wolfe(
    E1: np.ndarray, Y: np.ndarray, P: np.ndarray, *, lam: float = 1e-4, beta: float = 0.8, max_lmo: int
) -> tuple[list[np.ndarray], int]:
    """Return x_1, x_2, ... and the number of steps that fit ``max_lmo`` calls of the linear oracle.

    The last call of the budget is left for the gap at the last point, which is not computed here.
    """
    n = E1.shape[1]

    def gradient(X: np.ndarray) -> np.ndarray:
        return (P * (X @ E1) - Y) @ E1.T / n

    X = np.zeros((len(Y), len(E1)), dtype=E1.dtype)
    grad = gradient(X)
    eps = None
    outer, steps, calls = [X], 0, 0
    while True:  # t = 1, 2, ...
        u = lam * polar(X)
        while True:
            G = grad - u
            S = -polar(G)
            calls += 1
            gap = np.sum(G * (X - S))
            if outer[-1] is X:  # k = 1
                if eps is None or gap < eps:
                    eps = beta * gap
            elif gap <= eps:
                break
            steps += 1
            X = X + (2.0 / (steps + 1.0)) * (S - X)
            grad = gradient(X)
            if calls + 1 >= max_lmo:
                break
        outer.append(X)
        if calls + 1 >= max_lmo:
            return outer, steps
