"""Sets of plans, paths, flows, trees and matchings, and sets made from others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import sets
from dcfw.sets.atoms import Dense, Entries
from set_case import Array, Case, near


def is_forest(cells: Array, rows: int, columns: int) -> bool:
    """Return whether the cells, edges between rows and columns, have no cycle."""
    parent = list(range(rows + columns))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    for i, j in cells:
        a, b = root(int(i)), root(rows + int(j))
        if a == b:
            return False
        parent[a] = b
    return True


def transport(a: Any, b: Any, solver: str = "auto") -> Case:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)

    def extreme(s: Array, tol: float) -> bool:
        return is_forest(np.argwhere(s > tol), *s.shape)

    uniform = len(a) == len(b) and len({*a, *b}) == 1
    return Case(
        sets.TransportPolytope(a, b, solver),
        lambda cp, x: [x >= 0, cp.sum(x, axis=1) == a, cp.sum(x, axis=0) == b],
        extreme,
        Entries,
        np.add.outer(np.arange(len(a)), np.arange(len(b))) % len(a) * 1.0 if uniform else None,
        diameter_is_a_bound=not uniform or len(a) > 2,
    )


def partial_transport(a: Any, b: Any, mass: float) -> Case:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)

    def extreme(s: Array, tol: float) -> bool:
        """The cells, with those of the dummies, have no cycle."""
        more = np.zeros((len(a) + 1, len(b) + 1))
        more[:-1, :-1] = s
        more[:-1, -1], more[-1, :-1] = a - s.sum(axis=1), b - s.sum(axis=0)
        return is_forest(np.argwhere(more > tol), *more.shape)

    return Case(
        sets.PartialTransport(a, b, mass),
        lambda cp, x: [x >= 0, cp.sum(x, axis=1) <= a, cp.sum(x, axis=0) <= b, cp.sum(x) == mass],
        extreme,
        Entries,
        diameter_is_a_bound=True,
    )


def partial_birkhoff(m: int, n: int, k: int | None = None) -> Case:
    domain = sets.PartialBirkhoff(m, n, k)

    def extreme(s: Array, tol: float) -> bool:
        single = max(s.sum(axis=0).max(), s.sum(axis=1).max()) <= 1.0 + tol
        return near(np.minimum(s, 1.0 - s), 0.0, tol) and near(s.sum(), domain.k, tol) and single

    return Case(
        domain,
        lambda cp, x: [x >= 0, cp.sum(x, axis=0) <= 1, cp.sum(x, axis=1) <= 1, cp.sum(x) == domain.k],
        extreme,
        Entries,
        diameter_is_a_bound=True,
    )


# Without cycles, with two parallel edges and one that leads nowhere.
DAG = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [2, 3], [3, 4], [0, 4], [2, 5]])


def incidence(edges: Array, n: int) -> Array:
    N = np.zeros((n, len(edges)))
    N[edges[:, 0], np.arange(len(edges))] += 1.0
    N[edges[:, 1], np.arange(len(edges))] -= 1.0
    return N


def path(source: int, target: int) -> Case:
    net = np.zeros(6)
    net[source], net[target] = 1.0, -1.0
    return Case(
        sets.ShortestPath(DAG, source, target),
        lambda cp, x: [x >= 0, incidence(DAG, 6) @ x == net],
        lambda s, tol: near(np.minimum(s, 1.0 - s), 0.0, tol),
        Entries,
        diameter_is_a_bound=True,
    )


def flow(*wanted: tuple[int, int, float]) -> Case:
    demands = np.zeros((6, 6))
    for i, j, amount in wanted:
        demands[i, j] = amount

    def model(cp: Any, x: Any) -> list:
        parts, constraints = [], []
        for i, j, amount in wanted:
            net = np.zeros(6)
            net[i], net[j] = amount, -amount
            parts.append(cp.Variable(len(DAG), nonneg=True))
            constraints.append(incidence(DAG, 6) @ parts[-1] == net)
        return [*constraints, x == sum(parts)]

    def extreme(s: Array, tol: float) -> bool:
        """Every edge carries a sum of whole demands (with ties a sum of paths need not be a vertex)."""
        sums = {
            round(math.fsum(c), 9)
            for k in range(4)
            for c in itertools.combinations([amount for _, _, amount in wanted], k)
        }
        return all(min(abs(v - total) for total in sums) <= 10 * tol for v in s)

    return Case(sets.FlowPolytope(DAG, demands), model, extreme, Dense, diameter_is_a_bound=True)


K4 = np.array(list(itertools.combinations(range(4), 2)))
BOW = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [2, 3], [3, 4], [4, 5], [5, 3]])


def subsets(n: int) -> list[Array]:
    every = (np.array(s) for k in range(2, n + 1) for s in itertools.combinations(range(n), k))
    return list(every)


def inside(edges: Array, nodes: Array) -> Array:
    """Return which edges have both ends among the nodes, as 0 and 1."""
    return np.isin(edges, nodes).all(axis=1).astype(float)


def binary(s: Array, tol: float) -> bool:
    return near(np.minimum(s, 1.0 - s), 0.0, tol)


def tree(edges: Array) -> Case:
    n = int(edges.max()) + 1

    def model(cp: Any, x: Any) -> list:
        return [x >= 0, cp.sum(x) == n - 1, *(inside(edges, S) @ x <= len(S) - 1 for S in subsets(n))]

    return Case(sets.SpanningTree(edges), model, binary, Entries, diameter_is_a_bound=True)


def matching(edges: Array, perfect: bool = False) -> Case:
    n = int(edges.max()) + 1
    degrees = np.array([(edges == v).any(axis=1) for v in range(n)]).astype(float)

    def model(cp: Any, x: Any) -> list:
        odd = [inside(edges, S) @ x <= len(S) // 2 for S in subsets(n) if len(S) % 2]
        return [x >= 0, degrees @ x == 1 if perfect else degrees @ x <= 1, *odd]

    return Case(sets.Matching(edges, perfect), model, binary, Entries, diameter_is_a_bound=True)


def made(
    domain: Any, inner: Case, back: Callable[[Any], Any], forth: Callable[[Array], Array], **kwargs: Any
) -> Case:
    """Return the case of a set that is made from another one by an invertible map."""
    return Case(
        domain,
        lambda cp, x: inner.model(cp, back(x)),
        lambda s, tol: inner.extreme(forth(s), tol),
        diameter_is_a_bound=True,
        round=domain.strong_convexity > 0.0,
        **kwargs,
    )


def shift(inner: Case, by: Array) -> Case:
    return made(sets.Shift(inner.domain, by), inner, lambda x: x - by, lambda s: s - by, atom=Dense)


def scale(inner: Case, factor: float, atom: type) -> Case:
    domain = sets.Scale(inner.domain, factor)
    return made(domain, inner, lambda x: x / factor, lambda s: s / factor, atom=atom)


def image(A: Array, inner: Case) -> Case:
    """The extreme points of an image need not be known: with ties the oracle may answer with another one."""

    def model(cp: Any, x: Any) -> list:
        y = cp.Variable(inner.domain.shape)
        return [*inner.model(cp, y), A @ y == x]

    return Case(
        sets.LinearImage(A, inner.domain), model, lambda s, tol: True, Dense, diameter_is_a_bound=True
    )


MAP = np.array([[1.0, -1.0, 0.5, 0.0], [0.0, 2.0, 1.0, -1.0], [1.0, 1.0, 1.5, -1.0]])

COMBINATORIAL: tuple[Case, ...] = (
    transport([0.2, 0.5, 0.3], [0.4, 0.1, 0.25, 0.25]),
    transport([0.2, 0.0, 0.8], [0.5, 0.5], solver="highs"),
    transport([2.0, 1.0], [0.5, 1.5, 1.0], solver="pot"),
    transport([0.25] * 4, [0.25] * 4),
    transport([0.5] * 2, [0.5] * 2),
    partial_transport([0.5, 0.25, 0.25], [0.4, 0.9], mass=0.6),
    partial_transport([1.0, 2.0], [2.0, 1.0], mass=3.0),
    partial_transport([0.5, 0.5], [1.0, 1.0], mass=1.0),
    partial_birkhoff(3, 4, k=2),
    partial_birkhoff(4, 2),
    partial_birkhoff(3, 3),
    partial_birkhoff(1, 1),
    path(0, 4),
    path(1, 3),
    flow((0, 4, 3.0)),
    flow((0, 4, 2.0), (1, 3, 0.5), (0, 3, 1.0)),
    tree(K4),
    tree(BOW),
    matching(K4),
    matching(K4, perfect=True),
    matching(BOW),
    matching(np.array([[0, 3], [0, 4], [1, 3], [1, 5], [2, 4], [2, 4]])),
    matching(np.array([[0, 2], [0, 3], [1, 2], [1, 3]]), perfect=True),
)
