"""The alignment as a scikit-learn estimator: rows are words, and NaN in the target marks unknown entries.

X and y are the transposes of E1 and Y, and ``transform`` computes ``X @ rotation_.T``.  Scikit-learn would
drop the mask of a masked array: here it becomes NaN in the target, and is refused in the source.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw.align import retrieval
from dcfw.align.observations import refuse_masked, refuse_other_order

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(
        'MaskedProcrustes needs scikit-learn: pip install "dcfw[sklearn]"', name=_missing.name
    ) from None

_FLOATS = (np.float64, np.float32)


class MaskedProcrustes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Orthogonal map from one embedding to another, of which only some entries are known.

    Minimise 1/(2n) ||P o (X E1) - Y||_F^2 - lam ||X||_* over the matrices of spectral norm at most 1, where
    E1 and Y are the transposes of source and target and P o omits the missing entries, and take the
    orthogonal matrix nearest to the solution.

    Parameters
    ----------
    lam
        Weight of the nuclear norm, which pulls X towards orthogonal matrices.  The default, 1e-4 times the
        mean squared length of the source vectors, adapts to the scale of the data.
    method
        ``"dcfw"``, ``"boosted"``, ``"fw-k"`` or ``"fw-m"``, as for :func:`dcfw.align.align`.
    centre
        Subtract the mean of the rows from the source, and the mean of the known entries of each column from
        the target.  ``transform`` adds the latter.
    unit_rows
        Scale rows to norm 1 first.  The norm of a target row of which m of d entries are known is estimated
        as sqrt(d / m) times the norm of these.
    target_scale
        Multiplies the target in the fit.  If source and target are not related by a rotation (the
        least-squares map shrinks most directions, as between real languages) and few entries are known, a
        factor of 2 to 8 reduces overfitting; a very large one gives the rotation of a single polar factor.
    max_iter
        Maximum number of Frank-Wolfe steps, each a polar factor, which dominates the cost.  With 1 the
        rotation is the first vertex, the polar factor of the known entries times the source.
    tol
        Stop when the Frank-Wolfe gap is at most this fraction of the first one.  A fit that ends earlier
        issues scikit-learn's ``ConvergenceWarning``.

    Attributes
    ----------
    rotation_ : (d_target, d_source)
        Its rows or its columns, whichever are fewer, are orthonormal.  It is arbitrary where the data do not
        determine it: where source or target are zero, or a direction is never observed.
    result_ : Result
        The result of :func:`dcfw.align.align`: the relaxed solution, the certificate, the history.
    source_mean_, target_mean_ : arrays
        The subtracted means (zeros without ``centre``).
    n_features_in_, n_iter_ : int
        Dimension of the source; number of Frank-Wolfe steps.

    Examples
    --------
    >>> from dcfw.align import MaskedProcrustes
    >>> rng = np.random.default_rng(0)
    >>> source, rotation = rng.standard_normal((200, 3)), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    >>> target = source @ rotation.T
    >>> target[rng.random(target.shape) < 0.5] = np.nan
    >>> model = MaskedProcrustes().fit(source, target)
    >>> bool(np.allclose(model.rotation_, rotation, atol=1e-2))
    True
    >>> round(model.score(source, target), 3)
    1.0
    """

    def __init__(
        self,
        *,
        lam: float | None = None,
        method: str = "dcfw",
        centre: bool = False,
        unit_rows: bool = False,
        target_scale: float = 1.0,
        max_iter: int = 300,
        tol: float = 1e-4,
    ) -> None:
        self.lam = lam
        self.method = method
        self.centre = centre
        self.unit_rows = unit_rows
        self.target_scale = target_scale
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any = None) -> MaskedProcrustes:
        """Fit the map.

        Parameters
        ----------
        X : (n, d_source)
            The source: a vector in each row, without unknown entries.
        y : (n, d_target)
            The target vectors of the rows of X; unknown entries are NaN, or masked in a masked array.  A list
            of n numbers stands for n vectors of dimension 1.
        """
        from dcfw.align.solver import align

        max_iter = _validate.integer(self.max_iter, "max_iter", low=1)
        tol = _validate.scalar(self.tol, "tol", low=0.0, high=1.0)
        _validate.flag(self.centre, "centre")
        _validate.flag(self.unit_rows, "unit_rows")
        factor = _validate.scalar(self.target_scale, "target_scale", low=0.0, open_low=True)
        refuse_other_order(X, y, "index", "the rows of X and y", "y = y.loc[X.index]")
        source = self._source(X, reset=True)
        target = self._target(y, source)
        if np.isnan(target).all():
            raise ValueError("y (the target) must have at least one entry that is not NaN")
        if self.unit_rows:
            source, target = retrieval.unit_rows(source), _unit_rows_of_known(target)
        self.source_mean_ = np.zeros(source.shape[1], dtype=source.dtype)
        self.target_mean_ = np.zeros(target.shape[1], dtype=target.dtype)
        if self.centre:
            self.source_mean_ = source.mean(axis=0)
            known = ~np.isnan(target)
            total = np.where(known, target, 0.0).sum(axis=0)
            self.target_mean_ = total / np.maximum(known.sum(axis=0), 1).astype(target.dtype)
        E1 = np.ascontiguousarray((source - self.source_mean_).T)
        Y = np.ascontiguousarray(factor * (target - self.target_mean_).T)
        limits: dict[str, Any] = {"tol": 0.0, "rtol": tol, "maxiter": max_iter, "max_lmo": max_iter}
        self.result_ = align(E1, Y, lam=self.lam, method=self.method, **limits)
        self.rotation_ = self.result_.rotation
        self.n_iter_ = max(1, int(self.result_.n_lmo))
        gaps = self.result_.history["gap"]
        first = gaps[0] if len(gaps) else np.nan
        if not (self.result_.success or self.result_.gap <= tol * first):  # NaN if it was not measured
            reached = f"{np.min(gaps, initial=first) / first:.2g} times the first one"
            text = (
                f"MaskedProcrustes ended with a gap of {reached}, where tol={tol:g} was asked for: "
                f"{self.result_.message} The rotation is the best so far; for a better one take a larger "
                "max_iter, or accept a larger tol"
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X: Any) -> Array:
        """Map vectors into the target space."""
        check_is_fitted(self)
        source = self._source(X, reset=False)
        if self.unit_rows:
            source = retrieval.unit_rows(source)
        return (source - self.source_mean_) @ self.rotation_.T + self.target_mean_

    def inverse_transform(self, X: Any) -> Array:
        """Map target vectors back into the source space.

        This inverts ``transform`` if the rotation is square, up to the lengths that ``unit_rows`` changed.
        """
        check_is_fitted(self)
        refuse_masked(X, "X", "y")
        target = check_array(X, dtype=_FLOATS, input_name="X")
        if target.shape[1] != self.rotation_.shape[0]:
            fitted = f"MaskedProcrustes was fitted to {self.rotation_.shape[0]}"
            raise ValueError(f"X has {target.shape[1]} features, but {fitted}")
        return (target - self.target_mean_) @ self.rotation_ + self.source_mean_

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean cosine between the mapped source and the target.

        The cosine of a row is taken over its known entries; rows that have none, or are zero there, do not
        count.
        """
        mapped = self.transform(X)
        target = self._target(y, mapped)
        if target.shape[1] != mapped.shape[1]:
            raise ValueError(f"y (the target) must have {mapped.shape[1]} columns, got {target.shape[1]}")
        return retrieval.mean_cosine(mapped, target)

    def _source(self, X: Any, reset: bool) -> Array:
        refuse_masked(X, "X", "y")
        source = validate_data(self, X, reset=reset, dtype=_FLOATS, ensure_all_finite="allow-nan")
        missing = np.isnan(source).any(axis=1)
        if missing.any():
            raise ValueError(
                f"X (the source) contains NaN, the first in row {int(np.argmax(missing))}, but only entries "
                "of the target y may be unknown: leave out such rows of both"
            )
        return source

    def _target(self, target: Any, source: Array) -> Array:
        if target is None:
            raise ValueError(
                "MaskedProcrustes requires y to be passed, but the target y is None: give the vectors to "
                "map to, with NaN for entries that are not known"
            )
        options = {"dtype": source.dtype, "ensure_all_finite": "allow-nan", "ensure_2d": False}
        target = check_array(_validate.nan_for_masked(target, "y"), **options, input_name="y")
        if target.ndim == 1:
            target = target[:, None]
        check_consistent_length(source, target)
        return target

    @property
    def _n_features_out(self) -> int:
        return int(self.rotation_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _unit_rows_of_known(target: Array) -> Array:
    """Return target with rows of (estimated) norm 1; rows with only NaN or zeros are unchanged."""
    target = retrieval.moderate_rows(target)
    known = ~np.isnan(target)
    mean_square = np.nansum(target**2, axis=1) / np.maximum(known.sum(axis=1), 1)
    norms = np.sqrt(target.shape[1] * mean_square)[:, None].astype(target.dtype)
    return target / np.where(norms > 0.0, norms, 1.0)
