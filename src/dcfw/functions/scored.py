"""Finite sums of losses of linear scores: logistic regression, least squares, matrix completion.

:class:`~dcfw.functions.FiniteSum` makes them (``logistic``, ``least_squares`` and ``completion``).  A batch
reads only its own rows or entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, is_numpy, like, namespace, to_numpy
from dcfw.functions.base import Linearisation
from dcfw.functions.finite_sum import FiniteSum
from dcfw.functions.quadratic import LeastSquares, matrix, reshaped

Adjoint = Callable[[Array], Array]


class Scored(FiniteSum, trusted=True):
    """A mean of losses of scores, 1/m sum_i loss(z_i, y_i), where the score z_i is linear in x."""

    convex = True
    curvature = 1.0  # of the loss
    stated = False  # the constants are computed from the data

    def __init__(self, m: int, y: Array) -> None:
        self.m, self.y = m, y

    def _scores(self, x: Array, batch: np.ndarray | None) -> tuple[Array, Adjoint]:
        """Return the scores at x, and the adjoint map from slopes of scores to a gradient."""
        raise NotImplementedError

    def _losses(self, z: Array, y: Array) -> Array:
        r = z - y
        return 0.5 * r * r

    def _slopes(self, z: Array, y: Array) -> Array:
        return z - y

    def value(self, x: Array) -> float:
        return float(namespace(x).mean(self._losses(self._scores(x, None)[0], self.y)))

    def grad(self, x: Array) -> Array:
        return self.batch_grad(x, None)

    def linearise(self, x: Array) -> Linearisation:
        return self.batch_linearise(x, None)

    def batch_grad(self, x: Array, batch: Any) -> Array:
        z, y, adjoint = self._sample(x, batch)
        return adjoint(self._slopes(z, y) / y.shape[0])

    def batch_linearise(self, x: Array, batch: Any) -> Linearisation:
        z, y, adjoint = self._sample(x, batch)
        value = float(namespace(x).mean(self._losses(z, y)))
        return Linearisation(value, adjoint(self._slopes(z, y) / y.shape[0]), True)

    def _sample(self, x: Array, batch: Any) -> tuple[Array, Array, Adjoint]:
        batch = None if batch is None else self._indices(batch)
        z, adjoint = self._scores(x, batch)
        return z, self.y if batch is None else self.y[batch], adjoint


class Linear(Scored, trusted=True):
    """Scores a_i'x for the rows of a matrix."""

    def __init__(self, A: Any, y: Any, name: str) -> None:
        self.A, self._sparse, _ = matrix(A, operators=False)
        m = _validate.integer(int(self.A.shape[0]), "the number of rows of A", low=1)
        super().__init__(m, _validate.companion(y, name, m, self.A))
        self.size = int(self.A.shape[1])

    def _scores(self, x: Array, batch: np.ndarray | None) -> tuple[Array, Adjoint]:
        rows = self.A if batch is None else self.A[batch]
        return rows @ reshaped(x, (-1,)), lambda slopes: reshaped(rows.T @ slopes, x.shape)

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.curvature * LeastSquares(self.A, self.y).lipschitz / self.m

    @cached_property
    def lipschitz_max(self) -> float:  # type: ignore[override]
        entries = self.A.multiply(self.A) if self._sparse else to_numpy(self.A * self.A)
        return self.curvature * float(np.max(entries.sum(axis=1)))


class Squares(Linear, trusted=True):
    """See :meth:`FiniteSum.least_squares`."""

    affine_grad = True

    def __init__(self, A: Any, b: Any) -> None:
        super().__init__(A, b, "b")


class Logistic(Linear, trusted=True):
    """See :meth:`FiniteSum.logistic`."""

    curvature = 0.25

    def __init__(self, A: Any, y: Any) -> None:
        super().__init__(A, y, "y")
        if not np.isin(to_numpy(self.y), (-1.0, 1.0)).all():
            raise ValueError("y must hold the labels -1 and +1 only")

    def _losses(self, z: Array, y: Array) -> Array:
        xp = namespace(z)
        margin = y * z
        # log(1 + e^-m) = max(-m, 0) + log(1 + e^-|m|) does not overflow.
        return 0.5 * (abs(margin) - margin) + xp.log1p(xp.exp(-abs(margin)))

    def _slopes(self, z: Array, y: Array) -> Array:
        # -y / (1 + e^m), written with tanh, which does not overflow.
        return -0.5 * y * (1.0 - namespace(z).tanh(0.5 * y * z))


class Completion(Scored, trusted=True):
    """See :meth:`FiniteSum.completion`."""

    affine_grad = True
    lipschitz_max = 1.0

    def __init__(self, shape: tuple[int, int], rows: Any, cols: Any, values: Any) -> None:
        self.shape = _validate.shape(shape, ndim=2)
        values = _validate.array(values, "values", ndim=1)
        super().__init__(_validate.integer(int(values.shape[0]), "the number of values", low=1), values)
        self.rows = self._checked(rows, "rows", self.shape[0])
        self.cols = self._checked(cols, "cols", self.shape[1])
        self._flat = self.rows * self.shape[1] + self.cols
        self.size = math.prod(self.shape)

    def _checked(self, candidate: Any, name: str, size: int) -> np.ndarray:
        index = np.asarray(candidate)
        if index.dtype.kind not in "iu" or index.shape != (self.m,):
            raise ValueError(
                f"{name} must hold {self.m} integers, one per value, got {index.dtype} of shape {index.shape}"
            )
        if index.min() < 0 or index.max() >= size:
            raise ValueError(f"{name} must be between 0 and {size - 1} for the shape {self.shape}")
        return index.astype(np.int64)

    def template(self) -> Array:
        return self.y

    def _scores(self, x: Array, batch: np.ndarray | None) -> tuple[Array, Adjoint]:
        places = self._flat if batch is None else self._flat[batch]

        def adjoint(slopes: Array) -> Array:
            # bincount sums entries that were observed more than once.
            total = np.bincount(places, to_numpy(slopes), minlength=math.prod(self.shape))
            return like(total.reshape(x.shape), x)

        if is_numpy(x):
            return x.reshape(-1)[places], adjoint
        xp = namespace(x)
        return xp.take(xp.reshape(x, (-1,)), xp.asarray(places, device=x.device), axis=0), adjoint

    @cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        return float(np.bincount(self._flat).max()) / self.m
