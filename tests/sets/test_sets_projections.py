"""A projection is the nearest point: checked by the variational inequality and against cvxpy.

p is the projection of x onto D exactly when p is in D and <x - p, s - p> <= 0 for all s in D, and the
largest left side is one call of the linear oracle: an independent certificate for every set.
"""

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import sets
from set_cases import every_model, every_projection

WITHOUT_PROJECTION = (
    *(
        "Polytope",
        "ConvexHull",
        "Epigraph",
        "GroupBall",
        "Intersection",
        "TotalVariation1D",
        "LinearImage",
        "PartialBirkhoff",
    ),
    *("TransportPolytope", "PartialTransport", "FlowPolytope", "ShortestPath", "SpanningTree", "Matching"),
)


def certificate(domain, x, p):
    """Return max <x - p, s - p> over the set, relative to the sizes involved (0 for the projection)."""
    G = p - x
    return float(np.vdot(G, p - domain.lmo(G))) / (1.0 + np.linalg.norm(G) * max(domain.diameter, 1.0))


@every_projection
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_no_point_of_the_set_is_nearer_than_the_projection(case, scale):
    domain = case.domain
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = domain.start() + scale * rng.standard_normal(domain.shape)
        p = domain.project(x)
        assert domain.contains(p)
        assert certificate(domain, x, p) <= 1e-9


@every_projection
def test_feasible_points_and_projections_stay_where_they_are(case):
    rng = np.random.default_rng(1)
    x = case.domain.random(rng)
    np.testing.assert_allclose(case.domain.project(x), x, atol=1e-8)
    p = case.domain.project(5.0 * rng.standard_normal(case.domain.shape))
    np.testing.assert_allclose(case.domain.project(p), p, atol=1e-8)


@every_projection
def test_a_projection_neither_writes_to_nor_shares_its_argument(case):
    x = 0.5 * case.domain.start()
    before = x.copy()
    p = case.domain.project(x)
    p[...] = np.nan
    np.testing.assert_array_equal(x, before)


@every_model
def test_projection_agrees_with_cvxpy(case):
    if not hasattr(case.domain, "project"):
        assert type(case.domain).__name__ in WITHOUT_PROJECTION
        return
    x0 = case.domain.start() + 1.5 * np.random.default_rng(2).standard_normal(case.domain.shape)
    x = cp.Variable(case.domain.shape)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.vec(x - x0, order="C"))), case.model(cp, x))
    problem.solve(solver=cp.CLARABEL)
    p = case.domain.project(x0)
    assert np.sum((p - x0) ** 2) == pytest.approx(problem.value, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(p, x.value, atol=2e-3)


@pytest.mark.parametrize("p", [1.0, 1.001, 1.2, 1.9, 2.0, 2.5, 6.0, 50.0, 1e3, math.inf])
@settings(max_examples=15, derandomize=True)
@given(seed=st.integers(0, 10**6), size=st.floats(-3.0, 8.0), n=st.integers(1, 30))
def test_lp_projection_is_nearest_for_all_exponents_and_sizes(p, seed, size, n):
    rng = np.random.default_rng(seed)
    x = 10.0**size * rng.standard_normal(n)
    x[rng.random(n) < 0.2] = 0.0
    domain = sets.LpBall(n, p, radius=2.0)
    y = domain.project(x)
    assert domain.contains(y, tol=1e-12)
    assert certificate(domain, x, y) <= 1e-9


@settings(derandomize=True)
@given(seed=st.integers(0, 10**6), size=st.floats(-3.0, 6.0), n=st.integers(1, 30), integer=st.booleans())
def test_ksparse_and_simplex_projections_are_nearest_also_with_ties(seed, size, n, integer):
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, n).astype(float) if integer else 10.0**size * rng.standard_normal(n)
    k = int(rng.integers(1, n + 1))
    for domain in (sets.KSparse(n, k, radius=0.5), sets.Simplex(n, radius=2.0), sets.L1Ball(n)):
        y = domain.project(x)
        assert domain.contains(y)
        assert certificate(domain, x, y) <= 1e-9


@pytest.mark.parametrize("n", [2, 5, 30, 60])
@pytest.mark.parametrize("size", [1e-2, 1.0, 1e2, 1e6])
def test_birkhoff_projection_is_nearest_for_all_sizes_of_entries(n, size):
    rng = np.random.default_rng(n)
    domain = sets.Birkhoff(n)
    sparse = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.2)
    for x in (rng.standard_normal((n, n)), np.round(rng.standard_normal((n, n))), sparse):
        p = domain.project(size * x)
        assert domain.violation(p) <= 1e-13 * n
        assert certificate(domain, size * x, p) <= 1e-8


def test_birkhoff_projection_of_a_scaled_permutation_is_that_permutation():
    P = np.eye(6)[[3, 1, 0, 5, 4, 2]]
    np.testing.assert_allclose(sets.Birkhoff(6).project(7.0 * P), P, atol=1e-12)


def test_a_coarser_tolerance_of_the_birkhoff_projection_still_gives_a_feasible_point():
    x = np.random.default_rng(5).standard_normal((40, 40))
    domain = sets.Birkhoff(40)
    rough, fine = domain.project(x, tol=1e-1), domain.project(x, tol=1e-12)
    assert domain.violation(rough) <= 1e-13
    assert np.linalg.norm(rough - fine) <= 0.5
    with pytest.raises(ValueError, match="tol"):
        domain.project(x, tol=0.0)


def test_polytope_and_hull_have_no_projection():
    assert not hasattr(sets.Polytope(bounds=[(0, 1), (0, 1)]), "project")
    assert not hasattr(sets.ConvexHull(np.eye(2)), "project")
    assert not hasattr(sets.Product([sets.Simplex(2), sets.ConvexHull(np.eye(2))]), "project")


@every_projection
def test_projection_refuses_wrong_shapes_and_nan_by_name(case):
    with pytest.raises(ValueError, match="x must have shape"):
        case.domain.project(np.zeros((*case.domain.shape, 2)))
    with pytest.raises(ValueError, match="x has NaN"):
        case.domain.project(np.full(case.domain.shape, np.nan))
