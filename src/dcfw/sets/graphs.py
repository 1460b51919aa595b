"""The graphs of the combinatorial sets, and their shortest path trees."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dcfw import _validate, kernels
from dcfw._arrays import to_numpy

LARGEST_NUMBER = 100_000  # node numbers above this and 100 times the number of edges count as a mistake


class Edges:
    """The edges of a graph: ``tails[e] -> heads[e]`` for e = 0, 1, ..., nodes numbered from 0."""

    def __init__(self, graph: Any) -> None:
        pairs, self.n = _pairs(graph)
        self.tails, self.heads = pairs.T.copy()
        if bool((self.tails == self.heads).any()):
            raise ValueError("graph must not have an edge from a node to itself")

    def __len__(self) -> int:
        return len(self.tails)

    @functools.cached_property
    def balance(self) -> Any:
        """The sparse matrix that maps a flow to the outflow less the inflow of each node."""
        from scipy import sparse

        m = len(self)
        places = np.concatenate([self.tails, self.heads]), np.tile(np.arange(m), 2)
        return sparse.csr_array((np.repeat([1.0, -1.0], m), places), shape=(self.n, m))

    @functools.cached_property
    def levels(self) -> np.ndarray | None:
        """The length of the longest path to each node, None for a graph with a cycle."""
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

    Nodes below ``through`` are not passed: their outgoing edges leave from a copy of the node.
    """

    def __init__(self, edges: Edges, sources: np.ndarray, through: int = 0) -> None:
        self.edges, self.through = edges, through
        tails = np.where(edges.tails < through, edges.tails + edges.n, edges.tails)
        self.nodes = edges.n + through
        self.sources = np.where(sources < through, sources + edges.n, sources)
        keys = tails * self.nodes + edges.heads
        self._order, rows = np.argsort(keys, kind="stable"), np.arange(self.nodes + 1)
        self._all_heads = edges.heads[self._order]
        self._all_rows = np.searchsorted(tails[self._order], rows)
        self._keys, self._starts = np.unique(keys[self._order], return_index=True)
        unique_tails, heads = np.divmod(self._keys, self.nodes)
        # SciPy before 1.15 takes only 32-bit indices in csgraph.
        self._indices = heads.astype(np.int32), np.searchsorted(unique_tails, rows).astype(np.int32)

    def trees(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return distances and predecessors of all nodes, one row per source, and the edge of each key."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        best, edge = self._positive(costs)[self._order], self._order
        if len(self._keys) < len(edge):  # of parallel edges, the cheapest
            ordered, best = best, np.minimum.reduceat(best, self._starts)
            counts = np.diff(np.append(self._starts, len(ordered)))
            matches = np.flatnonzero(ordered == np.repeat(best, counts))
            edge = edge[matches[np.searchsorted(matches, self._starts)]]
        graph = csr_array((best, *self._indices), shape=(self.nodes, self.nodes))
        distance, before = dijkstra(graph, indices=self.sources, return_predecessors=True)
        return distance, before, edge

    def _positive(self, costs: np.ndarray) -> np.ndarray:
        lowest = float(costs.min())
        if lowest >= 0.0:
            return costs
        levels = self.edges.levels
        if levels is None:
            raise ValueError(
                "G has negative entries, but the graph has cycles: the oracle needs costs >= 0 there"
            )
        # Differences of levels add the same to every path between two nodes.
        return np.asarray(costs - lowest * (levels[self.edges.heads] - levels[self.edges.tails]))

    def position(self, tails: np.ndarray, heads: np.ndarray) -> np.ndarray:
        return np.asarray(np.searchsorted(self._keys, tails * self.nodes + heads))

    def load(self, costs: np.ndarray, demands: np.ndarray) -> np.ndarray:
        """Return the flow on each edge when all demands (one row per source) take their shortest paths."""
        if kernels.native is None:
            return self._load(costs, demands)
        ordered, flow, total = self._positive(costs)[self._order], np.empty(len(costs)), np.empty(len(costs))
        rows, heads = self._all_rows, self._all_heads
        kernels.native.load_shortest_paths(ordered, rows, heads, self.sources, demands, flow)
        total[self._order] = flow
        return total

    def _load(self, costs: np.ndarray, demands: np.ndarray) -> np.ndarray:
        """Do the same with SciPy's Dijkstra, passing flows on level by level of the trees."""
        _, before, edge = self.trees(costs)
        flow = np.zeros((len(self.sources), self.nodes))
        flow[:, : demands.shape[1]] = demands
        depth = _depths(before)
        # Deepest first: a node's flow is complete before it is passed on to its parent.
        rows, nodes = np.nonzero(before >= 0)
        order = np.argsort(-depth[rows, nodes], kind="stable")
        rows, nodes = rows[order], nodes[order]
        parents = before[rows, nodes]
        levels = np.flatnonzero(np.diff(depth[rows, nodes])) + 1
        flat, places, above = flow.reshape(-1), rows * self.nodes + nodes, rows * self.nodes + parents
        for low, high in zip([0, *levels], [*levels, len(rows)], strict=True):
            flat += np.bincount(above[low:high], flat[places[low:high]], minlength=flat.size)
        total = np.zeros(len(costs))
        keys = self.position(parents, nodes)
        total[edge] = np.bincount(keys, flat[places], minlength=len(self._keys))
        return total


def _depths(before: np.ndarray) -> np.ndarray:
    """Return the depth of each node in its row's tree, by pointer doubling."""
    rows = np.arange(len(before))[:, None]
    parents = np.where(before >= 0, before, np.arange(before.shape[1]))
    depth = (before >= 0).astype(np.int64)
    while (more := depth[rows, parents]).any():
        depth, parents = depth + more, parents[rows, parents]
    return depth


def _pairs(graph: Any) -> tuple[np.ndarray, int]:
    """Return the edges of a graph, one (tail, head) per row, and the number of its nodes."""
    if hasattr(graph, "tocoo"):
        found = graph.tocsr().sorted_indices().tocoo()
        if found.shape[0] != found.shape[1]:
            raise ValueError(f"graph must be a square adjacency matrix, got shape {found.shape}")
        pairs, n = np.column_stack((found.row, found.col)), found.shape[0]
    elif hasattr(graph, "edges") and hasattr(graph, "nodes"):
        place = {node: i for i, node in enumerate(graph.nodes)}
        pairs = np.array([(place[u], place[v]) for u, v, *_ in graph.edges]).reshape(-1, 2)
        n = len(place)
    else:
        pairs = to_numpy(_validate.array(graph, "graph", floating=False))
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"graph must have a row (tail, head) for each edge, got shape {pairs.shape}")
        if bool((pairs != np.floor(pairs)).any()) or bool((pairs < 0).any()):
            raise ValueError("graph must hold node numbers 0, 1, 2, ...")
        n = int(pairs.max()) + 1 if pairs.size else 0
        if n > max(LARGEST_NUMBER, 100 * len(pairs)):
            raise ValueError(f"graph has the node number {n - 1}: number the nodes 0, 1, 2, ...")
    if not len(pairs):
        raise ValueError("graph must have an edge")
    return pairs.astype(np.int64), n
