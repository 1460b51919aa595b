"""Swap descent and tabu search: their deltas, their answers, their limits."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import qap
from dcfw.qap import evaluate, robust_tabu, swaps, two_opt

KINDS = ("symmetric", "A symmetric", "B symmetric", "asymmetric")


def make(n, seed, kind="asymmetric", size=50, integers=True, linear=True):
    """Random matrices with a diagonal, of the wanted symmetry."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(-size, size + 1, (3, n, n))
    if kind in ("symmetric", "A symmetric"):
        A = A // 2 + (A // 2).T
    if kind in ("symmetric", "B symmetric"):
        B = B // 2 + (B // 2).T
    if not integers:
        A, B, C = A / 7, B / 11, C / 13
    return A, B, (min(size, 1000) * C if linear else None), rng.permutation(n)


def exchanged(p, r, s):
    q = p.copy()
    q[r], q[s] = q[s], q[r]
    return q


def best_swap(A, B, C, p, fixed=0):
    """The largest decrease by one swap, found by evaluating every one of them."""
    value = evaluate(A, B, p, C)
    pairs = ((r, s) for r in range(fixed, len(p)) for s in range(r + 1, len(p)))
    return min((evaluate(A, B, exchanged(p, r, s), C) - value for r, s in pairs), default=0)


cases = st.tuples(
    st.integers(2, 9),
    st.integers(0, 10**6),
    st.sampled_from(KINDS),
    st.sampled_from([50, 10**8]),  # the second with sums beyond 2**53, in float64
    st.booleans(),
    st.booleans(),
)


@given(cases, st.booleans(), st.integers(0, 3))
def test_descent_ends_where_no_swap_helps(case, best_improvement, fixed):
    A, B, C, p = make(*case)
    fixed = min(fixed, len(p))
    before = p.copy()
    q, value, made = two_opt(A, B, p, C, best_improvement=best_improvement, fixed=fixed)
    np.testing.assert_array_equal(p, before)
    np.testing.assert_array_equal(q[:fixed], p[:fixed])
    assert value == evaluate(A, B, q, C)
    assert type(value) is (int if A.dtype.kind == "i" else float)
    tolerance = 0.0 if A.dtype.kind == "i" else 1e-9
    assert best_swap(A, B, C, q, fixed) >= -tolerance
    assert (value < evaluate(A, B, p, C)) == (made > 0)


def test_best_improvement_makes_the_best_swap_each_time():
    """Against a descent that evaluates all n^2 / 2 swaps in full."""
    A, B, C, p = make(12, 3)
    q = p.copy()
    made = 0
    while best_swap(A, B, C, q) < 0:
        pairs = [(r, s) for r in range(12) for s in range(r + 1, 12)]
        q = min((exchanged(q, r, s) for r, s in pairs), key=lambda x: evaluate(A, B, x, C))
        made += 1
    ours, value, swaps_made = two_opt(A, B, p, C)
    np.testing.assert_array_equal(ours, q)
    assert (value, swaps_made) == (evaluate(A, B, q, C), made)


def test_first_improvement_follows_the_given_order():
    A, B, C, p = make(40, 5)
    answers = {two_opt(A, B, p, C, best_improvement=False, rng=seed)[1] for seed in range(5)}
    assert len(answers) > 1
    again = [two_opt(A, B, p, C, best_improvement=False, rng=1) for _ in range(2)]
    np.testing.assert_array_equal(again[0][0], again[1][0])


def test_huge_integers_still_give_exact_values():
    A, B, C, p = make(7, 1, size=2**40)
    q, value, _ = two_opt(A, B, p, C)
    assert value == evaluate(A, B, q, C)
    assert value <= evaluate(A, B, p, C)


def test_sparse_matrices_give_the_same_answer():
    A, B, C, p = make(15, 2, size=2)
    for f in (two_opt, lambda *a: robust_tabu(*a, iterations=50, rng=0)):
        q, value, _ = f(A, B, p, C)
        q2, value2, _ = f(sp.csr_array(A), sp.coo_matrix(B), p, C)
        np.testing.assert_array_equal(q, q2)
        assert value == value2


def test_descent_is_as_good_as_that_of_scipy():
    from scipy.optimize import quadratic_assignment

    ours, theirs = [], []
    for seed in range(15):
        problem = qap.generators.taillard_uniform(30, rng=seed)
        p = np.random.default_rng(seed).permutation(30)
        guess = np.column_stack([np.arange(30), p])
        options = {"partial_guess": guess, "rng": np.random.default_rng(seed)}
        theirs.append(quadratic_assignment(problem.A, problem.B, method="2opt", options=options).fun)
        ours.append(two_opt(problem.A, problem.B, p)[1])
    assert np.mean(ours) <= 1.01 * np.mean(theirs)


# tabu search


@settings(max_examples=20)
@given(cases, st.integers(0, 2))
def test_tabu_never_returns_worse_than_its_start_and_keeps_fixed_entries(case, fixed):
    A, B, C, p = make(*case)
    q, value, made = robust_tabu(A, B, p, C, iterations=60, rng=1, fixed=fixed)
    np.testing.assert_array_equal(q[:fixed], p[:fixed])
    assert sorted(q) == list(range(len(p)))
    assert value == evaluate(A, B, q, C) <= evaluate(A, B, p, C)
    assert made == (60 if len(p) - fixed >= 2 else 0)


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_tabu_finds_the_optimum_of_small_problems(kind, integers):
    from itertools import permutations

    A, B, C, p = make(6, 4, kind, integers=integers)
    optimum = min(evaluate(A, B, np.array(q), C) for q in permutations(range(6)))
    assert robust_tabu(A, B, p, C, iterations=3000, rng=0)[1] == pytest.approx(optimum, rel=1e-12)


def test_a_run_depends_on_its_seed_only_and_not_on_the_clock(monkeypatch):
    for integers in (True, False):
        A, B, C, p = make(25, 8, integers=integers)
        runs = []
        for pause in (1e-6, 0.008, 10.0):
            monkeypatch.setattr(swaps, "PAUSE", pause)
            runs.append(robust_tabu(A, B, p, C, iterations=6000, rng=5))
        for q, value, made in runs[1:]:
            np.testing.assert_array_equal(q, runs[0][0])
            assert (value, made) == (runs[0][1], 6000)


def test_tabu_stops_at_its_target():
    problem = qap.generators.li_pardalos(16, rng=1)
    p = np.arange(16)
    _, value, made = robust_tabu(problem.A, problem.B, p, iterations=10**6, rng=0, target=problem.best)
    assert value == problem.best
    assert made < 10**6
    assert robust_tabu(problem.A, problem.B, problem.permutation, iterations=9, target=value)[2] == 0


@pytest.mark.parametrize("name", ["nug12", "chr12a", "bur26a"])
def test_tabu_finds_known_optima(name):
    try:
        problem = qap.load(name)
    except FileNotFoundError as error:
        pytest.skip(f"needs the QAPLIB files: {error}")
    values = [
        robust_tabu(
            problem.A, problem.B, np.random.default_rng(seed).permutation(problem.n),
            iterations=50_000, rng=seed, target=problem.best,
        )[1]
        for seed in range(3)
    ]  # fmt: skip
    assert min(values) == problem.best


# limits


@pytest.mark.parametrize("search", [
    two_opt,
    lambda *a, **k: two_opt(*a, best_improvement=False, **k),
    lambda *a, **k: robust_tabu(*a, iterations=10**9, **k),
])  # fmt: skip
def test_no_time_means_no_change(search):
    A, B, C, p = make(30, 0)
    q, value, made = search(A, B, p, C, time_limit=0)
    np.testing.assert_array_equal(q, p)
    assert (value, made) == (evaluate(A, B, p, C), 0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers to imitate Ctrl-C")
def test_an_interrupt_ends_a_long_search():
    A, B, C, p = make(60, 0)
    robust_tabu(A, B, p, C, iterations=1, rng=0)  # compiled before the clock starts

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            robust_tabu(A, B, p, C, iterations=10**12, rng=0, time_limit=30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_problems_are_fine(n):
    A, B = (
        np.arange(n * n).reshape(2, -1, n)[:, :n] if n == 4 else (np.eye(n, dtype=int), np.eye(n, dtype=int))
    )
    for q, value, _ in (two_opt(A, B, range(n)), two_opt(A, B, range(n), best_improvement=False),
                        robust_tabu(A, B, range(n), iterations=50, rng=0)):  # fmt: skip
        assert (sorted(q), value) == (list(range(n)), n)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fixed": -1}, ValueError, "fixed must be at least 0"),
        ({"fixed": 9}, ValueError, "fixed must be at least 0 and at most 4"),
        ({"time_limit": -1.0}, ValueError, "time_limit"),
        ({"rng": "x"}, TypeError, "rng must be"),
    ],
)
def test_wrong_options_are_named(options, error, message):
    A, B, C, p = make(4, 0)
    with pytest.raises(error, match=message):
        two_opt(A, B, p, C, **options)
    with pytest.raises(error, match=message):
        robust_tabu(A, B, p, C, iterations=1, **options)


def test_the_start_must_be_a_permutation():
    A, B, C, _ = make(4, 0)
    for search in (two_opt, lambda *a: robust_tabu(*a, iterations=1)):
        with pytest.raises(ValueError, match=r"p must hold each of 0, \.\.\., 3 once"):
            search(A, B, [0, 1, 1, 2], C)
    with pytest.raises(TypeError, match="iterations must be an integer"):
        robust_tabu(A, B, range(4), iterations=1.5)
