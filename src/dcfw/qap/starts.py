"""The runs of ``qap.solve`` on a task: a number of starts, or a search that fills its budget."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from dcfw.kernels.swaps import layout
from dcfw.qap import portfolio
from dcfw.qap.bounds import of_whole, quick_bound
from dcfw.qap.graduated import FIRST_NOISE, perturbed_centre
from dcfw.qap.objective import dense
from dcfw.qap.result import Incumbent, QAPResult
from dcfw.qap.swaps import is_over
from dcfw.qap.task import Deadline, Task
from dcfw.result import ENDING, Result, Status, mark_ended
from dcfw.solvers import interrupts
from dcfw.solvers.ledger import book_calls

# Unless an option of the relaxation is given, a search starts with plain Frank-Wolfe to this gap, with at
# most 20 assignment problems.
QUICK_RTOL, QUICK_LMO = 1e-2, 20
SHARE_OF_RELAXATION = {True: 0.03, False: 0.3}  # of the time, for a quick start or one with user options
SHARE_OF_BOUND, MOST_FOR_BOUND = 0.1, 1.0  # of the time of a search, and in seconds
SUCCESSES = (Status.CONVERGED, Status.OPTIMAL, Status.TARGET, Status.FINISHED)


@dataclass(frozen=True)
class Call:
    started: float
    restarts: int | str
    time_limit: float | None
    max_steps: int | None
    target: float | None
    n_jobs: int
    seeds: np.random.SeedSequence | None  # None: the system's randomness
    clock: Any

    @property
    def deadline(self) -> float | None:
        return None if self.time_limit is None else self.started + self.time_limit


@dataclass
class Stream:
    """The generator of one start, created at the first call: seeding takes longer than some steps."""

    seed: np.random.SeedSequence | None

    @cached_property
    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def __call__(self) -> np.random.Generator:
        return self.generator


@dataclass
class Best:
    """The best result of several starts, and the values of all, in the units of the reduced problem."""

    result: QAPResult | None = None
    values: list[Any] = field(default_factory=list)
    cut: bool = False
    ended: Status | None = None

    def take(self, result: QAPResult) -> None:
        self.values.append(result.fun)
        self.cut |= result.status is Status.TIME_LIMIT
        if result.status in ENDING:
            self.ended = result.status
        if self.result is None or result.fun < self.result.fun:
            self.result = result


def conclude(task: Task, call: Call, result: QAPResult, values: list[Any]) -> QAPResult:
    """Return the user's result: the whole permutation, exact values in user units, the time of the call."""
    problem, reduced = task.problem, result.fun
    relaxed = {name: result[name] for name in Result._defaults if name != "restart_values"}
    result.relaxation = Result(**(relaxed | {"fun": result.relaxed_fun}))
    result.permutation = problem.complete(result.permutation)
    result.fun = problem.evaluate(result.permutation)
    # Converted values may be rounded differently from the best one's.
    result.restart_values = [result.fun if value == reduced else problem.value(value) for value in values]
    result.sizes, result.labels = problem.sizes, problem.matched(result.permutation)
    result.time = result.total_time = time.perf_counter() - call.started
    return result


def restarted(task: Task, call: Call) -> QAPResult:
    count = 1 if call.restarts == "auto" or task.n <= 1 else int(call.restarts)
    best = Best()
    starts: Iterator[QAPResult] = (task.run(*start, call.deadline) for start in _sources(call, count))
    if call.n_jobs != 1 and count != 1:
        starts = _side_by_side(task, call, count)
    try:
        for result in starts:
            best.take(result)
            if interrupts.pending():
                best.ended = Status.INTERRUPTED
            if best.ended is not None:
                break
    except KeyboardInterrupt:
        if best.result is None or interrupts.insistent():
            raise
        best.ended = Status.INTERRUPTED
    except Exception as error:
        if best.result is not None:
            found = conclude(task, call, best.result, best.values)
            known = getattr(error, "intermediate_result", None)  # of the start that failed
            if known is None or task.problem.sign * found.fun <= task.problem.sign * known.fun:
                error.intermediate_result = found  # type: ignore[attr-defined]
        raise
    if best.ended is None and (best.cut or len(best.values) < count):
        best.ended = Status.TIME_LIMIT
    assert best.result is not None
    result = conclude(task, call, best.result, best.values)
    result.n_starts = len(best.values)
    if task.n <= 1:
        enter_bound(result, result.fun, task)  # there is no other permutation
    elif task.method == "graduated" and (low := quick_bound(task.problem)) is not None:
        enter_bound(result, of_whole(task.problem, low), task)
    if best.ended is not None:
        mark_ended(result, best.ended)
    return result


def enter_bound(result: QAPResult, bound: float, task: Task) -> None:
    if task.problem.sign * (bound - result.fun) > 0:  # the sum of the given pairs was rounded differently
        bound = result.fun
    result.bound = bound
    result.gap_to_bound = abs(float(result.fun - bound)) / max(abs(float(bound)), 1.0)


def _sources(call: Call, count: int) -> Iterator[tuple[int, Stream]]:
    """Yield index and generator of each start while there is time: even seeding thousands takes a while."""
    for index in range(count):
        if index > 0 and (is_over(call.deadline) or interrupts.pending()):
            return
        yield index, Stream(None if call.seeds is None else call.seeds.spawn(1)[0])


def _side_by_side(task: Task, call: Call, count: int) -> Iterator[QAPResult]:
    """Yield the results in the order of the starts, the same for any number of workers."""
    from dcfw.parallel import Parallel, delayed

    deadline = call.deadline
    if task.method != "graduated":
        task.model(deadline)
    end = None if deadline is None else Deadline.at(deadline)
    found: dict[int, QAPResult] = {}  # filled by threads: Ctrl-C keeps the finished results
    jobs = (delayed(_run_one)(task, index, rng, end, found) for index, rng in _sources(call, count))
    try:  # threads, because the kernels release the interpreter lock
        answers = Parallel(n_jobs=call.n_jobs, prefer="threads")(jobs)
    except BaseException:
        yield from (result for _, result in sorted(found.copy().items()))
        raise
    yield from (answer for answer in answers if answer is not None)


def _run_one(
    task: Task, index: int, rng: Stream, end: Deadline | None, found: dict[int, QAPResult]
) -> QAPResult | None:
    deadline = None if end is None else end.here()
    if index > 0 and is_over(deadline):
        return None
    found[index] = result = task.run(index, rng, deadline)
    return result


class _Session:
    """One search: the relaxation it starts with, the incumbent, and why it ends."""

    def __init__(self, task: Task, call: Call) -> None:
        self.task, self.call = task, call
        seconds = None if call.max_steps is not None else call.time_limit
        self.budget = portfolio.Budget(call.clock or time.perf_counter, seconds, call.max_steps)
        if call.clock is None and seconds is not None:
            self.budget.limit = max(seconds - (time.perf_counter() - call.started), 0.0)
        self.incumbent = portfolio.Incumbent(self.budget.now, self._accepted)
        self.stop: Status | None = None
        self.relaxation: QAPResult | None = None
        self.scale: int = 1
        self.whole = all(M.dtype.kind == "i" for M in (task.A, task.B, task.C) if M is not None)
        self.bound: float | None = None
        # A time limit beside a budget of steps ends the search, but has no influence on it before.
        self.deadline = call.deadline if call.max_steps is not None else None
        self.goals: dict[Status, Any] = {}
        self.path_lmo = 0  # assignment problems of the graduated starts

    def over(self) -> bool:
        if interrupts.pending():
            self.stop = self.stop or Status.INTERRUPTED
        return self.stop is not None or is_over(self.deadline)

    def _accepted(self) -> None:
        if self.task.callback is None or self.stop is not None:
            return
        try:
            self.task.callback(self.result(Status.RUNNING))
        except StopIteration:
            self.stop = Status.CALLBACK

    def relax(self, quick: bool) -> QAPResult:
        task = copy.copy(self.task)
        if quick:
            task.method, task.rtol, task.max_lmo, task._model = "fw", QUICK_RTOL, QUICK_LMO, None
        deadline = self.deadline
        if self.call.max_steps is None:
            deadline = time.perf_counter() + SHARE_OF_RELAXATION[quick] * self.budget.limit
        ((index, rng),) = _sources(self.call, 1)
        self.relaxation = result = task.run(index, rng, deadline)
        if result.status in ENDING:
            self.stop = result.status
        return result

    def unscaled(self, value: Any) -> Any:
        return value // self.scale if self.whole else value / self.scale

    def result(self, status: Status) -> QAPResult:
        problem, found = self.task.problem, self.incumbent
        assert self.relaxation is not None
        result = copy.copy(self.relaxation)
        trace = [(moment, self.unscaled(value), name) for moment, value, name in found.trace]
        if found.p is not None:
            result.permutation, result.fun = found.p, self.unscaled(found.value)
        values = [value for _, value, _ in trace] if found.p is not None else [result.fun]
        result = conclude(self.task, self.call, result, values)
        result.trace = [Incumbent(moment, problem.value(value), name) for moment, value, name in trace]
        if trace:
            result.trace[-1] = result.trace[-1]._replace(value=result.fun)
        result.trace_unit = "steps" if self.budget.counts else "seconds"
        result.n_starts = found.starts + 1
        book_calls(result, self.path_lmo)
        if self.bound is not None:
            enter_bound(result, of_whole(problem, self.bound), self.task)
        result.method, result.split = "auto", "none"
        result.status, result.success = status, status in SUCCESSES
        result.message = status.sentence
        return result

    def search(self, first: QAPResult) -> None:
        task, call = self.task, self.call
        ready = layout(dense(task.A), dense(task.B), task.C)
        self.scale = ready.scale
        own = task.permutation is not None and np.array_equal(first.permutation, task.permutation)
        name, found = "init" if own else first.method, self.incumbent
        found.rtol = ready.rtol
        found.offer(ready.problem.value(first.permutation), first.permutation, name)
        # A budget of steps gives the same answer on every machine, so no time may influence the bound.
        seconds = 0.0 if self.budget.counts else SHARE_OF_BOUND * self.budget.limit
        self.bound = quick_bound(task.problem, min(seconds, MOST_FOR_BOUND))
        target = None if call.target is None else task.problem.reduced_value(call.target)
        self.goals = {Status.OPTIMAL: ready.goal(self.bound), Status.TARGET: ready.goal(target)}
        found.goal = max(self.goals.values())
        assert call.seeds is not None
        workers = call.n_jobs if call.n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + call.n_jobs)
        team = partial(
            portfolio.Team, ready, self.budget, found, stopped=self.over,
            lap_seconds=first.time / max(first.n_lmo, 1),
            paths=[partial(self._follow, split) for split in ("paper", "norm")],
        )  # fmt: skip
        teams = [team(rng=np.random.default_rng(seed)) for seed in call.seeds.spawn(workers)]
        try:
            portfolio.search(teams)
        except BaseException:
            self.stop = self.stop or Status.INTERRUPTED  # ends the other workers
            raise

    def _follow(self, split: str, rng: np.random.Generator) -> np.ndarray:
        centre = perturbed_centre(self.task.n, FIRST_NOISE, rng)
        end = self.task.path(split).follow(centre, max_lmo=self.task.max_lmo, deadline=self.deadline)
        with self.incumbent.lock:
            self.path_lmo += end.n_lmo
        return end.p


def searched(task: Task, call: Call, quick: bool) -> QAPResult:
    session = _Session(task, call)
    try:
        first = session.relax(quick)
        if session.stop is None:
            session.search(first)
    except KeyboardInterrupt:
        session.stop = Status.INTERRUPTED
        if session.relaxation is None or interrupts.insistent():
            raise
    except Exception as error:
        session.stop = Status.CALLBACK  # no further callbacks
        if session.relaxation is not None:
            error.intermediate_result = session.result(Status.RUNNING)  # type: ignore[attr-defined]
        raise
    if session.stop is not None:
        return session.result(session.stop)
    reached = (status for status, goal in session.goals.items() if session.incumbent.value <= goal)
    return session.result(next(reached, Status.FINISHED))
