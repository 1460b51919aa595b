"""Boosted DC-FW: a line search after each outer step, which costs next to nothing and never hurts."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_oracle_counts import Counted, CountedSet

import dcfw
from dcfw import Status, functions, sets, splits
from dcfw._arrays import to_numpy
from dcfw.sets.base import bisected_reach
from dcfw.solvers.boosted import BoostedDCFW, _landing, _reach
from dcfw.solvers.dcfw import DCFW, Iterate
from reference_gaps import surrogate_gap, symmetric, trace
from set_cases import every_set

pytestmark = pytest.mark.usefixtures("no_second_gap")

N = 12


def indefinite(seed, n=N, low=-3.0, high=3.0):
    rng = np.random.default_rng(seed)
    return functions.Quadratic(symmetric(rng, n, low, high), rng.standard_normal(n))


def smooth(seed=0, n=N):
    """Sigmoid losses: smooth, neither convex nor concave, not quadratic."""
    W = np.random.default_rng(seed).standard_normal((20, n)) / 2

    def sigma(x):
        return 1.0 / (1.0 + np.exp(-(W @ x.ravel())))

    return functions.Smooth(
        lambda x: float(sigma(x).sum()),
        lambda x: (W.T @ (sigma(x) * (1 - sigma(x)))).reshape(x.shape),
        lipschitz=0.1 * np.linalg.norm(W, 2) ** 2,
    )


def kinked(seed=0, n=N):
    f = functions.Quadratic(symmetric(np.random.default_rng(seed), n, 0.5, 4.0), convex=True)
    return f - functions.L1Norm(0.7)


DOMAINS = [
    sets.Simplex(N),
    sets.L1Ball(N, radius=2.0),
    sets.L2Ball(N),
    sets.LInfBall(N),
    sets.LpBall(N, p=1.5),
    sets.KSparse(N, k=3),
    sets.Birkhoff(3),
    sets.Spectraplex(3),
    sets.NuclearBall((3, 3)),
    sets.Product([sets.Simplex(4), sets.Box(-1.0, 1.0, shape=8)]),
]
OBJECTIVES = {
    "sliding": lambda n: splits.sliding(indefinite(0, n)),
    "proximal": lambda n: splits.proximal(indefinite(0, n)),
    "smooth, sliding": lambda n: splits.sliding(smooth(n=n)),
    "smooth, proximal": lambda n: splits.proximal(smooth(n=n)),
    "nonsmooth g": lambda n: kinked(n=n),
}


class Compared(BoostedDCFW):
    """Notes phi where the inner loop ended and where the search has led to."""

    def move(self, problem, run, x_t, X_t):
        x = super().move(problem, run, x_t, X_t)
        pairs.append((X_t.x, x.x))
        return x


pairs: list = []


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("inner", ["fw", "pairwise", "blended"])
def test_phi_is_never_higher_than_without_the_search(objective, domain, inner):
    phi = OBJECTIVES[objective](math.prod(domain.shape))
    pairs.clear()
    x0 = domain.random(3)
    res = dcfw.minimize(
        phi, domain, x0, method=Compared(), inner=inner, tol=0.0, rtol=1e-2, maxiter=25, max_inner=60
    )
    assert len(pairs) >= res.nit
    size = 1.0 + max(abs(phi.value(x)) for x, _ in pairs)
    for unboosted, boosted in pairs:
        assert phi.value(boosted) <= phi.value(unboosted) + 1e-13 * size
        assert domain.contains(boosted)
    assert (np.diff(res.history["fun"]) <= 1e-12 * size).all()
    # What was extrapolated is what it claims to be: the gap of the last point, from scratch.
    grad = phi.grad(res.x)
    assert res.gap == pytest.approx(np.vdot(grad, res.x - domain.lmo(grad)), rel=1e-6, abs=1e-8)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_search_is_exact_for_quadratics(seed):
    phi, domain = indefinite(seed), sets.LInfBall(N)
    pairs.clear()
    dcfw.minimize(splits.sliding(phi), domain, domain.random(seed), method=Compared(), maxiter=1)
    unboosted, boosted = pairs[0]
    d = boosted - unboosted
    reach = domain.reach(unboosted, d) if d.any() else 0.0
    for further in np.linspace(0.0, min(reach, 3.0), 7):
        assert phi.value(boosted) <= phi.value(unboosted + further * d) + 1e-12 * (
            1.0 + abs(phi.value(boosted))
        )


@pytest.mark.parametrize(("inner", "least"), [("fw", 1.7), ("blended", 1.25)])
def test_fewer_outer_steps_and_calls_of_the_oracle(inner, least):
    steps, calls = [], []
    for seed in range(8):
        phi = indefinite(seed, 30)
        for domain in (sets.Simplex(30), sets.L1Ball(30), sets.LInfBall(30)):
            for split in (splits.sliding, splits.proximal):
                x0 = domain.random(seed)
                kwargs = {"inner": inner, "tol": 0.0, "rtol": 1e-2, "max_lmo": 3000}
                plain, boosted = (
                    dcfw.minimize(split(phi), domain, x0, method=method, **kwargs)
                    for method in ("dcfw", "boosted")
                )
                assert boosted.success
                steps.append(math.log((plain.nit + 1) / (boosted.nit + 1)))
                calls.append(math.log(plain.n_lmo / boosted.n_lmo))
    # Measured, on average: 2.5 times fewer steps and 4.1 times fewer calls (vanilla), 1.6 and 1.6 (blended).
    assert math.exp(np.mean(steps)) >= least
    assert math.exp(np.mean(calls)) >= least


def test_a_quadratic_costs_no_oracle_call_more():
    i = np.arange(8.0)
    M = np.cos(np.outer(i, i + 1.0)) + np.diag(1.0 + 0.1 * i)
    calls = Counter()
    f = Counted(functions.Quadratic(M @ M.T / 8, 0.2 * np.sin(i)), "f", calls)
    g = Counted(functions.SquaredNorm(0.2), "g", calls)
    res = dcfw.minimize(f - g, CountedSet(sets.Simplex(8), calls), method="boosted", tol=1e-3)
    assert res.success
    assert res.nit > 2
    assert res.n_resync == 0
    assert res.n_grad_g == res.nit + 1 == calls["g.grad"]
    assert res.n_lmo == res.n_inner + res.nit + 1 == calls["lmo"]
    assert res.n_grad_f == res.n_inner + 1 == calls["f.grad"]
    assert res.n_fun == 1 == calls["f.value"]


def test_other_functions_cost_values_that_are_counted():
    i = np.arange(8.0)
    M = np.cos(np.outer(i, i + 1.0)) + np.diag(1.0 + 0.1 * i)
    calls = Counter()
    f = Counted(functions.Quadratic(M @ M.T / 8, 0.2 * np.sin(i)), "f", calls)
    g = Counted(functions.L1Norm(0.3), "g", calls)
    domain = CountedSet(sets.L2Ball(8), calls)
    res = dcfw.minimize(f - g, domain, method="boosted", tol=1e-3)
    assert res.success
    assert res.nit > 1
    assert res.n_grad_g == res.nit + 1 == calls["g.grad"]
    assert res.n_lmo == res.n_inner + res.nit + 1 == calls["lmo"]
    assert res.n_grad_f == res.n_inner + 1 == calls["f.grad"]  # f is quadratic: its gradient is free
    assert res.n_fun == calls["f.value"]
    assert res.n_fun <= 1 + res.nit * 5


def test_a_smooth_f_costs_at_most_one_gradient_more_per_outer_step():
    calls = Counter()
    phi = smooth()
    p = Counted(phi, "p", calls, free_value=False)
    p.convex = None
    res = dcfw.minimize(
        splits.proximal(p, phi.lipschitz), sets.L2Ball(N), method="boosted", step="short", tol=1e-3
    )
    assert res.success
    assert res.n_grad_f + res.n_resync == calls["p.grad"]
    assert res.n_grad_f <= res.n_inner + 1 + res.nit
    assert res.n_fun == calls["p.value"]


def test_the_certificates_are_those_of_the_unboosted_step():
    domain, dc = sets.L2Ball(N), splits.proximal(indefinite(4))
    res, iterates = trace(dcfw.minimize, dc, domain, domain.random(1), method="boosted", tol=1e-5)
    assert res.method == "boosted"
    for x, low, high in zip(iterates, res.history["dc_low"], res.history["dc_high"], strict=True):
        true = surrogate_gap(dc.f, dc.g.grad(x), domain, x, dc.f.lipschitz)
        assert low - 1e-9 <= true[1]
        assert true[0] <= high + 1e-9


@pytest.mark.parametrize("rule", ["away", "pairwise", "blended"])
@pytest.mark.parametrize("domain", [sets.Simplex(9), sets.L1Ball(9), sets.Birkhoff(3)], ids=repr)
def test_the_active_set_follows_the_boosted_point(rule, domain):
    for split in (splits.sliding, splits.proximal):
        phi = split(indefinite(2, 9))
        res = dcfw.minimize(phi, domain, domain.random(5), method="boosted", inner=rule, tol=1e-4)
        assert res.success
        assert res.active_set is not None
        np.testing.assert_allclose(res.active_set.point(), res.x, atol=1e-9)
        assert (res.active_set.weights >= 0.0).all()
        assert res.active_set.weights.sum() == pytest.approx(1.0)


def test_errors_of_extrapolated_gradients_do_not_pile_up():
    # Long runs with long steps: the gradients at the end are still those of the point.
    phi, domain = indefinite(1, 30, low=-0.01, high=10.0), sets.LInfBall(30)
    res = dcfw.minimize(splits.sliding(phi), domain, method="boosted", tol=1e-9, maxiter=3000, max_lmo=20_000)
    grad = phi.grad(res.x)
    assert res.history["gap"][-1] >= 0.0
    assert res.gap == pytest.approx(np.vdot(grad, res.x - domain.lmo(grad)), abs=1e-9)


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_other_backends_take_the_same_steps(backend):
    xp = pytest.importorskip(backend)
    phi, domain = indefinite(3), sets.Simplex(N)
    x0 = domain.random(2)
    ours = dcfw.minimize(splits.sliding(phi), domain, x0, method="boosted", rtol=1e-2)
    other = functions.Quadratic(xp.asarray(phi.A), xp.asarray(phi.b))
    res = dcfw.minimize(
        splits.sliding(other, phi.lipschitz), domain, xp.asarray(x0), method="boosted", rtol=1e-2
    )
    assert (res.nit, res.n_lmo) == (ours.nit, ours.n_lmo)
    np.testing.assert_allclose(to_numpy(res.x), ours.x, atol=1e-9)


class Ball:
    """A user's set with the three verbs only."""

    def lmo(self, G):
        return -G / np.linalg.norm(G)

    def contains(self, x):
        return float(x @ x) <= 1 + 1e-9

    def start(self):
        return np.full(N, 0.1)


@pytest.mark.parametrize("objective", ["sliding", "smooth, proximal", "nonsmooth g"])
def test_the_reach_of_a_set_without_one_is_found_by_bisection(objective):
    phi = OBJECTIVES[objective](N)
    own = dcfw.minimize(phi, Ball(), method="boosted", tol=1e-3, maxiter=500)
    ours = dcfw.minimize(phi, sets.L2Ball(N), Ball().start(), method="boosted", tol=1e-3, maxiter=500)
    assert own.success
    assert ours.success
    assert Ball().contains(own.x)
    assert own.fun == pytest.approx(ours.fun, abs=2e-2)


def test_a_users_set_may_have_a_reach_without_a_tangent():
    class Edge(Ball):
        asked = 0

        def reach(self, x, d):
            self.asked += 1
            return sets.L2Ball(N).reach(x, d)

    domain = Edge()
    phi = OBJECTIVES["sliding"](N)
    own = dcfw.minimize(phi, domain, method="boosted", tol=1e-3, maxiter=500)
    ours = dcfw.minimize(phi, sets.L2Ball(N), Ball().start(), method="boosted", tol=1e-3, maxiter=500)
    assert own.success
    assert domain.asked > 0
    assert own.nit == ours.nit


@pytest.mark.parametrize("limit", [{"maxiter": 3}, {"max_lmo": 9}, {"time_limit": 0.0}, {"maxiter": 0}])
def test_budgets_end_a_boosted_run_as_any_other(limit):
    phi = indefinite(0, 30, low=-0.5)
    res = dcfw.minimize(splits.sliding(phi), sets.L2Ball(30), method="boosted", tol=0.0, **limit)
    assert res.status in (Status.MAXITER, Status.MAX_LMO, Status.TIME_LIMIT)
    assert res.n_lmo <= limit.get("max_lmo", 10**9)
    assert res.nit <= limit.get("maxiter", 10**9)
    assert math.isfinite(res.gap)


def test_boosting_is_one_method_of_the_same_outer_loop():
    assert BoostedDCFW.solve is DCFW.solve
    with pytest.raises(ValueError, match=r"method must be one of 'auto', 'dcfw', 'boosted'"):
        dcfw.minimize(indefinite(0), sets.Simplex(N), method="boost")


# -- how far a set goes ----------------------------------------------------------------------------------


@every_set
def test_reach_ends_at_the_edge_of_the_set(case):
    domain = case.domain
    rng = np.random.default_rng(0)
    scale = max(1.0, float(np.abs(domain.lmo(np.ones(domain.shape))).max()))
    for trial in range(4):
        x = np.asarray(domain.random(rng))
        towards = domain.lmo(rng.standard_normal(domain.shape)) if trial % 2 else domain.random(rng)
        d = 0.3 * (np.asarray(towards) - x)
        if np.abs(d).max() < 1e-9:
            continue
        step = domain.reach(x, d)
        assert step >= 1.0 / 0.3 * (1.0 - 1e-6)  # the point it was aimed at is inside
        assert domain.contains(x + step * d, 1e-9)
        assert not domain.contains(x + (1.0 + 1e-5) * step * d + 0.0, 1e-10 * scale)
    assert domain.reach(x, np.zeros(domain.shape)) == math.inf


@given(st.integers(0, 10**6), st.sampled_from([sets.L1Ball(5), sets.KSparse(5, k=2), sets.L2Ball(5)]))
def test_closed_forms_of_reach_agree_with_bisection(seed, domain):
    rng = np.random.default_rng(seed)
    x, y = domain.random(rng), domain.random(rng)
    x[rng.random(5) < 0.3] = 0.0  # corners of the l1 norm
    d = y - x
    d[rng.random(5) < 0.2] = 0.0
    if not d.any():
        return
    expected = bisected_reach(lambda z: domain.violation(z) <= 0.0, x, d)
    assert domain.reach(x, d) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_reach_from_the_edge_outwards_is_nothing():
    assert sets.Simplex(2).reach(np.array([0.0, 1.0]), np.array([-1.0, 1.0])) == 0.0
    assert sets.L2Ball(2).reach(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == pytest.approx(0.0, abs=1e-12)
    assert sets.L1Ball(2).reach(np.array([0.5, 0.5]), np.array([1.0, 1.0])) == 0.0
    assert sets.L1Ball(2).reach(np.array([0.5, 0.5]), np.array([1.0, -1.0])) == 0.5
    assert sets.Box(0.0, 1.0, shape=2).reach(np.array([1.0, 0.5]), np.array([1.0, 0.0])) == 0.0


def test_a_step_without_a_search_keeps_count_of_how_far_rounding_has_grown():
    g = functions.SquaredNorm(1.0)
    x, flat = np.array([0.3, 0.7]), np.zeros(2)
    problem = SimpleNamespace(f=g, g=g)
    run = SimpleNamespace(linearise=lambda function, point: function.linearise(point))
    x_t = Iterate(x, g.grad(x), None, g.linearise(x), (7.0, 1.0))
    state = SimpleNamespace(x=x, grad=g.grad(x), value=None)
    assert BoostedDCFW()._exact(problem, run, x_t, state, flat).memory == (7.0, 1.0)


def searched(phi, reach, wish=1.0):
    """Search on a line from x_{t+1} = 1 (x_t = 0); return what is found and where phi was asked."""
    asked = []

    def value(_, x):
        asked.append(float(x[0]))
        return phi(float(x[0]))

    f = functions.Smooth(lambda x: 0.0, lambda x: np.array([-1.0]))
    g = functions.SquaredNorm(0.0)
    domain = sets.Box(0.0, 1.0 + reach, shape=1)
    problem = SimpleNamespace(phi=None, f=f, g=g, domain=domain, inner=None)
    run = SimpleNamespace(
        value=value, linearise=lambda g, x: g.linearise(x), grad_f=lambda f, x: f.grad(x), n_resync=0
    )
    x_t = Iterate(np.zeros(1), np.array([-1.0]), 0.0, g.linearise(np.zeros(1)), (0.0, wish))
    X = SimpleNamespace(x=np.ones(1), grad=np.array([-1.0]), value=0.0)
    found = BoostedDCFW()._search(problem, run, x_t, X, np.ones(1))
    return found, asked


def test_a_trial_that_does_not_bring_enough_is_halved_until_one_does():
    found, asked = searched(lambda t: (t - 1.2) ** 2, reach=8.0, wish=4.0)
    assert asked == [1.0, 5.0, 3.0, 2.0, 1.5]  # 4, 2, 1 and 1/2 beyond x_{t+1}; there are four trials
    assert found.x == 1.0
    found, asked = searched(lambda t: (t - 1.2) ** 2, reach=8.0, wish=1.0)
    assert asked == [1.0, 2.0, 1.5, 1.25, 1.5]
    assert found.x == 1.25


def test_a_trial_that_brings_enough_is_doubled_while_phi_falls():
    found, asked = searched(lambda t: (t - 3.2) ** 2, reach=8.0, wish=1.0)
    assert asked == [1.0, 2.0, 3.0, 5.0]
    assert found.x == 3.0
    assert found.memory[1] == 4.0  # what the next search begins with


def test_each_recomputed_gradient_is_counted(monkeypatch):
    monkeypatch.setattr("dcfw.solvers.boosted.DRIFT", 0.0)
    pairs.clear()
    res = dcfw.minimize(kinked(), sets.L2Ball(N), sets.L2Ball(N).random(3), method=Compared(), tol=1e-6)
    landed = sum(x is not y for x, y in pairs)
    assert landed > 1
    assert res.n_resync == landed


@pytest.mark.parametrize("rule", ["away", "pairwise"])
def test_the_atoms_make_up_the_point_to_which_a_search_has_led(rule):
    pairs.clear()
    domain = sets.Simplex(9)
    phi = splits.proximal(indefinite(2, 9))
    res = dcfw.minimize(phi, domain, np.eye(9)[0], method=Compared(), inner=rule, maxiter=1)
    (unboosted, boosted), *_ = pairs
    assert not np.array_equal(unboosted, boosted)
    np.testing.assert_array_equal(res.x, boosted)
    np.testing.assert_allclose(res.active_set.point(), res.x, atol=1e-13)
    assert all(atom.dense().max() == 1.0 for atom in res.active_set.atoms)  # vertices, all of them


def landing(domain, x, step, d):
    return _landing(SimpleNamespace(inner=None, domain=domain), x, step, d)


def test_a_step_that_would_land_outside_of_the_set_is_refused():
    x, d = np.zeros(3), np.array([1.0, 0.0, 0.0])
    for ball in (
        sets.L2Ball(3),
        SimpleNamespace(contains=lambda x, tol: bool(x @ x <= 1.0), tangent=lambda d: d),
    ):
        np.testing.assert_array_equal(landing(ball, x, 0.9, d), 0.9 * d)
        assert landing(ball, x, 1.0 + 1e-6, d) is None


def test_the_way_to_the_edge_is_taken_along_the_set():
    x = np.full(3, 1.0 / 3.0)
    along, across = np.array([1.0, -1.0, 0.0]), np.full(3, 1e-9)
    problem = SimpleNamespace(inner=None, domain=sets.Simplex(3))
    assert _reach(problem, x, along + across) == pytest.approx(1.0 / 3.0)
    assert sets.Simplex(3).contains(landing(sets.Simplex(3), x, 0.3, along + across), 0.0)
