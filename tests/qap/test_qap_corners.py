"""Corner cases of ``dcfw.qap`` where a wrong answer had been taken for a right one."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from typer.testing import CliRunner

from dcfw import qap
from dcfw.cli import app
from dcfw.result import Status


def test_large_integers_of_a_linear_term_are_not_summed_in_64_bits_beside_floats():
    C = np.full((4, 4), 2**62)
    assert qap.evaluate(np.zeros((4, 4)), np.zeros((4, 4)), range(4), C) == 2.0**64
    np.fill_diagonal(C, 0)
    res = qap.solve(np.zeros((4, 4)), np.eye(4), C)
    assert (res.permutation.tolist(), res.fun) == ([0, 1, 2, 3], 0.0)


@pytest.mark.parametrize("split", ["paper", "balanced", "centered", "spectral", "sliding", "proximal"])
@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_a_linear_term_is_not_lost_beside_a_matrix_that_meets_only_zeros(split, scale):
    rng = np.random.default_rng(0)
    B, C = scale * rng.random((6, 6)), rng.random((6, 6))
    best = C[linear_sum_assignment(C)].sum()
    zero = np.zeros((6, 6))
    for A1, B1 in ((zero, B), (B, zero), (sparse.csr_array(zero), sparse.csr_array(B))):
        res = qap.solve(A1, B1, C, split=split)
        assert (res.fun, res.status.name) == (pytest.approx(best), "CONVERGED")
        assert "constant" not in res.message


@pytest.mark.parametrize("options", [{"partial_match": {0: 1}}, {"forbidden": [(0, 1)]}])
@pytest.mark.parametrize("polish", ["2opt", "tabu"])
@pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_array])
def test_products_of_large_entries_in_the_linear_term_of_pairs_are_polished(options, polish, matrix):
    A, B = np.random.default_rng(0).random((2, 6, 6))
    res = qap.solve(matrix(1e80 * A), matrix(1e80 * B), polish=polish, rng=0, **options)
    assert res.fun == pytest.approx(1e160 * qap.evaluate(A, B, res.permutation))
    small = qap.solve(matrix(A), matrix(B), polish=polish, rng=0, **options)
    assert res.fun == pytest.approx(1e160 * small.fun)
    with pytest.raises(ValueError, match="C has entries beyond"):
        qap.solve(A, B, 1e160 * A, polish=polish)


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


def test_a_problem_beyond_the_precision_of_floats_is_said_to_be_constant_only_up_to_rounding():
    A, B = np.random.default_rng(0).integers(0, 9, (2, 12, 12))
    res = qap.solve(A + 10**14, B, method="dcfw")
    assert "The objective is constant up to rounding" in res.message
    better = qap.solve(A + 10**14, B, polish="2opt")
    assert better.fun < res.fun  # exact, so that it is not all the same which permutation is taken


def test_equal_permutations_have_equal_values_in_the_list_of_all_starts():
    # The value of the whole problem, and that of the part that a partial match leaves, are rounded otherwise.
    rng = np.random.default_rng(1)
    for _ in range(20):
        A, B = sparse.csr_array(rng.standard_normal((5, 5))), rng.standard_normal((5, 5))
        res = qap.solve(A, B, partial_match=[[0, 1], [2, 2], [3, 4]], restarts=3, polish="2opt", rng=0)
        assert res.restart_values == [res.fun] * 3
    huge = rng.integers(2**61, 2**62, (2, 4, 4))
    res = qap.solve(*huge, partial_match=[[0, 1], [2, 2]], restarts=3, polish="2opt", rng=0)
    assert res.restart_values == [res.fun] * 3


def interrupted(function):
    """Return a function whose result is that of a solve which Ctrl-C has ended."""

    def call(*arguments, **options):
        result = function(*arguments, **options)
        result.status = Status.INTERRUPTED
        return result

    return call


@pytest.mark.parametrize("restarts", ["1", "auto"])
def test_a_command_whose_solve_was_interrupted_exits_with_130(restarts, tmp_path, monkeypatch):
    (tmp_path / "small.dat").write_text("2  0 1 1 0  0 5 5 0")
    monkeypatch.setattr(qap, "solve", interrupted(qap.solve))
    done = CliRunner().invoke(app, ["qap", str(tmp_path / "small.dat"), "--restarts", restarts])
    assert done.exit_code == 130


def test_ctrl_c_ends_the_demo_and_not_just_one_of_its_solves(tmp_path, monkeypatch):
    solved = []

    def match(*arguments, **options):
        solved.append(arguments)
        result = interrupted(lambda: qap.solve(np.eye(2), np.eye(2), method="dcfw"))()
        result["disagreement"] = 0.0
        result.permutation = np.arange(len(arguments[0]))
        return result

    monkeypatch.setattr(
        "dcfw.cli.showcase._scipy_faq", lambda *_: qap.solve(np.eye(2), np.eye(2), method="dcfw")
    )
    monkeypatch.setattr(qap, "match", match)
    page = tmp_path / "demo.html"
    done = CliRunner().invoke(app, ["demo", "-o", str(page)])
    assert (done.exit_code, len(solved), page.exists()) == (130, 1, False)


def test_negated_zeros_are_zeros_in_every_number_type():
    # -0.0 in the corner turned the Householder vectors of LAPACK, and with them the last bits of ||A||.
    rng = np.random.default_rng(3)
    A, B = rng.integers(-9, 20, (2, 7, 7))
    A[0, 0] = 0
    whole = qap.solve(A, B, method="cgs", maximize=True, max_lmo=400)
    real = qap.solve(A.astype(float), B.astype(float), method="cgs", maximize=True, max_lmo=400)
    by_hand = qap.solve(-1.0 * A, B, method="cgs", max_lmo=400)
    for res in (real, by_hand):
        np.testing.assert_array_equal(res.history["gap"], whole.history["gap"])
        np.testing.assert_array_equal(res.x, whole.x)
