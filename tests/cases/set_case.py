"""A feasible set with what the tests need to know of it (see ``set_cases``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """A set, its constraints for cvxpy as a function of (cvxpy, variable), and a test of extremality."""

    domain: Any
    model: Callable[[Any, Any], list]
    extreme: Callable[[Array, float], bool]
    atom: type | tuple[type, ...] | None = None
    """The class of the atoms with which the oracle answers NumPy gradients (None: the older sets' rule)."""
    widest: Array | None = None
    """A direction G with ||lmo(G) - lmo(-G)|| = diameter."""
    diameter_is_a_bound: bool = False
    round: bool | None = None
    """Whether the set is strongly convex (None: by the exponent p of the older sets)."""

    @property
    def name(self) -> str:
        return repr(self.domain)


def near(a: Any, b: Any, tol: float) -> bool:
    return bool(np.allclose(a, b, rtol=0.0, atol=tol))
