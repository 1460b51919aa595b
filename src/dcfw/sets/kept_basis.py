"""A linear programme that keeps its simplex basis from one cost vector to the next (HiGHS through highspy).

The costs of consecutive Frank-Wolfe steps are close, and the last vertex stays feasible: the primal simplex
method starts from its basis and needs a few pivots.  An answer depends only on the basis and the costs, so a
run resumed from a saved basis gives the same numbers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
OPTIONS = {"output_flag": False, "presolve": "off", "solver": "simplex", "threads": 1, **TOLERANCES}
OPTIONS["simplex_strategy"] = 4  # primal
BASIC, UPPER = 1, 2  # HighsBasisStatus


class KeptBasis:
    """min <c, z> over {rows z <= b_ub, then = b_eq, lower <= z <= upper}; ``rows`` may be sparse."""

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
        self._model, self._A, self._split = model, rows, len(b_ub)
        self.basis: Any = None
        self.pivots = 0  # of the last answer

    def solve(self, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return a vertex and the dual solution of inequalities and equations; None if HiGHS finds none."""
        import highspy

        self._model.col_cost_ = cost
        highs = highspy.Highs()  # a reused one keeps its random numbers, which change the rounding
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
        z, y = self._polished(cost, np.array(solution.col_value), np.array(solution.row_dual))
        return z, y[: self._split], y[self._split :]

    def _polished(self, cost: np.ndarray, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both solutions recomputed from the basis, without the errors of up to 1e-8 of HiGHS."""
        columns, rows = self._status()
        basic, active, model = columns == BASIC, rows != BASIC, self._model
        if basic.sum() != active.sum():
            return z, y
        sides = np.where(columns == UPPER, model.col_upper_, model.col_lower_)
        z = np.where(basic | ~np.isfinite(sides), z, sides)
        if basic.any():
            bounds = np.where(rows == UPPER, model.row_upper_, model.row_lower_)[active]
            A = self._A[active]
            with suppress(RuntimeError, np.linalg.LinAlgError):  # singular
                z[basic], dual = _solved(A[:, basic], bounds - A[:, ~basic] @ z[~basic], cost[basic])
                y = np.zeros(len(y))
                y[active] = dual
        return z, y

    def _status(self) -> tuple[np.ndarray, np.ndarray]:
        basis = self.basis
        columns, rows = (np.array(list(map(int, s)), np.int8) for s in (basis.col_status, basis.row_status))
        return columns, rows

    def get_state(self) -> tuple[np.ndarray, np.ndarray] | None:
        return None if self.basis is None else self._status()

    def set_state(self, state: tuple[np.ndarray, np.ndarray] | None) -> None:
        import highspy

        self.basis = None
        if state is not None:
            self.basis = basis = highspy.HighsBasis()
            basis.col_status, basis.row_status = (
                [highspy.HighsBasisStatus(int(k)) for k in part] for part in state
            )
            basis.valid, basis.alien = True, False


def _solved(A: Any, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve A z = b and A'y = c."""
    if isinstance(A, np.ndarray):
        return np.linalg.solve(A, b), np.linalg.solve(A.T, c)
    from scipy.sparse.linalg import splu

    factors = splu(A.tocsc())
    return factors.solve(b), factors.solve(c, trans="T")
