"""``qap.solve(restarts="auto")`` and ``method="graduated"``: answers, units, statuses, budgets,
interrupts."""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest

from dcfw import Status, qap
from dcfw.qap import portfolio
from dcfw.qap.graduated import STAGES, perturbed_centre, prepare
from dcfw.qap.portfolio import ELITE, Incumbent, expected
from dcfw.qap.searches import child, schedule


def brute(A, B, C=None, better=min):
    return better(qap.evaluate(A, B, list(p), C) for p in itertools.permutations(range(len(A))))


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_search_finds_the_optimum_of_small_problems(symmetric, maximize):
    rng = np.random.default_rng(3)
    A, B, C = rng.integers(-9, 10, (3, 6, 6))
    if symmetric:
        A, B = A + A.T, B + B.T
    res = qap.solve(A, B, C, restarts="auto", max_steps=2000, maximize=maximize, rng=0)
    assert res.fun == brute(A, B, C, max if maximize else min) == qap.evaluate(A, B, res.permutation, C)
    assert type(res.fun) is int
    assert res.success
    assert res.trace[-1].value == res.fun
    values = [line.value for line in res.trace]
    assert values == sorted(values, reverse=not maximize)
    assert (res.bound >= res.fun) if maximize else (res.bound <= res.fun)


def test_the_search_respects_partial_matches_linear_terms_and_sizes():
    rng = np.random.default_rng(1)
    A, B = rng.integers(0, 9, (7, 7)), rng.integers(0, 9, (5, 5))
    C = rng.integers(0, 50, (7, 5))
    for maximize in (False, True):
        pairs = [[0, 2], [4, 1]]
        res = qap.solve(
            A, B, C, restarts="auto", max_steps=1500, partial_match=pairs, maximize=maximize, rng=0
        )
        padded = [np.pad(M, ((0, 7 - M.shape[0]), (0, 7 - M.shape[1]))) for M in (A, B, C)]
        values = [
            qap.evaluate(padded[0], padded[1], list(p), padded[2])
            for p in itertools.permutations(range(7))
            if p[0] == 2 and p[4] == 1
        ]
        assert res.fun == (max(values) if maximize else min(values))
        assert (res.permutation[0], res.permutation[4]) == (2, 1)
        assert res.x.shape == res.relaxed.shape == (7, 7)
        assert res.sizes == (7, 5)


def test_a_budget_in_steps_gives_the_same_search_every_time():
    problem = qap.generators.nugent(20, rng=0)
    first, second = (
        qap.solve(problem.A, problem.B, restarts="auto", max_steps=4000, rng=7) for _ in range(2)
    )
    np.testing.assert_array_equal(first.permutation, second.permutation)
    assert first.trace == second.trace
    assert first.status is Status.FINISHED


def test_a_target_and_a_bound_end_the_search():
    problem = qap.generators.li_pardalos(12, rng=0)
    res = qap.solve(problem.A, problem.B, restarts="auto", time_limit=60, target=problem.best, rng=0)
    assert res.status in (Status.TARGET, Status.OPTIMAL)
    assert res.time < 30
    assert res.fun == problem.best
    flat = qap.solve(np.ones((5, 5), dtype=int), np.ones((5, 5), dtype=int), restarts="auto", time_limit=60)
    assert (flat.status, flat.fun, flat.bound, flat.gap_to_bound) == (Status.OPTIMAL, 25, 25, 0.0)
    assert flat.success


@pytest.mark.parametrize("budget", [{"maxiter": 1}, {"max_lmo": 1}])
def test_a_search_whose_starts_are_cut_short_has_succeeded(budget):
    A, B = np.random.default_rng(0).integers(0, 10, (2, 12, 12))
    res = qap.solve(A, B, restarts="auto", time_limit=0.1, rng=0, **budget)
    assert res.success
    assert res.status in (Status.FINISHED, Status.OPTIMAL)
    assert res.fun == qap.evaluate(A, B, res.permutation)


def test_another_clock_can_measure_the_limit():
    ticks = itertools.count()
    problem = qap.generators.nugent(12, rng=0)
    res = qap.solve(
        problem.A, problem.B, restarts="auto", time_limit=300.0, rng=0, clock=lambda: float(next(ticks))
    )
    assert res.status in (Status.FINISHED, Status.OPTIMAL)
    assert next(ticks) >= 300


@pytest.mark.parametrize(
    "options", [{"restarts": "auto", "max_steps": 500}, {"restarts": 2, "polish": "2opt"}, {}]
)
def test_the_answer_is_never_worse_than_the_permutation_it_starts_from(options):
    problem = qap.generators.li_pardalos(10, rng=3)
    res = qap.solve(problem.A, problem.B, init=problem.permutation, rng=0, **options)
    assert res.fun == problem.best
    with pytest.raises(ValueError, match="each of 0"):
        qap.solve(problem.A, problem.B, init=np.zeros(10, dtype=int))


def test_several_workers_share_one_incumbent():
    problem = qap.generators.nugent(15, rng=2)
    res = qap.solve(problem.A, problem.B, restarts="auto", time_limit=0.3, n_jobs=2, rng=0)
    assert res.fun == qap.evaluate(problem.A, problem.B, res.permutation) == min(res.restart_values)


def test_callbacks_and_their_histories_are_in_the_users_units():
    rng = np.random.default_rng(5)
    A, B = rng.integers(0, 9, (2, 9, 9))
    seen = []

    def watch(intermediate_result):
        r = intermediate_result
        if len(r.history):
            seen.append((r.fun if r.permutation is None else r.relaxed_fun, r.history["fun"][-1], r.x.shape))

    qap.solve(A, B, maximize=True, partial_match=[[0, 0]], callback=watch, rng=0)
    assert seen
    for fun, recorded, shape in seen:
        assert fun == pytest.approx(recorded)
        assert fun > 0
        assert shape == (9, 9)


@pytest.mark.parametrize("options", [{"restarts": 3}, {"restarts": "auto", "max_steps": 400}])
def test_an_exception_keeps_what_was_found_in_the_users_units(options):
    rng = np.random.default_rng(5)
    A, B = rng.integers(1, 9, (2, 9, 9))
    calls = itertools.count()

    def fail(intermediate_result):
        if next(calls) >= 3:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as caught:
        qap.solve(A, B, maximize=True, partial_match=[[2, 3]], callback=fail, rng=0, **options)
    found = caught.value.intermediate_result
    assert found.permutation[2] == 3
    assert found.fun == qap.evaluate(A, B, found.permutation) > 0
    assert found.x.shape == (9, 9)


@pytest.mark.parametrize("options", [{"maxiter": 50}, {"restarts": "auto", "max_steps": 400}])
def test_the_note_on_an_exception_names_the_users_function_and_no_internal_value(options):
    def fail(intermediate_result):
        raise RuntimeError("mine")

    A, B = np.random.default_rng(5).integers(1, 9, (2, 9, 9))
    with pytest.raises(RuntimeError, match="mine") as caught:
        qap.solve(A, B, maximize=True, callback=fail, **options)
    (note,) = caught.value.__notes__
    assert "dcfw.qap.solve; the best permutation" in note
    assert "minimize" not in note
    assert "phi" not in note


def test_a_callback_and_ctrl_c_end_a_search_without_losing_it():
    problem = qap.generators.nugent(12, rng=0)
    for error, status in ((StopIteration, Status.CALLBACK), (KeyboardInterrupt, Status.INTERRUPTED)):

        def stop(intermediate_result, error=error):
            if len(intermediate_result.trace) >= 1:
                raise error

        res = qap.solve(problem.A, problem.B, restarts="auto", time_limit=60, callback=stop, rng=0)
        assert (res.status, res.success) == (status, False)
        assert res.fun == qap.evaluate(problem.A, problem.B, res.permutation)


def test_labels_of_frames_come_back():
    pandas = pytest.importorskip("pandas")
    A = pandas.DataFrame([[0, 3], [3, 0]], index=["press", "lathe"], columns=["press", "lathe"])
    B = pandas.DataFrame(np.arange(9).reshape(3, 3), index=list("xyz"), columns=list("xyz"))
    res = qap.solve(A, B)
    assert {left for left, _ in res.labels} == {"press", "lathe"}
    assert all(right in "xyz" for _, right in res.labels)


def test_a_result_describes_itself(tmp_path):
    from matplotlib.figure import Figure

    problem = qap.generators.nugent(9, rng=0)
    res = qap.solve(problem.A, problem.B, restarts="auto", max_steps=500, rng=0)
    assert "bound" in str(res)
    assert "FINISHED" in res._repr_html_() or "OPTIMAL" in res._repr_html_()
    assert res.plot(Figure().subplots()).get_ylabel() == "value"
    assert res.relaxation.n_lmo == res.n_lmo > 0
    res.save(tmp_path / "mine.sln")
    solution = qap.read_solution(tmp_path / "mine.sln")
    assert solution.value == res.fun


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("restarts", [1, 3, "auto"])
def test_the_relaxation_in_a_result_has_the_value_of_its_own_point(maximize, restarts):
    rng = np.random.default_rng(3)
    A, B = rng.integers(0, 9, (2, 7, 7))
    limit = {"max_steps": 300} if restarts == "auto" else {}
    res = qap.solve(A, B, maximize=maximize, restarts=restarts, rng=0, **limit)
    X = res.relaxation.x
    assert res.relaxation.fun == res.relaxed_fun == pytest.approx(np.sum((A @ X) * (X @ B)), rel=1e-9)


@pytest.mark.parametrize("split", ["norm", "paper", "auto"])
def test_a_graduated_path_ends_at_a_permutation_of_its_value(split):
    rng = np.random.default_rng(2)
    for n in (1, 2, 5, 11):
        A, B, C = rng.integers(-9, 10, (3, n, n))
        res = qap.solve(A, B, C, method="graduated", split=split, rng=0)
        assert res.fun == qap.evaluate(A, B, res.permutation, C)
        assert res.success
        assert res.n_lmo > 0
        assert res.bound == res.fun if n == 1 else res.bound <= res.fun
    highest = qap.solve(A, B, C, method="graduated", split=split, maximize=True, rng=0)
    assert highest.bound >= highest.fun


@pytest.mark.parametrize("split", ["norm", "paper"])
def test_a_path_that_has_settled_at_a_permutation_skips_the_rest(split):
    problem = qap.generators.nugent(20, rng=4)
    path = prepare(problem.A, problem.B, None, split)
    start = perturbed_centre(20, 0.05, np.random.default_rng(0))
    end = path.follow(start)
    assert end.stages < STAGES
    vertex = np.eye(20)[end.p]
    gradient = path.A @ vertex @ path.B.T + path.A.T @ vertex @ path.B
    for theta in np.linspace(*path.ends, STAGES)[end.stages - 1 :]:
        p, _, inner, _ = path.kernel.follow(vertex, gradient, [theta], 6, 0.1, 100)
        assert np.array_equal(p, end.p)
        assert inner == 0


def test_a_graduated_path_finds_a_planted_matching():
    rng = np.random.default_rng(0)
    G = np.triu(rng.random((40, 40)) < 0.3, 1).astype(int)
    G = G + G.T
    p = rng.permutation(40)
    H = G[np.ix_(p, p)]
    res = qap.solve(G, H, method="graduated", split="paper", maximize=True, rng=0)
    assert res.fun == G.sum()


def test_the_compiled_path_and_numpys_agree(monkeypatch):
    from dcfw import kernels

    if kernels.native is None:
        pytest.skip("the extension is not built")
    rng = np.random.default_rng(4)
    A, B, C = rng.standard_normal((3, 12, 12))
    ours = [qap.solve(A, B, C, method="graduated", split=split, rng=0) for split in ("norm", "paper")]
    monkeypatch.setattr(kernels, "native", None)
    for mine, split in zip(ours, ("norm", "paper"), strict=True):
        theirs = qap.solve(A, B, C, method="graduated", split=split, rng=0)
        np.testing.assert_array_equal(mine.permutation, theirs.permutation)
        assert mine.n_lmo == theirs.n_lmo


def test_children_keep_what_their_parents_share():
    rng = np.random.default_rng(0)
    one = rng.permutation(30)
    other = one.copy()
    other[[3, 8, 20]] = other[[8, 20, 3]]
    for _ in range(20):
        p = child(one, other, rng)
        assert sorted(p) == list(range(30))
        same = one == other
        np.testing.assert_array_equal(p[same], one[same])


def test_a_schedule_falls_and_lingers_where_the_objective_does():
    T = 0.9 ** np.arange(40)
    E = 1.0 / (1.0 + np.exp(-(np.log(T) + 2.0) / 0.1))  # falls around log T = -2
    temperature = schedule(np.stack((T, E), axis=1))
    points = [math.log(temperature(share)) for share in np.linspace(0, 1, 101)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(points))
    assert sum(-2.8 < point < -1.2 for point in points) > 60


def test_expectations_are_equal_gains_in_every_doubling():
    assert expected([(1.0, 80.0), (2.0, 70.0)], 8.0) == pytest.approx(50.0)
    assert expected([(1.0, 70.0), (2.0, 70.0)], 8.0) == 70.0


def test_the_elite_is_small_has_different_values_and_is_renewed_once_nothing_comes_in():
    found = Incumbent(lambda: 0.0)
    for value in [*range(40, 10, -1), *range(ELITE - 1)]:
        found.offer(value, np.arange(3), "test")
        values = [known for known, _ in found.elite]
        assert values == sorted(set(values))
        assert len(values) <= ELITE
    assert found.value == 0
    for _ in range(2 * ELITE + 1):
        found.offer(99, np.arange(3), "test")
    assert [known for known, _ in found.elite] == [0]


def test_a_search_counts_the_assignment_problems_of_its_paths():
    A, B = np.random.default_rng(3).integers(0, 9, (2, 12, 12))
    result = qap.solve(A, B, restarts="auto", max_steps=30_000, rng=0)
    assert any(found.search == "graduated" for found in result.trace) or result.n_starts > 2
    assert result.n_lmo > result.relaxation.n_lmo + 100


def test_large_problems_have_a_graduated_start_where_the_budget_allows_one(monkeypatch):
    monkeypatch.setattr(portfolio, "LARGEST", 10)  # larger ones are annealed
    A, B = np.random.default_rng(4).integers(0, 9, (2, 14, 14))
    counts = {steps: qap.solve(A, B, restarts="auto", max_steps=steps, rng=0) for steps in (1_000, 200_000)}
    paths = {steps: found.n_lmo - found.relaxation.n_lmo for steps, found in counts.items()}
    assert paths[1_000] == 0 < paths[200_000]


def test_the_default_is_a_graduated_path_and_its_restarts_only_improve_it():
    A, B = np.random.default_rng(5).integers(0, 9, (2, 15, 15))
    one = qap.solve(A, B, rng=0)
    path = qap.solve(A, B, method="graduated", rng=0)
    several = qap.solve(A, B, restarts=4, rng=0)
    assert one.method == "graduated"
    assert one.fun == path.fun == several.restart_values[0]
    assert several.fun <= one.fun
    for options in ({"rtol": 1e-4}, {"maxiter": 5}, {"inner": "fw"}, {"init": "random"}, {"split": "paper"}):
        assert qap.solve(A, B, rng=0, **options).method == "dcfw"


@pytest.mark.parametrize(
    "option",
    [{"rtol": 1e-6}, {"max_lmo": 40}, {"inner": "fw"}, {"maxiter": 2}, {"method": "dcfw"}],
)
def test_a_search_starts_with_the_relaxation_that_was_asked_for(option):
    A, B = np.random.default_rng(5).integers(0, 9, (2, 15, 15))
    asked = qap.solve(A, B, rng=0, **option)
    first = qap.solve(A, B, restarts="auto", max_steps=1, rng=0, **option).relaxation
    for name in ("nit", "n_inner", "n_lmo", "fun", "gap", "threshold"):
        assert (name, first[name]) == (name, asked.relaxed_fun if name == "fun" else asked[name])
    short = qap.solve(A, B, restarts="auto", max_steps=1, rng=0).relaxation
    assert short.n_lmo <= 20


def test_rounding_is_no_progress():
    flow = 0.7 * np.random.default_rng(0).integers(0, 9, (8, 8))
    res = qap.solve(flow, flow.T, restarts="auto", max_steps=20_000, rng=0)
    values = [value for _, value, _ in res.trace]
    assert all(later < value - 1e-9 for value, later in pairwise(values))


def test_the_trace_of_float_data_has_no_value_twice_even_where_one_happens_to_be_an_integer():
    found = Incumbent(lambda: 0.0, rtol=1e-12)
    for value in (3.0, 3.0 - 4e-16, 2.0, 2.0 - 2e-16):
        found.offer(value, np.arange(3), "test")
    assert [value for _, value, _ in found.trace] == [3.0, 2.0]
    A, B = np.random.default_rng(0).integers(0, 9, (2, 7, 7))
    halves = qap.solve(A * 0.1, B * 10.0, restarts="auto", max_steps=3000, rng=0)
    values = [value for _, value, _ in halves.trace]
    assert all(later < value - 1e-9 for value, later in pairwise(values))


def test_a_search_of_float_data_ends_at_a_target_that_equals_a_known_value():
    rng = np.random.default_rng(0)
    A, B = rng.random((12, 12)), rng.random((12, 12))
    A, B = A + A.T, B + B.T
    best = qap.solve(A, B, restarts="auto", max_steps=5000, rng=0).fun
    for seed in range(1, 7):
        found = qap.solve(A, B, restarts="auto", max_steps=20_000, rng=seed, target=best)
        assert found.fun == pytest.approx(best)
        assert (found.status is Status.TARGET) == (found.fun <= best * (1 + 1e-12))


@pytest.mark.parametrize("seed", [1, 4, 6, 8])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_target_of_float_data_is_met_by_its_permutation_in_every_order_of_summation(
    symmetric, maximize, seed
):
    A, B, C = np.random.default_rng(seed).random((3, 7, 7))
    A = A + A.T if symmetric else A
    for linear in (None, C):
        options = {"restarts": "auto", "max_steps": 2000, "maximize": maximize}
        best = qap.solve(A, B, linear, rng=0, **options).fun
        found = qap.solve(A, B, linear, rng=1, target=best, **options)
        assert found.status in (Status.TARGET, Status.OPTIMAL)


def test_a_search_of_float_data_ends_at_a_bound_that_is_met_but_for_rounding():
    A = np.array([[-599999.575216008, 600001.575510333], [600002.5063213074, -1000002.0654324212]])
    B = np.array([[-5e5, -3e5], [-3e5, 4e5]])
    found = qap.solve(A, B, restarts="auto", max_steps=194, rng=0)
    assert found.fun == pytest.approx(brute(A, B))
    assert found.success


@pytest.mark.parametrize("floats", [False, True])
def test_an_infinite_target_ends_the_search_at_its_first_value(floats):
    A, B = np.random.default_rng(2).integers(0, 9, (2, 30, 30))
    A = 0.5 * A if floats else A
    for maximize, target in ((False, np.inf), (True, -np.inf), (False, 1e300)):
        found = qap.solve(A, B, restarts="auto", max_steps=10**7, maximize=maximize, target=target, rng=0)
        assert found.status is Status.TARGET
        assert len(found.trace) == 1


@pytest.mark.parametrize("option", [{"target": 100}, {"max_steps": 10}])
def test_options_of_a_search_are_refused_by_a_number_of_restarts(option):
    problem = qap.generators.nugent((2, 3), rng=0)
    (name,) = option
    with pytest.raises(ValueError, match=f"{name} is for restarts='auto'"):
        qap.solve(problem.A, problem.B, restarts=5, **option)


def test_a_start_with_a_forbidden_pair_is_refused_by_name():
    problem = qap.generators.nugent((2, 3), rng=0)
    p = qap.solve(problem.A, problem.B, rng=0).permutation
    with pytest.raises(ValueError, match=rf"init has the forbidden pair \[4, {p[4]}\]"):
        qap.solve(problem.A, problem.B, init=p, forbidden=[(4, int(p[4]))], partial_match={0: int(p[0])})


def test_the_trace_of_a_search_begins_with_the_users_permutation_and_says_its_unit():
    problem = qap.generators.nugent((3, 4), rng=0)
    first = qap.solve(problem.A, problem.B, restarts="auto", max_steps=3000, rng=0)
    again = qap.solve(problem.A, problem.B, init=first.permutation, restarts="auto", max_steps=300, rng=1)
    assert (again.trace[0].search, again.trace_unit) == ("init", "steps")
    assert again.fun <= first.fun
    assert "steps" in str(again)
    timed = qap.solve(problem.A, problem.B, restarts="auto", time_limit=0.05, rng=1)
    assert timed.trace_unit == "seconds"
    assert timed.trace[0].search != "init"


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_steps", bad) for bad in (0, -1, 1.5, "many", np.ones(2))]
    + [("target", bad) for bad in (math.nan, "low", np.ones(2), 1j)],
)
def test_bad_options_of_a_search_are_refused_by_name(option, value):
    problem = qap.generators.nugent((2, 3), rng=0)
    with pytest.raises((ValueError, TypeError), match=option):
        qap.solve(problem.A, problem.B, restarts="auto", **{"time_limit": 0.1, option: value})
