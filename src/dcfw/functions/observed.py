"""Losses on some entries of a matrix, whose gradient is a sparse matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.functions.base import Function
from dcfw.sets.lanczos import sparse_singular_pair
from dcfw.sets.sampled import Places

LOSSES = ("squared", "huber", "logistic")


class EntryLoss(Function, trusted=True):
    """The sum of one loss over the entries of a vector z, each with its own target y."""

    convex = True

    def __init__(self, y: np.ndarray, loss: str, delta: float) -> None:
        self.y, self.loss, self.delta, self.size = y, loss, delta, len(y)
        self.affine_grad = loss == "squared"

    @property
    def lipschitz(self) -> float:
        return 0.25 if self.loss == "logistic" else 1.0

    def template(self) -> Array:
        return self.y

    def value(self, x: Array) -> float:
        if self.loss == "logistic":
            return float(np.logaddexp(0.0, -self.y * x).sum())
        r = x - self.y
        if self.loss == "squared":
            return 0.5 * float(r @ r)
        inside = np.minimum(np.abs(r), self.delta)
        return float((inside * (np.abs(r) - 0.5 * inside)).sum())

    def grad(self, x: Array) -> Array:
        if self.loss == "logistic":
            return np.asarray(-0.5 * self.y * (1.0 - np.tanh(0.5 * self.y * x)))
        r = x - self.y
        return r if self.loss == "squared" else np.clip(r, -self.delta, self.delta)

    def value_from_grad(self, x: Array, grad: Array) -> float | None:
        return 0.5 * float(grad @ grad) if self.loss == "squared" else None


class Observed(Function, trusted=True):
    """A loss on the observed entries of a matrix X: the sum over k of loss(X[rows[k], cols[k]], values[k]).

    Over a :class:`~dcfw.sets.NuclearBall` or :class:`~dcfw.sets.Spectraplex`, ``minimize`` keeps X as factors
    and the gradient as a sparse matrix, and the result has ``factors`` and ``predict``.  This includes
    penalties on singular values (``+ MCP(lam, spectral=True)``).  Over other sets X is a dense matrix.

    Parameters
    ----------
    rows, cols : array of int
        The positions of the observed entries.
    values : array
        The observed entries; -1 or 1 for the logistic loss.
    shape : tuple of int
        The shape of X.
    loss : {"squared", "huber", "logistic"}
        (x - y)^2 / 2; the same up to ``delta`` and linear beyond; log(1 + exp(-y x)).
    delta : float
        The residual from which the Huber loss is linear.

    Examples
    --------
    >>> import dcfw
    >>> from dcfw import functions, sets
    >>> rows, cols = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1])
    >>> loss = functions.Observed(rows, cols, np.array([1.0, 2.0, 2.0, 2.0]), shape=(3, 2))
    >>> res = dcfw.minimize(loss, sets.NuclearBall((3, 2), radius=6.0))
    >>> U, s, V = res.factors
    >>> round(res.predict(0, 1), 2), U.shape
    (2.0, (3, 2))
    """

    convex = True

    def __init__(
        self,
        rows: Any,
        cols: Any,
        values: Any,
        shape: tuple[int, int],
        loss: str = "squared",
        delta: float = 1.0,
    ) -> None:
        m, n = self.shape = _validate.shape(shape, ndim=2)
        self.size = m * n
        y = np.asarray(to_numpy(_validate.array(values, "values", ndim=1)), dtype=np.float64)
        i, j = (_indices(v, name, top, len(y)) for v, name, top in ((rows, "rows", m), (cols, "cols", n)))
        self.loss = _validate.choice(loss, "loss", LOSSES)
        if loss == "logistic" and not (np.abs(y) == 1.0).all():
            raise ValueError("values must be -1 or 1 for the logistic loss")
        order = np.lexsort((j, i))
        self.places = Places(i[order], j[order], (m, n))
        self.entries = EntryLoss(y[order], loss, _validate.scalar(delta, "delta", low=0.0, open_low=True))

    @property
    def affine_grad(self) -> bool:  # type: ignore[override]
        return self.entries.affine_grad

    @property
    def lipschitz(self) -> float:
        cells = self.places.rows * np.int64(self.shape[1]) + self.places.cols
        most = int(np.unique(cells, return_counts=True)[1].max(initial=1))  # observations of one entry
        return self.entries.lipschitz * most

    def largest(self) -> float:
        """Return (to 1 %) the largest singular value of the matrix with zeros for unobserved entries."""
        G = self.places.matrix(self.entries.y)
        u, v, _ = sparse_singular_pair(G, None, math.inf, 1e-2)
        return float(u @ (G @ v))

    def value(self, x: Array) -> float:
        return self.entries.value(self._seen(x))

    def grad(self, x: Array) -> Array:
        return np.asarray(self.places.matrix(self.entries.grad(self._seen(x))).toarray())

    def _seen(self, x: Array) -> np.ndarray:
        return np.asarray(np.reshape(x, self.shape)[self.places.rows, self.places.cols])

    def __repr__(self) -> str:
        return f"Observed({len(self.places)} of {self.shape[0]} x {self.shape[1]}, {self.loss})"


def _indices(candidate: Any, name: str, top: int, count: int) -> np.ndarray:
    found = np.asarray(to_numpy(candidate))
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a vector of integers, got {found.dtype} of shape {found.shape}")
    if len(found) != count:
        raise ValueError(f"{name} must have as many entries as values, {count}, got {len(found)}")
    if count and not (found.min() >= 0 and found.max() < top):
        raise ValueError(f"{name} must be between 0 and {top - 1}, got {found.min()} to {found.max()}")
    return found.astype(np.int32 if top < 2**31 else np.int64)
