"""The runs of ``test_frozen_methods.py``, and the command that records their numbers.

    python tests/cases/frozen_methods.py > tests/cases/frozen_methods.json

Only runs whose path does not depend on rounding are here: they are the same with other kernels of OpenBLAS
(``OPENBLAS_CORETYPE``).
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

import dcfw
from dcfw import functions, sets, splits
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.block import Block
from dcfw.solvers.estimators import ESTIMATORS
from dcfw.solvers.graduated import Graduated
from dcfw.solvers.stochastic import SFW, Stochastic

FILE = Path(__file__).with_suffix(".json")
COUNTS = ("nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")


def quadratics(n: int = 12) -> Any:
    """Numbers by formulas, not by a generator whose stream may change."""
    i = np.arange(n, dtype=float)
    M = np.cos(np.outer(i, i + 1.0)) + np.diag(1.0 + 0.1 * i)
    concave = functions.Quadratic(np.diag(0.2 + 0.1 * np.cos(i)), convex=True)
    return functions.Quadratic(M @ M.T / n, 0.2 * np.sin(1.0 + i), convex=True) - concave


def logistic(n: int = 12) -> Any:
    i = np.arange(n, dtype=float)
    rows = np.cos(np.outer(np.arange(3.0 * n), i + 1.0))
    loss = functions.LogisticLoss(rows, np.where(np.sin(np.arange(3.0 * n)) > 0.2, 1.0, -1.0))
    return loss - functions.Quadratic(np.diag(0.02 + 0.01 * np.cos(i)), convex=True)


def finite_sum(n: int = 6, m: int = 60) -> Any:
    A = np.sin(np.outer(1.0 + np.arange(m), 1.0 + np.arange(n)))
    return functions.FiniteSum.least_squares(A, A @ np.cos(np.arange(n)) + 0.1 * np.cos(np.arange(m)))


PRODUCT = sets.Product([sets.Simplex(4), sets.L1Ball(5), sets.Box(np.zeros(3), np.ones(3))])
POLYTOPES = {
    "simplex": sets.Simplex(12),
    "l1 ball": sets.L1Ball(12, radius=1.5),
    "cube": sets.LInfBall(12, radius=0.4),
    "box": sets.Box(-0.3 * np.ones(12), np.linspace(0.1, 0.7, 12)),
    "sparse ball": sets.KSparse(12, 3),
    "product": PRODUCT,
}
ROUND = {"l2 ball": sets.L2Ball(12), "l3 ball": sets.LpBall(12, 3.0)}


def runs() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Name -> objective, set, options."""
    found: dict[str, tuple[Any, Any, dict[str, Any]]] = {}
    for name, domain in POLYTOPES.items():
        for inner in ("away", "pairwise", "blended"):
            found[f"dcfw, {inner}, {name}"] = (quadratics, domain, {"inner": inner})
        for inner in ("away", "pairwise"):
            found[f"dcfw, {inner}, not lazy, {name}"] = (quadratics, domain, {"inner": inner, "lazy": False})
    for inner in ("away", "pairwise", "blended"):
        options = {"inner": inner, "step": "short"}
        found[f"dcfw, {inner}, smooth f"] = (logistic, POLYTOPES["l1 ball"], options)
        few = {"inner": ActiveLoop(inner, cap=4)}
        found[f"dcfw, {inner}, at most 4 atoms"] = (quadratics, POLYTOPES["l1 ball"], few)
    for name, domain in ROUND.items():
        found[f"dcfw, blended, {name}"] = (quadratics, domain, {"inner": "blended"})
    for name, domain in {**POLYTOPES, **ROUND}.items():
        found[f"boosted, {name}"] = (quadratics, domain, {"method": "boosted", "inner": "fw"})
        found[f"fw, open loop, {name}"] = (quadratics, domain, {"method": "fw", "step": "open-loop"})
        found[f"fw-m, {name}"] = (logistic, domain, {"method": "fw-m", "maxiter": 10})
        found[f"cgs, {name}"] = (quadratics, domain, {"method": "cgs", "maxiter": 10})
    for split, method, inner in itertools.product(
        ("sliding", "proximal"), ("dcfw", "boosted"), ("fw", "away")
    ):
        found[f"{method}, {inner}, {split} with L found on the way"] = (
            lambda split=split: getattr(splits, split)(quadratics(), L="auto"),
            POLYTOPES["l1 ball"],
            {"method": method, "inner": inner},
        )
    for order in ("cyclic", "random", "gap"):
        one_pass = {"method": Block(order), "inner": "fw", "rng": 0, "maxiter": 1}
        found[f"block, {order}"] = (quadratics, PRODUCT, one_pass)
    short = {"method": Block("gap", steps=1), "inner": "away", "maxiter": 1}
    found["block, one step a visit, away"] = (quadratics, PRODUCT, short)
    for method, estimator in itertools.product((Stochastic, SFW), ESTIMATORS):
        found[f"{method.name}, {estimator}"] = (
            finite_sum,
            sets.L1Ball(6, radius=1.5),
            {
                "method": method(batch=6, estimator=estimator, epochs=8),
                "inner": "fw",
                "rng": 0,
                "maxiter": 30,
            },
        )
    for name, domain in POLYTOPES.items():
        found[f"graduated, {name}"] = (quadratics, domain, {"method": "graduated", "maxiter": 1000})
    found["graduated, blended, simplex"] = (
        quadratics,
        POLYTOPES["simplex"],
        {"method": Graduated(stages=30), "inner": "blended", "maxiter": 1000},
    )
    return found


def run(make: Any, domain: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return where a run ends, and what it cost."""
    options = {"tol": 1e-5, "maxiter": 3, "max_inner": 300} | options
    start = domain.lmo(np.cos(np.arange(float(np.prod(domain.shape)))).reshape(domain.shape))
    res = dcfw.minimize(make(), domain, start, **options)
    counts = {name: int(res[name]) for name in COUNTS}
    return {"status": res.status.name, "fun": float(res.fun), "gap": float(res.gap)} | counts


def main() -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(run(*arguments))}" for name, arguments in runs().items())
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
