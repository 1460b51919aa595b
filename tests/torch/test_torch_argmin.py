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


def test_a_solve_that_does_not_converge_or_has_no_atoms_is_refused():
    t = torch.tensor([2.0, -1.0, 0.3], dtype=torch.float64)
    with pytest.raises(RuntimeError, match="argmin found no solution"):
        argmin(lambda x, t: ((x - t) ** 4).sum(), sets.L2Ball(3), t, maxiter=1)
    with pytest.raises(ValueError, match="leave out inner="):
        argmin(lambda x, t: ((x - t) ** 2).sum(), sets.L1Ball(3), t, inner="fw")


def test_x_is_what_minimize_finds():
    t = torch.tensor([0.6, 0.5, -0.4], dtype=torch.float64)
    x = argmin(lambda x, t: ((x - t) ** 2).sum(), sets.Simplex(3), t)
    res = dcfw.minimize(dcfw.functions.LeastSquares(np.eye(3), t.numpy()), sets.Simplex(3), rtol=1e-12)
    np.testing.assert_allclose(x.numpy(), res.x, atol=1e-6)
