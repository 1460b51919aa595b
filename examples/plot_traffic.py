r"""
Traffic assignment, tolls and economies of scale
================================================

Travellers on a grid of streets take their fastest routes, and streets become slower with traffic.
The travellers reach a *user equilibrium*; the *system optimum* has the least total time.  Both minimise
a convex function of the street flows, which lie in a :class:`~dcfw.sets.FlowPolytope`: its linear oracle is
one shortest path tree for each origin.

With tolls of :math:`v\,t'(v)`, the cost of a traveller to all others, the equilibrium is the system optimum.

Now let every street in use need upkeep of :math:`c \log(1 + v)`: expensive for the first vehicle,
cheap for the hundredth.  The total is no longer convex,

.. math:: \phi(v) = f(v) - g(v), \qquad f(v) = \sum_e v_e t_e(v_e), \quad g(v) = -\sum_e c \log(1 + v_e),

so methods for convex assignment do not apply, but DC-FW does.  Traffic concentrates on fewer streets.

The equilibrium is checked against Wardrop's condition, the tolls against the optimum, and the last answer
against the convex optimum, which is worse.
"""

import matplotlib.pyplot as plt
import numpy as np

from dcfw import functions, traffic

side, rng = 6, np.random.default_rng(2)
at = np.arange(side * side).reshape(side, side)
across = np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
down = np.column_stack([at[:-1].ravel(), at[1:].ravel()])
links = np.vstack([across, down, across[:, ::-1], down[:, ::-1]])
m = len(links)
demands = rng.uniform(0.0, 2.0, (side**2, side**2)) * (rng.random((side**2, side**2)) < 0.15)
network = traffic.Network(
    links, rng.uniform(1.0, 2.0, m), rng.uniform(6.0, 20.0, m), np.full(m, 0.5), np.full(m, 4.0), demands
)

user = traffic.assign(network, "user", rtol=1e-6)
system = traffic.assign(network, "system", rtol=1e-6)
print(user)


def total(v):
    return float(v @ network.times(v))


print(f"total time: {total(user.x):.1f} in equilibrium, {total(system.x):.1f} at the optimum")
assert network.relative_gap(user.x) <= 1e-6  # Wardrop: no traveller has a faster route

# %%
# With the marginal costs of the optimum as tolls, the equilibrium is the optimum.

tolls = network.system_optimum.grad(system.x) - network.times(system.x)
tolled = network.user_equilibrium + functions.Quadratic(np.zeros((m, m)), tolls, convex=True)
led = traffic.assign(network, tolled, rtol=1e-6)
assert abs(total(led.x) - total(system.x)) <= 1e-4 * total(system.x)

# %%
# Solve the problem with upkeep.

phi = network.system_optimum - traffic.Savings(price=25.0, size=1.0)
gathered = traffic.assign(network, phi, x0=system.x, rtol=1e-5)
assert gathered.success
assert gathered.fun < phi.value(system.x)

xy = np.column_stack([np.arange(side**2) % side, -(np.arange(side**2) // side)]).astype(float)
fig, axes = plt.subplots(1, 3, figsize=(12.5, 4.4), layout="constrained")
titles = (
    f"User equilibrium: {total(user.x):.0f}",
    f"System optimum: {total(system.x):.0f}",
    f"With upkeep: {int((gathered.x > 1e-3).sum())} of {m} streets used",
)
for ax, v, title in zip(axes, (user.x, system.x, gathered.x), titles, strict=True):
    for (i, j), flow, load in zip(links, v, v / network.capacity, strict=True):
        (x0, y0), (x1, y1) = xy[i], xy[j]
        side_step = 0.06 * np.array([y1 - y0, x0 - x1])  # keep to the right
        color = plt.cm.viridis(min(load, 1.5) / 1.5)
        ends = np.array([[x0, y0], [x1, y1]]) + side_step
        ax.plot(*ends.T, color=color, linewidth=0.25 * flow, solid_capstyle="butt")
    ax.set_title(title, fontsize=10)
    ax.set_aspect("equal")
    ax.axis("off")
plt.show()
