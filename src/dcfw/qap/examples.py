"""Generated instances of the classic kinds, which need no files.

The best values are the lowest of searches of a minute each (``dcfw qap NAME --time-limit 60``), not proven,
except that ``planted40`` has a known optimum.

>>> example("grid30")
Instance('grid30', n=30, best=6544, status='best_known')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dcfw.qap.generators import li_pardalos, nugent, taillard_uniform
from dcfw.qap.instances import Instance

EXAMPLES: dict[str, tuple[Callable[[], Instance], int | None]] = {
    "grid12": (lambda: nugent((3, 4), rng=12), 666),
    "grid30": (lambda: nugent((5, 6), rng=30), 6544),
    "grid64": (lambda: nugent((8, 8), rng=64), 43904),
    "uniform20": (lambda: taillard_uniform(20, rng=20), 680426),
    "uniform50": (lambda: taillard_uniform(50, rng=50), 5270512),
    "planted40": (lambda: li_pardalos((5, 8), rng=40), None),
}
"""Name -> generator and best known value (None: that of the instance)."""


def example(name: str) -> Instance:
    make, best = EXAMPLES[name]
    problem = replace(make(), name=name)
    return problem if best is None else replace(problem, best=best, status="best_known")
