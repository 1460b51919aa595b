"""Long vectors: peak memory and seconds at n = 1,000,000, sparse designs (1000 x n, ten entries per column).

Each row is a separate process that generates the data and solves to 1e-3 of the first gap or 200 oracle
calls.  The peer's column is our memory target, 1 GiB.  The quadratic is indefinite, with a matrix of
five entries per row.

The last row is a polytope with 2000 rows and 1000 columns: seconds for ten vertices of slowly changing costs,
with an oracle that keeps its simplex basis (extra ``lp``) and with ``scipy.optimize.linprog``.

    python -m bench scale
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from time import process_time

import numpy as np
from scipy.sparse import csr_array, random_array

import dcfw
from dcfw import functions, sets

Row = tuple[str, float, float, str]
DOMAINS = {
    "simplex": lambda n: sets.Simplex(n),
    "l1 ball": lambda n: sets.L1Ball(n, radius=20.0),
    "k-sparse": lambda n: sets.KSparse(n, k=10, radius=2.0),
}
LOSSES = ("least squares", "logistic", "minus l2", "quadratic")


def solve(loss: str, domain: str, n: int = 1_000_000, m: int = 1000) -> None:
    """Print peak memory, seconds, oracle calls and status."""
    rng = np.random.default_rng(0)
    if loss == "quadratic":
        _report(functions.Quadratic(_banded(rng, n), rng.standard_normal(n)), DOMAINS[domain](n))
        return
    rows, cols = rng.integers(0, m, 10 * n, dtype=np.int32), np.repeat(np.arange(n, dtype=np.int32), 10)
    A = csr_array((rng.standard_normal(10 * n) / np.sqrt(10.0), (rows, cols)), shape=(m, n))
    del rows, cols
    x = np.zeros(n)
    x[rng.choice(n, 20, replace=False)] = 1.0
    y = A @ x + 0.01 * rng.standard_normal(m)
    objective: functions.Function = functions.LeastSquares(A, y)
    if loss == "logistic":
        objective = functions.LogisticLoss(A, np.where(y > 0.0, 1.0, -1.0))
    elif loss == "minus l2":
        objective = objective - 0.1 * functions.L2Norm()
    _report(objective, DOMAINS[domain](n))


def _banded(rng: np.random.Generator, n: int) -> csr_array:
    """Return a symmetric matrix with entries on the diagonal and beside it."""
    from scipy.sparse import diags_array

    bands = [rng.standard_normal(n - k) for k in range(3)]
    return csr_array(diags_array([*bands, *bands[1:]], offsets=[0, 1, 2, -1, -2], shape=(n, n)))


def _report(objective: functions.Function, domain: sets.Set) -> None:
    started = process_time()
    result = dcfw.minimize(objective, domain, rtol=1e-3, max_lmo=200)
    seconds = process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{peak:.3f}|{seconds:.1f} s, {result.n_lmo} calls, {result.status.name}")


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    for loss in LOSSES:
        for domain in DOMAINS:
            code = f"from bench import scale; scale.solve({loss!r}, {domain!r})"
            answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            peak, told = answer.stdout.strip().split("|")
            yield f"{loss}, {domain}, n = 1,000,000: peak memory", float(peak), 1.0, f"GiB ({told})"
    yield polytope_row()


def polytope_row(m: int = 2000, n: int = 1000) -> Row:
    rng = np.random.default_rng(0)
    A = csr_array(random_array((m, n), density=0.01, rng=rng, data_sampler=lambda size: rng.random(size)))
    domain = sets.Polytope(A, np.ones(m), bounds=(0.0, 1.0))
    oracle, c, taken = domain.oracle(), -rng.random(n), [0.0, 0.0]
    oracle(c)
    for _ in range(10):
        c = c * (1.0 + 0.05 * rng.standard_normal(n))
        for k, answer in enumerate((lambda c: oracle(c).dense(), domain.lmo)):
            started = process_time()
            answer(c)
            taken[k] += process_time() - started
    return f"polytope, {m} rows: ten vertices", taken[0], taken[1], "s"
