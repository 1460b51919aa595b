"""QAPLIB's objective, its gradient, and rounding to permutations."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dcfw.qap import evaluate, gradient, round_to_permutation, solve


def by_definition(A, B, p, C=None):
    n = len(p)
    value = sum(int(A[i][j]) * int(B[p[i]][p[j]]) for i in range(n) for j in range(n))
    return value + (0 if C is None else sum(int(C[i][p[i]]) for i in range(n)))


def matrix_of(p):
    return np.eye(len(p))[p]


@st.composite
def problems(draw, top=2**62):
    n = draw(st.integers(1, 5))
    size = draw(st.sampled_from([3, 10**6, top]))
    entries = st.lists(st.integers(-size, size), min_size=n * n, max_size=n * n)
    A, B, C = (np.array(draw(entries), dtype=np.int64).reshape(n, n) for _ in range(3))
    return A, B, C, np.array(draw(st.permutations(range(n))))


@given(problems(), st.booleans(), st.sampled_from([np.asarray, sp.csr_array, sp.coo_matrix]), st.booleans())
def test_integer_data_are_summed_exactly_whatever_their_size(problem, linear, sparse, both):
    A, B, C, p = problem
    C = C if linear else None
    value = evaluate(sparse(A), sparse(B) if both else B, p, C)
    assert type(value) is int
    assert value == by_definition(A, B, p, C)
    assert evaluate(A, sparse(B), p, C) == value


@given(problems(top=1000))
def test_the_value_is_the_quadratic_form_of_the_permutation_matrix(problem):
    A, B, C, p = problem
    X = matrix_of(p)
    value = np.vdot(A @ X, X @ B) + np.vdot(C, X)
    assert evaluate(A, B, p, C) == pytest.approx(value, rel=1e-12)
    # Euler's identity for the quadratic part
    assert np.vdot(gradient(A, B, X), X) / 2 == pytest.approx(evaluate(A, B, p), rel=1e-12)


@pytest.mark.parametrize("sparse", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_the_gradient_agrees_with_finite_differences(sparse):
    rng = np.random.default_rng(0)
    A, B, C, X, H = rng.standard_normal((5, 6, 6))

    def phi(Y):
        return np.vdot(A @ Y, Y @ B) + np.vdot(C, Y)

    G = gradient(sparse(A), sparse(B), X, C)
    assert isinstance(G, np.ndarray)
    # central differences of a quadratic are exact up to rounding
    assert np.vdot(G, H) == pytest.approx((phi(X + H) - phi(X - H)) / 2, rel=1e-10)


def test_the_gradient_stays_on_the_backend_of_the_point():
    xp = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(0)
    A, B, X, C = rng.standard_normal((4, 5, 5))
    G = gradient(*(xp.asarray(M) for M in (A, B, X, C)))
    np.testing.assert_allclose(np.asarray(G), gradient(A, B, X, C))


def test_floats_give_a_float_and_sparse_input_is_left_alone():
    A = sp.csr_array(np.array([[0, 2.5], [0, 0]]))
    before = A.data
    value = evaluate(A, [[0, 2], [1, 0]], [1, 0])
    assert (type(value), value) == (float, 2.5)
    assert A.data is before
    duplicates = sp.coo_array(([1, 2], ([0, 0], [1, 1])), shape=(2, 2))
    assert evaluate(duplicates, [[0, 10], [0, 0]], [0, 1]) == 30


@given(st.integers(0, 10**6))
def test_rounding_finds_the_nearest_permutation_matrix(seed):
    X = np.random.default_rng(seed).standard_normal((4, 4))
    nearest = min(itertools.permutations(range(4)), key=lambda p: np.linalg.norm(X - matrix_of(list(p))))
    assert round_to_permutation(X).tolist() == list(nearest)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 1]], [[0]], [0]), "A must be a square matrix"),
        ((np.eye(2), np.eye(3), [0, 1, 2, 3]), "permutation must be 3 integers"),
        ((np.eye(2), np.eye(2), [0, 1], np.eye(3)), "C must have shape"),
        ((np.eye(2), np.eye(2), [0, 0]), "each of 0, ..., 1 once"),
        ((np.eye(2), np.eye(2), [1, 2]), "counts from 1: subtract 1"),
        ((np.eye(2), np.eye(2), [0.0, 1.0]), "permutation must be 2 integers"),
        ((np.eye(2), np.eye(2), [0, 1, 2]), "permutation must be 2 integers"),
        ((np.full((2, 2), np.nan), np.eye(2), [0, 1]), "A has NaN or Inf"),
        ((np.array([[2**64 - 1]], dtype=np.uint64), np.eye(1), [0]), "above 2\\*\\*63"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*arguments)


def test_rounding_wants_a_square_matrix():
    with pytest.raises(ValueError, match="X must be square"):
        round_to_permutation(np.ones((2, 3)))
    with pytest.raises(ValueError, match="X must have the shape of A"):
        gradient(np.eye(2), np.eye(2), np.eye(3))


def test_an_integer_without_a_negative_is_refused():
    A = np.array([[0, -(2**63)], [0, 0]])
    with pytest.raises(ValueError, match=r"A has the entry -2\*\*63"):
        solve(A, np.eye(2, dtype=int), maximize=True)
