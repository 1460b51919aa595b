"""Graph matching: does the matching that was planted come out again, by ours and by SciPy's FAQ?

The second graph is a copy of the first with its nodes shuffled and one edge in twenty moved elsewhere, so a
matching is known that leaves few edges without a counterpart.  Numbers are means of such edges over the
seeds, as a multiple of those of the planted matching (1 is perfect; less can be found, but hardly ever is).

- one run each: ``qap.match`` as it comes against ``scipy.optimize.quadratic_assignment(method="faq")``, and
  the seconds that they take;
- one second each: ``qap.match(restarts="auto", time_limit=1, polish="2opt")`` against the best of FAQ from
  the barycentre and then from random starts for as long.

The families are geometric graphs and small worlds, where neighbours of neighbours are neighbours, and
preferential attachment and uniform random graphs, where a node's degree says more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import quadratic_assignment

from dcfw import qap

Row = tuple[str, float, float, str]

FAMILIES: dict[str, Callable[[int, int], nx.Graph]] = {
    "geometric": lambda n, seed: nx.random_geometric_graph(n, 1.6 / n**0.5, seed=seed),
    "small world": lambda n, seed: nx.watts_strogatz_graph(n, 6, 0.1, seed=seed),
    "preferential": lambda n, seed: nx.barabasi_albert_graph(n, 3, seed=seed),
    "uniform": lambda n, seed: nx.gnp_random_graph(n, 8.0 / n, seed=seed),
}


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    for A, B, _ in (planted("uniform", 12, 0),):
        ours(A, B, 0, seconds=0.01)  # what compiles compiles
        ours(A, B, 0)
    for family in FAMILIES:
        for n in (40, 80, 150, 300) if full else (40, 80, 150):
            yield from rows(family, n, 10 if full else 5, f"{family}, n={n}, one run", faq)
    for family in FAMILIES:
        yield from rows(family, 80, 5 if full else 2, f"{family}, n=80, 1 s each", faq_restarts, seconds=1.0)


def rows(
    family: str, n: int, seeds: int, name: str, peer: Callable[..., Any], **options: float
) -> Iterator[Row]:
    """Yield what both leave unmatched, and for single runs what they take."""
    found, taken = np.zeros((2, seeds)), np.zeros(2)
    for seed in range(seeds):
        A, B, least = planted(family, n, seed)
        for k, solver in enumerate((ours, peer)):
            begun = perf_counter()
            p = solver(A, B, seed, **options)
            taken[k] += perf_counter() - begun
            found[k, seed] = unmatched(A, B, p) / least
    hits = (found <= 1.0).sum(axis=1)
    yield (
        f"{name}: planted {hits[0]} and {hits[1]} of {seeds}",
        *found.mean(axis=1).tolist(),
        "times the planted",
    )
    if not options:
        yield f"{name}: time", *(taken / seeds).tolist(), "s"


def planted(family: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the adjacency matrices of a graph and of its shuffled, noisy copy, and what the noise costs."""
    rng = np.random.default_rng(seed)
    A = nx.to_numpy_array(FAMILIES[family](n, seed))
    noisy = A.copy()
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    edges = A[tuple(pairs.T)] > 0
    moved = max(1, round(0.05 * edges.sum()))
    for kind, value in ((edges, 0.0), (~edges, 1.0)):
        i, j = rng.choice(pairs[kind], moved, replace=False).T
        noisy[i, j] = noisy[j, i] = value
    p = rng.permutation(n)
    B = np.empty_like(noisy)
    B[np.ix_(p, p)] = noisy
    return A, B, unmatched(A, B, p)


def unmatched(A: np.ndarray, B: np.ndarray, p: np.ndarray) -> float:
    """Return the number of edges of either graph without a counterpart in the other."""
    return float(np.abs(A - B[np.ix_(p, p)]).sum() / 2.0)


def ours(A: np.ndarray, B: np.ndarray, seed: int, seconds: float | None = None) -> np.ndarray:
    if seconds is None:
        return qap.match(A, B, rng=seed).permutation
    return qap.match(A, B, restarts="auto", time_limit=seconds, polish="2opt", rng=seed).permutation


def faq(
    A: np.ndarray, B: np.ndarray, seed: int
) -> np.ndarray:  # it starts at the barycentre, whatever the seed
    return quadratic_assignment(A, B, method="faq", options={"maximize": True}).col_ind


def faq_restarts(A: np.ndarray, B: np.ndarray, seed: int, seconds: float) -> np.ndarray:
    rng, found = np.random.default_rng(seed), [faq(A, B, seed)]
    options = {"maximize": True, "P0": "randomized", "rng": rng}
    begun = perf_counter()
    while perf_counter() - begun < seconds:
        found.append(quadratic_assignment(A, B, method="faq", options=options).col_ind)
    return min(found, key=lambda p: unmatched(A, B, p))
