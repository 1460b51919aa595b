"""The base class of feasible sets, and the oracle that a solve takes from one.

A set is compact and convex and minimises linear functions over itself, ``lmo(G)``, which is often far cheaper
than a projection: the largest entry of G for the l1 ball, one assignment problem for the Birkhoff polytope,
one singular pair for the nuclear-norm ball.

Solvers accept any object with ``lmo(G)``, ``contains(x)``, ``start()`` and ``diameter``.  A subclass of
:class:`Set` defines ``shape``, ``diameter``, ``violation`` and either ``lmo`` or ``_vertex`` (with checked
input); ``project`` and ``strong_convexity`` where they exist; ``_directions`` if the set is flat, and
``_reach`` if there is a better way than bisection.  Only the linear oracle runs in the caller's array
library: ``violation``, ``project``, ``tangent`` and ``reach`` are rarely called and work in NumPy in double
precision.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from dcfw import _html, _protocol, _validate
from dcfw._arrays import Array, eps_of, is_numpy, like, namespace, to_numpy
from dcfw.sets.atoms import Atom, Dense, recast
from dcfw.sets.spheres import Spheres

O = TypeVar("O", bound="Oracle")


@runtime_checkable
class FeasibleSet(Protocol):
    """The methods that every set needs; a user's own class need not inherit from anything.

    Examples
    --------
    >>> isinstance(dcfw.sets.Simplex(3), dcfw.sets.FeasibleSet)
    True
    """

    def lmo(self, G: Array) -> Array: ...
    def contains(self, x: Array) -> bool: ...
    def start(self) -> Array: ...


class Oracle:
    """A set's linear minimisation oracle during one solve: ``oracle(G)`` returns an atom.

    Subclasses may keep state between calls (dual variables, Lanczos vectors).  ``error`` bounds
    ``<G, s> - min_{x in D} <G, x>`` for the last answer, 0 for an exact oracle; certificates add it.

    Examples
    --------
    >>> oracle = dcfw.sets.Simplex(3).oracle()
    >>> oracle(np.array([0.0, -1.0, 2.0])).dense(), oracle.error
    (array([0., 1., 0.]), 0.0)
    """

    error: float = 0.0
    gap: float = math.inf  #: The last Frank-Wolfe gap, which the accuracy of the next answer may follow.
    claim: float = math.inf  #: The gap that a first answer is to confirm, where the accuracy follows the gap.
    recalls: bool = False  #: Whether the next answer has been given, and counted, before.

    def __init__(self, domain: FeasibleSet) -> None:
        from dcfw.sets.given import as_set

        self.domain: Any = as_set(domain)
        # Inside a solve G has been checked, which Set.lmo would do again.
        self._vertex = self.domain._answer if type(self.domain).lmo is Set.lmo else self.domain.lmo

    def __call__(self, G: Array) -> Atom:
        return Dense(as_point(self._vertex(G), G))

    def runners_up(self, G: Array, count: int) -> list[Atom]:
        """Return up to ``count`` further vertices with small <G, s>, if the set finds them cheaply."""
        return []

    def get_state(self) -> Any:
        """Return the state between calls as numbers and arrays that no later call changes."""
        return None

    def set_state(self, state: Any) -> None:
        """Restore a state that :meth:`get_state` of an oracle of the same set returned."""


@_protocol.stateless
class AtomOracle(Oracle):
    """The set's own ``_atom(G)`` for NumPy gradients, dense vertices for other backends."""

    def __call__(self, G: Array) -> Any:
        return self.domain._atom(G) if isinstance(G, np.ndarray) else Dense(self._vertex(G))


def state_in(part: str) -> Callable[[type[O]], type[O]]:
    """Delegate the state of an oracle class to its attribute ``part``."""

    def declare(kind: type[O]) -> type[O]:
        verbs: Any = kind
        verbs.get_state = lambda self: getattr(self, part).get_state()
        verbs.set_state = lambda self, state: getattr(self, part).set_state(state)
        return kind

    return declare


# Methods of subclasses that work on copies
GUARDED = ("lmo", "_vertex", "contains", "violation", "project", "tangent", "reach", "start", "random")
# Attributes with a generic form, and the methods that this form calls
DERIVED = {"oracle": ("lmo", "_vertex"), "_oracle": ("lmo", "_vertex"), "contains": ("violation",)}


class Set:
    """Base class of the feasible sets.

    Examples
    --------
    >>> class Interval(dcfw.sets.Set):
    ...     shape, diameter = (1,), 2.0
    ...
    ...     def _vertex(self, G):
    ...         return np.where(G > 0, -1.0, 1.0)
    ...
    ...     def violation(self, x):
    ...         return max(abs(float(x[0])) - 1.0, 0.0)
    >>> domain = Interval()
    >>> domain.lmo(np.array([3.0])), domain.contains(np.array([0.5])), domain.start()
    (array([-1.]), True, array([-1.]))
    """

    shape: tuple[int, ...]
    diameter: float  #: An upper bound of the Euclidean diameter, infinite where none is known.
    strong_convexity: float = 0.0
    polytope: bool = False  #: Whether the set is the hull of finitely many points (worth remembering).
    faces: bool = False  #: Whether a set that is no polytope has flat faces on which vanilla steps zigzag.
    scale: float = 1.0  #: The size of the right-hand sides, to which ``tol`` of ``contains`` is relative.
    project: Any  #: ``project(x)``, where it exists (see ``projects``).
    nonnegative: bool = False  #: Whether all entries of all points are known to be at least 0.
    flat: bool = True  #: Whether ``tangent`` projects onto the directions in which the set extends.
    _oracle: Any = Oracle

    def __init_subclass__(cls, *, trusted: bool = False, **options: Any) -> None:
        """Make the methods of a class work on copies unless it is trusted (:mod:`dcfw._protocol`)."""
        super().__init_subclass__(**options)
        _protocol.declare(cls, trusted)
        _protocol.restore(cls, Set, DERIVED)
        _protocol.guard(cls, Set, GUARDED)

    @property
    def name(self) -> str:
        """The name of the set in messages."""
        return type(self).__name__

    @property
    def decides(self) -> bool:
        """Whether ``contains`` was overridden without ``violation`` and so is more exact."""
        return _protocol.outdated(type(self), "violation", ("contains",))

    @property
    def projects(self) -> bool:
        """Whether ``project(x)`` exists."""
        return callable(getattr(self, "project", None))

    def check_work(self) -> float:
        """Return a rough number of operations of one ``contains``."""
        return 16.0 * math.prod(self.shape)

    def lmo(self, G: Array) -> Array:
        """Return a vertex that minimises <G, s> over the set, as an array like ``G`` (also for G = 0)."""
        return self._answer(_validate.array(G, "G", shape=self.shape))

    def _answer(self, G: Array) -> Array:
        """Return ``_vertex(G)``, computed in double precision if ``G`` has extended precision."""
        return like(self._vertex(G.astype(np.float64)), G) if is_extended(G) else self._vertex(G)

    def _vertex(self, G: Array) -> Array:
        """Return ``lmo(G)`` for a floating-point ``G`` of the right shape."""
        raise NotImplementedError(f"{type(self).__name__} must define lmo(G)")

    def oracle(self) -> Oracle:
        """Return a new oracle for one solve."""
        return self._oracle(self)  # type: ignore[no-any-return]

    def violation(self, x: Array) -> float:
        """Return by how much ``x`` violates the constraints, in their units (not a distance); 0 inside."""
        raise NotImplementedError(f"{type(self).__name__} must define violation(x)")

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether ``x`` satisfies the constraints to within ``tol``, relative to the set's size.

        ``tol`` is at least the rounding error of ``x``'s precision.
        """
        x, tol = _validate.numeric(x, "x"), _validate.scalar(tol, "tol", low=0.0, allow_inf=True)
        if tuple(x.shape) != self.shape:
            return False
        # The factor covers the rounding of a sum of as many terms as x has entries.
        allowed = max(tol, 8.0 * rounding(x) * math.sqrt(math.prod(self.shape)))
        return self.violation(x) <= allowed * self.scale

    def tangent(self, G: Array) -> Array:
        """Return the projection of ``G`` onto the directions of the affine hull (sum 0 for a simplex)."""
        return apply(self._directions, G, self.shape, "G")

    def _directions(self, G: np.ndarray) -> np.ndarray:
        """Return ``tangent(G)`` for a NumPy array; a set with an interior extends in all directions."""
        return G

    def reach(self, x: Array, d: Array) -> float:
        """Return the largest step for which ``x + step * d`` is in the set, infinite for d = 0.

        ``x`` is a point of the set and ``d`` one of its directions, such as the difference of two points.
        """
        x, d = (
            np.asarray(to_numpy(_validate.array(v, name, shape=self.shape)), dtype=np.float64)
            for v, name in ((x, "x"), (d, "d"))
        )
        size = float(np.abs(d).max(initial=0.0))
        if 0.0 < size < 1e-100 or size > 1e100:  # squares and quotients would leave the range of the floats
            step = self._reach(x, d / size)
            return step / size if size > 1.0 or step < size * 1e300 else math.inf
        return self._reach(x, d)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        """Return ``reach(x, d)`` for NumPy arrays, here by the bounds of the entries or by bisection."""
        bounds = self.entry_bounds()
        if bounds is not None:
            low, high = bounds
            return min(first_hit(high - x, d), first_hit(x - low, -d))
        length = float(np.linalg.norm(d))
        if length == 0.0:
            return math.inf
        # Exact up to rounding, unlike for a user's x0: the solver may return the point.
        return bisected_reach(lambda y: self.contains(y, 0.0), x, d, self.diameter / length)

    def spheres(self) -> Spheres | None:
        """Return spheres on which all vertices lie, for ``method="graduated"``; None if none are known."""
        return None

    def entry_bounds(self) -> tuple[Any, Any] | None:
        """Return the bounds of the entries if these determine faces, for ``inner="in-face"``; else None."""
        return None

    def start(self, xp: Any = None) -> Array:
        """Return the canonical feasible point (the centre, if any) as an array of the namespace ``xp``."""
        centre = self._centre()
        return centre if xp is None or xp is np else xp.asarray(centre)

    def _centre(self) -> np.ndarray:
        """Return ``start()`` as a new NumPy array, by default ``lmo`` of all ones."""
        return np.array(self.lmo(np.ones(self.shape)))

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a random feasible point: a random convex combination of random vertices."""
        rng = _validate.generator(rng)
        weights = rng.dirichlet(np.ones(min(math.prod(self.shape) + 1, 8)))
        return np.asarray(sum(w * self.lmo(rng.standard_normal(self.shape)) for w in weights))

    def _values(self, x: Array) -> np.ndarray:
        """Return ``x`` of this set's shape as a NumPy array in double precision."""
        x = _validate.numeric(x, "x")
        self._check(x)
        return np.asarray(to_numpy(x), dtype=np.float64)

    def _check(self, x: Array) -> None:
        """Raise ``ValueError`` unless ``x`` has this set's shape."""
        if tuple(getattr(x, "shape", ())) != self.shape:
            got = tuple(x.shape) if hasattr(x, "shape") else type(x).__name__
            raise ValueError(f"x must have shape {self.shape} for {type(self).__name__}, got {got}")

    def __repr__(self) -> str:
        shape = self.shape[0] if len(self.shape) == 1 else self.shape
        return f"{type(self).__name__}({shape}{self._parameters()})"

    def _repr_html_(self) -> str:
        kind = "a polytope" if self.polytope else "has flat faces" if self.faces else "no polytope"
        facts = {"set": repr(self), "shape": self.shape, "kind": kind, "projection": self.projects}
        return _html.table(type(self).__name__, facts)

    def _parameters(self) -> str:
        """Return the part of the repr after the shape, such as ``, radius=2``."""
        radius = getattr(self, "radius", 1.0)
        return "" if radius == 1.0 else f", radius={radius:g}"


_protocol.declare(Set, True)


def as_point(s: Array, G: Array) -> Array:
    """Return a vertex of integers (such as a row of ``np.eye(n, dtype=int)``) in the dtype of ``G``."""
    return s.astype(G.dtype) if is_numpy(s) and s.dtype.kind in "biu" and is_numpy(G) else s


def is_extended(G: Array) -> bool:
    """Return whether ``G`` has a higher precision than LAPACK, HiGHS and the kernels."""
    return is_numpy(G) and G.dtype.itemsize > 8


def in_double(answer: Any) -> Any:
    """Make an oracle's ``__call__`` work in double precision if the gradient has extended precision."""

    @functools.wraps(answer)
    def call(self: Oracle, G: Array) -> Atom:
        return recast(answer(self, G.astype(np.float64)), G) if is_extended(G) else answer(self, G)

    return call


def excess(amount: float) -> float:
    """Return max(amount, 0), or NaN for NaN, so that no comparison takes it for inside."""
    amount = float(amount)
    return 0.0 if amount <= 0.0 else amount


def apply(rule: Any, x: Array, shape: tuple[int, ...], name: str = "x") -> Array:
    """Return ``rule`` of ``x`` as a NumPy array in double precision, with x's own backend and dtype."""
    x = _validate.array(x, name, shape=shape)
    return like(rule(np.array(to_numpy(x), dtype=np.float64)), x)


def in_numpy(rule: Any) -> Any:
    """Make ``rule(self, x)``, a set's method for NumPy in double precision, accept any backend's x."""

    @functools.wraps(rule)
    def call(self: Set, x: Array) -> Array:
        return apply(functools.partial(rule, self), x, self.shape)

    return call


def bisected_reach(contains: Any, x: Array, d: Array, high: float | None = None) -> float:
    """Return nearly the largest step with ``contains(x + step * d)``; ``high``, if known, bounds it."""
    low = 0.0
    if high is None:
        high = 1.0
        while contains(x + high * d):
            low, high = high, 2.0 * high
            if high > 1e9:
                return low
    elif contains(x + high * d):
        return high
    for _ in range(24):  # to 1e-7 of the first bracket, enough for a line search
        middle = 0.5 * (low + high)
        low, high = (middle, high) if contains(x + middle * d) else (low, middle)
    return low


def first_hit(slack: np.ndarray, rate: np.ndarray) -> float:
    """Return the least slack/rate over the constraints with a positive rate, infinite if there are none."""
    # Rates at rounding level do not count: a step across the whole set changes their slack by rounding only.
    moving = rate > 8.0 * np.finfo(np.float64).eps * float(np.abs(rate).max(initial=0.0))
    return max(float((slack[moving] / rate[moving]).min(initial=math.inf)), 0.0)


def sums_hit(slack: np.ndarray, d: np.ndarray, axis: int) -> float:
    """Return :func:`first_hit` for bounds on the sums of d along an axis, sums at rounding level being 0."""
    rate, size = d.sum(axis=axis), np.abs(d).sum(axis=axis)
    return first_hit(slack, np.where(rate > 8.0 * np.finfo(np.float64).eps * size, rate, 0.0))


def one_hot(index: int, value: float, template: Array) -> Array:
    """Return ``value`` at flat ``index`` and zero elsewhere, like ``template``, on any backend."""
    if is_numpy(template):
        s = np.zeros(template.shape, dtype=template.dtype)
        s.reshape(-1)[index] = value
        return s
    xp = namespace(template)
    flat = xp.arange(math.prod(template.shape), device=template.device) == index
    return xp.reshape(select(flat, value, 0.0, template), template.shape)


def select(condition: Array, yes: float, no: float, template: Array) -> Array:
    """Return ``yes`` where ``condition`` holds and ``no`` elsewhere, in the dtype of ``template``."""
    if is_numpy(template):
        return np.where(condition, template.dtype.type(yes), template.dtype.type(no))
    xp, options = namespace(template), {"dtype": template.dtype, "device": template.device}
    return xp.where(condition, xp.asarray(yes, **options), xp.asarray(no, **options))


def rounding(x: Array) -> float:
    """Return the machine epsilon of ``x``, or that of double precision for integers."""
    try:
        return eps_of(x)
    except (TypeError, ValueError):
        return float(np.finfo(np.float64).eps)
