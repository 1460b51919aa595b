"""The masked loss: its gradient, its three products, the forms of its data, and streams of blocks."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dcfw.align import MaskedLeastSquares, products
from dcfw.align.nuclear import PolarNuclearNorm
from dcfw.align.observations import Observations

PRODUCTS = ("gram", "observed", "dense")


def data(d1=5, d2=4, n=30, rate=0.4, seed=0):
    rng = np.random.default_rng(seed)
    E1 = rng.standard_normal((d1, n))
    mask = rng.random((d2, n)) < rate
    return E1, rng.standard_normal((d2, n)), mask


def literal(E1, Y, mask, X):
    """Return value and gradient by their definition."""
    R = np.where(mask, X @ E1 - np.where(mask, Y, 0.0), 0.0)
    n = E1.shape[1]
    return (R**2).sum() / (2 * n), R @ E1.T / n


@given(
    d1=st.integers(1, 7),
    d2=st.integers(1, 7),
    n=st.integers(1, 40),
    rate=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_every_product_gives_the_defined_value_and_gradient(d1, d2, n, rate, seed):
    E1, Y, mask = data(d1, d2, n, rate, seed)
    mask[0, 0] = True
    X = np.random.default_rng(seed + 1).standard_normal((d2, d1))
    value, grad = literal(E1, Y, mask, X)
    for product in PRODUCTS:
        f = MaskedLeastSquares(E1, Y, mask, product=product)
        assert f.value(X) == pytest.approx(value, rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(f.grad(X), grad, atol=1e-11)
        assert f.value_from_grad(X, grad) == pytest.approx(value, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_gradient_is_that_of_finite_differences(product):
    E1, Y, mask = data()
    f = MaskedLeastSquares(E1, Y, mask, product=product)
    rng = np.random.default_rng(3)
    X, D = rng.standard_normal((2, 4, 5))
    slope = (f.value(X + 1e-5 * D) - f.value(X - 1e-5 * D)) / 2e-5
    assert np.vdot(f.grad(X), D) == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_hessian_lies_between_zero_and_the_lipschitz_constant(product):
    f = MaskedLeastSquares(*data(), product=product)
    eigenvalues = np.linalg.eigvalsh(f.hessian(np.zeros(f.shape)))
    assert eigenvalues[0] >= -1e-12
    assert eigenvalues[-1] <= f.lipschitz * (1.0 + 1e-12)
    if product == "gram":
        assert eigenvalues[-1] == pytest.approx(f.lipschitz)


def test_the_curvature_bounds_the_second_differences_on_the_ball():
    E1, Y, mask = data(rate=1.0)
    f = MaskedLeastSquares(E1, Y, mask)
    rng = np.random.default_rng(0)
    for _ in range(50):
        D = rng.standard_normal(f.shape)
        D *= 2.0 / np.linalg.norm(D, 2)
        assert np.vdot(D, f.grad(D) - f.grad(0 * D)) <= f.curvature


# -- ways to say what is missing --------------------------------------------------------------------------


def test_nan_mask_sparse_and_masked_arrays_are_the_same():
    E1, Y, mask = data()
    Y[np.unravel_index(np.flatnonzero(mask)[0], mask.shape)] = 0.0  # an observed zero
    rows, columns = np.nonzero(mask)
    stored = scipy.sparse.coo_array((Y[mask], (rows, columns)), shape=Y.shape)
    X = np.random.default_rng(1).standard_normal((4, 5))
    given_mask = MaskedLeastSquares(E1, Y, mask)
    for f in (
        MaskedLeastSquares(E1, np.where(mask, Y, np.nan)),
        MaskedLeastSquares(E1, stored),
        MaskedLeastSquares(E1, np.where(mask, Y, np.inf), mask.astype(int)),  # outside, anything goes
        MaskedLeastSquares(E1, np.where(mask, Y, np.nan), mask),
        MaskedLeastSquares(E1, np.ma.masked_array(np.where(mask, Y, 999.0), mask=~mask)),
        MaskedLeastSquares.from_blocks([(E1, np.ma.masked_array(np.where(mask, Y, 999.0), mask=~mask))]),
    ):
        assert f.observed == given_mask.observed == mask.sum()
        np.testing.assert_allclose(f.grad(X), given_mask.grad(X), atol=1e-14)
        assert f.value(X) == pytest.approx(given_mask.value(X))


@pytest.mark.parametrize("product", PRODUCTS)
def test_rows_and_columns_without_observations_do_no_harm(product):
    E1, Y, mask = data()
    mask[1] = False
    mask[:, :7] = False
    X = np.random.default_rng(1).standard_normal((4, 5))
    f = MaskedLeastSquares(E1, Y, mask, product=product)
    np.testing.assert_allclose(f.grad(X), literal(E1, Y, mask, X)[1], atol=1e-12)
    assert not f.grad(X)[1].any()


@pytest.mark.parametrize(
    ("E1", "Y", "mask", "message"),
    [
        (np.ones(3), np.ones((2, 3)), None, "E1 must have 2 dimension"),
        (np.ones((2, 3)), np.ones(3), None, "Y must have 2 dimension"),
        (np.ones((2, 3)), np.ones((2, 4)), None, "Y must have as many columns .words. as E1, which has 3"),
        (np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 2)), "mask must have the shape of Y"),
        (np.ones((2, 3)), np.full((2, 3), np.nan), None, "Y must have observed entries"),
        (np.ones((2, 3)), np.ones((2, 3)), np.zeros((2, 3)), "Y must have observed entries"),
        (np.array([[1.0, np.nan]]), np.ones((1, 2)), None, r"E1 has entries .*\(0, 1\)"),
        (np.ones((1, 2)), np.array([[np.inf, np.nan]]), None, r"Y has observed entries .*\(0, 0\)"),
        (np.ones((1, 2)), np.array([[1.0, np.nan]]), np.ones((1, 2)), r"Y has observed entries .*\(0, 1\)"),
        (np.ones((1, 2)), np.ones((1, 2)), np.array([[0.5, 1.0]]), "mask must hold only 0 and 1"),
        (np.ones((1, 2)), scipy.sparse.eye_array(1, 2), np.ones((1, 2)), "mask must be None for a sparse"),
        (np.ones((0, 2)), np.ones((1, 2)), None, "must not be empty"),
    ],
)
@pytest.mark.parametrize("product", PRODUCTS)
def test_wrong_data_are_refused_with_a_name_and_a_place(E1, Y, mask, message, product):
    with pytest.raises(ValueError, match=message):
        MaskedLeastSquares(E1, Y, mask, product=product)


def test_data_that_are_not_real_numbers_are_refused():
    with pytest.raises(TypeError, match="E1 must hold real numbers"):
        MaskedLeastSquares(np.ones((1, 2), dtype=complex), np.ones((1, 2)))
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        MaskedLeastSquares(np.ones((1, 2)), np.ones((1, 2)), dtype=np.float16)
    with pytest.raises(ValueError, match="product must be one of"):
        MaskedLeastSquares(np.ones((1, 2)), np.ones((1, 2)), product="grams")


def test_only_the_target_may_be_masked_and_only_without_another_mask():
    whole, masked = np.ones((1, 2)), np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]])
    with pytest.raises(ValueError, match=r"E1 has masked entries.*E1\.filled\(0\)"):
        MaskedLeastSquares(masked, whole)
    with pytest.raises(ValueError, match=r"mask has masked entries.*mask\.filled\(0\)"):
        MaskedLeastSquares(whole, whole, masked)
    with pytest.raises(ValueError, match="mask must be None for a masked array Y"):
        MaskedLeastSquares(whole, masked, whole)
    single = MaskedLeastSquares(whole.astype(np.float32), masked.astype(np.float32))
    assert (single.template().dtype, single.observed) == (np.float32, 1)


# -- precision, backends, choice --------------------------------------------------------------------------


@pytest.mark.parametrize("product", PRODUCTS)
def test_single_precision_is_kept(product):
    E1, Y, mask = data(20, 20, 100)
    X = np.random.default_rng(1).standard_normal((20, 20))
    f = MaskedLeastSquares(E1.astype(np.float32), Y.astype(np.float32), mask, product=product)
    grad = f.grad(X.astype(np.float32))
    assert grad.dtype == np.float32
    np.testing.assert_allclose(grad, literal(E1, Y, mask, X)[1], atol=1e-4)
    squares = np.square(Y[mask].astype(np.float32).astype(float))  # summed in double precision
    at_zero = f.value(np.zeros_like(X, dtype=np.float32))
    assert at_zero == pytest.approx(0.5 * squares.sum() / E1.shape[1], rel=1e-14)
    assert MaskedLeastSquares(E1.astype(np.float32), Y, mask, product=product).template().dtype == np.float64
    single = MaskedLeastSquares(E1, Y, mask, product=product, dtype="float32")
    assert single.template().dtype == np.float32


def test_torch_has_the_dense_product():
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, Y, mask = data()
    X = np.random.default_rng(1).standard_normal((4, 5))
    value, grad = literal(E1, Y, mask, X)
    arrays = [torch.from_numpy(a) for a in (E1, np.where(mask, Y, np.nan), mask)]
    for f in (MaskedLeastSquares(arrays[0], arrays[1]), MaskedLeastSquares(*arrays)):
        assert f.product == "dense"
        np.testing.assert_allclose(f.grad(torch.from_numpy(X)).numpy(), grad, atol=1e-13)
        assert f.value(torch.from_numpy(X)) == pytest.approx(value)
    with pytest.raises(ValueError, match="product 'gram' is for NumPy arrays"):
        MaskedLeastSquares(*arrays, product="gram")
    with pytest.raises(TypeError, match="arrays of one library"):
        MaskedLeastSquares(arrays[0], Y)


@pytest.mark.parametrize("kind", ["float64", "int64", "bool"])
def test_a_torch_mask_holds_zeros_and_ones_and_no_weights(kind):
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, Y, mask = data()
    arrays = torch.from_numpy(E1), torch.from_numpy(Y)
    given = torch.from_numpy(mask).to(getattr(torch, kind))
    assert MaskedLeastSquares(*arrays, given).observed == mask.sum()
    for wrong in (0.5, 2.0, -1.0, float("nan")):
        weights = torch.from_numpy(mask.astype(float))
        weights[0, 0] = wrong
        with pytest.raises(ValueError, match="mask must hold only 0 and 1"):
            MaskedLeastSquares(*arrays, weights)


@pytest.mark.parametrize(
    ("rate", "passes", "expected"),
    [(0.1, 200, "gram"), (0.5, 200, "gram"), (0.002, 200, "observed"), (0.3, 1, "dense"), (1.0, 1, "gram")],
)
def test_the_rule_takes_the_product_that_is_cheapest_for_the_density(rate, passes, expected):
    E1, Y, mask = data(100, 100, 2000, rate)
    assert products.choose(Observations(E1, Y, mask), passes) == expected


def test_the_rule_keeps_to_the_memory_that_it_may_take(monkeypatch):
    observations = Observations(*data(50, 50, 400, 0.5))
    assert products.choose(observations) == "gram"
    monkeypatch.setattr(products, "GRAM_BYTES", 1000)
    assert products.choose(observations) == "dense"


# -- the nuclear norm -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(30, 30), (40, 30), (30, 40), (6, 6)])
@pytest.mark.parametrize("rank", [0, 3, None])
@pytest.mark.parametrize("complete", [False, True])
def test_the_subgradient_satisfies_its_definition(shape, rank, complete):
    rng = np.random.default_rng(2)
    rank = min(shape) if rank is None else rank
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    g = PolarNuclearNorm(0.7, complete=complete)
    value, u, unique = g.linearise(X)
    assert value == pytest.approx(0.7 * np.linalg.norm(X, "nuc"), abs=1e-12)
    assert g.value(X) == pytest.approx(value, abs=1e-12)
    assert unique == (rank == min(shape))
    for _ in range(20):
        Z = X + rng.standard_normal(shape)
        assert g.value(Z) >= value + np.vdot(u, Z - X) - 1e-10
    if rank == 0:
        np.testing.assert_allclose(u, 0.7 * np.eye(*shape) if complete else np.zeros(shape), atol=1e-15)


def test_numpy_arrays_are_not_mixed_with_those_of_another_library():
    torch = pytest.importorskip("torch", reason="needs torch")
    E1, Y, mask = data()
    with pytest.raises(TypeError, match="arrays of one library"):
        MaskedLeastSquares(E1, torch.from_numpy(Y))
    with pytest.raises(TypeError, match="arrays of one library"):
        MaskedLeastSquares(E1, Y, torch.from_numpy(mask))
