"""Exact steps on intervals, the most usual ones: those of SGD, then clip.

On a product of intervals the projection of x - g/L is to clip each entry, so that a step reads the weights
and their gradients and writes the weights: it is memory that takes the time, and what Python does around it.
There are two ways, which give the same bits:

:func:`descend_together`     all tensors of a group in a few calls, on accelerators; in a metric, too
:class:`OneByOne`            tensor by tensor, with as little around it as can be, on a CPU
"""

from __future__ import annotations

from typing import Any

import torch

from dcfw.torch.base import ELEMENTWISE, ConstrainedOptimizer
from dcfw.torch.regions import UNBOUNDED, Region, Tensor

ORDINARY = (torch.Tensor, torch.nn.Parameter)
"""What kernels may write to: no subclass that would have to be asked."""


class OneByOne:
    """Exact steps tensor by tensor; the bits are those of ``torch.optim.SGD`` until something is clipped."""

    def __init__(self) -> None:
        self._last: Any = (None, UNBOUNDED)

    @classmethod
    def takes(cls, group: dict[str, Any], params: list[Tensor]) -> bool:
        """Tell whether a group has nothing that is not known here."""
        return cls._knows(group) and all(type(p) in ORDINARY and p.is_cpu for p in params)

    @staticmethod
    def _knows(group: dict[str, Any]) -> bool:
        return (
            group["constraint"] in ELEMENTWISE
            and group["solver"] != "fw"
            and group["metric"] is None
            and not (group["foreach"] or group["track_gap"] or group["maximize"])
            and not isinstance(group["lr"], torch.Tensor)
        )

    def step(self, optimizer: ConstrainedOptimizer, group: dict[str, Any], params: list[Tensor]) -> None:
        """Move the parameters of a group."""
        factor, momentum, nesterov = -group["lr"], group["momentum"], group["nesterov"]
        decay = group["weight_decay"]
        buffers = optimizer._buffers(params, "momentum_buffer") if momentum else []
        for i, p in enumerate(params):
            g = p.grad.add(p, alpha=decay) if decay else p.grad
            if momentum:
                buffers[i].mul_(momentum).add_(g)
                g = g.add(buffers[i], alpha=momentum) if nesterov else buffers[i]
            p.add_(g, alpha=factor)
            interval = self._interval(optimizer, group, p)
            if interval is not UNBOUNDED:
                p.clamp_(interval.lower, interval.upper)

    def _interval(self, optimizer: ConstrainedOptimizer, group: dict[str, Any], p: Tensor) -> Any:
        """Return the interval of a parameter, the same as the last one more often than not."""
        shape = () if group["radius_mode"] == "absolute" else tuple(p.shape)
        kind = (group["constraint"], group["radius"], group["radius_mode"], group["scope"], shape)
        if self._last[0] != kind:
            self._last = (kind, optimizer._region(group, shape))
        return self._last[1]


def descend_together(
    weights: list[Tensor],
    directions: list[Tensor],
    lr: Any,
    metric: list[Tensor] | None,
    regions: list[Region],
) -> None:
    """Take the exact step on products of intervals, in place."""
    if metric is not None:
        directions = list(torch._foreach_div(directions, metric))
    if isinstance(lr, torch.Tensor):  # as a number it would have to be read from the device
        torch._foreach_sub_(weights, torch._foreach_mul(directions, lr))
    elif len(weights) == 1:
        weights[0].add_(directions[0], alpha=-lr)
    else:
        torch._foreach_add_(weights, directions, alpha=-lr)
    if regions[0] == UNBOUNDED:
        return
    if len(weights) == 1:
        weights[0].clamp_(regions[0].lower, regions[0].upper)  # type: ignore[attr-defined]
        return
    torch._foreach_clamp_min_(weights, [region.lower for region in regions])  # type: ignore[attr-defined]
    torch._foreach_clamp_max_(weights, [region.upper for region in regions])  # type: ignore[attr-defined]
