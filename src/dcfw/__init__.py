"""dcfw: projection-free optimisation of differences of convex functions.

>>> import numpy as np, dcfw
>>> from dcfw import functions, sets
>>> f, g = functions.SquaredNorm(1.0), functions.Quadratic(np.diag([2.0, 3.0, 1.0]))
>>> res = dcfw.minimize(f - g, sets.Simplex(3))
>>> res.success, res.x
(True, array([0., 1., 0.]))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Everything is loaded when it is first used, so that ``import dcfw`` stays light.
_ATTRIBUTES = {
    "minimize": "dcfw._minimize",
    "check": "dcfw._check",
    "Result": "dcfw.result",
    "Status": "dcfw.result",
}
_MODULES = (
    "align",
    "callbacks",
    "checkpoints",
    "completion",
    "functions",
    "gaps",
    "gromov",
    "plots",
    "qap",
    "sets",
    "splits",
    "steps",
    "tolerances",
    "torch",
    "traffic",
)

__all__ = [
    "Result",
    "Status",
    "align",
    "callbacks",
    "check",
    "checkpoints",
    "completion",
    "functions",
    "gaps",
    "gromov",
    "minimize",
    "plots",
    "qap",
    "sets",
    "splits",
    "steps",
    "tolerances",
    "traffic",
]

if TYPE_CHECKING:
    from dcfw import (
        align,
        callbacks,
        checkpoints,
        functions,
        gaps,
        gromov,
        plots,
        qap,
        sets,
        splits,
        steps,
        tolerances,
        traffic,
    )
    from dcfw._check import check
    from dcfw._minimize import minimize
    from dcfw.result import Result, Status


def __getattr__(name: str) -> Any:
    if name in _ATTRIBUTES:
        value = getattr(importlib.import_module(_ATTRIBUTES[name]), name)

        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"dcfw.{name}")
    raise AttributeError(f"module 'dcfw' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
