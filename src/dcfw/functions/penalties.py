"""Sparsity penalties that do not shrink large entries: l1 - l2, capped l1, SCAD and MCP.

Each except l1 - l2 is a sum of ``p(|x_i|)`` with slope lam at zero that flattens out, and each is a
difference P = f - g with f = lam ||x||_1 and a convex g:

==============  ======================================================  =============================
``L1MinusL2``   lam (||x||_1 - ||x||_2)                                 g = lam ||x||_2
``CappedL1``    lam sum min(abs(x_i), theta)                            g = lam sum (abs(x_i) - theta)_+
``SCAD``        lam|t| to lam, a parabola, constant beyond a lam        g has curvature 1/(a - 1)
``MCP``         lam|t| - t^2/(2 gamma), constant beyond gamma lam       g has curvature 1/gamma
==============  ======================================================  =============================

With ``spectral=True`` x is a matrix and its singular values take the place of ``|x_i|``: f is lam times the
nuclear norm, and g is convex as an even, increasing, convex function of singular values, with gradient
U g'(Sigma) V^T.

``loss + MCP(0.1)`` is a :class:`Composite`, a DC whose f = loss + lam ||x||_1 is not smooth.  Two
reformulations are exact:

* :func:`dcfw.functions.lift` replaces lam ||x|| by lam t on the epigraph {(x, t): ||x|| <= t <= r}
  (:class:`dcfw.sets.epigraph.Epigraph`).  There f is smooth, the linear oracle costs the same, and the
  minimisers are the same.
* If ||x|| <= r is known to hold with equality, lam ||x|| is a constant: minimise ``loss - penalty.g``.
"""

from __future__ import annotations

import numbers
from typing import Any, NoReturn

from dcfw import _validate
from dcfw._arrays import Array, eps_of, namespace
from dcfw.functions.base import Function, Linearisation, as_function
from dcfw.functions.dc import DC, joined
from dcfw.functions.norms import L1Norm, L2Norm, NuclearNorm
from dcfw.functions.sums import Scaled, Sum, Zero


class Composite(DC, trusted=True):
    """The difference smooth + norm - g (made by ``loss + penalty``), whose f is not differentiable."""

    def __init__(
        self, smooth: Function, norm: L1Norm | NuclearNorm, g: Function, conditional: str = ""
    ) -> None:
        # Without DC.__init__, which refuses a norm in f.
        if not smooth.differentiable:
            raise ValueError(f"the loss must be differentiable when a penalty is added to it, got {smooth!r}")
        if smooth.convex is False:
            refuse(smooth, "is declared not convex", "where loss + SquaredNorm(rho) is convex")
        self.smooth, self.norm, self.g = smooth, norm, g
        self.f = norm if isinstance(smooth, Zero) else Sum([smooth, norm])
        self.whole = None
        self.name, self.conditional, self.refuted = "given", conditional, ""
        self.differentiable = self.affine_grad = False

    def _plus(self, upper: Function, lower: Function, conditional: str = "") -> Composite:
        """Return self + upper - lower, with a norm in ``upper`` of the same kind added to this one."""
        norm, smooth, g = self.norm, self.smooth, lower if isinstance(self.g, Zero) else self.g + lower
        other = as_norm(upper)
        if other is None and not isinstance(upper, Zero):
            smooth = upper if isinstance(smooth, Zero) else smooth + upper
        elif other is not None:
            if not isinstance(other, type(norm)):
                raise ValueError(
                    f"{norm!r} and {other!r} cannot stand in one objective: functions.lift replaces one norm "
                    "by the variable t, and these are two different ones"
                )
            norm = type(norm)(norm.scale + other.scale)
        return Composite(smooth, norm, g, joined(self, conditional))

    def __add__(self, other: Any) -> Function:
        other = as_function(other, "the right side of +")
        if isinstance(other, Composite):
            return self._plus(other.norm, other.g, other.conditional)._plus(other.smooth, Zero())
        if isinstance(other, DC):
            return self._plus(*other._parts(), other.conditional)
        return self._plus(other, Zero())

    def __radd__(self, other: Any) -> Function:
        return self if isinstance(other, numbers.Real) and other == 0 else self + other

    def __sub__(self, other: Any) -> DC:
        other = as_function(other, "the right side of -")
        if isinstance(other, DC):
            p, q = other._parts()
            return self._plus(q, p, other.conditional)
        return self._plus(Zero(), other)

    def __mul__(self, scale: Any) -> Function:
        if not isinstance(scale, numbers.Real):
            return NotImplemented
        scale = _validate.scalar(scale, "scale of a penalty", low=0.0)
        norm = type(self.norm)(scale * self.norm.scale)
        smooth = self.smooth if isinstance(self.smooth, Zero) else scale * self.smooth
        return Composite(smooth, norm, scale * self.g, self.conditional)

    __rmul__ = __mul__

    def linearise(self, x: Array) -> Linearisation:
        f, g = self.f.linearise(x), self.g.linearise(x)
        return Linearisation(f.value - g.value, f.slope - g.slope, False)


def as_norm(function: Function) -> L1Norm | NuclearNorm | None:
    """Return a liftable norm, or a multiple of one, as a norm; None for other functions."""
    if isinstance(function, L1Norm | NuclearNorm):
        return function
    if isinstance(function, Scaled) and function.scale >= 0.0:
        norm = as_norm(function.function)
        return None if norm is None else type(norm)(function.scale * norm.scale)
    return None


def as_composite(phi: Function) -> Function:
    """Return a sum that contains a norm as a :class:`Composite`; return other functions unchanged."""
    terms = phi.terms if isinstance(phi, Sum) else (phi,)
    norms = [norm for norm in map(as_norm, terms) if norm is not None]
    if not norms:
        return phi
    whole: Function = Composite(Zero(), type(norms[0])(0.0), Zero())
    for term in terms:
        whole = whole + term
    return whole


def refuse(loss: Function, why: str, rho: str) -> NoReturn:
    """Raise for a loss that is not convex, with the split that would make it so."""
    raise ValueError(
        f"the loss must be convex when a penalty is added to it, but {loss!r} {why}: write "
        f"loss + SquaredNorm(rho) + penalty - SquaredNorm(rho), {rho}"
    )


class Concave(Function, trusted=True):
    """The convex function ``sum_i h(|x_i|)``, of entries or singular values, that a penalty subtracts."""

    convex = True

    def __init__(self, penalty: Separable) -> None:
        self.penalty = penalty
        self.differentiable = not penalty.kinks

    @property
    def lipschitz(self) -> float | None:
        return self.penalty.bend

    def value(self, x: Array) -> float:
        return float(namespace(x).sum(self.penalty.removed(self.penalty.sizes(x))))

    def grad(self, x: Array) -> Array:
        return self.linearise(x).slope

    def linearise(self, x: Array) -> Linearisation:
        xp, penalty, rounding = namespace(x), self.penalty, 0.0
        if penalty.spectral:
            U, size, Vt = xp.linalg.svd(x, full_matrices=False)
            slope = (U * penalty.slope(size)) @ Vt
            rounding = float(size[0]) * eps_of(x) * max(x.shape)  # singular values are not exact
        else:
            size = abs(x)
            slope = xp.sign(x) * penalty.slope(size)
        unique = not any(bool(xp.any(abs(size - kink) <= rounding)) for kink in penalty.kinks)
        return Linearisation(float(xp.sum(penalty.removed(size))), slope, unique)

    def __repr__(self) -> str:
        return f"{self.penalty!r}.g"


class Separable(Composite, trusted=True):
    """A penalty ``sum_i p(|x_i|)``, p(t) = lam t - h(t), of entries or of singular values."""

    parameter: str  # the name of the second parameter
    kinks: tuple[float, ...] = ()  # the sizes at which h' jumps
    bend: float | None = None  # the largest curvature of h, where h is smooth

    def __init__(self, lam: float, spectral: bool) -> None:
        self.lam = _validate.scalar(lam, "lam", low=0.0)
        self.spectral = _validate.flag(spectral, "spectral")
        super().__init__(Zero(), (NuclearNorm if self.spectral else L1Norm)(self.lam), Concave(self))

    def sizes(self, x: Array) -> Array:
        """Return ``|x_i|``, or the singular values."""
        if not self.spectral:
            return abs(x)
        if x.ndim != 2:
            raise ValueError(f"x must be a matrix for a spectral penalty, got shape {tuple(x.shape)}")
        return namespace(x).linalg.svd(x, full_matrices=False)[1]

    def value(self, x: Array) -> float:
        return float(namespace(x).sum(self.profile(self.sizes(x))))

    def profile(self, t: Array) -> Array:
        """Return p(t) for t >= 0."""
        raise NotImplementedError

    def removed(self, t: Array) -> Array:
        """Return h(t) = lam t - p(t)."""
        raise NotImplementedError

    def slope(self, t: Array) -> Array:
        """Return h'(t)."""
        raise NotImplementedError

    def __repr__(self) -> str:
        own = f"{self.parameter}={getattr(self, self.parameter):g}"
        return f"{type(self).__name__}({self.lam:g}, {own}{', spectral=True' if self.spectral else ''})"


class L1MinusL2(Composite, trusted=True):
    """The penalty lam (||x||_1 - ||x||_2), zero for vectors with one nonzero.

    With ``spectral=True``, the nuclear norm minus the Frobenius norm: zero for matrices of rank one.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.L1MinusL2(2.0).value(np.array([3.0, -4.0]))
    4.0
    """

    def __init__(self, lam: float = 1.0, *, spectral: bool = False) -> None:
        self.lam = _validate.scalar(lam, "lam", low=0.0)
        self.spectral = _validate.flag(spectral, "spectral")
        super().__init__(Zero(), (NuclearNorm if self.spectral else L1Norm)(self.lam), L2Norm(self.lam))

    def __repr__(self) -> str:
        return f"L1MinusL2({self.lam:g}{', spectral=True' if self.spectral else ''})"


class CappedL1(Separable, trusted=True):
    """The penalty ``lam sum min(|x_i|, theta)``; ``g = lam sum max(|x_i| - theta, 0)`` has kinks at theta.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.CappedL1(2.0, theta=1.5).value(np.array([1.0, -4.0]))
    5.0
    """

    parameter = "theta"

    def __init__(self, lam: float = 1.0, theta: float = 1.0, *, spectral: bool = False) -> None:
        self.theta = _validate.scalar(theta, "theta", low=0.0, open_low=True)
        self.kinks = (self.theta,)
        super().__init__(lam, spectral)

    def profile(self, t: Array) -> Array:
        return self.lam * namespace(t).where(t < self.theta, t, self.theta + 0.0 * t)

    def removed(self, t: Array) -> Array:
        return 0.5 * self.lam * (abs(t - self.theta) + (t - self.theta))

    def slope(self, t: Array) -> Array:
        return namespace(t).where(t > self.theta, self.lam + 0.0 * t, 0.0 * t)


class SCAD(Separable, trusted=True):
    """Fan and Li's smoothly clipped absolute deviation.

    p(t) = lam t for t <= lam, (2 a lam t - t^2 - lam^2) / (2 (a - 1)) up to a lam, then lam^2 (a + 1) / 2.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.SCAD(1.0, a=3.0).value(np.array([0.5, 9.0]))
    2.5
    """

    parameter = "a"
    bend: float

    def __init__(self, lam: float = 1.0, a: float = 3.7, *, spectral: bool = False) -> None:
        self.a = _validate.scalar(a, "a", low=1.0, open_low=True)
        self.bend = 1.0 / (self.a - 1.0)
        super().__init__(lam, spectral)

    def profile(self, t: Array) -> Array:
        xp, lam, a = namespace(t), self.lam, self.a
        middle = (2.0 * a * lam * t - t * t - lam * lam) / (2.0 * (a - 1.0))
        beyond = 0.5 * lam * lam * (a + 1.0) + 0.0 * t
        return xp.where(t <= lam, lam * t, xp.where(t <= a * lam, middle, beyond))

    def removed(self, t: Array) -> Array:
        xp, lam, a = namespace(t), self.lam, self.a
        excess = xp.where(t > lam, t - lam, 0.0 * t)
        beyond = lam * t - 0.5 * lam * lam * (a + 1.0)
        return xp.where(t <= a * lam, 0.5 * self.bend * excess * excess, beyond)

    def slope(self, t: Array) -> Array:
        xp, lam = namespace(t), self.lam
        excess = xp.where(t > lam, t - lam, 0.0 * t)
        return xp.where(t <= self.a * lam, self.bend * excess, lam + 0.0 * t)


class MCP(Separable, trusted=True):
    """Zhang's minimax concave penalty; g is lam times a Huber function.

    p(t) = lam t - t^2 / (2 gamma) for t <= gamma lam, then gamma lam^2 / 2.

    >>> import numpy as np, dcfw
    >>> dcfw.functions.MCP(1.0, gamma=2.0).value(np.array([1.0, -9.0]))
    1.75
    """

    parameter = "gamma"

    def __init__(self, lam: float = 1.0, gamma: float = 3.0, *, spectral: bool = False) -> None:
        self.gamma = _validate.scalar(gamma, "gamma", low=0.0, open_low=True)
        self.bend = 1.0 / self.gamma
        super().__init__(lam, spectral)

    def profile(self, t: Array) -> Array:
        lam, gamma = self.lam, self.gamma
        beyond = 0.5 * gamma * lam * lam + 0.0 * t
        return namespace(t).where(t <= gamma * lam, lam * t - t * t / (2.0 * gamma), beyond)

    def removed(self, t: Array) -> Array:
        lam, gamma = self.lam, self.gamma
        return namespace(t).where(t <= gamma * lam, t * t / (2.0 * gamma), lam * t - 0.5 * gamma * lam * lam)

    def slope(self, t: Array) -> Array:
        return namespace(t).where(t <= self.gamma * self.lam, t / self.gamma, self.lam + 0.0 * t)
