"""The solvers that ``bench graphs`` compares at equal processor time; each restarts until its time is over.

A run that has started counts, as the peers have no time limit.  graspologic needs an older NumPy and runs
under another Python, in a process that waits for pairs; its processor time is measured there.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, quadratic_assignment

from bench.graph_pairs import lost
from dcfw import qap

Solver = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, float]]
"""Maps two matrices and seconds to a permutation and the processor time used."""
AFFINITY = 60
"""pygmtools' affinity matrix has n^4 entries: 100 MB for 60 nodes."""


@cache
def solvers(n: int, graspologic: str | None = None) -> dict[str, Solver]:
    """Return the installed solvers for n nodes, ours first, with all imports done."""
    found: dict[str, Solver] = {"dcfw": ours, "FAQ": partial(_restarted, run=_faq)}
    if graspologic is not None:
        found["graspologic"] = partial(_elsewhere, _worker(graspologic))
    if find_spec("ot"):
        found["POT GW"] = partial(_restarted, run=_gromov)
    if n <= AFFINITY and find_spec("pygmtools"):
        found |= {name: partial(_restarted, run=partial(_affinity, name)) for name in ("rrwm", "ipfp")}
    ring = np.roll(np.eye(9), 1, axis=0) + np.roll(np.eye(9), -1, axis=0)
    for solver in found.values():
        solver(ring, ring, 0.2)
    return found


def ours(A: np.ndarray, B: np.ndarray, seconds: float) -> tuple[np.ndarray, float]:
    started = process_time()
    result = qap.match(A, B, loops="keep", restarts="auto", time_limit=seconds, clock=process_time, rng=0)
    return result.permutation, process_time() - started


def faq(A: np.ndarray, B: np.ndarray, **options: Any) -> np.ndarray:
    return quadratic_assignment(A, B, method="faq", options={"maximize": True, **options}).col_ind


def _restarted(A: np.ndarray, B: np.ndarray, seconds: float, run: Any) -> tuple[np.ndarray, float]:
    """Return the best of a run from the default start and of runs from random starts."""
    started, rng = process_time(), np.random.default_rng(0)
    best = run(A, B, None)
    while process_time() - started < seconds:
        best = min(best, run(A, B, rng), key=partial(lost, A, B))
    return best, process_time() - started


def _faq(A: np.ndarray, B: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    return faq(A, B) if rng is None else faq(A, B, P0="randomized", rng=rng)


def _gromov(A: np.ndarray, B: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    from ot.gromov import gromov_wasserstein

    n = len(A)
    start = None if rng is None else (0.5 / n + 0.5 * np.eye(n)[rng.permutation(n)]) / n
    return linear_sum_assignment(-np.asarray(gromov_wasserstein(A.astype(float), B.astype(float), G0=start)))[
        1
    ]


def _affinity(name: str, A: np.ndarray, B: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    import pygmtools

    n = len(A)
    K = np.kron(B.astype(float), A.astype(float))  # column by column, as pygmtools has it
    start = None if rng is None else rng.random((1, n, n))
    X = getattr(pygmtools, name)(K, n, n, x0=start, backend="numpy")
    return linear_sum_assignment(-np.asarray(X).reshape(n, n))[1]


WORKER = """
import json, sys, time, warnings
import numpy as np
from graspologic.match import graph_match
warnings.simplefilter("ignore")
for line in sys.stdin:
    path, seconds = json.loads(line)
    with np.load(path) as data:
        A, B = data["A"].astype(float), data["B"].astype(float)
    rng, started, best = np.random.default_rng(0), time.process_time(), None
    while best is None or time.process_time() - started < seconds:
        start = {} if best is None else {"init_perturbation": 1.0}
        p = graph_match(A, B, rng=rng, **start).indices_B
        value = np.abs(A - B[np.ix_(p, p)]).sum()
        if best is None or value < best[0]:
            best = float(value), p.tolist()
    print(json.dumps([best[1], time.process_time() - started]), flush=True)
"""


@cache
def _worker(python: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [python, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.terminate)
    return process


def _elsewhere(
    process: subprocess.Popen[str], A: np.ndarray, B: np.ndarray, seconds: float
) -> tuple[np.ndarray, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.npz"
        np.savez(path, A=A, B=B)
        process.stdin.write(json.dumps([str(path), seconds]) + "\n")
        process.stdin.flush()
        p, taken = json.loads(process.stdout.readline())
    return np.array(p), taken
