"""Stochastic DC-FW: sliding on gradients estimated from samples; and stochastic Frank-Wolfe.

The objective is F + c - g: F a :class:`~dcfw.functions.FiniteSum` or :class:`~dcfw.functions.Stream`, c
further smooth terms, g convex (such as the part that a DC penalty subtracts).  Both methods use
v_t = (estimate of grad F(x_t)) + grad c(x_t) - u_t (:mod:`dcfw.solvers.estimators`), u_t a subgradient of g.

* :class:`Stochastic` is DC-FW on the sliding split: an inner loop minimises L/2 ||x||^2 - <L x_t - v_t, x>
  with one estimate.  With batches that hold everything it *is* DC-FW on ``splits.sliding``, iterate by
  iterate.
* :class:`SFW` takes one step towards the vertex for v_t, with a new estimate each time.

L has to cover the noise: for b of m components, drawn without replacement, it is the expected smoothness

    L(b) = (m - b) / (b (m - 1)) * lipschitz_max  +  m (b - 1) / (b (m - 1)) * lipschitz.

**Certainty.**  The FW gap in the history is that of the estimate.  Before a run ends as converged, the gap is
measured with the whole gradient of a finite sum (at most once an epoch) or fresh samples of a stream, and
also when iterations or epochs run out (not with ``certify=False``).  If the gap of a result is an estimate,
``conditional`` says so, and there is no ``dc_gap``.  ``x`` is the last iterate, since earlier values are
estimates too.  ``n_samples`` and ``epochs`` give the cost (for a stream, an epoch is one sample).

References: Lan and Zhou 2016 (sliding); Hazan and Luo 2016 (stochastic Frank-Wolfe); Gower et al. 2019
(expected smoothness); those of the estimators are in :mod:`dcfw.solvers.estimators`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dcfw import _validate, steps
from dcfw._arrays import Array
from dcfw.functions.base import Linearisation
from dcfw.functions.quadratic import SquaredNorm
from dcfw.functions.sums import Zero
from dcfw.result import Status
from dcfw.solvers.estimators import ESTIMATORS
from dcfw.solvers.loop import State, frank_wolfe
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop
from dcfw.solvers.sampled import Sampled


@dataclass(frozen=True)
class Sampling:
    """The common options of the two methods.

    Parameters
    ----------
    batch : int, optional
        The size of the first batch; default: the square root of m (64 for a stream).
    growth : float
        The factor by which batches grow from step to step.
    estimator : {"minibatch", "momentum", "spider", "storm"}
        See :mod:`dcfw.solvers.estimators`.
    epochs : float, optional
        The budget in multiples of m samples (in samples, for a stream).  No step starts beyond it.
    period : int, optional
        Steps between SPIDER's large batches; by default they use as many samples as a large batch.
    certify : bool
        Whether to measure the gap with a whole gradient at the end.
    """

    batch: int | None = None
    growth: float = 1.05
    estimator: str = "momentum"
    epochs: float | None = None
    period: int | None = None
    certify: bool = True

    def __post_init__(self) -> None:
        for name in ("batch", "period"):
            if getattr(self, name) is not None:
                _validate.integer(getattr(self, name), name, low=1)
        _validate.scalar(self.growth, "growth", low=1.0)
        _validate.choice(self.estimator, "estimator", ESTIMATORS)
        if self.epochs is not None:
            _validate.scalar(self.epochs, "epochs", low=0.0, open_low=True)


@dataclass(frozen=True)
class Stochastic(Sampling):
    """DC-FW on the sliding split with estimated gradients.

    Parameters
    ----------
    L : float, optional
        The constant of the sliding split; default: the expected smoothness L(b).

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> from dcfw.solvers.stochastic import Stochastic
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((400, 5))
    >>> loss = functions.FiniteSum.least_squares(A, A @ np.array([1.0, 0.0, -2.0, 0.0, 0.0]))
    >>> method = Stochastic(batch=20, estimator="storm")
    >>> res = dcfw.minimize(loss, sets.L1Ball(5, 3.0), method=method, inner="blended", rng=0)
    >>> res.x.round(3) + 0.0, res.success, res.epochs < 5  # with a whole gradient to certify
    (array([ 1.,  0., -2.,  0.,  0.]), True, True)
    """

    L: float | None = None
    name = "stochastic"
    needs_split = False
    subgradients = True

    def solve(self, problem: Problem, run: Run) -> None:
        if self.L is not None:
            _validate.scalar(self.L, "L", low=0.0, open_low=True)
        rule = problem.tolerance
        with run.ledger.free_gradients(), Sampled(self, problem, run) as sampled:
            x_t, grad, last, square = problem.x0, None, 0.0, SquaredNorm(0.0)
            problem = _sliding(problem, run, square)
            while True:
                here = (x_t, grad, last, square)
                there = run.outer_step(here)
                if there is not here:
                    x_t, grad, last, square = there
                    problem = _sliding(problem, run, square)
                p_t, phi_t = sampled.estimate(x_t)
                L = self.L or sampled.smoothness()
                if grad is None or last != L:  # one object per L, which an active set recognises
                    square, last = SquaredNorm(L), L
                    problem = _sliding(problem, run, square)
                    grad = square.grad(x_t)
                linear = square.grad(x_t) - p_t + sampled.u.slope  # L x_t - v_t, ordered as in splits.sliding
                X: State | None = None
                loop = problem.inner(
                    run, square, x_t, grad, problem.step, linear=linear, max_steps=run.max_inner
                )
                try:
                    for X in loop:
                        if X.k == 1:
                            sampled.visit(x_t, phi_t, X.gap)
                            run.tolerance(rule, None if run.rule is None else run.eps, X.gap)
                        if rule.enough(X.gap, run.eps, X.decrease):
                            break
                except Stop as stop:  # if one estimate allows no progress, the next one may
                    if stop.status is not Status.NO_PROGRESS or sampled.estimator.exact:
                        raise
                x_t, grad = (x_t, grad) if X is None else (X.x, X.grad)
                run.end_outer_step()


def _sliding(problem: Problem, run: Run, square: SquaredNorm) -> Problem:
    problem = replace(problem, f=square)
    run.keep(step=problem.step)
    return problem


@dataclass(frozen=True)
class SFW(Sampling):
    """Stochastic Frank-Wolfe: one step towards the vertex for each gradient estimate.

    Parameters
    ----------
    step : {"open-loop", "short"} or a rule from :mod:`dcfw.steps`
        ``"open-loop"`` is 2/(t+2); ``"short"`` the Demyanov-Rubinov step with the estimated gap and the
        Lipschitz constant of F + c.  Rules that use values do not work with estimates.

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> from dcfw.solvers.stochastic import SFW
    >>> loss = functions.FiniteSum.least_squares(np.eye(3), np.array([0.9, 0.1, 0.0]))
    >>> res = dcfw.minimize(loss, sets.Simplex(3), method=SFW(batch=1, epochs=100), rng=1, tol=1e-3)
    >>> res.success, res.n_samples, res.n_lmo
    (True, 62, 26)
    """

    step: Any = "open-loop"
    name = "sfw"
    needs_split = False
    subgradients = True

    def solve(self, problem: Problem, run: Run) -> None:
        rule = steps.resolve(self.step)
        if isinstance(rule, steps.Exact | steps.Backtracking):
            raise ValueError(f"step of SFW must not look at values, which are estimates: got {rule!r}")
        with run.ledger.free_gradients(), Sampled(self, problem, run) as sampled:

            def minus_estimate(x: Array) -> Linearisation:
                p_t, phi_t = sampled.estimate(x)
                return Linearisation(phi_t, sampled.u.slope - p_t, True)

            flat = Zero()  # the slope is in the linear part, and there is no curvature
            step = rule.bind(sampled.smooth_part, problem.domain)
            for X in frank_wolfe(run, flat, problem.x0, 0.0 * problem.x0, step, linear=minus_estimate):
                assert X.tangent is not None
                sampled.visit(X.x, X.tangent.value, X.gap)
