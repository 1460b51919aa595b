"""Step-size rules.

Before a run, ``rule.bind(f, domain)`` checks the requirements and returns a callable, which maps a
:class:`~dcfw.solvers.segment.Segment` (from X to the vertex S, with gap, curvature and values) to a
step ``eta`` in [0, 1].

==================  ================================================  ==============================
rule                step                                              needs
``OpenLoop()``      eta = 2 / (k + 1)                                 nothing
``Exact()``         argmin of the surrogate on the segment            closed form for affine gradients
``Short(L)``        min(gap / (L ||d||^2), 1) (Demyanov-Rubinov)      a Lipschitz constant
``Backtracking()``  the same with L found during the run              values, or affine gradients
``"adaptive"``      ``Backtracking(shrink=0.9, slopes=True)``         gradients
==================  ================================================  ==============================

References: Demyanov and Rubinov 1970 (short steps); Dunn and Harshbarger 1978 (open loop); Pedregosa, Negiar,
Askari and Jaggi 2020 (backtracking); Pokutta 2024 (adaptive).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dcfw import _validate
from dcfw._protocol import stateless
from dcfw.functions.base import Function
from dcfw.solvers.segment import Segment

Step = Callable[[Segment], float]


class StepRule(Protocol):
    """The interface of a step rule; users may write their own.

    >>> from dataclasses import dataclass
    >>> import numpy as np, dcfw
    >>> @dataclass(frozen=True)
    ... class Cautious:
    ...     factor: float = 0.5
    ...
    ...     def bind(self, f, domain):
    ...         return lambda segment: self.factor * 2.0 / (segment.k + 1.0)
    >>> f, g = dcfw.functions.SquaredNorm(1.0), dcfw.functions.Quadratic(np.diag([3.0, 1.0]))
    >>> dcfw.minimize(f - g, dcfw.sets.Simplex(2), step=Cautious(), tol=1e-3).success
    True
    """

    def bind(self, f: Function, domain: Any) -> Step: ...


class LineSearchFailed(Exception):
    """No acceptable step was found: values are too inexact, or a stated property does not hold.

    Examples
    --------
    A run in which this happens ends with its own status:

    >>> import dcfw
    >>> dcfw.Status.LINE_SEARCH.sentence
    'The line search found no acceptable step.'
    """


@dataclass(frozen=True)
class OpenLoop:
    """The step 2/(k+1), k = 1, 2, ... within each inner loop; or g/(k-1+g) with g = 2 + log k.

    Parameters
    ----------
    log : bool, default False
        Whether to use the second rule, which is faster if f grows away from its minimisers or the set is
        strongly convex, and slower by at most a logarithm (Wirth, Pena and Pokutta 2024).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from dcfw import steps
    >>> step = steps.OpenLoop().bind(None, None)
    >>> [step(SimpleNamespace(k=k)) for k in (1, 3)]
    [1.0, 0.5]
    >>> round(steps.OpenLoop(log=True).bind(None, None)(SimpleNamespace(k=3)), 4)
    0.6077
    """

    log: bool = False

    def __post_init__(self) -> None:
        _validate.flag(self.log, "log")

    def bind(self, f: Function, domain: Any) -> Step:
        if not self.log:
            return stateless(lambda segment: 2.0 / (segment.k + 1.0))

        @stateless
        def step(segment: Segment) -> float:
            g = 2.0 + math.log(segment.k)
            return g / (segment.k - 1.0 + g)

        return step


@dataclass(frozen=True)
class Exact:
    """Exact line search: in closed form for affine gradients, by a safeguarded search otherwise.

    Parameters
    ----------
    accuracy : float
        The search ends when the slope has fallen to this fraction of the first.
    evaluations : int
        The maximum number of gradients in a search.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> phi = dcfw.functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=1.0)
    >>> rough = dcfw.steps.Exact(accuracy=1e-2)
    >>> dcfw.minimize(phi, dcfw.sets.Box(0.0, 4.0, 2), x0=np.full(2, 2.0), step=rough, tol=1e-6).x.round(2)
    array([3.14, 3.14])
    """

    accuracy: float = 1e-4
    evaluations: int = 40

    def __post_init__(self) -> None:
        _validate.scalar(self.accuracy, "accuracy", low=0.0)
        _validate.integer(self.evaluations, "evaluations", low=1)

    def bind(self, f: Function, domain: Any) -> Step:
        return self._step

    @stateless
    def _step(self, segment: Segment) -> float:
        curvature = segment.curvature
        if curvature is None:
            return search(segment, self.accuracy, self.evaluations)
        if curvature <= 0.0:  # linear, or nonconvex (method "fw"): the far end is the minimiser
            return 1.0
        return min(segment.gap / curvature, 1.0)


@dataclass(frozen=True)
class Short:
    """The Demyanov-Rubinov step min(gap / (L ||d||^2), 1); L defaults to the function's constant.

    >>> from types import SimpleNamespace
    >>> from dcfw import steps
    >>> steps.Short(L=2.0).bind(None, None)(SimpleNamespace(gap=1.0, norm2=4.0))
    0.125
    """

    L: float | None = None

    def __post_init__(self) -> None:
        if self.L is not None:
            _validate.scalar(self.L, "L", low=0.0)

    def bind(self, f: Function, domain: Any) -> Step:
        L = self.L if self.L is not None else f.lipschitz
        if L is None:
            raise ValueError(
                "step 'short' needs a Lipschitz constant and f does not know one: pass steps.Short(L=...), "
                "state lipschitz= in functions.Smooth, or use step 'backtracking' or 'exact'"
            )
        L = _validate.scalar(L, "L", low=0.0)

        @stateless
        def step(segment: Segment) -> float:
            length = L * segment.norm2
            return min(segment.gap / length, 1.0) if length > segment.gap else 1.0

        return step


@dataclass(frozen=True)
class Scaled:
    """The step min(gap / C, 1) with a curvature constant C (Khamaru and Wainwright's choice: L D^2).

    >>> from types import SimpleNamespace
    >>> from dcfw import steps
    >>> steps.Scaled(C=4.0).bind(None, None)(SimpleNamespace(gap=1.0))
    0.25
    """

    C: float

    def __post_init__(self) -> None:
        _validate.scalar(self.C, "C", low=0.0, allow_inf=True)

    def bind(self, f: Function, domain: Any) -> Step:
        return stateless(lambda segment: min(segment.gap / self.C, 1.0) if segment.gap < self.C else 1.0)


@dataclass(frozen=True)
class Backtracking:
    """The Demyanov-Rubinov step with L found by backtracking.

    L is multiplied by ``shrink`` before each step, and by ``grow`` until the quadratic upper bound holds, in
    at most ``cap`` trials, since inexact values may never satisfy it.  Affine gradients need no values.

    ``slopes=True`` accepts a step if the function still decreases at its end (Pokutta 2024, the rule
    ``Adaptive`` of FrankWolfe.jl).  A step then costs one gradient, which the next step reuses, and for a
    convex function no value, so that rounding in values does not matter.

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets, steps
    >>> f, g = functions.SquaredNorm(1.0), functions.Quadratic(np.diag([3.0, 1.0]))
    >>> dcfw.minimize(f - g, sets.Simplex(2), step=steps.Backtracking(L=1.0), tol=1e-3).success
    True
    """

    L: float | None = None
    grow: float = 2.0
    shrink: float = 0.5
    cap: int = 30
    slopes: bool = False

    def __post_init__(self) -> None:
        _validate.scalar(self.grow, "grow", low=1.0, open_low=True)
        _validate.scalar(self.shrink, "shrink", low=0.0, high=1.0, open_low=True)
        _validate.integer(self.cap, "cap", low=1)
        _validate.flag(self.slopes, "slopes")
        if self.L is not None:
            _validate.scalar(self.L, "L", low=0.0, open_low=True)

    def bind(self, f: Function, domain: Any) -> Step:
        return _Search(self)


class _Search:
    """A backtracking rule during a run, which keeps L between steps."""

    def __init__(self, rule: Backtracking) -> None:
        self.rule, self.L = rule, rule.L

    def __call__(self, segment: Segment) -> float:
        rule = self.rule
        norm2, gap = segment.norm2, segment.gap
        if norm2 == 0.0:
            return 1.0
        L = first_estimate(segment) if self.L is None else self.L
        trials = 0
        while trials < rule.cap and math.isfinite(L):  # NaN values fail every test
            length = L * norm2
            eta = gap / length if length > gap else 1.0
            if self._accepts(segment, eta, length):
                self.L = max(L * rule.shrink, 1e-300)
                return eta
            # A larger L that still gives eta = 1 is not a new trial: after many full steps L may be tiny.
            trials += eta < 1.0
            L *= rule.grow
        raise LineSearchFailed(
            f"backtracking did not end after {rule.cap} trials (L = {L:.3g}): the values of the "
            "function are inexact, or its gradient is wrong"
        )

    def _accepts(self, segment: Segment, eta: float, length: float) -> bool:
        gap = segment.gap
        if self.rule.slopes:
            falls = segment.slope(eta) <= 1e-12 * gap
            return falls and (segment.convex or segment.decrease(eta) >= -segment.rounding)
        return segment.decrease(eta) >= eta * gap - 0.5 * eta * eta * length - segment.rounding

    def get_state(self) -> float | None:
        return self.L

    def set_state(self, state: float | None) -> None:
        # Not 0, which growth would never change.
        self.L = None if state is None else _validate.scalar(state, "L", low=0.0, open_low=True)


def first_estimate(segment: Segment) -> float:
    """Return a curvature constant measured on the segment, as a start for backtracking."""
    if segment.curvature is not None:
        measured = segment.curvature / segment.norm2
    else:
        # Far enough that the curvature exceeds the rounding of the values.
        eta = min(max(1e-3, 10.0 * math.sqrt(segment.rounding / max(segment.gap, 1e-300))), 1.0)
        measured = 2.0 * (eta * segment.gap - segment.decrease(eta)) / (eta * eta * segment.norm2)
        measured *= 1.0 + eta  # a slightly low difference quotient would be doubled at once
    return max(measured, 1e-6 * segment.gap / segment.norm2, 1e-300)


def search(segment: Segment, accuracy: float, evaluations: int) -> float:
    """Return a step at which the slope along the segment nearly vanishes, by an Illinois search.

    The gradient at the step is the last one evaluated, for the next iteration to reuse.  If the function may
    be nonconvex, a trial with too small a decrease counts as "too far", so that the value always decreases.
    """
    gap = segment.gap
    target = accuracy * gap

    def slope_at(eta: float) -> float:
        if not segment.convex:
            decrease = segment.decrease(eta)
            if decrease < 1e-4 * eta * gap - segment.rounding:
                return gap - 2.0 * decrease / eta  # too far: the slope of a parabola, without a gradient
        return segment.slope(eta)

    a, slope_a, b, slope_b = 0.0, -gap, 1.0, slope_at(1.0)
    if slope_b <= 0.0:
        return 1.0
    # A small slope beyond the minimiser does not prove descent, since the slope may jump early.  Descent is
    # proven if the decrease up to a, at least ``gained``, outweighs the rise since; else the values decide.
    gained, side = 0.0, 0
    for _ in range(evaluations):
        eta = (a * slope_b - b * slope_a) / (slope_b - slope_a)
        if not a < eta < b:
            eta = 0.5 * (a + b)
        slope = slope_at(eta)
        if abs(slope) <= target and (
            slope * (eta - a) <= gained + 1e-12 * eta * gap
            or not segment.convex
            or segment.decrease(eta) > 0.0
        ):
            return eta
        if b - a <= 1e-15:
            break
        # Illinois: the slope of an end that stays twice is halved, so that both ends move.
        if slope < 0.0:
            gained -= slope * (eta - a)
            slope_b *= 0.5 if side < 0 else 1.0
            a, slope_a, side = eta, slope, -1
        else:
            slope_a *= 0.5 if side > 0 else 1.0
            b, slope_b, side = eta, slope, 1
    return a  # descent up to a; 0 if the minimiser is within rounding of x


RULES: dict[str, Callable[[], StepRule]] = {
    "open-loop": OpenLoop,
    "exact": Exact,
    "short": Short,
    "backtracking": Backtracking,
    "adaptive": functools.partial(Backtracking, shrink=0.9, slopes=True),
}


def resolve(step: Any) -> StepRule:
    """Return the rule that ``step`` names, or ``step`` if it is a rule."""
    if hasattr(step, "bind") and not isinstance(step, type):
        return step  # type: ignore[no-any-return]
    return RULES[_validate.choice(step, "step", RULES)]()
