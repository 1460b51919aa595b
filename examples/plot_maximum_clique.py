r"""
Maximum clique: an indefinite quadratic over the simplex
========================================================

Find the largest set of mutually adjacent nodes of a graph.  Motzkin and Straus formulated this as a quadratic
over the simplex; with Bomze's additional diagonal, its strict local minimisers are exactly the maximal
cliques, each as the uniform distribution on its nodes:

.. math:: \min_{x \in \Delta} \; -\tfrac12 x^\top (A + \tfrac12 I) x \;=\;
          -\tfrac12 \left(1 - \tfrac{1}{2\,\omega}\right),

where A is the adjacency matrix and :math:`\omega` the size of the largest clique.  The indefinite quadratic
can be written as f - g in several ways.  ``splits.spectral`` separates the eigenvalues by sign: a tight
split with long steps.  ``splits.proximal`` adds and subtracts the same multiple of
:math:`\|x\|^2`: a loose split with short steps.

A local method finds a maximal clique, not always a maximum one, so restarts are used.  The left plot shows
the graph with the largest clique found.  The right plot shows the cliques found by all runs: on this graph
the short steps lead to a large clique more often.  The size is checked against the exact answer of networkx.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import dcfw
from dcfw import functions, sets, splits

n = 36
graph = nx.gnp_random_graph(n, 0.35, seed=3)
graph.add_edges_from((u, v) for u in range(0, 28, 4) for v in range(0, u, 4))  # seven friends
A = nx.to_numpy_array(graph)

domain, runs = sets.Simplex(n), 20
phi = functions.Quadratic(-(A + 0.5 * np.eye(n)))
found = {}
for split in (splits.spectral(phi, domain), splits.proximal(phi)):
    res = dcfw.minimize(split, domain, inner="blended", tol=1e-7, restarts=runs, rng=0)
    found[split.name.split("(")[0]] = [round(0.5 / (1.0 + 2.0 * value)) for value in res.restart_values]
print(res)

# %%
# The support of the minimiser is the clique; its value also determines the size.

clique = [int(i) for i in np.flatnonzero(res.x > 0.5 / n)]

# %%
# Check the answer against the branch and bound method of networkx.

exact, omega = nx.max_weight_clique(graph, weight=None)
assert all(graph.has_edge(u, v) for u in clique for v in clique if u < v)
assert len(clique) == omega == max(found["proximal"]), (clique, exact)
assert abs(res.fun + 0.5 * (1.0 - 0.5 / omega)) < 1e-6

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), width_ratios=[1.25, 1.0], layout="constrained")
spots = nx.spring_layout(graph, seed=2, k=0.9)
others = [u for u in graph if u not in clique]
inside = graph.subgraph(clique)
nx.draw_networkx_edges(graph, spots, ax=left, edge_color="0.85")
nx.draw_networkx_nodes(graph, spots, others, ax=left, node_size=60, node_color="0.7")
nx.draw_networkx_edges(inside, spots, ax=left, edge_color="C3", width=1.8)
nx.draw_networkx_nodes(graph, spots, clique, ax=left, node_size=120, node_color="C3")
left.set_title(f"{n} nodes, {graph.number_of_edges()} edges: a clique of {len(clique)}")
left.axis("off")
sizes = np.arange(2, omega + 1)
for shift, (name, ends) in zip((-0.2, 0.2), found.items(), strict=True):
    bars = right.bar(sizes + shift, [ends.count(size) for size in sizes], width=0.4, label=name)
    right.bar_label(bars)
right.set(xlabel="size of the maximal clique", ylabel="runs", title=f"Results of {runs} starts, by split")
right.legend()
plt.show()
