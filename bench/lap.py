"""How fast are assignments in the sequences that Frank-Wolfe makes?

The cost matrices are recorded from real runs on QAPLIB, normalised as in the published protocol: plain
Frank-Wolfe with exact line search, and DC-FW variant 1 (``f = 1/4 ||A'X + XB||^2``,
``g = 1/4 ||A'X - XB||^2``) with its adaptive tolerance.  Only consecutive matrices are close, so a
sequence is a stretch of consecutive ones, from the beginning or from the middle of a run.  Each solver
goes through a sequence from a fresh state; passes alternate between the solvers and the fastest pass of
each counts.

The auction of :mod:`dcfw.sets.auction`, which is not exact, is compared with the exact solver alike, and over
whole runs.

    python -m bench lap [--full]     our solver against SciPy's, and the auction against ours
    python bench/lap.py [--full]     the same with auctions to several accuracies
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

import numpy as np
from scipy.optimize import linear_sum_assignment

from dcfw import minimize
from dcfw.data import find
from dcfw.qap.quadratics import decompose, relaxation
from dcfw.sets import Birkhoff
from dcfw.sets.auction import Auction
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
ACCURACY = 1e-2  # of the auction, as a part of the cost
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
    begin = perf_counter()
    for C in costs:
        solve(C)
    return (perf_counter() - begin) / len(costs)


def exact_rows(full: bool = False) -> Iterator[Row]:
    """Yield (name, our seconds a solve, SciPy's seconds a solve) for each sequence."""
    Assignment(2)(np.eye(2))  # compiled before the clock starts
    for name, costs in sequences(full):
        n = len(costs[0])
        yield name, *_fastest(partial(Assignment, n), lambda: linear_sum_assignment, costs)


def auction_rows(full: bool = False) -> Iterator[Row]:
    """Yield (name, an auction's seconds a solve, the exact solver's) for each sequence.

    The auction is to a hundredth of the cost, which is the mean of the least costs in the sequence: an error
    that Frank-Wolfe can live with in its first steps only.
    """
    Assignment(2)(np.eye(2))
    Auction(2)(np.eye(2), 1.0)
    for name, costs in sequences(full):
        n = len(costs[0])

        tol = ACCURACY * _cost(costs)
        label = f"{name}, auction to {ACCURACY:g} of the cost, against exact"
        yield (
            label,
            *_fastest(lambda n=n, tol=tol: partial(Auction(n), tol=tol), partial(Assignment, n), costs),
        )


def cold_rows(full: bool = False) -> Iterator[Row]:
    """Yield the same for single matrices: independent costs, and costs that are nearly products."""
    rng = np.random.default_rng(0)
    for n in (300, 1000) if full else (300,):
        noise = rng.random((n, n))
        for kind, C in (("uniform", noise), ("products", np.outer(*rng.random((2, n))) + 0.01 * noise)):
            tol = ACCURACY * _cost([C])
            label = f"{kind} {n}, cold auction to {ACCURACY:g} of the cost, against exact"
            yield (
                label,
                *_fastest(lambda n=n, tol=tol: partial(Auction(n), tol=tol), partial(Assignment, n), [C]),
            )


def whole_rows(full: bool = False) -> Iterator[Row]:
    """Yield (name, seconds of a whole run with auctions, with exact assignments).

    The runs end when the gap has fallen to a twentieth of the first; the auctions are to a hundredth of it.
    """
    for name in ("sko100a", "tho150", "tai256c"):
        A, B = load(name)
        domain = Birkhoff(len(A))
        X0 = start(len(A), np.random.default_rng(0))
        for label, objective, method in (
            ("FW", relaxation(A, B), "fw"),
            ("DC-FW, spectral split", decompose(A, B, split="spectral"), "dcfw"),
        ):
            first = minimize(objective, domain, X0, method=method, tol=0.0, maxiter=0).gap
            rough = Birkhoff(len(A), accuracy=ACCURACY * first)
            seconds = [np.inf, np.inf]
            for _ in range(PASSES):
                for k, oracle in enumerate((rough, domain)):
                    result = minimize(objective, oracle, X0, method=method, tol=0.05 * first, maxiter=100_000)
                    assert result.success
                    seconds[k] = min(seconds[k], result.time)
            yield f"{label}, {name}, a run with auctions, against exact", *seconds


def run(full: bool = False) -> Iterator[Row]:
    """Yield the rows of all comparisons: exact against SciPy, then the auction against exact."""
    for rows in (exact_rows, auction_rows, cold_rows, whole_rows):
        yield from rows(full)


def _fastest(ours: Callable[[], Solve], theirs: Callable[[], Solve], costs: list[np.ndarray]) -> list[float]:
    """Return the seconds a solve of the fastest passes of two solvers, each pass from a fresh state."""
    best = [np.inf, np.inf]
    passes, end = 0, perf_counter() + LEAST_SECONDS
    while passes < PASSES or perf_counter() < end:
        passes += 1
        for k, make in enumerate((ours, theirs)):
            best[k] = min(best[k], _seconds(make(), costs))
    return best


def _cost(costs: list[np.ndarray]) -> float:
    """Return the size of the least costs in a sequence."""
    n = len(costs[0])
    return float(np.mean([abs(C[np.arange(n), Assignment(n)(C)].sum()) for C in costs[:10]]))


def run_auction(full: bool = False) -> Iterator[tuple[str, float, list[tuple[float, float]]]]:
    """Yield (name, exact seconds a solve, [(tolerance as a part of the cost, auction seconds), ...])."""
    Assignment(2)(np.eye(2))
    Auction(2)(np.eye(2), 1.0)
    for name, costs in sequences(full):
        n = len(costs[0])
        cost = _cost(costs)
        exact = min(_seconds(Assignment(n), costs) for _ in range(PASSES))
        results = []
        for part in (1e-1, 1e-2, 1e-3, 1e-6):
            fastest = np.inf
            for _ in range(PASSES):
                solver = Auction(n)
                fastest = min(fastest, _seconds(lambda C, s=solver, t=part * cost: s(C, t), costs))
            results.append((part, fastest))
        yield name, exact, results


def main(full: bool) -> None:
    ratios = []
    print(f"{'sequence':24s} {'ours, us':>10s} {'SciPy, us':>10s} {'ratio':>7s}")
    for name, ours, scipy in exact_rows(full):
        ratios.append(scipy / ours)
        print(f"{name:24s} {1e6 * ours:10.2f} {1e6 * scipy:10.2f} {ratios[-1]:7.2f}")
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}")
    print(f"\n{'sequence':24s} {'exact, us':>10s}   auction, us, to a part of the cost")
    for name, exact, results in run_auction(full):
        print(f"{name:24s} {1e6 * exact:10.2f}   " + ", ".join(f"{t:g}: {1e6 * s:.1f}" for t, s in results))


if __name__ == "__main__":
    main("--full" in sys.argv[1:])
