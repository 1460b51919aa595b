"""FW-K: Khamaru and Wainwright's Frank-Wolfe for DC problems (2019), a new subgradient in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from dcfw import _validate
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run
from dcfw.steps import Scaled


@dataclass(frozen=True)
class FWK:
    """Steps min(gap / C, 1) along the vertex of grad f(x) - u; C defaults to L_f times diameter^2."""

    C: float | None = None
    name = "fw-k"
    needs_split = True

    def solve(self, problem: Problem, run: Run) -> None:
        f, g, x = problem.f, problem.g, problem.x0
        C = self.C
        if C is None:
            missing = [] if f.lipschitz is not None else ["a Lipschitz constant of f (state lipschitz=)"]
            missing += [] if math.isfinite(problem.domain.diameter) else ["the set's diameter"]
            if missing:
                raise ValueError(
                    f"method 'fw-k' needs {' and '.join(missing)}, or the constant of its steps: "
                    "method=dcfw.solvers.fw_k.FWK(C=...)"
                )
            C = float(f.lipschitz) * float(problem.domain.diameter) ** 2  # type: ignore[arg-type]
        C = _validate.scalar(C, "C", low=0.0)
        step = Scaled(C).bind(f, problem.domain)
        for X in frank_wolfe(run, f, x, run.grad_f(f, x), step, linear=partial(run.linearise, g)):
            assert X.tangent is not None
            run.visit(X.x, run.value_of(f, X.x, X.grad, X.value) - X.tangent.value, X.gap)
