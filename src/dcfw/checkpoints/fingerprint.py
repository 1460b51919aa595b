"""Fingerprints of calls: a checkpoint is only valid for the call that wrote it.

Names and parameters are compared exactly, x0 by its hash.  The data behind the functions and the set are not
stored, but a few numbers that depend on all of them:

* the values and slopes of f and g at x0 and at two generic points: one inside the set, with all entries
  nonzero if the set allows that, and one close to a vertex.  In general every entry of a Hessian matters;
* the least slope over the set in four directions, and a sum over the arrays that define a set of dcfw;
* when a state is restored: the value of phi at the best point, and the gradient of f and the subgradient of g
  (if unique) at the point that the run had reached.

Numbers are compared up to the square root of the machine precision, so that a run may continue on another
machine whose last bits differ.  Changes below that accuracy go unnoticed, and so do stated constants
(``lipschitz=``), differences at none of these points or directions, and changed code under the same name.
The states of stochastic methods hold estimates, which are not verified.

The budgets ``maxiter``, ``max_lmo``, ``time_limit``, ``tol`` and ``rtol`` are not part of it: changing them
extends a finished run.
"""

from __future__ import annotations

import hashlib
import math
import re
from contextlib import suppress
from typing import Any

import numpy as np

from dcfw import __version__
from dcfw._arrays import Array, copy_of, eps_of, is_numpy, like, norm, to_numpy
from dcfw.functions.base import Function, Linearisation
from dcfw.sets.base import Set
from dcfw.sets.given import GivenSet
from dcfw.sets.product import Product
from dcfw.solvers.dcfw import Iterate
from dcfw.solvers.problem import Problem
from dcfw.terminal import shown

INSIDE = "a point inside the domain"
CLOSE = "a point close to a vertex"
STEPS = 8  # tried steps into the set, each a quarter of the one before


class Fingerprint(dict[str, Any]):
    """The entries compared before a state is restored, and the two functions that confirm the state."""

    def __init__(self, entries: dict[str, Any], f: Function, g: Function) -> None:
        super().__init__(entries)
        self.f, self.g = f, g

    def unlike(self, state: dict[str, Any], x0: Array) -> list[str]:
        """Return the numbers of a state that f and g do not confirm.

        Gradients and values are updated from step to step, so the tolerance grows with the number of steps.
        """
        if "sampled" in state["parts"]:  # values and gradients are estimates
            return []
        accuracy = math.sqrt(eps_of(x0)) + eps_of(x0) * state["run"]["n_inner"]
        found = []
        x_t, grad, u = _reached(state)
        f = g = None
        if x_t is not None:
            f, g = _look(self.f, x_t), _look(self.g, x_t)
            size = self._size("slope", x_t, state)
            if f is not None and not norm(f.slope - grad) <= accuracy * (norm(f.slope) + size):
                found.append("slope of f at the last point")
            # Where there are several subgradients, rounding may choose among them.
            if g is not None and g.unique and u is not None and u.unique:
                near = norm(g.slope - u.slope) <= accuracy * (norm(g.slope) + size)
                found += [] if near else ["slope of g at the last point"]
        if state["run"]["best"] is not None:
            fun, x, _ = state["run"]["best"]
            if x is not x_t:
                f, g = _look(self.f, x), _look(self.g, x)
            if f is not None and g is not None:
                size = abs(f.value) + abs(g.value) + self._size("value", x, state)
                if not abs(f.value - g.value - fun) <= accuracy * size:
                    found.append("value at the best point")
        return found

    def _size(self, what: str, x: Array, state: dict[str, Any]) -> float:
        """Return the size of the terms of values or slopes, which may cancel at x."""
        sizes = [self["objective"].get(f"{what} of {name} at {INSIDE}", [0.0, 0.0])[1] for name in "fg"]
        size = float(sum(filter(math.isfinite, sizes)))
        if _adaptive(state["solver"]):
            _, L, used, *_ = state["solver"]  # L x has been added and subtracted
            size += max([L, *used]) * norm(x) * (1.0 if what == "slope" else norm(x))
        return size


def fingerprint(problem: Problem, method: Any, inner_loop: str, max_inner: int, rng: Any) -> Fingerprint:
    """Return the fingerprint of a call of ``minimize`` from its resolved arguments."""
    x0, values = problem.x0, to_numpy(problem.x0)
    library = "numpy" if is_numpy(x0) else type(x0).__module__.split(".")[0]
    entries = {
        "dcfw": __version__,
        "method": describe(method),
        "domain": describe(problem.domain),
        "step": describe(problem.rule),
        "inner": inner_loop,
        "tolerance": describe(problem.tolerance),
        "max_inner": max_inner,
        "x0": f"{library} {values.dtype} {tuple(x0.shape)} {_hash(values.tobytes())}",
        "rng": None if rng is None else _hash(repr(problem.rng.bit_generator.state).encode()),
        "objective": _probe(problem),
    }
    split = getattr(method, "split", None)  # of the adaptive form, which iterates on p and h
    f, g = (problem.f, problem.g) if split is None else (split.p, split.h)
    return Fingerprint(entries, f, g)


def compare(old: dict[str, Any], new: dict[str, Any], template: Array) -> list[str]:
    """Return the differences as phrases."""
    found = []
    for name, now in new.items():
        then = old.get(name)
        if name == "objective":
            differing = _far(then, now, math.sqrt(eps_of(template)))
            if differing:
                found.append(f"objective or domain (other {', '.join(differing)})")
        elif then != now:
            found.append(f"{name} (was {shown(str(then))[:200]}, now {now})")
    return found


def describe(thing: Any) -> str:
    """Return a description that is the same in every process: no addresses."""
    wrapped = getattr(thing, "method", None)
    if wrapped is not None and not isinstance(wrapped, str):  # the adaptive form of another method
        return f"{type(thing).__name__}({describe(wrapped)})"
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _probe(problem: Problem) -> dict[str, list[float]]:
    """Return a few numbers that depend on all the data, each with the size of its terms.

    The numbers of a failing oracle are omitted: the run will report the failure.
    """
    x = problem.x0
    # A generic direction distinguishes gradients of equal length.
    generic = np.random.default_rng(0).standard_normal(tuple(x.shape))
    numbers: dict[str, list[float]] = {}
    points: dict[str, Array] = {"x0": x}
    with np.errstate(all="ignore"):
        with suppress(Exception):
            numbers.update(_data(problem.domain))
            points[INSIDE], points[CLOSE] = _points(problem, numbers)
        for place, point in points.items():
            for name, part in (("f", problem.f), ("g", problem.g)):
                look = _look(part, point)
                if look is not None:
                    size = abs(look.value) + norm(look.slope) * norm(point)
                    numbers[f"value of {name} at {place}"] = [look.value, size]
                    numbers[f"slope of {name} at {place}"] = _sum(look.slope, generic)
    for name, number in numbers.items():
        if name.endswith(" at x0"):  # where terms may cancel
            number[1] = max(number[1], numbers.get(name.replace("x0", INSIDE), number)[1])
    return numbers


def _points(problem: Problem, numbers: dict[str, list[float]]) -> tuple[Array, Array]:
    """Return a point inside the set and one close to a vertex; add the least slopes to ``numbers``."""
    x, domain, draws = problem.x0, problem.domain, np.random.default_rng(1)
    vertices = []
    for i in (1, 2):
        direction = draws.standard_normal(tuple(x.shape))
        for sign in (1.0, -1.0):
            vertex = copy_of(domain.lmo(like(sign * direction, x)))
            if vertex.shape != x.shape:
                raise ValueError("the lmo returns another shape")
            vertices.append(vertex)
            numbers[f"least slope over the domain in direction {i * sign:+g}"] = _sum(vertex, direction)
    middle = [x, *vertices]
    if not isinstance(domain, GivenSet):
        middle.append(like(to_numpy(domain.start()), x))
    inside = (1.0 / len(middle)) * sum(middle)
    # Few vertices may leave most entries zero: move along a direction without zeros as far as the set allows.
    d = domain.tangent(like(direction, x))
    width, length = _sum(vertices[-1] - vertices[-2], direction)[0], norm(d)
    step = width / length**2 if length > 0.0 else 0.0
    for _ in range(STEPS if step > 0.0 else 0):
        step *= 0.25
        if domain.contains(inside + step * d):
            inside = inside + 0.5 * step * d
            break
    return inside, 0.1 * inside + 0.9 * vertices[0]


def _data(domain: Any, place: str = "the domain") -> dict[str, list[float]]:
    """Return a number for each array that defines a set of this library."""
    numbers: dict[str, list[float]] = {}
    if isinstance(domain, GivenSet):
        return numbers
    for i, block in enumerate(domain.sets if isinstance(domain, Product) else ()):
        numbers.update(_data(block, f"block {i} of {place}"))
    for name, values in vars(domain).items():
        if name.startswith("_") or not hasattr(values, "shape") or isinstance(values, Set):
            continue
        draws = np.random.default_rng(2)
        if len(values.shape) == 2:  # dense or sparse
            values = values @ draws.standard_normal(values.shape[1])
        bound = 1.0 + float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        values = np.clip(values, -bound, bound)  # bounds may be infinite
        numbers[f"{name} of {place}"] = _sum(values, draws.standard_normal(values.shape))
    return numbers


def _sum(values: Array, generic: np.ndarray) -> list[float]:
    """Return a sum with generic weights of size 1, and its size: errors have random signs, too."""
    return [float(np.vdot(np.asarray(to_numpy(values), dtype=np.float64), generic)), norm(values)]


def _look(part: Function, x: Array) -> Linearisation | None:
    """Return a function's value and slope, None if they are invalid."""
    try:
        with np.errstate(all="ignore"):
            value, slope, unique = part.linearise(x)
        usable = slope.shape == x.shape and math.isfinite(norm(slope)) and math.isfinite(value)
        return Linearisation(float(value), copy_of(slope), unique) if usable else None
    except Exception:
        return None


def _reached(state: dict[str, Any]) -> tuple[Array, Array, Linearisation | None]:
    """Return the point that a run had reached, grad f and the linearisation of g there, or None."""
    solver, parts = state["solver"], state["parts"]
    if "loop" in parts:  # of a method with one loop, which recomputes its linearisation of g
        loop = parts["loop"]
        return loop["x"], loop["grad"], None
    if "blocks" in parts:
        solver = parts["blocks"]["x_t"]
    elif _adaptive(solver):
        solver = solver[0]
    return (solver.x, solver.grad, solver.u) if isinstance(solver, Iterate) else (None, None, None)


def _adaptive(solver: Any) -> bool:
    """Return whether a state belongs to an adaptive method."""
    return type(solver) is tuple and isinstance(solver[0], Iterate)  # a record otherwise


def _far(old: Any, new: dict[str, list[float]], accuracy: float) -> list[str]:
    """Return the names of the numbers that differ beyond rounding."""
    if not isinstance(old, dict) or old.keys() != new.keys():
        return list(new)
    far = []
    for name, (now, size) in new.items():
        then = old[name][0]
        same = then == now or (math.isnan(then) and math.isnan(now))
        if not (same or abs(then - now) <= accuracy * size):
            far.append(name)
    return far
