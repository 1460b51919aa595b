"""Performance profiles (Dolan and Moré 2002): how often a method is within a factor of the best one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dcfw import _validate


def performance_profile(costs: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return performance profiles as method -> (tau, rho).

    ``costs`` maps methods to positive costs, one per instance, ``inf`` for a failure.  ``rho`` is the
    fraction of instances on which a method's cost is at most ``tau`` times the lowest cost of any method.
    ``tau`` is common to all methods: 1 and all finite ratios in increasing order.

    >>> profile = performance_profile({"fw": [2.0, 1.0], "dcfw": [1.0, float("inf")]})
    >>> profile["fw"][0].tolist(), profile["fw"][1].tolist(), profile["dcfw"][1].tolist()
    ([1.0, 2.0], [0.5, 1.0], [0.5, 0.5])
    """
    if not isinstance(costs, Mapping):
        raise TypeError(f"costs must be a dictionary by method, got {type(costs).__name__}")
    values = method_table(costs, ndim=1)
    for method, cost in values.items():
        if np.any(cost <= 0):
            raise ValueError(f"costs[{method!r}] must be positive: ratios to 0 mean nothing")
    best = np.min(list(values.values()), axis=0)
    solved = np.isfinite(best)
    # Where all methods failed, every ratio is inf (inf / inf would be NaN).
    ratios = {
        method: np.where(solved, cost / np.where(solved, best, 1.0), np.inf)
        for method, cost in values.items()
    }
    every = np.concatenate(list(ratios.values()))
    tau = np.unique(np.append(every[np.isfinite(every)], 1.0))
    return {
        method: (tau, np.searchsorted(np.sort(ratio), tau, side="right") / ratio.size)
        for method, ratio in ratios.items()
    }


def method_table(table: Mapping[str, Any], ndim: int) -> dict[str, np.ndarray]:
    """Return validated arrays of one shape by method."""
    if not table:
        raise ValueError("the table must have at least one method")
    shape = None
    values: dict[str, np.ndarray] = {}
    for method, entry in table.items():
        checked = _validate.array(entry, f"values of {method!r}", ndim=ndim, shape=shape, allow_inf=True)
        if checked.size == 0:
            raise ValueError(f"values of {method!r} must not be empty")
        values[method], shape = checked, tuple(checked.shape)
    return values
