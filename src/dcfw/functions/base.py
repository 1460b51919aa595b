"""The interface of functions: a value, a gradient or subgradient, and optional properties.

A :class:`Function` has ``value(x)`` and ``grad(x)``.  The properties make a solver faster or its certificate
stronger, and have safe defaults:

``convex``          True, False, or None for "unknown"
``differentiable``  False if ``grad`` returns one of several subgradients at some points.  A user-defined g
                    must set it to True, or define ``lipschitz``, for lower bounds above 0
``affine_grad``     True for quadratics: ``grad((1-eta) x + eta s)`` is the same combination of
                    ``grad(x)`` and ``grad(s)``, so a step costs one gradient, at a vertex
``lipschitz``       a Lipschitz constant of the gradient, or None
``weak_convexity``  a number rho such that ``phi + rho/2 ||x||^2`` is convex, or None
``size``            the number of entries of x, where the data determine it, or None

``f - g`` makes a :class:`~dcfw.functions.dc.DC`; functions can be added and scaled.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dcfw import _html, _protocol, _validate
from dcfw._arrays import Array, copy_of, is_numpy, like, to_numpy
from dcfw.sets.atoms import Atom, Dense

if TYPE_CHECKING:
    from dcfw.functions.dc import DC


class Linearisation(NamedTuple):
    """The value and a subgradient of a convex function at a point, from one evaluation.

    ``unique`` is True if the subdifferential is known to contain only this subgradient.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.L1Norm().linearise(np.array([2.0, 0.0]))
    Linearisation(value=2.0, slope=array([1., 0.]), unique=False)
    """

    value: float
    slope: Array
    unique: bool


# The methods that a solver calls; the others default to forms in terms of ``value`` and ``grad``.
VERBS = ("value", "grad", "linearise", "grad_at", "value_from_grad", "batch_grad", "batch_linearise")
# Methods with a generic form, and the methods that this form calls.
DERIVED = {
    "linearise": ("value", "grad"),
    "grad_at": ("grad",),
    "value_from_grad": ("value", "grad"),
    "origin": ("value", "grad"),
    "hessian": ("grad",),
    "by_word": ("value", "grad"),
}
SOURCES = ("value", "grad")


class Function:
    """Base class of all functions; the docstring of ``dcfw.functions.base`` describes the attributes.

    Examples
    --------
    A user-defined function works like the built-in ones:

    >>> import numpy as np, dcfw
    >>> class Huber(dcfw.functions.Function):
    ...     convex = True
    ...     lipschitz = 1.0
    ...
    ...     def value(self, x):
    ...         return float(np.where(abs(x) < 1, 0.5 * x**2, abs(x) - 0.5).sum())
    ...
    ...     def grad(self, x):
    ...         return np.clip(x, -1, 1)
    >>> (2 * Huber()).value(np.array([3.0, 0.5]))
    5.25
    """

    convex: bool | None = None
    differentiable: bool = True
    affine_grad: bool = False
    size: int | None = None
    composite: bool = False  # whether other functions make it up, which splits look into
    made_for: Any = None  # the only set on which this part of a split is valid; None for the whole space
    __array_ufunc__ = None  # otherwise NumPy would multiply a function into an array of objects

    def __init_subclass__(cls, *, trusted: bool = False, **options: Any) -> None:
        """Make a class's oracles work on copies unless it is ``trusted`` (:mod:`dcfw._protocol`)."""
        super().__init_subclass__(**options)
        _protocol.declare(cls, trusted)
        _protocol.restore(cls, Function, DERIVED)
        _protocol.forget(cls, Function, CLAIMS, SOURCES)
        _protocol.guard(cls, Function, VERBS, partial(_protocol.on_copies, own=_own))

    @property
    def lipschitz(self) -> float | None:
        return None

    @property
    def weak_convexity(self) -> float | None:
        return 0.0 if self.convex else self.lipschitz

    @property
    def stated(self) -> bool:
        """Whether the user stated the two constants; built-in functions compute theirs."""
        owners = (_protocol.owner(type(self), name) for name in ("lipschitz", "weak_convexity"))
        return not all(map(_protocol.trusted, owners))

    @property
    def by_word(self) -> bool:
        """Whether convexity rests on the user's statement alone."""
        return self.stated or self._has_own_sources()

    def _has_own_sources(self) -> bool:
        """Return whether a user's class defines ``value`` or ``grad``."""
        return not all(_protocol.trusted(_protocol.owner(type(self), name)) for name in SOURCES)

    def value(self, x: Array) -> float:
        raise NotImplementedError

    def grad(self, x: Array) -> Array:
        raise NotImplementedError

    def linearise(self, x: Array) -> Linearisation:
        """Return the value and a (sub)gradient at ``x``, sharing work where possible."""
        return Linearisation(self.value(x), self.grad(x), self.differentiable and self._states_smoothness())

    def _states_smoothness(self) -> bool:
        """Return whether ``differentiable`` is stated, rather than the default of this class."""
        kind = type(self)
        holder = _protocol.owner(kind, "differentiable")
        stated = (
            "differentiable" in vars(self)
            if holder is Function
            else not _protocol.outdated(kind, "differentiable", SOURCES)
        )
        return stated or self.lipschitz is not None or _protocol.trusted(_protocol.owner(kind, "grad"))

    def grad_at(self, atom: Atom) -> Array:
        """Return the gradient at a vertex, using its compact form where that is cheaper."""
        return self.grad(atom.dense())

    def has_scores(self) -> bool:
        """Return whether the Hessian is A'A with few enough rows in A to store A a for each vertex a.

        Then ``scores_at(atom)`` returns A a, and ``from_scores(r)`` returns A'r as a vector.
        """
        return False

    def scores_at(self, atom: Atom) -> np.ndarray:
        raise NotImplementedError

    def from_scores(self, r: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def prefetch(self, atoms: list[Any]) -> bool:
        """Prepare ``grad_at`` for several vertices; return whether each then costs less than a gradient."""
        return False

    def value_from_grad(self, x: Array, grad: Array) -> float | None:
        """Return the value if it follows from the gradient at ``x`` in O(n), else None."""
        return None

    def origin(self, like: Array) -> tuple[float, Array]:
        """Return the value and the gradient at zero."""
        zero = 0.0 * like
        return self.value(zero), self.grad(zero)

    def hessian(self, x: Array) -> np.ndarray:
        """Return the Hessian at x as a dense NumPy matrix for the raveled x.

        Defined for affine gradients; other functions may define it for ``inner="second-order"``.
        """
        if not self.affine_grad:
            raise NotImplementedError(f"{type(self).__name__} defines no hessian(x)")
        n = math.prod(x.shape)
        slope = self.grad(0.0 * x)
        units = (np.reshape(row, x.shape) for row in np.eye(n))
        columns = [np.ravel(to_numpy(self.grad(like(unit, x)) - slope)) for unit in units]
        return np.asarray(np.stack(columns), dtype=np.float64)

    def template(self) -> Array | None:
        """Return an array with the backend of this function's data, None if it has none."""
        data: Any = getattr(self, "A", None)
        if hasattr(data, "nnz"):  # a sparse matrix: its entries
            data = getattr(data, "data", None)
            return data if is_numpy(data) and data.dtype.kind == "f" else None
        return data if hasattr(data, "dtype") and not hasattr(data, "matvec") else None

    def __repr__(self) -> str:
        made_of = [v for v in vars(self).values() if callable(v) and not isinstance(v, Function)]
        names = [getattr(v, "__name__", type(v).__name__) for v in made_of]
        named = ", ".join(name for name in names if name != "<lambda>") or "..." * bool(names)
        return f"{type(self).__name__}({named})"

    def _facts(self) -> dict[str, Any]:
        """Return the rows of the notebook display, none of which needs a computation."""
        known = {True: "yes", False: "no", None: "not known"}
        facts = {"convex": known[self.convex], "differentiable": known[self.differentiable]}
        return facts | ({} if self.size is None else {"variables": self.size})

    def _repr_html_(self) -> str:
        return _html.table(type(self).__name__, {"function": repr(self)} | self._facts())

    def __add__(self, other: Any) -> Function:
        other = as_function(other, "the right side of +")
        from dcfw.functions.dc import DC
        from dcfw.functions.sums import Sum

        return other + self if isinstance(other, DC) and other.whole is None else Sum([self, other])

    def __radd__(self, other: Any) -> Function:
        if isinstance(other, numbers.Real) and other == 0:  # for sum([...])
            return self
        return as_function(other, "the left side of +") + self

    def __mul__(self, scale: Any) -> Function:
        if not isinstance(scale, numbers.Real):
            return NotImplemented
        from dcfw.functions.sums import Scaled

        return Scaled(self, scale)

    __rmul__ = __mul__

    def __neg__(self) -> Function:
        return self * -1.0

    def __sub__(self, other: Any) -> DC:
        from dcfw.functions.dc import DC

        other = as_function(other, "the right side of -")
        if isinstance(other, DC):  # f - (p - q) = (f + q) - p
            p, q = other._parts()
            return DC(self + q, p, conditional=other.conditional)
        return DC(self, other)

    def __rsub__(self, other: Any) -> DC:
        return as_function(other, "the left side of -") - self


_protocol.declare(Function, True)
# What a class says about its sources, with the defaults.  A subclass with other sources has to say it again.
CLAIMS = {name: vars(Function)[name] for name in ("convex", "affine_grad", "weak_convexity")} | {
    "lipschitz": None
}


def _own(value: Any) -> Any:
    """Copy an array, also in a tuple or a vertex; return other values unchanged."""
    if type(value) in (tuple, Linearisation):
        return tuple.__new__(type(value), map(copy_of, value))
    return Dense(copy_of(value.array)) if isinstance(value, Dense) else copy_of(value)


class Stated(Function, trusted=True):
    """A function made of callables, whose Lipschitz constant and convexity the user states."""

    lipschitz: float | None = None
    stated = True

    def _state(self, lipschitz: float | None, convex: bool | None) -> None:
        self.lipschitz = _validate.constant(lipschitz, "lipschitz")
        self.convex = _validate.optional_flag(convex, "convex")


def of_x(candidate: Any, name: str) -> Callable[[Array], Any]:
    """Return ``candidate`` if it is callable, as a function of one point."""
    if not callable(candidate):
        raise TypeError(f"{name} must be a callable of one argument x, got {type(candidate).__name__}")
    return candidate  # type: ignore[no-any-return]


def number(value: Any) -> Any:
    """Convert a user's value to float; leave it unchanged on failure, for a run to name the oracle."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def gradient(function: Function, x: Array) -> Array:
    """Return ``function.grad(x)`` with its shape checked: in a sum, broadcasting would hide a wrong one."""
    grad = function.grad(x)
    same_shape(grad, x, "grad", function)
    return grad


def same_shape(grad: Any, x: Array, oracle: str, function: Function) -> None:
    """Raise if the gradient that a function's ``oracle`` returned does not have the shape of x."""
    if getattr(grad, "shape", None) != x.shape:
        got = f"an array of shape {tuple(grad.shape)}" if hasattr(grad, "shape") else type(grad).__name__
        raise ValueError(
            f"{oracle} of {function!r} must return an array of shape {tuple(x.shape)}, got {got}"
        )


def as_function(candidate: Any, name: str = "function") -> Function:
    """Return ``candidate``, any object with ``value`` and ``grad``, as a :class:`Function`.

    >>> import numpy as np, dcfw
    >>> class Plain:
    ...     def value(self, x):
    ...         return float(x @ x)
    ...
    ...     def grad(self, x):
    ...         return 2 * x
    >>> dcfw.functions.as_function(Plain()).value(np.array([3.0, 4.0]))
    25.0
    """
    name = _validate.text(name, "name")
    if isinstance(candidate, Function) and not any(verb in vars(candidate) for verb in VERBS):
        # The parts of a sum or multiple do not give the values of a subclass that defines its own.
        return Wrapped(candidate, candidate.grad) if _hides_parts(candidate) else candidate
    if isinstance(candidate, type):
        raise TypeError(f"{name} must be a function object, not its class: write {candidate.__name__}(...)")
    gradient = getattr(candidate, "grad", None) or getattr(candidate, "subgrad", None)
    if callable(getattr(candidate, "value", None)) and callable(gradient):
        return Wrapped(candidate, gradient)
    missing = [verb for verb in ("value", "grad") if not callable(getattr(candidate, verb, None))]
    hint = "; wrap plain callables in functions.Smooth(value, grad)" if callable(candidate) else ""
    if isinstance(candidate, tuple | list):
        hint = "; write the difference of two convex functions as f - g"
    raise TypeError(
        f"{name} must be a function object with the methods value(x) and grad(x); "
        f"{type(candidate).__name__} lacks {' and '.join(missing)}{hint}"
    )


def _hides_parts(function: Function) -> bool:
    return function.composite and function._has_own_sources()


class Wrapped(Function, trusted=True):
    """A user's object with ``value`` and ``grad``, which works on copies."""

    stated = True

    def __init__(self, wrapped: Any, gradient: Callable[[Array], Array]) -> None:
        self.wrapped, self._gradient = wrapped, gradient
        self.convex = self._claim("convex", None)
        self.differentiable = bool(getattr(wrapped, "differentiable", hasattr(wrapped, "grad")))
        self.affine_grad = bool(self._claim("affine_grad", False))

    def _claim(self, name: str, default: Any) -> Any:
        known = _protocol.states(self.wrapped, name, Function, SOURCES)
        return getattr(self.wrapped, name, default) if known else default

    @property
    def lipschitz(self) -> float | None:
        return self._claim("lipschitz", None)  # type: ignore[no-any-return]

    @property
    def weak_convexity(self) -> float | None:
        return self._claim("weak_convexity", super().weak_convexity)  # type: ignore[no-any-return]

    def _states_smoothness(self) -> bool:
        known = _protocol.states(self.wrapped, "differentiable", Function, SOURCES)
        return known or self.lipschitz is not None

    def value(self, x: Array) -> float:
        return number(self.wrapped.value(copy_of(x)))  # type: ignore[no-any-return]

    def grad(self, x: Array) -> Array:
        return copy_of(self._gradient(copy_of(x)))

    def value_from_grad(self, x: Array, grad: Array) -> float | None:
        own = getattr(self.wrapped, "value_from_grad", None)
        return None if own is None else own(copy_of(x), copy_of(grad))

    def grad_at(self, atom: Atom) -> Array:
        own = getattr(self.wrapped, "grad_at", None)
        return self.grad(atom.dense()) if own is None else copy_of(own(atom))

    def linearise(self, x: Array) -> Linearisation:
        own = getattr(self.wrapped, "linearise", None)
        return super().linearise(x) if own is None else _own(Linearisation(*own(copy_of(x))))

    def __repr__(self) -> str:
        return repr(self.wrapped)
