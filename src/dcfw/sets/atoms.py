"""Vertices in compact form.

Most vertices that a linear minimisation oracle returns are far smaller than a point: a few signed
coordinates, a sign per entry, a permutation, a rank-one matrix.  An :class:`Atom` keeps that form, so that a
step costs what the vertex costs, and a quadratic takes its gradient at a vertex from one column.  NumPy
solves use compact atoms, other backends :class:`Dense` ones.  All atoms have these methods:

``dense()``        the vertex as an array of the set's shape
``inner(G)``       <G, s>
``mix(x, eta)``    a new array (1 - eta) x + eta s
``plus(x, c)``     a new array x + c s
``distance2(x)``   ||s - x||^2
``key``            a hashable identity (equal vertices of one set have equal keys)

``OneHot``, ``Entries`` and ``Permutation`` also have ``support()``: flat indices and values of the nonzeros.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dcfw._arrays import Array, inner, like, norm, norm2, to_numpy

SHORT = 1024  # dense atoms of at most this many bytes are their own keys, longer ones have a digest


class Atom(Protocol):
    """The interface of a vertex."""

    def dense(self) -> Array: ...
    def inner(self, G: Array) -> float: ...
    def mix(self, x: Array, eta: float) -> Array: ...
    def plus(self, x: Array, c: float) -> Array: ...
    def distance2(self, x: Array) -> float: ...
    @property
    def key(self) -> Hashable: ...


def _bytes(values: np.ndarray) -> bytes:
    """Return bytes that are equal for equal values, without the padding of extended precision."""
    if values.dtype.itemsize <= 8:
        return values.tobytes()
    mantissa, exponent = np.frexp(values)
    high = mantissa.astype(np.float64)
    low = (mantissa - high).astype(np.float64)
    return b"".join(part.tobytes() for part in (high, low, exponent))


@dataclass(slots=True, eq=False)
class Dense:
    """A vertex kept as an array of any backend."""

    array: Array
    _key: bytes | None = field(default=None, init=False)

    def dense(self) -> Array:
        return self.array

    def inner(self, G: Array) -> float:
        return inner(G, self.array)

    def mix(self, x: Array, eta: float) -> Array:
        return x + eta * (self.array - x)

    def plus(self, x: Array, c: float) -> Array:
        return x + c * self.array

    def distance2(self, x: Array) -> float:
        return norm2(self.array - x)

    @property
    def key(self) -> Hashable:
        if self._key is None:  # cached: arrays of other libraries have to be transferred
            # Adding zero turns -0.0 into 0.0: equal vertices must have equal keys.
            entries = _bytes(to_numpy(self.array) + 0.0)
            short = len(entries) <= SHORT
            self._key = entries if short else hashlib.blake2b(entries, digest_size=32).digest()
        return self._key


class _Compact:
    """An atom of NumPy arrays, with ``_added(y, c)``, which adds c s to y in place."""

    __slots__ = ()
    _added: Any

    def mix(self, x: Array, eta: float) -> Array:
        return self._added((1.0 - eta) * x, eta)

    def plus(self, x: Array, c: float) -> Array:
        return self._added(x.copy(), c)


@dataclass(slots=True, eq=False)
class OneHot(_Compact):
    """``value`` at one (flat) ``index``, zero elsewhere: vertices of the simplex and the l1 ball."""

    index: int
    value: float
    shape: tuple[int, ...]
    dtype: Any = np.float64

    def dense(self) -> Array:
        return self._added(np.zeros(self.shape, dtype=self.dtype), 1.0)

    def _added(self, y: Array, c: float) -> Array:
        if y.ndim == 1:
            y[self.index] += c * self.value
        else:
            y.flat[self.index] += c * self.value  # reshape(-1) would copy an array in Fortran order
        return y

    def inner(self, G: Array) -> float:
        return self.value * float(G.item(self.index))

    def distance2(self, x: Array) -> float:
        at = float(x.item(self.index))
        change = self.value - at
        return max(norm2(x) - at * at, 0.0) + change * change  # ** raises where this is infinite

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([self.index]), np.array([self.value], dtype=self.dtype)

    @property
    def key(self) -> Hashable:
        return (self.index, self.value)


@dataclass(slots=True, eq=False)
class Entries(_Compact):
    """``values`` at a few (flat) ``indices`` in increasing order: vertices of the k-sparse polytope."""

    indices: np.ndarray
    values: np.ndarray
    shape: tuple[int, ...]

    def dense(self) -> Array:
        return self._added(np.zeros(self.shape, dtype=self.values.dtype), 1.0)

    def _added(self, y: Array, c: float) -> Array:
        if y.ndim == 1:
            y[self.indices] += c * self.values
        else:
            y.flat[self.indices] += c * self.values
        return y

    def inner(self, G: Array) -> float:
        return float(self.values.dot(G.reshape(-1)[self.indices]))

    def distance2(self, x: Array) -> float:
        at = x.reshape(-1)[self.indices]
        return max(norm2(x) - norm2(at), 0.0) + norm2(self.values - at)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        return self.indices, self.values

    @property
    def key(self) -> Hashable:
        return (self.indices.tobytes(), _bytes(self.values))


@dataclass(slots=True, eq=False)
class Signs(_Compact):
    """``radius`` times a sign per entry, one byte each: vertices of the cube."""

    signs: np.ndarray
    radius: float
    dtype: Any = np.float64

    def dense(self) -> Array:
        return np.multiply(self.signs, self.radius, dtype=self.dtype)

    def inner(self, G: Array) -> float:
        return self.radius * inner(G, self.signs.astype(G.dtype))

    def _added(self, y: Array, c: float) -> Array:
        y += np.multiply(self.signs, c * self.radius, dtype=y.dtype)
        return y

    def distance2(self, x: Array) -> float:
        return norm2(self.dense() - x)

    @property
    def key(self) -> Hashable:
        return (np.packbits(self.signs > 0).tobytes(), self.radius)


class Permutation(_Compact):
    """The permutation matrix with ones at ``(i, columns[i])``: vertices of the Birkhoff polytope."""

    __slots__ = ("columns", "dtype", "rows")

    def __init__(self, columns: np.ndarray, rows: np.ndarray | None = None, dtype: Any = np.float64) -> None:
        self.columns = columns
        self.rows = np.arange(len(columns)) if rows is None else rows
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.columns), len(self.columns))

    def dense(self) -> Array:
        s = np.zeros(self.shape, dtype=self.dtype)
        s[self.rows, self.columns] = 1.0
        return s

    def _added(self, y: Array, c: float) -> Array:
        y[self.rows, self.columns] += c
        return y

    def inner(self, G: Array) -> float:
        return float(G[self.rows, self.columns].sum())

    def distance2(self, x: Array) -> float:
        return max(norm2(x) + len(self.columns) - 2.0 * self.inner(x), 0.0)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        n = len(self.columns)
        return self.rows * n + self.columns, np.ones(n, dtype=self.dtype)

    @property
    def key(self) -> Hashable:
        return self.columns.tobytes()


@dataclass(slots=True, eq=False)
class RankOne(_Compact):
    """``scale * u v^T`` with unit vectors: vertices of the nuclear-norm ball and (u = v) the spectraplex."""

    u: np.ndarray
    v: np.ndarray
    scale: float

    def dense(self) -> Array:
        return np.outer(self.scale * self.u, self.v)

    def inner(self, G: Array) -> float:
        return self.scale * float(self.u @ (G @ self.v))

    def _added(self, y: Array, c: float) -> Array:
        y += np.outer((c * self.scale) * self.u, self.v)
        return y

    def distance2(self, x: Array) -> float:
        return max(norm2(x) + self.scale**2 - 2.0 * self.inner(x), 0.0)

    @property
    def key(self) -> Hashable:
        # u v^T = (-u)(-v)^T: of the two, the key takes the one whose largest entry of u is positive.
        sign = math.copysign(1.0, float(self.u[np.abs(self.u).argmax()]))
        return ((sign * self.u + 0.0).tobytes(), (sign * self.v + 0.0).tobytes(), self.scale)


def recast(atom: Atom, x: Array) -> Atom:
    """Return the atom in the precision of ``x``; a rounded array may leave its set by its old rounding."""
    if isinstance(atom, OneHot):
        return OneHot(atom.index, atom.value, atom.shape, x.dtype)
    if isinstance(atom, Entries):
        return Entries(atom.indices, atom.values.astype(x.dtype), atom.shape)
    if isinstance(atom, Signs):
        return Signs(atom.signs, atom.radius, x.dtype)
    if isinstance(atom, Permutation):
        return Permutation(atom.columns, atom.rows, x.dtype)
    if isinstance(atom, RankOne):
        u, v = atom.u.astype(x.dtype), atom.v.astype(x.dtype)
        return RankOne(u / norm(u), v / norm(v), atom.scale)
    return Dense(like(to_numpy(atom.dense()), x))
