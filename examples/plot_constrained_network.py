r"""
Training a network with bounded weights
=======================================

Train a network with every weight in [-c, c].  :class:`dcfw.torch.DCFW` replaces SGD in
the usual loop: with the minibatch gradient g at :math:`x_t` and L = 1/lr, a step solves

.. math:: \min_{\|X\|_\infty \le c} \; \langle g, X \rangle + \tfrac L2 \|X - x_t\|^2 ,

exactly or with a few Frank-Wolfe steps.  The exact solution clips :math:`x_t - g/L`, so while no weight
touches the boundary it *is* SGD; a single Frank-Wolfe step is close to a sign step.  For large c it is
therefore nearly automatic that the results hardly depend on c.

The figure shows the classifiers learnt on two spirals, and their weights.  The steps are checked
against ``torch.optim.SGD``, which gives the same weights bit for bit where c is out of reach, and all
weights against their bounds.  This example needs PyTorch.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import dcfw.torch

rng = np.random.default_rng(0)
turns = np.sqrt(rng.random(400)) * 2.5 * np.pi
side = np.arange(400) % 2
points = np.stack([turns * np.cos(turns + np.pi * side), turns * np.sin(turns + np.pi * side)], 1) / 8.0
points += 0.02 * rng.standard_normal((400, 2))
X, y = torch.tensor(points, dtype=torch.float32), torch.tensor(side)


def train(make, epochs=200):
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(2, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 2),
    ]
    model = torch.nn.Sequential(*layers)
    optimizer = make(model.parameters())
    order = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch in torch.randperm(400, generator=order).split(80):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(X[batch]), y[batch]).backward()
            optimizer.step()
    return model


torch.set_num_threads(1)
networks = {
    "SGD": train(lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9)),
    "DCFW, c = 100": train(lambda p: dcfw.torch.DCFW(p, lr=0.2, momentum=0.9, radius=100.0)),
    "DCFW, c = 1": train(lambda p: dcfw.torch.DCFW(p, lr=0.2, momentum=0.9, radius=1.0)),
}
weights = {
    name: torch.cat([p.detach().ravel() for p in model.parameters()]) for name, model in networks.items()
}
for name, model in networks.items():
    accuracy = (model(X).argmax(1) == y).float().mean().item()
    print(f"{name}: accuracy {accuracy:.3f}, largest weight {weights[name].abs().max().item():.2f}")

# %%
# Check that the weights equal those of SGD bit for bit where the constraint is out of reach, and that
# otherwise no weight is outside its bounds.

assert torch.equal(weights["SGD"], weights["DCFW, c = 100"])
assert weights["SGD"].abs().max() > 1.0 >= weights["DCFW, c = 1"].abs().max()
print("success:", accuracy > 0.9)

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[1, 1.2], layout="constrained")
grid = torch.linspace(-1.15, 1.15, 200)
plane = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), -1).reshape(-1, 2)
with torch.no_grad():
    chance = networks["DCFW, c = 1"](plane).softmax(1)[:, 1].reshape(200, 200)
left.contourf(grid, grid, chance, levels=20, cmap="RdBu", alpha=0.7)
left.scatter(*points.T, c=np.where(side, "#0b3c5d", "#8c1c2b"), s=9)
left.set(title=f"All weights in [-1, 1]: accuracy {accuracy:.3f}", aspect="equal")
left.set_axis_off()
for (name, values), colour in zip(weights.items(), ("0.5", "C0", "C3"), strict=True):
    style = {"histtype": "step", "lw": 1.8, "ls": "--"} if name == "DCFW, c = 100" else {"alpha": 0.6}
    right.hist(values.numpy(), bins=80, range=(-2.5, 2.5), color=colour, label=name, log=True, **style)
right.set(xlabel="weight", ylabel="count", title="The weights of the three networks")
right.legend()
plt.show()
