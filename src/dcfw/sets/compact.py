"""Sets whose vertices are found in NumPy, as compact atoms.

A set that needs sorting, a graph or a linear programme to find a vertex gains nothing from other array
libraries.  It defines ``_atom(G)``, a vertex for a NumPy gradient in double precision, and has the rest of
the oracle from here: other precisions and backends get the same vertex in their own form.
"""

from __future__ import annotations

import numpy as np

from dcfw._arrays import Array, like, to_numpy
from dcfw._protocol import stateless
from dcfw.sets.atoms import Atom, Dense, recast
from dcfw.sets.base import Oracle, Set


class CompactSet(Set, trusted=True):
    """A set with ``_atom(G)``, the minimising vertex as a compact atom."""

    def _atom(self, G: np.ndarray) -> Atom:
        """Return a vertex that minimises <G, s>, for a NumPy array in double precision."""
        raise NotImplementedError(f"{type(self).__name__} must define _atom(G)")

    def _vertex(self, G: Array) -> Array:
        return like(self._atom(np.asarray(to_numpy(G), dtype=np.float64)).dense(), G)

    def oracle(self) -> Oracle:
        """Return an oracle that answers NumPy gradients with compact atoms."""
        return CompactOracle(self)


@stateless
class CompactOracle(Oracle):
    """The set's own atoms for NumPy gradients, dense ones for other backends.

    An oracle that keeps something between calls defines ``_atom(G)`` and its state anew.
    """

    domain: CompactSet

    def __init__(self, domain: CompactSet) -> None:
        self.domain = domain

    def __call__(self, G: Array) -> Atom:
        if not isinstance(G, np.ndarray):
            return Dense(self.domain._vertex(G))
        if G.dtype == np.float64:
            return self._atom(G)
        return recast(self._atom(G.astype(np.float64)), G)

    def _atom(self, G: np.ndarray) -> Atom:
        return self.domain._atom(G)
