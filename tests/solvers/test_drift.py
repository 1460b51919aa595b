"""Incremental gradients stay accurate: a million inner steps, measured just before each fresh start."""

import numpy as np
import pytest

import dcfw
import frozen_methods
from dcfw import functions, gaps, sets, tolerances
from dcfw.solvers import loop
from dcfw.solvers.active import ActiveLoop


class Meter:
    """Stands between the loop and its step, and compares the carried gradient with a fresh one."""

    def __init__(self, every):
        self.every, self.steps, self.worst = every, 0, 0.0
        self._step = loop.affine_step

    def __call__(self, X, S, descent):
        run, f = X.run, X.f
        # The error is largest at the end of a period: look at the last step before the fresh gradient.
        last = run.ledger.since_resync + 1 == run.resync_period
        if last or self.steps % self.every == 0:
            fresh = f.grad(X.x)
            error = np.abs(X.grad - fresh).max() / np.abs(fresh).max()
            self.worst = max(self.worst, float(error))
        self.steps += 1
        self._step(X, S, descent)


def worst_error(monkeypatch, steps, domain, seed=0, dtype=np.float64):
    """Return the worst relative error of the gradient over ``steps`` vanilla steps of one inner loop."""
    rng = np.random.default_rng(seed)
    n = domain.shape[0]
    M = rng.standard_normal((n, n)).astype(dtype)
    f = functions.Quadratic(M @ M.T + 0.1 * np.eye(n, dtype=dtype), rng.standard_normal(n).astype(dtype))
    g = functions.SquaredNorm(0.1)
    meter = Meter(every=10_007)
    monkeypatch.setattr(loop, "affine_step", meter)
    dcfw.minimize(
        f - g, domain, inner="fw", tolerance=tolerances.Fixed(1e-300), tol=0.0, maxiter=1, max_inner=steps,
        x0=domain.start().astype(dtype),
    )  # fmt: skip
    assert meter.steps >= steps - 1
    return meter.worst


@pytest.mark.parametrize("domain", [sets.Simplex(60), sets.L1Ball(60), sets.LInfBall(60)], ids=repr)
def test_fifty_thousand_incremental_gradients_are_accurate(monkeypatch, domain):
    assert worst_error(monkeypatch, 50_000, domain) < 1e-12


@pytest.mark.slow
def test_a_million_incremental_gradients_are_accurate_to_1e_9(monkeypatch):
    worst = worst_error(monkeypatch, 1_000_000, sets.Simplex(60))
    print(f"worst relative error of the gradient over 1,000,000 inner steps: {worst:.2e}")
    assert worst < 1e-9


def test_an_active_set_of_few_atoms_recomputes_its_gradient_now_and_then():
    f, domain = frozen_methods.quadratics(), sets.L1Ball(12, radius=1.5)
    res = dcfw.minimize(f, domain, inner=ActiveLoop("away", cap=4), tol=1e-12, maxiter=40, max_inner=300)
    assert res.n_inner > 2000
    assert res.n_resync >= 2
    assert res.gap == pytest.approx(gaps.fw_gap(f, domain, res.x), abs=1e-14)
