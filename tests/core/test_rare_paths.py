"""Paths that few calls take: input at the edge of what is allowed, runs that end early, odd data."""

import builtins
import io
import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import dcfw
from dcfw import _validate, functions, npy, plots, qap, sets, splits
from dcfw._check import Report
from dcfw.profiles import performance_profile
from dcfw.qap import swaps, tabu
from dcfw.result import History
from dcfw.sets.atoms import Dense
from dcfw.sets.given import as_set
from dcfw.solvers.stochastic import Stochastic

RNG = np.random.default_rng


# -- reading arrays --------------------------------------------------------------------------------------


def test_an_empty_array_is_read_as_one(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 0), dtype=np.float32))
    found = npy.mapped(tmp_path / "a.npy")
    assert (found.shape, found.dtype) == ((3, 0), np.float32)


def test_an_array_of_more_dimensions_than_numpy_had_is_refused():
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": (1,) * 33})
    with pytest.raises(ValueError, match=r"shape \(1, 1, 1"):
        npy.parsed(buffer.getvalue() + b"\0", "a.npy")


def test_an_empty_array_of_sizes_that_no_array_has_is_refused_by_its_name(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**17, 0, 10**17)}
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match=r"a\.npy is not a whole \.npy file with numbers: its shape is"):
        npy.mapped(tmp_path / "a.npy")


def test_tensors_are_taken_as_real_numbers_or_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"x must hold real numbers, got dtype torch\.complex64"):
        _validate.array(torch.zeros(2, dtype=torch.complex64), "x")
    made = _validate.array(torch.arange(3), "x")
    assert (made.dtype, made.tolist()) == (torch.float64, [0.0, 1.0, 2.0])
    kept = _validate.array(torch.arange(3), "x", floating=False)
    assert kept.dtype == torch.int64


def test_a_sparse_vector_is_not_a_matrix():
    with pytest.raises(ValueError, match=r"A must have 2 dimension\(s\), got shape \(3,\)"):
        _validate.sparse(scipy.sparse.coo_array(np.arange(3.0)), "A")


class Strict:
    """The simplex, without any tolerance of its own."""

    shape = (3,)

    def contains(self, x):
        return bool(x.min() >= 0.0 and float(x.sum(dtype=np.float64)) == 1.0)

    def lmo(self, G):
        return np.eye(3)[int(np.argmin(G))]

    def start(self):
        return np.eye(3)[0]


class Lenient(Strict):
    def violation(self, x):
        return abs(float(x.sum(dtype=np.float64)) - 1.0)


def test_a_start_outside_by_the_rounding_of_single_precision_is_accepted():
    x = np.full(3, 1 / 3, dtype=np.float32)
    assert not Strict().contains(x)
    assert _validate.point(x, "x0", as_set(Lenient())) is x
    with pytest.raises(ValueError, match=r"x0 must lie in the set .*breaks the constraints by 3e-06\)$"):
        _validate.point(np.array([1.0, 0.0, 3e-6]), "x0", as_set(Lenient()))
    with pytest.raises(ValueError, match=r"x0 must lie in the set \w+$"):  # which cannot say by how much
        _validate.point(x, "x0", as_set(Strict()))


# -- functions -------------------------------------------------------------------------------------------

X = np.array([0.3, -0.2, 0.5])
PHI = functions.Quadratic(np.diag([2.0, -1.0, 0.5]), np.array([1.0, 0.0, -1.0]))
OTHER = functions.SquaredNorm(3.0)


@pytest.mark.parametrize(
    ("combine", "value"),
    [
        (lambda split: split + OTHER, PHI.value(X) + OTHER.value(X)),
        (lambda split: split - OTHER, PHI.value(X) - OTHER.value(X)),
        (lambda split: 2.0 * split, 2.0 * PHI.value(X)),
        (lambda split: split + split, 2.0 * PHI.value(X)),
    ],
)
def test_a_split_function_takes_part_in_sums_as_a_whole(combine, value):
    found = combine(splits.sliding(PHI))
    assert found.value(X) == pytest.approx(value, rel=1e-14)
    step = 1e-6
    slopes = [(found.value(X + step * e) - found.value(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(found.grad(X), slopes, atol=1e-8)


def test_a_sum_with_a_term_of_unknown_smoothness_has_none():
    unknown = functions.Smooth(lambda x: float(np.sum(x**4)), lambda x: 4.0 * x**3)
    assert (OTHER + unknown).lipschitz is None
    assert (OTHER + OTHER).lipschitz == 6.0


def test_a_function_is_not_multiplied_by_text():
    for function in (OTHER - functions.L1Norm(), OTHER + functions.L1MinusL2(0.5)):
        with pytest.raises(TypeError):
            function * "2"


def test_a_penalty_less_a_difference_of_convex_functions_keeps_its_value():
    difference = functions.Quadratic(np.eye(3)) - functions.Quadratic(np.diag([0.5, 0.0, 0.1]))
    penalty = OTHER + functions.L1MinusL2(0.5)
    for found, sign in ((penalty - difference, -1.0), (penalty + difference, 1.0)):
        assert found.value(X) == pytest.approx(penalty.value(X) + sign * difference.value(X), rel=1e-14)
        assert found.f.value(X) - found.g.value(X) == pytest.approx(found.value(X), rel=1e-13)


def test_a_penalty_alone_and_a_plain_difference_are_lifted_with_their_values():
    ball = sets.L1Ball(3, radius=4.0)
    plain = functions.Quadratic(np.eye(3)) - functions.Quadratic(np.diag([0.5, 0.0, 0.1]))
    for phi in (functions.L1MinusL2(0.5), plain):
        lifted, domain = functions.lift(phi, ball)
        assert lifted.value(domain.lift(X)) == pytest.approx(phi.value(X), rel=1e-14)
    torch = pytest.importorskip("torch")
    lifted, domain = functions.lift(functions.L1MinusL2(0.5), ball)
    z = torch.from_numpy(domain.lift(X))
    np.testing.assert_allclose(lifted.grad(z).numpy(), lifted.grad(z.numpy()), rtol=1e-14)


def test_the_smoothness_of_a_sparse_loss_is_that_of_the_dense_one():
    A = scipy.sparse.random_array((150, 120), density=0.05, rng=RNG(0), format="csr")
    y = np.sign(RNG(1).standard_normal(150))
    dense = functions.LogisticLoss(A.toarray(), y).lipschitz
    assert functions.LogisticLoss(A, y).lipschitz == pytest.approx(dense, rel=1e-12)


def test_the_hessian_of_an_operator_is_that_of_its_matrix():
    A, b = RNG(0).standard_normal((5, 3)), np.zeros(5)
    found = functions.LeastSquares(scipy.sparse.linalg.aslinearoperator(A), b).hessian(X)
    np.testing.assert_allclose(found, functions.LeastSquares(A, b).hessian(X), atol=1e-6)


# -- sampled gradients -----------------------------------------------------------------------------------


def finite_sum(samples, bad=False):
    def value(x, batch=slice(None)):
        return np.nan if bad else 0.5 * float(np.mean(np.sum((x - samples[batch]) ** 2, axis=1)))

    def grad(x, batch):
        return x - samples[batch].mean(axis=0)

    return functions.FiniteSum(len(samples), value, grad, batch_value=value, lipschitz=1.0, lipschitz_max=1.0)


def test_samples_are_found_inside_a_function_that_is_split_already():
    samples = RNG(0).standard_normal((50, 4))
    phi, ball, method = splits.sliding(finite_sum(samples)), sets.L1Ball(4, 5.0), Stochastic(period=3)
    res = dcfw.minimize(phi, ball, np.zeros(4), method=method, maxiter=300, rng=0)
    np.testing.assert_allclose(res.x, samples.mean(axis=0), atol=0.1)
    assert res.n_samples > 0


def test_a_batch_without_a_finite_value_ends_the_run_as_a_bad_oracle():
    F = finite_sum(RNG(0).standard_normal((20, 4)), bad=True)
    res = dcfw.minimize(F, sets.L1Ball(4, 5.0), np.zeros(4), method="stochastic", maxiter=5, rng=0)
    assert res.status.name == "BAD_ORACLE"
    assert "the value of a batch" in res.message


def test_a_gap_on_a_stream_is_confirmed_by_fresh_samples_and_stays_an_estimate():
    stream = functions.Stream(
        draw=lambda rng, size: rng.normal(0.0, 0.01, (size, 3)),
        batch_grad=lambda x, batch: x - batch.mean(axis=0),
        batch_value=lambda x, batch: 0.5 * float(((x - batch) ** 2).sum(axis=1).mean()),
        lipschitz=1.0,
        lipschitz_max=1.0,
    )
    ball, start = sets.L1Ball(3), np.eye(3)[0]
    res = dcfw.minimize(stream, ball, start, method="stochastic", tol=0.1, maxiter=500, rng=0)
    assert res.status.name == "CONVERGED"
    assert res.gap <= 0.1
    assert res.conditional  # no bound that holds for certain
    assert res.n_samples >= 1000


# -- reports of checks and profiles ----------------------------------------------------------------------


def test_the_same_problem_is_reported_once():
    report = Report()
    for _ in range(3):
        report.note(False, "fine", "wrong")
    assert report.problems == ["wrong"]
    assert not report


def test_a_profile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="values of 'a' must not be empty"):
        performance_profile({"a": []})


def test_a_users_method_has_no_checkpoint(tmp_path):
    class Own:
        name, needs_split = "own", False

        def solve(self, problem, run):
            raise AssertionError("it is refused before it runs")

    with pytest.raises(ValueError, match="checkpoint is not known to work with method 'own'"):
        dcfw.minimize(OTHER, sets.Simplex(3), method=Own(), checkpoint=tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


def test_a_tolerance_that_remembers_is_saved_and_restored(tmp_path):
    class Counting:
        def __init__(self):
            self.calls = 0

        def next(self, eps, gap):
            self.calls += 1
            return 0.5 * gap / self.calls

        def enough(self, gap, eps, decrease):
            return gap <= eps

        def get_state(self):
            return self.calls

        def set_state(self, state):
            self.calls = state

        def __repr__(self):
            return "Counting()"

    def solve(rule, **options):
        phi = functions.Quadratic(np.diag([3.0, 1.0, 2.0])) - functions.Quadratic(np.diag([0.1, 0.5, 0.0]))
        return dcfw.minimize(phi, sets.Simplex(3), np.eye(3)[0], tol=1e-9, tolerance=rule, **options)

    path, whole, first, second = tmp_path / "run.npz", Counting(), Counting(), Counting()
    straight = solve(whole, maxiter=8)
    solve(first, maxiter=3, checkpoint=path)
    resumed = solve(second, maxiter=8, checkpoint=path)
    np.testing.assert_array_equal(resumed.x, straight.x)
    assert second.calls == whole.calls > first.calls


# -- pictures --------------------------------------------------------------------------------------------


@pytest.fixture
def ax():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture
def result():
    return dcfw.minimize(OTHER - functions.SquaredNorm(1.0), sets.Simplex(3), np.eye(3)[0], tol=1e-3)


def test_a_result_without_history_is_refused(ax, result):
    result.history = History()
    with pytest.raises(ValueError, match="the result has no history"):
        plots.plot(result, ax)


def test_one_result_is_compared_as_a_list_of_one(ax, result):
    plots.compare(result, ax)
    assert len(ax.get_legend().get_texts()) == 1


def test_a_dc_gap_that_was_never_bounded_has_no_band(ax, result):
    result.history.forget_certificates()
    plots.plot(result, ax, y="dc_gap")
    assert not ax.collections


# -- assignment ------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["exact", "rounded"])
def assignment(request):
    A, B = RNG(0).integers(0, 9, (2, 9, 9))
    return (A / 7.0, B / 3.0) if request.param else (A, B)


def in_portions(count, limit=10**9):
    """A pace of ``count`` steps at a time, which ends after ``limit`` portions."""

    def paced(run, deadline, first):
        total = 0
        for _ in range(limit):
            made = run(count)
            total += made
            if made < count:
                break
        return total

    return paced


@pytest.mark.parametrize("best", [True, False], ids=["best", "first"])
def test_a_descent_in_small_portions_is_the_same_descent(assignment, monkeypatch, best):
    p = np.arange(9)
    p0, value, count = qap.two_opt(*assignment, p, best_improvement=best, rng=0)
    monkeypatch.setattr(swaps, "paced", in_portions(1))
    p1, again, made = qap.two_opt(*assignment, p, best_improvement=best, rng=0)
    np.testing.assert_array_equal(p1, p0)
    assert (again, made) == (value, count)


def test_a_descent_in_order_is_the_same_however_it_is_cut(assignment, monkeypatch):
    p0, _ = swaps.descend_in_order(*assignment, np.arange(9))
    for count in (1, 2):
        monkeypatch.setattr(swaps, "paced", in_portions(count))
        p1, _ = swaps.descend_in_order(*assignment, np.arange(9))
        np.testing.assert_array_equal(p1, p0)


def test_a_search_whose_time_is_over_returns_its_start(assignment, monkeypatch):
    A, B = assignment
    p = np.arange(9)
    monkeypatch.setattr(tabu, "paced", in_portions(1, 0))
    found, value, steps = tabu.robust_tabu(A, B, p, rng=0, iterations=100)
    np.testing.assert_array_equal(found, p)
    assert (value, steps) == (qap.evaluate(A, B, p), 0)
    monkeypatch.setattr(swaps, "paced", in_portions(1, 0))
    np.testing.assert_array_equal(qap.two_opt(A, B, p)[0], p)


@pytest.mark.parametrize("n", [5, 7])
def test_instances_on_a_grid_that_is_not_full_have_the_optimum_they_claim(n):
    p = np.array(list(itertools.permutations(range(n))))
    for seed in range(4):
        problem = qap.generators.li_pardalos(n, rng=seed)
        values = (problem.A * problem.B[p[:, :, None], p[:, None, :]]).sum(axis=(1, 2))
        assert problem.best == values.min() == qap.evaluate(problem.A, problem.B, problem.permutation)


def test_a_callback_that_ends_a_start_ends_the_portfolio():
    A, B = RNG(0).integers(0, 9, (2, 8, 8))

    def stop(_):
        raise StopIteration

    res = qap.solve(A, B, restarts="auto", time_limit=30.0, rng=0, callback=stop)
    assert res.status.name == "CALLBACK"
    assert res.fun == qap.evaluate(A, B, res.permutation)


def test_scaling_that_is_cut_off_is_nearly_doubly_stochastic():
    from dcfw.qap.compat import _sinkhorn

    P = _sinkhorn(RNG(0).uniform(size=(5, 5)), tol=0.0, iterations=50)
    np.testing.assert_allclose(P.sum(axis=0), 1.0, atol=1e-10)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-10)


def test_the_gradient_at_an_atom_that_is_not_a_permutation_is_the_gradient_there():
    A, B = RNG(0).standard_normal((2, 5, 5))
    phi, x = qap.relaxation(A, B), RNG(1).dirichlet(np.ones(5), 5)
    np.testing.assert_allclose(phi.grad_at(Dense(x)), phi.grad(x), rtol=1e-14)


# -- alignment -------------------------------------------------------------------------------------------


def test_a_dictionary_of_anything_but_pairs_is_refused():
    from dcfw.align.dictionary import pairs

    with pytest.raises(ValueError, match="dictionary must contain pairs of words"):
        pairs(["a"], ["b"], [("a", "b", "c")])


def test_empty_blocks_are_refused_on_a_cluster_too():
    from dcfw.align.moments import total_on

    with pytest.raises(ValueError, match="blocks must not be empty"):
        total_on(None, [])


def test_words_that_do_not_fit_into_memory_are_not_held_for_a_product(monkeypatch):
    from dcfw.align import products
    from dcfw.align.observations import Observations

    E = RNG(0).standard_normal((100, 2000))
    data = Observations(E, E, RNG(1).uniform(size=E.shape) < 0.002)
    assert products.choose(data) == "observed"
    monkeypatch.setattr(products, "HOLD_BYTES", 0)
    assert products.choose(data) != "observed"


def test_moments_that_may_not_be_written_to_give_the_same_product():
    from dcfw.align.moments import moments_of
    from dcfw.align.products import GramProduct

    E, mask = RNG(0).standard_normal((4, 30)), RNG(1).uniform(size=(4, 30)) < 0.5
    X = RNG(2).standard_normal((4, 4))
    mine, theirs = (moments_of((E, E, mask)) for _ in range(2))
    theirs.grams.flags.writeable = False
    before = theirs.grams.copy()
    np.testing.assert_allclose(GramProduct(theirs)(X), GramProduct(mine)(X), rtol=1e-14)
    np.testing.assert_array_equal(theirs.grams, before)


def test_a_double_blank_is_not_a_number():
    from dcfw.align.text_vectors import _cut

    assert _cut(b"word 1 2 3", 3) == (b"word", "1 2 3")
    assert _cut(b"word 1  2", 3) == (b"word 1  2", "")
    assert _cut(b"two words 1  2", 2) == (b"two words", "1 2")


# -- torch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "said"), [("torch", "dcfw.torch needs PyTorch"), ("sympy", "no sympy")])
def test_only_a_missing_pytorch_is_said_to_be_missing(monkeypatch, name, said):
    real = builtins.__import__

    def without(module, *rest, **options):
        if module == "torch":
            raise ModuleNotFoundError(f"no {name}", name=name)
        return real(module, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=said):
        runpy.run_path(str(Path(dcfw.__file__).with_name("torch") / "__init__.py"))
