"""The inner loop of :func:`dcfw.torch.inner.sliding_step` on intervals, compiled by Numba for the CPU.

Between two Frank-Wolfe steps only two sums are needed, but as separate tensor operations each step would pass
six times over the weights.  Here it is one pass that only reads: the steps since the arrays were last written
are taken again, for some weights at a time, in the fastest cache (a step costs a few instructions, a pass
through the memory more).  After :data:`PENDING` steps the arrays are written.

The mathematics is that of :mod:`dcfw.torch.inner`, and tested to be the same to rounding; sums have double
precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numba import njit

from dcfw.torch.inner import PAPER_BETA, Step
from dcfw.torch.regions import Interval, Region, Tensor

CHUNK = 1024
"""Weights that are treated at a time."""
PENDING = 6
"""Steps that are taken again rather than written."""

_FAST = {"reassoc", "contract", "nsz", "arcp"}  # NaN and Inf keep their meaning: they have to show


@njit(cache=True, nogil=True, fastmath=_FAST)
def _load(X, R, scale, fresh, at, size, etas, pending, half, middle, zero, a, r):  # type: ignore[no-untyped-def]
    """Bring a chunk of X and scale R into a and r, and take the pending steps there."""
    X, R = X[at : at + size], R[at : at + size]  # a sum as an index would not vectorise
    for i in range(size):
        a[i] = X[i]
        r[i] = R[i] * scale
    if fresh:
        # The first time: a coordinate without a gradient is put where X_i = S_i, and never moves.
        for i in range(size):
            a[i] = middle - half if r[i] == zero else a[i]
            r[i] = zero if r[i] == zero else r[i]
    # Two steps at a time: between them the numbers stay in registers.
    for k in range(0, pending - 1, 2):
        first, second = etas[k], etas[k + 1]
        for i in range(size):
            e = first * (a[i] - middle + (half if r[i] >= zero else -half))
            x, y = a[i] - e, r[i] - e
            e = second * (x - middle + (half if y >= zero else -half))
            a[i] = x - e
            r[i] = y - e
    if pending % 2 == 1:
        eta = etas[pending - 1]
        for i in range(size):
            e = eta * (a[i] - middle + (half if r[i] >= zero else -half))
            a[i] -= e
            r[i] -= e


@njit(cache=True, nogil=True, fastmath=_FAST)
def _look(X, R, scale, fresh, etas, pending, half, middle, zero, a, r):  # type: ignore[no-untyped-def]
    """Return <R, X - S> and ||X - S||^2 after the pending steps."""
    slope = curvature = 0.0
    for at in range(0, X.shape[0], CHUNK):
        size = min(CHUNK, X.shape[0] - at)
        _load(X, R, scale, fresh, at, size, etas, pending, half, middle, zero, a, r)
        s = c = zero
        for i in range(size):
            e = a[i] - middle + (half if r[i] >= zero else -half)
            s += r[i] * e
            c += e * e
        slope += s
        curvature += c
    return slope, curvature


@njit(cache=True, nogil=True)
def _write(X, R, scale, fresh, etas, pending, half, middle, zero, a, r, room):  # type: ignore[no-untyped-def]
    """Take the pending steps and write X and R."""
    for at in range(0, X.shape[0], CHUNK):
        size = min(CHUNK, X.shape[0] - at)
        _load(X, R, scale, fresh, at, size, etas, pending, half, middle, zero, a, r)
        room[0, at : at + size] = a[:size]
        room[1, at : at + size] = r[:size]


@njit(cache=True, nogil=True)
def _finish(X, R, scale, fresh, etas, pending, half, middle, zero, a, r, x, g, bounds, out):  # type: ignore[no-untyped-def]
    """Take the pending steps and write X, clipped against rounding; where g is 0, as it was."""
    lower, upper = bounds[0], bounds[1]
    for at in range(0, X.shape[0], CHUNK):
        size = min(CHUNK, X.shape[0] - at)
        _load(X, R, scale, fresh, at, size, etas, pending, half, middle, zero, a, r)
        before, slope, after = x[at : at + size], g[at : at + size], out[at : at + size]
        for i in range(size):
            value = a[i]
            value = lower if value < lower else value
            value = upper if value > upper else value
            after[i] = before[i] if slope[i] * bounds[2] == zero else value


@njit(cache=True, nogil=True)
def _walk(x, g, scale, half, middle, zero, bounds, steps, tol, eps, beta, etas, room, out):  # type: ignore[no-untyped-def]
    """Take at most ``steps`` Frank-Wolfe steps from x and write where they lead to ``out``.

    ``eps`` is NaN for the rule relative to the first gap (with ``tol``), infinite for the paper's rule in
    the first step, and its last tolerance otherwise.  ``bounds`` has lower, upper and scale; ``etas`` is
    room for the pending steps, ``room`` for X and R.  Returns (tolerance, steps taken, first gap, decrease,
    upper bound), the last three times 1/L.
    """
    a, r = np.empty_like(x[:1].repeat(CHUNK)), np.empty_like(x[:1].repeat(CHUNK))
    X, R, fresh, pending, taken = x, g, True, 0, 0
    factor = scale
    first = limit = gained = 0.0
    bound = np.inf
    for k in range(steps):
        slope, curvature = _look(X, R, factor, fresh, etas, pending, half, middle, zero, a, r)
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
            _write(X, R, factor, fresh, etas, pending, half, middle, zero, a, r, room)
            X, R, fresh, pending = room[0], room[1], False, 0
            factor = scale / scale
        etas[pending] = eta
        pending += 1
        taken += 1
    _finish(X, R, factor, fresh, etas, pending, half, middle, zero, a, r, x, g, bounds, out)
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
    room = memory[:2, 0].detach().numpy()
    number = weights.dtype.type
    half, middle = 0.5 * (region.upper - region.lower), 0.5 * (region.upper + region.lower)
    bounds = np.array([region.lower, region.upper, lr], dtype=weights.dtype)
    start = math.nan if rule == "relative" else math.inf if eps is None else float(eps)
    end, taken, first, gained, bound = _walk(
        weights, gradient, number(lr), number(half), number(middle), number(0), bounds,
        steps, tol, start, PAPER_BETA,
        np.zeros(PENDING, weights.dtype), room, memory[2, 0].detach().numpy(),
    )  # fmt: skip
    found = torch.tensor([[first / lr], [gained / lr], [bound / lr]], dtype=x.dtype)
    tolerance = found[:1] if rule == "relative" else torch.tensor([[end]], dtype=x.dtype)
    count = torch.tensor([[taken]], dtype=x.dtype)
    return Step(memory[2], tolerance, count, found[:1], found[1:2], found[2:])
