"""``dcfw.align.align``: the orthogonal map between two embedding spaces from a few observed entries.

With E1 the source vectors and Y what is known of the target vectors (columns are words),

    min  1/(2n) ||P o (X E1) - Y||_F^2  -  lambda ||X||_*     over the X with ||X||_2 <= 1:

a convex loss, a set whose extreme points are the orthogonal matrices, and a concave term that pulls the
solution towards them.  DC-FW linearises the nuclear norm and takes Frank-Wolfe steps, each a polar factor and
a gradient of the loss at it.  The nearest orthogonal matrix to the solution is the answer.

Steps cost a polar factor and a gradient, tens of milliseconds where d = 300, so that it pays to keep the
last few dozen polar factors with their gradients and to find the best mean of them before asking for another:
the default is an active set of at most :data:`ATOMS` (results/alignment has it beside vanilla steps).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, is_numpy
from dcfw._minimize import minimize
from dcfw.align.nuclear import PolarNuclearNorm
from dcfw.align.objective import MaskedLeastSquares
from dcfw.align.products import PASSES
from dcfw.align.protocol import PROTOCOLS, rules
from dcfw.result import Result
from dcfw.sets.polar import polar as polar_factor
from dcfw.sets.spectral import SpectralBall
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.fw_m import FWM
from dcfw.steps import Exact

OURS = ("dcfw", "boosted")
"""The methods with inner loops."""

ATOMS = 64
"""How many polar factors are kept: more of them save few oracle calls and cost more time than that."""

MEMORY = 256 * 2**20
"""Bytes that they and their gradients may take."""


def align(
    E1: Any,
    Y: Any = None,
    mask: Any = None,
    *,
    lam: float = 1e-4,
    method: Any = "dcfw",
    step: Any = None,
    inner: Any = "auto",
    tolerance: Any = None,
    tol: float = 1e-6,
    rtol: float = 0.0,
    maxiter: int = 1000,
    max_inner: int = 10_000,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    x0: Any = None,
    polar: str = "auto",
    product: str = "auto",
    protocol: str | None = None,
    callback: Callable[..., Any] | None = None,
    dtype: Any = None,
) -> Result:
    """Find the X with ||X||_2 <= 1 that minimises 1/(2n) ||P o (X E1) - Y||_F^2 - lam ||X||_*.

    Parameters
    ----------
    E1 : array of shape (d1, n), or MaskedLeastSquares
        The source vectors; columns are words.  Or the whole loss, for instance from
        :meth:`MaskedLeastSquares.from_blocks`; then there is no Y.
    Y : array or SciPy sparse matrix of shape (d2, n)
        The target vectors of the same words.  Missing entries are NaN, or outside the mask, or not stored (a
        stored zero is an observation), or masked in a NumPy masked array.
    mask : array of shape (d2, n), optional
        P: true (or 1) where Y is observed.
    lam : float
        The weight of the nuclear norm.
    method : {"dcfw", "boosted", "fw-k", "fw-m"} or a solver object
        As in :func:`dcfw.minimize`.  FW-K takes the curvature constant 4 ||E1||_F^2 / n, which holds for
        every mask.
    step, tolerance
        As in :func:`dcfw.minimize`; "exact" and "adaptive" unless the protocol says otherwise.
    inner : {"auto", "fw", "away", "pairwise", "blended"} or an inner loop
        As in :func:`dcfw.minimize`, but for ``"auto"``: blended steps with an active set of at most 64 polar
        factors (fewer, but at least 8, where 64 would take more than 256 MiB) for DC-FW with exact steps and
        exact polar factors, and vanilla steps elsewhere.
    tol, rtol, maxiter, max_inner, max_lmo, time_limit, callback
        As in :func:`dcfw.minimize`.
    x0 : array of shape (d2, d1), optional
        The start, zero by default.
    polar : {"auto", "svd", "eigh", "mixed", "products", "inexact"}
        How polar factors are found (:mod:`dcfw.sets.polar`).  ``"inexact"`` is faster, and the gaps that it
        reports are upper bounds that cannot fall below about a thousandth of the gradient's nuclear norm.
    product : {"auto", "gram", "observed", "dense"}
        How gradients are found (:mod:`dcfw.align.products`).
    protocol : {None, "text", "published"}
        Reproduce the paper's experiment as its text states it (steps 2/(k+1) in each inner loop) or as its
        authors' code ran it: steps 2/(t_k+1) over all inner loops, inner loops that end at a gap of eps
        instead of eps/2, the identity as the first subgradient at X = 0 (the default is the one of minimum
        norm, 0), and their constants for FW-K and FW-M.
    dtype : float32 or float64, optional
        What to compute in; by default float64 unless E1 and Y are both float32.

    Returns
    -------
    Result
        The fields of :class:`dcfw.Result`; ``rotation``, the orthogonal matrix nearest to ``x`` (with
        orthonormal rows or columns, whichever are fewer, where X is not square); ``product``, the one that
        was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw.align import align
    >>> rng = np.random.default_rng(0)
    >>> E1 = rng.standard_normal((4, 100))
    >>> Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    >>> Y = np.where(rng.random((4, 100)) < 0.5, Q @ E1, np.nan)
    >>> res = align(E1, Y, tol=1e-10)
    >>> bool(abs(res.rotation - Q).max() < 1e-6)
    True
    """
    if protocol is not None:
        protocol = _validate.choice(protocol, "protocol", PROTOCOLS)
    lam = _validate.scalar(lam, "lam", low=0.0)
    if isinstance(E1, MaskedLeastSquares):
        if Y is not None or mask is not None or dtype is not None:
            raise ValueError("Y, mask and dtype must be None when E1 is a MaskedLeastSquares, which has them")
        f = E1
    elif Y is None:
        raise TypeError("Y must be given: the target vectors, NaN where they are missing")
    else:
        f = MaskedLeastSquares(
            E1, Y, mask, product=product, dtype=dtype, passes=_passes(method, maxiter, max_lmo)
        )
    usual_step, usual_tolerance = rules(protocol)
    step = usual_step if step is None else step
    result = minimize(
        f - PolarNuclearNorm(lam, complete=protocol == "published"),
        SpectralBall(f.shape, polar=polar),
        x0,
        method=_solver(method, f, protocol),
        step=step,
        inner=_inner(method, step, polar, f.shape) if isinstance(inner, str) and inner == "auto" else inner,
        tolerance=usual_tolerance if tolerance is None else tolerance,
        tol=tol,
        rtol=rtol,
        maxiter=maxiter,
        max_inner=max_inner,
        max_lmo=max_lmo,
        time_limit=time_limit,
        callback=callback,
    )
    result.rotation = nearest_rotation(result.x)
    result.product = f.product
    return result


def _solver(method: Any, f: MaskedLeastSquares, protocol: str | None) -> Any:
    """Return the method with the constants of this problem."""
    if not isinstance(method, str):
        return method
    if method == "fw-k":
        return FWK(C=f.published_constants[0] if protocol == "published" else f.curvature)
    if method == "fw-m" and protocol == "published":
        return FWM(L=f.published_constants[1])
    return method


def _inner(method: Any, step: Any, polar: str, shape: tuple[int, int]) -> Any:
    """Return the inner loop that ``inner="auto"`` stands for."""
    ours = method in OURS if isinstance(method, str) else isinstance(method, DCFW)
    exact = step == "exact" if isinstance(step, str) else isinstance(step, Exact)
    if not (ours and exact) or polar == "inexact":
        return "fw"
    pair = 2 * 8 * shape[0] * shape[1]  # bytes of a polar factor and its gradient in double precision
    return ActiveLoop("blended", cap=max(min(ATOMS, MEMORY // pair), 8))


def _passes(method: Any, maxiter: Any, max_lmo: Any) -> float:
    """Return how many gradients to expect: the usual number, unless a budget is lower."""
    outer = isinstance(method, str) and method in OURS
    budgets = [max_lmo] if outer else [max_lmo, maxiter]
    # Budgets are checked later, where they are used; what is no budget is no number of passes either.
    return min([PASSES, *(float(min(b, PASSES)) for b in budgets if isinstance(b, int | float) and b >= 0)])


def nearest_rotation(X: Array) -> Array:
    """Return the orthogonal matrix nearest to X in the Frobenius norm (a reflection is allowed).

    Where X is not square, the nearest matrix with orthonormal rows or columns, whichever are fewer.  Where X
    is rank-deficient, one of the nearest.

    Examples
    --------
    >>> nearest_rotation(np.array([[0.0, 0.5], [-0.2, 0.0]])).round(12) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    X = _validate.array(X, "X", ndim=2)
    if is_numpy(X) and X.dtype.itemsize > 8:  # LAPACK has no extended precision
        X = X.astype(np.float64)
    return polar_factor(X)
