"""Validation of saved optimizer states before they are restored.

Options come from the program.  A state contributes checked numbers that schedulers change, and buffers of
known names and shapes, copied into new memory.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from dcfw import _validate
from dcfw.torch import shards

SCHEDULED = ("lr", "momentum", "weight_decay")
SCHEDULERS_OWN = ("initial_lr", "max_lr", "min_lr", "swa_lr", "base_momentum", "max_momentum")
PLAIN = (bool, int, float, str, type(None))
GAPS = 6  # the number of values that ``track_gap=True`` records


def check(optimizer: Any, saved: Any) -> tuple[list[dict[str, Any]], dict[Any, dict[str, Any]]]:
    """Return the groups to load and the state by parameter: the program's options and checked values."""
    kind = type(optimizer).__name__
    ours = optimizer.param_groups
    if not isinstance(saved, dict) or not all(key in saved for key in ("state", "param_groups")):
        raise ValueError(f"state_dict must be one of {kind}, with 'state' and 'param_groups'")
    theirs, states = saved["param_groups"], saved["state"]
    lists = isinstance(theirs, list) and all(isinstance(group, dict) for group in theirs)
    if not lists or not isinstance(states, dict):
        raise ValueError("a state_dict must have a list of dictionaries and a dictionary 'state'")
    _check_length("state_dict", "groups", theirs, ours)
    groups = [_group(optimizer, kind, own, group) for own, group in zip(ours, theirs, strict=True)]
    numbers = [number for group in groups for number in group["params"]]
    params = [p for group in ours for p in group["params"]]
    if len(set(numbers)) != len(numbers) or not states.keys() <= set(numbers):
        raise ValueError("state_dict has state for parameters that its groups do not list")
    named = zip(numbers, params, strict=True)
    return groups, {p: _entries(states[n], p, f"state of parameter {n}") for n, p in named if n in states}


def _group(optimizer: Any, kind: str, own: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    missing = sorted((optimizer.defaults.keys() | {"params"}) - {"differentiable"} - saved.keys())
    if missing:
        lacks = f"its groups have no {', '.join(missing[:3])}"
        remedy = "load the weights of the model, and start with a new optimizer"
        raise ValueError(f"state_dict must be one of {kind}, but {lacks}: {remedy}")
    numbers = saved["params"]
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError("params of a saved group must be a list of numbers")
    _check_length("a saved group", "parameters", numbers, own["params"])
    changed = {key: _number(saved[key], own.get(key), key) for key in SCHEDULED if key in own}
    changed |= {key: _number(saved[key], None, key) for key in SCHEDULERS_OWN if key in saved}
    group = {**own, **changed}
    optimizer._check(dict(group))
    kept = [key for key in optimizer.defaults if key not in SCHEDULED and key in own]
    other = [key for key in kept if not _same(own[key], saved[key])]
    if other:
        text = f"the options {', '.join(other)} of the saved {kind} are not those of this one, which are kept"
        warnings.warn(text, UserWarning, stacklevel=4)
    return {**group, "params": numbers}


def _check_length(what: str, of: str, saved: list[Any], own: list[Any]) -> None:
    if len(saved) != len(own):
        counts = f"{what} has {len(saved)} {of}, the optimizer {len(own)}"
        raise ValueError(f"{counts}: construct it with the same groups")


def _number(value: Any, like: Any, name: str) -> Any:
    """Return a saved number, as a tensor if the program has one."""
    if isinstance(value, torch.Tensor) and value.ndim == 0 and value.is_floating_point():
        value = float(value)
    value = _validate.scalar(value, name)
    return torch.full_like(like, value) if isinstance(like, torch.Tensor) else value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return isinstance(a, PLAIN) and isinstance(b, PLAIN) and a == b


def _entries(saved: Any, p: Any, where: str) -> dict[str, Any]:
    """Return the checked state of one parameter in new memory."""
    if not isinstance(saved, dict):
        raise ValueError(f"the {where} must be a dictionary")
    found: dict[str, Any] = {}
    for name, value in saved.items():
        here = f"{name!r} in the {where}"
        if name == "inside":
            found[name] = _validate.flag(value, here)
        elif name == "momentum_buffer":
            value = _tensor(value, tuple(p.shape), here)
            if hasattr(p, "to_local") != hasattr(value, "to_local"):
                raise ValueError(f"{here} must be distributed if and only if its parameter is")
            found[name] = torch.zeros_like(p.detach(), memory_format=torch.preserve_format).copy_(value)
            seen = shards.local(found[name])
            if not seen.is_meta and not bool(seen.isfinite().all()):
                raise ValueError(f"{here} must be finite")
        elif name == "gaps":
            found[name] = _tensor(value, (GAPS,), here).to(device=p.device, copy=True)
        else:
            raise ValueError(f"the {where} has an unknown entry {str(name)[:40]!r}")
    return found


def _tensor(value: Any, shape: tuple[int, ...], where: str) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.layout != torch.strided:
        raise ValueError(f"{where} must be a dense tensor of floating-point numbers")
    if tuple(value.shape) != shape:
        raise ValueError(f"{where} must have shape {shape}, got {tuple(value.shape)[:8]}")
    return value.detach()
