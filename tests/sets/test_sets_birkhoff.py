"""Random starts and alternating projections on the Birkhoff polytope."""

import numpy as np
import pytest

from dcfw import kernels, sets
from dcfw.sets import birkhoff


def test_alternating_projections_alternate_between_the_two_sets():
    """One iteration is the least-squares correction of the sums, then the positive part."""
    n = 5
    X = np.random.default_rng(0).standard_normal((n, n))
    A = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    corrected = X.ravel() + np.linalg.pinv(A) @ (np.ones(2 * n) - A @ X.ravel())
    expected = np.maximum(corrected.reshape(n, n), 0.0)
    np.testing.assert_allclose(birkhoff.alternating_projections(X, iterations=1), expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 12, 40])
def test_alternating_projections_end_at_a_doubly_stochastic_matrix(n):
    X = 1.0 / n + np.random.default_rng(n).standard_normal((n, n))
    Y = birkhoff.alternating_projections(X)
    assert Y.min() >= 0.0
    assert sets.Birkhoff(n).violation(Y) <= 1e-9


def test_alternating_projections_are_farther_than_the_projection():
    X = np.random.default_rng(1).standard_normal((15, 15))
    near, some = sets.Birkhoff(15).project(X), birkhoff.alternating_projections(X)
    assert np.linalg.norm(near - X) < np.linalg.norm(some - X)


def test_a_doubly_stochastic_matrix_is_left_alone():
    X = sets.Birkhoff(6).random(0)
    np.testing.assert_allclose(birkhoff.alternating_projections(X), X, atol=1e-14)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 10.0])
@pytest.mark.parametrize("n", [1, 7, 64])
def test_random_starts_of_any_scale_are_doubly_stochastic(n, scale):
    X = sets.Birkhoff(n).random(np.random.default_rng(2), scale=scale)
    assert sets.Birkhoff(n).violation(X) <= 1e-13
    if n > 1:
        assert (np.linalg.norm(X - 1.0 / n) > 0.1 * scale) == (scale > 0.0)


def test_random_starts_are_alternating_projections_of_noise_around_the_barycentre():
    noise = np.random.default_rng(3).standard_normal((10, 10))
    X = sets.Birkhoff(10).random(np.random.default_rng(3), scale=0.5)
    np.testing.assert_allclose(X, birkhoff.alternating_projections(0.1 + 0.5 * noise), atol=1e-12)


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros(4), [[np.nan]], np.zeros((0, 0))])
def test_alternating_projections_refuse_anything_but_a_square_matrix(bad):
    with pytest.raises(ValueError, match="x "):
        birkhoff.alternating_projections(bad)


def test_the_assignment_does_not_depend_on_the_solver(monkeypatch):
    """Without the extension SciPy solves the assignment problems, with the same values."""
    G = np.random.default_rng(4).standard_normal((9, 9))
    own = sets.Birkhoff(9).oracle()(G).inner(G)
    monkeypatch.setattr(kernels, "native", None)
    oracle = sets.Birkhoff(9).oracle()
    assert oracle(G).inner(G) == pytest.approx(own, abs=1e-12)
    assert type(oracle._assign._lap).__name__ == "SciPyLap"


def test_an_oracle_that_is_given_a_state_goes_on_with_its_prices():
    rng = np.random.default_rng(3)
    domain = sets.Birkhoff(9)
    first, second = domain.oracle(), domain.oracle()
    first(rng.standard_normal((9, 9)))
    second.set_state(first.get_state())
    for saved, restored in zip(first.get_state(), second.get_state(), strict=True):
        np.testing.assert_array_equal(saved, restored)


def test_the_lmo_of_the_birkhoff_polytope_takes_infinite_costs_for_forbidden_pairs():
    C = np.array([[1.0, np.inf, 5.0], [0.0, 4.0, np.inf], [0.0, 2.0, 9.0]])
    assert sets.Birkhoff(3).lmo(C).tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    for bad, words in ((-np.inf, r"^G has -Inf entries \(the first at \(0, 1\)\)"), (np.nan, "^G has NaN")):
        C[0, 1] = bad
        assert C[1, 2] == np.inf
        with pytest.raises(ValueError, match=words):
            sets.Birkhoff(3).lmo(C)
