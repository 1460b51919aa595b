"""When something outside the solver breaks: the cause is named, finished work is kept, the next run is fresh.

The same small problem is solved by every method with functions and a set that count their calls, and that
break in one of them: the first, the second, ... up to the last call of an undisturbed run.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import dcfw
from dcfw import Status, functions, minimize, sets, splits

H = np.array([[2.0, 0.4, 0.1], [0.4, 1.5, -0.3], [0.1, -0.3, 1.2]])
K = np.array([[0.6, 0.1, 0.0], [0.1, 0.9, 0.2], [0.0, 0.2, 0.7]])
SLOPE = np.array([-0.7, 0.3, 0.2])
X0 = np.array([0.5, 0.3, 0.2])

METHODS = {
    "dcfw, fw": {"method": "dcfw", "inner": "fw"},
    "dcfw, away": {"method": "dcfw", "inner": "away"},
    "dcfw, pairwise": {"method": "dcfw", "inner": "pairwise"},
    "dcfw, blended": {"method": "dcfw", "inner": "blended"},
    "dcfw, backtracking": {"method": "dcfw", "inner": "fw", "step": "backtracking"},
    "boosted": {"method": "boosted", "inner": "fw"},
    "boosted, blended": {"method": "boosted", "inner": "blended"},
    "auto": {"method": "dcfw", "inner": "fw", "split": splits.proximal},
    "block": {"method": "block", "inner": "fw"},
    "fw": {"method": "fw", "inner": "fw"},
    "fw-k": {"method": "fw-k"},
    "fw-m": {"method": "fw-m"},
    "cgs": {"method": "cgs"},
    "graduated": {"method": "graduated"},
    "graduated, blended": {"method": "graduated", "inner": "blended"},
}
every_method = pytest.mark.parametrize("name", METHODS)
every_smoothness = pytest.mark.parametrize("affine", [True, False], ids=["quadratic", "smooth"])


@dataclass
class Calls:
    """Counts the calls of all oracles together; in the n-th one, ``act(kind, answer)`` takes over."""

    n: float = math.inf
    act: Any = None
    made: list[str] = field(default_factory=list)

    def answer(self, kind: str, compute: Any) -> Any:
        self.made.append(kind)
        return self.act(kind, compute) if len(self.made) == self.n else compute()


class Watched(functions.Function):
    """A convex quadratic that counts every call."""

    convex = True
    lipschitz = 3.0

    def __init__(self, A: Any, b: Any, calls: Calls, affine: bool, label: str) -> None:
        self.inside = functions.Quadratic(A, b, convex=True)
        self.calls, self.affine_grad, self.label = calls, affine, label

    def value(self, x: Any) -> Any:
        return self.calls.answer(f"{self.label}.value", lambda: self.inside.value(x))

    def grad(self, x: Any) -> Any:
        return self.calls.answer(f"{self.label}.grad", lambda: self.inside.grad(x))


class WatchedSet:
    """A simplex that counts every call of its oracle."""

    shape, diameter = (3,), math.sqrt(2.0)

    def __init__(self, calls: Calls) -> None:
        self.inside, self.calls = sets.Simplex(3), calls

    def lmo(self, G: Any) -> Any:
        return self.calls.answer("lmo", lambda: self.inside._vertex(G))

    def contains(self, x: Any) -> bool:
        return self.inside.contains(x)

    def start(self) -> Any:
        return X0.copy()

    def spheres(self) -> Any:
        return self.inside.spheres()


def solve(name: str, affine: bool, n: float = math.inf, act: Any = None, **options: Any) -> tuple[Any, Calls]:
    """Solve the problem with a fault in the n-th call; return the result and the calls."""
    calls = Calls(n, act)
    f, g = Watched(H, SLOPE, calls, affine, "f"), Watched(K, None, calls, affine, "g")
    domain: Any = WatchedSet(calls)
    settings = {"tol": 1e-9, "maxiter": 4, "max_inner": 5, **METHODS[name], **options}
    if name == "block":
        domain = sets.Product([domain])
    split = settings.pop("split", None)
    objective = f - g if split is None else split(f - g, L="auto")
    x0 = X0.copy()
    x0.flags.writeable = False
    return minimize(objective, domain, x0, **settings), calls


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a.x, b.x)) and (a.fun, a.gap, a.dc_gap, a.nit) == (
        b.fun,
        b.gap,
        b.dc_gap,
        b.nit,
    )


def moments(name: str, affine: bool) -> range:
    """Return the numbers of the calls to break in: all, or some thirty of them."""
    total = len(solve(name, affine)[1].made)
    return range(1, total + 1, max(total // 30, 1))


def feasible(x: Any) -> bool:
    return sets.Simplex(3).contains(x, 0.0)


def lowest_of(points: list[Any]) -> float:
    return min(0.5 * x @ (H - K) @ x + SLOPE @ x for x in points)


# -- Ctrl-C -----------------------------------------------------------------------------------------------


def interrupt(kind: str, compute: Any) -> Any:
    raise KeyboardInterrupt


@every_smoothness
@every_method
def test_ctrl_c_in_any_oracle_call_ends_the_run_with_the_best_point_so_far(name, affine):
    undisturbed, _ = solve(name, affine)
    for n in moments(name, affine):
        seen = []
        res, calls = solve(name, affine, n, interrupt, callback=lambda r, seen=seen: seen.append(r.x.copy()))
        assert res.status is Status.INTERRUPTED
        assert not res.success
        assert not math.isnan(res.gap) or (n == len(calls.made) and res.n_check)  # the gap's own call
        assert feasible(res.x)
        value = lowest_of([res.x])
        assert value <= lowest_of([X0, *seen]) + 1e-15
        assert res.fun == pytest.approx(value, abs=1e-14) or (not seen and math.isnan(res.fun))
    assert same(solve(name, affine)[0], undisturbed)


# -- exceptions of the user's own -------------------------------------------------------------------------


class Broken(Exception):
    pass


@pytest.mark.parametrize("kind", [Broken, MemoryError, StopIteration])
@every_smoothness
@every_method
def test_an_oracles_exception_reaches_the_caller_with_the_best_point_so_far(name, affine, kind):
    undisturbed, calls = solve(name, affine)
    error = kind("out of order")

    def fail(_kind, _compute):
        raise error

    for n in moments(name, affine):
        seen: list[Any] = []
        caught: Any = None
        try:
            res, _ = solve(name, affine, n, fail, callback=lambda r, seen=seen: seen.append(r.x.copy()))
        except kind as exception:
            caught = exception
        if caught is None:  # it was the value or the gap for the report, after the end
            assert n > len(calls.made) - 6
            assert res.status in (undisturbed.status, Status.BAD_ORACLE)
            continue
        assert caught is error
        assert caught.args == ("out of order",)
        if seen:
            best = caught.intermediate_result
            assert feasible(best.x)
            assert lowest_of([best.x]) <= lowest_of(seen) + 1e-15
            assert "outer step" in caught.__notes__[-1]
    assert same(solve(name, affine)[0], undisturbed)


@every_method
def test_an_exception_of_the_callback_reaches_the_caller_unchanged(name):
    undisturbed, _ = solve(name, True)
    error = Broken("not today")
    for k in range(undisturbed.nit + 1):

        def callback(intermediate_result, k=k):
            if intermediate_result.nit >= k:
                raise error

        with pytest.raises(Broken) as caught:
            solve(name, True, callback=callback)
        assert caught.value is error
        assert caught.value.args == ("not today",)
    assert same(solve(name, True)[0], undisturbed)


# -- garbage ----------------------------------------------------------------------------------------------

GARBAGE = {
    "nan": lambda answer: np.nan * answer,
    "shape": lambda answer: np.zeros(2) if isinstance(answer, np.ndarray) else np.zeros(3),
    "none": lambda answer: None,
    "text": lambda answer: "garbage",
}


@pytest.mark.parametrize("garbage", GARBAGE)
@every_smoothness
@every_method
def test_garbage_once_is_named_and_never_becomes_the_result(name, affine, garbage):
    undisturbed, calls = solve(name, affine)
    for n in moments(name, affine):
        caught = None
        try:
            res, _ = solve(name, affine, n, lambda _, compute: GARBAGE[garbage](compute()))
        except (TypeError, ValueError) as error:
            caught = error
        if caught is not None:
            # It cannot be added to anything; the best point so far comes with the exception.
            assert garbage != "nan", str(caught)
            assert hasattr(caught, "intermediate_result") or n <= 5  # nothing is known before
            continue
        assert feasible(res.x)
        assert lowest_of([res.x]) <= lowest_of([X0]) + 1e-15
        if res.status is Status.BAD_ORACLE:
            oracles = (
                "f.grad",
                "phi.grad",
                "f.value",
                "g.value",
                "phi.value",
                "subgradient of g",
                "lmo",
                "phi is",
            )
            assert any(oracle in res.message for oracle in oracles), res.message
        else:
            # After the end, value and gap are recomputed: a value that is garbage there stays unknown.
            assert n > len(calls.made) - 6
            assert res.status is undisturbed.status
    assert same(solve(name, affine)[0], undisturbed)


def test_an_invalid_gradient_is_named_where_the_sets_oracle_refuses_it():
    # The SVD in the nuclear ball's oracle raises LinAlgError for NaN, which hid that grad was to blame.
    f = functions.Smooth(lambda x: 0.0, lambda x: np.full(x.shape, np.nan), lipschitz=1.0, convex=True)
    res = minimize(f, sets.NuclearBall((2, 3)), method="fw")
    assert res.status is Status.BAD_ORACLE
    assert "phi.grad" in res.message


@pytest.mark.parametrize("method", ["dcfw", "fw", "boosted", "cgs", "fw-m"])
@pytest.mark.parametrize("domain", [sets.Simplex(3), sets.LpBall(3, 2.0)], ids=["simplex", "ball"])
def test_gradients_of_whole_numbers_work_and_those_of_other_things_are_named(method, domain):
    c = np.array([1, 2, -3])

    def solve(kind):
        phi = functions.Smooth(lambda x: float(c @ x), lambda x: c.astype(kind), lipschitz=1.0)
        return minimize(phi, domain, method=method)

    assert same(solve(int), solve(float))
    for kind in (complex, object):
        res = solve(kind)
        assert res.status is Status.BAD_ORACLE
        assert f"returned an array of {np.dtype(kind)}" in res.message


def test_a_gradient_of_the_wrong_shape_is_not_broadcast_into_a_sum():
    f = functions.Smooth(lambda x: 0.0, lambda x: np.ones(1), lipschitz=1.0, convex=True)
    with pytest.raises(
        ValueError, match=r"must return an array of shape \(3,\), got an array of shape \(1,\)"
    ):
        minimize(f - functions.SquaredNorm(1.0), sets.Simplex(3), method="fw")


def test_a_value_that_is_not_a_number_is_named():
    f = functions.Smooth(lambda x: None, lambda x: x, lipschitz=1.0, convex=True)
    with pytest.raises(TypeError, match="value must return a number, got NoneType"):
        minimize(f, sets.Simplex(3))


@pytest.mark.parametrize("measured", [math.nan, math.inf])
def test_backtracking_ends_where_no_test_can_pass(measured):
    # With NaN for L neither the trials were counted nor the test passed: the loop never ended.
    class Senseless:
        norm2, gap, curvature, rounding, k, convex = 1.0, 1.0, measured, 0.0, 1, True

        def decrease(self, eta):
            return math.nan

    with pytest.raises(dcfw.steps.LineSearchFailed):
        dcfw.steps.Backtracking().bind(None, None)(Senseless())


def test_a_users_set_may_be_the_only_block_of_a_product():
    # A block without strong_convexity, which no set needs to have, was an AttributeError.
    assert sets.Product([WatchedSet(Calls())]).strong_convexity == 0.0


# -- time -------------------------------------------------------------------------------------------------


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@every_smoothness
@every_method
def test_a_run_ends_right_after_an_oracle_that_took_longer_than_the_time_limit(name, affine, monkeypatch):
    clock = Clock(monkeypatch)

    def slow(_kind, compute):
        clock.now += 100.0
        return compute()

    undisturbed, calls = solve(name, affine)
    for n in range(1, len(calls.made) - 12, max(len(calls.made) // 12, 1)):
        res, made = solve(name, affine, n, slow, time_limit=50.0)
        assert res.status is Status.TIME_LIMIT
        assert feasible(res.x)
        # What the step needs to be finished, the gap at its end, and the value for the report.
        assert len(made.made) - n <= 12, (n, made.made[n:])
    assert same(solve(name, affine)[0], undisturbed)


@every_method
def test_a_clock_that_steps_back_changes_nothing(name, monkeypatch):
    undisturbed, _ = solve(name, True)
    clock = Clock(monkeypatch)

    def back(intermediate_result):
        clock.now -= 500.0

    res, _ = solve(name, True, callback=back, time_limit=50.0)
    assert same(res, undisturbed)
    assert res.status is undisturbed.status
    monkeypatch.setattr(time, "time", lambda: -1.0)  # the wall clock is not asked at all
    assert same(solve(name, True)[0], undisturbed)


class Corners:
    """The simplex as a user may write it, with habits that a solver must tolerate."""

    shape = (5,)

    def __init__(self, habit: str = "") -> None:
        self.habit = habit
        self.answer = np.zeros(5)

    def lmo(self, G: Any) -> Any:
        if self.habit == "normalises G":
            G /= np.abs(G).max() + 1e-30
        self.answer[:] = 0.0
        self.answer[G.argmin()] = 3.0 if self.habit == "leaves" else 1.0
        if self.habit == "erases G":
            G[:] = 0.0
        return self.answer

    def contains(self, x: Any) -> bool:
        return bool(abs(x.sum() - 1.0) <= 1e-9 and x.min() >= -1e-9)

    def start(self) -> Any:
        return np.full(5, 0.2)


def a_problem(writes: bool) -> Any:
    """The same f twice: as a function of the library, or with callables that write to what they are given."""
    M = np.random.default_rng(3).standard_normal((5, 5))
    f = functions.Quadratic(M @ M.T, M[0])
    if not writes:
        return functions.Smooth(f.value, f.grad, lipschitz=f.lipschitz, convex=True)
    kept = np.zeros(5)

    def value(x: Any) -> float:
        found = f.value(x)
        x[:] = -7.0
        return found

    def grad(x: Any) -> Any:
        kept[:] = f.grad(x)
        x *= 2.0
        return kept

    return functions.Smooth(value, grad, lipschitz=f.lipschitz, convex=True)


@pytest.mark.parametrize("habit", ["normalises G", "erases G"])
@pytest.mark.parametrize("writes", [False, True], ids=["", "callables that write"])
@pytest.mark.parametrize("method", ["dcfw", "fw", "cgs"])
def test_what_a_users_oracle_does_to_its_argument_changes_nothing(method, habit, writes):
    options = {"method": method, "tol": 1e-3, "maxiter": 20, "max_inner": 200}
    expected = dcfw.minimize(a_problem(False), Corners(), **options)
    found = dcfw.minimize(a_problem(writes), Corners(habit), **options)
    assert found.status is expected.status
    assert np.array_equal(found.x, expected.x)
    assert (found.gap, found.dc_gap) == (expected.gap, expected.dc_gap)


def test_an_object_of_the_users_that_writes_to_its_argument_changes_nothing():
    class Own:
        lipschitz = 2.0
        convex = True

        def value(self, x):
            x -= 0.5
            return float(x @ x)

        def grad(self, x):
            x -= 0.5
            x *= 2.0
            return x

    expected = functions.Smooth(
        lambda x: float((x - 0.5) @ (x - 0.5)), lambda x: 2.0 * (x - 0.5), lipschitz=2.0, convex=True
    )
    found, expected = (dcfw.minimize(f, sets.L1Ball(3), tol=1e-4, maxiter=50) for f in (Own(), expected))
    assert np.array_equal(found.x, expected.x)
    assert found.dc_gap == expected.dc_gap


def test_a_function_class_of_the_users_that_writes_to_its_argument_changes_nothing():
    weights, kept = np.array([4.0, 1.0, 0.5]), np.zeros(3)

    class Own(functions.Function):
        convex, lipschitz = True, 4.0

        def value(self, x):
            x -= 0.3
            return 0.5 * float(weights @ x**2)

        def grad(self, x):
            x -= 0.3
            kept[:] = weights * x
            return kept

    expected = functions.Smooth(
        lambda x: 0.5 * float(weights @ (x - 0.3) ** 2),
        lambda x: weights * (x - 0.3),
        lipschitz=4.0,
        convex=True,
    )
    g = functions.SquaredNorm(0.1)
    found, expected = (dcfw.minimize(f - g, sets.Box(0.0, 2.0, 3), tol=1e-4) for f in (Own(), expected))
    assert np.array_equal(found.x, expected.x)
    assert found.dc_gap == expected.dc_gap


@pytest.mark.parametrize("method", ["dcfw", "fw", "stochastic", "sfw"])
def test_a_finite_sum_of_the_users_that_writes_to_its_argument_changes_nothing(method):
    c, kept = np.random.default_rng(0).random((30, 3)), np.zeros(3)

    def batch_grad(x, i):
        kept[:] = x - c[i].mean(axis=0)
        x[:] = 9.0
        return kept

    def value(x):
        return 0.5 * float(((x - c) ** 2).sum()) / 30

    rest = {"lipschitz": 1.0, "lipschitz_max": 1.0, "convex": True}
    plain = functions.FiniteSum(30, value, lambda x, i: x - c[i].mean(axis=0), **rest)
    found, expected = (
        dcfw.minimize(F, sets.Simplex(3), np.array([1.0, 0.0, 0.0]), method=method, maxiter=20, rng=0)
        for F in (functions.FiniteSum(30, value, batch_grad, **rest), plain)
    )
    assert np.array_equal(found.x, expected.x)
    assert found.gap == expected.gap


@pytest.mark.parametrize("method", ["dcfw", "fw"])
def test_a_users_oracle_that_leaves_the_set_is_found_out_and_nothing_is_certified(method):
    res = dcfw.minimize(a_problem(False), Corners("leaves"), method=method, maxiter=5, max_inner=50)
    assert res.status is Status.BAD_ORACLE
    assert not res.success
    assert res.dc_gap == (0.0, math.inf)
    assert "contains() says that x is not in it" in res.message


@pytest.mark.parametrize("method", ["dcfw", "block"])
def test_a_users_block_of_a_product_is_looked_at_like_a_set_of_its_own(method):
    phi = functions.LeastSquares(np.eye(7), np.arange(7.0))
    domain = sets.Product([Corners("leaves"), sets.Simplex(2)])
    res = dcfw.minimize(phi, domain, method=method, maxiter=20, max_inner=50)
    assert res.status is Status.BAD_ORACLE
    assert res.dc_gap == (0.0, math.inf)

    class StartsOutside(Corners):
        def start(self) -> Any:
            return np.full(5, 7.0)

    with pytest.raises(ValueError, match=r"domain\.start\(\) must lie in the set"):
        dcfw.minimize(phi, sets.Product([StartsOutside(), sets.Simplex(2)]), method=method)


def test_a_users_contains_without_room_for_rounding_does_not_end_a_run_badly():
    class Ball:
        shape = (5,)

        def lmo(self, G):
            return -(1.0 + 2.0**-45) * G / np.linalg.norm(G)

        def contains(self, x):
            return bool(np.linalg.norm(x) <= 1.0)

        def start(self):
            return np.zeros(5)

    target = np.full(5, 2.0)
    phi = functions.Smooth(
        lambda x: float((x - target) @ (x - target)), lambda x: 2.0 * (x - target), lipschitz=2.0
    )
    res = dcfw.minimize(phi, Ball(), tol=1e-9, method="fw")
    assert res.success
    assert not Ball().contains(res.x)


@pytest.mark.parametrize("kind", [tuple, functions.base.Linearisation._make])
def test_a_linearisation_that_is_written_over_by_the_next_call_is_copied(kind):
    class Reused(functions.Function):
        convex = differentiable = True
        buffer = np.empty(3)

        def value(self, x):
            return float(0.5 * x @ K @ x)

        def grad(self, x):
            return K @ x

        def linearise(self, x):
            self.buffer[:] = K @ x
            return kind((self.value(x), self.buffer, True))

    g = Reused()
    first = g.linearise(X0)
    g.linearise(2.0 * X0)
    np.testing.assert_array_equal(first[1], K @ X0)


@pytest.mark.parametrize("error", [None, "small", -1.0, math.nan, math.inf, np.ones(2)], ids=repr)
def test_an_invalid_error_bound_is_named(error):
    class Misjudged(sets.Oracle):
        pass

    Misjudged.error = error

    class Own(sets.Simplex):
        def oracle(self):
            return Misjudged(self)

    res = minimize(functions.Quadratic(H, SLOPE) - functions.Quadratic(K), Own(3), X0, method="dcfw")
    assert res.status is Status.BAD_ORACLE
    assert f"error = {error!r}" in res.message
    assert res.dc_gap == (0.0, math.inf)
