"""Pairwise steps in NumPy and compiled are the same steps, and small solves do not wait for a compiler."""

import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw.solvers import gram
from dcfw.solvers.weights import in_numpy, pairwise_steps


@settings(max_examples=150, deadline=None)
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
    for steps in (in_numpy, gram.pairwise_steps):
        weights, slopes = w.copy(), scores.copy()
        answers.append((steps(M, weights, slopes, m, 1e-9, limit, 1e-9), weights, slopes))
    assert answers[0][0] == answers[1][0]
    assert np.array_equal(answers[0][1], answers[1][1])
    assert np.array_equal(answers[0][2], answers[1][2], equal_nan=True)


def test_steps_without_numba_are_given_everything(monkeypatch):
    M, w, scores = np.diag([1.0, 2.0, -9.0]), np.array([0.5, 0.5, 0.0]), np.array([1.0, -1.0, 0.0])
    answers = []
    for limit in (0, 1, 7):
        arguments = (M, w.copy(), scores.copy(), 2, 1e-9, limit, 1e-9)
        expected = gram.pairwise_steps(M, w.copy(), scores.copy(), 2, 1e-9, limit, 1e-9)
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "numba")
            answers.append(pairwise_steps(*arguments))
        assert answers[-1] == expected
    assert len(set(answers)) > 1


def test_a_small_problem_is_solved_by_blended_steps_without_loading_numba():
    code = """
import sys
import numpy as np
import dcfw
from dcfw import functions, sets
M, N = np.random.default_rng(0).standard_normal((2, 20, 20))
f, g = functions.Quadratic(M @ M.T), functions.Quadratic(N @ N.T)
result = dcfw.minimize(f - g, sets.Simplex(20), tol=1e-6)
assert result.success and result.active_set is not None, result
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
