"""``quadratic_assignment`` with SciPy's signature: change the import and nothing else.

::

    from scipy.optimize import quadratic_assignment      # before
    from dcfw.qap import quadratic_assignment            # after

The methods ``"faq"`` and ``"2opt"`` are SciPy's algorithms, step by step, on compiled kernels: the same start
gives the same permutation (up to ties between equally good assignments), faster.  The others, such as the
default ``"dcfw"``, call :func:`dcfw.qap.solve` and take its options as well as SciPy's.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.qap.objective import dense, evaluate, is_sparse, nearest, square, value
from dcfw.sets.birkhoff import Birkhoff

OWN_METHODS = ("dcfw", "boosted", "fw", "cgs", "graduated", "auto")
FAQ_OPTIONS = ("P0", "shuffle_input", "maxiter", "tol")
SOLVE_OPTIONS = (
    *("C", "split", "inner", "init", "restarts", "polish", "rtol"),
    *("max_lmo", "time_limit", "max_steps", "target", "n_jobs", "callback"),
)
SUMS = 1.001e-5  # the tolerance for the sums of P0, as in SciPy
Rng = np.random.Generator | None


def quadratic_assignment(
    A: Any, B: Any, method: str = "dcfw", options: dict[str, Any] | None = None
) -> OptimizeResult:
    """Approximate the solution of the quadratic assignment problem, or match two graphs.

    Parameters
    ----------
    A, B : (n, n) matrices
        The value of a permutation p is ``sum_ij A[i, j] B[p(i), p(j)]``.
    method : {"dcfw", "boosted", "fw", "cgs", "graduated", "auto", "faq", "2opt"}
        One of :func:`dcfw.qap.solve`'s methods, or SciPy's.
    options : dict, optional
        For all methods: ``maximize`` (False), ``partial_match`` (pairs ``[[i, j], ...]`` with p(i) = j given)
        and ``rng`` (None, an int, a Generator, a RandomState, or ``numpy.random`` for NumPy's global one).

        For ``"faq"``: ``P0`` ("barycenter", "randomized" or a doubly stochastic matrix for the free nodes),
        ``shuffle_input`` (False), ``maxiter`` (30), ``tol`` (0.03, the relative length of the last step).

        For ``"2opt"``: ``partial_guess``, pairs to start from.

        For the others: the options of ``"faq"``, where ``tol`` is :func:`~dcfw.qap.solve`'s ``rtol`` and
        ``maxiter`` counts outer steps, and ``C, split, inner, init, restarts, polish, rtol, max_lmo,
        time_limit, max_steps, target, n_jobs, callback`` (``init`` or ``P0``, not both).

    Returns
    -------
    OptimizeResult
        With ``col_ind`` (the permutation), ``fun`` (its value, an exact int for integer data) and ``nit``;
        except for SciPy's methods a :class:`dcfw.qap.QAPResult`.

    Warns
    -----
    scipy.optimize.OptimizeWarning
        For options that the method does not have.

    Notes
    -----
    An integer ``rng`` seeds ``numpy.random.default_rng``, which SciPy announces but does not yet do: for the
    start that SciPy draws from ``rng=3`` give ``numpy.random.RandomState(3)``.

    Ctrl-C makes ``"faq"`` and ``"2opt"`` raise ``KeyboardInterrupt``, as in SciPy; the other methods return
    the best permutation so far with the status ``INTERRUPTED``.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[0, 80, 150, 175], [80, 0, 130, 100], [150, 130, 0, 120], [175, 100, 120, 0]])
    >>> B = np.array([[0, 5, 2, 7], [0, 0, 3, 8], [0, 0, 0, 3], [0, 0, 0, 0]])
    >>> res = quadratic_assignment(A, B, method="faq")
    >>> res.col_ind, res.fun
    (array([2, 3, 1, 0]), 3380)
    >>> quadratic_assignment(A, B, options={"restarts": 5, "polish": "2opt", "rng": 0}).fun
    3285
    """
    name = method.lower() if isinstance(method, str) else method
    name = _validate.choice(name, "method", (*OWN_METHODS, "faq", "2opt"))
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dictionary, got {type(options).__name__}")
    given = dict(options or {})
    maximize = _validate.flag(given.pop("maximize", False), "maximize")
    seeds, rng = given.pop("partial_match", None), given.pop("rng", None)
    own = name in OWN_METHODS
    known = (*FAQ_OPTIONS, *SOLVE_OPTIONS) if own else FAQ_OPTIONS if name == "faq" else ("partial_guess",)
    unknown = [option for option in given if option not in known]
    if "C" in unknown:  # ignoring a part of the problem would give a wrong answer
        raise ValueError(f"method {name!r} has no linear term C: leave method out, or use {OWN_METHODS}")
    if "forbidden" in unknown:
        raise ValueError("quadratic_assignment has no forbidden pairs: use dcfw.qap.solve(forbidden=...)")
    if unknown:
        warnings.warn(f"Unknown solver options: {', '.join(unknown)}", OptimizeWarning, stacklevel=2)
    given = {option: given[option] for option in known if option in given}
    if name != "2opt":
        _check_faq_options(given, own)
    A, B = _matrix(A, "A"), _matrix(B, "B")
    pairs = _matching(seeds, A, B, "partial_match", "seeds")
    if pairs.shape[0] == A.shape[0] and (not own or len(pairs) == 0):
        p = np.empty(len(pairs), dtype=np.int64)
        p[pairs[:, 0]] = pairs[:, 1]
        fun = evaluate(A, B, p, given.get("C")) if len(p) else 0
        return OptimizeResult(col_ind=p, fun=fun, nit=0)
    A, B, rng = square(A, "A"), square(B, "B"), rng if rng is None else _generator(rng)
    if own:
        return _own(A, B, pairs, rng, method=name, maximize=maximize, **given)
    return (_faq if name == "faq" else _two_opt)(A, B, -1 if maximize else 1, pairs, rng, given)


def _matrix(M: Any, name: str) -> Any:
    try:
        return M if is_sparse(M) else np.atleast_2d(M)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None


def _matching(given: Any, A: Any, B: Any, name: str, what: str) -> np.ndarray:
    """Return pairs of nodes as an integer array after checking them and A and B, with SciPy's messages."""
    if given is None and A.ndim == 2 and A.shape == B.shape == A.shape[::-1]:
        return np.empty((0, 2), dtype=np.int64)
    try:
        pairs = np.array(np.empty((0, 2)) if given is None else given, dtype=np.int64, ndmin=2)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"`{name}` must be pairs of integers [[i, j], ...], got {given!r:.60}") from None
    if pairs.size == 0 and pairs.ndim == 2:
        pairs = pairs.reshape(0, 2)
    n = A.shape[0]
    checks = (
        (A.shape[0] == A.shape[1], "`A` must be square"),
        (B.shape[0] == B.shape[1], "`B` must be square"),
        (A.ndim == B.ndim == 2, "`A` and `B` must have exactly two dimensions"),
        (A.shape == B.shape, "`A` and `B` matrices must be of equal size; qap.solve pads the smaller one"),
        (pairs.shape[0] <= n, f"`{name}` can have only as many {what} as there are nodes"),
        (pairs.shape[1] == 2, f"`{name}` must have two columns"),
        (pairs.ndim == 2, f"`{name}` must have exactly two dimensions"),
        ((pairs >= 0).all(), f"`{name}` must contain only positive indices"),
        ((pairs < n).all(), f"`{name}` entries must be less than number of nodes"),
        (all(len(np.unique(c)) == len(c) for c in pairs.T), f"`{name}` column entries must be unique"),
    )
    for holds, message in checks:
        if not holds:
            raise ValueError(message)
    return pairs


def _check_faq_options(given: dict[str, Any], own: bool) -> None:
    maxiter: Any = given.get("maxiter")
    if "maxiter" in given and not (maxiter is None and own):
        try:
            given["maxiter"] = operator.index(maxiter)
        except TypeError:
            raise TypeError(f"'maxiter' must be a positive integer, got {maxiter!r:.40}") from None
        if given["maxiter"] <= 0:
            raise ValueError("'maxiter' must be a positive integer")
    P0 = given.get("P0", "barycenter")
    if isinstance(P0, str) and P0 not in ("barycenter", "randomized"):
        raise ValueError("Invalid 'P0' parameter string; it must be 'barycenter' or 'randomized'")
    if not _validate.scalar(given.get("tol", 1.0), "tol", allow_inf=True) > 0:
        raise ValueError("'tol' must be a positive float")
    if "shuffle_input" in given:
        given["shuffle_input"] = _validate.flag(given["shuffle_input"], "shuffle_input")


def _generator(rng: Any) -> np.random.Generator:
    if rng is np.random:  # NumPy's global generator, the one of np.random.seed
        rng = np.random.mtrand._rand
    if isinstance(rng, np.random.RandomState):
        return np.random.Generator(rng._bit_generator)
    return _validate.generator(rng)


def _start(P0: Any, n: int, rng: Rng) -> np.ndarray:
    if isinstance(P0, str):
        centre = np.full((n, n), 1.0 / n)
        if P0 == "barycenter":
            return centre
        return np.asarray(0.5 * (centre + _sinkhorn(_generator(rng).uniform(size=(n, n)))))
    P = np.atleast_2d(np.asarray(to_numpy(_validate.numeric(P0, "P0")), dtype=np.float64))
    if P.shape != (n, n):
        raise ValueError("`P0` matrix must have shape m' x m', where m'=n-m")
    error = max(float(np.abs(P.sum(axis=axis) - 1.0).max()) for axis in (0, 1)) if n else 0.0
    if not error <= SUMS or (n and P.min() < 0.0):
        raise ValueError("`P0` matrix must be doubly stochastic")
    return P


def _sinkhorn(K: np.ndarray, tol: float = 1e-3, iterations: int = 1000) -> np.ndarray:
    """Return K with rows and columns scaled to sums of 1 up to tol (Sinkhorn and Knopp)."""
    rows = 1.0 / (K @ (1.0 / K.sum(axis=0)))
    X = K
    for _ in range(iterations):
        if max(np.abs(X.sum(axis=axis) - 1.0).max() for axis in (0, 1)) < tol:
            break
        columns = 1.0 / (rows @ K)
        rows = 1.0 / (K @ columns)
        X = rows[:, None] * K * columns
    return X


def _faq(A: Any, B: Any, sign: int, pairs: np.ndarray, rng: Rng, given: dict[str, Any]) -> OptimizeResult:
    from dcfw.qap.faq import faq

    A, B = dense(A), dense(B)
    n = len(A)
    P = _start(given.get("P0", "barycenter"), n - len(pairs), rng)
    a, b, C = sign * A.astype(np.float64), B.astype(np.float64), None
    i, j = pairs.T
    rows = columns = np.arange(n)
    if len(pairs) or given.get("shuffle_input", False):
        rows, columns = np.setdiff1d(rows, i), np.setdiff1d(columns, j)
        if given.get("shuffle_input", False):
            columns = _generator(rng).permutation(columns)
        C = a[np.ix_(rows, i)] @ b[np.ix_(columns, j)].T + a[np.ix_(i, rows)].T @ b[np.ix_(j, columns)]
        a, b = a[np.ix_(rows, rows)], b[np.ix_(columns, columns)]
    P, nit = faq(a, b, C, P, maxiter=given.get("maxiter", 30), tol=given.get("tol", 0.03))
    p = np.empty(n, dtype=np.int64)
    p[i], p[rows] = j, columns[nearest(P)]
    return OptimizeResult(col_ind=p, fun=value(A, B, p), nit=nit)


def _two_opt(A: Any, B: Any, sign: int, pairs: np.ndarray, rng: Rng, given: dict[str, Any]) -> OptimizeResult:
    from dcfw.qap.swaps import descend_in_order

    n = A.shape[0]
    guess = _matching(given.get("partial_guess"), A, B, "partial_guess", "entries")
    p = np.full(n, -1, dtype=np.int64)
    p[pairs[:, 0]] = pairs[:, 1]
    # Given pairs override a guess in the same row or column.
    useful = ~np.isin(guess[:, 0], pairs[:, 0]) & ~np.isin(guess[:, 1], pairs[:, 1])
    p[guess[useful, 0]] = guess[useful, 1]
    p[p < 0] = _generator(rng).permutation(np.setdiff1d(np.arange(n), p[p >= 0]))
    order = np.concatenate([pairs[:, 0], np.setdiff1d(np.arange(n), pairs[:, 0])])
    p[order], nit = descend_in_order(sign * A[order][:, order], B, p[order], fixed=len(pairs))
    return OptimizeResult(col_ind=p, fun=evaluate(A, B, p), nit=nit)


def _own(
    A: Any, B: Any, pairs: np.ndarray, rng: Rng, *, P0: Any = None, shuffle_input: bool = False,
    tol: float | None = None, C: Any = None, **options: Any,
) -> OptimizeResult:  # fmt: skip
    from dcfw.qap.problem import linear_term
    from dcfw.qap.solver import BALANCED, solve
    from dcfw.qap.task import SPLIT_METHODS

    n = A.shape[0]
    rng = _generator(rng)
    if P0 is not None and "init" in options:
        raise ValueError("give the start as 'P0' or as 'init', not as both")
    if options["maximize"] and options.get("restarts") != "auto" and options["method"] in SPLIT_METHODS:
        options.setdefault("split", BALANCED)  # the best one for graph matching
    if tol is not None and "rtol" in options:
        raise ValueError("give the tolerance as 'tol' or as 'rtol', not as both")
    if tol is not None:
        options["rtol"] = min(tol, 1.0)
    free = np.setdiff1d(np.arange(n), pairs[:, 1])
    order = np.arange(n)

    def unshuffled(result: Any) -> Any:
        if shuffle_input:
            result.x = result.relaxed = result.x[:, np.argsort(order)]
            if result.relaxation is not None:
                result.relaxation.x = result.x
            if result.permutation is not None:
                result.permutation = order[result.permutation]
        return result

    if shuffle_input:
        order[free] = rng.permutation(free)
        B = B[order][:, order]
        C = None if C is None else linear_term(C, (n, n), floating=False)[:, order]
        if "init" in options and not isinstance(options["init"], str | None):
            options["init"] = _shuffled_init(options["init"], order, free)
        if (callback := options.get("callback")) is not None:
            options["callback"] = lambda intermediate_result: callback(unshuffled(intermediate_result))
    if P0 is not None and len(free) > 0:
        # SciPy accepts sums of 1 to three digits, and P0 is that of the shuffled problem.
        options["init"] = Birkhoff(len(free)).project(_start(P0, len(free), rng))
    try:
        result = solve(A, B, C, partial_match=pairs if len(pairs) else None, rng=rng, **options)
    except Exception as error:
        if hasattr(error, "intermediate_result"):
            unshuffled(error.intermediate_result)
        raise
    result = unshuffled(result)
    result.col_ind = result.permutation
    return result


def _shuffled_init(init: Any, order: np.ndarray, free: np.ndarray) -> Any:
    init = to_numpy(_validate.array(init, "init", ndim=2))
    if init.shape == (len(order),) * 2:
        return init[:, order]
    if init.shape == (len(free),) * 2:
        return init[:, np.searchsorted(free, order[free])]
    return init
