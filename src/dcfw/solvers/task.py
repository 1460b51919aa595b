"""A solve with all options resolved: one run from a start, and the best of several runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dcfw._arrays import Array, like, norm
from dcfw.functions.base import Function
from dcfw.result import ENDING, Result, Status, mark_ended
from dcfw.sets.base import Set
from dcfw.solvers import final_check, interrupts
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.cgs import CGS
from dcfw.solvers.choice import inner_loop
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.solvers.graduated import Restarted
from dcfw.solvers.ledger import Ledger
from dcfw.solvers.problem import Method, Problem
from dcfw.solvers.run import Goal, Run, Stop
from dcfw.solvers.stochastic import SFW, Stochastic
from dcfw.steps import StepRule
from dcfw.tolerances import Tolerance

SAMPLED = (Stochastic, SFW)  # methods that may not take a whole gradient of phi
OWN_STEPS = (CGS, *SAMPLED, FWK, FWM)  # methods whose steps are not along f


class Parts(NamedTuple):
    """The objective as phi = f - g, with the name of the split and its assumptions."""

    phi: Function
    f: Function
    g: Function
    split: str
    conditional: str = ""
    refuted: str = ""  # the reason why f or g is known not to be convex


class Outcome(NamedTuple):
    """The result of a run, and whether its point is outside the set."""

    result: Result
    outside: bool

    def rank(self) -> tuple[bool, float]:
        return self.outside, math.inf if math.isnan(self.result.fun) else self.result.fun


@dataclass(frozen=True)
class Task:
    """A problem with its method, start and limits.

    ``atoms`` make up x0, if known; ``chosen`` is whether the user chose x0; ``tolerances`` are tol and rtol;
    ``limits`` are each run's maxiter, max_inner and max_lmo; ``time_limit`` is for all runs together, from
    ``started``; ``seed`` is the user's ``rng``.
    """

    parts: Parts
    domain: Set
    solver: Method
    rule: StepRule
    tolerance: Tolerance
    inner: Any
    lazy: bool
    x0: Array
    atoms: ActiveSet | None
    chosen: bool
    tolerances: tuple[float | None, float | None]
    limits: dict[str, Any]
    time_limit: float | None
    started: float
    callback: Callable[..., Any] | None
    generator: np.random.Generator
    checkpoint: Any = None
    seed: Any = None

    def best_of(self, count: int) -> Result:
        best = latest = self.run(self.x0, self.started)
        outcomes = [best]
        ended = None
        while len(outcomes) < count and latest.result.status not in ENDING:
            if self._time_left(time.perf_counter()) <= 0.0:
                ended = Status.TIME_LIMIT  # some runs are missing
                break
            try:
                start = self.x0  # paths perturb their start themselves
                if not isinstance(self.solver, Restarted):
                    start = like(self.domain.random(self.generator), start)
                latest = self.run(start, time.perf_counter())
            except KeyboardInterrupt:  # before the run has started
                if interrupts.insistent():
                    raise
                ended = Status.INTERRUPTED
                break
            except Exception as error:
                found = getattr(getattr(error, "intermediate_result", None), "fun", math.inf)
                if not found <= best.result.fun:  # carry the best point of all runs
                    with suppress(AttributeError, TypeError):  # not every exception takes attributes
                        error.intermediate_result = best.result  # type: ignore[attr-defined]
                raise
            outcomes.append(latest)
            best = min(best, latest, key=Outcome.rank)
        result = best.result
        result.restart_values = [outcome.result.fun for outcome in outcomes]
        result.total_time = sum(outcome.result.time for outcome in outcomes)
        if ended is not None:
            mark_ended(result, ended)
        if any(outcome.outside for outcome in outcomes) and not best.outside:
            mark_ended(result, Status.BAD_ORACLE)
            result.message += " Another run left the set through its lmo: see dcfw.check."
        if latest.result.status in ENDING:
            mark_ended(result, latest.result.status)
        return result

    def run(self, start: Array, began: float) -> Outcome:
        domain, parts, solver = self.domain, self.parts, self.solver
        oracle = domain.oracle()
        left = self._time_left(began)
        run = Run(
            parts.phi,
            oracle,
            start,
            goal=Goal(*self.tolerances),
            time_limit=None if math.isinf(left) else left,
            callback=self.callback,
            started=began,
            split=solver.needs_split,
            **self.limits,
        )
        if start is self.x0 and self.chosen and not isinstance(solver, SAMPLED):
            # Binding the run would make a cycle, and matrices would wait for the garbage collector.
            run.goal.elsewhere = partial(self._gap_at_start, run.ledger, run.deadline)
        loop = inner_loop(self.inner, self.lazy, domain)
        if isinstance(loop, ActiveLoop) and self.atoms is not None and start is self.x0:
            loop.resume(self.atoms, start, domain)
        problem = Problem(
            phi=parts.phi,
            f=parts.f,
            g=parts.g,
            domain=domain,
            x0=start,
            rule=self.rule,
            tolerance=self.tolerance,
            inner=loop,
            rng=self.generator,
        )
        if not isinstance(solver, OWN_STEPS):
            _ = problem.step  # refuses an unsuitable rule before any oracle call
        result = self._finish(problem, run, oracle)
        if parts.refuted and result.status is not Status.NOT_CONVEX:
            result.withdraw(f"{parts.refuted}: nothing is certified.")
        outside = final_check.look(result, problem, run.ledger.best, began + left)
        result.method = solver.name
        result.split = result.split or parts.split
        if "conditional" not in run.ledger.extra:
            result.conditional = parts.conditional
        if isinstance(loop, ActiveLoop):
            result.active_set = loop.active_set(result.x)
        return Outcome(result, outside)

    def _finish(self, problem: Problem, run: Run, oracle: Any) -> Result:
        try:
            with nullcontext() if self.checkpoint is None else self._kept(problem, run, oracle):
                self.solver.solve(problem, run)
            raise AssertionError("a solver ends by raising Stop")
        except Stop as stop:
            return run.result(stop.status, stop.detail)
        except KeyboardInterrupt as error:
            if interrupts.insistent():
                run.tell(error)
                raise
            return run.result(Status.INTERRUPTED)
        except Exception as error:
            ended = error.__cause__
            if type(error) is RuntimeError and isinstance(ended, StopIteration):
                # An oracle's own: loops are generators, in which Python turns it into this error.
                run.tell(ended)
                raise ended from None
            run.tell(error)
            raise

    @contextmanager
    def _kept(self, problem: Problem, run: Run, oracle: Any) -> Iterator[None]:
        from dcfw.checkpoints.fingerprint import describe, fingerprint
        from dcfw.checkpoints.keeper import Keeper

        loop: Any = problem.inner
        active = isinstance(loop, ActiveLoop)
        name = f"{loop.rule}, lazy={loop.lazy}, cap={loop.cap}" if active else describe(loop)
        run.keeper = keeper = Keeper(self.checkpoint, run)
        keeper.known = {"f": problem.f, "phi": problem.phi, "tolerance": problem.tolerance}
        keeper.keep(oracle=oracle, inner=loop, rng=problem.rng)
        if isinstance(self.solver, DCFW):
            keeper.keep(step=problem.step)
        if hasattr(problem.tolerance, "get_state"):
            keeper.keep(tolerance=problem.tolerance)
        with keeper.open(fingerprint(problem, self.solver, name, run.max_inner, self.seed)):
            yield

    def _gap_at_start(self, ledger: Ledger, deadline: float) -> float:
        """Return the FW gap at the set's own start, nan if that fails or is x0."""
        if time.perf_counter() >= deadline:
            return math.nan
        with suppress(Exception):  # the user may not have defined phi there
            start = like(self.domain.start(), self.x0)
            if norm(start - self.x0) > 0.0:
                ledger.count_check()
                return final_check.gap_at(self.parts.phi, self.domain.oracle(), start)
        return math.nan

    def _time_left(self, now: float) -> float:
        return math.inf if self.time_limit is None else self.time_limit - (now - self.started)
