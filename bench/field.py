"""Compare ``qap.solve(restarts="auto")`` with plain C++ programs of QAP methods at equal processor time.

    python -m bench field --rival PATH/qap_metaheuristics.cpp [--seconds 0.8] [--seeds 1] [--full]
                          [--output results/field]

The program is built with ``g++ -O3`` and run as ``PROGRAM ALGORITHM FILE SEED SECONDS`` for robust tabu
search (``rots06``), breakout local search (``bls``) and annealing (``sa``, which has to know its time).  All
four alternate on each instance, each measured by its own processor time, so that other processes have little
influence.

Tuning instances: every second QAPLIB instance by name (bur26a, bur26c, ...) and generated ones with seeds
from 1001 on.  Reported instances: the others of QAPLIB and generated ones with seeds from 7 on.  ``--full``
adds the tuning half, and the table marks the half of each line.  Instances asymmetric in both matrices are
excluded because the rival programs do not support them.  Errors are in per cent of the best known value; for
generated instances, of the best value found by any of the four.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import qap

RIVALS = ("rots06", "bls", "sa")
NAMES = ("chr25a", "kra32", "lipa90b", "sko72", "sko100a", "tai80a", "tai60b", "tai150b", "tho150", "wil50")
"""The default subset of the reported half."""
BEHIND = 0.15
"""Families on which ours is behind by more points than this are named in the summary."""
FLOWS = (0, 1, 2, 3, 4, 5, 6, 10)
SHARES = (0.33, 0.13, 0.18, 0.04, 0.05, 0.18, 0.02, 0.07)


def grid(n: int) -> np.ndarray:
    """Return Manhattan distances on a nearly square grid."""
    y, x = np.divmod(np.arange(n), int(np.ceil(np.sqrt(n))))
    return np.abs(y[:, None] - y) + np.abs(x[:, None] - x)


def symmetric(n: int, upper: np.ndarray) -> np.ndarray:
    M = np.zeros((n, n), dtype=np.int64)
    M[np.triu_indices(n, 1)] = upper
    return M + M.T


def uniform(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two random matrices, as tai*a."""
    m = n * (n - 1) // 2
    return symmetric(n, rng.integers(0, 100, m)), symmetric(n, rng.integers(0, 100, m))


def layout(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return grid distances and flows as in nug* and sko*."""
    return grid(n), symmetric(n, rng.choice(FLOWS, p=SHARES, size=n * (n - 1) // 2))


def sparse(n: int, rng: np.random.Generator, degree: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return grid distances and a few flows per item."""
    F = np.zeros((n, n), dtype=np.int64)
    i, j = rng.integers(0, n, (2, degree * n // 2))
    F[i, j] = rng.integers(1, 10, len(i))
    np.fill_diagonal(F, 0)
    return grid(n), np.maximum(F, F.T)


def real(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return clustered places and flows of very different sizes, as tai*b (Taillard 1995)."""
    places: list[tuple[float, float]] = []
    while len(places) < n:
        radius, angle = rng.uniform(0, 1000), rng.uniform(0, 2 * np.pi)
        for _ in range(min(int(rng.integers(1, n // 5 + 2)), n - len(places))):
            r, a = rng.uniform(0, 30), rng.uniform(0, 2 * np.pi)
            places.append(
                (radius * np.cos(angle) + r * np.cos(a), radius * np.sin(angle) + r * np.sin(a)),
            )
    P = np.array(places)
    D = np.floor(np.linalg.norm(P[:, None] - P, axis=2)).astype(np.int64)
    F = np.floor(10 ** rng.uniform(-5, 4, (n, n))).astype(np.int64)
    np.fill_diagonal(F, 0)
    return D, F


GENERATED: dict[str, tuple[Callable[..., Any], int]] = {
    "uniform60": (uniform, 60),
    "grid90": (layout, 90),
    "sparse100": (sparse, 100),
    "sparse150": (sparse, 150),
    "real80": (real, 80),
    "real120": (real, 120),
}
LARGE: dict[str, tuple[Callable[..., Any], int]] = {"grid1000": (layout, 1000), "sparse1000": (sparse, 1000)}
"""Run only if ``--names`` selects them."""


def family(name: str) -> str:
    """Return the family of an instance, for the means."""
    kinds = {
        "tai": "uniform" if name.endswith("a") else "real",
        "lipa": "lipa",
        "chr": "chr",
        "sparse": "sparse",
    }
    kinds |= {"sko": "grid", "nug": "grid", "wil": "grid", "tho": "grid", "grid": "grid"}
    kinds |= {"uniform": "uniform", "rou": "uniform", "real": "real"}
    return next((kind for start, kind in kinds.items() if name.startswith(start)), "other")


def instances(
    options: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray, int | None, Path]]:
    """Yield (name, half, A, B, best known, file)."""
    listed = sorted(qap.names())
    for name in listed if options.full else NAMES:
        if options.names and name not in options.names:
            continue
        instance = qap.load(name)
        if not (np.array_equal(instance.A, instance.A.T) or np.array_equal(instance.B, instance.B.T)):
            continue
        half = "reported" if listed.index(name) % 2 else "tuned"
        yield name, half, instance.A, instance.B, instance.best, _write(folder, name, instance.A, instance.B)
    for k, (name, (make, n)) in enumerate((GENERATED | LARGE).items()):
        if name not in (options.names or GENERATED):
            continue
        A, B = make(n, np.random.default_rng(7 + k))
        yield name, "reported", A, B, None, _write(folder, name, A, B)


def _write(folder: Path, name: str, A: np.ndarray, B: np.ndarray) -> Path:
    file = folder / f"{name}.dat"
    rows = [str(len(A)), *(" ".join(map(str, row)) for M in (A, B) for row in M.tolist())]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def rival(program: Path, algorithm: str, file: Path, seed: int, seconds: float) -> int:
    """Return the value that an algorithm of the rival program ends at."""
    command = [str(program), algorithm, str(file), str(seed), f"{seconds:g}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(text.rsplit("final", 1)[1].split()[0])


def ours(A: np.ndarray, B: np.ndarray, seed: int, seconds: float) -> int:
    """Return the value of our search."""
    result = qap.solve(A, B, restarts="auto", time_limit=seconds, rng=seed, clock=time.process_time)
    return int(result.fun)


def measure(options: argparse.Namespace, program: Path, folder: Path) -> list[dict[str, Any]]:
    """Return a row for each instance and seed, and print it; --resume keeps the rows of an earlier run."""
    rows = _kept(options)
    known_rows = {(r["instance"], r["seed"]) for r in rows}
    print(f"{'error in % of the best known':28s}{'ours':>9s}" + "".join(f"{name:>9s}" for name in RIVALS))
    for name, half, A, B, best, file in instances(options, folder):
        for seed in range(options.seed, options.seed + options.seeds):
            if (name, seed) in known_rows:
                continue
            values = {"ours": ours(A, B, seed, options.seconds)}
            values |= {a: rival(program, a, file, seed, options.seconds) for a in RIVALS}
            known = min(values.values()) if best is None else best
            errors = {who: 100.0 * (value - known) / max(known, 1) for who, value in values.items()}
            rows.append({"instance": name, "half": half, "family": family(name), "seed": seed, **errors})
            label = f"{name} ({len(A)}, {half}, {seed})"
            print(f"{label:28s}" + "".join(f"{errors[who]:9.3f}" for who in ("ours", *RIVALS)), flush=True)
            if options.output is not None:
                save(rows, summary(rows), options)
    return rows


def _kept(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows that a run with --resume reuses."""
    file = None if options.output is None else options.output / f"field-{options.seconds:g}s.json"
    if not options.resume or file is None or not file.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return rows


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of means, by family and half, and the share on which ours is first or tied."""
    lines = []
    groups = [("all", rows), ("reported half", [r for r in rows if r["half"] == "reported"])]
    groups += [
        (kind, [r for r in rows if r["family"] == kind]) for kind in sorted({r["family"] for r in rows})
    ]
    for name, group in groups:
        if group:
            means = [float(np.mean([r[who] for r in group])) for who in ("ours", *RIVALS)]
            first = np.mean([r["ours"] <= min(r[who] for who in RIVALS) for r in group])
            label = f"mean of {name} ({len(group)})"
            lines.append(
                f"{label:28s}" + "".join(f"{m:9.3f}" for m in means) + f"   first or tied {first:.0%}"
            )
            if name not in ("all", "reported half") and means[0] > min(means[1:]) + BEHIND:
                lines.append(f"  behind the best of the others by {means[0] - min(means[1:]):.3f}")
    return lines


def save(rows: list[dict[str, Any]], lines: list[str], options: argparse.Namespace) -> None:
    """Write the table and the figure."""
    from matplotlib.figure import Figure

    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / f"field-{options.seconds:g}s"
    part = " --full" if options.full else ""
    part += f" --names {' '.join(options.names)}" if options.names else ""
    command = f"python -m bench field --rival qap_metaheuristics.cpp --seconds {options.seconds:g}"
    command += f" --seeds {options.seeds} --seed {options.seed}{part}"
    table = [f"`{command}`", "", "| instance | half | family | seed | ours | rots06 | bls | sa |"]
    table += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        cells = " | ".join(f"{r[who]:.3f}" for who in ("ours", *RIVALS))
        table.append(f"| {r['instance']} | {r['half']} | {r['family']} | {r['seed']} | {cells} |")
    table += ["", "```", *lines, "```", ""]
    stem.with_suffix(".md").write_text("\n".join(table), encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    figure = Figure(figsize=(5, 4), layout="constrained")
    ax = figure.subplots()
    for who in ("ours", *RIVALS):
        ax.plot(np.sort([r[who] for r in rows]), label=who)
    ax.set_xlabel("runs, sorted by error")
    ax.set_ylabel(f"error in % after {options.seconds:g} s of processor time")
    ax.set_yscale("symlog", linthresh=0.01)
    ax.legend()
    figure.savefig(stem.with_suffix(".svg"))


def main(arguments: list[str]) -> None:
    """Read the command line, build the rival, measure and report."""
    parser = argparse.ArgumentParser(prog="python -m bench field", description=__doc__.splitlines()[0])
    parser.add_argument("--rival", type=Path, required=True, help="the C++ file of the other programs")
    parser.add_argument("--seconds", type=float, default=0.8, help="processor time of each run")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--full", action="store_true", help="all instances that the others support")
    parser.add_argument("--names", nargs="+", help="use only these instances")
    parser.add_argument("--resume", action="store_true", help="keep the rows already in the folder")
    parser.add_argument("--output", type=Path, help="write the table and the figure into this folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "rival"
        subprocess.run(
            ["g++", "-O3", "-o", str(program), str(options.rival)], check=True, stderr=subprocess.DEVNULL
        )
        rows = measure(options, program, folder)
    print("\n".join(summary(rows)))
