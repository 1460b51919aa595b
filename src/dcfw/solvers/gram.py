"""Pairwise steps in the space of weights.

With atoms a_1, ..., a_m, weights w on the simplex and an affine gradient, everything about
m(w) = f(sum w_i a_i) - <u, sum w_i a_i> is in the matrix M_ij = <grad f(a_i), a_j> and the slopes
scores_j = <grad m(x), a_j>: moving weight from atom a to atom s changes the scores by multiples of M_sj - M_aj,
and the curvature of that move is M_ss - M_sa - M_as + M_aa.
"""

from __future__ import annotations

from numba import njit

@njit(cache=True, nogil=True)
def pairwise_steps(M, w, scores, m, aim, limit):  # type: ignore[no-untyped-def]
    """Move weight from the worst atom in use to the best atom until their scores differ by at most aim.

    Each step is an exact line search; a step that takes all the weight of an atom leaves it at exactly 0.
    Returns the number of steps and what they gained.
    """
    gained = 0.0
    for count in range(limit):
        s = 0
        a = -1
        for j in range(m):
            if scores[j] < scores[s]:
                s = j
            if w[j] > 0.0 and (a < 0 or scores[j] > scores[a]):
                a = j
        gap = scores[a] - scores[s]
        if gap <= aim:
            return count, gained
        curvature = M[s, s] - M[s, a] - M[a, s] + M[a, a]
        step = w[a]
        if curvature > 0.0 and gap < curvature * step:
            step = gap / curvature
            w[a] -= step
        else:
            w[a] = 0.0
        w[s] += step
        gained += step * (gap - 0.5 * step * curvature) if curvature > 0.0 else step * gap
        for j in range(m):
            scores[j] += step * (M[s, j] - M[a, j])
    return limit, gained
