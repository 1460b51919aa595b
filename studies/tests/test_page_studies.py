"""`dcfw-studies report`: every study of a store has its sections, with the numbers of its tables."""

import contextlib
import json
import sqlite3

import pytest
from page_cases import HOSTILE, fill, fill_inner
from typer.testing import CliRunner

from dcfw.cli.page.parts import Bullets, Cell, Chart, Section, Table
from dcfw_studies import alignment_tables, inner_report, qap_report, qap_summary, qap_tables
from dcfw_studies.commands import app
from dcfw_studies.pages import SHOWN, collect, contribution, key_figures, study_sections
from dcfw_studies.store import Store
from dcfw_studies.study import Task


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("store") / "all.db"
    with Store(made) as store:
        fill(store)
    return made


@pytest.fixture
def store(path):
    with Store(path, readonly=True) as opened:
        yield opened


def find(sections, caption):
    """Return the table whose caption begins with ``caption``, as a dict of its rows."""
    table = next(
        part
        for section in sections
        for part in section.walk()
        if isinstance(part, Table) and part.caption.startswith(caption)
    )
    return {row[0]: list(row[1:]) for row in table.rows}


def chart(sections, title):
    return next(p for s in sections for p in s.walk() if isinstance(p, Chart) and p.title.startswith(title))


def test_every_study_has_its_place(store):
    found = [study for _, study, _ in collect([store])]
    assert found == ["qap", "alignment", "inner", f"own {HOSTILE}"]


@pytest.mark.parametrize("study", ["qap", "alignment", "inner"])
def test_a_study_of_the_paper_makes_its_own_sections(store, study):
    sections = study_sections(store, study)
    assert not any("could not be made" in getattr(part, "text", "") for s in sections for part in s.walk())
    assert sum(s.count(Chart) for s in sections) >= 3
    assert sections[-1].sections[-1].title == "How the rows were made"
    assert sections[0].summary


def test_the_qap_tables_are_those_of_the_report(store):
    runs = qap_tables.Runs(store.rows("qap"))
    summary = qap_summary.summarise(runs, qap_summary.expected_instances())
    sections = qap_report.sections(store)
    ours = summary["single_run"]["all"]
    row = find(sections, "Ours beside the published run")["ours, all sizes"]
    assert row[0] == ours["instances"] == 7
    assert [cell.text.split()[0] for cell in row[1:4]] == [str(ours[k]) for k in ("wins", "losses", "ties")]
    published = find(sections, "Ours beside the published run")["published"]
    assert [cell.text for cell in published[1:4]] == ["73 (54%)", "43 (32%)", "18 (13%)"]
    costs = find(sections, "LAP solves, time, error")
    assert costs["FW"][0] == qap_tables.costs(runs).table["fw"]["lap_total"]
    assert len(find(sections, "Assignment errors")) == 7
    pairs = find(sections, "The pairs with their intervals")
    assert pairs["DC-FW (var 1) < FW"][3].text == "73.40 [70.80, 76.00]"


def test_the_heat_map_is_shaded_from_the_lowest_to_the_highest_share(store):
    sections = qap_report.sections(store)
    cells = [
        cell
        for caption in ("Ours:", "Published:")
        for row in find(sections, caption).values()
        for cell in row
        if isinstance(cell, Cell)
    ]
    assert len(cells) == 40
    ordered = sorted(cells, key=lambda cell: cell.sort)
    assert [cell.heat for cell in ordered] == sorted(cell.heat for cell in cells)
    assert (ordered[0].heat, ordered[-1].heat) == (0.0, 1.0)


def test_errors_are_ordered_by_those_of_fw_with_their_instances(store):
    drawn = {series.name: series for series in chart(qap_report.sections(store), "Assignment errors").series}
    fw = list(drawn["FW"].y)
    assert fw == sorted(fw)
    rows = {(r["dataset"], r["method"], r["seed"]): r for r in store.rows("qap")}
    for name, error in zip(drawn["DC-FW (var 1)"].labels, drawn["DC-FW (var 1)"].y, strict=True):
        assert error == rows[name, "dcfw-1", 0]["error_published"]
    assert [series.hidden for series in drawn.values()] == [False, False, *[True] * 5]


def test_the_alignment_charts_are_the_curves_of_the_rows(store):
    sections = study_sections(store, "alignment")
    row = next(r for r in store.rows("alignment") if (r["method"], r["part"]) == ("fw-k", "long"))
    drawn = {series.name: series for series in chart(sections, "Gap against SVDs").series}
    spent = [a + b for a, b in zip(row["curve"]["n_lmo"], row["curve"]["n_grad_g"], strict=True)]
    assert list(drawn["FW-K"].x) == pytest.approx(spent)
    assert list(drawn["FW-K"].y) == row["curve"]["least"]
    rates = chart(sections, "Gap by rate, real").series[0]
    assert list(rates.x) == [5.0, 10.0, 50.0]
    assert all(low < mean < high for low, mean, high in zip(rates.low, rates.y, rates.high, strict=True))
    line = next(
        e for e in alignment_tables.rate_table([r for r in store.rows("alignment") if r["part"] == "rates"])
    )
    assert (line["dataset"], line["runs"]) == ("planted", 2)


def test_the_inner_table_counts_what_was_solved(store):
    found = find(study_sections(store, "inner"), "Inner solvers")
    # Vanilla steps solved one seed of three on each of the three splits, the others all nine.
    assert {name: row[:2] for name, row in found.items()} == {
        "fw": [3, 9], "away": [9, 9], "pairwise": [9, 9], "blended": [9, 9]
    }  # fmt: skip
    rows = {(r["dataset"], r["method"], r["seed"]): r for r in store.rows("inner")}
    least = inner_report.solver_table(
        {cost: inner_report.by_inner(rows, cost) for cost in inner_report.COSTS}
    )
    assert [row[2] for row in found.values()] == [entry["n_lmo"] for entry in least]


def test_an_unknown_study_gets_its_rows_and_medians(store):
    sections = study_sections(store, f"own {HOSTILE}")
    assert find(sections, "Medians by method")[f"method {HOSTILE}"][:2] == [
        12,
        pytest.approx(2 / 13, rel=0.1),
    ]
    table = next(p for p in sections[0].walk() if isinstance(p, Table) and p.caption == "Rows")
    assert len(table.rows) == 12


def test_a_generic_table_sorts_numbers_and_shortens_what_is_long():
    rows = [{"v": 1, "w": list(range(99)), "c": None}, {"v": 735_590, "w": [1], "c": 2.5}]
    with Store(":memory:") as store:
        for seed, row in enumerate(rows):
            store.finish(Task("d", "m", seed, study="mine"), row, seconds=0.0)
        table = next(
            p for s in study_sections(store, "mine") for p in s.walk() if getattr(p, "caption", "") == "Rows"
        )
    numeric = {column.title: column.numeric for column in table.columns}
    assert (numeric["v"], numeric["c"], numeric["w"]) == (True, True, False)
    names = list(numeric)
    assert [row[names.index("w")].text for row in table.rows] == ["99 values", "[1]"]
    assert table.columns[names.index("v")].show(735_590) == "735,590"


@pytest.mark.parametrize(
    ("study", "column", "entry", "value"),
    [
        ("qap", "result", "best", "[1]"),
        ("qap", "result", "status", "7"),
        ("alignment", "settings", "lam", "[null]"),
    ],
)
def test_rows_that_cannot_be_drawn_are_shown_as_they_are(path, tmp_path, study, column, entry, value):
    target = tmp_path / "odd.db"
    with Store(path, readonly=True) as store, sqlite3.connect(target) as copy:
        store._db.backup(copy)
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as db:
        change = f"json_set({column}, '$.{entry}', json('{value}'))"
        db.execute(f"UPDATE rows SET {column} = {change} WHERE study = '{study}'")
    copy.close()
    result = CliRunner().invoke(app, ["report", str(target), "-o", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.exception
    assert (tmp_path / "page.html").stat().st_size > 0


def test_a_long_study_is_cut_and_says_so():
    with Store(":memory:") as store:
        for seed in range(SHOWN + 1):
            store.finish(Task("d", "m", seed, study="long"), {"v": seed}, seconds=0.0)
        table = next(
            p for s in study_sections(store, "long") for p in s.walk() if getattr(p, "caption", "") == "Rows"
        )
    assert len(table.rows) == SHOWN
    assert f"{SHOWN:,} of {SHOWN + 1:,}" in table.note


def test_rows_that_a_study_cannot_read_are_shown_as_they_are():
    with Store(":memory:") as store:
        store.finish(Task("nug12", "fw", 0, {"protocol": "published"}, study="qap"), {"odd": 1}, seconds=1.0)
        sections = study_sections(store, "qap")
    words = [part.text for part in sections[0].parts if hasattr(part, "text")]
    assert "could not be made of these rows (KeyError: 'n')" in words[0]
    assert "odd" in [
        c.title for p in sections[0].walk() if isinstance(p, Table) for c in p.columns if c != "method"
    ]


@pytest.mark.parametrize("name", ["os", "../qap", "qap.x", "store", "page", "", "sys;import os", "ｑap"])
def test_only_modules_with_sections_of_this_package_are_asked(name):
    assert contribution(name) is None


def test_a_study_in_two_stores_is_named_after_them(path, tmp_path):
    with Store(tmp_path / "more.db") as more:
        import numpy as np

        fill_inner(more, np.random.default_rng(1))
    with Store(path, readonly=True) as one, Store(tmp_path / "more.db", readonly=True) as two:
        titles = [s.title for _, study, made in collect([one, two]) for s in made if study == "inner"]
    assert titles == ["Inner solvers and splits (all.db)", "Inner solvers and splits (more.db)"]


def test_the_command_writes_the_page_and_says_what_is_in_it(path, tmp_path):
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(path), "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["output"], found["bytes"]) == (str(out), out.stat().st_size)
    assert {entry["study"]: entry["rows"] for entry in found["studies"]}["qap"] == 147
    assert next(e for e in found["studies"] if e["study"] == "qap")["failures"] == 1
    text = out.read_text()
    assert text.count("<h2") == 4
    assert str(tmp_path) not in text


def test_the_command_without_json_says_where_the_page_is(path, tmp_path):
    done = CliRunner().invoke(app, ["report", str(path), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0
    assert "page.html: 4 studies" in done.stdout


def test_a_store_without_rows_and_a_missing_store_are_errors_of_one_line(tmp_path):
    with Store(tmp_path / "empty.db"):
        pass
    for name, words in (("empty.db", "there is no row in"), ("none.db", "there is no store at")):
        done = CliRunner().invoke(app, ["report", str(tmp_path / name), "-o", str(tmp_path / "p.html")])
        assert done.exit_code == 1
        assert words in done.stderr
        assert not (tmp_path / "p.html").exists()


def test_counts_and_failures_of_an_older_version_of_a_study_are_not_on_the_page(tmp_path):
    with Store(tmp_path / "s.db") as store:
        store.finish(Task("a", "m", 9, study="own", version=1), {}, seconds=7.0, versions={"numpy": "1.0"})
        for seed in (0, 1):
            store.fail(Task("a", "m", seed, study="own", version=1), "ValueError: old bug")
            store.finish(
                Task("a", "m", seed, study="own", version=2), {}, seconds=1.0, versions={"numpy": "2.0"}
            )
        collected = collect([store])
        (_, _, sections) = collected[0]
        (_, finished, time, _) = key_figures(collected)
    assert (finished.value, finished.note) == ("2", "0 failed")
    assert time.value == "2.0 s"
    parts = [part for section in sections for part in section.walk()]
    tables = {part.caption: part.rows for part in parts if isinstance(part, Table)}
    assert tables["Rows in the store"] == [["m", 2, 0, 2.0]]
    assert "What failed" not in tables
    assert [part.items for part in parts if isinstance(part, Bullets)] == [["Software: numpy 2.0."]]


def test_rows_of_unknown_software_and_text_that_is_not_unicode_are_shown(tmp_path):
    with Store(tmp_path / "s.db") as store:
        store.finish(Task("a", "m", 0, study="own"), {"f": "caf\udce9.txt"}, seconds=1.0, versions={})
    answer = CliRunner().invoke(app, ["report", str(tmp_path / "s.db"), "-o", str(tmp_path / "p.html")])
    assert answer.exit_code == 0, answer.output
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert r"caf\udce9.txt" in page
    assert "Software: not known." in page


def test_a_folder_in_place_of_the_page_is_said_to_be_one(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for target in (".", str(tmp_path)):
        answer = CliRunner().invoke(app, ["report", str(path), "-o", target])
        assert answer.exit_code == 1
        assert answer.stderr.startswith(
            f"dcfw-studies: the page {target} could not be written (it is a folder)"
        )
        assert len(answer.stderr.splitlines()) == 1


def test_the_same_store_gives_the_same_page(path, tmp_path):
    pages = []
    for name in ("a.html", "b.html"):
        CliRunner().invoke(app, ["report", str(path), "-o", str(tmp_path / name)])
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]


def test_sections_count_what_is_below_them():
    below = Section("b", [Table("t", ["a"], [])])
    assert Section("a", [Table("t", ["a"], [])], [below]).count(Table) == 2
