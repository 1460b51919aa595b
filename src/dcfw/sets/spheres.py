"""Quadratics that are constant on the vertices of a set.

If all vertices of a set lie on a sphere around ``centre``, then ||x - centre||^2 is constant on them and
convex inside: it can be added to an objective whose answer has to be a vertex, or subtracted from it, without
changing the problem (:mod:`dcfw.solvers.graduated`).  The vertices of a box lie on a sphere in every
coordinate by itself, those of a product in every block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Spheres(NamedTuple):
    """Spheres on which all vertices v of a set lie, one for each block of coordinates.

    sum_b w_b/2 ||x_b - centre_b||^2 is the same number at every vertex, whatever the weights w_b of the
    blocks.  The set's :meth:`~dcfw.sets.Set.tangent` does not mix blocks.

    Attributes
    ----------
    centre : array
        The centres, an array of the set's shape.
    blocks : array of int
        For each coordinate the number of its block, counted from 0.

    >>> from dcfw import sets
    >>> sets.Box([0.0, 0.0], [1.0, 4.0]).spheres()
    Spheres(centre=array([0.5, 2. ]), blocks=array([0, 1]))
    >>> sets.Simplex(2).spheres()
    Spheres(centre=array([0., 0.]), blocks=array([0, 0]))
    """

    centre: np.ndarray
    blocks: np.ndarray


def one_sphere(shape: tuple[int, ...]) -> Spheres:
    """Return the sphere of vertices that have one Euclidean norm."""
    return Spheres(np.zeros(shape), np.zeros(shape, dtype=np.intp))


def zero_one_sphere(shape: tuple[int, ...]) -> Spheres:
    """Return the sphere around (1/2, ..., 1/2) of vertices with entries 0 and 1."""
    return Spheres(np.full(shape, 0.5), np.zeros(shape, dtype=np.intp))


def coordinate_spheres(centre: np.ndarray) -> Spheres:
    """Return the spheres of vertices with |v_i - centre_i| fixed for each coordinate i."""
    return Spheres(centre, np.arange(centre.size).reshape(centre.shape))


def joined_spheres(domains: Sequence[Any]) -> Spheres | None:
    """Return those of a product of sets, for raveled blocks; None unless every block has its own."""
    centres, blocks, count = [], [], 0
    for domain in domains:
        own = domain.spheres()
        if own is None:
            return None
        centres.append(own.centre.reshape(-1))
        blocks.append(own.blocks.reshape(-1) + count)
        count = int(blocks[-1].max()) + 1
    return Spheres(np.concatenate(centres), np.concatenate(blocks))
