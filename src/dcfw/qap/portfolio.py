"""How ``qap.solve(..., restarts="auto", time_limit=T)`` fills its time.

A relaxation finds the right region and swaps find the bottom of it, so the time is shared: a quarter goes to
new starts (relax, round, polish), the rest to improving the best permutation so far, by kicks and swap
descents for ``polish="2opt"`` and by robust tabu search for ``polish="tabu"``.  Without a polish all of it
goes to new starts.

With ``split="auto"`` most of the new starts are *quick*: short runs of plain Frank-Wolfe (at most 100
assignment problems, gap to 1e-2) from widely scattered points.  A DC-FW run gives the better permutation, but
at equal time several quick starts beat one careful one: over 11 instances with n = 25 to 256 and one second
each, FW starts with kicks ended at a mean error of 0.5 %, spectral DC-FW starts with kicks at 1.3 %, and
without kicks FW, spectral and balanced DC-FW starts at 2.4, 3.4 and 5.2 %.

That is so where good permutations are many and unlike each other.  Where one is far better than all others
(two copies of one graph, say) they are of no use: quick starts and kicks end nowhere near it, and DC-FW
from the barycentre finds it nearly always.  So after the first quick start come two *careful* ones, DC-FW
with the balanced and with the spectral split, each for a tenth of the time at most (``python -m bench
graphs``).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dcfw.result import Result, Status

if TYPE_CHECKING:
    from dcfw.qap.task import Task

SHARE_OF_STARTS = 0.25
KICK = (0.05, 0.3)
QUICK = {"method": "fw", "rtol": 1e-2, "max_lmo": 100}
QUICK_NOISE = 0.1
CAREFUL = ("balanced", "spectral")
SHARE_OF_CAREFUL = 0.1
"""The share of all the time that a careful start may take."""


def fill(task: Task, seeds: Any, deadline: float) -> list[Result]:
    """Return the results of all starts made until the deadline; the best carries the improvements too."""
    starter = quick(task) if task.automatic else task
    waiting = [careful(task, split) for split in CAREFUL] if task.automatic else []
    results: list[Result] = []
    begun = time.perf_counter()
    spent = 0.0
    best: Result | None = None
    while best is None or time.perf_counter() < deadline:
        now = time.perf_counter()
        (stream,) = seeds.spawn(1)
        rng = np.random.default_rng(stream)
        new = task.polish is None or task.n < 3 or spent < SHARE_OF_STARTS * (now - begun)
        if best is None or new or waiting:
            if best is not None and waiting:
                until = min(deadline, now + SHARE_OF_CAREFUL * (deadline - begun))
                result = waiting.pop(0).run(0, rng, until)
            else:
                result = starter.run(len(results), rng, deadline)
            results.append(result)
            spent += time.perf_counter() - now
            if best is None or result.fun < best.fun:
                best = result
            if result.status in (Status.INTERRUPTED, Status.CALLBACK):
                break
        else:
            _improve(task, best, rng, min(deadline - now, 0.1 * (deadline - begun)))
    return results


def quick(task: Task) -> Task:
    """Return the task with the settings for many short starts."""
    starter = copy.copy(task)
    starter.__dict__.update(QUICK, _model=None)
    starter.protocol = dataclasses.replace(task.protocol, noise=QUICK_NOISE)
    return starter


def careful(task: Task, split: str) -> Task:
    """Return the task with another decomposition, for one start from where the first one begins."""
    starter = copy.copy(task)
    starter.__dict__.update(split=split, _model=None)
    return starter


def _improve(task: Task, best: Result, rng: np.random.Generator, seconds: float) -> None:
    """Try to improve the best permutation for a while."""
    if task.polish == "tabu":
        from dcfw.qap.tabu import robust_tabu

        p, value, _ = robust_tabu(
            task.A, task.B, best.permutation, task.C, iterations=10**12, rng=rng, time_limit=seconds
        )
    else:
        from dcfw.qap.kicks import iterated_two_opt

        p, value, _ = iterated_two_opt(
            task.A, task.B, best.permutation, task.C, rounds=10**12, rng=rng, time_limit=seconds, share=KICK
        )
    if value <= best.fun:
        best.permutation, best.fun = p, value


@functools.cache
def load(kinds: tuple[str | None, ...], automatic: bool, options: tuple[tuple[str, Any], ...]) -> None:
    """Solve a tiny problem, so that the compiled functions are there before the clock starts.

    ``kinds`` are the types of A, B and C.  On a new machine they are compiled, which takes some seconds and
    cannot be interrupted; after that they are read from a file.
    """
    from dcfw.qap.task import OWN, Task

    rng = np.random.default_rng(0)
    A, B, C = (None if kind is None else rng.integers(1, 9, (6, 6)).astype(kind) for kind in kinds)
    order, none = np.arange(6), np.empty((0, 2), dtype=np.int64)
    task = Task(
        *(A, B, C, 1, order, order, none, 0),
        **dict(options),
        init="barycenter", rtol=1e-3, maxiter=3, max_lmo=None, protocol=OWN, callback=None,
    )  # fmt: skip
    starters = [quick(task), *(careful(task, split) for split in CAREFUL)] if automatic else [task]
    for starter in starters:
        best = starter.run(1, rng, None)
    if automatic and task.polish is not None:
        _improve(task, best, rng, 1e-3)
