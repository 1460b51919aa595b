"""The product of sets treats each block as its own set does."""

import numpy as np
import pytest

from dcfw import sets
from dcfw._arrays import to_numpy


class Segment:
    """The least that a user's set needs: the segment [-1, 1]."""

    diameter = 2.0

    def lmo(self, G):
        return np.where(G > 0, -1.0, 1.0)

    def contains(self, x):
        return bool(np.abs(x).max() <= 1.0)

    def start(self):
        return np.zeros(1)


def domain():
    return sets.Product([sets.Simplex(3), sets.NuclearBall((20, 18)), sets.Birkhoff(2)])


def test_split_and_join_are_inverse():
    D = domain()
    x = np.random.default_rng(0).standard_normal(D.shape)
    blocks = D.split(x)
    assert [block.shape for block in blocks] == [(3,), (20, 18), (2, 2)]
    np.testing.assert_array_equal(D.join(blocks), x)
    np.testing.assert_array_equal(np.concatenate([block.ravel() for block in blocks]), x)


@pytest.mark.parametrize("name", ["torch", "array_api_strict"])
def test_split_and_join_are_inverse_in_other_backends(name):
    xp = pytest.importorskip(name)
    D = domain()
    x = xp.asarray(np.random.default_rng(1).standard_normal(D.shape))
    np.testing.assert_array_equal(to_numpy(D.join(D.split(x))), to_numpy(x))


def test_lmo_and_project_act_block_by_block():
    D = domain()
    G = np.random.default_rng(2).standard_normal(D.shape)
    for whole, verb in ((D.lmo(G), "lmo"), (D.project(G), "project")):
        for part, block, g in zip(D.split(whole), D.sets, D.split(G), strict=True):
            np.testing.assert_allclose(part, getattr(block, verb)(g), atol=1e-8)


def test_the_oracle_keeps_the_blocks_oracles_and_adds_their_errors():
    D = domain()
    oracle = D.oracle()
    G = np.random.default_rng(3).standard_normal(D.shape)
    assert np.vdot(G, oracle(G).dense()) <= np.vdot(G, D.lmo(G)) + 1e-9
    assert oracle.error == sum(block.error for block in oracle.oracles)
    assert oracle.error > 0.0  # the Lanczos block


def test_products_nest():
    D = sets.Product([domain(), sets.L2Ball((2, 2))])
    s = D.lmo(np.random.default_rng(4).standard_normal(D.shape))
    assert D.contains(s)
    assert D.shape == (3 + 360 + 4 + 4,)


def test_a_users_own_set_can_be_a_block():
    D = sets.Product([sets.Simplex(2), Segment()])
    np.testing.assert_array_equal(D.lmo(np.array([1.0, 0.0, 3.0])), [0.0, 1.0, -1.0])
    np.testing.assert_array_equal(D.oracle()(np.array([1.0, 0.0, 3.0])).dense(), [0.0, 1.0, -1.0])
    assert D.contains(D.start())
    assert D.contains(D.random(0))
    assert not D.contains(np.array([0.5, 0.5, 1.5]))
    assert D.violation(np.array([0.5, 0.5, 1.5])) == np.inf
    assert D.diameter == pytest.approx(np.sqrt(6.0))
    assert not hasattr(D, "project")


def test_the_scale_of_a_product_is_that_of_its_largest_block():
    D = sets.Product([sets.Simplex(2, radius=5.0), sets.L1Ball(2, radius=0.1), Segment()])
    assert D.scale == 5.0
    assert sets.Product([sets.L1Ball(2, radius=0.1)]).scale == 0.1


def test_only_a_product_of_one_set_is_strongly_convex():
    ball = sets.L2Ball(3, radius=2.0)
    assert sets.Product([ball]).strong_convexity == ball.strong_convexity > 0.0
    assert sets.Product([ball, ball]).strong_convexity == 0.0
    assert sets.Product([Segment()]).strong_convexity == 0.0


@pytest.mark.parametrize("verb", ["split", "join"])
def test_wrong_shapes_are_refused_by_name(verb):
    D = domain()
    argument, name = (np.zeros(4), "x") if verb == "split" else ([np.zeros(3)], "blocks")
    with pytest.raises(ValueError, match=name):
        getattr(D, verb)(argument)


class Short(Segment):
    """The square [-1, 1]^2, with a ``reach`` of its own."""

    def start(self):
        return np.zeros(2)

    def reach(self, x, d):
        return 0.3


def test_the_reach_of_a_product_is_that_of_its_nearest_block():
    D = sets.Product([Segment(), sets.Box(-1.0, 1.0, 2)])
    # A user's set without a reach is asked by bisection ...
    assert D.reach(np.array([0.5, 0.0, 0.0]), np.array([1.0, 0.1, 0.0])) == pytest.approx(0.5, rel=1e-6)
    assert D.reach(np.array([0.5, 0.0, 0.0]), np.array([0.0, 0.1, 0.0])) == pytest.approx(10.0, rel=1e-12)
    # ... and one that has it is taken at its word.
    assert sets.Product([Short(), Segment()]).reach(np.zeros(3), np.array([1.0, 0.0, 0.0])) == 0.3
