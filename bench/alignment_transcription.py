"""DC-FW for the alignment of embeddings, transcribed line by line into NumPy: the peer of ``bench align``.

This is the rule of the authors' alignment code, which differs from that of their QAP code: every inner
iteration first takes its step, 2/(t_k + 1) with t_k counting the steps of all inner loops, and then ends the
inner loop if the gap measured before that step is at most the tolerance.  The tolerance starts at 0.8 times
the first gap, and is multiplied by 0.8 when the FW gap at an outer point, measured with a new subgradient,
is below it.  Gradient, vertex and subgradient of an outer point also serve its first inner step.

Each gradient takes two products with all words, each polar factor a full SVD: a plain implementation of the
paper, not slow on purpose.
"""

from __future__ import annotations

import numpy as np


def polar(G: np.ndarray) -> np.ndarray:
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return U @ Vt


def dc_frank_wolfe(
    E1: np.ndarray, Y: np.ndarray, P: np.ndarray, *, lam: float = 1e-4, beta: float = 0.8, steps: int
) -> list[np.ndarray]:
    """Return the outer points x_1, x_2, ...; the last one is where the number of steps was reached.

    At each of them but the last one subgradient is taken, and each step takes one linear oracle call.
    """
    n = E1.shape[1]

    def gradient(X: np.ndarray) -> np.ndarray:
        return (P * (X @ E1) - Y) @ E1.T / n

    X = np.zeros((len(Y), len(E1)), dtype=E1.dtype)
    tol = np.inf
    outer, tk = [X], 1
    while True:  # t = 1, 2, ...
        u = lam * polar(X)
        G = gradient(X) - u
        S = -polar(G)
        gap = np.sum(G * (X - S))
        if np.isinf(tol) or gap < tol:
            tol = beta * (gap if np.isinf(tol) else tol)
        while True:
            X = X + (2.0 / (tk + 1.0)) * (S - X)
            tk += 1
            if gap <= tol or tk > steps:
                break
            G = gradient(X) - u
            S = -polar(G)
            gap = np.sum(G * (X - S))
        outer.append(X)
        if tk > steps:
            return outer
