"""POT's solver is loaded without POT, which would load every array library; HiGHS keeps its basis."""

from importlib.util import find_spec

import numpy as np
import pytest

from dcfw import sets
from dcfw.sets import transport
from processes import loaded

needs_pot = pytest.mark.skipif(find_spec("ot") is None, reason="needs POT")
SOLVE = """
import numpy as np
from dcfw import sets
a, b, G = [0.3, 0.7], [0.5, 0.5], np.array([[1.0, 2.0], [0.0, 4.0]])
plan = sets.TransportPolytope(a, b, solver="pot").lmo(G)
np.testing.assert_allclose(plan, [[0.0, 0.3], [0.5, 0.2]], atol=1e-12)
"""


@needs_pot
def test_a_transport_oracle_loads_no_array_library():
    assert loaded(SOLVE, ("ot", "ot.lp", "ot.utils", "torch", "jax", "tensorflow", "cupy")) == []


@needs_pot
def test_pot_works_as_ever_afterwards():
    also = """
import ot
np.testing.assert_allclose(ot.emd(a, b, G), plan, atol=1e-12)
assert ot.emd2_1d(np.array([0.0, 1.0]), np.array([0.0, 3.0])) == 2.0
assert ot.dist(np.zeros((1, 2)), np.ones((1, 2))).item() == 2.0
"""
    assert loaded(SOLVE + also, ("ot",)) == ["ot"]


@needs_pot
def test_pot_that_is_loaded_is_used():
    assert loaded("import ot\n" + SOLVE, ("ot",)) == ["ot"]


def test_highs_finds_the_same_plans_from_the_last_basis_also_after_a_break():
    pytest.importorskip("highspy")
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(7)), np.append(rng.dirichlet(np.ones(5)), 0.0)
    domain = sets.TransportPolytope(a, b, solver="highs")
    oracle, other, G = domain.oracle(), domain.oracle(), rng.standard_normal((7, 6))
    for _ in range(8):
        G += 0.2 * rng.standard_normal(G.shape)
        other.set_state(oracle.get_state())
        plan = oracle(G).dense()
        np.testing.assert_array_equal(other(G).dense(), plan)
        np.testing.assert_allclose(plan, domain.lmo(G), atol=1e-12)
        assert domain.contains(plan)
    assert oracle._programme.pivots < 12


@needs_pot
def test_pot_finds_the_same_plans_from_the_last_potentials_also_after_a_break_and_in_other_units():
    rng = np.random.default_rng(1)
    a, b = rng.dirichlet(np.ones(9)), np.append(rng.dirichlet(np.ones(6)), 0.0)
    domain = sets.TransportPolytope(a, b, solver="pot")
    oracle, other, G = domain.oracle(), domain.oracle(), rng.standard_normal((9, 7))
    for factor in (1.0, 1.0, 1e12, 1.0, 1e-15, 1.0, 1e-250):
        G = factor * (G + 0.2 * np.abs(G).max() * rng.standard_normal(G.shape))
        other.set_state(oracle.get_state())
        plan = oracle(G).dense()
        np.testing.assert_array_equal(other(G).dense(), plan)
        np.testing.assert_allclose(plan, domain.lmo(G), atol=1e-12)
        assert domain.contains(plan)


@needs_pot
def test_pot_is_asked_with_costs_less_the_last_potentials(monkeypatch):
    asked, solver = [], transport._network_simplex()

    class Watched:
        check_result = staticmethod(solver.check_result)

        @staticmethod
        def emd_c(a, b, costs, *options):
            asked.append(costs.copy())
            return solver.emd_c(a, b, costs, *options)

    monkeypatch.setattr(transport, "_network_simplex", lambda: Watched)
    rng = np.random.default_rng(2)
    domain = sets.TransportPolytope(*rng.dirichlet(np.ones(8), size=2), solver="pot")
    oracle, G = domain.oracle(), rng.standard_normal((8, 8))
    oracle(G)
    oracle(G)
    # Less its own potentials a cost is not negative, and zero where there is flow.
    assert asked[1].min() >= -1e-12
    assert (np.abs(asked[1]) < 1e-12).sum() >= 15


@needs_pot
@pytest.mark.parametrize("state", [np.zeros(5), np.full(7, np.nan), np.zeros((7, 1)), "x"])
def test_potentials_of_another_problem_are_refused(state):
    with pytest.raises((ValueError, TypeError), match="potentials"):
        sets.TransportPolytope([0.5, 0.25, 0.25], np.full(4, 0.25), solver="pot").oracle().set_state(state)
