"""The Birkhoff polytope with an inexact oracle: auctions whose proved error is part of every certificate."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import dcfw
from dcfw import qap, sets


def least(C):
    return C[linear_sum_assignment(C)].sum()


@pytest.mark.parametrize("accuracy", [1e-6, 0.1, 10.0])
def test_the_bound_of_an_auctions_answer_holds_and_is_within_the_accuracy(accuracy):
    rng = np.random.default_rng(0)
    n = 30
    oracle = sets.Birkhoff(n, accuracy=accuracy).oracle()
    C = rng.standard_normal((n, n))
    for _ in range(30):
        C = 0.9 * C + 0.1 * rng.standard_normal((n, n))
        cost = oracle(C).inner(C)
        assert cost - least(C) <= oracle.error <= accuracy
    assert accuracy < 1.0 or cost > least(C) + 1e-6  # else this would be a test of exact answers


def test_the_gap_of_a_run_with_auctions_is_a_bound_of_the_true_one():
    problem = qap.generators.nugent((4, 5), rng=1)
    dc = qap.decompose(problem.A / 100.0, problem.B / 100.0, split="balanced")
    res = dcfw.minimize(dc, sets.Birkhoff(20, accuracy=0.02), tol=0.1)
    assert res.success
    G = dc.whole.grad(res.x)
    truth = np.vdot(G, res.x) - least(G)
    assert 0.0 < truth <= res.gap <= 0.1


def test_an_auction_that_is_too_rough_for_the_tolerance_does_not_claim_to_have_met_it():
    problem = qap.generators.nugent((4, 4), rng=1)
    phi = qap.relaxation(problem.A / 100.0, problem.B / 100.0)
    res = dcfw.minimize(phi, sets.Birkhoff(16, accuracy=1.0), method="fw", tol=1e-6, maxiter=2000)
    G = phi.grad(res.x)
    assert not res.success
    assert res.gap >= np.vdot(G, res.x) - least(G)


def test_an_auction_goes_on_from_its_state_with_the_same_answers():
    rng = np.random.default_rng(2)
    domain = sets.Birkhoff(25, accuracy=0.5)
    first, second = domain.oracle(), domain.oracle()
    for _ in range(5):
        first(rng.random((25, 25)))
    second.set_state(first.get_state())
    for _ in range(5):
        C = rng.random((25, 25))
        assert first(C).columns.tolist() == second(C).columns.tolist()
        assert first.error == second.error


def test_the_state_of_an_auction_is_its_own_and_of_its_size():
    oracle = sets.Birkhoff(3, accuracy=0.5).oracle()
    before = oracle.get_state()
    oracle(np.array([[5.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]]))
    assert before[0].tolist() == [0.0, 0.0, 0.0]
    for state in (sets.Birkhoff(4, accuracy=0.5).oracle().get_state(), (np.zeros(3), np.array([0, 0, 1]))):
        with pytest.raises(ValueError, match=r"state must be that of an Auction\(3\)"):
            oracle.set_state(state)


def test_a_checkpoint_with_auctions_resumes_bit_for_bit(tmp_path):
    problem = qap.generators.nugent((3, 4), rng=1)
    dc = qap.decompose(problem.A / 10.0, problem.B / 10.0)
    options = {"x0": sets.Birkhoff(12).random(0), "tol": 0.1, "inner": "fw"}
    domain = sets.Birkhoff(12, accuracy=0.02)
    whole = dcfw.minimize(dc, domain, **options)
    dcfw.minimize(dc, domain, **options, maxiter=2, checkpoint=tmp_path / "run")
    resumed = dcfw.minimize(dc, domain, **options, checkpoint=tmp_path / "run")
    assert whole.nit > 2
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.n_lmo == whole.n_lmo


def test_another_accuracy_is_another_problem():
    assert repr(sets.Birkhoff(3)) == "Birkhoff(3)"
    assert repr(sets.Birkhoff(3, accuracy=0.25)) == "Birkhoff(3, accuracy=0.25)"
    for wrong, error in ((0.0, ValueError), (-1.0, ValueError), (np.inf, ValueError), ("rough", TypeError)):
        with pytest.raises(error, match=r"^accuracy must be"):
            sets.Birkhoff(3, accuracy=wrong)


@pytest.mark.parametrize("accuracy", [None, 0.5])
def test_the_lmo_of_the_birkhoff_polytope_takes_infinite_costs_for_forbidden_pairs(accuracy):
    C = np.array([[1.0, np.inf, 5.0], [0.0, 4.0, np.inf], [0.0, 2.0, 9.0]])
    S = sets.Birkhoff(3, accuracy=accuracy).lmo(C)
    assert S.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    for bad, words in ((-np.inf, r"^G has -Inf entries \(the first at \(0, 1\)\)"), (np.nan, "^G has NaN")):
        C[0, 1] = bad
        assert C[1, 2] == np.inf
        with pytest.raises(ValueError, match=words):
            sets.Birkhoff(3, accuracy=accuracy).lmo(C)
