"""How ``qap.solve(..., restarts="auto", time_limit=T)`` fills its time.

A relaxation finds the right region and swaps find the bottom of it, so the time is shared: a part goes to
new starts (relax, round, polish), the rest to improving the best permutation so far.  For ``polish="2opt"``
that is seven tenths of it, which kicks with swap descents and robust tabu search share equally; for
``polish="tabu"`` three quarters, all for tabu search.  Without a polish all of the time goes to new starts.

Kicks find what structured instances hide, tabu search what the others do.  Over 23 instances with n = 19 to
256, three seconds of processor time each and half of it for starts, kicks alone ended at a mean error of
0.34 %, tabu search alone at 0.18 %, both by turns at 0.17 %.  With both, two seconds and two seeds on 18
instances, shares of 0.3, 0.5 and 0.7 for starts ended at 0.17, 0.22 and 0.24 %.  On 22 instances with n = 25
to 150 that had no part in these choices, two seconds and three seeds each, kicks with a share of 0.5 ended
at 0.40 %, both searches with 0.3 at 0.21 %; the change cost 0.6 points on tai80b, 0.2 on tai150b and 0.1 on
tai100b.

With ``split="auto"`` many of the new starts are *quick*: short runs of plain Frank-Wolfe (at most 100
assignment problems, gap to 1e-2) from widely scattered points.  A DC-FW run gives the better permutation, but
at equal time several quick starts beat one careful one: over 11 instances with n = 25 to 256 and one second
each, FW starts with kicks ended at a mean error of 0.5 %, spectral DC-FW starts with kicks at 1.3 %, and
without kicks FW, spectral and balanced DC-FW starts at 2.4, 3.4 and 5.2 %.

That is so where good permutations are many and unlike each other.  Where one is far better than all others
(two copies of one graph, say) they are of no use: quick starts and kicks end nowhere near it, and DC-FW
from the barycentre finds it nearly always.  So after the first quick start come two *careful* ones, DC-FW
with the balanced and with the spectral split, each for a tenth of the time at most (``python -m bench
graphs``).  A split that takes longer to build than that is left out.

With ``polish="2opt"`` every second start from then on is a careful one too, with the spectral split and from
a random point.  With one second of processor time and three seeds each that brought the mean error from 0.61
to 0.30 % on sko100a, from 0.99 to 0.83 % on tai30a and from 0.25 to 0.06 % on sko64, over 12 instances with
n = 25 to 150 from 0.70 to 0.65 %; the worst losses were 0.07 points on sko81 and 0.06 on tho150.

With ``n_jobs`` several workers do so side by side, the first of them as said, the others without the two
careful starts from the barycentre.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from dcfw.qap.result import QAPResult
from dcfw.qap.task import OWN, Deadline, Task, better
from dcfw.result import ENDING, Status

SHARE_OF_STARTS = {"2opt": 0.3, "tabu": 0.25}
"""The share of the time for new starts, by what improves the best permutation in the rest of it."""
KICK = (0.05, 0.3)
QUICK: dict[str, Any] = {"method": "fw", "rtol": 1e-2, "max_lmo": 100}
QUICK_NOISE = 0.1
FAR = 10**9  # between the numbers of the starts of two workers
CAREFUL = ("balanced", "spectral")
SHARE_OF_CAREFUL = 0.1
"""The share of all the time that a careful start may take."""
SEARCHES: dict[str | None, tuple[str, ...]] = {"2opt": ("kicks", "tabu"), "tabu": ("tabu",)}
"""What improves the best permutation, by polish; several share the time equally."""
LONGEST = {"kicks": 1.0, "tabu": 60.0}
"""Seconds that a search goes on for at a time, which is what Ctrl-C may lose.

Kicks lose nothing by a pause, tabu search forgets its bans.
"""


def fill(task: Task, seeds: Any, deadline: float, count: int = 0) -> Iterator[QAPResult]:
    """Yield the results of all starts made until the deadline; the best one is improved on the way.

    ``count`` is the number of the first start: number 0 is the one that is not random, and it alone is
    followed by careful ones.
    """
    starters, waiting = [task], []
    if task.automatic:
        both = [careful(task, split) for split in CAREFUL]
        starters = [quick(task), both[-1]] if task.polish == "2opt" else [quick(task)]  # by turns
        waiting = both if count == 0 else []
    begun = time.perf_counter()
    allowed = SHARE_OF_CAREFUL * (deadline - begun)
    spent, made = 0.0, 0
    searched = dict.fromkeys(SEARCHES.get(task.polish, ()), 0.0)
    best: QAPResult | None = None
    while best is None or time.perf_counter() < deadline:
        now = time.perf_counter()
        (stream,) = seeds.spawn(1)
        rng = np.random.default_rng(stream)
        new = task.polish is None or task.n < 3 or spent < SHARE_OF_STARTS[task.polish] * (now - begun)
        if best is None or new or waiting:
            first = best is not None and bool(waiting)  # a careful start from where the first one began
            starter = waiting.pop(0) if first else starters[made % len(starters)]
            made += 1
            until = deadline if starter is starters[0] else min(deadline, now + allowed)
            if starter is not starters[0] and not starter.affordable(until - now):
                starters = starters[:1]
                continue
            result = starter.run(0 if first else count, rng, until)
            count += 1
            spent += time.perf_counter() - now
            if best is None or result.fun < best.fun:
                best = result
            yield result
        else:
            search = min(searched, key=searched.__getitem__)
            seconds = min(deadline - now, 0.1 * (deadline - begun), LONGEST[search])
            _improve(task, best, rng, seconds, search)
            searched[search] += time.perf_counter() - now


def quick(task: Task) -> Task:
    """Return the task with the settings for many short starts."""
    starter = copy.copy(task)
    budget = QUICK["max_lmo"] if task.max_lmo is None else min(QUICK["max_lmo"], task.max_lmo)
    starter.__dict__.update(QUICK | {"max_lmo": budget}, _model=None)
    starter.protocol = dataclasses.replace(task.protocol, noise=QUICK_NOISE)
    return starter


def careful(task: Task, split: str) -> Task:
    """Return the task with another decomposition, for one start from where the first one begins."""
    starter = copy.copy(task)
    starter.__dict__.update(split=split, flexible=False, _model=None)
    return starter


def _improve(task: Task, best: QAPResult, rng: np.random.Generator, seconds: float, search: str) -> None:
    """Try to improve the best permutation for a while."""
    if search == "tabu":
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


def fill_side_by_side(task: Task, seeds: Any, deadline: float, n_jobs: int) -> Iterator[QAPResult]:
    """Yield the results of several workers that fill the time, each with improvements of its own best."""
    from dcfw.parallel import Parallel, delayed, effective_n_jobs

    if not task.automatic:  # else no start is made with the task's own split
        task.model(deadline)
    end = Deadline.at(deadline)
    found: list[QAPResult] = []  # filled by threads, so that Ctrl-C does not lose what is finished
    ended: list[bool] = []
    workers = effective_n_jobs(n_jobs)
    jobs = (
        delayed(_worker)(task, seeds, end, k, found, ended) for k, seeds in enumerate(seeds.spawn(workers))
    )
    try:
        answers = Parallel(n_jobs=n_jobs, prefer="threads")(jobs)
    except KeyboardInterrupt:
        ended.append(True)
        yield from found.copy()
        raise
    for answer in answers:
        yield from answer


def _worker(
    task: Task, seeds: Any, end: Deadline, k: int, found: list[QAPResult], ended: list[bool]
) -> list[QAPResult]:
    """Return the results of one worker."""
    own, best = [], None
    for result in fill(task, seeds, end.here(), k * FAR):
        own.append(result)
        found.append(result)
        best = better(best, result)
        if ended or result.status in ENDING:
            ended.append(True)
            break
    return own


@functools.cache
def load(
    kinds: tuple[tuple[str, bool] | None, ...], searching: bool, options: tuple[tuple[str, Any], ...]
) -> None:
    """Solve a tiny problem, so that the compiled functions are there before the clock starts.

    ``kinds`` are the types of A, B and C, and whether they are sparse; ``searching`` says that the time is to
    be filled.  On a new machine the functions are compiled, which takes some seconds; after that they come
    from a file.
    """
    rng = np.random.default_rng(0)
    A, B, C = (None if kind is None else _tiny(rng, *kind) for kind in kinds)
    order, none = np.arange(6), np.empty((0, 2), dtype=np.int64)
    task = Task(
        *(A, B, C, 1, order, order, none, 0),
        **dict(options),
        init="barycenter", rtol=1e-3, maxiter=3, max_lmo=None, protocol=OWN, callback=None,
    )  # fmt: skip
    starters = [task]
    if searching and task.automatic:
        starters = [quick(task), *(careful(task, split) for split in CAREFUL)]
    for starter in starters:
        best = starter.run(1, rng, None)
        if best.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # there is nothing yet to be returned
    for search in SEARCHES.get(task.polish, ()) if searching else ():
        _improve(task, best, rng, 1e-3, search)


def _tiny(rng: np.random.Generator, kind: str, sparse: bool) -> Any:
    M = rng.integers(1, 9, (6, 6)).astype(kind)
    if not sparse:
        return M
    from scipy.sparse import csr_array

    return csr_array(M)
