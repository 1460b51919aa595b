"""Sums and multiples of functions, wrappers, and the zero function."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, inner
from dcfw.functions.base import Function, Linearisation, as_function, gradient, same_shape
from dcfw.sets.atoms import Atom

QUICK = 500  # up to this many variables, the eigenvalues of a quadratic are computed to detect misuse


class LinearFunction(Function, trusted=True):
    """A linear function with a factor in front."""

    convex = True
    affine_grad = True

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @property
    def lipschitz(self) -> float:
        return 0.0

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return self.value(x)


class Zero(LinearFunction, trusted=True):
    """The zero function: ``minimize(f - Zero())`` is plain Frank-Wolfe on a convex f.

    >>> import numpy as np, dcfw
    >>> nearest = dcfw.functions.LeastSquares(np.eye(2), np.array([0.9, 0.3]))
    >>> dcfw.minimize(nearest - dcfw.functions.Zero(), dcfw.sets.Simplex(2)).x.round(3)
    array([0.8, 0.2])
    """

    def __init__(self) -> None:
        super().__init__(0.0)

    def value(self, x: Array) -> float:
        return 0.0

    def grad(self, x: Array) -> Array:
        return 0.0 * x

    def hessian(self, x: Array) -> np.ndarray:
        return np.zeros((math.prod(x.shape),) * 2)

    def __repr__(self) -> str:
        return "Zero()"


class Made(Function, trusted=True):
    """A function made of others: it has the properties of all of them, and the sums of their constants."""

    def _made_of(self) -> tuple[Function, ...]:
        raise NotImplementedError

    # Properties, not attributes of the instance: a subclass with values of its own does not inherit them.
    @functools.cached_property
    def differentiable(self) -> bool:  # type: ignore[override]
        return all(part.differentiable for part in self._made_of())

    @functools.cached_property
    def affine_grad(self) -> bool:  # type: ignore[override]
        return all(part.affine_grad for part in self._made_of())

    @property
    def lipschitz(self) -> float | None:
        return total_of(part.lipschitz for part in self._made_of())

    @property
    def weak_convexity(self) -> float | None:
        return total_of(part.weak_convexity for part in self._made_of())

    @property
    def stated(self) -> bool:
        return any(part.stated for part in self._made_of())

    @property
    def by_word(self) -> bool:
        return any(part.by_word for part in self._made_of())

    def template(self) -> Array | None:
        return next((t for t in (part.template() for part in self._made_of()) if t is not None), None)


class Sum(Made, trusted=True):
    """The sum of functions (made by ``+``)."""

    composite = True

    def __init__(self, terms: list[Function]) -> None:
        flat: list[Function] = []
        for term in map(as_function, terms):
            flat.extend(term.terms if isinstance(term, Sum) else [term])
        self.terms: tuple[Function, ...] = tuple(flat)
        self._origin: tuple[Any, float, Array] | None = None

    def _made_of(self) -> tuple[Function, ...]:
        return self.terms

    @functools.cached_property
    def convex(self) -> bool | None:  # type: ignore[override]
        return _convexity(self.terms)

    def value(self, x: Array) -> float:
        return sum(t.value(x) for t in self.terms)

    def grad(self, x: Array) -> Array:
        return _added(gradient(term, x) for term in self.terms)

    def grad_at(self, atom: Atom) -> Array:
        return _added(term.grad_at(atom) for term in self.terms)

    def prefetch(self, atoms: list[Any]) -> bool:
        return all([_linear(term) or term.prefetch(atoms) for term in self.terms])

    def linearise(self, x: Array) -> Linearisation:
        parts = [t.linearise(x) for t in self.terms]
        for term, part in zip(self.terms, parts, strict=True):
            same_shape(part.slope, x, "grad", term)
        slope = _added(part.slope for part in parts)
        return Linearisation(sum(p.value for p in parts), slope, all(p.unique for p in parts))

    def value_from_grad(self, x: Array, grad: Array) -> float | None:
        if not self.affine_grad:
            return None
        kind = (type(x), x.shape, x.dtype, getattr(x, "device", None))
        origin = self._origin  # a local copy: another thread may replace it
        if origin is None or origin[0] != kind:
            origin = self._origin = (kind, *self.origin(x))
        _, constant, slope = origin
        return constant + 0.5 * inner(grad + slope, x)

    def hessian(self, x: Array) -> np.ndarray:
        return np.asarray(_added(term.hessian(x) for term in self.terms))

    @property
    def size(self) -> int | None:  # type: ignore[override]
        return common_size(self.terms)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


class Around(Made, trusted=True):
    """A function made of another one, with the same properties."""

    composite = True

    def __init__(self, function: Function) -> None:
        self.function, self.size = as_function(function), function.size

    def _made_of(self) -> tuple[Function, ...]:
        return (self.function,)

    @functools.cached_property
    def convex(self) -> bool | None:  # type: ignore[override]
        return self.function.convex


class Scaled(Around, trusted=True):
    """A multiple of a function (made by ``*``)."""

    def __init__(self, function: Function, scale: Any) -> None:
        super().__init__(function)
        self.scale = _validate.scalar(scale, "scale")

    @functools.cached_property
    def convex(self) -> bool | None:  # type: ignore[override]
        return self.function.convex if self.scale >= 0 else None

    @property
    def lipschitz(self) -> float | None:
        base = self.function.lipschitz
        return None if base is None else abs(self.scale) * base

    @property
    def weak_convexity(self) -> float | None:
        base = self.function.weak_convexity if self.scale >= 0 else self.function.lipschitz
        return None if base is None else abs(self.scale) * base

    def value(self, x: Array) -> float:
        return self.scale * self.function.value(x)

    def grad(self, x: Array) -> Array:
        return self.scale * self.function.grad(x)

    def grad_at(self, atom: Atom) -> Array:
        return self.scale * self.function.grad_at(atom)

    def prefetch(self, atoms: list[Any]) -> bool:
        return self.function.prefetch(atoms)

    def linearise(self, x: Array) -> Linearisation:
        value, slope, unique = self.function.linearise(x)
        return Linearisation(self.scale * value, self.scale * slope, unique)

    def value_from_grad(self, x: Array, grad: Array) -> float | None:
        if self.scale == 0:
            return 0.0
        value = self.function.value_from_grad(x, grad / self.scale)
        return None if value is None else self.scale * value

    def hessian(self, x: Array) -> np.ndarray:
        return self.scale * self.function.hessian(x)

    def __repr__(self) -> str:
        return f"{self.scale:g} * {self.function!r}"


def _added(arrays: Iterable[Array]) -> Array:
    """Return the sum of arrays, added from left to right and without a zero in front."""
    return functools.reduce(operator.add, arrays)


def common_size(functions: Iterable[Function]) -> int | None:
    """Return the size that the functions share, None if none of them has one."""
    sizes = sorted({function.size for function in functions if function.size is not None})
    if len(sizes) > 1:
        listed = ", ".join(map(str, sizes))
        raise ValueError(f"objective has parts for different numbers of variables: {listed}")
    return sizes[0] if sizes else None


def _convexity(terms: Sequence[Function]) -> bool | None:
    """Return the convexity of a sum: False if one term is not convex and all others are linear."""
    if all(term.convex for term in terms):
        return True
    others = [term for term in terms if term.convex is not False]
    return False if len(terms) == len(others) + 1 and all(map(_linear, others)) else None


def _linear(function: Function) -> bool:
    """Return whether a function is known to be linear, without a long computation."""
    return function.affine_grad and (function.size or 0) <= QUICK and function.lipschitz == 0.0


def total_of(numbers: Iterable[float | None]) -> float | None:
    """Return the sum, None where a number is None."""
    total = 0.0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
