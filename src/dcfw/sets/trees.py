"""Spanning trees and matchings of a graph, as 0/1 vectors over its edges.

Edmonds (1965, 1970) described both hulls by exponentially many inequalities; Wolfe's method with the linear
oracle decides membership instead.
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


class _EdgeSets(CompactSet, trusted=True):
    polytope = nonnegative = True
    edges: Edges
    _exact = False  # whether the inequalities of _rough describe the hull

    def _rough(self, x: np.ndarray) -> float:
        raise NotImplementedError

    def violation(self, x: Array) -> float:
        """Return the distance to the hull, or a violation of its simplest inequalities if that is large."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        rough = excess(self._rough(x))
        if self._exact or rough > 0.1 or len(x) > LARGEST:
            return rough
        return max(rough, separation(lambda G: np.asarray(self._atom(G).dense()), x))

    def spheres(self) -> Spheres:
        return zero_one_sphere(self.shape)

    def _parameters(self) -> str:
        return f", nodes={self.edges.n}"


class SpanningTree(_EdgeSets, trusted=True):
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

    def __init__(self, graph: Any) -> None:
        from scipy.sparse.csgraph import connected_components

        self.edges = edges = Edges(graph)
        incidence = abs(edges.balance)
        if connected_components(incidence @ incidence.T, directed=False)[0] > 1:
            raise ValueError("graph must be connected (nodes that have no edge included)")
        self.shape = (len(edges),)
        self.diameter = math.sqrt(2.0 * min(edges.n - 1, len(edges) - (edges.n - 1)))

    def _atom(self, G: np.ndarray) -> Entries:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import minimum_spanning_tree

        # Ranks instead of costs, because a cost of 0 means no edge to SciPy; only the order matters.
        order = np.argsort(G, kind="stable")
        ends = self.edges.tails, self.edges.heads
        low, high = np.minimum(*ends), np.maximum(*ends)
        # Of parallel edges, the cheapest.
        _, first = np.unique(low[order] * self.edges.n + high[order], return_index=True)
        chosen = order[first]
        places = low[chosen].astype(np.int32), high[chosen].astype(np.int32)  # as csgraph of SciPy 1.14 needs
        ranks = csr_array((first + 1.0, places), shape=(self.edges.n, self.edges.n))
        tree = minimum_spanning_tree(ranks).data.astype(np.int64) - 1
        return Entries(np.sort(order[tree]), np.ones(len(tree)), self.shape)

    def _rough(self, x: np.ndarray) -> float:
        error = abs(float(x.sum()) - (self.edges.n - 1)) / len(x)
        return max(error, -float(x.min()), float(x.max()) - 1.0)

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(G - G.mean())

    def _centre(self) -> np.ndarray:
        return self.random(0)  # the mean of random trees; their centre of mass would take a determinant


class Matching(_EdgeSets, trusted=True):
    """The convex hull of the matchings, or of the perfect matchings, of an undirected graph.

    Parameters
    ----------
    graph : array_like, sparse matrix or networkx graph
        The edges, as for :class:`FlowPolytope`; their directions do not matter.
    perfect : bool, default False
        Whether every node must be matched.

    Notes
    -----
    Graphs that are not bipartite need networkx (``pip install networkx``) and are slow beyond some hundred
    nodes.  ``contains`` is exact for bipartite graphs and up to 600 edges; beyond that it checks that the
    edges at a node sum to at most 1.

    Examples
    --------
    >>> from dcfw.sets import Matching
    >>> Matching([[0, 1], [1, 2], [2, 3]]).lmo(np.array([-2.0, -3.0, -2.0]))
    array([1., 0., 1.])
    """

    def __init__(self, graph: Any, perfect: bool = False) -> None:
        self.edges = Edges(graph)
        self.perfect = _validate.flag(perfect, "perfect")
        self.shape = (len(self.edges),)
        self._sides, n = _two_sides(self.edges), self.edges.n
        self._exact = self._sides is not None
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
        # A pair without an edge is free if nodes may stay unmatched, and else worse than any matching.
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
        """The nodes of both sides, and each edge's positions among them."""
        assert self._sides is not None
        left, right = np.flatnonzero(self._sides), np.flatnonzero(~self._sides)
        place, ends = np.empty(self.edges.n, dtype=np.int64), (self.edges.tails, self.edges.heads)
        place[left], place[right] = np.arange(len(left)), np.arange(len(right))
        from_left = self._sides[self.edges.tails]
        return left, right, place[np.where(from_left, *ends)], place[np.where(from_left, *ends[::-1])]

    def _general(self, G: np.ndarray) -> np.ndarray:
        try:
            import networkx as nx
        except ImportError:
            raise ImportError(
                "Matching needs networkx for a graph that is not bipartite: pip install networkx"
            ) from None
        graph, tails, heads = nx.Graph(), self.edges.tails.tolist(), self.edges.heads.tolist()
        for e in np.argsort(-G, kind="stable").tolist():  # of parallel edges the cheapest is added last
            if self.perfect or G[e] < 0.0:
                graph.add_edge(tails[e], heads[e], weight=-float(G[e]), edge=e)
        pairs = nx.max_weight_matching(graph, maxcardinality=self.perfect)
        return np.array([graph.edges[pair]["edge"] for pair in pairs], dtype=np.int64)

    def _rough(self, x: np.ndarray) -> float:
        n = self.edges.n
        degrees = np.bincount(self.edges.tails, x, n) + np.bincount(self.edges.heads, x, n)
        over = np.abs(degrees - 1.0) if self.perfect else degrees - 1.0
        return max(float(over.max()), -float(x.min()))

    def _centre(self) -> np.ndarray:
        return self.random(0) if self.perfect else np.zeros(self.shape)

    def _parameters(self) -> str:
        return super()._parameters() + (", perfect=True" if self.perfect else "")


def _two_sides(edges: Edges) -> np.ndarray | None:
    """Return which nodes are on one side of a bipartite graph, None if the graph is not bipartite."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    # In the double cover, whose edges join a node to the copies of its neighbours, a node and its copy are in
    # different components if and only if there is no odd cycle; labels increase with the nodes.
    n, tails, heads = edges.n, edges.tails.astype(np.int32), edges.heads.astype(np.int32)
    ends = np.concatenate([tails, heads]), np.concatenate([heads, tails]) + np.int32(n)
    cover = csr_array((np.ones(2 * len(edges)), ends), shape=(2 * n, 2 * n))
    nodes, copies = connected_components(cover, directed=False)[1].reshape(2, n)
    return None if bool((nodes == copies).any()) else np.asarray(nodes > copies)
