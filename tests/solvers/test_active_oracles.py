"""With an active set no oracle is asked twice, budgets hold, faults are named, certificates are true."""

from __future__ import annotations

import math
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import Status, functions, sets
from dcfw.sets.atoms import Dense
from dcfw.solvers import active
from reference_gaps import rounding, size_of, surrogate_gap, symmetric, trace

pytestmark = pytest.mark.usefixtures("no_second_gap")

RULES = ("away", "pairwise", "blended")
LOOPS = [(rule, lazy) for rule in RULES for lazy in (False, True) if lazy or rule != "blended"]
loops = pytest.mark.parametrize(("rule", "lazy"), LOOPS, ids=lambda value: str(value))
N = 10


class Counted(functions.Function):
    """A quadratic that counts, and may break at its n-th gradient."""

    convex = True

    def __init__(self, A, b, *, affine=True, fails_at=math.inf, fault=math.nan):
        self.quadratic = functions.Quadratic(A, b, convex=True)
        self.affine_grad = affine
        self.calls = Counter()
        self.fails_at, self.fault = fails_at, fault
        self.points = []

    def value(self, x):
        self.calls["value"] += 1
        return self.quadratic.value(x)

    def grad(self, x):
        self.calls["grad"] += 1
        self.points.append(x.copy())
        if self.calls["grad"] >= self.fails_at:
            if self.fault == "interrupt":
                raise KeyboardInterrupt
            return self.quadratic.grad(x) * self.fault
        return self.quadratic.grad(x)

    def value_from_grad(self, x, grad):
        return self.quadratic.value_from_grad(x, grad) if self.affine_grad else None


class CountedSet:
    """A simplex that remembers what it was asked."""

    shape, diameter = (N,), math.sqrt(2.0)

    def __init__(self, pause=0.0):
        self.asked, self.answers, self.pause = [], [], pause

    def lmo(self, G):
        time.sleep(self.pause)
        self.asked.append(G.copy())
        s = np.zeros(N)
        s[np.argmin(G)] = 1.0
        self.answers.append(int(np.argmin(G)))
        return s

    def contains(self, x):
        return bool(abs(x.sum() - 1.0) <= 1e-9 and x.min() >= -1e-9)

    def start(self):
        return np.full(N, 1.0 / N)


def problem(seed=0, **options):
    rng = np.random.default_rng(seed)
    f = Counted(symmetric(rng, N, 0.5, 3.0), 0.3 * rng.standard_normal(N), **options)
    g = Counted(symmetric(rng, N, 0.0, 0.7), np.zeros(N))
    return f, g, CountedSet()


@pytest.mark.parametrize("affine", [True, False])
@loops
def test_the_counters_are_the_users_own_and_one_subgradient_is_taken_per_outer_step(rule, lazy, affine):
    f, g, domain = problem(affine=affine)
    res = dcfw.minimize(f - g, domain, inner=rule, lazy=lazy, tol=1e-7)
    assert res.success
    assert res.n_lmo == len(domain.asked)
    assert res.n_grad_f + res.n_resync == f.calls["grad"]
    assert res.n_grad_g == g.calls["grad"] == res.nit + 1
    if affine and not res.n_resync:
        # One gradient at x0 and one at each vertex that a step made use of, however often that is met.
        assert len({x.tobytes() for x in f.points}) == f.calls["grad"] <= 1 + len(set(domain.answers))


@loops
def test_each_recomputed_gradient_is_counted_once(rule, lazy, monkeypatch):
    monkeypatch.setattr(active, "RESYNC", 2)
    f, g, domain = problem()
    res = dcfw.minimize(f - g, domain, inner=rule, lazy=lazy, tol=1e-7)
    assert res.n_resync > 1
    assert res.n_grad_f + res.n_resync == f.calls["grad"]


@loops
def test_no_call_of_the_oracle_is_made_twice_or_only_for_a_report(rule, lazy):
    f, g, domain = problem()
    rows = []
    res = dcfw.minimize(
        f - g, domain, inner=rule, lazy=lazy, tol=1e-7, callback=lambda intermediate_result: rows.append(1)
    )
    directions = [G.tobytes() for G in domain.asked]
    assert len(set(directions)) == len(directions)
    # An outer step asks once at x_t, and once after each step that follows (lazy steps ask less).
    calls = np.diff(np.append(res.history["n_lmo"], res.n_lmo))
    steps = np.diff(np.append(res.history["n_inner"], res.n_inner))
    assert (calls <= steps + 1).all()
    assert len(rows) == len(res.history)
    if not lazy:
        assert res.n_lmo == res.n_inner + res.nit + 1


def test_lazy_steps_save_calls():
    for rule in ("away", "pairwise"):
        counts = []
        for lazy in (False, True):
            f, g, domain = problem(3)
            counts.append(dcfw.minimize(f - g, domain, inner=rule, lazy=lazy, tol=1e-8).n_lmo)
        assert counts[1] < counts[0]


@loops
def test_a_yielded_gap_is_that_of_a_vertex_computed_at_the_current_point(rule, lazy):
    # The surrogate's gap in every early stop is recomputed from the iterate that follows.
    f, g, domain = problem(1)
    res, iterates = trace(dcfw.minimize, f - g, domain, inner=rule, lazy=lazy, tol=1e-7)
    for t in range(len(iterates) - 1):
        G = f.quadratic.grad(iterates[t + 1]) - g.quadratic.grad(iterates[t])
        assert G @ iterates[t + 1] - G.min() <= 0.5 * res.history["eps"][t] + 1e-12
    for x, gap in zip(iterates, res.history["gap"], strict=True):
        G = f.quadratic.grad(x) - g.quadratic.grad(x)
        assert gap == pytest.approx(G @ x - G.min(), abs=1e-12)


@pytest.mark.parametrize("method", ["dcfw", "fw"])
@loops
def test_budgets_are_never_exceeded_and_the_last_gap_is_known(method, rule, lazy):
    for budget in (1, 2, 3, 5, 8):
        f, g, domain = problem(2)
        res = dcfw.minimize(f - g, domain, method=method, inner=rule, lazy=lazy, tol=0.0, max_lmo=budget)
        assert len(domain.asked) == res.n_lmo <= budget
        assert res.status in (Status.MAX_LMO, Status.NO_PROGRESS, Status.CONVERGED)
        assert math.isfinite(res.gap)
    for steps in (0, 1, 2, 7):
        f, g, domain = problem(2)
        res = dcfw.minimize(f - g, domain, method=method, inner=rule, lazy=lazy, tol=0.0, maxiter=steps)
        assert res.nit <= steps
        f, g, domain = problem(2)
        res = dcfw.minimize(f - g, domain, inner=rule, lazy=lazy, tol=0.0, maxiter=3, max_inner=max(steps, 1))
        assert (np.diff(res.history["n_inner"]) <= max(steps, 1)).all()


@loops
def test_a_time_limit_ends_lazy_steps_too(rule, lazy):
    f, g, _ = problem(2, affine=False)

    class Slow(Counted):
        def grad(self, x):
            time.sleep(0.02)
            return super().grad(x)

    slow = Slow(f.quadratic.A, f.quadratic.b, affine=False)
    begun = time.perf_counter()
    res = dcfw.minimize(slow - g, CountedSet(), inner=rule, lazy=lazy, tol=0.0, time_limit=0.15)
    assert res.status is Status.TIME_LIMIT
    assert time.perf_counter() - begun < 5.0
    phi = f.quadratic.value(res.x) - g.quadratic.value(res.x)
    assert res.fun == pytest.approx(phi)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("at", [2, 4])
@loops
def test_ctrl_c_returns_the_best_point_so_far(rule, lazy, affine, at):
    f, g, domain = problem(2, affine=affine, fails_at=at, fault="interrupt")
    res = dcfw.minimize(f - g, domain, inner=rule, lazy=lazy, tol=0.0)
    assert res.status is Status.INTERRUPTED
    start = domain.start()
    assert res.fun <= f.quadratic.value(start) - g.quadratic.value(start)
    assert domain.contains(res.x)
    if res.active_set is not None:
        np.testing.assert_allclose(res.active_set.point(), res.x, atol=1e-12)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("fault", [math.nan, math.inf])
@pytest.mark.parametrize("at", [1, 2, 3])
@loops
def test_a_gradient_that_is_not_finite_is_named(rule, lazy, at, fault, affine):
    f, g, domain = problem(2, affine=affine, fails_at=at, fault=fault)
    with np.errstate(invalid="ignore"):
        res = dcfw.minimize(f - g, domain, inner=rule, lazy=lazy, tol=0.0)
    assert res.status is Status.BAD_ORACLE
    assert "f.grad" in res.message
    assert np.isfinite(res.x).all()


@loops
def test_a_function_that_is_not_convex_is_found_out(rule, lazy):
    A = np.diag([1.0, 1.0, -5.0])
    f = functions.Quadratic(A, np.array([0.5, 0.4, 0.0]), convex=True)  # false
    res = dcfw.minimize(
        f - functions.Zero(), sets.Simplex(3), np.array([0.3, 0.3, 0.4]), inner=rule, lazy=lazy, tol=0.0
    )
    assert res.status is Status.NOT_CONVEX
    assert res.dc_gap == (0.0, math.inf)


DOMAINS = {
    "simplex": sets.Simplex(4, radius=2.0),
    "l1": sets.L1Ball(4),
    "cube": sets.LInfBall(4),
    "k-sparse": sets.KSparse(4, k=2),
    "nuclear": sets.NuclearBall((2, 2)),
}


@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(sorted(DOMAINS)),
    loop=st.sampled_from(LOOPS),
    tolerance=st.sampled_from(["adaptive", "progress", 0.2, 0.01]),
    budget=st.sampled_from([{"max_inner": 1}, {"max_inner": 3}, {"max_lmo": 7}, {"max_lmo": 200}]),
    smooth=st.booleans(),
)
def test_every_certificate_contains_the_dc_gap(seed, name, loop, tolerance, budget, smooth):
    rng = np.random.default_rng(seed)
    domain = DOMAINS[name]
    f = functions.Quadratic(symmetric(rng, 4, rng.choice([0.0, 1.0]), 2.0), rng.standard_normal(4))
    g = functions.Quadratic(symmetric(rng, 4, 0.0, 3.0), rng.standard_normal(4))
    given_f = functions.Smooth(f.value, f.grad, lipschitz=2.0, convex=True) if smooth else f
    x0 = domain.random(rng)
    rule, lazy = loop
    res, iterates = trace(
        dcfw.minimize, given_f - g, domain, x0,
        inner=rule, lazy=lazy, tolerance=tolerance, **{"tol": 1e-3, "maxiter": 6, "max_lmo": 60, **budget},
    )  # fmt: skip
    slack = rounding(x0, 100 * res.n_inner, size_of(f - g, domain, x0))
    for x, low, high in zip(iterates, res.history["dc_low"], res.history["dc_high"], strict=True):
        below, above, _ = surrogate_gap(f, g.grad(x), domain, x, 2.0, accuracy=1e-8)
        assert low <= above + slack
        assert high >= below - slack


class RoughCube(sets.LInfBall):
    """A cube whose oracle answers with a point on the way to the best corner and says how far off it is."""

    def oracle(self):
        return RoughOracle(self)


class RoughOracle(sets.Oracle):
    def __call__(self, G):
        self.error = 0.05 * float(abs(G).sum())
        return Dense(0.95 * super().__call__(G).dense())


@loops
def test_an_inexact_oracle_is_accounted_for_and_ends_with_its_own_words(rule, lazy):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        f = functions.Quadratic(symmetric(rng, 3, 0.5, 3.0), rng.standard_normal(3), convex=True)
        g = functions.Quadratic(symmetric(rng, 3, 0.0, 0.4), convex=True)
        x0 = 0.5 * rng.uniform(-1.0, 1.0, 3)
        res, iterates = trace(
            dcfw.minimize, f - g, RoughCube(3), x0, inner=rule, lazy=lazy, tol=1e-9, maxiter=50, max_lmo=500
        )
        exact = sets.LInfBall(3)
        for x, low, high, gap in zip(
            iterates, *(res.history[c] for c in ("dc_low", "dc_high", "gap")), strict=True
        ):
            G = f.grad(x) - g.grad(x)
            assert gap >= float(G @ (x - exact.lmo(G))) - 1e-12
            below, above, _ = surrogate_gap(f, g.grad(x), exact, x, 3.0)
            assert low <= above + 1e-9
            assert high >= below - 1e-9
        assert res.status is not Status.BAD_ORACLE
        assert res.status is not Status.NOT_CONVEX
        if res.status is Status.NO_PROGRESS:
            assert "rounding" in res.message or "error bound" in res.message
