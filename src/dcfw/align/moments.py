"""Sums over the data that the objective needs, accumulated one block of words at a time.

With H_i the sum of e e^T over the words e whose target entry i is observed, and b_i that of y e,

    ||P o (X E1) - Y||^2  =  sum_i x_i^T H_i x_i - 2 <b_i, x_i>  +  ||Y||^2,

x_i the rows of X.  The d2 symmetric matrices H_i, kept packed row after row of their lower triangles, do not
grow with the number of words.  Each word is read once: a million of them with d = 300 stream through 0.43 GiB
in single precision (tested), and blocks on other machines are summed there.  If every word is observed
entirely or not at all, the H_i are one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcfw._arrays import Array, inner, namespace
from dcfw.align.observations import Block, Observations


@dataclass
class Moments:
    """Sums over words: their number, the number of observed entries, and the matrices above.

    ``grams`` has one packed matrix per row of X, a single one for all, or none; ``cross`` is b, ``square`` is
    ||Y||^2, and ``source`` is E1 E1^T over all words, observed or not.
    """

    n: int
    observed: int
    grams: np.ndarray
    cross: Array
    square: float
    source: Array

    @classmethod
    def of(cls, block: Block, grams: bool = True) -> Moments:
        """Return the sums over one block; without ``grams`` it may have arrays of any library."""
        E, Y, observed = block
        xp = namespace(E)
        square = math.fsum(inner(row, row) for row in xp.astype(Y, xp.float64, copy=False))
        packed = _grams(E, observed) if grams else np.empty((0, 0))
        return cls(E.shape[1], int(observed.sum()), packed, Y @ E.T, square, E @ E.T)

    def plus(self, other: Moments, out: bool = False) -> Moments:
        """Return the sums over both; ``out`` overwrites the matrices of this one."""
        if self.cross.shape != other.cross.shape:
            raise ValueError(
                f"blocks must have the same dimensions: E1 has {self.cross.shape[1]} rows in one and "
                f"{other.cross.shape[1]} in another, Y {self.cross.shape[0]} and {other.cross.shape[0]}"
            )

        def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            # A single matrix for all rows is broadcast over one for each.
            return np.asarray(np.add(a, b, out=a if out and len(a) >= len(b) else None))

        grams, cross = add(self.grams, other.grams), add(self.cross, other.cross)
        square, source = self.square + other.square, add(self.source, other.source)
        return Moments(self.n + other.n, self.observed + other.observed, grams, cross, square, source)


def packed_size(d: int) -> int:
    return d * (d + 1) // 2


def unpacked(triangle: np.ndarray, d: int) -> np.ndarray:
    """Return the symmetric matrix whose lower triangle is ``triangle``."""
    full = np.zeros((d, d), dtype=triangle.dtype)
    full[np.tril_indices(d)] = triangle
    return full + np.tril(full, -1).T


def _packed(rows: np.ndarray) -> np.ndarray:
    """Return rows^T rows, packed."""
    from scipy.linalg.blas import dsyrk, ssyrk

    d = rows.shape[1]
    if not len(rows):
        return np.zeros(packed_size(d), dtype=rows.dtype)
    syrk = ssyrk if rows.dtype == np.float32 else dsyrk
    # The upper triangle in column-major order is the lower one in row-major order.
    return np.asarray(syrk(1.0, rows.T).T[np.tril_indices(d)])


def _grams(E: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the packed Gram matrices of the words that each row of ``observed`` marks, one if all agree."""
    marked = observed.any(axis=0)
    if (observed == marked).all():
        return _packed(E[:, marked].T)[None, :]
    words = np.ascontiguousarray(E.T)
    everything: np.ndarray | None = None
    grams = np.empty((len(observed), packed_size(words.shape[1])), dtype=words.dtype)
    for gram, row in zip(grams, observed, strict=True):
        if 2 * np.count_nonzero(row) <= len(row):
            gram[:] = _packed(words[row])
        else:  # fewer words to subtract than to add
            everything = _packed(words) if everything is None else everything
            np.subtract(everything, _packed(words[~row]), out=gram)
    return grams


def total(parts: Iterable[Moments]) -> Moments:
    """Return the sums over an iterable of parts, of which one at a time is in memory."""
    sums: Moments | None = None
    for part in parts:
        sums = part if sums is None else sums.plus(part, out=True)
    if sums is None:
        raise ValueError("blocks must not be empty")
    return sums


def total_on(client: Any, blocks: Iterable[Any], dtype: Any = None) -> Moments:
    """Return the sums over blocks for :func:`moments_of`, computed by the workers of a Dask cluster.

    Blocks are added in pairs on the workers, in a fixed order, so that the result depends neither on
    scheduling nor on lost workers.  Give callables that read their own data: arrays would pass through the
    scheduler.
    """
    parts = [client.submit(moments_of, item, dtype, pure=False) for item in blocks]
    if not parts:
        raise ValueError("blocks must not be empty")
    while len(parts) > 1:
        halves = zip(parts[::2], parts[1::2], strict=False)
        pairs = [client.submit(Moments.plus, a, b, pure=False) for a, b in halves]
        parts = pairs + parts[len(parts) & ~1 :]
    return parts[0].result()  # type: ignore[no-any-return]


def moments_of(item: Any, dtype: Any = None) -> Moments:
    """Return the sums over one block: ``(E1, Y)``, ``(E1, Y, mask)``, or a callable that returns one."""
    if callable(item):
        item = item()
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise TypeError("each block must be (E1, Y) or (E1, Y, mask), or a callable that returns one")
    E1, Y, mask = (*item, None)[:3]
    return total(map(Moments.of, Observations(E1, Y, mask, dtype).blocks()))
