"""Paths and flows: the vectors over the edges of a graph that carry given demands.

The linear oracle sends every demand along its cheapest path (one shortest path tree per origin; "all or
nothing" in traffic assignment).  On a graph with cycles costs must not be negative.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.sets.atoms import Atom, Dense, Entries
from dcfw.sets.base import excess, first_hit
from dcfw.sets.compact import CompactSet
from dcfw.sets.graphs import Edges, Paths
from dcfw.sets.membership import LARGEST, separation
from dcfw.sets.spheres import Spheres, zero_one_sphere

DENSE_NODES = 2000  # the largest number of nodes for which a dense basis of the flow directions is computed


class FlowPolytope(CompactSet, trusted=True):
    """The total flows on the edges of a directed graph that carry all demands.

    Flows of different origins and destinations add up; a point is the vector of their sums.

    Parameters
    ----------
    graph : array_like, sparse matrix or networkx graph
        The edges: a row (tail, head) each, nodes numbered from 0; or a sparse adjacency matrix, whose entries
        are the edges row by row; or a networkx graph.
    demands : array_like or sparse matrix
        The demand from node i to node j in row i and column j, for the first nodes or for all; the diagonal
        is ignored.
    through : int, default 0
        Paths may start and end at nodes with smaller numbers, but not pass them (zones of a road network).

    Notes
    -----
    On a graph without cycles ``contains`` is exact for one origin and, by Wolfe's method, up to 600 edges.
    Otherwise it checks necessary conditions: no negative flow, and the balance of every node.

    Examples
    --------
    >>> from dcfw.sets import FlowPolytope
    >>> square = [[0, 1], [1, 3], [0, 2], [2, 3]]
    >>> demands = np.zeros((4, 4))
    >>> demands[0, 3] = 5.0
    >>> FlowPolytope(square, demands).lmo(np.array([1.0, 2.0, 1.0, 1.0]))
    array([0., 0., 5., 5.])
    """

    polytope = nonnegative = True

    def __init__(self, graph: Any, demands: Any, through: int = 0) -> None:
        self.edges = Edges(graph)
        self.through = _validate.integer(through, "through", low=0, high=self.edges.n)
        wanted = _demands(demands, self.edges.n)
        origins = np.flatnonzero(wanted.sum(axis=1) > 0.0)
        if not len(origins):
            raise ValueError("demands must have a positive entry off the diagonal")
        self.origins, self.demands = origins, wanted[origins]
        self.shape = (len(self.edges),)
        self._paths = Paths(self.edges, origins, self.through)
        self._net = wanted.sum(axis=1) - wanted.sum(axis=0)
        self.scale = float(self.demands.max())
        distance = self._paths.trees(np.ones(self.shape))[0][:, : self.edges.n]
        missing = np.argwhere((self.demands > 0.0) & ~np.isfinite(distance))
        if len(missing):
            i, j = int(origins[missing[0, 0]]), int(missing[0, 1])
            raise ValueError(f"demands has an entry from {i} to {j}, but graph has no path there")
        # Two paths without a common edge have at most n - 1 edges each.
        longest = math.sqrt(min(len(self.edges), 2.0 * (self.edges.n - 1)))
        self.diameter = float(self.demands.sum()) * longest

    def _atom(self, G: np.ndarray) -> Atom:
        unit = float(np.abs(G).max()) or 1.0
        return Dense(self._paths.load(G / unit, self.demands))

    def violation(self, x: Array) -> float:
        """Return the largest negative flow, error of a node's balance, or distance to the hull if decided."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        rough = excess(max(-float(x.min()), float(np.abs(self.edges.balance @ x - self._net).max())))
        if self._balanced or rough > 0.1 * self.scale:
            return rough
        return max(rough, separation(lambda G: np.asarray(self._atom(G).dense()), x))

    @functools.cached_property
    def _balanced(self) -> bool:
        """Whether only nonnegative flows and balanced nodes are checked."""
        return len(self.origins) == 1 or len(self.edges) > LARGEST or self.edges.levels is None

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return G if self._rows is None else np.asarray(G - self._rows.T @ (self._rows @ G))

    @functools.cached_property
    def _rows(self) -> np.ndarray | None:
        """An orthonormal basis of the rows of the balance matrix; None if there are too many nodes."""
        if self.edges.n > DENSE_NODES:
            return None
        _, sigma, Vt = np.linalg.svd(self.edges.balance.toarray(), full_matrices=False)
        return np.asarray(Vt[sigma > 1e-9 * sigma[0]])

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        return first_hit(x, -d) if self._balanced else super()._reach(x, d)

    def _centre(self) -> np.ndarray:
        return self._paths.load(np.ones(self.shape), self.demands)

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a random convex combination of all-or-nothing flows for random positive costs."""
        rng = _validate.generator(rng)
        weights = rng.dirichlet(np.ones(8))
        return np.asarray(sum(w * self.lmo(rng.exponential(size=self.shape)) for w in weights))

    def _parameters(self) -> str:
        return f", origins={len(self.origins)}, demand={float(self.demands.sum()):g}"


class ShortestPath(FlowPolytope, trusted=True):
    """The convex hull of the paths from one node to another, as 0/1 vectors over the edges.

    Parameters
    ----------
    graph : array_like, sparse matrix or networkx graph
        The edges, as for :class:`FlowPolytope`.
    source, target : int
        The ends of the paths.

    Examples
    --------
    >>> from dcfw.sets import ShortestPath
    >>> ShortestPath([[0, 1], [1, 3], [0, 2], [2, 3]], 0, 3).lmo(np.array([1.0, 2.0, 1.0, 1.0]))
    array([0., 0., 1., 1.])
    """

    def __init__(self, graph: Any, source: int, target: int) -> None:
        edges = Edges(graph)
        self.source, self.target = (
            _validate.integer(node, name, high=edges.n - 1)
            for node, name in ((source, "source"), (target, "target"))
        )
        if self.source == self.target:
            raise ValueError(f"source and target must be two nodes, got {self.source} twice")
        demands = np.zeros((edges.n, edges.n))
        demands[self.source, self.target] = 1.0
        try:
            super().__init__(graph, demands)
        except ValueError:
            raise ValueError(f"target {self.target} cannot be reached from source {self.source}") from None

    def _atom(self, G: np.ndarray) -> Entries:
        _, before, edge = self._paths.trees(G / (float(np.abs(G).max()) or 1.0))
        nodes = [self.target]
        while nodes[-1] != self.source:
            nodes.append(int(before[0, nodes[-1]]))
        chosen = np.sort(edge[self._paths.position(np.array(nodes[1:]), np.array(nodes[:-1]))])
        return Entries(chosen, np.ones(len(chosen)), self.shape)

    def entry_bounds(self) -> tuple[Any, Any] | None:
        return None if self.edges.levels is None else (0.0, math.inf)  # on cycles costs have one sign

    def spheres(self) -> Spheres:
        return zero_one_sphere(self.shape)

    def _parameters(self) -> str:
        return f", source={self.source}, target={self.target}"


def _demands(value: Any, n: int) -> np.ndarray:
    """Return the n x n matrix of demands with a zero diagonal."""
    value = value.toarray() if hasattr(value, "toarray") else value
    given = np.asarray(to_numpy(_validate.array(value, "demands", ndim=2)), dtype=np.float64)
    if given.shape[0] != given.shape[1] or given.shape[0] > n:
        raise ValueError(f"demands must be square with at most {n} rows (the nodes), got {given.shape}")
    if bool((given < 0.0).any()):
        raise ValueError("demands must not be negative")
    wanted = np.pad(given, (0, n - len(given)))
    np.fill_diagonal(wanted, 0.0)
    return wanted
