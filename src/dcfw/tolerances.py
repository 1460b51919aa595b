"""Tolerance rules of the inner loop.

``next(eps, gap)`` returns the tolerance of an inner loop, given the last one (None in the first outer step)
and the FW gap at x_t.  ``enough(gap, eps, decrease)`` returns whether Algorithm 1 may break at line 7.

``Fixed(eps)``       one eps for all outer steps, as in theorem 1
``Adaptive(beta)``   starts at beta times the first gap and shrinks whenever the gap falls below it
``Progress()``       stops when the surrogate's gap is at most the decrease so far; then
                     gap_DC(x_t) <= 2 (phi(x_t) - phi(x_{t+1}))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dcfw import _validate


class NoProgress(Exception):
    """The first gap of an inner loop already meets the tolerance, which the rule may not lower.

    Examples
    --------
    A run in which this happens ends with its own status:

    >>> import dcfw
    >>> dcfw.Status.NO_PROGRESS.sentence
    'No further progress is possible.'
    """


class Tolerance(Protocol):
    """The interface of a tolerance rule; users may write their own.

    >>> import numpy as np, dcfw
    >>> class Halving:
    ...     def next(self, eps, gap):
    ...         return 0.5 * gap
    ...
    ...     def enough(self, gap, eps, decrease):
    ...         return gap <= eps
    >>> f, g = dcfw.functions.SquaredNorm(1.0), dcfw.functions.Quadratic(np.diag([3.0, 1.0]))
    >>> dcfw.minimize(f - g, dcfw.sets.Simplex(2), tolerance=Halving()).success
    True
    """

    def next(self, eps: float | None, gap: float) -> float: ...
    def enough(self, gap: float, eps: float, decrease: Callable[[], float]) -> bool: ...


@dataclass(frozen=True)
class Fixed:
    """The inner loop ends when the FW gap of the surrogate is at most eps/2.

    >>> from dcfw import tolerances
    >>> rule = tolerances.Fixed(0.1)
    >>> rule.next(None, 8.0), rule.enough(0.05, 0.1, lambda: 0.0)
    (0.1, True)
    """

    eps: float

    def __post_init__(self) -> None:
        _validate.scalar(self.eps, "eps", low=0.0, open_low=True)

    def next(self, eps: float | None, gap: float) -> float:
        if gap <= 0.5 * self.eps:
            raise NoProgress(
                f"the FW gap {gap:.3g} already meets the fixed inner tolerance eps/2 = {0.5 * self.eps:.3g}, "
                "so no further step can be taken; lower eps or use tolerance='adaptive'"
            )
        return self.eps

    def enough(self, gap: float, eps: float, decrease: Callable[[], float]) -> bool:
        return gap <= 0.5 * eps


@dataclass(frozen=True)
class Adaptive:
    """The paper's adaptive rule.

    Parameters
    ----------
    beta : float
        The factor, strictly between 0 and 1 (0.8 in the paper).
    update : {"text", "published"}
        If the gap at x_t is below eps, set eps to beta * eps as in the paper (``"text"``), or to beta * gap
        as in the authors' code (``"published"``).

    Notes
    -----
    The paper's bound 2 (phi(x_0) - phi*)/t on the least DC gap assumes gap_DC(x_t) >= eps_t in every outer
    step, while the rule compares the FW gap, which may be much larger, with eps_t.  The bound holds over the
    steps that satisfy the assumption, and can fail over all steps; with :class:`Progress` it always holds.

    Examples
    --------
    >>> from dcfw import tolerances
    >>> text, published = tolerances.Adaptive(0.8), tolerances.Adaptive(0.8, update="published")
    >>> text.next(1.0, 0.75), published.next(1.0, 0.75)
    (0.8, 0.6000000000000001)
    """

    beta: float = 0.8
    update: str = "text"

    def __post_init__(self) -> None:
        _validate.scalar(self.beta, "beta", low=0.0, high=1.0, open_low=True, open_high=True)
        _validate.choice(self.update, "update", ("text", "published"))

    def next(self, eps: float | None, gap: float) -> float:
        if eps is None:
            return self.beta * gap
        if gap < eps:
            eps = self.beta * (gap if self.update == "published" else eps)
        # Otherwise the inner loop would end at once: shrink further, so that every outer step makes progress.
        return eps if gap > 0.5 * eps else self.beta * gap

    def enough(self, gap: float, eps: float, decrease: Callable[[], float]) -> bool:
        return gap <= 0.5 * eps


@dataclass(frozen=True)
class Progress:
    """The inner loop ends when the surrogate's FW gap is at most its decrease so far.

    >>> from dcfw import tolerances
    >>> rule = tolerances.Progress()
    >>> rule.enough(0.3, 1.0, lambda: 0.2), rule.enough(0.2, 1.0, lambda: 0.3)
    (False, True)
    """

    def next(self, eps: float | None, gap: float) -> float:
        return gap

    def enough(self, gap: float, eps: float, decrease: Callable[[], float]) -> bool:
        return gap <= decrease()


def resolve(tolerance: Any) -> Tolerance:
    """Return the rule that ``tolerance`` names: a rule, a number (fixed), "adaptive" or "progress"."""
    if hasattr(tolerance, "next") and hasattr(tolerance, "enough") and not isinstance(tolerance, type):
        return tolerance  # type: ignore[no-any-return]
    if isinstance(tolerance, str):
        name = _validate.choice(tolerance, "tolerance", ("adaptive", "progress"))
        return Adaptive() if name == "adaptive" else Progress()
    return Fixed(_validate.scalar(tolerance, "tolerance", low=0.0, open_low=True))
