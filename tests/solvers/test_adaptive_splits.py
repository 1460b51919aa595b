"""L="auto": the constant of a split, found from the curvature that is met on the way."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from test_oracle_counts import Counted, CountedSet

import dcfw
from dcfw import Status, functions, gaps, sets, splits
from dcfw._arrays import to_numpy
from dcfw.functions.base import Linearisation
from dcfw.solvers.adaptive import ATTEMPTS, _drowns
from dcfw.solvers.dcfw import Iterate
from reference_gaps import surrogate_gap, symmetric, trace

pytestmark = pytest.mark.usefixtures("no_second_gap")

N = 12


def indefinite(seed=0, n=N, low=-3.0, high=8.0):
    rng = np.random.default_rng(seed)
    return functions.Quadratic(symmetric(rng, n, low, high), rng.standard_normal(n))


def quartic(seed=0):
    """Phase retrieval: a polynomial of degree four, whose curvature differs from place to place."""
    A = np.random.default_rng(seed).standard_normal((30, N)) / math.sqrt(N)
    b = (A @ np.ones(N)) ** 2

    def residual(x):
        return (A @ x) ** 2 - b

    return functions.Smooth(
        lambda x: 0.25 * float(residual(x) @ residual(x)), lambda x: A.T @ (residual(x) * (A @ x))
    )


def kinked():
    return indefinite(3) - functions.L1Norm(0.5)


def concave():
    """The smallest of a few paraboloids."""
    rng = np.random.default_rng(5)
    centres, offsets = rng.standard_normal((5, N)), rng.random(5)

    def values(x):
        return 1.5 * ((x - centres) ** 2).sum(axis=1) + offsets

    return functions.WeaklyConcave(
        lambda x: float(values(x).min()), lambda x: 3.0 * (x - centres[values(x).argmin()])
    )


CASES = {
    "sliding, quadratic": (splits.sliding, indefinite),
    "sliding, quartic": (splits.sliding, quartic),
    "sliding, p - q": (splits.sliding, kinked),
    "sliding, weakly concave": (splits.sliding, concave),
    "proximal, quadratic": (splits.proximal, indefinite),
    "proximal, quartic": (splits.proximal, quartic),
    "proximal, p - q": (splits.proximal, kinked),
}
DOMAINS = [
    sets.Simplex(N, radius=2.0),
    sets.L1Ball(N, radius=2.0),
    sets.L2Ball(N, radius=2.0),
    sets.LInfBall(N),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("inner", "method"), [("fw", "dcfw"), ("blended", "dcfw"), ("fw", "boosted"), ("pairwise", "boosted")]
)
def test_phi_falls_to_a_stationary_point(case, domain, inner, method):
    split, make = CASES[case]
    phi = make()
    x0 = domain.random(0)
    res = dcfw.minimize(split(phi, L="auto"), domain, x0, inner=inner, method=method, tol=0.0, rtol=1e-2)
    assert res.status is Status.CONVERGED, res
    assert (np.diff(res.history["fun"]) <= 1e-12 * (1.0 + abs(res.fun))).all()
    assert res.fun == pytest.approx(phi.value(res.x), rel=1e-12)
    assert domain.contains(res.x)
    if phi.differentiable:
        grad = phi.grad(res.x)
        assert grad @ (res.x - domain.lmo(grad)) == pytest.approx(res.gap, rel=1e-6, abs=1e-8)
    assert len(res.L_history) == res.nit
    assert all(L > 0.0 for L in res.L_history)
    assert res.split == case.split(",")[0] + "(L=auto)"
    assert res.method == method


@pytest.mark.parametrize("make", [indefinite, quartic])
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_every_accepted_point_lies_below_its_surrogate(make, domain):
    phi = make()
    res, iterates = trace(dcfw.minimize, splits.sliding(phi, L="auto"), domain, domain.random(1), rtol=1e-2)
    assert res.nit >= 1
    for x, y, L in zip(iterates, iterates[1:], res.L_history, strict=False):
        d = y - x
        bound = phi.value(x) + phi.grad(x) @ d + 0.5 * L * (d @ d)
        assert phi.value(y) <= bound + 1e-11 * (1.0 + abs(bound))


def test_the_certificates_contain_the_true_gap_where_their_condition_holds():
    domain = sets.L2Ball(N)
    checked = 0
    for split in (splits.sliding, splits.proximal):
        for seed in range(4):
            phi = indefinite(seed, low=-6.0, high=6.0)
            enough = phi.lipschitz if split is splits.sliding else phi.weak_convexity
            res, iterates = trace(
                dcfw.minimize, split(phi, L="auto"), domain, domain.random(seed), tol=1e-4, inner="fw"
            )
            used = [*res.L_history, res.L_history[-1]]
            assert f"L = {used[min(res.dc_gap_nit, res.nit)]:.6g}" in res.conditional
            assert "found from the curvature" in res.conditional
            rows = zip(iterates, used, res.history["dc_low"], res.history["dc_high"], strict=True)
            for x, L, low, high in rows:
                # f of the sliding split is convex for every L; that of the proximal one is if L is enough.
                if split is splits.proximal and enough > L:
                    continue
                checked += 1
                dc = split(phi, L)
                true = surrogate_gap(dc.f, dc.g.grad(x), domain, x, dc.f.lipschitz)
                assert low - 1e-8 <= true[1]
                assert true[0] <= high + 1e-8
    assert checked >= 10


@pytest.mark.parametrize("make", [indefinite, quartic])
@pytest.mark.parametrize("split", [splits.sliding, splits.proximal])
def test_no_more_gradients_than_a_small_multiple_of_the_best_fixed_constant(split, make):
    def gradients(res):
        return res.n_grad_g if split is splits.sliding else res.n_grad_f

    ratios = []
    for seed in range(2):
        phi = make(seed)
        for domain in DOMAINS:
            kwargs = {"inner": "fw", "tol": 0.0, "rtol": 1e-2, "max_lmo": 4000, "maxiter": 400}
            x0 = domain.random(seed)
            fixed = [dcfw.minimize(split(phi, L), domain, x0, **kwargs) for L in (0.3, 1.0, 3.0, 10.0, 30.0)]
            best = min((gradients(res) for res in fixed if res.success), default=None)
            auto = dcfw.minimize(split(phi, L="auto"), domain, x0, **kwargs)
            assert auto.success
            if best is not None:
                ratios.append(gradients(auto) / best)
    assert len(ratios) >= 6
    # Measured: 0.6 to 0.9 on average, 2.9 at worst.
    assert math.exp(np.mean(np.log(ratios))) <= 1.5
    assert max(ratios) <= 5.0


def test_a_step_made_again_costs_no_gradient_of_phi():
    calls = Counter()
    i = np.arange(8.0)
    phi = functions.Smooth(lambda x: float((x**4).sum() + i @ x), lambda x: 4 * x**3 + i)
    p = Counted(phi, "p", calls, free_value=False)
    p.convex = None
    domain = CountedSet(sets.LInfBall(8), calls)
    res = dcfw.minimize(splits.sliding(p, L="auto"), domain, np.full(8, 0.9), tol=0.0, maxiter=15)
    assert res.nit == 15
    assert res.n_lmo > res.n_inner + res.nit + 1  # some steps were made again
    assert calls["p.grad"] == res.n_grad_g == res.nit + 1
    assert calls["lmo"] == res.n_lmo
    # One value tests each attempt, one comes with each gradient, one is the result's.
    assert calls["p.value"] == res.n_fun + res.n_grad_g


def test_the_proximal_split_enlarges_its_constant_instead_of_giving_up():
    phi = functions.Quadratic(np.diag([1.0, -1.0, -2.0]), np.array([1.0, 0.0, 0.0]))
    x0, domain = np.array([0.2, 0.4, 0.4]), sets.L2Ball(3)
    assert dcfw.minimize(splits.proximal(phi, 0.1), domain, x0).status is Status.NOT_CONVEX
    res = dcfw.minimize(splits.proximal(phi, L="auto"), domain, x0)
    assert res.success
    assert max(res.L_history) >= 0.5


def test_the_constant_follows_the_curvature_down():
    # Steep where it starts, flat where it ends: a fixed constant would have to be the larger one.
    phi = functions.Smooth(lambda x: float((x**4).sum() + 0.05 * (x**2).sum()), lambda x: 4 * x**3 + 0.1 * x)
    domain = sets.L2Ball(N, radius=3.0)
    x0 = np.r_[2.9, np.zeros(N - 1)]
    res = dcfw.minimize(splits.sliding(phi, L="auto"), domain, x0, tol=1e-4, inner="blended")
    assert res.success
    assert min(res.L_history) <= 0.1 * max(res.L_history)


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 20, 33])
@pytest.mark.parametrize("split", [splits.sliding, splits.proximal])
def test_the_lmo_budget_holds_for_steps_made_again(split, budget):
    domain, phi = sets.Simplex(N), indefinite(1, low=-0.5)
    x0 = domain.random(2)
    res = dcfw.minimize(split(phi, L="auto"), domain, x0, inner="fw", max_lmo=budget, tol=0.0)
    assert res.n_lmo <= budget
    assert res.status is Status.MAX_LMO
    grad = phi.grad(res.x)
    assert res.gap == pytest.approx(grad @ (res.x - domain.lmo(grad)), rel=1e-6) or math.isnan(res.gap)
    assert res.fun <= phi.value(x0) + 1e-12


def test_values_that_contradict_the_gradient_end_the_run():
    # Every step looks worse than any surrogate allows.
    visited = [0.0]

    def value(x):
        visited.append(visited[-1] + 1.0)
        return visited[-1]

    phi = functions.Smooth(value, lambda x: np.ones(3))
    res = dcfw.minimize(splits.sliding(phi, L="auto"), sets.Simplex(3), np.array([0.2, 0.3, 0.5]), tol=1e-9)
    assert res.status in (Status.LINE_SEARCH, Status.BAD_ORACLE, Status.NO_PROGRESS)
    assert res.n_lmo <= 40 * ATTEMPTS


def test_a_wrong_gradient_does_not_loop_for_ever():
    phi = functions.Smooth(lambda x: float(x @ x), lambda x: -2.0 * x - 1.0)  # uphill
    res = dcfw.minimize(splits.sliding(phi, L="auto"), sets.L2Ball(3), np.array([0.1, 0.2, 0.1]), maxiter=50)
    assert res.status in (Status.LINE_SEARCH, Status.NO_PROGRESS)
    assert not res.success


def test_each_restart_finds_its_own_constant():
    res = dcfw.minimize(splits.sliding(quartic(), L="auto"), sets.L2Ball(N), restarts=3, rng=0, rtol=1e-2)
    assert len(res.restart_values) == 3
    assert len(res.L_history) == res.nit


def test_it_runs_in_torch():
    torch = pytest.importorskip("torch")
    phi, domain = indefinite(2), sets.Simplex(N)
    x0 = domain.random(4)
    ours = dcfw.minimize(splits.sliding(phi, L="auto"), domain, x0, inner="fw", rtol=1e-1)
    other = functions.Quadratic(torch.asarray(phi.A), torch.asarray(phi.b))
    res = dcfw.minimize(splits.sliding(other, L="auto"), domain, torch.asarray(x0), inner="fw", rtol=1e-1)
    np.testing.assert_allclose(to_numpy(res.x), ours.x, atol=1e-8)
    np.testing.assert_allclose(res.L_history, ours.L_history, rtol=1e-6)


@pytest.mark.parametrize("method", ["fw-k", "fw-m"])
def test_methods_that_cannot_find_the_constant_say_so(method):
    with pytest.raises(ValueError, match=r"L='auto', which method 'fw-.' cannot find: use 'dcfw'"):
        dcfw.minimize(splits.sliding(indefinite(), L="auto"), sets.Simplex(N), method=method)


def test_methods_without_a_split_do_not_mind():
    res = dcfw.minimize(splits.sliding(indefinite(), L="auto"), sets.Simplex(N), method="fw", rtol=1e-2)
    assert res.success


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: splits.sliding(indefinite(), L="automatic"), TypeError, r"L must be a real number"),
        (lambda: splits.proximal(concave(), L="auto"), ValueError, r"phi must be smooth.*splits\.sliding"),
        (lambda: splits.strengthen(splits.sliding(indefinite(), L="auto"), 1.0), ValueError, r"known L"),
        (
            lambda: gaps.dc_gap(splits.proximal(indefinite(), L="auto"), sets.Simplex(N), np.full(N, 1 / N)),
            ValueError,
            r"objective must have a known L",
        ),
    ],
)
def test_bad_input_is_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_gradient_drowns_where_rounding_of_the_shift_is_a_thousandth_of_it(size):
    x = np.array([3.0, 4.0])
    x_t = Iterate(x, np.array([2.0 * size, 0.0]), None, Linearisation(0.0, np.array([size, 0.0]), True))
    edge = 1e-3 * size / (np.finfo(np.float64).eps * 5.0)
    assert not _drowns(x_t, 0.99 * edge)
    assert _drowns(x_t, 1.01 * edge)


def test_a_condition_of_the_objective_is_stated_beside_that_of_the_constant():
    dc = functions.DC(
        functions.SquaredNorm(1.0), functions.SquaredNorm(0.5), conditional="the data are right"
    )
    res = dcfw.minimize(splits.sliding(dc, L="auto"), sets.L2Ball(3), np.full(3, 0.2), maxiter=3)
    assert "the data are right" in res.conditional
    assert "found from the curvature" in res.conditional


def test_the_gap_of_a_run_cut_short_is_that_of_phi_however_small_phi_is():
    # The last look at a result once took the gradient as a difference of the parts, whose L has nothing to do
    # with phi before the solver has found it: a tiny phi drowned in rounding, and the gap came out as 0.
    A = np.diag([3.0, -1.0, 2.0])
    for scale in (1.0, 1e-18):
        phi = functions.Smooth(lambda x, s=scale: 0.5 * s * float(x @ A @ x), lambda x, s=scale: s * (A @ x))
        split, start = splits.sliding(phi, L="auto"), np.full(3, 1 / 3)
        res = dcfw.minimize(split, sets.Simplex(3), start, tol=0.0, max_lmo=1)
        assert res.gap == pytest.approx(gaps.fw_gap(phi, sets.Simplex(3), res.x), rel=1e-9)
        assert res.gap > 0.0
