"""Alignment of partially observed embeddings: the map between two spaces when most entries are missing.

>>> import numpy as np
>>> from dcfw import align
>>> source = np.random.default_rng(0).standard_normal((4, 200))
>>> target = np.where(np.arange(200) % 2, source[::-1], np.nan)  # every second word is known
>>> align.align(source, target).rotation.round(2) + 0.0
array([[0., 0., 0., 1.],
       [0., 0., 1., 0.],
       [0., 1., 0., 0.],
       [1., 0., 0., 0.]])

Everything is loaded when first used, so that ``import dcfw`` (and ``import dcfw.align``) stays light.
"""

from __future__ import annotations

from dcfw._lazy import attach

_MODULE_OF = {
    # the problem and its solver
    "align": "solver",
    "AlignResult": "result",
    "nearest_rotation": "solver",
    "MaskedLeastSquares": "objective",
    # scikit-learn's manner
    "MaskedProcrustes": "estimator",
    # files
    "read_vectors": "vectors",
    "write_vectors": "vectors",
    "Vectors": "rows",
    "read_dictionary": "dictionary",
    "pairs": "dictionary",
    "Pairs": "dictionary",
    # how good a map is
    "mean_cosine": "retrieval",
    "precision_at": "retrieval",
    "trial": "translation",
    "Trial": "translation",
}
"""Public name -> the module of this package that defines it."""

__getattr__, __dir__, __all__ = attach(__name__, _MODULE_OF)
