"""The compiled loop is the generic loop: same iterates, counts, statuses and certificates.

Both solve the same assignment problems in the same order with the same solver, so that they differ by the
rounding of sums only.  Where two vertices are equally good that decides between them (exact line searches
make such ties: the two ends of a segment have equal slopes at its best point); runs with ties are left out.
"""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from dcfw import minimize, qap
from dcfw.functions.sums import Zero
from dcfw.qap.blended import BlendedLoop
from dcfw.qap.compiled import CompiledFW, Kernel, Loop
from dcfw.qap.quadratics import SPLITS, MatrixQuadratic, decompose, relaxation
from dcfw.result import Status
from dcfw.sets import Birkhoff
from dcfw.solvers.cgs import CGS
from dcfw.solvers.run import Run
from dcfw.tolerances import Adaptive, Fixed, Progress

COUNTS = ("nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_resync", "dc_gap_nit")
COLUMNS = ("nit", "fun", "gap", "dc_low", "dc_high", "eps", "n_inner", "n_lmo", "n_grad_f", "n_grad_g")


def problem(n, seed, symmetric=False, linear=False):
    rng = np.random.default_rng(seed)
    A, B = rng.random((n, n)), rng.random((n, n))
    if symmetric:
        A, B = A + A.T, B + B.T
    A, B = A / np.linalg.norm(A), B / np.linalg.norm(B)
    return A, B, rng.random((n, n)) / n if linear else None, Birkhoff(n).random(rng, scale=0.01)


class Watched(Birkhoff):
    """The polytope with an oracle that notices when its answer is not the only one."""

    tied = False

    def oracle(self):
        answer, rng = super().oracle(), np.random.default_rng(0)

        def watched(G):
            S = answer(G)
            nearby = G + 1e-9 * np.ptp(G) * rng.random(G.shape)
            self.tied = self.tied or not np.array_equal(linear_sum_assignment(nearby)[1], S.columns)
            return S

        watched.error = answer.error
        return watched


def both(objective, X0, *, method="dcfw", **options):
    """Return the results of the generic and of the compiled loop."""
    options = {"rtol": 1e-2, "max_lmo": 2000, "tolerance": Adaptive(0.8), **options}
    domain = Watched(len(X0))
    generic = minimize(objective, domain, X0, method=method, inner="fw", **options)
    generic["tied"] = domain.tied
    if method == "fw":
        compiled = minimize(objective, domain, X0, method=CompiledFW(), **options)
    else:
        compiled = minimize(objective, domain, X0, method=method, inner=Loop(len(X0)), **options)
    return generic, compiled


def same(generic, compiled):
    assert compiled.status is generic.status
    assert {name: compiled[name] for name in COUNTS} == {name: generic[name] for name in COUNTS}
    np.testing.assert_allclose(compiled.x, generic.x, atol=1e-8)
    assert compiled.fun == pytest.approx(generic.fun, rel=1e-9)
    assert compiled.gap == pytest.approx(generic.gap, rel=1e-5, abs=1e-10, nan_ok=True)
    np.testing.assert_allclose(compiled.dc_gap, generic.dc_gap, rtol=1e-5, atol=1e-10)
    assert len(compiled.history) == len(generic.history)
    for name in COLUMNS:
        np.testing.assert_allclose(
            compiled.history[name], generic.history[name], rtol=1e-5, atol=1e-10, err_msg=name
        )


def objective_of(method, split, A, B, C):
    return decompose(A, B, C, split) if method == "dcfw" else relaxation(A, B, C)


@pytest.mark.parametrize("split", SPLITS)
@settings(max_examples=6)
@given(n=st.integers(2, 14), seed=st.integers(0, 10**6), symmetric=st.booleans(), linear=st.booleans())
def test_dcfw_takes_the_same_steps_for_every_split(split, n, seed, symmetric, linear):
    A, B, C, X0 = problem(n, seed, symmetric, linear)
    runs = both(decompose(A, B, C, split), X0, max_lmo=400)
    assume(not runs[0]["tied"])
    same(*runs)


@settings(max_examples=20)
@given(
    n=st.integers(2, 14),
    seed=st.integers(0, 10**6),
    symmetric=st.booleans(),
    linear=st.booleans(),
    method=st.sampled_from(["fw", "cgs"]),
)
def test_frank_wolfe_and_sliding_take_the_same_steps(n, seed, symmetric, linear, method):
    A, B, C, X0 = problem(n, seed, symmetric, linear)
    runs = both(relaxation(A, B, C), X0, method="fw" if method == "fw" else CGS(L=2.0), max_lmo=400)
    assume(not runs[0]["tied"])
    same(*runs)


@pytest.mark.parametrize("name", ["nug12", "bur26a"])
@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_real_instances_give_the_same_run(name, method):
    try:
        instance = qap.load(name)
    except FileNotFoundError as missing:
        pytest.skip(f"needs QAPLIB: {missing}")
    A, B = (M / np.linalg.norm(M) for M in (instance.A, instance.B))
    X0 = Birkhoff(instance.n).random(0, scale=0.001)
    same(*both(objective_of(method, "balanced", A, B, None), X0, method=method, max_lmo=150))


@pytest.mark.parametrize(
    "tolerance", [Adaptive(0.8), Adaptive(0.5, "published"), Fixed(2e-3), Progress()], ids=repr
)
@pytest.mark.parametrize("method", ["dcfw", "cgs"])
def test_every_tolerance_rule_ends_inner_loops_at_the_same_step(tolerance, method):
    A, B, _, X0 = problem(10, 3)
    chosen = "dcfw" if method == "dcfw" else CGS(L=2.0)
    runs = both(objective_of(method, "balanced", A, B, None), X0, method=chosen, tolerance=tolerance)
    same(*runs)
    assert runs[0].nit > 1


class Impatient:
    """A user's rule, which is asked at every step."""

    def __init__(self):
        self.asked = 0

    def next(self, eps, gap):
        return gap

    def enough(self, gap, eps, decrease):
        self.asked += 1
        return gap <= 0.7 * eps and decrease() > 0.0


def test_a_users_rule_is_asked_at_every_step():
    A, B, _, X0 = problem(9, 4)
    rules = Impatient(), Impatient()
    objective = decompose(A, B, split="balanced")
    options = {"rtol": 1e-2, "max_lmo": 300}
    generic = minimize(objective, Birkhoff(9), X0, tolerance=rules[0], inner="fw", **options)
    compiled = minimize(objective, Birkhoff(9), X0, tolerance=rules[1], inner=Loop(9), **options)
    same(generic, compiled)
    assert rules[0].asked == rules[1].asked > generic.nit


def test_a_subclass_of_a_known_rule_is_a_users_rule():
    class Half(Adaptive):
        def enough(self, gap, eps, decrease):
            return gap <= 0.25 * eps

    A, B, _, X0 = problem(9, 4)
    same(*both(decompose(A, B, split="balanced"), X0, tolerance=Half(0.8), max_lmo=300))


@pytest.mark.parametrize("max_inner", [1, 2, 7])
def test_a_limit_of_inner_steps_cuts_at_the_same_step(max_inner):
    A, B, _, X0 = problem(10, 5)
    runs = both(decompose(A, B, split="balanced"), X0, max_inner=max_inner, max_lmo=300)
    same(*runs)
    assert runs[1].n_inner <= max_inner * (runs[1].nit + 1)


@pytest.mark.parametrize("max_lmo", [1, 2, 3, 4, 5, 17, 40])
@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_the_budget_of_assignment_problems_is_spent_alike(max_lmo, method):
    A, B, _, X0 = problem(10, 6)
    chosen = CGS(L=2.0) if method == "cgs" else method
    runs = both(objective_of(method, "balanced", A, B, None), X0, method=chosen, max_lmo=max_lmo, rtol=1e-6)
    same(*runs)
    assert runs[1].n_lmo <= max_lmo
    assert runs[1].status is Status.MAX_LMO
    assert math.isfinite(runs[1].gap)


@pytest.mark.parametrize("maxiter", [0, 1, 5])
@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_the_iteration_limit_ends_both_alike(maxiter, method):
    A, B, _, X0 = problem(10, 7)
    runs = both(objective_of(method, "balanced", A, B, None), X0, method=method, maxiter=maxiter, rtol=1e-6)
    same(*runs)
    assert (runs[1].status, runs[1].nit) == (Status.MAXITER, maxiter)


@pytest.fixture
def often_refreshed(monkeypatch):
    made = Run.__init__

    def impatient(self, *arguments, **options):
        made(self, *arguments, **options)
        self.resync_period = 3

    monkeypatch.setattr(Run, "__init__", impatient)


@pytest.mark.usefixtures("often_refreshed")
@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_gradients_are_refreshed_at_the_same_steps(method):
    A, B, _, X0 = problem(10, 8)
    chosen = CGS(L=2.0) if method == "cgs" else method
    runs = both(objective_of(method, "balanced", A, B, None), X0, method=chosen, max_lmo=200, rtol=1e-5)
    same(*runs)
    assert runs[1].n_resync == runs[1].n_inner // 3 > 2


@pytest.mark.usefixtures("often_refreshed")
def test_vanilla_steps_of_the_blended_loop_are_the_same_too():
    A, B, _, X0 = problem(10, 8)
    options = {"method": CGS(L=2.0), "max_lmo": 200, "rtol": 1e-5}
    results = [
        minimize(relaxation(A, B), Birkhoff(10), X0, inner=loop(10), **options)
        for loop in (Loop, BlendedLoop)
    ]
    same(*results)
    assert Birkhoff(10).contains(results[1].x, 1e-9)


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_the_length_of_the_slices_changes_nothing(method, monkeypatch):
    A, B, _, X0 = problem(10, 9)
    chosen = {"dcfw": "dcfw", "fw": CompiledFW(), "cgs": CGS(L=2.0)}[method]
    objective = objective_of(method, "balanced", A, B, None)
    results = []
    for length in (1, 3, 1000):
        monkeypatch.setattr(Kernel, "slice_length", lambda self, length=length: length)
        inner = {} if method == "fw" else {"inner": Loop(10)}
        results.append(minimize(objective, Birkhoff(10), X0, method=chosen, rtol=1e-3, max_lmo=500, **inner))
    for result in results[1:]:
        same(results[0], result)
        assert np.array_equal(result.x, results[0].x)


@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_a_callback_sees_the_same_iterates_and_may_stop(method):
    A, B, _, X0 = problem(10, 10)
    seen = []

    def callback(intermediate_result):
        seen.append((intermediate_result.nit, intermediate_result.fun, intermediate_result.n_lmo))
        if intermediate_result.nit == 3:
            raise StopIteration

    runs = both(objective_of(method, "balanced", A, B, None), X0, method=method, callback=callback)
    same(*runs)
    assert runs[1].status is Status.CALLBACK
    half = len(seen) // 2
    np.testing.assert_allclose(seen[:half], seen[half:], rtol=1e-9)


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_a_time_limit_returns_the_best_point_so_far(method):
    A, B, _, X0 = problem(30, 11)
    chosen = {"dcfw": "dcfw", "fw": CompiledFW(), "cgs": CGS(L=2.0)}[method]
    objective = objective_of(method, "paper", A, B, None)
    inner = {} if method == "fw" else {"inner": Loop(30)}
    for limit in (0.0, 0.05):
        result = minimize(
            objective, Birkhoff(30), X0, method=chosen, tol=0.0, tolerance=Fixed(1e-12), max_inner=10**6,
            maxiter=10**7, time_limit=limit, **inner,
        )  # fmt: skip
        assert result.status in (Status.TIME_LIMIT, Status.NO_PROGRESS) or result.gap == 0.0
        assert Birkhoff(30).contains(result.x, 1e-9)
        assert result.fun <= objective.value(X0) + 1e-12
        if method == "cgs":  # one gradient of phi per outer step, however the last inner loop ended
            assert result.n_grad_f == result.nit + 1


def test_negative_curvature_ends_the_run_unless_the_constant_is_trusted():
    n = 8
    *_, X0 = problem(n, 12)
    f = MatrixQuadratic([], n=n, weight=-1.0, C=np.random.default_rng(0).random((n, n)), convex=True)  # false
    generic, compiled = both(f - Zero(), X0, tolerance=Fixed(1e-9), rtol=1e-9)
    assert compiled.status is generic.status is Status.NOT_CONVEX
    assert compiled.dc_gap == (0.0, math.inf)
    assert (compiled.n_inner, compiled.n_grad_f) == (generic.n_inner, generic.n_grad_f)
    trusted = minimize(
        f - Zero(), Birkhoff(n), X0, tolerance=Fixed(1e-9), max_lmo=100, inner=Loop(n, trust=True)
    )
    assert trusted.status is not Status.NOT_CONVEX


@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_a_gradient_that_is_not_finite_is_reported_by_both(method):
    n = 5
    A, B, _, X0 = problem(n, 13)
    A[0, 0] = np.inf
    f = MatrixQuadratic([(A, B)], n=n, convex=True)
    with np.errstate(all="ignore"):
        generic, compiled = both(f - Zero() if method == "dcfw" else f, X0, method=method)
    assert compiled.status is generic.status is Status.BAD_ORACLE
    assert np.array_equal(compiled.x, X0)
