r"""
Aligning two embeddings when most entries are missing
=====================================================

A rotation maps the word vectors of one language to those of another.  Only a tenth of the entries
of the target vectors are known (P is their mask, columns are words):

.. math:: \min_{\|X\|_2 \le 1} \; \tfrac{1}{2n} \| P \circ (X E_1) - Y \|_F^2 - \lambda \|X\|_* .

The extreme points of the spectral-norm ball are the orthogonal matrices, the linear oracle is a polar factor,
and the concave term pulls the solution towards them.  Its subgradient is also a polar factor, as expensive as
the oracle.  FW-K (Khamaru and Wainwright) and FW-M (Millán et al.) compute one in every step, DC-FW
one per outer step.  By default DC-FW also stores the last polar factors and finds their best convex
combination before it computes another; ``inner="fw"`` takes the paper's vanilla steps.

The figure shows the Frank-Wolfe gap against the number of polar factors, and the distance of the rounded
answer from the true rotation.  The answer is checked against the Procrustes rotation with every entry
known.
"""

import matplotlib.pyplot as plt
import numpy as np

from dcfw import align

rng = np.random.default_rng(0)
d, n = 40, 1200
E1 = rng.standard_normal((d, n))
Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
E2 = Q @ E1 + 0.3 * rng.standard_normal((d, n))
mask = rng.random((d, n)) < 0.1
Y = np.where(mask, E2, 0.0)

methods = {
    "DC-FW": {},
    "DC-FW, vanilla steps": {"inner": "fw"},
    "FW-K": {"method": "fw-k"},
    "FW-M": {"method": "fw-m"},
}
runs = {
    name: align.align(E1, Y, mask, lam=1e-4, tol=0.0, max_lmo=300, maxiter=300, **options)
    for name, options in methods.items()
}
res = align.align(E1, Y, mask, lam=1e-4, tol=0.0, rtol=1e-3)
print(res)
print({name: (run.n_lmo, run.n_grad_g) for name, run in runs.items()}, "oracle calls, subgradients")

# %%
# Check the answer: with every entry known, the best rotation is the polar factor of :math:`E_2 E_1^\top`.

known = align.nearest_rotation(E2 @ E1.T)
assert np.linalg.norm(known - Q) < 0.4
assert np.abs(res.rotation @ res.rotation.T - np.eye(d)).max() < 1e-8
for run in (res, runs["DC-FW"], runs["DC-FW, vanilla steps"]):
    assert align.mean_cosine(run.rotation @ E1, E2) > 0.97 * align.mean_cosine(known @ E1, E2)
assert runs["DC-FW, vanilla steps"].n_grad_g < 0.2 * runs["FW-M"].n_grad_g
assert min(runs["DC-FW"].history["gap"]) < 0.5 * min(runs["FW-M"].history["gap"])

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), width_ratios=[1.2, 1.0], layout="constrained")
for (name, run), colour in zip(runs.items(), ("C3", "C1", "C0", "0.4"), strict=True):
    history = run.history
    factors = history["n_lmo"] + history["n_grad_g"]
    left.plot(factors, np.minimum.accumulate(history["gap"]), color=colour, label=name)
left.set(xscale="log", yscale="log", xlabel="polar factors (oracle calls and subgradients)")
left.set(ylabel="smallest FW gap so far", title="The same gap with fewer matrix factorisations")
left.legend()
angles = {"DC-FW, 10 % known": res.rotation, "Procrustes, all known": known}
for (name, rotation), colour in zip(angles.items(), ("C3", "0.4"), strict=True):
    off = np.degrees(np.arccos(np.clip(np.sum((rotation @ E1) * (Q @ E1), 0) / np.sum(E1**2, 0), -1, 1)))
    right.hist(off, bins=40, range=(0, 30), color=colour, alpha=0.7, label=name)
right.set(xlabel="angle to the true image, in degrees", ylabel="words", title="Errors of the mapped words")
right.legend()
plt.show()
