"""The products over observed entries: compiled, or in NumPy."""

from __future__ import annotations

import numpy as np

from dcfw import kernels


def observed_product(words: np.ndarray, starts: np.ndarray, indices: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return, in row i, the sum of e <e, x_i> over the words e of ``indices[starts[i]:starts[i + 1]]``.

    >>> words = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> observed_product(words, np.array([0, 1, 1]), np.array([1]), np.ones((2, 2)))
    array([[0., 4.],
           [0., 0.]])
    """
    out = np.zeros_like(X)
    if kernels.native is not None:
        starts, indices = (np.ascontiguousarray(part, dtype=np.int64) for part in (starts, indices))
        words, X = np.ascontiguousarray(words, X.dtype), np.ascontiguousarray(X)
        kernels.native.observed_product(words, starts, indices, X, out)
        return out
    for i, x in enumerate(X):
        seen = words[indices[starts[i] : starts[i + 1]]]
        out[i] = (seen @ x) @ seen
    return out
