"""Compare the seconds of a call with 1.3 times its time limit plus one oracle call.

A ratio of at least 1 means that the limit was kept.  The oracle call is timed alone, at the start's gradient,
in the same process.  Processor time replaces wall-clock time, so that other processes have no influence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import dcfw
from dcfw import functions, qap, sets
from dcfw.qap.quadratics import relaxed

ALLOWED = 1.3


def run(full: bool) -> Iterator[tuple[str, float, float]]:
    """Yield the name of a problem, the seconds used, and those allowed."""
    time.perf_counter = time.process_time
    qap.solve(np.eye(3), np.eye(3))  # imports are not part of it
    rng = np.random.default_rng(0)
    for n in (1500, 3000) if full else (1000,):
        A, B = (sp.random(n, n, 0.01, random_state=seed, format="csr") for seed in (1, 2))
        yield _assignment(f"qap.solve, sparse, n = {n}", A, B, 1.0)
        A, B = rng.random((2, n, n))
        yield _assignment(f"qap.solve, dense, n = {n}", A, B, 1.0)
    M = rng.standard_normal((1500, 1500))
    phi = functions.Quadratic(M + M.T)
    yield _generic("indefinite Quadratic on a simplex, n = 1500", phi, sets.Simplex(1500), 1.0)
    rows = 10_000
    constraints = sp.random(rows, 200, 0.05, random_state=1, format="csr")
    polytope = sets.Polytope(constraints, np.ones(rows), bounds=(0.0, 1.0))
    Q = rng.standard_normal((200, 200))
    yield _generic("Polytope, 10^4 rows", functions.Quadratic(Q @ Q.T, -rng.random(200)), polytope, 1.0)
    shape = (5000, 2000) if full else (1500, 800)
    Y = rng.standard_normal(shape)
    f = functions.Smooth(
        lambda X: 0.5 * float(np.square(X - Y).sum()), lambda X: X - Y, lipschitz=1.0, convex=True
    )
    ball = sets.NuclearBall(shape, radius=10.0)
    yield _generic(f"NuclearBall, {shape[0]} x {shape[1]}", f - functions.SquaredNorm(0.1), ball, 1.0)


def _assignment(name: str, A: Any, B: Any, limit: float) -> tuple[str, float, float]:
    n = A.shape[0]
    phi, domain = relaxed(A, B), sets.Birkhoff(n)
    call = _seconds(lambda: domain.oracle()(phi.grad(domain.start())))
    return name, _seconds(lambda: qap.solve(A, B, time_limit=limit, rng=0)), ALLOWED * limit + call


def _generic(name: str, phi: Any, domain: Any, limit: float) -> tuple[str, float, float]:
    call = _seconds(lambda: domain.oracle()(phi.grad(domain.start())))
    return name, _seconds(lambda: dcfw.minimize(phi, domain, time_limit=limit)), ALLOWED * limit + call


def _seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
