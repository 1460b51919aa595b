"""Bad input is refused before any oracle is called, with the argument's name and the remedy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dcfw
from dcfw import _validate, functions, sets, steps
from dcfw.solvers.cgs import CGS
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw_k import FWK
from dcfw.tolerances import Adaptive

N = 4


class Untouchable:
    """A problem whose oracles must not be called."""

    def value(self, x):
        raise AssertionError("value was called")

    def grad(self, x):
        raise AssertionError("grad was called")


class UntouchableSet:
    shape = (N,)

    def lmo(self, G):
        raise AssertionError("lmo was called")

    def contains(self, x):
        return bool(abs(x.sum() - 1.0) < 1e-9)

    def violation(self, x):
        return abs(float(x.sum()) - 1.0)

    def start(self):
        return np.full(N, 1.0 / N)

    def __repr__(self):
        return "MySet(4)"


def call(objective=None, domain=None, x0=None, **kwargs):
    f = functions.as_function(Untouchable())
    objective = functions.DC(f, Untouchable()) if objective is None else objective
    return dcfw.minimize(objective, UntouchableSet() if domain is None else domain, x0, **kwargs)


def smooth(**facts):
    return functions.Smooth(Untouchable().value, Untouchable().grad, **facts)


GOOD = np.full(N, 0.25)

CASES = {
    # x0
    "x0 of another shape": ({"x0": np.ones(3)}, ValueError, r"x0 must have shape \(4,\), got \(3,\)"),
    "x0 a matrix": ({"x0": np.ones((4, 1))}, ValueError, r"x0 must have shape \(4,\), got \(4, 1\)"),
    "x0 with NaN": ({"x0": [0.5, 0.5, np.nan, 0.0]}, ValueError, r"x0 has NaN or Inf entries.*\(2,\)"),
    "x0 with Inf": ({"x0": [0.5, 0.5, np.inf, 0.0]}, ValueError, r"x0 has NaN or Inf entries"),
    "x0 outside": ({"x0": np.ones(N)}, ValueError, r"x0 must lie in the set MySet\(4\).*breaks.*by 3\)"),
    "x0 complex": ({"x0": GOOD + 0j}, TypeError, r"x0 must hold real numbers"),
    "x0 text": ({"x0": "here"}, TypeError, r"x0 must hold real numbers"),
    "x0 ragged": ({"x0": [[1.0], [1.0, 2.0]]}, ValueError, r"x0 must be a rectangular array"),
    "x0 masked": (
        {"x0": np.ma.masked_array(GOOD, mask=[True, False, False, False])},
        ValueError,
        r"x0 has masked entries",
    ),
    # names
    "method misspelt": ({"method": "dcwf"}, ValueError, r"method must be one of.*did you mean 'dcfw'"),
    "method unknown": (
        {"method": "newton"},
        ValueError,
        r"method must be one of 'auto', 'dcfw'.*'fw', 'fw-k'",
    ),
    "method a number": ({"method": 3}, TypeError, r"method must be one of"),
    "method a class": ({"method": DCFW}, TypeError, r"method must be one of"),
    "step misspelt": ({"step": "exakt"}, ValueError, r"step must be one of.*did you mean 'exact'"),
    "step a number": ({"step": 0.5}, TypeError, r"step must be one of"),
    "step a class": ({"step": steps.Exact}, TypeError, r"step must be one of"),
    "inner misspelt": ({"inner": "fv"}, ValueError, r"inner must be one of 'auto', 'fw'"),
    "tolerance misspelt": (
        {"tolerance": "adaptve"},
        ValueError,
        r"tolerance must be one of.*did you mean 'adaptive'",
    ),
    "tolerance zero": ({"tolerance": 0.0}, ValueError, r"tolerance must be a number in \(0"),
    "tolerance a class": ({"tolerance": Adaptive}, TypeError, r"tolerance must be"),
    # budgets
    "negative tol": ({"tol": -1e-3}, ValueError, r"tol must be a number in \[0, inf\], got -0\.001"),
    "tol NaN": ({"tol": math.nan}, ValueError, r"tol must be a number"),
    "tol text": ({"tol": "1e-3"}, TypeError, r"tol must be a real number, got str"),
    "rtol above one": ({"rtol": 1.5}, ValueError, r"rtol must be a number in \[0, 1\]"),
    "negative maxiter": ({"maxiter": -1}, ValueError, r"maxiter must be at least 0, got -1"),
    "fractional maxiter": ({"maxiter": 10.0}, TypeError, r"maxiter must be an integer, got float"),
    "maxiter True": ({"maxiter": True}, TypeError, r"maxiter must be an integer, got bool"),
    "max_inner zero": ({"max_inner": 0}, ValueError, r"max_inner must be at least 1"),
    "max_lmo zero": ({"max_lmo": 0}, ValueError, r"max_lmo must be at least 1"),
    "max_lmo negative": ({"max_lmo": -5}, ValueError, r"max_lmo must be at least 1"),
    "time_limit negative": ({"time_limit": -1.0}, ValueError, r"time_limit must be a number in \[0"),
    "time_limit text": ({"time_limit": "1 s"}, TypeError, r"time_limit must be a real number"),
    "restarts zero": ({"restarts": 0}, ValueError, r"restarts must be at least 1"),
    "callback": ({"callback": 3}, TypeError, r"callback must be callable, got int"),
    "rng": ({"rng": "seed"}, TypeError, r"rng must be None, a non-negative int"),
    "negative seed": ({"rng": -1}, TypeError, r"rng must be None, a non-negative int"),
    # objective and domain
    "objective a number": (
        {"objective": 1.0},
        TypeError,
        r"objective must be a function object.*float lacks",
    ),
    "objective a pair": (
        {"objective": (functions.SquaredNorm(), functions.SquaredNorm())},
        TypeError,
        r"objective.*tuple lacks.*write the difference of two convex functions as f - g",
    ),
    "objective a callable": (
        {"objective": lambda x: 0.0},
        TypeError,
        r"objective is a callable without a gradient: give jac=grad, or jac=True",
    ),
    "domain a number": (
        {"domain": 3},
        TypeError,
        r"domain must have the methods.*int lacks lmo, contains, start",
    ),
    "domain a class": (
        {"domain": type("Half", (), {"lmo": lambda self, G: G})()},
        TypeError,
        r"domain.*Half lacks contains, start",
    ),
    "single function without a constant for fw-m": (
        {"objective": smooth(), "method": "fw-m"},
        ValueError,
        r"'fw-m' cannot find: use 'dcfw' or 'boosted', or give L, as in functions\.Smooth",
    ),
    "jac of a function object": ({"jac": lambda x: x}, ValueError, r"jac belongs to.*leave jac out"),
    "jac a number": ({"objective": lambda x: 0.0, "jac": 3}, TypeError, r"jac must be a callable grad\(x\)"),
    "jac=True and a value alone": (
        {"objective": lambda x: 0.0, "jac": True},
        TypeError,
        r"must return \(value, gradient\) with jac=True, got float: give.*jac=grad",
    ),
    "nonsmooth phi for fw": (
        {"objective": functions.DC(smooth(), functions.L1Norm()), "method": "fw"},
        ValueError,
        r"method 'fw' needs the gradient of phi.*use 'dcfw'",
    ),
    "nonsmooth phi for cgs": (
        {"objective": functions.DC(smooth(), functions.L1Norm()), "method": "cgs"},
        ValueError,
        r"^method 'cgs' needs the gradient of phi",
    ),
    "cgs without a constant": (
        {"objective": smooth(), "method": "cgs"},
        ValueError,
        r"^method 'cgs' needs a Lipschitz constant.*CGS\(L=\.\.\.\)",
    ),
    "cgs with a negative constant": (
        {"objective": smooth(), "method": CGS(L=-1.0)},
        ValueError,
        r"L must be a number in \[0",
    ),
    "fw-k lacks both": (
        {"method": "fw-k"},
        ValueError,
        r"^method 'fw-k' needs a Lipschitz constant of f.*and the set's diameter, .*fw_k\.FWK\(C=\.\.\.\)",
    ),
    "fw-k with a negative constant": ({"method": FWK(C=-1.0)}, ValueError, r"C must be a number in \[0"),
    "short step without a constant": ({"step": "short"}, ValueError, r"^step 'short' needs a Lipschitz"),
    "a method without its attributes": (
        {"method": type("Own", (), {"solve": lambda self, problem, run: None})()},
        TypeError,
        r"method Own lacks the attribute name and needs_split",
    ),
    "sizes of objective and set": (
        {"objective": functions.Quadratic(np.eye(3), convex=True) - functions.L1Norm()},
        ValueError,
        r"objective is a function of 3 variables, but the points of MySet\(4\) have shape \(4,\)",
    ),
    "sizes within the objective": (
        {"objective": functions.Quadratic(np.eye(3)) - functions.Quadratic(np.eye(4))},
        ValueError,
        r"objective has parts for different numbers of variables: 3, 4",
    ),
}


@pytest.mark.parametrize(("kwargs", "error", "match"), CASES.values(), ids=CASES.keys())
def test_bad_input_is_refused_by_name_before_any_oracle_is_called(kwargs, error, match):
    with pytest.raises(error, match=match):
        call(**kwargs)


def test_the_untouchable_problem_would_be_solved_otherwise():
    with pytest.raises(AssertionError, match="grad was called"):
        call()


def test_a_start_outside_a_set_of_ours_is_refused_with_the_remedy():
    with pytest.raises(
        ValueError, match=r"x0 must lie in the set Simplex\(2\).*by 1\).*domain\.project\(x0\)"
    ):
        dcfw.minimize(functions.SquaredNorm(), sets.Simplex(2), np.ones(2))


def test_a_start_that_only_rounding_puts_outside_is_accepted():
    x0 = (np.ones(1000) / np.float32(1000)).astype(np.float32)
    res = dcfw.minimize(functions.SquaredNorm(), sets.Simplex(1000), x0, maxiter=2)
    assert res.x.dtype == np.float32


def test_data_and_start_of_different_libraries_are_refused():
    torch = pytest.importorskip("torch")
    f = functions.Quadratic(torch.eye(2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"x0 must be an array like the objective's data.*ndarray.*Tensor"):
        dcfw.minimize(f, sets.Simplex(2), np.array([0.5, 0.5]))


def test_a_start_with_nan_of_the_sets_own_is_refused():
    class Broken(UntouchableSet):
        def start(self):
            return np.full(N, np.nan)

    with pytest.raises(ValueError, match=r"domain\.start\(\) has NaN"):
        call(domain=Broken())


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: sets.LpBall(3, p=0.5), ValueError, r"p must be a number in \[1, inf\]"),
        (lambda: sets.SchattenBall((2, 2), p=0.9), ValueError, r"p must be a number in \[1, inf\]"),
        (lambda: sets.Simplex(0), ValueError, r"n must be at least 1"),
        (lambda: sets.Simplex(3, radius=-1.0), ValueError, r"radius must be a number in \(0"),
        (lambda: Adaptive(beta=1.0), ValueError, r"beta must be a number in \(0, 1\)"),
        (lambda: Adaptive(beta=0.0), ValueError, r"beta must be a number in \(0, 1\)"),
    ],
)
def test_bad_parameters_of_parts_are_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_unknown_attributes_of_the_package_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'minimise'"):
        dcfw.minimise  # noqa: B018
    assert "minimize" in dir(dcfw)


def test_missing_entries_of_a_pandas_array_are_unknown():
    pandas = pytest.importorskip("pandas")
    column = pandas.array([1.0, None], dtype="Float64")  # its mask is not that of NumPy's masked arrays
    np.testing.assert_array_equal(_validate.observed(column, "target"), [1.0, np.nan])
