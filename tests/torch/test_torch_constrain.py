"""constrain: any optimizer in norm balls, and the optimizer does not notice."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

from dcfw import sets  # noqa: E402
from dcfw.torch import constrain, matrices, norms, param_groups  # noqa: E402
from torch_cores import core as core_of  # noqa: E402

SHAPE = (8, 5)
SETS = {
    "linf": {"radius": 0.2},
    "box": {"radius": (-0.1, 0.3)},
    "l2": {"radius": 0.5},
    "l1": {"radius": 1.5},
    "simplex": {"radius": 1.0},
    "spectral": {"radius": 0.4},
    "nuclear": {"radius": 0.8},
}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def adam(constraint, method="project", every=1, **options):
    p = torch.nn.Parameter(torch.randn(SHAPE))
    optimizer = torch.optim.AdamW([p], lr=0.3)
    group = {"params": [p], "constraint": constraint, **SETS[constraint], **options}
    return p, optimizer, constrain(optimizer, [group], every=every, method=method)


def step(p, optimizer):
    p.grad = torch.randn(SHAPE)
    optimizer.step()


@pytest.mark.parametrize("method", ["project", "cap"])
@pytest.mark.parametrize("constraint", SETS)
def test_every_iterate_is_in_the_set(constraint, method):
    p, optimizer, constraint_ = adam(constraint, method)
    core = core_of(constraint_._region(constraint_.param_groups[0], SHAPE), SHAPE)
    for _ in range(10):
        step(p, optimizer)
        assert core.violation(p.detach().numpy()) <= 1e-6


@pytest.mark.parametrize("constraint", ["linf", "l2", "l1", "spectral", "nuclear"])
def test_normalised_weights_have_the_radius_as_their_norm_from_above_and_below(constraint):
    p, optimizer, wrapped = adam(constraint, "normalize")
    region = wrapped._region(wrapped.param_groups[0], SHAPE)
    for scale in (1.0, 1e-3):
        with torch.no_grad():
            p.mul_(scale)
        step(p, optimizer)
        assert float(region.size(p.detach().reshape(1, -1))) == pytest.approx(region.bound, rel=1e-5)


def test_capped_matrices_are_near_the_projected_ones_and_inside():
    for spread in (1.05, 1.5, 4.0):
        U, _ = torch.linalg.qr(torch.randn(60, 60))
        V, _ = torch.linalg.qr(torch.randn(60, 60))
        Z = (U * torch.linspace(0.1, spread, 60)) @ V
        capped = matrices.cap_singular_values(Z[None], 1.0)[0]
        projected = matrices.clip_singular_values(Z, 1.0)
        assert float(torch.linalg.matrix_norm(capped.double(), 2)) <= 1.0
        assert float((capped - projected).norm() / projected.norm()) < 0.01
    small = 0.01 * torch.randn(1, 8, 5)
    assert torch.equal(matrices.cap_singular_values(small, 1.0), small)


@pytest.mark.parametrize("radius", [0.01, 1.0])
def test_capped_matrices_are_inside_however_large_they_were(radius):
    Z = torch.randn(40, 40)
    for large in (Z * 1000.0, 1e5 * torch.eye(3), 1e20 * torch.eye(3), 3e38 * torch.eye(3), 1e30 * Z[:5]):
        capped = matrices.cap_singular_values(large[None], radius)[0]
        assert 0.9 * radius < float(torch.linalg.matrix_norm(capped.double(), 2)) <= radius


def test_every_matrix_of_a_stack_is_normalised():
    p = torch.nn.Parameter(torch.stack([5.0 * torch.eye(2), torch.eye(2), 0.1 * torch.eye(2)]))
    group = {"params": [p], "constraint": "spectral", "stack": 3, "radius": 0.4}
    constrain(torch.optim.SGD([p], 0.1), [group], method="normalize").project_()
    torch.testing.assert_close(p.detach(), 0.4 * torch.eye(2).expand(3, 2, 2))


def test_states_schedules_and_scalers_are_those_of_the_optimizer_alone():
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        p = torch.nn.Parameter(0.01 * torch.randn(SHAPE))
        optimizer = torch.optim.AdamW([p], lr=1e-3)
        if wrapped:
            constrain(optimizer, [{"params": [p], "constraint": "linf", "radius": 100.0}])
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=6)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for t in range(5):
            optimizer.zero_grad()
            for _ in range(2):  # accumulated
                scaler.scale(p.square().sum()).backward()
            if t == 2:
                p.grad[0] = float("inf")  # which the scaler skips
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
        runs.append((p.detach().clone(), copy.deepcopy(optimizer.state_dict())))
    assert torch.equal(runs[0][0], runs[1][0])
    assert str(runs[0][1]) == str(runs[1][1])


def test_a_skipped_step_projects_nothing_and_every_counts_steps():
    p, optimizer, wrapped = adam("linf", every=3)
    for t in range(1, 7):
        step(p, optimizer)
        inside = float(p.detach().abs().max()) <= 0.2 + 1e-6
        assert inside == (t % 3 == 0)
    assert wrapped.steps == 6
    wrapped.remove()
    for _ in range(3):
        step(p, optimizer)
    assert float(p.detach().abs().max()) > 0.2
    wrapped.project_()
    assert float(p.detach().abs().max()) <= 0.2 + 1e-6


def test_a_run_that_is_resumed_between_two_projections_goes_on_bit_for_bit():
    whole = adam("linf", every=3)
    gradients = [torch.randn(SHAPE) for _ in range(8)]
    for t, gradient in enumerate(gradients):
        if t == 4:
            saved = copy.deepcopy([whole[0].detach(), whole[1].state_dict(), whole[2].state_dict()])
        whole[0].grad = gradient.clone()
        whole[1].step()
    p, optimizer, wrapped = adam("linf", every=3)
    with torch.no_grad():
        p.copy_(saved[0])
    optimizer.load_state_dict(saved[1])
    wrapped.load_state_dict(saved[2])
    for gradient in gradients[4:]:
        p.grad = gradient.clone()
        optimizer.step()
    assert torch.equal(p, whole[0])
    with pytest.raises(ValueError, match="must come from the result of constrain"):
        wrapped.load_state_dict(optimizer.state_dict())


def test_a_model_is_grouped_by_role_and_frozen_weights_stay():
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 3))
    with torch.no_grad():
        model[0].weight.fill_(100.0)
        model[0].bias.fill_(100.0)
    model[1].weight.requires_grad_(False).fill_(1000.0)
    constrain(torch.optim.SGD(model.parameters(), 0.1), model).project_()
    assert float(torch.linalg.matrix_norm(model[0].weight.detach(), 2)) <= 3.0 * (1 + 1e-5)
    assert bool((model[0].bias == 100.0).all())
    assert bool((model[1].weight == 1000.0).all())


def test_what_is_constrained_is_shown_as_a_table_and_in_a_report():
    model = torch.nn.Linear(6, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    wrapped = constrain(optimizer, param_groups(model, constraint="spectral", radius=0.5))
    assert str(wrapped) == str(param_groups(model, constraint="spectral", radius=0.5))
    assert norms(model, wrapped).rows[0].radius == 0.5
    wrapped.remove()
    own = constrain(optimizer, [{"params": [model.weight], "constraint": sets.L1Ball((5, 6))}])
    assert str(own).splitlines()[-1].split() == ["params[0]", "5x6", "L1Ball"]


def test_weights_are_constrained_once_until_the_constraint_is_removed():
    p, optimizer, wrapped = adam("linf")
    group = {"params": [p], "constraint": "linf", "radius": 0.1}
    with pytest.raises(ValueError, match=r"constrained already: call remove\(\)"):
        constrain(optimizer, [group])
    wrapped.remove()
    constrain(optimizer, [group])
    step(p, optimizer)
    assert float(p.detach().abs().max()) <= 0.1 + 1e-6
    both = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    sgd = torch.optim.SGD(both, 0.1)
    for q in both:  # other weights of the same optimizer may have another method or period
        constrain(sgd, [{"params": [q], "constraint": "linf"}])


@pytest.mark.parametrize("constraint", ["linf", "spectral"])
def test_a_gradient_with_nan_is_refused_before_the_optimizer_moves_anything(constraint):
    model = torch.nn.Linear(5, 4)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    wrapped = constrain(optimizer, param_groups(model, constraint=constraint))
    before = copy.deepcopy(model.state_dict())
    model(torch.full((2, 5), float("nan"))).sum().backward()
    with pytest.raises(ValueError, match=r"gradient of weight of shape \(4, 5\) has NaN or Inf"):
        optimizer.step()
    assert not optimizer.state
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

    def closure():  # makes gradients of its own, after the hook
        optimizer.zero_grad()
        model(torch.ones(2, 5)).sum().backward()

    optimizer.step(closure)
    assert bool(model.weight.isfinite().all())
    wrapped.remove()
    model.weight.grad.fill_(float("nan"))
    optimizer.step()


def test_a_scaler_skips_inside_a_fused_step_and_is_not_refused():
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.AdamW([p], 0.1, fused=True)
    constrain(optimizer, [{"params": [p], "constraint": "linf"}])
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale((p * torch.tensor([1.0, float("inf"), 1.0])).sum()).backward()
    scaler.step(optimizer)
    assert torch.equal(p.detach(), torch.zeros(3))


def test_what_cannot_be_constrained_is_refused():
    p, q = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = torch.optim.SGD([p], 0.1)
    with pytest.raises(ValueError, match="parameters of the optimizer only"):
        constrain(optimizer, [{"params": [q], "constraint": "linf"}])
    with pytest.raises(ValueError, match="no norm to normalise"):
        constrain(optimizer, [{"params": [p], "constraint": "simplex"}], method="normalize")
    with pytest.raises(ValueError, match="no norm to normalise"):
        constrain(optimizer, [{"params": [p], "constraint": sets.Simplex(3)}], method="normalize")
    with pytest.raises(ValueError, match="needs matrices"):
        constrain(optimizer, [{"params": [p], "constraint": "spectral"}])
    with pytest.raises(TypeError, match=r"must be a torch\.optim\.Optimizer"):
        constrain(p, [])
