"""The spectral split of a quadratic: f has the positive eigenvalues of its Hessian H, and g the others.

* Of all splits, this one adds the least curvature.
* With P the projection onto the set's directions (:meth:`dcfw.sets.Set.tangent`) and a point c of the set,
  phi(x) = 1/2 x'(PHP)x + <grad phi(c) - PHP c, x> + constant for all x in the set.
* For large H, Lanczos finds the negative eigenvalues with their vectors V, if they are few.  g = 1/2
  x'V|Lambda|V'x and f = phi + g keep phi's structure, and f - g = phi for any accuracy of V.  The negative
  curvature that Lanczos may have missed is added to both parts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dcfw._arrays import Array, eps_of, inner, like, namespace, norm2, to_numpy
from dcfw.functions.base import Function
from dcfw.functions.dc import AFFINE, DC, joined
from dcfw.functions.quadratic import DENSE_EIGENVALUES, Quadratic, SquaredNorm, reshaped
from dcfw.functions.spectrum import tridiagonal
from dcfw.functions.sums import QUICK, Scaled, Sum, Zero
from dcfw.sets.atoms import Atom, OneHot

FEW = 48  # the maximum number of negative eigenvalues for Lanczos
DENSE_LIMIT = 5000  # the maximum size for a dense decomposition of the Hessian
RESTARTS = 100  # the maximum number of restarts of Lanczos for a few eigenvalues
# Of eigenvectors, relative to the largest eigenvalue.  A shift covers negative eigenvalues of up to four
# times that size, since there may be many near zero.
ACCURACY = 2.5e-6


class LowRank(Function, trusted=True):
    """The function 1/2 x'V diag(weights) V'x + shift/2 ||x||^2 with orthonormal V and weights >= 0."""

    convex = True
    affine_grad = True

    def __init__(self, V: Array, weights: Array, shift: float = 0.0) -> None:
        self.V, self.weights, self.shift = V, weights, shift
        self._scaled, self.size = V * weights, int(V.shape[0])

    @property
    def lipschitz(self) -> float:
        return self.shift + float(namespace(self.weights).max(self.weights))

    def value(self, x: Array) -> float:
        coordinates = self.V.T @ reshaped(x, (-1,))
        return 0.5 * (inner(self.weights * coordinates, coordinates) + self.shift * norm2(x))

    def grad(self, x: Array) -> Array:
        image = self._scaled @ (self.V.T @ reshaped(x, (-1,)))
        return reshaped(image, x.shape) + self.shift * x

    def grad_at(self, atom: Atom) -> Array:
        if not isinstance(atom, OneHot):
            return self.grad(atom.dense())
        image = self._scaled @ (atom.value * self.V[atom.index])
        image[atom.index] += self.shift * atom.value
        return reshaped(image, atom.shape)

    def value_from_grad(self, x: Array, grad: Array) -> float:
        return 0.5 * inner(grad, x)

    def template(self) -> Array:
        return self.V

    def __repr__(self) -> str:
        return f"LowRank(n={self.size}, rank={len(self.weights)})"


class TooManyNegative(ValueError):
    """The Hessian is too large to decompose and has too many negative eigenvalues for Lanczos."""


def split(phi: Function, domain: Any, *, thorough: bool = True) -> DC:
    """Return the spectral split of a quadratic phi; see :func:`dcfw.splits.spectral`.

    ``thorough=False`` raises :class:`TooManyNegative` in place of a long dense decomposition.
    """
    dc = _split(phi, domain, thorough)
    if phi.by_word:
        dc.conditional = joined(AFFINE, dc)
    return dc


def _split(phi: Function, domain: Any, thorough: bool) -> DC:
    x = _origin(phi, domain)
    directions = _directions(domain, x.shape)
    n = math.prod(x.shape)
    if n > DENSE_EIGENVALUES:
        found = _negative_pairs(phi, x, directions)
        if found is not None:
            return _deflated(phi, x, *found, domain=None if directions is None else domain)
        if n > DENSE_LIMIT or not thorough:
            raise TooManyNegative(
                f"phi has {n} variables and more than {FEW} negative eigenvalues, too many for its spectral "
                "split: use splits.proximal(phi), which needs the lowest eigenvalue only"
            )
    return _dense(phi, x, domain, directions)


def lowest_curvature(phi: Function, domain: Any) -> float | None:
    """Return the lowest eigenvalue of a small quadratic along the set, at most 0; None if it is not computed.

    Of a sum with other terms that are convex, return 0 if the quadratic ones are convex together.
    """
    while isinstance(phi, Scaled) and phi.scale >= 0.0 and not phi.affine_grad:
        phi = phi.function
    if isinstance(phi, Sum) and not phi.affine_grad:
        quadratic = [term for term in phi.terms if term.affine_grad]
        if not quadratic or not all(term.convex for term in phi.terms if not term.affine_grad):
            return None
        return 0.0 if lowest_curvature(Sum(quadratic), domain) == 0.0 else None
    n = phi.size if phi.size is not None or domain is None else math.prod(domain.shape)
    if phi.convex or not phi.affine_grad or phi.by_word or n is None or n > QUICK:
        return None
    if phi.weak_convexity == 0.0:
        return 0.0
    x = _origin(phi, domain)
    H = phi.hessian(x)
    noise = _noise(n, _size(lambda v: H @ v, n), eps_of(x))
    H = _along(H, _directions(domain, x.shape))
    low = float(np.linalg.eigvalsh(0.5 * (H + H.T))[0])
    return low if low < -noise else 0.0


def _noise(n: int, size: float, eps: float = float(np.finfo(np.float64).eps)) -> float:
    """Return the size of rounding errors in eigenvalues."""
    return 4.0 * n * eps * size


def _size(product: Any, n: int) -> float:
    """Return an estimate of the largest magnitude of the eigenvalues, from a few products."""
    start = np.random.default_rng(0).standard_normal(n)
    scale = float(np.abs(product(start)).max())  # prevents under- and overflow in squares
    if scale == 0.0:
        return 0.0
    ritz, _ = _density(lambda v: product(v) / scale, start, steps=5)
    return scale * float(np.abs(ritz).max())


def _dense(phi: Function, x: Array, domain: Any, directions: Any) -> DC:
    """Split by a full eigendecomposition: both parts are quadratics with a dense matrix."""
    H = whole = phi.hessian(x)
    n = len(H)
    linear, constant = phi.grad(x), phi.value(x)  # at zero
    if directions is not None:
        H = _along(H, directions)
        c = np.asarray(to_numpy(domain.start()), dtype=np.float64)
        here, c = like(c, x), c.ravel()
        slope = np.ravel(to_numpy(phi.grad(here))).astype(np.float64)
        # phi(x) = phi(c) + <slope, x - c> + 1/2 (x - c)'H(x - c) on the set.
        linear = slope - H @ c
        constant = phi.value(here) - float(slope @ c) + 0.5 * float(c @ H @ c)
    values, vectors = np.linalg.eigh(0.5 * (H + H.T))
    rounding = _noise(n, float(np.abs(values).max(initial=0.0)))
    if directions is not None:  # which leave the rounding of a large curvature across the set
        rounding = max(rounding, _noise(n, _size(lambda v: whole @ v, n)))
    up, down = values > rounding, values < -rounding
    b = like(np.ravel(to_numpy(linear)), x)
    if not down.any() and phi.convex is not False and (directions is None or _semidefinite(whole)):
        return DC(phi, Zero(), name="convex (g = 0)", whole=phi)
    f = Quadratic(_part(vectors, values, up, x), b, constant)
    f.convex, f.made_for = True, None if directions is None else domain
    if not down.any():
        return DC(f, Zero(), name="convex on the set (g = 0)", whole=phi)
    g = Quadratic(_part(vectors, -values, down, x))
    g.convex = True
    return DC(f, g, name="spectral" if directions is None else "spectral(tangent)", whole=phi)


def _deflated(
    phi: Function, x: Array, values: np.ndarray, vectors: np.ndarray, shift: float, *, domain: Any
) -> DC:
    """Split off negative eigenpairs; ``shift`` covers the missed ones, ``domain`` is the set, if flat."""
    if shift == 0.0 and phi.convex is not False:  # phi is linear
        return DC(phi, Zero(), name="convex (g = 0)", whole=phi)
    condition = (
        f"Lanczos missed no negative eigenvalue of phi (those below -{shift:.2g} were looked for"
        f"{'' if domain is None else ', along the set'})"
    )
    g: Function = LowRank(like(vectors, x), like(-values, x), shift) if len(values) else SquaredNorm(shift)
    g.made_for = domain  # not of f, a sum that may be merged into another one
    f = Sum([phi, g])
    f.convex = True
    tangent = "" if domain is None else "tangent, "
    return DC(f, g, f"spectral({tangent}rank={len(values)})", condition, whole=phi)


def _negative_pairs(phi: Function, x: Array, directions: Any) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return the negative eigenvalues of P H P, their vectors and a bound for the others.

    A few pairs at a time are found and deflated: H + V|Lambda|V' has zeros in their place.  Return None if
    there are too many, or if Lanczos does not converge.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    n = math.prod(x.shape)
    slope = phi.grad(x)

    def whole(v: np.ndarray) -> np.ndarray:
        return np.ravel(to_numpy(phi.grad(reshaped(like(v, x), x.shape)) - slope)).astype(np.float64)

    def hessian(v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        return whole(v) if directions is None else directions(whole(directions(v)))

    start = np.random.default_rng(0).standard_normal(n)
    ritz, shares = _density(hessian, start)
    size = float(np.abs(ritz).max())
    noise = _noise(n, size if directions is None else _size(whole, n), eps_of(x))
    if size <= noise:
        return np.zeros(0), np.zeros((n, 0)), noise
    slack = max(4.0 * ACCURACY * size, noise)
    if n * float(shares[ritz < -slack].sum()) > 4.0 * FEW:
        return None
    values, V = np.zeros(0), np.zeros((n, 0))

    def flipped(v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        return np.asarray(size * v - hessian(v) + V @ (values * (V.T @ v)))

    # ARPACK's accuracy is relative to the eigenvalue, and the last ones are nearly 0: so compute the largest
    # eigenvalues of size - H in place of the lowest of H.
    operator = LinearOperator((n, n), matvec=flipped, dtype=np.float64)
    while True:
        try:
            high, vectors = eigsh(operator, k=4, which="LA", v0=start, ncv=32, tol=ACCURACY, maxiter=RESTARTS)
        except ArpackNoConvergence as partial:
            high, vectors = partial.eigenvalues, partial.eigenvectors
            if not (high > size + slack).any():
                return None
        new = high > size + slack
        if not new.any():
            return values, V, slack
        V, _ = np.linalg.qr(np.column_stack([V, vectors[:, new]]))
        # Rayleigh-Ritz: the best approximations in the subspace.
        values, turn = np.linalg.eigh(V.T @ np.column_stack([hessian(v) for v in V.T]))
        V = V @ turn
        if len(values) > FEW:
            return None


def _density(hessian: Any, start: np.ndarray, steps: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return Ritz values and the fraction of the eigenvalues that each represents (Gauss quadrature)."""
    T, _ = tridiagonal(hessian, start, steps)
    ritz, vectors = np.linalg.eigh(T)
    return ritz, vectors[0] ** 2


def _origin(phi: Function, domain: Any) -> Array:
    """Return zero, in the shape of the set's points and the backend of phi's data."""
    if domain is None and phi.size is None:
        raise ValueError("domain must be given: phi does not know the number of its variables")
    shape = (phi.size,) if domain is None else tuple(domain.shape)
    if phi.size not in (None, math.prod(shape)):
        raise ValueError(f"phi is a function of {phi.size} variables, but domain has points of shape {shape}")
    template = phi.template()
    return np.zeros(shape) if template is None else like(np.zeros(shape), template)


def _directions(domain: Any, shape: tuple[int, ...]) -> Any:
    """Return the projection of raveled vectors onto the set's directions, None if it has an interior."""
    if domain is None or not domain.flat:
        return None

    def directions(v: np.ndarray) -> np.ndarray:
        return np.ravel(np.asarray(domain.tangent(np.reshape(v, shape))))

    probe = np.random.default_rng(0).standard_normal(math.prod(shape))
    return None if np.allclose(directions(probe), probe, rtol=1e-12, atol=0.0) else directions


def lies_flat(domain: Any, other: Any) -> bool:
    """Return whether ``domain`` lies in the flat (the affine hull) of the ``other`` set."""
    origin = np.asarray(to_numpy(other.start()), dtype=np.float64)
    start = domain.start()
    if tuple(start.shape) != origin.shape:
        return False
    rng = np.random.default_rng(0)
    probes = [rng.standard_normal(origin.shape) for _ in range(8)]
    if domain.flat:
        points = [to_numpy(start) + domain.tangent(probes[0])]
    else:  # a user-defined set has vertices
        points = [to_numpy(domain.lmo(like(probe, start))) for probe in probes]
    for point in (to_numpy(start), *points):
        d = np.asarray(point, dtype=np.float64) - origin
        if np.linalg.norm(other.tangent(d) - d) > 1e-6 * (np.linalg.norm(point) + np.linalg.norm(origin)):
            return False
    return True


def _along(H: np.ndarray, directions: Any) -> np.ndarray:
    """Return P H P for a symmetric H."""
    if directions is None:
        return H
    once = np.stack([directions(row) for row in H])
    return np.stack([directions(row) for row in once.T])


def _semidefinite(H: np.ndarray) -> bool:
    values = np.linalg.eigvalsh(H)
    return bool(values[0] >= -_noise(len(H), float(np.abs(values).max())))


def _part(vectors: np.ndarray, values: np.ndarray, chosen: np.ndarray, x: Array) -> Array:
    V = vectors[:, chosen]
    return like((V * values[chosen]) @ V.T, x)
