"""Compare DC-FW and the graduated path at equal time, to choose the default method of ``qap.solve``.

    DCFW_DATA=... python -m bench choice [--largest 100]

Uses the instances of QAPLIB that the search was not tuned on (every second one by name).  One graduated call
(both paths) is timed; DC-FW then has as many starts as fit into the same processor time, at least one, and
its best permutation counts.  No permutation is polished.  A single run of DC-FW is listed as well.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from dcfw import qap


def main(arguments: list[str]) -> None:
    """Print the times, the errors, and how often each method is better."""
    parser = argparse.ArgumentParser(prog="python -m bench choice", description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=100)
    options = parser.parse_args(arguments)
    rows = [row for name in sorted(qap.names())[1::2] if (row := compared(name, options.largest))]
    table = np.array(rows)
    for k, title in enumerate(("graduated", "DC-FW, as many starts as fit", "DC-FW, one start")):
        seconds, errors = table[:, 2 * k], table[:, 2 * k + 1]
        print(
            f"{title:32s} geometric mean {1e3 * np.exp(np.log(seconds).mean()):7.2f} ms"
            f"   mean error {errors.mean():.4f}   median {np.median(errors):.4f}"
        )
    for k, title in ((3, "as many starts as fit"), (5, "one start")):
        wins, losses = (table[:, 1] < table[:, k]).sum(), (table[:, 1] > table[:, k]).sum()
        print(f"graduated against DC-FW, {title}: {wins} : {losses} on {len(table)} instances")


def compared(name: str, largest: int) -> tuple[float, ...] | None:
    """Return seconds and relative error of the path, of DC-FW at equal time, and of one DC-FW run."""
    instance = qap.load(name)
    if instance.n > largest or not instance.best:
        return None

    def one(method: str, seed: int) -> tuple[float, float]:
        started = time.process_time()
        value = qap.solve(
            instance.A, instance.B, method=method, init="random" if seed else "barycenter", rng=seed
        ).fun
        return time.process_time() - started, (value - instance.best) / instance.best

    one("graduated", 0)  # imports and caches
    spent, path = one("graduated", 0)
    first = used, error = one("dcfw", 0)
    seed = 1
    while used < spent:
        seconds, other = one("dcfw", seed)
        if used + seconds > spent:
            break
        used, error, seed = used + seconds, min(error, other), seed + 1
    return spent, path, used, error, *first
