"""Measure ``import dcfw`` against ``import numpy``, and a first solve in a new interpreter.

The measurements alternate, so that a busy machine affects all of them, and medians are compared.  Our
target is that ``import dcfw`` takes at most 1.5 times as long as ``import numpy``.  The second line also
loads everything that a first solve needs, because dcfw itself imports lazily.  The last two lines
are the processor time of whole processes, from start to answer, compared with one that only imports NumPy and
``scipy.optimize``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

LIMIT = 1.5
CODE = "import time; clock = time.perf_counter(); {}; print(time.perf_counter() - clock)"
STATEMENTS = {
    "numpy": "import numpy",
    "dcfw": "import dcfw",
    "solve": "import dcfw; from dcfw import functions, sets; dcfw.minimize",
}
PROBLEM = "from dcfw import qap; p = qap.generators.nugent((5, 6), rng=0); qap.solve(p.A, p.B{})"
PROCESSES = {
    "peer": "import numpy, scipy.optimize",
    "first qap.solve of a 5 x 6 grid": PROBLEM.format(""),
    'the same with restarts="auto", time_limit=0.5': PROBLEM.format(', restarts="auto", time_limit=0.5'),
}


def seconds(statement: str) -> float:
    """Return the time of ``statement`` in a new interpreter, without the start of the interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(statement)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def processor_seconds(program: str) -> float:
    """Return the total processor time of a new interpreter that runs ``program``."""
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", program], os.environ)
    _, status, usage = os.wait4(process, 0)
    assert status == 0, program
    return usage.ru_utime + usage.ru_stime


def run(full: bool) -> Iterator[tuple[str, float, float]]:
    for statement in STATEMENTS.values():
        seconds(statement)  # files come into memory, and compiled ones are written
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(101 if full else 31):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    median = {name: statistics.median(found) for name, found in times.items()}
    peer = median["numpy"]
    share = median["dcfw"] / peer
    verdict = "within" if share <= LIMIT else "ABOVE"
    yield f"import dcfw, {share:.2f} of import numpy ({verdict} the limit {LIMIT})", median["dcfw"], peer
    yield "import dcfw, functions, sets and minimize (with numpy in it)", median["solve"], peer
    rounds = [{name: processor_seconds(code) for name, code in PROCESSES.items()} for _ in range(9)]
    cpu = {name: statistics.median(found[name] for found in rounds) for name in PROCESSES}
    peer = cpu.pop("peer")
    for name, spent in cpu.items():
        yield f"{name}, {spent - peer:.2f} s more than imports", spent, peer
