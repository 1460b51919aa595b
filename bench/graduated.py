"""Graduated DC-FW against Frank-Wolfe restarts at equal CPU time, both with the same local search.

- **max-cut**, 17 instances of the be, bqp and G sets with best known cuts (``DCFW_DATA``): min x'Wx/4 over
  the cube; flips of one sign;
- **maximum clique**, ten generated graphs: min -x'Ax/2 over the k-subsets, k one more than the largest clique
  so far; flips of one node, which remove conflicts and end at a maximal clique;
- **densest k-subgraph**, five generated graphs: min -x'Ax/2 over the k-subsets; exchanges of two nodes.

Frank-Wolfe starts from random points and takes at most 50 steps, which was better at equal time than 1000 on
other generated graphs.  Times are CPU seconds for each instance and method, including local search and
spectrum.  Some choices were made on these instances, as results/graduated/README.md explains.  The lines
"unseen" are other generated instances of the same kinds, on which nothing was chosen; their cuts are measured
against the better of the two.

    DCFW_DATA=... python -m bench graduated [--full]
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import dcfw
from dcfw import functions, sets
from dcfw.data import find
from dcfw.solvers.graduated import Graduated

SECONDS = 0.5
FULL_SECONDS = 3.0
FW_STEPS = 50


@dataclass(frozen=True)
class Task:
    """A problem over the vertices of a set, with a local search among them."""

    name: str
    phi: functions.Quadratic
    domain: Any
    search: Callable[[np.ndarray], np.ndarray]
    best: float
    """The best value known, infinite if there is none."""


def flips(H: np.ndarray, b: np.ndarray, low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a descent that moves the best single entry from one bound to the other while phi falls."""
    diagonal = H.diagonal()

    def search(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        slope = H @ x + b
        while True:
            d = low + high - 2.0 * x
            change = d * slope + 0.5 * d * d * diagonal
            i = int(change.argmin())
            if change[i] > -1e-9:
                return x
            x[i] += d[i]
            slope += d[i] * H[i]

    return search


def exchanges(A: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a descent on -x'Ax/2 that exchanges the best pair of a chosen and another node."""

    def search(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        degree = A @ x
        while True:
            inside, outside = np.flatnonzero(x > 0.5), np.flatnonzero(x <= 0.5)
            gain = degree[outside] - degree[inside][:, None] - A[np.ix_(inside, outside)]
            at = np.unravel_index(int(gain.argmax()), gain.shape)
            if gain[at] < 0.5:
                return x
            i, j = inside[at[0]], outside[at[1]]
            x[i], x[j] = 0.0, 1.0
            degree += A[j] - A[i]

    return search


def max_cuts() -> Iterator[Task]:
    folder = find("maxcut")
    with (folder / "best_known.csv").open() as file:
        known = list(csv.DictReader(file))
    for row in known:
        n, edges = int(row["n"]), np.loadtxt(folder / row["file"], skiprows=1, ndmin=2)
        i, j = edges[:, :2].astype(int).T - 1
        W = np.zeros((n, n))
        np.add.at(W, (i, j), edges[:, 2])
        W += W.T
        H = 0.5 * W
        sparse = np.count_nonzero(W) < 0.3 * n * n
        phi = functions.Quadratic(sp.csr_array(H) if sparse else H)
        search = flips(H, np.zeros(n), -1.0, 1.0)
        # The cut is sum(W)/4 - phi.
        best = 0.25 * float(W.sum()) - float(row["best_cut"])
        yield Task(row["file"].removesuffix(".mc"), phi, sets.LInfBall(n), search, best)


def graph(n: int, density: float, planted: int, seed: int) -> np.ndarray:
    """Return the adjacency of a random graph, with a clique planted among its first nodes."""
    A = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1)
    A[:planted, :planted] |= np.triu(np.ones((planted, planted), dtype=bool), 1)
    return (A | A.T).astype(float)


def unseen_cuts() -> Iterator[Task]:
    """Yield dense cuts of random weights, as of the be and bqp sets, and toroidal grids of signs, as G32."""
    for seed, (n, kind) in enumerate(
        ((150, "dense"), (250, "dense"), (400, "dense"), (400, "torus"), (900, "torus"))
    ):
        rng = np.random.default_rng(900 + seed)
        if kind == "dense":
            W = np.triu(rng.integers(-50, 51, (n, n)) * (rng.random((n, n)) < 0.3), 1).astype(float)
        else:
            side, W = math.isqrt(n), np.zeros((n, n))
            at = np.arange(n).reshape(side, side)
            for axis in (0, 1):
                W[at.ravel(), np.roll(at, 1, axis).ravel()] = rng.choice((-1.0, 1.0), n)
        W += W.T
        phi = functions.Quadratic(sp.csr_array(0.5 * W) if kind == "torus" else 0.5 * W)
        search = flips(0.5 * W, np.zeros(n), -1.0, 1.0)
        yield Task(f"unseen, {kind}, n = {n}", phi, sets.LInfBall(n), search, math.inf)


def cliques(first: int = 100) -> Iterator[tuple[str, np.ndarray]]:
    cases = [(150, 0.5, 0), (200, 0.5, 0), (250, 0.7, 0), (300, 0.5, 0), (400, 0.3, 0)]
    cases += [(150, 0.5, 13), (200, 0.5, 14), (250, 0.7, 26), (300, 0.5, 17), (400, 0.5, 20)]
    for seed, (n, density, planted) in enumerate(cases):
        kind = f"planted {planted}" if planted else "unplanted"
        yield f"n = {n}, {density:g}, {kind}", graph(n, density, planted, first + seed)


def dense_subgraphs(first: int = 200) -> Iterator[Task]:
    cases = [(200, 20, 0.3), (300, 30, 0.2), (400, 20, 0.1), (500, 50, 0.2), (800, 40, 0.05)]
    for seed, (n, k, density) in enumerate(cases):
        A = graph(n, density, 0, first + seed)
        A[:k, :k] = np.maximum(A[:k, :k], graph(k, density + 0.25, 0, first + 100 + seed))
        phi = functions.Quadratic(-A)
        yield Task(f"n = {n}, k = {k}", phi, sets.Hypersimplex(n, k), exchanges(A), math.inf)


Found = Callable[[np.ndarray], bool]
"""Called with every vertex after the local search; returns whether to stop."""


def graduated(task: Task, found: Found, restarts: int, seed: int) -> None:
    """Follow paths, the first from the convex stage and the others from random points."""
    over = False

    def polish(x: np.ndarray) -> np.ndarray:
        nonlocal over
        x = task.search(x)
        over = over or found(x)
        return x

    def stop(intermediate_result: Any) -> None:
        if over or found(intermediate_result.x):
            raise StopIteration

    method = Graduated(polish=polish)
    res = dcfw.minimize(task.phi, task.domain, method=method, restarts=restarts, callback=stop, rng=seed)
    found(task.search(res.x))


def frank_wolfe(task: Task, found: Found, restarts: int, seed: int) -> None:
    """Run Frank-Wolfe from random starts, each followed by local search from the nearest vertex."""
    rng = np.random.default_rng(seed)
    for _ in range(restarts):
        start = task.domain.random(rng)
        res = dcfw.minimize(task.phi, task.domain, start, method="fw", maxiter=FW_STEPS)
        if found(task.search(task.domain.lmo(task.domain.spheres().centre - res.x))):
            return


def best_value(task: Task, solver: Any, seconds: float) -> float:
    """Return the least value within ``seconds``."""
    end, best = time.process_time() + seconds, math.inf

    def found(x: np.ndarray) -> bool:
        nonlocal best
        best = min(best, task.phi.value(x))
        return time.process_time() >= end

    solver(task, found, 10**6, 0)
    return best


def largest_clique(A: np.ndarray, solver: Any, seconds: float) -> int:
    """Return the size of the largest clique within ``seconds``, looking for one more node each time."""
    n, end = len(A), time.process_time() + seconds
    # At a minimum with respect to flips no chosen node has a conflict, and every other one has.
    search = flips(2.0 * (1.0 - A - np.eye(n)), -np.ones(n), 0.0, 1.0)
    phi, most = functions.Quadratic(-A), int(search(np.zeros(n)).sum())

    def found(x: np.ndarray) -> bool:
        nonlocal most
        size = int(x.sum())
        if most < size and x @ A @ x == size * (size - 1):
            most = size
        return most > before or time.process_time() >= end

    for seed in range(n):
        if time.process_time() >= end:
            break
        before = most
        solver(Task("", phi, sets.Hypersimplex(n, most + 1), search, math.inf), found, 10**6, seed)
    return most


def run(full: bool) -> Iterator[tuple[str, float, float, str]]:
    seconds = FULL_SECONDS if full else SECONDS
    solvers = (graduated, frank_wolfe)
    errors = []
    for task in max_cuts():
        cut = 0.5 * float(task.phi.A.sum()) - task.best
        errors.append([100.0 * (best_value(task, solver, seconds) - task.best) / cut for solver in solvers])
        yield f"max-cut {task.name}, {seconds:g} s", *errors[-1], "% error"
    ours, peer = np.mean(errors, axis=0)
    yield f"max-cut, mean of {len(errors)}, {seconds:g} s", float(ours), float(peer), "% error"
    for task in unseen_cuts():
        cut = [0.5 * float(task.phi.A.sum()) - best_value(task, solver, seconds) for solver in solvers]
        yield _short(f"max-cut {task.name}", cut, seconds, "short")
    for label, first in (("", 100), (" unseen", 500)):
        for name, A in cliques(first):
            pair = [float(largest_clique(A, solver, seconds)) for solver in solvers]
            yield _short(f"clique{label} {name}", pair, seconds, "nodes short")
    for label, first in (("", 200), (" unseen", 600)):
        for task in dense_subgraphs(first):
            pair = [-best_value(task, solver, seconds) for solver in solvers]
            yield _short(f"densest{label} {task.name}", pair, seconds, "edges short")


def _short(name: str, pair: list[float], seconds: float, unit: str) -> tuple[str, float, float, str]:
    """Return a row with the difference of each to the larger one."""
    most = max(pair)
    label = f"{name}: {pair[0]:g} against {pair[1]:g}, {seconds:g} s"
    return label, most - pair[0], most - pair[1], unit
