"""Algorithm 1's inner loop on the sliding surrogate, as a pure function of tensors.

The surrogate at x_t is <g, X> + L/2 ||X - x_t||_H^2 (H = 1 unless there is a metric), so that

    its gradient / L      R = H (X - x_t) + g / L          it starts at g / L
    its FW gap / L        <R, X - S>
    the exact step        eta = min(1, <R, X - S> / <X - S, H (X - S)>)
    and then              R <- R - eta H (X - S),  X <- X - eta (X - S).

R is carried along and never formed as a difference of weights, whose rounding would drown small gradients.
All blocks of a tensor take their steps together.  One that has met its tolerance goes on with eta = 0:
nothing has to be asked of the device, and a fixed number of steps is a graph that compiles.  Where asking
costs nothing (on a CPU), the loop ends as soon as all blocks have; the answer is the same bit for bit.

On sets that treat entries one by one, those with a zero residual keep S_i = X_i: they are set aside for the
length of the loop.  For sparse gradients (an embedding, dead units) that cuts the inner steps to 10 % from 81
to 3, and weights without a gradient are not touched.

The step is the exact one.  Open-loop steps 2/(k+1) would throw x_t away in the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch

from dcfw import _validate
from dcfw.torch import parts
from dcfw.torch.regions import Interval, Region, Tensor, asking_is_free

PAPER_BETA = 0.9
"""The paper's factor for its tolerance, in the network study."""


class Step(NamedTuple):
    """What a step has found: the new point and, for each block, tensors of shape (blocks, 1)."""

    x: Tensor
    eps: Tensor
    """The tolerance of the paper's rule, for the next step."""
    inner_steps: Tensor
    fw_gap: Tensor
    dc_gap_low: Tensor
    """The surrogate's decrease: gap_DC is at least this."""
    dc_gap_high: Tensor
    """An upper bound of gap_DC."""


def sliding_step(
    x: Tensor,
    g: Tensor,
    lr: Any,
    region: Region,
    *,
    steps: int = 20,
    tol: float = 0.1,
    rule: str = "relative",
    eps: Tensor | None = None,
    metric: Tensor | None = None,
    gap: str = "fw",
    matrix: tuple[int, int] | None = None,
    total: Callable[[Tensor], Tensor] | None = None,
    sync: int = 0,
    certify: bool = True,
    memory: Tensor | None = None,
) -> Step:
    """Return where at most ``steps`` Frank-Wolfe steps on the sliding surrogate lead from ``x``.

    Parameters
    ----------
    x, g : tensors of shape (blocks, n)
        The point x_t and the (stochastic) gradient there.
    lr : float or tensor
        1/L.
    region : Region
        The set, of which x is a point.
    steps, tol, rule, eps
        A block stops when its gap is at most ``tol`` times its first one (``rule="relative"``), or by the
        paper's rule (``"paper"``) with the last tolerance ``eps`` (None in the first step).
    metric : tensor, optional
        The diagonal H, of the shape of x.
    gap : {"fw", "norm-product"}
        The FW gap, or ||R||_1 ||X - S||_inf in its place, as in the authors' code: for a single block with
        ``matrix`` given those are the induced norms.
    total : callable, optional
        Adds up block sums over the shards of x.
    sync : int
        Ask every so many steps whether all blocks have met their tolerance; 0 is never.
    certify : bool
        Whether to keep account of the gaps; without it those of the answer are NaN.
    memory : tensor of shape (3, blocks, n), optional
        Where to work, and where the answer will be; allocated if it is not given.

    Examples
    --------
    >>> import torch
    >>> from dcfw.torch.regions import Interval
    >>> x, g = torch.zeros(1, 3), torch.tensor([[3.0, -1.0, 0.0]])
    >>> sliding_step(x, g, 0.1, Interval(-1.0, 1.0), steps=1).x  # -(||g||_1 / (n L)) sign(g) where g is not 0
    tensor([[-0.2000,  0.2000,  0.0000]])
    """
    for name, tensor in (("x", x), ("g", g), ("eps", eps), ("metric", metric)):
        if not (isinstance(tensor, torch.Tensor) or (tensor is None and name in ("eps", "metric"))):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if x.ndim != 2 or g.shape != x.shape:
        raise ValueError(
            f"x and g must both have shape (blocks, n), got {tuple(x.shape)} and {tuple(g.shape)}"
        )
    if not isinstance(lr, torch.Tensor):
        lr = _validate.scalar(lr, "lr", low=0.0, open_low=True)
    if not callable(getattr(region, "vertex", None)) or isinstance(region, type):
        raise TypeError(f"region must be one of dcfw.torch.regions, got {type(region).__name__}")
    if matrix is not None:
        matrix = cast(tuple[int, int], _validate.shape(matrix, "matrix", ndim=2))
    if total is not None:
        _validate.function(total, "total")
    if memory is not None and tuple(getattr(memory, "shape", ())) != (3, *x.shape):
        raise ValueError(f"memory must be a tensor of shape {(3, *x.shape)}")
    return frank_wolfe_steps(
        x, g, lr, region,
        steps=_validate.integer(steps, "steps", low=0),
        tol=_validate.scalar(tol, "tol", low=0.0, high=1.0),
        rule=_validate.choice(rule, "rule", ("relative", "paper")),
        eps=eps, metric=metric, gap=_validate.choice(gap, "gap", ("fw", "norm-product")), matrix=matrix,
        total=total, sync=_validate.integer(sync, "sync", low=0),
        certify=_validate.flag(certify, "certify"), memory=memory,
    )  # fmt: skip


def frank_wolfe_steps(
    x: Tensor,
    g: Tensor,
    lr: Any,
    region: Region,
    *,
    steps: int,
    tol: float,
    rule: str,
    eps: Tensor | None,
    metric: Tensor | None,
    gap: str,
    matrix: tuple[int, int] | None,
    total: Callable[[Tensor], Tensor] | None,
    sync: int,
    certify: bool,
    memory: Tensor | None,
) -> Step:
    """Do what :func:`sliding_step` says, with arguments that have been checked."""
    if total is None and parts.takes(x, region, metric, gap):
        number = float(lr)
        beta = PAPER_BETA if rule == "paper" else None
        last = float("inf") if eps is None else float(eps)
        X, last, taken, *gaps = parts.walk(
            x, g, number, region, steps=steps, tol=tol, beta=beta, eps=last, memory=memory
        )
        fw, low, high = (value / number if number else float("nan") for value in gaps)
        return Step(X, *parts.as_tensors(x, gaps[0] if beta is None else last, taken, fw, low, high))
    walk = Walk(x, g, lr, region, metric, memory)
    unknown = torch.full((x.shape[0], 1), float("nan"), dtype=x.dtype, device=x.device)
    count = torch.zeros_like(unknown)
    gained, bound = (count, torch.full_like(count, float("inf"))) if certify else (unknown, unknown)
    first, limit, eta = unknown, unknown, None
    for k in range(steps):
        slope, curvature = walk.look(eta)
        if total is not None:
            slope, curvature = total(torch.stack((slope, curvature)))
        measured = slope if gap == "fw" else _norm_product(walk.R, walk.E, matrix)
        if k == 0:
            first = measured
            limit, eps = _limit(first, lr, rule, tol, eps)
        on = ~(measured <= limit)  # a NaN goes on, and shows, as it does in SGD
        if sync and k % sync == 0 and not bool(on.any()):
            eta = None
            break
        eta = torch.where(on, (measured / curvature).clamp_(max=1.0), 0.0)
        if gap == "fw":
            eta = eta.clamp_(min=0.0)  # an inexact oracle may have found no descent
        if torch.compiler.is_compiling():
            # The cumulative sum of one number: the same, but compiled as a call, before which everything else
            # has to be complete.  Otherwise its formula would be evaluated for every few weights again.
            eta = torch.cumsum(eta, dim=-1)
        if certify:
            bound = torch.minimum(bound, gained + slope)
            gained = gained + eta * (slope - 0.5 * eta * curvature)
        count = count + on
    bound = torch.maximum(bound, gained)
    return Step(walk.end(eta, x), first if eps is None else eps, count, first / lr, gained / lr, bound / lr)


class Walk:
    """The point X, the residual R and the way E = X - S, each in memory of its own that is written over."""

    def __init__(
        self, x: Tensor, g: Tensor, lr: Any, region: Region, metric: Tensor | None, memory: Tensor | None
    ) -> None:
        self.region, self.metric = region, metric
        if torch.compiler.is_compiling():  # memory is the compiler's business
            self.X, self.R, self.scratch = x.clone(), g * lr, None
        else:
            if memory is None:
                memory = torch.empty((3, *x.shape), dtype=x.dtype, device=x.device)
            self.X, self.R, self.scratch = memory
            self.X.copy_(x)
            torch.mul(g, lr, out=self.R)
        self.held = None
        # Masks are slow on a CPU, where on the other hand it can be asked whether any residual is zero.
        if isinstance(region, Interval) and not (asking_is_free(x) and _no_zeros(self.R)):
            self.held = self.R == 0.0
            # There, with a residual of +0, these coordinates have X_i = S_i and never move.
            self.R.masked_fill_(self.held, 0.0)
            self.X.masked_fill_(self.held, region.rest(self.scratch))

    def look(self, eta: Tensor | None) -> tuple[Tensor, Tensor]:
        """Take the last step, if there is one, and return <R, X - S> and <X - S, H (X - S)>."""
        if eta is not None:
            self.move(eta)
        self.E = self.region.away(self.R, self.X, self.scratch)
        return _inner(self.R, self.E), _inner(self.E, self.E if self.metric is None else self.E * self.metric)

    def move(self, eta: Tensor) -> None:
        self.X.addcmul_(self.E, eta, value=-1.0)
        self.R.addcmul_(self.E if self.metric is None else self.E * self.metric, eta, value=-1.0)

    def end(self, eta: Tensor | None, x: Tensor) -> Tensor:
        """Take the last step and return where it leads."""
        if eta is not None:
            self.move(eta)
        X = self.region.settle(self.X)
        return X if self.held is None else torch.where(self.held, x, X, out=self.scratch)


def _no_zeros(R: Tensor) -> bool:
    # NumPy is five times faster here, but has no bfloat16.
    return bool(R.numpy().all() if R.dtype in (torch.float32, torch.float64) else R.all())


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of each block."""
    if torch.compiler.is_compiling():
        # Long sums in single precision are compiled with a helper for accuracy that takes most of the time.
        wide = torch.float64 if a.device.type == "cpu" else a.dtype
        return (a * b).sum(dim=-1, keepdim=True, dtype=wide).to(a.dtype)
    if a.shape[0] == 1:  # anything else would write the products first
        return torch.dot(a[0], b[0]).view(1, 1)
    return torch.linalg.vecdot(a, b).unsqueeze(-1)


def _norm_product(R: Tensor, E: Tensor, matrix: tuple[int, int] | None) -> Tensor:
    R, E = R.abs(), E.abs()
    if matrix is not None and R.shape[0] == 1:  # the largest column sum, and the largest row sum
        one, infinity = R.view(matrix).sum(dim=0).amax(), E.view(matrix).sum(dim=1).amax()
        return (one * infinity).view(1, 1)
    return R.sum(dim=-1, keepdim=True) * E.amax(dim=-1, keepdim=True)


def _limit(first: Tensor, lr: Any, rule: str, tol: float, eps: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the gap (times lr) at which the inner loop ends, and the paper's tolerance."""
    if rule == "relative":
        return tol * first, eps
    found = first / lr
    # dcfw.tolerances.Adaptive(0.9, "published"): lowered whenever a first gap is below it, never raised.  One
    # that is not known (lr = 0, as in a warm-up, or NaN among the gradients) leaves it as it is.
    eps = torch.full_like(found, float("inf")) if eps is None else eps
    eps = torch.where(found < eps, PAPER_BETA * found, eps)
    return torch.nan_to_num(0.5 * eps * lr), eps  # 0 where lr is: the loop ends at once
