"""Solves share nothing: threads, forked and spawned processes all give the results of serial solves."""

import multiprocessing
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import dcfw
from dcfw import align, functions, qap, sets


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


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_solves_in_other_processes_are_those_of_this_one(kind):
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


def test_importing_dcfw_works_without_the_global_interpreter_lock_if_numpy_does():
    code = textwrap.dedent("""
        import sys
        import numpy
        free = not getattr(sys, "_is_gil_enabled", lambda: True)()
        import dcfw
        assert free == (not getattr(sys, "_is_gil_enabled", lambda: True)())
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
