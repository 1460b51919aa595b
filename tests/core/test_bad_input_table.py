"""Every public function with every kind of bad argument: refused by name, or as good as the clean one.

The table is generated (see ``public_calls`` and ``bad_values``): names and parameters come from the package,
and a name or parameter without a good value fails a test here.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dcfw
from bad_values import EITHER, REFUSED, SAME, Argument, Variant, variants
from hostile_files import alarm
from public_calls import NOT_CALLED, Call, all_calls, public_names

CALLS = all_calls()
SECONDS = 60.0
"""What one call may take; those that work take milliseconds, or some seconds to be compiled."""
SIZES = ("one more entry", "one more dimension", "empty", "no rows", "a number", "a count")
"""Variants that are wrong by their size only."""


def fresh(argument: Argument) -> Any:
    """Return the good value, a new one where it is made by a function."""
    value = argument.value
    if argument.kind == "other" and inspect.isfunction(value):
        return value()
    return value.copy() if isinstance(value, np.ndarray) else value


def content(value: Any) -> Any:
    """Return the bytes of an array, to detect whether it was written to."""
    if isinstance(value, np.ma.MaskedArray):
        return value.data.tobytes(), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        return None if value.dtype.hasobject else value.tobytes()
    if hasattr(value, "nnz"):
        return value.toarray().tobytes()
    if isinstance(value, list | tuple) and any(hasattr(entry, "grad") for entry in value):
        return None  # parameters of a network, which an optimizer is there to change
    return repr(value) if isinstance(value, list | tuple | dict) else None


def numbers(value: Any) -> Iterator[np.ndarray]:
    """Yield all numbers of a result."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray | np.generic | int | float):
        yield np.asarray(value)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from numbers(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from numbers(entry)


def finite(value: Any) -> bool:
    return all(np.isfinite(a).all() for a in numbers(value) if a.dtype.kind in "fc")


def equal(a: Any, b: Any) -> bool:
    first, second = list(numbers(a)), list(numbers(b))
    return len(first) == len(second) and all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)
        for x, y in zip(first, second, strict=True)
    )


def named(name: str) -> Any:
    """Return the object of a dotted name; its module is loaded now, not when the tests are collected."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def clean(call: Call, function: Any) -> Any:
    return call.look(function(**{name: fresh(argument) for name, argument in call.arguments.items()}))


def names_it(error: BaseException, parameter: str, argument: Argument) -> bool:
    said = str(error)
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said) for name in (parameter, *argument.called))


def complaint(function: Any, call: Call, parameter: str, variant: Variant, expected: Any) -> str | None:
    """Return what is wrong with the way ``function`` takes ``variant``, None if nothing is."""
    arguments = {name: fresh(other) for name, other in call.arguments.items()}
    arguments[parameter] = variant.value
    before = {name: content(value) for name, value in arguments.items()}
    said = outcome(function, call, parameter, variant, expected, arguments)
    changed = [name for name, value in arguments.items() if content(value) != before[name]]
    return f"wrote to {', '.join(changed)}" if changed else said


def outcome(
    function: Any, call: Call, parameter: str, variant: Variant, expected: Any, arguments: dict[str, Any]
) -> str | None:
    argument = call.arguments[parameter]
    accepted = (TypeError, ValueError) + ((OSError, KeyError) if argument.kind in ("path", "text") else ())
    if call.ends_in:
        accepted = (TypeError, ValueError)
    looking = False
    try:
        with alarm(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(**arguments)
            looking = True
            got = call.look(result)
    except accepted as error:
        if variant.outcome == SAME:
            return f"refused, and is as good as an array: {type(error).__name__}: {error}"
        # Of two arrays that do not fit together, either may be the wrong one.
        named = call.arguments if variant.label in SIZES else (parameter,)
        if not any(names_it(error, name, argument) for name in named) and not isinstance(error, OSError):
            return f"the message does not name it: {type(error).__name__}: {error}"
        return None
    except call.ends_in:  # the good value does so, too
        return None if variant.outcome != REFUSED else "accepted"
    except RuntimeWarning as error:
        # A function of data near the end of the range overflows when it is evaluated, and NumPy says so.
        if looking and variant.label in ("huge", "tiny"):
            return None
        return f"RuntimeWarning: {error}"
    except MemoryError:
        return None if variant.label in ("huge", "no integer") else "MemoryError"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if variant.outcome == REFUSED:
        return f"accepted, with the result {str(got)[:60]!r}"
    if variant.outcome == SAME and not equal(got, expected):
        return f"gives {str(got)[:80]} instead of {str(expected)[:80]}"
    if variant.outcome == EITHER and not finite(got) and finite(expected):
        # As above: NumPy before 2 does not say so for all of its products.
        evaluated = function.__module__.startswith("dcfw.functions") and variant.label in ("huge", "tiny")
        if not evaluated or any(np.isnan(part).any() for part in numbers(got)):
            return f"gives {str(got)[:80]}"
    return None


NEEDS_QAPLIB = ("dcfw.qap.load", "dcfw.qap.names")


def has_qaplib() -> bool:
    try:
        return bool(dcfw.data.find("qaplib"))
    except FileNotFoundError:
        return False


CELLS = [(name, parameter) for name in CALLS for parameter in CALLS[name].arguments]


@pytest.mark.parametrize(("name", "parameter"), CELLS, ids=[f"{name}-{p}" for name, p in CELLS])
def test_bad_arguments_are_refused_by_name_or_work(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NEEDS_QAPLIB and not has_qaplib():
        pytest.skip("needs the QAPLIB files in the folder named by DCFW_DATA")
    monkeypatch.chdir(tmp_path)  # for paths that work
    if name == "dcfw.data.find":
        monkeypatch.setenv("DCFW_DATA", str(tmp_path))  # where there is no data there is no such folder
    function, call = named(name), CALLS[name]
    argument = call.arguments[parameter]
    default = inspect.signature(function).parameters[parameter].default
    expected = None if call.ends_in else clean(call, function)
    wrong = {}
    for variant in variants(argument, default):
        said = complaint(function, call, parameter, variant, expected)
        if said is not None:
            wrong[variant.label] = said
    assert not wrong, "\n" + "\n".join(f"{parameter} = {label}: {said}" for label, said in wrong.items())


def test_every_public_name_is_in_the_table() -> None:
    names = public_names().keys()
    missing = sorted(names - CALLS.keys())
    assert not missing, f"give these a good call in tests/cases/public_calls.py: {', '.join(missing)}"
    gone = sorted(CALLS.keys() - names)
    assert not gone, f"no public names any more: {', '.join(gone)}"


def test_every_exception_to_the_table_is_a_public_name() -> None:
    for name in NOT_CALLED:
        assert named(name) is not None


def test_every_parameter_is_in_the_table() -> None:
    for name, call in CALLS.items():
        given = call.arguments.keys() | call.omitted.keys()
        assert given == set(inspect.signature(named(name)).parameters), name


def test_the_table_can_fail() -> None:
    def careless(x: Any) -> Any:
        return np.asarray(x) * math.pi

    call = Call({"x": Argument(np.ones(2), "array")})
    expected = clean(call, careless)
    tried = variants(call.arguments["x"], inspect.Parameter.empty)
    found = {v.label: complaint(careless, call, "x", v, expected) for v in tried}
    assert found["with NaN"] is not None
    assert found["complex"] is not None
    assert found["a list"] is None

    def writing(x: Any) -> Any:
        x = np.asarray(x)
        x[0] = 0.0
        raise ValueError("x is bad")

    strided = next(v for v in variants(call.arguments["x"], None) if v.label == "column order")
    assert complaint(writing, call, "x", strided, expected) == "wrote to x"


def test_pairs_with_a_row_each_are_not_read_as_their_first_two_rows() -> None:
    """Three pairs (source, target) as rows used to be taken for two lists of two words."""
    with pytest.raises(TypeError, match="pairs must be"):
        dcfw.align.precision_at(np.eye(3), np.eye(3), np.array([[0, 0], [1, 1], [2, 2]]), k=1)
    assert dcfw.align.precision_at(np.eye(3), np.eye(3), np.array([[0, 1, 2], [0, 1, 2]]), k=1) == {1: 1.0}


def test_the_word_no_does_not_count_as_true() -> None:
    with pytest.raises(TypeError, match=r"maximize must be True or False, got 'no'"):
        dcfw.qap.solve(np.eye(2), np.eye(2), maximize="no")


def test_large_and_small_directions_reach_as_far_as_their_length_says() -> None:
    domain = dcfw.sets.L2Ball(2)
    x, d = np.zeros(2), np.array([1.0, 1.0])
    step = domain.reach(x, d)
    assert domain.reach(x, 1e200 * d) == pytest.approx(1e-200 * step)
    assert domain.reach(x, 1e-200 * d) == pytest.approx(1e200 * step)
    assert domain.reach(x, 1e-310 * d) == math.inf
