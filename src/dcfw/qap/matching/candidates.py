"""Matching by candidates, for graphs whose n^2 pairs do not fit in memory: O(n k) numbers instead.

Each node keeps its k most likely partners with weights that add up to about 1.  A round sums, for every pair
of nodes, the weights of pairs of their neighbours (the k largest entries of each row of A X B), divides by
the degrees and scales rows and columns.  Seeds always have weight 1.  When the weights have converged, pairs
are chosen greedily, and rounds with that matching in place of X correct it.

L. Yartseva, M. Grossglauser, "On the performance of percolation graph matching", COSN 2013; J. Lubars,
R. Srikant, "Correcting the output of approximate graph matching algorithms", INFOCOM 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from dcfw import kernels
from dcfw.qap.graduated import PathEnd
from dcfw.qap.matching.paths import NO_MATCHING, Pair, floats, packed_csr
from dcfw.qap.objective import symmetric
from dcfw.qap.swaps import is_over
from dcfw.solvers import interrupts

KEPT, ROUNDS, CORRECTIONS = 20, 25, 20
BLOCK = 2048  # rows between two looks at the clock and for Ctrl-C
SETTLED = 0.002  # rounds end at this share of nodes whose best partner changed


class _Over(Exception):
    """The time is over, or Ctrl-C was pressed."""


def by_candidates(pair: Pair, deadline: float | None = None) -> PathEnd:
    """Return a matching of large sparse graphs, the last one at the deadline or after Ctrl-C; the second part
    of its counts are rounds."""
    n = pair.n
    A, B = [floats(M, n) for M in pair.A], [floats(M, n) for M in pair.B]
    products = []
    for M, N in zip(A, B, strict=True):
        products.append((M, N.T.tocsr()))
        if not (symmetric(M) and symmetric(N)):
            products.append((M.T.tocsr(), N))
    sizes = [np.maximum(sum(abs(M).sum(axis=1) for M in side), 1e-300) for side in (A, B)]
    scales = [diags_array(1.0 / np.sqrt(size)) for size in sizes]
    i, j = pair.fixed.T
    seeds = csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
    free = [np.ones(n), np.ones(n)]
    free[0][i] = free[1][j] = 0.0
    masks = [diags_array(mask) for mask in free]
    never = csr_array((np.ones(len(pair.forbidden)), tuple(pair.forbidden.T)), shape=(n, n))
    rewards = None if pair.C is None else floats(pair.C, n).maximum(0.0)
    if not len(i) and rewards is None:
        raise ValueError("graphs with more than 15000 free nodes need seeds or a sparse similarity")
    blocks = _blocks(products, n)

    def voted(X: Any) -> Any:
        """Return the votes of neighbours for the free pairs, divided by the degrees."""
        G = masks[0] @ _propagated(blocks, X, n, deadline) @ masks[1]
        G = scales[0] @ (G if rewards is None else G + rewards) @ scales[1]
        if never.nnz:
            G = G - G.multiply(never)
        G = csr_array(G)
        G.eliminate_zeros()
        return G

    X = seeds if rewards is None else csr_array(seeds + _scaled(csr_array(masks[0] @ rewards @ masks[1])))
    Y, best, p, rounds, cut = X, np.full(n, -1), None, 0, False
    try:
        while rounds < ROUNDS:
            Y = _scaled(voted(X))
            rounds += 1
            X = csr_array(Y + seeds)
            last, best = best, _best(Y)
            if np.mean(best != last) <= SETTLED:
                break
        p = _greedy(Y, pair.fixed)
        for _ in range(CORRECTIONS):
            known = p >= 0
            S = csr_array((np.ones(known.sum()), (np.flatnonzero(known), p[known])), shape=(n, n))
            last, p = p, _greedy(voted(S), pair.fixed)
            rounds += 1
            if np.mean(p != last) <= SETTLED / 10:
                break
    except _Over:
        cut = True
        p = _greedy(Y, pair.fixed) if p is None else p
    return PathEnd(_permitted(_completed(p, sizes), p < 0, pair), 0, rounds, rounds, cut)


def _blocks(products: list[Any], n: int) -> list[Any]:
    """Return the products with the rows of each block alone, packed for the compiled kernel."""
    blocks = []
    right = [N if kernels.native is None else packed_csr(N) for _, N in products]
    for first in range(0, n, BLOCK):
        block = []
        for (L, _), N in zip(products, right, strict=True):
            start, end = L.indptr[[first, min(first + BLOCK, n)]].tolist()
            starts = np.clip(L.indptr, start, end) - start
            rows = csr_array((L.data[start:end], L.indices[start:end], starts), shape=(n, n))
            block.append((rows if kernels.native is None else packed_csr(rows), N))
        blocks.append(block)
    return blocks


def _propagated(blocks: list[Any], X: Any, n: int, deadline: float | None) -> Any:
    """Return the largest entries of each row of the sum of L X N."""
    given = X if kernels.native is None else packed_csr(X)
    parts = []
    for block in blocks:
        if is_over(deadline) or interrupts.pending():
            raise _Over
        parts.append(_largest(block, given, n))
    starts, columns, values = zip(*parts, strict=True)  # other rows of a block are empty
    entries = np.concatenate(values).astype(np.float64), np.concatenate(columns), sum(starts)
    return csr_array(entries, shape=(n, n))


def _largest(block: list[Any], X: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if kernels.native is not None:
        return kernels.native.propagate(block, X, n, n, KEPT)  # type: ignore[no-any-return]
    G = csr_array(sum((L @ X @ N for L, N in block[1:]), block[0][0] @ X @ block[0][1]))
    order = np.lexsort((-G.data, np.repeat(np.arange(n), np.diff(G.indptr))))
    place = np.arange(G.nnz) - np.repeat(G.indptr[:-1], np.diff(G.indptr))
    G.data[order[place >= KEPT]] = 0.0
    G.eliminate_zeros()
    return G.indptr, G.indices, G.data


def _scaled(G: Any) -> Any:
    """Scale rows to sums of about 1 and columns to sums of about 1 or less."""
    for _ in range(3):
        rows = G.sum(axis=1)
        G = diags_array(1.0 / np.where(rows > 0.0, rows, 1.0)) @ G
        G = G @ diags_array(1.0 / np.maximum(G.sum(axis=0), 1.0))
    return csr_array(G)


def _best(G: Any) -> np.ndarray:
    rows = np.repeat(np.arange(G.shape[0]), np.diff(G.indptr))
    order = np.lexsort((G.data, rows))
    best = np.full(G.shape[0], -1)
    best[rows[order]] = G.indices[order]
    return best


def _greedy(G: Any, fixed: np.ndarray) -> np.ndarray:
    """Return partners, best pairs first; -1 where all candidates are taken."""
    n = G.shape[0]
    rows = np.repeat(np.arange(n), np.diff(G.indptr))
    order = np.argsort(-G.data, kind="stable")
    p, taken = [-1] * n, [False] * n
    for i, j in fixed.tolist():
        p[i], taken[j] = j, True
    for i, j in zip(rows[order].tolist(), G.indices[order].tolist(), strict=True):
        if p[i] < 0 and not taken[j]:
            p[i], taken[j] = j, True
    return np.array(p, dtype=np.int64)


def _completed(p: np.ndarray, sizes: list[np.ndarray]) -> np.ndarray:
    """Match the remaining nodes in the order of their degrees."""
    rows, columns = np.flatnonzero(p < 0), np.setdiff1d(np.arange(len(p)), p)
    rows = rows[np.argsort(-sizes[0][rows], kind="stable")]
    p = p.copy()
    p[rows] = columns[np.argsort(-sizes[1][columns], kind="stable")]
    return p


def _permitted(p: np.ndarray, loose: np.ndarray, pair: Pair) -> np.ndarray:
    """Replace forbidden pairs by exchanges along paths, preferably through nodes without votes."""
    never: dict[int, list[int]] = {}
    for i, j in pair.forbidden.tolist():
        never.setdefault(i, []).append(j)
    for first in (i for i, columns in never.items() if p[i] in columns):
        owner, end = np.argsort(p), p[first]
        unseen = np.ones(len(p), dtype=bool)
        unseen[pair.fixed[:, 1]] = False
        came_from: dict[int, int] = {}
        queue = [first]
        for row in queue:
            reached = unseen.copy()
            reached[never.get(row, [])] = False
            found = [end] if reached[end] else np.flatnonzero(reached)
            came_from.update(dict.fromkeys(map(int, found), row))
            if reached[end]:
                break
            unseen &= ~reached
            queue += sorted(owner[found].tolist(), key=lambda other: not loose[other])
        else:
            raise ValueError(NO_MATCHING)
        column = int(end)
        while column >= 0:
            row = came_from[column]
            column, p[row] = (-1 if row == first else int(p[row])), column
    return p
