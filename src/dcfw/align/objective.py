"""The loss of a map between embeddings on the observed entries: f(X) = 1/(2n) ||P o (X E1) - Y||_F^2.

It is a quadratic whose Hessian acts on each row of X separately.  :mod:`dcfw.align.products` applies it in
three ways, which agree to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, inner, is_numpy, to_numpy
from dcfw.align.moments import Moments, moments_of, total, total_on
from dcfw.align.observations import Observations
from dcfw.align.products import PASSES, PRODUCTS, DenseProduct, GramProduct, ObservedProduct, choose
from dcfw.functions.base import Function


class MaskedLeastSquares(Function, trusted=True):
    """The function 1/(2n) ||P o (X E1) - Y||_F^2 of a matrix X of shape (d2, d1).

    Parameters
    ----------
    E1, Y, mask, product, dtype
        As in :func:`dcfw.align.align`.  A memory map is read by blocks.
    passes : int
        For ``product="auto"``: the expected number of gradients.

    Attributes
    ----------
    shape : tuple of int
        The shape of X, (d2, d1).
    n, observed : int
        The number of words and of observed entries.
    source : array of shape (d1, d1)
        E1 E1^T.
    product : str
        The chosen product.

    Examples
    --------
    >>> f = MaskedLeastSquares(np.array([[1.0, 2.0]]), np.array([[3.0, np.nan]]))
    >>> f.value(np.array([[1.0]])), f.grad(np.array([[1.0]]))
    (1.0, array([[-1.]]))
    """

    affine_grad = True
    convex = True

    def __init__(
        self,
        E1: Any,
        Y: Any,
        mask: Any = None,
        *,
        product: str = "auto",
        dtype: Any = None,
        passes: float = PASSES,
    ) -> None:
        product = _validate.choice(product, "product", PRODUCTS)
        passes = _validate.scalar(passes, "passes", low=0.0, allow_inf=True)
        data = Observations(E1, Y, mask, dtype)
        if product == "auto":
            product = choose(data, passes)
        elif product != "dense" and not data.numpy:
            raise ValueError(f"product {product!r} is for NumPy arrays: use 'dense', or convert the arrays")
        moments = total(Moments.of(block, grams=product == "gram") for block in data.blocks())
        if product == "gram":
            operator: Any = GramProduct(moments)
        else:
            operator = ObservedProduct(data) if product == "observed" else DenseProduct(data)
        self._set(product, operator, moments)

    @classmethod
    def from_blocks(
        cls, blocks: Iterable[Any], *, dtype: Any = None, client: Any = None
    ) -> MaskedLeastSquares:
        """Return the function of data that come in blocks of words, each of which is read once.

        Parameters
        ----------
        blocks : iterable
            Of ``(E1, Y)`` or ``(E1, Y, mask)``, or of callables that return such a tuple.
        dtype : float32 or float64, optional
        client : dask.distributed.Client, optional
            Sum the blocks on this cluster; they should then be callables that read their own data.

        Examples
        --------
        >>> E1, Y = np.eye(2, 4), np.array([[1.0, np.nan, 0.0, 2.0]])
        >>> f = MaskedLeastSquares.from_blocks((E1[:, k : k + 2], Y[:, k : k + 2]) for k in (0, 2))
        >>> f.value(np.zeros((1, 2)))
        0.625
        """
        if client is None:
            moments = total(moments_of(block, dtype) for block in blocks)
        else:
            moments = total_on(client, blocks, dtype)
        made = cls.__new__(cls)
        made._set("gram", GramProduct(moments), moments)
        return made

    def _set(self, product: str, operator: Any, moments: Moments) -> None:
        if not moments.observed:
            raise ValueError("Y must have observed entries; all are missing (NaN, masked or not stored)")
        self.product, self._operator, self.source = product, operator, moments.source
        self.n, self.observed = moments.n, moments.observed
        self.shape = (int(moments.cross.shape[0]), int(moments.cross.shape[1]))
        self._slope = moments.cross / self.n  # the negative gradient at zero
        self._constant = 0.5 * moments.square / self.n

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.shape[0] * self.shape[1]

    def template(self) -> Array:
        return self._slope

    def value(self, x: Array) -> float:
        return self._value(x, self._operator(x))

    def grad(self, x: Array) -> Array:
        grad = self._operator(x)
        grad -= self._slope
        return grad

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return self._value(x, grad + self._slope)

    def _value(self, x: Array, product: Array) -> float:
        # A sum of squares is negative only by rounding.
        return max(_inner(0.5 * product - self._slope, x) + self._constant, 0.0)

    @cached_property
    def lipschitz(self) -> float:
        """The largest eigenvalue of the Hessian; with products other than "gram", that of a full mask."""
        if self._operator.largest is not None:
            return float(self._operator.largest)
        return max(float(np.linalg.eigvalsh(self._source())[-1]) / self.n, 0.0)

    def _source(self) -> np.ndarray:
        return np.asarray(to_numpy(self.source), dtype=np.float64)

    @cached_property
    def curvature(self) -> float:
        """A bound of ||P o (D E1)||^2 / n over the differences D of two points of the unit spectral ball."""
        return 4.0 * float(np.trace(self._source())) / self.n

    def __repr__(self) -> str:
        sizes = f"shape={self.shape}, n={self.n}, observed={self.observed}"
        return f"MaskedLeastSquares({sizes}, product={self.product!r})"


def _inner(a: Array, b: Array) -> float:
    """Return <a, b>, summed in double precision: the value is a difference of larger numbers."""
    if is_numpy(a) and a.dtype == np.float32:
        return float(np.vdot(a.astype(np.float64), b.astype(np.float64)))
    return inner(a, b)
