"""Stochastic Frank-Wolfe takes the steps that its rules say."""

import re

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

import dcfw.torch  # noqa: E402
from dcfw.torch import SFW, Scion, matrices  # noqa: E402
from dcfw.torch.matrices import polar_inside  # noqa: E402
from places import ROOT  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def stepped(x, grads, **options):
    p = torch.nn.Parameter(x.clone())
    optimizer = SFW([p], **options)
    for g in grads:
        p.grad = g.clone()
        optimizer.step()
    return p.detach()


X, G = 0.1 * torch.ones(5), torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0])
S = -2.0 * G.sign()


def test_without_rescaling_the_step_is_lr():
    torch.testing.assert_close(stepped(X, [G], lr=0.25, radius=2.0, rescale=None), X + 0.25 * (S - X))


def test_rescaled_by_the_gradient_the_step_is_as_long_as_that_of_sgd():
    moved = stepped(X, [G], lr=0.05, radius=2.0, rescale="gradient")
    assert float((moved - X).norm()) == pytest.approx(0.05 * float(G.norm()), rel=1e-5)
    torch.testing.assert_close(stepped(X, [1e6 * G], lr=0.05, radius=2.0, rescale="gradient"), S)


def test_an_open_loop_is_a_schedule():
    p, expected = torch.nn.Parameter(X.clone()), X
    optimizer = SFW([p], lr=1.0, radius=2.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 2.0 / (t + 2.0))
    for t, g in enumerate([G, -G, G.flip(0)], 1):
        p.grad = g
        optimizer.step()
        schedule.step()
        expected = expected + 2.0 / (t + 1.0) * (-2.0 * g.sign() - expected)
    torch.testing.assert_close(p.detach(), expected)


def test_rescaling_takes_the_radius_out_of_the_first_steps():
    def moved(c):
        torch.manual_seed(0)
        grads = [torch.randn(200) for _ in range(3)]
        return float(stepped(torch.zeros(200), grads, lr=0.1, radius=c, rescale="gradient").norm())

    assert moved(100.0) == pytest.approx(moved(10.0), rel=0.05)


def test_the_direction_comes_from_the_averaged_gradient():
    grads = [torch.ones(5), -2.0 * torch.ones(5)]
    m = 0.9 * (0.1 * grads[0]) + 0.1 * grads[1]  # negative: the vertex is +radius
    after_one = X + 0.5 * (-1.0 - X)
    expected = after_one + 0.5 * (-m.sign() - after_one)
    torch.testing.assert_close(stepped(X, grads, lr=0.5, momentum=0.9, rescale=None), expected)


def test_coordinates_without_gradient_keep_their_values():
    g = G.clone()
    g[2] = 0.0
    assert stepped(X, [g] * 4, lr=0.5, rescale=None)[2] == X[2]


def test_a_step_size_above_one_is_refused():
    p = [torch.nn.Parameter(torch.zeros(2))]
    with pytest.raises(ValueError, match="at most 1"):
        SFW(p, lr=2.0, rescale=None)
    with pytest.raises(ValueError, match="did you mean 'gradient'"):
        SFW(p, rescale="gradients")


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon needs PyTorch 2.9")
def test_the_two_sides_of_the_page_on_muon_take_steps_of_the_same_length():
    page = (ROOT / "docs" / "migrate" / "muon.md").read_text()
    sides = re.findall(r"^optimizer = .*?^\)$", page, flags=re.DOTALL | re.MULTILINE)
    start, g = torch.zeros(8, 8), torch.randn(8, 8)  # square: Muon scales its steps for others
    lengths = []
    for side in sides:
        p = torch.nn.Parameter(start.clone())
        p.grad = g.clone()
        names = {"torch": torch, "dcfw": dcfw, "matrices": [p]}
        exec(side, names)
        names["optimizer"].step()
        lengths.append(float(p.detach().norm()))
    assert len(lengths) == 2
    assert lengths[1] == pytest.approx(0.02 * 8**0.5, rel=0.02)
    assert lengths[0] == pytest.approx(lengths[1], rel=0.2)  # five Newton-Schulz steps are rough


@pytest.mark.parametrize("lr", [3.0, torch.tensor(3.0)], ids=["number", "tensor"])
def test_a_scheduler_cannot_lead_out_of_the_set(lr):
    p = torch.nn.Parameter(torch.tensor([0.5, -0.25]))
    optimizer = SFW([p], lr=0.5, constraint="l1", rescale=None)
    optimizer.param_groups[0]["lr"] = lr
    p.grad = torch.tensor([1.0, -2.0])
    optimizer.step()
    assert torch.equal(p.detach(), torch.tensor([0.0, 1.0]))  # the vertex, and no further


# -- Scion -----------------------------------------------------------------------------------------------


def published_step(p, m, g, lr, momentum, lmo, scale, unconstrained):
    """Take the step of Scion's published code, where momentum is 1 minus ours; lmo points uphill."""
    m.mul_(1 - momentum).add_(g, alpha=momentum)
    if not unconstrained:
        p.mul_(1 - lr)
    p.add_(scale * lmo(m), alpha=-lr)


def exact_polar(M):
    U, _, Vt = torch.linalg.svd(M, full_matrices=False)
    return U @ Vt


LMOS = {
    "hidden": lambda M: (M.shape[0] / M.shape[1]) ** 0.5 * exact_polar(M),
    "embedding": torch.sign,
    "head": lambda M: torch.sign(M) / M.shape[1],
    "vector": lambda v: v / v.square().mean().sqrt(),
}


@pytest.mark.parametrize("unconstrained", [False, True])
def test_scion_takes_the_published_recursion(unconstrained):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(7, 6)
            self.hidden, self.head = torch.nn.Linear(6, 10), torch.nn.Linear(10, 7, bias=False)

    model = Net().double()
    optimizer = Scion(model, lr=0.05, momentum=0.9, nesterov=False, unconstrained=unconstrained)
    optimizer.project_()
    theirs = {p: (p.detach().clone(), torch.zeros_like(p)) for p in model.parameters()}
    for _ in range(6):
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = torch.randn_like(p)
                lmo, scale = LMOS[group["role"]], group["radius"]
                free = unconstrained or group["role"] == "vector"  # which are never shrunk here
                published_step(*theirs[p], p.grad, 0.05, 0.1, lmo, scale, free)
        optimizer.step()
    for group in optimizer.param_groups:
        for p in group["params"]:
            rough = (
                0.02 * group["radius"] if group["role"] == "hidden" else 1e-12
            )  # a polar factor of products
            torch.testing.assert_close(p.detach(), theirs[p][0], atol=rough, rtol=0.0)


def test_nesterov_asks_the_oracle_for_the_gradient_ahead():
    grads = [torch.tensor([1.0, 1.0]), torch.tensor([-2.0, -0.5])]
    m = 0.9 * (0.1 * grads[0]) + 0.1 * grads[1]
    ahead = 0.9 * m + 0.1 * grads[1]
    assert m.sign().tolist() != ahead.sign().tolist()
    x = torch.zeros(2)
    first = x + 0.5 * -grads[0].sign()
    expected = first + 0.5 * (-ahead.sign() - first)
    torch.testing.assert_close(stepped(x, grads, lr=0.5, momentum=0.9, nesterov=True), expected)


def test_decay_is_decoupled_and_leaves_no_set():
    torch.testing.assert_close(
        stepped(X, [G], lr=0.25, radius=2.0, weight_decay=0.4), 0.9 * X + 0.25 * (S - 0.9 * X)
    )
    p = [torch.nn.Parameter(torch.zeros(2))]
    for options in ({"constraint": "simplex"}, {"constraint": "box", "radius": (1.0, 2.0)}):
        with pytest.raises(ValueError, match="leads to zero, which is not in"):
            SFW(p, weight_decay=0.1, **options)


@pytest.mark.parametrize("stack", [1, 2])
def test_polar_factors_of_long_tailed_spectra_are_larger_than_muons_and_inside(stack):
    U, V = (torch.linalg.qr(torch.randn(stack, 200, 200))[0] for _ in range(2))
    G = (U * torch.logspace(-4, 0, 200)) @ V
    sigma = torch.linalg.svdvals(polar_inside(G).double())
    assert float(sigma.max()) <= 1.0
    assert float(sigma.mean()) >= 0.75


@pytest.mark.parametrize("size", [1.0, 1e-30, 0.0])
def test_the_guard_keeps_bfloat16_inside_the_ball(size):
    G = size * torch.randn(2, 40, 30)
    sigma = torch.linalg.svdvals(polar_inside(G, half=True).double())
    assert float(sigma.max()) <= 1.0
    if size:
        assert float(sigma.min()) >= 0.9
    # Whatever comes in: certified, not probable.
    assert float(torch.linalg.matrix_norm(matrices._guarded(50.0 * torch.randn(1, 30, 30)), 2)) <= 1.0 + 1e-5


def test_scion_takes_a_model_or_groups_and_scales_radii_of_a_model_only():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    single, double = Scion(model), Scion(model, radius=2.0)
    assert double.param_groups[0]["radius"] == 2.0 * single.param_groups[0]["radius"]
    with pytest.raises(ValueError, match="given groups have their own radii"):
        Scion(dcfw.torch.param_groups(model), radius=2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.5, "weight_decay": 3.0}, "weight_decay must be at most 1 / lr"),
        (
            {"constraint": "box", "radius": (0.5, 1.0), "weight_decay": 0.1},
            "zero, which is not in constraint='box'",
        ),
        ({"constraint": "simplex", "weight_decay": 0.1}, "zero, which is not in constraint='simplex'"),
    ],
)
def test_weight_decay_that_leads_out_of_the_set_is_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SFW([torch.nn.Parameter(torch.full((4,), 0.6))], **options)


def test_steps_of_a_scheduler_that_leaves_the_range_stay_in_the_set():
    for lr in (-0.5, 7.0):
        p = torch.nn.Parameter(X.clone())
        optimizer = SFW([p], lr=0.5, radius=2.0, weight_decay=0.5)
        optimizer.param_groups[0]["lr"] = lr
        p.grad = G.clone()
        optimizer.step()
        assert float(p.detach().abs().max()) <= 2.0 * (1.0 + 1e-6)
