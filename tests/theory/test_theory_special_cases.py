"""What DC-FW becomes for particular decompositions and steps: methods that are known by other names."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dcfw
from dcfw import Status, functions, sets, splits
from reference_gaps import minimise_convex, rounding, size_of, symmetric, trace

minimize = partial(dcfw.minimize, inner="fw")
"""The paper's own inner steps, on polytopes too."""

SEEDS = st.integers(0, 2**32 - 1)
SETS = {
    "simplex": sets.Simplex(4),
    "l1": sets.L1Ball(4, radius=2.0),
    "l2": sets.L2Ball(4),
    "l1.5": sets.LpBall(4, p=1.5),
    "linf": sets.LInfBall(4),
    "k-sparse": sets.KSparse(4, k=2),
    "birkhoff": sets.Birkhoff(3),
    "schatten": sets.SchattenBall((3, 2), p=1.5),
    "nuclear": sets.NuclearBall((3, 2)),
    "spectral": sets.SpectralBall((3, 2)),
}


def random_quadratic(rng, domain, low, high):
    n = math.prod(domain.shape)
    return functions.Quadratic(symmetric(rng, n, low, high), rng.standard_normal(n))


@pytest.mark.parametrize("name", SETS)
def test_in_the_sliding_split_the_exact_step_is_the_demyanov_rubinov_step(name):
    rng = np.random.default_rng(1)
    domain = SETS[name]
    dc = splits.sliding(random_quadratic(rng, domain, -3.0, 2.0))
    x0 = domain.random(rng)
    kwargs = {"tol": 0.0, "tolerance": 0.05, "maxiter": 8, "max_inner": 40}
    exact, points = trace(minimize, dc, domain, x0, step="exact", **kwargs)
    short, others = trace(minimize, dc, domain, x0, step="short", **kwargs)
    assert exact.n_inner >= 3
    assert exact.n_lmo == short.n_lmo
    assert exact.n_inner == short.n_inner
    # The two lengths differ by rounding; FW steps do not amplify that unless a vertex ties.
    for x, y in zip(points, others, strict=True):
        assert np.allclose(x, y, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("name", ["l2", "l1.5", "schatten"])
def test_sliding_with_exactly_solved_subproblems_is_the_projected_gradient_method(name):
    # On round sets the inner loop reaches rounding level, so whole trajectories can be compared.
    rng = np.random.default_rng(2)
    domain = SETS[name]
    phi = random_quadratic(rng, domain, -3.0, 2.0)
    x0 = np.asarray(domain.lmo(rng.standard_normal(domain.shape)))
    dc = splits.sliding(phi, 3.0)
    res, iterates = trace(minimize, dc, domain, x0, tolerance=1e-13, tol=1e-12, maxiter=6)
    assert len(iterates) >= 4
    x = x0
    for t, x_t in enumerate(iterates):
        # Each step is off by at most sqrt(eps / L) and projected gradient steps expand by at most 1 + L/L.
        assert np.linalg.norm(x_t - x) <= math.sqrt(1e-13 / 3.0) * (2.0**t) + rounding(x, res.n_inner)
        x = domain.project(x - phi.grad(x) / 3.0)


@pytest.mark.parametrize("name", ["simplex", "l1", "linf", "k-sparse"])
@pytest.mark.parametrize("step", ["exact", "open-loop"])
def test_each_sliding_step_is_a_projected_gradient_step_up_to_its_tolerance(name, step):
    rng = np.random.default_rng(3)
    domain, eps, L = SETS[name], 1e-3, 3.0
    phi = random_quadratic(rng, domain, -3.0, 2.0)
    res, iterates = trace(
        minimize,
        splits.sliding(phi, L),
        domain,
        domain.random(rng),
        step=step,
        tolerance=eps,
        tol=0.0,
        maxiter=4,
        max_inner=10**6,
    )
    assert len(iterates) >= 2
    for x, following in itertools.pairwise(iterates):
        # The surrogate is L-strongly convex and solved to eps/2: the distance is at most sqrt(eps / L).
        projected = domain.project(x - phi.grad(x) / L)
        assert np.linalg.norm(following - projected) <= math.sqrt(eps / L) + rounding(x, res.n_inner)


@pytest.mark.parametrize("name", ["simplex", "l2", "linf", "schatten"])
def test_each_proximal_step_is_a_proximal_point_step_up_to_its_tolerance(name):
    rng = np.random.default_rng(4)
    domain, eps, rho, L = SETS[name], 1e-3, 1.0, 3.0
    phi = random_quadratic(rng, domain, -rho, 4.0)
    res, iterates = trace(
        minimize,
        splits.proximal(phi, L),
        domain,
        domain.random(rng),
        tolerance=eps,
        tol=0.0,
        maxiter=4,
        max_inner=10**6,
    )
    assert len(iterates) >= 2
    for x, following in itertools.pairwise(iterates):
        prox, error = minimise_convex(
            None, lambda y, x=x: phi.grad(y) + L * (y - x), 4.0 + L, domain, x.copy(), 1e-12
        )
        reach = math.sqrt(eps / (L - rho)) + math.sqrt(2.0 * error / (L - rho))
        assert np.linalg.norm(following - prox) <= reach + rounding(x, res.n_inner)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("step", ["exact", "short", "open-loop", "backtracking"])
def test_without_g_dc_fw_takes_exactly_the_steps_of_frank_wolfe(name, step):
    rng = np.random.default_rng(5)
    domain = SETS[name]
    f = random_quadratic(rng, domain, 0.5, 4.0)
    x0, count = domain.random(rng), 25
    _, points = trace(minimize, f, domain, x0, method="fw", step=step, tol=0.0, maxiter=count)
    for steps_taken in (1, 2, 3, 10, count):
        _, ends = trace(
            minimize,
            f - functions.Zero(),
            domain,
            x0,
            step=step,
            tol=0.0,
            tolerance=1e-300,
            maxiter=1,
            max_inner=steps_taken,
        )
        if len(points) <= steps_taken:  # both came to the end of what rounding allows
            break
        assert len(ends) == 2
        assert np.array_equal(ends[1], points[steps_taken])


@given(seed=SEEDS)
def test_without_g_the_values_agree_for_a_function_that_is_not_quadratic(seed):
    rng = np.random.default_rng(seed)
    domain = sets.L1Ball(3, radius=2.0)
    f = functions.LogSumExp(rng.standard_normal((5, 3)), temperature=0.5)
    x0 = domain.random(rng)
    fw, points = trace(minimize, f, domain, x0, method="fw", step="short", tol=1e-9, maxiter=12)
    dc = f - functions.Zero()
    dcfw, ends = trace(
        minimize, dc, domain, x0, step="short", tol=1e-9, tolerance=1e-9, maxiter=1, max_inner=12
    )
    if fw.status is Status.MAXITER:
        assert np.array_equal(ends[-1], points[-1])
        assert dcfw.fun == fw.fun


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=6)
@given(
    seed=SEEDS,
    tolerance=st.sampled_from(["adaptive", "progress", 0.1]),
    step=st.sampled_from(["exact", "short"]),
)
def test_with_descending_steps_phi_never_rises_and_every_iterate_is_feasible(name, seed, tolerance, step):
    rng = np.random.default_rng(seed)
    domain = SETS[name]
    dc = random_quadratic(rng, domain, 0.0, 2.0) - random_quadratic(rng, domain, 0.0, 3.0)
    x0 = domain.random(rng)
    res, iterates = trace(
        minimize, dc, domain, x0, step=step, tolerance=tolerance, tol=1e-4, maxiter=15, max_lmo=300
    )
    slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
    values = np.array([dc.value(x) for x in iterates])
    assert (np.diff(values) <= slack).all()
    assert all(domain.contains(x) for x in [*iterates, res.x])
    assert np.allclose(values, res.history["fun"], rtol=0.0, atol=slack)
    assert res.fun <= values.min() + slack


@pytest.mark.parametrize("start", [-1e-3, -1e-6, -1e-8])
@pytest.mark.parametrize("temperature", [1e-2, 1e-4, 1e-8])
def test_the_exact_step_descends_even_past_a_kink_close_by(start, temperature):
    # A smoothed max(-x, 1e-5 x): right of 0 the slope is tiny, but the far end is higher than the start.
    f = functions.LogSumExp(np.array([[-1.0], [1e-5]]), temperature=temperature)
    domain = sets.Box([-0.01], [1.0])
    res, iterates = trace(
        minimize,
        f - functions.Zero(),
        domain,
        np.array([start]),
        tol=1e-12,
        tolerance=1e-9,
        maxiter=5,
        max_inner=1,
    )
    values = np.array([f.value(x) for x in iterates])
    assert (np.diff(values) <= 4e-16 * abs(values[0])).all()
    assert res.fun <= values[0]


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
@pytest.mark.parametrize("step", ["exact", "open-loop"])
def test_every_method_stays_in_the_set(method, step):
    rng = np.random.default_rng(6)
    for domain in SETS.values():
        phi = random_quadratic(rng, domain, -2.0, 2.0)
        objective = phi if method in ("fw", "cgs") else splits.sliding(phi)
        x0 = domain.random(rng)
        res, iterates = trace(
            minimize, objective, domain, x0, method=method, step=step, tol=1e-4, maxiter=12, max_lmo=100
        )
        assert len(iterates) >= 1
        assert all(domain.contains(x) for x in [*iterates, res.x])


@pytest.mark.parametrize("name", ["simplex", "l2", "birkhoff"])
def test_the_values_in_the_history_are_those_of_phi_for_every_split_of_it(name):
    # They come from gradients that are kept up to date step by step, and never from an evaluation of phi.
    rng = np.random.default_rng(7)
    domain = SETS[name]
    phi = random_quadratic(rng, domain, -2.0, 3.0)
    x0 = domain.random(rng)
    ways = (
        splits.sliding(phi, 3.5),
        splits.proximal(phi, 2.5),
        splits.strengthen(splits.proximal(phi, 2.5), 0.7),
        2.0 * random_quadratic(rng, domain, 0.0, 1.0) - functions.SquaredNorm(0.5),
        (random_quadratic(rng, domain, 0.0, 1.0) + functions.SquaredNorm(1.0)) - functions.L2Norm(0.5),
    )
    for dc in ways:
        res, iterates = trace(minimize, dc, domain, x0, tol=1e-4, maxiter=10, max_lmo=200)
        slack = rounding(x0, res.n_inner, size_of(dc, domain, x0))
        assert len(iterates) >= 2
        assert np.allclose(res.history["fun"], [dc.value(x) for x in iterates], rtol=0.0, atol=slack)
