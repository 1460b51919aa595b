"""Packages whose names are loaded on first use, so that importing them is fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

Verbs = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(package: str, module_of: Mapping[str, str], modules: Sequence[str] = ()) -> Verbs:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Names in ``module_of`` are loaded from their modules on first use; ``modules`` are public modules.  A
    module must not have the name of a function in the table, which importing it would hide.
    """
    public = sorted([*module_of, *modules])

    def __getattr__(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return __getattr__, __dir__, public
