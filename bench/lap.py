"""Measure assignment solvers on the sequences of problems that Frank-Wolfe produces.

The cost matrices are recorded from real runs on QAPLIB, normalised as in the published protocol: plain
Frank-Wolfe with exact line search, and DC-FW variant 1 (``f = 1/4 ||A'X + XB||^2``,
``g = 1/4 ||A'X - XB||^2``) with its adaptive tolerance.  Only consecutive matrices are close, so a
sequence consists of consecutive ones, from the beginning or the middle of a run.  Each solver
processes a sequence from a new state; passes alternate between the solvers and the fastest pass of
each counts.  Small unrelated random matrices measure the overhead of a call.

    python -m bench lap [--full]
    python bench/lap.py [--full]     the same as a table
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time

import numpy as np
from scipy.optimize import linear_sum_assignment

from dcfw.data import find
from dcfw.sets.lap import Assignment

Row = tuple[str, float, float]
Solve = Callable[[np.ndarray], object]

# instance: length of a sequence, first step of the middle one
INSTANCES = {
    "nug12": (500, 2000),
    "bur26a": (500, 2000),
    "tai30a": (500, 2000),
    "tai50a": (500, 1000),
    "sko100a": (300, 600),
    "tho150": (200, 400),
    "tai256c": (60, 120),
}
PASSES = 3
LEAST_SECONDS = 0.25  # short sequences are repeated this long, so that an interruption cannot hit all passes


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return A and B, each divided by its Frobenius norm."""
    numbers = np.array(find(f"qaplib/{name}.dat").read_text().split(), dtype=float)
    n = int(numbers[0])
    A, B = numbers[1 : 1 + 2 * n * n].reshape(2, n, n)
    return A / np.linalg.norm(A), B / np.linalg.norm(B)


def start(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return 1/n + 0.001 N(0,1) after 1000 alternating projections (unit sums, non-negative)."""
    X = 1 / n + 0.001 * rng.standard_normal((n, n))
    for _ in range(1000):
        X = X - (X.sum(1, keepdims=True) - 1) / n - (X.sum(0, keepdims=True) - 1) / n + (X.sum() - n) / n**2
        X = np.maximum(X, 0)
    return X


def frank_wolfe(A: np.ndarray, B: np.ndarray, X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the costs of Frank-Wolfe with exact line search on <A X, X B> until the gap fell to 1e-3."""
    n = len(A)
    solver, rows = Assignment(n), np.arange(n)

    def gradient(Y: np.ndarray) -> np.ndarray:
        return A @ Y @ B.T + A.T @ Y @ B

    G, first = gradient(X), None
    while True:
        yield G
        D = -X
        D[rows, solver(G)] += 1
        gap = -float(np.vdot(G, D))
        first = gap if first is None else first
        if gap <= 1e-3 * first:
            return
        H = gradient(D)
        curvature = float(np.vdot(H, D))
        step = min(1.0, gap / curvature) if curvature > 0 else 1.0
        X, G = X + step * D, G + step * H


def dc_frank_wolfe(A: np.ndarray, B: np.ndarray, X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the costs of DC-FW, variant 1, published protocol."""
    n = len(A)
    solver, rows = Assignment(n), np.arange(n)

    def half_gradient(Y: np.ndarray, sign: float) -> np.ndarray:  # A here is the A' of the paper
        M = A @ Y + sign * (Y @ B)
        return 0.5 * (A.T @ M + sign * (M @ B.T))

    first = tolerance = None
    while True:
        U, F, outer = half_gradient(X, -1.0), half_gradient(X, 1.0), True
        while True:
            G = F - U
            yield G
            D = -X
            D[rows, solver(G)] += 1
            gap = -float(np.vdot(G, D))
            if outer:
                if first is None:
                    first = tolerance = gap
                if gap < 1e-3 * first:
                    return
                if gap < tolerance:
                    tolerance = 0.8 * gap
                outer = False
            if gap <= tolerance / 2:
                break
            H = half_gradient(D, 1.0)
            step = min(1.0, gap / float(np.vdot(H, D)))
            X, F = X + step * D, F + step * H


def sequences(full: bool) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield named sequences of consecutive cost matrices."""
    for name, (length, middle) in INSTANCES.items():
        if full:
            length, middle = min(2 * length, 1000), 2 * middle
        A, B = load(name)
        X0 = start(len(A), np.random.default_rng(0))
        for label, method in (("fw", frank_wolfe), ("dcfw", dc_frank_wolfe)):
            early, late = [], []
            for k, C in enumerate(method(A, B, X0)):
                if k < length:
                    early.append(C.copy())
                elif k >= middle:
                    late.append(C.copy())
                if len(late) == length:
                    break
            yield f"{name} {label} early", early
            if len(late) == length:
                yield f"{name} {label} middle", late


def _seconds(solve: Solve, costs: list[np.ndarray]) -> float:
    begin = process_time()
    for C in costs:
        solve(C)
    return (process_time() - begin) / len(costs)


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, our seconds per solve, SciPy's seconds per solve) for each sequence."""
    for name, costs in sequences(full):
        n = len(costs[0])
        yield name, *_fastest(partial(Assignment, n), lambda: linear_sum_assignment, costs)


def unrelated() -> Iterator[Row]:
    """Yield the same for small unrelated matrices of normal numbers."""
    for n in range(2, 17):
        costs = list(np.random.default_rng(n).standard_normal((300, n, n)))
        yield f"unrelated, n = {n}", *_fastest(partial(Assignment, n), lambda: linear_sum_assignment, costs)


def _fastest(ours: Callable[[], Solve], theirs: Callable[[], Solve], costs: list[np.ndarray]) -> list[float]:
    """Return seconds per solve of the fastest passes of two solvers, each pass from a new state."""
    best = [np.inf, np.inf]
    passes, end = 0, process_time() + LEAST_SECONDS
    while passes < PASSES or process_time() < end:
        passes += 1
        for k, make in enumerate((ours, theirs)):
            best[k] = min(best[k], _seconds(make(), costs))
    return best


def main(full: bool) -> None:
    ratios = []
    print(f"{'sequence':24s} {'ours, us':>10s} {'SciPy, us':>10s} {'ratio':>7s}")
    for name, ours, scipy in run(full):
        ratios.append(scipy / ours)
        print(f"{name:24s} {1e6 * ours:10.2f} {1e6 * scipy:10.2f} {ratios[-1]:7.2f}")
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}")
    for name, ours, scipy in unrelated():
        print(f"{name:24s} {1e6 * ours:10.2f} {1e6 * scipy:10.2f} {scipy / ours:7.2f}")


if __name__ == "__main__":
    main("--full" in sys.argv[1:])
