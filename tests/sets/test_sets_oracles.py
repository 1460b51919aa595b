"""The linear oracle of every set finds the minimum, at an extreme point, whatever the direction."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import dcfw
from dcfw import functions, gaps, sets
from dcfw.sets.base import Oracle
from set_cases import CASES, every_model, every_set


def minimum(case, G):
    """Return min <G, x> over the set by cvxpy."""
    x = cp.Variable(case.domain.shape)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(G, x))), case.model(cp, x))
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


@every_model
def test_lmo_attains_the_minimum_that_cvxpy_finds(case):
    rng = np.random.default_rng(1)
    for _ in range(2):
        G = rng.standard_normal(case.domain.shape)
        s = case.domain.lmo(G)
        assert np.vdot(G, s) == pytest.approx(minimum(case, G), abs=2e-6)


@pytest.mark.parametrize("p", [1.5, 4.0])
@pytest.mark.parametrize("shape", [(3, 2), (3, 3), (2, 5)])
def test_schatten_lmo_attains_minus_radius_times_the_dual_norm(p, shape):
    G = np.random.default_rng(2).standard_normal(shape)
    s = sets.SchattenBall(shape, p, radius=1.5).lmo(G)
    dual = np.linalg.norm(np.linalg.svd(G, compute_uv=False), p / (p - 1.0))
    assert np.vdot(G, s) == pytest.approx(-1.5 * dual, rel=1e-12)


@every_set
def test_lmo_of_a_random_direction_is_an_extreme_point_of_the_set(case):
    rng = np.random.default_rng(3)
    for scale in (1.0, 1e-12, 1e12, 1e-320):
        s = case.domain.lmo(scale * rng.standard_normal(case.domain.shape))
        assert case.extreme(s, 1e-8)
        assert case.domain.contains(s)


@every_set
def test_lmo_of_entries_near_the_largest_float_is_a_point_of_the_set_or_refused(case):
    direction = np.random.default_rng(3).standard_normal(case.domain.shape)
    try:
        with np.errstate(over="ignore"):
            s = case.domain.lmo(direction / abs(direction).max() * 1.7e308)
    except ValueError:  # the sums of costs of an assignment or a linear programme must be finite
        return
    assert np.isfinite(s).all()
    assert case.domain.contains(s)


@every_set
def test_lmo_of_a_direction_in_extended_precision_is_that_of_double_precision(case):
    G = np.random.default_rng(4).standard_normal(case.domain.shape)
    s = case.domain.lmo(G.astype(np.longdouble))
    assert s.dtype == np.longdouble
    np.testing.assert_allclose(s.astype(np.float64), case.domain.lmo(G), rtol=1e-12, atol=1e-12)


@every_set
def test_lmo_of_zero_is_an_extreme_point_of_the_set(case):
    for zero in (np.zeros(case.domain.shape), -np.zeros(case.domain.shape)):
        s = case.domain.lmo(zero)
        assert case.extreme(s, 1e-8)
        assert case.domain.contains(s)


@every_set
def test_lmo_does_not_write_to_its_argument_nor_return_shared_memory(case):
    G = np.random.default_rng(4).standard_normal(case.domain.shape)
    before = G.copy()
    s = case.domain.lmo(G)
    expected = s.copy()
    s[...] = np.nan
    np.testing.assert_array_equal(G, before)
    np.testing.assert_array_equal(case.domain.lmo(G), expected)


SAMPLES = {
    case.name: [case.domain.start()]
    + [case.domain.lmo(np.random.default_rng(i).standard_normal(case.domain.shape)) for i in range(20)]
    for case in CASES
}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@settings(max_examples=12, derandomize=True)
@given(seed=st.integers(0, 10**6), levels=st.integers(1, 3))
def test_with_ties_lmo_is_an_extreme_point_that_no_other_point_beats(case, seed, levels):
    """Entries from a few integers give many ties, ranks that are deficient and rows that are zero."""
    G = np.random.default_rng(seed).integers(-levels, levels, case.domain.shape, endpoint=True).astype(float)
    s = case.domain.lmo(G)
    assert case.extreme(s, 1e-7)
    assert case.domain.contains(s)
    best = min(np.vdot(G, x) for x in SAMPLES[case.name])
    assert np.vdot(G, s) <= best + 1e-9


@every_set
def test_a_fresh_oracle_answers_as_lmo_does_and_bounds_its_error(case):
    oracle = case.domain.oracle()
    assert isinstance(oracle, Oracle)
    assert oracle is not case.domain.oracle()
    rng = np.random.default_rng(5)
    G = rng.standard_normal(case.domain.shape)
    for _ in range(4):  # a drifting direction, as in a solve
        G = G + 0.1 * rng.standard_normal(case.domain.shape)
        atom = oracle(G)
        s = case.domain.lmo(G)
        assert abs(np.vdot(G, atom.dense()) - np.vdot(G, s)) <= oracle.error + 1e-9
        assert 0.0 <= oracle.error <= 1e-7
        assert case.domain.contains(atom.dense())


def vertices(domain):
    """List all vertices of a small polytope by its definition."""
    if isinstance(domain, sets.Birkhoff):
        return [np.eye(domain.n)[list(p)] for p in itertools.permutations(range(domain.n))]
    n = math.prod(domain.shape)
    if isinstance(domain, sets.Simplex):
        flat = [domain.radius * row for row in np.eye(n)]
    elif isinstance(domain, sets.Box):
        pairs = zip(domain.lower.ravel(), domain.upper.ravel(), strict=True)
        flat = [np.array(corner) for corner in itertools.product(*pairs)]
    else:
        k = {sets.L1Ball: 1, sets.LInfBall: n}.get(type(domain)) or domain.k
        flat = []
        for support in itertools.combinations(range(n), k):
            for signs in itertools.product([-1.0, 1.0], repeat=k):
                s = np.zeros(n)
                s[list(support)] = np.array(signs) * domain.radius
                flat.append(s)
    return [s.reshape(domain.shape) for s in flat]


@pytest.mark.parametrize(
    "domain",
    [
        sets.Simplex(5, radius=2.0),
        sets.L1Ball((2, 3)),
        sets.LInfBall(5, radius=0.5),
        sets.Box([0.0, -1.0, 2.0], [1.0, 1.0, 2.5]),
        sets.KSparse(5, k=3, radius=2.0),
        sets.Birkhoff(3),
        sets.Birkhoff(5),
    ],
    ids=repr,
)
def test_lmo_is_the_best_of_all_vertices(domain):
    every = vertices(domain)
    rng = np.random.default_rng(6)
    for trial in range(40):
        G = rng.standard_normal(domain.shape)
        G = np.round(G) if trial % 2 else G
        s = domain.lmo(G)
        assert any(np.array_equal(s, v) for v in every)
        assert np.vdot(G, s) == pytest.approx(min(np.vdot(G, v) for v in every), abs=1e-12)


@pytest.mark.parametrize("n", [2, 7, 20])
def test_birkhoff_lmo_attains_the_minimum_of_the_linear_programme(n):
    rng = np.random.default_rng(n)
    A = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    for G in (rng.standard_normal((n, n)), rng.integers(0, 3, (n, n)).astype(float)):
        best = linprog(G.ravel(), A_eq=A, b_eq=np.ones(2 * n), method="highs").fun
        assert np.vdot(G, sets.Birkhoff(n).lmo(G)) == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("p", [1.0, 1.0001, 1.3, 2.0, 7.0, 1e4, math.inf])
def test_lp_lmo_attains_the_dual_norm_for_extreme_exponents(p):
    G = np.random.default_rng(7).standard_normal(50)
    q = math.inf if p == 1.0 else 1.0 if p == math.inf else p / (p - 1.0)
    dual = np.abs(G).max() * np.linalg.norm(G / np.abs(G).max(), q)
    s = sets.LpBall(50, p, radius=3.0).lmo(G)
    assert G @ s == pytest.approx(-3.0 * dual, rel=1e-9)
    assert np.linalg.norm(s / 3.0, p) <= 1.0 + 1e-12


@every_set
def test_lmo_accepts_lists_and_integers_and_answers_in_double_precision(case):
    G = np.arange(math.prod(case.domain.shape)).reshape(case.domain.shape) - 2
    expected = case.domain.lmo(G.astype(float))
    for given_as in (G, G.tolist()):
        s = case.domain.lmo(given_as)
        assert s.dtype == np.float64
        np.testing.assert_allclose(s, expected)


@every_set
def test_lmo_refuses_wrong_shapes_and_nan_by_name(case):
    shape = case.domain.shape
    with pytest.raises(ValueError, match="G must have shape"):
        case.domain.lmo(np.zeros((*shape, 2)))
    G = np.zeros(shape)
    G.flat[0] = np.nan
    with pytest.raises(ValueError, match="G has NaN or Inf"):
        case.domain.lmo(G)


@every_set
def test_an_oracle_answers_a_direction_in_extended_precision_as_in_double_precision(case):
    G = np.random.default_rng(4).standard_normal(case.domain.shape)
    oracle = case.domain.oracle()
    s = oracle(G.astype(np.longdouble))
    assert s.dense().dtype == np.longdouble
    np.testing.assert_allclose(s.dense().astype(np.float64), case.domain.lmo(G), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "domain",
    [
        sets.SpectralBall((3, 4)),
        sets.SpectralBall((3, 4), polar="inexact"),
        sets.NuclearBall((3, 4)),
        sets.NuclearBall((20, 30)),
        sets.SchattenBall((3, 4), 3.0),
        sets.Spectraplex(20),
        sets.Birkhoff(4),
    ],
    ids=repr,
)
def test_sets_of_matrices_take_a_start_in_extended_precision(domain):
    C = np.random.default_rng(0).standard_normal(domain.shape)
    f = functions.Smooth(lambda x: 0.5 * float(((x - C) ** 2).sum()), lambda x: x - C, convex=True)
    x0 = domain.start().astype(np.longdouble)
    res = dcfw.minimize(f, domain, x0=x0, tol=1e-3, maxiter=5)
    assert res.x.dtype == np.longdouble
    assert domain.contains(res.x)


class Reused:
    """A simplex that writes its answers into one array."""

    shape, polytope = (6,), True

    def __init__(self, xp=np):
        self.answer = xp.zeros(6)

    def lmo(self, G):
        self.answer[:] = 0.0
        self.answer[int(G.argmin())] = 1.0
        return self.answer

    def contains(self, x):
        return bool(abs(x.sum() - 1.0) < 1e-9 and x.min() > -1e-9)

    def start(self):
        return np.full(6, 1.0 / 6.0)


class ReusedVertex(sets.Set):
    """The same as a subclass."""

    shape, polytope, diameter = (6,), True, 2.0**0.5

    def __init__(self):
        self._vertex = Reused().lmo

    def violation(self, x):
        return sets.Simplex(6).violation(x)


@pytest.mark.parametrize("domain", [Reused(), ReusedVertex()], ids=["protocol", "subclass"])
def test_an_lmo_may_write_all_its_answers_into_one_array(domain):
    first, second = (Oracle(domain)(-row).dense() for row in np.eye(6)[:2])
    np.testing.assert_array_equal([first, second], np.eye(6)[:2])
    rng = np.random.default_rng(0)
    f = functions.LeastSquares(rng.standard_normal((8, 6)), rng.standard_normal(8))
    for objective in (f, functions.Smooth(f.value, f.grad, convex=True)):
        res = dcfw.minimize(objective, domain)
        assert res.success
        assert gaps.fw_gap(f, sets.Simplex(6), res.x) == pytest.approx(res.gap, abs=1e-12)


def test_an_lmo_may_write_all_its_answers_into_one_tensor():
    torch = pytest.importorskip("torch")
    oracle = Oracle(Reused(torch))
    first, second = (oracle(-row).dense() for row in torch.eye(6)[:2])
    assert (first[0], second[0], second[1]) == (1.0, 0.0, 1.0)
