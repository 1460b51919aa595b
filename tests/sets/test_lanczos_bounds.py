"""The error that a Lanczos oracle states bounds its actual error, at every scale."""

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets
from dcfw.sets import lanczos
from dcfw.sets.lanczos import leading_singular_pair, lowest_eigenpair

DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def orthogonal(n, rng):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def clusters(n, rng):
    """Spectra with largest values that are close to each other, in decreasing order."""
    for spread in 10.0 ** np.arange(-13.0, -5.0):
        yield np.sort(1.0 - spread * rng.random(n))[::-1]
        yield np.r_[1.0, 1.0 - spread, 0.5 * np.sort(rng.random(n - 2))[::-1]]
        yield np.r_[1.0, np.full(n - 1, 1.0 - spread)]
        yield np.r_[np.sort(1.0 - spread * rng.random(6))[::-1], np.zeros(n - 6)]


def rounding(G):
    return 8.0 * max(G.shape) * float(np.finfo(G.dtype).eps) * np.linalg.norm(G.astype(float), 2)


def value(atom, G):
    return float(np.vdot(G.astype(float), atom.dense().astype(float)))


@DTYPES
@pytest.mark.parametrize("shape", [(20, 20), (45, 30), (30, 45), (130, 120)])
def test_the_nuclear_oracle_misses_no_more_than_its_error_in_a_cluster(shape, dtype):
    rng = np.random.default_rng(shape[0])
    k = min(shape)
    for sigma in clusters(k, rng):
        U, V = (orthogonal(side, rng)[:, :k] for side in shape)
        G = ((U * sigma) @ V.T).astype(dtype)
        oracle = sets.NuclearBall(shape, radius=2.0).oracle()
        oracle(np.outer(U[:, 1], V[:, 1]).astype(dtype))  # the previous answer: nearly the best one now
        missed = value(oracle(G), G) + 2.0 * np.linalg.norm(G.astype(float), 2)
        assert missed <= oracle.error + rounding(G)
        assert oracle.error <= 2.0 * (2e-10 if dtype == np.float64 else 2e-6)


@DTYPES
@pytest.mark.parametrize("n", [20, 50, 120])
@pytest.mark.parametrize("top", [0.0, 1.0, 1e3])
def test_the_spectraplex_oracle_misses_no_more_than_its_error_in_a_cluster(n, top, dtype):
    rng = np.random.default_rng(n)
    for sigma in clusters(n, rng):
        sigma[-1] = -top
        Q = orthogonal(n, rng)
        G = ((Q * -sigma) @ Q.T).astype(dtype)
        oracle = sets.Spectraplex(n, radius=2.0).oracle()
        oracle(-np.outer(Q[:, 1], Q[:, 1]).astype(dtype))
        lowest = np.linalg.eigvalsh(0.5 * (G + G.T).astype(float))[0]
        assert value(oracle(G), G) - 2.0 * lowest <= oracle.error + rounding(G)
        assert oracle.error <= max(top, 1.0) * 2.0 * (2e-10 if dtype == np.float64 else 2e-6)


@pytest.mark.parametrize("seed", range(20, 40))
def test_a_solve_that_ends_on_a_face_claims_no_gap_below_the_true_one(seed):
    # The gradient's lowest eigenvalue is fivefold at the optimum; seed 29 ended with a gap of 0, not 1e-7.
    n, rng = 40, np.random.default_rng(seed)
    Q = orthogonal(n, rng)
    M = (Q * np.r_[1.0 + 0.2 * rng.random(5), -0.1 * rng.random(n - 5)]) @ Q.T
    M = (M + M.T) / 2.0
    linear = functions.Quadratic(np.zeros((n * n, n * n)), b=-M.ravel(), convex=True)
    res = dcfw.minimize(functions.SquaredNorm(1.0) + linear, sets.Spectraplex(n), tol=1e-10)
    G = res.x - M
    gap = np.vdot(G, res.x) - np.linalg.eigvalsh((G + G.T) / 2.0)[0]
    assert res.success
    assert gap <= min(res.gap, 1e-10) + 1e-13
    assert gap <= res.dc_gap[1] + 1e-13  # f = phi: they are the same


def hidden(n, rng):
    """Return orthonormal vectors as columns; the first is orthogonal to the start of the search."""
    first = rng.standard_normal(n)
    start = lanczos._generic(n)
    first -= (first @ start) * start
    return np.linalg.qr(np.column_stack([first, rng.standard_normal((n, n - 1))]))[0]


@pytest.mark.parametrize("rank", [3, 150])
def test_a_vector_that_the_search_cannot_see_is_found_all_the_same(rank):
    n, rng = 150, np.random.default_rng(rank)
    for below in (0.5, 1e-3, 1e-8):
        Q, W = hidden(n, rng), orthogonal(n, rng)
        sigma = np.r_[1.0, np.full(rank - 1, 1.0 - below) * rng.random(rank - 1), np.zeros(n - rank)]
        G = (W * sigma) @ Q.T
        # Directions that no product reaches: to the search the rest is all there is.
        _, _, value, error = leading_singular_pair(G, affordable=n)
        assert 1.0 - value <= error + 1e-13
        assert error <= 1e-9
        _, value, error = lowest_eigenpair((Q * -sigma) @ Q.T, affordable=n)
        assert value + 1.0 <= error + 1e-13
        assert error <= 1e-9


def test_where_no_decomposition_is_affordable_the_error_grows_to_what_is_missed():
    n, rng = 150, np.random.default_rng(0)
    Q, W = hidden(n, rng), orthogonal(n, rng)
    for below in (0.5, 1e-3, 1e-6):
        sigma = np.r_[1.0, 1.0 - below, 0.3, np.zeros(n - 3)]
        K = (Q * -sigma) @ Q.T
        _, value, error = lowest_eigenpair(K)
        assert 0.5 * below <= value + 1.0 <= error + 1e-13
        assert error <= 16.0 * (value + 1.0) + 1e-9
        _, _, value, error = leading_singular_pair((W * sigma) @ Q.T)
        assert 1.0 - value <= error + 1e-13  # rounding may have let the search see it
        assert error <= 16.0 * (1.0 - value) + 1e-9


@pytest.mark.parametrize("symmetric", [False, True])
def test_few_large_singular_values_are_proven_to_be_all_without_a_factorisation(monkeypatch, symmetric):
    def fail(*_):
        raise AssertionError("a product of matrices or a factorisation")

    monkeypatch.setattr(lanczos, "cholesky", fail)
    monkeypatch.setattr(lanczos._Gram, "matrix", fail)
    rng = np.random.default_rng(0)
    G = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 250)) + 0.1 * rng.standard_normal((300, 250))
    if symmetric:
        G = G[:250] + G[:250].T
        _, value, error = lowest_eigenpair(G)
        missed = value - np.linalg.eigvalsh(G)[0]
    else:
        _, _, value, error = leading_singular_pair(G)
        missed = np.linalg.norm(G, 2) - value
    assert -1e-11 <= missed <= error <= 1e-9 * abs(value)


@DTYPES
@pytest.mark.parametrize("domain", [sets.NuclearBall((20, 17)), sets.Spectraplex(20), sets.Spectraplex(9)])
def test_answers_do_not_depend_on_the_scale_of_the_gradient(domain, dtype):
    G = np.random.default_rng(1).standard_normal(domain.shape).astype(dtype)
    oracle = domain.oracle()
    atom, error = oracle(G), oracle.error
    powers = (-900, -600, -550, -80, 80, 505, 600, 1020) if dtype == np.float64 else (-100, -75, 62, 80, 124)
    for power in powers:
        scaled = np.ldexp(G, power)
        again = domain.oracle()
        np.testing.assert_allclose(again(scaled).dense(), atom.dense(), rtol=0, atol=16 * np.finfo(dtype).eps)
        assert again.error == pytest.approx(float(np.ldexp(error, power)), rel=1e-3, abs=0.0)
    best = (
        np.linalg.norm(G, 2) if isinstance(domain, sets.NuclearBall) else -np.linalg.eigvalsh(G + G.T)[0] / 2
    )
    assert -value(atom, G) == pytest.approx(best, rel=1e-12 if dtype == np.float64 else 1e-5)


@DTYPES
@pytest.mark.parametrize("size", ["tiny", "huge"])
@pytest.mark.parametrize("domain", [sets.NuclearBall((20, 20)), sets.Spectraplex(20)], ids=repr)
def test_a_solve_with_gradients_at_the_ends_of_the_range_finds_the_best_vertex(domain, size, dtype):
    # Squares underflowed: CONVERGED at a wrong vertex with a gap of 0, or an oracle that was called bad.
    exponent = {"tiny": {8: -165, 4: -24}, "huge": {8: 160, 4: 22}}[size][np.dtype(dtype).itemsize]
    for seed in range(3):
        A = np.random.default_rng(seed).standard_normal((20, 20))
        G = ((A + A.T) * 10.0**exponent).astype(dtype)
        linear = functions.Quadratic(np.zeros((400, 400), dtype), b=G.ravel(), convex=True)
        values = np.linalg.eigvalsh(G.astype(float) / 10.0**exponent)
        best = -np.abs(values).max() if isinstance(domain, sets.NuclearBall) else values[0]
        res = dcfw.minimize(linear, domain, tol=1e-5 * 10.0**exponent)
        missed = value(sets.atoms.Dense(res.x), G) / 10.0**exponent - best
        assert res.success
        assert missed <= 1e-5 + 400 * np.finfo(dtype).eps


@pytest.mark.parametrize("domain", [sets.NuclearBall((20, 18)), sets.Spectraplex(20)], ids=repr)
@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_an_invalid_gradient_is_refused(domain, entry):
    G = np.ones(domain.shape)
    G[3, 2] = entry
    with pytest.raises(np.linalg.LinAlgError, match="NaN or infinite"):
        domain.oracle()(G)
