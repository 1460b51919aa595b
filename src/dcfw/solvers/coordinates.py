"""Pairwise steps of a quadratic on a simplex, with all vertices in the active set from the start.

The weights are the entries of x (divided by the radius), and the matrix of :mod:`dcfw.solvers.weights` is the
Hessian.  Up to a few hundred variables a round of compiled steps costs a few gradients, and ends at better
points than steps that add one vertex after the other (``python -m bench peers``, the cliques).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dcfw import _protocol, kernels
from dcfw._arrays import Array
from dcfw.functions.base import Function
from dcfw.functions.quadratic import Quadratic
from dcfw.sets.atoms import OneHot
from dcfw.sets.base import Set
from dcfw.sets.simplex import Simplex
from dcfw.solvers.active import LOCAL, stuck
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.loop import State
from dcfw.solvers.weights import pairwise_steps

LARGEST = 512  # with more variables a step costs more than it gains


def applies(f: Function, domain: Set, x: Array) -> bool:
    """Return whether f is a quadratic and the set a simplex of vectors, without user overrides."""
    return (
        isinstance(f, Quadratic)
        and isinstance(domain, Simplex)
        and kernels.native is not None
        and isinstance(x, np.ndarray)
        and x.ndim == 1
        and len(x) <= LARGEST
        and x.dtype == np.float64
        and (isinstance(f.A, np.ndarray) or hasattr(f.A, "toarray"))
        and f.A.dtype == np.float64
        and not _protocol.overridden(f, Function, "value", "grad")
        and not _protocol.overridden(domain, Set, "lmo")
    )


def pairwise(X: State) -> Iterator[State]:
    """Take rounds of pairwise steps on a quadratic from X, yielding the state before each."""
    run, n = X.run, len(X.x)
    f: Any = X.f
    A, radius = f.A if isinstance(f.A, np.ndarray) else f.A.toarray(), run.domain.radius
    while True:
        run.outer_step()
        X.ask(X.grad)
        yield X
        run.before_step(X)
        x, scores = X.x.copy(), X.grad.copy()
        taken, gained, _ = pairwise_steps(A, x, scores, n, LOCAL * X.gap / radius, 8 * n + 100, math.inf)
        if not (taken and gained > 0.0):
            raise stuck(run, X)
        X.x, X.grad, X.value, X.gained = x, run.grad_f(f, x), None, None
        X.k += 1
        run.ledger.count_step(outer=True)


def vertices(x: np.ndarray, radius: float) -> ActiveSet:
    used = np.flatnonzero(x)
    atoms = [OneHot(j, radius, x.shape, x.dtype) for j in used.tolist()]
    return ActiveSet.of(atoms, x[used] / radius, 0.0 * x)  # type: ignore[arg-type]
