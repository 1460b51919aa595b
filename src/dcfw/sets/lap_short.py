"""Assignment problems with short rows: a row is a few vectors, a set of columns the bits of an integer.

:func:`solver` returns the core of :func:`dcfw.sets.lap.solve` for rows of 16, 32, 48 or 64 numbers, with the
same arithmetic as for longer ones, and so with the same answers to the last bit.  On rows this short the
loops that a compiler makes take longer to begin and to end than to run, and the bookkeeping between them
takes as long again.  So what is done with a row is written down here as vector instructions, without loops:

``_price_row``          the price of a row, and which columns have it
``_raise_prices``       the prices of columns that nobody wants
``_begin``, ``_go_on``  a step of Dijkstra's algorithm: a row lowers the distances of the columns
``_settle``             the prices after a path has been found

A path search then has no branch but the one that ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dcfw._arrays import Array
from dcfw._compiling import njit

WIDTHS = (16, 32, 48, 64)
"""How many numbers a row may have; shorter ones are padded with +Inf."""

OPTIMAL, INFEASIBLE = 0, 3

# Rows of the two workspaces, as in dcfw.sets.lap.  The slacks have served when the searches begin.
_U, _V, _SLACK, _DIST = range(4)
_FROM = _SLACK
_COLUMN_OF, _ROW_OF, _FREE, _TIGHT, _COLS, _ROWS = range(6)

_LANES = 8
_NUMBER, _INTEGER, _PLACE = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_NUMBER, _LANES)
_PAIR = types.Tuple((types.float64, types.int64))
_ORDERED = ("nnan", "nsz")  # there is no NaN, and -0.0 is as good as 0.0


class _Rows:
    """Writes instructions for rows of one width, in parts of eight numbers."""

    def __init__(self, context: Any, builder: Any, width: int) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.parts = range(width // _LANES)
        self.infinity = self.all(ir.Constant(_NUMBER, float("inf")))

    def of(self, array: Any, kind: Any, i: Any) -> list[Any]:
        """Return pointers to the parts of an array's row i."""
        data = cgutils.create_struct_proxy(kind)(self.context, self.builder, array).data
        i = ir.Constant(_INTEGER, i) if isinstance(i, int) else i
        start = self.builder.mul(i, ir.Constant(_INTEGER, self.width))
        places = (self.builder.add(start, ir.Constant(_INTEGER, _LANES * k)) for k in self.parts)
        return [self.builder.bitcast(self.builder.gep(data, [p]), _VECTOR.as_pointer()) for p in places]

    def load(self, pointers: list[Any]) -> list[Any]:
        return [self.builder.load(pointer, align=8) for pointer in pointers]

    def store(self, vectors: list[Any], pointers: list[Any]) -> None:
        for vector, pointer in zip(vectors, pointers, strict=True):
            self.builder.store(vector, pointer, align=8)

    def all(self, x: Any) -> Any:
        """Return eight times x."""
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = self.builder.insert_element(nothing, x, ir.Constant(_PLACE, 0))
        return self.builder.shuffle_vector(one, nothing, self._order([0] * _LANES))

    def minus(self, row: list[Any], other: list[Any]) -> list[Any]:
        return [self.builder.fsub(x, y) for x, y in zip(row, other, strict=True)]

    def smaller(self, x: Any, y: Any) -> Any:
        below = self.builder.fcmp_ordered("<", x, y, flags=_ORDERED)
        return self.builder.select(below, x, y, flags=_ORDERED)

    def least(self, row: list[Any]) -> Any:
        """Return eight times the least number of a row."""
        while len(row) > 1:
            odd = row[len(row) - len(row) % 2 :]
            row = [self.smaller(x, y) for x, y in zip(row[::2], row[1::2], strict=False)] + odd
        x = row[0]
        for turn in (4, 2, 1):
            turned = self._order([(k + turn) % _LANES for k in range(_LANES)])
            x = self.smaller(x, self.builder.shuffle_vector(x, x, turned))
        return x

    def least_and_where(self, row: list[Any]) -> Any:
        """Return the least number of a row and the columns that have it, as a pair."""
        least = self.least(row)
        first = self.builder.extract_element(least, ir.Constant(_PLACE, 0))
        columns = ir.Constant(_INTEGER, 0)
        for k, x in enumerate(row):
            equal = self.builder.bitcast(self.builder.fcmp_ordered("==", x, least), ir.IntType(_LANES))
            place = ir.Constant(_INTEGER, _LANES * k)
            columns = self.builder.or_(columns, self.builder.shl(self.builder.zext(equal, _INTEGER), place))
        return self.context.make_tuple(self.builder, _PAIR, (first, columns))

    def masks(self, columns: Any) -> list[Any]:
        """Return the bits of an integer as masks for the parts."""
        shifted = (self.builder.lshr(columns, ir.Constant(_INTEGER, _LANES * k)) for k in self.parts)
        mask = ir.VectorType(ir.IntType(1), _LANES)
        return [self.builder.bitcast(self.builder.trunc(x, ir.IntType(_LANES)), mask) for x in shifted]

    @staticmethod
    def _order(places: list[int]) -> Any:
        return ir.Constant(ir.VectorType(_PLACE, len(places)), places)


def _vectorised(answer: Any, kinds: tuple[Any, ...], width: Any, write: Callable[..., Any]) -> Any:
    """Return what an intrinsic function returns: its signature, and what writes its instructions.

    ``write`` is called with the rows, the kinds of the arguments and the arguments.
    """
    if not isinstance(width, types.IntegerLiteral):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        written = write(_Rows(context, builder, width.literal_value), signature.args, *args[:-1])
        return context.get_dummy_value() if written is None else written

    return answer(*kinds, width), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _price_row(typing_context: Any, C: Any, i: Any, real: Any, width: Any) -> Any:
    """Return u_i = min_j (C_ij - v_j) and the columns that have it; lower the slacks to C_ij - u_i."""

    def write(rows: _Rows, kinds: Any, C: Any, i: Any, real: Any) -> Any:
        costs = rows.load(rows.of(C, kinds[0], i))
        slacks = rows.of(real, kinds[2], _SLACK)
        reduced = rows.minus(costs, rows.load(rows.of(real, kinds[2], _V)))
        over = rows.minus(costs, [rows.least(reduced)] * len(costs))
        lowered = [rows.smaller(x, y) for x, y in zip(over, rows.load(slacks), strict=True)]
        rows.store(lowered, slacks)
        return rows.least_and_where(reduced)

    return _vectorised(_PAIR, (C, types.int64, real), width, write)


@intrinsic  # type: ignore[untyped-decorator]
def _raise_prices(typing_context: Any, real: Any, taken: Any, width: Any) -> Any:
    """Let the columns that are not taken have their slack for a price, where it is finite."""

    def write(rows: _Rows, kinds: Any, real: Any, taken: Any) -> None:
        prices, raised = rows.of(real, kinds[0], _V), []
        slacks = rows.load(rows.of(real, kinds[0], _SLACK))
        for v, slack, mine in zip(rows.load(prices), slacks, rows.masks(taken), strict=True):
            known = rows.builder.fcmp_ordered("<", slack, rows.infinity)
            raised.append(rows.builder.select(mine, v, rows.builder.select(known, slack, v)))
        rows.store(raised, prices)

    return _vectorised(types.void, (real, types.int64), width, write)


@intrinsic  # type: ignore[untyped-decorator]
def _begin(typing_context: Any, C: Any, i: Any, real: Any, shift: Any, width: Any) -> Any:
    """Set the distances to C_ij - v_j - shift; return the least of them, and the columns that have it."""

    def write(rows: _Rows, kinds: Any, C: Any, i: Any, real: Any, shift: Any) -> Any:
        distances = _over(rows, kinds, C, i, real, shift)
        rows.store(distances, rows.of(real, kinds[2], _DIST))
        me = rows.all(rows.builder.sitofp(i, _NUMBER))
        rows.store([me] * len(distances), rows.of(real, kinds[2], _FROM))
        return rows.least_and_where(distances)

    return _vectorised(_PAIR, (C, types.int64, real, types.float64), width, write)


@intrinsic  # type: ignore[untyped-decorator]
def _go_on(typing_context: Any, C: Any, i: Any, real: Any, shift: Any, tree: Any, width: Any) -> Any:
    """Lower the distances outside of the tree to C_ij - v_j - shift; return as :func:`_begin` does, of these.

    A column remembers the last of the rows that lead to it at its distance.
    """

    def write(rows: _Rows, kinds: Any, C: Any, i: Any, real: Any, shift: Any, tree: Any) -> Any:
        builder = rows.builder
        at, origins = rows.of(real, kinds[2], _DIST), rows.of(real, kinds[2], _FROM)
        me = rows.all(builder.sitofp(i, _NUMBER))
        distances, sources, outside = [], [], []
        for x, d, origin, inside in zip(
            _over(rows, kinds, C, i, real, shift),
            rows.load(at),
            rows.load(origins),
            rows.masks(tree),
            strict=True,
        ):
            closer = builder.and_(builder.not_(inside), builder.fcmp_ordered("<=", x, d))
            distances.append(builder.select(closer, x, d))
            sources.append(builder.select(closer, me, origin))
            outside.append(builder.select(inside, rows.infinity, distances[-1]))
        rows.store(distances, at)
        rows.store(sources, origins)
        return rows.least_and_where(outside)

    return _vectorised(_PAIR, (C, types.int64, real, types.float64, types.int64), width, write)


def _over(rows: _Rows, kinds: Any, C: Any, i: Any, real: Any, shift: Any) -> list[Any]:
    """Return the distances over row i."""
    reduced = rows.minus(rows.load(rows.of(C, kinds[0], i)), rows.load(rows.of(real, kinds[2], _V)))
    return rows.minus(reduced, [rows.all(shift)] * len(reduced))


@intrinsic  # type: ignore[untyped-decorator]
def _settle(typing_context: Any, real: Any, tree: Any, least: Any, width: Any) -> Any:
    """Lower the prices of the columns in the tree by what their distances are below ``least``."""

    def write(rows: _Rows, kinds: Any, real: Any, tree: Any, least: Any) -> None:
        prices = rows.of(real, kinds[0], _V)
        old, distances = rows.load(prices), rows.load(rows.of(real, kinds[0], _DIST))
        below = rows.minus(distances, [rows.all(least)] * len(distances))
        new = [rows.builder.fadd(v, change) for v, change in zip(old, below, strict=True)]
        picked = zip(rows.masks(tree), new, old, strict=True)
        rows.store([rows.builder.select(mine, x, v) for mine, x, v in picked], prices)

    return _vectorised(types.void, (real, types.int64, types.float64), width, write)


@intrinsic  # type: ignore[untyped-decorator]
def _first(typing_context: Any, columns: Any) -> Any:
    """Return the first of a set of columns that is not empty."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


def solver(width: int) -> Callable[[Array, Array, Array, int], tuple[int, int]]:
    """Return the compiled core for rows of this width: the status, and how many rows were scanned.

    It takes the costs and the two workspaces of :func:`dcfw.sets.lap.workspace`, and leaves row prices to its
    caller.  Where there is no assignment the second number is that of the columns in the last search.
    """

    @njit()
    def solve(C: Array, real: Array, index: Array, n: int) -> tuple[int, int]:
        one = np.int64(1)
        taken = np.int64(0)
        for j in range(width):
            real[_SLACK, j] = np.inf

        # Row prices and old partners.
        n_free = 0
        for i in range(n):
            least, tight = _price_row(C, i, real, width)
            real[_U, i] = least
            if least == np.inf:
                index[_ROWS, 0] = i
                return INFEASIBLE, 0
            index[_TIGHT, i] = tight
            j = index[_COLUMN_OF, i]
            if 0 <= j < n and ((tight & ~taken) >> j) & one:
                taken |= one << j
                index[_ROW_OF, j] = i
            else:
                index[_FREE, n_free] = i
                n_free += 1
        n_candidates, n_free = n_free, 0
        for q in range(n_candidates):
            i = index[_FREE, q]
            free = index[_TIGHT, i] & ~taken
            if free != 0:
                j = _first(free)
                taken |= one << j
                index[_ROW_OF, j] = i
                index[_COLUMN_OF, i] = j
            else:
                index[_FREE, n_free] = i
                n_free += 1
        _raise_prices(real, taken, width)

        # Shortest augmenting paths.
        work = 0
        for q in range(n_free):
            source = index[_FREE, q]
            index[_ROWS, 0] = source
            tree, size = np.int64(0), 0
            least, nearest = _begin(C, source, real, real[_U, source], width)
            while least < np.inf and nearest & ~taken == 0:
                j = _first(nearest)
                i = index[_ROW_OF, j]
                tree |= one << j
                index[_COLS, size] = j
                size += 1
                index[_ROWS, size] = i
                least, nearest = _go_on(C, i, real, (C[i, j] - real[_V, j]) - least, tree, width)
            if least == np.inf:
                return INFEASIBLE, size
            work += size + 1
            _settle(real, tree, least, width)
            j = _first(nearest & ~taken)
            taken |= one << j
            i = -1
            while i != source:
                i = int(real[_FROM, j])
                index[_ROW_OF, j] = i
                j, index[_COLUMN_OF, i] = index[_COLUMN_OF, i], j
        return OPTIMAL, work

    return solve  # type: ignore[no-any-return]


solve_16, solve_32, solve_48, solve_64 = map(solver, WIDTHS)
