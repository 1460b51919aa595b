"""The compiled swap searches against NumPy's, which recompute every delta, and against full
evaluations."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import kernels
from dcfw.kernels import numpy_swaps, swaps
from dcfw.qap import evaluate

KINDS = ("symmetric", "A symmetric", "B symmetric", "asymmetric")
compiled = pytest.mark.skipif(kernels.native is None, reason="the extension is not built")


def make(n, seed, symmetry, size, linear, sparse=False):
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(-size, size + 1, (3, n, n))
    if sparse:  # equal rows: interchangeable items and places
        A *= rng.random((n, n)) < 0.05
        B[:, : n // 2] = B[: n // 2, :] = 0
        A, B = (A, B) if seed % 2 else (B, A)
    if symmetry in ("symmetric", "A symmetric"):
        A = A // 2 + (A // 2).T
    if symmetry in ("symmetric", "B symmetric"):
        B = B // 2 + (B // 2).T
    return A, B, (C if linear else None), rng.permutation(n)


cases = st.tuples(
    st.integers(2, 40),
    st.integers(0, 10**6),
    st.sampled_from(KINDS),
    st.sampled_from([3, 2000, 10**6]),  # int32, and float64 with exact sums
    st.booleans(),
    st.booleans(),
)

SEARCHES = {
    "tabu": lambda ready, p: ready.tabu(p, 5),
    "skewed tabu": lambda ready, p: ready.tabu(p, 5, skewed=True),
    "tabu with fixed items": lambda ready, p: ready.tabu(p, 5, fixed=1),
    "breakout": lambda ready, p: ready.breakout(p, 5),
    "annealing": lambda ready, p: ready.annealing(p, 5),
    "descent": lambda ready, p: ready.descent(p),
    "first descent": lambda ready, p: ready.first_descent(p, np.arange(len(p))),
}


def run(name, ready, search):
    if name == "annealing":
        unit = search.mean_delta(50)
        search.run(600, unit + 1e-9, 0.1 * unit + 1e-9, 5)
    elif name == "descent":
        search.run(200)
    elif name == "first descent":
        search.run(200, True)
    else:
        search.run(90, ready.goal(None))
    return search


def as_numpy(ready, A, B, C):
    """The same layout with NumPy's problem."""
    parts = [np.asarray(M, dtype=ready.kind) for M in _scaled(ready, A, B, C)]
    problem = numpy_swaps.AssignmentProblem(*parts[:2], parts[2] if C is not None else None, 0)
    return swaps.Layout(problem, ready.kind, ready.scale, ready.n, ready.exact)


def _scaled(ready, A, B, C):
    if ready.scale == 2:
        A, B = (A, B + B.T) if np.array_equal(A, A.T) else (A + A.T, B)
    return A, B, np.zeros_like(A) if C is None else ready.scale * C


@compiled
@pytest.mark.parametrize("name", SEARCHES)
@settings(max_examples=12)
@given(case=cases)
def test_compiled_and_numpy_searches_take_the_same_steps(name, case):
    A, B, C, p = make(*case)
    ready = swaps.layout(A, B, C)
    assert ready.exact
    ours = run(name, ready, SEARCHES[name](ready, p))
    native, kernels.native = kernels.native, None
    try:
        slow = as_numpy(ready, A, B, C)
        theirs = run(name, slow, SEARCHES[name](slow, p))
    finally:
        kernels.native = native
    np.testing.assert_array_equal(ours.p, theirs.p)
    if name != "first descent":
        assert ours.value == theirs.value == ready.scale * evaluate(A, B, ours.p, C)
    if hasattr(ours, "best_p"):
        np.testing.assert_array_equal(ours.best_p, theirs.best_p)
        assert ours.best == ready.scale * evaluate(A, B, ours.best_p, C)


@compiled
def test_types_are_the_narrowest_exact_ones():
    kinds = [swaps.layout(*make(12, 0, "symmetric", size, False)[:2]).kind for size in (3, 2000, 10**6)]
    assert kinds == ["int32", "int32", "float64"]
    ready = swaps.layout(*make(9, 0, "symmetric", 2**40, False)[:2])
    assert (ready.kind, ready.exact) == ("float64", False)


@compiled
def test_inexact_searches_keep_their_values_true():
    A, B, C, p = (
        M / 7.0 if M.dtype.kind == "i" and M.ndim == 2 else M for M in make(30, 1, "asymmetric", 90, True)
    )
    ready = swaps.layout(A, B, C)
    for search in (ready.tabu(p, 1), ready.breakout(p, 1)):
        search.run(9000, ready.goal(None))
        assert search.best == pytest.approx(evaluate(A, B, search.best_p, C), rel=1e-9)


@compiled
@pytest.mark.parametrize("p", [[0, 0, 1], [0, 1, 3], [-1, 0, 1], [0, 1]])
def test_no_search_accepts_anything_but_a_permutation(p):
    ready = swaps.layout(np.ones((3, 3), dtype=np.int64), np.eye(3, dtype=np.int64))
    for make_search in (
        lambda q: ready.tabu(q, 1),
        lambda q: ready.breakout(q, 1),
        lambda q: ready.annealing(q, 1),
    ):
        with pytest.raises(ValueError):
            make_search(np.array(p))


@compiled
def test_a_target_ends_a_search():
    A, B, _, p = make(20, 3, "symmetric", 60, False)
    ready = swaps.layout(A, B)
    search = ready.tabu(p, 1)
    search.run(5000, ready.goal(None))
    again = ready.tabu(p, 1)
    again.run(5000, search.best + 1)
    assert search.best <= again.best <= search.best + 1
    assert again.steps <= search.steps


def forest(n, rng, edges, low=-9):
    """Return symmetric weights of a random forest, with a diagonal."""
    F = np.diag(rng.integers(low, 10, n))
    order = rng.permutation(n)
    for k in range(1, edges + 1):
        i, j = order[k], order[rng.integers(0, k)]
        F[i, j] = F[j, i] = rng.integers(1, 10)
    return F


@compiled
@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("inverted", [True, False])
@pytest.mark.parametrize("edges", [1, 4, 6])
def test_a_tree_search_finds_the_optimum_of_small_problems(edges, inverted, integers):
    rng = np.random.default_rng(edges)
    A, (B, C) = forest(7, rng, edges), rng.integers(-20, 20, (2, 7, 7))
    A, B = (B + B.T, A) if inverted else (A, B + B.T)
    if not integers:
        A, B, C = A / 3.0, B / 7.0, C / 11.0
    ready = swaps.layout(A, B, C)
    assert ready.forest
    search = ready.tree(rng.permutation(7), 5)
    search.run(3000, ready.goal(None))
    values = [evaluate(A, B, list(p), C) for p in itertools.permutations(range(7))]
    assert search.best == pytest.approx(min(values), rel=1e-12)
    assert evaluate(A, B, search.best_p, C) == pytest.approx(min(values), rel=1e-12)
    assert type(search.best) is (int if integers else float)


@compiled
def test_a_tree_search_keeps_its_value_true_and_depends_on_its_seed_only():
    rng = np.random.default_rng(0)
    A, B = forest(40, rng, 39), rng.integers(0, 100, (40, 40))
    ready = swaps.layout(A, B)  # B is made symmetric: values are doubled
    start = rng.permutation(40)
    one, other = ready.tree(start, 3), ready.tree(start, 3)
    one.run(5000, ready.goal(None))
    for _ in range(50):
        other.run(100, ready.goal(None))
    assert one.best == other.best == ready.scale * evaluate(A, B, one.best_p)
    assert one.best < ready.scale * evaluate(A, B, start)
    assert one.steps == 5000
    one.run(10**9, one.best)  # returns at once
    assert one.steps == 5000


@compiled
def test_only_symmetric_problems_with_a_forest_have_a_tree_search():
    rng = np.random.default_rng(0)
    A, B = forest(9, rng, 8), rng.integers(0, 9, (9, 9))
    B += B.T
    assert swaps.layout(A, B).forest
    assert swaps.layout(B, A).forest
    cycle = np.roll(np.eye(9, dtype=int), 1, axis=1)
    for flows in (cycle + cycle.T, np.diag(np.arange(9)), B):
        assert not swaps.layout(flows, B).forest
        with pytest.raises(ValueError, match="forest"):
            swaps.layout(flows, B).tree(np.arange(9), 1)
    assert not swaps.layout(np.triu(A), np.triu(B)).forest  # neither is symmetric
