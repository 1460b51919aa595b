"""The runs of ``test_frozen_applications.py``: short runs of QAP, align and torch, and their results.

    python tests/cases/frozen_applications.py > tests/cases/frozen_applications.json

Every run is limited by steps, never by time, and its data come from formulas.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import align, qap

FILE = Path(__file__).with_suffix(".json")
COUNTS = ("nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")


def matrices(n: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(n)
    A = (7 * i[:, None] + 3 * i[None, :] ** 2 + 5 * i[:, None] * i[None, :]) % 11
    B = (2 * i[:, None] ** 2 + 5 * i[None, :] + i[:, None] * i[None, :]) % 13
    if symmetric:
        A, B = A + A.T, B + B.T
    np.fill_diagonal(A, 0)
    np.fill_diagonal(B, 0)
    return A, B


def qap_run(n: int, symmetric: bool, **options: Any) -> dict[str, Any]:
    A, B = matrices(n, symmetric)
    res = qap.solve(A, B, rng=0, **options)
    counts = {name: int(res[name]) for name in COUNTS}
    ends = {"relaxed_fun": float(res.relaxed_fun), "gap": float(res.gap)}
    return {"status": res.status.name, "fun": int(res.fun), "floats": ends} | counts


def align_run(d: int, n: int, **options: Any) -> dict[str, Any]:
    i, j = np.arange(d, dtype=float)[:, None], np.arange(n, dtype=float)[None, :]
    E = np.cos(1.0 + i * j + 0.3 * i)
    Q = np.linalg.qr(np.sin(1.0 + i * i.T + 0.7 * i))[0]
    seen = (3 * i + 2 * j) % 5 < 3
    Y = np.where(seen, Q @ E + 0.05 * np.sin(i + j), np.nan)
    res = align.align(E, Y, **{"lam": 1e-4, **options})
    counts = {name: int(res[name]) for name in COUNTS}
    ends = {"fun": float(res.fun), "gap": float(res.gap), "trace": float(np.trace(res.rotation))}
    return {"status": res.status.name, "product": res.product, "floats": ends} | counts


def torch_run(kind: str, **options: Any) -> dict[str, Any]:
    import torch

    import dcfw.torch

    i = torch.arange(24, dtype=torch.float64).reshape(6, 4)
    weights = [torch.nn.Parameter(torch.cos(i)), torch.nn.Parameter(0.3 * torch.sin(i[:, 0]))]
    if options["constraint"] == "spectral":  # which is for matrices
        weights = weights[:1]
    optimizer = getattr(dcfw.torch, kind)(weights, **options)
    for t in range(5):
        for p in weights:
            p.grad = torch.sin(3.0 * p.detach() + t) + 0.1 * p.detach()
        optimizer.step()
    ends = {f"entries of weight {k}": p.detach().reshape(-1)[:4].tolist() for k, p in enumerate(weights)}
    return {"floats": ends}


def runs() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Name -> function, options."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    few: dict[str, Any] = {"maxiter": 4}
    for symmetric, split in itertools.product((True, False), ("paper", "sliding", "balanced", "spectral")):
        kind = "symmetric" if symmetric else "directed"
        problem: dict[str, Any] = {"n": 9, "symmetric": symmetric, "split": split}
        for inner in ("fw", "blended"):
            found[f"qap, {split}, {inner}, {kind}"] = (
                qap_run, problem | {"inner": inner, "max_lmo": 40} | few,
            )  # fmt: skip
    directed = {"n": 9, "symmetric": False, "max_lmo": 60} | few
    found["qap, fw"] = (qap_run, directed | {"method": "fw", "maxiter": 12})
    found["qap, cgs"] = (qap_run, directed | {"method": "cgs"})
    found["qap, boosted"] = (qap_run, directed | {"method": "boosted", "split": "balanced"})
    found["qap, five starts, 2opt"] = (qap_run, directed | {"restarts": 5, "polish": "2opt"})
    found["qap, tabu"] = (qap_run, directed | {"polish": "tabu"})
    found["qap, maximize"] = (qap_run, directed | {"maximize": True, "split": "paper"})
    found["qap, partial match"] = (qap_run, directed | {"partial_match": [[0, 3], [5, 1]]})
    for inner in ("auto", "fw"):
        found[f"align, dcfw, {inner}"] = (align_run, {"d": 5, "n": 40, "inner": inner, "max_lmo": 30})
    for method in ("boosted", "fw-k", "fw-m"):
        found[f"align, {method}"] = (align_run, {"d": 5, "n": 40, "method": method, "max_lmo": 30})
    for constraint, solver in itertools.product(("linf", "l2", "l1", "spectral"), ("exact", "fw")):
        options = {"kind": "DCFW", "constraint": constraint, "solver": solver, "radius": 0.8}
        found[f"torch, dcfw, {constraint}, {solver}"] = (torch_run, options)
    for scope in ("row",):
        options = {"kind": "DCFW", "constraint": "l2", "solver": "fw", "scope": scope, "inner_steps": 4}
        found[f"torch, dcfw, blocks: {scope}"] = (torch_run, options)
    for rescale in (None, "gradient"):
        found[f"torch, sfw, rescale {rescale}"] = (
            torch_run, {"kind": "SFW", "constraint": "l2", "rescale": rescale, "lr": 0.1},
        )  # fmt: skip
    return found


def run(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = function(**options)
    return result


def main() -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(run(*arguments))}" for name, arguments in runs().items())
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
