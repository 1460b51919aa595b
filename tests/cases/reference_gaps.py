"""Independent answers for the theory's tests: gap_DC by projected gradients, minima by many starts.

Nothing here uses the solvers: only ``project`` and ``lmo`` of the sets, which have tests of their own.
"""

import math

import numpy as np

EPS = float(np.finfo(float).eps)


def flat(a, b):
    return float(np.vdot(a, b))


def minimise_convex(value, grad, L, domain, y, accuracy, iterations=200_000):
    """Minimise an L-smooth convex function over a set: accelerated projected gradients with restarts.

    Returns the point and its Frank-Wolfe gap, an upper bound of its error.
    """
    L = max(L, 1e-12)
    z, momentum = y, 1.0
    for iteration in range(iterations):
        new = domain.project(z - grad(z) / L)
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        if flat(z - new, new - y) > 0.0:  # the momentum points uphill
            z, following = new, 1.0
        else:
            z = new + ((momentum - 1.0) / following) * (new - y)
        y, momentum = new, following
        if iteration % 20 == 0:
            G = grad(y)
            gap = flat(G, y - np.asarray(domain.lmo(G)))
            if gap <= accuracy:
                break
    return y, max(gap, 0.0)


def surrogate_gap(f, u, domain, x, L, accuracy=1e-10):
    """Return (low, high) with low <= max_y f(x) - f(y) - <u, x - y> <= high, and the maximiser.

    That is gap_DC(x) where u is the only subgradient of g at x, an upper bound of it otherwise.
    """
    y, gap = minimise_convex(
        lambda y: f.value(y) - flat(u, y), lambda y: f.grad(y) - u, L, domain, x.copy(), accuracy
    )
    low = f.value(x) - f.value(y) - flat(u, x - y)
    return low, low + gap, y


def rounding(x, steps, *sizes):
    """Return how far ``steps`` incremental updates in len(x) coordinates may be off for terms of these sizes.

    Each step adds a rounding error of a few eps to every entry of the gradient; an inner product over n
    entries adds n more.
    """
    return 8.0 * (x.size + steps) * EPS * (1.0 + sum(abs(s) for s in sizes))


def size_of(dc, domain, x):
    """Return the size of the numbers whose differences are the gaps at x."""
    slopes = float(np.linalg.norm(dc.f.grad(x))) + float(np.linalg.norm(dc.g.grad(x)))
    return abs(dc.f.value(x)) + abs(dc.g.value(x)) + slopes * domain.diameter


def lowest(phi, L, domain, rng, starts=60, iterations=400):
    """Return the least value of phi that projected gradients find from many starts (small dimensions)."""
    best = math.inf
    for _ in range(starts):
        y = np.asarray(domain.random(rng))
        for _ in range(iterations):
            new = domain.project(y - phi.grad(y) / L)
            if float(abs(new - y).max()) < 1e-12:
                break
            y = new
        best = min(best, phi.value(y), phi.value(np.asarray(domain.lmo(rng.standard_normal(y.shape)))))
    return best


def trace(minimize, *args, **kwargs):
    """Run ``minimize`` and return its result with the iterates that its history's rows are about."""
    iterates = []

    def keep(intermediate_result):
        iterates.append(intermediate_result.x)

    res = minimize(*args, callback=keep, **kwargs)
    assert len(iterates) == len(res.history)
    return res, iterates


def symmetric(rng, n, low, high):
    """Return a random symmetric matrix with eigenvalues between ``low`` and ``high``, both attained."""
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.concatenate(([low, high], rng.uniform(low, high, n)))[:n]
    A = (Q * values) @ Q.T
    return 0.5 * (A + A.T)
