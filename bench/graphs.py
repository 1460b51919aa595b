"""Graph matching: seeds, speed, quality at equal time and batches, against SciPy's FAQ and other peers.

The second graph is a copy of the first with its nodes shuffled and some edges moved elsewhere (5 % unless a
row says otherwise), so that a good matching is known: the planted one.  Times are processor time of one
thread.

- seeds: mean edges without a counterpart with 0 to 40 correct seeds, 300 nodes, beside the planted
matching's;
- speed: one ``qap.match`` against one FAQ run, and the share of the planted edges that is kept; with
``--full`` also 2000 nodes,
  5000 and 20,000 nodes with 1 % seeds, with the peak memory of the process;
- quality: ``qap.match(restarts="auto")`` against the best of FAQ from the barycentre and random starts for
the same time, of
  POT's Gromov-Wasserstein, and of pygmtools (RRWM and IPFP, up to 60 nodes) where they are installed;
- real: networkx's small graphs and, where graspologic is installed, its connectomes, against FAQ's restarts;
- batches: ``qap.match_many`` on 10,000 pairs of 20 nodes against a loop over FAQ.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import linear_sum_assignment, quadratic_assignment
from scipy.sparse import csr_array

from dcfw import qap

Row = tuple[str, float, float, str]


def _grid(n: int, seed: int) -> nx.Graph:
    rows = max(k for k in range(1, int(n**0.5) + 1) if n % k == 0)
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, n // rows))


def _blocks(n: int, seed: int) -> nx.Graph:
    return nx.stochastic_block_model([n // 5] * 5, (np.full((5, 5), 2.0) + 30.0 * np.eye(5)) / n, seed=seed)


FAMILIES: dict[str, Callable[[int, int], nx.Graph]] = {
    "small world": lambda n, seed: nx.watts_strogatz_graph(n, 6, 0.1, seed=seed),
    "geometric": lambda n, seed: nx.random_geometric_graph(n, 1.6 / n**0.5, seed=seed),
    "grid": _grid,
    "preferential": lambda n, seed: nx.barabasi_albert_graph(n, 3, seed=seed),
    "uniform": lambda n, seed: nx.gnp_random_graph(n, 8.0 / n, seed=seed),
    "blocks": _blocks,
}
LARGE: dict[str, Callable[[int], nx.Graph]] = {
    "uniform, degree 6": lambda n: nx.fast_gnp_random_graph(n, 6.0 / n, seed=1),
    "uniform, degree 20": lambda n: nx.fast_gnp_random_graph(n, 20.0 / n, seed=1),
    "preferential, degree 6": lambda n: nx.barabasi_albert_graph(n, 3, seed=1),
    "preferential, degree 20": lambda n: nx.barabasi_albert_graph(n, 10, seed=1),
}


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    yield from seeded(5 if full else 2, (0, 5, 10, 20, 40) if full else (0, 20))
    yield from fast(full)
    yield from good(full)
    yield from real(2.0 if full else 1.0)
    yield from batches(10_000 if full else 2000)


# -- the planted pairs -------------------------------------------------------------------------------------


def planted(G: nx.Graph, seed: int, noise: float = 0.05) -> tuple[csr_array, csr_array, np.ndarray]:
    """Return the adjacency matrices of a graph and of a shuffled copy with moved edges, and the partners."""
    rng, n = np.random.default_rng(seed), len(G)
    edges = np.sort(np.array(G.edges), axis=1)
    known = set(map(tuple, edges.tolist()))
    moved = max(1, round(noise * len(edges)))
    new = np.delete(edges, rng.choice(len(edges), moved, replace=False), axis=0).tolist()
    while len(new) < len(edges):
        pair = tuple(sorted(rng.integers(n, size=2).tolist()))
        if pair[0] != pair[1] and pair not in known:
            known.add(pair)
            new.append(pair)
    p = rng.permutation(n)
    return _adjacency(edges, n), _adjacency(p[np.array(new)], n), p


def _adjacency(edges: np.ndarray, n: int) -> csr_array:
    i, j = np.concatenate([edges, edges[:, ::-1]]).T
    return csr_array((np.ones(len(i), dtype=np.int64), (i, j)), shape=(n, n))


def lost(A: Any, B: Any, p: np.ndarray) -> float:
    """Return the number of edges of either graph without a counterpart in the other."""
    return float(abs(A - B[p][:, p]).sum() / 2)


# -- what is measured --------------------------------------------------------------------------------------


def seeded(graphs: int, counts: tuple[int, ...]) -> Iterator[Row]:
    for family, make in FAMILIES.items():
        pairs = [planted(make(300, seed), seed) for seed in range(graphs)]
        least = np.mean([lost(*pair) for pair in pairs])
        for count in counts:
            found = []
            for seed, (A, B, p) in enumerate(pairs):
                rows = np.random.default_rng(seed).permutation(len(p))[:count]
                given = np.stack([rows, p[rows]], axis=1)
                found.append(lost(A, B, qap.match(A, B, seeds=given, rng=0).permutation))
            error = np.std(found) / len(found) ** 0.5
            yield (
                f"{family}, {count} seeds (standard error {error:.1f})",
                float(np.mean(found)),
                least,
                "edges; peer: planted",
            )


def fast(full: bool) -> Iterator[Row]:
    sizes = ((1000, 0.0), (2000, 0.0), (5000, 0.01), (20_000, 0.01)) if full else ((1000, 0.0),)
    for n, share in sizes:
        for name, make in LARGE.items() if full else list(LARGE.items())[:1]:
            A, B, p = planted(make(n), 1)
            rows = np.random.default_rng(5).permutation(n)[: round(share * n)]
            begun = process_time()
            q = qap.match(A, B, seeds=np.stack([rows, p[rows]], axis=1), rng=0).permutation
            ours = process_time() - begun
            peer = float("nan")
            if n == 1000:
                begun = process_time()
                faq(A.toarray(), B.toarray())
                peer = process_time() - begun
            kept = qap.evaluate(A, B, q) / qap.evaluate(A, B, p)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            yield (
                f"{name}, n={n}: kept {kept:.4f}, nodes {np.mean(p == q):.4f}, {memory:.2f} GiB",
                ours,
                peer,
                "s",
            )


def good(full: bool) -> Iterator[Row]:
    for n, seconds in ((60, 1.0), (300, 5.0)) if full else ((60, 0.5),):
        for family, make in FAMILIES.items():
            for noise in (0.05, 0.1, 0.2) if full else (0.1,):
                found: dict[str, list[float]] = {}
                for seed in range(3 if full else 1):
                    A, B, _ = planted(make(n, seed), seed, noise)
                    a, b = A.toarray(), B.toarray()
                    for name, solver in solvers(n, seconds).items():
                        found.setdefault(name, []).append(lost(A, B, solver(a, b)))
                means = {name: float(np.mean(values)) for name, values in found.items()}
                ours = means.pop("ours")
                best = min(means, key=means.__getitem__)
                yield (
                    f"{family}, n={n}, {noise:.0%} moved, {seconds:g} s; peer: {best}",
                    ours,
                    means[best],
                    "edges",
                )


def real(seconds: float) -> Iterator[Row]:
    """Yield rows of real graphs: small ones against copies with a tenth of the edges moved, and
    connectomes."""
    social = {
        "les miserables": nx.les_miserables_graph(),
        "karate": nx.karate_club_graph(),
        "davis": nx.davis_southern_women_graph(),
    }
    pairs = {}
    for name, G in social.items():
        A, B, _ = planted(nx.convert_node_labels_to_integers(G), 0, 0.1)
        pairs[name] = A.toarray(), B.toarray()
    for name, (A, B) in {**pairs, **connectomes()}.items():
        found = [solver(A, B, seconds=seconds) for solver in (ours, faq_restarts)]
        yield f"{name}, {len(A)} nodes, {seconds:g} s", *(lost(A, B, p) for p in found), "edges"


def connectomes() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return connectomes without weights from graspologic's data files, if it is installed (``--no-deps``
    will do)."""
    spec = find_spec("graspologic")
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent / "datasets"
    sides = [np.loadtxt(folder / "drosophila" / f"{side}_adjacency.csv") > 0 for side in ("left", "right")]
    n = max(map(len, sides))
    fly = tuple(np.pad(M.astype(np.int64), (0, n - len(M))) for M in sides)
    mice = []
    for name in ("sub-54776", "sub-54777"):
        i, j, w = np.loadtxt(folder / "mice" / "edgelists" / f"{name}_ses-1_dti.edgelist").T
        M = np.zeros((332, 332), dtype=np.int64)
        heavy = w > np.quantile(w, 0.9)
        M[i[heavy].astype(int), j[heavy].astype(int)] = 1
        mice.append(np.maximum(M, M.T))
    q = np.random.default_rng(0).permutation(332)
    return {"fly, left and right": fly, "two mice": (mice[0], mice[1][np.ix_(q, q)])}


def batches(count: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for name, flips in (("independent", 1.0), ("noisy copies", 0.05)):
        A, other = (np.triu(rng.random((2, count, 20, 20)) < 0.3, 1)).astype(np.int64)
        B = other if flips == 1.0 else np.abs(A - np.triu(rng.random(A.shape) < flips, 1))
        A, B = A + A.swapaxes(1, 2), B + B.swapaxes(1, 2)
        p = rng.permutation(20)
        B = B[:, p][:, :, p]
        begun = process_time()
        ours = qap.match_many(np.stack([A, B], axis=1), rng=0)
        taken = (process_time() - begun) / count
        few = min(count, 500)
        begun = process_time()
        theirs = [lost(A[k], B[k], faq(A[k], B[k])) for k in range(few)]
        yield f"{count} {name} of 20 nodes, each", taken, (process_time() - begun) / few, "s"
        yield (
            f"{count} {name} of 20 nodes, mean",
            float(ours.disagreement.mean()),
            float(np.mean(theirs)),
            "edges",
        )


# -- the solvers -------------------------------------------------------------------------------------------


def solvers(n: int, seconds: float) -> dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    found: dict[str, Any] = {
        "ours": partial(ours, seconds=seconds),
        "FAQ": partial(faq_restarts, seconds=seconds),
    }
    try:
        import ot  # noqa: F401

        found["POT GW"] = gromov
    except ModuleNotFoundError:
        pass
    try:
        import pygmtools

        if n <= 60:
            found |= {name: partial(affinity, solver=getattr(pygmtools, name)) for name in ("rrwm", "ipfp")}
    except ModuleNotFoundError:
        pass
    return found


def ours(A: np.ndarray, B: np.ndarray, seconds: float) -> np.ndarray:
    return qap.match(A, B, restarts="auto", time_limit=seconds, clock=process_time, rng=0).permutation


def faq(A: np.ndarray, B: np.ndarray, **options: Any) -> np.ndarray:
    return quadratic_assignment(A, B, method="faq", options={"maximize": True, **options}).col_ind


def faq_restarts(A: np.ndarray, B: np.ndarray, seconds: float) -> np.ndarray:
    begun, rng = process_time(), np.random.default_rng(0)
    found = [faq(A, B)]
    while process_time() - begun < seconds:
        found.append(faq(A, B, P0="randomized", rng=rng))
    return min(found, key=partial(lost, A, B))


def gromov(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    from ot.gromov import gromov_wasserstein

    plan = gromov_wasserstein(A.astype(float), B.astype(float))
    return linear_sum_assignment(-np.asarray(plan))[1]


def affinity(A: np.ndarray, B: np.ndarray, solver: Callable[..., Any]) -> np.ndarray:
    n = len(A)
    K = np.kron(B.astype(float), A.astype(float))  # column by column, as pygmtools has it
    X = solver(K, n, n, backend="numpy")
    return linear_sum_assignment(-np.asarray(X))[1]
