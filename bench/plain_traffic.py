"""Plain Frank-Wolfe for the user equilibrium: SciPy's Dijkstra and one line search a step."""

from __future__ import annotations

import math
from time import process_time

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra


def all_or_nothing(links, costs, demands, through):
    """Send every trip along its shortest path, origin by origin."""
    n = int(links.max()) + 1
    edge = {(int(i), int(j)): e for e, (i, j) in enumerate(links)}
    flow = np.zeros(len(links))
    for origin in range(len(demands)):
        # Zones other than the origin may not be passed: their outgoing links are left out.
        usable = (links[:, 0] >= through) | (links[:, 0] == origin)
        graph = csr_array((costs[usable], (links[usable, 0], links[usable, 1])), shape=(n, n))
        _, before = dijkstra(graph, indices=origin, return_predecessors=True)
        for destination in np.flatnonzero(demands[origin]):
            node = destination
            while node != origin:
                flow[edge[before[node], node]] += demands[origin, destination]
                node = before[node]
    return flow


def frank_wolfe(network, rtol, end=math.inf, limit=100_000):
    """Return the flows at the relative gap ``rtol``, that gap, and the number of steps."""
    f = network.user_equilibrium
    x = all_or_nothing(network.links, network.free_flow_time, network.demands, network.through)
    for k in range(limit):
        costs = f.grad(x)
        s = all_or_nothing(network.links, costs, network.demands, network.through)
        gap = float(costs @ (x - s)) / float(costs @ x)
        if gap <= rtol or process_time() > end:
            return x, gap, k
        x = searched(f, x, s - x)
    return x, gap, limit


def searched(f, x, d):
    """Return the best point from x towards x + d."""
    return x + minimize_scalar(lambda t: f.value(x + t * d), bounds=(0.0, 1.0), method="bounded").x * d
