"""The oracle calls of a run: counted in the ledger, with the answers checked.

Shapes, types and finiteness of a user's answers are checked; an unusable answer ends the run with a message
that names the oracle.
"""

from __future__ import annotations

import math
import time
from typing import Any, NoReturn

import numpy as np

from dcfw._arrays import Array, inner, like, namespace, norm
from dcfw.functions.base import Function, Linearisation
from dcfw.result import Status
from dcfw.sets.atoms import Atom, Dense
from dcfw.sets.base import Oracle
from dcfw.sets.given import as_set
from dcfw.solvers import interrupts
from dcfw.solvers.ledger import Ledger

# Largest positive slope towards the oracle's answer, relative to its size: points that are accepted as
# feasible may lie outside by some 1e-6.
UPHILL = 1e-5


class Stop(Exception):
    """Ends a run with a status; ``detail`` completes its sentence.

    With NOT_CONVEX, ``lacking`` is the missing curvature (per squared length), if known.
    """

    def __init__(self, status: Status, detail: str = "", lacking: float = 0.0) -> None:
        super().__init__(status, detail)
        self.status, self.detail, self.lacking = status, detail, lacking


class Oracles:
    """The oracles of one run: those of f (or phi), of g, and of the set."""

    goal: Any  # the Goal of the run

    def __init__(self, objective: Function, oracle: Oracle, x0: Array, ledger: Ledger, split: bool) -> None:
        self.objective, self.x0, self.ledger = objective, x0, ledger
        self.shape = tuple(x0.shape)
        self.deadline = math.inf
        self.lmo_error = 0.0  # bound for the last vertex: part of the gap, but not of the slope towards it
        self._oracle = oracle
        self._numpy = isinstance(x0, np.ndarray)
        self._gradient = "f.grad" if split else "phi.grad"
        self._linearised: Linearisation | None = None

    def lmo(self, G: Array, x: Array) -> tuple[Atom, float]:
        """Return the vertex for G and the FW gap <G, x - s> plus the oracle's own error bound."""
        oracle = self._oracle
        if not getattr(oracle, "recalls", False):
            self.ledger.count_lmo()
        try:
            S = oracle(G)
        except Exception:  # a NaN in G is not the oracle's fault
            self._blame_gradient(G)
            raise
        # Broadcasting would hide a wrong shape.
        if S.__class__ is Dense:
            s = self._array(S.array, G.shape, "the set's lmo")
            S = S if s is S.array else Dense(s)
        error = oracle.error
        if error.__class__ is not float or not 0.0 <= error < math.inf:
            error = self._error(error)
        self.lmo_error = error
        if self.goal.rounding is None and self.goal.relative:
            u = None if self._linearised is None else self._linearised.slope
            self.goal.measure_rounding(G, u if u is None or u.shape == G.shape else None, x, S.dense())
        gap = inner(G, x) - S.inner(G) + error
        oracle.gap = gap
        if not math.isfinite(gap):
            self._blame(G, S)
        if gap > 0.0:
            return S, gap
        # The oracle cannot do worse than x, which is in the set: a negative gap should be rounding.
        allowed = UPHILL * norm(G)
        if getattr(oracle, "recalled", False):
            return S, 0.0  # if G is all rounding, the answer is that for another rounding of it
        if gap < -allowed * (norm(x) + norm(S.dense())) and gap < -allowed * self.extent(G):
            raise Stop(
                Status.BAD_ORACLE,
                f"the set's lmo returned a point s with <G, s> larger than <G, x> by {-gap:.3g}: it must "
                "minimise <G, s> over the set.",
            )
        return S, 0.0

    def _error(self, error: Any) -> float:
        try:
            fine = 0.0 <= error < math.inf
        except (TypeError, ValueError):
            fine = False
        if not fine:
            self.bad("the set's oracle", f"with error = {error!r}, which must be a number of at least 0,")
        return float(error)

    def runners_up(self, G: Array, count: int) -> list[Atom]:
        return self._oracle.runners_up(G, count) if isinstance(self._oracle, Oracle) else []

    @property
    def domain(self) -> Any:
        return self._oracle.domain

    def extent(self, G: Array) -> float:
        oracle = getattr(self._oracle, "oracle", self._oracle)  # unwrap a block's
        diameter = as_set(oracle.domain).diameter if isinstance(oracle, Oracle) else math.inf
        if math.isfinite(diameter):
            return diameter
        generic = like(np.random.default_rng(0).standard_normal(tuple(G.shape)), G)
        ends = [oracle(sign * generic).dense() for sign in (1.0, -1.0)]
        return norm(ends[0] - ends[1])

    def grad_f(self, f: Function, x: Array) -> Array:
        self.ledger.count_gradient()
        grad = self._array(f.grad(x), x.shape, self._gradient)
        self._check_clock_on_the_way()
        return grad

    def grad_f_at(self, f: Function, S: Atom, scores: bool = False) -> Array:
        self.ledger.count_gradient()
        if scores:
            return f.scores_at(S)
        return self._array(f.grad_at(S), self.shape, self._gradient)

    def linearise(self, g: Function, x: Array) -> Linearisation:
        self.ledger.count_subgradient()
        value, slope, unique = g.linearise(x)
        slope = self._array(slope, x.shape, "the subgradient of g")
        self._linearised = answer = Linearisation(value, slope, unique)
        self.check_number(value, "g.value")
        return answer

    def value(self, function: Function, x: Array) -> float:
        self.ledger.count_value()
        value = function.value(x)
        self.check_number(value, "phi.value" if function is self.objective else "f.value")
        self._check_clock_on_the_way()
        return value

    def value_of(self, f: Function, x: Array, grad: Array, known: float | None = None) -> float:
        """Return f(x), without a call if it is known or follows from the gradient."""
        value = f.value_from_grad(x, grad) if known is None else known
        if value is None:
            return self.value(f, x)
        if not math.isfinite(value):
            self.bad_gradient()
        return value

    def _array(self, answer: Any, shape: tuple[int, ...], oracle: str) -> Array:
        if getattr(answer, "shape", None) != shape:
            self.wrong_shape(oracle, answer)
        if not isinstance(answer, np.ndarray):
            return self._like_x(answer, oracle)
        if answer.dtype.kind != "f":
            if answer.dtype.kind not in "biu":
                self.bad(oracle, f"an array of {answer.dtype}")
            answer = answer.astype(self.x0.dtype)
        return answer if self._numpy else self._like_x(answer, oracle)

    def checked(self, answer: Any, oracle: str) -> Array:
        answer = self._array(answer, self.shape, oracle)
        if not _finite(answer):
            self.bad(oracle)
        return answer

    def _like_x(self, answer: Any, oracle: str) -> Array:
        """Return an answer in the precision of x; other libraries than NumPy do not mix precisions."""
        xp = namespace(self.x0)
        try:
            matching = namespace(answer) is xp
        except TypeError:  # not an array
            matching = False
        if not matching:
            remedy = (
                "; this set needs its entries: return an array, or use functions.Observed over a NuclearBall"
            )
            remedy = remedy if hasattr(answer, "nnz") or hasattr(answer, "matvec") else ""
            self.bad(oracle, f"a {type(answer).__name__}, where x is a {type(self.x0).__name__}{remedy},")
        if answer.dtype != self.x0.dtype:
            if xp.isdtype(answer.dtype, "complex floating"):
                self.bad(oracle, f"an array of {answer.dtype}")
            answer = xp.astype(answer, self.x0.dtype)
        return answer

    def check_clock(self, now: float) -> None:
        if now >= self.deadline:
            raise Stop(Status.TIME_LIMIT)
        if interrupts.pending():
            raise Stop(Status.INTERRUPTED)

    def _check_clock_on_the_way(self) -> None:
        if self.ledger.best is not None:
            self.check_clock(time.perf_counter())

    def check_number(self, value: Any, oracle: str) -> None:
        try:
            fine = math.isfinite(value)
        except TypeError:
            self.bad(oracle, f"an object of type {type(value).__name__}")
        if not fine:
            self.bad(oracle, value)

    def bad(self, oracle: str, answer: object = "NaN or Inf") -> NoReturn:
        raise Stop(Status.BAD_ORACLE, f"{oracle} returned {answer} {self.where()}.")

    def bad_gradient(self) -> NoReturn:
        self.bad(self._gradient)

    def wrong_shape(self, oracle: str, got: Any) -> NoReturn:
        found = f"shape {tuple(got.shape)}" if hasattr(got, "shape") else f"a {type(got).__name__}"
        self.bad(oracle, f"{found}, expected shape {self.shape},")

    def where(self) -> str:
        return f"in outer step {self.ledger.nit + 1} (after {self.ledger.n_inner} steps in all)"

    def _blame(self, G: Array, S: Atom) -> NoReturn:
        self._blame_gradient(G)
        if not _finite(S.dense()):
            self.bad("the set's lmo")
        raise Stop(Status.BAD_ORACLE, f"<G, x> overflows {self.where()}: scale the objective down.")

    def _blame_gradient(self, G: Array) -> None:
        if self._linearised is not None and not _finite(self._linearised.slope):
            self.bad("the subgradient of g")
        if not _finite(G):
            self.bad_gradient()


def _finite(a: Array) -> bool:
    xp = namespace(a)
    return bool(xp.all(xp.isfinite(a)))
