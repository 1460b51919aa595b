"""Functions: what can be minimised, and what can be subtracted from it."""

from dcfw.functions.autodiff import autodiff
from dcfw.functions.base import Function, Linearisation, as_function
from dcfw.functions.dc import DC
from dcfw.functions.finite_sum import FiniteSum, Stream
from dcfw.functions.given import Convex, Smooth, WeaklyConcave
from dcfw.functions.lifting import lift
from dcfw.functions.losses import LogisticLoss, LogSumExp
from dcfw.functions.norms import L1Norm, L2Norm, NuclearNorm
from dcfw.functions.observed import Observed
from dcfw.functions.penalties import MCP, SCAD, CappedL1, L1MinusL2
from dcfw.functions.quadratic import LeastSquares, Quadratic, SquaredNorm
from dcfw.functions.sums import Zero

__all__ = [
    "DC",
    "MCP",
    "SCAD",
    "CappedL1",
    "Convex",
    "FiniteSum",
    "Function",
    "L1MinusL2",
    "L1Norm",
    "L2Norm",
    "LeastSquares",
    "Linearisation",
    "LogSumExp",
    "LogisticLoss",
    "NuclearNorm",
    "Observed",
    "Quadratic",
    "Smooth",
    "SquaredNorm",
    "Stream",
    "WeaklyConcave",
    "Zero",
    "as_function",
    "autodiff",
    "lift",
]
