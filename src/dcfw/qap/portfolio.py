"""How ``qap.solve(..., restarts="auto", time_limit=T)`` fills its time.

Three searches are good at different problems: robust tabu search at unstructured ones, breakout local
search at
structured ones with deep basins, annealing at smooth and sparse ones.  Which one is best for the problem at
hand is
found out on line, by successive halving: each gets an equal part of the first fifth of the time; annealing
and the
better one of the other two go on for a second round; the best of these has the rest.  Searches that are
level stay
in together.  Nothing in this depends on the instance but what the searches find.

Two starts are graduated paths (:mod:`dcfw.qap.graduated`), where these take no more than a twentieth of the
time
each; they bring the searches near a good permutation at once.  A tabu search that has stopped improving
starts
again from a child of two of the best permutations found so far.

The clock is the wall's unless another is given, or counts steps: then a search with a seed gives the same
answer
on every machine.  With several workers each runs its own searches; they share the incumbent and the elite.

Measured by ``python -m bench field`` (``results/field``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcfw.kernels.swaps import Layout
from dcfw.qap.searches import Annealer, Stepwise, child

ROUNDS = (
    {"tabu": 0.07, "breakout": 0.07, "annealing": 0.07},
    {"tabu": 0.05, "breakout": 0.05, "annealing": 0.22},
)
"""Shares of the time in the rounds of the halving; what is left belongs to the winner.

An annealing run says nothing before its end, so that it is judged by a longer one."""
SHARE_OF_PATH = 0.05
"""A graduated start may take this share of the time."""
LARGEST = 700
"""Larger problems are annealed only: the deltas of all swaps take O(n^3) operations to set up."""
ELITE = 12


@dataclass
class Incumbent:
    """The best permutation of a search, how it was found, and the best few; shared by all workers."""

    clock: Callable[[], float]
    accept: Callable[[Any, np.ndarray, str, float], None] | None = None
    value: Any = None
    p: np.ndarray | None = None
    trace: list[tuple[float, Any, str]] = field(default_factory=list)
    elite: list[tuple[Any, np.ndarray]] = field(default_factory=list)
    starts: int = 0
    lock: Any = field(default_factory=threading.RLock)

    def offer(self, value: Any, p: np.ndarray, name: str) -> None:
        """Take a permutation in if it is among the best few."""
        with self.lock:
            if all(value != known for known, _ in self.elite):
                self.elite.append((value, p))
                self.elite.sort(key=lambda pair: pair[0])
                del self.elite[ELITE:]
            if self.value is None or value < self.value:
                self.value, self.p = value, p
                moment = self.clock()
                self.trace.append((moment, value, name))
                if self.accept is not None:
                    self.accept(value, p, name, moment)


class Budget:
    """The time of a search: seconds of a clock, or steps (one step is a swap chosen among all n^2 / 2)."""

    def __init__(self, clock: Callable[[], float] | None, seconds: float | None, steps: int | None) -> None:
        self.steps = 0.0
        self._lock = threading.Lock()
        self.counts = seconds is None
        self.limit = float(steps or 0) if seconds is None else seconds
        self._clock = clock
        self._begun = 0.0 if clock is None else clock()

    def now(self) -> float:
        """Return what has been used up."""
        if self.counts or self._clock is None:
            return self.steps
        return self._clock() - self._begun

    def spend(self, steps: float) -> None:
        with self._lock:
            self.steps += steps


class Team:
    """The searches of one worker, and how they share its time."""

    def __init__(
        self,
        layout: Layout,
        budget: Budget,
        incumbent: Incumbent,
        rng: np.random.Generator,
        goal: Any,
        paths: list[Callable[[np.random.Generator], np.ndarray]],
        stopped: Callable[[], bool],
    ) -> None:
        self.layout, self.budget, self.incumbent, self.rng, self.goal = layout, budget, incumbent, rng, goal
        self.paths, self.stopped = paths, stopped
        self.slice = min(max(budget.limit / 200.0, 2e-3), 5e-2)
        if budget.counts:
            self.slice = max(1.0, budget.limit / 200.0)

    # What the searches see.

    def now(self) -> float:
        return self.budget.now()

    def spend(self, steps: float) -> None:
        self.budget.spend(steps)

    def offer(self, value: Any, p: np.ndarray, name: str) -> None:
        self.incumbent.offer(value, p, name)

    def ended(self) -> bool:
        best = self.incumbent.value
        return self.stopped() or (best is not None and best <= self.goal) or self.now() >= self.budget.limit

    # The search.

    def run(self) -> None:
        """Search until the budget is used up or the goal is reached."""
        searches = self._searches()
        for k, shares in enumerate(ROUNDS):
            begun, left = self.now(), 1.0 - sum(sum(earlier.values()) for earlier in ROUNDS[:k])
            whole = (self.budget.limit - begun) / left  # starting up has taken its part
            for search in searches:
                search.work(self.now() + shares[search.kind] * whole, self)
                if self.ended():
                    return
            searches = self._best(searches, steps_only=k == 0)
        while not self.ended():
            begun = self.now()
            for j, search in enumerate(searches):
                part = (self.budget.limit - begun) * (j + 1) / len(searches)
                search.work(begun + part, self)

    @staticmethod
    def _best(searches: list[Any], steps_only: bool) -> list[Any]:
        """Return the searches that go on: the best ones, and after the first round annealing in any case."""
        spared = [search for search in searches if steps_only and search.kind == "annealing"]
        others = [search for search in searches if search not in spared]
        best = min((search.best for search in others), default=None)
        return [search for search in others if search.best == best] + spared

    def _searches(self) -> list[Any]:
        n = self.layout.n
        start = self.rng.permutation(n) if self.incumbent.p is None else self.incumbent.p
        seeds = [int(seed) for seed in self.rng.integers(1, 2**62, size=3)]
        annealer = Annealer(self.layout.annealing(start, seeds[0]), self._anywhere, n, n <= LARGEST)
        if n > LARGEST:
            return [annealer]
        begun = self.now()
        descent = self.layout.descent(start)
        descent.run(20 * n)
        self.spend(n)
        self.offer(descent.value, descent.p, "descent")
        setting_up = self.now() - begun
        first = [self._start(path, setting_up) for path in self.paths] or [self._anywhere(), self._anywhere()]
        tabu = self.layout.tabu(first[0], seeds[1], skewed=True)
        breakout = self.layout.breakout(first[1], seeds[2])
        return [
            Stepwise("tabu", tabu, patience=2000 * n, restart=self._mixed),
            Stepwise("breakout", breakout),
            annealer,
        ]

    def _start(self, path: Callable[[np.random.Generator], np.ndarray], setting_up: float) -> np.ndarray:
        """Return the end of a graduated path, or a random permutation where that would take too long."""
        n = self.layout.n
        # Setting up the deltas is one product of two matrices; a path makes about 200.
        if 200.0 * setting_up > 2.0 * SHARE_OF_PATH * self.budget.limit:
            return self._anywhere()
        p = path(self.rng)
        self.incumbent.starts += 1
        self.spend(100.0 * n)
        self.offer(self.layout.problem.value(p), p, "graduated")
        return p

    def _anywhere(self) -> np.ndarray:
        """Return a random permutation, for a new start."""
        self.incumbent.starts += 1
        return self.rng.permutation(self.layout.n)

    def _mixed(self) -> np.ndarray:
        """Return a child of two of the best permutations, for a new start."""
        elite = self.incumbent.elite
        if len(elite) < 2:
            return self._anywhere()
        self.incumbent.starts += 1
        i, j = self.rng.choice(len(elite), size=2, replace=False)
        return child(elite[i][1], elite[j][1], self.rng)


def search(
    layout: Layout,
    budget: Budget,
    incumbent: Incumbent,
    seeds: np.random.SeedSequence,
    *,
    goal: Any,
    paths: list[Callable[[np.random.Generator], np.ndarray]],
    stopped: Callable[[], bool],
    workers: int = 1,
) -> None:
    """Search with one team a worker, in threads (the compiled loops release the interpreter lock)."""
    teams = [
        Team(layout, budget, incumbent, np.random.default_rng(stream), goal, paths, stopped)
        for stream in seeds.spawn(workers)
    ]
    if workers == 1:
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
        while thread.is_alive():  # so that Ctrl-C reaches the main thread between two waits
            thread.join(0.05)
    if failures:
        raise failures[0]
