"""SFW: steps x <- x + eta (s - x) towards the oracle's vertex s; Scion: its preset for networks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from dcfw import _validate
from dcfw.torch import groups, shards
from dcfw.torch.base import ConstrainedOptimizer, Problem
from dcfw.torch.matrices import Spectral, polar_inside
from dcfw.torch.regions import Tensor

SMALL = 2**17  # entries up to which a CPU multiplies matrices in batches


class SFW(ConstrainedOptimizer):
    """Stochastic Frank-Wolfe: step towards the vertex opposite to the averaged gradient.

    Starts outside the set and parameters without a gradient are treated as in :class:`~dcfw.torch.DCFW`, and
    elementwise sets keep entries whose gradient is zero.  A step that is captured in a CUDA graph or compiled
    does not synchronise with the device.

    Parameters
    ----------
    params : iterable
        Parameters, named parameters, or groups (:func:`dcfw.torch.param_groups`).
    lr : float, default 0.01
        The learning rate; with ``rescale=None`` the fraction of the way to the vertex.
    constraint, radius, radius_mode, scope
        As in :class:`~dcfw.torch.DCFW`.  Parameters without a constraint take steps of root mean square lr
        radius along their averaged gradient, as biases and gains do in Scion.
    momentum : float, default 0.0
        m <- momentum m + (1 - momentum) g.
    nesterov : bool, default False
        Call the oracle with momentum m + (1 - momentum) g instead of m.
    rescale : {None, "gradient"}
        ``"gradient"`` takes eta = lr ||m|| / ||s - x||, at most 1: steps as long as those of SGD, independent
        of the size of the set (Pokutta, Spiegel, Zimmer 2020).
    weight_decay : float, default 0.0
        Decoupled: x <- (1 - lr weight_decay) x before the step.  Needs a set that contains zero.
    unconstrained : bool, default False
        Take steps x <- x + lr s: the set defines the geometry of the step but does not bound the weights.
    foreach : bool, optional
        Multiply matrices of equal shapes in batches; by default on accelerators, and small ones on a CPU.

    Examples
    --------
    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([0.5, -0.5]))
    >>> optimizer = SFW([x], lr=0.5, radius=1.0)
    >>> (x * torch.tensor([3.0, 1.0])).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([-0.2500, -0.7500])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 0.01,
        *,
        constraint: Any = "linf",
        radius: float | tuple[float, float] = 1.0,
        radius_mode: str = "absolute",
        scope: str = "tensor",
        momentum: float = 0.0,
        nesterov: bool = False,
        rescale: str | None = None,
        weight_decay: float = 0.0,
        unconstrained: bool = False,
        foreach: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr, "constraint": constraint, "radius": radius, "radius_mode": radius_mode,
            "scope": scope, "momentum": momentum, "nesterov": nesterov, "rescale": rescale,
            "weight_decay": weight_decay, "unconstrained": unconstrained, "foreach": foreach,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["rescale"] is not None:
            _validate.choice(group["rescale"], "rescale", ("gradient",))
        _validate.flag(group["unconstrained"], "unconstrained")
        _validate.optional_flag(group["foreach"], "foreach")
        if group["unconstrained"] and group["rescale"] is not None:
            raise ValueError("unconstrained=True takes steps lr s: use rescale=None")
        lr, name = group["lr"], group["constraint"]
        is_size = group["rescale"] is None and not group["unconstrained"] and name is not None
        if is_size and not getattr(lr, "is_meta", False) and lr > 1.0:
            raise ValueError(
                f"lr is the step size with rescale=None and must be at most 1, got {float(lr):g}"
            )
        if group["weight_decay"] and name is not None and not group["unconstrained"]:
            self._check_decay(group)

    def _check_decay(self, group: dict[str, Any]) -> None:
        if not getattr(group["lr"], "is_meta", False) and group["lr"] * group["weight_decay"] > 1.0:
            raise ValueError("weight_decay must be at most 1 / lr: beyond that, weights may leave the set")
        for p in (p for p in group["params"] if p.numel() and not p.is_meta):
            zero = torch.zeros((1, p.numel()), device=shards.local(p).device)
            if float(self._region(group, tuple(p.shape)).enter(zero).abs().max()) > 1e-6:
                name = self._domain(group) or group["constraint"]
                raise ValueError(f"weight_decay leads to zero, which is not in constraint={name!r}")

    def _move(self, group: dict[str, Any], params: list[Tensor]) -> None:
        slopes = [shards.local(p.grad) for p in params]
        if group["momentum"]:
            buffers = self._buffers(params, "momentum_buffer")
            torch._foreach_lerp_(buffers, slopes, 1.0 - group["momentum"])
            ahead = group["nesterov"]
            slopes = list(torch._foreach_lerp(slopes, buffers, group["momentum"])) if ahead else buffers
        if group["constraint"] is None:
            # Scion's norm for biases and gains: the l2 ball whose radius is that of a root mean square.
            group = {**group, "constraint": "l2", "radius_mode": "scion", "scope": "tensor"}
            group |= {"unconstrained": True, "rescale": None}
        problems = self._problems(group, params, slopes)
        if group["gather"]:
            return self._each(problems, functools.partial(self._towards_vertex, group))
        for batch in self._batches(group, problems):
            vertices = None
            if len(batch) > 1:
                region: Any = batch[0].region
                stacked = torch.cat([region.matrices(problem.tensors[1]) for problem in batch])
                vertices = iter((polar_inside(stacked) * -region.radius).split(region.stack))
            self._each(batch, functools.partial(self._towards_vertex, group, vertices=vertices))

    def _batches(self, group: dict[str, Any], problems: Iterator[Problem]) -> Iterator[list[Problem]]:
        waiting: dict[Any, list[Problem]] = {}
        for problem in problems:
            x, foreach = problem.tensors[0], group["foreach"]
            if foreach is None:
                foreach = not x.is_cpu or x.numel() <= SMALL
            if foreach and isinstance(problem.region, Spectral):
                waiting.setdefault((problem.region, x.dtype, x.device), []).append(problem)
            else:
                yield [problem]
        yield from waiting.values()

    def _towards_vertex(self, group: dict[str, Any], problem: Problem, vertices: Any = None) -> Tensor:
        x, m, region = problem.tensors[0], problem.tensors[1], problem.region
        if not group["unconstrained"]:
            x = self._enter(problem)
        S = None if vertices is None else next(vertices).reshape(m.shape)
        lr = group["lr"]
        if group["weight_decay"]:
            left = 1.0 - lr * group["weight_decay"]  # a scheduler may exceed 1
            x = x * (left.clamp(min=0.0) if isinstance(left, torch.Tensor) else max(left, 0.0))
        if group["unconstrained"]:
            return x + (region.vertex(m) if S is None else S) * lr
        E = region.away(m, x) if S is None else x - S
        if group["rescale"] == "gradient":
            squares = torch.stack([torch.linalg.vector_norm(v, dim=-1, keepdim=True) ** 2 for v in (m, E)])
            slope, length = problem.total(squares, group["scope"]).sqrt().unbind()
            eta: Any = torch.where(length == 0.0, 0.0, lr * slope / length).clamp(0.0, 1.0)
        else:  # a scheduler may leave [0, 1]
            eta = lr.clamp(0.0, 1.0) if isinstance(lr, torch.Tensor) else min(max(lr, 0.0), 1.0)
        return region.settle(x - E * eta)


class Scion(SFW):
    """Scion (Pethick et al. 2025): SFW with a norm ball for each layer role, in which all iterates stay.

    Parameters
    ----------
    params : torch.nn.Module or iterable
        A model, whose parameters are grouped by :func:`~dcfw.torch.param_groups`, or groups.
    lr : float, default 0.01
        The fraction of the way to the vertex.  It transfers across widths; anneal it to zero.
    momentum, nesterov
        As in :class:`SFW`, with Muon's defaults 0.95 and True.  The published recursion has
        ``nesterov=False`` and 0.9, its momentum being 1 - momentum here.  For a few hundred steps try 0.8 and
        twice the radii.
    weight_decay, unconstrained
        As in :class:`SFW`.
    radius : float, default 1.0
        Multiplies the radii of all constrained groups.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    >>> optimizer = Scion(model, lr=0.01)
    >>> [(group["role"], group["constraint"]) for group in optimizer.param_groups]
    [('hidden', 'spectral'), ('vector', None), ('head', 'linf')]
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 0.01,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        unconstrained: bool = False,
        radius: float = 1.0,
    ) -> None:
        radius = _validate.scalar(radius, "radius", low=0.0, open_low=True)
        if isinstance(params, torch.nn.Module):
            params = groups.param_groups(params)
            for group in params:
                if group["constraint"] is not None:
                    group["radius"] *= radius
        else:
            params = _validate.listed(params, "params")
            if not all(isinstance(group, dict) and "constraint" in group for group in params):
                accepted = "a model, as in Scion(model), or groups, as in Scion(param_groups(model))"
                raise TypeError(f"params must be {accepted}, with a constraint each")
            if radius != 1.0:
                raise ValueError("radius scales the groups of a model; given groups have their own radii")
        ahead = nesterov if _validate.scalar(momentum, "momentum") else False
        more: dict[str, Any] = {"weight_decay": weight_decay, "unconstrained": unconstrained}
        super().__init__(params, lr, constraint=None, momentum=momentum, nesterov=ahead, **more)
