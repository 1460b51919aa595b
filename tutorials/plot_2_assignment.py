"""
Quadratic assignment from a table
=================================

Twelve departments, the traffic between them, twelve rooms, the distances between these: who sits where?
Tables with names go in as DataFrames, and names come out.  Needs ``pip install ".[plots]" pandas``.
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
# Say how much time there is.  On the command line the same is
# ``dcfw qap --flow flow.csv --distance distance.csv --output answer.csv``.
res = qap.solve(flow, distance, restarts="auto", time_limit=1.0, rng=0)
pd.DataFrame(res.labels, columns=["department", "room"])

# %%
# How good is it?  No assignment can cost less than ``res.bound``; the grey area is what is not known.
print("cost", res.fun, "bound", res.bound)
res.plot()

# %%
# ``qap.bound`` with more time proves more (here, often all of it):
low = qap.bound(flow, distance, time_limit=3.0)
print("bound", float(low), "by", low.method, "- distance", f"{(res.fun - low) / low:.1%}")

# %%
# SciPy's function takes the same matrices and is one import away.  Its answer for comparison:
costs = [
    quadratic_assignment(
        problem.A, problem.B, options={"rng": np.random.default_rng(k), "P0": "randomized"}
    ).fun
    for k in range(20)
]
print("SciPy's FAQ, best of 20:", int(min(costs)), "; dcfw:", res.fun)
