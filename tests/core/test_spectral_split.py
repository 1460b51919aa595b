"""The spectral split: f has the positive curvature of a quadratic along the set, g the negative one."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dcfw
from dcfw import _spectral, functions, sets, splits
from dcfw.sets.atoms import OneHot
from reference_gaps import surrogate_gap, symmetric, trace
from set_cases import every_set

minimize = partial(dcfw.minimize, method="dcfw")  # the splits are what is tested here


def matrix(n, seed=0, low=-3.0, high=5.0):
    return symmetric(np.random.default_rng(seed), n, low, high)


def quadratic(n, seed=0):
    rng = np.random.default_rng(seed)
    return functions.Quadratic(matrix(n, seed), rng.standard_normal(n), 1.5)


def least_squares(n):
    rng = np.random.default_rng(3)
    return functions.LeastSquares(rng.standard_normal((n - 2, n)), rng.standard_normal(n - 2))


PHIS = {
    "dense": lambda n: quadratic(n),
    "not symmetric": lambda n: functions.Quadratic(np.random.default_rng(1).standard_normal((n, n))),
    "sparse": lambda n: functions.Quadratic(sp.csr_array(np.triu(matrix(n))), np.ones(n)),
    "operator": lambda n: functions.Quadratic(aslinearoperator(matrix(n)), np.ones(n)),
    "sum": lambda n: quadratic(n, 1) + quadratic(n, 2),
    "multiple": lambda n: -2.0 * quadratic(n),
    "difference": lambda n: quadratic(n, 1) - quadratic(n, 2),
    "least squares": lambda n: least_squares(n) - functions.SquaredNorm(2.0),
    "of a split": lambda n: splits.proximal(quadratic(n)),
}
DOMAINS = [
    None,
    sets.L1Ball(9),
    sets.Simplex(9, radius=2.0),
    sets.Simplex((3, 3)),
    sets.Birkhoff(3),
    sets.Spectraplex(3),
    sets.Product([sets.Simplex(4), sets.Box(0.0, 1.0, shape=5)]),
    sets.Box(np.zeros(9), np.r_[np.zeros(3), np.ones(6)]),
    sets.Polytope(A_eq=np.vstack([np.ones(9), np.arange(9.0)]), b_eq=[1.0, 3.0], bounds=(0.0, 1.0)),
]


def points(domain, count=10):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(9) if domain is None else domain.random(rng) for _ in range(count)]


def projector(domain):
    """The projection onto the set's directions as a matrix, by the definition: from differences of points."""
    if domain is None:
        return np.eye(9)
    rng = np.random.default_rng(11)
    vertices = [np.ravel(domain.lmo(rng.standard_normal(domain.shape))) for _ in range(60)]
    _, sigma, Vt = np.linalg.svd(np.array(vertices[1:]) - vertices[0])
    V = Vt[: int((sigma > 1e-9 * sigma[0]).sum())]
    return V.T @ V


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("kind", PHIS)
def test_the_parts_are_the_positive_and_the_negative_curvature_along_the_set(kind, domain):
    phi = PHIS[kind](9)
    dc = splits.spectral(phi, domain)
    for x in points(domain):
        assert dc.f.value(x) - dc.g.value(x) == pytest.approx(phi.value(x), abs=1e-10)
        assert dc.value(x) == phi.value(x)
    P, H = projector(domain), phi.hessian(np.zeros(9))
    values, V = np.linalg.eigh(P @ H @ P)
    template = np.zeros(9 if domain is None else domain.shape)
    np.testing.assert_allclose(
        dc.f.hessian(template), (V * np.maximum(values, 0.0)) @ V.T, atol=1e-10 * abs(values).max()
    )
    np.testing.assert_allclose(
        dc.g.hessian(template), (V * np.maximum(-values, 0.0)) @ V.T, atol=1e-10 * abs(values).max()
    )
    flat = domain is not None and np.linalg.matrix_rank(P) < 9
    if values[0] < -1e-9:
        assert dc.name == ("spectral(tangent)" if flat else "spectral")
    else:
        assert dc.name == "convex on the set (g = 0)"
    assert dc.conditional == ""


@pytest.mark.parametrize("kind", PHIS)
def test_the_hessian_is_that_of_the_gradients(kind):
    phi = PHIS[kind](9)
    H = phi.hessian(np.zeros(9))
    x, y = points(None, 2)
    np.testing.assert_allclose(H @ (x - y), phi.grad(x) - phi.grad(y), atol=1e-10)
    np.testing.assert_allclose(H, functions.Function.hessian(phi, np.zeros(9)), atol=1e-10)


@every_set
def test_tangent_is_the_orthogonal_projection_onto_the_differences_of_points(case):
    domain = case.domain
    rng = np.random.default_rng(0)
    G, K = rng.standard_normal(domain.shape), rng.standard_normal(domain.shape)
    T = domain.tangent(G)
    np.testing.assert_allclose(domain.tangent(T), T, atol=1e-12)  # a projection ...
    assert np.vdot(T, K) == pytest.approx(np.vdot(G, domain.tangent(K)), abs=1e-10)  # an orthogonal one ...
    for _ in range(10):  # that keeps every direction of the set
        d = np.asarray(domain.lmo(rng.standard_normal(domain.shape))) - np.asarray(domain.random(rng))
        np.testing.assert_allclose(domain.tangent(d), d, atol=1e-9)


def test_tangent_answers_in_the_backend_it_is_asked_in():
    torch = pytest.importorskip("torch")
    answer = sets.Simplex(3).tangent(torch.tensor([1.0, 2.0, 6.0]))
    assert torch.equal(answer, torch.tensor([-2.0, -1.0, 3.0]))


def test_curvature_across_the_set_does_not_count():
    phi = functions.Quadratic(np.eye(4) - 5.0)  # concave only along (1, 1, 1, 1)
    assert splits.spectral(phi).name == "spectral"
    dc = splits.spectral(phi, sets.Simplex(4))
    assert dc.name == "convex on the set (g = 0)"
    res = minimize(phi, sets.Simplex(4), np.eye(4)[0], tol=1e-9)
    assert res.split == dc.name
    np.testing.assert_allclose(res.x, 0.25, atol=1e-4)


def test_a_convex_quadratic_stays_itself():
    phi = least_squares(9)
    for domain in (None, sets.Simplex(9)):
        dc = splits.spectral(phi, domain)
        assert dc.f is phi
        assert dc.name == "convex (g = 0)"


def test_vertices_of_the_simplex_still_cost_a_column():
    dc = splits.spectral(quadratic(9), sets.Simplex(9))
    atom = OneHot(4, 1.0, (9,))
    for part in (dc.f, dc.g):
        assert type(part) is functions.Quadratic
        assert isinstance(part.A, np.ndarray)
        np.testing.assert_allclose(part.grad_at(atom), part.grad(atom.dense()), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_parts_live_where_the_data_live(dtype):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    phi = functions.Quadratic(torch.asarray(matrix(9), dtype=kind), torch.ones(9, dtype=kind))
    res = minimize(phi, sets.Simplex(9), torch.full((9,), 1 / 9, dtype=kind), tol=1e-2)
    assert res.success
    assert res.split == "spectral(tangent)"
    assert res.x.dtype == kind


# -- by Lanczos -----------------------------------------------------------------------------------------


def few_negative(n=300, count=5, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.r_[
        -np.linspace(0.5, 4.0, count), np.zeros(n // 3), rng.uniform(0.0, 10.0, n - n // 3 - count)
    ]
    A = (Q * values) @ Q.T
    return 0.5 * (A + A.T)


@pytest.fixture
def large(monkeypatch):
    """Lower the size from which a quadratic counts as large."""
    monkeypatch.setattr(_spectral, "DENSE_EIGENVALUES", 50)


@pytest.mark.parametrize("kind", ["dense", "sparse", "operator"])
@pytest.mark.parametrize("flat", [False, True])
def test_lanczos_finds_the_few_negative_eigenvalues(large, kind, flat):
    A = few_negative()
    n = len(A)
    data = {"dense": A, "sparse": sp.csr_array(A), "operator": aslinearoperator(A)}[kind]
    phi = functions.Quadratic(data, np.cos(np.arange(n)))
    domain = sets.Simplex(n) if flat else sets.L1Ball(n)
    dc = splits.spectral(phi, domain)
    P = np.eye(n) - 1.0 / n if flat else np.eye(n)
    H = P @ A @ P
    count = int((np.linalg.eigvalsh(H) < -1e-9).sum())
    assert dc.name == (f"spectral(tangent, rank={count})" if flat else f"spectral(rank={count})")
    assert "Lanczos missed no negative eigenvalue" in dc.conditional
    rng = np.random.default_rng(1)
    for x in [domain.random(rng) for _ in range(5)]:
        assert dc.f.value(x) - dc.g.value(x) == pytest.approx(phi.value(x), abs=1e-10)
        np.testing.assert_allclose(dc.f.grad(x) - dc.g.grad(x), phi.grad(x), atol=1e-10)
    # What is added is the negative part up to the tolerance stated, and enough to make f convex on the set.
    G = dc.g.hessian(np.zeros(n))
    values, V = np.linalg.eigh(H)
    assert np.linalg.norm(P @ G @ P - (V * np.maximum(-values, 0.0)) @ V.T, 2) <= 5e-5 * abs(values).max()
    assert np.linalg.eigvalsh(P @ (A + G) @ P)[0] >= -1e-12
    atom = OneHot(7, 1.0, (n,))
    np.testing.assert_allclose(dc.g.grad_at(atom), dc.g.grad(atom.dense()), atol=1e-12)
    res = minimize(dc, domain, inner="blended", tol=1e-5)
    assert res.success
    assert res.conditional == dc.conditional


def test_low_rank_parts_work_in_torch(large):
    torch = pytest.importorskip("torch")
    A = few_negative(120, 3)
    phi = functions.Quadratic(torch.asarray(A))
    res = minimize(phi, sets.Simplex(120), maxiter=5, max_inner=20)
    assert res.split == "spectral(tangent, rank=3)"
    assert res.fun == pytest.approx(0.5 * float(res.x @ torch.asarray(A) @ res.x))


def test_many_negative_eigenvalues_are_left_to_the_dense_decomposition(large):
    phi = functions.Quadratic(matrix(400, low=-5.0))
    assert splits.spectral(phi).name == "spectral"


def test_where_that_is_too_large_the_error_names_the_remedy(large, monkeypatch):
    monkeypatch.setattr(_spectral, "DENSE_LIMIT", 100)
    phi = functions.Quadratic(matrix(400, low=-5.0))
    with pytest.raises(ValueError, match=r"400 variables and more than 48 negative.*splits\.proximal"):
        splits.spectral(phi)
    assert splits.best(phi).name.startswith("proximal(L=5")


def test_the_best_split_does_not_wait_for_a_long_decomposition(large):
    assert splits.best(functions.Quadratic(matrix(400, low=-5.0))).name.startswith("proximal(L=5")


# -- what it is good for --------------------------------------------------------------------------------


def test_the_certificates_contain_the_true_gap():
    domain = sets.Simplex(9)
    phi = quadratic(9, 5)
    dc = splits.spectral(phi, domain)
    res, iterates = trace(dcfw.minimize, dc, domain, np.eye(9)[0], tol=1e-6)
    assert res.nit >= 2
    assert res.conditional == ""
    for x, low, high in zip(iterates, res.history["dc_low"], res.history["dc_high"], strict=True):
        true = surrogate_gap(dc.f, dc.g.grad(x), domain, x, dc.f.lipschitz)
        assert low - 1e-9 <= true[1]
        assert true[0] <= high + 1e-9


def test_fewer_calls_of_the_oracle_than_with_the_proximal_split():
    ratios = []
    for seed in range(6):
        phi = functions.Quadratic(matrix(30, seed, low=-4.0, high=4.0))
        for domain in (sets.Simplex(30), sets.L1Ball(30)):
            x0 = domain.random(seed)
            kwargs = {"inner": "blended", "tol": 0.0, "rtol": 1e-3}
            spectral, proximal = (
                minimize(split, domain, x0, **kwargs)
                for split in (splits.spectral(phi, domain), splits.proximal(phi))
            )
            assert spectral.success
            assert proximal.success
            ratios.append(math.log(proximal.n_lmo / spectral.n_lmo))
    assert math.exp(np.mean(ratios)) >= 1.5


def test_minimize_splits_a_quadratic_that_way_and_says_so():
    res = minimize(quadratic(9), sets.Simplex(9), tol=1e-3)
    assert res.success
    assert res.split == "spectral(tangent)"
    assert "spectral(tangent)" in str(res)


def test_another_split_of_a_given_difference_is_chosen_only_on_request():
    given = functions.SquaredNorm(9.0) - functions.Quadratic(matrix(9, low=0.1))
    assert splits.choose(given, sets.L2Ball(9)) is given
    assert splits.best(given, sets.L2Ball(9)).name == "spectral" or splits.best(given).name.startswith(
        "convex"
    )
    kinked = functions.SquaredNorm(9.0) - functions.L1Norm()
    assert splits.best(kinked) is kinked


def test_a_quadratic_of_unknown_size_is_split_all_the_same():
    phi = functions.SquaredNorm(1.0) + (-3.0) * functions.SquaredNorm(1.0)
    assert splits.best(phi).name.startswith("proximal")
    assert splits.best(phi, sets.L2Ball(4)).name == "spectral"


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: splits.spectral(functions.LogSumExp()), ValueError, r"phi must be a quadratic.*proximal"),
        (lambda: splits.spectral(functions.SquaredNorm()), ValueError, r"domain must be given"),
        (lambda: splits.spectral(quadratic(9), sets.Simplex(8)), ValueError, r"9 variables.*shape \(8,\)"),
        (lambda: splits.spectral(3.0), TypeError, r"phi must be a function object"),
    ],
)
def test_bad_input_is_refused_by_name(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_large_quadratic_without_curvature_is_linear():
    n = 1500
    res = minimize(functions.Quadratic(sp.csr_array((n, n)), np.arange(float(n))), sets.Simplex(n))
    assert res.success
    assert (res.fun, res.split, res.conditional) == (0.0, "convex (g = 0)", "")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_large_quadratic_without_curvature_along_the_set_has_no_negative_part(sign):
    n = 1500
    dc = splits.best(functions.Quadratic(sign * np.ones((n, n))), sets.Simplex(n))
    assert dc.name == "spectral(tangent, rank=0)"
    assert 0.0 < dc.g.lipschitz < 1e-8


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("lanczos", [False, True])
def test_rounding_of_the_curvature_across_the_set_is_not_curvature_along_it(monkeypatch, n, lanczos):
    monkeypatch.setattr(_spectral, "DENSE_EIGENVALUES", 20 if lanczos else 1200)
    a = 100.0 * np.random.default_rng(0).random(n)
    phi = functions.Quadratic(a[:, None] + a, np.random.default_rng(1).standard_normal(n))
    res = minimize(phi, sets.Simplex(n))
    assert res.success
    assert res.nit <= 2
    assert res.split == ("spectral(tangent, rank=0)" if lanczos else "convex on the set (g = 0)")


# -- a split that was made for another set ------------------------------------------------------------------


class Corner:
    """The corner of a simplex where no entry is above 1/2, as a user would write it."""

    def lmo(self, G):
        s = np.zeros(len(G))
        s[np.argsort(G)[:2]] = 0.5
        return s

    def contains(self, x):
        return bool(abs(x.sum() - 1.0) < 1e-9 and x.min() > -1e-9 and x.max() < 0.5 + 1e-9)

    def start(self):
        return np.full(6, 1.0 / 6.0)


class Cube(Corner):
    def lmo(self, G):
        return np.where(G > 0.0, 0.0, 0.5)


ELSEWHERE = {
    "a larger simplex": sets.Simplex(6, radius=3.0),
    "a ball": sets.L2Ball(6),
    "a box with the simplex's centre": sets.Box(0.0, 1.0 / 3.0, shape=6),
    "a set of the user's own": Cube(),
}
MADE = {
    "as it is": lambda dc: dc,
    "strengthened": lambda dc: splits.strengthen(dc, 0.1),
    "in a difference": lambda dc: dc - functions.L1Norm(0.1),
    "in a multiple": lambda dc: 2.0 * (dc - functions.SquaredNorm(0.1)),
    "with the sign changed": lambda dc: functions.SquaredNorm(0.1) - (dc - functions.SquaredNorm(0.1)),
}


@pytest.mark.parametrize("rank", [False, True], ids=["dense", "lanczos"])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("domain", ELSEWHERE)
def test_a_split_along_one_set_is_refused_on_another(domain, made, rank, monkeypatch):
    if rank:
        monkeypatch.setattr(_spectral, "DENSE_EIGENVALUES", 1)
        monkeypatch.setattr(_spectral, "_negative_pairs", lambda *_: (-np.ones(1), np.eye(6)[:, :1], 0.1))
    dc = MADE[made](splits.spectral(quadratic(6), sets.Simplex(6)))
    with pytest.raises(ValueError, match=r"split for Simplex\(6\).* use splits\.spectral\(phi, domain\)"):
        minimize(dc, ELSEWHERE[domain])


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("domain", [sets.Simplex(6), Corner()], ids=["the same", "a part"])
def test_a_split_along_one_set_serves_others_in_its_flat(made, domain):
    dc = MADE[made](splits.spectral(quadratic(6), sets.Simplex(6)))
    assert minimize(dc, domain, tol=1e-4).success
