"""The oracles work alike in NumPy, PyTorch and the strict array API, and keep the given precision."""

import math

import array_api_compat
import numpy as np
import pytest

from dcfw import sets
from dcfw._arrays import to_numpy
from dcfw.sets.atoms import Dense, Entries, OneHot, Permutation, RankOne, Signs
from set_cases import every_projection, every_set

BACKENDS = ("torch", "array_api_strict")


def backend(name):
    if name == "torch":
        torch = pytest.importorskip("torch")
        return array_api_compat.array_namespace(torch.zeros(1))
    return pytest.importorskip(name)


@every_set
@pytest.mark.parametrize("name", BACKENDS)
def test_lmo_gives_the_same_vertex_in_every_backend(case, name):
    xp = backend(name)
    for dtype, tolerance in (("float64", 1e-8), ("float32", 2e-3)):
        G = np.random.default_rng(0).standard_normal(case.domain.shape).astype(dtype)
        s = case.domain.lmo(xp.asarray(G))
        assert array_api_compat.array_namespace(s) is array_api_compat.array_namespace(xp.asarray(G))
        assert s.dtype == getattr(xp, dtype)
        np.testing.assert_allclose(to_numpy(s), case.domain.lmo(G), atol=tolerance)


@every_set
@pytest.mark.parametrize("name", BACKENDS)
def test_zero_gives_a_vertex_in_every_backend(case, name):
    s = to_numpy(case.domain.lmo(backend(name).zeros(case.domain.shape, dtype=backend(name).float64)))
    assert case.extreme(np.array(s), 1e-8)


@every_set
@pytest.mark.parametrize("name", BACKENDS)
def test_oracles_of_other_backends_answer_with_dense_atoms(case, name):
    xp = backend(name)
    G = xp.asarray(np.random.default_rng(1).standard_normal(case.domain.shape))
    atom = case.domain.oracle()(G)
    assert isinstance(atom, Dense)
    np.testing.assert_allclose(to_numpy(atom.dense()), to_numpy(case.domain.lmo(G)), atol=1e-8)


@every_set
@pytest.mark.parametrize("name", BACKENDS)
def test_start_and_membership_work_in_every_backend(case, name):
    xp = backend(name)
    x = case.domain.start(xp)
    assert array_api_compat.array_namespace(x) is array_api_compat.array_namespace(xp.zeros(1))
    assert case.domain.contains(x)
    np.testing.assert_array_equal(to_numpy(x), case.domain.start())


@every_projection
@pytest.mark.parametrize("name", BACKENDS)
def test_projection_agrees_in_every_backend(case, name):
    xp = backend(name)
    x = np.random.default_rng(2).standard_normal(case.domain.shape)
    p = case.domain.project(xp.asarray(x, dtype=xp.float32))
    assert p.dtype == xp.float32
    np.testing.assert_allclose(to_numpy(p), case.domain.project(x), atol=1e-4)


@every_set
def test_single_precision_stays_single(case):
    rng = np.random.default_rng(3)
    G = rng.standard_normal(case.domain.shape).astype(np.float32)
    x = case.domain.start().astype(np.float32)
    assert case.domain.lmo(G).dtype == np.float32
    atom = case.domain.oracle()(G)
    assert atom.dense().dtype == np.float32
    assert atom.mix(x, 0.25).dtype == np.float32
    if hasattr(case.domain, "project"):
        assert case.domain.project(G).dtype == np.float32


@every_set
def test_numpy_oracles_answer_with_the_compact_atom_of_their_set(case):
    domain = case.domain
    p = getattr(domain, "p", None)
    matrix = isinstance(domain, sets.SchattenBall)
    if case.atom is not None:
        kind = case.atom
    elif isinstance(domain, sets.Simplex) or (p == 1.0 and not matrix):
        kind = OneHot
    elif isinstance(domain, sets.Birkhoff):
        kind = Permutation
    elif isinstance(domain, sets.KSparse) or (
        isinstance(domain, sets.Epigraph) and isinstance(domain.ball, sets.L1Ball)
    ):
        kind = Entries
    elif p == math.inf and not matrix:
        kind = Signs
    elif isinstance(domain, sets.Spectraplex) or (p == 1.0 and matrix):
        kind = RankOne
    else:
        kind = Dense
    G = np.random.default_rng(4).standard_normal(domain.shape)
    atom = domain.oracle()(G)
    assert isinstance(atom, kind)
    np.testing.assert_allclose(atom.dense(), domain.lmo(G), atol=1e-8)
