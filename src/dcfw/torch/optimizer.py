"""DCFW, the optimizer: stochastic DC-FW with the sliding decomposition.

The mathematics is elsewhere: :func:`dcfw.torch.inner.sliding_step` for Frank-Wolfe steps, ``project`` of a
:class:`~dcfw.torch.regions.Region` for the closed form.  This file prepares a direction (as SGD does),
chooses between the two, and writes the weights back.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from dcfw import _validate
from dcfw.torch import directions, shards
from dcfw.torch.base import CONSTRAINT_DEFAULTS, ELEMENTWISE, ConstrainedOptimizer, Problem
from dcfw.torch.exact import OneByOne, descend_together
from dcfw.torch.inner import Step, frank_wolfe_steps
from dcfw.torch.regions import UNBOUNDED, Tensor

GAPS = ("fw_gap", "dc_gap_low", "dc_gap_high", "pgm_gap", "inner_steps", "blocks")

UNROLLED = 100
"""Up to so many inner steps an accelerator is never asked whether they could end early."""

ASK_EVERY = 16


class DCFW(ConstrainedOptimizer):
    """Stochastic DC-FW: minimise a loss over constrained weights.

    A step solves, exactly or by Frank-Wolfe steps, min_X <g, X> + L/2 ||X - x_t||^2 over the set, whose
    solution is the projection of x_t - g/L.  While the constraint is not active the exact step is that of
    SGD with ``lr`` = 1/L, bit for bit: that results hardly depend on the radius, once it is large, is close
    to automatic.

    Parameters
    ----------
    params : iterable
        Parameters, named parameters, or groups (:func:`dcfw.torch.param_groups`).
    lr : float, default 0.1
        1/L.  It is stored once, so that every scheduler works.
    L : float, optional
        The constant itself, in place of ``lr``.
    constraint : {"linf", "box", "l2", "l1", "simplex", "k-sparse", "spectral", "nuclear"}, None or object
        The set; None is all of space.  An object has ``lmo(G)`` (a point that minimises <G, s>) and maybe
        ``project(x)``, for tensors of the parameter's shape: the sets of :mod:`dcfw.sets` do.
    radius : float or (lower, upper), default 1.0
        The size of the set, the two bounds for ``"box"``.
    radius_mode : {"absolute", "init", "scion"}
        What the radius is multiplied by: 1; the norm that the usual initialisation of such a weight has; or
        1/d_in for sign constraints and sqrt(d_out/d_in) for others.  See :mod:`dcfw.torch.radius`.
    k : int, optional
        The number of nonzeros of a vertex, for ``"k-sparse"``.
    momentum, nesterov, weight_decay, maximize
        As in ``torch.optim.SGD``.
    solver : {"auto", "exact", "fw"}
        ``"exact"`` is the closed form; ``"fw"`` is Algorithm 1 with exact line search; ``"auto"`` is exact
        wherever there is a closed form.
    inner_steps : int, default 20
        The number K of Frank-Wolfe steps at most.  When the radius is large it is a dial between a sign step
        (K = 1) and projected SGD.
    inner_tol : float, default 0.1
        A block stops when its FW gap is at most this fraction of its first one in the step.
    inner_rule : {"relative", "paper"}
        ``"paper"`` is the only-decreasing tolerance of the paper: 0.9 times the first gap, lowered to 0.9
        times the gap whenever that is below it; the inner loop ends at half of it (``inner_tol`` is not
        used).  Under gradient noise the least gap so far decides, and the inner counts grow without end.
    inner_step : {"exact"}
        Open-loop steps are refused: the first of them throws x_t away.
    scope : {"tensor", "group", "row"}
        What a block is: a set and a step size of its own for each tensor, one for all tensors of the group
        together (frozen ones apart), or one for each row (output unit).
    metric : {None, "adagrad", "adam"}
        ||X - x_t||_H with H the root of the summed (averaged) squares of the gradients.  Exact on ``"linf"``,
        ``"box"`` and None; other sets take Frank-Wolfe steps.
    metric_decay, eps : float
        The decay of Adam's average, and what is added to the root.
    gap : {"fw", "norm-product"}
        What is compared with the tolerance and gives the step: the FW gap <G, X - S>, or
        ||G||_1 ||X - S||_inf as in the authors' code (induced norms for matrices); for vectors it is the
        larger.
    foreach : bool, optional
        Whether to treat all tensors of a group in one call where that can be; on accelerators by default.
    sync : int, optional
        Ask every so many inner steps whether all blocks have met their tolerance.  0 never does, and is the
        default on accelerators up to 100 inner steps; 1 is the default on a CPU, where it costs nothing.
    track_gap : bool, default False
        Keep what :meth:`last_step` reports.

    Notes
    -----
    A start outside the set is projected in the first step (exactly so, or before the first Frank-Wolfe step);
    :meth:`~dcfw.torch.base.ConstrainedOptimizer.project_` does it at once.  So are weights that have been
    overwritten since the last step, or whose radius has changed; but writing to ``weight.data`` leaves no
    trace, and weights that are loaded together with a state of the optimizer are taken as inside: call
    ``project_`` if they are not.  Where an object has no ``project``, they are moved to a point of the set
    near them, which Frank-Wolfe steps find.  Whether they are outside, ``contains(x)`` of the object tells;
    without that, they are if those steps show so, and taken as inside otherwise (weights that are barely
    outside may be, and later steps bring them closer).

    Coordinates whose gradient is zero are not touched on sets that treat entries one by one; on others (an l2
    ball, say) Frank-Wolfe steps move all of a block together.

    Parameters without a gradient (None) are passed over, as in PyTorch, with one exception: in a block of a
    whole group (``scope="group"``) on a set that couples entries (not ``"linf"``, ``"box"`` or None) they
    count with a gradient of zero, without weight decay or momentum, and move as the set requires.  Without
    them the block would leave it.  Frozen ones (``requires_grad=False``) are no part of such a block, and if
    no parameter of a group has a gradient, none moves.

    Examples
    --------
    >>> import torch
    >>> x = torch.nn.Parameter(torch.tensor([0.5, -0.5]))
    >>> optimizer = DCFW([x], L=2.0, radius=1.0)
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
        L: float | None = None,
        constraint: Any = CONSTRAINT_DEFAULTS["constraint"],
        radius: float | tuple[float, float] = 1.0,
        radius_mode: str = "absolute",
        k: int | None = None,
        momentum: float = 0.0,
        nesterov: bool = False,
        solver: str = "auto",
        inner_steps: int = 20,
        inner_tol: float = 0.1,
        inner_rule: str = "relative",
        inner_step: str = "exact",
        scope: str = "tensor",
        metric: str | None = None,
        metric_decay: float = 0.999,
        eps: float = 1e-8,
        gap: str = "fw",
        weight_decay: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        sync: int | None = None,
        track_gap: bool = False,
    ) -> None:
        if L is not None:
            L = _validate.scalar(L, "L", low=0.0, open_low=True)
            if not math.isfinite(1.0 / L):
                raise ValueError(f"L must be large enough for lr = 1/L to be finite, got {L:g}")
            if not isinstance(lr, torch.Tensor):
                lr = _validate.scalar(lr, "lr", low=0.0)
            if lr not in (0.1, 1.0 / L):
                raise ValueError(f"lr is 1/L and L={L:g} was given: leave lr out, got {lr!r}")
            lr = 1.0 / L
        if not (isinstance(inner_step, str) and inner_step == "exact"):
            raise ValueError(
                f"inner_step must be 'exact', got {inner_step!r}: open-loop inner steps begin with a step of "
                "size 1, which throws x_t away"
            )
        defaults = {
            **CONSTRAINT_DEFAULTS,
            "lr": lr,
            "constraint": constraint,
            "radius": radius,
            "radius_mode": radius_mode,
            "k": k,
            "momentum": momentum,
            "nesterov": nesterov,
            "solver": solver,
            "inner_steps": inner_steps,
            "inner_tol": inner_tol,
            "inner_rule": inner_rule,
            "scope": scope,
            "metric": metric,
            "metric_decay": metric_decay,
            "eps": eps,
            "gap": gap,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "sync": sync,
            "track_gap": track_gap,
        }
        super().__init__(params, defaults)
        self._forget()

    def _forget(self) -> None:
        """Begin without what is kept from step to step for speed alone."""
        self._kept: dict[Any, Tensor] = {}
        self._one_by_one = OneByOne()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()

    def last_step(self) -> dict[str, float]:
        """Return the gaps of the last step, summed over all blocks, and the mean number of inner steps.

        They are those of the surrogates that the (minibatch) gradients gave: ``fw_gap`` at x_t, bounds
        ``dc_gap_low`` and ``dc_gap_high`` of gap_DC(x_t), and ``pgm_gap`` = L/2 ||x_t - proj(z)||^2 where
        there is a closed form (NaN elsewhere).  Blocks that the step passed over do not count.  Needs
        ``track_gap=True``.
        """
        tracked = (p for group in self.param_groups if group["track_gap"] for p in group["params"])
        states = [self.state[p] for p in tracked if p in self.state]
        found = [state["gaps"].cpu() for state in states if "gaps" in state]
        if not found:
            raise RuntimeError(
                "nothing has been recorded: construct DCFW with track_gap=True and take a step with gradients"
            )
        sums = dict(zip(GAPS, torch.stack([row.double() for row in found]).sum(dim=0).tolist(), strict=True))
        sums["inner_steps"] /= sums.pop("blocks")
        return sums

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        solver = _validate.choice(group["solver"], "solver", ("auto", "exact", "fw"))
        _validate.integer(group["inner_steps"], "inner_steps", low=1)
        _validate.scalar(group["inner_tol"], "inner_tol", low=0.0, high=1.0, open_high=True)
        _validate.choice(group["inner_rule"], "inner_rule", ("relative", "paper"))
        _validate.choice(group["gap"], "gap", ("fw", "norm-product"))
        _validate.scalar(group["metric_decay"], "metric_decay", low=0.0, high=1.0, open_high=True)
        _validate.scalar(group["eps"], "eps", low=0.0)
        if group["metric"] is not None:
            _validate.choice(group["metric"], "metric", ("adagrad", "adam"))
        if group["sync"] is not None:
            _validate.integer(group["sync"], "sync", low=0)
        for name in ("nesterov", "track_gap"):
            _validate.flag(group[name], name)
        _validate.optional_flag(group["foreach"], "foreach")
        if group["nesterov"] and not group["momentum"]:
            raise ValueError("nesterov=True needs momentum > 0")
        if solver == "fw" and group["constraint"] is None:
            raise ValueError("solver='fw' needs a bounded set; with constraint=None use 'exact' (it is SGD)")
        if solver == "exact" and not self._has_closed_form(group):
            why = "in a metric" if group["metric"] is not None else "(it has no project method)"
            raise ValueError(
                f"constraint={group['constraint']!r} has no closed-form step {why}; use solver='fw' or 'auto'"
            )

    def _has_closed_form(self, group: dict[str, Any]) -> bool:
        if group["metric"] is not None:
            return group["constraint"] in ELEMENTWISE
        domain = self._domain(group)
        return domain is None or hasattr(domain, "project")

    # -- a step --------------------------------------------------------------------------------------------

    def _begin(self, group: dict[str, Any]) -> None:
        if group["track_gap"]:  # what an earlier step has recorded is not of this one
            for p in group["params"]:
                if p in self.state:
                    self.state[p].pop("gaps", None)

    def _move(self, group: dict[str, Any], params: list[Tensor]) -> None:
        if OneByOne.takes(group, params):
            self._one_by_one.step(self, group, params)
            return
        exact = group["solver"] != "fw" and self._has_closed_form(group)
        simple = exact and group["constraint"] in ELEMENTWISE and not group["track_gap"]
        together = group["foreach"]
        if together is None:
            together = shards.local(params[0]).device.type != "cpu"
        whole = together or (group["scope"] == "group" and not simple)
        for batch in [params] if whole else [[p] for p in params]:
            weights = [shards.local(p) for p in batch]
            grads = self._gradients(group, weights, [shards.local(p.grad) for p in batch])
            buffers = self._buffers(batch, "momentum_buffer") if group["momentum"] else None
            metric = directions.metric(self, group, batch, grads)
            slopes = directions.along(group, grads, buffers)
            if simple:
                regions = [self._region(group, tuple(p.shape)) for p in batch]
                descend_together(weights, slopes, group["lr"], metric, regions)
                continue
            batch, weights, slopes, metric = directions.complete(self, group, batch, weights, slopes, metric)
            for problem in self._problems(group, batch, weights, slopes, metric):
                (self._exact if exact else self._frank_wolfe)(group, problem)

    def _exact(self, group: dict[str, Any], problem: Problem) -> None:
        x, g, metric = problem.tensors
        lr = group["lr"]
        step = g if metric is None else g / metric
        X = problem.region.project(x - lr * step if isinstance(lr, torch.Tensor) else x.sub(step, alpha=lr))
        if group["track_gap"]:
            gaps = self._gaps_of_exact(x, g, X, lr, metric, problem)
            inner = torch.zeros_like(gaps[:1])
            self._record(problem, torch.cat((gaps, inner, torch.full_like(inner, x.shape[0]))))
        problem.write(X)

    def _frank_wolfe(self, group: dict[str, Any], problem: Problem) -> None:
        x, (_, g, metric) = self._enter(problem), problem.tensors
        region, state = problem.region, self.state[problem.parameter]
        total = self._total(group, problem.parameter)
        memory, sync = None, 0
        if not torch.compiler.is_compiling():
            memory, sync = self._memory(x), _asking(group, x)
        found = frank_wolfe_steps(
            x,
            g,
            group["lr"],
            region,
            steps=group["inner_steps"],
            tol=group["inner_tol"],
            rule=group["inner_rule"],
            eps=state.get("tolerance"),
            metric=metric,
            gap=group["gap"],
            matrix=problem.matrix,
            total=total,
            sync=sync,
            certify=group["track_gap"],
            memory=memory,
        )
        self._settle(group, problem, found)

    def _settle(self, group: dict[str, Any], problem: Problem, found: Step) -> None:
        """Write the answer of the inner loop back, and keep what is asked for."""
        x, g, metric = problem.tensors
        region = problem.region
        if group["inner_rule"] == "paper":
            self.state[problem.parameter]["tolerance"] = found.eps
        if group["track_gap"]:
            pgm = torch.full_like(found.fw_gap[0], math.nan)
            if self._has_closed_form(group):
                step = g if metric is None else g / metric
                X = region.project(x - group["lr"] * step)
                pgm = self._gaps_of_exact(x, g, X, group["lr"], metric, problem)[3:]
            rows = (found.fw_gap, found.dc_gap_low, found.dc_gap_high)
            sums = torch.stack([row.sum() for row in rows])
            counts = torch.stack((found.inner_steps.sum(), torch.full_like(sums[0], x.shape[0])))
            self._record(problem, torch.cat((sums, pgm, counts)))
        self._leave(problem, found.x)

    def _gaps_of_exact(
        self, x: Tensor, g: Tensor, X: Tensor, lr: Any, metric: Tensor | None, problem: Problem
    ) -> Tensor:
        """Return the FW gap at x, gap_DC (twice: it is known exactly) and gap_PGM, with X the projection."""
        D = x - X
        if problem.region == UNBOUNDED:
            fw = torch.full_like(x[0, 0], math.inf)
        else:
            fw = (g * problem.region.away(g, x)).sum()
        linear, square = (g * D).sum(), (D * (D if metric is None else D * metric)).sum()
        sums = torch.stack((fw, linear, square))
        total = shards.total_over(problem.parameter)
        fw, linear, square = (sums if total is None else total(sums)).unbind()
        pgm = 0.5 * square / lr
        return torch.stack((fw, linear - pgm, linear - pgm, pgm))

    def _record(self, problem: Problem, gaps: Tensor) -> None:
        self.state[problem.parameter]["gaps"] = gaps.clone()

    def _memory(self, x: Tensor) -> Tensor:
        """Return room for an inner loop, kept from step to step: fresh memory costs more than arithmetic."""
        key = (x.device, x.dtype)
        kept = self._kept.get(key)
        if kept is None or kept.numel() < 3 * x.numel():
            kept = self._kept[key] = torch.empty(3 * x.numel(), dtype=x.dtype, device=x.device)
        return kept[: 3 * x.numel()].view(3, *x.shape)

    def _total(self, group: dict[str, Any], parameter: Tensor) -> Any:
        return None if group["scope"] == "row" else shards.total_over(parameter)


def _asking(group: dict[str, Any], x: Tensor) -> int:
    """Return how often an inner loop may ask whether it can end."""
    if group["sync"] is not None:
        return int(group["sync"])
    if x.device.type == "cpu":
        return 1
    return 0 if group["inner_steps"] <= UNROLLED else ASK_EVERY
