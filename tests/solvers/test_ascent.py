"""The point returned is never worse than the start, and finished runs are never lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dcfw
from dcfw import Status, functions, gaps, sets
from dcfw.solvers.block import Block


def a_run_that_ascends(**options):
    phi = functions.Quadratic(
        np.array([[4.0, -7.0, -3.0], [-7.0, -2.0, 6.0], [-3.0, 6.0, 0.0]]), np.array([0.0, 2.0, -2.0])
    )
    x0 = np.array([0.1, 0.1, 0.8])
    return (
        phi,
        x0,
        dcfw.minimize(phi, sets.Simplex(3), x0, method="fw", step="open-loop", tol=1e-2, **options),
    )


def test_a_stationary_point_above_the_start_is_not_a_success_and_is_not_returned():
    phi, x0, res = a_run_that_ascends(maxiter=200)
    assert res.fun <= phi.value(x0)
    assert res.fun == pytest.approx(phi.value(res.x))
    assert res.status is Status.NO_PROGRESS
    assert "above phi(x0)" in res.message
    assert res.gap == pytest.approx(gaps.fw_gap(phi, sets.Simplex(3), res.x))


def test_blocks_that_ascend_to_a_stationary_point_return_no_point_above_the_start():
    f = functions.Quadratic(np.array([[1.76, 2.37], [2.37, 3.29]]), np.array([-0.85, -0.54]))
    phi = f - functions.Quadratic(np.array([[0.21, -0.1], [-0.1, 0.33]]))
    domain = sets.Product([sets.Box(-1.0, 1.0, 1), sets.Box(-1.0, 1.0, 1)])
    x0 = np.array([0.74, -0.35])
    res = dcfw.minimize(phi, domain, x0, method=Block(steps=1), step="open-loop", inner="fw", tol=0.25)
    assert res.fun <= phi.value(x0)
    assert res.status is Status.NO_PROGRESS


def test_the_result_and_what_a_callback_sees_are_not_the_callers_array():
    _, x0, res = a_run_that_ascends(maxiter=0)
    assert res.x is not x0
    kept = x0.copy()

    def callback(intermediate_result):
        intermediate_result.x[:] = 99.0

    objective = functions.SquaredNorm(1.0)
    res = dcfw.minimize(objective, sets.Simplex(3), x0, maxiter=3, callback=callback)
    assert np.array_equal(x0, kept)
    assert sets.Simplex(3).contains(res.x)
    assert res.fun == objective.value(res.x)


class Tired:
    """The simplex, whose oracle raises ``error`` after ``calls`` answers."""

    shape = (3,)

    def __init__(self, calls, error):
        self.left, self.error = calls, error

    def lmo(self, G):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return np.eye(3)[G.argmin()]

    def contains(self, x):
        return bool(abs(x.sum() - 1.0) < 1e-9 and x.min() > -1e-9)

    def start(self):
        return np.full(3, 1.0 / 3.0)


def concave():
    return functions.Quadratic(-np.diag([1.0, 2.0, 5.0]))


@pytest.mark.parametrize("calls", range(4, 14))
def test_ctrl_c_in_a_later_run_or_between_two_runs_returns_the_best_of_the_finished_ones(calls):
    alone = dcfw.minimize(concave(), Tired(1000, None), method="fw")
    res = dcfw.minimize(concave(), Tired(calls, KeyboardInterrupt()), method="fw", restarts=50, rng=0)
    assert res.status is Status.INTERRUPTED
    assert not res.success
    assert res.fun <= alone.fun
    assert math.isfinite(res.fun)


@pytest.mark.parametrize("calls", range(4, 14))
def test_an_error_in_a_later_run_carries_the_best_of_all_runs(calls):
    alone = dcfw.minimize(concave(), Tired(1000, None), method="fw")
    with pytest.raises(RuntimeError) as caught:
        dcfw.minimize(concave(), Tired(calls, RuntimeError("tired")), method="fw", restarts=50, rng=0)
    assert caught.value.intermediate_result.fun <= alone.fun


def test_a_start_outside_of_a_small_set_is_refused_in_single_precision_too():
    small = np.array([7e-6, 0.0], dtype=np.float32)
    f = functions.Quadratic(np.eye(2, dtype=np.float32), convex=True)
    with pytest.raises(ValueError, match="x0 must lie in the set"):
        dcfw.minimize(f, sets.L1Ball(2, 1e-6), small)
    rounded = (1.0 + 2.0**-21) * np.array([1e-6, 0.0], dtype=np.float32)
    assert dcfw.minimize(f, sets.L1Ball(2, 1e-6), rounded.astype(np.float32), tol=1e-15).success


@pytest.mark.parametrize(
    ("grad", "message"),
    [(lambda x: x * np.nan, "finite gradient"), (lambda x: x[:1], r"gradient of the shape \(2,\)")],
)
@pytest.mark.parametrize("gap", [gaps.fw_gap, gaps.pgm_gap, gaps.ppm_gap])
def test_the_gaps_of_a_function_without_a_gradient_name_the_objective(gap, grad, message):
    phi = functions.Smooth(lambda x: 0.0, grad, lipschitz=1.0)
    with pytest.raises(ValueError, match=f"objective must have a {message}"):
        gap(phi, sets.Simplex(2), np.array([0.5, 0.5]))


def test_the_gap_of_an_oracle_that_maximises_blames_the_oracle():
    class Uphill(Tired):
        def lmo(self, G):
            return np.eye(3)[G.argmax()]

    with pytest.raises(ValueError, match="lmo returned a point"):
        gaps.fw_gap(functions.SquaredNorm(1.0), Uphill(9, None), np.array([0.5, 0.3, 0.2]))


def test_a_run_that_ends_at_the_error_of_its_oracle_has_a_known_gap():
    from dcfw.align import align

    rng = np.random.default_rng(0)
    d, n = 30, 600
    E = rng.standard_normal((d, n))
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    Y = np.where(rng.random((d, n)) < 0.3, Q @ E + 0.1 * rng.standard_normal((d, n)), np.nan)
    res = align(E, Y, polar="inexact", rtol=0.0, tol=1e-9)
    assert res.status is Status.NO_PROGRESS
    assert math.isfinite(res.gap)
    exact = align(E, Y, x0=res.x, maxiter=0, inner="fw")
    assert exact.gap <= res.gap * (1.0 + 1e-12)


def test_restarts_that_the_time_limit_left_out_make_the_status_time_limit():
    objective = functions.Quadratic(-np.eye(50))
    res = dcfw.minimize(objective, sets.Simplex(50), restarts=10**6, time_limit=0.2, rng=0)
    assert 1 < len(res.restart_values) < 10**6
    assert res.status is Status.TIME_LIMIT
    assert not res.success


class Leaky:
    """A square whose lmo is wrong in one quadrant."""

    def lmo(self, G):
        return np.where(G > 0.0, -1.0, 1.0) * (3.0 if G[0] > 0.0 > G[1] else 1.0)

    def contains(self, x):
        return bool(np.abs(x).max() <= 1.0 + 1e-9)

    def start(self):
        return np.zeros(2)


@pytest.mark.parametrize("start", [[0.1, -0.1], [-0.1, 0.1]], ids=["found first", "found later"])
def test_a_run_that_leaves_the_set_does_not_take_the_place_of_one_that_does_not(start):
    phi = functions.Quadratic(-np.eye(2))
    alone = dcfw.minimize(phi, Leaky(), np.array(start))
    assert alone.success == (start[0] > 0.0)
    res = dcfw.minimize(phi, Leaky(), np.array(start), restarts=8, rng=0)
    assert min(res.restart_values) < res.fun == -1.0
    assert Leaky().contains(res.x)
    assert res.status is Status.BAD_ORACLE
    assert "Another run left the set through its lmo" in res.message
