"""The alignment study: its rows say what a run did, and its report compares at equal budgets."""

import json

import numpy as np
import pytest

from dcfw_studies import alignment
from dcfw_studies.alignment_tables import above, equal_budgets, gap_at
from dcfw_studies.report import write_report
from dcfw_studies.runner import run
from dcfw_studies.store import Store
from dcfw_studies.study import Study, Task


@pytest.fixture
def small(monkeypatch):
    """Replace the study's data by small ones, so that rows take milliseconds."""

    def load(dataset, seed, scaling="unit"):
        rng = np.random.default_rng(seed)
        E1 = rng.standard_normal((8, 200))
        Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        E2 = Q @ E1 + alignment.NOISE * rng.standard_normal((8, 200))
        if dataset in ("planted", "short"):
            return alignment.Data(E1, E2, None)
        rows = np.arange(40)
        held = np.stack([rows, rows], axis=1)
        test = {"source": E1.T, "target": E2.T, "held": held, "correct": held}
        return alignment.Data(E1[:, 40:], E2[:, 40:], test)

    monkeypatch.setattr(alignment, "load", load)


def test_one_step_of_the_oracle_is_one_iteration_and_dc_fw_saves_subgradients(small):
    rows = {m: alignment.row("planted", m, 0, 0.3, 200, "long") for m in alignment.METHODS}
    assert {r["n_lmo"] for r in rows.values()} == {200}
    assert rows["fw-k"]["n_grad_g"] == rows["fw-m"]["n_grad_g"] == 200
    assert rows["dcfw"]["n_grad_g"] < 60
    assert rows["dcfw"]["gap"] < rows["fw-k"]["gap"]
    for r in rows.values():
        assert r["map cosine"] > 0.9 * r["full cosine"]
        assert 0.0 <= r["dc_gap_low"] <= r["dc_gap_high"] <= r["gap"]


def test_an_active_set_gets_further_with_as_many_oracle_calls(small):
    rows = {m: alignment.row("short", m, 0, 0.3, 60, "long") for m in ("fw-m", "dcfw-exact", "dcfw-active")}
    assert rows["dcfw-active"]["gap"] < 0.5 * min(rows["dcfw-exact"]["gap"], rows["fw-m"]["gap"])


def test_a_run_on_pairs_is_tested_by_translation(small):
    r = alignment.row("real", "dcfw", 0, 0.3, 50, "rates")
    for name in ("map", "vertex", "full"):
        assert 0.0 <= r[f"{name} p@1"] <= r[f"{name} p@5"] <= 1.0
        assert -1.0 <= r[f"{name} held cosine"] <= 1.0
    assert r["full p@1"] > 0.5


def test_a_curve_keeps_its_ends_and_the_least_gap_never_rises():
    history = {name: np.arange(1.0, 5001.0) for name in ("n_lmo", "n_grad_g", "time", "dc_high", "fun")}
    history["gap"] = np.abs(np.sin(history["time"])) + 1.0 / history["time"]
    kept = alignment.curve(history, points=50)
    assert kept["n_lmo"][0] == 1.0
    assert kept["n_lmo"][-1] == 5000.0
    assert len(kept["gap"]) <= 50
    assert (np.diff(kept["least"]) <= 0.0).all()
    assert kept["least"][-1] == history["gap"].min()


def test_gaps_are_compared_where_every_method_has_spent_as_much():
    def made(lmo, grads, gaps):
        least = np.minimum.accumulate(gaps).tolist()
        return {"n_lmo": lmo, "n_grad_g": grads, "time": lmo, "gap": gaps, "least": least}

    a = {"method": "a", "curve": made([1, 10, 100], [1, 2, 3], [5.0, 1.0, 2.0])}
    b = {"method": "b", "curve": made([1, 2, 4], [1, 2, 4], [5.0, 4.0, 3.0])}
    assert gap_at(a, "svds", 11.9) == 5.0
    assert gap_at(a, "svds", 12.0) == 1.0
    assert gap_at(a, "iterations", 100) == 1.0
    assert gap_at(a, "iterations", 0.5) == np.inf
    table = equal_budgets([a, b], "svds", 3)
    assert [entry["budget"] for entry in table] == pytest.approx([2.0, 4.0, 8.0])
    assert table[-1]["b"] == 3.0


def test_a_method_above_another_is_looked_for_at_every_point():
    def made(method, lmo, gaps):
        curve = {"n_lmo": lmo, "n_grad_g": [0] * len(lmo), "time": lmo, "least": gaps}
        return {"method": method, "curve": curve}

    a = made("a", [1, 4, 8, 40], [5.0, 4.5, 1.0, 0.5])
    b = made("b", [1, 3, 6, 20], [5.0, 3.0, 2.0, 1.5])
    assert above([a, b], "a", "b", "time") == (2.25, 3.0, 6.0)  # 4.5 against 2.0 at 6
    assert above([a, b], "b", "a", "time") == (2.0, 8.0, 20.0)
    assert above([a, made("c", [1, 50], [9.0, 8.0])], "a", "c", "time") is None
    assert above([a], "a", "b", "time") is None


def test_the_study_has_the_parts_that_the_paper_and_the_question_ask_for():
    study = alignment.study()
    long = [t for t in study.tasks if t.settings["part"] == "long"]
    rates = [t for t in study.tasks if t.settings["part"] == "rates"]
    assert {(t.dataset, t.method) for t in long} == {
        (d, m) for d in ("planted", "short", "real") for m in alignment.METHODS
    }
    assert {t.settings["steps"] for t in long} == {10_000}
    assert len(rates) == 2 * 3 * 5 * 3
    assert study.ordered()[0].settings["steps"] == 10_000


def test_a_part_of_the_study_can_be_computed_for_one_data_set_alone():
    tasks = alignment.study(("long",), datasets=["planted"]).tasks
    assert {task.dataset for task in tasks} == {"planted"}
    assert sorted(task.method for task in tasks) == sorted(alignment.METHODS)
    assert {task.key for task in tasks} < {task.key for task in alignment.study().tasks}


def test_the_report_has_tables_figures_and_curves(small, tmp_path):
    settings = {"rate": 0.3, "steps": 40, "part": "long"}
    tasks = [Task(d, m, 0, settings) for d in ("planted", "real") for m in alignment.METHODS]
    tasks += [
        Task("real", "dcfw", s, {**settings, "part": "rates", "rate": r}) for s in (0, 1) for r in (0.1, 0.5)
    ]
    tasks += [Task("real", "dcfw-exact", 0, {**settings, "part": "choices", "lam": 0.0, "scaling": "unit"})]
    with Store(tmp_path / "s.db") as store:
        assert str(run(Study("alignment", alignment.row, tasks=tasks), store)).startswith("15 done")
    files = {f.name for f in write_report("alignment", tmp_path / "s.db", tmp_path / "out")}
    assert {"README.md", "rows.csv", "curves.csv", "summary.json", "gaps_real.png", "rates.svg"} <= files
    text = (tmp_path / "out" / "README.md").read_text()
    assert "93.11" in text
    assert "the first vertex" in text
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert set(summary["counts"]) == {f"{d}/{m}" for d in ("planted", "real") for m in alignment.METHODS}
    assert len((tmp_path / "out" / "rows.csv").read_text().splitlines()) == 16

    with Store(tmp_path / "again.db") as store:
        assert alignment.import_rows(store, str(tmp_path / "out")) == 15
        assert alignment.import_rows(store, str(tmp_path / "out")) == 0
    write_report("alignment", tmp_path / "again.db", tmp_path / "again", figures=False)
    for name in ("rows.csv", "curves.csv", "summary.json"):
        assert (tmp_path / "again" / name).read_text() == (tmp_path / "out" / name).read_text()
    again = (tmp_path / "again" / "README.md").read_text()
    assert set(again.splitlines()) <= set(text.splitlines())


def test_a_report_whose_files_do_not_fit_is_refused(tmp_path):
    head = "dataset,method,seed,part,rate,steps,seconds,gap"
    (tmp_path / "rows.csv").write_text(f"{head}\nplanted,dcfw,0,rates,0.1,10,1.0,0.5\n")
    with Store(tmp_path / "r.db") as store:  # rates have no curves
        assert alignment.import_rows(store, str(tmp_path)) == 1
    (tmp_path / "rows.csv").write_text(f"{head}\nplanted,dcfw,0,long,0.1,10,1.0,0.5\n")
    (tmp_path / "curves.csv").write_text("dataset,method,n_lmo,least\nplanted,fw-m,1,0.5\n")
    with Store(tmp_path / "s.db") as store:
        with pytest.raises(ValueError, match=r"rows\.csv, row 2: curves\.csv has no point"):
            alignment.import_rows(store, str(tmp_path))
        (tmp_path / "curves.csv").write_text("dataset,method,n_lmo,least\nplanted,dcfw,1,low\n")
        with pytest.raises(ValueError, match=r"curves\.csv, row 2: .*low"):
            alignment.import_rows(store, str(tmp_path))
