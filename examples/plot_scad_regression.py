r"""
Regression with SCAD and MCP
============================

The lasso selects variables but also shrinks their coefficients.  The penalties SCAD (Fan
and Li) and MCP (Zhang) have the lasso's slope at zero but level off, so large coefficients are not shrunk:

.. math:: \min_x \; \tfrac{1}{2m} \|A x - b\|^2 + \sum_j p_\lambda(|x_j|), \qquad
          \sum_j p_\lambda(|x_j|) = \lambda \|x\|_1 - g(x)

with g convex and smooth.  The first part, loss and l1 norm, is the lasso;
:func:`dcfw.functions.lift` makes it smooth by replacing the norm by an additional variable.  DC-FW starts
from the lasso solution.

The figure shows the three penalties and the coefficients.  The answers are checked against the *oracle*:
least squares on the true support.  It is a stationary point of both problems, since its
coefficients lie where the penalties are flat, and DC-FW finds it.
"""

import matplotlib.pyplot as plt
import numpy as np

import dcfw
from dcfw import functions, sets

rng = np.random.default_rng(0)
m, n = 100, 30
support = np.array([2, 7, 12, 18, 25])
x_true = np.zeros(n)
x_true[support] = [2.5, -2.0, 3.0, -1.8, 2.2]
A = rng.standard_normal((m, n)) + 0.7 * rng.standard_normal((m, 1))  # all variables are correlated
b = A @ x_true + 0.8 * rng.standard_normal(m)

lam = 0.4
loss, ball = (1.0 / m) * functions.LeastSquares(A, b), sets.L1Ball(n, radius=20.0)
penalties = {"SCAD": functions.SCAD(lam), "MCP": functions.MCP(lam, gamma=3.0)}
answers = {}
for name, penalty in penalties.items():
    objective, domain = functions.lift(loss + penalty, ball)
    lasso = dcfw.minimize(objective.f, domain, inner="blended", tol=1e-9)
    res = dcfw.minimize(objective, domain, lasso.x, inner="blended", tol=1e-9)
    answers[name] = domain.point(res.x)
print(res)

# %%
# Check the answers against least squares on the true support without a penalty.

oracle = np.zeros(n)
oracle[support] = np.linalg.lstsq(A[:, support], b, rcond=None)[0]
for x in answers.values():
    np.testing.assert_allclose(x, oracle, atol=1e-4)
answers = {"lasso": domain.point(lasso.x)} | answers
assert np.abs(answers["lasso"] - oracle).max() > 0.2

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[1, 1.9], layout="constrained")
t = np.linspace(-3.0, 3.0, 301)
left.plot(t, lam * np.abs(t), color="0.5", label="lasso")
for (name, penalty), colour in zip(penalties.items(), ("C0", "C3"), strict=True):
    left.plot(t, [penalty.value(np.array([s])) for s in t], color=colour, label=name)
left.set(xlabel="coefficient", ylabel="penalty", title="Three penalties")
left.legend(loc="upper center")
right.bar(np.arange(n), oracle, width=0.9, color="0.88", label="oracle least squares")
for (name, x), style in zip(answers.items(), (("s", "0.4"), ("o", "C0"), ("x", "C3")), strict=True):
    right.plot(x, style[0], color=style[1], ms=7, mfc="none", mew=1.5, label=name)
right.axhline(0.0, color="k", lw=0.6)
right.set(xlabel="variable", ylabel="coefficient", title="SCAD and MCP do not shrink large coefficients")
right.legend(loc="lower right", ncols=2, fontsize=9)
right.set_ylim(-4.0, 3.6)
plt.show()
