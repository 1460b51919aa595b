"""The four measures of stationarity, against cvxpy, SciPy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dcfw
from dcfw import functions, gaps, sets, splits

N = 6
RNG = np.random.default_rng(12)
M = RNG.standard_normal((N, N))
PSD = M @ M.T / N
H = RNG.standard_normal((N, N))
B = RNG.standard_normal(N)


class Own:
    """A user's simplex: no projection, no shape."""

    def lmo(self, G):
        return np.eye(len(G))[np.argmin(G)]

    def contains(self, x):
        return bool(abs(x.sum() - 1) < 1e-9 and x.min() > -1e-9)

    def start(self):
        return np.full(N, 1 / N)


class OwnBall:
    """A user's l2 ball without a projection; Frank-Wolfe is fast there."""

    def lmo(self, G):
        return -G / np.linalg.norm(G)

    def contains(self, x):
        return bool(x @ x <= 1 + 1e-9)

    def start(self):
        return np.zeros(N)


def phi():
    return functions.Quadratic(H, B)


def dc():
    return functions.Quadratic(PSD, B) - functions.SquaredNorm(0.3)


X = np.abs(B) / np.abs(B).sum()


def test_fw_gap_is_the_definition():
    grad = PSD @ X + B - 0.3 * X
    assert gaps.fw_gap(dc(), sets.Simplex(N), X) == pytest.approx(grad @ X - grad.min())
    assert gaps.fw_gap(dc(), Own(), X) == pytest.approx(grad @ X - grad.min())
    assert gaps.fw_gap(dc(), sets.Simplex(N), list(X)) == pytest.approx(grad @ X - grad.min())


def test_fw_gap_takes_the_subgradient_of_g():
    kinked = functions.SquaredNorm() - functions.L1Norm()
    assert gaps.fw_gap(kinked, sets.L1Ball(2), np.zeros(2)) == 0.0
    assert gaps.fw_gap(kinked, sets.L1Ball(2), np.array([0.5, 0.0])) == pytest.approx(0.25)


def test_dc_gap_names_the_condition_that_it_rests_on():
    assert gaps.dc_gap(dc(), sets.Simplex(N), X).conditional == ""
    own = functions.Smooth(lambda x: 0.5 * x @ PSD @ x, lambda x: PSD @ x, convex=True)
    assert "f is convex" in gaps.dc_gap(own - functions.SquaredNorm(0.3), sets.Simplex(N), X).conditional
    assert "L = 3" in gaps.dc_gap(splits.sliding(own, L=3.0), sets.Simplex(N), X).conditional


@pytest.mark.parametrize("domain", [sets.Simplex(N), Own()], ids=["ours", "own"])
def test_dc_gap_contains_the_solution_of_the_subproblem(domain):
    cp = pytest.importorskip("cvxpy")
    y = cp.Variable(N)
    u = 0.3 * X
    model = 0.5 * cp.quad_form(y, cp.psd_wrap(PSD)) + B @ y - u @ y
    best = cp.Problem(cp.Minimize(model), [y >= 0, cp.sum(y) == 1]).solve(solver=cp.CLARABEL)
    truth = 0.5 * X @ PSD @ X + B @ X - u @ X - best
    low, high = gaps.dc_gap(dc(), domain, X, accuracy=1e-3)
    assert low - 1e-7 <= truth <= high + 1e-7
    assert high - low <= 1.01e-3 * high
    assert high <= gaps.fw_gap(dc(), domain, X) + 1e-12


def test_dc_gap_of_a_smooth_f_is_an_interval_too():
    f = functions.LogSumExp(M, B)
    low, high = gaps.dc_gap(f - functions.SquaredNorm(0.1), sets.L2Ball(N), 0.1 * B / np.linalg.norm(B))
    assert 0 < low <= high <= low * (1 + 1e-4)


def test_dc_gap_with_a_budget_is_wider_but_right():
    few = gaps.dc_gap(dc(), sets.Simplex(N), X, max_lmo=3)
    many = gaps.dc_gap(dc(), sets.Simplex(N), X)
    assert few.low <= many.low + 1e-12
    assert many.high <= few.high + 1e-12
    assert isinstance(few, gaps.Interval)


def test_dc_gap_at_a_kink_has_no_lower_end():
    kinked = functions.SquaredNorm() - functions.L1Norm()
    low, high = gaps.dc_gap(kinked, sets.L1Ball(2), np.array([0.5, 0.0]))
    assert low == 0.0
    assert high == pytest.approx(0.125, rel=1e-5)


def test_dc_gap_of_a_single_function_uses_the_chosen_split():
    domain = sets.Simplex(N)
    one, other = (gaps.dc_gap(p, domain, X, 1e-2) for p in (phi(), splits.choose(phi(), domain)))
    assert one == other


def test_pgm_gap_is_the_projected_gradient_step():
    domain = sets.L2Ball(N)
    x = 0.5 * B / np.linalg.norm(B)
    L = phi().lipschitz
    y = x - phi().grad(x) / L
    y = y / max(1.0, np.linalg.norm(y))
    assert gaps.pgm_gap(phi(), domain, x) == pytest.approx(0.5 * L * np.sum((x - y) ** 2))
    assert gaps.pgm_gap(phi(), domain, x, L=2 * L) != pytest.approx(gaps.pgm_gap(phi(), domain, x))


def test_pgm_gap_without_a_projection_is_found_by_frank_wolfe():
    exact = gaps.pgm_gap(phi(), sets.L2Ball(N), X)
    assert gaps.pgm_gap(phi(), OwnBall(), X) == pytest.approx(exact, rel=1e-6)


def test_frank_wolfe_ends_where_the_nearest_point_is_found():
    class Counting(Own):
        calls = 0

        def lmo(self, G):
            self.calls += 1
            return super().lmo(G)

    f = functions.Quadratic(np.eye(N), -9.0 * np.eye(N)[2])  # the nearest point is a vertex
    for measure in (gaps.pgm_gap, gaps.ppm_gap):
        domain = Counting()
        expected = 0.5 * (np.sum((np.full(N, 1 / N) - np.eye(N)[2]) ** 2))
        assert measure(f, domain, np.full(N, 1 / N), L=1.0) == pytest.approx(expected)
        assert domain.calls <= 3


@pytest.mark.parametrize("domain", [sets.L2Ball(N), OwnBall()], ids=["projection", "frank-wolfe"])
def test_ppm_gap_is_the_proximal_step_of_cvxpy(domain):
    cp = pytest.importorskip("cvxpy")
    A = phi().A
    L = 2 * phi().weak_convexity
    y = cp.Variable(N)
    model = 0.5 * cp.quad_form(y, cp.psd_wrap(A + L * np.eye(N))) + (B - L * X) @ y
    cp.Problem(cp.Minimize(model), [cp.norm(y) <= 1]).solve(solver=cp.CLARABEL)
    expected = 0.5 * L * np.sum((X - y.value) ** 2)
    assert gaps.ppm_gap(phi(), domain, X, L=L, accuracy=1e-6) == pytest.approx(expected, rel=1e-2)


def test_ppm_gap_is_refused_where_no_constant_makes_the_subproblem_convex():
    kinked = functions.SquaredNorm(1.0) - functions.L1Norm(1.0)
    with pytest.raises(ValueError, match="objective must be differentiable"):
        gaps.ppm_gap(kinked, sets.L2Ball(2), np.array([0.3, 0.2]), L=2.0)


def test_the_measures_are_ordered_as_in_the_paper():
    domain = sets.L2Ball(N)
    rng = np.random.default_rng(1)
    rho = phi().weak_convexity
    L = phi().lipschitz
    for _ in range(5):
        x = domain.random(rng)
        fw = gaps.fw_gap(phi(), domain, x)
        slid = gaps.dc_gap(splits.sliding(phi()), domain, x)
        near = gaps.dc_gap(splits.proximal(phi(), L), domain, x)
        assert slid.low <= fw * (1 + 1e-9)
        assert near.low <= fw * (1 + 1e-9)
        assert slid.high >= gaps.pgm_gap(phi(), domain, x) * (1 - 1e-9)
        assert near.high >= (1 - rho / L) * gaps.ppm_gap(phi(), domain, x, L) * (1 - 1e-6) - 1e-12


def test_all_are_zero_at_a_minimiser():
    f = functions.SquaredNorm()
    domain, x = sets.Simplex(4), np.full(4, 0.25)
    assert gaps.fw_gap(f, domain, x) == pytest.approx(0.0, abs=1e-15)
    assert gaps.dc_gap(f, domain, x) == pytest.approx((0.0, 0.0), abs=1e-15)
    assert gaps.pgm_gap(f, domain, x) == pytest.approx(0.0, abs=1e-15)
    assert gaps.ppm_gap(f, domain, x) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_other_backends_give_the_same_numbers(backend):
    xp = pytest.importorskip(backend)
    other = functions.Quadratic(xp.asarray(H), xp.asarray(B))
    x = xp.asarray(X)
    domain = sets.Simplex(N)
    assert gaps.fw_gap(other, domain, x) == pytest.approx(gaps.fw_gap(phi(), domain, X))
    assert gaps.pgm_gap(other, domain, x) == pytest.approx(gaps.pgm_gap(phi(), domain, X))
    assert gaps.ppm_gap(other, domain, x) == pytest.approx(gaps.ppm_gap(phi(), domain, X))
    assert gaps.dc_gap(other, domain, x, 1e-3) == pytest.approx(gaps.dc_gap(phi(), domain, X, 1e-3), rel=1e-2)


def test_an_f_that_is_not_convex_gives_no_certificates():
    wrong = functions.Quadratic(-np.eye(N), B, convex=True) - functions.SquaredNorm()
    with pytest.raises(ValueError, match="is not convex, though"):
        gaps.dc_gap(wrong, sets.L2Ball(N), 0.1 * np.ones(N))
    broken = functions.Smooth(lambda x: 0.0, lambda x: x * np.nan, convex=True) - functions.SquaredNorm()
    with pytest.raises(ValueError, match=r"f\.grad returned NaN"):
        gaps.dc_gap(broken, sets.L2Ball(N), 0.1 * np.ones(N))


@pytest.mark.parametrize("measure", [gaps.fw_gap, gaps.dc_gap, gaps.pgm_gap, gaps.ppm_gap])
def test_bad_input_is_refused_by_name(measure):
    domain = sets.Simplex(N)
    with pytest.raises(ValueError, match=r"x must have shape \(6,\)"):
        measure(phi(), domain, np.ones(3))
    with pytest.raises(ValueError, match="x has NaN"):
        measure(phi(), domain, np.full(N, np.nan))
    with pytest.raises(ValueError, match=r"x must lie in the set Simplex\(6\).*by 5\)"):
        measure(phi(), domain, np.ones(N))
    with pytest.raises(TypeError, match="objective must be a function"):
        measure(3.0, domain, X)


def test_missing_constants_are_asked_for():
    f = functions.Smooth(lambda x: 0.0, lambda x: 0 * x)
    for measure in (gaps.pgm_gap, gaps.ppm_gap):
        with pytest.raises(ValueError, match="L must be given"):
            measure(f, sets.Simplex(N), X)
        with pytest.raises(ValueError, match="L must be a number"):
            measure(f, sets.Simplex(N), X, L=-1.0)
    with pytest.raises(ValueError, match="accuracy must be"):
        gaps.dc_gap(dc(), sets.Simplex(N), X, accuracy=-1.0)
    with pytest.raises(ValueError, match="max_lmo must be"):
        gaps.dc_gap(dc(), sets.Simplex(N), X, max_lmo=0)


def test_the_result_of_a_run_agrees_with_the_measures():
    domain = sets.Simplex(N)
    res = dcfw.minimize(dc(), domain, X, tol=1e-2)
    assert res.gap == pytest.approx(gaps.fw_gap(dc(), domain, res.x), rel=1e-6)
    assert math.isfinite(res.dc_gap[1])
    for row in range(min(len(res.history) - 1, 3)):
        assert res.history["dc_high"][row] <= res.history["gap"][row]


@pytest.mark.parametrize("accuracy", [-1e-3, 1.5])
def test_an_accuracy_outside_of_the_unit_interval_is_refused(accuracy):
    with pytest.raises(ValueError, match="accuracy"):
        gaps.ppm_gap(functions.SquaredNorm(1.0), sets.Simplex(N), np.full(N, 1 / N), accuracy=accuracy)


def test_the_proximal_step_is_accelerated():
    """Steps grow with the root of the condition number, 100 here; with a fixed momentum it is thousands."""
    count = 0

    def grad(x):
        nonlocal count
        count += 1
        return np.linspace(0.0, 1e4, N) * x + 1.0

    phi = functions.Smooth(lambda x: 0.0, grad, lipschitz=1e4)
    gaps.ppm_gap(phi, sets.Box(-10.0, 10.0, N), np.ones(N), L=1.0)
    assert count < 1500


def test_dc_gap_is_refused_where_f_is_known_not_to_be_convex():
    dc = functions.Quadratic(np.diag([1.0, -1.0, -2.0])) - functions.Zero()
    with pytest.raises(ValueError, match="f is not convex, its lowest curvature is -2"):
        gaps.dc_gap(dc, sets.L2Ball(3), np.array([0.1, 0.0, 0.0]))


def test_gaps_of_a_loss_with_a_penalty_are_those_of_the_result():
    rng = np.random.default_rng(0)
    loss = functions.LogisticLoss(rng.standard_normal((80, 30)), np.sign(rng.standard_normal(80)))
    phi, ball = loss + functions.L1MinusL2(0.05), sets.L1Ball(30, radius=3.0)
    res = dcfw.minimize(phi, ball, maxiter=3)
    assert gaps.fw_gap(phi, ball, res.x) == pytest.approx(res.gap, rel=1e-6)
    assert gaps.dc_gap(phi, ball, res.x).high <= res.gap * (1 + 1e-9)
    for measure in (gaps.pgm_gap, gaps.ppm_gap):
        with pytest.raises(ValueError, match=r"gaps.fw_gap .* functions.lift"):
            measure(phi, ball, res.x, L=1.0)


def test_dc_gap_takes_a_stated_constant_of_a_smooth_function():
    phi = functions.Smooth(lambda x: float(np.cos(x).sum()), lambda x: -np.sin(x), lipschitz=1.0)
    x = np.array([0.7, 0.2, 0.1])
    expected = gaps.dc_gap(splits.sliding(phi, 1.0), sets.Simplex(3), x)
    assert gaps.dc_gap(phi, sets.Simplex(3), x) == expected
    with pytest.raises(ValueError, match=r"known L.*splits.sliding"):
        gaps.dc_gap(functions.Smooth(phi.value, phi.grad), sets.Simplex(3), x)
