"""Iterated swap descent, and how restarts="auto" fills its time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import qap
from dcfw.qap.generators import li_pardalos, taillard_uniform
from dcfw.qap.kicks import iterated_two_opt
from dcfw.qap.swaps import two_opt


def random_problem(n, seed, symmetric, linear, floats):
    rng = np.random.default_rng(seed)
    A, B = rng.integers(0, 20, (2, n, n))
    if symmetric:
        A, B = A + A.T, B + B.T
    C = rng.integers(-30, 30, (n, n)) if linear else None
    if floats:
        A = A + 0.125 * rng.standard_normal((n, n))
    return A, B, C, rng.permutation(n)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 14),
    seed=st.integers(0, 10**6),
    symmetric=st.booleans(),
    linear=st.booleans(),
    floats=st.booleans(),
)
def test_kicks_return_a_permutation_never_worse_than_the_start_and_its_true_value(
    n, seed, symmetric, linear, floats
):
    A, B, C, p = random_problem(n, seed, symmetric, linear, floats)
    before = p.copy()
    q, value, rounds = iterated_two_opt(A, B, p, C, rounds=60, rng=seed)
    assert np.array_equal(np.sort(q), np.arange(n))
    assert np.array_equal(p, before)
    assert value == qap.evaluate(A, B, q, C)
    assert value <= qap.evaluate(A, B, p, C)
    assert rounds == (60 if n >= 3 else 0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_kicks_end_where_no_swap_helps(symmetric):
    A, B, C, p = random_problem(13, 5, symmetric, True, False)
    q, value, _ = iterated_two_opt(A, B, p, C, rounds=50, rng=1)
    _, after, swaps = two_opt(A, B, q, C)
    assert swaps == 0
    assert after == value


def test_kicks_improve_on_a_single_descent():
    gains = 0
    for seed in range(5):
        problem = taillard_uniform(20, rng=seed)
        start = np.random.default_rng(seed).permutation(20)
        _, once, _ = two_opt(problem.A, problem.B, start)
        _, many, _ = iterated_two_opt(problem.A, problem.B, start, rounds=400, rng=seed)
        assert many <= once
        gains += many < once
    assert gains >= 4


def test_kicks_find_a_known_optimum():
    problem = li_pardalos(16, rng=3)
    _, value, _ = iterated_two_opt(problem.A, problem.B, np.arange(16), rounds=3000, rng=0)
    assert value == problem.best


def test_the_same_seed_gives_the_same_kicks():
    A, B, C, p = random_problem(15, 8, False, False, False)
    first = iterated_two_opt(A, B, p, C, rounds=30, rng=4)
    again = iterated_two_opt(A, B, p, C, rounds=30, rng=4)
    assert np.array_equal(first[0], again[0])
    assert first[1] == again[1]


def test_kicks_stop_at_the_time_limit():
    problem = taillard_uniform(60, rng=0)
    iterated_two_opt(problem.A, problem.B, np.arange(60), rounds=1, rng=0)  # compile
    started = time.perf_counter()
    iterated_two_opt(problem.A, problem.B, np.arange(60), rounds=10**9, rng=0, time_limit=0.2)
    assert time.perf_counter() - started < 5.0  # generous: a hang, not a speed, is what this would show


def test_bad_kicks_are_refused_by_name():
    A = np.ones((4, 4))
    with pytest.raises(TypeError, match="rounds"):
        iterated_two_opt(A, A, np.arange(4), rounds=1.5)
    with pytest.raises(ValueError, match="rounds"):
        iterated_two_opt(A, A, np.arange(4), rounds=-1)


@pytest.mark.parametrize("polish", [None, "2opt", "tabu"])
def test_auto_restarts_fill_the_time_and_return_the_best_value(polish):
    problem = li_pardalos(12, rng=1)
    qap.solve(problem.A, problem.B, restarts="auto", polish=polish, time_limit=0.1, rng=0)  # compile
    started = time.perf_counter()
    result = qap.solve(problem.A, problem.B, restarts="auto", polish=polish, time_limit=0.5, rng=0)
    assert time.perf_counter() - started >= 0.5
    assert result.fun == qap.evaluate(problem.A, problem.B, result.permutation)
    assert result.fun == min(result.restart_values)
    assert len(result.restart_values) > 1
    assert result.fun >= problem.best
    if polish is not None:
        assert result.fun == problem.best


def test_auto_restarts_respect_maximize_partial_matches_and_linear_terms():
    A, B, C, _ = random_problem(9, 3, False, True, False)
    result = qap.solve(
        A, B, C, maximize=True, partial_match=[[0, 4], [5, 2]], restarts="auto", polish="2opt",
        time_limit=0.3, rng=0,
    )  # fmt: skip
    assert result.permutation[0] == 4
    assert result.permutation[5] == 2
    assert result.fun == qap.evaluate(A, B, result.permutation, C)
    single = qap.solve(A, B, C, maximize=True, partial_match=[[0, 4], [5, 2]], rng=0)
    assert result.fun >= single.fun


@pytest.fixture
def starts(monkeypatch):
    """The method, split and number of every start from now on."""
    from dcfw.qap.task import Task

    seen, run = [], Task.run

    def watched(self, index, rng, deadline):
        seen.append((self.method, self.split, index))
        return run(self, index, rng, deadline)

    monkeypatch.setattr(Task, "run", watched)
    return seen


def test_a_split_of_the_users_own_is_kept_in_auto_restarts(starts):
    problem = li_pardalos(9, rng=1)
    chosen = qap.solve(problem.A, problem.B, split="spectral", restarts="auto", time_limit=0.2, rng=0)
    assert (chosen.method, chosen.split) == ("dcfw", "spectral")
    assert {(method, split) for method, split, _ in starts} == {("dcfw", "spectral")}


def test_after_the_first_quick_start_come_careful_ones_from_the_same_point(starts):
    problem = taillard_uniform(8, seed=3)
    qap.solve(problem.A, problem.B, restarts="auto", time_limit=0.1, rng=0)
    starts.clear()
    result = qap.solve(problem.A, problem.B, restarts="auto", time_limit=0.5, rng=0)
    assert starts[:3] == [("fw", "spectral", 0), ("dcfw", "balanced", 0), ("dcfw", "spectral", 0)]
    assert {method for method, _, _ in starts[3:]} == {"fw"}
    assert [index for _, _, index in starts[3:]] == list(range(3, len(starts)))
    assert len(result.restart_values) == len(starts) > 3


def test_compiling_does_not_count_as_time_of_the_solve(monkeypatch):
    from dcfw.qap import portfolio

    asked = []

    def slow(kinds, automatic, options):
        asked.append((automatic, dict(options)["polish"]))
        time.sleep(0.4)

    monkeypatch.setattr(portfolio, "load", slow)
    problem = taillard_uniform(8, seed=3)
    result = qap.solve(problem.A, problem.B, restarts="auto", time_limit=0.3, polish="2opt", rng=0)
    assert asked == [(True, "2opt")]
    assert result.total_time >= 0.7
    assert len(result.restart_values) > 1
    qap.solve(problem.A, problem.B, rng=0)
    assert len(asked) == 1  # without a limit there is no hurry


@pytest.mark.parametrize("automatic", [False, True])
@pytest.mark.parametrize("polish", [None, "2opt", "tabu"])
def test_the_tiny_problem_compiles_all_that_a_solve_needs(automatic, polish):
    from numba.core import event

    A, B = np.random.default_rng(0).integers(0, 9, (2, 7, 7))
    options = {"restarts": "auto" if automatic else 2, "polish": polish, "rng": 0}
    qap.solve(A, B, time_limit=0.0, **options)
    with event.install_recorder("numba:compile") as recorder:
        qap.solve(A, B, time_limit=0.2, **options)
    assert [e.data["dispatcher"] for _, e in recorder.buffer] == []
