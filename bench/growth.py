"""Measure the effect of four times the time, and of given pairs, on ``qap.solve(restarts="auto")``.

    DCFW_DATA=... python -m bench growth [--seconds 0.5] [--seeds 2] [--names sko72 ...]

Prints the mean error in per cent of the best known value: with ``--seconds`` of processor time, with four
times as much, and with ``--seconds`` and a quarter of the pairs of the best known permutation given.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from dcfw import qap

NAMES = ("kra32", "lipa60a", "sko56", "sko72", "tai40a", "tai50b", "tai60a", "tai80b", "tho40", "wil50")


def main(arguments: list[str]) -> None:
    """Print a line for each instance, and the means."""
    parser = argparse.ArgumentParser(prog="python -m bench growth", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--names", nargs="+", default=NAMES)
    options = parser.parse_args(arguments)
    titles = (f"{options.seconds:g} s", f"{4 * options.seconds:g} s", f"{options.seconds:g} s, pairs given")
    print(f"{'error in %':12s}" + "".join(f"{title:>20s}" for title in titles))
    rows = []
    for name in options.names:
        rows.append(np.mean([errors(name, options.seconds, seed) for seed in range(options.seeds)], axis=0))
        print(f"{name:12s}" + "".join(f"{error:20.3f}" for error in rows[-1]), flush=True)
    print(f"{'mean':12s}" + "".join(f"{error:20.3f}" for error in np.mean(rows, axis=0)))


def errors(name: str, seconds: float, seed: int) -> list[float]:
    """Return the errors of the three calls."""
    instance = qap.load(name)
    rng = np.random.default_rng(seed)
    given = rng.choice(instance.n, instance.n // 4, replace=False)
    pairs = np.column_stack((given, instance.permutation[given]))

    def error(limit: float, partial_match: np.ndarray | None) -> float:
        found = qap.solve(
            instance.A,
            instance.B,
            restarts="auto",
            time_limit=limit,
            clock=time.process_time,
            partial_match=partial_match,
            rng=seed,
        )
        return 100.0 * (found.fun - instance.best) / instance.best

    return [error(seconds, None), error(4.0 * seconds, None), error(seconds, pairs)]
