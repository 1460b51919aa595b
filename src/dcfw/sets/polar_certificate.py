"""A proof that S is nearly the polar factor of G: ||S||_2 <= 1, and a bound of ||G||_* - <G, S>.

- ||S||_2 <= 1 if I - S^T S is positive semidefinite, which a Cholesky factorisation shows.
- ||G||_* <= ||B||_F ||L||_F whenever G = B L^T (Hölder's inequality), with equality for
  L L^T = H = (G^T G)^(1/2).  If S is near the polar factor then S^T G is near H, so a triangular L comes
  from a product and a Cholesky factorisation in single precision.  An error in L makes the bound larger, not
  wrong: only the solution of B L^T = G, two norms and <G, S> have to be right, in double precision.

With S = U f(Sigma) V^T the bound is a sum of sigma (1/f - f) / 2, which is sigma (1 - f), the true
difference, to first order in 1 - f.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw._arrays import Array, inner, is_numpy, namespace, norm, norm2

# Added to S^T G, relative to the root mean square of the singular values: far above rounding in single
# precision, and the right size of L where S falls short of a singular vector
SHIFT = 1e-4


def missed(G: Array, S: Array) -> float | None:
    """Return a bound of ||G||_* - <G, S> for square G of moderate size, None unless ||S||_2 <= 1."""
    from array_api_compat import array_namespace

    xp = array_namespace(G)
    k = int(G.shape[1])
    single = xp.astype(G, xp.float32, copy=False)
    M = xp.astype(S, xp.float32, copy=False).T @ single
    G, S = xp.astype(G, xp.float64, copy=False), xp.astype(S, xp.float64, copy=False)
    if is_numpy(S):
        from scipy.linalg.blas import dsyrk

        minus_gram = dsyrk(-1.0, S.T).T  # one triangle
    else:
        minus_gram = -(S.T @ S)
    if cholesky(minus_gram, 1.0 - 8.0 * k * 2.0**-52, overwrite=True) is None:
        return None
    size = norm(G)
    shift = SHIFT * size / math.sqrt(k)
    while (L := cholesky(M, shift)) is None:  # M is symmetric up to rounding
        shift *= 16.0
        if not shift < size:
            return None
    largest = _product_of_norms(G, single, L)
    # Sums of k^2 terms, and k^1.5 rounding errors in the solution of a triangular system.
    rounding = 8.0 * k**2 * 2.0**-52
    return largest - inner(G, S) + rounding * (largest + math.sqrt(k) * size)


def _product_of_norms(G: Array, single: Array, L: Array) -> float:
    """Return ||B||_F ||L||_F and a bound, up to rounding, of ||G - B L^T||_*, added, with B L^T nearly G.

    Single precision (``single`` is G rounded to it) is enough for B: the bound includes the remainder of G.
    """
    xp = namespace(G)
    if is_numpy(G):
        from scipy.linalg.blas import dtrmm, strsm

        # In LAPACK's order transposes need no copy: L B^T = G^T.
        B = strsm(1.0, L.T, single.T, trans_a=1).T.astype(np.float64)
        L = L.astype(np.float64)
        norms = norm2(B) * norm2(L)
        rest = dtrmm(1.0, L.T, B.T, trans_a=1, overwrite_b=1).T
        rest -= G
    else:
        B, L = (xp.astype(M, G.dtype) for M in (xp.linalg.solve(L, single.T).T, L))
        norms = norm2(B) * norm2(L)
        rest = G - B @ L.T
    return math.sqrt(norms) + math.sqrt(G.shape[1]) * norm(rest)


def cholesky(A: Array, shift: float, overwrite: bool = False) -> Array | None:
    """Return the lower triangular L with L L^T = A + shift I, None if there is none; reads one triangle."""
    xp = namespace(A)
    if is_numpy(A):
        from scipy.linalg.lapack import dpotrf, spotrf

        A = A if overwrite else A.copy()
        A.flat[:: A.shape[1] + 1] += shift
        # In LAPACK's order the lower triangle of A is the upper one of A.T.
        factor, info = (spotrf if A.dtype == np.float32 else dpotrf)(A.T, overwrite_a=1)
        return factor.T if info == 0 else None
    try:
        A = xp.tril(A) + xp.tril(A, k=-1).T
        factor = xp.linalg.cholesky(A + shift * xp.eye(A.shape[0], dtype=A.dtype, device=A.device))
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    return factor if bool(xp.all(xp.isfinite(factor))) else None
