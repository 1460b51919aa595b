"""A wrong argument is refused at construction, by name."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from dcfw import sets
from dcfw.sets.birkhoff import alternating_projections
from dcfw.sets.epigraph import Epigraph

RADIUS = [
    lambda r: sets.Simplex(3, radius=r),
    lambda r: sets.L1Ball(3, radius=r),
    lambda r: sets.L2Ball(3, radius=r),
    lambda r: sets.LInfBall(3, radius=r),
    lambda r: sets.LpBall(3, p=3, radius=r),
    lambda r: sets.KSparse(3, k=2, radius=r),
    lambda r: sets.SpectralBall((2, 3), radius=r),
    lambda r: sets.NuclearBall((2, 3), radius=r),
    lambda r: sets.SchattenBall((2, 3), p=3, radius=r),
    lambda r: sets.Spectraplex(3, radius=r),
]


@pytest.mark.parametrize("make", RADIUS)
@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf])
def test_a_radius_that_is_not_positive_and_finite_is_refused(make, radius):
    with pytest.raises(ValueError, match="radius"):
        make(radius)


@pytest.mark.parametrize("make", RADIUS)
@pytest.mark.parametrize("radius", ["1", None, 1j, True, [1.0]])
def test_a_radius_that_is_not_a_number_is_refused(make, radius):
    with pytest.raises(TypeError, match="radius"):
        make(radius)


SHAPED = [
    sets.Simplex,
    sets.L1Ball,
    sets.L2Ball,
    sets.LInfBall,
    lambda shape: sets.LpBall(shape, p=2),
    lambda shape: sets.KSparse(shape, k=1),
    sets.SpectralBall,
    sets.NuclearBall,
    lambda shape: sets.SchattenBall(shape, p=2),
    sets.Birkhoff,
    sets.Spectraplex,
]


@pytest.mark.parametrize("make", SHAPED)
@pytest.mark.parametrize("shape", [0, -3, (2, 0), (), 2.5, "3", None, True])
def test_a_shape_that_is_not_of_positive_integers_is_refused(make, shape):
    with pytest.raises((TypeError, ValueError), match=r"shape|n must"):
        make(shape)


def test_the_argument_is_called_by_its_own_name():
    for make in (sets.Simplex, sets.Birkhoff, sets.Spectraplex):
        with pytest.raises(ValueError, match=r"\bn must be"):
            make(0)
    for make in (sets.L1Ball, sets.L2Ball, sets.LInfBall):
        with pytest.raises(ValueError, match=r"\bshape must be"):
            make(0)
    for make, verb in ((sets.Simplex(2), "tangent"), (sets.L2Ball(2), "tangent"), (sets.L1Ball(2), "lmo")):
        with pytest.raises(ValueError, match=r"^G must have shape \(2,\)"):
            getattr(make, verb)(np.zeros(3))


@pytest.mark.parametrize("make", [sets.SpectralBall, sets.NuclearBall, lambda s: sets.SchattenBall(s, p=2)])
@pytest.mark.parametrize("shape", [4, (4,), (2, 3, 4)])
def test_matrix_sets_need_two_sizes(make, shape):
    with pytest.raises(ValueError, match="shape must have 2 entries"):
        make(shape)


@pytest.mark.parametrize("make", [lambda p: sets.LpBall(3, p), lambda p: sets.SchattenBall((2, 2), p)])
@pytest.mark.parametrize("p", [0.5, 0.999, -math.inf, math.nan, "2", None])
def test_an_exponent_below_one_is_refused(make, p):
    with pytest.raises((TypeError, ValueError), match=r"\bp must"):
        make(p)


@pytest.mark.parametrize("k", [0, -1, 4, 2.0, None])
def test_k_must_be_an_integer_between_one_and_the_number_of_entries(k):
    with pytest.raises((TypeError, ValueError), match=r"\bk must"):
        sets.KSparse(3, k=k)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([0.0, 2.0], [1.0, 1.0]), r"lower must not exceed upper, but at \(1,\)"),
        (([1.0, 2.0], [1.0, 1.0]), r"lower must not exceed upper, but at \(1,\)"),
        (([0.0, np.nan], [1.0, 1.0]), "lower has NaN"),
        (([0.0, 0.0], [1.0, np.inf]), "upper has NaN or Inf"),
        (([0.0, 0.0], [1.0, 1.0, 1.0]), "do not fit together"),
        (([0.0, 0.0], 1.0, 3), "do not fit together"),
        (([[0.0, 0.0]], 1.0, 2), "do not fit together"),
        ((0.0, 1.0), "give shape"),
        ((np.zeros((0,)), np.ones((0,))), "shape of lower and upper"),
        (("a", 1.0, 3), "lower must hold real numbers"),
    ],
)
def test_bad_boxes_are_refused(arguments, named):
    with pytest.raises((TypeError, ValueError), match=named):
        sets.Box(*arguments)


@pytest.mark.parametrize(
    ("points", "named"),
    [
        ([], "points"),
        (np.zeros((0, 3)), "points must not be empty"),
        (np.zeros((3, 0)), "points must not be empty"),
        ([1.0, 2.0], "points must have 2 dimension"),
        ([[1.0, np.nan]], "points has NaN"),
        ([[1.0, 2.0], [3.0]], "points must be a rectangular array"),
    ],
)
def test_bad_points_are_refused(points, named):
    with pytest.raises(ValueError, match=named):
        sets.ConvexHull(points)


@pytest.mark.parametrize(
    ("constraints", "named"),
    [
        ({}, "Polytope needs"),
        ({"A_ub": [[1.0]]}, "b_ub is missing"),
        ({"b_ub": [1.0]}, "A_ub is missing"),
        ({"A_eq": [[1.0]]}, "b_eq is missing"),
        ({"A_ub": [1.0], "b_ub": [1.0]}, "A_ub must have 2 dim"),
        ({"A_ub": [[1.0]], "b_ub": [1.0, 2.0]}, "b_ub must have shape"),
        ({"A_eq": [[np.nan]], "b_eq": [1.0]}, "A_eq has NaN"),
        ({"A_eq": sp.csr_array([[np.nan]]), "b_eq": [1.0]}, "A_eq has NaN"),
        ({"A_ub": [[1.0]], "b_ub": [np.inf]}, "b_ub has NaN or Inf"),
        ({"A_ub": np.zeros((2, 0)), "b_ub": [1.0, 1.0]}, "A_ub must have at least one column"),
        ({"A_ub": [[1.0]], "b_ub": [1.0], "A_eq": [[1.0, 2.0]], "b_eq": [1.0]}, "A_ub and A_eq"),
        ({"A_ub": [[1.0, 1.0]], "b_ub": [1.0], "bounds": [(0, 1)] * 3}, "bounds must have one pair or 2"),
        ({"bounds": [(1.0, 0.0)]}, "lower <= upper"),
        ({"bounds": [(math.nan, 0.0)]}, "no NaN"),
        ({"bounds": [(math.inf, math.inf)]}, "lower bound of inf"),
        ({"bounds": [(0.0, 1.0, 2.0)]}, "bounds must have two entries"),
        ({"bounds": []}, "bounds must not be empty"),
        ({"bounds": 3.0}, "bounds must be a pair"),
        ({"bounds": "ab"}, "bounds must"),
        ({"bounds": np.zeros((1, 3))}, "bounds must have two entries, lower and upper"),
        ({"bounds": np.array([[np.nan, 0.0]])}, "bounds has NaN"),
        ({"bounds": sp.csr_array([[0.0, 1.0]])}, "bounds must be an ordinary array"),
    ],
)
def test_bad_constraints_are_refused(constraints, named):
    with pytest.raises((TypeError, ValueError), match=named):
        sets.Polytope(**constraints)


@pytest.mark.parametrize(
    ("blocks", "error", "named"),
    [
        ([], ValueError, "sets must not be empty"),
        (sets.Simplex(2), TypeError, "sets must be a sequence"),
        (3, TypeError, "sets must be a sequence"),
        ([sets.Simplex(2), 3], TypeError, r"sets\[1\] must have the methods.*int lacks lmo, contains, start"),
    ],
)
def test_bad_products_are_refused(blocks, error, named):
    with pytest.raises(error, match=named):
        sets.Product(blocks)


def test_alternating_projections_need_a_square_matrix_and_an_iteration():
    with pytest.raises(ValueError, match=r"^iterations must be at least 1"):
        alternating_projections(np.eye(2), iterations=0)
    with pytest.raises(ValueError, match=r"^x must be a square matrix, got shape \(2, 3\)"):
        alternating_projections(np.zeros((2, 3)))


@pytest.mark.parametrize("scale", [-1.0, math.nan])
def test_a_random_birkhoff_matrix_needs_a_scale_that_is_not_negative(scale):
    with pytest.raises(ValueError, match=r"^scale must be"):
        sets.Birkhoff(3).random(0, scale=scale)


def test_a_bare_subclass_says_what_it_lacks():
    class Empty(sets.Set):
        shape = (2,)

    with pytest.raises(NotImplementedError, match="Empty must define lmo"):
        Empty().lmo(np.zeros(2))
    with pytest.raises(NotImplementedError, match="Empty must define violation"):
        Empty().violation(np.zeros(2))


def test_a_subclass_that_defines_lmo_only_gets_the_rest():
    class Corner(sets.Set):
        shape = (2,)
        diameter = math.sqrt(2.0)

        def lmo(self, G):
            return np.where(np.asarray(G) > 0, 0.0, 1.0)

    corner = Corner()
    np.testing.assert_array_equal(corner.oracle()(np.array([1.0, -1.0])).dense(), [0.0, 1.0])
    np.testing.assert_array_equal(corner.start(), [0.0, 0.0])
    assert corner.random(0).min() >= 0.0


def test_the_epigraph_of_anything_but_a_ball_is_refused_by_its_type():
    with pytest.raises(TypeError, match=r"ball must be a ball .* got Simplex$"):
        Epigraph(sets.Simplex(3))


def test_a_size_of_zero_is_named_as_it_was_given():
    with pytest.raises(ValueError, match=r"^n must be at least 1, got 0$"):
        sets.Simplex(0)
    with pytest.raises(ValueError, match=r"^each entry of shape must be at least 1, got 0$"):
        sets.NuclearBall((2, 0))
