"""``dcfw.align.align``: the orthogonal map between two embedding spaces from a few observed entries.

With E1 the source vectors and Y the observed part of the target vectors (columns are words),

    min  1/(2n) ||P o (X E1) - Y||_F^2  -  lambda ||X||_*     over the X with ||X||_2 <= 1:

a convex loss, a set whose extreme points are the orthogonal matrices, and a concave term that pulls the
solution towards them.  DC-FW linearises the nuclear norm and takes Frank-Wolfe steps, each a polar factor and
a gradient.  The result is the orthogonal matrix nearest to the solution.

For d = 300 a polar factor takes tens of milliseconds.  Hence the default is an active set of at most
:data:`ATOMS` of them, whose best mean is found before the next one is computed (results/alignment compares
vanilla steps).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of, is_numpy, namespace
from dcfw._arrays import inner as inner_product
from dcfw._minimize import minimize
from dcfw.align.nuclear import PolarNuclearNorm
from dcfw.align.objective import MaskedLeastSquares
from dcfw.align.products import PASSES
from dcfw.align.result import AlignResult
from dcfw.sets.polar import polar as polar_factor
from dcfw.sets.spectral import SpectralBall
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.dcfw import DCFW
from dcfw.solvers.fw_k import FWK
from dcfw.solvers.interrupts import guarded
from dcfw.steps import Exact

OURS = ("dcfw", "boosted")  # the methods with inner loops
METHODS = (*OURS, "fw-k", "fw-m")
RTOL = 1e-4  # the default fraction of the first gap at which a run has converged
WEIGHT = 1e-4  # the default of lam, over the mean squared length of the source vectors
ATOMS = 64  # polar factors kept; more cost more time than they save in oracle calls
MEMORY = 256 * 2**20  # bytes that they and their gradients may take


@guarded
def align(
    E1: Any,
    Y: Any = None,
    mask: Any = None,
    *,
    lam: float | None = None,
    method: Any = "dcfw",
    step: Any = "exact",
    inner: Any = "auto",
    tolerance: Any = "adaptive",
    tol: float | None = None,
    rtol: float | None = None,
    maxiter: int = 1000,
    max_inner: int = 10_000,
    max_lmo: int | None = None,
    time_limit: float | None = None,
    x0: Any = None,
    polar: str = "auto",
    product: str = "auto",
    callback: Callable[..., Any] | None = None,
    dtype: Any = None,
    verbose: int = 0,
) -> AlignResult:
    """Find the X with ||X||_2 <= 1 that minimises 1/(2n) ||P o (X E1) - Y||_F^2 - lam ||X||_*.

    Parameters
    ----------
    E1 : array of shape (d1, n), or MaskedLeastSquares
        The source vectors; columns are words.  Or the whole loss, for instance from
        :meth:`MaskedLeastSquares.from_blocks`, without Y.
    Y : array or SciPy sparse matrix of shape (d2, n)
        The target vectors of the same words.  Missing entries are NaN, outside the mask, not stored (a stored
        zero is an observation), or masked in a NumPy masked array.
    mask : array of shape (d2, n), optional
        P: true (or 1) where Y is observed.
    lam : float, optional
        The weight of the nuclear norm, in the units of the loss: squares of the data's.  The default, 1e-4
        times the mean squared length of the source vectors, adapts to the scale of the data; for vectors of
        length 1 it is the paper's 1e-4.
    method : {"dcfw", "boosted", "fw-k", "fw-m"} or a solver object
        As in :func:`dcfw.minimize`.  FW-K takes the curvature constant 4 ||E1||_F^2 / n, valid for every
        mask.
    step, tolerance
        As in :func:`dcfw.minimize`.
    inner : {"auto", "fw", "away", "pairwise", "blended"} or an inner loop
        As in :func:`dcfw.minimize`, except for ``"auto"``: blended steps with an active set of at most 64
        polar factors (fewer, but at least 8, if 64 would take more than 256 MiB) for DC-FW with exact steps
        and exact polar factors, and vanilla steps otherwise.
    tol, rtol : float, optional
        Stop when the FW gap is at most ``max(tol, rtol * first gap)``; if one is given, the other is 0.  By
        default stop at 1e-4 times the larger of the first gap and the gap at X = 0.  At the paper's size (d =
        300, n = 10,000, 10 % observed) that takes about 230 polar factors on planted data, and thousands on
        word vectors that no rotation fits (results/alignment).
    maxiter, max_inner, max_lmo, time_limit, callback
        As in :func:`dcfw.minimize`.
    x0 : array of shape (d2, d1), optional
        The start, zero by default.
    polar : {"auto", "svd", "eigh", "mixed", "products", "inexact"}
        How polar factors are computed (:mod:`dcfw.sets.polar`).  ``"inexact"`` is faster; its gaps are upper
        bounds that cannot fall below about a thousandth of the gradient's nuclear norm.
    product : {"auto", "gram", "observed", "dense"}
        How gradients are computed (:mod:`dcfw.align.products`).  A MaskedLeastSquares has its own.
    dtype : float32 or float64, optional
        The precision of the computation; by default float64 unless E1 and Y are both float32.
    verbose : int
        As in :func:`dcfw.minimize`.

    Returns
    -------
    AlignResult
        The fields of :class:`dcfw.Result`; ``rotation``, the orthogonal matrix nearest to ``x`` (with
        orthonormal rows or columns, whichever are fewer, if X is not square); and ``product``, the chosen
        one.  If several are nearest, ``rotation`` is the one furthest along the negative gradient at ``x``:
        if the budget allowed no step (x = 0), the first vertex.  It is arbitrary where the data do not
        determine it (E1 or Y is zero, or a direction is never observed).

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
    if lam is not None:
        lam = _validate.scalar(lam, "lam", low=0.0)
    if isinstance(method, str):
        method = _validate.choice(method, "method", METHODS)
    if isinstance(E1, MaskedLeastSquares):
        if Y is not None or mask is not None or dtype is not None:
            raise ValueError("Y, mask and dtype must be None when E1 is a MaskedLeastSquares, which has them")
        if not (isinstance(product, str) and product == "auto"):
            raise ValueError("product must be 'auto' for a MaskedLeastSquares E1: give it to that instead")
        f = E1
    elif Y is None:
        raise TypeError("Y must be given: the target vectors, NaN where they are missing")
    else:
        passes = _passes(method, maxiter, max_lmo)
        f = MaskedLeastSquares(E1, Y, mask, product=product, dtype=dtype, passes=passes)
    if lam is None:
        lam = WEIGHT * (float(sum(f.source[i, i] for i in range(f.source.shape[0]))) / f.n)
    g = PolarNuclearNorm(lam)
    tol, rtol = _stop(tol, rtol, f, x0)
    result = minimize(
        f - g,
        SpectralBall(f.shape, polar=polar),
        x0,
        method=FWK(C=f.curvature) if isinstance(method, str) and method == "fw-k" else method,
        step=step,
        inner=_inner(method, step, polar, f.shape) if isinstance(inner, str) and inner == "auto" else inner,
        tolerance=tolerance,
        tol=tol,
        rtol=rtol,
        maxiter=maxiter,
        max_inner=max_inner,
        max_lmo=max_lmo,
        time_limit=time_limit,
        callback=callback,
    )
    return AlignResult(**result, rotation=_best_rotation(result.x, f, g), product=f.product)


def _stop(tol: float | None, rtol: float | None, f: MaskedLeastSquares, x0: Any) -> tuple[float, float]:
    if tol is not None or rtol is not None:
        return 0.0 if tol is None else tol, 0.0 if rtol is None else rtol
    if x0 is None:
        return 0.0, RTOL
    slope = f.template()  # the negative gradient at X = 0, whose nuclear norm is the gap there
    return RTOL * inner_product(slope, polar_factor(slope)), RTOL


def _inner(method: Any, step: Any, polar: str, shape: tuple[int, int]) -> Any:
    """The inner loop of ``inner="auto"``."""
    ours = method in OURS if isinstance(method, str) else isinstance(method, DCFW)
    exact = step == "exact" if isinstance(step, str) else isinstance(step, Exact)
    if not (ours and exact) or polar == "inexact":
        return "fw"
    pair = 2 * 8 * shape[0] * shape[1]  # bytes of a polar factor and its gradient in double precision
    return ActiveLoop("blended", cap=max(min(ATOMS, MEMORY // pair), 8))


def _passes(method: Any, maxiter: Any, max_lmo: Any) -> float:
    """Return the expected number of gradients: the usual number, or a lower budget."""
    outer = isinstance(method, str) and method in OURS
    budgets = [max_lmo] if outer else [max_lmo, maxiter]
    # Invalid budgets are ignored here and refused where they are used.
    return min([PASSES, *(float(min(b, PASSES)) for b in budgets if isinstance(b, int | float) and b >= 0)])


def _best_rotation(X: Array, f: MaskedLeastSquares, g: PolarNuclearNorm) -> Array:
    """Return the orthogonal matrix nearest to X; of several, the one furthest along the negative gradient.

    The polar factor is unique on the range of X.  What remains is a map from the null space to the complement
    of the range, for which the negative gradient of f - g has a polar factor of its own.
    """
    svd, X = namespace(X).linalg.svd, _for_lapack(X)
    U, sigma, Vt = svd(X, full_matrices=False)
    rank = sum(value > max(X.shape) * eps_of(X) * float(sigma[0]) for value in sigma.tolist())
    if rank == min(X.shape):
        return U @ Vt
    U, _, Vt = svd(X, full_matrices=True)
    down = g.linearise(X).slope - f.grad(X)
    left, right = U[:, rank:], Vt[rank:, :]
    return U[:, :rank] @ Vt[:rank, :] + left @ polar_factor(left.T @ down @ right.T) @ right


def _for_lapack(X: Array) -> Array:
    """Return X in at most double precision: LAPACK has no extended one."""
    return X.astype(np.float64) if is_numpy(X) and X.dtype.itemsize > 8 else X


def nearest_rotation(X: Array) -> Array:
    """Return the orthogonal matrix nearest to X in the Frobenius norm (a reflection is allowed).

    If X is not square, return the nearest matrix with orthonormal rows or columns, whichever are fewer; if it
    is rank-deficient, one of the nearest.

    Examples
    --------
    >>> nearest_rotation(np.array([[0.0, 0.5], [-0.2, 0.0]])).round(12) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    return polar_factor(_for_lapack(_validate.array(X, "X", ndim=2)))
