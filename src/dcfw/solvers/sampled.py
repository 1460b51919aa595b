"""One run on samples: the estimated oracle, and the certainty of the iterates.

Stochastic methods are written as if the estimate were the gradient.  :class:`Sampled` takes the objective
apart, counts samples, keeps estimates from passing as certificates, and confirms a gap before a run ends on
it.
"""

from __future__ import annotations

import math
from typing import Any

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.functions.base import Function, Linearisation
from dcfw.functions.dc import DC
from dcfw.functions.sums import Scaled, Sum, Zero
from dcfw.result import Status
from dcfw.solvers.estimators import ESTIMATORS, Minibatch, Samples
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop

ESTIMATE = "the gradient estimate behind the gap is exact, which it is only on average"
FRESH = 1000  # least number of fresh samples of a stream that confirm a gap


class Sampled:
    """The objective of a run with an estimated gradient, and the certainty of its iterates."""

    def __init__(self, method: Any, problem: Problem, run: Run) -> None:
        self.method, self.run = method, run
        source, self.weight, self.rest, self.g = decompose(problem.phi, method.name)
        self.smooth_part = (
            problem.phi.f if isinstance(problem.phi, DC) and problem.phi.whole is None else problem.phi
        )
        self.samples = Samples(source, _validate.generator(problem.rng), self._look_at)
        m = source.m
        batch = method.batch if method.batch is not None else 64 if m is None else math.isqrt(m - 1) + 1
        period = method.period
        if period is None:
            # For a finite sum the small batches between two large ones also cost one epoch.
            period = 32 if m is None else max(2, 1 + m // (2 * batch))
        self.estimator = ESTIMATORS[method.estimator](self.samples, batch, method.growth, period)
        self.budget = math.inf if method.epochs is None else method.epochs * (m or 1)
        run.ledger.latest = True
        self.certified = False
        self.confirmed_at = 0
        self.u = Linearisation(0.0, 0.0, True)
        run.keep(sampled=self)

    _KEPT = ("certified", "confirmed_at", "u")

    def get_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self._KEPT}
        return {**state, "n_samples": self.samples.n_samples, "estimator": self.estimator.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        for name in self._KEPT:
            setattr(self, name, state[name])
        self.samples.n_samples = state["n_samples"]
        self.estimator.set_state(state["estimator"])

    def estimate(self, x: Array) -> tuple[Array, float]:
        """Return estimates of grad F + grad c and phi(x) from one batch; set ``u`` to u_t."""
        F = self.estimator(x)
        self.run.ledger.count_estimate()
        self.u = self.run.linearise(self.g, x)
        return self._total(x, F)

    def _look_at(self, x: Array, answer: Linearisation, oracle: str) -> None:
        if getattr(answer.slope, "shape", None) != x.shape:
            self.run.wrong_shape(oracle, answer.slope)
        self.run.check_number(answer.value, "the value of a batch")

    def _total(self, x: Array, F: Linearisation) -> tuple[Array, float]:
        p, phi = self.weight * F.slope, self.weight * F.value
        for term in self.rest:
            c = term.linearise(x)
            if getattr(c.slope, "shape", None) != x.shape:
                self.run.wrong_shape(f"the gradient of {term!r}", c.slope)
            p, phi = p + c.slope, phi + c.value
        return p, phi - self.u.value

    def smoothness(self) -> float:
        F, m = self.samples.source, self.samples.m
        rest = Sum(self.rest).lipschitz if self.rest else 0.0
        if F.lipschitz is None or rest is None:
            raise ValueError(
                f"method {self.method.name!r} needs a Lipschitz constant of every smooth term's gradient: "
                "state lipschitz= (and lipschitz_max=) in the FiniteSum or Stream, or pass Stochastic(L=...)"
            )
        worst = F.lipschitz if F.lipschitz_max is None else max(F.lipschitz_max, F.lipschitz)
        t = max(self.estimator.t - 1, 0)
        b = min(Minibatch.size(self.estimator, t), m or math.inf)
        if m is None:
            L = worst / b + (1.0 - 1.0 / b) * F.lipschitz
        elif b >= m:
            L = F.lipschitz
        else:
            L = ((m - b) * worst + m * (b - 1) * F.lipschitz) / (b * (m - 1))
        return self.weight * L + rest or 1.0  # for a linear objective any L is valid

    def visit(self, x: Array, phi: float, gap: float) -> None:
        self._count()
        self.certified = self.estimator.exact
        self.run.visit(x, phi, gap, certain=self.estimator.exact)
        # Confirm an estimate if enough samples have been drawn since the last confirmation to afford another.
        drawn = self.samples.n_samples - self.confirmed_at
        if (
            not self.estimator.exact
            and gap <= self.run.threshold
            and drawn >= (self.samples.m or self.confirmed_at)
        ):
            self._confirm(x)
        if self.samples.n_samples >= self.budget:
            raise Stop(Status.MAXITER, f"The budget of {self.method.epochs:g} epochs was used up.")

    def _confirm(self, x: Array, ending: bool = False) -> None:
        """Measure the FW gap at x with the whole gradient (of as many fresh samples, for a stream)."""
        run, samples = self.run, self.samples
        size = samples.m or max(samples.n_samples, FRESH)
        p, phi = self._total(x, samples.linearise(x, samples.draw(size), size))
        self.confirmed_at = samples.n_samples
        kept = run.lmo_error
        _, gap = run.lmo(p - self.u.slope, x)
        run.lmo_error = kept  # that of the next step's vertex
        self._count()
        met = gap <= run.threshold
        if ending or met:
            whole = samples.m is not None
            self.certified = self.certified or whole
            run.ledger.confirm(x, phi, gap, certain=whole)
        if met:
            raise Stop(Status.CONVERGED)
        if run.n_lmo >= run.max_lmo and not ending:
            raise Stop(Status.MAX_LMO)

    def _count(self) -> None:
        n = self.samples.n_samples
        self.run.ledger.extra.update(n_samples=n, epochs=n / (self.samples.m or 1))

    def __enter__(self) -> Sampled:
        return self

    def __exit__(self, kind: Any, stop: Any, trace: Any) -> None:
        run = self.run
        try:
            # A point of an inner loop has no gap, and its value would be compared with an estimate.
            run.current = None
            if (
                self.method.certify
                and self.samples.m is not None
                and not self.certified
                and run.ledger.best is not None
                and isinstance(stop, Stop)
                and stop.status is Status.MAXITER
                and run.n_lmo < run.max_lmo
            ):
                self._confirm(run.ledger.best.x, ending=True)
        finally:
            self._count()
            run.ledger.extra["conditional"] = "" if self.certified else ESTIMATE


def decompose(phi: Function, method: str) -> tuple[Any, float, list[Function], Function]:
    """Return F, its weight, the other smooth terms and g, where phi = weight F + terms - g."""
    while isinstance(phi, DC) and phi.whole is not None:
        phi = phi.whole
    upper, g = (phi.f, phi.g) if isinstance(phi, DC) else (phi, Zero())
    found: list[tuple[Any, float]] = []
    rest: list[Function] = []
    for term in upper.terms if isinstance(upper, Sum) else (upper,):
        core, weight = (term.function, term.scale) if isinstance(term, Scaled) else (term, 1.0)
        if hasattr(core, "batch_linearise"):
            found.append((core, weight))
        else:
            rest.append(term)
    if len(found) != 1 or found[0][1] < 0.0:
        raise ValueError(
            "objective must have one FiniteSum or Stream among its terms (with a positive factor) for method "
            f"{method!r}, got {phi!r}; join several into one FiniteSum(m, value, batch_grad)"
        )
    if not all(term.differentiable for term in rest):
        raise ValueError(f"objective must be smooth except for the subtracted part, got {phi!r}")
    return *found[0], rest, g
