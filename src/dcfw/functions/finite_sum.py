"""Means of many functions, and expectations: objectives for stochastic methods.

A :class:`FiniteSum` is F(x) = 1/m sum_i F_i(x).  Besides ``value`` and ``grad`` it has the members that
:mod:`dcfw.solvers.stochastic` uses:

``draw(rng, size)``            a random batch: ``size`` distinct indices, or None for all m components
``batch_grad(x, batch)``       the mean gradient over the batch, an unbiased estimate of ``grad(x)``
``batch_linearise(x, batch)``  the mean value and the mean gradient, from one evaluation
``m``                          the number of components
``lipschitz``                  a Lipschitz constant of the mean's gradient
``lipschitz_max``              a Lipschitz constant of every component's gradient; the noise is proportional

A :class:`Stream` is an expectation F(x) = E F(x, xi) with the same members, but m is None and the user's
``draw`` returns the batch.  Variance reduction evaluates a batch at two points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _protocol, _validate
from dcfw._arrays import Array, copy_of
from dcfw.functions.base import Function, Linearisation, Stated, number

# The seed of a stream's holdout, unlike any ``rng`` of a user: a run must not be measured on its own samples.
HOLDOUT = np.random.SeedSequence(0x86A1B5F0D3C94E72A7E15D08C26B493F, spawn_key=(0x686F6C64,))


class Sampled(Stated, trusted=True):
    """A function made of samples, which have no kinks if the user states a Lipschitz constant."""

    lipschitz_max: float | None = None

    def _states_smoothness(self) -> bool:
        kind = type(self)
        smooth = "differentiable" in vars(self) or _protocol.owner(kind, "differentiable") is not Function
        return smooth or self.lipschitz is not None or self.lipschitz_max is not None


class FiniteSum(Sampled, trusted=True):
    """The mean 1/m sum_i F_i of m functions, with minibatch gradients.

    Parameters
    ----------
    m : int
        The number of components.
    value : callable
        ``value(x)``, the mean over all components.
    batch_grad : callable
        ``batch_grad(x, indices)``, the mean gradient over the components in an integer array.
    grad : callable, optional
        ``grad(x)``, the mean gradient over all components; default: ``batch_grad`` with all indices.
    batch_value : callable, optional
        ``batch_value(x, indices)``, the mean value; default: ``value``, which evaluates all components.
    lipschitz, lipschitz_max : float, optional
        Lipschitz constants of the mean gradient and of every component's gradient.  Without one, or
        ``differentiable = True`` set on the object, it may have kinks: as g, its lower bounds are 0.
    convex : bool, optional
        Whether the mean is convex, if known.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> c = np.array([1.0, 2.0, 6.0])
    >>> F = dcfw.functions.FiniteSum(
    ...     3,
    ...     value=lambda x: np.cos(x[0] - c).mean(),
    ...     batch_grad=lambda x, i: -np.sin(x - c[i]).mean(keepdims=True),
    ... )
    >>> F.grad(np.array([2.0])).round(4), F.batch_grad(np.array([2.0]), np.array([1]))
    (array([-0.5328]), array([-0.]))
    """

    def __init__(
        self,
        m: int,
        value: Callable[[Array], Any],
        batch_grad: Callable[[Array, np.ndarray], Array],
        *,
        grad: Callable[[Array], Array] | None = None,
        batch_value: Callable[[Array, np.ndarray], Any] | None = None,
        lipschitz: float | None = None,
        lipschitz_max: float | None = None,
        convex: bool | None = None,
    ) -> None:
        self.m = _validate.integer(m, "m", low=1)
        self._value = _validate.function(value, "value")
        self._batch_grad = _validate.function(batch_grad, "batch_grad")
        self._grad = None if grad is None else _validate.function(grad, "grad")
        self._batch_value = None if batch_value is None else _validate.function(batch_value, "batch_value")
        self._state(lipschitz, convex)
        self.lipschitz_max = _validate.constant(lipschitz_max, "lipschitz_max")

    @staticmethod
    def logistic(A: Any, y: Any) -> FiniteSum:
        """Return the mean logistic loss, F_i(x) = log(1 + exp(-y_i a_i'x)).

        Parameters
        ----------
        A : array or SciPy sparse matrix of shape (m, n)
        y : array of shape (m,)
            Labels, -1 or +1.

        Examples
        --------
        >>> import numpy as np, dcfw
        >>> F = dcfw.functions.FiniteSum.logistic(np.eye(2), np.array([1, -1]))
        >>> F.batch_grad(np.zeros(2), np.array([0]))
        array([-0.5,  0. ])
        """
        from dcfw.functions.scored import Logistic

        return Logistic(A, y)

    @staticmethod
    def least_squares(A: Any, b: Any) -> FiniteSum:
        """Return half the mean squared residual, F_i(x) = 1/2 (a_i'x - b_i)^2.

        Parameters
        ----------
        A : array or SciPy sparse matrix of shape (m, n)
        b : array of shape (m,)

        Examples
        --------
        >>> import numpy as np, dcfw
        >>> dcfw.functions.FiniteSum.least_squares(np.eye(2), np.array([2.0, 0.0])).value(np.zeros(2))
        1.0
        """
        from dcfw.functions.scored import Squares

        return Squares(A, b)

    @staticmethod
    def completion(shape: tuple[int, int], rows: Any, cols: Any, values: Any) -> FiniteSum:
        """Return half the mean squared error on observed entries, F_k(X) = 1/2 (X[i_k, j_k] - v_k)^2.

        The gradient of a batch is zero outside the batch.  An entry may be observed more than once.

        Parameters
        ----------
        shape : tuple of int
            The shape of the matrix.
        rows, cols : integer arrays of shape (m,)
            The positions of the observed entries.
        values : array of shape (m,)

        Examples
        --------
        >>> import numpy as np, dcfw
        >>> F = dcfw.functions.FiniteSum.completion((2, 2), [0, 1], [1, 1], [3.0, 1.0])
        >>> F.grad(np.zeros((2, 2)))
        array([[ 0. , -1.5],
               [ 0. , -0.5]])
        """
        from dcfw.functions.scored import Completion

        return Completion(shape, rows, cols, values)

    def value(self, x: Array) -> float:
        return float(self._value(copy_of(x)))

    def grad(self, x: Array) -> Array:
        if self._grad is None:
            return self._gradient(x, np.arange(self.m))
        return copy_of(self._grad(copy_of(x)))

    def _gradient(self, x: Array, indices: np.ndarray) -> Array:
        return copy_of(self._batch_grad(copy_of(x), indices))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray | None:
        """Return ``size`` distinct indices, or None (for all) if ``size`` is at least m."""
        return None if size >= self.m else rng.choice(self.m, size, replace=False)

    def batch_grad(self, x: Array, batch: Any) -> Array:
        """Return the mean gradient over the components in ``batch`` (all of them if None)."""
        return self.grad(x) if batch is None else self._gradient(x, self._indices(batch))

    def batch_linearise(self, x: Array, batch: Any) -> Linearisation:
        """Return the mean value and the mean gradient over the batch."""
        if batch is None:
            return self.linearise(x)
        batch = self._indices(batch)
        mean = self._batch_value
        value = self.value(x) if mean is None else number(mean(copy_of(x), batch))
        return Linearisation(value, self._gradient(x, batch), self._states_smoothness())

    def _indices(self, batch: Any) -> np.ndarray:
        indices: np.ndarray = np.asarray(batch)
        if indices.ndim != 1 or indices.dtype.kind not in "iu" or not indices.size:
            raise ValueError(
                f"indices must be a non-empty vector of integers, got shape {indices.shape}, {indices.dtype}"
            )
        worst = int(indices.min()) if indices.min() < 0 else int(indices.max())
        if not 0 <= worst < self.m:
            raise ValueError(f"indices must be between 0 and m - 1 = {self.m - 1}, got {worst}")
        return indices

    def __repr__(self) -> str:
        return f"{type(self).__name__}(m={self.m})"


class Stream(Sampled, trusted=True):
    """An expectation E F(x, xi) that can be sampled without limit.

    Parameters
    ----------
    draw : callable
        ``draw(rng, size)`` returns a batch of ``size`` new samples, in any form.
    batch_grad : callable
        ``batch_grad(x, batch)``, the mean gradient over a batch.
    batch_value : callable
        ``batch_value(x, batch)``, the mean value over a batch.
    lipschitz, lipschitz_max : float, optional
        Lipschitz constants of the expected gradient and of every sample's gradient.
    convex : bool, optional
        Whether the expectation is convex, if known.
    holdout : int
        The number of samples behind ``value`` and ``grad``.  They are drawn once, with a fixed seed, so that
        a run is measured on data that it has not seen.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> F = dcfw.functions.Stream(
    ...     draw=lambda rng, size: rng.normal(3.0, 1.0, (size, 1)),
    ...     batch_grad=lambda x, batch: x - batch.mean(axis=0),
    ...     batch_value=lambda x, batch: 0.5 * ((x - batch) ** 2).mean(),
    ... )
    >>> batch = F.draw(np.random.default_rng(0), 10_000)
    >>> F.batch_grad(np.zeros(1), batch).round(1)
    array([-3.])
    """

    m = None

    def __init__(
        self,
        draw: Callable[[np.random.Generator, int], Any],
        batch_grad: Callable[[Array, Any], Array],
        batch_value: Callable[[Array, Any], Any],
        *,
        lipschitz: float | None = None,
        lipschitz_max: float | None = None,
        convex: bool | None = None,
        holdout: int = 1000,
    ) -> None:
        self.draw = _validate.function(draw, "draw")
        self._batch_grad = _validate.function(batch_grad, "batch_grad")
        self._batch_value = _validate.function(batch_value, "batch_value")
        self._state(lipschitz, convex)
        self.lipschitz_max = _validate.constant(lipschitz_max, "lipschitz_max")
        self._size = _validate.integer(holdout, "holdout", low=1)

    @cached_property
    def holdout(self) -> Any:
        """The batch behind ``value`` and ``grad``."""
        return self.draw(np.random.default_rng(HOLDOUT), self._size)

    def value(self, x: Array) -> float:
        return float(self._batch_value(copy_of(x), self.holdout))

    def grad(self, x: Array) -> Array:
        return self.batch_grad(x, self.holdout)

    def batch_grad(self, x: Array, batch: Any) -> Array:
        """Return the mean gradient over the batch."""
        return copy_of(self._batch_grad(copy_of(x), batch))

    def batch_linearise(self, x: Array, batch: Any) -> Linearisation:
        """Return the mean value and the mean gradient over the batch."""
        value = number(self._batch_value(copy_of(x), batch))
        return Linearisation(value, self.batch_grad(x, batch), self._states_smoothness())

    def __repr__(self) -> str:
        return "Stream()"
