"""Assignments to a tolerance, by auction, with a certificate.

Rows bid for columns: a free row takes the column of least ``C_ij + p_j``, raises its price p_j until the
second best column would be as good, and by eps more, and whoever had the column is free again.  Each row
then is within eps of its best choice, so the assignment is within ``n eps`` of the optimum (Bertsekas).
Large eps gives fast and rough answers, so eps starts large and shrinks (eps-scaling).

What is returned is not ``n eps`` but what the prices prove.  Weak duality says that
``sum_i min_j (C_ij + p_j) - sum_j p_j`` is at most the optimum, whatever the prices are; hence the sum of
the *slacks* ``C_ip(i) + p_p(i) - min_j (C_ij + p_j)`` of the rows bounds the error of the assignment.
Rounding is accounted for, and a run stops as soon as that bound is small enough, at once if the last
assignment with the last prices still passes.

``Birkhoff(n, accuracy=...)`` has it as an inexact oracle.  It is not the default, because over whole runs on
QAPLIB the exact :class:`dcfw.sets.lap.Assignment` is faster: Frank-Wolfe and DC-FW on sko100a, tho150 and
tai256c, from a random start until the gap has fallen to a twentieth, took 1.3 to 2.6 times as long with
auctions to a hundredth of the first gap (``python -m bench lap``).  At n = 600 the two were about even, and
with the distances of a grid of 1000 points Frank-Wolfe from the barycentre took 0.8 s with auctions and 1.1 s
without (random data took 2.3 s and 2.0 s; one run each).  A single auction wins where
an error of a hundredth of the *cost* will do, in the sequences of sko100a by 1.3 to 3 times, but the gap is
far smaller than the cost; and from a cold start where the costs are nearly products of a row's and a column's
number, 4 times for n = 300 and 10 times for n = 1000 (with independent costs it takes 6 times as long).
"""

from __future__ import annotations

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array
from dcfw._compiling import njit
from dcfw.sets.lap_numba import NOT_A_COST, OPTIMAL, TOO_LARGE, _least, _magnitude, as_costs

_EPS = float(np.finfo(np.float64).eps)
_SUBNORMAL = 5e-324
_SHRINK = 5.0  # eps-scaling factor; 4 to 10 are alike
_MAX_PRICE = 8.0  # prices beyond this many times max|C| would swallow its digits


@njit(forceinline=True)
def _bound(C: Array, prices: Array, column_of: Array, slack: Array) -> float:
    """Fill in the slack of each row and return a bound on the error, rounding included."""
    n = C.shape[0]
    total, size = 0.0, 0.0
    for i in range(n):
        best = np.inf
        for j in range(n):
            best = _least(C[i, j] + prices[j], best)
        own = C[i, column_of[i]] + prices[column_of[i]]
        slack[i] = own - best
        total += slack[i]
        size += abs(own) + abs(best)
    # Each sum C + p is off by eps/2 of itself, each term of the two totals by eps/2 of what it adds to.
    return float((total + _EPS * size) * (1.0 + n * _EPS))


@njit()
def approximate(
    C: Array, tol: float, prices: Array, column_of: Array, row_of: Array, slack: Array, free: Array
) -> tuple[int, float]:
    """Auction to the tolerance ``tol``, for callers that are compiled themselves.

    ``C`` is an n x n C-contiguous float64 array, only read.  ``prices``, ``slack`` (float64) and
    ``column_of``, ``row_of``, ``free`` (intp) have n entries; ``column_of`` must be a permutation and
    ``prices`` may hold anything (0 for a cold start).  Returns ``(status, bound)`` with the statuses of
    ``dcfw.sets.lap`` (``NOT_A_COST`` includes +Inf); the assignment is in ``column_of``, its inverse in
    ``row_of``, and ``cost - optimum <= bound``.  ``bound <= tol`` unless ``tol`` is below what rounding
    allows.
    """
    n = C.shape[0]
    status, largest, all_finite = _magnitude(C)
    if status == OPTIMAL and not all_finite:
        status = NOT_A_COST
    if status != OPTIMAL:
        return status, np.inf
    low, high, finite = np.inf, -np.inf, True
    for j in range(n):
        low, high = min(low, prices[j]), max(high, prices[j])
        finite = finite and np.isfinite(prices[j])
    for j in range(n):
        if finite and high - low <= _MAX_PRICE * largest:
            prices[j] -= low  # bids only raise prices: without this they would drift away
        else:
            prices[j] = 0.0
    bound = _bound(C, prices, column_of, slack)
    # A bid must raise a price by more than rounding, or the bidding would never end; prices may reach
    # (n + 8) max|C|, and tol / n may underflow to 0.
    smallest = max(0.9 * tol / n, 16.0 * n * _EPS * largest, _SUBNORMAL)
    eps = 0.0
    for i in range(n):
        eps = max(eps, slack[i])
    eps = max(min(eps, largest) / _SHRINK, smallest)
    while bound > tol:
        # Rows within eps of their best choice stay; the others are free and bid.
        n_free = 0
        for j in range(n):
            row_of[j] = -1
        for i in range(n):
            if slack[i] <= eps:
                row_of[column_of[i]] = i
            else:
                free[n_free] = i
                n_free += 1
        while n_free > 0:
            i = free[n_free - 1]
            best = np.inf
            for j in range(n):
                best = _least(C[i, j] + prices[j], best)
            k = n
            for j in range(n):
                key = j if C[i, j] + prices[j] == best else n
                k = key if key < k else k
            second = np.inf
            for j in range(k):
                second = _least(C[i, j] + prices[j], second)
            for j in range(k + 1, n):
                second = _least(C[i, j] + prices[j], second)
            if second < np.inf:  # it is +Inf for n = 1 only, where there is nobody to outbid
                prices[k] += (second - best) + eps
            if row_of[k] >= 0:
                free[n_free - 1] = row_of[k]
            else:
                n_free -= 1
            row_of[k] = i
            column_of[i] = k
        bound = _bound(C, prices, column_of, slack)
        if eps <= smallest:
            break
        eps = max(eps / _SHRINK, smallest)
    for i in range(n):
        row_of[column_of[i]] = i
    return OPTIMAL, bound


class Auction:
    """A solver of n x n assignment problems to a tolerance, started from the prices of the last solve.

    Parameters
    ----------
    n : int
        The number of rows and columns.

    Attributes
    ----------
    prices : (n,) float64 array
        The prices of the columns after the last call; overwritten by the next.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[5.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> columns, error = Auction(3)(C, tol=0.5)  # the costs are integers: an error below 1 means none
    >>> columns, error < 1.0
    (array([1, 0, 2]), True)
    """

    def __init__(self, n: int) -> None:
        self.n = _validate.integer(n, "n", low=1)
        self.prices = np.zeros(self.n)
        self._slack = np.zeros(self.n)
        self._column_of = np.arange(self.n)
        self._row_of = np.arange(self.n)
        self._free = np.arange(self.n)

    def __call__(self, C: Array, tol: float) -> tuple[np.ndarray, float]:
        """Return columns and a certified bound on how far their cost is above the least.

        Parameters
        ----------
        C : (n, n) array of finite real numbers
            The costs (forbidden pairs are for the exact solver only).
        tol : float
            The error to stop at, positive.  The bound is at most ``tol``, unless that is below what
            rounding allows (about ``16 n^2 eps max|C|``); then it is what was reached.
        """
        tol = _validate.scalar(tol, "tol", low=0.0, open_low=True)
        C = as_costs(C, self.n)
        status, bound = approximate(
            C, tol, self.prices, self._column_of, self._row_of, self._slack, self._free
        )
        if status == TOO_LARGE:
            raise ValueError("C has finite entries beyond 2^1000 in magnitude, too near overflow; scale it")
        if status == NOT_A_COST:
            raise ValueError(
                "C has Inf or NaN entries; an auction needs finite costs (dcfw.sets.lap.Assignment accepts "
                "+Inf for forbidden pairs)"
            )
        return self._column_of.copy(), bound

    def get_state(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a copy of all that the next solve starts from."""
        return self.prices.copy(), self._column_of.copy()

    def set_state(self, state: tuple[np.ndarray, np.ndarray]) -> None:
        """Go on from a state that :meth:`get_state` returned."""
        prices, columns = state
        if prices.shape != self.prices.shape or sorted(columns.tolist()) != list(range(self.n)):
            raise ValueError(f"state must be that of an Auction({self.n})")
        self.prices[:], self._column_of[:] = prices, columns
