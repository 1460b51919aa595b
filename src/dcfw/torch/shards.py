"""Parameters sharded by FSDP2.

Elementwise sets work on shards and add up sums over the ranks.  All others need the group option
``gather=True``:  tensors are gathered, and the ranks take turns in computing new weights.
"""

from __future__ import annotations

from typing import Any

import torch.distributed

from dcfw.torch.regions import Tensor


def local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a distributed tensor, and an ordinary tensor unchanged."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def whole(part: Tensor, parameter: Tensor) -> Tensor:
    """Return the whole tensor of which this rank has ``part``, sharded like a parameter."""
    from torch.distributed.tensor import DTensor

    layout = {"shape": parameter.shape, "stride": parameter.stride(), "run_check": False}
    return DTensor.from_local(part, parameter.device_mesh, parameter.placements, **layout).full_tensor()


def _groups(parameter: Tensor) -> list[Any]:
    """Return the process groups over which a parameter is sharded."""
    placements = enumerate(getattr(parameter, "placements", ()))
    return [parameter.device_mesh.get_group(i) for i, placement in placements if placement.is_shard()]


def add_up(parameter: Tensor, sums: Tensor) -> Tensor:
    """Add up sums over all parts of a parameter."""
    for group in _groups(parameter):
        torch.distributed.all_reduce(sums, group=group)
    return sums


def ranks(parameter: Tensor) -> int:
    """Return the number of ranks over which a parameter is sharded."""
    return next((group.size() for group in _groups(parameter)), 1)


def is_mine(parameter: Tensor, number: int) -> bool:
    """Return whether this rank computes the new weights of the parameter with this number."""
    return all(group.rank() == number % group.size() for group in _groups(parameter)[:1])


def scatter(parameter: Tensor, number: int, X: Tensor | None) -> None:
    """Write weights computed by their owner (None elsewhere) to all shards of a gathered parameter."""
    from torch.distributed.tensor import distribute_tensor

    group = _groups(parameter)[0]
    if X is None:
        X = torch.empty(parameter.shape, dtype=parameter.dtype, device=local(parameter).device)
    X = X.view(parameter.shape).to(parameter.dtype).contiguous()
    torch.distributed.broadcast(X, group_src=number % group.size(), group=group)
    part = distribute_tensor(X, parameter.device_mesh, parameter.placements, src_data_rank=None)
    local(parameter).copy_(part.to_local())


def refuse(parameter: Tensor, name: str, group: dict[str, Any], elementwise: bool) -> None:
    """Raise an error if a constraint needs more of a sharded parameter than one rank has."""
    dimensions = [place.dim for place in getattr(parameter, "placements", ()) if place.is_shard()]
    if not dimensions:
        return
    if len(_groups(parameter)) > 1 and group["gather"]:
        raise ValueError(f"gather=True needs one sharded mesh dimension, but {name} has several")
    if not elementwise and not group["gather"]:
        raise ValueError(
            f"constraint={group['constraint']!r} needs whole tensors, but {name} is sharded (FSDP2) along "
            f"dimension {dimensions[0]}; set the group option gather=True (param_groups(..., gather=True)), "
            "use 'linf', 'box' or None for it, or leave it out of fully_shard (ignored_params)"
        )
    if group["scope"] == "row" and any(dimensions) and not group["gather"]:
        remedy = "use scope='tensor', or shards along dimension 0"
        raise ValueError(f"scope='row' joins entries of {name} that lie on different ranks; {remedy}")
