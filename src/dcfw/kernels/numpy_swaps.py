"""The swap searches of :mod:`dcfw.kernels.swaps` in NumPy, for installations without the compiled extension.

Classes, methods, random numbers and the order of comparisons are those of ``native/*.hpp``, so integer data
give the same permutations, a hundred times slower.  The headers describe the algorithms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_WORD = 2**64 - 1


class Random:
    """xorshift64* (Vigna 2016)."""

    def __init__(self, seed: int) -> None:
        self.state = (seed * 0x9E3779B97F4A7C15) & _WORD or 0x9E3779B97F4A7C15
        for _ in range(8):
            self.next()

    def next(self) -> int:
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) & _WORD
        self.state = x = x ^ (x >> 27)
        return (x * 2685821657736338717) & _WORD

    def uniform(self) -> float:
        return (self.next() >> 11) * 2.0**-53

    def below(self, n: int) -> int:
        return ((self.next() >> 32) * n) >> 32


class AssignmentProblem:
    """The matrices, in types in which NumPy's sums are exact where the compiled ones are."""

    def __init__(self, A: np.ndarray, B: np.ndarray, C: np.ndarray | None, tolerance: float) -> None:
        wide = np.float64 if A.dtype == np.float64 else np.int64
        self.A, self.B = A.astype(wide), B.astype(wide)
        self.C = None if C is None else C.astype(wide)
        self.n, self.tolerance, self.wide = len(A), tolerance, wide
        self.item_group = _groups(self.A, self.C)
        self.place_group = _groups(self.B, None if self.C is None else self.C.T)

    def value(self, p: np.ndarray) -> Any:
        total = (self.A * self.B[np.ix_(p, p)]).sum()
        if self.C is not None:
            total += self.C[np.arange(self.n), p].sum()
        return total.item()


def _groups(M: np.ndarray, C: np.ndarray | None) -> np.ndarray:
    """Return a number for each row; exchanging two rows with the same number changes nothing."""
    n, first = len(M), list[int]()
    group = np.full(n, -1)
    for i in range(n):
        for g, j in enumerate(first):
            k = np.delete(np.arange(n), [i, j])
            same = M[i, i] == M[j, j] and M[i, j] == M[j, i]
            same = same and np.array_equal(M[i, k], M[j, k]) and np.array_equal(M[k, i], M[k, j])
            if same and (C is None or np.array_equal(C[i], C[j])):
                group[i] = g
                break
        else:
            group[i] = len(first)
            first.append(i)
    return group


class _Swaps:
    """A permutation, its value and the changes by all swaps, recomputed by matrix products after a swap."""

    def __init__(self, problem: AssignmentProblem, p: np.ndarray, fixed: int = 0) -> None:
        self.problem, self.fixed = problem, fixed
        n = problem.n
        self.none = problem.wide(math.inf if problem.wide is np.float64 else 2**62)
        self.open = np.tri(n, n, -1, dtype=bool)
        self.open[:, :fixed] = False
        self.restart(p)

    def restart(self, p: np.ndarray) -> None:
        self.p = np.array(p, dtype=np.int64)
        self.value = self.problem.value(self.p)
        self._refresh()

    def _refresh(self) -> None:
        A, B, C, p = self.problem.A, self.problem.B[np.ix_(self.p, self.p)], self.problem.C, self.p
        S = A.T @ B + A @ B.T
        if C is not None:
            S = S + C[:, p]
        s, a, b = S.diagonal(), A.diagonal(), B.diagonal()
        inner = (a[:, None] + a - A - A.T) * (b[:, None] + b - B - B.T)
        D = S + S.T - s[:, None] - s + inner
        group, place = self.problem.item_group, self.problem.place_group[p]
        usable = self.open & (group[:, None] != group) & (place[:, None] != place)
        self.D = np.where(usable, D, self.none)

    def swap(self, r: int, s: int) -> None:
        by = self.D[max(r, s), min(r, s)]
        by = self.problem.wide(0) if by == self.none else by  # interchangeable items
        self.p = self.p.copy()  # the caller may hold the last one
        self.p[[r, s]] = self.p[[s, r]]
        self.value += by.item()
        self._refresh()

    def find(self, allowed: np.ndarray | None = None) -> tuple[int, int] | None:
        """Return the pair of the smallest delta, the first row by row."""
        D = self.D if allowed is None else np.where(allowed, self.D, self.none)
        at = int(D.argmin()) if D.size else 0
        return None if not D.size or D.flat[at] == self.none else divmod(at, self.problem.n)


class _Search(_Swaps):
    """The common part of the two swap searches: the best permutation and the counters."""

    def __init__(self, problem: AssignmentProblem, p: np.ndarray, seed: int, fixed: int = 0) -> None:
        self.random, self.steps = Random(seed), 0
        super().__init__(problem, p, fixed)

    def restart(self, p: np.ndarray) -> None:
        super().restart(p)
        self.best, self.best_p, self.last_improved = self.value, self.p, self.steps

    def _aspired(self) -> Any:
        return self.best - self.value - self.problem.tolerance


class TabuSearch(_Search):
    """Robust tabu search; see ``native/tabu_search.hpp``."""

    def __init__(
        self, problem: AssignmentProblem, p: np.ndarray, seed: int, skewed: bool, fixed: int
    ) -> None:
        super().__init__(problem, p, seed, fixed)
        self.skewed = skewed

    def restart(self, p: np.ndarray) -> None:
        super().restart(p)
        n = self.problem.n
        self.left = -np.arange(n * n, dtype=np.int64).reshape(n, n) - 1
        self.now = 1

    def run(self, count: int, target: float) -> None:
        n = self.problem.n
        if n - self.fixed < 2:
            return
        forced = 5 * n * n
        for _ in range(count):
            if self.best <= target:
                return
            bans = self.left[:, self.p]
            bans, aspired = np.minimum(bans, bans.T), self._aspired()
            move = self.find((bans < self.now) | (aspired > self.D))
            improves = move is not None and self.D[move] < aspired
            if not improves and bans[self.open].min() < self.now - forced:
                move = self.find((bans < self.now - forced) | (aspired > self.D)) or move
            self.now += 1
            self.steps += 1
            if move is None:
                continue
            r, s = move
            if self.skewed:
                first = 0
                while first <= 2:
                    u = self.random.uniform()
                    first = int(u * u * u * 8 * n)
                second = first
            else:
                first, second = (int((0.9 + 0.2 * self.random.uniform()) * n) for _ in range(2))
            self.left[r, self.p[r]] = self.now + first
            self.left[s, self.p[s]] = self.now + second
            self.swap(r, s)
            if self.value < self.best - self.problem.tolerance:
                self.best, self.best_p, self.last_improved = self.value, self.p, self.steps - 1


class BreakoutSearch(_Search):
    """Breakout local search; see ``native/breakout_search.hpp``."""

    def restart(self, p: np.ndarray) -> None:
        super().restart(p)
        n = self.problem.n
        self.previous, self.now, self.without = self.best, 0, 0
        self.jumps = float(math.ceil(0.15 * n))
        self.ban = np.full((n, n), -(2**30), dtype=np.int64)
        self.made = np.where(np.tri(n, n, -1, dtype=bool), 0, 2**62)

    def run(self, count: int, target: float) -> None:
        n, until = self.problem.n, self.steps + count
        while n >= 2 and self.steps < until and self.best > target:
            descended = False
            while (move := self.find()) is not None and self.D[move] < -self.problem.tolerance:
                self._move(move)
                descended = True
                if self.best <= target:
                    return
            if self.value == self.previous:
                self.jumps += 1
            elif descended:
                self.without += 1
                self.jumps = max(5.0, float(math.ceil(0.15 * n)))
            if self.without > 2500:
                self.without, self.jumps = 0, n * (0.4 + 0.2 * self.random.uniform())
            self.jumps = min(self.jumps, 2.0 * n)
            self.previous = self.value
            self._jump(max(0.75, math.exp(-self.without / 2500)), target)

    def _jump(self, directed: float, target: float) -> None:
        n, count = self.problem.n, math.ceil(self.jumps)
        if self.random.uniform() < directed:
            for _ in range(count):
                if self.best <= target:
                    return
                move = self.find((self.ban < self.now) | (self._aspired() > self.D))
                if move is None:
                    self.now += 1
                    self.steps += 1
                else:
                    self._move(move)
        elif self.random.uniform() < 0.3:
            for _ in range(count):
                self._move(divmod(int(self.made.argmin()), n))
        else:
            for _ in range(count):
                r, s = self.random.below(n), self.random.below(n - 1)
                s = s if s < r else s + 1
                self._move((max(r, s), min(r, s)))

    def _move(self, pair: tuple[int, int]) -> None:
        n = self.problem.n
        self.made[pair] = self.now
        self.ban[pair] = self.now + int(0.7 * n) + self.random.below(max(1, int(0.2 * n)))
        self.now += 1
        self.steps += 1
        self.swap(*pair)
        if self.value < self.best - self.problem.tolerance:
            self.best, self.best_p, self.without, self.last_improved = self.value, self.p, 0, self.steps


class Annealing:
    """Annealing over swaps; see ``native/annealing.hpp``."""

    CHUNK, BITS = 256, 12

    def __init__(self, problem: AssignmentProblem, p: np.ndarray, seed: int) -> None:
        self.problem, self.random = problem, Random(seed)
        table = 1 << self.BITS
        self.threshold = [-math.log((k + 0.5) / table) for k in range(table)]
        self.trials = self.r = self.s = 0
        self.mean = 0.0
        self.restart(p)

    def restart(self, p: np.ndarray) -> None:
        self.p = np.array(p, dtype=np.int64)
        self.best_p, self.idle = self.p.copy(), 0
        self.value = self.best = self.problem.value(self.p)

    def _delta(self, r: int, s: int) -> float:
        A, B, C, p = self.problem.A, self.problem.B, self.problem.C, self.p
        d = (A[r] - A[s]) @ (B[p[s], p] - B[p[r], p]) + (A[:, r] - A[:, s]) @ (B[p, p[s]] - B[p, p[r]])
        a = A[r, r] + A[s, s] - A[r, s] - A[s, r]
        d = d + a * (B[p[r], p[r]] + B[p[s], p[s]] - B[p[r], p[s]] - B[p[s], p[r]])
        if C is not None:
            d = d + C[r, p[s]] + C[s, p[r]] - C[r, p[r]] - C[s, p[s]]
        return d.item()  # type: ignore[no-any-return]

    def mean_delta(self, samples: int) -> float:
        total, n = 0.0, self.problem.n
        for _ in range(samples):
            r, s = self.random.below(n), self.random.below(n)
            if r != s:
                total += abs(self._delta(r, s))
        return total / samples if samples else 0.0

    def run(self, count: int, hot: float, cold: float, sweeps: int) -> None:
        n = self.problem.n
        if n < 2:
            return
        chunks = -(-count // self.CHUNK)
        ratio = (cold / hot) ** (1.0 / (chunks - 1)) if chunks > 1 else 1.0
        temperature, total, done = hot, 0.0, 0
        while done < chunks and self.idle < sweeps * (n * (n - 1) // 2):
            for _ in range(self.CHUNK):
                self._trial(temperature)
            self.trials += self.CHUNK
            total += self.value
            done += 1
            temperature *= ratio
        if done:
            self.mean = total / done
        self._keep()

    def _trial(self, temperature: float) -> None:
        n, problem = self.problem.n, self.problem
        self.s += 1
        if self.s >= n:
            self.r = self.r + 1 if self.r + 1 < n - 1 else 0
            self.s = self.r + 1
        r, s, p = self.r, self.s, self.p
        self.idle += 1
        groups, places = problem.item_group, problem.place_group
        if groups[r] == groups[s] or places[p[r]] == places[p[s]]:
            return
        d = self._delta(r, s)
        if not d <= temperature * self.threshold[self.random.next() >> (64 - self.BITS)]:
            return
        if d > problem.tolerance:
            self._keep()
        if d != 0:
            self.idle = 0
        p[[r, s]] = p[[s, r]]
        self.value += d

    def _keep(self) -> None:
        if self.value < self.best:
            self.best, self.best_p = self.value, self.p.copy()


class Descent(_Swaps):
    def run(self, count: int) -> int:
        for made in range(count):
            move = self.find()
            if move is None or not self.D[move] < -self.problem.tolerance:
                return made
            self.swap(*move)
        return count


class FirstDescent(_Swaps):
    """The first improving swap in a given order of the pairs."""

    def __init__(self, problem: AssignmentProblem, p: np.ndarray, order: np.ndarray, fixed: int) -> None:
        super().__init__(problem, p, fixed)
        self.at = self.looked = 0
        self.m = len(order)
        self.rows, j = np.triu_indices(self.m, 1)
        i, j = order[self.rows], order[j]
        self.pairs = np.maximum(i, j), np.minimum(i, j)

    def run(self, count: int, cyclic: bool) -> int:
        size = len(self.pairs[0])
        for made in range(count):
            start = self.at if cyclic else 0
            helps = np.flatnonzero(np.roll(self.D[self.pairs], -start) < -self.problem.tolerance)
            if not helps.size:
                self.looked += size + (0 if cyclic else self.m)
                return made
            k = (start + int(helps[0])) % size
            self.looked += int(helps[0]) + 1 + (0 if cyclic else int(self.rows[k]) + 1)
            self.at = (k + 1) % size
            self.swap(int(self.pairs[0][k]), int(self.pairs[1][k]))
        return count
