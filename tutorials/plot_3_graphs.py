"""
Match two graphs
================

Match a network with a copy whose nodes are renamed and which lacks some edges.
Requires ``pip install ".[graphs,plots]"``.
"""

import networkx as nx
import numpy as np

from dcfw import qap

rng = np.random.default_rng(0)
first = nx.random_geometric_graph(60, 0.22, seed=4)
secret = {node: f"v{k}" for node, k in zip(first, rng.permutation(60), strict=True)}
second = nx.relabel_nodes(first, secret)
for edge in [list(second.edges)[k] for k in rng.choice(second.number_of_edges(), 8, replace=False)]:
    second.remove_edge(*edge)

# %%
# ``mapping`` has the partners, ``disagreement`` the number of edges that only one of the graphs has.
res = qap.match(first, second, rng=0)
print(f"{res.disagreement} edges without a counterpart; 8 were removed")
right = sum(res.mapping[node] == secret[node] for node in first)
print(f"{right} of 60 nodes as planted; a different matching can keep as many edges")
res.plot()

# %%
# Pass known pairs as ``seeds``, and a matrix or a function of two nodes as ``similarity``:
seeds = {node: secret[node] for node in list(first)[:3]}
res = qap.match(first, second, seeds=seeds, rng=0)
print(res.disagreement, "with three seeds;", res.mapping[0], "is node 0")

# %%
# Match thousands of small graphs in one compiled call:
graphs = [nx.gnp_random_graph(12, 0.4, seed=k) for k in range(200)]
shuffled = [nx.relabel_nodes(G, dict(enumerate(rng.permutation(12).tolist()))) for G in graphs]
many = qap.match_many(zip(graphs, shuffled, strict=True), rng=0)
print("of 200 pairs,", int((np.asarray(many.disagreement) == 0).sum()), "are matched exactly")
