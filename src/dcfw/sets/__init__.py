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
``PartialBirkhoff``    hull of m x n partial assignments, k pairs each     an assignment
``TransportPolytope``  X >= 0, X 1 = a, X^T 1 = b                          optimal transport
``PartialTransport``   X >= 0, X 1 <= a, X^T 1 <= b, sum X = mass          optimal transport
``SpectralBall``       largest singular value <= radius                    a polar factor
``NuclearBall``        sum of the singular values <= radius                a singular pair
``SchattenBall``       ||sigma(X)||_p <= radius                            an SVD
``Spectraplex``        X positive semidefinite, trace X = radius           an eigenvector
``Fantope``            0 <= X <= I, trace X = k                            k eigenvectors
``ShortestPath``       hull of the paths between two nodes                 a shortest path
``FlowPolytope``       flows on the edges that carry all demands           shortest path trees
``SpanningTree``       hull of the spanning trees                          a spanning tree
``Matching``           hull of the (perfect) matchings                     a matching
``Polytope``           A_ub x <= b_ub, A_eq x = b_eq, bounds               a linear programme
``ConvexHull``         convex combinations of given points                 a product
``Product``            one block from each of several sets                 the blocks' own
``Intersection``       the points that lie in several sets                 linear programmes
``Shift``              x + by for x in a set                               the set's own
``Scale``              factor x for x in a set                             the set's own
``LinearImage``        A x for x in a set                                  the set's own
``Epigraph``           (x, t) with ||x|| <= t <= r, for a ball ||x|| <= r  the ball's own
=====================  ==================================================  ===================

>>> dcfw.sets.L1Ball(3).lmo(np.array([0.5, -2.0, 1.0]))
array([0., 1., 0.])

A set of your own is any object with ``lmo(G)``, ``contains(x)``, ``start()`` and ``diameter``; deriving it
from :class:`Set` adds the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcfw._lazy import attach

if TYPE_CHECKING:
    from dcfw.sets.base import FeasibleSet as FeasibleSet
    from dcfw.sets.base import Oracle as Oracle
    from dcfw.sets.base import Set as Set
    from dcfw.sets.birkhoff import Birkhoff as Birkhoff
    from dcfw.sets.birkhoff import PartialBirkhoff as PartialBirkhoff
    from dcfw.sets.composed import LinearImage as LinearImage
    from dcfw.sets.composed import Scale as Scale
    from dcfw.sets.composed import Shift as Shift
    from dcfw.sets.ellipsoid import Ellipsoid as Ellipsoid
    from dcfw.sets.epigraph import Epigraph as Epigraph
    from dcfw.sets.flows import FlowPolytope as FlowPolytope
    from dcfw.sets.flows import ShortestPath as ShortestPath
    from dcfw.sets.groups import GroupBall as GroupBall
    from dcfw.sets.intersection import Intersection as Intersection
    from dcfw.sets.norms import Box as Box
    from dcfw.sets.norms import KSparse as KSparse
    from dcfw.sets.norms import L1Ball as L1Ball
    from dcfw.sets.norms import L2Ball as L2Ball
    from dcfw.sets.norms import LInfBall as LInfBall
    from dcfw.sets.norms import LpBall as LpBall
    from dcfw.sets.ordered import KNormBall as KNormBall
    from dcfw.sets.ordered import OrderedWeightedL1 as OrderedWeightedL1
    from dcfw.sets.ordered import Permutahedron as Permutahedron
    from dcfw.sets.polytope import ConvexHull as ConvexHull
    from dcfw.sets.polytope import Polytope as Polytope
    from dcfw.sets.product import Product as Product
    from dcfw.sets.simplex import CappedSimplex as CappedSimplex
    from dcfw.sets.simplex import Hypersimplex as Hypersimplex
    from dcfw.sets.simplex import Simplex as Simplex
    from dcfw.sets.spectral import Fantope as Fantope
    from dcfw.sets.spectral import NuclearBall as NuclearBall
    from dcfw.sets.spectral import SchattenBall as SchattenBall
    from dcfw.sets.spectral import SpectralBall as SpectralBall
    from dcfw.sets.spectral import Spectraplex as Spectraplex
    from dcfw.sets.transport import PartialTransport as PartialTransport
    from dcfw.sets.transport import TransportPolytope as TransportPolytope
    from dcfw.sets.trees import Matching as Matching
    from dcfw.sets.trees import SpanningTree as SpanningTree
    from dcfw.sets.variation import TotalVariation1D as TotalVariation1D

# Module -> the public names that it defines; sets are loaded on first use.
_NAMES = {
    "base": ("FeasibleSet", "Oracle", "Set"),
    "birkhoff": ("Birkhoff", "PartialBirkhoff"),
    "composed": ("LinearImage", "Scale", "Shift"),
    "ellipsoid": ("Ellipsoid",),
    "epigraph": ("Epigraph",),
    "flows": ("FlowPolytope", "ShortestPath"),
    "groups": ("GroupBall",),
    "intersection": ("Intersection",),
    "norms": ("Box", "KSparse", "L1Ball", "L2Ball", "LInfBall", "LpBall"),
    "ordered": ("KNormBall", "OrderedWeightedL1", "Permutahedron"),
    "polytope": ("ConvexHull", "Polytope"),
    "product": ("Product",),
    "simplex": ("CappedSimplex", "Hypersimplex", "Simplex"),
    "spectral": ("Fantope", "NuclearBall", "SchattenBall", "SpectralBall", "Spectraplex"),
    "transport": ("PartialTransport", "TransportPolytope"),
    "trees": ("Matching", "SpanningTree"),
    "variation": ("TotalVariation1D",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
__getattr__, __dir__, __all__ = attach(__name__, _MODULE_OF)
