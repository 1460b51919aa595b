"""The quadratics that sets declare to be constant on their vertices are constant on them."""

import numpy as np
import pytest

from dcfw import sets
from set_cases import CASES, every_set


@every_set
def test_declared_spheres_contain_every_vertex_and_block_weights_do_not_matter(case):
    spheres = case.domain.spheres()
    if spheres is None:
        pytest.skip("this set declares none")
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 3.0, int(spheres.blocks.max()) + 1)[spheres.blocks]
    vertices = [case.domain.lmo(rng.standard_normal(case.domain.shape)) for _ in range(30)]
    values = [float((weights * (v - spheres.centre) ** 2).sum()) for v in vertices]
    assert np.ptp(values) <= 1e-9 * max(values)
    # The projection onto the set's directions keeps blocks apart, so the weights commute with it.
    G = rng.standard_normal(case.domain.shape)
    assert np.allclose(weights * case.domain.tangent(G), case.domain.tangent(weights * G), atol=1e-12)


def test_sets_whose_vertices_lie_on_a_sphere_declare_it():
    declaring = {type(case.domain).__name__ for case in CASES if case.domain.spheres() is not None}
    zero_one = {
        "Simplex",
        "Hypersimplex",
        "Birkhoff",
        "PartialBirkhoff",
        "ShortestPath",
        "SpanningTree",
        "Matching",
    }
    boxes = {"Box", "LInfBall", "KSparse", "L1Ball", "L2Ball", "Permutahedron"}
    matrices = {"SpectralBall", "NuclearBall", "Spectraplex", "Fantope"}
    assert declaring >= zero_one | boxes | matrices
    assert sets.SpectralBall((3, 3), polar="inexact").spheres() is None  # its answers are not quite vertices
