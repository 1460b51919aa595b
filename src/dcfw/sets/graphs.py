"""Graphs as the combinatorial sets take them, and shortest path trees on them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dcfw import _validate, kernels
from dcfw._arrays import to_numpy

LARGEST_NUMBER = 100_000
"""Larger node numbers than this, and than 100 times the number of edges, are taken for a mistake."""


class Edges:
    """The edges of a graph: ``tails[e] -> heads[e]`` for e = 0, 1, ..., nodes numbered from 0."""

    def __init__(self, graph: Any, name: str = "graph") -> None:
        pairs, self.n = _pairs(graph, name)
        self.tails, self.heads = pairs[:, 0].copy(), pairs[:, 1].copy()
        if bool((self.tails == self.heads).any()):
            raise ValueError(f"{name} must not have an edge from a node to itself")

    def __len__(self) -> int:
        return len(self.tails)

    def node(self, value: Any, name: str) -> int:
        """Return ``value`` if it is a node."""
        return _validate.integer(value, name, low=0, high=self.n - 1)

    @functools.cached_property
    def balance(self) -> Any:
        """The sparse matrix whose product with a flow is what leaves each node less what enters it."""
        from scipy import sparse

        m, edges = len(self), np.arange(len(self))
        data = np.concatenate([np.ones(m), -np.ones(m)])
        places = np.concatenate([self.tails, self.heads]), np.concatenate([edges, edges])
        return sparse.csr_array((data, places), shape=(self.n, m))

    @functools.cached_property
    def levels(self) -> np.ndarray | None:
        """The length of the longest path to each node, None for a graph with a cycle.

        Adding level(head) - level(tail) to the costs of all edges adds the same to every path between two
        nodes, which makes costs positive without changing the best path.
        """
        level = np.zeros(self.n, dtype=np.int64)
        for _ in range(self.n):
            higher = level.copy()
            np.maximum.at(higher, self.heads, level[self.tails] + 1)
            if (higher == level).all():
                return level
            level = higher
        return None


class Paths:
    """Shortest paths from some sources, for costs that change from call to call (compiled, or by SciPy).

    Nodes below ``through`` begin and end paths but are not passed: their outgoing edges leave from a copy.
    """

    def __init__(self, edges: Edges, sources: np.ndarray, through: int = 0) -> None:
        self.edges, self.through = edges, through
        tails = np.where(edges.tails < through, edges.tails + edges.n, edges.tails)
        self.nodes = edges.n + through
        self.sources = np.where(sources < through, sources + edges.n, sources)
        keys = tails * self.nodes + edges.heads
        self._order = np.argsort(keys, kind="stable")
        self._all_heads = edges.heads[self._order]
        self._all_rows = np.searchsorted(tails[self._order], np.arange(self.nodes + 1))
        self._keys, self._starts = np.unique(keys[self._order], return_index=True)
        unique_tails, heads = np.divmod(self._keys, self.nodes)
        row = np.searchsorted(unique_tails, np.arange(self.nodes + 1))
        # SciPy before 1.15 takes only 32-bit indices in csgraph.
        self._indices = heads.astype(np.int32), row.astype(np.int32)

    def trees(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return distances and predecessors of all nodes, a row a source, and the edge of each key."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        costs = self._positive(costs)
        ordered = costs[self._order]
        if len(self._keys) == len(ordered):
            best, edge = ordered, self._order
        else:  # of parallel edges the cheapest
            best = np.minimum.reduceat(ordered, self._starts)
            counts = np.diff(np.append(self._starts, len(ordered)))
            matches = np.flatnonzero(ordered == np.repeat(best, counts))
            first = matches[np.searchsorted(matches, self._starts)]
            edge = self._order[first]
        graph = csr_array((best, *self._indices), shape=(self.nodes, self.nodes))
        distance, before = dijkstra(graph, indices=self.sources, return_predecessors=True)
        return distance, before, edge

    def _positive(self, costs: np.ndarray) -> np.ndarray:
        """Return costs with the same shortest paths, none of them negative."""
        lowest = float(costs.min())
        if lowest >= 0.0:
            return costs
        levels = self.edges.levels
        if levels is None:
            raise ValueError(
                "G has negative entries, but the graph has cycles: the oracle needs costs >= 0 there"
            )
        return np.asarray(costs - lowest * (levels[self.edges.heads] - levels[self.edges.tails]))

    def position(self, tails: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """Return the places of the edges tail -> head among the keys."""
        return np.asarray(np.searchsorted(self._keys, tails * self.nodes + heads))

    def load(self, costs: np.ndarray, demands: np.ndarray) -> np.ndarray:
        """Return the flow on each edge when all demands (a row a source) take their shortest paths."""
        if kernels.native is None:
            return self._load(costs, demands)
        ordered = self._positive(costs)[self._order]
        flow, total = np.empty(len(costs)), np.empty(len(costs))
        kernels.native.load_shortest_paths(
            ordered, self._all_rows, self._all_heads, self.sources, demands, flow
        )
        total[self._order] = flow
        return total

    def _load(self, costs: np.ndarray, demands: np.ndarray) -> np.ndarray:
        """Do the same with SciPy's Dijkstra, and the flows handed on level by level of the trees."""
        _, before, edge = self.trees(costs)
        flow = np.zeros((len(self.sources), self.nodes))
        flow[:, : demands.shape[1]] = demands
        reached = before >= 0
        depth = _depths(before)
        # Deepest first: a node's flow is complete before it is handed on to the node before it.
        rows, nodes = np.nonzero(reached)
        order = np.argsort(-depth[rows, nodes], kind="stable")
        rows, nodes = rows[order], nodes[order]
        parents = before[rows, nodes]
        levels = np.flatnonzero(np.diff(depth[rows, nodes])) + 1
        flat = flow.reshape(-1)
        places, above = rows * self.nodes + nodes, rows * self.nodes + parents
        for low, high in zip([0, *levels], [*levels, len(rows)], strict=True):
            flat += np.bincount(above[low:high], flat[places[low:high]], minlength=flat.size)
        keys = self.position(parents, nodes)
        loaded = np.bincount(keys, flat[places], minlength=len(self._keys))
        total = np.zeros(len(costs))
        total[edge] = loaded
        return total


def _depths(before: np.ndarray) -> np.ndarray:
    """Return how many edges each node is away from the root of its row's tree, by pointer doubling."""
    rows = np.arange(len(before))[:, None]
    here = np.arange(before.shape[1])
    parents = np.where(before >= 0, before, here)
    depth = (before >= 0).astype(np.int64)
    while True:
        more = depth[rows, parents]
        if not more.any():
            return depth
        depth, parents = depth + more, parents[rows, parents]


def _pairs(graph: Any, name: str) -> tuple[np.ndarray, int]:
    """Return the edges of a graph, one (tail, head) a row, and the number of its nodes."""
    if hasattr(graph, "tocoo"):
        found = graph.tocsr().sorted_indices().tocoo()
        if found.shape[0] != found.shape[1]:
            raise ValueError(f"{name} must be a square adjacency matrix, got shape {found.shape}")
        pairs, n = np.column_stack((found.row, found.col)), found.shape[0]
    elif hasattr(graph, "edges") and hasattr(graph, "nodes"):
        place = {node: i for i, node in enumerate(graph.nodes)}
        pairs = np.array([(place[u], place[v]) for u, v, *_ in graph.edges]).reshape(-1, 2)
        n = len(place)
    else:
        values = to_numpy(_validate.array(graph, name, floating=False))
        if values.ndim != 2 or values.shape[1] != 2:
            raise ValueError(f"{name} must have a row (tail, head) for each edge, got shape {values.shape}")
        if bool((values != np.floor(values)).any()) or bool((values < 0).any()):
            raise ValueError(f"{name} must hold node numbers 0, 1, 2, ...")
        n = int(values.max()) + 1 if values.size else 0
        if n > max(LARGEST_NUMBER, 100 * len(values)):
            raise ValueError(f"{name} has the node number {n - 1}: number the nodes 0, 1, 2, ...")
        pairs = values
    if not len(pairs):
        raise ValueError(f"{name} must have an edge")
    return pairs.astype(np.int64), n
