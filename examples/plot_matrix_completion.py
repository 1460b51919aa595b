r"""
Completing a low-rank matrix
============================

Recover a low-rank matrix from some of its entries.  The usual convex model adds
the nuclear norm, the sum of the singular values, which shrinks all of them, including the true ones.
A concave function of the singular values does not shrink the large ones:

.. math:: \min_{\|X\|_* \le r} \; \tfrac12 \sum_{(i,j) \in \Omega} (X_{ij} - M_{ij})^2
          + \sum_k p_\lambda(\sigma_k(X)), \qquad
          \sum_k p_\lambda(\sigma_k) = \lambda \|X\|_* - g(X) .

Here p is the minimax concave penalty, ``functions.MCP(..., spectral=True)``; g is convex, and its gradient
is computed by an SVD.  :func:`dcfw.functions.lift` replaces the nuclear norm by an additional variable, so
that a call of the linear oracle is one pair of singular vectors.

The figure shows the known entries (the others grey), the two completions, and their singular values.
The answer is checked against the true matrix.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import dcfw
from dcfw import functions, sets

rng = np.random.default_rng(1)
shape, rank = (24, 18), 2
M = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
known = np.flatnonzero(rng.random(M.size) < 0.6)
pick = sparse.eye_array(M.size, format="csr")[known]
loss = functions.LeastSquares(pick, M.ravel()[known])
ball = sets.NuclearBall(shape, radius=1.5 * np.linalg.norm(M, "nuc"))

lam = 1.5
objective, domain = functions.lift(loss + functions.MCP(lam, gamma=4.0, spectral=True), ball)
convex = dcfw.minimize(objective.f, domain, tol=1e-2)
res = dcfw.minimize(objective, domain, convex.x, tol=1e-3)
print(res)

# %%
# Check the answer against M.  Its two singular values lie where the penalty is flat, so that they are not
# shrunk, and M is a stationary point with the value :math:`2 \cdot \gamma \lambda^2 / 2`.

X, Y = domain.point(res.x), domain.point(convex.x)
errors = [np.linalg.norm(Z - M) / np.linalg.norm(M) for Z in (X, Y)]
assert errors[0] < 0.01 < 0.1 < errors[1], errors
assert abs(res.fun - rank * 4.0 * lam**2 / 2.0) < 1e-3

seen = np.full(M.size, np.nan)
seen[known] = M.ravel()[known]
fig, axes = plt.subplots(1, 4, figsize=(12, 3.9), width_ratios=[1, 1, 1, 1.3], layout="constrained")
panels = (
    (seen.reshape(shape), f"{len(known)} of {M.size}\nentries are known"),
    (Y, f"nuclear norm\nrelative error {errors[1]:.0%}"),
    (X, f"concave penalty (DC-FW)\nrelative error {errors[0]:.2%}"),
)
limit = np.abs(M).max()
for ax, (Z, title) in zip(axes, panels, strict=False):
    image = ax.imshow(Z, cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set(title=title, xticks=[], yticks=[], facecolor="0.65")  # grey: not known
fig.colorbar(image, ax=axes[:3], shrink=0.7, label="entry")
k = np.arange(1, 6)
for Z, shift, colour, name in (
    (M, -0.27, "0.7", "truth"),
    (Y, 0.0, "C1", "nuclear"),
    (X, 0.27, "C0", "concave"),
):
    axes[3].bar(k + shift, np.linalg.svd(Z, compute_uv=False)[:5], width=0.26, color=colour, label=name)
axes[3].set(xlabel="index", ylabel="singular value", title="Singular values", xticks=k)
axes[3].legend()
plt.show()
