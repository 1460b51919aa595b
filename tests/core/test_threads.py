"""Solves share nothing: threads, forked and spawned processes all give the results of serial solves."""

import multiprocessing
import os
import subprocess
import sys
import sysconfig
import textwrap
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

import dcfw
from dcfw import align, functions, qap, sets, splits


def quadratic(seed):
    rng = np.random.default_rng(seed)
    M, N = rng.standard_normal((2, 15, 15))
    dc = functions.Quadratic(M @ M.T) - functions.Quadratic(N @ N.T)
    res = dcfw.minimize(dc, sets.Simplex(15), tol=1e-6)
    return res.x.tobytes(), res.n_lmo, res.fun


def assignment(seed):
    problem = qap.generators.nugent((3, 4), rng=seed)
    res = qap.solve(problem.A, problem.B, restarts=3, polish="2opt", rng=seed)
    return res.permutation.tobytes(), res.fun, res.relaxed.tobytes()


def vanilla_assignment(seed):
    problem = qap.generators.taillard_uniform(10, rng=seed)
    res = qap.solve(problem.A, problem.B, split="paper", inner="fw", max_lmo=2000, rng=seed)
    return res.permutation.tobytes(), res.n_lmo


def birkhoff(seed):
    Y = np.random.default_rng(seed).standard_normal((12, 12))
    phi = functions.Smooth(lambda X: 0.5 * float(((X - Y) ** 2).sum()), lambda X: X - Y, lipschitz=1.0)
    res = dcfw.minimize(phi, sets.Birkhoff(12), maxiter=30, tol=1e-8)
    return res.x.tobytes(), res.n_lmo


def alignment(seed):
    rng = np.random.default_rng(seed)
    E1 = rng.standard_normal((8, 60))
    Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    res = align.align(E1, Q @ E1, rng.random((8, 60)) < 0.4, maxiter=30)
    return res.x.tobytes(), res.rotation.tobytes()


SOLVES = (quadratic, assignment, vanilla_assignment, birkhoff, alignment)


@pytest.mark.parametrize("solve", SOLVES, ids=lambda solve: solve.__name__)
def test_solves_in_eight_threads_at_once_are_the_serial_ones(solve):
    seeds = list(range(8))
    serial = [solve(seed) for seed in seeds]
    ready = threading.Barrier(8)

    def together(seed):
        ready.wait()
        return solve(seed)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(together, seeds)) == serial


def shared_solves():
    """Solves of objects that cache something: norms, eigenvectors, packed matrices."""
    rng = np.random.default_rng(1)
    M, N = rng.standard_normal((2, 15, 15))
    E1, Y = rng.standard_normal((2, 8, 60))
    A, B = rng.integers(0, 9, (2, 10, 10))
    G = sparse.random(30, 30, 0.2, random_state=1, format="csr")
    dc = functions.Quadratic(M @ M.T) - functions.Quadratic(N @ N.T)
    indefinite = splits.spectral(functions.Quadratic(M + M.T))
    simplex = sets.Simplex(15)
    polytope = sets.Polytope(np.ones((1, 15)), np.ones(1), bounds=(0.0, 0.5))
    ball, product = sets.SpectralBall((8, 8)), sets.Product([sets.Simplex(7), sets.L1Ball(8)])
    loss = functions.LeastSquares(M, N[0])
    square = functions.Smooth(
        lambda X: 0.5 * float(((X - E1[:, :8]) ** 2).sum()), lambda X: X - E1[:, :8], 1.0
    )
    return {
        "simplex": lambda: dcfw.minimize(dc, simplex, tol=1e-6).x,
        "polytope": lambda: dcfw.minimize(indefinite, polytope, tol=1e-6).x,
        "matrices": lambda: dcfw.minimize(square, ball, maxiter=20, tol=1e-9).x,
        "blocks": lambda: np.concatenate(
            dcfw.minimize(loss, product, method="block", maxiter=30).x, axis=None
        ),
        "penalty": lambda: (
            dcfw.minimize(*functions.lift(loss + functions.MCP(0.1), sets.L1Ball(15)), tol=1e-4).fun
        ),
        "assignment": lambda: qap.solve(A, B, restarts=2, polish="2opt", rng=0).relaxed,
        "sparse": lambda: qap.solve(G, G, split="spectral", rng=0).relaxed,
        "alignment": lambda: align.align(E1, Y, maxiter=20).rotation,
    }


SHARED = ("simplex", "polytope", "matrices", "blocks", "penalty", "assignment", "sparse", "alignment")


@pytest.mark.parametrize("name", SHARED)
def test_one_problem_solved_by_eight_threads_at_once_has_one_result(name):
    """The objects are not used before the threads start, so that all of them fill the same caches."""
    ready = threading.Barrier(8)

    def together(solve):
        ready.wait()
        return np.asarray(solve()).tobytes()

    expected = np.asarray(shared_solves()[name]()).tobytes()
    solve = shared_solves()[name]
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(together, [solve] * 8)) == {expected}


def test_a_sum_that_two_threads_use_with_points_of_two_shapes_keeps_them_apart():
    f = functions.SquaredNorm(1.0) + functions.SquaredNorm(2.0)
    both_kept = threading.Barrier(2)

    class Watched(type(f)):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            both_kept.wait(60.0)

    f.__class__ = Watched
    points = [np.ones(3), np.ones((2, 2))]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda x: f.value_from_grad(x, f.grad(x)), points)) == [4.5, 6.0]


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_solves_in_other_processes_are_those_of_this_one(kind):
    if kind == "fork" and "jax" in sys.modules:
        pytest.skip("JAX has threads of its own and warns of every fork")
    if kind not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {kind} processes")
    serial = [solve(3) for solve in SOLVES]
    with warnings.catch_warnings():
        # Python 3.12 warns of forks in processes with threads, which the test runner has.
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(kind)) as pool:
            assert [pool.submit(solve, 3).result() for solve in SOLVES] == serial


@pytest.mark.parametrize("solve", SOLVES, ids=lambda solve: solve.__name__)
def test_a_solve_neither_reads_nor_changes_global_random_state_or_error_settings(solve):
    np.random.seed(1)  # noqa: NPY002 - the global generator is what the test is about
    before, errors = np.random.get_state()[1].copy(), np.geterr()  # noqa: NPY002
    first = solve(0)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert np.geterr() == errors
    np.random.seed(2)  # noqa: NPY002
    assert solve(0) == first


def test_dcfw_keeps_python_free_of_the_global_interpreter_lock_if_its_dependencies_do():
    """Import everything and solve; where the interpreter has the lock anyway, only check that this works."""
    code = textwrap.dedent("""
        import sys
        import joblib, numpy, rich, scipy.optimize, typer

        locked = getattr(sys, "_is_gil_enabled", lambda: True)
        before = locked()
        import dcfw, dcfw.align, dcfw.cli, dcfw.qap

        problem = dcfw.qap.generators.nugent((2, 3), rng=0)
        dcfw.qap.solve(problem.A, problem.B, polish="2opt", rng=0)
        assert locked() == before
        print("with" if before else "without", "the lock")
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    free = sysconfig.get_config_var("Py_GIL_DISABLED") and os.environ.get("PYTHON_GIL") != "1"
    assert done.stdout.split()[0] == ("without" if free else "with")
