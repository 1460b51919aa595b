"""The paper's protocols, composed of the library's parts.

``"text"`` does what the paper says, ``"published"`` what its authors' code does.

Quadratic assignment.  The authors divide A and B by their Frobenius norms, take half of the constant L that
makes the parts of the sliding and the proximal split convex, and set the inner tolerance to 0.8 times a gap
that falls below it; starts deviate by 0.001 from the barycentre.  In the text nothing is scaled, L is whole,
the tolerance is multiplied by 0.8, and starts deviate by 1.  A run ends after 10^4 outer or inner steps in
the authors' code (whose FW takes one more step after its stop test), after 10^8 or ten hours in the text.

Alignment.  The authors' DC-FW takes the step 2/(t_k + 1) with t_k counting the steps of *all* inner loops.
It takes each step first and then ends the inner loop if the gap measured before that step is at most eps (not
eps/2); eps is multiplied by 0.8 when the FW gap at an outer point is below it.  The first subgradient of the
nuclear norm at X = 0 is the identity (the one of minimum norm is 0), and FW-K and FW-M have constants of
their own.  :mod:`bench.alignment_transcription` has the same rule in plain NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcfw import align, kernels, minimize, qap
from dcfw.align.nuclear import PolarNuclearNorm
from dcfw.functions import Function
from dcfw.qap.quadratics import decompose, frobenius, relaxation, spectral_norm
from dcfw.qap.swaps import two_opt
from dcfw.result import Result
from dcfw.sets import Birkhoff, SpectralBall
from dcfw.solvers.cgs import CGS
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.solvers.loop import State, frank_wolfe
from dcfw.steps import Step
from dcfw.tolerances import Adaptive

NOISE = {"published": 0.001, "text": 1.0}  # distances of the entries of a random start from 1/n
CAPS: dict[str, dict[str, Any]] = {
    "published": {"maxiter": 10_000, "max_inner": 10_000, "time_limit": 9.5 * 3600},
    "text": {"maxiter": 100_000_000, "max_inner": 100_000_000, "time_limit": 10.0 * 3600},
}
"""Protocol -> the limits of a run."""


class Lenient(Birkhoff, trusted=True):
    """The Birkhoff polytope with a tolerance for the rounding of alternating projections."""

    def contains(self, x: Any, tol: float = 1e-5) -> bool:
        return super().contains(x, tol)


@dataclass(frozen=True)
class Assigned:
    """A permutation and the relaxed run that led to it, in the unit of the data."""

    permutation: np.ndarray
    fun: int | float
    relaxed_fun: float
    gap: float
    dc_gap: tuple[float, float]
    relaxed: Result

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        """Return counts, status and time of the relaxed run."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.relaxed[name]


def solve_as(
    protocol: str,
    A: np.ndarray,
    B: np.ndarray,
    X0: np.ndarray,
    *,
    method: str,
    split: str = "paper",
    inner: str = "fw",
    polish: str | None = None,
) -> Assigned:
    """Run a method once on a quadratic assignment problem, as the paper or its authors' code does."""
    n, published = len(A), protocol == "published"
    left, right = A.astype(np.float64), B.astype(np.float64)
    scale = frobenius(left) * frobenius(right) if published else 1.0
    if scale == 0.0:
        scale = 1.0
    elif published:
        left, right = left / frobenius(left), right / frobenius(right)
    constant = spectral_norm(left) * spectral_norm(right) * (1.0 if published else 2.0)
    trust = published and (method == "cgs" or split in ("sliding", "proximal"))
    objective: Function
    solver: Any = method
    if method == "dcfw":
        objective = decompose(left, right, None, split, constant if constant > 0.0 else None)
    else:
        objective = relaxation(left, right)
        solver = CGS(L=constant) if method == "cgs" else "fw"
    rule = Adaptive(0.8, "published" if published else "text")
    options = {**CAPS[protocol], **_loop(n, method, solver, inner, trust)}
    least = _least(left, right)
    found = minimize(objective, Lenient(n), X0, tolerance=rule, tol=least, rtol=1e-3, **options)
    p = qap.round_to_permutation(found.x)
    if polish is not None:
        p, _, _ = two_opt(A, B, p)
    relaxed, gap, low, high = (scale * float(v) for v in (found.fun, found.gap, *found.dc_gap))
    return Assigned(p, qap.evaluate(A, B, p), relaxed, gap, (low, high), found)


def _loop(n: int, method: str, solver: Any, inner: str, trust: bool) -> dict[str, Any]:
    """Return the method and the inner loop, with the kernels where available (they give the same iterates).

    With ``trust`` a negative curvature of f, which half of the constant allows, does not end a run.
    """
    if kernels.native is None:
        loop: Any = partial(frank_wolfe, convex=False) if trust else inner
        return {"method": solver, "inner": "fw" if method in ("fw", "cgs") else loop}
    from dcfw.qap.blended import BlendedLoop
    from dcfw.qap.compiled import CompiledFW, Loop

    if method == "fw":
        return {"method": CompiledFW()}
    return {"method": solver, "inner": BlendedLoop(n) if inner == "blended" and not trust else Loop(n, trust)}


def _least(A: np.ndarray, B: np.ndarray) -> float:
    """Return the least gap distinct from the rounding of a zero."""
    n = len(A)
    size = sum(float(abs(A).sum(axis=k).max()) * float(abs(B).sum(axis=k).max()) / n for k in (0, 1))
    rounding = 8.0 * np.finfo(np.float64).eps * n**1.5 * size
    return max(1e-13 * frobenius(A) * frobenius(B), float(rounding))


@dataclass(frozen=True)
class GlobalOpenLoop:
    """The step 2/(t_k + 1), t_k = 1, 2, ... from the first step of the first inner loop on."""

    def bind(self, f: Function, domain: Any) -> Step:
        counter = itertools.count(1)
        return lambda segment: 2.0 / (next(counter) + 1.0)


@dataclass(frozen=True)
class OuterAdaptive:
    """The tolerance of the authors' alignment code, lowered at outer points and tested by `step_first`."""

    beta: float = 0.8

    def next(self, eps: float | None, gap: float) -> float:
        if eps is None:
            return self.beta * gap
        return self.beta * eps if gap < eps else eps

    def enough(self, gap: float, eps: float, decrease: Callable[[], float]) -> bool:
        return False


def step_first(run: Any, *arguments: Any, **options: Any) -> Iterator[State]:
    """Run the Frank-Wolfe loop and end it after the step from a point whose gap is at most the tolerance."""
    for X in frank_wolfe(run, *arguments, **options):
        yield X  # at the first point the caller sets the tolerance
        X.last = X.gap <= run.eps


def authors_constants(f: align.MaskedLeastSquares) -> tuple[float, float]:
    """Return the authors' constants for FW-K and FW-M."""
    source, d = np.asarray(f.source, dtype=np.float64), max(f.shape)
    norm, spectral = float(np.linalg.norm(source)), float(np.linalg.norm(source, 2))
    return min(d * d * spectral, float(np.trace(source)), d * norm) / f.n, norm / f.n


def align_published(
    f: align.MaskedLeastSquares, *, lam: float = 1e-4, method: str = "dcfw", beta: float = 0.8, **budget: Any
) -> Result:
    """Run a method on an alignment problem as the authors' code does; ``budget`` is for `dcfw.minimize`."""
    C, L = authors_constants(f)
    found = minimize(
        f - PolarNuclearNorm(lam, complete=True),
        SpectralBall(f.shape),
        method={"fw-k": FWK(C=C), "fw-m": FWM(L=L)}.get(method, method),
        step=GlobalOpenLoop(),
        inner=step_first if method == "dcfw" else "fw",
        tolerance=OuterAdaptive(beta),
        **{"tol": 0.0, "rtol": 0.0, **budget},
    )
    found["rotation"] = align.nearest_rotation(found.x)
    return found
