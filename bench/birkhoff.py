"""Compare projection with linear minimisation on the Birkhoff polytope.

The paper's appendix argues for Frank-Wolfe by the cost of one iteration: a projection onto the doubly
stochastic matrices against one assignment problem.  Both are measured on the same random matrices, each with
the best method: Newton's method on the dual (to 1e-8) for the projection, the assignment solver from a cold
start for the linear minimisation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from dcfw.sets import Birkhoff


def run(full: bool = False) -> Iterator[tuple[str, float, float]]:
    """Yield (name, seconds of one LMO, seconds of one projection) for growing n."""
    for n in (50, 100, 200, 500) if full else (50, 100, 200):
        rng = np.random.default_rng(n)
        domain = Birkhoff(n)
        matrices = [1.0 / n + rng.standard_normal((n, n)) for _ in range(3)]
        domain.lmo(matrices[0])  # warm-up
        lmo = [_best(lambda: domain.lmo(-Y)) for Y in matrices]  # noqa: B023
        projection = [_best(lambda: domain.project(Y)) for Y in matrices]  # noqa: B023
        yield f"Birkhoff n={n}: LMO vs projection", float(np.median(lmo)), float(np.median(projection))


def _best(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
