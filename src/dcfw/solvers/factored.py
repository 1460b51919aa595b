"""Completion of a matrix from some of its entries, with factors instead of the matrix.

``minimize(functions.Observed(...), sets.NuclearBall(...))`` is solved as a problem for the vector of the
observed entries (:mod:`dcfw.sets.sampled`); the active set of the solution gives the matrix.

Penalties on singular values (``Observed(...) + MCP(0.1, spectral=True)``) are a nuclear norm, the height of
an epigraph, minus a convex function g of the singular values, whose slope at X = U diag(s) V^T, U C V^T, is
one more coordinate of the vector.  After each outer step the singular pairs of X replace the active set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dcfw.functions.base import Function, Linearisation
from dcfw.functions.dc import DC
from dcfw.functions.lifting import Height, Lifted
from dcfw.functions.norms import L2Norm, NuclearNorm
from dcfw.functions.observed import Observed
from dcfw.functions.penalties import Composite, Concave, as_composite
from dcfw.functions.quadratic import SquaredNorm
from dcfw.functions.sums import Scaled, Sum, Zero
from dcfw.result import Result
from dcfw.sets.base import Set
from dcfw.sets.sampled import Readings, SampledBall, SampledSpectraplex
from dcfw.sets.spectral import NuclearBall, Spectraplex
from dcfw.solvers.active import RULES
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.dcfw import DCFW, Iterate
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run

MISSED = "Lanczos missed no singular value of a gradient that is larger than the one found"
Factors = tuple[np.ndarray, np.ndarray, np.ndarray]  # U, s, V of a matrix U diag(s) V^T


class LowRankMatrix:
    """The matrix U diag(s) V^T, stored as its factors.

    >>> X = LowRankMatrix(np.ones((3, 1)), np.array([2.0]), np.ones((2, 1)))
    >>> X.shape, X[2, 1], float(X.toarray().sum())
    ((3, 2), 2.0, 12.0)
    """

    def __init__(self, U: np.ndarray, s: np.ndarray, V: np.ndarray) -> None:
        self.U, self.s, self.V = U, s, V
        self.shape = (len(U), len(V))
        self._left = U * s

    def __getitem__(self, place: Any) -> Any:
        i, j = place
        found = np.einsum("...k,...k->...", self._left[i], self.V[j])
        return float(found) if found.ndim == 0 else found

    def __matmul__(self, other: Any) -> np.ndarray:
        return np.asarray(self._left @ (self.V.T @ other))

    def toarray(self) -> np.ndarray:
        """Return the dense matrix."""
        return np.asarray(self._left @ self.V.T)


class FactoredResult(Result):
    """The result of a completion: ``x`` is a :class:`LowRankMatrix`.

    ``factors`` is (U, s, V), a thin singular value decomposition of x; ``predict(i, j)`` returns its entries.
    """

    factors: tuple[np.ndarray, np.ndarray, np.ndarray]

    def predict(self, i: Any, j: Any) -> Any:
        """Return the entries of x at rows i and columns j."""
        return self.x[np.asarray(i), np.asarray(j)]

    def _details(self) -> list[str]:
        return [f"    rank: {len(self.factors[1])}"]


class SpectralPart(Function, trusted=True):
    """A convex function g of the singular values, linearised at the current matrix of a run."""

    convex = True

    def __init__(self, g: Function, domain: SampledBall) -> None:
        self.g, self.domain = g, domain
        self.differentiable = g.differentiable
        self.stand(domain.factors(None))

    def stand(self, factors: Factors) -> ActiveSet:
        self.factors = factors
        U, s, V = factors if len(factors[1]) else [np.zeros((len(part) or 1, 1)) for part in factors]
        # diag(s) has the same singular values, so g and its slope are the same there.
        small = np.diag(s.reshape(-1))
        answer = self.g.linearise(small)
        self.domain.places.tilt = U @ answer.slope, V  # type: ignore[attr-defined]
        self._constant = answer.value - float(np.vdot(answer.slope, small))
        self._unique = answer.unique
        return ActiveSet.of(*self.domain.atoms(*factors), np.zeros(self.domain.shape))

    def value(self, x: np.ndarray) -> float:
        return self._constant + float(x[-2])

    def grad(self, x: np.ndarray) -> np.ndarray:
        slope = np.zeros(len(x))
        slope[-2] = 1.0
        return slope

    def linearise(self, x: np.ndarray) -> Linearisation:
        return Linearisation(self.value(x), self.grad(x), self._unique)

    def __repr__(self) -> str:
        return repr(self.g)


@dataclass(frozen=True)
class FactoredDCFW(DCFW):
    """DC-FW with the active set replaced by the matrix's singular pairs after each outer step."""

    part: SpectralPart

    def solve(self, problem: Problem, run: Run) -> None:
        run.ledger.latest = True  # g is linearised at the last point
        try:
            super().solve(problem, run)
        finally:
            if run.current is not None:  # the run ended in an inner loop
                x = self._turned(problem)
                run.ledger.accept(x, problem.phi.value(x), math.nan)
                run.current = None

    def move(self, problem: Problem, run: Run, x_t: Iterate, X_t: State) -> Iterate:
        x = self._turned(problem)
        return Iterate(x, run.grad_f(problem.f, x), None, run.linearise(problem.g, x))

    def _turned(self, problem: Problem) -> np.ndarray:
        loop: Any = problem.inner
        active = self.part.stand(self.part.domain.factors(loop.active))
        x: np.ndarray = active.point()
        loop.hold(active, x)
        return x


class Completion(NamedTuple):
    """The problem for the vector of the observed entries, with the maps to and from it."""

    phi: Function
    domain: SampledBall
    part: SpectralPart | None = None

    @property
    def inner(self) -> str:
        """The inner solver of ``inner="auto"`` (``python -m bench completion`` for the ball)."""
        return "blended" if isinstance(self.domain, SampledSpectraplex) else "away"

    def start(self, x0: Any, given: Set) -> Any:
        """Return the start as an active set of atoms with factors, None for the set's own."""
        shape = self.domain.ball.shape
        if x0 is None:
            if not isinstance(self.domain, SampledSpectraplex):
                return None
            origin = ActiveSet.of([self.domain.origin()], np.ones(1), np.zeros(self.domain.shape))
            factors = self.domain.factors(origin)
        elif isinstance(x0, ActiveSet):
            if self.part is None:
                return x0
            factors = self.domain.factors(x0)
        elif isinstance(x0, LowRankMatrix):
            factors = x0.U, x0.s, x0.V
        elif getattr(x0, "shape", None) == shape:
            U, s, Vt = np.linalg.svd(np.asarray(x0, dtype=np.float64), full_matrices=False)
            rank = int(np.sum(s > 1e-14 * s.max(initial=0.0)))
            factors = U[:, :rank], s[:rank], Vt[:rank].T
        else:
            raise ValueError(
                f"x0 must be a matrix of shape {shape}: an array, or the x or active_set of an earlier result"
            )
        self._check(factors)
        if self.part is not None:
            return self.part.stand(factors)
        return ActiveSet.of(*self.domain.atoms(*factors), np.zeros(self.domain.shape))

    def _check(self, factors: Factors) -> None:
        U, s, V = factors
        total, r = float(s.sum()), self.domain.radius
        trace = isinstance(self.domain, SampledSpectraplex)
        if (len(U), len(V)) != self.domain.ball.shape or total > r * (1.0 + 1e-9):
            raise ValueError(f"x0 must be in domain, {self.domain.ball!r}: its nuclear norm is {total:.6g}")
        if trace and (abs(total - r) > 1e-9 * r or float(np.abs(U - V).max()) > 1e-6):
            raise ValueError(
                f"x0 must be in domain, {self.domain.ball!r}: positive semidefinite, of that trace"
            )

    @property
    def back(self) -> Any:
        """The map of points to matrices for callbacks, None if they get the vectors."""
        return None if self.part is None else self.domain.point

    def result(self, result: Result) -> FactoredResult:
        factors = self.domain.factors(result.active_set) if self.part is None else self.part.factors
        fields = {**result, "x": LowRankMatrix(*factors)}
        fields["conditional"] = fields["conditional"] or MISSED
        return FactoredResult(**fields, factors=factors)


def applies(phi: Function, domain: Any) -> bool:
    """Return whether iterates are factored: the objective is a loss on entries, possibly with penalties."""
    return isinstance(domain, NuclearBall | Spectraplex) and _parts(phi) is not None


def prepare(phi: Function, domain: Any, options: dict[str, Any]) -> Completion | None:
    """Return the problem with factors, None if it is not one; reject options that lose them."""
    parts = _parts(phi)
    if parts is None or not applies(phi, domain):
        return None
    loss, scale, g, conditional = parts
    if loss.shape != domain.shape:
        raise ValueError(f"objective is a loss on matrices of shape {loss.shape}, domain has {domain.shape}")
    methods = ("auto", "dcfw", "boosted") if g is None else ("auto", "dcfw")
    allowed = {"method": methods, "inner": ("auto", *RULES), "restarts": (1,), "checkpoint": (None,)}
    for name, choice in allowed.items():
        if options[name] not in choice:
            values = " or ".join(map(repr, choice))
            raise ValueError(f"{name} must be {values} for functions.Observed over {type(domain).__name__}")
    kind = SampledSpectraplex if isinstance(domain, Spectraplex) else SampledBall
    if g is None:
        return Completion(loss.entries, kind(domain, loss.places))
    sampled = kind(domain, Readings(loss.places))
    part = SpectralPart(g, sampled)
    f = Lifted(loss.entries, sampled) + Height(scale)  # type: ignore[arg-type]
    return Completion(DC(f, part, conditional=conditional), sampled, part)


def _parts(phi: Function) -> tuple[Observed, float, Function | None, str] | None:
    """Return the loss, the scale of the nuclear norm, g (or None) and their assumption."""
    if isinstance(phi, Observed):
        return phi, 0.0, None, ""
    whole = as_composite(phi)
    if isinstance(whole, Composite) and isinstance(whole.norm, NuclearNorm):
        loss, scale = whole.smooth, whole.norm.scale
    elif isinstance(whole, DC) and whole.whole is None:
        loss, scale = whole.f, 0.0
    else:
        return None
    known = isinstance(loss, Observed) and _of_singular_values(whole.g)
    return (loss, scale, whole.g, whole.conditional) if known else None  # type: ignore[return-value]


def _of_singular_values(g: Function) -> bool:
    if isinstance(g, Scaled):
        return _of_singular_values(g.function)
    if isinstance(g, Sum):
        return all(map(_of_singular_values, g.terms))
    return isinstance(g, Zero | L2Norm | SquaredNorm) or (isinstance(g, Concave) and g.penalty.spectral)
