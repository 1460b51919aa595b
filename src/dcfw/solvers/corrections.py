"""Quadratic corrections: the weights of an active set by linear systems, where pairwise steps are slow.

Pairwise steps in the space of weights (:mod:`dcfw.solvers.weights`) are coordinate descent: where the atoms'
Gram matrix M is ill conditioned they need very many.  A correction goes to the minimiser over the affine hull
of the atoms in use and the best one, by one linear system; where that leaves the simplex, it goes as far as
the weights allow, and an atom loses its weight.  This is Wolfe's method (1976) for a general quadratic, and
the corrective step QC-MNP of Halbey, Rakotomandimby, Besancon, Designolle and Pokutta (2025).
"""

from __future__ import annotations

import numpy as np

ROUNDS = 100
"""How many linear systems a call may solve."""
RIDGE = 1e-12
"""What is added to the diagonal, relative to its largest entry: atoms may be affinely dependent."""


def corrections(M: np.ndarray, w: np.ndarray, scores: np.ndarray, aim: float) -> tuple[int, float]:
    """Minimise over the simplex of weights until the scores of atoms in use differ by at most ``aim``.

    ``w`` and ``scores`` are written to (as in :func:`~dcfw.solvers.weights.pairwise_steps`).  Returns the
    number of corrections and what they gained.  Ends early where rounding leaves no descent.

    Examples
    --------
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
        if gain == 0.0:  # far from the minimiser over the others the best atom need not gain weight
            gain = _correct(M, w, scores, np.flatnonzero(w))
        if gain == 0.0:
            return count, gained
        gained += gain
    return ROUNDS, gained


def _correct(M: np.ndarray, w: np.ndarray, scores: np.ndarray, places: np.ndarray) -> float:
    """Move the weights at ``places`` towards their minimiser, while they stay positive; return the gain."""
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
    """Return the change of the weights, of sum 0, after which all scores are equal."""
    size = len(scores)
    unit = max(float(np.abs(np.diag(M)).max()), np.finfo(np.float64).tiny)
    K = np.zeros((size + 1, size + 1))
    K[:size, :size] = M / unit + RIDGE * np.eye(size)
    K[size, :size] = K[:size, size] = 1.0
    try:
        d = np.linalg.solve(K, np.append(-scores / unit, 0.0))[:size]
    except np.linalg.LinAlgError:
        return np.zeros(size)
    return np.asarray(d - d.mean()) if bool(np.isfinite(d).all()) else np.zeros(size)
