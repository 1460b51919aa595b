"""No permutation beats the bound, which is the published one where there is one."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dcfw import kernels, qap
from dcfw.cli.qap import _what_it_proves
from dcfw.kernels.numpy_ascent import DualAscent
from dcfw.qap.dual_ascent import dual_ascent

METHODS = ("gilmore-lawler", "projection", "auto")


def values(A, B, C):
    """The values of all permutations."""
    n = len(A)
    P = np.array(list(itertools.permutations(range(n))))
    found = np.einsum("ij,pij->p", A, B[P[:, :, None], P[:, None, :]])
    return found if C is None else found + C[np.arange(n), P].sum(axis=1)


@given(
    n=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    symmetric=st.sampled_from(["A", "B", "both"]),
    linear=st.booleans(),
    whole=st.booleans(),
    exponent=st.integers(-60, 60),
)
def test_no_permutation_beats_the_bound(n, seed, symmetric, linear, whole, exponent):
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(-6, 10, (3, n, n)) * rng.integers(0, 2, (3, n, n))
    A, B = (A + A.T if symmetric != "B" else A), (B + B.T if symmetric != "A" else B)
    if not whole:
        A, B, C = 0.1 * A, 10.0**exponent * B / 3.0, 10.0**exponent * C
    found = values(A, B, C if linear else None)
    for method in METHODS:
        low = qap.bound(A, B, C if linear else None, method=method)
        high = qap.bound(A, B, C if linear else None, method=method, maximize=True)
        assert isinstance(low, int) == isinstance(high, int) == whole
        assert low <= found.min()
        assert high >= found.max()


@given(n=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_asymmetric_matrices_have_a_bound_too(n, seed):
    A, B, C = np.random.default_rng(seed).integers(-6, 10, (3, n, n))
    found = values(A, B, C)
    assert qap.bound(A, B, C) <= found.min()
    assert qap.bound(A, B, C, maximize=True) >= found.max()
    assert qap.bound(sparse.csr_array(A), sparse.csr_array(B), C) == qap.bound(A, B, C)


@pytest.mark.parametrize("whole", [True, False])
def test_no_permutation_with_the_given_and_without_the_forbidden_pairs_beats_the_bound(whole):
    rng = np.random.default_rng(3)
    closed = 0
    for case in range(40):
        n = int(rng.integers(2, 7))
        A, B, C = rng.integers(-6, 10, (3, n, n))
        A = A + A.T
        if not whole:
            A, B, C = A / 7.0, B / 3.0, C / 11.0
        allowed = rng.permutation(n)
        fixed = np.flatnonzero(rng.random(n) < 0.4)
        pairs = {int(i): int(allowed[i]) for i in fixed}
        forbidden = [[i, j] for i in range(n) for j in range(n) if j != allowed[i] and rng.random() < 0.3]
        maximize = bool(case % 2)
        found = [
            qap.evaluate(A, B, list(p), C)
            for p in itertools.permutations(range(n))
            if all(p[i] == j for i, j in pairs.items()) and not any(p[i] == j for i, j in forbidden)
        ]
        got = qap.bound(A, B, C, maximize=maximize, partial_match=pairs, forbidden=forbidden)
        assert isinstance(got, int) == whole
        assert (got >= max(found)) if maximize else (got <= min(found))
        best = max(found) if maximize else min(found)
        closed += abs(got - best) <= 1e-9 * max(abs(best), 1.0)
    assert closed >= 20


PUBLISHED = {  # Hadley, Rendl and Wolkowicz, Math. Oper. Res. 17 (1992)
    "nug12": (493, 472),
    "nug15": (963, 973),
    "nug20": (2057, 2196),
    "nug30": (4539, 5266),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_bounds_are_the_published_ones(name):
    try:
        instance = qap.load(name)
    except FileNotFoundError as error:
        pytest.skip(f"QAPLIB is not there: {error}")
    found = tuple(qap.bound(instance.A, instance.B, method=method) for method in METHODS[:2])
    assert found == PUBLISHED[name]
    assert qap.bound(instance.A, instance.B) >= max(found) < instance.best


def test_where_all_permutations_are_equal_the_bound_is_their_value():
    A, B = (0.1 * (np.ones((7, 7)) - np.eye(7)) for _ in range(2))
    for method in METHODS:
        low = qap.bound(A, B, method=method)
        assert low <= 0.42
        assert low == pytest.approx(0.42, rel=1e-11)
    whole = (10 * A).round().astype(int)
    assert qap.bound(whole, whole) == qap.bound(whole, whole, maximize=True) == 42
    assert qap.bound([[3]], [[4]], [[-2]]) == 10


def test_integers_beyond_the_floats_are_rounded_to_the_safe_side():
    rng = np.random.default_rng(0)
    A, B = (np.triu(rng.integers(0, 3 * 10**9, (5, 5)), 1) for _ in range(2))
    A, B = A + A.T, B + B.T
    best = min(qap.evaluate(A, B, p) for p in itertools.permutations(range(5)))
    for method in METHODS:
        low = qap.bound(A, B, method=method)
        assert isinstance(low, int)
        assert 0 < low <= best
    assert qap.bound(A + 10**17, B + 10**17) <= min(
        qap.evaluate(A + 10**17, B + 10**17, p) for p in itertools.permutations(range(5))
    )


def test_sums_of_large_integers_are_not_rounded_up():
    A, B = [[67108862, 67108856], [67108858, 67108855]], [[67108859, 67108858], [67108855, 67108857]]
    found = [qap.evaluate(A, B, p) for p in itertools.permutations(range(2))]
    assert qap.bound(A, B) <= min(found)
    assert qap.bound(A, B, maximize=True) >= max(found)
    rng = np.random.default_rng(1)
    for k in range(200):
        n = int(rng.integers(2, 5))
        A, B = rng.integers(2**26 - 2 ** int(rng.integers(1, 26)), 2**26, (2, n, n))
        found = [qap.evaluate(A, B, p) for p in itertools.permutations(range(n))]
        assert qap.bound(A, B) <= min(found), k
        assert qap.bound(A, B, maximize=True) >= max(found), k


def test_products_that_underflow_do_not_raise_the_bound():
    rng = np.random.default_rng(2)
    for _ in range(50):
        A, B = rng.standard_normal((2, 4, 4)) * 10.0 ** rng.uniform(-163, -158, (2, 1, 1))
        A += A.T
        assert qap.bound(A, B) <= min(qap.evaluate(A, B, p) for p in itertools.permutations(range(4)))


def test_a_problem_without_a_bound_is_refused():
    A, B = np.arange(9.0).reshape(3, 3), np.arange(9.0)[::-1].reshape(3, 3)
    with pytest.raises(ValueError, match="'projection' needs A or B to be symmetric"):
        qap.bound(A, B, method="projection")
    with pytest.raises(ValueError, match="must have products below"):
        qap.bound(1e149 * A, 1e149 * B)
    with pytest.raises(ValueError, match="method"):
        qap.bound(A, B, method="best")


def test_the_command_says_what_a_bound_proves():
    assert _what_it_proves(7, 7) == "so the value is optimal"
    assert _what_it_proves(12, 10) == "no permutation is lower; this one is 20 % above"
    assert _what_it_proves(-12, -10) == "no permutation is higher; this one is 20 % below"
    assert _what_it_proves(3, 0) == "no permutation is lower"


@pytest.mark.parametrize("method", ["convex", "dual-ascent", "auto"])
@settings(max_examples=15)
@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans())
def test_no_permutation_beats_the_stronger_bounds(method, n, seed, symmetric, whole, maximize):
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(-9, 10, (3, n, n))
    A = A + A.T
    if symmetric:
        B = B + B.T
    if not whole:
        A, B, C = A / 7.0, B / 3.0, C / 11.0
    values = [qap.evaluate(A, B, list(p), C) for p in itertools.permutations(range(n))]
    found = qap.bound(A, B, C, method=method, maximize=maximize, time_limit=60)
    assert found.method != "auto"
    assert (found >= max(values)) if maximize else (found <= min(values))
    assert isinstance(found, int) == whole


def test_the_dual_ascent_closes_the_gap_of_tiny_problems():
    rng = np.random.default_rng(0)
    closed = 0
    for _ in range(6):
        A, B = (M + M.T for M in rng.integers(0, 9, (2, 5, 5)))
        best = min(qap.evaluate(A, B, list(p)) for p in itertools.permutations(range(5)))
        bounds = {name: qap.bound(A, B, method=name) for name in ("gilmore-lawler", "dual-ascent")}
        assert bounds["gilmore-lawler"] <= bounds["dual-ascent"] <= best
        closed += bounds["dual-ascent"] == best
    assert closed >= 3


@pytest.mark.skipif(kernels.native is None, reason="the extension is not built")
@given(n=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_compiled_and_numpy_ascents_make_the_same_rounds(n, seed):
    A, B, C = np.random.default_rng(seed).standard_normal((3, n, n))
    ours, theirs = kernels.native.DualAscent(A, B, C), DualAscent(A, B, C)
    for give_back in (0.02, 0.01, 0.0):
        assert ours.round(give_back)
        assert theirs.round(give_back)
    assert ours.best == pytest.approx(theirs.best, rel=1e-9, abs=1e-9)
    assert ours.total == pytest.approx(theirs.total)
    assert ours.best <= values(A, B, C).min() + 1e-9


def test_giving_back_leads_beyond_where_a_plain_ascent_ends():
    try:
        instance = qap.load("nug12")
    except FileNotFoundError as error:
        pytest.skip(f"QAPLIB is not there: {error}")
    A, B, C = instance.A.astype(float), instance.B.astype(float), np.zeros((12, 12))
    # The same ascent without it ends below 510; the linear programme has 522.9 (Adams and Johnson 1994).
    assert 515 <= dual_ascent(A, B, C, deadline=math.inf) <= 522.9


def test_a_search_with_a_time_limit_proves_small_answers_optimal():
    rng = np.random.default_rng(0)
    F, D = rng.integers(0, 9, (6, 6)), rng.integers(1, 9, (8, 8))
    np.fill_diagonal(D, 0)
    res = qap.solve(F, D, restarts="auto", time_limit=20, rng=0)
    assert res.status.name == "OPTIMAL"
    assert res.bound == res.fun == 362
    assert res.time < 10


@pytest.mark.parametrize("method", ["convex", "dual-ascent"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_bound_that_is_asked_for_by_name_is_finite_without_any_time(method, whole):
    A, B = np.random.default_rng(2).integers(0, 9, (2, 5, 5))
    A = A + A.T if whole else (A + A.T) / 3.0
    low = qap.bound(A, B, method=method, time_limit=0.0)
    assert -math.inf < low <= values(A, B, None).min()
    assert (low.method, isinstance(low, int)) == (method, whole)


@pytest.mark.parametrize("options", [{"method": "graduated"}, {"restarts": "auto", "max_steps": 20}])
def test_no_permutation_with_large_given_pairs_beats_the_bound_of_a_result_by_rounding(options):
    for seed in range(20):
        A, B = 1e3 * np.random.default_rng(seed).random((2, 5, 5))
        A[3:] *= 1e-12
        A[:, 3:] *= 1e-12
        res = qap.solve(A, B, partial_match={0: 0, 1: 1, 2: 2}, rng=0, **options)
        exact = [
            sum(Fraction(A[i, j]) * Fraction(B[p[i], p[j]]) for i in range(5) for j in range(5))
            for p in ((0, 1, 2, 3, 4), (0, 1, 2, 4, 3))
        ]
        assert Fraction(res.bound) <= min(exact)
        assert res.bound == pytest.approx(res.fun, rel=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_no_bound_of_a_result_is_above_its_value_when_all_is_given(seed):
    rng = np.random.default_rng(seed)
    A, B = rng.random((4, 4)) * 1e3, rng.random((6, 6)) * 1e3
    res = qap.solve(A, B, partial_match={i: i for i in range(4)}, restarts="auto", time_limit=0.02, rng=0)
    assert res.bound <= res.fun
    whole = qap.solve(A, B[:4, :4], partial_match={i: i for i in range(4)}, restarts="auto", time_limit=0.02)
    assert whole.bound == whole.fun
