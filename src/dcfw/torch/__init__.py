"""Constrained training of networks in PyTorch: stochastic DC-FW and other Frank-Wolfe methods.

For transformers and other networks of matrices start with :class:`Scion`.  Needs ``pip install
"dcfw[torch]"``.

==================  =========================================================================================
``Scion``           oracle steps with a norm ball for each layer role
``SFW``             oracle steps (stochastic Frank-Wolfe) with any set and the usual step sizes
``DCFW``            the paper's stochastic method: SGD and a projection, or Frank-Wolfe steps towards it
``constrain``       norm balls for any other optimizer
``param_groups``    which weights get which set, as a table
``norms``           the norms of a model
``argmin``          a layer whose output is a minimiser over a set
``sliding_step``    the update of DCFW as a pure function of tensors
==================  =========================================================================================
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
