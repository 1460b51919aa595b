"""The compiled Frank-Wolfe loop over the Birkhoff polytope.

On small matrices Python's overhead costs as much as the mathematics, so :mod:`dcfw.solvers.loop` has a copy
in C++ (``kernels/native/frank_wolfe.hpp``) for :class:`~dcfw.qap.quadratics.MatrixQuadratic` functions with
exact line search, with the same iterates, counts and certificates.  The kernel runs in slices of some
milliseconds, so that time limits, callbacks and Ctrl-C work, and returns a batch for the ledger.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcfw import kernels
from dcfw._arrays import Array
from dcfw.qap.quadratics import MatrixQuadratic
from dcfw.result import Status
from dcfw.sets.atoms import Permutation
from dcfw.solvers.active import nearly_done
from dcfw.solvers.ledger import Batch
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop
from dcfw.tolerances import Adaptive, Fixed, Progress

GAP_MET, STEPS_DONE, NEGATIVE, TINY, BAD, SHORT = range(6)  # the kernel's reasons to return
_SLICE = 0.02  # seconds


def pack(f: MatrixQuadratic) -> Any:
    assert kernels.native is not None
    packed = kernels.native.Quadratic(f.n, f.weight)
    as_floats = partial(np.ascontiguousarray, dtype=np.float64)
    for pair in f.pairs:
        packed.add_pair(*map(as_floats, pair))
    for factors in f.thin:
        packed.add_thin(*map(as_floats, factors))
    for put, matrix in ((packed.set_left, f.left), (packed.set_right, f.right), (packed.set_linear, f.C)):
        if matrix is not None:
            put(as_floats(matrix))
    return packed


class Kernel:
    def __init__(self, n: int, solver: Any = None) -> None:
        assert kernels.native is not None
        self.n = n
        self.solver = kernels.native.FrankWolfe(n) if solver is None else solver
        self.seconds_per_step = 0.0
        self._packed: dict[int, tuple[MatrixQuadratic, Any]] = {}

    def pack(self, f: MatrixQuadratic) -> Any:
        if id(f) not in self._packed:
            self._packed[id(f)] = (f, pack(f))
        return self._packed[id(f)][1]

    def slice_length(self) -> int:
        if self.seconds_per_step == 0.0:
            return max(1, int(1e8 / self.n**3))  # a guess: a step of n = 100 takes about 0.1 ms
        return int(min(max(_SLICE / self.seconds_per_step, 1.0), 100_000.0))

    def __call__(
        self, f: MatrixQuadratic, X: np.ndarray, grad: np.ndarray, linear: np.ndarray | None, **plan: Any
    ) -> Any:
        """Execute a plan (``frank_wolfe.hpp``), update X and grad and return the batch of steps."""
        assert kernels.native is not None
        start = time.perf_counter()
        batch = self.solver.advance(self.pack(f), X, grad, linear, kernels.native.Plan(**plan))
        if batch.steps > 0:
            self.seconds_per_step = (time.perf_counter() - start) / batch.steps
        return batch

    def end(self, batch: Any, run: Run) -> None:
        if batch.reason == NEGATIVE:
            raise Stop(
                Status.NOT_CONVEX,
                f"In outer step {run.nit + 1}, after {run.n_inner} steps, the curvature along the step is "
                f"{batch.curvature:.3g}; use a larger L.",
            )
        if batch.reason == TINY:
            raise Stop(
                Status.NO_PROGRESS,
                f"Steps have become smaller than rounding at an FW gap of {self.solver.gap:.3g}.",
            )
        if batch.reason == BAD:
            raise Stop(Status.BAD_ORACLE, f"the gradient is not finite after {run.n_inner} steps.")


class Loop:
    """The compiled replacement of :func:`dcfw.solvers.loop.frank_wolfe` for one solve.

    With ``trust`` f is assumed convex (the published constant L): negative curvature along a step then means
    a full step, as in the authors' code, and does not end the run.
    """

    def __init__(self, n: int, trust: bool = False) -> None:
        self.kernel = Kernel(n)
        self.trust = trust
        self._rows = np.arange(n)
        self._squared: MatrixQuadratic | None = None

    def __call__(
        self, run: Run, f: Any, x: Array, grad: Array, step: Any, *, linear: Any = None,
        value: float | None = None, convex: bool = True, merit: Any = None, max_steps: float = math.inf,
    ) -> Iterator[State]:  # fmt: skip
        surrogate = linear is not None and isinstance(f, MatrixQuadratic)
        if not isinstance(f, MatrixQuadratic):  # a SquaredNorm, from CGS
            if self._squared is None or self._squared.weight != f.scale:
                self._squared = MatrixQuadratic([], n=self.kernel.n, weight=f.scale, convex=True)
            f = self._squared
        X = State(run, f, x.copy(), grad.copy(), value)
        X.linear = linear
        kernel = self._kernel_of(x, X) if surrogate else self.kernel
        convex = kernel is not self.kernel or (convex and not self.trust)
        yield from self.steps(kernel, run, X, convex=convex, max_steps=max_steps)

    def _kernel_of(self, x: Array, X: State) -> Kernel:
        """Return the kernel for a surrogate from x; a subclass has one with an active set."""
        return self.kernel

    def steps(self, kernel: Kernel, run: Run, X: State, *, convex: bool, max_steps: float) -> Iterator[State]:
        """Make up to ``max_steps`` steps and yield X whenever the run must check it."""
        kernel.solver.begin()
        done = 0
        known = False  # whether the vertex and the gap at X are known
        while True:
            steps, last = 0, False
            if known:
                run.before_step(X)
                steps, last = self._slice(kernel, run, done, max_steps)
            resync = steps > 0 and run.ledger.since_resync + steps >= run.resync_period
            seen = known or done > 0  # whether X_1 has been yielded, so that the tolerance is set
            assert isinstance(X.f, MatrixQuadratic)
            batch = kernel(
                X.f, X.x, X.grad, X.linear, threshold=0.5 * run.eps if seen else -1.0,
                progress=seen and type(run.rule) is Progress, convex=convex,
                started=known, steps=steps, measured=not (last or resync),
            )  # fmt: skip
            done += batch.steps
            run.ledger.book(Batch(batch.steps, batch.solved, batch.gradients))
            X.k += batch.steps
            X.gap, X.gained, X.bound = kernel.solver.gap, kernel.solver.gained, kernel.solver.bound
            X.value = None
            if batch.reason == TINY and kernel is not self.kernel and nearly_done(run, X):
                return
            kernel.end(batch, run)
            known = not self._resync(kernel, run, X, batch.steps)
            if last:
                return
            if known and (done == 0 or batch.reason == GAP_MET or _stepwise(run)):
                X.S = Permutation(kernel.solver.vertex, self._rows)
                yield X

    def _slice(self, kernel: Kernel, run: Run, done: int, max_steps: float) -> tuple[int, bool]:
        """Return the number of steps to take now, and whether they are the last ones of this loop."""
        # The last call of the LMO budget is reserved for the returned point.  A slice ends when the gradient
        # must be recomputed, so that results do not depend on the clock.
        steps = 1 if _stepwise(run) else kernel.slice_length()
        left = min(max_steps - done, max(run.max_lmo - run.n_lmo, 1))
        steps = int(min(steps, left, run.resync_period - run.ledger.since_resync))
        return steps, steps >= left

    def _resync(self, kernel: Kernel, run: Run, X: State, taken: int) -> bool:
        """Count the steps, recompute the gradient if that is due, and return whether it was."""
        if not run.ledger.resync_due(run.resync_period, taken):
            return False
        if kernel is not self.kernel:
            kernel.solver.normalise(X.x)
        X.grad[:] = X.f.grad(X.x)
        run.ledger.count_resync()
        return True


def _stepwise(run: Run) -> bool:
    """Return whether a user-defined tolerance rule must see every step."""
    return type(run.rule) not in (Adaptive, Fixed, Progress)


@dataclass(frozen=True)
class CompiledFW:
    """Compiled Frank-Wolfe on phi: :class:`dcfw.solvers.fw.FW`, with the rows of a slice written at once."""

    name = "fw"
    needs_split = False

    def solve(self, problem: Problem, run: Run) -> None:
        phi = problem.phi
        assert isinstance(phi, MatrixQuadratic)
        kernel = Kernel(phi.n)
        x = np.ascontiguousarray(problem.x0)
        grad = run.grad_f(phi, x)
        first = run.value_of(phi, x, grad)
        steps, threshold = 0, -1.0
        while True:
            start = time.perf_counter()
            resync = steps > 0 and run.ledger.since_resync + steps >= run.resync_period
            batch = kernel(
                phi, x, grad, None, threshold=threshold, started=run.n_lmo > 0, steps=steps,
                measured=not resync, convex=False,
            )  # fmt: skip
            taken, between = batch.steps, max(batch.steps - 1, 0)
            fun, gap = (first - batch.gains[:between], batch.gaps[:between]) if between else (None, None)
            run.ledger.book(
                Batch(taken, batch.solved, batch.gradients, True, fun, gap, start, time.perf_counter())
            )
            if run.ledger.resync_due(run.resync_period, taken):
                grad[:] = phi.grad(x)
                run.ledger.count_resync()
                batch = kernel(phi, x, grad, None, threshold=threshold, steps=0, convex=False)
                run.ledger.book(Batch(0, batch.solved, 0))
            if batch.reason == BAD:
                kernel.end(batch, run)
            run.visit(x, first - kernel.solver.gained, kernel.solver.gap)
            kernel.end(batch, run)
            x = x.copy()  # the ledger may keep the last one
            threshold = run.threshold
            # A slice ends when the gradient must be recomputed: results do not depend on the clock.
            steps = 1 if run.callback is not None else kernel.slice_length()
            due = run.resync_period - run.ledger.since_resync
            steps = int(min(steps, run.maxiter - run.nit, run.max_lmo - run.n_lmo, due))
