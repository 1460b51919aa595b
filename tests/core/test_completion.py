"""Completion with factors: the same answers as with a dense matrix, and what a result offers."""

from __future__ import annotations

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets
from dcfw.functions.penalties import as_composite
from dcfw.sets.lanczos import sparse_lowest_vector, sparse_singular_pair
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


@pytest.mark.parametrize("careful", [False, True])
def test_the_error_of_the_lowest_vector_bounds_what_it_misses(careful):
    from scipy.sparse import random_array

    for seed in range(8):
        G = random_array((40, 40), density=0.1, rng=np.random.default_rng(seed)).toarray() - 0.1 * seed
        lowest = np.linalg.eigvalsh(0.5 * (G + G.T))[0]
        for rough in (1e-1, 1e-3, 1e-8):
            v, error = sparse_lowest_vector(G, None, np.inf, rough, careful)
            found = float(v @ (G @ v))
            assert found >= lowest - 1e-10 >= found - error - 2e-10


def test_careful_lanczos_escapes_a_guess_that_is_a_lower_singular_vector():
    values = np.concatenate([[1.0, 0.999, 0.998], np.linspace(0.9, 0.1, 97)])
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((100, 100)))[0]
    G = (Q * values) @ Q.T
    u, v, error = sparse_singular_pair(G, Q[:, 1], 1e-5, 1e-3, careful=True)
    assert float(u @ (G @ v)) + error >= 1.0


PENALTIES = [
    functions.MCP(3.0, 2.0, spectral=True),
    functions.SCAD(3.0, 3.7, spectral=True),
    functions.CappedL1(3.0, 5.0, spectral=True),
    functions.L1MinusL2(3.0, spectral=True),
    0.5 * functions.MCP(3.0, 2.0, spectral=True),
    functions.NuclearNorm(3.0),
]


def penalised(seed=0):
    X, rows, cols = data(seed=seed)
    noise = 0.3 * np.random.default_rng(seed).standard_normal(len(rows))
    return functions.Observed(rows, cols, X[rows, cols] + noise, X.shape), X


def dense_gap(loss, penalty, res, radius):
    """Return the Frank-Wolfe gap at the result over the epigraph, from dense matrices."""
    X = res.x.toarray()
    composite = as_composite(loss + penalty)
    G = loss.grad(X) - composite.g.grad(X)
    lam, top = composite.norm.scale, np.linalg.svd(G, compute_uv=False)[0]
    return float(np.vdot(G, X)) + lam * res.factors[1].sum() + radius * max(top - lam, 0.0)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("limit", [None, 7, 30])
def test_penalties_on_singular_values_keep_the_factors(penalty, limit):
    loss, X = penalised()
    ball = sets.NuclearBall(X.shape, radius=100.0)
    res = dcfw.minimize(loss + penalty, ball, rtol=1e-3, max_lmo=limit)
    assert res.success == (limit is None)
    dense = (loss + penalty).value(res.x.toarray())
    assert res.fun == pytest.approx(dense, rel=1e-9)
    assert res.gap >= (1.0 - 1e-9) * dense_gap(loss, penalty, res, 100.0)
    assert res.dc_gap[0] <= res.dc_gap[1]
    if limit is None:
        assert np.sqrt(np.mean((res.x.toarray() - X) ** 2)) < 0.5
        assert res.gap <= res.threshold


def test_a_penalty_is_solved_at_least_as_well_as_with_dense_matrices():
    loss, X = penalised(1)
    smooth = functions.Smooth(loss.value, loss.grad, convex=True, lipschitz=1.0)
    ball = sets.NuclearBall(X.shape, radius=100.0)
    for penalty in PENALTIES[:2]:
        ours = dcfw.minimize(loss + penalty, ball, rtol=1e-4)
        dense = dcfw.minimize(smooth + penalty, ball, rtol=1e-4, max_lmo=1000)
        assert ours.fun <= dense.fun + 1e-3 * abs(dense.fun)


def test_a_penalised_matrix_is_better_than_a_shrunk_one():
    loss, X = penalised(2)
    ball = sets.NuclearBall(X.shape, radius=100.0)
    errors = []
    for penalty in (functions.MCP(3.0, 2.0, spectral=True), functions.NuclearNorm(3.0)):
        res = dcfw.minimize(loss + penalty, ball, rtol=1e-3)
        errors.append(np.linalg.norm(res.x.toarray() - X))
    assert errors[0] < 0.7 * errors[1]


def symmetric_data(n=20, seed=0):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((n, 2))
    Z = B @ B.T * (10.0 / np.sum(B * B))
    rows, cols = np.nonzero(rng.random((n, n)) < 0.4)
    values = Z[rows, cols] + 0.01 * rng.standard_normal(len(rows))
    return functions.Observed(rows, cols, values, (n, n)), Z


def test_a_spectraplex_has_factors_too():
    loss, Z = symmetric_data()
    domain = sets.Spectraplex(20, radius=10.0)
    res = dcfw.minimize(loss, domain, rtol=1e-4)
    places = np.zeros((len(loss.places), 400))
    places[np.arange(len(loss.places)), loss.places.rows * 20 + loss.places.cols] = 1.0
    dense = dcfw.minimize(functions.LeastSquares(places, loss.entries.y), domain, rtol=1e-4)
    assert res.success
    assert res.fun - res.gap <= dense.fun
    assert dense.fun - dense.gap <= res.fun
    found = res.x.toarray()
    assert domain.contains(found)
    assert np.abs(found - Z).max() < 0.1


@pytest.mark.parametrize("start", ["own", "given"])
def test_a_concave_term_over_a_spectraplex(start):
    loss, _ = symmetric_data(seed=1)
    domain, phi = sets.Spectraplex(20, radius=10.0), loss - 0.05 * functions.SquaredNorm()
    x0 = None if start == "own" else dcfw.minimize(loss, domain, rtol=1e-3).x
    assert dcfw.check(loss + functions.MCP(0.1, spectral=True), domain).ok
    res = dcfw.minimize(phi, domain, x0, rtol=1e-3)
    found = res.x.toarray()
    assert res.success
    assert res.fun == pytest.approx(phi.value(found), rel=1e-9)
    G = loss.grad(found) - 0.05 * found
    true = float(np.vdot(G, found)) - 10.0 * np.linalg.eigvalsh(0.5 * (G + G.T))[0]
    assert true <= res.gap * (1.0 + 1e-9) + 1e-9


@pytest.mark.parametrize("penalty", [None, functions.MCP(3.0, 2.0, spectral=True)])
def test_a_run_starts_from_an_earlier_matrix(penalty):
    loss, X = penalised()
    phi = loss if penalty is None else loss + penalty
    ball = sets.NuclearBall(X.shape, radius=60.0)
    first = dcfw.minimize(phi, ball, rtol=1e-2)
    for x0 in (first.x, first.x.toarray(), first.active_set):
        res = dcfw.minimize(phi, ball, x0, maxiter=0)
        assert res.fun == pytest.approx(first.fun, rel=1e-9)
        assert np.allclose(res.x.toarray(), first.x.toarray(), atol=1e-9)


@pytest.mark.parametrize(
    ("x0", "domain", "match"),
    [
        (np.zeros(4), sets.NuclearBall((30, 20)), "x0 must be a matrix of shape"),
        (np.ones((30, 20)), sets.NuclearBall((30, 20)), "its nuclear norm is"),
        (np.eye(20), sets.Spectraplex(20, radius=10.0), "its nuclear norm is"),
        (np.diag([-1.0] * 10 + [0.0] * 10), sets.Spectraplex(20, radius=10.0), "positive semidefinite"),
    ],
)
def test_starts_that_are_not_matrices_of_the_set_are_named(x0, domain, match):
    loss = penalised()[0] if domain.shape == (30, 20) else symmetric_data()[0]
    with pytest.raises(ValueError, match=match):
        dcfw.minimize(loss, domain, x0)


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


def test_steps_of_a_boosted_run_would_lose_the_singular_pairs():
    loss = functions.Observed([0], [0], [1.0], (3, 2)) + functions.MCP(0.1, spectral=True)
    with pytest.raises(ValueError, match="method must be 'auto' or 'dcfw'"):
        dcfw.minimize(loss, sets.NuclearBall((3, 2)), method="boosted")


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


def test_a_sparse_gradient_over_a_set_that_needs_entries_is_refused_with_the_remedy():
    from scipy.sparse import csr_array

    res = dcfw.minimize(lambda x: 0.0, sets.Box(0.0, 1.0, (3, 2)), jac=lambda x: csr_array(np.eye(3, 2)))
    assert res.status is dcfw.Status.BAD_ORACLE
    assert "functions.Observed over a NuclearBall" in res.message
