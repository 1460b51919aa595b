"""Polar factors agree however they are found, and the inexact one's certificate can be trusted."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw.sets import SpectralBall, polar, polar_inexact

EXACT = ("svd", "eigh", "mixed", "products", "auto")
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


def spectra(d):
    return {
        "equal": np.ones(d),
        "linear": np.linspace(1.0, 1e-3, d),
        "condition 10": np.geomspace(1.0, 0.1, d),
        "condition 1e3": np.geomspace(1.0, 1e-3, d),
        "condition 1e5": np.r_[np.linspace(1.0, 0.2, d - 40), np.geomspace(0.1, 1e-5, 40)],
        "condition 1e8": np.geomspace(1.0, 1e-8, d),
        "condition 1e16": np.geomspace(1.0, 1e-16, d),
        "two clusters": np.repeat([1.0, 0.11], d // 2),
        "clusters": np.repeat([1.0, 0.5, 0.09, 1e-4], d // 4),
        "one tiny": np.r_[np.linspace(1.0, 0.3, d - 1), 1e-9],
        "one large": np.r_[1e6, np.linspace(1.0, 0.3, d - 1)],
        "rank 100": np.r_[np.ones(100), np.zeros(d - 100)],
    }


@pytest.mark.parametrize("shape", [(200, 200), (260, 200), (200, 260)])
@pytest.mark.parametrize("kind", spectra(200))
def test_eigenvectors_in_single_precision_lead_to_the_factor_of_an_svd(kind, shape):
    rng = np.random.default_rng(11)
    sigma = spectra(200)[kind]
    U, V = (np.linalg.qr(rng.standard_normal((rows, 200)))[0] for rows in shape)
    G = (U * sigma) @ V.T
    S = polar.polar(G, "mixed")
    assert S.dtype == np.float64
    thin = S.T @ S if shape[0] >= shape[1] else S @ S.T
    np.testing.assert_allclose(thin, np.eye(200), atol=2e-10)
    assert np.vdot(G, S) == pytest.approx(sigma.sum(), rel=1e-11)
    if sigma[-1] > 1e-10 * sigma[0]:  # below that rounding decides
        np.testing.assert_allclose(S, U @ V.T, atol=1e-10 + 40 * 2.0**-52 * sigma[0] / sigma[-1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_gaussian_matrices_need_no_fallback_and_come_out_to_ten_digits(seed, scale):
    G = scale * matrix((300, 300), seed)
    S = polar.by_mixed(G)
    np.testing.assert_allclose(S, polar.by_svd(G), atol=5e-11)
    np.testing.assert_array_equal(S, polar.by_mixed(G))


def test_what_single_precision_cannot_do_is_left_to_an_svd(monkeypatch):
    G = matrix((200, 200), seed=1)
    singular = G.copy()
    singular[:, 0] = singular[:, 1]
    many_short = matrix((200, 200), condition=1e8)
    for hopeless in (np.zeros((200, 200)), np.full((200, 200), np.nan), singular, many_short):
        assert polar.by_mixed(hopeless) is None
    np.testing.assert_array_equal(polar.polar(many_short, "mixed"), polar.by_svd(many_short))
    assert polar.by_mixed(G) is not None
    monkeypatch.setattr(polar, "SMALL_ENOUGH", 1e-9)  # smaller than any E from single precision
    assert polar.by_mixed(G) is None
    np.testing.assert_array_equal(polar.polar(G, "mixed"), polar.by_svd(G))


def test_a_matrix_with_a_few_dominant_singular_values_is_left_to_double_precision():
    G = matrix((200, 200), seed=1)
    G += 2.0  # of rank one, thirteen times as large as the rest
    np.testing.assert_array_equal(polar.polar(G, "mixed"), polar.by_eigh(G))


def test_short_columns_must_be_dealt_with_in_double_precision(monkeypatch):
    G = matrix((200, 200), seed=1)
    monkeypatch.setattr(polar, "TAIL", 0.0)
    assert polar.by_mixed(G) is None  # not orthogonal enough for a correction of first order


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


# -- inexact ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    decades=st.floats(0.0, 12.0),
    scale=st.sampled_from([1e-20, 1.0, 1e20]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_the_inexact_factor_is_feasible_and_its_bound_is_true(m, n, seed, decades, scale, dtype):
    G = (scale * matrix((m, n), seed, condition=10.0**decades)).astype(dtype)
    S, error = polar_inexact.certified(G)
    S = S.astype(np.float64)
    rounding = 1e-15 if dtype == "float64" else 1e-7  # of the scaled factor's entries, for m != n
    assert np.linalg.norm(S, 2) <= 1.0 + rounding
    missing = nuclear(G) - float(np.vdot(G.astype(np.float64), S))
    assert -1e-12 * nuclear(G) <= missing <= error + 1e-12 * nuclear(G)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(120, 120), (160, 120), (120, 160)])
def test_the_bound_is_a_thousandth_for_a_well_conditioned_matrix(shape, dtype):
    G = matrix(shape, condition=30.0, dtype=dtype)
    _, error = polar_inexact.certified(G)
    assert error <= 1e-3 * nuclear(G)


def test_a_few_steps_end_just_inside_the_ball():
    for G in (np.eye(30), matrix((30, 30), condition=2.0), matrix((64, 64), seed=1)):
        S = polar_inexact._few_steps(G)
        assert 0.999 <= np.linalg.norm(S, 2) <= 1.0
        assert polar_inexact.missed(G, S) is not None


@pytest.mark.parametrize("G", [np.zeros((30, 30)), np.ones((30, 30)), np.diag(np.arange(30.0))])
def test_a_singular_matrix_is_certified_too(G):
    S, error = polar_inexact.certified(G)
    assert np.linalg.norm(S, 2) <= 1.0
    assert nuclear(G) - np.vdot(G, S) <= error <= 0.05 * nuclear(G) + 1e-12


def test_the_bound_holds_for_any_point_of_the_ball_and_not_just_for_good_ones():
    G = matrix((25, 25), seed=5)
    rng = np.random.default_rng(0)
    for weight in (0.0, 0.5, 0.9, 0.999):
        other = 0.999 * polar.by_svd(rng.standard_normal((25, 25)))
        S = weight * 0.999999 * polar.by_svd(G) + (1.0 - weight) * other
        bound = polar_inexact.missed(G, S)
        assert bound is None or bound >= nuclear(G) - np.vdot(G, S)
    assert polar_inexact.missed(G, 1.001 * polar.by_svd(G)) is None  # outside the ball: nothing is claimed


@pytest.mark.parametrize("d", [30, 150])
def test_the_bound_is_nearly_what_is_really_missing(d):
    G = matrix((d, d), seed=2)
    S, error = polar_inexact.certified(G)
    missing = nuclear(G) - np.vdot(G, S)
    assert missing <= error <= 1.5 * missing <= 1.5e-3 * nuclear(G)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("kind", ["clusters", "one large", "half tiny", "rank one", "blocks"])
def test_the_bound_is_true_for_matrices_made_to_break_it(kind, scale):
    rng = np.random.default_rng(7)
    d = 60
    U, V = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    sigma = {
        "clusters": np.repeat([1.0, 0.5, 1e-3, 1e-9], d // 4),
        "one large": np.r_[1.0, np.full(d - 1, 0.8)],  # power iterations hardly see the largest
        "half tiny": np.r_[np.ones(d // 2), np.full(d // 2, 1e-14)],
        "rank one": np.r_[1.0, np.zeros(d - 1)],
        "blocks": np.ones(d),
    }[kind]
    G = (U * sigma) @ V.T
    if kind == "blocks":  # the longest column is not where the largest singular value is
        G = scipy.linalg.block_diag(20.0 * np.eye(d // 2), np.ones((d // 2, d // 2)))
    S, error = polar_inexact.certified(scale * G)
    assert np.linalg.norm(S, 2) <= 1.0
    missing = nuclear(G) - np.vdot(G, S)
    assert -1e-12 * nuclear(G) <= missing <= error / scale + 1e-12 * nuclear(G)
    assert error / scale <= 0.02 * nuclear(G)


@pytest.mark.parametrize("scale", [1e-45, 1e-42, 1e-39, 1e-36, 1e-20, 1e20, 1e37])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_single_precision_is_certified_over_its_whole_range(scale, n):
    G = (scale * np.random.default_rng(n).standard_normal((n, n))).astype(np.float32)
    S, error = polar_inexact.certified(G)
    assert S.dtype == np.float32
    true = G.astype(np.float64)
    assert np.linalg.norm(S.astype(np.float64), 2) <= 1.0
    missing = np.linalg.norm(true, "nuc") - np.vdot(true, S.astype(np.float64))
    assert missing <= error <= 0.02 * np.linalg.norm(true, "nuc")


def test_what_leaves_the_ball_is_not_certified_and_comes_from_an_svd(monkeypatch):
    G = matrix((40, 40), condition=10.0)
    monkeypatch.setattr(polar_inexact, "HEADROOM", 0.5)  # singular values of up to 2: the steps overshoot
    assert polar_inexact.missed(G, polar_inexact._few_steps(G)) is None
    S, error = polar_inexact.certified(G)
    np.testing.assert_allclose(S, polar.by_svd(G), atol=1e-12)
    assert nuclear(G) - np.vdot(G, S) <= error <= 1e-10 * nuclear(G)


@pytest.mark.parametrize("lowest", [0.3, 0.03, 1e-3])
def test_the_rational_steps_never_leave_the_unit_interval_and_end_at_one(lowest):
    x = np.concatenate([np.linspace(0.0, 1.0, 20_001), np.geomspace(lowest, 1.0, 20_001)])
    start = x.copy()
    for a, b, c in polar_inexact.rational_schedule(lowest, 5):
        x = x * (a + b * x**2) / (1.0 + c * x**2)
        assert x.min() >= 0.0
        assert x.max() <= 1.0 + 1e-14
    assert x[start >= lowest].min() >= 1.0 - 1e-12


def test_torch_certifies_the_same():
    torch = pytest.importorskip("torch", reason="needs torch")
    G = matrix((40, 40), condition=100.0)
    S, error = polar_inexact.certified(torch.from_numpy(G))
    assert torch.linalg.matrix_norm(S, 2) <= 1.0
    assert 0.0 <= nuclear(G) - np.vdot(G, S.numpy()) <= error <= 0.01 * nuclear(G)


def test_the_oracle_of_the_ball_hands_the_bound_on():
    G = matrix((40, 30), condition=100.0)
    ball = SpectralBall((40, 30), 2.0, polar="inexact")
    oracle = ball.oracle()
    S = oracle(G).dense()
    assert ball.contains(S)
    assert np.vdot(G, S) - oracle.error <= -2.0 * nuclear(G)  # a lower bound of the minimum
    assert oracle.error > 0.0
    np.testing.assert_array_equal(S, ball.lmo(G))
    assert repr(ball) == "SpectralBall((40, 30), radius=2, polar='inexact')"


@pytest.mark.parametrize(("device", "expected"), [("cuda:0", True), ("MPS", True), ("cpu", False)])
def test_an_accelerator_is_known_by_the_name_of_its_device(device, expected):
    assert polar._on_accelerator(SimpleNamespace(device=device)) is expected


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_products_alone_come_to_the_factor_without_a_fallback(size):
    G = size * np.random.default_rng(0).standard_normal((12, 7))
    S = polar.by_products(G / np.linalg.norm(G) * size)
    assert S is not None
    np.testing.assert_allclose(S, polar.by_svd(G), atol=1e-12)
