"""``qap.quadratic_assignment`` behaves as SciPy's, and has our methods too."""

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from dcfw import Result
from dcfw.qap import evaluate, load, quadratic_assignment, solve
from dcfw.qap.compat import OWN_METHODS
from dcfw.sets import Birkhoff

scipys = scipy.optimize.quadratic_assignment


@st.composite
def problems(draw, kinds=("floats", "integers"), largest=12):
    n = draw(st.integers(2, largest))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kind = draw(st.sampled_from(kinds))
    A, B = (rng.random((n, n)) if kind == "floats" else rng.integers(-9, 10, (n, n)) for _ in range(2))
    if draw(st.booleans()):
        A, B = A + A.T, B + B.T
    m = draw(st.integers(0, n))
    rows = np.sort(rng.permutation(n)[:m])  # SciPy needs them sorted
    pairs = np.column_stack([rows, rng.permutation(n)[:m]])
    options = {"maximize": draw(st.booleans()), "partial_match": pairs}
    return A, B, options, rng


@contextmanager
def watched():
    """Notice when SciPy's answer to an assignment problem is not the only one."""
    rng, seen = np.random.default_rng(0), {"tied": False}

    def watching(costs, maximize=False):
        answer = linear_sum_assignment(costs, maximize)
        nearby = linear_sum_assignment(costs + 1e-9 * np.ptp(costs) * rng.random(costs.shape), maximize)
        seen["tied"] = seen["tied"] or not np.array_equal(answer[1], nearby[1])
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scipy.optimize._qap, "linear_sum_assignment", watching)
        yield seen


def same(ours, theirs):
    assert np.array_equal(ours.col_ind, theirs.col_ind)
    assert ours.fun == pytest.approx(theirs.fun, rel=1e-12)
    assert ours.nit == theirs.nit


@given(problems(kinds=["floats"]), st.booleans())
def test_faq_takes_scipy_s_steps(problem, given_start):
    A, B, options, rng = problem
    options["rng"] = rng
    free = len(A) - len(options["partial_match"])
    if given_start and free:
        options["P0"] = Birkhoff(free).random(rng)
    ours = quadratic_assignment(A, B, "faq", options)
    with watched() as seen:
        theirs = scipys(A, B, "faq", options)
    assume(not seen["tied"])
    same(ours, theirs)


@given(problems(kinds=["floats"]), st.integers(0, 100), st.sampled_from(["barycenter", "randomized"]))
def test_faq_uses_the_generator_as_scipy_does(problem, seed, P0):
    A, B, options, _ = problem
    assume(len(options["partial_match"]) < len(A))
    options |= {"P0": P0, "shuffle_input": True, "maxiter": 50, "tol": 1e-3}
    ours = quadratic_assignment(A, B, "faq", {**options, "rng": np.random.default_rng(seed)})
    with watched() as seen:
        theirs = scipys(A, B, "faq", {**options, "rng": np.random.default_rng(seed)})
    assume(not seen["tied"])
    same(ours, theirs)


@given(problems(largest=9), st.integers(0, 100), st.booleans())
def test_two_opt_makes_scipy_s_swaps(problem, seed, guessed):
    A, B, options, _ = problem
    n, pairs = len(A), options["partial_match"]
    if guessed:
        # Guesses that SciPy can use: sorted, and apart from the given pairs.
        rows, columns = (np.setdiff1d(np.arange(n), pairs[:, k]) for k in (0, 1))
        options["partial_guess"] = np.column_stack([rows, columns])[: len(rows) // 2]
    ours, theirs = (
        solver(A, B, "2opt", {**options, "rng": np.random.default_rng(seed)})
        for solver in (quadratic_assignment, scipys)
    )
    same(ours, theirs)


@pytest.mark.parametrize("method", ["faq", "2opt", "dcfw", "fw"])
def test_given_pairs_need_not_be_sorted(method):
    rng = np.random.default_rng(1)
    A, B = rng.random((7, 7)), rng.random((7, 7))
    pairs = np.array([[5, 2], [0, 6], [3, 3]])
    result = quadratic_assignment(A, B, method, {"partial_match": pairs, "rng": rng})
    assert np.array_equal(result.col_ind[pairs[:, 0]], pairs[:, 1])
    assert np.array_equal(np.sort(result.col_ind), np.arange(7))
    assert result.fun == pytest.approx(evaluate(A, B, result.col_ind))
    everything = np.column_stack([rng.permutation(7), rng.permutation(7)])
    result = quadratic_assignment(A, B, method, {"partial_match": everything, "rng": rng})
    assert np.array_equal(result.col_ind[everything[:, 0]], everything[:, 1])
    assert result.nit == 0


def test_a_guess_gives_way_to_a_given_pair():
    rng = np.random.default_rng(2)
    A, B = rng.random((5, 5)), rng.random((5, 5))
    options = {"partial_match": [[0, 1]], "partial_guess": [[2, 1], [0, 3], [4, 4]], "rng": rng}
    result = quadratic_assignment(A, B, "2opt", options)
    assert result.col_ind[0] == 1
    assert np.array_equal(np.sort(result.col_ind), np.arange(5))


def test_two_opt_ends_where_no_swap_helps():
    rng = np.random.default_rng(3)
    A, B = rng.integers(0, 50, (12, 12)), rng.integers(0, 50, (12, 12))
    p = quadratic_assignment(A, B, "2opt", {"rng": rng}).col_ind
    for i in range(12):
        for j in range(i):
            q = p.copy()
            q[[i, j]] = q[[j, i]]
            assert evaluate(A, B, q) >= evaluate(A, B, p)


@pytest.mark.parametrize("method", ["faq", "2opt", "dcfw"])
def test_values_of_large_integers_are_exact(method):
    rng = np.random.default_rng(4)
    A, B = rng.integers(0, 2**40, (6, 6)), rng.integers(0, 2**40, (6, 6))
    result = quadratic_assignment(A, B, method, {"rng": 0})
    p = result.col_ind
    assert type(result.fun) is int
    assert result.fun == sum(int(A[i, j]) * int(B[p[i], p[j]]) for i in range(6) for j in range(6))


@pytest.mark.parametrize("method", ["faq", "2opt", "dcfw", "fw"])
def test_sparse_matrices_are_taken(method):
    A, B = (sp.random_array((9, 9), density=0.4, rng=seed, format="csr") for seed in (0, 1))
    sparse = quadratic_assignment(A, B, method, {"rng": 0})
    dense = quadratic_assignment(A.toarray(), B.toarray(), method, {"rng": 0})
    assert sparse.fun == pytest.approx(dense.fun)


@pytest.mark.parametrize("rng", [None, 3, np.random.default_rng(3), np.random.RandomState(3), np.random])
@pytest.mark.parametrize("method", ["faq", "2opt", "dcfw"])
def test_every_source_of_randomness_is_taken(method, rng):
    options = {"rng": rng} if method == "2opt" else {"rng": rng, "P0": "randomized"}
    result = quadratic_assignment(np.eye(4), np.eye(4), method, options)
    assert result.fun == 4.0


@pytest.mark.parametrize("method", ["faq", "2opt", "fw"])
def test_a_seed_makes_results_repeatable(method):
    rng = np.random.default_rng(5)
    A, B = rng.random((9, 9)), rng.random((9, 9))
    options = {"rng": 7} if method == "2opt" else {"rng": 7, "P0": "randomized", "shuffle_input": True}
    first, second = (quadratic_assignment(A, B, method, options) for _ in range(2))
    assert np.array_equal(first.col_ind, second.col_ind)


def test_our_methods_take_the_options_of_solve_and_of_faq():
    rng = np.random.default_rng(6)
    A, B, C = rng.random((3, 8, 8))
    options = {"C": C, "split": "spectral", "restarts": 3, "polish": "2opt", "maximize": True, "rng": 1}
    result = quadratic_assignment(A, B, options=options)
    direct = solve(A, B, C, split="spectral", restarts=3, polish="2opt", maximize=True, rng=1)
    assert np.array_equal(result.col_ind, direct.permutation)
    assert (result.fun, result.nit, len(result.restart_values)) == (direct.fun, direct.nit, 3)

    P0 = Birkhoff(8).random(2)
    result = quadratic_assignment(A, B, "fw", {"P0": P0, "tol": 1e-2, "maxiter": 7})
    direct = solve(A, B, method="fw", init=P0, rtol=1e-2, maxiter=7)
    assert np.array_equal(result.col_ind, direct.permutation)
    assert result.nit == direct.nit


@pytest.mark.parametrize("maximize", [False, True])
def test_shuffled_input_comes_back_in_order(maximize):
    rng = np.random.default_rng(8)
    A, B, C = rng.random((3, 8, 8))
    pairs = [[1, 4], [6, 0]]
    options = {"shuffle_input": True, "rng": 3, "partial_match": pairs, "C": C, "maximize": maximize}
    result = quadratic_assignment(A, B, options=options)
    assert np.array_equal(result.col_ind[[1, 6]], [4, 0])
    assert result.fun == pytest.approx(evaluate(A, B, result.col_ind, C))
    assert np.all(result.relaxed[[1, 6], [4, 0]] == 1.0)
    assert result.relaxed_fun == pytest.approx(
        np.sum((A @ result.relaxed) * (result.relaxed @ B)) + np.sum(C * result.relaxed)
    )


def test_an_unknown_method_is_named_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"method must be one of .*did you mean '2opt'"):
        quadratic_assignment(np.eye(2), np.eye(2), "2-opt")
    assert quadratic_assignment(np.eye(2), np.eye(2), "FAQ").fun == 2.0


def test_an_unknown_option_is_warned_of_and_ignored():
    with pytest.warns(scipy.optimize.OptimizeWarning, match="Unknown solver options: partial_guess"):
        quadratic_assignment(np.eye(2), np.eye(2), "faq", {"partial_guess": [[0, 0]]})
    with pytest.warns(scipy.optimize.OptimizeWarning, match="Unknown solver options: splitt"):
        quadratic_assignment(np.eye(2), np.eye(2), options={"splitt": "paper"})


def test_matrices_that_are_not_numbers_are_refused():
    A = np.eye(3)
    A[0, 1] = np.nan
    for method in ("faq", "2opt", "dcfw"):
        with pytest.raises(ValueError, match="B has NaN or Inf entries"):
            quadratic_assignment(np.eye(3), A, method)


@pytest.mark.parametrize("name", ["nug12", "bur26a", "sko49"])
def test_faq_ends_where_scipy_s_ends_on_real_data_without_ties(name):
    try:
        instance = load(name)
    except FileNotFoundError as missing:
        pytest.skip(f"needs QAPLIB: {missing}")
    rng = np.random.default_rng(0)
    A, B = (M + 0.1 * rng.random(M.shape) for M in (instance.A, instance.B))
    ours, theirs = (solver(A, B, "faq", {"rng": rng}) for solver in (quadratic_assignment, scipys))
    same(ours, theirs)


def phi(A, B, X):
    return np.sum((A @ X) * (X @ B))


def test_incumbents_and_what_an_exception_carries_are_in_the_users_order_when_the_input_is_shuffled():
    A, B = np.random.default_rng(1).integers(0, 9, (2, 9, 9))
    seen = []

    def fail(intermediate_result):
        raise ArithmeticError

    options = {"shuffle_input": True, "rng": 0, "restarts": "auto", "max_steps": 200}
    quadratic_assignment(A, B, options=options | {"callback": seen.append})
    with pytest.raises(ArithmeticError) as caught:
        quadratic_assignment(A, B, options={"shuffle_input": True, "rng": 0, "callback": fail})
    found = [state for state in seen if state.permutation is not None]
    assert found
    for state in (*found, caught.value.intermediate_result):
        assert state.fun == evaluate(A, B, state.permutation)
    for state in found:
        assert state.relaxation.fun == pytest.approx(phi(A, B, state.relaxation.x))


@pytest.mark.parametrize("method", OWN_METHODS)
def test_the_relaxation_is_in_the_users_order_when_the_input_is_shuffled(method):
    A, B = np.random.default_rng(1).random((2, 9, 9))
    res = quadratic_assignment(A, B, method=method, options={"shuffle_input": True, "rng": 0})
    assert res.relaxation.fun == pytest.approx(phi(A, B, res.relaxation.x), rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"P0": "randomized"}, {"shuffle_input": True}])
@pytest.mark.parametrize("method", OWN_METHODS)
def test_a_match_of_everything_has_a_result_of_the_method_too(method, options):
    A, B = np.random.default_rng(3).integers(0, 9, (2, 3, 3))
    pairs = [[0, 1], [1, 0], [2, 2]]
    res = quadratic_assignment(A, B, method=method, options={"partial_match": pairs, "rng": 0, **options})
    assert isinstance(res, Result)
    assert res.col_ind.tolist() == [1, 0, 2]
    assert res.fun == evaluate(A, B, [1, 0, 2])
    assert res.gap == 0.0


@pytest.mark.parametrize("pairs", [[], [[1, 3], [4, 0]]], ids=["all free", "two given"])
@pytest.mark.parametrize("size", ["whole", "free"])
def test_a_start_and_a_callback_are_in_the_users_order_when_the_input_is_shuffled(pairs, size):
    A, B = np.random.default_rng(5).random((2, 7, 7))
    given = np.array(pairs, dtype=int).reshape(-1, 2)
    p = np.array([2, 3, 1, 6, 0, 5, 4])
    X, seen = np.eye(7)[p], []
    rows, columns = np.setdiff1d(range(7), given[:, 0]), np.setdiff1d(range(7), given[:, 1])
    options = {"partial_match": given, "shuffle_input": True, "rng": 1}
    options["init"] = X if size == "whole" else X[np.ix_(rows, columns)]
    options["callback"] = lambda intermediate_result: seen.append(intermediate_result)
    res = quadratic_assignment(A, B, method="dcfw", options=options)
    assert res.fun == pytest.approx(evaluate(A, B, res.col_ind))
    np.testing.assert_allclose(seen[0].x, X, atol=1e-12)
    for state in seen:
        assert state.fun == pytest.approx(np.sum((A @ state.x) * (state.x @ B)))


@pytest.mark.parametrize(
    ("method", "options", "error", "said"),
    [
        ("faq", {"partial_match": [[1, 2], [3]]}, ValueError, "`partial_match` must be pairs of integers"),
        ("2opt", {"partial_guess": "ab"}, ValueError, "`partial_guess` must be pairs of integers"),
        ("faq", {"maxiter": None}, TypeError, "'maxiter' must be a positive integer, got None"),
        ("dcfw", {"maxiter": 3.0}, TypeError, "'maxiter' must be a positive integer, got 3.0"),
        ("dcfw", {"tol": 0.1, "rtol": 1e-9}, ValueError, "as 'tol' or as 'rtol', not as both"),
        ("faq", {"tol": None}, TypeError, "tol must be a real number"),
        ("faq", {"P0": [[1], [2, 3]]}, ValueError, "P0 must be a rectangular array"),
        ("faq", {"shuffle_input": "no"}, TypeError, "shuffle_input must be True or False, got 'no'"),
        ("dcfw", {"shuffle_input": "no"}, TypeError, "shuffle_input must be True or False, got 'no'"),
        ("dcfw", {"shuffle_input": True, "C": np.ones((3, 3))}, ValueError, r"C must have shape \(4, 4\)"),
        ("dcfw", {"shuffle_input": True, "init": [[1], [2, 3]]}, ValueError, "init must be a rectangular"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(method, options, error, said):
    with pytest.raises(error, match=said):
        quadratic_assignment(np.eye(4), np.eye(4), method, options)


def test_our_methods_in_the_drop_in_take_budgets_and_refuse_forbidden_pairs():
    A, B = np.random.default_rng(0).integers(0, 9, (2, 8, 8))
    for method in ("graduated", "auto"):
        assert quadratic_assignment(A, B, method).fun == solve(A, B, method=method).fun
    found = quadratic_assignment(A, B, options={"restarts": "auto", "max_steps": 500, "target": 0, "rng": 0})
    assert found.fun == solve(A, B, restarts="auto", max_steps=500, rng=0).fun
    with pytest.raises(ValueError, match="forbidden"):
        quadratic_assignment(A, B, options={"forbidden": [[0, 1]]})


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_integer_rng_of_scipy_is_a_random_state_here():
    A, B = np.random.default_rng(1).random((2, 12, 12))
    theirs = scipys(A, B, options={"P0": "randomized", "rng": 3})
    ours = quadratic_assignment(A, B, "faq", options={"P0": "randomized", "rng": np.random.RandomState(3)})
    assert np.array_equal(ours.col_ind, theirs.col_ind)
