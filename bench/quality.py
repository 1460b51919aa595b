"""Quality of permutations at equal time: ``qap.solve(restarts="auto")`` against SciPy, on QAPLIB.

Each peer is a loop that a SciPy user would write; it has the same seconds on the same core and keeps the
best permutation:

- ``faq``: FAQ (``quadratic_assignment``) from random starts;
- ``faq+2opt``: each of its answers improved by SciPy's 2-opt;
- ``2opt``: 2-opt from random permutations.

Ours stops on time.  SciPy's functions have no time limit, so a call that starts in time counts.  Since 2-opt
on a large instance would take hours, it is interrupted after ten times the seconds, with its permutation at
that moment.  Errors are (value - best known) / max(best known, 1), with exact integer values.

    python -m bench quality --seconds 1 [--instances 30] [--output rows.jsonl]

With ``--output`` each measured row is appended to a file, and a second call resumes from it.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.optimize import quadratic_assignment

from dcfw import qap

INSTANCES = (
    *("nug12", "chr15a", "had16", "esc16a", "els19", "scr20", "tai20a", "lipa20b", "chr22a", "bur26a"),
    *("nug30", "tai30b", "kra30a", "tho30", "esc32a", "ste36a", "tho40", "tai40a", "sko49", "wil50"),
    *("tai50a", "lipa60a", "esc64a", "tai60b", "sko72", "lipa80b", "sko100a", "tai100a", "tho150", "tai256c"),
)
"""Thirty instances of all sizes and families, fixed before anything was measured."""

Solver = Callable[[Any, float, int], tuple[np.ndarray, int]]


def ours(instance: Any, seconds: float, seed: int) -> tuple[np.ndarray, int]:
    """Return the permutation of ``qap.solve`` and the number of its starts."""
    result = qap.solve(instance.A, instance.B, restarts="auto", polish="2opt", time_limit=seconds, rng=seed)
    return result.permutation, len(result.restart_values)


def faq(instance: Any, seconds: float, seed: int) -> tuple[np.ndarray, int]:
    """Return the best of FAQ from random starts."""
    return _loop(instance, seconds, seed, _faq)


def faq_2opt(instance: Any, seconds: float, seed: int) -> tuple[np.ndarray, int]:
    """Return the best of FAQ from random starts, each improved by 2-opt."""

    def once(A: np.ndarray, B: np.ndarray, rng: np.random.Generator) -> Any:
        guess = np.stack([np.arange(len(A)), _faq(A, B, rng).col_ind], axis=1)
        return _two_opt(A, B, rng, partial_guess=guess)

    return _loop(instance, seconds, seed, once)


def two_opt(instance: Any, seconds: float, seed: int) -> tuple[np.ndarray, int]:
    """Return the best of 2-opt from random permutations."""
    return _loop(instance, seconds, seed, _two_opt)


SOLVERS: dict[str, Solver] = {"dcfw": ours, "faq": faq, "faq+2opt": faq_2opt, "2opt": two_opt}


def _faq(A: np.ndarray, B: np.ndarray, rng: np.random.Generator) -> Any:
    return quadratic_assignment(A, B, method="faq", options={"P0": "randomized", "rng": rng})


def _two_opt(A: np.ndarray, B: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    return quadratic_assignment(A, B, method="2opt", options={"rng": rng, **options})


PATIENCE = 10


class _TimeOver(Exception):
    """Raised inside a SciPy call that has taken too long."""


def _interrupt(signum: int, frame: Any) -> None:
    raise _TimeOver


def _current_permutation(error: _TimeOver, instance: Any) -> np.ndarray:
    """Return the permutation of SciPy's 2-opt when it was interrupted, perhaps in the middle of a trial."""
    trace = error.__traceback__
    while trace is not None:
        state = trace.tb_frame.f_locals
        if {"perm", "i", "j", "best_score"} <= state.keys():
            p, i, j = state["perm"].copy(), state["i"], state["j"]
            swapped = p.copy()
            swapped[[i, j]] = p[[j, i]]
            whole = [q for q in (p, swapped) if len(set(q.tolist())) == len(q)]
            return min(whole, key=lambda q: qap.evaluate(instance.A, instance.B, q))
        trace = trace.tb_next
    raise error


def _loop(instance: Any, seconds: float, seed: int, once: Callable[..., Any]) -> tuple[np.ndarray, int]:
    """Call ``once`` until the time is over; return the best permutation and the number of calls."""
    A, B = instance.A.astype(float), instance.B.astype(float)  # SciPy is faster with floats
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
    started = perf_counter()
    try:
        while not found or perf_counter() - started < seconds:
            found.append(once(A, B, rng).col_ind)
    except _TimeOver as error:
        found.append(_current_permutation(error, instance))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return min(found, key=lambda p: qap.evaluate(instance.A, instance.B, p)), len(found)


def measure(name: str, solver: str, seconds: float, seed: int) -> dict[str, Any]:
    """Return one row: the result of a solver on an instance in the given time."""
    instance = qap.load(name)
    started = perf_counter()
    p, calls = SOLVERS[solver](instance, seconds, seed)
    spent = perf_counter() - started
    value = qap.evaluate(instance.A, instance.B, p)
    return {
        "instance": name,
        "solver": solver,
        "seconds": seconds,
        "seed": seed,
        "value": value,
        "error": (value - instance.best) / max(instance.best, 1),
        "calls": calls,
        "spent": round(spent, 3),
    }


def rows(
    names: Sequence[str], seconds: float, seed: int = 0, output: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all solvers on all instances; those in ``output`` are not measured again."""
    done: dict[tuple[Any, ...], dict[str, Any]] = {}
    if output is not None and output.exists():
        for line in output.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            done[_key(row)] = row
    warm = False
    for name in names:
        for solver in SOLVERS:
            known = done.get(_key({"instance": name, "solver": solver, "seconds": seconds, "seed": seed}))
            if known is not None:
                yield known
                continue
            if not warm:
                _warm_up()
                warm = True
            row = measure(name, solver, seconds, seed)
            if output is not None:
                with output.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(row) + "\n")
            yield row


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["instance"], row["solver"], float(row["seconds"]), row["seed"]


def _warm_up() -> None:
    """Do all imports and compilation before timing."""
    for name in ("nug12", "bur26a", "tai10b"):  # symmetric, asymmetric, large numbers
        for _ in range(2):
            ours(qap.load(name), 0.3, 0)


def report(names: Sequence[str], seconds: float, seed: int = 0, output: Path | None = None) -> float:
    """Print errors per instance and their means; return our mean over the best rival's."""
    errors: dict[str, list[float]] = {solver: [] for solver in SOLVERS}
    print(f"relative error after {seconds:g} s" + "".join(f"{solver:>12s}" for solver in SOLVERS))
    for row in rows(names, seconds, seed, output):
        errors[row["solver"]].append(row["error"])
        if row["solver"] == list(SOLVERS)[-1]:
            cells = "".join(f"{errors[solver][-1]:12.5f}" for solver in SOLVERS)
            print(f"{row['instance']:25s}{cells}", flush=True)
    means = {solver: float(np.mean(found)) for solver, found in errors.items()}
    print(f"{'mean of ' + str(len(names)):25s}" + "".join(f"{means[solver]:12.5f}" for solver in SOLVERS))
    rival = min((solver for solver in SOLVERS if solver != "dcfw"), key=means.__getitem__)
    ratio = means["dcfw"] / means[rival] if means[rival] else float("nan")
    print(f"ours over the best rival's ({rival}): {ratio:.3f}")
    if len(names) > 1:
        # One instance can dominate a mean of errors: also print the mean without it.
        most = int(np.argmax(np.subtract(errors[rival], errors["dcfw"])))
        rest = {solver: np.delete(found, most).mean() for solver, found in errors.items()}
        least = min(mean for solver, mean in rest.items() if solver != "dcfw")
        print(f"without {names[most]}: {rest['dcfw'] / least if least else float('nan'):.3f}")
    return ratio


def spread(count: int) -> list[str]:
    """Return ``count`` of the instances, from all sizes."""
    if not 1 <= count <= len(INSTANCES):
        raise ValueError(f"instances must be between 1 and {len(INSTANCES)}, got {count}")
    return [INSTANCES[k] for k in np.linspace(0, len(INSTANCES) - 1, count).round().astype(int)]


def run(full: bool = False) -> Iterator[tuple[str, float, float, str]]:
    """Yield (instance, our error, the best rival's error, unit) at one second each."""
    names = INSTANCES if full else spread(6)
    found: dict[str, float] = {}
    for row in rows(names, 1.0):
        found[row["solver"]] = row["error"]
        if len(found) == len(SOLVERS):
            mine = found.pop("dcfw")
            yield row["instance"], mine, min(found.values()), "relative error"
            found = {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and print the report."""
    parser = argparse.ArgumentParser(prog="python -m bench quality", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds for each solver and instance")
    parser.add_argument("--instances", type=int, default=len(INSTANCES), help="number of instances")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="append rows to this file, and skip rows already in it")
    options = parser.parse_args(arguments)
    report(spread(options.instances), options.seconds, options.seed, options.output)


if __name__ == "__main__":
    main()
