"""The default call against alternatives that a user would install or write, on five kinds of problem.

Seconds of processor time on one thread, measured alternately, the minimum of three runs each, to within 1e-4
(of the decrease from the first value) of a value that both reach: the higher of the two last values of each
instance.  Runs from one start may end in different local minima: the unit has the mean of both last values,
the number of instances on which each comes within 1e-4 of the lower value, and, if these are not all,
the mean time to reach it.

- a DC quadratic on the simplex, n = 1000, against spectral projected gradient (30 lines below);
- MCP regression, 500 x 5000, against skglm;
- a Gromov-type function, as callables, on a transport polytope against POT;
- maximum cliques by restarts (Motzkin and Straus) against restarts of spectral projected gradient: the
  largest clique found in the same time (more is better);
- a ramp-loss support vector machine on an l2 ball against SciPy's SLSQP;
- a quadratic of five variables on the simplex, and on a polytope, where vertices are linear programmes,
  against SLSQP: the whole call, the minimum of twenty.

    python -m bench peers [--full]

``--full`` uses five times as many seeds (2 each, and 6 for the support vector machine).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import ot
from scipy.optimize import minimize as scipy_minimize
from skglm.datafits import Quadratic as SquareLoss
from skglm.estimators import GeneralizedLinearEstimator
from skglm.penalties import MCPenalty
from skglm.solvers import AndersonCD

import dcfw
from bench import defaults
from dcfw import functions, sets

Row = tuple[str, float, float, str]
CLOSE = 1e-4
Trace = list[tuple[float, float]]
"""Seconds and values during a run."""


def ours(objective: Any, domain: Any, x0: Any = None) -> Trace:
    """Return the trace of the default call."""
    trace: Trace = []
    started = process_time()

    def note(intermediate_result: Any) -> None:
        trace.append((process_time() - started, intermediate_result.fun))

    result = dcfw.minimize(objective, domain, x0, callback=note)
    return [*trace, (process_time() - started, result.fun)]


def quickest(solve: Callable[[], Trace], times: int = 3) -> Trace:
    """Return the shortest of several traces of one run."""
    return min((solve() for _ in range(times)), key=lambda trace: trace[-1][0])


def time_to(trace: Trace, first: float, best: float) -> float:
    """Return when a trace came to within 1e-4 of the way from the first value to the best."""
    goal = best + CLOSE * (first - best)
    return next((seconds for seconds, value in trace if value <= goal), math.inf)


def compared(name: str, traces: list[tuple[Trace, Trace, float]]) -> Row:
    """Return a row of mean times to a value that both reach, with what each has reached."""
    taken, lasts, to_best = np.zeros((3, 2, len(traces)))
    for i, (*both, first) in enumerate(traces):
        ends = [min(value for _, value in trace) for trace in both]
        for k, trace in enumerate(both):
            taken[k, i] = time_to(trace, first, max(ends))
            lasts[k, i] = ends[k]
            to_best[k, i] = time_to(trace, first, min(ends))
    reached = np.isfinite(to_best)
    values = " and ".join(f"{last.mean():.6g}" for last in lasts)
    best = " and ".join(f"{count.sum():.0f}" for count in reached)
    unit = f"s, values {values}; the best value on {best} of {len(traces)}"
    if not reached.all():
        means = (times[known].mean() for times, known in zip(to_best, reached, strict=True))
        unit += f", there in {' and '.join(f'{mean:.3g}' for mean in means)} s"
    return name, float(taken[0].mean()), float(taken[1].mean()), unit


# -- spectral projected gradient ----------------------------------------------------------------------------


def onto_simplex(x: np.ndarray) -> np.ndarray:
    u = np.sort(x)[::-1]
    excess = np.cumsum(u) - 1.0
    k = np.flatnonzero(u * np.arange(1, len(x) + 1) > excess)[-1]
    return np.maximum(x - excess[k] / (k + 1.0), 0.0)


def projected_gradient(
    value: Callable[..., float], grad: Callable[..., Any], x: np.ndarray, steps: int = 1000, tol: float = 1e-7
) -> tuple[np.ndarray, Trace]:
    """Birgin, Martinez and Raydan 2000: Barzilai-Borwein steps, the greatest of ten values as the bar."""
    started = process_time()
    fun, g, length = value(x), grad(x), 1.0
    trace: Trace = [(process_time() - started, fun)]
    for _ in range(steps):
        d = onto_simplex(x - length * g) - x
        slope = float(g @ d)
        if -slope <= tol * max(abs(fun), 1e-12):
            break
        bar, eta = max(last for _, last in trace[-10:]), 1.0
        while (new := value(x + eta * d)) > bar + 1e-4 * eta * slope and eta > 1e-10:
            eta *= 0.5
        moved, before, x, fun = eta * d, g, x + eta * d, new
        g = grad(x)
        curvature = float(moved @ (g - before))
        length = min(max(float(moved @ moved) / curvature, 1e-10), 1e10) if curvature > 0.0 else 1e10
        trace.append((process_time() - started, fun))
    return x, trace


# -- problems -----------------------------------------------------------------------------------------------


def simplex_row(seeds: range, n: int = 1000) -> Row:
    traces = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        A, b = defaults.symmetric(rng, n), rng.standard_normal(n) / math.sqrt(n)
        A += 0.5 * np.eye(n)  # without it the minimisers are vertices, and the problem is done in a step
        x0 = rng.dirichlet(np.ones(n))
        value = lambda x, A=A, b=b: float(0.5 * x @ (A @ x) + b @ x)  # noqa: E731
        grad = lambda x, A=A, b=b: A @ x + b  # noqa: E731
        theirs = quickest(lambda v=value, g=grad, x=x0: projected_gradient(v, g, x)[1])
        phi, domain = functions.Quadratic(A, b), sets.Simplex(n)
        traces.append((quickest(lambda p=phi, d=domain, x=x0: ours(p, d, x)), theirs, value(x0)))
    return compared(f"DC quadratic, simplex, n = {n}: projected gradient", traces)


def mcp_row(seeds: range, m: int = 500, n: int = 5000) -> Row:
    traces = []
    for seed in range(-1, len(seeds)):  # the first one is a warm-up
        rng = np.random.default_rng(seed + 1)
        A, x = rng.standard_normal((m, n)), np.zeros(n)
        x[rng.choice(n, 20, replace=False)] = rng.choice((-1.0, 1.0), 20) * (1.0 + rng.random(20))
        y = A @ x + 0.1 * rng.standard_normal(m)
        lam, gamma = 0.1 * float(np.abs(A.T @ y).max()) / m, 3.0
        make = partial(_mcp_objective, A / math.sqrt(m), y / math.sqrt(m), lam, gamma)
        phi = make()
        penalty, A_f = MCPenalty(lam, gamma), np.asfortranarray(A)
        model = GeneralizedLinearEstimator(
            SquareLoss(), penalty, AndersonCD(fit_intercept=False, tol=1e-4 * lam, warm_start=False)
        )

        def fit(model: Any = model, A: Any = A_f, y: Any = y, phi: Any = phi) -> Trace:
            started = process_time()
            w = np.asarray(model.fit(A, y).coef_).reshape(-1)
            return [(process_time() - started, float(phi.value(w)))]

        domain = sets.L1Ball(n, radius=2.0 * float(np.abs(x).sum()))
        # A new objective for each run: the old one has columns of A'A at hand.
        solved = quickest(lambda make=make, d=domain: ours(make(), d))
        traces.append((solved, quickest(fit), float(phi.value(np.zeros(n)))))
    return compared(f"MCP regression, {m} x {n}: skglm", traces[1:])


def _mcp_objective(A: np.ndarray, y: np.ndarray, lam: float, gamma: float) -> Any:
    return functions.LeastSquares(A, y) + functions.MCP(lam, gamma)


def gromov_row(seeds: range, n: int) -> Row:
    traces = []
    for seed in range(-1, len(seeds)):
        rng = np.random.default_rng(seed + 1)
        C1, C2 = defaults.distances(rng, n, 3), defaults.distances(rng, n, 2)
        p, T0 = np.full(n, 1.0 / n), np.full((n, n), 1.0 / n**2)
        constant = float(p @ C1**2 @ p + p @ C2**2 @ p)
        value = lambda T, c=constant, C1=C1, C2=C2: c - 2.0 * float(np.vdot(C1 @ T @ C2, T))  # noqa: E731
        grad = lambda T, C1=C1, C2=C2: -4.0 * (C1 @ T @ C2)  # noqa: E731

        def transport(C1: Any = C1, C2: Any = C2, p: Any = p, T0: Any = T0, value: Any = value) -> Trace:
            started = process_time()
            T = ot.gromov.gromov_wasserstein(C1, C2, p, p, "square_loss", G0=T0)
            return [(process_time() - started, value(T))]

        phi, domain = defaults.smooth(value, grad), sets.TransportPolytope(p, p)
        solved = quickest(lambda f=phi, d=domain, x=T0: ours(f, d, x))
        traces.append((solved, quickest(transport), value(T0)))
    return compared(f"Gromov type, n = {n}: POT", traces[1:])


def clique_row(n: int, seconds: float) -> Row:
    rng = np.random.default_rng(n)
    A = np.triu(rng.random((n, n)) < 0.5, 1)
    A = (A | A.T).astype(np.float64)
    H = -(A + 0.5 * np.eye(n))
    phi, domain = functions.Quadratic(H), sets.Simplex(n)

    def value(x: np.ndarray) -> float:
        return 0.5 * float(x @ (H @ x))

    def size(fun: float) -> int:
        return round(0.5 / (1.0 + 2.0 * fun))

    largest, runs = [0, 0], [0, 0]
    for k in range(2):
        starts, end = np.random.default_rng(0), process_time() + seconds
        while process_time() < end:
            x0 = starts.dirichlet(np.ones(n))
            if k == 0:
                found = dcfw.minimize(phi, domain, x0).fun
            else:
                found = projected_gradient(value, lambda x: H @ x, x0)[1][-1][1]
            largest[k], runs[k] = max(largest[k], size(found)), runs[k] + 1
    unit = f"vertices, more is better ({runs[0]} and {runs[1]} starts in {seconds:g} s)"
    return f"clique, n = {n}: restarts of projected gradient", largest[0], largest[1], unit


def ramp_row(seeds: range, m: int = 400, n: int = 20, delta: float = 0.2, radius: float = 3.0) -> Row:
    traces = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
        A = rng.standard_normal((m, n)) + np.outer(y, rng.standard_normal(n)) / math.sqrt(n)
        wrong = rng.random(m) < 0.1
        A[wrong] *= -4.0
        B = A * y[:, None]

        def hinges(shift: float, B: np.ndarray = B) -> functions.Smooth:
            def value(w: np.ndarray) -> float:
                s = shift - B @ w
                return float(
                    np.where(s > delta, s - delta / 2, np.clip(s, 0.0, None) ** 2 / (2 * delta)).mean()
                )

            return functions.Smooth(
                value, lambda w: -(np.clip((shift - B @ w) / delta, 0.0, 1.0) @ B) / m, convex=True
            )

        phi = hinges(1.0) - hinges(0.0)
        domain, x0 = sets.L2Ball(n, radius=radius), np.zeros(n)
        theirs = quickest(lambda phi=phi, x0=x0: slsqp_on_a_ball(phi, radius, x0))
        solved = quickest(lambda phi=phi, d=domain, x0=x0: ours(phi, d, x0))
        traces.append((solved, theirs, float(phi.value(x0))))
    return compared("ramp SVM, 400 x 20, l2 ball: SLSQP", traces)


def slsqp_on_a_ball(phi: Any, radius: float, x0: np.ndarray) -> Trace:
    """Return the trace of SLSQP; what it shows outside of the ball does not count."""
    trace: Trace = []
    started = process_time()

    def note(w: np.ndarray) -> None:
        if w @ w <= radius**2 * (1.0 + 1e-6):
            trace.append((process_time() - started, phi.value(w)))

    ball = {"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2.0 * w}
    found = scipy_minimize(phi.value, x0, jac=phi.grad, constraints=ball, callback=note, method="SLSQP")
    return [*trace, (process_time() - started, float(found.fun))]


def tiny_rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    A, b, x0 = defaults.symmetric(rng, 5), rng.standard_normal(5), np.full(5, 0.2)
    value, grad = lambda x: float(0.5 * x @ A @ x + b @ x), lambda x: A @ x + b
    kinds = {"simplex": ("eq", lambda: sets.Simplex(5)), "polytope": ("ineq", _tiny_polytope)}
    for name, (kind, domain) in kinds.items():
        total = {"type": kind, "fun": lambda x: 1.0 - x.sum(), "jac": lambda x: -np.ones(5)}
        calls = (
            lambda domain=domain: dcfw.minimize(functions.Smooth(value, grad), domain(), x0),
            lambda total=total: scipy_minimize(
                value, x0, jac=grad, bounds=[(0.0, 1.0)] * 5, constraints=total, method="SLSQP"
            ),
        )
        best = [math.inf, math.inf]
        for _ in range(20):
            for k, call in enumerate(calls):
                started = process_time()
                call()
                best[k] = min(best[k], process_time() - started)
        yield f"five variables, {name}: SLSQP", 1e3 * best[0], 1e3 * best[1], "ms"


def _tiny_polytope() -> sets.Set:
    return sets.Polytope(np.ones((1, 5)), np.ones(1), bounds=(0.0, 1.0))


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    seeds = range(10 if full else 2)
    ours(functions.Quadratic(np.eye(3)), sets.Simplex(3))  # trigger late imports
    yield from tiny_rows()
    yield simplex_row(seeds)
    yield ramp_row(range(3 * len(seeds)))
    yield gromov_row(seeds, 60)
    yield gromov_row(seeds, 200)
    yield clique_row(200, 5.0 if full else 2.0)
    yield clique_row(250, 5.0 if full else 2.0)
    yield mcp_row(seeds)
