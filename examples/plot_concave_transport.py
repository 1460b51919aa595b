r"""
Transport with economies of scale
=================================

Three plants supply five shops.  The first lorry on a road is expensive and each further one is cheaper, so
the cost of a flow is concave:

.. math:: \min_{X \ge 0} \; \sum_{ij} c_{ij} \log(1 + X_{ij}), \qquad
          X \mathbf 1 = \text{supply}, \; X^\top \mathbf 1 = \text{demand}.

As f - g this is f = 0 and :math:`g(X) = -\sum c_{ij} \log(1 + X_{ij})`.  Linearising g at the current flows
gives an ordinary transport problem with their marginal costs, so an outer step of DC-FW is one
call of the linear oracle of the transport polytope.  A concave function attains its minimum at a vertex: at
most 3 + 5 - 1 roads are in use, fewer if a subset of the plants serves a subset of the shops exactly.

The figure shows the flows for costs proportional to the flow and for concave costs, and compares the local
minima of 40 runs with all vertices.  The answer is checked against every vertex by
enumerating the bases of the polytope.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

import dcfw
from dcfw import functions, sets

rng = np.random.default_rng(6)
supply, demand = np.array([30.0, 25.0, 20.0]), np.array([20.0, 15.0, 15.0, 15.0, 10.0])
p, q = len(supply), len(demand)
places = [np.column_stack([np.full(k, side), np.linspace(4.0, 0.0, k)]) for side, k in ((0.0, p), (1.0, q))]
cost = 2.0 + 0.5 * np.abs(places[0][:, None, 1] - places[1][:, 1]) + rng.uniform(0.0, 1.0, (p, q))
cost = cost.ravel()

A = np.vstack([np.kron(np.eye(p), np.ones(q)), np.kron(np.ones(p), np.eye(q))])
b = np.concatenate([supply, demand])
domain = sets.Polytope(A_eq=A, b_eq=b, bounds=(0.0, None))
g = functions.Convex(lambda x: -cost @ np.log1p(x), lambda x: -cost / (1.0 + x), differentiable=True)
runs = 40
res = dcfw.minimize(functions.Zero() - g, domain, tol=1e-8, restarts=runs, rng=1)
print(res)

# %%
# The check: every basis of p + q - 1 columns (one equation is redundant) that gives a flow.

bases = np.array(list(combinations(range(p * q), p + q - 1)))
matrices = A[:-1][:, bases].transpose(1, 0, 2)
regular = np.abs(np.linalg.det(matrices)) > 0.5  # the matrix is totally unimodular
flows = np.linalg.solve(matrices[regular], b[:-1, None])[..., 0]
feasible = (flows >= -1e-9).all(axis=1)
vertices = np.zeros((feasible.sum(), p * q))
np.put_along_axis(vertices, bases[regular][feasible], flows[feasible], axis=1)
vertices = np.unique(vertices.round(9), axis=0)  # a vertex with fewer flows has several bases
values = np.sort(np.log1p(vertices) @ cost)
assert abs(res.fun - values[0]) < 1e-6, (res.fun, values[0])

linear = dcfw.minimize(functions.Quadratic(np.zeros((p * q, p * q)), cost, convex=True), domain)
fig, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
titles = "Best for costs proportional to the flow", "Best for concave costs"
for ax, x, title in zip(axes, (linear.x, res.x), titles, strict=False):
    for (i, j), flow in np.ndenumerate(x.reshape(p, q)):
        if flow > 1e-6:
            (x0, y0), (x1, y1) = places[0][i], places[1][j]
            ax.plot([x0, x1], [y0, y1], color="C0", lw=0.4 * flow, alpha=0.5, solid_capstyle="butt")
            ax.text(0.86, 0.14 * y0 + 0.86 * y1, f"{flow:.0f}", ha="center", va="center", fontsize=10)
    for spots, sizes, colour in zip(places, (supply, demand), ("C1", "C2"), strict=True):
        ax.scatter(*spots.T, s=24 * sizes, color=colour, zorder=3)
        for spot, size in zip(spots, sizes, strict=True):
            ax.text(*spot, f"{size:.0f}", ha="center", va="center", fontsize=10, zorder=4)
    roads, price = (x > 1e-6).sum(), np.log1p(x) @ cost
    ax.set(title=f"{title}\n{roads} roads, concave cost {price:.1f}", xlim=(-0.2, 1.2), ylim=(-0.4, 4.4))
    ax.set_xticks([0, 1], ["plants", "shops"])
    ax.set_yticks([])
found = np.array(res.restart_values)
ax = axes[2]
ax.plot(values, np.arange(1, len(values) + 1), color="0.5", label=f"all {len(values)} vertices")
ax.plot(found, np.searchsorted(values, found - 1e-6) + 1, "o", color="C0", alpha=0.5, label=f"{runs} runs")
ax.set(yscale="log", xlabel="concave cost", ylabel="rank among the vertices", title="Where the runs ended")
ax.legend()
plt.show()
