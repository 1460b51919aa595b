"""dcfw: projection-free optimisation of differences of convex functions.

>>> import numpy as np, dcfw
>>> from dcfw import functions, sets
>>> f, g = functions.SquaredNorm(1.0), functions.Quadratic(np.diag([2.0, 3.0, 1.0]))
>>> res = dcfw.minimize(f - g, sets.Simplex(3))
>>> res.success, res.x
(True, array([0., 1., 0.]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcfw._lazy import attach

__version__ = "0.2.0"

if TYPE_CHECKING:
    from dcfw import align as align
    from dcfw import callbacks as callbacks
    from dcfw import checkpoints as checkpoints
    from dcfw import functions as functions
    from dcfw import gaps as gaps
    from dcfw import gromov as gromov
    from dcfw import plots as plots
    from dcfw import qap as qap
    from dcfw import sets as sets
    from dcfw import splits as splits
    from dcfw import steps as steps
    from dcfw import tolerances as tolerances
    from dcfw import traffic as traffic
    from dcfw._check import check as check
    from dcfw._minimize import minimize as minimize
    from dcfw.result import Result as Result
    from dcfw.result import Status as Status

# Names are loaded on first use, so that ``import dcfw`` is fast.
_MODULE_OF = {"minimize": "_minimize", "check": "_check", "Result": "result", "Status": "result"}
_MODULES = (
    *("align", "callbacks", "checkpoints", "completion", "functions", "gaps", "gromov", "plots", "qap"),
    *("sets", "splits", "steps", "tolerances", "torch", "traffic"),
)

__getattr__, __dir__, __all__ = attach(__name__, _MODULE_OF, _MODULES)
__all__.remove("torch")  # optional, and ``from dcfw import *`` would load it
