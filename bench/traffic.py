"""Traffic assignment on real networks: seconds to a relative gap, against plain Frank-Wolfe.

Compares ``traffic.assign`` with ``bench/plain_traffic.py``, 40 lines with SciPy's Dijkstra, in processor
time on one thread.  The peer is stopped at 20 times our time (10 times with ``--full``); its time is then a
lower bound, as its row states.  To 1e-6 there is no peer; its column is our target time.
Another row compares the objective with that of the flows published with the collection.

Needs the TransportationNetworks files in the folder named by ``DCFW_DATA``.  ``--full`` adds Chicago Sketch.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import numpy as np

from bench.plain_traffic import frank_wolfe
from dcfw import traffic
from dcfw.data import find

Row = tuple[str, float, float, str]

LIMITS = {"SiouxFalls": 5.0, "Anaheim": 60.0}
"""Seconds to a relative gap of 1e-6."""


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    for name in ("SiouxFalls", "Anaheim", *(("ChicagoSketch",) if full else ())):
        network = traffic.read(name)
        traffic.assign(network, rtol=0.1)  # warm-up
        started = process_time()
        res = traffic.assign(network)
        ours = process_time() - started
        gap = network.relative_gap(res.x)
        assert gap <= 1e-4, f"{name}: the relative gap is {gap:.2e}"
        started = process_time()
        end = started + (10.0 if full else 20.0) * ours
        _, reached, _ = frank_wolfe(network, 1e-4, end)
        peer = process_time() - started
        stopped = "" if reached <= 1e-4 else f", peer stopped at {reached:.0e}"
        yield f"{name} to 1e-4 ({res.n_lmo} oracle calls{stopped})", ours, peer, "s"
        if name in LIMITS:
            started = process_time()
            res = traffic.assign(network, rtol=1e-6)
            yield f"{name} to 1e-6, against our target", process_time() - started, LIMITS[name], "s"
        best = network.user_equilibrium.value(published(name, network))
        yield f"{name}, objective against the published flows'", res.fun, best, "vehicle minutes"


def published(name: str, network: traffic.Network) -> np.ndarray:
    """Return the link flows that the collection gives as the best known."""
    table = np.loadtxt(find(f"tntp/{name}_flow.tntp"), skiprows=1, usecols=(0, 1, 2))
    flows = {(int(i) - 1, int(j) - 1): v for i, j, v in table}
    return np.array([flows[int(i), int(j)] for i, j in network.links])
