"""Pairwise steps in the space of weights.

With atoms a_1, ..., a_m, weights w on the simplex and an affine gradient (Hessian H), everything about steps
that move weight between the atoms is in the matrix M_ij = <H a_i, a_j> and the slopes
scores_j = <grad m(x), a_j>: moving t from atom a to atom s changes scores_j by t (M_sj - M_aj), and the
curvature of that move is M_ss - 2 M_sa + M_aa.  One constant added to all of M changes nothing.
"""

from __future__ import annotations

import numpy as np

from dcfw._compiling import njit
from dcfw.solvers.weights import TIE


@njit()
def pairwise_steps(M, w, scores, m, aim, limit, slack):  # type: ignore[no-untyped-def]
    """Move weight from the worst atom in use to the best atom until their scores differ by at most aim.

    Each step is an exact line search; one that takes all the weight of an atom leaves it at exactly 0.
    ``w`` and ``scores`` are written to.  Returns the number of steps, at most ``limit``, what they gained (a
    sum of positive numbers), and whether every curvature was at least ``-slack``, as that of a convex
    function is up to rounding; one that was not ends the loop.

    Of scores that count as equal (``TIE``) the first is taken.
    """
    gained = 0.0
    for count in range(limit):
        least, most = np.inf, -np.inf
        for j in range(m):
            if scores[j] < least:
                least = scores[j]
            if w[j] > 0.0 and scores[j] > most:
                most = scores[j]
        if not aim < most - least < np.inf:
            return count, gained, True
        close = TIE * (most - least)
        s, a = -1, -1
        for j in range(m):
            if s < 0 and scores[j] <= least + close:
                s = j
            if a < 0 and w[j] > 0.0 and scores[j] >= most - close:
                a = j
        gap = scores[a] - scores[s]
        curvature = M[s, s] - 2.0 * M[s, a] + M[a, a]
        if curvature < -slack:
            return count, gained, False
        step = w[a]
        if curvature > 0.0 and gap < curvature * step:
            step = gap / curvature
            w[a] -= step
            gained += 0.5 * step * gap
        else:
            w[a] = 0.0
            gained += step * (gap - 0.5 * step * max(curvature, 0.0))
        w[s] += step
        for j in range(m):
            scores[j] += step * (M[s, j] - M[a, j])
    return limit, gained, True
