"""The methods of sets and functions with bad arguments.

Methods of sets check their arguments as every public function does (see ``test_bad_input_table``).  Values
and gradients of functions are evaluated in the innermost loops of solvers, on points that have been checked:
they take arrays in any layout, never write to them, and let a NaN show in the result.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from test_bad_input_table import clean, complaint, equal, fresh, named

from bad_values import SAME, variants
from public_calls import CALLS, Call, array, number, seed
from set_cases import CASES

DOMAINS = {type(case.domain).__name__: case.domain for case in CASES if np.prod(case.domain.shape) <= 12}
"""One set of each class."""

TELLS = ("with NaN", "with Inf", "one more dimension", "one more entry")
"""Variants that ``contains`` and ``violation`` do not refuse: such a point is not in the set."""


def calls(domain: Any) -> dict[str, Call]:
    """Return a good call of each method of a set."""
    shape = domain.shape
    G = np.random.default_rng(0).standard_normal(shape)
    x = np.asarray(domain.start(), dtype=float)
    d = np.asarray(domain.lmo(G)) - x
    known = {
        "lmo": Call({"G": array(G)}),
        "tangent": Call({"G": array(G)}),
        "contains": Call({"x": array(x, allow=TELLS), "tol": number(1e-9)}),
        "violation": Call({"x": array(x, allow=TELLS)}, lambda amount: np.nan_to_num(amount) > 1e-6),
        "reach": Call({"x": array(x), "d": array(d)}, lambda step: np.minimum(step, 1e6)),
        "project": Call({"x": array(G)}),
        "random": Call({"rng": seed(0)}),
    }
    return {name: call for name, call in known.items() if hasattr(domain, name)}


CELLS = [(kind, method) for kind, domain in DOMAINS.items() for method in calls(domain)]


@pytest.mark.parametrize(("kind", "method"), CELLS, ids=[".".join(cell) for cell in CELLS])
def test_methods_of_sets_refuse_by_name_or_work(kind: str, method: str) -> None:
    domain = DOMAINS[kind]
    function, call = getattr(domain, method), calls(domain)[method]
    expected = clean(call, function)
    wrong = {}
    for parameter, argument in call.arguments.items():
        default = inspect.signature(function).parameters[parameter].default
        for variant in variants(argument, default):
            said = complaint(function, call, parameter, variant, expected)
            if said is not None:
                wrong[f"{parameter} = {variant.label}"] = said
    assert not wrong, "\n" + "\n".join(f"{label}: {said}" for label, said in wrong.items())


def test_no_method_of_a_point_is_forgotten() -> None:
    taken = {"lmo", "tangent", "contains", "violation", "reach", "project", "random", "start", "oracle"}
    asked = {"check_work", "spheres", "entry_bounds"}  # of the set alone, without an argument
    own = {"join", "split", "lift", "point"}  # of Product and Epigraph: only ways to write a point
    for domain in DOMAINS.values():
        public = {
            name for name in dir(domain) if not name.startswith("_") and callable(getattr(domain, name))
        }
        rest = public - taken - own - asked
        assert not rest, f"{type(domain).__name__} has {sorted(rest)}"
        assert all(not inspect.signature(getattr(domain, name)).parameters for name in asked & public)


FUNCTIONS = [
    name
    for name, call in CALLS.items()
    if name.startswith("dcfw.functions.") and name.rpartition(".")[2][0].isupper() and call.arguments
]


def point_of(name: str, entry: float) -> np.ndarray:
    """Return a point that a function takes, with a given number among its entries."""
    if name.endswith("NuclearNorm"):
        return np.array([[0.5, entry, 0.3]] * 3)
    if name.endswith("Observed"):
        return np.full((2, 2), entry)
    return np.array([0.5, entry, 0.3])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_any_layout_and_never_write(name: str) -> None:
    arguments = {key: fresh(argument) for key, argument in CALLS[name].arguments.items()}
    function = named(name)(**arguments)
    point = point_of(name, 0.2)
    expected = function.value(point), function.grad(point)
    for variant in variants(array(point), None):
        if variant.outcome != SAME or variant.label in ("a list", "a tuple"):
            continue
        before = np.array(variant.value)
        assert equal((function.value(variant.value), function.grad(variant.value)), expected), variant.label
        np.testing.assert_array_equal(np.asarray(variant.value), before)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_nan_in_the_point_shows_in_the_value(name: str) -> None:
    arguments = {key: fresh(argument) for key, argument in CALLS[name].arguments.items()}
    function = named(name)(**arguments)
    point = point_of(name, np.nan)
    try:
        assert np.isnan(function.value(point))
    except np.linalg.LinAlgError:  # the SVD does not converge, and says so
        assert name.endswith("NuclearNorm")
