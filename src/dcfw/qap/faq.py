"""FAQ, the Frank-Wolfe method behind SciPy's ``quadratic_assignment``, compiled.

The steps are those of :mod:`dcfw.qap.compiled`, the stopping rule is that of Vogelstein et al. (2015).  The
gradient is taken at the vertex (one product of matrices, where SciPy needs seven) and assignment problems
start from the last prices, so it is an order of magnitude faster than SciPy, with the same iterates.
"""

from __future__ import annotations

import math

import numpy as np

from dcfw import kernels
from dcfw.qap.compiled import BAD, STEPS_DONE, TINY, Kernel
from dcfw.qap.quadratics import MatrixQuadratic, relaxed
from dcfw.sets.atoms import Permutation
from dcfw.sets.lap import Assignment

OVERFLOW = "A and B are too large: the gradient overflows; scale them down"


def faq(
    A: np.ndarray, B: np.ndarray, C: np.ndarray | None, P: np.ndarray, *, maxiter: int, tol: float
) -> tuple[np.ndarray, int]:
    """Return the doubly stochastic matrix at which FAQ from P ends, and its number of steps.

    The objective is <A P, P B> + <C, P>.  A step shorter than ``tol * sqrt(n)`` is the last.
    """
    n = len(A)
    phi = relaxed(A, B, C)
    X = np.array(P, dtype=np.float64, order="C")
    grad = phi.grad(X)
    if not np.isfinite(grad).all():
        raise ValueError(OVERFLOW)
    shortest = tol * math.sqrt(n)
    if kernels.native is None:
        return X, in_numpy(phi, X, grad, maxiter, shortest)
    kernel = Kernel(n)
    done = 0
    while done < maxiter:  # in slices, so that Ctrl-C works
        steps = min(kernel.slice_length(), maxiter - done)
        batch = kernel(phi, X, grad, None, steps=steps, shortest=shortest, convex=False, measured=False)
        done += batch.steps + (batch.reason == TINY)  # the last step may be below rounding
        if batch.reason == BAD:
            raise ValueError(OVERFLOW)
        if batch.reason != STEPS_DONE:
            break
    return X, done


def in_numpy(phi: MatrixQuadratic, X: np.ndarray, grad: np.ndarray, maxiter: int, shortest: float) -> int:
    """Make FAQ's steps on X with gradient ``grad``, without the extension; return their number."""
    n = len(X)
    solver, rows = Assignment(n), np.arange(n)
    for k in range(maxiter):
        p = solver(grad)
        change = phi.grad_at(Permutation(p, rows)) - grad
        gap = max(float(np.vdot(grad, X) - grad[rows, p].sum()), 0.0)
        curvature = float(change[rows, p].sum() - np.vdot(X, change))
        eta = 1.0 if curvature <= gap else gap / curvature
        length = eta * math.sqrt(max(float(np.vdot(X, X)) + n - 2.0 * float(X[rows, p].sum()), 0.0))
        X *= 1.0 - eta
        X[rows, p] += eta
        grad += eta * change
        if length < shortest:
            return k + 1
    return maxiter
