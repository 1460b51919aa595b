"""The Cartesian product of sets.

A linear function on a product is a sum of linear functions on its blocks, so the oracle consists of the
blocks' oracles.  A point is one flat vector, the blocks raveled one after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, namespace
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Oracle, Set
from dcfw.sets.given import as_set
from dcfw.sets.spheres import Spheres


class ProductOracle(Oracle):
    """The blocks' oracles side by side; the errors add up."""

    domain: Product

    def __init__(self, domain: Product) -> None:
        self.domain = domain
        self.oracles = [block.oracle() for block in domain.sets]

    def __call__(self, G: Array) -> Atom:
        parts = zip(self.oracles, self.domain.split(G), strict=True)
        s = self.domain.join([oracle(part).dense() for oracle, part in parts])
        self.error = sum(oracle.error for oracle in self.oracles)
        return Dense(s)

    def get_state(self) -> Any:
        return [oracle.get_state() for oracle in self.oracles]

    def set_state(self, state: Any) -> None:
        for oracle, own in zip(self.oracles, state, strict=True):
            oracle.set_state(own)


class Product(Set, trusted=True):
    """The product of sets; x is the concatenation of the raveled blocks.

    ``project`` exists if every block has one.

    Parameters
    ----------
    sets : sequence of sets
        The blocks, in order.

    Examples
    --------
    >>> domain = dcfw.sets.Product([dcfw.sets.Simplex(2), dcfw.sets.L1Ball((2, 2))])
    >>> domain.lmo(np.array([1.0, 0.0, 0.0, 0.0, 3.0, 0.0]))
    array([ 0.,  1.,  0.,  0., -1.,  0.])
    >>> [block.shape for block in domain.split(domain.start())]
    [(2,), (2, 2)]
    """

    _oracle = ProductOracle

    def __init__(self, sets: Sequence[Any]) -> None:
        if isinstance(sets, Set) or not isinstance(sets, Iterable):
            raise TypeError(f"sets must be a sequence of sets, got {type(sets).__name__}")
        self.sets = tuple(as_set(block, f"sets[{i}]") for i, block in enumerate(sets))
        if not self.sets:
            raise ValueError("sets must not be empty")
        self.shapes = tuple(block.shape for block in self.sets)
        ends = np.cumsum([0, *map(math.prod, self.shapes)]).tolist()
        self._slices = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.shape = (ends[-1],)
        self.polytope = all(block.polytope for block in self.sets)
        self.faces = not self.polytope and all(block.polytope or block.faces for block in self.sets)
        self.scale = max(block.scale for block in self.sets)
        if len(self.sets) == 1:  # the boundaries of other products contain segments
            self.strong_convexity = self.sets[0].strong_convexity
        if all(block.projects for block in self.sets):
            self.project = self._project

    @property
    def diameter(self) -> float:  # type: ignore[override]
        """The root of the sum of the blocks' squared diameters."""
        return math.hypot(*(block.diameter for block in self.sets))

    def split(self, x: Array) -> list[Array]:
        """Return the blocks of ``x`` in their own shapes."""
        self._check(x)
        xp = namespace(x)
        return [xp.reshape(x[s], shape) for s, shape in zip(self._slices, self.shapes, strict=True)]

    def _parts(self, x: Array) -> Iterator[tuple[Set, Array]]:
        return zip(self.sets, self.split(x), strict=True)

    def join(self, blocks: Sequence[Array]) -> Array:
        """Return the flat vector of ``blocks``, the inverse of :meth:`split`."""
        blocks = list(blocks)
        shapes = tuple(tuple(block.shape) for block in blocks)
        if shapes != self.shapes:
            raise ValueError(f"blocks must have the shapes {self.shapes}, got {shapes}")
        xp = namespace(*blocks)
        return xp.concat([xp.reshape(block, (-1,)) for block in blocks])

    def _vertex(self, G: Array) -> Array:
        return self.join([block.lmo(part) for block, part in self._parts(G)])

    def check_work(self) -> float:
        return sum(block.check_work() for block in self.sets)

    def violation(self, x: Array) -> float:
        """Return the largest violation of a block."""
        values = [float(block.violation(part)) for block, part in self._parts(self._values(x))]
        return math.inf if any(map(math.isnan, values)) else max(values)

    def contains(self, x: Array, tol: float = 1e-9) -> bool:
        """Return whether every block contains its part of ``x`` to within ``tol``."""
        x, tol = _validate.numeric(x, "x"), _validate.scalar(tol, "tol", low=0.0, allow_inf=True)
        if tuple(x.shape) != self.shape:
            return False
        return all(block.contains(part, tol) for block, part in self._parts(x))

    def _directions(self, G: np.ndarray) -> np.ndarray:
        return np.asarray(self.join([block.tangent(part) for block, part in self._parts(G)]))

    def _reach(self, x: np.ndarray, d: np.ndarray) -> float:
        parts = zip(self._parts(x), self.split(d), strict=True)
        return min(float(block.reach(part, way)) if way.any() else math.inf for (block, part), way in parts)

    def entry_bounds(self) -> tuple[Any, Any] | None:
        bounds = [block.entry_bounds() for block in self.sets]
        if any(pair is None for pair in bounds):
            return None

        def joined(ends: Iterable[Any]) -> np.ndarray:
            pairs = zip(ends, self.shapes, strict=True)
            return np.concatenate([np.broadcast_to(end, shape).ravel() for end, shape in pairs])

        low, high = map(joined, zip(*bounds, strict=True))
        return low, high

    def _centre(self) -> np.ndarray:
        return np.concatenate([np.asarray(block.start()).reshape(-1) for block in self.sets])

    def spheres(self) -> Spheres | None:
        found = [own for block in self.sets if (own := block.spheres()) is not None]
        if len(found) < len(self.sets):
            return None
        first = np.cumsum([0, *(int(own.blocks.max()) + 1 for own in found[:-1])])
        blocks = [own.blocks.reshape(-1) + start for own, start in zip(found, first, strict=True)]
        return Spheres(np.concatenate([own.centre.reshape(-1) for own in found]), np.concatenate(blocks))

    def random(self, rng: Any = None) -> np.ndarray:
        """Return a random point of each block."""
        rng = _validate.generator(rng)
        return np.concatenate([np.asarray(block.random(rng)).reshape(-1) for block in self.sets])

    def _project(self, x: Array) -> Array:
        x = _validate.array(x, "x", shape=self.shape)
        return self.join([block.project(part) for block, part in self._parts(x)])

    def __repr__(self) -> str:
        return f"Product([{', '.join(repr(block) for block in self.sets)}])"


def check_blocks(domain: Any) -> Product:
    """Return the domain, or raise ``ValueError`` if it has no blocks."""
    if not isinstance(domain, Product):
        raise ValueError(
            f"method 'block' needs a domain with blocks: domain must be a sets.Product, got {domain!r}; "
            "use method 'dcfw', or sets.Product([...]) of the sets that x consists of"
        )
    return domain
