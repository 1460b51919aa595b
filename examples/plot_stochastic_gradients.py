r"""
A sparse classifier from a few samples at a time
================================================

With many samples a full gradient is expensive, and a batch of samples approximates it well.  The
problem is logistic regression over an l1 ball, with a subtracted l2 norm that favours few large coefficients:

.. math:: \min_{\|x\|_1 \le r} \; \tfrac1m \sum_{i=1}^m \log\bigl(1 + e^{-y_i a_i^\top x}\bigr)
          - \lambda \|x\|_2 .

``method="stochastic"`` is DC-FW on the sliding split with sampled gradients: all inner steps of an outer
step use one estimate, so oracle calls need no samples.  The estimator "storm" corrects old estimates at the
cost of two gradients per sample; plain batches grow so that their noise vanishes.

A gap computed from samples certifies nothing.  Before a run ends as converged, the gap is therefore computed
with the full gradient once, which is counted.  The figure shows the value against epochs (passes through
the data, including those of the line search for full gradients), and the coefficients.  The answers are
checked against DC-FW with full gradients.
"""

import matplotlib.pyplot as plt
import numpy as np

import dcfw
from dcfw import functions, sets
from dcfw.solvers.stochastic import Stochastic

rng = np.random.default_rng(1)
m, n = 20_000, 60
x_true = np.zeros(n)
x_true[[3, 11, 24, 37, 52]] = [2.0, -1.5, 1.0, -1.0, 1.5]
A = rng.standard_normal((m, n))
y = np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-A @ x_true)), 1.0, -1.0)

loss = functions.FiniteSum.logistic(A, y)
objective = loss - functions.L2Norm(0.02)
domain = sets.L1Ball(n, radius=7.5)
methods = {
    "full gradients": "dcfw",
    "growing batches": Stochastic(batch=200, growth=1.05),
    "storm": Stochastic(batch=200, estimator="storm"),
}
runs, curves = {}, {}
for name, method in methods.items():
    seen = []

    def record(state, seen=seen, whole=method == "dcfw"):
        epochs = state.n_grad_f + state.n_grad_g if whole else state.epochs
        seen.append((epochs, objective.value(state.x)))

    runs[name] = dcfw.minimize(
        objective, domain, method=method, tol=2e-3, maxiter=400, callback=record, rng=0
    )
    curves[name] = np.array(seen)
    print(f"{name}: value {runs[name].fun:.6f}, gap {runs[name].gap:.1e}, {curves[name][-1, 0]:.1f} epochs")
res = runs["storm"]
print(res)

# %%
# Check the answers against DC-FW with full gradients and a small gap.

exact = dcfw.minimize(objective, domain, tol=1e-7)
for run in runs.values():
    assert run.success
    assert run.fun - exact.fun < 2e-3
assert set(np.flatnonzero(np.abs(exact.x) > 0.2)) == set(np.flatnonzero(x_true))

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for (name, curve), colour in zip(curves.items(), ("0.4", "C0", "C3"), strict=True):
    left.plot(np.maximum(curve[:, 0], 1e-2), curve[:, 1] - exact.fun + 1e-7, color=colour, label=name)
left.set(xscale="log", yscale="log", xlabel="epochs", ylabel="value above the best")
left.set_title("Progress per pass through the data")
left.legend()
right.bar(np.arange(n), x_true, color="0.85", width=0.9, label="true coefficients")
right.plot(exact.x, "s", color="0.4", mfc="none", label="full gradients")
right.plot(res.x, "x", color="C3", label="storm")
right.set(xlabel="variable", ylabel="coefficient", title="The classifier")
right.legend()
plt.show()
