"""Never a wrong certificate: 600 random problems, and every defect that such problems brought to light.

The problems and the checks are in :mod:`fuzz_certificates`; ``make fuzz`` runs as many as an hour allows.
"""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import fuzz_certificates
from dcfw import Status, functions, gaps, minimize, sets, splits
from dcfw._arrays import norm
from dcfw.sets.atoms import Dense
from dcfw.solvers.active import ActiveLoop
from dcfw.solvers.boosted import _landing
from dcfw.solvers.run import Goal, Run
from reference_gaps import trace

EPS = float(np.finfo(np.float64).eps)
CHUNKS, CASES = 6, 600


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_claim_of_a_result_holds_in_extended_precision(chunk):
    count = CASES // CHUNKS
    reports = []
    done, failed, _ = fuzz_certificates.run(chunk * count, count, math.inf, reports.append)
    assert done == count
    assert not failed, "\n".join(reports)


def test_a_wrong_claim_would_be_noticed():
    # The checks can fail: a result whose numbers are changed a little does not pass.
    for claim in ("gap", "fun", "dc_gap"):
        noticed = 0
        for seed in range(24):
            case = fuzz_certificates.make_case(seed)
            outcome = fuzz_certificates.check_case(case)
            res = outcome.result
            if claim == "dc_gap":
                res.dc_gap = tuple(1e-3 * end for end in res.dc_gap)
            else:
                res[claim] = 1.001 * res[claim]
            iterates = [(res.dc_gap_nit, res.x)] * len(res.history)
            changed = fuzz_certificates.Outcome([], res)
            fuzz_certificates.Check(case, changed, iterates).all(None)
            noticed += bool(changed.wrong)
        assert noticed >= 4, claim


def test_every_set_of_the_library_is_among_the_random_problems():
    # A new set joins with its case in the tables; without one it is missing here.
    known = fuzz_certificates.KNOWN
    public = {kind for kind in (getattr(sets, name) for name in sets.__all__) if isinstance(kind, type)}
    kinds = {kind for kind in public if issubclass(kind, sets.Set)} - {sets.Set}
    assert kinds - {type(part) for domain in known for part in fuzz_certificates.parts(domain)} == set()
    places = [fuzz_certificates.Draw(seed).place for seed in range(6000)]
    assert {place % len(known) for place in places if place is not None} == set(range(len(known)))


# -- what has been found ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "size"), [("f8", 1e300), ("f8", 1e-300), ("f4", 1e30), ("f4", 1e-22)])
def test_norms_neither_warn_nor_lose_digits_at_extreme_scales(dtype, size):
    # Squares overflowed with a warning; in single precision they underflowed unnoticed below 1e-16.
    a = np.array([3.0 * size, 4.0 * size], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert norm(a) == pytest.approx(5.0 * size, rel=4.0 * float(np.finfo(dtype).eps), abs=0.0)


def test_an_active_set_is_returned_only_with_the_point_that_it_makes_up():
    # The comparison was absolute below size 1: on a tiny set any two points counted as equal.
    tiny = 1e-70
    loop = ActiveLoop("away")
    res = minimize(functions.LogSumExp(), sets.Simplex(2, tiny), inner=loop, method="fw", maxiter=3)
    assert loop.active_set(res.x) is not None
    assert loop.active_set(res.x + np.array([0.5 * tiny, 0.0])) is None


@pytest.mark.parametrize("seed", [11, 19, 24, 39])
def test_a_split_that_is_shifted_in_huge_units_raises_no_false_alarm_at_the_origin(seed):
    # The final check took the rounding of the split's constant, 1e38 beside terms of 1e57, for a wrong value.
    rng = np.random.default_rng(seed)
    H, b = rng.integers(-2, 3, (3, 3)), rng.integers(-2, 3, 3)
    domain = sets.ConvexHull(1e89 * np.array([[-2.0, 1.0, 2.0], [0.0, 0.0, 0.0], [2.0, -1.0, 2.0]]))
    split = splits.spectral(functions.Quadratic(1e-124 * (H + H.T), 1e-35 * b), domain)
    assert split.f.c != 0.0
    res = minimize(split, domain, np.zeros(3), method="dcfw", maxiter=0, tol=1e53)
    assert res.status is Status.CONVERGED
    assert res.fun == 0.0


@pytest.mark.parametrize("p", [1.5, 3.0, 8.0])
def test_reach_by_bisection_ends_inside_to_rounding(p):
    # It accepted points 1e-11 outside, which a boosted step then returned: along a tangent, for instance.
    for domain in (sets.LpBall(2, p, 8.0), sets.SchattenBall((2, 2), p, 8.0)):
        corner, tangent = np.ones(2), np.array([1.0, -1.0])
        if len(domain.shape) == 2:
            corner, tangent = np.diag(corner), np.diag(tangent)
        x = 8.0 * 2.0 ** (-1.0 / p) * (1.0 - 1e-15) * corner
        assert domain.contains(x + domain.reach(x, tangent) * tangent, 0.0)


def test_sliding_splits_keep_single_precision():
    # The remainder did not report its data, so that without x0 the run was in double precision.
    phi = functions.Quadratic(np.diag([1.0, -2.0]).astype(np.float32))
    for method in ("dcfw", "fw", "cgs"):
        assert minimize(splits.sliding(phi), sets.Simplex(2), method=method).x.dtype == np.float32


@pytest.mark.parametrize("g", [functions.L1Norm, functions.L2Norm])
def test_rounding_along_a_short_way_is_no_proof_of_nonconvexity(g):
    # The slope to a vertex that x has nearly reached is a difference of large products.
    A = np.array([[0.84566534, -0.26848772]], dtype=np.float32)
    f = functions.LogisticLoss(A, np.array([-1.0], dtype=np.float32))
    res = minimize(f - g(0.6129751205444336), sets.LpBall(2, 1.1, 1.5), step="short", tol=9.7e-9, maxiter=10)
    assert res.status is not Status.NOT_CONVEX


@pytest.mark.parametrize("radius", [1e-18, 1.0, 1e18])
def test_the_first_guess_of_l_follows_the_size_of_the_set(radius):
    # It was relative to 1 + ||x0||: far too large an L on a large set, from x0 = 0.
    phi = functions.Quadratic(np.diag([1.0, -1.0, 0.5]) / radius**2, np.array([0.3, 0.1, -0.2]) / radius)
    res = minimize(
        splits.proximal(phi, L="auto"),
        sets.LpBall(3, 3.0, radius),
        np.zeros(3),
        tol=1e-6,
        step="backtracking",
    )
    assert res.status is Status.CONVERGED
    assert res.nit < 100


@pytest.mark.parametrize("domain", [sets.Simplex(1, 4.0), sets.Simplex(3), sets.Birkhoff(2)])
def test_a_boosted_step_along_mere_rounding_stays_in_the_set(domain):
    # The way to the edge is infinite along a direction that the set does not have: x left it by its own size.
    x, d = domain.start(), np.full(domain.shape, 4.0 * EPS)
    problem = SimpleNamespace(domain=domain, inner=None)
    landing = _landing(problem, x, 1e15, d)
    assert landing is None or domain.contains(landing, 0.0)


@pytest.mark.parametrize("mu", [20.0, 200.0])
def test_gradients_that_are_extrapolated_again_and_again_are_recomputed(mu):
    # With a nonsmooth g the growth of their errors from step to step was not tracked: gaps were off by 600
    # roundings, and points that the weights did not make up left the set.
    rng = np.random.default_rng(3)
    domain = sets.L1Ball(4)
    for _ in range(8):
        B = rng.standard_normal((4, 4))
        f = functions.Quadratic(B @ B.T, rng.standard_normal(4), convex=True)
        dc = splits.strengthen(f - functions.L1Norm(0.3), mu)
        x0 = rng.dirichlet(np.ones(4))
        options = {"method": "boosted", "inner": "blended", "tol": 0.0, "maxiter": 60, "max_inner": 3}
        res, iterates = trace(minimize, dc, domain, x0, **options)
        for x, gap in zip(iterates, res.history["gap"], strict=True):
            assert domain.contains(x, 0.0)
            assert gap == pytest.approx(gaps.fw_gap(dc, domain, x), abs=64.0 * EPS * mu)


def test_weights_that_changed_by_rounding_alone_are_not_extrapolated():
    # A step of 1e16 times one unit in the last place took all of them to zero.
    assert not fuzz_certificates.check_seed(99069)[1].wrong


def test_a_line_search_knows_that_values_are_rounded_where_large_terms_cancel():
    # f and g are 1e8 times as large as what is left of them in phi, whose own size said nothing of that.
    assert not fuzz_certificates.check_seed(31738)[1].wrong


def test_an_interval_has_no_negative_end():
    domain = sets.Simplex(2)
    run = Run(
        functions.Zero(), domain.oracle(), domain.start(), goal=Goal(0.0, 0.0), maxiter=9, max_inner=1,
        max_lmo=None, time_limit=None,
    )  # fmt: skip
    run.visit(domain.start(), 0.0, 1.0)
    run.certify(-1e-131, -1e-131)  # a decrease and a gap that are both rounding
    assert run.ledger.dc_gap == (0.0, 0.0)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_the_gap_of_cgs_is_that_of_phi_when_phi_is_linear(size):
    # With L = 0 the proximal term had the constant 1, in which the gradient drowned: the gap came out as 0.
    slope = np.array([0.3, -0.1, 0.2]) / size
    phi = functions.Quadratic(np.zeros((3, 3)), slope * 1e-40)
    domain, x0 = sets.L2Ball(3, size), np.full(3, 0.3 * size)
    res = minimize(phi, domain, x0, method="cgs", tol=0.0, maxiter=3)
    for gap, x in ((res.history["gap"][0], x0), (res.gap, res.x)):
        truth = float(1e-40 * (slope @ x + size * np.linalg.norm(slope)))
        assert gap == pytest.approx(truth, rel=1e-12, abs=1e-54)


class RoughBall(sets.LInfBall):
    """A cube whose oracle goes half the way to the best corner, and says so."""

    def oracle(self):
        return RoughOracle(self)


class RoughOracle(sets.Oracle):
    def __call__(self, G):
        self.error = 0.5 * float(abs(G).sum())
        return Dense(0.5 * super().__call__(G).dense())


def test_the_gap_of_cgs_includes_what_the_oracle_may_have_missed():
    phi = functions.Quadratic(np.diag([1.0, -1.0]), np.array([0.5, 0.25]))
    x0 = np.array([0.2, -0.1])
    res = minimize(phi, RoughBall(2), x0, method="cgs", maxiter=0)
    assert res.gap >= gaps.fw_gap(phi, sets.LInfBall(2), x0) - 1e-15


def test_a_pass_in_which_no_block_moves_is_not_repeated_for_ever():
    # The blocks' gaps are the rounding of large terms: measured together they are 2^32, and 0 one by one.
    _, outcome = fuzz_certificates.check_seed(234217)
    assert not outcome.wrong


def test_a_step_that_led_nowhere_does_not_change_the_gap_at_the_point_that_stays():
    # Its last questions to the oracle were about other points, and their answer was taken for that at x_t.
    assert not fuzz_certificates.check_seed(1018501)[1].wrong


@pytest.mark.parametrize(
    "seed", [1082739, 1086619, 2045212, 2094621, 4044468, 42010506, 2410004564, 2710036383]
)
def test_rounding_is_allowed_for_and_not_blamed(seed):
    # A gradient that is all rounding; a single number; a singular value of rounding size in g; rounding that
    # extrapolation has made larger; a gradient far smaller than what it is the difference of.
    assert not fuzz_certificates.check_seed(seed)[1].wrong


@pytest.mark.parametrize("seed", [40001115, 40008527])
def test_a_step_of_all_weights_stays_in_the_set_where_the_scores_nearly_agree(seed):
    # What rounding left of the differences of scores was taken for changes of weights, whose sum was not 0.
    assert not fuzz_certificates.check_seed(seed)[1].wrong


def test_rounding_near_the_apex_of_a_tiny_epigraph_is_not_blamed_on_the_oracle():
    # Beside x and s, which are both nearly 0, the rounding of larger points looked like a slope uphill.
    assert not fuzz_certificates.check_seed(400871)[1].wrong


def test_a_search_for_L_that_values_cannot_guide_ends_where_no_decrease_can_be_seen():
    # phi is a constant of 1e233 but for rounding: the check asked for a smaller gap than values can show.
    outcome = fuzz_certificates.check_case(fuzz_certificates.make_case(725066))
    assert outcome.result.status is Status.LINE_SEARCH
    assert not outcome.wrong
