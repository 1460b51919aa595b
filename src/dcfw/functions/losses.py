"""Smooth convex losses that are not quadratic."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, namespace, to_numpy
from dcfw.functions.base import Function
from dcfw.functions.quadratic import LeastSquares, matrix, reshaped


class LogSumExp(Function, trusted=True):
    """The function t * log(sum_i exp((Ax + b)_i / t)), a smooth maximum of affine functions.

    ``A=None`` means the identity (x itself, of any shape).

    >>> import numpy as np, dcfw
    >>> round(dcfw.functions.LogSumExp().value(np.zeros(2)), 6)
    0.693147
    """

    convex = True

    def __init__(self, A: Any = None, b: Any = None, temperature: float = 1.0) -> None:
        self.A = None if A is None else _validate.array(A, "A", ndim=2)
        self.b = None
        if self.A is not None:
            self.b = None if b is None else _validate.companion(b, "b", int(self.A.shape[0]), self.A)
            self.size = int(self.A.shape[1])
        elif b is not None:
            self.b = _validate.array(b, "b")
            self.size = math.prod(self.b.shape)
        self.temperature = _validate.scalar(temperature, "temperature", low=0.0, open_low=True)

    def _scores(self, x: Array) -> Array:
        if self.A is None:
            return x if self.b is None else x + reshaped(self.b, x.shape)
        scores = self.A @ reshaped(x, (-1,))
        return scores if self.b is None else scores + self.b

    def value(self, x: Array) -> float:
        xp = namespace(x)
        z = self._scores(x) / self.temperature
        top = float(xp.max(z))
        return self.temperature * (top + float(xp.log(xp.sum(xp.exp(z - top)))))

    def grad(self, x: Array) -> Array:
        weights = self._weights(self._scores(x))
        return weights if self.A is None else reshaped(self.A.T @ weights, x.shape)

    def _weights(self, scores: Array) -> Array:
        """Return the softmax of the scores."""
        xp = namespace(scores)
        z = scores / self.temperature
        weights = xp.exp(z - xp.max(z))
        return weights / xp.sum(weights)

    def hessian(self, x: Array) -> np.ndarray:
        weights = self._weights(to_numpy(self._scores(x)).reshape(-1))
        A = np.eye(len(weights)) if self.A is None else np.asarray(to_numpy(self.A))
        mean = A.T @ weights
        return np.asarray(((A.T * weights) @ A - np.outer(mean, mean)) / self.temperature)

    @cached_property
    def lipschitz(self) -> float:
        # In the scores, the Hessian of log-sum-exp is at most diag(weights) <= I.
        spectral = 1.0 if self.A is None else float(np.linalg.norm(to_numpy(self.A), 2)) ** 2
        return spectral / self.temperature

    def __repr__(self) -> str:
        return "LogSumExp()" if self.A is None else f"LogSumExp(A of shape {tuple(self.A.shape)})"


class LogisticLoss(Function, trusted=True):
    """The mean logistic loss 1/m sum_i log(1 + exp(-y_i a_i'x)), with labels y_i = -1 or +1.

    >>> import numpy as np, dcfw
    >>> round(dcfw.functions.LogisticLoss(np.eye(2), np.array([1, -1])).value(np.zeros(2)), 6)
    0.693147
    """

    convex = True

    def __init__(self, A: Any, y: Any) -> None:
        _validate.same_index(A, y, "y")
        self.A, self._sparse, _ = matrix(A, operators=False)
        self.m, self.size = (int(size) for size in self.A.shape)
        self.y = _validate.companion(y, "y", self.m, self.A)
        if not np.isin(to_numpy(self.y), (-1.0, 1.0)).all():
            raise ValueError("y must hold the labels -1 and +1 only")

    def _margin(self, x: Array) -> Array:
        return self.y * (self.A @ reshaped(x, (-1,)))

    def value(self, x: Array) -> float:
        xp = namespace(x)
        margin = self._margin(x)
        # log(1 + e^-m) = max(-m, 0) + log(1 + e^-|m|) does not overflow.
        loss = xp.log1p(xp.exp(-xp.abs(margin))) + xp.where(margin < 0, -margin, 0.0 * margin)
        return float(xp.mean(loss))

    def grad(self, x: Array) -> Array:
        xp = namespace(x)
        margin = self._margin(x)
        small = xp.exp(-xp.abs(margin))
        sigma = xp.where(margin >= 0, small, 1.0 + 0.0 * small) / (1.0 + small)
        return reshaped(self.A.T @ (-(self.y * sigma) / self.m), x.shape)

    def hessian(self, x: Array) -> np.ndarray:
        small = np.exp(-np.abs(to_numpy(self._margin(x))))
        weights = small / (1.0 + small) ** 2 / self.m
        if self._sparse:
            return np.asarray((self.A.T.multiply(weights) @ self.A).toarray())
        A = np.asarray(to_numpy(self.A))
        return np.asarray((A.T * weights) @ A)

    @cached_property
    def lipschitz(self) -> float:
        return LeastSquares(self.A, self.y).lipschitz / (4.0 * self.m)

    def __repr__(self) -> str:
        return f"LogisticLoss(m={self.m})"
