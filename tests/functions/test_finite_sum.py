"""Finite sums and streams: batches are unbiased, the batch of everything is exact, constants hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import functions, gaps, sets
from dcfw.functions import FiniteSum, Stream

M, N = 12, 5
RNG = np.random.default_rng(7)
A = RNG.standard_normal((M, N)) * (RNG.random((M, N)) < 0.6)
B = RNG.standard_normal(M)
Y = np.where(B > 0, 1.0, -1.0)
ROWS, COLS = RNG.integers(0, 3, M), RNG.integers(0, 4, M)


def by_hand():
    return FiniteSum(
        M,
        value=lambda x: float(np.cos(A @ x - B).mean()),
        batch_grad=lambda x, i: -A[i].T @ np.sin(A[i] @ x - B[i]) / len(i),
        lipschitz=float(np.linalg.norm(A, 2) ** 2 / M),
        lipschitz_max=float((A * A).sum(axis=1).max()),
    )


SUMS = {
    "logistic": (FiniteSum.logistic(A, Y), (N,)),
    "sparse logistic": (FiniteSum.logistic(sp.coo_array(A), Y), (N,)),
    "least squares": (FiniteSum.least_squares(A, B), (N,)),
    "sparse least squares": (FiniteSum.least_squares(sp.csr_array(A), B), (N,)),
    "completion": (FiniteSum.completion((3, 4), ROWS, COLS, B), (3, 4)),
    "callables": (by_hand(), (N,)),
}
every_sum = pytest.mark.parametrize("name", SUMS)


@every_sum
def test_a_batch_of_everything_is_the_gradient(name):
    F, shape = SUMS[name]
    x = np.random.default_rng(1).standard_normal(shape)
    everything = np.random.default_rng(2).permutation(M)
    np.testing.assert_allclose(F.batch_grad(x, everything), F.grad(x), atol=1e-14)
    np.testing.assert_array_equal(F.batch_grad(x, None), F.grad(x))
    value, slope, _ = F.batch_linearise(x, everything)
    assert value == pytest.approx(F.value(x))
    np.testing.assert_allclose(slope, F.grad(x), atol=1e-14)


@every_sum
def test_the_mean_over_single_components_is_the_gradient(name):
    F, shape = SUMS[name]
    x = np.random.default_rng(1).standard_normal(shape)
    mean = sum(F.batch_grad(x, np.array([i])) for i in range(M)) / M
    np.testing.assert_allclose(mean, F.grad(x), atol=1e-14)


@every_sum
def test_gradients_are_the_finite_differences(name):
    F, shape = SUMS[name]
    rng = np.random.default_rng(3)
    x, d = rng.standard_normal((2, *shape))
    slope = (F.value(x + 1e-6 * d) - F.value(x - 1e-6 * d)) / 2e-6
    assert np.vdot(F.grad(x), d) == pytest.approx(slope, abs=1e-8)


@every_sum
@given(seed=st.integers(0, 10**6))
def test_the_lipschitz_constants_hold_for_the_mean_and_for_each_component(name, seed):
    F, shape = SUMS[name]
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0.0, 3.0, (2, *shape))
    distance = np.linalg.norm(x - y)
    assert np.linalg.norm(F.grad(x) - F.grad(y)) <= F.lipschitz * distance + 1e-10
    for i in range(M):
        change = F.batch_grad(x, np.array([i])) - F.batch_grad(y, np.array([i]))
        assert np.linalg.norm(change) <= F.lipschitz_max * distance + 1e-10


def test_ready_made_sums_are_the_losses_they_are_named_after():
    x = np.random.default_rng(1).standard_normal(N)
    logistic, whole = SUMS["logistic"][0], functions.LogisticLoss(A, Y)
    assert logistic.value(x) == pytest.approx(whole.value(x))
    np.testing.assert_allclose(logistic.grad(x), whole.grad(x), atol=1e-15)
    assert logistic.lipschitz == pytest.approx(whole.lipschitz)
    assert SUMS["least squares"][0].value(x) == pytest.approx(functions.LeastSquares(A, B).value(x) / M)


def test_logistic_losses_do_not_overflow():
    F = FiniteSum.logistic(np.array([[1.0], [1.0]]), [1, -1])
    assert F.value(np.array([1e4])) == pytest.approx(5e3)
    np.testing.assert_allclose(F.grad(np.array([1e4])), [0.5])


def test_the_gradient_of_a_completion_batch_is_zero_off_its_entries():
    F = FiniteSum.completion((3, 4), [0, 2, 0], [1, 3, 1], [1.0, 2.0, 5.0])
    G = F.batch_grad(np.zeros((3, 4)), np.array([0, 2]))
    assert np.flatnonzero(G).tolist() == [1]
    assert G[0, 1] == -3.0  # observed twice: the mean of both
    assert F.lipschitz == pytest.approx(2 / 3)


def test_a_draw_has_different_indices_and_is_uniform():
    F, rng = SUMS["logistic"][0], np.random.default_rng(0)
    counts = np.zeros(M)
    for _ in range(3000):
        batch = F.draw(rng, 4)
        assert len(set(batch.tolist())) == 4
        counts[batch] += 1
    np.testing.assert_allclose(counts / 3000, 4 / M, atol=0.05)
    assert F.draw(rng, M) is None


def test_deterministic_methods_take_a_finite_sum_as_any_function():
    F, mean = SUMS["least squares"][0], functions.LeastSquares(A / np.sqrt(M), B / np.sqrt(M))
    ours, theirs = (dcfw.minimize(phi, sets.L1Ball(N, 0.5), tol=1e-8, inner="blended") for phi in (F, mean))
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-6)


def test_torch_data_stay_torch():
    torch = pytest.importorskip("torch", reason="needs torch")
    F = FiniteSum.logistic(torch.asarray(A), torch.asarray(Y))
    x = torch.ones(N, dtype=torch.float64)
    G = F.batch_grad(x, np.array([1, 4]))
    assert isinstance(G, torch.Tensor)
    np.testing.assert_allclose(G.numpy(), SUMS["logistic"][0].batch_grad(np.ones(N), np.array([1, 4])))


def test_a_stream_reports_on_samples_it_has_kept_aside():
    F = Stream(
        draw=lambda rng, size: rng.normal(1.0, 1.0, (size, 2)),
        batch_grad=lambda x, batch: x - batch.mean(axis=0),
        batch_value=lambda x, batch: 0.5 * ((x - batch) ** 2).sum(axis=1).mean(),
        holdout=500,
    )
    assert F.holdout.shape == (500, 2)
    np.testing.assert_allclose(F.grad(np.zeros(2)), -F.holdout.mean(axis=0))
    assert F.value(np.ones(2)) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("seed", range(50))
def test_the_samples_kept_aside_are_not_those_of_a_run_of_any_small_seed(seed):
    F = Stream(lambda rng, size: rng.random(size), lambda x, batch: x, lambda x, batch: 0.0, holdout=200)
    assert not set(F.holdout) & set(F.draw(np.random.default_rng(seed), 200))
    again = Stream(F.draw, lambda x, batch: x, lambda x, batch: 0.0, holdout=200)
    np.testing.assert_array_equal(again.holdout, F.holdout)  # the same in every process


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FiniteSum(0, len, len), ValueError, "m must"),
        (lambda: FiniteSum(3, 1.0, len), TypeError, "value must be callable"),
        (lambda: FiniteSum(3, len, None), TypeError, "batch_grad must be callable"),
        (lambda: FiniteSum(3, len, len, lipschitz=-1.0), ValueError, "lipschitz"),
        (lambda: FiniteSum.logistic(A, np.zeros(M)), ValueError, "labels"),
        (lambda: FiniteSum.logistic(A, Y[:-1]), ValueError, "y must have shape"),
        (lambda: FiniteSum.completion((3, 4), ROWS, COLS + 4, B), ValueError, "cols must be between"),
        (lambda: FiniteSum.completion((3, 4), ROWS + 0.5, COLS, B), ValueError, "rows must hold"),
        (lambda: by_hand().batch_grad(np.ones(N), np.array([M])), ValueError, "indices must be between"),
        (lambda: by_hand().batch_grad(np.ones(N), np.array([-1])), ValueError, "got -1"),
        (lambda: by_hand().batch_grad(np.ones(N), np.array([], dtype=int)), ValueError, "non-empty"),
        (lambda: Stream(None, len, len), TypeError, "draw must be callable"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def kinked(**stated):
    mean = {"value": lambda x: float(np.abs(x).sum()), "batch_grad": lambda x, batch: np.sign(x)}
    return functions.FiniteSum(3, **mean, **stated), functions.Stream(
        lambda rng, size: rng.random(size), mean["batch_grad"], lambda x, batch: mean["value"](x), **stated
    )


def test_samples_that_nobody_calls_smooth_may_have_kinks():
    f, ball, zero = functions.Quadratic(np.eye(2)), sets.LInfBall(2), np.array([1e-9, 0.0])
    for g in kinked(convex=True):
        assert gaps.dc_gap(f - 2 * g, ball, zero).low == 0.0
        g.differentiable = True
        assert gaps.dc_gap(f - 2 * g, ball, zero).low > 0.0
    for stated in ({"lipschitz": 1.0}, {"lipschitz_max": 1.0}):
        for g in kinked(**stated):
            assert g.linearise(zero).unique
            assert g.batch_linearise(zero, np.array([0])).unique
    for smooth in (
        functions.FiniteSum.least_squares(np.eye(2), zero),
        functions.FiniteSum.logistic(np.eye(2), np.ones(2)),
        functions.FiniteSum.completion((2, 1), [0, 1], [0, 0], [1.0, 2.0]),
    ):
        x = zero if hasattr(smooth, "A") else zero[:, None]
        assert smooth.linearise(x).unique
