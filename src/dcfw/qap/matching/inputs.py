"""Graphs as they come, turned into layers of adjacency matrices, pairs of indices and rewards.

A graph is a networkx or igraph graph, an adjacency matrix (array, SciPy sparse array, DataFrame), a sequence
of such matrices (layers: one per type of edge), or a DataFrame that lists edges in columns ``source``,
``target`` and, if there are weights, one named by ``weight``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.qap.objective import INT64_MAX, dense, is_sparse, square

DENSE_NODES = 300
"""Up to this many nodes the adjacency matrix of a graph object is kept densely."""


@dataclass(frozen=True)
class Graph:
    """The layers of one graph, and the names of its nodes (None: their indices)."""

    layers: list[Any]
    nodes: list[Hashable] | None = None
    directed: bool | None = None
    source: Any = None

    @property
    def size(self) -> int:
        return int(self.layers[0].shape[0])

    def is_directed(self) -> bool:
        if self.directed is not None:
            return self.directed
        return not all(_symmetric(M) for M in self.layers)

    def index(self) -> dict[Any, int]:
        return {node: k for k, node in enumerate(range(self.size) if self.nodes is None else self.nodes)}


def read(G: Any, name: str, weight: str | None) -> Graph:
    """Return a graph from any of the forms in which one may be given."""
    if is_graph(G):
        nodes = list(G)
        return Graph([_kept(_networkx(G, name, nodes, weight))], nodes, G.is_directed(), G)
    if hasattr(G, "get_edgelist") and hasattr(G, "vs"):
        return _igraph(G, name, weight)
    columns = getattr(G, "columns", None)
    if columns is not None and "source" in columns and "target" in columns:
        weights = G[weight] if weight is not None and weight in columns else None
        return _edges(G["source"].tolist(), G["target"].tolist(), weights, name)
    if isinstance(G, list | tuple) and G and all(is_sparse(M) or np.ndim(M) == 2 for M in G):
        layers = [square(M, f"{name}[{k}]") for k, M in enumerate(G)]
        if len({M.shape for M in layers}) > 1:
            raise ValueError(f"the layers of {name} must have one shape, got {[M.shape for M in layers]}")
        return Graph(layers)
    return Graph([square(G, name)])


def is_graph(G: Any) -> bool:
    """Return whether G is a networkx graph."""
    return hasattr(G, "adj") and hasattr(G, "nodes")


def _kept(A: Any) -> Any:
    n = A.shape[0]
    return A.toarray() if n <= DENSE_NODES or A.nnz > 0.1 * n * n else A


def _networkx(G: Any, name: str, nodes: list[Hashable], weight: str | None) -> Any:
    if not nodes:
        raise ValueError(f"{name} must have at least one node")
    import networkx as nx

    kind: Any = np.int64
    total = 0
    for u, v, given in G.edges(data=weight, default=1) if weight is not None else ():
        if not isinstance(given, Real | np.bool_):
            raise TypeError(
                f"{name} has an edge ({u!r}, {v!r}) whose {weight!r} is no real number: {given!r}"
            )
        if not isinstance(given, Integral | np.bool_):
            kind = np.float64
        else:
            # Parallel edges are added up.
            total = total + abs(int(given)) if G.is_multigraph() else abs(int(given))
            if total > INT64_MAX:
                edge = f"{name} has an edge ({u!r}, {v!r})"
                raise ValueError(f"{edge} whose {weight!r} is beyond 2**63 - 1; rescale it or use floats")
    return square(nx.to_scipy_sparse_array(G, nodelist=nodes, weight=weight, dtype=kind, format="csr"), name)


def _igraph(G: Any, name: str, weight: str | None) -> Graph:
    if G.vcount() == 0:
        raise ValueError(f"{name} must have at least one node")
    nodes = list(G.vs["name"]) if "name" in G.vs.attributes() else list(range(G.vcount()))
    weights = G.es[weight] if weight is not None and weight in G.es.attributes() else None
    ends = np.array(G.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    M = _matrix(ends, weights, len(nodes), G.is_directed(), name)
    return Graph([_kept(M)], nodes, G.is_directed(), G)


def _edges(sources: list[Any], targets: list[Any], weights: Any, name: str) -> Graph:
    """Return the undirected graph of listed edges; its nodes are in the order in which they first appear."""
    nodes = list(dict.fromkeys(node for pair in zip(sources, targets, strict=True) for node in pair))
    if not nodes:
        raise ValueError(f"{name} must have at least one node")
    place = {node: k for k, node in enumerate(nodes)}
    ends = np.array([[place[u], place[v]] for u, v in zip(sources, targets, strict=True)])
    return Graph([_kept(_matrix(ends, weights, len(nodes), False, name))], nodes, False)


def _matrix(ends: np.ndarray, weights: Any, n: int, directed: bool, name: str) -> Any:
    from scipy.sparse import csr_array

    i, j = ends.T
    w = np.ones(len(i), dtype=np.int64) if weights is None else np.asarray(weights)
    if not directed:
        off = i != j
        i, j, w = np.concatenate([i, j[off]]), np.concatenate([j, i[off]]), np.concatenate([w, w[off]])
    return square(csr_array((w, (i, j)), shape=(n, n)), name)


def _symmetric(M: Any) -> bool:
    difference = M != M.T
    return difference.nnz == 0 if is_sparse(M) else not difference.any()


# -- pairs of nodes ----------------------------------------------------------------------------------------


def pairs(
    given: Any, graphs: tuple[Graph, Graph], name: str, lengths: tuple[int, ...] = (2,)
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of indices, and a weight for each: infinite where none is given."""
    empty = np.empty((0, 2), dtype=np.int64), np.empty(0)
    if given is None:
        return empty
    listed: list[tuple[Any, ...]] = (
        list(given.items()) if isinstance(given, Mapping) else _tuples(given, name)
    )
    if not listed:
        return empty
    if any(len(pair) not in lengths for pair in listed):
        raise ValueError(f"{name} must be pairs (node of G1, node of G2), or a mapping from one to the other")
    columns = []
    for k, (which, graph) in enumerate(zip(("G1", "G2"), graphs, strict=True)):
        index = graph.index()
        unknown = [pair[k] for pair in listed if not isinstance(pair[k], Hashable) or pair[k] not in index]
        if unknown:
            raise ValueError(f"{name} has {unknown[0]!r}, which is not a node of {which}")
        columns.append([index[pair[k]] for pair in listed])
    weights = [
        _validate.scalar(pair[2], f"the weight of a pair of {name}", allow_inf=True)
        if len(pair) == 3
        else np.inf
        for pair in listed
    ]
    return np.array(columns, dtype=np.int64).T, np.array(weights, dtype=np.float64)


def _tuples(given: Iterable[Any], name: str) -> list[tuple[Any, ...]]:
    if np.ma.is_masked(given) or getattr(getattr(given, "dtype", None), "kind", "i") in "Vc":
        raise TypeError(f"{name} must be pairs of nodes, without a mask")
    try:
        return [tuple(pair) for pair in _validate.listed(given, name)]
    except (TypeError, NotImplementedError):
        raise TypeError(f"{name} must be pairs (node of G1, node of G2), or a mapping") from None


def split_seeds(
    seeds: Any, forbidden: Any, graphs: tuple[Graph, Graph]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the hard seeds, the soft ones with their weights, and the forbidden pairs."""
    known, weights = pairs(seeds, graphs, "seeds", (2, 3))
    hard = np.isposinf(weights)
    for k, (side, which) in enumerate((("row", "G1"), ("column", "G2"))):
        if len(np.unique(known[hard, k])) < hard.sum():
            raise ValueError(
                f"seeds repeats the {side} index of a node of {which}; each may have one partner"
            )
    never = pairs(forbidden, graphs, "forbidden")[0]
    both = set(map(tuple, known[hard].tolist())) & set(map(tuple, never.tolist()))
    if both:
        i, j = min(both)
        one, two = (range(g.size) if g.nodes is None else g.nodes for g in graphs)
        raise ValueError(f"seeds and forbidden both have the pair ({one[i]!r}, {two[j]!r})")
    return known[hard], known[~hard], weights[~hard], never


# -- rewards for pairs of nodes ----------------------------------------------------------------------------


def rewards(
    graphs: tuple[Graph, Graph],
    C: Any,
    similarity: Any,
    node_match: Any,
    soft: np.ndarray,
    weights: np.ndarray,
) -> Any:
    """Return what the pairs of a matching earn as a matrix, sparse if all parts are, or None."""
    from scipy.sparse import coo_array

    shape = tuple(graph.size for graph in graphs)
    parts: list[Any] = []
    for given, name in ((C, "C"), (similarity, "similarity")):
        if given is None:
            continue
        if callable(given) and not isinstance(given, type):
            one, two = (range(g.size) if g.nodes is None else g.nodes for g in graphs)
            given = [[given(u, v) for v in two] for u in one]
        if is_sparse(given):
            part = given.tocsr()
            _validate.array(part.data, name, floating=False)
        else:
            part = to_numpy(_validate.array(given, name, ndim=2, floating=False))
        if tuple(part.shape) not in (shape, (max(shape),) * 2):
            raise ValueError(f"{name} must have shape {shape}, got {tuple(part.shape)}")
        parts.append(part[: shape[0], : shape[1]])
    named = {node_match: 1.0} if isinstance(node_match, str) else node_match
    if named is not None and not isinstance(named, Mapping):
        named = dict.fromkeys(_validate.listed(named, "node_match"), 1.0)
    for attribute, weight in (named or {}).items():
        own = [_attribute(graph, attribute, name) for graph, name in zip(graphs, ("G1", "G2"), strict=True)]
        parts.append(_validate.scalar(weight, "node_match") * _alike(*own))
    if len(soft):
        parts.append(coo_array((weights, tuple(soft.T)), shape=shape).tocsr())
    if not parts:
        return None
    if all(is_sparse(part) for part in parts):
        return sum(parts[1:], parts[0])
    return np.asarray(sum(dense(part) for part in parts))


def _attribute(graph: Graph, attribute: Any, name: str) -> list[Any]:
    G = graph.source
    if G is None:
        raise TypeError(
            "node_match names attributes of networkx or igraph graphs; give similarity= for matrices"
        )
    if hasattr(G, "get_edgelist"):
        values = G.vs[attribute] if attribute in G.vs.attributes() else [None] * graph.size
    else:
        values = [G.nodes[node].get(attribute) for node in graph.nodes or ()]
    if all(value is None for value in values):
        raise ValueError(f"no node of {name} has an attribute {attribute!r}")
    return list(values)


def _alike(one: list[Any], two: list[Any]) -> np.ndarray:
    """Return 1 for equal values; for floats exp(-(difference / standard deviation)^2 / 2)."""
    values = [value for value in one + two if value is not None]
    if all(isinstance(value, Real) and not isinstance(value, bool | Integral) for value in values):
        x, y = (np.array([np.nan if v is None else float(v) for v in side]) for side in (one, two))
        width = float(np.nanstd(np.concatenate([x, y]))) or 1.0
        return np.asarray(np.nan_to_num(np.exp(-0.5 * ((x[:, None] - y) / width) ** 2), nan=0.0))
    code = {value: k for k, value in enumerate(dict.fromkeys(values))}
    a, b = (np.array([code.get(value, -1 - k) for value in side]) for k, side in enumerate((one, two)))
    return np.asarray(a[:, None] == b, dtype=np.float64)
