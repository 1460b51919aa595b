"""Away, pairwise and blended steps find the points of vanilla steps, linearly where those zig-zag."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import Status, functions, sets
from dcfw.functions.sums import Zero
from dcfw.sets.atoms import OneHot
from dcfw.solvers.active import ActiveLoop, stuck
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.cgs import CGS
from reference_gaps import symmetric

RULES = ("away", "pairwise", "blended", "descent")
LOOPS = [(rule, lazy) for rule in RULES for lazy in (False, True) if lazy or rule != "blended"]
DOMAINS = {
    "simplex": sets.Simplex(12),
    "l1": sets.L1Ball(12, radius=1.5),
    "cube": sets.LInfBall(12, radius=0.4),
    "box": sets.Box(-0.2, 0.5, shape=12),
    "k-sparse": sets.KSparse((3, 4), k=3, radius=0.5),
    "birkhoff": sets.Birkhoff(5),
    "hull": sets.ConvexHull(np.random.default_rng(8).standard_normal((9, 12))),
    "product": sets.Product([sets.Simplex(6), sets.L1Ball(6)]),
}
loops = pytest.mark.parametrize(("rule", "lazy"), LOOPS, ids=lambda value: str(value))


def strongly_convex(domain, seed, kind="quadratic"):
    rng = np.random.default_rng(seed)
    n = math.prod(domain.shape)
    if kind == "smooth":
        return functions.LogSumExp(rng.standard_normal((20, n))) + functions.Quadratic(
            symmetric(rng, n, 0.5, 2.0), rng.standard_normal(n), convex=True
        )
    return functions.Quadratic(symmetric(rng, n, 0.5, 2.0), rng.standard_normal(n), convex=True)


class Flat(functions.Function):
    """A function of a vector as one of an array of any shape (LogSumExp knows vectors only)."""

    convex = True

    def __init__(self, function):
        self.function = function

    def value(self, x):
        return self.function.value(x.reshape(-1))

    def grad(self, x):
        return self.function.grad(x.reshape(-1)).reshape(x.shape)


def solve(f, domain, rule, lazy=True, **options):
    options = {"tol": 1e-10, "tolerance": 1e-10, "maxiter": 20_000, "max_inner": 20_000, **options}
    return dcfw.minimize(f, domain, inner=rule, lazy=lazy, **options)


@pytest.mark.parametrize("kind", ["quadratic", "smooth"])
@pytest.mark.parametrize("name", DOMAINS)
def test_every_inner_solver_finds_the_minimiser_of_the_others(name, kind):
    domain = DOMAINS[name]
    f = strongly_convex(domain, 1, kind)
    f = Flat(f) if kind == "smooth" else f
    tol = 1e-10 if kind == "quadratic" else 1e-9
    results = {(rule, lazy): solve(f, domain, rule, lazy, tol=tol, tolerance=tol) for rule, lazy in LOOPS}
    results["as FW", False] = solve(f, domain, "pairwise", method="fw", tol=tol)
    for key, res in results.items():
        assert res.success, (key, res.message)
        assert domain.contains(res.x)
    values = [res.fun for res in results.values()]
    assert max(values) - min(values) <= 1e-8
    first = results["blended", True].x
    for key, res in results.items():
        # f is 0.5-strongly convex: 1/4 ||x - y||^2 is at most the difference of values plus the gap.
        assert np.abs(res.x - first).max() <= 1e-4, key


@pytest.mark.parametrize("kind", ["quadratic", "smooth"])
def test_vanilla_steps_find_the_same_minimiser_where_they_are_fast_themselves(kind):
    domain = sets.LInfBall(8, radius=3.0)  # so large that the minimiser is inside
    f = strongly_convex(domain, 2, kind)
    vanilla = solve(f, domain, "fw", tol=1e-8, tolerance=1e-8, max_inner=500_000)
    assert vanilla.success
    for rule, lazy in LOOPS:
        res = solve(f, domain, rule, lazy, tol=1e-8, tolerance=1e-8)
        assert res.fun == pytest.approx(vanilla.fun, abs=1e-8)


@pytest.mark.parametrize("name", ["simplex", "l1", "cube", "box", "k-sparse", "birkhoff", "product"])
@loops
def test_the_nearest_point_is_the_projection(name, rule, lazy):
    domain = DOMAINS[name]
    y = np.random.default_rng(3).standard_normal(domain.shape)
    n = y.size
    f = functions.Quadratic(np.eye(n), -y.ravel(), convex=True)
    res = solve(f, domain, rule, lazy, tol=1e-13, tolerance=1e-13)
    assert res.gap <= 1e-11  # some stop at rounding level before
    np.testing.assert_allclose(res.x, domain.project(y), atol=1e-6)


def linear(gaps):
    """Return whether gaps fall linearly: to 1e-9 of the first, and no slower at the end than at the start."""
    gaps = np.minimum.accumulate(gaps / gaps[0])
    below = np.flatnonzero(gaps <= 1e-9)
    if not len(below):
        return False
    log = np.log(gaps[: below[0]])
    half = len(log) // 2
    start, end = (np.polyfit(np.arange(len(part)), part, 1)[0] for part in (log[:half], log[half:]))
    return end <= 0.3 * start < 0.0


@pytest.mark.parametrize("name", ["simplex", "l1", "k-sparse", "birkhoff", "box"])
def test_convergence_is_linear_on_polytopes_and_that_of_vanilla_steps_is_not(name):
    domain = DOMAINS[name]
    f = strongly_convex(domain, 5)
    f = functions.Quadratic(f.A, -f.A @ (0.8 * domain.random(np.random.default_rng(6)).ravel()), convex=True)
    f = functions.Quadratic(f.A, f.b - 0.3 * np.random.default_rng(7).standard_normal(f.n), convex=True)
    answers = {}
    for rule, lazy in [*LOOPS, ("fw", False)]:
        res = solve(f, domain, rule, lazy, method="fw", tol=0.0, rtol=1e-10, maxiter=2000)
        gaps = res.history["gap"]
        answers[rule, lazy] = linear(gaps[gaps > 0.0])
    assert answers == {key: key[0] != "fw" for key in answers}


@loops
def test_a_nonconvex_objective_goes_down_to_a_stationary_point(rule, lazy):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for name in ("simplex", "l1", "cube", "k-sparse", "birkhoff"):
            domain = DOMAINS[name]
            n = math.prod(domain.shape)
            phi = functions.Quadratic(symmetric(rng, n, -2.0, 2.0), rng.standard_normal(n))
            x0 = domain.random(rng)
            res = dcfw.minimize(phi, domain, x0, method="fw", inner=rule, lazy=lazy, tol=1e-7, maxiter=5000)
            assert res.success, res.message
            values = res.history["fun"]
            assert (np.diff(values) <= 1e-12).all()
            assert res.fun <= phi.value(x0)
            G = phi.grad(res.x)
            assert float(np.vdot(G, res.x - domain.lmo(G))) <= 1.1e-7
            assert domain.contains(res.x)


@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(sorted(DOMAINS)),
    loop=st.sampled_from(LOOPS),
    step=st.sampled_from(["exact", "short", "backtracking"]),
    tolerance=st.sampled_from(["adaptive", "progress", 0.05]),
    cap=st.sampled_from([4, 6, 1000]),
    smooth=st.booleans(),
)
def test_phi_never_rises_above_its_value_at_x0(seed, name, loop, step, tolerance, cap, smooth):
    domain, rng = DOMAINS[name], np.random.default_rng(seed)
    n = math.prod(domain.shape)
    f = functions.Quadratic(symmetric(rng, n, 0.0, 2.0), rng.standard_normal(n), convex=True)
    if smooth:
        f = functions.Smooth(f.value, f.grad, lipschitz=2.0, convex=True)
    g = functions.Quadratic(symmetric(rng, n, 0.0, 2.0), convex=True)
    x0 = domain.random(rng)
    inner = ActiveLoop(*loop, cap=cap)
    res = dcfw.minimize(
        f - g, domain, x0, inner=inner, step=step, tolerance=tolerance, maxiter=30, max_lmo=200, tol=1e-6
    )
    start = f.value(x0) - g.value(x0)
    assert res.fun <= start + 1e-12 * (1.0 + abs(start))
    assert (np.diff(res.history["fun"]) <= 1e-11).all()
    assert domain.contains(res.x)
    assert len(inner.active) <= inner.active.cap
    assert inner.active.cap == cap
    if res.active_set is not None:
        np.testing.assert_allclose(res.active_set.point(), res.x, atol=1e-11)


@pytest.mark.parametrize("step", ["short", "backtracking", "open-loop"])
@pytest.mark.parametrize("rule", RULES)
def test_every_step_rule_works_with_an_active_set(rule, step):
    domain = DOMAINS["l1"]
    f = strongly_convex(domain, 9)
    best = solve(f, domain, "blended").fun
    res = solve(f, domain, rule, step=step, tol=1e-6, tolerance=1e-6, maxiter=5000, max_inner=5000)
    assert res.fun == pytest.approx(best, abs=1e-3 if step == "open-loop" else 1e-6)
    assert domain.contains(res.x)


@pytest.mark.parametrize("method", [CGS(), CGS(momentum=True)], ids=["published", "momentum"])
@pytest.mark.parametrize("rule", RULES)
def test_sliding_with_an_active_set_reaches_the_same_stationary_value(method, rule):
    rng = np.random.default_rng(0)
    phi = functions.Quadratic(symmetric(rng, 12, -0.2, 1.0), rng.standard_normal(12))
    domain = DOMAINS["simplex"]
    vanilla = dcfw.minimize(phi, domain, method=method, tol=1e-4)
    res = dcfw.minimize(phi, domain, method=method, inner=rule, tol=1e-4)
    assert res.success
    assert vanilla.success
    assert res.fun == pytest.approx(vanilla.fun, abs=1e-4)


def test_a_memory_of_four_atoms_still_converges():
    domain = DOMAINS["birkhoff"]
    f = strongly_convex(domain, 4)
    best = solve(f, domain, "blended")
    for rule in RULES:
        loop = ActiveLoop(rule, cap=4)
        res = solve(f, domain, loop, tol=1e-4, tolerance=1e-4)
        assert res.success
        assert res.fun == pytest.approx(best.fun, abs=1e-4)
        assert len(loop.active) <= 4
    assert len(best.active_set) > 4


@pytest.mark.parametrize("rule", RULES)
def test_the_active_set_of_a_result_is_its_point_and_the_next_start(rule):
    domain = DOMAINS["l1"]
    f = strongly_convex(domain, 7)
    res = solve(f, domain, rule, tol=1e-8, tolerance=1e-8)
    active = res.active_set
    np.testing.assert_allclose(active.point(), res.x, atol=1e-13)
    assert (active.weights > 0.0).all()
    assert active.weights.sum() == pytest.approx(1.0, abs=1e-15)
    weights = active.weights.copy()
    again = solve(f, domain, rule, x0=active, tol=2e-8, tolerance=2e-8)
    assert again.status is Status.CONVERGED
    assert again.n_lmo == 1
    # A nearby problem is solved with fewer calls from the atoms than from the point alone.
    near = functions.Quadratic(f.A, f.b + 0.01, convex=True)
    warm = solve(near, domain, rule, x0=active, tol=1e-8, tolerance=1e-8)
    cold = solve(near, domain, rule, x0=active.point(), tol=1e-8, tolerance=1e-8)
    assert warm.fun == pytest.approx(cold.fun, abs=1e-8)
    assert warm.n_lmo < cold.n_lmo
    np.testing.assert_array_equal(active.weights, weights)  # never written to
    vanilla = solve(near, domain, "fw", x0=active, maxiter=0)
    np.testing.assert_array_equal(vanilla.x, active.point())


def test_a_loop_that_is_stuck_says_at_which_gap():
    run, X = SimpleNamespace(lmo_error=0.0), SimpleNamespace(gap=1.25e-9)
    assert stuck(run, X).status is Status.NO_PROGRESS
    assert stuck(run, X).detail.endswith("smaller than rounding at an FW gap of 1.25e-09.")
    run.lmo_error = 2e-3
    assert stuck(run, X).status is Status.NO_PROGRESS
    assert stuck(run, X).detail.endswith("within the linear oracle's own error bound 0.002.")


def test_an_active_set_of_another_set_is_refused():
    res = solve(strongly_convex(DOMAINS["cube"], 1), sets.LInfBall(12, radius=2.0), "blended", maxiter=3)
    assert res.active_set is not None
    with pytest.raises(ValueError, match=r"x0 must be made of atoms in domain; pass x0\.point\(\)"):
        solve(strongly_convex(DOMAINS["cube"], 1), DOMAINS["cube"], "blended", x0=res.active_set)


def test_methods_that_bring_their_own_steps_refuse_an_active_set():
    dc = functions.SquaredNorm(1.0) - Zero()
    for method in ("fw-k", "fw-m"):
        with pytest.raises(ValueError, match=f"method '{method}' takes vanilla steps only"):
            dcfw.minimize(dc, sets.Simplex(3), method=method, inner="away")


def test_runs_are_reproducible_and_x0_is_not_written_to():
    domain = DOMAINS["birkhoff"]
    dc = strongly_convex(domain, 1) - functions.SquaredNorm(0.4)
    x0 = domain.random(0)
    x0.setflags(write=False)
    first, second = (dcfw.minimize(dc, domain, x0, inner="blended") for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()
    assert first.n_lmo == second.n_lmo


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
@pytest.mark.parametrize("rule", RULES)
def test_other_backends_find_the_same_point(backend, rule):
    xp = pytest.importorskip(backend)
    rng = np.random.default_rng(2)
    A, b, B = symmetric(rng, 12, 0.1, 2.0), rng.standard_normal(12), symmetric(rng, 12, 0.0, 1.0)
    for name in ("simplex", "cube", "k-sparse"):
        domain = DOMAINS[name]
        shape = domain.shape
        x0 = domain.random(3)
        ours = dcfw.minimize(
            functions.Quadratic(A, b) - functions.Quadratic(B), domain, x0, inner=rule, tol=1e-6
        )
        f, g = functions.Quadratic(xp.asarray(A), xp.asarray(b)), functions.Quadratic(xp.asarray(B))
        res = dcfw.minimize(f - g, domain, xp.asarray(x0), inner=rule, tol=1e-6)
        assert res.success
        assert type(res.x) is type(xp.asarray(x0))
        assert tuple(res.x.shape) == shape
        assert res.fun == pytest.approx(ours.fun, abs=1e-6)
        np.testing.assert_allclose(np.asarray(res.x), ours.x, atol=1e-3)


def test_single_precision_stays_single():
    domain = DOMAINS["k-sparse"]
    rng = np.random.default_rng(2)
    A = symmetric(rng, 12, 0.1, 2.0).astype(np.float32)
    f = functions.Quadratic(A, rng.standard_normal(12).astype(np.float32))
    for rule in RULES:
        res = dcfw.minimize(f, domain, np.zeros(domain.shape, np.float32), inner=rule, tol=1e-4)
        assert res.x.dtype == np.float32
        assert res.success


def test_the_loop_is_blended_and_lazy_unless_told_otherwise():
    assert (ActiveLoop().rule, ActiveLoop().lazy) == ("blended", True)
    assert ActiveLoop("blended", lazy=False).lazy  # blended steps are lazy by their nature
    assert not ActiveLoop("away", lazy=False).lazy
    with pytest.raises(ValueError, match=r"^rule must be one of"):
        ActiveLoop("sideways")


def test_a_step_without_the_oracle_promises_the_slope_that_its_rule_can_have():
    scores, here = np.array([1.0, 4.0]), 2.0
    assert ActiveLoop("pairwise")._promise(scores, here, worst=1, best=0) == 3.0
    assert ActiveLoop("away")._promise(scores, here, worst=1, best=0) == 2.0
    assert ActiveLoop("away")._promise(scores, 3.5, worst=1, best=0) == 2.5


@pytest.mark.parametrize("size", [10.0, 1e4, 1e8])
@pytest.mark.parametrize("rule", ["fw", *RULES])
def test_where_a_convex_f_is_flat_a_curvature_below_zero_is_rounding(rule, size):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        v = rng.standard_normal(5)
        v /= np.linalg.norm(v)
        points = rng.standard_normal((8, 5))
        points -= np.outer(points @ v, v)  # f has no curvature but across them
        f = functions.Quadratic(size * np.outer(v, v), rng.standard_normal(5), convex=True)
        hull = sets.ConvexHull(points)
        res = dcfw.minimize(f - functions.SquaredNorm(1e-3), hull, points[0], inner=rule, tol=1e-6)
        assert res.status is Status.CONVERGED


@pytest.mark.parametrize("rule", ["fw", *RULES])
def test_a_small_negative_curvature_beyond_rounding_is_found_out(rule):
    A = np.diag([1.0, 1.0, -1e-10])
    f = functions.Quadratic(A, np.array([0.0, 0.0, 1e-9]), convex=True)  # false
    domain = sets.Box([0.0, 0.0, -1.0], [0.0, 0.0, 1.0])
    res = dcfw.minimize(f - functions.SquaredNorm(1e-12), domain, inner=rule, tol=1e-15)
    assert res.status is Status.NOT_CONVEX


@pytest.mark.parametrize("rule", RULES)
def test_a_run_that_is_stuck_before_its_tolerance_says_so(rule):
    """An oracle that is wrong by more than the gap leads nowhere, and that is not convergence."""

    class Rough(sets.Oracle):
        def __call__(self, G):
            self.error = 0.1
            return super().__call__(G)

    class Simplex(sets.Simplex):
        def oracle(self):
            return Rough(self)

    f = strongly_convex(DOMAINS["simplex"], 3)
    res = solve(f, Simplex(12), rule, tol=1e-8, maxiter=200)
    assert res.status is Status.NO_PROGRESS
    assert "error bound 0.1" in res.message


def completion(shape=(12, 10), rank=2):
    """Least squares on some entries of a matrix of low rank, minus a small square."""
    rng = np.random.default_rng(0)
    R = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    seen = np.flatnonzero(rng.random(R.size) < 0.5)
    f = functions.LeastSquares(np.eye(R.size)[seen], R.ravel()[seen] + 0.1 * rng.standard_normal(len(seen)))
    return f - functions.SquaredNorm(0.02), np.linalg.svd(R, compute_uv=False)


@pytest.mark.parametrize("norm", ["nuclear", "spectral"])
def test_active_sets_save_oracle_calls_on_matrix_balls_and_are_the_default_there(norm):
    objective, sigma = completion()
    domain = (
        sets.NuclearBall((12, 10), radius=0.7 * sigma.sum())
        if norm == "nuclear"
        else sets.SpectralBall((12, 10), radius=0.5 * sigma.max())
    )
    options = {"tol": 0.0, "rtol": 1e-4, "max_lmo": 3000}
    default = dcfw.minimize(objective, domain, **options)
    vanilla = dcfw.minimize(objective, domain, inner="fw", **options)
    assert default.success
    assert default.active_set is not None
    assert default.n_lmo < 0.75 * vanilla.n_lmo
    assert default.fun <= vanilla.fun + 2.0 * options["rtol"] * default.history["gap"][0]


def keeps_atoms(domain, n, f=None):
    f = functions.Quadratic(np.eye(n), -np.ones(n), convex=True) if f is None else f
    res = dcfw.minimize(f - functions.SquaredNorm(0.1), domain, maxiter=1, max_lmo=2)
    return res.active_set is not None


def test_which_sets_have_faces():
    matrices = sets.NuclearBall((3, 2))
    assert matrices.faces
    assert sets.SpectralBall((3, 2)).faces
    assert sets.Spectraplex(3).faces
    assert sets.Epigraph(matrices).faces
    assert not sets.SpectralBall((3, 2), polar="inexact").faces  # its oracle does not see small differences
    assert not sets.SchattenBall((3, 2), 1.5).faces
    assert not sets.NuclearBall((1, 6)).faces  # an l2 ball
    assert not sets.L2Ball(6).faces
    assert sets.Product([matrices, sets.Simplex(4)]).faces
    assert not sets.Product([matrices, sets.L2Ball(4)]).faces
    assert not sets.Product([sets.Box(0.0, 1.0, 4), sets.Simplex(4)]).faces  # a polytope


def test_large_matrices_and_round_sets_take_vanilla_steps_by_default(monkeypatch):
    assert keeps_atoms(sets.Spectraplex(3), 9)
    assert not keeps_atoms(sets.L2Ball(9), 9)
    logistic = functions.LogisticLoss(np.eye(9), np.ones(9))
    assert not keeps_atoms(sets.Spectraplex(3), 9, logistic)  # whose gradients cannot be kept
    assert keeps_atoms(sets.Simplex(9), 9, logistic)
    monkeypatch.setattr("dcfw.solvers.choice.LARGE", 8)
    assert not keeps_atoms(sets.Spectraplex(3), 9)
    assert keeps_atoms(sets.Simplex(9), 9)


def test_atoms_of_a_set_with_infinitely_many_vertices_do_not_pile_up():
    objective, sigma = completion()
    domain = sets.NuclearBall((12, 10), radius=0.7 * sigma.sum())
    res = dcfw.minimize(objective, domain, tol=0.0, rtol=1e-7, max_lmo=400)
    assert len(res.active_set) <= 128


def test_a_step_towards_a_vertex_goes_to_the_one_that_the_oracle_has_found():
    # Two atoms whose slopes differ by less than a tie: the first of them was taken, and lies higher than x.
    c = np.array([1.0, 0.0, -3e-10])
    f = functions.Smooth(
        lambda x: float(c @ x + np.sum(x**4)), lambda x: c + 4.0 * x**3, lipschitz=12.0, convex=True
    )
    active = ActiveSet(np.array([1.0, 0.0, 0.0]))
    for k in (1, 2):
        active.add(OneHot(k, 1.0, (3,)))
    active.weights[:] = (1e-11, 0.5, 0.5 - 1e-11)
    res = dcfw.minimize(
        f - functions.SquaredNorm(1e-9), sets.Simplex(3), active, inner="blended", tol=1e-11, maxiter=2000
    )
    assert res.success, res.message
