"""The segment from X to a vertex S: everything that a step rule may query.

With m the function that Frank-Wolfe minimises (the surrogate f - <u, .>, or phi itself) and d = S - X:

``gap``           <grad m(X), X - S>
``norm2``         ||d||^2
``curvature``     <d, grad m(S) - grad m(X)> for affine gradients, None otherwise
``decrease(eta)`` m(X) - m(X + eta d)
``slope(eta)``    <grad m(X + eta d), d>
``land(eta)``     the new point with its gradient
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Protocol

from dcfw._arrays import Array, eps_of, inner, norm
from dcfw.sets.atoms import Atom


class Segment(Protocol):
    """The interface of a segment for step rules."""

    k: int
    gap: float
    convex: bool

    @property
    def rounding(self) -> float: ...
    @property
    def norm2(self) -> float: ...
    @property
    def curvature(self) -> float | None: ...
    def decrease(self, eta: float) -> float: ...
    def slope(self, eta: float) -> float: ...
    def land(self, eta: float) -> tuple[Array, Array, float | None]: ...


class AffineSegment:
    """A segment of a function with affine gradient."""

    __slots__ = ("S", "change", "convex", "curvature", "gap", "grad", "k", "x")

    def __init__(
        self, x: Array, grad: Array, S: Atom, grad_at_S: Array, gap: float, k: int, convex: bool
    ) -> None:
        self.x, self.grad, self.S, self.gap, self.k, self.convex = x, grad, S, gap, k, convex
        self.change = change = grad_at_S - grad
        self.curvature: float = S.inner(change) - inner(x, change)

    @property
    def rounding(self) -> float:
        """The uncertainty of ``decrease``, which is computed from the gap and the curvature."""
        return 1e-15 * self.gap

    @property
    def norm2(self) -> float:
        return self.S.distance2(self.x)

    def end(self) -> Array:
        return self.S.dense()

    def decrease(self, eta: float) -> float:
        return eta * (self.gap - 0.5 * eta * self.curvature)

    def slope(self, eta: float) -> float:
        return eta * self.curvature - self.gap

    def land(self, eta: float) -> tuple[Array, Array, float]:
        grad = self.change  # a temporary of this step
        grad *= eta
        grad += self.grad
        return self.S.mix(self.x, eta), grad, self.decrease(eta)

    def rounding_of_curvature(self) -> float:
        """Return how negative rounding of the two gradients may make the curvature of a convex quadratic."""
        scale = (norm(self.change) + norm(self.grad)) * (norm(self.x) + norm(self.S.dense()))
        return 64.0 * eps_of(self.x) * scale


class SmoothSegment:
    """A segment of a differentiable function (or X's merit function), evaluated along the way."""

    curvature = None

    def __init__(self, X: Any, S: Atom, gap: float) -> None:
        self.run, self.f, self.x, self.grad = X.run, X.f, X.x, X.grad
        self.k, self.convex = X.k, X.convex
        self.S, self.gap = S, gap
        self.d = S.dense() - X.x
        self.known: float | None = X.value
        self._measured = X.merit or X.f
        self._linear_slope = 0.0 if X.linear is None or X.merit is not None else inner(X.linear, self.d)
        self._last: tuple[float, Array, Array, float] | None = None
        self._values: dict[float, float] = {}

    @cached_property
    def norm2(self) -> float:
        return inner(self.d, self.d)

    @property
    def value(self) -> float:
        if self.known is None:
            self.known = self.run.value(self._measured, self.x)
        return self.known

    @cached_property
    def rounding(self) -> float:
        """The uncertainty of a difference of values; rounding of the points counts where f and g cancel."""
        points = norm(self.grad) * (norm(self.x) + norm(self.d))
        return 8.0 * eps_of(self.x) * (abs(self.value) + points)

    def decrease(self, eta: float) -> float:
        if eta not in self._values:
            self._values[eta] = self.run.value(self._measured, self.x + eta * self.d)
        return self.value - self._values[eta] + eta * self._linear_slope

    def _at(self, eta: float) -> tuple[float, Array, Array, float]:
        """Return eta, X + eta d, the gradient of f there and the slope of m, cached."""
        if self._last is None or self._last[0] != eta:
            point = self.S.mix(self.x, eta)
            grad = self.run.grad_f(self.f, point)
            slope = inner(grad, self.d) - self._linear_slope
            if not math.isfinite(slope):
                self.run.bad_gradient()
            self._last = (eta, point, grad, slope)
        return self._last

    def slope(self, eta: float) -> float:
        return self._at(eta)[3]

    def land(self, eta: float) -> tuple[Array, Array, float | None]:
        _, point, grad, _ = self._at(eta)
        return point, grad, self._values.get(eta)
