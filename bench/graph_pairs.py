"""The pairs of graphs of ``bench graphs``: planted ones of several families, and real ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse import csr_array


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


def small_planted(family: str, n: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    A, B, _ = planted(FAMILIES[family](n, seed), seed, noise)
    return A.toarray(), B.toarray()


def social(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a graph of networkx and a shuffled copy with a tenth of the edges moved."""
    G = nx.convert_node_labels_to_integers(getattr(nx, name)())
    A, B, _ = planted(G, seed, 0.1)
    return A.toarray(), B.toarray()


def data_folder() -> Path | None:
    """Return the folder of graspologic's data sets, if it is installed (``--no-deps`` suffices)."""
    spec = find_spec("graspologic")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "datasets"


def fly(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the two sides of a larva's mushroom body, directed and without weights, padded."""
    sides = [np.loadtxt(folder / "drosophila" / f"{side}_adjacency.csv") > 0 for side in ("left", "right")]
    n = max(map(len, sides))
    one, two = (np.pad(M.astype(np.int64), (0, n - len(M))) for M in sides)
    return one, two


def mice(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the heaviest tenth of the edges of two mice's brains, the second one shuffled."""
    found = []
    for name in ("sub-54776", "sub-54777"):
        i, j, w = np.loadtxt(folder / "mice" / "edgelists" / f"{name}_ses-1_dti.edgelist").T
        M = np.zeros((332, 332), dtype=np.int64)
        heavy = w > np.quantile(w, 0.9)
        M[i[heavy].astype(int), j[heavy].astype(int)] = 1
        found.append(np.maximum(M, M.T))
    q = np.random.default_rng(0).permutation(332)
    return found[0], found[1][np.ix_(q, q)]
