r"""
Colouring a graph, one node at a time
=====================================

Give every node of a graph one of three colours so that no edge joins equal colours.  With :math:`x_i` in a
simplex, the probabilities of the colours of node i, the expected number of conflicts is

.. math:: \min_{x_1, \dots, x_n \in \Delta} \; \sum_{ij \in E} \langle x_i, x_j \rangle ,

an indefinite quadratic over a product of simplices.  It is bilinear in any two nodes, so some minimiser is a
deterministic colouring.  The Frank-Wolfe gap is a sum over the nodes, and ``method="block"`` uses this: a
step moves a single node, uses the updates of the nodes before it, and costs one row of the graph.

The left plot shows the colouring, the right one the expected number of conflicts against the sweeps through
all nodes, for steps in blocks and for steps of all nodes together.  The graph was generated with a colouring
without conflicts; the answer is checked against an exact count of conflicts.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import dcfw
from dcfw import functions, sets
from dcfw.solvers.block import Block

n, colours, starts = 36, 3, 30
rng = np.random.default_rng(4)
planted = np.arange(n) % colours
graph = nx.Graph()
graph.add_nodes_from(range(n))
while graph.number_of_edges() < 70:
    i, j = (int(k) for k in rng.integers(n, size=2))
    if planted[i] != planted[j]:
        graph.add_edge(i, j)

phi = functions.Quadratic(np.kron(nx.to_numpy_array(graph), np.eye(colours)))
domain = sets.Product([sets.Simplex(colours)] * n)
runs = {
    "one node at a time": dcfw.minimize(
        phi, domain, method=Block(order="random"), tol=1e-8, restarts=starts, rng=3
    ),
    "all nodes together": dcfw.minimize(phi, domain, tol=1e-8, restarts=starts, rng=3),
}
res = runs["one node at a time"]
print(res)
for name, run in runs.items():
    print(f"{name}: fewest expected conflicts: {np.round(np.sort(run.restart_values)[:8], 2)} ...")

# %%
# The first start is the barycentre, where all colours are equally likely: a stationary point, and the worst.

print(f"expected conflicts at the barycentre: {res.restart_values[0]:.1f}")

# %%
# Check the answer: round to colours and count the conflicts.

chosen = np.argmax(res.x.reshape(n, colours), axis=1)
conflicts = sum(chosen[i] == chosen[j] for i, j in graph.edges)
assert res.success
assert conflicts <= res.fun + 1e-6  # rounding cannot cost more than the expectation
assert conflicts == 0
assert domain.contains(res.x)

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=[1.2, 1.0], layout="constrained")
spots = nx.spring_layout(graph, seed=5, k=0.55)
nx.draw_networkx_edges(graph, spots, ax=left, edge_color="0.75")
palette = np.array(["#0b6e99", "#d1495b", "#edae49"])
nx.draw_networkx_nodes(
    graph, spots, ax=left, node_color=palette[chosen].tolist(), node_size=160, edgecolors="k"
)
left.set_title(f"{n} nodes, {graph.number_of_edges()} edges, {conflicts} conflicts")
left.axis("off")
for (name, run), style in zip(runs.items(), ("C3o-", "C0s-"), strict=True):
    sweeps = run.history["n_lmo"] / (n if name.startswith("one") else 1)
    right.plot(sweeps, run.history["fun"], style, ms=4, label=name)
right.set(xlabel="oracle calls per node", ylabel="expected conflicts", title="The best start of each method")
right.legend()
plt.show()
