"""Networks: ``step()`` alone, of a million parameters, against ``torch.optim``.

A perceptron 784-768-512-10 with Gaussian gradients that stay the same; one thread, processor time.  The
two take turns in one process, so that whatever disturbs the machine disturbs both, and the best step of each
counts.  The peer is AdamW as it comes; Frank-Wolfe rows have a tolerance of 0, so that all K inner steps are
taken.  The spectral row is the exact projection (with singular values to clip in every step) of the weight
matrices, against Muon on the same matrices.  The limits are the ones that we set ourselves.

**Memory.**  AdamW makes temporary tensors.  By default the C library (glibc) may give their memory back to
the system after each step, and ask for it again in the next one, which doubles AdamW's time (5.3 instead of
2.5 ms where this was measured); whether it does depends on what the process has allocated before, and differs
from process to process.  Here it is told to keep what it has, the fast one of the two states, for both
contenders: AdamW is at its best, always.  Other C libraries are left as they are.

Muon multiplies in bfloat16, which processors without instructions for it do a hundred times slower.  Where
the processor announces AMX but does not grant it such a product ends the process: that is found out in a
process apart, and oneDNN is then told to do without AMX.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import process_time

import torch

from dcfw.torch import DCFW

Row = tuple[str, float, float, str]
SECONDS = 3.5
"""How long a pair is timed at most, if that is enough for two rounds."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""What glibc's ``malloc.h`` calls the options of ``mallopt``."""


def run(full: bool = False) -> Iterator[Row]:
    """Yield (name, ours, peer, unit)."""
    torch.set_num_threads(1)
    keep_memory()
    without_amx = _avoid_amx()
    yield from adamw_rows(5000 if full else 2000)
    yield from muon_rows(12 if full else 5, without_amx)


def keep_memory() -> bool:
    """Tell the C library not to give memory back to the system; return whether it is one that can be told."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    # No block is so large as to be got from the system apart, no free memory so much as to be returned.
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, 2**25) and mallopt(M_TRIM_THRESHOLD, 2**30))


def adamw_rows(rounds: int) -> Iterator[Row]:
    fw = {"solver": "fw", "radius": 10.0, "inner_tol": 0.0}
    contenders = {
        "exact, linf": (0.20, {}),
        "exact, linf, momentum": (0.35, {"momentum": 0.9}),
        "fw, linf, K=5": (4.0, {**fw, "inner_steps": 5}),
        "fw, linf, K=20": (12.0, {**fw, "inner_steps": 20}),
    }
    for name, (limit, options) in contenders.items():
        ours, peer = DCFW(_parameters(), **options), torch.optim.AdamW(_parameters())
        best = _interleaved({"ours": ours.step, "AdamW": peer.step}, rounds)
        yield _row(f"step of 1.0M parameters, {name}", best["ours"], best["AdamW"], "AdamW", limit)


def muon_rows(rounds: int, without_amx: bool) -> Iterator[Row]:
    matrices = _parameters(2)
    # Half of what the usual initialisation has: with these gradients most singular values are clipped.
    ours = DCFW(matrices, constraint="spectral", radius=0.5, radius_mode="init", solver="exact")
    best = _interleaved({"ours": ours.step, "Muon": torch.optim.Muon(_parameters(2)).step}, rounds)
    note = ", Muon without AMX" if without_amx else ""
    yield _row(f"step of the matrices, exact, spectral{note}", best["ours"], best["Muon"], "Muon", 1.0)


def _row(name: str, ours: float, peer: float, whose: str, limit: float) -> Row:
    return name, ours, peer, f"s/step; {ours / peer:.2f} of {whose}'s, at most {limit:.2f}"


def _parameters(dimensions: int | None = None) -> list[torch.nn.Parameter]:
    """Return fresh weights (those of so many dimensions only) with gradients."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*(torch.nn.Linear(a, b) for a, b in ((784, 768), (768, 512), (512, 10))))
    parameters = [p for p in layers.parameters() if dimensions in (None, p.ndim)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return parameters


def _interleaved(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least processor time of each step."""
    for step in steps.values():
        step()  # state is made, and what compiles compiles
    best = dict.fromkeys(steps, float("inf"))
    ends = process_time() + SECONDS
    for taken in range(rounds):
        if taken >= 2 and process_time() > ends:
            break
        for name, step in steps.items():
            begun = process_time()
            step()
            best[name] = min(best[name], process_time() - begun)
    return best


def _avoid_amx() -> bool:
    """Tell oneDNN to do without AMX if a product in bfloat16 kills a process."""
    code = "import torch; a = torch.ones(256, 256, dtype=torch.bfloat16); a @ a"
    if "ONEDNN_MAX_CPU_ISA" in os.environ or subprocess.run([sys.executable, "-c", code]).returncode == 0:
        return False
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
    return True
