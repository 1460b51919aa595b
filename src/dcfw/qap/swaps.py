"""Local search by swaps (2-opt): exchange the places of two items as long as that helps.

Exchanging p(r) and p(s) changes the value by

    delta(r, s) = sum_k (A[r,k] - A[s,k]) (B'[s,k] - B'[r,k])  +  the same with rows and columns exchanged
                  + (A[r,r] + A[s,s] - A[r,s] - A[s,r]) (B'[r,r] + B'[s,s] - B'[r,s] - B'[s,r])
                  + C'[r,s] + C'[s,r] - C'[r,r] - C'[s,s],

where B'[i,j] = B[p(i),p(j)] and C'[i,j] = C[i,p(j)].  Four observations make the search fast:

- B' and C' are kept, permuted, in memory: every sum runs along contiguous rows, and a swap only exchanges
  two of their rows and columns.
- All deltas at once are S + S^T - diag(S) 1^T - 1 diag(S)^T and the two small terms, with
  S = A^T B' + A B'^T + C': two matrix products instead of n^2 / 2 sums.
- After a swap of r and s, the delta of a pair u, v that it does not touch changes by
  (x_u - x_v) (y_u - y_v) for x = A[r] - A[s] and y = B'[s] - B'[r], and the same for columns (Taillard
  1991): O(1) a pair.  Only the 2 n pairs with r or s are summed anew.
- If A is symmetric, B may be replaced by B + B^T (and conversely): the objective doubles, and rows and
  columns then give the same sums.

Integer data are searched exactly: in float64 as long as every intermediate number is an integer below
2^53 (that is faster than integers, being vectorised), else in int64.  Numbers too large for that, and
data that are not integers, are searched in float64 with a tolerance for rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw._compiling import njit
from dcfw.qap.objective import as_permutation, dense, evaluate, largest, matrices

# NaN never occurs, and sums may be reordered: exact for integers, covered by the tolerance otherwise.
# Infinity is used as a sentinel, so `ninf` must not be claimed.
FASTMATH = {"reassoc", "contract", "nsz", "nnan"}

PAUSE = 0.008
"""Seconds that a compiled loop may run before Python looks at the clock and at Ctrl-C."""


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
        The permutation to start from, counted from 0.  It is not written to.
    C : array of shape (n, n), optional
        The linear term ``sum_i C[i, p(i)]``.
    rng : None, int, SeedSequence or Generator
        The order in which first improvement looks at the pairs; None is their natural order.
        Best improvement has no randomness.
    best_improvement : bool
        Make the best of all swaps in each step (the default: faster, because all deltas are kept up to
        date), or the first improving one found.
    fixed : int
        The first ``fixed`` entries of p stay as they are (seeds of a matching).
    time_limit : float, optional
        Seconds after which the permutation reached so far is returned.

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
    >>> line = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    >>> flow = [[0, 9, 1], [9, 0, 1], [1, 1, 0]]
    >>> p, value, swaps = two_opt(line, flow, [0, 2, 1])
    >>> value, swaps
    (24, 1)
    """
    deadline = deadline_after(time_limit)
    A, B, C = matrices(A, B, C)
    n = A.shape[0]
    p = as_permutation(p, n, "p")
    best_improvement = _validate.flag(best_improvement, "best_improvement")
    fixed = _validate.integer(fixed, "fixed", high=n)
    order = np.arange(n) if rng is None else _validate.generator(rng).permutation(n)
    order = order[order >= fixed].astype(np.int64)
    work = prepare(A, B, C, p)
    if best_improvement:
        swaps = _best(work, fixed, deadline)
    else:
        swaps = _first(work, order, deadline)
    return work.p, evaluate(A, B, work.p, C), swaps


class Work(NamedTuple):
    """A problem laid out for the compiled loops; they write to ``Bp``, ``Bpt``, ``Cp`` and ``p``.

    ``At`` and ``Bpt`` are the transposes, and the same arrays as ``A`` and ``Bp`` when ``symmetric``.
    The numbers are ``scale`` times the original problem's.
    """

    A: np.ndarray
    At: np.ndarray
    Bp: np.ndarray
    Bpt: np.ndarray
    Cp: np.ndarray
    p: np.ndarray
    symmetric: bool
    scale: int
    exact: bool
    tolerance: float


def prepare(A: Array, B: Array, C: Array | None, p: np.ndarray) -> Work:
    """Lay a checked problem out for the compiled loops: dtype, symmetry, permuted copies."""
    A, B = dense(A), dense(B)
    n = len(A)
    integers = all(M.dtype.kind == "i" for M in (A, B, C) if M is not None)
    if integers:
        # Every intermediate number: values (n^2 products), deltas and the products that make them
        # (8 n products), twice for a doubled objective, and a factor 2 to spare.
        products = 4 * (n * n + 8 * n) * largest(A) * largest(B)
        bound = products + (0 if C is None else 16 * n * largest(C))
        kind: Any = np.float64 if bound < 2**53 else np.int64 if bound < 2**63 else None
    else:
        kind = None
    dtype = np.float64 if kind is None else kind
    A, B = A.astype(dtype, order="C"), B.astype(dtype, order="C")
    C = np.zeros((n, n), dtype) if C is None else C.astype(dtype, order="C")
    symmetric_A, symmetric_B = np.array_equal(A, A.T), np.array_equal(B, B.T)
    scale = 1
    if symmetric_A != symmetric_B:
        A, B = (A, B + B.T) if symmetric_A else (A + A.T, B)
        C, scale = 2 * C, 2
    symmetric = symmetric_A or symmetric_B
    tolerance = 0.0
    if kind is None:
        eps = np.finfo(np.float64).eps
        tolerance = float(32 * n * eps * np.abs(A).max() * np.abs(B).max() + 8 * eps * np.abs(C).max())
    Bp = np.ascontiguousarray(B[np.ix_(p, p)])
    return Work(
        A=A,
        At=A if symmetric else np.ascontiguousarray(A.T),
        Bp=Bp,
        Bpt=Bp if symmetric else np.ascontiguousarray(Bp.T),
        Cp=np.ascontiguousarray(C[:, p]),
        p=p.copy(),
        symmetric=symmetric,
        scale=scale,
        exact=kind is not None,
        tolerance=tolerance,
    )


def all_deltas(work: Work, deadline: float = math.inf) -> np.ndarray | None:
    """Return the matrix of delta(r, s), or None if the deadline passes meanwhile.

    The products are made in blocks of rows so that a large problem can be interrupted.
    """
    n = len(work.p)
    S = work.Cp.copy()
    block = max(1, 5 * 10**7 // (n * n))
    for at in range(0, n, block):
        rows = slice(at, at + block)
        product = work.A[rows] @ work.Bpt
        S[rows] += 2 * product if work.symmetric else product + work.At[rows] @ work.Bp
        if time.perf_counter() > deadline:
            return None
    s = np.diagonal(S)
    a, b = np.diagonal(work.A), np.diagonal(work.Bp)
    inner_A = a[:, None] + a[None, :] - work.A - work.At
    inner_B = b[:, None] + b[None, :] - work.Bp - work.Bpt
    return np.asarray(S + S.T - s[:, None] - s[None, :] + inner_A * inner_B)


def paced(first: int, deadline: float = math.inf) -> Iterator[int]:
    """Yield how many steps to make next, so that each portion takes about ``PAUSE`` seconds.

    Ends at the deadline.  ``first`` should be a cautious guess.
    """
    steps = max(1, first)
    while (start := time.perf_counter()) < deadline:
        yield steps
        elapsed = max(time.perf_counter() - start, 1e-7)
        # Grows by at most 4 a time, as the first portion may have been an untypical one.
        steps = max(1, int(steps * min(4.0, PAUSE / elapsed)))


def deadline_after(time_limit: float | None) -> float:
    """Return the moment, on the clock of ``time.perf_counter``, at which ``time_limit`` seconds are over."""
    if time_limit is None:
        return math.inf
    return time.perf_counter() + _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)


def _best(work: Work, fixed: int, deadline: float) -> int:
    """Descend by best swaps; return their number."""
    swaps, n = 0, len(work.p)
    # Updated deltas gather rounding errors, so that inexact ones are computed afresh after n swaps: the
    # errors stay below the tolerance, each swap is a true improvement, and the descent must end.
    before_refresh = np.iinfo(np.int64).max if work.exact else n
    while (deltas := all_deltas(work, deadline)) is not None:
        left = before_refresh
        for steps in paced(1_000_000 // (n * n), deadline):
            made, done = _best_loop(*work[:7], deltas, fixed, work.tolerance, min(steps, left))
            swaps += made
            left -= made
            if done or not left:
                break
        if left == before_refresh or (work.exact and done):
            break
    return swaps


def _first(work: Work, order: np.ndarray, deadline: float) -> int:
    """Descend by the first improving swap in cyclic order of the pairs; return their number."""
    swaps, position = 0, np.zeros(3, dtype=np.int64)
    for steps in paced(1_000_000 // len(work.p), deadline):
        made, done = _first_loop(*work[:7], order, position, work.tolerance, steps)
        swaps += made
        if done:
            break
    return swaps


def descend_in_order(A: Array, B: Array, p: np.ndarray, fixed: int = 0) -> tuple[np.ndarray, int]:
    """Descend by the first improving swap, searched from the first pair on after each swap, as SciPy does.

    Returns the permutation and the number of pairs looked at (those of an entry with itself too, as SciPy
    counts them).  Because all deltas are kept up to date, looking costs next to nothing.
    """
    A, B, _ = matrices(A, B)
    work = prepare(A, B, None, as_permutation(p, A.shape[0], "p"))
    seen, n = 0, len(work.p)
    before_refresh = np.iinfo(np.int64).max if work.exact else n  # as in _best
    done = False
    while not done:
        deltas = all_deltas(work)
        assert deltas is not None
        left, swaps = before_refresh, 0
        for steps in paced(1_000_000 // (n * n)):
            made, looked, done = _in_order_loop(*work[:7], deltas, fixed, work.tolerance, min(steps, left))
            seen += looked
            swaps += made
            left -= made
            if done or not left:
                break
        if done and swaps and not work.exact:
            # The last search, which found nothing, is made again with fresh deltas.
            done = False
            seen -= (n - fixed) * (n - fixed + 1) // 2
    return work.p, seen


@njit(fastmath=FASTMATH)
def delta(A, At, Bp, Bpt, Cp, symmetric, r, s):  # type: ignore[no-untyped-def]
    """Return delta(r, s), in O(n)."""
    a, a_s, b, b_s = A[r], A[s], Bp[r], Bp[s]
    total = a[0] - a[0]  # a zero of the right type
    for k in range(len(a)):
        total += (a[k] - a_s[k]) * (b_s[k] - b[k])
    if symmetric:
        total += total
    else:
        a, a_s, b, b_s = At[r], At[s], Bpt[r], Bpt[s]
        for k in range(len(a)):
            total += (a[k] - a_s[k]) * (b_s[k] - b[k])
    return total + _small_terms(A, Bp, Cp, r, s)


@njit(fastmath=FASTMATH)
def _small_terms(A, Bp, Cp, r, s):  # type: ignore[no-untyped-def]
    """Return the part of delta(r, s) that is not a sum: the pairs inside {r, s} and the linear term."""
    a = A[r, r] + A[s, s] - A[r, s] - A[s, r]
    b = Bp[r, r] + Bp[s, s] - Bp[r, s] - Bp[s, r]
    return a * b + Cp[r, s] + Cp[s, r] - Cp[r, r] - Cp[s, s]


@njit()
def _exchange(M, r, s, rows):  # type: ignore[no-untyped-def]
    """Exchange columns r and s of M, and rows r and s too if asked."""
    n = M.shape[0]
    if rows:
        for k in range(n):
            M[r, k], M[s, k] = M[s, k], M[r, k]
    for k in range(n):
        M[k, r], M[k, s] = M[k, s], M[k, r]


@njit()
def swap(Bp, Bpt, Cp, p, symmetric, r, s):  # type: ignore[no-untyped-def]
    """Exchange p(r) and p(s) and bring the permuted matrices up to date."""
    p[r], p[s] = p[s], p[r]
    _exchange(Bp, r, s, True)
    if not symmetric:  # else Bpt is Bp itself
        _exchange(Bpt, r, s, True)
    _exchange(Cp, r, s, False)


@njit(fastmath=FASTMATH)
def update_deltas(A, At, Bp, Bpt, Cp, symmetric, deltas, fixed, r, s):  # type: ignore[no-untyped-def]
    """Bring the upper triangle of the deltas up to date after a swap of r and s has been made.

    The inner loops run over slices from 0: a loop that starts at u + 1 is not vectorised, because it
    might start at a negative index, which Python counts from the end.
    """
    n = A.shape[0]
    x, y = A[r] - A[s], Bp[s] - Bp[r]
    if symmetric:
        x *= 2
        for u in range(fixed, n):
            row, x_v, y_v = deltas[u, u + 1 :], x[u + 1 :], y[u + 1 :]
            for v in range(len(row)):
                row[v] += (x[u] - x_v[v]) * (y[u] - y_v[v])
    else:
        xt, yt = At[r] - At[s], Bpt[s] - Bpt[r]
        for u in range(fixed, n):
            row, x_v, y_v = deltas[u, u + 1 :], x[u + 1 :], y[u + 1 :]
            xt_v, yt_v = xt[u + 1 :], yt[u + 1 :]
            for v in range(len(row)):
                row[v] += (x[u] - x_v[v]) * (y[u] - y_v[v]) + (xt[u] - xt_v[v]) * (yt[u] - yt_v[v])

    # The formula does not hold for pairs with r or s: what it wrote there is replaced.  Both sums of an
    # item u run in one loop, because loading its rows is what takes the time.
    zero = x[0] - x[0]
    a_r, a_s, b_r, b_s = A[r], A[s], Bp[r], Bp[s]
    at_r, at_s, bt_r, bt_s = At[r], At[s], Bpt[r], Bpt[s]
    for u in range(fixed, n):
        to_r, to_s = zero, zero
        a, b = A[u], Bp[u]
        for k in range(n):
            to_r += (a_r[k] - a[k]) * (b[k] - b_r[k])
            to_s += (a_s[k] - a[k]) * (b[k] - b_s[k])
        if symmetric:
            to_r += to_r
            to_s += to_s
        else:
            a, b = At[u], Bpt[u]
            for k in range(n):
                to_r += (at_r[k] - a[k]) * (b[k] - bt_r[k])
                to_s += (at_s[k] - a[k]) * (b[k] - bt_s[k])
        if u != r:
            deltas[min(u, r), max(u, r)] = to_r + _small_terms(A, Bp, Cp, u, r)
        if u != s:
            deltas[min(u, s), max(u, s)] = to_s + _small_terms(A, Bp, Cp, u, s)


@njit()
def _smallest(deltas, fixed):  # type: ignore[no-untyped-def]
    """Return the pair of the smallest delta and that delta.

    The minimum is taken of each column first: that loop is vectorised, a search in one go is not.
    """
    n = deltas.shape[0]
    lowest = deltas[fixed].copy()
    for u in range(fixed + 1, n):
        row, low = deltas[u, u + 1 :], lowest[u + 1 :]
        for v in range(len(row)):
            low[v] = row[v] if row[v] < low[v] else low[v]
    s = fixed + 1 + np.argmin(lowest[fixed + 1 :])
    r = fixed
    while deltas[r, s] != lowest[s]:
        r += 1
    return r, s, lowest[s]


@njit()
def _best_loop(A, At, Bp, Bpt, Cp, p, symmetric, deltas, fixed, tolerance, steps):  # type: ignore[no-untyped-def]
    """Make at most ``steps`` best swaps; return their number and whether no improving one is left."""
    if A.shape[0] - fixed < 2:
        return 0, True
    for made in range(steps):
        r, s, lowest = _smallest(deltas, fixed)
        if not lowest < -tolerance:
            return made, True
        swap(Bp, Bpt, Cp, p, symmetric, r, s)
        update_deltas(A, At, Bp, Bpt, Cp, symmetric, deltas, fixed, r, s)
    return steps, False


@njit()
def _in_order_loop(A, At, Bp, Bpt, Cp, p, symmetric, deltas, fixed, tolerance, steps):  # type: ignore[no-untyped-def]
    """Make at most ``steps`` swaps; return their number, the pairs looked at, and whether none is left."""
    m = A.shape[0] - fixed
    looked = 0
    for made in range(steps):
        r, s = -1, -1
        for u in range(fixed, A.shape[0]):
            for v in range(u + 1, A.shape[0]):
                if deltas[u, v] < -tolerance:
                    r, s = u, v
                    break
            if r >= 0:
                break
        if r < 0:
            return made, looked + m * (m + 1) // 2, True
        before = r - fixed
        looked += before * m - before * (before - 1) // 2 + s - r + 1
        swap(Bp, Bpt, Cp, p, symmetric, r, s)
        update_deltas(A, At, Bp, Bpt, Cp, symmetric, deltas, fixed, r, s)
    return steps, looked, False


@njit()
def _first_loop(A, At, Bp, Bpt, Cp, p, symmetric, order, position, tolerance, steps):  # type: ignore[no-untyped-def]
    """Look at ``steps`` pairs in cyclic order, swapping where that helps.

    ``position`` (i, j, pairs seen since the last swap) carries the place over to the next call.
    """
    m = len(order)
    pairs = m * (m - 1) // 2
    i, j, idle = position
    made = 0
    for _ in range(steps):
        if idle >= pairs:
            return made, True
        j += 1
        if j >= m:
            i = i + 1 if i + 2 < m else 0
            j = i + 1
        idle += 1
        r, s = order[i], order[j]
        if delta(A, At, Bp, Bpt, Cp, symmetric, r, s) < -tolerance:
            swap(Bp, Bpt, Cp, p, symmetric, r, s)
            made += 1
            idle = 0
    position[0], position[1], position[2] = i, j, idle
    return made, idle >= pairs
