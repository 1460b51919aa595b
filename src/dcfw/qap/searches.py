"""The searches that share the time of ``qap.solve(..., restarts="auto")``, behind one small interface.

A search has a ``name``, a ``kind``, a ``best`` value with its permutation ``best_p``, and ``work(until,
arena)``, which goes on
until the arena's clock shows ``until`` and offers what it finds to the arena.  The loops are compiled
(``kernels/native``) and called in slices of a few milliseconds.

Annealing needs temperatures.  They come from the instance: a quick cooling from a temperature at which
nearly every
swap is accepted, down to one at which none is, records the mean objective E at each temperature T.  A run
then
spends its time in proportion to sqrt(dE / dlog T / T), the thermodynamic length: slowly where the objective
falls,
quickly where nothing happens (Salamon et al. 1988, "Simulated annealing with constant thermodynamic speed").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dcfw.kernels.swaps import Layout


class Arena(Protocol):
    """What a search sees of the portfolio: the clock, the slices, and where to offer permutations."""

    layout: Layout
    goal: Any
    slice: float

    def now(self) -> float: ...
    def spend(self, steps: float) -> None: ...
    def offer(self, value: Any, p: np.ndarray, name: str) -> None: ...
    def ended(self) -> bool: ...


class Stepwise:
    """Robust tabu or breakout search: a trajectory that goes on where it was left.

    A tabu search that has not improved for ``patience`` steps starts again from what ``restart`` returns.
    """

    def __init__(
        self,
        name: str,
        search: Any,
        patience: float = math.inf,
        restart: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self.name = self.kind = name
        self.search = search
        self.patience, self.restart = patience, restart
        self.best, self.best_p = search.best, search.best_p
        self._rate = 0.0

    def work(self, until: float, arena: Arena) -> None:
        """Search until the clock shows ``until``."""
        count = 64 if self._rate == 0.0 else max(1, int(self._rate * arena.slice))
        while not arena.ended() and (begun := arena.now()) < until:
            before = self.search.steps
            self.search.run(count, arena.goal)
            made = self.search.steps - before
            arena.spend(made)
            if self.search.best < self.best:
                self.best, self.best_p = self.search.best, self.search.best_p
                arena.offer(self.best, self.best_p, self.name)
            elapsed = arena.now() - begun
            self._rate = made / elapsed if elapsed > 0.0 else 0.0
            left = min(arena.slice, max(until - arena.now(), 0.0))
            count = max(1, min(4 * count, int(self._rate * left) if self._rate else 4 * count))
            if self.restart is not None and self.search.steps - self.search.last_improved > self.patience:
                self.search.restart(self.restart())


class Annealer:
    """Annealing runs, each as long as the time it is given; temperatures as in the module's docstring."""

    name = kind = "annealing"
    COOLING, SWEEPS = 0.9, 20

    def __init__(self, search: Any, start: Callable[[], np.ndarray], n: int, polish: bool) -> None:
        self.search, self.start, self.n, self.polish = search, start, n, polish
        self.best, self.best_p = search.best, search.best_p
        self._temperature: Callable[[float], float] | None = None
        self._rate = 0.0

    def work(self, until: float, arena: Arena) -> None:
        """Make one run of the whole time, and more if it freezes early."""
        if self._temperature is None:
            self._measure(0.1 * (until - arena.now()), arena)
        while not arena.ended() and arena.now() < until:
            self._run(until, arena)

    def _run(self, until: float, arena: Arena) -> None:
        begun = arena.now()
        self.search.restart(self.start())
        length = until - begun
        share = 0.0
        pairs = self.n * (self.n - 1) // 2
        while share < 1.0 and self.search.idle < self.SWEEPS * pairs and not arena.ended():
            part = min(arena.slice, length / 20.0)
            ahead = min(share + part / length, 1.0)
            self._trials(max(256, int(self._rate * part)), self._at(share), self._at(ahead), arena)
            share = (arena.now() - begun) / length
        self._settle(arena)

    def _trials(self, count: int, hot: float, cold: float, arena: Arena) -> None:
        begun, before = arena.now(), self.search.trials
        self.search.run(count, hot, cold, self.SWEEPS)
        made = self.search.trials - before
        arena.spend(made / self.n)
        elapsed = arena.now() - begun
        if elapsed > 0.0 and made:
            self._rate = made / elapsed

    def _measure(self, seconds: float, arena: Arena) -> None:
        """Cool quickly and record the mean objective at each temperature."""
        search, pairs = self.search, self.n * (self.n - 1) // 2
        hot = 2.0 * search.mean_delta(500)
        if not hot > 0.0:
            self._temperature = lambda share: 1.0
            return
        self._trials(4096, hot, hot, arena)
        count = max(256, int(self._rate * seconds / 60.0))
        curve: list[tuple[float, float]] = []
        temperature, end = hot, arena.now() + 3.0 * seconds
        while search.idle < 4 * pairs and len(curve) < 250 and arena.now() < end and not arena.ended():
            self._trials(count, temperature, self.COOLING * temperature, arena)
            curve.append((temperature, search.mean))
            temperature *= self.COOLING
        self._settle(arena)
        self._temperature = schedule(np.array(curve))

    def _settle(self, arena: Arena) -> None:
        """Descend from the best permutation of the run, and offer it."""
        value, p = self.search.best, self.search.best_p
        if self.polish:
            descent = arena.layout.descent(p)
            descent.run(20 * self.n)
            value, p = descent.value, descent.p
        if value < self.best:
            self.best, self.best_p = value, p
        arena.offer(value, p, self.name)

    def _at(self, share: float) -> float:
        assert self._temperature is not None
        return self._temperature(share)


def schedule(curve: np.ndarray) -> Callable[[float], float]:
    """Return the temperature as a function of the share of a run, from rows (temperature, mean objective)."""
    if len(curve) < 3:
        hot = float(curve[0, 0]) if len(curve) else 1.0
        return lambda share: hot * 1e-3**share
    T, E = curve.T
    fall = np.maximum(np.concatenate(([0.0], (E[:-2] - E[2:]) / 2.0, [0.0])), 0.0)  # per factor of COOLING
    length = np.sqrt(fall / T)
    smooth = np.convolve(np.pad(length, 3, mode="edge"), np.ones(7) / 7.0, mode="valid")
    smooth += 1e-6 * smooth.max() + 1e-300
    shares = np.concatenate(([0.0], np.cumsum(smooth / smooth.sum())))
    logs = np.log(np.concatenate((T, [T[-1] * Annealer.COOLING])))
    return lambda share: math.exp(float(np.interp(share, shares, logs)))


def child(one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a permutation that keeps what two have in common and takes each other place from one of them.

    Uniform crossover as in Benlic and Hao's memetic search (2015); items left over are placed at random.
    """
    n = len(one)
    p = np.where(one == other, one, -1)
    used = np.zeros(n, dtype=bool)
    used[p[p >= 0]] = True
    for i in rng.permutation(n):
        if p[i] < 0:
            pair = (one[i], other[i]) if rng.random() < 0.5 else (other[i], one[i])
            for place in pair:
                if not used[place]:
                    p[i], used[place] = place, True
                    break
    p[p < 0] = rng.permutation(np.flatnonzero(~used))
    return p
