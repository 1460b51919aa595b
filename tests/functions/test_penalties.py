"""DC penalties are what they say: f - g is the penalty, both parts are convex, lifting changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

import dcfw
from dcfw import functions, sets, splits
from dcfw.functions.penalties import Composite
from dcfw.sets.epigraph import Epigraph

LAM = 0.7
PENALTIES = {
    "l1 - l2": lambda spectral=False: functions.L1MinusL2(LAM, spectral=spectral),
    "capped l1": lambda spectral=False: functions.CappedL1(LAM, theta=0.8, spectral=spectral),
    "scad": lambda spectral=False: functions.SCAD(LAM, a=3.2, spectral=spectral),
    "mcp": lambda spectral=False: functions.MCP(LAM, gamma=1.7, spectral=spectral),
}
SMOOTH_G = ("scad", "mcp")
every_penalty = pytest.mark.parametrize("name", PENALTIES)
points = st.lists(st.floats(-5.0, 5.0), min_size=6, max_size=6).map(np.array)


def textbook(name, x):
    """The penalties as the papers define them, entry by entry."""
    t = np.abs(x)
    if name == "l1 - l2":
        return LAM * (t.sum() - np.sqrt((t**2).sum()))
    if name == "capped l1":
        return LAM * np.minimum(t, 0.8).sum()
    if name == "scad":  # the integral of its derivative, by a fine sum
        slopes = [
            np.trapezoid(np.clip((3.2 * LAM - s) / 2.2, 0.0, LAM), s)
            for s in (np.linspace(0, v, 20_001) for v in t)
        ]
        return sum(slopes)
    slopes = [np.trapezoid(np.maximum(LAM - s / 1.7, 0.0), s) for s in (np.linspace(0, v, 20_001) for v in t)]
    return sum(slopes)


@every_penalty
@settings(max_examples=15)
@given(x=points)
def test_f_minus_g_and_the_value_are_the_textbook_penalty(name, x):
    penalty = PENALTIES[name]()
    expected = textbook(name, x)
    assert penalty.f.value(x) - penalty.g.value(x) == pytest.approx(expected, abs=1e-6)
    assert penalty.value(x) == pytest.approx(expected, abs=1e-6)


@every_penalty
@pytest.mark.parametrize("spectral", [False, True])
@given(x=points, y=points)
def test_both_parts_are_convex_and_lie_above_their_linearisations(name, spectral, x, y):
    penalty = PENALTIES[name](spectral)
    if spectral:
        x, y = x.reshape(2, 3), y.reshape(2, 3)
    for part in (penalty.f, penalty.g):
        value, slope, _ = part.linearise(x)
        assert value == pytest.approx(part.value(x), abs=1e-12)
        assert part.value(y) >= value + np.vdot(slope, y - x) - 1e-9
        assert part.value(0.5 * (x + y)) <= 0.5 * (part.value(x) + part.value(y)) + 1e-9


@every_penalty
@pytest.mark.parametrize("spectral", [False, True])
def test_gradients_are_the_finite_differences(name, spectral):
    rng = np.random.default_rng(3)
    penalty = PENALTIES[name](spectral)
    for _ in range(10):
        x, d = rng.normal(0.0, 2.0, (2, 3, 4))
        for function in (penalty, penalty.g):
            h = 1e-6
            slope = (function.value(x + h * d) - function.value(x - h * d)) / (2 * h)
            assert np.vdot(function.grad(x), d) == pytest.approx(slope, abs=2e-6)


@every_penalty
def test_the_spectral_penalty_is_that_of_the_singular_values(name):
    X = np.random.default_rng(0).normal(0.0, 1.5, (4, 3))
    sigma = np.linalg.svd(X, compute_uv=False)
    assert PENALTIES[name](True).value(X) == pytest.approx(PENALTIES[name]().value(sigma), abs=1e-12)


@pytest.mark.parametrize("name", SMOOTH_G)
@given(x=points, y=points)
def test_the_gradient_of_a_smooth_g_has_its_lipschitz_constant(name, x, y):
    g = PENALTIES[name]().g
    assert g.differentiable
    assert np.linalg.norm(g.grad(x) - g.grad(y)) <= g.lipschitz * np.linalg.norm(x - y) + 1e-12


def test_kinks_of_g_are_reported():
    g = functions.CappedL1(1.0, theta=0.5).g
    assert not g.differentiable
    assert not g.linearise(np.array([0.5, 2.0])).unique
    assert g.linearise(np.array([0.4, 2.0])).unique


def test_operators_keep_the_value():
    loss, square = functions.LeastSquares(np.eye(3), np.ones(3)), functions.SquaredNorm(0.1)
    mcp, scad = functions.MCP(0.3), functions.SCAD(0.2)
    x = np.array([0.4, -2.0, 0.0])
    total = loss.value(x) + 2.0 * mcp.value(x) + scad.value(x) - square.value(x)
    for phi in (
        loss + 2.0 * mcp + scad - square,
        (loss - square) + 2.0 * mcp + scad,
        scad + (2.0 * mcp + loss) - square,
        sum([loss, mcp, scad, mcp]) - square,
    ):
        assert isinstance(phi, Composite)
        assert phi.value(x) == pytest.approx(total)
        assert phi.norm.scale == pytest.approx(0.8)


@every_penalty
@pytest.mark.parametrize("ball", [sets.L1Ball((3, 4), 6.0), sets.NuclearBall((3, 4), 6.0)], ids=repr)
def test_lifting_keeps_values_and_directional_derivatives(name, ball):
    phi = functions.SquaredNorm(2.0) + PENALTIES[name](isinstance(ball, sets.NuclearBall))
    lifted, domain = functions.lift(phi, ball)
    rng = np.random.default_rng(1)
    x = 0.5 * ball.random(rng)
    z = domain.lift(x)
    assert domain.contains(z)
    np.testing.assert_array_equal(domain.point(z), x)
    assert lifted.value(z) == pytest.approx(phi.value(x))
    assert lifted.f.differentiable
    d = rng.standard_normal(z.shape)
    slope = (lifted.value(z + 1e-6 * d) - lifted.value(z - 1e-6 * d)) / 2e-6
    assert lifted.grad(z) @ d == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize(
    "ball",
    [sets.L1Ball(4, 2.0), sets.NuclearBall((2, 3), 2.0), sets.L2Ball(3, 0.5), sets.LInfBall(3)],
    ids=repr,
)
@given(seed=st.integers(0, 10**6))
def test_the_epigraph_oracle_is_no_worse_than_any_point_of_the_epigraph(ball, seed):
    rng = np.random.default_rng(seed)
    domain = Epigraph(ball)
    G = rng.standard_normal(domain.shape) * rng.choice([0.1, 1.0, 10.0], domain.shape)
    s = domain.lmo(G)
    assert domain.contains(s)
    for _ in range(20):
        x = ball.random(rng) * rng.random()
        norm = domain.lift(x)[-1]
        z = domain.lift(x, rng.uniform(norm, ball.radius))
        assert domain.contains(z)
        assert G @ s <= G @ z + 1e-9
        assert np.linalg.norm(s - z) <= domain.diameter + 1e-9
    assert not domain.contains(domain.lift(x, 0.9 * norm - 1e-3))
    assert not domain.contains(domain.lift(x, 1.1 * ball.radius))


@pytest.mark.parametrize("name", ["capped l1", "scad", "mcp"])
@pytest.mark.parametrize("inner", ["fw", "blended"])
def test_a_separable_problem_is_solved_entry_by_entry(name, inner):
    """On a large enough ball the lifted problem falls apart into scalar ones, which SciPy solves."""
    b = np.array([2.5, -0.4, 0.05])
    penalty = PENALTIES[name]()
    loss = functions.LeastSquares(2.0 * np.eye(3), 2.0 * b)  # convex enough for one minimiser an entry
    objective, domain = functions.lift(loss + penalty, sets.L1Ball(3, 10.0))
    res = dcfw.minimize(objective, domain, inner=inner, tol=1e-7, maxiter=3000)
    for x, target in zip(domain.point(res.x), b, strict=True):
        scalar = minimize_scalar(
            lambda v, target=target: 2.0 * (v - target) ** 2 + penalty.value(np.array([v])),
            bounds=sorted((0.0, target)),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert x == pytest.approx(scalar.x, abs=5e-4)
    assert res.x[-1] == pytest.approx(np.abs(domain.point(res.x)).sum(), abs=1e-4)  # t is the norm


def test_a_norm_is_lifted_over_balls_of_its_own_only():
    phi = functions.SquaredNorm() + functions.MCP(0.1)
    with pytest.raises(ValueError, match="L1Ball to lift"):
        functions.lift(phi, sets.L2Ball(3))
    with pytest.raises(ValueError, match="NuclearBall to lift"):
        functions.lift(functions.SquaredNorm() + functions.MCP(0.1, spectral=True), sets.L1Ball((2, 2)))
    with pytest.raises(TypeError, match="norm ball"):
        functions.lift(phi, sets.Simplex(3))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: functions.MCP(-1.0), "lam"),
        (lambda: functions.MCP(1.0, gamma=0.0), "gamma"),
        (lambda: functions.SCAD(1.0, a=1.0), "a must"),
        (lambda: functions.CappedL1(1.0, theta=-2.0), "theta"),
        (lambda: -1.0 * functions.MCP(1.0), "scale"),
        (lambda: functions.L1Norm() + functions.MCP(1.0) + functions.NuclearNorm(), "two different ones"),
        (lambda: functions.L2Norm() + functions.MCP(1.0), "differentiable"),
        (lambda: functions.MCP(1.0, spectral=True).value(np.ones(3)), "matrix"),
    ],
)
def test_bad_parameters_are_named(make, argument):
    with pytest.raises(ValueError, match=argument):
        make()


def test_a_loss_that_is_not_convex_is_refused():
    loss = functions.Quadratic(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"loss must be convex.*curvature -1.*with rho = 1"):
        functions.lift(loss + functions.MCP(0.1), sets.L1Ball(2))
    declared = functions.Quadratic(np.diag([1.0, -1.0]), convex=False)
    with pytest.raises(ValueError, match=r"declared not convex.*SquaredNorm\(rho\)"):
        declared + functions.MCP(0.1)
    with pytest.raises(ValueError, match="declared not convex"):
        functions.MCP(0.1) + (declared + functions.Zero())


def test_the_remedy_for_a_loss_that_is_not_convex_works():
    loss, rho, penalty = (
        functions.Quadratic(np.diag([1.0, -1.0])),
        functions.SquaredNorm(1.0),
        functions.MCP(0.1),
    )
    phi = loss + rho + penalty - rho
    objective, domain = functions.lift(phi, sets.L1Ball(2))
    res = dcfw.minimize(objective, domain, domain.lift(np.array([0.2, 0.3])))
    assert res.conditional == ""
    assert domain.point(res.x)[1] == pytest.approx(1.0)
    assert res.fun == pytest.approx(loss.value(domain.point(res.x)) + penalty.value(domain.point(res.x)))


def test_lifting_keeps_what_a_decomposition_rests_on():
    dc = functions.DC(functions.SquaredNorm(2.0), functions.SquaredNorm(0.5), conditional="L is large")
    for phi in (dc, dc + functions.MCP(0.1)):
        assert functions.lift(phi, sets.L1Ball(2))[0].conditional == "L is large"


def test_lifting_a_split_keeps_the_mark_of_a_stated_constant():
    smooth = functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=1.0)
    objective, domain = functions.lift(smooth, sets.L1Ball(2))
    assert "stated" in dcfw.minimize(splits.sliding(objective), domain).conditional


@pytest.mark.parametrize("norm", [functions.L1Norm(0.5), 0.25 * functions.L1Norm(2.0)])
def test_a_plain_lasso_is_lifted(norm):
    loss = functions.LeastSquares(np.eye(3), np.array([2.0, 0.3, -0.7]))
    objective, domain = functions.lift(loss + norm, sets.L1Ball(3, radius=5.0))
    res = dcfw.minimize(objective, domain, tol=1e-10)
    np.testing.assert_allclose(domain.point(res.x), [1.5, 0.0, -0.2], atol=1e-6)
    assert res.fun == pytest.approx((loss + norm).value(domain.point(res.x)))
    with pytest.raises(ValueError, match="ball must be a L1Ball"):
        functions.lift(loss + norm, sets.L2Ball(3))


def test_a_nuclear_norm_is_lifted_and_a_norm_alone_as_well():
    loss = functions.LeastSquares(np.eye(4), np.array([3.0, 0.0, 0.0, 1.0]))
    objective, domain = functions.lift(loss + functions.NuclearNorm(), sets.NuclearBall((2, 2), radius=9.0))
    res = dcfw.minimize(objective, domain, tol=1e-9)
    np.testing.assert_allclose(domain.point(res.x), np.diag([2.0, 0.0]), atol=1e-3)
    alone, domain = functions.lift(functions.L1Norm(), sets.L1Ball(2))
    assert dcfw.minimize(alone, domain).fun == 0.0


def test_two_different_norms_cannot_be_lifted_together():
    with pytest.raises(ValueError, match="two different ones"):
        functions.MCP(0.1) + functions.MCP(0.1, spectral=True)


@pytest.mark.parametrize("ball", [sets.L2Ball(2, radius=4.0), sets.NuclearBall((2, 2), radius=4.0)])
def test_integer_points_are_lifted_without_rounding_their_norm(ball):
    domain = Epigraph(ball)
    x = np.array([[1, 1], [1, 0]]) if len(ball.shape) == 2 else np.array([1, 1])
    z = domain.lift(x)
    assert z.dtype == np.float64
    assert z[-1] == pytest.approx(np.sqrt(5.0) if len(ball.shape) == 2 else np.sqrt(2.0))
    assert domain.violation(z) <= 1e-15
    assert domain.lift(x.astype(np.float32)).dtype == np.float32


PLACES = [
    sets.Simplex(3, radius=1.5),
    sets.Box(0.0, 2.0, 3),
    sets.Box([-2.0, 0.5, -1.0], [2.0, 2.0, 0.0]),
    sets.Polytope(A_ub=np.ones((1, 3)), b_ub=[2.0], bounds=(0.0, 1.5)),
    sets.Polytope(A_ub=np.vstack([np.eye(3), -np.eye(3), np.ones((1, 3))]), b_ub=[2, 2, 1, 1, 0.5, 2, 1]),
    sets.Polytope(A_eq=csr_array(np.array([[1.0, -1.0, 1.0]])), b_eq=[0.5], bounds=(-1.0, 2.0)),
    sets.L1Ball(3, radius=2.5),
    sets.L2Ball(3, radius=2.0),
    sets.LInfBall(3, radius=2.0),
]


@pytest.mark.parametrize("domain", PLACES, ids=repr)
@pytest.mark.parametrize(
    "penalty",
    [
        functions.L1Norm(0.4),
        functions.L1MinusL2(0.4),
        functions.MCP(0.4),
        functions.SCAD(0.4),
        functions.CappedL1(0.4),
    ],
    ids=repr,
)
def test_a_penalty_is_minimised_over_any_set_in_the_users_own_variables(domain, penalty):
    phi = functions.LeastSquares(np.eye(3), np.array([1.2, 0.3, -0.8])) + penalty
    seen = []
    x0 = np.asarray(domain.random(1))
    res = dcfw.minimize(
        phi, domain, x0, tol=1e-3, callback=lambda intermediate_result: seen.append(intermediate_result.x)
    )
    assert res.success
    assert res.x.shape == seen[0].shape == domain.shape
    np.testing.assert_allclose(seen[0], x0, atol=1e-12)
    assert domain.contains(res.x)
    assert res.fun == pytest.approx(phi.value(res.x), abs=1e-9)
    rng = np.random.default_rng(0)
    for step in (0.1, 0.01):  # no point nearby is lower than the gap allows
        near = (res.x + step * (domain.random(rng) - res.x) for _ in range(8))
        assert min(map(phi.value, near)) >= res.fun - 2e-3


def test_a_norm_that_no_way_is_known_for_is_refused_by_name():
    phi = functions.LeastSquares(np.eye(3), np.ones(3)) + functions.L1Norm(0.1)
    domain = sets.LpBall(3, p=3.0)
    with pytest.raises(
        ValueError, match=r"L1Norm\(0\.1\) .*no way to make it linear over LpBall.*take a ball"
    ):
        dcfw.minimize(phi, domain)
    assert not dcfw.check(phi, domain).ok


def test_a_norm_that_is_added_to_a_split_leaves_its_parts_convex():
    phi = functions.Smooth(lambda x: np.cos(3.0 * x).sum(), lambda x: -3.0 * np.sin(3.0 * x), lipschitz=9.0)
    for split in (splits.proximal(phi, 9.0), splits.sliding(phi, 9.0)):
        objective, domain = functions.lift(split + functions.L1Norm(0.3), sets.L1Ball(3, 2.0))
        assert "L = 9" in objective.conditional
        assert dcfw.check(objective, domain).ok


def test_a_singular_value_at_a_kink_is_found_there_whatever_its_rounding():
    rng = np.random.default_rng(0)
    g = functions.CappedL1(1.0, theta=0.7, spectral=True).g
    for n in (2, 3, 8):
        for _ in range(10):
            Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
            assert not g.linearise(0.7 * Q).unique
            assert g.linearise(0.71 * Q).unique
