"""The problem as a solver sees it, with all names resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from dcfw._arrays import Array
from dcfw.functions.base import Function
from dcfw.sets.base import Set
from dcfw.solvers.loop import State
from dcfw.solvers.run import Run
from dcfw.steps import Step, StepRule
from dcfw.tolerances import Tolerance


@dataclass(frozen=True)
class Problem:
    """min f - g over a set from x0; ``phi`` is f - g as one function, g = 0 without a split."""

    phi: Function
    f: Function
    g: Function
    domain: Set
    x0: Array
    rule: StepRule
    tolerance: Tolerance
    inner: Callable[..., Iterator[State]]
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    @cached_property
    def step(self) -> Step:
        """The step rule bound to f."""
        return self.rule.bind(self.f, self.domain)


class Method(Protocol):
    """The interface of a solver: ``solve`` continues until the run raises ``Stop``."""

    name: str
    needs_split: bool

    def solve(self, problem: Problem, run: Run) -> None: ...
