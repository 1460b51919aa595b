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
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._minimize import minimize
from dcfw.functions.base import Function
from dcfw.qap.objective import dense, evaluate, is_sparse, matrices, round_to_permutation
from dcfw.qap.quadratics import SPLITS, decompose, frobenius, relaxation, spectral_norm
from dcfw.result import Result, Status
from dcfw.sets.birkhoff import Birkhoff
from dcfw.solvers.cgs import CGS
from dcfw.tolerances import Adaptive

METHODS = ("dcfw", "fw", "cgs")
INNERS = ("auto", "fw")
POLISHES = ("2opt", "tabu")
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
    inner : {"auto", "fw"}
        The inner solver.  Dense data run in a compiled loop.
    init : {"barycenter", "random"} or array
        The first start: the matrix of all 1/n (perturbed where its gradient is constant: the result's
        ``perturbed`` tells), a random doubly stochastic matrix, or a doubly stochastic matrix of yours.
    restarts : int or "auto"
        How many starts; all but the first are random.  ``"auto"`` fills the ``time_limit``.
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
    _validate.choice(inner, "inner", INNERS)
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
    A, B, C, sizes = _data(A, B, C)
    seeds = _validate.generator(rng).bit_generator.seed_seq  # type: ignore[attr-defined]
    task = Task(
        *_reduced(A, B, C, partial_match, bool(maximize)),
        method=method,
        split=AUTO_SPLIT if split == "auto" else split,
        init=init,
        polish=polish,
        rtol=_validate.scalar(rtol, "rtol", low=0.0, high=1.0),
        maxiter=None if maxiter is None else _validate.integer(maxiter, "maxiter", low=0),
        max_lmo=None if max_lmo is None else _validate.integer(max_lmo, "max_lmo", low=1),
        protocol=PROTOCOLS[protocol] if protocol else OWN,
        callback=callback,
    )
    task.check_init()
    results = _run_all(task, restarts, n_jobs, seeds, started, time_limit)
    best = min(results, key=lambda result: result.fun)
    best.restart_values = [task.sign * r.fun for r in results]
    best.permutation = task.complete(best.permutation)
    best.fun = evaluate(A, B, best.permutation, C)
    if task.sign < 0:
        best.relaxed_fun = -best.relaxed_fun
    best.sizes = sizes
    best.total_time = time.perf_counter() - started
    return best


def _data(A: Any, B: Any, C: Any) -> tuple[Any, Any, Any, tuple[int, int]]:
    """Return the matrices checked and padded to one size."""
    A, B = matrices(A, A)[0], matrices(B, B)[0] if B is not None else None
    if B is None:
        raise TypeError("B must be a square matrix, got None")
    sizes = (int(A.shape[0]), int(B.shape[0]))
    n = max(sizes)
    A, B = _padded(A, n), _padded(B, n)
    if C is not None:
        C = matrices(_padded(np.asarray(dense(C)), n) if np.ndim(C) == 2 else C, A)[0]
        if C.shape != (n, n):
            raise ValueError(f"C must have shape {(n, n)}, got {C.shape}")
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
) -> tuple[Any, Any, Any, float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the problem of the free rows and columns: given pairs leave a linear term behind."""
    n = A.shape[0]
    sign = -1 if maximize else 1
    pairs = _pairs(partial_match, n)
    rows = np.setdiff1d(np.arange(n), pairs[:, 0])
    columns = np.setdiff1d(np.arange(n), pairs[:, 1])
    if len(pairs):
        i, j = pairs.T
        linear = dense(A[rows][:, i]) @ dense(B[columns][:, j]).T
        linear = linear + dense(A[i][:, rows]).T @ dense(B[j][:, columns])
        C = linear if C is None else linear + C[np.ix_(rows, columns)]
        A, B = A[rows][:, rows], B[columns][:, columns]
    return sign * A, B, None if C is None else sign * C, sign, rows, columns, pairs


class Task:
    """The (reduced) minimisation problem and how to run it from one start."""

    def __init__(
        self,
        A: Any,
        B: Any,
        C: Any,
        sign: float,
        rows: np.ndarray,
        columns: np.ndarray,
        pairs: np.ndarray,
        *,
        method: str,
        split: str,
        init: Any,
        polish: str | None,
        rtol: float,
        maxiter: int | None,
        max_lmo: int | None,
        protocol: Protocol,
        callback: Callable[..., Any] | None,
    ) -> None:
        self.A, self.B, self.C = A, B, C
        self.sign, self.rows, self.columns, self.pairs = sign, rows, columns, pairs
        self.n = len(rows)
        self.method, self.split, self.init, self.polish = method, split, init, polish
        self.rtol, self.maxiter, self.max_lmo = rtol, maxiter, max_lmo
        self.protocol, self.callback = protocol, callback
        self._model: tuple[Any, ...] | None = None

    # Matrices and functions are made once per process; workers make their own.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}

    def model(self) -> tuple[Function, float, Any]:
        """Return the objective in the scale of the solve, that scale, and the method object."""
        if self._model is None:
            self._model = self._build()
        return self._model  # type: ignore[return-value]

    def _build(self) -> tuple[Function, float, Any]:
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        scale = 1.0
        a, b = frobenius(A), frobenius(B)
        if self.protocol.normalise and a > 0.0 and b > 0.0:
            A, B, scale = A / a, B / b, a * b
        C = None if self.C is None else np.asarray(self.C, dtype=np.float64) / scale
        constant = spectral_norm(A) * spectral_norm(B) if self._needs_constant() else 0.0
        if not self.protocol.half_constant:
            constant *= 2.0
        if self.method == "dcfw":
            L = constant if constant > 0.0 else None
            return decompose(A, B, C, self.split, L), scale, "dcfw"
        phi = relaxation(A, B, C)
        if self.method == "cgs":
            return phi, scale, CGS(L=constant if constant > 0.0 else 1.0)
        return phi, scale, "fw"

    def _needs_constant(self) -> bool:
        return self.method == "cgs" or (self.method == "dcfw" and self.split in ("sliding", "proximal"))

    def check_init(self) -> None:
        if isinstance(self.init, str):
            _validate.choice(self.init, "init", ("barycenter", "random"))
            return
        X = _validate.array(self.init, "init", ndim=2)
        full = (self.n + len(self.pairs),) * 2
        if tuple(X.shape) == full != (self.n, self.n):
            X = X[np.ix_(self.rows, self.columns)]
        if tuple(X.shape) != (self.n, self.n):
            raise ValueError(f"init must be a doubly stochastic matrix of shape {full}, got {tuple(X.shape)}")
        X = np.asarray(X, dtype=np.float64)
        violation = Birkhoff(self.n).violation(X)
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

    def start(self, index: int, rng: np.random.Generator) -> np.ndarray:
        if index == 0 and not isinstance(self.init, str):
            return self.init
        if index == 0 and self.init == "barycenter":
            return np.full((self.n, self.n), 1.0 / self.n)
        return self.perturbed(rng)

    def perturbed(self, rng: np.random.Generator) -> np.ndarray:
        return Birkhoff(self.n).random(rng, scale=self.protocol.noise)

    def run(self, index: int, rng: np.random.Generator, deadline: float | None) -> Result:
        """Return the result of one start: relax, round, polish."""
        result = self.relax(self.start(index, rng), deadline)
        result.perturbed = False
        if index == 0 and isinstance(self.init, str) and self.init == "barycenter" and result.nit == 0:
            if result.status is Status.CONVERGED and self.n > 1:
                # Every permutation looks alike from the barycentre: leave it at random.
                result = self.relax(self.perturbed(rng), deadline)
                result.perturbed = True
                result.message += " The gradient at the barycentre is constant: the start was perturbed."
        result.relaxed = result.x
        result.relaxed_fun = float(result.fun)
        p = round_to_permutation(result.x)
        if self.polish is not None:
            p = self.improve(p, rng, deadline)
        result.permutation = p
        result.fun = evaluate(self.A, self.B, p, self.C)
        return result

    def relax(self, X0: np.ndarray, deadline: float | None) -> Result:
        objective, scale, method = self.model()
        options: dict[str, Any] = {}
        if not is_sparse(self.A) and not is_sparse(self.B):
            from dcfw.qap.compiled import CompiledFW, Loop

            if self.method == "fw":
                method = CompiledFW()
            else:
                options["inner"] = Loop(self.n, trust=self.protocol.half_constant)
        maxiter = self.maxiter
        if maxiter is None:
            maxiter = 10_000 if self.method != "fw" else 1_000_000
        result = minimize(
            objective,
            _Polytope(self.n),
            X0,
            method=method,
            tolerance=Adaptive(0.8, self.protocol.update),
            tol=1e-13,
            rtol=self.rtol,
            maxiter=maxiter,
            max_inner=10_000,
            max_lmo=self.max_lmo,
            time_limit=None if deadline is None else max(deadline - time.perf_counter(), 0.0),
            callback=self.callback,
            **options,
        )
        _rescale(result, scale)
        return result

    def improve(self, p: np.ndarray, rng: np.random.Generator, deadline: float | None) -> np.ndarray:
        from dcfw.qap.swaps import two_opt

        left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
        p, _, _ = two_opt(self.A, self.B, p, self.C, time_limit=left)
        if self.polish == "tabu":
            from dcfw.qap.tabu import robust_tabu

            left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
            p, _, _ = robust_tabu(
                self.A, self.B, p, self.C, iterations=50 * self.n, rng=rng, time_limit=left
            )
        return p


class _Polytope(Birkhoff):
    """The Birkhoff polytope, lenient about the rounding that alternating projections leave."""

    def contains(self, x: Any, tol: float = 1e-5) -> bool:
        return super().contains(x, tol)


def _rescale(result: Result, scale: float) -> None:
    """Bring everything that has phi's unit back to the unit of the data."""
    if scale == 1.0:
        return
    result.fun *= scale
    result.gap *= scale
    result.dc_gap = tuple(scale * end for end in result.dc_gap)
    names = [result.history.columns.index(name) for name in ("fun", "gap", "dc_low", "dc_high", "eps")]
    for row in result.history.rows:
        for column in names:
            row[column] *= scale


def _run_all(
    task: Task, restarts: int | str, n_jobs: int | None, seeds: Any, started: float, time_limit: float | None
) -> list[Result]:
    """Return the results of all starts, each with its own seed whatever the number of workers."""
    deadline = None if time_limit is None else started + time_limit
    if restarts == "auto":
        assert deadline is not None
        return _fill(task, seeds, deadline)
    streams = seeds.spawn(restarts)
    if n_jobs in (None, 1) or restarts == 1:
        results = []
        for index, stream in enumerate(streams):
            if results and deadline is not None and time.perf_counter() >= deadline:
                break
            results.append(task.run(index, np.random.default_rng(stream), deadline))
            if results[-1].status in (Status.INTERRUPTED, Status.CALLBACK):
                break
        return results
    from joblib import Parallel, delayed

    left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
    jobs = (delayed(_run_one)(task, index, stream, left) for index, stream in enumerate(streams))
    return list(Parallel(n_jobs=n_jobs)(jobs))


def _run_one(task: Task, index: int, stream: Any, left: float | None) -> Result:
    deadline = None if left is None else time.perf_counter() + left
    return task.run(index, np.random.default_rng(stream), deadline)


def _fill(task: Task, seeds: Any, deadline: float) -> list[Result]:
    """Run start after start until the time is over."""
    results = []
    index = 0
    while index == 0 or time.perf_counter() < deadline:
        (stream,) = seeds.spawn(1)
        results.append(task.run(index, np.random.default_rng(stream), deadline))
        if results[-1].status in (Status.INTERRUPTED, Status.CALLBACK):
            break
        index += 1
    return results
