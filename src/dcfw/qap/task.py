"""One run of the QAP solver: from a start through the relaxation to a polished permutation."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcfw import _validate, kernels, steps
from dcfw._arrays import to_numpy
from dcfw._minimize import parts_of
from dcfw.functions.base import Function
from dcfw.qap.graduated import FIRST_NOISE, STAGES, GraduatedPath, perturbed_centre, prepare
from dcfw.qap.graduated import NOISE as PATH_NOISE
from dcfw.qap.graduated import SPLITS as PATH_SPLITS
from dcfw.qap.labels import assignment as assignment_by_name
from dcfw.qap.objective import as_permutation, dense, is_sparse, nearest, symmetric, value
from dcfw.qap.problem import Problem
from dcfw.qap.quadratics import decompose, frobenius, relaxed, spectral_norm
from dcfw.qap.result import QAPResult, path_result
from dcfw.qap.swaps import is_over, polished
from dcfw.result import ENDING, History, Result, Status, mark_ended
from dcfw.sets.birkhoff import Birkhoff, BirkhoffOracle, assignment, sum_error
from dcfw.solvers import interrupts
from dcfw.solvers.cgs import CGS
from dcfw.solvers.choice import method_named
from dcfw.solvers.task import Task as Minimisation
from dcfw.tolerances import Adaptive

SPLIT_METHODS = ("dcfw", "boosted")
Source = Callable[[], np.random.Generator]
"""Returns the generator of a start, the same each time: to make one takes longer than some steps."""

NOISE, NOISE_OF_SMALL = 0.01, 50.0
"""Entries of random starts deviate from 1/n by this much, or by the second number over n^3 if that is more.

Such starts are far enough apart to be worth a restart, also for small n, where 0.01 is next to nothing beside
1/n and all starts would end alike."""

_UNUSED = np.random.default_rng(0)
"""The generator of relaxations, whose methods draw nothing: to seed a new one takes a while."""

QUICK = 500
"""Problems up to this size are solved to the end of a step, whatever their time limit."""
SMALL = 100
"""The eigenvalues of matrices up to this order cost no time to speak of."""


@dataclass(frozen=True)
class Deadline:
    """A deadline that can be sent to workers: on one machine they share the monotonic clock, which nobody
    sets back, and with another machine only the time of day."""

    machine: str
    monotonic: float
    of_day: float

    @classmethod
    def at(cls, deadline: float) -> Deadline:
        """Return what stands for a time on the clock of ``time.perf_counter``."""
        left = deadline - time.perf_counter()
        return cls(platform.node(), time.monotonic() + left, time.time() + left)

    def here(self) -> float:
        """Return the deadline on this process's clock of ``time.perf_counter``."""
        same = platform.node() == self.machine
        left = self.monotonic - time.monotonic() if same else self.of_day - time.time()
        return time.perf_counter() + left


@dataclass(eq=False)
class Task:
    """The (reduced) minimisation problem and how to run it from one start."""

    problem: Problem
    method: str
    split: str
    inner: str
    init: Any
    polish: str | None
    rtol: float
    maxiter: int | None
    max_lmo: int | None
    callback: Callable[..., Any] | None
    flexible: bool
    path_first: bool

    def __post_init__(self) -> None:
        problem = self.problem
        self.A, self.B, self.C, self.n = problem.A, problem.B, problem.C, problem.n
        self._model: tuple[Function, float, Any, float] | None = None
        self._paths: dict[str, GraduatedPath] = {}
        self.permutation: np.ndarray | None = None  # the user's own start, if it is one
        self._check_init()

    # Matrices and functions are made once per process; workers make their own.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_paths": {}}

    def model(self, deadline: float | None = None) -> tuple[Function, float, Any, float]:
        """Return the objective in the scale of the solve, that scale, the method, and the least gap.

        No gap smaller than the last number can be told from the rounding of a zero.  A flexible task takes
        the balanced split where the spectral one would need more than half of the time to the deadline.
        """
        if self._model is None:
            if deadline is not None and self.flexible:
                if not self.affordable(0.5 * (deadline - time.perf_counter())):
                    self.split = "balanced"
                self.flexible = False  # workers are to take the same one
            self._model = self._build()
        return self._model

    def affordable(self, seconds: float) -> bool:
        """Return whether the decomposition can probably be built in time: the spectral one needs eigenvalues,
        which are timed on a matrix of a quarter of the size."""
        built = self._model is not None or self.method not in SPLIT_METHODS
        if built or self.split != "spectral" or self.n <= SMALL:
            return True
        trial = np.random.default_rng(0).standard_normal((self.n // 4, self.n // 4))
        begun = time.perf_counter()
        np.linalg.eigh(trial)
        one = 4.0**3 * (time.perf_counter() - begun)
        # Those of A and B; where neither is symmetric, those of two complex matrices, each as dear as four.
        factor = 2.0 if symmetric(self.A) or symmetric(self.B) else 10.0
        return factor * one <= seconds

    def _build(self) -> tuple[Function, float, Any, float]:
        A, B = (M.astype(np.float64, copy=False) for M in (self.A, self.B))
        scale = 1.0
        a, b = frobenius(A), frobenius(B)
        if (a == 0.0 and abs(A).max() == 0.0) or (b == 0.0 and abs(B).max() == 0.0):
            # C is all there is, and would be lost beside squares of the other matrix in f and in g.
            A, B, a, b = 0.0 * A, 0.0 * B, 0.0, 0.0
        elif a > 0.0 and b > 0.0:
            A, B, scale, a, b = A / a, B / b, a * b, 1.0, 1.0
        C = None if self.C is None else np.asarray(self.C, dtype=np.float64) / scale
        least = max(1e-13 * a * b, _rounding(A, B, C))
        if self.method in SPLIT_METHODS:
            return decompose(A, B, C, self.split), scale, self.method, least
        method = CGS(L=2.0 * spectral_norm(A) * spectral_norm(B)) if self.method == "cgs" else "fw"
        return relaxed(A, B, C), scale, method, least

    def _check_init(self) -> None:
        if isinstance(self.init, str):
            _validate.choice(self.init, "init", ("barycenter", "random"))
            return
        problem = self.problem
        full = (self.n + len(problem.pairs),) * 2
        self.init = assignment_by_name(self.init, problem.sizes, problem.labels, "init")
        if _dimensions(self.init) == 1:
            whole = as_permutation(self.init, full[0], "init")
            self.permutation = problem.reduce(whole)
            self.init = np.eye(self.n)[self.permutation]
            return
        X = to_numpy(_validate.array(self.init, "init", ndim=2))
        if tuple(X.shape) == full != (self.n, self.n):
            self._check_pairs(X)
            X = X[np.ix_(problem.rows, problem.columns)]
        if tuple(X.shape) != (self.n, self.n):
            raise ValueError(f"init must be a doubly stochastic matrix of shape {full}, got {tuple(X.shape)}")
        X = np.array(X, dtype=np.float64)
        violation = max(sum_error(X), -float(X.min())) if self.n else 0.0
        if violation > 1e-6:
            raise ValueError(
                f"init must be doubly stochastic; its row or column sums or signs are off by {violation:.3g}"
            )
        self.init = X

    def _check_pairs(self, X: np.ndarray) -> None:
        """Refuse a start of the whole problem that leaves the given pairs open."""
        i, j = self.problem.pairs.T
        if np.abs(X[i, j] - 1.0).max() > 1e-6:
            k = int(np.abs(X[i, j] - 1.0).argmax())
            raise ValueError(
                f"init must be 1 at the pairs of partial_match, and is {X[i[k], j[k]]:.3g} at "
                f"({int(i[k])}, {int(j[k])}); give a doubly stochastic matrix of shape {(self.n, self.n)} "
                "for the free rows and columns, or init='barycenter'"
            )

    def start(self, index: int, rng: Source, deadline: float | None) -> np.ndarray:
        if index == 0 and isinstance(self.init, np.ndarray):
            return self.init
        if index == 0 and self.init == "barycenter":
            return np.full((self.n, self.n), 1.0 / self.n)
        return self.perturbed(rng, deadline)

    def perturbed(self, rng: Source, deadline: float | None) -> np.ndarray:
        if deadline is not None:  # a good start is not worth more than half of the time left
            now = time.perf_counter()
            deadline = now + 0.5 * (deadline - now)
        scale = max(NOISE, NOISE_OF_SMALL / self.n**3)
        return Birkhoff(self.n).random(rng(), scale=scale, deadline=deadline)

    def run(self, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Return the result of one start; ``fun`` and ``permutation`` are those of the reduced problem, what
        concerns the relaxation is in the user's units."""
        if self.n == 0:
            result = self.settled()
            result.x = result.relaxed = self.problem.complete_matrix(result.x)
            return result
        if self.method == "graduated" or (self.path_first and index == 0):
            result = self.graduate(index, rng)
            p = result.permutation
        else:
            domain = _Polytope(self.n)
            if deadline is None or self.has_time_for_steps(deadline):
                result = self.relaxed(domain, index, rng, deadline)
            else:
                result = self.first_vertex(domain, index, rng, deadline)
            p = self.rounded(result, domain.latest, deadline)
        if self.polish is not None and not is_over(deadline) and not interrupts.pending():
            try:
                p = self.improve(p, rng, deadline)
            except KeyboardInterrupt:
                if interrupts.insistent():
                    raise
                result.status, result.success = Status.INTERRUPTED, False
                result.message = Status.INTERRUPTED.sentence
        if self.polish is not None and is_over(deadline) and result.status not in ENDING:
            mark_ended(result, Status.TIME_LIMIT)  # the swaps are unfinished, whatever the relaxation is
        if index == 0 and self.permutation is not None:  # the answer is never worse than the user's start
            p = min(p, self.permutation, key=lambda q: value(self.A, self.B, q, self.C))
        result.permutation = p
        result.fun = value(self.A, self.B, p, self.C)
        result.x = result.relaxed = self.problem.complete_matrix(result.x)
        return result

    def relaxed(self, domain: _Polytope, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Return the result of the relaxation from one start."""
        self.model(deadline)  # first of all, because nothing interrupts it
        X0 = self.start(index, rng, deadline)
        result, constant = self.relax(domain, X0, deadline)
        if constant and self.n > 1 and np.ptp(X0) <= 1e-12:
            # Every permutation looks alike from the barycentre: leave it at random.
            second, constant = self.relax(domain, self.perturbed(rng, deadline), deadline)
            if constant:
                result.message += " The objective is constant up to rounding: all permutations look alike."
            else:
                result, result.perturbed = second, True
                result.message += " The gradient at the barycentre is constant: the start was perturbed."
        result.relaxed_fun = float(result.fun)
        return result

    def path(self, split: str) -> GraduatedPath:
        """Return the graduated path with one r, prepared once."""
        if split not in self._paths:
            self._paths[split] = prepare(dense(self.A), dense(self.B), self.C, split)
        return self._paths[split]

    def graduate(self, index: int, rng: Source) -> QAPResult:
        """Return the end of a graduated path, the better one of two for ``split="auto"``."""
        started = time.perf_counter()
        if index == 0 and isinstance(self.init, np.ndarray):
            X0 = self.init
        else:
            first = index == 0 and self.init == "barycenter"
            # The first path is the same in every call, as is the barycentre it stands for.
            source = np.random.default_rng(0) if first else rng()
            X0 = perturbed_centre(self.n, FIRST_NOISE if first else PATH_NOISE, source)
        splits = (self.split,) if self.split in PATH_SPLITS and not self.path_first else PATH_SPLITS
        stages = STAGES if self.maxiter is None else self.maxiter
        ends = [self.path(split).follow(X0, stages, max_lmo=self.max_lmo) for split in splits]
        if any(len(end.p) == 0 for end in ends):
            raise FloatingPointError(
                "an assignment problem of the path has no finite costs; rescale A, B and C"
            )
        values = [value(self.A, self.B, end.p, self.C) for end in ends]
        chosen = int(np.argmin(values))
        used_up = self.max_lmo is not None and any(end.n_lmo >= self.max_lmo for end in ends)
        return path_result(
            Status.MAX_LMO if used_up else Status.CONVERGED,
            cut=used_up,
            x=np.eye(self.n)[ends[chosen].p],
            permutation=ends[chosen].p,
            fun=min(values),
            relaxed_fun=float(self.problem.value(min(values))),
            time=time.perf_counter() - started,
            method="graduated",
            split=splits[chosen],
            nit=ends[chosen].stages,
            n_inner=sum(end.n_inner for end in ends),
            n_lmo=sum(end.n_lmo for end in ends),
        )

    def rounded(self, result: QAPResult, vertex: np.ndarray | None, deadline: float | None) -> np.ndarray:
        """Return the permutation nearest to the relaxed point, or the last vertex where no step was made and
        it is better, or where a large problem is too late for another assignment problem."""
        if is_over(deadline) and self.n > QUICK and vertex is not None:
            return vertex
        p = nearest(result.x)
        if result.n_inner or result.status is Status.CONVERGED:
            return p
        if vertex is None:  # the only oracle call was made in a kernel, if at all
            vertex = assignment(self.model()[0].grad(result.x))
        return min(p, vertex, key=lambda q: value(self.A, self.B, q, self.C))

    def has_time_for_steps(self, deadline: float) -> bool:
        """Return whether there is probably time for the split and a few steps, which are timed on a quarter
        of the size."""
        if self.n <= QUICK or self._model is not None:
            return True
        trial = np.random.default_rng(0).standard_normal((self.n // 4, self.n // 4))
        begun = time.perf_counter()
        trial @ trial
        middle = time.perf_counter()
        assignment(trial)
        product, lap = 4.0**3 * (middle - begun), 4.0**2.5 * (time.perf_counter() - middle)
        return bool(12.0 * product + 4.0 * lap <= deadline - time.perf_counter())

    def first_vertex(self, domain: _Polytope, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Return the start with its gap: one assignment problem, for which the gradient at 1/n is cheap."""
        begun = time.perf_counter()
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        C = None if self.C is None else np.asarray(self.C, dtype=np.float64)
        X = self.start(index, rng, deadline)
        if np.ptp(X) == 0.0:
            ones = np.full(self.n, 1.0)
            quadratic = np.outer(A @ ones, (B @ ones) / self.n) + np.outer(A.T @ ones, (B.T @ ones) / self.n)
        else:
            quadratic = relaxed(A, B).grad(X)
        G = quadratic if C is None else quadratic + C
        S, linear = domain.oracle()(G), 0.0 if C is None else float(np.vdot(C, X))
        gap = max(float(np.vdot(G, X)) - float(S.inner(G)), 0.0)
        result = QAPResult(
            x=X,
            fun=0.5 * float(np.vdot(quadratic, X)) + linear,
            success=False,
            status=Status.TIME_LIMIT,
            message=f"{Status.TIME_LIMIT.sentence} It left time for the first assignment problem only.",
            gap=gap,
            dc_gap=(0.0, gap),
            time=time.perf_counter() - begun,
            history=History(),
            method=self.method,
            split="none",
            n_lmo=1,
            n_grad_f=1,
            n_fun=1,
        )
        result.rescale(1.0, self.problem.sign, self.problem.offset)
        result.relaxed_fun = float(result.fun)
        return result

    def settled(self) -> QAPResult:
        """Return the result where the partial match leaves nothing to choose."""
        return QAPResult(
            x=np.empty((0, 0)),
            permutation=np.empty(0, dtype=np.int64),
            fun=0,
            relaxed_fun=float(self.problem.offset),
            success=True,
            status=Status.CONVERGED,
            message="The partial match leaves nothing to choose.",
            gap=0.0,
            dc_gap=(0.0, 0.0),
            time=0.0,
            history=History(),
            method=self.method,
            split="none",
        )

    def relax(self, domain: _Polytope, X0: np.ndarray, deadline: float | None) -> tuple[QAPResult, bool]:
        """Return the relaxed result in the unit of the data, and whether phi looks constant from X0."""
        objective, scale, method, least = self.model()
        inner: Any = "fw"  # also for sparse data: the gradients of an active set's atoms are dense
        dense = not is_sparse(self.A) and not is_sparse(self.B)
        if dense and kernels.native is not None:
            if self.method == "fw":
                from dcfw.qap.compiled import CompiledFW

                method = CompiledFW()
            else:
                from dcfw.qap.blended import BlendedLoop
                from dcfw.qap.compiled import Loop

                inner = (BlendedLoop if self.inner == "blended" else Loop)(self.n)
        elif dense and self.method in SPLIT_METHODS:
            inner = self.inner
        maxiter = self.maxiter
        if maxiter is None:
            maxiter = 10_000 if self.method != "fw" else 1_000_000
        # What dcfw.minimize does after checking its arguments, which are known to be right here.
        parts, solver = parts_of(objective, method_named(method), domain)
        now = time.perf_counter()
        task = Minimisation(
            parts=parts,
            domain=domain,
            solver=solver,
            rule=steps.Exact(),
            tolerance=Adaptive(0.8, "published"),
            inner=inner,
            lazy=True,
            x0=X0,
            atoms=None,
            chosen=True,
            tolerances=(least, self.rtol),
            limits={"maxiter": maxiter, "max_inner": 10_000, "max_lmo": self.max_lmo},
            time_limit=None if deadline is None else max(deadline - now, 0.0),
            started=now,
            callback=None if self.callback is None else partial(self._call_back, scale),
            generator=_UNUSED,
        )
        try:
            solved = task.best_of(1)
        except BaseException as error:
            self._convert(error, scale)
            raise
        constant = solved.status is Status.CONVERGED and solved.n_inner == 0 and solved.gap <= least
        result = QAPResult(**solved)
        result.rescale(scale, self.problem.sign, self.problem.offset)
        result.history.rescale(scale, self.problem.sign, self.problem.offset)
        return result, constant

    def _call_back(self, scale: float, intermediate_result: Result) -> None:
        assert self.callback is not None
        seen = QAPResult(**intermediate_result)
        self.problem.present(seen, scale)
        seen.relaxed, seen.relaxed_fun = seen.x, float(seen.fun)
        self.callback(seen)

    def _convert(self, error: BaseException, scale: float) -> None:
        """Convert the ``intermediate_result`` of an exception to the user's units, with a permutation."""
        found = getattr(error, "intermediate_result", None)
        if isinstance(found, Result):
            p = nearest(found.x)
            result = QAPResult(**found)
            self.problem.present(result, scale)
            result.relaxed, result.relaxed_fun = result.x, float(result.fun)
            result.permutation = self.problem.complete(p)
            result.fun = self.problem.evaluate(result.permutation)
            error.intermediate_result = result  # type: ignore[attr-defined]

    def improve(self, p: np.ndarray, rng: Source, deadline: float | None) -> np.ndarray:
        return polished(self.A, self.B, p, self.C, rng if self.polish == "tabu" else None, deadline)


class _Polytope(Birkhoff, trusted=True):
    """The Birkhoff polytope, lenient about the rounding that alternating projections leave."""

    latest: np.ndarray | None = None
    """The last answer of the oracle, a permutation."""

    def oracle(self) -> _Remembering:
        return _Remembering(self)

    def contains(self, x: Any, tol: float = 1e-5) -> bool:
        return super().contains(x, tol)


class _Remembering(BirkhoffOracle):
    """An oracle that leaves its last answer with the set: an assignment of this size is not solved twice."""

    domain: _Polytope

    def __call__(self, G: Any) -> Any:
        atom = super().__call__(G)
        self.domain.latest = atom.columns
        return atom


def _rounding(A: Any, B: Any, C: np.ndarray | None) -> float:
    """Return what rounding may make of an FW gap that is zero: a sum over n rows of the gradient's entries,
    each about the product of A's and B's row (or column) sums over n."""
    n = A.shape[0]
    size = 0.0 if C is None else float(np.abs(C).max())
    A, B, ones = abs(A), abs(B), np.ones(n)
    size += float((A.T @ ones).max()) * float((B.T @ ones).max()) / n
    size += float((A @ ones).max()) * float((B @ ones).max()) / n
    return float(8.0 * np.finfo(np.float64).eps * n**1.5 * size)


def _dimensions(value: Any) -> int:
    """Return the number of dimensions; rows of different lengths, which have none, are to be a matrix."""
    try:
        return np.ndim(value)
    except ValueError:
        return 2
