"""The sets of :mod:`dcfw.sets` for many blocks at once, by tensor operations without host synchronisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

Tensor = Any

APPROACH = 500  # Frank-Wolfe steps that move a start into a set without a projection


class Region:
    """A feasible set for each row of a (blocks, n) tensor; ``bound`` limits ``size`` (NaN: no limit)."""

    @property
    def bound(self) -> float:
        return float(getattr(self, "radius", "nan"))

    def vertex(self, R: Tensor) -> Tensor:
        """Return points of the set that minimise <R, S>, block by block."""
        raise NotImplementedError

    def away(self, R: Tensor, X: Tensor) -> Tensor:
        """Return X - S for a vertex S."""
        return X - self.vertex(R)

    def gap(self, R: Tensor, X: Tensor) -> Tensor:
        """Return the sum over all blocks of max <R, X - S>."""
        return (R * self.away(R, X)).sum()

    def project(self, Z: Tensor) -> Tensor:
        raise NotImplementedError

    def enter(self, Z: Tensor) -> Tensor:
        """Return points of the set near Z: the projection if there is one."""
        return self.project(Z)

    def cap(self, Z: Tensor) -> Tensor:
        """Return points of the set near Z by matrix products alone; elementary sets project."""
        return self.enter(Z)

    def settle(self, X: Tensor) -> Tensor:
        """Remove the rounding errors that may have moved X out of the set, where that is cheap."""
        return X

    def size(self, X: Tensor) -> Tensor:
        """Return the norm that the set bounds, of each block or matrix."""
        return X.new_full((1,), float("nan"))


@dataclass(frozen=True)
class Interval(Region):
    """lower <= x <= upper for every entry; the whole space if the bounds are infinite."""

    lower: float
    upper: float

    @property
    def bound(self) -> float:
        return max(-self.lower, self.upper)

    def vertex(self, R: Tensor) -> Tensor:
        return R.sign().mul_(-0.5 * (self.upper - self.lower)).add_(0.5 * (self.lower + self.upper))

    def away(self, R: Tensor, X: Tensor) -> Tensor:
        """Return X - S; where R_i is zero any S_i is optimal, and S_i = X_i keeps the entry."""
        sign, middle = R.sign(), 0.5 * (self.lower + self.upper)
        half = X.new_full((), 0.5 * (self.upper - self.lower))
        return torch.addcmul(half, X - middle if middle else X, sign).mul_(sign)

    def size(self, X: Tensor) -> Tensor:
        return X.abs().amax(dim=-1)

    def project(self, Z: Tensor) -> Tensor:
        return Z.clamp(self.lower, self.upper)

    def settle(self, X: Tensor) -> Tensor:
        return X.clamp_(self.lower, self.upper)


UNBOUNDED = Interval(-float("inf"), float("inf"))


@dataclass(frozen=True)
class Ball(Region):
    radius: float


class L2(Ball):
    def vertex(self, R: Tensor) -> Tensor:
        return R / _length(R) * -self.radius  # in this order: zero stays zero

    def project(self, Z: Tensor) -> Tensor:
        return Z * (self.radius / _length(Z)).clamp(max=1.0)

    def settle(self, X: Tensor) -> Tensor:
        return self.project(X)

    def size(self, X: Tensor) -> Tensor:
        return torch.linalg.vector_norm(X, dim=-1)


class L1(Ball):
    def vertex(self, R: Tensor) -> Tensor:
        index = R.abs().argmax(dim=-1, keepdim=True)
        return torch.zeros_like(R).scatter_(-1, index, R.gather(-1, index).sign() * -self.radius)

    def project(self, Z: Tensor) -> Tensor:
        size = Z.abs()
        inside = size.sum(dim=-1, keepdim=True) <= self.radius
        return torch.where(inside, Z, torch.copysign(_lowered(size, self.radius), Z))

    def size(self, X: Tensor) -> Tensor:
        return X.abs().sum(dim=-1)


class Simplex(Ball):
    def vertex(self, R: Tensor) -> Tensor:
        return torch.zeros_like(R).scatter_(-1, R.argmin(dim=-1, keepdim=True), self.radius)

    def project(self, Z: Tensor) -> Tensor:
        return _lowered(Z, self.radius)

    def size(self, X: Tensor) -> Tensor:
        return X.sum(dim=-1)


@dataclass(frozen=True)
class Given(Region):
    """A user-defined set with ``lmo``, and perhaps ``project``, for whole tensors of a shape."""

    domain: Any
    shape: tuple[int, ...]

    def vertex(self, R: Tensor) -> Tensor:
        return self._answer("lmo", R)

    def project(self, Z: Tensor) -> Tensor:
        return self._answer("project", Z)

    def enter(self, Z: Tensor) -> Tensor:
        if hasattr(self.domain, "project"):
            return self.project(Z)
        contains = getattr(self.domain, "contains", None)
        if contains is not None and bool(contains(Z.reshape(self.shape).clone())):
            return Z
        X, outside = _approach(self, Z)
        return Z if contains is None and not outside else X

    def _answer(self, verb: str, X: Tensor) -> Tensor:
        """Return the answer of the user's method, which may overwrite its argument, after checking it."""
        found, who = getattr(self.domain, verb)(X.reshape(self.shape).clone()), type(self.domain).__name__
        if not isinstance(found, torch.Tensor) or found.shape != self.shape:
            got = getattr(found, "shape", type(found).__name__)
            raise ValueError(f"{verb} of {who} must return a tensor of shape {tuple(self.shape)}, got {got}")
        if asking_is_free(found) and not math.isfinite(found.sum()) and not bool(found.isfinite().all()):
            raise ValueError(f"{verb} of {who} returned NaN or Inf; no weight of this tensor was moved")
        return found.to(X.dtype).reshape(X.shape)


def _approach(region: Region, Z: Tensor) -> tuple[Tensor, bool]:
    """Return a point of the set near Z, by Frank-Wolfe steps, and whether they prove that Z is outside."""
    X, first = region.vertex(-Z), None
    for _ in range(APPROACH):
        R = X - Z
        E = region.away(R, X)
        slope, square, curvature = (float((a * b).sum()) for a, b in ((R, E), (R, R), (E, E)))
        first = square if first is None else first
        # If Z were in the set, <R, S> <= <R, Z> would hold, that is <R, X - S> >= ||R||^2.
        if not (slope > 0.01 * square and square > 1e-6 * first):
            break
        X = X - E * min(1.0, slope / curvature)
    return X, slope < 0.9 * square  # with room for rounding


def _length(R: Tensor) -> Tensor:
    """Return the Euclidean length of each block, never zero."""
    # Divide by the largest entry first: squares of small gradients underflow in single precision.
    tiny = torch.finfo(R.dtype).tiny
    largest = R.abs().amax(dim=-1, keepdim=True).clamp_(min=tiny)
    return torch.linalg.vector_norm(R / largest, dim=-1, keepdim=True).mul_(largest).clamp_(min=tiny)


def _lowered(a: Tensor, budget: float) -> Tensor:
    """Return max(a_i - theta, 0) with theta such that each row has the sum ``budget``."""
    # Shifted to a maximum of 0, theta is at least -budget, and entries below that are zero.
    a = (a - a.amax(dim=-1, keepdim=True)).clamp_(min=-budget)
    theta = torch.full_like(a[..., :1], -budget)
    # Newton's method from the left ends at the piece of the answer.  Each step divides excess times slope,
    # at first at most n^2 budget, by 4 at least: this many steps leave no more than rounding.
    for _ in range(a.shape[-1].bit_length() + (12 if a.dtype == torch.float32 else 27)):
        rest = (a - theta).clamp_(min=0.0)
        excess = rest.sum(dim=-1, keepdim=True) - budget
        new = theta + excess / rest.sign_().sum(dim=-1, keepdim=True)  # faster than a count of bools
        if asking_is_free(a) and not bool((new > theta).any()):
            break
        theta = torch.maximum(theta, new)
    rest = (a - theta).clamp_(min=0.0)
    return rest.mul_(budget / rest.sum(dim=-1, keepdim=True))  # rounding of theta counts for each entry


def asking_is_free(Z: Tensor) -> bool:
    """Return whether a number can be read without waiting for a device or breaking a graph."""
    return Z.device.type == "cpu" and not torch.compiler.is_compiling()
