"""The linear assignment problem (LAP), solved fast for sequences of close cost matrices.

Frank-Wolfe over doubly stochastic matrices asks, at every step, for the permutation that minimises
``sum_i C[i, p(i)]``, and the matrix C of one step is close to that of the step before.  The dual problem
carries what can be reused: prices u (rows) and v (columns) with ``u_i + v_j <= C_ij`` for all pairs, and a
permutation is optimal if it uses *tight* pairs (equality) only.  One solve has four parts:

1. **Row prices.** Any v is a feasible start with ``u_i = min_j (C_ij - v_j)``: so the v of the last solve
   may be kept whatever the new matrix is.  A cold start is the same thing with v = 0.
2. **Old partners.** Rows whose old column is still tight keep it; the others take a free tight column.
3. **Column prices.** The columns that are left, which nobody wants, are too expensive: their v_j is
   raised to ``min_i (C_ij - u_i)``, which makes a pair of each of them tight and all later searches shorter
   (in Frank-Wolfe sequences by a fifth to a factor of three; it also replaces Jonker and Volgenant's
   augmenting row reduction, which cost more than it saved here).
4. **Shortest augmenting paths** (Dijkstra on the reduced costs ``C_ij - u_i - v_j``, Jonker and Volgenant's
   dense form) from each row that is still free.

All loops over a row are contiguous and free of branches, so that they vectorise; short rows have vector
instructions of their own (:mod:`dcfw.sets.lap_short`).  There is no tolerance:
pairs are tight when the floating-point numbers are equal, and rounding is the only error (of the order
of ``eps max|C|`` in each price; none for integers, while the prices are integers below 2^53, as they are
after a cold start).

Which start is better is learnt on the way: :func:`solve` counts the rows that it scans, prefers the start
that needed fewer lately, and tries the other one again whenever the preferred one has cost 32 times what
such a trial is expected to cost, so that learning takes about 3 % of the work.

:class:`Assignment` is the Python side; :func:`solve` is the compiled kernel, for compiled callers.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numba import types
from numba.extending import intrinsic

from dcfw import _validate
from dcfw._arrays import Array, to_numpy
from dcfw._compiling import njit
from dcfw.sets.lap_short import WIDTHS, solve_16, solve_32, solve_48, solve_64

OPTIMAL, NOT_A_COST, TOO_LARGE, INFEASIBLE, WRONG_SIZE = 0, 1, 2, 3, 4
"""What :func:`solve` returns."""

# Rows of the two workspaces.
_U, _V, _SLACK, _DIST, _COL_DIST, _COL_PRICE, _ROW_SHIFT, _REALS = range(8)
_COLUMN_OF, _ROW_OF, _FREE, _TAKEN, _COLS, _ROWS, _MEMORY, _INDICES = range(8)
# Entries of the row _MEMORY.
_READY, _WORK, _SIZE, _SPENT, _WARM_MEAN, _COLD_MEAN, _MEMORIES = range(7)

_TRIAL = 32  # a trial of the other start is due after this many times its expected work
_UNIT = 16  # the means of the work are integers in sixteenths
_MAX_PRICE = 8.0  # prices beyond this many times max|C| would cost the solve more than 3 bits
_INF_BITS = 0x7FF0000000000000
_ABS_BITS = 0x7FFFFFFFFFFFFFFF
_LARGEST = 2.0**1000  # sums of a few thousand such numbers still are finite
_EXACT_INTEGER = 2**53
_FLOAT = np.dtype(np.float64)


@intrinsic  # type: ignore[untyped-decorator]
def _least(typing_context: Any, x: Any, y: Any) -> Any:
    """Return the smaller of two doubles that are not NaN.

    LLVM vectorises a minimum over an array only if the comparison is marked as free of NaN and of
    signed zeros, which Numba does not do by itself.  Both hold here and the result is exact.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        smaller = builder.fcmp_ordered("<", *args, flags=("nnan", "nsz"))
        return builder.select(smaller, *args, flags=("nnan", "nsz"))

    return types.float64(types.float64, types.float64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _bits(typing_context: Any, x: Any) -> Any:
    """Return the 64 bits of a double as an integer (non-negative doubles have the order of their bits)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _from_bits(typing_context: Any, x: Any) -> Any:
    """Return the double of 64 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@njit(forceinline=True)
def _magnitude(C: Array) -> tuple[int, float, bool]:
    """Return a status (NaN and -Inf are errors), the largest finite ``|C_ij|``, and if all are finite."""
    n = C.shape[0]
    top = np.int64(0)
    for i in range(n):
        for j in range(n):
            top = max(top, _bits(C[i, j]) & _ABS_BITS)
    all_finite = bool(top < _INF_BITS)
    if all_finite:
        largest = _from_bits(top)
    else:
        largest = 0.0
        for i in range(n):
            for j in range(n):
                c = C[i, j]
                if np.isnan(c) or c == -np.inf:
                    return NOT_A_COST, 0.0, False
                if c < np.inf:
                    largest = max(largest, abs(c))
    if largest > _LARGEST:
        return TOO_LARGE, largest, all_finite
    return OPTIMAL, largest, all_finite


@njit(forceinline=True)
def _pick(real: Array, least: float, index: Array, width: int) -> int:
    """Return a column at the distance ``least``: j itself if one is free, width + j if all are taken."""
    k = 2 * width
    for j in range(width):
        key = index[_TAKEN, j] + j if real[_DIST, j] == least else 2 * width
        k = key if key < k else k
    return k


@njit()
def _solve_long(C: Array, real: Array, index: Array, n: int) -> tuple[int, int]:
    """Return the status, and how many rows were scanned: what :mod:`dcfw.sets.lap_short` does for short rows.

    Where there is no assignment the second number is that of the columns in the last search.
    """
    # The search tree: its k-th column is index[_COLS, k] with distance real[_COL_DIST, k] and price
    # real[_COL_PRICE, k], its k-th row index[_ROWS, k], whose costs are shifted by real[_ROW_SHIFT, k].
    # (Rows of the workspaces are not bound to names: each view would cost two atomic reference counts.)
    width = real.shape[1]

    # Row prices and old partners; the slack of each column is found while the row is in the cache.
    for j in range(width):
        index[_TAKEN, j] = 0  # width for a column that has a row, so that _pick prefers the free ones
        real[_SLACK, j] = np.inf
    n_free = 0
    for i in range(n):
        least = np.inf
        for j in range(width):
            least = _least(C[i, j] - real[_V, j], least)
        real[_U, i] = least
        if least == np.inf:
            index[_ROWS, 0] = i
            return INFEASIBLE, 0
        for j in range(width):
            real[_SLACK, j] = _least(C[i, j] - least, real[_SLACK, j])
        j = index[_COLUMN_OF, i]
        if 0 <= j < n and index[_TAKEN, j] == 0 and C[i, j] - real[_V, j] == least:
            index[_TAKEN, j] = width
            index[_ROW_OF, j] = i
        else:
            index[_FREE, n_free] = i
            n_free += 1
    n_candidates, n_free = n_free, 0
    for q in range(n_candidates):
        i = index[_FREE, q]
        k = 2 * width
        for j in range(width):
            key = index[_TAKEN, j] + j if C[i, j] - real[_V, j] == real[_U, i] else 2 * width
            k = key if key < k else k
        if k < width:
            index[_TAKEN, k] = width
            index[_ROW_OF, k] = i
            index[_COLUMN_OF, i] = k
        else:
            index[_FREE, n_free] = i
            n_free += 1

    # Column prices.
    for j in range(width):
        if index[_TAKEN, j] == 0 and real[_SLACK, j] < np.inf:
            real[_V, j] = real[_SLACK, j]

    # Shortest augmenting paths.  A column that joins the tree gets v = -Inf and d = Inf for the rest of
    # the search: its candidates are +Inf then, and the loop needs no test for it.
    work = 0
    for q in range(n_free):
        i = index[_FREE, q]
        shift = real[_U, i]  # distances from u_i keep tight pairs at exactly 0
        least = np.inf
        for j in range(width):
            c = C[i, j] - real[_V, j] - shift
            real[_DIST, j] = c
            least = _least(c, least)
        index[_ROWS, 0] = i
        real[_ROW_SHIFT, 0] = shift
        size = 0
        while True:
            if least == np.inf:
                return INFEASIBLE, size
            j = _pick(real, least, index, width)
            if j < width:
                break
            j -= width
            i = index[_ROW_OF, j]
            shift = (C[i, j] - real[_V, j]) - least
            index[_COLS, size] = j
            real[_COL_DIST, size] = least
            real[_COL_PRICE, size] = real[_V, j]
            size += 1
            index[_ROWS, size] = i
            real[_ROW_SHIFT, size] = shift
            real[_V, j] = -np.inf
            real[_DIST, j] = np.inf
            least = np.inf
            for j in range(width):
                c = _least(C[i, j] - real[_V, j] - shift, real[_DIST, j])
                real[_DIST, j] = c
                least = _least(c, least)
        work += size + 1
        for k in range(size):
            real[_V, index[_COLS, k]] = real[_COL_PRICE, k] + (real[_COL_DIST, k] - least)
        # Augment from the free column back to the source.  The predecessor of a column is the row of the
        # tree whose candidate equals its distance: found again here, it need not be stored in the scans.
        index[_TAKEN, j] = width
        price, distance = real[_V, j], least
        k = size
        while True:
            while k > 0 and C[index[_ROWS, k], j] - price - real[_ROW_SHIFT, k] != distance:
                k -= 1
            index[_ROW_OF, j] = index[_ROWS, k]
            index[_COLUMN_OF, index[_ROWS, k]] = j
            if k == 0:
                break
            k -= 1
            j, price, distance = index[_COLS, k], real[_COL_PRICE, k], real[_COL_DIST, k]
    return OPTIMAL, work


@njit()
def solve(C: Array, real: Array, index: Array) -> int:
    """Solve one LAP from the state in a workspace; for callers that are compiled themselves.

    Parameters
    ----------
    C : (n, n) float64 array, C-contiguous
        The costs; only read.  +Inf forbids a pair.
    real, index : arrays from ``workspace(n)``
        The state, read and written.  After an optimal solve

        - ``index[0, :n]`` is the column of each row, ``index[1, :n]`` the row of each column;
        - ``real[0, :n]`` is u and ``real[1, :n]`` is v, finite, with ``u_i + v_j <= C_ij`` up to rounding
          and equality on the assignment;
        - ``index[6, 1]`` is the work: the number of rows scanned by the path searches.

        The caller may overwrite ``index[0, :n]`` with any columns (they are tried first) and
        ``real[1, :n]`` with any v: neither can make an answer wrong.  All else belongs to the kernel.
        ``index[6, 0] = 0`` forces a cold start.

    Returns
    -------
    int
        ``OPTIMAL`` (0); ``NOT_A_COST`` (1) if C has NaN or -Inf, ``TOO_LARGE`` (2) if a finite ``|C_ij|``
        exceeds 2^1000, ``INFEASIBLE`` (3) if every assignment uses a forbidden pair (then the rows
        ``index[5, :k + 1]`` have finite costs in the columns ``index[4, :k]`` only, k = ``index[6, 1]``).
        After a failure u and v are 0 and the next start is cold.  ``WRONG_SIZE`` (4) if C is not n x n.

    Notes
    -----
    Allocates nothing, never raises, and holds no lock (``nogil``): one workspace a
    thread is enough to run many at once.
    """
    n = C.shape[0]
    if n != index[_MEMORY, _SIZE] or C.shape[1] != n:
        return WRONG_SIZE
    width = real.shape[1]
    ready = index[_MEMORY, _READY] == 1
    index[_MEMORY, _READY] = 0
    status, largest, _ = _magnitude(C)
    warm_mean, cold_mean = index[_MEMORY, _WARM_MEAN], index[_MEMORY, _COLD_MEAN]
    prefer_warm = warm_mean <= cold_mean
    trial = index[_MEMORY, _SPENT] > _TRIAL * max(warm_mean, cold_mean)
    warm = ready and prefer_warm != trial
    if warm:
        highest = 0.0
        for j in range(n):
            highest = max(highest, abs(real[_V, j]))
            if not np.isfinite(real[_V, j]):
                highest = np.inf
        # Prices of another scale are a feasible start too, but would swallow the digits of C.
        warm = highest <= _MAX_PRICE * largest
    if not warm:
        for j in range(n):
            real[_V, j] = 0.0
    if status != OPTIMAL:
        for j in range(n):
            real[_U, j] = real[_V, j] = 0.0
        return int(status)
    if width > n:
        padded = real[_REALS:]
        for i in range(n):
            for j in range(n):
                padded[i, j] = C[i, j]
        C = padded

    if width == 16:
        status, work = solve_16(C, real, index, n)
    elif width == 32:
        status, work = solve_32(C, real, index, n)
    elif width == 48:
        status, work = solve_48(C, real, index, n)
    elif width == 64:
        status, work = solve_64(C, real, index, n)
    else:
        status, work = _solve_long(C, real, index, n)
    if status == INFEASIBLE:
        index[_MEMORY, _WORK] = work
        for j in range(n):
            real[_U, j] = real[_V, j] = 0.0
        return INFEASIBLE
    for i in range(n):
        real[_U, i] = C[i, index[_COLUMN_OF, i]] - real[_V, index[_COLUMN_OF, i]]

    mean = _WARM_MEAN if warm else _COLD_MEAN
    if index[_MEMORY, mean] == 0:
        index[_MEMORY, mean] = _UNIT * work
    else:
        index[_MEMORY, mean] += (_UNIT * work - index[_MEMORY, mean]) // 4
    if warm == prefer_warm:
        index[_MEMORY, _SPENT] += _UNIT * work
    else:
        index[_MEMORY, _SPENT] = 0
    index[_MEMORY, _WORK] = work
    index[_MEMORY, _READY] = 1
    return OPTIMAL


def workspace(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return fresh arrays ``real, index`` for :func:`solve` on n x n matrices (the first start is cold)."""
    width = next((width for width in WIDTHS if width >= n), n)  # short rows are padded with +Inf
    real = np.zeros((_REALS + (n if width > n else 0), width))
    real[_REALS:] = np.inf
    index = np.zeros((_INDICES, width), dtype=np.intp)  # width >= _MEMORIES
    index[_COLUMN_OF] = index[_ROW_OF] = np.arange(width)
    index[_MEMORY, _SIZE] = n
    return real, index


def as_costs(C: Array, n: int) -> np.ndarray:
    """Return C as an n x n, C-contiguous, writeable float64 array, a copy only where it has to be."""
    if type(C) is np.ndarray and C.dtype is _FLOAT and C.shape == (n, n) and C.flags.carray:
        return C
    C = to_numpy(_validate.array(C, "C", shape=(n, n), allow_inf=True, floating=False))
    if C.dtype.kind in "iu" and C.dtype.itemsize == 8:
        low, high = int(C.min()), int(C.max())
        if max(-low, high) > _EXACT_INTEGER:
            raise ValueError(
                f"C has integers from {low} to {high}, beyond 2^53 in magnitude, which float64 cannot tell "
                "apart; subtract a constant from C or divide it"
            )
    return np.require(C, dtype=_FLOAT, requirements=("C", "A", "W"))


class Assignment:
    """A solver of n x n assignment problems that starts each solve from the prices of the last.

    Parameters
    ----------
    n : int
        The number of rows and columns.

    Attributes
    ----------
    u, v : (n,) float64 arrays
        The dual solution of the last call: ``u_i + v_j <= C_ij`` up to rounding, with equality on the
        assignment, so that ``u.sum() + v.sum()`` is the optimal cost.  Views, overwritten by the next call.
    work : int
        The number of rows that the path searches of the last call scanned.

    Notes
    -----
    An object serves one thread.  The answer never depends on the state except among ties.

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
        self._shape = (self.n, self.n)
        self._real, self._index = workspace(self.n)
        self._columns = self._index[_COLUMN_OF, : self.n]
        self.u = self._real[_U, : self.n]
        self.v = self._real[_V, : self.n]

    @property
    def work(self) -> int:
        return int(self._index[_MEMORY, _WORK])

    def reset(self) -> None:
        """Forget the past: the next solve starts cold."""
        real, index = workspace(self.n)
        self._real[:], self._index[:] = real, index

    def get_state(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a copy of all that the next solve starts from."""
        return self._real.copy(), self._index.copy()

    def set_state(self, state: tuple[np.ndarray, np.ndarray]) -> None:
        """Go on from a state that :meth:`get_state` returned."""
        real, index = state
        if real.shape != self._real.shape or index.shape != self._index.shape:
            raise ValueError(f"state must be that of an Assignment({self.n})")
        self._real[:], self._index[:] = real, index

    def __call__(self, C: Array) -> np.ndarray:
        """Return the columns ``p`` (a fresh array of intp) that minimise ``C[arange(n), p].sum()``.

        Parameters
        ----------
        C : (n, n) array of real numbers
            The costs.  +Inf forbids a pair.  Anything but C-contiguous float64 is copied.

        Raises
        ------
        ValueError
            If C has another shape, NaN or -Inf, finite entries beyond 2^1000 or integers beyond 2^53
            (which float64 cannot tell apart), or if it is infeasible: every assignment uses a forbidden
            pair.
        """
        # The kernel checks the size and the values; what is left for Python is kept to a fraction of 1 us.
        if not (type(C) is np.ndarray and C.dtype is _FLOAT and C.ndim == 2 and C.flags.carray):
            C = as_costs(C, self.n)
        status = solve(C, self._real, self._index)
        if status != OPTIMAL:
            self._fail(C, status)
        return self._columns.copy()

    def _fail(self, C: np.ndarray, status: int) -> NoReturn:
        if status == WRONG_SIZE:
            raise ValueError(f"C must have shape {self._shape}, got {C.shape}")
        if status == NOT_A_COST:
            first = tuple(int(k) for k in np.argwhere(np.isnan(C) | np.isneginf(C))[0])
            raise ValueError(
                f"C has the entry {C[first]} at {first}; costs must be finite, or +Inf for forbidden pairs"
            )
        if status == TOO_LARGE:
            raise ValueError("C has finite entries beyond 2^1000 in magnitude, too near overflow; scale it")
        size = int(self._index[_MEMORY, _WORK])
        rows = sorted(self._index[_ROWS, : size + 1].tolist())
        columns = sorted(self._index[_COLS, :size].tolist())
        raise ValueError(
            f"C is infeasible: every assignment uses a forbidden (+Inf) pair, because the {len(rows)} row(s) "
            f"{_some(rows)} have finite costs only in the {len(columns)} column(s) {_some(columns)}"
        )


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"[{shown}, ...]" if len(numbers) > 10 else f"[{shown}]"


def assign(C: Array) -> np.ndarray:
    """Return the columns of a minimum-cost assignment of the square matrix C, from a cold start.

    For a sequence of close matrices an :class:`Assignment` is several times faster.  The same input is
    accepted.

    Examples
    --------
    >>> assign([[2, 1], [1, 3]])
    array([1, 0])
    """
    C = _validate.array(C, "C", ndim=2, allow_inf=True, floating=False)
    if C.shape[0] != C.shape[1] or C.shape[0] == 0:
        raise ValueError(
            f"C must be a square matrix with at least one row, got shape {tuple(C.shape)}; pad a rectangular "
            "one with constant rows or columns"
        )
    return Assignment(C.shape[0])(C)
