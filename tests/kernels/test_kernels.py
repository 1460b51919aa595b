"""The border of the compiled kernels, and the package without them."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dcfw import Status, kernels, minimize, qap
from dcfw.align.products import observed_product
from dcfw.kernels import lap
from dcfw.qap import faq
from dcfw.qap.compiled import pack
from dcfw.qap.quadratics import SPLITS, decompose, relaxation
from dcfw.sets import Birkhoff
from dcfw.sets.lap import Assignment

native = pytest.mark.skipif(kernels.native is None, reason="needs the compiled kernels")
any_float = st.floats(allow_nan=True, allow_infinity=True)


def problem(n, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.integers(0, 10, (n, n)), rng.integers(0, 10, (n, n))
    return A, B, rng


@pytest.fixture
def without(monkeypatch):
    monkeypatch.setattr(kernels, "native", None)


def both(monkeypatch, solve):
    """Return what a call gives with and without the extension."""
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "native", None)
        plain = solve()
    return solve(), plain


@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
@pytest.mark.parametrize("seed", range(4))
def test_qap_solve_without_the_extension_finds_the_same_permutation(method, seed, monkeypatch):
    A, B, rng = problem(9, seed)
    X0 = Birkhoff(9).random(rng, scale=0.01)
    compiled, plain = both(
        monkeypatch, lambda: qap.solve(A, B, method=method, init=X0, inner="fw", max_lmo=300)
    )
    assert plain.fun == compiled.fun
    np.testing.assert_array_equal(plain.permutation, compiled.permutation)
    assert plain.n_lmo == compiled.n_lmo
    assert plain.relaxed_fun == pytest.approx(compiled.relaxed_fun, rel=1e-9)


@pytest.mark.parametrize("split", SPLITS)
def test_active_sets_without_the_extension_meet_the_same_stop(split, monkeypatch):
    A, B, rng = problem(8, 5)
    X0 = Birkhoff(8).random(rng, scale=0.01)
    for result in both(monkeypatch, lambda: qap.solve(A, B, split=split, init=X0, inner="blended")):
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-3 * result.history["gap"][0] + 1e-9
        assert result.fun == qap.evaluate(A, B, result.permutation)


@pytest.mark.parametrize("seed", range(6))
def test_faq_without_the_extension_makes_the_same_steps(seed, monkeypatch):
    # A few steps: exact line searches leave the ends of a segment with equal slopes, and rounding decides.
    rng = np.random.default_rng(seed)
    (A, B), P = rng.random((2, 11, 11)), Birkhoff(11).random(rng, scale=0.05)
    (X, nit), (Y, other) = both(monkeypatch, lambda: faq.faq(A, B, None, P, maxiter=5, tol=0.03))
    assert nit == other
    np.testing.assert_allclose(X, Y, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_over_observed_entries_are_the_same_without_the_extension(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    words, X = rng.standard_normal((40, 33)).astype(dtype), rng.standard_normal((6, 33)).astype(dtype)
    counts = [0, 3, 40, 1, 0, 7]
    starts = np.cumsum([0, *counts])
    indices = np.concatenate([rng.permutation(40)[:k] for k in counts])
    compiled, plain = both(monkeypatch, lambda: observed_product(words, starts, indices, X))
    assert compiled.dtype == plain.dtype == dtype
    np.testing.assert_allclose(
        compiled, plain, rtol=100 * np.finfo(dtype).eps, atol=100 * np.finfo(dtype).eps
    )


def test_a_missing_extension_is_named_once_with_a_remedy_by_the_log_and_by_info():
    code = (
        "import sys; sys.modules['dcfw._kernels'] = None\n"
        "from dcfw.cli import app\n"
        "from dcfw import qap\n"
        "qap.solve([[0, 1], [1, 0]], [[0, 2], [2, 0]])\n"
        "app(['info', '--json'])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stderr.count("compiled kernels are missing") == 1
    assert "C++ compiler" in run.stderr
    assert json.loads(run.stdout)["kernels"] is False


@native
@given(st.integers(1, 9), st.integers(0, 9), st.booleans(), st.data())
def test_kernels_survive_any_numbers_in_their_arrays(n, steps, active, data):
    draw = lambda: data.draw(arrays(np.float64, (n, n), elements=any_float))  # noqa: E731
    f = kernels.native.Quadratic(n, data.draw(any_float))
    f.add_pair(draw(), draw())
    f.set_left(draw())
    f.set_linear(draw())
    solver = kernels.native.ActiveSet(n, 5) if active else kernels.native.FrankWolfe(n)
    X, grad, linear = draw(), draw(), data.draw(st.none() | st.just(draw()))
    if active:
        solver.restart(f, X, grad, forget=data.draw(st.booleans()))
    for _ in range(2):
        plan = kernels.native.Plan(
            steps=steps, threshold=data.draw(any_float), convex=data.draw(st.booleans())
        )
        batch = solver.advance(f, X, grad, linear, plan)
        assert 0 <= batch.steps <= steps
        assert len(batch.gaps) == len(batch.gains) <= batch.solved
    if active:
        solver.normalise(X)


@native
def test_matrices_of_other_sizes_kinds_and_layouts_are_refused():
    native = kernels.native
    f = native.Quadratic(4, 0.0)
    square, wrong = np.zeros((4, 4)), np.zeros((4, 5))
    plan = native.Plan(steps=1)
    solver, active = native.FrankWolfe(4), native.ActiveSet(4, 8)
    cases = [
        lambda: f.add_pair(square, wrong), lambda: f.add_thin(wrong, wrong.T, square),
        lambda: f.set_left(wrong),
        lambda: f.gradient(square, wrong), lambda: f.at_vertex(np.array([0, 1, 2, 4]), square),
        lambda: f.at_vertex(np.array([0, 1, -1, 2]), square), lambda: f.at_vertex(np.arange(3), square),
        lambda: solver.advance(f, wrong, square, None, plan),
        lambda: solver.advance(f, square, square, wrong, plan),
        lambda: solver.advance(native.Quadratic(5, 0.0), square, square, None, plan),
        lambda: solver.advance(f, square, square, None, native.Plan(steps=-1)),
        lambda: solver.advance(f, square, square, None, native.Plan(steps=1, started=True)),
        lambda: active.restart(f, wrong, square, True), lambda: active.normalise(wrong),
        lambda: native.ActiveSet(4, 3), lambda: native.FrankWolfe(0), lambda: native.Quadratic(0, 0.0),
        lambda: native.Lap(0),
        lambda: native.Lap(2**15 + 1),
        lambda: native.Lap(4).restore(np.zeros(3), np.arange(4), [0] * 5),
        lambda: native.Lap(4).restore(np.zeros(4), np.arange(4), [-1] * 5),
        lambda: native.observed_product(square, np.arange(5), np.array([0, 1, 2, 4]), square, square.copy()),
        lambda: native.observed_product(square, np.full(5, 9), np.arange(4), square, square.copy()),
    ]  # fmt: skip
    for case in cases:
        with pytest.raises(ValueError):
            case()
    for wrong in (
        np.zeros((4, 4), dtype=np.float32),
        np.zeros((8, 4))[::2],
        np.zeros((4, 4), order="F")[:, ::-1],
    ):
        with pytest.raises(TypeError):
            solver.advance(f, wrong, square, None, plan)


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=native), False])
def test_an_assignment_solver_refuses_arrays_that_it_would_misread(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(kernels, "native", None)
    solver = lap.solver(4)
    C = np.array([[1.0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 1]])
    assert solver.assign(C).tolist() == [1, 0, 3, 2]
    wrong = [
        C.astype(np.float32),
        C.astype(int),
        C[::-1],
        C.T,
        C[:3],
        C.ravel(),
        np.ma.array(C),
        C.astype(">f8"),
    ]
    assert [solver.assign(array) for array in wrong] == [None] * len(wrong)
    shifted = np.frombuffer(b" " + C.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 4)  # not aligned
    np.testing.assert_array_equal(Assignment(4)(shifted), [1, 0, 3, 2])


@native
@settings(max_examples=30)
@given(n=st.integers(2, 40), seed=st.integers(0, 10**6), split=st.sampled_from(SPLITS), few=st.booleans())
def test_gradients_at_a_permutation_are_those_at_its_matrix(n, seed, split, few):
    A, B, rng = problem(n, seed)
    if few:  # nonzero entries, which are then taken one by one
        A *= rng.random((n, n)) < 0.1
    p = rng.permutation(n)
    for f in (decompose(A, B, rng.random((n, n)), split).f, relaxation(A, B)):
        one, other, expected = np.empty((n, n)), np.empty((n, n)), f.grad(np.eye(n)[p])
        pack(f).at_vertex(p, one)
        pack(f).gradient(np.eye(n)[p], other)
        for found in (one, other):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.usefixtures("without")
def test_minimize_over_birkhoff_needs_no_extension():
    A, B, rng = problem(6, 1)
    result = minimize(decompose(A, B), Birkhoff(6), Birkhoff(6).random(rng), tol=1e-3)
    assert result.success
