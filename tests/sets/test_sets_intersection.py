"""Intersections: answers lie in all sets, the bound of their error holds, and empty ones are refused."""

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets
from set_cases import CASES


def test_the_answer_is_that_of_the_set_which_the_intersection_is():
    rng = np.random.default_rng(0)
    domain = sets.Intersection([sets.Simplex(8), sets.Box(0.0, 0.3, shape=8)])
    same, oracle = sets.CappedSimplex(8, upper=0.3), domain.oracle()
    for _ in range(10):
        G = rng.standard_normal(8)
        np.testing.assert_allclose(oracle(G).dense(), same.lmo(G), atol=1e-10)
        assert oracle.error <= 1e-9


@pytest.mark.parametrize("n", [2, 5, 9])
def test_the_error_of_a_round_intersection_is_bounded(n):
    """min <G, x> over the part of a ball in a half space, by hand."""
    rng = np.random.default_rng(n)
    high = np.full(n, 2.0)
    high[0] = 0.25
    oracle = sets.Intersection([sets.L2Ball(n), sets.Box(-2.0, high)]).oracle()
    G = rng.standard_normal(n)
    G[0] = -abs(G[0])
    rest = np.linalg.norm(G[1:])
    cut = -G[0] / np.linalg.norm(G) > 0.25
    best = 0.25 * G[0] - np.sqrt(1.0 - 0.25**2) * rest if cut else -np.linalg.norm(G)
    missed = float(G @ oracle(G).dense()) - best
    assert -1e-9 <= missed <= oracle.error + 1e-9
    assert oracle.error <= 1e-3


def test_a_run_ends_at_a_point_of_all_sets_with_the_value_that_cvxpy_finds():
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((12, 10)), rng.standard_normal(12)
    parts = [sets.L1Ball(10), sets.LInfBall(10, 0.2), sets.Permutahedron(0.1 * np.arange(-4.5, 5.0))]
    domain = sets.Intersection(parts)
    res = dcfw.minimize(functions.LeastSquares(A, b), domain, rtol=1e-7)
    assert res.success
    assert all(part.contains(res.x) for part in parts)
    x = cp.Variable(10)
    tops = np.cumsum(0.1 * np.arange(4.5, -5.0, -1.0))
    ordered = [cp.sum_largest(x, k + 1) <= tops[k] for k in range(9)]
    rules = [cp.norm(x, 1) <= 1.0, cp.norm(x, "inf") <= 0.2, cp.sum(x) == 0.0, *ordered]
    best = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x - b)), rules).solve(solver=cp.CLARABEL)
    assert res.fun == pytest.approx(best, rel=1e-6)


def test_a_difference_of_convex_functions_is_certified_by_the_bound():
    rng = np.random.default_rng(4)
    domain = sets.Intersection([sets.Simplex(6), sets.L2Ball(6, 0.6)])
    M = rng.standard_normal((6, 6))
    res = dcfw.minimize(functions.SquaredNorm(3.0) - functions.Quadratic(M @ M.T / 6.0), domain, rtol=1e-3)
    assert res.success
    assert domain.contains(res.x)
    G = 3.0 * res.x - M @ (M.T @ res.x) / 6.0
    oracle = domain.oracle()
    true = float(G @ (res.x - oracle(G).dense()))
    assert true <= res.gap + 1e-9


def test_sets_without_a_common_point_are_refused_with_their_distance():
    with pytest.raises(ValueError, match="no common point: they are at least 1 apart"):
        sets.Intersection([sets.Box(0.0, 1.0, shape=3), sets.Box([2.0, 0.0, 0.0], [3.0, 1.0, 1.0])])


def test_sets_that_touch_have_the_point_in_common():
    domain = sets.Intersection([sets.Box(0.0, 1.0, shape=2), sets.Box(1.0, 2.0, shape=2)])
    for G in np.eye(2):
        np.testing.assert_allclose(domain.lmo(G), [1.0, 1.0], atol=1e-9)


def test_every_public_set_is_among_the_cases_that_all_suites_run_on():
    public = {name for name in sets.__all__ if isinstance(getattr(sets, name), type)}
    assert public - {"FeasibleSet", "Oracle", "Set"} <= {type(case.domain).__name__ for case in CASES}
