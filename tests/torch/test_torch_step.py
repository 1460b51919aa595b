"""The step of DCFW: SGD where nothing binds, the projection where something does, Algorithm 1 in between."""

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

import dcfw  # noqa: E402
from dcfw import functions, sets, splits  # noqa: E402
from dcfw.torch import DCFW, SFW, sliding_step  # noqa: E402
from dcfw.torch.regions import Interval  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def gradient(p, t):
    """Return a deterministic, nonlinear gradient that depends on the point and the step."""
    return torch.sin(3.0 * p.detach() + t) + 0.1 * p.detach()


def run(kind, start, steps=20, grad=gradient, **options):
    p = torch.nn.Parameter(start.clone())
    optimizer = kind([p], **options)
    for t in range(steps):
        p.grad = grad(p, t)
        optimizer.step()
    return p.detach()


@pytest.mark.parametrize(
    "extra",
    [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}],
)
@pytest.mark.parametrize(
    "free",
    [
        {"constraint": None},
        {"radius": 1e9},
        {"constraint": "l2", "radius": 1e9},
    ],
)
def test_without_an_active_constraint_twenty_steps_are_those_of_sgd_bit_for_bit(free, extra):
    start = torch.randn(7, 5)
    expected = run(torch.optim.SGD, start, lr=0.05, **extra)
    assert torch.equal(run(DCFW, start, lr=0.05, **free, **extra), expected)


def test_the_spectral_projection_inside_the_ball_changes_no_bit():
    start = torch.randn(7, 5)
    expected = run(torch.optim.SGD, start, lr=0.05)
    assert torch.equal(run(DCFW, start, lr=0.05, constraint="spectral", radius=1e6), expected)


def test_on_the_cube_the_exact_step_is_clip():
    x, g = torch.randn(40).clamp_(-1, 1), 20.0 * torch.randn(40)
    moved = run(DCFW, x, steps=1, grad=lambda p, t: g, lr=0.1, radius=1.0)
    assert torch.equal(moved, x.sub(g, alpha=0.1).clamp(-1.0, 1.0))


def test_one_step_in_a_large_cube_is_a_sign_step_scaled_by_the_l1_norm():
    n, c, L = 50, 1e5, 10.0
    x, g = torch.randn(1, n, dtype=torch.float64), torch.randn(1, n, dtype=torch.float64)
    moved = sliding_step(x, g, 1.0 / L, Interval(-c, c), steps=1).x
    expected = x - g.abs().sum() / (n * L) * g.sign()
    torch.testing.assert_close(moved, expected, rtol=1e-4, atol=1e-5)


def test_inner_steps_approach_the_projection_of_a_gaussian_step_as_measured():
    x, g = 0.02 * torch.randn(1, 100_000), torch.randn(1, 100_000)
    z = x - 0.1 * g
    left = [
        float(
            (sliding_step(x, g, 0.1, Interval(-10.0, 10.0), steps=k, tol=0.0).x - z).norm() / (x - z).norm()
        )
        for k in (1, 5)
    ]
    assert left[0] <= 0.61
    assert left[1] <= 0.16


def test_many_inner_steps_are_the_projection():
    x, g = torch.rand(1, 30, dtype=torch.float64) - 0.5, 3.0 * torch.randn(1, 30, dtype=torch.float64)
    moved = sliding_step(x, g, 0.3, Interval(-0.5, 0.5), steps=20_000, tol=1e-7, sync=True).x
    torch.testing.assert_close(moved, (x - 0.3 * g).clamp(-0.5, 0.5), atol=1e-3, rtol=0.0)


def test_blockwise_steps_at_their_finest_are_the_projection():
    start, g = torch.rand(40, 1) - 0.5, 5.0 * torch.randn(40, 1)
    moved = run(
        DCFW,
        start,
        1,
        lambda p, t: g,
        lr=0.1,
        radius=0.5,
        scope="row",
        solver="fw",
        inner_steps=1,
        inner_tol=0.0,
    )
    torch.testing.assert_close(moved, (start - 0.1 * g).clamp(-0.5, 0.5), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("box", [("linf", 2.0), ("box", (0.0, 3.0))])
@pytest.mark.parametrize("solver", ["exact", "fw"])
def test_coordinates_without_gradient_are_untouched(solver, box):
    constraint, radius = box
    start = torch.rand(200)
    g = torch.randn(200)
    g[::3] = 0.0
    moved = run(
        DCFW,
        start,
        10,
        lambda p, t: g,
        lr=0.1,
        solver=solver,
        constraint=constraint,
        radius=radius,
        momentum=0.5,
    )
    assert torch.equal(moved[::3], start[::3])
    assert bool((moved[1::3] != start[1::3]).all())


def test_sparse_gradients_take_few_inner_steps_because_zero_residuals_stay():
    x, g = 0.02 * torch.randn(1, 100_000), torch.randn(1, 100_000)
    g[:, 2000:] = 0.0
    found = sliding_step(x, g, 0.1, Interval(-10.0, 10.0), steps=200, tol=1e-12)
    z = x - 0.1 * g
    few = sliding_step(x, g, 0.1, Interval(-10.0, 10.0), steps=5, tol=0.0).x
    assert float((few - z).norm() / (x - z).norm()) <= 0.2
    assert float((found.x - z).norm()) < float((few - z).norm())


class Relative:
    """The optimizer's stopping rule, in the core's words."""

    def __init__(self, tol):
        self.tol = tol

    def next(self, eps, gap):
        return 2.0 * self.tol * gap

    def enough(self, gap, eps, decrease):
        return gap <= 0.5 * eps


DOMAINS = {
    "linf": ({"constraint": "linf", "radius": 0.3}, sets.LInfBall(12, 0.3)),
    "box": ({"constraint": "box", "radius": (-0.1, 0.4)}, sets.Box(-0.1, 0.4, shape=12)),
    "l2": ({"constraint": "l2", "radius": 0.5}, sets.L2Ball(12, 0.5)),
    "l1": ({"constraint": "l1", "radius": 0.7}, sets.L1Ball(12, 0.7)),
    "simplex": ({"constraint": "simplex"}, sets.Simplex(12)),
    "k-sparse": ({"constraint": sets.KSparse(12, 3, 0.2)}, sets.KSparse(12, 3, 0.2)),
    "object": ({"constraint": sets.LpBall(12, 3.0)}, sets.LpBall(12, 3.0)),
}


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("steps", [1, 6])
def test_on_a_quadratic_the_iterates_are_those_of_the_numpy_solver(name, steps):
    options, domain = DOMAINS[name]
    rng = np.random.default_rng(3)
    A = rng.standard_normal((12, 12))
    A = A + A.T  # indefinite: phi is a difference of convex functions
    b = rng.standard_normal(12)
    L = 1.5 * float(np.abs(np.linalg.eigvalsh(A)).max())
    phi = functions.Quadratic(A, b)
    x0 = domain.start() if name != "object" else domain.random(0)
    p = torch.nn.Parameter(torch.from_numpy(np.array(x0)))
    At, bt = torch.from_numpy(A), torch.from_numpy(b)
    optimizer = DCFW([p], lr=1.0 / L, solver="fw", inner_steps=steps, inner_tol=0.05, **options)
    for T in range(1, 9):
        p.grad = At @ p.detach() + bt
        optimizer.step()
        reference = last_iterate(phi, L, domain, x0, T, steps)
        np.testing.assert_allclose(p.detach().numpy(), reference, atol=1e-9)


def last_iterate(phi, L, domain, x0, maxiter, max_inner):
    """Return x_{maxiter+1} of the NumPy solver."""
    result = dcfw.minimize(
        splits.sliding(phi, L),
        domain,
        x0,
        step="exact",
        inner="fw",
        tolerance=Relative(0.05),
        tol=0.0,
        maxiter=maxiter,
        max_inner=max_inner,
    )
    return result.x


def test_ending_early_and_going_on_with_steps_of_zero_are_the_same_bit_for_bit():
    x, g = torch.rand(30, 8) - 0.5, torch.randn(30, 8)
    runs = [sliding_step(x, g, 0.1, Interval(-0.5, 0.5), steps=40, sync=sync).x for sync in (False, True)]
    assert torch.equal(runs[0], runs[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("solver", ["exact", "fw"])
def test_half_precision_follows_single(dtype, solver):
    start = (torch.rand(64) - 0.5).to(dtype)
    half = run(DCFW, start, 5, lr=0.05, solver=solver, radius=0.5)
    single = run(DCFW, start.float(), 5, lr=0.05, solver=solver, radius=0.5)
    assert half.dtype == dtype
    torch.testing.assert_close(half.float(), single, atol=0.02, rtol=0.0)


def test_a_module_in_place_of_its_parameters_is_answered_with_what_to_write():
    with pytest.raises(TypeError, match=r"params must be parameters, .* give module\.parameters\(\)"):
        DCFW(torch.nn.Linear(2, 2))


def test_a_learning_rate_of_zero_moves_nothing_and_the_next_one_does():
    p = torch.nn.Parameter(torch.rand(50))
    before = p.detach().clone()
    optimizer = DCFW([p], lr=0.0, solver="fw")
    p.grad = torch.randn(50)
    optimizer.step()
    assert torch.equal(p.detach(), before)
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.step()
    assert bool(p.isfinite().all())
    assert not torch.equal(p.detach(), before)


METHODS = {
    "exact": lambda params, **options: DCFW(params, solver="exact", **options),
    "fw": lambda params, **options: DCFW(params, solver="fw", **options),
    "sfw": lambda params, **options: SFW(params, **options),
    "gradient": lambda params, **options: SFW(params, rescale="gradient", **options),
}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("constraint", ["linf", "l2", "l1", "spectral", "nuclear"])
@pytest.mark.parametrize("name", METHODS)
def test_a_gradient_with_nan_or_inf_is_refused_before_anything_moves(name, constraint, bad):
    good, p = (torch.nn.Parameter(torch.full((3, 4), 0.01)) for _ in range(2))
    optimizer = METHODS[name]([good, p], constraint=constraint, momentum=0.9)
    good.grad, p.grad = torch.ones(3, 4), torch.ones(3, 4)
    p.grad[1, 2] = bad
    with pytest.raises(ValueError, match=r"gradient of params\[1\] of shape \(3, 4\) has NaN or Inf"):
        optimizer.step()
    assert not optimizer.state
    assert torch.equal(good.detach(), torch.full((3, 4), 0.01))
    p.grad = torch.full((3, 4), 3e38)  # whose sum overflows: finite nevertheless
    if constraint == "linf":
        optimizer.step()


@pytest.mark.parametrize("kind", [DCFW, SFW])
@pytest.mark.parametrize("constraint", ["spectral", "nuclear"])
def test_matrix_balls_refuse_vectors_and_name_the_remedy(constraint, kind):
    model = torch.nn.Linear(3, 2)
    with pytest.raises(ValueError, match=r"bias has shape \(2,\): give dcfw\.torch\.param_groups\(model\)"):
        kind(model.named_parameters(), constraint=constraint)


def test_the_constructor_has_at_most_fourteen_arguments():
    assert len(inspect.signature(DCFW).parameters) <= 14
