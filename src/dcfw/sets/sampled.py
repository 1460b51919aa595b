"""Some entries of the matrices of a nuclear-norm ball or a spectraplex: completion without a dense matrix.

A function of the observed entries z_k = X[rows[k], cols[k]] is a function of the vector z, and the z of the
matrices with ||X||_* <= r are a convex set.  Its oracle finds the leading singular pair (u, v) of the sparse
matrix with G at the observed places by Lanczos, to an error that is a small part of the last Frank-Wolfe gap.
Vertices are kept as factors: a point with an active set of k atoms is a matrix of rank k that is never
formed; :meth:`SampledBall.factors` returns it.  A spectraplex has eigenvectors v v' in place of u v'.

For functions of singular values :class:`Readings` adds the product with a matrix of low rank (a subgradient
of such a function) and the height of an epigraph.  The bound of the oracle's error comes from the residual of
the pair and the gain of the last steps: it holds if Lanczos, which starts with a part in every direction, has
not missed a larger singular value.

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
from dcfw.sets.lanczos import sparse_lowest_vector, sparse_singular_pair
from dcfw.sets.spectral import SchattenBall, Spectraplex

KEPT = 2**17  # up to this many observed entries, atoms keep them beside their factors
SHARE = 0.1  # the oracle's error in units of the last Frank-Wolfe gap
ROUGH = 3e-3  # its relative error in the first call
NEAR = 0.02  # below this part of the first gap, and to confirm a gap, Lanczos is more careful


class Places:
    """The observed places of a matrix of a given shape, row by row."""

    def __init__(self, rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> None:
        self.rows, self.cols, self.shape = rows, cols, shape
        self.starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(cols.dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self, z: np.ndarray) -> Any:
        """Return the sparse matrix with the entries z at the observed places."""
        from scipy.sparse import csr_array

        return csr_array((z, self.cols, self.starts), shape=self.shape)

    def of(self, U: np.ndarray, V: np.ndarray, height: float = 0.0) -> np.ndarray:
        """Return the entries of U V^T at the observed places."""
        z = U[self.rows, 0] * V[self.cols, 0] if U.shape[1] else np.zeros(len(self.rows))
        for k in range(1, U.shape[1]):
            z += U[self.rows, k] * V[self.cols, k]
        return z

    def inner(self, G: np.ndarray, U: np.ndarray, V: np.ndarray, height: float) -> float:
        """Return the product of G with the vector of U V^T."""
        return float(np.vdot(U, self.matrix(G) @ V))


class Readings(Places):
    """The observed entries, the product with P Q^T for ``tilt`` = (P, Q), and a height."""

    def __init__(self, places: Places) -> None:
        super().__init__(places.rows, places.cols, places.shape)
        self.tilt = tuple(np.zeros((side, 1)) for side in places.shape)

    def __len__(self) -> int:
        return len(self.rows) + 2

    def matrix(self, z: np.ndarray) -> Any:
        P, Q = self.tilt
        return SparsePlusLowRank(super().matrix(z[:-2]), z[-2] * P, Q)

    def of(self, U: np.ndarray, V: np.ndarray, height: float = 0.0) -> np.ndarray:
        P, Q = self.tilt
        return np.concatenate([super().of(U, V), [np.vdot(P.T @ U, Q.T @ V), height]])

    def inner(self, G: np.ndarray, U: np.ndarray, V: np.ndarray, height: float) -> float:
        return super().inner(G, U, V, height) + float(G[-1]) * height


class SparsePlusLowRank:
    def __init__(self, S: Any, P: np.ndarray, Q: np.ndarray) -> None:
        self.S, self.P, self.Q, self.shape = S, P, Q, S.shape

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.S @ v + self.P @ (self.Q.T @ v))

    @property
    def T(self) -> SparsePlusLowRank:
        return SparsePlusLowRank(self.S.T, self.Q, self.P)


class Factored:
    """The observed entries of U V^T, kept as its factors."""

    __slots__ = ("U", "V", "_entries", "height", "places")

    def __init__(self, U: np.ndarray, V: np.ndarray, places: Places, height: float = 0.0) -> None:
        self.U, self.V, self.places, self.height = U, V, places, height
        self._entries = places.of(U, V, height) if len(places) <= KEPT else None

    def dense(self) -> Array:
        return self.places.of(self.U, self.V, self.height) if self._entries is None else self._entries

    def inner(self, G: Array) -> float:
        if self._entries is not None:
            return float(self._entries @ G)
        return self.places.inner(G, self.U, self.V, self.height)

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
        """Return the mean of atoms as one, None if a factor is unknown."""
        parts = factors_of(atoms, shares)
        if parts is None:
            return None
        known = [(atom, share) for atom, share in zip(atoms, shares, strict=True) if hasattr(atom, "places")]
        U, s, V = parts
        return Factored(U * s, V, known[0][0].places, sum(share * atom.height for atom, share in known))


def factors_of(atoms: list[Any], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return U, s, V of the thin singular value decomposition of a mean of atoms, None if it is unknown."""
    known = [(atom, w) for atom, w in zip(atoms, weights, strict=True) if isinstance(atom, Factored)]
    # A dense atom has no factors, unless it is zero (the centre of the ball).
    if any(not isinstance(atom, Factored) and np.any(atom.dense()) for atom in atoms) or not known:
        return None
    U, R = np.linalg.qr(np.column_stack([w * atom.U for atom, w in known]))
    V, S = np.linalg.qr(np.column_stack([atom.V for atom, _ in known]))
    left, s, right = np.linalg.svd(R @ S.T)
    rank = int(np.sum(s > 1e-14 * s.max(initial=0.0)))
    return U @ left[:, :rank], s[:rank], V @ right[:rank].T


class SampledOracle(Oracle):
    """The leading pair of the sparse gradient, with an error of a small part of the last Frank-Wolfe gap."""

    domain: SampledBall

    def __init__(self, domain: SampledBall) -> None:
        super().__init__(domain)
        self._guess: np.ndarray | None = None
        self._first: float | None = None

    def get_state(self) -> Any:
        return self._guess, self.gap, self._first

    def set_state(self, state: Any) -> None:
        self._guess, self.gap, self._first = state

    def __call__(self, G: Array) -> Atom:
        if not G.any():
            self.error = 0.0
            return self.domain.origin()
        domain = self.domain
        gap = self.gap if self._guess is not None else self.claim
        if self._first is None and self._guess is not None:
            self._first = gap
        careful = gap <= NEAR * (math.inf if self._first is None else self._first) and gap < math.inf
        u, v, self.error = domain.best(domain.places.matrix(G), self._guess, SHARE * gap, careful)
        self._guess = v
        found = Factored(u[:, None], v[:, None], domain.places, domain.radius)
        return domain.origin() if domain.apex and found.inner(G) > 0.0 else found


class SampledBall(Set, trusted=True):
    """The observed entries of the matrices of a nuclear-norm ball, as vectors.

    With :class:`Readings` they are those of the ball's epigraph {(X, t): ||X||_* <= t <= r}.
    """

    faces = True  # inner solvers then keep an active set, which determines the matrix
    flat = False
    _oracle = SampledOracle

    def __init__(self, ball: SchattenBall | Spectraplex, places: Places) -> None:
        self.ball, self.places = ball, places
        self.shape = (len(places),)
        self.radius = self.scale = ball.radius
        self.diameter = 2.0 * ball.radius
        self.apex = isinstance(places, Readings) and not isinstance(ball, Spectraplex)

    def best(self, G: Any, guess: Any, wanted: float, careful: bool) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the vertex u v^T for the gradient G as u and v, and a bound of its error."""
        u, v, error = sparse_singular_pair(G, guess, wanted / self.radius, ROUGH, careful)
        return -self.radius * u, v, self.radius * error

    def origin(self) -> Atom:
        return Dense(np.zeros(self.shape))

    def atoms(self, U: np.ndarray, s: np.ndarray, V: np.ndarray) -> tuple[list[Atom], np.ndarray]:
        """Return atoms, one for each singular value, and weights whose mean is U diag(s) V^T."""
        r = self.radius
        found = [Factored(r * U[:, [k]], V[:, [k]], self.places, r) for k in range(len(s))]
        return [*found, self.origin()], np.append(s / r, max(1.0 - float(s.sum()) / r, 0.0))

    def point(self, x: np.ndarray) -> np.ndarray:
        return x[: len(self.places.rows)]

    def lift(self, z: np.ndarray, t: float) -> np.ndarray:
        return np.append(z, (0.0, t))

    def _vertex(self, G: Array) -> Array:
        return SampledOracle(self)(G).dense()

    def _centre(self) -> np.ndarray:
        return np.asarray(self.origin().dense())

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether no entry exceeds the largest nuclear norm, a necessary condition."""
        return tuple(x.shape) == self.shape and self.violation(x) <= tol * self.radius

    def violation(self, x: Array) -> float:
        heights = x[len(self.places.rows) + 1 :]
        largest = max(float(np.abs(self.point(x)).max(initial=0.0)), float(heights.max(initial=0.0)))
        return max(largest - self.radius, -float(heights.min(initial=0.0)))

    def factors(self, active: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return U, s, V of the mean U diag(s) V^T of an active set."""
        found = None if active is None else factors_of(active.atoms, active.weights)
        m, n = self.ball.shape
        return (np.zeros((m, 0)), np.zeros(0), np.zeros((n, 0))) if found is None else found


class SampledSpectraplex(SampledBall, trusted=True):
    """The observed entries of positive semidefinite matrices of a given trace; the height is that trace."""

    def best(self, G: Any, guess: Any, wanted: float, careful: bool) -> tuple[np.ndarray, np.ndarray, float]:
        v, error = sparse_lowest_vector(G, guess, wanted / self.radius, ROUGH, careful)
        return self.radius * v, v, self.radius * error

    def origin(self) -> Atom:
        v = np.full((self.ball.shape[0], 1), self.ball.shape[0] ** -0.5)
        return Factored(self.radius * v, v, self.places, self.radius)

    def atoms(self, U: np.ndarray, s: np.ndarray, V: np.ndarray) -> tuple[list[Atom], np.ndarray]:
        found, weights = super().atoms(U, s, V)
        return found[:-1], weights[:-1]
