"""In-face steps, which store no vertices, against blended steps, which keep an active set.

DC-FW on a convex function that is not quadratic: the pseudo-Huber distance, sum sqrt(r^2 + 0.01), of X (or
of A x) from a target, to 1e-4 of the first gap.  The targets are uniform random matrices and sparse
stochastic ones for the Birkhoff polytope, 200 random measurements for the vectors.  Rows: processor time of
the two, measured alternately, and the number of oracle calls; in-face steps count every vertex of a face as a
call.  A run that is stopped after a minute is marked in its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np

import dcfw
from dcfw import functions, sets

Row = tuple[str, float, float, str]
INNERS = ("in-face", "blended")


class Robust(functions.Function):
    """sum_i sqrt(r_i^2 + 0.01) with r = A x - b, or x - b."""

    convex = True

    def __init__(self, b: np.ndarray, A: np.ndarray | None = None) -> None:
        self.A, self.b = A, b

    def _residual(self, x: Any) -> Any:
        return (x if self.A is None else self.A @ x) - self.b

    def value(self, x: Any) -> float:
        return float(np.sqrt(self._residual(x) ** 2 + 0.01).sum())

    def grad(self, x: Any) -> Any:
        r = self._residual(x)
        r = r / np.sqrt(r * r + 0.01)
        return r if self.A is None else self.A.T @ r

    def hessian(self, x: Any) -> Any:
        r = self._residual(x)
        weights = (0.01 / (r**2 + 0.01) ** 1.5).reshape(-1)
        return np.diag(weights) if self.A is None else (self.A.T * weights) @ self.A


def problems(full: bool) -> Iterator[tuple[str, Robust, Any]]:
    """Yield a name, a function and a set."""
    rng = np.random.default_rng(0)
    n = 100
    yield f"Birkhoff n={n}, uniform target", Robust(rng.random((n, n))), sets.Birkhoff(n)
    n = 100 if full else 40
    yield f"Birkhoff n={n}, sparse target", Robust(rng.dirichlet(np.full(n, 0.05), n)), sets.Birkhoff(n)
    A, x = rng.standard_normal((200, 300)), np.clip(2.0 * rng.random(300) - 0.5, 0.0, 1.0)
    b = A @ x + 0.01 * rng.standard_normal(200)
    yield "Hypersimplex(300, 60)", Robust(b, A), sets.Hypersimplex(300, 60)
    yield "Box, n=300", Robust(b, A), sets.Box(0.0, 0.5, 300)
    yield "LInfBall, n=300", Robust(b, A), sets.LInfBall(300, 0.3)


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    for inner in INNERS:  # warm-up
        dcfw.minimize(Robust(np.eye(3)), sets.Birkhoff(3), method="dcfw", inner=inner)
    for name, f, domain in problems(full):
        seconds, notes = [], []
        for inner in INNERS:
            started = process_time()
            res = dcfw.minimize(
                f, domain, method="dcfw", inner=inner, rtol=1e-4, max_inner=10**6, time_limit=60
            )
            seconds.append(process_time() - started)
            notes.append(f"{res.n_lmo:,}" + ("" if res.success else " (not there)"))
        yield f"{name}: in-face vs blended, {notes[0]} calls vs {notes[1]}", *seconds, "s"
