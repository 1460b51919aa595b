"""The extreme eigenvalues of a large symmetric matrix, of which only products are known.

ARPACK's accuracy is relative to the eigenvalue that it looks for.  That is useless for one near
zero, and where many lie there (a kernel matrix) the search does not come to an end.  So both ends are sought
as the largest eigenvalue of a shifted matrix, 1 + A / (2 size) and 1 - A / (2 size), with ``size`` about the
largest magnitude in the spectrum: then the accuracy is relative to that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]

ACCURACIES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""The accuracies tried in turn, relative to the eigenvalue of largest magnitude."""

RESTARTS = 20
"""The restarts of ARPACK, with up to ``BASIS`` products each, for one of the accuracies."""

BASIS, ROUGH_BASIS = 80, 20
"""The number of vectors that Lanczos keeps, for the last of the accuracies and for the first alone."""


def extremes(product: Product, n: int, *, rough: bool = False) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric matrix, rounded outwards.

    What Lanczos finds lies inside the spectrum, by no more than the accuracy that it has come to: 1e-8 of the
    largest magnitude mostly, and less where eigenvalues crowd.  The answers are widened by ten times that.
    ``rough`` answers stop at the first accuracy, 1e-4.

    >>> import numpy as np
    >>> diagonal = np.linspace(-1.0, 2.0, 500)
    >>> low, high = extremes(lambda v: diagonal * v, 500)
    >>> round(low, 5), round(high, 5), low < -1.0, high > 2.0
    (-1.0, 2.0, True, True)
    """
    start = np.random.default_rng(0).standard_normal(n)
    scale = float(np.abs(product(start)).max())  # so that no square under- or overflows
    if scale == 0.0:
        return 0.0, 0.0
    T, rest = tridiagonal(lambda v: product(v) / scale, start, ROUGH_BASIS if rough else BASIS)
    ritz = np.linalg.eigvalsh(T)
    low, high = float(ritz[0]), float(ritz[-1])
    size = max(abs(low), abs(high))
    unit = 2.0 * size * scale
    top = _largest(lambda v: v + product(v) / unit, start, rough)
    bottom = _largest(lambda v: v - product(v) / unit, start, rough)
    # Without an answer of ARPACK's: a Ritz value, and the norm of what is left outside the Lanczos basis.
    above = (high + rest) * scale if top is None else (top - 1.0) * unit
    below = (low - rest) * scale if bottom is None else (1.0 - bottom) * unit
    return below, above


def _largest(product: Product, start: np.ndarray, rough: bool) -> float | None:
    """Return the largest eigenvalue (about 1), rounded up; None if ARPACK does not get to any."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    matrix = LinearOperator((len(start),) * 2, matvec=lambda v: product(np.ravel(v)), dtype=np.float64)
    size = min(ROUGH_BASIS if rough else BASIS, len(start))
    value, residual, bound = 0.0, np.inf, None
    for accuracy in ACCURACIES[:1] if rough else ACCURACIES:
        if residual > accuracy:
            try:
                found = eigsh(matrix, 1, which="LA", v0=start, ncv=size, tol=accuracy, maxiter=RESTARTS)
            except ArpackError:  # mostly that it has not converged
                break
            value, start = float(found[0][0]), found[1][:, 0]
            residual = float(np.linalg.norm(product(start) - value * start))
        bound = value + 5.0 * accuracy
    return bound


def tridiagonal(product: Product, start: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """Return what Lanczos makes of a symmetric matrix in a few steps, and the norm of what it leaves out.

    >>> import numpy as np
    >>> T, rest = tridiagonal(lambda v: np.array([1.0, 3.0]) * v, np.ones(2), 5)
    >>> np.linalg.eigvalsh(T).round(12), round(rest, 12)
    (array([1., 3.]), 0.0)
    """
    basis, alphas, betas = [start / np.linalg.norm(start)], [], []
    while True:
        w = product(basis[-1])
        alphas.append(float(basis[-1] @ w))
        for _ in range(2):  # twice is enough against the loss of orthogonality
            Q = np.stack(basis)
            w = w - Q.T @ (Q @ w)
        betas.append(float(np.linalg.norm(w)))
        if len(basis) == min(steps, len(start)) or betas[-1] <= 1e-12 * max(map(abs, alphas)):
            return np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1), betas[-1]
        basis.append(w / betas[-1])
