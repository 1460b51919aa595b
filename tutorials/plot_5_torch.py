"""
Train a network inside norm balls
=================================

A fifth of the labels is wrong.  A large network can memorise them; norm balls for its weight matrices limit
this.  Both optimisers below have six settings, selected on labels
that are as noisy as the training labels.  Requires ``pip install ".[torch,plots]"``.
"""

import itertools

import matplotlib.pyplot as plt
import torch

import dcfw.torch

torch.manual_seed(0)
X = torch.randn(3072, 20)
truth = (X[:, 0] * X[:, 1] + X[:, 2] > 0).long()
noisy = torch.where(torch.rand(3072) < 0.2, 1 - truth, truth)
train, choose, test = torch.arange(512), torch.arange(512, 1024), torch.arange(1024, 3072)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def accuracy(model, rows, labels):
    return (model(X[rows]).argmax(dim=1) == labels[rows]).float().mean().item()


def fit(model, optimizer, epochs=40):
    """Train in batches of 64 with a falling learning rate."""
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, epochs)
    for _ in range(epochs):
        for batch in train.split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(X[batch]), noisy[batch]).backward()
            optimizer.step()
        schedule.step()
    return model


# %%
# Each weight gets a set according to its role in the network:
print(dcfw.torch.param_groups(network(), roles={"hidden": {"radius": 0.5}, "head": {"radius": 20.0}}))

# %%
# Only the optimiser changes.  AdamW has three learning rates and two weight decays,
# Scion three learning rates and two sizes of the balls.
RADII = {"default": {}, "small": {"hidden": {"radius": 0.5}, "head": {"radius": 20.0}}}


def adamw(model, lr, decay):
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)


def scion(model, lr, radii):
    return dcfw.torch.Scion(dcfw.torch.param_groups(model, roles=RADII[radii]), lr=lr)


found = {}
for name, make, others in (("AdamW", adamw, (0.01, 1.0)), ("Scion", scion, tuple(RADII))):
    runs = []
    for lr, other in itertools.product((0.001, 0.003, 0.01), others):
        model = network()
        fit(model, make(model, lr, other))
        runs.append((accuracy(model, choose, noisy), lr, other, model))
    chosen, lr, other, model = max(runs, key=lambda run: run[0])
    found[name] = accuracy(model, train, noisy), accuracy(model, test, truth)
    print(f"{name}, lr {lr}, {other}: {chosen:.1%} of the validation labels")
    seen, right = found[name]
    print(f"    {seen:.1%} of the noisy training labels, {right:.1%} of 2048 true test labels")

# %%
# One seed of one small problem does not rank the optimisers; :doc:`the guide </guide/torch>` compares them on
# a language model.  The balls always bound every layer:
print(dcfw.torch.norms(model, dcfw.torch.param_groups(model, roles=RADII[other])))

# %%
# To bound the layers with another optimiser, use ``dcfw.torch.constrain(optimizer, groups)``.
places = range(len(found))
plt.bar([k - 0.2 for k in places], [seen for seen, _ in found.values()], 0.4, label="noisy training labels")
plt.bar([k + 0.2 for k in places], [right for _, right in found.values()], 0.4, label="true test labels")
plt.xticks(list(places), list(found))
plt.ylabel("accuracy")
plt.ylim(0.5, 1.0)
plt.legend()
