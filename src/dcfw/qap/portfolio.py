"""The portfolio of searches behind ``qap.solve(..., restarts="auto", time_limit=T)``.

Robust tabu search is good at unstructured problems, breakout local search at structured ones with deep
basins, annealing at large, smooth and sparse ones.  The portfolio decides online which one to use:

1. Tabu and breakout search start from graduated paths (:mod:`dcfw.qap.graduated`), if these take at most a
   tenth of the time, and get an equal share of the time; the better one stays.
2. Annealing makes a short run and one three times as long.
3. The search that stayed continues from the best permutation for a short while.
4. Both are assumed to gain in each doubling of their time as much as in the last one.  If annealing leads
   and is expected to end lower, it gets three quarters of the rest and the other one continues from its
   result; otherwise the other one gets the rest.

If the budget is ample for the size of the problem (small n), tabu and breakout search take turns instead of
steps 2 to 4 and restart more often.  If A or B is a weighted forest (chr* of QAPLIB), a search that reassigns
a few items by branch and bound (``kernels/native/tree_search.hpp``) takes half of the turns.

A tabu or breakout search that has stopped improving restarts from a child of two of the best permutations
(memetic search, Benlic and Hao 2015); from then on the two share the time according to their results.

With a budget of steps a search with a seed gives the same answer on every machine.  Several workers run
searches of their own and share the incumbent and the elite.  Measured by ``python -m bench field``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcfw.kernels.swaps import Layout
from dcfw.qap.searches import Annealer, Stepwise, child

# Shares of the time: tabu and breakout search (each), two annealing runs, continuing from the best.
PROBE, SHORT, LONG, TRIAL = 0.05, 0.05, 0.15, 0.04
# Beyond AMPLE n^4 steps restarts pay more than annealing, with this patience of tabu search (times n^2).
AMPLE, AMPLE_PATIENCE = 0.15, 10
LAST = 0.25  # the share of the rest that annealing leaves to the other search
PATIENCE = {"tabu": 80, "breakout": 8, "tree": 6000}  # steps without improvement, times n^2 (tree: n)
TURNS = 16  # in the rest of the time
SHARE_OF_PATH = 0.05  # of the time, for a graduated start
LARGEST = 700  # beyond, setting up all deltas in O(n^3) is too slow and only annealing is used
ELITE = 12


@dataclass
class Incumbent:
    """The best permutation of a search, its trace, and the best few; shared by all workers.

    Sums of one permutation may differ by rounding, so only gains beyond ``rtol`` enter the trace (integers
    are exact).  A value at or below the ``goal``, where the searches stop, replaces the last one even within
    ``rtol``.
    """

    clock: Callable[[], float]
    accept: Callable[[], None] | None = None
    rtol: float = 0.0
    goal: Any = -math.inf
    value: Any = None
    p: np.ndarray | None = None
    trace: list[tuple[float, Any, str]] = field(default_factory=list)
    elite: list[tuple[Any, np.ndarray]] = field(default_factory=list)
    starts: int = 0
    _stale: int = 0
    lock: Any = field(default_factory=threading.RLock)

    def offer(self, value: Any, p: np.ndarray, name: str) -> None:
        with self.lock:
            self._breed(value, p)
            old = self.value
            gains = old is None or value < old - self.rtol * abs(old)
            if gains or value <= self.goal < old:
                if not gains:
                    self.trace.pop()
                self.value, self.p = value, p
                self.trace.append((self.clock(), value, name))
                if self.accept is not None:
                    self.accept()

    def _breed(self, value: Any, p: np.ndarray) -> None:
        """Keep the best permutations of different values; only the first once no new one comes in."""
        full = len(self.elite) == ELITE and value > self.elite[-1][0]
        if full or any(value == known for known, _ in self.elite):
            self._stale += 1
            if self._stale > 2 * ELITE:
                del self.elite[1:]
                self._stale = 0
            return
        self._stale = 0
        self.elite.append((value, p))
        self.elite.sort(key=lambda pair: pair[0])
        del self.elite[ELITE:]


class Budget:
    """The time of a search: seconds of a clock, or steps (one step is a swap chosen among all n^2 / 2)."""

    def __init__(self, clock: Callable[[], float], seconds: float | None, steps: int | None) -> None:
        self.steps = 0.0
        self._lock = threading.Lock()
        self.counts = seconds is None
        self.limit = float(steps or 0) if seconds is None else seconds
        self._clock, self._start = clock, clock()

    def now(self) -> float:
        return self.steps if self.counts else self._clock() - self._start

    def spend(self, steps: float) -> None:
        with self._lock:
            self.steps += steps


@dataclass
class Team:
    layout: Layout
    budget: Budget
    incumbent: Incumbent
    paths: list[Callable[[np.random.Generator], np.ndarray]]
    stopped: Callable[[], bool]
    lap_seconds: float
    rng: np.random.Generator

    def __post_init__(self) -> None:
        limit = self.budget.limit
        self.slice = max(1.0, limit / 200.0) if self.budget.counts else min(max(limit / 200.0, 2e-3), 5e-2)
        self.now, self.spend = self.budget.now, self.budget.spend
        self.offer, self.goal = self.incumbent.offer, self.incumbent.goal

    def ended(self) -> bool:
        best = self.incumbent.value
        return self.stopped() or (best is not None and best <= self.goal) or self.now() >= self.budget.limit

    def run(self) -> None:
        if self.ended():
            return
        n = self.layout.n
        start = self.rng.permutation(n) if self.incumbent.p is None else self.incumbent.p
        seeds = [int(seed) for seed in self.rng.integers(1, 2**62, size=3)]
        annealer = Annealer(self.layout.annealing(start, seeds[0]), self._anywhere, n, n <= LARGEST)
        if n > LARGEST:
            if self._affords_paths(n if self.budget.counts else self.lap_seconds):
                annealer.descend(self._follow(self.paths[-1]), self)
            annealer.work(self.budget.limit, self)
            return
        tabu, breakout = self._steppers(start, seeds[1:])
        whole = self.budget.limit - self.now()
        tree = []
        if self.layout.forest:
            search = self.layout.tree(start, int(self.rng.integers(1, 2**62)))
            tree = [Stepwise("tree", search, PATIENCE["tree"] * n, self._mixed)]
        for each in (tabu, breakout, *tree):
            each.work(self.now() + PROBE * whole, self)
        if tabu.search.steps + breakout.search.steps > 2.0 * PROBE * AMPLE * n**4:
            tabu.patience = AMPLE_PATIENCE * n * n
            self._take_turns(*tree, breakout, *tree, tabu, most=1)
            return
        annealing = [self._try(annealer, share, whole) for share in (SHORT, LONG)]
        # On the tuning instances breakout search improved annealing's result more than tabu search did.
        stepper = tabu if tabu.best < min(breakout.best, annealer.best) else breakout
        stepper = min([stepper, *tree], key=lambda search: search.best)
        leads = annealer.best < min(tabu.best, breakout.best, stepper.best)
        self._take_over(stepper)
        stepping = [self._try(stepper, 0.5 * TRIAL, whole, before) for before in (0.0, 0.5 * TRIAL)]
        rest = 1.0 - 2.0 * PROBE - SHORT - LONG - TRIAL
        if leads and expected(annealing, (1.0 - LAST) * rest) < expected(stepping, TRIAL + rest):
            annealer.work(self.now() + (1.0 - LAST) * (self.budget.limit - self.now()), self)
            self._take_over(stepper)
        self._take_turns(stepper, breakout if stepper is tabu else tabu)

    def _take_turns(self, *team: Stepwise, most: int = 3) -> None:
        """Give the first search the rest of the time, or share it once searches restart: one that found a
        lower value in its last turn than the next one continues, for at most ``most`` turns."""
        turn = (self.budget.limit - self.now()) / TURNS
        found: dict[str, Any] = {}
        at = row = 0
        while not self.ended():
            stepper, other = team[at], team[(at + 1) % len(team)]
            found[stepper.name] = stepper.work(self.now() + turn, self)
            row += 1
            behind = other.name not in found or found[other.name] < found[stepper.name]
            if any(search.restarts for search in team) and (behind or row >= most):
                at, row = (at + 1) % len(team), 0

    def _try(self, search: Any, share: float, whole: float, before: float = 0.0) -> tuple[float, float]:
        search.work(self.now() + share * whole, self)
        return before + share, float(search.best)

    def _take_over(self, stepper: Stepwise) -> None:
        found = self.incumbent
        if found.p is not None and found.value < stepper.best:
            stepper.adopt(found.value, found.p)

    def _steppers(self, start: np.ndarray, seeds: list[int]) -> tuple[Stepwise, Stepwise]:
        n, started = self.layout.n, self.now()
        descent = self.layout.descent(start)
        descent.run(20 * n)
        self.spend(n)
        self.offer(descent.value, descent.p, "descent")
        if self._affords_paths(self.now() - started):
            first, second = (self._follow(path) for path in self.paths)
        else:
            first, second = self._anywhere(), self._anywhere()
        tabu = self.layout.tabu(first, seeds[0], skewed=True)
        breakout = self.layout.breakout(second, seeds[1])
        return (
            Stepwise("tabu", tabu, PATIENCE["tabu"] * n * n, self._mixed),
            Stepwise("breakout", breakout, PATIENCE["breakout"] * n * n, self._mixed),
        )

    def _affords_paths(self, step: float) -> bool:
        """Return whether there is time for paths of about 200 steps (matrix products) each."""
        return bool(self.paths) and 200.0 * step <= 2.0 * SHARE_OF_PATH * self.budget.limit

    def _follow(self, path: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
        if self.ended():
            return self.rng.permutation(self.layout.n)
        p = path(self.rng)
        self.incumbent.starts += 1
        self.spend(100.0 * self.layout.n)
        self.offer(self.layout.problem.value(p), p, "graduated")
        return p

    def _anywhere(self) -> np.ndarray:
        self.incumbent.starts += 1
        return self.rng.permutation(self.layout.n)

    def _mixed(self) -> np.ndarray:
        elite = list(self.incumbent.elite)  # other threads may replace its members
        if len(elite) < 2:
            return self._anywhere()
        self.incumbent.starts += 1
        i, j = self.rng.choice(len(elite), size=2, replace=False)
        return child(elite[i][1], elite[j][1], self.rng)


def expected(made: list[tuple[float, float]], end: float) -> float:
    """Return the value at time ``end`` from two pairs (time, value), with equal gains in every doubling."""
    (first, before), (second, now) = made
    return now - (before - now) * math.log(end / second) / math.log(second / first)


def search(teams: list[Team]) -> None:
    """Let all teams search, in threads if there are several (the compiled loops release the lock)."""
    if len(teams) == 1:
        teams[0].run()
        return
    failures: list[BaseException] = []

    def work(team: Team) -> None:
        try:
            team.run()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(team,), daemon=True) for team in teams]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # wake up regularly, so that Ctrl-C reaches the main thread
            thread.join(0.05)
    if failures:
        raise failures[0]
