"""What a step does with parameters that have no gradient, no entries, or no place in the set yet."""

import copy
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

from dcfw import sets  # noqa: E402
from dcfw.torch import DCFW, SFW  # noqa: E402

METHODS = {
    "exact": lambda params, **options: DCFW(params, lr=1.0, solver="exact", **options),
    "fw": lambda params, **options: DCFW(params, lr=1.0, solver="fw", **options),
    "sfw": lambda params, **options: SFW(params, lr=0.5, **options),
    "gradient": lambda params, **options: SFW(params, lr=0.5, rescale="gradient", **options),
}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def parameter(values, grad=None):
    p = torch.nn.Parameter(torch.tensor(values))
    p.grad = None if grad is None else torch.tensor(grad)
    return p


def joined(params):
    return torch.cat([p.detach().reshape(-1) for p in params])


# -- parameters without a gradient --------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("constraint", ["l2", "linf"])
def test_a_parameter_without_gradient_is_passed_over(constraint, name):
    a, b = parameter([5.0, 0.0]), parameter([0.0, 0.0], [1.0, 1.0])
    optimizer = METHODS[name]([a, b], constraint=constraint)
    optimizer.step()
    assert a.tolist() == [5.0, 0.0]
    a.grad = torch.tensor([0.0, 1.0])
    optimizer.step()
    assert float(a.detach().abs().max()) <= 1.0


def test_a_parameter_without_gradient_has_no_weight_decay_and_keeps_its_momentum():
    a, b = parameter([0.5], [1.0]), parameter([0.5], [1.0])
    optimizer = DCFW([a, b], lr=0.1, constraint="l2", radius=100.0, momentum=0.9, weight_decay=0.1)
    optimizer.step()
    kept, at = optimizer.state[b]["momentum_buffer"].clone(), b.detach().clone()
    b.grad = None
    optimizer.step()
    assert torch.equal(optimizer.state[b]["momentum_buffer"], kept)
    assert torch.equal(b.detach(), at)


# -- sets without a projection ------------------------------------------------------------------------------


class Cube:
    """[-1, 1]^n with an oracle and nothing else."""

    def lmo(self, G):
        return -torch.sign(G) + (G == 0.0).to(G.dtype)


class Known(Cube):
    """The same with a test of membership."""

    def contains(self, x):
        return bool((x.abs() <= 1.0).all())


OUTSIDE = {"far": torch.full((3,), 5.0), "one entry": torch.tensor([0.2, -0.4, 1.5])}


@pytest.mark.parametrize("kind", [DCFW, SFW])
@pytest.mark.parametrize("domain", [Cube, Known])
@pytest.mark.parametrize("start", OUTSIDE)
def test_a_start_outside_a_set_without_projection_is_in_it_after_the_first_step(start, domain, kind):
    p = torch.nn.Parameter(OUTSIDE[start].clone())
    p.grad = torch.full((3,), 1e-3)
    kind([p], lr=1e-3, constraint=domain()).step()
    assert float(p.detach().abs().max()) <= 1.0 + 1e-6
    torch.testing.assert_close(p.detach(), OUTSIDE[start].clamp(-1.0, 1.0), atol=0.1, rtol=0.0)


@pytest.mark.parametrize("domain", [Cube, Known])
def test_a_start_inside_a_set_without_projection_is_kept(domain):
    for start in (torch.rand(50) * 2.0 - 1.0, torch.ones(50), torch.zeros(50)):
        p = torch.nn.Parameter(start.clone())
        optimizer = DCFW([p], constraint=domain())
        optimizer.project_()
        assert torch.equal(p.detach(), start)


def test_a_start_outside_a_polytope_of_ours_is_moved_into_it():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    hull = sets.ConvexHull(corners)
    assert not hasattr(hull, "project")
    for start in ([3.0, 1.0], [0.6, 0.6], [-0.1, 0.5]):
        p = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
        DCFW([p], constraint=hull).project_()
        assert hull.contains(p.detach().numpy(), tol=1e-6)
        q = sets.Box(0.0, 1.0, shape=2).project(np.array(start))
        nearest = q if q.sum() <= 1.0 else sets.Simplex(2).project(np.array(start))
        np.testing.assert_allclose(p.detach().numpy(), nearest, atol=0.1)


def test_the_first_step_from_outside_reports_the_gap_where_it_begins():
    gaps = []
    for start in ([3.0, 0.0], [1.0, 0.0]):
        p = parameter(start, [1.0, 1.0])
        optimizer = DCFW([p], constraint="l2", solver="fw", track_gap=True)
        optimizer.step()
        gaps.append(optimizer.last_step())
    assert gaps[0] == gaps[1]


# -- weights and sets that change between two steps ----------------------------------------------------------


SETS = {
    "linf": sets.LInfBall((3, 2), 1.0),
    "l2": sets.L2Ball((3, 2), 1.0),
    "l1": sets.L1Ball((3, 2), 1.0),
    "simplex": sets.Simplex((3, 2), 1.0),
    "spectral": sets.SpectralBall((3, 2), 1.0),
    "nuclear": sets.NuclearBall((3, 2), 1.0),
}


def stepping(name, constraint, radius=1.0):
    """An optimizer that has taken a step, and its model."""
    model = torch.nn.Linear(2, 3, bias=False)
    optimizer = METHODS[name](model.parameters(), constraint=constraint, radius=radius)
    optimizer.param_groups[0]["lr"] = 1e-3  # with large steps points outside the set come back by themselves
    model.weight.grad = torch.randn(3, 2)
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(("name", "constraint"), [*itertools.product(METHODS, SETS)])
def test_weights_overwritten_outside_the_set_are_back_after_the_next_step(name, constraint):
    model, optimizer = stepping(name, constraint)
    model.load_state_dict({"weight": torch.full((3, 2), 7.0)})
    model.weight.grad[0] = 0.0
    optimizer.step()
    assert SETS[constraint].contains(model.weight.detach().numpy(), 1e-5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("way", ["another tensor", "in place"])
def test_weights_overwritten_through_data_are_noticed_though_their_version_stays(name, way):
    model, optimizer = stepping(name, "simplex")
    version = model.weight._version
    if way == "in place":
        model.weight.data.mul_(7.0)
    else:
        model.weight.data = torch.full((3, 2), 7.0)
    assert model.weight._version == version or way == "another tensor"
    optimizer.step()
    assert SETS["simplex"].contains(model.weight.detach().numpy(), 1e-5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("constraint", SETS)
def test_weights_are_in_a_set_that_was_made_smaller_after_the_next_step(constraint, name):
    model, optimizer = stepping(name, constraint, radius=5.0)
    optimizer.param_groups[0]["radius"] = 1.0
    optimizer.step()
    assert SETS[constraint].contains(model.weight.detach().numpy(), 1e-5)


@pytest.mark.parametrize("constraint", ["simplex", "nuclear"])  # where a second projection changes bits
def test_a_state_that_is_loaded_leaves_the_weights_as_they_were_saved(constraint):
    model, optimizer = stepping("fw", constraint)
    for _ in range(20):
        optimizer.step()
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    optimizer.step()
    expected = model.weight.detach().clone()
    for first in (0, 1):  # whichever is loaded first
        for part in (first, 1 - first):
            (model, optimizer)[part].load_state_dict(saved[part])
        optimizer.step()
        assert torch.equal(model.weight, expected)


# -- what the last step reports ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["exact", "fw"])
@pytest.mark.parametrize("scope", ["tensor", "row"])
def test_last_step_reports_the_blocks_that_moved_in_it(scope, solver):
    a, b = parameter([0.0], [1000.0]), parameter([0.0], [1000.0])
    options = {"solver": solver, "scope": scope, "track_gap": True, "lr": 1e-6}
    optimizer = DCFW([{"params": [a]}, {"params": [b]}], **options)
    optimizer.step()
    assert optimizer.last_step()["fw_gap"] == pytest.approx(2000.0)
    a.grad, b.grad = torch.tensor([1e-3]), None
    optimizer.step()
    assert optimizer.last_step()["fw_gap"] == pytest.approx(1e-3, rel=2e-3)
    saved = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(saved)
    assert optimizer.last_step()["fw_gap"] == pytest.approx(1e-3, rel=2e-3)
    a.grad = None
    optimizer.step()
    with pytest.raises(RuntimeError, match="take a step with gradients"):
        optimizer.last_step()


def test_last_step_leaves_out_a_group_that_is_no_longer_tracked():
    a, b = parameter([0.0], [1.0]), parameter([0.0], [4.0])
    optimizer = DCFW([{"params": [a]}, {"params": [b]}], track_gap=True, lr=1e-6)
    optimizer.step()
    optimizer.param_groups[1]["track_gap"] = False
    optimizer.step()
    assert optimizer.last_step()["fw_gap"] == pytest.approx(1.0, rel=1e-3)


# -- parameters without entries ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exact", "fw", "sfw"])
@pytest.mark.parametrize(
    ("constraint", "scope"),
    [
        *itertools.product(["linf", "l2", "l1", "simplex"], ["tensor", "row"]),
        ("spectral", "tensor"),
        ("nuclear", "tensor"),
    ],
)
def test_parameters_without_entries_are_passed_over(constraint, scope, name):
    empty, full = torch.nn.Parameter(torch.zeros(0, 3)), torch.nn.Parameter(torch.full((2, 3), 0.1))
    optimizer = METHODS[name]([empty, full], constraint=constraint, scope=scope)
    optimizer.project_()
    for p in (empty, full):
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert not torch.equal(full.detach(), torch.full((2, 3), 0.1))
    only = METHODS[name]([empty], constraint=constraint, scope=scope)
    only.project_()
    only.step()
