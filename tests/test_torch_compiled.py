"""Compiled steps on a CPU: to the bit those of PyTorch where they are exact, to rounding the eager loop's."""

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

from dcfw.torch import DCFW, compiled, exact, kernel, parts, sliding_step  # noqa: E402
from dcfw.torch.regions import Interval  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def weights(dtype=torch.float32):
    """Return weights of sizes that fill vector registers, and of sizes that do not."""
    return [torch.randn(shape, dtype=dtype) for shape in ((7, 5), (64, 32), (33_001,), ())]


def run(kind, start, steps=20, **options):
    params = [torch.nn.Parameter(tensor.clone()) for tensor in start]
    optimizer = kind(params, **options)
    for t in range(steps):
        for p in params:
            p.grad = torch.sin(3.0 * p.detach() + t) + 0.1 * p.detach()
        optimizer.step()
    return [p.detach() for p in params], optimizer


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


SETTINGS = [
    {},
    {"weight_decay": 0.01},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("extra", SETTINGS)
@pytest.mark.parametrize("free", [{"constraint": None}, {"radius": 1e9}])
def test_compiled_exact_steps_without_an_active_constraint_are_those_of_sgd_bit_for_bit(free, extra, dtype):
    start = weights(dtype)
    expected, _ = run(torch.optim.SGD, start, lr=0.05, **extra)
    found, _ = run(DCFW, start, lr=0.05, compiled=True, **free, **extra)
    assert same(found, expected)


@pytest.mark.parametrize("extra", SETTINGS)
@pytest.mark.parametrize("box", [{"radius": 0.4}, {"constraint": "box", "radius": (-0.2, 0.5)}])
def test_compiled_exact_steps_clip_as_the_eager_ones_do(box, extra):
    start = weights()
    options = {"lr": 0.3, **box, **extra}
    found, optimizer = run(DCFW, start, compiled=True, **options)
    expected, eager = run(DCFW, start, compiled=False, **options)
    assert same(found, expected)
    assert float(torch.cat([p.reshape(-1) for p in found]).max()) <= 0.5
    if extra.get("momentum"):
        for ours, theirs in zip(optimizer.state.values(), eager.state.values(), strict=True):
            assert torch.equal(ours["momentum_buffer"], theirs["momentum_buffer"])


def counting(monkeypatch):
    """Count the calls of the compiled pass."""
    calls = []
    original = kernel._descend
    if not kernel.same_bits(torch.float32):  # which calls it, too, once in a process
        pytest.skip("PyTorch rounds differently on this processor, and the pass is never taken")
    monkeypatch.setattr(kernel, "_descend", lambda *a: (calls.append(1), original(*a))[1])
    return calls


def test_by_default_the_compiled_pass_comes_when_many_weights_have_been_moved(monkeypatch):
    monkeypatch.setattr(exact, "PATIENCE", 3 * 33_001)
    calls = counting(monkeypatch)
    run(DCFW, weights(), steps=3)
    assert not calls
    run(DCFW, weights(), steps=5)
    assert len(calls) == 2
    calls.clear()
    run(DCFW, [torch.randn(exact.LARGE - 1)], steps=20)
    assert not calls  # small tensors never make up for it


@pytest.mark.parametrize("case", ["compiled=False", "two threads", "half precision", "a transposed weight"])
def test_the_compiled_pass_leaves_other_cases_to_pytorch(case, monkeypatch):
    calls = counting(monkeypatch)
    start = [torch.randn(200, 300)]
    if case == "two threads":
        torch.set_num_threads(2)
    if case == "half precision":
        start = [start[0].bfloat16()]
    if case == "a transposed weight":
        start = [start[0].T]
    compiled = case != "compiled=False"
    found, _ = run(DCFW, start, lr=0.1, radius=0.5, momentum=0.9, compiled=compiled)
    assert not calls
    expected, _ = run(DCFW, start, lr=0.1, radius=0.5, momentum=0.9, compiled=False)
    assert same(found, expected)


def test_where_the_bits_would_differ_the_pass_is_not_taken(monkeypatch):
    calls = counting(monkeypatch)
    monkeypatch.setattr(kernel, "same_bits", lambda dtype: False)
    start = weights()
    found, _ = run(DCFW, start, lr=0.1, compiled=True)
    expected, _ = run(DCFW, start, lr=0.1, compiled=False)
    assert not calls
    assert same(found, expected)


def test_a_nan_in_a_gradient_shows_after_a_compiled_exact_step():
    p = torch.nn.Parameter(torch.zeros(40_000))
    p.grad = torch.ones(40_000)
    p.grad[17] = float("nan")
    DCFW([p], compiled=True).step()
    assert bool(p[17].isnan())
    assert int(p.isnan().sum()) == 1


@pytest.mark.parametrize("solver", ["exact", "fw"])
def test_autograd_notices_that_a_compiled_step_has_changed_the_weights(solver):
    p = torch.nn.Parameter(torch.rand(40_000))
    loss = p.square().sum()
    loss.backward(retain_graph=True)
    DCFW([p], solver=solver, compiled=True, radius=2.0).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("rule", ["relative", "paper"])
@pytest.mark.parametrize("extra", [{}, {"momentum": 0.9}, {"weight_decay": 0.1, "maximize": True}])
def test_compiled_frank_wolfe_steps_in_place_are_those_that_are_accounted_for(rule, extra):
    start = weights()
    options = {"solver": "fw", "inner_steps": 7, "inner_rule": rule, "radius": 0.5, **extra}
    found, _ = run(DCFW, start, compiled=True, **options)
    accounted, _ = run(DCFW, start, compiled=True, track_gap=True, **options)
    assert same(found, accounted)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rule", ["relative", "paper"])
def test_a_learning_rate_of_zero_moves_nothing_and_the_next_one_does(rule, compiled):
    p = torch.nn.Parameter(torch.rand(50))
    before = p.detach().clone()
    optimizer = DCFW([p], lr=0.0, solver="fw", inner_rule=rule, compiled=compiled)
    p.grad = torch.randn(50)
    optimizer.step()
    assert torch.equal(p.detach(), before)
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.step()
    assert bool(p.isfinite().all())
    assert not torch.equal(p.detach(), before)


@pytest.mark.parametrize("bad", ["lr", "gradient"])
@pytest.mark.parametrize(
    "options",
    [{"constraint": "l2"}, {"scope": "row"}, {"gap": "norm-product"}, {"constraint": "spectral"}, {}],
)
def test_the_papers_tolerance_is_that_of_the_first_gap_that_is_known(options, bad):
    p = torch.nn.Parameter(torch.full((4, 5), 0.1))
    q = torch.nn.Parameter(p.detach().clone())
    late, plain = (DCFW([w], solver="fw", inner_rule="paper", inner_steps=50, **options) for w in (p, q))
    if bad == "lr":  # a warm-up
        late.param_groups[0]["lr"] = 0.0
        p.grad = torch.randn(4, 5)
        late.step()
        late.param_groups[0]["lr"] = 0.1
        assert torch.equal(p, q)
    else:
        p.grad = torch.full((4, 5), float("nan"))
        late.step()
        with torch.no_grad():
            p.copy_(q)
    gradient = torch.randn(4, 5)
    for w, optimizer in ((p, late), (q, plain)):
        w.grad = gradient
        optimizer.step()
    assert torch.equal(late.state[p]["tolerance"], plain.state[q]["tolerance"])
    assert torch.equal(p, q)


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (-0.2, 0.5)])
@pytest.mark.parametrize("zeros", [False, True])
def test_parts_and_numbers_take_the_steps_of_the_loop_on_tensors(bounds, zeros, monkeypatch):
    monkeypatch.setattr(parts, "PART", 64)
    x = torch.empty(1, 200, dtype=torch.float64).uniform_(*bounds)
    g = torch.randn(1, 200, dtype=torch.float64)
    if zeros:
        g[:, 70:90] = 0.0  # in one of the parts
    for rule, steps in (("relative", 1), ("relative", 30), ("paper", 30)):
        options = {"steps": steps, "tol": 0.02, "rule": rule, "sync": 1}
        found = sliding_step(x, g, 0.1, Interval(*bounds), **options)
        tensors = sliding_step(x, g, 0.1, Interval(*bounds), metric=torch.ones_like(x), **options)
        assert found.inner_steps == tensors.inner_steps
        assert torch.equal(found.x[g == 0.0], x[g == 0.0])
        for name in ("x", "fw_gap", "dc_gap_low", "dc_gap_high"):
            torch.testing.assert_close(getattr(found, name), getattr(tensors, name), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found.eps, tensors.eps, rtol=1e-10, atol=0.0)


def test_a_box_beyond_single_precision_is_left_to_the_general_way():
    p = torch.nn.Parameter(torch.zeros(10, dtype=torch.float64))
    p.grad = torch.ones(10, dtype=torch.float64)
    bounds = (-1.7e308, 1.7e308)
    optimizer = DCFW([p], lr=0.1, solver="fw", compiled=True, constraint="box", radius=bounds, sync=1)
    assert not compiled.takes(optimizer.param_groups[0], [p])
