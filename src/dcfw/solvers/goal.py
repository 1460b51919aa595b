"""The Frank-Wolfe gap at which a run has converged.

``tol`` and ``rtol`` are what the user asks for: the gap is to be at most ``max(tol, rtol * first gap)``.
Where neither is given, the gap is to be at most :data:`RTOL` times its scale, so that the units of phi do not
decide.  The scale is the first gap; a start that the user chose may be a solution already, and then it is the
gap at the set's own start, if that is larger, which takes one gradient and one oracle call (``n_check``).
No gap is asked to be smaller than its own rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dcfw._arrays import Array, eps_of, inner, norm
from dcfw.functions.base import Function

RTOL = 1e-6
"""The default: this part of the gap's scale."""
ROUNDING = 16.0
"""Rounding errors of an inner product, in units of the precision times the norms of its factors."""
DOUBT = 1e-6
"""Two computations of a number may differ by this part of its scale, or by 1000 roundings if that is more."""


class Goal:
    """When a run has converged; ``threshold`` is known from its first gap on."""

    def __init__(self, tol: float | None, rtol: float | None) -> None:
        self.tol, self.rtol = tol, rtol
        self.elsewhere: Callable[[], float] = lambda: math.nan
        """Measures the gap at the set's own start, where that may be needed."""
        self.scale: float | None = None
        """The default scale of the gap, once it is known."""
        self.rounding: float | None = None
        """The rounding error of the first gap, where it has been measured."""
        self.threshold: float | None = None

    @property
    def relative(self) -> bool:
        """Whether neither tolerance was given."""
        return self.tol is None and self.rtol is None

    def measure_rounding(self, G: Array, u: Array | None, x: Array, s: Array) -> None:
        """Note what rounding may make of <G, x - s>, where G may be a difference with u."""
        size = norm(G) + (0.0 if u is None else norm(u))
        self.rounding = ROUNDING * eps_of(x) * size * (norm(x) + norm(s))

    def set(self, first: float) -> None:
        """Fix the threshold from the first gap."""
        if not self.relative:
            self.threshold = max(self.tol or 0.0, (self.rtol or 0.0) * first)
            return
        if self.scale is None:
            known = self.elsewhere()
            self.scale = max(first, known) if math.isfinite(known) else first
        self.threshold = max(RTOL * self.scale, self.rounding or 0.0)


def gap_at(phi: Function, oracle: Any, x: Array) -> float:
    """Return the Frank-Wolfe gap of phi at x, with the oracle's error."""
    G = phi.grad(x)
    return float(max(inner(G, x) - oracle(G).inner(G) + oracle.error, 0.0))


def rounding_of(x: Array) -> float:
    """Return by which part of its scale two computations of one number at x may differ."""
    return max(DOUBT, 1e3 * eps_of(x))
