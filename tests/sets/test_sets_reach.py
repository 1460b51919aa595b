"""Along a facet a set reaches at least as far as to any other point of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfw import sets


def balls(n, radius):
    """Return an l1 ball and a k-sparse polytope, with the radius of their l1 norm."""
    k = max(1, n // 3)
    return [(sets.L1Ball(n, radius), radius), (sets.KSparse(n, k, radius), k * radius)]


@given(
    st.integers(0, 10**6),
    st.integers(2, 60),
    st.sampled_from([1.0, 3.7, 1e-5, 1e6]),
    st.sampled_from([1.0, 1e-3, 1e-9]),
)
def test_reach_along_a_facet_is_at_least_the_way_to_another_point_of_it(seed, n, radius, apart):
    rng = np.random.default_rng(seed)
    for domain, size in balls(n, radius):
        signs = np.sign(rng.standard_normal(n))
        x, other = rng.dirichlet(np.full(n, 5.0), size=2) * signs * size
        y = x + apart * (other - x)
        if not domain.contains(x, 0.0) or not domain.contains(y, 0.0):
            continue  # outside of the cube
        z = 0.5 * (x + y)
        d = y - z
        step = domain.reach(z, d)
        assert step >= 1.0 - 1e-6
        assert domain.contains(z + step * d, 0.0)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_reach_across_a_facet_ends_at_it(factor):
    rng = np.random.default_rng(0)
    for domain, size in balls(30, 0.3):
        for _ in range(50):
            x = rng.dirichlet(np.full(30, 5.0)) * size
            inside = 0.5 * x
            assert domain.reach(inside, factor * x) == pytest.approx(0.5 / factor, rel=1e-12)
            assert domain.reach(x, factor * x) <= 1e-13 / factor
