"""Names of DataFrames, and pairs that are given or forbidden."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfw import qap

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")


def frames(n=6, seed=0):
    rng = np.random.default_rng(seed)
    what, where = [f"d{i}" for i in range(n)], [f"p{i}" for i in range(n)]
    flow, distance = rng.integers(0, 20, (2, n, n))
    return pandas.DataFrame(flow, what, what), pandas.DataFrame(distance, where, where)


def best_permitted(A, B, C, mask, sign=1):
    """The best value over all permutations without forbidden pairs, by enumeration."""
    n = len(A)
    permitted = (np.array(p) for p in permutations(range(n)) if not mask[range(n), list(p)].any())
    return sign * min(
        sign * (int((A * B[np.ix_(p, p)]).sum()) + int(C[range(n), p].sum())) for p in permitted
    )


def test_pairs_by_name_are_those_by_number():
    A, B = frames()
    by_name = qap.solve(A, B, partial_match={"d1": "p4"}, forbidden=[("d0", "p0"), ("d2", "p5")], rng=0)
    by_number = qap.solve(A.values, B.values, partial_match=[[1, 4]], forbidden=[[0, 0], [2, 5]], rng=0)
    assert by_name.fun == by_number.fun
    np.testing.assert_array_equal(by_name.permutation, by_number.permutation)
    assert ("d1", "p4") in by_name.labels


@given(st.integers(0, 10**6))
def test_no_answer_has_a_forbidden_pair_and_a_search_finds_the_best_permitted_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    A, B, C = rng.integers(-5, 20, (3, n, n))
    mask = rng.random((n, n)) < 0.4
    mask[np.arange(n), rng.permutation(n)] = False
    options = {"forbidden": np.argwhere(mask), "rng": 0, "maximize": bool(rng.random() < 0.3)}
    for method in ("auto", "dcfw", "fw", "graduated"):
        res = qap.solve(A, B, C, method=method, **options)
        assert not mask[np.arange(n), res.permutation].any()
        assert res.fun == qap.evaluate(A, B, res.permutation, C)
    res = qap.solve(A, B, C, restarts="auto", max_steps=2000, **options)
    best = best_permitted(A, B, C, mask, -1 if options["maximize"] else 1)
    assert res.fun == best
    assert res.bound is None or (res.bound >= best if options["maximize"] else res.bound <= best)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda A, B: {"A": A[A.columns[::-1]]}, r"rows and columns of A .* different orders"),
        (
            lambda A, B: {"B": B.rename(columns={"p0": "q"})},
            r"rows and columns of B .* only its rows have 'p0'",
        ),
        (lambda A, B: {"C": pandas.DataFrame(0, A.index[::-1], B.index)}, r"index of C .* C.reindex"),
        (lambda A, B: {"C": pandas.DataFrame(0, A.index, B.index[::-1])}, r"columns of C .* C.reindex"),
        (lambda A, B: {"partial_match": {"x": "p0"}}, "partial_match has 'x', .* row of A"),
        (lambda A, B: {"partial_match": [("d0", "p1"), ("d2", "p1")]}, "repeats the column 'p1'"),
        (lambda A, B: {"partial_match": [("d2", "p1"), ("d2", "p3")]}, "repeats the row 'd2'"),
        (lambda A, B: {"forbidden": [("d0", "x")]}, "forbidden has 'x', .* row of B"),
        (lambda A, B: {"forbidden": [("d0", name) for name in B.index]}, "leaves no permutation"),
        (lambda A, B: {"forbidden": [[0, 1]], "partial_match": [[0, 1]]}, r"both have the pair \[0, 1\]"),
        (lambda A, B: {"A": A.values, "partial_match": {"d0": 1}}, "need A and B as DataFrames"),
        (lambda A, B: {"C": np.diag([np.inf, 0, 0, 0, 0, 0])}, r"forbidden=\[\[0, 0\]"),
    ],
)
def test_names_and_pairs_that_do_not_fit_are_refused_with_the_remedy(change, message):
    A, B = frames()
    with pytest.raises(ValueError, match=message):
        qap.solve(**{"A": A, "B": B, **change(A, B)})


def test_default_numbers_of_columns_are_not_names():
    A, B = frames()
    unnamed = pandas.DataFrame(A.values, A.index)  # columns 0 to 5
    assert qap.solve(unnamed, B, rng=0).labels == qap.solve(A, B, rng=0).labels
    from_one = pandas.DataFrame(A.values, range(1, 7))  # columns 0 to 5 are not the rows' names 1 to 6
    assert [row for row, _ in qap.solve(from_one, B, rng=0).labels] == list(range(1, 7))


def numbered_frames():
    """A flow and a distance table whose names are integers in another order than that of the rows."""
    flow, distance = np.array([[[0, 1, 2], [3, 0, 4], [5, 6, 0]], [[0, 7, 1], [2, 0, 9], [4, 3, 0]]])
    return pandas.DataFrame(flow, [2, 0, 1], [2, 0, 1]), pandas.DataFrame(distance, [1, 2, 0], [1, 2, 0])


@pytest.mark.parametrize("call", [qap.solve, qap.bound, qap.match, lambda *M: qap.evaluate(*M, [0, 1, 2])])
def test_rows_and_columns_with_integer_names_in_different_orders_are_refused_by_every_function(call):
    table, other = pandas.DataFrame(numbered_frames()[0].values), np.zeros((3, 3))
    for mixed in (table.loc[[2, 0, 1]], table[[2, 0, 1]]):
        with pytest.raises(ValueError, match="same names in one order, and they are in different orders"):
            call(mixed, other)


def test_a_linear_term_with_integer_names_in_another_order_is_refused():
    table = pandas.DataFrame(numbered_frames()[0].values)
    for C, axis in ((table.loc[[2, 0, 1]], "index"), (table[[2, 0, 1]], "columns")):
        with pytest.raises(ValueError, match=rf"the {axis} of C .* C.reindex"):
            qap.solve(table, table, C)


def test_integers_are_names_where_a_table_has_integer_names():
    flow, distance = numbered_frames()
    res = qap.solve(flow, distance, rng=0)
    answer = dict(res.labels)
    for known in (answer, pandas.Series(answer), [answer[name] for name in flow.index], res.permutation):
        assert qap.evaluate(flow, distance, known) == res.fun
    assert qap.solve(flow, distance, init=answer, restarts="auto", max_steps=1, rng=0).fun <= res.fun
    for pairs in ({2: 2}, [(2, 2)], [2, 2], np.array([[2, 2]])):
        assert (2, 2) in qap.solve(flow, distance, partial_match=pairs, rng=0).labels
        assert (2, 2) not in qap.solve(flow, distance, forbidden=pairs, rng=0).labels
    assert qap.match(flow, distance, seeds={2: 2}).mapping[2] == 2
    with pytest.raises(ValueError, match="partial_match has 5, which is not the name of a row of A"):
        qap.solve(flow, distance, partial_match={5: 2})


def test_two_rows_with_one_name_are_refused():
    twice = pandas.DataFrame(np.ones((3, 3)), list("aab"), list("aab"))
    for call, name in ((qap.solve, "A"), (qap.match, "G1")):
        with pytest.raises(ValueError, match=f"{name} has two rows with the name 'a'"):
            call(twice, twice)


def test_scipys_methods_refuse_a_linear_term_instead_of_leaving_it_out():
    with pytest.raises(ValueError, match="no linear term"):
        qap.quadratic_assignment(np.eye(3), np.eye(3), method="faq", options={"C": np.eye(3)})


def two_layers(n=30):
    """Two graphs of one undirected and one directed layer, and the partner of each node."""
    nx = pytest.importorskip("networkx")
    friends = nx.relabel_nodes(nx.powerlaw_cluster_graph(n, 3, 0.2, seed=1), lambda i: f"u{i}")
    messages = nx.relabel_nodes(nx.gnp_random_graph(n, 0.08, seed=2, directed=True), lambda i: f"u{i}")
    partner = {f"u{i}": f"v{7 * i % n}" for i in range(n)}
    return [friends, messages], [nx.relabel_nodes(G, partner) for G in (friends, messages)], partner


def test_layers_of_networkx_graphs_keep_their_names_and_count_each_edge_once():
    first, second, partner = two_layers()
    res = qap.match(first, second)
    assert res.mapping == partner
    assert (res.agreement, res.disagreement) == (sum(G.number_of_edges() for G in first), 0)


def test_an_adjacency_table_is_matched_by_name_and_refused_where_its_columns_are_in_another_order():
    nx = pytest.importorskip("networkx")
    (G1, _), (G2, _), partner = two_layers()
    A, B = nx.to_pandas_adjacency(G1, dtype=int), nx.to_pandas_adjacency(G2, dtype=int)
    res = qap.match(A, B, seeds={"u2": partner["u2"]})
    assert (res.mapping, res.disagreement) == (qap.match(G1, G2, seeds={"u2": partner["u2"]}).mapping, 0)
    with pytest.raises(ValueError, match=r"rows and columns of G1 .* different orders"):
        qap.match(A[A.columns[::-1]], B)
    with pytest.raises(ValueError, match="repeats node 'u1' of G1"):
        qap.match(A, B, seeds=[("u1", "v1"), ("u1", "v2")])


def adjacency(names="abc"):
    """A table with one edge, between its first two nodes."""
    return pandas.DataFrame([[0, 1, 0], [1, 0, 0], [0, 0, 0]], list(names), list(names))


@pytest.mark.parametrize("names", [["a", "b", "c"], [3, 1, 2], [2, 0, 1]])
def test_layers_of_tables_are_matched_by_the_names_of_the_nodes(names):
    one = adjacency(names)
    turned = one.loc[names[::-1], names[::-1]]
    for layers in ([one, turned], [one, one.values]):
        res = qap.match([one, one], layers, similarity=np.eye(3))
        assert (res.disagreement, res.mapping) == (0, {name: name for name in names})
    with pytest.raises(ValueError, match=r"rows and columns of G1\[1\] .* different orders"):
        qap.match([one, one[one.columns[::-1]]], [one, one])
    with pytest.raises(ValueError, match=r"layers of G2 must have the same nodes; G2\[1\] has others"):
        qap.match([one, one], [one, adjacency("abx")])


def test_a_table_with_nodes_called_source_and_target_is_no_list_of_edges():
    names = ["source", "x", "target"]
    table = pandas.DataFrame([[0, 2, 5], [3, 0, 7], [2, 4, 0]], names, names)
    res = qap.match(table, table, rng=0)
    assert (res.disagreement, res.mapping) == (0, {name: name for name in names})


def test_a_start_of_match_is_read_by_the_names_of_the_nodes():
    table = adjacency([2, 0, 1])
    res = qap.match(table, table, init={2: 0, 0: 1, 1: 2}, method="fw", maxiter=0)
    assert res.relaxed.tolist() == np.eye(3)[[1, 2, 0]].tolist()


def test_every_method_of_solve_keeps_to_forbidden_pairs_of_nodes():
    (G1, _), (G2, _), partner = two_layers()
    assert qap.match(G1, G2, method="dcfw", forbidden=[("u1", partner["u1"])]).mapping["u1"] != partner["u1"]


def test_todays_layout_is_evaluated_and_started_from_by_name_with_rooms_that_stay_empty():
    flow, distance = frames(6)
    flow = flow.iloc[:4, :4]
    today = {"d0": "p5", "d1": "p0", "d2": "p3", "d3": "p2"}
    rooms = [distance.index.get_loc(today[name]) for name in flow.index]
    cost = int((flow.values * distance.values[np.ix_(rooms, rooms)]).sum())
    for given_as in (today, pandas.Series(today), [today[name] for name in flow.index], rooms):
        assert qap.evaluate(flow, distance, given_as) == cost
    assert qap.evaluate(flow.values, distance.values, rooms) == cost
    res = qap.solve(flow, distance, init=today, restarts="auto", max_steps=10, rng=0)
    assert res.fun <= cost


@pytest.mark.parametrize(
    ("today", "message"),
    [
        ({"d0": "p5"}, "has no place for the row 'd1' of A"),
        ({"d0": "p5", "d1": "p5", "d2": "p3", "d3": "p2"}, "has the row 'p5' of B twice"),
        ({"d0": "nowhere"}, "'nowhere', which is not the name of a row of B"),
    ],
)
def test_a_layout_with_a_hole_or_a_room_twice_is_refused_by_name(today, message):
    flow, distance = frames(6)
    with pytest.raises(ValueError, match=message):
        qap.evaluate(flow.iloc[:4, :4], distance, today)


def test_a_table_of_similarities_is_read_by_the_names_of_the_nodes():
    networkx = pytest.importorskip("networkx", reason="needs networkx: pip install networkx")
    one, two = networkx.empty_graph(4), networkx.empty_graph(0)
    two.add_nodes_from("abcd")
    table = pandas.DataFrame(10 * np.eye(4), index=range(4), columns=list("dcba"))
    expected = {0: "d", 1: "c", 2: "b", 3: "a"}
    assert qap.match(one, two, similarity=table).mapping == expected
    assert qap.match(one, two, similarity=table.iloc[::-1]).mapping == expected
    with pytest.raises(ValueError, match="columns of similarity must be the names of the nodes"):
        qap.match(one, two, similarity=table.rename(columns={"a": "x"}))


def test_default_numbers_of_a_table_of_similarities_are_names_if_the_nodes_have_them():
    networkx = pytest.importorskip("networkx", reason="needs networkx: pip install networkx")
    one, two, other = networkx.empty_graph(4), networkx.empty_graph(0), networkx.empty_graph(0)
    two.add_nodes_from([2, 3, 1, 0])
    other.add_nodes_from([2, 3, 1, 10])
    table = pandas.DataFrame(10 * np.eye(4))
    for rows in (table, table.iloc[::-1]):
        assert qap.match(one, two, similarity=rows).mapping == {k: k for k in range(4)}
    assert qap.match(one, other, similarity=table).mapping == {0: 2, 1: 3, 2: 1, 3: 10}  # by position
