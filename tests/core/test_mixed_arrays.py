"""Oracles of the user's own that answer with arrays of another precision, or of another library, than x."""

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets

torch = pytest.importorskip("torch")


class OwnSimplex:
    def __init__(self, n, vertices):
        self.n, self.vertices = n, vertices

    def lmo(self, G):
        return self.vertices[int(G.argmin())]

    def contains(self, x):
        return bool(abs(float(x.sum()) - 1.0) < 1e-5 and float(x.min()) > -1e-6)

    def start(self):
        return torch.full((self.n,), 1.0 / self.n)


@pytest.mark.parametrize("inner", ["fw", "blended"])
@pytest.mark.parametrize("x_type", [torch.float32, torch.float64])
@pytest.mark.parametrize("v_type", [torch.float32, torch.float64, torch.int64])
def test_vertices_of_another_precision_take_that_of_x(v_type, x_type, inner):
    A = torch.diag(torch.tensor([1.0, 2.0, 4.0], dtype=x_type))
    phi = functions.Quadratic(A) - functions.SquaredNorm(0.5)
    domain = OwnSimplex(3, torch.eye(3, dtype=v_type))
    start = torch.full((3,), 1.0 / 3.0, dtype=x_type)
    res = dcfw.minimize(phi, domain, start, inner=inner, tol=1e-4)
    assert res.success
    assert res.x.dtype == x_type
    weights = 1.0 / (torch.tensor([1.0, 2.0, 4.0]) - 0.5)  # the minimiser, where phi has one slope in all
    assert torch.allclose(res.x.float(), weights / weights.sum(), atol=1e-2)


@pytest.mark.parametrize("g_type", [torch.float32, torch.float64, torch.int64])
def test_gradients_of_another_precision_take_that_of_x(g_type):
    f = functions.Smooth(lambda x: 2.0 * x.sum(), lambda x: torch.full(x.shape, 2, dtype=g_type), convex=True)
    g = functions.Convex(lambda x: x.abs().sum(), lambda x: x.sign().to(g_type))
    start = torch.tensor([0.5, 0.25, 0.25])
    res = dcfw.minimize(f - g, sets.Simplex(3), start)
    assert res.success
    assert res.x.dtype == torch.float32
    boxed = dcfw.minimize(f - g, sets.Box(0.0, 1.0, shape=3), start)
    assert boxed.x.dtype == torch.float32
    assert boxed.fun == 0.0


@pytest.mark.parametrize("start", [np.full(3, 1 / 3), torch.full((3,), 1 / 3)], ids=["numpy", "torch"])
def test_an_answer_of_another_library_is_named(start):
    other = torch.asarray if isinstance(start, np.ndarray) else np.asarray
    own, got = type(start).__name__, type(other(start)).__name__
    ours, theirs = functions.SquaredNorm(), functions.Smooth(lambda x: 0.0, other, convex=True)
    for phi, domain, oracle in (
        (theirs - functions.Zero(), sets.Simplex(3), "f.grad"),
        (ours - theirs, sets.Simplex(3), "the subgradient of g"),
        (ours, OwnSimplex(3, other(np.eye(3))), "the set's lmo"),
    ):
        res = dcfw.minimize(phi, domain, start)
        assert res.status is dcfw.Status.BAD_ORACLE
        assert f"{oracle} returned a {got}, where x is a {own}," in res.message


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_with_in_double_as_numpys_is(half):
    phi = functions.SquaredNorm() - functions.L1Norm(0.1)
    start = torch.tensor([0.25, 0.25, 0.5], dtype=half)
    res = dcfw.minimize(phi, sets.Simplex(3), start)
    assert res.x.dtype == torch.float64
    same = dcfw.minimize(phi, sets.Simplex(3), np.array([0.25, 0.25, 0.5], dtype=np.float16))
    assert np.allclose(res.x.numpy(), same.x, atol=1e-9)
    assert sets.Simplex(3).contains(start)
    assert not sets.Simplex(3).contains(2.0 * start)


@pytest.mark.parametrize("method", ["auto", "dcfw", "fw"])
def test_a_start_rounded_in_single_precision_is_moved_into_a_set_without_a_projection(method):
    domain = sets.Polytope(np.ones((1, 3)), [10.0], bounds=(-0.3, 0.3))
    x0 = np.full(3, 0.3, np.float32)  # 0.30000001
    res = dcfw.minimize(functions.Quadratic(np.eye(3), [-1.0, -2.0, -3.0]), domain, x0, method=method)
    assert res.success
    assert domain.contains(res.x)
    np.testing.assert_allclose(res.x, 0.3, atol=1e-7)
