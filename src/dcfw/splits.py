"""Ways to write an objective as a difference of convex functions.

One phi has many decompositions phi = f - g, and DC-FW on each of them is another algorithm:

``sliding(phi, L)``     f = L/2 ||x||^2.  The subproblem is a projection, the gradient of phi is taken once
                        per outer step and reused: conditional gradient sliding, O(1/eps) gradients.
``proximal(phi, L)``    f = phi + L/2 ||x||^2.  The subproblem keeps phi's curvature: a proximal point method.
``strengthen(dc, mu)``  adds mu/2 ||x||^2 to both sides: a strongly convex f, which pays on strongly convex
                        sets.

phi may be smooth, a difference p - q whose q is convex and nonsmooth, or (sliding only) any function whose
negative is weakly convex, given by a supergradient (:class:`dcfw.functions.WeaklyConcave`).

>>> import numpy as np
>>> from dcfw import functions, splits
>>> phi = functions.Quadratic(np.diag([1.0, -2.0]))
>>> dc = splits.proximal(phi, L=2.0)
>>> x = np.array([0.5, 0.5])
>>> dc.f.value(x) - dc.g.value(x) == phi.value(x)
True
"""

from __future__ import annotations

from typing import Any

from dcfw import _validate
from dcfw._arrays import Array, norm2
from dcfw.functions.base import DC, Function, Linearisation, Sum, WeaklyConcave, Zero, as_function
from dcfw.functions.quadratic import SquaredNorm
from dcfw.sets.atoms import Atom


class Remainder(Function):
    """L/2 ||x||^2 - phi(x), the concave side of a sliding split (convex when L is large enough)."""

    convex = True

    def __init__(self, phi: Function, L: float) -> None:
        self.phi = phi
        self.L = L
        self.differentiable = phi.differentiable
        self.affine_grad = phi.affine_grad

    @property
    def lipschitz(self) -> float | None:
        base = self.phi.lipschitz
        return None if base is None else self.L + base

    def value(self, x: Array) -> float:
        return 0.5 * self.L * norm2(x) - self.phi.value(x)

    def grad(self, x: Array) -> Array:
        return self.L * x - self.phi.grad(x)

    def grad_at(self, atom: Atom) -> Array:
        return self.L * atom.dense() - self.phi.grad_at(atom)

    def linearise(self, x: Array) -> Linearisation:
        if isinstance(self.phi, DC) and self.phi.whole is None:
            # p - q: one gradient of p, and value and subgradient of q from one evaluation.
            p, q = self.phi.f.linearise(x), self.phi.g.linearise(x)
            return Linearisation(
                0.5 * self.L * norm2(x) - p.value + q.value, self.L * x - p.slope + q.slope, q.unique
            )
        value, slope, unique = self.phi.linearise(x)
        return Linearisation(
            0.5 * self.L * norm2(x) - value, self.L * x - slope, unique and self.phi.differentiable
        )

    def __repr__(self) -> str:
        return f"SquaredNorm({self.L:g}) - {self.phi!r}"


def sliding(phi: Any, L: float | None = None) -> DC:
    """Split phi as L/2 ||x||^2 - (L/2 ||x||^2 - phi): conditional (sub)gradient sliding.

    Parameters
    ----------
    phi : function
        Smooth, or p - q with smooth p and convex q, or a :class:`~dcfw.functions.WeaklyConcave`.
    L : float, optional
        A constant that makes L/2 ||x||^2 - phi convex: a smoothness constant of phi (of p, for p - q), or
        the weak convexity modulus of -phi.  Taken from phi where phi knows it.

    Returns
    -------
    DC

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, splits
    >>> splits.sliding(functions.Quadratic(np.diag([1.0, -3.0]))).name
    'sliding(L=3)'
    """
    phi = as_function(phi, "phi")
    if isinstance(phi, WeaklyConcave):
        known = phi.modulus
    else:
        known = _smooth_part(phi).lipschitz
    L = _constant(L, known, "sliding", "a smoothness constant of phi")
    return DC(SquaredNorm(L), Remainder(phi, L), name=f"sliding(L={L:g})", whole=phi)


def proximal(phi: Any, L: float | None = None) -> DC:
    """Split phi as (phi + L/2 ||x||^2) - L/2 ||x||^2: proximal point and proximal subgradient FW.

    For phi = p - q with a convex q the split is (p + L/2 ||x||^2) - (q + L/2 ||x||^2).

    Parameters
    ----------
    phi : function
        Smooth, or p - q with smooth p and convex q.
    L : float, optional
        A constant that makes phi + L/2 ||x||^2 (p + L/2 ||x||^2) convex: its weak convexity modulus, of
        which the smoothness constant is an upper bound.  Taken from phi where phi knows it.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, splits
    >>> splits.proximal(functions.Quadratic(np.diag([5.0, -3.0]))).name
    'proximal(L=3)'
    """
    phi = as_function(phi, "phi")
    smooth = _smooth_part(phi)
    if not smooth.differentiable:
        raise ValueError(
            f"phi must be smooth (or p - q with smooth p) for splits.proximal, got {phi!r}; "
            "splits.sliding works with a supergradient alone"
        )
    L = _constant(L, smooth.weak_convexity, "proximal", "a weak convexity constant of phi")
    f: Function = Sum([smooth, SquaredNorm(L)])
    f.convex = True
    g: Function = SquaredNorm(L)
    whole: Function | None = phi
    if isinstance(phi, DC) and smooth is not phi:
        g, whole = Sum([phi.g, g]), None
    return DC(f, g, name=f"proximal(L={L:g})", whole=whole)


def strengthen(dc: Any, mu: float) -> DC:
    """Add mu/2 ||x||^2 to both sides of a decomposition, so that f is mu-strongly convex.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, splits
    >>> dc = functions.SquaredNorm(1.0) - functions.L1Norm()
    >>> splits.strengthen(dc, 0.5).f.lipschitz
    1.5
    """
    if not isinstance(dc, DC):
        raise TypeError(f"dc must be a difference f - g, got {type(dc).__name__}")
    mu = _validate.scalar(mu, "mu", low=0.0, open_low=True)
    extra = SquaredNorm(mu)
    return DC(dc.f + extra, dc.g + extra, f"{dc.name} + {mu:g}/2 ||x||^2", dc.conditional, dc.whole)


def spectral(phi: Any, domain: Any = None) -> DC:
    """Split a quadratic by the sign of its Hessian's eigenvalues: the least that any split can add.

    Parameters
    ----------
    phi : function
        Anything with an affine gradient: a quadratic, sums, multiples and differences of quadratics; dense,
        sparse or given by an operator.
    domain : set, optional
        Where phi is to be minimised.  If the set is flat (:meth:`dcfw.sets.Set.tangent`), only the curvature
        along it is split, and f - g = phi holds on the set.

    Returns
    -------
    DC
        Up to 1200 variables f and g are quadratics with a dense matrix.  Beyond, Lanczos looks for the negative
        eigenvalues; if they are few, g has low rank and f = phi + g (with a tiny multiple of ||x||^2 in both, for
        what Lanczos may have left), and ``conditional`` says what that rests on.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, sets, splits
    >>> dc = splits.spectral(functions.Quadratic(np.diag([5.0, -3.0])))
    >>> dc.f.A, dc.g.A
    (array([[5., 0.],
           [0., 0.]]), array([[0., 0.],
           [0., 3.]]))
    >>> concave_across = functions.Quadratic(np.eye(2) - 2.0)
    >>> splits.spectral(concave_across, sets.Simplex(2)).name
    'convex on the set (g = 0)'
    """
    from dcfw import _spectral

    return _spectral.split(_quadratic(phi, "spectral"), domain)


def choose(phi: Function) -> DC:
    """Return the decomposition that ``minimize`` uses for a single function, by this rule:

    1. a phi known to be convex is f itself, with g = 0;
    2. a quadratic gets the proximal split with L = its weak convexity modulus (0 means convex);
    3. any other smooth phi with a known Lipschitz constant gets the sliding split;
    4. a weakly concave phi with a known modulus gets the sliding split.
    """
    if isinstance(phi, DC):
        return phi
    if phi.convex:
        return DC(phi, Zero(), name="convex (g = 0)")
    if isinstance(phi, WeaklyConcave):
        return sliding(phi)
    if phi.affine_grad:
        if phi.weak_convexity == 0.0:
            return DC(phi, Zero(), name="convex (g = 0)")
        return proximal(phi)
    if phi.lipschitz is None:
        raise ValueError(
            "objective is a single function without a known Lipschitz constant, so no split f - g can be "
            "chosen for it: state it (functions.Smooth(value, grad, lipschitz=L)), split it yourself "
            "(splits.sliding(phi, L), splits.proximal(phi, L), or f - g), or use method='fw'"
        )
    return sliding(phi)


def _quadratic(phi: Any, split: str) -> Function:
    phi = as_function(phi, "phi")
    if not phi.affine_grad:
        raise ValueError(
            f"phi must be a quadratic (affine_grad = True) for splits.{split}, got {phi!r}; splits.sliding and "
            "splits.proximal take any smooth function"
        )
    return phi


def _smooth_part(phi: Function) -> Function:
    """Return p where phi is a plain p - q with nonsmooth q, else phi."""
    if isinstance(phi, DC) and phi.whole is None and not phi.differentiable:
        return phi.f
    return phi


def _constant(L: float | None, known: float | None, split: str, meaning: str) -> float:
    if L is not None:
        return _validate.scalar(L, "L", low=0.0, open_low=True)
    if known is None:
        raise ValueError(f"L must be given for splits.{split}: phi does not know {meaning}")
    # A convex phi needs no quadratic at all; keep a positive one so that both sides stay a split.
    return known if known > 0.0 else 1.0
