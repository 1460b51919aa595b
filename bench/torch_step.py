"""Networks: ``step()`` alone, against ``torch.optim`` and a plain Newton-Schulz iteration.

Element-wise rows: a perceptron 784-768-512-10 (a million parameters) with constant Gaussian gradients,
against AdamW with its defaults; Frank-Wolfe rows have a tolerance of 0, so that all K inner steps are taken.
Spectral rows: the exact projection of the perceptron's matrices (with singular values to clip in every step)
against Muon, and an oracle step of a 768 x 3072 matrix against five plain Newton-Schulz steps of its gradient
in single precision.  For comparison, one row has the three bare passes of an exact l_inf step (a sum that
finds NaN, the move, the clip), and one has ``torch.optim.SGD``, which neither checks for NaN nor clips.
``constrain`` rows: AdamW with its weights projected after each step against AdamW alone.

Times are processor time on one thread.  The two sides alternate in one process, and the best turn of each
counts.  A turn is one step, whose tensors the other side (three times as many) has displaced from the caches,
or, where the row says so, 20 steps with warm caches; a training step is between the two.  Limits are our
targets; rows without one are for information.

**Memory.**  AdamW allocates temporary tensors.  By default the C library (glibc) may return their memory to
the system after each step and request it again in the next one, which doubles AdamW's time (5.3 instead of
2.5 ms when measured); whether it does depends on earlier allocations, and differs
between processes.  Here glibc is told to keep the memory for both sides, so that AdamW always runs in its
faster mode.  Other C libraries are not configured.

Muon multiplies in bfloat16, which is a hundred times slower on processors without instructions for it.  If
the processor announces AMX but does not grant it, such a product ends the process: a separate
process tests this, and oneDNN is then told not to use AMX.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import torch

from dcfw.torch import DCFW, SFW, constrain

Row = tuple[str, float, float, str]
SECONDS = 3.5
"""The largest time for a pair, if it suffices for two rounds."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's ``mallopt``, from ``malloc.h``."""


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    torch.set_num_threads(1)
    keep_memory()
    without_amx = _avoid_amx()
    yield from adamw_rows(5000 if full else 2000)
    yield from constrain_rows(500 if full else 200)
    yield newton_schulz_row(12 if full else 5)
    yield from muon_rows(12 if full else 5, without_amx)


def keep_memory() -> bool:
    """Tell the C library not to return memory to the system; return whether it supports this."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    # Never map large blocks separately and never return free memory.
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, 2**25) and mallopt(M_TRIM_THRESHOLD, 2**30))


def adamw_rows(rounds: int) -> Iterator[Row]:
    fw = {"solver": "fw", "radius": 10.0, "inner_tol": 0.0}
    contenders: dict[str, tuple[float, dict[str, Any]]] = {
        "exact, linf": (0.20, {}),
        "exact, linf, momentum": (0.35, {"momentum": 0.9}),
        "fw, linf, K=5": (5.0, {**fw, "inner_steps": 5}),
    }
    for name, (limit, options) in contenders.items():
        ours, peer = DCFW(_parameters(), **options), torch.optim.AdamW(_parameters())
        for turn in (1, 20) if "exact" in name else (1,):
            best = _interleaved({"ours": ours.step, "AdamW": peer.step}, rounds // turn, turn)
            what = f"step of 1.0M parameters, {name}" + (f", {turn} in turn" if turn > 1 else "")
            yield _row(what, best["ours"], best["AdamW"], "AdamW", limit)
    bare, peer = _parameters(), torch.optim.AdamW(_parameters())
    best = _interleaved({"ours": lambda: three_passes(bare), "AdamW": peer.step}, rounds)
    yield _row("the three passes of an exact linf step alone", best["ours"], best["AdamW"], "AdamW")
    sgd = torch.optim.SGD(_parameters(), 0.1)
    best = _interleaved({"ours": sgd.step, "AdamW": peer.step}, rounds)
    yield _row("SGD without check and set", best["ours"], best["AdamW"], "AdamW")


@torch.no_grad()  # type: ignore[untyped-decorator]
def three_passes(parameters: list[torch.nn.Parameter]) -> None:
    """Check the gradients, move along them and clip with PyTorch's calls: a lower bound for an exact step."""
    for p in parameters:
        p.grad.sum()
    for p in parameters:
        p.add_(p.grad, alpha=-0.1)
        p.clamp_(-1.0, 1.0)


def constrain_rows(rounds: int) -> Iterator[Row]:
    """Yield the cost of projecting after AdamW; steps of 1e-3 leave the balls slightly each time."""
    for name, options in {
        "linf": {"constraint": "linf", "radius": 0.03},
        "spectral": {"constraint": "spectral", "radius": 0.6, "radius_mode": "scion"},
        "spectral, capped": {
            "constraint": "spectral",
            "radius": 0.6,
            "radius_mode": "scion",
            "method": "cap",
        },
        "spectral, every 10": {"constraint": "spectral", "radius": 0.6, "radius_mode": "scion", "every": 10},
    }.items():
        ours, peer = (torch.optim.AdamW(_parameters(2)) for _ in range(2))
        every = options.pop("every", 1)
        constrain(ours, [{"params": ours.param_groups[0]["params"], **options}], every=every)

        def steps(optimizer: Any = ours, every: int = every) -> None:
            for _ in range(every):
                optimizer.step()

        best = _interleaved({"ours": steps, "AdamW": peer.step}, rounds)
        yield _row(f"AdamW and constrain, {name}", best["ours"] / every, best["AdamW"], "AdamW")


def newton_schulz_row(rounds: int) -> Row:
    torch.manual_seed(0)
    p = torch.nn.Parameter(torch.randn(768, 3072) / 3072**0.5)
    p.grad = torch.randn(768, 3072)
    ours = SFW([p], 0.01, constraint="spectral", momentum=0.9)
    best = _interleaved({"ours": ours.step, "plain": lambda: newton_schulz(p.grad)}, rounds)
    return _row("oracle step of a 768 x 3072 matrix", best["ours"], best["plain"], "Newton-Schulz", 1.05)


def newton_schulz(G: torch.Tensor) -> torch.Tensor:
    """Return the result of five steps of Muon's iteration on a wide matrix."""
    X = G / (G.norm() + 1e-7)
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return X


def muon_rows(rounds: int, without_amx: bool) -> Iterator[Row]:
    matrices = _parameters(2)
    # About half of the usual initialisation: with these gradients most singular values are clipped.
    ours = DCFW(matrices, constraint="spectral", radius=0.6, radius_mode="scion", solver="exact")
    best = _interleaved({"ours": ours.step, "Muon": torch.optim.Muon(_parameters(2)).step}, rounds)
    note = ", Muon without AMX" if without_amx else ""
    yield _row(f"step of the matrices, exact, spectral{note}", best["ours"], best["Muon"], "Muon", 1.0)


def _row(name: str, ours: float, peer: float, whose: str, limit: float | None = None) -> Row:
    goal = "" if limit is None else f", at most {limit:.2f}"
    return name, ours, peer, f"s/step; {ours / peer:.2f} of {whose}'s{goal}"


def _parameters(dimensions: int | None = None) -> list[torch.nn.Parameter]:
    """Return new weights (only those of this many dimensions) with gradients."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*(torch.nn.Linear(a, b) for a, b in ((784, 768), (768, 512), (512, 10))))
    parameters = [p for p in layers.parameters() if dimensions in (None, p.ndim)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return parameters


def _interleaved(steps: dict[str, Callable[[], object]], rounds: int, turn: int = 1) -> dict[str, float]:
    """Return the least processor time of each step, the mean over a turn of several."""
    for step in steps.values():
        step()  # warm-up: creates the state
    best = dict.fromkeys(steps, float("inf"))
    ends = process_time() + SECONDS
    for taken in range(rounds):
        if taken >= 2 and process_time() > ends:
            break
        for name, step in steps.items():
            started = process_time()
            for _ in range(turn):
                step()
            best[name] = min(best[name], (process_time() - started) / turn)
    return best


def _avoid_amx() -> bool:
    """Tell oneDNN to do without AMX if a product in bfloat16 kills a process."""
    code = "import torch; a = torch.ones(256, 256, dtype=torch.bfloat16); a @ a"
    if "ONEDNN_MAX_CPU_ISA" in os.environ or subprocess.run([sys.executable, "-c", code]).returncode == 0:
        return False
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
    return True
