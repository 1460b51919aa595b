"""Objectives with a norm: ``minimize(loss + MCP(0.1), domain)``.

Frank-Wolfe needs a smooth f, and a norm is not smooth.  :func:`prepare` makes it linear

* on a set of nonnegative vectors, where ||x||_1 is the sum of x;
* on a ball of the same norm, with one more variable (:mod:`dcfw.functions.lifting`);
* on a box, a polytope or an l2 ball, with x = u - v and u, v >= 0: there ||x||_1 <= sum(u + v), with
  equality at solutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, like, namespace, to_numpy
from dcfw.functions.base import Function
from dcfw.functions.dc import DC
from dcfw.functions.lifting import Lifted, lift
from dcfw.functions.norms import L1Norm
from dcfw.functions.penalties import Composite, as_composite
from dcfw.functions.sums import LinearFunction, Zero, total_of
from dcfw.result import Result
from dcfw.sets.base import Oracle, Set, excess
from dcfw.sets.norms import Box, L1Ball, L2Ball, LInfBall
from dcfw.sets.polytope import Polytope
from dcfw.sets.spectral import SchattenBall


class Total(LinearFunction, trusted=True):
    """The function scale * sum(x), the l1 norm of a nonnegative x."""

    def value(self, x: Array) -> float:
        return self.scale * float(namespace(x).sum(x))

    def grad(self, x: Array) -> Array:
        return 0.0 * x + self.scale

    def __repr__(self) -> str:
        return f"{self.scale:g} * sum(x)"


class Halves(Set, trusted=True):
    """Vectors (u, v) >= 0 with u - v in a box, a polytope or an l2 ball; converts like an epigraph."""

    def __init__(self, base: Any) -> None:
        self.base = base
        self.count = math.prod(base.shape)
        self.shape = (2 * self.count,)
        self.scale = base.scale
        self.round = isinstance(base, L2Ball)
        if self.round:
            self.radius = base.radius
        else:
            box = base if isinstance(base, Box | Polytope) else Box(-base.radius, base.radius, base.shape)
            ends = box._implied_bounds() if isinstance(box, Polytope) else (box.lower, box.upper)
            low, high = (end.reshape(-1) for end in ends)
            lower = np.concatenate([np.maximum(low, 0.0), np.maximum(-high, 0.0)])
            upper = np.concatenate([np.maximum(high, 0.0), np.maximum(-low, 0.0)])
            self.box = _halved(box, lower, upper) if isinstance(box, Polytope) else Box(lower, upper)
            self.polytope = True

    def oracle(self) -> Oracle:
        return self.box.oracle() if isinstance(self.base, Polytope) else super().oracle()

    @property
    def diameter(self) -> float:  # type: ignore[override]
        return math.sqrt(2.0) * self.radius if self.round else self.box.diameter

    def point(self, z: Array) -> Array:
        """Return x = u - v."""
        return namespace(z).reshape(z[: self.count] - z[self.count :], self.base.shape)

    def lift(self, x: Array, t: float | None = None) -> Array:
        """Return the positive and negative parts (u, v) of x; with t, the gradient x as one in (u, v)."""
        xp = namespace(x)
        flat = xp.reshape(x, (-1,))
        parts = [flat, -flat] if t is not None else [0.5 * (abs(flat) + flat), 0.5 * (abs(flat) - flat)]
        return xp.concat(parts)

    def _vertex(self, G: Array) -> Array:
        if not self.round:
            return self.box.lmo(G)
        down = 0.5 * (abs(G) - G)
        length = float(namespace(G).sum(down * down)) ** 0.5
        return down * (self.radius / length) if length else down

    def violation(self, x: Array) -> float:
        z = self._values(x)
        if not self.round:
            return self.box.violation(z)
        return excess(max(float(np.linalg.norm(z)) - self.radius, -float(z.min())))

    def _centre(self) -> np.ndarray:
        return np.asarray(self.lift(np.asarray(to_numpy(self.base.start()), dtype=np.float64)))


def _halved(base: Polytope, lower: np.ndarray, upper: np.ndarray) -> Polytope:
    """Return the polytope of the (u, v) between bounds with u - v in ``base``."""

    def twice(A: Any) -> Any:
        if hasattr(A, "tocsr"):
            from scipy import sparse

            return sparse.hstack([A, -A], format="csr")
        return None if A is None else np.hstack([A, -A])

    b_ub, b_eq = (None if A is None else b for A, b in ((base.A_ub, base.b_ub), (base.A_eq, base.b_eq)))
    return Polytope(twice(base.A_ub), b_ub, twice(base.A_eq), b_eq, np.column_stack([lower, upper]))


class HalvedFunction(Lifted, trusted=True):
    """A function of x as one of (u, v): the map to x = u - v has the norm sqrt(2)."""

    @property
    def lipschitz(self) -> float | None:
        return total_of([self.function.lipschitz] * 2)

    @property
    def weak_convexity(self) -> float | None:
        return total_of([self.function.weak_convexity] * 2)


class Way(NamedTuple):
    """A problem without a norm in f, and the maps of points to it and back (None if they do not change)."""

    phi: Function
    domain: Any
    original: Function
    there: Callable[[Array], Array] | None = None
    back: Callable[[Array], Array] | None = None

    def start(self, x0: Any, given: Set) -> Any:
        """Map a start in the ``given`` set to the new problem."""
        return x0 if x0 is None or self.there is None else self.there(_validate.point(x0, "x0", given))

    def result(self, result: Result) -> Result:
        if self.back is not None:
            result.x = like(np.array(to_numpy(self.back(result.x))), result.x)
            result.fun, result.active_set = self.original.value(result.x), None
        return result


def presented(callback: Any, back: Callable[[Array], Array] | None) -> Any:
    """Wrap a callback so that it receives points of the original problem."""
    if callback is None or back is None:
        return callback

    def call(intermediate_result: Result) -> Any:
        intermediate_result.x = back(intermediate_result.x)
        return callback(intermediate_result)

    return call


def same_size(phi: Function, domain: Set, shape: tuple[int, ...]) -> None:
    """Raise unless the function has as many variables as the points of the set."""
    if phi.size is not None and phi.size != math.prod(shape):
        raise ValueError(
            f"objective is a function of {phi.size} variables, but the points of {domain!r} have shape "
            f"{tuple(shape)}"
        )


def prepare(phi: Function, domain: Set) -> Way:
    """Return the problem in a form without a norm in f."""
    composite = as_composite(phi)
    if not isinstance(composite, Composite):
        return Way(phi, domain, phi)
    norm, smooth, g = composite.norm, composite.smooth, composite.g
    if domain.shape is not None:
        same_size(smooth, domain, domain.shape)
    total = Total(norm.scale)
    if isinstance(norm, L1Norm) and domain.nonnegative:
        f = total if isinstance(smooth, Zero) else smooth + total
        return Way(DC(f, g, conditional=composite.conditional), domain, phi)
    ball = L1Ball if isinstance(norm, L1Norm) else SchattenBall
    if isinstance(domain, ball) and getattr(domain, "p", None) == 1.0:
        lifted, epigraph = lift(phi, domain)
        return Way(lifted, epigraph, phi, epigraph.lift, epigraph.point)
    if isinstance(norm, L1Norm) and isinstance(domain, Box | LInfBall | L2Ball | Polytope):
        halves: Any = Halves(domain)
        f = total if isinstance(smooth, Zero) else HalvedFunction(smooth, halves) + total
        dc = DC(f, HalvedFunction(g, halves), conditional=composite.conditional)
        return Way(dc, halves, phi, halves.lift, halves.point)
    raise ValueError(
        f"objective has the norm {norm!r} in its convex part, which must be smooth for Frank-Wolfe, and no "
        f"way to make it linear over {_validate.shown(domain)} is known: take a ball of the norm, a set of "
        "nonnegative vectors, a box, a polytope or an l2 ball (for the l1 norm), or state it with one more "
        "variable yourself"
    )
