"""The extreme eigenvalues of a large symmetric matrix, from products with it.

ARPACK's accuracy is relative to the eigenvalue sought, so that it fails near zero, where a kernel matrix has
many.  Both ends are therefore computed as the largest eigenvalue of 1 + A / (2 size) or 1 - A / (2 size),
with ``size`` about the largest magnitude in the spectrum: the accuracy is then relative to that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]

# Accuracies tried in turn, relative to the eigenvalue of largest magnitude.
ACCURACIES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
RESTARTS = 20  # of ARPACK for each accuracy, with up to BASIS products each
BASIS, ROUGH_BASIS = 80, 20  # Lanczos vectors; the second with ``rough``


def extremes(product: Product, n: int, *, rough: bool = False) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric matrix, rounded outwards.

    Lanczos values lie inside the spectrum, within the accuracy reached: mostly 1e-8 of the largest magnitude,
    less where eigenvalues cluster.  They are widened by ten times that.  ``rough`` stops at 1e-4.
    """
    start = np.random.default_rng(0).standard_normal(n)
    scale = float(np.abs(product(start)).max())  # prevents under- and overflow in squares
    if scale == 0.0:
        return 0.0, 0.0
    T, rest = tridiagonal(lambda v: product(v) / scale, start, ROUGH_BASIS if rough else BASIS)
    ritz = np.linalg.eigvalsh(T)
    low, high = float(ritz[0]), float(ritz[-1])
    size = max(abs(low), abs(high))
    unit = 2.0 * size * scale
    top = _largest(lambda v: v + product(v) / unit, start, rough)
    bottom = _largest(lambda v: v - product(v) / unit, start, rough)
    # If ARPACK fails: a Ritz value, widened by the residual norm of the Lanczos basis.
    above = (high + rest) * scale if top is None else (top - 1.0) * unit
    below = (low - rest) * scale if bottom is None else (1.0 - bottom) * unit
    return below, above


def _largest(product: Product, start: np.ndarray, rough: bool) -> float | None:
    """Return the largest eigenvalue (about 1), rounded up; None if ARPACK finds none."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    matrix = LinearOperator((len(start),) * 2, matvec=lambda v: product(np.ravel(v)), dtype=np.float64)
    size = min(ROUGH_BASIS if rough else BASIS, len(start))
    value, residual, bound = 0.0, np.inf, None
    for accuracy in ACCURACIES[:1] if rough else ACCURACIES:
        if residual > accuracy:
            try:
                found = eigsh(matrix, 1, which="LA", v0=start, ncv=size, tol=accuracy, maxiter=RESTARTS)
            except ArpackError:  # mostly no convergence
                break
            value, start = float(found[0][0]), found[1][:, 0]
            residual = float(np.linalg.norm(product(start) - value * start))
        bound = value + 5.0 * accuracy
    return bound


def tridiagonal(product: Product, start: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """Return the tridiagonal matrix of a few Lanczos steps, and the norm of the residual."""
    basis, alphas, betas = [start / np.linalg.norm(start)], [], []
    while True:
        w = product(basis[-1])
        alphas.append(float(basis[-1] @ w))
        for _ in range(2):  # two passes restore orthogonality
            Q = np.stack(basis)
            w = w - Q.T @ (Q @ w)
        betas.append(float(np.linalg.norm(w)))
        if len(basis) == min(steps, len(start)) or betas[-1] <= 1e-12 * max(map(abs, alphas)):
            return np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1), betas[-1]
        basis.append(w / betas[-1])
