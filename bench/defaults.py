"""The default call against every other option: the decision table of ``minimize``.

In half of the families of problems (:data:`FAMILIES`) the objective is a ``Smooth(value, grad)`` without
further information.  Every option starts from the same point and stops at the same FW gap, 1e-3 of
the first one; a run that has not reached it after ``SECONDS`` of processor time counts as stuck.  Rows:
processor time of the default call against that of the best option, which the unit names (with the final value
of each).  The two last rows are the share of the families on which the default takes at most 1.5 times the
best option's time (plus a tolerance of a millisecond; the peer's column is our target), and the families on
which the default is stuck but another option is not.  Families on which no option succeeds are excluded.

    python -m bench defaults [--full]

``--full`` uses three seeds of each family instead of one.  Every run is written to
``results/inner/defaults.csv``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import dcfw
from dcfw import functions, sets, splits

Row = tuple[str, float, float, str]
RTOL = 1e-3
SECONDS = 2.0
FACTOR, GRACE = 1.5, 1e-3
RESULTS = Path(__file__).parents[1] / "results" / "inner"


class Instance(NamedTuple):
    """A user's objective, its set, and whether to try another split."""

    objective: Any
    domain: Any
    x0: Any = None
    splits: bool = True


# -- families -----------------------------------------------------------------------------------------------


def smooth(value: Callable[..., Any], grad: Callable[..., Any]) -> functions.Smooth:
    return functions.Smooth(value, grad)


def symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    R = rng.standard_normal((n, n))
    return np.asarray((R + R.T) / math.sqrt(8.0 * n))


def distances(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.standard_normal((n, d))
    C = np.linalg.norm(X[:, None] - X[None], axis=2)
    return np.asarray(C / C.max())


def gromov(rng: np.random.Generator, n: int = 60) -> Instance:
    """Match two point clouds by a plan: -2 <C1 T C2, T> on the transport polytope, as callables."""
    C1, C2 = distances(rng, n, 3), distances(rng, n, 2)
    p = np.full(n, 1.0 / n)
    constant = float(p @ C1**2 @ p + p @ C2**2 @ p)

    def value(T: np.ndarray) -> float:
        return constant - 2.0 * float(np.vdot(C1 @ T @ C2, T))

    domain = sets.TransportPolytope(p, p)
    return Instance(smooth(value, lambda T: -4.0 * (C1 @ T @ C2)), domain, domain.random(rng))


def assignment(rng: np.random.Generator) -> Instance:
    n = 15
    A, B = symmetric(rng, n), symmetric(rng, n)
    phi = smooth(lambda X: float(np.vdot(A @ X @ B, X)), lambda X: 2.0 * (A @ X @ B))
    return Instance(phi, sets.Birkhoff(n), sets.Birkhoff(n).random(rng))


def simplices(rng: np.random.Generator, count: int = 1000) -> Instance:
    """A chain of choices: neighbours want different labels."""
    k = 5
    W, c = rng.standard_normal((count - 1, k, k)), rng.standard_normal((count, k))

    def value(x: np.ndarray) -> float:
        X = x.reshape(count, k)
        return float(np.einsum("ij,ijk,ik->", X[:-1], W, X[1:]) + np.vdot(c, X))

    def grad(x: np.ndarray) -> np.ndarray:
        X, G = x.reshape(count, k), c.copy()
        G[:-1] += np.einsum("ijk,ik->ij", W, X[1:])
        G[1:] += np.einsum("ij,ijk->ik", X[:-1], W)
        return G.reshape(-1)

    return Instance(smooth(value, grad), sets.Product([sets.Simplex(k)] * count))


def soft_simplices(rng: np.random.Generator) -> Instance:
    """The same chain with an entropy, which draws the minimisers into the simplices."""
    phi, domain, *_ = simplices(rng, 300)
    e = 1e-3

    def value(x: np.ndarray) -> float:
        return float(phi.value(x) + 0.3 * (x + e) @ np.log(x + e))

    return Instance(smooth(value, lambda x: phi.grad(x) + 0.3 * (1.0 + np.log(x + e))), domain)


def spectraplex(rng: np.random.Generator, n: int = 60) -> Instance:
    """A robust (Welsch) fit of a density matrix to some of its entries."""
    V = rng.standard_normal((n, 4))
    Y = V @ V.T / float(np.vdot(V, V))
    mask = rng.random((n, n)) < 0.2
    mask |= mask.T
    s = float(np.abs(Y).mean())

    def value(X: np.ndarray) -> float:
        return float((1.0 - np.exp(-0.5 * ((X - Y)[mask] / s) ** 2)).sum())

    def grad(X: np.ndarray) -> np.ndarray:
        D = np.where(mask, X - Y, 0.0) / s
        return np.asarray(D * np.exp(-0.5 * D * D) / s)

    return Instance(smooth(value, grad), sets.Spectraplex(n))


def spectraplex_squares(rng: np.random.Generator, n: int = 200) -> Instance:
    """Least squares, as callables."""
    V = rng.standard_normal((n, 3))
    Y = V @ V.T / float(np.vdot(V, V))
    mask = rng.random((n, n)) < 0.2
    mask |= mask.T
    phi = smooth(
        lambda X: 0.5 * float((np.where(mask, X - Y, 0.0) ** 2).sum()), lambda X: np.where(mask, X - Y, 0.0)
    )
    return Instance(phi, sets.Spectraplex(n))


def robust_completion(rng: np.random.Generator) -> Instance:
    """Cauchy loss on some entries of a matrix of rank 3 with outliers, in a nuclear ball."""
    shape = (40, 30)
    Y = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    radius = float(np.linalg.svd(Y, compute_uv=False).sum())
    Y[rng.random(shape) < 0.05] += 20.0
    mask = rng.random(shape) < 0.4

    def value(X: np.ndarray) -> float:
        return float(np.log1p((X - Y)[mask] ** 2).sum())

    def grad(X: np.ndarray) -> np.ndarray:
        D = np.where(mask, X - Y, 0.0)
        return np.asarray(2.0 * D / (1.0 + D * D))

    return Instance(smooth(value, grad), sets.NuclearBall(shape, radius=radius))


def cauchy_regression(rng: np.random.Generator) -> Instance:
    m, n = 200, 300
    A = rng.standard_normal((m, n)) / math.sqrt(m)
    x = np.zeros(n)
    x[:10] = 2.0 * rng.standard_normal(10)
    y = A @ x + np.where(rng.random(m) < 0.1, 5.0, 0.05) * rng.standard_normal(m)

    def grad(z: np.ndarray) -> np.ndarray:
        r = A @ z - y
        return np.asarray(A.T @ (2.0 * r / (1.0 + r * r)))

    phi = smooth(lambda z: float(np.log1p((A @ z - y) ** 2).sum()), grad)
    return Instance(phi, sets.L1Ball(n, radius=float(np.abs(x).sum())))


def sigmoid_loss(rng: np.random.Generator) -> Instance:
    m, n = 300, 100
    A = rng.standard_normal((m, n))
    A *= np.sign(A @ rng.standard_normal(n) + rng.standard_normal(m))[:, None]

    def grad(z: np.ndarray) -> np.ndarray:
        p = 1.0 / (1.0 + np.exp(np.clip(A @ z, -500, 500)))
        return np.asarray(-A.T @ (p * (1.0 - p)) / m)

    phi = smooth(lambda z: float((1.0 / (1.0 + np.exp(np.clip(A @ z, -500, 500)))).mean()), grad)
    return Instance(phi, sets.L2Ball(n, radius=3.0))


def phase_retrieval(rng: np.random.Generator) -> Instance:
    m, n = 200, 60
    A = rng.standard_normal((m, n))
    x = np.zeros(n)
    x[:4] = rng.standard_normal(4)
    y = (A @ x) ** 2

    def grad(z: np.ndarray) -> np.ndarray:
        r = A @ z
        return np.asarray(A.T @ ((r * r - y) * r) / m)

    phi = smooth(lambda z: 0.25 * float((((A @ z) ** 2 - y) ** 2).mean()), grad)
    x0 = 0.1 * rng.standard_normal(n) / n
    return Instance(phi, sets.L1Ball(n, radius=float(np.abs(x).sum())), x0)


def cosines(rng: np.random.Generator) -> Instance:
    n = 200
    R, b = symmetric(rng, n), rng.standard_normal(n)

    def value(x: np.ndarray) -> float:
        return float(np.cos(R @ x + b).sum())

    phi = smooth(value, lambda x: -(R @ np.sin(R @ x + b)))
    return Instance(phi, sets.Box(-2.0, 2.0, n), rng.uniform(-2.0, 2.0, n))


def rosenbrock(rng: np.random.Generator) -> Instance:
    from scipy.optimize import rosen, rosen_der

    return Instance(smooth(rosen, rosen_der), sets.Box(-2.0, 0.8, 20), rng.uniform(-2.0, 0.8, 20))


def portfolio(rng: np.random.Generator) -> Instance:
    """Mean, variance and a concave transaction cost over a polytope of sums and bounds."""
    n = 40
    F = rng.standard_normal((n, 5))
    C, mu = F @ F.T / 5 + 0.1 * np.eye(n), rng.random(n)
    groups = np.kron(np.eye(4), np.ones(n // 4))

    def value(x: np.ndarray) -> float:
        return float(0.5 * x @ C @ x - mu @ x + 0.1 * np.sqrt(np.maximum(x, 0.0) + 0.01).sum())

    phi = smooth(value, lambda x: C @ x - mu + 0.05 / np.sqrt(np.maximum(x, 0.0) + 0.01))
    domain = sets.Polytope(
        A_ub=groups, b_ub=np.full(4, 0.4), A_eq=np.ones((1, n)), b_eq=[1.0], bounds=(0.0, 0.15)
    )
    return Instance(phi, domain)


def smooth_simplex(rng: np.random.Generator) -> Instance:
    """An indefinite quadratic given by callables, so that it is not recognised as quadratic."""
    n = 500
    A, b = symmetric(rng, n), rng.standard_normal(n) / math.sqrt(n)
    phi = smooth(lambda x: float(0.5 * x @ A @ x + b @ x), lambda x: A @ x + b)
    return Instance(phi, sets.Simplex(n), rng.dirichlet(np.ones(n)))


def convex_smooth(rng: np.random.Generator) -> Instance:
    """Entropic least squares on the simplex: convex, but not declared so."""
    m, n = 60, 200
    A = rng.standard_normal((m, n))
    y = A @ rng.dirichlet(np.full(n, 0.05))
    phi = smooth(
        lambda x: float(0.5 * ((A @ x - y) ** 2).sum() + 1e-2 * (x + 1e-3) @ np.log(x + 1e-3)),
        lambda x: A.T @ (A @ x - y) + 1e-2 * (1.0 + np.log(x + 1e-3)),
    )
    return Instance(phi, sets.Simplex(n))


def quadratic(make: Callable[..., Any], n: int) -> Callable[[np.random.Generator], Instance]:
    def family(rng: np.random.Generator) -> Instance:
        phi = functions.Quadratic(symmetric(rng, n), rng.standard_normal(n) / math.sqrt(n))
        domain = make(n)
        return Instance(phi, domain, domain.random(rng))

    return family


def recovery(rng: np.random.Generator) -> Instance:
    m, n, k = 80, 200, 12
    A = rng.standard_normal((m, n)) / math.sqrt(m)
    x = np.zeros(n)
    x[rng.choice(n, k, replace=False)] = rng.standard_normal(k)
    f = functions.LeastSquares(A, A @ x + 0.01 * rng.standard_normal(m))
    domain = sets.L1Ball(n, radius=1.2 * float(np.abs(x).sum()))
    return Instance(f - 0.1 * functions.L2Norm(), domain, splits=False)


def logistic(rng: np.random.Generator) -> Instance:
    m, n = 200, 100
    A = rng.standard_normal((m, n))
    labels = np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-2.0 * A[:, :8].sum(axis=1))), 1.0, -1.0)
    objective = functions.LogisticLoss(A, labels) - 0.05 * functions.L2Norm()
    return Instance(objective, sets.L1Ball(n, radius=10.0), splits=False)


def completion(rng: np.random.Generator) -> Instance:
    shape, rank = (100, 80), 5
    Y = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    mask = rng.random(shape) < 0.3
    radius = 0.7 * float(np.linalg.svd(Y, compute_uv=False).sum())
    phi = smooth(
        lambda X: 0.5 * float((np.where(mask, X - Y, 0.0) ** 2).sum()), lambda X: np.where(mask, X - Y, 0.0)
    )
    return Instance(phi, sets.NuclearBall(shape, radius=radius))


FAMILIES: dict[str, Callable[[np.random.Generator], Instance]] = {
    "Gromov, transport 60 x 60": gromov,
    "assignment, Birkhoff 15": assignment,
    "chain, 1000 simplices": simplices,
    "entropic chain, 300 simplices": soft_simplices,
    "Welsch, spectraplex 60": spectraplex,
    "squares, spectraplex 200": spectraplex_squares,
    "Cauchy, nuclear ball 40 x 30": robust_completion,
    "squares, nuclear ball 100 x 80": completion,
    "Cauchy regression, l1 ball 300": cauchy_regression,
    "sigmoid loss, l2 ball 100": sigmoid_loss,
    "phase retrieval, l1 ball 60": phase_retrieval,
    "cosines, box 200": cosines,
    "Rosenbrock, box 20": rosenbrock,
    "portfolio, polytope 40": portfolio,
    "hidden quadratic, simplex 500": smooth_simplex,
    "hidden convex, simplex 200": convex_smooth,
    "quadratic, simplex 200": quadratic(sets.Simplex, 200),
    "quadratic, l1 ball 200": quadratic(lambda n: sets.L1Ball(n, radius=3.0), 200),
    "quadratic, box 60": quadratic(sets.LInfBall, 60),
    "quadratic, k-sparse 200": quadratic(lambda n: sets.KSparse(n, k=5, radius=3.0), 200),
    "recovery (f - g), l1 ball 200": recovery,
    "logistic (f - g), l1 ball 100": logistic,
}


# -- options ------------------------------------------------------------------------------------------------


def options(instance: Instance) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield name, objective and keywords of each option, the default call first."""
    phi = instance.objective
    yield "default", phi, {}
    differentiable = phi.differentiable
    if isinstance(instance.domain, sets.Product):
        yield "block", phi, {"method": "block"}
    active = instance.domain.polytope or instance.domain.faces
    for inner in ("fw", "blended") if active else ("fw",):
        if differentiable:
            yield f"fw, {inner}", phi, {"method": "fw", "inner": inner}
        yield f"boosted, {inner}", phi, {"method": "boosted", "inner": inner}
        if not instance.splits:
            yield f"dcfw, {inner}", phi, {"method": "dcfw", "inner": inner}
            continue
        if phi.affine_grad:
            yield f"dcfw spectral, {inner}", splits.spectral(phi, instance.domain), {"inner": inner}
        for split in (splits.sliding, splits.proximal):
            yield f"dcfw {split.__name__} auto, {inner}", split(phi, L="auto"), {"inner": inner}


class Outcome(NamedTuple):
    """How one run ended."""

    seconds: float
    converged: bool
    fun: float
    status: str


def measure(objective: Any, instance: Instance, keywords: dict[str, Any], budget: float) -> Outcome:
    """Run one option until its gap is 1e-3 of the first one, or its processor time is used up."""
    started = process_time()

    def over(_: Any) -> None:
        if process_time() - started > budget:
            raise StopIteration("processor time is over")

    try:
        result = dcfw.minimize(
            objective, instance.domain, instance.x0, tol=0.0, rtol=RTOL, maxiter=10**6, callback=over,
            time_limit=4.0 * budget, **keywords,
        )  # fmt: skip
    except ValueError as error:  # an option that the library refuses
        return Outcome(math.inf, False, math.nan, f"refused: {error}"[:60])
    return Outcome(process_time() - started, result.success, result.fun, result.status.name)


def outcomes(name: str, seed: int, only: str = "") -> dict[str, Outcome]:
    """Return the result of each option on one instance."""
    instance = FAMILIES[name](np.random.default_rng(seed))
    found = {}
    for option, objective, keywords in options(instance):
        if only in option:
            first = measure(objective, instance, keywords, SECONDS)
            if first.converged and first.seconds < 0.2:  # short runs are repeated, the least time counts
                again = [measure(objective, instance, keywords, SECONDS) for _ in range(2)]
                first = min(first, *again)
            found[option] = first
    return found


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    near = stuck = count = 0
    table = []
    outcomes(next(iter(FAMILIES)), 0, "default")  # trigger late imports
    for name in FAMILIES:
        for seed in range(3 if full else 1):
            found = outcomes(name, seed)
            table += [(name, seed, option, *outcome) for option, outcome in found.items()]
            ours = found.pop("default")
            solved = {option: other for option, other in found.items() if other.converged}
            best = min(solved, key=lambda option: solved[option].seconds, default="")
            peer = solved[best].seconds if solved else math.inf
            fine = ours.converged and ours.seconds <= FACTOR * peer + GRACE
            if solved or ours.converged:  # where no option gets there nothing is decided
                near, stuck, count = near + fine, stuck + (not ours.converged), count + 1
            lowest = min((other.fun for other in solved.values()), default=math.nan)
            unit = f"s, values {ours.fun:.5g} and {solved[best].fun:.5g}" if solved else "s"
            unit += f" (lowest {lowest:.5g}); {ours.status}; best: {best or 'none'}"
            yield f"{name}, seed {seed}", ours.seconds, peer, unit
    yield (
        f"default within {FACTOR} x of the best option",
        near / count,
        0.9,
        f"share of {count} (peer: wanted)",
    )
    yield "default stuck where another converges", stuck, 0.0, "runs (peer: wanted)"
    _write(table)


def _write(table: list[tuple[Any, ...]]) -> None:
    with (RESULTS / "defaults.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("family", "seed", "option", *Outcome._fields))
        writer.writerows(table)
    (RESULTS / "defaults.md").write_text(page(table), encoding="utf-8")


INTRODUCTION = """# The default call

`python -m bench defaults` runs the default call and every other option (plain and blended Frank-Wolfe on phi;
DC-FW with the spectral, sliding and proximal splits and an estimated L; boosted; blocks on products) from
the same start to 1e-3 of the first gap, and writes this page. A run that has not reached it after 2 s of
processor time counts as stuck. All runs are in `defaults.csv`. Times are processor time on a busy machine.

| family | default, ms | best option, ms | which | default / best | value | lowest value |
| --- | ---: | ---: | --- | ---: | ---: | ---: |
"""

PROFILES = """

## Performance profiles

The share of the solved families on which an option takes at most the given multiple of the shortest time
(plus two thirds of a millisecond); not every option applies to every family."""


def page(table: list[tuple[Any, ...]]) -> str:
    """Return the decision table and the performance profiles in Markdown."""
    cells: dict[tuple[str, int], dict[str, Outcome]] = {}
    for family, seed, option, *rest in table:
        cells.setdefault((family, seed), {})[option] = Outcome(*rest)
    lines, ratios = [], {}
    for (family, _), found in cells.items():
        solved = {option: each for option, each in found.items() if each.converged}
        ours = found["default"]
        others = {option: each for option, each in solved.items() if option != "default"}
        shown = f"{1e3 * ours.seconds:.1f}" if ours.converged else "stuck"
        if not others:
            lines.append(f"| {family} | {shown} | - | all are stuck | - | {ours.fun:.5g} | |")
            continue
        best = min(others, key=lambda option: others[option].seconds)
        least, lowest = others[best].seconds, min(each.fun for each in solved.values())
        ratio = f"{ours.seconds / least:.2f}" if ours.converged else "-"
        lines.append(
            f"| {family} | {shown} | {1e3 * least:.1f} | {best} | {ratio} | {ours.fun:.5g} | {lowest:.5g} |"
        )
        least = min(least, ours.seconds) if ours.converged else least
        for option, each in found.items():
            taken = each.seconds / (least + GRACE / FACTOR) if each.converged else math.inf
            ratios.setdefault(option, []).append(taken)
    factors = (1.0, FACTOR, 2.0, 5.0, 20.0)
    profiles = [
        f"| {option} | {len(taken)} | "
        + " | ".join(f"{np.mean([each <= factor for each in taken]):.0%}" for factor in factors)
        + " |"
        for option, taken in sorted(ratios.items(), key=lambda item: -np.mean(np.array(item[1]) <= FACTOR))
    ]
    heads = " | ".join(f"{factor:g} x" for factor in factors)
    return (
        INTRODUCTION
        + "\n".join(lines)
        + PROFILES
        + f"\n\n| option | families | {heads} |\n| --- | ---: |{' ---: |' * len(factors)}\n"
        + "\n".join(profiles)
        + "\n"
    )
