"""minimize: every method with every step on every set and backend, and everything that can end a run."""

from __future__ import annotations

import functools
import itertools
import math
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import dcfw
from dcfw import Status, callbacks, functions, sets, splits, steps
from dcfw._arrays import to_numpy
from dcfw.sets.base import Oracle
from dcfw.solvers.cgs import CGS
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.solvers.run import Goal, Run, Stop
from set_cases import every_model, every_set

SETS = (
    sets.Simplex(9),
    sets.L1Ball(9, radius=2.0),
    sets.L2Ball(9),
    sets.LInfBall(9, radius=0.5),
    sets.LpBall(9, p=1.5),
    sets.Box(-1.0, 0.5, shape=9),
    sets.KSparse(9, k=3),
    sets.Birkhoff(3),
    sets.NuclearBall((3, 3), radius=2.0),
    sets.SpectralBall((3, 3)),
    sets.Spectraplex(3),
)
every_domain = pytest.mark.parametrize("domain", SETS, ids=repr)

# Method and step, every pair that means something (FW-K and FW-M bring their own steps).
METHODS = [
    *itertools.product(["dcfw", "fw", "cgs"], ["exact", "open-loop", "short", "backtracking"]),
    ("fw-k", "exact"),
    ("fw-m", "exact"),
    (CGS(momentum=True), "exact"),
]
every_method = pytest.mark.parametrize(
    ("method", "step"), METHODS, ids=[f"{getattr(m, 'name', m)}-{s}{i}" for i, (m, s) in enumerate(METHODS)]
)
BACKENDS = ["numpy", "torch", "array_api_strict", "jax.numpy"]


@functools.cache
def parts(n=9):
    """Return the data of a difference of quadratics whose minima are not at vertices."""
    i = np.arange(n, dtype=float)
    M = np.cos(np.outer(i, i + 1.0)) + np.diag(1.0 + 0.1 * i)
    A = M @ M.T / n
    B = np.diag(0.2 + 0.1 * np.cos(i))
    assert np.linalg.eigvalsh(A - B)[0] < 0  # nonconvex
    return A, 0.2 * np.sin(1.0 + i), B


def quadratics(asarray=np.asarray):
    A, b, B = parts()
    f = functions.Quadratic(asarray(A), asarray(b), convex=True)
    return f - functions.Quadratic(asarray(B), convex=True)


def true_gap(domain, x):
    """The FW gap by the definition, from the data."""
    A, b, B = parts()
    x = np.asarray(to_numpy(x), dtype=float)
    grad = ((A - B) @ x.ravel() + b).reshape(x.shape)
    return float(np.vdot(grad, x - domain.lmo(grad)))


def true_value(x):
    A, b, B = parts()
    x = np.asarray(to_numpy(x), dtype=float).ravel()
    return float(0.5 * x @ (A - B) @ x + b @ x)


def rough_start(domain):
    """A point far from stationary."""
    return domain.lmo(np.asarray(np.cos(np.arange(9.0))).reshape(domain.shape))


@every_domain
@every_method
def test_every_method_reaches_the_same_stationarity_on_every_set(method, step, domain):
    x0 = rough_start(domain)
    first = true_gap(domain, x0)
    res = dcfw.minimize(
        quadratics(), domain, x0, method=method, step=step, tol=0.0, rtol=1e-2, maxiter=30_000
    )
    assert res.status is Status.CONVERGED, res
    assert res.success
    assert res.gap <= 1e-2 * first * (1 + 1e-12)
    assert true_gap(domain, res.x) == pytest.approx(res.gap, rel=1e-6, abs=1e-9)
    assert res.fun == pytest.approx(true_value(res.x), rel=1e-12, abs=1e-12)
    assert domain.contains(res.x)
    assert res.fun <= true_value(x0) + 1e-12
    low, high = res.dc_gap
    assert 0.0 <= low <= high <= res.gap * (1 + 1e-9) or high <= res.history["gap"].min() * (1 + 1e-9)


@every_domain
@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_every_backend_takes_the_same_steps_as_numpy(method, domain, backend):
    xp = pytest.importorskip(backend)
    x0 = rough_start(domain)
    kwargs = {"method": method, "inner": "fw", "tol": 0.0, "rtol": 0.1, "maxiter": 40, "max_inner": 40}
    ours = dcfw.minimize(quadratics(), domain, x0, **kwargs)
    start = xp.asarray(x0)
    other = dcfw.minimize(quadratics(xp.asarray), domain, start, **kwargs)
    assert type(other.x) is type(start)
    assert other.x.dtype == start.dtype
    if "jax" in backend:  # single precision, unless told otherwise
        assert other.fun == pytest.approx(ours.fun, abs=2e-2)
        return
    np.testing.assert_allclose(to_numpy(other.x), ours.x, atol=1e-9)
    assert other.fun == pytest.approx(ours.fun, rel=1e-9)
    assert (other.nit, other.n_inner, other.n_lmo) == (ours.nit, ours.n_inner, ours.n_lmo)


@every_domain
@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_single_precision_works_and_stays_single(method, domain, backend):
    xp = pytest.importorskip(backend)

    def single(a):
        return xp.asarray(np.asarray(a, dtype=np.float32))

    x0 = rough_start(domain)
    res = dcfw.minimize(
        quadratics(single), domain, single(x0), method=method, tol=0.0, rtol=5e-2, maxiter=3000, max_inner=500
    )
    assert res.status is Status.CONVERGED
    assert res.x.dtype == xp.float32
    assert true_gap(domain, res.x) <= 6e-2 * true_gap(domain, x0) + 1e-5
    assert domain.contains(res.x, tol=1e-5)


@every_model
@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_a_convex_problem_reaches_the_optimum_of_cvxpy(case, method):
    cp = pytest.importorskip("cvxpy")
    domain = case.domain
    n = math.prod(domain.shape)
    rows = n + 2 if n < 100 else 20
    i, j = np.mgrid[0:rows, 0:n]
    A = np.cos(1.0 + i * j) / math.sqrt(rows)
    b = np.sin(2.0 * np.arange(rows))
    x = cp.Variable(domain.shape)
    residual = A @ cp.reshape(x, (n,), order="C") - b
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(residual)), case.model(cp, x))
    best = program.solve(solver=cp.CLARABEL)
    calls = 60 if isinstance(domain, sets.Polytope) else 1000  # a linear programme each
    f = functions.LeastSquares(A, b)
    res = dcfw.minimize(f, domain, method=method, tol=1e-5, maxiter=10_000, max_lmo=calls)
    # Converged or not, the gap says how far the value can be from the optimum.
    assert res.fun - res.gap - 1e-6 <= best <= res.fun + 1e-6
    assert res.fun - best <= 2e-2
    assert domain.contains(res.x)


@every_set
def test_plain_functions_run_on_every_set(case):
    domain = case.domain
    phi = functions.Smooth(
        lambda x: float(np.cos(3 * x).sum()), lambda x: -3 * np.sin(3 * x), lipschitz=9.0, convex=False
    )
    start = phi.value(domain.start())
    for method, split in (("auto", "none (Frank-Wolfe)"), ("dcfw", "sliding(L=auto)")):
        res = dcfw.minimize(phi, domain, method=method, maxiter=30, max_lmo=60)
        assert domain.contains(res.x)
        assert res.fun <= start + 1e-12
        assert res.split in (split, "sliding(L=auto)")
        assert all(L <= 9.0 for L in res.L_history or ())  # a stated constant is the largest that is tried


def fit(n=30):
    """A robust regression, its gradient, and an l1 ball on whose faces Frank-Wolfe zigzags."""
    rng = np.random.default_rng(2)
    A, x = rng.standard_normal((40, n)), np.where(np.arange(n) < 4, 1.0, 0.0)
    y = A @ x + np.where(rng.random(40) < 0.1, 5.0, 0.05) * rng.standard_normal(40)

    def grad(z):
        r = A @ z - y
        return A.T @ (2.0 * r / (1.0 + r * r))

    return lambda z: float(np.log1p((A @ z - y) ** 2).sum()), grad, sets.L1Ball(n, radius=3.5)


def test_a_callable_and_its_gradient_are_all_that_is_needed():
    value, grad, domain = fit()
    expected = dcfw.minimize(functions.Smooth(value, grad), domain)
    assert expected.success
    assert expected.n_lmo < 200  # Frank-Wolfe alone would take thousands of steps
    assert expected.conditional == ""  # phi was not split
    assert "L = " in dcfw.minimize(functions.Smooth(value, grad), domain, method="dcfw").conditional
    for fun, jac in ((value, grad), (lambda x: (value(x), grad(x)), True)):
        res = dcfw.minimize(fun, domain, jac=jac)
        assert res.fun == expected.fun
        assert np.array_equal(res.x, expected.x)


def test_without_a_gradient_it_is_derived_from_a_tensor():
    torch = pytest.importorskip("torch")
    centre = torch.tensor([0.7, 0.1, 0.6], dtype=torch.float64)
    res = dcfw.minimize(lambda x: ((x - centre) ** 2).sum(), sets.Simplex(3), torch.ones_like(centre) / 3)
    assert res.success
    assert torch.allclose(res.x, torch.tensor([0.55, 0.0, 0.45], dtype=torch.float64), atol=1e-3)


def test_where_minimisers_are_vertices_no_split_is_made():
    A = np.diag([-1.0, -2.0, -3.0])
    res = dcfw.minimize(functions.Quadratic(A), sets.Simplex(3))
    assert (res.method, res.split, res.conditional) == ("auto", "none (Frank-Wolfe)", "")
    assert res.success
    assert res.fun == -1.5
    assert dcfw.minimize(functions.Quadratic(A), sets.Simplex(3), method="dcfw").split.startswith("spectral")


def test_all_methods_agree_on_a_smooth_convex_problem():
    A, b, _ = parts()
    y = np.where(b > 0, 1.0, -1.0)
    f = functions.LogisticLoss(A, y)
    answers = []
    for method, step in METHODS:
        res = dcfw.minimize(f, sets.L2Ball(9), method=method, step=step, tol=1e-3, maxiter=20_000)
        assert res.success, (method, step, res.message)
        answers.append(res.fun)
    assert max(answers) - min(answers) <= 1e-3


def test_a_nonsmooth_g_is_handled_by_every_method_for_it():
    A, b, _ = parts()
    dc = functions.Quadratic(A, b, convex=True) - functions.L1Norm(0.3)
    domain = sets.L2Ball(9)
    for method in ("dcfw", "fw-k", "fw-m"):
        res = dcfw.minimize(dc, domain, method=method, tol=1e-2, maxiter=5000)
        assert res.success, (method, res.message)
        grad = A @ res.x + b - 0.3 * np.sign(res.x)
        assert grad @ (res.x - domain.lmo(grad)) <= 1e-2 * (1 + 1e-9)


def test_weakly_concave_objectives_are_minimised_by_sliding():
    # The smaller of two paraboloids: nonsmooth, nonconvex.
    centres = np.array([[1.0, 0.0], [0.0, 1.5]])

    def which(x):
        return int(np.argmin(((x - centres) ** 2).sum(axis=1)))

    phi = functions.WeaklyConcave(
        lambda x: 0.5 * ((x - centres) ** 2).sum(axis=1).min(), lambda x: x - centres[which(x)], modulus=1.0
    )
    res = dcfw.minimize(phi, sets.L2Ball(2), np.array([0.1, 0.6]), tol=1e-6)
    assert res.success
    np.testing.assert_allclose(res.x, [0.0, 1.0], atol=1e-2)


# -- users' own objects ---------------------------------------------------------------------------------


class Ball:
    """A user's set with the three verbs only."""

    def lmo(self, G):
        return -G / np.linalg.norm(G) if np.linalg.norm(G) > 0 else np.eye(len(G))[0]

    def contains(self, x):
        return float(x @ x) <= 1 + 1e-9

    def start(self):
        return np.zeros(9)


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-m", "cgs"])
def test_an_lmo_that_maximises_is_named_and_not_believed(method):
    class Wrong(Ball):
        def lmo(self, G):
            return G / np.linalg.norm(G)

    res = dcfw.minimize(quadratics(), Wrong(), method=method)
    assert res.status is Status.BAD_ORACLE
    assert "the set's lmo returned a point s with <G, s> larger than <G, x>" in res.message
    assert res.dc_gap[1] == math.inf


def test_a_start_outside_of_a_users_set_is_refused():
    class Wrong(Ball):
        def start(self):
            return np.ones(9)

    with pytest.raises(ValueError, match=r"domain\.start\(\) must lie in the set"):
        dcfw.minimize(quadratics(), Wrong())


def test_a_step_rule_is_bound_to_the_function_that_the_steps_are_along():
    smooth = functions.Smooth(lambda x: float((x**4).sum()), lambda x: 4 * x**3)  # no constant stated
    x0 = np.full(9, 0.3)
    res = dcfw.minimize(smooth, Ball(), x0, method=CGS(L=12.0), step="short", maxiter=5)
    assert res.nit == 5
    with pytest.raises(ValueError, match="lipschitz"):
        dcfw.minimize(smooth, Ball(), x0, method="fw", step="short")


class F:
    def value(self, x):
        A, b, _ = parts()
        return 0.5 * x @ A @ x + b @ x

    def grad(self, x):
        A, b, _ = parts()
        return A @ x + b


class G:
    def value(self, x):
        return 0.5 * x @ parts()[2] @ x

    def grad(self, x):
        return parts()[2] @ x


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-m", FWK(C=10.0), CGS(L=4.0), FWM(L=1.0)])
def test_objects_with_the_bare_methods_are_enough(method):
    res = dcfw.minimize(functions.DC(F(), G()), Ball(), method=method, tol=1e-2, maxiter=5000)
    assert res.success, res
    assert true_gap(sets.L2Ball(9), res.x) <= 1.0001e-2
    assert res.fun == pytest.approx(true_value(res.x))


def test_plain_callables_are_enough():
    f = functions.Smooth(F().value, F().grad, convex=True)
    g = functions.Convex(G().value, G().grad, differentiable=True)
    res = dcfw.minimize(f - g, Ball(), restarts=3, rng=0)
    assert res.success
    assert res.fun == pytest.approx(dcfw.minimize(quadratics(), sets.L2Ball(9), np.zeros(9)).fun, abs=1e-3)


def test_a_single_object_of_the_users_own_runs_with_fw():
    res = dcfw.minimize(F(), Ball(), method="fw", tol=1e-3, maxiter=5000)
    assert res.success
    assert res.split == "none"


@pytest.mark.parametrize("read_only", [True, False])
def test_x0_is_never_written_to(read_only):
    x0 = np.asfortranarray(rough_start(sets.Birkhoff(3)))
    copy = x0.copy()
    x0.setflags(write=not read_only)
    for method, step in METHODS:
        dcfw.minimize(quadratics(), sets.Birkhoff(3), x0, method=method, step=step, maxiter=5)
        np.testing.assert_array_equal(x0, copy)


def test_a_list_is_a_start_and_a_result_is_one_too():
    first = dcfw.minimize(quadratics(), sets.L2Ball(9), [0.0] * 9, maxiter=2, tolerance=0.1)
    second = dcfw.minimize(quadratics(), sets.L2Ball(9), first.x)
    assert second.fun <= first.fun


def test_the_solve_takes_the_dtype_of_the_data():
    res = dcfw.minimize(quadratics(), sets.Simplex(9), np.full(9, 1 / 9, dtype=np.float32), maxiter=2)
    assert res.x.dtype == np.float64


def test_torch_starts_are_detached():
    torch = pytest.importorskip("torch")
    x0 = torch.full((9,), 1 / 9, dtype=torch.float64, requires_grad=True)
    res = dcfw.minimize(quadratics(torch.asarray), sets.Simplex(9), x0, maxiter=3)
    assert not res.x.requires_grad


def test_autodiff_objectives_are_minimised():
    torch = pytest.importorskip("torch")
    phi = functions.autodiff(lambda x: torch.cos(3 * x).sum(), lipschitz=9.0)
    x0 = torch.full((4,), 0.1, dtype=torch.float64)
    res = dcfw.minimize(phi, sets.L2Ball(4), x0, tol=1e-4, maxiter=200)
    by_hand = functions.Smooth(lambda x: np.cos(3 * x).sum(), lambda x: -3 * np.sin(3 * x), lipschitz=9.0)
    same = dcfw.minimize(by_hand, sets.L2Ball(4), x0.numpy(), tol=1e-4, maxiter=200)
    assert res.fun == pytest.approx(same.fun, abs=1e-8)


def test_matrix_sensing_on_the_nuclear_ball_runs():
    i, j = np.mgrid[0:30, 0:20]
    A = np.cos(1.0 + i * j)
    truth = np.outer(np.arange(1.0, 6.0), [1.0, -1.0, 2.0, 0.5])
    f = functions.LeastSquares(A, A @ truth.ravel())
    radius = np.linalg.svd(truth, compute_uv=False).sum()
    res = dcfw.minimize(f, sets.NuclearBall((5, 4), radius=radius), tol=1e-3)
    assert res.fun <= 1e-3


# -- what ends a run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs", CGS(momentum=True)])
@pytest.mark.parametrize("budget", [1, 2, 3, 7, 20, 33])
def test_the_lmo_budget_is_never_exceeded_and_the_gap_is_known(method, budget):
    domain = sets.Simplex(9)
    res = dcfw.minimize(quadratics(), domain, rough_start(domain), method=method, max_lmo=budget, tol=0.0)
    assert res.status is Status.MAX_LMO
    assert res.n_lmo <= budget
    assert res.gap == pytest.approx(true_gap(domain, res.x), rel=1e-7)
    assert not res.success


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
@pytest.mark.parametrize("limit", [0, 1, 4])
def test_maxiter_counts_outer_steps(method, limit):
    domain = sets.Simplex(9)
    res = dcfw.minimize(quadratics(), domain, rough_start(domain), method=method, maxiter=limit, tol=0.0)
    assert res.status is Status.MAXITER
    assert res.nit == limit
    assert len(res.history) == limit + 1
    assert res.gap == pytest.approx(true_gap(domain, res.x), rel=1e-7)


def test_max_inner_ends_inner_loops_without_an_extra_lmo_call():
    domain = sets.Simplex(9)
    res = dcfw.minimize(
        quadratics(), domain, rough_start(domain), max_inner=3, maxiter=5, tolerance=1e-9, tol=0.0
    )
    assert res.n_inner == 15
    assert res.n_lmo == 16  # three steps need three calls; the last one tests the point returned


def test_the_first_gap_sets_the_relative_tolerance():
    domain = sets.L2Ball(9)
    res = dcfw.minimize(quadratics(), domain, rough_start(domain), tol=0.0, rtol=0.5)
    assert res.success
    gaps = res.history["gap"]
    assert gaps[-1] <= 0.5 * gaps[0]
    assert (gaps[:-1] > 0.5 * gaps[0]).all()
    already = dcfw.minimize(quadratics(), domain, rtol=1.0)
    assert (already.nit, already.status) == (0, Status.CONVERGED)


class Slow:
    """A simplex whose oracle takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def lmo(self, G):
        time.sleep(self.seconds)
        s = np.zeros_like(G)
        s[np.argmin(G)] = 1.0
        return s

    def contains(self, x):
        return bool((x >= -1e-9).all() and abs(x.sum() - 1.0) < 1e-9)

    def start(self):
        return np.full(9, 1 / 9)


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_the_time_limit_ends_a_run_with_a_feasible_point(method):
    domain = Slow(2e-3)
    kwargs = {"time_limit": 0.03, "tol": 0.0, "tolerance": 1e-9, "maxiter": 10**6}
    res = dcfw.minimize(quadratics(), domain, method=method, **kwargs)
    assert res.status is Status.TIME_LIMIT
    assert domain.contains(res.x)
    assert res.fun == pytest.approx(true_value(res.x))
    assert res.n_lmo <= 15
    assert res.fun <= true_value(domain.start())


def test_no_time_means_the_start():
    res = dcfw.minimize(quadratics(), sets.Simplex(9), time_limit=0.0, tol=0.0)
    assert res.status is Status.TIME_LIMIT
    assert res.nit == 0
    np.testing.assert_allclose(res.x, 1 / 9)
    assert math.isfinite(res.gap)


def test_the_callback_sees_every_outer_step():
    seen = []
    res = dcfw.minimize(
        quadratics(),
        sets.Simplex(9),
        rough_start(sets.Simplex(9)),
        callback=lambda intermediate_result: seen.append(intermediate_result),
        maxiter=6,
        tol=0.0,
    )
    assert [r.nit for r in seen] == [0, 1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal([r.fun for r in seen], res.history["fun"])
    for r in seen:
        assert r.fun == pytest.approx(true_value(r.x), abs=1e-9)
        assert isinstance(r, dcfw.Result)
        assert str(r)


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
def test_stop_iteration_from_the_callback_has_its_own_status(method):
    def stop(intermediate_result):
        if intermediate_result.nit == 2:
            raise StopIteration("enough for today")

    res = dcfw.minimize(
        quadratics(), sets.Simplex(9), rough_start(sets.Simplex(9)), method=method, callback=stop, restarts=3
    )
    assert res.status is Status.CALLBACK
    assert res.nit == 2
    assert "enough for today" in res.message
    assert len(res.restart_values) == 1


def test_a_callback_in_a_restart_ends_all_restarts():
    calls = []

    def stop(intermediate_result):
        calls.append(intermediate_result.nit)
        if calls.count(0) == 2:
            raise StopIteration

    res = dcfw.minimize(quadratics(), sets.L2Ball(9), callback=stop, restarts=5, rng=1)
    assert len(res.restart_values) == 2
    assert res.status is Status.CALLBACK
    assert not res.success
    assert res.message.endswith(Status.CONVERGED.sentence)  # as the first run had, whose x is the best


def test_other_exceptions_of_the_callback_are_the_users():
    def fail(intermediate_result):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        dcfw.minimize(quadratics(), sets.Simplex(9), callback=fail)


def test_ready_made_callbacks(capsys):
    res = dcfw.minimize(quadratics(), sets.L2Ball(9), callback=callbacks.target(-0.05), tol=0.0)
    assert res.status is Status.CALLBACK
    assert res.fun <= -0.05
    dcfw.minimize(quadratics(), sets.L2Ball(9), callback=callbacks.progress(every=0.0), maxiter=3, tol=0.0)
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 4
    assert "gap" in written.err


def test_nothing_is_printed(capsys):
    dcfw.minimize(quadratics(), sets.Simplex(9), restarts=2, max_lmo=100)
    written = capsys.readouterr()
    assert written.out == written.err == ""


class Faulty:
    """A problem whose oracles fail in a given way at their n-th call; counts the calls of each."""

    def __init__(self, oracle="", at=10**9, fault="nan", affine=False):
        self.breaks, self.at, self.fault = oracle, at, fault
        self.calls = dict.fromkeys(("f.value", "f.grad", "g.value", "g.grad", "lmo"), 0)
        outer = self

        class Part:
            convex = True

            def __init__(self, name, function):
                self.name, self.function = name, function
                self.affine_grad = affine
                self.lipschitz = 3.0

            def value(self, x):
                return outer.answer(f"{self.name}.value", self.function.value(x))

            def grad(self, x):
                return outer.answer(f"{self.name}.grad", self.function.grad(x))

        A, b, B = parts()
        self.f = Part("f", functions.Quadratic(A, b))
        self.g = Part("g", functions.Quadratic(B))
        self.phi = functions.DC(self.f, self.g)

    shape = (9,)
    diameter = math.sqrt(2.0)

    def answer(self, name, value):
        self.calls[name] += 1
        if name != self.breaks or self.calls[name] < self.at:
            return value
        if self.fault == "interrupt":
            raise KeyboardInterrupt
        if self.fault == "shape":
            return np.append(value, 0.0)
        if self.fault == "column":
            return value[:, None]
        if self.fault == "list":
            return list(value)
        return value * np.nan

    def lmo(self, G):
        s = np.zeros(9)
        s[np.argmin(G)] = 1.0
        return self.answer("lmo", s)

    def contains(self, x):
        return sets.Simplex(9).contains(x)

    def start(self):
        return np.eye(9)[3]


NAMES = {
    "f.grad": "f.grad",
    "g.grad": "the subgradient of g",
    "g.value": "g.value",
    "f.value": "f.value",
    "lmo": "the set's lmo",
}


@pytest.mark.parametrize("affine", [False, True], ids=["smooth", "affine"])
@pytest.mark.parametrize("method", ["dcfw", "fw-k", "fw-m"])
@pytest.mark.parametrize(
    ("oracle", "fault"),
    [
        *itertools.product(["f.grad", "g.grad", "lmo"], ["nan", "shape", "column", "list"]),
        ("g.value", "nan"),
        ("f.value", "nan"),
    ],
)
@pytest.mark.parametrize("at", [1, 3])
def test_an_oracle_that_breaks_is_named_and_the_best_point_returned(method, oracle, fault, at, affine):
    problem = Faulty(oracle, at, fault, affine)
    res = dcfw.minimize(problem.phi, problem, method=method, tol=0.0, maxiter=50, max_inner=4)
    assert res.status is Status.BAD_ORACLE, res
    # FW-M looks at the values of phi itself, and cannot tell whose part it is.
    assert NAMES[oracle] in res.message or (method == "fw-m" and "phi.value" in res.message)
    assert f"in outer step {res.nit + 1}" in res.message
    assert ("shape" in res.message) == (fault != "nan")
    assert problem.contains(res.x)
    assert np.isfinite(res.x).all()
    if len(res.history):
        assert res.fun == pytest.approx(true_value(res.x), abs=1e-12)
        assert res.fun <= res.history["fun"].min() + 1e-12


@pytest.mark.parametrize("method", ["fw", "cgs"])
@pytest.mark.parametrize("fault", ["nan", "shape"])
@pytest.mark.parametrize("oracle", ["f.grad", "lmo"])
def test_the_one_function_methods_name_phi(method, fault, oracle):
    problem = Faulty(oracle, 3, fault)
    phi = functions.Smooth(problem.f.value, problem.f.grad, lipschitz=3.0)
    res = dcfw.minimize(phi, problem, method=method, tol=0.0)
    assert res.status is Status.BAD_ORACLE
    assert ("phi.grad" if oracle == "f.grad" else "the set's lmo") in res.message
    assert problem.contains(res.x)


@pytest.mark.parametrize("method", ["dcfw", "fw-k", "fw-m"])
@pytest.mark.parametrize("oracle", ["f.grad", "g.grad", "g.value", "lmo"])
@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_ctrl_c_inside_an_oracle_returns_the_best_point_so_far(method, oracle, at):
    problem = Faulty(oracle, at, "interrupt")

    class Phi(functions.DC):  # its values, asked for the result, are not interrupted again
        def value(self, x):
            return true_value(x)

    phi = Phi(problem.f, problem.g)
    res = dcfw.minimize(phi, problem, method=method, tol=0.0, max_inner=4, restarts=3)
    assert res.status is Status.INTERRUPTED
    assert problem.contains(res.x)
    assert res.fun == pytest.approx(true_value(res.x))
    assert len(res.restart_values) == 1
    if len(res.history):
        assert res.fun <= res.history["fun"].min() + 1e-12


def test_an_interrupted_run_knows_the_gap_of_a_point_that_was_measured():
    problem = Faulty("f.grad", 2, "interrupt")
    res = dcfw.minimize(problem.phi, problem)
    assert res.gap == pytest.approx(true_gap(problem, res.x))


@pytest.mark.parametrize("step", ["exact", "open-loop", "short"])
def test_an_indefinite_f_is_found_out(step):
    A = np.diag([1.0, -1.0, -2.0])
    x0 = np.array([0.2, 0.4, 0.4])
    quadratic = functions.Quadratic(A, np.array([1.0, 0.0, 0.0]))
    smooth = functions.Smooth(quadratic.value, quadratic.grad, lipschitz=2.0)
    for f in (quadratic, smooth):
        res = dcfw.minimize(f - functions.SquaredNorm(0.1), sets.L2Ball(3), x0, step=step)
        assert res.status is Status.NOT_CONVEX, (f, res)
        assert not res.success
        assert res.dc_gap == (0.0, math.inf)
        assert f"In outer step {res.nit + 1}, after {res.n_inner} steps, " in res.message
        assert res.message.endswith("check f with dcfw.check, or use splits.proximal with a larger L.")
        assert sets.L2Ball(3).contains(res.x)


def test_a_convex_f_is_not_accused_because_of_rounding():
    i = np.arange(30.0)
    M = np.outer(np.cos(i), np.sin(i + 1.0))
    f = functions.Quadratic(1e6 * M @ M.T, convex=True)  # rank one, badly scaled
    for domain in (sets.Simplex(30), sets.L1Ball(30), sets.L2Ball(30)):
        res = dcfw.minimize(f - functions.SquaredNorm(1e-3), domain, tol=0.0, maxiter=50, max_inner=100)
        assert res.status is not Status.NOT_CONVEX


def test_at_the_limit_of_rounding_a_run_says_no_progress():
    f = functions.Quadratic(np.diag([1.0, 3.0]), np.array([0.1, -0.2]))
    res = dcfw.minimize(f, sets.L2Ball(2, radius=5.0), np.array([1.0, 1.0]), tol=0.0, maxiter=10**6)
    assert res.status in (Status.NO_PROGRESS, Status.CONVERGED)
    assert res.n_inner < 10**6
    np.testing.assert_allclose(res.x, [-0.1, 0.2 / 3], atol=1e-4)


# -- restarts -------------------------------------------------------------------------------------------


def many_minima():
    return functions.Smooth(
        lambda x: float((np.cos(9 * x) + 0.1 * x).sum()), lambda x: -9 * np.sin(9 * x) + 0.1, lipschitz=81.0
    )


def test_restarts_keep_the_best_and_report_all():
    domain = sets.Box(-1.0, 1.0, shape=3)
    kwargs = {"maxiter": 20, "max_inner": 50}
    single = dcfw.minimize(many_minima(), domain, **kwargs)
    res = dcfw.minimize(many_minima(), domain, restarts=6, rng=7, **kwargs)
    assert len(res.restart_values) == 6
    assert res.fun == min(res.restart_values)
    assert res.restart_values[0] == single.fun
    assert len(set(res.restart_values)) > 1
    assert res.total_time >= res.time
    assert "restarts: 6" in str(res)


@pytest.mark.parametrize("domain", [sets.Box(-1.0, 1.0, shape=9), Ball()], ids=["ours", "own"])
def test_restarts_are_seeded(domain):
    kwargs = {"maxiter": 20, "max_inner": 50, "restarts": 4, "x0": np.full(9, 0.05)}
    one = dcfw.minimize(many_minima(), domain, rng=3, **kwargs)
    two = dcfw.minimize(many_minima(), domain, rng=3, **kwargs)
    three = dcfw.minimize(many_minima(), domain, rng=np.random.default_rng(3), **kwargs)
    other = dcfw.minimize(many_minima(), domain, rng=4, **kwargs)
    assert one.restart_values == two.restart_values == three.restart_values
    assert one.restart_values != other.restart_values


def test_restarts_with_torch_start_in_torch():
    torch = pytest.importorskip("torch")
    x0 = torch.full((9,), 1 / 9, dtype=torch.float32)
    phi = quadratics(lambda a: torch.asarray(a, dtype=torch.float32))
    res = dcfw.minimize(phi, sets.Simplex(9), x0, restarts=3, rng=0, tol=1e-3, maxiter=100)
    assert isinstance(res.x, torch.Tensor)
    assert res.x.dtype == torch.float32


def test_the_time_limit_is_shared_by_all_restarts():
    res = dcfw.minimize(
        quadratics(), Slow(2e-3), restarts=1000, time_limit=0.05, tol=0.0, tolerance=1e-9, maxiter=4, rng=0
    )
    assert len(res.restart_values) < 30


# -- solver objects, inner loops -----------------------------------------------------------------------


def test_a_users_solver_and_inner_loop_are_used():
    from dcfw.solvers.loop import frank_wolfe
    from dcfw.solvers.problem import Problem

    loops = []

    def watched(*args, **kwargs):
        loops.append(kwargs["max_steps"])
        return frank_wolfe(*args, **kwargs)

    res = dcfw.minimize(quadratics(), sets.Simplex(9), inner=watched, max_inner=77, tol=1e-2)
    assert loops == [77] * (res.nit + 1)

    class Vertex:
        """Moves to the first vertex and stops."""

        name = "vertex"
        needs_split = False

        def solve(self, problem: Problem, run: Run) -> None:
            x = problem.x0
            while True:
                S, gap = run.lmo(run.grad_f(problem.phi, x), x)
                run.visit(x, run.value(problem.phi, x), gap)
                x = S.dense()
                run.end_outer_step()

    res = dcfw.minimize(quadratics(), sets.Simplex(9), method=Vertex(), maxiter=1, tol=0.0)
    assert res.method == "vertex"
    assert res.status is Status.MAXITER
    assert res.n_lmo == 2


def test_splits_give_different_algorithms_with_equal_stationarity():
    phi = functions.Quadratic(parts()[0] - 2 * parts()[2], parts()[1])
    domain = sets.L2Ball(9)
    for dc in (splits.sliding(phi), splits.proximal(phi), splits.strengthen(splits.proximal(phi), 1.0)):
        res = dcfw.minimize(dc, domain, tol=1e-4)
        assert res.success
        assert res.split == dc.name
        grad = phi.grad(res.x)
        assert grad @ (res.x - domain.lmo(grad)) <= 1.0001e-4


def test_step_rules_as_objects_and_names_are_the_same():
    kwargs = {"maxiter": 5, "tol": 0.0}
    named = dcfw.minimize(quadratics(), sets.Simplex(9), step="short", **kwargs)
    given = dcfw.minimize(quadratics(), sets.Simplex(9), step=steps.Short(), **kwargs)
    np.testing.assert_array_equal(named.x, given.x)


def test_import_is_light():
    code = (
        "import sys, dcfw\n"
        "heavy = ['numba', 'torch', 'matplotlib', 'pandas', 'rich', 'scipy.optimize', 'networkx', 'joblib']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_numpy_solve_loads_no_framework():
    code = (
        "import sys, numpy as np, dcfw\n"
        "from dcfw import functions, sets\n"
        "dcfw.minimize(functions.SquaredNorm() - functions.L1Norm(), sets.L2Ball(3))\n"
        "heavy = ['numba', 'torch', 'matplotlib', 'pandas', 'rich', 'networkx']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("domain", "options", "remembers"),
    [
        (sets.Simplex(9), {}, True),
        (
            sets.Product([sets.Box(-1.0, 1.0, 5), sets.L1Ball(4)]),
            {"method": "block"},
            False,
        ),  # atoms by block
        (sets.L1Ball(9), {"method": "boosted"}, True),
        (sets.Birkhoff(3), {}, True),
        (sets.L2Ball(9), {}, False),
        (sets.LpBall(9, p=1.5), {}, False),
        (sets.LpBall(9, p=1), {}, True),
        (sets.Simplex(9), {"inner": "fw"}, False),
        (sets.Simplex(9), {"step": "short"}, False),
        (sets.Simplex(9), {"method": "fw"}, False),
        (sets.Simplex(9), {"method": "fw-k"}, False),
        (sets.Simplex(9), {"method": "cgs"}, False),
    ],
)
def test_dc_fw_keeps_an_active_set_by_default_just_on_polytopes_with_exact_steps(domain, options, remembers):
    res = dcfw.minimize(quadratics(), domain, rtol=0.1, maxiter=40, **options)
    assert (res.get("active_set") is not None) == remembers


def test_dropped_vertices_leave_exact_zeros_behind():
    res = dcfw.minimize(quadratics(), sets.Simplex(9), tol=1e-8)
    assert res.success
    in_use = {int(np.argmax(atom.dense())) for atom in res.active_set.atoms}
    assert set(np.flatnonzero(res.x)) <= in_use
    assert len(in_use) < 9


def test_a_difference_that_overflows_ends_the_run():
    big = 1.5e308
    f = functions.Smooth(lambda x: big, lambda x: x, lipschitz=1.0)
    g = functions.Smooth(lambda x: -big, lambda x: 0.0 * x, lipschitz=1.0)
    res = dcfw.minimize(f - g, sets.L2Ball(2), np.array([1.0, 0.0]))
    assert res.status is Status.BAD_ORACLE
    assert "phi is inf in outer step 1" in res.message


def test_a_run_that_ends_inside_an_inner_loop_returns_its_last_point_if_that_is_better():
    calls = 0

    def grad(x):
        nonlocal calls
        calls += 1
        return x - target if calls < 8 else np.full(3, np.nan)

    target = np.array([0.5, 0.3, 0.2])
    f = functions.Smooth(lambda x: 0.5 * float((x - target) @ (x - target)), grad, lipschitz=1.0, convex=True)
    x0 = np.array([1.0, 0.0, 0.0])
    res = dcfw.minimize(f - functions.Zero(), sets.Simplex(3), x0, inner="fw", step="short", tolerance=1e-9)
    assert res.status is Status.BAD_ORACLE
    assert res.nit == 0
    assert res.fun == pytest.approx(f.value(res.x))
    assert res.fun < 0.5 * f.value(x0)
    assert math.isnan(res.gap)


def test_a_value_that_is_not_a_number_is_named_with_its_type():
    f = functions.Smooth(lambda x: 0.0, lambda x: x, lipschitz=1.0)
    f.value = lambda x: "low"
    res = dcfw.minimize(f - functions.Zero(), sets.L2Ball(2), np.array([1.0, 0.0]))
    assert res.status is Status.BAD_ORACLE
    assert "f.value returned an object of type str" in res.message


def test_an_exception_carries_the_best_point_so_far_with_its_value_and_gap():
    calls = []

    def grad(x):
        calls.append(1)
        if len(calls) > 2:
            raise ArithmeticError("out of order")
        return 2.0 * (x - 0.3)

    phi = functions.Smooth(lambda x: float(((x - 0.3) ** 2).sum()), grad, lipschitz=2.0)
    with pytest.raises(ArithmeticError) as caught:
        dcfw.minimize(phi, sets.Simplex(3), np.eye(3)[0], method="fw", step="open-loop")
    best = caught.value.intermediate_result
    assert best.fun == pytest.approx(phi.value(best.x))
    grad_there = 2.0 * (best.x - 0.3)
    assert best.gap == pytest.approx(grad_there @ best.x - grad_there.min())


def test_frank_wolfe_asks_for_the_value_of_its_start_once():
    asked = []

    def value(x):
        asked.append(x.tobytes())
        return float((x**4).sum())

    x0 = np.array([0.7, 0.2, 0.1])
    phi = functions.Smooth(value, lambda x: 4.0 * x**3, lipschitz=12.0)
    dcfw.minimize(phi, sets.Simplex(3), x0, method="fw", step="open-loop", maxiter=4)
    assert asked.count(x0.tobytes()) == 1
    assert len(asked) == 6  # five iterates, and the value of the result


def test_a_set_whose_vertex_is_not_finite_is_blamed():
    oracle = Oracle(SimpleNamespace(lmo=lambda G: np.full(3, math.nan), contains=bool, start=list))
    with pytest.raises(Stop) as caught:
        a_run(oracle).lmo(np.ones(3), np.eye(3)[0])
    assert caught.value.detail.startswith("the set's lmo returned NaN or Inf in outer step 1")


def a_run(oracle, **options):
    limits = {"goal": Goal(0.0, 0.0), "maxiter": 9, "max_inner": 9, "max_lmo": None, "time_limit": None}
    return Run(functions.SquaredNorm(), oracle, np.eye(3)[0], **(limits | options))


def test_the_gap_covers_what_an_inexact_oracle_may_have_missed():
    oracle = sets.Simplex(3).oracle()
    oracle.error = 0.25
    _, gap = a_run(oracle).lmo(np.array([2.0, 1.0, 0.0]), np.eye(3)[0])
    assert gap == 2.25


def test_a_step_is_settled_while_the_budget_has_two_more_calls_of_the_oracle():
    run = a_run(sets.Simplex(3).oracle(), max_lmo=10)
    run.keeper = SimpleNamespace(outer_step=lambda state, settled: settled)
    for run.ledger.n_lmo, settled in ((0, True), (8, True), (9, False), (10, False)):
        assert run.outer_step() is settled
    run.ledger.n_lmo = 0
    assert run.outer_step(settled=False) is False
