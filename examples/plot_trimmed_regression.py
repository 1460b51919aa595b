r"""
Trimmed regression: fit the line that most points agree on
==========================================================

Least squares lets a few wild points tilt the line.  Least trimmed squares adds up only the smallest squared
residuals and leaves out the k largest, whichever they are:

.. math:: \min_x \; \tfrac12 \sum_{i=1}^{m} r_i(x)^2 - \tfrac12 \sum_{j=1}^{k} r_{[j]}(x)^2,
          \qquad r(x) = A x - b, \quad r_{[1]}^2 \ge r_{[2]}^2 \ge \dots

Both sums are convex (the second is a maximum of convex functions, one for each choice of k points), so this
is a difference of convex functions as it stands.  The second one has kinks where the choice changes; DC-FW
needs a subgradient of it only.

The picture shows the data, least squares, and the trimmed fit with the points that it leaves out.  The
answer is checked against all 4845 ways to leave four of the twenty points out.
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
# g takes the k largest squared residuals; its subgradient is that of the k points which attain them.


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
# The check: the best of all subsets, each by its own least squares.

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
