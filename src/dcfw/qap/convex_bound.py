"""The convex quadratic programming bound of Anstreicher and Brixius, by Frank-Wolfe with a certified gap.

A permutation matrix is J/n + V Y V^T with V an orthonormal basis of the vectors that add up to 0 and Y
orthogonal.  If V^T A V = A' = W diag(sigma) W^T and V^T B V = B' = U diag(lambda) U^T, and s, t solve the
dual of their assignment problem (s_i + t_j <= sigma_i lambda_j), then for orthogonal Y

    tr(A' Y B' Y^T) = sum s + sum t + q(Y),   q(Y) = tr(A' Y B' Y^T) - tr(S Y Y^T) - tr(T Y^T Y),

with S = W diag(s) W^T, T = U diag(t) U^T and q convex.  The minimum of q and the projection bound's linear
term over doubly stochastic matrices is a lower bound, and so is value minus gap at every iterate.

K. M. Anstreicher, N. W. Brixius, "A new bound for the quadratic assignment problem based on convex quadratic
programming", Mathematical Programming 89 (2001).
"""

from __future__ import annotations

import math
import time

import numpy as np

from dcfw.kernels.lap import solver

EPS = float(np.finfo(np.float64).eps)
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)  # the rounding error of products that underflow
MAX_STEPS, ENOUGH = 1000, 1e-5  # the limit on steps, and the relative gap at which they stop


def convex_bound(A: np.ndarray, B: np.ndarray, C: np.ndarray, *, deadline: float) -> float:
    n = len(A)
    A, B = 0.5 * (A + A.T), 0.5 * (B + B.T)
    V = basis(n)
    sigma, W = np.linalg.eigh(V.T @ A @ V)
    lam, U = np.linalg.eigh(V.T @ B @ V)
    s, t = _dual(sigma, lam)
    W, U = V @ W, V @ U  # eigenvectors in the coordinates of X
    D = (2.0 / n) * np.outer(A.sum(axis=1), B.sum(axis=1)) + C
    constant = math.fsum(s) + math.fsum(t) - float(A.sum() * B.sum()) / n**2
    # In the eigenbases q is diagonal: sum_ij (sigma_i lambda_j - s_i - t_j) Z_ij^2, Z = W^T X U.
    weights = np.maximum(np.outer(sigma, lam) - s[:, None] - t, 0.0)
    lap = solver(n)
    X = np.full((n, n), 1.0 / n)
    Z = W.T @ X @ U
    best = -math.inf
    for _ in range(MAX_STEPS):
        G = 2.0 * (W @ (weights * Z) @ U.T) + D
        columns = lap.assign(np.ascontiguousarray(G))
        if columns is None:
            break
        value = float(np.sum(weights * Z * Z) + np.sum(D * X))
        gap = float(np.sum(G * X)) - float(G[np.arange(n), columns].sum())
        best = max(best, value - max(gap, 0.0))
        if gap <= ENOUGH * max(abs(value + constant), 1e-300) or time.perf_counter() > deadline:
            break
        S = np.eye(n)[columns]
        step = W.T @ S @ U - Z
        curvature = 2.0 * float(np.sum(weights * step * step))
        eta = min(1.0, gap / curvature) if curvature > 0.0 else 1.0
        X += eta * (S - X)
        Z += eta * step
    size = float(np.linalg.norm(A) * np.linalg.norm(B)) + float(np.abs(D).max()) * n
    return best + constant - 64.0 * n * n * EPS * size - 64.0 * n**3 * SMALLEST


def _dual(sigma: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return s and t with s_i + t_j <= sigma_i lambda_j, and the largest sum up to rounding."""
    cost = np.outer(sigma, lam)
    if cost.size == 0:
        return np.zeros(0), np.zeros(0)
    lap = solver(len(cost))
    lap.assign(np.ascontiguousarray(cost))
    s, t = np.array(lap.u), np.array(lap.v)
    return s - max(float((s[:, None] + t - cost).max()), 0.0), t


def basis(n: int) -> np.ndarray:
    """Return an orthonormal basis of the vectors that add up to 0, as columns."""
    w = np.ones(n)
    w[0] += math.sqrt(n)
    w /= np.linalg.norm(w)
    return np.asarray((np.eye(n) - 2.0 * np.outer(w, w))[:, 1:])
