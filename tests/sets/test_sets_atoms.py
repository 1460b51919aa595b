"""A compact vertex does what its dense array does."""

import numpy as np
import pytest

from dcfw.sets.atoms import Dense, Entries, OneHot, Permutation, RankOne, Signs
from set_cases import every_set


def unit(vector):
    return vector / np.linalg.norm(vector)


def atoms():
    rng = np.random.default_rng(0)
    return [
        Dense(rng.standard_normal((3, 3))),
        OneHot(5, -2.0, (3, 3)),
        Entries(np.array([1, 5, 6]), np.array([-2.0, 2.0, 2.0]), (3, 3)),
        Signs(np.where(rng.random((3, 3)) < 0.5, -1, 1).astype(np.int8), 1.5),
        Permutation(np.array([2, 0, 1])),
        RankOne(unit(rng.standard_normal(3)), unit(rng.standard_normal(3)), -1.5),
    ]


def check(atom, x, G, tol=1e-12):
    s = atom.dense()
    before = x.copy()
    assert atom.inner(G) == pytest.approx(np.vdot(G, s), abs=tol)
    assert atom.distance2(x) == pytest.approx(np.sum((s - x) ** 2), abs=tol)
    for eta in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(atom.mix(x, eta), (1.0 - eta) * x + eta * s, atol=tol)
    np.testing.assert_allclose(atom.plus(x, -0.7), x - 0.7 * s, atol=tol)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("atom", atoms(), ids=lambda atom: type(atom).__name__)
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_every_verb_agrees_with_the_dense_formula_in_any_memory_layout(atom, order):
    rng = np.random.default_rng(1)
    x, G = rng.standard_normal((2, 3, 3))
    if order == "F":
        x, G = np.asfortranarray(x), np.asfortranarray(G)
    elif order == "strided":
        x, G = np.repeat(x, 2, axis=1)[:, ::2], np.repeat(G, 2, axis=0)[::2]
    check(atom, x, G)


@every_set
def test_the_atoms_of_every_oracle_agree_with_their_dense_form(case):
    rng = np.random.default_rng(2)
    G, x = rng.standard_normal(case.domain.shape), case.domain.random(rng)
    check(case.domain.oracle()(G), x, G, tol=1e-10)


@every_set
def test_distance_to_itself_is_zero(case):
    G = np.random.default_rng(3).standard_normal(case.domain.shape)
    atom = case.domain.oracle()(G)
    assert 0.0 <= atom.distance2(atom.dense()) <= 1e-13 * max(1.0, case.domain.scale**2)


@every_set
def test_equal_vertices_have_equal_keys_and_others_do_not(case):
    domain = case.domain
    G = np.random.default_rng(4).standard_normal(domain.shape)
    first, second, far = domain.oracle()(G), domain.oracle()(G.copy()), domain.oracle()(-G)
    assert first.key == second.key
    assert hash(first.key) == hash(second.key)
    if not np.allclose(first.dense(), far.dense()):
        assert first.key != far.key


def test_keys_ignore_signs_that_do_not_change_the_vertex():
    assert Dense(np.array([0.0, 1.0])).key == Dense(np.array([-0.0, 1.0])).key
    u, v = np.array([0.6, -0.8]), np.array([1.0, 0.0])
    assert RankOne(u, v, 2.0).key == RankOne(-u, -v, 2.0).key
    assert RankOne(u, v, 2.0).key != RankOne(-u, v, 2.0).key
    assert RankOne(u, v, 2.0).key != RankOne(u, v, -2.0).key


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="extended precision without padding")
@pytest.mark.parametrize("make", [Dense, lambda values: Entries(np.arange(4), values, (4,))])
def test_keys_of_extended_precision_are_those_of_the_values_and_not_of_their_padding(make):
    values = np.array([1.0, -2.5, 0.0, 3.0], dtype=np.longdouble) / 3
    other = values.copy()
    other.view(np.uint8).reshape(4, -1)[:, 10:] = 0xAB
    assert make(values).key == make(other).key
    other[1] = np.nextafter(other[1], np.longdouble(0))
    assert make(values).key != make(other).key
