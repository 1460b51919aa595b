"""Corrections of the weights, gradient descent on them, second-order steps and the adaptive step rule."""

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets, steps
from dcfw.solvers import active
from dcfw.solvers.weights import corrections

DOMAINS = {
    "simplex": lambda: sets.Simplex(8),
    "l1": lambda: sets.L1Ball(8, 2.0),
    "l2": lambda: sets.L2Ball(8, 1.5),
    "k-sparse": lambda: sets.KSparse(8, 3),
    "hypersimplex": lambda: sets.Hypersimplex(8, 3),
}


def logistic(seed=0, m=60, n=8):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * np.logspace(0.0, -1.0, n)
    return functions.LogisticLoss(A, np.sign(A[:, 0] + 0.5 * rng.standard_normal(m)))


def ill_conditioned(domain, seed=0):
    """Return a quadratic of condition 1e6 whose minimiser is a point of the set."""
    rng = np.random.default_rng(seed)
    n = domain.shape[0]
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (U * np.logspace(0.0, -6.0, n)) @ U.T
    return functions.Quadratic(A, -A @ domain.random(rng), convex=True)


@pytest.mark.parametrize("seed", range(20))
def test_corrections_find_the_minimum_over_the_simplex_of_weights(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 12))
    B = rng.standard_normal((int(rng.integers(1, m + 3)), m))
    M, b = B.T @ B, rng.standard_normal(m)
    w = rng.dirichlet(np.ones(m)) * (rng.random(m) < 0.6)
    w = w / w.sum() if w.any() else np.eye(m)[0]
    before = 0.5 * w @ M @ w + b @ w
    scores = M @ w + b
    _, gained = corrections(M, w, scores, 1e-9)
    assert w.min() >= 0.0
    assert w.sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(scores, M @ w + b, atol=1e-8)
    assert before - gained == pytest.approx(0.5 * w @ M @ w + b @ w, abs=1e-8)
    assert scores[w > 1e-9].max() - scores.min() <= 1e-6  # the condition of optimality


def test_corrections_solve_what_pairwise_steps_do_not(monkeypatch):
    domain = sets.Simplex(60)
    f = ill_conditioned(domain)
    options = {"method": "dcfw", "inner": "blended", "rtol": 1e-7, "max_lmo": 300}
    assert dcfw.minimize(f, domain, **options).success
    monkeypatch.setattr(active, "corrections", lambda M, w, scores, aim: (0, 0.0))
    assert not dcfw.minimize(f, domain, **options).success


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("inner", ["descent", "second-order"])
@pytest.mark.parametrize("step", ["exact", "adaptive"])
def test_all_inner_solvers_have_one_minimiser(name, inner, step):
    f, domain = logistic(), DOMAINS[name]()
    known = dcfw.minimize(f, domain, method="dcfw", inner="blended", rtol=1e-7, max_inner=10**5)
    res = dcfw.minimize(f, domain, method="dcfw", inner=inner, step=step, rtol=1e-7, max_inner=10**5)
    assert known.success
    assert res.success
    assert domain.contains(res.x)
    assert res.fun == pytest.approx(known.fun, abs=known.gap + res.gap)


@pytest.mark.parametrize("f", [logistic(), functions.LogSumExp(np.eye(8)[:5] - 0.3), functions.LogSumExp()])
def test_hessians_are_the_differences_of_gradients(f):
    x = np.random.default_rng(1).standard_normal(8)
    units = 1e-5 * np.eye(8)
    differences = np.array([(f.grad(x + h) - f.grad(x - h)) / 2e-5 for h in units])
    np.testing.assert_allclose(f.hessian(x), differences, atol=1e-9)


def test_second_order_steps_look_at_f_a_few_times_only():
    f, seen = logistic(m=300), []

    class Counted(functions.Function):
        convex = True

        def value(self, x):
            return f.value(x)

        def grad(self, x):
            seen.append(1)
            return f.grad(x)

        def hessian(self, x):
            return f.hessian(x)

    domain = sets.L1Ball(8, 4.0)
    assert dcfw.minimize(Counted(), domain, method="dcfw", inner="second-order", rtol=1e-8).success
    looks = len(seen)
    seen.clear()
    assert dcfw.minimize(Counted(), domain, method="dcfw", inner="blended", rtol=1e-8).success
    assert 3 * looks < len(seen)


def test_second_order_steps_end_with_the_certificate_of_a_difference():
    f, domain = logistic(), sets.L1Ball(8, 3.0)
    dc = f - functions.SquaredNorm(0.02)
    res = dcfw.minimize(dc, domain, method="dcfw", inner="second-order", rtol=1e-6)
    known = dcfw.minimize(dc, domain, method="dcfw", inner="blended", rtol=1e-6)
    assert res.success
    assert res.gap == pytest.approx(float(dc.grad(res.x) @ (res.x - domain.lmo(dc.grad(res.x)))), abs=1e-12)
    assert res.fun == pytest.approx(known.fun, abs=1e-6)


def test_a_function_without_a_hessian_is_refused_by_name():
    f = functions.Smooth(
        lambda x: float(x @ x) + x[0], lambda x: 2.0 * x + np.eye(3)[0], lipschitz=2.0, convex=True
    )
    with pytest.raises(ValueError, match="defines no hessian"):
        dcfw.minimize(f, sets.Simplex(3), method="dcfw", inner="second-order")


def test_second_order_steps_are_for_methods_with_a_convex_f():
    with pytest.raises(ValueError, match="need a convex f"):
        dcfw.minimize(logistic(), sets.Simplex(8), method="fw", inner="second-order")


def test_the_adaptive_rule_needs_no_value_of_a_convex_function():
    seen = []
    f = logistic()
    counted = functions.Smooth(lambda x: seen.append(1) or f.value(x), f.grad, convex=True)
    rule = steps.Backtracking(L=1.0, shrink=0.9, slopes=True)
    res = dcfw.minimize(counted, sets.L2Ball(8), method="fw", inner="fw", step=rule, rtol=1e-6)
    assert res.success
    assert len(seen) <= res.nit + 5  # one for each row of the history


def test_the_adaptive_rule_descends_on_a_nonconvex_function():
    phi = functions.Smooth(lambda x: float(np.cos(x).sum()), lambda x: -np.sin(x), lipschitz=1.0)
    x0 = np.full(2, 0.5)
    res = dcfw.minimize(phi, sets.Box(0.0, 9.0, 2), x0, method="fw", inner="fw", step="adaptive", tol=1e-6)
    assert (np.diff(res.history["fun"]) <= 1e-12).all()
    assert res.success


def test_second_order_steps_need_no_method():
    M = np.random.default_rng(0).standard_normal((30, 5))
    f, g = functions.LogSumExp(M), functions.SquaredNorm(0.1)
    by_name = dcfw.minimize(f - g, sets.Simplex(5), method="dcfw", inner="second-order")
    assert dcfw.minimize(f - g, sets.Simplex(5), inner="second-order").fun == by_name.fun
