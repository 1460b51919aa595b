"""The final check of a result, in the user's units: is x in the set, and is its gap the one claimed.

The gap is recomputed independently of the run.  If it exceeds the claim by more than rounding and the
oracle's own error, the status is ``BAD_ORACLE``.  The calls count as ``n_check``.  An exception or Ctrl-C
shows in the status.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dcfw._arrays import Array, eps_of, inner, like, norm
from dcfw.functions.base import Function
from dcfw.result import Result, Status, mark_ended
from dcfw.solvers import interrupts
from dcfw.solvers.ledger import Best
from dcfw.solvers.problem import Problem

OUTSIDE = (
    "The set's contains() says that x is not in it, so its lmo must have returned a point outside: "
    "dcfw.check looks for such mistakes."
)
CHANGED = (
    "The gap at x, recomputed, is {gap:.6g}, where the run had found {claim:.6g}: an oracle gives "
    "different answers to the same call, or its fast paths (grad_at, linearise, oracle) disagree with grad "
    "and lmo: dcfw.check looks for such mistakes."
)
SPEED = 2e9  # operations per second, to estimate the cost of contains()
SHARE, SPARE = 0.1, 0.05  # the check may take this share of the run's time, plus these seconds
DOUBT = 1e-6  # relative difference allowed between two computations of a number, or 1000 roundings if more


def gap_at(phi: Function, oracle: Any, x: Array) -> float:
    G = phi.grad(x)
    return float(max(inner(G, x) - oracle(G).inner(G) + oracle.error, 0.0))


def look(result: Result, problem: Problem, best: Best | None, deadline: float) -> bool:
    """Complete and check a result (with ``best``, the run's); return whether x is outside the set."""
    try:
        left = deadline - time.perf_counter()
        allowed = SPARE + max(min(SHARE * result.time, left), 0.0)
        if result.success and best is not None and best.x is result.x:
            scale = _doubt(result.x) * (abs(best.fun) + abs(result.fun))
            if not _explained(result, problem, abs(result.fun - best.fun) - scale):
                reason = f"phi(x), recomputed, is {result.fun:.6g}, where the run had found {best.fun:.6g}."
                result.withdraw(reason, Status.BAD_ORACLE)
        if (result.n_lmo > 0 or math.isnan(result.gap)) and result.status is not Status.BAD_ORACLE:
            _measure(result, problem, left, allowed)
        if problem.domain.check_work() / SPEED > allowed:
            return False
        result.n_check += 1
        # Tolerate 1e-6 of the distance back to the start.
        domain, x = problem.domain, result.x
        if domain.contains(x) or domain.contains(x + 1e-6 * (problem.x0 - x)):
            return False
    except KeyboardInterrupt:
        if interrupts.insistent():
            raise
        mark_ended(result, Status.INTERRUPTED)
        return False
    except Exception as error:
        result.withdraw(
            f"After the run, the set's contains() or phi's oracles raised {type(error).__name__}: {error}",
            Status.BAD_ORACLE,
        )
        return False
    result.withdraw(OUTSIDE, Status.BAD_ORACLE)
    return True


def _measure(result: Result, problem: Problem, left: float, allowed: float) -> None:
    """Recompute the Frank-Wolfe gap at x; compare it with the claim, or adopt it if there is none."""
    unknown = math.isnan(result.gap)
    if not unknown:
        estimate = result.n_samples is not None and not (result.success and result.dc_gap[1] < math.inf)
        if result.gap_of is not None or estimate:
            return  # the gap of another function, or one from samples
        if result.time / result.n_lmo > (max(left, allowed) if result.success else allowed):
            return
    result.n_check += 1
    try:
        oracle = problem.domain.oracle()
        oracle.claim = math.inf if unknown else result.gap
        gap = gap_at(problem.phi, oracle, result.x)
    except Exception as error:
        if result.success:
            reason = f"After the run, phi.grad or the set's lmo raised {type(error).__name__}: {error}"
            result.withdraw(reason, Status.BAD_ORACLE)
        return
    if unknown and math.isfinite(gap):
        result.gap = gap
        if result.gap_of is not None:  # graduated: the path has not reached its end
            result.gap_of = "phi"
    elif not unknown and not _explained(result, problem, gap - oracle.error - result.gap):
        result.withdraw(CHANGED.format(claim=result.gap, gap=gap), Status.BAD_ORACLE)
        result.gap = gap


def _doubt(x: Array) -> float:
    return max(DOUBT, 1e3 * eps_of(x))


def _explained(result: Result, problem: Problem, excess: float) -> bool:
    x, f, g = result.x, problem.f, problem.g
    doubt = _doubt(x)
    if excess <= doubt * result.gap or excess <= doubt * float(np.nanmax(result.history["gap"])):
        return True  # reading the history takes longer than a small problem
    slopes = norm(f.grad(x)) + norm(g.grad(x)) + max(result.L_history or [0.0]) * norm(x)
    # At the origin the points do not show the size of the terms that shift a split there and back; in a set
    # that is small relative to its distance from the origin, the diameter does not show their rounding.
    reach = norm(x) + min(problem.domain.diameter, 1e3 * (norm(x) + norm(problem.x0)) or math.inf)
    allowed = 1e3 * eps_of(x)
    if excess <= allowed * (abs(f.value(x)) + abs(g.value(x)) + slopes * reach):
        return True
    return bool(excess <= allowed * _slopes_elsewhere(problem, x) * norm(x))


def _slopes_elsewhere(problem: Problem, x: Array) -> float:
    """Return the size of the parts' slopes at two vertices and the origin, for quadratic parts.

    Where large terms cancel at x, in values and slopes alike, only other points show how large they are.
    Other functions may have infinite slopes at vertices, which would excuse everything.
    """
    D = like(np.cos(np.arange(float(math.prod(x.shape)))).reshape(x.shape), x)
    points = [problem.domain.lmo(D), problem.domain.lmo(-D), 0.0 * x]
    return sum(norm(h.grad(S)) for h in (problem.f, problem.g) if h.affine_grad for S in points)
