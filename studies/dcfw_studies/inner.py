"""The study of inner solvers and splits: nine families of DC problems, all through ``dcfw.minimize``.

A row is one run: an instance of a family, a method ``inner/split``, a seed.  All methods start from the same
point for the same family and seed, stop at the same relative FW gap or number of oracle calls, and run in the
same generic loop, so that their times can be compared.

=============  ============================================================================================
simplex        an indefinite quadratic over the unit simplex (n = 200)
l1             the same over the l1 ball (n = 200, radius 3)
box            the same over the cube [-1, 1]^n (n = 60)
ksparse        FrankWolfe.jl's differences of convex quadratics over the k-sparse polytope (n = 200, k = 5)
qap            Taillard's uniform assignment problems, relaxed to the Birkhoff polytope (n = 15)
recovery       sparse recovery: least squares minus a multiple of the l2 norm over the l1 ball (80 x 200)
logistic       logistic regression minus a multiple of the l2 norm over the l1 ball (200 x 100)
alignment      masked orthogonal alignment: least squares minus a nuclear norm, spectral ball (12 x 12)
completion     least squares on 50 % of a matrix of rank 2 minus a small square, nuclear ball (24 x 18)
=============  ============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcfw import functions, sets, splits
from dcfw_studies import checks
from dcfw_studies.store import Store
from dcfw_studies.study import Study, Task, rng_for
from dcfw_studies.table_file import take_rows

INNERS = ("fw", "away", "pairwise", "blended")
THREE = ("spectral", "sliding", "proximal")
RTOL, MAX_LMO, SECONDS = 1e-5, 20_000, 60.0


class Problem(NamedTuple):
    """The objective by split, the set and the start."""

    objectives: dict[str, Any]
    domain: Any
    x0: np.ndarray


def _three(phi: Any, domain: Any) -> dict[str, Any]:
    parts = splits.spectral(phi, domain), splits.sliding(phi), splits.proximal(phi)
    return dict(zip(THREE, parts, strict=True))


def _strengthened(objective: Any, amount: float) -> dict[str, Any]:
    return {"given": objective, "strengthened": splits.strengthen(objective, amount)}


def _indefinite(rng: np.random.Generator, n: int) -> functions.Quadratic:
    """Return a quadratic with about as many negative as positive eigenvalues."""
    R = rng.standard_normal((n, n))
    return functions.Quadratic((R + R.T) / np.sqrt(8.0 * n), rng.standard_normal(n) / np.sqrt(n))


def _simplex(rng: np.random.Generator) -> Problem:
    domain = sets.Simplex(200)
    return Problem(_three(_indefinite(rng, 200), domain), domain, rng.dirichlet(np.ones(200)))


def _l1(rng: np.random.Generator) -> Problem:
    domain = sets.L1Ball(200, radius=3.0)
    x0 = 3.0 * rng.dirichlet(np.ones(200)) * rng.choice([-1.0, 1.0], 200)
    return Problem(_three(_indefinite(rng, 200), domain), domain, x0)


def _box(rng: np.random.Generator) -> Problem:
    domain = sets.LInfBall(60)
    return Problem(_three(_indefinite(rng, 60), domain), domain, rng.uniform(-1.0, 1.0, 60))


def _ksparse(rng: np.random.Generator) -> Problem:
    n = 200

    def convex() -> functions.Quadratic:
        R = rng.standard_normal((n, n))
        return functions.Quadratic(R.T @ R / np.linalg.norm(R, 2) ** 2 + 0.1 * np.eye(n), rng.random(n))

    f, g = convex(), convex()
    domain = sets.KSparse(n, k=5, radius=100.0)
    whole = functions.Quadratic(np.asarray(f.A) - np.asarray(g.A), np.asarray(f.b) - np.asarray(g.b))
    return Problem({"given": f - g, **_three(whole, domain)}, domain, np.asarray(domain.start()))


def _qap(rng: np.random.Generator) -> Problem:
    from dcfw.qap.generators import taillard_uniform
    from dcfw.qap.quadratics import decompose

    n = 15
    instance = taillard_uniform(n, rng=rng)
    A, B = (M / np.linalg.norm(M) for M in (instance.A.astype(float), instance.B.astype(float)))
    domain = sets.Birkhoff(n)
    parts = {name: decompose(A, B, None, name) for name in ("paper", *THREE)}
    return Problem(parts, domain, domain.random(rng, scale=0.01))


def _recovery(rng: np.random.Generator) -> Problem:
    m, n, k = 80, 200, 12
    A = rng.standard_normal((m, n)) / np.sqrt(m)
    x = np.zeros(n)
    x[rng.choice(n, k, replace=False)] = rng.standard_normal(k)
    f = functions.LeastSquares(A, A @ x + 0.01 * rng.standard_normal(m))
    return _over_an_l1_ball(f, 0.1, n, 1.2 * float(np.abs(x).sum()))


def _logistic(rng: np.random.Generator) -> Problem:
    m, n = 200, 100
    A = rng.standard_normal((m, n))
    x = np.zeros(n)
    x[:8] = rng.choice([-2.0, 2.0], 8)
    labels = np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-A @ x)), 1.0, -1.0)
    return _over_an_l1_ball(functions.LogisticLoss(A, labels), 0.05, n, 10.0)


def _over_an_l1_ball(f: Any, weight: float, n: int, radius: float) -> Problem:
    """f - weight ||x||_2, as given and with a strongly convex quadratic added to both parts."""
    objectives = _strengthened(f - weight * functions.L2Norm(), 0.1 * float(f.lipschitz))
    return Problem(objectives, sets.L1Ball(n, radius=radius), np.zeros(n))


def _alignment(rng: np.random.Generator) -> Problem:
    d, n = 12, 300
    E = rng.standard_normal((d, n))
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    mask = rng.random((d, n)) < 0.3
    Y = Q @ E + 0.1 * rng.standard_normal((d, n))
    # Row i of X has a least squares problem of its own: the words whose entry i was observed.
    rows = np.zeros((d, d, d, d))
    b = np.zeros((d, d))
    for i in range(d):
        rows[i, :, i, :] = E[:, mask[i]] @ E[:, mask[i]].T / n
        b[i] = -E[:, mask[i]] @ Y[i, mask[i]] / n
    f = functions.Quadratic(rows.reshape(d * d, d * d), b.reshape(d * d))
    objectives = _strengthened(f - 0.05 * functions.NuclearNorm(), 0.1 * float(f.lipschitz))
    return Problem(objectives, sets.SpectralBall((d, d)), np.zeros((d, d)))


def _completion(rng: np.random.Generator) -> Problem:
    from scipy.sparse import csr_array

    shape = (24, 18)
    M = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    known = np.flatnonzero(rng.random(M.size) < 0.5)
    pick = csr_array((np.ones(len(known)), (np.arange(len(known)), known)), shape=(len(known), M.size))
    f = functions.LeastSquares(pick, M.ravel()[known] + 0.1 * rng.standard_normal(len(known)))
    domain = sets.NuclearBall(shape, radius=0.7 * float(np.linalg.norm(M, "nuc")))
    return Problem(_strengthened(f - functions.SquaredNorm(0.02), 0.1), domain, np.zeros(shape))


FAMILIES: dict[str, tuple[Callable[[np.random.Generator], Problem], tuple[str, ...]]] = {
    "simplex": (_simplex, THREE),
    "l1": (_l1, THREE),
    "box": (_box, THREE),
    "ksparse": (_ksparse, ("given", *THREE)),
    "qap": (_qap, ("paper", *THREE)),
    "recovery": (_recovery, ("given", "strengthened")),
    "logistic": (_logistic, ("given", "strengthened")),
    "alignment": (_alignment, ("given", "strengthened")),
    "completion": (_completion, ("given", "strengthened")),
}
"""Name -> how an instance is made, and its splits."""


def row(
    dataset: str, method: str, seed: int, rtol: float, max_lmo: int, nudge: float = 0.0
) -> dict[str, Any]:
    """Run one inner solver on one split of one instance.

    ``nudge`` moves the start by that fraction of the way to a vertex, but for one at which g has several
    subgradients: points nearby have others.
    """
    from dcfw import minimize

    inner, split = method.split("/")
    problem = FAMILIES[dataset][0](rng_for("inner", dataset, seed))
    x0, objective = problem.x0, problem.objectives[split]
    if nudge and objective.g.linearise(x0).unique:
        towards = problem.domain.lmo(np.random.default_rng(0).standard_normal(np.shape(x0)))
        x0 = x0 + nudge * (towards - x0)
    budget: dict[str, Any] = {"maxiter": 100_000, "max_lmo": max_lmo, "time_limit": SECONDS}
    result = minimize(objective, problem.domain, x0, inner=inner, tol=0.0, rtol=rtol, **budget)
    return {
        "value": float(result.fun),
        "status": result.status.name,
        "gap": float(result.gap),
        "first_gap": float(result.history["gap"][0]),
        "dc_gap_high": float(result.dc_gap[1]),
        **{name: result[name] for name in ("nit", "n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")},
        "seconds": result.time,
    }


def study(seeds: int = 5, families: Sequence[str] | None = None) -> Study:
    for family in families or ():
        checks.choice(family, "families", FAMILIES)
    tasks = [
        Task(family, f"{inner}/{split}", seed)
        for family in (families or FAMILIES)
        for split in FAMILIES[family][1]
        for inner in INNERS
        for seed in range(seeds)
    ]
    return Study("inner", row, tasks=tasks, settings={"rtol": RTOL, "max_lmo": MAX_LMO}, cost=_cost)


def import_rows(store: Store, folder: str) -> int:
    """Put the rows of a report into a store; return how many were new."""

    def read(line: dict[str, str]) -> tuple[Task, dict[str, Any]]:
        dataset, method, seed = line.pop("dataset"), line.pop("method"), int(line.pop("seed"))
        result: dict[str, Any] = {"status": line.pop("status")}
        result |= {key: int(text) if key.startswith("n") else float(text) for key, text in line.items()}
        return Task(dataset, method, seed, {"rtol": RTOL, "max_lmo": MAX_LMO}, "inner"), result

    needed = ("dataset", "method", "seed", "status", "seconds")
    return take_rows(store, Path(folder) / "rows.csv", needed, read)


def _cost(task: Task) -> float:
    return {"qap": 50.0, "logistic": 20.0, "recovery": 8.0, "ksparse": 6.0, "l1": 3.0}.get(task.dataset, 1.0)
