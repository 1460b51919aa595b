"""The Frank-Wolfe loop over the Birkhoff polytope, compiled.

On small matrices Python's own overhead would cost as much as the mathematics, so the loop of
:mod:`dcfw.solvers.loop` exists here once more, for :class:`~dcfw.qap.quadratics.MatrixQuadratic` functions
with exact line search, in one kernel from the assignment problem to the update.  The solvers around it are
the same: :class:`Loop` is an inner loop for them, with the same states, counts and certificates, and is
tested to give the same iterates as the generic one.

The kernel runs in slices of some milliseconds, so that a time limit, a callback or Ctrl-C is honoured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcfw._arrays import Array
from dcfw._compiling import njit
from dcfw.qap.gradients import Packed, pack, vertex_gradient
from dcfw.qap.quadratics import MatrixQuadratic
from dcfw.result import ROW, Status
from dcfw.sets import lap_numba as lap
from dcfw.sets.atoms import Permutation
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop
from dcfw.tolerances import Adaptive, Fixed, Progress

# Why the kernel returned.
GAP_MET, STEPS_DONE, NEGATIVE, TINY, BAD = 0, 1, 2, 3, 4

# Entries of the kernel's array of scalars.
_GAP, _GAINED, _BOUND, _CURVATURE, _SCALARS = range(5)

_SLICE = 0.02  # seconds
_EPS = 2.0**-52  # the machine epsilon


@njit()
def _steps(  # type: ignore[no-untyped-def]
    f, linear, X, grad, G, change, gathered, product,
    real, index, scalars, gaps, gains,
    threshold, progress, convex, started, steps, measured,
):  # fmt: skip
    """Take Frank-Wolfe steps until the gap meets the threshold (or, with progress, what was gained).

    ``started`` says that the vertex at X is in ``index[0]`` and the gap is up to date, so that the step comes
    first; ``measured`` that the gap after the last step is wanted.  Returns the reason, the number of steps
    and of assignment problems solved.
    """
    n = X.shape[0]
    p = index[0]
    solved = 0
    if linear.shape[0] == 0:
        G = grad  # nothing is subtracted, so nothing need be copied
    Xf, Gf, changef, gradf = X.reshape(n * n), G.reshape(n * n), change.reshape(n * n), grad.reshape(n * n)
    linearf = linear.reshape(linear.size)
    for k in range(steps + 1):
        if k == steps and not measured:
            scalars[_GAP] = np.inf
            break
        if not (started and k == 0):
            for i in range(linearf.shape[0]):
                Gf[i] = gradf[i] - linearf[i]
            status = lap.solve(G, real, index)
            solved += 1
            if status != 0:
                return BAD, k, solved
            gap = np.dot(Gf, Xf)
            for i in range(n):
                gap -= G[i, p[i]]
            gap = max(gap, 0.0)
            scalars[_GAP] = gap
            scalars[_BOUND] = min(scalars[_BOUND], scalars[_GAINED] + gap)
            gaps[k] = gap
            gains[k] = scalars[_GAINED]
            if gap <= (scalars[_GAINED] if progress else threshold):
                return GAP_MET, k, solved
        if k == steps:
            break
        gap = scalars[_GAP]
        vertex_gradient(f, p[:n], gathered, product, change)
        for i in range(n * n):
            changef[i] -= gradf[i]
        curvature = -np.dot(Xf, changef)
        for i in range(n):
            curvature += change[i, p[i]]
        if curvature < 0.0 and convex:
            size = np.sqrt(np.dot(changef, changef)) * (np.sqrt(np.dot(Xf, Xf)) + np.sqrt(n))
            if curvature < -64.0 * _EPS * size:
                scalars[_CURVATURE] = curvature
                return NEGATIVE, k, solved
            curvature = 0.0
        if curvature <= 0.0 or gap >= curvature:
            eta = 1.0
        else:
            eta = gap / curvature
        if eta < 0.25 * _EPS:
            return TINY, k, solved
        for i in range(n * n):
            Xf[i] *= 1.0 - eta
            gradf[i] += eta * changef[i]
        for i in range(n):
            X[i, p[i]] += eta
        scalars[_GAINED] += eta * (gap - 0.5 * eta * curvature)
    return STEPS_DONE, steps, solved


class Kernel:
    """The arrays of one solve, and the calls of the compiled loop on them."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.real, self.index = lap.workspace(n)
        self.G, self.change = np.empty((n, n)), np.empty((n, n))
        self.gathered, self.product = np.empty((n, n)), np.empty((n, n))
        self.scalars = np.zeros(_SCALARS)
        self.gaps, self.gains = np.empty(1), np.empty(1)
        self.seconds_per_step = 0.0
        self._packed: dict[int, tuple[MatrixQuadratic, Packed]] = {}

    def pack(self, f: MatrixQuadratic) -> Packed:
        """Return f's matrices as the kernels take them."""
        if id(f) not in self._packed:
            self._packed[id(f)] = (f, pack(f))
        return self._packed[id(f)][1]

    def slice_length(self) -> int:
        """How many steps fit in a slice of time."""
        if self.seconds_per_step == 0.0:
            return max(1, int(4e6 / self.n**3))  # a cautious guess: a step of n = 100 takes some 0.3 ms
        return int(min(max(_SLICE / self.seconds_per_step, 1.0), 100_000.0))

    def __call__(
        self,
        f: MatrixQuadratic,
        X: np.ndarray,
        grad: np.ndarray,
        linear: np.ndarray | None,
        *,
        threshold: float,
        progress: bool,
        convex: bool,
        started: bool,
        steps: int,
        measured: bool = True,
    ) -> tuple[int, int, int]:
        if len(self.gaps) < steps + 1:
            self.gaps, self.gains = np.empty(steps + 1), np.empty(steps + 1)
        begun = time.perf_counter()
        answer = _steps(
            self.pack(f), np.empty((0, 0)) if linear is None else linear,
            X, grad, self.G, self.change, self.gathered, self.product, self.real, self.index,
            self.scalars, self.gaps, self.gains, threshold, progress, convex, started, steps,
            measured,
        )  # fmt: skip
        if answer[1] > 0:
            self.seconds_per_step = (time.perf_counter() - begun) / answer[1]
        return answer  # type: ignore[no-any-return]

    @property
    def gap(self) -> float:
        return float(self.scalars[_GAP])

    @property
    def columns(self) -> np.ndarray:
        return self.index[0, : self.n].copy()

    def end(self, code: int, run: Run, k: int = 0) -> None:
        """End the run for one of the kernel's abnormal reasons."""
        if code == NEGATIVE:
            raise Stop(
                Status.NOT_CONVEX,
                f"In outer step {run.nit + 1}, after {run.n_inner} steps, the curvature along the step is "
                f"{self.scalars[_CURVATURE]:.3g}; use a larger L.",
            )
        if code == TINY:
            raise Stop(
                Status.NO_PROGRESS, f"Steps have become smaller than rounding at an FW gap of {self.gap:.3g}."
            )
        if code == BAD:
            raise Stop(Status.BAD_ORACLE, f"the gradient is not finite after {run.n_inner} steps.")


class Loop:
    """The compiled loop in the place of :func:`dcfw.solvers.loop.frank_wolfe`, for one solve.

    ``trust`` says that f is convex only under an assumption (the published constant L): negative curvature
    along a step then means a full step, as in the authors' code, and does not end the run.
    """

    def __init__(self, n: int, trust: bool = False) -> None:
        self.kernel = Kernel(n)
        self.trust = trust
        self._squared: MatrixQuadratic | None = None

    def __call__(
        self,
        run: Run,
        f: Any,
        x: Array,
        grad: Array,
        step: Any,
        *,
        linear: Any = None,
        value: float | None = None,
        convex: bool = True,
        merit: Any = None,
        max_steps: float = math.inf,
    ) -> Iterator[State]:
        kernel = self.kernel
        if not isinstance(f, MatrixQuadratic):
            f = self._square(f.scale)  # a SquaredNorm, from CGS
        X = State(run, f, x.copy(), grad.copy(), value)
        X.linear = linear
        kernel.scalars[:] = (math.inf, 0.0, math.inf, 0.0)
        done = 0
        known = False  # whether the vertex and the gap at X are
        while True:
            steps, last = 0, False
            if known:
                run.before_step(X)
                steps, last = self._slice(run, done, max_steps)
            resync = steps > 0 and run.since_resync + steps >= run.resync_period
            seen = known or done > 0  # whether X_1 has been yielded, so that the tolerance is set
            code, taken, solved = kernel(
                f, X.x, X.grad, linear, threshold=0.5 * run.eps if seen else -1.0,
                progress=seen and type(run.rule) is Progress, convex=convex and not self.trust,
                started=known, steps=steps, measured=not (last or resync),
            )  # fmt: skip
            done += taken
            run.n_lmo += solved
            run.n_inner += taken
            run.n_grad_f += taken + (code in (NEGATIVE, TINY))
            X.k += taken
            X.gap, X.gained, X.bound = (float(v) for v in kernel.scalars[:3])
            X.value = None
            kernel.end(code, run, X.k)
            known = not self._resync(run, f, X, taken)
            if last:
                return
            if known and (done == 0 or code == GAP_MET or self._stepwise(run)):
                X.S = Permutation(kernel.columns)
                yield X

    def _slice(self, run: Run, done: int, max_steps: float) -> tuple[int, bool]:
        """Return how many steps to take now, and whether they are the last ones of this loop.

        As in the generic loop, the last call of the LMO budget is left for the point that is returned.  A
        slice ends where a fresh gradient is due, so that results do not depend on the clock.
        """
        steps = 1 if self._stepwise(run) else self.kernel.slice_length()
        left = min(max_steps - done, max(run.max_lmo - run.n_lmo, 1))
        steps = int(min(steps, left, run.resync_period - run.since_resync))
        return steps, steps >= left

    def _stepwise(self, run: Run) -> bool:
        """Whether somebody wants to see every step (a tolerance rule of the user's own)."""
        return type(run.rule) not in (Adaptive, Fixed, Progress)

    @staticmethod
    def _resync(run: Run, f: MatrixQuadratic, X: State, taken: int) -> bool:
        """Count the steps; take the gradient afresh where that is due, and tell if so."""
        run.since_resync += taken
        if run.since_resync < run.resync_period:
            return False
        X.grad[:] = f.grad(X.x)
        run.n_resync += 1
        run.since_resync = 0
        return True

    def _square(self, scale: float) -> MatrixQuadratic:
        if self._squared is None or self._squared.weight != scale:
            self._squared = MatrixQuadratic([], n=self.kernel.n, weight=scale, convex=True)
        return self._squared


@dataclass(frozen=True)
class CompiledFW:
    """Frank-Wolfe on phi, compiled: :class:`dcfw.solvers.fw.FW` with the rows of a slice written at once."""

    name = "fw"
    needs_split = False

    def solve(self, problem: Problem, run: Run) -> None:
        phi = problem.phi
        assert isinstance(phi, MatrixQuadratic)
        kernel = Kernel(phi.n)
        x = problem.x0.copy()
        grad = run.grad_f(phi, x)
        first = run.value_of(phi, x, grad)
        kernel.scalars[:] = (math.inf, 0.0, math.inf, 0.0)
        advance = partial(kernel, phi, x, grad, None, progress=False, convex=False)
        steps, threshold = 0, -1.0
        while True:
            begun = time.perf_counter()
            resync = steps > 0 and run.since_resync + steps >= run.resync_period
            code, taken, solved = advance(
                threshold=threshold, started=run.n_lmo > 0, steps=steps, measured=not resync
            )
            self._record(run, kernel, first, taken, begun)
            run.n_inner += taken
            run.since_resync += taken
            if run.since_resync >= run.resync_period:
                grad[:] = phi.grad(x)
                run.n_resync += 1
                run.since_resync = 0
                code, _, more = advance(threshold=threshold, started=False, steps=0)
                solved += more
            run.n_lmo += solved
            run.n_grad_f += taken + (code == TINY)
            run.nit = run.n_inner
            if code == BAD:
                kernel.end(code, run)
            run.visit(x.copy(), first - float(kernel.scalars[_GAINED]), kernel.gap)
            kernel.end(code, run)
            assert run.threshold is not None
            threshold = run.threshold
            # A slice ends where a fresh gradient is due, so that results do not depend on the clock.
            steps = 1 if run.callback is not None else kernel.slice_length()
            limits = (run.maxiter - run.nit, run.max_lmo - run.n_lmo, run.resync_period - run.since_resync)
            steps = int(min(steps, *limits))

    @staticmethod
    def _record(run: Run, kernel: Kernel, first: float, taken: int, begun: float) -> None:
        """Write the rows of the steps between two visits (the last one is written by the visit)."""
        if taken < 2:
            return
        pace = (time.perf_counter() - begun) / taken
        k = np.arange(1, taken)
        gaps, gains = kernel.gaps[1:taken], kernel.gains[1:taken]
        least = int(np.argmin(gaps))
        if gaps[least] < run.dc_gap[1]:
            run.dc_gap, run.dc_gap_nit = (0.0, float(gaps[least])), run.nit + least + 1
        # All rows in one array: made one by one, they would cost as much as the steps.
        rows = np.empty(taken - 1, dtype=ROW)
        rows["nit"], rows["n_inner"] = run.nit + k, run.n_inner + k
        rows["fun"], rows["gap"] = first - gains, gaps
        rows["dc_low"], rows["dc_high"], rows["eps"] = 0.0, gaps, math.nan
        rows["n_lmo"], rows["n_grad_f"] = run.n_lmo + k, run.n_grad_f + k
        rows["n_grad_g"], rows["n_fun"] = run.n_grad_g, run.n_fun
        rows["time"] = begun - run.started + k * pace
        run.history.extend(rows)
