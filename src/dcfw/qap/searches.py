"""The searches that share the time of ``qap.solve(..., restarts="auto")``, with a common interface.

A search has a ``name``, a ``best`` value with its permutation ``best_p``, and ``work(until, team)``, which
continues until the team's clock shows ``until`` and offers its results to the team.

The first annealing run cools geometrically from the size of a random swap's change to a thousandth of it and
records the mean objective E at each temperature T; later ones spend their time in proportion to
sqrt(dE / dlog T / T), the thermodynamic length (Salamon et al. 1988, "Simulated annealing with constant
thermodynamic speed").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dcfw.qap.portfolio import Team


class Stepwise:
    """A resumable trajectory that restarts after ``patience`` steps without improvement."""

    def __init__(self, name: str, search: Any, patience: int, restart: Callable[[], np.ndarray]) -> None:
        self.name, self.search, self.patience, self.restart = name, search, patience, restart
        self.best, self.best_p = search.best, search.best_p
        self.restarts = 0
        self._rate = 0.0

    def adopt(self, value: Any, p: np.ndarray) -> None:
        self.best, self.best_p = value, p
        self.search.restart(p)

    def work(self, until: float, team: Team) -> Any:
        search, lowest = self.search, math.inf
        count = 64 if self._rate == 0.0 else max(1, int(self._rate * team.slice))
        while not team.ended() and (start := team.now()) < until:
            before = search.steps
            enough = self.patience - (before - search.last_improved) + 1
            search.run(min(count, enough), team.goal)
            made = search.steps - before
            team.spend(made)
            if search.best < self.best or search.best <= team.goal:
                self.best, self.best_p = search.best, search.best_p
                team.offer(self.best, self.best_p, self.name)
            elapsed = team.now() - start
            self._rate = made / elapsed if elapsed > 0.0 else 0.0
            left = min(team.slice, max(until - team.now(), 0.0))
            count = max(1, min(4 * count, int(self._rate * left) if self._rate else 4 * count))
            if search.steps - search.last_improved > self.patience:
                team.offer(search.best, search.best_p, self.name)
                lowest = min(lowest, search.best)
                search.restart(self.restart())
                self.restarts += 1
        return min(lowest, search.best)


class Annealer:
    """Annealing runs that fill the given time; temperatures as in the module's docstring."""

    name = "annealing"
    SWEEPS, SAMPLES, RANGE = 20, 60, 1e-3

    def __init__(self, search: Any, start: Callable[[], np.ndarray], n: int, polish: bool) -> None:
        self.search, self.start, self.n, self.polish = search, start, n, polish
        self.best, self.best_p = search.best, search.best_p
        self.pairs = n * (n - 1) // 2
        hot = 0.7 * search.mean_delta(500) or 1.0
        self._temperature: Callable[[float], float] = lambda share: hot * self.RANGE**share
        self._rate, self._longest = 0.0, 0.0

    def work(self, until: float, team: Team) -> None:
        if self._rate == 0.0:
            self._trials(1024, self._temperature(0.0), team)
        while not team.ended() and team.now() < until:
            self._run(until, team)

    def descend(self, p: np.ndarray, team: Team) -> None:
        """Make every swap from p that does not increase the objective, and offer the end."""
        self.search.restart(p)
        while self.search.idle < self.pairs and not team.ended():
            self._trials(max(256, int(self._rate * team.slice)), 1e-300, team)
        self._settle(team)

    def _run(self, until: float, team: Team) -> None:
        start = team.now()
        self.search.restart(self.start())
        length, share = until - start, 0.0
        curve: list[tuple[float, float]] = []
        part = min(team.slice, length / self.SAMPLES)
        while share < 1.0 and self.search.idle < self.SWEEPS * self.pairs and not team.ended():
            temperature = self._temperature(min(share + 0.5 * part / length, 1.0))
            self._trials(max(256, int(self._rate * part)), temperature, team)
            curve.append((temperature, self.search.mean))
            share = (team.now() - start) / length
        self._settle(team)
        if length > self._longest and len(curve) > 10:
            self._temperature, self._longest = schedule(np.array(curve)), length

    def _trials(self, count: int, temperature: float, team: Team) -> None:
        start, before = team.now(), self.search.trials
        self.search.run(count, temperature, temperature, self.SWEEPS)
        made = self.search.trials - before
        team.spend(made / self.n)
        elapsed = team.now() - start
        if elapsed > 0.0 and made:
            self._rate = made / elapsed

    def _settle(self, team: Team) -> None:
        """Descend from the best permutation of the run, and offer it."""
        value, p = self.search.best, self.search.best_p
        if self.polish:
            descent = team.layout.descent(p)
            descent.run(20 * self.n)
            value, p = descent.value, descent.p
        if value < self.best:
            self.best, self.best_p = value, p
        team.offer(value, p, self.name)


def schedule(curve: np.ndarray, points: int = 60) -> Callable[[float], float]:
    """Return the temperature as a function of the share of a run, from rows (temperature, mean objective)."""
    T, E = curve[np.argsort(curve[:, 0], kind="stable")].T
    logs = np.linspace(math.log(T[0]), math.log(T[-1]), points)
    means = np.interp(logs, np.log(T), E)
    fall = np.maximum(np.gradient(smoothed(means)), 0.0)
    length = smoothed(np.sqrt(fall / np.exp(logs)))[::-1]
    length += 1e-3 * length.max() + 1e-300
    shares = np.concatenate(([0.0], np.cumsum(0.5 * (length[1:] + length[:-1]))))
    shares /= shares[-1]
    return lambda share: math.exp(float(np.interp(share, shares, logs[::-1])))


def smoothed(values: np.ndarray, width: int = 5) -> np.ndarray:
    return np.convolve(np.pad(values, width // 2, mode="edge"), np.full(width, 1.0 / width), mode="valid")


def child(one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the uniform crossover of two permutations (Benlic and Hao 2015): common places stay, others are
    from one of the two, the remaining items are placed at random."""
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
