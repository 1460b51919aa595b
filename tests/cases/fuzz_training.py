"""Hostile training checkpoints: real .pt files with some values changed, loaded by the same program.

``python tests/cases/fuzz_training.py 20000`` runs that many.  A state is refused with a ValueError or a
TypeError, or it is loaded and the next step leaves finite weights in their sets; anything else is a failure.
"""

from __future__ import annotations

import copy
import io
import math
import random
import resource
import sys
import time
import warnings
from typing import Any

import torch

from dcfw.torch import DCFW, SFW
from fuzz_checkpoints import MEGABYTES, SECONDS, Tally

HOSTILE = [
    *(None, True, "", "x" * 100, [], {}, (), 0, 1, -1, 2**31, 2**63, 10**39),
    *(0.5, -0.5, 1e-300, 1e300, math.nan, math.inf, -math.inf),
    *(
        torch.zeros(0),
        torch.zeros(()),
        torch.ones(3),
        torch.zeros(1).expand(2**40),
        torch.full((4, 3), math.nan),
    ),
    *(
        torch.zeros(4, 3, dtype=torch.int64),
        torch.zeros(4, 3, dtype=torch.complex64),
        torch.ones(4, 3) * 1e30,
    ),
]


def made(kind: Any) -> tuple[list[Any], Any]:
    """Return parameters and an optimizer that has taken two steps."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(0.1 * torch.randn(shape)) for shape in ((4, 3), (5,))]
    optimizer = kind(params, constraint="linf", radius=1.0, momentum=0.9)
    for _ in range(2):
        for p in params:
            p.grad = torch.randn_like(p)
        optimizer.step()
    return params, optimizer


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict | list):
            for key in list(node) if isinstance(node, dict) else range(len(node)):
                found.append((node, key))
                stack.append(node[key])
    return found


def outcome(params: list[Any], optimizer: Any, content: bytes, rng: random.Random) -> str:
    """Load a changed state and take a step; return what happened ("WRONG ..." if it may not)."""
    state = torch.load(io.BytesIO(content), weights_only=True)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not _places(state):
            break
        node, key = rng.choice(_places(state))
        action = rng.choice(["replace", "replace", "replace", "remove", "swap"])
        if action == "remove":
            del node[key]
        else:
            other, name = rng.choice(_places(state))
            node[key] = copy.copy(rng.choice(HOSTILE)) if action == "replace" else copy.deepcopy(other[name])
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    found = "loaded"
    try:
        optimizer.load_state_dict(state)
    except (ValueError, TypeError):
        found = "refused"
    except Exception as error:
        found = f"WRONG error {error!r:.200}"
    try:
        optimizer.step()
    except Exception as error:
        found = f"WRONG step {error!r:.200}"
    if not all(bool((p.abs() <= 1.0 + 1e-5).all()) for p in params):
        found = "WRONG weights"
    if time.perf_counter() - started > SECONDS:
        found = f"WRONG {time.perf_counter() - started:.1f} s"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > MEGABYTES * 1024:
        found = "WRONG memory"
    return found


def run(count: int, seed: int = 0) -> Tally:
    """Return how many of ``count`` states were refused, loaded or WRONG (and print the latter)."""
    files, ready = {}, {}
    for kind in (DCFW, SFW):
        file = io.BytesIO()
        ready[kind] = made(kind)
        torch.save(ready[kind][1].state_dict(), file)
        files[kind] = file.getvalue()
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            rng = random.Random(f"{seed} {number}")
            kind = rng.choice([DCFW, SFW])
            case = f"seed {seed}, case {number}, {kind.__name__}"
            with tally.timing(case):
                what = outcome(*ready[kind], files[kind], rng)
            tally.add(case, what)
            if what != "refused":
                ready[kind] = made(kind)
    return tally


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
