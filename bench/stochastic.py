"""Stochastic DC-FW against stochastic Frank-Wolfe at equal numbers of samples.

Two kinds of problem, both nonconvex through a DC penalty, lifted to the epigraph of the penalty's norm:

(a) sparse logistic regression with MCP, SCAD, capped l1 or l1 - l2 over an l1 ball: the breast cancer and
    digits data of scikit-learn, and a larger sparse design;
(b) matrix completion with spectral MCP or nuclear minus Frobenius norm over a nuclear-norm ball: a planted
    matrix of rank 5 with noise, and the digits images with half of the pixels hidden.

For each number of epochs both methods choose the best of their settings (estimator, batch, L or step) on one
seed, the peers from the larger menu; the other seeds count.  A figure is the median over
those seeds of phi(x) - phi_best, where phi_best is the smallest value found by any run, including a long
deterministic one.  x is the last iterate computed from at most that many epochs of samples;
evaluations of phi for this measurement are not counted.

    python -m bench stochastic [--full]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dcfw
from dcfw import functions, sets, steps
from dcfw.functions import FiniteSum
from dcfw.solvers.stochastic import SFW, Stochastic

Row = tuple[str, float, float, str]


class Task(NamedTuple):
    """loss + penalty over a ball, the epochs at which values are compared, and options for our inner loop."""

    name: str
    loss: FiniteSum
    penalty: Any
    ball: Any
    marks: tuple[float, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class Decay:
    """The step a / (k + a - 1): open-loop steps with another constant than 2."""

    a: float

    def bind(self, f: Any, domain: Any) -> Any:
        return lambda segment: self.a / (segment.k + self.a - 1.0)


# -- the problems ---------------------------------------------------------------------------------------


def breast_cancer() -> Task:
    from sklearn.datasets import load_breast_cancer

    A, y = load_breast_cancer(return_X_y=True)
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    loss = FiniteSum.logistic(A, 2.0 * y - 1.0)
    return Task(
        "breast cancer, MCP", loss, functions.MCP(0.02, 5.0), sets.L1Ball(30, 10.0), (5, 20), POLYTOPE
    )


def digits() -> Task:
    from sklearn.datasets import load_digits

    A, y = load_digits(return_X_y=True)
    A = (A - A.mean(axis=0)) / np.maximum(A.std(axis=0), 0.5)
    loss = FiniteSum.logistic(A, 2.0 * (y % 2) - 1.0)
    return Task("digits (odd), SCAD", loss, functions.SCAD(0.01), sets.L1Ball(64, 10.0), (5, 20), POLYTOPE)


def sparse_design(m: int, n: int, penalty: Any) -> Task:
    rng = np.random.default_rng(1)
    A = sp.random_array((m, n), density=0.02, rng=rng, data_sampler=rng.standard_normal, format="csr")
    truth = np.zeros(n)
    truth[rng.choice(n, 20, replace=False)] = rng.choice([-4.0, 4.0], 20)
    y = np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-3.0 * (A @ truth))), 1.0, -1.0)
    name = f"sparse design {m} x {n}, {type(penalty).__name__}"
    return Task(name, FiniteSum.logistic(A, y), penalty, sets.L1Ball(n, 80.0), (3, 10), POLYTOPE)


def planted(rows: int, cols: int, penalty: Any) -> Task:
    rng = np.random.default_rng(2)
    truth = rng.standard_normal((rows, 5)) @ rng.standard_normal((5, cols)) / np.sqrt(5.0)
    observed = rng.random((rows, cols)) < 0.3
    return _completion(f"planted {rows} x {cols}", truth, observed, 0.1, penalty, rng)


def images(penalty: Any) -> Task:
    from sklearn.datasets import load_digits

    X = load_digits(return_X_y=True)[0][:300] / 16.0
    rng = np.random.default_rng(3)
    return _completion("digits images 300 x 64", X, rng.random(X.shape) < 0.5, 0.0, penalty, rng)


def _completion(
    name: str, X: np.ndarray, observed: np.ndarray, noise: float, penalty: Any, rng: np.random.Generator
) -> Task:
    i, j = np.nonzero(observed)
    loss = FiniteSum.completion(X.shape, i, j, X[i, j] + noise * rng.standard_normal(len(i)))
    ball = sets.NuclearBall(X.shape, 1.2 * float(np.linalg.svd(X, compute_uv=False).sum()))
    return Task(f"{name}, {penalty!r}", loss, penalty, ball, (3, 10), MATRICES)


POLYTOPE = {"inner": "blended", "tolerance": "progress"}
MATRICES = {"inner": "fw", "tolerance": "progress", "max_inner": 10}


def tasks(full: bool) -> Iterator[Task]:
    yield breast_cancer()
    yield digits()
    yield planted(60, 40, functions.MCP(0.005, 2000.0, spectral=True))
    if full:
        yield sparse_design(20_000, 1000, functions.CappedL1(0.003, 2.0))
        yield planted(100, 80, functions.MCP(0.002, 2000.0, spectral=True))
        yield images(functions.L1MinusL2(0.001, spectral=True))


# -- the methods ----------------------------------------------------------------------------------------


MULTIPLES = (1.0, 0.3, 0.15, 0.1, 0.03)


def sampling(task: Task, full: bool) -> list[tuple[int, float, str]]:
    """Return initial batch sizes, growth factors and estimators, the same for both methods."""
    m = task.loss.m
    sizes = ((m // 16, 1.0), (m // 64, 1.05)) + (((m // 128, 1.05),) if full else ())
    return [(*size, estimator) for size, estimator in itertools.product(sizes, ("momentum", "spider"))]


def ours(task: Task, full: bool) -> list[Stochastic]:
    """Return our menu: L by its default rule, and multiples of the loss's constant."""
    L = task.loss.lipschitz
    constants = (None, *(multiple * L for multiple in MULTIPLES))
    return [
        Stochastic(*sample, task.marks[-1], certify=False, L=constant)
        for sample, constant in itertools.product(sampling(task, full), constants)
    ]


def rivals(task: Task, full: bool) -> list[SFW]:
    """Return the peers' menu: open-loop steps of four kinds, short ones for multiples of the constant."""
    L = task.loss.lipschitz
    short = [steps.Short(multiple * L) for multiple in MULTIPLES]
    rules = ("open-loop", Decay(0.7), Decay(1.0), Decay(4.0), *short)
    return [
        SFW(*sample, task.marks[-1], certify=False, step=rule)
        for sample, rule in itertools.product(sampling(task, full), rules)
    ]


def values(task: Task, method: Any, seed: int) -> list[float]:
    """Return phi at the last iterates made from at most as many epochs of samples as the marks say."""
    phi = task.loss + task.penalty
    objective, domain = functions.lift(phi, task.ball)
    made: list[Any] = [None] * len(task.marks)
    spent = 0.0

    def watch(intermediate: Any) -> None:
        nonlocal spent
        for place, mark in enumerate(task.marks):
            if spent <= mark:
                made[place] = intermediate.x
        spent = intermediate.epochs  # the samples that were drawn at x, for the next iterate

    options = task.options if isinstance(method, Stochastic) else {}
    dcfw.minimize(
        objective, domain, method=method, rng=seed, tol=0.0, maxiter=10**6, callback=watch, **options
    )
    return [phi.value(domain.point(x)) for x in made]


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    seeds = range(1, 6 if full else 4)
    for task in tasks(full):
        phi = task.loss + task.penalty
        objective, domain = functions.lift(phi, task.ball)
        long = dcfw.minimize(objective, domain, maxiter=300, max_inner=100, time_limit=10.0 if full else 2.0)
        least = phi.value(domain.point(long.x))
        rows = []
        menus = [ours(task, full), rivals(task, full)]
        trials = [np.array([values(task, method, seed=0) for method in menu]) for menu in menus]
        done: dict[Any, np.ndarray] = {}
        for place, mark in enumerate(task.marks):
            chosen = [menu[int(tried[:, place].argmin())] for menu, tried in zip(menus, trials, strict=True)]
            for method in set(chosen) - set(done):
                done[method] = np.array([values(task, method, seed) for seed in seeds])
            rows.append((mark, chosen, [done[method][:, place] for method in chosen]))
        least = min(
            least, *(float(tried.min()) for tried in trials), *(float(r.min()) for r in done.values())
        )
        for mark, chosen, (mine, theirs) in rows:
            wins = f"better on {(mine < theirs).sum()} of {len(seeds)} seeds"
            unit = f"excess, {wins}: {_say(chosen[0])} vs {_say(chosen[1])}"
            yield (
                f"{task.name}: {mark:g} epochs",
                float(np.median(mine)) - least,
                float(np.median(theirs)) - least,
                unit,
            )


def _say(method: Any) -> str:
    step = method.step if isinstance(method, SFW) else "L(b)" if method.L is None else f"L={method.L:.3g}"
    return f"{method.estimator} {method.batch} x {method.growth:g} {step}"
