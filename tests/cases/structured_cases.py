"""Sets with a structure: capped, ordered, grouped entries, ellipsoids, eigenvalues, variation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import sets
from dcfw.sets.atoms import Dense, Entries, OneHot, Signs
from set_case import Array, Case, near


def capped(shape: Any, upper: Any, radius: float = 1.0, at_most: bool = False) -> Case:
    domain = sets.CappedSimplex(shape, upper, radius, at_most)
    bound = np.broadcast_to(np.asarray(upper, dtype=float), domain.shape)

    def model(cp: Any, x: Any) -> list:
        return [x >= 0, x <= bound, cp.sum(x) <= radius if at_most else cp.sum(x) == radius]

    def extreme(s: Array, tol: float) -> bool:
        between = int(((s > tol) & (s < bound - tol)).sum())
        return between == 0 or (between == 1 and near(s.sum(), radius, tol))

    return Case(domain, model, extreme, Entries, diameter_is_a_bound=True)


def hypersimplex(shape: Any, k: int, radius: float = 1.0, at_most: bool = False) -> Case:
    domain = sets.Hypersimplex(shape, k, radius, at_most)

    def model(cp: Any, x: Any) -> list:
        return [x >= 0, x <= radius, cp.sum(x) <= k * radius if at_most else cp.sum(x) == k * radius]

    def extreme(s: Array, tol: float) -> bool:
        count = round(s.sum() / radius)
        return near(np.minimum(s, radius - s), 0.0, tol) and (count <= k if at_most else count == k)

    n = math.prod(domain.shape)
    widest = (np.arange(n) - n // 2 + 0.5).reshape(domain.shape)
    return Case(domain, model, extreme, Entries, widest)


def owl(weights: Any, radius: float = 1.0, shape: Any = None, domain: Any = None) -> Case:
    domain = domain or sets.OrderedWeightedL1(weights, radius, shape)
    w = np.asarray(weights, dtype=float)
    steps = w - np.append(w[1:], 0.0)

    def model(cp: Any, x: Any) -> list:
        size = cp.abs(cp.vec(x, order="C"))
        return [sum(c * cp.sum_largest(size, i + 1) for i, c in enumerate(steps) if c > 0.0) <= radius]

    def extreme(s: Array, tol: float) -> bool:
        size = np.sort(np.abs(s), axis=None)[::-1]
        count = int((size > tol).sum())
        equal = near(size[:count], radius / w[:count].sum(), tol)
        return equal and (count == 1 or w[count - 1] < w[0]) and (count == len(w) or w[count] > 0.0)

    sums = np.cumsum(w)
    best = int((np.sqrt(np.arange(1, len(w) + 1)) / sums).argmax()) + 1
    widest = (np.arange(len(w)) < best).astype(float).reshape(domain.shape)
    return Case(domain, model, extreme, (OneHot, Entries, Signs), widest)


def knorm(shape: Any, k: int, radius: float = 1.0) -> Case:
    domain = sets.KNormBall(shape, k, radius)
    return owl(np.arange(math.prod(domain.shape)) < k, radius, domain=domain)


def permutahedron(w: Any) -> Case:
    domain = sets.Permutahedron(w)
    tops = np.cumsum(np.sort(np.asarray(w, dtype=float))[::-1])

    def model(cp: Any, x: Any) -> list:
        parts = [cp.sum_largest(x, k + 1) <= top for k, top in enumerate(tops[:-1])]
        return [*parts, cp.sum(x) == tops[-1]]

    return Case(
        domain, model, lambda s, tol: near(np.sort(s), np.sort(w), tol), Dense, np.arange(len(w)) * 1.0
    )


def group_ball(groups: Any, p: float = 2.0, radius: float = 1.0) -> Case:
    domain = sets.GroupBall(groups, p, radius)
    labels = np.asarray(groups)
    each = [np.argwhere(labels == label) for label in np.unique(labels)]

    def model(cp: Any, x: Any) -> list:
        norms = [cp.norm(cp.hstack([x[tuple(i)] for i in places]), p) for places in each]
        return [sum(norms) <= radius]

    def extreme(s: Array, tol: float) -> bool:
        parts = [np.array([s[tuple(i)] for i in places]) for places in each]
        part = next(part for part in parts if np.abs(part).max() > tol)
        alone = near(sum(np.abs(other).sum() for other in parts), np.abs(part).sum(), tol)
        corner = {1.0: (np.abs(part) > tol).sum() == 1, math.inf: near(np.abs(part), radius, tol)}
        return alone and near(np.linalg.norm(part, p), radius, tol) and bool(corner.get(p, True))

    largest = max(each, key=len)
    widest = np.zeros(labels.shape)
    for i in largest if p > 2 else largest[:1]:
        widest[tuple(i)] = 1.0
    return Case(domain, model, extreme, Entries, widest, round=False)


def ellipsoid(A: Any, center: Any = None, radius: float = 1.0) -> Case:
    domain = sets.Ellipsoid(A, center, radius)
    matrix = np.diag(A) if np.ndim(A) == 1 else np.asarray(A)
    c = np.zeros(len(matrix)) if center is None else np.asarray(center)
    root = np.linalg.cholesky(matrix).T
    longest = np.linalg.eigh(matrix)[1][:, 0]
    return Case(
        domain,
        lambda cp, x: [cp.norm(root @ (x - c)) <= radius],
        lambda s, tol: near(np.linalg.norm(root @ (s - c)), radius, tol),
        Dense,
        longest,
        round=True,
    )


def fantope(n: int, k: int) -> Case:
    def extreme(s: Array, tol: float) -> bool:
        values = np.linalg.eigvalsh(s)
        return near(s, s.T, tol) and near(values, np.arange(n) >= n - k, tol)

    return Case(
        sets.Fantope(n, k),
        lambda cp, x: [x == x.T, 0.5 * (x + x.T) >> 0, np.eye(n) - 0.5 * (x + x.T) >> 0, cp.trace(x) == k],
        extreme,
        Dense,
        np.diag(np.arange(n) * 1.0),
    )


def variation(n: int, radius: float = 1.0, mean: float = 0.0) -> Case:
    def model(cp: Any, x: Any) -> list:
        return [cp.sum(x) == n * mean, *([cp.norm(x[1:] - x[:-1], 1) <= radius] if n > 1 else [])]

    def extreme(s: Array, tol: float) -> bool:
        jumps = np.sort(np.abs(np.diff(s)))[::-1]
        return n == 1 or (near(jumps[0], radius, tol) and near(jumps[1:], 0.0, tol))

    widest = (np.arange(n) < n // 2).astype(float)
    return Case(sets.TotalVariation1D(n, radius, mean), model, extreme, Dense, widest)


SKEW = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.5]])

STRUCTURED: tuple[Case, ...] = (
    capped(6, 0.3),
    capped((2, 3), [[0.5, 0.0, 2.0], [0.25, 1.0, 0.5]], radius=2.5),
    capped(5, [0.1, 3.0, 0.5, 0.7, 0.0], radius=1.5, at_most=True),
    capped(4, 0.25),
    hypersimplex(6, k=2),
    hypersimplex((2, 3), k=4, radius=0.5),
    hypersimplex(5, k=1, radius=2.0),
    hypersimplex(4, k=4),
    hypersimplex(6, k=2, radius=3.0, at_most=True),
    hypersimplex(5, k=4, at_most=True),
    owl([1.0, 0.7, 0.7, 0.2, 0.0]),
    owl([2.0, 2.0, 1.0, 0.5, 0.25, 0.1], radius=3.0, shape=(2, 3)),
    owl([1.0]),
    knorm(5, k=2),
    knorm((2, 3), k=6, radius=2.0),
    knorm(4, k=1, radius=0.5),
    permutahedron([3.0, -1.0, 2.0, 2.0, 0.5]),
    permutahedron([1.0, 1.0, 1.0]),
    group_ball([0, 0, 1, 1, 1, 2], radius=2.0),
    group_ball([[7, 7, 3], [3, 7, 3]], p=math.inf),
    group_ball([0, 1, 1, 0, 2], p=1.5),
    group_ball([0, 0, 1, 1], p=1.0, radius=0.5),
    ellipsoid([1.0, 4.0, 0.25], radius=2.0),
    ellipsoid(SKEW, center=[1.0, -2.0, 0.5], radius=0.5),
    fantope(4, k=2),
    fantope(5, k=4),
    fantope(3, k=3),
    variation(6),
    variation(5, radius=2.5, mean=-1.0),
    variation(1, mean=2.0),
)
