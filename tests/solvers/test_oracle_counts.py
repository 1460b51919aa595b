"""Oracle calls, counted by the user's own objects: nothing is asked twice and nothing only for a report."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets, splits
from dcfw.solvers.cgs import CGS
from dcfw.solvers.fw_m import FWM

pytestmark = pytest.mark.usefixtures("no_second_gap")

N = 8


class Counted(functions.Function):
    """Counts what is asked of a function; the facts about it pass through."""

    def __init__(self, function, name, calls, *, free_value=True):
        self.function, self.name, self.calls, self.free_value = function, name, calls, free_value
        self.convex = True
        self.affine_grad = function.affine_grad and free_value
        self.differentiable = function.differentiable
        self.points = []

    @property
    def lipschitz(self):
        return self.function.lipschitz

    def value(self, x):
        self.calls[f"{self.name}.value"] += 1
        self.points.append(x.tobytes())
        return self.function.value(x)

    def grad(self, x):
        self.calls[f"{self.name}.grad"] += 1
        return self.function.grad(x)

    def grad_at(self, atom):
        if not self.affine_grad:
            return super().grad_at(atom)
        self.calls[f"{self.name}.grad"] += 1
        return self.function.grad_at(atom)

    def value_from_grad(self, x, grad):
        return self.function.value_from_grad(x, grad) if self.free_value else None


class CountedSet:
    def __init__(self, domain, calls):
        self.domain, self.calls = domain, calls
        self.shape, self.diameter = domain.shape, domain.diameter

    def lmo(self, G):
        self.calls["lmo"] += 1
        return self.domain.lmo(G)

    def contains(self, x):
        return self.domain.contains(x)

    def start(self):
        return self.domain.lmo(np.cos(np.arange(float(N))))


def problem(free_value=True, nonsmooth=False):
    calls = Counter()
    i = np.arange(float(N))
    M = np.cos(np.outer(i, i + 1.0)) + np.diag(1.0 + 0.1 * i)
    f = Counted(functions.Quadratic(M @ M.T / N, 0.2 * np.sin(i)), "f", calls, free_value=free_value)
    convex = functions.L1Norm(0.1) if nonsmooth else functions.SquaredNorm(0.2)
    g = Counted(convex, "g", calls)
    return f, g, CountedSet(sets.Simplex(N), calls), calls


def check_counters(res, calls):
    """The library's counters are the user's."""
    assert res.n_lmo == calls["lmo"]
    assert res.n_grad_f + res.n_resync == calls["f.grad"]
    assert res.n_grad_g == calls["g.grad"]
    assert res.n_fun == calls["f.value"]
    # The value of g comes with its subgradient, and once more in the value of the result.
    assert calls["g.value"] == calls["g.grad"] + 1


@pytest.mark.parametrize("nonsmooth", [False, True])
@pytest.mark.parametrize("step", ["exact", "open-loop", "short", "backtracking"])
def test_dcfw_on_a_quadratic_f_asks_for_nothing_twice(step, nonsmooth):
    f, g, domain, calls = problem(nonsmooth=nonsmooth)
    res = dcfw.minimize(f - g, domain, step=step, tol=1e-3)
    assert res.success
    assert res.nit > 2
    # One subgradient for each outer step, and one to test the point that is returned.
    assert res.n_grad_g == res.nit + 1
    # One vertex for each step, one that ends each inner loop, one that ends the run.
    assert res.n_lmo == res.n_inner + res.nit + 1
    # One gradient for each step, at the vertex, and the first.
    assert res.n_grad_f == res.n_inner + 1
    # The values come from the gradients; only the result's is computed.
    assert res.n_fun == 1
    check_counters(res, calls)


def test_fw_needs_one_gradient_and_one_vertex_for_each_step():
    f, _, domain, calls = problem()
    res = dcfw.minimize(f, domain, method="fw", tol=1e-3)
    assert res.success
    assert res.n_lmo == res.nit + 1 == calls["lmo"]
    assert res.n_grad_f == res.nit + 1 == calls["f.grad"]
    assert res.n_fun == 1 == calls["f.value"]
    assert res.n_grad_g == 0


@pytest.mark.parametrize("step", ["open-loop", "short"])
def test_dcfw_on_a_smooth_f_takes_one_gradient_a_step_and_one_value_an_outer_step(step):
    f, g, domain, calls = problem(free_value=False)
    res = dcfw.minimize(f - g, domain, step=step, tol=1e-2)
    assert res.success
    assert res.n_grad_g == res.nit + 1
    assert res.n_lmo == res.n_inner + res.nit + 1
    assert res.n_grad_f == res.n_inner + 1
    assert res.n_fun == res.nit + 2
    check_counters(res, calls)


def test_a_backtracking_step_hands_its_value_and_gradient_on():
    f, g, domain, calls = problem(free_value=False)
    res = dcfw.minimize(f - g, domain, step="backtracking", tol=1e-2)
    assert res.success
    assert res.n_grad_f == res.n_inner + 1  # trials cost values only
    check_counters(res, calls)
    assert len(f.points) == len(set(f.points)) + 1  # only the result's value is of a known point


def test_a_line_search_hands_its_gradient_on():
    f, g, domain, calls = problem(free_value=False)
    res = dcfw.minimize(f - g, domain, step="exact", tol=1e-2)
    assert res.success
    # A quadratic is minimal where the secant says: the far end and the hit, at most.
    assert res.n_grad_f <= 2 * res.n_inner + 1
    assert res.n_fun == res.nit + 2
    check_counters(res, calls)


def test_fw_k_asks_once_for_each_step():
    f, g, domain, calls = problem()
    res = dcfw.minimize(f - g, domain, method="fw-k", tol=1e-2, maxiter=5000)
    assert res.n_lmo == res.n_grad_f == res.n_grad_g == res.nit + 1
    assert res.n_fun == 1
    check_counters(res, calls)


def test_fw_m_uses_the_accepted_value_again():
    f, g, domain, calls = problem()
    values = []

    class Phi(functions.DC):
        def value(self, x):
            values.append(x.tobytes())
            return super().value(x)

    res = dcfw.minimize(Phi(f, g), domain, method=FWM(L=1.0), tol=1e-2, maxiter=5000)
    assert res.success
    assert res.n_lmo == res.n_grad_f == res.n_grad_g == res.nit + 1
    assert res.n_fun == len(values) == calls["f.value"]
    # No point twice, but for the one that is returned.
    assert len(set(values)) == len(values) - 1


def test_sliding_takes_one_gradient_of_p_for_each_outer_step():
    calls = Counter()
    i = np.arange(float(N))
    M = np.cos(np.outer(i, i + 1.0))
    p = Counted(functions.Quadratic(M @ M.T / N, 0.2 * np.sin(i)), "p", calls)
    domain = CountedSet(sets.Simplex(N), calls)
    phi = p - functions.L1Norm(0.1)
    res = dcfw.minimize(splits.sliding(phi), domain, tol=1e-3)
    assert res.success
    assert res.n_inner > res.nit > 2
    assert calls["p.grad"] == res.nit + 1 == res.n_grad_g
    assert calls["lmo"] == res.n_lmo == res.n_inner + res.nit + 1


def test_cgs_takes_one_gradient_of_phi_for_each_outer_step():
    for method in (CGS(), CGS(momentum=True)):
        f, _, domain, calls = problem()
        res = dcfw.minimize(f, domain, method=method, tol=1e-2)
        assert res.success
        assert calls["f.grad"] == res.n_grad_f == res.nit + 1
        assert calls["lmo"] == res.n_lmo
    f, _, domain, calls = problem()
    res = dcfw.minimize(f, domain, method="cgs", tol=1e-2)
    assert res.n_lmo == res.n_inner + res.nit + 1


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
@pytest.mark.parametrize("limit", [{"maxiter": 3}, {"max_lmo": 9}, {"maxiter": 0}])
def test_counters_agree_when_a_budget_ends_the_run(method, limit):
    f, g, domain, calls = problem()
    objective = f if method in ("fw", "cgs") else f - g
    res = dcfw.minimize(objective, domain, method=method, tol=0.0, **limit)
    assert res.n_lmo == calls["lmo"]
    assert res.n_grad_f == calls["f.grad"]
    assert res.n_grad_g == calls["g.grad"]
    assert res.n_fun == calls["f.value"]


def test_a_callback_costs_no_oracle_calls():
    counts = []
    for callback in (None, lambda intermediate_result: str(intermediate_result)):
        f, g, domain, calls = problem()
        dcfw.minimize(f - g, domain, callback=callback, tol=1e-3)
        counts.append(dict(calls))
    assert counts[0] == counts[1]


def test_resynchronising_gradients_are_counted_apart():
    f, g, domain, calls = problem()
    res = dcfw.minimize(f - g, domain, step="open-loop", tolerance=1e-15, tol=0.0, max_inner=1500, maxiter=2)
    assert res.n_inner == 3000
    assert res.n_resync == 3
    check_counters(res, calls)
