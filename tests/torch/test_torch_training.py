"""What users of torch.optim expect: checkpoints, schedulers, gradient scaling, frozen weights, graphs."""

import copy
import io
import itertools
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

from dcfw import sets  # noqa: E402
from dcfw.torch import DCFW, SFW, Scion  # noqa: E402

OPTIMIZERS = {
    "exact": lambda params: DCFW(params, lr=0.1, momentum=0.9, radius=0.3),
    "fw": lambda params: DCFW(params, lr=0.2, solver="fw", radius=0.5, track_gap=True),
    "nesterov": lambda params: DCFW(params, lr=0.01, radius=0.5, momentum=0.5, nesterov=True),
    "row": lambda params: DCFW(params, constraint="l2", scope="row", solver="fw", inner_steps=3),
    "spectral": lambda params: DCFW(matrices_apart(params), radius_mode="scion", momentum=0.9),
    "sfw": lambda params: SFW(params, momentum=0.9, radius=0.5),
    "scion": lambda params: Scion(matrices_apart(params), nesterov=True, weight_decay=0.1),
}


def matrices_apart(params):
    params = list(params)
    matrices = {"params": [p for p in params if p.ndim > 1], "constraint": "spectral"}
    vectors = [p for p in params if p.ndim < 2]
    return [matrices, *([{"params": vectors, "constraint": None}] if vectors else [])]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 3)
    )


DATA = torch.linspace(-1.0, 1.0, 6 * 16).sin().reshape(6, 1, 4, 4)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(DATA), LABELS).backward()
        optimizer.step()


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(name):
    whole, first, second = network(), network(), network()
    optimizer = OPTIMIZERS[name](whole.parameters())
    train(whole, optimizer, 7)
    optimizer = OPTIMIZERS[name](first.parameters())
    train(first, optimizer, 3)
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second.load_state_dict(saved["model"])
    optimizer = OPTIMIZERS[name](second.parameters())
    optimizer.load_state_dict(saved["optimizer"])
    train(second, optimizer, 4)
    assert all(map(torch.equal, weights(whole), weights(second)))


def test_a_state_can_be_loaded_twice():
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = DCFW([p])
    saved = copy.deepcopy(optimizer.state_dict())
    for _ in range(2):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("kind", [DCFW, SFW])
def test_the_state_of_another_optimizer_is_refused(kind):
    p = torch.nn.Parameter(torch.zeros(3))
    others = [torch.optim.SGD([p], 0.1), *(other([p]) for other in (DCFW, SFW) if other is not kind)]
    for other in others:
        optimizer = kind([p])
        with pytest.raises(ValueError, match=f"state_dict must be one of {kind.__name__}"):
            optimizer.load_state_dict(other.state_dict())
        p.grad = torch.ones(3)
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_hold_plain_data(name):
    optimizer = OPTIMIZERS[name](network().parameters())
    plain = (int, float, str, bool, tuple, type(None))
    for group in optimizer.param_groups:
        assert all(isinstance(value, plain) for key, value in group.items() if key != "params")


def test_a_users_set_stays_out_of_the_checkpoint_and_is_found_again():
    def make():
        p = torch.nn.Parameter(torch.full((4,), 0.2))
        return p, DCFW([p], constraint=sets.LpBall(4, 3.0), momentum=0.5)

    p, optimizer = make()
    p.grad = torch.ones(4)
    optimizer.step()
    assert optimizer.param_groups[0]["constraint"] == "object:0"
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    q, other = make()
    other.load_state_dict(torch.load(file, weights_only=True))
    q.grad = torch.ones(4)
    other.step()
    assert torch.equal(other.state[q]["momentum_buffer"], torch.full((4,), 1.5))
    stranger = DCFW([torch.nn.Parameter(torch.zeros(4))], momentum=0.5)
    with pytest.warns(UserWarning, match="options constraint of the saved DCFW are not those of this one"):
        stranger.load_state_dict(optimizer.state_dict())
    assert stranger.param_groups[0]["constraint"] == "linf"


def test_copies_and_pickles_keep_a_users_set():
    p = torch.nn.Parameter(torch.zeros(4))
    optimizer = DCFW([p], constraint=sets.LpBall(4, 3.0))
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        q = other.param_groups[0]["params"][0]
        q.grad = torch.ones(4)
        other.step()
        assert bool((q != 0).all())


@pytest.mark.parametrize("name", ["exact", "fw", "sfw"])
def test_a_lambda_schedule_sets_the_length_of_the_steps(name):
    p = torch.nn.Parameter(torch.zeros(3))
    kind = {"exact": DCFW, "fw": DCFW, "sfw": SFW}[name]
    options = {"exact": {}, "fw": {"solver": "fw"}, "sfw": {"rescale": "gradient"}}[name]
    optimizer = kind([p], lr=0.1, radius=100.0, **options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.5**t)
    lengths = []
    for _ in range(4):
        before = p.detach().clone()
        p.grad = torch.full((3,), 0.01)
        optimizer.step()
        schedule.step()
        lengths.append(float((p.detach() - before).norm()))
    for long, short in itertools.pairwise(lengths):
        assert short == pytest.approx(0.5 * long, rel=1e-2)


def test_one_cycle_moves_the_learning_rate_and_the_momentum():
    model = network()
    optimizer = DCFW(model.parameters(), lr=0.1, radius=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=10)
    seen = set()
    for _ in range(9):
        train(model, optimizer, 1)
        seen.add((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
        schedule.step()
    assert len(seen) == 9
    assert all("momentum_buffer" in optimizer.state[p] for p in model.parameters())


@pytest.mark.parametrize("name", ["exact", "fw", "nesterov", "sfw", "scion"])
def test_a_step_that_the_scaler_skips_leaves_everything_untouched(name):
    model = network()
    optimizer = OPTIMIZERS[name](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def scaled_step(poison):
        optimizer.zero_grad()
        scaler.scale(torch.nn.functional.cross_entropy(model(DATA), LABELS)).backward()
        if poison:
            next(model.parameters()).grad[0] = float("inf")
        scaler.step(optimizer)
        scaler.update()

    scaled_step(False)
    before, state = weights(model), copy.deepcopy(optimizer.state_dict())
    scaled_step(True)
    assert all(map(torch.equal, before, weights(model)))
    after = optimizer.state_dict()
    assert after["param_groups"] == state["param_groups"]
    for key, entries in state["state"].items():
        for kind, value in entries.items():
            same = after["state"][key][kind]
            assert torch.equal(value, same) if isinstance(value, torch.Tensor) else value == same
    scaled_step(False)
    assert not all(map(torch.equal, before, weights(model)))


@pytest.mark.parametrize("name", [*OPTIMIZERS])
def test_frozen_and_gradient_free_parameters_in_the_middle_are_passed_over(name):
    params = [torch.nn.Parameter(torch.rand(4, 3) * 0.1) for _ in range(4)]
    params[1].requires_grad_(False)
    optimizer = OPTIMIZERS[name](params)
    before = [p.detach().clone() for p in params]
    for i in (0, 3):
        params[i].grad = torch.randn(4, 3)
    optimizer.step()
    changed = [not torch.equal(p.detach(), old) for p, old in zip(params, before, strict=True)]
    assert changed == [True, False, False, True]
    params[2].grad = torch.randn(4, 3)
    optimizer.step()
    assert not torch.equal(params[2].detach(), before[2])


def test_matrices_of_equal_shapes_take_the_same_steps_together_and_one_by_one():
    runs = []
    for foreach in (False, True):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(6, 4)) for _ in range(3)]
        optimizer = SFW(params, 0.1, constraint="spectral", momentum=0.9, foreach=foreach)
        for t in range(4):
            for p in params:
                p.grad = torch.sin(3.0 * p.detach() + t)
            optimizer.step()
        runs.append(torch.stack([p.detach() for p in params]))
    torch.testing.assert_close(*runs, atol=1e-6, rtol=1e-5)


def test_a_closure_is_evaluated_with_gradients():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = DCFW([p], lr=0.5, radius=2.0)

    def closure():
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure).detach()) == 2.0
    assert torch.equal(p.detach(), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float8_e4m3fn])
@pytest.mark.parametrize("kind", [DCFW, SFW])
def test_dtypes_that_are_not_supported_are_named(kind, dtype):
    good = torch.nn.Parameter(torch.zeros(2))
    bad = torch.nn.Parameter(torch.zeros(2).to(dtype), requires_grad=dtype.is_complex)
    with pytest.raises(TypeError, match=rf"params\[1\] has dtype {dtype}"):
        kind([good, bad])
    with pytest.raises(TypeError, match=f"^odd has dtype {dtype}"):
        kind([("fine", good), ("odd", bad)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraint": "l3"}, "constraint must be one of"),
        ({"constraint": 3}, "object with lmo"),
        ({"constraint": "box", "radius": 1.0}, "pair"),
        ({"constraint": "box", "radius": (1.0, 0.0)}, "lower < upper"),
        ({"constraint": "spectral", "scope": "row"}, "whole tensors"),
        ({"constraint": sets.L1Ball(4)}, r"shape \(2, 3\)"),
        ({"constraint": sets.L1Ball((2, 3)), "radius": 2.0}, "own size"),
        ({"constraint": None, "solver": "fw"}, "bounded set"),
        ({"scope": "group"}, "scope must be"),
        ({"radius": -1.0}, "radius must be"),
        ({"lr": -1.0}, "lr must be"),
        ({"momentum": 1.0}, "momentum must be"),
        ({"nesterov": True}, "needs momentum"),
        ({"inner_steps": 0}, "inner_steps must be"),
        ({"inner_tol": 1.0}, "inner_tol must be"),
        ({"solver": "exakt"}, "did you mean 'exact'"),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        DCFW([torch.nn.Parameter(torch.zeros(2, 3))], **options)


def test_a_refused_group_is_not_kept():
    optimizer = DCFW([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="radius"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))], "radius": -1.0})
    assert len(optimizer.param_groups) == 1


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = DCFW(table.parameters())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="dense gradients"):
        optimizer.step()


def test_last_step_without_tracking_says_what_to_do():
    with pytest.raises(RuntimeError, match="track_gap=True"):
        DCFW([torch.nn.Parameter(torch.zeros(2))]).last_step()


@pytest.mark.parametrize("name", ["exact", "fw", "row", "sfw"])
def test_a_step_is_one_graph_for_the_compiler(name):
    params = [torch.nn.Parameter(torch.rand(4, 3) * 0.1), torch.nn.Parameter(torch.rand(3) * 0.1)]
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    grads = [torch.randn_like(p) for p in params]
    options = {
        "exact": {"momentum": 0.9},
        "fw": {"solver": "fw", "inner_steps": 3},
        "row": {"solver": "fw", "inner_steps": 3, "constraint": "l2", "scope": "row"},
        "sfw": {"momentum": 0.9},
    }[name]
    kind = SFW if name == "sfw" else DCFW
    optimizer, other = kind(params, **options), kind(copies, **options)
    compiled = torch.compile(other.step, backend="eager", fullgraph=True)
    for _ in range(2):
        for p, q, g in zip(params, copies, grads, strict=True):
            p.grad, q.grad = g.clone(), g.clone()
        optimizer.step()
        compiled()
    for p, q in zip(params, copies, strict=True):
        torch.testing.assert_close(p.detach(), q.detach())


def test_a_learning_rate_may_be_a_tensor():
    for solver in ("exact", "fw"):
        p, q = (torch.nn.Parameter(torch.full((3,), 0.2)) for _ in range(2))
        for parameter, lr in ((p, 0.1), (q, torch.tensor(0.1))):
            parameter.grad = torch.tensor([1.0, -2.0, 0.5])
            DCFW([parameter], lr=lr, solver=solver).step()
        torch.testing.assert_close(p.detach(), q.detach())


def test_import_dcfw_does_not_import_torch_and_dcfw_torch_is_reached_lazily():
    code = (
        "import sys, dcfw; assert 'torch' not in sys.modules; "
        "dcfw.torch.DCFW; assert sys.modules['torch'].nn is not None; print(dcfw.torch.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "dcfw.torch"


def test_without_torch_the_error_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import dcfw; dcfw.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "dcfw[torch]"' in done.stderr
