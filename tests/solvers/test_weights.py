"""Pairwise steps in NumPy and compiled are the same steps, safe for any numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dcfw import kernels
from dcfw.solvers.weights import in_numpy, pairwise_steps

native = pytest.mark.skipif(kernels.native is None, reason="needs the compiled kernels")


@native
@given(
    m=st.integers(1, 12),
    spare=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
    convex=st.booleans(),
    ties=st.booleans(),
    scale=st.sampled_from([1.0, 0.01]),
    limit=st.integers(0, 300),
)
def test_both_forms_give_the_same_numbers_to_the_last_bit(m, spare, seed, convex, ties, scale, limit):
    rng = np.random.default_rng(seed)
    size = m + spare
    R = rng.integers(-2, 3, (size, size)).astype(float) if ties else rng.standard_normal((size, size))
    M = scale * (R @ R.T if convex else R + R.T)
    w = rng.dirichlet(np.ones(m)) * (rng.random(m) < 0.7)
    w = np.concatenate([w / w.sum() if w.sum() > 0 else np.eye(m)[0], np.zeros(spare)])
    scores = np.concatenate([M[:m, :m] @ w[:m] + scale * rng.integers(-2, 3, m), np.full(spare, np.nan)])
    answers = []
    for steps in (in_numpy, pairwise_steps):
        weights, slopes = w.copy(), scores.copy()
        answers.append((steps(M, weights, slopes, m, 1e-9, limit, 1e-9), weights, slopes))
    assert answers[0][0] == answers[1][0]
    assert np.array_equal(answers[0][1], answers[1][1])
    assert np.array_equal(answers[0][2], answers[1][2], equal_nan=True)


def test_without_the_extension_the_steps_are_given_everything(monkeypatch):
    M, w, scores = np.diag([1.0, 2.0, -9.0]), np.array([0.5, 0.5, 0.0]), np.array([1.0, -1.0, 0.0])
    answers = []
    for limit in (0, 1, 7):
        expected = pairwise_steps(M, w.copy(), scores.copy(), 2, 1e-9, limit, 1e-9)
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "native", None)
            answers.append(pairwise_steps(M, w.copy(), scores.copy(), 2, 1e-9, limit, 1e-9))
        assert answers[-1] == expected
    assert len(set(answers)) > 1


@native
@given(st.integers(0, 6), st.integers(0, 3), st.data())
def test_steps_on_any_numbers_end_and_write_nothing_beyond_the_atoms(m, spare, data):
    any_float = st.floats(allow_nan=True, allow_infinity=True)
    size = m + spare
    M = data.draw(arrays(np.float64, (size, size), elements=any_float))
    w, scores = (data.draw(arrays(np.float64, size, elements=any_float)) for _ in range(2))
    kept = w[m:].copy(), scores[m:].copy()
    count, _, _ = pairwise_steps(M, w, scores, m, 0.0, 50, 0.0)
    assert 0 <= count <= 50
    np.testing.assert_array_equal(w[m:], kept[0])
    np.testing.assert_array_equal(scores[m:], kept[1])


@native
@pytest.mark.parametrize("m", [-1, 3])
def test_more_atoms_than_there_are_are_refused(m):
    with pytest.raises(ValueError, match="at most the number of atoms"):
        pairwise_steps(np.eye(2), np.ones(2), np.ones(2), m, 0.0, 1, 0.0)
