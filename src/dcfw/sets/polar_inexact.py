"""Inexact polar factors with a proven error bound, which a certificate can include.

A few steps in single precision, with rational functions (or with polynomials, where products are fast), bring
the singular values of a matrix close to 1.  Then :mod:`dcfw.sets.polar_certificate` proves that the answer S
lies in the unit ball, and bounds ||G||_* - <G, S>.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from dcfw._arrays import Array, eps_of, is_numpy, namespace, norm
from dcfw.sets.polar import FEW, by_svd, plus_diagonal, schedule, steps_by_products
from dcfw.sets.polar_certificate import missed

STRONG = (0.03, 2)  # lowest relative singular value and number of the rational steps, for NumPy arrays
MODERATE = 32  # norms between 2^-32 and 2^32 need no scaling in single precision
HEADROOM = 1.25  # the spectral norm is at most about this multiple of the estimate of a few power iterations


def certified(G: Array) -> tuple[Array, float]:
    """Return S with ||S||_2 <= 1 and a bound of ||G||_* - <G, S>, from a few steps in single precision.

    ||G||_* is the largest <G, Z> over the unit ball, so this bounds the error of a linear oracle.  It is
    below 1e-3 ||G||_*, or more if many singular values are below a thirtieth of the largest, which a few
    steps do not bring to 1.  If nothing can be certified, S is that of an SVD, with its rounding as the
    bound.
    """
    from array_api_compat import array_namespace

    m, n = G.shape
    if m < n:
        S, error = certified(G.T)
        return S.T, error
    if m > n:  # G = Q R: the polar factor is Q times that of the square R
        Q, R = namespace(G).linalg.qr(G)
        S, error = certified(R)
        # Q is orthonormal up to rounding only; the slack keeps the answer inside the ball.
        slack = 4.0 * m * eps_of(G)
        return (1.0 - slack) * (Q @ S), error + 2.0 * slack * math.sqrt(n) * norm(G)
    size = norm(G)
    if 0.0 < size < math.inf:
        # Squares must be representable in single precision; a power of two changes nothing else.
        exponent = max(min(math.frexp(size)[1], 1000), -1000)
        scale = 1.0 if abs(exponent) <= MODERATE else 2.0**-exponent
        xp = array_namespace(G)
        scaled = G if scale == 1.0 else scale * xp.astype(G, xp.float64)
        S = _few_steps(scaled)
        bound = None if S is None else missed(scaled, S)
        if bound is not None and math.isfinite(bound):
            return xp.astype(S, G.dtype, copy=False), bound / scale
    S = by_svd(G)
    slack = 4.0 * n * eps_of(G)
    return (1.0 - slack) * S, 2.0 * slack * math.sqrt(n) * size


def _few_steps(G: Array) -> Array | None:
    """Return an approximate polar factor of a square matrix of moderate norm, just inside the unit ball."""
    from array_api_compat import array_namespace

    xp = array_namespace(G)
    X = xp.astype(G, xp.float32)
    X = _rational_steps(X) if is_numpy(X) else steps_by_products(X, schedule(FEW[0])[: FEW[1]])
    if X is None:
        return None
    X *= 1.0 - 2.0 * math.sqrt(G.shape[1]) * float(xp.finfo(xp.float32).eps)
    return xp.astype(X, G.dtype)


@functools.lru_cache
def rational_schedule(lowest: float, steps: int) -> tuple[tuple[float, float, float], ...]:
    """Return (a, b, c) of x (a + b x^2) / (1 + c x^2), whose composition maps [lowest, 1] near 1.

    These are the dynamically weighted Halley iterations of Nakatsukasa, Bai and Gygi (2010): each keeps
    [0, 1], reaches 1 at 1 and (with slope 0) once before, and lifts ``lowest`` as far as possible.
    """
    found = []
    for _ in range(steps):
        square = lowest**2
        root = math.sqrt(1.0 + (4.0 * (1.0 - square) / square**2) ** (1.0 / 3.0))
        a = root + math.sqrt(3.0 - root**2 + (4.0 - 2.0 * square) / (square * root))
        b = (a - 1.0) ** 2 / 4.0
        c = a + b - 1.0
        found.append((a, b, c))
        lowest *= (a + b * square) / (1.0 + c * square)
    return tuple(found)


def _rational_steps(X: Array) -> Array | None:
    """Return the rational functions of X divided by (nearly) an upper bound of its spectral norm.

    x (a + b x^2) / (1 + c x^2) is b/c x + (a - b/c) x / (1 + c x^2): an inverse by Cholesky's factorisation,
    and a product with it (faster than triangular solves), about the work of a quintic but far stronger.
    X is overwritten.
    """
    from scipy.linalg.blas import ssymm, ssymv, ssyrk
    from scipy.linalg.lapack import spotrf, spotri

    # In LAPACK's order; symmetric matrices have an upper triangle only.  Work is in place where possible, as
    # new memory costs as much as a pass of arithmetic.
    X = X.T
    for number, (a, b, c) in enumerate(rational_schedule(*STRONG)):
        A = ssyrk(1.0, X)
        if number == 0:
            # The bound is not proven; the certificate checks that the result lies in the unit ball.
            v = _generic(A.shape[0])
            for _ in range(8):  # power iterations
                v = ssymv(1.0 / float(np.linalg.norm(v)), A, v)
            scale = 1.0 / (HEADROOM * math.sqrt(float(np.linalg.norm(v))))
            X *= scale
            A *= scale**2
        A *= c
        factor, info = spotrf(plus_diagonal(A.T, 1.0).T, overwrite_a=1, clean=0)
        inverse, singular = spotri(factor, overwrite_c=1)
        if info or singular:
            return None
        inverse *= a - b / c
        X = ssymm(1.0, plus_diagonal(inverse.T, b / c).T, X)
    return X.T


@functools.lru_cache
def _generic(n: int) -> Array:
    """Return a fixed vector in general position, in single precision."""
    return np.random.default_rng(0).standard_normal(n).astype(np.float32)
