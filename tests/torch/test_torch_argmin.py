"""The layer argmin: its derivatives are those of the solution."""

import numpy as np
import pytest

import dcfw
from dcfw import sets

torch = pytest.importorskip("torch")
from dcfw.torch import argmin  # noqa: E402

SETS = {
    "simplex": lambda: sets.Simplex(5),
    "hypersimplex": lambda: sets.Hypersimplex(5, 2),
    "box": lambda: sets.Box(-0.2, 0.3, 5),
    "l1": lambda: sets.L1Ball(5, 0.8),
    "birkhoff": lambda: sets.Birkhoff(3),
}


def objective(x, t, scale):
    return ((x - t) ** 2).sum() + scale * (x**4).sum()


@pytest.mark.parametrize("name", SETS)
def test_the_gradient_is_that_of_finite_differences(name):
    domain = SETS[name]()
    rng = np.random.default_rng(0)
    t = torch.tensor(rng.standard_normal(domain.shape), requires_grad=True)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor(rng.standard_normal(domain.shape))

    def loss(t, scale):
        return (weights * argmin(objective, domain, t, scale, rtol=1e-13)).sum()

    loss(t, scale).backward()
    h = 1e-4
    with torch.no_grad():
        for index in np.ndindex(domain.shape):
            d = torch.zeros_like(t)
            d[index] = h
            slope = (loss(t + d, scale) - loss(t - d, scale)) / (2 * h)
            assert float(t.grad[index]) == pytest.approx(float(slope), abs=2e-4)
        slope = (loss(t, scale + h) - loss(t, scale - h)) / (2 * h)
        assert float(scale.grad) == pytest.approx(float(slope), abs=2e-4)


def test_a_model_learns_costs_from_decisions():
    # Decision-focused learning: the layer's solutions are the data, and the loss falls by a factor of ten.
    rng = np.random.default_rng(1)
    features = torch.tensor(rng.standard_normal((6, 3)))
    truth = torch.tensor(rng.standard_normal((3, 4)))
    domain = sets.Simplex(4)

    def decide(cost):
        return argmin(lambda x, c: (c * x).sum() + (x * x).sum(), domain, cost)

    decisions = torch.stack([decide(row @ truth) for row in features])
    W = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([W], lr=0.2)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = sum(((decide(row @ W) - x) ** 2).sum() for row, x in zip(features, decisions, strict=True))
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert losses[-1] < 0.1 * losses[0]


def test_a_linear_objective_has_no_gradient_at_a_vertex():
    cost = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    x = argmin(lambda x, c: (c * x).sum(), sets.Simplex(3), cost)
    x[1].backward()
    assert x.tolist() == [0.0, 1.0, 0.0]
    assert cost.grad.tolist() == [0.0, 0.0, 0.0]


def squares(x, t):
    return ((x - t) ** 2).sum()


FACES = {  # solutions whose atoms span less than their face, or that end without atoms
    "inside a box": (sets.Box(0.0, 1.0, 2), [0.3, 0.3]),
    "inside an l1 ball": (sets.L1Ball(3), [0.3, 0.01, -0.02]),
    "on an edge of an l1 ball": (sets.L1Ball(3), [2.0, 1.5, 0.1]),
    "the uniform matrix": (sets.Birkhoff(3), [[1 / 3] * 3] * 3),
    "on a face of a box": (sets.Box(0.0, 1.0, 3), [0.5, 0.5, 1.5]),
    "at a vertex": (sets.Hypersimplex(4, 2), [3.0, 2.0, -1.0, 0.0]),
}


@pytest.mark.parametrize("name", FACES)
def test_the_jacobian_of_a_projection_is_that_of_the_whole_face(name):
    domain, target = FACES[name]
    t, h = torch.tensor(target, dtype=torch.float64), 1e-5
    ours = torch.autograd.functional.jacobian(lambda t: argmin(squares, domain, t), t)
    for index in np.ndindex(domain.shape):
        d = np.zeros(domain.shape)
        d[index] = h
        slope = (domain.project(t.numpy() + d) - domain.project(t.numpy() - d)) / (2 * h)
        np.testing.assert_allclose(ours[(..., *index)], slope, atol=1e-6)


@pytest.mark.parametrize(
    "domain", [sets.L2Ball(3), sets.NuclearBall((2, 2)), sets.SpectralBall((2, 2))], ids=lambda d: d.name
)
def test_curved_sets_are_solved_and_not_differentiated(domain):
    t = torch.full(domain.shape, 3.0, dtype=torch.float64)
    assert domain.contains(argmin(squares, domain, t).numpy())
    with pytest.raises(ValueError, match="domain must be a polytope to differentiate"):
        argmin(squares, domain, t.requires_grad_())


def test_a_second_derivative_is_refused():
    t = torch.tensor([0.3, 0.2], dtype=torch.float64, requires_grad=True)
    x = argmin(squares, sets.Box(-1.0, 1.0, 2), t)
    with pytest.raises(RuntimeError, match="argmin has first derivatives only"):
        torch.autograd.grad((x**2).sum() + (t**3).sum(), t, create_graph=True)


def test_negative_curvature_on_the_face_is_refused_in_the_backward_pass():
    t = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    centre = np.full(2, 0.5)

    class Start(sets.Simplex):  # whose oracle answers ties with the same point inside: a stationary one
        polytope = True

        def lmo(self, G):
            return centre.copy() if np.ptp(G) < 1e-5 else super().lmo(G)

    x = argmin(lambda x, t: t * x[0] * x[1], Start(2), t)
    assert x.tolist() == [0.5, 0.5]
    with pytest.raises(RuntimeError, match="fun must be convex in x"):
        x[0].backward()


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        (2.0, {}, r"parameters\[0\] must be a tensor, got float"),
        (torch.tensor([float("nan"), 1.0, 1.0]), {}, r"parameters\[0\] has NaN or Inf"),
        (torch.ones(3), {"x0": np.ones(3)}, "x0 is not an option of argmin"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(given, options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        argmin(squares, sets.L1Ball(3), given, **options)


def test_a_solve_that_does_not_converge_is_refused():
    t = torch.tensor([2.0, -1.0, 0.3], dtype=torch.float64)
    with pytest.raises(RuntimeError, match="argmin found no solution"):
        argmin(lambda x, t: ((x - t) ** 4).sum(), sets.L2Ball(3), t, maxiter=1)


def test_x_is_what_minimize_finds():
    t = torch.tensor([0.6, 0.5, -0.4], dtype=torch.float64)
    x = argmin(lambda x, t: ((x - t) ** 2).sum(), sets.Simplex(3), t)
    res = dcfw.minimize(dcfw.functions.LeastSquares(np.eye(3), t.numpy()), sets.Simplex(3), rtol=1e-12)
    np.testing.assert_allclose(x.numpy(), res.x, atol=1e-6)
