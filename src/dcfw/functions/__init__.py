"""Functions: what can be minimised, and what can be subtracted from it.

>>> import numpy as np
>>> from dcfw import functions
>>> phi = functions.LeastSquares(np.eye(2), np.ones(2)) - 0.5 * functions.L2Norm()
>>> phi
(LeastSquares(m=2, n=2)) - (0.5 * L2Norm(1))
>>> phi.value(np.array([1.0, 0.0]))
0.0

Everything but ``autodiff``, whose module has its name, is loaded when it is first used.
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

_MODULE_OF = {
    "CappedL1": "penalties",
    "Convex": "given",
    "DC": "dc",
    "FiniteSum": "finite_sum",
    "Function": "base",
    "L1MinusL2": "penalties",
    "L1Norm": "norms",
    "L2Norm": "norms",
    "LeastSquares": "quadratic",
    "Linearisation": "base",
    "LogSumExp": "losses",
    "LogisticLoss": "losses",
    "MCP": "penalties",
    "NuclearNorm": "norms",
    "Observed": "observed",
    "Quadratic": "quadratic",
    "SCAD": "penalties",
    "Smooth": "given",
    "SquaredNorm": "quadratic",
    "Stream": "finite_sum",
    "WeaklyConcave": "given",
    "Zero": "sums",
    "as_function": "base",
    "lift": "lifting",
}
"""Public name -> the module that defines it."""

__getattr__, __dir__, __all__ = attach(__name__, _MODULE_OF)
__all__ += ["autodiff"]
