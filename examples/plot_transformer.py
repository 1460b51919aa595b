r"""
A transformer in norm balls
===========================

A small GPT learns the documentation of NumPy byte by byte: with :class:`dcfw.torch.Scion`, which keeps every
layer in a norm ball; with AdamW; and with AdamW whose weights :func:`dcfw.torch.constrain`
projects after each step.  ``print(dcfw.torch.param_groups(model))`` shows the set of each layer:

* hidden matrices: a spectral ball, one for each matrix of a packed projection;
* embeddings: entries in [-r, r]; the output layer: entries in [-r/d, r/d];
* gains and biases: unconstrained.

The learning rates are not tuned here; ``results/networks/gpt.md`` has a comparison with tuned ones.  The
weights are checked against their radii after training, and the losses are compared.  This example needs
PyTorch.
"""

import ast
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import dcfw.torch

files = sorted((Path(np.__file__).parent / "lib").glob("*.py"))
nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
docs = "\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.FunctionDef))
text = torch.tensor(list(docs.encode("ascii", "ignore")))
d, heads, context, steps = 64, 4, 48, 200


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(128, d), nn.Embedding(context, d)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 128, bias=False)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.positions.weight)))


def train(make):
    torch.manual_seed(0)
    model, losses = GPT(), []
    optimizer = make(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min((t + 1) / 20, 1 - t / steps))
    for _ in range(steps):
        rows = torch.randint(len(text) - context - 1, (16, 1)) + torch.arange(context + 1)
        x = text[rows]
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return model, losses


def projected_adamw(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    dcfw.torch.constrain(optimizer, model)
    return optimizer


torch.set_num_threads(1)
runs = {
    "Scion": train(lambda model: dcfw.torch.Scion(model, lr=0.01)),
    "AdamW": train(lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)),
    "AdamW, projected": train(projected_adamw),
}
reports = {name: dcfw.torch.norms(model) for name, (model, _) in runs.items()}
final = {name: float(np.mean(losses[-20:])) for name, (_, losses) in runs.items()}
for name, report in reports.items():
    print(f"{name}: loss {final[name]:.3f}, log of the product of norms {report.log_product:.1f}")

# %%
# Check that all weights lie in their balls, and that projection lowers the norms of AdamW.

for name in ("Scion", "AdamW, projected"):
    assert all(not row.size > row.radius * (1 + 1e-5) for row in reports[name].rows)
assert reports["AdamW, projected"].log_product < reports["AdamW"].log_product
print("success:", final["Scion"] < final["AdamW"])

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for name, (_, losses) in runs.items():
    left.plot(np.convolve(losses, np.ones(10) / 10, "valid"), label=name)
left.set(xlabel="step", ylabel="training loss (mean of ten steps)", title="A GPT on NumPy's documentation")
left.legend()
reports["Scion"].plot(right).set_title("Scion: share of its ball that each layer uses")
plt.show()
