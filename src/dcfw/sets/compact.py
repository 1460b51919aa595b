"""Sets whose vertices are found in NumPy, as compact atoms.

Sorting, graphs and linear programmes gain nothing from other array libraries.  Such a set defines
``_atom(G)`` for a NumPy gradient in double precision; other precisions and backends get the same vertex in
their own form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw._arrays import Array, like, to_numpy
from dcfw._protocol import stateless
from dcfw.sets.atoms import Atom, Dense, recast
from dcfw.sets.base import Oracle, Set


@stateless
class CompactOracle(Oracle):
    """The set's own ``_atom(G)`` for NumPy gradients, dense vertices for other backends."""

    domain: CompactSet

    def __call__(self, G: Array) -> Atom:
        if not isinstance(G, np.ndarray):
            return Dense(self._vertex(G))
        return self._atom(G) if G.dtype == np.float64 else recast(self._atom(G.astype(np.float64)), G)

    def _atom(self, G: np.ndarray) -> Atom:
        return self.domain._atom(G)


class CompactSet(Set, trusted=True):
    """A set with ``_atom(G)``, the minimising vertex as a compact atom."""

    _oracle: Any = CompactOracle

    def _atom(self, G: np.ndarray) -> Atom:
        """Return a vertex that minimises <G, s>, for a NumPy array in double precision."""
        raise NotImplementedError(f"{type(self).__name__} must define _atom(G)")

    def _vertex(self, G: Array) -> Array:
        return like(self._atom(np.asarray(to_numpy(G), dtype=np.float64)).dense(), G)
