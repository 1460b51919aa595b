"""Completion with factors: the same answers as with a dense matrix, and what a result offers."""

from __future__ import annotations

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets
from dcfw.sets.lanczos import sparse_singular_pair
from dcfw.sets.sampled import SampledBall
from dcfw.solvers.active import ActiveLoop


def data(shape=(30, 20), rank=2, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    rows, cols = np.nonzero(rng.random(shape) < share)
    order = rng.permutation(len(rows))  # observations come in any order
    return X, rows[order], cols[order]


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_factors_give_the_value_of_the_dense_problem(loss):
    X, rows, cols = data((12, 9))
    values = np.sign(X[rows, cols]) if loss == "logistic" else X[rows, cols]
    phi = functions.Observed(rows, cols, values, X.shape, loss, delta=0.5)
    ball = sets.NuclearBall(X.shape, radius=8.0)
    ours = dcfw.minimize(phi, ball, tol=0.1)
    dense = dcfw.minimize(functions.Smooth(phi.value, phi.grad, convex=True), ball, tol=0.1, max_lmo=300)
    assert ours.success
    assert ours.fun - ours.gap <= dense.fun
    assert dense.fun - dense.gap <= ours.fun
    U, s, V = ours.factors
    assert ours.fun == pytest.approx(phi.value((U * s) @ V.T), rel=1e-9)
    assert s.sum() <= 8.0 * (1.0 + 1e-9)
    assert np.allclose(U.T @ U, np.eye(len(s)))
    assert np.allclose(ours.predict(rows, cols), ours.x.toarray()[rows, cols])
    assert "Lanczos" in ours.conditional


def test_merged_atoms_keep_their_factors():
    X, rows, cols = data(rank=6, share=0.9)
    phi = functions.Observed(rows, cols, X[rows, cols], X.shape)
    loop = ActiveLoop("away", cap=8)
    ball = SampledBall(sets.NuclearBall(X.shape, radius=30.0), phi.places)
    res = dcfw.minimize(phi.entries, ball, inner=loop, tol=1e-2, max_lmo=60)
    U, s, V = ball.factors(res.active_set)
    assert len(res.active_set) <= 8 < len(s) + 4
    assert np.allclose(ball.places.of(U * s, V), res.x, atol=1e-8)


def test_the_error_of_the_sparse_oracle_bounds_what_it_misses():
    from scipy.sparse import random_array

    for seed in range(8):
        G = random_array((60, 40), density=0.1, rng=np.random.default_rng(seed), format="csr")
        largest = np.linalg.svd(G.toarray(), compute_uv=False)[0]
        for rough in (1e-1, 1e-3, 1e-8):
            u, v, error = sparse_singular_pair(G, None, np.inf, rough)
            found = float(u @ (G @ v))
            assert found <= largest * (1 + 1e-12) <= found + error + 1e-12
            assert error <= 1.1 * rough * largest


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"rows": np.array([0, 9])}, ValueError, "rows must be between 0 and 2"),
        ({"rows": np.array([0.0, 1.0])}, TypeError, "rows must be a vector of integers"),
        ({"cols": np.array([0])}, ValueError, "cols must have as many entries as values, 2"),
        ({"values": np.array([0.0, np.nan])}, ValueError, "values"),
        ({"loss": "logistic"}, ValueError, "values must be -1 or 1"),
        ({"loss": "hinge"}, ValueError, "loss must be one of"),
    ],
)
def test_bad_observations_are_named(changes, error, match):
    good = {"rows": np.array([0, 1]), "cols": np.array([0, 1]), "values": np.array([1.0, 2.0])}
    with pytest.raises(error, match=match):
        functions.Observed(**{**good, **changes}, shape=(3, 2))


@pytest.mark.parametrize("option", [{"method": "fw"}, {"inner": "fw"}, {"restarts": 2}])
def test_options_that_lose_the_factors_are_refused(option):
    loss = functions.Observed([0], [0], [1.0], (3, 2))
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be"):
        dcfw.minimize(loss, sets.NuclearBall((3, 2)), **option)


def test_the_estimator_is_one_of_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn import model_selection
    from sklearn.utils import estimator_checks

    from dcfw.completion import MatrixCompletion

    X, rows, cols = data(share=0.7)
    pairs, values = np.column_stack([rows, cols]), X[rows, cols] + 3.0
    for check in ("no_attributes_set_in_init", "get_params_invariance", "set_params", "estimator_cloneable"):
        getattr(estimator_checks, f"check_{check}")("MatrixCompletion", MatrixCompletion())
    search = model_selection.GridSearchCV(MatrixCompletion(tol=1e-2), {"radius": [1.0, 40.0]}, cv=3).fit(
        pairs, values
    )
    assert search.best_params_ == {"radius": 40.0}
    assert search.best_score_ > 0.5
    beyond = search.predict([[500, 3]])
    assert beyond[0] == pytest.approx(values.mean())
    for bad, match in (([[0.5, 1]], "integers"), ([[1, 2, 3]], "two columns")):
        with pytest.raises(ValueError, match=match):
            MatrixCompletion().fit(bad, [1.0])


def test_a_sparse_gradient_over_a_set_that_needs_entries_is_told_the_remedy():
    from scipy.sparse import csr_array

    res = dcfw.minimize(lambda x: 0.0, sets.Box(0.0, 1.0, (3, 2)), jac=lambda x: csr_array(np.eye(3, 2)))
    assert res.status is dcfw.Status.BAD_ORACLE
    assert "functions.Observed over a NuclearBall" in res.message
