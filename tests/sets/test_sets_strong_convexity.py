"""The strong convexity constants hold by their definition, in the Euclidean norm.

D is alpha-strongly convex if for x, y in D and eta in [0, 1] the ball around x + eta (y - x) of radius
eta (1 - eta) alpha/2 ||x - y||^2 lies in D.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfw import sets
from set_cases import every_set
from structured_cases import SKEW


def worst_point(domain, alpha, x, y, eta):
    """Return the point of the definition's ball that leaves the set first: along the outer normal."""
    middle = x + eta * (y - x)
    normal = outer_normal(domain, middle)
    return middle + 0.5 * alpha * eta * (1.0 - eta) * np.sum((x - y) ** 2) * normal


def outer_normal(domain, x):
    """Return the unit gradient of the set's norm at ``x``."""
    if isinstance(domain, sets.Ellipsoid):
        gradient = SKEW @ (x - domain.center)
    elif x.ndim == 2 and isinstance(domain, sets.SchattenBall):
        U, sigma, Vt = np.linalg.svd(x, full_matrices=False)
        gradient = (U * sigma ** (domain.p - 1.0)) @ Vt
    else:
        gradient = np.sign(x) * np.abs(x) ** (domain.p - 1.0)
    return gradient / np.linalg.norm(gradient)


def boundary_point(domain, rng, spread):
    """Return a random boundary point; a large spread gives coordinates of very different sizes."""
    x = rng.standard_normal(domain.shape) * np.exp(spread * rng.standard_normal(domain.shape))
    if isinstance(domain, sets.Ellipsoid):
        return domain.center + x * (domain.radius / np.sqrt(x @ SKEW @ x))
    size = np.linalg.svd(x, compute_uv=False) if isinstance(domain, sets.SchattenBall) else x.ravel()
    return x * (domain.radius / np.linalg.norm(size, domain.p))


BALLS = [
    sets.L2Ball(3, radius=2.0),
    sets.LpBall(2, p=1.1),
    sets.LpBall(5, p=1.5, radius=3.0),
    sets.LpBall((4, 10), p=1.2, radius=0.5),
    sets.LpBall(40, p=1.8),
    sets.SchattenBall((3, 3), p=1.3),
    sets.SchattenBall((5, 4), p=1.7, radius=2.0),
    sets.SchattenBall((3, 4), p=2),
    sets.Ellipsoid(SKEW, center=[1.0, 0.0, -2.0], radius=1.5),
]


@pytest.mark.parametrize("domain", BALLS, ids=repr)
@settings(derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.0, 1.0, 4.0]),
    close=st.sampled_from([1.0, 0.1, 0.01]),
    eta=st.floats(0.01, 0.99),
)
def test_the_ball_of_the_definition_lies_in_the_set(domain, seed, spread, close, eta):
    rng = np.random.default_rng(seed)
    x = boundary_point(domain, rng, spread)
    y = x + close * (boundary_point(domain, rng, spread) - x)
    assert domain.strong_convexity > 0.0
    assert domain.contains(worst_point(domain, domain.strong_convexity, x, y, eta), tol=1e-12)


def test_the_euclidean_ball_is_no_more_strongly_convex_than_claimed():
    domain = sets.L2Ball(2, radius=2.0)
    assert domain.strong_convexity == pytest.approx(0.5)
    x, y = 2.0 * np.array([math.cos(0.1), math.sin(0.1)]), 2.0 * np.array([math.cos(0.1), -math.sin(0.1)])
    assert not domain.contains(worst_point(domain, 0.51, x, y, 0.5))


def test_the_dimension_cannot_be_left_out_of_the_constant():
    """With many small coordinates the boundary of the l_1.1 ball is flatter than (p-1)/radius."""
    n, p = 400, 1.1
    domain = sets.LpBall(n, p)
    x = np.full(n, 1e-3)
    x[:2] = 0.5, 0.4
    y = x.copy()
    y[:2] = 0.4, 0.5
    x, y = x / np.linalg.norm(x, p), y / np.linalg.norm(y, p)
    assert domain.contains(worst_point(domain, domain.strong_convexity, x, y, 0.5), tol=1e-12)
    assert not domain.contains(worst_point(domain, p - 1.0, x, y, 0.5), tol=1e-12)


@every_set
def test_the_constant_is_positive_exactly_for_the_strictly_round_sets(case):
    domain = case.domain
    if case.round is not None:
        assert (domain.strong_convexity > 0.0) == case.round
        return
    only = domain.sets[0] if isinstance(domain, sets.Product) and len(domain.sets) == 1 else domain
    assert (domain.strong_convexity > 0.0) == (1.0 < getattr(only, "p", math.inf) <= 2.0)
