"""Alignment of partially observed embeddings: the map between two spaces when most entries are missing.

Everything is loaded when first used, so that ``import dcfw`` (and ``import dcfw.align``) stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULE_OF = {
    # the problem and its solver
    "align": "solver",
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
"""Public name -> the module of this package that defines it.

A module must not have the name of a function in this table: importing it would hide the function.
"""

_MODULES: tuple[str, ...] = ()
"""Modules of this package that are public as such."""

__all__ = sorted([*_MODULE_OF, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
