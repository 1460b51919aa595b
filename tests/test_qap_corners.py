"""Corners of ``dcfw.qap`` where a wrong answer had been taken for a right one."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from dcfw import qap


def test_large_integers_of_a_linear_term_are_not_summed_in_64_bits_beside_floats():
    C = np.full((4, 4), 2**62)
    assert qap.evaluate(np.zeros((4, 4)), np.zeros((4, 4)), range(4), C) == 2.0**64
    np.fill_diagonal(C, 0)
    res = qap.solve(np.zeros((4, 4)), np.eye(4), C)
    assert (res.permutation.tolist(), res.fun) == ([0, 1, 2, 3], 0.0)


@pytest.mark.parametrize("split", ["paper", "balanced", "centered", "spectral", "sliding", "proximal"])
@pytest.mark.parametrize("protocol", [None, "text", "published"])
@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_a_linear_term_is_not_lost_beside_a_matrix_that_meets_only_zeros(split, protocol, scale):
    rng = np.random.default_rng(0)
    B, C = scale * rng.random((6, 6)), rng.random((6, 6))
    best = C[linear_sum_assignment(C)].sum()
    zero = np.zeros((6, 6))
    for A1, B1 in ((zero, B), (B, zero), (sparse.csr_array(zero), sparse.csr_array(B))):
        res = qap.solve(A1, B1, C, split=split, protocol=protocol)
        assert (res.fun, res.status.name) == (pytest.approx(best), "CONVERGED")
        assert "constant" not in res.message


def test_edges_that_all_meet_a_given_pair_decide_the_matching():
    # A star whose centre is known: what is left of A is zero, the weights stand in the linear term.
    weights = np.array([0, 3, 1, 4, 2]) * 10**7
    A = np.zeros((5, 5), dtype=int)
    A[0] = A[:, 0] = weights
    p = np.array([2, 4, 0, 1, 3])
    B = np.random.default_rng(0).integers(0, 10**7, (5, 5)) + np.zeros_like(A)
    B[p[0]], B[:, p[0]] = 0, 0
    B[p[0], p] = B[p, p[0]] = weights
    res = qap.match(A, B, seeds=[(0, p[0])])
    assert res.permutation.tolist() == p.tolist()


def test_a_problem_beyond_the_precision_of_floats_is_not_said_to_be_constant():
    A, B = np.random.default_rng(0).integers(0, 9, (2, 12, 12))
    res = qap.solve(A + 10**14, B)
    assert "The objective is constant up to rounding" in res.message
    better = qap.solve(A + 10**14, B, polish="2opt")
    assert better.fun < res.fun  # exact, so that it is not all the same which permutation is taken
