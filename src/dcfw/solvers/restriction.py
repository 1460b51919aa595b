"""A function of several blocks as a function of one of them, the others fixed.

For a quadratic f with Hessian H this is q_i(z) + <c_i, z> + a constant, where q_i has the Hessian H_ii and
serves the whole solve, and c_i = (grad f(x))_i - grad q_i(x_i) joins the solver's linear term.  When block i
moves by d, the whole gradient changes by H_{:,i} d.  Any other f is evaluated with the block inserted; its
gradient is stored whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import _protocol
from dcfw._arrays import Array, like, namespace
from dcfw.functions.base import Function
from dcfw.functions.quadratic import LeastSquares, Quadratic, SquaredNorm
from dcfw.functions.sums import Scaled, Sum, Zero
from dcfw.sets.product import Product
from dcfw.solvers.run import Run

Change = Callable[[Array], Array]  # H_{:,i}, from a (flat) change of block i to that of the whole gradient


class Slot:
    """The place of a block in the flat vector, and its shape."""

    def __init__(self, product: Product, index: int) -> None:
        self.domain: Any = product.sets[index]
        self.shape = product.shapes[index]
        self.size = product.shape[0]
        self.slice: slice = product._slices[index]
        self.whole = len(product.sets) == 1 and self.shape == product.shape

    def of(self, x: Array) -> Array:
        part = x[self.slice]
        return part if len(self.shape) == 1 else namespace(x).reshape(part, self.shape)

    def put(self, x: Array, z: Array) -> Array:
        xp = namespace(x)
        return xp.concat([x[: self.slice.start], xp.reshape(z, (-1,)), x[self.slice.stop :]])

    def alone(self, z: Array) -> Array:
        return self.put(like(np.zeros(self.size), z), z)


class QuadraticPart:
    """A quadratic f as a function of one block: q_i, its gradient at the block, and H_{:,i}."""

    def __init__(self, f: Function, slot: Slot) -> None:
        self.whole_f, self.slot = f, slot
        self.f, self._change = (f, None) if slot.whole else _structure(f, slot)
        self.kept: Array | None = None  # the gradient of q_i at the block

    def begin(self, run: Run, x: Array, z: Array, grad: Array) -> tuple[Array, Array | None]:
        if self.slot.whole:
            return grad, None
        if self.kept is None:
            self.kept = run.grad_f(self.f, z)
        return self.kept, self.slot.of(grad) - self.kept

    def end(self, run: Run, x: Array, grad: Array, z: Array, new: Array, grad_new: Array) -> Array:
        if self.slot.whole:
            return grad_new
        self.kept = grad_new
        if self._change is None:
            return run.grad_f(self.whole_f, x)
        run.ledger.count_gradient()
        return grad + self._change(namespace(new).reshape(new - z, (-1,)))


class SmoothPart:
    """Any differentiable f as a function of one block."""

    kept = None  # nothing needs saving

    def __init__(self, f: Function, slot: Slot) -> None:
        self.whole_f, self.slot = f, slot
        self.f: Function = _Inserted(f, slot)

    def begin(self, run: Run, x: Array, z: Array, grad: Array) -> tuple[Array, None]:
        self.f = _Inserted(self.whole_f, self.slot, x)
        return self.slot.of(grad), None

    def end(self, run: Run, x: Array, grad: Array, z: Array, new: Array, grad_new: Array) -> Array:
        assert isinstance(self.f, _Inserted)
        known = self.f.last
        # Usually the loop has just computed the gradient at its last point.
        return known[1] if known is not None and known[0] is new else run.grad_f(self.whole_f, x)


class _Inserted(Function, trusted=True):
    """f with a block inserted into x, or among zeros; the last whole gradient is stored."""

    def __init__(self, f: Function, slot: Slot, x: Array | None = None) -> None:
        self.whole_f, self.slot, self.x = f, slot, x
        self.convex, self.affine_grad = f.convex, f.affine_grad
        self.last: tuple[Array, Array] | None = None

    @property
    def lipschitz(self) -> float | None:
        return self.whole_f.lipschitz

    def _insert(self, z: Array) -> Array:
        return self.slot.alone(z) if self.x is None else self.slot.put(self.x, z)

    def value(self, z: Array) -> float:
        return self.whole_f.value(self._insert(z))

    def grad(self, z: Array) -> Array:
        whole = self.whole_f.grad(self._insert(z))
        self.last = (z, whole)
        return self.slot.of(whole)


def _structure(f: Function, slot: Slot) -> tuple[Function, Change | None]:
    """Return q_i, and H_{:,i} if that is cheaper than a gradient of f."""
    s = slot.slice
    if _protocol.overridden(f, Function, "value", "grad"):  # f may differ from its data
        return _Inserted(f, slot), None
    if isinstance(f, Quadratic) and not f._operator:
        rows = f.A[s, :]
        return Quadratic(rows[:, s], convex=True), lambda d: rows.T @ d
    if isinstance(f, LeastSquares) and not f._operator:
        A, columns = f.A, f.A[:, s]
        return LeastSquares(columns, 0.0 * f.b), lambda d: A.T @ (columns @ d)
    if isinstance(f, SquaredNorm | Zero):
        scale = f.scale if isinstance(f, SquaredNorm) else 0.0
        return f, lambda d: slot.alone(scale * d)
    if isinstance(f, Scaled) and f.affine_grad:
        q, change = _structure(f.function, slot)
        weight = f.scale
        return weight * q, None if change is None else lambda d: weight * change(d)
    if isinstance(f, Sum):
        parts = [_structure(term, slot) for term in f.terms]
        changes = [change for _, change in parts]
        known = [change for change in changes if change is not None]
        whole = Sum([q for q, _ in parts])
        return whole, (lambda d: sum(change(d) for change in known)) if len(known) == len(changes) else None
    return _Inserted(f, slot), None
