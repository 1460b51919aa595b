"""The assignment solvers give optimal (or certified) answers on every kind of cost matrix."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit
from scipy.optimize import linear_sum_assignment

from dcfw.sets import lap_short
from dcfw.sets.auction import Auction
from dcfw.sets.lap import INFEASIBLE, OPTIMAL, WRONG_SIZE, Assignment, assign, solve, workspace

EPS = np.finfo(np.float64).eps
SIZES = (1, 2, 3, 7, 15, 16, 17, 31, 47, 48, 49, 65)  # around the limits of padding and of vector steps


def check(C, columns, u=None, v=None):
    """Assert that the columns are an optimal permutation and that u, v prove it."""
    C = np.asarray(C, dtype=float)
    n = len(C)
    rows = np.arange(n)
    scale = np.abs(C[np.isfinite(C)]).max()
    assert sorted(columns.tolist()) == list(range(n))
    best = C[linear_sum_assignment(C)].sum()
    cost = C[rows, columns].sum()
    assert np.isfinite(cost)
    assert abs(cost - best) <= 8 * n * EPS * scale
    if u is not None:
        tiny = 64 * EPS * max(scale, np.abs(u).max(), np.abs(v).max())
        reduced = (C - u[:, None]) - v
        assert reduced.min() >= -tiny
        assert np.abs(reduced[rows, columns]).max() <= tiny


def monge(n, rng):
    # c(i, j) = -x_i y_j with sorted x, y, plus rows and columns: only the identity is optimal.
    x, y = np.sort(rng.random(n)), np.sort(rng.random(n))
    return -np.outer(x, y) + rng.random((n, 1)) + rng.random(n)


def permuted_diagonal(n, rng):
    C = 1.0 + rng.random((n, n))
    C[np.arange(n), rng.permutation(n)] = 0.0
    return C


def with_forbidden_pairs(n, rng):
    C = np.where(rng.random((n, n)) < 0.7, np.inf, rng.random((n, n)))
    keep = (np.arange(n), rng.permutation(n))
    C[keep] = rng.random(n)
    return C


FAMILIES = {
    "uniform": lambda n, rng: rng.random((n, n)),
    "normal": lambda n, rng: rng.standard_normal((n, n)),
    "two values": lambda n, rng: rng.integers(0, 2, (n, n)),
    "few integers": lambda n, rng: rng.integers(-5, 5, (n, n)),
    "many integers": lambda n, rng: rng.integers(-(10**9), 10**9, (n, n)),
    "constant": lambda n, rng: np.full((n, n), rng.standard_normal()),
    "zero": lambda n, rng: np.zeros((n, n)),
    "permuted diagonal": permuted_diagonal,
    "Monge": monge,
    "products": lambda n, rng: np.outer(rng.random(n), rng.random(n)),
    "low rank": lambda n, rng: rng.standard_normal((n, 3)) @ rng.standard_normal((3, n)),
    "equal rows": lambda n, rng: np.tile(rng.random(n), (n, 1)),
    "forbidden pairs": with_forbidden_pairs,
    "bad rows": lambda n, rng: rng.random((n, n)) * 10.0 ** rng.integers(-8, 8, (n, 1)),
    "bad entries": lambda n, rng: rng.random((n, n)) * 10.0 ** rng.integers(-12, 12, (n, n)),
    "huge": lambda n, rng: rng.standard_normal((n, n)) * 1e300,
    "tiny": lambda n, rng: rng.standard_normal((n, n)) * 1e-300,
    "subnormal": lambda n, rng: rng.integers(-9, 9, (n, n)) * 5e-324,
    "offset": lambda n, rng: 1e6 + rng.random((n, n)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cold_start_is_optimal_with_a_dual_proof(family):
    rng = np.random.default_rng(1)
    for n in SIZES:
        for _ in range(3):
            C = FAMILIES[family](n, rng)
            solver = Assignment(n)
            check(C, solver(C), solver.u, solver.v)


def test_a_warm_start_is_optimal_after_a_jump_to_any_other_matrix():
    rng = np.random.default_rng(2)
    families = list(FAMILIES.values())
    for n in SIZES:
        solver = Assignment(n)
        for _ in range(150):
            C = families[rng.integers(len(families))](n, rng)
            check(C, solver(C), solver.u, solver.v)


@pytest.mark.parametrize("n", [5, 20, 60])
def test_a_warm_start_is_optimal_along_slowly_changing_costs(n):
    rng = np.random.default_rng(3)
    solver = Assignment(n)
    C = rng.random((n, n))
    for _ in range(200):
        C = 0.95 * C + 0.05 * rng.random((n, n))
        check(C, solver(C), solver.u, solver.v)


def test_a_warm_start_scans_less_than_a_cold_one_on_close_costs():
    rng = np.random.default_rng(4)
    solver, warm, cold = Assignment(60), 0, 0
    C = rng.random((60, 60))
    solver(C)
    for _ in range(50):
        C = 0.99 * C + 0.01 * rng.random((60, 60))
        solver(C)
        warm += solver.work
        fresh = Assignment(60)
        fresh(C)
        cold += fresh.work
    assert warm < cold / 2


def test_where_old_prices_mislead_the_solver_learns_to_start_cold():
    # Unrelated matrices whose columns are dear or cheap at random: warm starts scan twice as many rows.
    rng = np.random.default_rng(5)
    n = 40
    adaptive, (real, index) = Assignment(n), workspace(n)
    work = {"adaptive": 0, "warm": 0, "cold": 0}
    for _ in range(400):
        C = rng.integers(0, 3, (n, n)) + 3.0 * rng.integers(0, 2, n)
        check(C, adaptive(C), adaptive.u, adaptive.v)
        work["adaptive"] += adaptive.work
        index[6, 3] = index[6, 4] = 0  # nothing spent, nothing known against warm starts
        assert solve(C, real, index) == OPTIMAL
        work["warm"] += index[6, 1]
        fresh = Assignment(n)
        fresh(C)
        work["cold"] += fresh.work
    assert work["warm"] > 1.5 * work["cold"]
    assert work["adaptive"] < 1.1 * work["cold"]


real_matrices = st.integers(1, 9).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.floats(-1e100, 1e100, allow_nan=False, width=64))
)
tied_matrices = st.integers(1, 9).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.integers(-3, 3).map(float))
)


@settings(max_examples=300, deadline=None)
@given(real_matrices | tied_matrices)
def test_every_finite_matrix_is_solved(C):
    solver = Assignment(len(C))
    check(C, solver(C), solver.u, solver.v)
    check(-C, solver(-C), solver.u, solver.v)
    check(C.T, solver(C.T), solver.u, solver.v)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 7).flatmap(
        lambda n: arrays(np.float64, (n, n), elements=st.sampled_from([0.0, 1.0, 2.5, np.inf, np.inf]))
    )
)
def test_forbidden_pairs_are_avoided_or_the_matrix_is_named_infeasible(C):
    solver = Assignment(len(C))
    for _ in range(2):  # the second time after the first answer, or the first failure
        try:
            linear_sum_assignment(C)
            feasible = True
        except ValueError:
            feasible = False
        if feasible:
            check(C, solver(C), solver.u, solver.v)
        else:
            with pytest.raises(ValueError, match="infeasible"):
                solver(C)
            assert np.isfinite(solver.u).all()
            assert np.isfinite(solver.v).all()
    finite = np.where(np.isinf(C), 9.0, C)
    check(finite, solver(finite), solver.u, solver.v)


@settings(max_examples=100, deadline=None)
@given(real_matrices, st.data())
def test_any_stored_prices_and_columns_give_an_optimal_answer(C, data):
    n = len(C)
    real, index = workspace(n)
    assert solve(C, real, index) == OPTIMAL
    real[1, :n] = data.draw(arrays(np.float64, n, elements=st.floats(allow_nan=True, allow_infinity=True)))
    index[0, :n] = data.draw(arrays(np.intp, n, elements=st.integers(-(2**40), 2**40)))
    assert solve(C, real, index) == OPTIMAL
    check(C, index[0, :n], real[0, :n], real[1, :n])
    np.testing.assert_array_equal(index[1, index[0, :n]], np.arange(n))


def test_integers_are_solved_exactly():
    rng = np.random.default_rng(6)
    for n in (4, 20, 60):
        solver = Assignment(n)
        for _ in range(20):
            C = rng.integers(-(10**12), 10**12, (n, n))
            columns = solver(C)
            assert C[np.arange(n), columns].sum() == C[linear_sum_assignment(C)].sum()


@pytest.mark.parametrize("form", [list, np.asfortranarray, np.float32])
def test_forbidden_pairs_are_avoided_in_every_form_of_the_costs(form):
    C = np.array([[0.0, 2.0, np.inf], [1.0, np.inf, 5.0], [np.inf, 3.0, 4.0]])
    np.testing.assert_array_equal(Assignment(3)(form(C)), linear_sum_assignment(C)[1])


def test_the_infeasibility_is_explained_by_rows_with_too_few_columns():
    C = np.ones((4, 4))
    C[[0, 2, 3], 1:] = np.inf
    C[3, 3] = 1.0
    with pytest.raises(ValueError, match=r"infeasible.* 2 row\(s\) \[0, 2\].* 1 column\(s\) \[0\]"):
        assign(C)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, np.float32, ">f8"])
def test_every_real_dtype_and_layout_is_accepted_and_left_unchanged(dtype):
    rng = np.random.default_rng(7)
    C = rng.integers(0, 2 if dtype is bool else 100, (30, 30)).astype(dtype)
    for view in (C, C.T, np.asfortranarray(C), C[::2, ::2], C[::-1, ::-1]):
        view.flags.writeable = False
        before = view.copy()
        solver = Assignment(len(view))
        check(view, solver(view), solver.u, solver.v)
        np.testing.assert_array_equal(view, before)
    check(C, assign(C.tolist()))


def test_answers_are_fresh_arrays_of_intp():
    solver = Assignment(3)
    first = solver(np.eye(3))
    kept = first.copy()
    second = solver(-np.eye(3))
    np.testing.assert_array_equal(first, kept)
    assert first.dtype == second.dtype == np.intp


def test_reset_makes_the_next_solve_equal_to_the_first():
    C = np.random.default_rng(8).integers(0, 3, (20, 20))
    solver = Assignment(20)
    first = solver(C)
    u, v = solver.u.copy(), solver.v.copy()
    for _ in range(3):
        solver(C + np.eye(20))
    solver.reset()
    np.testing.assert_array_equal(solver(C), first)
    np.testing.assert_array_equal(solver.u, u)
    np.testing.assert_array_equal(solver.v, v)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("n", [5, 60])
def test_nan_and_minus_inf_are_rejected_and_forgotten(bad, n):
    rng = np.random.default_rng(9)
    C = rng.random((n, n))
    solver = Assignment(n)
    check(C, solver(C))
    C[3, 1] = bad
    with pytest.raises(ValueError, match=r"\(3, 1\)"):
        solver(C)
    C[3, 1] = 0.5
    check(C, solver(C), solver.u, solver.v)


@pytest.mark.parametrize(
    ("C", "message"),
    [
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "square"),
        (np.zeros(4), "dimension"),
        (np.full((2, 2), 1e305), "2\\^1000"),
        (np.array([[1e305, np.inf], [0.0, 1.0]]), "2\\^1000"),
        (np.array([[2**60, 0], [0, 1]]), "2\\^53"),
        (np.array([[2**63, 0], [0, 1]], dtype=np.uint64), "2\\^53"),
    ],
)
def test_bad_matrices_are_rejected_with_a_reason(C, message):
    with pytest.raises(ValueError, match=message):
        assign(C)


def test_a_matrix_of_another_size_and_complex_costs_are_rejected():
    with pytest.raises(ValueError, match="shape"):
        Assignment(3)(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="shape"):
        Assignment(3)(np.zeros((3, 2), dtype=int))
    with pytest.raises(TypeError, match="real"):
        assign(np.zeros((2, 2), dtype=complex))
    with pytest.raises(ValueError, match="n must be at least 1"):
        Assignment(0)


@njit
def _solve_all(costs, real, index, columns):
    for k in range(costs.shape[0]):
        status = solve(costs[k], real, index)
        if status != OPTIMAL:
            return status
        columns[k] = index[0, : costs.shape[1]]
    return OPTIMAL


def test_a_compiled_loop_calls_the_kernel_directly():
    costs = np.random.default_rng(10).random((20, 13, 13))
    columns = np.zeros((20, 13), dtype=np.intp)
    assert _solve_all(costs, *workspace(13), columns) == OPTIMAL
    for C, answer in zip(costs, columns, strict=True):
        check(C, answer)
    assert _solve_all(costs, *workspace(12), columns) == WRONG_SIZE
    costs[5, :, 2] = np.inf
    assert _solve_all(costs, *workspace(13), columns) == INFEASIBLE


def test_threads_with_their_own_state_do_not_disturb_each_other():
    rng = np.random.default_rng(11)
    sequences = [rng.random((30, 40, 40)) for _ in range(4)]

    def run(costs):
        solver = Assignment(40)
        return [solver(C) for C in costs]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(run, sequences))
    for costs, columns in zip(sequences, answers, strict=True):
        for C, answer in zip(costs, columns, strict=True):
            check(C, answer)


def frank_wolfe_costs(name, steps):
    """Yield the gradients of Frank-Wolfe with exact line search on a QAPLIB instance."""
    folder = Path(os.environ.get("DCFW_DATA", "")) / "qaplib"
    if "DCFW_DATA" not in os.environ or not (folder / f"{name}.dat").exists():
        pytest.skip("needs the QAPLIB files in the folder named by DCFW_DATA")
    numbers = np.array((folder / f"{name}.dat").read_text().split(), dtype=float)
    n = int(numbers[0])
    A, B = numbers[1 : 1 + 2 * n * n].reshape(2, n, n)
    X = np.full((n, n), 1 / n)

    def gradient(Y):
        return A @ Y @ B.T + A.T @ Y @ B

    for _ in range(steps):
        G = gradient(X)
        yield G
        D = -X
        D[linear_sum_assignment(G)] += 1
        gap, curvature = -np.vdot(G, D), np.vdot(gradient(D), D)
        if gap <= 1e-9 * np.abs(G).max():
            return
        X = X + (min(1.0, gap / curvature) if curvature > 0 else 1.0) * D


@pytest.mark.parametrize("name", ["nug12", "bur26a", "tai30a", "esc16a", "chr12a"])
def test_one_state_is_optimal_along_a_frank_wolfe_run(name):
    solver = None
    for C in frank_wolfe_costs(name, 300):
        solver = solver or Assignment(len(C))
        check(C, solver(C), solver.u, solver.v)


FINITE = [family for family in FAMILIES if family != "forbidden pairs"]


@pytest.mark.parametrize("family", FINITE)
def test_the_error_of_an_auction_is_below_its_bound_and_the_bound_below_the_tolerance(family):
    rng = np.random.default_rng(12)
    for n in (1, 2, 9, 40):
        solver = Auction(n)
        for part in (0.3, 0.1, 1e-2, 1e-4):
            C = np.asarray(FAMILIES[family](n, rng), dtype=float)
            scale = np.abs(C).max()
            tol = max(part * scale, 1e-323)
            columns, bound = solver(C, tol)
            assert sorted(columns.tolist()) == list(range(n))
            rounding = 4 * n * EPS * scale  # of the two sums below; the bound itself accounts for its own
            error = C[np.arange(n), columns].sum() - C[linear_sum_assignment(C)].sum()
            assert error <= bound + rounding
            assert bound <= tol + rounding + n * 5e-324  # a bid raises a price by a subnormal at least


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 8).flatmap(lambda n: arrays(np.int64, (n, n), elements=st.integers(-(10**6), 10**6))))
def test_an_auction_below_one_is_exact_on_integers(C):
    n = len(C)
    columns, bound = Auction(n)(C, 0.5)
    assert bound < 1
    assert C[np.arange(n), columns].sum() == C[linear_sum_assignment(C)].sum()


@settings(max_examples=100, deadline=None)
@given(real_matrices, st.data())
def test_the_bound_of_an_auction_holds_for_any_stored_prices(C, data):
    n = len(C)
    solver = Auction(n)
    solver.prices[:] = data.draw(arrays(np.float64, n, elements=st.floats(allow_nan=True)))
    scale = np.abs(C).max()
    columns, bound = solver(C, max(1e-3 * scale, 1e-300))
    error = C[np.arange(n), columns].sum() - C[linear_sum_assignment(C)].sum()
    assert error <= bound + 4 * n * EPS * scale


def test_an_auction_repeats_its_answer_while_the_prices_still_prove_it():
    C = np.random.default_rng(13).random((50, 50))
    solver = Auction(50)
    columns, _ = solver(C, 0.1)
    prices = solver.prices - solver.prices.min()
    again, bound = solver(C, 0.1)
    np.testing.assert_array_equal(again, columns)
    np.testing.assert_allclose(solver.prices, prices)
    assert bound <= 0.1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_auction_rejects_costs_that_are_not_finite(bad):
    C = np.ones((3, 3))
    C[1, 2] = bad
    with pytest.raises(ValueError, match="C has"):
        Auction(3)(C, 0.1)


def test_an_auction_needs_a_size():
    with pytest.raises(ValueError, match=r"^n must be at least 1"):
        Auction(0)


def test_an_auction_rejects_a_tolerance_that_is_not_positive():
    with pytest.raises(ValueError, match="tol"):
        Auction(3)(np.eye(3), 0.0)


def test_costs_of_a_wrong_shape_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^C must have shape"):
        Assignment(3)(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"^C must have shape"):
        Auction(3)(np.zeros((2, 3)), 1e-3)


def test_an_auction_refuses_forbidden_pairs_with_a_remedy():
    C = np.ones((2, 2))
    C[0, 1] = np.inf
    with pytest.raises(
        ValueError, match=r"\(dcfw\.sets\.lap\.Assignment accepts \+Inf for forbidden pairs\)$"
    ):
        Auction(2)(C, 1e-3)


@pytest.mark.parametrize(("width", "sizes"), [(16, (16, 11, 2)), (48, (48, 40, 33))])
def test_instructions_for_short_rows_that_are_written_afresh_find_the_least_assignments(width, sizes):
    # Compiled functions come from a cache: a mistake in what writes them would not show in the other tests.
    short = njit(lap_short.solver(width).py_func)
    rng = np.random.default_rng(5)
    for n in sizes:
        real, index = workspace(n)
        for trial in range(12):
            C = np.full((n, width), np.inf)
            C[:, :n] = rng.integers(0, 9, (n, n)) if trial % 2 else rng.standard_normal((n, n))
            if trial > 6:
                C[:, :n][rng.random((n, n)) < 0.2] = np.inf
                C[np.arange(n), rng.permutation(n)] = 1.0
            assert short(C, real, index, n)[0] == OPTIMAL
            p, v = index[0, :n], real[1, :n]
            check(C[:, :n], p, C[np.arange(n), p] - v[p], v)
        C[-1] = np.inf
        assert short(C, real, index, n)[0] == INFEASIBLE
    C[:] = np.inf
    C[:, 0] = 1.0  # all rows want one column
    assert short(C, *workspace(n), n)[0] == INFEASIBLE
