"""Gromov-Wasserstein and fused Gromov-Wasserstein distances, square loss.

Two spaces with distances C1 and C2 and weights p and q are matched by a plan T that minimises

    E(T) = (1 - alpha) <M, T> + alpha sum_{ijkl} (C1_ik - C2_jl)^2 T_ij T_kl

over the :class:`~dcfw.sets.TransportPolytope` of p and q.  On that set the sum is a constant less
2 <C1 T C2, T>: an indefinite quadratic, hence a difference of convex functions,

    -2 <D1 T D2, T> = ||D1 T - T D2||^2 - (||D1 T||^2 + ||T D2||^2),

where D1 and D2 are the centred distances; centring changes linear terms only.  Frank-Wolfe from the product
of the weights (as in POT) ends in a local minimum near it.  Here theta first falls from 1, where
E + theta (||D1 T||^2 + ||T D2||^2) is convex, to 0, with one Frank-Wolfe step each; Frank-Wolfe on E follows.

Unless weights are equal, a step is a network simplex, some seven times slower than an assignment at n = 100.
Theta then falls on the problem with equal weights, whose plan gives the direction of the first vertex.  A
second descent, from the product of the weights, stops after at least ten steps once ten times its gap would
not lead below the first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.functions.base import Function
from dcfw.result import ENDING, Result, Status, mark_ended
from dcfw.sets.atoms import Entries
from dcfw.sets.transport import TransportPolytope
from dcfw.solvers.interrupts import guarded

LARGEST = 1e60  # squares and products of larger distances and weights might overflow
TRIAL = 10  # the least number of steps of a second descent, and the number of gaps it may hope to gain

__all__ = ["GromovLoss", "gromov_wasserstein"]


class GromovLoss(Function, trusted=True):
    """(1 - alpha) <M, T> + alpha sum (C1_ik - C2_jl)^2 T_ij T_kl, for plans T with marginals p and q.

    Parameters
    ----------
    C1, C2 : array_like
        Symmetric matrices of distances (or similarities) within the two spaces.
    p, q : array_like, optional
        The weights of their points, by default uniform with sum 1.
    M : array_like, optional
        Costs between points of the two spaces (fused Gromov-Wasserstein).
    alpha : float, optional
        The share of the quadratic term, by default 1 without ``M`` and 0.5 with it.

    Examples
    --------
    >>> from dcfw import gromov
    >>> loss = gromov.GromovLoss([[0.0, 1.0], [1.0, 0.0]], [[0.0, 3.0], [3.0, 0.0]])
    >>> loss.value(np.eye(2) / 2), loss.value(np.full((2, 2), 0.25))
    (2.0, 3.5)
    """

    affine_grad = True

    def __init__(
        self, C1: Any, C2: Any, p: Any = None, q: Any = None, M: Any = None, alpha: float | None = None
    ) -> None:
        self.C1, self.C2 = _symmetric(C1, "C1"), _symmetric(C2, "C2")
        self.p, self.q = _weights(p, "p", self.C1, "C1"), _weights(q, "q", self.C2, "C2")
        if abs(float(self.p.sum()) - float(self.q.sum())) > 1e-9 * float(self.p.sum()):
            raise ValueError(f"p and q must have one sum, got {self.p.sum():g} and {self.q.sum():g}")
        alpha = (1.0 if M is None else 0.5) if alpha is None else alpha
        self.alpha = _validate.scalar(alpha, "alpha", low=0.0, high=1.0)
        shape = (len(self.p), len(self.q))
        M = np.zeros(shape) if M is None else to_numpy(_validate.array(M, "M", shape=shape))
        self.M = np.asarray(M, dtype=np.float64)
        self._linear = (1.0 - self.alpha) * self.M
        self._constant = self.alpha * float(self.p @ self.C1**2 @ self.p + self.q @ self.C2**2 @ self.q)

    def value(self, x: Array) -> float:
        return self.value_from_grad(x, self.grad(x))

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return self._constant + 0.5 * float(np.vdot(self._linear + grad, x))

    def grad(self, x: Array) -> Array:
        return self._linear - (4.0 * self.alpha) * (self.C1 @ (x @ self.C2))

    def grad_at(self, atom: Any) -> Array:
        if not isinstance(atom, Entries):
            return self.grad(atom.dense())
        return self._linear - (4.0 * self.alpha) * (self.C1 @ _times(*_sorted(atom, False), self.C2))


class _Convex(NamedTuple):
    """||D1 T||^2 + ||T D2||^2, which added to the quadratic part makes it convex on the set."""

    left: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, loss: GromovLoss) -> _Convex:
        D1, D2 = _centred(loss.C1, loss.p), _centred(loss.C2, loss.q)
        return cls(2.0 * loss.alpha * (D1 @ D1), 2.0 * loss.alpha * (D2 @ D2))

    def grad(self, T: np.ndarray) -> np.ndarray:
        return np.asarray(self.left @ T + T @ self.right)

    def grad_at(self, atom: Entries) -> np.ndarray:
        left, right = _times(*_sorted(atom, True), self.left).T, _times(*_sorted(atom, False), self.right)
        return np.asarray(left + right)


@guarded
def gromov_wasserstein(
    C1: Any,
    C2: Any,
    p: Any = None,
    q: Any = None,
    M: Any = None,
    *,
    alpha: float | None = None,
    stages: int | None = None,
    tol: float = 1e-7,
    **options: Any,
) -> Result:
    """Return a plan of small (fused) Gromov-Wasserstein loss; ``res.x`` is the plan, ``res.fun`` its loss.

    Parameters
    ----------
    C1, C2, p, q, M, alpha
        As for :class:`GromovLoss`.
    stages : int, optional
        The number of values of theta; 0 starts at the product of the weights.  By default the better of two
        descents, from there and after theta has fallen (see the module).
    tol : float, default 1e-7
        The Frank-Wolfe gap at which to stop, relative to the loss of the product of the weights.
    **options
        Passed on to :func:`dcfw.minimize`.

    Examples
    --------
    >>> from dcfw import gromov
    >>> x = np.random.default_rng(0).standard_normal((20, 2))
    >>> C = np.linalg.norm(x[:, None] - x, axis=2)
    >>> res = gromov.gromov_wasserstein(C, C[::-1, ::-1])
    >>> res.fun < 1e-9, res.x.argmax(axis=1)[:3]
    (True, array([19, 18, 17]))
    """
    from dcfw._minimize import minimize

    loss = GromovLoss(C1, C2, p, q, M, alpha)
    domain = TransportPolytope(loss.p, loss.q)
    tol = _validate.scalar(tol, "tol", low=0.0)
    scale = max(abs(loss.value(domain.start())), np.finfo(np.float64).tiny)
    settings = {"method": "fw", "inner": "fw", "tol": tol * scale, **options}
    start, *others = _starts(loss, domain, stages)
    found = [minimize(loss, domain, start, **settings)]

    def give_up(intermediate_result: Result) -> None:
        far = float(intermediate_result.fun) - TRIAL * intermediate_result.gap > float(found[0].fun)
        if far and intermediate_result.nit >= TRIAL:
            raise StopIteration

    watched = "callback" in settings
    if domain.solver != "lap":
        settings.setdefault("callback", give_up)
    for other in others:
        if found[0].status not in ENDING:
            found.append(minimize(loss, domain, other, **settings))
    best, last = min(found, key=lambda res: float(res.fun)), found[-1].status
    if last is Status.INTERRUPTED or (last is Status.CALLBACK and watched):
        mark_ended(best, last)
    return best


def _starts(loss: GromovLoss, domain: TransportPolytope, stages: int | None) -> list[np.ndarray]:
    """Return the plans from which to descend, the most promising one first."""
    first, (n, m) = domain.start(), domain.shape
    if stages is not None:
        return [_stepped(loss, domain, _validate.integer(stages, "stages", low=0))]
    if domain.solver == "lap" or n != m:
        return [_stepped(loss, domain, 20 if domain.solver == "lap" else 8), first]
    equal = np.full(n, float(loss.p.sum()) / n)
    even = GromovLoss(loss.C1, loss.C2, equal, equal, loss.M, loss.alpha)
    return [domain.lmo(loss.grad(_stepped(even, TransportPolytope(equal, equal), 20))), first]


def _stepped(loss: GromovLoss, domain: TransportPolytope, stages: int) -> np.ndarray:
    """Return the plan after a Frank-Wolfe step from the start for each theta from 1 to nearly 0."""
    T: np.ndarray = domain.start()
    if not stages:
        return T
    oracle, convex = domain.oracle(), _Convex.of(loss)
    H, R = loss.grad(T), convex.grad(T)
    for theta in np.linspace(1.0, 0.0, stages, endpoint=False):
        G = H + theta * R
        S: Any = oracle(G)
        d, dH, dR = S.dense() - T, loss.grad_at(S) - H, convex.grad_at(S) - R
        slope, curvature = float(np.vdot(G, d)), float(np.vdot(dH + theta * dR, d))
        if slope >= 0.0 and slope + 0.5 * curvature >= 0.0:  # T is the vertex up to rounding
            continue
        step = 1.0 if curvature <= -slope else -slope / curvature
        T, H, R = T + step * d, H + step * dH, R + step * dR
    return T


def _sorted(atom: Entries, transposed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return rows (in increasing order), columns and values of a sparse plan or of its transpose."""
    rows, columns = np.divmod(atom.indices, atom.shape[1])
    if not transposed:
        return rows, columns, atom.values, atom.shape[0]
    order = np.argsort(columns, kind="stable")
    return columns[order], rows[order], atom.values[order], atom.shape[1]


def _times(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, n: int, C: np.ndarray) -> np.ndarray:
    if len(rows) == n and bool((rows == np.arange(n)).all()):  # as in a permutation
        return np.asarray(values[:, None] * C[columns])
    from scipy.sparse import csr_array

    starts = np.searchsorted(rows, np.arange(n + 1))
    return np.asarray(csr_array((values, columns, starts), shape=(n, len(C))) @ C)


def _centred(C: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return C less the (weighted) means of its rows and columns."""
    means = C @ weights / float(weights.sum())
    return np.asarray(C - means[:, None] - means + float(means @ weights) / float(weights.sum()))


def _symmetric(value: Any, name: str) -> np.ndarray:
    C = np.asarray(to_numpy(_validate.array(value, name, ndim=2)), dtype=np.float64)
    if C.shape[0] != C.shape[1] or not C.size:
        raise ValueError(f"{name} must be a square matrix, got shape {C.shape}")
    if not np.allclose(C, C.T, rtol=1e-9, atol=1e-9 * float(np.abs(C).max())):
        raise ValueError(f"{name} must be symmetric")
    if float(np.abs(C).max()) > LARGEST:
        raise ValueError(f"{name} must have entries of at most {LARGEST:g}: their squares are summed")
    return C


def _weights(value: Any, name: str, C: np.ndarray, of: str) -> np.ndarray:
    n = len(C)
    if value is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(to_numpy(_validate.array(value, name, ndim=1)), dtype=np.float64)
    if len(weights) != n:
        raise ValueError(f"{name} must have a weight for each of the {n} rows of {of}, got {len(weights)}")
    if bool((weights < 0.0).any()) or not 1.0 / LARGEST < float(weights.max()) < LARGEST:
        raise ValueError(
            f"{name} must not be negative, with a largest entry from {1 / LARGEST:g} to {LARGEST:g}"
        )
    return weights
