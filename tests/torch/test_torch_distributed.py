"""Data-parallel replicas stay bit-identical; the shards of FSDP2 move as the whole model does.

Two processes talk through gloo on the CPU.
"""

import datetime
import os
import socket
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

from dcfw.torch import DCFW, SFW, Scion, constrain, param_groups, shards  # noqa: E402

RANKS = 2


def in_group(rank, port, folder):
    """Do the work of all tests in one process group, and write the errors to files."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group(
        "gloo", rank=rank, world_size=RANKS, timeout=datetime.timedelta(minutes=2)
    )
    for work in (
        replicas_agree,
        shards_agree_with_the_whole,
        a_sharded_run_resumes,
        what_cannot_work_is_refused,
    ):
        try:
            work(rank)
            verdict = ""
        except Exception:
            verdict = traceback.format_exc()
        (Path(folder) / f"{work.__name__}-{rank}").write_text(verdict)
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Return what two processes have written: starting them takes longer than their work."""
    for last in (False, True):
        folder = tmp_path_factory.mktemp("ranks")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        try:
            torch.multiprocessing.spawn(in_group, (port, str(folder)), nprocs=RANKS, join=True)
        except torch.multiprocessing.ProcessExitedException as error:
            # Now and then the processes abort in malloc, where no compiled code but PyTorch's is loaded.
            if last or error.signal_name is None:
                raise
        else:
            break
    return folder


def passed(folder, work):
    written = [(folder / f"{work.__name__}-{rank}").read_text() for rank in range(RANKS)]
    assert written == [""] * RANKS, "\n".join(written)


OPTIMIZERS = {
    "exact": lambda params: DCFW(params, lr=0.3, momentum=0.9, radius=0.2),
    "fw": lambda params: DCFW(params, lr=0.3, solver="fw", radius=0.3, inner_steps=8),
    "sfw": lambda params: SFW(params, momentum=0.5, radius=0.3, rescale="gradient"),
}
GATHERED = {
    "spectral": lambda model: DCFW(matrices(model), momentum=0.5),
    "spectral fw": lambda model: DCFW(matrices(model, solver="fw", inner_steps=3)),
    "scion": lambda model: Scion(param_groups(model, gather=True), lr=0.1),
    "rows": lambda model: SFW(param_groups(model, constraint="l2", scope="row", gather=True), lr=0.1),
}


def matrices(model, **options):
    return param_groups(model, roles={"hidden": {"radius": 0.5, **options}}, gather=True)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))


def batch(rank, t):
    return torch.randn(4, 7, generator=torch.Generator().manual_seed(100 * t + rank))


def train(model, optimizer, inputs):
    for x in inputs:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def replicas_agree(rank):
    makers = {name: lambda model, make=make: make(model.parameters()) for name, make in OPTIMIZERS.items()}
    for name, make in {**makers, **GATHERED}.items():
        model = torch.nn.parallel.DistributedDataParallel(network())
        train(model, make(model), [batch(rank, t) for t in range(5)])
        flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        everyone = [torch.empty_like(flat) for _ in range(RANKS)]
        torch.distributed.all_gather(everyone, flat)
        assert torch.equal(everyone[0], everyone[1]), name
        assert bool(flat.isfinite().all()), name


def sharded():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    return model


def shards_agree_with_the_whole(rank):
    makers = {name: lambda model, make=make: make(model.parameters()) for name, make in OPTIMIZERS.items()}
    constrained = {"constrain": lambda model: adam_in_a_ball(model)}
    for name, make in {**makers, **GATHERED, **constrained}.items():
        model, reference = sharded(), network()
        inputs = [batch(0, t) for t in range(5)]  # the same on both ranks, so that the mean is the gradient
        train(model, make(model), inputs)
        train(reference, make(reference), inputs)
        for p, q in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(p.detach().full_tensor(), q.detach(), atol=1e-5, rtol=1e-4, msg=name)


def adam_in_a_ball(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    constrain(optimizer, matrices(model))
    return optimizer


def a_sharded_run_resumes(rank):
    model = sharded()
    optimizer = GATHERED["scion"](model)
    train(model, optimizer, [batch(0, t) for t in range(3)])
    saved = optimizer.state_dict()
    other = GATHERED["scion"](model)
    other.load_state_dict(saved)
    for p in model.parameters():
        if "momentum_buffer" in optimizer.state[p]:
            assert torch.equal(
                other.state[p]["momentum_buffer"].to_local(), optimizer.state[p]["momentum_buffer"].to_local()
            )


def what_cannot_work_is_refused(rank):
    model = sharded()
    with pytest.raises(ValueError, match=r"needs whole tensors, but .* set the group option gather=True"):
        DCFW(param_groups(model))


def test_data_parallel_replicas_are_bit_identical(verdicts):
    passed(verdicts, replicas_agree)


@pytest.mark.parametrize(
    "work", [shards_agree_with_the_whole, a_sharded_run_resumes, what_cannot_work_is_refused]
)
def test_shards_of_fsdp2(verdicts, work):
    pytest.importorskip("torch.distributed.fsdp", reason="this PyTorch has no FSDP2")
    passed(verdicts, work)


def test_rows_that_lie_on_different_ranks_are_refused():
    second = SimpleNamespace(dim=1, is_shard=lambda: True)
    mesh = SimpleNamespace(get_group=lambda i: None)
    parameter = SimpleNamespace(placements=[second], device_mesh=mesh)
    group = {"scope": "row", "gather": False, "constraint": "linf"}
    with pytest.raises(ValueError, match="lie on different ranks"):
        shards.refuse(parameter, "w", group, elementwise=True)
