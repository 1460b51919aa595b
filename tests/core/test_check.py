"""dcfw.check finds the errors of a problem, and passes a correct one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dcfw
from dcfw import functions, sets, splits
from dcfw.functions.sums import Zero
from dcfw.sets.base import Oracle
from dcfw.sets.given import as_set
from set_cases import every_set

N = 5
RNG = np.random.default_rng(8)
M = RNG.standard_normal((N, N))
B = RNG.standard_normal(N)
LABELS = np.where(B > 0, 1.0, -1.0)

CLEAN = {
    "quadratic": functions.Quadratic(M, B),
    "convex quadratic": functions.Quadratic(M @ M.T, B, convex=True),
    "least squares": functions.LeastSquares(M, B),
    "squared norm": functions.SquaredNorm(2.0),
    "zero": Zero(),
    "log-sum-exp": functions.LogSumExp(M, B),
    "logistic": functions.LogisticLoss(M, LABELS),
    "smooth": functions.Smooth(lambda x: np.cos(x).sum(), lambda x: -np.sin(x), lipschitz=1.0),
    "sum": functions.LogSumExp() + functions.SquaredNorm(),
    "multiple": 3 * functions.LogSumExp(),
    "dc, nonsmooth": functions.Quadratic(M @ M.T) - functions.L1Norm(),
    "dc, l2": functions.Quadratic(M @ M.T) - functions.L2Norm(),
    "sliding": splits.sliding(functions.Quadratic(M, B)),
    "proximal": splits.proximal(functions.Quadratic(M, B)),
    "strengthened": splits.strengthen(functions.SquaredNorm() - functions.LogSumExp(), 0.5),
    "weakly concave": functions.WeaklyConcave(
        lambda x: min(x @ x, 0.3), lambda x: 2 * x * (x @ x < 0.3), modulus=2.0
    ),
    "slid weakly concave": splits.sliding(
        functions.WeaklyConcave(lambda x: min(x @ x, 0.3), lambda x: 2 * x * (x @ x < 0.3), modulus=2.0)
    ),
}


@every_set
def test_clean_sets_pass(case):
    n = math.prod(case.domain.shape)
    report = dcfw.check(functions.Quadratic(np.diag(np.cos(np.arange(float(n))))), case.domain, rng=0)
    assert report.ok, str(report)
    assert report
    assert len(report.passed) >= 5


@pytest.mark.parametrize("phi", CLEAN.values(), ids=CLEAN.keys())
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clean_functions_pass(phi, seed):
    report = dcfw.check(phi, sets.L2Ball(N), rng=seed)
    assert report.ok, str(report)


def test_clean_matrix_functions_pass():
    dc = functions.SquaredNorm() - functions.NuclearNorm()
    assert dcfw.check(dc, sets.SpectralBall((3, 2)), rng=0)


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_clean_problems_pass_on_other_backends(backend):
    xp = pytest.importorskip(backend)
    phi = functions.Quadratic(xp.asarray(M @ M.T)) - functions.L1Norm()
    report = dcfw.check(phi, sets.Simplex(N), rng=0)
    assert report.ok, str(report)


def test_single_precision_passes():
    phi = functions.Quadratic((M @ M.T).astype(np.float32), B.astype(np.float32))
    report = dcfw.check(phi, sets.Simplex(N), np.full(N, 1 / N, dtype=np.float32), rng=0)
    assert report.ok, str(report)


def smooth(value=lambda x: float(x @ x), grad=lambda x: 2 * x, **facts):
    return functions.Smooth(value, grad, **facts)


WRONG_FUNCTIONS = {
    "half a gradient": (smooth(grad=lambda x: x), r"phi\.grad disagrees with finite differences.* 0\.5"),
    "a gradient of the wrong sign": (smooth(grad=lambda x: -2 * x), r"phi\.grad disagrees"),
    "a gradient with one wrong entry": (
        smooth(grad=lambda x: 2 * x * np.array([1, 1, 1, 1, 1.2])),
        r"phi\.grad disagrees",
    ),
    "a wrong gradient of f": (smooth(grad=lambda x: x) - Zero(), r"^f\.grad disagrees"),
    "a wrong gradient of g": (
        functions.SquaredNorm(9.0) - smooth(grad=lambda x: 3 * x),
        r"^g\.grad disagrees",
    ),
    "a nonconvex g": (
        functions.SquaredNorm() - smooth(lambda x: -float(x @ x), lambda x: -2 * x),
        r"^g is not convex: a tangent lies above the function",
    ),
    "a nonconvex f": (
        smooth(lambda x: float(np.cos(4 * x).sum()), lambda x: -4 * np.sin(4 * x)) - functions.L1Norm(),
        r"^f is not convex",
    ),
    "a nonsmooth g with wrong subgradients": (
        functions.SquaredNorm() - functions.Convex(lambda x: np.abs(x).sum(), lambda x: 2 * np.sign(x)),
        r"^g is not convex: a tangent lies above",
    ),
    "phi declared convex": (
        smooth(lambda x: -float(x @ x), lambda x: -2 * x, convex=True),
        r"^phi is not convex",
    ),
    "a Lipschitz constant too small": (
        smooth(lipschitz=1.0),
        r"phi\.lipschitz is stated as 1, but 2 was measured",
    ),
    "a split whose L is too small": (splits.sliding(smooth(), L=0.5), r"^g is not convex"),
    "a gradient of the wrong shape": (
        smooth(grad=lambda x: x[:3]),
        r"phi\.grad returns shape \(3,\), expected \(5,\)",
    ),
    "a gradient that is a list": (smooth(grad=lambda x: list(x)), r"phi\.grad returns shape list"),
    "a NaN value": (smooth(value=lambda x: math.nan), r"phi returns NaN or Inf inside the set"),
    "a NaN gradient": (smooth(grad=lambda x: x * np.nan), r"phi returns NaN or Inf inside the set"),
}


@pytest.mark.parametrize(("phi", "match"), WRONG_FUNCTIONS.values(), ids=WRONG_FUNCTIONS.keys())
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_wrong_functions_are_found_out(phi, match, seed):
    import re

    report = dcfw.check(phi, sets.L2Ball(N), rng=seed)
    assert not report.ok
    assert not report
    assert any(re.search(match, text) for text in report.problems), report.problems


class OwnSet:
    """The l2 ball, with a fault."""

    def __init__(self, fault):
        self.fault = fault

    def lmo(self, G):
        length = np.linalg.norm(G)
        s = -G / length if length > 0 else np.eye(len(G))[0]
        if self.fault == "maximises":
            return -s
        if self.fault == "leaves":
            return 2 * s
        if self.fault == "shape":
            return s[:, None]
        if self.fault == "list":
            return list(s)
        if self.fault == "nan":
            return s * np.nan
        if self.fault == "lazy":
            return np.zeros_like(s)
        if self.fault == "zero" and length == 0:
            return s * np.nan
        return s

    def contains(self, x):
        return float(x @ x) <= 1 + 1e-9

    def start(self):
        return np.full(N, 1.0 if self.fault == "start" else 0.1)


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        ("maximises", "lmo is not minimising.*does it maximise"),
        ("lazy", "lmo is not minimising"),
        ("leaves", "lmo returns points outside the set"),
        ("shape", r"lmo returns shape \(5, 1\), expected \(5,\)"),
        ("list", "lmo returns shape list"),
        ("nan", "lmo returns NaN or Inf"),
        ("zero", "lmo fails for a zero gradient"),
        ("start", r"start\(\) does not lie in the set"),
    ],
)
def test_wrong_sets_are_found_out(fault, match):
    import re

    report = dcfw.check(functions.SquaredNorm(), OwnSet(fault), rng=0)
    assert any(re.search(match, text) for text in report.problems), report.problems
    assert "OwnSet" in report.problems[0]


def test_a_correct_set_of_the_users_passes():
    report = dcfw.check(functions.SquaredNorm(), OwnSet(""), rng=0)
    assert report.ok, str(report)


def test_the_report_reads_well():
    report = dcfw.check(smooth(grad=lambda x: x), sets.L2Ball(N), rng=0)
    text = str(report)
    assert text.startswith(f"{len(report.problems)} problem(s) found, {len(report.passed)} checks passed.")
    assert "  wrong: phi.grad disagrees" in text
    assert "  fine:  L2Ball.lmo minimises" in text


def test_bad_input_is_refused_by_name():
    with pytest.raises(TypeError, match="objective must be a function"):
        dcfw.check(3, sets.Simplex(2))
    with pytest.raises(TypeError, match="domain must have the methods"):
        dcfw.check(functions.SquaredNorm(), 3)
    with pytest.raises(ValueError, match="samples must be at least 2"):
        dcfw.check(functions.SquaredNorm(), sets.Simplex(2), samples=1)
    with pytest.raises(ValueError, match="x0 must lie in the set"):
        dcfw.check(functions.SquaredNorm(), sets.Simplex(2), np.ones(2))


def test_a_problem_that_minimize_refuses_is_reported():
    report = dcfw.check(functions.SquaredNorm() + functions.MCP(0.1), sets.LpBall(N, p=3.0), rng=0)
    assert [text for text in report.problems if "no way to make it linear" in text]


def test_a_difference_that_is_not_the_stated_objective_is_found_out():
    phi = functions.Quadratic(M, B)
    wrong = functions.DC(functions.SquaredNorm(9.0), functions.SquaredNorm(1.0), whole=phi)
    assert any(text.startswith("f - g is not phi") for text in dcfw.check(wrong, sets.L2Ball(N)).problems)
    for domain in (sets.L2Ball(N), sets.Simplex(N)):
        report = dcfw.check(splits.spectral(phi, domain), domain, rng=0)
        assert report.ok, str(report)
        assert "f - g is phi at the sampled points" in report.passed


def test_a_large_constant_is_not_taken_for_a_wrong_gradient():
    report = dcfw.check(smooth(lambda x: 1e9 + float(x @ x)), sets.L2Ball(N), rng=0)
    assert report.ok, str(report)
    assert not dcfw.check(smooth(lambda x: 1e3 + float(x @ x), lambda x: x), sets.L2Ball(N), rng=0)


class Own:
    """A user's simplex, whose vertices may be of another dtype and are all written to one array."""

    def __init__(self, dtype):
        self.answer = np.zeros(3, dtype=dtype)

    def lmo(self, G):
        self.answer[:] = np.eye(3)[G.argmin()]
        return self.answer

    def contains(self, x):
        return bool(abs(x.sum() - 1.0) <= 1e-9 and x.min() >= -1e-9)

    def start(self):
        return np.array([1, 0, 0])


@pytest.mark.parametrize("inner", ["fw", "away", "blended"])
@pytest.mark.parametrize("dtype", [int, bool, float])
def test_vertices_may_be_whole_numbers_and_share_one_array(dtype, inner):
    f = functions.LeastSquares(np.eye(3), np.array([0.5, 0.4, 0.1]))
    assert dcfw.check(f, Own(dtype)).ok
    res = dcfw.minimize(f - functions.SquaredNorm(0.1), Own(dtype), inner=inner, tol=1e-4)
    assert res.success
    assert dcfw.minimize(-3.0 * functions.SquaredNorm(), Own(dtype), method="fw").success  # ends at a vertex


def test_vertices_that_are_not_real_numbers_are_named():
    report = dcfw.check(functions.SquaredNorm(), Own(complex))
    assert "Own.lmo returns an array of complex128, not of numbers" in report.problems
    res = dcfw.minimize(functions.SquaredNorm(), Own(complex))
    assert res.status is dcfw.Status.BAD_ORACLE
    assert "the set's lmo returned an array of complex128" in res.message


def test_a_value_that_is_not_a_number_is_named():
    class Nothing(functions.Function):
        def value(self, x):
            return None

        def grad(self, x):
            return x

    assert dcfw.check(Nothing(), sets.Simplex(3)).problems == ["phi.value returns a NoneType, not a number"]


class Plain:
    """A set without an oracle of its own."""

    shape = (N,)

    def lmo(self, G):
        return -np.sign(G)

    def contains(self, x):
        return bool(np.abs(x).max() <= 1.0 + 1e-9)

    def start(self):
        return np.zeros(N)


def test_reports_speak_of_fast_forms_only_where_the_user_wrote_them():
    class Backwards(Oracle):
        def __call__(self, G):
            return super().__call__(-G)

    class Faster(Plain):
        def oracle(self):
            return Backwards(as_set(Plain()))

    class Own(functions.Function):
        def value(self, x):
            return float(x @ x)

        def grad(self, x):
            return 2.0 * x

        def grad_at(self, atom):
            return 2.0 * atom.dense()

    for domain in (Plain(), sets.LInfBall(N)):
        text = str(dcfw.check(functions.SquaredNorm(), domain))
        assert "oracle" not in text
        assert "grad_at" not in text
    assert "phi.grad_at and phi.linearise agree" in str(dcfw.check(Own(), Plain()))
    assert any("oracle() answers worse" in text for text in dcfw.check(Own(), Faster()).problems)


def test_a_wrong_gradient_of_a_loss_with_a_penalty_is_found_under_the_name_of_the_loss():
    wrong = functions.Smooth(lambda x: float(x @ x), lambda x: x, convex=True)
    for objective in (wrong + functions.MCP(0.1), wrong + functions.L1Norm(0.1)):
        problems = dcfw.check(objective, sets.L1Ball(N)).problems
        assert any(text.startswith("loss.grad disagrees") for text in problems), problems
    right = functions.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x, convex=True)
    assert dcfw.check(right + functions.MCP(0.1), sets.L1Ball(N)).ok
    refused = dcfw.check(right + functions.MCP(0.1), Plain()).problems
    assert "over Plain is known" in refused[0]
