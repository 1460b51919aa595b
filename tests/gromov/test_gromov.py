"""Gromov-Wasserstein: the loss is its definition, plans are feasible, known matchings are found."""

import numpy as np
import pytest

import metamorphic_applications
from dcfw import gromov, sets


def distances(points):
    return np.linalg.norm(points[:, None] - points, axis=2)


def definition(C1, C2, T):
    """Return the fourfold sum."""
    return float(((C1[:, None, :, None] - C2[None, :, None, :]) ** 2 * T[:, :, None, None] * T).sum())


@pytest.mark.parametrize("alpha", [None, 0.0, 0.3, 1.0])
def test_the_loss_is_its_definition_and_the_gradient_its_derivative_on_the_set(alpha):
    rng = np.random.default_rng(0)
    C1, C2 = distances(rng.standard_normal((4, 2))), distances(rng.standard_normal((5, 3)))
    p, q, M = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5)), rng.random((4, 5))
    loss = gromov.GromovLoss(C1, C2, p, q, M, alpha)
    domain = sets.TransportPolytope(p, q)
    share = 0.5 if alpha is None else alpha
    T, S = domain.random(rng), domain.random(rng)
    assert loss.value(T) == pytest.approx((1 - share) * (M * T).sum() + share * definition(C1, C2, T))
    slope = (loss.value(T + 1e-5 * (S - T)) - loss.value(T - 1e-5 * (S - T))) / 2e-5
    assert np.vdot(loss.grad(T), S - T) == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("uniform", [True, False])
def test_gradients_at_sparse_plans_are_those_at_dense_ones(uniform):
    rng = np.random.default_rng(1)
    C1, C2 = distances(rng.standard_normal((6, 2))), distances(rng.standard_normal((6, 2)))
    p = q = np.full(6, 1 / 6)
    if not uniform:
        p, q = rng.dirichlet(np.ones(6), size=2)
        p[2] = 0.0
        q *= p.sum()
    loss, domain = gromov.GromovLoss(C1, C2, p, q), sets.TransportPolytope(p, q)
    more, atom = gromov._Convex.of(loss), domain.oracle()(rng.standard_normal((6, 6)))
    np.testing.assert_allclose(loss.grad_at(atom), loss.grad(atom.dense()), atol=1e-14)
    np.testing.assert_allclose(more.grad_at(atom), more.grad(atom.dense()), atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_with_the_subtracted_part_is_convex_on_the_set(seed):
    rng = np.random.default_rng(seed)
    C1, C2 = distances(rng.standard_normal((5, 2))), distances(rng.standard_normal((7, 3)))
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(7))
    loss, domain = gromov.GromovLoss(C1, C2, p, q), sets.TransportPolytope(p, q)
    more = gromov._Convex.of(loss)
    for _ in range(20):
        d = domain.lmo(rng.standard_normal((5, 7))) - domain.lmo(rng.standard_normal((5, 7)))
        curvature = np.vdot(loss.grad(d) - loss.grad(0.0 * d), d)
        assert curvature + np.vdot(more.grad(d), d) >= -1e-12


@pytest.mark.parametrize("stages", [None, 0, 5])
def test_a_plan_is_feasible_and_no_worse_than_the_product_of_the_weights(stages):
    rng = np.random.default_rng(2)
    C1, C2 = distances(rng.standard_normal((9, 2))), distances(rng.standard_normal((7, 3)))
    p, q = rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(7))
    res = gromov.gromov_wasserstein(C1, C2, p, q, stages=stages)
    assert res.success
    assert sets.TransportPolytope(p, q).contains(res.x)
    assert res.fun == pytest.approx(definition(C1, C2, res.x), abs=1e-12)
    assert res.fun <= definition(C1, C2, np.outer(p, q))


def test_a_rotated_and_shuffled_cloud_is_matched_exactly():
    rng = np.random.default_rng(3)
    x, order = rng.standard_normal((40, 2)), rng.permutation(40)
    C = distances(x)
    res = gromov.gromov_wasserstein(C, C[np.ix_(order, order)])
    assert res.fun == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(order[res.x.argmax(axis=1)], np.arange(40))


def test_with_uniform_weights_the_loss_is_never_above_that_of_pot_and_often_below():
    pytest.importorskip("ot")
    bench = pytest.importorskip("bench.gw", reason="bench is not part of an installed dcfw")
    problems = [bench.problem(40, seed, True) for seed in range(12)]
    ratios = np.array([bench.ours(data, False) / bench.pot(data, False) for data in problems])
    assert (ratios <= 1.0 + 1e-6).all()
    assert (ratios < 1.0 - 1e-6).sum() >= 4


def test_a_stage_that_begins_at_its_own_vertex_does_not_step_out_of_the_set():
    """The slope there is rounding, of either sign: a step along it was as long as 1e15."""
    for seed in range(40):
        problem = metamorphic_applications.spaces(False, np.random.default_rng((seed, 27)))
        res = problem.solve()
        assert res.x.min() >= 0.0
        np.testing.assert_allclose(res.x.sum(axis=1), problem.arrays["p"], atol=1e-12)
