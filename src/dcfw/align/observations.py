"""Source vectors and partly observed target vectors, a block of words at a time.

Columns are words.  Observed target entries are those that are not NaN, those that a mask marks, the stored
entries of a SciPy sparse matrix (a stored zero is an observed zero), or the unmasked ones of a NumPy masked
array.  All become a :class:`Block`, one at a time: the arrays may be memory maps larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, is_numpy, namespace

BLOCK_BYTES = 64 * 2**20  # the approximate memory of a block of words
LARGEST = {4: 1e15, 8: 1e150}  # by bytes per number; sums of squares of larger entries may overflow
SMALLEST = {4: 1e-17, 8: 1e-150}  # if the largest entry is smaller but not zero, squares underflow
WEIGHTS = "mask must hold only 0 and 1 (or False and True): weights are not supported"


class Block(NamedTuple):
    """Source vectors, target vectors (0 where missing), and the observed entries, of some words."""

    E: Array
    Y: Array
    observed: Array


def refuse_other_order(first: Any, second: Any, axis: str, what: str, remedy: str) -> None:
    """Refuse two DataFrames with the same names in different orders: words are paired by position."""
    names = [list(getattr(M, axis)) for M in (first, second) if hasattr(M, "index") and hasattr(M, "columns")]
    if len(names) == 2 and names[0] != names[1] and set(names[0]) == set(names[1]):
        raise ValueError(f"{what} have the same names in different orders: {remedy}")


def refuse_masked(values: Any, name: str, target: str) -> None:
    """Refuse masked entries outside the target: their values would be used."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} has masked entries, but only those of {target} may be unknown; leave out the words that "
            f"have them, or fill them first, for example {name}.filled(0)"
        )


class Observations:
    """Checked shapes of the data (arguments as for :func:`dcfw.align.align`), and the data in blocks.

    >>> data = Observations([[1.0, 2.0]], [[np.nan, 4.0]])
    >>> [block.observed.tolist() for block in data.blocks()]
    [[[False, True]]]
    """

    def __init__(self, E1: Any, Y: Any, mask: Any = None, dtype: Any = None) -> None:
        refuse_other_order(E1, Y, "columns", "the columns of E1 and Y", "Y = Y[E1.columns]")
        self.E1 = _matrix(E1, "E1")
        self.sparse = hasattr(Y, "tocsc") and hasattr(Y, "nnz")
        if self.sparse:
            if mask is not None:
                raise ValueError("mask must be None for a sparse Y: its stored entries are the observed ones")
            Y = _validate.sparse(Y, "Y", "csc")
        elif np.ma.isMaskedArray(Y) and np.ma.is_masked(Y):
            if mask is not None:
                raise ValueError("mask must be None for a masked array Y: its own mask says what is missing")
            Y = _validate.nan_for_masked(Y, "Y")
        self.Y = Y if self.sparse else _matrix(Y, "Y")
        self.mask = None if mask is None else _matrix(mask, "mask")
        self.d1, self.n = (int(size) for size in self.E1.shape)
        self.d2 = int(self.Y.shape[0])
        if min(self.d1, self.d2, self.n) == 0:
            raise ValueError(f"E1 and Y must not be empty, got shapes {self.E1.shape} and {self.Y.shape}")
        if int(self.Y.shape[1]) != self.n:
            raise ValueError(
                f"Y must have as many columns (words) as E1, which has {self.n}; got shape "
                f"{tuple(self.Y.shape)}.  If your words are rows, transpose both, or use MaskedProcrustes"
            )
        shape = tuple(self.Y.shape)
        if self.mask is not None and tuple(self.mask.shape) != shape:
            raise ValueError(f"mask must have the shape of Y, {shape}, got {tuple(self.mask.shape)}")
        self.numpy = is_numpy(self.E1)
        others = [a for a in (self.Y, self.mask) if a is not None and not self.sparse]
        if any(is_numpy(a) != self.numpy for a in others) or (self.sparse and not self.numpy):
            raise TypeError("E1, Y and mask must be arrays of one library")
        self.dtype = self._dtype(dtype)
        self._largest = {"E1": 0.0, "Y": 0.0}

    def _dtype(self, asked: Any) -> Any:
        xp = np if self.numpy else namespace(self.E1)
        if asked is None:
            single = self.E1.dtype == xp.float32 and self.Y.dtype == xp.float32
            asked = "float32" if single else "float64"
        elif asked is xp.float32 or asked is xp.float64:
            return np.dtype(asked) if self.numpy else asked
        dtype = _validate.float_type(asked)
        return dtype if self.numpy else getattr(xp, dtype.name)

    @property
    def nbytes(self) -> int:
        """The memory of all blocks together."""
        return self.n * ((self.d1 + self.d2) * (self.dtype.itemsize if self.numpy else 8) + self.d2)

    def blocks(self) -> Iterator[Block]:
        """Yield the words in checked blocks of about ``BLOCK_BYTES``."""
        if not self.numpy:
            yield self._foreign_block()
            return
        width = max(BLOCK_BYTES // (self.nbytes // self.n), 1)
        for start in range(0, self.n, width):
            yield self._block(slice(start, min(start + width, self.n)))
        for name, size in self._largest.items():
            if 0.0 < size < SMALLEST[self.dtype.itemsize]:
                raise ValueError(f"{name} has no entries above {size:.1g}; squares underflow: rescale it")

    def count(self) -> int:
        """Return the number of observed target entries of NumPy or sparse data."""
        if self.sparse:
            return int(self.Y.nnz)
        rows = range(self.d2)
        if self.mask is not None:
            return sum(int(np.count_nonzero(self.mask[i])) for i in rows)
        return sum(self.n - int(np.count_nonzero(np.isnan(self.Y[i]))) for i in rows)

    def _block(self, at: slice) -> Block:
        E = np.ascontiguousarray(self.E1[:, at], dtype=self.dtype)
        self._look_at(E, np.True_, "E1", at.start)
        if self.sparse:
            part = self.Y[:, at].tocoo()
            Y = np.zeros(part.shape, dtype=self.dtype)
            observed = np.zeros(part.shape, dtype=bool)
            Y[part.row, part.col] = part.data
            observed[part.row, part.col] = True
            self._look_at(Y, observed, "Y", at.start)
            return Block(E, Y, observed)
        Y = np.array(self.Y[:, at], dtype=self.dtype, order="C")
        if self.mask is None:
            observed = ~np.isnan(Y)
        else:
            values = np.asarray(self.mask[:, at])
            observed = values.astype(bool)
            if values.dtype != bool and not (values == observed).all():
                raise ValueError(WEIGHTS)
        self._look_at(Y, observed, "Y", at.start)
        Y[~observed] = 0.0
        return Block(E, Y, observed)

    def _look_at(self, values: np.ndarray, where: Any, name: str, offset: int) -> None:
        """Refuse entries that are not finite or too large to be squared, and record the largest size."""
        wrong = ~np.isfinite(values) & where
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            what = "observed entries that are" if name == "Y" else "entries that are"
            raise ValueError(f"{name} has {what} NaN or Inf (the first at {(row, column + offset)})")
        largest = float(np.max(np.abs(values), initial=0.0, where=where))
        if largest > LARGEST[values.dtype.itemsize]:
            size = f"entries of size {largest:.1g}, whose squares may overflow"
            raise ValueError(f"{name} has {size}: rescale it")
        self._largest[name] = max(self._largest[name], largest)

    def _foreign_block(self) -> Block:
        """Return all data as one block of another array library."""
        xp = namespace(self.E1)
        E = _validate.array(xp.astype(self.E1, self.dtype), "E1")
        Y = xp.astype(self.Y, self.dtype)
        if self.mask is None:
            observed = ~xp.isnan(Y)
        else:
            observed = xp.astype(self.mask, xp.bool)
            if not bool(xp.all(xp.astype(observed, self.mask.dtype) == self.mask)):
                raise ValueError(WEIGHTS)
        Y = xp.where(observed, Y, xp.zeros_like(Y))
        return Block(E, _validate.array(Y, "Y (where it is observed)"), observed)


def _matrix(values: Any, name: str) -> Array:
    """Return a two-dimensional array of real numbers; its entries are checked by blocks."""
    if hasattr(values, "nnz"):
        raise TypeError(f"{name} must be an ordinary array, got a sparse one; {name}.toarray() is one")
    refuse_masked(values, name, "Y")
    values = _validate.numeric(values, name)
    if len(values.shape) != 2:
        raise ValueError(f"{name} must have 2 dimension(s), got shape {tuple(values.shape)}")
    return values
