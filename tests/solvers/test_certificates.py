"""The interval that a run reports for gap_DC contains it: on every row, for every way a run may end."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from dcfw import Status, functions, gaps, minimize, sets, splits
from dcfw.sets.atoms import Dense
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.run import Goal, Run
from dcfw.steps import OpenLoop
from reference_gaps import rounding, size_of, surrogate_gap, symmetric, trace

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.sampled_from(["exact", "short", "open-loop", "backtracking"])
TOLERANCES = st.sampled_from(["adaptive", "progress", 0.2, 0.01])
BUDGETS = st.sampled_from(
    [
        {"max_inner": 1},
        {"max_inner": 2},
        {"max_inner": 3},
        {"max_lmo": 1},
        {"max_lmo": 2},
        {"max_lmo": 7},
        {"max_lmo": 200},
        {"maxiter": 0},
        {"maxiter": 1, "max_lmo": 200},
    ]
)
SETS = {
    "simplex": sets.Simplex(3, radius=2.0),
    "l1": sets.L1Ball(3),
    "l2": sets.L2Ball(3),
    "box": sets.Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5]),
    "k-sparse": sets.KSparse(4, k=2),
    "birkhoff": sets.Birkhoff(3),
    "nuclear": sets.NuclearBall((2, 2)),
}


def assert_certified(res, iterates, bounds, slack):
    """``bounds(x)`` returns (low, high) around the true gap_DC(x); every interval must agree with it."""
    rows = zip(iterates, res.history["dc_low"], res.history["dc_high"], res.history["gap"], strict=True)
    for t, (x, low, high, fw_gap) in enumerate(rows):
        below, above = bounds(x)
        assert 0.0 <= low <= high <= fw_gap
        assert low <= above + slack, t
        assert high >= below - slack, t
    low, high = res.dc_gap
    t = list(res.history["nit"]).index(res.dc_gap_nit)
    # The reported interval is that of a row, the one with the least upper end.
    assert (low, high) == (res.history["dc_low"][t], res.history["dc_high"][t])
    assert high == res.history["dc_high"].min()


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=10)
@given(seed=SEEDS, step=STEPS, tolerance=TOLERANCES, budget=BUDGETS)
def test_every_interval_contains_the_dc_gap_for_quadratics(name, seed, step, tolerance, budget):
    rng = np.random.default_rng(seed)
    domain = SETS[name] if name != "birkhoff" else sets.Birkhoff(3)
    n = math.prod(domain.shape)
    f = functions.Quadratic(symmetric(rng, n, rng.choice([0.0, 1.0]), 2.0), rng.standard_normal(n))
    dc = f - functions.Quadratic(symmetric(rng, n, 0.0, 3.0), rng.standard_normal(n))
    x0 = domain.random(rng)
    settings_ = {"tol": 1e-3, "maxiter": 6, "max_lmo": 60, **budget}
    res, iterates = trace(minimize, dc, domain, x0, step=step, tolerance=tolerance, **settings_)

    def bounds(x):
        if name == "birkhoff":
            return dense_birkhoff_gap(f, dc.g.grad(x), x)
        return surrogate_gap(f, dc.g.grad(x), domain, x, 2.0, accuracy=1e-8)[:2]

    assert_certified(res, iterates, bounds, rounding(x0, res.n_inner, size_of(dc, domain, x0)))


def dense_birkhoff_gap(f, u, x):
    """gap_DC on the 3 x 3 Birkhoff polytope, written as the hull of its 6 corners (no projection there)."""
    corners = np.array([np.eye(3)[list(p)].ravel() for p in PERMUTATIONS])
    weights, error = hull_minimiser(corners, f, u)
    y = (weights @ corners).reshape(3, 3)
    low = f.value(x) - f.value(y) - float(np.vdot(u, x - y))
    return low, low + error


PERMUTATIONS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


def hull_minimiser(corners, f, u):
    """Minimise f - <u, .> over convex combinations of corners: projected gradients on the weights."""
    simplex = sets.Simplex(len(corners))
    smooth = 2.0 * np.linalg.norm(corners @ corners.T, 2)
    weights = np.full(len(corners), 1.0 / len(corners))
    previous = weights
    for k in range(20_000):
        ahead = weights + (k / (k + 3.0)) * (weights - previous)
        G = corners @ (f.grad((ahead @ corners).reshape(3, 3)) - u).ravel()
        previous, weights = weights, simplex.project(ahead - G / smooth)
        if k % 50 == 0:
            G = corners @ (f.grad((weights @ corners).reshape(3, 3)) - u).ravel()
            error = float(weights @ G - G.min())
            if error <= 1e-7:
                break
    return weights, max(error, 0.0)


@given(seed=SEEDS, step=STEPS, tolerance=TOLERANCES, budget=BUDGETS)
def test_every_interval_contains_the_dc_gap_for_a_smooth_f_that_is_not_quadratic(
    seed, step, tolerance, budget
):
    rng = np.random.default_rng(seed)
    domain = sets.L1Ball(3, radius=2.0)
    f = functions.LogSumExp(rng.standard_normal((5, 3)), rng.standard_normal(5), temperature=0.5)
    dc = f - functions.SquaredNorm(float(rng.uniform(0.1, 1.0)))
    x0 = domain.random(rng)
    settings_ = {"tol": 1e-3, "maxiter": 5, "max_lmo": 40, **budget}
    res, iterates = trace(minimize, dc, domain, x0, step=step, tolerance=tolerance, **settings_)

    def bounds(x):
        return surrogate_gap(f, dc.g.grad(x), domain, x, f.lipschitz, accuracy=1e-7)[:2]

    assert_certified(res, iterates, bounds, rounding(x0, res.n_inner, size_of(dc, domain, x0)))


# -- g with kinks: gap_DC(x) = max_y f(x) - f(y) - g'(x; x - y), where g' is the directional derivative -


def box_l1_gap(weights, b, scale, radius, x):
    """gap_DC for f = sum w_i/2 y_i^2 + b_i y_i, g = scale ||.||_1 on a box, coordinate by coordinate.

    Where x_i = 0, g' is scale |y_i|, which adds to the cost of leaving 0; elsewhere it is linear.
    """

    def part(w, b_i, at):
        u = scale * np.sign(at)
        # minimise w/2 y^2 + (b - u) y (+ scale |y| at a kink) over [-radius, radius]
        slope = b_i - u
        if at == 0.0:
            y = -np.sign(slope) * max(abs(slope) - scale, 0.0) / w
        else:
            y = -slope / w
        y = min(max(y, -radius), radius)

        def cost(y):
            return 0.5 * w * y * y + slope * y + (scale * abs(y) if at == 0.0 else 0.0)

        return cost(at) - cost(y)

    return sum(part(w, b_i, at) for w, b_i, at in zip(weights, b, x, strict=True))


@given(seed=SEEDS, zeros=st.integers(0, 3), step=STEPS, tolerance=TOLERANCES, budget=BUDGETS)
def test_intervals_contain_the_dc_gap_at_kinks_of_the_l1_norm(seed, zeros, step, tolerance, budget):
    rng = np.random.default_rng(seed)
    weights, b, scale = rng.uniform(0.5, 3.0, 3), rng.standard_normal(3), float(rng.uniform(0.1, 1.5))
    domain = sets.LInfBall(3, radius=0.8)
    dc = functions.Quadratic(np.diag(weights), b, convex=True) - functions.L1Norm(scale)
    x0 = rng.uniform(-0.8, 0.8, 3)
    x0[:zeros] = 0.0
    settings_ = {"tol": 1e-3, "maxiter": 5, "max_lmo": 40, **budget}
    res, iterates = trace(minimize, dc, domain, x0, step=step, tolerance=tolerance, **settings_)

    def bounds(x):
        truth = box_l1_gap(weights, b, scale, 0.8, x)
        return truth, truth

    assert_certified(res, iterates, bounds, rounding(x0, res.n_inner, size_of(dc, domain, x0)))
    if zeros:
        assert res.history["dc_low"][0] == 0.0
    interval = gaps.dc_gap(dc, domain, x0, accuracy=1e-2)
    slack = rounding(x0, 1000, size_of(dc, domain, x0))
    assert interval.low - slack <= bounds(x0)[0] <= interval.high + slack


def test_the_decrease_of_one_surrogate_is_not_a_lower_bound_at_a_kink():
    # The trap: at x = 0 the surrogate of u = 0 can decrease although x is critical for another u.
    dc = functions.Quadratic(np.eye(2), np.array([0.5, -0.3])) - functions.L1Norm(1.0)
    domain, x0 = sets.LInfBall(2), np.zeros(2)
    res, _ = trace(minimize, dc, domain, x0, tol=0.0, tolerance=1e-3, maxiter=1)
    assert box_l1_gap([1.0, 1.0], [0.5, -0.3], 1.0, 1.0, x0) == 0.0
    assert res.history["dc_low"][0] == 0.0
    assert res.history["dc_high"][0] == pytest.approx(0.17, abs=1e-3)  # 1/2 (0.5^2 + 0.3^2)


def directional_nuclear(cvxpy, X, Y):
    """g'(X; X - Y) for the nuclear norm g, as a convex expression in Y."""
    U, sigma, Vt = np.linalg.svd(X)
    rank = int((sigma > 1e-10 * max(sigma[0], 1e-300)).sum()) if sigma[0] > 0 else 0
    total = cvxpy.sum(cvxpy.multiply(U[:, :rank] @ Vt[:rank], X - Y)) if rank else 0.0
    if rank < min(X.shape):
        total = total + cvxpy.normNuc(U[:, rank:].T @ (X - Y) @ Vt[rank:].T)
    return total


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_intervals_contain_the_dc_gap_of_a_nuclear_norm_at_low_rank(rank, complete):
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(rank)
    target = rng.standard_normal((3, 2))
    f = functions.Quadratic(np.eye(6), -target.ravel(), convex=True)
    dc = f - functions.NuclearNorm(0.6, complete=complete)
    domain = sets.SpectralBall((3, 2))
    U, _, Vt = np.linalg.svd(rng.standard_normal((3, 2)), full_matrices=False)
    x0 = (U[:, :rank] * 0.5) @ Vt[:rank]
    res, iterates = trace(minimize, dc, domain, x0, tol=1e-3, maxiter=2, max_lmo=100)

    def bounds(X):
        Y = cvxpy.Variable((3, 2))
        cost = 0.5 * cvxpy.sum_squares(Y - target) + 0.6 * directional_nuclear(cvxpy, X, Y)
        problem = cvxpy.Problem(cvxpy.Minimize(cost), [cvxpy.sigma_max(Y) <= 1])
        best = problem.solve(solver=cvxpy.CLARABEL)
        truth = 0.5 * float(((X - target) ** 2).sum()) - best
        return truth - 1e-6, truth + 1e-6  # the conic solver's accuracy

    slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
    assert_certified(res, iterates, bounds, slack)
    if rank < 2:
        assert res.history["dc_low"][0] == 0.0
    else:
        assert res.history["dc_low"][0] > 0.0


# -- nonsmooth splits -----------------------------------------------------------------------------------


@given(seed=SEEDS, zeros=st.integers(0, 2), step=STEPS, budget=BUDGETS, sliding=st.booleans())
def test_intervals_contain_the_dc_gap_for_splits_of_p_minus_q(seed, zeros, step, budget, sliding):
    # p smooth and nonconvex, q = scale ||.||_1.  In coordinates: sliding has f = L/2 y^2 and the slope of
    # g at x is L x - p'(x) + q'; proximal keeps p's curvature (p diagonal, so that it separates).
    rng = np.random.default_rng(seed)
    diagonal, c, scale = rng.uniform(-2.0, 2.0, 3), rng.standard_normal(3), float(rng.uniform(0.1, 1.0))
    L = 2.5
    phi = functions.Quadratic(np.diag(diagonal), c) - functions.L1Norm(scale)
    domain = sets.LInfBall(3, radius=0.7)
    dc = splits.sliding(phi, L) if sliding else splits.proximal(phi, L)
    x0 = rng.uniform(-0.7, 0.7, 3)
    x0[:zeros] = 0.0
    settings_ = {"tol": 1e-3, "maxiter": 5, "max_lmo": 40, **budget}
    res, iterates = trace(minimize, dc, domain, x0, step=step, **settings_)

    def bounds(x):
        if sliding:
            weights, b = np.full(3, L), diagonal * x + c - L * x
        else:
            weights, b = diagonal + L, c - L * x
        truth = box_l1_gap(weights, b, scale, 0.7, x)
        return truth, truth

    assert_certified(res, iterates, bounds, rounding(x0, res.n_inner, size_of(dc, domain, x0), L))
    if zeros:
        assert res.history["dc_low"][0] == 0.0


def minimum_of_two(rng):
    """phi = min of two quadratics with curvature at most 2, and all gradients that attain the minimum."""
    pieces = [functions.Quadratic(symmetric(rng, 2, -1.0, 2.0), rng.standard_normal(2)) for _ in range(2)]

    def active(x, width=1e-9):
        values = [piece.value(x) for piece in pieces]
        return [piece.grad(x) for piece, v in zip(pieces, values, strict=True) if v <= min(values) + width]

    phi = functions.WeaklyConcave(
        lambda x: min(piece.value(x) for piece in pieces), lambda x: active(x, 0.0)[0], modulus=2.0
    )
    return pieces, phi, active


@given(seed=SEEDS, tie=st.booleans(), step=STEPS, budget=BUDGETS)
def test_intervals_contain_the_dc_gap_for_a_minimum_of_smooth_functions(seed, tie, step, budget):
    rng = np.random.default_rng(seed)
    pieces, phi, active = minimum_of_two(rng)
    domain = sets.LInfBall(2)
    x0 = rng.uniform(-1.0, 1.0, 2)
    if tie:
        # Shift one piece so that both attain the minimum at x0: g has a whole segment of subgradients there.
        pieces[1] = functions.Quadratic(pieces[1].A, pieces[1].b, pieces[0].value(x0) - pieces[1].value(x0))
    dc = splits.sliding(phi)
    settings_ = {"tol": 1e-3, "maxiter": 5, "max_lmo": 40, **budget}
    res, iterates = trace(minimize, dc, domain, x0, step=step, **settings_)

    def truth(x):
        # gap_DC is the least, over the segment of active gradients G, of max_y <G, x - y> - ||x - y||^2; the
        # maximiser there is the projection of x - G/2.  As a maximum of linear functions it is convex in G.
        def gap(G):
            y = np.clip(x - 0.5 * G, -1.0, 1.0)
            return float(G @ (x - y) - (x - y) @ (x - y))

        gradients = active(x)
        return least(lambda s: gap((1.0 - s) * gradients[0] + s * gradients[-1]))

    slack = rounding(x0, res.n_inner, size_of(dc, domain, x0), 1.0)
    for x, low, high in zip(iterates, res.history["dc_low"], res.history["dc_high"], strict=True):
        assert low <= truth(x) + slack
        assert high >= truth(x) - slack
    assert res.fun == pytest.approx(phi.value(res.x))


def least(function):
    """Return the least value of a convex function on [0, 1], by ternary search."""
    low, high = 0.0, 1.0
    for _ in range(100):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        if function(a) <= function(b):
            high = b
        else:
            low = a
    return min(function(low), function(high), function(0.0), function(1.0))


# -- how good the bounds are ----------------------------------------------------------------------------


def test_the_upper_end_is_the_best_over_all_inner_steps_and_not_that_of_the_last():
    # Open-loop steps go up and down, so the last step's bound need not be the best one.
    rng = np.random.default_rng(0)
    domain = sets.L1Ball(3)
    f = functions.Quadratic(symmetric(rng, 3, 0.5, 2.0), convex=True)
    u, x = 0.4 * rng.standard_normal(3), domain.random(rng)
    limits = {"maxiter": 0, "max_inner": 1, "max_lmo": None, "time_limit": None}
    run = Run(f, domain.oracle(), x, goal=Goal(0.0, 0.0), **limits)
    bounds = []
    for X in frank_wolfe(run, f, x, f.grad(x), OpenLoop().bind(f, domain), linear=u):
        gained = f.value(x) - f.value(X.x) - float(u @ (x - X.x))
        bounds.append(gained + X.gap)
        slack = rounding(x, X.k, f.value(x), float(np.linalg.norm(u)))
        low, high = X.certificate()
        assert low == pytest.approx(gained, abs=slack)
        assert high == pytest.approx(min(bounds), abs=slack)
        if X.k == 30:
            break
    # So that the two differ:
    assert (np.array(bounds) > np.minimum.accumulate(bounds) + 1e-6).sum() >= 5


# -- inexact oracles ------------------------------------------------------------------------------------


class RoughCube(sets.LInfBall):
    """A cube whose oracle answers with a point on the way to the best corner and says how far off it is."""

    def __init__(self, n, quality):
        super().__init__(n)
        self.quality = quality

    def oracle(self):
        return RoughOracle(self)


class RoughOracle(sets.Oracle):
    def __init__(self, domain):
        super().__init__(domain)
        self.quality = domain.quality

    def __call__(self, G):
        self.error = (1.0 - self.quality) * float(abs(G).sum())
        return Dense(self.quality * super().__call__(G).dense())


@given(seed=SEEDS, quality=st.sampled_from([0.999, 0.9, 0.5]), step=STEPS, smooth=st.booleans())
def test_an_inexact_oracle_widens_the_interval_and_never_breaks_it(seed, quality, step, smooth):
    rng = np.random.default_rng(seed)
    if smooth:
        f = functions.LogSumExp(rng.standard_normal((5, 3)), temperature=0.5)
    else:
        f = functions.Quadratic(symmetric(rng, 3, 0.0, 3.0), rng.standard_normal(3), convex=True)
    dc = f - functions.Quadratic(symmetric(rng, 3, 0.0, 2.0))
    rough, exact = RoughCube(3, quality), sets.LInfBall(3)
    x0 = exact.random(rng)
    res, iterates = trace(minimize, dc, rough, x0, step=step, maxiter=5, max_lmo=60)

    def bounds(x):
        return surrogate_gap(f, dc.g.grad(x), exact, x, f.lipschitz, accuracy=1e-8)[:2]

    slack = rounding(x0, res.n_inner, size_of(dc, exact, x0))
    assert_certified(res, iterates, bounds, slack)
    # The gap at x includes what the oracle may have missed: it is an upper bound of the true FW gap.
    for x, gap in zip(iterates, res.history["gap"], strict=True):
        assert gap >= gaps.fw_gap(dc, exact, x) - slack


# -- f that is not convex -------------------------------------------------------------------------------


def test_nothing_is_certified_when_f_turns_out_not_to_be_convex():
    f = functions.Quadratic(np.diag([1.0, -4.0]), convex=True)  # which is not true
    dc = f - functions.SquaredNorm(0.1)
    domain, x0 = sets.LInfBall(2), np.array([0.2, 0.1])
    res = minimize(dc, domain, x0)
    assert res.status is Status.NOT_CONVEX
    assert res.dc_gap == (0.0, math.inf)
    assert (res.history["dc_low"] == 0.0).all()
    assert (res.history["dc_high"] == math.inf).all()
    with pytest.raises(ValueError, match="is not convex"):
        gaps.dc_gap(dc, domain, x0)


class Kinked(functions.Function):
    """A user's l1 norm that does not say whether it has kinks."""

    convex = True

    def value(self, x):
        return float(abs(x).sum())

    def grad(self, x):
        return np.where(x >= 0.0, 1.0, -1.0)


class Stranger:
    """The same without our base class."""

    value, grad, convex = Kinked.value, Kinked.grad, True


@pytest.mark.parametrize("g", [Kinked(), Stranger()])
def test_the_lower_end_is_zero_where_nobody_says_that_g_has_no_kinks(g):
    f = functions.Quadratic(np.eye(3), np.ones(3))
    res = minimize(f - 1.5 * functions.as_function(g), sets.Box(-1.0, 1.0, 3), np.zeros(3), maxiter=3)
    assert set(res.history["dc_low"]) == {0.0}


def test_a_stage_before_the_split_does_not_change_which_constant_the_condition_names():
    rng = np.random.default_rng(0)
    seen = 0
    for seed in range(12):
        A = rng.standard_normal((12, 12))
        A = A + A.T + 6.0 * np.eye(12)  # minimisers are not vertices
        phi = functions.Smooth(lambda x, A=A: float(0.5 * x @ A @ x), lambda x, A=A: A @ x)
        res = minimize(phi, sets.Simplex(12), sets.Simplex(12).random(seed), inner="fw", max_lmo=300)
        used = res.get("L_history") or []
        step = res.dc_gap_nit - (res.nit - len(used))
        if 0 <= step < len(used):
            seen += 1
            assert f"L = {used[step]:.6g}" in res.conditional
    assert seen


def test_ctrl_c_does_not_bring_a_void_certificate_back(monkeypatch):
    told = Run._last_value

    def pressed(run, x):
        run._interrupted = True
        return told(run, x)

    monkeypatch.setattr(Run, "_last_value", pressed)
    f = functions.Quadratic(np.diag([1.0, -4.0]), convex=True)  # which is not true
    res = minimize(f - functions.SquaredNorm(0.1), sets.LInfBall(2), np.array([0.2, 0.1]))
    assert res.status is Status.INTERRUPTED
    assert res.dc_gap == (0.0, math.inf)


@pytest.mark.parametrize("differentiable", [True, False])
def test_a_g_that_is_not_convex_is_noticed_when_the_run_meets_it(differentiable):
    B = np.diag([1.0, 4.0, 9.0])
    concave = functions.Convex(lambda x: -0.5 * x @ B @ x, lambda x: -B @ x, differentiable)
    res = minimize(functions.SquaredNorm(1.0) - concave, sets.Simplex(3))
    assert res.status is Status.NOT_CONVEX
    assert "tangent of g" in res.message
    assert res.dc_gap == (0.0, math.inf)


def test_a_certificate_rests_on_the_users_word_where_nothing_else_says_that_the_parts_are_convex():
    f = functions.Smooth(lambda x: x @ x, lambda x: 2.0 * x, lipschitz=2.0, convex=True)
    g = functions.Convex(lambda x: abs(x).max(), lambda x: np.sign(x) * (abs(x) == abs(x).max()))
    known = functions.SquaredNorm(2.0)
    for objective, said in (
        (f - g, "f and g are convex, as stated"),
        (known - g, "g is convex, as stated"),
        (f + known - 0.5 * known, "f is convex, as stated"),
        (known - functions.SquaredNorm(1.0), ""),
    ):
        assert minimize(objective, sets.Simplex(3), maxiter=3).conditional == said


class ClaimsToBeQuadratic(functions.Function):
    """An indefinite quadratic that says it is convex."""

    convex = True
    affine_grad = True

    def value(self, x):
        return float(0.5 * x[0] ** 2 - x[0] - 25.0 * x[1] ** 2)

    def grad(self, x):
        return np.array([x[0] - 1.0, -50.0 * x[1]])


SQUARE = functions.SquaredNorm(1e-3)


@pytest.mark.parametrize("method", ["auto", "dcfw", "fw-m", "boosted"])
@pytest.mark.parametrize(
    "f", [ClaimsToBeQuadratic(), 2 * ClaimsToBeQuadratic(), ClaimsToBeQuadratic() + SQUARE]
)
def test_a_users_affine_gradient_does_not_make_a_part_known_to_be_convex(f, method):
    res = minimize(f - SQUARE, sets.L1Ball(2), [0.5, 0.0], method=method)
    assert res.conditional == "f is convex, as stated"


def test_an_affine_gradient_that_a_split_rests_on_is_named_by_its_condition():
    class Silent(ClaimsToBeQuadratic):
        convex = None

    phi, ball = Silent(), sets.L1Ball(2)
    assert "affine, as stated" in splits.spectral(phi, ball).conditional
    assert "affine, as stated" in minimize(phi, ball, [0.5, 0.0], method="dcfw").conditional
    assert "affine, as stated" in minimize(phi, sets.LInfBall(2), method="graduated").conditional
    assert minimize(phi - SQUARE, ball, [0.5, 0.0]).conditional == "f is convex, which was not stated"
    assert minimize(splits.proximal(ClaimsToBeQuadratic()), ball, [0.5, 0.0]).conditional


def test_users_blocks_are_convex_as_stated_only():
    domain = sets.Product([sets.L1Ball(1)] * 2)
    res = minimize(ClaimsToBeQuadratic() - SQUARE, domain, [0.5, 0.0], method="block")
    assert res.conditional == "f is convex, as stated"


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, aslinearoperator])
def test_a_quadratic_too_large_for_its_eigenvalues_is_convex_on_condition_only(kind):
    d, e = np.ones(600), np.eye(600)[0]
    d[1] = -50.0
    large, ball = functions.Quadratic(kind(np.diag(d)), -e), sets.L1Ball(600)
    assert minimize(large - SQUARE, ball, 0.5 * e).conditional == (
        "f is convex, which was neither stated nor computed"
    )
    both = functions.SquaredNorm(60.0) - (large + functions.L1Norm())
    assert "g is convex" in minimize(both, ball, 0.5 * e, maxiter=1).conditional
    whole = functions.Quadratic(kind(np.eye(600)))
    assert minimize(splits.spectral(whole, ball), ball).conditional == ""  # these were computed


def test_a_sum_of_computed_and_known_terms_is_known_to_be_convex():
    curved = functions.Quadratic(0.5 * np.eye(2))
    norm, ball = functions.L1Norm(), sets.L1Ball(2)
    for g in (curved + norm, 2 * (curved + norm), curved + norm + SQUARE):
        assert minimize(functions.SquaredNorm() - g, ball).conditional == ""
    bent = functions.Quadratic(np.diag([1.0, -1e-4])) + norm
    assert "which was not stated" in minimize(functions.SquaredNorm() - bent, ball).conditional


@pytest.mark.parametrize("method", ["fw", "cgs", "dcfw"])
def test_methods_without_a_split_certify_the_dc_gap_of_convex_parts_only(method):
    f, ball = functions.Quadratic(np.diag([1.0, -50.0]), [-1.0, 0.0]), sets.L1Ball(2)
    res = minimize(f - SQUARE, ball, [0.5, 0.0], method=method)
    assert res.dc_gap == (0.0, math.inf)
    assert "nothing is certified" in res.message
    assert res.gap < math.inf
    if method == "fw":
        res = minimize(ClaimsToBeQuadratic() - SQUARE, ball, [0.5, 0.0], method=method)
        assert res.conditional == "f is convex, as stated"
        assert minimize(f, ball, [0.5, 0.0], method=method).dc_gap[1] < math.inf
