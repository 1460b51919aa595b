"""l_p balls: linear oracle, diameter, strong convexity, distance to the boundary and projection.

The linear oracle of the l_p ball is the case of equality in Hoelder's inequality: with 1/p + 1/q = 1,

    min { <G, s> : ||s||_p <= r } = -r ||G||_q,    s_i = -r sign(G_i) (|G_i| / ||G||_q)^(q-1).

It is one signed coordinate for p = 1 and a sign per entry for p = inf.

The balls with 1 < p <= 2 are strongly convex with the constant (p-1) n^(1/2 - 1/p) / r (Garber and Hazan,
2015): 1/2 ||.||_p^2 is (p-1)-strongly convex with respect to ||.||_p, ||z||_p >= ||z||_2 for the distance,
and ||z||_p <= n^(1/p - 1/2) ||z||_2 for the ball around the point.

Arrays may have any shape; the norms treat them as vectors.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw._arrays import Array, namespace, norm
from dcfw.sets.base import one_hot, select
from dcfw.sets.simplex import project_simplex


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
    # Division by the largest entry avoids overflow and makes the norm below at least 1.
    H = G / largest
    if p == 2.0:
        return H * (-radius / norm(H))
    # Normalising by the p-norm of s, not the dual norm of G, keeps s on the sphere to rounding even where
    # q - 1 = 1/(p-1) is so large that the powers are inaccurate.
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
    return 2.0 * radius * math.pow(n, max(0.0, 0.5 - 1.0 / p))


def lp_strong_convexity(n: int, p: float, radius: float) -> float:
    """Return the strong convexity of the l_p ball in R^n with respect to the Euclidean norm."""
    return (p - 1.0) * math.pow(n, 0.5 - 1.0 / p) / radius if 1.0 < p <= 2.0 else 0.0


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
    sign.  The answer lies on the first piece that leaves the ball.  Along a facet both the slope and the
    distance to the radius are rounding errors; there the norm may grow by half the rounding that ``contains``
    tolerates.
    """
    x, d = x.ravel(), d.ravel()
    if not d.any():
        return math.inf
    slope = float(np.where(x != 0.0, np.sign(x) * d, np.abs(d)).sum())
    turning = x * d < 0.0
    with np.errstate(over="ignore"):  # an entry that hardly moves changes sign at infinity
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
    return x if float(size.sum()) <= radius else np.asarray(np.copysign(project_simplex(size, radius), x))


def project_lp(x: np.ndarray, p: float, radius: float) -> np.ndarray:
    """Return the projection of ``x`` onto the l_p ball.

    For 1 < p < inf, p != 2, the sizes y of the answer (in units of the radius) satisfy
    y_i + mu y_i^(p-1) = |x_i| for the multiplier mu >= 0 that makes sum y_i^p = 1.  That sum decreases
    in mu; Newton's method finds mu, with bisection whenever it leaves the bracket.
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
    """Return y >= 0 with y + mu y^(p-1) = a, entry by entry."""
    # In w = y (p >= 2) or w = y^(p-1) (p < 2) the left side is a linear term plus a power w^e with e >= 1:
    # convex and increasing.  Newton's method decreases monotonically to the root from any point above it,
    # such as the lesser of the roots of either term alone, which is at most a factor 2 off.
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
