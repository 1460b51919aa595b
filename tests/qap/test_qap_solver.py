"""``qap.solve``: valid permutations, exact values, honest statuses, whatever the input."""

import gc
import itertools
import math
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from dcfw import Result, qap
from dcfw.qap import evaluate, solve
from dcfw.qap.quadratics import SPLITS
from dcfw.result import Status
from dcfw.sets import Birkhoff

COUNTS = ("nit", "n_inner", "n_lmo", "n_fun", "n_grad_f", "n_grad_g")
METHODS = [
    ("fw", "auto"),
    ("cgs", "auto"),
    ("boosted", "auto"),
    *(("dcfw", split) for split in ("auto", *SPLITS)),
]
every_method = pytest.mark.parametrize(("method", "split"), METHODS, ids=lambda name: name)


def phi(A, B, X, C=None):
    return float(np.sum((A @ X) * (X @ B))) + (0.0 if C is None else float(np.sum(C * X)))


def brute_force(A, B, C=None):
    return [(evaluate(A, B, p, C), p) for p in itertools.permutations(range(len(A)))]


def check(result, A, B, C=None):
    """Check everything that holds for every result."""
    n = len(A)
    assert isinstance(result, Result)
    p = result.permutation
    assert np.array_equal(np.sort(p), np.arange(n))
    integers = all(np.asarray(M).dtype.kind == "i" for M in (A, B, C) if M is not None)
    assert type(result.fun) is (int if integers else float)
    value = evaluate(A, B, p, C)
    assert result.fun == (value if integers else pytest.approx(value, rel=1e-12))
    assert Birkhoff(n).contains(result.relaxed, 1e-6)
    assert result.x is result.relaxed
    scale = np.abs(A).max() * np.abs(B).max() * n * n + (0.0 if C is None else np.abs(C).sum())
    assert result.relaxed_fun == pytest.approx(phi(A, B, result.relaxed, C), abs=1e-9 * scale + 1e-300)
    low, high = result.dc_gap
    assert 0.0 <= low <= high
    assert result.fun in result.restart_values
    assert all(result[name] >= 0 for name in COUNTS)
    assert result.success == (result.status is Status.CONVERGED)


@st.composite
def problems(draw, largest=6):
    n = draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kind = draw(st.sampled_from(["integers", "floats", "symmetric", "zeros"]))
    A, B, C = rng.integers(-9, 10, (3, n, n))
    if kind == "floats":
        A, B, C = A + rng.random((n, n)), B + rng.random((n, n)), C + rng.random((n, n))
    elif kind == "symmetric":
        A, B = A + A.T, B + B.T
    elif kind == "zeros":
        A = 0 * A
    return A, B, C if draw(st.booleans()) else None


# -- answers ---------------------------------------------------------------------------------------------


@every_method
@settings(max_examples=12)
@given(problems(), st.booleans())
def test_no_value_beats_the_best_of_all_permutations(method, split, problem, maximize):
    A, B, C = problem
    result = solve(A, B, C, method=method, split=split, maximize=maximize, max_lmo=2000, rng=0)
    check(result, A, B, C)
    values = [value for value, _ in brute_force(A, B, C)]
    tolerance = 0 if isinstance(result.fun, int) else 1e-9 * max(map(abs, values))
    assert min(values) - tolerance <= result.fun <= max(values) + tolerance


@settings(max_examples=12)
@given(problems(largest=6))
def test_restarts_with_polish_find_the_best_of_small_problems(problem):
    A, B, C = problem
    best = min(value for value, _ in brute_force(A, B, C))
    result = solve(A, B, C, restarts=5, polish="tabu", rng=0, max_lmo=200)
    assert result.fun == pytest.approx(best, rel=1e-12)


@every_method
def test_maximising_is_minimising_the_negative(method, split):
    rng = np.random.default_rng(1)
    A, B, C = rng.integers(0, 50, (3, 9, 9))
    up = solve(A, B, C, method=method, split=split, maximize=True, max_lmo=500, rng=2)
    down = solve(-A, B, -C, method=method, split=split, max_lmo=500, rng=2)
    assert np.array_equal(up.permutation, down.permutation)
    assert (up.fun, up.gap, up.dc_gap) == (-down.fun, down.gap, down.dc_gap)
    assert up.relaxed_fun == pytest.approx(-down.relaxed_fun)
    np.testing.assert_allclose(up.history["fun"], -down.history["fun"])
    assert up.fun > evaluate(A, B, np.arange(9), C)


@every_method
def test_the_gap_is_that_of_the_relaxed_point_in_the_data_s_unit(method, split):
    rng = np.random.default_rng(3)
    A, B, C = 1e3 * rng.random((3, 8, 8))
    result = solve(A, B, C, method=method, split=split, max_lmo=3000)
    X = result.relaxed
    G = A @ X @ B.T + A.T @ X @ B + C
    gap = np.sum(G * X) - G[linear_sum_assignment(G)].sum()
    assert result.gap == pytest.approx(gap, rel=1e-6, abs=1e-6)
    assert result.history["fun"][-1] == pytest.approx(phi(A, B, X, C), rel=1e-3)
    assert np.isclose(result.history["gap"], max(gap, 0.0), rtol=1e-6, atol=1e-6).any()
    if result.status is Status.CONVERGED:
        assert gap <= 1.001e-3 * result.history["gap"][0]


def test_real_instances_are_solved_to_a_few_per_cent():
    try:
        instances = [qap.load(name) for name in ("nug12", "bur26a", "chr12a", "esc16f", "had12")]
    except FileNotFoundError as missing:
        pytest.skip(f"needs QAPLIB: {missing}")
    for instance in instances:
        result = solve(instance.A, instance.B, restarts=3, polish="2opt", rng=0, max_lmo=3000)
        check(result, instance.A, instance.B)
        assert instance.best <= result.fun <= 1.25 * instance.best


# -- polish, restarts, parallel runs ---------------------------------------------------------------------


@pytest.mark.parametrize("polish", ["2opt", "tabu"])
@pytest.mark.parametrize("linear", [False, True])
def test_a_polished_permutation_is_never_worse(polish, linear):
    rng = np.random.default_rng(4)
    A, B, C = rng.integers(0, 20, (3, 12, 12))
    C = C if linear else None
    for maximize in (False, True):
        plain = solve(A, B, C, rng=0, maximize=maximize, max_lmo=50)
        polished = solve(A, B, C, rng=0, maximize=maximize, max_lmo=50, polish=polish)
        assert polished.fun >= plain.fun if maximize else polished.fun <= plain.fun
        p = polished.permutation
        for i, j in itertools.combinations(range(12), 2):
            q = p.copy()
            q[[i, j]] = q[[j, i]]
            worse = evaluate(A, B, q, C)
            assert worse <= polished.fun if maximize else worse >= polished.fun


@pytest.mark.parametrize("partial_match", [None, [[2, 5], [7, 0]]])
@pytest.mark.parametrize("maximize", [False, True])
def test_all_restarts_are_reported_and_the_best_is_returned(partial_match, maximize):
    rng = np.random.default_rng(5)
    A, B = rng.integers(0, 50, (2, 9, 9))
    options = {"partial_match": partial_match, "maximize": maximize, "max_lmo": 200, "rng": 1}
    result = solve(A, B, restarts=6, **options)
    assert len(result.restart_values) == 6
    assert all(type(value) is int for value in result.restart_values)
    assert result.fun == (max if maximize else min)(result.restart_values)
    assert solve(A, B, **options).fun == result.restart_values[0]


@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_the_number_of_jobs_changes_nothing(method):
    rng = np.random.default_rng(6)
    A, B = rng.random((2, 14, 14))
    options = {"method": method, "restarts": 7, "polish": "tabu", "rng": 8, "max_lmo": 400}
    results = [solve(A, B, n_jobs=n_jobs, **options) for n_jobs in (None, 1, 2, -1)]
    for result in results[1:]:
        assert np.array_equal(result.permutation, results[0].permutation)
        assert np.array_equal(result.relaxed, results[0].relaxed)
        assert result.restart_values == results[0].restart_values
        assert all(result[name] == results[0][name] for name in COUNTS)


def test_seeds_and_generators_make_runs_repeatable():
    rng = np.random.default_rng(7)
    A, B = rng.random((2, 8, 8))

    def run(rng):
        # Few steps: runs that differ may still end at the same vertex.
        return solve(A, B, init="random", restarts=2, max_lmo=3, inner="fw", split="paper", rng=rng)

    def legacy():
        return np.random.Generator(np.random.RandomState(3)._bit_generator)

    for source in (lambda: 3, lambda: np.random.SeedSequence(3), lambda: np.random.default_rng(3), legacy):
        assert np.array_equal(run(source()).relaxed, run(source()).relaxed)
    generator = np.random.default_rng(3)
    assert not np.array_equal(run(generator).relaxed, run(generator).relaxed)
    with pytest.raises(TypeError, match="rng must be"):
        run("seed")


# -- limits ----------------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"max_lmo": 1}, Status.MAX_LMO),
        ({"max_lmo": 5}, Status.MAX_LMO),
        ({"maxiter": 0}, Status.MAXITER),
        ({"maxiter": 1}, Status.MAXITER),
        ({"time_limit": 0.0}, Status.TIME_LIMIT),
    ],
)
def test_a_limit_returns_the_best_so_far(method, split, limit, status):
    rng = np.random.default_rng(9)
    A, B = rng.integers(0, 99, (2, 15, 15))
    result = solve(A, B, method=method, split=split, rtol=1e-9, **limit)
    check(result, A, B)
    assert result.status is status
    assert result.n_lmo <= limit.get("max_lmo", math.inf)
    assert result.nit <= limit.get("maxiter", math.inf)
    # Even one assignment problem is better than random permutations.
    assert result.fun < np.mean([evaluate(A, B, rng.permutation(15)) for _ in range(200)])


def test_no_start_is_made_after_the_time_limit():
    rng = np.random.default_rng(10)
    A, B = rng.random((2, 10, 10))
    for n_jobs in (None, 2):
        result = solve(A, B, restarts=50, time_limit=0.0, n_jobs=n_jobs)
        check(result, A, B)
        assert len(result.restart_values) == 1


def test_an_infinite_time_limit_is_none():
    rng = np.random.default_rng(10)
    A, B = rng.random((2, 6, 6))
    assert solve(A, B, time_limit=math.inf, polish="tabu").status is Status.CONVERGED


def test_a_random_start_is_ready_at_its_deadline():
    n = 60
    late = Birkhoff(n).random(0, scale=1.0, deadline=time.perf_counter())
    assert Birkhoff(n).contains(late, 1e-9)
    assert not np.array_equal(late, Birkhoff(n).random(0, scale=1.0))
    far = time.perf_counter() + 1e6
    assert np.array_equal(Birkhoff(n).random(0, deadline=far), Birkhoff(n).random(0))


def test_an_interrupt_during_the_polish_keeps_the_permutation(monkeypatch):
    import dcfw.qap.swaps

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(dcfw.qap.swaps, "_descended", interrupted)
    rng = np.random.default_rng(11)
    A, B = rng.random((2, 7, 7))
    result = solve(A, B, polish="2opt", restarts=5)
    check(result, A, B)
    assert result.status is Status.INTERRUPTED
    assert len(result.restart_values) == 1


@contextmanager
def ctrl_c_after(seconds):
    """Raise KeyboardInterrupt in the main thread after a while, as Ctrl-C does; and again, like a user."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, 15.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers to imitate Ctrl-C")
@pytest.mark.parametrize(
    "options",
    [
        {"restarts": "auto", "time_limit": 60.0, "polish": "2opt"},
        {"restarts": "auto", "time_limit": 60.0, "polish": "tabu"},
        {"restarts": 10**4},
        {"restarts": 10**4, "n_jobs": 2},
        {"restarts": "auto", "time_limit": 60.0, "polish": "2opt", "n_jobs": 2},
    ],
    ids=["kicks", "tabu search", "one by one", "side by side", "kicks side by side"],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_ends_a_search_with_the_best_permutation_so_far_and_says_so(options):
    # Python drops an exception that is raised in a weak reference's callback, so the first Ctrl-C may be lost
    # there, with a warning; the second one ends the search.
    rng = np.random.default_rng(13)
    A, B = rng.integers(0, 9, (2, 40, 40))
    solve(A, B, **options | {"restarts": 2, "time_limit": 1e-3})  # workers are started before the clock
    begun = time.perf_counter()
    with ctrl_c_after(1.5 if "n_jobs" in options else 0.5):
        result = solve(A, B, rng=0, **options)
    assert time.perf_counter() - begun < 30.0
    check(result, A, B)
    assert result.status is Status.INTERRUPTED
    assert not result.success
    assert result.fun == min(result.restart_values)
    assert "interrupted" in result.message


def test_a_callback_that_stops_a_later_start_is_what_the_result_says():
    rng = np.random.default_rng(14)
    A, B = rng.integers(0, 9, (2, 8, 8))
    starts = []

    def callback(intermediate_result):
        starts.append(intermediate_result.nit == 0)
        if sum(starts) == 3:
            raise StopIteration

    result = solve(A, B, callback=callback, restarts=9, rng=0)
    assert len(result.restart_values) == 3
    assert result.status is Status.CALLBACK
    assert result.message.startswith(Status.CALLBACK.sentence)


def test_every_run_of_a_search_keeps_to_a_budget_of_assignment_problems():
    rng = np.random.default_rng(15)
    A, B = rng.integers(0, 9, (2, 15, 15))
    seen = []
    solve(
        A, B, restarts="auto", time_limit=0.3, max_lmo=5, rng=0,
        callback=lambda intermediate_result: seen.append(intermediate_result.n_lmo),
    )  # fmt: skip
    assert seen[0] == 1
    assert max(seen) <= 3 * 5  # the quick start and two graduated paths


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_callback_sees_the_user_s_problem_and_may_stop(n_jobs):
    rng = np.random.default_rng(12)
    A, B, C = rng.integers(0, 9, (3, 8, 8))
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result)
        if intermediate_result.nit >= 2:
            raise StopIteration

    result = solve(
        A, B, C, maximize=True, partial_match=[[1, 2]], callback=callback, restarts=4, rng=0, n_jobs=n_jobs
    )
    check(result, A, B, C)
    assert result.status is Status.CALLBACK
    assert len(result.restart_values) == 1
    for state in seen:
        assert state.fun == pytest.approx(phi(A, B, state.x, C))
        assert state.x[1, 2] == 1.0


# -- the barycentre --------------------------------------------------------------------------------------


def cycle(n):
    return np.roll(np.eye(n, dtype=int), 1, axis=1) + np.roll(np.eye(n, dtype=int), -1, axis=1)


REGULAR = {
    "two cycles": (cycle(8), cycle(8)),
    "one of them regular": (cycle(8), np.add.outer(np.arange(8), np.arange(8)) ** 2),
    "noise of rounding": (0.1 * cycle(7) * math.pi, 1e9 / 3 * cycle(7) + np.eye(7) / 7),
    "tiny numbers": (1e-60 * cycle(7), 1e-50 * cycle(7)),
}


@every_method
@pytest.mark.parametrize("name", REGULAR)
def test_a_constant_gradient_at_the_barycentre_is_left_and_said_so(method, split, name):
    A, B = REGULAR[name]
    options = {"method": method, "split": split, "max_lmo": 500, "rng": 0}
    for init in ("barycenter", np.full(A.shape, 1.0 / len(A))):
        result = solve(A, B, init=init, **options)
        check(result, A, B)
        assert result.perturbed
        assert "perturbed" in result.message
        assert result.n_inner > 0
        assert np.ptp(result.relaxed) > 1e-3


def test_an_irregular_problem_starts_at_the_barycentre_itself():
    rng = np.random.default_rng(13)
    A, B = rng.random((2, 7, 7))
    result = solve(A, B, method="dcfw")
    assert not result.perturbed
    assert result.history["fun"][0] == pytest.approx(phi(A, B, np.full((7, 7), 1 / 7)))
    assert not solve(A, B, rtol=1.0).perturbed  # which converges at once, for another reason


@every_method
@pytest.mark.parametrize(
    ("A", "C"),
    [
        (np.zeros((6, 6), dtype=int), None),
        (np.ones((6, 6)) / 3, None),
        (np.add.outer(np.arange(6.0), np.zeros(6)) * 0 + 1e7 / 3, np.full((6, 6), 1 / 7)),
    ],
    ids=["A = 0", "A constant", "all constant"],
)
def test_a_constant_objective_is_optimal_at_once(method, split, A, C):
    B = np.random.default_rng(14).integers(0, 9, (6, 6))
    result = solve(A, B, C, method=method, split=split)
    check(result, A, B, C)
    assert result.status is Status.CONVERGED
    assert result.n_inner == 0
    assert not result.perturbed
    assert "constant" in result.message


@every_method
def test_a_linear_problem_is_solved_exactly(method, split):
    C = np.random.default_rng(15).integers(0, 99, (7, 7))
    zero = np.zeros((7, 7), dtype=int)
    for A, B in ((zero, zero), (zero, np.arange(49).reshape(7, 7))):
        result = solve(A, B, C, method=method, split=split, max_lmo=3000)
        assert result.fun == C[linear_sum_assignment(C)].sum()


# -- partial matches and sizes ---------------------------------------------------------------------------


@given(problems(), st.integers(0, 10**6), st.booleans())
def test_a_partial_match_is_respected_and_the_rest_is_as_good_as_can_be(problem, seed, maximize):
    A, B, C = problem
    n = len(A)
    rng = np.random.default_rng(seed)
    m = int(rng.integers(0, n + 1))
    pairs = np.column_stack([rng.permutation(n)[:m], rng.permutation(n)[:m]])
    result = solve(
        A, B, C, partial_match=pairs, maximize=maximize, restarts=5, polish="tabu", rng=0, max_lmo=200
    )
    check(result, A, B, C)
    assert np.array_equal(result.permutation[pairs[:, 0]], pairs[:, 1])
    assert np.all(result.relaxed[pairs[:, 0], pairs[:, 1]] == 1.0)
    allowed = [value for value, p in brute_force(A, B, C) if all(p[i] == j for i, j in pairs)]
    assert result.fun == pytest.approx((max if maximize else min)(allowed), rel=1e-12)


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_a_match_of_everything_leaves_nothing_to_do(method):
    rng = np.random.default_rng(16)
    A, B, C = rng.integers(0, 9, (3, 5, 5))
    p = rng.permutation(5)
    for restarts, limit in ((3, None), ("auto", 0.05)):
        result = solve(
            A, B, C, method=method, partial_match=np.column_stack([range(5), p]), restarts=restarts,
            time_limit=limit, polish="tabu", init=np.eye(5)[p],
        )  # fmt: skip
        check(result, A, B, C)
        assert np.array_equal(result.permutation, p)
        assert (result.nit, result.n_lmo, result.gap) == (0, 0, 0.0)
        assert result.success
        assert "nothing to choose" in str(result)


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_one_item_has_one_place(method):
    for restarts, limit in ((3, None), ("auto", 0.05)):
        result = solve([[3]], [[4]], [[5]], method=method, restarts=restarts, time_limit=limit, polish="2opt")
        check(result, [[3]], [[4]], [[5]])
        assert result.fun == 17
        assert result.success
    result = solve(np.ones((2, 2)), np.ones((2, 2)), method=method, partial_match=[[0, 1]])
    assert np.array_equal(result.permutation, [1, 0])


def test_large_integers_are_exact_beside_a_partial_match():
    rng = np.random.default_rng(17)
    A, B = rng.integers(-(2**40), 2**40, (2, 6, 6))
    result = solve(A, B, partial_match=[[0, 3], [4, 1]], restarts=3, polish="2opt", rng=0)
    p = result.permutation
    assert result.fun == sum(int(A[i, j]) * int(B[p[i], p[j]]) for i in range(6) for j in range(6))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_smaller_matrix_is_padded(kind):
    rng = np.random.default_rng(18)
    A, B, C = rng.integers(1, 9, (5, 5)), rng.integers(1, 9, (3, 3)), rng.integers(1, 9, (5, 3))
    padded, linear = np.zeros((5, 5), dtype=int), np.zeros((5, 5), dtype=int)
    padded[:3, :3] = B
    linear[:, :3] = C
    result = solve(kind(A), kind(B), C, restarts=10, polish="2opt", rng=0)
    check(result, A, padded, linear)
    assert result.sizes == (5, 3)
    assert result.fun == min(value for value, _ in brute_force(A, padded, linear))
    turned = solve(kind(B), kind(A), C.T, restarts=10, polish="2opt", rng=0)
    assert (turned.fun, turned.sizes) == (result.fun, (3, 5))


def test_a_start_may_be_given_for_all_or_for_the_free_nodes():
    rng = np.random.default_rng(19)
    A, B = rng.random((2, 6, 6))
    X0 = Birkhoff(4).random(0)
    pairs = [[1, 0], [3, 5]]
    full = np.zeros((6, 6))
    full[np.ix_([0, 2, 4, 5], [1, 2, 3, 4])] = X0
    full[[1, 3], [0, 5]] = 1.0
    kept = full.copy()
    results = [solve(A, B, partial_match=pairs, init=init) for init in (X0, full)]
    assert np.array_equal(results[0].relaxed, results[1].relaxed)
    assert results[0].history["fun"][0] == pytest.approx(phi(A, B, full))
    assert np.array_equal(full, kept)


# -- sparse matrices -------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("both", [True, False])
def test_sparse_matrices_take_the_same_way(method, split, both):
    rng = np.random.default_rng(20)
    n = 110  # smaller ones are made dense
    A, B = (rng.random((n, n)) * (rng.random((n, n)) < 0.05) for _ in range(2))
    options = {"method": method, "split": split, "inner": "fw", "max_lmo": 25, "rng": 0}
    sparse = solve(sp.csr_array(A), sp.csc_matrix(B) if both else B, **options)
    if split == "auto" and method in ("dcfw", "boosted"):
        options["split"] = "balanced"  # what it means for sparse data
    dense = solve(A, B, **options)
    check(sparse, A, B)
    np.testing.assert_allclose(sparse.relaxed, dense.relaxed, atol=1e-7)
    assert [sparse[name] for name in COUNTS] == [dense[name] for name in COUNTS]


def test_the_automatic_split_is_spectral_for_dense_data_and_balanced_for_sparse_ones():
    rng = np.random.default_rng(23)
    A, B = (rng.random((110, 110)) * (rng.random((110, 110)) < 0.05) for _ in range(2))
    assert solve(A, B, max_lmo=3).split == "spectral"
    assert solve(sp.csr_array(A), B, max_lmo=3).split == "balanced"


def test_a_boosted_run_needs_fewer_outer_steps_and_says_that_it_is_one():
    steps = {"dcfw": 0, "boosted": 0}
    for seed in range(8):  # on single instances it may be the other way round: 322 and 259 in all
        problem = qap.generators.nugent((5, 6), rng=seed)
        for method in steps:
            result = solve(problem.A, problem.B, method=method)
            assert result.method == method
            steps[method] += result.nit
    assert steps["boosted"] < steps["dcfw"]


@pytest.mark.parametrize("n", [12, 110])
def test_sparse_integers_stay_exact_and_untouched(n):
    rng = np.random.default_rng(21)
    A, B = (sp.csr_array(rng.integers(0, 9, (n, n)) * (rng.random((n, n)) < 0.1)) for _ in range(2))
    before = A.toarray()
    result = solve(A, B, maximize=True, partial_match=[[0, 4]], polish="2opt", rng=0, max_lmo=30)
    check(result, A.toarray(), B.toarray())
    assert np.array_equal(A.toarray(), before)


MEMORY_CASES = {
    "tai256c": """
        from dcfw import data
        instance = qap.load("tai256c")
        result = qap.solve(instance.A, instance.B, max_lmo=3, polish="2opt", time_limit=20)
    """,
    "dense, n = 1000": """
        rng = np.random.default_rng(0)
        A, B = rng.random((2, 1000, 1000))
        result = qap.solve(A, B, max_lmo=3)
    """,
    "sparse, n = 1000": """
        rng = np.random.default_rng(0)
        A, B = (sp.random_array((1000, 1000), density=0.005, rng=rng, format="csr") for _ in range(2))
        result = qap.solve(A, B, max_lmo=3)
    """,
}


@pytest.mark.parametrize("name", MEMORY_CASES)
def test_large_problems_need_less_than_two_gibibytes(name):
    resource = pytest.importorskip("resource", reason="peak memory is measured on POSIX systems only")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**31 // 1024
    if name == "tai256c":
        try:
            qap.load(name)
        except FileNotFoundError as missing:
            pytest.skip(f"needs QAPLIB: {missing}")
    code = "import resource, numpy as np, scipy.sparse as sp\nfrom dcfw import qap\n"
    code += textwrap.dedent(MEMORY_CASES[name])
    code += "n = len(result.permutation)\n"
    code += "assert np.array_equal(np.sort(result.permutation), np.arange(n))\n"
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(answer.stdout) * unit < 2 * 2**30


# -- input -----------------------------------------------------------------------------------------------


def nan_at(i, j):
    M = np.eye(3)
    M[i, j] = np.nan
    return M


I3 = np.eye(3)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((np.ones((2, 3)), I3), {}, ValueError, "A must be a square matrix"),
        ((I3, np.ones((2, 3))), {}, ValueError, "B must be a square matrix"),
        ((I3, np.ones(3)), {}, ValueError, "B must have 2 dimension"),
        ((np.empty((0, 0)), I3), {}, ValueError, "A must be a square matrix"),
        ((I3, None), {}, TypeError, "B must hold real numbers"),
        ((nan_at(0, 2), I3), {}, ValueError, r"A has NaN or Inf entries \(the first at \(0, 2\)\)"),
        ((I3, sp.csr_array(nan_at(1, 1))), {}, ValueError, "B.data has NaN"),
        ((I3, I3 * 1j), {}, TypeError, "B must hold real numbers"),
        ((I3, I3, np.ones((2, 2))), {}, ValueError, r"C must have shape \(3, 3\), got \(2, 2\)"),
        ((I3, I3, nan_at(0, 0)), {}, ValueError, "C has NaN"),
        ((I3, I3), {"method": "dcfv"}, ValueError, "method must be one of .*did you mean 'dcfw'"),
        ((I3, I3), {"split": "spektral"}, ValueError, "split must be one of .*did you mean 'spectral'"),
        ((I3, I3), {"inner": "fww"}, ValueError, "inner must be one of .*did you mean 'fw'"),
        ((I3, I3), {"polish": "2-opt"}, ValueError, "polish must be one of .*did you mean '2opt'"),
        ((I3, I3), {"init": "barycentre"}, ValueError, "init must be one of .*did you mean 'barycenter'"),
        ((I3, I3), {"init": np.ones((3, 3))}, ValueError, "init must be doubly stochastic"),
        ((I3, I3), {"init": 2 * I3 - 1 / 3}, ValueError, "init must be doubly stochastic"),
        ((I3, I3), {"init": np.eye(2)}, ValueError, r"init must .* of shape \(3, 3\), got \(2, 2\)"),
        ((I3, I3), {"partial_match": [[0, 1], [0, 2]]}, ValueError, "repeats the row index 0"),
        ((I3, I3), {"partial_match": [[0, 1], [2, 1]]}, ValueError, "repeats the column index 1"),
        ((I3, I3), {"partial_match": [[0, 3]]}, ValueError, "indices from 0 to 2"),
        ((I3, I3), {"partial_match": [[-1, 0]]}, ValueError, "indices from 0 to 2"),
        ((I3, I3), {"partial_match": [[0.5, 1.0]]}, ValueError, "pairs of integers"),
        ((I3, I3), {"partial_match": [[0, 1, 2]]}, ValueError, "pairs of integers"),
        ((I3, I3), {"restarts": 0}, ValueError, "restarts must be at least 1"),
        ((I3, I3), {"restarts": "many"}, ValueError, "restarts must be a positive integer or 'auto'"),
        ((I3, I3), {"restarts": "auto"}, ValueError, "give time_limit"),
        ((I3, I3), {"rtol": -1.0}, ValueError, "rtol must be"),
        ((I3, I3), {"max_lmo": 0}, ValueError, "max_lmo must be at least 1"),
        ((I3, I3), {"maxiter": 1.5}, TypeError, "maxiter must be an integer"),
        ((I3, I3), {"time_limit": -1}, ValueError, "time_limit must be"),
        ((I3, I3), {"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ((I3, I3), {"callback": 3}, TypeError, "callback must be callable"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        solve(*arguments, **options)


def test_lists_and_other_types_of_numbers_are_taken():
    A = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    expected = solve(np.array(A), np.array(A), rng=0).fun
    assert solve(A, A, rng=0).fun == expected
    for dtype in (np.int8, np.uint16, np.float32):
        assert solve(np.array(A, dtype=dtype), A, rng=0).fun == expected
    assert solve(np.array(A) > 0, A, rng=0).fun == solve((np.array(A) > 0).astype(int), A, rng=0).fun


def test_a_partial_match_of_large_integers_beside_a_linear_term_of_floats_does_not_overflow():
    rng = np.random.default_rng(0)
    A, B = rng.integers(0, 10**10, (2, 5, 5))
    C = rng.random((5, 5))
    result = solve(A, B, C, partial_match=[[0, 1], [2, 3]], restarts=5, polish="2opt", rng=0)
    values = [value for value, p in brute_force(A, B, C) if p[0] == 1 and p[2] == 3]
    assert result.fun == pytest.approx(min(values), rel=1e-12)
    for value in result.restart_values:  # each is that of a permutation
        assert np.isclose(value, values, rtol=1e-12).any()


def test_a_call_leaves_nothing_to_the_garbage_collector():
    problem = qap.generators.nugent((2, 3), rng=0)

    def left_behind(options):
        gc.collect()
        gc.disable()
        try:
            solve(problem.A, problem.B, rng=0, **options)
            return gc.collect()
        finally:
            gc.enable()

    for options in ({"method": "fw"}, {}, {"restarts": 2, "polish": "2opt"}):
        solve(problem.A, problem.B, rng=0, **options)
        # Matrices in a cycle would stay in memory until some later collection. Every call would leave them;
        # other threads of the process (the test runner's) may leave something during one.
        assert min(left_behind(options) for _ in range(5)) == 0, options
