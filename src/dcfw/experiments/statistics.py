"""How methods are compared: intervals over seeds, wins and losses, performance profiles.

Pure functions on arrays.  In all of them **lower is better** (an error, a time, a count of oracle
calls), and a run that failed takes part as ``inf``.  "Better" means strictly lower and "equal" means
equal: round the values first if differences below some tolerance should not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate


class Interval(NamedTuple):
    """A mean with a confidence interval for it."""

    mean: float
    low: float
    high: float


class Score(NamedTuple):
    """In how many places the first of two methods has the lower value, the higher one, the same."""

    wins: int
    losses: int
    ties: int


def t_interval(values: Any, confidence: float = 0.90) -> Interval:
    """Return the mean of ``values`` and Student's confidence interval for it.

    Parameters
    ----------
    values : array
        Independent runs, say one per seed.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    Interval
        ``(mean, low, high)``.  One value alone says nothing about its spread: the interval is then the
        whole line.

    Examples
    --------
    >>> mean, low, high = t_interval([1.0, 2.0, 3.0, 4.0], confidence=0.90)
    >>> mean, round(low, 3), round(high, 3)
    (2.5, 0.981, 4.019)
    """
    from scipy import stats

    x = _validate.array(values, "values", ndim=1)
    confidence = _validate.scalar(confidence, "confidence", low=0.0, high=1.0, open_low=True, open_high=True)
    if x.size == 0:
        raise ValueError("values must not be empty")
    mean = float(np.mean(x))
    if x.size == 1:
        return Interval(mean, -np.inf, np.inf)
    quantile = float(stats.t.ppf((1.0 + confidence) / 2.0, x.size - 1))
    half = quantile * float(np.std(x, ddof=1)) / x.size**0.5
    return Interval(mean, mean - half, mean + half)


def win_loss_tie(a: Any, b: Any) -> Score:
    """Count where ``a`` is lower than ``b``, higher, and equal.

    Parameters
    ----------
    a, b : array
        Values of two methods on the same instances (``inf`` for a run that failed).

    Examples
    --------
    >>> win_loss_tie([1, 2, 3, 4], [1, 3, 2, 9])
    Score(wins=2, losses=1, ties=1)
    """
    a = _validate.array(a, "a", allow_inf=True, floating=False)
    b = _validate.array(b, "b", shape=tuple(a.shape), allow_inf=True, floating=False)
    return Score(int(np.sum(a < b)), int(np.sum(a > b)), int(np.sum(a == b)))


def pairwise_wins(table: Mapping[str, Any], confidence: float = 0.90) -> dict[tuple[str, str], Interval]:
    """Return, for each ordered pair of methods, on how many instances the first one is better.

    For each seed, the instances with a strictly lower value are counted; the interval is Student's over
    the seeds.  (The paper's heat map is this table.)

    Parameters
    ----------
    table : mapping
        Method -> values of shape (instances, seeds), the same for all methods.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    dict
        ``(a, b) -> Interval`` of the number of instances on which ``a`` beats ``b``.

    Examples
    --------
    >>> wins = pairwise_wins({"fw": [[3, 3], [1, 1]], "dcfw": [[2, 2], [1, 0]]})
    >>> wins["dcfw", "fw"].mean, wins["fw", "dcfw"].mean
    (1.5, 0.0)
    """
    values = _table(table, ndim=2)
    return {
        (a, b): t_interval(np.sum(values[a] < values[b], axis=0).astype(float), confidence)
        for a in values
        for b in values
        if a != b
    }


def performance_profile(costs: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the performance profiles of Dolan and Moré.

    The ratio of a method on an instance is its cost over the lowest cost of any method there.
    ``rho(tau)`` is the fraction of instances on which the ratio is at most ``tau``: ``rho(1)`` says how
    often the method is best, and the limit how often it succeeds at all.

    Parameters
    ----------
    costs : mapping
        Method -> positive costs, one per instance; ``inf`` for a failure.  An instance on which all
        methods failed counts against all of them.

    Returns
    -------
    dict
        Method -> ``(tau, rho)``.  ``tau`` is the same for all methods: 1 and all ratios that occur, in
        increasing order.  ``rho`` is constant from each entry to the next (draw it with
        ``where="post"``).

    Examples
    --------
    >>> profile = performance_profile({"fw": [2.0, 1.0], "dcfw": [1.0, float("inf")]})
    >>> profile["fw"][0].tolist(), profile["fw"][1].tolist(), profile["dcfw"][1].tolist()
    ([1.0, 2.0], [0.5, 1.0], [0.5, 0.5])
    """
    values = _table(costs, ndim=1)
    for method, cost in values.items():
        if np.any(cost <= 0):
            raise ValueError(f"costs[{method!r}] must be positive: ratios to 0 mean nothing")
    best = np.min(list(values.values()), axis=0)
    solved = np.isfinite(best)
    # inf / inf would be NaN; where nobody succeeded every ratio is inf.
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


def _table(table: Mapping[str, Any], ndim: int) -> dict[str, np.ndarray]:
    """Return checked arrays of one shape, by method."""
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
