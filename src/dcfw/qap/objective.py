"""The objective of the quadratic assignment problem, its gradient, and rounding to permutations.

QAPLIB's value of a permutation p is ``sum_ij A[i, j] B[p(i), p(j)]``.  With the permutation matrix
``X[i, p(i)] = 1`` this is the quadratic function ``phi(X) = <A X, X B>``, whose gradient is
``A X B^T + A^T X B``.  (The form ``<A^T X, X B>`` seen in papers equals it only when A or B is
symmetric.)  All functions accept a linear term ``<C, X> = sum_i C[i, p(i)]``.

Values of integer data are exact, so that comparisons of permutations do not depend on rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, is_numpy, namespace, to_numpy

INT64_MAX = 2**63 - 1
LARGEST = 1e150  # of the entries, because values and norms have products of two of them


def evaluate(A: Array, B: Array, permutation: Array, C: Array | None = None) -> int | float:
    """Return ``sum_ij A[i, j] B[p(i), p(j)] + sum_i C[i, p(i)]``.

    Parameters
    ----------
    A, B : square matrices
        Arrays, SciPy sparse arrays or DataFrames; the smaller one is padded with zeros.
    permutation : array of integers, dict or Series
        p, counted from 0; or ``{row of A: place}``, by name if A and B are DataFrames.
    C : matrix, optional
        The linear term.

    Returns
    -------
    int or float
        An exact Python int of any size if all data have an integer (or Boolean) dtype, else a float.

    Examples
    --------
    >>> evaluate([[0, 10**18], [0, 0]], [[0, 100], [0, 0]], [0, 1])
    100000000000000000000
    >>> evaluate([[0.0, 0.5], [0, 0]], [[0, 3, 1], [0, 0, 2], [1, 2, 0]], {0: 1, 1: 2})
    1.0
    """
    if isinstance(permutation, np.ndarray) and type(A) is type(B) is np.ndarray and A.shape == B.shape:
        A, B, C = matrices(A, B, C)
    else:
        from dcfw.qap.labels import assignment
        from dcfw.qap.problem import pose

        problem = pose(A, B, C, None, False)
        A, B, C = problem.whole
        permutation = assignment(permutation, problem.sizes, problem.labels, "permutation")
    return value(A, B, as_permutation(permutation, A.shape[0]), C)


def value(A: Array, B: Array, p: np.ndarray, C: Array | None = None) -> int | float:
    """Return :func:`evaluate` of data that :func:`matrices` and :func:`as_permutation` returned."""
    n = A.shape[0]
    if not all(part is None or part.dtype.kind == "i" for part in (A, B, C)):
        quadratic = float(np.dot(*(part.astype(np.float64, copy=False) for part in _pairs(A, B, p))))
        return quadratic if C is None else quadratic + float(np.sum(C[np.arange(n), p], dtype=np.float64))
    count = min(int(M.data.size if is_sparse(M) else M.size) for M in (A, B))  # of products, at most
    a, b = _pairs(A, B, p)
    if largest(A) * largest(B) * count + (0 if C is None else n * largest(C)) > INT64_MAX:
        a, b = a.astype(object), b.astype(object)
    linear = 0 if C is None else sum(C[np.arange(n), p].tolist())
    return int(np.dot(a, b)) + linear


def gradient(A: Array, B: Array, X: Array, C: Array | None = None) -> Array:
    """Return the gradient ``A X B^T + A^T X B + C`` of ``phi(X) = <A X, X B> + <C, X>``.

    Parameters
    ----------
    A, B : array or SciPy sparse array of shape (n, n)
        The two matrices, of the same backend as X if that is not NumPy.
    X : array of shape (n, n)
        Any point, usually a doubly stochastic matrix.
    C : array of shape (n, n), optional
        The linear term.

    Examples
    --------
    >>> gradient([[0, 3], [1, 0]], [[0, 5], [2, 0]], [[1, 0], [0, 1]])
    array([[17.,  0.],
           [ 0., 17.]])
    """
    X = _validate.array(X, "X", ndim=2)
    if is_numpy(X):
        A, B, C = matrices(A, B, C)
    _same_shape(X, A, "X")
    transposed = (lambda M: M.T) if is_numpy(X) else namespace(X).matrix_transpose
    G = A @ (X @ transposed(B)) + transposed(A) @ (X @ B)
    return G if C is None else G + C


def round_to_permutation(X: Array) -> np.ndarray:
    """Return the permutation whose matrix is nearest to ``X`` in the Frobenius norm.

    All permutation matrices have the same norm, so it maximises ``<X, P>``: a linear assignment problem.

    Examples
    --------
    >>> round_to_permutation([[0.1, 0.7, 0.2], [0.6, 0.2, 0.2], [0.3, 0.1, 0.6]])
    array([1, 0, 2])
    """
    X = to_numpy(_validate.array(X, "X", ndim=2))
    if X.shape[0] != X.shape[1]:
        raise ValueError(f"X must be square, got shape {X.shape}")
    return nearest(X.astype(np.float64, copy=False))


def nearest(X: np.ndarray) -> np.ndarray:
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(X, maximize=True)[1], dtype=np.int64)


def matrices(A: Array, B: Array, C: Array | None = None) -> tuple[Array, Array, Array | None]:
    """Return A, B and C checked: square, of one size, int64 or float64, dense or CSR."""
    A, B = square(A, "A"), square(B, "B")
    C = None if C is None else dense(square(C, "C"))
    _same_shape(B, A, "B")
    if C is not None:
        _same_shape(C, A, "C")
    return A, B, C


def as_permutation(permutation: Array, n: int, name: str = "permutation") -> np.ndarray:
    """Return ``permutation`` as a new int64 array after checking that it permutes 0, ..., n - 1."""
    if np.ma.is_masked(permutation):
        raise ValueError(f"{name} has masked entries; every place needs one")
    p = np.asarray(permutation)
    if p.dtype.kind not in "iu" or p.shape != (n,):
        raise ValueError(f"{name} must be {n} integers, got shape {p.shape} and dtype {p.dtype}")
    if not np.array_equal(np.sort(p), np.arange(n)):
        hint = "; it counts from 1: subtract 1" if np.array_equal(np.sort(p), np.arange(1, n + 1)) else ""
        raise ValueError(f"{name} must hold each of 0, ..., {n - 1} once{hint}")
    return p.astype(np.int64)


def largest(M: Array) -> int:
    entries = M.data if is_sparse(M) else M
    return max(abs(int(entries.min())), abs(int(entries.max()))) if entries.size else 0


def is_sparse(M: Array) -> bool:
    """Return whether ``M`` is a SciPy sparse matrix or array, without importing SciPy."""
    return type(M) is not np.ndarray and hasattr(M, "tocsr")


def dense(M: Array) -> Array:
    return M.toarray() if is_sparse(M) else M


def symmetric(M: Array) -> bool:
    difference = M != M.T
    return difference.nnz == 0 if is_sparse(M) else not difference.any()


def square(M: Array, name: str) -> Array:
    """Return a square matrix, int64 or float64, dense or CSR without duplicate entries."""
    if is_sparse(M):
        M = M.tocsr(copy=True)  # not the caller's matrix
        M.sum_duplicates()
        M.data = bounded(_validate.array(M.data, f"{name}.data", floating=False), name)
    elif not _is_float64(M):
        M = bounded(to_numpy(_validate.array(M, name, ndim=2, floating=False)), name)
    if M.shape[0] != M.shape[1] or M.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix, got shape {tuple(M.shape)}")
    return M


def _is_float64(M: Any) -> bool:
    """Return whether M is a float64 matrix with finite entries below ``LARGEST``, which needs no checks."""
    if type(M) is not np.ndarray or M.dtype != np.float64 or M.ndim != 2:
        return False
    with np.errstate(over="ignore"):
        return bool(np.vdot(M, M) <= LARGEST**2)


def bounded(entries: Any, name: str) -> np.ndarray:
    """Return finite entries as int64 or float64; refuse those whose products would overflow."""
    if entries.dtype.kind in "biu":
        if entries.dtype == np.uint64 and entries.size and int(entries.max()) > INT64_MAX:
            raise ValueError(f"{name} has entries above 2**63 - 1; rescale it or use floats")
        integers = np.asarray(entries, dtype=np.int64)
        if integers.size and int(integers.min()) < -INT64_MAX:
            raise ValueError(f"{name} has the entry -2**63, which has no negative; rescale it or use floats")
        return integers
    floats = np.asarray(entries, dtype=np.float64)
    if floats.size and float(np.abs(floats).max()) > LARGEST:
        raise ValueError(f"{name} has entries beyond {LARGEST:g}, whose products overflow; rescale it")
    return floats


def _same_shape(M: Array, A: Array, name: str) -> None:
    if tuple(M.shape) != tuple(A.shape):
        raise ValueError(f"{name} must have the shape of A, {tuple(A.shape)}, got {tuple(M.shape)}")


def _pairs(A: Array, B: Array, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors A[i, j] and B[p(i), p(j)] of the sum, without pairs absent from a sparse matrix."""
    if is_sparse(A) and is_sparse(B):
        n = A.shape[0]
        a, b, q = A.tocoo(), B.tocoo(), np.argsort(p)
        at_a = a.row.astype(np.int64) * n + a.col
        at_b = q[b.row] * n + q[b.col]
        _, in_a, in_b = np.intersect1d(at_a, at_b, assume_unique=True, return_indices=True)
        return a.data[in_a], b.data[in_b]
    if is_sparse(A):
        a = A.tocoo()
        return a.data, B[p[a.row], p[a.col]]
    if is_sparse(B):
        b, q = B.tocoo(), np.argsort(p)
        return A[q[b.row], q[b.col]], b.data
    return A.ravel(), B.take(p, axis=0).take(p, axis=1).ravel()
