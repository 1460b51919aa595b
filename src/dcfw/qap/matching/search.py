"""One call of ``qap.match``: paths, swaps, and with ``restarts="auto"`` a search for the rest of the time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcfw.qap.matching.cores import with_core
from dcfw.qap.matching.paths import PATIENT, SMALL, Effort, End, Pair, Paths, floats, typical
from dcfw.qap.objective import dense, is_sparse, value
from dcfw.qap.problem import padded
from dcfw.qap.result import Incumbent, QAPResult
from dcfw.result import History, Status
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
    p: np.ndarray | None = None
    fun: Any = None
    values: list[Any] = field(default_factory=list)
    end: End | None = None
    counts: list[tuple[int, int]] = field(default_factory=list)
    """Oracle calls and inner steps of each path."""
    cut: bool = False
    status: Status = Status.CONVERGED

    @property
    def n_lmo(self) -> int:
        return sum(calls for calls, _ in self.counts)

    @property
    def n_inner(self) -> int:
        return sum(steps for _, steps in self.counts)

    def take(self, end: End, p: np.ndarray) -> None:
        fun = total(self.pair, p)
        self.values.append(fun)
        self.counts.append((end.n_lmo, end.n_inner))
        self.cut |= end.cut
        if self.fun is None or fun > self.fun:
            self.p, self.fun, self.end = p, fun, end
        if self.watch is not None:
            count = len(self.values)
            self.watch(
                QAPResult(
                    x=None,
                    permutation=self.p,
                    fun=self.fun,
                    success=False,
                    status=Status.RUNNING,
                    message=Status.RUNNING.sentence,
                    gap=math.nan,
                    dc_gap=(0.0, math.inf),
                    history=History(),
                    time=math.nan,
                    n_starts=count,
                    trace=[Incumbent(count, float(self.fun), "path")],
                )
            )


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
        if plan.restarts == "auto":
            _fill(paths, plan, found)
        elif plan.n_jobs != 1 and int(plan.restarts) > 1:
            _side_by_side(paths, plan, int(plan.restarts), found)
        else:
            for k in range(int(plan.restarts)):
                if k and plan.spent() >= 1.0:
                    found.cut = True
                    break
                if k and interrupts.pending():
                    break
                if k == 0:
                    _first(paths, plan, found)
                elif k % 2:
                    _again(plan, plan.rng, found)
                else:
                    _one(paths, plan, plan.rng, found)
    except KeyboardInterrupt:
        if found.p is None or interrupts.insistent():
            raise
        found.status = Status.INTERRUPTED
    return found


def _fill(paths: Paths, plan: Plan, found: Found) -> None:
    """Fill the paths' part of the time; a budget of steps, which are the search's, has one path.

    Three kinds of runs take turns: a path from the best matching's core, a path from a random point, and
    short runs of Frank-Wolfe from random points.  Real graphs that are not copies of each other have many
    matchings of nearly the best value, and Frank-Wolfe meets good ones in a tenth of a path's time.  A kind
    that has just found something better continues.
    """
    pair = found.pair
    plain = searchable(pair) and pair.C is None
    kind = missed = 0
    _first(paths, plan, found)
    while plan.time_limit is not None:
        enough = SHARE_OF_PATHS if searchable(pair) and missed >= len(KINDS) else 1.0
        if plan.spent() >= enough or interrupts.pending():
            return
        before = found.fun
        if KINDS[kind] == "core":
            _again(plan, plan.rng, found)
        elif KINDS[kind] == "random" or not plain:
            _one(paths, plan, plan.rng, found)
        else:
            p = _frank_wolfe(pair, plan.rng)
            found.take(End(p, 0, 0, 0, False), _polished(pair, p, plan, plan.deadline))
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
    begun = plan.clock()
    _one(paths, plan, None, found)
    now, pair = plan.clock(), found.pair
    assert found.p is not None
    left = math.inf if plan.time_limit is None else plan.begun + plan.time_limit - now
    if paths.m > SMALL or left < PATIENCE * (now - begun) or interrupts.pending():
        return
    A, B = ([floats(M, pair.n) for M in layers] for layers in (pair.A, pair.B))
    most = sum(min(M.nnz, N.nnz) for M, N in zip(A, B, strict=True))
    unit = typical(A) * typical(B)
    kept = sum(value(M, N, found.p) for M, N in zip(A, B, strict=True))
    if most <= SPARSE * pair.n and kept < PATCHED * most * unit:
        _one(paths, plan, None, found, PATIENT)
        for _ in range(2):
            _again(plan, plan.rng, found)


def _one(
    paths: Paths, plan: Plan, rng: np.random.Generator | None, found: Found, effort: Effort | None = None
) -> None:
    end = paths.follow(rng, effort, plan.deadline)
    found.take(end, _polished(found.pair, end.p, plan, plan.deadline))


def _again(plan: Plan, rng: np.random.Generator, found: Found) -> None:
    """Follow a path with the core of the best matching as seeds."""
    assert found.p is not None
    end = Paths(with_core(found.pair, found.p, rng)).follow(deadline=plan.deadline)
    found.take(end, _polished(found.pair, end.p, plan, plan.deadline))


def _side_by_side(paths: Paths, plan: Plan, count: int, found: Found) -> None:
    """Follow the first path, and the others in threads: the kernel releases the interpreter lock."""
    from dcfw.parallel import Parallel, delayed

    _first(paths, plan, found)
    p, pair = found.p, found.pair
    assert p is not None

    def work(k: int, rng: np.random.Generator) -> tuple[End, np.ndarray]:
        if k % 2:
            end = Paths(with_core(pair, p, rng)).follow(deadline=plan.deadline)
        else:
            end = paths.follow(rng, deadline=plan.deadline)
        return end, _polished(pair, end.p, plan, plan.deadline)

    streams = enumerate(plan.rng.spawn(count - 1), 1)
    for end, q in Parallel(n_jobs=plan.n_jobs, prefer="threads")(delayed(work)(k, rng) for k, rng in streams):
        found.take(end, q)


def _polished(pair: Pair, p: np.ndarray, plan: Plan, deadline: float | None) -> np.ndarray:
    """Return the permutation improved by swaps that leave the fixed pairs alone."""
    polish = plan.polish
    plain = len(pair.A) == 1 and len(pair.forbidden) == 0
    free = np.setdiff1d(np.arange(pair.n), pair.fixed[:, 0])
    if polish is None or len(free) < 2 or (polish == "auto" and not (plain and pair.n <= POLISHED)):
        return p
    if not plain:
        raise ValueError("polish knows one layer and no forbidden pairs: leave polish out")
    from dcfw.qap.swaps import two_opt
    from dcfw.qap.tabu import robust_tabu

    n = pair.n
    order = np.concatenate([pair.fixed[:, 0], free])  # the swaps' fixed rows come first
    A, B = padded(pair.A[0], n)[order][:, order], padded(pair.B[0], n)
    C = None if pair.C is None else -dense(padded(pair.C, n))[order]
    left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
    fixed = len(pair.fixed)
    q = two_opt(-A, B, p[order], C, fixed=fixed, time_limit=left)[0]
    if polish == "tabu":
        left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
        q = robust_tabu(
            -A, B, q, C, iterations=50 * n, rng=plan.rng, fixed=fixed, time_limit=left
        )[0]  # fmt: skip
    better = np.empty(n, dtype=np.int64)
    better[order] = q
    return better


def concluded(found: Found, plan: Plan) -> QAPResult:
    """Return the result of a call that followed paths."""
    assert found.p is not None
    assert found.end is not None
    n = found.pair.n
    status = found.status
    if status is Status.CONVERGED and found.cut:
        status = Status.TIME_LIMIT
    if status is Status.CONVERGED and plan.restarts == "auto":
        status = Status.FINISHED
    success = status in (Status.CONVERGED, Status.FINISHED)
    X = permutation_matrix(found.p, n)
    taken = time.perf_counter() - plan.started
    return QAPResult(
        x=X,
        relaxed=X,
        permutation=found.p,
        fun=found.fun,
        relaxed_fun=float(found.fun),
        restart_values=found.values,
        success=success,
        status=status,
        message="The path ended at a permutation that repeats."
        if status is Status.CONVERGED
        else status.sentence,
        gap=math.nan if found.cut else 0.0,
        dc_gap=(0.0, math.inf),
        history=History(),
        method="path",
        split="paper",
        conditional="gap and dc_gap are those of phi - r, the concave end of the path",
        nit=found.end.stages,
        n_inner=found.n_inner,
        n_lmo=found.n_lmo,
        n_starts=len(found.values),
        sizes=(int(found.pair.A[0].shape[0]), int(found.pair.B[0].shape[0])),
        time=taken,
        total_time=taken,
    )


def permutation_matrix(p: np.ndarray, n: int) -> Any:
    """Return the matrix with ones at (i, p(i)), sparse where a dense one would be large."""
    from scipy.sparse import csr_array

    X = csr_array((np.ones(n), (np.arange(n), p)), shape=(n, n))
    return X.toarray() if n <= DENSE_ANSWER else X


def searchable(pair: Pair) -> bool:
    """Return whether the search by swaps can take over: one layer, nothing forbidden, not too large."""
    return (
        len(pair.A) == 1 and len(pair.forbidden) == 0 and pair.n <= SEARCHED and len(pair.fixed) < pair.n - 1
    )


def linear(C: Any) -> Any:
    """Return the rewards as ``qap.solve`` takes them."""
    return None if C is None else dense(C) if is_sparse(C) else C
