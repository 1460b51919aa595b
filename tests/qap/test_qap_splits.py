"""Every split of the QAP's objective is a difference of convex functions equal to it on the polytope."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dcfw.qap import generators
from dcfw.qap.compiled import pack
from dcfw.qap.quadratics import (
    SPLITS,
    MatrixQuadratic,
    decompose,
    doubly_centred,
    frobenius,
    relaxation,
    spectral_norm,
)
from dcfw.sets import Birkhoff
from dcfw.sets.atoms import Permutation


@st.composite
def problems(draw, largest=6):
    """Two matrices, symmetric, skew, of low rank, with zeros, or of any kind, of unequal scales."""
    n = draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))

    def matrix():
        M = rng.standard_normal((n, n)) + draw(st.sampled_from([0.0, 1.0, 5.0]))
        kind = draw(st.sampled_from(["any", "symmetric", "skew", "sparse", "rank one", "zero", "integers"]))
        if kind == "symmetric":
            M = M + M.T
        elif kind == "skew":
            M = M - M.T
        elif kind == "sparse":
            M = M * (rng.random((n, n)) < 0.3)
        elif kind == "rank one":
            M = np.outer(M[0], M[0])
        elif kind == "zero":
            M = 0.0 * M
        elif kind == "integers":
            M = np.round(M)
        return M * draw(st.sampled_from([1.0, 1e-3, 1e4]))

    A, B = matrix(), matrix()
    C = matrix() if draw(st.booleans()) else None
    return A, B, C, rng


def value_by_definition(A, B, C, X):
    return np.sum((A @ X) * (X @ B)) + (0.0 if C is None else np.sum(C * X))


def rounding(A, B, C):
    """What rounding may leave where everything cancels."""
    products = np.abs(A).sum() * np.abs(B).max() + np.abs(A).max() * np.abs(B).sum()
    squares = np.linalg.norm(A) ** 2 + np.linalg.norm(B) ** 2
    return 1e-14 * (products + squares + (0.0 if C is None else np.abs(C).sum()))


def random_point(n, rng):
    return Birkhoff(n).random(rng, scale=rng.choice([0.01, 1.0]))


every_split = pytest.mark.parametrize("split", SPLITS)


@every_split
@given(problems())
def test_f_minus_g_is_phi_on_the_polytope(split, problem):
    A, B, C, rng = problem
    dc = decompose(A, B, C, split)
    points = [random_point(len(A), rng) for _ in range(3)] + [np.eye(len(A))[rng.permutation(len(A))]]
    for X in points:
        f, g = dc.f.value(X), dc.g.value(X)
        phi = value_by_definition(A, B, C, X)
        scale = max(abs(f), abs(g), abs(phi))
        assert abs(f - g - phi) <= 1e-10 * scale + rounding(A, B, C)
        assert abs(dc.value(X) - phi) <= 1e-10 * scale + rounding(A, B, C)


@every_split
@given(problems())
def test_both_parts_are_convex_along_the_polytope(split, problem):
    A, B, C, _ = problem
    n = len(A)
    dc = decompose(A, B, C, split)
    E = np.eye(n) - 1.0 / n
    tangent = np.kron(E, E)  # projects vec(X) to row and column sums zero
    for part in (dc.f, dc.g):
        slope = part.grad(np.zeros((n, n)))
        basis = np.eye(n * n).reshape(-1, n, n)
        hessian = np.array([(part.grad(unit) - slope).ravel() for unit in basis])
        size = np.abs(hessian).max(initial=0.0)
        assert np.abs(hessian - hessian.T).max() <= 1e-12 * size + rounding(A, B, C)
        projected = tangent @ (0.5 * (hessian + hessian.T)) @ tangent
        assert np.linalg.eigvalsh(projected)[0] >= -1e-11 * n * size - rounding(A, B, C)


@every_split
@given(problems(largest=5))
def test_gradients_agree_with_differences_of_values(split, problem):
    A, B, C, rng = problem
    n = len(A)
    dc = decompose(A, B, C, split)
    X = random_point(n, rng)
    for function in (dc.f, dc.g, relaxation(A, B, C)):
        grad = function.grad(X)
        for _ in range(3):
            D = rng.standard_normal((n, n))
            # Central differences of a quadratic have no error but rounding.
            ends = [function.value(X + t * D) for t in (1.0, -1.0)]
            slope = np.sum(grad * D)
            scale = max(abs(function.value(X)), *map(abs, ends), abs(slope))
            assert abs(0.5 * (ends[0] - ends[1]) - slope) <= 1e-10 * scale + rounding(A, B, C)


@every_split
@given(problems())
def test_the_gradient_at_a_permutation_is_that_at_its_matrix(split, problem):
    A, B, C, rng = problem
    dc = decompose(A, B, C, split)
    atom = Permutation(rng.permutation(len(A)))
    for function in (dc.f, dc.g, relaxation(A, B, C)):
        grad = function.grad(atom.dense())
        tolerance = 1e-12 * np.abs(grad).max() + rounding(A, B, C)
        np.testing.assert_allclose(function.grad_at(atom), grad, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("m", "rank"), [(3, 4), (5, 8)])
def test_the_spectral_split_of_a_grid_has_one_thin_pair_a_part_and_the_compiled_gradients_know_it(m, rank):
    # Manhattan distances of an m x m grid, doubly centred, are negative semidefinite of rank 2 (m - 1).
    problem = generators.nugent((m, m), rng=1)
    A, B = (np.asarray(M, dtype=float) for M in (problem.A, problem.B))
    if np.linalg.matrix_rank(doubly_centred(A)) > rank:
        A, B = B, A
    n, rng = m * m, np.random.default_rng(2)
    dc = decompose(A, B, rng.random((n, n)), "spectral")
    X, p = random_point(n, rng), rng.permutation(n).astype(np.int64)
    found = np.empty((n, n))
    for part in (dc.f, dc.g):
        assert [V.shape for _, V, _ in part.thin] == [(rank, n)]
        assert not part.pairs
        full = MatrixQuadratic([(U @ V, Q) for U, V, Q in part.thin], n=n, C=part.C)
        size = np.abs(full.grad(X)).max()
        pack(part).gradient(X, found)
        np.testing.assert_allclose(found, full.grad(X), rtol=0, atol=1e-12 * size)
        pack(part).at_vertex(p, found)
        np.testing.assert_allclose(found, full.grad(np.eye(n)[p]), rtol=0, atol=1e-11 * size)
        assert part.lipschitz == pytest.approx(full.lipschitz)


@every_split
@given(problems())
def test_the_compiled_gradient_at_a_matrix_is_the_function_s_own(split, problem):
    A, B, C, rng = problem
    n = len(A)
    X, found = random_point(n, rng), np.empty((n, n))
    for part in (decompose(A, B, C, split).f, relaxation(A, B, C)):
        grad = part.grad(X)
        pack(part).gradient(X, found)
        tolerance = 1e-12 * np.abs(grad).max() + rounding(A, B, C)
        np.testing.assert_allclose(found, grad, rtol=0, atol=tolerance)


@every_split
@pytest.mark.parametrize("both", [True, False], ids=["both sparse", "A sparse"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_sparse_matrices_give_the_same_functions(split, both, kind):
    rng = np.random.default_rng(3)
    n = 12
    A, B = (rng.random((n, n)) * (rng.random((n, n)) < 0.2) for _ in range(2))
    C, X, atom = rng.random((n, n)), random_point(n, rng), Permutation(rng.permutation(n))
    dense = decompose(A, B, C, split)
    sparse = decompose(kind(A), kind(B) if both else B, C, split)
    for one, other in ((dense.f, sparse.f), (dense.g, sparse.g), (dense.whole, sparse.whole)):
        for got, expected in (
            (other.value(X), one.value(X)),
            (other.grad(X), one.grad(X)),
            (other.grad_at(atom), one.grad_at(atom)),
        ):
            assert type(got) is type(expected)  # plain arrays, never numpy.matrix or a sparse result
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("split", ["paper", "balanced", "sliding", "proximal"])
def test_sparse_matrices_stay_sparse(split):
    A, B = (sp.random_array((30, 30), density=0.05, rng=seed, format="csr") for seed in (0, 1))
    dc = decompose(A, B, split=split)
    for function in (dc.f, dc.g, dc.whole):
        assert all(sp.issparse(P) and sp.issparse(Q) for P, Q in function.pairs)


def test_the_spectral_split_of_symmetric_data_has_no_curvature_to_spare():
    """The Hessians of f and g annihilate each other: where one curves, the other does not."""
    rng = np.random.default_rng(5)
    n = 4
    A = rng.standard_normal((n, n))
    dc = decompose(A + A.T, rng.standard_normal((n, n)), split="spectral")
    basis = np.eye(n * n).reshape(-1, n, n)
    hessians = [np.array([part.grad(X) - part.grad(0 * X) for X in basis]) for part in (dc.f, dc.g)]
    F, G = (H.reshape(n * n, n * n) for H in hessians)
    assert np.abs(F @ G).max() <= 1e-12 * np.abs(F).max() * np.abs(G).max()
    assert min(np.abs(F).max(), np.abs(G).max()) > 0.1


def test_half_the_constant_is_marked_as_an_assumption():
    rng = np.random.default_rng(6)
    A, B = rng.random((5, 5)), rng.random((5, 5))
    L = spectral_norm(A) * spectral_norm(B)
    for split in ("sliding", "proximal"):
        assert decompose(A, B, split=split).conditional == ""
        assert decompose(A, B, split=split, L=2 * L).conditional == ""
        assert "L = " in decompose(A, B, split=split, L=L).conditional


def test_an_unknown_split_is_named_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"split must be one of .*did you mean 'centered'"):
        decompose(np.eye(2), np.eye(2), split="centred")


@pytest.mark.parametrize("n", [50, 300])
def test_norms_of_sparse_matrices_bound_the_dense_ones(n):
    M = sp.random_array((n, n), density=0.05, rng=7, format="csr")
    exact = np.linalg.norm(M.toarray(), 2)
    assert exact * (1 - 1e-12) <= spectral_norm(M) <= exact * (1 + 1e-5)
    assert frobenius(M) == pytest.approx(np.linalg.norm(M.toarray()))
    assert spectral_norm(sp.csr_array((n, n))) == 0.0


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_large_matrix_that_repeats_its_rows_is_factored_without_a_change_of_any_gradient(symmetric):
    rng = np.random.default_rng(0)
    n = 72
    A = rng.integers(0, 9, (4, 4))[np.arange(n)[:, None] % 4, np.arange(n) % 4].astype(float)
    B = rng.integers(0, 9, (n, n)).astype(float)
    if symmetric:
        A, B = A + A.T, B + B.T
    phi = relaxation(A, B)
    assert len(phi.thin) == (1 if symmetric else 2)
    assert not phi.pairs
    for _ in range(3):
        p = rng.permutation(n)
        X = np.eye(n)[p]
        np.testing.assert_array_equal(phi.grad_at(Permutation(p)), A @ X @ B.T + A.T @ X @ B)
        Y = 0.5 * X + 0.5 * np.eye(n)
        np.testing.assert_allclose(phi.grad(Y), A @ Y @ B.T + A.T @ Y @ B, rtol=1e-13)
    assert relaxation(B, A).pairs, "the first matrix has too many different rows"
