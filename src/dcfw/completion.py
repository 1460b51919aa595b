"""Matrix completion as a scikit-learn estimator, with (row, column) pairs as samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw import functions, sets
from dcfw._minimize import minimize

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_array, check_is_fitted, check_X_y
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(
        'MatrixCompletion needs scikit-learn: pip install "dcfw[sklearn]"', name=_missing.name
    ) from None

__all__ = ["MatrixCompletion"]


class MatrixCompletion(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict entries of a low-rank matrix from observed ones.

    Minimises the loss of the observed entries over a nuclear-norm ball, with the matrix in factored form
    (:class:`dcfw.functions.Observed`).  Targets are centred first, unless the loss is logistic.

    Parameters
    ----------
    radius
        The maximum nuclear norm, to be chosen by cross-validation.  Default: 8 times the largest singular
        value of the matrix with zeros for unobserved entries.
    loss, delta
        As in :class:`dcfw.functions.Observed`.
    shape
        The shape of the matrix; default: the smallest one for the pairs in ``fit``.  Pairs outside it are
        predicted by the mean.
    max_iter
        The maximum number of oracle calls (leading singular pairs of a sparse matrix).
    tol
        Stop when the Frank-Wolfe gap is at most this fraction of the first one.

    Attributes
    ----------
    U_, s_, V_ : arrays
        The factors of the matrix U diag(s) V^T.
    mean_ : float
        The mean that is added to its entries.
    result_ : FactoredResult
        The result of :func:`dcfw.minimize`.
    n_features_in_, n_iter_ : int
        2, and the number of oracle calls.

    Examples
    --------
    >>> from dcfw.completion import MatrixCompletion
    >>> rng = np.random.default_rng(0)
    >>> matrix = np.outer(rng.standard_normal(30), rng.standard_normal(20))
    >>> pairs = np.argwhere(rng.random(matrix.shape) < 0.5)
    >>> model = MatrixCompletion(radius=float(np.linalg.norm(matrix))).fit(pairs, matrix[tuple(pairs.T)])
    >>> hidden = np.argwhere(np.ones(matrix.shape))
    >>> model.score(hidden, matrix[tuple(hidden.T)]) > 0.95
    True
    """

    def __init__(
        self,
        *,
        radius: float | None = None,
        loss: str = "squared",
        delta: float = 1.0,
        shape: tuple[int, int] | None = None,
        max_iter: int = 200,
        tol: float = 1e-3,
    ) -> None:
        self.radius, self.loss, self.delta = radius, loss, delta
        self.shape, self.max_iter, self.tol = shape, max_iter, tol

    def fit(self, X: Any, y: Any) -> MatrixCompletion:
        """Fit the factors to entries y at the pairs X, an array of integers with two columns."""
        X, y = check_X_y(X, y, dtype=None, y_numeric=True)
        pairs = _pairs(X)
        rows, cols = pairs.T
        shape = self.shape if self.shape is not None else (int(rows.max()) + 1, int(cols.max()) + 1)
        self.mean_ = 0.0 if self.loss == "logistic" else float(np.mean(y))
        loss = functions.Observed(rows, cols, y - self.mean_, shape, self.loss, self.delta)
        radius = (8.0 * loss.largest() or 1.0) if self.radius is None else self.radius
        domain = sets.NuclearBall(shape, radius=radius)
        self.result_ = minimize(loss, domain, tol=0.0, rtol=self.tol, max_lmo=self.max_iter)
        self.U_, self.s_, self.V_ = self.result_.factors
        self.n_features_in_, self.n_iter_ = 2, self.result_.n_lmo
        return self

    def score(self, X: Any, y: Any) -> float:
        """Return the coefficient of determination of the predictions at the pairs X."""
        return float(super().score(X, y))

    def predict(self, X: Any) -> np.ndarray:
        """Return the matrix's entries at the pairs X."""
        check_is_fitted(self)
        pairs = _pairs(check_array(X, dtype=None))
        known = (pairs >= 0).all(axis=1) & (pairs < (len(self.U_), len(self.V_))).all(axis=1)
        found = np.full(len(pairs), self.mean_)
        found[known] += self.result_.predict(*pairs[known].T)
        return found


def _pairs(X: np.ndarray) -> np.ndarray:
    if X.shape[1] != 2:
        raise ValueError(f"X must have two columns, the row and the column of an entry, got {X.shape[1]}")
    whole = X.astype(np.int64)
    if not (whole == X).all() or (whole < 0).any():
        raise ValueError("X must consist of integers, the rows and columns of entries, from 0 on")
    return np.asarray(whole)
