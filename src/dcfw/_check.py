"""``dcfw.check``: are these functions and this set what a solver believes them to be?"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, eps_of, inner, is_numpy, like, norm
from dcfw._minimize import starting_point
from dcfw.functions.base import Function, as_function
from dcfw.functions.dc import DC
from dcfw.functions.penalised import prepare
from dcfw.functions.penalties import Composite, as_composite
from dcfw.functions.sums import Zero
from dcfw.sets.atoms import Dense
from dcfw.sets.base import Oracle, Set
from dcfw.sets.given import as_set
from dcfw.solvers.factored import applies


class Report:
    """The report of :func:`check`; false in a boolean context if anything is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.passed: list[str] = []
        self.capabilities: list[str] = []
        """The capabilities of the parts, beyond values, gradients and vertices, that the solver will use."""

    def note(self, ok: bool, passed: str, problem: str) -> None:
        if ok:
            self.passed += [] if not passed or passed in self.passed else [passed]
        elif problem not in self.problems:
            self.problems.append(problem)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"{len(self.problems)} problem(s) found, {len(self.passed)} checks passed."]
        lines += [f"  wrong: {text}" for text in self.problems]
        lines += [f"  fine:  {text}" for text in self.passed]
        lines += [f"  known: {text}" for text in self.capabilities]
        return "\n".join(lines)

    __repr__ = __str__


def check(objective: Any, domain: Any, x0: Any = None, *, samples: int = 20, rng: Any = 0) -> Report:
    """Test a function (or a difference f - g) and a set by sampling, and say in plain words what is wrong.

    Checked are: shapes and finiteness of what the oracles return; gradients against central differences;
    convexity of f and g along random segments (subgradients of a nonsmooth g by the subgradient
    inequality); that a stated Lipschitz constant is not exceeded; that f - g is phi where both are given;
    that the LMO returns feasible points which are no worse than any other sampled point; that the start is
    feasible; that faster forms (``oracle``, ``grad_at``, ``linearise``) agree with ``lmo`` and ``grad``.

    Parameters
    ----------
    objective : function or DC
    domain : set
    x0 : array, optional
        A feasible point (its backend and dtype are used); default ``domain.start()``.
    samples : int
        How many random points and directions to try.
    rng : None, int or numpy.random.Generator

    Returns
    -------
    Report
        ``report.ok``, ``report.problems``, ``report.capabilities`` (what the solver knows of the parts and
        will use), and a text for ``print``.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> wrong = functions.Smooth(lambda x: (x**2).sum(), lambda x: x)     # the gradient is 2x
    >>> report = dcfw.check(wrong, sets.L2Ball(3))
    >>> report.ok
    False
    >>> print(report.problems[0])
    phi.grad disagrees with finite differences of phi.value by a relative 0.5
    """
    phi = as_function(objective, "objective")
    samples = _validate.integer(samples, "samples", low=2)
    generator = _validate.generator(rng)
    report = Report()
    domain = as_set(domain)
    x0 = _start(domain, phi) if x0 is None else starting_point(x0, domain, phi)
    points = _check_set(report, domain, x0, samples, generator)
    parts: list[tuple[str, Function, bool]] = []
    composed = as_composite(phi)
    if isinstance(composed, Composite):  # the norm is ours; the loss and what is subtracted may be yours
        named = (("loss", composed.smooth, True), ("g", composed.g, True))
        parts = [part for part in named if not isinstance(part[1], Zero)]
    elif isinstance(phi, DC):
        parts = [("f", phi.f, True), ("g", phi.g, True)]
    else:
        parts = [("phi", phi, bool(phi.convex))]
    report.capabilities.append(_abilities(domain.name, domain, SET_ABILITIES))
    for name, function, convex in parts:
        report.capabilities.append(_abilities(name, function, FUNCTION_ABILITIES))
        _check_function(report, name, function, convex, points)
    try:
        if not applies(phi, domain):
            prepare(phi, domain)
    except ValueError as refused:
        report.note(False, "", str(refused))
    if isinstance(phi, DC) and phi.whole is not None and report.ok:
        _check_difference(report, phi, phi.whole, points)
    return report


SET_ABILITIES = ("polytope", "faces", "projects", "nonnegative", "strong_convexity", "diameter")
FUNCTION_ABILITIES = ("convex", "differentiable", "affine_grad", "lipschitz")


def _abilities(name: str, part: Any, declared: tuple[str, ...]) -> str:
    """Return a line with what a set or function declares and the fast forms of its own that it has."""
    known = []
    for attribute in declared:
        value = getattr(part, attribute)
        if value is True or (value and math.isfinite(value)):
            known.append(attribute if value is True else f"{attribute} = {value:.4g}")
    fast = ("oracle",) if isinstance(part, Set) else ("grad_at", "linearise", "value_from_grad")
    known += [f"{verb} of its own" for verb in fast if _wrote(part, verb)]
    return f"{name}: {', '.join(known) or 'nothing more'}"


def _wrote(part: Any, *verbs: str) -> bool:
    """Return whether the user wrote one of these methods: reports are silent about forms of ours."""
    given = getattr(part, "wrapped", part)
    generic = Set if isinstance(part, Set) else Function
    ours = type(given).__module__.partition(".")[0] == "dcfw"
    own = (getattr(type(given), verb, None) for verb in verbs)
    return not ours and any(
        method not in (None, getattr(generic, verb)) for verb, method in zip(verbs, own, strict=True)
    )


def _start(domain: Any, phi: Function) -> Array:
    """Return the set's own start, feasible or not, in the backend of the objective's data."""
    start, data = _validate.array(domain.start(), "domain.start()"), phi.template()
    return start if data is None or not is_numpy(start) else like(start, data)


def _check_difference(report: Report, dc: DC, whole: Function, points: list[Array]) -> None:
    """Compare f - g with the objective that it was made from; a constant between them does no harm."""
    parts = np.array([[dc.f.value(x), dc.g.value(x), whole.value(x)] for x in points])
    excess = parts[:, 0] - parts[:, 1] - parts[:, 2]
    worst, scale = float(np.ptp(excess)), max(float(np.abs(parts).max()), 1e-12)
    report.note(
        worst <= 1e-7 * scale + 1e4 * eps_of(points[0]) * scale,
        "f - g is phi at the sampled points",
        f"f - g is not phi: they differ by {worst:.3g} (values up to {scale:.3g})",
    )


def _check_set(report: Report, domain: Any, x0: Array, samples: int, rng: Any) -> list[Array]:
    """Check the set's oracles and return random feasible points."""
    name = domain.name
    shape = tuple(x0.shape)
    tol = max(1e-9, 1e3 * eps_of(x0))

    def inside(x: Array) -> bool:
        if domain.contains(x):
            return True
        return not domain.decides and float(domain.violation(x)) <= tol * max(1.0, norm(x))

    report.note(inside(x0), f"{name}.start() lies in the set", f"{name}.start() does not lie in the set")
    directions = [like(rng.standard_normal(shape), x0) for _ in range(samples)]
    vertices = []
    lmo = Oracle(domain)
    for G in directions:
        s = lmo(G).dense()
        unusable = ""
        if tuple(getattr(s, "shape", ())) != shape:
            unusable = f"shape {getattr(s, 'shape', type(s).__name__)}, expected {shape}"
        elif is_numpy(s) and s.dtype.kind != "f":
            unusable = f"an array of {s.dtype}, not of numbers"
        elif not math.isfinite(inner(s, s)):
            unusable = "NaN or Inf"
        if unusable:
            report.note(False, "", f"{name}.lmo returns {unusable}")
            return [x0]
        vertices.append(s)
    report.note(
        all(inside(s) for s in vertices),
        f"{name}.lmo returns points of the set",
        f"{name}.lmo returns points outside the set (or contains is too strict)",
    )
    worst = 0.0
    size = max(norm(s) for s in vertices)
    for G, s in zip(directions, vertices, strict=True):
        best = min(inner(G, other) for other in [*vertices, x0])
        worst = max(worst, (inner(G, s) - best) / max(norm(G) * size, 1e-300))
    report.note(
        worst <= 1e-7 + 1e3 * eps_of(x0),
        f"{name}.lmo minimises over the sampled points",
        f"{name}.lmo is not minimising: another sampled point is better by a relative {worst:.2g} "
        "(does it maximise?)",
    )
    own = domain.oracle()
    for G, s in zip(directions, vertices, strict=True):
        excess = inner(G, own(G).dense()) - own.error - inner(G, s)
        worst = max(worst, excess / max(norm(G) * size, 1e-300))
    report.note(
        worst <= 1e-6 + 1e3 * eps_of(x0),
        f"{name}.oracle() agrees with {name}.lmo" if _wrote(domain, "oracle") else "",
        f"{name}.oracle() answers worse than {name}.lmo by a relative {worst:.2g}",
    )
    zero = lmo(0.0 * x0).dense()
    report.note(
        tuple(getattr(zero, "shape", ())) == shape and math.isfinite(inner(zero, zero)) and inside(zero),
        f"{name}.lmo answers a zero gradient",
        f"{name}.lmo fails for a zero gradient",
    )
    points = []
    for _ in range(samples):
        weights = rng.dirichlet(np.ones(3))
        chosen = [vertices[int(i)] for i in rng.integers(len(vertices), size=2)]
        points.append(float(weights[0]) * x0 + float(weights[1]) * chosen[0] + float(weights[2]) * chosen[1])
    return points


def _check_function(report: Report, name: str, function: Function, convex: bool, points: list[Array]) -> None:
    shape = tuple(points[0].shape)
    values, grads = [], []
    for x in points:
        grad = function.grad(x)
        if tuple(getattr(grad, "shape", ())) != shape:
            got = getattr(grad, "shape", type(grad).__name__)
            report.note(False, "", f"{name}.grad returns shape {got}, expected {shape}")
            return
        value = function.value(x)
        try:
            finite = math.isfinite(value)
        except (TypeError, ValueError):
            report.note(False, "", f"{name}.value returns a {type(value).__name__}, not a number")
            return
        if not (finite and math.isfinite(inner(grad, grad))):
            report.note(False, "", f"{name} returns NaN or Inf inside the set")
            return
        values.append(value)
        grads.append(grad)
        faster = (function.grad_at(Dense(x)), function.linearise(x).slope)
        report.note(
            all(norm(other - grad) <= 1e-6 * norm(grad) + 1e3 * eps_of(x) * norm(x) for other in faster),
            f"{name}.grad_at and {name}.linearise agree with {name}.grad"
            if _wrote(function, "grad_at", "linearise")
            else "",
            f"{name}.grad_at or {name}.linearise disagrees with {name}.grad",
        )
    scale = max(max(abs(v) for v in values), 1e-12)
    eps = eps_of(points[0])
    if function.differentiable:
        _check_gradient(report, name, function, points, grads, eps)
    if convex:
        worst = 0.0
        for x, value, grad in zip(points, values, grads, strict=True):
            for y, other in zip(points, values, strict=True):
                worst = max(worst, value + inner(grad, y - x) - other)
        report.note(
            worst <= 1e-7 * scale + 1e4 * eps * scale,
            f"{name} lies above its tangents at the sampled points (convex)",
            f"{name} is not convex: a tangent lies above the function by {worst:.3g} "
            f"(values up to {scale:.3g})",
        )
    stated = function.lipschitz
    if stated is not None and function.differentiable:
        measured = 0.0
        for i, j in itertools.combinations(range(len(points)), 2):
            distance = norm(points[i] - points[j])
            if distance > 1e-6:
                measured = max(measured, norm(grads[i] - grads[j]) / distance)
        report.note(
            measured <= stated * (1.0 + 1e-6) + 1e3 * eps * max(measured, 1.0),
            f"{name}'s Lipschitz constant {stated:.4g} holds at the sampled points (measured {measured:.4g})",
            f"{name}.lipschitz is stated as {stated:.4g}, but {measured:.4g} was measured",
        )


def _check_gradient(
    report: Report, name: str, function: Function, points: list[Array], grads: list[Array], eps: float
) -> None:
    """Compare directional derivatives with central differences along segments between feasible points."""
    step = eps ** (1.0 / 3.0)
    errors = []
    for i, (x, grad) in enumerate(zip(points, grads, strict=True)):
        d = points[i - 1] - x
        if norm(d) <= 1e3 * step * step * norm(x):  # a set of one point, or nearly: rounding has no slope
            continue
        # Both ends stay inside the set: the middle of the segment is where the derivative is compared.
        middle = x + 0.5 * d
        slope = inner(function.grad(middle), d)
        high, low = function.value(middle + step * d), function.value(middle - step * d)
        difference = (high - low) / (2.0 * step)
        size = max(abs(slope), abs(difference), 1e-4 * norm(grad) * norm(d), 1e-12)
        rounding = eps * max(abs(high), abs(low)) / step
        errors.append(max(abs(slope - difference) - rounding, 0.0) / size)
    error = float(np.median(errors)) if errors else 0.0
    allowed = 1e-4 if eps < 1e-10 else 5e-2
    report.note(
        error <= allowed,
        f"{name}.grad agrees with finite differences",
        f"{name}.grad disagrees with finite differences of {name}.value by a relative {error:.2g}",
    )
