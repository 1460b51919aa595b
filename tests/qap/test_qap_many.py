"""Many small problems in one call have the answers of single ones, whatever their sizes and workers."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, quadratic_assignment

from dcfw import kernels, qap


def noisy_pairs(count, n, rng):
    A = np.triu(rng.random((count, n, n)) < 0.3, 1).astype(int)
    A = A + A.swapaxes(1, 2)
    flips = np.triu(rng.random((count, n, n)) < 0.05, 1)
    B = np.abs(A - (flips + flips.swapaxes(1, 2)))
    p = rng.permutation(n)
    return np.stack([A, B[:, p][:, :, p]], axis=1)


def test_matchings_are_better_than_faq_in_the_mean():
    pairs = noisy_pairs(60, 20, np.random.default_rng(0))
    ours = qap.match_many(pairs, rng=0)
    options = {"maximize": True, "rng": np.random.default_rng(0)}
    faq = [quadratic_assignment(A, B, method="faq", options=options).fun for A, B in pairs]
    assert ours.fun.mean() > np.mean(faq)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=5), st.integers(0, 10**6))
def test_each_row_is_a_permutation_with_its_value(sizes, seed):
    rng = np.random.default_rng(seed)
    A, B = ([rng.integers(5, size=(pair[k],) * 2) for pair in sizes] for k in (0, 1))
    result = qap.solve_many(A, B, maximize=bool(seed % 2), rng=0)
    assert len(result.fun) == len(sizes)
    for k, (M, N) in enumerate(zip(A, B, strict=True)):
        n = max(sizes[k])
        p = result.permutations[k]
        assert sorted(p[:n]) == list(range(n))
        assert (p[n:] == -1).all()
        whole = [np.pad(X, (0, n - len(X))) for X in (M, N)]
        assert result.fun[k] == qap.evaluate(*whole, p[:n])


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e150])
def test_the_scale_of_the_matrices_does_not_matter(scale):
    rng = np.random.default_rng(7)
    A, B = rng.random((2, 30, 8, 8))
    C = rng.random((30, 8, 8))
    plain, scaled = (qap.solve_many(A * s, B, rng=0) for s in (1.0, scale))
    if 1e-200 < scale < 1e200:
        assert np.array_equal(plain.permutations, scaled.permutations)
    assert (np.sort(scaled.permutations, axis=1) == np.arange(8)).all()
    linear = qap.solve_many(A * scale, B, C * scale, rng=0)
    assert (np.sort(linear.permutations, axis=1) == np.arange(8)).all()


def test_a_linear_term_leads_the_search():
    rng = np.random.default_rng(8)
    A, B = rng.integers(5, size=(2, 20, 9, 9))
    C = rng.integers(100, size=(20, 9, 9)) * 50
    found = qap.solve_many(A, B, C, swaps=0, rng=0)
    best = [C[k][linear_sum_assignment(C[k])].sum() for k in range(20)]
    own = C[np.arange(20)[:, None], np.arange(9), found.permutations].sum(axis=1)
    assert np.mean(own) <= 1.1 * np.mean(best)
    assert (qap.solve_many(A, B, C, rng=0).fun <= found.fun).all()


def test_agreement_and_disagreement_are_those_of_match():
    graphs = [nx.gnp_random_graph(9, 0.4, seed=k) for k in range(6)]
    many = qap.match_many(list(zip(graphs[::2], graphs[1::2], strict=True)), rng=0)
    for k, (G, H) in enumerate(zip(graphs[::2], graphs[1::2], strict=True)):
        kept = sum(H.has_edge(many.permutations[k, u], many.permutations[k, v]) for u, v in G.edges)
        assert many.agreement[k] == kept
        assert many.disagreement[k] == G.number_of_edges() + H.number_of_edges() - 2 * kept


def test_workers_and_the_missing_extension_do_not_change_what_is_solved(monkeypatch):
    pairs = noisy_pairs(1100, 6, np.random.default_rng(1))
    alone = qap.match_many(pairs, rng=3)
    shared = qap.match_many(pairs, rng=3, n_jobs=2)
    assert np.array_equal(alone.permutations, shared.permutations)
    monkeypatch.setattr(kernels, "native", None)
    assert qap.match_many(pairs[:20], rng=3).fun.mean() >= 0.9 * alone.fun[:20].mean()


def test_a_dask_cluster_solves_the_same_problems():
    distributed = pytest.importorskip("distributed")
    joblib = pytest.importorskip("joblib")
    pairs = noisy_pairs(1100, 6, np.random.default_rng(2))
    alone = qap.match_many(pairs, rng=3)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        shared = qap.match_many(pairs, rng=3, n_jobs=2)
    assert np.array_equal(alone.permutations, shared.permutations)


def test_a_table_of_similarities_is_read_by_the_names_of_the_nodes_as_in_match():
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    names = list("abc")
    empty = pandas.DataFrame(np.zeros((3, 3)), names, names)
    turned = pandas.DataFrame(np.diag([9.0, 8.0, 7.0]), names, names).loc[names[::-1]]
    for pairs, table in (([(empty, empty)], turned), (np.zeros((1, 2, 3, 3)), turned.set_axis([2, 1, 0]))):
        table = table.set_axis(range(3), axis="columns") if isinstance(pairs, np.ndarray) else table
        assert qap.match_many(pairs, similarity=[table], rng=0).permutations.tolist() == [[0, 1, 2]]
        assert qap.match(*pairs[0], similarity=table).permutation.tolist() == [0, 1, 2]


@pytest.mark.parametrize("first", [0, 1])
def test_self_loops_of_either_graph_are_ignored_in_an_array_too(first):
    pairs = np.array([[[[0, 1.0], [1, 0]], [[5, 1.0], [1, 7]]]])
    pairs = pairs if first == 0 else pairs[:, ::-1]
    assert qap.match_many(pairs, loops="ignore").disagreement == [0.0]
    assert qap.match_many(pairs, loops="keep").disagreement == [5.0**2 + 7.0**2]


def test_the_edges_of_a_directed_graph_count_once_each_even_if_all_have_an_opposite():
    G = nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 1)])
    assert qap.match_many([(G, G)], rng=0).agreement == [qap.match(G, G).agreement] == [4]
    assert qap.match_many([(G.to_undirected(),) * 2], rng=0).agreement == [2]
    both = qap.match_many([(G, G), (G.to_undirected(),) * 2] * 600, rng=0)  # chunks of both kinds
    assert both.agreement.tolist() == [4, 2] * 600


TWO = np.eye(2)[None]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qap.match_many([(np.eye(3),)]), "two graphs each, got 1"),
        (lambda: qap.solve_many([np.eye(3)], [np.eye(3)] * 2), r"same number of matrices, got \[1, 2\]"),
        (lambda: qap.solve_many(np.ones((2, 3, 4)), np.ones((2, 3, 3))), "square matrices"),
        (
            lambda: qap.solve_many([np.eye(3)], [np.eye(2)], [np.ones((2, 2))]),
            r"C\[0\] must have shape \(3, 2\)",
        ),
        (lambda: qap.solve_many(1e200 * TWO, TWO), r"A has entries beyond 1e\+150"),
        (lambda: qap.solve_many([1e200 * TWO[0]], [TWO[0]]), r"A\[0\] has entries beyond 1e\+150"),
        (lambda: qap.solve_many(TWO, TWO, 1e200 * TWO), r"C\[0\] has entries beyond 1e\+150"),
        (lambda: qap.solve_many(TWO, TWO, [sp.diags_array([1.0, np.nan])]), r"C\[0\] has NaN or Inf"),
        (lambda: qap.solve_many(TWO, TWO, [sp.diags_array([1.0, np.inf])]), r"C\[0\] has NaN or Inf"),
        (lambda: qap.solve_many(TWO, TWO, swaps=1e300), "swaps must be a number in"),
        (lambda: qap.match_many([(TWO[0],) * 2], similarity=TWO[[0, 0]]), "for each of 1 pairs, got 2"),
        (
            lambda: qap.match_many([(TWO[0],) * 2], similarity=[np.eye(3)]),
            r"similarity\[0\] must have shape \(2, 2\)",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
