"""``dcfw.qap.solve``: relax the permutation to a doubly stochastic matrix, minimise, round, polish."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw.qap.graduated import SPLITS as PATH_SPLITS
from dcfw.qap.objective import is_sparse
from dcfw.qap.problem import pose
from dcfw.qap.quadratics import SPLITS
from dcfw.qap.result import QAPResult
from dcfw.qap.starts import Call, restarted, searched
from dcfw.qap.task import SPLIT_METHODS, Task
from dcfw.solvers.interrupts import guarded

METHODS = ("dcfw", "boosted", "fw", "cgs", "graduated")
INNERS = ("auto", "fw", "blended")
POLISHES = ("2opt", "tabu")
PATHS_UP_TO = 256
"""``method="auto"`` follows graduated paths up to this order: nothing interrupts the kernel of a path."""
AUTO_SPLIT, BALANCED = "spectral", "balanced"
"""The splits of ``split="auto"`` for dense and for sparse data (which the spectral split would make dense).

One run with the balanced split ends lower, but two or three with the spectral split take the same time, and
their best is lower still (``python -m bench inner``).  For graphs, where further starts help little, the
balanced split finds a planted matching more often (``python -m bench graphs``).
"""


@guarded
def solve(
    A: Any,
    B: Any,
    C: Any = None,
    *,
    method: str = "auto",
    split: str = "auto",
    inner: str = "auto",
    init: Any = "barycenter",
    restarts: int | str = 1,
    polish: str | None = None,
    maximize: bool = False,
    partial_match: Any = None,
    forbidden: Any = None,
    rtol: float = 1e-3,
    maxiter: int | None = None,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    max_steps: int | None = None,
    target: float | None = None,
    n_jobs: int | None = None,
    rng: Any = None,
    callback: Callable[..., Any] | None = None,
    clock: Callable[[], float] | None = None,
    verbose: int = 0,
) -> QAPResult:
    """Find a permutation p with a low value of sum_ij A[i, j] B[p(i), p(j)] + sum_i C[i, p(i)].

    Parameters
    ----------
    A, B : square matrices
        Arrays, SciPy sparse arrays or DataFrames, symmetric or not.  The smaller one is padded with zeros.
    C : matrix, optional
        The linear term, with a row for each row of A and a column for each row of B.
    method : {"auto", "dcfw", "boosted", "fw", "cgs", "graduated"}
        DC-FW, DC-FW with a line search after each outer step, plain Frank-Wolfe (as in FAQ), nonconvex
        conditional gradient sliding, or a graduated path (:mod:`dcfw.qap.graduated`), whose ``split`` is
        ``"norm"``, ``"paper"`` or ``"auto"`` (the better end of both) and whose ``maxiter`` counts stages.
        ``"auto"`` follows a path, which ends lower at equal time (``python -m bench choice``), for dense data
        with n <= 256, and DC-FW otherwise, for all but the first of several ``restarts``, and if an option of
        DC-FW is given (``split``, ``inner``, ``rtol``, ``init``, ``callback`` or a budget).
    split : {"auto", "paper", "sliding", "proximal", "balanced", "centered", "spectral", "norm"}
        The decomposition (:mod:`dcfw.qap.quadratics`).  ``"auto"`` is ``"spectral"``, the best at equal time,
        but ``"balanced"`` for sparse data and if a ``time_limit`` leaves no time for eigenvalues (large n).
    inner : {"auto", "fw", "blended"}
        The inner solver of DC-FW: vanilla Frank-Wolfe steps as in the paper, or blended pairwise steps on an
        active set (``"auto"``), with at most a tenth of the assignment problems.  Sparse data take vanilla
        steps, dense data run in a compiled loop.
    init : {"barycenter", "random"} or array
        The first start: the matrix of all 1/n (perturbed if its gradient is constant), a random or a given
        doubly stochastic matrix, or a permutation (the answer is never worse than that).
    restarts : int or "auto"
        The number of starts, all but the first random.  ``"auto"`` fills ``time_limit`` (or ``max_steps``)
        with graduated paths, tabu search, breakout search and annealing (:mod:`dcfw.qap.portfolio`), after a
        short plain Frank-Wolfe run, or after the relaxation that the options describe if one is given.
    polish : {None, "2opt", "tabu"}
        Improve each rounded permutation (with ``restarts="auto"`` that of the first start) by swaps until
        none helps, or by a short robust tabu search as well.
    maximize : bool
        Look for a high value instead.
    partial_match : pairs, optional
        Fixed pairs p(i) = j, as ``[[i, j], ...]`` or ``{i: j, ...}``; names for rows of DataFrames.
    forbidden : pairs, optional
        Pairs p(i) = j that are not allowed, in the same forms.
    rtol : float
        A run stops when its FW gap has fallen to this fraction of the first one.
    maxiter, max_lmo : int, optional
        Budgets per run: outer steps, assignment problems.
    time_limit : float, optional
        Seconds in all; the best permutation so far is returned, also after Ctrl-C.  The status is that of the
        run that found it, or ``TIME_LIMIT`` if a start was cut or left out.  With ``restarts="auto"`` it
        is ``FINISHED`` at the limit, ``OPTIMAL`` at a bound or ``TARGET``, which are successes.
    max_steps : int, optional
        For ``restarts="auto"``, a budget in swap steps instead of seconds: the same answer on every machine,
        unless a ``time_limit`` given as well ends the search before.
    target : float, optional
        For ``restarts="auto"``, stop as soon as the value is this or better, for float data up to rounding.
    n_jobs : int, optional
        Parallel restarts by joblib, in threads unless ``joblib.parallel_config`` says otherwise.  A number of
        restarts has the same result for every ``n_jobs``; ``"auto"`` makes more of them.
    rng : None, int or numpy.random.Generator
        The randomness of starts and searches.
    callback : callable, optional
        As in :func:`dcfw.minimize`, for every run; ``x`` and ``fun`` are those of the whole relaxed problem.
        With ``restarts="auto"`` also called for each new incumbent (``permutation`` and ``fun``).
    clock : callable, optional
        The clock for the ``time_limit`` of ``restarts="auto"``, e.g. ``time.process_time``; else wall time.
    verbose : int
        1 shows a line of progress: value, bound and search, or the relaxation's steps.

    Returns
    -------
    QAPResult
        ``permutation``; ``fun``, its value (an exact int for integer data); ``relaxed`` and ``relaxed_fun``,
        the doubly stochastic matrix it comes from and phi there; ``restart_values``, the value of each start
        (with ``restarts="auto"`` of each incumbent); and the other fields of :class:`dcfw.qap.QAPResult`.

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
    method = _validate.choice(method, "method", ("auto", *METHODS))
    check_method("dcfw" if method == "auto" else method, split, _validate.choice(inner, "inner", INNERS))
    if polish is not None:
        polish = _validate.choice(polish, "polish", POLISHES)
    for name, function in (("callback", callback), ("clock", clock)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be callable, got {type(function).__name__}")
    if time_limit is not None:
        time_limit = _validate.scalar(time_limit, "time_limit", low=0.0, allow_inf=True)
    call = Call(
        started=started, restarts=_restarts(restarts, time_limit, max_steps, target), time_limit=time_limit,
        max_steps=None if max_steps is None else _validate.integer(max_steps, "max_steps", low=1),
        target=None if target is None else _validate.scalar(target, "target", allow_inf=True),
        n_jobs=workers(n_jobs), seeds=None if rng is None and restarts != "auto" else _seeds(rng),
        clock=clock,
    )  # fmt: skip
    problem = pose(A, B, C, partial_match, _validate.flag(maximize, "maximize"), forbidden)
    sparse = is_sparse(problem.whole[0]) or is_sparse(problem.whole[1])
    told = None if getattr(callback, "only_watches", False) else callback  # verbose= changes no answer
    rtol = _validate.scalar(rtol, "rtol", low=0.0, high=1.0)
    plain = (method, split, inner, rtol) == ("auto", "auto", "auto", 1e-3) and maxiter is max_lmo is None
    centred = isinstance(init, str) and init == "barycenter"
    free = all(given is None for given in (time_limit, max_steps, target, told, clock))
    path = plain and centred and free and not sparse and 1 < problem.n <= PATHS_UP_TO
    if method == "auto":
        method = "graduated" if path and call.restarts == 1 else "dcfw"
    automatic = split == "auto" and method != "graduated"
    task = Task(
        problem, method=method, split=(BALANCED if sparse else AUTO_SPLIT) if automatic else split,
        inner="blended" if inner == "auto" else inner, init=init, polish=polish,
        rtol=rtol,
        maxiter=None if maxiter is None else _validate.integer(maxiter, "maxiter", low=0),
        max_lmo=None if max_lmo is None else _validate.integer(max_lmo, "max_lmo", low=1),
        callback=callback, flexible=automatic, path_first=path,
    )  # fmt: skip
    if call.restarts == "auto" and problem.n > 1:
        return searched(task, call, quick=plain)
    return restarted(task, call)


def check_method(method: str, split: str, inner: str) -> None:
    """Raise ValueError for options that the method does not use; vanilla steps suit every method."""
    paths = method == "graduated"
    split = _validate.choice(split, "split", ("auto", *(PATH_SPLITS if paths else SPLITS)))
    unused = {"split": "auto" if paths else split, "inner": "auto" if inner == "fw" else inner}
    for name, value in unused.items():
        if value != "auto" and method not in SPLIT_METHODS:
            raise ValueError(
                f"{name}={value!r} has no meaning for method {method!r}, only for "
                f"{' and '.join(SPLIT_METHODS)}: leave {name} out"
            )


def workers(n_jobs: Any) -> int:
    checked = 1 if n_jobs is None else _validate.integer(n_jobs, "n_jobs", low=-(10**6))
    if checked == 0:
        raise ValueError("n_jobs must not be 0; -1 means all processors")
    return checked


def _restarts(restarts: Any, time_limit: float | None, max_steps: Any, target: Any = None) -> int | str:
    if not isinstance(restarts, str):
        for name, given in (("max_steps", max_steps), ("target", target)):
            if given is not None:
                raise ValueError(f"{name} is for restarts='auto' only: give that or leave {name} out")
        return _validate.integer(restarts, "restarts", low=1)
    if restarts != "auto":
        raise ValueError(f"restarts must be a positive integer or 'auto', got {restarts!r}")
    if max_steps is None and (time_limit is None or not np.isfinite(time_limit)):
        raise ValueError("restarts='auto' fills the time limit: give time_limit in seconds, or max_steps")
    return restarts


def _seeds(rng: Any) -> np.random.SeedSequence:
    """Return the source of the seeds of all runs; a generator gives other ones in each call."""
    if rng is None:
        return np.random.SeedSequence()
    generator = _validate.generator(rng)
    seeds = getattr(generator.bit_generator, "seed_seq", None)
    if isinstance(seeds, np.random.SeedSequence):
        return seeds
    return np.random.SeedSequence(generator.integers(2**32, size=4).tolist())
