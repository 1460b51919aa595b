"""Graduated DC-FW: ends at a vertex, bounds all vertices from below, and counts what it does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import Status, functions, sets
from dcfw.solvers.graduated import Graduated
from dcfw.solvers.paths import find
from dcfw.solvers.run import Goal, Run


def subsets(n, k):
    return [np.isin(np.arange(n), chosen).astype(float) for chosen in itertools.combinations(range(n), k)]


def cross(*families):
    return [np.concatenate([part.ravel() for part in parts]) for parts in itertools.product(*families)]


SIGNS = [np.array(signs) for signs in itertools.product([-1.0, 1.0], repeat=5)]
CORNERS = [np.array(corner) for corner in itertools.product([0.0, 1.0], [-2.0, 1.0], [3.0, 3.5])]
PERMUTATIONS = [np.eye(4)[list(p)] for p in itertools.permutations(range(4))]
UNITS = list(np.eye(4))
BY_HAND = {
    "cube": (sets.LInfBall(5), SIGNS),
    "box": (sets.Box([0.0, -2.0, 3.0], [1.0, 1.0, 3.5]), CORNERS),
    "box with a fixed entry": (
        sets.Box([0.0, 2.0], [1.0, 2.0]),
        [np.array([0.0, 2.0]), np.array([1.0, 2.0])],
    ),
    "simplex": (sets.Simplex(4), UNITS),
    "l1 ball": (sets.L1Ball(4), [sign * unit for unit in UNITS for sign in (1.0, -1.0)]),
    "hypersimplex": (sets.Hypersimplex(6, 3), subsets(6, 3)),
    "at most k": (sets.Hypersimplex(5, 2, at_most=True), [*subsets(5, 0), *subsets(5, 1), *subsets(5, 2)]),
    "birkhoff": (sets.Birkhoff(4), PERMUTATIONS),
    "product": (
        sets.Product([sets.Simplex(4), sets.Box([0.0, -2.0, 3.0], [1.0, 1.0, 3.5])]),
        cross(UNITS, CORNERS),
    ),
}
every_case = pytest.mark.parametrize("name", BY_HAND)


def quadratic(shape, seed=0, shift=0.0):
    rng, n = np.random.default_rng(seed), math.prod(shape)
    M = rng.standard_normal((n, n))
    return functions.Quadratic(M + M.T + shift * np.eye(n), rng.standard_normal(n))


def is_listed(x, vertices):
    return any(np.array_equal(x, v) for v in vertices)


@every_case
@given(seed=st.integers(0, 10**6), shift=st.sampled_from([0.0, 20.0, -20.0]))
def test_the_answer_is_a_vertex_and_no_vertex_is_below_the_bound(name, seed, shift):
    domain, vertices = BY_HAND[name]
    phi = quadratic(domain.shape, seed, shift)
    res = dcfw.minimize(phi, domain, method="graduated")
    assert res.status is Status.CONVERGED
    assert is_listed(res.x, vertices)
    assert res.fun == pytest.approx(phi.value(res.x), rel=1e-12)
    least = min(phi.value(v) for v in vertices)
    assert res.lower_bound <= least <= res.fun * (1 + 1e-12 * np.sign(res.fun)) + 1e-12
    assert res.conditional == ""  # small quadratics: all eigenvalues are known
    assert res.gap_of.startswith("phi_theta at theta = -1")
    assert (res.gap, res.dc_gap) == (0.0, (0.0, 0.0))


@every_case
def test_every_stage_agrees_with_phi_on_the_vertices_from_convex_to_concave(name):
    domain, vertices = BY_HAND[name]
    phi = quadratic(domain.shape)
    x = domain.start()
    limits = {"maxiter": 1, "max_inner": 1, "max_lmo": None, "time_limit": None}
    (path,) = find(phi, domain, x, "spheres", Run(phi, domain.oracle(), x, goal=Goal(0.0, 0.0), **limits))
    n = math.prod(domain.shape)
    for theta in (1.0, 0.3, -1.0):
        stage = path.stage(theta, lambda value, vertex: None)
        differences = [stage.value(v) - phi.value(v) for v in vertices]
        assert np.ptp(differences) <= 1e-9 * (1 + max(map(abs, differences)))
        H = np.stack(
            [stage.grad(row.reshape(domain.shape)) - stage.grad(np.zeros(domain.shape)) for row in np.eye(n)]
        )
        H = np.stack([np.ravel(domain.tangent(row)) for row in H.reshape(n, *domain.shape)])
        H = np.stack([np.ravel(domain.tangent(row)) for row in H.T.reshape(n, *domain.shape)])
        values = np.linalg.eigvalsh(0.5 * (H + H.T))
        slack = 1e-9 * (1 + np.abs(values).max())
        assert theta != 1.0 or values[0] >= -slack
        assert theta != -1.0 or values[-1] <= slack
    assert path.offset == pytest.approx(path.stage(1.0, print).value(vertices[0]) - phi.value(vertices[0]))


def test_a_path_finds_the_best_vertex_of_most_small_problems():
    found = 0
    for seed in range(40):
        phi = quadratic((5,), seed)
        res = dcfw.minimize(phi, sets.LInfBall(5), method="graduated")
        found += res.fun <= min(phi.value(v) for v in SIGNS) + 1e-9
    assert found >= 34


def test_orthogonal_matrices_are_reached_and_bounded():
    rng, domain = np.random.default_rng(3), sets.SpectralBall((3, 3))
    phi = quadratic((3, 3), 3)
    res = dcfw.minimize(phi, domain, method="graduated")
    np.testing.assert_allclose(res.x @ res.x.T, np.eye(3), atol=1e-9)
    samples = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2000)]
    assert res.lower_bound <= min(map(phi.value, samples))


class Half(functions.Function):
    """1/4 ||A'X + sign XB||^2, a part of the paper's variant 1; their sum is constant on permutations."""

    affine_grad = convex = True

    def __init__(self, A, B, sign):
        self.A, self.B, self.sign = A, B, sign

    def _root(self, X):
        return self.A.T @ X + self.sign * (X @ self.B)

    def value(self, X):
        return 0.25 * float((self._root(X) ** 2).sum())

    def grad(self, X):
        return 0.5 * (self.A @ self._root(X) + self.sign * (self._root(X) @ self.B.T))

    def value_from_grad(self, X, grad):
        return 0.5 * float(np.vdot(X, grad))


def papers_split(n=4, seed=0):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, n))
    return Half(A, B, 1.0) - Half(A, B, -1.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("r", ["auto", "split", "both", "spheres"])
def test_the_papers_own_split_is_a_path_on_permutations(r, seed):
    dc = papers_split(seed=seed)
    res = dcfw.minimize(dc, sets.Birkhoff(4), method=Graduated(r))
    assert (
        res.split
        == {
            "auto": "graduated, r = f + g",
            "split": "graduated, r = f + g",
            "both": "graduated, r = f + g and spheres",
            "spheres": "graduated, r = spheres",
        }[r]
    )
    assert is_listed(res.x, PERMUTATIONS)
    least = min(dc.value(v) for v in PERMUTATIONS)
    assert res.lower_bound <= least <= res.fun + 1e-12


def test_a_split_whose_sum_varies_on_vertices_is_refused_as_a_path():
    dc = functions.Quadratic(np.diag([1.0, 2.0, 3.0])) - functions.SquaredNorm(1.0)
    with pytest.raises(ValueError, match=r"r='split' needs an objective f - g whose f \+ g is constant"):
        dcfw.minimize(dc, sets.Simplex(3), method=Graduated("split"))
    assert dcfw.minimize(dc, sets.Simplex(3), method="graduated").split == "graduated, r = spheres"


def test_a_users_function_is_a_path_if_it_is_constant_on_the_vertices():
    phi = quadratic((4,))
    strong = functions.SquaredNorm(20.0)
    res = dcfw.minimize(phi, sets.Simplex(4), method=Graduated(strong))
    assert res.lower_bound <= min(map(phi.value, UNITS)) <= res.fun + 1e-12
    with pytest.raises(ValueError, match="r must be constant on the vertices"):
        dcfw.minimize(
            phi, sets.Simplex(4), method=Graduated(functions.Quadratic(np.diag([1.0, 2.0, 3.0, 4.0])))
        )


def test_a_set_that_declares_nothing_is_refused_with_the_remedies():
    with pytest.raises(
        ValueError, match=r"declares none: give the set a method spheres\(\), an objective f - g"
    ):
        dcfw.minimize(quadratic((4,)), sets.LpBall(4, 3.0), method="graduated")


class CountedSet:
    """A user's cube, with its calls."""

    shape, diameter = (5,), 2.0 * math.sqrt(5.0)

    def __init__(self):
        self.calls = 0

    def lmo(self, G):
        self.calls += 1
        return np.where(G > 0, -1.0, 1.0)

    def contains(self, x):
        return bool(np.abs(x).max() <= 1 + 1e-9)

    def start(self):
        return np.zeros(5)

    def spheres(self):
        return sets.LInfBall(5).spheres()


class Counted(functions.Function):
    affine_grad = True

    def __init__(self, phi):
        self.phi, self.grads, self.values = phi, 0, 0

    def value(self, x):
        self.values += 1
        return self.phi.value(x)

    def grad(self, x):
        self.grads += 1
        return self.phi.grad(x)

    def value_from_grad(self, x, grad):
        return self.phi.value_from_grad(x, grad)


def test_counters_are_those_of_the_users_own_objects():
    domain, phi = CountedSet(), Counted(quadratic((5,)))
    res = dcfw.minimize(phi, domain, method="graduated")
    assert res.n_lmo == domain.calls
    assert res.n_grad_f + res.n_resync == phi.grads
    assert res.n_fun == phi.values


@pytest.mark.parametrize("inner", ["fw", "blended"])
def test_counters_of_a_path_of_a_users_parts_are_exact(inner):
    dc = papers_split()
    f, g = Counted(dc.f), Counted(dc.g)
    f.convex = g.convex = True
    res = dcfw.minimize(f - g, sets.Birkhoff(4), method="graduated", inner=inner)
    assert res.split == "graduated, r = f + g"
    assert res.n_grad_f + res.n_resync == f.grads
    assert res.n_grad_g <= g.grads <= res.n_grad_f + res.n_resync


def stopped(**options):
    phi = quadratic((30,))
    return phi, dcfw.minimize(phi, sets.LInfBall(30), **{"method": "graduated", **options})


def interrupt(intermediate_result):
    if intermediate_result.nit == 7:
        raise StopIteration


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"maxiter": 5}, Status.MAXITER),
        ({"max_lmo": 1}, Status.MAX_LMO),
        ({"max_lmo": 50}, Status.MAX_LMO),
        ({"time_limit": 0.0}, Status.TIME_LIMIT),
        ({"callback": interrupt}, Status.CALLBACK),
    ],
)
def test_a_run_that_is_cut_short_still_returns_a_vertex(options, status):
    phi, res = stopped(**options)
    assert res.status is status
    assert np.array_equal(np.abs(res.x), np.ones(30))
    assert res.fun == pytest.approx(phi.value(res.x))
    assert res.gap == pytest.approx(dcfw.gaps.fw_gap(phi, sets.LInfBall(30), res.x))
    assert res.gap_of == "phi"
    assert res.dc_gap == (0.0, math.inf)
    assert res.n_lmo <= options.get("max_lmo", math.inf)


def test_history_and_thetas_record_the_path():
    _, res = stopped()
    thetas = np.array(res.theta_history)
    assert (np.diff(thetas) < 0.0).all()
    assert thetas[0] < 1.0
    assert (-np.diff(thetas) <= 2.0 / 100 + 1e-12).all()
    assert (np.diff(res.history["fun"]) <= 1e-12).all()  # of the best vertex so far
    assert res.fun == pytest.approx(res.history["fun"][-1])


def test_a_symmetric_start_is_left():
    # The start is stationary for all theta: a cycle of 8 nodes, cut by alternating signs.
    W = np.roll(np.eye(8), 1, axis=0) + np.roll(np.eye(8), -1, axis=0)
    res = dcfw.minimize(functions.Quadratic(W), sets.LInfBall(8), method="graduated")
    assert res.fun == -8.0


def test_restarts_differ_and_the_best_is_returned():
    phi = quadratic((60,), 5)
    res = dcfw.minimize(phi, sets.LInfBall(60), method="graduated", restarts=6, rng=1)
    assert res.fun == pytest.approx(min(res.restart_values))
    assert len(set(np.round(res.restart_values, 6))) > 1
    again = dcfw.minimize(phi, sets.LInfBall(60), method="graduated", restarts=6, rng=1)
    assert again.restart_values == res.restart_values
    assert math.isfinite(res.lower_bound)  # the convex stage is made once, and its bound is everybody's


@pytest.mark.parametrize("inner", ["fw", "away", "pairwise", "blended"])
def test_active_sets_follow_the_path_too(inner):
    for seed in range(5):
        phi = quadratic((4, 4), seed)
        res = dcfw.minimize(phi, sets.Birkhoff(4), method="graduated", inner=inner)
        assert res.success
        assert is_listed(res.x, PERMUTATIONS)
        assert res.lower_bound <= min(map(phi.value, PERMUTATIONS))


@pytest.mark.parametrize("step", ["exact", "open-loop", "short", "backtracking"])
@pytest.mark.parametrize("stated", [True, False])
def test_a_smooth_phi_ends_at_a_vertex(stated, step):
    if step == "short" and not stated:
        pytest.skip("short steps need a constant")
    A = quadratic((5,)).A
    phi = functions.Smooth(
        lambda x: float(np.cos(A @ x).sum()),
        lambda x: -A.T @ np.sin(A @ x),
        **({"lipschitz": float(np.linalg.norm(A, 2) ** 2)} if stated else {}),
    )
    res = dcfw.minimize(phi, sets.LInfBall(5), method="graduated", step=step)
    assert is_listed(res.x, SIGNS)
    assert res.lower_bound <= min(map(phi.value, SIGNS)) <= res.fun + 1e-12
    assert (
        "stated constants" in res.conditional if stated else "curvature that it has at x0" in res.conditional
    )


@pytest.mark.parametrize("power", [-40, -10, 10, 40])
def test_scaling_phi_by_a_power_of_two_changes_nothing(power):
    phi, scale = quadratic((20,)), 2.0**power
    kwargs = {"method": "graduated", "tol": 0.0}
    ours = dcfw.minimize(phi, sets.LInfBall(20), **kwargs)
    other = dcfw.minimize(functions.Quadratic(scale * phi.A, scale * phi.b), sets.LInfBall(20), **kwargs)
    assert np.array_equal(ours.x, other.x)
    assert other.fun == scale * ours.fun
    assert other.n_lmo == ours.n_lmo


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_other_array_libraries_take_the_same_path(backend):
    xp = pytest.importorskip(backend)
    phi = quadratic((8,))
    other = functions.Quadratic(xp.asarray(phi.A), xp.asarray(phi.b))
    ours = dcfw.minimize(phi, sets.LInfBall(8), method="graduated", inner="fw")
    res = dcfw.minimize(
        other, sets.LInfBall(8), xp.zeros(8, dtype=xp.float64), method="graduated", inner="fw"
    )
    assert type(res.x) is type(xp.zeros(1))
    assert np.array_equal(np.asarray(res.x), ours.x)
    assert res.lower_bound == pytest.approx(ours.lower_bound)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r": "norm"}, "r must be one of"),
        ({"r": 3}, "r must be one of"),
        ({"stages": 0}, "stages must be"),
        ({"steps": 1.5}, "steps must be"),
        ({"perturbation": 2.0}, "perturbation must be"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Graduated(**options)


def test_a_users_local_search_improves_the_ends_of_paths():
    phi, domain = quadratic((40,), 2), sets.LInfBall(40)

    def flips(x):
        x = x.copy()
        while True:
            change = -2.0 * x * phi.grad(x) + 2.0 * phi.A.diagonal()
            if change.min() > -1e-9:
                return x
            x[change.argmin()] *= -1.0

    res = dcfw.minimize(phi, domain, method=Graduated(polish=flips))
    assert np.array_equal(flips(res.x), res.x)
    assert res.fun <= dcfw.minimize(phi, domain, method="graduated").fun
    assert res.gap == 0.0


@pytest.mark.parametrize(
    ("polish", "message"),
    [
        (lambda x: x[:3], "polish returned shape (3,)"),
        (lambda x: np.full(5, np.nan), "polish returned NaN or Inf"),
        (lambda x: 10.0 * x, "polish returned a point outside the set"),
    ],
)
def test_a_local_search_is_not_trusted(polish, message):
    res = dcfw.minimize(quadratic((5,), shift=-20.0), sets.LInfBall(5), method=Graduated(polish=polish))
    assert res.status is Status.BAD_ORACLE
    assert message in res.message
    assert is_listed(res.x, SIGNS)


@pytest.mark.parametrize("exponent", [-200, -30, 0, 30, 230])
def test_the_lower_bound_does_not_depend_on_units(exponent):
    """Curvatures were measured by unit steps, which were lost beside the slope over a set of size 1e71."""
    R = 2.0**exponent
    H, b = np.array([[-1.0, 0.0, -1.0], [0.0, -2.0, -1.5], [-1.0, -1.5, 2.0]]), np.array([0.0, 1.0, 1.0])

    def solve(R):
        phi = functions.Quadratic(H / R / R, b / R)
        return dcfw.minimize(phi, sets.L1Ball(3, R), R * np.array([-0.5, 0.5, 0.0]), method="graduated")

    res, one = solve(R), solve(1.0)
    assert (res.fun, res.lower_bound) == (one.fun, one.lower_bound)
    assert res.lower_bound <= res.fun
