"""Comparisons of methods: intervals over seeds, wins and losses, performance profiles.

Pure functions on arrays.  **Lower is better** (an error, a time, a count of oracle calls), and a run that
failed takes part as ``inf``.  "Better" means strictly lower and "equal" means equal: round the values first
if smaller differences should not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dcfw.profiles import method_table, performance_profile
from dcfw_studies import checks


class Interval(NamedTuple):
    """A mean with a confidence interval for it."""

    mean: float
    low: float
    high: float

    def plain(self) -> dict[str, float | None]:
        """Return it as JSON values, with null for infinity."""
        return {name: v if np.isfinite(v) else None for name, v in self._asdict().items()}


class Score(NamedTuple):
    """How often the first of two methods has the lower value, the higher one, the same."""

    wins: int
    losses: int
    ties: int


def t_interval(values: Any, confidence: float = 0.90) -> Interval:
    """Return the mean of independent runs and Student's confidence interval for it.

    For a single value the interval is the whole line.
    """
    from scipy import stats

    x = checks.array(values, "values", ndim=1)
    if not np.isfinite(x).all():
        raise ValueError("values must be finite")
    confidence = checks.scalar(confidence, "confidence", low=0.0, high=1.0, open_low=True, open_high=True)
    if x.size == 0:
        raise ValueError("values must not be empty")
    mean = float(np.mean(x))
    if x.size == 1:
        return Interval(mean, -np.inf, np.inf)
    quantile = float(stats.t.ppf((1.0 + confidence) / 2.0, x.size - 1))
    half = quantile * float(np.std(x, ddof=1)) / x.size**0.5
    return Interval(mean, mean - half, mean + half)


def win_loss_tie(a: Any, b: Any) -> Score:
    """Count where ``a`` is lower than ``b``, higher, and equal; both are values on the same instances."""
    a = checks.array(a, "a")
    b = checks.array(b, "b", shape=tuple(a.shape))
    return Score(int(np.sum(a < b)), int(np.sum(a > b)), int(np.sum(a == b)))


def pairwise_wins(table: Mapping[str, Any], confidence: float = 0.90) -> dict[tuple[str, str], Interval]:
    """Return for each ordered pair (a, b) of methods the number of instances on which a is better.

    The argument maps methods to values of shape (instances, seeds). Instances with a strictly lower value are
    counted for each seed; the interval is Student's over the seeds, as in the paper's heat map.
    """
    values = method_table(table, ndim=2)
    return {
        (a, b): t_interval(np.sum(values[a] < values[b], axis=0).astype(float), confidence)
        for a, b in itertools.permutations(values, 2)
    }


__all__ = ["Interval", "Score", "pairwise_wins", "performance_profile", "t_interval", "win_loss_tie"]
