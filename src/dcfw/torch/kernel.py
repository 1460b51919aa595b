"""Steps on intervals, compiled by Numba for the CPU.

**Frank-Wolfe steps.**  Between two of them only two sums are needed, but as separate tensor operations each
would pass six times over the weights.  Here it is one pass: it takes the last step and forms the sums for the
next one.  A step moves X and R by the same amount, so that one number a weight is enough, the residual, and X
follows from it: X = x + (R - g/L).  Where g/L is several times as long as the interval that would lose
digits.  But there R keeps its sign whatever happens, so g/L is cut for the walk; the sums have the rest.  The
mathematics is that of :mod:`dcfw.torch.inner`, and tested to be the same to rounding; sums have double
precision.

**Exact steps** are those of :mod:`dcfw.torch.exact`, in one pass and to the same bits.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import torch
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from dcfw._compiling import njit
from dcfw.torch.exact import ORDINARY
from dcfw.torch.inner import PAPER_BETA, Step
from dcfw.torch.regions import Interval, Region, Tensor

CHUNK = 1024
"""Weights whose sums are formed in the precision of the weights, before they go to double precision."""

_FAST = {"reassoc", "contract", "nsz", "arcp"}  # NaN and Inf keep their meaning: they have to show


@njit(fastmath=_FAST)
def _cut(v, most):  # type: ignore[no-untyped-def]
    v = -most if v < -most else v
    return most if v > most else v


@njit(fastmath=_FAST)
def _rest(x, v, half, middle, zero):  # type: ignore[no-untyped-def]
    """Return X - middle - R, which no step changes, for a weight with g/L = v."""
    # A coordinate without a gradient is put where X_i = S_i, and never moves.
    return -half if v == zero else x - middle - v


@njit(fastmath=_FAST)
def _away(y, z, half, zero):  # type: ignore[no-untyped-def]
    """Return X - S where the residual is y and X - middle - R is z."""
    return y + z + (half if y >= zero else -half)


@njit(fastmath=_FAST)
def _look(k, x, g, R, eta, scale, most, half, middle, zero):  # type: ignore[no-untyped-def]
    """Take the last step; return <R, X - S> and ||X - S||^2, and a number above 0 if g/L has to be cut.

    R is g/L before the first step, which is the one before look k = 1, and is not written before it.
    """
    slope = curvature = beyond = 0.0
    two_intervals = half + half + half + half
    for at in range(0, x.shape[0], CHUNK):
        end = min(at + CHUNK, x.shape[0])  # of slices: a sum as an index would not vectorise
        weights, slopes, residuals = x[at:end], g[at:end], R[at:end]
        s = c = b = zero
        if k == 0:
            for i in range(end - at):
                y = _cut(slopes[i] * scale, most)
                e = _away(y, _rest(weights[i], y, half, middle, zero), half, zero)
                s += y * e
                c += e * e
                b += half if abs(y) > two_intervals else zero
        elif k == 1:
            for i in range(end - at):
                y = _cut(slopes[i] * scale, most)
                z = _rest(weights[i], y, half, middle, zero)
                y -= eta * _away(y, z, half, zero)
                residuals[i] = y
                e = _away(y, z, half, zero)
                s += y * e
                c += e * e
        else:
            for i in range(end - at):
                z = _rest(weights[i], _cut(slopes[i] * scale, most), half, middle, zero)
                y = residuals[i] - eta * _away(residuals[i], z, half, zero)
                residuals[i] = y
                e = _away(y, z, half, zero)
                s += y * e
                c += e * e
        slope += s
        curvature += c
        beyond += b
        if most < np.inf:
            for i in range(end - at):
                v = slopes[i] * scale
                y = residuals[i] if k > 0 else _cut(v, most)
                z = _rest(weights[i], _cut(v, most), half, middle, zero)
                slope += (v - _cut(v, most)) * _away(y, z, half, zero)
    return slope, curvature, beyond


@njit()
def _finish(looks, x, g, R, eta, scale, most, half, middle, zero, lower, upper):  # type: ignore[no-untyped-def]
    """Take the last step and write X, clipped against rounding; where g is 0, as it was."""
    for at in range(0, x.shape[0], CHUNK):
        end = min(at + CHUNK, x.shape[0])
        weights, slopes, residuals = x[at:end], g[at:end], R[at:end]
        for i in range(end - at):
            v = _cut(slopes[i] * scale, most)
            y = residuals[i] if looks > 1 else v
            y -= eta * _away(y, _rest(weights[i], v, half, middle, zero), half, zero)
            value = weights[i] + (y - v)
            value = lower if value < lower else value
            value = upper if value > upper else value
            weights[i] = weights[i] if v == zero else value


@njit()
def _walk(x, g, scale, half, middle, zero, lower, upper, steps, tol, eps, beta, R):  # type: ignore[no-untyped-def]
    """Take at most ``steps`` Frank-Wolfe steps from x, in place.

    ``eps`` is NaN for the rule relative to the first gap (with ``tol``), infinite for the paper's rule in the
    first step, and its last tolerance otherwise.  ``R`` is room for the residual.  Returns (tolerance, steps
    taken, first gap, decrease, upper bound), the last three times 1/L.
    """
    step = np.zeros(1, x.dtype)  # a number of the precision of the weights
    most = zero + x.dtype.type(np.inf)
    looks = taken = 0
    first = limit = gained = 0.0
    bound = np.inf
    for k in range(steps):
        slope, curvature, beyond = _look(k, x, g, R, step[0], scale, most, half, middle, zero)
        if beyond > 0.0:  # g/L is cut at two intervals: already above one R keeps its sign
            most = half + half + half + half
            slope, curvature, beyond = _look(k, x, g, R, step[0], scale, most, half, middle, zero)
        looks += 1
        if k == 0:
            first = slope
            if np.isnan(eps):
                limit = tol * first
            elif scale > zero:
                if first / scale < eps:
                    eps = beta * (first / scale)
                limit = 0.5 * eps * scale
        if slope <= limit:
            step[0] = 0.0
            break
        eta = 1.0 if curvature == 0.0 else min(max(slope / curvature, 0.0), 1.0) if slope == slope else np.nan
        bound = min(bound, gained + slope)
        gained += eta * (slope - 0.5 * eta * curvature)
        step[0] = eta
        taken += 1
    _finish(looks, x, g, R, step[0], scale, most, half, middle, zero, lower, upper)
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
    memory[2].copy_(x)
    lr = float(lr)
    start = math.nan if rule == "relative" else math.inf if eps is None else float(eps)
    slopes = g.detach().contiguous()[0]
    end, taken, first, gained, bound = _call(
        memory[2, 0], slopes, lr, region, steps, tol, start, memory[0, 0]
    )
    gaps = [[value / lr if lr else math.nan] for value in (first, gained, bound)]
    found = torch.tensor(gaps, dtype=x.dtype)
    tolerance = found[:1] if rule == "relative" else torch.tensor([[end]], dtype=x.dtype)
    count = torch.tensor([[taken]], dtype=x.dtype)
    return Step(memory[2], tolerance, count, found[:1], found[1:2], found[2:])


def walk_in_place(
    p: Tensor, g: Tensor, lr: Any, region: Region, steps: int, tol: float, eps: float, room: Tensor
) -> float:
    """Move a parameter as :func:`compiled_step` says, and return the tolerance; without any account of it.

    ``eps`` is NaN for the relative rule, infinite for the paper's in the first step.  ``room`` is a vector of
    as many entries.
    """
    found = _call(p.detach().view(-1), g.detach().reshape(-1), float(lr), region, steps, tol, eps, room)
    torch.autograd.graph.increment_version(p)  # autograd does not see what Numba writes
    return float(found[0])


def _call(
    x: Tensor, g: Tensor, lr: float, region: Region, steps: int, tol: float, eps: float, room: Tensor
) -> Any:
    """Call the compiled walk with the numbers of an interval, in the precision of the weights."""
    assert isinstance(region, Interval)
    weights = x.numpy()
    number = weights.dtype.type
    lower, upper = region.lower, region.upper
    return _walk(
        weights, g.numpy(), number(lr), number(0.5 * (upper - lower)), number(0.5 * (upper + lower)),
        number(0.0), number(lower), number(upper), steps, tol, eps, PAPER_BETA, room.numpy(),
    )  # fmt: skip


# -- exact steps -------------------------------------------------------------------------------------------


@intrinsic
def _pointer(_typing, address):  # type: ignore[no-untyped-def]
    """Return a whole number as the address that it is: making an array of a tensor takes longer than that."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@njit(fastmath={"contract"})
def _along(x, factor, direction):  # type: ignore[no-untyped-def]
    """Return x + factor direction, rounded once where the processor can: that is ``add_`` with ``alpha``."""
    return x + factor * direction


@njit()
def _averaged(buffer, momentum, g):  # type: ignore[no-untyped-def]
    """Return momentum buffer + g rounded twice, as ``mul_`` and ``add_`` do."""
    return buffer * momentum + g


@njit()
def _descend(table, numbers, nesterov):  # type: ignore[no-untyped-def]
    """Move tensors along their gradients and clip them, in one pass; a NaN passes.

    ``table`` has a row of sizes, and rows of addresses: of the weights, of the gradients and, if there is
    momentum, of the averages.  ``numbers`` are factor, weight decay, momentum, lower and upper.
    """
    factor, decay, momentum, lower, upper = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for k in range(table.shape[1]):
        size = table[0, k]
        x = carray(_pointer(table[1, k]), size, numbers.dtype)
        g = carray(_pointer(table[2, k]), size, numbers.dtype)
        if table.shape[0] == 3:
            for i in range(size):
                slope = _along(g[i], decay, x[i]) if decay else g[i]
                value = _along(x[i], factor, slope)
                value = lower if value < lower else value
                x[i] = upper if value > upper else value
            continue
        buffer = carray(_pointer(table[3, k]), size, numbers.dtype)
        for i in range(size):
            slope = _along(g[i], decay, x[i]) if decay else g[i]
            average = _averaged(buffer[i], momentum, slope)
            buffer[i] = average
            value = _along(x[i], factor, _along(slope, momentum, average) if nesterov else average)
            value = lower if value < lower else value
            x[i] = upper if value > upper else value


def descend(
    tensors: list[list[Tensor]],
    interval: Interval,
    factor: float,
    decay: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> bool:
    """Take exact steps in one pass; return False, and leave them to others, if this is not the case for it.

    The tensors are the weights, the gradients and, if there is momentum, the averages.

    Examples
    --------
    >>> import torch
    >>> x, g = torch.zeros(3), torch.tensor([3.0, -1.0, -5.0])
    >>> descend([[x], [g]], Interval(-1.0, 0.25), -0.1)
    True
    >>> x
    tensor([-0.3000,  0.1000,  0.2500])
    """
    dtype = tensors[0][0].dtype
    rows = [tuple([t.numel() for t in tensors[0]])]
    for row in tensors:
        addresses = []
        for t in row:
            if type(t) not in ORDINARY or not t.is_cpu or t.layout is not torch.strided:
                return False
            if t.dtype is not dtype or not t.is_contiguous():
                return False
            addresses.append(t.data_ptr())
        rows.append(tuple(addresses))
    if not same_bits(dtype):
        return False
    numbers = _numbers(dtype, factor, decay, momentum, interval.lower, interval.upper)
    _descend(_table(*rows), numbers, nesterov)
    for t in tensors[0] + tensors[2] if momentum else tensors[0]:
        # Autograd does not see what Numba writes.  (PyTorch took one tensor at a time before it took lists.)
        torch.autograd.graph.increment_version(t)
    return True


# Both are the same as in the last step more often than not, and take longer to make than to find.


@functools.lru_cache(maxsize=64)
def _table(*rows: tuple[int, ...]) -> Any:
    return np.array(rows, np.int64)


@functools.lru_cache(maxsize=64)
def _numbers(dtype: Any, *values: float) -> Any:
    """Return numbers in the precision of the weights."""
    return np.array(values, np.float32 if dtype == torch.float32 else np.float64)


@functools.cache
def same_bits(dtype: Any) -> bool:
    """Tell whether the compiled pass gives the bits of PyTorch's operations here.

    Whether a product and a sum are rounded once or twice is a matter of the processor and of how PyTorch was
    built.  It is not known; it is tried.
    """
    if dtype not in (torch.float32, torch.float64):
        return False
    values = torch.sin(torch.arange(3 * 1003, dtype=torch.float64) ** 2).to(dtype).view(3, -1)
    for decay, momentum, nesterov in itertools.product((0.0, 0.01), (0.0, 0.9), (False, True)):
        x, g, buffer = values.clone()
        X, G, average = values.clone()
        rows = [(t.data_ptr(),) for t in ((x, g, buffer) if momentum else (x, g))]
        numbers = _numbers(dtype, -0.3, decay, momentum, -0.9, 0.8)
        _descend(_table((len(x),), *rows), numbers, nesterov)
        if decay:
            G = G.add(X, alpha=decay)
        if momentum:
            average.mul_(momentum).add_(G)
            G = G.add(average, alpha=momentum) if nesterov else average
        X.add_(G, alpha=-0.3).clamp_(-0.9, 0.8)
        if not (torch.equal(x, X) and torch.equal(buffer, average)):
            return False
    return True
