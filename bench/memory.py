"""Measure the resident memory of a long ``qap.solve(restarts="auto")`` over time.

    python -m bench memory [--seconds 600] [--n 50] [--samples 10] [--output results/field]

Uses a uniform random instance with seed 7, which the search does not finish.  The first sample is taken after
a tenth of the time, when every search has been set up; the last line is the growth since then.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

import numpy as np

from bench.field import uniform
from dcfw import qap


def resident() -> float:
    """Return the resident memory of this process in MiB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def main(arguments: list[str]) -> None:
    """Search, sample the memory meanwhile, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench memory", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--output", type=Path, help="write memory.md into this folder")
    options = parser.parse_args(arguments)
    A, B = uniform(options.n, np.random.default_rng(7))
    samples: list[tuple[float, float]] = []
    started = time.perf_counter()

    def sample() -> None:
        for k in range(1, options.samples + 1):
            due = started + 0.99 * options.seconds * k / options.samples
            time.sleep(max(due - time.perf_counter(), 0.0))
            samples.append((time.perf_counter() - started, resident()))

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    result = qap.solve(A, B, restarts="auto", time_limit=options.seconds, rng=1)
    watcher.join()
    command = f"python -m bench memory --seconds {options.seconds:g} --n {options.n}"
    lines = [f"`{command}`", "", "| seconds | resident MiB |", "| --- | --- |"]
    lines += [f"| {moment:.0f} | {size:.1f} |" for moment, size in samples]
    growth = samples[-1][1] - samples[0][1]
    lines += ["", f"growth after the first sample: {growth:.1f} MiB; {result.n_starts} starts", ""]
    sys.stdout.write("\n".join(lines))
    if options.output is not None:
        (options.output / "memory.md").write_text("\n".join(lines), encoding="utf-8")
