"""Balls of vector norms, boxes, and the k-sparse polytope; arrays of any shape count as vectors.

The oracles, projections and constants of l_p norms are in :mod:`dcfw.sets.lp`.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, like, namespace, norm, to_numpy
from dcfw.sets.atoms import Atom, Entries, OneHot, Signs
from dcfw.sets.base import AtomOracle, Oracle, Set, excess, first_hit, in_numpy, select
from dcfw.sets.lp import lp_diameter, lp_norm, lp_strong_convexity, lp_vertex, project_lp, reach_l1, reach_l2
from dcfw.sets.simplex import Hypersimplex, least
from dcfw.sets.spheres import Spheres, coordinate_spheres, one_sphere


class NormBall(Set, trusted=True):
    """The ball of the l_p norm of ``size`` numbers: the entries of x, or its singular values."""

    def __init__(self, shape: tuple[int, ...], size: int, p: float, radius: float) -> None:
        self.shape = shape
        self.p = _validate.scalar(p, "p", low=1.0, allow_inf=True)
        self.radius = self.scale = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.diameter = lp_diameter(size, self.p, self.radius)
        self.strong_convexity = lp_strong_convexity(size, self.p, self.radius)

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    def _parameters(self) -> str:
        takes_p = "p" in inspect.signature(type(self)).parameters
        return (f", p={self.p:g}" if takes_p else "") + super()._parameters()


class LpBall(NormBall, trusted=True):
    """The ball {||x||_p <= radius} of the l_p norm, 1 <= p <= inf.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    p : float
        The exponent, at least 1; ``math.inf`` is allowed.
    radius : float, default 1.0
        The radius.

    Attributes
    ----------
    strong_convexity : float
        (p-1) n^(1/2-1/p) / radius for 1 < p <= 2 (with respect to the Euclidean norm), 0 otherwise.

    Examples
    --------
    >>> dcfw.sets.LpBall(2, p=3).lmo(np.array([1.0, -1.0])).round(4)
    array([-0.7937,  0.7937])
    """

    def __init__(self, shape: int | tuple[int, ...], p: float, radius: float = 1.0) -> None:
        shape = _validate.shape(shape)
        super().__init__(shape, math.prod(shape), p, radius)
        self.polytope = self.p in (1.0, math.inf)

    def _vertex(self, G: Array) -> Array:
        return lp_vertex(G, self.p, self.radius)

    def oracle(self) -> Oracle:
        return {1.0: L1Oracle, math.inf: AtomOracle}.get(self.p, Oracle)(self)

    def _atom(self, G: np.ndarray) -> Atom:
        """Return the vertex in compact form, for p = 1 and p = inf."""
        if self.p == 1.0:
            return self._spike(G, int(abs(G).argmax()))
        signs = (G <= 0.0).view(np.int8)  # 0 or 1, to become -1 or 1
        signs *= 2
        signs -= 1
        return Signs(signs, self.radius, G.dtype)

    def _spike(self, G: np.ndarray, index: int) -> OneHot:
        """Return the vertex of the l1 ball at ``index`` with the opposite sign of G."""
        return OneHot(index, -self.radius if G.item(index) > 0.0 else self.radius, self.shape, G.dtype)

    def violation(self, x: Array) -> float:
        """Return ||x||_p - radius where that is positive."""
        return excess(lp_norm(self._values(x), self.p) - self.radius)

    def entry_bounds(self) -> tuple[Any, Any] | None:
        return (-self.radius, self.radius) if math.isinf(self.p) else None

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        if self.p == 1.0:
            return reach_l1(x, d, self.radius)
        return reach_l2(x, d, self.radius) if self.p == 2.0 else super()._reach(x, d)

    def spheres(self) -> Spheres | None:
        if self.p == math.inf:
            return coordinate_spheres(np.zeros(self.shape))
        return one_sphere(self.shape) if self.p in (1.0, 2.0) else None

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the point of the ball nearest to ``x``, for general p by Newton's method to rounding."""
        return project_lp(x, self.p, self.radius)


class L1Ball(LpBall, trusted=True):
    """The cross-polytope ``sum |x_i| <= radius``; its vertices are the signed unit vectors.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> dcfw.sets.L1Ball(3, radius=2.0).lmo(np.array([1.0, -5.0, 3.0]))
    array([0., 2., 0.])
    """

    def __init__(self, shape: int | tuple[int, ...], radius: float = 1.0) -> None:
        super().__init__(shape, 1.0, radius)


class L2Ball(LpBall, trusted=True):
    """The Euclidean ball {||x||_2 <= radius}, 1/radius-strongly convex.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> dcfw.sets.L2Ball(2).lmo(np.array([3.0, 4.0]))
    array([-0.6, -0.8])
    """

    def __init__(self, shape: int | tuple[int, ...], radius: float = 1.0) -> None:
        super().__init__(shape, 2.0, radius)


class LInfBall(LpBall, trusted=True):
    """The cube ``max |x_i| <= radius``; its vertices are the sign patterns.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> dcfw.sets.LInfBall(3).lmo(np.array([1.0, -5.0, 3.0]))
    array([-1.,  1., -1.])
    """

    def __init__(self, shape: int | tuple[int, ...], radius: float = 1.0) -> None:
        super().__init__(shape, math.inf, radius)


class Box(Set, trusted=True):
    """The box {lower <= x <= upper}.

    Parameters
    ----------
    lower, upper : array_like
        The bounds, finite; they are broadcast against each other and to ``shape``.
    shape : int or tuple of int, optional
        The shape of x, by default that of the bounds.

    Examples
    --------
    >>> dcfw.sets.Box([0.0, -1.0], [2.0, 1.0]).lmo(np.array([1.0, -1.0]))
    array([0., 1.])
    >>> dcfw.sets.Box(0.0, 1.0, shape=3).start()
    array([0.5, 0.5, 0.5])
    """

    polytope = True

    def __init__(self, lower: Any, upper: Any, shape: int | tuple[int, ...] | None = None) -> None:
        low = np.asarray(to_numpy(_validate.array(lower, "lower")), dtype=np.float64)
        high = np.asarray(to_numpy(_validate.array(upper, "upper")), dtype=np.float64)
        try:
            wanted = np.broadcast_shapes(low.shape, high.shape) if shape is None else _validate.shape(shape)
            self.lower, self.upper = (np.broadcast_to(bound, wanted).copy() for bound in (low, high))
        except ValueError:
            given = "" if shape is None else f" and shape {shape}"
            raise ValueError(f"lower {low.shape} and upper {high.shape}{given} do not fit together") from None
        if wanted == ():
            raise ValueError("lower and upper are scalars: give shape too, as in Box(0.0, 1.0, shape=5)")
        self.shape = _validate.shape(wanted, "the shape of lower and upper")
        if bool((self.lower > self.upper).any()):
            at = tuple(np.argwhere(self.lower > self.upper)[0].tolist())
            one, two = self.lower[at], self.upper[at]
            raise ValueError(
                f"lower must not exceed upper, but at {at} lower is {one:g} and upper is {two:g}"
            )
        self.scale = float(max(np.abs(self.lower).max(), np.abs(self.upper).max())) or 1.0
        self.diameter = norm(self.upper - self.lower)
        self.nonnegative = bool((self.lower >= 0.0).all())

    def _vertex(self, G: Array) -> Array:
        return namespace(G).where(G > 0, like(self.lower, G), like(self.upper, G))

    def violation(self, x: Array) -> float:
        """Return the largest excess of an entry over its bounds."""
        x = self._values(x)
        return excess(float(np.maximum(self.lower - x, x - self.upper).max()))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.where(self.lower < self.upper, G, 0.0)

    def entry_bounds(self) -> tuple[Any, Any]:
        return self.lower, self.upper

    def _centre(self) -> np.ndarray:
        return np.asarray(0.5 * self.lower + 0.5 * self.upper)

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a point drawn uniformly from the box."""
        weight = _validate.generator(rng).random(self.shape)
        return np.clip((1.0 - weight) * self.lower + weight * self.upper, self.lower, self.upper)

    def spheres(self) -> Spheres:
        return coordinate_spheres(self._centre())

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return ``x`` with its entries clipped to the bounds."""
        return np.clip(x, self.lower, self.upper)

    def _parameters(self) -> str:
        low, high = self.lower, self.upper
        constant = bool((low == low.flat[0]).all() and (high == high.flat[0]).all())
        return f", lower={low.flat[0]:g}, upper={high.flat[0]:g}" if constant else ", lower=..., upper=..."


class KSparse(Set, trusted=True):
    """The k-sparse polytope {||x||_1 <= k radius, ||x||_inf <= radius}.

    It is the convex hull of the vectors with k entries of size ``radius`` and the rest zero.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    k : int
        The number of nonzeros of a vertex, from 1 (the l1 ball) to the number of entries (the cube).
    radius : float, default 1.0
        The size of a vertex's entries.

    Examples
    --------
    >>> dcfw.sets.KSparse(4, k=2).lmo(np.array([1.0, -5.0, 3.0, 0.0]))
    array([ 0.,  1., -1.,  0.])
    """

    polytope = True
    _oracle = AtomOracle

    def __init__(self, shape: int | tuple[int, ...], k: int, radius: float = 1.0) -> None:
        self.shape = _validate.shape(shape)
        self.k = _validate.integer(k, "k", low=1, high=math.prod(self.shape))
        self.radius = self.scale = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.diameter = 2.0 * self.radius * math.sqrt(self.k)
        self._sizes = Hypersimplex(self.shape, self.k, self.radius, at_most=True)  # that of all |x|

    def _vertex(self, G: Array) -> Array:
        if isinstance(G, np.ndarray):
            return self._atom(G).dense()
        xp = namespace(G)
        # The rank of each entry by size, without writing in place.
        rank = xp.argsort(xp.argsort(xp.reshape(xp.abs(G), (-1,)), descending=True))
        signed = select(G > 0, -self.radius, self.radius, G)
        return xp.where(xp.reshape(rank, self.shape) < self.k, signed, xp.zeros_like(G))

    def _atom(self, G: np.ndarray) -> Entries:
        flat = G.reshape(-1)
        rest = flat.size - self.k
        top = np.argpartition(np.abs(flat), rest)[rest:] if rest else np.arange(self.k)
        top = np.sort(top)  # a copy, as a view would keep the whole partition alive
        return Entries(top, np.where(flat[top] > 0, -self.radius, self.radius).astype(G.dtype), self.shape)

    def violation(self, x: Array) -> float:
        """Return the larger excess of ||x||_inf over radius and of ||x||_1 / k over radius."""
        return self._sizes.violation(np.abs(self._values(x)))

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        cube = min(first_hit(self.radius - x, d), first_hit(self.radius + x, -d))
        return min(cube, reach_l1(x, d, self.k * self.radius))

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    def spheres(self) -> Spheres:
        return one_sphere(self.shape)

    @in_numpy
    def project(self, x: Array) -> Array:
        """Return the point of the polytope nearest to ``x``, exactly, in O(n log n)."""
        return np.copysign(self._sizes.project(np.abs(x)), x)

    def _parameters(self) -> str:
        return f", k={self.k}" + super()._parameters()


class L1Oracle(AtomOracle):
    """The largest entry in absolute value, as an index and a signed radius."""

    def runners_up(self, G: Array, count: int) -> list[Atom]:
        return [self.domain._spike(G, j) for j in least(-abs(G), count)]
