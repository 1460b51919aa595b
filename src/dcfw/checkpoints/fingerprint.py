"""What tells one run from another: a checkpoint is only good for the call that wrote it.

Names and parameters are compared as they are, x0 by its hash.  The data behind the functions and the set are
not stored; a few numbers that depend on all of them are: the values and slopes at x0 and at another point of
the set (x0 is often 0, where a multiple of ||x||^2 cannot be seen), and the least slope over the set.  These
are compared up to the square root of the machine precision, so that a run may go on on another machine, whose
last bits differ.

Budgets are no part of it: ``maxiter``, ``max_lmo``, ``time_limit``, ``tol`` and ``rtol`` may be changed from
one call to the next, which is how a finished run is extended.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any

import numpy as np

from dcfw import __version__
from dcfw._arrays import Array, eps_of, inner, is_numpy, like, norm, to_numpy
from dcfw.solvers.problem import Problem

Fingerprint = dict[str, Any]


def fingerprint(problem: Problem, method: Any, inner_loop: str, max_inner: int, rng: Any) -> Fingerprint:
    """Return the fingerprint of a call of ``minimize``, from its arguments in their resolved form."""
    x0 = problem.x0
    return {
        "dcfw": __version__,
        "method": describe(method),
        "domain": describe(problem.domain),
        "step": describe(problem.rule),
        "inner": inner_loop,
        "tolerance": describe(problem.tolerance),
        "max_inner": max_inner,
        "x0": f"{_library(x0)} {to_numpy(x0).dtype} {tuple(x0.shape)} {_hash(to_numpy(x0).tobytes())}",
        "rng": None if rng is None else _hash(repr(problem.rng.bit_generator.state).encode()),
        "objective": _probe(problem),
    }


def compare(old: Fingerprint, new: Fingerprint, template: Array) -> list[str]:
    """Return what differs, a phrase for each entry."""
    found = []
    for name, now in new.items():
        then = old.get(name)
        if name == "objective":
            differing = _far(then, now, math.sqrt(eps_of(template)))
            if differing:
                found.append(f"objective or domain (other {', '.join(differing)})")
        elif then != now:
            found.append(f"{name} (was {then}, now {now})")
    return found


def describe(thing: Any) -> str:
    """Return a text that is the same in every process: no addresses."""
    wrapped = getattr(thing, "method", None)
    if wrapped is not None and not isinstance(wrapped, str):  # the adaptive form of another method
        return f"{type(thing).__name__}({describe(wrapped)})"
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


def _library(x: Array) -> str:
    return "numpy" if is_numpy(x) else type(x).__module__.split(".")[0]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _probe(problem: Problem) -> dict[str, list[float]]:
    """Return a few numbers that depend on all the data, each with the size of what it is made of."""
    x, domain = problem.x0, problem.domain
    # A direction in general position: two gradients of equal length are still told apart.
    generic = like(np.random.default_rng(0).standard_normal(tuple(x.shape)), x)
    try:
        G = problem.f.linearise(x).slope - problem.g.linearise(x).slope
        vertex = domain.lmo(G)
        numbers = {"slope towards the vertex at x0": [inner(G, vertex), norm(G) * norm(vertex)]}
        between = 0.5 * (x + domain.lmo(generic))
        for place, point in (("x0", x), ("a point between x0 and a vertex", between)):
            for name, part in (("f", problem.f), ("g", problem.g)):
                value, slope, _ = part.linearise(point)
                size = abs(float(value)) + norm(slope) * norm(point)
                numbers[f"value of {name} at {place}"] = [float(value), size]
                numbers[f"slope of {name} at {place}"] = [inner(slope, generic), norm(slope) * norm(generic)]
    except (TypeError, ValueError):  # an oracle that answers nonsense: the run will say so, in its own way
        return {}
    return numbers


def _far(old: Any, new: dict[str, list[float]], accuracy: float) -> list[str]:
    """Return the names of the numbers that are not the same up to rounding."""
    if not isinstance(old, dict) or old.keys() != new.keys():
        return list(new)
    far = []
    for name, (now, size) in new.items():
        then = old[name][0]
        same = then == now or (math.isnan(then) and math.isnan(now))
        if not same and not abs(then - now) <= accuracy * size:
            far.append(name)
    return far
