"""Ways to write an objective as a difference of convex functions.

DC-FW on different decompositions phi = f - g of one objective is a different algorithm:

``sliding(phi, L)``     f = L/2 ||x||^2: conditional gradient sliding.  The subproblem is a projection, and
                        phi needs one gradient per outer step, O(1/eps) in all.
``proximal(phi, L)``    f = phi + L/2 ||x||^2: a proximal point method; the subproblem keeps phi's curvature.
``spectral(phi, set)``  quadratics: f has the positive curvature of phi along the set, g the negative one.
``best(phi, set)``      chooses one of these by a rule.
``strengthen(dc, mu)``  adds mu/2 ||x||^2 to both sides; a strongly convex f helps on strongly convex sets.

phi may be smooth, a difference p - q with a nonsmooth convex q, or (sliding only) a function whose negative
is weakly convex, given by a supergradient (:class:`dcfw.functions.WeaklyConcave`).  With ``L="auto"`` the
solver of the first two finds the constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from typing import Any

from dcfw import _validate
from dcfw._arrays import Array, norm2
from dcfw.functions.base import Function, Linearisation, as_function, gradient, same_shape
from dcfw.functions.dc import DC, joined, unproven
from dcfw.functions.given import WeaklyConcave
from dcfw.functions.penalties import Composite
from dcfw.functions.quadratic import Quadratic, SquaredNorm
from dcfw.functions.sums import Made, Scaled, Sum, Zero
from dcfw.sets.atoms import Atom
from dcfw.sets.given import as_set, wrapped


class Remainder(Made, trusted=True):
    """The function L/2 ||x||^2 - phi(x), g of a sliding split (convex if L is large enough)."""

    def __init__(self, phi: Function, L: float, convex: bool | None = True) -> None:
        self.phi, self.L, self.convex = phi, L, convex

    weak_convexity = Function.weak_convexity  # of the remainder, not of phi

    def _made_of(self) -> tuple[Function, ...]:
        return (self.phi,)

    @property
    def lipschitz(self) -> float | None:
        base = self.phi.lipschitz
        return None if base is None else self.L + base

    def value(self, x: Array) -> float:
        return 0.5 * self.L * norm2(x) - self.phi.value(x)

    def grad(self, x: Array) -> Array:
        return self.L * x - gradient(self.phi, x)

    def grad_at(self, atom: Atom) -> Array:
        return self.L * atom.dense() - self.phi.grad_at(atom)

    def linearise(self, x: Array) -> Linearisation:
        square = 0.5 * self.L * norm2(x)
        if isinstance(self.phi, DC) and self.phi.whole is None:  # p - q, each evaluated once
            p, q = self.phi.f.linearise(x), self.phi.g.linearise(x)
            same_shape(p.slope, x, "grad", self.phi.f)
            same_shape(q.slope, x, "grad", self.phi.g)
            return Linearisation(square - p.value + q.value, self.L * x - p.slope + q.slope, q.unique)
        phi = self.phi.linearise(x)
        same_shape(phi.slope, x, "grad", self.phi)
        unique = phi.unique and self.phi.differentiable
        return Linearisation(square - phi.value, self.L * x - phi.slope, unique)

    def __repr__(self) -> str:
        return f"SquaredNorm({self.L:g}) - {self.phi!r}"


class Auto(DC, trusted=True):
    """A split with ``L="auto"``: f = p + L/2 ||x||^2, g = h + L/2 ||x||^2, p - h = phi.

    The solver finds L (:mod:`dcfw.solvers.adaptive`).
    """

    def __init__(
        self, phi: Function, p: Function, h: Function, name: str, enough: float | None = None
    ) -> None:
        self.p, self.h = p, h
        self.enough = enough or math.inf  # an L that is known, or stated, to be large enough
        f, g = self.parts(1.0)
        super().__init__(f, g, name, "L, found on the way, makes both parts convex", whole=phi)

    def parts(self, L: float) -> tuple[Function, Function]:
        """Return f and g for a given L."""
        f, g = (SquaredNorm(L) if isinstance(h, Zero) else Sum([h, SquaredNorm(L)]) for h in (self.p, self.h))
        f.convex = g.convex = True
        return f, g

    def _parts(self) -> tuple[Function, Function]:
        raise ValueError(
            "an objective that has been split with L='auto' cannot be part of another difference: put the "
            "objective together first, and split it then, as in splits.sliding(phi - g, L='auto')"
        )


def sliding(phi: Any, L: float | str | None = None) -> DC:
    """Split phi as L/2 ||x||^2 - (L/2 ||x||^2 - phi): conditional (sub)gradient sliding.

    Parameters
    ----------
    phi : function
        Smooth, or p - q with smooth p and convex q, or a :class:`~dcfw.functions.WeaklyConcave`.
    L : float or "auto", optional
        A constant that makes L/2 ||x||^2 - phi convex: a smoothness constant of phi (of p, for p - q), or
        the weak convexity modulus of -phi.  Default: the constant that phi computes or states.  With
        ``"auto"`` the solver finds the smallest sufficient one; such a split cannot be part of another
        difference.

    Returns
    -------
    DC
        Its ``conditional`` names an L that is not verified: one given here, unless phi computes its own and
        that is not larger, or one that was stated with phi (``functions.Smooth(..., lipschitz=L)``).

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> dcfw.splits.sliding(dcfw.functions.Quadratic(np.diag([1.0, -3.0]))).name
    'sliding(L=3)'
    """
    phi = as_function(phi, "phi")
    _refuse_a_penalty(phi, "sliding")
    if not _kinks_point_up(phi):
        raise ValueError(
            "phi must be smooth, a functions.WeaklyConcave, or p - q with smooth p and convex q for "
            f"splits.sliding, got {phi!r}: no L makes L/2 ||x||^2 - phi convex"
        )
    if isinstance(L, str) and L == "auto":
        cap = None if isinstance(phi, DC) else phi.lipschitz
        return Auto(phi, Zero(), Remainder(phi, 0.0, convex=None), "sliding(L=auto)", cap)
    smooth = _smooth_part(phi)
    known = smooth.modulus if isinstance(smooth, WeaklyConcave) else smooth.lipschitz
    L, condition = _constant(phi, L, known, smooth.stated, "sliding", "a smoothness constant of phi")
    return DC(SquaredNorm(L), Remainder(phi, L), f"sliding(L={L:g})", condition, whole=phi)


def proximal(phi: Any, L: float | str | None = None) -> DC:
    """Split phi as (phi + L/2 ||x||^2) - L/2 ||x||^2: proximal point and proximal subgradient FW.

    A phi = p - q with convex q becomes (p + L/2 ||x||^2) - (q + L/2 ||x||^2).

    Parameters
    ----------
    phi : function
        Smooth, or p - q with smooth p and convex q.
    L : float or "auto", optional
        A constant that makes phi (or p) + L/2 ||x||^2 convex: its weak convexity modulus, for which the
        smoothness constant is an upper bound.  Default: the constant that phi computes or states.  With
        ``"auto"`` the solver starts with a small one and increases it at negative curvature.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> dcfw.splits.proximal(dcfw.functions.Quadratic(np.diag([5.0, -3.0]))).name
    'proximal(L=3)'
    """
    phi = as_function(phi, "phi")
    _refuse_a_penalty(phi, "proximal")
    smooth = _smooth_part(phi)
    if not smooth.differentiable:
        raise ValueError(
            f"phi must be smooth (or p - q with smooth p) for splits.proximal, got {phi!r}; "
            "splits.sliding works with a supergradient alone"
        )
    if isinstance(L, str) and L == "auto":
        return Auto(phi, smooth, Zero() if smooth is phi else phi.g, "proximal(L=auto)")
    known, trusted = smooth.weak_convexity, _curvature_on_trust(smooth)
    L, condition = _constant(phi, L, known, trusted, "proximal", "a weak convexity constant of phi")
    f, square = Sum([smooth, SquaredNorm(L)]), SquaredNorm(L)
    f.convex = True
    if isinstance(phi, DC) and smooth is not phi:
        return DC(f, Sum([phi.g, square]), f"proximal(L={L:g})", condition)
    return DC(f, square, f"proximal(L={L:g})", condition, whole=phi)


def strengthen(dc: Any, mu: float) -> DC:
    """Add mu/2 ||x||^2 to both sides of a decomposition, so that f is mu-strongly convex.

    >>> import numpy as np, dcfw
    >>> dc = dcfw.functions.SquaredNorm(1.0) - dcfw.functions.L1Norm()
    >>> dcfw.splits.strengthen(dc, 0.5).f.lipschitz
    1.5
    """
    if not isinstance(dc, DC):
        raise TypeError(f"dc must be a difference f - g, got {type(dc).__name__}")
    if isinstance(dc, Auto):
        raise ValueError("dc must have a known L to be strengthened; that of L='auto' is found by the solver")
    mu = _validate.scalar(mu, "mu", low=0.0, open_low=True)
    extra = SquaredNorm(mu)
    return DC(dc.f + extra, dc.g + extra, f"{dc.name} + {mu:g}/2 ||x||^2", dc.conditional, dc.whole)


def spectral(phi: Any, domain: Any = None) -> DC:
    """Split a quadratic by the sign of its Hessian's eigenvalues, which adds the least curvature.

    Parameters
    ----------
    phi : function
        Any function with an affine gradient: a quadratic, or sums, multiples and differences of them; dense,
        sparse or given by an operator.
    domain : set, optional
        The feasible set.  If it is flat (:meth:`dcfw.sets.Set.tangent`), only the curvature along it is
        split, and f - g = phi holds on its affine hull; ``minimize`` refuses the split for other sets.

    Returns
    -------
    DC
        Up to 1200 variables f and g are quadratics with a dense matrix.  Beyond, Lanczos computes the
        negative eigenvalues; if they are few, g has low rank and f = phi + g (with a tiny multiple of ||x||^2
        in both for eigenvalues that Lanczos may miss), and ``conditional`` states the assumption.

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

    domain = None if domain is None else as_set(domain)
    phi = as_function(phi, "phi")
    if not phi.affine_grad:
        raise ValueError(
            f"phi must be a quadratic (affine_grad = True) for splits.spectral, got {phi!r}; splits.sliding "
            "and splits.proximal take any smooth function"
        )
    return _spectral.split(phi, domain)


def best(phi: Any, domain: Any = None) -> DC:
    """Return the recommended decomposition of phi.

    1. A phi known to be convex is f itself, with g = 0.
    2. A quadratic gets the spectral split along the set.  If it is large (more than 1200 variables) and has
       many negative eigenvalues, it gets the proximal split, with L = its weak convexity modulus.
    3. Any other smooth phi gets the sliding split, with an L found during the run (at most a known one).
    4. A weakly concave phi gets the sliding split, with its modulus if it is known.
    5. A difference p - q that is not a quadratic is kept.

    The result of a solve names the choice (``res.split``).

    Parameters
    ----------
    phi : function
    domain : set, optional
        The feasible set.

    Notes
    -----
    Rule 2 was measured on 15 families of quadratics over eight kinds of sets.  On average a run with the
    proximal split took 1 to 180 times as many oracle calls.  From one start the spectral split ends at worse
    points of nearly concave functions, since it goes straight to a vertex; with as many calls spent on
    restarts it was no worse on 14 families, and 1 per cent worse on the other.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> dcfw.splits.best(dcfw.functions.Quadratic(np.diag([1.0, -2.0])), dcfw.sets.L2Ball(2)).name
    'spectral'
    """
    phi = as_function(phi, "phi")
    domain = None if domain is None else as_set(domain)
    if phi.convex:
        return DC(phi, Zero(), name="convex (g = 0)")
    if isinstance(phi, WeaklyConcave):
        return sliding(phi, L=None if phi.modulus is not None else "auto")
    if phi.affine_grad:
        return _best_of_a_quadratic(phi, domain)
    if isinstance(phi, DC):
        return _marked(phi, domain)
    return sliding(phi, L="auto")


def choose(phi: Function, domain: Any = None) -> DC:
    """Return the decomposition that ``minimize`` uses: a given f - g, else that of :func:`best`.

    ``refuted`` names a quadratic f or g of up to 500 variables that is not convex on the set.
    """
    domain = None if domain is None else as_set(domain)
    phi = as_function(phi, "phi")
    return _tested(_marked(phi if isinstance(phi, DC) else best(phi, domain), domain))


def _tested(dc: DC) -> DC:
    """Return a decomposition in which stated definiteness of quadratics is tested, or made a condition."""
    for part in _within(dc):
        if isinstance(part, Quadratic) and part.on_trust and part.definite is not True:
            if part.definite is None:
                stated = f"A of {part!r} is positive semidefinite, which was stated and not computed"
                dc = copy(dc)
                dc.conditional = joined(dc, stated)
            else:
                dc = _refuted(dc, f"{part!r} is not convex, though convex=True was stated")
    return dc


def _refuted(dc: DC, found: str) -> DC:
    dc = copy(dc)
    dc.refuted = f"{dc.refuted}; {found}" if dc.refuted else found
    return dc


def _marked(dc: DC, domain: Any) -> DC:
    """Return a given f - g, conditional on what is not known, refuted if a part is known not to be convex.

    Raise if it is for another set.
    """
    from dcfw import _spectral

    for made_for in [] if domain is None else [part.made_for for part in _within(dc)]:
        if made_for is None or wrapped(made_for) is wrapped(domain):
            continue
        if not _spectral.lies_flat(domain, made_for):
            raise ValueError(
                f"objective has been split for {made_for!r}, and f - g is not a split of it on {domain!r}: "
                "use splits.spectral(phi, domain) with the set that it is minimised over"
            )
    parts = {"f": dc.f, "g": dc.g}
    known = {label: _spectral.lowest_curvature(part, domain) for label, part in parts.items()}
    lows = {label: low for label, low in known.items() if low is not None}
    condition = unproven(dc, lows)
    if condition not in dc.conditional:
        dc = copy(dc)
        dc.conditional = joined(dc, condition)
    for label, low in lows.items():
        if low < 0.0:
            found = f"{label} is not convex, its lowest curvature is {low:.3g} (see splits.proximal)"
            dc = _refuted(dc, found)
    return dc


def _within(function: Function) -> Iterator[Function]:
    """Yield a function and, recursively, its parts."""
    yield function
    parts = [*getattr(function, "terms", ()), getattr(function, "function", None)]
    if isinstance(function, DC):
        parts += [function.f, function.g]
    for part in parts:
        if isinstance(part, Function):
            yield from _within(part)


def _best_of_a_quadratic(phi: Function, domain: Any) -> DC:
    from dcfw import _spectral

    if domain is None and phi.size is None:  # the number of variables is unknown
        return DC(phi, Zero(), name="convex (g = 0)") if phi.weak_convexity == 0.0 else proximal(phi)
    try:
        return _spectral.split(phi, domain, thorough=False)
    except _spectral.TooManyNegative:
        return proximal(phi)


def _smooth_part(phi: Function) -> Function:
    """Return p if phi is a given p - q with nonsmooth q, else phi."""
    return phi.f if isinstance(phi, DC) and phi.whole is None and not phi.differentiable else phi


def _refuse_a_penalty(phi: Function, split: str) -> None:
    if isinstance(phi, Composite):
        raise ValueError(
            f"phi contains the norm {phi.norm!r}, which splits.{split} does not support: lift it with "
            "functions.lift(phi, ball), which returns a decomposition"
        )


def _kinks_point_up(phi: Function) -> bool:
    """Return whether all kinks of phi are like those of -|x|, so that L/2 ||x||^2 - phi may be convex."""
    if phi.differentiable or isinstance(phi, WeaklyConcave):
        return True
    if isinstance(phi, Sum):
        return all(map(_kinks_point_up, phi.terms))
    if isinstance(phi, Scaled):
        return _kinks_point_up(phi.function) if phi.scale >= 0.0 else phi.function.convex is True
    if isinstance(phi, DC):
        return _kinks_point_up(phi.f if phi.whole is None else phi.whole)
    return False


def _curvature_on_trust(phi: Function) -> bool:
    """Return whether phi's weak convexity rests on a user's statement, other than a part's convexity."""
    if isinstance(phi, Sum):
        return any(map(_curvature_on_trust, phi.terms))
    if isinstance(phi, DC) and phi.whole is None:
        return _curvature_on_trust(phi.f) or phi.g.stated
    return phi.stated and not phi.convex


def _constant(
    phi: Function, L: Any, known: float | None, trusted: bool, split: str, meaning: str
) -> tuple[float, str]:
    """Return L and the condition of the split, which is empty if phi computes that L is large enough."""
    given = phi.conditional if isinstance(phi, DC) and phi.whole is None else ""
    if L is not None:
        L = _validate.scalar(L, "L", low=0.0, open_low=True)
        certain = known is not None and not trusted and known * (1.0 - 1e-12) <= L
        return L, joined(given, "" if certain else f"L = {L:.6g} makes both parts convex")
    if known is None:
        raise ValueError(f"L must be given for splits.{split}: phi does not know {meaning}")
    L = known if known > 0.0 else 1.0  # positive for a convex phi too, so that the result is a split
    own = f"L = {L:.6g}, which was stated and not computed, makes both parts convex"
    return L, joined(given, own if trusted else "")
