"""Input validation.

Every function returns a clean value, or raises ``TypeError`` or ``ValueError`` with the name of the argument,
the problem, and the accepted values.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import numbers
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dcfw._arrays import Array, eps_of, like, namespace, norm, to_numpy


def scalar(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    allow_inf: bool = False,
) -> float:
    """Return ``value`` as a float inside the given bounds."""
    if type(value) is not float and not _is_real(value):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that fits into a float, got one beyond 1e308") from None
    except (TypeError, ValueError):  # an array of another library without a real number
        raise TypeError(f"{name} must be a real number, got {value!r:.40}") from None
    ok = (number > low if open_low else number >= low) and (number < high if open_high else number <= high)
    if not ok or not (allow_inf or math.isfinite(number)):
        left, right = ("(" if open_low else "["), (")" if open_high else "]")
        raise ValueError(f"{name} must be a number in {left}{low:g}, {high:g}{right}, got {number!r}")
    return number


def _is_real(value: Any) -> bool:
    """Return whether ``value`` is a real number or a zero-dimensional array of one."""
    if isinstance(value, np.ndarray):  # float() would accept an array of the string "1.0"
        return value.shape == () and value.dtype.kind in "iuf"
    if isinstance(value, bool):
        return False
    return isinstance(value, numbers.Real) or (
        getattr(value, "shape", None) == () and not isinstance(value, np.generic)
    )


def integer(value: Any, name: str, *, low: int = 0, high: int | None = None) -> int:
    """Return ``value`` as an int inside the given bounds."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__} ({value!r})")
    number = int(value)
    if number < low or (high is not None and number > high):
        upper = "" if high is None else f" and at most {high}"
        raise ValueError(f"{name} must be at least {low}{upper}, got {number}")
    return number


def flag(value: Any, name: str) -> bool:
    """Return ``value`` as a bool; refuse strings such as "no", which Python counts as true."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, numbers.Integral) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r:.40}")


def optional_flag(value: Any, name: str) -> bool | None:
    """Return ``value`` as a bool or None."""
    return None if value is None else flag(value, name)


def constant(value: Any, name: str) -> float | None:
    """Return ``value`` as a nonnegative float or None."""
    return None if value is None else scalar(value, name, low=0.0)


def function(value: Any, name: str) -> Any:
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {type(value).__name__}")
    return value


def text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    return value


def path(value: Any, name: str = "path") -> Path:
    """Return ``value`` as a path, without expanding ``~``."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path (a string or a pathlib.Path), got {type(value).__name__}")
    result = Path(value)
    if "\0" in str(result):
        raise ValueError(f"{name} must be a path, got one with a zero byte: {str(result)!r:.60}")
    return result


def shape(value: Any, name: str = "shape", *, ndim: int | None = None) -> tuple[int, ...]:
    """Return ``value`` (an int means a vector) as a tuple of positive ints."""
    sizes = (value,) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value
    if not isinstance(sizes, tuple | list):
        raise TypeError(f"{name} must be an int or a tuple of ints, got {type(value).__name__}")
    what = name if sizes is not value else f"each entry of {name}"
    result = tuple(integer(size, what, low=1) for size in sizes)
    if not result:
        raise ValueError(f"{name} must not be empty")
    if ndim is not None and len(result) != ndim:
        raise ValueError(f"{name} must have {ndim} entries, got {len(result)}: {result}")
    return result


def numeric(value: Any, name: str) -> Array:
    """Return ``value`` as an array of real numbers (of its own backend; lists become NumPy)."""
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return value
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise ValueError(f"{name} has masked entries; fill them first, for example {name}.filled(0)")
        value = value.data
    if not hasattr(value, "shape") or not hasattr(value, "dtype") or hasattr(value, "to_numpy"):
        try:
            value = np.asarray(value)  # lists and columns of data frames
        except ValueError as error:
            raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        if value.dtype.kind not in "biuf":
            raise TypeError(f"{name} must hold real numbers, got dtype {value.dtype}")
        return value
    try:
        xp = namespace(value)
    except TypeError:
        raise TypeError(
            f"{name} must be an array (NumPy, PyTorch, JAX, CuPy), got {type(value).__name__}"
        ) from None
    if xp.isdtype(value.dtype, "complex floating"):
        raise TypeError(f"{name} must hold real numbers, got dtype {value.dtype}")
    return value


def array(
    value: Any,
    name: str,
    *,
    shape: tuple[int, ...] | None = None,
    ndim: int | None = None,
    allow_inf: bool = False,
    floating: bool = True,
) -> Array:
    """Return ``value`` as a real array (of its own backend; lists become NumPy) without NaN or Inf."""
    value = numeric(value, name)
    if isinstance(value, np.ndarray):
        if floating and (value.dtype.kind != "f" or value.dtype.itemsize < 4):
            value = value.astype(np.float64)
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        all_finite = all_numbers(value, allow_inf)
    else:
        xp = namespace(value)
        if floating and not (xp.isdtype(value.dtype, "real floating") and xp.finfo(value.dtype).bits >= 32):
            value = xp.astype(value, xp.float64)
        all_finite = True
        if xp.isdtype(value.dtype, "real floating"):
            all_finite = bool(xp.all(~xp.isnan(value) if allow_inf else xp.isfinite(value)))
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {tuple(value.shape)}")
    if shape is not None and tuple(value.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
    if not all_finite:
        bad = to_numpy(value)
        first = tuple(int(i) for i in np.argwhere(np.isnan(bad) if allow_inf else ~np.isfinite(bad))[0])
        kind = "NaN" if allow_inf else "NaN or Inf"
        raise ValueError(f"{name} has {kind} entries (the first at {first}); all must be finite numbers")
    return value


def all_numbers(values: np.ndarray, allow_inf: bool = False) -> bool:
    """Return whether an array has no NaN, and no Inf unless that is allowed."""
    if values.dtype.kind != "f":
        return True
    # One pass and no temporary array: finite entries have a finite sum of squares, unless it overflows.
    if values.dtype == np.float64 and math.isfinite(np.vdot(values, values)):
        return True
    return bool((~np.isnan(values) if allow_inf else np.isfinite(values)).all())


def nan_for_masked(value: Any, name: str) -> Any:
    """Return a masked array with NaN in place of its masked entries; return other values unchanged."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if not np.ma.is_masked(value):
        return value.data
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {value.dtype}")
    floats = value.data if value.dtype.kind == "f" else value.data.astype(np.float64)
    return np.where(np.ma.getmaskarray(value), floats.dtype.type(np.nan), floats)


def observed(value: Any, name: str) -> np.ndarray:
    """Return ``value`` as a float array in which unknown and masked entries are NaN; refuse Inf."""
    entries = np.asarray(to_numpy(numeric(nan_for_masked(value, name), name)), dtype=np.float64)
    array(np.where(np.isnan(entries), 0.0, entries), name)  # refuses Inf
    return entries


def sparse(value: Any, name: str, form: str = "csr", *, double: bool = False) -> Any:
    """Return a SciPy sparse matrix in the format ``form`` with finite entries (``double``: in float64)."""
    if len(value.shape) != 2:
        raise ValueError(f"{name} must have 2 dimension(s), got shape {tuple(value.shape)}")
    matrix = getattr(value, f"to{form}")()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    entries = array(matrix.data, name)
    if double:
        entries = entries.astype(np.float64, copy=False)
    return matrix.__class__((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


def point(x: Any, name: str, domain: Any) -> Array:
    """Return ``x`` as an array, a point of the set ``domain`` up to rounding."""
    x = array(x, name, shape=tuple(domain.shape))
    if domain.contains(x):
        return x
    violation = float(domain.violation(x))
    if violation <= 64.0 * eps_of(x) * max(domain.scale, norm(x)) and not domain.decides:
        return x
    how = f" (it breaks the constraints by {violation:.3g})" if math.isfinite(violation) else ""
    hint = f"; domain.project({name}) is feasible" if domain.projects else ""
    raise ValueError(f"{name} must lie in the set {shown(domain)}{how}{hint}")


def shown(domain: Any) -> str:
    """Return the repr of a set, or its name if the repr is an address."""
    text = repr(domain)
    return str(domain.name) if " object at 0x" in text else text


def same_index(A: Any, values: Any, name: str) -> None:
    """Raise if a data frame column has another index than the data frame A."""
    one, two = (getattr(table, "index", None) for table in (A, values))
    if one is None or two is None or callable(one) or callable(two):
        return
    if len(one) == len(two) and list(one) != list(two):
        raise ValueError(f"the index of {name} must be that of A, in its order: {name}.reindex(A.index)")


def companion(values: Any, name: str, size: int, A: Any) -> Array:
    """Return data that belong to the matrix A as a vector of its backend, dtype and device."""
    values = array(values, name, shape=(size,))
    if hasattr(A, "nnz"):
        return to_numpy(values).astype(A.dtype, copy=False)
    return values if hasattr(A, "matvec") else like(to_numpy(values), A)


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``; otherwise raise with the options and the nearest one."""
    options = list(options)
    if isinstance(value, str) and value in options:
        return value
    listed = ", ".join(repr(option) for option in options)
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{name} must be one of {listed}, got {value!r}{hint}")


def domain(value: Any, name: str = "domain") -> Any:
    """Return ``value`` if it has the methods that every solver needs of a set."""
    if isinstance(value, type):
        raise TypeError(f"{name} must be a set, not its class: write {value.__name__}(...)")
    missing = [verb for verb in ("lmo", "contains", "start") if not callable(getattr(value, verb, None))]
    if missing:
        raise TypeError(
            f"{name} must have the methods lmo(G), contains(x) and start(); {type(value).__name__} lacks "
            + ", ".join(missing)
        )
    return value


def listed(value: Any, name: str) -> list[Any]:
    """Return the entries of a collection that is not a string."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list or another collection, got {type(value).__name__}")
    return list(value)


def float_type(value: Any, name: str = "dtype") -> np.dtype[Any]:
    """Return ``value`` as a NumPy dtype, float32 or float64."""
    with contextlib.suppress(TypeError):
        if value is not None and not isinstance(value, tuple | list | dict):  # which NumPy would interpret
            dtype: np.dtype[Any] = np.dtype(value)
            if dtype in (np.float32, np.float64):
                return dtype
    raise ValueError(f"{name} must be float32 or float64, got {value!r:.40}")


def generator(rng: Any) -> np.random.Generator:
    """Return a NumPy generator from None, a seed, a SeedSequence or a generator (SPEC 7)."""
    if isinstance(rng, np.random.Generator):
        return rng
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise TypeError(
            f"rng must be None, a non-negative int, a SeedSequence or a numpy.random.Generator, got {rng!r}"
        ) from None
