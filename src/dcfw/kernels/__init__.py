"""Compiled kernels and their Python fallbacks behind one interface.

The extension ``dcfw._kernels`` is built when the package is installed.  Where that was not possible
(no C++ compiler), :data:`native` is None and every kernel runs in NumPy and SciPy instead: same results
where ties do not decide, but slower.  One warning of the logger ``dcfw`` says so.
"""

from __future__ import annotations

import importlib
import logging
from types import ModuleType
from typing import Any

REMEDY = "install a C++ compiler and then `pip install --force-reinstall --no-binary dcfw dcfw`"


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("dcfw._kernels")
    except ImportError as error:
        logging.getLogger("dcfw").warning(
            "The compiled kernels are missing (%s): dcfw runs in NumPy and SciPy, many times slower.  To get "
            "them, %s.",
            error,
            REMEDY,
        )
        return None


native: ModuleType | None = _load()


def implementation(fallback: str) -> Any:
    """Return the extension, or the module of this package that has its classes in NumPy."""
    return importlib.import_module(f"dcfw.kernels.{fallback}") if native is None else native
