r"""
Graph matching: which node is which?
====================================

Two graphs are given, the second a copy of the first whose nodes have lost their names and whose edges have
been disturbed.  Who was who?  The best matching P, a permutation matrix, minimises the disagreement

.. math:: \tfrac12 \|A - P B P^\top\|^2 = \text{const} - \langle A P B, P \rangle ,

a quadratic assignment problem.  Relaxed to doubly stochastic matrices the objective is an indefinite
quadratic, so a difference of convex ones; DC-FW's linear oracle is then an assignment problem, and its limit
is rounded to a permutation.  :func:`dcfw.qap.match` does all that.

The pictures show both graphs with the layout carried over by the matching: if it is right, they look alike.
Edges that have no counterpart are drawn in red.  The answer is checked against the permutation that the
second graph was made with.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import dcfw.qap

rng = np.random.default_rng(0)
n = 40
first = nx.random_geometric_graph(n, 0.25, seed=5)
spots = nx.get_node_attributes(first, "pos")
first.remove_nodes_from(list(nx.isolates(first)))
names = list(first)
secret = dict(zip(names, rng.permutation([f"v{i}" for i in names]).tolist(), strict=True))
second = nx.Graph()
second.add_nodes_from(sorted(secret.values()))  # in an order that gives nothing away
second.add_edges_from((secret[u], secret[v]) for u, v in first.edges)
edges = sorted(tuple(sorted(edge)) for edge in second.edges)
second.remove_edges_from([edges[i] for i in rng.choice(len(edges), 6, replace=False)])
strangers = sorted(tuple(sorted(pair)) for pair in nx.non_edges(second))
second.add_edges_from([strangers[i] for i in rng.choice(len(strangers), 6, replace=False)])

res = dcfw.qap.match(first, second, restarts=300, polish="2opt", rng=0)
print(res)

# %%
# The check: as good as the truth or nearly so (rounding, which differs between processors, decides which of
# the best matchings is met first), and most nodes are recognised (those with the same neighbours cannot be
# told apart by anyone).

image = {frozenset((secret[u], secret[v])) for u, v in first.edges}
planted = len(image ^ {frozenset(edge) for edge in second.edges})
recognised = sum(res.mapping[u] == secret[u] for u in names)
assert res.disagreement <= planted + 4, (res.disagreement, planted)
assert recognised >= 0.8 * len(names), recognised

back = {v: u for u, v in res.mapping.items()}
fig, axes = plt.subplots(1, 2, figsize=(10.5, 5.0), layout="constrained")
views = (first, second, res.mapping, "The graph"), (second, first, back, "Its copy, laid out by the matching")
for ax, (graph, other, partner, title) in zip(axes, views, strict=True):
    where = spots if graph is first else {v: spots[back[v]] for v in graph}
    kept = [(u, v) for u, v in graph.edges if other.has_edge(partner[u], partner[v])]
    lost = [(u, v) for u, v in graph.edges if not other.has_edge(partner[u], partner[v])]
    nx.draw_networkx_edges(graph, where, kept, ax=ax, edge_color="0.7")
    nx.draw_networkx_edges(graph, where, lost, ax=ax, edge_color="C3", width=2)
    nx.draw_networkx_nodes(graph, where, ax=ax, node_size=190)
    labels = {v: str(v).lstrip("v") for v in graph}
    nx.draw_networkx_labels(graph, where, labels, ax=ax, font_size=7, font_color="w")
    ax.set_title(f"{title}\n{len(kept)} edges agree, {len(lost)} (red) do not")
    ax.axis("off")
fig.supxlabel(f"{recognised} of {len(names)} nodes are where they belong")
plt.show()
