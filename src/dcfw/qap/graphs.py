"""Graph matching: a correspondence between the nodes of two graphs.

The squared disagreement is ||A - P B P^T||^2 = ||A||^2 + ||B||^2 - 2 sum_ij A[i, j] B[p(i), p(j)], so the
best matching *maximises* a quadratic assignment problem.  The smaller graph is padded with isolated nodes;
nodes matched to these are unmatched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw.qap.labels import assignment
from dcfw.qap.matching.inputs import LOOPS, PARALLEL, Graph, read, rewards, split_seeds, with_loops
from dcfw.qap.matching.paths import Pair
from dcfw.qap.matching.search import SEARCHED, Plan, Search, searchable, swappable
from dcfw.qap.objective import dense, evaluate, is_sparse
from dcfw.qap.problem import padded
from dcfw.qap.result import QAPResult
from dcfw.qap.solver import BALANCED, METHODS, POLISHES, _restarts, solve, workers
from dcfw.qap.task import SPLIT_METHODS
from dcfw.result import Status
from dcfw.solvers.interrupts import guarded


@guarded
def match(
    G1: Any,
    G2: Any,
    *,
    seeds: Any = None,
    partial_match: Any = None,
    forbidden: Any = None,
    similarity: Any = None,
    node_match: Any = None,
    weight: str | None = "weight",
    parallel: str = "error",
    loops: str = "error",
    padding: bool = True,
    C: Any = None,
    method: str = "auto",
    split: str = "auto",
    inner: str = "auto",
    init: Any = "barycenter",
    restarts: int | str = 1,
    polish: str | None = "auto",
    rtol: float = 1e-3,
    maxiter: int | None = None,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    max_steps: int | None = None,
    target: float | None = None,
    n_jobs: int | None = None,
    rng: Any = None,
    callback: Callable[..., Any] | None = None,
    clock: Callable[[], float] | None = None,
    verbose: int = 0,
) -> QAPResult:
    """Match the nodes of two graphs so that their edges agree as well as possible.

    Parameters
    ----------
    G1, G2 : graphs
        Directed or not, weighted or not: networkx or igraph graphs; adjacency matrices (arrays, SciPy sparse
        arrays, or DataFrames with the names of the nodes; symmetric ones are undirected graphs); lists of
        matrices or of networkx graphs, one per type of edge (*layers*, the same number in both, read by the
        names of the nodes); or DataFrames of undirected edges with columns ``source`` and ``target``.
    seeds : mapping or pairs, optional
        Known partners: ``{node1: node2}`` or ``[(node1, node2), ...]``; indices for matrices.  A triple
        ``(node1, node2, weight)`` is a soft seed: a reward for the pair.
    partial_match : optional
        SciPy's name for ``seeds``; give one of the two.
    forbidden : pairs, optional
        Pairs ``(node1, node2)`` that must not be matched.
    similarity : matrix, sparse matrix or callable, optional
        A reward for each pair, of shape (nodes of G1, nodes of G2), or a function of two nodes; a DataFrame
        whose index or columns are the names of the nodes is read by name.  The matching
        maximises ``sum_ij A[i, j] B[p(i), p(j)] + sum_i similarity[i, p(i)]``, where an undirected edge that
        is kept counts 2.
    node_match : str, list of str or mapping, optional
        Node attributes of networkx or igraph graphs that should agree.  Equal values earn the weight in a
        mapping, or 1; floats earn a Gaussian function of their difference in standard deviations.
    weight : str or None
        The edge attribute (or column) with the weight, 1 where it is missing; None ignores weights.
    parallel : {"error", "sum", "max"}
        For several edges between two nodes (a multigraph, an edge list with (u, v) and (v, u)): raise
        ValueError, add their weights, or take the largest one.
    loops : {"error", "keep", "ignore"}
        Compare self loops (diagonal entries), drop them, or raise ValueError if they would change the best
        matching: both graphs have some, and not all nodes of a graph have the same.
    padding : bool
        Match graphs of different sizes, every node of the smaller one; False raises ValueError for them.
    C : matrix, optional
        As ``similarity``; the two are added.
    method : {"auto", "dcfw", "boosted", "fw", "cgs", "graduated"}
        ``"auto"`` follows the graduated path for sparse graphs (``dcfw.qap.matching.paths``); the others
        are the methods of :func:`dcfw.qap.solve`, which take one layer.
    split, inner, init, rtol, maxiter, max_lmo, callback
        As in :func:`dcfw.qap.solve`; with any of them ``method="auto"`` means ``"dcfw"``, by default with
        ``split="balanced"``.
    restarts : int or "auto"
        The number of paths (or starts): from the barycentre, then alternately from the part of the best
        matching that fits (``dcfw.qap.matching.cores``) and from random points.  If the first path of a
        sparse graph with up to 400 free nodes keeps less than nine tenths of the edges, a longer path and two
        from such parts follow.  ``"auto"`` fills the ``time_limit`` with paths and then, up to 700 nodes,
        with the searches of :mod:`dcfw.qap.portfolio`.
    polish : {"auto", None, "2opt", "tabu"}
        The local search at the ends.  ``"auto"`` is ``"2opt"`` after paths of up to 500 nodes, else None.
    time_limit, max_steps, target, n_jobs, rng, clock, verbose
        As in :func:`dcfw.qap.solve`.

    Returns
    -------
    QAPResult
        That of :func:`dcfw.qap.solve` and

        - ``mapping``: the partner of each node of G1, as a dict (None for an unmatched node), or for matrices
          as an array of indices (-1 for an unmatched node);
        - ``agreement``: the sum of w1(u, v) w2(p(u), p(v)) over the edges (the number of edges kept);
        - ``disagreement``: the sum of (w1 - w2)^2 over all pairs of nodes (the number of edges lost);
        - ``kept``: the share of each node's edges that is kept, as a dict or an array: partners that keep
          few are unreliable.

        Beyond 2000 nodes ``x`` is a SciPy sparse array.  Graphs of more than 15,000 free nodes (6,000 if a
        hundredth of the nodes are seeds and the mean degree is at most 50) are matched by candidates
        (``dcfw.qap.matching.candidates``), which needs seeds or a sparse ``similarity`` and takes no
        ``restarts`` or ``polish``.

    Examples
    --------
    >>> import networkx as nx
    >>> G1 = nx.Graph([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("e", "g")])
    >>> G2 = nx.relabel_nodes(G1, dict(zip("abcdefg", range(7))))
    >>> res = match(G1, G2, rng=0)
    >>> res.agreement, res.disagreement
    (7, 0)
    >>> res.mapping["c"], res.mapping["e"]
    (2, 4)
    """
    started = time.perf_counter()
    if seeds is not None and partial_match is not None:
        raise TypeError("partial_match is another name for seeds: give one of the two")
    if weight is not None:
        weight = _validate.text(weight, "weight")
    method = _validate.choice(method, "method", ("auto", *METHODS))
    if polish is not None:
        polish = _validate.choice(polish, "polish", ("auto", *POLISHES))
    parallel = _validate.choice(parallel, "parallel", PARALLEL)
    graphs = read(G1, "G1", weight, parallel), read(G2, "G2", weight, parallel)
    _check(graphs, _validate.flag(padding, "padding"))
    graphs = with_loops(graphs, _validate.choice(loops, "loops", LOOPS))
    known = seeds if partial_match is None else partial_match
    hard, soft, weights, never = split_seeds(known, forbidden, graphs)
    earned = rewards(graphs, C, similarity, node_match, soft, weights)
    pair = Pair(graphs[0].layers, graphs[1].layers, earned, hard, never)
    own = {"split": split, "inner": inner, "rtol": rtol, "maxiter": maxiter, "max_lmo": max_lmo}
    defaults = {"split": "auto", "inner": "auto", "rtol": 1e-3}
    relaxed: dict[str, Any] = {name: given for name, given in own.items() if given != defaults.get(name)}
    if not (isinstance(init, str) and init == "barycenter"):
        names = graphs[0].nodes, graphs[1].nodes
        relaxed["init"] = assignment(init, (graphs[0].size, graphs[1].size), names, "init")
    options: dict[str, Any] = {
        "restarts": restarts, "time_limit": time_limit, "max_steps": max_steps, "target": target,
        "n_jobs": n_jobs, "rng": rng, "clock": clock, "callback": callback,
    }  # fmt: skip
    told = callback is not None and not getattr(callback, "only_watches", False)  # verbose= changes no answer
    if method != "auto" or relaxed or told:
        options |= relaxed | {"polish": None if polish == "auto" else polish}
        result = _solved(pair, "dcfw" if method == "auto" else method, options)
    else:
        result = _matched(pair, started, polish, options)
    return described(result, graphs)


def _check(graphs: tuple[Graph, Graph], padding: bool) -> None:
    named = [graph.nodes is not None for graph in graphs]
    if named[0] != named[1] and any(graph.source is not None for graph in graphs):
        raise TypeError("G1 and G2 must both be networkx graphs or both be adjacency matrices")
    layers = [len(graph.layers) for graph in graphs]
    if layers[0] != layers[1]:
        raise ValueError(f"G1 and G2 must have the same number of layers, got {layers[0]} and {layers[1]}")
    one, two = (graph.size for graph in graphs)
    if one != two and not padding:
        raise ValueError(f"G1 has {one} nodes and G2 has {two}; padding=True leaves some of them unmatched")


def _solved(pair: Pair, method: str, options: dict[str, Any]) -> QAPResult:
    if len(pair.A) > 1:
        raise ValueError(f"method {method!r} takes one layer: leave method out")
    if options["restarts"] != "auto" and method in SPLIT_METHODS:
        options.setdefault("split", BALANCED)  # "auto" has a balanced start of its own
    given = {"partial_match": pair.fixed, "forbidden": pair.forbidden}
    options |= {name: pairs for name, pairs in given.items() if len(pairs)}
    C = None if pair.C is None else dense(pair.C)
    return solve(pair.A[0], pair.B[0], C, method=method, maximize=True, **options)


def _matched(pair: Pair, started: float, polish: str | None, options: dict[str, Any]) -> QAPResult:
    limit, given = options["time_limit"], options["clock"]
    clock = time.perf_counter if given is None else _validate.function(given, "clock")
    target, steps = options["target"], options["max_steps"]
    plan = Plan(
        started, _restarts(options["restarts"], limit, steps, target), polish,
        None if limit is None else _validate.scalar(limit, "time_limit", low=0.0, allow_inf=True),
        workers(options["n_jobs"]), _validate.generator(options["rng"]), clock,
        started if given is None else clock(), options["callback"],
        None if target is None else _validate.scalar(target, "target", allow_inf=True),
    )  # fmt: skip
    if steps is not None and not swappable(pair):
        raise ValueError(
            "max_steps counts steps of swap searches, which take one layer, no forbidden pairs and up to "
            f"{SEARCHED} nodes: give time_limit instead"
        )
    search = Search(pair, plan)
    search.run()
    if plan.restarts != "auto" or not searchable(pair) or search.status is not Status.CONVERGED:
        return search.result()
    if plan.time_limit is not None:
        options["time_limit"] = max(plan.time_limit - (plan.clock() - plan.begin), 0.0)
    result = _solved(pair, "dcfw", {**options, "rng": plan.rng, "init": search.p})
    seconds = time.perf_counter() - started
    counts = {"n_starts": result.n_starts + len(search.values), "n_lmo": result.n_lmo + search.n_lmo}
    return QAPResult(**{**result, **counts, "time": seconds, "total_time": seconds})


def described(result: QAPResult, graphs: tuple[Graph, Graph]) -> QAPResult:
    one, two = graphs
    p = result.permutation[: one.size]
    partners = np.where(p < two.size, p, -1)
    if one.nodes is None and two.nodes is None:
        result.mapping = partners
    else:
        names = (*two.names(), None)  # None is at -1
        result.mapping = {node: names[j] for node, j in zip(one.names(), partners.tolist(), strict=True)}
    kept = [
        _agreement(A, B, result.permutation, not (one.is_directed(k) or two.is_directed(k)))
        for k, (A, B) in enumerate(zip(one.layers, two.layers, strict=True))
    ]
    result.graphs = tuple((graph.layers, graph.nodes) for graph in graphs)
    result.agreement, result.disagreement = sum(k for k, _ in kept), sum(lost for _, lost in kept)
    return result


def _agreement(A: Any, B: Any, p: np.ndarray, undirected: bool) -> tuple[float, float]:
    """Return agreement and disagreement, with each edge counted once (an undirected one is twice in A)."""
    n = max(A.shape[0], B.shape[0])
    A, B = padded(A, n), padded(B, n)
    integers = A.dtype.kind == B.dtype.kind == "i"
    agreement = evaluate(A, B, p)
    if integers:  # exact for any size
        identity = np.arange(n)
        disagreement = evaluate(A, A, identity) + evaluate(B, B, identity) - 2 * agreement
    else:
        difference = A - B[p][:, p]
        # A sparse matrix (not array) minus a dense one is a numpy.matrix, whose ** is a matrix power.
        entries = difference.data if is_sparse(difference) else np.asarray(difference)
        disagreement = float(np.sum(entries**2))
    if not undirected:
        return agreement, disagreement
    loops = list(zip(A.diagonal().tolist(), B.diagonal()[p].tolist(), strict=True))
    agreement += sum(a * b for a, b in loops)  # everything off the diagonal is counted twice
    disagreement += sum((a - b) ** 2 for a, b in loops)
    return (agreement // 2, disagreement // 2) if integers else (0.5 * agreement, 0.5 * disagreement)
