"""Differences f - g of convex functions, with the conditions under which both parts are convex.

Functions added to f - g join f, subtracted ones join g, and conditions are kept.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.functions.base import Function, as_function, gradient
from dcfw.functions.sums import Made, common_size, total_of
from dcfw.sets.atoms import Atom

AFFINE = "the gradient of phi is affine, as stated"


class DC(Made, trusted=True):
    """A difference f - g of convex functions (made by ``-`` or by :mod:`dcfw.splits`).

    Attributes
    ----------
    f, g : Function
        The convex parts; f must be differentiable, g need not be.
    name : str
        The decomposition: ``"given"``, ``"sliding(L=2)"``, ...
    conditional : str
        The assumption under which f and g are convex, empty if there is none.
    refuted : str
        The reason why a part is known not to be convex, or empty. A refuted split certifies nothing.
    whole : Function or None
        The objective from which f and g were made, if any.  It gives the values and gradients of phi, without
        the cancellation in f - g.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> dc = dcfw.functions.SquaredNorm(1.0) - dcfw.functions.L1Norm()
    >>> dc.name, dc.value(np.array([1.0, -2.0])), dc.grad(np.array([1.0, -2.0]))
    ('given', -0.5, array([ 0., -1.]))
    """

    def __init__(
        self, f: Any, g: Any, name: str = "given", conditional: str = "", whole: Function | None = None
    ) -> None:
        self.f, self.g, self.whole = as_function(f, "f"), as_function(g, "g"), whole
        if not self.f.differentiable:
            raise ValueError(
                "f must be differentiable in f - g (only g may be nonsmooth); "
                f"got {type(self.f).__name__}, whose gradient is not unique everywhere"
            )
        for part, label in ((self.f, "f"), (self.g, "g")):
            if part.convex is False:
                raise ValueError(
                    f"{label} must be convex in f - g; {part!r} is declared not convex: "
                    "write the objective with splits.sliding or splits.proximal instead"
                )
        self.name = _validate.text(name, "name")
        self.conditional = _validate.text(conditional, "conditional")
        self.refuted = ""

    def _made_of(self) -> tuple[Function, ...]:
        return (self.f, self.g) if self.whole is None else (self.whole,)

    @property
    def lipschitz(self) -> float | None:
        if self.whole is not None:
            return self.whole.lipschitz
        # The Hessian of phi lies between -(rho_f + L_g) and L_f + rho_g; rho = 0 where a part is convex.
        upper, lower = total_of((self.f.lipschitz, self.g.weak_convexity)), self.weak_convexity
        return None if upper is None or lower is None else max(upper, lower)

    @property
    def weak_convexity(self) -> float | None:
        if self.whole is not None:
            return self.whole.weak_convexity
        return total_of((self.f.weak_convexity, self.g.lipschitz))

    def value(self, x: Array) -> float:
        return self.f.value(x) - self.g.value(x) if self.whole is None else self.whole.value(x)

    def grad(self, x: Array) -> Array:
        return gradient(self.f, x) - gradient(self.g, x) if self.whole is None else self.whole.grad(x)

    def grad_at(self, atom: Atom) -> Array:
        if self.whole is not None:
            return self.whole.grad_at(atom)
        return self.f.grad_at(atom) - self.g.grad_at(atom)

    def hessian(self, x: Array) -> np.ndarray:
        return self.f.hessian(x) - self.g.hessian(x) if self.whole is None else self.whole.hessian(x)

    @property
    def size(self) -> int | None:  # type: ignore[override]
        return common_size((self.f, self.g))

    def _parts(self) -> tuple[Function, Function]:
        """Return f and g for use in another difference."""
        return self.f, self.g

    def __add__(self, other: Any) -> Function:
        other = as_function(other, "the right side of +")
        if isinstance(other, DC) and (self.whole is None or other.whole is None):
            (f, g), (p, q) = self._parts(), other._parts()
            return DC(f + p, g + q, conditional=joined(self, other))
        # A sum of a whole phi and a function that is not a difference stays whole, and is split again.
        if self.whole is not None:
            return super().__add__(other)
        return DC(self.f + other, self.g, conditional=self.conditional)

    def __sub__(self, other: Any) -> DC:
        other = as_function(other, "the right side of -")
        f, g = self._parts()
        if isinstance(other, DC):
            p, q = other._parts()
            return DC(f + q, g + p, conditional=joined(self, other))
        return DC(f, g + other, conditional=self.conditional)

    def __mul__(self, scale: Any) -> Function:
        if self.whole is not None or not isinstance(scale, numbers.Real):
            return super().__mul__(scale)
        if scale < 0:
            return DC(-scale * self.g, -scale * self.f, conditional=self.conditional)
        return DC(scale * self.f, scale * self.g, conditional=self.conditional)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"({self.f!r}) - ({self.g!r})"

    def _facts(self) -> dict[str, Any]:
        assumed = {"provided that": self.conditional} if self.conditional else {}
        return {"f": repr(self.f), "g": repr(self.g), "split": self.name} | assumed


def unproven(dc: DC, computed: Iterable[str] = ()) -> str:
    """Return the condition that the parts of a difference are convex, where the library does not know it.

    It knows the classes of its own that are convex by construction, and the curvature of the parts that are
    named in ``computed``.  A user's statement is a condition, ``affine_grad`` too, and so is a quadratic that
    is too large for its curvature to be computed.  A split has its own condition.
    """
    if dc.whole is not None and dc.conditional:
        return ""
    parts = {"f": dc.f, "g": dc.g}
    computed = parts if dc.whole is not None else computed
    open_ = {name: part for name, part in parts.items() if not part.convex and name not in computed}
    large = [name for name, part in open_.items() if part.affine_grad and not part.by_word]
    silent = [name for name in open_ if name not in large]
    stated = [name for name, part in parts.items() if name not in open_ and part.by_word]
    return joined(
        _are_convex(silent, "which was not stated"),
        _are_convex(large, "which was neither stated nor computed"),
        _are_convex(stated, "as stated"),
    )


def _are_convex(names: list[str], how: str) -> str:
    verb = "are" if len(names) == 2 else "is"
    return f"{' and '.join(names)} {verb} convex, {how}" if names else ""


def joined(*parts: DC | str) -> str:
    """Return one condition for several decompositions.

    >>> joined("L = 1 is large enough", "", "g is convex")
    'L = 1 is large enough, and g is convex'
    """
    texts = (part if isinstance(part, str) else part.conditional for part in parts)
    return ", and ".join(dict.fromkeys(text for text in texts if text))
