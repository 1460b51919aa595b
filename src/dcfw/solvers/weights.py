"""Pairwise steps in the space of weights, without waiting for a compiler.

:mod:`dcfw.solvers.gram` has these steps compiled, a hundred times faster; but loading numba takes a second,
in which most small problems are solved ten times over.  So a solve begins with the same steps in NumPy, which
give the same numbers to the last bit, and turns to the compiled ones when there are many of them (or when
numba is there already).
"""

from __future__ import annotations

import sys

import numpy as np

TIE = 1e-9
"""Scores that differ by this fraction of their range count as equal, and then the first is taken.

An exact step between two atoms leaves both with one score: rounding must not decide which of them the next
step takes, or the way would be another on every processor.
"""

PATIENCE = 3000
"""After so many steps in NumPy, which take some 30 ms, numba is loaded."""

Outcome = tuple[int, float, bool]


def pairwise_steps(
    M: np.ndarray,
    w: np.ndarray,
    scores: np.ndarray,
    m: int,
    aim: float,
    limit: int,
    slack: float,
    taken: int = 0,
) -> Outcome:
    """Do what :func:`dcfw.solvers.gram.pairwise_steps` does; ``taken`` steps have been made before.

    Examples
    --------
    >>> w, scores = np.array([1.0, 0.0]), np.array([1.0, -1.0])
    >>> pairwise_steps(np.eye(2), w, scores, 2, 1e-9, 10, 0.0)
    (1, 1.0, True)
    >>> w
    array([0., 1.])
    """
    if "numba" in sys.modules or taken >= PATIENCE:
        from dcfw.solvers import gram

        return gram.pairwise_steps(M, w, scores, m, aim, limit, slack)  # type: ignore[no-any-return]
    return in_numpy(M, w, scores, m, aim, limit, slack)


def in_numpy(
    M: np.ndarray, w: np.ndarray, scores: np.ndarray, m: int, aim: float, limit: int, slack: float
) -> Outcome:
    """The steps in NumPy."""
    M, w, scores = M[:m, :m], w[:m], scores[:m]
    gained = 0.0
    for count in range(limit):
        a, s, apart = extremes(scores, w)
        if not aim < apart < np.inf:
            return count, gained, True
        gap = float(scores[a] - scores[s])
        curvature = float(M[s, s] - 2.0 * M[s, a] + M[a, a])
        if curvature < -slack:
            return count, gained, False
        step = float(w[a])
        if curvature > 0.0 and gap < curvature * step:
            step = gap / curvature
            w[a] -= step
            gained += 0.5 * step * gap
        else:
            w[a] = 0.0
            gained += step * (gap - 0.5 * step * max(curvature, 0.0))
        w[s] += step
        scores += step * (M[s] - M[a])
    return limit, gained, True


def extremes(scores: np.ndarray, w: np.ndarray) -> tuple[int, int, float]:
    """Return the worst atom in use, the best atom, and by how much the scores of such atoms differ.

    Examples
    --------
    >>> extremes(np.array([2.0, 2.0 + 1e-12, 0.0, 9.0]), np.array([0.5, 0.5, 0.0, 0.0]))
    (0, 2, 2.000000000001)
    """
    used = np.where(w > 0.0, scores, -np.inf)
    least, most = float(scores.min()), float(used.max())
    close = TIE * (most - least) if most - least < np.inf else 0.0
    return int(np.argmax(used >= most - close)), int(np.argmax(scores <= least + close)), most - least
