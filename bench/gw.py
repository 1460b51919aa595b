"""Gromov-Wasserstein and fused Gromov-Wasserstein against POT: loss and processor time.

Generated problems of three kinds, by turns: Gaussian clouds in three and two dimensions; a cloud and a
rotated, shuffled, noisy copy; a noisy ring and three clusters.  Distances are Euclidean, scaled to at most 1;
weights are uniform or drawn from a Dirichlet distribution.  Rows: the mean loss; the shares of the problems
on which ours is not above POT's and is below it (by more than 1e-6 of it; the peer's column is the share we
want); and seconds for all problems, measured by turns.  Both run with their defaults in one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
import ot

from dcfw import gromov

Row = tuple[str, float, float, str]


def problem(n: int, seed: int, uniform: bool) -> tuple[np.ndarray, ...]:
    """Return C1, C2, p, q and costs M between the points' first two coordinates."""
    rng = np.random.default_rng(seed)
    kind = seed % 3
    if kind == 0:
        X, Y = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    elif kind == 1:
        X = rng.standard_normal((n, 2))
        Q = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        Y = (X @ Q + 0.1 * rng.standard_normal((n, 2)))[rng.permutation(n)]
    else:
        t = 2.0 * np.pi * rng.random(n)
        X = np.column_stack([np.cos(t), 0.7 * np.sin(t)]) + 0.05 * rng.standard_normal((n, 2))
        Y = 0.3 * rng.standard_normal((n, 2)) + 3.0 * np.eye(3)[rng.integers(0, 3, n)][:, :2]
    C1, C2, M = ot.dist(X, X, "euclidean"), ot.dist(Y, Y, "euclidean"), ot.dist(X[:, :2], Y, "euclidean")
    p = q = np.full(n, 1.0 / n)
    if not uniform:
        p, q = rng.dirichlet(np.full(n, 2.0), size=2)
    return C1 / C1.max(), C2 / C2.max(), p, q, M / M.max()


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    count = 30
    for n, uniform in (
        (100, True),
        (100, False),
        *(((300, True), (300, False), (1000, True)) if full else ()),
    ):
        yield from rows(n, uniform, False, count if n < 1000 else 6)
    for uniform in (True, False):
        yield from rows(100, uniform, True, count)


def rows(n: int, uniform: bool, fused: bool, count: int) -> Iterator[Row]:
    """Yield losses, shares and times of generated problems."""
    losses, taken = np.zeros((2, count)), np.zeros(2)
    gromov.gromov_wasserstein(*problem(20, 0, uniform)[:4])
    for seed in range(count):
        data = problem(n, seed, uniform)
        for k, solver in enumerate((ours, pot)):
            begun = process_time()
            losses[k, seed] = solver(data, fused)
            taken[k] += process_time() - begun
    kind = "fused GW" if fused else "GW"
    name = f"{kind}, n={n}, {'uniform' if uniform else 'other'} weights"
    slack = 1e-6 * np.abs(losses[1])
    yield f"{name}, mean loss of {count}", *losses.mean(axis=1).tolist(), "loss"
    yield f"{name}, not above", float((losses[0] <= losses[1] + slack).mean()), 0.8, "share"
    yield f"{name}, below", float((losses[0] < losses[1] - slack).mean()), 0.5, "share"
    yield f"{name}, time", *taken.tolist(), "s"


def ours(data: tuple[np.ndarray, ...], fused: bool) -> float:
    C1, C2, p, q, M = data
    return float(gromov.gromov_wasserstein(C1, C2, p, q, M if fused else None).fun)


def pot(data: tuple[np.ndarray, ...], fused: bool) -> float:
    C1, C2, p, q, M = data
    log: dict[str, Any]
    if fused:
        _, log = ot.gromov.fused_gromov_wasserstein(M, C1, C2, p, q, "square_loss", alpha=0.5, log=True)
        return float(log["fgw_dist"])
    _, log = ot.gromov.gromov_wasserstein(C1, C2, p, q, "square_loss", log=True)
    return float(log["gw_dist"])
