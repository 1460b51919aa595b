"""Constrained training of networks in PyTorch: stochastic DC-FW and its Frank-Wolfe rivals.

>>> import torch, dcfw
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = dcfw.torch.DCFW(model.parameters(), lr=0.1, constraint="linf", radius=1.0)
>>> loss = model(torch.ones(3, 4)).square().mean()
>>> loss.backward()
>>> optimizer.step()
>>> bool(model.weight.abs().max() <= 1.0)
True

Which optimizer?  For transformers and other networks of matrices begin with :class:`Scion`, whose steps have
the geometry of the layers.  :class:`DCFW` is the paper's stochastic method: phi = L/2 ||x||^2 - (L/2 ||x||^2
- phi), with the minibatch gradient g at x_t kept through the inner loop.  With z = x_t - g/L the surrogate is
L/2 ||X - z||^2 and a constant, so a step is the projection of z, by a formula or by Frank-Wolfe steps:

* On the l_inf ball the exact step is clip(z, -c, c).  While no weight touches the boundary that is SGD with
  learning rate 1/L, whatever c is: "insensitive to c" is close to automatic and says little about the method.
* With few inner steps K is a dial, once c is large: K = 1 moves by (||g||_1 / (n L)) sign(g), a sign step,
  and K -> infinity is projected SGD.  On the spectral ball K = 1 is a Muon step scaled by the nuclear norm.

==================  =========================================================================================
``Scion``           oracle steps with a norm ball for each layer role
``SFW``             oracle steps (stochastic Frank-Wolfe) with any set and the usual step sizes
``DCFW``            proximal steps: SGD and a projection, or Frank-Wolfe steps towards it
``constrain``       norm balls for any other optimizer
``param_groups``    which weights get which set, as a table
``norms``           what the norms of a model are
``argmin``          a layer whose output is a minimiser over a set
``sliding_step``    the update of DCFW as a pure function of tensors
==================  =========================================================================================

Needs PyTorch: ``pip install "dcfw[torch]"``.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401  (absolute: the real one)
except ModuleNotFoundError as missing:
    if missing.name == "torch":
        raise ModuleNotFoundError(
            'dcfw.torch needs PyTorch; install it with: pip install "dcfw[torch]"', name="torch"
        ) from None
    raise

from dcfw.torch.argmin import argmin
from dcfw.torch.constrain import constrain
from dcfw.torch.groups import param_groups
from dcfw.torch.inner import sliding_step
from dcfw.torch.norms import norms
from dcfw.torch.optimizer import DCFW
from dcfw.torch.sfw import SFW, Scion

__all__ = ["DCFW", "SFW", "Scion", "argmin", "constrain", "norms", "param_groups", "sliding_step"]
