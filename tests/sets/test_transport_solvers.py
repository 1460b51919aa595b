"""POT's solver is taken without POT, which would load every array library; POT works as ever afterwards."""

import pytest

from processes import loaded

pytest.importorskip("ot")
SOLVE = """
import numpy as np
from dcfw import sets
a, b, G = [0.3, 0.7], [0.5, 0.5], np.array([[1.0, 2.0], [0.0, 4.0]])
plan = sets.TransportPolytope(a, b, solver="pot").lmo(G)
np.testing.assert_allclose(plan, [[0.0, 0.3], [0.5, 0.2]], atol=1e-12)
"""


def test_a_transport_oracle_loads_no_array_library():
    assert loaded(SOLVE, ("ot", "ot.lp", "ot.utils", "torch", "jax", "tensorflow", "cupy")) == []


def test_pot_works_as_ever_afterwards():
    also = """
import ot
np.testing.assert_allclose(ot.emd(a, b, G), plan, atol=1e-12)
assert ot.emd2_1d(np.array([0.0, 1.0]), np.array([0.0, 3.0])) == 2.0
assert ot.dist(np.zeros((1, 2)), np.ones((1, 2))).item() == 2.0
"""
    assert loaded(SOLVE + also, ("ot",)) == ["ot"]


def test_pot_that_is_loaded_is_used():
    assert loaded("import ot\n" + SOLVE, ("ot",)) == ["ot"]
