"""Paths that restart from the part of a matching that fits.

Graphs with symmetries (grids, rings) have several matchings of nearly the same value, and a path may end in a
patchwork of them.  A *core* is a ball of nodes around one whose neighbourhood is kept; its pairs become the
seeds of another path.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from dcfw.qap.matching.paths import Pair, floats

SHARE = 0.15  # of the free nodes: on grids of 300 nodes 0.1 and 0.2 were better than 0.04
ROUNDS = 4  # the distance within which lost edges count


def with_core(pair: Pair, p: np.ndarray, rng: np.random.Generator) -> Pair:
    """Return the pair with a random core of the matching p added to the fixed pairs."""
    n = pair.n
    kept = csr_array((n, n))
    degrees = np.zeros(n)
    for A, B in zip(pair.A, pair.B, strict=True):
        M, N = (abs(floats(X, n)) for X in (A, B))
        N = N[p][:, p]
        kept = kept + M.minimum(N)
        degrees += np.maximum((M + M.T).sum(axis=1), (N + N.T).sum(axis=1))
    kept = csr_array(kept + kept.T)
    here = kept.sum(axis=1)
    share = here / np.maximum(degrees, 1e-300)
    fit = share.copy()
    for _ in range(ROUNDS):
        fit = 0.5 * fit + 0.5 * share * (kept @ fit) / np.maximum(here, 1e-300)
    free = np.ones(n, dtype=bool)
    free[pair.fixed[:, 0]] = False
    chances = np.where(free, fit**4, 0.0)
    if free.sum() < 4 or not chances.sum() > 0.0:
        return pair
    centre = int(rng.choice(n, p=chances / chances.sum()))
    ball = breadth_first_order(kept, centre, directed=False, return_predecessors=False)
    ball = ball[free[ball]][: max(1, round(SHARE * free.sum()))]
    return replace(pair, fixed=np.concatenate([pair.fixed, np.stack([ball, p[ball]], axis=1)]))
