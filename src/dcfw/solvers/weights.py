"""Pairwise steps in the space of weights.

With atoms a_1, ..., a_m, weights w on the simplex and an affine gradient (Hessian H), everything about steps
that move weight between the atoms is in the matrix M_ij = <H a_i, a_j> and the slopes
scores_j = <grad m(x), a_j>: moving t from atom a to atom s changes scores_j by t (M_sj - M_aj), and the
curvature of that move is M_ss - 2 M_sa + M_aa.  One constant added to all of M changes nothing.

The steps are compiled (``kernels/native/gram.hpp``); without the extension they are made in NumPy, with the
same numbers to the last bit.
"""

from __future__ import annotations

import numpy as np

from dcfw import kernels

TIE = 1e-9
"""Scores that differ by this fraction of their range count as equal, and then the first is taken.

An exact step between two atoms leaves both with one score: rounding must not decide which of them the next
step takes, or the way would be another on every processor.
"""

Outcome = tuple[int, float, bool]


def pairwise_steps(
    M: np.ndarray, w: np.ndarray, scores: np.ndarray, m: int, aim: float, limit: int, slack: float
) -> Outcome:
    """Move weight from the worst atom in use to the best atom until their scores differ by at most aim.

    Each step is an exact line search; one that takes all the weight of an atom leaves it at exactly 0.
    ``w`` and ``scores`` are written to.  Returns the number of steps, at most ``limit``, what they gained (a
    sum of positive numbers), and whether every curvature was at least ``-slack``, as that of a convex
    function is up to rounding; one that was not ends the loop.

    >>> w, scores = np.array([1.0, 0.0]), np.array([1.0, -1.0])
    >>> pairwise_steps(np.eye(2), w, scores, 2, 1e-9, 10, 0.0)
    (1, 1.0, True)
    >>> w
    array([0., 1.])
    """
    if kernels.native is None:
        return in_numpy(M, w, scores, m, aim, limit, slack)
    return kernels.native.pairwise_steps(M, w, scores, m, aim, limit, slack)  # type: ignore[no-any-return]


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

    >>> extremes(np.array([2.0, 2.0 + 1e-12, 0.0, 9.0]), np.array([0.5, 0.5, 0.0, 0.0]))
    (0, 2, 2.000000000001)
    """
    used = np.where(w > 0.0, scores, -np.inf)
    least, most = float(scores.min()), float(used.max())
    close = TIE * (most - least) if most - least < np.inf else 0.0
    return int(np.argmax(used >= most - close)), int(np.argmax(scores <= least + close)), most - least
