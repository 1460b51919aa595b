"""How the published alignment experiment was run, where that differs from the paper's text and from ours.

The authors' DC-FW takes the step 2/(t_k + 1) with t_k counting the steps of *all* inner loops, ends an inner
loop when its gap is at most eps (not eps/2), and sets eps to 0.8 times a gap that falls below it.  Each is a
rule of its own, so that the one Frank-Wolfe loop runs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dcfw.functions.base import Function
from dcfw.steps import OpenLoop, Step
from dcfw.tolerances import Adaptive

PROTOCOLS = ("text", "published")


@dataclass(frozen=True)
class GlobalOpenLoop:
    """The step 2/(t_k + 1), t_k = 1, 2, ... from the first step of the first inner loop on.

    Examples
    --------
    >>> step = GlobalOpenLoop().bind(None, None)
    >>> step(None), step(None)
    (1.0, 0.6666666666666666)
    """

    def bind(self, f: Function, domain: Any) -> Step:
        counter = itertools.count(1)
        return lambda segment: 2.0 / (next(counter) + 1.0)


@dataclass(frozen=True)
class WholeAdaptive(Adaptive):
    """The adaptive tolerance with an inner loop that ends at a gap of eps instead of eps/2.

    Examples
    --------
    >>> rule = WholeAdaptive(0.8)
    >>> rule.next(None, 10.0), rule.next(8.0, 9.0), rule.next(8.0, 5.0)
    (8.0, 8.0, 4.0)
    """

    update: str = "published"

    def next(self, eps: float | None, gap: float) -> float:
        if eps is None:
            return self.beta * gap
        if gap > eps:
            return eps
        shrunk = self.beta * (gap if self.update == "published" else eps)
        return shrunk if gap > shrunk else self.beta * gap

    def enough(self, gap: float, eps: float, decrease: Callable[[], float]) -> bool:
        return gap <= eps


def rules(protocol: str | None) -> tuple[Any, Any]:
    """Return the step and the tolerance that a protocol stands for."""
    if protocol == "published":
        return GlobalOpenLoop(), WholeAdaptive(0.8)
    if protocol == "text":
        return OpenLoop(), Adaptive(0.8)
    return "exact", "adaptive"
