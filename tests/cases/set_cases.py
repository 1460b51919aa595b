"""Every feasible set, once, for all suites: add a set to CASES and it runs through everything.

A case has the set, the same set written independently for cvxpy (``model``), and what an extreme point
of it looks like (``extreme``).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from combinatorial_cases import COMBINATORIAL, MAP, image, scale, shift
from dcfw import sets
from dcfw.sets.atoms import Dense, Entries, OneHot, RankOne
from set_case import Array, Case, near
from structured_cases import STRUCTURED


def singular(s: Array) -> Array:
    return np.linalg.svd(s, compute_uv=False)


def one_spike(values: Array, radius: float, tol: float) -> bool:
    """Return whether one entry has size ``radius`` and all others are zero."""
    size = np.sort(np.abs(values), axis=None)[::-1]
    return near(size[0], radius, tol) and near(size[1:], 0.0, tol)


def simplex(n: Any, radius: float = 1.0) -> Case:
    return Case(
        sets.Simplex(n, radius),
        lambda cp, x: [x >= 0, cp.sum(x) == radius],
        lambda s, tol: one_spike(s, radius, tol) and s.max() > 0,
    )


def lp(domain: Any, p: float, radius: float) -> Case:
    def extreme(s: Array, tol: float) -> bool:
        if p == 1:
            return one_spike(s, radius, tol)
        if p == math.inf:
            return near(np.abs(s), radius, tol)
        return near(np.linalg.norm(s.ravel(), p), radius, tol)

    return Case(domain, lambda cp, x: [cp.norm(cp.vec(x, order="C"), p) <= radius], extreme)


def box(*args: Any, **kwargs: Any) -> Case:
    domain = sets.Box(*args, **kwargs)
    return Case(
        domain,
        lambda cp, x: [x >= domain.lower, x <= domain.upper],
        lambda s, tol: bool(np.all((np.abs(s - domain.lower) <= tol) | (np.abs(s - domain.upper) <= tol))),
    )


def ksparse(shape: Any, k: int, radius: float = 1.0) -> Case:
    def extreme(s: Array, tol: float) -> bool:
        size = np.sort(np.abs(s), axis=None)[::-1]
        return near(size[:k], radius, tol) and near(size[k:], 0.0, tol)

    return Case(
        sets.KSparse(shape, k, radius),
        lambda cp, x: [cp.norm(cp.vec(x, order="C"), 1) <= k * radius, cp.abs(x) <= radius],
        extreme,
    )


def birkhoff(n: int) -> Case:
    def extreme(s: Array, tol: float) -> bool:
        return near(np.sort(s, axis=1)[:, :-1], 0.0, tol) and near(s.max(axis=0), 1.0, tol)

    return Case(
        sets.Birkhoff(n),
        lambda cp, x: [x >= 0, cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1],
        extreme,
    )


def schatten(domain: Any, p: float, radius: float) -> Case:
    def extreme(s: Array, tol: float) -> bool:
        sigma = singular(s)
        if p == 1:
            return one_spike(sigma, radius, tol)
        if p == math.inf:
            return near(sigma, radius, tol)
        return near(np.linalg.norm(sigma, p), radius, tol)

    def model(cp: Any, x: Any) -> list:
        # ||X||_p <= r: p-norm of the singular values, written for the exponents that cvxpy has.
        norms = {1: cp.normNuc, 2: lambda y: cp.norm(y, "fro"), math.inf: lambda y: cp.norm(y, 2)}
        return [norms[p](x) <= radius] if p in norms else []

    return Case(domain, model, extreme)


def spectraplex(n: int, radius: float = 1.0, at_most: bool = False) -> Case:
    def extreme(s: Array, tol: float) -> bool:
        apex = at_most and near(s, 0.0, tol)
        return apex or (one_spike(singular(s), radius, tol) and near(s, s.T, tol))

    def model(cp: Any, x: Any) -> list:
        trace = cp.trace(x) <= radius if at_most else cp.trace(x) == radius
        return [x == x.T, 0.5 * (x + x.T) >> 0, trace]

    return Case(sets.Spectraplex(n, radius, at_most), model, extreme)


def polytope(**kwargs: Any) -> Case:
    domain = sets.Polytope(**kwargs)

    def rows() -> tuple[Array, Array]:
        n = domain.shape[0]
        parts = [(-np.eye(n), -domain.lower), (np.eye(n), domain.upper)]
        for A, b in ((domain.A_ub, domain.b_ub), (domain.A_eq, domain.b_eq)):
            if A is not None:
                parts.append((A.toarray() if sp.issparse(A) else A, b))
        return np.vstack([A for A, _ in parts]), np.concatenate([b for _, b in parts])

    def extreme(s: Array, tol: float) -> bool:
        A, b = rows()
        active = np.abs(A @ s - b) <= tol * 10
        return bool(np.linalg.matrix_rank(A[active]) == len(s))

    def model(cp: Any, x: Any) -> list:
        low, high = np.isfinite(domain.lower), np.isfinite(domain.upper)
        constraints = [x[i] >= domain.lower[i] for i in np.flatnonzero(low)]
        constraints += [x[i] <= domain.upper[i] for i in np.flatnonzero(high)]
        if domain.A_ub is not None:
            constraints.append(domain.A_ub @ x <= domain.b_ub)
        if domain.A_eq is not None:
            constraints.append(domain.A_eq @ x == domain.b_eq)
        return constraints

    return Case(domain, model, extreme)


def hull(points: Any) -> Case:
    domain = sets.ConvexHull(points)
    P = np.asarray(points, dtype=float)

    def extreme(s: Array, tol: float) -> bool:
        """s is one of the points and no combination of the others."""
        others = P[np.abs(P - s).max(axis=1) > tol]
        if len(others) == len(P):
            return False
        if not len(others):
            return True
        A = np.vstack([others.T, np.ones(len(others))])
        return linprog(np.zeros(len(others)), A_eq=A, b_eq=np.append(s, 1.0), method="highs").status == 2

    def model(cp: Any, x: Any) -> list:
        w = cp.Variable(len(P), nonneg=True)
        return [cp.sum(w) == 1, P.T @ w == x]

    return Case(domain, model, extreme)


def product(*cases: Case) -> Case:
    domain = sets.Product([case.domain for case in cases])

    def model(cp: Any, x: Any) -> list:
        constraints, at = [], 0
        for case in cases:
            size = math.prod(case.domain.shape)
            part = cp.reshape(x[at : at + size], case.domain.shape, order="C")
            constraints += case.model(cp, part)
            at += size
        return constraints

    def extreme(s: Array, tol: float) -> bool:
        parts = zip(cases, domain.split(s), strict=True)
        return all(case.extreme(part, tol) for case, part in parts)

    return Case(domain, model, extreme)


def intersection(*cases: Case) -> Case:
    """With ties an answer need not be extreme: it is a point of the sets that no other one beats."""
    domain = sets.Intersection([case.domain for case in cases])
    return Case(
        domain,
        lambda cp, x: [constraint for case in cases for constraint in case.model(cp, x)],
        lambda s, tol: domain.contains(s, tol),
        Dense,
        diameter_is_a_bound=True,
        round=False,
    )


CUBE_CORNERS = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))


def epigraph(ball: Case) -> Case:
    def extreme(z: Array, tol: float) -> bool:
        x = z[:-1].reshape(ball.domain.shape)
        apex = near(z, 0.0, tol)
        return apex or (near(z[-1], ball.domain.radius, tol) and ball.extreme(x, tol))

    def model(cp: Any, z: Any) -> list:
        # ||x|| <= t: the norm is 1 for l1 and Schatten 1, and the other names are those of cvxpy.
        x, t = cp.reshape(z[:-1], ball.domain.shape, order="C"), z[-1]
        norm = cp.normNuc(x) if isinstance(ball.domain, sets.NuclearBall) else cp.norm(z[:-1], ball.domain.p)
        return [norm <= t, t <= ball.domain.radius]

    return Case(sets.Epigraph(ball.domain), model, extreme)


CASES: tuple[Case, ...] = (
    *STRUCTURED,
    *COMBINATORIAL,
    shift(simplex((2, 2), radius=2.0), np.array([[1.0, -3.0], [0.5, 0.0]])),
    shift(lp(sets.L2Ball(3), 2, 1.0), np.array([1.0, 2.0, -1.0])),
    scale(simplex(4), 2.5, OneHot),
    scale(birkhoff(3), -0.5, Entries),
    scale(lp(sets.L2Ball(4, radius=0.5), 2, 0.5), -3.0, Dense),
    scale(schatten(sets.NuclearBall((2, 3)), 1, 1.0), 2.0, RankOne),
    image(MAP, lp(sets.LInfBall(4), math.inf, 1.0)),
    image(MAP[:2], simplex(4)),
    simplex(7),
    simplex((2, 3), radius=2.5),
    simplex(1),
    lp(sets.L1Ball(6), 1, 1.0),
    lp(sets.L1Ball((2, 3), radius=0.5), 1, 0.5),
    lp(sets.L2Ball(5), 2, 1.0),
    lp(sets.L2Ball((2, 2), radius=3.0), 2, 3.0),
    lp(sets.LInfBall(6), math.inf, 1.0),
    lp(sets.LInfBall((3, 2), radius=0.25), math.inf, 0.25),
    lp(sets.LpBall(5, p=1.5), 1.5, 1.0),
    lp(sets.LpBall((2, 3), p=3, radius=2.0), 3, 2.0),
    lp(sets.LpBall(4, p=1), 1, 1.0),
    lp(sets.LpBall(4, p=math.inf, radius=2.0), math.inf, 2.0),
    box([0.0, -1.0, 2.0, 3.0], [1.0, 1.0, 2.0, 8.0]),
    box(-0.5, 2.0, shape=(2, 2)),
    ksparse(6, k=2),
    ksparse((2, 3), k=6, radius=0.5),
    ksparse(5, k=1, radius=2.0),
    birkhoff(4),
    birkhoff(1),
    schatten(sets.SpectralBall((3, 3)), math.inf, 1.0),
    schatten(sets.SpectralBall((2, 4), radius=2.0), math.inf, 2.0),
    schatten(sets.NuclearBall((3, 3)), 1, 1.0),
    schatten(sets.NuclearBall((20, 17), radius=2.0), 1, 2.0),
    schatten(sets.SchattenBall((3, 2), p=1.5), 1.5, 1.0),
    schatten(sets.SchattenBall((3, 3), p=2, radius=0.5), 2, 0.5),
    schatten(sets.SchattenBall((2, 3), p=4), 4, 1.0),
    schatten(sets.SchattenBall((3, 3), p=math.inf), math.inf, 1.0),
    spectraplex(3),
    spectraplex(18, radius=2.0),
    spectraplex(3, radius=0.5, at_most=True),
    spectraplex(1, at_most=True),
    polytope(A_ub=[[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]], b_ub=[2.0, 1.5], bounds=(0.0, 3.0)),
    polytope(A_ub=sp.csr_array(np.vstack([np.eye(3), -np.eye(3)])), b_ub=np.ones(6)),
    polytope(A_eq=[[1.0, 1.0, 1.0, 1.0]], b_eq=[1.0], bounds=(0.0, None)),
    hull([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.25]]),
    hull(np.vstack([CUBE_CORNERS, 0.5 * (CUBE_CORNERS[:4] + CUBE_CORNERS[4:])])),
    product(simplex(3), lp(sets.L1Ball((2, 2)), 1, 1.0), birkhoff(2)),
    product(lp(sets.L2Ball(3), 2, 1.0)),
    intersection(simplex(5), box(0.0, 0.3, shape=5)),
    intersection(lp(sets.L1Ball((2, 2)), 1, 1.0), lp(sets.LInfBall((2, 2), 0.4), math.inf, 0.4)),
    intersection(birkhoff(3), box(0.0, 0.6, shape=(3, 3)), lp(sets.L1Ball((3, 3), 4.0), 1, 4.0)),
    intersection(lp(sets.L2Ball(3), 2, 1.0), box(-0.7, 0.5, shape=3)),
    epigraph(lp(sets.L1Ball(4, radius=2.0), 1, 2.0)),
    epigraph(lp(sets.L2Ball((2, 2)), 2, 1.0)),
    epigraph(schatten(sets.NuclearBall((2, 3), radius=0.5), 1, 0.5)),
)

every_set = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
every_projection = pytest.mark.parametrize(
    "case",
    [case for case in CASES if hasattr(case.domain, "project")],
    ids=[case.name for case in CASES if hasattr(case.domain, "project")],
)
"""The sets that can be projected onto."""


def solvable(case: Case) -> bool:
    """Return whether cvxpy has a model of the set (it has none of a general Schatten norm) and is quick."""
    if math.prod(case.domain.shape) > 100:
        return False
    return not (isinstance(case.domain, sets.SchattenBall) and case.domain.p not in (1.0, 2.0, math.inf))


every_model = pytest.mark.parametrize(
    "case", [case for case in CASES if solvable(case)], ids=[case.name for case in CASES if solvable(case)]
)
"""The sets that cvxpy can describe."""
