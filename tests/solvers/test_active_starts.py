"""A run that starts from an active set, or with a loop that has been used, starts from the current state."""

from __future__ import annotations

import numpy as np
import pytest

import dcfw
from dcfw import functions, gaps, sets
from dcfw.sets.atoms import Dense, OneHot
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.active_set import ActiveSet

N = 6
EXACT = [
    sets.LInfBall(N, 0.3),
    sets.L1Ball(N, 0.7),
    sets.Simplex(N, 0.3),
    sets.NuclearBall((2, 3), 0.3),
    sets.Spectraplex(3, 0.3),
]
ROUNDED = [
    sets.Box(-0.3, 0.3, shape=N),
    sets.KSparse(N, 2, 0.3),
    sets.Product([sets.Simplex(2, 0.3), sets.Simplex(4, 0.7)]),
    sets.Polytope(bounds=[(-0.3, 0.3)] * N),
]


def least_squares(domain, dtype, seed=0):
    rng = np.random.default_rng(seed)
    size = int(np.prod(domain.shape))
    A, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((size + 2, size), size + 2))
    A, b = A.astype(dtype), b.astype(dtype)
    return functions.Quadratic(A.T @ A, -(A.T @ b), convex=True)


def solve(domain, dtype, tol, **options):
    inner = "blended" if domain.polytope else "pairwise"
    return dcfw.minimize(least_squares(domain, dtype), domain, tol=tol, inner=inner, **options)


@pytest.mark.parametrize("domain", EXACT, ids=repr)
def test_an_active_set_of_single_precision_starts_a_run_that_is_double_throughout(domain):
    known = solve(domain, np.float32, 1e-4).active_set
    assert known.point().dtype == np.float32
    tol = 1e-12 if domain.polytope else 1e-6
    res = solve(domain, np.float64, tol, x0=known)
    assert res.success
    assert res.x.dtype == res.active_set.point().dtype == np.float64
    assert domain.contains(res.x, 0.0)
    assert res.gap <= tol
    assert gaps.fw_gap(least_squares(domain, np.float64), domain, res.x) == pytest.approx(res.gap, abs=1e-14)


@pytest.mark.parametrize("domain", EXACT + ROUNDED, ids=repr)
def test_an_active_set_of_double_precision_starts_a_run_that_is_single_throughout(domain):
    known = solve(domain, np.float64, 1e-6).active_set
    res = solve(domain, np.float32, 1e-4, x0=known)
    assert res.success
    assert res.x.dtype == res.active_set.point().dtype == np.float32
    assert domain.contains(res.x)


@pytest.mark.parametrize("domain", ROUNDED, ids=repr)
def test_rounded_atoms_never_pass_for_the_point_of_another_precision(domain):
    known = solve(domain, np.float32, 1e-4).active_set
    res = solve(domain, np.float64, 1e-10, x0=known, max_lmo=300)
    assert res.x.dtype == np.float64
    f = least_squares(domain, np.float64)
    grad = f.grad(res.x)
    assert res.gap == pytest.approx(max(np.vdot(grad, res.x - domain.lmo(grad)), 0.0), abs=1e-13)


@pytest.mark.parametrize("domain", EXACT + ROUNDED, ids=repr)
def test_atoms_are_in_the_set_to_the_rounding_of_the_precision_that_they_are_given(domain):
    known = solve(domain, np.float32, 1e-4).active_set
    x = known.point().astype(np.float64)
    before = x.copy()
    loop = ActiveLoop()
    loop.resume(known, x, domain)
    assert len(loop.active) == len(known)
    assert all(domain.contains(atom.dense(), 0.0) for atom in loop.active.atoms)
    np.testing.assert_array_equal(loop.active.point(), x)
    np.testing.assert_allclose(x, before, atol=1e-6)


def test_a_rounded_atom_that_is_not_a_vertex_becomes_the_nearest_point():
    domain = sets.Simplex(6)
    known = ActiveSet(np.full(6, 1.0 / 6.0, dtype=np.float32))
    loop = ActiveLoop()
    loop.resume(known, np.empty(6), domain)
    np.testing.assert_allclose(loop.active.point(), 1.0 / 6.0, rtol=1e-15)


@pytest.mark.parametrize("domain", [None, sets.ConvexHull(np.eye(3) / 3.0)], ids=repr)
def test_where_rounded_atoms_cannot_be_repaired_the_point_is_the_only_one(domain):
    outside = np.array([0.2, 0.2, 0.0], dtype=np.float32)
    x = outside.astype(np.float64)
    loop = ActiveLoop()
    loop.resume(ActiveSet(outside), x, domain)
    assert loop.active is None
    np.testing.assert_array_equal(x, outside)


def test_a_users_set_is_asked_whether_it_contains_the_rounded_atoms():
    class Corner:
        """{x >= 0, sum x <= 0.3}"""

        def lmo(self, G):
            return np.where((np.arange(3) == G.argmin()) & (G.min() < 0.0), 0.3, 0.0)

        def contains(self, x):
            return bool(x.min() >= 0.0 and x.sum() <= 0.3)

        def start(self):
            return np.full(3, 0.05)

    vertex = np.array([0.0, 0.3, 0.0], dtype=np.float32)
    for s, expected in ((vertex, [0.0, 0.3, 0.0]), (vertex / 2, vertex / 2)):
        loop = ActiveLoop()
        loop.resume(ActiveSet(s), np.empty(3), Corner())
        np.testing.assert_array_equal(loop.active.point(), np.asarray(expected, dtype=np.float64))


def test_another_library_starts_from_the_point_where_precisions_differ():
    torch = pytest.importorskip("torch")
    known = ActiveSet(torch.full((3,), 1.0 / 3.0, dtype=torch.float32))
    loop = ActiveLoop()
    loop.resume(known, known.point().to(torch.float64), sets.Simplex(3))
    assert loop.active is None
    loop.resume(known, known.point(), sets.Simplex(3))
    assert len(loop.active) == 1


def test_vertices_of_a_k_sparse_polytope_start_a_run_in_one_of_more_nonzeros():
    f = functions.LeastSquares(np.eye(20), np.linspace(-2.0, 2.0, 20))
    domain = sets.KSparse(20, 3)
    known = dcfw.minimize(f, sets.KSparse(20, 2)).active_set
    res = dcfw.minimize(f, domain, x0=known)
    assert res.success
    assert res.fun == pytest.approx(dcfw.minimize(f, domain).fun, abs=2e-6)
    np.testing.assert_allclose(res.active_set.point(), res.x, atol=1e-13)


def test_a_loop_that_is_used_again_sees_what_was_written_to_x0():
    domain = sets.Simplex(6)
    f = functions.LeastSquares(np.eye(6), np.full(6, 1.0 / 6.0))
    loop = ActiveLoop("blended")
    x = np.full(6, 1.0 / 6.0)
    assert dcfw.minimize(f, domain, x0=x, inner=loop).success
    x[:] = np.eye(6)[0]
    res = dcfw.minimize(f, domain, x0=x, inner=loop)
    assert res.success
    assert gaps.fw_gap(f, domain, res.x) == pytest.approx(res.gap, abs=1e-15)
    res.x[:] = np.eye(6)[1]
    res = dcfw.minimize(f, domain, x0=res.x, inner=loop)
    assert gaps.fw_gap(f, domain, res.x) == pytest.approx(res.gap, abs=1e-15)


def test_a_loop_that_is_used_again_where_it_ended_keeps_its_atoms():
    domain = sets.Simplex(6)
    f = functions.LeastSquares(np.eye(6), np.linspace(0.0, 0.5, 6))
    loop = ActiveLoop("blended")
    first = dcfw.minimize(f, domain, inner=loop)
    second = dcfw.minimize(f, domain, x0=first.x, inner=loop)
    assert repr(second.active_set) == repr(first.active_set) != "ActiveSet(1 atoms)"


def test_an_active_set_does_not_follow_what_is_written_to_its_first_point():
    x = np.array([0.5, 0.5])
    active = ActiveSet(x)
    active.add(OneHot(0, 1.0, (2,)))
    x[:] = 7.0
    np.testing.assert_array_equal(active.point(), [0.5, 0.5])
    assert active.find(Dense(np.array([0.5, 0.5]))) == 0


def test_a_start_of_single_precision_is_a_point_of_the_set_in_double_precision():
    domain = sets.LInfBall(N, 0.3)
    x0 = np.full(N, 0.3, dtype=np.float32)
    assert x0.astype(float).max() > 0.3
    res = dcfw.minimize(least_squares(domain, np.float64), domain, x0, maxiter=0)
    assert res.x.dtype == np.float64
    assert domain.contains(res.x, 0.0)
