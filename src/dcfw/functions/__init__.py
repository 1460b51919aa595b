"""Functions: what can be minimised, and what can be subtracted from it."""

from dcfw.functions.autodiff import autodiff
from dcfw.functions.base import DC, Function, Linearisation, Zero, as_function
from dcfw.functions.given import Convex, Smooth, WeaklyConcave
from dcfw.functions.losses import LogisticLoss, LogSumExp
from dcfw.functions.norms import L1Norm, L2Norm, NuclearNorm
from dcfw.functions.quadratic import LeastSquares, Quadratic, SquaredNorm

__all__ = [
    "DC",
    "Convex",
    "Function",
    "L1Norm",
    "L2Norm",
    "LeastSquares",
    "Linearisation",
    "LogSumExp",
    "LogisticLoss",
    "NuclearNorm",
    "Quadratic",
    "Smooth",
    "SquaredNorm",
    "WeaklyConcave",
    "Zero",
    "as_function",
    "autodiff",
]
