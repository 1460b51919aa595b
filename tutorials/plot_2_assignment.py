"""
Quadratic assignment from a table
=================================

Assign twelve departments to twelve rooms, given the traffic between departments and the distances between
rooms.  Input and output are tables with names.  Requires ``pip install ".[plots]" pandas``.
"""

import numpy as np
import pandas as pd
from scipy.optimize import quadratic_assignment

from dcfw import qap

problem = qap.generators.nugent((3, 4), rng=0)
departments = [f"dep {k}" for k in "ABCDEFGHIJKL"]
rooms = [f"room {r}{c}" for r in (1, 2, 3) for c in (1, 2, 3, 4)]
flow = pd.DataFrame(problem.A, departments, departments)
distance = pd.DataFrame(problem.B, rooms, rooms)
distance.iloc[:4, :4]

# %%
# Solve within a time limit.  The equivalent on the command line is
# ``dcfw qap --flow flow.csv --distance distance.csv --output answer.csv``.
res = qap.solve(flow, distance, restarts="auto", time_limit=1.0, rng=0)
pd.DataFrame(res.labels, columns=["department", "room"])

# %%
# How good is it?  ``res.bound`` is a lower bound on the cost of every assignment; the grey area is the gap.
print("cost", res.fun, "bound", res.bound)
res.plot()

# %%
# ``qap.bound`` gives a stronger bound in more time (here it often proves optimality):
low = qap.bound(flow, distance, time_limit=3.0)
print("bound", float(low), "by", low.method, "- distance", f"{(res.fun - low) / low:.1%}")

# %%
# SciPy's function takes the same matrices.  Its result for comparison:
costs = [
    quadratic_assignment(
        problem.A, problem.B, options={"rng": np.random.default_rng(k), "P0": "randomized"}
    ).fun
    for k in range(20)
]
print("SciPy's FAQ, best of 20:", int(min(costs)), "; dcfw:", res.fun)
