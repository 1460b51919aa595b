"""Many atoms of one kind in one array, so that one NumPy call serves them all.

A solver with an active set needs <G, a_j> of all its atoms in every step: a gather for entries, a product for
signs, rank-one matrices and the arrays of other backends, which are stacked on their device.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import numpy as np

from dcfw._arrays import Array, inner, like, namespace, to_numpy
from dcfw.sets.atoms import Atom, Dense, Entries, OneHot, Permutation, RankOne, Signs
from dcfw.sets.sampled import KEPT, Factored

BLOCK = 2**18  # signs that are converted to floating point at a time


class Rows:
    """A two-dimensional array that grows by doubling."""

    def __init__(self, width: int, dtype: Any) -> None:
        self._data = np.empty((8, width), dtype=dtype)
        self.count = 0

    def extend(self, rows: Any) -> None:
        """Add rows of one length; shorter ones are padded with zeros, longer ones widen the array."""
        count, width = len(rows), len(rows[0])
        room, wide = self._data.shape
        if width > wide or self.count + count > room:
            room = room if self.count + count <= room else 2 * max(self.count, count)
            more = np.zeros((room, max(width, wide)), dtype=self._data.dtype)
            more[: self.count, :wide] = self.array
            self._data = more
        new = self._data[self.count : self.count + count]
        new[:, :width] = rows
        new[:, width:] = 0
        self.count += count

    def keep(self, rows: np.ndarray) -> None:
        self._data[: len(rows)] = self._data[rows]
        self.count = len(rows)

    @property
    def array(self) -> np.ndarray:
        return self._data[: self.count]


class Stack(Protocol):
    """The interface of a stack, with rows in the order of ``extend``."""

    _parts: tuple[Rows, ...] = ()

    def extend(self, atoms: Any) -> None: ...
    def inner(self, G: Array) -> np.ndarray: ...  # <G, a_j> for all rows
    def add(self, x: Array, c: np.ndarray) -> Array: ...  # x + sum_j c_j a_j, a new array

    def keep(self, rows: np.ndarray) -> None:
        """Remove all rows but these."""
        for part in self._parts:
            part.keep(rows)

    def inner_all(self, arrays: list[Array]) -> np.ndarray:
        """Return <G_i, a_j> for several G and all rows."""
        return np.stack([self.inner(G) for G in arrays])


class EntryStack(Stack):
    """Atoms with few nonzeros: flat indices and values (zeros at index 0 where an atom has fewer)."""

    def __init__(self, atom: Any) -> None:
        indices, values = atom.support()
        self._indices = Rows(len(indices), np.intp)
        self._values = None if isinstance(atom, Permutation) else Rows(len(indices), values.dtype)  # or ones
        self._parts = tuple(part for part in (self._indices, self._values) if part is not None)

    def extend(self, atoms: Any) -> None:
        if all(atom.__class__ is OneHot for atom in atoms) and self._values is not None:
            self._indices.extend([(atom.index,) for atom in atoms])
            self._values.extend([(atom.value,) for atom in atoms])
            return
        for indices, values in (atom.support() for atom in atoms):
            self._indices.extend(indices[None])
            if self._values is not None:
                self._values.extend(values[None])

    def inner(self, G: Array) -> np.ndarray:
        found = G.reshape(-1).take(self._indices.array)
        if self._values is None:
            return np.asarray(found.sum(axis=1))
        return np.asarray(np.einsum("ij,ij->i", found, self._values.array))

    def inner_all(self, arrays: list[Array]) -> np.ndarray:
        indices = self._indices.array
        found = np.stack([G.reshape(-1).take(indices) for G in arrays])
        if self._values is None:
            return np.asarray(found.sum(axis=2))
        return np.asarray(np.einsum("kij,ij->ki", found, self._values.array))

    def add(self, x: Array, c: np.ndarray) -> Array:
        y = x.copy()  # in C order for every x, so that its reshape is a view
        rows = c.nonzero()[0]
        indices = self._indices.array[rows]
        if self._values is None:
            amounts = c[rows].repeat(indices.shape[1])
        else:
            amounts = (c[rows, None] * self._values.array[rows]).ravel()
        np.add.at(y.reshape(-1), indices.ravel(), amounts)
        return y


class SignStack(Stack):
    """Atoms with a sign per entry, one byte each."""

    def __init__(self, atom: Signs) -> None:
        self._signs = Rows(atom.signs.size, np.int8)
        self._radii = Rows(1, np.float64)
        self._parts = self._signs, self._radii
        self._block = max(1, BLOCK // atom.signs.size)

    def extend(self, atoms: Any) -> None:
        for atom in atoms:
            self._signs.extend(atom.signs.reshape(1, -1))
        self._radii.extend([(atom.radius,) for atom in atoms])

    def inner(self, G: Array) -> np.ndarray:
        flat, signs = G.reshape(-1), self._signs.array
        found = np.empty(len(signs))
        for at in range(0, len(signs), self._block):
            found[at : at + self._block] = signs[at : at + self._block].astype(G.dtype) @ flat
        return np.asarray(found * self._radii.array[:, 0])

    def add(self, x: Array, c: np.ndarray) -> Array:
        y = x.copy()
        rows = np.flatnonzero(c)
        amounts = (c[rows] * self._radii.array[rows, 0]).astype(x.dtype)
        for at in range(0, len(rows), self._block):
            part = slice(at, at + self._block)
            y += (amounts[part] @ self._signs.array[rows[part]].astype(x.dtype)).reshape(x.shape)
        return y


class RankOneStack(Stack):
    """Atoms scale * u v^T."""

    def __init__(self, atom: RankOne) -> None:
        self._u, self._v = Rows(len(atom.u), atom.u.dtype), Rows(len(atom.v), atom.v.dtype)
        self._scales = Rows(1, np.float64)
        self._parts = self._u, self._v, self._scales

    def extend(self, atoms: Any) -> None:
        for atom in atoms:
            self._u.extend(atom.u[None])
            self._v.extend(atom.v[None])
        self._scales.extend([(atom.scale,) for atom in atoms])

    def inner(self, G: Array) -> np.ndarray:
        found = np.einsum("ij,ij->i", self._u.array @ G, self._v.array)
        return np.asarray(found * self._scales.array[:, 0])

    def add(self, x: Array, c: np.ndarray) -> Array:
        rows = np.flatnonzero(c)
        amounts = (c[rows] * self._scales.array[rows, 0]).astype(x.dtype)
        return x + (self._u.array[rows].T * amounts) @ self._v.array[rows]


class DenseStack(Stack):
    """A list of arrays of any backend, which libraries other than NumPy also stack on their device."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._stacked: Array | None = None

    def extend(self, atoms: Any) -> None:
        self.arrays += [atom.dense() for atom in atoms]

    def keep(self, rows: np.ndarray) -> None:
        self.replace([self.arrays[row] for row in rows])

    def replace(self, arrays: list[Array]) -> None:
        self.arrays, self._stacked = arrays, None

    def inner(self, G: Array) -> np.ndarray:
        if not isinstance(G, np.ndarray):
            xp = namespace(G)
            return to_numpy(self._rows(xp) @ xp.reshape(G, (-1,))).astype(np.float64)
        return np.array([inner(G, array) for array in self.arrays])

    def _rows(self, xp: Any) -> Array:
        known = 0 if self._stacked is None else self._stacked.shape[0]
        if known < len(self.arrays):
            more = xp.stack([xp.reshape(array, (-1,)) for array in self.arrays[known:]])
            self._stacked = more if self._stacked is None else xp.concat([self._stacked, more])
        return self._stacked

    def add(self, x: Array, c: np.ndarray) -> Array:
        if not isinstance(x, np.ndarray):
            if not c.any():
                return x
            xp = namespace(x)
            return x + xp.reshape(like(c, x) @ self._rows(xp), x.shape)
        y = x.copy()
        for amount, array in zip(c.tolist(), self.arrays, strict=True):
            if amount:
                y += amount * array
        return y


class FactoredStack(Stack):
    """Observed entries of matrices U V^T (:mod:`dcfw.sets.sampled`), stored if they are few."""

    def __init__(self, atom: Any) -> None:
        self._atoms: list[Any] = []
        self._entries = Rows(len(atom.places), np.float64) if len(atom.places) <= KEPT else None

    def extend(self, atoms: Any) -> None:
        self._atoms += atoms
        if self._entries is not None:
            for atom in atoms:
                self._entries.extend(atom.dense()[None])

    def keep(self, rows: np.ndarray) -> None:
        self._atoms = [self._atoms[row] for row in rows]
        if self._entries is not None:
            self._entries.keep(rows)

    def inner(self, G: Array) -> np.ndarray:
        if self._entries is not None:
            return np.asarray(self._entries.array @ G)
        return np.array([atom.inner(G) for atom in self._atoms])

    def add(self, x: Array, c: np.ndarray) -> Array:
        if self._entries is not None:
            return np.asarray(x + c @ self._entries.array)
        for amount, atom in zip(c.tolist(), self._atoms, strict=True):
            x = atom.plus(x, amount) if amount else x
        return x


STACKS: dict[type, Any] = {
    OneHot: EntryStack,
    Entries: EntryStack,
    Permutation: EntryStack,
    Signs: SignStack,
    RankOne: RankOneStack,
    Factored: FactoredStack,
}


def kind_of(atom: Atom) -> Hashable:
    """Return the kind of stack that holds the atom."""
    return type(atom) if type(atom) in STACKS else Dense


def stack_for(atom: Atom) -> Stack:
    """Return an empty stack for atoms like the given one."""
    make = STACKS.get(type(atom))
    return DenseStack() if make is None else make(atom)
