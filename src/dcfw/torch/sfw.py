"""SFW: stochastic Frank-Wolfe, the rival that needs no surrogate.

The direction is s = lmo(m) with m the (averaged) gradient, and x <- x + eta (s - x).  What eta is decides
everything, because ||s - x|| grows with the set:

``"gradient"``   lr ||m|| / ||s - x||, at most 1: the length of an SGD step (Pokutta, Spiegel, Zimmer 2020)
``"diameter"``   lr / diameter
``None``         lr
``"open-loop"``  2/(t+1): the baseline of the DC-FW paper, which slows down as the set grows
"""

from __future__ import annotations

from typing import Any

import torch

from dcfw import _validate
from dcfw.torch import directions, shards
from dcfw.torch.base import CONSTRAINT_DEFAULTS, ConstrainedOptimizer, Problem
from dcfw.torch.regions import Interval, Tensor

RESCALES = ("gradient", "diameter", "open-loop")


class SFW(ConstrainedOptimizer):
    """Stochastic Frank-Wolfe: step towards the vertex opposite to the averaged gradient.

    Parameters
    ----------
    params : iterable
        Parameters, named parameters, or groups.
    lr : float, default 0.1
        The learning rate; ``"open-loop"`` does not use it.
    constraint, radius, radius_mode, k, scope
        As in :class:`~dcfw.torch.DCFW`; there must be a constraint.
    momentum : float, default 0.0
        m <- momentum m + (1 - momentum) g.
    rescale : {"gradient", "diameter", None, "open-loop"}
        How the step size comes from ``lr``, see the text of the module.
    weight_decay, maximize
        As in ``torch.optim.SGD``.

    Notes
    -----
    A start outside the set is moved into it in the first step, and parameters without a gradient are treated,
    as in :class:`~dcfw.torch.DCFW`.  On sets that treat entries one by one, those whose gradient is zero keep
    their values.

    Examples
    --------
    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([0.5, -0.5]))
    >>> optimizer = SFW([x], lr=0.5, radius=1.0, rescale=None)
    >>> (x * torch.tensor([3.0, 1.0])).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([-0.2500, -0.7500])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 0.1,
        *,
        constraint: Any = CONSTRAINT_DEFAULTS["constraint"],
        radius: float | tuple[float, float] = 1.0,
        radius_mode: str = "absolute",
        k: int | None = None,
        scope: str = "tensor",
        momentum: float = 0.0,
        rescale: str | None = "gradient",
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "constraint": constraint,
            "radius": radius,
            "radius_mode": radius_mode,
            "k": k,
            "scope": scope,
            "momentum": momentum,
            "rescale": rescale,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["rescale"] is not None:
            _validate.choice(group["rescale"], "rescale", RESCALES)
        if group["constraint"] is None:
            raise ValueError("SFW needs a bounded set: constraint must not be None")
        if group["rescale"] is None and not isinstance(group["lr"], torch.Tensor) and group["lr"] > 1.0:
            raise ValueError(
                f"lr is the step size with rescale=None and must be at most 1, got {group['lr']:g}"
            )

    def _move(self, group: dict[str, Any], params: list[Tensor]) -> None:
        weights = [shards.local(p) for p in params]
        slopes = self._gradients(group, weights, [shards.local(p.grad) for p in params])
        if group["momentum"]:
            buffers = self._buffers(params, "momentum_buffer")
            torch._foreach_lerp_(buffers, slopes, 1.0 - group["momentum"])
            slopes = buffers
        params, weights, slopes, _ = directions.complete(self, group, params, weights, slopes, None)
        for problem in self._problems(group, params, weights, slopes):
            self._towards_vertex(group, problem)

    def _towards_vertex(self, group: dict[str, Any], problem: Problem) -> None:
        x, m = self._enter(problem), problem.tensors[1]
        region = problem.region
        t = self._count(problem.parameter)
        E = region.away(m, x)
        if isinstance(region, Interval):
            E = E.masked_fill_(m == 0.0, 0.0)  # any S_i does where the gradient is zero: take X_i
        rescale, lr = group["rescale"], group["lr"]
        if rescale == "gradient":
            squares = torch.stack([torch.linalg.vector_norm(v, dim=-1, keepdim=True) ** 2 for v in (m, E)])
            total = shards.total_over(problem.parameter) if group["scope"] != "row" else None
            slope, length = (squares if total is None else total(squares)).sqrt().unbind()
            eta = torch.where(length == 0.0, 0.0, lr * slope / length).clamp(max=1.0)
        elif rescale == "open-loop":
            eta = 2.0 / (t + 1.0)
        elif rescale == "diameter":
            shape = tuple(problem.parameter.shape) if group["scope"] == "tensor" else (x.shape[-1],)
            eta = torch.as_tensor(lr / region.diameter(shape), device=x.device).clamp(max=1.0)
        else:  # a scheduler may have made it larger than 1
            eta = lr.clamp(max=1.0) if isinstance(lr, torch.Tensor) else min(lr, 1.0)
        self._leave(problem, region.settle(x - E * eta))
