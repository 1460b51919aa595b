"""Quadratics that are constant on the vertices of a set.

If all vertices lie on a sphere around ``centre``, ||x - centre||^2 is constant on them and convex inside:
adding it to an objective whose minimiser has to be a vertex does not change the problem
(:mod:`dcfw.solvers.graduated`).  The vertices of a box lie on a sphere in every coordinate separately, those
of a product in every block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Spheres(NamedTuple):
    """Spheres on which all vertices v of a set lie, one for each block of coordinates.

    sum_b w_b/2 ||x_b - centre_b||^2 is the same at every vertex for all weights w_b of the blocks, which the
    set's :meth:`~dcfw.sets.Set.tangent` does not mix.
    """

    centre: np.ndarray  #: The centres, an array of the set's shape.
    blocks: np.ndarray  #: For each coordinate the number of its block, counted from 0.


def one_sphere(shape: tuple[int, ...]) -> Spheres:
    """Return the sphere of vertices of equal Euclidean norm."""
    return Spheres(np.zeros(shape), np.zeros(shape, dtype=np.intp))


def zero_one_sphere(shape: tuple[int, ...]) -> Spheres:
    """Return the sphere around (1/2, ..., 1/2) of vertices with entries 0 and 1."""
    return Spheres(np.full(shape, 0.5), np.zeros(shape, dtype=np.intp))


def coordinate_spheres(centre: np.ndarray) -> Spheres:
    """Return the spheres of vertices with |v_i - centre_i| fixed for each coordinate i."""
    return Spheres(centre, np.arange(centre.size).reshape(centre.shape))
