"""The core: a Frank-Wolfe iteration against copt's, its growth with n, and the overhead of the loop.

(a) Least squares on the l1 ball and on the simplex with Demyanov-Rubinov steps, the same constant and the
    same number of iterations; the last iterates must agree.  The peer computes A x and A'r in every
    iteration, as its interface requires; ours takes a column of A'A at the vertex and caches columns.
(b) Growth of the cost of an iteration on a dense quadratic when n grows tenfold.  One gradient would grow a
    hundredfold, a column grows tenfold.  The peer's column is our target.
(c) The time of a step spent outside the oracles, at n = 100, measured by timing every oracle call.
    The peer's column is our target.

(a) and (b) measure processor time on one thread, so that other processes do not disturb them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any

import copt.constraint
import numpy as np
from copt import minimize_frank_wolfe

import dcfw
from dcfw import functions, sets, steps

Row = tuple[str, float, float, str]

OVERHEAD_LIMIT = 15e-6  # seconds a step
GROWTH_LIMIT = 15.0  # times, for ten times the variables


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    yield from overhead_rows(full)
    yield from growth_rows(full)
    yield from least_squares_rows(full)


# -- (a) against copt -----------------------------------------------------------------------------------


class Simplex(copt.constraint.SimplexConstraint):
    """copt's simplex, repaired: its lmo lacks an argument that its solver passes, and returns the
    vertex -s e_i if the largest entry of u is negative."""

    def lmo(
        self, u: np.ndarray, x: np.ndarray, active_set: Any = None
    ) -> tuple[np.ndarray, int, None, float]:
        largest = int(np.argmax(u))
        direction = -x
        direction[largest] += self.s
        return direction, largest, None, 1.0


def least_squares_rows(full: bool) -> Iterator[Row]:
    for n, iterations, passes in ((1000, 400, 5), (10_000, 100 if full else 40, 3 if full else 1)):
        rng = np.random.default_rng(n)
        A = rng.standard_normal((n // 2, n))
        A /= np.sqrt(n // 2)
        truth = np.zeros(n)
        support = rng.choice(n, 20, replace=False)
        truth[support] = rng.uniform(0.5, 1.5, 20)
        b = A @ truth + 0.01 * rng.standard_normal(n // 2)
        L = 1.1 * _largest_square(A, rng)
        radius = float(truth.sum())
        for domain, peer in (
            (sets.L1Ball(n, radius), copt.constraint.L1Ball(radius)),
            (sets.Simplex(n, radius), Simplex(radius)),
        ):
            ours, theirs = _compare(A, b, L, domain, peer, iterations, passes)
            name = f"least squares, {type(domain).__name__}, n={n}, against copt"
            yield name, ours / iterations, theirs / iterations, "s/iteration"


def _compare(
    A: np.ndarray, b: np.ndarray, L: float, domain: Any, peer: Any, iterations: int, passes: int
) -> tuple[float, float]:
    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        r = A @ x - b
        return 0.5 * float(r @ r), A.T @ r

    x0 = domain.start()
    best = theirs = np.inf
    for _ in range(passes):
        f = functions.LeastSquares(A, b)  # a new one each time: no columns kept from the last pass
        seconds, res = _timed(
            lambda f=f: dcfw.minimize(
                f, domain, x0, method="fw", step=steps.Short(L), tol=0.0, maxiter=iterations
            )
        )
        best = min(best, seconds)
        seconds, other = _timed(
            lambda: minimize_frank_wolfe(
                value_and_gradient,
                x0,
                peer.lmo,
                jac=True,
                step="DR",
                lipschitz=L,
                max_iter=iterations,
                tol=0.0,
            )
        )
        theirs = min(theirs, seconds)
        assert res.nit == iterations
        distance = float(np.abs(res.x - other.x).max())
        assert distance <= 1e-8 * max(1.0, float(np.abs(other.x).max())), f"iterates differ by {distance:.1e}"
    return best, theirs


def _largest_square(A: np.ndarray, rng: np.random.Generator) -> float:
    """Return an approximation of the largest eigenvalue of A'A, by the power method."""
    v = rng.standard_normal(A.shape[1])
    for _ in range(20):
        v = A.T @ (A @ (v / np.linalg.norm(v)))
    return float(np.linalg.norm(v))


# -- (b) growth -----------------------------------------------------------------------------------------


def growth_rows(full: bool) -> Iterator[Row]:
    seconds: dict[tuple[str, int], float] = {}
    iterations = 2000
    for n in (1000, 10_000):
        i = np.arange(n, dtype=float)
        A = i[:, None] - i
        np.abs(A, out=A)
        A *= -0.02
        np.exp(A, out=A)  # positive definite and dense
        f = functions.Quadratic(A, np.cos(i), convex=True)
        for domain in (sets.Simplex(n), sets.L1Ball(n)):
            kind = type(domain).__name__
            work = _solver(f, domain, iterations)
            seconds[kind, n] = min(_timed(work)[0] for _ in range(5 if full else 3)) / iterations
    for kind in ("Simplex", "L1Ball"):
        growth = seconds[kind, 10_000] / seconds[kind, 1000]
        name = f"Quadratic on {kind}, growth from n=1000 to 10000 (limit)"
        yield name, growth, GROWTH_LIMIT, f"times, {1e6 * seconds[kind, 10_000]:.0f} us/iteration at 10000"


def _solver(f: functions.Function, domain: Any, iterations: int) -> Callable[[], Any]:
    def work() -> Any:
        res = dcfw.minimize(f, domain, method="fw", step="open-loop", tol=0.0, maxiter=iterations)
        assert res.nit == iterations
        return res

    return work


# -- (c) overhead ---------------------------------------------------------------------------------------


class Clock:
    """Add up the time spent in the calls that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            started = perf_counter()
            answer = call(*arguments)
            self.seconds += perf_counter() - started
            return answer

        return timed


def timed_function(function: functions.Function, clock: Clock) -> functions.Function:
    """Return the function with a clock around each of its oracles."""
    for verb in ("value", "grad", "grad_at", "linearise", "value_from_grad"):
        setattr(function, verb, clock.around(getattr(function, verb)))
    return function


class TimedSet:
    """A set with a clock around its oracle."""

    def __init__(self, domain: Any, clock: Clock) -> None:
        self.domain, self.clock, self.shape = domain, clock, domain.shape
        self.lmo, self.contains, self.start = domain.lmo, domain.contains, domain.start

    def oracle(self) -> Any:
        oracle = self.domain.oracle()

        class Timed:
            error = 0.0
            __call__ = staticmethod(self.clock.around(oracle))

        return Timed()


def overhead_rows(full: bool) -> Iterator[Row]:
    n = 100
    i = np.arange(n, dtype=float)
    A = np.exp(-0.1 * np.abs(i[:, None] - i))
    for method, options in (
        ("dcfw", {"max_inner": 100, "maxiter": 5, "tolerance": 1e-14}),
        ("fw", {"maxiter": 500}),
    ):
        least = np.inf
        for _ in range(200 if full else 60):  # short runs, of which the least disturbed counts
            clock = Clock()
            f = timed_function(functions.Quadratic(A, np.cos(i), convex=True), clock)
            g = timed_function(functions.SquaredNorm(0.1), clock)
            domain = TimedSet(sets.L1Ball(n, radius=5.0), clock)
            objective = f - g if method == "dcfw" else f
            work = functools.partial(
                dcfw.minimize, objective, domain, method=method, step="open-loop", tol=0.0, **options
            )
            seconds, res = _timed(work, perf_counter)
            assert res.n_inner == 500
            least = min(least, (seconds - clock.seconds) / res.n_inner)
        yield f"overhead of a step, {method}, n={n} (limit)", least, OVERHEAD_LIMIT, "s/step"


def _timed(work: Callable[[], Any], clock: Callable[[], float] = process_time) -> tuple[float, Any]:
    started = clock()
    answer = work()
    return clock() - started, answer
