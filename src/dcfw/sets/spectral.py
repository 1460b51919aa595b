"""Sets of matrices defined by singular values or eigenvalues.

The Schatten-p ball is the l_p ball of the singular values, with its oracle and projection after one singular
value decomposition.  The spectral-norm ball (p = inf) needs only the polar factor, the nuclear-norm ball (p =
1) only the leading singular pair (Lanczos, warm-started).  The spectraplex is the simplex of the eigenvalues,
the Fantope their hypersimplex.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, namespace, norm
from dcfw._protocol import stateless
from dcfw.sets.atoms import Atom, Dense, RankOne
from dcfw.sets.base import Oracle, Set, excess, in_double, in_numpy
from dcfw.sets.compact import CompactSet
from dcfw.sets.lanczos import leading_singular_pair, lowest_eigenpair
from dcfw.sets.lp import lp_norm, lp_vertex, project_lp
from dcfw.sets.norms import NormBall
from dcfw.sets.polar import METHODS, polar
from dcfw.sets.polar_inexact import certified
from dcfw.sets.simplex import CappedSimplex, Hypersimplex, Simplex
from dcfw.sets.spheres import Spheres, one_sphere

INEXACT = "inexact"
DENSE = 16  # up to this size LAPACK's full decomposition beats a Lanczos method in Python
AFFORDABLE = 2000  # up to this size an unproven answer of Lanczos is replaced by a full decomposition


class WarmOracle(Oracle):
    """An oracle that starts from its previous answer and bounds its error (:mod:`dcfw.sets.lanczos`)."""

    _found: Any  # the atom for a NumPy gradient in at most double precision

    def __init__(self, domain: SchattenBall | Spectraplex) -> None:
        super().__init__(domain)
        self._guess: np.ndarray | None = None

    @in_double
    def __call__(self, G: Array) -> Atom:
        return self._found(G) if isinstance(G, np.ndarray) else Dense(self._vertex(G))

    def get_state(self) -> Any:
        return self._guess

    def set_state(self, state: Any) -> None:
        self._guess = state


class NuclearOracle(WarmOracle):
    """The leading singular pair."""

    def _found(self, G: np.ndarray) -> Atom:
        if min(G.shape) > DENSE:
            u, v, _, error = leading_singular_pair(G, self._guess, affordable=AFFORDABLE)
        else:
            U, _, Vt = np.linalg.svd(G, full_matrices=False)
            u, v, error = U[:, 0].copy(), Vt[0].copy(), 0.0  # views would keep the whole factors alive
        self.error = self.domain.radius * error
        self._guess = v if G.shape[1] <= G.shape[0] else u
        return RankOne(u, v, -self.domain.radius)


class SpectraplexOracle(WarmOracle):
    """The lowest eigenvector of the symmetric part."""

    def _found(self, G: np.ndarray) -> Atom:
        if len(G) > DENSE:
            v, lowest, error = lowest_eigenpair(G, self._guess, affordable=AFFORDABLE)
        else:
            values, vectors = np.linalg.eigh(0.5 * G + 0.5 * G.T)  # halves first: sums may overflow
            v, lowest, error = vectors[:, 0].copy(), float(values[0]), 0.0
        self.error = self.domain.radius * error
        self._guess = v
        return RankOne(v, v, self.domain._trace(lowest))


@stateless
class InexactPolarOracle(Oracle):
    """Points of the spectral-norm ball near the best vertex, with a certified error bound."""

    @in_double
    def __call__(self, G: Array) -> Atom:
        S, error = certified(G)
        self.error = self.domain.radius * error
        return Dense(-self.domain.radius * S)


class SchattenBall(NormBall, trusted=True):
    """The ball {||X||_Sp <= radius} of the Schatten norm, the l_p norm of the singular values.

    Parameters
    ----------
    shape : tuple of int
        The shape (m, n) of the matrices.
    p : float
        The exponent, at least 1; ``math.inf`` is allowed.
    radius : float, default 1.0
        The radius.

    Attributes
    ----------
    strong_convexity : float
        (p-1) k^(1/2-1/p) / radius with k = min(m, n) for 1 < p <= 2 (Frobenius norm), 0 otherwise.

    Examples
    --------
    >>> dcfw.sets.SchattenBall((2, 2), p=2).lmo(np.array([[3.0, 0.0], [0.0, 4.0]])).round(12) + 0.0
    array([[-0.6,  0. ],
           [ 0. , -0.8]])
    """

    def __init__(self, shape: tuple[int, int], p: float, radius: float = 1.0) -> None:
        matrix = _validate.shape(shape, ndim=2)
        super().__init__(matrix, min(matrix), p, radius)
        self.faces = self.p in (1.0, math.inf) and min(self.shape) > 1

    def _vertex(self, G: Array) -> Array:
        if self.p == math.inf:
            return -self.radius * polar(G)
        if self.p == 1.0 and isinstance(G, np.ndarray):
            return NuclearOracle(self)(G).dense()
        xp = namespace(G)
        U, sigma, Vt = xp.linalg.svd(G, full_matrices=False)
        if not math.isfinite(float(sigma[0])):  # singular values may be sqrt(rank) times the largest entry
            U, sigma, Vt = xp.linalg.svd(2.0**-32 * G, full_matrices=False)
        return (U * lp_vertex(sigma, self.p, self.radius)) @ Vt

    def oracle(self) -> Oracle:
        return NuclearOracle(self) if self.p == 1.0 else Oracle(self)

    def check_work(self) -> float:
        return 8.0 * math.prod(self.shape) * min(self.shape)  # all singular values

    def violation(self, x: Array) -> float:
        """Return ||X||_Sp - radius where that is positive."""
        x = self._values(x)
        if not np.isfinite(x).all():  # LAPACK raises an error
            return math.inf
        # ||X||_Sp is at most this multiple of ||X||_F: near the centre no singular values are needed.
        most = min(self.shape) ** max(1.0 / self.p - 0.5, 0.0)
        if most * norm(x) <= 0.999 * self.radius:
            return 0.0
        return excess(lp_norm(np.linalg.svd(x, compute_uv=False), self.p) - self.radius)

    def spheres(self) -> Spheres | None:
        return one_sphere(self.shape) if self.p in (1.0, 2.0, math.inf) else None

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the matrix of the ball nearest to ``x``: the singular values projected."""
        U, sigma, Vt = np.linalg.svd(x, full_matrices=False)
        if lp_norm(sigma, self.p) <= self.radius:
            return x
        return np.asarray((U * project_lp(sigma, self.p, self.radius)) @ Vt)


class SpectralBall(SchattenBall, trusted=True):
    """The ball {||X||_2 <= radius} of the spectral norm, the largest singular value.

    Its extreme points are ``radius`` times the matrices with orthonormal rows or columns.

    Parameters
    ----------
    shape : tuple of int
        The shape (m, n) of the matrices.
    radius : float, default 1.0
        The radius.
    polar : {"auto", "svd", "eigh", "mixed", "products", "inexact"}
        How the linear oracle computes the polar factor (:mod:`dcfw.sets.polar`).  ``"inexact"`` takes a few
        steps in single precision: the answers lie in the ball, near its extreme points, with a certified
        error bound (about 1e-3 of the gradient's nuclear norm) that the gaps of a solve include.

    Examples
    --------
    >>> dcfw.sets.SpectralBall((2, 2)).lmo(np.array([[0.0, 3.0], [-0.1, 0.0]])).round(12) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """

    def __init__(self, shape: tuple[int, int], radius: float = 1.0, *, polar: str = "auto") -> None:
        super().__init__(shape, math.inf, radius)
        self.polar = _validate.choice(polar, "polar", (*METHODS, INEXACT))
        # Active sets rely on an oracle whose answers are better than the atoms by as much as the gap says.
        self.faces = self.faces and self.polar != INEXACT

    def _vertex(self, G: Array) -> Array:
        if self.polar == INEXACT:
            return -self.radius * certified(G)[0]
        return -self.radius * polar(G, self.polar)

    def oracle(self) -> Oracle:
        return InexactPolarOracle(self) if self.polar == INEXACT else Oracle(self)

    def spheres(self) -> Spheres | None:
        return None if self.polar == INEXACT else super().spheres()

    def _parameters(self) -> str:
        return super()._parameters() + ("" if self.polar == "auto" else f", polar={self.polar!r}")


class NuclearBall(SchattenBall, trusted=True):
    """The ball {||X||_* <= radius} of the nuclear norm, the sum of the singular values.

    Its extreme points are the matrices ``radius * u v^T`` with unit vectors u and v.

    Parameters
    ----------
    shape : tuple of int
        The shape (m, n) of the matrices.
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> dcfw.sets.NuclearBall((2, 2), radius=2.0).lmo(np.array([[0.0, 3.0], [-0.1, 0.0]])).round(12) + 0.0
    array([[ 0., -2.],
           [ 0.,  0.]])
    """

    def __init__(self, shape: tuple[int, int], radius: float = 1.0) -> None:
        super().__init__(shape, 1.0, radius)


class _SpectralSet(Set, trusted=True):
    """The symmetric matrices whose eigenvalues lie in a set of vectors."""

    faces = True
    _spectrum: Simplex | CappedSimplex

    def check_work(self) -> float:
        return 8.0 * self.shape[0] ** 3  # all eigenvalues

    def violation(self, x: Array) -> float:
        """Return the larger of the asymmetry and the violation of the set of eigenvalues."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        outside = self._spectrum.violation(np.linalg.eigvalsh(0.5 * (x + x.T)))
        return max(outside, float(np.abs(x - x.T).max()))

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the nearest matrix: the eigenvalues of the symmetric part projected onto their set."""
        eigenvalues, Q = np.linalg.eigh(0.5 * (x + x.T))
        nearest = (Q * self._spectrum.project(eigenvalues)) @ Q.T
        return np.asarray(0.5 * (nearest + nearest.T))


class Spectraplex(_SpectralSet, trusted=True):
    """The spectraplex {X symmetric positive semidefinite, trace X = radius}.

    Its extreme points are ``radius * v v^T`` with unit vectors v, and 0 with ``at_most``.

    Parameters
    ----------
    n : int
        The order of the matrices.
    radius : float, default 1.0
        The trace.
    at_most : bool, default False
        Whether smaller traces are allowed (the unit spectrahedron).

    Examples
    --------
    >>> dcfw.sets.Spectraplex(2).lmo(np.array([[1.0, 0.0], [0.0, -1.0]])).round(12) + 0.0
    array([[0., 0.],
           [0., 1.]])
    """

    _oracle = SpectraplexOracle

    def __init__(self, n: int, radius: float = 1.0, at_most: bool = False) -> None:
        n = _validate.integer(n, "n", low=1)
        self.shape = (n, n)
        self.radius = self.scale = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.at_most = _validate.flag(at_most, "at_most")
        self.diameter = self.radius * (math.sqrt(2.0) if n > 1 else float(self.at_most))
        self._spectrum = CappedSimplex(n, radius, radius, at_most) if self.at_most else Simplex(n, radius)

    def _vertex(self, G: Array) -> Array:
        if isinstance(G, np.ndarray):
            return SpectraplexOracle(self)(G).dense()
        values, vectors = namespace(G).linalg.eigh(0.5 * (G + G.T))
        v = vectors[:, :1]
        return self._trace(float(values[0])) * (v @ v.T)

    def _trace(self, lowest: float) -> float:
        """Return the trace of the best vertex for a gradient with this lowest eigenvalue."""
        return 0.0 if self.at_most and lowest >= 0.0 else self.radius

    def _directions(self, G: np.ndarray) -> np.ndarray:
        mean = 0.0 if self.at_most else float(np.trace(G)) / len(G)
        return np.asarray(0.5 * (G + G.T) - np.eye(len(G)) * mean)

    def spheres(self) -> Spheres | None:
        return None if self.at_most else one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return np.asarray(np.eye(self.shape[0]) * (self.radius / (self.shape[0] + self.at_most)))

    def __repr__(self) -> str:
        return f"Spectraplex({self.shape[0]}{self._parameters()}{', at_most=True' if self.at_most else ''})"


class Fantope(_SpectralSet, CompactSet, trusted=True):
    """The Fantope {0 <= X <= I, trace X = k}: the hull of the orthogonal projections of rank k.

    It is the hypersimplex of the eigenvalues, for sparse PCA and clustering.

    Parameters
    ----------
    n : int
        The order of the matrices.
    k : int
        The trace, from 1 (the spectraplex) to n (a single point).

    Examples
    --------
    >>> dcfw.sets.Fantope(3, k=2).lmo(np.diag([1.0, -2.0, 0.5])).round(12) + 0.0
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    def __init__(self, n: int, k: int) -> None:
        n = _validate.integer(n, "n", low=1)
        self.k = _validate.integer(k, "k", low=1, high=n)
        self.shape = (n, n)
        self.diameter = math.sqrt(2.0 * min(self.k, n - self.k))
        self._spectrum = Hypersimplex(n, self.k)

    def _atom(self, G: np.ndarray) -> Dense:
        from scipy.linalg import eigh

        n = self.shape[0]
        if self.k == n:
            return Dense(np.eye(n))
        G = G / (float(np.abs(G).max()) or 1.0)
        # The smaller of two eigenspaces: of the k lowest eigenvalues, or of the others.
        low = 2 * self.k <= n
        _, V = eigh(0.5 * (G + G.T), subset_by_index=(0, self.k - 1) if low else (self.k, n - 1))
        return Dense(V @ V.T if low else np.eye(n) - V @ V.T)

    def _directions(self, G: np.ndarray) -> np.ndarray:
        if self.k == len(G):
            return np.zeros(self.shape)
        return np.asarray(0.5 * (G + G.T) - np.eye(len(G)) * (float(np.trace(G)) / len(G)))

    def spheres(self) -> Spheres:
        return one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return np.asarray(np.eye(self.shape[0]) * (self.k / self.shape[0]))

    def __repr__(self) -> str:
        return f"Fantope({self.shape[0]}, k={self.k})"
