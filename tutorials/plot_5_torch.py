"""
Train a network inside norm balls
=================================

A fifth of the labels is wrong.  A large network learns them by heart; one whose weight matrices stay in small
norm balls cannot.  Needs ``pip install ".[torch,plots]"``.
"""

import matplotlib.pyplot as plt
import torch

import dcfw.torch

torch.manual_seed(0)
X = torch.randn(1024, 20)
truth = (X[:, 0] * X[:, 1] + X[:, 2] > 0).long()
labels = torch.where(torch.rand(1024) < 0.2, 1 - truth, truth)[:512]


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def fit(model, optimizer, epochs=40):
    """Train on the first half; return the accuracy on its noisy labels and on the other half."""
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, epochs)
    for _ in range(epochs):
        for batch in torch.arange(512).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(X[batch]), labels[batch]).backward()
            optimizer.step()
        schedule.step()
    right = model(X).argmax(dim=1) == torch.cat([labels, truth[512:]])
    return right[:512].float().mean().item(), right[512:].float().mean().item()


# %%
# Which weight gets which set, by its role in the network; two radii are made smaller here.
model = network()
groups = dcfw.torch.param_groups(model, roles={"hidden": {"radius": 0.5}, "head": {"radius": 20.0}})
print(groups)

# %%
# The one line that changes is the optimiser.
plain = network()
accuracy = {
    "AdamW": fit(plain, torch.optim.AdamW(plain.parameters(), lr=0.003)),
    "Scion": fit(model, dcfw.torch.Scion(groups, lr=0.003)),
}
for name, (train, test) in accuracy.items():
    print(f"{name}: {train:.1%} of the noisy training labels, {test:.1%} of the true test labels")

# %%
# Where the weights are in their balls:
print(dcfw.torch.norms(model, groups))

# %%
# To keep another optimiser and bound its layers: ``dcfw.torch.constrain(optimizer, groups)``.
places = range(len(accuracy))
plt.bar(
    [k - 0.2 for k in places], [train for train, _ in accuracy.values()], 0.4, label="noisy training labels"
)
plt.bar([k + 0.2 for k in places], [test for _, test in accuracy.values()], 0.4, label="true test labels")
plt.xticks(list(places), list(accuracy))
plt.ylabel("accuracy")
plt.ylim(0.5, 1.0)
plt.legend()
