"""Data in single precision: where the points are in double, so is everything that a certificate rests on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import dcfw
from dcfw import functions, gaps, sets
from dcfw.sets.atoms import OneHot

RNG = np.random.default_rng(0)
X = sp.random_array((2000, 100), density=0.1, rng=np.random.default_rng(1), format="csr", dtype=np.float32)
Y = RNG.standard_normal(2000)
LABELS = np.where(Y > 0, 1.0, -1.0).astype(np.float32)
GRAM = (X.T @ X).tocsr()
B = RNG.standard_normal(100).astype(np.float32)
RIDGE = functions.Quadratic(0.1 * np.eye(100))
DENSE = X.toarray()

SINGLE = {
    "least squares": functions.LeastSquares(X, Y),
    "least squares, b too": functions.LeastSquares(X, Y.astype(np.float32)),
    "quadratic": functions.Quadratic(GRAM, B),
    "quadratic with a single b": functions.Quadratic(GRAM.astype(np.float64), B),
    "quadratic without b": functions.Quadratic(GRAM),
    "logistic": 1000.0 * functions.LogisticLoss(X, LABELS),
    "finite sum": 1000.0 * functions.FiniteSum.least_squares(X, Y),
    "finite sum, logistic": 1000.0 * functions.FiniteSum.logistic(X, LABELS),
    "double + least squares": RIDGE + functions.LeastSquares(DENSE, Y),
    "double + quadratic": RIDGE + functions.Quadratic(DENSE.T @ DENSE, B),
    "sparse + least squares": functions.Quadratic(sp.eye_array(100)) + functions.LeastSquares(DENSE, Y),
}
every_single = pytest.mark.parametrize("f", SINGLE.values(), ids=SINGLE.keys())


@every_single
@pytest.mark.parametrize("domain", [sets.Simplex(100, 20.0), sets.L1Ball(100, 5.0)], ids=repr)
@pytest.mark.parametrize("inner", ["blended", "pairwise"])
def test_the_gap_of_a_result_is_the_gap_at_its_point(f, domain, inner):
    res = dcfw.minimize(f, domain, inner=inner, maxiter=50)
    assert res.x.dtype == np.float64
    assert gaps.fw_gap(f, domain, res.x) == pytest.approx(res.gap, rel=1e-2, abs=1e-9)


@every_single
def test_the_gradient_at_a_vertex_is_in_double_precision(f):
    for index in (0, 7):
        atom = OneHot(index, 0.3, (100,))
        long_way = f.grad(atom.dense())
        assert f.grad_at(atom).dtype == np.float64
        scale = np.abs(long_way).max()
        np.testing.assert_allclose(f.grad_at(atom), long_way, rtol=0.0, atol=1e-13 * scale)


def test_a_start_in_single_precision_is_taken_to_that_of_sparse_data():
    x0 = np.full(100, 0.01, dtype=np.float32)
    f, domain = functions.LeastSquares(X, Y), sets.L1Ball(100, 5.0)
    res = dcfw.minimize(f, domain, x0=x0)
    assert res.x.dtype == np.float64
    assert gaps.fw_gap(f, domain, res.x) == pytest.approx(res.gap, rel=1e-2, abs=1e-9)
