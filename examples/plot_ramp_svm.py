r"""
A support vector machine that ignores outliers
==============================================

The hinge loss is unbounded, so a single mislabelled point far on the wrong side can change the whole
classifier.  The ramp loss is bounded: all points with a negative margin have nearly the same loss.
A ramp is the difference of two hinges, here with rounded corners so that the first one is smooth:

.. math:: \min_{\|w\| \le r} \; \frac1m \sum_i h\bigl(1 - y_i a_i^\top w\bigr)
          - \frac1m \sum_i h\bigl(-y_i a_i^\top w\bigr), \qquad
          h(s) = \begin{cases} 0 & s \le 0 \\ s^2 / 2 \delta & 0 < s \le \delta \\
          s - \delta / 2 & s > \delta \end{cases}

(a column of ones in the data provides the intercept).  The first sum alone is the usual convex problem.
DC-FW starts from its solution, and from nine random points because there are local minima.

The figure shows the two losses, and the two classifiers on data with a cluster of wrong labels.  The answer
is checked against SciPy's SLSQP from many starts.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize as scipy_minimize

import dcfw
from dcfw import functions, sets

rng = np.random.default_rng(2)
m, delta, radius = 80, 0.2, 3.0
y = np.repeat([1.0, -1.0], m // 2)
points = rng.standard_normal((m, 2)) * 0.7 + np.outer(y, [1.2, 0.6])
points[:8] = rng.standard_normal((8, 2)) * 0.3 + [-8.0, 0.0]  # eight labels are wrong, and far out
A = np.column_stack([points, np.ones(m)])
L = np.linalg.norm(A, 2) ** 2 / (m * delta)


def h(s):
    return np.where(s > delta, s - delta / 2, np.clip(s, 0.0, None) ** 2 / (2 * delta))


def hinges(shift):
    """Return the mean of h(shift - margin), a smooth convex function of w."""
    return functions.Smooth(
        lambda w: h(shift - y * (A @ w)).mean(),
        lambda w: A.T @ (-y * np.clip((shift - y * (A @ w)) / delta, 0.0, 1.0)) / m,
        lipschitz=L,
        convex=True,
    )


f, g, ball = hinges(1.0), hinges(0.0), sets.L2Ball(3, radius=radius)
hinge = dcfw.minimize(f - functions.Zero(), ball, tol=1e-4, inner="pairwise")
ramp = dcfw.minimize(f - g, ball, hinge.x, tol=1e-5, inner="pairwise", restarts=10, rng=0)
print(ramp)

# %%
# Check the answer with a general nonlinear solver from the convex solution and from thirty random starts.

phi, inside = f - g, {"type": "ineq", "fun": lambda w: radius**2 - w @ w}
starts = [hinge.x, *(ball.random(rng) for _ in range(30))]
best = min(scipy_minimize(phi.value, w, jac=phi.grad, constraints=inside).fun for w in starts)
assert abs(ramp.fun - best) < 1e-4, (ramp.fun, best)
clean = slice(8, None)
machines = {"hinge": hinge.x, "ramp": ramp.x}
errors = {name: int((y[clean] * (A[clean] @ w) < 0).sum()) for name, w in machines.items()}
assert errors["ramp"] < errors["hinge"]

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=[1, 1.7], layout="constrained")
margin = np.linspace(-2.5, 2.0, 400)
left.plot(margin, h(1 - margin), "--", color="0.4", label="hinge (convex)")
left.plot(margin, h(1 - margin) - h(-margin), color="C3", lw=2, label="ramp (DC)")
left.set(xlabel="margin $y\\, a^\\top w$", ylabel="loss", title="Two losses")
left.legend()
for label, colour, marker in ((1.0, "C0", "o"), (-1.0, "C1", "s")):
    right.plot(*points[y == label].T, marker, color=colour, ms=5, alpha=0.8, label=f"label {label:+.0f}")
right.plot(*points[:8].T, "o", mfc="none", mec="k", ms=10, label="wrong labels")
styles = {"hinge": {"color": "0.4", "ls": "--"}, "ramp": {"color": "C3", "lw": 2}}
span = np.array([-9.5, 4.0])
for name, w in machines.items():
    label = f"{name}: {errors[name]} of the {m - 8} others on the wrong side"
    right.plot(span, -(w[0] * span + w[2]) / w[1], label=label, **styles[name])
right.set(
    xlim=span, ylim=(-5.5, 3.0), xlabel="first feature", ylabel="second feature", title="Two classifiers"
)
right.legend(loc="lower left", fontsize=9)
plt.show()
