"""Feasible sets: compact, convex, with a linear minimisation oracle.

=====================  ==================================================  ===================
set                    points                                              one oracle call
=====================  ==================================================  ===================
``Simplex``            x >= 0, sum x = radius                              argmin
``L1Ball``             sum abs(x_i) <= radius                              argmax
``L2Ball``             ||x||_2 <= radius                                   a norm
``LInfBall``           max abs(x_i) <= radius                              signs
``LpBall``             ||x||_p <= radius                                   powers
``Box``                lower <= x <= upper                                 signs
``KSparse``            ||x||_1 <= k radius, ||x||_inf <= radius            k largest entries
``Hypersimplex``       0 <= x <= radius, sum x = (or <=) k radius          k smallest entries
``CappedSimplex``      0 <= x <= upper, sum x = (or <=) radius             a sort
``KNormBall``          sum of the k largest abs(x_i) <= radius             a sort
``OrderedWeightedL1``  sum w_i abs(x)_(i) <= radius, sizes sorted          a sort
``GroupBall``          sum over groups of ||x_g||_p <= radius              norms of the groups
``Ellipsoid``          (x - c)^T A (x - c) <= radius^2                     a product
``Permutahedron``      the hull of the rearrangements of a vector          a sort
``TotalVariation1D``   sum abs(x_{i+1} - x_i) <= radius, mean given        partial sums
``Birkhoff``           doubly stochastic matrices                          an assignment
``SpectralBall``       largest singular value <= radius                    a polar factor
``NuclearBall``        sum of the singular values <= radius                a singular pair
``SchattenBall``       ||sigma(X)||_p <= radius                            an SVD
``Spectraplex``        X positive semidefinite, trace X = radius           an eigenvector
``Fantope``            0 <= X <= I, trace X = k                            k eigenvectors
``Polytope``           A_ub x <= b_ub, A_eq x = b_eq, bounds               a linear programme
``ConvexHull``         convex combinations of given points                 a product
``Product``            one block from each of several sets                 the blocks' own
``Epigraph``           (x, t) with ||x|| <= t <= r, for a ball ||x|| <= r  the ball's own
=====================  ==================================================  ===================

>>> import numpy as np
>>> from dcfw import sets
>>> sets.L1Ball(3).lmo(np.array([0.5, -2.0, 1.0]))
array([0., 1., 0.])

Your own set is any object with ``lmo(G)``, ``contains(x)``, ``start()`` and ``diameter``; deriving it from
:class:`Set` adds the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dcfw._lazy import attach
from dcfw.sets.base import FeasibleSet, Oracle, Set
from dcfw.sets.birkhoff import Birkhoff
from dcfw.sets.epigraph import Epigraph
from dcfw.sets.norms import Box, KSparse, L1Ball, L2Ball, LInfBall, LpBall
from dcfw.sets.polytope import ConvexHull, Polytope
from dcfw.sets.product import Product
from dcfw.sets.simplex import Simplex
from dcfw.sets.spectral import NuclearBall, SchattenBall, SpectralBall, Spectraplex

if TYPE_CHECKING:
    from dcfw.sets.capped import CappedSimplex as CappedSimplex
    from dcfw.sets.capped import Hypersimplex as Hypersimplex
    from dcfw.sets.ellipsoid import Ellipsoid as Ellipsoid
    from dcfw.sets.fantope import Fantope as Fantope
    from dcfw.sets.groups import GroupBall as GroupBall
    from dcfw.sets.ordered import KNormBall as KNormBall
    from dcfw.sets.ordered import OrderedWeightedL1 as OrderedWeightedL1
    from dcfw.sets.permutahedron import Permutahedron as Permutahedron
    from dcfw.sets.variation import TotalVariation1D as TotalVariation1D

_MODULE_OF = {
    "CappedSimplex": "capped",
    "Ellipsoid": "ellipsoid",
    "Fantope": "fantope",
    "GroupBall": "groups",
    "Hypersimplex": "capped",
    "KNormBall": "ordered",
    "OrderedWeightedL1": "ordered",
    "Permutahedron": "permutahedron",
    "TotalVariation1D": "variation",
}
"""Sets that are loaded when they are first used: public name -> the module that defines it."""

__all__ = [
    "Birkhoff",
    "Box",
    "ConvexHull",
    "Epigraph",
    "FeasibleSet",
    "KSparse",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LpBall",
    "NuclearBall",
    "Oracle",
    "Polytope",
    "Product",
    "SchattenBall",
    "Set",
    "Simplex",
    "SpectralBall",
    "Spectraplex",
    *_MODULE_OF,
]

_load = attach(__name__, _MODULE_OF)[0]


def __getattr__(name: str) -> Any:
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
