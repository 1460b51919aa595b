"""Block-coordinate DC-FW: outer steps that move one block of a product of sets.

On a product the FW gap is a sum over the blocks, and the oracle consists of the blocks' own.  An outer step
linearises g (as a whole) at x_t and minimises the surrogate over block i with the others fixed.

**Passes.**  A pass starts with all b block gaps at x_t; their sum, the FW gap, is tested, recorded and passed
to the tolerance rule.  At most b outer steps follow: ``"cyclic"`` in order, ``"random"`` in a new random
order,
``"gap"`` always on the block with the largest known gap (from the start of the pass or the end of its inner
loop) while one is worth a step.  An inner loop ends when its block's gap is at most 1/b of what DC-FW demands
of the whole gap.  Blocks that meet this at once are skipped; at the start of a pass some block does not.

**One function without a split.**  For a differentiable phi that is neither quadratic nor convex, with
``inner="auto"`` and exact steps, the blocks move together (:mod:`dcfw.solvers.block_steps`).

**Counts.**  ``maxiter`` counts passes of b outer steps each, ``n_lmo`` calls of a block's oracle (``n_lmo /
b`` compares with other methods).  The vertices at the start of a pass serve its first step.  Gradients of f
in one block and updates of the whole gradient count one each.

**Certificates.**  gap_DC(x_t) is at most the FW gap, where that is known (else the history has nan), and at
least the decrease of the surrogate in one block, where g is differentiable.

Reference: Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013 (block-coordinate Frank-Wolfe).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of
from dcfw._protocol import stateless
from dcfw.result import Status
from dcfw.sets.atoms import Atom
from dcfw.sets.base import Oracle
from dcfw.sets.product import ProductOracle, check_blocks
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.dcfw import Iterate, certificate
from dcfw.solvers.loop import State
from dcfw.solvers.problem import Problem
from dcfw.solvers.restriction import QuadraticPart, Slot, SmoothPart
from dcfw.solvers.run import Run, Stop

ORDERS = ("cyclic", "random", "gap")


@dataclass(frozen=True)
class Block:
    """DC-FW on one block of a :class:`dcfw.sets.Product` at a time (``method="block"``).

    Parameters
    ----------
    order : {"cyclic", "random", "gap"}
        The order of the blocks; ``"random"`` draws from the ``rng`` of :func:`dcfw.minimize`.
    steps : int, optional
        The most Frank-Wolfe steps per outer step.  Default: until the block's share of the inner tolerance is
        met.  1 is block-coordinate Frank-Wolfe with g linearised in every step.

    Phi never increases unless ``step="open-loop"``.  Inner solvers with an active set keep one per block.

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> from dcfw.solvers.block import Block
    >>> f = functions.LeastSquares(np.eye(4), np.array([0.7, 0.1, 0.2, 0.9]))
    >>> g = functions.SquaredNorm(0.5)
    >>> domain = sets.Product([sets.Simplex(2), sets.Box(0.0, 1.0, shape=2)])
    >>> res = dcfw.minimize(f - g, domain, method=Block(order="gap"))
    >>> res.success, res.x.round(3), res.n_lmo == sum(res.n_lmo_blocks)
    (True, array([1. , 0. , 0.4, 1. ]), True)
    """

    order: str = "cyclic"
    steps: int | None = None
    name = "block"
    needs_split = True

    def __post_init__(self) -> None:
        _validate.choice(self.order, "order", ORDERS)
        if self.steps is not None:
            _validate.integer(self.steps, "steps", low=1)

    def solve(self, problem: Problem, run: Run) -> None:
        blocks = Blocks(problem, run, self.steps)
        while True:  # a pass
            run.outer_step(settled=not blocks.exhausted())
            gaps = blocks.measure()
            if blocks.stuck == run.eps:
                raise Stop(Status.NO_PROGRESS, f"No block moves at an FW gap of {sum(gaps):.3g}.")
            nit = run.nit
            for i in self._agenda(blocks, gaps, problem.rng):
                if blocks.exhausted():
                    break
                gaps[i] = blocks.step(i)
            blocks.stuck = run.eps if run.nit == nit else None

    def _agenda(self, blocks: Blocks, gaps: list[float], rng: np.random.Generator) -> Iterator[int]:
        if self.order == "gap":
            for _ in gaps:
                i = int(np.argmax(gaps))
                if blocks.problem.tolerance.enough(len(gaps) * gaps[i], blocks.run.eps, lambda: 0.0):
                    return  # the block meets its share of the tolerance
                yield i
        else:
            count = len(gaps)
            yield from range(count) if self.order == "cyclic" else map(int, rng.permutation(count))


class Blocks:
    """The iterate x_t of a run by blocks, with its two operations: measure and step."""

    def __init__(self, problem: Problem, run: Run, steps: int | None) -> None:
        product = check_blocks(problem.domain)
        self.problem, self.run = problem, run
        run.maxiter *= len(product.sets)
        self.max_steps = run.max_inner if steps is None else min(steps, run.max_inner)
        self.slots = [Slot(product, i) for i in range(len(product.sets))]
        self.count = len(self.slots)
        if run.max_lmo < self.count:
            raise ValueError(
                f"max_lmo must be at least {self.count} for method 'block' here: each of the {self.count} "
                "blocks is asked once before the first step"
            )
        oracle = run._oracle
        assert isinstance(oracle, ProductOracle)
        self.oracles = [Remembering(own) for own in oracle.oracles]
        part = QuadraticPart if problem.f.affine_grad else SmoothPart
        self.parts: list[Any] = [part(problem.f, slot) for slot in self.slots]
        self.rules = [
            problem.rule.bind(part.f, slot.domain) for part, slot in zip(self.parts, self.slots, strict=True)
        ]
        self.loops = [_loop_of_one_block(problem.inner) for _ in self.slots]
        x = problem.x0
        self.x_t = Iterate(x, run.grad_f(problem.f, x), None, run.linearise(problem.g, x))
        self.z = [slot.of(x) for slot in self.slots]
        self.measured = False
        # The tolerance with which the last pass moved no block: a block's gaps in the measurement and in its
        # step differ by rounding, so it may be stuck.
        self.stuck: float | None = None
        self.since_resync = 0
        run.ledger.extra["n_lmo_blocks"] = [0] * self.count
        run.keep(blocks=self, **{f"step of block {i}": rule for i, rule in enumerate(self.rules)})
        run.keep(**{f"inner loop of block {i}": loop for i, loop in enumerate(self.loops)})
        run.know(**{f"f of block {i}": part.f for i, part in enumerate(self.parts)})

    _KEPT = ("x_t", "z", "measured", "stuck", "since_resync")

    def get_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self._KEPT}
        answers = [oracle.known for oracle in self.oracles]
        parts = [part.kept for part in self.parts]
        return {**state, "answers": answers, "parts": parts}

    def set_state(self, state: dict[str, Any]) -> None:
        for name in self._KEPT:
            fresh, saved = getattr(self, name), state[name]
            if _form(saved) != _form(fresh):
                raise ValueError(f"{name!r} is not that of these blocks")
            setattr(self, name, saved)
        for oracle, z, known in zip(self.oracles, self.z, state["answers"], strict=True):
            if known is not None:
                S, error = known
                if _form(S.dense()) != _form(z) or not error >= 0.0:
                    raise ValueError("an answer of an oracle is not that of its block")
            oracle.known = known
        for part, z, known in zip(self.parts, self.z, state["parts"], strict=True):
            if known is not None and _form(known) != _form(z):
                raise ValueError("the gradient of a block has another shape")
            part.kept = known

    def measure(self) -> list[float]:
        run = self.run
        if self.since_resync >= run.resync_period:
            # Rounding accumulates in the whole gradient, which is updated by blocks.
            self.x_t = self.x_t._replace(grad=self.problem.f.grad(self.x_t.x))
            run.ledger.count_resync()
            self.since_resync = 0
        G = self.x_t.grad - self.x_t.u.slope
        gaps = []
        for i, slot in enumerate(self.slots):
            with self._only(i):
                gaps.append(run.lmo(slot.of(G), self.z[i])[1])
        self._visit(sum(gaps))
        if run.n_lmo + self.count > run.max_lmo:  # the gap after another step could not be measured
            raise Stop(Status.MAX_LMO)
        run.tolerance(self.problem.tolerance, None if run.rule is None else run.eps, sum(gaps))
        self.measured = True
        return gaps

    def _visit(self, gap: float) -> None:
        run, x_t = self.run, self.x_t
        f_t = self._value()
        fun = f_t - x_t.u.value
        # Of points with equal values up to rounding, return the one whose gap is known.
        slack = 8.0 * eps_of(x_t.x) * (abs(f_t) + abs(x_t.u.value))
        run.visit(x_t.x, fun, gap, slack=slack)
        if math.isnan(gap):
            run.ledger.record_tolerance(run.eps)

    def _value(self) -> float:
        x, grad, known, _, _ = self.x_t
        f_t = self.run.value_of(self.problem.f, x, grad, known)
        self.x_t = self.x_t._replace(value=f_t)
        return f_t

    def exhausted(self) -> bool:
        run = self.run
        # A step takes at least one oracle call, and a measurement afterwards.
        return not self.measured and (run.nit >= run.maxiter or run.n_lmo + 1 + self.count > run.max_lmo)

    def step(self, i: int) -> float:
        """Go to x_{t+1} by minimising the surrogate over block i; return the block's gap there."""
        run = self.run
        try:
            X = self._minimise_surrogate(i)
        except Stop as stop:
            fits = run.n_lmo + self.count <= run.max_lmo
            if stop.status is Status.NO_PROGRESS and not self.measured and fits:
                self.measure()  # the run may have converged
            raise
        if X.k == 1:
            return X.gap
        low, high = certificate(X, self.x_t.u)
        run.certify(low, high if self.count == 1 else math.inf)
        run.end_outer_step()
        self._move(i, X)
        return X.gap if math.isfinite(X.gap) else 0.0

    def _minimise_surrogate(self, i: int) -> State:
        run, part, rule = self.run, self.parts[i], self.problem.tolerance
        x, grad, _, u, _ = self.x_t
        slot, z = self.slots[i], self.z[i]
        f_t = self._value()
        with self._only(i):
            grad_z, others = part.begin(run, x, z, grad)
            linear = slot.of(u.slope) if others is None else slot.of(u.slope) - others
            loop: Iterator[State] = self.loops[i](
                run, part.f, z, grad_z, self.rules[i], linear=linear, value=f_t, max_steps=self.max_steps
            )
            for X in loop:
                if rule.enough(self.count * X.gap, run.eps, X.decrease):
                    break
                if X.k == 1 and not self.measured:
                    self._visit(math.nan)
        return X

    def _move(self, i: int, X: State) -> None:
        run, problem, part = self.run, self.problem, self.parts[i]
        old = self.x_t
        x = self.slots[i].put(old.x, X.x)
        grad = part.end(run, x, old.grad, self.z[i], X.x, X.grad)
        value = None if problem.f.affine_grad else X.value
        self.x_t = Iterate(x, grad, value, run.linearise(problem.g, x))
        self.z[i] = X.x
        self.since_resync += 1
        self.measured = False
        for oracle in self.oracles:
            oracle.known = None
        run.current = SimpleNamespace(x=x)

    @contextmanager
    def _only(self, i: int) -> Iterator[None]:
        """Present block i as the whole problem, reserving the LMO calls of a measurement."""
        slot, oracle = self.slots[i], self.oracles[i]
        oracle.at_x_t = True
        try:
            with self.run.restricted_to(
                i, oracle, slot.shape, self.count - 1, lambda z: slot.put(self.x_t.x, z)
            ):
                yield
        finally:
            oracle.at_x_t = False


def _form(state: Any) -> Any:
    """Return the structure of a state and the shapes of its arrays, which resuming may not change."""
    if isinstance(state, list | tuple):
        return type(state), [_form(item) for item in state]
    if hasattr(state, "shape"):
        return tuple(state.shape), state.dtype
    return float if isinstance(state, float | None) else type(state)


@stateless  # its memory is saved with the blocks
class Remembering(Oracle):
    """A block's oracle that is called once at x_t: the first call in a step or measurement is there."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.known: tuple[Atom, float] | None = None  # the answer at x_t and its error bound
        self.at_x_t = self.recalled = False

    @property
    def recalls(self) -> bool:  # type: ignore[override]
        return self.at_x_t and self.known is not None

    def __call__(self, G: Array) -> Atom:
        self.recalled = self.recalls
        if self.known is not None and self.recalled:
            S, self.error = self.known
        else:
            S = self.oracle(G)
            self.error = self.oracle.error
            if self.at_x_t:
                self.known = S, self.error
        self.at_x_t = False
        return S


def _loop_of_one_block(inner: Any) -> Any:
    return ActiveLoop(inner.rule, inner.lazy, inner.cap) if isinstance(inner, ActiveLoop) else inner
