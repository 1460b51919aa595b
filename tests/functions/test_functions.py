"""Functions: gradients against finite differences, and every shortcut against the long way round."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dcfw
from dcfw import functions, sets, splits
from dcfw.functions.base import Linearisation
from dcfw.functions.sums import Scaled, Sum
from dcfw.sets.atoms import Dense, OneHot, Permutation, RankOne

N = 6
RNG = np.random.default_rng(5)
SKEWED = RNG.standard_normal((N, N))  # neither symmetric nor definite
PSD = SKEWED @ SKEWED.T
B = RNG.standard_normal(N)
TALL = RNG.standard_normal((9, N))
RHS = RNG.standard_normal(9)
LABELS = np.where(RHS > 0, 1.0, -1.0)
SPARSE = sp.random_array((N, N), density=0.4, rng=np.random.default_rng(2), format="coo")


def smooth_phi() -> functions.Smooth:
    return functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=1.0)


SMOOTH = {
    "quadratic": functions.Quadratic(SKEWED, B, 2.0),
    "quadratic without b": functions.Quadratic(PSD),
    "sparse quadratic": functions.Quadratic(SPARSE, B),
    "sparse quadratic, lil": functions.Quadratic(SPARSE.tolil()),
    "operator quadratic": functions.Quadratic(aslinearoperator(SKEWED), B, -1.0),
    "least squares": functions.LeastSquares(TALL, RHS),
    "sparse least squares": functions.LeastSquares(sp.csr_array(np.where(TALL > 0, TALL, 0.0)), RHS),
    "operator least squares": functions.LeastSquares(aslinearoperator(TALL), RHS),
    "squared norm": functions.SquaredNorm(1.7),
    "zero": functions.Zero(),
    "log-sum-exp": functions.LogSumExp(TALL, RHS, temperature=0.5),
    "log-sum-exp of x": functions.LogSumExp(),
    "logistic": functions.LogisticLoss(TALL, LABELS),
    "sparse logistic": functions.LogisticLoss(sp.csr_array(TALL), LABELS),
    "smooth": smooth_phi(),
    "sum": functions.Quadratic(SKEWED, B) + functions.SquaredNorm(0.3) + functions.LogSumExp(),
    "affine sum": functions.Quadratic(SKEWED, B, 1.0) + functions.LeastSquares(TALL, RHS),
    "multiple": 2.5 * functions.Quadratic(SKEWED, B, 1.0),
    "negative": -functions.Quadratic(SKEWED, B, 1.0),
    "zero multiple": 0.0 * functions.Quadratic(SKEWED, B, 1.0),
    "dc": functions.Quadratic(PSD, B) - functions.SquaredNorm(0.5),
    "dc - g": functions.Quadratic(PSD, B) - functions.SquaredNorm(0.5) - functions.LogSumExp(),
    "dc + f": functions.Quadratic(PSD, B) - functions.SquaredNorm(0.5) + functions.LogSumExp(),
    "-2 dc": -2 * (functions.Quadratic(PSD, B) - functions.LogSumExp()),
    "sliding f": splits.sliding(smooth_phi()).f,
    "sliding g": splits.sliding(smooth_phi()).g,
    "sliding g of dc": splits.sliding(functions.Quadratic(PSD) - functions.LogSumExp()).g,
    "sliding phi": splits.sliding(functions.Quadratic(SKEWED, B)),
    "proximal f": splits.proximal(functions.Quadratic(SKEWED, B)).f,
    "proximal f, smooth": splits.proximal(smooth_phi(), L=2.0).f,
    "proximal phi": splits.proximal(smooth_phi(), L=2.0),
    "strengthened f": splits.strengthen(functions.Quadratic(PSD) - functions.LogSumExp(), 0.7).f,
    "strengthened g": splits.strengthen(functions.Quadratic(PSD) - functions.LogSumExp(), 0.7).g,
    "strengthened phi": splits.strengthen(functions.Quadratic(PSD) - functions.LogSumExp(), 0.7),
}
every_smooth = pytest.mark.parametrize("f", SMOOTH.values(), ids=SMOOTH.keys())

NONSMOOTH = {
    "l1": (functions.L1Norm(1.5), (N,)),
    "l2": (functions.L2Norm(0.7), (N,)),
    "nuclear": (functions.NuclearNorm(2.0), (3, 4)),
    "nuclear, complete": (functions.NuclearNorm(complete=True), (3, 4)),
    "maximum": (functions.Convex(np.max, lambda x: (x == x.max()) / (x == x.max()).sum()), (N,)),
    "l1 + quadratic": (functions.L1Norm() + functions.SquaredNorm(2.0), (N,)),
    "multiple": (3 * functions.L1Norm(), (N,)),
    "sliding g of p - q": (
        splits.sliding(functions.Quadratic(PSD) - functions.L1Norm()).g,
        (N,),
    ),
    "proximal g of p - q": (splits.proximal(functions.Quadratic(SKEWED, B) - functions.L1Norm()).g, (N,)),
    "weakly concave, slid": (
        splits.sliding(
            functions.WeaklyConcave(lambda x: min(x @ x, 1.0), lambda x: 2.0 * x * (x @ x < 1.0), modulus=2.0)
        ).g,
        (N,),
    ),
}
every_nonsmooth = pytest.mark.parametrize(("g", "shape"), NONSMOOTH.values(), ids=NONSMOOTH.keys())


def points(count: int = 4, shape: tuple[int, ...] = (N,)) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape) for _ in range(count)]


def numerical_gradient(f: functions.Function, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    grad = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[i] = h
        grad[i] = (f.value(x + e) - f.value(x - e)) / (2 * h)
    return grad


@every_smooth
def test_gradients_agree_with_finite_differences(f):
    for x in points():
        np.testing.assert_allclose(f.grad(x), numerical_gradient(f, x), rtol=1e-6, atol=1e-6)


@every_smooth
def test_the_gradient_at_an_atom_is_the_gradient_at_its_dense_form(f):
    atoms = [OneHot(2, -1.5, (N,)), OneHot(0, 2.0, (N,)), OneHot(2, 0.5, (N,)), Dense(B)]
    for atom in atoms:
        np.testing.assert_allclose(f.grad_at(atom), f.grad(atom.dense()), rtol=1e-12, atol=1e-12)


@every_smooth
def test_linearise_is_value_and_gradient(f):
    for x in points():
        value, slope, unique = f.linearise(x)
        assert value == pytest.approx(f.value(x), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(slope, f.grad(x), rtol=1e-12, atol=1e-12)
        assert unique


@every_smooth
def test_the_value_from_the_gradient_is_the_value(f):
    for x in points():
        value = f.value_from_grad(x, f.grad(x))
        if value is not None:
            assert value == pytest.approx(f.value(x), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("name", [name for name, f in SMOOTH.items() if f.affine_grad])
def test_an_affine_gradient_commutes_with_convex_combinations(name):
    f = SMOOTH[name]
    x, y = points(2)
    expected = 0.3 * f.grad(x) + 0.7 * f.grad(y)
    np.testing.assert_allclose(f.grad(0.3 * x + 0.7 * y), expected, rtol=1e-10, atol=1e-10)
    if not isinstance(f, functions.DC):
        assert f.value_from_grad(x, f.grad(x)) is not None or "sliding g" in name


@pytest.mark.parametrize("name", [name for name, f in SMOOTH.items() if f.lipschitz is not None])
def test_the_lipschitz_constant_bounds_the_change_of_the_gradient(name):
    f = SMOOTH[name]
    many = points(12)
    for x in many:
        for y in many:
            change = np.linalg.norm(f.grad(x) - f.grad(y))
            assert change <= f.lipschitz * np.linalg.norm(x - y) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("name", [name for name, f in SMOOTH.items() if f.weak_convexity is not None])
def test_adding_the_weak_convexity_modulus_makes_it_convex(name):
    f, rho = SMOOTH[name], SMOOTH[name].weak_convexity
    many = points(12)
    for x in many:
        for y in many:
            monotone = (f.grad(x) - f.grad(y)) @ (x - y) + rho * np.dot(x - y, x - y)
            assert monotone >= -1e-9


@pytest.mark.parametrize("name", [name for name, f in SMOOTH.items() if f.convex])
def test_what_is_declared_convex_lies_above_its_tangents(name):
    f = SMOOTH[name]
    for x in points():
        for y in points(6):
            assert f.value(y) >= f.value(x) + f.grad(x) @ (y - x) - 1e-9 * (1 + abs(f.value(x)))


@every_nonsmooth
def test_subgradients_satisfy_the_inequality(g, shape):
    special = [np.zeros(shape), np.ones(shape), np.eye(*shape) if len(shape) == 2 else np.eye(N)[0]]
    many = points(6, shape) + special
    for x in many:
        value, slope, _ = g.linearise(x)
        assert slope.shape == shape
        assert value == pytest.approx(g.value(x), abs=1e-9)
        np.testing.assert_allclose(slope, g.grad(x), atol=1e-9)
        for y in many:
            assert g.value(y) >= value + float(np.vdot(slope, y - x)) - 1e-9


@every_nonsmooth
def test_nonsmooth_functions_say_so(g, shape):
    assert not g.differentiable


def test_kinks_are_recognised_and_smooth_points_too():
    assert functions.L1Norm().linearise(np.array([1.0, -2.0])).unique
    assert not functions.L1Norm().linearise(np.array([1.0, 0.0])).unique
    assert functions.L2Norm().linearise(np.array([1.0, 0.0])).unique
    assert not functions.L2Norm().linearise(np.zeros(2)).unique
    assert functions.NuclearNorm().linearise(np.diag([1.0, 2.0])).unique
    assert not functions.NuclearNorm().linearise(np.diag([1.0, 0.0])).unique
    mixed = functions.L1Norm() + functions.SquaredNorm()
    assert not mixed.linearise(np.zeros(2)).unique


def test_the_least_nuclear_subgradient_leaves_the_null_space_alone():
    x = np.diag([2.0, 0.0])
    np.testing.assert_allclose(functions.NuclearNorm().grad(x), np.diag([1.0, 0.0]), atol=1e-12)
    complete = functions.NuclearNorm(complete=True).grad(x)
    np.testing.assert_allclose(np.abs(complete), np.eye(2), atol=1e-12)
    np.testing.assert_allclose(functions.NuclearNorm().grad(np.zeros((2, 3))), 0.0)


def test_quadratics_take_matrix_points():
    shape = (2, 3)
    f = functions.Quadratic(SKEWED, B)
    q = functions.LeastSquares(TALL, RHS)
    for function in (f, q, f + q, 2 * q):
        for x in points(2, shape):
            np.testing.assert_allclose(function.grad(x), numerical_gradient(function, x), atol=1e-5)
            flat = function.value_from_grad(x, function.grad(x))
            assert flat == pytest.approx(function.value(x))
        for atom in (OneHot(4, -2.0, shape), RankOne(np.array([0.6, 0.8]), np.eye(3)[1], 2.0)):
            np.testing.assert_allclose(function.grad_at(atom), function.grad(atom.dense()), atol=1e-12)
    square = functions.Quadratic(np.diag(np.arange(9.0)))
    permutation = Permutation(np.array([2, 0, 1]))
    np.testing.assert_allclose(square.grad_at(permutation), square.grad(permutation.dense()))


@given(st.integers(0, 10**6), st.integers(1, 7))
def test_quadratic_constants_are_the_extreme_eigenvalues_of_the_symmetric_part(seed, n):
    A = np.random.default_rng(seed).standard_normal((n, n))
    values = np.linalg.eigvalsh(0.5 * (A + A.T))
    for data in (A, sp.csr_array(A), aslinearoperator(A)):
        f = functions.Quadratic(data)
        assert f.lipschitz == pytest.approx(np.abs(values).max())
        assert f.weak_convexity == pytest.approx(max(-values[0], 0.0), abs=1e-12)


def test_large_quadratics_get_their_constants_from_lanczos():
    n = 1500
    diagonal = np.linspace(-3.0, 5.0, n)
    sparse = functions.Quadratic(sp.diags_array(diagonal))
    operator = functions.Quadratic(
        LinearOperator((n, n), matvec=lambda v: diagonal * v, rmatvec=lambda v: diagonal * v)
    )
    for f in (sparse, operator):
        assert 5.0 <= f.lipschitz <= 5.0 * (1 + 1e-5)
        assert 3.0 <= f.weak_convexity <= 3.0 * (1 + 1e-5)
    tall = sp.diags_array(diagonal)
    assert 25.0 <= functions.LeastSquares(tall, diagonal).lipschitz <= 25.0 * (1 + 1e-5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_constants_of_a_large_quadratic_come_soon_though_eigenvalues_crowd_at_zero(sign):
    n = 1300
    diagonal, products = sign * np.logspace(-14.0, 0.0, n), []

    def product(v):
        products.append(1)
        return diagonal * v

    f = functions.Quadratic(LinearOperator((n, n), matvec=product, rmatvec=product))
    assert 1.0 <= f.lipschitz <= 1.0 + 1e-6
    assert max(-diagonal.min(), 0.0) <= f.weak_convexity <= max(-diagonal.min(), 0.0) + 1e-3
    assert len(products) < 5000


@pytest.mark.parametrize(
    "diagonal",
    [
        np.cos(np.linspace(0.0, np.pi, 2000)),  # crowds at both ends
        np.append(np.linspace(0.0, 1.0, 2000) ** 4, -1e-3),
        np.ones(1300),
        np.zeros(1300),
        1e-200 * np.linspace(-1.0, 0.5, 1300),
        1e200 * np.linspace(-1.0, 0.5, 1300),
    ],
    ids=["both ends", "one below a crowd", "identity", "zero", "tiny", "huge"],
)
def test_the_constants_of_a_large_quadratic_are_upper_bounds_and_near(diagonal):
    f, size = functions.Quadratic(sp.diags_array(diagonal)), np.abs(diagonal).max()
    assert size <= f.lipschitz <= size * (1.0 + 2e-3)
    lowest = max(-diagonal.min(), 0.0)
    assert lowest <= f.weak_convexity <= lowest + 2e-3 * size


def test_without_an_answer_of_arpacks_the_constants_are_still_upper_bounds(monkeypatch):
    from dcfw.functions import spectrum

    monkeypatch.setattr(spectrum, "_largest", lambda *arguments: None)
    f = functions.Quadratic(sp.diags_array(np.linspace(-3.0, 5.0, 1500)))
    assert 5.0 <= f.lipschitz <= 10.0
    assert 3.0 <= f.weak_convexity <= 8.0


def test_a_kernel_matrix_of_many_points_can_be_minimised_with_short_steps():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1300, 2))
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))
    phi = functions.Quadratic(K, rng.standard_normal(1300))
    res = dcfw.minimize(phi, sets.Simplex(1300), step="short", max_lmo=20)
    assert res.status is dcfw.Status.MAX_LMO


def test_a_semidefinite_quadratic_is_convex_in_spite_of_rounding():
    A = TALL.T @ TALL
    A = A[:, :1] @ A[:, :1].T  # rank one: zero eigenvalues come out at +-1e-16
    assert functions.Quadratic(A).weak_convexity == 0.0
    assert splits.choose(functions.Quadratic(A)).name == "convex (g = 0)"


def test_least_squares_knows_its_constant():
    truth = np.linalg.norm(TALL, 2) ** 2
    for data in (TALL, sp.csr_array(TALL), aslinearoperator(TALL)):
        assert functions.LeastSquares(data, RHS).lipschitz == pytest.approx(truth)
        assert functions.LeastSquares(data.T, B).lipschitz == pytest.approx(truth)


def test_the_memory_of_least_squares_is_bounded(monkeypatch):
    from dcfw.functions import quadratic

    monkeypatch.setattr(quadratic, "CACHE_BYTES", 3 * 8 * N)
    f = functions.LeastSquares(TALL, RHS)
    for index in (0, 1, 2, 3, 4, 0):
        atom = OneHot(index, 1.0, (N,))
        np.testing.assert_allclose(f.grad_at(atom), f.grad(atom.dense()))
        assert len(f._columns) <= 3


@pytest.mark.parametrize("shape", [(N, 1), (1, N), (2, 3)])
@pytest.mark.parametrize(
    "f",
    [
        functions.LogisticLoss(TALL, LABELS),
        functions.LogisticLoss(sp.csr_array(TALL), LABELS),
        functions.LogSumExp(TALL, RHS),
        functions.LogSumExp(None, B),
        functions.LogSumExp(None, B.reshape(3, 2)),
        functions.LeastSquares(TALL, RHS),
        functions.Quadratic(PSD, B),
        functions.FiniteSum.least_squares(TALL, RHS),
        functions.FiniteSum.logistic(sp.csr_array(TALL), LABELS),
    ],
    ids=repr,
)
def test_points_of_any_shape_are_taken_as_vectors(f, shape):
    for x in points():
        flat = x.reshape(f.b.shape) if getattr(f, "A", 0) is None else x
        assert f.value(x.reshape(shape)) == pytest.approx(f.value(flat), rel=1e-14)
        grad = f.grad(x.reshape(shape))
        assert grad.shape == shape
        np.testing.assert_allclose(grad.ravel(), f.grad(flat).ravel(), rtol=1e-14)


def test_a_loss_of_vectors_is_minimised_over_a_set_of_matrices():
    loss = functions.LogisticLoss(TALL, LABELS)
    flat, square = (dcfw.minimize(loss, sets.L2Ball(shape)) for shape in (N, (2, 3)))
    assert flat.success
    assert square.success
    np.testing.assert_allclose(square.x.ravel(), flat.x, atol=1e-4)


def test_sparse_duplicates_are_summed():
    A = sp.csr_array(([1.0, 2.0, 5.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    f = functions.Quadratic(A)
    np.testing.assert_allclose(f.grad_at(OneHot(0, 1.0, (2,))), [3.0, 0.0])
    assert A.nnz == 3  # the user's own matrix is left alone


def test_large_arguments_do_not_overflow():
    x = np.array([1e3, -1e3])
    loss = functions.LogisticLoss(np.eye(2), np.array([-1, 1]))
    assert loss.value(x) == pytest.approx(1e3)
    assert np.isfinite(loss.grad(x)).all()
    assert functions.LogSumExp().value(x) == pytest.approx(1e3)
    assert np.isfinite(functions.LogSumExp(temperature=1e-3).grad(x)).all()


def test_a_sum_can_be_reused_for_another_shape_and_dtype():
    f = functions.SquaredNorm(1.0) + functions.SquaredNorm(2.0)
    for x in (np.ones(2), np.ones(5), np.ones((2, 2)), np.ones(5, dtype=np.float32)):
        assert f.value_from_grad(x, f.grad(x)) == pytest.approx(f.value(x))


def test_arithmetic_is_that_of_paper():
    f, g, h = functions.Quadratic(PSD), functions.L1Norm(), functions.SquaredNorm(2.0)
    x, y = points(2)
    for left, right in (
        (f - g - h, f.value(x) - g.value(x) - h.value(x)),
        (f - (f - h), h.value(x)),
        (h + (f - g), h.value(x) + f.value(x) - g.value(x)),
        ((f - g) + h, h.value(x) + f.value(x) - g.value(x)),
        ((f - g) + (h - g), f.value(x) + h.value(x) - 2 * g.value(x)),
        ((f - g) - (h - f), 2 * f.value(x) - g.value(x) - h.value(x)),
        (3 * (f - g), 3 * (f.value(x) - g.value(x))),
        (-(f - h), h.value(x) - f.value(x)),
        (sum([f, h]), f.value(x) + h.value(x)),
    ):
        assert left.value(x) == pytest.approx(right)
    combined = f - g - h
    assert isinstance(combined, functions.DC)
    assert combined.f is f
    assert not combined.g.differentiable
    assert combined.g.value(y) == pytest.approx(g.value(y) + h.value(y))


def test_a_dc_constant_is_that_of_the_larger_part():
    dc = functions.SquaredNorm(3.0) - functions.SquaredNorm(5.0)
    assert dc.lipschitz == 5.0
    assert dc.weak_convexity == 5.0
    assert (functions.SquaredNorm() - functions.L1Norm()).lipschitz is None


class Own:
    """A user's own class, without anything of the library's."""

    convex = True

    def value(self, x):
        return 0.5 * x @ x

    def grad(self, x):
        return x


class OwnAffine(Own):
    affine_grad = True
    lipschitz = 1.0
    weak_convexity = 0.0

    def value_from_grad(self, x, grad):
        return 0.5 * grad @ x

    def grad_at(self, atom):
        return atom.dense()

    def linearise(self, x):
        return Linearisation(self.value(x), x, True)


class OwnSubgradient:
    def value(self, x):
        return float(np.abs(x).sum())

    def subgrad(self, x):
        return np.sign(x)


def test_own_objects_become_functions_with_the_facts_they_state():
    x = points(1)[0]
    plain, affine, kinked = map(functions.as_function, (Own(), OwnAffine(), OwnSubgradient()))
    assert (plain.convex, plain.affine_grad, plain.lipschitz, plain.differentiable) == (
        True,
        False,
        None,
        True,
    )
    assert (affine.affine_grad, affine.lipschitz, affine.weak_convexity) == (True, 1.0, 0.0)
    assert not kinked.differentiable
    for f in (plain, affine):
        np.testing.assert_allclose(f.grad(x), x)
        np.testing.assert_allclose(f.grad_at(Dense(x)), x)
        assert f.linearise(x).value == pytest.approx(0.5 * x @ x)
    assert affine.value_from_grad(x, x) == pytest.approx(0.5 * x @ x)
    dc = Own() - functions.L1Norm()
    assert dc.value(x) == pytest.approx(0.5 * x @ x - np.abs(x).sum())
    assert functions.DC(Own(), OwnSubgradient()).g.grad(x) == pytest.approx(np.sign(x))
    assert (functions.SquaredNorm() + Own()).value(x) == pytest.approx(x @ x)
    assert (Own() + functions.SquaredNorm()).value(x) == pytest.approx(x @ x)


def test_autodiff_agrees_with_the_gradient_by_hand():
    torch = pytest.importorskip("torch")
    phi = functions.autodiff(lambda x: (x**4).sum() + torch.sin(x).sum(), lipschitz=20.0)
    x = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    expected = 4 * x**3 + torch.cos(x)
    torch.testing.assert_close(phi.grad(x), expected)
    value, slope, unique = phi.linearise(x)
    assert value == pytest.approx(phi.value(x))
    assert unique
    assert not slope.requires_grad
    assert not x.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(phi.grad(x), expected)
    with pytest.raises(
        TypeError, match=r"autodiff needs torch or JAX arrays, got ndarray.*functions\.Smooth"
    ):
        phi.grad(np.zeros(2))


def test_autodiff_works_with_jax():
    jnp = pytest.importorskip("jax.numpy")
    phi = functions.autodiff(lambda x: (x**2).sum())
    np.testing.assert_allclose(np.asarray(phi.grad(jnp.ones(3))), 2.0)


TORCH_CASES = {
    "quadratic": lambda a: functions.Quadratic(a(SKEWED), a(B), 1.0),
    "least squares": lambda a: functions.LeastSquares(a(TALL), a(RHS)),
    "log-sum-exp": lambda a: functions.LogSumExp(a(TALL), a(RHS)),
    "finite sum": lambda a: functions.FiniteSum.logistic(a(TALL), a(LABELS)),
    "logistic": lambda a: functions.LogisticLoss(a(TALL), a(LABELS)),
    "l1": lambda a: functions.L1Norm(),
    "l2": lambda a: functions.L2Norm(),
    "sum": lambda a: functions.Quadratic(a(PSD)) + functions.SquaredNorm(),
    "sliding": lambda a: splits.sliding(functions.Quadratic(a(SKEWED))).g,
}


@pytest.mark.parametrize("make", TORCH_CASES.values(), ids=TORCH_CASES.keys())
@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_other_backends_give_the_same_numbers(make, backend):
    xp = pytest.importorskip(backend)
    reference, f = make(np.asarray), make(xp.asarray)
    x = points(1)[0]
    y = xp.asarray(x)
    assert f.value(y) == pytest.approx(reference.value(x))
    assert type(f.grad(y)) is type(y)
    np.testing.assert_allclose(np.asarray(f.grad(y)), reference.grad(x), rtol=1e-10)
    assert f.linearise(y).value == pytest.approx(reference.linearise(x).value)
    known = f.value_from_grad(y, f.grad(y))
    assert known is None or known == pytest.approx(reference.value(x))
    if reference.lipschitz is not None:
        assert f.lipschitz == pytest.approx(reference.lipschitz)


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_matrix_functions_work_on_other_backends(backend):
    xp = pytest.importorskip(backend)
    x = points(1, (3, 2))[0]
    y = xp.asarray(x)
    for make in (
        lambda a: functions.NuclearNorm(),
        lambda a: functions.Quadratic(a(SKEWED), a(B)),
        lambda a: functions.LeastSquares(a(TALL), a(RHS)),
    ):
        f, reference = make(xp.asarray), make(np.asarray)
        np.testing.assert_allclose(np.asarray(f.grad(y)), reference.grad(x), rtol=1e-9, atol=1e-12)
        assert f.value_from_grad(y, f.grad(y)) == pytest.approx(reference.value(x))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_single_precision_stays_single(library):
    xp = pytest.importorskip(library)
    A = xp.asarray(TALL, dtype=xp.float32)
    x = xp.ones(N, dtype=xp.float32)
    for f in (
        functions.LeastSquares(A, RHS),
        functions.LogisticLoss(A, LABELS),
        functions.LogSumExp(A, RHS),
        functions.Quadratic(A.T @ A, B),
        functions.SquaredNorm() + functions.LeastSquares(A, RHS),
        functions.L1Norm(2.0),
    ):
        assert f.grad(x).dtype == xp.float32
        if library == "numpy":
            assert f.grad_at(OneHot(1, 2.0, (N,), np.float32)).dtype == np.float32


BAD = {
    "A not square": (lambda: functions.Quadratic(np.ones((2, 3))), ValueError, r"A must be square.*\(2, 3\)"),
    "A a vector": (lambda: functions.Quadratic(np.ones(3)), ValueError, r"A must have 2 dimension"),
    "A with NaN": (lambda: functions.Quadratic([[np.nan]]), ValueError, r"A has NaN or Inf.*\(0, 0\)"),
    "sparse A with Inf": (
        lambda: functions.Quadratic(sp.csr_array([[np.inf]])),
        ValueError,
        r"A has NaN or Inf",
    ),
    "sparse lil A with NaN": (
        lambda: functions.LeastSquares(sp.lil_array([[np.nan]]), [1.0]),
        ValueError,
        r"A has NaN or Inf",
    ),
    "sparse logistic A with NaN": (
        lambda: functions.LogisticLoss(sp.csr_array([[np.nan]]), [1.0]),
        ValueError,
        r"A has NaN or Inf",
    ),
    "complex A": (lambda: functions.Quadratic(np.eye(2) * 1j), TypeError, r"A must hold real numbers"),
    "complex sparse A": (
        lambda: functions.Quadratic(sp.csr_array(np.eye(2) * 1j)),
        TypeError,
        r"A must hold real numbers",
    ),
    "text A": (lambda: functions.Quadratic("matrix"), TypeError, r"A must hold real numbers"),
    "ragged A": (lambda: functions.Quadratic([[1.0], [1.0, 2.0]]), ValueError, r"A must be a rectangular"),
    "b of another size": (
        lambda: functions.Quadratic(np.eye(2), np.ones(3)),
        ValueError,
        r"b must have shape \(2,\), got \(3,\)",
    ),
    "b with NaN": (lambda: functions.LeastSquares(np.eye(2), [1.0, np.nan]), ValueError, r"b has NaN"),
    "c infinite": (lambda: functions.Quadratic(np.eye(2), c=math.inf), ValueError, r"c must be a number"),
    "negative scale": (
        lambda: functions.SquaredNorm(-1.0),
        ValueError,
        r"scale must be a number in \[0, inf\]",
    ),
    "scale not a number": (lambda: functions.L1Norm("1"), TypeError, r"scale must be a real number, got str"),
    "a bool scale": (lambda: functions.L1Norm(True), TypeError, r"scale must be a real number, got bool"),
    "labels": (lambda: functions.LogisticLoss(np.eye(2), [0, 1]), ValueError, r"y must hold the labels -1"),
    "too many labels": (
        lambda: functions.LogisticLoss(np.eye(2), [1]),
        ValueError,
        r"y must have shape \(2,\)",
    ),
    "temperature": (lambda: functions.LogSumExp(temperature=0.0), ValueError, r"temperature must be"),
    "b of log-sum-exp": (
        lambda: functions.LogSumExp(np.eye(2), np.ones(3)),
        ValueError,
        r"b must have shape \(2,\)",
    ),
    "value not callable": (lambda: functions.Smooth(1.0, abs), TypeError, r"value must be a callable"),
    "grad not callable": (lambda: functions.Smooth(abs, None), TypeError, r"grad must be a callable"),
    "subgrad not callable": (lambda: functions.Convex(abs, 3), TypeError, r"subgrad must be a callable"),
    "autodiff of a number": (lambda: functions.autodiff(3.0), TypeError, r"value must be a callable"),
    "negative lipschitz": (
        lambda: functions.Smooth(abs, abs, lipschitz=-1.0),
        ValueError,
        r"lipschitz must be a number in \[0, inf\]",
    ),
    "negative lipschitz, autodiff": (
        lambda: functions.autodiff(abs, lipschitz=-1.0),
        ValueError,
        r"lipschitz must be",
    ),
    "negative modulus": (
        lambda: functions.WeaklyConcave(abs, abs, modulus=-1.0),
        ValueError,
        r"modulus must be a number in \[0, inf\]",
    ),
    "nonsmooth f": (
        lambda: functions.L1Norm() - functions.SquaredNorm(),
        ValueError,
        r"f must be differentiable.*only g may be nonsmooth",
    ),
    "f declared not convex": (
        lambda: functions.Quadratic(np.eye(2), convex=False) - functions.SquaredNorm(),
        ValueError,
        r"f must be convex in f - g.*splits",
    ),
    "g declared not convex": (
        lambda: functions.SquaredNorm() - functions.Smooth(abs, abs, convex=False),
        ValueError,
        r"g must be convex in f - g",
    ),
    "minus a number": (
        lambda: functions.SquaredNorm() - 3.0,
        TypeError,
        r"right side of - must be a function object.*float lacks value and grad",
    ),
    "plus a callable": (
        lambda: functions.SquaredNorm() + abs,
        TypeError,
        r"right side of \+.*wrap plain callables in functions\.Smooth",
    ),
    "matrix norm of a vector": (
        lambda: functions.NuclearNorm().value(np.ones(3)),
        ValueError,
        r"x must be a matrix for NuclearNorm, got shape \(3,\)",
    ),
}


@pytest.mark.parametrize(("make", "error", "match"), BAD.values(), ids=BAD.keys())
def test_bad_data_are_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_function_times_an_array_is_refused():
    for product in (
        lambda: functions.SquaredNorm() * np.ones(2),
        lambda: np.ones(2) * functions.SquaredNorm(),
    ):
        with pytest.raises(TypeError):
            product()
    assert (np.float64(3.0) * functions.SquaredNorm()).value(np.ones(2)) == 3.0


def test_reprs_are_short_and_say_what_it_is():
    dc = 2 * functions.Quadratic(PSD) + functions.SquaredNorm() - functions.L1Norm()
    assert repr(dc) == "(2 * Quadratic(n=6) + SquaredNorm(1)) - (L1Norm(1))"
    assert "LogSumExp" in repr(functions.LogSumExp(TALL))
    assert repr(functions.LogisticLoss(TALL, LABELS)) == "LogisticLoss(m=9)"


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e100])
def test_the_subgradient_of_the_l2_norm_has_length_one_at_small_and_large_points(size):
    x = np.array([0.0, -size])
    norm = functions.L2Norm(2.0)
    np.testing.assert_array_equal(norm.grad(x), [0.0, -2.0])
    np.testing.assert_array_equal(norm.linearise(x).slope, [0.0, -2.0])


def test_the_constants_of_a_difference_hold_for_an_f_that_is_not_convex():
    f, g = functions.Quadratic(np.diag([1.0, -3.0])), functions.SquaredNorm(1.0)
    dc = f - g
    assert dc.weak_convexity == 4.0
    assert dc.lipschitz == 4.0
    made = splits.proximal(dc)
    assert made.name == "proximal(L=4)"
    assert np.linalg.eigvalsh(made.f.hessian(np.zeros(2)))[0] >= 0.0
    assert (functions.SquaredNorm(2.0) - f).lipschitz == 5.0  # the curvature of 2 - (-3)
    assert (functions.SquaredNorm(2.0) - functions.SquaredNorm(3.0)).weak_convexity == 3.0


def test_arithmetic_keeps_what_a_decomposition_rests_on():
    one = functions.DC(functions.SquaredNorm(2.0), functions.SquaredNorm(0.5), conditional="L is large")
    two = functions.DC(functions.SquaredNorm(1.0), functions.L1Norm(), conditional="g is convex")
    square, norm = functions.SquaredNorm(), functions.L1Norm(0.1)
    for dc in (one + square, square + one, one - norm, square - one, 2 * one, -2 * one):
        assert dc.conditional == "L is large"
    assert (one + two).conditional == "L is large, and g is convex"
    assert (two - one).conditional == "g is convex, and L is large"
    assert (one + one).conditional == "L is large"
    assert (square + functions.MCP(0.1) + two).conditional == "g is convex"
    assert (3 * (two + functions.MCP(0.1))).conditional == "g is convex"


def test_a_sum_with_linear_functions_stays_not_convex():
    concave = functions.Quadratic(-np.eye(2), convex=False)
    linear = functions.Quadratic(np.zeros((2, 2)), np.ones(2))
    assert (concave + linear).convex is False
    assert (functions.Zero() + concave).convex is False
    assert (concave + functions.SquaredNorm(2.0)).convex is None
    assert (concave + concave).convex is None
    assert (linear + functions.Quadratic(np.eye(2))).convex is None
    with pytest.raises(ValueError, match="f must be convex"):
        (concave + linear) - functions.L1Norm()


def test_zero_has_a_short_repr():
    assert repr(functions.SquaredNorm() - functions.Zero()) == "(SquaredNorm(1)) - (Zero())"


def test_a_subgradient_of_the_wrong_shape_is_not_broadcast_into_a_sum_or_a_split():
    wrong = functions.Smooth(lambda x: x.sum(), lambda x: np.ones(1), lipschitz=1.0, convex=True)
    for g in (
        wrong + functions.SquaredNorm(0.5),
        splits.sliding(wrong, 1.0).g,
        splits.sliding(wrong - functions.L1Norm(), 1.0).g,
    ):
        with pytest.raises(ValueError, match=r"must return an array of shape \(3,\)"):
            g.linearise(np.ones(3))


def test_columns_of_tables_are_vectors_and_their_names_must_be_those_of_the_matrix():
    pandas = pytest.importorskip("pandas")
    A = pandas.DataFrame([[2.0, 1.0], [1.0, 3.0]], index=["u", "v"], columns=["u", "v"])
    b = pandas.Series([1, 2], index=["u", "v"])
    x = np.array([0.5, -1.0])
    made = {
        functions.Quadratic: np.array([1.0, 2.0]),
        functions.LeastSquares: np.array([1.0, 2.0]),
        functions.LogisticLoss: np.array([1.0, -1.0]),
    }
    for kind, values in made.items():
        plain = kind(A.to_numpy(), values).value(x)
        column = pandas.Series(values, index=b.index)
        assert kind(A, column).value(x) == kind(A.to_numpy(), column).value(x) == plain
        with pytest.raises(ValueError, match=r"reindex\(A.index\)"):
            kind(A, column[["v", "u"]])
    with pytest.raises(TypeError, match="b must hold real numbers"):
        functions.Quadratic(A, pandas.Series(["1", "2"], index=b.index))


def absolute(self, x):
    return float(np.abs(x).sum())


def sign(self, x):
    return np.sign(x)


OVERRIDES = {"value": absolute, "grad": sign}


def replaced_on_the_instance(function):
    function.value, function.grad = (partial(verb, function) for verb in OVERRIDES.values())
    return functions.as_function(function)


def other_than_the_class():
    ones, square = np.ones(2), functions.LeastSquares(np.eye(2), np.ones(2))
    _ = square.lipschitz  # which is remembered
    stated = functions.Quadratic(np.eye(2), convex=True)
    return {
        "subclass": type("K", (functions.SquaredNorm,), OVERRIDES)(),
        "grandchild": type("L", (type("K", (functions.SquaredNorm,), OVERRIDES),), {})(),
        "mixin": type("K", (type("M", (), OVERRIDES), functions.LeastSquares), {})(np.eye(2), ones),
        "quadratic": type("K", (functions.Quadratic,), OVERRIDES)(np.eye(2)),
        "observed": type("K", (functions.Observed,), OVERRIDES)([0], [0], [1.0], (2, 1)),
        "sum": type("K", (Sum,), OVERRIDES)([functions.SquaredNorm(), stated]),
        "multiple": type("K", (Scaled,), OVERRIDES)(stated, 2.0),
        "instance": replaced_on_the_instance(functions.SquaredNorm()),
        "instance, computed": replaced_on_the_instance(square),
    }


@pytest.mark.parametrize("place", other_than_the_class())
def test_what_a_class_of_the_library_claims_does_not_hold_for_other_values_and_gradients(place):
    g = other_than_the_class()[place]
    assert (g.convex, g.affine_grad, g.lipschitz, g.weak_convexity) == (None, False, None, None)
    assert g.by_word
    shape = (2, 1) if place == "observed" else (2,)
    f, zero = functions.SquaredNorm(3.0), np.zeros(shape)
    assert dcfw.gaps.dc_gap(f - 2 * g, sets.LInfBall(shape), zero).low == 0.0
    res = dcfw.minimize(f - g, sets.LInfBall(shape), np.full(shape, 0.5), maxiter=5)
    assert res.dc_gap[0] == 0.0
    assert "g is convex" in res.conditional


@pytest.mark.parametrize("kind", ["sum", "multiple"])
def test_a_sum_keeps_what_a_subclass_of_a_sum_or_multiple_computes(kind):
    own = other_than_the_class()[kind]
    x = np.array([0.5, -2.0])
    q = functions.SquaredNorm()
    for made in (own + q, q + own, 1.0 * own + q, own - (-1.0) * q):
        assert made.value(x) == own.value(x) + 0.5 * x @ x
        assert (made.grad(x) == own.grad(x) + x).all()


def test_a_subclass_may_claim_what_holds_for_its_own_values():
    class Own(functions.SquaredNorm):
        convex, affine_grad, lipschitz, differentiable = True, True, 2.0, True
        value, grad = absolute, sign

    class Counts(functions.Quadratic):
        def prefetch(self, atoms):
            return False

    class Family(functions.Function):
        convex = True

    class Child(Family):
        value, grad = absolute, sign

    own = Own()
    assert (own.convex, own.affine_grad, own.lipschitz, own.weak_convexity) == (True, True, 2.0, 0.0)
    assert own.by_word
    counts = Counts(np.eye(2))
    assert (counts.affine_grad, counts.lipschitz, counts.by_word) == (True, 1.0, False)
    assert Child().convex
    assert not type("K", (functions.L1Norm,), OVERRIDES).differentiable
