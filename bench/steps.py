"""Comparison of the inner steps: corrections, descent, second-order steps, the adaptive rule.

(a) Quadratics 1/2 (x - y)'A(x - y) of condition 1e2, 1e4 and 1e6, n = 100, y a random point of the set, to
    1e-7 of the first gap: blended steps with and without corrections.
(b) Non-quadratic convex functions to 1e-6 of the first gap: each of the other inner solvers, and
    blended steps with the adaptive rule, against blended steps with exact ones.  Logistic losses of 4000 x
    300 samples, in the second one with columns scaled from 1 to 0.01; log-sum-exp of 300 x 100; the
    pseudo-Huber distances of ``bench faces``.

Times are processor time; a run is stopped after 8 seconds (the peer's column is then a lower bound, or the
row says "not there").  The names give the numbers of oracle calls and of gradients (with products with a
Hessian).  The steps were chosen on other seeds.

    python -m bench steps [--full]
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any
from unittest import mock

import numpy as np

import dcfw
from bench.faces import Robust
from dcfw import functions, sets
from dcfw.solvers import active

Row = tuple[str, float, float, str]


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    dcfw.minimize(functions.SquaredNorm(), sets.Simplex(3), method="dcfw", inner="blended")  # loads things
    yield from quadratic_rows()
    yield from smooth_rows(full)


def quadratic_rows() -> Iterator[Row]:
    rng = np.random.default_rng(23)
    n = 100
    for condition in (1e2, 1e4, 1e6):
        U = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = (U * np.logspace(0.0, -np.log10(condition), n)) @ U.T
        for domain in (sets.Simplex(n), sets.L1Ball(n), sets.KSparse(n, 10), sets.Hypersimplex(n, 20)):
            y = np.mean([domain.random(rng) for _ in range(20)], axis=0)
            f = functions.Quadratic(A, -A @ y, convex=True)
            ours, name = solved(f, domain, 1e-7, inner="blended")
            with mock.patch.object(active, "corrections", return_value=(0, 0.0)):
                peer, other = solved(f, domain, 1e-7, inner="blended")
            yield f"{domain!r}, condition {condition:.0e}: {name} vs {other}", ours, peer, "s"


def smooth_problems(full: bool) -> Iterator[tuple[str, Any, Any]]:
    rng = np.random.default_rng(24)
    B = rng.standard_normal((4000, 300))
    labels = np.sign(
        B @ (rng.standard_normal(300) * (rng.random(300) < 0.2)) + 0.5 * rng.standard_normal(4000)
    )
    yield "logistic", functions.LogisticLoss(B, labels), sets.L1Ball(300, 20.0)
    yield (
        "logistic, scaled",
        functions.LogisticLoss(B * np.logspace(0, -2, 300), labels),
        sets.L1Ball(300, 200.0),
    )
    f = functions.LogSumExp(rng.standard_normal((300, 100)), rng.standard_normal(300))
    yield "log-sum-exp", f, sets.Simplex(100)
    n = 60 if full else 30
    yield f"Birkhoff n={n}", Robust(rng.random((n, n))), sets.Birkhoff(n)
    yield (
        "Hypersimplex(60, 12)",
        Robust(rng.standard_normal(50), rng.standard_normal((50, 60))),
        sets.Hypersimplex(60, 12),
    )
    yield "Box n=60", Robust(rng.standard_normal(50), rng.standard_normal((50, 60))), sets.Box(0.0, 0.2, 60)


def smooth_rows(full: bool) -> Iterator[Row]:
    for name, f, domain in smooth_problems(full):
        peer, other = solved(f, domain, 1e-6, inner="blended")
        for option in ("descent", "second-order", "in-face", "adaptive"):
            if option == "in-face" and domain.entry_bounds() is None:
                continue
            options = {"inner": "blended", "step": option} if option == "adaptive" else {"inner": option}
            seconds, text = solved(f, domain, 1e-6, **options)
            yield f"{name}: {option} {text} vs blended {other}", seconds, peer, "s"


def solved(f: Any, domain: Any, rtol: float, **options: Any) -> tuple[float, str]:
    """Return seconds, and the numbers of oracle calls and gradients."""
    started = process_time()
    res = dcfw.minimize(f, domain, method="dcfw", rtol=rtol, max_inner=10**6, time_limit=8, **options)
    seconds = process_time() - started
    return seconds, f"{res.n_lmo:,}/{res.n_grad_f:,}" + ("" if res.success else " (not there)")
