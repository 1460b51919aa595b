"""Three ways to apply the Hessian of the masked least-squares loss, X -> (P o (X E1)) E1^T / n.

``GramProduct``      row i of the result is H_i x_i, with the packed matrices of :mod:`dcfw.align.moments`
``ObservedProduct``  for each observed entry a dot product with its word's vector and a multiple of it
``DenseProduct``     both matrix products in full, masked in between, by blocks of words

The first costs d2 d1^2 / 2 multiplications, independent of the number of words, once the matrices are made
(observed entries times d1^2 / 2); the second observed entries times 2 d1; the third n d1 d2 times 2, at the
speed of BLAS.  :func:`choose` compares them using speeds measured on one core.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dcfw import kernels
from dcfw._arrays import Array, namespace
from dcfw.align.moments import Moments, packed_size, unpacked
from dcfw.align.observations import Block, Observations

PRODUCTS = ("auto", "gram", "observed", "dense")
GRAM_BYTES = 2**30  # the most memory that ``product="auto"`` gives to the matrices H_i
HOLD_BYTES = 2**30  # the size up to which a dense product keeps its blocks instead of rereading them
PASSES = 200  # the number of gradients assumed for a solve without a smaller budget
# Nanoseconds per unit of work in float64, on one core (d = 300, n = 10,000, 10 % observed): a packed
# entry of H_i, an observed entry times d1, and n d1 d2; and, to make the H_i, an observed entry times d1^2.
_GRAM, _OBSERVED, _DENSE, _MAKE = 0.78, 0.65, 0.075, 0.026


def choose(data: Observations, passes: float = PASSES) -> str:
    """Return the product that is expected to be fastest over a number of gradients.

    Arrays of libraries other than NumPy take the dense one, which suits GPUs.
    """
    if not data.numpy:
        return "dense"
    d1, d2, n, observed = data.d1, data.d2, data.n, data.count()
    if observed == n * d2:
        return "gram"  # a single matrix
    seconds = {"dense": passes * _DENSE * n * d1 * d2}
    if data.nbytes <= HOLD_BYTES:  # all words are kept in memory
        seconds["observed"] = passes * _OBSERVED * observed * d1
    if d2 * packed_size(d1) * data.dtype.itemsize <= GRAM_BYTES:
        make = min(observed, n * d2 - observed) + n
        seconds["gram"] = _MAKE * make * d1**2 + passes * _GRAM * d2 * packed_size(d1)
    return min(seconds, key=seconds.__getitem__)


class GramProduct:
    """H_i x_i for every row x_i of X."""

    def __init__(self, moments: Moments) -> None:
        out = moments.grams if moments.grams.flags.writeable else None  # read-only from a cluster
        self.grams = np.divide(moments.grams, moments.n, out=out)
        self.shape = moments.cross.shape
        self._whole = unpacked(self.grams[0], self.shape[1]) if len(self.grams) == 1 else None

    def __call__(self, X: Array) -> Array:
        if self._whole is not None:
            return X @ self._whole
        from scipy.linalg.blas import dspmv, sspmv

        multiply = sspmv if self.grams.dtype == np.float32 else dspmv
        X = np.ascontiguousarray(X, dtype=self.grams.dtype)
        out = np.empty_like(X)
        d = self.shape[1]
        for gram, x, row in zip(self.grams, X, out, strict=True):
            row[:] = multiply(d, 1.0, gram, x)
        return out

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue of any H_i / n."""
        d = self.shape[1]
        tops = (np.linalg.eigvalsh(unpacked(gram, d).astype(np.float64))[-1] for gram in self.grams)
        return max(float(max(tops)), 0.0)


class ObservedProduct:
    """Sums over the observed entries alone."""

    largest: float | None = None

    def __init__(self, data: Observations) -> None:
        self.words = np.empty((data.n, data.d1), dtype=data.dtype)
        rows: list[list[np.ndarray]] = [[] for _ in range(data.d2)]
        start = 0
        for E, _, observed in data.blocks():
            stop = start + E.shape[1]
            self.words[start:stop] = E.T
            for row, marks in zip(rows, observed, strict=True):
                row.append(start + np.flatnonzero(marks))
            start = stop
        self.starts = np.cumsum([0, *(sum(map(len, row)) for row in rows)])
        self.indices = np.concatenate([part for row in rows for part in row]).astype(np.int64)
        self.n = data.n

    def __call__(self, X: Array) -> Array:
        X = np.ascontiguousarray(X, dtype=self.words.dtype)
        out = observed_product(self.words, self.starts, self.indices, X)
        out /= self.n
        return out


def observed_product(words: np.ndarray, starts: np.ndarray, indices: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return, in row i, the sum of e <e, x_i> over the words e of ``indices[starts[i]:starts[i + 1]]``.

    >>> words = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> observed_product(words, np.array([0, 1, 1]), np.array([1]), np.ones((2, 2)))
    array([[0., 4.],
           [0., 0.]])
    """
    out = np.zeros_like(X)
    if kernels.native is not None:
        kernels.native.observed_product(words, starts, indices, X, out)
        return out
    for i, x in enumerate(X):
        seen = words[indices[starts[i] : starts[i + 1]]]
        out[i] = (seen @ x) @ seen
    return out


class DenseProduct:
    """Both products in full, block by block."""

    largest: float | None = None

    def __init__(self, data: Observations) -> None:
        self.data = data
        self.blocks: list[Block] | None = None
        if data.nbytes <= HOLD_BYTES or not data.numpy:
            self.blocks = [self._ready(block) for block in data.blocks()]

    @staticmethod
    def _ready(block: Block) -> Block:
        E, Y, observed = block  # neither Y nor a mask of ones is needed
        xp = namespace(E)
        return Block(E, None, None if bool(xp.all(observed)) else xp.astype(observed, Y.dtype))

    def __call__(self, X: Array) -> Array:
        total: Array = None
        for E, _, mask in self.blocks or map(self._ready, self.data.blocks()):
            R = X @ E
            if mask is not None:
                R *= mask
            part = R @ E.T
            total = part if total is None else total + part
        return total / self.data.n
