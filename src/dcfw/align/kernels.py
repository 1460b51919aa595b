"""The compiled loop over observed entries; loaded when first used."""

from __future__ import annotations

import numpy as np

from dcfw._compiling import njit


@njit(fastmath=True)
def observed_product(words: np.ndarray, starts: np.ndarray, indices: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return, in row i, the sum of e <e, x_i> over the words e of ``indices[starts[i]:starts[i + 1]]``."""
    out = np.zeros_like(X)
    for i in range(X.shape[0]):
        x, total = X[i], out[i]
        for at in range(starts[i], starts[i + 1]):
            e = words[indices[at]]
            product = x[0] * 0
            for k in range(len(x)):
                product += e[k] * x[k]
            for k in range(len(x)):
                total[k] += product * e[k]
    return out
