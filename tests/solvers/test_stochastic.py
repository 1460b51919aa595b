"""Stochastic DC-FW and Frank-Wolfe: estimators, counts, certificates, and agreement with exact methods."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dcfw
from dcfw import Status, functions, sets, splits
from dcfw.functions import FiniteSum
from dcfw.solvers.estimators import ESTIMATORS, Minibatch, Samples
from dcfw.solvers.sampled import Sampled
from dcfw.solvers.stochastic import SFW, Stochastic

M, N = 60, 6
RNG = np.random.default_rng(11)
A = RNG.standard_normal((M, N))
Y = np.where(A @ np.array([2.0, -1.0, 0, 0, 0, 0]) + 0.5 * RNG.standard_normal(M) > 0, 1.0, -1.0)
LOSS = FiniteSum.logistic(A, Y)
BALL = sets.L1Ball(N, 5.0)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
both_methods = pytest.mark.parametrize("method", [Stochastic, SFW])


def penalised(penalty=None):
    return functions.lift(LOSS + (penalty or functions.MCP(0.05, 4.0)), BALL)


class Counting(FiniteSum):
    """A finite sum that counts the components whose gradient it is asked for."""

    def __init__(self):
        super().__init__(
            M, LOSS.value, self._counted, batch_value=self._batch_value, lipschitz=LOSS.lipschitz
        )
        self.asked = 0

    def grad(self, x):
        self.asked += M
        return LOSS.grad(x)

    def _counted(self, x, indices):
        self.asked += len(indices)
        return LOSS.batch_grad(x, indices)

    def _batch_value(self, x, indices):
        return LOSS.batch_linearise(x, indices).value


# -- agreement with exact methods -------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("inner", ["fw", "blended"])
@pytest.mark.parametrize("penalty", [functions.MCP(0.05, 4.0), functions.L1MinusL2(0.05)], ids=repr)
def test_with_full_batches_it_is_sliding_dc_fw_iterate_by_iterate(estimator, inner, penalty):
    objective, domain = penalised(penalty)
    options = {"inner": inner, "tol": 1e-4, "maxiter": 40}
    points = {"ours": [], "exact": []}
    ours = dcfw.minimize(
        objective,
        domain,
        method=Stochastic(batch=M, estimator=estimator),
        callback=lambda r: points["ours"].append(r.x),
        **options,
    )
    exact = dcfw.minimize(
        splits.sliding(objective, L=objective.f.lipschitz),
        domain,
        callback=lambda r: points["exact"].append(r.x),
        **options,
    )
    assert len(points["exact"]) > 3
    np.testing.assert_array_equal(points["ours"], points["exact"])
    assert (ours.status, ours.nit, ours.n_lmo) == (exact.status, exact.nit, exact.n_lmo)
    assert ours.gap == exact.gap
    assert ours.n_samples == (ours.nit + 1) * M
    assert ours.conditional == ""


def test_with_full_batches_sfw_is_frank_wolfe():
    ours = dcfw.minimize(LOSS, BALL, method=SFW(batch=M), tol=0.0, maxiter=30)
    exact = dcfw.minimize(LOSS, BALL, method="fw", step="open-loop", tol=0.0, maxiter=30)
    x = np.zeros(N)
    for t in range(30):
        x = x + 2.0 / (t + 2.0) * (BALL.lmo(LOSS.grad(x)) - x)
    np.testing.assert_allclose(ours.x, x, atol=1e-12)
    np.testing.assert_allclose(ours.history["gap"], exact.history["gap"], rtol=1e-9)


# -- estimators -------------------------------------------------------------------------------------------


def estimates(estimator, points, batch, seed, period=100):
    samples = Samples(LOSS, np.random.default_rng(seed))
    estimate = ESTIMATORS[estimator](samples, batch, 1.0, period)
    return [estimate(x).slope for x in points], samples.n_samples


@pytest.mark.parametrize("estimator", ["minibatch", "spider", "storm"])
def test_estimates_are_unbiased_on_a_fixed_path(estimator):
    points = [np.full(N, 0.2 * k) for k in range(4)]
    mean = np.mean([estimates(estimator, points, 5, seed)[0][-1] for seed in range(800)], axis=0)
    single = np.std([estimates("minibatch", points, 5, seed)[0][-1] for seed in range(200)], axis=0)
    np.testing.assert_allclose(mean, LOSS.grad(points[-1]), atol=5.0 * float(single.max()) / math.sqrt(800))


def test_momentum_is_on_average_a_moving_average_and_so_lags_behind():
    """The test of the other estimators can fail: after a jump this one is biased."""
    points = [np.zeros(N)] * 10 + [3.0 * np.eye(N)[0]]
    expected = LOSS.grad(points[0])
    for t, x in enumerate(points):
        rho = min(4.0 / (t + 8.0) ** (2.0 / 3.0), 1.0)
        expected = (1.0 - rho) * expected + rho * LOSS.grad(x)
    runs = np.array([estimates("momentum", points, 10, seed)[0][-1] for seed in range(500)])
    noise = 5.0 * float(runs.std(axis=0).max()) / math.sqrt(500)
    np.testing.assert_allclose(runs.mean(axis=0), expected, atol=noise)
    assert np.abs(runs.mean(axis=0) - LOSS.grad(points[-1])).max() > 2.0 * noise


@pytest.mark.parametrize("estimator", ["momentum", "spider", "storm"])
def test_on_a_slow_path_variance_reduction_beats_minibatches(estimator):
    points = [np.array([1.0, 0, 0, 0, 0, 0]) * (1.0 + 0.01 * k) for k in range(40)]
    truth = LOSS.grad(points[-1])

    def error(kind):
        return np.mean([np.sum((estimates(kind, points, 4, s)[0][-1] - truth) ** 2) for s in range(60)])

    assert error(estimator) < 0.5 * error("minibatch")


def test_the_error_of_storm_shrinks_on_the_way():
    points = [np.full(N, 0.3)] * 80
    runs = [estimates("storm", points, 4, seed)[0] for seed in range(60)]
    errors = [np.mean([np.sum((run[t] - LOSS.grad(points[0])) ** 2) for run in runs]) for t in (0, 20, 79)]
    assert errors[0] > 2.0 * errors[1] > 4.0 * errors[2]


def test_spider_is_exact_where_it_restarts_and_drifts_in_between():
    points = [np.full(N, 0.05 * k) for k in range(13)]
    slopes, _ = estimates("spider", points, 3, 0, period=6)
    errors = [np.linalg.norm(v - LOSS.grad(x)) for v, x in zip(slopes, points, strict=True)]
    assert max(errors[0], errors[6], errors[12]) < 1e-14
    assert min(errors[1:6]) > 1e-6


def test_batches_grow_geometrically_up_to_everything():
    samples = Samples(LOSS, np.random.default_rng(0))
    sizes = [Minibatch(samples, 4, 1.5, 1).size(t) for t in range(9)]
    assert sizes == [4, 6, 9, 14, 21, 31, 46, 60, 60]
    assert Minibatch(samples, 4, 1.5, 1).size(10**6) == M


def test_samples_are_counted_component_by_component():
    points = [np.full(N, 0.1 * k) for k in range(7)]
    assert estimates("minibatch", points, 5, 0)[1] == 7 * 5
    assert estimates("momentum", points, 5, 0)[1] == 7 * 5
    assert estimates("storm", points, 5, 0)[1] == 5 + 6 * 10
    assert estimates("spider", points, 5, 0, period=3)[1] == 3 * M + 4 * 10


# -- counts, certificates, budgets ------------------------------------------------------------------------


@both_methods
@every_estimator
@pytest.mark.parametrize("certify", [True, False])
def test_the_number_of_samples_is_what_the_function_was_asked_for(method, estimator, certify):
    F = Counting()
    res = dcfw.minimize(
        F, BALL, method=method(batch=7, estimator=estimator, certify=certify), rng=0, maxiter=15, tol=1e-12
    )
    assert res.n_samples == F.asked
    assert res.epochs == F.asked / M
    assert res.n_grad_f == 16


@both_methods
def test_the_gap_of_a_certified_run_is_the_true_gap(method):
    objective, domain = penalised()
    res = dcfw.minimize(objective, domain, method=method(batch=8, growth=1.0), rng=3, maxiter=20, tol=1e-9)
    assert res.status is Status.MAXITER
    assert res.gap == pytest.approx(dcfw.gaps.fw_gap(objective, domain, res.x), rel=1e-9)
    assert res.dc_gap == (0.0, res.gap)
    assert (res.history["dc_low"][-1], res.history["dc_high"][-1]) == res.dc_gap
    assert res.conditional == ""
    assert res.fun == pytest.approx(objective.value(res.x))


@both_methods
def test_what_is_added_to_the_sum_counts_in_its_values(method):
    objective = LOSS + functions.SquaredNorm(3.0)
    res = dcfw.minimize(objective, BALL, method=method(batch=8, growth=1.0), rng=3, maxiter=20, tol=1e-9)
    assert res.history["fun"][-1] == pytest.approx(objective.value(res.x), rel=1e-9)
    assert res.gap == pytest.approx(dcfw.gaps.fw_gap(objective, BALL, res.x), rel=1e-9)


@both_methods
def test_an_estimated_gap_is_marked_and_certifies_nothing(method):
    objective, domain = penalised()
    res = dcfw.minimize(
        objective, domain, method=method(batch=8, growth=1.0, certify=False), rng=3, maxiter=20, tol=1e-9
    )
    assert "estimate" in res.conditional
    assert res.dc_gap == (0.0, math.inf)
    assert "provided that" in str(res)


@every_estimator
def test_convergence_is_confirmed_with_the_whole_gradient(estimator):
    objective, domain = penalised()
    res = dcfw.minimize(
        objective,
        domain,
        method=Stochastic(batch=20, growth=1.1, estimator=estimator),
        inner="blended",
        rng=1,
        tol=1e-3,
        maxiter=2000,
    )
    assert res.success
    assert dcfw.gaps.fw_gap(objective, domain, res.x) <= 1e-3


@both_methods
@every_estimator
def test_the_same_seed_gives_the_same_run(method, estimator):
    objective, domain = penalised()

    def run(seed):
        return dcfw.minimize(
            objective, domain, method=method(batch=6, growth=1.0, estimator=estimator), rng=seed, maxiter=12
        )

    first, again, other = run(5), run(5), run(6)
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.history["gap"], again.history["gap"])
    assert not np.array_equal(first.x, other.x)


def test_methods_are_known_by_name_and_the_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for name in ("stochastic", "sfw"):
        res = dcfw.minimize(LOSS, BALL, method=name, rng=0, maxiter=5)
        assert res.method == name
        assert res.nit == 5
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@both_methods
def test_budgets_are_kept(method):
    objective, domain = penalised()
    short = {"rng": 0, "tol": 0.0, "maxiter": 10**6}
    res = dcfw.minimize(objective, domain, method=method(batch=6, growth=1.0), max_lmo=37, **short)
    assert res.status is Status.MAX_LMO
    assert res.n_lmo <= 37
    res = dcfw.minimize(objective, domain, method=method(batch=6, growth=1.0), time_limit=0.2, **short)
    assert res.status is Status.TIME_LIMIT
    assert domain.contains(res.x)
    res = dcfw.minimize(
        objective, domain, method=method(batch=6, growth=1.0, epochs=4, certify=False), **short
    )
    assert res.status is Status.MAXITER
    assert "4 epochs" in res.message
    assert 4 * M <= res.n_samples < 4 * M + 6 + 1


def test_confirmations_stay_within_the_budget_of_the_oracle():
    """A tolerance that estimates meet and the whole gradient does not: confirmations are asked for often."""
    for budget in range(3, 30):
        res = dcfw.minimize(
            LOSS,
            BALL,
            method=Stochastic(batch=1, growth=1.0, estimator="minibatch"),
            rng=0,
            tol=0.3,
            max_lmo=budget,
            maxiter=10**5,
        )
        assert res.n_lmo <= budget


@both_methods
def test_the_callback_sees_the_samples_and_can_stop_the_run(method):
    seen = []

    def callback(intermediate_result):
        seen.append((intermediate_result.n_samples, intermediate_result.epochs))
        if len(seen) == 4:
            raise StopIteration("enough")

    res = dcfw.minimize(LOSS, BALL, method=method(batch=6, growth=1.0), rng=0, tol=0.0, callback=callback)
    assert res.status is Status.CALLBACK
    assert [n for n, _ in seen] == [6, 12, 18, 24]
    assert res.n_samples == 24


def test_a_stream_is_minimised_and_says_that_its_gap_is_an_estimate():
    truth = np.array([1.0, -0.5, 0.0])
    F = functions.Stream(
        draw=lambda rng, size: truth + rng.standard_normal((size, 3)),
        batch_grad=lambda x, batch: x - batch.mean(axis=0),
        batch_value=lambda x, batch: 0.5 * ((x - batch) ** 2).sum(axis=1).mean(),
        lipschitz=1.0,
        lipschitz_max=1.0,
    )
    for estimator in ESTIMATORS:
        res = dcfw.minimize(
            F,
            sets.L1Ball(3, 2.0),
            method=Stochastic(batch=16, growth=1.1, estimator=estimator, epochs=200_000),
            inner="blended",
            rng=0,
            tol=1e-6,
        )
        np.testing.assert_allclose(res.x, truth, atol=0.03)
        assert "estimate" in res.conditional
        assert res.epochs == res.n_samples
        assert not res.success  # no tolerance of 1e-6 can be confirmed from so few samples


def test_matrix_completion_with_a_spectral_penalty_finds_the_planted_matrix():
    rng = np.random.default_rng(0)
    truth = np.outer(rng.standard_normal(12), rng.standard_normal(9))
    i, j = np.nonzero(rng.random(truth.shape) < 0.7)
    loss = FiniteSum.completion(truth.shape, i, j, truth[i, j])
    ball = sets.NuclearBall(truth.shape, 1.5 * np.linalg.norm(truth))
    objective, domain = functions.lift(loss + functions.MCP(0.01, 300.0, spectral=True), ball)
    res = dcfw.minimize(
        objective,
        domain,
        method=Stochastic(batch=10, epochs=150),
        tolerance="progress",
        max_inner=50,
        rng=0,
        maxiter=10**5,
    )
    X = domain.point(res.x)
    assert np.linalg.norm(X - truth) < 0.1 * np.linalg.norm(truth)


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stochastic(batch=0), "batch"),
        (lambda: Stochastic(growth=0.9), "growth"),
        (lambda: Stochastic(estimator="spyder"), "did you mean 'spider'"),
        (lambda: SFW(epochs=0.0), "epochs"),
        (lambda: SFW(period=0), "period"),
        (lambda: dcfw.minimize(LOSS, BALL, method=Stochastic(L=-1.0)), "L must"),
        (lambda: dcfw.minimize(LOSS, BALL, method=SFW(step="exact")), "must not look at values"),
        (lambda: dcfw.minimize(LOSS, BALL, method="sfw", inner="away"), "vanilla steps only"),
        (
            lambda: dcfw.minimize(functions.SquaredNorm(), BALL, method="stochastic"),
            "^objective must have one FiniteSum or Stream among its terms",
        ),
        (lambda: dcfw.minimize(LOSS + LOSS, BALL, method="stochastic"), "join several"),
        (lambda: dcfw.minimize(-1.0 * LOSS, BALL, method="stochastic"), "positive factor"),
        (
            lambda: dcfw.minimize(
                LOSS + functions.Convex(np.max, np.sign, differentiable=False), BALL, method="stochastic"
            ),
            "smooth except for the subtracted part",
        ),
        (
            lambda: dcfw.minimize(FiniteSum(2, lambda x: 0.0, lambda x, i: x), BALL, method="stochastic"),
            "needs a Lipschitz constant",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@both_methods
def test_a_value_that_is_not_a_number_ends_the_run(method):
    F = FiniteSum(5, lambda x: 0.0, lambda x, i: x, lipschitz=1.0, batch_value=lambda x, i: math.inf)
    res = dcfw.minimize(F, BALL, method=method(batch=2), rng=0)
    assert res.status is Status.BAD_ORACLE
    assert "the value of a batch returned inf" in res.message


@both_methods
def test_a_gradient_that_is_not_a_number_ends_the_run(method):
    F = FiniteSum(5, lambda x: 0.0, lambda x, i: x * np.nan, lipschitz=1.0, batch_value=lambda x, i: 0.0)
    res = dcfw.minimize(F, BALL, method=method(batch=2), rng=0)
    assert res.status is Status.BAD_ORACLE


def smoothness(source, batch):
    """Return the L that a run with batches of this size would use."""
    sampled = object.__new__(Sampled)
    sampled.method, sampled.weight, sampled.rest = Stochastic(batch=batch), 1.0, []
    sampled.samples = Samples(source, np.random.default_rng(0))
    sampled.estimator = ESTIMATORS["minibatch"](sampled.samples, batch, 1.0, 2)
    return sampled.smoothness()


@pytest.mark.parametrize("batch", [1, 2, 7, M - 1, M])
def test_the_constant_is_the_expected_smoothness_of_gower_et_al(batch):
    mean, worst = 2.0, 5.0
    source = FiniteSum(M, lambda x: 0.0, lambda x, i: x, lipschitz=mean, lipschitz_max=worst)
    expected = ((M - batch) * worst + (batch - 1) * M * mean) / (batch * (M - 1))
    assert smoothness(source, batch) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_the_constant_of_a_stream_is_the_limit_for_many_components(batch):
    mean, worst = 2.0, 5.0
    stream = functions.Stream(
        lambda rng, size: rng.random(size),
        lambda x, batch: x,
        lambda x, batch: 0.0,
        lipschitz=mean,
        lipschitz_max=worst,
    )
    assert smoothness(stream, batch) == pytest.approx(worst / batch + (1 - 1 / batch) * mean, rel=1e-14)


def test_a_stream_is_sampled_64_at_a_time_unless_told_otherwise():
    sizes = []

    def draw(rng, size):
        sizes.append(size)
        return rng.standard_normal((size, 3))

    stream = functions.Stream(
        draw,
        lambda x, batch: x - batch.mean(axis=0),
        lambda x, batch: 0.5 * float(((x - batch) ** 2).sum(axis=1).mean()),
        lipschitz=1.0,
    )
    method = Stochastic(growth=1.0, estimator="minibatch")
    dcfw.minimize(stream, sets.L1Ball(3), method=method, maxiter=2, tol=0.0, rng=0)
    assert sizes.count(64) == 3


def test_a_users_tolerance_is_first_asked_without_a_predecessor():
    asked = []

    class Halving:
        def next(self, eps, gap):
            asked.append(eps)
            return 0.5 * gap

        def enough(self, gap, eps, decrease):
            return gap <= eps

    dcfw.minimize(LOSS, BALL, method=Stochastic(batch=10), tolerance=Halving(), maxiter=3, rng=0)
    assert asked[0] is None
    assert all(eps > 0.0 for eps in asked[1:])


def test_a_period_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^period must be"):
        Stochastic(period=0)


# -- oracles that return something else, or end -----------------------------------------------------------


def faulty(grad=None, value=None):
    """A finite sum of squared distances with a callable put on its batch gradients or batch values."""
    c = np.outer(np.arange(10.0), [1.0, 2.0, 3.0])
    return FiniteSum(
        10,
        value=lambda x: 0.5 * ((x - c) ** 2).sum(axis=1).mean(),
        grad=lambda x: x - c.mean(axis=0),
        batch_grad=lambda x, i: (grad or np.asarray)(x - c[i].mean(axis=0)),
        batch_value=lambda x, i: (value or float)(0.5 * ((x - c[i]) ** 2).sum(axis=1).mean()),
        lipschitz=1.0,
    )


@both_methods
@every_estimator
@pytest.mark.parametrize("grad", [lambda G: G[:, None], lambda G: float(G[0]), lambda G: G[:1], list])
def test_a_batch_gradient_of_another_shape_is_a_bad_oracle(method, estimator, grad):
    start = method(batch=3, estimator=estimator, period=2)
    res = dcfw.minimize(faulty(grad), sets.Simplex(3), method=start, rng=1, maxiter=5)
    assert res.status is Status.BAD_ORACLE
    assert "batch_grad returned " in res.message
    assert "expected shape (3,)" in res.message


@both_methods
@pytest.mark.parametrize(
    "value", [lambda v: [v], lambda v: np.array([v, v]), lambda v: None, lambda v: np.nan]
)
def test_a_batch_value_that_is_not_a_finite_number_is_a_bad_oracle(method, value):
    res = dcfw.minimize(
        faulty(value=value), sets.Simplex(3), method=method(batch=3, estimator="minibatch"), rng=1, maxiter=5
    )
    assert res.status is Status.BAD_ORACLE
    assert "the value of a batch returned" in res.message


@both_methods
def test_a_smooth_term_with_a_gradient_of_another_shape_is_a_bad_oracle(method):
    term = functions.Smooth(lambda x: 0.0, lambda x: 0.0 * x[0], lipschitz=0.0)
    res = dcfw.minimize(faulty() + term, sets.Simplex(3), method=method(batch=3), rng=1, maxiter=5)
    assert res.status is Status.BAD_ORACLE
    assert "the gradient of" in res.message


@both_methods
@pytest.mark.parametrize("grad", [lambda G: np.asarray(G[0]), list])
def test_a_lifted_batch_gradient_of_another_shape_is_refused(method, grad):
    objective, domain = functions.lift(faulty(grad) + functions.MCP(0.1), sets.L1Ball(3))
    with pytest.raises(ValueError, match=r"batch_grad of .* must return an array of shape \(3,\)"):
        dcfw.minimize(objective, domain, method=method(batch=3), rng=1, maxiter=5)


@both_methods
def test_the_stop_iteration_of_a_stream_at_its_end_arrives_unchanged(method):
    batches, end = iter(np.ones((4, 2, 3))), StopIteration("the file is at its end")

    def draw(rng, size):
        for batch in batches:
            return batch
        raise end

    stream = functions.Stream(
        draw,
        lambda x, batch: x - batch.mean(axis=0),
        lambda x, batch: 0.5 * float(((x - batch) ** 2).sum(axis=1).mean()),
        lipschitz=1.0,
    )
    with pytest.raises(StopIteration) as caught:
        dcfw.minimize(stream, sets.L1Ball(3), method=method(growth=1.0), tol=0.0, rng=0)
    assert caught.value is end
    assert caught.value.intermediate_result.nit > 0


def test_an_l1_penalty_over_a_ball_is_lifted_for_sampled_gradients_too():
    phi = LOSS + 0.1 * functions.L1Norm()
    sampled, whole = dcfw.minimize(phi, BALL, method="stochastic", rng=0), dcfw.minimize(phi, BALL)
    assert sampled.success
    assert sampled.fun == pytest.approx(whole.fun, rel=1e-4)
