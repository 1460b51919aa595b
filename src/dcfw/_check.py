"""``dcfw.check``: test by sampling that functions and sets satisfy the assumptions of a solver."""

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
    """The report of :func:`check`; false in a boolean context if it has problems.

    ``capabilities`` lists the properties of the parts, and their fast methods, that the solver will use.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.passed: list[str] = []
        self.capabilities: list[str] = []

    def note(self, ok: bool, passed: str, problem: str) -> None:
        text, texts = (passed, self.passed) if ok else (problem, self.problems)
        if text and text not in texts:
            texts.append(text)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"{len(self.problems)} problem(s) found, {len(self.passed)} checks passed."]
        lines += [f"  wrong: {text}" for text in self.problems]
        lines += [f"  fine:  {text}" for text in self.passed]
        return "\n".join(lines + [f"  known: {text}" for text in self.capabilities])

    __repr__ = __str__


def check(objective: Any, domain: Any, x0: Any = None, *, samples: int = 20, rng: Any = 0) -> Report:
    """Test a function (or a difference f - g) and a set by sampling, and report what is wrong.

    The checks cover shapes and finiteness of the oracles' answers; gradients, against central differences;
    convexity of f and g, by the subgradient inequality; stated Lipschitz constants; that f - g is phi; that
    the LMO returns feasible points that are no worse than other sampled ones; the start; and that fast
    methods (``oracle``, ``grad_at``, ``linearise``) agree with ``lmo`` and ``grad``.

    Parameters
    ----------
    objective : function or DC
    domain : set
    x0 : array, optional
        A feasible point, whose backend and dtype are used; default ``domain.start()``.
    samples : int
        The number of random points and directions.
    rng : None, int or numpy.random.Generator

    Returns
    -------
    Report
        With ``ok``, ``problems``, ``passed`` and ``capabilities``; ``print`` shows them all.

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> wrong = dcfw.functions.Smooth(lambda x: (x**2).sum(), lambda x: x)     # the gradient is 2x
    >>> report = dcfw.check(wrong, dcfw.sets.L2Ball(3))
    >>> report.ok
    False
    >>> print(report.problems[0])
    phi.grad disagrees with finite differences of phi.value by a relative 0.5
    """
    phi = as_function(objective, "objective")
    samples = _validate.integer(samples, "samples", low=2)
    generator = _validate.generator(rng)
    report, domain = Report(), as_set(domain)
    x0 = _start(domain, phi) if x0 is None else starting_point(x0, domain, phi)
    points = _check_set(report, domain, x0, samples, generator)
    composed = as_composite(phi)
    if isinstance(composed, Composite):  # the norm is built in; the loss and g may be the user's
        parts = {"loss": composed.smooth, "g": composed.g}
        parts = {name: part for name, part in parts.items() if not isinstance(part, Zero)}
    else:
        parts = {"f": phi.f, "g": phi.g} if isinstance(phi, DC) else {"phi": phi}
    report.capabilities.append(_abilities(domain.name, domain, SET_ABILITIES))
    for name, part in parts.items():
        report.capabilities.append(_abilities(name, part, FUNCTION_ABILITIES))
        _check_function(report, name, part, name != "phi" or bool(phi.convex), points)
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
    """Return a line with the declared properties of a set or function and its fast methods."""
    known = []
    for attribute in declared:
        value = getattr(part, attribute)
        if value is True or (value and math.isfinite(value)):
            known.append(attribute if value is True else f"{attribute} = {value:.4g}")
    fast = ("oracle",) if isinstance(part, Set) else ("grad_at", "linearise", "value_from_grad")
    known += [f"own {verb}" for verb in fast if _wrote(part, verb)]
    return f"{name}: {', '.join(known) or 'nothing more'}"


def _wrote(part: Any, *verbs: str) -> bool:
    """Return whether the user, and not the library, wrote one of these methods."""
    kind = type(getattr(part, "wrapped", part))
    generic = Set if isinstance(part, Set) else Function
    if kind.__module__.partition(".")[0] == "dcfw":
        return False
    return any(getattr(kind, verb, None) not in (None, getattr(generic, verb)) for verb in verbs)


def _start(domain: Any, phi: Function) -> Array:
    """Return the set's start, feasible or not, in the backend of the objective's data."""
    start, data = _validate.array(domain.start(), "domain.start()"), phi.template()
    return start if data is None or not is_numpy(start) else like(start, data)


def _check_difference(report: Report, dc: DC, whole: Function, points: list[Array]) -> None:
    """Compare f - g with the objective that it was made from, up to a constant."""
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
    name, shape = domain.name, tuple(x0.shape)
    tol, rounding = max(1e-9, 1e3 * eps_of(x0)), 1e3 * eps_of(x0)

    def inside(x: Array) -> bool:
        if domain.contains(x):
            return True
        return not domain.decides and float(domain.violation(x)) <= tol * max(1.0, norm(x))

    report.note(inside(x0), f"{name}.start() lies in the set", f"{name}.start() does not lie in the set")
    directions = [like(rng.standard_normal(shape), x0) for _ in range(samples)]
    vertices: list[Array] = []
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
    size = max(norm(s) for s in vertices)

    def worse(G: Array, s: Array, other: float) -> float:
        """Return by how much s is worse than the value of another point, relative to its possible values."""
        return (inner(G, s) - other) / max(norm(G) * size, 1e-300)

    pairs = list(zip(directions, vertices, strict=True))
    worst = max(0.0, *(worse(G, s, min(inner(G, other) for other in [*vertices, x0])) for G, s in pairs))
    report.note(
        worst <= 1e-7 + rounding,
        f"{name}.lmo minimises over the sampled points",
        f"{name}.lmo is not minimising: another sampled point is better by a relative {worst:.2g} "
        "(does it maximise?)",
    )
    own = domain.oracle()
    worst = max(worst, *(worse(G, own(G).dense(), inner(G, s) + own.error) for G, s in pairs))
    report.note(
        worst <= 1e-6 + rounding,
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
        u, v, w = map(float, rng.dirichlet(np.ones(3)))
        i, j = map(int, rng.integers(len(vertices), size=2))
        points.append(u * x0 + v * vertices[i] + w * vertices[j])
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
    sampled = list(zip(points, values, grads, strict=True))
    if convex:
        worst = max(v + inner(grad, y - x) - other for x, v, grad in sampled for y, other, _ in sampled)
        report.note(
            worst <= 1e-7 * scale + 1e4 * eps * scale,
            f"{name} lies above its tangents at the sampled points (convex)",
            f"{name} is not convex: a tangent lies above the function by {worst:.3g} "
            f"(values up to {scale:.3g})",
        )
    stated = function.lipschitz
    if stated is not None and function.differentiable:
        pairs = ((norm(x - y), a - b) for (x, _, a), (y, _, b) in itertools.combinations(sampled, 2))
        measured = max((norm(change) / size for size, change in pairs if size > 1e-6), default=0.0)
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
        if norm(d) <= 1e3 * step * step * norm(x):  # a set of one point, up to rounding
            continue
        middle = x + 0.5 * d  # so that both ends stay in the set
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
