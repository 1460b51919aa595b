"""Stored rows carry the hash of the code that made them, a rerun finds stale ones, pages quote them."""

import csv
import json
import re

import pytest

from dcfw_studies import row_checks
from dcfw_studies.code_hash import code_hash
from dcfw_studies.protocols import CAPS
from dcfw_studies.store import Store
from dcfw_studies.study import Task
from places import ROOT

RESULTS = ROOT / "results"


def test_the_hash_follows_the_code_of_a_study_and_nothing_else():
    found = {code_hash(f"dcfw_studies.{name}") for name in row_checks.STUDIES}
    assert len(found) == len(row_checks.STUDIES)
    assert code_hash("dcfw_studies.qap") == code_hash.__wrapped__("dcfw_studies.qap")


@pytest.fixture
def folder(tmp_path):
    """A report with three quick rows, computed now."""
    from dcfw_studies.inner import study
    from dcfw_studies.report import write_report
    from dcfw_studies.runner import run

    with Store(tmp_path / "rows.db") as store:
        run(study(seeds=1, families=["alignment"]), store, limit=3)
    write_report("inner", tmp_path / "rows.db", tmp_path / "inner")
    return tmp_path / "inner"


def test_rows_of_today_are_current_and_a_changed_value_is_stale_until_it_is_recomputed(folder):
    found = row_checks.check("inner", folder, sample=3, seed=0)
    assert (found.rows, found.current, found.stale) == (3, 3, {})
    lines = list(csv.DictReader((folder / "rows.csv").read_text().splitlines()))
    lines[0]["nit"] = str(int(lines[0]["nit"]) + 1)
    with open(folder / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    found = row_checks.check("inner", folder, sample=3, seed=0)
    assert [list(columns) for columns in found.stale.values()] == [["nit"]]
    row_checks.rewrite(found)
    assert row_checks.check("inner", folder, sample=3, seed=0).stale == {}


COMMITTED = [("qap", "qap"), ("qap", "qap/text"), ("inner", "inner")]


@pytest.mark.parametrize(("study", "folder"), COMMITTED)
def test_twenty_committed_rows_of_a_study_are_what_the_code_gives(study, folder):
    if study == "qap":
        _data("qaplib")
    found = row_checks.check(study, RESULTS / folder, sample=20, seed=0, longest=0.25)
    assert len(found.outcomes) == 20
    assert found.stale == {}


@pytest.mark.parametrize(("place", "protocol"), [("qap", "published"), ("qap/text", "text")])
def test_no_committed_row_ended_at_a_limit_other_than_that_of_its_protocol(place, protocol):
    rows = row_checks.rows_of("qap", RESULTS / place, protocol=protocol)
    assert {row["nit"] for row in rows if row["status"] == "MAXITER"} <= {CAPS[protocol]["maxiter"]}


def test_committed_networks_begin_as_the_code_does():
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    found = row_checks.check_beginnings("networks", RESULTS / "networks", sample=20, seed=0)
    assert found.stale == {}
    digits = [row for row in row_checks.read("networks", RESULTS / "networks") if row[0].dataset == "digits"]
    assert all("instructions" in row[3] for row in digits)
    if not found.outcomes:
        pytest.skip("no row was computed with this PyTorch on such a processor")


@pytest.mark.parametrize("sample", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_committed_alignments_begin_as_the_code_does(sample):
    from dcfw_studies.alignment import study

    _data("embeddings")
    found = row_checks.check_beginnings("alignment", RESULTS / "alignment", sample=sample, seed=0)
    assert found.stale == {}
    # Rows with curves: three data sets, five methods, but for those that the report lists as missing.
    readme = (RESULTS / "alignment" / "README.md").read_text()
    missing = re.findall(r"^\| long \| (\w+) \| (\S+) \| 1 \|", readme, re.M)
    rows = row_checks.rows_of("alignment", RESULTS / "alignment", part="long")
    long = [(row["dataset"], row["method"]) for row in rows]
    assert sorted(long + missing) == sorted((t.dataset, t.method) for t in study(["long"]).tasks)
    assert len(found.outcomes) == min(sample, len(long))


def _data(name):
    from dcfw.data import find

    try:
        find(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(("nudged", "kind"), [(7, "stale"), (8, "unsteady")])
def test_a_row_that_rounding_decides_is_not_called_stale(monkeypatch, tmp_path, nudged, kind):
    def row(dataset, method, seed, nudge=0.0):
        return {"value": nudged if nudge else 7}

    stored = (Task("a", "m", 0), {"value": 6}, 0.1, {})
    monkeypatch.setattr(row_checks, "read", lambda study, folder: [stored])
    monkeypatch.setattr("dcfw_studies.inner.row", row)
    found = row_checks.check("inner", tmp_path, sample=1, seed=0)
    assert list(getattr(found, kind).values()) == [{"value": (6, 7)}]
    assert len(found.stale) + len(found.unsteady) == 1


def test_a_nudge_changes_an_alignment_by_rounding_alone():
    from dcfw_studies.alignment import row

    settings = {"rate": 0.1, "steps": 10, "part": "choices"}
    plain = row("shrunken", "dcfw-exact", 0, **settings)
    nudged = row("shrunken", "dcfw-exact", 0, **settings, nudge=row_checks.NUDGE)
    assert row_checks.differences(plain, nudged) == {}
    assert plain["value"] != nudged["value"]


def test_the_page_of_the_experiments_quotes_the_stored_rows():
    text = " ".join((ROOT / "docs" / "reproduction" / "index.md").read_text(encoding="utf-8").split())
    summary = json.loads((RESULTS / "qap" / "summary.json").read_text())
    one = summary["single_run"]["all"]
    errors = one["errors"]
    assert f"on {one['wins']}, FW on {one['losses']}, with {one['ties']} equal" in text
    assert f"mean errors of {errors['dcfw-1']:.4f} and {errors['fw']:.4f}" in text
    cells = {(cell["row"], cell["column"]): cell["ours"]["fraction"] for cell in summary["heat_map"]}
    wins, losses = (round(100 * cells[pair]) for pair in (("dcfw-1", "fw"), ("fw", "dcfw-1")))
    assert f"better on {wins} % and FW on {losses} %" in text
    pair = next(c["ours"] for c in summary["heat_map"] if (c["row"], c["column"]) == ("dcfw-1", "fw"))
    assert f"Over {_words(len(pair['seeds']))} starts on {pair['instances']} instances" in text
    design, missing = summary["run"]["paper_design_rows"], summary["run"]["missing"]
    assert f"{design['of'] - design['done']:,} of the {design['of']:,} rows are missing" in text
    assert f"all of them on {_listed(dict.fromkeys(entry['dataset'] for entry in missing))}" in text
    small, large = ([line["scores"] for line in summary["by_size"]][part] for part in (slice(2), slice(3, 5)))
    for method in (
        "dcfw-2",
        "dcfw-3",
        "cgs",
    ):  # ahead of variant 1 on small instances and behind it on large ones
        assert all(score[method]["losses"] > score[method]["wins"] for score in small)
        assert all(score[method]["losses"] < score[method]["wins"] for score in large)
    of_text = json.loads((RESULTS / "qap" / "text" / "summary.json").read_text())["heat_map"]
    shares = {(cell["row"], cell["column"]): round(100 * cell["ours"]["fraction"]) for cell in of_text}
    assert f"{shares['dcfw-1', 'fw']} % and {shares['fw', 'dcfw-1']} % over ten starts" in text
    from dcfw_studies.alignment_report import standing

    for said in standing(row_checks.rows_of("alignment", RESULTS / "alignment", part="long")):
        assert said.rstrip(".") in text
    growth = json.loads((RESULTS / "networks" / "summary.json").read_text())["growth"]

    def grown(method, part="digits", **setting):
        chosen = {"method": method, "part": part, "L": 10.0, **setting}
        (line,) = [e for e in growth if all(e[name] == value for name, value in chosen.items())]
        return line

    fw, whole = grown("fw"), {"part": "cnn", "epochs": 15}
    short = {"part": "cnn", "epochs": 8, "precision": "float32"}
    assert f"Open-loop FW on digits: multiplied by {fw['loss_ratio']:,.0f} (five seeds" in text
    assert fw["seeds"] == 5
    assert f"{grown('dcfw-authors')['loss_ratio']:.2f} on digits" in text
    head = [f"{grown(method, part='head')['loss_ratio']:.3g}" for method in ("dcfw", "dcfw-authors", "fw")]
    on_head = f"{head[0]} (DC-FW), {head[1]} (the authors' optimizer) and {head[2]} (FW), three seeds"
    assert f"On the head the loss is multiplied by {on_head}" in text
    steps = {
        (e["part"], e["c"]): e["inner_steps"]
        for e in json.loads((RESULTS / "networks" / "summary.json").read_text())["table"]
        if e["method"] == "dcfw-authors" and e["epochs"] in (15, 30)
    }
    assert (
        f"some {steps['digits', 1.0]:.0f} steps per tensor on digits and {steps['cnn', 1.0]:.0f} here" in text
    )
    assert all(steps["digits", c] < 4 and steps["cnn", c] < 10 for c in (10.0, 100.0))
    assert "at c = 10 and 100 fewer than 4 and 10" in text
    authors = grown("dcfw-authors", **whole)
    losses = " and ".join(f"{authors[f'train_loss_{c}']:.4f}" for c in (1, 100))
    accuracies = " and ".join(f"{100 * authors[f'test_accuracy_{c}']:.1f} %" for c in (1, 100))
    assert f"training losses of {losses} at c = 1 and 100, test accuracies of {accuracies}" in text
    assert f"open-loop FW's loss is multiplied by {grown('fw', **whole)['loss_ratio']:.0f}" in text
    assert f"(L = 10) is multiplied by {grown('dcfw')['loss_ratio']:.2f} from c = 1 to c = 100" in text
    assert f"on 10,000 images it is multiplied by {grown('dcfw', **short)['loss_ratio']:.2f}" in text
    three = grown("dcfw", **{**short, "precision": "bfloat16"})
    assert f"(one seed, float32; three seeds in bfloat16: {three['loss_ratio']:.2f})" in text
    assert three["seeds"] == 3


def _words(count):
    return "ten" if count == 10 else str(count)


def _listed(names):
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


REPORTS = [("alignment", "alignment"), ("inner", "inner"), ("networks", "networks"), ("qap", "qap/text")]


@pytest.mark.parametrize(("study", "place"), REPORTS)
def test_the_readme_of_every_report_is_what_its_rows_give(tmp_path, study, place):
    pytest.importorskip("matplotlib")
    if study == "networks":
        pytest.importorskip("torch", reason="the part on a GPT needs it")
    from dcfw_studies.report import write_report

    folder = RESULTS / place
    path = tmp_path / f"{study}.db"
    with Store(path) as store:
        store.finish_all((*row[:3], "", row[3]) for row in row_checks.read(study, folder))
    options = {"protocol": "text"} if place == "qap/text" else {}
    write_report(study, path, tmp_path / study, figures=False, **options)
    lines = (tmp_path / study / "README.md").read_text().splitlines()
    stored = set((folder / "README.md").read_text().splitlines())
    assert [line for line in lines if line not in stored] == []
