"""Leading singular pairs and lowest eigenpairs by Lanczos methods, for NumPy matrices.

The oracles of the nuclear-norm ball and the spectraplex need one extreme singular or eigenvector, not
a whole decomposition.  A Krylov method finds it from a few tens of matrix-vector products: it builds an
orthonormal basis of span{b, Mb, M^2 b, ...} in which M is a small (bi)diagonal matrix, and takes the
extreme pair of that.  Three details make it dependable:

* The basis is reorthogonalised in full.  It is small, and ghosts of converged vectors never appear.
* The start mixes the caller's guess (the vector of the previous solve) with a fixed generic vector.
  The guess alone could be trapped: an exact singular vector of M spans an invariant subspace, however
  far from the largest its singular value is.
* When the basis is full, the method starts again from the best vector so far.

The residual of the answer is returned with it.  Some singular value (eigenvalue) lies within the
residual of the computed one; that it is the extreme one holds unless the generic start is orthogonal
to the wanted vector to working precision.
"""

from __future__ import annotations

import functools
import math

import numpy as np

BASIS = 80
"""Vectors kept before a restart; the reorthogonalisation costs as much as a product with 80 rows."""

CHECK = 4
"""Steps between two looks at the small problem."""


def leading_singular_pair(
    G: np.ndarray, guess: np.ndarray | None = None, tol: float = 1e-10, products: int = 4 * BASIS
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return unit vectors u, v, the value sigma = <u, G v> and the residual of the leading singular pair.

    Parameters
    ----------
    G : numpy.ndarray
        A matrix, in single or double precision.
    guess : numpy.ndarray, optional
        A guess of the singular vector on the shorter side of G (v, if G is square).
    tol : float
        Stop when the residual is at most ``tol * sigma`` (or what G's precision allows).
    products : int
        The most products with G (each followed by one with its transpose).

    Examples
    --------
    >>> u, v, sigma, residual = leading_singular_pair(np.diag(np.arange(1.0, 41.0)))
    >>> round(sigma, 9), int(abs(v).argmax())
    (40.0, 39)
    """
    m, n = G.shape
    if m < n:  # then a basis of the shorter side is complete, and what is left over is zero
        v, u, sigma, residual = leading_singular_pair(G.T, guess, tol, products)
        return u, v, sigma, residual
    tol = max(tol, 4.0 * float(np.finfo(G.dtype).eps))
    v = _start(n, guess, G.dtype)
    size = min(n, BASIS)
    U = np.empty((size, m), dtype=G.dtype)
    V = np.empty((size + 1, n), dtype=G.dtype)
    spent, converged = 0, False
    while not converged and spent < products:
        # Golub-Kahan: G V = U B and G^T U = V B^T + beta v_{k+1} e_k^T with B upper bidiagonal.
        B = np.zeros((size, size))
        V[0] = v
        for k in range(size):
            spent += 1
            w = G @ V[k]
            alpha = _orthogonalise(w, U[:k])
            U[k] = w / alpha if alpha else 0.0
            B[k, k] = alpha
            w = U[k] @ G
            beta = _orthogonalise(w, V[: k + 1])
            full = k + 1 == size or spent >= products
            exhausted = alpha == 0.0 or beta == 0.0
            if full or exhausted or k % CHECK == CHECK - 1:
                P, theta, Qt = np.linalg.svd(B[: k + 1, : k + 1])
                converged = exhausted or beta * abs(P[k, 0]) <= tol * theta[0]
                if full or converged:
                    break
            V[k + 1] = w / beta
            B[k, k + 1] = beta
        v = Qt[0].astype(G.dtype) @ V[: k + 1]
        v /= np.linalg.norm(v)
    w = G @ v
    sigma = float(np.linalg.norm(w))
    if sigma == 0.0:
        u = np.zeros(m, dtype=G.dtype)
        u[0] = 1.0
        return u, v, 0.0, 0.0
    u = w / w.dtype.type(sigma)
    return u, v, sigma, float(np.linalg.norm(u @ G - w.dtype.type(sigma) * v))


def lowest_eigenpair(
    G: np.ndarray, guess: np.ndarray | None = None, tol: float = 1e-10, products: int = 4 * BASIS
) -> tuple[np.ndarray, float, float]:
    """Return a unit vector v, the value <v, G v> and the residual of the lowest eigenpair of symmetric G.

    The parameters are those of :func:`leading_singular_pair`; ``tol`` is relative to the largest
    eigenvalue (in size) seen so far.

    Examples
    --------
    >>> v, value, residual = lowest_eigenpair(np.diag(np.arange(1.0, 41.0)))
    >>> round(value, 9), int(abs(v).argmax())
    (1.0, 0)
    """
    n = len(G)
    tol = max(tol, 4.0 * float(np.finfo(G.dtype).eps))
    v = _start(n, guess, G.dtype)
    size = min(n, BASIS)
    V = np.empty((size + 1, n), dtype=G.dtype)
    spent, converged = 0, False
    while not converged and spent < products:
        # Lanczos: G V = V T + beta v_{k+1} e_k^T with T tridiagonal.
        T = np.zeros((size, size))
        V[0] = v
        for k in range(size):
            spent += 1
            w = G @ V[k]
            T[k, k] = float(w @ V[k])
            beta = _orthogonalise(w, V[: k + 1])
            full = k + 1 == size or spent >= products
            if full or beta == 0.0 or k % CHECK == CHECK - 1:
                values, vectors = np.linalg.eigh(T[: k + 1, : k + 1])
                converged = beta * abs(vectors[k, 0]) <= tol * np.abs(values).max()
                if full or converged:
                    break
            V[k + 1] = w / beta
            T[k, k + 1] = T[k + 1, k] = beta
        v = vectors[:, 0].astype(G.dtype) @ V[: k + 1]
        v /= np.linalg.norm(v)
    w = G @ v
    value = float(v @ w)
    return v, value, float(np.linalg.norm(w - w.dtype.type(value) * v))


def _orthogonalise(w: np.ndarray, basis: np.ndarray) -> float:
    """Subtract from ``w`` (in place) its part in the span of ``basis``; return what is left of its norm.

    Twice is enough; a remainder of rounding size counts as zero, which ends the Krylov space.
    """
    before = float(np.linalg.norm(w))
    if len(basis):
        w -= (basis @ w) @ basis
        w -= (basis @ w) @ basis
    after = float(np.linalg.norm(w))
    return after if after > 8.0 * float(np.finfo(w.dtype).eps) * before else 0.0


def _start(n: int, guess: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    """Return a unit vector near ``guess`` with a part in every direction; the same at every call."""
    generic = _generic(n)
    start = generic if guess is None else guess + 0.05 * generic
    return np.asarray(start / np.linalg.norm(start), dtype=dtype)


@functools.lru_cache(maxsize=16)
def _generic(n: int) -> np.ndarray:
    """Return a fixed unit vector of length ``n`` in general position."""
    vector = np.random.default_rng(n).standard_normal(n)
    return np.asarray(vector / math.sqrt(float(vector @ vector)))
