"""Algorithm 1's inner loop on the sliding surrogate <g, X> + L/2 ||X - x_t||^2, as a pure function of
tensors.

    its gradient / L      R = X - x_t + g / L              initially g / L
    its FW gap / L        <R, X - S>
    the exact step        eta = min(1, <R, X - S> / ||X - S||^2)
    and then              R <- R - eta (X - S),  X <- X - eta (X - S).

R is updated, since computing it as a difference of weights would lose small gradients to rounding.  A block
that has reached its tolerance continues with eta = 0: this avoids host-device synchronisation and lets the
loop compile, and an early end gives the same answer bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from dcfw import _validate
from dcfw.torch.regions import Region, Tensor


class Step(NamedTuple):
    """The result of an inner loop: the new point and, for each block, tensors of shape (blocks, 1)."""

    x: Tensor
    inner_steps: Tensor
    fw_gap: Tensor
    dc_gap_low: Tensor  # the surrogate's decrease: gap_DC is at least this
    dc_gap_high: Tensor  # an upper bound of gap_DC where vertices are exact


def sliding_step(
    x: Tensor,
    g: Tensor,
    lr: Any,
    region: Region,
    *,
    steps: int = 20,
    tol: float = 0.1,
    total: Callable[[Tensor], Tensor] | None = None,
    sync: bool = False,
) -> Step:
    """Take at most ``steps`` Frank-Wolfe steps on the sliding surrogate, starting from ``x``.

    Parameters
    ----------
    x, g : tensors of shape (blocks, n)
        The point x_t, in the set, and the (stochastic) gradient there.
    lr : float or tensor
        1/L.
    region : Region
    steps, tol
        A block stops when its FW gap is at most ``tol`` times its first one.
    total : callable, optional
        Adds up block sums over the shards of x.
    sync : bool
        End as soon as all blocks have reached their tolerance; testing this synchronises with the device.

    Examples
    --------
    >>> import torch
    >>> from dcfw.torch.regions import Interval
    >>> x, g = torch.zeros(1, 3), torch.tensor([[3.0, -1.0, 0.0]])
    >>> sliding_step(x, g, 0.1, Interval(-1.0, 1.0), steps=1).x  # -(||g||_1 / (n L)) sign(g) where g is not 0
    tensor([[-0.2000,  0.2000,  0.0000]])
    """
    if not torch.compiler.is_compiling():
        _check(x, g, region)
        lr = lr if isinstance(lr, torch.Tensor) else _validate.scalar(lr, "lr", low=0.0)
        steps, tol = _validate.integer(steps, "steps"), _validate.scalar(tol, "tol", low=0.0, high=1.0)
        _validate.flag(sync, "sync")
        if total is not None:
            _validate.function(total, "total")
    X, R = x.clone(), g * lr
    gained = count = torch.zeros((x.shape[0], 1), dtype=x.dtype, device=x.device)
    first, bound = torch.full_like(count, float("nan")), torch.full_like(count, float("inf"))
    for k in range(steps):
        E = region.away(R, X)
        sums = torch.stack((_inner(R, E), _inner(E, E)))
        slope, curvature = sums if total is None else total(sums)
        first = slope if k == 0 else first
        on = ~(slope <= tol * first)
        if sync and not bool(on.any()):
            break
        # An inexact oracle may find no descent; with zero curvature X is the vertex already.
        eta = torch.where(on & (curvature > 0.0), (slope / curvature).clamp_(0.0, 1.0), 0.0)
        X.addcmul_(E, eta, value=-1.0)
        R.addcmul_(E, eta, value=-1.0)
        bound = torch.minimum(bound, gained + slope)
        gained = gained + eta * (slope - 0.5 * eta * curvature)
        count = count + on
    return Step(region.settle(X), count, first / lr, gained / lr, torch.maximum(bound, gained) / lr)


def _check(x: Any, g: Any, region: Any) -> None:
    for name, tensor in (("x", x), ("g", g)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if x.ndim != 2 or g.shape != x.shape:
        shapes = f"{tuple(x.shape)} and {tuple(g.shape)}"
        raise ValueError(f"x and g must both have shape (blocks, n), got {shapes}")
    if not callable(getattr(region, "vertex", None)) or isinstance(region, type):
        raise TypeError(f"region must be one of dcfw.torch.regions, got {type(region).__name__}")


def _inner(a: Tensor, b: Tensor) -> Tensor:
    if a.shape[0] == 1:  # other operations would store the products first
        return torch.dot(a[0], b[0]).view(1, 1)
    return torch.linalg.vecdot(a, b).unsqueeze(-1)
