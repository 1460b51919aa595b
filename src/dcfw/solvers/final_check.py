"""The last look at a result, in the user's units: is x in the set, and what is its gap, if nobody has asked.

The calls are booked as ``n_check`` and not among the oracle calls of the method.  Nothing that happens here
loses the result: an exception or Ctrl-C shows in its status.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any

from dcfw._arrays import Array
from dcfw.result import Result, Status, mark_ended
from dcfw.sets.base import Set
from dcfw.solvers import interrupts
from dcfw.solvers.goal import gap_at
from dcfw.solvers.problem import Problem

OUTSIDE = (
    "The set's contains() says that x is not in it, so its lmo must have returned a point outside: "
    "dcfw.check looks for such mistakes."
)
"""The message for a set whose parts do not agree."""
SPEED = 2e9
"""Operations in a second, for a guess of what ``contains`` costs."""
SHARE = 0.1
"""How much of the time of a run its check may take, besides ``SPARE`` seconds."""
SPARE = 0.05


def look(result: Result, problem: Problem, oracle: Any, deadline: float) -> bool:
    """Complete a result, and return whether x has been found outside of the set."""
    try:
        if math.isnan(result.gap) and result.n_lmo > 0 and result.status is not Status.BAD_ORACLE:
            _measure(result, problem, oracle)
        left = deadline - time.perf_counter()
        allowed = SPARE + max(min(SHARE * result.time, left), 0.0)
        if problem.domain.check_work() / SPEED > allowed:
            return False
        result.n_check += 1
        if ended_inside(problem.domain, result.x, problem.x0):
            return False
    except KeyboardInterrupt:
        if interrupts.insistent():
            raise
        mark_ended(result, Status.INTERRUPTED)
        return False
    except Exception as error:
        result.withdraw(
            f"After the run, the set's contains() raised {type(error).__name__}: {error}", Status.BAD_ORACLE
        )
        return False
    result.withdraw(OUTSIDE, Status.BAD_ORACLE)
    return True


def ended_inside(domain: Set, x: Array, start: Array) -> bool:
    """Return whether the final point lies in the set, tolerating 1e-6 of the distance back to the start."""
    return domain.contains(x) or domain.contains(x + 1e-6 * (start - x))


def _measure(result: Result, problem: Problem, oracle: Any) -> None:
    """Find the Frank-Wolfe gap of a point at which the run ended before it knew."""
    with suppress(Exception):  # an oracle that fails here has its say in the next run
        result.n_check += 1
        gap = gap_at(problem.phi, oracle, result.x)
        if math.isfinite(gap):
            result.gap = gap
            if result.gap_of is not None:  # graduated: the path has not come to its end
                result.gap_of = "phi"
