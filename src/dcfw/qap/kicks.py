"""Iterated swap descent: disturb the incumbent a little, descend again, keep what is not worse.

A permutation that no single swap improves is often a few swaps away from a better one.  A *kick* moves the
items of a few random places around in a cycle, the descent repairs what that broke, and the result replaces
the incumbent unless it is worse.  The matrix of all swap deltas is brought up to date through kick and
descent alike, so that one round costs O(n^2) per swap and nothing is computed afresh.

This is what fills the time between two relaxations in ``qap.solve(..., restarts="auto", polish="2opt")``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw._compiling import njit
from dcfw.qap.objective import as_permutation, evaluate, matrices
from dcfw.qap.swaps import (
    _best_loop,
    _smallest,
    all_deltas,
    deadline_after,
    delta,
    paced,
    prepare,
    update_deltas,
)
from dcfw.qap.swaps import swap as make_swap
from dcfw.qap.tabu import _uniform

REFRESH = 200
"""Rounds after which deltas are computed afresh when they carry rounding errors."""


def iterated_two_opt(
    A: Array,
    B: Array,
    p: Array,
    C: Array | None = None,
    *,
    rounds: int,
    rng: Any = None,
    time_limit: float | None = None,
    share: tuple[float, float] = (0.1, 0.5),
) -> tuple[np.ndarray, int | float, int]:
    """Improve a permutation by kicks and swap descents.

    Parameters
    ----------
    A, B, p, C
        As in :func:`dcfw.qap.two_opt`.
    rounds : int
        How many kicks.
    rng : None, int, SeedSequence or Generator
    time_limit : float, optional
        Seconds after which the best permutation so far is returned.
    share : pair of floats
        The least and the largest share of the places that a kick moves.

    Returns
    -------
    p, value, rounds
        The best permutation, its value (exact for integer data), the number of kicks made.

    Examples
    --------
    >>> from dcfw.qap.generators import li_pardalos
    >>> problem = li_pardalos(12, rng=0)
    >>> p, value, _ = iterated_two_opt(problem.A, problem.B, range(12), rounds=300, rng=0)
    >>> value == problem.best
    True
    """
    deadline = deadline_after(time_limit)
    A, B, C = matrices(A, B, C)
    n = A.shape[0]
    p = as_permutation(p, n, "p")
    rounds = _validate.integer(rounds, "rounds")
    state = _validate.generator(rng).integers(1, 2**63, size=1, dtype=np.uint64)
    if n < 3:
        from dcfw.qap.swaps import two_opt

        p, value, _ = two_opt(A, B, p, C)
        return p, value, 0
    low = min(max(3, int(share[0] * n)), n)
    high = min(max(low + 1, int(share[1] * n)), n)
    work = prepare(A, B, C, p)
    saved = tuple(M.copy() for M in (work.Bp, work.Bpt, work.Cp, work.p))
    order = np.arange(n)
    done, deltas, kept = 0, None, None
    start = evaluate(A, B, p, C)
    for count in paced(1_000_000 // (n * n * n) + 1, deadline):
        if deltas is None or (not work.exact and done % REFRESH == 0):
            deltas = all_deltas(work, deadline)
            if deltas is None:
                break
            kept = deltas.copy()
            _best_loop(*work[:7], deltas, 0, work.tolerance, 10 * n)
        until = min(done + count, rounds)
        if not work.exact:
            until = min(until, done - done % REFRESH + REFRESH)
        _kick_loop(*work[:7], deltas, *saved, kept, order, state, work.tolerance, low, high, until - done)
        done = until
        if done >= rounds:
            break
    value = evaluate(A, B, work.p, C)
    return (work.p, value, done) if value <= start else (p, start, done)


@njit()
def _copy(Bp, Bpt, Cp, p, deltas, Bp0, Bpt0, Cp0, p0, deltas0, symmetric):  # type: ignore[no-untyped-def]
    n = len(p)  # loops are compiled in a fraction of the time that assignments of whole arrays take
    for i in range(n):
        p0[i] = p[i]
        for j in range(n):
            Bp0[i, j] = Bp[i, j]
            Cp0[i, j] = Cp[i, j]
            deltas0[i, j] = deltas[i, j]
            if not symmetric:
                Bpt0[i, j] = Bpt[i, j]


@njit()
def _kick_loop(  # type: ignore[no-untyped-def]
    A, At, Bp, Bpt, Cp, p, symmetric, deltas,
    Bp0, Bpt0, Cp0, p0, deltas0, order, state, tolerance, low, high, rounds,
):  # fmt: skip
    """Make kicks, each followed by a descent; what is worse than before is undone."""
    n = len(p)
    for _ in range(rounds):
        _copy(Bp, Bpt, Cp, p, deltas, Bp0, Bpt0, Cp0, p0, deltas0, symmetric)
        change = deltas[0, 0] - deltas[0, 0]
        m = low + int(_uniform(state) * (high - low + 1))
        for k in range(m):
            other = k + int(_uniform(state) * (n - k))
            order[k], order[other] = order[other], order[k]
            if k > 0:
                r, s = order[0], order[k]
                change += delta(A, At, Bp, Bpt, Cp, symmetric, r, s)
                make_swap(Bp, Bpt, Cp, p, symmetric, r, s)
                update_deltas(A, At, Bp, Bpt, Cp, symmetric, deltas, 0, r, s)
        for _descent in range(20 * n):
            r, s, lowest = _smallest(deltas, 0)
            if not lowest < -tolerance:
                break
            change += lowest
            make_swap(Bp, Bpt, Cp, p, symmetric, r, s)
            update_deltas(A, At, Bp, Bpt, Cp, symmetric, deltas, 0, r, s)
        if change > tolerance:
            _copy(Bp0, Bpt0, Cp0, p0, deltas0, Bp, Bpt, Cp, p, deltas, symmetric)
