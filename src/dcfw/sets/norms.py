"""Balls of vector norms, boxes, and the k-sparse polytope.

The linear oracle of the l_p ball is the case of equality in Hoelder's inequality: with 1/p + 1/q = 1,

    min { <G, s> : ||s||_p <= r } = -r ||G||_q,    s_i = -r sign(G_i) (|G_i| / ||G||_q)^(q-1).

At the ends it degenerates to something cheaper: one signed coordinate (p = 1) or a sign per entry
(p = inf).

The balls with 1 < p <= 2 are strongly convex: between any two of their points there is room for a
whole Euclidean ball, and Frank-Wolfe is faster there (Garber and Hazan, 2015).  Since 1/2 ||.||_p^2
is (p-1)-strongly convex with respect to ||.||_p, for x, y in the ball

    ||(1-eta) x + eta y||_p <= r - eta (1-eta) (p-1)/(2 r) ||x - y||_p^2,

and to pass to the Euclidean norm one uses ||x - y||_p >= ||x - y||_2 for the distance but
||z||_p <= n^(1/p - 1/2) ||z||_2 for the ball around the point; so the constant is
(p-1) n^(1/2 - 1/p) / r.  The dimension cannot be left out: for p near 1 the boundary is flatter than
(p-1)/r where many coordinates are small.

The arrays may have any shape; the norms see them as vectors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, like, namespace, norm, to_numpy
from dcfw.sets.atoms import Atom, Dense, Entries, OneHot, Signs
from dcfw.sets.base import Oracle, Set, apply, excess, first_hit, one_hot, select
from dcfw.sets.simplex import project_simplex


class LpBall(Set):
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
    >>> from dcfw.sets import LpBall
    >>> LpBall(2, p=3).lmo(np.array([1.0, -1.0])).round(4)
    array([-0.7937,  0.7937])
    """

    def __init__(self, shape: int | tuple[int, ...], p: float, radius: float = 1.0) -> None:
        self.shape = _validate.shape(shape)
        self.p = _validate.scalar(p, "p", low=1.0, allow_inf=True)
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.scale = self.radius
        n = math.prod(self.shape)
        self.diameter = lp_diameter(n, self.p, self.radius)
        self.strong_convexity = lp_strong_convexity(n, self.p, self.radius)
        self.polytope = self.p in (1.0, math.inf)

    def _vertex(self, G: Array) -> Array:
        return lp_vertex(G, self.p, self.radius)

    def oracle(self) -> Oracle:
        """Return an oracle (that answers with a :class:`~dcfw.sets.atoms.OneHot` for p = 1, and with
        :class:`~dcfw.sets.atoms.Signs` for p = inf)."""
        kind = {1.0: L1Oracle, math.inf: CubeOracle}.get(self.p, Oracle)
        return kind(self)

    def violation(self, x: Array) -> float:
        """Return ||x||_p - radius where that is positive."""
        return excess(lp_norm(self._values(x), self.p) - self.radius)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        if self.p == math.inf:
            return reach_cube(x, d, self.radius)
        if self.p == 1.0:
            return reach_l1(x, d, self.radius)
        return reach_l2(x, d, self.radius) if self.p == 2.0 else super()._reach(x, d)

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    def project(self, x: Array) -> Array:
        """Return the point of the ball nearest to ``x`` (for general p by Newton's method, to rounding)."""
        return apply(lambda values: project_lp(values, self.p, self.radius), x, self.shape)

    def _parameters(self) -> str:
        return f", p={self.p:g}" + super()._parameters()


class L1Ball(LpBall):
    """The cross-polytope ``sum |x_i| <= radius``; its vertices are the signed unit vectors.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> from dcfw.sets import L1Ball
    >>> L1Ball(3, radius=2.0).lmo(np.array([1.0, -5.0, 3.0]))
    array([0., 2., 0.])
    """

    def __init__(self, shape: int | tuple[int, ...], radius: float = 1.0) -> None:
        super().__init__(shape, 1.0, radius)

    def _parameters(self) -> str:
        return Set._parameters(self)


class L2Ball(LpBall):
    """The Euclidean ball {||x||_2 <= radius}, 1/radius-strongly convex.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> from dcfw.sets import L2Ball
    >>> L2Ball(2).lmo(np.array([3.0, 4.0]))
    array([-0.6, -0.8])
    """

    def __init__(self, shape: int | tuple[int, ...], radius: float = 1.0) -> None:
        super().__init__(shape, 2.0, radius)

    def _parameters(self) -> str:
        return Set._parameters(self)


class LInfBall(LpBall):
    """The cube ``max |x_i| <= radius``; its vertices are the sign patterns.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of x (an int means a vector).
    radius : float, default 1.0
        The radius.

    Examples
    --------
    >>> from dcfw.sets import LInfBall
    >>> LInfBall(3).lmo(np.array([1.0, -5.0, 3.0]))
    array([-1.,  1., -1.])
    """

    def __init__(self, shape: int | tuple[int, ...], radius: float = 1.0) -> None:
        super().__init__(shape, math.inf, radius)

    def _parameters(self) -> str:
        return Set._parameters(self)


class Box(Set):
    """The box {lower <= x <= upper}.

    Parameters
    ----------
    lower, upper : array_like
        The bounds, finite; they are broadcast against each other and to ``shape``.
    shape : int or tuple of int, optional
        The shape of x, by default that of the bounds.

    Examples
    --------
    >>> from dcfw.sets import Box
    >>> Box([0.0, -1.0], [2.0, 1.0]).lmo(np.array([1.0, -1.0]))
    array([0., 1.])
    >>> Box(0.0, 1.0, shape=3).start()
    array([0.5, 0.5, 0.5])
    """

    polytope = True

    def __init__(self, lower: Any, upper: Any, shape: int | tuple[int, ...] | None = None) -> None:
        low = np.asarray(to_numpy(_validate.array(lower, "lower")), dtype=np.float64)
        high = np.asarray(to_numpy(_validate.array(upper, "upper")), dtype=np.float64)
        try:
            wanted = np.broadcast_shapes(low.shape, high.shape)
            if shape is not None:
                wanted = np.broadcast_shapes(wanted, _validate.shape(shape))
                if wanted != _validate.shape(shape):
                    raise ValueError
        except ValueError:
            given = "" if shape is None else f" and shape {shape}"
            raise ValueError(f"lower {low.shape} and upper {high.shape}{given} do not fit together") from None
        if wanted == ():
            raise ValueError("lower and upper are scalars: give shape too, as in Box(0.0, 1.0, shape=5)")
        self.shape = _validate.shape(wanted, "the shape of lower and upper")
        self.lower = np.broadcast_to(low, self.shape).copy()
        self.upper = np.broadcast_to(high, self.shape).copy()
        if bool((self.lower > self.upper).any()):
            at = tuple(int(i) for i in np.argwhere(self.lower > self.upper)[0])
            raise ValueError(
                f"lower must not exceed upper, but at {at} lower is {self.lower[at]:g} "
                f"and upper is {self.upper[at]:g}"
            )
        self.scale = float(max(np.abs(self.lower).max(), np.abs(self.upper).max())) or 1.0
        self.diameter = norm(self.upper - self.lower)

    def _vertex(self, G: Array) -> Array:
        return namespace(G).where(G > 0, like(self.lower, G), like(self.upper, G))

    def violation(self, x: Array) -> float:
        """Return by how much the worst entry is outside its bounds."""
        x = self._values(x)
        return excess(float(np.maximum(self.lower - x, x - self.upper).max()))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.where(self.lower < self.upper, G, 0.0)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return min(first_hit(self.upper - x, d), first_hit(x - self.lower, -d))

    def _centre(self) -> np.ndarray:
        return np.asarray(0.5 * self.lower + 0.5 * self.upper)

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a point drawn uniformly from the box."""
        weight = _validate.generator(rng).random(self.shape)
        return np.clip((1.0 - weight) * self.lower + weight * self.upper, self.lower, self.upper)

    def project(self, x: Array) -> Array:
        """Return ``x`` with each entry moved to its nearest bound where it is outside."""
        return apply(lambda values: np.clip(values, self.lower, self.upper), x, self.shape)

    def _parameters(self) -> str:
        low, high = self.lower, self.upper
        constant = bool((low == low.flat[0]).all() and (high == high.flat[0]).all())
        return f", lower={low.flat[0]:g}, upper={high.flat[0]:g}" if constant else ", lower=..., upper=..."


class KSparse(Set):
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
    >>> from dcfw.sets import KSparse
    >>> KSparse(4, k=2).lmo(np.array([1.0, -5.0, 3.0, 0.0]))
    array([ 0.,  1., -1.,  0.])
    """

    polytope = True

    def __init__(self, shape: int | tuple[int, ...], k: int, radius: float = 1.0) -> None:
        self.shape = _validate.shape(shape)
        self.k = _validate.integer(k, "k", low=1, high=math.prod(self.shape))
        self.radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        self.scale = self.radius
        self.diameter = 2.0 * self.radius * math.sqrt(self.k)

    def _vertex(self, G: Array) -> Array:
        if isinstance(G, np.ndarray):
            return self._largest(G).dense()
        xp = namespace(G)
        # The rank of each entry by size: a scatter that needs no in-place write.
        rank = xp.argsort(xp.argsort(xp.reshape(xp.abs(G), (-1,)), descending=True))
        chosen = xp.reshape(rank, self.shape) < self.k
        signed = select(G > 0, -self.radius, self.radius, G)
        return xp.where(chosen, signed, xp.zeros_like(G))

    def _largest(self, G: np.ndarray) -> Entries:
        """Return the vertex that is opposite to the k largest entries of G."""
        flat = G.reshape(-1)
        rest = flat.size - self.k
        top = np.argpartition(np.abs(flat), rest)[rest:] if rest else np.arange(self.k)
        top.sort()
        return Entries(top, np.where(flat[top] > 0, -self.radius, self.radius).astype(G.dtype), self.shape)

    def oracle(self) -> Oracle:
        """Return an oracle that answers NumPy gradients with :class:`~dcfw.sets.atoms.Entries`."""
        return KSparseOracle(self)

    def violation(self, x: Array) -> float:
        """Return the larger excess of ||x||_inf over radius and of ||x||_1 / k over radius."""
        x = np.abs(self._values(x))
        return excess(max(float(x.sum()) / self.k, float(x.max())) - self.radius)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return min(reach_cube(x, d, self.radius), reach_l1(x, d, self.k * self.radius))

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    def project(self, x: Array) -> Array:
        """Return the point of the polytope nearest to ``x``, exactly, in O(n log n)."""
        return apply(lambda values: project_ksparse(values, self.k, self.radius), x, self.shape)

    def _parameters(self) -> str:
        return f", k={self.k}" + super()._parameters()


class L1Oracle(Oracle):
    """The entry of largest size, kept as an index and a signed radius."""

    def __init__(self, domain: LpBall) -> None:
        super().__init__(domain)
        self.radius = domain.radius
        self.shape = domain.shape

    def __call__(self, G: Array) -> Atom:
        if isinstance(G, np.ndarray):
            index = int(abs(G).argmax())
            value = -self.radius if G.item(index) > 0.0 else self.radius
            return OneHot(index, value, self.shape, G.dtype)
        return Dense(self._vertex(G))


class CubeOracle(Oracle):
    """The signs, one byte each."""

    def __init__(self, domain: LpBall) -> None:
        super().__init__(domain)
        self.radius = domain.radius

    def __call__(self, G: Array) -> Atom:
        if isinstance(G, np.ndarray):
            signs = (G <= 0.0).view(np.int8)  # 0 or 1, to become -1 or 1
            signs *= 2
            signs -= 1
            return Signs(signs, self.radius, G.dtype)
        return Dense(self._vertex(G))


class KSparseOracle(Oracle):
    """The k entries of largest size."""

    domain: KSparse

    def __call__(self, G: Array) -> Atom:
        return self.domain._largest(G) if isinstance(G, np.ndarray) else Dense(self._vertex(G))


def lp_vertex(G: Array, p: float, radius: float) -> Array:
    """Return an extreme point of the l_p ball that minimises <G, s>, an array like ``G``."""
    if p == math.inf:
        return select(G > 0, -radius, radius, G)
    xp = namespace(G)
    size = xp.abs(G)
    if p == 1.0:
        index = int(xp.argmax(xp.reshape(size, (-1,))))
        return one_hot(index, -radius if float(xp.reshape(G, (-1,))[index]) > 0.0 else radius, G)
    largest = float(xp.max(size))
    if largest == 0.0:
        return one_hot(0, -radius, G)
    # Dividing by the largest entry first, nothing overflows and the norm below is at least 1.
    H = G / largest
    if p == 2.0:
        return H * (-radius / norm(H))
    # Normalised by its own p-norm and not by the dual norm of G, which keeps s on the sphere to rounding
    # even where q - 1 = 1/(p-1) is so large that the powers are inaccurate.
    t = xp.abs(H) ** (1.0 / (p - 1.0))
    return xp.sign(H) * t * (-radius / float(xp.sum(t**p)) ** (1.0 / p))


def lp_norm(x: np.ndarray, p: float) -> float:
    """Return ||x||_p of all entries, safe against overflow."""
    size = np.abs(x)
    largest = float(size.max())
    if p == math.inf or largest == 0.0 or not math.isfinite(largest):
        return largest
    return float(largest * ((size / largest) ** p).sum() ** (1.0 / p))


def lp_diameter(n: int, p: float, radius: float) -> float:
    """Return the Euclidean diameter of the l_p ball in R^n, along an axis (p <= 2) or a diagonal."""
    inverse = 0.0 if p == math.inf else 1.0 / p
    return 2.0 * radius * math.pow(n, max(0.0, 0.5 - inverse))


def lp_strong_convexity(n: int, p: float, radius: float) -> float:
    """Return the strong convexity of the l_p ball in R^n with respect to the Euclidean norm."""
    if not 1.0 < p <= 2.0:
        return 0.0
    return (p - 1.0) * math.pow(n, 0.5 - 1.0 / p) / radius


def reach_cube(x: np.ndarray, d: np.ndarray, radius: float) -> float:
    """Return the largest step with ||x + step d||_inf <= radius."""
    return min(first_hit(radius - x, d), first_hit(radius + x, -d))


def reach_l2(x: np.ndarray, d: np.ndarray, radius: float) -> float:
    """Return the largest step with ||x + step d||_2 <= radius: the positive root of a quadratic."""
    a, b, c = float(np.vdot(d, d)), float(np.vdot(x, d)), min(float(np.vdot(x, x)) - radius**2, 0.0)
    if a == 0.0:
        return math.inf
    root = math.sqrt(b * b - a * c)
    # Of the two forms of the root, the one without cancellation.
    return -c / (b + root) if b > 0.0 else (root - b) / a


def reach_l1(x: np.ndarray, d: np.ndarray, radius: float) -> float:
    """Return the largest step with ||x + step d||_1 <= radius.

    The norm along the line is convex and piecewise linear: its slope grows by 2 |d_i| where entry i changes
    its sign.  The answer lies on the first piece that leaves the ball.  Along a facet the slope is rounding,
    as is what x lacks to the radius; there the norm may grow by half of what ``contains`` takes for rounding.
    """
    x, d = x.ravel(), d.ravel()
    if not d.any():
        return math.inf
    slope = float(np.where(x != 0.0, np.sign(x) * d, np.abs(d)).sum())
    turning = x * d < 0.0
    with np.errstate(over="ignore"):  # an entry that hardly moves turns at infinity
        at = -x[turning] / d[turning]
    order = np.argsort(at)
    at = np.concatenate(([0.0], at[order]))
    at = at[np.isfinite(at)]
    slopes = slope + np.concatenate(([0.0], 2.0 * np.cumsum(np.abs(d[turning])[order])))[: len(at)]
    values = np.abs(x).sum() + np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(at))))
    rounding = 4.0 * float(np.finfo(np.float64).eps) * math.sqrt(x.size)
    k = int(np.append(values[1:] > radius * (1.0 + rounding), True).argmax())
    if slopes[k] <= 0.0:  # rounding at a corner
        return float(at[k])
    flat = slopes[k] <= rounding * max(radius, float(np.abs(d).sum()))
    edge = radius * (1.0 + rounding) if flat else radius
    return float(at[k] + max(edge - float(values[k]), 0.0) / slopes[k])


def project_l1(x: np.ndarray, radius: float) -> np.ndarray:
    """Return the projection of ``x`` onto the l1 ball: the simplex projection of |x|, signs restored."""
    size = np.abs(x)
    if float(size.sum()) <= radius:
        return x
    return np.asarray(np.copysign(project_simplex(size, radius), x))


def project_lp(x: np.ndarray, p: float, radius: float) -> np.ndarray:
    """Return the projection of ``x`` onto the l_p ball.

    For 1 < p < inf, p != 2, the sizes y of the answer (in units of the radius) satisfy
    y_i + mu y_i^(p-1) = |x_i| for the multiplier mu >= 0 that makes sum y_i^p = 1.  That sum decreases
    in mu, so mu is found by Newton's method between bounds that are halved whenever Newton leaves them.
    """
    if p == 1.0:
        return project_l1(x, radius)
    if p == math.inf:
        return np.asarray(np.clip(x, -radius, radius))
    length = lp_norm(x, p)
    if length <= radius:
        return x
    if p == 2.0:
        return np.asarray(x * (radius / length))
    a = np.abs(x) / radius
    low, high = 0.0, lp_norm(a, p / (p - 1.0))  # y_i <= (a_i/mu)^(1/(p-1)), hence the upper end
    mu = 0.5 * high
    for _ in range(200):
        y = _lp_stationary(a, mu, p)
        total = float((y**p).sum())
        low, high = (mu, high) if total > 1.0 else (low, mu)
        if abs(total - 1.0) <= 1e-15 * p or high - low <= 1e-16 * high:
            break
        # dy/dmu = -y^(p-1) / (1 + mu (p-1) y^(p-2)), written without negative powers.
        if p < 2.0:
            slope = -y / (y ** (2.0 - p) + mu * (p - 1.0))
        else:
            slope = -(y ** (p - 1.0)) / (1.0 + mu * (p - 1.0) * y ** (p - 2.0))
        derivative = p * float((y ** (p - 1.0) * slope).sum())
        # Newton on the norm's inverse power, (sum y^p)^(-1/p) = 1: nearly linear in mu far from the ball.
        step = p * total * (total ** (1.0 / p) - 1.0) / derivative if derivative < 0.0 else 0.0
        mu = mu - step if low < mu - step < high else 0.5 * (low + high)
    y *= min(radius, radius / lp_norm(y, p))
    return np.asarray(np.copysign(y, x))


def _lp_stationary(a: np.ndarray, mu: float, p: float) -> np.ndarray:
    """Return y >= 0 with y + mu y^(p-1) = a, entry by entry.

    In w = y (p >= 2) or w = y^(p-1) (p < 2) the left side is a linear term plus a power w^e with
    e >= 1: convex and increasing.  Newton's method from a point above the root then decreases
    monotonically to it, and min(the root of either term alone) is such a point, at most a factor 2 off.
    """
    e = p - 1.0 if p >= 2.0 else 1.0 / (p - 1.0)
    linear, power = (1.0, mu) if p >= 2.0 else (mu, 1.0)
    w = np.minimum(a / linear, (a / power) ** (1.0 / e))
    for _ in range(100):
        slope = linear + power * e * w ** (e - 1.0)
        step = (linear * w + power * w**e - a) / slope
        w = np.maximum(w - step, 0.0)
        if bool((np.abs(step) <= 1e-16 * w).all()) or bool((step <= 0.0).all()):
            break
    return w if p >= 2.0 else w**e


def project_ksparse(x: np.ndarray, k: int, radius: float) -> np.ndarray:
    """Return the projection clip(|x| - theta, 0, radius), signs restored.

    theta is 0 if that already has sum <= k radius; otherwise it solves sum = k radius, where the sum is
    piecewise linear and decreasing in theta with kinks at |x_i| and |x_i| - radius: the right piece is
    found by bisection over the sorted kinks, then theta is exact.
    """
    size = np.abs(x)
    budget = k * radius

    def total(theta: float) -> float:
        return float(np.clip(size - theta, 0.0, radius).sum())

    if total(0.0) <= budget:
        return np.asarray(np.copysign(np.clip(size, 0.0, radius), x))
    kinks = np.concatenate(([0.0], np.sort(np.concatenate((size, size - radius), axis=None))))
    kinks = kinks[kinks >= 0.0]
    low, high = 0, len(kinks) - 1  # total(kinks[low]) > budget >= total(kinks[high]) = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(float(kinks[middle])) > budget else (low, middle)
    above, below = total(float(kinks[low])), total(float(kinks[high]))
    theta = kinks[low] + (kinks[high] - kinks[low]) * (above - budget) / (above - below)
    return np.asarray(np.copysign(np.clip(size - theta, 0.0, radius), x))
