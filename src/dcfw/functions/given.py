"""Functions given by callables: a value and a gradient, a subgradient or a supergradient.

What a callable does to its argument, or later to the array that it has returned, is its own business: both
are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcfw import _validate
from dcfw._arrays import Array, copy_of
from dcfw.functions.base import Function


class Smooth(Function, trusted=True):
    """A differentiable function given by two callables.

    Parameters
    ----------
    value, grad : callable
        ``value(x)`` returns a number, ``grad(x)`` an array of x's shape.
    lipschitz : float, optional
        A Lipschitz constant of the gradient.
    convex : bool, optional
        Whether the function is convex, if known.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions
    >>> phi = functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=1.0)
    >>> phi.value(np.zeros(2))
    2.0
    """

    def __init__(
        self,
        value: Callable[[Array], Any],
        grad: Callable[[Array], Array],
        lipschitz: float | None = None,
        convex: bool | None = None,
    ) -> None:
        self._value = _callable(value, "value")
        self._grad = _callable(grad, "grad")
        self._lipschitz = None if lipschitz is None else _validate.scalar(lipschitz, "lipschitz", low=0.0)
        self.convex = _validate.optional_flag(convex, "convex")

    @property
    def lipschitz(self) -> float | None:
        return self._lipschitz

    @property
    def stated(self) -> bool:
        return True

    def value(self, x: Array) -> float:
        return _number(self._value(copy_of(x)))

    def grad(self, x: Array) -> Array:
        return copy_of(self._grad(copy_of(x)))


class Convex(Function, trusted=True):
    """A convex function given by its value and one subgradient at each point.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions
    >>> g = functions.Convex(lambda x: np.abs(x).max(), lambda x: np.sign(x) * (np.abs(x) == np.abs(x).max()))
    >>> g.value(np.array([1.0, -3.0]))
    3.0
    """

    convex = True

    def __init__(
        self,
        value: Callable[[Array], Any],
        subgrad: Callable[[Array], Array],
        differentiable: bool = False,
    ) -> None:
        self._value = _callable(value, "value")
        self._subgrad = _callable(subgrad, "subgrad")
        self.differentiable = _validate.flag(differentiable, "differentiable")

    def value(self, x: Array) -> float:
        return _number(self._value(copy_of(x)))

    def grad(self, x: Array) -> Array:
        return copy_of(self._subgrad(copy_of(x)))


class WeaklyConcave(Function, trusted=True):
    """A function whose negative is weakly convex, given by its value and one supergradient.

    ``supergrad(x)`` is minus a subgradient of ``-phi``; where phi is a minimum of smooth functions, it is
    the gradient of any one that attains the minimum.  Such a phi can be minimised through
    :func:`dcfw.splits.sliding` (the paper's conditional subgradient sliding).

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions
    >>> phi = functions.WeaklyConcave(lambda x: min(x @ x, 1.0), lambda x: 2 * x * (x @ x < 1), modulus=2.0)
    >>> phi.value(np.array([2.0]))
    1.0
    """

    differentiable = False
    convex = False

    def __init__(
        self,
        value: Callable[[Array], Any],
        supergrad: Callable[[Array], Array],
        modulus: float | None = None,
    ) -> None:
        self._value = _callable(value, "value")
        self._supergrad = _callable(supergrad, "supergrad")
        self.modulus = None if modulus is None else _validate.scalar(modulus, "modulus", low=0.0)

    @property
    def weak_convexity(self) -> float | None:
        return None

    @property
    def stated(self) -> bool:
        return True

    def value(self, x: Array) -> float:
        return _number(self._value(copy_of(x)))

    def grad(self, x: Array) -> Array:
        return copy_of(self._supergrad(copy_of(x)))


def _callable(candidate: Any, name: str) -> Callable[[Array], Any]:
    if not callable(candidate):
        raise TypeError(f"{name} must be a callable of one argument x, got {type(candidate).__name__}")
    return candidate  # type: ignore[no-any-return]


def _number(value: Any) -> float:
    """Return what a user's ``value`` has returned as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"value must return a number, got {type(value).__name__}") from None
