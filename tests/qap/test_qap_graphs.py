"""Graph matching finds hidden relabellings and reports what the matching keeps."""

import os
import signal
import subprocess
import sys
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dcfw import qap
from dcfw.qap.matching.candidates import by_candidates
from dcfw.qap.matching.paths import Pair


def relabelled(G, seed):
    """Return G with other names in another order, and the renaming."""
    rng = np.random.default_rng(seed)
    names = [f"node {k}" for k in rng.permutation(len(G))]
    renaming = dict(zip(G, names, strict=True))
    H = G.__class__()
    H.add_nodes_from(np.sort(names).tolist())
    H.add_edges_from((renaming[u], renaming[v], data) for u, v, data in G.edges(data=True))
    return H, renaming


def kept(G, H, mapping):
    return sum(1 for u, v in G.edges if H.has_edge(mapping[u], mapping[v]))


@pytest.mark.parametrize("directed", [False, True])
def test_a_relabelled_graph_is_recognised(directed):
    G = nx.gnp_random_graph(30, 0.3, seed=1, directed=directed)
    H, renaming = relabelled(G, 2)
    result = qap.match(G, H, restarts=5, polish="2opt", rng=0)
    assert result.mapping == renaming
    assert result.agreement == G.number_of_edges()
    assert result.disagreement == 0


@given(
    st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 10**6)
)
def test_agreement_and_disagreement_count_edges(n1, n2, directed, weighted, loops, seed):
    rng = np.random.default_rng(seed)
    graphs = []
    for n in (n1, n2):
        G = nx.gnp_random_graph(n, 0.5, seed=int(rng.integers(10**6)), directed=directed)
        if loops:
            G.add_edge(0, 0)
        for _, _, data in G.edges(data=True):
            if weighted:
                data["weight"] = float(rng.random())
        graphs.append(G)
    result = qap.match(*graphs, loops="keep", rng=0)
    G, H = graphs
    mapping = result.mapping
    assert set(mapping) == set(G)
    partners = [partner for partner in mapping.values() if partner is not None]
    assert len(set(partners)) == len(partners) == min(n1, n2)

    agreement, ours, theirs = 0.0, 0.0, 0.0
    for u, v, data in G.edges(data=True):
        w1, w2 = data.get("weight", 1), 0
        if H.has_edge(mapping[u], mapping[v]):
            w2 = H.edges[mapping[u], mapping[v]].get("weight", 1)
            theirs += w2**2
        agreement += w1 * w2
        ours += (w1 - w2) ** 2
    everything = sum(data.get("weight", 1) ** 2 for *_, data in H.edges(data=True))
    assert result.agreement == pytest.approx(agreement)
    assert result.disagreement == pytest.approx(ours + everything - theirs)
    if not weighted:
        assert type(result.agreement) is type(result.disagreement) is int
        assert result.agreement == kept(G, H, mapping)


def test_the_value_is_that_of_the_maximisation_problem():
    G, H = nx.gnp_random_graph(8, 0.5, seed=3), nx.gnp_random_graph(8, 0.5, seed=4)
    result = qap.match(G, H)
    A, B = nx.to_numpy_array(G, dtype=int), nx.to_numpy_array(H, dtype=int)
    assert result.fun == qap.evaluate(A, B, result.permutation) == 2 * result.agreement
    assert result.fun == qap.solve(A, B, method="dcfw", maximize=True).fun


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_matrix, np.ndarray.tolist])
def test_matrices_give_an_array_of_indices(kind):
    G = nx.gnp_random_graph(9, 0.4, seed=5)
    A = nx.to_numpy_array(G, dtype=int)
    p = np.random.default_rng(6).permutation(9)
    result = qap.match(kind(A), kind(A[np.ix_(p, p)]), restarts=10, polish="2opt", rng=0)
    assert isinstance(result.mapping, np.ndarray)
    assert result.disagreement == 0
    assert result.agreement == G.number_of_edges()


def test_unmatched_nodes_have_no_partner():
    triangle, path = nx.complete_graph(3), nx.path_graph(5)
    result = qap.match(path, triangle, restarts=5, polish="2opt", rng=0)
    assert sum(partner is None for partner in result.mapping.values()) == 2
    assert result.agreement == 2
    result = qap.match(nx.to_numpy_array(path), nx.to_numpy_array(triangle), restarts=5, rng=0)
    assert np.sum(result.mapping == -1) == 2
    assert result.mapping.shape == (5,)
    result = qap.match(triangle, path, rng=0)
    assert None not in result.mapping.values()


def test_a_graph_is_found_inside_a_larger_one():
    G = nx.gnp_random_graph(14, 0.4, seed=8)
    part = G.subgraph(range(7))
    result = qap.match(part, G, restarts=30, polish="2opt", rng=0)
    assert result.agreement == part.number_of_edges()


@pytest.mark.parametrize("form", [dict, lambda seeds: list(seeds.items())])
def test_seeds_are_kept_and_help(form):
    G = nx.gnp_random_graph(25, 0.3, seed=9)
    H, renaming = relabelled(G, 10)
    seeds = {node: renaming[node] for node in (3, 7, 11, 19)}
    result = qap.match(G, H, seeds=form(seeds))
    assert all(result.mapping[node] == partner for node, partner in seeds.items())
    assert result.mapping == renaming
    result = qap.match(nx.to_numpy_array(G), nx.to_numpy_array(G), seeds=[[0, 5], [1, 1]])
    assert np.array_equal(result.mapping[:2], [5, 1])


def test_weights_may_have_another_name_or_be_ignored():
    G = nx.Graph()
    G.add_edge("a", "b", cost=3, weight=9)
    G.add_edge("b", "c", cost=2)
    for weight, agreement in (("cost", 13), ("weight", 82), (None, 2)):
        result = qap.match(G, G, weight=weight, restarts=5, polish="2opt", rng=0)
        assert result.agreement == agreement
        assert result.disagreement == 0


def test_a_reward_for_pairs_of_nodes_decides_between_equal_matchings():
    G = nx.cycle_graph(6)
    C = np.zeros((6, 6))
    C[0, 4] = C[1, 3] = 0.5
    result = qap.match(G, G, C=C, restarts=10, polish="2opt", rng=0)
    assert result.agreement == 6
    assert (result.mapping[0], result.mapping[1]) == (4, 3)


def test_sparse_graphs_are_matched_without_dense_matrices():
    G = nx.gnm_random_graph(320, 900, seed=11)
    H, renaming = relabelled(G, 12)
    seeds = {node: renaming[node] for node in range(0, 320, 8)}
    result = qap.match(G, H, seeds=seeds, method="fw", max_lmo=30)
    right = np.mean([result.mapping[node] == renaming[node] for node in G])
    assert right > 0.9


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((nx.path_graph(3), np.eye(3)), {}, TypeError, "both be networkx graphs or both"),
        ((nx.Graph(), nx.path_graph(3)), {}, ValueError, "G1 must have at least one node"),
        ((np.eye(3), np.ones((2, 3))), {}, ValueError, "G2 must be a square matrix"),
        ((np.eye(3), np.eye(3)), {"maximize": False}, TypeError, "unexpected keyword argument 'maximize'"),
        (
            (np.eye(3), np.eye(3)),
            {"partial_match": [[0, 0]], "seeds": [[0, 0]]},
            TypeError,
            "another name for seeds",
        ),
        (
            (np.eye(3), np.eye(3)),
            {"forbidden": [(0, 1)], "seeds": [(0, 1)]},
            ValueError,
            r"both have the pair \(0, 1\): remove one",
        ),
        (
            (np.eye(3), np.eye(3)),
            {"forbidden": [(0, 1)], "seeds": [(0, 1, 2.0)]},
            ValueError,
            r"both have the pair \(0, 1\)",
        ),
        ((np.eye(2), np.eye(2)), {"forbidden": [(0, 0), (0, 1)]}, ValueError, "leaves no matching"),
        ((np.eye(3), np.eye(3)), {"node_match": "label"}, TypeError, "give similarity= for matrices"),
        ((nx.path_graph(3),) * 2, {"node_match": "label"}, ValueError, "has an attribute 'label'"),
        ((np.eye(3), np.eye(3)), {"similarity": np.ones((2, 3))}, ValueError, r"shape \(3, 3\)"),
        (([np.eye(3)] * 2, [np.eye(3)]), {}, ValueError, "same number of layers, got 2 and 1"),
        ((np.eye(3), np.eye(3)), {"seeds": [[0, 5]]}, ValueError, "5, which is not a node of G2"),
        ((nx.path_graph(3),) * 2, {"seeds": {"x": 0}}, ValueError, "'x', which is not a node of G1"),
        ((nx.path_graph(3),) * 2, {"seeds": [(0, 0), (1, 0)]}, ValueError, "seeds repeats node 0 of G2"),
        ((nx.path_graph(3),) * 2, {"seeds": [(0, 0, 1, 2)]}, ValueError, "must be pairs"),
        ((nx.path_graph(3),) * 2, {"seeds": [(1, 0), (1, 0)]}, ValueError, "seeds repeats node 1 of G1"),
        (([np.eye(3), np.eye(2)], [np.eye(3)] * 2), {}, ValueError, "layers of G1 must have one shape"),
        ((np.eye(3), np.eye(2)), {"similarity": np.ones((2, 2))}, ValueError, r"shape \(3, 2\)"),
        ((nx.path_graph(3),) * 2, {"restart": 3}, TypeError, "restart"),
        ((np.eye(3),) * 2, {"seeds": [(0, 0, -np.inf)]}, ValueError, r"of seeds \(forbidden= excludes pairs"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        qap.match(*arguments, **options)


def test_networkx_is_not_loaded_for_matrices():
    code = (
        "import sys, numpy as np; from dcfw import qap;"
        "qap.match(np.eye(3), np.eye(3)); assert 'networkx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def noisy_small_world(n, seed):
    """Return a graph, a shuffled copy with a few edges moved, and how many edges the true matching misses."""
    G1 = nx.watts_strogatz_graph(n, 6, 0.1, seed=seed)
    rng = np.random.default_rng(seed)
    G2 = G1.copy()
    edges = list(G1.edges)
    G2.remove_edges_from([edges[k] for k in rng.choice(len(edges), 4, replace=False)])
    G2.add_edges_from([(0, n // 2), (1, n // 2 + 3)])
    G2 = nx.relabel_nodes(G2, dict(enumerate(rng.permutation(n).tolist())))
    return G1, G2, 6


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_run_finds_a_planted_matching_that_plain_frank_wolfe_misses(seed):
    G1, G2, planted = noisy_small_world(40, seed)
    ours = qap.match(G1, G2, rng=0)
    assert ours.method == "path"
    assert ours.disagreement <= planted
    assert qap.match(G1, G2, method="fw", rng=0).disagreement > 3 * planted


@pytest.mark.parametrize("value", [None, "2", 1j])
def test_an_edge_whose_weight_is_not_a_number_is_named(value):
    G = nx.Graph([("a", "b"), ("b", "c")])
    G["b"]["c"]["weight"] = value
    with pytest.raises(TypeError, match=r"G2 has an edge \('b', 'c'\) whose 'weight' is not a real number"):
        qap.match(nx.path_graph(3), G)
    assert qap.match(nx.path_graph(3), G, weight=None).agreement == 2


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_the_disagreement_of_a_sparse_and_a_dense_matrix_is_that_of_two_dense_ones(kind, first):
    rng = np.random.default_rng(0)
    A, B = (M + M.T for M in rng.random((2, 6, 6)))
    pair = (kind(A), B) if first else (A, kind(B))
    result = qap.match(*pair, loops="keep", rng=0)
    difference = A - B[np.ix_(result.mapping, result.mapping)]
    once = np.sum(np.triu(difference) ** 2)  # an undirected edge counts once
    assert result.disagreement == pytest.approx(once)


def test_weights_may_be_fractions_and_too_large_ones_are_named():
    G = nx.Graph()
    G.add_edge("a", "b", weight=Fraction(1, 2))
    G.add_edge("b", "c", weight=True)
    G.add_edge("c", "d", weight=2)
    result = qap.match(G, G, restarts=5, rng=0)
    assert (result.agreement, result.disagreement) == (5.25, 0.0)
    G.add_edge("c", "e", weight=2**70)
    with pytest.raises(ValueError, match=r"G1 has an edge \('c', 'e'\) whose 'weight' is beyond 2\*\*63 - 1"):
        qap.match(G, G)


@pytest.mark.parametrize("edges", [2, 3, 4, 5])
def test_parallel_edges_whose_weights_would_wrap_are_named(edges):
    G = nx.MultiGraph()
    G.add_edges_from(edges * [("a", "b", {"weight": 2**62})])
    with pytest.raises(ValueError, match=r"whose 'weight' is beyond 2\*\*63 - 1"):
        qap.match(G, G, parallel="sum")


def test_a_seed_that_can_be_no_node_is_named():
    with pytest.raises(ValueError, match=r"seeds has \[0\], which is not a node of G1"):
        qap.match(nx.path_graph(3), nx.path_graph(3), seeds=[([0], 1)])


FAMILIES = {
    "small world": lambda n: nx.watts_strogatz_graph(n, 6, 0.1, seed=1),
    "preferential": lambda n: nx.barabasi_albert_graph(n, 3, seed=1),
    "uniform": lambda n: nx.gnp_random_graph(n, 8.0 / n, seed=1),
    "grid": lambda n: nx.convert_node_labels_to_integers(nx.grid_2d_graph(n // 12, 12)),
}


def moved(G, share, rng):
    """Return adjacency matrices of G and of a shuffled copy with some edges moved, and the true partners."""
    n = len(G)
    A = nx.to_numpy_array(G, dtype=int)
    noisy, pairs = A.copy(), np.stack(np.triu_indices(n, 1), axis=1)
    edges = A[tuple(pairs.T)] > 0
    for kind, value in ((edges, 0), (~edges, 1)):
        i, j = rng.choice(pairs[kind], round(share * edges.sum()), replace=False).T
        noisy[i, j] = noisy[j, i] = value
    p = rng.permutation(n)
    B = np.empty_like(noisy)
    B[np.ix_(p, p)] = noisy
    return A, B, p


@pytest.mark.parametrize("family", FAMILIES)
def test_correct_seeds_lead_to_the_planted_matching(family):
    A, B, p = moved(FAMILIES[family](144), 0.05, np.random.default_rng(3))
    planted = np.abs(A - B[np.ix_(p, p)]).sum() // 2
    lost = []
    for count in (0, 5, 15):
        rows = np.random.default_rng(4).permutation(144)[:count]
        result = qap.match(
            sp.csr_array(A), sp.csr_array(B), seeds=np.stack([rows, p[rows]], axis=1), polish=None
        )
        assert np.array_equal(result.mapping[rows], p[rows])
        lost.append(result.disagreement)
    assert lost[2] <= planted
    assert lost[2] <= lost[1] <= lost[0]


@pytest.mark.parametrize("directed", [False, True])
def test_the_compiled_path_ends_like_the_one_in_numpy(directed, monkeypatch):
    from dcfw import kernels

    rng = np.random.default_rng(5)
    A = np.triu(rng.random((14, 14)) < 0.4, 0 if directed else 1).astype(float)
    A = rng.permuted(A, axis=1) if directed else A + A.T
    p = rng.permutation(14)
    options = {
        "seeds": [(0, p[0])],
        "forbidden": [(1, p[2])],
        "similarity": rng.random((14, 14)),
        "loops": "keep",
        "polish": None,
    }
    B = np.empty_like(A)
    B[np.ix_(p, p)] = A
    compiled = qap.match(A, B, **options)
    monkeypatch.setattr(kernels, "native", None)
    assert np.array_equal(qap.match(A, B, **options).mapping, compiled.mapping)


def test_attributes_types_of_edges_and_forbidden_pairs_decide_between_equal_matchings():
    G = nx.cycle_graph(8)
    ring = nx.to_numpy_array(G, dtype=int)
    colours = {k: "red" if k == 2 else f"blue {k % 3}" for k in G}
    H = nx.relabel_nodes(G, {k: (k + 3) % 8 for k in G})
    nx.set_node_attributes(G, colours, "colour")
    nx.set_node_attributes(H, {(k + 3) % 8: colours[k] for k in colours}, "colour")
    by_colour = qap.match(G, H, node_match="colour")
    assert (by_colour.disagreement, by_colour.mapping) == (0, {k: (k + 3) % 8 for k in range(8)})
    heavy = np.zeros((8, 8), dtype=int)
    heavy[0, 1] = heavy[1, 0] = heavy[1, 2] = heavy[2, 1] = heavy[4, 5] = heavy[5, 4] = 1
    by_layer = qap.match([ring - heavy, heavy], [ring - heavy, heavy])
    assert by_layer.disagreement == 0
    assert by_layer.mapping[1] == 1
    elsewhere = qap.match(ring, ring, forbidden=[(0, k) for k in range(8) if k != 5], seeds=[(1, 6, 0.5)])
    assert (elsewhere.mapping[0], elsewhere.mapping[1], elsewhere.disagreement) == (5, 6, 0)


def test_infinite_attributes_agree_with_themselves_alone():
    G = nx.empty_graph(3)
    nx.set_node_attributes(G, {0: 1.0, 1: 2.0, 2: np.inf}, "size")
    same = {0: 0, 1: 1, 2: 2}
    assert qap.match(G, G, node_match="size", seeds=same).fun == 3.0
    width = np.std([1.0, 2.0])
    turned = qap.match(G, G, node_match="size", seeds={0: 1, 1: 0, 2: 2})
    assert turned.fun == pytest.approx(1.0 + 2.0 * np.exp(-0.5 / width**2))


def test_nodes_that_only_later_layers_have_keep_their_attributes():
    one, two = nx.Graph([(0, 1)]), nx.Graph([(2, 3)])
    nx.set_node_attributes(one, {0: "p", 1: "q"}, "kind")
    nx.set_node_attributes(two, {2: "r", 3: "s"}, "kind")
    res = qap.match([one, two], [one, two], node_match="kind", seeds={k: k for k in range(4)})
    assert res.fun == 2 * 2 + 4


def lollipop():
    """Return a labelled graph whose tail e, f, g has one image in every copy, with weights."""
    G = nx.relabel_nodes(nx.lollipop_graph(4, 3), dict(enumerate("abcdefg")))
    for k, (_, _, data) in enumerate(G.edges(data=True)):
        data["weight"] = k + 1
    return G


@pytest.mark.parametrize("form", ["edges", "matrix"])
def test_graphs_come_from_pandas_with_their_weights_and_labels(form):
    pandas = pytest.importorskip("pandas")
    G = lollipop()
    if form == "edges":
        frame = pandas.DataFrame(list(G.edges(data="weight")), columns=["source", "target", "weight"])
        result = qap.match(frame, G)
        assert result.mapping == {node: node for node in G}
        assert qap.match(frame, G, weight=None).agreement == G.number_of_edges()
    else:
        result = qap.match(nx.to_pandas_adjacency(G, dtype=int), nx.to_numpy_array(G, dtype=int))
        assert result.mapping == dict(zip(G, range(7), strict=True))
    assert result.disagreement == 0
    assert result.agreement == sum(w * w for *_, w in G.edges(data="weight"))


@pytest.mark.parametrize("directed", [False, True])
def test_graphs_come_from_igraph_with_their_weights_attributes_and_labels(directed):
    igraph = pytest.importorskip("igraph")
    G = nx.DiGraph(lollipop().edges(data=True)) if directed else lollipop()
    nodes, place = list(G), {node: k for k, node in enumerate(G)}
    H = igraph.Graph([(place[u], place[v]) for u, v in G.edges], n=len(G), directed=directed)
    H.es["weight"] = [w for *_, w in G.edges(data="weight")]
    result = qap.match(H, G)
    assert result.mapping == {place[node]: node for node in G}  # without names igraph's nodes are indices
    assert result.disagreement == 0
    H.vs["name"] = nodes
    assert qap.match(G, H).mapping == {node: node for node in G}
    H.vs["colour"] = ["red" if node == "a" else "blue" for node in nodes]
    other = H.copy()
    other.vs["colour"] = ["red" if node == "b" else "blue" for node in nodes]
    assert qap.match(H, other, weight=None, node_match={"colour": 9.0}).mapping["a"] == "b"
    H.add_edge(0, 1)
    with pytest.raises(ValueError, match=r"more than one edge \('a', 'b'\)"):
        qap.match(H, G)
    other.vs["name"] = ["a", *nodes[:-1]]
    with pytest.raises(ValueError, match="G1 has two rows with the name 'a'"):
        qap.match(other, G)


def test_the_picture_shows_both_graphs_and_counts_lost_edges():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = qap.match(nx.path_graph(4), nx.cycle_graph(5))
    titles = [ax.get_title() for ax in result.plot()]
    assert titles == [
        "first graph: 0 edges without a counterpart",
        "second graph: 2 edges without a counterpart",
    ]
    one, two = nx.path_graph(4), nx.cycle_graph(4)
    ways = nx.DiGraph([(0, 1), (1, 2), (3, 2)])
    layered = qap.match([two, ways], [one, ways], seeds={k: k for k in range(4)})
    titles = [ax.get_title() for ax in layered.plot()]
    assert [title.split(": ")[1][0] for title in titles] == ["1", "0"]  # of both layers
    matplotlib.pyplot.close("all")


def test_each_node_has_the_share_of_its_edges_that_is_kept():
    G1, G2 = nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]), nx.path_graph(4)
    G1.add_node("e")
    partner = {"a": 0, "b": 1, "c": 2, "d": 3}
    result = qap.match(G1, G2, seeds=partner)
    shares = result.kept
    assert np.isnan(shares.pop("e"))
    assert shares == {"a": 0.5, "b": 1.0, "c": 2 / 3, "d": 1.0}
    arrays = qap.match(nx.to_numpy_array(G1), nx.to_numpy_array(G2), seeds=[(k, k) for k in range(4)])
    np.testing.assert_array_equal(arrays.kept, [0.5, 1.0, 2 / 3, 1.0, np.nan])
    text = str(result)
    assert "4 of 5 have a partner among 4; 0 keep less than half" in text
    assert " mapping: 'a': 0, 'b': 1, 'c': 2, 'd': 3, 'e': None" in text
    ways = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    turned = qap.match(ways, ways.reverse(), seeds={k: k for k in range(3)})
    assert turned.kept == {0: 0.0, 1: 0.0, 2: 0.0}
    assert "3 keep less than half" in str(turned)
    layers = qap.match([ways, ways], [ways, ways.reverse()], seeds={k: k for k in range(3)})
    assert layers.kept == {0: 0.5, 1: 0.5, 2: 0.5}
    assert qap.solve(np.eye(3), np.eye(3)).kept is None


@pytest.mark.parametrize("empty", [(True, False), (False, True), (True, True)])
def test_a_graph_without_edges_has_shares_that_are_not_numbers_and_can_be_shown(empty):
    graphs = [np.zeros((2, 2), int) if no_edges else np.array([[0, 1], [1, 0]]) for no_edges in empty]
    res = qap.match(*graphs)
    np.testing.assert_array_equal(res.kept, [np.nan, np.nan] if empty[0] else [0.0, 0.0])
    assert f"{0 if empty[0] else 2} keep less than half" in str(res)


def test_verbose_shows_the_paths_and_changes_no_matching(capsys):
    A = nx.to_numpy_array(nx.watts_strogatz_graph(30, 4, 0.2, seed=1), dtype=int)
    plain = qap.match(A, A[::-1, ::-1], restarts=3, rng=0)
    assert capsys.readouterr().err == ""
    shown = qap.match(A, A[::-1, ::-1], restarts=3, rng=0, verbose=1)
    np.testing.assert_array_equal(plain.permutation, shown.permutation)
    assert plain.method == shown.method == "path"
    assert "qap.match" in capsys.readouterr().err
    searched = qap.match(A, A[::-1, ::-1], restarts="auto", max_steps=100, rng=0, verbose=1)
    assert searched.disagreement == 0
    by_dcfw = qap.match(A, A[::-1, ::-1], method="dcfw", rng=0, verbose=1)
    assert by_dcfw.fun == qap.match(A, A[::-1, ::-1], method="dcfw", rng=0).fun


def test_self_loops_that_change_the_best_matching_are_refused_unless_something_is_said_about_them():
    G = nx.cycle_graph(6)
    G.add_edge(2, 2)
    H = nx.relabel_nodes(G, {k: (k + 1) % 6 for k in G})
    with pytest.raises(ValueError, match=r"G1 at node 2.*loops='keep' compares.*loops='ignore' drops"):
        qap.match(G, H)
    with pytest.raises(ValueError, match="loops='keep'"):
        qap.match_many([(nx.to_numpy_array(G), nx.to_numpy_array(H))])
    kept = qap.match(G, H, loops="keep")
    assert (kept.mapping[2], kept.agreement, kept.disagreement) == (3, 7, 0)
    dropped = qap.match(G, H, loops="ignore", seeds={2: 5})
    assert (dropped.agreement, dropped.disagreement) == (6, 0)
    many = [(nx.to_numpy_array(G), nx.to_scipy_sparse_array(H))] * 2
    assert qap.match_many(many, loops="keep", swaps=9, rng=0).agreement.tolist() == [7, 7]
    assert qap.match_many(many, loops="ignore", swaps=9, rng=0).agreement.tolist() == [6, 6]


@pytest.mark.parametrize(
    ("one", "two", "matters"),
    [
        ([0, 0, 0], [1, 0, 2], False),  # nothing to compare with
        ([1, 1, 1], [1, 0, 2], False),  # every matching earns 3
        ([1, 0, 2], [2, 2, 2], False),
        ([1, 0, 2], [2, 0, 0], True),
        ([1, 1], [2, 2, 2], False),
        ([1, 1], [2, 0, 0], True),  # which nodes are left out decides
        ([1, 2], [2, 2, 2], False),
    ],
)
def test_self_loops_matter_where_their_sum_depends_on_the_matching(one, two, matters):
    A, B = np.diag(one), np.diag(two)
    for pair in ((A, B), (B, A), (sp.csr_array(A), sp.csr_array(B))):
        if matters:
            with pytest.raises(ValueError, match="self loops"):
                qap.match(*pair)
        else:
            qap.match(*pair)


def test_parallel_edges_are_refused_unless_something_is_said_about_them():
    pandas = pytest.importorskip("pandas")
    M = nx.MultiGraph(nx.cycle_graph(6))
    assert qap.match(M, M).disagreement == 0  # no two edges between the same nodes
    M.add_edge(1, 0, weight=2)
    N = nx.relabel_nodes(M, {k: (k + 2) % 6 for k in M})
    with pytest.raises(
        ValueError, match=r"G1 has more than one edge \(0, 1\): parallel='sum'.*parallel='max'"
    ):
        qap.match(M, N)
    with pytest.raises(ValueError, match="G2 has more than one edge"):
        qap.match_many([(nx.cycle_graph(6), N)])
    for parallel, weight in (("sum", 3), ("max", 2)):
        doubled = qap.match(M, N, parallel=parallel)
        assert ({doubled.mapping[0], doubled.mapping[1]}, doubled.disagreement) == ({2, 3}, 0)
        assert doubled.agreement == 5 + weight**2
        assert qap.match_many([(M, N)], parallel=parallel, swaps=9, rng=0).agreement == doubled.agreement
    edges = pandas.DataFrame({"source": [0, 1, 1, 2], "target": [1, 0, 2, 1]})  # both directions
    with pytest.raises(ValueError, match="more than one edge"):
        qap.match(edges, nx.path_graph(3))
    assert qap.match(edges, nx.path_graph(3), parallel="max").disagreement == 0
    both = nx.MultiDiGraph([(0, 1), (1, 0)])
    assert qap.match(both, both).agreement == 2  # two directions are two edges


def test_different_sizes_are_refused_without_padding():
    with pytest.raises(ValueError, match="G1 has 3 nodes and G2 has 4; padding=True leaves some"):
        qap.match(nx.path_graph(3), nx.path_graph(4), padding=False)
    assert qap.match(nx.path_graph(3), nx.path_graph(4)).agreement == 2
    assert qap.match(nx.path_graph(4), nx.path_graph(4), padding=False).agreement == 3


def test_a_core_lies_where_edges_are_kept_and_leaves_the_fixed_pairs_alone():
    from dcfw.qap.matching.cores import with_core
    from dcfw.qap.matching.paths import Pair

    ring = sp.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(40), dtype=float))
    p = np.arange(40)
    p[20:] = np.random.default_rng(0).permutation(p[20:])
    none = np.empty((0, 2), dtype=np.int64)
    pair = Pair([ring], [ring], None, np.array([[5, 5]]), none)
    for seed in range(20):
        fixed = with_core(pair, p, np.random.default_rng(seed)).fixed
        assert fixed[0].tolist() == [5, 5]
        assert len(fixed) == len(np.unique(fixed[:, 0])) == 1 + round(0.15 * 39)
        assert np.array_equal(p[fixed[:, 0]], fixed[:, 1])
        assert np.mean(fixed[:, 0] < 20) > 0.5


def test_paths_from_cores_mend_the_patchwork_on_a_grid(monkeypatch):
    from dcfw.qap.matching import search

    monkeypatch.setattr(search, "PATCHED", 0.0)  # without the patient path
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 10))
    alone = several = 0
    for seed in range(4):
        A, B, _ = moved(grid, 0.1, np.random.default_rng(seed))
        alone += qap.match(A, B, rng=0).disagreement
        several += qap.match(A, B, restarts=8, rng=0).disagreement
    assert several < 0.8 * alone


@pytest.mark.parametrize("polish", [None, "tabu"])
def test_further_paths_are_the_same_for_every_number_of_workers(polish):
    G, H = (nx.gnp_random_graph(40, 0.1, seed=seed) for seed in (4, 54))
    one, two, three = (qap.match(G, H, restarts=11, rng=4, n_jobs=jobs, polish=polish) for jobs in (1, 2, 3))
    assert one.restart_values == two.restart_values == three.restart_values
    assert one.mapping == two.mapping == three.mapping


@pytest.mark.parametrize("form", ["one layer", "two layers", "a forbidden pair", "rewards"])
def test_a_target_ends_the_paths_of_restarts_auto(form):
    M = nx.to_numpy_array(nx.gnp_random_graph(30, 0.2, seed=3), dtype=int)
    graph = [M, M] if form == "two layers" else M
    options = {"a forbidden pair": {"forbidden": [(0, 1)]}, "rewards": {"similarity": np.eye(30)}}.get(
        form, {}
    )
    res = qap.match(graph, graph, restarts="auto", time_limit=60, target=1, rng=0, **options)
    assert (res.status.name, res.success, res.n_starts) == ("TARGET", True, 1)
    assert res.fun >= 1


def test_a_target_that_only_the_searches_reach_ends_them():
    G, H = (nx.to_numpy_array(nx.gnp_random_graph(12, 0.3, seed=seed), dtype=int) for seed in (1, 2))
    best = qap.match(G, H, restarts="auto", max_steps=2000, rng=0).fun
    res = qap.match(G, H, restarts="auto", time_limit=60, target=best, rng=0)
    assert (res.status.name, res.fun) == ("TARGET", best)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 3}, "target is for restarts='auto' only"),
        (
            {"restarts": "auto", "max_steps": 9, "forbidden": [(0, 1)]},
            "max_steps counts steps of swap searches",
        ),
        ({"restarts": "auto", "time_limit": 1, "target": "many"}, "target must be a real number"),
    ],
)
def test_goals_and_budgets_that_would_be_ignored_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        qap.match(np.eye(5, k=1), np.eye(5, k=1), **options)


def test_a_patient_path_finds_a_grid_that_the_first_one_misses(monkeypatch):
    from dcfw.qap.matching import search

    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 20))
    A, B, p = moved(grid, 0.05, np.random.default_rng(1))
    planted = np.abs(A - B[np.ix_(p, p)]).sum() // 2
    patient = qap.match(A, B, rng=0)
    assert patient.n_starts == 4
    assert patient.disagreement <= 1.1 * planted
    assert qap.match(A, B, time_limit=1e-3, rng=0).n_starts == 1  # no time for patience
    assert qap.match(A, A, rng=0).n_starts == 1  # the first path keeps most of the edges
    monkeypatch.setattr(search, "PATCHED", 0.0)
    assert qap.match(A, B, rng=0).disagreement > 2 * planted


def test_candidates_find_the_planted_matching_from_a_few_seeds(monkeypatch):
    from dcfw.qap.matching import search

    A, B, p = moved(nx.gnp_random_graph(400, 8 / 400, seed=1), 0.02, np.random.default_rng(6))
    seeds = np.stack([np.arange(20), p[:20]], axis=1)
    monkeypatch.setattr(search, "LARGEST", 100)
    monkeypatch.setattr(search, "SEEDED", 100)
    result = qap.match(sp.csr_array(A), sp.csr_array(B), seeds=seeds)
    assert np.mean(result.mapping == p) > 0.95
    with pytest.raises(ValueError, match="need seeds or a sparse similarity"):
        qap.match(sp.csr_array(A), sp.csr_array(B))


@pytest.mark.parametrize("ends", ["Ctrl-C", "time limit"])
@pytest.mark.parametrize("after", [1, 6, 30])
def test_candidates_end_within_a_round_with_the_last_matching(ends, after, monkeypatch):
    from dcfw.qap.matching import candidates, search

    A, B, p = moved(nx.gnp_random_graph(400, 8 / 400, seed=1), 0.02, np.random.default_rng(6))
    seeds = np.stack([np.arange(20), p[:20]], axis=1)
    monkeypatch.setattr(search, "SEEDED", 100)
    monkeypatch.setattr(candidates, "BLOCK", 100)
    largest, calls = candidates._largest, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == after:
            if ends == "Ctrl-C":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                monkeypatch.setattr(candidates, "is_over", lambda deadline: True)
        return largest(*args)

    whole = qap.match(sp.csr_array(A), sp.csr_array(B), seeds=seeds)
    monkeypatch.setattr(candidates, "_largest", interrupted)
    result = qap.match(sp.csr_array(A), sp.csr_array(B), seeds=seeds)
    assert result.status.name == ("INTERRUPTED" if ends == "Ctrl-C" else "TIME_LIMIT")
    assert len(calls) == after
    assert result.nit == after // 4 < whole.nit
    assert sorted(result.mapping) == list(range(400))
    assert np.array_equal(result.mapping[:20], p[:20])


@pytest.mark.parametrize(
    "options", [{"restarts": 3}, {"restarts": "auto", "time_limit": 1}, {"polish": "2opt"}]
)
def test_candidates_refuse_what_they_would_ignore(options, monkeypatch):
    from dcfw.qap.matching import search

    monkeypatch.setattr(search, "LARGEST", 5)
    ring = nx.cycle_graph(8)
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"matched once, by candidates: leave {name} out"):
        qap.match(ring, ring, seeds={0: 0}, **options)


@given(st.integers(0, 10**6))
def test_candidates_never_use_a_forbidden_pair_and_say_when_there_is_no_other_way(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    A = sp.csr_array(np.triu(rng.random((n, n)) < 0.3, 1).astype(float))
    A = A + A.T  # few edges: most nodes are matched by their degrees alone
    mask = rng.random((n, n)) < rng.choice([0.2, 0.6, 0.8])
    mask[0, 0] = False  # the seed
    pair = Pair([A], [A], None, np.array([[0, 0]]), np.argwhere(mask))
    permitted = sp.csr_array(~mask[1:, 1:])
    if (sp.csgraph.maximum_bipartite_matching(permitted) < 0).any():
        with pytest.raises(ValueError, match="forbidden leaves no matching"):
            by_candidates(pair)
    else:
        p = by_candidates(pair).p
        assert sorted(p) == list(range(n))
        assert p[0] == 0
        assert not mask[np.arange(n), p].any()
