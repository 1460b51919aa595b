"""The figures that compare methods agree with hand computation and with SciPy."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dcfw_studies.statistics import (
    Interval,
    Score,
    pairwise_wins,
    performance_profile,
    t_interval,
    win_loss_tie,
)

values = st.floats(-1e6, 1e6)


def test_a_t_interval_by_hand():
    # Mean 3, standard deviation 1, n = 4, t(0.95; 3) = 2.353363: half width 2.353363 / 2.
    x = 3.0 + np.array([1.0, -1.0, 0.5, -0.5]) * math.sqrt(3 / 2.5)
    mean, low, high = t_interval(x)
    assert mean == pytest.approx(3.0)
    assert (high - low) / 2 == pytest.approx(2.3533634348 / 2, rel=1e-9)


@given(arrays(float, st.integers(2, 20), elements=values), st.floats(0.5, 0.999))
def test_a_t_interval_is_scipys(x, confidence):
    assume(np.std(x) > 1e-6)
    expected = stats.t.interval(confidence, len(x) - 1, loc=np.mean(x), scale=stats.sem(x))
    assert t_interval(x, confidence)[1:] == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_t_intervals_at_the_ends():
    assert t_interval([2.0]) == Interval(2.0, -math.inf, math.inf)
    assert t_interval([2.0, 2.0, 2.0]) == Interval(2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="empty"):
        t_interval([])
    with pytest.raises(ValueError, match="NaN"):
        t_interval([1.0, math.nan])
    with pytest.raises(ValueError, match="confidence"):
        t_interval([1.0, 2.0], confidence=90)


def test_a_t_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = [low <= 0 <= high for _, low, high in (t_interval(rng.standard_normal(10)) for _ in range(2000))]
    # 2000 trials at 0.9: the standard deviation of the mean is 0.0067.
    assert abs(np.mean(hits) - 0.90) < 4 * 0.0067


def test_wins_losses_and_ties_by_hand():
    assert win_loss_tie([1, 5, 2, math.inf, math.inf], [2, 4, 2, 1, math.inf]) == Score(1, 2, 2)
    # Exact integers beyond the precision of a double are compared as integers.
    assert win_loss_tie([2**53], [2**53 + 1]) == Score(1, 0, 0)


@given(st.data(), st.integers(1, 20))
def test_wins_of_one_are_losses_of_the_other(data, n):
    a = data.draw(arrays(int, n, elements=st.integers(0, 3)))
    b = data.draw(arrays(int, n, elements=st.integers(0, 3)))
    wins, losses, ties = win_loss_tie(a, b)
    assert win_loss_tie(b, a) == (losses, wins, ties)
    assert wins + losses + ties == n
    assert win_loss_tie(a, a) == (0, 0, n)


def test_a_comparison_of_different_instances_is_refused():
    with pytest.raises(ValueError, match="b must have shape"):
        win_loss_tie([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="NaN"):
        win_loss_tie([1.0], [math.nan])
    with pytest.raises(ValueError, match="'fw' must have shape"):
        pairwise_wins({"dcfw": [[1, 2]], "fw": [[1, 2], [3, 4]]})


def test_pairwise_wins_by_hand():
    # 3 instances x 2 seeds.  Seed 0: a < b on 2, b < a on 1.  Seed 1: a < b on 1, b < a on 0, 2 ties.
    table = {"a": [[1, 1], [1, 2], [5, 3]], "b": [[2, 1], [3, 3], [4, 3]]}
    wins = pairwise_wins(table)
    assert set(wins) == {("a", "b"), ("b", "a")}
    # t(0.95; 1) = tan(0.45 pi) = 6.313752; the standard error of {2, 1} is 1/2.
    half = math.tan(0.45 * math.pi) / 2
    assert wins["a", "b"] == pytest.approx((1.5, 1.5 - half, 1.5 + half))
    assert wins["b", "a"] == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_a_performance_profile_by_hand():
    # Ratios: a 1, 2, 1, inf, inf; b 4, 1, 1, 1, inf.
    profile = performance_profile(
        {"a": [1.0, 6.0, 5.0, math.inf, math.inf], "b": [4.0, 3.0, 5.0, 7.0, math.inf]}
    )
    tau = [1.0, 2.0, 4.0]
    assert profile["a"][0].tolist() == profile["b"][0].tolist() == tau
    assert profile["a"][1].tolist() == [0.4, 0.6, 0.6]
    assert profile["b"][1].tolist() == [0.6, 0.6, 0.8]


@given(st.integers(1, 4), st.integers(1, 8), st.data())
def test_a_performance_profile_is_its_definition(methods, instances, data):
    elements = st.integers(1, 6).map(float) | st.just(math.inf)
    costs = {f"m{k}": data.draw(arrays(float, instances, elements=elements)) for k in range(methods)}
    profile = performance_profile(costs)
    for method, (tau, rho) in profile.items():
        assert np.all(np.diff(tau) > 0)
        assert tau[0] == 1.0
        for level, share in zip(tau, rho, strict=True):
            count = 0
            for p in range(instances):
                best = min(cost[p] for cost in costs.values())
                count += math.isfinite(costs[method][p]) and costs[method][p] / best <= level
            assert share == pytest.approx(count / instances)


@given(arrays(float, (3, 5), elements=st.floats(1e-3, 1e3)), st.floats(1e-3, 1e3))
def test_a_performance_profile_does_not_depend_on_the_unit_of_cost(table, unit):
    unit = 2.0 ** round(math.log2(unit))  # powers of two change no ratio by rounding
    first = performance_profile({str(k): row for k, row in enumerate(table)})
    second = performance_profile({str(k): row * unit for k, row in enumerate(table)})
    for method in first:
        np.testing.assert_array_equal(first[method], second[method])


def test_costs_without_a_ratio_are_refused():
    with pytest.raises(ValueError, match=r"costs\['a'\] must be positive"):
        performance_profile({"a": [0.0, 1.0]})
    with pytest.raises(ValueError, match="at least one method"):
        performance_profile({})
