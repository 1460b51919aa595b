"""In-face steps: the same answers as with stored atoms, from points of the set, without any atom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import functions, sets
from dcfw.solvers.in_face import InFaceLoop

SETS = {
    "box": lambda: sets.Box(-0.5, 1.0, 12),
    "cube": lambda: sets.LInfBall(12, 0.3),
    "hypersimplex": lambda: sets.Hypersimplex(12, 4),
    "capped simplex": lambda: sets.CappedSimplex(12, np.linspace(0.1, 0.6, 12)),
    "birkhoff": lambda: sets.Birkhoff(5),
    "transport": lambda: sets.TransportPolytope([0.2, 0.3, 0.5], [0.25, 0.15, 0.4, 0.2], solver="highs"),
    "paths": lambda: sets.ShortestPath([[0, 1], [0, 2], [1, 3], [2, 3], [1, 2], [3, 4], [2, 4]], 0, 4),
    "product": lambda: sets.Product([sets.Box(0.0, 1.0, 4), sets.Hypersimplex(5, 2)]),
}


class Squares(functions.Function):
    """1/2 ||X - target||^2."""

    convex = affine_grad = True

    def __init__(self, target):
        self.target = target

    def value(self, x):
        return 0.5 * float(((x - self.target) ** 2).sum())

    def grad(self, x):
        return x - self.target


def robust(domain, seed=0, d=0.1):
    """Return a pseudo-Huber distance to a point outside of the set."""
    target = np.random.default_rng(seed).standard_normal(domain.shape)

    def grad(x):
        r = x - target
        return r / np.sqrt(r * r + d * d)

    return functions.Smooth(
        lambda x: float(np.sqrt((x - target) ** 2 + d * d).sum()), grad, lipschitz=1 / d, convex=True
    )


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("quadratic", [True, False])
def test_the_minimiser_is_that_of_blended_steps(name, quadratic):
    domain = SETS[name]()
    f = robust(domain)
    if quadratic:
        target = np.random.default_rng(1).standard_normal(domain.shape)
        f = Squares(target)
    seen = []
    res = dcfw.minimize(
        f,
        domain,
        method="dcfw",
        inner="in-face",
        rtol=1e-9,
        callback=lambda r: seen.append(domain.contains(r.x)),
    )
    other = dcfw.minimize(f, domain, method="dcfw", inner="blended", rtol=1e-9)
    assert res.success
    assert all(seen)
    assert res.fun <= other.fun + res.gap
    assert other.fun <= res.fun + other.gap
    assert getattr(res, "active_set", None) is None


@pytest.mark.parametrize("method", ["fw", "cgs", "boosted"])
def test_other_methods_take_in_face_steps_too(method):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((12, 12))
    res = dcfw.minimize(
        functions.Quadratic(A + A.T), sets.Hypersimplex(12, 4), method=method, inner="in-face", rtol=1e-5
    )
    assert res.success
    assert sets.Hypersimplex(12, 4).contains(res.x)


@given(st.sampled_from(sorted(SETS)), st.integers(0, 2**32 - 1))
def test_a_vertex_of_the_face_is_at_every_bound_at_which_x_is(name, seed):
    domain, rng = SETS[name](), np.random.default_rng(seed)
    vertices = [domain.lmo(rng.standard_normal(domain.shape)) for _ in range(2)]
    x, G = 0.3 * vertices[0] + 0.7 * vertices[1], rng.standard_normal(domain.shape)
    loop = InFaceLoop(domain)
    loop.low, loop.high = (np.broadcast_to(end, domain.shape) for end in loop.bounds)
    s = loop.face_vertex(G, x).dense()
    for at, end in zip(loop.at_bounds(x), loop.bounds, strict=True):
        np.testing.assert_allclose(s[at], np.broadcast_to(end, domain.shape)[at], atol=1e-12)
    assert all(np.vdot(G, s) <= np.vdot(G, v) + 1e-9 for v in vertices)  # both are on the face


def test_a_set_whose_faces_are_not_given_by_bounds_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"L1Ball declares none \(entry_bounds\): use inner='blended'"):
        dcfw.minimize(functions.SquaredNorm(1.0), sets.L1Ball(3), method="dcfw", inner="in-face")


def test_the_default_takes_them_for_a_given_f_that_is_not_quadratic():
    domain = sets.Hypersimplex(12, 4)
    phi = robust(domain) - functions.SquaredNorm(0.1)
    default, named = (dcfw.minimize(phi, domain, **options) for options in ({}, {"inner": "in-face"}))
    np.testing.assert_array_equal(default.x, named.x)
    assert default.n_lmo == named.n_lmo
