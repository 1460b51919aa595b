"""Inner tolerances: each rule against its definition, and no rule ever makes a run spin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import functions, sets, tolerances

positive = st.floats(1e-12, 1e6)
betas = st.floats(0.01, 0.99)


def nothing() -> float:
    raise AssertionError("this rule needs no decrease")


def problem(n: int = 12):
    i = np.arange(n)
    A = np.diag(1.0 + i) + np.cos(np.add.outer(i, i))
    f = functions.Quadratic(A @ A.T / n, np.sin(i))
    g = functions.Quadratic(np.diag(2.0 + np.cos(i)))
    return f - g, sets.Simplex(n)


def test_a_fixed_tolerance_stays_and_breaks_at_half():
    rule = tolerances.Fixed(0.4)
    assert rule.next(None, 1.0) == 0.4
    assert rule.next(0.4, 0.21) == 0.4
    assert rule.enough(0.2, 0.4, nothing)
    assert not rule.enough(0.2000001, 0.4, nothing)


def test_a_fixed_tolerance_that_is_already_met_cannot_go_on():
    with pytest.raises(tolerances.NoProgress, match=r"fixed inner tolerance eps/2 = 0\.2.*lower eps"):
        tolerances.Fixed(0.4).next(0.4, 0.2)


@given(betas, positive)
def test_the_adaptive_rule_starts_at_beta_times_the_first_gap(beta, gap):
    assert tolerances.Adaptive(beta).next(None, gap) == beta * gap


@given(betas, positive, st.floats(1.0, 100.0))
def test_the_adaptive_rule_keeps_eps_while_the_gap_is_not_below_it(beta, eps, factor):
    assert tolerances.Adaptive(beta).next(eps, eps * factor) == eps


@given(betas, positive, st.floats(0.51, 0.99))
def test_the_text_shrinks_eps_and_the_published_code_shrinks_the_gap(beta, eps, fraction):
    gap = eps * fraction
    assert tolerances.Adaptive(beta).next(eps, gap) == beta * eps
    assert tolerances.Adaptive(beta, update="published").next(eps, gap) == beta * gap


@given(betas, positive, positive, st.sampled_from(["text", "published"]))
def test_the_adaptive_rule_never_lets_a_loop_end_before_its_first_step(beta, eps, gap, update):
    rule = tolerances.Adaptive(beta, update=update)
    assert not rule.enough(gap, rule.next(eps, gap), nothing)
    assert not rule.enough(gap, rule.next(None, gap), nothing)


def test_the_progress_rule_compares_the_gap_with_what_was_gained():
    rule = tolerances.Progress()
    assert rule.enough(0.5, 99.0, lambda: 0.5)
    assert not rule.enough(0.5, 0.0, lambda: 0.4999)
    assert rule.next(None, 3.0) == 3.0


@pytest.mark.parametrize("update", ["text", "published"])
@pytest.mark.parametrize("beta", [0.3, 0.8])
def test_a_run_follows_the_adaptive_rule_step_by_step(beta, update):
    phi, domain = problem()
    rule = tolerances.Adaptive(beta, update=update)
    res = dcfw.minimize(phi, domain, tolerance=rule, tol=2e-3)
    assert res.success
    gaps, eps = res.history["gap"], res.history["eps"]
    last = None
    for gap, used in zip(gaps[:-1], eps[:-1], strict=True):
        last = rule.next(last, gap)
        assert used == last
    assert (np.diff(eps[:-1]) <= 0).all()


def test_a_fixed_tolerance_ends_a_run_without_progress_and_says_why():
    phi, domain = problem()
    res = dcfw.minimize(phi, domain, tolerance=0.1, tol=1e-9)  # an eps far above tol
    assert res.status is dcfw.Status.NO_PROGRESS
    assert 0 < res.gap <= 0.05
    assert "eps/2 = 0.05" in res.message


class Stuck:
    """A user's own rule that is content with anything."""

    def next(self, eps, gap):
        return 1.0

    def enough(self, gap, eps, decrease):
        return True


class Thirds:
    """A user's own rule: three steps each time."""

    def __init__(self):
        self.count = 0

    def next(self, eps, gap):
        self.count = -1  # the run asks once whether the first gap already meets the rule
        return gap

    def enough(self, gap, eps, decrease):
        self.count += 1
        return self.count > 3


def test_a_rule_that_never_moves_does_not_spin():
    phi, domain = problem()
    res = dcfw.minimize(phi, domain, tolerance=Stuck())
    assert res.status is dcfw.Status.NO_PROGRESS
    assert res.n_lmo == 1


def test_a_users_rule_decides():
    phi, domain = problem()
    res = dcfw.minimize(phi, domain, tolerance=Thirds(), maxiter=4, tol=0.0)
    assert res.n_inner == 12


def test_names_and_numbers_resolve_to_rules():
    assert tolerances.resolve("adaptive") == tolerances.Adaptive()
    assert tolerances.resolve("progress") == tolerances.Progress()
    assert tolerances.resolve(1e-3) == tolerances.Fixed(1e-3)
    rule = tolerances.Adaptive(0.1)
    assert tolerances.resolve(rule) is rule


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_beta_must_lie_strictly_between_zero_and_one(beta):
    with pytest.raises(ValueError, match=r"beta must be a number in \(0, 1\)"):
        tolerances.Adaptive(beta)


def test_bad_tolerances_are_refused_by_name():
    with pytest.raises(TypeError, match="beta must be a real number"):
        tolerances.Adaptive("0.8")
    with pytest.raises(ValueError, match=r"update must be one of 'text', 'published'.*did you mean 'text'"):
        tolerances.Adaptive(0.8, update="texts")
    with pytest.raises(ValueError, match=r"eps must be a number in \(0"):
        tolerances.Fixed(0.0)
    with pytest.raises(ValueError, match=r"tolerance must be a number in \(0"):
        tolerances.resolve(-1.0)
    with pytest.raises(ValueError, match=r"tolerance must be one of.*did you mean 'adaptive'"):
        tolerances.resolve("adaptiv")
    with pytest.raises(TypeError, match="tolerance must be"):
        tolerances.resolve(None)
