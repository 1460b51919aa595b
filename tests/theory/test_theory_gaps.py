"""The paper's statements about its measures of stationarity: signs, zeros and inequalities between them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import functions, gaps, sets, splits
from reference_gaps import minimise_convex, rounding, size_of, surrogate_gap, symmetric

SETS = {
    "simplex": sets.Simplex(4, radius=1.5),
    "l1": sets.L1Ball(4),
    "l2": sets.L2Ball(4, radius=2.0),
    "l1.5": sets.LpBall(4, p=1.5),
    "box": sets.Box([-1.0, 0.0, -2.0, 0.5], [1.0, 1.0, 0.0, 2.0]),
    "k-sparse": sets.KSparse(4, k=2),
}
SEEDS = st.integers(0, 2**32 - 1)


def random_dc(rng, n=4):
    f = functions.Quadratic(symmetric(rng, n, rng.choice([0.0, 0.5]), 3.0), rng.standard_normal(n))
    return f - functions.Quadratic(symmetric(rng, n, 0.0, 4.0), rng.standard_normal(n))


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_the_dc_gap_lies_in_its_interval_which_is_narrow_and_between_zero_and_the_fw_gap(name, seed):
    rng = np.random.default_rng(seed)
    domain, dc = SETS[name], random_dc(rng)
    x = domain.random(rng)
    low, high = gaps.dc_gap(dc, domain, x, accuracy=1e-2)
    below, above, _ = surrogate_gap(dc.f, dc.g.grad(x), domain, x, dc.f.lipschitz)
    slack = rounding(x, 1000, size_of(dc, domain, x))
    assert low <= above + slack
    assert high >= below - slack
    assert 0.0 <= low <= high
    assert high - low <= 1e-2 * high + slack
    assert gaps.fw_gap(dc, domain, x) >= below - slack


@given(seed=SEEDS)
def test_the_fw_gap_is_the_largest_over_all_vertices(seed):
    rng = np.random.default_rng(seed)
    domain, dc = sets.Simplex(4, radius=1.5), random_dc(rng)
    x = domain.random(rng)
    G = dc.f.grad(x) - dc.g.grad(x)
    brute = max(float(G @ (x - vertex)) for vertex in 1.5 * np.eye(4))
    assert gaps.fw_gap(dc, domain, x) == pytest.approx(brute, abs=rounding(x, 1, size_of(dc, domain, x)))


def points_with_normals(rng):
    """Points of sets, each with an element of the normal cone there (the definition, worked out by hand)."""
    direction = rng.standard_normal(4)
    direction /= np.linalg.norm(direction)
    face = np.array([0.25, 0.0, 0.75, 0.0])
    permutation = np.eye(3)[rng.permutation(3)]
    # (set, x, nu) with <nu, y - x> <= 0 for all y of the set
    yield sets.Simplex(4), np.eye(4)[1], np.array([-1.0, 0.5, -0.25, 0.0])
    yield sets.Simplex(4), face, np.array([2.0, 1.0, 2.0, -3.0])
    yield sets.Simplex(4), np.full(4, 0.25), np.full(4, -0.7)
    yield sets.L1Ball(4), np.array([0.5, 0.0, -0.5, 0.0]), np.array([2.0, -1.0, -2.0, 0.5])
    yield sets.L1Ball(4), np.array([0.2, 0.1, 0.0, -0.3]), np.zeros(4)
    yield sets.L2Ball(4, radius=2.0), 2.0 * direction, 3.0 * direction
    yield sets.L2Ball(4), 0.5 * direction, np.zeros(4)
    yield sets.LInfBall(4), np.array([1.0, -1.0, 0.3, 0.0]), np.array([2.0, -0.1, 0.0, 0.0])
    yield sets.Box(np.zeros(4), np.ones(4)), np.array([0.0, 1.0, 0.5, 0.5]), np.array([-1.0, 2.0, 0.0, 0.0])
    yield sets.Birkhoff(3), permutation, permutation * 2.0 + rng.uniform(-0.5, 0.5, (3, 3))
    yield sets.SpectralBall((2, 2)), np.eye(2), np.array([[2.0, 0.5], [0.5, 1.0]])
    yield sets.NuclearBall((2, 2)), np.diag([1.0, 0.0]), np.diag([1.0, -0.4])


@pytest.mark.parametrize("seed", range(3))
def test_the_dc_gap_is_zero_at_constructed_critical_points_and_positive_when_the_gradient_is_tilted(seed):
    rng = np.random.default_rng(seed)
    for domain, x, nu in points_with_normals(rng):
        n = x.size
        f = functions.Quadratic(symmetric(rng, n, 0.0, 2.0))
        P = symmetric(rng, n, 0.0, 3.0)
        # grad f(x) - grad g(x) = -nu: x is a critical point
        b = (f.grad(x) - functions.Quadratic(P).grad(x) + nu).ravel()
        dc = f - functions.Quadratic(P, b)
        slack = rounding(x, 1, size_of(dc, domain, x))
        assert gaps.fw_gap(dc, domain, x) <= slack, domain
        low, high = gaps.dc_gap(dc, domain, x)
        assert low == 0.0 or low <= slack, domain
        assert high <= slack, domain
        # Now tilt the gradient so that some vertex s is better to first order: x is not critical any more.
        vertices = (domain.lmo(rng.standard_normal(x.shape)) for _ in range(50))
        s = next(v for v in vertices if abs(v - x).max() > 0.1)
        tilt = (s - x).ravel() * (1.0 + abs(float(np.vdot(nu, s - x)))) / float(np.vdot(s - x, s - x))
        moved = f - functions.Quadratic(P, b + tilt)
        low, high = gaps.dc_gap(moved, domain, x, accuracy=1e-2)
        # Along d = s - x the surrogate has slope <= -1 and curvature <= 2 ||d||^2: it falls by this much.
        d2 = float(np.vdot(s - x, s - x))
        assert high >= min(0.25 / d2, 0.5)
        assert low >= 0.99 * min(0.25 / d2, 0.5), domain


def test_the_dc_gap_at_a_kink_of_g_is_a_minimum_over_subgradients():
    # f = 1/2 ||x - c||^2, g = scale ||x||_1 on a box: gap_DC(0) = sum 1/2 max(|c_i| - scale, 0)^2 while the
    # minimiser stays inside the box, and 0 is critical if and only if |c_i| <= scale for all i.
    box, x = sets.LInfBall(3, radius=2.0), np.zeros(3)
    for c, scale in (([0.3, -0.2, 0.0], 0.5), ([0.3, -1.2, 0.9], 0.5), ([1.5, 1.5, -1.5], 0.1)):
        c = np.array(c)
        dc = functions.LeastSquares(np.eye(3), c) - functions.L1Norm(scale)
        truth = 0.5 * float((np.maximum(abs(c) - scale, 0.0) ** 2).sum())
        low, high = gaps.dc_gap(dc, box, x)
        assert low == 0.0
        assert high >= truth
        # The subgradient that L1Norm returns is 0, whose own surrogate gap is 1/2 ||c||^2: that is "high".
        assert high == pytest.approx(0.5 * float(c @ c), rel=1e-5)
    # Off the kinks there is one subgradient, and the low end is as good as the high one.
    low, high = gaps.dc_gap(dc, box, np.array([0.1, -0.1, 0.2]))
    assert 0.99 * high <= low <= high


def test_a_critical_point_may_have_a_subgradient_that_does_not_show_it_and_the_low_end_stays_zero():
    # X = 0 is critical for 1/2 ||X||^2 - ||X||_* (0 is in both subdifferentials); the subgradient I is not.
    ball = sets.SpectralBall((3, 3))
    dc = functions.SquaredNorm(1.0) - functions.NuclearNorm(complete=True)
    low, high = gaps.dc_gap(dc, ball, np.zeros((3, 3)))
    assert low == 0.0
    assert high == pytest.approx(1.5)  # max_Y <I, Y> - 1/2 ||Y||^2 at Y = I
    zero_there = functions.SquaredNorm(1.0) - functions.NuclearNorm()
    assert gaps.dc_gap(zero_there, ball, np.zeros((3, 3))) == (0.0, 0.0)


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_the_dc_gap_of_the_sliding_split_is_at_least_the_projected_gradient_measure(name, seed):
    rng = np.random.default_rng(seed)
    domain = SETS[name]
    phi = functions.Quadratic(symmetric(rng, 4, -3.0, 2.0), rng.standard_normal(4))
    L = 3.0 * rng.choice([1.0, 2.5])
    dc = splits.sliding(phi, L)
    x = domain.random(rng)
    pgm = gaps.pgm_gap(phi, domain, x, L)
    below, above, nearest = surrogate_gap(dc.f, dc.g.grad(x), domain, x, L)
    slack = rounding(x, 100, size_of(dc, domain, x))
    assert above >= pgm - slack
    assert gaps.dc_gap(dc, domain, x, accuracy=1e-2).high >= pgm - slack
    # The measure itself: its projection is the minimiser of the surrogate.
    projected = domain.project(x - phi.grad(x) / L)
    assert np.linalg.norm(nearest - projected) <= math.sqrt(2.0 * (above - below + slack) / L)
    assert pgm == pytest.approx(0.5 * L * float(np.sum((x - projected) ** 2)), abs=slack)


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_dc_gap_of_the_proximal_split_is_at_least_a_fraction_of_the_proximal_point_measure(name, seed):
    rng = np.random.default_rng(seed)
    domain = SETS[name]
    rho, L = rng.uniform(0.5, 2.0), 3.0
    phi = functions.Quadratic(symmetric(rng, 4, -rho, 3.0), rng.standard_normal(4))
    dc = splits.proximal(phi, L)
    x = domain.random(rng)
    ppm = gaps.ppm_gap(phi, domain, x, L)
    below, above, prox = surrogate_gap(dc.f, dc.g.grad(x), domain, x, L + 3.0)
    slack = rounding(x, 100, size_of(dc, domain, x))
    # ppm_gap's own proximal point is accurate to 1e-10 of the range of its objective.
    assert above >= (1.0 - rho / L) * ppm * (1.0 - 1e-6) - slack
    width = math.sqrt(2.0 * (above - below + slack) / (L - rho))
    mine = 0.5 * L * float(np.sum((x - prox) ** 2))
    assert abs(ppm - mine) <= L * width * (math.sqrt(2.0 * mine / L) + width) + 1e-6 * mine


def figure_1(step):
    """phi, its gradient, and the proximal points on figure 1's grid, all at once."""
    axis = np.arange(-1.0, 1.0 + 0.5 * step, step)
    x1, x2 = (a.ravel() for a in np.meshgrid(axis, axis))
    X = np.stack([x1, x2])
    pi, L = np.pi, np.pi**2

    def value(X):
        return np.sin(pi * X[0]) * np.cos(pi * X[1])

    def grad(X):
        return pi * np.stack([np.cos(pi * X[0]) * np.cos(pi * X[1]), -np.sin(pi * X[0]) * np.sin(pi * X[1])])

    # Accelerated projected gradients on phi(y) + L/2 ||y - x||^2, which is 2L-smooth and convex.
    Y, Z, momentum = X.copy(), X.copy(), np.ones(X.shape[1])
    for _ in range(1500):
        new = np.clip(Z - (grad(Z) + L * (Z - X)) / (2.0 * L), -1.0, 1.0)
        uphill = ((Z - new) * (new - Y)).sum(0) > 0.0
        following = np.where(uphill, 1.0, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)))
        Z = new + np.where(uphill, 0.0, (momentum - 1.0) / following) * (new - Y)
        Y, momentum = new, following
    return X, Y, value, grad, L


def test_the_published_inequality_with_the_proximal_point_measure_fails_on_figure_1():
    # gap_DC >= gap_PPM is what the paper states.  It needs a convex phi; with rho = L, as here, nothing but
    # gap_DC >= 0 is left of it.
    X, prox, value, grad, L = figure_1(step=0.05)
    ppm = 0.5 * L * ((X - prox) ** 2).sum(0)
    dc_gap = value(X) - value(prox) - ppm
    assert dc_gap.min() >= -1e-12
    violated = dc_gap < ppm - 1e-6
    assert 0.25 <= violated.mean() <= 0.45  # "a third of the grid points"
    assert (ppm - dc_gap).max() > 0.1  # by far more than rounding
    # The library's own measures say the same at some of those points.
    phi = functions.Smooth(lambda x: float(value(x)), grad, lipschitz=L)
    square = sets.LInfBall(2)
    worst = np.argsort(dc_gap - ppm)[:: violated.sum() // 4][:3]
    for i in worst:
        own = gaps.ppm_gap(phi, square, X[:, i], L)
        interval = gaps.dc_gap(splits.proximal(phi, L), square, X[:, i], accuracy=1e-3)
        assert own == pytest.approx(ppm[i], rel=1e-4)
        assert interval.low - 1e-9 <= dc_gap[i] <= interval.high + 1e-9
        assert interval.high < own


def test_the_sliding_inequality_holds_on_figure_1():
    X, _, _, gradient, L = figure_1(step=0.05)
    grad = gradient(X)
    Y = np.clip(X - grad / L, -1.0, 1.0)
    pgm = 0.5 * L * ((X - Y) ** 2).sum(0)
    dc_gap = (grad * (X - Y)).sum(0) - pgm
    assert (dc_gap - pgm).min() >= -1e-13


def test_the_reference_agrees_with_a_conic_solver():
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(5)
    A, b = symmetric(rng, 4, 0.0, 3.0), rng.standard_normal(4)
    y = cvxpy.Variable(4)
    quadratic = 0.5 * cvxpy.quad_form(y, cvxpy.psd_wrap(A)) + b @ y
    constraints = {
        "simplex": [y >= 0, cvxpy.sum(y) == 1.5],
        "l1": [cvxpy.norm1(y) <= 1],
        "l2": [cvxpy.norm2(y) <= 2],
        "k-sparse": [cvxpy.norm1(y) <= 2, cvxpy.norm_inf(y) <= 1],
    }
    for name, constraint in constraints.items():
        best = cvxpy.Problem(cvxpy.Minimize(quadratic), constraint).solve(solver=cvxpy.CLARABEL)
        f, domain = functions.Quadratic(A, b), SETS[name]
        point, gap = minimise_convex(f.value, f.grad, 3.0, domain, domain.start(), 1e-10)
        assert gap <= 1e-10
        assert f.value(point) == pytest.approx(best, abs=1e-6)
