"""Generators of quadratic assignment problems of any size.

A holds the distances and B the flows.  :func:`nugent` problems are structured, with many equally good
solutions because of the grid's symmetries; :func:`taillard_uniform` ones are unstructured, the hardest kind
for a local search; :func:`li_pardalos` gives problems with a known optimum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw.qap.instances import Instance
from dcfw.qap.objective import evaluate

TAILLARD_SEED = 123456789
"""The seed of QAPLIB's tai10a, ..., tai100a."""
_NUGENT_FLOWS = (0, 1, 2, 3, 4, 5, 6, 10)
_NUGENT_SHARES = (0.33, 0.13, 0.18, 0.04, 0.05, 0.18, 0.02, 0.07)  # in nug30, to two digits
_MODULUS, _MULTIPLIER = 2**31 - 1, 16807


def nugent(n: int | tuple[int, int], rng: Any = None) -> Instance:
    """Return Manhattan distances on a grid with random flows like those of Nugent, Vollmann and Ruml (1968).

    Parameters
    ----------
    n : int or (rows, columns)
        The grid; an int means the first n cells, row by row, of the smallest nearly square grid.
    rng : None, int, SeedSequence or Generator
        The source of the flows: symmetric integers from 0 to 10, a third of them 0.

    Examples
    --------
    >>> nugent((3, 4), rng=0)
    Instance('nugent12', n=12)
    """
    A = _grid_distances(n)
    size = len(A)
    upper = np.triu_indices(size, 1)
    flows = _validate.generator(rng).choice(_NUGENT_FLOWS, size=len(upper[0]), p=_NUGENT_SHARES)
    return Instance(f"nugent{size}", A, _symmetric(size, flows), size)


def taillard_uniform(n: int, rng: Any = None, *, seed: int | None = None) -> Instance:
    """Return two symmetric matrices of uniform integers 0, ..., 99 with zero diagonals (Taillard 1991).

    The numbers come from the linear congruential generator ``s <- 16807 s mod (2^31 - 1)`` of
    Taillard's papers: first the upper triangle of B, row by row, then that of A.

    Parameters
    ----------
    n : int
        The size.
    rng : None, int, SeedSequence or Generator
        The source of the generator's seed if none is given.
    seed : int, optional
        The generator's seed, from 1 to 2^31 - 2.  With ``TAILLARD_SEED`` = 123456789 the instances are
        QAPLIB's tai10a, tai12a, ..., tai100a (with A and B exchanged in tai50a and tai100a).

    Examples
    --------
    >>> taillard_uniform(12, seed=TAILLARD_SEED).A[0]
    array([ 0, 27, 85,  2,  1, 15, 11, 35, 11, 20, 21, 61])
    """
    n = _validate.integer(n, "n", low=1)
    rng = _validate.generator(rng)
    seed = int(rng.integers(1, _MODULUS)) if seed is None else seed
    state = _validate.integer(seed, "seed", low=1, high=_MODULUS - 1)
    entries = np.empty((2, n * (n - 1) // 2), dtype=np.int64)
    for i in range(entries.size):
        state = state * _MULTIPLIER % _MODULUS
        entries.flat[i] = 100 * state // _MODULUS
    B, A = (_symmetric(n, upper) for upper in entries)
    return Instance(f"uniform{n}", A, B, n)


def li_pardalos(n: int | tuple[int, int], rng: Any = None, *, w: int = 9, z: int = 3) -> Instance:
    """Return a problem on grid distances whose optimal permutation is known.

    With equal flows w all permutations have the same value.  For k on a shortest path between l and m, moving
    ``w - delta`` from the flow between l and m to those between l and k and between k and m adds
    ``(w - delta) (d_lk + d_km - d_lm)`` = 0 to the value of the identity, and by the triangle inequality a
    nonnegative amount to that of any other permutation.  This is done for all pairs by decreasing distance,
    then the items are renumbered at random: the grid case of Li and Pardalos (1992; Palubetskis 1988).

    Parameters
    ----------
    n : int or (rows, columns)
        The grid; an int means the first n cells, row by row, of the smallest nearly square grid.
    rng : None, int, SeedSequence or Generator
        The source of the choices.
    w : int
        The initial flow.
    z : int
        The remainder of a reduced flow is uniform in 0, ..., z; z is less than w.

    Returns
    -------
    Instance
        With the optimal value ``best`` and an optimal ``permutation``.

    Examples
    --------
    >>> li_pardalos(12, rng=0)
    Instance('lipardalos12', n=12, best=2772, status='optimal')
    """
    D = _grid_distances(n)
    size = len(D)
    w = _validate.integer(w, "w", low=1, high=2**31)
    z = _validate.integer(z, "z", low=0, high=w - 1)
    rng = _validate.generator(rng)
    F = np.full((size, size), w, dtype=np.int64)
    np.fill_diagonal(F, 0)
    rows, columns = np.triu_indices(size, 1)
    shuffled = rng.permutation(len(rows))
    falling = shuffled[np.argsort(-D[rows, columns][shuffled], kind="stable")]
    used = D < 2  # neighbours have no place between them; increased flows are not reduced later
    for l, m in zip(rows[falling], columns[falling], strict=True):
        if used[l, m]:
            continue
        between = (D[l] + D[m] == D[l, m]) & (np.abs(D[l] - D[m]) <= 1)
        between[[l, m]] = False
        k = rng.choice(np.flatnonzero(between))
        moved = w - int(rng.integers(0, z + 1))
        for i, j, change in ((l, m, -moved), (l, k, moved), (m, k, moved)):
            F[i, j] += change
            F[j, i] = F[i, j]
            used[i, j] = used[j, i] = True
    p = rng.permutation(size)
    B = np.empty_like(F)
    B[np.ix_(p, p)] = F
    return Instance(f"lipardalos{size}", D, B, size, evaluate(D, B, p), p, "optimal")


def _grid_distances(n: int | tuple[int, int]) -> np.ndarray:
    if isinstance(n, tuple | list):
        rows, columns = _validate.shape(n, "n", ndim=2)
        size = rows * columns
    else:
        size = _validate.integer(n, "n", low=1)
        columns = math.ceil(math.sqrt(size))
    y, x = np.divmod(np.arange(size), columns)
    return np.asarray(np.abs(y[:, None] - y) + np.abs(x[:, None] - x), dtype=np.int64)


def _symmetric(n: int, upper: np.ndarray) -> np.ndarray:
    M = np.zeros((n, n), dtype=np.int64)
    M[np.triu_indices(n, 1)] = upper
    return M + M.T
