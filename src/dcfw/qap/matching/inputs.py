"""Graphs in any form that ``match`` takes, turned into layers of matrices, pairs of indices and rewards."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.qap.labels import check_unique, in_order, labels, numbered
from dcfw.qap.objective import INT64_MAX, dense, is_sparse, square, symmetric

DENSE_NODES = 300
"""Up to this many nodes the adjacency matrix of a graph object is kept densely."""
PARALLEL, LOOPS = ("error", "sum", "max"), ("error", "keep", "ignore")


@dataclass(frozen=True)
class Graph:
    layers: list[Any]
    nodes: list[Hashable] | None = None
    directed: bool | None = None
    source: Any = None

    @property
    def size(self) -> int:
        return int(self.layers[0].shape[0])

    def is_directed(self, layer: int) -> bool:
        return not symmetric(self.layers[layer]) if self.directed is None else self.directed

    def names(self) -> Sequence[Any]:
        return range(self.size) if self.nodes is None else self.nodes


def read(G: Any, name: str, weight: str | None, parallel: str = "error") -> Graph:
    named = (name, weight, parallel)
    if _is_networkx(G):
        return _graph(list(G), _edges(G, weight), G.is_directed(), G, named)
    if isinstance(G, list | tuple) and G and all(map(_is_networkx, G)):  # a layer may lack nodes
        nodes = list(dict.fromkeys(node for layer in G for node in layer))
        layers = [
            _graph(nodes, _edges(M, weight), M.is_directed(), None, (f"{name}[{k}]", *named[1:])).layers[0]
            for k, M in enumerate(G)
        ]
        if len({is_sparse(M) for M in layers}) > 1:
            layers = [dense(M) for M in layers]
        source = G[0].copy()  # of attributes: those of a node are from its first layer
        for M in reversed(G):
            source.add_nodes_from(M.nodes(data=True))
        return Graph(layers, nodes, source=source)
    if hasattr(G, "get_edgelist") and hasattr(G, "vs"):
        nodes = list(G.vs["name"] if "name" in G.vs.attributes() else range(G.vcount()))
        check_unique(nodes, name)
        weights = G.es[weight] if weight is not None and weight in G.es.attributes() else repeat(1)
        given = (1 if w is None else w for w in weights)  # None: igraph's missing attribute
        listed = [(nodes[i], nodes[j], w) for (i, j), w in zip(G.get_edgelist(), given, strict=False)]
        return _graph(nodes, listed, G.is_directed(), G, named)
    columns = getattr(G, "columns", ())
    if "source" in columns and "target" in columns and "source" not in G.index:  # else nodes of a matrix
        ends = G["source"].tolist(), G["target"].tolist()
        weights = G[weight].tolist() if weight is not None and weight in columns else repeat(1)
        nodes = list(dict.fromkeys(chain.from_iterable(zip(*ends, strict=True))))
        return _graph(nodes, list(zip(*ends, weights, strict=False)), False, None, named)
    if isinstance(G, list | tuple) and G and all(is_sparse(M) or np.ndim(M) == 2 for M in G):
        return _layered(G, name)
    names = labels(G, name)
    return Graph([square(G, name)], None if numbered(names or []) else names)


def _layered(given: Sequence[Any], name: str) -> Graph:
    """Return the graph of several matrices, those with names in the order of the first of them."""
    layers = [square(M, f"{name}[{k}]") for k, M in enumerate(given)]
    if len({M.shape for M in layers}) > 1:
        raise ValueError(f"the layers of {name} must have one shape, got {[M.shape for M in layers]}")
    names = [labels(M, f"{name}[{k}]") for k, M in enumerate(given)]
    nodes = next((own for own in names if own is not None and not numbered(own)), None)
    if nodes is None:
        return Graph(layers)
    for k, own in enumerate(names):
        if own is None or own == nodes:
            continue
        if set(own) == set(nodes):
            place = {node: i for i, node in enumerate(own)}
            order = [place[node] for node in nodes]
            layers[k] = layers[k][order][:, order]
        elif not numbered(own):
            raise ValueError(f"the layers of {name} must have the same nodes; {name}[{k}] has others")
    return Graph(layers, nodes)


def _is_networkx(G: Any) -> bool:
    return hasattr(G, "adj") and hasattr(G, "nodes")


def _edges(G: Any, weight: str | None) -> Any:
    return [(*edge, 1) for edge in G.edges()] if weight is None else G.edges(data=weight, default=1)


def _graph(
    nodes: list[Hashable], listed: Any, directed: bool, source: Any, named: tuple[str, str | None, str]
) -> Graph:
    """Return the graph of listed edges (u, v, weight); ``named`` is the argument, weight and parallel."""
    name, weight, parallel = named
    if not nodes:
        raise ValueError(f"{name} must have at least one node")
    place, n = {node: k for k, node in enumerate(nodes)}, len(nodes)
    found: dict[tuple[int, int], Any] = {}
    exact = True
    for u, v, w in listed:
        if not isinstance(w, Real | np.bool_):
            raise TypeError(f"{name} has an edge ({u!r}, {v!r}) whose {weight!r} is not a real number: {w!r}")
        edge = place[u], place[v]
        edge = edge if directed or edge[0] <= edge[1] else edge[::-1]
        if isinstance(w, Integral | np.bool_):
            w = int(w)
        else:
            exact = False
        if edge in found:
            if parallel == "error":
                raise ValueError(
                    f"{name} has more than one edge ({u!r}, {v!r}): parallel='sum' adds their weights, "
                    "parallel='max' takes the largest one"
                )
            w = found[edge] + w if parallel == "sum" else max(found[edge], w)
        if isinstance(w, int) and abs(w) > INT64_MAX:
            raise ValueError(
                f"{name} has an edge ({u!r}, {v!r}) whose {weight!r} is beyond 2**63 - 1; "
                "rescale it or use floats"
            )
        found[edge] = w
    i, j = np.array(list(found), dtype=np.int64).reshape(-1, 2).T
    values = np.array(list(found.values()), dtype=np.int64 if exact else np.float64)
    if not directed:
        off = i != j
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        values = np.concatenate([values, values[off]])
    A = square(csr_array((values, (i, j)), shape=(n, n)), name)
    small = n <= DENSE_NODES or A.nnz > 0.1 * n * n
    return Graph([A.toarray() if small else A], nodes, directed, source)


def with_loops(graphs: tuple[Graph, Graph], loops: str) -> tuple[Graph, Graph]:
    if loops == "ignore":
        one, two = (replace(graph, layers=[_off_diagonal(M) for M in graph.layers]) for graph in graphs)
        return one, two
    for layers in zip(*(graph.layers for graph in graphs), strict=True) if loops == "error" else ():
        diagonals = [M.diagonal() for M in layers]
        small, large = sorted(diagonals, key=len)
        constant = np.ptp(large) == 0 or (len(small) == len(large) and np.ptp(small) == 0)
        if small.any() and not constant:  # sum_i small[i] large[p(i)] depends on p
            k = int(np.flatnonzero(diagonals[0])[0])
            raise ValueError(
                f"both graphs have self loops (G1 at node {graphs[0].names()[k]!r}), which change the best "
                "matching: loops='keep' compares them, loops='ignore' drops them"
            )
    return graphs


def _off_diagonal(M: Any) -> Any:
    d = M.diagonal()
    return M - (diags_array(d, format="csr", dtype=d.dtype) if is_sparse(M) else np.diag(d)) if d.any() else M


def _pairs(
    given: Any, graphs: tuple[Graph, Graph], name: str, lengths: tuple[int, ...] = (2,)
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of indices, and a weight for each: infinite where none is given."""
    if isinstance(given, Mapping):
        listed: list[tuple[Any, ...]] = list(given.items())
    elif np.ma.is_masked(given) or getattr(getattr(given, "dtype", None), "kind", "i") in "Vc":
        raise TypeError(f"{name} must be pairs of nodes, without a mask")
    else:
        try:
            listed = [] if given is None else [tuple(pair) for pair in _validate.listed(given, name)]
        except (TypeError, NotImplementedError):
            raise TypeError(f"{name} must be pairs (node of G1, node of G2), or a mapping") from None
    if not listed:
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    if any(len(pair) not in lengths for pair in listed):
        raise ValueError(f"{name} must be pairs (node of G1, node of G2), or a mapping from one to the other")
    columns = []
    for k, (which, graph) in enumerate(zip(("G1", "G2"), graphs, strict=True)):
        index = {node: i for i, node in enumerate(graph.names())}
        unknown = [pair[k] for pair in listed if not isinstance(pair[k], Hashable) or pair[k] not in index]
        if unknown:
            raise ValueError(f"{name} has {unknown[0]!r}, which is not a node of {which}")
        columns.append([index[pair[k]] for pair in listed])
    what = f"the weight of a pair of {name} (forbidden= excludes pairs)"
    weights = [_validate.scalar((*pair, np.inf)[2], what, open_low=True, allow_inf=True) for pair in listed]
    return np.array(columns, dtype=np.int64).T, np.array(weights, dtype=np.float64)


def split_seeds(
    seeds: Any, forbidden: Any, graphs: tuple[Graph, Graph]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    known, weights = _pairs(seeds, graphs, "seeds", (2, 3))
    hard = np.isposinf(weights)
    one, two = (g.names() for g in graphs)
    for k, (nodes, which) in enumerate(((one, "G1"), (two, "G2"))):
        node, count = np.unique(known[hard, k], return_counts=True)
        if (count > 1).any():
            twice = nodes[int(node[count > 1][0])]
            raise ValueError(f"seeds repeats node {twice!r} of {which}; each may have one partner")
    never = _pairs(forbidden, graphs, "forbidden")[0]
    both = set(map(tuple, known.tolist())) & set(map(tuple, never.tolist()))
    if both:
        i, j = min(both)
        raise ValueError(f"seeds and forbidden both have the pair ({one[i]!r}, {two[j]!r}): remove one")
    return known[hard], known[~hard], weights[~hard], never


def rewards(
    graphs: tuple[Graph, Graph], C: Any, similarity: Any, node_match: Any, soft: np.ndarray,
    weights: np.ndarray,
) -> Any:  # fmt: skip
    """Return what the pairs of a matching earn as a matrix, sparse if all parts are, or None."""
    shape = tuple(graph.size for graph in graphs)
    parts: list[Any] = []
    for given, name in ((C, "C"), (similarity, "similarity")):
        if given is None:
            continue
        if callable(given) and not isinstance(given, type):
            one, two = (g.names() for g in graphs)
            given = [[given(u, v) for v in two] for u in one]
        given = in_order(given, [list(g.names()) for g in graphs], name)
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
        raise TypeError("node_match needs networkx or igraph graphs; give similarity= for matrices")
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
        both = np.concatenate([x, y])
        finite = both[np.isfinite(both)]
        width = (float(np.std(finite)) if len(finite) else 0.0) or 1.0
        with np.errstate(invalid="ignore"):  # inf - inf
            near = np.exp(-0.5 * ((x[:, None] - y) / width) ** 2)
        return np.where(x[:, None] == y, 1.0, np.nan_to_num(near, nan=0.0))
    code = {value: k for k, value in enumerate(dict.fromkeys(values))}
    a, b = (np.array([code.get(value, -1 - k) for value in side]) for k, side in enumerate((one, two)))
    return np.asarray(a[:, None] == b, dtype=np.float64)
