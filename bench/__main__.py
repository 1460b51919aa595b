"""``python -m bench NAME|all [--full] [--json] [--rival FILE] [--output FILE]``: ours, peer, ratio.

Each benchmark is a module with ``run(full)``, an iterator of rows (name, ours, peer) or (name, ours, peer,
unit); the default unit is seconds.  The ratio is peer / ours: above 1, ours is better.  All benchmarks run
with one BLAS thread, which has to be set before NumPy is loaded.  The benchmarks in ``OWN_OPTIONS`` parse
their own options.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
BENCHES = (
    "core",
    "lap",
    "qap",
    "scipy",
    "graphs",
    "birkhoff",
    "inner",
    "faces",
    "steps",
    "defaults",
    "completion",
    "scale",
    "peers",
    "graduated",
    "stochastic",
    "align",
    "torch",
    "imports",
    "traffic",
    "gw",
    "limits",
)
OWN_OPTIONS = ("quality", "field", "bounds", "paths", "small", "memory", "choice", "growth", "graphs")
MODULES = {"scipy": "scipy_calls", "torch": "torch_step"}  # a file torch.py would pass for PyTorch


def _load(name: str) -> ModuleType:
    """Return the module of a bench; say how to install a peer that it lacks."""
    try:
        return importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("bench", "dcfw"):
            raise
        extra = "torch" if package == "torch" else "bench"
        sys.exit(f'bench {name} needs {package}: pip install ".[{extra}]"')


def main(arguments: list[str]) -> None:
    if arguments[:1] and arguments[0] in OWN_OPTIONS:
        _load(arguments[0]).main(arguments[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("bench", choices=[*BENCHES, *OWN_OPTIONS, "all"])
    parser.add_argument("--full", action="store_true", help="larger instances and more passes")
    parser.add_argument("--rival", type=Path, help="a C++ file of other programs, for qap")
    parser.add_argument("--output", type=Path, help="a file of finished problems to resume from, for gw")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args(arguments)
    if not options.json:
        print(f"{'':60s} {'ours':>11s} {'peer':>11s} {'ratio':>7s}")
    for name in BENCHES if options.bench == "all" else [options.bench]:
        own = {"qap": {"rival": options.rival}, "gw": {"output": options.output}}.get(name, {})
        for row in _load(MODULES.get(name, name)).run(options.full, **own):
            label, ours, peer, *unit = row
            ratio = peer / ours if ours else float("inf")
            if options.json:
                row = {"bench": name, "name": label, "ours": ours, "peer": peer, "ratio": ratio}
                print(json.dumps({**row, "unit": unit[0] if unit else "s"}), flush=True)
                continue
            print(
                f"{label:60s} {ours:11.4g} {peer:11.4g} {ratio:7.2f}  {unit[0] if unit else 's'}", flush=True
            )


if __name__ == "__main__":
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    main(sys.argv[1:])
