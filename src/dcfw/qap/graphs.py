"""Graph matching: which node of one graph is which node of the other?

A matching p should keep as many edges as it can.  For adjacency matrices A and B the squared disagreement
is ||A - P B P^T||^2 = ||A||^2 + ||B||^2 - 2 sum_ij A[i, j] B[p(i), p(j)], so that the best matching
*maximises* a quadratic assignment problem.  The smaller graph is filled up with isolated nodes; whoever is
matched to one of these is left unmatched.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw.qap.objective import INT64_MAX, evaluate, is_sparse, square
from dcfw.qap.problem import padded
from dcfw.qap.result import QAPResult
from dcfw.qap.solver import BALANCED, solve
from dcfw.qap.task import SPLIT_METHODS

DENSE_NODES = 300
"""Up to this many nodes an adjacency matrix is kept densely: the compiled loop is for dense matrices."""


def match(G1: Any, G2: Any, *, weight: str | None = "weight", seeds: Any = None, **options: Any) -> QAPResult:
    """Match the nodes of two graphs so that their edges agree as well as possible.

    Parameters
    ----------
    G1, G2 : networkx graphs, or adjacency matrices
        Directed or not, of equal or of different sizes.  Matrices may be arrays or SciPy sparse arrays; two
        symmetric ones are undirected graphs.
    weight : str or None
        The edge attribute of networkx graphs that holds the weight (1 where it is missing); None ignores
        weights.
    seeds : mapping or pairs, optional
        Nodes of G1 whose partner in G2 is known: ``{node1: node2}`` or ``[(node1, node2), ...]``; indices
        for matrices.
    **options
        Options of :func:`dcfw.qap.solve`: ``restarts``, ``polish``, ``time_limit``, ``rng``, ...; ``C``
        rewards (it is maximised) single pairs of nodes, in the order of the graphs' nodes.  The default of
        ``split`` is ``"balanced"``, which finds planted matchings best.

    Returns
    -------
    QAPResult
        That of :func:`dcfw.qap.solve` and

        - ``mapping``: the partner of each node of G1, as a dict (None for an unmatched node), or for matrices
          as an array of indices (-1 for an unmatched node);
        - ``agreement``: the sum of w1(u, v) w2(p(u), p(v)) over the edges, each counted once: without
          weights, the number of edges that are kept (parallel edges of a multigraph are one edge whose weight
          is their sum);
        - ``disagreement``: the sum of (w1 - w2)^2 over all pairs of nodes: without weights, the number of
          edges of either graph that have no counterpart.

    Examples
    --------
    >>> import networkx as nx
    >>> G1 = nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("e", "g")])
    >>> G2 = nx.relabel_nodes(G1, dict(zip("abcdefg", range(7))))
    >>> res = match(G1, G2, restarts=5, polish="2opt", rng=0)
    >>> res.agreement, res.disagreement
    (7, 0)
    >>> res.mapping["c"], res.mapping["e"]
    (2, 4)
    """
    for name in ("maximize", "partial_match"):
        if name in options:
            remedy = "give seeds" if name == "partial_match" else "match always maximises the agreement"
            raise TypeError(f"match() has no option {name!r}: {remedy}")
    if weight is not None:
        weight = _validate.text(weight, "weight")
    if _is_graph(G1) != _is_graph(G2):
        raise TypeError("G1 and G2 must both be networkx graphs or both be adjacency matrices")
    automatic = options.get("restarts") == "auto"  # which has a balanced start of its own
    if not automatic and options.get("method", "dcfw") in SPLIT_METHODS:
        options.setdefault("split", BALANCED)
    nodes = (list(G1), list(G2)) if _is_graph(G1) else None
    A, B = (
        _adjacency(G, name, None if nodes is None else nodes[k], weight)
        for k, (G, name) in enumerate(((G1, "G1"), (G2, "G2")))
    )
    sizes = (A.shape[0], B.shape[0])
    result = solve(A, B, maximize=True, partial_match=_pairs(seeds, nodes, sizes), **options)
    p = result.permutation[: sizes[0]]
    partners = np.where(p < sizes[1], p, -1)
    if nodes is None:
        result.mapping = partners
    else:
        result.mapping = {
            node: None if partner < 0 else nodes[1][partner]
            for node, partner in zip(nodes[0], partners.tolist(), strict=True)
        }
    if nodes is None:
        undirected = _symmetric(A) and _symmetric(B)
    else:
        undirected = not (G1.is_directed() or G2.is_directed())
    result.agreement, result.disagreement = _agreement(A, B, result.permutation, undirected)
    return result


def _is_graph(G: Any) -> bool:
    return hasattr(G, "adj") and hasattr(G, "nodes")


def _adjacency(G: Any, name: str, nodes: list[Hashable] | None, weight: str | None) -> Any:
    if nodes is None:
        return square(G, name)
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
    A = square(nx.to_scipy_sparse_array(G, nodelist=nodes, weight=weight, dtype=kind, format="csr"), name)
    n = len(nodes)
    return A.toarray() if n <= DENSE_NODES or A.nnz > 0.1 * n * n else A


def _pairs(
    seeds: Mapping[Any, Any] | Iterable[Any] | None,
    nodes: tuple[list[Hashable], list[Hashable]] | None,
    sizes: tuple[int, int],
) -> np.ndarray | None:
    """Return the known pairs as indices."""
    if seeds is None:
        return None
    if isinstance(seeds, Mapping):
        listed = list(seeds.items())
    else:
        if np.ma.is_masked(seeds) or getattr(getattr(seeds, "dtype", None), "kind", "i") in "Vc":
            raise TypeError("seeds must be pairs of nodes, without a mask")
        try:
            listed = [tuple(pair) for pair in _validate.listed(seeds, "seeds")]
        except (TypeError, NotImplementedError):
            raise TypeError("seeds must be pairs (node of G1, node of G2), or a mapping") from None
    if not listed:
        return None
    if any(len(pair) != 2 for pair in listed):
        raise ValueError("seeds must be pairs (node of G1, node of G2), or a mapping from one to the other")
    columns = []
    for k, name in enumerate(("G1", "G2")):
        places = range(sizes[k]) if nodes is None else nodes[k]
        index = {node: at for at, node in enumerate(places)}
        unknown = [pair[k] for pair in listed if not isinstance(pair[k], Hashable) or pair[k] not in index]
        if unknown:
            raise ValueError(f"seeds has {unknown[0]!r}, which is not a node of {name}")
        columns.append([index[pair[k]] for pair in listed])
        if len(set(columns[-1])) < len(listed):
            side = ("row", "column")[k]
            raise ValueError(f"seeds repeats the {side} index of a node of {name}; each may have one partner")
    return np.array(columns, dtype=np.int64).T


def _agreement(A: Any, B: Any, p: np.ndarray, undirected: bool) -> tuple[float, float]:
    """Return agreement and disagreement, with each edge counted once (an undirected one is twice in A)."""
    n = max(A.shape[0], B.shape[0])
    A, B = padded(A, n), padded(B, n)
    integers = A.dtype.kind == B.dtype.kind == "i"
    agreement = evaluate(A, B, p)
    if integers:  # exact, whatever their size
        identity = np.arange(n)
        disagreement = evaluate(A, A, identity) + evaluate(B, B, identity) - 2 * agreement
    else:
        difference = A - B[p][:, p]
        # A sparse matrix (not array) minus a dense one is one of NumPy's matrices, whose ** is no square.
        entries = difference.data if is_sparse(difference) else np.asarray(difference)
        disagreement = float(np.sum(entries**2))
    if not undirected:
        return agreement, disagreement
    # Everything off the diagonal is there twice.
    loops = list(zip(A.diagonal().tolist(), B.diagonal()[p].tolist(), strict=True))
    agreement += sum(a * b for a, b in loops)
    disagreement += sum((a - b) ** 2 for a, b in loops)
    return (agreement // 2, disagreement // 2) if integers else (0.5 * agreement, 0.5 * disagreement)


def _symmetric(M: Any) -> bool:
    difference = M != M.T
    return difference.nnz == 0 if is_sparse(M) else not difference.any()
