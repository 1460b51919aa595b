"""Hostile checkpoints: real files with a value, an array or a few bytes changed, resumed by the same call.

``python tests/cases/fuzz_checkpoints.py 20000`` runs that many and prints the outcomes.  A file is refused
with a ValueError that names it, or the run ends in time with a feasible point; anything else is a failure.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
import resource
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dcfw
from dcfw import functions, sets, splits
from hostile_files import TooLong, alarm

SECONDS = 5.0
"""How long a resumed run may take."""
MEGABYTES = 200
"""How much more memory than before."""
HOSTILE = [
    *(None, True, False, "", "x" * 100, [], {}, 0, 1, -1, 2**31, 2**53, 2**63, 10**39, -(10**20)),
    *(0.5, -0.5, 1e-300, 1e300, -1e300, math.nan, math.inf, -math.inf),
    *({"array": 0}, {"array": -1}, {"array": 10**6}, {"tuple": []}, {"dict": {}}, {"known": "f"}),
    *(
        {"known": "nobody"},
        {"same": 0},
        {"same": 99},
        {"dtype": "O"},
        {"dtype": "V1000000000"},
        {"object": "OneHot"},
    ),
]


def quadratic(n: int) -> Any:
    B = np.random.default_rng(n).standard_normal((n, n))
    return functions.Quadratic(B + B.T, np.cos(np.arange(n)))


def assignment(n: int) -> Any:
    H = quadratic(n * n)
    phi = functions.Smooth(
        lambda X: H.value(X.ravel()), lambda X: H.grad(X.ravel()).reshape(n, n), H.lipschitz
    )
    return splits.sliding(phi)


PROBLEMS: dict[str, Any] = {
    "simplex": lambda: (quadratic(9), sets.Simplex(9), {"inner": "blended"}),
    "cube": lambda: (quadratic(9), sets.LInfBall(9), {"inner": "away"}),
    "ksparse": lambda: (quadratic(9), sets.KSparse(9, 3), {"inner": "pairwise"}),
    "birkhoff": lambda: (assignment(4), sets.Birkhoff(4), {"inner": "blended"}),
    "birkhoff fw": lambda: (assignment(7), sets.Birkhoff(7), {"inner": "fw"}),
    "nuclear": lambda: (assignment(4), sets.NuclearBall((4, 4)), {"inner": "blended"}),
    "backtracking": lambda: (
        splits.sliding(quadratic(9)),
        sets.L1Ball(9),
        {"step": "backtracking", "inner": "fw"},
    ),
    "block": lambda: (quadratic(8), sets.Product([sets.Simplex(4), sets.L1Ball(4)]), {"method": "block"}),
    "cgs": lambda: (quadratic(9), sets.Simplex(9), {"method": "cgs"}),
    "fw": lambda: (quadratic(9), sets.Simplex(9), {"method": "fw", "inner": "fw"}),
}
BUDGET = {"max_lmo": 60, "max_inner": 50, "time_limit": 2.0}


def solve(name: str, path: Path, maxiter: int, every: float = 30.0) -> Any:
    phi, domain, options = PROBLEMS[name]()
    checkpoint = dcfw.checkpoints.Checkpoint(path, every=every)
    return dcfw.minimize(phi, domain, checkpoint=checkpoint, maxiter=maxiter, **{**BUDGET, **options}), domain


def original(name: str, folder: Path) -> dict[str, bytes]:
    """Return the members of a checkpoint that a run has written."""
    path = folder / f"{name}.npz"
    solve(name, path, 3)
    with zipfile.ZipFile(path) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


def mutated(members: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """Return the members of a file with something changed: the state, its arrays, the history, or bytes."""
    members = dict(members)
    kind = rng.choice(["state", "state", "state", "table", "data", "history", "bytes"])
    if kind in ("state", "table"):
        header = json.loads(_content(members["state.npy"]))
        for _ in range(rng.choice([1, 1, 2, 5])):
            _change(header["tree"] if kind == "state" else {"arrays": header["arrays"]}, rng)
        members["state.npy"] = _npy(np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
    elif kind in ("data", "history"):
        array = np.load(io.BytesIO(members[f"{kind}.npy"])).copy()
        flat = array.view(np.uint8).reshape(-1) if kind == "data" else array.reshape(-1)
        values: list[Any] = [math.nan, math.inf, -1.0, 1e300, 2.0**60]
        for _ in range(rng.choice([1, 3, 20])):
            if kind == "data" and flat.size >= 8:
                at = 8 * rng.randrange(flat.size // 8)
                word = rng.choice([*map(np.float64, values), np.int64(-1), np.int64(2**40), np.int64(7)])
                flat[at : at + 8] = np.frombuffer(word.tobytes(), dtype=np.uint8)
            elif flat.size:
                flat[rng.randrange(flat.size)] = rng.choice(values)
        members[f"{kind}.npy"] = _npy(array)
    else:
        name = rng.choice(list(members))
        content = bytearray(members[name])
        for _ in range(rng.choice([1, 4])):
            content[rng.randrange(len(content))] = rng.randrange(256)
        members[name] = bytes(content)
    return members


def _content(npy: bytes) -> bytes:
    return np.load(io.BytesIO(npy)).tobytes()


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _change(tree: Any, rng: random.Random) -> None:
    """Replace, remove or double one node of a JSON tree."""
    places = [
        (node, key) for node in _nodes(tree) for key in (node if isinstance(node, dict) else range(len(node)))
    ]
    if not places:
        return
    node, key = rng.choice(places)
    action = rng.choice(["replace", "replace", "replace", "remove", "swap"])
    if action == "remove":
        del node[key]
    elif action == "swap":
        other, name = rng.choice(places)
        node[key] = copy.deepcopy(other[name])
    else:
        node[key] = copy.deepcopy(rng.choice(HOSTILE))


def _nodes(tree: Any) -> Any:
    stack, count = [tree], 0
    while stack and count < 10_000:
        node = stack.pop()
        if isinstance(node, dict | list):
            yield node
            count += 1
            stack.extend(node.values() if isinstance(node, dict) else node)


def outcome(name: str, members: dict[str, bytes], path: Path) -> str:
    """Resume a run from a file with these members; return what happened ("WRONG ..." if it may not)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    try:
        with alarm(SECONDS):
            res, domain = solve(name, path, 6)
    except TooLong:
        return f"WRONG no answer within {SECONDS:g} s"
    except ValueError as error:
        known = "cannot be used" in str(error) or "belongs to another run" in str(error)
        found = "refused" if known else f"WRONG error {error!r:.300}"
    except Exception as error:
        found = f"WRONG error {type(error).__name__} {error!r:.300}"
    else:
        fine = np.isfinite(res.x).all() and (domain.contains(res.x, 1e-6) or not res.success)
        found = "resumed" if fine and res.nit >= 0 else f"WRONG result {res!s:.300}"
    if time.perf_counter() - started > SECONDS:
        found = f"WRONG {time.perf_counter() - started:.1f} s"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > MEGABYTES * 1024:
        found = "WRONG memory"
    return found


class Tally:
    """The outcomes of the cases so far, the slowest one, and the memory used by the process."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.slowest = (0.0, "none")
        self._before = _memory()

    @contextmanager
    def timing(self, case: str) -> Iterator[None]:
        """Time the case of this name."""
        started = time.perf_counter()
        yield
        self.slowest = max(self.slowest, (time.perf_counter() - started, case))

    def add(self, case: str, what: str) -> None:
        """Count the outcome of a case, and print it if it is wrong."""
        if what.startswith("WRONG"):
            print(f"{case}: {what}", file=sys.stderr)
        self.counts[what.split()[0]] += 1

    def __str__(self) -> str:
        seconds, case = self.slowest
        outcomes = ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items()))
        return (
            f"{self.counts.total()} cases: {outcomes}; slowest {seconds:.2f} s ({case}); "
            f"largest memory {_memory():.0f} MB, {_memory() - self._before:.0f} MB more than at the start"
        )


def _memory() -> float:
    """Return the most memory that the process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(count: int, seed: int = 0) -> Tally:
    """Return how many of ``count`` mutated files were refused, resumed or WRONG (and print the latter)."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        originals = {name: original(name, folder) for name in PROBLEMS}
        tally = Tally()
        for number in range(count):
            rng = random.Random(f"{seed} {number}")
            name = rng.choice(list(PROBLEMS))
            members, case = mutated(originals[name], rng), f"seed {seed}, case {number}, {name}"
            with tally.timing(case):
                what = outcome(name, members, folder / "mutated.npz")
            tally.add(case, what)
    return tally


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
