"""Generate the table of the feasible sets and their capabilities from the code.

    PYTHONPATH=src python docs/_ext/set_table.py > docs/api/set_table.md

``tests/repository/test_set_table.py`` compares the page with the code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw import sets
from dcfw.sets.compact import CompactSet

EDGES = [[0, 1], [1, 3], [0, 2], [2, 3]]
DEMANDS = [[0.0, 0.0, 0.0, 1.0], [0.0] * 4, [0.0] * 4, [0.0] * 4]

EXAMPLES: dict[str, Any] = {
    "Simplex": sets.Simplex(4),
    "Hypersimplex": sets.Hypersimplex(4, k=2),
    "CappedSimplex": sets.CappedSimplex(4, upper=0.4),
    "L1Ball": sets.L1Ball(4),
    "L2Ball": sets.L2Ball(4),
    "LInfBall": sets.LInfBall(4),
    "LpBall": sets.LpBall(4, p=1.5),
    "Box": sets.Box(0.0, 1.0, shape=4),
    "KSparse": sets.KSparse(4, k=2),
    "KNormBall": sets.KNormBall(4, k=2),
    "OrderedWeightedL1": sets.OrderedWeightedL1([1.0, 0.8, 0.5, 0.3]),
    "GroupBall": sets.GroupBall([0, 0, 1, 1]),
    "Ellipsoid": sets.Ellipsoid([1.0, 2.0, 3.0, 4.0]),
    "Permutahedron": sets.Permutahedron([1.0, 2.0, 3.0, 4.0]),
    "TotalVariation1D": sets.TotalVariation1D(4),
    "Birkhoff": sets.Birkhoff(3),
    "PartialBirkhoff": sets.PartialBirkhoff(3, 4, k=2),
    "TransportPolytope": sets.TransportPolytope([0.25, 0.75], [0.5, 0.5], solver="highs"),
    "PartialTransport": sets.PartialTransport([0.25, 0.75], [0.5, 0.5], mass=0.5, solver="highs"),
    "SpectralBall": sets.SpectralBall((3, 4)),
    "NuclearBall": sets.NuclearBall((3, 4)),
    "SchattenBall": sets.SchattenBall((3, 4), p=1.5),
    "Spectraplex": sets.Spectraplex(3),
    "Fantope": sets.Fantope(4, k=2),
    "ShortestPath": sets.ShortestPath(EDGES, 0, 3),
    "FlowPolytope": sets.FlowPolytope(EDGES, DEMANDS),
    "SpanningTree": sets.SpanningTree(EDGES),
    "Matching": sets.Matching(EDGES),
    "Polytope": sets.Polytope(bounds=[(0.0, 1.0), (0.0, 2.0)]),
    "ConvexHull": sets.ConvexHull(np.eye(3)),
    "Product": sets.Product([sets.Simplex(2), sets.L1Ball(3)]),
    "Intersection": sets.Intersection([sets.Simplex(4), sets.Box(0.0, 0.4, shape=4)]),
    "Epigraph": sets.Epigraph(sets.L1Ball(3)),
    "Shift": sets.Shift(sets.Simplex(3), [1.0, 0.0, 0.0]),
    "Scale": sets.Scale(sets.Simplex(3), 2.0),
    "LinearImage": sets.LinearImage(np.ones((2, 3)), sets.Simplex(3)),
}
"""One set of each kind, from which the cells of its row are computed."""

THROUGH_NUMPY = (CompactSet, sets.Birkhoff, sets.Polytope, sets.ConvexHull)
"""Sets that compute vertices in NumPy, for arrays of every library."""


def row(name: str) -> dict[str, str]:
    """Return the cells of a set."""
    domain = EXAMPLES[name]
    rng, oracle = np.random.default_rng(0), domain.oracle()
    kinds, error = set(), 0.0
    for _ in range(60):
        kinds.add(type(oracle(rng.standard_normal(domain.shape))).__name__)
        error = max(error, oracle.error)
    faces = "polytope" if domain.polytope else "flat faces" if domain.faces else "round"
    strong = domain.strong_convexity
    return {
        "set": f"{{class}}`~dcfw.sets.{name}`",
        "oracle": "exact" if error == 0.0 else "with a bound of its error",
        "projection": "yes" if hasattr(domain, "project") else "",
        "faces": faces,
        "atoms": ", ".join(f"`{kind}`" for kind in sorted(kinds)),
        "strongly convex": "yes" if math.isfinite(strong) and strong > 0.0 else "",
        "backends": "through NumPy" if isinstance(domain, THROUGH_NUMPY) else "native",
    }


def page() -> str:
    """Return the page."""
    rows = [row(name) for name in EXAMPLES]
    lines = [
        "# What each set can do",
        "",
        "Every set has a linear oracle, `contains`, `violation`, `start`, `random`, `tangent`, `reach` and",
        "`diameter`, and takes NumPy, PyTorch, JAX and CuPy arrays. The cells below are those of a small",
        "example of each kind; balls with an exponent p are shown for p = 1.5, groups for p = 2. Large",
        "matrices have oracles with a bound of their error.",
        "",
        "Written from the code by `docs/_ext/set_table.py`.",
        "",
        "| " + " | ".join(rows[0]) + " |",
        "| " + " | ".join("---" for _ in rows[0]) + " |",
        *("| " + " | ".join(cells.values()) + " |" for cells in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
