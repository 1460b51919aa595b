"""Spanning trees and matchings of a graph, as 0/1 vectors over its edges.

Edmonds (1965, 1970) described both hulls by inequalities, exponentially many; membership is decided by
Wolfe's method with the linear oracle instead.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.sets.atoms import Entries
from dcfw.sets.base import excess
from dcfw.sets.compact import CompactSet
from dcfw.sets.graphs import Edges
from dcfw.sets.membership import LARGEST, separation
from dcfw.sets.spheres import Spheres, zero_one_sphere


class SpanningTree(CompactSet, trusted=True):
    """The convex hull of the spanning trees of a connected undirected graph.

    Parameters
    ----------
    graph : array_like, sparse matrix or networkx graph
        The edges, as for :class:`FlowPolytope`; their directions do not matter.

    Notes
    -----
    ``contains`` is exact up to 600 edges; beyond that it checks 0 <= x <= 1 and the sum.

    Examples
    --------
    >>> from dcfw.sets import SpanningTree
    >>> SpanningTree([[0, 1], [1, 2], [2, 0]]).lmo(np.array([1.0, 3.0, -2.0]))
    array([1., 0., 1.])
    """

    polytope = True
    nonnegative = True

    def __init__(self, graph: Any) -> None:
        from scipy.sparse.csgraph import connected_components

        self.edges = Edges(graph)
        n = self.edges.n
        if connected_components(abs(self.edges.balance) @ abs(self.edges.balance).T, directed=False)[0] > 1:
            raise ValueError("graph must be connected (nodes that have no edge included)")
        self.shape = (len(self.edges),)
        self.diameter = math.sqrt(2.0 * min(n - 1, len(self.edges) - (n - 1)))

    def _atom(self, G: np.ndarray) -> Entries:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import minimum_spanning_tree

        # Ranks instead of costs: SciPy takes a cost of 0 for no edge.  The tree depends on the order alone.
        order = np.argsort(G, kind="stable")
        ends = self.edges.tails, self.edges.heads
        low, high = np.minimum(*ends), np.maximum(*ends)
        keys = low[order] * self.edges.n + high[order]
        _, first = np.unique(keys, return_index=True)  # of parallel edges the cheapest
        chosen = order[first]
        places = low[chosen].astype(np.int32), high[chosen].astype(np.int32)  # as csgraph of SciPy 1.14 needs
        ranks = csr_array((first + 1.0, places), shape=(self.edges.n, self.edges.n))
        tree = minimum_spanning_tree(ranks).data.astype(np.int64) - 1
        return Entries(np.sort(order[tree]), np.ones(len(tree)), self.shape)

    def violation(self, x: Array) -> float:
        """Return the distance to the hull, or a violation of its simplest inequalities if that is large."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        error = abs(float(x.sum()) - (self.edges.n - 1)) / len(x)
        rough = excess(max(error, -float(x.min()), float(x.max()) - 1.0))
        if rough > 0.1 or len(x) > LARGEST:
            return rough
        return max(rough, separation(lambda G: self._atom(G).dense(), x))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(G - G.mean())

    def spheres(self) -> Spheres:
        return zero_one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        """The mean of random trees: the centre of mass is not worth a determinant."""
        return self.random(0)

    def _parameters(self) -> str:
        return f", nodes={self.edges.n}"


class Matching(CompactSet, trusted=True):
    """The convex hull of the matchings, or of the perfect matchings, of an undirected graph.

    Parameters
    ----------
    graph : array_like, sparse matrix or networkx graph
        The edges, as for :class:`FlowPolytope`; their directions do not matter.
    perfect : bool, default False
        Whether every node must be matched.

    Notes
    -----
    A bipartite graph needs an assignment solver only; others need networkx (``pip install networkx``) and are
    slow beyond some hundred nodes.  ``contains`` is exact for bipartite graphs and up to 600 edges; beyond
    that it checks that the edges at a node sum to at most 1.

    Examples
    --------
    >>> from dcfw.sets import Matching
    >>> Matching([[0, 1], [1, 2], [2, 3]]).lmo(np.array([-2.0, -3.0, -2.0]))
    array([1., 0., 1.])
    """

    polytope = True
    nonnegative = True

    def __init__(self, graph: Any, perfect: bool = False) -> None:
        self.edges = Edges(graph)
        self.perfect = _validate.flag(perfect, "perfect")
        self.shape = (len(self.edges),)
        self._sides = _two_sides(self.edges)
        n = self.edges.n
        if self.perfect:
            matched = len(self._atom(np.zeros(self.shape)).indices)
            if 2 * matched != n:
                raise ValueError(f"graph has no perfect matching: at most {2 * matched} of {n} nodes match")
        self.diameter = math.sqrt(min(len(self.edges), 2 * (n // 2)))

    def _atom(self, G: np.ndarray) -> Entries:
        G = G / (float(np.abs(G).max()) or 1.0)
        chosen = np.sort(self._bipartite(G) if self._sides is not None else self._general(G))
        return Entries(chosen, np.ones(len(chosen)), self.shape)

    def _bipartite(self, G: np.ndarray) -> np.ndarray:
        from scipy.optimize import linear_sum_assignment

        left, right, rows, columns = self._bipartition
        # A pair without an edge: free if nodes may stay alone, and worse than any matching if not.
        none = 4.0 * (len(left) + len(right)) if self.perfect else 0.0
        costs = np.full((len(left), len(right)), none)
        edge = np.full(costs.shape, -1)
        order = np.argsort(-G, kind="stable")  # of parallel edges the cheapest is written last
        costs[rows[order], columns[order]] = G[order] if self.perfect else np.minimum(G[order], 0.0)
        edge[rows[order], columns[order]] = order
        i, j = linear_sum_assignment(costs)
        found = edge[i, j]
        found = found[found >= 0]
        return np.asarray(found if self.perfect else found[G[found] < 0.0])

    @functools.cached_property
    def _bipartition(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The nodes of both sides, and each edge's place among them."""
        assert self._sides is not None
        left, right = np.flatnonzero(self._sides), np.flatnonzero(~self._sides)
        place = np.empty(self.edges.n, dtype=np.int64)
        place[left], place[right] = np.arange(len(left)), np.arange(len(right))
        from_left = self._sides[self.edges.tails]
        rows = place[np.where(from_left, self.edges.tails, self.edges.heads)]
        columns = place[np.where(from_left, self.edges.heads, self.edges.tails)]
        return left, right, rows, columns

    def _general(self, G: np.ndarray) -> np.ndarray:
        try:
            import networkx as nx
        except ImportError:
            raise ImportError(
                "Matching needs networkx for a graph that is not bipartite: pip install networkx"
            ) from None
        graph = nx.Graph()
        for e in np.argsort(-G, kind="stable").tolist():  # of parallel edges the cheapest is added last
            if self.perfect or G[e] < 0.0:
                graph.add_edge(
                    int(self.edges.tails[e]), int(self.edges.heads[e]), weight=-float(G[e]), edge=e
                )
        pairs = nx.max_weight_matching(graph, maxcardinality=self.perfect)
        return np.array([graph.edges[pair]["edge"] for pair in pairs], dtype=np.int64)

    def violation(self, x: Array) -> float:
        """Return the distance to the hull, or a violation of its simplest inequalities if that is large."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        n = self.edges.n
        degrees = np.bincount(self.edges.tails, x, n) + np.bincount(self.edges.heads, x, n)
        over = np.abs(degrees - 1.0) if self.perfect else degrees - 1.0
        rough = excess(max(float(over.max()), -float(x.min())))
        if self._sides is not None or rough > 0.1 or len(x) > LARGEST:
            return rough
        return max(rough, separation(lambda G: self._atom(G).dense(), x))

    def spheres(self) -> Spheres:
        return zero_one_sphere(self.shape)

    def _centre(self) -> np.ndarray:
        return self.random(0) if self.perfect else np.zeros(self.shape)

    def _parameters(self) -> str:
        return f", nodes={self.edges.n}" + (", perfect=True" if self.perfect else "")


def _two_sides(edges: Edges) -> np.ndarray | None:
    """Return which nodes are on the one side of a bipartite graph, None if the graph is not bipartite."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    n = edges.n
    both = np.concatenate([edges.tails, edges.heads]).astype(np.int32)
    ends = both, np.roll(both, len(edges))
    graph = csr_array((np.ones(2 * len(edges)), ends), shape=(n, n))
    count, component = connected_components(graph, directed=False)
    side = np.zeros(n, dtype=bool)
    for root in (int(np.flatnonzero(component == c)[0]) for c in range(count)):
        order, before = breadth_first_order(graph, root, directed=False)
        for node in order[1:]:
            side[node] = not side[before[node]]
    return None if bool((side[edges.tails] == side[edges.heads]).any()) else side
