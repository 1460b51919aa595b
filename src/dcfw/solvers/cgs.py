"""CGS: nonconvex conditional gradient sliding (Qu, Li and Xu 2018), the paper's second rival on the QAP.

In the published form lambda = beta and alpha_1 = 1, so X_md = X: it is sliding with the constant 2L, without
momentum.  ``CGS(momentum=True)`` has lambda > beta and two inner loops per outer step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dcfw import _validate
from dcfw._arrays import Array, inner, norm
from dcfw.functions.quadratic import SquaredNorm
from dcfw.result import Status
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop

LOST = 1e-6  # the part of an FW gap that may be rounding


@dataclass(frozen=True)
class CGS:
    """Inexact proximal gradient steps, each solved by Frank-Wolfe under the tolerance rule.

    L is the smoothness constant of phi (phi's own if None), and beta = 1/(2L). Without momentum lambda =
    beta, the published form; with it lambda_t = (1 + alpha_t/4) beta, alpha_t = 2/(t+1).
    """

    L: float | None = None
    momentum: bool = False
    name = "cgs"
    needs_split = False

    def solve(self, problem: Problem, run: Run) -> None:
        phi, rule = problem.phi, problem.tolerance
        L = self.L if self.L is not None else phi.lipschitz
        if L is None:
            raise ValueError(
                "method 'cgs' needs a Lipschitz constant of phi's gradient: state lipschitz=, or CGS(L=...)"
            )
        L = _validate.scalar(L, "L", low=0.0)
        # 1/beta = 2L, 0 for a linear phi, whose gradient another number might drown.
        square = SquaredNorm(2.0 * L)  # one object, which inner loops recognise
        X = X_ag = problem.x0
        eps: float | None = None
        while True:
            # Always a number, which checkpoints require.
            known = -1.0 if eps is None else eps
            X, X_ag, known, square = run.outer_step((X, X_ag, known, square))
            eps = known if known is not None and known >= 0.0 else None
            alpha = 2.0 / (run.nit + 2.0)
            X_md = (1.0 - alpha) * X_ag + alpha * X if self.momentum else X
            grad = run.grad_f(phi, X_md)
            near = SquaredNorm(2.0 * L / (1.0 + 0.25 * alpha)) if self.momentum else square  # 1/lambda
            fun = run.value_of(phi, X_md, grad)
            with run.ledger.free_gradients():  # not gradients of phi
                for U in self._proximal(problem, run, X, grad, near):
                    if U.k == 1:
                        run.visit(X_md, fun, self._gap(run, X_md, grad, U))
                        if U.gap <= 0.0 and not self.momentum:
                            text = f"The gradient of phi is lost in the rounding of 2 L x with L = {L:.3g}."
                            raise Stop(Status.NO_PROGRESS, text)
                        if U.gap <= 0.0:
                            break
                        eps = run.tolerance(rule, eps, U.gap)
                    if rule.enough(U.gap, run.eps, U.decrease):
                        break
            X = U.x
            # The last LMO call of the budget is reserved for the next visit.
            if self.momentum and run.n_lmo + 1 < run.max_lmo:
                with run.ledger.free_gradients():
                    for U in self._proximal(problem, run, X_md, grad, square):
                        if rule.enough(U.gap, run.eps, U.decrease):
                            break
                X_ag = U.x
            run.end_outer_step()

    def _gap(self, run: Run, x: Array, grad: Array, U: State) -> float:
        """Return the FW gap of phi at x, from the loop's first vertex unless grad + c - c lost its digits."""
        assert U.S is not None
        gap = max(inner(grad, x) - U.S.inner(grad) + run.lmo_error, 0.0)
        lost = norm(U.grad - U.linear - grad)
        if lost * (norm(x) + norm(U.S.dense())) <= LOST * gap:
            return gap
        if run.n_lmo < run.max_lmo:
            return max(gap, run.lmo(grad, x)[1])
        return gap + 2.0 * lost * run.extent(grad)

    def _proximal(
        self, problem: Problem, run: Run, centre: Array, grad: Array, quadratic: SquaredNorm
    ) -> Iterator[State]:
        here = quadratic.grad(centre)
        step = problem.rule.bind(quadratic, problem.domain)
        return problem.inner(run, quadratic, centre, here, step, linear=here - grad, max_steps=run.max_inner)
