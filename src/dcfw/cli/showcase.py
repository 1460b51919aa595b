"""The problems of ``dcfw demo``: three kinds of DC problem on generated data, with DC-FW and its rivals.

matching     the nodes of two graphs, the second a shuffled copy of the first with some edges moved
alignment    an orthogonal map between two sets of vectors of which a tenth of the entries is observed
regression   sparse regression with outliers: Welsch's loss, smooth and nonconvex, over an l1 ball

All methods of a problem start from the same point and stop at the same relative FW gap or budget of oracle
calls.  The table marks runs that end at the budget as not converged.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcfw.cli.page.curves import curve
from dcfw.result import Status

Callback = Callable[[Any], None]

NODES = 60
WORDS, DIMENSION, OBSERVED, NOISE = 1000, 50, 0.1, 0.5
ALIGNMENT_BUDGET = 2000
SAMPLES, FEATURES, NONZEROS, OUTLIERS, WELSCH = 200, 500, 10, 0.2, 0.3
REGRESSION_BUDGET = 2000


@dataclass(frozen=True)
class Problem:
    """A problem of the demonstration, described in words."""

    key: str
    title: str
    text: str
    oracle: str  # the cost of one call


@dataclass(frozen=True)
class Solve:
    """One line of the table: a problem, a method, and a function that runs it with an optional callback."""

    problem: Problem
    method: str
    run: Callable[[Callback | None], Any]


@dataclass(frozen=True)
class Outcome:
    """A line of the table, the points of its curve (none for SciPy), and for a matching the first graph's
    edges as rows (i, j, whether it is kept)."""

    solve: Solve
    row: dict[str, Any]
    curve: dict[str, list[float]] | None
    edges: np.ndarray | None = None


def solves() -> Iterator[Solve]:
    """Yield all lines of the table."""
    return itertools.chain(matching(), alignment(), regression())


def outcome(solve: Solve, callback: Callback | None = None) -> Outcome:
    """Run one line and return its row and its curve; values of matchings count edges."""
    begun = time.perf_counter()
    result = solve.run(callback)
    if result.get("status") is Status.INTERRUPTED:
        raise KeyboardInterrupt  # caught in the solve, but meant for all
    seconds = time.perf_counter() - begun
    certified = "dc_gap" in result
    row = {
        "problem": solve.problem.title,
        "method": solve.method,
        "value": result.fun if isinstance(result.fun, int) else float(result.fun),
        "gap": float(result.gap) if certified else None,
        "dc_gap": [float(end) for end in result.dc_gap] if certified else None,
        "lmo_calls": int(result.n_lmo) if certified else None,
        "seconds": float(result.get("total_time", result.get("time", seconds))),
        "status": result.status.name if certified else None,
        **result.get("measures", {}),
    }
    return Outcome(solve, row, curve(result.history) if certified else None, result.get("edges"))


def matching() -> Iterator[Solve]:
    """Yield the solves of the graph matching problem."""
    from dcfw import qap

    A, B, planted = noisy_copy(NODES, np.random.default_rng(0))
    problem = Problem(
        "matching",
        f"Graph matching, planted {planted}",
        f"Find the {NODES} nodes of a graph in a shuffled copy of it, in which one edge in twenty has been "
        "moved: how many edges of the two are left without a counterpart? The matching that was planted "
        f"leaves {planted}. It is a quadratic assignment problem: the relaxation to doubly stochastic "
        "matrices is minimised and rounded to a permutation. Certificate and calls are those of that relaxed "
        "run.",
        "is one assignment problem",
    )

    def run(callback: Callback | None, **options: Any) -> Any:
        result = qap.match(A, B, rng=0, **options)  # a callback would select the generic loop
        result.fun = round(result.disagreement)
        result["edges"] = _kept(A, B, result.permutation)
        return result

    def scipy(callback: Callback | None, starts: int) -> Any:
        return _scipy_faq(A, B, starts)

    yield Solve(problem, "SciPy's FAQ", partial(scipy, starts=1))
    yield Solve(problem, "SciPy's FAQ, best of 10", partial(scipy, starts=10))
    yield Solve(problem, "FW (as in FAQ)", partial(run, method="fw"))
    yield Solve(problem, "DC-FW as in the paper", partial(run, split="paper", inner="fw"))
    yield Solve(problem, "DC-FW, spectral split", partial(run, split="spectral"))
    yield Solve(problem, "DC-FW, default", partial(run, method="dcfw"))


def noisy_copy(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """Return a small world, a shuffled copy with one edge in twenty moved, and the number of edges that then
    differ.

    >>> A, B, planted = noisy_copy(20, np.random.default_rng(0))
    >>> int(A.sum()) == int(B.sum()), planted
    (True, 6)
    """
    A = np.zeros((n, n), dtype=int)
    for i in range(n):
        for step in (1, 2, 3):  # a ring with its three next neighbours, some of them somewhere else
            j = (i + step) % n
            if rng.random() < 0.1:
                j = rng.choice(np.flatnonzero((A[i] == 0) & (np.arange(n) != i)))
            A[i, j] = A[j, i] = 1
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    edges = A[tuple(pairs.T)] > 0
    moved = round(0.05 * edges.sum())
    B = A.copy()
    for kind, value in ((edges, 0), (~edges, 1)):
        i, j = rng.choice(pairs[kind], moved, replace=False).T
        B[i, j] = B[j, i] = value
    order = rng.permutation(n)
    return A, B[np.ix_(order, order)], 2 * moved


def _scipy_faq(A: Any, B: Any, starts: int) -> Any:
    """Run SciPy's FAQ from the barycentre and from random points."""
    from scipy.optimize import OptimizeResult, quadratic_assignment

    begun = time.perf_counter()
    found = []
    for seed in range(starts):
        start = {"P0": "randomized" if seed else "barycenter", "rng": np.random.default_rng(seed)}
        p = quadratic_assignment(A, B, method="faq", options={"maximize": True, **start}).col_ind
        found.append((int(np.abs(A - B[np.ix_(p, p)]).sum() // 2), seed, p))
    value, _, p = min(found)
    return OptimizeResult(fun=value, time=time.perf_counter() - begun, edges=_kept(A, B, p))


def _kept(A: Any, B: Any, p: Any) -> np.ndarray:
    """Return the edges (i, j) of A, and whether B has them between the partners."""
    i, j = np.nonzero(np.triu(A))
    return np.stack([i, j, B[p[i], p[j]] != 0], axis=1)


def alignment() -> Iterator[Solve]:
    """Yield the solves of the masked alignment problem."""
    from dcfw.align import align, mean_cosine, nearest_rotation

    rng = np.random.default_rng(0)
    E1 = rng.standard_normal((DIMENSION, WORDS))
    Q = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0]
    E2 = Q @ E1 + NOISE * rng.standard_normal((DIMENSION, WORDS))
    mask = rng.random(E2.shape) < OBSERVED

    def quality(R: Any) -> float:
        return float(mean_cosine((R @ E1).T, E2.T))

    full = quality(nearest_rotation(E2 @ E1.T))
    problem = Problem(
        "alignment",
        f"Alignment, {OBSERVED:.0%} observed",
        f"Find the rotation between two sets of {WORDS:,} vectors with {DIMENSION} entries each, where only "
        f"{OBSERVED:.0%} of the target entries are known: least squares on those entries minus a nuclear "
        "norm, over the spectral ball. "
        "FW-K and FW-M take a subgradient of the nuclear norm, an SVD, in every step; DC-FW only once in an "
        "outer step. Quality is the mean cosine, as a part of that with every entry known.",
        "is one polar factor (an SVD)",
    )

    budget = dict.fromkeys(("maxiter", "max_inner", "max_lmo"), ALIGNMENT_BUDGET)

    def run(callback: Callback | None, **options: Any) -> Any:
        result = align(E1, E2, mask, tol=0.0, rtol=3e-4, callback=callback, **budget, **options)
        result["measures"] = {"n_grad_g": result.n_grad_g, "quality": quality(result.rotation) / full}
        return result

    yield Solve(problem, "FW-K", partial(run, method="fw-k"))
    yield Solve(problem, "FW-M", partial(run, method="fw-m"))
    yield Solve(problem, "DC-FW, the paper's steps", partial(run, step="open-loop", inner="fw"))
    yield Solve(problem, "DC-FW, default", run)


def regression() -> Iterator[Solve]:
    """Yield the solves of the regression with outliers."""
    import dcfw
    from dcfw import functions, sets, splits

    rng = np.random.default_rng(0)
    A = rng.standard_normal((SAMPLES, FEATURES)) / np.sqrt(SAMPLES)
    truth = np.zeros(FEATURES)
    places = rng.choice(FEATURES, NONZEROS, replace=False)
    truth[places] = rng.choice([-1.0, 1.0], NONZEROS) * (1.0 + rng.random(NONZEROS))
    b = A @ truth + 0.01 * rng.standard_normal(SAMPLES)
    spoiled = rng.random(SAMPLES) < OUTLIERS
    b[spoiled] += 3.0 * rng.standard_normal(int(spoiled.sum()))

    def value(x: Any) -> float:
        return float(0.5 * WELSCH**2 * np.sum(1.0 - np.exp(-(((A @ x - b) / WELSCH) ** 2))))

    def grad(x: Any) -> Any:
        r = A @ x - b
        return A.T @ (r * np.exp(-((r / WELSCH) ** 2)))

    # The second derivative of the loss is at most 1, at 0.
    phi = functions.Smooth(value, grad, lipschitz=float(np.linalg.norm(A, 2) ** 2))
    domain = sets.L1Ball(FEATURES, radius=float(np.abs(truth).sum()))
    problem = Problem(
        "regression",
        f"Robust regression, n = {FEATURES}",
        f"Recover a vector with {NONZEROS} nonzeros of {FEATURES} from {SAMPLES} measurements, of which "
        f"{OUTLIERS:.0%} are spoiled. Welsch's loss ignores them, and is smooth and nonconvex; the set is an "
        "l1 ball. DC-FW needs nothing but values, gradients and a Lipschitz constant: the sliding split is "
        "made of them. Error is the relative distance from the true vector.",
        "looks for the largest entry of a gradient",
    )

    start, split = np.zeros(FEATURES), splits.sliding(phi)

    def run(callback: Callback | None, objective: Any = split, **options: Any) -> Any:
        options |= {"tol": 0.0, "rtol": 1e-4, "maxiter": REGRESSION_BUDGET, "max_lmo": REGRESSION_BUDGET}
        result = dcfw.minimize(objective, domain, start, callback=callback, **options)
        error = np.linalg.norm(np.asarray(result.x) - truth) / np.linalg.norm(truth)
        result["measures"] = {"error": float(error)}
        return result

    yield Solve(problem, "FW, short steps", partial(run, objective=phi, method="fw", step="short"))
    yield Solve(
        problem, "FW, backtracking steps", partial(run, objective=phi, method="fw", step="backtracking")
    )
    yield Solve(problem, "Gradient sliding (CGS)", partial(run, objective=phi, method="cgs"))
    yield Solve(problem, "DC-FW, vanilla steps", partial(run, inner="fw"))
    yield Solve(problem, "DC-FW, default", run)
