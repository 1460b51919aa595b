"""Compiled Frank-Wolfe steps in the most usual case: tensor by tensor, in place, without an account of them.

What the kernel (:mod:`dcfw.torch.kernel`) needs is little, and for small tensors everything around it takes
longer than the steps.  Where gaps are to be kept, or half precision to be made single, the general way is
taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from dcfw.torch import directions
from dcfw.torch.base import LARGEST, ConstrainedOptimizer
from dcfw.torch.exact import ORDINARY
from dcfw.torch.regions import Tensor


def takes(group: dict[str, Any], params: list[Tensor]) -> bool:
    """Tell whether a group has nothing that is not known here."""
    return (
        bool(group["compiled"])
        and group["solver"] == "fw"
        and (group["constraint"] == "linf" or _is_modest_box(group))
        and group["scope"] == "tensor"
        and group["gap"] == "fw"
        and group["metric"] is None
        and not group["track_gap"]
        and not torch.compiler.is_compiling()
        and all(type(p) in ORDINARY and p.is_cpu for p in params)
        and all(p.dtype in (torch.float32, torch.float64) for p in params)
        and all(p.is_contiguous() and p.grad.is_contiguous() for p in params)
    )


def _is_modest_box(group: dict[str, Any]) -> bool:
    """Tell whether the constraint is a box whose bounds single precision has."""
    return group["constraint"] == "box" and bool(max(map(abs, group["radius"])) <= LARGEST)


def walk(
    optimizer: ConstrainedOptimizer,
    group: dict[str, Any],
    params: list[Tensor],
    memory: Callable[[Tensor], Tensor],
) -> None:
    """Move the parameters of a group; ``memory`` returns room of the shape of a tensor, three times."""
    from dcfw.torch import kernel  # which loads Numba

    for p in params:
        state = optimizer.state[p]
        grads = optimizer._gradients(group, [p], [p.grad])
        buffers = optimizer._buffers([p], "momentum_buffer") if group["momentum"] else None
        (g,) = directions.along(group, grads, buffers)
        region = optimizer._region(group, tuple(p.shape))
        if not optimizer._is_inside(p, region):
            p.copy_(region.project(p))
            state["inside"] = True
        eps = math.nan
        if group["inner_rule"] == "paper":
            eps = float(state["tolerance"]) if "tolerance" in state else math.inf
        eps = kernel.walk_in_place(
            p, g, group["lr"], region, group["inner_steps"], group["inner_tol"], eps, memory(p)[0].view(-1)
        )
        optimizer._mark(p, region)
        if group["inner_rule"] == "paper":
            state["tolerance"] = torch.tensor([[eps]], dtype=p.dtype)
