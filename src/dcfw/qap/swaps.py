"""Local search by swaps (2-opt): exchange the places of two items while that helps.

Exchanging p(r) and p(s) changes the value by

    delta(r, s) = sum_k (A[r,k] - A[s,k]) (B'[s,k] - B'[r,k])  +  the same with rows and columns exchanged
                  + (A[r,r] + A[s,s] - A[r,s] - A[s,r]) (B'[r,r] + B'[s,s] - B'[r,s] - B'[s,r])
                  + C'[r,s] + C'[s,r] - C'[r,r] - C'[s,s],

where B'[i,j] = B[p(i),p(j)] and C'[i,j] = C[i,p(j)].  The compiled searches keep all deltas up to date in
O(1) a pair (``kernels/native/swap_deltas.hpp``), in a type in which integer data are exact
(:mod:`dcfw.kernels.swaps`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.kernels.swaps import layout
from dcfw.qap.objective import as_permutation, dense, matrices, value
from dcfw.solvers import interrupts

PAUSE = 0.008  # seconds until a compiled loop returns, to check the clock and Ctrl-C


def two_opt(
    A: Array,
    B: Array,
    p: Array,
    C: Array | None = None,
    *,
    rng: Any = None,
    best_improvement: bool = True,
    fixed: int = 0,
    time_limit: float | None = None,
) -> tuple[np.ndarray, int | float, int]:
    """Improve a permutation by swaps until no swap of two entries lowers the objective.

    Parameters
    ----------
    A, B : array or SciPy sparse array of shape (n, n)
        The matrices of ``sum_ij A[i, j] B[p(i), p(j)]``; neither need be symmetric.
    p : array of shape (n,)
        The permutation to start from, counted from 0.
    C : array of shape (n, n), optional
        The linear term ``sum_i C[i, p(i)]``.
    rng : None, int, SeedSequence or Generator
        The order of the pairs for first improvement; None is their natural order.
    best_improvement : bool
        Make the best of all swaps in each step (faster, because all deltas are kept up to date), or the first
        improving one.
    fixed : int
        The number of leading entries of p that do not change (seeds of a matching).
    time_limit : float, optional
        Seconds after which the current permutation is returned.

    Returns
    -------
    p : ndarray
        The improved permutation.
    value : int or float
        Its value, exact for integer data.
    swaps : int
        The number of swaps made.

    Examples
    --------
    >>> line, flow = [[0, 1, 2], [1, 0, 1], [2, 1, 0]], [[0, 9, 1], [9, 0, 1], [1, 1, 0]]
    >>> two_opt(line, flow, [0, 2, 1])[1:]
    (24, 1)
    """
    deadline = deadline_after(time_limit)
    A, B, C = matrices(A, B, C)
    n = A.shape[0]
    p = as_permutation(p, n, "p")
    best_improvement = _validate.flag(best_improvement, "best_improvement")
    fixed = _validate.integer(fixed, "fixed", high=n)
    order = np.arange(n) if rng is None else _validate.generator(rng).permutation(n)
    if best_improvement:
        p, swaps = _descended(A, B, p, C, fixed, deadline)
    else:
        search = layout(dense(A), dense(B), C).first_descent(p, order[order >= fixed], fixed)
        swaps = paced(lambda count: search.run(count, True), deadline, 1_000_000 // (n * n))
        p = search.p
    return p, value(A, B, p, C), swaps


def _descended(
    A: Array, B: Array, p: np.ndarray, C: Array | None, fixed: int, deadline: float
) -> tuple[np.ndarray, int]:
    """Return the permutation after the best swaps until none helps, and their number; for checked data."""
    search = layout(dense(A), dense(B), C).descent(p, fixed)
    swaps = paced(search.run, deadline, 1_000_000 // len(p) ** 2)
    return np.asarray(search.p), swaps


def descend_in_order(A: Array, B: Array, p: np.ndarray, fixed: int = 0) -> tuple[np.ndarray, int]:
    """Descend by the first improving swap as SciPy does, from the first pair on after each; return the
    permutation and the number of examined pairs, including those of an entry with itself."""
    A, B, _ = matrices(A, B)
    n = A.shape[0]
    p = as_permutation(p, n, "p")
    search = layout(dense(A), dense(B)).first_descent(p, np.arange(fixed, n), fixed)
    paced(lambda count: search.run(count, False), math.inf, 1_000_000 // (n * n))
    return search.p, int(search.looked)


def polished(
    A: Array, B: Array, p: np.ndarray, C: Array | None, tabu: Callable[[], np.random.Generator] | None,
    deadline: float | None, fixed: int = 0,
) -> np.ndarray:  # fmt: skip
    """Return p after swaps until none helps, and a short tabu search if its generator is given.

    The data are checked; C may hold products of their entries, of any size.
    """
    end = math.inf if deadline is None else deadline
    p, _ = _descended(A, B, p, C, fixed, end)
    if tabu is not None:
        from dcfw.qap.tabu import tabu_search

        p = tabu_search(A, B, p, C, iterations=50 * len(p), rng=tabu(), fixed=fixed, deadline=end)[0]
    return p


def is_over(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() >= deadline


def paced(run: Callable[[int], int], deadline: float, first: int) -> int:
    """Call ``run(count)``, first for ``first`` steps, then in portions of ``PAUSE`` seconds, to the deadline,
    to Ctrl-C, or until it makes fewer steps; return the sum of the steps."""
    count, total = max(1, first), 0
    while (start := time.perf_counter()) < deadline and not interrupts.pending():
        made = run(count)
        total += made
        if made < count:
            break
        elapsed = max(time.perf_counter() - start, 1e-7)
        count = max(1, int(count * min(4.0, PAUSE / elapsed)))  # the first portion may be untypical
    return total


def deadline_after(time_limit: float | None) -> float:
    if time_limit is None:
        return math.inf
    return time.perf_counter() + _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
