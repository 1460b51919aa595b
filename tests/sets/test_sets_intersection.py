"""Intersections: answers lie in all sets, the bound of their error holds, and empty ones are refused."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

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


def test_sets_that_a_rounding_keeps_apart_have_answers():
    """They are accepted, though no linear programme with a tolerance of 1e-10 has a solution."""
    domain = sets.Intersection([sets.Box(0.0, 1.0, shape=2), sets.Box(1.0 + 5e-10, 2.0, shape=2)])
    for G in (*np.eye(2), -np.ones(2)):
        np.testing.assert_allclose(domain.lmo(G), [1.0, 1.0], atol=2e-9)
    assert dcfw.minimize(functions.Quadratic(np.eye(2)), domain).success


@pytest.mark.parametrize("failing", [("highs-ds",), ("highs-ds", "highs-ipm")])
@pytest.mark.parametrize("found", [0, 3])
def test_an_oracle_answers_where_highs_fails(monkeypatch, failing, found):
    """The bound holds whichever programme is the last that HiGHS solves."""
    rng = np.random.default_rng(1)
    parts = [sets.L2Ball(2), sets.Box(-0.9, 0.5, shape=2)]
    domain = sets.Intersection(parts)
    questions = rng.standard_normal((2, 2))
    best = [float(G @ domain.oracle()(G).dense()) for G in questions]
    solve, calls = scipy.optimize.linprog, []

    def linprog(*args, method, **options):
        calls.append(method)
        answer = solve(*args, method=method, **options)
        return SimpleNamespace(status=4) if len(calls) > found and method in failing else answer

    monkeypatch.setattr(scipy.optimize, "linprog", linprog)
    oracle = domain.oracle()
    for G, least in zip(questions, best, strict=True):
        x = oracle(G).dense()
        assert all(part.contains(x) for part in parts)
        assert -1e-8 <= float(G @ x) - least <= oracle.error + 1e-8
        if "highs-ipm" not in failing:
            assert oracle.error <= 1e-3


CLOSE_COLUMNS = (
    (-0.5099022, 0.4999989, -0.7000006),
    (-0.5099006, 0.5000002, -0.7000008),
    (-0.5099025, 0.5000009, -0.6999989),
    (0.0, 0.7437435, -0.6684651),
    (0.0, 0.8722635, -0.4890361),
    (0.0, 0.8722634, -0.4890363),
    (0.0, 0.8690837, -0.4946651),
    (0.0, 0.8764908, -0.4814186),
    (0.0, 0.8723843, -0.4888207),
    (0.0, 0.7315576, -0.6817796),
    (0.0, 0.7110253, -0.7031664),
    (-1e-07, -0.9072484, -0.4205952),
    (-2e-07, -0.9072486, -0.4205947),
    (-2e-07, -0.9010692, -0.4336753),
    (-3e-07, -0.9010671, -0.4336796),
    (-4e-07, -0.9010672, -0.4336794),
    (-4e-07, -0.901067, -0.43368),
)
"""Points of a sphere in a thousandth of each other, and some far away, of a run over a ball and a box."""


def test_columns_that_nearly_agree_are_no_reason_to_fail():
    """HiGHS's dual simplex method finds no point, though NNLS does without any error."""
    domain = sets.Intersection([sets.L2Ball(3), sets.Box(-0.7, 0.5, shape=3)])
    corners = [p for p in itertools.product((-0.7, 0.5), repeat=3) if p not in ((-0.7, -0.7, 0.5),)]
    oracle, fresh, G = domain.oracle(), domain.oracle(), np.array([0.028, -1.0, 0.577])
    oracle.set_state([np.array(CLOSE_COLUMNS), np.array(corners)])
    x = oracle(G).dense()
    assert domain.contains(x)
    assert oracle.error <= 1e-3
    assert abs(float(G @ (x - fresh(G).dense()))) <= max(oracle.error, fresh.error) + 1e-9


def test_every_public_set_is_among_the_cases_that_all_suites_run_on():
    public = {name for name in sets.__all__ if isinstance(getattr(sets, name), type)}
    assert public - {"FeasibleSet", "Oracle", "Set"} <= {type(case.domain).__name__ for case in CASES}
