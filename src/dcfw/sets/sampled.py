"""Some entries of the matrices of a nuclear-norm ball: completion without a dense matrix.

A function of the observed entries z_k = X[rows[k], cols[k]] alone is a function of the vector z, and the z of
the matrices with ||X||_* <= r are a convex set themselves.  Its oracle is that of the ball for a sparse
matrix: the leading singular pair (u, v) of the matrix with G at the observed places, found by Lanczos
from products with it.  A vertex is kept as its factors, so a point with an active set of k atoms is a matrix
of rank k that is nowhere formed; :meth:`SampledBall.factors` returns it.

The oracle stops when its error is a small part of the last Frank-Wolfe gap.  Its bound, which the gap
includes, comes from the residual of the pair and the gain of the last steps: it holds if Lanczos, which
starts with a part in every direction, has not missed a larger singular value.

Reference: Freund, Grigas and Mazumder 2017 (Frank-Wolfe for matrix completion with factored iterates).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from dcfw._arrays import Array, norm2
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Oracle, Set
from dcfw.sets.lanczos import sparse_singular_pair
from dcfw.sets.spectral import SchattenBall

KEPT = 2**17
"""Up to this many observed entries, those of an atom are kept beside its factors."""

SHARE = 0.1
"""The oracle's error in units of the last Frank-Wolfe gap."""

ROUGH = 3e-3
"""Its relative error in the first call."""


class Places:
    """The observed places of a matrix of a given shape, in the order of its rows."""

    def __init__(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> None:
        self.rows, self.cols, self.shape = rows, cols, shape
        self.starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(cols.dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self, z: np.ndarray) -> Any:
        """Return the sparse matrix with the entries z at the observed places."""
        from scipy.sparse import csr_array

        return csr_array((z, self.cols, self.starts), shape=self.shape)

    def of(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return the entries of U V^T at the observed places."""
        z = U[self.rows, 0] * V[self.cols, 0] if U.shape[1] else np.zeros(len(self))
        for k in range(1, U.shape[1]):
            z += U[self.rows, k] * V[self.cols, k]
        return z


class Factored:
    """The observed entries of U V^T, kept as the factors; the entries are computed when asked for."""

    __slots__ = ("U", "V", "_entries", "places")

    def __init__(self, U: np.ndarray, V: np.ndarray, places: Places) -> None:
        self.U, self.V, self.places = U, V, places
        self._entries = places.of(U, V) if len(places) <= KEPT else None

    def dense(self) -> Array:
        return self.places.of(self.U, self.V) if self._entries is None else self._entries

    def inner(self, G: Array) -> float:
        if self._entries is not None:
            return float(self._entries @ G)
        return float(np.vdot(self.U, self.places.matrix(G) @ self.V))

    def mix(self, x: Array, eta: float) -> Array:
        return (1.0 - eta) * x + eta * self.dense()

    def plus(self, x: Array, c: float) -> Array:
        return x + c * self.dense()

    def distance2(self, x: Array) -> float:
        return norm2(self.dense() - x)

    @property
    def key(self) -> Hashable:
        return self.U.tobytes(), self.V.tobytes()

    @staticmethod
    def merged(atoms: list[Any], shares: np.ndarray) -> Factored | None:
        """Return the mean of atoms as one, None where a factor is unknown."""
        parts = factors_of(atoms, shares)
        known = next((atom for atom in atoms if isinstance(atom, Factored)), None)
        return (
            None if parts is None or known is None else Factored(parts[0] * parts[1], parts[2], known.places)
        )


def factors_of(atoms: list[Any], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return U, s, V of the thin singular value decomposition of a mean of atoms, None if it is unknown.

    A dense atom has no factors, unless it is zero (the centre of the ball).
    """
    known = [(atom, w) for atom, w in zip(atoms, weights, strict=True) if isinstance(atom, Factored)]
    if any(not isinstance(atom, Factored) and np.any(atom.dense()) for atom in atoms) or not known:
        return None
    U, R = np.linalg.qr(np.column_stack([w * atom.U for atom, w in known]))
    V, S = np.linalg.qr(np.column_stack([atom.V for atom, _ in known]))
    left, s, right = np.linalg.svd(R @ S.T)
    rank = int(np.sum(s > 1e-14 * s.max(initial=0.0)))
    return U @ left[:, :rank], s[:rank], V @ right[:rank].T


class SampledBall(Set, trusted=True):
    """The observed entries of the matrices of a nuclear-norm ball, as vectors.

    ``faces`` has inner solvers keep an active set, which makes up the matrix.
    """

    faces = True
    flat = False

    def __init__(self, ball: SchattenBall, places: Places) -> None:
        self.ball, self.places = ball, places
        self.shape = (len(places),)
        self.radius = self.scale = ball.radius
        self.diameter = 2.0 * ball.radius

    def oracle(self) -> Oracle:
        return SampledOracle(self)

    def _vertex(self, G: Array) -> Array:
        return SampledOracle(self)(G).dense()

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether x may be in the set: no entry of a matrix is larger than its nuclear norm.

        Whether a matrix of the ball has these entries is a problem of its own; points of a run are means of
        vertices.
        """
        return tuple(x.shape) == self.shape and self.violation(x) <= tol * self.radius

    def violation(self, x: Array) -> float:
        return max(float(np.abs(x).max(initial=0.0)) - self.radius, 0.0)

    def factors(self, active: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return U, s, V of the matrix U diag(s) V^T that an active set makes up."""
        found = None if active is None else factors_of(active.atoms, active.weights)
        if found is None:
            m, n = self.ball.shape
            return np.zeros((m, 0)), np.zeros(0), np.zeros((n, 0))
        return found


class SampledOracle(Oracle):
    """The leading singular pair of the sparse gradient, to a small part of the last Frank-Wolfe gap."""

    def __init__(self, domain: SampledBall) -> None:
        super().__init__(domain)
        self.radius, self.places = domain.radius, domain.places
        self._guess: np.ndarray | None = None

    def get_state(self) -> Any:
        return self._guess, self.gap

    def set_state(self, state: Any) -> None:
        self._guess, self.gap = state

    def __call__(self, G: Array) -> Atom:
        if not G.any():
            self.error = 0.0
            return Dense(np.zeros(G.shape))
        wanted = SHARE * self.gap / self.radius if math.isfinite(self.gap) else math.inf
        u, v, error = sparse_singular_pair(self.places.matrix(G), self._guess, wanted, ROUGH)
        self._guess, self.error = v, self.radius * error
        return Factored(-self.radius * u[:, None], v[:, None], self.places)
