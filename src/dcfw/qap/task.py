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
from dcfw.qap.graduated import FIRST_NOISE, STAGES, GraduatedPath, PathEnd, perturbed_centre, prepare
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
Source = Callable[[], np.random.Generator]  # creates a start's generator only if needed

# Entries of random starts deviate from 1/n by NOISE, or by NOISE_OF_SMALL / n^3 if that is more: for small n
# a deviation of 0.01 is negligible beside 1/n, and all starts would end at the same permutation.
NOISE, NOISE_OF_SMALL = 0.01, 50.0
_UNUSED = np.random.default_rng(0)  # for relaxations, which draw nothing: seeding a generator takes time
QUICK = 500  # up to this size a step is finished even after the deadline
SMALL = 100  # up to this size the time for eigenvalues is negligible


@dataclass(frozen=True)
class Deadline:
    """A deadline for workers: processes on one machine share the monotonic clock, others the time of day."""

    machine: str
    monotonic: float
    of_day: float

    @classmethod
    def at(cls, deadline: float) -> Deadline:
        left = deadline - time.perf_counter()
        return cls(platform.node(), time.monotonic() + left, time.time() + left)

    def here(self) -> float:
        same = platform.node() == self.machine
        left = self.monotonic - time.monotonic() if same else self.of_day - time.time()
        return time.perf_counter() + left


@dataclass(eq=False)
class Task:
    """The reduced minimisation problem and the options for running it from one start."""

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
        self.permutation: np.ndarray | None = None  # the user's start if it is a permutation
        if isinstance(self.init, str):
            _validate.choice(self.init, "init", ("barycenter", "random"))
        else:
            self._check_init()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_paths": {}}  # each worker process builds its own

    def _check_init(self) -> None:
        problem, shape = self.problem, (self.n, self.n)
        full = (self.n + len(problem.pairs),) * 2
        init = assignment_by_name(self.init, problem.sizes, problem.labels, "init")
        try:
            one_dimensional = np.ndim(init) == 1
        except ValueError:  # rows of different lengths
            one_dimensional = False
        if one_dimensional:
            self.permutation = problem.reduce(as_permutation(init, full[0], "init"))
            self.init = np.eye(self.n)[self.permutation]
            return
        X = to_numpy(_validate.array(init, "init", ndim=2))
        if tuple(X.shape) == full != shape:
            i, j = problem.pairs.T
            errors = np.abs(X[i, j] - 1.0)
            if errors.max() > 1e-6:
                k = int(errors.argmax())
                raise ValueError(
                    f"init must be 1 at the pairs of partial_match, got {X[i[k], j[k]]:.3g} at "
                    f"({int(i[k])}, {int(j[k])}); give a doubly stochastic matrix of shape {shape} "
                    "for the free rows and columns, or init='barycenter'"
                )
            X = X[np.ix_(problem.rows, problem.columns)]
        if tuple(X.shape) != shape:
            raise ValueError(f"init must be a doubly stochastic matrix of shape {full}, got {tuple(X.shape)}")
        self.init = X = np.array(X, dtype=np.float64)
        violation = max(sum_error(X), -float(X.min())) if self.n else 0.0
        if violation > 1e-6:
            raise ValueError(f"init must be doubly stochastic; sums or signs are off by {violation:.3g}")

    def model(self, deadline: float | None = None) -> tuple[Function, float, Any, float]:
        """Return the scaled objective, the scale, the method, and the least gap that exceeds rounding."""
        if self._model is not None:
            return self._model
        if deadline is not None and self.flexible:  # balanced if spectral needs more than half of the time
            if self.split == "spectral" and self.method in SPLIT_METHODS and self.n > SMALL:
                seconds = 0.5 * (deadline - time.perf_counter())
                trial = self._quarter()
                start = time.perf_counter()
                np.linalg.eigh(trial)
                one = 4.0**3 * (time.perf_counter() - start)
                # Of A and B; if neither is symmetric, also of two complex matrices at 4 times the cost.
                if (2.0 if symmetric(self.A) or symmetric(self.B) else 10.0) * one > seconds:
                    self.split = "balanced"
            self.flexible = False  # all workers must use the same split
        A, B = (M.astype(np.float64, copy=False) for M in (self.A, self.B))
        scale = 1.0
        a, b = frobenius(A), frobenius(B)
        if (a == 0.0 and abs(A).max() == 0.0) or (b == 0.0 and abs(B).max() == 0.0):
            # Only C remains; rounding would lose it beside squares of the other matrix in f and g.
            A, B, a, b = 0.0 * A, 0.0 * B, 0.0, 0.0
        elif a > 0.0 and b > 0.0:
            A, B, scale, a, b = A / a, B / b, a * b, 1.0, 1.0
        C = None if self.C is None else np.asarray(self.C, dtype=np.float64) / scale
        least = max(1e-13 * a * b, _rounding(A, B, C))
        if self.method in SPLIT_METHODS:
            self._model = decompose(A, B, C, self.split), scale, self.method, least
        else:
            method = CGS(L=2.0 * spectral_norm(A) * spectral_norm(B)) if self.method == "cgs" else "fw"
            self._model = relaxed(A, B, C), scale, method, least
        return self._model

    def path(self, split: str) -> GraduatedPath:
        if split not in self._paths:
            self._paths[split] = prepare(dense(self.A), dense(self.B), self.C, split)
        return self._paths[split]

    def _quarter(self) -> np.ndarray:
        """Return a matrix of a quarter of the order, on which operations are timed."""
        return np.random.default_rng(0).standard_normal((self.n // 4, self.n // 4))

    def _start(self, index: int, rng: Source, deadline: float | None) -> np.ndarray:
        if index == 0 and isinstance(self.init, np.ndarray):
            return self.init
        if index == 0 and self.init == "barycenter":
            return np.full((self.n, self.n), 1.0 / self.n)
        return self._perturbed(rng, deadline)

    def _perturbed(self, rng: Source, deadline: float | None) -> np.ndarray:
        if deadline is not None:  # spend at most half of the time left on the start
            now = time.perf_counter()
            deadline = now + 0.5 * (deadline - now)
        scale = max(NOISE, NOISE_OF_SMALL / self.n**3)
        return Birkhoff(self.n).random(rng(), scale=scale, deadline=deadline)

    def run(self, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Return the result of one start: ``fun`` and ``permutation`` of the reduced problem, the fields of
        the relaxation in the user's units."""
        if self.n == 0:
            message = "The partial match leaves nothing to choose."
            result = self._unstepped(np.empty((0, 0)), 0, Status.CONVERGED, message, 0.0)
            result.permutation, result.relaxed_fun = np.empty(0, np.int64), float(self.problem.offset)
        else:
            if self.method == "graduated" or (self.path_first and index == 0):
                result = self._graduate(index, rng, deadline)
                p = result.permutation
            else:
                domain = _Polytope(self.n)
                in_time = deadline is None or self._has_time_for_steps(deadline)
                result = (self._relaxed if in_time else self._first_vertex)(domain, index, rng, deadline)
                p = self._rounded(result, domain.latest, deadline)
            if self.polish is not None:
                p = self._polish(p, result, rng, deadline)
            if index == 0 and self.permutation is not None:  # never worse than the user's start
                p = min(p, self.permutation, key=self._value)
            result.permutation, result.fun = p, self._value(p)
        result.x = result.relaxed = self.problem.complete_matrix(result.x)
        return result

    def _value(self, p: np.ndarray) -> Any:
        return value(self.A, self.B, p, self.C)

    def _polish(self, p: np.ndarray, result: QAPResult, rng: Source, deadline: float | None) -> np.ndarray:
        if not is_over(deadline) and not interrupts.pending():
            try:
                p = polished(self.A, self.B, p, self.C, rng if self.polish == "tabu" else None, deadline)
            except KeyboardInterrupt:
                if interrupts.insistent():
                    raise
                result.status, result.success = Status.INTERRUPTED, False
                result.message = Status.INTERRUPTED.sentence
        if is_over(deadline) and result.status not in ENDING:
            mark_ended(result, Status.TIME_LIMIT)
        return p

    def _relaxed(self, domain: _Polytope, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Solve the relaxation from one start, perturbed where phi looks constant."""
        self.model(deadline)  # before the start, because nothing interrupts it
        X0 = self._start(index, rng, deadline)
        result, constant = self.relax(domain, X0, deadline)
        if constant and self.n > 1 and np.ptp(X0) <= 1e-12:
            second, constant = self.relax(domain, self._perturbed(rng, deadline), deadline)
            if constant:
                result.message += (
                    " The objective is constant up to rounding: all permutations have the same value."
                )
            else:
                result, result.perturbed = second, True
                result.message += " The gradient at the barycentre is constant: the start was perturbed."
        result.relaxed_fun = float(result.fun)
        return result

    def _graduate(self, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Follow a graduated path, for ``split="auto"`` one with each r if there is time, and return the
        better end."""
        started = time.perf_counter()
        if index == 0 and isinstance(self.init, np.ndarray):
            X0 = self.init
        elif index == 0 and self.init == "barycenter":  # the same start in every call
            X0 = perturbed_centre(self.n, FIRST_NOISE, np.random.default_rng(0))
        else:
            X0 = perturbed_centre(self.n, PATH_NOISE, rng())
        splits = (self.split,) if self.split in PATH_SPLITS and not self.path_first else PATH_SPLITS
        stages = STAGES if self.maxiter is None else self.maxiter
        ends: list[PathEnd] = []
        for split in splits:
            if ends and (ends[-1].cut or is_over(deadline) or interrupts.pending()):
                break
            ends.append(self.path(split).follow(X0, stages, max_lmo=self.max_lmo, deadline=deadline))
        if any(len(end.p) == 0 for end in ends):
            raise FloatingPointError("an assignment problem of the path is not finite; rescale A, B and C")
        values = [self._value(end.p) for end in ends]
        chosen = int(np.argmin(values))
        used_up = self.max_lmo is not None and any(end.n_lmo >= self.max_lmo for end in ends)
        status, cut = Status.MAX_LMO if used_up else Status.CONVERGED, used_up or ends[chosen].cut
        if any(end.cut for end in ends) or is_over(deadline):
            status = Status.TIME_LIMIT
        return path_result(
            status, cut=cut, x=np.eye(self.n)[ends[chosen].p],
            permutation=ends[chosen].p, fun=min(values), relaxed_fun=float(self.problem.value(min(values))),
            time=time.perf_counter() - started, method="graduated", split=splits[chosen],
            nit=ends[chosen].stages, n_inner=sum(end.n_inner for end in ends),
            n_lmo=sum(end.n_lmo for end in ends),
        )  # fmt: skip

    def _rounded(self, result: QAPResult, vertex: np.ndarray | None, deadline: float | None) -> np.ndarray:
        """Return the permutation nearest to the relaxed point, or the oracle's last vertex: if no step was
        made and it is better, or if time is over for the assignment problem of a large instance."""
        if is_over(deadline) and self.n > QUICK and vertex is not None:
            return vertex
        p = nearest(result.x)
        if result.n_inner or result.status is Status.CONVERGED:
            return p
        if vertex is None:  # a kernel made the only oracle call, if any
            vertex = assignment(self.model()[0].grad(result.x))
        return min(p, vertex, key=self._value)

    def _has_time_for_steps(self, deadline: float) -> bool:
        if self.n <= QUICK or self._model is not None:
            return True
        trial = self._quarter()
        start = time.perf_counter()
        trial @ trial
        middle = time.perf_counter()
        assignment(trial)
        product, lap = 4.0**3 * (middle - start), 4.0**2.5 * (time.perf_counter() - middle)
        return bool(12.0 * product + 4.0 * lap <= deadline - time.perf_counter())

    def _first_vertex(self, domain: _Polytope, index: int, rng: Source, deadline: float | None) -> QAPResult:
        """Return the start with its gap, from a single assignment problem; at 1/n the gradient is cheap."""
        started = time.perf_counter()
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        X = self._start(index, rng, deadline)
        if np.ptp(X) == 0.0:
            ones = np.full(self.n, 1.0)
            quadratic = np.outer(A @ ones, (B @ ones) / self.n) + np.outer(A.T @ ones, (B.T @ ones) / self.n)
        else:
            quadratic = relaxed(A, B).grad(X)
        C = None if self.C is None else np.asarray(self.C, dtype=np.float64)
        G, linear = (quadratic, 0.0) if C is None else (quadratic + C, float(np.vdot(C, X)))
        gap = max(float(np.vdot(G, X)) - float(domain.oracle()(G).inner(G)), 0.0)
        fun = 0.5 * float(np.vdot(quadratic, X)) + linear
        message = f"{Status.TIME_LIMIT.sentence} It left time for the first assignment problem only."
        result = self._unstepped(X, fun, Status.TIME_LIMIT, message, gap, n_lmo=1, n_grad_f=1, n_fun=1)
        result.time = time.perf_counter() - started
        result.rescale(1.0, self.problem.sign, self.problem.offset)
        result.relaxed_fun = float(result.fun)
        return result

    def _unstepped(
        self, X: np.ndarray, fun: float, status: Status, message: str, gap: float, **counts: int
    ) -> QAPResult:
        return QAPResult(
            x=X, fun=fun, status=status, success=status is Status.CONVERGED, message=message, time=0.0,
            gap=gap, dc_gap=(0.0, gap), history=History(), method=self.method, split="none", **counts,
        )  # fmt: skip

    def relax(self, domain: _Polytope, X0: np.ndarray, deadline: float | None) -> tuple[QAPResult, bool]:
        """Return the relaxed result in the user's units, and whether phi looks constant from X0."""
        objective, scale, method, least = self.model()
        inner: Any = "fw"  # also for sparse data: the gradients of an active set's atoms are dense
        if not is_sparse(self.A) and not is_sparse(self.B):
            if kernels.native is not None:
                from dcfw.qap.blended import BlendedLoop
                from dcfw.qap.compiled import CompiledFW, Loop

                if self.method == "fw":
                    method = CompiledFW()
                else:
                    inner = (BlendedLoop if self.inner == "blended" else Loop)(self.n)
            elif self.method in SPLIT_METHODS:
                inner = self.inner
        maxiter = self.maxiter
        if maxiter is None:
            maxiter = 10_000 if self.method != "fw" else 1_000_000
        # As in dcfw.minimize, without its checks of arguments.
        parts, solver = parts_of(objective, method_named(method), domain)
        now = time.perf_counter()
        task = Minimisation(
            parts=parts, domain=domain, solver=solver, rule=steps.Exact(),
            tolerance=Adaptive(0.8, "published"), inner=inner, lazy=True, x0=X0, atoms=None, chosen=True,
            tolerances=(least, self.rtol),
            limits={"maxiter": maxiter, "max_inner": 10_000, "max_lmo": self.max_lmo},
            time_limit=None if deadline is None else max(deadline - now, 0.0), started=now,
            callback=None if self.callback is None else partial(self._call_back, scale), generator=_UNUSED,
        )  # fmt: skip
        try:
            solved = task.best_of(1)
        except BaseException as error:
            found = getattr(error, "intermediate_result", None)
            if isinstance(found, Result):
                seen = self.problem.presented(found, scale)
                seen.permutation = self.problem.complete(nearest(found.x))
                seen.fun = self.problem.evaluate(seen.permutation)
                error.intermediate_result = seen  # type: ignore[attr-defined]
                error.__notes__[-1] = (  # the core's note has the scaled phi
                    f"Raised in outer step {found.nit + 1} of the relaxation in dcfw.qap.solve; the best "
                    "permutation so far is in this exception's attribute intermediate_result."
                )
            raise
        constant = solved.status is Status.CONVERGED and solved.n_inner == 0 and solved.gap <= least
        result = QAPResult(**solved)
        result.rescale(scale, self.problem.sign, self.problem.offset)
        result.history.rescale(scale, self.problem.sign, self.problem.offset)
        return result, constant

    def _call_back(self, scale: float, intermediate_result: Result) -> None:
        assert self.callback is not None
        self.callback(self.problem.presented(intermediate_result, scale))


class _Polytope(Birkhoff, trusted=True):
    """The Birkhoff polytope with a tolerance for the rounding of alternating projections."""

    latest: np.ndarray | None = None  # the oracle's last permutation, so that it need not be computed again

    def oracle(self) -> _Remembering:
        return _Remembering(self)

    def contains(self, x: Any, tol: float = 1e-5) -> bool:
        return super().contains(x, tol)


class _Remembering(BirkhoffOracle):
    domain: _Polytope

    def __call__(self, G: Any) -> Any:
        atom = super().__call__(G)
        self.domain.latest = atom.columns
        return atom


def _rounding(A: Any, B: Any, C: np.ndarray | None) -> float:
    """Return the rounding error of an FW gap that is zero: a sum over n rows of the gradient's entries, each
    about the product of A's and B's row (or column) sums over n."""
    n = A.shape[0]
    size = 0.0 if C is None else float(np.abs(C).max())
    A, B, ones = abs(A), abs(B), np.ones(n)
    size += float((A.T @ ones).max()) * float((B.T @ ones).max()) / n
    size += float((A @ ones).max()) * float((B @ ones).max()) / n
    return float(8.0 * np.finfo(np.float64).eps * n**1.5 * size)
