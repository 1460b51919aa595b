"""Checks of arguments that name the argument, what is wrong with it, and what was given."""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np


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
    """Return a real number within bounds as a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__} ({value!r:.40})")
    number = float(value)
    if math.isnan(number) or (math.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be finite, got {number}")
    if number < low or number > high or (open_low and number == low) or (open_high and number == high):
        bounds = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise ValueError(f"{name} must be in {bounds}, got {number:g}")
    return number


def integer(value: Any, name: str, *, low: int = 0, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__} ({value!r:.40})")
    number = int(value)
    if number < low or (high is not None and number > high):
        upper = "" if high is None else f" and at most {high}"
        raise ValueError(f"{name} must be at least {low}{upper}, got {number}")
    return number


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """Return one of the options; an error proposes the nearest one."""
    listed = list(options)
    if isinstance(value, str) and value in listed:
        return value
    near = difflib.get_close_matches(str(value), listed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, listed))}, got {value!r:.40}{hint}")


def array(value: Any, name: str, *, shape: tuple[int, ...] | None = None, ndim: int | None = None) -> Any:
    """Return an array of real numbers without NaN."""
    entries = np.asarray(value)
    if entries.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {entries.dtype}")
    if shape is not None and entries.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {entries.shape}")
    if ndim is not None and entries.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {entries.shape}")
    if np.isnan(entries).any():
        raise ValueError(f"{name} has NaN")
    return entries


def path(value: Any, name: str = "path") -> Path:
    """Return a path with ``~`` expanded to the home folder."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path (a string or a pathlib.Path), got {type(value).__name__}")
    return Path(value).expanduser()
