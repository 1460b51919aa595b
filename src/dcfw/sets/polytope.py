"""Polytopes given by linear constraints or as the convex hull of points.

:class:`Polytope` solves linear programmes with HiGHS (:func:`scipy.optimize.linprog`), whose simplex method
ends at a vertex; with the extra ``lp`` (highspy) a solve keeps the simplex basis between calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, like, norm, to_numpy
from dcfw._protocol import stateless
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Oracle, Set, excess, first_hit, in_double, rounding
from dcfw.sets.kept_basis import TOLERANCES, KeptBasis
from dcfw.sets.linear_programme import Empty, LinearProgramme, Unbounded, Vertex

SMALLEST_ROW = 1e-200  # rows are scaled to norm 1, which must not overflow


@stateless
class _Programmes(Oracle):
    domain: Polytope

    def __init__(self, domain: Polytope) -> None:
        super().__init__(domain)
        self.kept = domain._programme.kept()

    def get_state(self) -> Any:
        return None if self.kept is None else self.kept.get_state()

    def set_state(self, state: Any) -> None:
        if self.kept is not None:
            self.kept.set_state(state)

    @in_double
    def __call__(self, G: Array) -> Atom:
        x, self.error = self.domain._minimiser(to_numpy(G), self.kept)
        return Dense(like(x, G))


class Polytope(Set, trusted=True):
    """The polytope {x : A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}.

    It must be bounded and not empty; both are checked at construction, by one linear programme and two more
    for each variable that no constraint bounds on its own.  Units do not matter: variables and rows are
    scaled, answers are verified (``dcfw.sets.linear_programme``), and certificates include their error.

    Parameters
    ----------
    A_ub, A_eq : array_like or sparse matrix, optional
        The matrices of the inequalities and equations.  ``A_ub`` may be a
        :class:`scipy.optimize.LinearConstraint`, or a list of them, instead of all four.
    b_ub, b_eq : array_like, optional
        Their right-hand sides.
    bounds : pair or sequence of pairs, optional
        (lower, upper) for all variables or for each, None or infinite where there is none; or a
        :class:`scipy.optimize.Bounds`.  Unlike in :func:`scipy.optimize.linprog` the default is no bounds,
        not x >= 0.

    Examples
    --------
    >>> from dcfw.sets import Polytope
    >>> domain = Polytope(A_ub=[[1.0, 2.0]], b_ub=[2.0], bounds=(0.0, None))
    >>> domain.lmo(np.array([-1.0, -1.0]))
    array([2., 0.])
    """

    polytope = True
    _oracle = _Programmes

    def __init__(
        self, A_ub: Any = None, b_ub: Any = None, A_eq: Any = None, b_eq: Any = None, bounds: Any = None
    ) -> None:
        from scipy import sparse

        given = A_ub if isinstance(A_ub, list | tuple) else [A_ub]
        if given and all(hasattr(each, "lb") and hasattr(each, "A") for each in given):
            if not (b_ub is None and A_eq is None and b_eq is None):
                raise ValueError("b_ub, A_eq and b_eq must be left out where A_ub is a LinearConstraint")
            A_ub, b_ub, A_eq, b_eq = _two_sided(given)
        A_ub, self.b_ub = _constraints(A_ub, b_ub, "A_ub", "b_ub")
        A_eq, self.b_eq = _constraints(A_eq, b_eq, "A_eq", "b_eq")
        widths = {A.shape[1] for A in (A_ub, A_eq) if A is not None}
        if len(widths) > 1:
            raise ValueError(
                f"A_ub and A_eq must have as many columns, got shapes {A_ub.shape} and {A_eq.shape}"
            )
        self.lower, self.upper = _bounds(bounds, widths.pop() if widths else None)
        self.shape = (len(self.lower),)
        self.nonnegative = bool((self.lower >= 0.0).all())
        self.A_ub, self.A_eq = (np.zeros((0, *self.shape)) if A is None else A for A in (A_ub, A_eq))
        self._ub_norms, self._eq_norms = _row_norms(self.A_ub, "A_ub"), _row_norms(self.A_eq, "A_eq")
        ub, eq = sparse.csr_matrix(self.A_ub), sparse.csr_matrix(self.A_eq)
        try:
            self._programme = LinearProgramme(ub, self.b_ub, eq, self.b_eq, self.lower, self.upper)
        except Empty:
            raise ValueError(
                "A_ub, b_ub, A_eq, b_eq and bounds are infeasible together: the polytope is empty; "
                "relax or remove a constraint"
            ) from None
        except Unbounded:
            raise ValueError(
                "A_ub, b_ub, A_eq, b_eq and bounds describe an unbounded set, but a compact one is "
                "needed; add bounds (there are none by default, not even x >= 0)"
            ) from None
        self.scale = float(self._programme.size.max())

    def _vertex(self, G: Array) -> Array:
        return like(self._minimiser(to_numpy(G)).x, G)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether ``x`` violates no constraint by more than ``tol`` of the size of its terms."""
        x, tol = _validate.numeric(x, "x"), _validate.scalar(tol, "tol", low=0.0, allow_inf=True)
        if tuple(x.shape) != self.shape:
            return False
        allowed = max(tol, 8.0 * rounding(x) * math.sqrt(len(self.lower)))
        return self._programme.excess(self._values(x)) <= allowed

    def _minimiser(self, G: np.ndarray, kept: KeptBasis | None = None) -> Vertex:
        """Return a vertex that minimises <G, x>, and its error; ``kept`` is the basis of a solve."""
        c = np.asarray(G, dtype=np.float64)
        zero = not c.any()
        if zero:  # every point is a minimiser, but the answer must be a vertex: take a generic direction
            c, kept = np.random.default_rng(len(c)).standard_normal(len(c)) / self._programme.size, None
        try:
            found = self._programme.minimise(c, kept)
        except RuntimeError as error:
            raise ValueError(
                "A_ub, b_ub, A_eq, b_eq and bounds, or the costs, have entries of too different sizes: HiGHS "
                f"could not minimise a linear function over {self!r}: {error}; rescale the problem"
            ) from None
        return found._replace(error=0.0) if zero else found

    def _implied_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return self._programme.low, self._programme.high

    def violation(self, x: Array) -> float:
        """Return the largest violation of a constraint, its row scaled to norm 1."""
        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        over = (self.A_ub @ x - self.b_ub) / self._ub_norms
        error = np.abs(self.A_eq @ x - self.b_eq) / self._eq_norms
        return excess(np.concatenate((self.lower - x, x - self.upper, over, error)).max())

    def _directions(self, G: np.ndarray) -> np.ndarray:
        G = np.where(self.lower < self.upper, G, 0.0)
        return np.asarray(G - self._basis.T @ (self._basis @ G))

    @functools.cached_property
    def _basis(self) -> np.ndarray:
        """An orthonormal basis of what the equations fix in the variables that bounds do not fix."""
        A = self.A_eq.toarray() if hasattr(self.A_eq, "toarray") else self.A_eq
        return _row_space(A * ((self.lower < self.upper) / self._eq_norms[:, None]))

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        rows = first_hit(self.b_ub - self.A_ub @ x, self.A_ub @ d)
        return min(rows, first_hit(self.upper - x, d), first_hit(x - self.lower, -d))

    def _centre(self) -> np.ndarray:
        """Return the Chebyshev centre in scaled variables: the point farthest from the nearest inequality."""
        centre = self._programme.centre()
        # A polytope too thin for HiGHS to find its interior still has vertices.
        return self._minimiser(np.zeros(self.shape)).x if centre is None else centre

    @functools.cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """An upper bound, the diagonal of the smallest box around the polytope (2n linear programmes)."""
        lengths = np.empty(self.shape)
        for j, row in enumerate(np.eye(self.shape[0])):
            least, most = self._minimiser(row), self._minimiser(-row)
            lengths[j] = max((most.x[j] + most.error) - (least.x[j] - least.error), 0.0)
        return norm(lengths)

    def _parameters(self) -> str:
        return f", inequalities={len(self.b_ub)}, equations={len(self.b_eq)}"


class ConvexHull(Set, trusted=True):
    """The convex hull of finitely many points.

    Parameters
    ----------
    points : array_like
        One point a row.  Points need not be vertices of the hull.

    Examples
    --------
    >>> from dcfw.sets import ConvexHull
    >>> triangle = ConvexHull([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> triangle.lmo(np.array([-1.0, -1.0]))
    array([2., 0.])
    """

    polytope = True

    def __init__(self, points: Any) -> None:
        self.points = np.array(to_numpy(_validate.array(points, "points", ndim=2)), dtype=np.float64)
        if 0 in self.points.shape:
            raise ValueError(f"points must not be empty, got shape {self.points.shape}")
        self.shape = (self.points.shape[1],)
        self.scale = float(np.abs(self.points).max()) or 1.0
        # In lexicographic order, the first of several minimisers is a vertex of the face they span.
        self._ordered = self.points[np.lexsort(self.points.T[::-1])]

    def _vertex(self, G: Array) -> Array:
        g = np.asarray(to_numpy(G), dtype=np.float64)
        if float(np.abs(g).max()) > 1e200:
            g = 2.0**-512 * g  # or products could overflow
        values = self._ordered @ g
        # Values that differ by rounding count as equal, or a point inside a face could win over its corners.
        slack = 4.0 * np.finfo(np.float64).eps * self.scale * float(np.abs(g).sum())
        return like(self._ordered[int((values <= values.min() + slack).argmax())].copy(), G)

    @functools.cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """The largest distance between two of the points."""
        return max(
            math.sqrt(float(((self.points[i:] - point) ** 2).sum(axis=1).max()))
            for i, point in enumerate(self.points)
        )

    def check_work(self) -> float:
        count, n = self.points.shape
        return 1e6 + float(50 * count * n * min(count, n))  # a linear programme

    def violation(self, x: Array) -> float:
        """Return the distance to the hull in the largest entry, by a linear programme."""
        from scipy.optimize import linprog

        x = self._values(x)
        if not np.isfinite(x).all():
            return math.inf
        # min t over weights w >= 0 with sum 1 and |points^T w - x| <= t, everything scaled to size 1.
        P, y = self.points.T / self.scale, x / self.scale
        n, count = P.shape
        cost, total, column = np.append(np.zeros(count), 1.0), np.append(np.ones(count), 0.0), np.ones((n, 1))
        A, b = np.block([[P, -column], [-P, -column]]), np.concatenate((y, -y))
        answer = linprog(cost, A, b, total[None], [1.0], (0.0, None), method="highs", options=TOLERANCES)
        if answer.status != 0:
            raise RuntimeError(f"HiGHS could not measure the distance to {self!r}: {answer.message}")
        # Made nonnegative with sum 1, the weights give a point of the hull: return its true distance from x.
        weights = np.maximum(answer.x[:count], 0.0)
        return self.scale * float(np.abs(P @ (weights / weights.sum()) - y).max())

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(self._basis.T @ (self._basis @ G))

    @functools.cached_property
    def _basis(self) -> np.ndarray:
        """An orthonormal basis of the differences of points."""
        return _row_space((self.points - self.points.mean(axis=0)) / self.scale)

    def _centre(self) -> np.ndarray:
        return np.asarray(self.points.mean(axis=0))

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a random convex combination of the points."""
        weights = _validate.generator(rng).dirichlet(np.ones(len(self.points)))
        return np.asarray(weights @ self.points)

    def _parameters(self) -> str:
        return f", points={len(self.points)}"


def _constraints(A: Any, b: Any, A_name: str, b_name: str) -> tuple[Any, np.ndarray]:
    if (A is None) != (b is None):
        missing, given = (A_name, b_name) if A is None else (b_name, A_name)
        raise ValueError(f"{missing} is missing: {given} was given without it")
    if A is None:
        return None, np.zeros(0)
    if hasattr(A, "tocsr"):
        A = _validate.sparse(A, A_name, double=True).copy()
    else:
        A = np.asarray(to_numpy(_validate.array(A, A_name, ndim=2)), dtype=np.float64)
    if A.shape[1] == 0:
        raise ValueError(f"{A_name} must have at least one column, got shape {A.shape}")
    b = np.asarray(to_numpy(_validate.array(b, b_name, shape=(A.shape[0],))), dtype=np.float64)
    return (A, b) if len(b) else (None, b)


def _two_sided(constraints: Any) -> tuple[Any, Any, Any, Any]:
    """Return A_ub, b_ub, A_eq, b_eq for SciPy's ``LinearConstraint`` objects lb <= A x <= ub."""
    from scipy import sparse

    rows, sides = [], []
    for each in constraints:
        A = sparse.csr_matrix(each.A if sparse.issparse(each.A) else np.atleast_2d(each.A))
        rows.append(A)
        sides.append([np.broadcast_to(np.asarray(v, dtype=float), A.shape[:1]) for v in (each.lb, each.ub)])
    A, (lb, ub) = sparse.vstack(rows, format="csr"), np.concatenate(sides, axis=1)
    same = lb == ub
    below, above = np.isfinite(ub) & ~same, np.isfinite(lb) & ~same
    A_ub = sparse.vstack([A[below], -A[above]], format="csr")
    return A_ub, np.concatenate([ub[below], -lb[above]]), A[same], ub[same]


def _bounds(bounds: Any, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper bounds of ``n`` variables (None: one for each pair)."""
    if bounds is None:
        if n is None:
            raise ValueError("Polytope needs A_ub and b_ub, A_eq and b_eq, or bounds: all are missing")
        return np.full(n, -math.inf), np.full(n, math.inf)
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        pairs = np.column_stack(np.broadcast_arrays(np.atleast_1d(bounds.lb), bounds.ub))
    elif hasattr(bounds, "dtype"):
        if hasattr(bounds, "nnz"):
            raise TypeError("bounds must be an ordinary array, got a sparse one")
        pairs = np.atleast_2d(to_numpy(_validate.array(bounds, "bounds", allow_inf=True))).astype(float)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError("bounds must have two entries, lower and upper, for each variable")
    else:
        try:
            given = list(bounds)
            one = len(given) == 2 and np.ndim(given[0]) == np.ndim(given[1]) == 0
            pairs = np.array([_pair(entry) for entry in ([given] if one else given)], dtype=np.float64)
        except TypeError:
            raise TypeError(
                "bounds must be a pair (lower, upper), a sequence of such pairs, or scipy.optimize.Bounds"
            ) from None
        except ValueError:
            raise ValueError("bounds must have two entries, lower and upper, for each variable") from None
    pairs = np.repeat(pairs, n, axis=0) if len(pairs) == 1 and n is not None else pairs
    if n is not None and len(pairs) != n:
        raise ValueError(f"bounds must have one pair or {n} (the columns of A), got {len(pairs)}")
    if not len(pairs):
        raise ValueError("bounds must not be empty")
    lower, upper = pairs.T.copy()
    if bool(np.isnan(pairs).any()) or bool((lower > upper).any()):
        raise ValueError("bounds must have lower <= upper in each pair, and no NaN")
    if bool((lower == math.inf).any()) or bool((upper == -math.inf).any()):
        raise ValueError("bounds must not have a lower bound of inf or an upper bound of -inf")
    return lower, upper


def _pair(entry: Sequence[Any]) -> tuple[float, float]:
    low, high = entry
    if isinstance(low, str) or isinstance(high, str):
        raise TypeError("a bound is a number or None")
    return -math.inf if low is None else float(low), math.inf if high is None else float(high)


def _row_space(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis, one vector a row, of the span of ``rows``."""
    _, sigma, Vt = np.linalg.svd(rows, full_matrices=False)
    rank = int((sigma > max(rows.shape) * np.finfo(np.float64).eps * sigma.max(initial=0.0)).sum())
    return np.asarray(Vt[:rank])


def _row_norms(A: Any, name: str) -> np.ndarray:
    """Return the Euclidean norms of the rows of a dense or sparse matrix, 1 for a row of zeros."""
    # Rows are scaled to a largest entry of 1 first, so that no square overflows or vanishes.
    rows = abs(A).max(axis=1)
    largest = np.array(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64).ravel()
    if ((largest > 0.0) & (largest < SMALLEST_ROW)).any():
        raise ValueError(f"{name} must not have rows of zeros and numbers below {SMALLEST_ROW:g}: rescale it")
    largest[largest == 0.0] = 1.0
    if hasattr(A, "multiply"):
        scaled = A.multiply(1.0 / largest[:, None])
        squares = scaled.multiply(scaled)
    else:
        squares = (A / largest[:, None]) ** 2
    norms = largest * np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())
    norms[norms == 0.0] = 1.0
    return norms
