"""Quadratic functions of a matrix, and decompositions of the QAP's objective into two convex ones.

The relaxed objective is phi(X) = <A X, X B> + <C, X>, with gradient A X B^T + A^T X B + C.  The parts of all
splits are :class:`MatrixQuadratic` functions with the gradient ::

    sum_k P_k X Q_k + left X + X right + weight X + C

At a permutation matrix all of it but the products P_k Q_k[p] is a gather, so the gradient is taken there: one
matrix product per pair and step.  A P_k of low rank r, such as the centred distances of a grid, is kept as a
product of two thin matrices, which reduces this cost by 2 r/n.

==============  ====================================================================================
``"paper"``     variant 1: f, g = 1/4 ||A X +- X B||^2
``"sliding"``   variant 2: f = L/2 ||X||^2
``"proximal"``  variant 3: f = phi + L/2 ||X||^2
``"balanced"``  variant 1 with A and B scaled to equal norms (:func:`dcfw.qap.solve` scales them to norm 1
                before any split, so there it is ``"paper"``)
``"centered"``  variant 1 after subtracting the mean of all entries from A and from B, then balanced
``"spectral"``  the Hessian on the tangent space (row and column sums zero), divided by the sign of
                its eigenvalues: the tightest of all splits if A or B is symmetric (otherwise its symmetric
                and its skew products are divided one by one)
==============  ====================================================================================

All of them satisfy f - g = phi on the Birkhoff polytope.  Sparse matrices stay sparse, but ``"centered"`` and
``"spectral"`` need dense ones, and A^T A and B B^T are stored densely.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, inner
from dcfw.functions.base import Function, Linearisation
from dcfw.functions.dc import DC
from dcfw.qap.objective import dense, is_sparse, matrices, symmetric
from dcfw.sets.atoms import Atom, Permutation

Thin = tuple[np.ndarray, np.ndarray, np.ndarray]
Factors = tuple[np.ndarray, np.ndarray]

SPLITS = ("paper", "sliding", "proximal", "balanced", "centered", "spectral")


class MatrixQuadratic(Function, trusted=True):
    """1/2 <X, H(X)> + <C, X> + constant with H(X) = sum_k P_k X Q_k + left X + X right + weight X.

    H must be a symmetric operator: each pair is (symmetric, symmetric) or (skew, skew), or pairs come with
    their transposes.  P_k and Q_k may be SciPy sparse.  ``thin`` has further pairs as triples (U, V, Q) with
    P = U V, for dense P of low rank; the ranks add up to at most n.  A large P with few different rows is
    factorised automatically.
    """

    affine_grad = True

    def __init__(
        self, pairs: list[tuple[Any, Any]], *, n: int, thin: list[Thin] | None = None,
        left: np.ndarray | None = None, right: np.ndarray | None = None, weight: float = 0.0,
        C: np.ndarray | None = None, constant: float = 0.0, convex: bool | None = None,
    ) -> None:  # fmt: skip
        self.n, self.pairs, self.thin = n, [], list(thin or [])
        for P, Q in pairs:
            factors = None if is_sparse(P) or is_sparse(Q) else _few_rows(P)
            if factors is None:
                self.pairs.append((P, Q))
            else:
                self.thin.append((*factors, Q))
        self.left, self.right, self.C = left, right, C
        self.weight, self.constant, self.convex = float(weight), float(constant), convex

    def grad(self, X: Array) -> Array:
        gradient: Any = None
        for P, Q in self.pairs:
            product = P @ (Q.T @ X.T).T if is_sparse(Q) else P @ (X @ Q)
            gradient = product if gradient is None else gradient + product
        for U, V, Q in self.thin:
            product = U @ ((V @ X) @ Q)
            gradient = product if gradient is None else gradient + product
        if gradient is None:
            gradient = np.zeros((self.n, self.n))
        if self.left is not None:
            gradient += self.left @ X
        if self.right is not None:
            gradient += X @ self.right
        if self.weight:
            gradient += self.weight * X
        if self.C is not None:
            gradient += self.C
        return gradient

    def grad_at(self, atom: Atom) -> Array:
        if not isinstance(atom, Permutation):
            return self.grad(atom.dense())
        p = atom.columns
        gradient = np.zeros((self.n, self.n))
        for P, Q in self.pairs:
            gradient += dense(P @ Q[p])
        for U, V, Q in self.thin:
            columns = np.empty_like(V)
            columns[:, p] = V
            gradient += U @ (columns @ Q)
        if self.left is not None:
            gradient[:, p] += self.left
        if self.right is not None:
            gradient += self.right[p]
        if self.weight:
            gradient[atom.rows, p] += self.weight
        if self.C is not None:
            gradient += self.C
        return gradient

    def linearise(self, X: Array) -> Linearisation:
        grad = self.grad(X)
        return Linearisation(self.value_from_grad(X, grad), grad, True)

    def value(self, X: Array) -> float:
        return self.value_from_grad(X, self.grad(X))

    def value_from_grad(self, X: Array, grad: Array) -> float:
        twice = inner(grad, X) if self.C is None else inner(grad, X) + inner(self.C, X)
        return 0.5 * twice + self.constant

    @property
    def lipschitz(self) -> float:
        bound = sum(spectral_norm(P) * spectral_norm(Q) for P, Q in self.pairs) + abs(self.weight)
        bound += sum(spectral_norm(U @ V) * spectral_norm(Q) for U, V, Q in self.thin)
        for side in (self.left, self.right):
            bound += 0.0 if side is None else spectral_norm(side)
        return float(bound)

    def __repr__(self) -> str:
        return f"MatrixQuadratic(n={self.n})"


def _few_rows(P: np.ndarray) -> Factors | None:
    """Factorise a large P with few different rows (tai256c: 2 of 256) as a selection of these rows."""
    n = P.shape[0]
    if n < 64 or len(set(P.sum(axis=1).tolist())) > n // 8:  # rows of different sums differ
        return None
    first: dict[bytes, int] = {}
    same = [first.setdefault(row.tobytes(), i) for i, row in enumerate(P)]
    if len(first) > n // 8:
        return None
    rows = np.array(list(first.values()))
    return np.equal.outer(same, rows).astype(np.float64), P[rows]


def relaxation(A: Any, B: Any, C: np.ndarray | None = None) -> MatrixQuadratic:
    """Return phi(X) = <A X, X B> + <C, X> as one function.

    Examples
    --------
    >>> import numpy as np
    >>> phi = relaxation(np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 5.0], [2.0, 0.0]]))
    >>> phi.value(np.eye(2)), phi.value(np.eye(2)[::-1])
    (17.0, 11.0)
    """
    return relaxed(*_floats(A, B, C))


def relaxed(A: Any, B: Any, C: Any = None) -> MatrixQuadratic:
    """Return :func:`relaxation` of checked data in double precision."""
    return MatrixQuadratic(_hessian(A, B), n=A.shape[0], C=C, convex=False)


def _floats(*data: Any) -> Any:
    return (None if M is None else M.astype(np.float64, copy=False) for M in matrices(*data))


def decompose(
    A: Any, B: Any, C: np.ndarray | None = None, split: str = "paper", L: float | None = None
) -> DC:
    """Return phi(X) = <A X, X B> + <C, X> as f - g, equal to it on the Birkhoff polytope.

    Parameters
    ----------
    A, B : (n, n) float arrays or SciPy sparse arrays
    C : (n, n) array, optional
    split : str
        One of the names in the module's table.
    L : float, optional
        The constant of ``"sliding"`` and ``"proximal"``; default 2 ||A||_2 ||B||_2, which makes both parts
        convex.  The published experiments use half of that.

    Examples
    --------
    >>> import numpy as np
    >>> A, B = np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 5.0], [2.0, 0.0]])
    >>> dc = decompose(A, B, split="spectral")
    >>> round(dc.f.value(np.eye(2)) - dc.g.value(np.eye(2)), 9)
    17.0
    """
    split = _validate.choice(split, "split", SPLITS)
    A, B, C = _floats(A, B, C)
    L = None if L is None else _validate.scalar(L, "L", low=0.0)
    phi, n = relaxed(A, B, C), A.shape[0]
    if split in ("sliding", "proximal"):
        safe = 2.0 * spectral_norm(A) * spectral_norm(B)
        L = safe if L is None else L
        convex = safe * (1.0 - 1e-12) <= L
        condition = "" if convex else f"L = {L:.6g} makes both parts convex on the polytope"
        square, name = MatrixQuadratic([], n=n, weight=L, convex=True), f"{split}(L={L:g})"
        if split == "proximal":
            f = MatrixQuadratic(_hessian(A, B), n=n, weight=L, C=C, convex=True)
            return DC(f, square, name, condition, whole=phi)
        minus = None if C is None else -C
        g = MatrixQuadratic(_hessian(A, B, -1.0), n=n, weight=L, C=minus, convex=True)
        return DC(square, g, name, condition, whole=phi)
    if split == "spectral":
        return _spectral(phi, dense(A), dense(B), C)
    constant = 0.0
    if split == "centered":
        A, B = dense(A), dense(B)
        a, b = float(A.mean()), float(B.mean())
        # J X = X J = J on the polytope, so a J and b J only add a constant to phi.
        constant = a * float(B.sum()) + b * float(A.sum()) - a * b * n * n
        A, B = A - a, B - b
    if split != "paper" and (a := frobenius(A)) != 0.0 and (b := frobenius(B)) != 0.0:
        factor = math.sqrt(b / a)
        A, B = A * factor, B / factor
    left, right = 0.5 * dense(A.T @ A), 0.5 * dense(B @ B.T)
    f = MatrixQuadratic(_hessian(A, B, 0.5), n=n, left=left, right=right, C=C, constant=constant, convex=True)
    g = MatrixQuadratic(_hessian(A, B, -0.5), n=n, left=left, right=right, convex=True)
    return DC(f, g, name=split, whole=phi)


def _hessian(A: Any, B: Any, scale: float = 1.0) -> list[tuple[Any, Any]]:
    """Return pairs with sum P X Q = scale (A X B^T + A^T X B), one if A or B is symmetric."""
    if symmetric(A):
        return [(A if scale == 1.0 else scale * A, B + B.T)]
    if symmetric(B):
        return [(scale * (A + A.T), B)]
    return [(scale * A, B.T), (scale * A.T, B)]


def _spectral(phi: MatrixQuadratic, A: np.ndarray, B: np.ndarray, C: np.ndarray | None) -> DC:
    """Split the Hessian on the tangent space by the sign of its eigenvalues.

    With A = A_s + A_k and B = B_s + B_k (symmetric + skew) the Hessian is X -> 2 A_s X B_s - 2 A_k X B_k.
    The eigenvalues of a product are products of the factors' eigenvalues, so its positive part pairs
    positive with positive and negative with negative eigenspaces.  i A_k is Hermitian with a spectrum
    symmetric about 0, which turns its parts into real matrices again: with M = i A_k = M+ - conj(M+), N
    likewise, -2 A_k X B_k = 2 M X N.
    """
    n = A.shape[0]
    centre = np.full((n, n), 1.0 / n)
    slope = A @ centre @ B.T + A.T @ centre @ B
    # phi(X) = <slope, X> - <A J/n, J/n B> + <A^ X, X B^> for X in the polytope, A^ and B^ doubly centred.
    constant = -0.5 * inner(slope, centre)
    linear = slope if C is None else slope + C
    A, B = doubly_centred(A), doubly_centred(B)
    (A_up, A_down), (B_up, B_down) = _parts(0.5 * (A + A.T)), _parts(0.5 * (B + B.T))
    positive, thin = _twice([(A_up, B_up), (A_down, B_down)], n)
    negative, thin_negative = _twice([(A_up, B_down), (A_down, B_up)], n)
    A_k, B_k = 0.5 * (A - A.T), 0.5 * (B - B.T)
    if _large(A_k, A) and _large(B_k, B):
        M, N = (U @ V for U, V in (_parts(1j * A_k)[0], _parts(1j * B_k)[0]))
        positive += [(4.0 * M.real, N.real), (-4.0 * M.imag, N.imag)]
        negative += [(4.0 * M.real, N.real), (4.0 * M.imag, N.imag)]
    f = MatrixQuadratic(_packed(positive), thin=thin, n=n, C=linear, constant=constant, convex=True)
    g = MatrixQuadratic(_packed(negative), thin=thin_negative, n=n, convex=True)
    return DC(f, g, name="spectral", whole=phi)


def _twice(factored: list[tuple[Factors, Factors]], n: int) -> tuple[list[Any], list[Thin]]:
    """Return twice the products as full or as thin pairs, depending on the number of operations."""
    products = [(U, V, S @ T) for (U, V), (S, T) in factored if U.shape[1] and S.shape[1]]
    if 2 * sum(len(V) for _, V, _ in products) < n * len(products):
        thin = [(np.ascontiguousarray(2.0 * U), np.ascontiguousarray(V), Q) for U, V, Q in products]
        return [], thin
    return [(2.0 * (U @ V), Q) for U, V, Q in products], []


def _packed(pairs: list[Any]) -> list[Any]:
    return [(np.ascontiguousarray(P), np.ascontiguousarray(Q)) for P, Q in pairs if P.any() and Q.any()]


def _parts(H: np.ndarray) -> list[Factors]:
    """Return the positive and the negative part of a Hermitian matrix, factored."""
    values, vectors = np.linalg.eigh(H)
    # Rounded zeros would double the products for many distance matrices, centred ones with a single sign.
    least = 4.0 * len(H) * np.finfo(np.float64).eps * float(np.abs(values).max(initial=0.0))
    parts = []
    for kept, sign in ((values > least, 1.0), (values < -least, -1.0)):
        W = vectors[:, kept]
        parts.append((sign * values[kept] * W, W.conj().T))
    return parts


def doubly_centred(A: np.ndarray) -> np.ndarray:
    return np.asarray(A - A.mean(axis=0) - A.mean(axis=1)[:, None] + A.mean())


def _large(part: np.ndarray, whole: np.ndarray) -> bool:
    """Return whether a skew part exceeds the rounding of a symmetric matrix."""
    return bool(np.abs(part).max(initial=0.0) > 1e-13 * np.abs(whole).max(initial=0.0))


def spectral_norm(M: Any) -> float:
    """Return ||M||_2, exactly for dense matrices, to 1e-6 from above for sparse ones."""
    if not is_sparse(M) or M.shape[0] <= 200:
        return float(np.linalg.norm(dense(M), 2))
    if M.nnz == 0:
        return 0.0
    from scipy.sparse.linalg import svds

    start = np.random.default_rng(0).standard_normal(M.shape[0])
    top = svds(M.astype(np.float64), k=1, v0=start, return_singular_vectors=False)[0]
    return float(top) * (1.0 + 1e-6)


def frobenius(M: Any) -> float:
    entries = M.data if is_sparse(M) else M.ravel()
    return math.sqrt(entries @ entries)
