"""Small facts of the core that no other test covers: exact counts, names and bounds.

A change of any of these once passed the other tests (see ``mutants.md``).
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import dcfw
from dcfw import functions, gaps, kernels, sets
from dcfw.functions import FiniteSum
from dcfw.sets import birkhoff, linear_programme, polar
from dcfw.solvers import coordinates, sampled
from dcfw.solvers.cgs import CGS
from dcfw.solvers.graduated import Graduated
from dcfw.solvers.ledger import Ledger
from dcfw.solvers.stochastic import Stochastic


def test_a_gradient_that_is_not_an_array_is_named_by_the_projected_gaps():
    phi = functions.Smooth(lambda x: 0.0, lambda x: [0.0, 0.0], lipschitz=1.0)
    with pytest.raises((TypeError, ValueError), match=r"grad"):
        gaps.pgm_gap(phi, sets.Box(-1.0, 1.0, 2), np.zeros(2), L=1.0)


def test_nan_in_one_block_is_outside_of_a_product():
    domain = sets.Product([sets.Simplex(2), sets.Box(0.0, 1.0, 2)])
    x = np.array([0.5, 0.5, np.nan, 0.5])
    assert domain.violation(x) == math.inf
    assert not domain.contains(x)


def test_the_violation_of_the_spectraplex_is_its_most_negative_eigenvalue():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    x = Q @ np.diag([-0.25, 0.5, 0.75]) @ Q.T
    assert sets.Spectraplex(3).violation(x) == pytest.approx(0.25)


@pytest.mark.parametrize("momentum", [False, True])
def test_cgs_ends_its_inner_loops_by_progress_if_asked_to(momentum):
    A = np.diag([1.0, -2.0, 0.5])
    phi = functions.Quadratic(A)
    res = dcfw.minimize(phi, sets.L2Ball(3), np.array([0.3, 0.2, 0.1]), method=CGS(momentum=momentum),
                        tolerance="progress", tol=1e-6)  # fmt: skip
    assert res.success
    assert abs(res.x[1]) == pytest.approx(1.0, abs=1e-3)


def test_a_result_in_a_callback_has_not_succeeded():
    seen = []
    dcfw.minimize(
        functions.SquaredNorm(), sets.Simplex(3), callback=lambda result: seen.append(result.success)
    )
    assert seen
    assert all(success is False for success in seen)


def test_an_exception_that_takes_no_attributes_reaches_the_caller():
    class Closed(Exception):
        def __setattr__(self, name, value):
            raise TypeError("no attributes here")

    calls = []

    def grad(x):
        calls.append(x)
        if len(calls) > 1:  # when there is a point to report
            raise Closed
        return x - np.array([3.0, 1.0, -2.0])

    phi = functions.Smooth(
        lambda x: float(np.sum((x - np.array([3.0, 1.0, -2.0])) ** 2) / 2), grad, lipschitz=1.0
    )
    with pytest.raises(Closed):
        dcfw.minimize(phi, sets.L2Ball(3), method="fw", tol=1e-12)


@pytest.mark.parametrize(("m", "batch", "period"), [(1, 1, 2), (2, 2, 2), (10, 4, 2), (100, 10, 6)])
def test_default_batches_are_the_root_of_the_number_of_terms(m, batch, period, monkeypatch):
    made = []

    class Estimator:
        def __init__(self, samples, batch, growth, period):
            made.append((batch, period))

    monkeypatch.setitem(sampled.ESTIMATORS, "spider", Estimator)
    loss = FiniteSum(m, lambda x: 0.0, lambda x, i: x, lipschitz=1.0)
    run = SimpleNamespace(ledger=Ledger(0.0), keep=lambda **parts: None)
    sampled.Sampled(Stochastic(estimator="spider"), SimpleNamespace(phi=loss, rng=0), run)
    assert made == [(batch, period)]


def test_the_name_of_an_estimator_is_named():
    with pytest.raises(ValueError, match=r"^estimator must be one of"):
        Stochastic(estimator="adam")


def test_products_are_chosen_on_an_accelerator(monkeypatch):
    torch = pytest.importorskip("torch")
    asked = []
    monkeypatch.setattr(polar, "_on_accelerator", lambda G: True)
    monkeypatch.setattr(polar, "by_products", lambda G: asked.append(G))  # None: not found, so the SVD is
    G = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    assert polar.polar(G).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert len(asked) == 1


def test_scales_and_faces_of_sets_made_of_others():
    assert sets.LinearImage([[2.0, 0.0], [0.0, 1.0]], sets.Simplex(2, radius=3.0)).scale == 6.0
    assert sets.GroupBall([0, 0, 1]).faces
    assert not sets.GroupBall([0, 0, 0]).faces
    assert sets.OrderedWeightedL1([1.0, 0.0]).diameter == pytest.approx(2.0 * math.sqrt(2.0))
    with pytest.raises(ValueError, match="symmetric"):
        sets.Ellipsoid([[1.0, 0.2], [0.1, 1.0]])


def test_random_points_of_a_box_lie_on_both_sides_of_its_centre():
    points = np.array([sets.Box(1.0, 3.0, 4).random(seed) for seed in range(50)])
    assert points.min() < 1.2
    assert points.max() > 2.8
    assert points.mean() == pytest.approx(2.0, abs=0.2)


def test_alternating_projections_end_at_the_deadline():
    X = np.random.default_rng(0).standard_normal((4, 4))
    one = birkhoff.alternating_projections(X, iterations=1)
    np.testing.assert_array_equal(birkhoff.alternating_projections(X, deadline=0.0), one)


def test_singular_values_beyond_the_largest_float_are_found_at_a_smaller_scale():
    G = np.full((3, 3), 1e308)
    np.testing.assert_allclose(sets.SchattenBall((3, 3), p=2.0).lmo(G), -np.full((3, 3), 1.0 / 3.0))


def test_messages_name_the_numbers_and_choices_that_they_speak_of():
    with pytest.raises(ValueError, match="at most 2 of 4 nodes"):
        sets.Matching([(0, 1), (0, 2), (0, 3)], perfect=True)
    with pytest.raises(TypeError, match=r"must be one of [a-z]+, [a-z]+"):
        dcfw.minimize(functions.SquaredNorm(), sets.Box(0.0, 1.0, 2), method=Graduated(r=3.0))


def test_a_path_over_many_variables_names_both_conditions_of_its_curvature():
    n = 600
    A = np.diag(np.linspace(-1.0, 1.0, n))

    class Own(functions.Function):
        affine_grad = True

        def value(self, x):
            return 0.5 * float(x @ A @ x)

        def grad(self, x):
            return A @ x

    res = dcfw.minimize(Own(), sets.Box(0.0, 1.0, n), method="graduated", maxiter=2)
    assert "affine, as stated" in res.conditional
    assert "Lanczos" in res.conditional


def test_a_ledger_that_is_restored_continues_the_clock():
    ledger = Ledger(100.0)
    state = ledger.get_state(107.0)
    assert state["seconds"] == 7.0


def test_steps_on_coordinates_are_not_taken_where_a_subclass_has_its_own_lmo():
    class Own(sets.Simplex):
        def lmo(self, G):
            return super().lmo(G)

    phi, x = functions.Quadratic(np.diag([1.0, -1.0])), np.array([0.5, 0.5])
    assert coordinates.applies(phi, sets.Simplex(2), x) == (kernels.native is not None)
    assert not coordinates.applies(phi, Own(2), x)


def test_a_path_from_a_convex_f_to_minus_a_convex_g_has_no_condition():
    res = dcfw.minimize(
        functions.SquaredNorm(1.0) - functions.SquaredNorm(2.0), sets.LInfBall(3), method=Graduated(r="split")
    )
    assert res.success
    assert not res.conditional


def test_groups_project_where_the_norm_is_l1_or_l2_alone():
    known = {p: sets.GroupBall([0, 0, 1], p=p).projects for p in (1.0, 2.0, 3.0, math.inf)}
    assert known == {1.0: True, 2.0: True, 3.0: False, math.inf: False}


def test_a_polytope_with_nearly_parallel_rows_is_bounded_one_variable_at_a_time():
    pairs = linear_programme.FEW // 2 + 1
    rows = np.kron(np.eye(pairs), [[1.0, 1.0 - 1e-5], [1.0, 1.0]])
    domain = sets.Polytope(np.vstack([rows, -rows]), np.ones(4 * pairs), bounds=(None, None))
    largest = math.sqrt(pairs) * math.hypot(4e5, 4e5)  # between two vertices with rows at opposite sides
    assert domain.diameter == pytest.approx(largest, rel=1e-3)
