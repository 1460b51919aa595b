"""Count how often ``qap.solve(restarts="auto")`` reaches a proven optimum in 0.2 s, for small n.

    DCFW_DATA=... python -m bench small [--seconds 0.2] [--seeds 10] [--first-seed 0] [--names chr25a ...]

Uses all instances of QAPLIB with n <= 32 and a proven optimum; times are processor time without imports.
Prints a line for each instance that was missed, and the share of all runs that reached the optimum.
"""

from __future__ import annotations

import argparse
import time

from dcfw import qap

LARGEST = 32


def main(arguments: list[str]) -> None:
    """Print the instances that were missed and the share of runs at the optimum."""
    parser = argparse.ArgumentParser(prog="python -m bench small", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--names", nargs="+", help="use only these instances")
    options = parser.parse_args(arguments)
    found = [qap.load(name) for name in options.names or sorted(qap.names())]
    found = [instance for instance in found if instance.n <= LARGEST and instance.status == "optimal"]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    reached = 0
    for instance in found:
        values = [
            qap.solve(
                instance.A,
                instance.B,
                restarts="auto",
                time_limit=options.seconds,
                clock=time.process_time,
                rng=seed,
            ).fun
            for seed in seeds
        ]
        hits = sum(value == instance.best for value in values)
        reached += hits
        if hits < len(seeds):
            print(f"{instance.name}: {hits} of {len(seeds)}", flush=True)
    runs = len(found) * len(seeds)
    print(f"{len(found)} instances, {runs} runs: {100.0 * reached / runs:.1f} % at the optimum")
