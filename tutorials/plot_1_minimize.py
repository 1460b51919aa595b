r"""
Minimise f - g
==============

Find a sparse portfolio by minimising risk minus a reward for concentration,

.. math:: \tfrac{1}{2} x^\top \Sigma x - \tfrac{\lambda}{2} \|x\|^2, \qquad x \ge 0, \ \sum_i x_i = 1 .

Both terms are convex and their difference is not: this is a :term:`DC` function over the simplex, whose
:term:`LMO` returns the vertex of the smallest entry.  Requires ``pip install ".[plots]"``.
"""

import numpy as np

import dcfw
from dcfw import functions, plots, sets

rng = np.random.default_rng(0)
returns = rng.standard_normal((250, 40)) @ rng.standard_normal((40, 40)) / 10
sigma = np.cov(returns.T)
f, g = functions.Quadratic(sigma), functions.SquaredNorm(0.3)

# %%
# Solve the problem.  ``verbose=1`` would show the progress; a notebook shows the result as a table.
res = dcfw.minimize(f - g, sets.Simplex(40))
res

# %%
# ``res.x`` is the portfolio:
for asset in np.flatnonzero(res.x > 1e-6):
    print(f"asset {asset}: {res.x[asset]:.1%}")

# %%
# What is certified
# -----------------
# The :term:`DC gap` is 0 exactly at stationary points.  ``res.dc_gap`` is an interval that contains it; the
# plot shows this interval for every outer step, the Frank-Wolfe gap above it, and the oracle calls.
print("DC gap between", *res.dc_gap)
res.plot()

# %%
# A certificate concerns stationarity, not the global minimum.  Use more starts to look for a better point:
many = dcfw.minimize(f - g, sets.Simplex(40), restarts=10, rng=0)
print("one start ", round(res.fun, 5))
print("ten starts", round(many.fun, 5), "from", sorted({round(v, 4) for v in many.restart_values}))

# %%
# Compare methods
# ---------------
# Methods are options of one function and count the same oracles, so a comparison is one line.
plots.compare([dcfw.minimize(f - g, sets.Simplex(40), method=m, maxiter=2000) for m in ("dcfw", "fw")])

# %%
# Next: use ``minimize(fun, domain, jac=grad)`` for your own function, and test it with :func:`dcfw.check`.
