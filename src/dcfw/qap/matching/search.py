"""One call of ``qap.match``: paths, swaps, and with ``restarts="auto"`` a search for the rest of the time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dcfw.qap.matching.cores import with_core
from dcfw.qap.matching.paths import PATIENT, SMALL, Effort, End, Pair, Paths, floats, typical
from dcfw.qap.objective import dense, is_sparse, value
from dcfw.qap.problem import padded
from dcfw.qap.result import Incumbent, QAPResult, path_result
from dcfw.result import Status
from dcfw.solvers import interrupts

POLISHED = 500
"""Up to this many nodes ``polish="auto"`` ends with swaps: setting up their deltas takes O(n^3)."""
DENSE_ANSWER = 2000
"""The result's ``x`` is a dense matrix up to this many nodes and a SciPy sparse array beyond."""
SHARE_OF_PATHS = 0.4
"""The part of the time of ``restarts="auto"`` that goes to paths before swaps take over."""
KINDS = ("core", "frank-wolfe", "frank-wolfe", "frank-wolfe", "random", "frank-wolfe")
"""The runs of ``restarts="auto"`` after the first path, by turns."""
SEARCHED = 700
"""Larger pairs spend the whole time on paths."""

PATCHED, SPARSE, PATIENCE = 0.9, 12, 6.0
"""A patient path follows where the first one keeps a smaller share of the edges, the mean degree is at most
this, and this many times the first one's time is left."""
LARGEST, SEEDED, DENSEST = 15_000, 6_000, 50
"""Pairs with more free nodes are matched by candidates: 12 n^2 bytes would be more than 2.7 GB.  Where a
hundredth of the nodes are seeds and the mean degree is at most the last number, that loses about a hundredth
more edges from the second number on, and is many times faster."""


@dataclass(frozen=True)
class Plan:
    """The budget."""

    started: float
    restarts: int | str
    polish: str | None
    time_limit: float | None
    n_jobs: int
    rng: np.random.Generator
    clock: Callable[[], float]
    begun: float
    """The time at which the call began."""
    watch: Callable[..., Any] | None = None
    """Is told of the best matching after each path."""

    @property
    def deadline(self) -> float | None:
        """When kernels must stop; with another clock than theirs only whole runs are timed."""
        timed = self.time_limit is not None and self.clock is time.perf_counter
        return self.started + float(self.time_limit or 0.0) if timed else None

    def spent(self) -> float:
        """Return the share of the time that has passed."""
        if self.time_limit is None:
            return 0.0
        return (self.clock() - self.begun) / self.time_limit if self.time_limit > 0.0 else 1.0


@dataclass
class Found:
    """The best matching of several paths."""

    pair: Pair
    watch: Callable[..., Any] | None = None
    p: np.ndarray = field(init=False)
    fun: Any = None
    end: End = field(init=False)
    values: list[Any] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    """Oracle calls and inner steps of each path."""
    cut: bool = False
    status: Status = Status.CONVERGED

    @property
    def n_lmo(self) -> int:
        return sum(calls for calls, _ in self.counts)

    def take(self, end: End, p: np.ndarray) -> None:
        fun = total(self.pair, p)
        self.values.append(fun)
        self.counts.append((end.n_lmo, end.n_inner))
        self.cut |= end.cut
        if self.fun is None or fun > self.fun:
            self.p, self.fun, self.end = p, fun, end
        if self.watch is not None:
            count = len(self.values)
            seen = path_result(
                Status.RUNNING,
                cut=True,
                x=None,
                permutation=self.p,
                fun=self.fun,
                conditional="",
                time=math.nan,
                n_starts=count,
                trace=[Incumbent(count, float(self.fun), "path")],
            )
            self.watch(seen)


def total(pair: Pair, p: np.ndarray) -> Any:
    """Return sum A[i, j] B[p(i), p(j)] over all layers plus the rewards of the pairs."""
    n = pair.n
    found: Any = sum(value(padded(A, n), padded(B, n), p) for A, B in zip(pair.A, pair.B, strict=True))
    if pair.C is None:
        return found
    C = padded(pair.C, n)
    earned = C[np.arange(n), p].sum()
    return found + (int(earned) if C.dtype.kind in "iub" else float(earned))


def _by_candidates(pair: Pair) -> bool:
    free = pair.n - len(pair.fixed)
    sparse = all(is_sparse(M) and M.nnz <= DENSEST * pair.n for M in (*pair.A, *pair.B))
    seeded = sparse and 100 * len(pair.fixed) >= pair.n
    return free > (SEEDED if seeded else LARGEST)


def by_paths(pair: Pair, plan: Plan) -> Found:
    """Return the best of the paths that a plan asks for."""
    found = Found(pair, plan.watch)
    if len(pair.fixed) == pair.n:
        p = np.empty(pair.n, dtype=np.int64)
        p[pair.fixed[:, 0]] = pair.fixed[:, 1]
        found.take(End(p, 0, 0, 0, False), p)
        return found
    if _by_candidates(pair):
        from dcfw.qap.matching.candidates import by_candidates

        end = by_candidates(pair, plan.deadline)
        found.take(end, end.p)
        return found
    paths = Paths(pair)
    try:
        _first(paths, plan, found)
        if plan.restarts == "auto":
            _fill(paths, plan, found)
        elif plan.n_jobs != 1 and int(plan.restarts) > 1:
            _side_by_side(paths, plan, int(plan.restarts), found)
        else:
            for k in range(1, int(plan.restarts)):
                if plan.spent() >= 1.0:
                    found.cut = True
                    break
                if interrupts.pending():
                    break
                found.take(*_further(k, paths, plan, found, plan.rng))
    except KeyboardInterrupt:
        if not found.values or interrupts.insistent():
            raise
        found.status = Status.INTERRUPTED
    return found


def _fill(paths: Paths, plan: Plan, found: Found) -> None:
    """Fill the paths' part of the time; a budget of steps, which are the search's, has one path.

    Real graphs that are not copies of each other have many matchings of nearly the best value, and
    Frank-Wolfe meets good ones in a tenth of a path's time.  A kind of run that has just found something
    better continues.
    """
    pair = found.pair
    plain = searchable(pair) and pair.C is None
    kind = missed = 0
    while plan.time_limit is not None:
        enough = SHARE_OF_PATHS if searchable(pair) and missed >= len(KINDS) else 1.0
        if plan.spent() >= enough or interrupts.pending():
            return
        before = found.fun
        if KINDS[kind] == "core":
            found.take(*_mended(pair, found.p, plan, plan.rng))
        elif KINDS[kind] == "random" or not plain:
            found.take(*_follow(pair, paths, plan, plan.rng))
        else:
            p = _frank_wolfe(pair, plan.rng)
            found.take(End(p, 0, 0, 0, False), _polished(pair, p, plan))
        missed = 0 if found.fun > before else missed + 1
        kind = kind if missed == 0 else (kind + 1) % len(KINDS)


def _frank_wolfe(pair: Pair, rng: np.random.Generator) -> np.ndarray:
    """Return the end of FAQ from a random point."""
    from dcfw.qap.compat import quadratic_assignment

    A, B = (dense(padded(layers[0], pair.n)) for layers in (pair.A, pair.B))
    options = {"maximize": True, "P0": "randomized", "rng": rng, "partial_match": pair.fixed}
    return np.asarray(quadratic_assignment(A, B, method="faq", options=options).col_ind)


def _first(paths: Paths, plan: Plan, found: Found) -> None:
    """Follow the path from the barycentre; if it looks like a patchwork, a patient one and two from cores."""
    begun, pair = plan.clock(), found.pair
    found.take(*_follow(pair, paths, plan))
    now = plan.clock()
    left = math.inf if plan.time_limit is None else plan.begun + plan.time_limit - now
    if paths.m > SMALL or left < PATIENCE * (now - begun) or interrupts.pending():
        return
    A, B = ([floats(M, pair.n) for M in layers] for layers in (pair.A, pair.B))
    most = sum(min(M.nnz, N.nnz) for M, N in zip(A, B, strict=True))
    unit = typical(A) * typical(B)
    kept = sum(value(M, N, found.p) for M, N in zip(A, B, strict=True))
    if most <= SPARSE * pair.n and kept < PATCHED * most * unit:
        found.take(*_follow(pair, paths, plan, effort=PATIENT))
        for _ in range(2):
            found.take(*_mended(pair, found.p, plan, plan.rng))


def _follow(
    pair: Pair,
    paths: Paths,
    plan: Plan,
    rng: np.random.Generator | None = None,
    effort: Effort | None = None,
) -> tuple[End, np.ndarray]:
    """Return the end of a path, and its permutation after swaps."""
    end = paths.follow(rng, effort, plan.deadline)
    return end, _polished(pair, end.p, plan)


def _mended(pair: Pair, p: np.ndarray, plan: Plan, rng: np.random.Generator) -> tuple[End, np.ndarray]:
    """Return the end of a path with a core of the matching p as seeds."""
    return _follow(pair, Paths(with_core(pair, p, rng)), plan)


def _further(
    k: int, paths: Paths, plan: Plan, found: Found, rng: np.random.Generator
) -> tuple[End, np.ndarray]:
    """Return the end of path k > 0: from a core of the best matching and from a random point by turns."""
    if k % 2:
        return _mended(found.pair, found.p, plan, rng)
    return _follow(found.pair, paths, plan, rng)


def _side_by_side(paths: Paths, plan: Plan, count: int, found: Found) -> None:
    """Follow all but the first path in threads: the kernel releases the interpreter lock."""
    from dcfw.parallel import Parallel, delayed

    jobs = (
        delayed(_further)(k, paths, plan, found, rng) for k, rng in enumerate(plan.rng.spawn(count - 1), 1)
    )
    for end, p in Parallel(n_jobs=plan.n_jobs, prefer="threads")(jobs):
        found.take(end, p)


def _polished(pair: Pair, p: np.ndarray, plan: Plan) -> np.ndarray:
    """Return the permutation improved by swaps that leave the fixed pairs alone."""
    polish = plan.polish
    plain = len(pair.A) == 1 and len(pair.forbidden) == 0
    free = np.setdiff1d(np.arange(pair.n), pair.fixed[:, 0])
    if polish is None or len(free) < 2 or (polish == "auto" and not (plain and pair.n <= POLISHED)):
        return p
    if not plain:
        raise ValueError("polish knows one layer and no forbidden pairs: leave polish out")
    from dcfw.qap.swaps import polished

    n = pair.n
    order = np.concatenate([pair.fixed[:, 0], free])  # the swaps' fixed rows come first
    A, B = padded(pair.A[0], n)[order][:, order], padded(pair.B[0], n)
    C = None if pair.C is None else -dense(padded(pair.C, n))[order]
    better = np.empty(n, dtype=np.int64)
    tabu = (lambda: plan.rng) if polish == "tabu" else None
    better[order] = polished(-A, B, p[order], C, tabu, plan.deadline, fixed=len(pair.fixed))
    return better


def concluded(found: Found, plan: Plan) -> QAPResult:
    """Return the result of a call that followed paths."""
    n = found.pair.n
    status = found.status
    if status is Status.CONVERGED and found.cut:
        status = Status.TIME_LIMIT
    if status is Status.CONVERGED and plan.restarts == "auto":
        status = Status.FINISHED
    X = csr_array((np.ones(n), (np.arange(n), found.p)), shape=(n, n))
    X = X.toarray() if n <= DENSE_ANSWER else X
    taken = time.perf_counter() - plan.started
    return path_result(
        status,
        cut=found.cut,
        x=X,
        relaxed=X,
        permutation=found.p,
        fun=found.fun,
        relaxed_fun=float(found.fun),
        restart_values=found.values,
        method="path",
        split="paper",
        nit=found.end.stages,
        n_inner=sum(steps for _, steps in found.counts),
        n_lmo=found.n_lmo,
        n_starts=len(found.values),
        sizes=(int(found.pair.A[0].shape[0]), int(found.pair.B[0].shape[0])),
        time=taken,
        total_time=taken,
    )


def searchable(pair: Pair) -> bool:
    """Return whether the search by swaps can take over: one layer, nothing forbidden, not too large."""
    return (
        len(pair.A) == 1 and len(pair.forbidden) == 0 and pair.n <= SEARCHED and len(pair.fixed) < pair.n - 1
    )
