"""Parameters that FSDP2 has sharded: work on the local part, add up what belongs to the whole.

A set that treats entries one by one is at home on shards: each rank moves its own entries, and only the two
sums of a Frank-Wolfe step (the gap and the curvature) are added up over the ranks.  All other sets need the
whole tensor; :func:`refuse` says so when the optimizer is made, not in the middle of training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed

from dcfw.torch.regions import Tensor


def local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a distributed tensor, and an ordinary tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def sharded_dimensions(parameter: Tensor) -> list[int]:
    """Return the dimensions of a parameter that are sharded."""
    return [placement.dim for placement in getattr(parameter, "placements", ()) if placement.is_shard()]


def total_over(parameter: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return what adds up a tensor over the shards of a parameter, None if it is whole."""
    if not sharded_dimensions(parameter):
        return None
    mesh = parameter.device_mesh
    groups = [mesh.get_group(i) for i, placement in enumerate(parameter.placements) if placement.is_shard()]

    def total(sums: Tensor) -> Tensor:
        for group in groups:
            torch.distributed.all_reduce(sums, group=group)
        return sums

    return total


def refuse(parameter: Tensor, name: str, group: dict[str, Any], elementwise: bool) -> None:
    """Raise an error if the constraint or its scope needs more of a sharded parameter than a rank has."""
    dimensions = sharded_dimensions(parameter)
    if not dimensions:
        return
    if not elementwise:
        raise ValueError(
            f"constraint={group['constraint']!r} needs whole tensors, but {name} is sharded (FSDP2) along "
            f"dimension {dimensions[0]}; use 'linf', 'box' or None for it, or leave it out of fully_shard "
            "(ignored_params)"
        )
    if group["scope"] == "group" or (group["scope"] == "row" and any(dimensions)):
        raise ValueError(
            f"scope={group['scope']!r} joins entries of {name} that lie on different ranks (FSDP2); "
            "use scope='tensor' (or 'row' with shards along dimension 0)"
        )
    if group.get("gap", "fw") != "fw":
        raise ValueError(
            f"gap={group['gap']!r} needs whole tensors, but {name} is sharded (FSDP2); use gap='fw'"
        )
