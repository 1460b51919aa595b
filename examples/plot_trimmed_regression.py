r"""
Trimmed regression: fit a line to most of the points
====================================================

A few outliers can change a least squares fit strongly.  Least trimmed squares sums only the smallest squared
residuals and omits the k largest:

.. math:: \min_x \; \tfrac12 \sum_{i=1}^{m} r_i(x)^2 - \tfrac12 \sum_{j=1}^{k} r_{[j]}(x)^2,
          \qquad r(x) = A x - b, \quad r_{[1]}^2 \ge r_{[2]}^2 \ge \dots

Both sums are convex (the second is a maximum of convex functions, one for each choice of k points), so this
is already a difference of convex functions.  The second sum has kinks where the choice changes, but DC-FW
only needs a subgradient of it.

The figure shows the data, least squares, and the trimmed fit with the omitted points.  The
answer is checked against all 4845 ways to omit four of the twenty points.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

import dcfw
from dcfw import functions, sets

rng = np.random.default_rng(1)
m, k = 20, 4
t = np.sort(rng.uniform(0.0, 10.0, m))
b = 1.0 + 0.5 * t + 0.3 * rng.standard_normal(m)
b[-k:] = 0.5 + 0.3 * rng.standard_normal(k)  # the sensor fails near the end
A = np.column_stack([np.ones(m), t])

# %%
# g sums the k largest squared residuals; its subgradient is the gradient of these k terms.


def largest(x):
    r = A @ x - b
    return r, np.argsort(-np.abs(r))[:k]


def value(x):
    r, top = largest(x)
    return 0.5 * float(r[top] @ r[top])


def subgrad(x):
    r, top = largest(x)
    return A[top].T @ r[top]


f, g = functions.LeastSquares(A, b), functions.Convex(value, subgrad)
domain = sets.L2Ball(2, radius=10.0)  # far larger than any sensible line
res = dcfw.minimize(f - g, domain, inner="blended", tol=1e-9, restarts=10, rng=0)
print(res)

# %%
# Check the answer against the best least squares fit over all subsets.

best = min(
    0.5 * float(np.linalg.lstsq(A[list(kept)], b[list(kept)], rcond=None)[1][0])
    for kept in combinations(range(m), m - k)
)
assert abs(res.fun - best) < 1e-8, (res.fun, best)

plain = np.linalg.lstsq(A, b, rcond=None)[0]
_, out = largest(res.x)
kept = np.setdiff1d(np.arange(m), out)

fig, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
ax.plot(t[kept], b[kept], "o", color="C0", label="points kept")
ax.plot(t[out], b[out], "o", mfc="none", mec="C3", mew=1.8, ms=9, label="points left out")
ax.plot(t, A @ plain, "--", color="0.5", label="least squares")
ax.plot(t, A @ res.x, color="C0", lw=2, label="trimmed, by DC-FW")
ax.plot(t, 1.0 + 0.5 * t, ":", color="k", label="the truth")
ax.set(xlabel="t", ylabel="measurement", title=f"The best line through {m - k} of {m} points")
ax.legend(loc="upper left")
plt.show()
