"""The assignment solver gives optimal answers on every kind of cost matrix."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from dcfw import kernels
from dcfw.sets.lap import Assignment

EPS = np.finfo(np.float64).eps
native = pytest.mark.skipif(kernels.native is None, reason="needs the compiled kernels")
SIZES = (1, 2, 3, 7, 15, 16, 17, 31, 47, 48, 49, 65)  # around the limits of padding and of vector steps


def work_of(solver):
    """Return how many rows the path searches of the last call scanned."""
    return solver.get_state()[2][1]


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


@native
def test_a_warm_start_scans_less_than_a_cold_one_on_close_costs():
    rng = np.random.default_rng(4)
    solver, warm, cold = Assignment(60), 0, 0
    C = rng.random((60, 60))
    solver(C)
    for _ in range(50):
        C = 0.99 * C + 0.01 * rng.random((60, 60))
        solver(C)
        warm += work_of(solver)
        fresh = Assignment(60)
        fresh(C)
        cold += work_of(fresh)
    assert warm < cold / 2


@native
def test_where_old_prices_mislead_the_solver_learns_to_start_cold():
    # Unrelated matrices whose columns are expensive or cheap at random: warm starts scan twice as many rows.
    rng = np.random.default_rng(5)
    n = 40
    adaptive, eager = Assignment(n), Assignment(n)
    work = {"adaptive": 0, "warm": 0, "cold": 0}
    for _ in range(400):
        C = rng.integers(0, 3, (n, n)) + 3.0 * rng.integers(0, 2, n)
        check(C, adaptive(C), adaptive.u, adaptive.v)
        work["adaptive"] += work_of(adaptive)
        prices, partners, counters = eager.get_state()
        counters[2:4] = 0  # nothing spent, nothing known against warm starts
        eager.set_state((prices, partners, counters))
        eager(C)
        work["warm"] += work_of(eager)
        fresh = Assignment(n)
        fresh(C)
        work["cold"] += work_of(fresh)
    assert work["warm"] > 1.5 * work["cold"]
    assert work["adaptive"] < 1.1 * work["cold"]


real_matrices = st.integers(1, 9).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.floats(-1e100, 1e100, allow_nan=False, width=64))
)
tied_matrices = st.integers(1, 9).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.integers(-3, 3).map(float))
)


@given(real_matrices | tied_matrices)
def test_every_finite_matrix_is_solved(C):
    solver = Assignment(len(C))
    check(C, solver(C), solver.u, solver.v)
    check(-C, solver(-C), solver.u, solver.v)
    check(C.T, solver(C.T), solver.u, solver.v)


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


@native
@given(real_matrices, st.data())
def test_any_stored_prices_partners_and_counters_give_an_optimal_answer(C, data):
    n = len(C)
    solver = kernels.native.Lap(n)
    prices = data.draw(arrays(np.float64, n, elements=st.floats(allow_nan=True, allow_infinity=True)))
    partners = data.draw(arrays(np.int64, n, elements=st.integers(-(2**63), 2**63 - 1)))
    counters = data.draw(st.lists(st.integers(0, 2**53), min_size=5, max_size=5))
    solver.restore(prices, partners, counters)
    for _ in range(2):
        check(C, solver.assign(C), solver.u, solver.v)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (0, np.nan), (0, np.inf), (0, np.zeros(4)), (0, np.zeros(5, dtype=int)), (1, 5), (1, -2), (1, 0),
        (1, np.zeros(5)), (2, -1), (2, 2**53 + 1), (2, np.zeros(4, dtype=int)), (2, np.zeros(5)),
    ],
)  # fmt: skip
def test_a_state_that_no_solver_returns_is_refused(part, value):
    solver = Assignment(5)
    solver(np.random.default_rng(0).random((5, 5)))
    state = list(solver.get_state())
    if isinstance(value, np.ndarray):
        state[part] = value
    else:
        state[part][1:3] = value
    with pytest.raises(ValueError, match="state must be that of an Assignment"):
        solver.set_state(state)
    with pytest.raises(ValueError, match="state must be that of an Assignment"):
        solver.set_state(state[:2])


@pytest.mark.parametrize("n", [1, 7, 13, 40, 70])
def test_a_solver_goes_on_from_a_state_as_the_one_that_it_comes_from(n):
    rng = np.random.default_rng(n)
    C = rng.random((n, n))
    first, second = Assignment(n), Assignment(n)
    for _ in range(5):
        second.set_state(first.get_state())
        C = 0.9 * C + 0.1 * rng.random((n, n))
        np.testing.assert_array_equal(first(C), second(C))
        for one, other in zip(first.get_state(), second.get_state(), strict=True):
            np.testing.assert_array_equal(one, other)


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
        Assignment(4)(C)


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
    check(C, Assignment(30)(C.tolist()))


def test_answers_are_fresh_arrays_of_intp():
    solver = Assignment(3)
    first = solver(np.eye(3))
    kept = first.copy()
    second = solver(-np.eye(3))
    np.testing.assert_array_equal(first, kept)
    assert first.dtype == second.dtype == np.intp


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
        (np.zeros((2, 3)), "shape"),
        (np.zeros(4), "shape"),
        (np.full((2, 2), 1e305), "2\\^1000"),
        (np.array([[1e305, np.inf], [0.0, 1.0]]), "2\\^1000"),
        (np.array([[2**60, 0], [0, 1]]), "2\\^53"),
        (np.array([[2**63, 0], [0, 1]], dtype=np.uint64), "2\\^53"),
    ],
)
def test_bad_matrices_are_rejected_with_a_reason(C, message):
    with pytest.raises(ValueError, match=message):
        Assignment(len(C))(C)


def test_a_matrix_of_another_size_and_complex_costs_are_rejected():
    with pytest.raises(ValueError, match="shape"):
        Assignment(3)(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="shape"):
        Assignment(3)(np.zeros((3, 2), dtype=int))
    with pytest.raises(TypeError, match="real"):
        Assignment(2)(np.zeros((2, 2), dtype=complex))
    with pytest.raises(ValueError, match="n must be at least 1"):
        Assignment(0)


def test_without_the_extension_scipy_answers_with_the_same_values_proofs_and_errors(monkeypatch):
    rng = np.random.default_rng(10)
    solvers = {}
    for n in (1, 2, 9, 40):
        own = Assignment(n)
        with monkeypatch.context() as without:
            without.setattr(kernels, "native", None)
            solvers[n] = Assignment(n)
        for family in FAMILIES.values():
            C = np.asarray(family(n, rng), dtype=float)
            check(C, own(C), own.u, own.v)
            check(C, solvers[n](C), solvers[n].u, solvers[n].v)
            solvers[n].set_state(solvers[n].get_state())
    C = np.ones((40, 40))
    C[[3, 17, 30], 2:] = np.inf
    for bad in (C, np.full((40, 40), np.nan), np.full((40, 40), 1e305), np.zeros((40, 39))):
        with pytest.raises(ValueError) as known:
            Assignment(40)(bad)
        with pytest.raises(ValueError) as found:
            solvers[40](bad)
        assert str(found.value) == str(known.value)


@native
def test_threads_that_share_a_solver_get_answers_that_are_optimal():
    costs = np.random.default_rng(15).random((200, 40, 40))
    solver = Assignment(40)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(solver, costs))
    for C, answer in zip(costs, answers, strict=True):
        check(C, answer)


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


def test_costs_of_a_wrong_shape_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^C must have shape"):
        Assignment(3)(np.zeros((2, 3)))
