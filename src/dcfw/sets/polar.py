"""Polar factors: the orthogonal factor U V^T of a matrix G = U diag(sigma) V^T, by five methods.

It is the linear oracle of the spectral-norm ball, the subgradient of the nuclear norm and the nearest
orthogonal matrix.

``"svd"``       the definition, and the fallback of the others when G is (nearly) singular, where the
                factor is not unique
``"eigh"``      G^T G = V Lambda V^T, then polish W = G V.  Three quarters of the work of an SVD.  The squares
                in G^T G cost accuracy in the small singular values, but G = W V^-1 holds for every V: the
                columns of W fail to be orthogonal by a small E, whose effect is known to first order
``"mixed"``     the same with V from single precision, which is not quite orthogonal either: two thirds of
                the work of an SVD, and some 1e-11 from it, so not a default.  For large NumPy arrays in
                double precision; ``"eigh"`` serves all others
``"products"``  X <- X q(X^T X) with odd polynomials that keep [0, 1] in [0, 1] and push it towards 1: only
                matrix products, which suits GPUs
``"auto"``      the fastest of those that are exact up to rounding, for the given array

:mod:`dcfw.sets.polar_inexact` has a faster inexact one with an error bound.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of, is_numpy, namespace, norm, norm2

METHODS = ("auto", "svd", "eigh", "mixed", "products")

SMALL = 24  # up to this size an SVD beats the Gram matrix: calls cost more than arithmetic
LARGE = 100  # from this size on eigenvectors in single precision, and their corrections, cost less
SPREAD = 0.03  # columns of W shorter than this fraction of the longest are orthogonalised once more
# In by_mixed, columns of W shorter than the first fraction of the longest count as short.  If more than the
# second fraction of all are short, an SVD is faster.
TAIL, MOST = 0.1, 0.7
# If (sum sigma^2)^2 is below this fraction of n sum sigma^4, a few singular values dominate and nearly all
# columns of W would be short: by_mixed leaves such a matrix to by_eigh.
FLAT = 0.05
SMALL_ENOUGH = 6e-5  # the largest column norm of E in by_mixed: the correction leaves terms of second order
LOWEST = 1e-3  # the relative singular value from which one round of polynomial steps leads to 1
FEW = (0.05, 4)  # lowest relative singular value and number of the polynomial steps, where a few are enough
ROUNDS = 6  # then a matrix counts as singular: these rounds lift singular values by more than 1e12


def polar(G: Array, method: str = "auto") -> Array:
    """Return the orthogonal polar factor U V^T of ``G`` = U diag(sigma) V^T.

    All its singular values are 1, also for a rank-deficient or zero G (it is then not unique).

    Parameters
    ----------
    G : array of shape (m, n)
        Any matrix; lists and integers become double precision.
    method : {"auto", "svd", "eigh", "mixed", "products"}
        See the module's docstring.  All give the same factor up to rounding (some eps times the condition
        number of G), ``"mixed"`` up to 1e-10.

    >>> polar(np.array([[0.0, 2.0], [1.0, 0.0]])).round(12)
    array([[0., 1.],
           [1., 0.]])
    """
    method = _validate.choice(method, "method", METHODS)
    G = _validate.array(G, "G", ndim=2)
    if is_numpy(G) and G.dtype.itemsize > 8:  # LAPACK has no extended precision
        G = G.astype(np.float64)
    if method == "auto" and is_numpy(G):
        method = "eigh" if min(G.shape) > SMALL else "svd"
    elif method == "auto":
        method = "products" if _on_accelerator(G) else "svd"
    if method == "svd":
        return by_svd(G)
    if G.shape[0] < G.shape[1]:
        return polar(G.T, method).T
    S = {"mixed": by_mixed, "eigh": by_eigh, "products": by_products}[method](G)
    return by_svd(G) if S is None else S


def _on_accelerator(G: Array) -> bool:
    # Libraries have different device objects, but all of them have names.
    device = str(getattr(G, "device", "cpu")).lower()
    return any(name in device for name in ("cuda", "gpu", "hip", "mps", "xpu"))


def by_svd(G: Array) -> Array:
    """Return U V^T from a singular value decomposition."""
    U, _, Vt = namespace(G).linalg.svd(G, full_matrices=False)
    return U @ Vt


def by_eigh(G: Array) -> Array | None:
    """Return the polar factor of a square or tall matrix, or None if it is too close to singular."""
    xp = namespace(G)
    scale = float(xp.max(xp.abs(G)))
    if not 0.0 < scale < math.inf:
        return None
    if not 1e-12 < scale < 1e12:
        G = G / scale  # squares must neither overflow nor vanish
    V = _eigenvectors(G)
    W = G @ V
    lengths = xp.sqrt(xp.sum(W * W, axis=0))
    if not float(xp.min(lengths)) > 4.0 * math.sqrt(G.shape[0]) * eps_of(G) * float(xp.max(lengths)):
        return None
    W, V, lengths = _orthogonalised_tail(W, V, lengths)
    W /= lengths
    E = plus_diagonal(W.T @ W, -1.0)
    if not float(xp.max(xp.abs(E))) < 0.5 * eps_of(G) ** 0.35:  # 2e-6 in double precision, 2e-3 in single
        return None
    return _corrected(W, V, lengths, E)


def _corrected(U: Array, V: Array, lengths: Array, E: Array) -> Array:
    """Return the polar factor of U D V^-1, up to the order of E^2, with E = U^T U + V^T V - 2 I.

    It is U (I - C) V^T with C_ij = d_i E_ij / (d_i + d_j).  U and E are overwritten.
    """
    ratio = (1.0 / lengths)[:, None] * lengths[None, :]
    ratio += 1.0
    E /= ratio
    if is_numpy(E):  # E is small, so single precision is enough for the correction
        U -= U.astype(np.float32, copy=False) @ E.astype(np.float32, copy=False)
    else:
        U -= U @ E
    return U @ V.T


def by_mixed(G: Array) -> Array | None:
    """Return the polar factor of a square or tall matrix, with eigenvectors V from single precision, or None.

    V is orthogonal, and its columns eigenvectors, to some 1e-6 with errors known to first order.  The short
    columns of W = G V need more: they are made orthogonal to all others in double precision.
    """
    if not (is_numpy(G) and G.dtype == np.float64 and G.shape[1] >= LARGE):
        return by_eigh(G)
    from scipy.linalg.lapack import ssyevd

    scale = float(np.max(np.abs(G)))
    if not 0.0 < scale < math.inf:
        return None
    if not 1e-12 < scale < 1e12:
        G = G / scale
    single = G.astype(np.float32)
    A = single.T @ single
    if float(np.trace(A)) ** 2 < FLAT * A.shape[0] * norm2(A):
        return by_eigh(G)
    squares, V, _ = ssyevd(A.T, overwrite_a=1)
    short = int(np.sum(squares < TAIL**2 * squares[-1]))
    if short > MOST * squares.size:
        return None
    single, V = V, V.astype(np.float64)
    W = G @ V
    lengths = np.sqrt(np.einsum("ij,ij->j", W, W))
    if short > 0:
        # G V = W for any V: small changes of V need no more than single precision, if W is recomputed.
        coupling = W[:, short:].astype(np.float32).T @ W[:, :short].astype(np.float32)
        coupling /= np.square(lengths[short:, None], dtype=np.float32)
        V_short = V[:, :short] - single[:, short:] @ coupling
        W_short = G @ V_short
        R = _eigenvectors(W_short)
        W_short, V_short = W_short @ R, V_short @ R
        shortest = np.sqrt(np.einsum("ij,ij->j", W_short, W_short))
        if not shortest.min() > 4.0 * math.sqrt(G.shape[0]) * eps_of(G) * lengths[-1]:
            return None
        W[:, :short], V[:, :short], lengths[:short] = _orthogonalised_tail(W_short, V_short, shortest)
    W /= lengths
    E = W.T @ W
    E += V.T @ V
    E = plus_diagonal(E, -2.0)
    if not np.einsum("ij,ij->j", E, E).max() < SMALL_ENOUGH**2:
        return None
    return _corrected(W, V, lengths, E)


def plus_diagonal(A: Array, shift: float) -> Array:
    """Return A + shift I, in place for NumPy arrays."""
    if is_numpy(A):
        A.flat[:: A.shape[1] + 1] += shift
        return A
    return A + shift * namespace(A).eye(A.shape[0], dtype=A.dtype, device=A.device)


def _eigenvectors(W: Array) -> Array:
    """Return the eigenvectors of W^T W, eigenvalues ascending."""
    A = W.T @ W
    if is_numpy(A):
        from scipy.linalg.lapack import dsyevd, ssyevd  # in single precision NumPy's takes 50 % longer

        # A.T is A in LAPACK's order, which saves a copy.
        return (ssyevd if A.dtype == np.float32 else dsyevd)(A.T, overwrite_a=1)[1]
    return namespace(A).linalg.eigh(A)[1]


def _orthogonalised_tail(W: Array, V: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """Return W and V with the short columns of W made orthogonal to each other.

    The error of W^T W is relative to its longest column.  Among the short columns alone it is relative to the
    longest of those: they get an eigenvalue problem of their own, then the shortest of them, ...
    """
    from array_api_compat import array_namespace  # NumPy has all of these names only from 2.1 on

    xp = array_namespace(W)
    count = int(lengths.shape[0])
    while True:
        top = float(lengths[count - 1])
        short = int(xp.sum(xp.astype(lengths[:count] < SPREAD * top, xp.int64)))
        if short == 0 or short == count or eps_of(W) * (top / float(lengths[0])) ** 2 < eps_of(W) ** 0.5:
            return W, V, lengths
        R = _eigenvectors(W[:, :short])
        W = xp.concat([W[:, :short] @ R, W[:, short:]], axis=1)
        V = xp.concat([V[:, :short] @ R, V[:, short:]], axis=1)
        lengths = xp.sqrt(xp.sum(W * W, axis=0))
        if not float(xp.min(lengths)) > 0.0:
            return W, V, lengths
        count = short


@functools.lru_cache
def schedule(lowest: float) -> tuple[tuple[float, float, float], ...]:
    """Return (a, b, c) of odd quintics a x + b x^3 + c x^5 whose composition maps [lowest, 1] near 1.

    Each is the best uniform approximation of 1 on the image of the interval under its predecessors, divided
    by its maximum to stay in [0, 1]; from 0.8 on it is Newton-Schulz's (15 x - 10 x^3 + 3 x^5) / 8, which
    converges cubically.
    """
    found = []
    while lowest < 1.0 - 1e-9:
        a, b, c = 15.0 / 8.0, -10.0 / 8.0, 3.0 / 8.0
        if lowest < 0.8:
            a, b, c, error = _best_quintic(lowest)
            peak = (1.0 + error) * (1.0 + 1e-13)  # with a margin for the rounding of the coefficients
            a, b, c = a / peak, b / peak, c / peak
        found.append((a, b, c))
        lowest = a * lowest + b * lowest**3 + c * lowest**5
    return tuple(found)


def _best_quintic(lowest: float) -> tuple[float, float, float, float]:
    """Return the odd quintic nearest to 1 on [lowest, 1], and its error, by Remez's exchange."""
    points = np.linspace(lowest, 1.0, 4)
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    for _ in range(200):
        a, b, c, error = np.linalg.solve(
            np.stack([points, points**3, points**5, signs], axis=1), np.ones(4)
        ).tolist()
        # The derivative is a quadratic in x^2; its roots are the extrema inside.
        root = math.sqrt(max(9.0 * b * b - 20.0 * a * c, 0.0))
        extrema = sorted(math.sqrt((-3.0 * b + sign * root) / (10.0 * c)) for sign in (-1.0, 1.0))
        moved = np.array([lowest, *extrema, 1.0])
        if np.abs(moved - points).max() < 1e-13:
            break
        points = moved
    return a, b, c, error


def _step(X: Array, coefficients: tuple[float, float, float], A: Array = None, A2: Array = None) -> Array:
    """Return a X + b X A + c X A^2 with A = X^T X (overwritten if given)."""
    a, b, c = coefficients
    if A is None:
        A = X.T @ X
        A2 = A.T @ A  # for X.T @ X NumPy computes one triangle only
    A2 *= c
    A *= b
    A2 += A
    return X @ plus_diagonal(A2, a)


def steps_by_products(G: Array, coefficients: tuple[tuple[float, float, float], ...]) -> Array:
    """Return the polynomials of a nonzero G of moderate size, divided by a bound of its spectral norm.

    The bound is the Schatten-8 norm, the fourth root of ||(G^T G)^2||_F, which the first step needs anyway.
    """
    A = G.T @ G
    A2 = A.T @ A
    scale = 1.0 / (norm2(A2) ** 0.125 * (1.0 + 8.0 * eps_of(G)))
    X = _step(scale * G, coefficients[0], scale**2 * A, scale**4 * A2)
    for polynomial in coefficients[1:]:
        X = _step(X, polynomial)
    return X


def by_products(G: Array) -> Array | None:
    """Return the polar factor of a square or tall matrix by products alone, or None if it is singular."""
    tol = 8.0 * math.sqrt(G.shape[1]) * math.sqrt(max(G.shape)) * eps_of(G)
    size = norm(G)
    if not 0.0 < size < math.inf:
        return None
    X = G / size
    for _ in range(ROUNDS):
        X = steps_by_products(X, schedule(LOWEST))
        # Newton-Schulz's cubic: a last step that squares the residual.
        residual = plus_diagonal(X.T @ X, -1.0)
        X = X - 0.5 * (X @ residual)
        if norm(residual) <= math.sqrt(tol) and norm(plus_diagonal(X.T @ X, -1.0)) <= tol:
            return X
    return None
