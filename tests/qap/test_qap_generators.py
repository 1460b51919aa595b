"""Generated problems: their structure, and the optima they claim."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import qap
from dcfw.qap.generators import TAILLARD_SEED, li_pardalos, nugent, taillard_uniform


def brute_force(A, B):
    n = len(A)
    ps = np.array(list(permutations(range(n))))
    values = sum(A[i, j] * B[ps[:, i], ps[:, j]] for i in range(n) for j in range(n))
    return values.min()


@pytest.mark.parametrize("n", [6, 7, 8, (2, 3), (1, 7), (2, 4)])
@pytest.mark.parametrize(("w", "z"), [(9, 3), (5, 0), (9, 8)])
def test_the_claimed_optimum_is_the_optimum(n, w, z):
    problem = li_pardalos(n, rng=1, w=w, z=z)
    assert problem.best == qap.evaluate(problem.A, problem.B, problem.permutation)
    assert problem.best == brute_force(problem.A, problem.B)
    assert problem.status == "optimal"


@settings(max_examples=15)
@given(st.integers(9, 40), st.integers(0, 10**6))
def test_no_search_beats_a_claimed_optimum(n, seed):
    problem = li_pardalos(n, rng=seed)
    assert (problem.B >= 0).all()
    start = np.random.default_rng(seed).permutation(n)
    assert qap.robust_tabu(problem.A, problem.B, start, iterations=1500, rng=seed)[1] >= problem.best
    # from the optimum itself, too
    found = qap.robust_tabu(problem.A, problem.B, problem.permutation, iterations=300, rng=seed)
    assert found[1] == problem.best


def test_flows_with_a_known_optimum_are_not_trivial():
    problem = li_pardalos((5, 6), rng=0)
    off_diagonal = problem.B[~np.eye(30, dtype=bool)]
    assert len(np.unique(off_diagonal)) > 10
    assert problem.best < 0.8 * np.mean(
        [qap.evaluate(problem.A, problem.B, np.random.default_rng(k).permutation(30)) for k in range(20)]
    )


@pytest.mark.parametrize("generate", [nugent, taillard_uniform, li_pardalos])
def test_matrices_are_symmetric_integers_with_zero_diagonal_and_repeat_with_the_seed(generate):
    one, two, other = generate(14, rng=3), generate(14, rng=3), generate(14, rng=4)
    for M in (one.A, one.B):
        assert M.dtype == np.int64
        assert M.shape == (14, 14) == (one.n, one.n)
        np.testing.assert_array_equal(M, M.T)
        assert not np.diagonal(M).any()
        assert M.min() >= 0
    np.testing.assert_array_equal(one.A, two.A)
    np.testing.assert_array_equal(one.B, two.B)
    assert not np.array_equal(one.B, other.B)


def test_nugent_distances_and_flows_are_like_the_real_ones():
    try:
        real = qap.load("nug30")
    except FileNotFoundError as error:
        pytest.skip(f"needs the QAPLIB files: {error}")
    ours = nugent((5, 6), rng=0)
    np.testing.assert_array_equal(ours.A, real.A)
    assert set(np.unique(ours.B)) <= set(np.unique(real.B))
    assert ours.B.mean() == pytest.approx(real.B.mean(), rel=0.15)


@pytest.mark.parametrize("n", [10, 12, 15, 17, 20, 25, 30, 35, 40, 50, 60, 80, 100])
def test_taillards_own_seed_gives_the_instances_of_qaplib(n):
    try:
        real = qap.load(f"tai{n}a")
    except FileNotFoundError as error:
        pytest.skip(f"needs the QAPLIB files: {error}")
    ours = taillard_uniform(n, seed=TAILLARD_SEED)
    A, B = (ours.B, ours.A) if n in (50, 100) else (ours.A, ours.B)
    np.testing.assert_array_equal(A, real.A)
    np.testing.assert_array_equal(B, real.B)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nugent(0), "n must be at least 1"),
        (lambda: nugent((2, 0)), "each entry of n"),
        (lambda: nugent((2, 3, 4)), "n must have 2 entries"),
        (lambda: taillard_uniform(3, seed=0), "seed must be at least 1"),
        (lambda: taillard_uniform(3, seed=2**31 - 1), "seed must be at least 1 and at most"),
        (lambda: li_pardalos(5, w=3, z=3), "z must be at least 0 and at most 2"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("generate", [nugent, taillard_uniform, li_pardalos])
def test_one_place_is_enough(generate):
    problem = generate(1, rng=0)
    assert problem.A.tolist() == problem.B.tolist() == [[0]]
