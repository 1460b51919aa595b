r"""
Graph matching: which node is which?
====================================

The second of two graphs is a copy of the first with renamed nodes and some edges changed.  Which
nodes correspond?  The best matching P, a permutation matrix, minimises the disagreement

.. math:: \tfrac12 \|A - P B P^\top\|^2 = \text{const} - \langle A P B, P \rangle ,

a quadratic assignment problem.  Relaxed to doubly stochastic matrices the objective is an indefinite
quadratic, hence a difference of convex ones; the linear oracle is an assignment problem, and the limit
is rounded to a permutation.  :func:`dcfw.qap.match` performs all of these steps.

Plain Frank-Wolfe on the same relaxation is FAQ, the method of ``scipy.optimize.quadratic_assignment``.  It
commits to a matching within a few steps.  DC-FW solves a convex problem in each of its steps and so considers
many matchings for longer; here it finds the planted one.

The figure shows the graph and its copy, with the layout carried over by the matchings: a correct matching
reproduces the layout.  Edges without a counterpart are drawn in red.  The answer is checked against the
permutation that generated the second graph.
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
second.add_nodes_from(sorted(secret.values()))  # in an order that does not reveal the matching
second.add_edges_from((secret[u], secret[v]) for u, v in first.edges)
edges = sorted(tuple(sorted(edge)) for edge in second.edges)
second.remove_edges_from([edges[i] for i in rng.choice(len(edges), 6, replace=False)])
strangers = sorted(tuple(sorted(pair)) for pair in nx.non_edges(second))
second.add_edges_from([strangers[i] for i in rng.choice(len(strangers), 6, replace=False)])

res = dcfw.qap.match(first, second, polish="2opt", rng=0)
faq = dcfw.qap.match(first, second, polish="2opt", rng=0, method="fw")
print(res)

# %%
# Check that the matching is nearly as good as the planted one (rounding, which differs between processors,
# decides which of the best matchings is found) and that most nodes are recognised (nodes with the same
# neighbours cannot be distinguished).  FAQ leaves several times as many edges without a counterpart.

image = {frozenset((secret[u], secret[v])) for u, v in first.edges}
planted = len(image ^ {frozenset(edge) for edge in second.edges})
recognised = sum(res.mapping[u] == secret[u] for u in names)
assert res.disagreement <= planted + 4, (res.disagreement, planted)
assert faq.disagreement > 2 * res.disagreement, (faq.disagreement, res.disagreement)
assert recognised >= 0.8 * len(names), recognised


def draw(ax, graph, other, partner, where, title):
    kept = [(u, v) for u, v in graph.edges if other.has_edge(partner[u], partner[v])]
    lost = [(u, v) for u, v in graph.edges if not other.has_edge(partner[u], partner[v])]
    nx.draw_networkx_edges(graph, where, kept, ax=ax, edge_color="0.7")
    nx.draw_networkx_edges(graph, where, lost, ax=ax, edge_color="C3", width=2)
    nx.draw_networkx_nodes(graph, where, ax=ax, node_size=150)
    labels = {v: str(v).lstrip("v") for v in graph}
    nx.draw_networkx_labels(graph, where, labels, ax=ax, font_size=6, font_color="w")
    ax.set_title(f"{title}\n{len(kept)} edges agree, {len(lost)} (red) do not")
    ax.axis("off")


fig, axes = plt.subplots(1, 3, figsize=(13.5, 4.8), layout="constrained")
draw(axes[0], first, second, res.mapping, spots, "The graph")
for ax, found, name in ((axes[1], res, "DC-FW"), (axes[2], faq, "FAQ")):
    back = {v: u for u, v in found.mapping.items()}
    right = sum(found.mapping[u] == secret[u] for u in names)
    title = f"Its copy, laid out by {name}: {right} of {len(names)} nodes right"
    draw(ax, second, first, back, {v: spots[back[v]] for v in second}, title)
plt.show()
