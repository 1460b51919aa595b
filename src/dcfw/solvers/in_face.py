"""Frank-Wolfe with in-face steps: away directions from the face of X, without stored atoms.

The smallest face that contains X replaces a list of atoms: a step leads from its vertex A with the largest
<G, A> to its vertex with the smallest, while that promises at least half of the last FW gap, else to the
oracle's vertex S, which may leave the face.  The longest feasible step ends on a smaller face.

Vertices of a face come from the set's own oracle, with costs on the entries at a bound
(:meth:`dcfw.sets.Set.entry_bounds`) so high that no vertex leaves it; each counts as an oracle call.  A face
found wrongly costs progress but not feasibility.

References: Garber and Meshi 2016 (decomposition-invariant steps); Bashiri and Zhang 2017 (line search, any
polytope); Freund, Grigas and Mazumder 2017 (in-face directions).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dcfw._arrays import Array, eps_of, inner, like, namespace
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Set
from dcfw.solvers.loop import InnerLoop, State, affine_step, smooth_step, too_small

ROUNDING = 64.0  # entries within this many roundings of the set's size are at a bound


class InFaceLoop(InnerLoop):
    """Inner loop with in-face steps, for one solve over a set that declares ``entry_bounds``.

    It pays where vertices have many entries (boxes, hypersimplices, assignments, plans) and f is not a
    quadratic, whose active set is optimised without further gradients.

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> f = functions.LeastSquares(np.eye(3), np.array([0.6, 0.5, -0.4]))
    >>> res = dcfw.minimize(f, sets.Box(0.0, 0.5, 3), inner="in-face")
    >>> res.x.round(6), res.success
    (array([0.5, 0.5, 0. ]), True)
    """

    def __init__(self, domain: Set) -> None:
        bounds = domain.entry_bounds()
        if bounds is None:
            raise ValueError(
                f"inner='in-face' needs a set whose faces are given by bounds on the entries; {domain.name} "
                "declares none (entry_bounds): use inner='blended'"
            )
        self.domain, self.bounds = domain, bounds
        self.oracles = domain.oracle(), domain.oracle()  # for G and -G, each warm-started
        # A cycle of exchanges may change as many entries as a vertex has; vectors exchange two.
        self.exchanged = 2.0 * sum(domain.shape)
        self.target = math.inf

    def get_state(self) -> dict[str, Any]:
        return {"oracles": [oracle.get_state() for oracle in self.oracles], "target": self.target}

    def set_state(self, state: dict[str, Any]) -> None:
        for oracle, own in zip(self.oracles, state["oracles"], strict=True):
            oracle.set_state(own)
        self.target = state["target"]

    def steps(self, X: State) -> Iterator[State]:
        run = X.run
        self.low, self.high = (like(np.full(tuple(X.x.shape), end), X.x) for end in self.bounds)
        self.target = math.inf
        while True:
            if X.outer:
                run.outer_step()
            G = X.slope()
            A = end = self.face_vertex(-G, X.x, away=True)
            run.ledger.count_lmo()
            if self.target < math.inf:
                end = self.face_vertex(G, X.x)
                run.ledger.count_lmo()
            slope = A.inner(G) - end.inner(G)
            if not slope >= self.target or (X.outer and run.n_inner >= run.maxiter):
                end = X.ask(G)
                yield X
                self.target = 0.5 * X.gap
                slope = A.inner(G) - end.inner(G)
            run.before_step(X)
            far, slope = self._far(X, A, end, slope, inner(G, X.x) - end.inner(G))
            if not slope > 0.0:
                raise too_small(X)
            (affine_step if X.f.affine_grad and X.merit is None else smooth_step)(X, far, slope)
            X.x = self._settled(X.x)
            if not X.advance(reserve=3):
                return

    def face_vertex(self, G: Array, x: Array, away: bool = False) -> Atom:
        low, high = self.at_bounds(x)
        xp = namespace(G)
        size = float(xp.max(xp.abs(G)))
        wall = xp.full_like(G, 2.0 * (self.exchanged + 1.0) * size)
        return self.oracles[away](xp.where(low, G + wall, xp.where(high, G - wall, G)))

    def _far(self, X: State, A: Atom, end: Atom, slope: float, towards: float) -> tuple[Dense, float]:
        """Return the end of the longest step along ``end`` - A (``end``, if none is left), and its slope."""
        d = end.dense() - A.dense()
        length = float(self.domain.reach(X.x, d)) if slope > 0.0 else 0.0
        if not ROUNDING * eps_of(X.x) < length < math.inf:
            return Dense(end.dense()), towards
        return Dense(self._settled(X.x + length * d)), length * slope

    def at_bounds(self, x: Array) -> tuple[Array, Array]:
        room = ROUNDING * eps_of(x) * self.domain.scale
        return x - self.low <= room, self.high - x <= room

    def _settled(self, x: Array) -> Array:
        at_low, at_high = self.at_bounds(x)
        xp = namespace(x)
        return xp.where(at_low, self.low, xp.where(at_high, self.high, x))
