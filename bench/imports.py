"""How long ``import dcfw`` takes beside ``import numpy``, in fresh interpreters.

The two take turns, so that a machine that gets busy is busy for both, and the medians are compared.  The
promise is that ``import dcfw`` takes at most 1.5 times what ``import numpy`` takes.  The second line loads
what a first solve needs as well; dcfw itself is lazy and would look better than it is.
"""

from __future__ import annotations

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


def seconds(statement: str) -> float:
    """Return the time of ``statement`` in a fresh interpreter, without the start of the interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(statement)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


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
