"""FAQ, the Frank-Wolfe method behind SciPy's ``quadratic_assignment``, compiled.

The steps are those of :mod:`dcfw.qap.compiled`'s Frank-Wolfe: a vertex from an assignment problem, the best
point on the way to it.  What differs is the stop, which is Vogelstein et al.'s (2015): when a step is
shorter than ``tol`` per square root of n, or after ``maxiter`` steps.  Taking the gradient at the vertex (one
product of matrices, where SciPy's form of the step needs seven) and starting each assignment problem from
the last one's prices makes it an order of magnitude faster, with the same iterates.
"""

from __future__ import annotations

import numpy as np

from dcfw._compiling import njit
from dcfw.qap.compiled import Kernel
from dcfw.qap.gradients import vertex_gradient
from dcfw.qap.quadratics import relaxation
from dcfw.sets import lap_numba as lap


def faq(
    A: np.ndarray, B: np.ndarray, C: np.ndarray | None, P: np.ndarray, *, maxiter: int, tol: float
) -> tuple[np.ndarray, int]:
    """Return the doubly stochastic matrix at which FAQ ends when started at P, and its number of steps.

    Parameters
    ----------
    A, B : (n, n) float64 arrays
        The matrices of <A P, P B>.
    C : (n, n) array or None
        The linear term.
    P : (n, n) array
        The doubly stochastic matrix to start from; it is not written to.
    maxiter : int
        The most steps.
    tol : float
        A step shorter than ``tol * sqrt(n)`` is the last.

    Examples
    --------
    >>> path = np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1)
    >>> costs = np.array([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    >>> P, nit = faq(path, costs, None, np.full((3, 3), 1 / 3), maxiter=30, tol=0.03)
    >>> P[1].round(2)  # the middle of the path is the node with the cheap connections
    array([0., 0., 1.])
    """
    n = len(A)
    phi = relaxation(A, B, C)
    kernel = Kernel(n)
    X = np.array(P, dtype=np.float64, order="C")
    grad = phi.grad(X)
    portion = max(1, 10**8 // n**3)  # some milliseconds, so that Ctrl-C is heard
    done = 0
    while done < maxiter:
        steps, stopped = _steps(
            kernel.pack(phi), X, grad, kernel.change, kernel.gathered, kernel.product, kernel.real,
            kernel.index, float(tol), min(portion, maxiter - done),
        )  # fmt: skip
        done += steps
        if stopped < 0:
            raise ValueError("A and B are too large: the gradient overflows; scale them down")
        if stopped:
            break
    return X, done


@njit()
def _steps(  # type: ignore[no-untyped-def]
    f, X, grad, change, gathered, product, real, index, tol, steps
):  # fmt: skip
    """Return the number of steps made, and 1 if the last was short, 0 if not, -1 if the gradient is bad."""
    n = X.shape[0]
    p = index[0]
    Xf, gradf, changef = X.reshape(n * n), grad.reshape(n * n), change.reshape(n * n)
    for k in range(steps):
        if lap.solve(grad, real, index) != 0:
            return k, -1
        gap = np.dot(gradf, Xf)
        on_vertex = 0.0
        for i in range(n):
            gap -= grad[i, p[i]]
            on_vertex += X[i, p[i]]
        vertex_gradient(f, p[:n], gathered, product, change)
        for i in range(n):
            for j in range(n):
                change[i, j] -= grad[i, j]
        curvature = -np.dot(Xf, changef)
        for i in range(n):
            curvature += change[i, p[i]]
        gap = max(gap, 0.0)
        eta = 1.0 if curvature <= gap else gap / curvature
        length = eta * np.sqrt(max(np.dot(Xf, Xf) + n - 2.0 * on_vertex, 0.0))
        for i in range(n):
            for j in range(n):
                X[i, j] *= 1.0 - eta
                grad[i, j] += eta * change[i, j]
        for i in range(n):
            X[i, p[i]] += eta
        if length < tol * np.sqrt(n):
            return k + 1, 1
    return steps, 0
