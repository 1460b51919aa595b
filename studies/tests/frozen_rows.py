"""Small runs of the paper's protocols, and the command that records their numbers.

    python studies/tests/frozen_rows.py > studies/tests/frozen_rows.json

The numbers were recorded when the protocols were options of the library's public functions; those of DC-FW on
the alignment when its rule became that of the authors' alignment code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dcfw.sets import Birkhoff
from dcfw_studies import alignment
from dcfw_studies import qap as study
from dcfw_studies.protocols import solve_as

FILE = Path(__file__).with_suffix(".json")
COUNTS = ("nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")


def qap_run(name: str, method: str, protocol: str) -> dict[str, Any]:
    i = np.arange(9.0)
    if name == "symmetric":
        A, B = np.round(9 * np.cos(np.outer(i, i))), np.abs(i[:, None] - i)
    else:
        A, B = np.round(9 * np.sin(np.outer(i, i + 2))), np.round(5 * np.cos(np.outer(i, i + 1)))
    X0 = Birkhoff(9).random(np.random.default_rng(0), scale=study.NOISE[protocol])
    res = solve_as(protocol, A, B, X0, **study.METHODS[method])
    found = {"fun": float(res.fun), "relaxed": float(res.relaxed_fun), "gap": float(res.gap)}
    return found | {"status": res.status.name} | {count: int(res[count]) for count in COUNTS}


def align_run(method: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    E1 = rng.standard_normal((6, 80))
    E2 = np.linalg.qr(rng.standard_normal((6, 6)))[0] @ E1 + 0.3 * rng.standard_normal((6, 80))
    known = rng.random(E2.shape) < 0.3
    res = alignment.run(method, E1, E2, known, lam=1e-2, steps=60)
    found = {"fun": float(res.fun), "gap": float(res.gap), "rotation": float(np.sum(res.rotation[0]))}
    return found | {"status": res.status.name} | {count: int(res[count]) for count in COUNTS}


def runs() -> dict[str, Any]:
    """Name -> a function that makes the numbers."""
    found: dict[str, Any] = {}
    for name in ("symmetric", "asymmetric"):
        for method in study.METHODS:
            for protocol in study.NOISE:
                found[f"{name}, {method}, {protocol}"] = (qap_run, name, method, protocol)
    for method in alignment.METHODS:
        found[f"alignment, {method}"] = (align_run, method)
    return found


def main() -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(f(*a))}" for name, (f, *a) in runs().items())
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
