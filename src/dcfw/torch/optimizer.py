"""DCFW: the exact step is that of SGD and a projection, the other :func:`dcfw.torch.inner.sliding_step`."""

from __future__ import annotations

import math
from typing import Any

import torch

from dcfw import _validate
from dcfw.torch import shards
from dcfw.torch.base import ELEMENTWISE, ConstrainedOptimizer, Problem
from dcfw.torch.inner import sliding_step
from dcfw.torch.matrices import MatrixBall
from dcfw.torch.regions import UNBOUNDED, Tensor, asking_is_free

GAPS = ("fw_gap", "dc_gap_low", "dc_gap_high", "pgm_gap", "inner_steps", "blocks")


class DCFW(ConstrainedOptimizer):
    """Stochastic DC-FW: minimise a loss over constrained weights.

    A step solves, exactly or by Frank-Wolfe steps, min_X <g, X> + L/2 ||X - x_t||^2 over the set, L = 1/lr,
    whose solution is the projection of x_t - g/L.  While the constraint is inactive the exact step is that of
    SGD, bit for bit.  That geometry does not suit transformers; for these start with
    :class:`~dcfw.torch.Scion`.

    Parameters
    ----------
    params : iterable
        Parameters, named parameters, or groups (:func:`dcfw.torch.param_groups`).  Groups may also set
        ``stack`` (:mod:`dcfw.torch.matrices`) and ``gather`` (:mod:`dcfw.torch.shards`).
    lr : float, default 0.1
        1/L.
    constraint : {"linf", "box", "l2", "l1", "simplex", "spectral", "nuclear"}, None or object
        The set; None is the whole space.  An object has ``lmo(G)`` (a point that minimises <G, s>) and
        optionally ``project(x)``, for tensors of the parameter's shape, as the sets of :mod:`dcfw.sets` do.
    radius : float or (lower, upper), default 1.0
        The size of the set, or the two bounds of ``"box"``.
    radius_mode : {"absolute", "scion", "transposed"}
        Multiply the radius by 1, or by 1/d_in for sign constraints and sqrt(d_out/d_in) for others; kernels
        that are ``"transposed"`` have d_in rows.
    scope : {"tensor", "row"}
        Whether each tensor or each row (output unit) has its own set and step size.
    momentum, nesterov, weight_decay
        As in ``torch.optim.SGD``.
    solver : {"auto", "exact", "fw"}
        ``"exact"`` is the closed form, ``"fw"`` Algorithm 1 with exact line search; ``"auto"`` is exact where
        a closed form exists.
    inner_steps : int, default 20
        The maximum number K of Frank-Wolfe steps; in a large set it leads from sign steps to projected SGD.
    inner_tol : float, default 0.1
        A block stops when its FW gap is at most this fraction of its first one in the step.
    track_gap : bool, default False
        Record the values that :meth:`last_step` returns.

    Notes
    -----
    The first step projects a start outside the set (``project_()`` does so at once).  Later steps project
    weights that were overwritten, or whose radius changed; weights loaded together with an optimizer state
    are taken as inside.  If an object has no ``project``, Frank-Wolfe steps find a nearby point of the set.
    Parameters without a gradient do not move, nor do coordinates whose gradient is zero on elementwise sets.

    Examples
    --------
    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([0.5, -0.5]))
    >>> optimizer = DCFW([x], lr=0.5, radius=1.0)
    >>> (x * torch.tensor([3.0, 1.0])).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([-1., -1.])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 0.1,
        *,
        constraint: Any = "linf",
        radius: float | tuple[float, float] = 1.0,
        radius_mode: str = "absolute",
        scope: str = "tensor",
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        solver: str = "auto",
        inner_steps: int = 20,
        inner_tol: float = 0.1,
        track_gap: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "constraint": constraint, "radius": radius, "radius_mode": radius_mode,
            "scope": scope, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay,
            "solver": solver, "inner_steps": inner_steps, "inner_tol": inner_tol, "track_gap": track_gap,
        }  # fmt: skip
        super().__init__(params, defaults)

    def last_step(self) -> dict[str, float]:
        """Return the gaps of the last step, summed over all blocks that moved, and the mean of inner steps.

        The gaps are those of the surrogates: ``fw_gap`` at x_t, bounds ``dc_gap_low`` and ``dc_gap_high`` of
        gap_DC(x_t), and ``pgm_gap`` = L/2 ||x_t - proj(z)||^2 (NaN without a closed form).
        """
        tracked = (p for group in self.param_groups if group["track_gap"] for p in group["params"])
        found = [self.state[p]["gaps"].cpu().double() for p in tracked if "gaps" in self.state.get(p, {})]
        if not found:
            remedy = "construct DCFW with track_gap=True and take a step with gradients"
            raise RuntimeError(f"no gap has been recorded: {remedy}")
        sums = dict(zip(GAPS, torch.stack(found).sum(dim=0).tolist(), strict=True))
        sums["inner_steps"] /= sums.pop("blocks")
        return sums

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        solver = _validate.choice(group["solver"], "solver", ("auto", "exact", "fw"))
        _validate.integer(group["inner_steps"], "inner_steps", low=1)
        _validate.scalar(group["inner_tol"], "inner_tol", low=0.0, high=1.0, open_high=True)
        _validate.flag(group["track_gap"], "track_gap")
        if group["gather"] and group["track_gap"]:
            raise ValueError("track_gap=True is not available with gather=True: the gaps stay with one rank")
        if solver == "fw" and group["constraint"] is None:
            raise ValueError("solver='fw' needs a bounded set; with constraint=None use 'exact' (it is SGD)")
        if solver == "exact" and not self._has_closed_form(group):
            reason = "has no closed-form step (it has no project method); use solver='fw' or 'auto'"
            raise ValueError(f"constraint={group['constraint']!r} {reason}")

    def _has_closed_form(self, group: dict[str, Any]) -> bool:
        return hasattr(self._domain(group) or UNBOUNDED, "project")

    def _begin(self, group: dict[str, Any]) -> None:
        for p in group["params"] if group["track_gap"] else ():  # remove the records of the previous step
            if p in self.state:
                self.state[p].pop("gaps", None)

    def _move(self, group: dict[str, Any], params: list[Tensor]) -> None:
        slopes = self._directions(group, params)
        if group["solver"] == "fw" or not self._has_closed_form(group):
            problems = self._problems(group, params, slopes)
            return self._each(problems, lambda problem: self._frank_wolfe(group, problem))
        if group["track_gap"]:
            for problem in self._problems(group, params, slopes):
                gaps = self._gaps_of_exact(group, problem)
                self._record(problem, gaps, torch.zeros_like(gaps[0]))
        weights, lr = [shards.local(p) for p in params], group["lr"]
        if isinstance(lr, torch.Tensor):  # reading it as a number would synchronise with the device
            torch._foreach_sub_(weights, torch._foreach_mul(slopes, lr))
        elif weights[0].is_cpu and group["constraint"] in ELEMENTWISE:
            for p, weight, slope in zip(params, weights, slopes, strict=True):
                weight.add_(slope, alpha=-lr)
                self._project(group, [p])  # while the tensor is still in the cache
            return
        else:
            torch._foreach_add_(weights, slopes, alpha=-lr)
        self._project(group, params)

    def _directions(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:  # those of SGD
        grads = [shards.local(p.grad) for p in params]
        if group["weight_decay"]:
            weights = [shards.local(p) for p in params]
            grads = list(torch._foreach_add(grads, weights, alpha=group["weight_decay"]))
        if not group["momentum"]:
            return grads
        buffers = self._buffers(params, "momentum_buffer")
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, grads)
        ahead = group["nesterov"]
        return list(torch._foreach_add(grads, buffers, alpha=group["momentum"])) if ahead else buffers

    def _frank_wolfe(self, group: dict[str, Any], problem: Problem) -> Tensor:
        x, g = self._enter(problem), problem.tensors[1]
        options: dict[str, Any] = {"steps": group["inner_steps"], "tol": group["inner_tol"]}
        options |= {"total": lambda sums: problem.total(sums, group["scope"]), "sync": asking_is_free(x)}
        found = sliding_step(x, g, group["lr"], problem.region, **options)
        if group["track_gap"]:
            known = self._has_closed_form(group)
            pgm = self._gaps_of_exact(group, problem)[3] if known else x.new_full((), math.nan)
            fw, low, high = (row.sum() for row in (found.fw_gap, found.dc_gap_low, found.dc_gap_high))
            if isinstance(problem.region, MatrixBall):  # whose vertices are inexact
                left = problem.region.gap(found.x - x + g * group["lr"], found.x) / group["lr"]
                fw = problem.region.gap(g, x)
                high = torch.minimum(fw, low + left)
            self._record(problem, torch.stack((fw, low, high, pgm)), found.inner_steps.sum())
        return found.x

    def _gaps_of_exact(self, group: dict[str, Any], problem: Problem) -> Tensor:
        """Return the FW gap at x, gap_DC (as both bounds: it is known exactly) and gap_PGM."""
        x, g = problem.tensors
        D = x - problem.region.project(x - group["lr"] * g)
        unbounded = problem.region == UNBOUNDED
        fw = torch.full_like(x[0, 0], math.inf) if unbounded else problem.region.gap(g, x)
        fw, linear, square = problem.total(torch.stack((fw, (g * D).sum(), (D * D).sum()))).unbind()
        pgm = 0.5 * square / group["lr"]
        return torch.stack((fw, linear - pgm, linear - pgm, pgm))

    def _record(self, problem: Problem, gaps: Tensor, inner_steps: Tensor) -> None:
        blocks = torch.full_like(inner_steps, problem.tensors[0].shape[0])
        self.state[problem.parameter]["gaps"] = torch.stack((*gaps, inner_steps, blocks))
