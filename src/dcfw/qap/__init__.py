"""Quadratic assignment: instances, objective, local search and solvers.

Everything is loaded when first used, so that ``import dcfw`` (and ``import dcfw.qap``) stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULE_OF = {
    # instances and their files
    "Instance": "instances",
    "Solution": "instances",
    "read": "instances",
    "read_solution": "instances",
    "load": "instances",
    "names": "instances",
    # the objective
    "evaluate": "objective",
    "gradient": "objective",
    "round_to_permutation": "objective",
    # local search
    "two_opt": "swaps",
    "robust_tabu": "tabu",
    # solvers
    "solve": "solver",
    "match": "graphs",
    "quadratic_assignment": "compat",
    "decompose": "quadratics",
    "relaxation": "quadratics",
}
"""Public name -> the module of this package that defines it.

A module must not have the name of a function in this table: importing it would hide the function.
"""

_MODULES = ("generators",)
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
