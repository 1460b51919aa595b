"""Functions, sets and gap_DC in extended precision, written independently of the library.

Points are flat vectors of ``np.longdouble`` (64 bits of mantissa and a range of 1e+-4932 on x86), so that
data of single or double precision enter exactly, and nothing overflows.  The reference for gap_DC(x) is an
interval: any point y of the set bounds it from below by the surrogate's decrease m(x) - m(y), and from above
by that plus the Frank-Wolfe gap at y, both evaluated in extended precision.  So the search for a good y may
be as rough as it likes: it cannot make the interval wrong, only wide.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import nnls

LD = np.longdouble

JACOBI = 16
"""Matrices of a larger order are decomposed in double precision, in good time.  That is off by a few eps
times their norm, where the tests allow for hundreds: their allowance grows with the number of entries."""


def ld(a):
    return np.asarray(a, dtype=LD).reshape(-1)


# -- functions --------------------------------------------------------------------------------------------


class Quad:
    """1/2 y'Hy + b'y + c.  ``sizes`` are (|H|, |b|, |c|) as computed from: larger where terms cancel."""

    def __init__(self, H, b, c=0.0, sizes=None):
        self.H, self.b, self.c = H, b, LD(c)
        self.sizes = sizes or (abs(H), abs(b), abs(self.c))

    @classmethod
    def of(cls, A, b=None, c=0.0):
        A = np.asarray(A, dtype=LD)
        return cls((A + A.T) / 2, ld(np.zeros(len(A)) if b is None else b), c)

    @classmethod
    def least_squares(cls, A, b):
        A, b = np.asarray(A, dtype=LD), ld(b)
        sizes = (abs(A.T) @ abs(A), abs(A.T) @ abs(b), b @ b / 2)
        return cls(A.T @ A, -(A.T @ b), b @ b / 2, sizes)

    @classmethod
    def square(cls, n, scale):
        return cls(LD(scale) * np.eye(n, dtype=LD), np.zeros(n, dtype=LD))

    def value(self, y):
        return y @ (self.H @ y) / 2 + self.b @ y + self.c

    def grad(self, y):
        return self.H @ y + self.b

    def hess(self, y):
        return self.H

    def size(self, r):
        H, b, c = self.sizes
        return r @ (H @ r) + b @ r + c

    def unique(self, x):
        return True

    def blur(self, x):
        return LD(0)

    def rise(self, x, d):
        """Return the directional derivative at x along d."""
        return self.grad(x) @ d


class Sum(Quad):
    """A combination sum_i c_i f_i."""

    def __init__(self, *terms):
        self.terms = [(LD(c), f) for c, f in terms]

    def value(self, y):
        return sum(c * f.value(y) for c, f in self.terms)

    def grad(self, y):
        return sum(c * f.grad(y) for c, f in self.terms)

    def hess(self, y):
        return sum(c * f.hess(y) for c, f in self.terms)

    def size(self, r):
        return sum(abs(c) * f.size(r) for c, f in self.terms)

    def unique(self, x):
        return all(f.unique(x) for _, f in self.terms)

    def blur(self, x):
        return sum(abs(c) * f.blur(x) for c, f in self.terms)

    def rise(self, x, d):
        # A concave term (c < 0) is smooth in all that is built here.
        return sum(c * f.rise(x, d) for c, f in self.terms)


class Norm(Quad):
    def __init__(self, scale):
        self.scale = LD(scale)

    def hess(self, y):
        return np.zeros((len(y), len(y)), dtype=LD)


class L1(Norm):
    def value(self, y):
        return self.scale * abs(y).sum()

    def grad(self, y):
        return self.scale * np.sign(y)

    def size(self, r):
        return 2 * self.scale * r.sum()

    def unique(self, x):
        return bool((x != 0).all())

    def rise(self, x, d):
        return self.scale * np.where(x != 0, np.sign(x) * d, abs(d)).sum()


class L2(Norm):
    def value(self, y):
        return self.scale * length(y)

    def grad(self, y):
        return 0 * y if not y.any() else self.scale * (y / length(y))

    def size(self, r):
        return 2 * self.scale * length(r)

    def unique(self, x):
        return bool(x.any())

    def rise(self, x, d):
        return self.grad(x) @ d if x.any() else self.scale * length(d)


class Nuclear(Norm):
    """The nuclear norm.  Where the rank is not full, only an upper bound of ``rise`` would be needed; there
    the lower end of the reference is left at 0."""

    def __init__(self, scale, shape):
        super().__init__(scale)
        self.shape = shape

    def value(self, y):
        return self.scale * svd(y.reshape(self.shape))[1].sum()

    def grad(self, y):
        U, s, Vt = svd(y.reshape(self.shape))
        return self.scale * ((U * (s > 1e-17 * s.max())) @ Vt).ravel()

    def size(self, r):
        return 2 * self.scale * min(self.shape) * length(r)

    def unique(self, x):
        s = svd(x.reshape(self.shape))[1]
        return bool(s.min() > 1e-17 * s.max() > 0)

    def blur(self, x):
        """The polar factor moves by 1/sigma_min for a unit change of x: a backward error of eps.

        Singular values that are 0 for the reference are so for the library, too, but not the other way round.
        """
        s = svd(x.reshape(self.shape))[1]
        s = s[s > 1e-17 * s.max()]
        return self.scale * min(self.shape) * length(x) * (s.max() / s.min() if len(s) else LD(0))

    def rise(self, x, d):
        return self.grad(x) @ d if self.unique(x) else LD(np.inf)


class Profile(Norm):
    """sum_i h(|x_i|): what CappedL1 (theta), SCAD (a) or MCP (gamma) subtract from lam ||x||_1."""

    def __init__(self, kind, lam, parameter):
        super().__init__(lam)
        self.kind, self.parameter = kind, LD(parameter)

    def value(self, y):
        t, lam, p = abs(y), self.scale, self.parameter
        if self.kind == "capped":
            return (lam * np.maximum(t - p, 0)).sum()
        if self.kind == "scad":
            middle = np.maximum(t - lam, 0) ** 2 / (2 * (p - 1))
            return np.where(t <= p * lam, middle, lam * t - lam * lam * (p + 1) / 2).sum()
        return np.where(t <= p * lam, t * t / (2 * p), lam * t - p * lam * lam / 2).sum()

    def grad(self, y):
        t, lam, p = abs(y), self.scale, self.parameter
        if self.kind == "capped":
            slope = np.where(t > p, lam, 0 * t)
        elif self.kind == "scad":
            slope = np.minimum(np.maximum(t - lam, 0) / (p - 1), lam)
        else:
            slope = np.minimum(t / p, lam)
        return np.sign(y) * slope

    def size(self, r):
        return 4 * self.scale * (r + (self.parameter if self.kind == "capped" else self.scale)).sum()

    def unique(self, x):
        return not (self.kind == "capped" and bool((abs(x) == self.parameter).any()))

    def rise(self, x, d):
        total = self.grad(x) @ d
        if self.kind == "capped":
            total += (
                self.scale * np.where(abs(x) == self.parameter, np.maximum(np.sign(x) * d, 0), 0 * d).sum()
            )
        return total


class LogSumExp(Quad):
    """t log sum exp((Ay + b)/t)."""

    def __init__(self, A, b, t):
        self.A, self.b, self.t = np.asarray(A, dtype=LD), ld(b), LD(t)

    def _weights(self, y):
        z = (self.A @ y + self.b) / self.t
        e = np.exp(z - z.max())
        return z.max(), e

    def value(self, y):
        top, e = self._weights(y)
        return self.t * (top + np.log(e.sum()))

    def grad(self, y):
        _, e = self._weights(y)
        return self.A.T @ (e / e.sum())

    def hess(self, y):
        _, e = self._weights(y)
        w = e / e.sum()
        mean = self.A.T @ w
        return ((self.A.T * w) @ self.A - np.outer(mean, mean)) / self.t

    def size(self, r):
        # A relative error of eps in z/t is one of eps |z|/t in exp(z/t), hence the slopes' own |z|/t.
        scores = (abs(self.A) @ r + abs(self.b)).max()
        return scores * (2 + scores / self.t) + self.t * math.log(len(self.b) + 1)


class Logistic(Quad):
    """The mean of log(1 + exp(-z_i)), z = y * Ax."""

    def __init__(self, A, labels):
        self.A = np.asarray(A, dtype=LD) * ld(labels)[:, None]

    def value(self, y):
        z = self.A @ y
        return (np.log1p(np.exp(-abs(z))) + np.maximum(-z, 0)).mean()

    def grad(self, y):
        return self.A.T @ (-1 / (1 + np.exp(self.A @ y))) / len(self.A)

    def hess(self, y):
        s = 1 / (1 + np.exp(self.A @ y))
        return (self.A.T * (s * (1 - s))) @ self.A / len(self.A)

    def size(self, r):
        scores = (abs(self.A) @ r).max()
        return 1 + scores * (2 + scores)


class Lifted(Quad):
    """A function of x as one of (x, t), plus slope * t."""

    def __init__(self, f, slope=0.0):
        self.f, self.slope = f, LD(slope)

    def value(self, z):
        return self.f.value(z[:-1]) + self.slope * z[-1]

    def grad(self, z):
        return np.append(self.f.grad(z[:-1]), self.slope)

    def hess(self, z):
        return np.pad(self.f.hess(z[:-1]), (0, 1))

    def size(self, r):
        return self.f.size(r[:-1]) + 2 * self.slope * r[-1]

    def unique(self, x):
        return self.f.unique(x[:-1])

    def blur(self, x):
        return self.f.blur(x[:-1])

    def rise(self, x, d):
        return self.f.rise(x[:-1], d[:-1]) + self.slope * d[-1]


# -- sets -------------------------------------------------------------------------------------------------


class Hull:
    """The convex hull of the rows of V; ``excess(x)`` is by how much x breaks its constraints, if known."""

    def __init__(self, V, excess=None):
        self.V = np.asarray(V, dtype=LD)
        self.r = abs(self.V).max(axis=0)
        self.excess = excess

    def lmo(self, G):
        return self.V[int(np.argmin(self.V @ G))]

    def violation(self, x):
        """Return the excess, else the distance to a combination of the vertices, as good as nnls finds it."""
        if self.excess is not None:
            return max(self.excess(x), LD(0))
        scale = self.r.max() or LD(1)
        A = np.vstack([(self.V / scale).T, np.ones(len(self.V))]).astype(float)
        w = nnls(A, np.append(x / scale, 1.0).astype(float))[0].astype(LD)
        return length(w / w.sum() @ self.V - x)


class Ball:
    """The l_p ball of vectors, or of singular values where ``shape`` is given (1 <= p <= inf)."""

    def __init__(self, n, p, radius, shape=None):
        self.p, self.radius, self.shape = p, LD(radius), shape
        rank = 1 if shape is None else min(shape)
        self.r = sizes(n, self.radius, rank, LD(rank) ** max(LD(0.5) - 1 / LD(p), LD(0)))

    def lmo(self, G):
        if self.shape is None:
            return lp_point(-G, self.p, self.radius)
        U, s, Vt = svd(G.reshape(self.shape))
        return -((U * lp_point(s, self.p, self.radius)) @ Vt).ravel()

    def norm(self, x):
        return lp_norm(x if self.shape is None else svd(x.reshape(self.shape))[1], self.p)

    def violation(self, x):
        return max(self.norm(x) - self.radius, LD(0))


def sizes(n, radius, rank, stretch=1):
    """Return the size of n entries: at most the radius each, and in large matrices their root mean square.

    All of them cannot be as large as the radius, and bounds from that would be too wide to notice an error;
    ``stretch`` is the largest Frobenius norm, in units of the radius.
    """
    return np.full(n, radius if rank <= JACOBI else radius * stretch / np.sqrt(LD(n)))


class Spectraplex:
    """Positive semidefinite matrices of order n and trace ``radius``."""

    def __init__(self, n, radius):
        self.n, self.radius = n, LD(radius)
        self.r = sizes(n * n, self.radius, n)

    def lmo(self, G):
        G = G.reshape(self.n, self.n)
        values, vectors = eigh((G + G.T) / 2)
        v = vectors[:, int(np.argmin(values))]
        return self.radius * np.outer(v, v).ravel()

    def violation(self, x):
        X = x.reshape(self.n, self.n)
        lowest = eigh((X + X.T) / 2)[0].min()
        return max(abs(X - X.T).max(), -lowest, abs(np.trace(X) - self.radius), LD(0))


class Epigraph:
    """{(x, t): ||x|| <= t <= radius} of a :class:`Ball`."""

    def __init__(self, ball):
        self.ball = ball
        self.r = np.append(ball.r, ball.radius)

    def lmo(self, G):
        s = np.append(self.ball.lmo(G[:-1]), self.ball.radius)
        return s if s @ G < 0 else 0 * s

    def violation(self, z):
        return max(self.ball.norm(z[:-1]) - z[-1], z[-1] - self.ball.radius, LD(0))


class Product:
    def __init__(self, blocks):
        self.blocks = blocks
        self.r = np.concatenate([block.r for block in blocks])
        ends = np.cumsum([len(block.r) for block in blocks])[:-1]
        self.split = lambda x: np.split(x, ends)

    def lmo(self, G):
        return np.concatenate([b.lmo(g) for b, g in zip(self.blocks, self.split(G), strict=True)])

    def violation(self, x):
        return max(b.violation(part) for b, part in zip(self.blocks, self.split(x), strict=True))


class Known:
    """A set by its own cold oracle, which other tests compare with cvxpy: its points in double precision.

    In smooth sets a rounded minimiser is as good to second order, in others it is a rounded vertex.
    """

    def __init__(self, domain):
        self.domain = domain
        n = int(np.prod(domain.shape))
        self.r = np.max([abs(self.lmo(ld(G))) for G in np.vstack([np.eye(n), -np.eye(n)])], axis=0)

    def lmo(self, G):
        unit = abs(G).max() or LD(1)
        return ld(self.domain.lmo((G / unit).astype(float).reshape(self.domain.shape)))

    def violation(self, x):
        return LD(self.domain.violation(x.astype(float).reshape(self.domain.shape)))


def simplex_excess(x, radius):
    return max(abs(x.sum() - LD(radius)), -x.min())


def birkhoff_excess(x, n):
    X = x.reshape(n, n)
    return max(abs(X.sum(axis=0) - 1).max(), abs(X.sum(axis=1) - 1).max(), -x.min())


def signs(n):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


def permutations(n):
    return np.array([np.eye(n)[list(order)].ravel() for order in itertools.permutations(range(n))])


def k_sparse(n, k):
    rows = []
    for places in itertools.combinations(range(n), k):
        for pattern in signs(k):
            row = np.zeros(n)
            row[list(places)] = pattern
            rows.append(row)
    return np.array(rows)


def corners(A, b, equations=0):
    """Return the vertices of {A x <= b}, the first ``equations`` rows holding with equality.

    Every n rows that fix a point are solved in extended precision.
    """
    A, b = np.asarray(A, dtype=LD), np.asarray(b, dtype=LD)
    m, n = A.shape
    found = []
    for rows in itertools.combinations(range(m), n):
        if any(i not in rows for i in range(equations)):
            continue
        square = A[list(rows)].astype(float)
        if abs(np.linalg.det(square)) < 1e-9:
            continue
        inverse = np.linalg.inv(square).astype(LD)
        x = inverse @ b[list(rows)]
        for _ in range(3):
            x = x + inverse @ (b[list(rows)] - A[list(rows)] @ x)
        if (A @ x <= b + 1e-14).all():
            found.append(x)
    return np.array(found)


# -- numbers ----------------------------------------------------------------------------------------------


def length(x):
    top = abs(x).max(initial=LD(0))
    return top if top == 0 else top * np.sqrt(((x / top) ** 2).sum())


def lp_norm(x, p):
    top = abs(x).max()
    if p == math.inf or top == 0:
        return top
    return top * ((abs(x) / top) ** LD(p)).sum() ** (1 / LD(p))


def lp_point(G, p, radius):
    """Return the point of the l_p ball farthest in the direction G."""
    top = abs(G).max()
    if p == math.inf:
        return np.where(G >= 0, radius, -radius)
    s = np.zeros_like(G)
    if p == 1 or top == 0:
        i = int(np.argmax(abs(G)))
        s[i] = radius if G[i] >= 0 else -radius
        return s
    t = np.sign(G) * (abs(G) / top) ** (1 / (LD(p) - 1))
    return t * (radius / lp_norm(t, p))


def eigh(S):
    """Eigenvalues and eigenvectors of a symmetric matrix, by Jacobi rotations."""
    if len(S) > JACOBI:
        top = abs(S).max() or LD(1)
        values, vectors = np.linalg.eigh((S / top).astype(float))
        return top * values.astype(LD), vectors.astype(LD)
    S, n = S.copy(), len(S)
    V = np.eye(n, dtype=LD)
    for _ in range(30):
        if not any([rotate(S, V, i, j) for i in range(n) for j in range(i)]):  # a whole sweep, then look
            break
    return np.diag(S).copy(), V


def rotate(S, V, i, j):
    if abs(S[i, j]) <= 1e-20 * np.sqrt(abs(S[i, i] * S[j, j])) or S[i, j] == 0:
        return False
    tau = (S[j, j] - S[i, i]) / (2 * S[i, j])
    t = (1 if tau >= 0 else -1) / (abs(tau) + np.sqrt(1 + tau * tau))
    c = 1 / np.sqrt(1 + t * t)
    J = np.array([[c, c * t], [-c * t, c]], dtype=LD)
    S[:, [i, j]] = S[:, [i, j]] @ J
    S[[i, j]] = J.T @ S[[i, j]]
    V[:, [i, j]] = V[:, [i, j]] @ J
    return True


def svd(X):
    """A thin singular value decomposition, by one-sided Jacobi rotations on the shorter side."""
    if X.shape[0] < X.shape[1]:
        U, s, Vt = svd(X.T)
        return Vt.T, s, U.T
    B, k = X.copy(), X.shape[1]
    if k > JACOBI:
        top = abs(X).max() or LD(1)
        U, s, Vt = np.linalg.svd((X / top).astype(float), full_matrices=False)
        return U.astype(LD), top * s.astype(LD), Vt.astype(LD)
    V = np.eye(k, dtype=LD)
    for _ in range(40):
        turned = False
        for i in range(k):
            for j in range(i):
                a, b, c = B[:, i] @ B[:, i], B[:, j] @ B[:, j], B[:, i] @ B[:, j]
                if abs(c) <= 1e-19 * np.sqrt(a * b):
                    continue
                tau = (b - a) / (2 * c)
                t = (1 if tau >= 0 else -1) / (abs(tau) + np.sqrt(1 + tau * tau))
                q = 1 / np.sqrt(1 + t * t)
                J = np.array([[q, q * t], [-q * t, q]], dtype=LD)
                B[:, [i, j]], V[:, [i, j]] = B[:, [i, j]] @ J, V[:, [i, j]] @ J
                turned = True
        if not turned:
            break
    s = np.array([length(B[:, j]) for j in range(k)])
    U = np.zeros_like(B)
    for j in np.argsort(-s):
        u = B[:, j] / s[j] if s[j] > 0 else np.zeros(len(B), dtype=LD)
        if s[j] == 0:  # any unit vector orthogonal to the others
            for e in np.eye(len(B), dtype=LD):
                e = e - U @ (U.T @ e)
                if length(e) > 0.3:
                    u = e / length(e)
                    break
        U[:, j] = u
    return U, s, V.T


# -- gaps -------------------------------------------------------------------------------------------------


def fw_gap(G, region, x):
    return G @ (x - region.lmo(G))


def least_quadratic(H, b, region, y, rounds):
    """Minimise 1/2 y'Hy + b'y over the hull of vertices found on the way (Wolfe's active-set method).

    The weights come from linear systems in double precision, everything else is extended.
    """
    atoms, w = [(y, H @ y)], np.ones(1)
    for _ in range(rounds):
        G = H @ y + b
        s = region.lmo(G)
        gap = G @ (y - s)
        if gap <= 1e-17 * abs(G) @ region.r or any((s == a).all() for a, _ in atoms):
            break
        atoms.append((s, H @ s))
        w = np.append(w, 0.0)
        for _ in range(2 * len(w) + 4):
            P, HP = (np.array(rows) for rows in zip(*atoms, strict=True))
            K, c = P @ HP.T, P @ b
            scale = max(abs(K).max(), abs(c).max())
            if scale == 0:
                break
            k = len(w)
            system = np.ones((k + 1, k + 1))
            system[:k, :k], system[k, k] = (K / scale).astype(float), 0.0
            v = np.linalg.lstsq(system, np.append((-c / scale).astype(float), 1.0), rcond=1e-14)[0][:k]
            if (v >= 0).all():
                w = v
                break
            falling = v < 0
            theta = min(1.0, float((w[falling] / (w[falling] - v[falling])).min()))
            w = np.maximum(w + theta * (v - w), 0.0)
            w[falling & (w <= 1e-15)] = 0.0
            if (w > 0).all():
                w[int(np.argmin(np.where(falling, w, np.inf)))] = 0.0
            atoms, w = [a for a, weight in zip(atoms, w, strict=True) if weight > 0], w[w > 0]
            if len(w) <= 1:
                w = np.ones(1)
                break
        w = w / w.sum()
        weights = w.astype(LD)
        y = (weights / weights.sum()) @ np.array([a for a, _ in atoms])
    return y


def minimiser(f, u, region, x, rounds):
    """Return a point of the set where f - <u, .> is small, and its Frank-Wolfe gap."""
    quadratic = isinstance(f.hess(x), np.ndarray) and (type(f) is Quad or _is_quadratic(f))
    y = region.lmo(f.grad(x) - u)
    best, best_gap = y, fw_gap(f.grad(y) - u, region, y)
    for _ in range(1 if quadratic else 12):
        H, G = f.hess(y), f.grad(y) - u
        z = least_quadratic(H, G - H @ y, region, region.lmo(G), rounds)
        t, here = LD(1), f.value(y) - u @ y
        while not quadratic and f.value(y + t * (z - y)) - u @ (y + t * (z - y)) > here and t > 1e-6:
            t /= 2
        y = y + t * (z - y)
        gap = fw_gap(f.grad(y) - u, region, y)
        if gap < best_gap:
            best, best_gap = y, gap
        elif not quadratic:
            break
    return best, max(best_gap, LD(0))


def _is_quadratic(f):
    if isinstance(f, Sum):
        return all(_is_quadratic(term) for _, term in f.terms)
    return _is_quadratic(f.f) if isinstance(f, Lifted) else type(f) is Quad


def dc_gap(f, g, region, x, rounds=40):
    """Return (low, high) with low <= gap_DC(x) <= high."""
    u = g.grad(x)
    y, gap = minimiser(f, u, region, x, rounds)
    fall = f.value(x) - f.value(y)
    high = fall - u @ (x - y) + gap
    # gap_DC is the least over all subgradients: in the direction x - y, g rises by the largest of them.
    low = fall - g.rise(x, x - y)
    return max(low, LD(0)), max(high, LD(0))
