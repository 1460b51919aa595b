"""dcfw.align.align finds rotations."""

import inspect

import numpy as np
import pytest
import scipy.sparse

import dcfw
from dcfw import Status
from dcfw.align import MaskedLeastSquares, align, nearest_rotation, trial
from dcfw.align.solver import RTOL

METHODS = ("dcfw", "boosted", "fw-k", "fw-m")


def planted(d=8, n=300, rate=0.5, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    E1 = rng.standard_normal((d, n))
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    E2 = Q @ E1 + noise * rng.standard_normal((d, n))
    return E1, E2, rng.random((d, n)) < rate, Q


def literal_phi(E1, Y, mask, lam, X):
    R = np.where(mask, X @ E1 - Y, 0.0)
    return (R**2).sum() / (2 * E1.shape[1]) - lam * np.linalg.norm(X, "nuc")


def polar(G):
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return U @ Vt


# -- what it finds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_full_mask_and_a_rotated_copy_give_the_rotation(method):
    E1, E2, _, Q = planted(n=200)
    res = align(E1, E2, np.ones(E2.shape), method=method, tol=1e-8, maxiter=4000)
    assert res.method == method
    # FW-K's steps min(gap / C, 1) are short: it gets near in that many.
    np.testing.assert_allclose(res.rotation, Q, atol=1e-2 if method == "fw-k" else 1e-6)


@pytest.mark.parametrize("product", ["gram", "observed", "dense"])
@pytest.mark.parametrize("as_given", ["nan", "mask", "sparse"])
def test_half_of_the_entries_are_enough(product, as_given):
    E1, E2, mask, Q = planted()
    Y = {
        "nan": (np.where(mask, E2, np.nan),),
        "mask": (E2, mask),
        "sparse": (scipy.sparse.csr_matrix(np.where(mask, E2, 0.0)),),
    }[as_given]
    res = align(E1, *Y, lam=1e-4, product=product, tol=1e-9)
    assert (res.status, res.product) == (Status.CONVERGED, product)
    np.testing.assert_allclose(res.rotation, Q, atol=1e-6)
    assert res.fun == pytest.approx(literal_phi(E1, E2, mask, 1e-4, res.x), abs=1e-12)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5)])
def test_a_map_between_different_dimensions_has_orthonormal_rows_or_columns(shape):
    d2, d1 = shape
    rng = np.random.default_rng(0)
    E1 = rng.standard_normal((d1, 200))
    Q = np.linalg.qr(rng.standard_normal((9, 5)))[0]
    Q = Q if shape == (9, 5) else Q.T
    Y = np.where(rng.random((d2, 200)) < 0.6, Q @ E1, np.nan)
    res = align(E1, Y, tol=1e-9)
    assert res.x.shape == res.rotation.shape == shape
    np.testing.assert_allclose(res.rotation, Q, atol=1e-5)


def test_with_a_source_of_low_rank_the_map_is_right_where_it_matters():
    E1, _, mask, Q = planted(d=6)
    E1 = np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]) @ E1
    res = align(E1, Q @ E1, mask, tol=1e-9)
    np.testing.assert_allclose(res.rotation @ E1, Q @ E1, atol=1e-4)
    np.testing.assert_allclose(res.rotation.T @ res.rotation, np.eye(6), atol=1e-10)


def test_a_source_of_zeros_leaves_the_nuclear_norm_alone():
    res = align(np.zeros((4, 10)), np.ones((4, 10)), lam=0.5)
    assert res.success  # zero is a critical point: 0 is a subgradient of the nuclear norm there
    assert not res.x.any()


def test_rows_that_were_never_seen_are_filled_in_by_orthogonality():
    E1, E2, mask, Q = planted(d=5)
    mask[2] = False
    mask[:, 10:20] = False
    res = align(E1, E2, mask, tol=1e-9)
    np.testing.assert_allclose(abs(res.rotation[2]), abs(Q[2]), atol=1e-3)


def test_more_lambda_makes_the_solution_more_orthogonal():
    E1, E2, mask, _ = planted(d=6, noise=2.0, n=60)
    least = [np.linalg.svd(align(E1, E2, mask, lam=lam, max_lmo=300).x)[1][-1] for lam in (0.0, 1.0, 10.0)]
    assert least[0] < least[1] <= least[2] + 1e-9
    assert least[2] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, "float64"])
def test_dtype_is_that_of_the_solution(dtype):
    E1, E2, mask, Q = planted()
    res = align(E1, E2, mask, dtype=dtype, tol=1e-5)
    assert res.x.dtype == res.rotation.dtype == np.dtype(dtype)
    np.testing.assert_allclose(res.rotation, Q, atol=1e-2)


def test_torch_runs_from_end_to_end():
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, E2, mask, _ = planted()
    expected = align(E1, E2, mask, max_lmo=40)
    res = align(torch.from_numpy(E1), torch.from_numpy(E2), torch.from_numpy(mask), max_lmo=40)
    assert isinstance(res.rotation, torch.Tensor)
    np.testing.assert_allclose(res.x.numpy(), expected.x, atol=1e-9)


@pytest.mark.parametrize("given", ["float32", "float64"])
@pytest.mark.parametrize("asked", ["float32", "float64", np.float32, "its own", None])
def test_dtype_is_that_of_the_solution_in_torch_too(given, asked):
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, E2, mask, Q = planted()
    arrays = [torch.from_numpy(a).to(getattr(torch, given)) for a in (E1, np.where(mask, E2, np.nan))]
    res = align(*arrays, dtype=torch.float32 if asked == "its own" else asked, tol=1e-5)
    single = given == "float32" if asked is None else asked != "float64"
    assert res.x.dtype == res.rotation.dtype == (torch.float32 if single else torch.float64)
    np.testing.assert_allclose(res.rotation.numpy(), Q, atol=1e-2)


def test_torch_computes_in_double_precision_unless_both_are_single_and_refuses_what_overflows():
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, E2, _, _ = planted()
    E1, E2 = torch.from_numpy(E1), torch.from_numpy(E2)
    assert align(E1.float(), E2, max_lmo=5).x.dtype == torch.float64
    assert align(E1, E2.float(), max_lmo=5).x.dtype == torch.float64
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        align(E1, E2, dtype="float16")
    with pytest.raises(ValueError, match="E1 has NaN or Inf"):
        align(1e200 * E1, E2, dtype="float32")
    with pytest.raises(TypeError, match="Y must hold real numbers"):
        align(E1, E2 + 1j)


@pytest.mark.parametrize(("dtype", "scale"), [("float64", 1e-160), ("float32", 1e-20)])
def test_entries_whose_squares_vanish_are_refused_and_not_taken_for_zeros(dtype, scale):
    E1, E2, mask, _ = (np.asarray(a) for a in planted())
    Y = np.where(mask, E2, np.nan)
    with pytest.raises(ValueError, match=r"E1 has no entries above .*: rescale it"):
        align(scale * E1, Y, dtype=dtype)
    with pytest.raises(ValueError, match=r"Y has no entries above .*: rescale it"):
        align(E1, scale * Y, dtype=dtype)
    assert align(0.0 * E1, Y, dtype=dtype, max_lmo=5).x.shape == (len(Y), len(E1))  # as good as any rotation
    few = np.where(np.arange(E1.shape[1]) < 2, scale, 1.0)  # among others they are as good as zeros
    assert align(few * E1, few * Y, dtype=dtype, max_lmo=5).gap >= 0.0


def test_a_sparse_target_whose_squares_overflow_is_refused_like_any_other():
    E1, E2, mask, _ = (np.asarray(a) for a in planted())
    target = scipy.sparse.csc_array(1e200 * np.where(mask, E2, 0.0))
    with pytest.raises(ValueError, match=r"Y has entries of size .*, whose squares may overflow"):
        align(E1, target)


def test_the_masked_entries_of_a_masked_target_are_missing():
    E1, E2, mask, _ = planted()
    masked = np.ma.masked_array(np.where(mask, E2, 999.0), mask=~np.asarray(mask, dtype=bool))
    np.testing.assert_array_equal(align(E1, masked).x, align(E1, np.where(mask, E2, np.nan)).x)


# -- when it stops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_by_default_it_stops_at_a_part_of_the_first_gap_whatever_the_scale(scale):
    E1, _, mask, Q = planted(d=12, n=200, rate=0.3)
    E1 = np.round(5.0 * E1)
    Y = np.round(Q @ E1)  # with tol=1e-6, at scale 1, not even 6000 polar factors are enough
    res = align(scale * E1, scale * Y, mask, lam=1e-4 * scale**2, max_lmo=3000)
    assert res.status is Status.CONVERGED
    assert res.n_lmo < 1000
    assert res.gap <= 1e-4 * res.history["gap"][0]


def test_the_default_is_that_of_the_estimator_and_of_a_trial():
    estimator = pytest.importorskip("dcfw.align.estimator", reason="needs scikit-learn")
    defaults = [inspect.signature(f).parameters["tol"].default for f in (estimator.MaskedProcrustes, trial)]
    assert defaults == [RTOL, RTOL]
    E1, E2, mask, _ = planted(noise=0.5)
    assert align(E1, E2, mask).n_lmo == align(E1, E2, mask, tol=0.0, rtol=RTOL).n_lmo


def test_where_one_tolerance_is_given_the_other_is_zero():
    E1, E2, mask, _ = planted(noise=0.5)
    for asked in ({"tol": 0.0}, {"rtol": 0.0}):
        res = align(E1, E2, mask, max_lmo=400, **asked)
        assert res.gap < 1e-5 * res.history["gap"][0]
    res = align(E1, E2, mask, rtol=1e-2)
    assert 1e-4 < res.gap / res.history["gap"][0] <= 1e-2


def test_a_good_start_is_not_asked_for_more_than_zero_is():
    E1, E2, mask, _ = planted(noise=0.5)
    cold = align(E1, E2, mask)
    warm = align(E1, E2, mask, x0=cold.x)
    assert (warm.status, warm.n_lmo) == (Status.CONVERGED, 1)


# -- the rotation where there was no step -----------------------------------------------------------------


@pytest.mark.parametrize("budget", [{"max_lmo": 1}, {"maxiter": 0}, {"time_limit": 0.0}])
@pytest.mark.parametrize("shape", [(6, 6), (40, 40), (4, 7), (7, 4)])
def test_without_a_step_the_rotation_is_the_first_vertex(budget, shape):
    d2, d1 = shape
    rng = np.random.default_rng(0)
    E1, Y, mask = rng.standard_normal((d1, 300)), rng.standard_normal((d2, 300)), rng.random((d2, 300)) < 0.5
    for method in METHODS:
        res = align(E1, Y, mask, method=method, **budget)
        assert not res.x.any()
        np.testing.assert_allclose(res.rotation, polar(np.where(mask, Y, 0.0) @ E1.T), atol=1e-9)


def test_a_start_of_low_rank_is_completed_by_the_gradient():
    E1, E2, mask, _ = planted(d=6, noise=0.5)
    x0 = np.diag([1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    res = align(E1, E2, mask, x0=x0, maxiter=0)
    down = -MaskedLeastSquares(E1, E2, mask).grad(x0)
    # Of the nearest rotations it is the steepest one, which is where a small step leads.
    np.testing.assert_allclose(res.rotation, polar(x0 + 1e-9 * down), atol=1e-6)
    np.testing.assert_allclose(res.rotation[:2, :2], np.eye(2), atol=1e-12)


def test_without_a_step_torch_has_the_first_vertex_too():
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, E2, mask, _ = planted()
    res = align(torch.from_numpy(E1), torch.from_numpy(E2), torch.from_numpy(mask), max_lmo=1)
    np.testing.assert_allclose(res.rotation.numpy(), polar(np.where(mask, E2, 0.0) @ E1.T), atol=1e-10)


def test_data_without_information_still_give_an_orthogonal_matrix():
    E1, E2, mask, _ = planted()
    for arguments in ((np.zeros_like(E1), E2, mask), (E1, np.zeros_like(E2), mask)):
        R = align(*arguments).rotation
        np.testing.assert_allclose(R @ R.T, np.eye(8), atol=1e-12)


def test_a_start_and_a_callback_are_handed_on():
    E1, E2, mask, Q = planted()
    seen = []
    res = align(
        E1, E2, mask, x0=0.9 * Q, callback=lambda intermediate_result: seen.append(res_x(intermediate_result))
    )
    np.testing.assert_array_equal(seen[0], 0.9 * Q)
    assert res.history["nit"][0] == 0


def res_x(result):
    return result.x.copy()


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "message"),
    [
        ((np.ones((2, 3)),), {}, TypeError, "Y must be given"),
        ((np.ones((2, 3)), np.ones((2, 3))), {"lam": -1.0}, ValueError, "lam must be a number"),
        ((np.ones((2, 3)), np.ones((2, 3))), {"polar": "qr"}, ValueError, "polar must be one of"),
        ((np.ones((2, 3)), np.ones((2, 3))), {"x0": 2 * np.eye(2)}, ValueError, "x0 must lie in the set"),
        ((np.ones((2, 3)), np.ones((3, 2))), {}, ValueError, "Y must have as many columns"),
    ],
)
def test_wrong_arguments_are_named(arguments, keywords, error, message):
    with pytest.raises(error, match=message):
        align(*arguments, **keywords)


def test_a_loss_comes_without_data():
    E1, E2, mask, _ = planted()
    f = MaskedLeastSquares(E1, E2, mask)
    with pytest.raises(ValueError, match="Y, mask and dtype must be None"):
        align(f, E2)
    with pytest.raises(ValueError, match="Y, mask and dtype must be None"):
        align(f, dtype="float32")
    with pytest.raises(ValueError, match=r"product must be 'auto' .* give it to that instead"):
        align(f, product="dense")
    assert align(f, product="auto", max_lmo=2).product == f.product


def test_the_nearest_rotation_is_nearer_than_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, 5))
    R = nearest_rotation(X)
    others = [np.linalg.qr(R + 0.3 * rng.standard_normal((5, 5)))[0] for _ in range(50)]
    assert all(np.linalg.norm(X - R) <= np.linalg.norm(X - other) for other in others)


# -- inexact polar factors --------------------------------------------------------------------------------


def test_with_inexact_factors_gaps_are_upper_bounds_and_points_feasible():
    E1, E2, mask, _ = planted(d=30, n=300, noise=0.5)
    f = MaskedLeastSquares(E1, E2, mask)
    pairs = []

    def look(intermediate_result):
        X = intermediate_result.x
        assert np.linalg.norm(X, 2) <= 1.0
        u = dcfw.functions.NuclearNorm(1e-4).grad(X)
        G = f.grad(X) - u
        pairs.append((intermediate_result.gap, np.vdot(G, X) + np.linalg.norm(G, "nuc")))

    res = align(f, lam=1e-4, polar="inexact", callback=look, max_lmo=80, tol=0.0)
    assert len(pairs) > 3
    assert all(true <= gap * (1.0 + 1e-9) for gap, true in pairs)
    assert any(true < gap * 0.9999 for gap, true in pairs)  # the bound is in there
    exact = align(f, lam=1e-4, max_lmo=80, tol=0.0)
    assert res.fun == pytest.approx(exact.fun, rel=1e-2)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_the_default_weight_follows_the_scale_of_the_data(scale):
    rng = np.random.default_rng(4)
    E1, Q = rng.standard_normal((6, 80)), np.linalg.qr(rng.standard_normal((6, 6)))[0]
    Y = np.where(rng.random((6, 80)) < 0.5, Q @ E1, np.nan)
    plain, scaled = align(E1, Y), align(scale * E1, scale * Y)
    np.testing.assert_allclose(scaled.rotation, plain.rotation, atol=1e-6)
    assert np.abs(scaled.rotation - Q).max() < 1e-2
    assert scaled.fun == pytest.approx(scale**2 * plain.fun, rel=1e-6)


def test_named_words_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    rng = np.random.default_rng(0)
    E1 = pandas.DataFrame(rng.standard_normal((3, 8)), columns=list("abcdefgh"))
    with pytest.raises(ValueError, match=r"columns of E1 and Y .* Y = Y\[E1.columns\]"):
        align(E1, E1[E1.columns[::-1]])
    assert align(E1, E1).success
    assert align(E1, E1.rename(columns=str.upper)).success  # words of another language, paired by position
