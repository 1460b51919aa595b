"""The paper's convergence statements, in the form in which they hold, on real runs.

Measured figures are quoted in the comments; what a test asserts is the theorem's bound, or a fitted slope
with room for the finite range it is fitted on.
"""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dcfw
from dcfw import Status, functions, sets, splits, steps, tolerances
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.run import Goal, Run
from reference_gaps import lowest, minimise_convex, rounding, size_of, surrogate_gap, symmetric, trace

minimize = partial(dcfw.minimize, inner="fw")
"""The paper's own inner steps, on polytopes too."""

SEEDS = st.integers(0, 2**32 - 1)
STEPS = ("exact", "short", "open-loop", "backtracking")


def true_gaps(dc, domain, iterates):
    """Return gap_DC of each iterate from below (where g is differentiable), not using the solver."""
    L = dc.f.lipschitz
    return np.array([surrogate_gap(dc.f, dc.g.grad(x), domain, x, L, accuracy=1e-7)[0] for x in iterates])


def problems(seed):
    rng = np.random.default_rng(seed)
    for domain in (
        sets.Simplex(3),
        sets.L1Ball(3, radius=2.0),
        sets.L2Ball(3),
        sets.LInfBall(3),
        sets.SchattenBall((2, 2), p=1.5),
    ):
        n = math.prod(domain.shape)
        f = functions.Quadratic(symmetric(rng, n, 0.0, 2.0), rng.standard_normal(n))
        dc = f - functions.Quadratic(symmetric(rng, n, 0.0, 3.0))
        yield domain, dc, rng


# -- theorem 1 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", range(2))
def test_theorem_1_bound_holds_for_every_t(step, seed):
    for domain, dc, rng in problems(seed):
        best = lowest(dc, 3.0, domain, rng, starts=8)
        x0 = domain.random(rng)
        eps = 0.05
        res, iterates = trace(minimize, dc, domain, x0, step=step, tolerance=eps, tol=0.0, maxiter=12)
        assert res.status in (Status.NO_PROGRESS, Status.MAXITER, Status.CONVERGED)
        gap = true_gaps(dc, domain, iterates)
        phi = np.array([dc.value(x) for x in iterates])
        slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
        t = np.arange(len(gap))
        assert (np.minimum.accumulate(gap) <= (phi[0] - best) / (t + 1) + 0.5 * eps + slack).all(), domain
        # The step of the proof that the bound is a sum of.
        assert (gap[:-1] <= phi[:-1] - phi[1:] + 0.5 * eps + slack).all(), domain


def test_theorem_1_bound_holds_for_a_smooth_function_that_is_not_quadratic():
    rng = np.random.default_rng(1)
    domain = sets.L1Ball(3, radius=3.0)
    f = functions.LogSumExp(rng.standard_normal((6, 3)), temperature=0.5)
    dc = f - functions.SquaredNorm(0.8)
    L = f.lipschitz
    assert L is not None
    best = lowest(dc, L + 0.8, domain, rng, starts=8)
    eps, x0 = 0.02, np.array([0.5, -0.2, 0.1])
    res, iterates = trace(minimize, dc, domain, x0, tolerance=eps, tol=0.0, maxiter=25)
    assert res.nit >= 2
    gap = true_gaps(dc, domain, iterates)
    t = np.arange(len(gap))
    slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
    assert (np.minimum.accumulate(gap) <= (dc.value(x0) - best) / (t + 1) + 0.5 * eps + slack).all()


# -- tolerances ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_under_progress_the_dc_gap_is_at_most_twice_the_decrease_in_every_outer_step(step):
    for domain, dc, rng in problems(7):
        x0 = domain.random(rng)
        res, iterates = trace(
            minimize, dc, domain, x0, step=step, tolerance="progress", tol=1e-5, maxiter=20, max_lmo=3000
        )
        # The last inner loop may have been cut short by the budget.
        whole = len(iterates) - (1 if res.status is Status.CONVERGED else 2)
        gap = true_gaps(dc, domain, iterates[:whole])
        phi = np.array([dc.value(x) for x in iterates])
        slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
        assert whole >= 1
        assert (gap <= 2.0 * (phi[:whole] - phi[1 : whole + 1]) + slack).all(), domain


@pytest.mark.parametrize("update", ["text", "published"])
@pytest.mark.parametrize("beta", [0.8, 0.3])
def test_under_adaptive_tolerances_the_same_holds_wherever_the_dc_gap_exceeds_eps(beta, update):
    # The appendix takes gap_DC(x_t) >= eps_t for granted; the algorithm tests the FW gap, which is larger.
    # So the bound 2 (phi_0 - phi*) / t holds with t the number of outer steps that meet the condition.
    # It is rarely met: in 2 % of 14,000 outer steps of random problems with beta = 0.8.
    counted = 0
    for domain, dc, rng in problems(7):
        x0 = domain.random(rng)
        best = lowest(dc, 3.0, domain, rng, starts=8)
        rule = tolerances.Adaptive(beta, update=update)
        res, iterates = trace(minimize, dc, domain, x0, tolerance=rule, tol=1e-3, maxiter=20, max_lmo=1000)
        whole = len(iterates) - (1 if res.status is Status.CONVERGED else 2)
        gap = true_gaps(dc, domain, iterates[:whole])
        phi = np.array([dc.value(x) for x in iterates])
        slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
        meets = gap >= res.history["eps"][:whole]
        decrease = phi[:whole] - phi[1 : whole + 1]
        assert (gap[meets] <= 2.0 * decrease[meets] + slack).all(), domain
        if meets.any():
            t = np.arange(1, int(meets.sum()) + 1)
            assert (np.minimum.accumulate(gap[meets]) <= 2.0 * (phi[0] - best) / t + slack).all(), domain
        # Every outer step moves and, with exact steps, downhill.
        assert (decrease > -slack).all(), domain
        counted += int(meets.sum())
    assert counted >= 5  # the condition is not an empty one


def test_the_appendix_bound_for_all_outer_steps_fails_when_the_fw_gap_is_what_is_tested():
    # A stiff valley: the FW gap is far above gap_DC, so eps_t stays above gap_DC and outer steps gain little.
    # phi is convex here, so phi* is known for certain; the bound is missed by a factor of 2.
    rng = np.random.default_rng(31)
    stiffness = 1000.0
    rng.choice(3)
    A = symmetric(rng, 3, 1.0, stiffness)
    c = rng.uniform(-0.9, 0.9, 3)
    dc = functions.Quadratic(A, -A @ c, convex=True) - functions.Quadratic(symmetric(rng, 3, 0.0, 0.9))
    domain = sets.LInfBall(3)
    valley = np.linalg.eigh(A)[1][:, 0]
    x0 = np.clip(c + valley * rng.uniform(0.1, 1.0) + 0.01 * rng.standard_normal(3), -1.0, 1.0)
    point, error = minimise_convex(dc.value, dc.grad, stiffness, domain, x0, 1e-9)
    range_of_phi = dc.value(x0) - dc.value(point) + error
    _, iterates = trace(minimize, dc, domain, x0, tol=1e-3, maxiter=10)
    gap = true_gaps(dc, domain, iterates)
    t = np.arange(len(gap))
    ratio = np.minimum.accumulate(gap) * t / (2.0 * range_of_phi)
    assert ratio.max() > 1.5


# -- the inner loop ----------------------------------------------------------------------------------------


def inner_steps(f, domain, x, eps, rule):
    """Return how many steps Frank-Wolfe takes from x until its gap is at most eps/2."""
    limits = {"maxiter": 0, "max_inner": 1, "max_lmo": None, "time_limit": None}
    run = Run(f, domain.oracle(), x, goal=Goal(0.0, 0.0), **limits)
    for X in frank_wolfe(run, f, x, f.grad(x), rule.bind(f, domain)):
        if X.gap <= 0.5 * eps:
            return X.k - 1
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("rule", "factor"), [(steps.OpenLoop(), 13.5), (steps.Exact(), 8.0), (steps.Short(), 8.0)]
)
def test_the_inner_loop_ends_within_the_bound_for_the_gap(rule, factor):
    # The paper says 4 L D^2 / eps, from a bound on the primal error; the loop stops on the FW gap, for which
    # 13.5 (open loop) and 8 (exact, short) L D^2 / eps + 2 are provable.  The largest steps * eps / (L D^2)
    # seen for eps <= 2 L D^2, here (2.0) and by hill climbing over polytopes in up to 5 dimensions: open loop
    # 3.1, exact 3.4, both where two steps suffice; 1.4 and 1.0 for small eps.  So in that range no instance
    # beyond 4 L D^2 / eps is known, but that is not a theorem either.
    rng = np.random.default_rng(0)
    worst = 0.0
    for trial in range(24):
        n = int(rng.integers(2, 10))
        M = rng.standard_normal((n, max(1, n - trial % n)))
        A = np.eye(n) if trial % 3 == 0 else M @ M.T
        for domain in (
            sets.Simplex(n),
            sets.L1Ball(n, radius=3.0),
            sets.LInfBall(n),
            sets.L2Ball(n),
            sets.KSparse(n, max(1, n // 2)),
        ):
            centre = domain.random(rng) * rng.choice([0.0, 0.5, 1.0, 2.0])
            f = functions.Quadratic(A, -A @ centre, convex=True)
            x = domain.lmo(rng.standard_normal(n))
            unit = f.lipschitz * domain.diameter**2
            for fraction in (2.0, 1.0, 0.1, 0.02):
                taken = inner_steps(f, domain, x, fraction * unit, rule)
                assert taken <= factor / fraction + 2
                worst = max(worst, taken * fraction)
    assert 0.5 < worst <= 4.0


def test_the_published_count_of_inner_steps_fails_where_the_first_gap_is_large():
    # 4 L D^2 / eps says nothing about the first gap: for a linear f it is 0, and one step is needed.
    f = functions.Quadratic(np.zeros((3, 3)), np.array([1.0, 2.0, 3.0]), convex=True)
    domain = sets.Simplex(3)
    for rule in (steps.OpenLoop(), steps.Exact()):
        taken = inner_steps(f, domain, np.array([0.0, 0.0, 1.0]), 0.1, rule)
        assert taken == 1 > 4.0 * f.lipschitz * domain.diameter**2 / 0.1


@pytest.mark.parametrize("eps", [0.5, 0.1, 0.04])
def test_on_the_simplex_the_inner_loop_needs_two_over_eps_steps(eps):
    # 1/2 ||x||^2 on a simplex of many corners: after k exact steps x is the mean of k + 1 corners and the gap
    # 1/(k + 1), so no fewer than L D^2 / eps - 1 steps will do: the order 1/eps is the true one.
    n = 200
    x = np.eye(n)[0]
    taken = inner_steps(functions.SquaredNorm(1.0), sets.Simplex(n), x, eps, steps.Exact())
    # One more if the gap comes out a rounding error above 1/(k + 1) = eps/2.
    assert taken in (math.ceil(2.0 / eps) - 1, math.ceil(2.0 / eps))


# -- strongly convex sets -----------------------------------------------------------------------------------


def primal_errors(domain, centre, x, count, rule):
    """Return f(X_k) - f* for f with eigenvalues between 1 and 3 and the minimiser ``centre``, f* = 0."""
    n = centre.size
    A = symmetric(np.random.default_rng(4), n, 1.0, 3.0)
    c = centre.ravel()
    f = functions.Quadratic(A, -A @ c, 0.5 * float(c @ A @ c), convex=True)
    limits = {"maxiter": 0, "max_inner": 1, "max_lmo": None, "time_limit": None}
    run = Run(f, domain.oracle(), x, goal=Goal(0.0, 0.0), **limits)
    errors = []
    for X in frank_wolfe(run, f, x, f.grad(x), rule.bind(f, domain)):
        difference = (X.x - centre).ravel()
        errors.append(0.5 * float(difference @ A @ difference))
        if X.k >= count:
            return np.array(errors)
    raise AssertionError("unreachable")


def fitted_slope(t, y):
    return float(np.polyfit(np.log(t), np.log(y), 1)[0])


@pytest.mark.parametrize("rule", [steps.Exact(), steps.Short()], ids=["exact", "short"])
@pytest.mark.parametrize(
    "domain",
    [
        sets.L2Ball(8),
        sets.LpBall(8, p=1.5),
        sets.LpBall(8, p=1.2),
        sets.SchattenBall((4, 3), p=1.5),
        sets.SchattenBall((4, 3), p=2.0),
    ],
    ids=repr,
)
def test_on_strongly_convex_sets_the_inner_error_falls_like_one_over_k_squared(domain, rule):
    # The hard case: the unconstrained minimiser lies on the boundary, where the gradient vanishes.
    # Fitted slopes are between -2.6 and -3.4 on these sets.
    rng = np.random.default_rng(0)
    centre = np.asarray(domain.lmo(rng.standard_normal(domain.shape)))
    x = np.asarray(domain.lmo(-np.ones(domain.shape) + 0.1 * rng.standard_normal(domain.shape)))
    errors = primal_errors(domain, centre, x, 400, rule)
    k = np.arange(1, len(errors) + 1)
    assert fitted_slope(k[9:], errors[9:]) <= -1.7
    # Garber and Hazan's constant, as the paper quotes it (mu = 1, L = 3).
    constant = max(4.5 * 3.0 * domain.diameter**2, 48.0**2 * 9.0 / domain.strong_convexity**2)
    assert (errors <= constant / (k + 1.0) ** 2).all()


@pytest.mark.parametrize("rule", [steps.Exact(), steps.Short()], ids=["exact", "short"])
def test_on_a_polytope_the_inner_error_falls_like_one_over_k_only(rule):
    # Strong convexity of f alone does not help: in a face of the l1 ball the slope is -0.9 to -1.
    domain = sets.L1Ball(8)
    centre = np.array([1.0] * 6 + [0.0] * 2) / 6.0
    errors = primal_errors(domain, centre, -np.eye(8)[0], 400, rule)
    k = np.arange(1, len(errors) + 1)
    assert -1.4 <= fitted_slope(k[9:], errors[9:]) <= -0.6


# -- total counts of oracles ----------------------------------------------------------------------------


def flat_valley(centre):
    """A nonconvex function with L = 4 that is quartic around ``centre``, where gradients die out slowly."""
    return functions.Smooth(
        lambda x: float(((1.0 - np.cos(x - centre)) ** 2).sum()),
        lambda x: 2.0 * (1.0 - np.cos(x - centre)) * np.sin(x - centre),
        lipschitz=4.0,
    )


def oracle_calls(dc, domain, x0, accuracies, step="exact"):
    """Return LMO calls and subgradients of g spent until min gap_DC <= eps is certified, for each eps."""
    calls = []
    for eps in accuracies:
        res = minimize(dc, domain, x0, step=step, tolerance=eps, tol=0.0, maxiter=5000, max_inner=10**6)
        t = int(np.flatnonzero(res.history["dc_high"] <= eps)[0])
        # Corollary 1: within 2 (phi_0 - phi*) / eps outer steps (phi_0 - phi_t is no more than that).
        assert t <= 2.0 * (res.history["fun"][0] - res.history["fun"].min()) / eps
        # The LMO calls of the inner loop that certified x_t are counted in the next row, where there is one.
        certified = min(t + 1, len(res.history) - 1)
        calls.append((res.history["n_lmo"][certified], res.history["n_grad_g"][t]))
    return np.array(calls).T


ACCURACIES = np.array([10.0 ** -(1.0 + 0.5 * i) for i in range(6)])


@pytest.mark.parametrize(
    ("domain", "centre", "order"),
    [
        (sets.L2Ball(6), None, 1.5),
        (sets.LpBall(6, p=1.5), None, 1.5),
        (sets.SchattenBall((3, 2), p=1.5), None, 1.5),
        (sets.Simplex(6), [1 / 3, 1 / 3, 1 / 3, 0, 0, 0], 2.0),
        (sets.LInfBall(6, radius=0.5), [0.5, 0.5, 0.2, 0.1, 0.0, 0.2], 2.0),
    ],
    ids=lambda case: repr(case) if isinstance(case, sets.Set) else "",
)
def test_sliding_spends_few_gradients_and_lmo_calls_of_the_stated_order(domain, centre, order):
    # Measured orders of LMO calls: 0.45 (strongly convex sets), 0.77 and 0.94 (polytopes); of gradients of
    # phi: 0.34 to 0.45.
    if centre is None:
        centre = np.asarray(domain.lmo(np.random.default_rng(0).standard_normal(domain.shape)))
    centre = np.asarray(centre, dtype=float)
    dc = splits.sliding(flat_valley(centre))
    n_lmo, n_grad = oracle_calls(dc, domain, np.asarray(domain.lmo(centre)), ACCURACIES)
    assert -fitted_slope(ACCURACIES, n_lmo) <= order
    assert -fitted_slope(ACCURACIES, n_grad) <= 1.0
    # One gradient of phi a subproblem: far fewer than LMO calls, the more so the smaller eps.
    assert n_lmo[-1] >= 5.0 * n_grad[-1]
    assert n_lmo[-1] / n_grad[-1] > n_lmo[0] / n_grad[0]


def test_a_strongly_convex_set_saves_lmo_calls_by_order_where_the_inner_loop_is_the_cost():
    # Both surrogates have their minimiser where the gradient vanishes: on the sphere, and in a face.
    round_set, polytope = sets.L2Ball(6), sets.LInfBall(6, radius=0.5)
    centre = np.asarray(round_set.lmo(np.random.default_rng(0).standard_normal(6)))
    dc = splits.sliding(flat_valley(centre))
    fast, _ = oracle_calls(dc, round_set, round_set.lmo(centre), ACCURACIES)
    centre = np.array([0.5, 0.5, 0.2, 0.1, 0.0, 0.2])
    slow, _ = oracle_calls(splits.sliding(flat_valley(centre)), polytope, polytope.lmo(centre), ACCURACIES)
    assert fitted_slope(ACCURACIES, fast) - fitted_slope(ACCURACIES, slow) >= 0.25  # measured 0.45


@pytest.mark.parametrize("domain", [sets.L2Ball(8), sets.LpBall(8, p=1.5)], ids=repr)
def test_strengthening_a_flat_f_gives_the_order_of_strongly_convex_sets(domain):
    # f = 1/2 ||B(x - c)||^2 with a 3 x 8 matrix is not strongly convex; f + mu/2 ||x||^2 is.  c lies on the
    # boundary and is critical: the hard case.  Measured orders are 0.43 and 0.55.  (No advantage here: they
    # are 0.22 and 0.27 without the extra term, although only 2 is promised then.)
    rng = np.random.default_rng(0)
    B, c = rng.standard_normal((3, 8)), np.asarray(domain.lmo(rng.standard_normal(8)))
    P = 0.3 * B.T @ B
    f, g = functions.LeastSquares(B, B @ c), functions.Quadratic(P, -P @ c, convex=True)
    dc = splits.strengthen(f - g, 1.0)
    n_lmo, n_grad = oracle_calls(dc, domain, domain.lmo(c), ACCURACIES)
    assert -fitted_slope(ACCURACIES, n_lmo) <= 1.5
    assert -fitted_slope(ACCURACIES, n_grad) <= 1.0


@settings(max_examples=20)
@given(seed=SEEDS)
def test_one_subgradient_of_g_and_one_certificate_per_outer_step(seed):
    rng = np.random.default_rng(seed)
    domain, dc, _ = list(problems(seed))[seed % 5]
    res = minimize(dc, domain, domain.random(rng), tol=1e-3, maxiter=20, max_lmo=500)
    assert res.n_grad_g == len(res.history) == res.nit + 1
    assert np.array_equal(res.history["n_grad_g"], np.arange(1, res.nit + 2))
