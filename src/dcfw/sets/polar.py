"""Polar factors: the orthogonal factor U V^T of a matrix G = U diag(sigma) V^T, five ways.

It is the linear oracle of the spectral-norm ball, the subgradient of the nuclear norm and the nearest
orthogonal matrix, so a solve asks for thousands of them.

``"svd"``       the definition; what the others fall back to when G is (nearly) singular, where the factor
                is not unique
``"eigh"``      G^T G = V Lambda V^T, then polish W = G V.  Three quarters of the work of an SVD.  The squares
                in G^T G cost accuracy in the small singular values, but G = W V^-1 holds whatever V is: the
                columns of W fail to be orthogonal by a small E, whose effect is known to first order
``"mixed"``     the same with V from single precision, which is not quite orthogonal either: two thirds of
                the work of an SVD, and some 1e-11 from it.  For large NumPy arrays in double precision;
                anything else is done by ``"eigh"``.  No default, because gaps are promised to rounding
``"products"``  X <- X q(X^T X) with odd polynomials that keep [0, 1] in [0, 1] and push it towards 1.
                Nothing but matrix products, so it is what GPUs like
``"auto"``      the fastest of those that are right to rounding, for the given array

:mod:`dcfw.sets.polar_inexact` has a faster one that is not exact and says by how much.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of, is_numpy, namespace, norm, norm2

METHODS = ("auto", "svd", "eigh", "mixed", "products")

SMALL = 24
"""Up to this size an SVD beats the Gram matrix: calls cost more than arithmetic."""

SPREAD = 0.03
"""Columns of W shorter than this fraction of the longest are orthogonalised once more among themselves."""

LARGE = 100
"""From this size on eigenvectors in single precision, and what they need afterwards, cost less."""

TAIL, MOST = 0.1, 0.7
"""Columns of W shorter than the first fraction of the longest count as short in :func:`by_mixed`.  If more
than the second fraction of all are short, an SVD is faster."""

FLAT = 0.05
"""Where (sum sigma^2)^2 is below that fraction of n sum sigma^4, few singular values tower above the others:
nearly all columns of W would be short, so :func:`by_mixed` leaves such a matrix to :func:`by_eigh`."""

SMALL_ENOUGH = 6e-5
"""The largest column norm of E in :func:`by_mixed`: a correction leaves terms of second order."""

LOWEST = 1e-3
"""The relative singular value from which one round of polynomial steps leads to 1."""

FEW = (0.05, 4)
"""Lowest relative singular value and number of the polynomial steps where a few are enough."""

ROUNDS = 6
"""After this many rounds a matrix counts as singular; they lift singular values by more than 1e12."""


def polar(G: Array, method: str = "auto") -> Array:
    """Return the orthogonal polar factor U V^T of ``G`` = U diag(sigma) V^T.

    All its singular values are 1, also where G is rank-deficient or zero (it is then one of several
    nearest such matrices).  G need not be square.

    Parameters
    ----------
    G : array of shape (m, n)
        Of floating-point numbers; lists and whole numbers are taken for double precision.
    method : {"auto", "svd", "eigh", "mixed", "products"}
        See the text of the module; all give the same factor up to rounding (some eps times the condition
        number of G), and up to 1e-10 with ``"mixed"``.

    >>> polar(np.array([[0.0, 2.0], [1.0, 0.0]])).round(12)
    array([[0., 1.],
           [1., 0.]])
    """
    method = _validate.choice(method, "method", METHODS)
    G = _validate.array(G, "G", ndim=2)
    if is_numpy(G) and G.dtype.itemsize > 8:  # LAPACK has no extended precision
        G = G.astype(np.float64)
    if method == "auto":
        method = "eigh" if is_numpy(G) and min(G.shape) > SMALL else "svd"
        if not is_numpy(G) and _on_accelerator(G):
            method = "products"
    if method == "svd":
        return by_svd(G)
    if G.shape[0] < G.shape[1]:
        return polar(G.T, method).T
    S = {"mixed": by_mixed, "eigh": by_eigh, "products": by_products}[method](G)
    return by_svd(G) if S is None else S


def _on_accelerator(G: Array) -> bool:
    # Libraries do not agree on what a device is, but all of them name it.
    device = str(getattr(G, "device", "cpu")).lower()
    return any(name in device for name in ("cuda", "gpu", "hip", "mps", "xpu"))


def by_svd(G: Array) -> Array:
    """Return U V^T as the singular value decomposition defines it."""
    U, _, Vt = namespace(G).linalg.svd(G, full_matrices=False)
    return U @ Vt


# -- through the Gram matrix ------------------------------------------------------------------------------


def by_eigh(G: Array) -> Array | None:
    """Return the polar factor of a square or tall matrix, or None if it is too close to singular."""
    xp = namespace(G)
    scale = float(xp.max(xp.abs(G)))
    if not (scale > 0.0 and math.isfinite(scale)):
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
    """Return the polar factor of U D V^-1 to first order in E = U^T U + V^T V - 2 I.

    It is U (I - C) V^T with C_ij = d_i E_ij / (d_i + d_j), and what is left out is of the order of E^2.
    U and E are written over.
    """
    ratio = (1.0 / lengths)[:, None] * lengths[None, :]
    ratio += 1.0
    E /= ratio
    if is_numpy(E):
        # E is small, so single precision has digits enough for the correction.
        U -= U.astype(np.float32, copy=False) @ E.astype(np.float32, copy=False)
    else:
        U -= U @ E
    return U @ V.T


def by_mixed(G: Array) -> Array | None:
    """Return the polar factor of a square or tall matrix, with eigenvectors V from single precision, or None.

    The V of single precision is neither orthogonal nor made of eigenvectors beyond some 1e-6, but both
    errors are known to first order.  Only the short columns of W = G V are too far from orthogonal for that,
    and so they are made orthogonal to the long ones, and to each other, in double precision.
    """
    if not (is_numpy(G) and G.dtype == np.float64 and G.shape[1] >= LARGE):
        return by_eigh(G)
    from scipy.linalg.lapack import ssyevd

    scale = float(np.max(np.abs(G)))
    if not (scale > 0.0 and math.isfinite(scale)):
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
    single = V
    V = V.astype(np.float64)
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
    """Return A + shift I, in A's own memory where that can be."""
    if is_numpy(A):
        A.flat[:: A.shape[1] + 1] += shift
        return A
    return A + shift * namespace(A).eye(A.shape[0], dtype=A.dtype, device=A.device)


def _eigenvectors(W: Array) -> Array:
    """Return the eigenvectors of W^T W, eigenvalues ascending."""
    A = W.T @ W
    if is_numpy(A):
        from scipy.linalg.lapack import dsyevd, ssyevd  # in single precision NumPy's takes half as long again

        # A.T is A in LAPACK's own order; the shape of the answer is that of a matrix without a copy.
        return (ssyevd if A.dtype == np.float32 else dsyevd)(A.T, overwrite_a=1)[1]
    return namespace(A).linalg.eigh(A)[1]


def _orthogonalised_tail(W: Array, V: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """Return W and V with the short columns of W made orthogonal to each other.

    W^T W was formed with an error relative to its longest column.  Among the short ones alone the error is
    relative to the longest of those: an eigenvalue problem of their own, then of the shortest of them, ...
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


# -- by matrix products -----------------------------------------------------------------------------------


@functools.lru_cache
def schedule(lowest: float) -> tuple[tuple[float, float, float], ...]:
    """Return (a, b, c) of odd quintics a x + b x^3 + c x^5 whose composition takes [lowest, 1] near 1.

    Each is the best uniform approximation of 1 on the interval that its predecessors lead to, divided by
    its maximum, so that [0, 1] is never left; from 0.8 on it is Newton-Schulz's (15 x - 10 x^3 + 3 x^5) / 8,
    which converges cubically.

    >>> len(schedule(1e-3))
    8
    """
    found = []
    while lowest < 1.0 - 1e-9:
        if lowest < 0.8:
            a, b, c, error = _best_quintic(lowest)
            peak = (1.0 + error) * (1.0 + 1e-13)  # with room for the rounding of the coefficients
            a, b, c = a / peak, b / peak, c / peak
        else:
            a, b, c = 15.0 / 8.0, -10.0 / 8.0, 3.0 / 8.0
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
    """Return a X + b X A + c X A^2 with A = X^T X (where it is given, it is written over)."""
    a, b, c = coefficients
    if A is None:
        A = X.T @ X
        A2 = A.T @ A  # A is symmetric; written like this, NumPy computes one triangle only
    A2 *= c
    A *= b
    A2 += A
    return X @ plus_diagonal(A2, a)


def steps_by_products(G: Array, coefficients: tuple[tuple[float, float, float], ...]) -> Array:
    """Return what the polynomials make of G divided by an upper bound of its spectral norm.

    The bound is the Schatten-8 norm, the fourth root of ||(G^T G)^2||_F, which the first step needs anyway.
    G is not zero, and of moderate size.
    """
    A = G.T @ G
    A2 = A.T @ A
    scale = 1.0 / (norm2(A2) ** 0.125 * (1.0 + 8.0 * eps_of(G)))
    X = _step(scale * G, coefficients[0], scale**2 * A, scale**4 * A2)
    for polynomial in coefficients[1:]:
        X = _step(X, polynomial)
    return X


def by_products(G: Array, tol: float | None = None) -> Array | None:
    """Return the polar factor of a square or tall matrix by products alone, or None if it is singular.

    Rounds of polynomial steps go on until ||S^T S - I||_F <= ``tol`` (some rounding errors, by default).
    """
    columns = int(G.shape[1])
    if tol is None:
        tol = 8.0 * math.sqrt(columns) * math.sqrt(max(G.shape)) * eps_of(G)
    size = norm(G)
    if not (size > 0.0 and math.isfinite(size)):
        return None
    X = G / size
    for _ in range(ROUNDS):
        X = steps_by_products(X, schedule(LOWEST))
        # Newton-Schulz's cubic: a last step that squares what is left of the residual.
        residual = plus_diagonal(X.T @ X, -1.0)
        X = X - 0.5 * (X @ residual)
        if norm(residual) <= math.sqrt(tol) and norm(plus_diagonal(X.T @ X, -1.0)) <= tol:
            return X
    return None
