"""Step rules: each against its formula, and the line search along one-dimensional functions."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import dcfw
from dcfw import functions, sets, steps
from dcfw.gaps import _run
from dcfw.sets.atoms import Dense, OneHot
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.loop import State, frank_wolfe
from dcfw.solvers.run import Stop
from dcfw.solvers.segment import AffineSegment, SmoothSegment


class Counter:
    """What a segment needs of a run."""

    def __init__(self):
        self.gradients = self.values = 0

    def grad_f(self, f, x):
        self.gradients += 1
        return f.grad(x)

    def value(self, f, x):
        self.values += 1
        return f.value(x)

    def bad_gradient(self):
        raise AssertionError("the gradient is not finite")


def affine(A, x, s, k=1, convex=True):
    """The segment of 1/2 x'Ax from x to s."""
    f = functions.Quadratic(np.asarray(A, dtype=float))
    x, s = np.asarray(x, dtype=float), np.asarray(s, dtype=float)
    grad = f.grad(x)
    return AffineSegment(x, grad, Dense(s), f.grad(s), float(grad @ (x - s)), k, convex), f


def line(value, slope, convex, length=1.0):
    """The segment of a function of one variable from 0 to ``length``."""
    f = functions.Smooth(lambda x: value(float(x[0])), lambda x: np.array([slope(float(x[0]))]))
    x, s = np.zeros(1), np.array([length])
    run = Counter()
    grad = f.grad(x)
    gap = float(-grad[0] * length)
    return SmoothSegment(State(run, f, x, grad, f.value(x), convex=convex), Dense(s), gap), run


def test_the_open_loop_step_is_two_over_k_plus_one():
    step = steps.OpenLoop().bind(functions.SquaredNorm(), sets.Simplex(2))
    for k in (1, 2, 7):
        segment, _ = affine(np.eye(2), [1, 0], [0, 1], k=k)
        assert step(segment) == 2 / (k + 1)


@given(st.integers(0, 10**6))
def test_the_exact_step_of_a_quadratic_minimises_it_on_the_segment(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 3))
    A = A @ A.T
    x, s = rng.standard_normal((2, 3))
    segment, f = affine(A, x, s)
    if segment.gap <= 0:
        segment, f = affine(A, s, x)
        x, s = s, x
    if segment.gap <= 0:  # a minimum in between, uphill from both ends
        return
    eta = steps.Exact().bind(f, None)(segment)
    best = min(f.value(x + t * (s - x)) for t in np.linspace(0, 1, 301))
    assert f.value(x + eta * (s - x)) <= best + 1e-12 * (1 + abs(best))


def test_the_exact_step_is_full_where_the_curvature_is_not_positive():
    segment, f = affine(-np.eye(2), [1, 0], [0, 2], convex=False)
    assert steps.Exact().bind(f, None)(segment) == 1.0
    segment, f = affine(np.zeros((2, 2)), [1, 0], [0, 2])
    assert steps.Exact().bind(f, None)(segment) == 1.0


def test_the_short_step_is_demyanov_rubinov():
    segment, f = affine(np.diag([1.0, 2.0]), [1, 0], [0, 0.5])
    norm2 = 1.25
    assert steps.Short().bind(f, None)(segment) == pytest.approx(segment.gap / (2.0 * norm2))
    assert steps.Short(L=8.0).bind(f, None)(segment) == pytest.approx(segment.gap / (8.0 * norm2))
    assert steps.Short(L=1e-9).bind(f, None)(segment) == 1.0
    assert steps.Short(L=0.0).bind(f, None)(segment) == 1.0


def test_the_scaled_step_is_that_of_khamaru_and_wainwright():
    segment, f = affine(np.diag([1.0, 2.0]), [1, 0], [0, 0.5])
    assert steps.Scaled(5.0).bind(f, None)(segment) == pytest.approx(segment.gap / 5.0)
    assert steps.Scaled(0.0).bind(f, None)(segment) == 1.0


def test_backtracking_doubles_until_the_upper_bound_holds_and_halves_afterwards():
    # Along this segment m(eta) = m(0) - gap eta + c/2 eta^2 with c = L ||d||^2 for L = 3.
    segment, f = affine(3.0 * np.eye(2), [1, 0], [0, 0.1])
    step = steps.Backtracking(L=0.5).bind(f, None)
    # 0.5 gives eta = 1; the bound fails for 0.5, 1, 2 and holds for 4.
    assert step(segment) == pytest.approx(segment.gap / (4.0 * segment.norm2))
    # L was halved to 2: the next step tries 2, which fails, and takes 4 again.
    assert step(segment) == pytest.approx(segment.gap / (4.0 * segment.norm2))


def test_backtracking_starts_from_the_measured_curvature():
    segment, f = affine(3.0 * np.eye(2), [1, 0], [0, 0.1])
    step = steps.Backtracking().bind(f, None)
    assert step(segment) == pytest.approx(segment.gap / (3.0 * segment.norm2))
    smooth, _ = line(lambda t: (t - 0.3) ** 2, lambda t: 2 * (t - 0.3), convex=True)
    assert steps.Backtracking().bind(None, None)(smooth) == pytest.approx(0.3, rel=2e-3)


def test_each_bound_rule_keeps_its_own_estimate():
    rule = steps.Backtracking(L=0.5)
    segment, f = affine(3.0 * np.eye(2), [1, 0], [0, 0.1])
    first, second = rule.bind(f, None), rule.bind(f, None)
    first(segment)
    assert second(segment) == pytest.approx(segment.gap / (4.0 * segment.norm2))


def test_many_full_steps_do_not_use_up_the_cap():
    flat, f = affine(np.zeros((2, 2)) + 1e-30, [1, 0], [0, 1])
    flat.gap, flat.curvature = 1.0, 0.0
    curved, _ = affine(3.0 * np.eye(2), [1, 0], [0, 0.1])
    step = steps.Backtracking(L=0.25, cap=8).bind(f, None)
    for _ in range(500):  # L is halved each time
        assert step(flat) == 1.0
    assert 0.5 / 3.0 <= step(curved) * curved.norm2 / curved.gap <= 1.0 / 3.0 + 1e-12


def test_a_failing_search_is_capped():
    segment, run = line(lambda t: 10.0 * t, lambda t: -1.0, convex=True)  # the gradient is wrong
    with pytest.raises(steps.LineSearchFailed, match=r"did not end after 12 trials.*gradient is wrong"):
        steps.Backtracking(L=1.0, cap=12).bind(None, None)(segment)
    assert run.values <= 13


def test_a_failing_search_ends_the_run_with_its_own_status():
    wrong = functions.Smooth(lambda x: float(x @ x), lambda x: -x, lipschitz=2.0)
    x0 = np.array([0.5, 0.2])
    res = dcfw.minimize(wrong, sets.L2Ball(2), x0, method="fw", step="backtracking")
    assert res.status is dcfw.Status.LINE_SEARCH
    assert not res.success
    assert "backtracking did not end" in res.message
    assert res.fun <= x0 @ x0


@given(
    st.floats(1e-6, 1.5),
    st.floats(0.1, 100.0),
    st.sampled_from(["quartic", "exponential", "absolute-like", "barrier"]),
)
def test_the_search_finds_the_minimiser_of_a_convex_function(target, scale, kind):
    shapes = {
        "quartic": (lambda t: scale * (t - target) ** 4, lambda t: 4 * scale * (t - target) ** 3),
        "exponential": (
            lambda t: scale * (math.exp(t) - math.exp(target) * t),
            lambda t: scale * (math.exp(t) - math.exp(target)),
        ),
        "absolute-like": (
            lambda t: scale * math.sqrt(1e-6 + (t - target) ** 2),
            lambda t: scale * (t - target) / math.sqrt(1e-6 + (t - target) ** 2),
        ),
        "barrier": (
            lambda t: scale * (t - (target + 0.01) * math.log(t + 0.01)),
            lambda t: scale * (1 - (target + 0.01) / (t + 0.01)),
        ),
    }
    value, slope = shapes[kind]
    segment, run = line(value, slope, convex=True)
    eta = steps.search(segment, 1e-10, 60)
    best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    reached, least = value(eta), min(value(0.0), value(1.0), best.fun)
    assert reached <= least + 1e-7 * (value(0.0) - least) + 1e-12 * scale
    assert run.gradients <= 62


@given(
    st.lists(st.floats(-5, 5), min_size=3, max_size=6),
    st.lists(st.floats(0.0, 40.0), min_size=6, max_size=6),
)
def test_the_search_always_goes_down_on_a_nonconvex_function(heights, speeds):
    def value(t):
        return sum(a * math.sin(w * t + i) for i, (a, w) in enumerate(zip(heights, speeds, strict=False)))

    def slope(t):
        return sum(a * w * math.cos(w * t + i) for i, (a, w) in enumerate(zip(heights, speeds, strict=False)))

    if slope(0.0) >= -1e-8:
        return
    segment, _ = line(value, slope, convex=False)
    eta = steps.search(segment, 1e-4, 40)
    assert 0.0 <= eta <= 1.0
    decrease = value(0.0) - value(eta)
    assert decrease >= 1e-4 * eta * segment.gap - 2 * segment.rounding
    point, grad, known = segment.land(eta)
    assert known is None or known == pytest.approx(value(eta), abs=1e-12)
    assert grad[0] == pytest.approx(slope(float(point[0])))


def test_the_gradient_of_the_accepted_step_is_not_computed_twice():
    segment, run = line(lambda t: (t - 0.3) ** 2, lambda t: 2 * (t - 0.3), convex=True)
    eta = steps.search(segment, 1e-4, 40)
    spent = run.gradients
    segment.land(eta)
    assert run.gradients == spent == 2  # the far end, then the secant hits


def test_a_small_slope_just_beyond_the_minimiser_is_accepted_where_the_value_has_fallen():
    # The first trial is at 1/2, where the slope is 2.5e-6: within the accuracy, and with nothing gained yet.
    segment, run = line(
        lambda t: (t - 0.5) ** 2 - 1e-5 * (t**3 / 3.0 - t**2 / 2.0),
        lambda t: 2.0 * (t - 0.5) - 1e-5 * (t**2 - t),
        convex=True,
    )
    assert steps.search(segment, 1e-4, 40) == 0.5
    assert run.gradients == 2
    assert run.values == 1


def test_a_trial_that_is_too_far_costs_no_gradient():
    segment, run = line(lambda t: -t + 50 * t * t, lambda t: -1 + 100 * t, convex=False)
    steps.search(segment, 1e-4, 40)
    assert run.gradients < run.values


def test_the_segment_of_a_quadratic_answers_like_the_function_itself():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((4, 4))
    f = functions.Quadratic(A @ A.T, rng.standard_normal(4))
    x, S = rng.standard_normal(4), OneHot(1, 2.0, (4,))
    u = rng.standard_normal(4)
    G = f.grad(x) - u
    gap = float(G @ x) - S.inner(G)
    fast = AffineSegment(x, f.grad(x), S, f.grad_at(S), gap, 1, True)
    slow = SmoothSegment(State(Counter(), f, x, f.grad(x), None, u), S, gap)
    assert fast.norm2 == pytest.approx(slow.norm2)
    for eta in (0.2, 0.9):
        assert fast.decrease(eta) == pytest.approx(slow.decrease(eta))
        assert fast.slope(eta) == pytest.approx(slow.slope(eta))
    for one, other in zip(fast.land(0.4)[:2], slow.land(0.4)[:2], strict=True):
        np.testing.assert_allclose(one, other)


def test_names_resolve_to_rules_and_rules_to_themselves():
    assert steps.resolve("exact") == steps.Exact()
    assert steps.resolve("open-loop") == steps.OpenLoop()
    assert steps.resolve("short") == steps.Short()
    assert steps.resolve("backtracking") == steps.Backtracking()
    rule = steps.Short(L=3.0)
    assert steps.resolve(rule) is rule


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: steps.Short(L=-1.0), ValueError, "L must be"),
        (lambda: steps.Short(L="big"), TypeError, "L must be a real number"),
        (lambda: steps.Backtracking(L=0.0), ValueError, r"L must be a number in \(0"),
        (lambda: steps.Backtracking(grow=1.0), ValueError, "grow must be"),
        (lambda: steps.Backtracking(shrink=0.0), ValueError, "shrink must be"),
        (lambda: steps.Backtracking(shrink=1.5), ValueError, "shrink must be"),
        (lambda: steps.Backtracking(cap=0), ValueError, "cap must be"),
        (lambda: steps.Scaled(C=-1.0), ValueError, "C must be"),
        (lambda: steps.Exact(accuracy=-1.0), ValueError, "accuracy must be"),
        (lambda: steps.Exact(evaluations=0), ValueError, "evaluations must be"),
    ],
)
def test_bad_parameters_of_rules_are_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_short_step_without_a_constant_says_what_to_do():
    f = functions.Smooth(lambda x: 0.0, lambda x: 0.0 * x, convex=True)
    with pytest.raises(
        ValueError, match=r"step 'short' needs a Lipschitz constant.*steps\.Short\(L=\.\.\.\)"
    ):
        dcfw.minimize(f, sets.Simplex(2), step="short")


class Half:
    """A user's own rule."""

    def bind(self, f, domain):
        return lambda segment: 0.5


class Nonsense:
    def __init__(self, eta):
        self.eta = eta

    def bind(self, f, domain):
        return lambda segment: self.eta


def test_a_users_rule_is_used():
    # From e_1, half-way to e_2 is the optimum at once.
    res = dcfw.minimize(functions.SquaredNorm(), sets.Simplex(2), np.array([1.0, 0.0]), step=Half())
    assert res.success
    assert res.n_inner == 1
    np.testing.assert_allclose(res.x, [0.5, 0.5])


@pytest.mark.parametrize("inner", ["fw", "away", "pairwise", "blended"])
@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_a_users_rule_is_told_whether_the_function_is_convex(method, inner):
    seen = []

    class Looking:
        def bind(self, f, domain):
            def step(segment):
                seen.append(segment.convex)
                return steps.Exact().bind(f, domain)(segment)

            return step

    f = functions.Quadratic(np.diag([1.0, 2.0, 3.0]), np.array([-0.5, 0.0, 0.1]))
    dcfw.minimize(f, sets.Simplex(3), method=method, inner=inner, step=Looking(), maxiter=5)
    assert seen
    assert set(seen) == {method == "dcfw"}


@pytest.mark.parametrize("eta", [1.5, -0.1, math.nan])
def test_a_step_outside_the_unit_interval_ends_the_run(eta):
    x0 = np.array([1.0, 0.0])
    res = dcfw.minimize(functions.SquaredNorm(), sets.Simplex(2), x0, step=Nonsense(eta))
    assert res.status is dcfw.Status.BAD_ORACLE
    assert "step rule returned" in res.message
    np.testing.assert_array_equal(res.x, x0)


@pytest.mark.parametrize("inner", [frank_wolfe, ActiveLoop("away"), ActiveLoop("blended")])
@pytest.mark.parametrize("affine", [True, False])
def test_the_curvature_that_a_convex_function_lacks_is_measured(inner, affine):
    f = functions.Quadratic(np.diag([-3.0, -3.0]))
    if not affine:
        f = functions.Smooth(f.value, f.grad)
    x = np.array([0.9, 0.1])
    run = _run(f, sets.Simplex(2), x)
    loop = inner(run, f, x, f.grad(x), steps.Exact().bind(f, None), linear=np.zeros(2))
    with pytest.raises(Stop) as caught:
        for _ in zip(loop, range(5), strict=False):
            pass
    assert caught.value.status is dcfw.Status.NOT_CONVEX
    assert caught.value.lacking == pytest.approx(3.0)


def test_a_step_of_zero_is_no_progress():
    res = dcfw.minimize(functions.SquaredNorm(), sets.Simplex(2), np.array([1.0, 0.0]), step=Nonsense(0.0))
    assert res.status is dcfw.Status.NO_PROGRESS
    assert "smaller than rounding" in res.message


def test_a_search_stays_on_the_segment_where_the_secant_does_not():
    """With so small a slope at the far end the secant's trial is the far end itself."""
    tried = []

    class Shallow:
        gap, convex = 1.0, True

        def slope(self, eta):
            tried.append(eta)
            return 1e-20 if eta == 1.0 else eta - 0.75

        def decrease(self, eta):
            return 1.0

    assert steps.search(Shallow(), 1e-6, 60) == pytest.approx(0.75, abs=1e-5)
    assert tried[:2] == [1.0, 0.5]
    assert all(0.0 < eta <= 1.0 for eta in tried)


def test_what_was_gained_on_the_way_settles_a_trial_beyond_the_minimiser_without_a_value():
    segment, run = line(
        lambda t: math.exp(t) - math.exp(0.6) * t, lambda t: math.exp(t) - math.exp(0.6), True
    )
    eta = steps.search(segment, 0.03, 40)
    assert eta > 0.61
    assert run.values == 0


def test_the_first_estimate_on_a_flat_segment_is_a_millionth_of_what_a_full_step_would_need():
    segment, _ = affine(np.zeros((2, 2)), [1, 0], [0, 1])
    segment.gap = 8.0
    assert steps.first_estimate(segment) == pytest.approx(1e-6 * 8.0 / 2.0)


def test_a_negative_constant_of_a_function_is_refused():
    with pytest.raises(ValueError, match="L must be"):
        steps.Short().bind(SimpleNamespace(lipschitz=-1.0), None)


def test_an_infinite_curvature_constant_is_a_step_of_zero():
    segment, f = affine(np.eye(2), [1, 0], [0, 0.5])
    assert steps.Scaled(math.inf).bind(f, None)(segment) == 0.0


def test_the_value_that_a_search_found_at_the_start_is_not_asked_for_again():
    f = functions.Smooth(lambda x: float((x**4).sum()), lambda x: 4.0 * x**3, convex=True)
    asked, x = [], np.array([1.0, 0.0])
    value, f.value = f.value, lambda x: asked.append(x.copy()) or value(x)
    step = steps.Backtracking(L=1.0).bind(f, None)
    loop = frank_wolfe(_run(f, sets.Simplex(2), x), f, x, f.grad(x), step, linear=np.zeros(2))
    next(loop)
    X = next(loop)
    assert X.decrease() == pytest.approx(1.0 - value(X.x))
    assert sum(np.array_equal(y, x) for y in asked) == 1


def test_a_flat_direction_of_a_steep_quadratic_may_seem_to_bend_by_the_rounding_of_its_gradients():
    x, S = np.array([0.5, 0.5]), Dense(np.array([1.0, 0.0]))
    grad = np.array([3e8, 3e8])  # that of a function of x_0 + x_1
    segment = AffineSegment(x, grad, S, grad.copy(), 0.0, 1, True)
    assert segment.curvature == 0.0
    assert segment.rounding_of_curvature() >= 64.0 * np.finfo(float).eps * np.linalg.norm(grad)
