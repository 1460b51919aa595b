"""Second-order sliding: each step minimises the quadratic model of f over the set.

The model at X, with the Hessian H there, is minimised by blended steps (:mod:`dcfw.solvers.active`) to a
tenth of the FW gap at X, and more tightly as the gap falls, so that convergence is superlinear where H is
positive definite.  A line search towards its minimiser follows.  It pays where a gradient is expensive
compared with a column of H, or f is ill conditioned.  A product with H counts as a gradient of f.

References: Carderera and Pokutta 2020 (second-order conditional gradient sliding); Halbey, Rakotomandimby,
Besancon, Designolle and Pokutta 2025 (with quadratic corrections).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dcfw._arrays import Array, inner, like
from dcfw.functions.quadratic import Quadratic
from dcfw.sets.atoms import Dense
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.loop import InnerLoop, State, smooth_step, too_small
from dcfw.steps import Exact


class SecondOrderLoop(InnerLoop):
    """Inner loop with second-order steps, for one solve of a convex f with ``hessian(x)``.

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((40, 5))
    >>> f = functions.LogisticLoss(A, np.sign(A[:, 0] + rng.standard_normal(40)))
    >>> res = dcfw.minimize(f, sets.L1Ball(5, 2.0), method="dcfw", inner="second-order")
    >>> res.success, res.n_grad_f < 60
    (True, True)
    """

    def __init__(self, loop: ActiveLoop) -> None:
        self.loop = loop
        self.first = 0.0  # the first FW gap of the solve

    def get_state(self) -> dict[str, Any]:
        return {"loop": self.loop.get_state(), "first": self.first}

    def set_state(self, state: dict[str, Any]) -> None:
        self.loop.set_state(state["loop"])
        self.first = state["first"]

    def steps(self, X: State) -> Iterator[State]:
        run = X.run
        while True:
            if X.outer:
                run.outer_step()
            G = X.slope()
            X.ask(G)
            gap = X.gap
            self.first = self.first or gap
            yield X
            run.before_step(X)
            end = self._model_minimiser(X, G, gap)
            slope = inner(G, X.x) - inner(G, end)
            if not slope > 0.0:
                raise too_small(X)
            eta = smooth_step(X, Dense(end), slope)
            self.loop.follow(eta - 1.0, X.x)  # the atoms make up X.x, at eta on the way to the minimiser
            self.loop.active = None if self.loop.active is None else self.loop.active.copy()
            self.loop._last = X.x
            if not X.advance():
                return

    def _model_minimiser(self, X: State, G: Array, gap: float) -> Array:
        try:
            model = Quadratic(like(X.f.hessian(X.x), X.x), convex=True)
        except NotImplementedError as error:
            raise ValueError(f"inner='second-order': {error}; use inner='descent'") from None
        pull = model.grad(X.x)
        aim = gap * min(0.1, gap / self.first)
        step = Exact().bind(model, None)
        for Y in self.loop(X.run, model, X.x, pull, step, linear=pull - G, max_steps=10_000):
            if Y.gap <= aim:
                break
        self.loop._last = Y.x
        return Y.x
