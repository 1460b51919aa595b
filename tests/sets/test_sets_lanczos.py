"""The Lanczos oracles find the extreme pair, are not trapped by their warm start, and bound their error."""

import functools

import numpy as np
import pytest

from dcfw import sets
from dcfw.sets import spectral
from dcfw.sets.lanczos import leading_singular_pair, lowest_eigenpair


def matrix(kind, m, n):
    rng = np.random.default_rng(m * n)
    G = rng.standard_normal((m, n))
    k = min(m, n)
    if kind == "rank one":
        return np.outer(G[:, 0], G[0])
    if kind == "identity":
        return np.eye(m, n)
    if kind == "zero":
        return np.zeros((m, n))
    if kind == "decaying":
        U, _, Vt = np.linalg.svd(G, full_matrices=False)
        return (U * 0.8 ** np.arange(k)) @ Vt
    if kind == "clustered":
        U, _, Vt = np.linalg.svd(G, full_matrices=False)
        return (U * (1.0 - 1e-7 * np.arange(k))) @ Vt
    if kind == "tiny":
        return 1e-150 * G
    return G


KINDS = ["gaussian", "rank one", "identity", "zero", "decaying", "clustered", "tiny"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(20, 20), (100, 30), (30, 100), (120, 110)])
def test_the_nuclear_oracle_attains_the_largest_singular_value_up_to_its_error(kind, shape):
    G = matrix(kind, *shape)
    oracle = sets.NuclearBall(shape, radius=2.0).oracle()
    largest = np.linalg.norm(G, 2)
    for _ in range(2):  # cold, then warm
        atom = oracle(G)
        assert -atom.inner(G) >= 2.0 * largest * (1.0 - 1e-12) - oracle.error
        assert oracle.error <= 1e-8 * largest
        for vector in (atom.u, atom.v):
            assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [20, 110])
def test_the_spectraplex_oracle_attains_the_lowest_eigenvalue_up_to_its_error(kind, n):
    G = matrix(kind, n, n)
    G = G + G.T
    oracle = sets.Spectraplex(n, radius=2.0).oracle()
    values = np.linalg.eigvalsh(G)
    size = np.abs(values).max()
    for _ in range(2):
        atom = oracle(G)
        assert atom.inner(G) <= 2.0 * values[0] + oracle.error + 1e-12 * size
        assert oracle.error <= 1e-7 * size
        assert np.linalg.norm(atom.v) == pytest.approx(1.0, abs=1e-12)


def test_a_warm_start_at_another_singular_vector_is_no_trap():
    first, second = np.eye(50), np.eye(50)
    first[0, 0], second[1, 1] = 3.0, 3.0
    oracle = sets.NuclearBall((50, 50)).oracle()
    assert abs(oracle(first).v[0]) == pytest.approx(1.0)
    assert abs(oracle(second).v[1]) == pytest.approx(1.0)
    oracle = sets.Spectraplex(50).oracle()
    assert abs(oracle(-first).v[0]) == pytest.approx(1.0)
    assert abs(oracle(-second).v[1]) == pytest.approx(1.0)


def test_a_run_that_is_cut_short_reports_a_residual_that_covers_its_error():
    rng = np.random.default_rng(0)
    G = rng.standard_normal((200, 150))
    largest = np.linalg.norm(G, 2)
    values = np.linalg.eigvalsh(G.T @ G)
    for products in (10, 20, 40):
        _, _, sigma, residual = leading_singular_pair(G, products=products)
        rounding = 1e-13 * largest  # of norm itself, whose last bits depend on the number of BLAS threads
        assert -rounding <= largest - sigma <= residual + rounding
        _, value, residual = lowest_eigenpair(-G.T @ G, products=products)
        assert 0.0 <= value + values[-1] + 1e-9 <= residual + 1e-9


def test_an_oracle_that_has_not_converged_falls_back_to_the_full_decomposition(monkeypatch):
    G = np.random.default_rng(1).standard_normal((60, 50))
    G_sym = G[:50] + G[:50].T

    for name, method in (
        ("leading_singular_pair", leading_singular_pair),
        ("lowest_eigenpair", lowest_eigenpair),
    ):
        monkeypatch.setattr(spectral, name, functools.partial(method, products=2))
    oracle = sets.NuclearBall((60, 50)).oracle()
    assert oracle(G).inner(G) == pytest.approx(-np.linalg.norm(G, 2), rel=1e-12)
    assert oracle.error == 0.0
    assert sets.Spectraplex(50).oracle()(G_sym).inner(G_sym) == pytest.approx(np.linalg.eigvalsh(G_sym)[0])
    # Too large for that, the answer stands with an error bound.
    monkeypatch.setattr(spectral, "AFFORDABLE", 10)
    atom = oracle(G)
    assert 0.0 < np.linalg.norm(G, 2) + atom.inner(G) <= oracle.error


def test_the_same_gradient_gives_the_same_vertex_every_time():
    G = np.random.default_rng(2).standard_normal((40, 40))
    np.testing.assert_array_equal(sets.NuclearBall((40, 40)).lmo(G), sets.NuclearBall((40, 40)).lmo(G))


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2)])
def test_the_polar_factor_has_unit_singular_values_and_the_largest_inner_product(shape):
    rng = np.random.default_rng(3)
    for G in (rng.standard_normal(shape), np.zeros(shape), np.outer(np.ones(shape[0]), np.ones(shape[1]))):
        Q = spectral.polar(G)
        np.testing.assert_allclose(np.linalg.svd(Q, compute_uv=False), 1.0, atol=1e-12)
        assert np.vdot(G, Q) == pytest.approx(np.linalg.norm(G, "nuc"), abs=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda ball: ball,
        lambda ball: sets.Product([sets.Simplex(2), ball]),
        lambda ball: sets.Epigraph(ball),
    ],
    ids=["ball", "product", "epigraph"],
)
def test_an_oracle_goes_on_from_a_saved_state_to_the_last_bit(make):
    domain = make(sets.NuclearBall((20, 18)))
    rng = np.random.default_rng(5)
    oracle, resumed = domain.oracle(), domain.oracle()
    G = rng.standard_normal(domain.shape)
    fresh = domain.oracle()(-G).dense()
    oracle(-G - rng.standard_normal(domain.shape))
    resumed.set_state(oracle.get_state())
    expected = oracle(-G).dense()
    np.testing.assert_array_equal(resumed(-G).dense(), expected)
    assert not np.array_equal(fresh, expected)  # so the state does matter


@pytest.mark.parametrize("kind", ["gaussian", "zero"])
def test_pairs_of_a_matrix_in_single_precision_are_in_single_precision(kind):
    G = matrix(kind, 20, 20).astype(np.float32)
    u, v, sigma, _ = leading_singular_pair(G)
    w, least, _ = lowest_eigenpair(G + G.T)
    assert u.dtype == v.dtype == w.dtype == np.float32
    assert sigma == pytest.approx(np.linalg.norm(G, 2), rel=1e-4)
    assert least == pytest.approx(np.linalg.eigvalsh(G + G.T)[0], rel=1e-4)
