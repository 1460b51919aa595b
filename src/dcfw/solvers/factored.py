"""Completion of a matrix from some of its entries, with factors in place of the matrix.

``minimize(functions.Observed(...), sets.NuclearBall(...))`` is solved as a problem for the vector of the
observed entries (:mod:`dcfw.sets.sampled`); the active set that makes up the solution makes up the matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw.functions.base import Function
from dcfw.functions.observed import Observed
from dcfw.result import Result
from dcfw.sets.base import Set
from dcfw.sets.sampled import SampledBall
from dcfw.sets.spectral import NuclearBall
from dcfw.solvers.active import RULES

MISSED = "Lanczos missed no singular value of a gradient that is larger than the one found"


class LowRankMatrix:
    """U diag(s) V^T, a matrix that is kept as its factors.

    >>> X = LowRankMatrix(np.ones((3, 1)), np.array([2.0]), np.ones((2, 1)))
    >>> X.shape, X[2, 1], float(X.toarray().sum())
    ((3, 2), 2.0, 12.0)
    """

    def __init__(self, U: np.ndarray, s: np.ndarray, V: np.ndarray) -> None:
        self.U, self.s, self.V = U, s, V
        self.shape = (len(U), len(V))
        self._left = U * s

    def __getitem__(self, place: Any) -> Any:
        """Return the entries at (i, j), integers or arrays of them."""
        i, j = place
        found = np.einsum("...k,...k->...", self._left[i], self.V[j])
        return float(found) if found.ndim == 0 else found

    def __matmul__(self, other: Any) -> np.ndarray:
        return np.asarray(self._left @ (self.V.T @ other))

    def toarray(self) -> np.ndarray:
        """Return the dense matrix."""
        return np.asarray(self._left @ self.V.T)


class FactoredResult(Result):
    """The result of a completion: ``x`` is a :class:`LowRankMatrix`.

    ``factors`` is (U, s, V), a thin singular value decomposition of x; ``predict(i, j)`` returns its entries.
    """

    factors: tuple[np.ndarray, np.ndarray, np.ndarray]

    def predict(self, i: Any, j: Any) -> Any:
        """Return the entries of x at rows i and columns j."""
        return self.x[np.asarray(i), np.asarray(j)]

    def _details(self) -> list[str]:
        return [f"    rank: {len(self.factors[1])}"]


def applies(phi: Function, domain: Set) -> bool:
    """Return whether the objective is a loss on entries over a nuclear-norm ball."""
    return isinstance(phi, Observed) and isinstance(domain, NuclearBall)


def sampled(phi: Any, domain: Any, options: dict[str, Any]) -> tuple[Function, SampledBall]:
    """Return the problem for the vector of the observed entries; refuse options that lose the factors."""
    if phi.shape != domain.shape:
        raise ValueError(f"objective is a loss on matrices of shape {phi.shape}, domain has {domain.shape}")
    for name, allowed in (
        ("method", ("auto", "dcfw", "boosted")),
        ("inner", ("auto", *RULES)),
        ("restarts", (1,)),
        ("checkpoint", (None,)),
    ):
        if options[name] not in allowed:
            values = " or ".join(map(repr, allowed))
            raise ValueError(f"{name} must be {values} for functions.Observed over a nuclear-norm ball")
    return phi.entries, SampledBall(domain, phi.places)


def factored(result: Result, domain: SampledBall) -> FactoredResult:
    """Return a result for the matrix."""
    factors = domain.factors(result.active_set)
    fields = {**result, "x": LowRankMatrix(*factors)}
    fields["conditional"] = fields["conditional"] or MISSED
    return FactoredResult(**fields, factors=factors)
