"""Leading singular pairs and lowest eigenpairs by a Lanczos method, for NumPy matrices, with a proven error.

The Krylov basis is reorthogonalised in full.  The start mixes the caller's guess with a fixed generic vector,
because an exact eigenvector spans an invariant subspace.  When the basis is full, the method restarts from
the best vector so far.

The residual of a pair only shows that *some* eigenvalue is near.  The returned error is proven, in the first
of these ways that shows it to be no larger than rounding or the residual:

1. K is [T, B'; B, C] with T and B known and C the rest.  C is at least -r I, with r its Frobenius norm (or
   its trace, for C <= 0), which follows from K's and T's.  So K's lowest eigenvalue is at least that of a
   tridiagonal matrix, T with beta and -r added.
2. If K - (value - error) I has a Cholesky factorisation, no eigenvalue lies below value - error.
3. A full decomposition, up to a size at which it is affordable.  Above, the error of 2. grows until the
   factorisation exists.

The error of 1. and 2. includes rounding, a small multiple of n eps ||K||.

Singular vectors are eigenvectors of K = -G'G: a relative error of eps in the largest eigenvalue is one of
eps / 2 in the largest singular value.  Matrices far from size 1 are scaled by a power of two first.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dcfw.sets.polar_certificate import cholesky

EPS = 2.0**-52
TOL = 1e-10  # the relative residual at which the search ends, unless G's precision is lower
BASIS = 80  # vectors kept before a restart; the reorthogonalisation costs as much as a product with 80 rows
CHECK = 4  # steps between two solutions of the small problem
FORMED = 100  # up to this order G'G is formed at once, which saves one of two products in every step
PATIENCE = 24  # steps after which it is formed in any case: a factorisation will probably need it
SAFE = 100  # matrices whose largest entry is between 2^-100 and 2^100 need no scaling


def leading_singular_pair(
    G: np.ndarray, guess: np.ndarray | None = None, products: int = 4 * BASIS, affordable: int = 0
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return unit vectors u, v, sigma = <u, G v> and a bound of the largest singular value minus sigma.

    G is a NumPy matrix, and ``guess`` a guess of the singular vector on its shorter side (v, if G is square).
    The search ends at a relative residual of 1e-10 (or the precision of G), or after ``products`` products of
    G^T G with a vector.  Up to a shorter side of ``affordable``, a full decomposition replaces what cannot be
    proven.
    """
    m, n = G.shape
    if m < n:
        v, u, sigma, error = leading_singular_pair(G.T, guess, products, affordable)
        return u, v, sigma, error
    scaled, exponent, tol = _scaled(G)
    v, _, error = _lowest(_Gram(scaled), guess, tol, products, affordable)
    w = scaled @ v
    sigma = math.sqrt(float(w @ w))
    u = w / sigma if sigma > 0.0 else np.eye(1, m)[0]
    if error > 0.0:  # the square of the largest is at most sigma^2 + error
        error /= sigma + math.sqrt(sigma**2 + error)
    return u.astype(G.dtype), v.astype(G.dtype), _unscaled(sigma, exponent), _unscaled(error, exponent)


def lowest_eigenpair(
    G: np.ndarray, guess: np.ndarray | None = None, products: int = 4 * BASIS, affordable: int = 0
) -> tuple[np.ndarray, float, float]:
    """Return a unit vector v, the value <v, G v> and a bound of it minus the lowest eigenvalue.

    The eigenvalues are those of the symmetric part of G; see :func:`leading_singular_pair`.
    """
    scaled, exponent, tol = _scaled(G)
    v, value, error = _lowest(_Symmetric(0.5 * (scaled + scaled.T)), guess, tol, products, affordable)
    return v.astype(G.dtype), _unscaled(value, exponent), _unscaled(error, exponent)


class _Symmetric:
    """A symmetric matrix K: its products, its norm, and a bound of the part outside a Krylov space."""

    def __init__(self, K: np.ndarray) -> None:
        self.n = len(K)
        self.K = K
        self.squares: float = float(np.vdot(K, K))
        self.size = math.sqrt(self.squares / self.n)  # at most the largest |eigenvalue|, and 0 only for K = 0

    def times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.K @ v)

    def matrix(self) -> np.ndarray:
        return self.K

    def rest(self, T: np.ndarray, beta: float) -> float:
        """Return a bound of -C for the block C of K outside the space in which it is T."""
        rest = self.squares - float(np.vdot(T, T)) - 2.0 * beta**2
        return math.sqrt(max(rest, 0.0) + self.n * EPS * self.squares)


class _Gram:
    """The same for -G'G, which is formed only if many products, or all of it, are needed."""

    def __init__(self, G: np.ndarray) -> None:
        self.n: int = G.shape[1]
        self.G = G
        self.K: np.ndarray | None = None
        self.left = PATIENCE if self.n > FORMED else 0
        self.squares = float(np.vdot(G, G))
        self.size = self.squares / self.n

    def times(self, v: np.ndarray) -> np.ndarray:
        if self.left > 0:
            self.left -= 1
            return np.asarray(-((self.G @ v) @ self.G))
        return np.asarray(self.matrix() @ v)

    def matrix(self) -> np.ndarray:
        if self.K is None:
            self.K = -(self.G.T @ self.G)
        return self.K

    def rest(self, T: np.ndarray, beta: float) -> float:
        return max(self.squares + float(np.trace(T)), 0.0) + self.n * EPS * self.squares


def sparse_singular_pair(
    G: Any, guess: np.ndarray | None, wanted: float, rough: float, careful: bool = True
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return unit vectors u, v with nearly the largest <u, G v>, and an estimate of the difference.

    G has products ``G @ v`` and ``G.T @ u``.  The search ends when the error is at most ``wanted`` and
    ``rough`` times the value (or rounding).  The error (the residual plus the gain of the last steps) is a
    bound unless a larger singular value was missed, which generic vectors in the start (two if ``careful``)
    make unlikely.
    """
    transposed = G.T
    times = lambda v: transposed @ (G @ v)  # noqa: E731
    v, sigma, error = _climb(times, G.shape[1], guess, wanted, rough, careful, root=True)
    w = G @ v
    size = float(np.linalg.norm(w))
    return w / size if size else w, v, error + max(sigma - size, 0.0)


def sparse_lowest_vector(
    G: Any, guess: np.ndarray | None, wanted: float, rough: float, careful: bool = True
) -> tuple[np.ndarray, float]:
    """Return a unit vector v with nearly the lowest <v, G v>, likewise, for the symmetric part of G."""
    transposed = G.T
    times = lambda v: -0.5 * (G @ v + transposed @ v)  # noqa: E731
    v, top, error = _climb(times, G.shape[0], guess, wanted, rough, careful, root=False)
    return v, error + max(top + float(v @ (G @ v)), 0.0)


def _climb(
    times: Any, n: int, guess: np.ndarray | None, wanted: float, rough: float, careful: bool, *, root: bool
) -> tuple[np.ndarray, float, float]:
    """Return nearly the leading eigenvector of a symmetric matrix, its value and the error of that.

    With ``root`` the matrix is positive semidefinite, and value and error are those of the root.  With
    ``careful`` Lanczos works on two vectors, the guess and a generic one, and checks less often whether it
    gains more: near an optimum on a face eigenvalues cluster at the largest one, and a single vector ends at
    another one of them in one of twenty calls.
    """
    if n < 8:
        values, vectors = np.linalg.eigh(times(np.eye(n)))
        return vectors[:, -1], math.sqrt(max(float(values[-1]), 0.0)) if root else float(values[-1]), 0.0
    width, look = (2, 2 * CHECK) if careful else (1, CHECK)
    block = _start(n, guess)[:, None]
    if careful:
        block = np.linalg.qr(np.column_stack([block, np.roll(_generic(n), 1 + n // 2)]))[0]
    basis = min(n, BASIS) & ~1
    V = np.empty((basis + width, n))
    before = 0.0 if root else -math.inf
    for _ in range(8):  # restarts
        T = np.zeros((basis, basis))
        V[:width] = block.T
        for k in range(width, basis + 1, width):
            W = times(V[k - width : k].T) if careful else times(V[k - 1])[:, None]
            T[:k, k - width : k] = V[:k] @ W
            T[k - width : k, :k] = T[:k, k - width : k].T
            for _ in range(2):
                W -= V[:k].T @ (V[:k] @ W)
            Q, R = _orthonormal(W)
            closed = float(np.abs(R).max()) <= 8.0 * EPS * float(np.abs(T[:k, k - width : k]).max())
            if k == basis or closed or k % look == 0:
                values, vectors = np.linalg.eigh(T[:k, :k])
                value, size = float(values[-1]), float(np.abs(values).max())
                error = 0.0 if closed else float(np.linalg.norm(R @ vectors[-width:, -1]))
                if root:
                    value = size = math.sqrt(max(value, 0.0))
                    error = math.sqrt(value**2 + error) - value
                if not closed:  # the residual shows that some eigenvalue is near, perhaps not the largest
                    error += max(value - before, 0.0)
                before = value
                done = closed or error <= max(min(wanted, rough * size), 4.0 * n * EPS * size)
                if k == basis or done:
                    break
            if careful:  # a column of W at rounding level leaves one of Q that is not orthogonal to V
                Q = _orthonormal(Q - V[:k].T @ (V[:k] @ Q))[0]
            V[k : k + width] = Q.T
        block = _orthonormal(V[:k].T @ vectors[:, : -width - 1 : -1])[0]
        if done:
            break
    return block[:, 0], value, error


def _orthonormal(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Q with orthonormal columns and R with W = Q R."""
    if W.shape[1] > 1:
        return np.linalg.qr(W)
    size = float(np.linalg.norm(W))
    return W / (size or 1.0), np.array([[size]])


def _lowest(
    K: _Symmetric | _Gram, guess: np.ndarray | None, tol: float, products: int, affordable: int
) -> tuple[np.ndarray, float, float]:
    """Return the lowest eigenpair of K and a proven bound of the error of its value."""
    v, T, beta = _search(K, guess, tol, products)
    if K.size == 0.0:
        return v, 0.0, 0.0
    w = K.times(v)
    value = float(v @ w)
    residual = float(np.linalg.norm(w - value * v))
    size = max(K.size, float(np.abs(T).max()))  # at most ||K||
    rounding = 4.0 * K.n * EPS * size
    if K.n > affordable or residual <= 10.0 * tol * size:
        wanted, rest = max(rounding, residual), K.rest(T, beta)
        if -rest >= value - wanted:  # the lowest eigenvalue is below every entry of the diagonal
            bordered = np.pad(T, (0, 1))
            bordered[-1, -1] = -rest
            bordered[-1, -2] = bordered[-2, -1] = beta
            error = value - float(np.linalg.eigvalsh(bordered)[0])
            if error <= wanted:
                return v, value, max(error, 0.0) + rounding
        error = max(rounding, 1e-3 * residual)
        while (proven := cholesky(K.matrix(), error - value)) is None and (
            K.n > affordable or error < residual
        ):
            error = max(16.0 * error, residual)
        if proven is not None:
            return v, value, error + rounding
    from scipy.linalg import eigh

    values, vectors = eigh(K.matrix(), subset_by_index=[0, 0], check_finite=False)
    return vectors[:, 0].copy(), float(values[0]), 0.0


def _search(
    K: _Symmetric | _Gram, guess: np.ndarray | None, tol: float, products: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return nearly the lowest eigenvector, the last T, and its beta."""
    n = K.n
    v, basis = _start(n, guess), min(n, BASIS)
    V = np.empty((basis + 1, n))
    spent, converged = 0, False
    while not converged and spent < products:
        # Lanczos: K V = V T + beta v_{k+1} e_k^T with T tridiagonal.
        T = np.zeros((basis, basis))
        V[0] = v
        for k in range(basis):
            spent += 1
            w = K.times(V[k])
            T[k, k] = float(w @ V[k])
            before = float(np.linalg.norm(w))
            for _ in range(2):
                w -= (V[: k + 1] @ w) @ V[: k + 1]
            beta = float(np.linalg.norm(w))
            if not beta > 8.0 * EPS * before:  # rounding, which ends the Krylov space
                beta = 0.0
            full = k + 1 == basis or spent >= products
            if full or beta == 0.0 or k % CHECK == CHECK - 1:
                values, vectors = np.linalg.eigh(T[: k + 1, : k + 1])
                converged = beta * abs(vectors[k, 0]) <= tol * np.abs(values).max()
                if full or converged:
                    break
            V[k + 1] = w / beta
            T[k, k + 1] = T[k + 1, k] = beta
        v = vectors[:, 0] @ V[: k + 1]
        v /= np.linalg.norm(v)
    return v, T[: k + 1, : k + 1], beta


def _scaled(G: np.ndarray) -> tuple[np.ndarray, int, float]:
    """Return G / 2^exponent in double precision, the exponent (0 for moderate entries) and the tolerance."""
    largest = max(float(G.max()), -float(G.min()))
    if not math.isfinite(largest):
        raise np.linalg.LinAlgError("G has entries that are NaN or infinite.")
    exponent = math.frexp(largest)[1]
    tol = max(TOL, 4.0 * float(np.finfo(G.dtype).eps))
    G = G.astype(np.float64, copy=False)
    return (G, 0, tol) if abs(exponent) <= SAFE else (np.ldexp(G, -exponent), exponent, tol)


def _unscaled(number: float, exponent: int) -> float:
    """Return number * 2^exponent, infinite on overflow."""
    return number * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)


def _start(n: int, guess: np.ndarray | None) -> np.ndarray:
    """Return a unit vector near ``guess`` with a part in every direction, deterministically."""
    start = _generic(n) if guess is None else guess + 0.05 * _generic(n)
    return np.asarray(start / np.linalg.norm(start))


@functools.lru_cache(maxsize=16)
def _generic(n: int) -> np.ndarray:
    """Return a fixed unit vector of length ``n`` in general position."""
    vector = np.random.default_rng(n).standard_normal(n)
    return np.asarray(vector / math.sqrt(float(vector @ vector)))
