"""One call of ``qap.match``: paths, swaps, and with ``restarts="auto"`` a search for the rest of the time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dcfw.qap.graduated import PathEnd
from dcfw.qap.matching.cores import with_core
from dcfw.qap.matching.paths import PATIENT, SMALL, Effort, Pair, Paths, floats, typical
from dcfw.qap.objective import dense, is_sparse, value
from dcfw.qap.problem import padded
from dcfw.qap.result import Incumbent, QAPResult, path_result
from dcfw.result import Status
from dcfw.solvers import interrupts

POLISHED = 500  # most nodes for swaps with polish="auto": setting up their deltas takes O(n^3)
DENSE_ANSWER = 2000  # most nodes for a dense result ``x``
SHARE_OF_PATHS = 0.4  # of the time of restarts="auto", before swaps take over
SEARCHED = 700  # most nodes for swaps with restarts="auto"
# The runs of restarts="auto" after the first path, in turn.
KINDS = ("core", "frank-wolfe", "frank-wolfe", "frank-wolfe", "random", "frank-wolfe")
# A patient path follows if the first one keeps less than this share of the edges, the mean degree is at most
# 12, and 6 times the first path's time is left.
PATCHED, SPARSE, PATIENCE = 0.9, 12, 6.0
# Beyond LARGEST free nodes, where paths would need 12 n^2 bytes = 2.7 GB, graphs are matched by candidates;
# beyond SEEDED if a hundredth of the nodes are seeds and the mean degree is at most DENSEST, where that loses
# about a hundredth more edges and is many times faster.
LARGEST, SEEDED, DENSEST = 15_000, 6_000, 50
TEAM = 8  # further paths that start from one matching and may run in parallel: the same ones for every n_jobs


@dataclass(frozen=True)
class Plan:
    started: float  # on time.perf_counter
    restarts: int | str
    polish: str | None
    time_limit: float | None
    n_jobs: int
    rng: np.random.Generator
    clock: Callable[[], float]
    begin: float  # the start of the call on ``clock``
    watch: Callable[..., Any] | None = None  # called with the best matching after each path
    target: float | None = None

    @property
    def deadline(self) -> float | None:
        """The time at which kernels must stop; with a user's clock only whole runs are timed."""
        timed = self.time_limit is not None and self.clock is time.perf_counter
        return self.started + float(self.time_limit or 0.0) if timed else None

    def spent(self) -> float:
        if self.time_limit is None:
            return 0.0
        return (self.clock() - self.begin) / self.time_limit if self.time_limit > 0.0 else 1.0


@dataclass
class Search:
    pair: Pair
    plan: Plan
    p: np.ndarray = field(init=False)
    fun: Any = None
    stages: int = 0
    values: list[Any] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)  # oracle calls and inner steps of each path
    cut: bool = False
    status: Status = Status.CONVERGED

    @property
    def n_lmo(self) -> int:
        return sum(calls for calls, _ in self.counts)

    def run(self) -> None:
        pair, plan = self.pair, self.plan
        if len(pair.fixed) == pair.n:
            p = np.empty(pair.n, dtype=np.int64)
            p[pair.fixed[:, 0]] = pair.fixed[:, 1]
            return self._take(PathEnd(p, 0, 0, 0, False), p)
        if _by_candidates(pair):
            from dcfw.qap.matching.candidates import by_candidates

            _check_single(plan)
            end = by_candidates(pair, plan.deadline)
            return self._take(end, end.p)
        paths = Paths(pair)
        try:
            self._first(paths)
            if plan.restarts == "auto":
                self._fill(paths)
            else:
                self._restart(paths, int(plan.restarts))
        except KeyboardInterrupt:
            if not self.values or interrupts.insistent():
                raise
            self.status = Status.INTERRUPTED

    def _take(self, end: PathEnd, p: np.ndarray) -> None:
        fun = total(self.pair, p)
        self.values.append(fun)
        self.counts.append((end.n_lmo, end.n_inner))
        self.cut |= end.cut
        if self.fun is None or fun > self.fun:
            self.p, self.fun, self.stages = p, fun, end.stages
        if reaches(self.fun, self.plan.target):
            self.status = Status.TARGET
        if self.plan.watch is not None:
            count = len(self.values)
            seen = path_result(
                Status.RUNNING, cut=True, x=None, permutation=self.p, fun=self.fun, conditional="",
                time=math.nan, n_starts=count, trace=[Incumbent(count, float(self.fun), "path")],
            )  # fmt: skip
            self.plan.watch(seen)

    def _ended(self) -> bool:
        return self.status is Status.TARGET or interrupts.pending()

    def _first(self, paths: Paths) -> None:
        """Follow the path from the barycentre; after a patchwork, a patient one and two from cores."""
        pair, plan = self.pair, self.plan
        begin = plan.clock()
        self._take(*self._follow(paths))
        now = plan.clock()
        left = math.inf if plan.time_limit is None else plan.begin + plan.time_limit - now
        if paths.m > SMALL or left < PATIENCE * (now - begin) or self._ended():
            return
        A, B = ([floats(M, pair.n) for M in layers] for layers in (pair.A, pair.B))
        most = sum(min(M.nnz, N.nnz) for M, N in zip(A, B, strict=True))
        unit = typical(A) * typical(B)
        kept = sum(value(M, N, self.p) for M, N in zip(A, B, strict=True))
        if most <= SPARSE * pair.n and kept < PATCHED * most * unit:
            self._take(*self._follow(paths, effort=PATIENT))
            for _ in range(2):
                if self._ended():
                    return
                self._take(*self._mended(self.p, plan.rng))

    def _fill(self, paths: Paths) -> None:
        """Fill the paths' share of the time; a kind of run that has just improved the matching continues."""
        # Real graphs that are not copies of each other have many matchings of nearly the best value, and
        # Frank-Wolfe finds good ones in a tenth of a path's time.
        plan, swaps_follow = self.plan, searchable(self.pair)
        kind = missed = 0
        while plan.time_limit is not None:
            enough = SHARE_OF_PATHS if swaps_follow and missed >= len(KINDS) else 1.0
            if plan.spent() >= enough or self._ended():
                return
            before = self.fun
            if KINDS[kind] == "core":
                self._take(*self._mended(self.p, plan.rng))
            elif KINDS[kind] == "random" or not swaps_follow or self.pair.C is not None:
                self._take(*self._follow(paths, plan.rng))
            else:
                p = _frank_wolfe(self.pair, plan.rng)
                self._take(PathEnd(p, 0, 0, 0, False), self._polished(p, plan.rng))
            missed = 0 if self.fun > before else missed + 1
            kind = kind if missed == 0 else (kind + 1) % len(KINDS)

    def _restart(self, paths: Paths, count: int) -> None:
        """Follow all but the first of a number of paths, each with a generator of its own."""
        seeds = self.plan.rng.integers(2**62, size=count - 1).tolist()
        for first in range(1, count, TEAM):
            team = range(first, min(first + TEAM, count))
            jobs = [partial(self._further, k, paths, self.p, seeds[k - 1]) for k in team]
            for end, p in self._each(jobs):
                self._take(end, p)

    def _each(self, jobs: Sequence[Callable[[], tuple[PathEnd, np.ndarray]]]) -> Iterator[Any]:
        """Yield the results of jobs to the end of the time (in threads: the kernel releases the lock)."""
        if self.plan.n_jobs == 1:
            for job in jobs:
                if self._cut_short():
                    return
                yield job()
        elif not self._cut_short():
            from dcfw.parallel import Parallel, delayed

            yield from Parallel(n_jobs=self.plan.n_jobs, prefer="threads")(delayed(job)() for job in jobs)

    def _cut_short(self) -> bool:
        over = self.plan.spent() >= 1.0
        self.cut |= over
        return over or interrupts.pending()

    def _further(self, k: int, paths: Paths, best: np.ndarray, seed: int) -> tuple[PathEnd, np.ndarray]:
        """Return the end of path k > 0: from a core of the best matching and from a random point in turn."""
        rng = np.random.default_rng(seed)
        return self._mended(best, rng) if k % 2 else self._follow(paths, rng)

    def _mended(self, p: np.ndarray, rng: np.random.Generator) -> tuple[PathEnd, np.ndarray]:
        end = Paths(with_core(self.pair, p, rng)).follow(None, None, self.plan.deadline)
        return end, self._polished(end.p, rng)

    def _follow(
        self, paths: Paths, rng: np.random.Generator | None = None, effort: Effort | None = None
    ) -> tuple[PathEnd, np.ndarray]:
        end = paths.follow(rng, effort, self.plan.deadline)
        return end, self._polished(end.p, rng or self.plan.rng)

    def _polished(self, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        pair, plan, n = self.pair, self.plan, self.pair.n
        plain = len(pair.A) == 1 and len(pair.forbidden) == 0
        free = np.setdiff1d(np.arange(n), pair.fixed[:, 0])
        if plan.polish is None or len(free) < 2 or (plan.polish == "auto" and not (plain and n <= POLISHED)):
            return p
        if not plain:
            raise ValueError("polish takes one layer and no forbidden pairs: leave polish out")
        from dcfw.qap.swaps import polished

        order = np.concatenate([pair.fixed[:, 0], free])  # the swaps' fixed rows come first
        A, B = padded(pair.A[0], n)[order][:, order], padded(pair.B[0], n)
        C = None if pair.C is None else -dense(padded(pair.C, n))[order]
        better = np.empty(n, dtype=np.int64)
        tabu = (lambda: rng) if plan.polish == "tabu" else None
        better[order] = polished(-A, B, p[order], C, tabu, plan.deadline, fixed=len(pair.fixed))
        return better

    def result(self) -> QAPResult:
        n, status = self.pair.n, self.status
        if status is Status.CONVERGED and self.cut:
            status = Status.TIME_LIMIT
        if status is Status.CONVERGED and self.plan.restarts == "auto":
            status = Status.FINISHED
        X = csr_array((np.ones(n), (np.arange(n), self.p)), shape=(n, n))
        X = X.toarray() if n <= DENSE_ANSWER else X
        seconds = time.perf_counter() - self.plan.started
        return path_result(
            status, cut=self.cut, x=X, relaxed=X, permutation=self.p, fun=self.fun,
            relaxed_fun=float(self.fun), restart_values=self.values, method="path", split="paper",
            nit=self.stages, n_inner=sum(steps for _, steps in self.counts), n_lmo=self.n_lmo,
            n_starts=len(self.values), sizes=(int(self.pair.A[0].shape[0]), int(self.pair.B[0].shape[0])),
            time=seconds, total_time=seconds,
        )  # fmt: skip


def total(pair: Pair, p: np.ndarray) -> Any:
    """Return sum A[i, j] B[p(i), p(j)] over all layers plus the rewards of the pairs."""
    n = pair.n
    found: Any = sum(value(padded(A, n), padded(B, n), p) for A, B in zip(pair.A, pair.B, strict=True))
    if pair.C is None:
        return found
    C = padded(pair.C, n)
    earned = C[np.arange(n), p].sum()
    return found + (int(earned) if C.dtype.kind in "iub" else float(earned))


def reaches(fun: Any, target: float | None) -> bool:
    """Return whether a value is the target or better, for floats up to rounding."""
    if target is None:
        return False
    return bool(fun >= target - (0.0 if isinstance(fun, int) else 1e-12 * abs(target)))


def swappable(pair: Pair) -> bool:
    """Return whether the searches by swaps take these graphs."""
    return len(pair.A) == 1 and len(pair.forbidden) == 0 and pair.n <= SEARCHED


def searchable(pair: Pair) -> bool:
    """Return whether the search by swaps can take over: one layer, nothing forbidden, not too large."""
    return swappable(pair) and len(pair.fixed) < pair.n - 1


def _check_single(plan: Plan) -> None:
    given = {"restarts": plan.restarts != 1, "polish": plan.polish not in (None, "auto")}
    for name in (name for name, used in given.items() if used):
        raise ValueError(
            f"{name} has no meaning for graphs of this size, which are matched once, by candidates: leave "
            f"{name} out"
        )


def _by_candidates(pair: Pair) -> bool:
    sparse = all(is_sparse(M) and M.nnz <= DENSEST * pair.n for M in (*pair.A, *pair.B))
    seeded = sparse and 100 * len(pair.fixed) >= pair.n
    return pair.n - len(pair.fixed) > (SEEDED if seeded else LARGEST)


def _frank_wolfe(pair: Pair, rng: np.random.Generator) -> np.ndarray:
    from dcfw.qap.compat import quadratic_assignment

    A, B = (dense(padded(layers[0], pair.n)) for layers in (pair.A, pair.B))
    options = {"maximize": True, "P0": "randomized", "rng": rng, "partial_match": pair.fixed}
    return np.asarray(quadratic_assignment(A, B, method="faq", options=options).col_ind)
