"""Transport plans between two distributions, of all mass or of a part.

The linear oracle solves an optimal transport problem; a vertex is a sparse plan with at most n + m - 1
nonzeros.  Its solver is the assignment solver if both marginals are uniform and of one length, else POT's
network simplex (``pip install pot``) or HiGHS.  Partial transport is full transport with a dummy source and a
dummy sink that take the mass that is not moved (Caffarelli and McCann, 2010).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.sets.atoms import Atom, Entries
from dcfw.sets.base import excess, first_hit, state_in, sums_hit
from dcfw.sets.birkhoff import Birkhoff
from dcfw.sets.compact import CompactOracle, CompactSet
from dcfw.sets.kept_basis import TOLERANCES, KeptBasis
from dcfw.sets.simplex import longest


class TransportPolytope(CompactSet, trusted=True):
    """The plans {X >= 0, X 1 = a, X^T 1 = b}.

    Parameters
    ----------
    a, b : array_like
        The marginals, not negative and of one positive sum.
    solver : {"auto", "lap", "pot", "highs"}, default "auto"
        The solver of the oracle.  "auto" is "lap" (assignment) for uniform marginals of one length, else
        "pot" (network simplex) if POT is installed, else "highs".

    Examples
    --------
    >>> from dcfw.sets import TransportPolytope
    >>> TransportPolytope([0.25, 0.75], [0.5, 0.5]).lmo(np.array([[0.0, 1.0], [2.0, 1.0]]))
    array([[0.25, 0.  ],
           [0.25, 0.5 ]])
    """

    polytope = nonnegative = True

    def __init__(self, a: Any, b: Any, solver: str = "auto") -> None:
        self.a, self.b = _marginal(a, "a"), _marginal(b, "b")
        total = float(self.a.sum())
        if abs(total - float(self.b.sum())) > 1e-9 * total:
            raise ValueError(f"a and b must have one sum, got {total:g} and {float(self.b.sum()):g}")
        self.b *= total / float(self.b.sum())
        self.shape = (len(self.a), len(self.b))
        self.scale = min(float(self.a.max()), float(self.b.max()))
        self.solver = _validate.choice(solver, "solver", ("auto", "lap", "pot", "highs"))
        uniform = len(self.a) == len(self.b) and bool((np.append(self.a, self.b) == self.a[0]).all())
        installed = importlib.util.find_spec("ot") is not None
        if self.solver == "auto":
            self.solver = "lap" if uniform else "pot" if installed else "highs"
        if self.solver == "lap" and not uniform:
            raise ValueError("solver 'lap' needs uniform marginals a and b of one length")
        if self.solver == "pot" and not installed:
            raise ImportError("solver 'pot' needs POT: pip install pot")

    def _atom(self, G: np.ndarray) -> Atom:
        if self.solver != "highs":
            return (UniformOracle if self.solver == "lap" else PricedOracle)(self)._atom(G)
        from scipy.optimize import linprog

        rows, columns = np.flatnonzero(self.a), np.flatnonzero(self.b)
        block, plan, total = np.ix_(rows, columns), np.zeros(self.shape), float(self.a[rows].sum())
        part = _without_means(G)[block]
        sides = np.concatenate([self.a[rows], self.b[columns]]) / total
        sums = _sums(*part.shape)
        answer = linprog(part.ravel(), A_eq=sums, b_eq=sides, method="highs-ds", options=TOLERANCES)
        if answer.status != 0:
            raise RuntimeError(f"HiGHS found no optimal plan: {answer.message}")
        plan[block] = np.maximum(answer.x.reshape(part.shape), 0.0) * total
        return _entries(plan)

    def oracle(self) -> CompactOracle:
        """Return an oracle whose atoms are sparse plans."""
        kept = KeptOracle if importlib.util.find_spec("highspy") is not None else CompactOracle
        return {"lap": UniformOracle, "pot": PricedOracle, "highs": kept}[self.solver](self)

    def violation(self, x: Array) -> float:
        x = self._values(x)
        rows, columns = np.abs(x.sum(axis=1) - self.a).max(), np.abs(x.sum(axis=0) - self.b).max()
        return excess(max(float(rows), float(columns), -float(x.min())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return _moves(G, self.a, self.b, True, True)

    def entry_bounds(self) -> tuple[Any, Any]:
        return 0.0, math.inf

    def _centre(self) -> np.ndarray:
        return np.outer(self.a, self.b / float(self.b.sum()))

    @functools.cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """An upper bound of the Euclidean diameter, exact for uniform marginals of one length."""
        if 1 in (int((self.a > 0.0).sum()), int((self.b > 0.0).sum())):
            return 0.0
        return longest(np.minimum(self.a[:, None], self.b), 2.0 * float(self.a.sum()))

    def _parameters(self) -> str:
        return f", solver={self.solver!r}"


class PartialTransport(CompactSet, trusted=True):
    """The plans {X >= 0, X 1 <= a, X^T 1 <= b, sum of all entries = mass}.

    Parameters
    ----------
    a, b : array_like
        The mass at each source and the capacity of each sink, not negative.
    mass : float
        The mass to move, at most the sum of a and that of b.
    solver : str, default "auto"
        As for :class:`TransportPolytope`.

    Examples
    --------
    >>> from dcfw.sets import PartialTransport
    >>> PartialTransport([0.5, 0.5], [0.5, 0.5], mass=0.5).lmo(np.array([[3.0, 1.0], [2.0, 4.0]]))
    array([[0. , 0.5],
           [0. , 0. ]])
    """

    polytope = nonnegative = True

    def __init__(self, a: Any, b: Any, mass: float, solver: str = "auto") -> None:
        self.a, self.b = _marginal(a, "a"), _marginal(b, "b")
        self.mass = _validate.scalar(mass, "mass", low=0.0, open_low=True)
        most = min(float(self.a.sum()), float(self.b.sum()))
        if self.mass > most * (1.0 + 1e-12):
            raise ValueError(f"mass must be at most the sum of a and of b, got {self.mass:g} > {most:g}")
        self.mass = min(self.mass, most)
        self.shape = (len(self.a), len(self.b))
        self.scale = min(float(self.a.max()), float(self.b.max()), self.mass)
        left, right = float(self.b.sum()) - self.mass, float(self.a.sum()) - self.mass
        self._all = TransportPolytope(np.append(self.a, left), np.append(self.b, right), solver)
        self.solver = self._all.solver

    def _atom(self, G: np.ndarray) -> Entries:
        # A constant changes no minimiser; with nonnegative costs, any positive cost of the corner keeps the
        # dummies from serving each other.
        unit = float(np.abs(G).max()) or 1.0
        costs = np.zeros(self._all.shape)
        costs[:-1, :-1] = G / unit - float(G.min()) / unit
        costs[-1, -1] = 1.0 + float(costs.max())
        return _entries(np.ascontiguousarray(self._all._atom(costs).dense()[:-1, :-1]))

    def violation(self, x: Array) -> float:
        x = self._values(x)
        over = max(float((x.sum(axis=1) - self.a).max()), float((x.sum(axis=0) - self.b).max()))
        error = abs(float(x.sum()) - self.mass) * (self.scale / self.mass)
        return excess(max(over, error, -float(x.min())))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        left, right = (float(part.sum()) > self.mass * (1.0 + 1e-12) for part in (self.a, self.b))
        return _moves(G, self.a, self.b, not left, not right)

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        rows, columns = sums_hit(self.a - x.sum(axis=1), d, 1), sums_hit(self.b - x.sum(axis=0), d, 0)
        return min(first_hit(x, -d), rows, columns)

    def _centre(self) -> np.ndarray:
        return np.outer(self.a / float(self.a.sum()), self.b / float(self.b.sum())) * self.mass

    @functools.cached_property
    def diameter(self) -> float:  # type: ignore[override]
        """An upper bound of the Euclidean diameter."""
        return longest(np.minimum(np.minimum(self.a[:, None], self.b), self.mass), 2.0 * self.mass)

    def _parameters(self) -> str:
        return f", mass={self.mass:g}"


def _moves(G: np.ndarray, a: np.ndarray, b: np.ndarray, rows: bool, columns: bool) -> np.ndarray:
    """Project onto the directions that keep the mass, and the sums of rows and columns that are fixed."""
    d, block = np.zeros(G.shape), np.ix_(a > 0.0, b > 0.0)  # nothing moves elsewhere
    d[block] = part = G[block]
    if columns:
        d[block] -= part.mean(axis=0)
    if rows:
        d[block] -= part.mean(axis=1)[:, None]
    if rows == columns:
        d[block] += part.mean() if rows else -part.mean()
    return d


@state_in("_assign")
class UniformOracle(CompactOracle):
    """The oracle of the Birkhoff polytope, its permutations scaled."""

    domain: TransportPolytope

    def __init__(self, domain: TransportPolytope) -> None:
        super().__init__(domain)
        self._assign = Birkhoff(len(domain.a)).oracle()

    def _atom(self, G: np.ndarray) -> Atom:
        indices, _ = self._assign(G).support()  # type: ignore[attr-defined]
        return Entries(indices, np.full(len(indices), self.domain.a[0]), self.domain.shape)


class PricedOracle(CompactOracle):
    """POT's network simplex on costs less the potentials of the last answer.

    Potentials are constant on the set.  Costs less those of similar costs (or the means) are small, and take
    fewer pivots: half of the time on Gromov-Wasserstein gradients.
    """

    domain: TransportPolytope

    def __init__(self, domain: TransportPolytope) -> None:
        super().__init__(domain)
        self._potentials: np.ndarray | None = None

    def _atom(self, G: np.ndarray) -> Atom:
        a, b, solver = self.domain.a, self.domain.b, _network_simplex()
        total, n, unit = float(a.sum()), len(a), float(np.abs(G).max()) or 1.0
        costs = G / unit
        # Next to far larger potentials, costs would be lost in rounding.
        if self._potentials is not None and float(np.abs(self._potentials).max()) <= 8.0 * unit:
            known = self._potentials / unit
        else:
            rows = costs.mean(axis=1)
            known = np.append(rows, (costs - rows[:, None]).mean(axis=0))
        costs -= known[:n, None]
        costs -= known[n:]
        plan, _, u, v, code = solver.emd_c(a / total, b / total, costs, 2_000_000_000, 1)
        problem = solver.check_result(code)
        if problem is not None:
            raise RuntimeError(f"POT found no optimal plan: {problem}")
        self._potentials = unit * (known + np.append(u, v))
        return _entries(np.asarray(plan) * total)

    def get_state(self) -> Any:
        return self._potentials

    def set_state(self, state: Any) -> None:
        if state is not None:
            state = _validate.array(state, "potentials", shape=(sum(self.domain.shape),))
        self._potentials = state


@state_in("_programme")
class KeptOracle(CompactOracle):
    """HiGHS, each time from the last plan's basis (needs highspy)."""

    domain: TransportPolytope

    def __init__(self, domain: TransportPolytope) -> None:
        super().__init__(domain)
        sums, size = _sums(*domain.shape), math.prod(domain.shape)
        sides = np.concatenate([domain.a, domain.b]) / float(domain.a.sum())
        self._programme = KeptBasis(sums, np.zeros(0), sides, np.zeros(size), np.full(size, math.inf))

    def _atom(self, G: np.ndarray) -> Atom:
        answer = self._programme.solve(_without_means(G).reshape(-1))
        if answer is None:
            return self.domain._atom(G)
        return _entries(np.maximum(answer[0], 0.0).reshape(self.domain.shape) * float(self.domain.a.sum()))


def _without_means(costs: np.ndarray) -> np.ndarray:
    """Return costs of size 1 with the same optimal plans: potentials are constant on the set."""
    costs = costs / (float(np.abs(costs).max()) or 1.0)
    costs -= costs.mean(axis=1)[:, None]
    return np.asarray(costs - costs.mean(axis=0))


@functools.cache
def _network_simplex() -> Any:
    """Return POT's compiled solver without importing POT, which loads every installed array library.

    The extension needs one function of POT, imported when called: an empty package stands in for POT while
    the extension is loaded.
    """
    if "ot" in sys.modules:
        return importlib.import_module("ot.lp.emd_wrap")
    found = importlib.util.find_spec("ot")
    assert found is not None
    root = Path(next(iter(found.submodule_search_locations or ())))
    parts: dict[str, Any] = {name: ModuleType(name) for name in ("ot", "ot.lp", "ot.utils")}
    parts["ot"].__path__, parts["ot.lp"].__path__ = [str(root)], [str(root / "lp")]
    parts["ot.utils"].dist = lambda *values, **options: importlib.import_module("ot.utils").dist(
        *values, **options
    )
    sys.modules.update(parts)
    try:
        return importlib.import_module("ot.lp.emd_wrap")
    finally:
        for name in (*parts, "ot.lp.emd_wrap"):
            sys.modules.pop(name, None)


def _sums(n: int, m: int) -> Any:
    """Return the matrix of the row and column sums of an n x m matrix."""
    from scipy import sparse

    rows, columns = sparse.identity(n), sparse.identity(m)
    return sparse.vstack([sparse.kron(rows, np.ones(m)), sparse.kron(np.ones(n), columns)]).tocsr()


def _entries(plan: np.ndarray) -> Entries:
    indices = np.flatnonzero(plan)
    return Entries(indices, plan.reshape(-1)[indices], plan.shape)


def _marginal(value: Any, name: str) -> np.ndarray:
    values = np.array(to_numpy(_validate.array(value, name, ndim=1)), dtype=np.float64)
    if not len(values) or bool((values < 0.0).any()) or not 0.0 < float(values.sum()) < math.inf:
        raise ValueError(f"{name} must not be negative, and have a positive sum")
    return values
