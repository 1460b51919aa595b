"""A linear programme whose simplex basis is kept from one cost vector to the next (HiGHS through highspy).

The costs of consecutive Frank-Wolfe steps are close, and the last vertex stays feasible: the primal simplex
method starts from its basis and needs a few pivots.  An answer depends on the basis and the costs alone, so
that a run which is resumed from a saved basis continues with the same numbers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
OPTIONS = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 4,  # primal
    "threads": 1,
    **TOLERANCES,
}
BASIC, UPPER = 1, 2  # HighsBasisStatus


class KeptBasis:
    """min <c, z> over {rows z <= b_ub, then = b_eq, lower <= z <= upper} for one c after another.

    ``rows`` is a dense or a sparse matrix.
    """

    def __init__(
        self, rows: Any, b_ub: np.ndarray, b_eq: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> None:
        import highspy
        from scipy import sparse

        A = sparse.csr_matrix(rows)
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = A.shape
        model.col_cost_ = np.zeros(A.shape[1])
        model.col_lower_, model.col_upper_ = lower, upper
        model.row_lower_ = np.concatenate([np.full(len(b_ub), -np.inf), b_eq])
        model.row_upper_ = np.concatenate([b_ub, b_eq])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = A.indptr, A.indices, A.data
        self._model, self._A = model, rows
        self._split = len(b_ub)
        self.basis: Any = None
        self.pivots = 0
        """The number of pivots of the last answer."""

    def solve(self, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return a vertex, and the dual solution of inequalities and equations; None if HiGHS finds none."""
        import highspy

        self._model.col_cost_ = cost
        highs = highspy.Highs()  # a new one: random numbers of the last run change the rounding of the next
        for name, value in OPTIONS.items():
            highs.setOptionValue(name, value)
        highs.passModel(self._model)
        if self.basis is not None:
            highs.setBasis(self.basis)
        highs.run()
        self.pivots = highs.getInfo().simplex_iteration_count
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self.basis = None
            return None
        self.basis = highs.getBasis()
        solution = highs.getSolution()
        z, y = (np.array(part, dtype=np.float64) for part in (solution.col_value, solution.row_dual))
        z, y = self._polished(cost, z, y)
        return z, y[: self._split], y[self._split :]

    def _polished(self, cost: np.ndarray, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both solutions recomputed from the basis.

        HiGHS leaves errors of up to 1e-8, perturbs bounds, and stops at reduced costs of 1e-10.
        """
        columns, rows = self._status()
        basic, active = columns == BASIC, rows != BASIC
        model, count = self._model, int(basic.sum())
        if count != int(active.sum()):
            return z, y
        sides = np.where(columns == UPPER, model.col_upper_, model.col_lower_)
        z = np.where(basic | ~np.isfinite(sides), z, sides)
        if count:
            bounds = np.where(rows == UPPER, model.row_upper_, model.row_lower_)[active]
            A = self._A[active]
            with suppress(RuntimeError, np.linalg.LinAlgError):  # singular
                sides = bounds - A[:, ~basic] @ z[~basic]
                z[basic], y_active = _solved(A[:, basic], sides, cost[basic])
                y = np.zeros(len(y))
                y[active] = y_active
        return z, y

    def _status(self) -> tuple[np.ndarray, np.ndarray]:
        parts = (self.basis.col_status, self.basis.row_status)
        columns, rows = (np.array([int(status) for status in part], dtype=np.int8) for part in parts)
        return columns, rows

    def get_state(self) -> tuple[np.ndarray, np.ndarray] | None:
        return None if self.basis is None else self._status()

    def set_state(self, state: tuple[np.ndarray, np.ndarray] | None) -> None:
        import highspy

        self.basis = None
        if state is not None:
            self.basis = highspy.HighsBasis()
            columns, rows = ([highspy.HighsBasisStatus(int(k)) for k in part] for part in state)
            self.basis.col_status, self.basis.row_status = columns, rows
            self.basis.valid, self.basis.alien = True, False


def _solved(A: Any, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the solutions of A z = b and A'y = c for a dense or a sparse matrix."""
    if isinstance(A, np.ndarray):
        return np.linalg.solve(A, b), np.linalg.solve(A.T, c)
    from scipy.sparse.linalg import splu

    factors = splu(A.tocsc())
    return factors.solve(b), factors.solve(c, trans="T")
