"""Quadratic assignment: our iterations against those of others, on QAPLIB.

- ``FW``: one iteration of ``qap.solve(method="fw")`` against one of SciPy's ``quadratic_assignment`` (FAQ),
  which is the same method, from the same random start.
- ``DC-FW``: one inner iteration of variant 1 with vanilla steps, published protocol, against
  :mod:`bench.transcription`, for the same iterates (checked to 1e-8, but for tai256c with its ties).
- ``LAP``: the geometric means of :mod:`bench.lap`.

Times are total time over the number of iterations, everything included but compilation; passes alternate
between the two and the fastest of each counts.

    python -m bench qap [--full]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from scipy.optimize import quadratic_assignment

from bench import lap
from bench.transcription import dc_frank_wolfe
from dcfw import qap
from dcfw.sets import Birkhoff

Row = tuple[str, float, float, str]

# instance: iterations of FW, inner iterations of DC-FW
INSTANCES = {
    "nug12": (200, 3000),
    "bur26a": (200, 2000),
    "tai30a": (200, 2000),
    "tai50a": (200, 1000),
    "sko100a": (60, 200),
    "tho150": (60, 100),
    "tai256c": (20, 30),
}
PASSES = 5
TIED = {"tai256c"}
"""Where assignment problems have many optimal solutions (a matrix of tai256c repeats its rows): the two sides
take different ones, and only the cost of a step can be compared."""


def alternate(*runs: Callable[[], Any], passes: int = PASSES) -> Iterator[tuple[float, Any]]:
    """Return (seconds of the fastest pass, answer) for each of the runs, made in turns."""
    best = [math.inf] * len(runs)
    answers: list[Any] = [None] * len(runs)
    for _ in range(passes):
        for k, run in enumerate(runs):
            begun = perf_counter()
            answers[k] = run()
            best[k] = min(best[k], perf_counter() - begun)
    return zip(best, answers, strict=True)


def data(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A and B as floats (SciPy is faster with them) and a random start."""
    instance = qap.load(name)
    X0 = Birkhoff(instance.n).random(np.random.default_rng(0), scale=0.001)
    return instance.A.astype(float), instance.B.astype(float), X0


def fw_rows(full: bool = False) -> Iterator[Row]:
    """Yield seconds per iteration of Frank-Wolfe and of SciPy's FAQ."""
    A, B, X0 = data("nug12")
    qap.solve(A, B, method="fw", init=X0, maxiter=10)  # compiled before the clock starts
    for name, (iterations, _) in INSTANCES.items():
        A, B, X0 = data(name)
        steps = (2 if full else 1) * iterations

        def ours(A: Any = A, B: Any = B, X0: Any = X0, steps: int = steps) -> int:
            return int(qap.solve(A, B, method="fw", init=X0, maxiter=steps, rtol=0.0).n_inner)

        def faq(A: Any = A, B: Any = B, X0: Any = X0, steps: int = steps) -> int:
            options = {"P0": X0, "maxiter": steps, "tol": 1e-300}
            return int(quadratic_assignment(A, B, method="faq", options=options).nit)

        (our_seconds, our_steps), (their_seconds, their_steps) = alternate(ours, faq)
        yield f"FW {name}", our_seconds / max(our_steps, 1), their_seconds / their_steps, "s/iteration"


def dc_rows(full: bool = False) -> Iterator[Row]:
    """Yield seconds per inner iteration of DC-FW and of its transcription, at equal iterates."""
    options: dict[str, Any] = {"split": "paper", "inner": "fw", "protocol": "published"}
    A, B, X0 = data("nug12")
    qap.solve(A, B, init=X0, max_lmo=10, **options)
    for name, (_, iterations) in INSTANCES.items():
        A, B, X0 = data(name)
        budget = (2 if full else 1) * iterations

        def ours(A: Any = A, B: Any = B, X0: Any = X0, budget: int = budget) -> Any:
            return qap.solve(A, B, init=X0, max_lmo=budget, **options)

        steps = ours().n_inner

        def plain(A: Any = A, B: Any = B, X0: Any = X0, steps: int = steps) -> Any:
            return dc_frank_wolfe(A, B, X0, max_inner=steps)

        (our_seconds, result), (their_seconds, (X, their_steps)) = alternate(ours, plain)
        assert their_steps == steps, f"{name}: {steps} steps against {their_steps}"
        distance = float(np.abs(result.x - X).max())
        assert distance <= 1e-8 or name in TIED, (
            f"{name}: the iterates differ by {distance:.1e} after {steps} steps"
        )
        yield f"DC-FW {name}", our_seconds / steps, their_seconds / steps, "s/iteration"


def lap_rows(full: bool = False) -> Iterator[Row]:
    """Yield one line for all sequences of :mod:`bench.lap`."""
    rows = [(row[1], row[2]) for row in lap.run(full)]
    ours, theirs = (math.exp(sum(map(math.log, column)) / len(rows)) for column in zip(*rows, strict=True))
    yield f"LAP, mean of {len(rows)} sequences", ours, theirs, "s/solve"


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, theirs, unit) for all of them."""
    yield from fw_rows(full)
    yield from dc_rows(full)
    yield from lap_rows(full)


def main(full: bool = False) -> None:
    """Print the rows, and for each kind the geometric and the least ratio."""
    for kind in (fw_rows, dc_rows, lap_rows):
        ratios = []
        for name, ours, theirs, unit in kind(full):
            ratios.append(theirs / ours)
            times = f"{1e6 * ours:10.1f} {1e6 * theirs:10.1f} u{unit:12s}"
            print(f"{name:24s} {times} {ratios[-1]:7.2f}", flush=True)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"  geometric mean {mean:.2f}, least {min(ratios):.2f}\n", flush=True)


if __name__ == "__main__":
    import sys

    main("--full" in sys.argv[1:])
