"""Solves for the tests of checkpoints: every method, several sets, step rules, dtypes and array libraries.

Run as a script, ``python checkpoint_cases.py FOLDER PAUSE NAME...``, it solves some of them with a checkpoint
at every outer step, slowed down a little so that a test can kill it on the way.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dcfw
from dcfw import functions, sets, splits
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.block import Block
from dcfw.solvers.cgs import CGS
from dcfw.solvers.graduated import Graduated
from dcfw.solvers.stochastic import SFW, Stochastic

Case = tuple[Any, Any, dict[str, Any]]


def _matrix(n: int, seed: int = 0) -> np.ndarray:
    B = np.random.default_rng(seed).standard_normal((n, n))
    return B + B.T


def quadratic(n: int = 12, dtype: Any = np.float64) -> Any:
    b = np.random.default_rng(1).standard_normal(n).astype(dtype)
    return functions.Quadratic(_matrix(n).astype(dtype), b)


def smooth(n: int = 12) -> Any:
    A = _matrix(n, 3) / 4.0
    return functions.Smooth(
        lambda x: float(np.sin(A @ x).sum() + 0.1 * x @ x),
        lambda x: A.T @ np.cos(A @ x) + 0.2 * x,
        lipschitz=float(np.linalg.norm(A, 2) ** 2 + 0.2),
    )


def split_of_a_square(n: int = 12) -> Any:
    """1/4 ||x + Qx||^2 - 1/4 ||x - Qx||^2 with a permutation Q: the parts' sum is constant on signs."""
    Q = np.roll(np.eye(n), 3, axis=0)
    parts = [
        functions.LeastSquares((np.eye(n) + sign * Q) / np.sqrt(2.0), np.zeros(n)) for sign in (1.0, -1.0)
    ]
    return parts[0] - parts[1]


def qap(n: int = 7) -> Any:
    rng = np.random.default_rng(5)
    A, B = (rng.integers(0, 9, (n, n)).astype(float) for _ in range(2))
    A, B = A + A.T, B + B.T
    H = np.kron(A, B)

    def grad(X: np.ndarray) -> np.ndarray:
        return (H @ X.reshape(-1)).reshape(n, n)

    phi = functions.Smooth(
        lambda X: 0.5 * float(np.vdot(X, grad(X))), grad, lipschitz=float(np.linalg.norm(H, 2))
    )
    return splits.sliding(phi)


def matrix_target(shape: tuple[int, int] = (6, 5), scale: float = 3.0) -> Any:
    target = np.random.default_rng(6).standard_normal(shape)
    f = functions.Smooth(
        lambda X: 0.5 * float(np.sum((X - target) ** 2)), lambda X: X - target, convex=True, lipschitz=1.0
    )
    return f - functions.L2Norm(scale / 8)


def finite_sum(m: int = 60, n: int = 8) -> Any:
    rng = np.random.default_rng(7)
    A = rng.standard_normal((m, n))
    return functions.FiniteSum.least_squares(A, A @ rng.standard_normal(n) + 0.1 * rng.standard_normal(m))


def blocks() -> Any:
    return sets.Product([sets.Simplex(4), sets.L1Ball(5), sets.Box(0.0, 1.0, shape=3)])


def _torch() -> Case:
    import torch

    A = torch.as_tensor(_matrix(10))
    return functions.Quadratic(A, torch.ones(10, dtype=A.dtype)), sets.Simplex(10), {"inner": "blended"}


def _start(domain: Any, seed: int = 2, dtype: Any = np.float64) -> Any:
    return domain.random(np.random.default_rng(seed)).astype(dtype)


CASES: dict[str, Callable[[], Case]] = {
    "dcfw fw simplex": lambda: (quadratic(), sets.Simplex(12), {"inner": "fw"}),
    "dcfw blended simplex": lambda: (quadratic(), sets.Simplex(12), {"inner": "blended"}),
    "dcfw away l1": lambda: (quadratic(), sets.L1Ball(12), {"inner": "away"}),
    "dcfw pairwise cube": lambda: (quadratic(), sets.LInfBall(12), {"inner": "pairwise", "lazy": False}),
    "dcfw cap": lambda: (
        splits.sliding(quadratic(30), 200.0),
        sets.KSparse(30, 8),
        {"inner": ActiveLoop("blended", cap=6), "maxiter": 80},
    ),
    "dcfw blended ksparse": lambda: (quadratic(20), sets.KSparse(20, 5), {"inner": "blended"}),
    "dcfw backtracking": lambda: (splits.sliding(smooth()), sets.L1Ball(12, 3.0), {"step": "backtracking"}),
    "dcfw open loop progress": lambda: (
        quadratic(),
        sets.Simplex(12),
        {"step": "open-loop", "tolerance": "progress", "tol": 1e-3},
    ),
    "dcfw smooth away": lambda: (splits.proximal(smooth()), sets.LInfBall(12), {"inner": "away"}),
    "dcfw descent": lambda: (splits.proximal(smooth()), sets.Simplex(12), {"inner": "descent"}),
    "dcfw adaptive step": lambda: (
        splits.proximal(smooth()),
        sets.LInfBall(12),
        {"inner": "descent", "step": "adaptive"},
    ),
    "dcfw second-order": lambda: (
        functions.LogSumExp(_matrix(12)) - functions.SquaredNorm(0.01),
        sets.L1Ball(12, 3.0),
        {"method": "dcfw", "inner": "second-order"},
    ),
    "dcfw second-order active": lambda: (
        splits.proximal(quadratic()),
        sets.L1Ball(12),
        {"method": "dcfw", "inner": "second-order", "tol": 1e-8},
    ),
    "dcfw in-face cube": lambda: (splits.proximal(smooth()), sets.LInfBall(12), {"inner": "in-face"}),
    "fw in-face birkhoff": lambda: (qap(), sets.Birkhoff(7), {"method": "fw", "inner": "in-face"}),
    "dcfw float32": lambda: (
        quadratic(dtype=np.float32),
        sets.Simplex(12),
        {"tol": 1e-3, "x0": _start(sets.Simplex(12), dtype=np.float32)},
    ),
    "dcfw birkhoff fw": lambda: (qap(), sets.Birkhoff(7), {"inner": "fw", "max_lmo": 3000}),
    "dcfw birkhoff blended": lambda: (qap(), sets.Birkhoff(7), {"inner": "blended"}),
    "dcfw spectral": lambda: (matrix_target(), sets.SpectralBall((6, 5)), {}),
    "dcfw spectral inexact": lambda: (
        matrix_target((60, 50)),
        sets.SpectralBall((60, 50), polar="inexact"),
        {"tol": 1e-2},
    ),
    "dcfw nuclear": lambda: (
        matrix_target((70, 60)),
        sets.SchattenBall((70, 60), 1.0, 3.0),
        {"inner": "away", "maxiter": 15, "max_inner": 30},
    ),
    "dcfw fortran order": lambda: (
        matrix_target(),
        sets.SpectralBall((6, 5)),
        {"x0": np.asfortranarray(0.1 * _matrix(6)[:, :5] / 6)},
    ),
    "dcfw auto": lambda: (splits.sliding(quadratic(), L="auto"), sets.Simplex(12), {}),
    "dcfw auto proximal": lambda: (
        splits.proximal(quadratic(), L="auto"),
        sets.L1Ball(12, 2.0),
        {"step": "backtracking", "inner": "fw", "tol": 1e-3},
    ),
    "dcfw epigraph": lambda: (
        *functions.lift(
            functions.SCAD(0.3) + functions.LeastSquares(_matrix(6), np.ones(6)), sets.L1Ball(6, 4.0)
        ),
        {},
    ),
    "dcfw torch": _torch,
    "boosted": lambda: (splits.sliding(quadratic()), sets.LInfBall(12), {"method": "boosted"}),
    "boosted fw": lambda: (
        splits.sliding(quadratic()),
        sets.L1Ball(12, 3.0),
        {"method": "boosted", "inner": "fw", "tol": 1e-4},
    ),
    "boosted smooth": lambda: (
        splits.sliding(smooth()),
        sets.L2Ball(12, 2.0),
        {"method": "boosted"},
    ),
    "fw simplex": lambda: (quadratic(), sets.Simplex(12), {"method": "fw", "tol": 1e-4}),
    "fw smooth": lambda: (smooth(), sets.L2Ball(12, 2.0), {"method": "fw"}),
    "fw backtracking": lambda: (smooth(), sets.L1Ball(12, 2.0), {"method": "fw", "step": "backtracking"}),
    "fw away lazy": lambda: (smooth(), sets.L1Ball(12, 2.0), {"method": "fw", "inner": "away"}),
    "fw pairwise": lambda: (quadratic(), sets.Simplex(12), {"method": "fw", "inner": "pairwise"}),
    "fw blended": lambda: (quadratic(), sets.KSparse(12, 3), {"method": "fw", "inner": "blended"}),
    "fw birkhoff": lambda: (qap().whole, sets.Birkhoff(7), {"method": "fw"}),
    "fw-k": lambda: (quadratic(), sets.Simplex(12), {"method": "fw-k", "maxiter": 60}),
    "fw-m": lambda: (splits.sliding(smooth()), sets.L1Ball(12, 2.0), {"method": "fw-m", "maxiter": 60}),
    "cgs": lambda: (quadratic(), sets.Simplex(12), {"method": "cgs", "maxiter": 60, "inner": "blended"}),
    "cgs birkhoff": lambda: (qap().whole, sets.Birkhoff(7), {"method": "cgs", "maxiter": 40}),
    "cgs momentum": lambda: (
        quadratic(),
        sets.LInfBall(12),
        {"method": CGS(momentum=True), "maxiter": 40, "inner": "away"},
    ),
    "block": lambda: (quadratic(), blocks(), {"method": "block", "inner": "blended"}),
    "block fw": lambda: (quadratic(), blocks(), {"method": "block", "inner": "fw", "tol": 1e-4}),
    "block backtracking": lambda: (quadratic(), blocks(), {"method": "block", "step": "backtracking"}),
    "block random": lambda: (smooth(), blocks(), {"method": Block("random"), "rng": 3, "tol": 1e-5}),
    "block gap": lambda: (quadratic(), blocks(), {"method": Block("gap", steps=2), "tol": 1e-4}),
    "graduated": lambda: (quadratic(), sets.LInfBall(12), {"method": "graduated", "maxiter": 500}),
    "graduated blended": lambda: (
        quadratic(),
        sets.Simplex(12),
        {"method": "graduated", "inner": "blended", "maxiter": 500},
    ),
    "graduated both": lambda: (
        split_of_a_square(),
        sets.LInfBall(12),
        {"method": Graduated("both", stages=20), "maxiter": 500},
    ),
    "graduated smooth": lambda: (
        smooth(),
        sets.Box(0.0, 1.0, shape=12),
        {"method": Graduated(stages=20), "step": "backtracking", "maxiter": 500},
    ),
    "stochastic": lambda: (
        finite_sum(),
        sets.L1Ball(8, 2.0),
        {"method": Stochastic(batch=5, estimator="storm"), "rng": 1, "maxiter": 80, "tol": 1e-9},
    ),
    "stochastic spider": lambda: (
        finite_sum() - functions.SquaredNorm(0.1),
        sets.Simplex(8),
        {"method": Stochastic(batch=4, estimator="spider"), "rng": 1, "maxiter": 60, "inner": "fw"},
    ),
    "stochastic unseeded": lambda: (
        finite_sum(),
        sets.Simplex(8),
        {"method": SFW(batch=5), "maxiter": 20, "tol": 1e-14},
    ),
    "sfw": lambda: (
        finite_sum(),
        sets.L1Ball(8, 2.0),
        {"method": SFW(batch=5), "rng": 4, "maxiter": 150, "tol": 1e-9},
    ),
}


def solve(name: str, **more: Any) -> dcfw.Result:
    objective, domain, options = CASES[name]()
    if "x0" not in options and name != "dcfw torch":
        options["x0"] = _start(domain)
    limits = {"method": "dcfw", "maxiter": 40, "max_inner": 40}  # with a checkpoint, "auto" is "dcfw"
    return dcfw.minimize(objective, domain, **{**limits, **options, **more})


def differences(a: dcfw.Result, b: dcfw.Result) -> list[str]:
    """Return the names of the fields in which two results are not the same to the last bit."""
    found = []
    for name in sorted(a.keys() | b.keys()):
        if name not in ("time", "total_time") and _plain(a.get(name)) != _plain(b.get(name)):
            found.append(name)
    return found


def _plain(value: Any) -> Any:
    """Return something that can be compared, NaN with NaN and bit for bit."""
    if isinstance(value, dcfw.result.History):
        return {name: value[name].tobytes() for name in value.columns if name != "time"}
    if type(value).__name__ == "ActiveSet":
        return [_plain(value.weights), [atom.key for atom in value.atoms], _plain(value.point())]
    if hasattr(value, "shape"):
        values = np.asarray(value)
        return (type(value), values.dtype, values.shape, values.tobytes())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return repr(value)


if __name__ == "__main__":
    from dcfw.checkpoints import Checkpoint

    folder, pause, *names = sys.argv[1:]
    os.fsync = lambda descriptor: None  # a killed process loses nothing that the system has taken over
    print("ready", flush=True)
    for name in names:
        solve(
            name,
            checkpoint=Checkpoint(f"{folder}/{name}.npz", every=0.0),
            callback=lambda _: time.sleep(float(pause)),
        )
