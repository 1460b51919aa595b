"""Gradients of :class:`~dcfw.qap.quadratics.MatrixQuadratic` functions, compiled.

At a permutation matrix most of the work is a gather; at any other matrix it is matrix products.  Both are
called from the loops of :mod:`dcfw.qap.compiled`, :mod:`dcfw.qap.blended` and :mod:`dcfw.qap.faq`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from dcfw._compiling import njit
from dcfw.qap.quadratics import MatrixQuadratic

Packed = namedtuple("Packed", "P Q U V R ends left right weight C")
"""A MatrixQuadratic as the kernels take it: the pairs, the thin pairs side by side, the rest.

V is transposed, so that a permutation moves its rows; ``ends[k]`` is where thin pair k ends in U and V.
"""


def pack(f: MatrixQuadratic) -> Packed:
    """Return f's matrices as the kernels take them."""
    n, none = f.n, np.empty((0, 0))
    stack = [np.ascontiguousarray(M, dtype=np.float64) for pair in f.pairs for M in pair]
    P, Q = (np.array(stack[k::2]).reshape(len(f.pairs), n, n) for k in (0, 1))
    U = np.ascontiguousarray(np.hstack([np.empty((n, 0)), *(U for U, _, _ in f.thin)]))
    V = np.ascontiguousarray(np.vstack([np.empty((0, n)), *(V for _, V, _ in f.thin)]).T)
    R = np.array([Q for _, _, Q in f.thin]).reshape(len(f.thin), n, n)
    ends = np.cumsum([len(V) for _, V, _ in f.thin], dtype=np.int64)
    sides = [none if M is None else np.ascontiguousarray(M) for M in (f.left, f.right)]
    C = none if f.C is None else np.ascontiguousarray(f.C)
    return Packed(P, Q, U, V, R, ends, sides[0], sides[1], f.weight, C)


@njit()
def _thin_products(U, V, R, ends, p, gathered, product, out):  # type: ignore[no-untyped-def]
    """Write the sum of U_k V_k X R_k to out, X the permutation matrix of p."""
    n, r = U.shape
    T = product.reshape(n * n)[: r * n].reshape(r, n)
    start = 0
    for k in range(R.shape[0]):
        end = ends[k]
        W = gathered.reshape(n * n)[: n * (end - start)].reshape(n, end - start)
        for i in range(n):
            row = W[p[i]]
            for j in range(end - start):
                row[j] = V[i, start + j]
        np.dot(W.T, R[k], T[start:end])
        start = end
    np.dot(U, T, out)


@njit()
def _add(A, out):  # type: ignore[no-untyped-def]
    """Add A to out.  (Loops like this one are compiled in a fraction of the time that ``out += A`` takes.)"""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += A[i, j]


@njit()
def gradient(f, X, left, right, out):  # type: ignore[no-untyped-def]
    """Write the gradient at X to out; ``left`` and ``right`` are scratch."""
    n = X.shape[0]
    linear = f.C.shape[0] > 0
    for i in range(n):
        for j in range(n):
            out[i, j] = f.weight * X[i, j] + (f.C[i, j] if linear else 0.0)
    r = f.U.shape[1]
    if r > 0:
        T = left.reshape(n * n)[: r * n].reshape(r, n)
        W = right.reshape(n * n)[: r * n].reshape(r, n)
        np.dot(f.V.T, X, T)
        start = 0
        for k in range(f.R.shape[0]):
            end = f.ends[k]
            np.dot(T[start:end], f.R[k], W[start:end])
            start = end
        np.dot(f.U, W, left)
        _add(left, out)
    for k in range(f.P.shape[0]):
        np.dot(X, f.Q[k], left)
        np.dot(f.P[k], left, right)
        _add(right, out)
    if f.left.shape[0] > 0:
        np.dot(f.left, X, left)
        _add(left, out)
    if f.right.shape[0] > 0:
        np.dot(X, f.right, left)
        _add(left, out)


@njit()
def vertex_gradient(f, p, gathered, product, out):  # type: ignore[no-untyped-def]
    """Write the gradient at the permutation matrix of p to out."""
    n = p.shape[0]
    P, Q, left, right, C = f.P, f.Q, f.left, f.right, f.C
    thin = f.R.shape[0] > 0
    if thin:
        _thin_products(f.U, f.V, f.R, f.ends, p, gathered, product, out)
    elif P.shape[0] == 0:
        for i in range(n):
            for j in range(n):
                out[i, j] = 0.0
    for k in range(P.shape[0]):
        Qk = Q[k]
        for i in range(n):
            row = Qk[p[i]]
            for j in range(n):  # a slice assignment would cost more than the copy
                gathered[i, j] = row[j]
        if k == 0 and not thin:
            np.dot(P[k], gathered, out)
        else:
            np.dot(P[k], gathered, product)
            _add(product, out)
    if right.shape[0] > 0:
        for i in range(n):
            row = right[p[i]]
            for j in range(n):
                out[i, j] += row[j]
    if left.shape[0] > 0:
        for i in range(n):
            for j in range(n):
                out[i, p[j]] += left[i, j]
    if C.shape[0] > 0:
        _add(C, out)
    for i in range(n):
        out[i, p[i]] += f.weight
