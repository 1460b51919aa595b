"""Compare ``qap.bound`` with the best known values on the smallest symmetric instances of QAPLIB.

    DCFW_DATA=... python -m bench bounds [--seconds 2] [--count 36] [--output results/qap]

Times are wall-clock seconds, as for ``time_limit``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from dcfw import qap


def smallest(count: int) -> list[qap.Instance]:
    """Return the smallest instances of which both matrices are symmetric."""
    found = [qap.load(name) for name in sorted(qap.names())]
    found = [i for i in found if all(np.array_equal(M, M.T) for M in (i.A, i.B)) and i.best is not None]
    return sorted(found, key=lambda i: (i.n, i.name))[:count]


def main(arguments: list[str]) -> None:
    """Print the gap of each instance and their median; write the table if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench bounds", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--count", type=int, default=36)
    parser.add_argument("--output", type=Path, help="write the table into this folder")
    options = parser.parse_args(arguments)
    command = f"python -m bench bounds --seconds {options.seconds:g} --count {options.count}"
    lines = [f"`{command}`", "", "| instance | bound | best known | gap in % | method | processor seconds |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    print("\n".join(lines))
    gaps = []
    for instance in smallest(options.count):
        started = time.process_time()
        low = qap.bound(instance.A, instance.B, time_limit=options.seconds)
        if low > instance.best:
            raise AssertionError(f"{instance.name}: the bound {low} is above the value {instance.best}")
        gaps.append(100.0 * (instance.best - low) / max(instance.best, 1))
        cells = (instance.name, low, instance.best, f"{gaps[-1]:.2f}", low.method)
        lines.append(f"| {' | '.join(map(str, cells))} | {time.process_time() - started:.2f} |")
        print(lines[-1], flush=True)
    lines += ["", f"median gap {statistics.median(gaps):.2f} %, mean {statistics.mean(gaps):.2f} %", ""]
    print(lines[-2])
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "bounds.md").write_text("\n".join(lines), encoding="utf-8")
