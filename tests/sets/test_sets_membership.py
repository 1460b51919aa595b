"""contains, violation, start and random agree on what is inside."""

import math

import cvxpy as cp
import numpy as np
import pytest

from dcfw import sets
from set_cases import every_model, every_set


@every_set
def test_start_and_random_points_are_feasible(case):
    domain = case.domain
    assert domain.contains(domain.start(), tol=1e-12)
    for seed in range(5):
        x = domain.random(seed)
        assert x.shape == domain.shape
        assert domain.contains(x)


LARGER = (sets.ShortestPath, sets.SpanningTree, sets.Matching)
"""Sets that may have entries fixed by the structure of the graph, which ``tangent`` does not look for."""


@every_set
def test_tangent_projects_onto_the_directions_between_the_points(case):
    domain, n = case.domain, math.prod(case.domain.shape)
    if not domain.flat or n > 80:
        return
    rng = np.random.default_rng(5)
    vertices = [domain.lmo(rng.standard_normal(domain.shape)) for _ in range(4 * n)]
    points = np.array([domain.start(), *vertices]).reshape(-1, n)
    _, size, Vt = np.linalg.svd(points[1:] - points[0])
    between = Vt[: len(size)][size > 1e-9 * domain.scale]
    G = rng.standard_normal(domain.shape)
    d = domain.tangent(G).ravel()
    missed = G.ravel() - d
    np.testing.assert_allclose(between @ missed, 0.0, atol=1e-9)
    np.testing.assert_allclose(domain.tangent(np.reshape(d, domain.shape)).ravel(), d, atol=1e-9)
    if not isinstance(domain, LARGER):
        np.testing.assert_allclose(d, between.T @ (between @ d), atol=1e-9)


@every_set
def test_random_points_are_reproducible_and_differ(case):
    domain = case.domain
    np.testing.assert_array_equal(domain.random(3), domain.random(np.random.default_rng(3)))
    if domain.diameter > 0.0:
        assert not np.array_equal(domain.random(3), domain.random(4))


@every_set
def test_every_call_of_start_returns_its_own_array(case):
    x = case.domain.start()
    x[...] = np.nan
    assert case.domain.contains(case.domain.start())


@every_model
def test_a_point_is_outside_exactly_when_a_vertex_direction_separates_it(case):
    """Beyond the vertex s in direction -G the linear function is lower than its minimum on the set."""
    rng = np.random.default_rng(0)
    domain, centre = case.domain, case.domain.start()
    for _ in range(5):
        G = rng.standard_normal(domain.shape)
        s = domain.lmo(G)
        outside, inside = centre + 1.001 * (s - centre), centre + 0.999 * (s - centre)
        if np.vdot(G, s) < np.vdot(G, centre) - 1e-9:
            assert domain.violation(outside) > 0.0
            assert not domain.contains(outside)
        assert domain.contains(inside)


@every_model
def test_random_points_near_the_boundary_are_classified_as_cvxpy_does(case):
    domain = case.domain
    rng = np.random.default_rng(1)
    x = cp.Variable(domain.shape)
    target = cp.Parameter(domain.shape)
    problem = cp.Problem(cp.Minimize(cp.norm(cp.vec(x - target, order="C"), 2)), case.model(cp, x))
    seen = set()
    for spread in (0.0, 0.3, 1.0):
        point = domain.random(rng) + spread * rng.standard_normal(domain.shape)
        target.value = point
        problem.solve(solver=cp.CLARABEL)
        distance = problem.value
        seen.add(distance < 1e-6)
        if distance < 1e-7:
            assert domain.contains(point, tol=1e-5)
        elif distance > 1e-3:
            assert not domain.contains(point, tol=1e-6)
    assert True in seen


@every_set
def test_nan_and_infinite_points_and_other_shapes_are_not_contained(case):
    domain = case.domain
    for bad in (np.nan, np.inf, -np.inf):
        x = domain.start()
        x.flat[0] = bad
        assert not domain.contains(x)
    assert not domain.contains(np.zeros((*domain.shape, 1)))
    with pytest.raises(ValueError, match="x must have shape"):
        domain.violation(np.zeros((*domain.shape, 1)))


@every_set
def test_single_precision_vertices_are_contained(case):
    rng = np.random.default_rng(2)
    s = case.domain.lmo(rng.standard_normal(case.domain.shape).astype(np.float32))
    assert case.domain.contains(s)


@pytest.mark.parametrize("radius", [1e-9, 1e9])
@pytest.mark.parametrize(
    "make",
    [
        lambda r: sets.Simplex(9, r),
        lambda r: sets.L1Ball(9, r),
        lambda r: sets.L2Ball(9, r),
        lambda r: sets.LpBall(9, 1.3, r),
        lambda r: sets.KSparse(9, 4, r),
        lambda r: sets.Box(-r, r, shape=9),
        lambda r: sets.NuclearBall((3, 3), r),
        lambda r: sets.SpectralBall((3, 3), r),
        lambda r: sets.Spectraplex(3, r),
    ],
)
def test_the_tolerance_is_relative_to_the_size_of_the_set(make, radius):
    domain = make(radius)
    s = domain.lmo(np.random.default_rng(3).standard_normal(domain.shape))
    assert domain.contains(s)
    assert not domain.contains((1.0 + 1e-6) * s)


def test_a_matrix_that_is_not_symmetric_is_outside_of_the_spectraplex():
    x = np.array([[0.5, 1e-3], [-1e-3, 0.5]])
    assert sets.Spectraplex(2).violation(x) == pytest.approx(2e-3)
    assert not sets.Spectraplex(2).contains(x)


def test_start_is_the_natural_centre():
    np.testing.assert_allclose(sets.Simplex(4, radius=2.0).start(), 0.5)
    np.testing.assert_array_equal(sets.L1Ball((2, 2)).start(), np.zeros((2, 2)))
    np.testing.assert_array_equal(sets.Box([0.0, 1.0], [1.0, 3.0]).start(), [0.5, 2.0])
    np.testing.assert_allclose(sets.Birkhoff(4).start(), 0.25)
    np.testing.assert_allclose(sets.Spectraplex(4, radius=2.0).start(), 0.5 * np.eye(4))
    np.testing.assert_allclose(sets.ConvexHull([[0.0, 0.0], [2.0, 4.0]]).start(), [1.0, 2.0])
    barycentre = sets.Polytope(A_eq=np.ones((1, 5)), b_eq=[1.0], bounds=(0.0, None)).start()
    np.testing.assert_allclose(barycentre, 0.2, atol=1e-9)
    cube = sets.Polytope(A_ub=np.vstack([np.eye(2), -np.eye(2)]), b_ub=[3.0, 3.0, -1.0, -1.0]).start()
    np.testing.assert_allclose(cube, 2.0, atol=1e-9)


def test_uniform_points_of_the_simplex_have_the_right_mean_and_variance():
    rng = np.random.default_rng(4)
    points = np.array([sets.Simplex(4, radius=2.0).random(rng) for _ in range(4000)])
    np.testing.assert_allclose(points.mean(axis=0), 0.5, atol=0.03)
    # A coordinate of the flat Dirichlet distribution has variance (n-1) / (n^2 (n+1)).
    np.testing.assert_allclose(points.var(axis=0), 4.0 * 3.0 / (16.0 * 5.0), rtol=0.1)


def test_repr_shows_what_was_given():
    assert repr(sets.Simplex(3, radius=2.0)) == "Simplex(3, radius=2)"
    assert repr(sets.LpBall((2, 3), p=math.inf)) == "LpBall((2, 3), p=inf)"
    assert repr(sets.L1Ball(4)) == "L1Ball(4)"
    assert repr(sets.KSparse(4, k=2, radius=0.5)) == "KSparse(4, k=2, radius=0.5)"
    assert repr(sets.Birkhoff(4)) == "Birkhoff(4)"
    assert repr(sets.NuclearBall((4, 5))) == "NuclearBall((4, 5))"
    assert repr(sets.Product([sets.Simplex(2), sets.L2Ball(3)])) == "Product([Simplex(2), L2Ball(3)])"


def test_random_points_of_a_thin_box_do_not_leave_it_by_rounding():
    weight = np.random.default_rng(0).random(1000)
    mean = (1.0 - weight) * 0.9 + weight * 0.9
    assert mean.min() < 0.9 < mean.max()
    np.testing.assert_array_equal(sets.Box(0.9, 0.9, shape=1000).random(0), 0.9)


def test_a_box_does_not_extend_where_its_bounds_coincide():
    box = sets.Box([0.0, 1.0], [1.0, 1.0])
    np.testing.assert_array_equal(box.tangent(np.array([3.0, 4.0])), [3.0, 0.0])


def test_a_box_keeps_its_bounds_in_double_precision():
    box = sets.Box(np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32))
    assert box.lower.dtype == box.upper.dtype == np.float64


@pytest.mark.parametrize(
    ("box", "text"),
    [
        (sets.Box([0.0, 0.0], [1.0, 1.0]), "Box(2, lower=0, upper=1)"),
        (sets.Box([0.0, 0.0], [1.0, 2.0]), "Box(2, lower=..., upper=...)"),
        (sets.Box([0.0, 1.0], [2.0, 2.0]), "Box(2, lower=..., upper=...)"),
    ],
)
def test_the_repr_of_a_box_has_its_bounds_where_they_are_all_the_same(box, text):
    assert repr(box) == text


def test_every_entry_of_a_random_point_of_a_box_is_drawn_by_itself():
    assert len(np.unique(sets.Box(0.0, 1.0, shape=(4, 5)).random(0))) == 20


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, np.inf])
def test_a_schatten_ball_needs_no_singular_values_near_its_centre(p, monkeypatch):
    ball = sets.SchattenBall((5, 3), p, radius=2.0)
    for size in (0.5, 0.9, 0.99, 1.01, 1.5):
        for rank in (1, 3):
            x = np.random.default_rng(rank).standard_normal((5, rank)) @ np.eye(rank, 3)
            x *= 2.0 * size / np.linalg.norm(np.linalg.svd(x, compute_uv=False), p)
            assert ball.violation(x) == pytest.approx(max(2.0 * size - 2.0, 0.0), abs=1e-12)
    monkeypatch.setattr(np.linalg, "svd", None)
    assert ball.violation(np.zeros((5, 3))) == 0.0
