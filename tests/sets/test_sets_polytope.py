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


@settings(derandomize=True)
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


def linear(c):
    return functions.Quadratic(np.zeros((len(c), len(c))), np.asarray(c, dtype=float), convex=True)


def cut_cube(seed):
    """Return constraints of a small polytope in [0, 1]^n, with an equation now and then."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    A, inside = rng.standard_normal((m, n)), rng.random(n)
    equation = rng.random((1, n)) if seed % 3 == 0 else np.zeros((0, n))
    return rng, A, A @ inside + rng.random(m), equation, equation @ inside


@settings(derandomize=True)
@given(seed=st.integers(0, 10**6), exponents=st.integers(1, 12))
def test_units_of_rows_and_columns_and_of_the_cost_do_not_matter(seed, exponents):
    """The vertex of the polytope in other units is the same vertex, in other units."""
    rng, A, b, E, e = cut_cube(seed)
    n = A.shape[1]
    c = rng.standard_normal(n)
    expected = linprog(c, A, b, E, e, bounds=(0.0, 1.0), method="highs-ipm").fun
    units = 10.0 ** rng.integers(-exponents, exponents + 1, n)
    rows, equations = (10.0 ** rng.integers(-exponents, exponents + 1, len(M)) for M in (A, E))
    domain = sets.Polytope(
        A * rows[:, None] / units,
        b * rows,
        E * equations[:, None] / units,
        e * equations,
        bounds=np.column_stack((np.zeros(n), units)),
    )
    cost = 10.0 ** int(rng.integers(-exponents, exponents + 1))
    res = dcfw.minimize(linear(cost * c / units), domain, tol=1e-9 * cost)
    x = res.x / units
    assert res.success
    assert res.fun / cost == pytest.approx(expected, abs=1e-7)
    assert (A @ x <= b + 1e-8).all()
    assert np.abs(E @ x - e).max(initial=0.0) <= 1e-8
    assert -1e-8 <= x.min() <= x.max() <= 1.0 + 1e-8
    outside = x + 1e-3 * (x - 0.5) * (n + 1.0)
    if (A @ outside > b + 1e-4).any() or abs(outside - 0.5).max() > 0.5 + 1e-4:
        assert not domain.contains(outside * units)


def test_small_coefficients_are_constraints_as_good_as_others():
    domain = sets.Polytope(A_ub=1e-10 * np.ones((1, 4)), b_ub=[1e-10], bounds=(0.0, 1.0))
    res = dcfw.minimize(linear([-1.0, -2.0, -3.0, -4.0]), domain)
    np.testing.assert_array_equal(res.x, [0.0, 0.0, 0.0, 1.0])
    assert not domain.contains(np.ones(4))


def test_variables_in_very_different_units_share_a_constraint():
    domain = sets.Polytope(A_ub=[[1.0, 1e-10]], b_ub=[1.0], bounds=[(0.0, 1.0), (0.0, 1e10)])
    assert not domain.contains(np.array([1.0, 1e10]))
    res = dcfw.minimize(linear([-1.0, -2e-10]), domain)
    np.testing.assert_allclose(res.x, [0.0, 1e10])
    assert res.fun == pytest.approx(-2.0)


def test_a_large_cost_does_not_hide_small_ones():
    domain = sets.Polytope(A_ub=[[0.0, 1.0, 1.0, 1.0]], b_ub=[1.0], bounds=(0.0, 1.0))
    res = dcfw.minimize(linear([1e11, -1.0, -2.0, 0.0]), domain, x0=np.zeros(4), tol=1e-3)
    assert res.fun == pytest.approx(-2.0)


def test_the_oracles_error_covers_what_an_answer_may_miss(monkeypatch):
    """Without refinement HiGHS takes 1e-11 of the cost for zero, and the oracle says what it missed."""
    monkeypatch.setattr("dcfw.sets.linear_programme.REFINEMENTS", 0)
    domain = sets.Polytope(A_ub=[[0.0, 1.0, 1.0, 1.0]], b_ub=[1.0], bounds=(0.0, 1.0))
    oracle, c = domain.oracle(), np.array([1e11, -1.0, -2.0, 0.0])
    missed = oracle(c).inner(c) + 2.0
    assert missed > 0.0
    assert oracle.error >= missed
    res = dcfw.minimize(linear(c), domain, x0=np.zeros(4), tol=1e-3)
    assert not res.success
    assert res.gap >= 2.0


@pytest.mark.parametrize(
    "constraints",
    [
        {"A_ub": [[1e-10]], "b_ub": [-1e-10], "bounds": (0.0, 1.0)},
        {"A_ub": [[1.0], [-1.0]], "b_ub": [1e-12, -2e-12]},
        {"A_ub": 1e-10 * np.ones((1, 3)), "b_ub": [1e-10], "bounds": (0.5, 1.0)},
    ],
)
def test_an_empty_polytope_is_refused_in_any_units(constraints):
    with pytest.raises(ValueError, match="the polytope is empty"):
        sets.Polytope(**constraints)


@pytest.mark.parametrize("size", [1e-25, 1e-10, 1e10, 1e25])
@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e10])
def test_a_box_is_bounded_in_any_units(size, unit):
    domain = sets.Polytope(A_ub=unit * UNIT, b_ub=unit * size * np.ones(4))
    np.testing.assert_allclose(domain.lmo(np.array([1.0, -1.0])), [-size, size])
    np.testing.assert_allclose(sets.Polytope(bounds=(-size, size)).lmo(np.array([1.0])), [-size])
    assert not domain.contains(np.array([0.0, 1.001 * size]))


def test_many_free_variables_are_bounded_together():
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((80, 80)))
    domain = sets.Polytope(np.vstack([Q, -Q]), np.ones(160))
    c = rng.standard_normal(80)
    oracle = domain.oracle()
    assert oracle(c).inner(c) == pytest.approx(-np.abs(Q @ c).sum())
    assert oracle.error <= 1e-9
    with pytest.raises(ValueError, match="unbounded"):
        sets.Polytope(np.vstack([Q, -Q])[1:80], np.ones(79))


def test_linear_constraints_of_scipy_describe_the_same_polytope():
    from scipy.optimize import Bounds, LinearConstraint
    from scipy.sparse import csr_array

    sums = LinearConstraint(csr_array(np.ones((1, 3))), 1.0, 1.0)
    sides = LinearConstraint([[1.0, -1.0, 0.0], [0.0, 1.0, 1.0]], [-0.5, -np.inf], [0.5, 0.9])
    theirs = sets.Polytope([sums, sides], bounds=Bounds(0.0, np.ones(3)))
    ours = sets.Polytope(
        A_ub=[[1.0, -1.0, 0.0], [0.0, 1.0, 1.0], [-1.0, 1.0, 0.0]],
        b_ub=[0.5, 0.9, 0.5],
        A_eq=np.ones((1, 3)),
        b_eq=[1.0],
        bounds=(0.0, 1.0),
    )
    rng = np.random.default_rng(0)
    for G in rng.standard_normal((20, 3)):
        assert theirs.lmo(G) @ G == pytest.approx(ours.lmo(G) @ G, abs=1e-9)
    with pytest.raises(ValueError, match="b_ub, A_eq and b_eq must be left out"):
        sets.Polytope(sums, [1.0])


def test_a_solve_keeps_the_basis_and_answers_what_linprog_answers():
    pytest.importorskip("highspy")
    rng = np.random.default_rng(0)
    A = sp.random_array((60, 40), density=0.2, rng=rng).tocsr()
    domain = sets.Polytope(A, np.ones(60), A_eq=np.ones((1, 40)), b_eq=[3.0], bounds=(0.0, 1.0))
    oracle, G = domain.oracle(), rng.standard_normal(40)
    pivots = []
    for _ in range(20):
        S = oracle(G)
        pivots.append(oracle.kept.pivots)
        assert domain.contains(S.dense())
        assert S.inner(G) == pytest.approx(domain.lmo(G) @ G, abs=1e-8)
        assert oracle.error <= 1e-9
        G = G + 0.01 * rng.standard_normal(40)
    assert max(pivots[1:]) < pivots[0]


def test_a_saved_basis_gives_the_same_answers():
    pytest.importorskip("highspy")
    rng = np.random.default_rng(1)
    domain = sets.Polytope(rng.random((30, 20)), np.ones(30), bounds=(0.0, 1.0))
    first, second = domain.oracle(), domain.oracle()
    first(rng.standard_normal(20))
    second.set_state(first.get_state())
    for G in rng.standard_normal((5, 20)):
        np.testing.assert_array_equal(first(G).dense(), second(G).dense())


def test_a_polytope_needs_no_highspy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    domain = sets.Polytope(A_ub=[[1.0, 2.0]], b_ub=[2.0], bounds=(0.0, None))
    np.testing.assert_array_equal(domain.oracle()(np.array([-1.0, -1.0])).dense(), [2.0, 0.0])
