"""A user's own set behind the protocol of :class:`~dcfw.sets.base.Set`.

Solvers only use the methods of :class:`Set`.  An object with ``lmo``, ``contains`` and ``start`` is wrapped
once, where it enters the library: its methods work on copies, and the others have the defaults of
:class:`Set`.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, copy_of
from dcfw.sets.base import Oracle, Set, as_point, bisected_reach
from dcfw.sets.spheres import Spheres

FACTS = ("strong_convexity", "polytope", "faces", "scale")  # attributes that a set may define
REPLACEABLE = ("lmo", "_vertex", "contains")  # methods that a user may replace on an instance of Set


def as_set(candidate: Any, name: str = "domain") -> Set:
    """Return ``candidate`` as a :class:`Set`, from any object with ``lmo``, ``contains`` and ``start``."""
    if isinstance(candidate, Set) and vars(candidate).keys().isdisjoint(REPLACEABLE):
        return candidate
    return GivenSet(_validate.domain(candidate, name))


def wrapped(domain: Any) -> Any:
    """Return the object that the user passed."""
    return domain.wrapped if isinstance(domain, GivenSet) else domain


class GivenSet(Set, trusted=True):
    """A set made of a user's object."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        for name in FACTS:
            setattr(self, name, getattr(wrapped, name, getattr(Set, name)))
        self.flat = callable(getattr(wrapped, "tangent", None))

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the object, for step rules and methods that use them."""
        if name.startswith("__") or name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    @cached_property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        stated = getattr(self.wrapped, "shape", None)
        return tuple(np.shape(self.wrapped.start()) if stated is None else stated)

    @property
    def name(self) -> str:
        return type(self.wrapped).__name__

    @property
    def diameter(self) -> float:  # type: ignore[override]
        stated = getattr(self.wrapped, "diameter", None)
        return math.inf if stated is None else float(stated)

    def lmo(self, G: Array) -> Array:
        return as_point(copy_of(self.wrapped.lmo(copy_of(G))), G)

    def oracle(self) -> Oracle:
        """Return the object's own oracle, unless it is a :class:`Set` with a replaced ``lmo``."""
        own = None if isinstance(self.wrapped, Set) else getattr(self.wrapped, "oracle", None)
        return own() if callable(own) else Oracle(self)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        own = self.wrapped.contains
        return bool(own(copy_of(x), tol) if isinstance(self.wrapped, Set) else own(copy_of(x)))

    def start(self, xp: Any = None) -> Array:
        start = copy_of(self.wrapped.start())
        return start if xp is None or xp is np else xp.asarray(start)

    def violation(self, x: Array) -> float:
        """Return the object's own value; without one, 0 inside and inf outside."""
        own = getattr(self.wrapped, "violation", None)
        if own is None:
            return 0.0 if self.contains(x) else math.inf
        return float(own(copy_of(x)))

    def tangent(self, G: Array) -> Array:
        own = getattr(self.wrapped, "tangent", None)
        return G if own is None else copy_of(own(copy_of(G)))

    def reach(self, x: Array, d: Array) -> float:
        own = getattr(self.wrapped, "reach", None)
        return bisected_reach(self.contains, x, d) if own is None else float(own(copy_of(x), copy_of(d)))

    def spheres(self) -> Spheres | None:
        own = getattr(self.wrapped, "spheres", None)
        return None if own is None else own()

    def random(self, rng: Any = None) -> np.ndarray:
        """Return the object's own random point, or the mean of four random vertices."""
        own = getattr(self.wrapped, "random", None)
        if own is not None:
            return np.asarray(copy_of(own(rng)))
        rng = _validate.generator(rng)
        vertices = [np.asarray(self.lmo(rng.standard_normal(self.shape))) for _ in range(4)]
        return np.asarray(sum(vertices) / 4.0)

    def __repr__(self) -> str:
        return repr(self.wrapped)
