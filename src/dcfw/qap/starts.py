"""The runs of ``qap.solve`` on a task: a number of starts, or a search that fills its budget.

Both keep the best permutation only, and turn it into the user's result in one place, :func:`conclude`.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcfw.kernels.swaps import layout
from dcfw.qap import portfolio
from dcfw.qap.bounds import quick_bound
from dcfw.qap.graduated import FIRST_NOISE, perturbed_centre
from dcfw.qap.objective import dense
from dcfw.qap.result import Incumbent, QAPResult
from dcfw.qap.swaps import is_over
from dcfw.qap.task import Deadline, Task
from dcfw.result import ENDING, Result, Status, mark_ended
from dcfw.solvers import interrupts
from dcfw.solvers.ledger import book_calls

QUICK_RTOL, QUICK_LMO = 1e-2, 20
"""Plain Frank-Wolfe to this gap, with so many assignment problems, starts a search unless the user asks
otherwise."""
SHARE_OF_RELAXATION = {True: 0.03, False: 0.3}
"""The share of the time that it may take: quick, or as the user asks."""
SHARE_OF_BOUND, MOST_FOR_BOUND = 0.1, 1.0
"""The share of the time, and the most in seconds, that a search spends on its bound."""
BOUNDED = 233
"""Searches and paths of problems up to this size come with a bound, which takes O(n^3) operations."""
SUCCESSES = (Status.CONVERGED, Status.OPTIMAL, Status.TARGET, Status.FINISHED)


@dataclass(frozen=True)
class Call:
    """The budget and the random numbers of one call of ``qap.solve``."""

    started: float
    restarts: int | str
    time_limit: float | None
    max_steps: int | None
    target: float | None
    n_jobs: int
    seeds: np.random.SeedSequence | None
    """The source of the seeds of all starts; None for the system's randomness."""
    clock: Any

    @property
    def deadline(self) -> float | None:
        """The end on the clock of ``time.perf_counter``."""
        return None if self.time_limit is None else self.started + self.time_limit


@dataclass
class Best:
    """The best result of several starts, and the values of all; values are those of the reduced problem."""

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


class Stream:
    """The generator of one start, made when it is first asked for: that takes longer than some steps."""

    def __init__(self, seed: np.random.SeedSequence | None) -> None:
        self.seed = seed
        self._generator: np.random.Generator | None = None

    def __call__(self) -> np.random.Generator:
        if self._generator is None:
            self._generator = np.random.default_rng(self.seed)
        return self._generator


def conclude(task: Task, call: Call, result: QAPResult, values: list[Any]) -> QAPResult:
    """Return the user's result: the whole permutation, exact values in user units, the time of the call."""
    problem, reduced = task.problem, result.fun
    # ``fun`` is already that of the permutation: the relaxation has its own.
    relaxed = {name: result[name] for name in Result._defaults if name != "restart_values"}
    result.relaxation = Result(**(relaxed | {"fun": result.relaxed_fun}))
    result.permutation = problem.complete(result.permutation)
    result.fun = problem.evaluate(result.permutation)
    # The others' values may have been rounded otherwise.
    result.restart_values = [result.fun if value == reduced else problem.value(value) for value in values]
    result.sizes, result.labels = problem.sizes, problem.matched(result.permutation)
    result.time = result.total_time = time.perf_counter() - call.started
    return result


def restarted(task: Task, call: Call) -> QAPResult:
    """Return the best of a number of starts."""
    count = 1 if call.restarts == "auto" or task.n <= 1 else int(call.restarts)
    best = Best()
    alone = call.n_jobs == 1 or count == 1
    starts = _one_by_one(task, call, count) if alone else _side_by_side(task, call, count)
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
            _attach(error, task, call, best)
        raise
    if best.ended is None and (best.cut or len(best.values) < count):
        best.ended = Status.TIME_LIMIT  # a number of starts is a wish that was not met
    assert best.result is not None
    result = conclude(task, call, best.result, best.values)
    result.n_starts = len(best.values)
    if task.n <= 1:
        enter_bound(result, result.fun, task)  # there is no other permutation
    elif task.method == "graduated" and (low := cheap_bound(task)) is not None:
        enter_bound(result, task.problem.value(low), task)
    if best.ended is not None:
        mark_ended(result, best.ended)
    return result


def cheap_bound(task: Task, seconds: float = 0.0) -> float | None:
    """Return a quick bound of the reduced problem, None where it is too large or too small for one."""
    if not 1 < task.n <= BOUNDED:
        return None
    try:
        return quick_bound(dense(task.A), dense(task.B), task.C, seconds)
    except ValueError:  # products that overflow
        return None


def enter_bound(result: QAPResult, bound: float, task: Task) -> None:
    """Put a bound, in the user's units, and the distance to it into a result."""
    if task.problem.sign * (bound - result.fun) > 0:  # the sum of the given pairs was rounded otherwise
        bound = result.fun
    result.bound = bound
    result.gap_to_bound = abs(float(result.fun - bound)) / max(abs(float(bound)), 1.0)


def _attach(error: Exception, task: Task, call: Call, best: Best) -> None:
    """Leave the best finished start in an exception, unless the start that failed was better already."""
    assert best.result is not None
    found = conclude(task, call, best.result, best.values)
    known = getattr(error, "intermediate_result", None)
    if known is None or task.problem.sign * found.fun <= task.problem.sign * known.fun:
        error.intermediate_result = found  # type: ignore[attr-defined]


def _streams(call: Call, count: int) -> Iterator[Stream]:
    """Yield the generators of the starts, each when it is asked for: to make thousands takes a while."""
    for _ in range(count):
        yield Stream(None if call.seeds is None else call.seeds.spawn(1)[0])


def _one_by_one(task: Task, call: Call, count: int) -> Iterator[QAPResult]:
    deadline = call.deadline
    for index, stream in enumerate(_streams(call, count)):
        if index > 0 and is_over(deadline):
            return
        yield task.run(index, stream, deadline)


def _side_by_side(task: Task, call: Call, count: int) -> Iterator[QAPResult]:
    """Yield the results in the order of the starts, each with its own seed whatever the number of workers."""
    from dcfw.parallel import Parallel, delayed

    # The kernels release the interpreter lock, so threads do; processes would first have to be started.
    deadline = call.deadline
    if task.method != "graduated":
        task.model(deadline)
    end = None if deadline is None else Deadline.at(deadline)
    found: dict[int, QAPResult] = {}  # filled by threads, so that Ctrl-C does not lose what is finished

    def jobs() -> Iterator[Any]:
        """Yield what is to be done, one by one, until the time is over: to hand it out takes time too."""
        for index, stream in enumerate(_streams(call, count)):
            if index > 0 and (is_over(deadline) or interrupts.pending()):
                return
            yield delayed(_run_one)(task, index, stream, end, found)

    try:
        answers = Parallel(n_jobs=call.n_jobs, prefer="threads")(jobs())
    except BaseException:
        yield from (result for _, result in sorted(found.copy().items()))
        raise
    yield from (answer for answer in answers if answer is not None)


def _run_one(
    task: Task, index: int, stream: Stream, end: Deadline | None, found: dict[int, QAPResult]
) -> QAPResult | None:
    """Run one start in a worker, unless the time is over."""
    deadline = None if end is None else end.here()
    if index > 0 and is_over(deadline):
        return None
    found[index] = result = task.run(index, stream, deadline)
    return result


# The search that fills a budget.


class _Session:
    """One search: the relaxation it starts with, the incumbent, and why it ends."""

    def __init__(self, task: Task, call: Call) -> None:
        self.task, self.call = task, call
        clock = call.clock or time.perf_counter
        seconds = None if call.max_steps is not None else call.time_limit
        self.budget = portfolio.Budget(clock, seconds, call.max_steps)
        if call.clock is None and seconds is not None:
            self.budget.limit = max(seconds - (time.perf_counter() - call.started), 0.0)
        self.incumbent = portfolio.Incumbent(self.budget.now, self._accepted)
        self.stop: Status | None = None
        self.relaxation: QAPResult | None = None
        self.scale: int = 1
        self.whole = all(M.dtype.kind == "i" for M in (task.A, task.B, task.C) if M is not None)
        self.bound: float | None = None
        self.path_lmo = 0  # assignment problems of the graduated starts

    def over(self) -> bool:
        if interrupts.pending():
            self.stop = self.stop or Status.INTERRUPTED
        return self.stop is not None or (self.call.max_steps is not None and is_over(self.call.deadline))

    def _accepted(self, value: Any, p: np.ndarray, name: str, moment: float) -> None:
        callback = self.task.callback
        if callback is None or self.stop is not None:
            return
        try:
            callback(self.result(Status.RUNNING))
        except StopIteration:
            self.stop = Status.CALLBACK

    def relax(self, quick: bool) -> None:
        """Make the first start, which also gives the relaxation that the result reports."""
        task = copy.copy(self.task)
        if quick:
            budget = QUICK_LMO if task.max_lmo is None else min(QUICK_LMO, task.max_lmo)
            task.method, task.rtol, task.max_lmo, task._model = "fw", QUICK_RTOL, budget, None
        deadline = None
        if self.call.time_limit is not None and self.call.max_steps is None:
            deadline = time.perf_counter() + SHARE_OF_RELAXATION[quick] * self.budget.limit
        (stream,) = _streams(self.call, 1)
        self.relaxation = task.run(0, stream, deadline)
        if self.relaxation.status in ENDING:
            self.stop = self.relaxation.status

    def unscaled(self, value: Any) -> Any:
        """Return a value of the searches in the units of the reduced problem, an int for integer data."""
        return value // self.scale if self.whole else value / self.scale

    def result(self, status: Status) -> QAPResult:
        """Return the incumbent in the user's units."""
        problem, found = self.task.problem, self.incumbent
        assert self.relaxation is not None
        result = copy.copy(self.relaxation)
        values = [result.fun]
        if found.p is not None:
            result.permutation, result.fun = found.p, self.unscaled(found.value)
            values = [self.unscaled(value) for _, value, _ in found.trace]
        result = conclude(self.task, self.call, result, values)
        result.trace = [
            Incumbent(moment, problem.value(self.unscaled(value)), name)
            for moment, value, name in found.trace
        ]
        if result.trace:
            result.trace[-1] = result.trace[-1]._replace(value=result.fun)
        result.trace_unit = "steps" if self.budget.counts else "seconds"
        result.n_starts = found.starts + 1
        book_calls(result, self.path_lmo)
        if self.bound is not None:
            enter_bound(result, problem.value(self.bound), self.task)
        result.method, result.split = "auto", "none"
        result.status, result.success = status, status in SUCCESSES
        result.message = status.sentence
        return result


def searched(task: Task, call: Call, quick: bool) -> QAPResult:
    """Return the best permutation that a search of the whole budget finds."""
    session = _Session(task, call)
    try:
        session.relax(quick)
        if session.stop is None:
            _search(session)
    except KeyboardInterrupt:
        session.stop = Status.INTERRUPTED
        if session.relaxation is None or interrupts.insistent():
            raise
    except Exception as error:
        session.stop = Status.CALLBACK  # no more of it while the incumbent is read
        if session.relaxation is not None:
            error.intermediate_result = session.result(Status.RUNNING)  # type: ignore[attr-defined]
        raise
    found, goal = session.incumbent.value, call.target
    reached = None if found is None else session.unscaled(found)
    status = session.stop or Status.FINISHED
    if session.stop is None and reached is not None:
        if goal is not None and reached <= task.problem.reduced_value(goal):
            status = Status.TARGET
        if session.bound is not None and reached <= session.bound:
            status = Status.OPTIMAL
    return session.result(status)


def _search(session: _Session) -> None:
    task, call = session.task, session.call
    A, B = dense(task.A), dense(task.B)
    ready = layout(A, B, task.C)
    session.scale = ready.scale
    first = session.relaxation
    assert first is not None
    own = task.permutation is not None and np.array_equal(first.permutation, task.permutation)
    name = "init" if own else first.method
    session.incumbent.offer(ready.problem.value(first.permutation), first.permutation, name)
    # By steps the same call has the same answer on every machine: no time may decide.
    seconds = 0.0 if session.budget.counts else SHARE_OF_BOUND * session.budget.limit
    session.bound = cheap_bound(task, min(seconds, MOST_FOR_BOUND))
    goals = [session.bound] if session.bound is not None else []
    if call.target is not None:
        goals.append(task.problem.reduced_value(call.target))

    def path(split: str) -> Any:
        def follow(rng: np.random.Generator) -> np.ndarray:
            centre = perturbed_centre(task.n, FIRST_NOISE, rng)
            end = task.path(split).follow(centre, max_lmo=task.max_lmo)
            with session.incumbent.lock:
                session.path_lmo += end.n_lmo
            return end.p

        return follow

    assert call.seeds is not None
    workers = call.n_jobs if call.n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + call.n_jobs)
    teams = [
        portfolio.Team(
            ready,
            session.budget,
            session.incumbent,
            goal=ready.goal(max(goals) if goals else None),
            paths=[path("paper"), path("norm")],
            stopped=session.over,
            lap_seconds=first.time / max(first.n_lmo, 1),
            rng=np.random.default_rng(stream),
        )
        for stream in call.seeds.spawn(workers)
    ]
    try:
        portfolio.search(teams)
    except BaseException:
        session.stop = session.stop or Status.INTERRUPTED  # ends the other workers
        raise
