"""Compare whole calls of ``quadratic_assignment`` with SciPy's on QAPLIB: the effect of changing the import.

For every instance with n <= 40 (``--full``: n <= 100), with the same seed, SciPy's default call (FAQ from the
barycentre) is compared with three of ours: ``method="faq"``, the default (DC-FW), and ten starts with 2-opt.
Errors are relative to the best known value, in per cent; times are the total processor time of all calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from scipy import optimize

from dcfw import qap

Row = tuple[str, float, float, str]

CALLS: dict[str, dict[str, Any]] = {
    'method="faq"': {"method": "faq"},
    "default": {},
    'restarts=10, polish="2opt"': {"options": {"restarts": 10, "polish": "2opt"}},
}


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    instances = [qap.load(name) for name in qap.names(paper=True)]
    instances = [instance for instance in instances if instance.n <= (100 if full else 40)]
    for call in CALLS.values():
        qap.quadratic_assignment(instances[0].A, instances[0].B, **with_seed(call))  # warm-up
    peer = [measured(optimize.quadratic_assignment, instance, {}) for instance in instances]
    for name, call in CALLS.items():
        ours = [measured(qap.quadratic_assignment, instance, call) for instance in instances]
        better = sum(a[0] < b[0] for a, b in zip(ours, peer, strict=True))
        worse = sum(a[0] > b[0] for a, b in zip(ours, peer, strict=True))
        score = f"{name}: better on {better}, worse on {worse} of {len(instances)}"
        yield score, float(np.mean(ours, axis=0)[1]), float(np.mean(peer, axis=0)[1]), "% mean error"
        yield f"{name}: median", *(float(np.median([r[1] for r in rows])) for rows in (ours, peer)), "% error"
        yield f"{name}: time of all calls", *(sum(r[2] for r in rows) for rows in (ours, peer)), "s"


def with_seed(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "options": {**call.get("options", {}), "rng": np.random.default_rng(0)}}


def measured(solver: Any, instance: Any, call: dict[str, Any]) -> tuple[float, float, float]:
    """Return the value, the relative error in per cent and the seconds of one call."""
    started = process_time()
    value = solver(instance.A, instance.B, **with_seed(call)).fun
    seconds = process_time() - started
    return float(value), 100.0 * (value - instance.best) / max(instance.best, 1), seconds
