"""Paths from a convex function to a concave one that all agree with phi on the vertices of a set.

Let r be convex and constant on the vertices.  Then phi and phi_theta = phi + theta r, minus that constant,
agree there.  A :class:`Path` has phi_1 convex and phi_{-1} concave.  There are two kinds:

* **spheres**: r = 1/2 sum_b w_b ||x_b - c_b||^2 as in :meth:`dcfw.sets.Set.spheres`, w_b from the size of
  the Hessian's rows, and multiples at both ends from its spectrum along the set.
* **split**: r = f + g for phi = f - g with f + g constant on the vertices, that is,
  phi_theta = (1 + theta) f - (1 - theta) g.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcfw._arrays import Array, eps_of, inner, like, to_numpy
from dcfw.functions import spectrum
from dcfw.functions.base import Function, as_function
from dcfw.functions.dc import AFFINE, DC, joined
from dcfw.result import Status
from dcfw.sets.atoms import Atom
from dcfw.sets.spheres import Spheres
from dcfw.solvers.run import Stop

Product = Callable[[np.ndarray], np.ndarray]

PROBES = 16  # products with the Hessian that estimate the sizes of its rows, to 1/sqrt(2 PROBES)
DENSE = 300  # up to this many variables all eigenvalues are computed, beyond that Lanczos is used
VERTICES = 8  # random vertices at which a function that should be constant is evaluated
ROUNDING = 1e-12  # largest distance of a vertex from its sphere, relative to the radius
CONSTANT = 1e-8  # largest relative difference on vertices of a function that is constant there


class Spherical(Function, trusted=True):
    """1/2 sum_i weights_i (x_i - centre_i)^2."""

    convex = True
    affine_grad = True

    def __init__(self, weights: Array, centre: Array) -> None:
        self.weights, self.centre = weights, centre

    @property
    def lipschitz(self) -> float:
        return float(to_numpy(self.weights).max())

    def value(self, x: Array) -> float:
        d = x - self.centre
        return 0.5 * inner(self.weights * d, d)

    def grad(self, x: Array) -> Array:
        return self.weights * (x - self.centre)

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return 0.5 * inner(grad, x - self.centre)

    def __repr__(self) -> str:
        return "Spherical()"


@dataclass(frozen=True)
class Path:
    """phi_theta = a p + b q with a, b affine in theta.

    ``ends`` are (a, b) at theta = 1 and theta = -1, ``own`` those of phi itself.  ``offset`` is phi_1 - phi
    on the vertices, ``spread`` its largest deviation from that by rounding, and ``conditional`` the
    assumption behind the convexity of phi_1, empty if it is certain.
    """

    p: Function
    q: Function
    ends: tuple[tuple[float, float], tuple[float, float]]
    own: tuple[float, float]
    offset: float
    spread: float
    name: str
    conditional: str = ""

    def coefficients(self, theta: float) -> tuple[float, float]:
        (a1, b1), (a2, b2) = self.ends
        up, down = 0.5 * (1.0 + theta), 0.5 * (1.0 - theta)
        return up * a1 + down * a2, up * b1 + down * b2

    def stage(self, theta: float, found: Callable[[float, Atom], None], run: Any = None) -> Stage:
        return Stage(self, *self.coefficients(theta), found, run)

    def change(self, old: float, new: float, x: Array, run: Any) -> Array:
        """Return the gradient of phi_new - phi_old at x, counting its gradients."""
        (a, b), (a_new, b_new) = self.coefficients(old), self.coefficients(new)
        slope = (b_new - b) * self.q.grad(x)
        if a != a_new:  # r is f + g: a gradient of each
            run.ledger.count_gradient()
            run.ledger.count_subgradient()
            slope = slope + (a_new - a) * self.p.grad(x)
        return slope


class Stage(Function, trusted=True):
    """phi_theta for one theta, which reports phi at vertices to ``found`` and counts gradients of g."""

    def __init__(
        self, path: Path, a: float, b: float, found: Callable[[float, Atom], None], run: Any = None
    ) -> None:
        self.path, self.a, self.b = path, a, b
        self.affine_grad = path.p.affine_grad and path.q.affine_grad
        self.latest: float | None = None  # phi at the last vertex, if known
        self._found = found
        self._run = run if path.own[1] else None

    @property
    def lipschitz(self) -> float | None:
        p, q = self.path.p.lipschitz, self.path.q.lipschitz
        return None if p is None or q is None else abs(self.a) * p + abs(self.b) * q

    def value(self, x: Array) -> float:
        return self.a * self.path.p.value(x) + self.b * self.path.q.value(x)

    def grad(self, x: Array) -> Array:
        self._count()
        return self.a * self.path.p.grad(x) + self.b * self.path.q.grad(x)

    def _count(self) -> None:
        if self._run is not None:
            self._run.ledger.count_subgradient()

    def grad_at(self, atom: Atom) -> Array:
        self._count()
        path = self.path
        p, q = path.p.grad_at(atom), path.q.grad_at(atom)
        (a, b), s = path.own, atom.dense()
        first = path.p.value_from_grad(s, p)
        second = path.q.value_from_grad(s, q) if b else 0.0
        self.latest = None if first is None or second is None else a * first + b * second
        if self.latest is not None:
            self._found(self.latest, atom)
        return self.a * p + self.b * q


def find(phi: Function, domain: Any, x: Array, r: Any, run: Any) -> list[Path]:
    """Return the paths for ``r`` (see :class:`dcfw.solvers.graduated.Graduated`); calls count in ``run``."""
    if not isinstance(r, str):
        q = as_function(r, "r")
        constant = _constant([run.value(q, v) for v in _vertices(x, run, VERTICES)], x)
        if constant is None:
            raise ValueError(f"r must be constant on the vertices of {domain!r}; on random ones it is not")
        return [_combined(phi, q, (-1.0, 1.0), constant, "own r", "phi + r is convex")]
    found: list[Path] = []
    if r in ("auto", "split", "both"):
        own = _split_path(phi, x, run) if isinstance(phi, DC) and phi.whole is None else None
        if own is None and r != "auto":
            raise ValueError(
                f"r={r!r} needs an objective f - g whose f + g is constant on the vertices of {domain!r}"
            )
        found += [own] if own else []
    if r in ("spheres", "both") or not found:
        found.append(_spheres_path(phi, domain, x, run))
    return found


def _split_path(dc: DC, x: Array, run: Any) -> Path | None:
    """Return the path (1 + theta) f - (1 - theta) g, or None if f + g varies on the vertices."""
    vertices = _vertices(x, run, VERTICES)
    constant = _constant([run.value(dc.f, v) + run.value(dc.g, v) for v in vertices], x)
    if constant is None:
        return None
    condition = "" if dc.f.convex and not dc.f.by_word else "f is convex"
    return Path(dc.f, dc.g, ((2.0, 0.0), (0.0, -2.0)), (1.0, -1.0), *constant, "f + g", condition)


def _spheres_path(phi: Function, domain: Any, x: Array, run: Any) -> Path:
    spheres = domain.spheres()
    if spheres is None:
        raise ValueError(
            f"method 'graduated' needs a quadratic that is constant on the vertices of {domain!r}, which "
            "declares none: give the set a method spheres(), an objective f - g whose f + g is constant on "
            "the vertices, or a function of your own, Graduated(r=...)"
        )
    (vertex,) = _vertices(x, run, 1)
    product = _product(phi, domain, x, run)
    q = _spherical(spheres, vertex, x, product)
    low, high, condition = _curvatures(phi, q, x, product)
    level = q.value(vertex)
    return _combined(phi, q, (low, high), (level, ROUNDING * level), "spheres", condition)


def _combined(
    phi: Function, q: Function, curvatures: tuple[float, float], constant: tuple[float, float], *names: str
) -> Path:
    """Return the path phi + m q, m from minus the lowest to minus the highest curvature relative to q."""
    low, high = curvatures
    # If phi is concave already, full steps still need a slope: subtract a little of q.
    up, down = -low, min(-high, -1e-3 * (high - low))
    level, spread = constant
    return Path(phi, q, ((1.0, up), (1.0, down)), (1.0, 0.0), up * level, abs(up) * spread, *names)


def _vertices(x: Array, run: Any, count: int) -> list[Array]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        if run.n_lmo >= run.max_lmo:
            raise Stop(Status.MAX_LMO)
        found.append(run.lmo(like(rng.standard_normal(tuple(x.shape)), x), x)[0].dense())
    return found


def _constant(values: list[float], x: Array) -> tuple[float, float] | None:
    """Return the middle of the values and their spread, or None if that exceeds rounding."""
    middle, spread = 0.5 * (max(values) + min(values)), max(values) - min(values)
    tolerance = max(CONSTANT, math.sqrt(eps_of(x)))
    return (middle, spread) if spread <= tolerance * max(map(abs, values)) else None


def _spherical(spheres: Spheres, vertex: Array, x: Array, product: Product) -> Spherical:
    """Return the set's quadratic, weighted by the Hessian's rows in units of the blocks' radii."""
    blocks, count = spheres.blocks.reshape(-1), int(spheres.blocks.max()) + 1

    def per_block(values: np.ndarray) -> np.ndarray:
        return np.bincount(blocks, values.reshape(-1), minlength=count) / np.bincount(blocks, minlength=count)

    d = np.asarray(to_numpy(vertex), dtype=np.float64) - spheres.centre
    radii = np.sqrt(per_block(d**2))
    radii[radii <= 1e-12 * radii.max(initial=0.0)] = 1.0  # fixed coordinates
    weights = np.ones(count)
    if count > 1:
        rng, energy = np.random.default_rng(1), np.zeros(count)
        images = [product(rng.choice([-1.0, 1.0], blocks.size) * radii[blocks]) for _ in range(PROBES)]
        unit = math.ldexp(1.0, int(np.frexp(np.abs(images).max())[1]))  # squares must not overflow
        for image in images:
            energy += per_block((image / unit) ** 2)
        rows = np.sqrt(energy / PROBES)
        if rows.any():
            # Rows of size zero need no weight, but a positive one is harmless.
            weights = np.maximum(rows, 1e-3 * rows.max()) / radii
            weights /= weights.max()
    return Spherical(like(weights[spheres.blocks], x), like(spheres.centre, x))


def _product(phi: Function, domain: Any, x: Array, run: Any) -> Product:
    """Return the product with the Hessian along the set, for a smooth phi at x by differences."""
    shape = tuple(x.shape)
    tangent = domain.tangent if domain.flat else None
    origin = 0.0 * x if phi.affine_grad else x
    slope = functools.cache(lambda: run.grad_f(phi, origin))  # some paths need none
    small = math.sqrt(eps_of(x)) * float(domain.scale)

    def product(v: np.ndarray) -> np.ndarray:
        v = np.reshape(v, shape)
        v = v if tangent is None else np.asarray(tangent(v))
        length = float(np.abs(v).max()) or 1.0
        # A power of two on the scale of the set: a unit step could be lost in the rounding of the slope.
        whole = math.ldexp(1.0, round(math.log2(domain.scale or 1.0) - math.log2(length)))
        size = whole if phi.affine_grad else small / length
        change = run.grad_f(phi, origin + like(size * v, x)) - slope()
        image = np.asarray(to_numpy(change), dtype=np.float64) / size
        if not np.isfinite(image).all():
            run.bad_gradient()
        return np.ravel(image if tangent is None else np.asarray(tangent(image)))

    return product


def _curvatures(phi: Function, q: Spherical, x: Array, product: Product) -> tuple[float, float, str]:
    """Return low q'' <= phi'' <= high q'' along the set, and the assumption behind them."""
    n = math.prod(x.shape)
    root = np.sqrt(np.asarray(to_numpy(q.weights), dtype=np.float64)).reshape(-1)
    if not phi.affine_grad and phi.lipschitz is not None:
        least = float(root.min()) ** 2
        rho = phi.lipschitz if phi.weak_convexity is None else phi.weak_convexity
        stated = "the stated constants of phi are right" if phi.stated else ""
        return -rho / least, phi.lipschitz / least, stated

    def scaled(v: np.ndarray) -> np.ndarray:
        return np.asarray(product(v / root) / root)

    if not phi.affine_grad:
        T, rest = spectrum.tridiagonal(scaled, np.random.default_rng(0).standard_normal(n), min(30, n))
        size = float(np.abs(np.linalg.eigvalsh(T)).max()) + rest
        return -2.0 * size, 2.0 * size, "phi has no more than twice the curvature that it has at x0"
    stated = AFFINE if phi.by_word else ""
    if n > DENSE:
        low, high = spectrum.extremes(scaled, n, rough=True)
        return low, high, joined(stated, "Lanczos has found the lowest curvature of phi along the set")
    H = np.stack([scaled(row) for row in np.eye(n)])
    values = np.linalg.eigvalsh(0.5 * (H + H.T))
    slack = 8.0 * n * eps_of(x) * float(np.abs(values).max(initial=0.0))
    return float(values[0]) - slack, float(values[-1]) + slack, stated
