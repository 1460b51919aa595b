"""The graduated path of :mod:`dcfw.qap.graduated` for graphs, with seeds as part of every product.

With X the matching of *all* nodes, seeds fixed, the convex end is 1/2 ||A X - X B||^2 of the whole graphs, so
that edges between seeds and free nodes are compared (with the linear term of ``qap.solve`` correct seeds made
matchings worse).  Directed graphs use the mean of the forms with A, B and their transposes.

``kernels/native/graph_path.hpp`` stores two m x m gradients in float32 and the costs of the assignment
problem, 12 m^2 bytes for m free nodes, and multiplies no dense matrices.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dcfw import kernels
from dcfw.qap.graduated import PathEnd
from dcfw.qap.objective import symmetric
from dcfw.qap.problem import padded


class Effort(NamedTuple):
    """Steps on the convex end, values of theta, steps at each, and the relative gap that ends a stage."""

    first: int
    stages: int
    steps: int
    tolerance: float


THOROUGH, BRISK = Effort(100, 60, 6, 0.05), Effort(60, 30, 4, 0.1)
# About five times the work of the thorough path: nearly symmetric graphs need an accurate convex end.
PATIENT = Effort(1000, 100, 10, 0.005)
SMALL = 400  # free nodes, up to which the thorough path takes a fraction of a second
NO_MATCHING = "forbidden leaves no matching: some nodes have too few partners that are allowed"
SPREAD = 0.1  # the share of a random permutation in the start of a further path


@dataclass(frozen=True)
class Pair:
    A: list[Any]
    B: list[Any]
    C: Any
    fixed: np.ndarray
    forbidden: np.ndarray

    @property
    def n(self) -> int:
        return max(int(self.A[0].shape[0]), int(self.B[0].shape[0]))


class Paths:
    def __init__(self, pair: Pair) -> None:
        n = pair.n
        i, j = pair.fixed.T
        self.rows = np.concatenate([np.setdiff1d(np.arange(n), i), i])
        self.columns = np.concatenate([np.setdiff1d(np.arange(n), j), j])
        self.n, self.m = n, n - len(pair.fixed)
        A, B = [floats(M, n) for M in pair.A], [floats(M, n) for M in pair.B]
        a, b = typical(A), typical(B)
        A = [M[self.rows][:, self.rows] * (1.0 / a) for M in A]
        B = [M[self.columns][:, self.columns] * (1.0 / b) for M in B]
        U, V = csr_array((n, n)), csr_array((n, n))
        products = []
        for M, N in zip(A, B, strict=True):
            if symmetric(M) and symmetric(N):
                products.append((-2.0 * M, N))
                U, V = U + M @ M, V + N @ N
            else:
                products += [(-M, N.T.tocsr()), (-M.T.tocsr(), N)]
                U, V = U + 0.5 * (M.T @ M + M @ M.T), V + 0.5 * (N @ N.T + N.T @ N)
        linear = forbidden = None
        free = self.rows[: self.m], self.columns[: self.m]
        if pair.C is not None:
            linear = floats(pair.C, n)[free[0]][:, free[1]] * (-1.0 / (a * b))
        if len(pair.forbidden):
            ones = csr_array((np.ones(len(pair.forbidden)), tuple(pair.forbidden.T)), shape=(n, n))
            forbidden = ones[free[0]][:, free[1]]
        others: list[Any] = [U, V, linear, forbidden]
        if kernels.native is not None:
            products = [(packed_csr(L), packed_csr(N)) for L, N in products]
            others = [None if M is None else packed_csr(M) for M in others]
        path = kernels.implementation("numpy_graphs").GraphPath
        self.kernel: Any = path(self.n, self.m, products, *others)

    def follow(
        self, rng: np.random.Generator | None, effort: Effort | None, deadline: float | None
    ) -> PathEnd:
        """Follow a path from the barycentre, or (with a generator) from a point near it."""
        chosen = effort or (THOROUGH if self.m <= SMALL else BRISK)
        thetas = np.linspace(1.0, -1.0, chosen.stages).tolist()
        start = np.arange(self.m) if rng is None else rng.permutation(self.m)
        left = math.inf if deadline is None else max(deadline - time.perf_counter(), 0.0)
        p, n_lmo, n_inner, stages, cut = self.kernel.follow(
            thetas, chosen.first, chosen.steps, chosen.tolerance, 0.0 if rng is None else SPREAD, start, left
        )
        if len(p) == 0:
            raise ValueError(NO_MATCHING)
        whole = np.empty(self.n, dtype=np.int64)
        whole[self.rows[: self.m]] = self.columns[p]
        whole[self.rows[self.m :]] = self.columns[self.m :]
        return PathEnd(whole, int(n_lmo), int(n_inner), int(stages), bool(cut))


def floats(M: Any, n: int) -> Any:
    return csr_array(padded(M, n), dtype=np.float64)


def typical(layers: list[Any]) -> float:
    """Return the root mean square of the edges' weights."""
    count = sum(M.nnz for M in layers)
    total = sum(float(np.sum(M.data**2)) for M in layers)
    return math.sqrt(total / count) if total > 0.0 else 1.0


def packed_csr(M: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    M = csr_array(M)
    M.sum_duplicates()
    M.sort_indices()
    return M.indptr.astype(np.int64), M.indices.astype(np.int32), M.data.astype(np.float32)
