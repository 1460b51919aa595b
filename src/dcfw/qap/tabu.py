"""Robust tabu search for the quadratic assignment problem (Taillard 1991).

Each step makes the best swap that is allowed, even if it raises the objective, and then forbids for a
while that either of the two items returns to the place it has left.  "Robust" is that this while is
random, so that no length has to be tuned.  Two things override the ban: a swap that gives the best value
so far is always allowed, and a swap that puts an item where it has not been for a very long time is
forced, which drives the search into new regions.

All deltas are kept up to date at O(1) a pair, as in :mod:`dcfw.qap.swaps`; so is, for each pair, the
step until which its swap is banned, so that one step is a single sweep over two triangular arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw._compiling import njit
from dcfw.qap.objective import as_permutation, evaluate, matrices
from dcfw.qap.swaps import all_deltas, deadline_after, paced, prepare, swap, update_deltas

REFRESH = 5000
"""Steps after which deltas are computed afresh when they carry rounding errors."""

FORCED_AFTER = 5
"""In units of n^2 steps: how long a place must not have been taken for a swap to be forced."""


def robust_tabu(
    A: Array,
    B: Array,
    p: Array,
    C: Array | None = None,
    *,
    iterations: int,
    rng: Any = None,
    time_limit: float | None = None,
    fixed: int = 0,
    target: float | None = None,
) -> tuple[np.ndarray, int | float, int]:
    """Search for a better permutation by robust tabu search.

    Parameters
    ----------
    A, B : array or SciPy sparse array of shape (n, n)
        The matrices of ``sum_ij A[i, j] B[p(i), p(j)]``; neither need be symmetric.
    p : array of shape (n,)
        The permutation to start from, counted from 0.  It is not written to.
    C : array of shape (n, n), optional
        The linear term ``sum_i C[i, p(i)]``.
    iterations : int
        The number of swaps.
    rng : None, int, SeedSequence or Generator
        The source of the random tabu times.
    time_limit : float, optional
        Seconds after which the best permutation so far is returned.
    fixed : int
        The first ``fixed`` entries of p stay as they are.
    target : float, optional
        Stop as soon as the value is this or lower, for example a known optimum.

    Returns
    -------
    p : ndarray
        The best permutation seen (the start included).
    value : int or float
        Its value, exact for integer data.
    iterations : int
        The number of iterations made.

    References
    ----------
    E. Taillard, Robust taboo search for the quadratic assignment problem, Parallel Computing 17 (1991).

    Examples
    --------
    >>> from dcfw.qap.generators import li_pardalos
    >>> problem = li_pardalos(9, rng=0)
    >>> p, value, _ = robust_tabu(problem.A, problem.B, range(9), iterations=500, rng=0)
    >>> value == problem.best
    True
    """
    deadline = deadline_after(time_limit)
    A, B, C = matrices(A, B, C)
    n = A.shape[0]
    p = as_permutation(p, n, "p")
    iterations = _validate.integer(iterations, "iterations")
    fixed = _validate.integer(fixed, "fixed", high=n)
    goal = -math.inf if target is None else _validate.scalar(target, "target")
    random_state = _validate.generator(rng).integers(1, 2**63, size=1, dtype=np.uint64)
    if n - fixed < 2:
        return p, evaluate(A, B, p, C), 0

    work = prepare(A, B, C, p)
    best_p = p.copy()
    # banned[i, l]: the last step in which item i may not return to place l.  The staggered negative
    # start makes forced swaps come one by one rather than all together.
    banned = -np.arange(n * n, dtype=np.float64).reshape(n, n) - 1
    pair_banned = np.minimum(banned[:, p], banned[:, p].T)
    forced_after = float(FORCED_AFTER * n * n)

    # Values are counted from the start's, in the scale of the work arrays.
    zero = work.A.dtype.type(0)
    start = evaluate(A, B, p, C)
    gain_wanted = -math.inf if goal == -math.inf else (goal - start) * work.scale
    if gain_wanted >= 0:
        return p, start, 0
    current, best = zero, zero
    none = work.A.dtype.type(np.inf if work.A.dtype.kind == "f" else np.iinfo(np.int64).max)
    done = 0
    deltas = None
    for steps in paced(1_000_000 // (n * n), deadline):
        if deltas is None or (not work.exact and done % REFRESH == 0):
            deltas = all_deltas(work, deadline)
            if deltas is None:
                break
            if not work.exact:
                current = work.A.dtype.type((evaluate(A, B, work.p, C) - start) * work.scale)
        until = min(done + steps, iterations)
        if not work.exact:
            until = min(until, done - done % REFRESH + REFRESH)
        done, current, best = _tabu_loop(
            *work[:7], deltas, fixed, banned, pair_banned, forced_after, random_state,
            current, best, best_p, work.tolerance, gain_wanted, done, until, none,
        )  # fmt: skip
        if done >= iterations or best <= gain_wanted:
            break
    value = evaluate(A, B, best_p, C)
    if value > start:  # possible only by rounding
        best_p, value = p, start
    return best_p, value, int(done)


@njit()
def _uniform(state):  # type: ignore[no-untyped-def]
    """Return the next number in [0, 1) of a xorshift generator (Vigna's xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * 2.0**-53


@njit()
def _choose(deltas, pair_banned, before, aspired, fixed, none):  # type: ignore[no-untyped-def]
    """Return the pair of the smallest delta among those that are allowed, and that delta.

    A pair is allowed if its ban ended before step ``before`` or its delta is below ``aspired``.  ``none``
    is a number larger than all deltas, which is returned when no pair is allowed.  The minimum is taken of
    each column first, because that loop is vectorised.
    """
    n = deltas.shape[0]
    lowest = np.full(n, none)
    for u in range(fixed, n - 1):
        row, ban, low = deltas[u, u + 1 :], pair_banned[u, u + 1 :], lowest[u + 1 :]
        for v in range(len(row)):
            step = row[v] if (ban[v] < before) | (row[v] < aspired) else none
            low[v] = step if step < low[v] else low[v]
    s = fixed + 1 + np.argmin(lowest[fixed + 1 :])
    r = fixed
    if lowest[s] < none:
        while not (deltas[r, s] == lowest[s] and (pair_banned[r, s] < before or deltas[r, s] < aspired)):
            r += 1
    return r, s, lowest[s]


@njit()
def _oldest(pair_banned, fixed):  # type: ignore[no-untyped-def]
    """Return the earliest end of a ban."""
    oldest = np.inf
    for u in range(fixed, len(pair_banned) - 1):
        oldest = min(oldest, pair_banned[u, u + 1 :].min())
    return oldest


@njit()
def _tabu_loop(  # type: ignore[no-untyped-def]
    A, At, Bp, Bpt, Cp, p, symmetric, deltas, fixed, banned, pair_banned, forced_after, random_state,
    current, best, best_p, tolerance, gain_wanted, done, until, none,
):  # fmt: skip
    """Make the iterations from ``done`` up to ``until``, or until ``best`` reaches ``gain_wanted``."""
    n = len(p)
    oldest = -np.inf  # a lower bound on the ends of all bans, made exact when it seems to matter
    for now in range(done, until):
        aspired = best - current - tolerance
        r, s, step = _choose(deltas, pair_banned, np.float64(now), aspired, fixed, none)
        if oldest < now - forced_after and not step < aspired:
            oldest = _oldest(pair_banned, fixed)
            if oldest < now - forced_after:
                r, s, step = _choose(deltas, pair_banned, now - forced_after, aspired, fixed, none)
        if step == none:
            continue  # every swap is banned, which happens for tiny n only: wait
        place_r, place_s = p[r], p[s]
        swap(Bp, Bpt, Cp, p, symmetric, r, s)
        update_deltas(A, At, Bp, Bpt, Cp, symmetric, deltas, fixed, r, s)
        current += step
        # Taillard's choice: the ban lasts between 0.9 n and 1.1 n steps.
        banned[r, place_r] = now + np.floor((0.9 + 0.2 * _uniform(random_state)) * n)
        banned[s, place_s] = now + np.floor((0.9 + 0.2 * _uniform(random_state)) * n)
        for k in range(fixed, n):
            for moved in (r, s):
                if k != moved:
                    ban = min(banned[k, p[moved]], banned[moved, p[k]])
                    pair_banned[min(k, moved), max(k, moved)] = ban
                    oldest = min(oldest, ban)
        if current < best - tolerance:
            best = current
            for i in range(len(p)):
                best_p[i] = p[i]
            if best <= gain_wanted:
                return now + 1, current, best
    return until, current, best
