r"""
Maximum cut: from a convex function to a concave one
====================================================

Divide the nodes of a graph into two sides with the largest possible weight between them.  With a sign
for each node the cut is :math:`\tfrac14 \sum_{ij} W_{ij} (1 - x_i x_j)`: a quadratic over the corners of a
cube.  Inside the cube it has many poor local minima.

On the corners every :math:`x_i^2` is 1, so adding multiples of :math:`r(x) = \tfrac12 \sum_i w_i x_i^2` does
not change the problem.  ``method="graduated"`` starts with a multiple that makes the function convex,
solves this problem, which bounds all cuts from above, and reduces the multiple until the function is concave
and x is at a corner.

The left plot shows the best cut so far along one path, the right one the cuts of 30 paths entered at random
points, and those of 30 Frank-Wolfe runs from random points.  On the first 14 nodes
the cut and its bound are checked against all 8192 cuts.
"""

import matplotlib.pyplot as plt
import numpy as np

import dcfw
from dcfw import functions, sets

n, rng = 120, np.random.default_rng(0)
W = np.triu(rng.integers(-5, 6, (n, n)) * (rng.random((n, n)) < 0.2), 1).astype(float)
W += W.T
phi, domain = functions.Quadratic(W / 2), sets.LInfBall(n)  # the cut is W.sum() / 4 - phi


def cut(value):
    return W.sum() / 4 - value


res = dcfw.minimize(phi, domain, method="graduated", restarts=30, rng=0)
print(res)

# %%
# Every run ends at a corner, and no corner has a larger cut than the bound.

graduated = [cut(value) for value in res.restart_values]
bound = cut(res.lower_bound)
assert set(np.unique(res.x)) == {-1.0, 1.0}
assert cut(res.fun) <= bound

# %%
# Check all cuts of the graph on the first 14 nodes.

few = functions.Quadratic(W[:14, :14] / 2)
small = dcfw.minimize(few, sets.LInfBall(14), method="graduated", restarts=10, rng=0)
signs = 1.0 - 2.0 * (np.arange(2**13)[:, None] >> np.arange(14) & 1)
least = 0.5 * np.einsum("ki,ij,kj->k", signs, W[:14, :14] / 2, signs).min()
assert small.lower_bound <= least
assert abs(small.fun - least) < 1e-9

# %%
# Run Frank-Wolfe from random points and round each answer to the nearest corner.

plain = []
for _ in range(30):
    other = dcfw.minimize(phi, domain, domain.random(rng), method="fw", maxiter=200)
    plain.append(cut(phi.value(np.where(other.x > 0.0, 1.0, -1.0))))
assert max(graduated) >= max(plain)
assert np.mean(graduated) > np.mean(plain)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
single = dcfw.minimize(phi, domain, method="graduated")
rows = len(single.theta_history)
left.plot(single.theta_history, cut(single.history["fun"][-rows:]), drawstyle="steps-post")
left.invert_xaxis()
left.set(xlabel="theta, from convex to concave", ylabel="best cut so far", title="One path")
bins = np.linspace(min(plain), max(graduated), 20)
right.hist(plain, bins, label="Frank-Wolfe, random starts", color="0.7")
right.hist(graduated, bins, label="graduated", alpha=0.8)
right.set(xlabel="cut", ylabel="runs", title=f"30 runs each; no cut exceeds {bound:.0f}")
right.legend()
plt.show()
