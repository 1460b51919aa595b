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
    """Return <R, X - S> and ||X - S||^2 after the pending steps, and a number above 0 if R has to be cut.

    The last is looked at in the first pass alone, where R is g/L.
    """
    slope = curvature = beyond = 0.0
    two_intervals = half + half + half + half
    for at in range(0, x.shape[0], CHUNK):
        size = min(CHUNK, x.shape[0] - at)
        _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r)
        s = c = b = zero
        for i in range(size):
            e = r[i] + z[i] + (half if r[i] >= zero else -half)
            s += r[i] * e
            c += e * e
        if pending == 0 and fresh and cut == zero:
            for i in range(size):
                b += half if abs(r[i]) > two_intervals else zero
        slope += s
        curvature += c
        beyond += b
        if cut > zero:
            gradient = g[at : at + size]
            for i in range(size):
                v = gradient[i] * scale
                v = v + cut if v < -cut else v - cut if v > cut else zero
                slope += v * (r[i] + z[i] + (half if r[i] >= zero else -half))
    return slope, curvature, beyond


@njit()
def _write(x, g, R, scale, cut, fresh, etas, pending, half, middle, zero, z, r):  # type: ignore[no-untyped-def]
    """Take the pending steps and write R."""
    for at in range(0, x.shape[0], CHUNK):
        size = min(CHUNK, x.shape[0] - at)
        _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r)
        R[at : at + size] = r[:size]


@njit()
def _finish(x, g, R, scale, cut, fresh, etas, pending, half, middle, zero, z, r, lower, upper, out):  # type: ignore[no-untyped-def]
    """Take the pending steps and write X, clipped against rounding; where g is 0, as it was."""
    for at in range(0, x.shape[0], CHUNK):
        size = min(CHUNK, x.shape[0] - at)
        _load(x, g, R, scale, cut, fresh, at, size, etas, pending, half, middle, zero, z, r)
        before, slope, after = x[at : at + size], g[at : at + size], out[at : at + size]
        if cut > zero:
            for i in range(size):
                v = slope[i] * scale
                v = -cut if v < -cut else v
                z[i] = cut if v > cut else v
        else:
            for i in range(size):
                z[i] = slope[i] * scale
        # Not at once into the answer, which may lie where x does: then nothing would be vectorised.
        for i in range(size):
            value = before[i] + (r[i] - z[i])
            value = lower if value < lower else value
            value = upper if value > upper else value
            r[i] = before[i] if z[i] == zero else value
        for i in range(size):
            after[i] = r[i]


@njit()
def _walk(x, g, scale, half, middle, zero, lower, upper, steps, tol, eps, beta, room, out):  # type: ignore[no-untyped-def]
    """Take at most ``steps`` Frank-Wolfe steps from x and write where they lead to ``out``, which may be x.

    ``eps`` is NaN for the rule relative to the first gap (with ``tol``), infinite for the paper's rule in the
    first step, and its last tolerance otherwise.  ``room`` is for R, and used if there are more than
    PENDING steps.  Returns (tolerance, steps taken, first gap, decrease, upper bound), the last three times
    1/L.
    """
    z, r, etas = np.empty(CHUNK, x.dtype), np.empty(CHUNK, x.dtype), np.empty(PENDING, x.dtype)
    fresh, pending, taken, cut = True, 0, 0, zero
    first = limit = gained = 0.0
    bound = np.inf
    for k in range(steps):
        slope, curvature, beyond = _look(
            x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r
        )
        if k == 0:
            if beyond > 0.0:  # g/L is cut at two intervals: already above one R keeps its sign
                cut = half + half + half + half
                slope, curvature, beyond = _look(
                    x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r
                )
            first = slope
            if np.isnan(eps):
                limit = tol * first
            elif scale > zero:
                if first / scale < eps:
                    eps = beta * (first / scale)
                limit = 0.5 * eps * scale
        if slope <= limit:
            break
        eta = 1.0 if curvature == 0.0 else min(max(slope / curvature, 0.0), 1.0) if slope == slope else np.nan
        bound = min(bound, gained + slope)
        gained += eta * (slope - 0.5 * eta * curvature)
        if pending == PENDING:
            _write(x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r)
            fresh, pending = False, 0
        etas[pending] = eta
        pending += 1
        taken += 1
    _finish(x, g, room, scale, cut, fresh, etas, pending, half, middle, zero, z, r, lower, upper, out)
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
    lr = float(lr)
    start = math.nan if rule == "relative" else math.inf if eps is None else float(eps)
    weights, gradient = x.detach().contiguous()[0], g.detach().contiguous()[0]
    end, taken, first, gained, bound = _call(
        weights, gradient, lr, region, steps, tol, start, memory[0, 0], memory[2, 0]
    )
    gaps = [[value / lr if lr else math.nan] for value in (first, gained, bound)]
    found = torch.tensor(gaps, dtype=x.dtype)
    tolerance = found[:1] if rule == "relative" else torch.tensor([[end]], dtype=x.dtype)
    count = torch.tensor([[taken]], dtype=x.dtype)
    return Step(memory[2], tolerance, count, found[:1], found[1:2], found[2:])


def walk_in_place(p: Tensor, g: Tensor, lr: Any, region: Region, steps: int, tol: float, eps: float) -> float:
    """Move a parameter as :func:`compiled_step` says, and return the tolerance; without any account of it.

    ``eps`` is NaN for the relative rule, infinite for the paper's in the first step.
    """
    x, g = p.detach().view(-1), g.detach().view(-1)
    room = torch.empty_like(x) if steps > PENDING else x
    found = _call(x, g, float(lr), region, steps, tol, eps, room, x)
    torch.autograd.graph.increment_version(p)  # autograd does not see what Numba writes
    return float(found[0])


def _call(
    x: Tensor,
    g: Tensor,
    lr: float,
    region: Region,
    steps: int,
    tol: float,
    eps: float,
    room: Tensor,
    out: Tensor,
) -> Any:
    """Call the compiled walk with the numbers of an interval, in the precision of the weights."""
    assert isinstance(region, Interval)
    weights = x.numpy()
    number = weights.dtype.type
    lower, upper = region.lower, region.upper
    return _walk(
        weights, g.numpy(), number(lr), number(0.5 * (upper - lower)), number(0.5 * (upper + lower)),
        number(0.0), number(lower), number(upper), steps, tol, eps, PAPER_BETA, room.numpy(), out.numpy(),
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
    for row in tensors:
        for tensor in row:
            if tensor.dtype != dtype or tensor.layout is not torch.strided or not tensor.is_contiguous():
                return False
    if not same_bits(dtype):
        return False
    _pass(tensors, interval, factor, decay, momentum, nesterov)
    # Autograd does not see what Numba writes.
    torch.autograd.graph.increment_version(tensors[0] + tensors[2] if momentum else tensors[0])
    return True


def _pass(
    tensors: Any, interval: Interval, factor: float, decay: float, momentum: float, nesterov: bool
) -> None:
    table = [[tensor.numel() for tensor in tensors[0]]]
    for row in tensors:
        table.append([tensor.data_ptr() for tensor in row])
    numbers = _numbers(tensors[0][0].dtype, factor, decay, momentum, interval.lower, interval.upper)
    _descend(np.array(table), numbers, nesterov)


@functools.lru_cache(maxsize=64)
def _numbers(dtype: Any, *values: float) -> Any:
    """Return numbers, the same as in the last step more often than not, in the precision of the weights."""
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
        tensors = [[x], [g], [buffer]] if momentum else [[x], [g]]
        _pass(tensors, Interval(-0.9, 0.8), -0.3, decay, momentum, nesterov)
        if decay:
            G = G.add(X, alpha=decay)
        if momentum:
            average.mul_(momentum).add_(G)
            G = G.add(average, alpha=momentum) if nesterov else average
        X.add_(G, alpha=-0.3).clamp_(-0.9, 0.8)
        if not (torch.equal(x, X) and torch.equal(buffer, average)):
            return False
    return True
