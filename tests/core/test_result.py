"""What a solve returns: fields, printing, the history and its thinning, pickling."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult

import dcfw
from dcfw import Result, Status, align, functions, qap, sets
from dcfw.result import ROW, History, Row

FIELDS = [
    "x",
    "fun",
    "success",
    "status",
    "message",
    "nit",
    "n_inner",
    "gap",
    "dc_gap",
    "dc_gap_nit",
    "n_fun",
    "n_grad_f",
    "n_grad_g",
    "n_lmo",
    "n_resync",
    "time",
    "history",
    "method",
    "split",
    "conditional",
    "restart_values",
    "total_time",
]


def solve(n=6, **kwargs):
    i = np.arange(float(n))
    f = functions.Quadratic(np.diag(1.0 + i) + np.cos(np.outer(i, i)) @ np.cos(np.outer(i, i)).T, np.sin(i))
    return dcfw.minimize(f - functions.SquaredNorm(0.5), sets.Simplex(n), tol=1e-2, **kwargs)


def test_a_result_is_scipys_with_every_field():
    res = solve()
    assert isinstance(res, OptimizeResult)
    assert set(FIELDS) <= set(res)
    for field in FIELDS:
        assert getattr(res, field) is res[field]


@pytest.mark.parametrize("method", ["dcfw", "fw", "fw-k", "fw-m", "cgs"])
def test_every_method_fills_in_every_field(method):
    assert set(FIELDS) <= set(solve(method=method))
    assert solve(method=method).method == method


def test_the_text_says_what_matters():
    res = solve()
    text = str(res)
    assert repr(res) == text
    for part in (
        "The Frank-Wolfe gap met the tolerance.",
        "success: True (CONVERGED)",
        "(Frank-Wolfe gap at x)",
        "certified, after",
        "method: dcfw, split: given",
        f"nit: {res.nit}",
        f"n_lmo: {res.n_lmo}",
        "x: ndarray(6,)",
    ):
        assert part in text
    assert "restarts" not in text
    assert "provided that" not in text


def test_convexity_that_nobody_stated_is_a_condition():
    def own(**known):
        return functions.Smooth(lambda x: 0.5 * float(x @ x), lambda x: 1.0 * x, lipschitz=1.0, **known)

    ball = sets.L1Ball(3)
    for phi in (own() - functions.SquaredNorm(0.1), own() + functions.L1MinusL2(0.3)):
        assert dcfw.minimize(phi, ball).conditional == "f is convex, which was not stated"
    for phi in (own(convex=True) - functions.SquaredNorm(0.1), own(convex=True) + functions.L1MinusL2(0.3)):
        assert dcfw.minimize(phi, ball).conditional == "f is convex, as stated"


def test_a_conditional_certificate_says_so():
    dc = functions.DC(functions.SquaredNorm(), functions.L1Norm(), conditional="L = 3 is large enough")
    res = dcfw.minimize(dc, sets.L2Ball(2), np.array([0.1, 0.2]))
    assert "provided that L = 3 is large enough" in str(res)


def test_the_text_of_a_matching_has_the_permutation_and_what_it_leaves_unmatched():
    path = np.eye(5, k=1) + np.eye(5, k=-1)
    res = qap.match(path, path)
    assert f"permutation: {res.permutation}" in str(res)
    assert f"agreement: {res.agreement:.6g}  disagreement: {res.disagreement:.6g}" in str(res)
    large = qap.solve(np.ones((40, 40)), np.ones((40, 40)))
    assert all(f"{k}" in str(large).split("permutation:")[1] for k in range(40))


def test_the_text_of_an_alignment_names_the_rotation():
    E = np.random.default_rng(0).standard_normal((3, 20))
    assert "rotation: ndarray(3, 3)" in str(align.align(E, E))


def test_the_text_in_a_callback_does_not_say_how_the_run_ended():
    texts = []
    solve(callback=lambda intermediate_result: texts.append(str(intermediate_result)))
    assert texts
    assert all("message: The run has not ended." in text for text in texts)
    assert not any("success" in text or "MAXITER" in text or "method" in text for text in texts)


def test_matrices_and_long_vectors_are_abbreviated():
    res = dcfw.minimize(functions.SquaredNorm(), sets.Birkhoff(3))
    assert str(res).endswith("x: ndarray(3, 3)")
    long = dcfw.minimize(functions.SquaredNorm(), sets.Simplex(500))
    assert "..." in str(long)
    assert len(str(long)) < 1200


@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_other_backends_print(backend):
    xp = pytest.importorskip(backend)
    res = dcfw.minimize(functions.SquaredNorm(), sets.Simplex(3), xp.asarray([0.2, 0.3, 0.5]))
    assert "(3,) [" in str(res)


def test_every_status_has_a_sentence():
    for status in Status:
        assert status.sentence.endswith(".")
    assert len({status.sentence for status in Status}) == len(Status)
    assert Status.CONVERGED == 0


def test_only_convergence_is_success():
    assert solve().success
    assert not solve(maxiter=1).success


def test_the_history_has_one_row_an_outer_step():
    res = solve()
    history = res.history
    assert len(history) == res.nit + 1
    assert history.keys() == History.columns
    for column in History.columns:
        assert history[column].shape == (res.nit + 1,)
    np.testing.assert_array_equal(history["nit"], np.arange(res.nit + 1))
    assert history["fun"][-1] == pytest.approx(res.fun)
    assert history["gap"][-1] == res.gap
    for counter in ("n_inner", "n_lmo", "n_grad_f", "n_grad_g"):
        assert (np.diff(history[counter]) >= 0).all()
        assert history[counter][-1] == res[counter]
    assert (np.diff(history["time"]) >= 0).all()
    assert (history["dc_low"] <= history["dc_high"]).all()
    assert (history["dc_high"] <= history["gap"]).all()
    assert np.isfinite(history["eps"][:-1]).all()


def test_the_value_of_a_surrogate_method_never_rises():
    assert (np.diff(solve().history["fun"]) <= 1e-12).all()


def test_unknown_columns_are_named():
    with pytest.raises(KeyError, match=r"no column 'value'; there are nit, fun"):
        solve().history["value"]


def row(k):
    return Row(*[k] * len(History.columns))


@given(st.integers(2, 40), st.integers(1, 600))
def test_a_long_history_is_thinned_evenly_and_keeps_its_ends(limit, count):
    history = History(limit=limit)
    for k in range(count):
        history.append(row(k))
        kept = history["nit"]
        assert kept[0] == 0
        assert kept[-1] == k
        assert len(history) <= limit + 1
    if count <= limit:
        np.testing.assert_array_equal(kept, np.arange(count))
    elif len(kept) > 4:
        gaps = np.diff(kept)[1:-1]
        assert gaps.max() <= 2 * gaps.min() + 1
        assert (np.diff(kept) > 0).all()


@given(st.integers(2, 20), st.lists(st.integers(0, 30), max_size=8))
def test_rows_that_come_in_batches_make_the_history_of_rows_that_come_one_by_one(limit, sizes):
    batched, postponed, single = (History(limit=limit) for _ in range(3))
    count = 0
    for size in sizes:
        rows = [row(k) for k in range(count, count + size)]
        batched.extend(np.array(rows, dtype=ROW))
        postponed.postpone(lambda rows=rows: np.array(rows, dtype=ROW), len(rows))
        for each in rows:
            single.append(each)
        count += size
    for history in (single, postponed):
        history.rescale(3.0, -1.0, 5.0)
        history.append(row(count))
    batched.append(row(count))
    np.testing.assert_array_equal(postponed.table(), single.table())
    assert list(batched["nit"]) == list(single["nit"])


def test_a_result_has_the_fields_that_its_class_declares_and_no_others():
    class Extended(Result):
        note: str
        weight: float = 2.0

    res = solve()
    assert list(res) == list(Result._defaults)
    extended = Extended(**res, note="mine")
    assert (extended.note, extended["weight"], extended.fun) == ("mine", 2.0, res.fun)
    assert extended.x is res.x
    with pytest.raises(TypeError, match="Extended needs note"):
        Extended(**res)
    with pytest.raises(TypeError, match="Result has no field nonsense"):
        Result(**res, nonsense=1)
    with pytest.raises(AttributeError, match=r"no field 'gapp'; result\['gapp'\] = value adds an item"):
        res.gapp = 0.0
    res["mine"] = 1
    assert res.mine == 1


def test_a_thinned_run_still_certifies_its_last_step(monkeypatch):
    monkeypatch.setattr(History.__init__, "__defaults__", (8,))
    res = solve(tolerance="progress")
    thin = res.history
    assert thin.limit == 8
    assert len(thin) <= 9
    assert thin["nit"][-1] == res.nit
    assert thin["fun"][-1] == pytest.approx(res.fun)


def test_a_copied_history_does_not_receive_the_rows_of_the_original():
    history = History()
    history.append(tuple(range(len(Row._fields))))
    copied = copy.copy(history)
    history.append(tuple(range(len(Row._fields))))
    assert (len(copied), len(history)) == (1, 2)


@pytest.mark.parametrize("make", [lambda r: pickle.loads(pickle.dumps(r)), copy.deepcopy, copy.copy])
def test_a_result_survives_pickling_and_copying(make):
    res = solve()
    twin = make(res)
    assert type(twin) is Result
    assert str(twin) == str(res)
    np.testing.assert_array_equal(twin.x, res.x)
    np.testing.assert_array_equal(twin.history["gap"], res.history["gap"])
    assert twin.status is Status.CONVERGED


def test_the_certificate_is_that_of_the_best_certified_iterate():
    res = solve()
    low, high = res.dc_gap
    assert 0 <= low <= high
    k = res.dc_gap_nit
    assert high == res.history["dc_high"][k] == res.history["dc_high"].min()
    assert low == res.history["dc_low"][k]


def stationary_run(callback=None, **options):
    rng = np.random.default_rng(3)
    f, g = (functions.Quadratic(M @ M.T, M[0]) for M in rng.standard_normal((2, 6, 6)))
    return dcfw.minimize(f - 0.3 * g, sets.Simplex(6), callback=callback, tol=1e-9, **options)


@pytest.mark.parametrize("method", ["dcfw", "fw", "auto", "block"])
def test_what_a_callback_does_to_its_history_does_not_reach_the_run(method):
    def spoil(res):
        res.history.rescale(1e-3)
        res.history.table()["dc_high"] = 0.0
        res.history.table()["gap"] = 1e9
        for name in ("L_history", "n_lmo_blocks"):
            if res.get(name):
                res[name].clear()

    domain = sets.Product([sets.Simplex(3), sets.L2Ball(3)])
    phi = functions.Smooth(lambda x: float(np.cos(3.0 * x).sum()), lambda x: -3.0 * np.sin(3.0 * x))
    ways = [lambda told: dcfw.minimize(phi, domain, callback=told, method=method, maxiter=10)]
    if method != "block":
        ways.append(lambda told: stationary_run(told, method=method, maxiter=30))
    for solve in ways:
        spoilt, alone = solve(spoil), solve(None)
        assert (spoilt.status, spoilt.dc_gap, spoilt.gap) == (alone.status, alone.dc_gap, alone.gap)
        assert spoilt.L_history == alone.L_history
        for name in ("nit", "fun", "gap", "dc_low", "dc_high"):
            np.testing.assert_array_equal(spoilt.history[name], alone.history[name])


def test_a_history_kept_from_a_callback_does_not_grow():
    kept = []
    last = stationary_run(lambda res: kept.append(res), maxiter=30)
    assert len(kept) > 3
    assert [len(res.history) for res in kept] == list(range(1, len(kept) + 1))
    assert [res.history.last().gap for res in kept] == last.history["gap"].tolist()


def test_a_snapshot_of_a_thinned_history_has_the_rows_up_to_then():
    history, taken = History(limit=16), []
    for nit in range(100):
        history.append((nit, *[0.0] * (len(History.columns) - 1)))
        taken.append(history.snapshot())
    for nit, snapshot in enumerate(taken):
        assert snapshot["nit"][0] == 0
        assert nit - 2 * history.get_state()[0] < snapshot["nit"][-1] <= nit
        assert len(snapshot) <= 17


def test_callbacks_that_do_not_look_at_the_history_do_not_copy_it(monkeypatch):
    copied = []
    load = History.table
    monkeypatch.setattr(History, "table", lambda self: copied.append(1) or load(self))
    kept = []
    stationary_run(kept.append, maxiter=30, method="fw")
    during = len(copied)
    assert during < len(kept)
    kept[3].history["gap"]
    assert len(copied) > during
