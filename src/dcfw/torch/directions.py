"""What a step descends along, as SGD prepares it, and the metric that it is measured in."""

from __future__ import annotations

from typing import Any

import torch

from dcfw.torch.base import ConstrainedOptimizer
from dcfw.torch.regions import Tensor


def along(group: dict[str, Any], grads: list[Tensor], buffers: list[Tensor] | None) -> list[Tensor]:
    """Return what SGD would descend along, having averaged the gradients in the buffers, if there are any.

    Examples
    --------
    >>> import torch
    >>> buffer = torch.tensor([1.0])
    >>> along({"momentum": 0.5, "nesterov": False}, [torch.tensor([3.0])], [buffer])
    [tensor([3.5000])]
    """
    if buffers is None:
        return grads
    momentum = group["momentum"]
    if len(buffers) == 1:  # a list of one takes three times the overhead of its tensor
        buffers[0].mul_(momentum).add_(grads[0])
    else:
        torch._foreach_mul_(buffers, momentum)
        torch._foreach_add_(buffers, grads)
    return list(torch._foreach_add(grads, buffers, alpha=momentum)) if group["nesterov"] else buffers


def metric(
    optimizer: ConstrainedOptimizer, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]
) -> list[Tensor] | None:
    """Return the diagonal H for each parameter, None if lengths are measured as usual."""
    if group["metric"] is None:
        return None
    squares = optimizer._buffers(params, "squares")
    if group["metric"] == "adagrad":
        torch._foreach_addcmul_(squares, grads, grads)
        roots = list(torch._foreach_sqrt(squares))
    else:
        decay = group["metric_decay"]
        torch._foreach_mul_(squares, decay)
        torch._foreach_addcmul_(squares, grads, grads, value=1.0 - decay)
        roots = list(torch._foreach_sqrt(squares))
        for p, root in zip(params, roots, strict=True):
            root /= (1.0 - decay ** optimizer._count(p)).sqrt()
    torch._foreach_add_(roots, group["eps"])
    return roots
