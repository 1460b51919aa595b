"""Images of another set: shifted, scaled, mapped by a matrix.

They use its oracle: minimising <G, A x + c> means minimising <A^T G, x>.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, like, namespace, to_numpy
from dcfw.sets.atoms import Atom, Dense, Entries, OneHot, Permutation, RankOne, Signs
from dcfw.sets.base import Oracle, Set, state_in
from dcfw.sets.membership import separation
from dcfw.sets.spheres import Spheres


@state_in("_other")
class MadeOracle(Oracle):
    """The other set's oracle, its vertices mapped."""

    def __init__(self, domain: _Made) -> None:
        self.domain = domain
        self._other = domain.domain.oracle()

    def __call__(self, G: Array) -> Any:
        atom = self._other(self.domain._inner_direction(G))
        self.error = abs(self.domain.factor) * self._other.error
        return self.domain._outer(atom, G)


class _Made(Set, trusted=True):
    """The image of another set, whose oracle it uses."""

    domain: Any
    factor: float = 1.0  # of lengths, and of the oracle's error
    _image: Any  # a point of the other set -> the point of this set
    _outer: Any  # a vertex of the other set, G -> the vertex of this set
    _oracle = MadeOracle

    def _inner_direction(self, G: Array) -> Array:
        """Return the gradient for the other set."""
        return G

    def _vertex(self, G: Array) -> Array:
        return self._outer(Dense(self.domain.lmo(self._inner_direction(G))), G).dense()

    def _centre(self) -> np.ndarray:
        return np.asarray(self._image(self.domain.start()))

    def random(self, rng: Any = None) -> np.ndarray:
        return np.asarray(self._image(self.domain.random(rng)))


class _Affine(_Made, trusted=True):
    """The image of another set under a bijection that scales all lengths by one factor."""

    _preimage: Any

    def _take(self, domain: Any) -> None:
        """Set the attributes that follow from the other set and the factor."""
        self.domain = _own(domain)
        self.shape = tuple(domain.shape)
        self.polytope, self.faces = domain.polytope, domain.faces
        self.scale = abs(self.factor) * domain.scale
        self.strong_convexity = domain.strong_convexity / abs(self.factor)
        if domain.projects:
            self.project = self._project

    @property
    def diameter(self) -> float:  # type: ignore[override]
        """The diameter of the other set, scaled."""
        return abs(self.factor) * float(self.domain.diameter)

    def violation(self, x: Array) -> float:
        """Return the violation of the other set, scaled."""
        return abs(self.factor) * float(self.domain.violation(self._preimage(self._values(x))))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(self.domain.tangent(G))

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return float(self.domain.reach(self._preimage(x), d / self.factor))

    def spheres(self) -> Spheres | None:
        own: Spheres | None = self.domain.spheres()
        return None if own is None else own._replace(centre=self._image(own.centre))

    def _project(self, x: Array) -> Array:
        x = _validate.array(x, "x", shape=self.shape)
        return self._image(self.domain.project(self._preimage(x)))


class Shift(_Affine, trusted=True):
    """The set {x + by : x in domain}.

    Parameters
    ----------
    domain : Set
        The set to shift.
    by : array_like
        The shift, of the set's shape.

    Examples
    --------
    >>> dcfw.sets.Shift(dcfw.sets.L1Ball(2), by=[3.0, 0.0]).lmo(np.array([1.0, 0.0]))
    array([2., 0.])
    """

    def __init__(self, domain: Any, by: Any) -> None:
        self._take(domain)
        self.by = np.asarray(to_numpy(_validate.array(by, "by", shape=self.shape)), dtype=np.float64)

    def _image(self, x: Array) -> Array:
        return x + like(self.by, x)

    def _preimage(self, x: Array) -> Array:
        return x - like(self.by, x)

    def _outer(self, atom: Atom, G: Array) -> Atom:
        return Dense(atom.dense() + like(self.by, G))

    def __repr__(self) -> str:
        return f"Shift({self.domain!r})"


class Scale(_Affine, trusted=True):
    """The set {factor x : x in domain}.

    Parameters
    ----------
    domain : Set
        The set to scale.
    factor : float
        The factor, not zero; a negative one also reflects.

    Examples
    --------
    >>> dcfw.sets.Scale(dcfw.sets.Simplex(2), factor=-3.0).lmo(np.array([1.0, 0.0]))
    array([-3., -0.])
    """

    def __init__(self, domain: Any, factor: float) -> None:
        _own(domain)
        self.factor = _validate.scalar(factor, "factor")
        if self.factor == 0.0:
            raise ValueError("factor must not be zero")
        self._take(domain)

    def _image(self, x: Array) -> Array:
        return self.factor * x

    def _preimage(self, x: Array) -> Array:
        return x / self.factor

    def _inner_direction(self, G: Array) -> Array:
        return G if self.factor > 0.0 else -G

    def _outer(self, atom: Atom, G: Array) -> Atom:
        factor = self.factor
        if isinstance(atom, OneHot):
            return OneHot(atom.index, factor * atom.value, atom.shape, atom.dtype)
        if isinstance(atom, Entries | Permutation):
            indices, values = atom.support()
            return Entries(indices, factor * values, atom.shape)
        if isinstance(atom, Signs):
            return Signs(atom.signs, factor * atom.radius, atom.dtype)
        if isinstance(atom, RankOne):
            return RankOne(atom.u, atom.v, factor * atom.scale)
        return Dense(factor * atom.dense())

    def __repr__(self) -> str:
        return f"Scale({self.domain!r}, factor={self.factor:g})"


class LinearImage(_Made, trusted=True):
    """The set {A x : x in domain}, x raveled.

    Parameters
    ----------
    A : array_like or sparse matrix
        A matrix with a column for each entry of the set's points.
    domain : Set
        The set to map.

    Attributes
    ----------
    diameter : float
        An upper bound: the largest singular value of A times the set's diameter.

    Notes
    -----
    ``contains`` uses the oracle in Wolfe's method, which is exact for polytopes and approximate for other
    sets.

    Examples
    --------
    >>> dcfw.sets.LinearImage([[1.0, 1.0, 0.0]], dcfw.sets.LInfBall(3)).lmo(np.array([1.0]))
    array([-2.])
    """

    def __init__(self, A: Any, domain: Any) -> None:
        self.domain = _own(domain)
        size = math.prod(domain.shape)
        matrix = A.toarray() if hasattr(A, "toarray") else A
        self.A = np.array(to_numpy(_validate.array(matrix, "A", ndim=2)), dtype=np.float64)
        if self.A.shape[1] != size or not self.A.shape[0]:
            raise ValueError(f"A must have {size} columns (the entries of domain), got shape {self.A.shape}")
        self.shape = (self.A.shape[0],)
        self.polytope, self.faces = domain.polytope, domain.faces
        self.scale = (float(np.abs(self.A).max()) or 1.0) * domain.scale

    @functools.cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """An upper bound of the Euclidean diameter (see the class)."""
        largest = float(np.abs(self.A).max()) or 1.0
        return largest * float(np.linalg.norm(self.A / largest, 2)) * float(self.domain.diameter)

    def _inner_direction(self, G: Array) -> Array:
        xp = namespace(G)
        return xp.reshape(like(self.A, G).T @ G, tuple(self.domain.shape))

    def _image(self, x: Array) -> Array:
        return self.A @ np.asarray(x).reshape(-1)

    def _outer(self, atom: Atom, G: Array) -> Atom:
        s = atom.dense()
        return Dense(like(self.A, G) @ namespace(s).reshape(s, (-1,)))

    def violation(self, x: Array) -> float:
        """Return the distance to the set, up to rounding."""
        x = self._values(x)
        return separation(lambda G: np.asarray(self._vertex(G)), x) if np.isfinite(x).all() else math.inf

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(self._columns @ (self._columns.T @ G))

    @functools.cached_property
    def _columns(self) -> np.ndarray:
        """An orthonormal basis of the column space of A, which contains all directions."""
        U, sigma, _ = np.linalg.svd(self.A, full_matrices=False)
        return np.asarray(U[:, sigma > 1e-13 * max(float(sigma[0]), 1e-300) * max(self.A.shape)])

    def __repr__(self) -> str:
        return f"LinearImage({self.A.shape[0]} x {self.A.shape[1]}, {self.domain!r})"


def _own(domain: Any) -> Set:
    """Return ``domain``, or raise ``TypeError`` if it is no :class:`Set`."""
    if not isinstance(domain, Set):
        raise TypeError(f"domain must be derived from dcfw.sets.Set, got {type(domain).__name__}")
    return domain
