"""Linear programmes over one polytope, solved accurately in the user's units.

HiGHS has absolute tolerances and drops small coefficients, so its answer depends on the units.  Here
variables are scaled by their size over the polytope and rows by their largest term, with powers of two, which
do not round.  Violations and the duality gap of an answer are computed; an inaccurate answer is refined by
solving the programme shifted to it and magnified (iterative refinement: Gleixner, Steffy and Wolter, INFORMS
J. Comput. 28, 2016).  The remaining gap is returned with the answer, for certificates to include it.
"""

from __future__ import annotations

import importlib.util
import math
from typing import Any, NamedTuple

import numpy as np

from dcfw.sets.kept_basis import TOLERANCES, KeptBasis

_EPS = float(np.finfo(np.float64).eps)
FEASIBLE = 1e-9  # the relative violation of a constraint that an answer may have
REFINEMENTS = 6
SMALL = 2500  # matrices with more entries are sparse
FEW = 64  # up to this many variables without implied bounds are bounded by two linear programmes each
ROUNDS = 10  # passes over all rows; bounds that converge slowly are valid after any of them
SLACK = 1e-12  # the share of its terms by which an implied bound is relaxed


class Empty(Exception):
    """No point satisfies the constraints."""


class Unbounded(Exception):
    """The constraints do not bound the set."""


class Vertex(NamedTuple):
    """A minimiser of <c, x>, and a bound of how far <c, x> is from the minimum."""

    x: np.ndarray
    error: float


class _Answer(NamedTuple):  # in scaled units
    z: np.ndarray
    y_ub: np.ndarray
    y_eq: np.ndarray


class LinearProgramme:
    """The minimisation of linear functions over {A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper}.

    The matrices are sparse.  ``size`` is the size of each variable over the set; ``low`` and ``high`` are
    finite and valid bounds.
    """

    def __init__(
        self, A_ub: Any, b_ub: np.ndarray, A_eq: Any, b_eq: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> None:
        from scipy import sparse

        self.A_ub, self.b_ub, self.A_eq, self.b_eq = A_ub, b_ub, A_eq, b_eq
        self.lower, self.upper = lower, upper
        rows, sides = sparse.vstack([A_ub, A_eq, -A_eq]).tocsr(), np.concatenate([b_ub, b_eq, -b_eq])
        self.low, self.high = propagate(rows, sides, lower, upper)
        self._measure(abs(rows), np.abs(sides))
        if self._linprog(np.zeros(len(lower))).status == 2:
            raise Empty
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            self._bound()
            self._measure(abs(rows), np.abs(sides))

    def _measure(self, rows: Any, sides: np.ndarray) -> None:
        from scipy import sparse

        known = np.maximum(np.abs(self.low), np.abs(self.high))
        finite = np.isfinite(known)
        terms = rows @ np.where(finite, known, 0.0)
        natural = _natural(rows, np.maximum(terms, sides), known)
        # A variable that is negligible in all its rows must not be measured by its own rounding errors.
        self.size = power_of_two(np.where(finite, np.maximum(known, FEASIBLE * natural), natural))
        self._lower, self._upper = self.lower / self.size, self.upper / self.size
        self._low, self._high = self.low / self.size, self.high / self.size
        self._ub, self._b_ub = _scaled(self.A_ub, self.b_ub, self.size)
        self._eq, self._b_eq = _scaled(self.A_eq, self.b_eq, self.size)
        both = sparse.vstack([self._ub, self._eq], format="csr")
        # Dense if small: SciPy's sparse products have a large overhead.
        self._rows = both.toarray() if math.prod(both.shape) <= SMALL else both
        self._sides, self._sizes = np.concatenate([self._b_ub, self._b_eq]), abs(self._rows)

    def _bound(self) -> None:
        """Bound the variables that have no implied bounds: by linear programmes, or by an ellipsoid."""
        n = len(self.size)
        free = np.flatnonzero(~(np.isfinite(self.low) & np.isfinite(self.high)))
        if len(free) > FEW and self._bound_by_slacks(free):
            return
        for sign, ends in ((1.0, self.low), (-1.0, self.high)):
            for j in np.flatnonzero(~np.isfinite(ends)):
                answer = self._linprog(sign * np.eye(1, n, int(j))[0])
                if answer.status != 0:  # feasible, hence unbounded (HiGHS may not distinguish the two)
                    raise Unbounded
                # Relaxed, because the minimum is known only to the tolerance of HiGHS.
                ends[j] = (answer.x[j] - sign * (1e-6 * abs(answer.x[j]) + 1e-9)) * self.size[j]

    def _bound_by_slacks(self, free: np.ndarray) -> bool:
        """Bound all variables at once if that is tight enough, and return whether it was.

        In a bounded set the sum S of all slacks has a maximum, so each row stays within S of its side; a
        point whose products with all rows are bounded is bounded through their least singular value.
        """
        from scipy import sparse

        eye = sparse.identity(len(self.size), format="csr")
        below, above = np.isfinite(self._lower), np.isfinite(self._upper)
        slacks = sparse.vstack([self._ub, -eye[below], eye[above]]).tocsr()
        norms = _row_norms(slacks)
        slacks = sparse.diags(1.0 / norms) @ slacks
        cost = np.asarray(slacks.sum(axis=0), dtype=np.float64).ravel()
        cost[np.abs(cost) <= 64.0 * _EPS * slacks.shape[0]] = 0.0  # HiGHS gives up at costs of mere rounding
        answer = self._linprog(cost)
        if answer.status != 0:
            raise Unbounded
        sides = np.concatenate([self._b_ub, -self._lower[below], self._upper[above]])
        total = float((sides / norms - slacks @ answer.x).sum())
        everything = sparse.vstack([slacks, self._eq]).toarray()
        least = math.sqrt(max(float(np.linalg.eigvalsh(everything.T @ everything)[0]), 0.0))
        if least < 1e-3:
            return False
        # ||x - answer|| <= ||rows (x - answer)|| / least; the slacks are nonnegative, so the norm of their
        # change is at most twice the total.
        radius = 2.0 * total / least + 1e-6
        self.low[free] = np.maximum(self.low, (answer.x - radius) * self.size)[free]
        self.high[free] = np.minimum(self.high, (answer.x + radius) * self.size)[free]
        return True

    def kept(self) -> KeptBasis | None:
        """Return the programme with a basis that is kept between calls; None without highspy."""
        if importlib.util.find_spec("highspy") is None:
            return None
        return KeptBasis(self._rows, self._b_ub, self._b_eq, self._lower, self._upper)

    def minimise(self, c: np.ndarray, kept: KeptBasis | None = None) -> Vertex:
        """Return a vertex that minimises <c, x> for c != 0, found from the basis ``kept``."""
        cost = c * self.size
        largest = float(np.abs(cost).max())
        if not (0.0 < largest < math.inf):
            raise ValueError("c must be finite, with an entry that is not zero")
        unit = float(power_of_two(np.array([largest]))[0])
        cost = cost / unit
        if kept is not None and (known := kept.solve(cost)) is not None:
            answer = _Answer(*known)
            # Refining by programmes without a basis would cost more than the basis has saved.
            if self._error(cost, answer) == 0.0 and self._violation(answer.z) <= 0.25 * FEASIBLE:
                return Vertex(self._in_users_units(answer.z), 0.0)
        found = self._linprog(cost)
        if found.status != 0:
            raise RuntimeError(found.message)
        answer = _Answer(found.x, found.ineqlin.marginals, found.eqlin.marginals)
        error = self._error(cost, answer)
        for _ in range(REFINEMENTS):
            if error == 0.0 and self._violation(answer.z) <= 64.0 * _EPS:
                break
            refined = self._refined(cost, answer)
            if refined is None:
                break
            shorter = self._error(cost, refined)
            violated = self._violation(answer.z), self._violation(refined.z)
            if violated[1] >= max(violated[0], 64.0 * _EPS) and shorter >= error:
                break
            answer, error = refined, shorter
        if not self._violation(answer.z) <= FEASIBLE:
            raise RuntimeError(
                f"HiGHS found no point that satisfies the constraints to a relative {FEASIBLE:g}"
            )
        return Vertex(self._in_users_units(answer.z), error * unit)

    def centre(self) -> np.ndarray | None:
        """Return the point farthest from the nearest inequality in scaled units, None if HiGHS fails."""
        from scipy import sparse

        n = len(self.size)
        eye = sparse.identity(n, format="csr")
        below, above = np.isfinite(self._lower), np.isfinite(self._upper)
        inequalities = sparse.vstack([-eye[below], eye[above], self._ub])
        margins = _row_norms(inequalities)
        # The last variable is the distance from every inequality; all others lie in [-1, 1].
        sides = np.concatenate([-self._lower[below], self._upper[above], self._b_ub])
        ub = sparse.hstack([inequalities, margins[:, None]], format="csr"), sides
        eq = sparse.hstack([self._eq, np.zeros((self._eq.shape[0], 1))], format="csr"), self._b_eq
        bounds = np.array([(-math.inf, math.inf)] * n + [(0.0, 2.0)])
        answer = _linprog(np.append(np.zeros(n), -1.0), ub, eq, bounds, "highs")
        if answer.status != 0 or self._violation(answer.x[:n]) > FEASIBLE:
            return None
        return self._in_users_units(answer.x[:n])

    def excess(self, x: np.ndarray) -> float:
        """Return the largest violation of a constraint by x, relative to the size of its terms."""
        return self._violation(x / self.size) if np.isfinite(x).all() else math.inf

    def _refined(self, cost: np.ndarray, answer: _Answer) -> _Answer | None:
        """Return a more accurate answer by solving for the magnified residuals; None if that fails."""
        z, y_ub, y_eq = answer
        reduced = cost - self._ub.T @ y_ub - self._eq.T @ y_eq
        # Reduced costs of the wrong sign are what keeps z from being a minimiser.
        wrong = np.where(reduced > 0.0, z - self._low, self._high - z) > FEASIBLE
        errors = np.array([self._violation(z), float(np.abs(reduced[wrong]).max(initial=0.0))])
        z_unit, y_unit = power_of_two(1.0 / np.clip(errors, 1e-13, 1.0))
        ub, eq = ((A, (b - A @ z) * z_unit) for A, b in ((self._ub, self._b_ub), (self._eq, self._b_eq)))
        bounds = np.column_stack(((self._lower - z) * z_unit, (self._upper - z) * z_unit))
        step = _linprog(reduced * y_unit, ub, eq, bounds)
        if step.status != 0:
            return None
        return _Answer(
            np.clip(z + step.x / z_unit, self._lower, self._upper),
            y_ub + step.ineqlin.marginals / y_unit,
            y_eq + step.eqlin.marginals / y_unit,
        )

    def _error(self, cost: np.ndarray, answer: _Answer) -> float:
        """Return how far <cost, z> is above the bound that the dual solution proves, 0 up to rounding."""
        y = np.concatenate([np.minimum(answer.y_ub, 0.0), answer.y_eq])
        reduced = cost - self._rows.T @ y
        least = np.minimum(reduced * self._low, reduced * self._high)
        terms = (cost * answer.z, -self._sides * y, -least)
        size = sum(float(np.abs(part).sum()) for part in terms)
        excess = math.fsum(float(part.sum()) for part in terms)
        # Each reduced cost is a sum too, whose rounding errors are multiplied by the size of its variable.
        size += float((self._sizes.T @ np.abs(y)).sum())
        return excess if excess > 64.0 * _EPS * size else 0.0

    def _violation(self, z: np.ndarray) -> float:
        beyond = self._rows @ z - self._sides
        beyond[len(self._b_ub) :] = np.abs(beyond[len(self._b_ub) :])
        worst = [float(part.max(initial=0.0)) for part in (self._lower - z, z - self._upper, beyond)]
        return math.inf if math.isnan(sum(worst)) else max(worst)

    def _in_users_units(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(z * self.size, self.lower, self.upper))

    def _linprog(self, cost: np.ndarray) -> Any:
        bounds = np.column_stack((self._lower, self._upper))
        programme = (cost, (self._ub, self._b_ub), (self._eq, self._b_eq), bounds)
        answer = _linprog(*programme)
        # Presolve leaves some programmes undecided ("infeasible or unbounded").
        return answer if answer.status in (0, 2, 3) else _linprog(*programme, presolve=False)


def propagate(A: Any, b: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds that follow from ``A x <= b`` (A sparse) and ``lower <= x <= upper``.

    A row bounds ``x_j`` by b less the minimum of its other terms.  A few rounds of this, a standard presolve
    step (Savelsbergh, 1994), bound nearly every variable.  Bounds are relaxed for rounding.  Raise
    :class:`Empty` if a row or a pair of bounds cannot be satisfied.
    """
    A = A.tocoo()
    keep = A.data != 0.0
    row, column, entry = A.row[keep], A.col[keep], A.data[keep].astype(np.float64)
    positive = entry > 0.0
    low, high = lower.copy(), upper.copy()
    for _ in range(ROUNDS):
        before = np.array((low, high))
        with np.errstate(invalid="ignore", over="ignore"):
            bound = _bounds_of_entries(entry, row, np.where(positive, low[column], high[column]), b)
            np.minimum.at(high, column[positive], bound[positive])
            np.maximum.at(low, column[~positive], bound[~positive])
            moved = np.abs((low, high) - before) > 1e-2 * np.maximum(np.abs(low), np.abs(high))
        if bool((low > high).any()):
            raise Empty
        appeared = np.isfinite((low, high)) & ~np.isfinite(before)
        if not (appeared | np.isfinite(before) & moved).any():  # a hundredth of its size is too little
            break
    return low, high


def _bounds_of_entries(entry: np.ndarray, row: np.ndarray, extreme: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the bound of x_j that each entry a_ij implies; a_ij x_j is least where x_j is ``extreme``."""
    least = entry * extreme
    infinite = ~np.isfinite(least)
    finite = np.where(infinite, 0.0, least)
    count = np.bincount(row, infinite, minlength=len(b))
    total = np.bincount(row, finite, minlength=len(b))
    terms = np.bincount(row, np.abs(finite), minlength=len(b)) + np.abs(b)
    if bool(((count == 0) & (total > b + SLACK * terms)).any()):
        raise Empty
    room = b[row] - (total[row] - finite) + SLACK * terms[row]
    # A row does not bound x_j where another term is unbounded.
    usable = (count[row] - infinite == 0) & np.isfinite(room)
    return np.where(usable, room / entry, np.where(entry > 0.0, np.inf, -np.inf))


def _linprog(
    cost: np.ndarray, ub: Any, eq: Any, bounds: np.ndarray, method: str = "highs-ds", presolve: bool = True
) -> Any:
    import scipy.optimize

    ub, eq = (part if len(part[1]) else (None, None) for part in (ub, eq))
    options = {**TOLERANCES, "presolve": presolve}
    return scipy.optimize.linprog(cost, *ub, *eq, bounds, method=method, options=options)


def _scaled(A: Any, b: np.ndarray, size: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return a matrix and its right-hand side in scaled units."""
    from scipy import sparse

    scaled = A @ sparse.diags(size)
    largest = abs(scaled).max(axis=1).toarray().ravel() if len(b) else np.zeros(0)
    unit = power_of_two(np.where(largest > 0.0, largest, 1.0))
    return (sparse.diags(1.0 / unit) @ scaled).tocsr(), b / unit


def _row_norms(A: Any) -> np.ndarray:
    """Return the Euclidean norms of the rows, which have entries of size 1 or are zero; 1 for the latter."""
    norms = np.sqrt(np.asarray(A.multiply(A).sum(axis=1), dtype=np.float64).ravel())
    norms[norms == 0.0] = 1.0
    return norms


def _natural(rows: Any, terms: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the size at which each variable matters in its rows (geometric mean), or else its own."""
    entries = rows.tocoo()
    counts = (entries.data > 0.0) & (terms[entries.row] > 0.0)
    column = entries.col[counts]
    logarithm = np.log2(terms[entries.row[counts]]) - np.log2(entries.data[counts])
    number = np.bincount(column, minlength=len(known))
    mean = np.bincount(column, logarithm, minlength=len(known)) / np.maximum(number, 1)
    alone = np.where(np.isfinite(known) & (known > 0.0), known, 1.0)
    return np.asarray(np.where(number > 0, np.exp2(np.clip(mean, -900.0, 900.0)), alone))


def power_of_two(values: np.ndarray) -> np.ndarray:
    """Return the least powers of two that are at least ``values``."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent)))
