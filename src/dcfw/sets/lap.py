"""The linear assignment problem (LAP) for sequences of close cost matrices.

A solve starts from the column prices of the last one: rows whose pair is still tight keep it, and the others
are assigned by shortest augmenting paths.  ``kernels/native/lap.hpp`` has the algorithm and its reference;
without the extension :mod:`dcfw.kernels.lap` uses SciPy.

There is no tolerance: pairs are tight when the floating-point numbers are equal, and rounding is the only
error (of the order of ``eps max|C|`` in each price; none for integers, while the prices are integers below
2^53, as they are after a cold start).

The solver learns whether warm or cold starts are better: it counts the rows that it scans, prefers the start
that needed fewer recently, and tries the other one whenever the preferred one has cost 32 times the expected
cost of such a trial, so that learning takes about 3 % of the work.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw.kernels.lap import LARGEST, solver

State = tuple[np.ndarray, np.ndarray, np.ndarray]
_EXACT_INTEGER = 2**53
_COUNTERS = 5


def as_costs(C: Array, n: int) -> np.ndarray:
    """Return C as an n x n, C-contiguous float64 array, copied only if necessary."""
    C = to_numpy(_validate.array(C, "C", shape=(n, n), allow_inf=True, floating=False))
    if C.dtype.kind in "iu" and C.dtype.itemsize == 8:
        low, high = int(C.min()), int(C.max())
        if max(-low, high) > _EXACT_INTEGER:
            raise ValueError(
                f"C has integers from {low} to {high}, beyond 2^53 in magnitude, which float64 cannot tell "
                "apart; subtract a constant from C or divide it"
            )
    return np.require(C, dtype=np.float64, requirements=("C", "A"))


class Assignment:
    """A solver of n x n assignment problems that starts each solve from the prices of the last.

    The answer depends on the state only among ties.

    Attributes
    ----------
    u, v : (n,) float64 arrays
        The dual solution of the last call: ``u_i + v_j <= C_ij`` up to rounding, with equality on the
        assignment, so that ``u.sum() + v.sum()`` is the optimal cost.

    Examples
    --------
    >>> import numpy as np
    >>> solver = Assignment(3)
    >>> C = np.array([[5.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> solver(C)
    array([1, 0, 2])
    >>> float(solver.u.sum() + solver.v.sum())
    5.0
    >>> C[0, 1] = np.inf  # forbid a pair and start from the prices just found
    >>> solver(C)
    array([2, 1, 0])
    """

    def __init__(self, n: int) -> None:
        self.n = _validate.integer(n, "n", low=1)
        self._lap = solver(self.n)

    @property
    def u(self) -> np.ndarray:
        return np.asarray(self._lap.u)

    @property
    def v(self) -> np.ndarray:
        return np.asarray(self._lap.v)

    def get_state(self) -> State:
        """Return the prices, partners and counters from which the next solve starts."""
        return self.v, np.asarray(self._lap.columns), np.array(self._lap.counters, dtype=np.int64)

    def set_state(self, state: State) -> None:
        """Continue from a state that :meth:`get_state` returned; raise ValueError if it is invalid."""
        whose = f"state must be that of an Assignment({self.n})"
        try:
            prices, partners, counters = map(np.asarray, state)
        except (TypeError, ValueError):
            raise ValueError(f"{whose}: prices, partners and counters") from None
        kinds = (prices.dtype.kind, partners.dtype.kind, counters.dtype.kind)
        if kinds != ("f", "i", "i") or not prices.shape == partners.shape == (self.n,):
            raise ValueError(f"{whose}, with {self.n} prices and {self.n} partners")
        if not np.isfinite(prices).all():
            raise ValueError(f"{whose}, with finite prices")
        if (partners != -1).any() and not np.array_equal(np.sort(partners), np.arange(self.n)):
            raise ValueError(f"{whose}, with partners that are a permutation")
        if counters.shape != (_COUNTERS,) or counters.min() < 0 or counters.max() > _EXACT_INTEGER:
            raise ValueError(f"{whose}, with {_COUNTERS} counters from 0 to 2^53")
        prices, partners = np.ascontiguousarray(prices, np.float64), np.ascontiguousarray(partners, np.int64)
        self._lap.restore(prices, partners, counters.tolist())

    def __call__(self, C: Array) -> np.ndarray:
        """Return the columns ``p`` (a new array of intp) that minimise ``C[arange(n), p].sum()``.

        +Inf forbids a pair.  Arrays other than C-contiguous float64 are copied.  Raise ValueError for another
        shape, NaN or -Inf, finite entries beyond 2^1000, integers beyond 2^53 (which float64 cannot represent
        exactly), and if every assignment uses a forbidden pair.
        """
        found = self._lap.assign(C)  # which checks its argument faster than Python could
        if found is None:
            C = as_costs(C, self.n)
            found = self._lap.assign(C)
            if found is None:
                self._fail(C)
        return found  # type: ignore[no-any-return]

    def _fail(self, C: np.ndarray) -> NoReturn:
        wrong = np.argwhere(np.isnan(C) | np.isneginf(C)).tolist()
        if wrong:
            first = tuple(wrong[0])
            raise ValueError(
                f"C has the entry {C[first]} at {first}; costs must be finite, or +Inf for forbidden pairs"
            )
        if np.abs(C[np.isfinite(C)]).max(initial=0.0) > LARGEST:
            raise ValueError("C has finite entries beyond 2^1000 in magnitude, too near overflow; scale it")
        rows, columns = map(sorted, self._lap.blocked)
        raise ValueError(
            f"C is infeasible: every assignment uses a forbidden (+Inf) pair, because the {len(rows)} row(s) "
            f"{_some(rows)} have finite costs only in the {len(columns)} column(s) {_some(columns)}"
        )


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"[{shown}, ...]" if len(numbers) > 10 else f"[{shown}]"
