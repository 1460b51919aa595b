r"""
Sparse recovery with l1 - l2
============================

Recover a sparse signal from few measurements b = A x.  When neighbouring columns of A are almost
parallel, as in a finely sampled cosine basis, the l1 norm spreads the weight over them.  The difference
l1 - l2 is zero for a signal with one spike and grows with every further spike, so it favours sparse vectors
more strongly:

.. math:: \min_{\|x\|_1 \le r} \; \tfrac12 \|A x - b\|^2 + \lambda \left( \|x\|_1 - \|x\|_2 \right),

with :math:`f = \tfrac12 \|A x - b\|^2 + \lambda \|x\|_1` and :math:`g = \lambda \|x\|_2`.  Frank-Wolfe needs
a smooth f: :func:`dcfw.functions.lift` replaces the l1 norm by an additional variable t with
:math:`\|x\|_1 \le t`.

The figure shows the signal and its reconstructions by l1 (the convex part alone) and l1 - l2; DC-FW starts
from the l1 solution.  The result is checked against the true signal.
"""

import matplotlib.pyplot as plt
import numpy as np

import dcfw
from dcfw import functions, sets

rng = np.random.default_rng(1)
m, n, k, refinement = 30, 150, 8, 8
A = np.cos(2.0 * np.pi * np.outer(rng.uniform(size=m), np.arange(n)) / refinement) / np.sqrt(m)
spikes = np.sort(rng.choice(n // 10, k, replace=False)) * 10 + rng.integers(0, 3, k)
x_true = np.zeros(n)
x_true[spikes] = rng.choice([-1.0, 1.0], k) * rng.uniform(1.0, 2.0, k)
b = A @ x_true

lam = 1e-3
phi = functions.LeastSquares(A, b) + functions.L1MinusL2(lam)
objective, domain = functions.lift(phi, sets.L1Ball(n, radius=30.0))
l1 = dcfw.minimize(objective.f, domain, inner="blended")
res = dcfw.minimize(objective, domain, l1.x, inner="blended")
print(res)

# %%
# Check the answer against the true signal, up to the small bias of the penalty.

answers = {"l1": domain.point(l1.x), "l1 - l2": domain.point(res.x)}
errors = {name: np.linalg.norm(x - x_true) / np.linalg.norm(x_true) for name, x in answers.items()}
assert errors["l1 - l2"] < 0.01 < 0.1 < errors["l1"], errors
assert set(np.flatnonzero(np.abs(answers["l1 - l2"]) > 0.05)) == set(spikes)

fig, axes = plt.subplots(2, 1, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
for ax, (name, x), colour in zip(axes, answers.items(), ("0.35", "C3"), strict=True):
    ax.plot(spikes, x_true[spikes], "o", mfc="none", mec="C0", ms=10, mew=1.6, label="the signal")
    some = np.flatnonzero(np.abs(x) > 1e-3)
    lines = ax.stem(some, x[some], linefmt=colour, markerfmt=".", basefmt=" ", label=name)
    lines.markerline.set_color(colour)
    ax.axhline(0.0, color="k", lw=0.6)
    ax.set(ylabel="value", title=f"{name}: {len(some)} spikes, relative error {errors[name]:.1%}")
    ax.legend(loc="lower right", ncols=2)
axes[1].set_xlabel("index")
axes[0].set_ylim(-2.9, 2.3)
plt.show()
