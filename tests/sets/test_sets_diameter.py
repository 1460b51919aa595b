"""The diameter is the largest Euclidean distance of two points of the set (for a Polytope, a bound)."""

import math

import numpy as np
import pytest

from dcfw import sets
from set_cases import every_set


def opposite(domain):
    """Yield directions whose minimiser and maximiser are far apart."""
    if isinstance(domain, sets.Product):
        for parts in zip(*(list(opposite(block)) for block in domain.sets), strict=True):
            yield domain.join(parts)
        return
    first = np.zeros(domain.shape)
    first.flat[0] = 1.0
    yield first
    yield np.ones(domain.shape)
    yield np.eye(*domain.shape) if len(domain.shape) == 2 else np.ones(domain.shape)


@every_set
def test_no_two_vertices_are_farther_apart_than_the_diameter(case):
    rng = np.random.default_rng(0)
    domain = case.domain
    found = [domain.lmo(rng.standard_normal(domain.shape)) for _ in range(12)]
    found += [domain.lmo(sign * G) for G in opposite(domain) for sign in (1.0, -1.0)]
    longest = max(np.linalg.norm(a - b) for a in found for b in found)
    assert longest <= domain.diameter * (1.0 + 1e-12) + 1e-12


@every_set
def test_the_diameter_is_attained_where_it_is_exact(case):
    domain = case.domain
    if isinstance(domain, sets.Polytope | sets.Product) and not domain.strong_convexity:
        return  # a bound only, or attained by its blocks
    if case.diameter_is_a_bound:
        return
    if case.widest is not None:
        longest = np.linalg.norm(domain.lmo(case.widest) - domain.lmo(-case.widest))
    elif isinstance(domain, sets.ConvexHull):
        longest = max(np.linalg.norm(a - b) for a in domain.points for b in domain.points)
    else:
        longest = max(np.linalg.norm(domain.lmo(G) - domain.lmo(-G)) for G in opposite(domain))
    assert longest == pytest.approx(domain.diameter, rel=1e-12)


def test_known_diameters():
    assert sets.Simplex(5, radius=3.0).diameter == pytest.approx(3.0 * math.sqrt(2.0))
    assert sets.Simplex(1).diameter == 0.0
    assert sets.Spectraplex(1, radius=3.0).diameter == 0.0
    assert sets.Birkhoff(5).diameter == pytest.approx(math.sqrt(10.0))
    assert sets.Birkhoff(1).diameter == 0.0
    assert sets.LpBall(16, p=4).diameter == pytest.approx(4.0)
    assert sets.SpectralBall((4, 9), radius=2.0).diameter == pytest.approx(8.0)
    assert sets.Product([sets.L2Ball(2, 1.5), sets.L2Ball(3, 2.0)]).diameter == pytest.approx(5.0)


def test_the_polytope_bound_is_the_diagonal_of_its_bounding_box():
    triangle = sets.Polytope(A_ub=[[1.0, 2.0]], b_ub=[4.0], bounds=(0.0, None))
    assert triangle.diameter == pytest.approx(math.hypot(4.0, 2.0))
