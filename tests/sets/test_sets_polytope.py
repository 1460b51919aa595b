"""Polytopes by constraints and by points: vertices, emptiness, unboundedness."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, linprog

import dcfw
from dcfw import functions, sets

UNIT = np.vstack([np.eye(2), -np.eye(2)])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1.0, 1e-12, 1e-300, 1e12]))
def test_random_polytopes_have_the_minimum_of_linprog_at_a_vertex(seed, size):
    """A rotated cube, cut; all variables free, and directions that are normal to faces (many ties)."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 7)), int(rng.integers(1, 8))
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = np.vstack([Q, -Q, rng.integers(-2, 3, (m, n))])
    b = np.concatenate([2.0 * np.ones(2 * n), 1.0 + rng.random(m)])
    domain = sets.Polytope(A, b)
    G = Q[: int(rng.integers(1, n + 1))].sum(axis=0)
    s = domain.lmo(size * G)
    best = linprog(G, A_ub=A, b_ub=b, bounds=(None, None), method="highs-ipm").fun
    assert G @ s == pytest.approx(best, abs=1e-6)
    active = np.abs(A @ s - b) <= 1e-8
    assert np.linalg.matrix_rank(A[active]) == n


def test_free_variables_that_the_direction_does_not_see_end_at_a_vertex():
    domain = sets.Polytope(A_ub=UNIT, b_ub=np.ones(4))
    for G in ([1.0, 0.0], [0.0, 1.0], [0.0, 0.0]):
        np.testing.assert_allclose(np.abs(domain.lmo(np.array(G))), 1.0)


def test_sparse_and_dense_constraints_describe_the_same_set():
    G = np.array([1.0, -2.0])
    b = np.array([1.0, 2.0, 3.0, 4.0])
    expected = sets.Polytope(UNIT, b).lmo(G)
    for kind in (sp.csr_array, sp.coo_matrix, sp.csc_matrix):
        np.testing.assert_allclose(sets.Polytope(kind(UNIT), b).lmo(G), expected)


def test_sparse_and_dense_rows_have_the_same_norm():
    A = np.array([[30.0, 40.0], [-0.3, 0.0], [0.0, -2e-3]])
    b = np.array([50.0, 0.3, 2e-3])
    for matrix in (A, sp.csr_array(A), sp.csc_matrix(A)):
        domain = sets.Polytope(matrix, b)
        assert domain.violation(np.array([1.2, 1.6])) == pytest.approx(1.0)
        assert domain.violation(np.array([-3.0, 0.0])) == pytest.approx(2.0)
        assert domain.violation(np.array([0.0, -1.5])) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 2),
        ((0, 2), (0, 2)),
        [[0.0, 2.0]] * 2,
        Bounds([0.0, 0.0], 2.0),
        np.array([[0, 2]] * 2),
        np.array([0, 2]),
    ],
)
def test_bounds_come_in_scipys_forms(bounds):
    domain = sets.Polytope(A_ub=[[1.0, 1.0]], b_ub=[3.0], bounds=bounds)
    np.testing.assert_array_equal(domain.lower, [0.0, 0.0])
    np.testing.assert_array_equal(domain.upper, [2.0, 2.0])


def test_bounds_alone_are_a_box():
    domain = sets.Polytope(bounds=[(0.0, 1.0), (2.0, 4.0)])
    np.testing.assert_array_equal(domain.lmo(np.array([1.0, -1.0])), [0.0, 4.0])


def test_there_are_no_bounds_by_default():
    domain = sets.Polytope(A_ub=UNIT, b_ub=np.ones(4))
    assert domain.lmo(np.ones(2)).tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    "constraints",
    [
        {"A_ub": [[1.0], [-1.0]], "b_ub": [1.0, -2.0]},
        {"A_eq": [[1.0, 1.0]], "b_eq": [3.0], "bounds": (0.0, 1.0)},
        {"A_ub": [[1.0, 1.0]], "b_ub": [-1.0], "bounds": (0.0, None)},
        {"A_ub": [[0.0, 0.0]], "b_ub": [-1.0], "bounds": (0.0, 1.0)},
    ],
)
def test_an_empty_polytope_is_refused_as_infeasible(constraints):
    with pytest.raises(ValueError, match=r"the polytope is empty; relax or remove a constraint$"):
        sets.Polytope(**constraints)


@pytest.mark.parametrize("bounds", [[(0.0, -math.inf)], [(None, -math.inf)], [(math.inf, None)]])
def test_bounds_at_the_wrong_infinity_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds must"):
        sets.Polytope(bounds=bounds)


@pytest.mark.parametrize(
    "constraints",
    [
        {"A_ub": [[1.0, 1.0]], "b_ub": [1.0]},
        {"A_ub": [[1.0, 0.0]], "b_ub": [1.0], "bounds": (0.0, None)},
        {"A_eq": [[1.0, -1.0]], "b_eq": [0.0]},
        {"A_eq": [[1.0, -1.0]], "b_eq": [0.0], "bounds": (0.0, None)},
        {"bounds": [(0.0, 1.0), (0.0, None)]},
        {"A_ub": [[-1.0, 1e-6], [1.0, -1e-6]], "b_ub": [1.0, 1.0]},
    ],
)
def test_an_unbounded_polyhedron_is_refused_as_unbounded(constraints):
    with pytest.raises(ValueError, match="unbounded"):
        sets.Polytope(**constraints)


def test_a_single_point_is_a_polytope():
    point = sets.Polytope(A_eq=np.eye(2), b_eq=[1.0, 2.0])
    np.testing.assert_allclose(point.lmo(np.array([1.0, -1.0])), [1.0, 2.0])
    np.testing.assert_allclose(point.start(), [1.0, 2.0])
    assert point.diameter == pytest.approx(0.0, abs=1e-9)


def test_violation_is_measured_with_rows_of_norm_one():
    domain = sets.Polytope(A_ub=[[30.0, 40.0]], b_ub=[50.0], bounds=(-5.0, 5.0))
    assert domain.violation(np.array([1.2, 1.6])) == pytest.approx(1.0)
    assert domain.violation(np.array([0.0, -6.0])) == pytest.approx(1.0)
    assert domain.violation(np.array([0.0, 0.0])) == 0.0


def test_points_inside_a_face_never_win_over_its_corners():
    rng = np.random.default_rng(0)
    corners = rng.standard_normal((2, 5))
    weights = rng.random((50, 1))
    domain = sets.ConvexHull(np.vstack([weights * corners[0] + (1.0 - weights) * corners[1], corners]))
    across = rng.standard_normal(5)
    edge = corners[1] - corners[0]
    across -= edge * (across @ edge) / (edge @ edge)  # constant along the segment, up to rounding
    for G in (across, -across, np.zeros(5)):
        s = domain.lmo(G)
        assert any(np.array_equal(s, corner) for corner in corners)


def test_the_violation_of_a_hull_is_the_distance_in_the_largest_entry():
    square = sets.ConvexHull([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert square.violation(np.array([1.5, 0.5])) == pytest.approx(0.5)
    assert square.violation(np.array([0.3, 0.9])) <= 1e-9
    for size in (1e-3, 20.0):
        domain = sets.ConvexHull(size * square.points)
        assert domain.violation(np.array([1.5 * size, 0.5 * size])) == pytest.approx(0.5 * size)
        assert domain.violation(np.array([0.3 * size, 0.9 * size])) <= 1e-9 * size


def test_costs_that_differ_by_less_than_the_usual_tolerance_of_highs_are_told_apart():
    n = 8
    P = sets.Polytope(A_eq=np.ones((1, n)), b_eq=np.ones(1), bounds=[(0.0, 1.0)] * n)
    for seed in range(5):
        c = 1.0 + 9e-8 * np.random.default_rng(seed).permutation(n)
        np.testing.assert_array_equal(P.lmo(c), np.eye(n)[np.argmin(c)])


def test_a_polytope_in_which_no_centre_is_found_starts_at_a_vertex(monkeypatch):
    P = sets.Polytope(bounds=[(0.0, 1.0)] * 3)
    solve = scipy.optimize.linprog
    monkeypatch.setattr(
        scipy.optimize,
        "linprog",
        lambda *args, method, **options: (
            SimpleNamespace(status=2) if method == "highs" else solve(*args, method=method, **options)
        ),
    )
    x = P.start()
    assert P.contains(x)
    assert set(x.tolist()) <= {0.0, 1.0}


def test_an_equation_that_is_there_twice_takes_one_direction_away():
    twice = sets.Polytope(A_eq=[[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], b_eq=[1.0, 2.0], bounds=(0.0, 1.0))
    d = np.array([1.0, 2.0, -3.0])
    np.testing.assert_allclose(twice.tangent(d + 5.0), d, atol=1e-14)


@pytest.mark.parametrize("big", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("fixed", [0, 1])
def test_a_large_part_along_the_equations_does_not_hide_the_rest_of_a_gradient(big, matrix, fixed):
    rng = np.random.default_rng(0)
    A, x, g, y = rng.random((8, 40)), rng.random(40), rng.standard_normal(40), rng.standard_normal(8)
    bounds = [(0.0, 1.0)] * (40 - fixed) + [(x[39], x[39])] * fixed
    domain = sets.Polytope(A_eq=matrix(A), b_eq=A @ x, bounds=bounds)
    c = big * (A.T @ y) + g
    c[39] += fixed * big
    s, best = domain.lmo(c), domain.lmo(g)
    assert g @ s == pytest.approx(g @ best, abs=64 * np.finfo(np.float64).eps * np.abs(c).sum())
    res = dcfw.minimize(functions.Quadratic(np.zeros((40, 40)), c, convex=True), domain, x0=s)
    assert c @ (res.x - best) <= res.gap + 64 * np.finfo(np.float64).eps * np.abs(c).sum()


def test_a_gradient_that_is_constant_on_the_set_is_answered_with_a_vertex():
    A = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    for matrix in (A, sp.csr_matrix(A)):
        domain = sets.Polytope(A_eq=matrix, b_eq=[2.0, 1.0], bounds=(0.0, 1.0))
        for c in (np.zeros(3), A[0], 1e9 * A[1] - A[0]):
            s = domain.lmo(c)
            assert domain.contains(s)
            assert np.abs(s * (1.0 - s)).min() < 1e-9


def test_the_directions_of_a_polytope_leave_out_what_bounds_fix():
    domain = sets.Polytope(A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0], bounds=[(0.0, 1.0), (0.2, 0.2), (0.0, 1.0)])
    np.testing.assert_allclose(domain.tangent(np.array([3.0, 5.0, 1.0])), [1.0, 0.0, -1.0], atol=1e-15)
