"""The paper's protocols give the numbers that they gave as options of the library's own solvers."""

from __future__ import annotations

import json

import frozen_rows
import numpy as np
import pytest

from dcfw import qap
from dcfw.align import MaskedLeastSquares
from dcfw_studies.protocols import GlobalOpenLoop, OuterAdaptive, align_published, authors_constants, solve_as

FROZEN = json.loads(frozen_rows.FILE.read_text())
RUNS = frozen_rows.runs()


def test_every_frozen_row_is_there():
    assert list(FROZEN) == list(RUNS)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "alignment"])
def test_a_row_has_the_frozen_counts_and_values(kind):
    for name in (name for name in RUNS if name.startswith(kind)):
        make, *arguments = RUNS[name]
        now, then = make(*arguments), dict(FROZEN[name])
        for field in ("fun", "relaxed", "gap", "rotation"):
            if field in then:
                # Gaps are differences of close numbers, which BLAS rounds in other ways on other processors.
                rel = 1e-4 if field == "gap" else 1e-6
                assert now.pop(field) == pytest.approx(then.pop(field), rel=rel, abs=1e-9), (name, field)
        assert now == then, name


def test_half_of_the_constant_is_trusted():
    rng = np.random.default_rng(22)
    A, B = (rng.random((30, 30)) * (rng.random((30, 30)) < 0.3) for _ in range(2))
    X0 = np.full((30, 30), 1 / 30)
    for split in ("sliding", "proximal"):
        res = solve_as("published", A + A.T, B + B.T, X0, method="dcfw", split=split)
        assert res.status.name == "CONVERGED"
        assert "L = " in res.conditional


def test_variant_1_of_the_authors_is_the_librarys_paper_split():
    rng = np.random.default_rng(0)
    A, B = rng.random((2, 9, 9))
    X0 = qap.solve(A, B, init="random", max_lmo=1, rng=0).x
    ours = qap.solve(A, B, split="paper", inner="fw", init=X0)
    theirs = solve_as("published", A, B, X0, method="dcfw")
    assert theirs.n_inner == ours.n_inner
    np.testing.assert_allclose(theirs.relaxed.x, ours.x, atol=1e-12)


# -- alignment: a transcription of the authors' code -----------------------------------------------------


def planted(d=8, n=300, rate=0.5, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    E1 = rng.standard_normal((d, n))
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    E2 = Q @ E1 + noise * rng.standard_normal((d, n))
    return E1, E2, rng.random((d, n)) < rate, Q


def polar(G):
    U, _, Vt = np.linalg.svd(G, full_matrices=False)
    return U @ Vt


def literal_phi(E1, Y, mask, lam, X):
    R = np.where(mask, X @ E1 - Y, 0.0)
    return (R**2).sum() / (2 * E1.shape[1]) - lam * np.linalg.norm(X, "nuc")


def points_of(E1, E2, mask, **options):
    points = []
    f = MaskedLeastSquares(E1, E2, mask)
    align_published(
        f, callback=lambda intermediate_result: points.append(intermediate_result.x.copy()), **options
    )
    return points


def test_the_published_constants_are_those_of_the_authors():
    E1, Y, mask, _ = planted(d=4)
    C, n = E1 @ E1.T, E1.shape[1]
    d = 4
    C0 = min(d**2 * np.linalg.norm(C, 2), np.linalg.norm(E1) ** 2, d * np.linalg.norm(C)) / n
    f = MaskedLeastSquares(E1, Y, mask)
    assert authors_constants(f) == pytest.approx((C0, np.linalg.norm(C) / n))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("d", [6, 30])
def test_published_dcfw_is_the_authors_loop(seed, d):
    literal = pytest.importorskip("bench.alignment_transcription", reason="bench is not installed")
    E1, E2, mask, _ = planted(d=d, noise=0.5, seed=seed, rate=0.3)
    Y = np.where(mask, E2, 0.0)
    # Polar factors amplify rounding: after 150 calls the transcription itself moves by 1e-8 when a last bit
    # of its data is changed.
    theirs = literal.dc_frank_wolfe(E1, Y, mask.astype(float), steps=89)
    res = align_published(MaskedLeastSquares(E1, E2, mask), max_lmo=90, maxiter=10**6)
    ours = points_of(E1, E2, mask, max_lmo=90, maxiter=10**6)
    assert len(theirs) == len(ours) == res.n_grad_g > 5  # ours takes one more, for the gap at the last point
    assert res.n_inner == 89
    assert res.n_lmo == 90
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-8)


def test_published_fwk_has_the_authors_steps():
    E1, E2, mask, _ = planted(d=6, noise=0.5)
    n, d = 300, 6
    C = E1 @ E1.T
    C0 = min(d**2 * np.linalg.norm(C, 2), np.linalg.norm(E1) ** 2, d * np.linalg.norm(C)) / n
    X = np.zeros((6, 6))
    theirs = [X]
    for _ in range(30):
        G = np.where(mask, X @ E1 - E2, 0.0) @ E1.T / n - 1e-4 * polar(X)
        S = -polar(G)
        gap = np.vdot(G, X - S)
        X = X + min(gap / C0, 1.0) * (S - X)
        theirs.append(X)
    ours = points_of(E1, E2, mask, method="fw-k", maxiter=30)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_published_fwm_has_the_authors_steps():
    E1, E2, mask, _ = planted(d=6, noise=0.5)
    n = 300
    L = np.linalg.norm(E1 @ E1.T) / n
    X = np.zeros((6, 6))
    theirs = [X]
    for _ in range(20):
        G = np.where(mask, X @ E1 - E2, 0.0) @ E1.T / n - 1e-4 * polar(X)
        D = X + polar(G)
        gap, length = np.vdot(G, D), np.vdot(D, D)
        phi = literal_phi(E1, E2, mask, 1e-4, X)
        while True:
            eta = min(1.0, gap / (L * length))
            if literal_phi(E1, E2, mask, 1e-4, X - eta * D) <= phi - eta * gap + 0.5 * L * eta**2 * length:
                break
            L *= 2.0
        L /= 2.0
        X = X - eta * D
        theirs.append(X)
    ours = points_of(E1, E2, mask, method="fw-m", maxiter=20)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_the_first_subgradient_is_the_identity():
    E1, E2, mask, _ = planted(d=5)
    (_, first) = points_of(E1, E2, mask, lam=1e3, maxiter=1, max_inner=1)  # which decides on the vertex
    np.testing.assert_allclose(first, np.eye(5), atol=1e-2)
    res = align_published(MaskedLeastSquares(np.zeros((4, 10)), np.ones((4, 10))), lam=0.5, max_lmo=100)
    np.testing.assert_allclose(res.x, np.eye(4), atol=1e-12)


def test_the_global_counter_goes_on_where_an_inner_loop_ends():
    step = GlobalOpenLoop().bind(None, None)
    assert [step(None) for _ in range(4)] == [2 / (k + 1) for k in (1, 2, 3, 4)]
    assert GlobalOpenLoop().bind(None, None)(None) == 1.0  # each run has its own


def test_the_authors_tolerance_is_lowered_at_outer_points_and_never_tested_before_a_step():
    rule = OuterAdaptive(0.5)
    assert [rule.next(None, 8.0), rule.next(4.0, 4.0), rule.next(4.0, 1.0)] == [4.0, 4.0, 2.0]
    assert not rule.enough(0.0, 1.0, lambda: 0.0)
