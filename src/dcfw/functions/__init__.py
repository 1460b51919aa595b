"""Functions: objectives, and the convex functions that they subtract.

>>> import numpy as np, dcfw
>>> phi = dcfw.functions.LeastSquares(np.eye(2), np.ones(2)) - 0.5 * dcfw.functions.L2Norm()
>>> phi
(LeastSquares(m=2, n=2)) - (0.5 * L2Norm(1))
>>> phi.value(np.array([1.0, 0.0]))
0.0

Names are loaded on first use, except ``autodiff``, which has the name of its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcfw._lazy import attach
from dcfw.functions.autodiff import autodiff

if TYPE_CHECKING:
    from dcfw.functions.base import Function as Function
    from dcfw.functions.base import Linearisation as Linearisation
    from dcfw.functions.base import as_function as as_function
    from dcfw.functions.dc import DC as DC
    from dcfw.functions.finite_sum import FiniteSum as FiniteSum
    from dcfw.functions.finite_sum import Stream as Stream
    from dcfw.functions.given import Convex as Convex
    from dcfw.functions.given import Smooth as Smooth
    from dcfw.functions.given import WeaklyConcave as WeaklyConcave
    from dcfw.functions.lifting import lift as lift
    from dcfw.functions.losses import LogisticLoss as LogisticLoss
    from dcfw.functions.losses import LogSumExp as LogSumExp
    from dcfw.functions.norms import L1Norm as L1Norm
    from dcfw.functions.norms import L2Norm as L2Norm
    from dcfw.functions.norms import NuclearNorm as NuclearNorm
    from dcfw.functions.observed import Observed as Observed
    from dcfw.functions.penalties import MCP as MCP
    from dcfw.functions.penalties import SCAD as SCAD
    from dcfw.functions.penalties import CappedL1 as CappedL1
    from dcfw.functions.penalties import L1MinusL2 as L1MinusL2
    from dcfw.functions.quadratic import LeastSquares as LeastSquares
    from dcfw.functions.quadratic import Quadratic as Quadratic
    from dcfw.functions.quadratic import SquaredNorm as SquaredNorm
    from dcfw.functions.sums import Zero as Zero

_NAMES = {
    "base": ("Function", "Linearisation", "as_function"),
    "dc": ("DC",),
    "finite_sum": ("FiniteSum", "Stream"),
    "given": ("Convex", "Smooth", "WeaklyConcave"),
    "lifting": ("lift",),
    "losses": ("LogSumExp", "LogisticLoss"),
    "norms": ("L1Norm", "L2Norm", "NuclearNorm"),
    "observed": ("Observed",),
    "penalties": ("CappedL1", "L1MinusL2", "MCP", "SCAD"),
    "quadratic": ("LeastSquares", "Quadratic", "SquaredNorm"),
    "sums": ("Zero",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
__getattr__, __dir__, __all__ = attach(__name__, _MODULE_OF)
__all__ += ["autodiff"]
