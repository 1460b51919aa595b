"""The QAPLIB study: FW, the paper's three DC-FW variants, CGS and further splits on 134 instances.

A row is one run: an instance, a method and a seed, under one of the protocols of
:mod:`dcfw_studies.protocols`.  All methods start from the same point for the same instance and seed.
"""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dcfw_studies import checks
from dcfw_studies.protocols import NOISE
from dcfw_studies.store import Store
from dcfw_studies.study import Study, Task, rng_for
from dcfw_studies.table_file import numbers, take_rows

METHODS: dict[str, dict[str, Any]] = {
    "fw": {"method": "fw"},
    "dcfw-1": {"method": "dcfw", "split": "paper"},
    "dcfw-2": {"method": "dcfw", "split": "sliding"},
    "dcfw-3": {"method": "dcfw", "split": "proximal"},
    "cgs": {"method": "cgs"},
    **{f"dcfw-{split}": {"method": "dcfw", "split": split} for split in ("balanced", "centered", "spectral")},
    "blended-1": {"method": "dcfw", "split": "paper", "inner": "blended"},
    "blended-spectral": {"method": "dcfw", "split": "spectral", "inner": "blended"},
    "best": {"method": "dcfw", "split": "paper", "inner": "blended", "polish": "2opt"},
}
"""Name in the tables -> the options of :func:`dcfw_studies.protocols.solve_as`; five are the paper's."""

TITLES = {
    **{"fw": "FW", "cgs": "CGS", **{f"dcfw-{k}": f"DC-FW (var {k})" for k in (1, 2, 3)}},
    **{"dcfw-balanced": "DC-FW (balanced)", "dcfw-centered": "DC-FW (centred)"},
    **{"dcfw-spectral": "DC-FW (spectral)", "blended-1": "DC-FW (var 1, blended)"},
    **{"blended-spectral": "DC-FW (spectral, blended)", "best": "DC-FW (var 1, blended) + 2-opt"},
}


def start(dataset: str, seed: int, n: int, protocol: str) -> np.ndarray:
    """Return the random doubly stochastic matrix from which all methods start."""
    from dcfw.sets.birkhoff import Birkhoff

    return Birkhoff(n).random(rng_for("qap start", dataset, seed), scale=NOISE[protocol])


def row(
    dataset: str, method: str, seed: int, protocol: str = "published", nudge: float = 0.0
) -> dict[str, Any]:
    """Run one method once and return what the tables need; ``nudge`` moves the start by that fraction."""
    from dcfw import qap
    from dcfw.qap.quadratics import frobenius
    from dcfw_studies.protocols import solve_as

    instance = qap.load(dataset)
    X0 = start(dataset, seed, instance.n, protocol)
    if nudge:
        X0 = X0 + nudge * (start(dataset, seed + 1, instance.n, protocol) - X0)
    begun = time.process_time()
    result = solve_as(protocol, instance.A, instance.B, X0, **METHODS[method])
    seconds = time.process_time() - begun
    excess = int(result.fun) - int(instance.best)
    unit = frobenius(instance.A.astype(float)) * frobenius(instance.B.astype(float))
    return {
        "n": instance.n,
        "value": int(result.fun),
        "best": int(instance.best),
        "error_published": excess / unit / max(instance.best / unit, 1.0) if unit > 0 else 0.0,
        "error_relative": excess / max(instance.best, 1),
        "status": result.status.name,
        **{name: result[name] for name in ("nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")},
        **{"relaxed": result.relaxed_fun, "gap": result.gap},
        **{"dc_gap_low": result.dc_gap[0], "dc_gap_high": result.dc_gap[1], "seconds": seconds},
    }


def study(
    methods: Sequence[str] = ("fw", "dcfw-1"),
    seeds: int = 1,
    protocol: str = "published",
    max_n: int | None = None,
    datasets: Sequence[str] | None = None,
) -> Study:
    """Return the study of the given methods on the paper's instances (those with n <= max_n)."""
    from dcfw import qap

    for method in methods:
        checks.choice(method, "methods", METHODS)
    checks.choice(protocol, "protocol", NOISE)
    chosen = _instances(datasets) if datasets else qap.names(paper=True)
    if max_n is not None:
        chosen = [name for name in chosen if _size(name) <= max_n]
    return Study("qap", row, chosen, list(methods), range(seeds), {"protocol": protocol}, cost=_cost)


def _instances(names: Sequence[str]) -> list[str]:
    """Return the names if all are instances of QAPLIB or of the data folder; the error names similar ones."""
    from dcfw import qap
    from dcfw.qap.library import shipped_best

    known = set(shipped_best())
    with contextlib.suppress(FileNotFoundError):  # the rows will say how to get the data
        known.update(qap.names())
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), sorted(known), n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "dcfw.qap.names() lists them"
            raise ValueError(f"datasets must be instances of QAPLIB, got {name!r}: {hint}")
    return list(names)


def _size(name: str) -> int:
    digits = "".join(c if c.isdigit() else " " for c in name).split()
    return int(digits[0]) if digits else 0


def _cost(task: Task) -> float:
    quick = {"fw": 0.1, "dcfw-spectral": 0.5, "blended-1": 0.1, "blended-spectral": 0.02, "best": 0.1}
    slow = quick.get(task.method, 1.0)
    return float(slow * _size(task.dataset) ** 2.5 * (20.0 if task.dataset.startswith("esc") else 1.0))


def import_rows(store: Store, path: str, version: int = 1, protocol: str = "published") -> int:
    """Put the rows of a CSV file (``rows.csv`` of a report) into a store; return how many were new.

    ``protocol`` is that of rows without one, as in a report.
    """
    whole = ("n", "value", "best", "nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")

    def read(line: dict[str, str]) -> tuple[Task, dict[str, Any]]:
        fields = {name: text for name, text in line.items() if text != "" and name != "study"}
        dataset, method, seed = fields.pop("dataset"), fields.pop("method"), int(fields.pop("seed"))
        settings = {"protocol": fields.pop("protocol", protocol)}
        result = {"status": fields.pop("status"), **numbers(fields, (), whole)}
        return Task(dataset, method, seed, settings, "qap", version), result

    return take_rows(store, path, ("dataset", "method", "seed", "status", "seconds"), read)
