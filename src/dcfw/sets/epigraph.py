"""Epigraphs of norms, {(x, t): ||x|| <= t <= r}, in which a norm in the objective becomes the variable t.

The vertices are the apex (0, 0) and (s, r) for the vertices s of the ball ||x|| <= r: the linear oracle takes
the ball's s, and returns (s, r) if <G, s> + g r < 0, else the apex.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw._arrays import Array, is_numpy, namespace
from dcfw.sets.atoms import Atom, Dense, Entries, OneHot
from dcfw.sets.base import Oracle, Set, excess, state_in
from dcfw.sets.lp import lp_norm
from dcfw.sets.norms import LpBall
from dcfw.sets.spectral import SchattenBall


@state_in("lower")
class EpigraphOracle(Oracle):
    """The ball's oracle and a comparison; ``error`` is the ball's."""

    def __init__(self, domain: Epigraph) -> None:
        self.domain = domain
        self.lower = domain.ball.oracle()

    def __call__(self, G: Array) -> Atom:
        domain = self.domain
        Gx = domain.point(G)
        S = self.lower(Gx)
        self.error = self.lower.error
        radius = float(domain.radius)
        away = S.inner(Gx) + float(G[-1]) * radius < 0.0
        if isinstance(S, OneHot):
            # The apex has two entries as well (zeros), as an active set stacks vertices of one size.
            return self._raised(G, *((S.index, S.value, radius) if away else (0, 0.0, 0.0)))
        return Dense(domain.lift(S.dense(), radius) if away else 0.0 * G)

    def runners_up(self, G: Array, count: int) -> list[Atom]:
        near = self.lower.runners_up(self.domain.point(G), count)
        return [self._raised(G, S.index, S.value, self.domain.radius) for S in near if isinstance(S, OneHot)]

    def _raised(self, G: Array, index: int, value: float, top: float) -> Entries:
        """Return the vertex of the ball with this entry, at height ``top``."""
        return Entries(np.array([index, G.shape[0] - 1]), np.array([value, top], dtype=G.dtype), G.shape)


class Epigraph(Set, trusted=True):
    """The set {(x, t): ||x|| <= t <= r} for a ball ||x|| <= r; its points are vectors, x raveled and then t.

    Parameters
    ----------
    ball : LpBall or SchattenBall
        Any ball of an l_p or Schatten norm.

    Examples
    --------
    >>> domain = dcfw.sets.Epigraph(dcfw.sets.L1Ball(2, radius=3.0))
    >>> domain.lmo(np.array([0.5, -2.0, 1.0])), domain.lmo(np.array([0.5, -0.9, 1.0]))
    (array([0., 3., 3.]), array([0., 0., 0.]))
    """

    _oracle = EpigraphOracle

    def __init__(self, ball: LpBall | SchattenBall) -> None:
        if not isinstance(ball, LpBall | SchattenBall):
            raise TypeError(f"ball must be a ball of an l_p or Schatten norm, got {type(ball).__name__}")
        self.ball = ball
        self.radius = self.scale = ball.radius
        self.shape = (math.prod(ball.shape) + 1,)
        self.polytope, self.faces = ball.polytope, ball.faces
        # Between two vertices of the ball, or from the apex to one of them.
        self.diameter = max(ball.diameter, math.hypot(0.5 * ball.diameter, ball.radius))

    def point(self, z: Array) -> Array:
        """Return the x of z = (x, t), a view where the backend has views."""
        x, shape = z[:-1], self.ball.shape
        return x.reshape(shape) if is_numpy(z) else namespace(z).reshape(x, shape)

    def lift(self, x: Array, t: float | None = None) -> Array:
        """Return (x, t), with t = ||x|| unless given."""
        if t is None:
            t = self._norm(self.ball._values(x))
        xp = namespace(x)
        flat = xp.reshape(x, (-1,))
        return xp.concat([flat, xp.full_like(0.0 * flat[:1], t)])

    def _norm(self, x: np.ndarray) -> float:
        if isinstance(self.ball, SchattenBall):
            x = np.linalg.svd(x, compute_uv=False)
        return lp_norm(x, self.ball.p)

    def _vertex(self, G: Array) -> Array:
        return EpigraphOracle(self)(G).dense()

    def check_work(self) -> float:
        return self.ball.check_work()

    def violation(self, x: Array) -> float:
        """Return the larger of ||x|| - t and t - r where that is positive."""
        z = self._values(x)
        if not np.isfinite(z).all():
            return math.inf
        return excess(max(self._norm(self.point(z)) - z[-1], z[-1] - self.radius))

    def _centre(self) -> np.ndarray:
        return np.zeros(self.shape)

    def __repr__(self) -> str:
        return f"Epigraph({self.ball!r})"
