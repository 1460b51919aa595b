"""A saved state is input: its values are checked, the program's options stay, and no memory is shared."""

import copy
import io
import itertools
import warnings

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

import fuzz_training  # noqa: E402
from dcfw.torch import DCFW, SFW  # noqa: E402


def make(kind=DCFW, **options):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(0.1 * torch.randn(shape)) for shape in ((4, 3), (5,))]
    return params, kind(params, momentum=0.9, **options)


def stepped(kind=DCFW, **options):
    params, optimizer = make(kind, **options)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    return params, optimizer


def saved(kind=DCFW, **options):
    """Return a state as a file gives it back."""
    file = io.BytesIO()
    torch.save(stepped(kind, **options)[1].state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def buffer(value):
    return lambda state: state["state"][0].__setitem__("momentum_buffer", value)


def option(name, value):
    return lambda state: state["param_groups"][0].__setitem__(name, value)


HUGE = torch.zeros(1).expand(2**40)
HOSTILE = {
    "a buffer of another shape": buffer(torch.zeros(3, 4)),
    "a buffer that is too short": buffer(torch.zeros(2)),
    "an expanded terabyte": buffer(HUGE),
    "whole numbers": buffer(torch.zeros(4, 3, dtype=torch.int64)),
    "a sparse buffer": buffer(torch.zeros(4, 3).to_sparse()),
    "a list": buffer([0.0] * 12),
    "a buffer with NaN": buffer(torch.full((4, 3), float("nan"))),
    "a buffer with infinities": buffer(torch.full((4, 3), float("inf"))),
    "an unknown entry": lambda state: state["state"][0].__setitem__("more", HUGE),
    "an unknown parameter": lambda state: state["state"].__setitem__(7, {"momentum_buffer": HUGE}),
    "state that is no dictionary": lambda state: state["state"].__setitem__(0, HUGE),
    "no state": lambda state: state.__setitem__("state", None),
    "no groups": lambda state: state.__setitem__("param_groups", []),
    "groups that are none": lambda state: state.__setitem__("param_groups", [3]),
    "a parameter twice": option("params", [0, 0]),
    "too many parameters": option("params", list(range(1000))),
    "a parameter that is a tensor": option("params", [0, HUGE]),
    "an infinite learning rate": option("lr", float("inf")),
    "a negative learning rate": option("lr", -1.0),
    "a learning rate that is a tensor of many": option("lr", HUGE),
    "a word as momentum": option("momentum", "0.9"),
    "momentum above one": option("momentum", 2.0),
    "a schedule's NaN": option("initial_lr", float("nan")),
    "a tolerance of the wrong shape": lambda state: state["state"][0].__setitem__("tolerance", HUGE),
    "inside as a number": lambda state: state["state"][0].__setitem__("inside", 3),
}


@pytest.mark.parametrize("kind", [DCFW, SFW])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_state_is_refused_and_leaves_the_optimizer_as_it_was(name, kind):
    state = saved(kind)
    HOSTILE[name](state)
    _, optimizer = stepped(kind)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises((ValueError, TypeError)):
        optimizer.load_state_dict(state)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for number, name in itertools.product((0, 1), ("momentum_buffer",)):
        assert torch.equal(after["state"][number][name], before["state"][number][name])
    optimizer.step()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inner_steps", 10**12),
        ("constraint", "spectral"),
        ("solver", "fw"),
        ("radius", 1e30),
        ("scope", "row"),
    ],
)
def test_options_stay_those_of_the_program_and_a_difference_is_named(name, value):
    state = saved()
    option(name, value)(state)
    _, optimizer = make()
    with pytest.warns(UserWarning, match=f"options {name} of the saved DCFW"):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0][name] == DCFW([torch.nn.Parameter(torch.zeros(2))]).defaults[name]


def test_mutated_states_are_refused_or_harmless():
    """Run more of them with ``python tests/cases/fuzz_training.py 20000``."""
    found = fuzz_training.run(100, seed=1).counts
    assert found.keys() == {"refused", "loaded"}


def test_options_that_this_version_does_not_know_have_no_effect():
    state = saved()
    option("compiled", True)(state)
    _, optimizer = make()
    optimizer.load_state_dict(state)
    assert "compiled" not in optimizer.param_groups[0]


def test_what_a_schedule_has_changed_comes_from_the_state():
    _, optimizer = stepped()
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=10)
    for _ in range(4):
        optimizer.step()
        schedule.step()
    _, other = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load_state_dict(optimizer.state_dict())
    for name in ("lr", "momentum", "initial_lr", "max_lr", "min_lr"):
        assert other.param_groups[0][name] == optimizer.param_groups[0][name]
    torch.optim.lr_scheduler.OneCycleLR(other, max_lr=0.5, total_steps=10, last_epoch=4)


@pytest.mark.parametrize("value", [torch.ones(1).expand(4, 3), torch.ones(3, 4).T, torch.ones(4, 3).double()])
def test_buffers_are_copied_into_memory_of_the_parameters_layout(value):
    state = saved()
    state["state"][0]["momentum_buffer"] = value
    params, optimizer = make()
    optimizer.load_state_dict(state)
    kept = optimizer.state[params[0]]["momentum_buffer"]
    assert (kept.dtype, kept.stride()) == (params[0].dtype, params[0].stride())
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert torch.equal(kept, torch.full((4, 3), 1.9))
    assert bool((value == 1.0).all())


def test_two_parameters_never_share_a_buffer_of_the_file():
    p, q = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = DCFW([p, q], momentum=0.5)
    shared = torch.zeros(3)
    state = {**optimizer.state_dict(), "state": {i: {"momentum_buffer": shared} for i in range(2)}}
    optimizer.load_state_dict(state)
    p.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(optimizer.state[q]["momentum_buffer"], torch.zeros(3))
