"""What a step descends along, as SGD prepares it, and the metric that it is measured in."""

from __future__ import annotations

from typing import Any

import torch

from dcfw.torch import shards
from dcfw.torch.base import ELEMENTWISE, ConstrainedOptimizer
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


def complete(
    optimizer: ConstrainedOptimizer,
    group: dict[str, Any],
    params: list[Tensor],
    weights: list[Tensor],
    slopes: list[Tensor],
    metric: list[Tensor] | None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor] | None]:
    """Return the same for all parameters of a block, with slopes of zero for those without a gradient.

    Where a set couples the entries of a group, the others alone do not say how far they may go.  Momentum,
    metric and weight decay of a parameter without a gradient are left as they are.
    """
    if group["scope"] != "group" or group["constraint"] in ELEMENTWISE:
        return params, weights, slopes, metric
    block = [p for p in group["params"] if p.numel() and (p.requires_grad or p.grad is not None)]
    if len(block) == len(params):
        return params, weights, slopes, metric
    given = dict(zip(params, slopes, strict=True))
    slopes = [given[p] if p in given else torch.zeros_like(p) for p in block]
    if metric is not None:
        given = dict(zip(params, metric, strict=True))
        metric = [given[p] if p in given else _last_metric(optimizer, group, p) for p in block]
    return block, [shards.local(p) for p in block], slopes, metric


def _last_metric(optimizer: ConstrainedOptimizer, group: dict[str, Any], p: Tensor) -> Tensor:
    """Return the diagonal H of a parameter as its last gradient has left it."""
    state = optimizer.state[p]
    if "squares" not in state:
        return torch.full_like(p, group["eps"])
    root = state["squares"].sqrt()
    if group["metric"] == "adam":
        root /= (1.0 - group["metric_decay"] ** state["step"]).sqrt()
    return root + group["eps"]
