"""A user's function that fails at any of its calls, in every public solver beside ``dcfw.minimize``.

The best result so far comes with the exception, in the user's units; Ctrl-C ends the solve with it; the next
call is not affected.  (``minimize`` itself is in ``test_faults.py``, Ctrl-C at any line in
``test_interrupts.py``.)
"""

from __future__ import annotations

import itertools
import math

import networkx
import numpy as np
import pytest

from dcfw import Status, align, gromov, qap, traffic

RNG = np.random.default_rng(8)
A, B = RNG.integers(0, 9, (2, 8, 8))
E1, Y = RNG.standard_normal((2, 3, 12))
D1, D2 = (np.abs(M + M.T) for M in RNG.random((2, 5, 5)))


class Broken(Exception):
    pass


class Failing:
    """A function that works until its call number ``at``, and then raises ``error``."""

    def __init__(self, at=math.inf, error=None, answer=lambda *given: None):
        self.at, self.error, self.answer, self.calls = at, error, answer, 0

    def __call__(self, *given):
        self.calls += 1
        if self.calls >= self.at:
            raise self.error
        return self.answer(*given)


def ticking():
    """Return a clock that moves by a ten-thousandth of a second at every reading."""
    ticks = itertools.count()
    return lambda: 1e-4 * next(ticks)


def search(clock):
    return qap.solve(A, B, restarts="auto", time_limit=0.05, clock=clock, rng=0)


CALLBACKS = {
    "qap.solve": lambda f: qap.solve(A, B, callback=f, rng=0),
    "qap.solve, maximised": lambda f: qap.solve(A, B, maximize=True, callback=f, restarts=2, rng=0),
    "qap.solve, a pair": lambda f: qap.solve(A, B, partial_match=[[1, 2]], callback=f, polish="2opt", rng=0),
    "qap.solve, sparse": lambda f: qap.solve(A * (A > 5), B, method="fw", callback=f, rng=0),
    "qap.solve, auto": lambda f: qap.solve(A, B, restarts="auto", max_steps=200, callback=f, rng=0),
    "qap.match": lambda f: qap.match(A, B, loops="keep", method="dcfw", callback=f, rng=0),
    "align": lambda f: align.align(E1, Y, maxiter=6, callback=f),
    "gromov": lambda f: gromov.gromov_wasserstein(D1, D2, callback=f, maxiter=5),
    "traffic": lambda f: traffic.assign(traffic.braess(), rtol=1e-6, callback=f),
}
every_door = pytest.mark.parametrize("name", CALLBACKS)


def moments(calls):
    return range(1, calls + 1, max(calls // 8, 1))


def same(a, b):
    return np.array_equal(a.x, b.x) and a.fun == b.fun and a.status is b.status


@every_door
def test_an_exception_at_any_call_of_a_callback_carries_what_was_found(name):
    solve, counting = CALLBACKS[name], Failing()
    undisturbed = solve(counting)
    assert counting.calls > 1
    for at in moments(counting.calls):
        error = Broken("out of order")
        with pytest.raises(Broken) as caught:
            solve(Failing(at, error))
        assert caught.value is error
        found = error.intermediate_result
        assert np.asarray(found.x).shape == np.asarray(undisturbed.x).shape
        assert math.isfinite(found.fun)
        if "qap" in name:
            data = (A * (A > 5), B) if "sparse" in name else (A, B)
            assert found.fun == pytest.approx(qap.evaluate(*data, found.permutation), rel=1e-12)
            assert "pair" not in name or found.permutation[1] == 2
    assert same(solve(Failing()), undisturbed)


@every_door
@pytest.mark.parametrize("error", [KeyboardInterrupt, StopIteration])
def test_ctrl_c_or_stop_iteration_in_a_callback_ends_the_solve_with_what_was_found(name, error):
    solve, counting = CALLBACKS[name], Failing()
    undisturbed = solve(counting)
    for at in moments(counting.calls):
        res = solve(Failing(at, error()))
        expected = Status.INTERRUPTED if error is KeyboardInterrupt else Status.CALLBACK
        assert res.status is expected, at
        assert not res.success
        assert math.isfinite(res.fun)
        if "qap" in name:
            assert sorted(res.permutation) == list(range(8))
    assert same(solve(Failing()), undisturbed)


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_a_clock_that_fails_in_a_search_loses_nothing(error):
    counting = Failing(answer=ticking())
    search(counting)
    for at in (2, counting.calls // 2, counting.calls - 1):
        clock = Failing(at, error("mine"), ticking())
        if error is Broken:
            with pytest.raises(Broken) as caught:
                search(clock)
            found = getattr(caught.value, "intermediate_result", None)
        else:
            try:
                found = search(clock)
            except KeyboardInterrupt:
                found = None
        assert found is None or found.fun == qap.evaluate(A, B, found.permutation)
        assert found is not None or at == 2  # the first looks at the clock are before the first start
    assert search(ticking()).fun <= qap.solve(A, B, rng=0).fun


def test_a_similarity_that_fails_reaches_the_caller_and_leaves_the_next_call_alone():
    one, two = networkx.path_graph(5), networkx.cycle_graph(5)
    solve = lambda f: qap.match(one, two, similarity=f, rng=0)  # noqa: E731
    counting = Failing(answer=lambda *nodes: 1.0)
    undisturbed = solve(counting)
    for at in moments(counting.calls):
        error = Broken("mine")
        with pytest.raises(Broken) as caught:
            solve(Failing(at, error, lambda *nodes: 1.0))
        assert caught.value is error
    again = solve(Failing(answer=lambda *nodes: 1.0))
    assert again.fun == undisturbed.fun
    assert np.array_equal(again.permutation, undisturbed.permutation)


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["DCFW", "SFW", "Scion"])
def test_a_closure_that_fails_leaves_weights_and_state_of_a_network_as_they_were(error, kind):
    torch = pytest.importorskip("torch")
    from dcfw import torch as layers

    weights = [torch.nn.Parameter(0.1 * torch.eye(3)), torch.nn.Parameter(0.1 * torch.eye(4)[:2])]
    grouped = [{"params": weights, "constraint": "spectral"}]
    optimizer = getattr(layers, kind)(grouped if kind == "Scion" else weights)

    def closure():
        optimizer.zero_grad()
        loss = sum((w - 1.0).square().sum() for w in weights)
        loss.backward()
        return loss

    for at in (1, 2, 4):
        failing = Failing(at, error("mine"), closure)
        for _ in range(at - 1):
            optimizer.step(failing)
        before = [w.detach().clone() for w in weights]
        with pytest.raises(error):
            optimizer.step(failing)
        assert all(torch.equal(w, old) for w, old in zip(weights, before, strict=True))
        optimizer.step(closure)
        assert all(torch.isfinite(w).all() for w in weights)
