"""A user's own set behind the protocol of :class:`~dcfw.sets.base.Set`: the one place that looks what it has.

Solvers talk to a :class:`Set` and never ask whether an attribute is there.  An object with ``lmo``,
``contains`` and ``start`` is wrapped once, where it enters the library; what it does not define has the
default of :class:`Set`, and its methods work on copies.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, copy_of, is_numpy
from dcfw.sets.base import Oracle, Set, bisected_reach
from dcfw.sets.spheres import Spheres

FACTS: dict[str, Any] = {"strong_convexity": 0.0, "polytope": False, "faces": False, "scale": 1.0}
"""Attributes that a set may state, with their defaults."""
REPLACEABLE = ("lmo", "_vertex", "contains")
"""Methods that a user may have replaced on an object of ours."""


def as_set(candidate: Any, name: str = "domain") -> Set:
    """Return ``candidate`` as a :class:`Set`; any object with ``lmo``, ``contains`` and ``start`` will do.

    >>> import numpy as np
    >>> class Segment:
    ...     def lmo(self, G):
    ...         return np.where(G > 0, 0.0, 1.0)
    ...
    ...     def contains(self, x):
    ...         return 0 <= x[0] <= 1
    ...
    ...     def start(self):
    ...         return np.array([0.5])
    >>> as_set(Segment()).shape
    (1,)
    """
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
        for name, default in FACTS.items():
            setattr(self, name, getattr(wrapped, name, default))
        self.flat = callable(getattr(wrapped, "tangent", None))

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the object, for step rules and methods that know it."""
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
        s = copy_of(self.wrapped.lmo(copy_of(G)))
        # Vertices such as rows of np.eye(n, dtype=int) are points as good as others.
        return s.astype(G.dtype) if is_numpy(s) and s.dtype.kind in "biu" and is_numpy(G) else s

    def oracle(self) -> Oracle:
        """Return the object's own oracle if it has one and its ``lmo`` is not newer, else one of its lmo."""
        own = None if isinstance(self.wrapped, Set) else getattr(self.wrapped, "oracle", None)
        return own() if callable(own) else Oracle(self)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        own = self.wrapped.contains
        return bool(own(copy_of(x), tol) if isinstance(self.wrapped, Set) else own(copy_of(x)))

    def start(self, xp: Any = None) -> Array:
        start = copy_of(self.wrapped.start())
        return start if xp is None or xp is np else xp.asarray(start)

    def violation(self, x: Array) -> float:
        """Return the object's own figure; without one, 0 inside and inf outside."""
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
        """Return a random point: the object's own, or a random combination of four vertices."""
        own = getattr(self.wrapped, "random", None)
        if own is not None:
            return np.asarray(copy_of(own(rng)))
        rng = _validate.generator(rng)
        vertices = [np.asarray(self.lmo(rng.standard_normal(self.shape))) for _ in range(4)]
        return np.asarray(sum(vertices) / 4.0)

    def __repr__(self) -> str:
        return repr(self.wrapped)
