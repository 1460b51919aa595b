"""Polar factors agree however they are found."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from dcfw.sets import SpectralBall, polar

EXACT = ("svd", "eigh", "products", "auto")
SHAPES = [(1, 1), (5, 5), (40, 40), (60, 35), (35, 60), (50, 1)]


def matrix(shape, seed=0, condition=None, dtype=np.float64):
    rng = np.random.default_rng(seed)
    G = rng.standard_normal(shape)
    if condition is not None:
        U, _, Vt = np.linalg.svd(G, full_matrices=False)
        G = (U * np.geomspace(1.0, 1.0 / condition, min(shape))) @ Vt
    return G.astype(dtype)


def nuclear(G):
    return float(np.linalg.svd(np.asarray(G, dtype=np.float64), compute_uv=False).sum())


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_way_gives_the_factor_of_scipy(method, shape):
    G = matrix(shape, seed=3, condition=50.0)
    expected = scipy.linalg.polar(G, side="right" if shape[0] >= shape[1] else "left")[0]
    np.testing.assert_allclose(polar.polar(G, method), expected, atol=1e-12)


@pytest.mark.parametrize("method", ["eigh", "products"])
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8])
def test_an_ill_conditioned_matrix_costs_no_more_accuracy_than_with_an_svd(method, condition):
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((80, 80)))[0] for _ in range(2))
    G = (U * np.geomspace(1.0, 1.0 / condition, 80)) @ V.T
    S = polar.polar(G, method)
    # Rounding G itself moves its factor by eps times the condition number.
    np.testing.assert_allclose(S, U @ V.T, atol=40 * 2.0**-52 * condition)
    np.testing.assert_allclose(S.T @ S, np.eye(80), atol=1e-12)


@pytest.mark.parametrize("d", [30, 150])
def test_the_polish_is_needed_and_enough(d):
    G = matrix((d, d), condition=1e5)
    _, V = np.linalg.eigh(G.T @ G)
    W = G @ V
    raw = (W / np.linalg.norm(W, axis=0)) @ V.T
    exact = polar.by_svd(G)
    assert np.abs(raw - exact).max() > 1e-9
    assert np.abs(polar.by_eigh(G) - exact).max() < 1e-10


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("rank", [0, 1, 20])
def test_a_singular_matrix_gets_orthonormal_columns_that_attain_the_nuclear_norm(method, rank):
    rng = np.random.default_rng(rank)
    G = rng.standard_normal((40, rank)) @ rng.standard_normal((rank, 30))
    S = polar.polar(G, method)
    np.testing.assert_allclose(S.T @ S, np.eye(30), atol=1e-12)
    assert np.vdot(G, S) == pytest.approx(nuclear(G), abs=1e-11)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("method", EXACT)
def test_the_factor_does_not_depend_on_the_scale(method, scale):
    G = matrix((30, 30), condition=10.0)
    np.testing.assert_allclose(polar.polar(scale * G, method), polar.polar(G, "svd"), atol=1e-13)


@pytest.mark.parametrize("method", EXACT)
def test_single_precision_stays_single_and_is_as_good_as_an_svd(method):
    G = matrix((70, 70), condition=300.0, dtype=np.float32)
    S = polar.polar(G, method)
    assert S.dtype == np.float32
    np.testing.assert_allclose(S, polar.by_svd(G.astype(np.float64)), atol=2e-3)
    np.testing.assert_allclose(S.T @ S, np.eye(70), atol=2e-5)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_gives_the_same(method, dtype):
    torch = pytest.importorskip("torch", reason="needs torch")
    G = matrix((40, 30), condition=20.0, dtype=dtype)
    S = polar.polar(torch.from_numpy(G), method)
    assert S.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(S.numpy(), polar.by_svd(G), atol=1e-12 if dtype == "float64" else 1e-4)


def test_another_method_is_refused_by_name():
    with pytest.raises(ValueError, match=r"method must be one of .*did you mean 'eigh'"):
        polar.polar(np.eye(2), "eig")
    with pytest.raises(ValueError, match="polar must be one of"):
        SpectralBall((2, 2), polar="exact")


# -- polynomials ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowest", [0.5, 0.1, 1e-2, 1e-3, 1e-6])
def test_the_polynomials_never_leave_the_unit_interval_and_end_at_one(lowest):
    x = np.concatenate([np.linspace(0.0, 1.0, 20_001), np.geomspace(lowest, 1.0, 20_001)])
    start = x.copy()
    for a, b, c in polar.schedule(lowest):
        x = a * x + b * x**3 + c * x**5
        assert x.min() >= 0.0
        assert x.max() <= 1.0 + 1e-14
    assert x[start >= lowest].min() >= 1.0 - 1e-8


@pytest.mark.parametrize("lowest", [0.7, 0.3, 1e-2])
def test_the_best_quintic_takes_its_largest_error_four_times(lowest):
    # Chebyshev: of the odd quintics the one whose error alternates four times is the nearest to 1.
    a, b, c, error = polar._best_quintic(lowest)
    x = np.linspace(lowest, 1.0, 400_001)
    missing = 1.0 - (a * x + b * x**3 + c * x**5)
    assert 0.0 < error < 1.0
    assert np.abs(missing).max() == pytest.approx(error, rel=1e-9)
    extreme = missing[np.abs(missing) >= error * (1.0 - 1e-7)]
    assert np.flatnonzero(np.diff(np.sign(extreme))).size == 3


@pytest.mark.parametrize(("device", "expected"), [("cuda:0", True), ("MPS", True), ("cpu", False)])
def test_an_accelerator_is_known_by_the_name_of_its_device(device, expected):
    assert polar._on_accelerator(SimpleNamespace(device=device)) is expected


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_products_alone_come_to_the_factor_without_a_fallback(size):
    G = size * np.random.default_rng(0).standard_normal((12, 7))
    S = polar.by_products(G / np.linalg.norm(G) * size)
    assert S is not None
    np.testing.assert_allclose(S, polar.by_svd(G), atol=1e-12)
