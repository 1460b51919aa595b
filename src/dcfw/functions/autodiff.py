"""Functions written in torch or JAX, with gradients by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcfw._arrays import Array, copy_of
from dcfw.functions.base import Linearisation, Stated, of_x


class Autodiff(Stated, trusted=True):
    """See :func:`autodiff`."""

    def __init__(self, value: Callable[[Array], Any], lipschitz: float | None, convex: bool | None) -> None:
        self._function = of_x(value, "value")
        self._jitted: Callable[[Array], Any] | None = None
        self._state(lipschitz, convex)

    def value(self, x: Array) -> float:
        import array_api_compat

        if array_api_compat.is_jax_array(x):
            return float(self._compiled(x)[0])  # cheaper than eager operations
        return float(self._function(copy_of(x)))

    def grad(self, x: Array) -> Array:
        return self.linearise(x).slope

    def _compiled(self, x: Array) -> Any:
        """Return the value and the gradient by JAX, compiled unless the function branches on values."""
        import jax

        if self._jitted is None:
            self._jitted = jax.jit(jax.value_and_grad(self._function))
        try:
            return self._jitted(x)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            self._jitted = jax.value_and_grad(self._function)
            return self._jitted(x)

    def linearise(self, x: Array) -> Linearisation:
        import array_api_compat

        if array_api_compat.is_torch_array(x):
            import torch

            with torch.enable_grad():
                leaf = x.detach().requires_grad_(True)
                value = self._function(leaf)
                (slope,) = torch.autograd.grad(value, leaf)
            return Linearisation(float(value.detach()), slope, self.lipschitz is not None)
        if array_api_compat.is_jax_array(x):
            value, slope = self._compiled(x)
            return Linearisation(float(value), slope, self.lipschitz is not None)
        raise TypeError(
            f"autodiff needs torch or JAX arrays, got {type(x).__name__}: pass x0 as a torch tensor or JAX "
            "array, or give the gradient with functions.Smooth(value, grad)"
        )


def autodiff(
    value: Callable[[Array], Any], lipschitz: float | None = None, convex: bool | None = None
) -> Autodiff:
    """Return a smooth function whose gradient torch or JAX derives from ``value``.

    Parameters
    ----------
    value : callable
        ``value(x)`` returns a scalar tensor, computed with operations of the framework.
    lipschitz, convex : optional
        As in :class:`dcfw.functions.Smooth`.

    Examples
    --------
    >>> import torch                                                          # doctest: +SKIP
    >>> from dcfw import functions
    >>> phi = functions.autodiff(lambda x: (x**2).sum())
    >>> phi.grad(torch.ones(2))                                               # doctest: +SKIP
    tensor([2., 2.])
    """
    return Autodiff(value, lipschitz, convex)
