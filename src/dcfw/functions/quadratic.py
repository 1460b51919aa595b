"""Quadratics, whose affine gradient makes a step cost one gradient at a vertex."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of, inner, is_numpy, namespace, norm2, to_numpy
from dcfw.functions.base import Function
from dcfw.sets.atoms import Atom, Entries, OneHot, Permutation

DENSE_EIGENVALUES = 1200  # up to this size eigenvalues are computed densely, beyond it by Lanczos
DENSE_OPERATOR = 100  # the same for operators, which are applied to every unit vector
CHOLESKY = 500  # up to this size, a stated positive semidefiniteness is tested by factorisation
CACHE_BYTES = 256 * 2**20  # memory for the gradients at visited vertices in LeastSquares
LONG = 2**15  # above this size, gradients at vertices are not stored if A x is much shorter than x


class Quadratic(Function, trusted=True):
    """The quadratic 1/2 x'Ax + b'x + c.

    Parameters
    ----------
    A : array, SciPy sparse array or matrix, or LinearOperator of shape (n, n)
        Only its symmetric part is used; it need not be definite.
    b : array of shape (n,), optional
    c : float
    convex : bool, optional
        Whether A is positive semidefinite; saves its eigenvalues.  Up to n = 500 a Cholesky factorisation
        tests the statement; beyond, certificates name it as their condition.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> dcfw.functions.Quadratic(np.diag([1.0, -1.0])).weak_convexity
    1.0
    """

    affine_grad = True

    def __init__(self, A: Any, b: Any = None, c: float = 0.0, *, convex: bool | None = None) -> None:
        _validate.same_index(A, b, "b")
        A, self._sparse, self._operator = matrix(A)
        if A.shape[0] != A.shape[1]:
            raise ValueError(f"A must be square, got shape {tuple(A.shape)}")
        if self._sparse:
            A = A if (A.T != A).nnz == 0 else _validate.sparse((A + A.T) * 0.5, "A")
        elif not self._operator:
            A = A if namespace(A).all(A.T == A) else 0.5 * (A + A.T)
        self.A: Any = np.ascontiguousarray(A) if is_numpy(A) else A
        self.n = self.size = int(A.shape[0])
        self.b = None if b is None else _validate.companion(b, "b", self.n, A)
        self.c = _validate.scalar(c, "c")
        self.on_trust = convex is not None and _validate.flag(convex, "convex")
        if convex is not None:
            self.convex = bool(convex)

    @cached_property
    def definite(self) -> bool | None:
        """Whether A is positive semidefinite up to rounding; None if a test would take long."""
        if self._operator or self.n > CHOLESKY:
            return None
        A = self._dense()
        size = float(np.abs(A).sum(axis=1).max(initial=0.0))  # at least the largest eigenvalue
        if size == 0.0:
            return True
        try:
            slack = 8.0 * self.n * eps_of(A if self._sparse else self.A)
            np.linalg.cholesky(A / size + slack * np.eye(self.n))
        except np.linalg.LinAlgError:
            return False
        return True

    def _product(self, x: Array) -> Array:
        flat, A = reshaped(x, (-1,)), self.A
        product = 0.5 * (A.matvec(flat) + A.rmatvec(flat)) if self._operator else A @ flat
        return reshaped(product, x.shape)

    def _linear(self, x: Array) -> Array:
        return reshaped(self.b, x.shape)

    def value(self, x: Array) -> float:
        value = 0.5 * inner(x, self._product(x)) + self.c
        return value if self.b is None else value + inner(self._linear(x), x)

    def grad(self, x: Array) -> Array:
        product = self._product(x)
        return product if self.b is None else product + self._linear(x)

    def grad_at(self, atom: Atom) -> Array:
        if isinstance(atom, Entries | Permutation) and is_numpy(self.A):
            indices, values = atom.support()
            if 4 * len(indices) <= self.n:  # otherwise the copy of the rows costs more than a full product
                product = values @ self.A[indices]
                return (product if self.b is None else product + self.b).reshape(atom.shape)
        if not isinstance(atom, OneHot) or self._operator or _coarser(self.A, atom):
            return self.grad(atom.dense())
        if self._sparse:
            low, high = self.A.indptr[atom.index], self.A.indptr[atom.index + 1]
            column = np.zeros(self.n, dtype=self.A.dtype) if self.b is None else self.b.copy()
            column[self.A.indices[low:high]] += atom.value * self.A.data[low:high]
        else:
            column = atom.value * self.A[atom.index]  # A is symmetric, and its rows are contiguous
            if self.b is not None:
                column += self.b
        return reshaped(column, atom.shape)

    def prefetch(self, atoms: list[Any]) -> bool:
        return not self._operator and all(isinstance(atom, OneHot) for atom in atoms)

    def value_from_grad(self, x: Array, grad: Array) -> float:
        twice = inner(grad, x) if self.b is None else inner(grad + self._linear(x), x)
        return 0.5 * twice + self.c

    def hessian(self, x: Array) -> np.ndarray:
        return self._dense()

    def _dense(self) -> np.ndarray:
        if self._operator:
            return np.stack([self._product(row) for row in np.eye(self.n)])
        return np.asarray(self.A.toarray() if self._sparse else to_numpy(self.A), dtype=np.float64)

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """The smallest and largest eigenvalue of the symmetric part of A."""
        if self.n <= (DENSE_OPERATOR if self._operator else DENSE_EIGENVALUES):
            values = np.linalg.eigvalsh(self._dense())
            # A zero eigenvalue is computed as rounding of either sign, which is not nonconvexity.
            rounding = 4.0 * self.n * eps_of(values) * float(abs(values).max())
            return (0.0 if abs(values[0]) <= rounding else float(values[0])), float(values[-1])
        from dcfw.functions import spectrum

        if self._operator or self._sparse:
            return spectrum.extremes(lambda v: to_numpy(self._product(v)), self.n)
        return spectrum.extremes(self._dense().__matmul__, self.n)

    @property
    def lipschitz(self) -> float:
        low, high = self._extremes
        return max(abs(low), abs(high))

    @property
    def weak_convexity(self) -> float:
        return 0.0 if self.convex else max(-self._extremes[0], 0.0)

    def __repr__(self) -> str:
        return f"Quadratic(n={self.n})"


class LeastSquares(Function, trusted=True):
    """The least-squares loss 1/2 ||Ax - b||^2.

    The gradient at a vertex with one nonzero is a column of A'A; visited columns are cached, since
    Frank-Wolfe returns to the same few vertices.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.LeastSquares(np.eye(2), np.array([1.0, 2.0])).value(np.zeros(2))
    2.5
    """

    affine_grad = True
    convex = True

    def __init__(self, A: Any, b: Any) -> None:
        _validate.same_index(A, b, "b")
        self.A, self._sparse, self._operator = matrix(A, "csc")
        self.m, self.n = (int(size) for size in self.A.shape)
        self.size = self.n
        self.b = _validate.companion(b, "b", self.m, self.A)
        self._columns: OrderedDict[int, Array] = OrderedDict()

    def _forward(self, x: Array) -> Array:
        x = reshaped(x, (-1,))
        return self.A.matvec(x) if self._operator else self.A @ x

    def _backward(self, r: Array) -> Array:
        return self.A.rmatvec(r) if self._operator else self.A.T @ r

    @cached_property
    def _slope0(self) -> Array:
        return -self._backward(self.b)  # the gradient at zero

    def value(self, x: Array) -> float:
        return 0.5 * norm2(self._forward(x) - self.b)

    def grad(self, x: Array) -> Array:
        return reshaped(self._backward(self._forward(x) - self.b), x.shape)

    def grad_at(self, atom: Atom) -> Array:
        if isinstance(atom, Entries) and not self._operator and not _coarser(self.A, atom.values):
            return reshaped(self._backward(self.A[:, atom.indices] @ atom.values - self.b), atom.shape)
        if not isinstance(atom, OneHot) or self._operator or _coarser(self.A, atom):
            return self.grad(atom.dense())
        column = self._columns.get(atom.index)
        if column is None:
            own = self.A[:, [atom.index]].toarray().ravel() if self._sparse else self.A[:, atom.index]
            column = self._backward(own)
            self._store(atom.index, column)
        return reshaped(atom.value * column + self._slope0, atom.shape)

    def has_scores(self) -> bool:
        return self.n > LONG and 2 * self.m <= self.n and is_numpy(self.b)

    def scores_at(self, atom: Atom) -> np.ndarray:
        indices, values = atom.support() if isinstance(atom, Entries | OneHot) else (None, None)
        if indices is None or self._operator or _coarser(self.A, values):
            return np.asarray(self._forward(atom.dense()))
        return np.asarray(self.A[:, indices] @ values)

    def from_scores(self, r: np.ndarray) -> np.ndarray:
        return np.asarray(self._backward(r))

    def prefetch(self, atoms: list[Any]) -> bool:
        """Compute columns of A'A together, in one pass over A."""
        if self._sparse or self._operator or not all(isinstance(atom, OneHot) for atom in atoms):
            return False
        missing = [atom.index for atom in atoms if atom.index not in self._columns]
        if len(missing) > 1 and is_numpy(self.A):
            for index, column in zip(missing, self.A[:, missing].T @ self.A, strict=True):
                self._store(index, column)
        return True

    def _store(self, index: int, column: Array) -> None:
        self._columns[index] = column
        if len(self._columns) * column.nbytes > CACHE_BYTES:
            self._columns.popitem(last=False)

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return 0.5 * (inner(grad + reshaped(self._slope0, x.shape), x) + norm2(self.b))

    def hessian(self, x: Array) -> np.ndarray:
        if self._operator:
            return super().hessian(x)
        gram = self.A.T @ self.A
        return np.asarray(gram.toarray() if self._sparse else to_numpy(gram), dtype=np.float64)

    @cached_property
    def lipschitz(self) -> float:
        if min(self.m, self.n) <= (DENSE_OPERATOR if self._operator else DENSE_EIGENVALUES):
            if self._operator:
                wide = self.m < self.n
                rows = [self.A.rmatvec(e) if wide else self.A.matvec(e) for e in np.eye(min(self.m, self.n))]
                gram = np.stack(rows) @ np.stack(rows).T
            else:
                gram = self.A @ self.A.T if self.m < self.n else self.A.T @ self.A
                gram = gram.toarray() if self._sparse else to_numpy(gram)
            return max(float(np.linalg.eigvalsh(gram.astype(np.float64))[-1]), 0.0)
        from scipy.sparse.linalg import svds

        start = np.random.default_rng(0).standard_normal(min(self.m, self.n))
        top = float(svds(self.A, k=1, v0=start, tol=1e-8, return_singular_vectors=False)[0])
        return top * top * (1.0 + 1e-7)

    def __repr__(self) -> str:
        return f"LeastSquares(m={self.m}, n={self.n})"


class SquaredNorm(Function, trusted=True):
    """The function scale/2 ||x||^2.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.SquaredNorm(2.0).value(np.array([1.0, 2.0]))
    5.0
    """

    affine_grad = True
    convex = True

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = _validate.scalar(scale, "scale", low=0.0)

    @property
    def lipschitz(self) -> float:
        return self.scale

    def value(self, x: Array) -> float:
        return 0.5 * self.scale * norm2(x)

    def grad(self, x: Array) -> Array:
        return self.scale * x

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return 0.5 * inner(grad, x)

    def hessian(self, x: Array) -> np.ndarray:
        return self.scale * np.eye(math.prod(x.shape))

    def __repr__(self) -> str:
        return f"SquaredNorm({self.scale:g})"


def reshaped(x: Array, shape: tuple[int, ...]) -> Array:
    """Return x in ``shape``, (-1,) for a vector."""
    if x.shape == shape or (shape == (-1,) and len(x.shape) == 1):
        return x
    return x.reshape(shape) if is_numpy(x) else namespace(x).reshape(x, tuple(shape))


def _coarser(A: Any, atom: Any) -> bool:
    """Return whether A is less precise than the atom, so that a column of A would lose precision."""
    return is_numpy(A) and A.dtype.itemsize < np.dtype(atom.dtype).itemsize


def matrix(A: Any, form: str = "csr", *, operators: bool = True) -> tuple[Any, bool, bool]:
    """Return A, validated, and whether it is sparse and whether it is an operator."""
    # Duck typing avoids loading scipy.sparse for dense problems.
    if hasattr(A, "tocsr") and hasattr(A, "nnz"):
        return _validate.sparse(A, "A", form, double=True), True, False
    if operators and hasattr(A, "matvec") and not hasattr(A, "__array__"):
        return A, False, True
    return _validate.array(A, "A", ndim=2), False, False
