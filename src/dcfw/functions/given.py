"""Functions given by callables: a value and a gradient, a subgradient or a supergradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcfw import _validate
from dcfw._arrays import Array, copy_of, is_numpy
from dcfw.functions.autodiff import autodiff
from dcfw.functions.base import Function, Linearisation, Stated, as_function, of_x


class Given(Function, trusted=True):
    """A function made of two callables, which receive and return copies."""

    def _take(self, value: Callable[[Array], Any], grad: Callable[[Array], Array], name: str) -> None:
        self._value, self._grad = of_x(value, "value"), of_x(grad, name)

    def value(self, x: Array) -> float:
        return _number(self._value(copy_of(x)))

    def grad(self, x: Array) -> Array:
        return copy_of(self._grad(copy_of(x)))


class Smooth(Given, Stated, trusted=True):
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
    >>> import numpy as np, dcfw
    >>> phi = dcfw.functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=1.0)
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
        self._take(value, grad, "grad")
        self._state(lipschitz, convex)


class Convex(Given, trusted=True):
    """A convex function given by its value and one subgradient at each point.

    >>> import numpy as np
    >>> from dcfw import functions
    >>> g = functions.Convex(lambda x: np.abs(x).max(), lambda x: np.sign(x) * (np.abs(x) == np.abs(x).max()))
    >>> g.value(np.array([1.0, -3.0]))
    3.0
    """

    convex = True
    by_word = True

    def __init__(
        self, value: Callable[[Array], Any], subgrad: Callable[[Array], Array], differentiable: bool = False
    ) -> None:
        self._take(value, subgrad, "subgrad")
        self.differentiable = _validate.flag(differentiable, "differentiable")


class WeaklyConcave(Given, trusted=True):
    """A function whose negative is weakly convex, given by its value and one supergradient.

    ``supergrad(x)`` is minus a subgradient of ``-phi``; for a minimum of smooth functions, the gradient of
    one that attains it.  :func:`dcfw.splits.sliding` splits such a phi (conditional subgradient sliding).

    >>> import numpy as np
    >>> from dcfw import functions
    >>> phi = functions.WeaklyConcave(lambda x: min(x @ x, 1.0), lambda x: 2 * x * (x @ x < 1), modulus=2.0)
    >>> phi.value(np.array([2.0]))
    1.0
    """

    differentiable = False
    convex = False
    weak_convexity = None
    stated = True

    def __init__(
        self, value: Callable[[Array], Any], supergrad: Callable[[Array], Array], modulus: float | None = None
    ) -> None:
        self._take(value, supergrad, "supergrad")
        self.modulus = _validate.constant(modulus, "modulus")


class Together(Smooth, trusted=True):
    """A smooth function given by one callable that returns its value and gradient (``jac=True``)."""

    def __init__(self, both: Callable[[Array], Any]) -> None:
        self._both = both
        super().__init__(lambda x: self._at(x)[0], lambda x: self._at(x)[1])

    def _at(self, x: Array) -> tuple[Any, Array]:
        answer = self._both(x)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(
                f"objective must return (value, gradient) with jac=True, got {type(answer).__name__}: give "
                "the gradient as jac=grad if the objective returns the value alone"
            )
        return answer

    def linearise(self, x: Array) -> Linearisation:
        value, grad = self._at(copy_of(x))
        return Linearisation(_number(value), copy_of(grad), True)


def from_callable(objective: Any, jac: Any, x0: Any) -> Function:
    """Return the objective of :func:`dcfw.minimize`: a function object, or a callable with ``jac``."""
    if not callable(objective) or isinstance(objective, type) or hasattr(objective, "value"):
        if jac is not None:
            raise ValueError(
                "jac belongs to an objective that is a plain callable fun(x); this one is "
                f"{type(objective).__name__}, which has its own gradient: leave jac out"
            )
        return as_function(objective, "objective")
    if jac is True:
        return Together(objective)
    if callable(jac):
        return Smooth(objective, jac)
    if jac is None and hasattr(x0, "shape") and not is_numpy(x0):
        return autodiff(objective)
    if jac is not None:
        raise TypeError(f"jac must be a callable grad(x), True or None, got {type(jac).__name__}")
    raise TypeError(
        "objective is a callable without a gradient: give jac=grad, or jac=True if it returns (value, "
        "gradient); or write it in torch or JAX, which derive it, and give x0 as one of their arrays"
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"value must return a number, got {type(value).__name__}") from None
