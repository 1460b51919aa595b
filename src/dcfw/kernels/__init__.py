"""Compiled kernels and their Python fallbacks behind one interface.

The extension ``dcfw._kernels`` is built when the package is installed.  Where that was not possible
(no C++ compiler), :data:`native` is None and every kernel runs in NumPy and SciPy instead: same results
where ties do not decide, but slower.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("dcfw._kernels")
    except ImportError:
        return None


native: ModuleType | None = _load()
