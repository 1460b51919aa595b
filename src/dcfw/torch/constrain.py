"""Norm constraints for any optimizer: a hook that moves weights back into their sets after each step."""

from __future__ import annotations

from typing import Any

import torch

from dcfw import _validate
from dcfw.torch.base import MATRICES, ConstrainedOptimizer, check_gradients
from dcfw.torch.groups import Groups, param_groups
from dcfw.torch.regions import Tensor

METHODS = ("project", "cap", "normalize")


class Constraint(ConstrainedOptimizer):
    """The result of :func:`constrain`: groups, hooks on the optimizer, and the count of its steps."""

    def __init__(self, optimizer: Any, groups: Any, every: int, method: str) -> None:
        ignored = {"lr": 0.0, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}
        super().__init__(groups, {"constraint": None, "method": method, **ignored})
        mine = set(_parameters(self))
        if not mine <= set(_parameters(optimizer)):
            raise ValueError("groups must hold parameters of the optimizer only")
        owners = (getattr(hook, "__self__", None) for hook in optimizer._optimizer_step_post_hooks.values())
        if any(isinstance(owner, Constraint) and mine & set(_parameters(owner)) for owner in owners):
            raise ValueError("weights are constrained already: call remove() on the result of constrain")
        self.every, self.steps = every, 0
        before, after = optimizer.register_step_pre_hook, optimizer.register_step_post_hook
        self._handles = [before(self._before), after(self._after)]

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        method = _validate.choice(group["method"], "method", METHODS)
        name = self._domain(group) or group["constraint"]
        if method == "normalize" and name not in (None, "linf", "l2", "l1", *MATRICES):
            raise ValueError(f"constraint={name!r} has no norm to normalise: use method='project'")

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
        """Return the number of steps; the groups come from the program."""
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the step count of a ``state_dict()``, which times the next projection."""
        if not isinstance(state_dict, dict) or "steps" not in state_dict:
            raise ValueError("state_dict must come from the result of constrain(), with 'steps'")
        self.steps = _validate.integer(state_dict["steps"], "steps", low=0)

    def remove(self) -> None:
        """Remove the hooks from the optimizer; the weights do not change."""
        for handle in self._handles:
            handle.remove()

    def __str__(self) -> str:
        return str(Groups({**g, "constraint": self._domain(g) or g["constraint"]} for g in self.param_groups))


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _normalized(problem: Any) -> Tensor:
    x, region = problem.tensors[0], problem.region
    size = region.size(x).unsqueeze(-1)
    parts = x.reshape(len(size), -1)  # one for each block or matrix
    return torch.where(size > 0.0, parts * (region.bound / size.clamp(min=torch.finfo(x.dtype).tiny)), parts)


def constrain(optimizer: Any, groups: Any, every: int = 1, method: str = "project") -> Constraint:
    """Keep the weights of any PyTorch optimizer in norm balls: a hook after each ``every``-th step.

    ``project_()`` of the returned object projects at once (before you evaluate or save, if ``every`` is above
    1), ``remove()`` ends the constraint, ``print`` shows the groups, and ``norms(model, constraint)`` the
    norms.  NaN or Inf in a gradient raises an error before the step, unless the step has a closure.  State,
    schedulers, ``GradScaler`` (a skipped step calls no hook) and accumulation remain those of the optimizer.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    groups : torch.nn.Module or list of dict
        A model, grouped by :func:`~dcfw.torch.param_groups`, or groups with ``params``, ``constraint``,
        ``radius``, further options of sets, and optionally ``method``.
    every : int, default 1
        If above 1, save the returned object's ``state_dict()`` too: it has the count of the steps.
    method : {"project", "cap", "normalize"}
        ``"project"`` projects (``"spectral"`` by eigenvectors).  ``"cap"`` caps singular values by matrix
        products alone, which is fast on GPUs: the result lies inside the ball, within 1 % of the projection
        (matrices above 4 to 12 radii, depending on the spectrum, are scaled down first).
        ``"normalize"`` scales each weight to the radius, from above and below (as in Hyperball).

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
