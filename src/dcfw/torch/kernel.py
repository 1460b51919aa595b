"""The inner loop of :func:`dcfw.torch.inner.sliding_step` on intervals, compiled by Numba for the CPU.

Between two Frank-Wolfe steps only two sums are needed, but as separate tensor operations each step would pass
six times over the weights.  Here it is one pass that only reads: the steps since the residual was last
written are taken again, for some weights at a time, in the fastest cache (a step costs a few instructions,
a pass through the memory more).  After :data:`PENDING` steps the residual is written.

A step moves X and R by the same amount, so that one number a weight is enough, the residual, and X follows
from it: X = x + (R - g/L).  Where g/L is several times as long as the interval that would lose digits.  But
there R keeps its sign whatever happens, so g/L is cut for the walk; the sums have the rest.

The mathematics is that of :mod:`dcfw.torch.inner`, and tested to be the same to rounding; sums have double
precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from dcfw._compiling import njit
from dcfw.torch.inner import PAPER_BETA, Step
from dcfw.torch.regions import Interval, Region, Tensor

CHUNK = 1024
"""Weights that are treated at a time."""
PENDING = 8
"""Steps that are taken again rather than written."""


_FAST = {"reassoc", "contract", "nsz", "arcp"}  # NaN and Inf keep their meaning: they have to show


@njit(fastmath=_FAST)
def _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r):  # type: ignore[no-untyped-def]
    """Bring a chunk of the residual into r, and X - middle - R into z, and take the pending steps there."""
    x, g, R = x[at : at + size], g[at : at + size], R[at : at + size]  # a sum as an index would not vectorise
    # A coordinate without a gradient is put where X_i = S_i, and never moves.
    if cut > zero:
        for i in range(size):
            v = g[i] * scale
            v = -cut if v < -cut else v
            v = cut if v > cut else v
            r[i] = v
            z[i] = -half if v == zero else x[i] - middle - v
    else:
        for i in range(size):
            v = g[i] * scale
            r[i] = v
            z[i] = -half if v == zero else x[i] - middle - v
    if not fresh:
        for i in range(size):
            r[i] = R[i]
    # Four or two steps at a time: between them the numbers stay in registers.
    k = 0
    while k + 3 < pending:
        eta, eta1, eta2, eta3 = etas[k], etas[k + 1], etas[k + 2], etas[k + 3]
        for i in range(size):
            y, w = r[i], z[i]
            y -= eta * (y + w + (half if y >= zero else -half))
            y -= eta1 * (y + w + (half if y >= zero else -half))
            y -= eta2 * (y + w + (half if y >= zero else -half))
            r[i] = y - eta3 * (y + w + (half if y >= zero else -half))
        k += 4
    while k + 1 < pending:
        eta, eta1 = etas[k], etas[k + 1]
        for i in range(size):
            y, w = r[i], z[i]
            y -= eta * (y + w + (half if y >= zero else -half))
            r[i] = y - eta1 * (y + w + (half if y >= zero else -half))
        k += 2
    if k < pending:
        eta = etas[k]
        for i in range(size):
            r[i] -= eta * (r[i] + z[i] + (half if r[i] >= zero else -half))


@njit(fastmath=_FAST)
def _look(x, g, R, scale, cut, fresh, etas, pending, half, middle, zero, z, r):  # type: ignore[no-untyped-def]
    """Return <R, X - S> and ||X - S||^2 after the pending steps."""
    slope = curvature = 0.0
    for at in range(0, x.shape[0], CHUNK):
        size = min(CHUNK, x.shape[0] - at)
        _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r)
        s = c = zero
        for i in range(size):
            e = r[i] + z[i] + (half if r[i] >= zero else -half)
            s += r[i] * e
            c += e * e
        slope += s
        curvature += c
        if cut > zero:
            gradient = g[at : at + size]
            for i in range(size):
                v = gradient[i] * scale
                v = v + cut if v < -cut else v - cut if v > cut else zero
                slope += v * (r[i] + z[i] + (half if r[i] >= zero else -half))
    return slope, curvature


@njit()
def _write(x, g, R, scale, cut, fresh, etas, pending, half, middle, zero, z, r):  # type: ignore[no-untyped-def]
    """Take the pending steps and write R."""
    for at in range(0, x.shape[0], CHUNK):
        size = min(CHUNK, x.shape[0] - at)
        _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r)
        R[at : at + size] = r[:size]


@njit()
def _finish(x, g, R, scale, cut, fresh, etas, pending, half, middle, zero, z, r, bounds, out):  # type: ignore[no-untyped-def]
    """Take the pending steps and write X, clipped against rounding; where g is 0, as it was."""
    lower, upper, most = bounds[0], bounds[1], bounds[2]
    for at in range(0, x.shape[0], CHUNK):
        size = min(CHUNK, x.shape[0] - at)
        _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r)
        before, slope, after = x[at : at + size], g[at : at + size], out[at : at + size]
        for i in range(size):
            v = slope[i] * scale
            v = -most if v < -most else v
            v = most if v > most else v
            value = before[i] + (r[i] - v)
            value = lower if value < lower else value
            value = upper if value > upper else value
            after[i] = before[i] if v == zero else value


@njit()
def _walk(x, g, scale, cut, half, middle, zero, bounds, steps, tol, eps, beta, etas, room, out):  # type: ignore[no-untyped-def]
    """Take at most ``steps`` Frank-Wolfe steps from x and write where they lead to ``out``.

    ``cut`` is where g/L is cut, or 0.  ``eps`` is NaN for the rule relative to the first gap (with ``tol``),
    infinite for the paper's rule in the first step, and its last tolerance otherwise.  ``bounds`` has lower,
    upper and cut (infinite instead of 0); ``etas`` is room for the pending steps, ``room`` for R.  Returns
    (tolerance, steps taken, first gap, decrease, upper bound), the last three times 1/L.
    """
    z, r = np.empty(CHUNK, x.dtype), np.empty(CHUNK, x.dtype)
    fresh, pending, taken = True, 0, 0
    first = limit = gained = 0.0
    bound = np.inf
    for k in range(steps):
        slope, curvature = _look(x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r)
        if k == 0:
            first = slope
            if np.isnan(eps):
                limit = tol * first
            else:
                if first / scale < eps:
                    eps = beta * (first / scale)
                limit = 0.5 * eps * scale
        if slope <= limit:
            break
        eta = min(max(slope / curvature, 0.0), 1.0) if slope == slope else np.nan
        bound = min(bound, gained + slope)
        gained += eta * (slope - 0.5 * eta * curvature)
        if pending == etas.shape[0]:
            _write(x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r)
            fresh, pending = False, 0
        etas[pending] = eta
        pending += 1
        taken += 1
    _finish(x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r, bounds, out)
    return eps, taken, first, gained, max(bound, gained)


def takes(x: Tensor, region: Region, metric: Tensor | None, gap: str) -> bool:
    """Tell whether :func:`compiled_step` can treat this case."""
    return (
        isinstance(region, Interval)
        and math.isfinite(region.upper - region.lower)
        and metric is None
        and gap == "fw"
        and x.device.type == "cpu"
        and x.shape[0] == 1
        and x.dtype in (torch.float32, torch.float64)
    )


def compiled_step(
    x: Tensor,
    g: Tensor,
    lr: Any,
    region: Region,
    *,
    steps: int = 20,
    tol: float = 0.1,
    rule: str = "relative",
    eps: Tensor | None = None,
    memory: Tensor | None = None,
) -> Step:
    """Return what :func:`~dcfw.torch.inner.sliding_step` does for one block of an interval, faster.

    Examples
    --------
    >>> import torch
    >>> x, g = torch.zeros(1, 3), torch.tensor([[3.0, -1.0, 0.0]])
    >>> compiled_step(x, g, 0.1, Interval(-1.0, 1.0), steps=1).x
    tensor([[-0.2000,  0.2000,  0.0000]])
    """
    if memory is None:
        memory = torch.empty((3, *x.shape), dtype=x.dtype)
    assert isinstance(region, Interval)
    lr = float(lr)
    weights, gradient = (tensor.detach().contiguous().numpy()[0] for tensor in (x, g))
    room = memory[0, 0].detach().numpy()
    number = weights.dtype.type
    half, middle = 0.5 * (region.upper - region.lower), 0.5 * (region.upper + region.lower)
    # g/L is cut at two intervals, if it gets there: already above one R keeps its sign.
    least, most = torch.aminmax(g)
    cut = 4.0 * half if lr * max(-float(least), float(most)) > 4.0 * half else 0.0
    bounds = np.array([region.lower, region.upper, cut or np.inf], dtype=weights.dtype)
    start = math.nan if rule == "relative" else math.inf if eps is None else float(eps)
    end, taken, first, gained, bound = _walk(
        weights, gradient, number(lr), number(cut), number(half), number(middle), number(0), bounds,
        steps, tol, start, PAPER_BETA,
        np.zeros(PENDING, weights.dtype), room, memory[2, 0].detach().numpy(),
    )  # fmt: skip
    found = torch.tensor([[first / lr], [gained / lr], [bound / lr]], dtype=x.dtype)
    tolerance = found[:1] if rule == "relative" else torch.tensor([[end]], dtype=x.dtype)
    count = torch.tensor([[taken]], dtype=x.dtype)
    return Step(memory[2], tolerance, count, found[:1], found[1:2], found[2:])
