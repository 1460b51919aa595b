"""The polar factor takes matrices of finite numbers, and refuses anything else by name."""

import numpy as np
import pytest

from dcfw.sets.polar import METHODS, polar


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d", [2, 40])
def test_lists_whole_numbers_and_every_float_have_a_factor(method, d):
    whole = np.random.default_rng(0).integers(-9, 10, (d, d))
    expected = polar(whole.astype(float), "svd")
    for G in (whole, whole.tolist(), whole.astype(np.int8), whole.astype(np.float16), whole.astype(">f8")):
        S = polar(G, method)
        assert S.dtype == np.float64
        np.testing.assert_allclose(S, expected, atol=1e-9)
    np.testing.assert_allclose(polar(whole.astype(np.longdouble), method), expected, atol=1e-9)
    assert polar(whole.astype(np.float32), method).dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(3, 3), (30, 40)])
def test_an_entry_that_is_not_finite_is_named_with_its_place_and_nothing_is_printed(method, shape, capfd):
    for wrong in (np.nan, np.inf):
        G = np.ones(shape)
        G[1, 2] = wrong
        with pytest.raises(ValueError, match=r"G has NaN or Inf entries \(the first at \(1, 2\)\)"):
            polar(G, method)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("G", "error", "said"),
    [
        ([1.0, 2.0], ValueError, r"G must have 2 dimension"),
        (np.ones((2, 2, 2)), ValueError, r"G must have 2 dimension"),
        ("text", TypeError, r"G must hold real numbers"),
        (np.ones((2, 2), dtype=complex), TypeError, r"G must hold real numbers"),
        ([[1.0], [1.0, 2.0]], ValueError, r"G must be a rectangular array"),
    ],
)
def test_anything_but_a_real_matrix_is_refused_by_name(G, error, said):
    with pytest.raises(error, match=said):
        polar(G)


def test_torch_takes_whole_numbers_and_names_entries_that_are_not_finite():
    torch = pytest.importorskip("torch", reason="needs torch")
    np.testing.assert_allclose(polar(torch.tensor([[0, 2], [1, 0]])).numpy(), [[0, 1], [1, 0]], atol=1e-12)
    with pytest.raises(ValueError, match="G has NaN or Inf"):
        polar(torch.full((2, 2), float("nan")))
