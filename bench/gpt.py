"""A byte-level GPT: optimizers with norm constraints against those without, tuned with equal effort.

The text is the documentation of NumPy and SciPy (the docstrings of the installed packages, module by module
in alphabetical order; every row records its SHA-256), the last tenth of it for validation.  The network has
three blocks of width 96 with four heads, a context of 64 bytes and 364k parameters; a run has 400 steps of 8
sequences, with a warm-up over 40 steps and a linear decay to zero.  Every method gets three learning rates, a
factor of three apart around its usual value, and further ones until the best is not the last at either end;
the best of them with seed 0 is run with two more seeds.  Radii are those of
:func:`dcfw.torch.param_groups` for every method that has any; they were chosen among five on this text, with
a quarter of the steps.  Other widths have the first three learning rates, with seed 0.

``scion20``     Scion as published, in twenty lines: sign and spectral norms, five Newton-Schulz steps
``scion``       :class:`dcfw.torch.Scion` with the sets of :func:`dcfw.torch.param_groups`
``uscion``      the same without shrinking the weights
``muon``        ``torch.optim.Muon`` for the hidden matrices, AdamW (its usual learning rate) for the rest
``adamw``       ``torch.optim.AdamW``
``adamw+``      the same, projected after each step by :func:`dcfw.torch.constrain`
``dcfw``        :class:`dcfw.torch.DCFW` with exact steps on the same sets: projected SGD with momentum
``dcfw-fw``     the same with one Frank-Wolfe step for each block

    python -m bench gpt results/networks/gpt.csv [SECONDS]

adds the runs that the table lacks, a line for each as soon as it ends, and writes the report beside it.
"""

from __future__ import annotations

import ast
import csv
import functools
import hashlib
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

CONTEXT, BATCH, STEPS, WARMUP = 64, 8, 400, 40
LAYERS, HEADS, VOCABULARY = 3, 4, 128
LENGTH = 2_000_000
"""How many characters of text there are at most."""
RATES: dict[str, tuple[float, float, float]] = {
    "scion20": (0.003, 0.01, 0.03),
    "scion": (0.003, 0.01, 0.03),
    "muon": (0.01, 0.03, 0.1),
    "adamw": (0.001, 0.003, 0.01),
    "adamw+": (0.001, 0.003, 0.01),
    "dcfw": (0.03, 0.1, 0.3),
    "uscion": (0.003, 0.01, 0.03),
    "dcfw-fw": (0.03, 0.1, 0.3),
}
MAIN = ("scion20", "scion", "muon", "adamw", "adamw+", "dcfw")
SEEDS = 3
WIDTHS = (48, 192)
"""Beside 96, for the transfer of learning rates."""
FIELDS = (
    "method", "width", "lr", "seed", "steps", "loss", "loss_3bit", "log_lipschitz", "parameters", "seconds",
    "optimizer_seconds", "curve", "text", "torch",
)  # fmt: skip


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
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
            found += [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    joined = "\n\n".join(part for part in found if len(part) > 100)
    return joined.encode("ascii", "ignore")[:LENGTH]


@functools.cache
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes for training and for validation."""
    whole = torch.frombuffer(bytearray(text()), dtype=torch.uint8).long().clamp_(max=VOCABULARY - 1)
    cut = len(whole) * 9 // 10
    return whole[:cut], whole[cut:]


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a perceptron, each behind a normalisation and beside a shortcut."""

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
    """A small transformer that predicts the next byte."""

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
    """Scion as published (Pethick et al. 2025), with Muon's five Newton-Schulz steps in single precision."""

    def __init__(self, groups: Any, lr: float, momentum: float = 0.1) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(1 - group["momentum"]).add_(p.grad, alpha=group["momentum"])
                p.mul_(1 - group["lr"]).add_(group["lmo"](m), alpha=-group["lr"] * group["scale"])


def newton_schulz(G: torch.Tensor) -> torch.Tensor:
    """Return what five steps of Muon's iteration make of G."""
    if len(G) > G.shape[1]:
        return newton_schulz(G.T).T
    X = G / (G.norm() + 1e-7)
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return X


def spectral(G: torch.Tensor, stack: int) -> torch.Tensor:
    parts = [newton_schulz(M) * (M.shape[0] / M.shape[1]) ** 0.5 for M in G.chunk(stack)]
    return torch.cat(parts)


def optimizers(method: str, model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Return the optimizers of a method, all of which take every step."""
    import dcfw.torch as dt

    groups = dt.param_groups(model)
    if method == "scion20":
        norms: dict[str, Any] = {
            "hidden": lambda stack: lambda G: spectral(G, stack),
            "head": lambda stack: lambda G: torch.sign(G) / G.shape[1],
            "embedding": lambda stack: torch.sign,
            "vector": lambda stack: lambda G: G / (G.square().mean().sqrt() + 1e-8),
        }
        made = [
            {
                "params": group["params"],
                "lmo": norms[group["role"]](group.get("stack", 1)),
                "scale": group.get("radius", 1.0),
            }
            for group in groups
        ]
        return [Scion20(made, lr)]
    if method in ("scion", "uscion"):
        return [dt.Scion(groups, lr, unconstrained=method == "uscion")]
    if method == "muon":
        hidden = [p for group in groups if group["role"] == "hidden" for p in group["params"]]
        rest = [p for group in groups if group["role"] != "hidden" for p in group["params"]]
        return [torch.optim.Muon(hidden, lr=lr, momentum=0.95), torch.optim.AdamW(rest, lr=0.003)]
    if method.startswith("adamw"):
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        if method == "adamw+":
            dt.constrain(optimizer, groups)
        return [optimizer]
    options = {"solver": "fw", "inner_steps": 1} if method == "dcfw-fw" else {"solver": "auto"}
    for group in groups:
        if group["constraint"] is not None:
            group |= options
    return [dt.DCFW(groups, lr, momentum=0.9)]


def train(method: str, lr: float, seed: int, width: int = 96, steps: int = STEPS) -> dict[str, Any]:
    """Train a network and return its validation loss, norms and curve."""
    import dcfw.torch as dt

    training, validation = data()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(width)
        draws = torch.Generator().manual_seed(seed + 1000)
        opts = optimizers(method, model, lr)
        schedules = [
            torch.optim.lr_scheduler.LambdaLR(o, lambda t: min((t + 1) / WARMUP, 1.0 - t / steps))
            for o in opts
        ]
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
        low = quantised(model)
        return {
            "loss": evaluate(model, validation) if len(curve) == steps // 20 else None,
            "loss_3bit": evaluate(low, validation) if len(curve) == steps // 20 else None,
            "log_lipschitz": round(report.log_product, 3),
            "parameters": sum(p.numel() for p in model.parameters()),
            "curve": curve,
            "seconds": round(seconds, 1),
            "optimizer_seconds": round(spent, 1),
            "text": hashlib.sha256(text()).hexdigest(),
        }


@torch.no_grad()  # type: ignore[untyped-decorator]
def evaluate(model: nn.Module, validation: torch.Tensor) -> float:
    """Return the mean loss on 200 windows that are spread evenly over the text for validation."""
    starts = torch.linspace(0, len(validation) - CONTEXT - 2, 200).long()
    seen = validation[starts[:, None] + torch.arange(CONTEXT + 1)]
    loss = nn.functional.cross_entropy(model(seen[:, :-1]).flatten(0, 1), seen[:, 1:].flatten())
    return round(float(loss), 5)


@torch.no_grad()  # type: ignore[untyped-decorator]
def quantised(model: nn.Module, bits: int = 3) -> nn.Module:
    """Return a copy whose hidden matrices have entries of a few bits, one scale for each row."""
    import copy

    low = copy.deepcopy(model)
    for name, p in low.named_parameters():
        if name.startswith("blocks") and p.ndim == 2:
            most = 2 ** (bits - 1) - 1
            scale = p.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12) / most
            p.copy_((p / scale).round_().clamp_(-most, most) * scale)
    return low


def plan(rows: list[dict[str, str]]) -> Iterator[tuple[str, int, float, int]]:
    """Yield what is to be run: (method, width, learning rate, seed); seeds follow the best learning rate."""
    for methods in (MAIN, tuple(method for method in RATES if method not in MAIN)):
        best = {}
        for method in methods:
            yield from ((method, 96, lr, 0) for lr in RATES[method])
            best[method] = lr = tuned(rows, method)
            if lr is not None and lr not in (rates := sorted(rates_of(rows, method)))[1:-1]:
                yield (method, 96, float(f"{lr * 3 if lr == rates[-1] else lr / 3:.1g}"), 0)
        for method, lr in best.items():
            if lr is not None:
                yield from ((method, 96, lr, seed) for seed in range(1, SEEDS))
        if methods is MAIN:
            for width, method in itertools.product(WIDTHS, ("scion", "adamw")):
                yield from ((method, width, lr, 0) for lr in RATES[method])


def rates_of(rows: list[dict[str, str]], method: str) -> dict[float, float]:
    """Return the validation loss of each learning rate that a method was run with (width 96, seed 0)."""
    own = [row for row in rows if (row["method"], row["width"], row["seed"]) == (method, "96", "0")]
    return {float(row["lr"]): float(row["loss"] or "inf") for row in own}


def tuned(rows: list[dict[str, str]], method: str) -> float | None:
    """Return the best learning rate of a method so far."""
    losses = rates_of(rows, method)
    return min(losses, key=losses.__getitem__, default=None)


def run(file: Path, seconds: float = math.inf) -> None:
    """Train what is not in the table yet, one network after the other, and add a line for each."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        rows = read(file)
        done = {_key(row) for row in rows}
        todo = next((task for task in plan(rows) if task not in done), None)
        if todo is None:
            return
        method, width, lr, seed = todo
        found = train(method, lr, seed, width)
        found |= {"method": method, "width": width, "lr": lr, "seed": seed, "steps": STEPS}
        found |= {"curve": " ".join(map(str, found["curve"])), "torch": torch.__version__}
        with file.open("a", newline="", encoding="utf-8") as table:
            writer = csv.DictWriter(table, FIELDS)
            if not rows:
                writer.writeheader()
            writer.writerow(found)


def read(file: Path) -> list[dict[str, str]]:
    """Return the lines of the table, none if there is no file."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as table:
        return list(csv.DictReader(table))


def report(file: Path) -> str:
    """Return the text of the report of a table, and draw the curves beside it."""
    rows = read(file)
    text = [
        "# A byte-level GPT in norm balls",
        "",
        f"{len(rows)} runs; `python -m bench gpt results/networks/{file.name}` adds what is missing "
        "and writes this. "
        f"Text: documentation of NumPy and SciPy, SHA-256 {rows[0]['text'][:16]}...; {rows[0]['parameters']} "
        f"parameters, {STEPS} steps of {BATCH} sequences of {CONTEXT} bytes; processor seconds of one shared "
        "thread. What each method is: `bench.gpt`. Losses are nats per byte on the validation text.",
        "",
        "| method | learning rates tried (loss, seed 0) | best | seeds | loss | 3 bits | log of the product "
        "of norms | seconds | of them in the optimizer |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    means = {}
    for method in RATES:
        lr = tuned(rows, method)
        if lr is None:
            continue
        own = [r for r in rows if (r["method"], r["width"], float(r["lr"])) == (method, "96", lr)]
        losses = [float(r["loss"]) for r in own]
        means[method] = sum(losses) / len(losses)
        tried = ", ".join(f"{rate:g} ({loss:.3f})" for rate, loss in sorted(rates_of(rows, method).items()))
        others = [
            sum(float(r[name]) for r in own) / len(own)
            for name in ("loss_3bit", "log_lipschitz", "seconds", "optimizer_seconds")
        ]
        text.append(
            f"| {method} | {tried} | {lr:g} | {len(own)} | {means[method]:.3f} ({min(losses):.3f} to "
            f"{max(losses):.3f}) | {others[0]:.3f} | {others[1]:.1f} | {others[2]:.0f} | {others[3]:.1f} |"
        )
    if "scion" in means:
        text.append("")
        for peer in ("scion20", "muon", "adamw", "dcfw"):
            if peer in means:
                percent = 100.0 * (means["scion"] / means[peer] - 1.0)
                text.append(f"- The mean loss of `scion` is {percent:+.1f} % from that of `{peer}`.")
    wide = [r for r in rows if r["width"] != "96"]
    text += ["", "## Do learning rates transfer?", ""]
    if wide:
        text += ["| method | width | losses by learning rate (seed 0) |", "| --- | ---: | --- |"]
        for method, width in sorted({(r["method"], int(r["width"])) for r in wide}):
            own = [r for r in wide if (r["method"], int(r["width"])) == (method, width)]
            tried = ", ".join(f"{float(r['lr']):g} ({float(r['loss'] or 'nan'):.3f})" for r in own)
            text.append(f"| {method} | {width} | {tried} |")
    missing = [task for task in plan(rows) if task not in {_key(row) for row in rows}]
    if missing:
        names = ", ".join(f"{m} at width {w}, lr {lr:g}, seed {seed}" for m, w, lr, seed in missing)
        text += ["", f"Not run yet: {names}."]
    _draw(file.with_suffix(".png"), rows)
    return "\n".join([*text, "", f"![training loss]({file.stem}.png)", ""])


def _key(row: dict[str, str]) -> tuple[str, int, float, int]:
    return row["method"], int(row["width"]), float(row["lr"]), int(row["seed"])


def _draw(file: Path, rows: list[dict[str, str]]) -> None:
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(7, 4.4), layout="constrained")
    for method in RATES:
        lr = tuned(rows, method)
        own = [r for r in rows if (r["method"], r["width"], float(r["lr"])) == (method, "96", lr)]
        if own:
            curves = [list(map(float, r["curve"].split())) for r in own]
            mean = [sum(values) / len(values) for values in zip(*curves, strict=True)]
            ax.plot(range(20, STEPS + 1, 20), mean, label=f"{method}, lr {lr:g}")
    ax.set(
        xlabel="step",
        ylabel="training loss (mean of the seeds)",
        title="Each method at its best learning rate",
    )
    ax.legend()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    table = Path(arguments[0])
    run(table, float(arguments[1]) if len(arguments) > 1 else math.inf)
    table.with_suffix(".md").write_text(report(table), encoding="utf-8")
