"""``dcfw.qap.solve``: relax the permutation to a doubly stochastic matrix, minimise, round, polish.

The relaxed problem min phi(X) = <A X, X B> + <C, X> over the Birkhoff polytope is nonconvex; DC-FW finds a
stationary point of it and the nearest permutation is its answer.  What a user reads in the result is the
permutation and its exact value; the relaxed point, the certificate of its stationarity and the oracle
counts are there too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.qap.objective import (
    INT64_MAX,
    dense,
    evaluate,
    is_sparse,
    largest,
    square,
    value,
)
from dcfw.qap.quadratics import SPLITS
from dcfw.qap.result import QAPResult
from dcfw.qap.task import OWN, SPLIT_METHODS, Deadline, Task, better
from dcfw.result import ENDING, Status, mark_ended

METHODS = ("dcfw", "boosted", "fw", "cgs")
INNERS = ("auto", "fw", "blended")
POLISHES = ("2opt", "tabu")
DENSE_UP_TO = 100
"""Sparse problems of at most this size are solved as dense ones: the compiled loop beats any sparsity."""
AUTO_SPLIT, BALANCED = "spectral", "balanced"
"""What ``split="auto"`` means, for dense and for sparse data (which the spectral split would make dense).

Chosen by error at equal time: one run with the balanced split ends lower than one with the spectral split,
but its time is enough for two or three of those from different starts, whose best is lower still (``python -m
bench inner`` has the figures).  Not so for graphs, where other starts than the barycentre help little and the
balanced split finds a planted matching more often (``python -m bench graphs``): it is the choice of
:func:`dcfw.qap.match`.
"""


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
) -> QAPResult:
    """Find a permutation p with a low value of sum_ij A[i, j] B[p(i), p(j)] + sum_i C[i, p(i)].

    Parameters
    ----------
    A, B : square matrices
        Arrays or SciPy sparse arrays, symmetric or not.  The smaller one is padded with zeros.
    C : matrix, optional
        The linear term, with a row for each row of A and a column for each row of B.
    method : {"dcfw", "boosted", "fw", "cgs"}
        DC-FW, DC-FW with a line search after each outer step, plain Frank-Wolfe (as in FAQ), or nonconvex
        conditional gradient sliding.
    split : {"auto", "paper", "sliding", "proximal", "balanced", "centered", "spectral"}
        The decomposition for DC-FW; see :mod:`dcfw.qap.quadratics`.  ``"auto"`` is ``"spectral"``, the
        best at equal time, and ``"balanced"`` for sparse data (for graphs too: see :func:`dcfw.qap.match`)
        and where a ``time_limit`` leaves no time for the eigenvalues (large n; the result's ``split`` tells).
    inner : {"auto", "fw", "blended"}
        The inner solver of DC-FW: vanilla Frank-Wolfe steps as in the paper, or blended pairwise steps on an
        active set, which need a tenth of the assignment problems and fewer.  ``"auto"`` is ``"blended"``.
        Dense data run in a compiled loop; sparse data take vanilla steps.
    init : {"barycenter", "random"} or array
        The first start: the matrix of all 1/n (perturbed where its gradient is constant: the result's
        ``perturbed`` tells), a random doubly stochastic matrix, or a doubly stochastic matrix of yours.
    restarts : int or "auto"
        How many starts; all but the first are random.  ``"auto"`` fills the ``time_limit`` with quick and
        careful starts and with improvements of the best permutation; :mod:`dcfw.qap.portfolio` says how
        (quick ones end at a gap of 1e-2 or after 100 assignment problems, whatever else is asked for).
    polish : {None, "2opt", "tabu"}
        What improves each rounded permutation: swaps until none helps, or a short robust tabu search.
    maximize : bool
        Look for a high value instead.
    partial_match : array of pairs, optional
        ``[[i, j], ...]``: p(i) = j is given.
    rtol : float
        A run stops when its FW gap has fallen to this fraction of the first one.
    maxiter, max_lmo, time_limit
        Budgets per run (outer steps, assignment problems) and in all (seconds; compiling, which happens
        at the first use of a function on a machine, is not counted).  The best permutation so far is always
        returned, after Ctrl-C too, and the status tells: it is that of the run that the permutation comes
        from, unless the time limit cut a start short or left no time for it (``TIME_LIMIT``), or Ctrl-C or
        the callback ended the search.  ``restarts="auto"`` is meant to use up the limit, and no start that
        it leaves out counts.  ``success`` goes with the status ``CONVERGED``.  A ``split="spectral"`` that is
        asked for is built whatever the limit.
    n_jobs : int, optional
        Parallel restarts by joblib, in threads unless ``joblib.parallel_config`` says otherwise.  A given
        number of restarts has the same result for every ``n_jobs``; ``"auto"`` makes more of them.
    rng : None, int or numpy.random.Generator
        The randomness of starts and of tabu search.
    callback : callable, optional
        As in :func:`dcfw.minimize`, for every run; ``x`` and ``fun`` are those of the whole relaxed problem.
    Returns
    -------
    QAPResult
        The fields of :class:`dcfw.Result` and ``permutation``; ``fun``, its value (an exact int for integer
        data); ``relaxed`` and ``relaxed_fun``, the doubly stochastic matrix it comes from and phi there;
        ``restart_values``, the value of each start's permutation; ``perturbed``; ``sizes``, those of A and B
        before the padding; ``total_time``, which at the first use on a machine includes the compiling, as
        ``time`` does.  ``x`` is ``relaxed``; ``gap``, ``dc_gap`` and the counts belong to the run that it
        comes from.

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
    check_method(method, split, inner)
    if polish is not None:
        polish = _validate.choice(polish, "polish", POLISHES)
    if time_limit is not None:
        time_limit = _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    if isinstance(restarts, str) and restarts == "auto":
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
        *_reduced(A, B, C, partial_match, _validate.flag(maximize, "maximize")),
        method=method,
        split=(BALANCED if is_sparse(A) or is_sparse(B) else AUTO_SPLIT) if split == "auto" else split,
        inner="blended" if inner == "auto" else inner,
        init=init,
        polish=polish,
        rtol=_validate.scalar(rtol, "rtol", low=0.0, high=1.0),
        maxiter=None if maxiter is None else _validate.integer(maxiter, "maxiter", low=0),
        max_lmo=None if max_lmo is None else _validate.integer(max_lmo, "max_lmo", low=1),
        protocol=OWN,
        callback=callback,
        automatic=method == "dcfw" and split == "auto",
        flexible=split == "auto",
    )
    task.check_init()
    if task.n <= 1:
        restarts = 1  # there is but one permutation
    if time_limit is not None:
        # What is compiled at its first use would otherwise eat the time of the first solve.
        now = time.perf_counter()
        _load(task, restarts)
        time_limit += time.perf_counter() - now
    results, ended = _run_all(task, restarts, n_jobs, _seeds(rng), started, time_limit)
    at = min(range(len(results)), key=lambda k: results[k].fun)
    best = results[at]
    best.permutation = task.complete(best.permutation)
    fun = value(A, B, best.permutation, C)  # the others' values may have been rounded otherwise
    values = [fun if r.fun == best.fun else task.sign * r.fun + task.offset for r in results]
    best.fun, best.restart_values = fun, values
    best.x = best.relaxed = task.complete_matrix(best.x)
    best.sizes = sizes
    best.total_time = time.perf_counter() - started
    if ended is not None:
        mark_ended(best, ended)
    return best


def check_method(method: str, split: str, inner: str) -> None:
    """Refuse options that the method has no use for; vanilla steps are what all of them can do."""
    for name, given, fine in (("split", split, ("auto",)), ("inner", inner, ("auto", "fw"))):
        if given not in fine and method not in SPLIT_METHODS:
            raise ValueError(
                f"{name}={given!r} has no meaning for method {method!r}, only for "
                f"{' and '.join(SPLIT_METHODS)}: leave {name} out"
            )


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
    if np.ma.is_masked(partial_match) or hasattr(partial_match, "nnz"):
        raise TypeError("partial_match must be an ordinary array of pairs, neither masked nor sparse")
    try:
        pairs = np.atleast_2d(np.asarray(partial_match))
    except ValueError:
        raise ValueError("partial_match must be pairs of integers [[i, j], ...], each of two") from None
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
    rows = columns = np.arange(n)
    offset: float = 0
    if len(pairs):
        i, j = pairs.T
        rows, columns = np.setdiff1d(rows, i), np.setdiff1d(columns, j)
        offset = evaluate(
            A[i][:, i], B[j][:, j], np.arange(len(pairs)), None if C is None else C[np.ix_(i, j)]
        )
        strips = [A[rows][:, i], B[columns][:, j], A[i][:, rows], B[j][:, columns]]
        if A.dtype.kind == B.dtype.kind == "i":  # whatever C is, their products are summed in int64
            added = 0 if C is None or C.dtype.kind != "i" else largest(C)
            if 2 * len(pairs) * largest(A) * largest(B) + added > INT64_MAX:
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


def _load(task: Task, restarts: int | str) -> None:
    """Have the compiled functions of a task ready."""
    from dcfw.qap.portfolio import load

    if task.n == 0:
        return
    kinds = tuple(None if M is None else (M.dtype.str, is_sparse(M)) for M in (task.A, task.B, task.C))
    options = {name: getattr(task, name) for name in ("method", "split", "inner", "polish", "automatic")}
    load(kinds, restarts == "auto", tuple(options.items()))


def _run_all(
    task: Task, restarts: int | str, n_jobs: int | None, seeds: Any, started: float, time_limit: float | None
) -> tuple[list[QAPResult], Status | None]:
    """Return the results of the starts, and what ended them before their time, if anything did."""
    deadline = None if time_limit is None else started + time_limit
    if restarts == "auto":
        assert deadline is not None
        from dcfw.qap.portfolio import fill, fill_side_by_side

        alone = n_jobs in (None, 1) or task.n < 3
        starts = (
            fill(task, seeds, deadline) if alone else fill_side_by_side(task, seeds, deadline, n_jobs or 1)
        )
    elif n_jobs in (None, 1) or restarts == 1:
        starts = _one_by_one(task, _streams(seeds, restarts), deadline)
    else:
        starts = _side_by_side(task, _streams(seeds, restarts), deadline, n_jobs)
    results: list[QAPResult] = []
    best: QAPResult | None = None
    try:
        for result in starts:
            results.append(result)
            best = better(best, result)
            if result.status in ENDING:
                return results, result.status
    except KeyboardInterrupt:
        if not results:
            raise
        return results, Status.INTERRUPTED
    # What "auto" does ends with the time, as it is meant to; a number of starts is a wish that was not met.
    cut = not isinstance(restarts, str) and (
        len(results) < restarts or any(result.status is Status.TIME_LIMIT for result in results)
    )
    return results, Status.TIME_LIMIT if cut else None


def _streams(seeds: np.random.SeedSequence, count: int | str) -> Iterator[np.random.SeedSequence]:
    """Yield the seeds of the starts, each when it is asked for: to make thousands takes a while."""
    for _ in range(int(count)):
        yield from seeds.spawn(1)


def _one_by_one(task: Task, streams: Iterator[Any], deadline: float | None) -> Iterator[QAPResult]:
    for index, stream in enumerate(streams):
        if index > 0 and deadline is not None and time.perf_counter() >= deadline:
            return
        yield task.run(index, np.random.default_rng(stream), deadline)


def _side_by_side(
    task: Task, streams: Iterator[Any], deadline: float | None, n_jobs: int | None
) -> Iterator[QAPResult]:
    """Yield the results in the order of the starts, each with its own seed whatever the number of workers."""
    from dcfw.parallel import Parallel, delayed

    # The kernels release the interpreter lock, so threads do; processes would first have to be started.
    task.model(deadline)
    end = None if deadline is None else Deadline.at(deadline)
    found: dict[int, QAPResult] = {}  # filled by threads, so that Ctrl-C does not lose what is finished

    def jobs() -> Iterator[Any]:
        """Yield what is to be done, one by one, until the time is over: to hand it out takes time too."""
        for index, stream in enumerate(streams):
            if index > 0 and deadline is not None and time.perf_counter() >= deadline:
                return
            yield delayed(_run_one)(task, index, stream, end, found)

    try:
        answers = Parallel(n_jobs=n_jobs, prefer="threads")(jobs())
    except KeyboardInterrupt:
        yield from (result for _, result in sorted(found.copy().items()))
        raise
    yield from (answer for answer in answers if answer is not None)


def _run_one(
    task: Task, index: int, stream: Any, end: Deadline | None, found: dict[int, QAPResult]
) -> QAPResult | None:
    """Run one start in a worker, unless the time is over."""
    deadline = None if end is None else end.here()
    if deadline is not None and index > 0 and time.perf_counter() >= deadline:
        return None
    found[index] = result = task.run(index, np.random.default_rng(stream), deadline)
    return result
