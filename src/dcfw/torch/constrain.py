"""Norm constraints for any optimizer: a hook that takes weights back into their sets after each step."""

from __future__ import annotations

from typing import Any

import torch

from dcfw import _validate
from dcfw.torch.base import ConstrainedOptimizer, check_gradients
from dcfw.torch.groups import Groups, param_groups
from dcfw.torch.regions import Tensor

METHODS = ("project", "cap", "normalize")


class Constraint(ConstrainedOptimizer):
    """The return value of :func:`constrain`: the groups, a hook on the optimizer, the count of its steps."""

    def __init__(self, optimizer: Any, groups: Any, every: int, method: str) -> None:
        ignored = {"lr": 0.0, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}
        super().__init__(groups, {"constraint": None, "method": method, **ignored})
        mine = set(_parameters(self))
        if not mine <= set(_parameters(optimizer)):
            raise ValueError("groups must hold parameters of the optimizer only")
        owners = (getattr(hook, "__self__", None) for hook in optimizer._optimizer_step_post_hooks.values())
        if any(isinstance(owner, Constraint) and mine & set(_parameters(owner)) for owner in owners):
            raise ValueError("weights are constrained already: call remove() of what constrain returned")
        self.every, self.steps = every, 0
        before, after = optimizer.register_step_pre_hook, optimizer.register_step_post_hook
        self._handles = [before(self._before), after(self._after)]

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        method = _validate.choice(group["method"], "method", METHODS)
        if method == "normalize" and group["constraint"] in ("box", "simplex"):
            raise ValueError(f"constraint={group['constraint']!r} has no norm to normalise")

    def _before(self, optimizer: Any, args: Any, options: dict[str, Any]) -> None:
        """Refuse NaN and Inf, unless a closure or a scaler that skips the step inside it comes first."""
        if any(args[1:]) or options.get("closure") or getattr(optimizer, "found_inf", None) is not None:
            return
        given = (p for p in _parameters(optimizer) if p.grad is not None and p.numel())
        dense = [p for p in given if p.grad.layout is torch.strided]
        check_gradients(dense, [*self.param_groups, *optimizer.param_groups], type(optimizer).__name__)

    def _after(self, *_: Any) -> None:
        self.steps += 1
        if self.steps % self.every == 0:
            self.project_()

    def _project(self, group: dict[str, Any], params: list[Tensor], how: str = "enter") -> None:
        params = [p for p in params if p.requires_grad]
        if group["method"] == "normalize" and group["constraint"] is not None:
            return self._each(self._problems(group, params), _normalized)
        super()._project(group, params, "cap" if group["method"] == "cap" else how)

    def state_dict(self) -> dict[str, Any]:
        """Return how many steps have been counted; the groups come from the program."""
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the count of a ``state_dict()``: the next projection comes when it would have."""
        if not isinstance(state_dict, dict) or "steps" not in state_dict:
            raise ValueError("state_dict must be one of what constrain() returns, with 'steps'")
        self.steps = _validate.integer(state_dict["steps"], "steps", low=0)

    def remove(self) -> None:
        """Take the hooks off the optimizer; the weights stay as they are."""
        for handle in self._handles:
            handle.remove()

    def __str__(self) -> str:
        return str(Groups({**g, "constraint": self._domain(g) or g["constraint"]} for g in self.param_groups))


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _normalized(problem: Any) -> Tensor:
    x, region = problem.tensors[0], problem.region
    size = torch.stack([region.size(row) for row in x.unsqueeze(1)]).unsqueeze(-1)
    return torch.where(size > 0.0, x * (region.bound / size.clamp(min=torch.finfo(x.dtype).tiny)), x)


def constrain(optimizer: Any, groups: Any, every: int = 1, method: str = "project") -> Constraint:
    """Keep the weights of any PyTorch optimizer in norm balls: a hook after each ``every``-th step.

    ``project_()`` of the returned object does it at once (before you evaluate or save, if ``every`` is above
    1), ``remove()`` ends it, ``print`` shows its groups, ``norms(model, constraint)`` the norms.  State,
    schedulers, ``GradScaler`` (a skipped step calls no hook) and accumulation are those of the optimizer.
    NaN or Inf in a gradient raises an error before the step, unless that has a closure.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    groups : torch.nn.Module or list of dict
        A model, grouped by :func:`~dcfw.torch.param_groups`, or groups with ``params``, ``constraint``,
        ``radius`` and further options of sets, perhaps a ``method`` of their own.
    every : int, default 1
        With more than 1, save ``state_dict()`` of the returned object, too: it has the count of the steps.
    method : {"project", "cap", "normalize"}
        The projection (for ``"spectral"`` by eigenvectors); singular values capped by matrix products alone,
        within 1 % of the projection and inside the ball, which GPUs like; or the weight scaled so that its
        norm is the radius, from above and below (as in Hyperball).

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    >>> constraint = constrain(optimizer, [{"params": [model.weight], "constraint": "linf", "radius": 0.1}])
    >>> model(torch.ones(3, 4)).square().mean().backward()
    >>> optimizer.step()
    >>> bool(model.weight.abs().max() <= 0.1)
    True
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if isinstance(groups, torch.nn.Module):
        groups = param_groups(groups)
    groups = _validate.listed(groups, "groups")
    if not all(isinstance(group, dict) and "params" in group for group in groups):
        raise TypeError("groups must be a model, or dictionaries with 'params' and 'constraint'")
    every = _validate.integer(every, "every", low=1)
    return Constraint(optimizer, groups, every, _validate.choice(method, "method", METHODS))
