"""The inner loop for one block of an interval on a CPU: part by part, and with numbers.

It is the loop of :func:`dcfw.torch.inner.frank_wolfe_steps`, arranged for a processor with caches:

* What a step has written is still in the cache when it is looked at, if the weights are treated in parts.
* X, R and E = X - S are the rows of one tensor, so that X and R move in one call, and <R, E> and <E, E> are
  one product of a matrix and a vector, which reads E once.
* Gaps and step sizes are Python's numbers, of double precision.  On an accelerator that would mean to wait
  for it each time; here a dozen operations on tensors of one entry cost more than those on a small weight.
* A block that has met its tolerance ends, for asking is free.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from dcfw.torch.regions import Interval, Region, Tensor, asking_is_free

PART = 2**17
"""How many weights are treated at a time: three arrays of 0.5 MB in single precision."""


def takes(x: Tensor, region: Region, metric: Tensor | None, gap: str) -> bool:
    """Tell whether a step is one of those that are treated here."""
    return (
        isinstance(region, Interval)
        and metric is None
        and gap == "fw"
        and x.shape[0] == 1
        and x.dtype in (torch.float32, torch.float64)
        and asking_is_free(x)
    )


class Parts:
    """The point X, the residual R and the way E = X - S of some weights at a time."""

    def __init__(self, x: Tensor, g: Tensor, lr: float, region: Interval, memory: Tensor | None) -> None:
        if memory is None:
            memory = torch.empty((3, *x.shape), dtype=x.dtype, device=x.device)
        self.region, self.answer = region, memory[0]
        self.starts = _split(x[0])
        self.rows: list[tuple[Tensor, ...]] = []
        self.held: list[Tensor | None] = []
        self.sums = torch.empty((len(self.starts), 2), dtype=x.dtype)
        pieces = zip(self.starts, _split(g[0]), _split(memory[:, 0]), self.sums, strict=True)
        for start, slope, rows, sums in pieces:
            X, R, E = rows
            torch.mul(slope, lr, out=R)
            X.copy_(start)
            held = None
            if not R.numpy().all():  # NumPy is five times faster here, and masks are slow
                held = R == 0.0
                # There, with a residual of +0, these coordinates have X_i = S_i and never move.
                R.masked_fill_(held, 0.0)
                X.masked_fill_(held, region.rest(E))
            self.held.append(held)
            self.rows.append((X, R, E, rows[:2], rows[1:], sums))

    def look(self, eta: float | None) -> tuple[float, float]:
        """Take the last step, if there is one, and return <R, X - S> and ||X - S||^2."""
        for X, R, E, moving, looking, sums in self.rows:
            if eta is not None:
                moving.add_(E, alpha=-eta)
            torch.mv(looking, self.region.away(R, X, E), out=sums)
        slope = curvature = 0.0
        for s, c in self.sums.tolist():
            slope, curvature = slope + s, curvature + c
        return slope, curvature

    def end(self, eta: float | None) -> Tensor:
        """Take the last step and return where it leads."""
        for (X, _, E, *_), start, held in zip(self.rows, self.starts, self.held, strict=True):
            if eta is not None:
                X.add_(E, alpha=-eta)
            self.region.settle(X)
            if held is not None:
                torch.where(held, start, X, out=X)
        return self.answer


def walk(
    x: Tensor,
    g: Tensor,
    lr: float,
    region: Region,
    *,
    steps: int,
    tol: float,
    beta: float | None,
    eps: float,
    memory: Tensor | None,
) -> tuple[Tensor, float, int, float, float, float]:
    """Return where the steps lead, and numbers: tolerance, steps taken, first gap, decrease, upper bound.

    The last three are multiplied by 1/L.  ``beta`` is None for the rule relative to the first gap, and the
    factor of the paper's rule otherwise, with its last tolerance ``eps`` (infinite in the first step).
    """
    assert isinstance(region, Interval)
    parts = Parts(x, g, lr, region, memory)
    first, limit, gained, bound = math.nan, 0.0, 0.0, math.inf
    eta, taken = None, 0
    for k in range(steps):
        slope, curvature = parts.look(eta)
        if k == 0:
            first = slope
            if beta is None:
                limit = tol * first
            elif lr:
                if first / lr < eps:
                    eps = beta * (first / lr)
                limit = 0.5 * eps * lr
        if slope <= limit:  # a NaN goes on, and shows, as it does in SGD
            eta = None
            break
        eta = max(min(slope / curvature, 1.0), 0.0) if curvature else 1.0  # in this order: a NaN stays one
        bound = min(gained + slope, bound)
        gained += eta * (slope - 0.5 * eta * curvature)
        taken += 1
    return parts.end(eta), eps, taken, first, gained, max(gained, bound)


def _split(tensor: Tensor) -> Any:
    return tensor.split(PART, dim=-1) if tensor.shape[-1] > PART else (tensor,)  # which takes microseconds


def as_tensors(x: Tensor, *numbers: Any) -> list[Tensor]:
    """Return numbers as tensors of shape (1, 1) like those of all blocks."""
    return list(torch.tensor(numbers, dtype=x.dtype, device=x.device).view(-1, 1, 1))
