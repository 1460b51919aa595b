"""Weights of an active set: pairwise steps, and linear systems where these are slow.

With atoms a_j, weights w on the simplex and an affine gradient (Hessian H), M_ij = <H a_i, a_j> and the
slopes scores_j = <grad m(x), a_j> determine every step: moving t from atom a to atom s changes scores_j by t
(M_sj - M_aj), with curvature M_ss - 2 M_sa + M_aa.  Adding a constant to all of M changes nothing.  Steps are
compiled (``kernels/native/gram.hpp``); the NumPy version gives the same numbers to the last bit.

Where M is ill conditioned, a correction goes towards the minimiser over the affine hull of the atoms, by one
linear system: Wolfe's method (1976) for a general quadratic, the corrective step QC-MNP of Halbey,
Rakotomandimby, Besancon, Designolle and Pokutta (2025).
"""

from __future__ import annotations

import numpy as np

from dcfw import kernels

# Scores that differ by this fraction of their range count as equal, and the first is taken.  An exact step
# between two atoms leaves both with one score: the next step must not depend on the processor's rounding.
TIE = 1e-9
ROUNDS = 100  # linear systems per call
RIDGE = 1e-12  # added to the diagonal, relative to its largest entry: atoms may be affinely dependent
Outcome = tuple[int, float, bool]


def pairwise_steps(
    M: np.ndarray, w: np.ndarray, scores: np.ndarray, m: int, aim: float, limit: int, slack: float
) -> Outcome:
    """Move weight from the worst atom in use to the best atom until their scores differ by at most aim.

    Each step is an exact line search; one that takes all the weight of an atom leaves it at exactly 0.
    Update ``w`` and ``scores`` in place.  Return the number of steps, at most ``limit``, their gain, and
    whether every curvature was at least ``-slack``, as convexity requires; one that was not ends the loop.

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
    """Return the worst atom in use, the best atom, and the difference of their scores.

    >>> extremes(np.array([2.0, 2.0 + 1e-12, 0.0, 9.0]), np.array([0.5, 0.5, 0.0, 0.0]))
    (0, 2, 2.000000000001)
    """
    used = np.where(w > 0.0, scores, -np.inf)
    least, most = float(scores.min()), float(used.max())
    close = TIE * (most - least) if most - least < np.inf else 0.0
    return int(np.argmax(used >= most - close)), int(np.argmax(scores <= least + close)), most - least


def corrections(M: np.ndarray, w: np.ndarray, scores: np.ndarray, aim: float) -> tuple[int, float]:
    """Minimise over the simplex of weights until the scores of atoms in use differ by at most ``aim``.

    Update ``w`` and ``scores`` in place.  Return the number of corrections and their gain.  End early where
    rounding leaves no descent.

    >>> w, scores = np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.5, 2.0])
    >>> corrections(np.diag([1.0, 2.0, 3.0]), w, scores, 1e-12)[0], w.round(6)
    (1, array([0.833333, 0.166667, 0.      ]))
    """
    gained = 0.0
    for count in range(ROUNDS):
        best = int(scores.argmin())
        used = w > 0.0
        if not aim < float(scores[used].max() - scores[best]) < np.inf:
            return count, gained
        used[best] = True
        gain = _correct(M, w, scores, np.flatnonzero(used))
        if gain == 0.0:  # far from the others' minimiser the best atom need not gain weight
            gain = _correct(M, w, scores, np.flatnonzero(w))
        if gain == 0.0:
            return count, gained
        gained += gain
    return ROUNDS, gained


def _correct(M: np.ndarray, w: np.ndarray, scores: np.ndarray, places: np.ndarray) -> float:
    """Move the weights at ``places`` towards their minimiser within the simplex; return the gain."""
    own = M[np.ix_(places, places)]
    d = _towards_the_affine_minimiser(own, scores[places])
    slope, curvature = -float(scores[places] @ d), float(d @ own @ d)
    falling = np.flatnonzero(d < 0.0)
    room = w[places[falling]] / -d[falling]
    longest = float(room.min(initial=np.inf))
    step = min(longest, slope / curvature) if curvature > 0.0 else longest
    if not (slope > 0.0 and 0.0 < step < np.inf):
        return 0.0
    w[places] = np.maximum(w[places] + step * d, 0.0)
    if step == longest:
        w[places[falling[room == longest]]] = 0.0
    scores += step * (M[:, places] @ d)
    return step * (slope - 0.5 * step * curvature)


def _towards_the_affine_minimiser(M: np.ndarray, scores: np.ndarray) -> np.ndarray:
    size, rows = len(scores), M.mean(axis=0)
    M = M - rows - (rows - rows.mean())[:, None]  # equal for directions that sum to 0, wherever the set lies
    unit = max(float(np.abs(np.diag(M)).max()), np.finfo(np.float64).tiny)
    K = np.zeros((size + 1, size + 1))
    K[:size, :size] = M / unit + RIDGE * np.eye(size)
    K[size, :size] = K[:size, size] = 1.0
    try:
        d = np.linalg.solve(K, np.append(-scores / unit, 0.0))[:size]
    except np.linalg.LinAlgError:
        return np.zeros(size)
    return np.asarray(d - d.mean()) if bool(np.isfinite(d).all()) else np.zeros(size)
