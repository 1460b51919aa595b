"""Estimates of the gradient of a finite sum or a stream, from one batch of samples at a time.

An estimator is called with x_0, x_1, ... in turn and returns an estimate v_t of grad F(x_t):

``Minibatch``  the batch's own gradient: unbiased; the noise falls as batches grow
``Momentum``   (1 - rho_t) v_{t-1} + rho_t grad F_B(x_t): averages old gradients, at the cost of a lag
               (Mokhtari, Hassani and Karbasi 2020)
``Spider``     v_{t-1} + grad F_B(x_t) - grad F_B(x_{t-1}), restarted from a large batch every ``period``
               steps (Fang et al. 2018; Yurtsever, Sra and Cevher 2019)
``Storm``      (1 - rho_t) (v_{t-1} - grad F_B(x_{t-1})) + grad F_B(x_t): both ideas, without large batches
               (Cutkosky and Orabona 2019)

The weights are Mokhtari et al.'s rho_t = 4 / (t + 8)^(2/3).  Batches have ``ceil(batch growth^t)`` samples;
one with all m components gives the gradient itself (``exact``).  A component's gradient at one point is one
sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dcfw._arrays import Array
from dcfw.functions.base import Linearisation

LARGE = 1e15  # the largest batch of a stream, lest the exponential overflow


class Samples:
    """A finite sum or stream with a generator, a sample count and an optional ``check`` of answers."""

    def __init__(
        self,
        source: Any,
        rng: np.random.Generator,
        check: Callable[[Array, Linearisation, str], None] | None = None,
    ) -> None:
        self.source, self.rng, self.check = source, rng, check
        self.m: int | None = source.m
        self.n_samples = 0

    def whole(self, size: int) -> bool:
        return self.m is not None and size >= self.m

    def draw(self, size: int) -> Any:
        return None if self.whole(size) else self.source.draw(self.rng, size)

    def linearise(self, x: Array, batch: Any, size: int) -> Linearisation:
        """Return the mean value and gradient over a batch of ``size`` samples (all of them if None)."""
        self.n_samples += size if self.m is None else min(size, self.m)
        answer: Linearisation = self.source.batch_linearise(x, batch)
        if self.check is not None:
            self.check(x, answer, "grad, or batch_grad for all indices," if batch is None else "batch_grad")
        return answer


class Minibatch:
    """The gradient of a batch; the base class of the others."""

    exact = False  # whether the last estimate is the gradient itself

    def __init__(self, samples: Samples, batch: int, growth: float, period: int) -> None:
        self.samples, self.batch, self.growth, self.period = samples, batch, growth, period
        self.t = 0
        self.x: Array = None
        self.v: Array = None

    def get_state(self) -> dict[str, Any]:
        return {"t": self.t, "x": self.x, "v": self.v, "exact": self.exact}

    def set_state(self, state: dict[str, Any]) -> None:
        self.t, self.x, self.v, self.exact = (state[name] for name in ("t", "x", "v", "exact"))

    def size(self, t: int) -> int:
        size = self.batch * self.growth**t if t * math.log(self.growth) < 30.0 else LARGE
        return math.ceil(min(size, LARGE if self.samples.m is None else self.samples.m))

    def __call__(self, x: Array) -> Linearisation:
        size = self.size(self.t)
        batch = self.samples.draw(size)
        here = self.samples.linearise(x, batch, size)
        self.exact = self.samples.whole(size)
        if self.v is not None and not self.exact:
            here = here._replace(slope=self.combine(here.slope, batch, size))
        self.x, self.v = x, here.slope
        self.t += 1
        return here

    def combine(self, here: Array, batch: Any, size: int) -> Array:
        return here

    def before(self, batch: Any, size: int) -> Array:
        return self.samples.linearise(self.x, batch, size).slope

    def rho(self) -> float:
        return min(4.0 * math.pow(self.t + 8.0, -2.0 / 3.0), 1.0)


class Momentum(Minibatch):
    """A weighted average of the last estimate and the batch's gradient."""

    def combine(self, here: Array, batch: Any, size: int) -> Array:
        rho = self.rho()
        return (1.0 - rho) * self.v + rho * here


class Spider(Minibatch):
    """The last estimate plus a difference of gradients, restarted from large batches."""

    def size(self, t: int) -> int:
        if t % self.period:
            return super().size(t)
        return self.samples.m or self.period * super().size(t)

    def combine(self, here: Array, batch: Any, size: int) -> Array:
        if self.t % self.period == 0:
            return here
        return self.v + here - self.before(batch, size)


class Storm(Minibatch):
    """The batch's gradient plus a damped error of the last estimate on this batch."""

    def combine(self, here: Array, batch: Any, size: int) -> Array:
        return here + (1.0 - self.rho()) * (self.v - self.before(batch, size))


ESTIMATORS: dict[str, type[Minibatch]] = {
    kind.__name__.lower(): kind for kind in (Minibatch, Momentum, Spider, Storm)
}
