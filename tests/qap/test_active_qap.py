"""The compiled active-set loop for the QAP: same stop, true certificates, and X is what its weights say."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfw import Status, minimize, qap
from dcfw.functions.dc import DC
from dcfw.functions.sums import Zero
from dcfw.qap.blended import BlendedLoop
from dcfw.qap.quadratics import SPLITS, MatrixQuadratic, decompose
from dcfw.sets import Birkhoff
from dcfw.solvers.run import Run
from dcfw.tolerances import Adaptive, Fixed, Progress


def problem(n, seed, symmetric=False, linear=False):
    rng = np.random.default_rng(seed)
    A, B = rng.random((n, n)), rng.random((n, n))
    if symmetric:
        A, B = A + A.T, B + B.T
    A, B = A / np.linalg.norm(A), B / np.linalg.norm(B)
    return A, B, rng.random((n, n)) / n if linear else None, Birkhoff(n).random(rng, scale=0.01)


def solve(dc, X0, loop, **options):
    options = {"rtol": 1e-3, "tol": 1e-12, "max_lmo": 20_000, "tolerance": Adaptive(0.8), **options}
    return minimize(dc, Birkhoff(len(X0)), X0, inner=loop, **options)


def weights(loop):
    return np.array([atom[0] for atom in loop.active.solver.atoms])


def check_state(loop, f, X):
    """Check that all data kept by the loop agree with its permutations and weights."""
    n, kept = len(X), loop.active.solver.atoms
    w, columns, images, gram, offsets = zip(*kept, strict=True)
    assert len(kept) <= loop.cap
    assert min(w) >= 0.0
    assert sum(w) == pytest.approx(1.0, abs=1e-12)
    atoms = [loop.active.solver.dense.reshape(n, n)] + [np.eye(n)[p] for p in columns[1:]]
    assert len({a.tobytes() for a in atoms[1:]}) == len(kept) - 1
    np.testing.assert_allclose(sum(wj * a for wj, a in zip(w, atoms, strict=True)), X, atol=1e-13)
    H = MatrixQuadratic(f.pairs, n=n, thin=f.thin, left=f.left, right=f.right, weight=f.weight)
    used = [j for j in range(len(kept)) if j or w[0] > 0.0]
    for j in used:
        np.testing.assert_allclose(images[j].reshape(n, n), f.grad(atoms[j]), atol=1e-11)
        image = H.grad(atoms[j])
        for i in used:
            assert gram[j][i] == pytest.approx(np.vdot(image, atoms[i]), abs=1e-10)
    for j in range(1, len(kept)):
        assert offsets[j] == pytest.approx(0.0 if f.C is None else np.vdot(f.C, atoms[j]))


@given(
    n=st.integers(2, 9),
    seed=st.integers(0, 10**6),
    split=st.sampled_from(SPLITS),
    symmetric=st.booleans(),
    linear=st.booleans(),
    cap=st.sampled_from([4, 5, 8, None]),
)
def test_the_loop_keeps_its_books_for_every_split_and_any_memory(n, seed, split, symmetric, linear, cap):
    A, B, C, X0 = problem(n, seed, symmetric, linear)
    dc = decompose(A, B, C, split=split)
    loop = BlendedLoop(n, cap=cap)
    res = solve(dc, X0, loop, max_lmo=400)
    assert res.status in (Status.CONVERGED, Status.MAX_LMO, Status.NO_PROGRESS)
    assert Birkhoff(n).contains(res.x, tol=1e-12)
    assert (np.diff(res.history["fun"]) <= 1e-12).all()
    assert res.fun <= dc.value(X0) + 1e-13
    if res.nit and math.isfinite(res.gap):
        check_state(loop, dc.f, res.x)


@pytest.mark.parametrize("split", ["paper", "spectral"])
@pytest.mark.parametrize("rule", [Fixed(1e-9), Progress(), Adaptive(0.5)])
def test_convex_subproblems_have_the_minimum_that_the_generic_loops_find(split, rule):
    A, B, C, X0 = problem(7, 3, linear=True)
    f = decompose(A, B, C, split=split).f
    dc = DC(f, Zero())
    options = {"tolerance": rule, "rtol": 0.0, "tol": 1e-9, "max_lmo": None, "maxiter": 10_000}
    compiled = solve(dc, X0, BlendedLoop(7), **options)
    merged = solve(dc, X0, BlendedLoop(7, cap=30), **options)
    generic = solve(dc, X0, "blended", **options)
    for res in (compiled, merged, generic):
        assert res.success, res.message
    assert compiled.fun == pytest.approx(generic.fun, abs=1e-8)
    assert merged.fun == pytest.approx(generic.fun, abs=1e-8)


@pytest.mark.parametrize("split", ["paper", "balanced", "spectral"])
def test_the_stop_is_that_of_vanilla_steps_with_a_fraction_of_the_assignment_problems(split):
    A, B, _, X0 = problem(12, 1)
    dc = decompose(A, B, split=split)
    vanilla = solve(dc, X0, "fw", max_lmo=None)
    blended = solve(dc, X0, BlendedLoop(12))
    for res in (vanilla, blended):
        assert res.success
        G = dc.grad(res.x)
        S = Birkhoff(12).lmo(G)
        assert np.vdot(G, res.x - S) <= 1e-3 * res.history["gap"][0] + 1e-12
        assert res.gap == pytest.approx(np.vdot(G, res.x - S), abs=1e-10)
    assert blended.n_lmo < 0.5 * vanilla.n_lmo


@pytest.mark.parametrize("cap", [4, None])
@pytest.mark.parametrize("rule", [Adaptive(0.8, "published"), Progress()])
@pytest.mark.parametrize("split", ["paper", "spectral", "sliding"])
def test_every_certificate_contains_the_dc_gap(split, rule, cap):
    n = 5
    A, B, C, X0 = problem(n, 5, linear=True)
    dc = decompose(A, B, C, split=split)
    iterates = []
    res = solve(
        dc, X0, BlendedLoop(n, cap=cap), tolerance=rule, max_lmo=100, maxiter=4,
        callback=lambda intermediate_result: iterates.append(intermediate_result.x.copy()),
    )  # fmt: skip
    columns = (res.history[name] for name in ("dc_low", "dc_high", "gap"))
    for x, low, high, gap in zip(iterates, *columns, strict=True):
        u = dc.g.grad(x)
        surrogate = MatrixQuadratic(
            dc.f.pairs, n=n, thin=dc.f.thin, left=dc.f.left, right=dc.f.right, weight=dc.f.weight,
            convex=True, C=-u if dc.f.C is None else dc.f.C - u,
        )  # fmt: skip
        exact = solve(
            DC(surrogate, Zero()), x, "pairwise", tolerance=1e-11, rtol=0.0, tol=1e-11, max_lmo=None
        )
        true = surrogate.value(x) - exact.fun
        assert exact.gap <= 1e-10
        assert low - 1e-10 <= true <= high + 1e-10 + exact.gap
        assert high <= gap


def test_a_small_memory_merges_and_still_reaches_the_stop():
    A, B, _, X0 = problem(10, 2)
    dc = DC(decompose(A, B, split="paper").f, Zero())  # its minimiser is inside, so that it needs many atoms
    full, moments = BlendedLoop(10), []

    class Spy(BlendedLoop):
        def _resync(self, kernel, run, X, taken):
            moments.append(self.active.solver.dense)
            check_state(self, X.f, X.x)
            return super()._resync(kernel, run, X, taken)

    assert solve(dc, X0, full).success
    assert int((weights(full) > 0.0).sum()) > 6
    tiny = Spy(10, cap=6)
    res = solve(dc, X0, tiny, callback=lambda intermediate_result: None)
    assert res.success
    assert int((weights(tiny) > 0.0).sum()) <= 6
    # The dense atom is no longer the start: something has been merged into it, more than once.
    assert len({dense.tobytes() for dense in moments}) > 2


@pytest.mark.parametrize("budget", [1, 2, 3, 10, 37])
def test_the_budget_of_assignment_problems_is_not_exceeded(budget):
    A, B, _, X0 = problem(9, 4)
    res = solve(decompose(A, B), X0, BlendedLoop(9), max_lmo=budget, rtol=0.0)
    assert res.n_lmo == budget
    assert res.status is Status.MAX_LMO
    assert math.isfinite(res.gap)


def test_a_cap_of_inner_steps_and_a_users_own_tolerance_are_honoured():
    A, B, _, X0 = problem(9, 4)
    res = solve(decompose(A, B), X0, BlendedLoop(9), max_inner=2, maxiter=20)
    assert (np.diff(res.history["n_inner"]) <= 2).all()

    seen = []

    class Own(Fixed):
        def enough(self, gap, eps, decrease):
            seen.append(gap)
            return gap <= 0.5 * eps

    stepwise = solve(decompose(A, B), X0, BlendedLoop(9), tolerance=Own(1e-3), tol=1e-12)
    sliced = solve(decompose(A, B), X0, BlendedLoop(9), tolerance=Fixed(1e-3), tol=1e-12)
    assert len(seen) >= stepwise.n_inner
    assert stepwise.n_lmo == sliced.n_lmo
    np.testing.assert_allclose(stepwise.x, sliced.x, atol=1e-12)


def test_a_time_limit_is_honoured():
    A, B, _, X0 = problem(40, 4)
    loop = BlendedLoop(40)
    begun = time.perf_counter()
    res = solve(decompose(A, B), X0, loop, max_lmo=None, rtol=0.0, tol=0.0, time_limit=5e-4)
    assert res.status is Status.TIME_LIMIT
    assert time.perf_counter() - begun < 5.0
    assert Birkhoff(40).contains(res.x, tol=1e-12)


def test_fresh_gradients_in_between_change_nothing_but_rounding(monkeypatch):
    A, B, _, X0 = problem(8, 6)
    dc = decompose(A, B, split="spectral")
    plain = solve(dc, X0, BlendedLoop(8), max_lmo=40)
    begin = Run.__init__

    def often(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        self.resync_period = 3

    monkeypatch.setattr(Run, "__init__", often)
    loop = BlendedLoop(8)
    synced = solve(dc, X0, loop, max_lmo=40)
    assert synced.n_resync > 2
    assert plain.n_resync == 0
    assert synced.fun == pytest.approx(plain.fun, abs=1e-6)
    check_state(loop, dc.f, synced.x)
    # The gap of the returned point is that of its own fresh gradient.
    G = dc.f.grad(synced.x) - dc.g.grad(synced.x)
    assert synced.gap == pytest.approx(np.vdot(G, synced.x - Birkhoff(8).lmo(G)), abs=1e-12)


def test_a_permutation_that_is_met_again_is_not_a_second_atom():
    A, B, _, X0 = problem(8, 7)
    loop = BlendedLoop(8)
    res = solve(decompose(A, B, split="paper"), X0, loop)
    columns = {tuple(atom[1].tolist()) for atom in loop.active.solver.atoms[1:]}
    assert len(columns) == len(loop.active.solver.atoms) - 1
    assert res.n_lmo > len(columns)  # some were met again


def test_a_gradient_that_is_not_finite_ends_the_run():
    A, B, _, X0 = problem(6, 7)
    dc = decompose(A, B, split="paper")
    dc.f.pairs[0] = (dc.f.pairs[0][0] * np.nan, dc.f.pairs[0][1])
    res = solve(dc, X0, BlendedLoop(6))
    assert res.status is Status.BAD_ORACLE


def test_qap_solve_takes_the_loop_with_fewer_assignment_problems():
    instance = qap.generators.li_pardalos(8, rng=1)
    X0 = Birkhoff(8).random(0, scale=0.001)
    blended = qap.solve(instance.A, instance.B, init=X0, split="paper", inner="blended")
    vanilla = qap.solve(instance.A, instance.B, init=X0, split="paper", inner="fw")
    assert blended.success
    assert vanilla.success
    assert blended.n_lmo < vanilla.n_lmo
    assert sorted(blended.permutation) == list(range(8))
    assert blended.fun == qap.evaluate(instance.A, instance.B, blended.permutation)
