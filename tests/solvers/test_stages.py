"""The stages of the default method: steps on phi that need no split, before DC-FW goes on."""

import numpy as np
import pytest
import scipy.sparse as sp

import dcfw
from dcfw import functions, kernels, sets
from dcfw.solvers import ball, coordinates

native = pytest.mark.skipif(kernels.native is None, reason="needs the compiled kernels")


def indefinite(seed, n, diagonal=0.5):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((n, n))
    A = (R + R.T) / np.sqrt(8.0 * n) + diagonal * np.eye(n)
    return functions.Quadratic(A, rng.standard_normal(n) / np.sqrt(n)), rng.dirichlet(np.ones(n))


def gap(phi, domain, x):
    G = phi.grad(x)
    return float(np.vdot(G, x - domain.lmo(G)))


@native
@pytest.mark.parametrize("radius", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_pairwise_steps_on_a_small_simplex_end_at_a_stationary_point(seed, radius):
    phi, x0 = indefinite(seed, 40)
    domain = sets.Simplex(40, radius=radius)
    assert coordinates.applies(phi, domain, x0)
    res = dcfw.minimize(phi, domain, radius * x0)
    assert res.success
    assert res.nit < 20
    assert gap(phi, domain, res.x) <= res.threshold * (1.0 + 1e-6)
    assert res.fun == pytest.approx(phi.value(res.x), abs=1e-12)
    assert np.all(np.diff(res.history["fun"]) <= 1e-12)
    np.testing.assert_allclose(res.active_set.point(), res.x, atol=1e-12)


def test_the_data_of_a_function_with_another_gradient_are_not_used():
    class Doubled(functions.Quadratic):
        def grad(self, x):
            return 2.0 * super().grad(x)

    phi, x0 = indefinite(0, 10)
    assert not coordinates.applies(Doubled(phi.A, phi.b), sets.Simplex(10), x0)
    assert not coordinates.applies(phi, sets.Simplex(10), x0.astype(np.float32))


@pytest.mark.parametrize("make", [sets.Simplex, lambda n: sets.L1Ball(n, radius=2.0)])
def test_runners_up_are_the_next_best_vertices(make):
    rng = np.random.default_rng(0)
    domain, G = make(50), rng.standard_normal(50)
    oracle = domain.oracle()
    found = [oracle(G), *oracle.runners_up(G, 7)]
    scores = [atom.inner(G) for atom in found]
    assert scores == sorted(scores)
    assert len({atom.key for atom in found}) == 8
    best = np.sort(G if isinstance(domain, sets.Simplex) else -2.0 * np.abs(G))[:8]
    np.testing.assert_allclose(scores, best)


def test_columns_that_are_computed_together_are_those_of_the_gram_matrix():
    rng = np.random.default_rng(0)
    f = functions.LeastSquares(rng.standard_normal((20, 30)), rng.standard_normal(20))
    domain = sets.L1Ball(30, radius=1.5)
    atoms = domain.oracle().runners_up(rng.standard_normal(30), 5)
    fresh = functions.LeastSquares(f.A, f.b)
    assert f.prefetch(atoms)
    for atom in atoms:
        np.testing.assert_allclose(f.grad_at(atom), fresh.grad(atom.dense()), atol=1e-12)


@pytest.mark.parametrize("size", [600, 900])
def test_many_vertices_enter_an_active_set_at_a_time(size):
    phi, x0 = indefinite(1, size)
    res = dcfw.minimize(phi, sets.Simplex(size), x0)
    assert res.success
    assert np.count_nonzero(res.x) > 2 * res.n_lmo


def saddle(n=12):
    rng = np.random.default_rng(3)
    B = rng.standard_normal((60, n))

    def value(w):
        return float(np.tanh(1.0 - B @ w).mean())

    def grad(w):
        return -((1.0 - np.tanh(1.0 - B @ w) ** 2) @ B) / len(B)

    return value, grad


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("radius", [0.5, 4.0])
def test_sliding_steps_on_a_ball_end_at_a_stationary_point_in_any_units(radius, scale):
    value, grad = saddle()
    domain = sets.L2Ball(12, radius=radius)
    assert ball.applies(domain)
    phi = functions.Smooth(lambda w: scale * value(w), lambda w: scale * grad(w))
    res = dcfw.minimize(phi, domain, np.zeros(12))
    assert res.success
    assert gap(phi, domain, res.x) <= res.threshold * (1.0 + 1e-6)
    assert res.fun == pytest.approx(scale * value(res.x))
    assert res.n_fun < 3 * res.nit + 5  # a step takes little more than one look at phi


def test_a_smooth_difference_on_a_ball_is_certified_by_its_own_split():
    B = np.random.default_rng(0).standard_normal((50, 6))

    def soft(shift):
        return functions.Smooth(
            lambda w: float(np.logaddexp(0.0, shift - B @ w).mean()),
            lambda w: -(1.0 / (1.0 + np.exp(B @ w - shift))) @ B / len(B),
            convex=True,
        )

    phi, domain = soft(1.0) - soft(0.0), sets.L2Ball(6, radius=2.0)
    res = dcfw.minimize(phi, domain)
    assert res.success
    assert res.split == "given"
    assert 0.0 <= res.dc_gap[0] <= res.dc_gap[1] < np.inf
    assert res.n_grad_g > 0


@native
def test_a_sparse_quadratic_on_a_small_simplex_takes_the_same_steps_as_a_dense_one():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, 7))
    A, b = A + A.T, rng.standard_normal(7)
    dense, sparse = (dcfw.minimize(functions.Quadratic(M, b), sets.Simplex(7)) for M in (A, sp.csr_array(A)))
    assert sparse.nit == dense.nit
    np.testing.assert_allclose(sparse.x, dense.x, rtol=0.0, atol=1e-12)
