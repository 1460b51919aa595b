"""The boundary between a user's objects and the solver: their methods are called, on copies."""

from __future__ import annotations

import copy
import inspect
import math
from functools import partialmethod

import numpy as np
import pytest

import dcfw
from dcfw import Status, _protocol, functions, sets
from dcfw.sets.given import GivenSet, as_set
from set_cases import CASES, every_set


def as_subclass(thing, **methods):
    """Return a copy of ``thing`` as an instance of a subclass that overrides methods."""
    other = copy.copy(thing)
    other.__class__ = type(f"My{type(thing).__name__}", (type(thing),), methods)
    return other


def objective(domain):
    c = np.cos(np.arange(float(math.prod(domain.shape)))).reshape(domain.shape)
    linear = functions.Smooth(lambda x: float((c * x).sum()), lambda x: c, lipschitz=0.0, convex=True)
    return (functions.SquaredNorm(1.0) + linear) - functions.SquaredNorm(0.25)


@every_set
def test_an_overridden_lmo_is_the_one_that_is_called(case):
    calls = []
    parent = type(case.domain)

    def lmo(self, G):
        calls.append(G)
        return parent.lmo(self, G)

    mine = as_subclass(case.domain, lmo=lmo)
    res = dcfw.minimize(objective(mine), mine, method="dcfw", maxiter=3, max_lmo=20)
    assert len(calls) >= res.n_lmo >= 1
    expected = dcfw.minimize(objective(mine), case.domain, method="dcfw", maxiter=3, max_lmo=20)
    assert res.fun == pytest.approx(expected.fun, rel=1e-5, abs=1e-7)


@every_set
def test_an_overridden_vertex_is_the_one_that_is_called_also_inside_a_product(case):
    calls = []
    parent = type(case.domain)

    def _vertex(self, G):
        calls.append(G)
        return parent._vertex(self, G)

    mine = as_subclass(case.domain, _vertex=_vertex)
    both = sets.Product([mine, sets.Simplex(2)])
    calls.clear()
    res = dcfw.minimize(objective(both), both, maxiter=2, max_lmo=10)
    assert len(calls) >= res.n_lmo >= 1


FEW = [CASES[0], CASES[3], CASES[18], CASES[-1]]


@pytest.mark.parametrize(
    ("case", "place"),
    [*((case, "duck") for case in CASES), *((c, p) for c in FEW for p in ("subclass", "mixin", "instance"))],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_lmo_that_writes_to_the_gradient_and_reuses_its_answer_does_no_harm(case, place):
    answer = np.empty(case.domain.shape)
    domain = case.domain

    def scribble(G):
        answer[...] = domain.lmo(G)
        G *= -1.0
        return answer

    class Mixin:
        def lmo(self, G):
            return scribble(G)

    class Duck:
        def __init__(self):
            self.shape = domain.shape

        def lmo(self, G):
            return scribble(G)

        def contains(self, x):
            inside = domain.contains(x)
            x += 1e9
            return inside

        def start(self):
            return domain.start()

    if place == "subclass":
        mine = as_subclass(domain, lmo=Mixin.lmo)
    elif place == "mixin":
        mine = copy.copy(domain)
        mine.__class__ = type("Mixed", (Mixin, type(domain)), {})
    elif place == "instance":
        mine = copy.copy(domain)
        mine.lmo = scribble
    else:
        mine = Duck()
    res = dcfw.minimize(objective(domain), mine, inner="fw", maxiter=3, max_lmo=12)
    expected = dcfw.minimize(objective(domain), domain, inner="fw", maxiter=3, max_lmo=12)
    assert res.n_lmo >= 1
    assert res.fun == pytest.approx(expected.fun, rel=1e-5, abs=1e-7)
    assert domain.contains(res.x, 1e-6)


A = np.array([[2.0, 0.5, 0.0], [0.5, 3.0, 0.1], [0.0, 0.1, 1.0]])


def scribbling(place):
    """Return the function 1/2 x'Ax whose oracles write to their argument, defined in several ways."""
    true = functions.Quadratic(A, convex=True)

    class Writing:
        convex = True
        lipschitz = 4.0

        def value(self, x):
            y = true.value(x)
            x *= 3.0
            return y

        def grad(self, x):
            y = true.grad(x)
            x *= 3.0
            return y

    if place == "mixin":
        return type("Mixed", (Writing, functions.Function), {})()
    if place == "subclass of a quadratic":
        return type("Mine", (functions.Quadratic,), {"value": Writing.value, "grad": Writing.grad})(
            A, convex=True
        )
    if place == "mixin and quadratic":
        return type("Mixed", (Writing, functions.Quadratic), {})(A, convex=True)
    if place == "duck":
        return Writing()
    if place == "callable objects":
        method = partialmethod(Writing.grad)
        return type("Odd", (functions.Function,), {"value": Writing.value, "grad": method, "convex": True})()
    own = functions.Quadratic(A, convex=True)
    own.grad = lambda x: Writing.grad(own, x)
    return own


PLACES = ["mixin", "subclass of a quadratic", "mixin and quadratic", "duck", "callable objects", "instance"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("inner", ["fw", "blended"])
@pytest.mark.parametrize("method", ["dcfw", "fw", "boosted", "block"])
def test_oracles_that_write_to_x_do_no_harm_wherever_they_are_defined(place, inner, method):
    c = functions.Quadratic(np.zeros((3, 3)), np.array([-1.0, 0.3, 0.2]), convex=True)
    domain = sets.Product([sets.Simplex(3)]) if method == "block" else sets.Simplex(3)
    x0 = np.array([0.2, 0.5, 0.3])

    def solve(f):
        dc = (f + c) - functions.SquaredNorm(0.1)
        return dcfw.minimize(dc, domain, x0, method=method, inner=inner, tol=1e-2, maxiter=100)

    res = solve(functions.as_function(scribbling(place)))
    expected = solve(functions.Quadratic(A, convex=True))
    assert res.success
    assert res.fun == pytest.approx(expected.fun, abs=1e-2)
    assert domain.contains(res.x)


@pytest.mark.parametrize("kind", [functions.Quadratic, functions.LeastSquares, functions.SquaredNorm])
@pytest.mark.parametrize("method", ["dcfw", "block", "fw"])
def test_an_overridden_gradient_is_the_one_that_is_called(kind, method):
    """The subclass adds a linear term in value and grad: every fast path of the parent would miss it."""
    slope = np.array([0.0, -3.0, 0.0])

    class Mine(kind):
        def value(self, x):
            return super().value(x) + float(slope @ x)

        def grad(self, x):
            return super().grad(x) + slope

    made = {"Quadratic": (A,), "LeastSquares": (A, np.zeros(3)), "SquaredNorm": (1.0,)}[kind.__name__]
    block = sets.Simplex(3)
    domain = sets.Product([block]) if method == "block" else block
    res = dcfw.minimize(Mine(*made) - functions.SquaredNorm(0.1), domain, method=method, tol=1e-4)
    exact = kind(*made) + functions.Quadratic(np.zeros((3, 3)), slope, convex=True)
    expected = dcfw.minimize(exact - functions.SquaredNorm(0.1), domain, method=method, tol=1e-4)
    assert res.fun == pytest.approx(expected.fun, abs=1e-4)
    np.testing.assert_allclose(res.x, expected.x, atol=1e-2)


def test_a_subclass_keeps_what_it_does_not_override():
    class Mine(sets.Simplex):
        """Nothing of its own."""

    class Named(functions.Quadratic):
        """Nothing of its own."""

    assert Mine.oracle is sets.Simplex.oracle
    assert Named.grad_at is functions.Quadratic.grad_at
    assert Mine(3).polytope
    assert Mine(3).projects
    assert not Named(A).stated


@pytest.mark.parametrize(
    "kind", dict.fromkeys(type(case.domain) for case in CASES), ids=lambda kind: kind.__name__
)
def test_sets_of_the_library_vouch_for_their_methods(kind):
    assert _protocol.trusted(kind)


def test_functions_of_the_library_vouch_for_their_methods():
    kinds = [thing for thing in vars(functions).values() if inspect.isclass(thing)]
    for kind in kinds:
        if issubclass(kind, functions.Function):
            assert _protocol.trusted(kind), kind


@every_set
def test_a_point_outside_of_one_of_our_own_sets_ends_with_a_bad_oracle(case):
    """Every set is asked whether it contains the answer, ours included."""
    outside = as_subclass(case.domain, violation=lambda self, x: 0.0 if (x == 12.0).all() else 1.0)
    start = np.full(case.domain.shape, 12.0)
    res = dcfw.minimize(objective(case.domain), outside, x0=start, max_lmo=5)
    assert res.status is Status.BAD_ORACLE
    assert not res.success
    assert "contains() says" in res.message


def test_a_duck_is_wrapped_once_and_keeps_what_it_knows():
    class Duck:
        secret = 7

        def lmo(self, G):
            return np.where(G > 0, 0.0, 1.0)

        def contains(self, x):
            return bool((x >= 0).all() and (x <= 1).all())

        def start(self):
            return np.array([0.5, 0.5])

    domain = as_set(Duck())
    assert isinstance(domain, GivenSet)
    assert as_set(domain) is domain
    assert domain.shape == (2,)
    assert domain.secret == 7
    assert domain.diameter == math.inf
    assert not domain.projects
    assert domain.violation(np.array([2.0, 0.0])) == math.inf
    assert domain.reach(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == pytest.approx(0.5)
    assert domain.contains(domain.random(0))


class Failing(sets.Simplex):
    """A simplex whose contains fails when it is asked for the third time: x0, then the result."""

    def __init__(self, n, error):
        super().__init__(n)
        self.error, self.asked = error, 0

    def contains(self, x, tol=1e-9):
        self.asked += 1
        if self.asked > 1:
            raise self.error
        return super().contains(x, tol)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ZeroDivisionError("mine"), Status.BAD_ORACLE), (KeyboardInterrupt(), Status.INTERRUPTED)],
)
def test_a_contains_that_fails_after_the_run_does_not_lose_the_result(error, status):
    domain = Failing(3, error)
    res = dcfw.minimize(objective(domain), domain)
    assert domain.asked == 2
    assert res.status is status
    assert not res.success
    assert np.isnan(res.gap) == (status is Status.BAD_ORACLE)
    assert res.fun < objective(domain).value(sets.Simplex(3).start())
    assert sets.Simplex(3).contains(res.x)


@pytest.mark.parametrize("budget", range(1, 12))
@pytest.mark.parametrize("inner", ["fw", "away", "blended"])
def test_the_gap_is_known_wherever_a_budget_ends_a_run(budget, inner):
    A = np.random.default_rng(3).standard_normal((12, 12))
    phi, domain = functions.Quadratic(A + A.T, np.cos(np.arange(12.0))), sets.Simplex(12)
    res = dcfw.minimize(phi, domain, inner=inner, max_lmo=budget)
    assert res.gap == pytest.approx(dcfw.gaps.fw_gap(phi, domain, res.x), abs=1e-9)
    assert res.n_lmo <= budget
    assert res.n_check >= 1


# -- the final check --------------------------------------------------------------------------------------


def lying(true, where, at):
    """Return a function that gives one wrong answer, to call number ``at`` of ``where``."""
    asked = {"value": 0, "grad": 0}

    def answer(name, x, lie):
        asked[name] += 1
        return lie if name == where and asked[name] == at else getattr(true, name)(x)

    return functions.Smooth(
        lambda x: answer("value", x, true.value(x) - 1.0),
        lambda x: answer("grad", x, np.zeros(x.shape)),
        lipschitz=float(np.linalg.eigvalsh(true.A).max()),
        convex=True,
    )


@pytest.mark.parametrize("method", ["dcfw", "fw", "boosted", "cgs", "fw-m"])
@pytest.mark.parametrize("where", ["grad", "value"])
def test_no_run_has_converged_for_one_wrong_answer_of_an_oracle(method, where):
    """A zero gradient looks stationary: the recomputed gap says otherwise."""
    true = functions.Quadratic(A, np.array([-1.0, 0.3, -0.2]), convex=True)
    domain, x0 = sets.Simplex(3), np.array([0.2, 0.5, 0.3])
    exposed = 0
    for at in range(1, 12):
        res = dcfw.minimize(lying(true, where, at), domain, x0, method=method, tol=1e-2, maxiter=60)
        gap = dcfw.gaps.fw_gap(true, domain, res.x)
        assert not (res.success and (gap > 1.1e-2 or abs(res.fun - true.value(res.x)) > 1e-9))
        exposed += res.status is Status.BAD_ORACLE
    assert exposed >= 1 or where == "value"


def test_a_fast_path_that_disagrees_with_the_gradient_is_found_out():
    class Mine(functions.Quadratic, trusted=True):
        def grad_at(self, atom):
            return 0.5 * super().grad_at(atom)

    c = np.array([-1.0, 0.3, -0.2])
    res = dcfw.minimize(Mine(A, c) - functions.SquaredNorm(0.1), sets.Simplex(3), np.array([0.2, 0.5, 0.3]))
    assert res.status is Status.BAD_ORACLE
    assert "recomputed" in res.message
    assert res.dc_gap == (0.0, math.inf)


def test_an_oracle_with_memory_that_disagrees_with_the_sets_lmo_is_found_out():
    class Stale(sets.base.Oracle):
        """An oracle that asks once and repeats its answer."""

        def __call__(self, G):
            if not hasattr(self, "atom"):
                self.atom = super().__call__(G)
            return self.atom

    class Mine(sets.Simplex, trusted=True):
        def oracle(self):
            return Stale(self)

    f = functions.Quadratic(A, np.array([-1.0, 0.3, -0.2]), convex=True)
    res = dcfw.minimize(f, Mine(3), np.array([0.2, 0.5, 0.3]), method="fw")
    assert res.status is Status.BAD_ORACLE


@every_set
def test_the_gap_of_a_converged_run_is_recomputed_and_counted_apart(case):
    calls = []
    parent = type(case.domain)

    def lmo(self, G):
        calls.append(G)
        return parent.lmo(self, G)

    mine = as_subclass(case.domain, lmo=lmo)
    res = dcfw.minimize(objective(mine), mine, case.domain.start(), rtol=0.5, maxiter=300, max_lmo=300)
    assert res.status is Status.CONVERGED
    assert len(calls) == res.n_lmo + 1
    assert res.n_check == 2  # the gap, and contains


def test_infinite_slopes_at_vertices_excuse_no_wrong_gap():
    calls = []

    class Changing(functions.Function):
        convex = differentiable = True

        def value(self, x):
            return float(-np.log(x).sum())

        def grad(self, x):
            calls.append(x)
            with np.errstate(divide="ignore"):
                return -1.0 / x + (len(calls) > 1) * np.array([1.0, 0.0, 0.0])

    res = dcfw.minimize(Changing(), sets.Simplex(3), x0=np.full(3, 1.0 / 3.0))
    assert res.status is Status.BAD_ORACLE
    assert not res.success
