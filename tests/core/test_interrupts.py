"""Ctrl-C at any line of a solve ends it at a safe point: nothing is lost, the next call is not affected."""

from __future__ import annotations

import math
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dcfw
from dcfw import Status, align, functions, gromov, qap, sets, traffic
from dcfw.solvers import interrupts

RNG = np.random.default_rng(5)
M, N = RNG.standard_normal((2, 6, 6))
A, B = RNG.integers(0, 9, (2, 7, 7))
E1, Y = RNG.standard_normal((2, 3, 12))
SOURCE = str(Path(dcfw.__file__).parent)
DC = functions.Quadratic(M @ M.T) - functions.Quadratic(0.5 * N @ N.T)


def smooth():
    f = functions.Smooth(lambda x: float((x**4).sum()), lambda x: 4 * x**3, lipschitz=12.0, convex=True)
    return f - functions.SquaredNorm(0.5)


DOORS = {
    "minimize": lambda: dcfw.minimize(DC, sets.Simplex(6), restarts=2, rng=0),
    "minimize, smooth": lambda: dcfw.minimize(smooth(), sets.Box(-1.0, 2.0, 4), maxiter=8),
    "qap.solve": lambda: qap.solve(A, B, restarts=2, polish="2opt", rng=0),
    "qap.solve, auto": lambda: qap.solve(A, B, restarts="auto", max_steps=60, rng=0),
    "qap.solve, graduated": lambda: qap.solve(A, B, method="graduated", rng=0),
    "qap.match": lambda: qap.match(A, B, loops="keep", restarts=2, rng=0),
    "align": lambda: align.align(E1, Y, maxiter=5),
    "gromov": lambda: gromov.gromov_wasserstein(np.abs(M + M.T), np.abs(N + N.T), maxiter=4),
    "traffic": lambda: traffic.assign(traffic.braess(), rtol=1e-3),
}
every_door = pytest.mark.parametrize("name", DOORS)


def traced(solve, line=math.inf, presses=1):
    """Return what a solve returns, with Ctrl-C at its n-th line, and the number of its lines."""
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "line" and interrupts._watch.open:
            seen += 1
            if line <= seen < line + presses:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return solve(), seen
    finally:
        sys.settrace(before)


def same(a, b):
    return np.array_equal(a.x, b.x) and a.fun == b.fun and a.status is b.status


def press_at(name, moments):
    solve = DOORS[name]
    solve()  # cached values are computed in the first call only
    undisturbed, lines = traced(solve)
    for line in moments(lines):
        res, _ = traced(solve, line)
        assert res.status is Status.INTERRUPTED, line
        assert not res.success
        assert math.isfinite(res.fun)
        sign = -1 if name == "qap.match" else 1  # match maximises
        assert sign * res.fun >= sign * undisturbed.fun - 1e-9 or "qap" not in name
        assert np.isfinite(np.asarray(res.x)).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same(solve(), undisturbed)


@every_door
def test_ctrl_c_at_any_line_keeps_what_was_found_and_leaves_the_next_call_alone(name):
    press_at(name, lambda lines: [*range(1, lines, max(lines // 8, 1)), lines - 3, lines])


@pytest.mark.slow
@every_door
def test_ctrl_c_at_every_line(name):
    press_at(name, lambda lines: range(1, lines + 1, max(lines // 1000, 1)))


@every_door
def test_a_second_ctrl_c_ends_at_once(name):
    solve = DOORS[name]
    solve()  # cached values are computed in the first call only
    undisturbed, lines = traced(solve)
    for line in range(5, lines - 2, max(lines // 6, 1)):
        with pytest.raises(KeyboardInterrupt):
            traced(solve, line, presses=2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same(solve(), undisturbed)


def test_a_handler_of_the_users_own_and_other_threads_are_left_alone():
    presses = []
    signal.signal(signal.SIGINT, lambda number, frame: presses.append(number))
    try:
        callback = lambda r: signal.raise_signal(signal.SIGINT)  # noqa: E731
        res = dcfw.minimize(DC, sets.Simplex(6), callback=callback)
        assert res.success
        assert presses
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    found = []
    thread = threading.Thread(target=lambda: found.append(DOORS["minimize"]()))
    thread.start()
    thread.join()
    assert same(found[0], DOORS["minimize"]())


def test_ctrl_c_in_a_slow_oracle_is_obeyed_when_it_returns():
    pressed = []

    def grad(x):
        if len(pressed) == 3:
            signal.raise_signal(signal.SIGINT)
        pressed.append(x)
        return 2.0 * x - 1.0

    f = functions.Smooth(lambda x: float(x @ x - x.sum()), grad, lipschitz=2.0, convex=True)
    res = dcfw.minimize(f - functions.SquaredNorm(0.1), sets.Simplex(4), np.eye(4)[0], tol=0.0)
    assert res.status is Status.INTERRUPTED
    assert 4 <= len(pressed) <= 7  # the step under way, and the gap of the point that is returned
    assert not math.isnan(res.gap)
