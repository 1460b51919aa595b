"""Quadratic assignment: our iterations against those of others, on QAPLIB.

- ``FW``: a call of ``qap.solve(method="fw")`` with 60 iterations against SciPy's
  ``quadratic_assignment`` (FAQ), which is the same method, from the same random start.
- ``FAQ``: the same with ``qap.quadratic_assignment(method="faq")``, with SciPy's signature and stopping rule.
- ``DC-FW``: one inner iteration of variant 1 with vanilla steps, published protocol, against
  :mod:`bench.transcription`, with the same iterates (checked to 1e-8, except for tai256c with its ties).
- ``LAP``: the geometric means of :mod:`bench.lap`.
- ``tabu``: one step of robust tabu search on sko100a against a C++ program, if its source is given: it is
  built with ``g++ -O3`` and run as ``PROGRAM rots91 FILE SEED SECONDS`` (also used by :mod:`bench.field`).

Times are total CPU times divided by the number of iterations; the two sides alternate and
the fastest call of each counts.  Short calls are made three times in a turn, because the first one starts
with cold caches, which on a busy machine doubles the time of a call of 0.4 ms.  The geometric mean
of each kind is followed by its smallest ratio.

    python -m bench qap [--full] [--rival PATH/qap_metaheuristics.cpp]
"""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy.optimize import quadratic_assignment

from bench import lap
from bench.transcription import dc_frank_wolfe
from dcfw import qap
from dcfw.data import find
from dcfw.kernels.swaps import layout
from dcfw.sets import Birkhoff

Row = tuple[str, float, float, str]

# instance: iterations of FW, inner iterations of DC-FW
INSTANCES = {
    "nug12": (60, 3000),
    "bur26a": (60, 2000),
    "tai30a": (60, 2000),
    "tai50a": (60, 1000),
    "sko100a": (60, 200),
}
LARGE = {"tho150": (60, 100), "tai256c": (20, 30)}
"""Measured with --full as well."""
PASSES, SECONDS = 5, 1.0
SHORT, IN_A_ROW = 0.01, 3
"""Calls shorter than this (seconds) are repeated this often in a turn."""
TABU = "sko100a"
TIED = {"tai256c"}
"""Instances whose assignment problems have many optimal solutions (a matrix of tai256c repeats its rows): the
two sides choose different ones, so only the cost of a step can be compared."""


def alternate(*runs: Callable[[], Any]) -> Iterator[tuple[float, Any]]:
    """Return (seconds of the fastest pass, answer) for each of the runs, which alternate.

    Short runs have many passes, so that some of them are not disturbed by other processes.
    """
    best = [math.inf] * len(runs)
    answers: list[Any] = [None] * len(runs)
    passes = 0
    started = process_time()
    while passes < PASSES or process_time() - started < SECONDS:
        for k, run in enumerate(runs):
            for _ in range(IN_A_ROW):
                before = process_time()
                answers[k] = run()
                seconds = process_time() - before
                best[k] = min(best[k], seconds)
                if seconds > SHORT:
                    break
        passes += 1
    return zip(best, answers, strict=True)


def instances(full: bool) -> dict[str, tuple[int, int]]:
    """Return the instances to measure, with their numbers of steps."""
    return INSTANCES | LARGE if full else INSTANCES


def data(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A and B as floats (SciPy is faster with them) and a random start."""
    instance = qap.load(name)
    X0 = Birkhoff(instance.n).random(np.random.default_rng(0), scale=0.001)
    return instance.A.astype(float), instance.B.astype(float), X0


def fw_rows(full: bool = False) -> Iterator[Row]:
    """Yield seconds per iteration of ``qap.solve(method="fw")`` and of SciPy's FAQ."""

    def ours(A: np.ndarray, B: np.ndarray, X0: np.ndarray, steps: int) -> int:
        return int(qap.solve(A, B, method="fw", init=X0, maxiter=steps, rtol=0.0).n_inner)

    yield from _against_faq("FW", ours, full)


def faq_rows(full: bool = False) -> Iterator[Row]:
    """Yield seconds per iteration of our ``quadratic_assignment(method="faq")`` and of SciPy's."""
    yield from _against_faq("FAQ", partial(_faq, qap.quadratic_assignment), full)


def _against_faq(kind: str, ours: Callable[..., int], full: bool) -> Iterator[Row]:
    for name, (iterations, _) in instances(full).items():
        problem = (*data(name), iterations)
        mine, theirs = alternate(partial(ours, *problem), partial(_faq, quadratic_assignment, *problem))
        yield f"{kind} {name}", mine[0] / max(mine[1], 1), theirs[0] / theirs[1], "s/iteration"


def _faq(solve: Callable[..., Any], A: np.ndarray, B: np.ndarray, X0: np.ndarray, steps: int) -> int:
    """Run FAQ by SciPy's function, or by one with its signature; return the number of iterations."""
    options = {"P0": X0, "maxiter": steps, "tol": 1e-300}
    return int(solve(A, B, method="faq", options=options).nit)


def dc_rows(full: bool = False) -> Iterator[Row]:
    """Yield seconds per inner iteration of DC-FW and of its transcription, at equal iterates."""
    options: dict[str, Any] = {"split": "paper", "inner": "fw"}
    A, B, X0 = data("nug12")
    qap.solve(A, B, init=X0, max_lmo=10, **options)
    for name, (_, budget) in instances(full).items():
        A, B, X0 = data(name)

        def ours(A: Any = A, B: Any = B, X0: Any = X0, budget: int = budget) -> Any:
            return qap.solve(A, B, init=X0, max_lmo=budget, **options)

        steps = ours().n_inner

        def plain(A: Any = A, B: Any = B, X0: Any = X0, steps: int = steps) -> Any:
            return dc_frank_wolfe(A, B, X0, max_inner=steps)

        (our_seconds, result), (their_seconds, (X, their_steps)) = alternate(ours, plain)
        assert their_steps == steps, f"{name}: {steps} steps against {their_steps}"
        distance = float(np.abs(result.x - X).max())
        assert distance <= 1e-8 or name in TIED, (
            f"{name}: the iterates differ by {distance:.1e} after {steps} steps"
        )
        yield f"DC-FW {name}", our_seconds / steps, their_seconds / steps, "s/iteration"


def lap_rows(full: bool = False) -> Iterator[Row]:
    """Yield seconds per solve of our assignment solver and of SciPy's, on the sequences of bench.lap."""
    for name, ours, theirs, *_ in lap.run(full):
        yield f"LAP {name}", ours, theirs, "s/solve"


def tabu_row(rival: Path | None) -> Row:
    """Return seconds per step of our tabu search and of the rival's; nan if there is none."""
    problem = qap.load(TABU)
    search = layout(problem.A, problem.B).tabu(np.arange(problem.n), 1)
    count, ours = 20_000, math.inf
    for _ in range(10):
        before = process_time()
        search.run(count, -(2**62))
        ours = min(ours, (process_time() - before) / count)
    theirs = math.nan if rival is None else _rival_step(rival)
    return f"tabu {TABU}, {1 / ours:,.0f} and {1 / theirs:,.0f} steps a second", ours, theirs, "s/step"


def _rival_step(source: Path) -> float:
    """Return seconds per step of the rival's robust tabu search, the best of three runs of half a second."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "rival"
        subprocess.run(["g++", "-O3", "-o", program, source], check=True, stderr=subprocess.DEVNULL)
        command = [program, "rots91", find(f"qaplib/{TABU}.dat"), "1", "0.5"]
        seconds = math.inf
        for _ in range(3):
            last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            steps, cpu = last[last.index("steps") + 1], last[last.index("cpu") + 1]
            seconds = min(seconds, float(cpu) / int(steps))
    return seconds


def run(full: bool = False, rival: Path | None = None) -> Iterator[Row]:
    """Yield (name, ours, theirs, unit) of all comparisons, and mean and smallest ratio after each kind."""
    for kind in (fw_rows, faq_rows, dc_rows, lap_rows):
        logs = []
        for row in kind(full):
            logs.append(np.log(row[1:3]))
            if kind is not lap_rows:  # bench.lap prints its own lines
                yield row
        kind_name = row[0].partition(" ")[0]
        ours, theirs = np.exp(np.mean(logs, axis=0))
        yield f"{kind_name}, geometric mean of {len(logs)}", float(ours), float(theirs), row[3]
        least = min(float(np.exp(b - a)) for a, b in logs)
        yield f"{kind_name}, least ratio", 1.0, least, "times"
    least = min(theirs / ours for _, ours, theirs in lap.unrelated())
    yield "LAP, least ratio on unrelated matrices, n = 2 to 16", 1.0, least, "times"
    yield tabu_row(rival)
