"""Sliding steps on a Euclidean ball, where the surrogate's minimiser takes one call of the oracle.

With the split phi = L/2 ||x||^2 - (L/2 ||x||^2 - phi) a DC step minimises L/2 ||z - c||^2, c = x - grad
phi(x) / L. On a ball the solution is c or its projection, without an inner loop.  L is the curvature along
the last step, as in spectral gradient methods, and may be too small for an upper bound; so a nonmonotone line
search follows. The default takes these steps first on l2 balls (:mod:`dcfw.solvers.staged`).

References: Barzilai and Borwein 1988; Birgin, Martinez and Raydan 2000.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcfw import _protocol
from dcfw._arrays import Array, inner, norm, norm2
from dcfw.functions.base import Function
from dcfw.sets.base import Set
from dcfw.sets.norms import LpBall
from dcfw.solvers.loop import State
from dcfw.solvers.run import Run

FIRST = 0.2  # length of the first step, relative to the radius
MEMORY = 10  # a step must fall below the largest of this many values
ENOUGH = 1e-4  # the part of the decrease promised by the slope that a step must achieve
TRIALS = 40


def applies(domain: Set) -> bool:
    """Return whether the set is one of the library's l2 balls."""
    return isinstance(domain, LpBall) and domain.p == 2.0 and not _protocol.overridden(domain, Set, "lmo")


def sliding_steps(X: State) -> Iterator[State]:
    """Take sliding steps on phi from X, yielding the state before each."""
    run, phi = X.run, X.f
    radius: float = run.domain.radius
    values: list[Any] = [X.value]
    L = norm(X.grad) / (FIRST * radius)
    while True:
        run.outer_step()
        S = X.ask(X.grad)
        yield X
        run.before_step(X)
        d = _nearest(X.x - X.grad / L, radius) - X.x if L > 0.0 else S.dense() - X.x
        eta, fun = _length(run, phi, X.x, d, inner(X.grad, d), values)
        if eta == 0.0:
            return
        x = X.x + eta * d
        grad = run.grad_f(phi, x)
        moved = eta * d
        L = max(inner(grad - X.grad, moved) / norm2(moved), 0.0)
        values = [*values[1 - MEMORY :], fun]
        X.x, X.grad, X.value, X.gained = x, grad, fun, X.start[1] - fun  # type: ignore[operator]
        X.k += 1
        run.ledger.count_step(outer=True)


def _nearest(c: Array, radius: float) -> Array:
    length = norm(c)
    return c * (radius / length) if length > radius else c


def _length(
    run: Run, phi: Function, x: Array, d: Array, slope: float, values: list[float]
) -> tuple[float, float]:
    """Return the length of a step along d and the value there; the length is 0 if none is found."""
    eta, here, bar = 1.0, values[-1], max(values)
    for _ in range(TRIALS if slope < 0.0 else 0):
        fun = run.value(phi, x + eta * d)
        if fun <= bar + ENOUGH * eta * slope:
            return eta, fun
        parabola = -0.5 * slope * eta * eta / (fun - here - eta * slope)
        eta = min(max(parabola, 0.1 * eta), 0.5 * eta)
    return 0.0, here
