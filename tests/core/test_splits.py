"""Decompositions: f - g is phi, both parts are convex, and single functions are split by the stated rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from dcfw import functions, sets, splits

N = 5


def smooth(lipschitz=1.0):
    return functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=lipschitz)


def concave():
    return functions.WeaklyConcave(lambda x: min(x @ x, 1.0), lambda x: 2 * x * (x @ x < 1), modulus=2.0)


def indefinite(seed: int = 0):
    return functions.Quadratic(np.random.default_rng(seed).standard_normal((N, N)), np.ones(N))


def kinked():
    """p - q with a nonconvex p and a nonsmooth q."""
    return indefinite() - functions.L1Norm()


CASES = {
    "sliding a quadratic": (splits.sliding(indefinite()), indefinite()),
    "sliding a smooth function": (splits.sliding(smooth(), 1.5), smooth()),
    "sliding p - q": (splits.sliding(kinked()), kinked()),
    "sliding a weakly concave function": (splits.sliding(concave()), concave()),
    "proximal quadratic": (splits.proximal(indefinite()), indefinite()),
    "proximal smooth function": (splits.proximal(smooth()), smooth()),
    "proximal p - q": (splits.proximal(kinked()), kinked()),
    "strengthened": (splits.strengthen(splits.sliding(smooth()), 0.5), smooth()),
    "strengthened p - q": (splits.strengthen(splits.proximal(kinked()), 2.0), kinked()),
    "chosen": (splits.choose(indefinite()), indefinite()),
}
every_split = pytest.mark.parametrize(("dc", "phi"), CASES.values(), ids=CASES.keys())


def sample(count: int = 8):
    rng = np.random.default_rng(4)
    return [rng.uniform(-1, 1, N) for _ in range(count)]


@every_split
def test_the_difference_is_phi(dc, phi):
    for x in sample():
        assert dc.f.value(x) - dc.g.value(x) == pytest.approx(phi.value(x), abs=1e-12)
        assert dc.value(x) == pytest.approx(phi.value(x), abs=1e-12)
        np.testing.assert_allclose(dc.f.grad(x) - dc.g.grad(x), phi.grad(x), atol=1e-12)
        np.testing.assert_allclose(dc.grad(x), phi.grad(x), atol=1e-12)


@every_split
def test_both_parts_are_convex(dc, phi):
    for part in (dc.f, dc.g):
        for x in sample():
            value, slope, _ = part.linearise(x)
            for y in sample():
                assert part.value(y) >= value + slope @ (y - x) - 1e-10


@given(st.integers(0, 10**6))
def test_the_constants_of_a_quadratic_are_just_large_enough(seed):
    phi = indefinite(seed)
    H = phi.A
    values = np.linalg.eigvalsh(H)
    L = splits.sliding(phi).f.lipschitz
    assert pytest.approx(np.abs(values).max()) == L
    rho = splits.proximal(phi).g.lipschitz
    assert np.linalg.eigvalsh(H + rho * np.eye(N))[0] == pytest.approx(max(values[0], 0.0), abs=1e-10)


def test_sliding_p_minus_q_needs_the_constant_of_p_only():
    p = functions.SquaredNorm(3.0)
    assert splits.sliding(p - functions.L1Norm()).name == "sliding(L=3)"


def test_sliding_takes_one_gradient_of_p_per_linearisation():
    calls = []
    p = functions.Smooth(lambda x: 0.5 * x @ x, lambda x: calls.append(1) or x, lipschitz=1.0)
    g = splits.sliding(p - functions.L1Norm()).g
    g.linearise(np.ones(N))
    assert len(calls) == 1


def test_strengthening_adds_the_same_to_both_sides():
    dc = functions.SquaredNorm(1.0) - functions.L1Norm()
    strong = splits.strengthen(dc, 0.5)
    x = np.arange(1.0, N + 1)
    assert strong.f.value(x) == pytest.approx(dc.f.value(x) + 0.25 * x @ x)
    assert strong.g.value(x) == pytest.approx(dc.g.value(x) + 0.25 * x @ x)
    assert strong.name == "given + 0.5/2 ||x||^2"
    assert strong.f.lipschitz == 1.5


@pytest.mark.parametrize(
    ("phi", "name"),
    [
        (functions.SquaredNorm(), "convex (g = 0)"),
        (functions.Quadratic(np.eye(N)), "convex (g = 0)"),
        (functions.Quadratic(np.diag([1.0, -2.0, 0.0, 0.0, 0.0])), "spectral"),
        (smooth(3.0), "sliding(L=auto)"),
        (smooth(None), "sliding(L=auto)"),
        (concave(), "sliding(L=2)"),
        (functions.SquaredNorm() - functions.L1Norm(), "given"),
    ],
    ids=["convex", "psd quadratic", "indefinite quadratic", "smooth", "no constant", "weakly concave", "dc"],
)
def test_the_split_of_a_single_function_follows_the_stated_rule(phi, name):
    assert splits.choose(phi).name == name
    res = dcfw.minimize(phi, sets.L2Ball(N), np.full(N, 0.1), method="dcfw", maxiter=3)
    assert res.split == name


@pytest.mark.parametrize("split", [splits.sliding, splits.proximal])
def test_every_split_of_one_objective_reaches_a_stationary_point(split):
    phi = indefinite()
    res = dcfw.minimize(split(phi), sets.L2Ball(N), tol=1e-7, maxiter=5000)
    assert res.success
    assert res.fun == pytest.approx(phi.value(res.x), abs=1e-12)
    assert dcfw.gaps.fw_gap(phi, sets.L2Ball(N), res.x) <= 1e-6


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: splits.sliding(smooth(None)), ValueError, r"L must be given for splits\.sliding"),
        (lambda: splits.proximal(smooth(None)), ValueError, r"L must be given for splits\.proximal"),
        (lambda: splits.sliding(smooth(), L=0.0), ValueError, r"L must be a number in \(0"),
        (lambda: splits.sliding(smooth(), L="1"), TypeError, r"L must be a real number"),
        (lambda: splits.proximal(concave()), ValueError, r"phi must be smooth.*splits\.sliding"),
        (lambda: splits.strengthen(smooth(), 1.0), TypeError, r"dc must be a difference f - g, got Smooth"),
        (lambda: splits.strengthen(kinked(), 0.0), ValueError, r"mu must be a number in \(0"),
        (lambda: splits.sliding(3.0), TypeError, r"phi must be a function object"),
    ],
)
def test_bad_input_is_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


# -- what a certificate rests on -----------------------------------------------------------------------


def well(**facts):
    """x^4 - x^2, whose curvature goes from -2 (at 0) to 46 on [-2, 2]."""
    return functions.Smooth(lambda x: float((x**4 - x**2).sum()), lambda x: 4.0 * x**3 - 2.0 * x, **facts)


class OwnObject:
    lipschitz = 46.0

    def value(self, x):
        return well().value(x)

    def grad(self, x):
        return well().grad(x)


class OwnFunction(OwnObject, functions.Function):
    lipschitz = 46.0


FOUND = "L, found on the way, makes both parts convex"
STATED = "L = {}, which was stated and not computed, makes both parts convex"
GIVEN = "L = {} makes both parts convex"
CONDITIONS = {
    "proximal, own L": (lambda: splits.proximal(well(), L=0.1), GIVEN.format(0.1)),
    "sliding, own L": (lambda: splits.sliding(well(), L=0.5), GIVEN.format(0.5)),
    "sliding, own L and a stated constant": (
        lambda: splits.sliding(well(lipschitz=0.5), 9.0),
        GIVEN.format(9),
    ),
    "stated constant, automatic split": (lambda: splits.best(well(lipschitz=0.5)), FOUND),
    "stated constant, proximal": (lambda: splits.proximal(well(lipschitz=2.0)), STATED.format(2)),
    "stated constant in p - q": (
        lambda: splits.proximal(well(lipschitz=2.0) - functions.L1Norm()),
        STATED.format(2),
    ),
    "stated constant in a sum": (
        lambda: splits.sliding(3 * well(lipschitz=2.0) + functions.SquaredNorm()),
        STATED.format(7),
    ),
    "stated modulus": (lambda: splits.best(concave()), STATED.format(2)),
    "own object": (lambda: splits.sliding(OwnObject()), STATED.format(46)),
    "own subclass": (lambda: splits.sliding(OwnFunction()), STATED.format(46)),
    "strengthened": (lambda: splits.strengthen(splits.sliding(well(), L=0.5), 1.0), GIVEN.format(0.5)),
    "quadratic, L too small": (lambda: splits.proximal(indefinite(), L=0.1), GIVEN.format(0.1)),
    "quadratic, L large enough": (lambda: splits.proximal(indefinite(), L=9.0), ""),
    "quadratic, its own L": (lambda: splits.sliding(indefinite(), indefinite().lipschitz), ""),
    "quadratic": (lambda: splits.sliding(indefinite()), ""),
    "p - q, computed": (lambda: splits.proximal(kinked()), ""),
    "declared convex": (lambda: splits.proximal(well(convex=True, lipschitz=2.0)), ""),
    "declared convex, automatic split": (lambda: splits.best(well(convex=True, lipschitz=2.0)), ""),
    "convex term and a quadratic": (
        lambda: splits.proximal(well(convex=True, lipschitz=2.0) + indefinite()),
        "",
    ),
    "a sum over samples": (
        lambda: splits.sliding(functions.FiniteSum.least_squares(np.eye(N), np.ones(N)) + indefinite()),
        "",
    ),
    "a condition of p - q": (
        lambda: splits.sliding(
            functions.DC(functions.SquaredNorm(), functions.L1Norm(), conditional="g is convex"), L=0.5
        ),
        "g is convex, and " + GIVEN.format(0.5),
    ),
}


@pytest.mark.parametrize(("make", "condition"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_a_constant_taken_on_trust_is_stated_in_the_condition(make, condition):
    assert make().conditional == condition


def test_a_result_that_rests_on_a_wrong_constant_says_what_it_rests_on():
    phi, domain = well(), sets.LInfBall(1, radius=2.0)
    res = dcfw.minimize(splits.proximal(phi, L=0.1), domain, np.zeros(1))
    assert res.success
    assert res.conditional == "L = 0.1 makes both parts convex"
    res = dcfw.minimize(splits.sliding(well(lipschitz=0.5)), domain, np.zeros(1))
    assert res.conditional == "L = 0.5, which was stated and not computed, makes both parts convex"


@pytest.mark.parametrize("L", [1.0, "auto", None])
def test_sliding_refuses_a_function_whose_negative_is_not_weakly_convex(L):
    for phi in (functions.L1Norm(), functions.SquaredNorm() + functions.L2Norm(), 2 * functions.L1Norm()):
        with pytest.raises(ValueError, match=r"phi must be smooth, a functions\.WeaklyConcave, or p - q"):
            splits.sliding(phi, L)
    for split in (splits.sliding, splits.proximal):
        with pytest.raises(ValueError, match=r"functions\.lift"):
            split(functions.SquaredNorm() + functions.MCP(0.1), L)


@pytest.mark.parametrize(
    "phi",
    [2 * concave() + smooth(), functions.SquaredNorm() + -1.0 * functions.L1Norm(), kinked() + smooth()],
    ids=["sum with a weakly concave function", "minus a norm", "p - q"],
)
def test_sliding_takes_sums_whose_kinks_point_up(phi):
    g = splits.sliding(phi, L=10.0).g
    for x in sample():
        value, slope, _ = g.linearise(x)
        for y in sample():
            assert g.value(y) >= value + slope @ (y - x) - 1e-10


def test_a_given_quadratic_part_that_is_not_convex_is_reported_and_nothing_is_certified():
    f = functions.Quadratic(np.diag([1.0, -1.0]))
    both = functions.Quadratic(np.diag([-1.0, -1.0])) - functions.Quadratic(np.diag([1.0, -1.0]))
    for objective, names in (
        (f - functions.L1Norm(0.1), ["f"]),
        (functions.SquaredNorm() - f, ["g"]),
        (both, ["f", "g"]),
    ):
        # From the middle of the ball, where these end at once, and from elsewhere.
        for x0 in (None, np.array([0.3, 0.2])):
            res = dcfw.minimize(objective, sets.L1Ball(2), x0)
            assert res.dc_gap == (0.0, np.inf)
            assert "nothing is certified" in str(res)
            assert not np.isfinite(res.history["dc_high"]).any()
            for name in names if res.status is not dcfw.Status.NOT_CONVEX else ():
                assert f"{name} is not convex, its lowest curvature is -1" in res.message
    whole = dcfw.minimize(splits.proximal(f - functions.L1Norm(0.1)), sets.L1Ball(2), np.array([0.1, 0.1]))
    assert whole.conditional == ""
    assert whole.fun < -0.4


def test_a_given_quadratic_part_that_is_convex_along_the_set_is_not_marked():
    dc = functions.Quadratic(np.eye(3) - 2.0) - functions.L2Norm(0.1)
    assert splits.choose(dc, sets.Simplex(3)) is dc
    assert "lowest curvature is -5" in splits.choose(dc, sets.L1Ball(3)).refuted
    assert dc.refuted == ""  # the user's own object stays as it is


def test_what_is_subtracted_from_a_split_leaves_its_parts_convex():
    phi = functions.Smooth(lambda x: np.cos(3.0 * x).sum(), lambda x: -3.0 * np.sin(3.0 * x), lipschitz=9.0)
    norm, x = functions.L1Norm(0.1), np.array([0.1, 0.2, -0.3])
    split = splits.proximal(phi, 9.0)
    other = functions.SquaredNorm(1.0) - functions.L2Norm(0.2)
    cases = [
        (split - norm, phi.value(x) - norm.value(x)),
        (split + other, phi.value(x) + other.value(x)),
        (other + split, phi.value(x) + other.value(x)),
        (other - split, other.value(x) - phi.value(x)),
        (functions.SquaredNorm(1.0) - split, 0.5 * x @ x - phi.value(x)),
    ]
    for dc, value in cases:
        assert dc.value(x) == pytest.approx(value)
        assert "L = 9" in dc.conditional
        assert dcfw.check(dc, sets.Box(-2.0, 2.0, 3)).ok
    res = dcfw.minimize(cases[0][0], sets.Box(-2.0, 2.0, 3), x)
    assert res.success
    assert "L = 9" in res.conditional


def test_a_penalty_joins_the_parts_of_a_split():
    phi = functions.Smooth(lambda x: np.cos(3.0 * x).sum(), lambda x: -3.0 * np.sin(3.0 * x), lipschitz=9.0)
    objective, domain = functions.lift(splits.proximal(phi, 9.0) + functions.MCP(0.3), sets.L1Ball(3, 2.0))
    assert "L = 9" in objective.conditional
    assert dcfw.check(objective, domain).ok


def test_a_split_whose_constant_is_not_known_cannot_be_part_of_another_difference():
    split = splits.sliding(functions.Quadratic(np.diag([1.0, -1.0])), L="auto")
    for wrong in (lambda: split - functions.L1Norm(), lambda: functions.SquaredNorm() - split):
        with pytest.raises(ValueError, match="split it then"):
            wrong()


@pytest.mark.parametrize("where", ["phi", "f", "g", "a sum"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_quadratic_that_is_wrongly_stated_to_be_convex_certifies_nothing(where, kind):
    """The negative curvature is across the run's steps: nothing but the factorisation meets it."""
    claim = functions.Quadratic(kind(np.diag([1.0, 1.0, -1e-3])), convex=True)
    square = functions.SquaredNorm(1.0)
    phi = {"phi": claim, "f": claim - 0.1 * square, "g": 2.0 * square - claim, "a sum": claim + square}[where]
    res = dcfw.minimize(phi, sets.Simplex(3), np.array([0.6, 0.4, 0.0]), maxiter=1)
    assert res.dc_gap == (0.0, math.inf)
    assert "though convex=True was stated" in res.message


def test_a_quadratic_too_large_to_be_factored_names_its_statement_as_the_condition():
    large = functions.Quadratic(sp.eye_array(501, format="csr"), convex=True)
    res = dcfw.minimize(large - functions.SquaredNorm(0.5), sets.Simplex(501), maxiter=1)
    assert "positive semidefinite, which was stated and not computed" in res.conditional
    small = functions.Quadratic(np.diag([1.0, 0.0, 3.0]), convex=True)
    assert not dcfw.minimize(small, sets.Simplex(3)).conditional
