"""One problem in two forms has one answer; see ``tests/cases/metamorphic.py`` for the forms."""

from __future__ import annotations

import inspect
import math
import sys
from collections import Counter

import numpy as np
import pytest

import dcfw
import metamorphic
import metamorphic_applications as applications
from dcfw import align, functions, gromov, qap, sets, traffic
from dcfw.solvers.choice import METHODS

BATCHES = 10


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_solver_gives_one_answer_to_one_problem_in_two_forms(batch):
    each = metamorphic.CASES_IN_TESTS // BATCHES
    verdicts = [metamorphic.check(seed) for seed in range(batch * each, (batch + 1) * each)]
    assert not any(v.wrong for v in verdicts), "\n".join(v.wrong for v in verdicts if v.wrong)
    assert sum(v.tie for v in verdicts) <= 0.1 * each


def test_every_method_and_transformation_is_among_the_cases():
    drawn = [metamorphic.draw(seed) for seed in range(metamorphic.CASES_IN_TESTS)]
    assert {problem.method for _, problem, _ in drawn} == set(METHODS)
    assert {name for name, _, _ in drawn} == set(metamorphic.TRANSFORMATIONS)
    assert len(Counter(repr(problem.domain) for _, problem, _ in drawn)) > 60


def test_every_public_solver_and_its_transformations_are_among_the_cases():
    seeds = range(metamorphic.CASES_IN_TESTS)
    assert {applications.draw(seed)[0] for seed in seeds} == set(applications.exact())
    covered = {dcfw.minimize, traffic.assign, *(family.door for family in applications.FAMILIES)}
    assert covered >= front_doors()  # traffic.assign hands its network on to minimize


def test_a_run_counts_exceptions_as_failures_and_goes_on_from_its_state(monkeypatch, capsys, tmp_path):
    def check(seed):
        if seed == 7:
            raise RuntimeError("no answer")
        return metamorphic.Verdict("sparse matrix", tie=seed == 8)

    state = tmp_path / "state.json"
    monkeypatch.setattr(metamorphic, "check", check)
    for cases in (3, 10):
        monkeypatch.setattr(sys, "argv", f"metamorphic --cases {cases} --seed 5 --state {state}".split())
        assert metamorphic.main() == 1
    said = capsys.readouterr().out
    assert said.count("seed 7: RuntimeError: no answer") == 1
    assert "3 cases from seed 5, 1 failures, 0 ties" in said
    assert "10 cases from seed 5, 1 failures, 1 ties" in said
    assert said.endswith("failing seeds: [7]\n")


def front_doors():
    """Return the public functions that Ctrl-C ends at a safe point: all that solve a problem."""
    modules = (dcfw, qap, align, gromov, traffic)
    public = [thing for module in modules for thing in vars(module).values() if inspect.isfunction(thing)]
    return {thing for thing in public if thing.__code__ is dcfw.minimize.__code__}


def test_a_difference_that_the_last_bits_do_not_explain_is_not_a_tie():
    """A tie can be refused: an answer that is wrong in one form stays wrong."""
    name, problem, form = metamorphic.draw(5)
    first, second = problem.solve(), form.problem.solve()
    assert not metamorphic.compare(first, second, form, metamorphic.TRANSFORMATIONS[name].exact)
    second.fun += 1e-3 * (abs(second.fun) + 1.0)
    assert metamorphic.compare(first, second, form, exact=False)
    assert not metamorphic.tied(problem, first, second, form)


def test_corrections_of_weights_do_not_depend_on_the_place_of_the_set():
    # The ridge of their linear systems was relative to products that grow with the distance from the origin.
    assert metamorphic.check_seed(940058865) == metamorphic.Verdict("set moved")


def quadratic(scale):
    A = np.random.default_rng(3).standard_normal((12, 12))
    return functions.Quadratic(scale * (A + A.T), scale * np.cos(np.arange(12.0)))


@pytest.mark.parametrize("method", [name for name in METHODS if name not in metamorphic.SAMPLED])
def test_all_powers_of_ten_of_an_objective_have_one_status_and_value(method):
    domain = sets.Product([sets.Simplex(12)]) if method == "block" else sets.Simplex(12)
    one = dcfw.minimize(quadratic(1.0), domain, method=method, maxiter=300)
    for k in (*range(-12, 0), *range(1, 13)):
        res = dcfw.minimize(quadratic(10.0**k), domain, method=method, maxiter=300)
        assert res.status is one.status
        assert res.fun == pytest.approx(10.0**k * one.fun, rel=1e-9)


def test_a_start_that_is_a_solution_already_needs_no_further_digits():
    phi, domain = quadratic(1e-9) + functions.SquaredNorm(1e-8), sets.L2Ball(12)
    res = dcfw.minimize(phi, domain)
    again = dcfw.minimize(phi, domain, res.x)
    assert res.success
    assert again.success
    assert again.nit == 0
    assert again.n_check == res.n_check + 1  # the gap at the set's own start
    tight = dcfw.minimize(phi, domain, res.x, tol=0.5 * res.gap)
    assert tight.nit > 0


def test_one_tolerance_that_is_given_leaves_the_other_at_zero():
    phi, domain = quadratic(1.0), sets.L2Ball(12)
    absolute, relative = dcfw.minimize(phi, domain, tol=1e-2), dcfw.minimize(phi, domain, rtol=1e-2)
    assert absolute.success
    assert 1e-6 < absolute.gap <= 1e-2
    assert relative.success
    assert relative.gap <= 1e-2 * relative.history["gap"][0]
    assert dcfw.minimize(phi, domain, rtol=1e-10).gap <= 1e-10 * relative.history["gap"][0]


def test_rounding_is_no_reason_to_go_on():
    """At a stationary point the gap is zero up to rounding, in single precision too."""
    c = np.array([0.1, 0.7, 0.3], dtype=np.float32)
    phi = functions.Quadratic(np.eye(3, dtype=np.float32), -c)
    res = dcfw.minimize(phi, sets.Box(-1.0, 1.0, 3), c)
    assert res.success
    assert res.nit == 0
    assert not math.isnan(res.gap)
