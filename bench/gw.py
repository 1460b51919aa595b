"""Gromov-Wasserstein and fused Gromov-Wasserstein against POT: loss and processor time.

Generated problems of three alternating kinds: Gaussian clouds in three and two dimensions; a cloud and a
rotated, shuffled, noisy copy; a noisy ring and three clusters.  Distances are Euclidean, scaled to at most 1;
weights are uniform or drawn from a Dirichlet distribution.  Rows: the mean loss; the shares of the problems
on which our loss is not above POT's and on which it is below it (by more than a relative 1e-6; the peer's
column is our target); and seconds for all problems, measured alternately.  Both run with their defaults on
one thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import ot

from dcfw import gromov

Row = tuple[str, float, float, str]
COUNT = 30


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


def run(full: bool = False, output: Path | None = None) -> Iterator[Row]:
    """Yield (name, ours, peer, unit); problems already in ``output`` are not solved again."""
    for n, uniform in (
        (100, True),
        (100, False),
        *(((300, True), (300, False), (1000, True)) if full else ()),
    ):
        yield from rows(n, uniform, False, output)
    for uniform in (True, False):
        yield from rows(100, uniform, True, output)


def rows(n: int, uniform: bool, fused: bool, output: Path | None) -> Iterator[Row]:
    """Yield losses, shares and times of generated problems."""
    known = output.read_text().splitlines() if output and output.exists() else []
    done = {tuple(row["problem"]): row for row in map(json.loads, known)}
    losses, taken = np.zeros((2, COUNT)), np.zeros((2, COUNT))
    gromov.gromov_wasserstein(*problem(20, 0, uniform)[:4])
    for seed in range(COUNT):
        name = (n, uniform, fused, seed)
        if name not in done:
            done[name] = {"problem": name, **solved(problem(n, seed, uniform), fused)}
            if output:
                with output.open("a") as file:
                    file.write(json.dumps(done[name]) + "\n")
        losses[:, seed], taken[:, seed] = done[name]["losses"], done[name]["seconds"]
    label = f"{'fused GW' if fused else 'GW'}, n={n}, {'uniform' if uniform else 'other'} weights"
    slack = 1e-6 * np.abs(losses[1])
    yield f"{label}, mean loss of {COUNT}", *losses.mean(axis=1).tolist(), "loss"
    yield f"{label}, not above", float((losses[0] <= losses[1] + slack).mean()), 0.8, "share"
    yield f"{label}, below", float((losses[0] < losses[1] - slack).mean()), 0.5, "share"
    yield f"{label}, time", *taken.sum(axis=1).tolist(), "s"


def solved(data: tuple[np.ndarray, ...], fused: bool) -> dict[str, list[float]]:
    """Return the losses and seconds of ours and of POT."""
    losses, seconds = [], []
    for solver in (ours, pot):
        started = process_time()
        losses.append(solver(data, fused))
        seconds.append(process_time() - started)
    return {"losses": losses, "seconds": seconds}


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
