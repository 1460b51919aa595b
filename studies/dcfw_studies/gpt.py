"""A byte-level GPT: optimizers with norm constraints against those without, tuned with equal effort.

The text is documentation of NumPy and SciPy (the docstrings of the installed packages, module by module in
alphabetical order; every row records its SHA-256).  It is cut into a hundred pieces: of each ten, eight are
for training, one for choices, and one is *held out*: rows that a choice depends on (seed 0) do not evaluate
it.  The first two million characters are left out, because Scion's momentum and the radii of
:func:`dcfw.torch.param_groups` were chosen on them.

Every method has learning rates a factor of two apart (:data:`RATES`), extended until the best is at neither
end, then variants of its other options (:data:`VARIANTS`) at its best rate; the best of all is run with three
more seeds, whose losses on the held-out text are reported (:data:`CHOSEN`, checked against the rows).  How
the variants came about is in the report.  Learning rates are compared at three widths (:data:`WIDTHS`) with
half the steps.  AdamW, whose steps are cheaper than Scion's, is also run for as many steps as fit into the
processor time of one run of Scion (:data:`EQUAL_TIME`).

``scion20``     Scion as published, in twenty lines: sign and spectral norms, five Newton-Schulz steps
``scion``       :class:`dcfw.torch.Scion` with the sets of :func:`dcfw.torch.param_groups`
``muon``        Muon for the hidden matrices, AdamW for the rest; products in single precision, which
                processors without bfloat16 instructions compute ten times faster
``adamw``       ``torch.optim.AdamW``
``adamw+``      the same, projected after each step by :func:`dcfw.torch.constrain`
``scion+``      Scion for hidden matrices and vectors, AdamW for embeddings and the head (as beside Muon),
                projected after each step; momentum 0.8, twice the hidden radii and AdamW's rate of 0.01 were
                found on the first part of the text
``dcfw``        :class:`dcfw.torch.DCFW` with exact steps on the same sets: projected SGD with momentum
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

CONTEXT, BATCH, STEPS, WARMUP = 64, 8, 400, 40
LAYERS, HEADS, VOCABULARY = 3, 4, 128
SKIPPED, PIECES = 2_000_000, 100  # characters that earlier choices have seen, and pieces of the others
WINDOWS = 40  # evaluated in each piece
RATES: dict[str, tuple[float, ...]] = {
    "scion20": (0.0025, 0.005, 0.01, 0.02),
    "scion": (0.005, 0.01, 0.02, 0.04),
    "muon": (0.01, 0.02, 0.04, 0.08),
    "adamw": (0.001, 0.002, 0.004, 0.008),
    "adamw+": (0.002, 0.004, 0.008, 0.016),
    "scion+": (0.005, 0.01, 0.02, 0.04),
    "dcfw": (0.05, 0.1, 0.2, 0.4),
}


def _options(method: str, variant: str) -> dict[str, Any]:
    """Return the options that the name of a variant stands for."""
    found: dict[str, Any] = {}
    for option, word in {"momentum": "momentum", "weight_decay": "decay", "rest": "lr"}.items():
        if match := re.search(rf"{word} ([\d.]+)", variant):
            found[option] = float(match[1])
    if method == "scion20" and found.get("momentum"):  # the weight of the new gradient there
        found["momentum"] = round(1.0 - found["momentum"], 2)
    if match := re.search(r"betas ([\d.]+), ([\d.]+)", variant):
        found["betas"] = (float(match[1]), float(match[2]))
    if match := re.search(r"(\S+ )?radi(?:i|us) ([x/]) ([\d.]+)", variant):
        factor = float(match[3]) if match[2] == "x" else 1.0 / float(match[3])
        roles = {"hidden ": ["hidden"], "head's ": ["head"], "other ": ["head", "embedding"]}.get(match[1])
        found["radius"] = dict.fromkeys(roles, factor) if roles else factor
        if "others / 2" in variant:
            found["radius"] |= {"head": 0.5, "embedding": 0.5}
    return found | ({"nesterov": False} if "not Nesterov's" in variant else {})


_NAMES = {
    "scion20": "momentum 0.8; momentum 0.95; momentum 0.98; radii / 2; radii x 2; momentum 0.95, radii x "
    "2; momentum 0.95, radii / 2; momentum 0.8, radii x 2; momentum 0.7; momentum 0.85; momentum 0.8, radii "
    "/ 2; momentum 0.8, radii x 1.5; momentum 0.7, radii x 2; radii x 1.5; radii x 3; radii x 0.7; momentum "
    "0.6, radii x 2; momentum 0.7, radii x 3; momentum 0.7, hidden radii x 2; momentum 0.7, hidden radii x "
    "2, others / 2",
    "scion": "momentum 0.9; momentum 0.8; momentum 0.98; radii / 2; radii x 2; momentum 0.9, radii x 2; "
    "momentum 0.9, radii / 2; momentum 0.9, radii x 1.5; momentum 0.9, radii x 3; momentum 0.85, radii x 2; "
    "momentum 0.8, radii x 2; momentum 0.9, hidden radii x 2; momentum 0.9, head's radius x 3; momentum "
    "0.9, other radii x 2; momentum 0.9, other radii x 3; momentum 0.9, radii x 2, not Nesterov's; momentum "
    "0.7, radii x 2; momentum 0.8, hidden radii x 2; momentum 0.8, hidden radii x 2, others / 2; momentum "
    "0.7, hidden radii x 2, others / 2",
    "muon": "momentum 0.9; momentum 0.98; decay 0; decay 0.3; AdamW's lr 0.001; AdamW's lr 0.01; AdamW's "
    "lr 0.01, betas 0.9, 0.95; AdamW's lr 0.03; momentum 0.8; momentum 0.9, decay 0; momentum 0.9, decay "
    "0.3; momentum 0.9, AdamW's lr 0.001; momentum 0.9, AdamW's lr 0.01; momentum 0.9, AdamW's betas 0.9, "
    "0.95; momentum 0.8, decay 0.3; momentum 0.8, AdamW's lr 0.01; momentum 0.7, AdamW's lr 0.01; momentum "
    "0.8, AdamW's lr 0.02; momentum 0.8, decay 0.05, AdamW's lr 0.01; momentum 0.8, AdamW's lr 0.01, betas "
    "0.8, 0.9",
    "adamw": "betas 0.9, 0.99; betas 0.9, 0.95; betas 0.8, 0.95; betas 0.95, 0.95; betas 0.95, 0.99; decay "
    "0; decay 0.1; betas 0.9, 0.95, decay 0.1; betas 0.8, 0.9; betas 0.8, 0.99; betas 0.8, 0.999; betas "
    "0.7, 0.95; betas 0.9, 0.9; decay 0.5; betas 0.9, 0.99, decay 0.1; betas 0.8, 0.95, decay 0.1; betas "
    "0.8, 0.8; betas 0.7, 0.9; betas 0.6, 0.9; betas 0.8, 0.9, decay 0.1",
}
VARIANTS = {method: {v: _options(method, v) for v in names.split("; ")} for method, names in _NAMES.items()}
"""Further options by name, tried at the best learning rate; the usual ones have the name ``""``."""
CHOSEN: dict[str, tuple[float, str]] = {
    "scion20": (0.01, "momentum 0.7, hidden radii x 2"),
    "scion": (0.01, "momentum 0.7, hidden radii x 2, others / 2"),
    "muon": (0.04, "momentum 0.8, decay 0.05, AdamW's lr 0.01"),
    "adamw": (0.002, "betas 0.8, 0.9"),
    "adamw+": (0.008, ""),
    "scion+": (0.01, ""),
    "dcfw": (0.2, ""),
}
"""The learning rate and the variant with the lowest loss on the text for choices, which get more seeds."""
SEEDS = (1, 2, 3)
WIDTHS, TRANSFER_STEPS = (24, 48, 96), 200
TRANSFER_RATES = {"scion": (0.005, 0.01, 0.02, 0.04), "adamw": (0.004, 0.008, 0.016, 0.032)}
EQUAL_TIME = {"adamw": 600}  # steps that take the time of 400 of Scion


def tasks() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (method, seed, settings) of each run."""

    def one(method: str, lr: float, variant: str = "", seed: int = 0, **other: int) -> Any:
        return method, seed, {"width": 96, "lr": lr, "steps": STEPS, "variant": variant, **other}

    for method, rates in RATES.items():
        yield from (one(method, lr) for lr in rates)
        yield from (one(method, CHOSEN[method][0], variant) for variant in VARIANTS.get(method, ()))
        yield from (one(method, *CHOSEN[method], seed) for seed in SEEDS)
    for method, width in itertools.product(TRANSFER_RATES, WIDTHS):
        rates = TRANSFER_RATES[method]
        yield from (one(method, lr, width=width, steps=TRANSFER_STEPS) for lr in rates)
    for method, steps in EQUAL_TIME.items():
        yield from (one(method, *CHOSEN[method], seed, steps=steps) for seed in SEEDS)


@functools.cache
def text() -> bytes:
    """Return the docstrings of NumPy and SciPy, as ASCII."""
    import numpy
    import scipy

    found: list[str] = []
    for package in (numpy, scipy):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*.py")):
            if "tests" in file.relative_to(root).parts:
                continue
            try:
                tree = ast.parse(file.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
            found += [ast.get_docstring(node) or "" for node in nodes]
    joined = "\n\n".join(part for part in found if len(part) > 100)
    return joined.encode("ascii", "ignore")[SKIPPED:]


@functools.cache
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the bytes for training, and the pieces for choices and held out."""
    whole = torch.frombuffer(bytearray(text()), dtype=torch.uint8).long().clamp_(max=VOCABULARY - 1)
    pieces = whole[: len(whole) // PIECES * PIECES].view(PIECES, -1)
    part = torch.arange(PIECES) % 10
    return pieces[(part != 4) & (part != 9)].flatten(), pieces[part == 4], pieces[part == 9]


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, d = x.shape
        parts = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.1)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class Scion20(torch.optim.Optimizer):  # type: ignore[misc]
    """Scion as published (Pethick et al. 2025), with Muon's five Newton-Schulz steps in single precision.

    The published networks have no vectors; here they are not shrunk, which gives a lower loss.
    """

    def __init__(self, groups: Any, lr: float, momentum: float = 0.1) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(1 - group["momentum"]).add_(p.grad, alpha=group["momentum"])
                update = group["lmo"](m)
                p.mul_(1 - group["lr"] * group["shrinks"]).add_(update, alpha=-group["lr"] * group["scale"])


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """``torch.optim.Muon`` with its defaults, and products in the precision of the weights."""

    def __init__(self, params: Any, lr: float, momentum: float = 0.95, weight_decay: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            lr = group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                update = newton_schulz(p.grad.lerp(m, group["momentum"]))
                longer = max(1.0, p.shape[0] / p.shape[1]) ** 0.5
                p.mul_(1 - lr * group["weight_decay"]).add_(update, alpha=-lr * longer)


def newton_schulz(G: torch.Tensor) -> torch.Tensor:
    """Return G after five steps of Muon's iteration."""
    if len(G) > G.shape[1]:
        return newton_schulz(G.T).T
    X = G / (G.norm() + 1e-7)
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return X


def spectral(G: torch.Tensor, stack: int) -> torch.Tensor:
    return torch.cat([newton_schulz(M) * (M.shape[0] / M.shape[1]) ** 0.5 for M in G.chunk(stack)])


def optimizers(method: str, model: nn.Module, lr: float, variant: str = "") -> list[torch.optim.Optimizer]:
    import dcfw.torch as dt

    groups = dt.param_groups(model)
    options = dict(VARIANTS[method][variant]) if variant else {}
    factor = options.pop("radius", 1.0)
    for group in groups:
        if group["constraint"]:
            group["radius"] *= factor.get(group["role"], 1.0) if isinstance(factor, dict) else factor
    if method == "scion20":
        norms: dict[str, Any] = {
            "hidden": lambda stack: lambda G: spectral(G, stack),
            "head": lambda stack: lambda G: torch.sign(G) / G.shape[1],
            "embedding": lambda stack: torch.sign,
            "vector": lambda stack: lambda G: G / (G.square().mean().sqrt() + 1e-8),
        }
        for group in groups:
            group["lmo"] = norms[group["role"]](group.get("stack", 1))
            group["scale"] = group["radius"] if group["constraint"] else 1.0
            group["shrinks"] = group["role"] != "vector"
        return [Scion20(groups, lr, **options)]
    if method == "scion":
        return [dt.Scion(groups, lr, **options)]
    if method == "scion+":
        entries = [group for group in groups if group["role"] in ("embedding", "head")]
        others = [group for group in groups if group["role"] in ("hidden", "vector")]
        for group in others:
            if group["role"] == "hidden":
                group["radius"] *= 2.0
        adamw = torch.optim.AdamW([p for group in entries for p in group["params"]], lr=0.01)
        dt.constrain(adamw, entries)
        return [dt.Scion(others, lr, momentum=0.8), adamw]
    if method == "muon":
        hidden = [p for group in groups if group["role"] == "hidden" for p in group["params"]]
        rest = [p for group in groups if group["role"] != "hidden" for p in group["params"]]
        adamw = {"lr": options.pop("rest", 0.003), "betas": options.pop("betas", (0.9, 0.999))}
        return [Muon(hidden, lr, **options), torch.optim.AdamW(rest, **adamw)]
    if method.startswith("adamw"):
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, **options)
        if method == "adamw+":
            dt.constrain(optimizer, groups)
        return [optimizer]
    return [dt.DCFW(groups, lr, momentum=0.9)]


def row(
    method: str, seed: int, lr: float, width: int = 96, steps: int = STEPS, variant: str = ""
) -> dict[str, Any]:
    """Train a network; return its loss (on the held-out text unless the seed is 0), norms and curve."""
    import dcfw.torch as dt

    training, for_choices, held_out = data()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(width)
        draws = torch.Generator().manual_seed(seed + 1000)
        opts = optimizers(method, model, lr, variant)
        scheduled = torch.optim.lr_scheduler.LambdaLR
        schedules = [scheduled(o, lambda t: min((t + 1) / WARMUP, 1.0 - t / steps)) for o in opts]
        curve, begun, spent = [], time.process_time(), 0.0
        for t in range(steps):
            rows = torch.randint(len(training) - CONTEXT - 1, (BATCH,), generator=draws)
            seen = training[rows[:, None] + torch.arange(CONTEXT + 1)]
            loss = nn.functional.cross_entropy(model(seen[:, :-1]).flatten(0, 1), seen[:, 1:].flatten())
            for o in opts:
                o.zero_grad()
            loss.backward()
            if not math.isfinite(float(loss.detach())):
                break
            before = time.process_time()
            for o, schedule in zip(opts, schedules, strict=True):
                o.step()
                schedule.step()
            spent += time.process_time() - before
            if t % 20 == 19:
                curve.append(round(float(loss.detach()), 4))
        seconds = time.process_time() - begun
        report = dt.norms(model, dt.param_groups(model))
        unseen, ended = held_out if seed in SEEDS else for_choices, len(curve) == steps // 20
        return {
            "loss": evaluate(model, unseen) if ended else None,
            "loss_3bit": evaluate(quantised(model), unseen) if ended else None,
            "log_lipschitz": round(report.log_product, 3),
            "parameters": sum(p.numel() for p in model.parameters()),
            "curve": curve,
            "seconds": round(seconds, 1),
            "optimizer_seconds": round(spent, 1),
            "text": hashlib.sha256(text()).hexdigest(),
            "torch": torch.__version__,
        }


@torch.no_grad()  # type: ignore[untyped-decorator]
def evaluate(model: nn.Module, pieces: torch.Tensor) -> float:
    """Return the mean loss on windows spread evenly over each piece."""
    starts = torch.linspace(0, pieces.shape[1] - CONTEXT - 1, WINDOWS).long()
    seen = pieces[:, starts[:, None] + torch.arange(CONTEXT + 1)].flatten(0, 1)
    loss = nn.functional.cross_entropy(model(seen[:, :-1]).flatten(0, 1), seen[:, 1:].flatten())
    return round(float(loss), 5)


@torch.no_grad()  # type: ignore[untyped-decorator]
def quantised(model: nn.Module, bits: int = 3) -> nn.Module:
    """Return a copy whose hidden matrices have entries of a few bits, with one scale for each row."""
    import copy

    low = copy.deepcopy(model)
    for name, p in low.named_parameters():
        if name.startswith("blocks") and p.ndim == 2:
            most = 2 ** (bits - 1) - 1
            scale = p.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12) / most
            p.copy_((p / scale).round_().clamp_(-most, most) * scale)
    return low
