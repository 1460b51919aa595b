"""The FW gap of CGS is that of phi, however much larger the proximal term is."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import dcfw
from dcfw import functions, qap, sets
from dcfw.solvers.cgs import CGS


def tiny_slope():
    return np.random.default_rng(0).standard_normal(16) * 1e-30


@pytest.mark.parametrize("method", [CGS(L=1.0), CGS(L=1.0, momentum=True)])
def test_a_gradient_that_drowns_in_the_proximal_term_has_its_own_gap(method):
    slope = tiny_slope()
    phi, x0 = functions.Quadratic(np.zeros((16, 16)), slope), np.full(16, 1.0 / 16.0)
    res = dcfw.minimize(phi, sets.Simplex(16), x0, method=method, tol=0.0, maxiter=5)
    assert not res.success
    assert res.gap == pytest.approx(slope @ res.x - slope.min(), rel=1e-12)
    if not method.momentum:
        assert res.status is dcfw.Status.NO_PROGRESS
        assert "is lost" in res.message


def test_without_a_call_left_the_gap_is_as_large_as_it_might_be():
    slope = tiny_slope()
    phi, x0 = functions.Quadratic(np.zeros((16, 16)), slope), np.full(16, 1.0 / 16.0)
    res = dcfw.minimize(phi, sets.Simplex(16), x0, method=CGS(L=1.0), tol=0.0, max_lmo=1)
    assert res.n_lmo == 1
    assert res.gap >= slope @ x0 - slope.min()


def test_cgs_of_the_qap_solves_a_problem_that_is_linear():
    rng = np.random.default_rng(0)
    C = rng.standard_normal((4, 4)) * 1e-30
    res = qap.solve(np.zeros((4, 4)), rng.standard_normal((4, 4)), C, method="cgs", rng=0)
    least = C[linear_sum_assignment(C * 1e30)].sum()
    assert res.success
    assert res.fun == pytest.approx(least, rel=1e-12)
    assert np.vdot(C, res.x) - least <= res.gap + 1e-42  # it was 1e-30 above, and said to be 0
