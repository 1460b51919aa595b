"""Lifting: a norm among the terms of f becomes linear in one more variable.

min smooth(x) + lam ||x|| - g(x) over ||x|| <= r is the same problem as min smooth(x) + lam t - g(x) over the
epigraph {(x, t): ||x|| <= t <= r}, where f is smooth (Harchaoui, Juditsky and Nemirovski 2015).  Points are
vectors, x (raveled) followed by t; ``lift(x)`` and ``point(z)`` of :class:`~dcfw.sets.epigraph.Epigraph`
convert between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw._arrays import Array, is_numpy, namespace
from dcfw.functions.base import Function, Linearisation, as_function, same_shape
from dcfw.functions.dc import DC
from dcfw.functions.norms import L1Norm
from dcfw.functions.penalties import Composite, as_composite, refuse
from dcfw.functions.sums import Around, LinearFunction, Scaled, Sum, Zero
from dcfw.sets.atoms import Atom, Entries, OneHot
from dcfw.sets.epigraph import Epigraph
from dcfw.sets.norms import L1Ball, LpBall
from dcfw.sets.spectral import SchattenBall


class Lifted(Around, trusted=True):
    """A function of x as one of z = (x, t), with the same properties."""

    def __init__(self, function: Function, domain: Epigraph) -> None:
        super().__init__(function)
        self.domain, self.size = domain, domain.shape[0]

    def value(self, x: Array) -> float:
        return self.function.value(self.domain.point(x))

    def grad(self, x: Array) -> Array:
        return self.domain.lift(self.function.grad(self.domain.point(x)), 0.0)

    def grad_at(self, atom: Atom) -> Array:
        if not isinstance(atom, Entries):
            return super().grad_at(atom)
        return self.domain.lift(self.function.grad_at(self._below(atom)), 0.0)

    def prefetch(self, atoms: list[Any]) -> bool:
        below = [self._below(atom) for atom in atoms if isinstance(atom, Entries)]
        return len(below) == len(atoms) and self.function.prefetch(below)

    def _below(self, atom: Entries) -> OneHot:
        """Return the vertex of the ball below a vertex of the epigraph."""
        index, value = int(atom.indices[0]), float(atom.values[0])
        return OneHot(index, value, self.domain.ball.shape, atom.values.dtype)

    def linearise(self, x: Array) -> Linearisation:
        return self._lifted(self.function.linearise(self.domain.point(x)))

    def _lifted(self, answer: Linearisation) -> Linearisation:
        return answer._replace(slope=self.domain.lift(answer.slope, 0.0))

    def __repr__(self) -> str:
        return f"Lifted({self.function!r})"


class LiftedSample(Lifted, trusted=True):
    """A lifted finite sum or stream."""

    def __init__(self, function: Any, domain: Epigraph) -> None:
        super().__init__(function, domain)
        self.m, self.draw, self.source = function.m, function.draw, function
        self.lipschitz_max = function.lipschitz_max

    def batch_grad(self, x: Array, batch: Any) -> Array:
        return self.batch_linearise(x, batch).slope

    def batch_linearise(self, x: Array, batch: Any) -> Linearisation:
        point = self.domain.point(x)
        answer = self.source.batch_linearise(point, batch)
        same_shape(answer.slope, point, "batch_grad", self.source)
        return self._lifted(answer)


class Height(LinearFunction, trusted=True):
    """The linear function scale * t of z = (x, t)."""

    def value(self, x: Array) -> float:
        return self.scale * float(x[-1])

    def grad(self, x: Array) -> Array:
        if is_numpy(x):
            slope = np.zeros_like(x)
            slope[-1] = self.scale
            return slope
        return namespace(x).concat([0.0 * x[:-1], 0.0 * x[-1:] + self.scale])

    def __repr__(self) -> str:
        return f"{self.scale:g} * t"


def lift(objective: Any, ball: Any) -> tuple[Function, Epigraph]:
    """Return the objective as a DC with a smooth f on the epigraph of a norm, and the epigraph.

    Parameters
    ----------
    objective : function
        ``loss + penalty`` (:mod:`dcfw.functions.penalties`), ``loss + L1Norm(lam)``, or any function of x
        without a norm.
    ball : L1Ball or NuclearBall
        The ball ||x|| <= r of the norm in the penalty.

    Returns
    -------
    objective : Function
        A function of z = (x, t), at least the original at x, with equality for t = ||x||.
    domain : Epigraph
        ``domain.point(res.x)`` is the x of a result.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import functions, sets
    >>> phi = functions.SquaredNorm() + functions.L1MinusL2(0.5)
    >>> lifted, domain = functions.lift(phi, sets.L1Ball(2, radius=4.0))
    >>> x = np.array([3.0, 0.0])
    >>> float(phi.value(x)), float(lifted.value(domain.lift(x)))
    (4.5, 4.5)
    """
    phi = as_composite(as_function(objective, "objective"))
    if not isinstance(ball, LpBall | SchattenBall):
        raise TypeError(f"ball must be a norm ball such as L1Ball or NuclearBall, got {type(ball).__name__}")
    domain = Epigraph(ball)
    if not isinstance(phi, Composite):
        return _lifted(phi, domain), domain
    wanted = L1Ball if isinstance(phi.norm, L1Norm) else SchattenBall
    if not isinstance(ball, wanted) or getattr(ball, "p", None) != 1.0:
        name = "L1Ball" if wanted is L1Ball else "NuclearBall"
        raise ValueError(f"ball must be a {name} to lift {phi.norm!r}, got {ball!r}")
    _refuse_a_nonconvex_loss(phi.smooth, ball)
    f: Function = Height(phi.norm.scale)
    if not isinstance(phi.smooth, Zero):
        f = _lifted(phi.smooth, domain) + f
    return DC(f, _lifted(phi.g, domain), conditional=phi.conditional), domain


def _refuse_a_nonconvex_loss(loss: Function, ball: Any) -> None:
    """Raise if the loss is a small quadratic with a negative eigenvalue; trust other functions."""
    from dcfw import _spectral

    low = _spectral.lowest_curvature(loss, ball) or 0.0
    if low < 0.0:
        refuse(loss, f"has the curvature {low:.4g}", f"with rho = {-low:.4g} or more")


def _lifted(function: Function, domain: Epigraph) -> Function:
    """Lift a function term by term, so that sums stay sums and samples stay samples."""
    if isinstance(function, Sum):
        return Sum([_lifted(term, domain) for term in function.terms])
    if isinstance(function, Scaled):
        return Scaled(_lifted(function.function, domain), function.scale)
    if isinstance(function, DC) and function.whole is None:
        return DC(_lifted(function.f, domain), _lifted(function.g, domain), conditional=function.conditional)
    return (LiftedSample if hasattr(function, "batch_linearise") else Lifted)(function, domain)
