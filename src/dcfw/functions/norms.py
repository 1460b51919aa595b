"""Norms as convex functions, whose value is the inner product with any subgradient."""

from __future__ import annotations

import math

from dcfw import _validate
from dcfw._arrays import Array, eps_of, inner, namespace, norm
from dcfw.functions.base import Function, Linearisation


class _Norm(Function, trusted=True):
    """A positively homogeneous convex function: g(x) = <u, x> for every u in its subdifferential."""

    convex = True
    differentiable = False

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = _validate.scalar(scale, "scale", low=0.0)

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return inner(grad, x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scale:g})"


class L1Norm(_Norm, trusted=True):
    """The function ``scale * sum |x_i|``; the subgradient is 0 where x_i = 0.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.L1Norm(2.0).grad(np.array([3.0, 0.0, -1.0]))
    array([ 2.,  0., -2.])
    """

    def value(self, x: Array) -> float:
        return self.scale * float(namespace(x).sum(abs(x)))

    def grad(self, x: Array) -> Array:
        return self.scale * namespace(x).sign(x)

    def linearise(self, x: Array) -> Linearisation:
        slope = self.grad(x)
        return Linearisation(inner(slope, x), slope, not bool(namespace(x).any(x == 0.0)))


class L2Norm(_Norm, trusted=True):
    """The function scale * ||x||_2; the subgradient at zero is 0.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.L2Norm().value(np.array([3.0, 4.0]))
    5.0
    """

    def value(self, x: Array) -> float:
        return self.scale * norm(x)

    def grad(self, x: Array) -> Array:
        return self.linearise(x).slope

    def linearise(self, x: Array) -> Linearisation:
        length = norm(x)
        if length == 0.0:
            return Linearisation(0.0, 0.0 * x, False)
        return Linearisation(
            self.scale * length, self.scale * (x / length), True
        )  # scale / length may overflow


class NuclearNorm(_Norm, trusted=True):
    """The function scale * (sum of singular values) of a matrix.

    The subgradient is scale * U_r V_r^T over the nonzero singular values (the one of minimum norm, 0 at
    zero), or over all of them with ``complete=True`` (the identity at zero).

    >>> import numpy as np, dcfw
    >>> round(dcfw.functions.NuclearNorm().value(np.diag([1.0, -2.0])), 12)
    3.0
    """

    def __init__(self, scale: float = 1.0, *, complete: bool = False) -> None:
        super().__init__(scale)
        self.complete = _validate.flag(complete, "complete")

    def value(self, x: Array) -> float:
        return self.linearise(x).value

    def grad(self, x: Array) -> Array:
        return self.linearise(x).slope

    def linearise(self, x: Array) -> Linearisation:
        if x.ndim != 2:
            raise ValueError(f"x must be a matrix for NuclearNorm, got shape {tuple(x.shape)}")
        xp = namespace(x)
        U, sigma, Vt = xp.linalg.svd(x, full_matrices=False)
        largest = float(sigma[0])
        floor = largest * eps_of(x) * max(x.shape)
        full_rank = largest > 0.0 and float(sigma[-1]) > floor
        if not (self.complete or full_rank):
            U = U * xp.astype(sigma > floor, U.dtype) if xp.__name__ != "numpy" else U * (sigma > floor)
        value = self.scale * float(xp.sum(sigma))
        return Linearisation(value, self.scale * (U @ Vt), full_rank and math.isfinite(value))
