"""``dcfw.qap.solve``: relax the permutation to a doubly stochastic matrix, minimise, round, polish.

The relaxed problem min phi(X) = <A X, X B> + <C, X> over the Birkhoff polytope is nonconvex; DC-FW finds a
stationary point of it and the nearest permutation is its answer.  What a user reads in the result is the
permutation and its exact value; the relaxed point, the certificate of its stationarity and the oracle
counts are there too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw._minimize import minimize
from dcfw.functions.base import Function
from dcfw.qap.objective import (
    INT64_MAX,
    dense,
    evaluate,
    is_sparse,
    largest,
    round_to_permutation,
    square,
)
from dcfw.qap.quadratics import SPLITS, decompose, frobenius, relaxation, spectral_norm
from dcfw.result import History, Result, Status
from dcfw.sets.birkhoff import Birkhoff, assignment
from dcfw.solvers.cgs import CGS
from dcfw.solvers.loop import frank_wolfe
from dcfw.tolerances import Adaptive

METHODS = ("dcfw", "fw", "cgs")
INNERS = ("auto", "fw", "blended")
POLISHES = ("2opt", "tabu")
DENSE_UP_TO = 100
"""Sparse problems of at most this size are solved as dense ones: the compiled loop beats any sparsity."""
AUTO_SPLIT = "balanced"
"""What ``split="auto"`` means for a single run."""


@dataclass(frozen=True)
class Protocol:
    """How the published experiments are run, in the paper's words or in its authors' code."""

    normalise: bool
    noise: float
    update: str
    half_constant: bool


PROTOCOLS = {
    "text": Protocol(normalise=False, noise=1.0, update="text", half_constant=False),
    "published": Protocol(normalise=True, noise=0.001, update="published", half_constant=True),
}
# Without a protocol: scale-free like the authors' code, with constants that make the parts convex.
OWN = Protocol(normalise=True, noise=0.001, update="published", half_constant=False)


def solve(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    method: str = "dcfw",
    split: str = "auto",
    inner: str = "auto",
    init: Any = "barycenter",
    restarts: int | str = 1,
    polish: str | None = None,
    maximize: bool = False,
    partial_match: Any = None,
    rtol: float = 1e-3,
    maxiter: int | None = None,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    rng: Any = None,
    callback: Callable[..., Any] | None = None,
    protocol: str | None = None,
) -> Result:
    """Find a permutation p with a low value of sum_ij A[i, j] B[p(i), p(j)] + sum_i C[i, p(i)].

    Parameters
    ----------
    A, B : square matrices
        Arrays or SciPy sparse arrays, symmetric or not.  The smaller one is padded with zeros.
    C : matrix, optional
        The linear term.
    method : {"dcfw", "fw", "cgs"}
        DC-FW, plain Frank-Wolfe (as in FAQ), or nonconvex conditional gradient sliding.
    split : {"auto", "paper", "sliding", "proximal", "balanced", "centered", "spectral"}
        The decomposition for DC-FW; see :mod:`dcfw.qap.quadratics`.
    inner : {"auto", "fw", "blended"}
        The inner solver of DC-FW: vanilla Frank-Wolfe steps as in the paper, or blended pairwise steps on an
        active set, which need a tenth of the assignment problems and fewer.  ``"auto"`` is ``"blended"``, and
        ``"fw"`` under a protocol.  Dense data run in a compiled loop; sparse data take vanilla steps.
    init : {"barycenter", "random"} or array
        The first start: the matrix of all 1/n (perturbed where its gradient is constant: the result's
        ``perturbed`` tells), a random doubly stochastic matrix, or a doubly stochastic matrix of yours.
    restarts : int or "auto"
        How many starts; all but the first are random.  ``"auto"`` fills the ``time_limit`` with new starts
        and with improvements of the best permutation; :mod:`dcfw.qap.portfolio` says how.
    polish : {None, "2opt", "tabu"}
        What improves each rounded permutation: swaps until none helps, or a short robust tabu search.
    maximize : bool
        Look for a high value instead.
    partial_match : array of pairs, optional
        ``[[i, j], ...]``: p(i) = j is given.
    rtol : float
        A run stops when its FW gap has fallen to this fraction of the first one.
    maxiter, max_lmo, time_limit
        Budgets per run (outer steps, assignment problems) and in all (seconds).  The best permutation so
        far is always returned.
    n_jobs : int, optional
        Parallel restarts by joblib.  A given number of restarts has the same result for every ``n_jobs``.
    rng : None, int or numpy.random.Generator
    callback : callable, optional
        As in :func:`dcfw.minimize`, for every run.
    protocol : {None, "text", "published"}
        Reproduce the paper's experiments as its text states them, or as its authors' code ran them.

    Returns
    -------
    Result
        The fields of :class:`dcfw.Result` and ``permutation``; ``fun``, its value (an exact int for integer
        data); ``relaxed`` and ``relaxed_fun``, the doubly stochastic matrix it comes from and phi there;
        ``restart_values``; ``perturbed``.  ``gap`` and ``dc_gap`` are those of ``relaxed``.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import qap
    >>> problem = qap.generators.li_pardalos(9, rng=0)
    >>> res = qap.solve(problem.A, problem.B, restarts=10, polish="2opt", rng=0)
    >>> res.fun == problem.best
    True
    """
    started = time.perf_counter()
    method = _validate.choice(method, "method", METHODS)
    split = _validate.choice(split, "split", ("auto", *SPLITS))
    inner = _validate.choice(inner, "inner", INNERS)
    if polish is not None:
        polish = _validate.choice(polish, "polish", POLISHES)
    if protocol is not None:
        protocol = _validate.choice(protocol, "protocol", PROTOCOLS)
    if time_limit is not None:
        time_limit = _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    if restarts == "auto":
        if time_limit is None or not np.isfinite(time_limit):
            raise ValueError("restarts='auto' fills the time limit: give time_limit in seconds")
    elif isinstance(restarts, str):
        raise ValueError(f"restarts must be a positive integer or 'auto', got {restarts!r}")
    else:
        restarts = _validate.integer(restarts, "restarts", low=1)
    if n_jobs is not None and _validate.integer(n_jobs, "n_jobs", low=-(10**6)) == 0:
        raise ValueError("n_jobs must not be 0; -1 means all processors")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {type(callback).__name__}")
    A, B, C, sizes = _data(A, B, C)
    task = Task(
        *_reduced(A, B, C, partial_match, bool(maximize)),
        method=method,
        split=AUTO_SPLIT if split == "auto" else split,
        inner=("blended" if protocol is None else "fw") if inner == "auto" else inner,
        init=init,
        polish=polish,
        rtol=_validate.scalar(rtol, "rtol", low=0.0, high=1.0),
        maxiter=None if maxiter is None else _validate.integer(maxiter, "maxiter", low=0),
        max_lmo=None if max_lmo is None else _validate.integer(max_lmo, "max_lmo", low=1),
        protocol=PROTOCOLS[protocol] if protocol else OWN,
        callback=callback,
        automatic=method == "dcfw" and split == "auto" and protocol is None,
    )
    task.check_init()
    if task.n <= 1:
        restarts = 1  # there is but one permutation
    results = _run_all(task, restarts, n_jobs, _seeds(rng), started, time_limit)
    at = min(range(len(results)), key=lambda k: results[k].fun)
    best = results[at]
    values = [task.sign * r.fun + task.offset for r in results]
    best.permutation = task.complete(best.permutation)
    best.fun = values[at] = evaluate(A, B, best.permutation, C)
    best.restart_values = values
    best.x = best.relaxed = task.complete_matrix(best.x)
    best.sizes = sizes
    best.total_time = time.perf_counter() - started
    return best


def _seeds(rng: Any) -> np.random.SeedSequence:
    """Return what the seeds of all runs are spawned from; a generator gives other ones each time."""
    generator = _validate.generator(rng)
    seeds = getattr(generator.bit_generator, "seed_seq", None)
    if isinstance(seeds, np.random.SeedSequence):
        return seeds
    return np.random.SeedSequence(generator.integers(2**32, size=4).tolist())


def _data(A: Any, B: Any, C: Any) -> tuple[Any, Any, Any, tuple[int, int]]:
    """Return the matrices checked and padded to one size."""
    A, B = square(A, "A"), square(B, "B")
    sizes = (int(A.shape[0]), int(B.shape[0]))
    n = max(sizes)
    A, B = _padded(A, n), _padded(B, n)
    if C is not None:
        C = dense(C) if is_sparse(C) else to_numpy(_validate.array(C, "C", ndim=2, floating=False))
        if C.shape not in (sizes, (n, n)):
            raise ValueError(f"C must have shape {sizes}, got {C.shape}")
        C = square(_padded(C, n), "C")
    return A, B, C, sizes


def _padded(M: Any, n: int) -> Any:
    rows, columns = M.shape
    if rows >= n and columns >= n:
        return M
    if is_sparse(M):
        M = M.copy()
        M.resize((n, n))
        return M
    return np.pad(M, ((0, max(n - rows, 0)), (0, max(n - columns, 0))))


def _pairs(partial_match: Any, n: int) -> np.ndarray:
    if partial_match is None:
        return np.empty((0, 2), dtype=np.int64)
    pairs = np.atleast_2d(np.asarray(partial_match))
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"partial_match must be pairs of integers [[i, j], ...], got shape {pairs.shape} and dtype "
            f"{pairs.dtype}"
        )
    if pairs.min() < 0 or pairs.max() >= n:
        raise ValueError(f"partial_match must hold indices from 0 to {n - 1}")
    for column, side in enumerate(("row", "column")):
        values, counts = np.unique(pairs[:, column], return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"partial_match repeats the {side} index {int(values[counts > 1][0])}")
    return pairs.astype(np.int64)


def _reduced(
    A: Any, B: Any, C: Any, partial_match: Any, maximize: bool
) -> tuple[Any, Any, Any, int, np.ndarray, np.ndarray, np.ndarray, float]:
    """Return the minimisation problem of the free rows and columns.

    The given pairs leave a linear term behind, and their own value as a constant.
    """
    n = A.shape[0]
    sign = -1 if maximize else 1
    pairs = _pairs(partial_match, n)
    rows = np.setdiff1d(np.arange(n), pairs[:, 0])
    columns = np.setdiff1d(np.arange(n), pairs[:, 1])
    offset: float = 0
    if len(pairs):
        i, j = pairs.T
        offset = evaluate(
            A[i][:, i], B[j][:, j], np.arange(len(pairs)), None if C is None else C[np.ix_(i, j)]
        )
        strips = [A[rows][:, i], B[columns][:, j], A[i][:, rows], B[j][:, columns]]
        integers = all(M.dtype.kind == "i" for M in (A, B, C) if M is not None)
        if integers:
            bound = 2 * len(pairs) * largest(A) * largest(B) + (0 if C is None else largest(C))
            if bound > INT64_MAX:
                strips = [M.astype(np.float64) for M in strips]
        ends_A, ends_B, starts_A, starts_B = (dense(M) for M in strips)
        linear = ends_A @ ends_B.T + starts_A.T @ starts_B
        C = linear if C is None else linear + C[np.ix_(rows, columns)]
        A, B = A[rows][:, rows], B[columns][:, columns]
    if len(rows) <= DENSE_UP_TO:
        A, B = dense(A), dense(B)
    if maximize:
        A, C = -A, None if C is None else -C
    return A, B, C, sign, rows, columns, pairs, offset


class Task:
    """The (reduced) minimisation problem and how to run it from one start."""

    def __init__(
        self,
        A: Any,
        B: Any,
        C: Any,
        sign: int,
        rows: np.ndarray,
        columns: np.ndarray,
        pairs: np.ndarray,
        offset: float,
        *,
        method: str,
        split: str,
        inner: str,
        init: Any,
        polish: str | None,
        rtol: float,
        maxiter: int | None,
        max_lmo: int | None,
        protocol: Protocol,
        callback: Callable[..., Any] | None,
        automatic: bool = False,
    ) -> None:
        self.automatic = automatic
        self.A, self.B, self.C = A, B, C
        self.sign, self.rows, self.columns, self.pairs, self.offset = sign, rows, columns, pairs, offset
        self.n = len(rows)
        self.inner = inner
        self.method, self.split, self.init, self.polish = method, split, init, polish
        self.rtol, self.maxiter, self.max_lmo = rtol, maxiter, max_lmo
        self.protocol, self.callback = protocol, callback
        self._model: tuple[Function, float, Any, float] | None = None

    # Matrices and functions are made once per process; workers make their own.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}

    def model(self) -> tuple[Function, float, Any, float]:
        """Return the objective in the scale of the solve, that scale, the method, and the least gap.

        No gap smaller than the last number can be told from the rounding of a zero.
        """
        if self._model is None:
            self._model = self._build()
        return self._model

    def _build(self) -> tuple[Function, float, Any, float]:
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        scale = 1.0
        a, b = frobenius(A), frobenius(B)
        if self.protocol.normalise and a > 0.0 and b > 0.0:
            A, B, scale = A / a, B / b, a * b
        C = None if self.C is None else np.asarray(self.C, dtype=np.float64) / scale
        least = max(1e-13 * frobenius(A) * frobenius(B), _rounding(A, B, C))
        constant = spectral_norm(A) * spectral_norm(B) if self._needs_constant() else 0.0
        if not self.protocol.half_constant:
            constant *= 2.0
        if self.method == "dcfw":
            L = constant if constant > 0.0 else None
            return decompose(A, B, C, self.split, L), scale, "dcfw", least
        phi = relaxation(A, B, C)
        if self.method == "cgs":
            return phi, scale, CGS(L=constant if constant > 0.0 else 1.0), least
        return phi, scale, "fw", least

    def _needs_constant(self) -> bool:
        return self.method == "cgs" or (self.method == "dcfw" and self.split in ("sliding", "proximal"))

    def check_init(self) -> None:
        if isinstance(self.init, str):
            _validate.choice(self.init, "init", ("barycenter", "random"))
            return
        X = to_numpy(_validate.array(self.init, "init", ndim=2))
        full = (self.n + len(self.pairs),) * 2
        if tuple(X.shape) == full != (self.n, self.n):
            X = X[np.ix_(self.rows, self.columns)]
        if tuple(X.shape) != (self.n, self.n):
            raise ValueError(f"init must be a doubly stochastic matrix of shape {full}, got {tuple(X.shape)}")
        X = np.array(X, dtype=np.float64)
        violation = Birkhoff(self.n).violation(X) if self.n else 0.0
        if violation > 1e-6:
            raise ValueError(
                f"init must be doubly stochastic; its row or column sums or signs are off by {violation:.3g}"
            )
        self.init = X

    def complete(self, permutation: np.ndarray) -> np.ndarray:
        """Return the permutation of the whole problem."""
        p = np.empty(self.n + len(self.pairs), dtype=np.int64)
        p[self.rows] = self.columns[permutation]
        p[self.pairs[:, 0]] = self.pairs[:, 1]
        return p

    def complete_matrix(self, X: np.ndarray) -> np.ndarray:
        """Return the doubly stochastic matrix of the whole problem."""
        if not len(self.pairs):
            return X
        full = np.zeros((self.n + len(self.pairs),) * 2)
        full[np.ix_(self.rows, self.columns)] = X
        full[self.pairs[:, 0], self.pairs[:, 1]] = 1.0
        return full

    def start(self, index: int, rng: np.random.Generator, deadline: float | None) -> np.ndarray:
        if index == 0 and isinstance(self.init, np.ndarray):
            return self.init
        if index == 0 and self.init == "barycenter":
            return np.full((self.n, self.n), 1.0 / self.n)
        return self.perturbed(rng, deadline)

    def perturbed(self, rng: np.random.Generator, deadline: float | None) -> np.ndarray:
        if deadline is not None:  # a good start is not worth more than half of the time left
            now = time.perf_counter()
            deadline = now + 0.5 * (deadline - now)
        return Birkhoff(self.n).random(rng, scale=self.protocol.noise, deadline=deadline)

    def run(self, index: int, rng: np.random.Generator, deadline: float | None) -> Result:
        """Return the result of one start: relax, round, polish.

        Its ``fun`` and ``permutation`` are those of the reduced minimisation problem.
        """
        if self.n == 0:
            return self.settled()
        self.model()  # first of all, because it knows no deadline
        X0 = self.start(index, rng, deadline)
        result, constant = self.relax(X0, deadline)
        result.perturbed = False
        if constant and self.n > 1 and np.ptp(X0) <= 1e-12:
            # Every permutation looks alike from the barycentre: leave it at random.
            second, constant = self.relax(self.perturbed(rng, deadline), deadline)
            if constant:
                result.message += " The objective is constant: all permutations are optimal."
            else:
                result, result.perturbed = second, True
                result.message += " The gradient at the barycentre is constant: the start was perturbed."
        result.relaxed_fun = float(result.fun)
        p = self.rounded(result)
        if self.polish is not None and (deadline is None or time.perf_counter() < deadline):
            try:
                p = self.improve(p, rng, deadline)
            except KeyboardInterrupt:
                result.status, result.success = Status.INTERRUPTED, False
                result.message = Status.INTERRUPTED.sentence
        result.permutation = p
        result.fun = evaluate(self.A, self.B, p, self.C)
        return result

    def rounded(self, result: Result) -> np.ndarray:
        """Return the permutation nearest to the relaxed point.

        The start says little: if a limit left no time for a step, the vertex it points to may be better.
        """
        p = round_to_permutation(result.x)
        if result.n_inner or result.status is Status.CONVERGED:
            return p
        objective = self.model()[0]
        vertex = assignment(objective.grad(result.x))
        return min(p, vertex, key=lambda q: evaluate(self.A, self.B, q, self.C))

    def settled(self) -> Result:
        """Return the result where the partial match leaves nothing to choose."""
        counts = ("nit", "n_inner", "n_fun", "n_grad_f", "n_grad_g", "n_lmo", "n_resync", "dc_gap_nit")
        return Result(
            x=np.empty((0, 0)),
            permutation=np.empty(0, dtype=np.int64),
            fun=0,
            relaxed_fun=float(self.offset),
            success=True,
            status=Status.CONVERGED,
            message="The partial match leaves nothing to choose.",
            gap=0.0,
            dc_gap=(0.0, 0.0),
            time=0.0,
            history=History(),
            method=self.method,
            split="none",
            conditional="",
            perturbed=False,
            **dict.fromkeys(counts, 0),
        )

    def relax(self, X0: np.ndarray, deadline: float | None) -> tuple[Result, bool]:
        """Return the relaxed result in the unit of the data, and whether phi looks constant from X0."""
        objective, scale, method, least = self.model()
        options: dict[str, Any] = {}
        if not is_sparse(self.A) and not is_sparse(self.B):
            from dcfw.qap.blended import BlendedLoop
            from dcfw.qap.compiled import CompiledFW, Loop

            if self.method == "fw":
                method = CompiledFW()
            else:
                loop = BlendedLoop if self.inner == "blended" else Loop
                options["inner"] = loop(self.n, trust=self.protocol.half_constant and self._needs_constant())
        elif self.method == "dcfw" and self.protocol.half_constant:
            options["inner"] = partial(frank_wolfe, convex=False)  # trusted, as in the compiled loop
        maxiter = self.maxiter
        if maxiter is None:
            maxiter = 10_000 if self.method != "fw" else 1_000_000
        result = minimize(
            objective,
            _Polytope(self.n),
            X0,
            method=method,
            tolerance=Adaptive(0.8, self.protocol.update),
            tol=least,
            rtol=self.rtol,
            maxiter=maxiter,
            max_inner=10_000,
            max_lmo=self.max_lmo,
            time_limit=None if deadline is None else max(deadline - time.perf_counter(), 0.0),
            callback=None if self.callback is None else partial(self._call_back, scale),
            **options,
        )
        constant = result.status is Status.CONVERGED and result.n_inner == 0 and result.gap <= least
        self._rescale(result, scale)
        columns = [result.history.columns.index(name) for name in ("gap", "dc_low", "dc_high", "eps")]
        value = result.history.columns.index("fun")
        for row in result.history.rows:
            row[value] = self.sign * scale * row[value] + self.offset
            for column in columns:
                row[column] *= scale
        return result, constant

    def _rescale(self, result: Result, scale: float) -> None:
        """Bring everything that has phi's unit back to the unit of the data, and to the user's sign."""
        result.fun = self.sign * scale * result.fun + self.offset
        result.gap *= scale
        result.dc_gap = tuple(scale * end for end in result.dc_gap)

    def _call_back(self, scale: float, intermediate_result: Result) -> None:
        assert self.callback is not None
        self._rescale(intermediate_result, scale)
        intermediate_result.x = self.complete_matrix(intermediate_result.x)
        self.callback(intermediate_result)

    def improve(self, p: np.ndarray, rng: np.random.Generator, deadline: float | None) -> np.ndarray:
        from dcfw.qap.swaps import two_opt

        left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
        p, _, _ = two_opt(self.A, self.B, p, self.C, time_limit=left)
        if self.polish == "tabu":
            from dcfw.qap.tabu import robust_tabu

            left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
            p, _, _ = robust_tabu(self.A, self.B, p, self.C, iterations=50 * self.n, rng=rng, time_limit=left)
        return p


class _Polytope(Birkhoff):
    """The Birkhoff polytope, lenient about the rounding that alternating projections leave."""

    def contains(self, x: Any, tol: float = 1e-5) -> bool:
        return super().contains(x, tol)


def _rounding(A: Any, B: Any, C: np.ndarray | None) -> float:
    """Return what rounding may make of an FW gap that is zero.

    The gap is a sum over n rows of entries of the gradient, each a sum of about the size of the products of
    A's and B's row (or column) sums over n.
    """
    n = A.shape[0]
    size = 0.0 if C is None else float(np.abs(C).max())
    for axis in (0, 1):
        size += float(abs(A).sum(axis=axis).max()) * float(abs(B).sum(axis=axis).max()) / n
    return float(8.0 * np.finfo(np.float64).eps * n**1.5 * size)


def _run_all(
    task: Task, restarts: int | str, n_jobs: int | None, seeds: Any, started: float, time_limit: float | None
) -> list[Result]:
    """Return the results of all starts, each with its own seed whatever the number of workers."""
    deadline = None if time_limit is None else started + time_limit
    if restarts == "auto":
        assert deadline is not None
        from dcfw.qap.portfolio import fill

        return fill(task, seeds, deadline)
    streams = seeds.spawn(restarts)
    results: list[Result] = []
    if n_jobs in (None, 1) or restarts == 1:
        for index, stream in enumerate(streams):
            if results and deadline is not None and time.perf_counter() >= deadline:
                break
            results.append(task.run(index, np.random.default_rng(stream), deadline))
            if results[-1].status in (Status.INTERRUPTED, Status.CALLBACK):
                break
        return results
    from joblib import Parallel, delayed

    # The kernels release the interpreter lock, so threads do; processes would first have to be started.
    task.model()
    end = None if deadline is None else time.time() + deadline - time.perf_counter()
    jobs = (delayed(_run_one)(task, index, stream, end) for index, stream in enumerate(streams))
    answers = Parallel(n_jobs=n_jobs, prefer="threads")(jobs)
    for answer in answers:  # in order, as if one had followed the other
        if answer is not None:
            results.append(answer)
            if answer.status in (Status.INTERRUPTED, Status.CALLBACK):
                break
    return results


def _run_one(task: Task, index: int, stream: Any, end: float | None) -> Result | None:
    """Run one start in a worker, unless the time (of day: workers may be other processes) is over."""
    left = None if end is None else end - time.time()
    if left is not None and left <= 0.0 and index > 0:
        return None
    deadline = None if left is None else time.perf_counter() + left
    return task.run(index, np.random.default_rng(stream), deadline)
