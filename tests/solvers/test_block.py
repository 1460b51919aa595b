"""Block-coordinate DC-FW: one block at a time, the same answers, every oracle call accounted for."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_boosted import Ball
from test_oracle_counts import Counted, CountedSet

import dcfw
from dcfw import Status, functions, sets, splits
from dcfw._arrays import to_numpy
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.block import ORDERS, Block, Blocks, Remembering, _loop_of_one_block
from dcfw.solvers.ledger import Ledger
from dcfw.solvers.restriction import QuadraticPart, Slot
from reference_gaps import symmetric, trace

pytestmark = pytest.mark.usefixtures("no_second_gap")

N = 12


def mixed():
    return sets.Product(
        [sets.Simplex(4), sets.L1Ball(3), sets.L2Ball((2, 1)), sets.Box(-0.5, 1.0, shape=2), sets.Simplex(1)]
    )


def simplices(count=4, n=3):
    return sets.Product([sets.Simplex(n) for _ in range(count)])


def data(seed=0, n=N, low=0.2, high=3.0):
    rng = np.random.default_rng(seed)
    return symmetric(rng, n, low, high), rng.standard_normal(n)


def quadratic(seed=0, **kwargs):
    return functions.Quadratic(*data(seed, **kwargs))


def logistic(seed=0):
    rng = np.random.default_rng(seed)
    return functions.LogisticLoss(3.0 * rng.standard_normal((30, N)), np.sign(rng.standard_normal(30)))


def gap_from_scratch(phi, domain, x):
    grad = phi.grad(x)
    return float(grad @ (x - domain.lmo(grad)))


# -- a single block ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("phi", "domain", "options"),
    [
        (splits.sliding(quadratic(low=-3.0)), sets.Simplex(N), {}),
        (splits.proximal(quadratic(low=-3.0)), sets.L1Ball(N), {"inner": "blended"}),
        (quadratic() - functions.L1Norm(0.5), sets.L2Ball(N), {"tolerance": "progress", "step": "short"}),
        (
            logistic() - functions.SquaredNorm(0.1),
            sets.LInfBall(N),
            {"step": "backtracking", "max_inner": 200},
        ),
        (logistic() - functions.SquaredNorm(0.1), sets.L1Ball(N), {"max_lmo": 9, "tol": 0.0}),
        (quadratic(low=-3.0), sets.Simplex(N), {"maxiter": 2, "max_inner": 3, "tol": 0.0, "inner": "fw"}),
    ],
    ids=["sliding", "active set", "progress", "smooth", "budget", "cut short"],
)
def test_a_single_block_is_plain_dcfw_to_the_last_bit(phi, domain, options, order):
    x0 = domain.random(7)
    options = {"tol": 1e-3, "max_inner": 2000} | options
    plain = dcfw.minimize(phi, domain, x0, method="dcfw", **options)
    block = dcfw.minimize(phi, sets.Product([domain]), x0, method=Block(order), **options)
    np.testing.assert_array_equal(block.x, plain.x)
    for column in plain.history.columns[:-1]:  # but for the time
        np.testing.assert_array_equal(block.history[column], plain.history[column], err_msg=column)
    for count in ("status", "gap", "dc_gap", "nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun"):
        assert block[count] == plain[count], count
    assert block.n_lmo_blocks == [plain.n_lmo]


# -- the right answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inner", ["fw", "pairwise", "blended"])
def test_every_order_reaches_the_minimum_of_a_convex_phi_over_simplices(order, inner):
    cp = pytest.importorskip("cvxpy")
    A, b = data(3)
    y = cp.Variable((4, 3))
    flat = cp.reshape(y, (N,), order="C")
    model = 0.5 * cp.quad_form(flat, cp.psd_wrap(A - 0.1 * np.eye(N))) + b @ flat
    best = cp.Problem(cp.Minimize(model), [y >= 0, cp.sum(y, axis=1) == 1]).solve(solver=cp.CLARABEL)
    phi = functions.Quadratic(A, b) - functions.SquaredNorm(0.1)
    tol = 1e-3 if inner == "fw" else 1e-8
    res = dcfw.minimize(phi, simplices(), method=Block(order), inner=inner, tol=tol, rng=0)
    assert res.success
    assert best - 1e-7 <= res.fun <= best + tol + 1e-7


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["structured", "smooth"])
def test_every_order_reaches_the_minimum_over_mixed_sets(order, kind):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(5)
    M, target = rng.standard_normal((20, N)), rng.standard_normal(20)
    y = cp.Variable(N)
    square = 0.5 * cp.sum_squares(M @ y - target)
    if kind == "smooth":
        f = functions.LogSumExp(M, target) + functions.SquaredNorm(0.5)
        model = cp.log_sum_exp(M @ y + target) + 0.25 * cp.sum_squares(y)
    else:
        f = 0.5 * functions.LeastSquares(M, target) + functions.SquaredNorm(0.3) + quadratic(1)
        A, b = data(1)
        model = 0.5 * square + 0.15 * cp.sum_squares(y) + 0.5 * cp.quad_form(y, cp.psd_wrap(A)) + b @ y
    limits = [y[:4] >= 0, cp.sum(y[:4]) == 1, cp.norm1(y[4:7]) <= 1, cp.norm(y[7:9]) <= 1]
    limits += [y[9:11] >= -0.5, y[9:11] <= 1.0, y[11] == 1.0]
    best = cp.Problem(cp.Minimize(model), limits).solve(solver=cp.CLARABEL)
    res = dcfw.minimize(f - functions.Zero(), mixed(), method=Block(order), inner="pairwise", tol=1e-5, rng=1)
    assert res.success
    assert best - 1e-6 <= res.fun <= best + 2e-5


@given(st.integers(0, 10**6), st.sampled_from(ORDERS), st.sampled_from(["sliding", "proximal", "kinked"]))
def test_every_step_stays_inside_lowers_phi_and_ends_with_a_true_gap(seed, order, split):
    domain, phi = mixed(), quadratic(seed, low=-2.0)
    if split == "kinked":
        dc = phi = functions.Quadratic(*data(seed)) - functions.L1Norm(0.4)
    else:
        dc = getattr(splits, split)(phi)
    res, iterates = trace(
        dcfw.minimize, dc, domain, domain.random(seed), method=Block(order), tol=1e-2, max_inner=300, rng=seed
    )
    assert all(domain.contains(x) for x in iterates)
    size = 1.0 + max(abs(phi.value(x)) for x in iterates)
    assert (np.diff(res.history["fun"]) <= 1e-12 * size).all()
    np.testing.assert_allclose(res.history["fun"], [phi.value(x) for x in iterates], atol=1e-12 * size)
    # One block moves in an outer step, no other.
    for before, after in itertools.pairwise(iterates):
        pairs = zip(domain.split(before), domain.split(after), strict=True)
        assert sum(not np.array_equal(a, b) for a, b in pairs) <= 1
    measured = np.isfinite(res.history["gap"])
    assert measured[0]
    assert measured[-1]
    for x, gap, known in zip(iterates, res.history["gap"], measured, strict=True):
        if known:
            assert gap == pytest.approx(gap_from_scratch(phi, domain, x), abs=1e-10 * size)
    if res.success:
        assert gap_from_scratch(phi, domain, res.x) <= 1e-2 + 1e-9


@pytest.mark.parametrize("order", ORDERS)
def test_the_dc_gap_lies_in_the_certified_interval(order):
    domain, dc = simplices(), splits.proximal(quadratic(2, low=-1.0))
    res, iterates = trace(dcfw.minimize, dc, domain, method=Block(order), inner="blended", tol=1e-4, rng=0)
    assert res.nit > 3
    lows = res.history["dc_low"][:-1]
    assert (lows > 0.0).all()
    for x, low, high in zip(iterates, lows, res.history["dc_high"], strict=False):
        surrogate = dc.f - functions.Quadratic(np.zeros((N, N)), dc.g.grad(x))
        best = dcfw.minimize(surrogate, domain, x, inner="blended", tol=1e-10)
        true = surrogate.value(x) - best.fun
        assert low <= true + 1e-8
        assert true <= high + 1e-8 or math.isnan(high)


@pytest.mark.parametrize("order", ORDERS)
def test_one_step_per_visit_is_block_coordinate_frank_wolfe(order):
    phi = quadratic(4, low=0.0)
    res = dcfw.minimize(
        phi - functions.Zero(), simplices(), method=Block(order, steps=1), tol=1e-3, maxiter=20_000, rng=0
    )
    assert res.success
    assert res.n_inner == res.nit
    full = dcfw.minimize(phi, simplices(), inner="blended", tol=1e-9)
    assert full.fun - 1e-9 <= res.fun <= full.fun + 1e-3


def test_the_gap_order_takes_the_block_with_the_largest_gap_first():
    b = np.zeros(N)
    b[6:9] = [5.0, 0.0, 3.0]  # nearly all of the gap is in the third simplex
    phi = functions.Quadratic(np.eye(N), b) - functions.Zero()
    _, iterates = trace(dcfw.minimize, phi, simplices(), method=Block("gap"), maxiter=1)
    moved = np.nonzero(iterates[0] != iterates[1])[0]
    assert set(moved) <= {6, 7, 8}
    assert len(moved) > 0


# -- one function without a split -------------------------------------------------------------------------


def chain(seed, count, entropy, k=4):
    """Neighbours want different labels; an entropy draws the minimisers into the simplices."""
    rng = np.random.default_rng(seed)
    W, c = rng.standard_normal((count - 1, k, k)), rng.standard_normal((count, k))

    def value(x):
        X = x.reshape(count, k)
        bilinear = np.einsum("ij,ijk,ik->", X[:-1], W, X[1:]) + np.vdot(c, X)
        return float(bilinear + entropy * (x + 1e-3) @ np.log(x + 1e-3))

    def grad(x):
        X, G = x.reshape(count, k), c.copy()
        G[:-1] += np.einsum("ijk,ik->ij", W, X[1:])
        G[1:] += np.einsum("ij,ijk->ik", X[:-1], W)
        return G.reshape(-1) + entropy * (1.0 + np.log(x + 1e-3))

    return functions.Smooth(value, grad)


@pytest.mark.parametrize(("entropy", "share"), [(0.0, 1.25), (0.3, 0.7), (3.0, 0.3)])
def test_blocks_with_steps_of_their_own_are_as_good_as_frank_wolfe_in_fewer_calls(entropy, share):
    domain, calls, values = simplices(60, 4), np.zeros(2), np.zeros(2)
    for seed in range(3):
        phi = chain(seed, 60, entropy)
        fw = dcfw.minimize(phi, domain, method="fw", rtol=1e-3)
        res = dcfw.minimize(phi, domain, method="block", rtol=1e-3)
        assert res.success
        assert (np.diff(res.history["fun"]) <= 1e-9).all()
        assert gap_from_scratch(phi, domain, res.x) == pytest.approx(res.gap, rel=1e-6, abs=1e-9)
        calls += fw.n_lmo, res.n_lmo
        values += fw.fun, res.fun
    assert calls[1] <= share * calls[0]
    assert values[1] <= values[0] + 5e-3 * abs(values[0])
    assert dcfw.minimize(phi, domain, rtol=1e-3).fun == res.fun  # the default on many blocks


def test_passes_of_many_blocks_go_on_until_they_converge():
    rng = np.random.default_rng(0)
    R = rng.standard_normal((300, 300)) / 10.0
    phi = functions.Quadratic(R @ R.T + np.eye(300), rng.standard_normal(300)) - functions.SquaredNorm(0.5)
    res = dcfw.minimize(phi, simplices(100), method="block", maxiter=50)
    assert res.success
    assert 100 < res.nit <= 5000


def test_a_function_without_a_split_needs_blocks_too():
    with pytest.raises(ValueError, match=r"sets\.Product"):
        dcfw.minimize(chain(0, 3, 1.0), sets.Simplex(12), method="block")


# -- what it costs ----------------------------------------------------------------------------------------


class Asked(CountedSet):
    """A block that remembers what it was asked."""

    def __init__(self, domain, calls, name):
        super().__init__(domain, calls)
        self.name, self.questions = name, []

    def lmo(self, G):
        self.questions.append(G.tobytes())
        self.calls[self.name] += 1
        return self.domain.lmo(G)

    def start(self):
        return self.domain.start()


def counted(f, g, calls):
    blocks = [Asked(sets.Simplex(3), calls, i) for i in range(4)]
    return Counted(f, "f", calls), Counted(g, "g", calls), sets.Product(blocks)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [{}, {"max_lmo": 37}, {"maxiter": 5}, {"inner": "pairwise"}])
def test_the_counters_are_the_users_and_nothing_is_asked_twice(order, options):
    calls = Counter()
    f, g, domain = counted(quadratic(6), functions.SquaredNorm(0.1), calls)
    options = {"tol": 1e-3, "max_inner": 500} | options
    res = dcfw.minimize(f - g, domain, method=Block(order), rng=3, **options)
    assert res.n_lmo_blocks == [calls[i] for i in range(4)]
    assert res.n_lmo == sum(res.n_lmo_blocks) <= options.get("max_lmo", math.inf)
    assert res.nit <= 4 * options.get("maxiter", 1000)  # passes of four blocks
    assert math.isfinite(res.gap)
    assert res.n_grad_g == res.nit + 1 == calls["g.grad"]
    assert res.n_fun == 1 == calls["f.value"]
    # f is of no known class: every block gradient is a whole one, and so is the one after each outer step.
    assert res.n_grad_f + res.n_resync == calls["f.grad"]
    for block in domain.sets:
        assert len(block.questions) == len(set(block.questions))


def test_a_quadratic_takes_one_gradient_a_step_and_one_update_an_outer_step():
    phi = quadratic(6) - functions.SquaredNorm(0.1)
    res = dcfw.minimize(phi, simplices(), method="block", inner="fw", tol=1e-3)
    assert res.nit > 4
    # The first of f and of each block, one at a vertex for each step, one update for each outer step.
    assert res.n_grad_f == 1 + 4 + res.n_inner + res.nit


def test_a_smooth_f_hands_the_last_gradient_of_a_block_on():
    calls = Counter()
    f = Counted(logistic(), "f", calls, free_value=False)
    phi = f - functions.SquaredNorm(0.1)
    res = dcfw.minimize(phi, simplices(), method="block", step="short", tol=1e-2)
    assert res.nit > 3
    assert res.n_grad_f == res.n_inner + 1 == calls["f.grad"]
    assert res.n_fun == calls["f.value"]
    assert len(f.points) == len(set(f.points)) + 1  # only the result's value is of a known point


@pytest.mark.parametrize(
    "kind", ["dense", "sparse", "least squares", "sparse least squares", "sum", "operator"]
)
def test_a_quadratic_part_is_the_quadratic_with_the_other_blocks_fixed(kind):
    from scipy import sparse
    from scipy.sparse.linalg import aslinearoperator

    A, b = data(8)
    f = {
        "dense": functions.Quadratic(A, b),
        "sparse": functions.Quadratic(sparse.csr_array(A), b),
        "least squares": functions.LeastSquares(A, b),
        "sparse least squares": functions.LeastSquares(sparse.csc_array(A), b),
        "sum": 2.0 * functions.LeastSquares(A, b) + functions.SquaredNorm(3.0) + functions.Zero(),
        "operator": functions.Quadratic(aslinearoperator(A), b),
    }[kind]
    domain, run = mixed(), Counts()
    x, y = domain.random(1), domain.random(2)
    for i in range(len(domain.sets)):
        slot = Slot(domain, i)
        part, z, new = QuadraticPart(f, slot), slot.of(x), slot.of(y)
        _, others = part.begin(run, x, z, f.grad(x))
        after = slot.put(x, new)
        assert not np.array_equal(after, x) or np.array_equal(z, new)
        expected = f.grad(after)
        np.testing.assert_allclose(part.f.grad(new) + others, slot.of(expected), atol=1e-12)
        there = part.end(run, after, f.grad(x), z, new, part.f.grad(new))
        np.testing.assert_allclose(there, expected, atol=1e-12)


class Counts:
    def __init__(self):
        self.ledger = Ledger(0.0)

    def grad_f(self, f, x):
        return f.grad(x)


# -- everything else --------------------------------------------------------------------------------------


def test_random_order_is_drawn_from_rng():
    phi = splits.sliding(quadratic(9, low=-3.0))
    runs = [
        trace(dcfw.minimize, phi, simplices(), method=Block("random"), maxiter=4, rng=seed)[1]
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_the_library_of_the_blocks_is_that_of_x0():
    torch = pytest.importorskip("torch")
    A, b = data(3)
    options = {"method": "block", "tol": 1e-2, "max_inner": 100}
    g = functions.L1Norm(0.1)
    ours = dcfw.minimize(functions.Quadratic(A, b) - g, mixed(), **options)
    f = functions.Quadratic(torch.asarray(A), torch.asarray(b)) + functions.SquaredNorm(0.0)
    res = dcfw.minimize(f - g, mixed(), **options)
    assert isinstance(res.x, torch.Tensor)
    assert (res.nit, res.n_lmo_blocks) == (ours.nit, ours.n_lmo_blocks)
    np.testing.assert_allclose(to_numpy(res.x), ours.x, atol=1e-9)


def test_a_users_own_set_and_an_inexact_oracle_can_be_blocks():
    domain = sets.Product([Ball(), sets.NuclearBall((4, 4)), sets.Product([sets.Simplex(2)])])
    phi = functions.SquaredNorm(1.0) - functions.L2Norm(0.3)
    x0 = domain.random(0)
    res = dcfw.minimize(phi, domain, x0, method="block", tol=1e-3)
    assert res.success
    assert domain.contains(res.x)
    assert res.fun < phi.value(x0)


@pytest.mark.parametrize("limit", [{"time_limit": 0.0}, {"maxiter": 0}, {"max_lmo": 4}])
def test_a_run_that_is_cut_short_still_returns_a_point_of_the_whole_set(limit):
    res = dcfw.minimize(quadratic(low=-1.0), simplices(), method="block", tol=0.0, **limit)
    assert res.status in (Status.TIME_LIMIT, Status.MAXITER, Status.MAX_LMO)
    assert simplices().contains(res.x)
    assert math.isfinite(res.gap)


def test_an_interrupt_inside_a_block_returns_the_whole_point():
    class Tired(Asked):
        def lmo(self, G):
            if self.calls[self.name] > 5:
                raise KeyboardInterrupt
            return super().lmo(G)

    domain = sets.Product([Tired(sets.Simplex(3), Counter(), i) for i in range(4)])
    phi = quadratic(6)
    res = dcfw.minimize(phi - functions.Zero(), domain, method="block", tol=0.0)
    assert res.status is Status.INTERRUPTED
    assert domain.contains(res.x)
    assert res.fun < phi.value(domain.start())


def test_a_domain_without_blocks_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"domain must be a sets.Product.*use method 'dcfw'"):
        dcfw.minimize(quadratic(), sets.Simplex(N), method="block")


@pytest.mark.parametrize(
    ("error", "name", "options"),
    [
        (ValueError, "order must be one of", {"order": "gaps"}),
        (TypeError, "order must be one of", {"order": 3}),
        (ValueError, "steps must be at least 1", {"steps": 0}),
        (TypeError, "steps must be an integer", {"steps": 1.5}),
    ],
)
def test_bad_options_are_refused_by_name(error, name, options):
    with pytest.raises(error, match=name):
        Block(**options)


def test_the_remembered_answer_is_that_at_the_iterate_and_not_the_last_one():
    oracle = Remembering(sets.Simplex(2).oracle())
    here, elsewhere = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    oracle.at_x_t = True
    first = oracle(here)
    assert not np.array_equal(oracle(elsewhere).dense(), first.dense())  # on the way, from a step not taken
    oracle.at_x_t = True
    assert oracle(here) is first
    oracle.known = None  # x_t has moved
    oracle.at_x_t = True
    assert np.array_equal(oracle(elsewhere).dense(), [0.0, 1.0])


def test_a_budget_below_one_call_a_block_is_refused():
    with pytest.raises(ValueError, match="max_lmo must be at least 4"):
        dcfw.minimize(quadratic(), simplices(), method="block", max_lmo=3)


def test_a_split_to_be_found_on_the_way_is_refused():
    with pytest.raises(ValueError, match="'block' cannot find"):
        dcfw.minimize(splits.sliding(quadratic(), L="auto"), simplices(), method="block")


def test_every_block_has_an_active_set_of_its_own_with_the_given_options():
    given = ActiveLoop("away", lazy=False, cap=7)
    loop = _loop_of_one_block(given)
    assert loop is not given
    assert (loop.rule, loop.lazy, loop.cap) == ("away", False, 7)
    plain = object()
    assert _loop_of_one_block(plain) is plain


def test_the_gradient_is_recomputed_now_and_then(monkeypatch):
    init = Blocks.__init__

    def impatient(self, problem, run, steps):
        init(self, problem, run, steps)
        run.resync_period = 3

    plain = dcfw.minimize(quadratic(), simplices(), method="block", tol=1e-8)
    monkeypatch.setattr(Blocks, "__init__", impatient)
    res = dcfw.minimize(quadratic(), simplices(), method="block", tol=1e-8)
    assert plain.n_resync == 0 < res.n_resync
    assert res.success
    np.testing.assert_allclose(res.x, plain.x, atol=1e-6)


def test_after_a_bad_answer_no_oracle_is_asked_again():
    asked = []

    class Own:
        """A user's simplex; the third one's second answer, inside a step, is wrong."""

        def __init__(self, name):
            self.name = name

        def lmo(self, G):
            asked.append(self.name)
            return np.eye(4)[np.argmin(G)] * (math.nan if asked.count(2) == 2 else 1.0)

        def contains(self, x):
            return sets.Simplex(4).contains(x)

        def start(self):
            return np.full(4, 0.25)

    domain = sets.Product([Own(name) for name in range(3)])
    res = dcfw.minimize(quadratic(), domain, method="block", tol=1e-9)
    assert res.status is Status.BAD_ORACLE
    assert asked[-1] == 2
    assert res.n_lmo_blocks == [asked.count(name) for name in range(3)]


def test_rows_between_two_measurements_have_the_tolerance_that_they_were_made_with():
    domain = sets.Product([sets.Simplex(4), sets.Simplex(5)])
    f = functions.LeastSquares(np.eye(9), np.linspace(-1.0, 1.0, 9))
    history = dcfw.minimize(
        f - functions.SquaredNorm(0.1), domain, method="block", maxiter=6, tol=0.0
    ).history
    between = np.isnan(history["gap"])
    assert between.any()
    assert np.isfinite(history["eps"][between]).all()


@pytest.mark.parametrize("max_lmo", range(2, 30))
def test_a_budget_of_calls_ends_with_a_measured_gap(max_lmo):
    domain = sets.Product([sets.Simplex(4), sets.Simplex(5)])
    f = functions.LeastSquares(np.eye(9), np.linspace(-1.0, 1.0, 9))
    res = dcfw.minimize(f - functions.SquaredNorm(0.1), domain, method="block", tol=0.0, max_lmo=max_lmo)
    assert res.n_lmo <= max_lmo
    assert res.status.name == "MAX_LMO"
    assert not np.isnan(res.history["gap"][-1])
