"""Robust tabu search for the quadratic assignment problem.

Each step makes the best allowed swap, even if it increases the objective, and then forbids both items to
return to their old places for a random number of steps.  Two rules override the ban: a swap that gives the
best value so far is always allowed, and a swap that puts an item where it has not been for very long is
forced.  The loop is in ``kernels/native/tabu_search.hpp``.

E. Taillard, "Robust taboo search for the quadratic assignment problem", Parallel Computing 17 (1991).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.kernels.swaps import layout
from dcfw.qap.objective import as_permutation, dense, matrices, value
from dcfw.qap.swaps import deadline_after, paced


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
    A, B, p, C, fixed
        As in :func:`dcfw.qap.two_opt`.
    iterations : int
        The number of swaps.
    rng : None, int, SeedSequence or Generator
        The source of the random tabu times.
    time_limit : float, optional
        Seconds after which the best permutation so far is returned.
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
    rng = _validate.generator(rng)
    return tabu_search(A, B, p, C, iterations=iterations, rng=rng, deadline=deadline, fixed=fixed, goal=goal)


def tabu_search(
    A: Array, B: Array, p: np.ndarray, C: Array | None, *, iterations: int, rng: np.random.Generator,
    deadline: float, fixed: int = 0, goal: float = -math.inf,
) -> tuple[np.ndarray, int | float, int]:  # fmt: skip
    """Return :func:`robust_tabu` of checked data."""
    n = len(p)
    seed = int(rng.integers(1, 2**63))
    start = value(A, B, p, C)
    if n - fixed < 2 or start <= goal:
        return p, start, 0
    ready = layout(dense(A), dense(B), C)
    search = ready.tabu(p, seed, fixed=fixed)
    limit = ready.goal(goal)

    def run(count: int) -> int:
        before = search.steps
        search.run(min(count, iterations - before), limit)
        return int(search.steps - before) if search.steps < iterations else -1

    paced(run, deadline, 1_000_000 // (n * n))
    found = value(A, B, search.best_p, C)
    if found > start:  # by rounding
        return p, start, int(search.steps)
    return np.asarray(search.best_p), found, int(search.steps)
