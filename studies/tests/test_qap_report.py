"""The QAPLIB report says what the rows say: hand-computed tables, partial data, and files on the disk."""

import csv
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from dcfw_studies import qap_tables as tables
from dcfw_studies.commands import app
from dcfw_studies.qap import import_rows
from dcfw_studies.qap_report import order, section
from dcfw_studies.qap_summary import cost_rows, expected_instances, summarise
from dcfw_studies.qap_tables import Block, Runs
from dcfw_studies.report import markdown, write_report
from dcfw_studies.statistics import Score
from dcfw_studies.store import Store, csv_text
from dcfw_studies.study import Task

BEST = {"nug12": 100, "had14": 200, "esc16a": 50, "tai60a": 1000}
SIZES = {"nug12": 12, "had14": 14, "esc16a": 16, "tai60a": 60}

# Values of three seeds.  nug12 and had14 have one value for all seeds; esc16a is where seeds differ.
VALUES = {
    "fw": {"nug12": (110, 110, 110), "had14": (210, 210, 210), "esc16a": (50, 54, 52), "tai60a": (1010,)},
    "dcfw-1": {"nug12": (105, 105, 105), "had14": (210, 210, 210), "esc16a": (52, 52, 50), "tai60a": (1000,)},
    "cgs": {"nug12": (120,), "had14": (205,)},
}


def rows(values=VALUES, protocol="published"):
    found = []
    for method, instances in values.items():
        for name, per_seed in instances.items():
            for seed, value in enumerate(per_seed):
                solves = {"fw": 10, "dcfw-1": 100, "cgs": 1000}[method] * (seed + 1) * SIZES[name]
                found.append(
                    {
                        **{"protocol": protocol, "method": method, "dataset": name, "seed": seed},
                        **{"n": SIZES[name], "value": value, "best": BEST[name], "gap": 1e-3},
                        "error_published": (value - BEST[name]) / 1000,
                        "error_relative": (value - BEST[name]) / BEST[name],
                        **{"status": "MAXITER" if method == "cgs" else "CONVERGED", "seconds": solves / 1000},
                        **{"nit": 1, "n_inner": solves, "n_lmo": solves, "started": f"2020-01-0{1 + seed}"},
                    }
                )
    return found


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "rows.db"
    with Store(path) as opened:
        for row in rows():
            keep = {
                k: v for k, v in row.items() if k not in ("protocol", "method", "dataset", "seed", "started")
            }
            task = Task(row["dataset"], row["method"], row["seed"], {"protocol": "published"}, "qap")
            opened.finish(task, keep, seconds=1.0)
        broken = Task("tai60a", "cgs", 0, {"protocol": "published"}, "qap")
        opened.fail(broken, "MemoryError: too large")
    return path


def readme(runs, sizes):
    return markdown(section(runs, summarise(runs, sizes)))


def text(**changes):
    return readme(Runs(rows(**changes)), SIZES)


# ------------------------------------------------------------------------------------------ tables


def score(found):
    return Score(*(found[name] for name in Score._fields))


def test_a_single_run_counts_exact_wins_losses_and_ties():
    found = tables.single_run(Runs(rows()))
    # better on nug12 and tai60a, worse on esc16a (52 against 50), equal on had14
    assert score(found) == Score(2, 1, 1)
    assert found["instances"] == 4
    assert found["errors"]["dcfw-1"] == pytest.approx((5 + 10 + 2 + 0) / 4000)
    assert found["errors"]["fw"] == pytest.approx((10 + 10 + 0 + 10) / 4000)
    assert found["relative_errors"]["fw"] == pytest.approx((0.1 + 0.05 + 0.0 + 0.01) / 4)
    assert found["sign_test_p"] == pytest.approx(1.0)  # 2 of 3: as even as three coins can fall


def test_a_size_limit_leaves_the_large_instances_out():
    found = tables.single_run(Runs(rows()), max_n=50)
    assert score(found) == Score(1, 1, 1)
    assert found["instances"] == 3


def test_values_that_differ_by_one_in_a_billion_are_not_equal():
    close = {"fw": {"nug12": (1_185_996_138,)}, "dcfw-1": {"nug12": (1_185_996_137,)}}
    assert score(tables.single_run(Runs(rows(close)))) == Score(1, 0, 0)
    assert tables.heat_map(Runs(rows(close)))["dcfw-1", "fw"].wins.mean == 1.0


def test_methods_without_a_common_instance_are_not_compared():
    apart = Runs(rows({"fw": {"nug12": (1,)}, "dcfw-1": {"had14": (1,)}}))
    assert tables.single_run(apart) is None
    assert tables.heat_map(apart) == {}
    assert tables.against_fw(apart) == {}


def test_the_heat_map_takes_the_mean_over_seeds_with_student_intervals():
    cells = tables.heat_map(Runs(rows()))
    cell = cells["dcfw-1", "fw"]
    # The largest block is three instances x three seeds (9 rows), not four x one.
    assert cell.block == Block(("nug12", "had14", "esc16a"), (0, 1, 2))
    # wins per seed: nug12 always, esc16a on seeds 1 and 2 -> 1, 2, 2
    assert cell.wins.mean == pytest.approx(5 / 3)
    # t quantile 0.95 with 2 degrees of freedom is 2.919986; the deviation of 1, 2, 2 is sqrt(1/3)
    half = 2.919986 * np.sqrt(1 / 3) / np.sqrt(3)
    assert (cell.wins.low, cell.wins.high) == pytest.approx((5 / 3 - half, 5 / 3 + half), abs=1e-5)
    assert cells["fw", "dcfw-1"].wins.mean == pytest.approx(1 / 3)


def test_a_pair_is_counted_on_what_both_have():
    cells = tables.heat_map(Runs(rows()))
    assert cells["cgs", "fw"].block == Block(("nug12", "had14"), (0,))
    assert (cells["cgs", "fw"].wins.mean, cells["fw", "cgs"].wins.mean) == (1.0, 1.0)
    assert cells["cgs", "fw"].wins.low == -np.inf  # one seed says nothing about the spread
    assert ("dcfw-2", "fw") not in cells


def test_a_block_has_only_runs_that_exist():
    rng = np.random.default_rng(0)
    for _ in range(30):
        found = Runs([row for row in rows() if rng.random() < 0.6])
        for methods in (["fw"], ["fw", "dcfw-1"], ["fw", "dcfw-1", "cgs"]):
            block = found.block(methods)
            assert all(
                (m, i, s) in found.table for m in methods for i in block.instances for s in block.seeds
            )


def test_every_method_is_compared_with_fw_on_the_same_runs():
    found = tables.against_fw(Runs(rows()))
    assert set(found) == {"dcfw-1", "cgs"}
    entry = found["dcfw-1"]
    assert (entry["wins"]["mean"], entry["losses"]["mean"]) == pytest.approx((5 / 3, 1 / 3))
    assert entry["ties"] == pytest.approx(1.0)  # had14 on every seed
    assert entry["error"]["mean"] == pytest.approx((3 * 5 + 3 * 10 + 2 + 2 + 0) / 9000)
    assert entry["fw_error"]["mean"] == pytest.approx((3 * 10 + 3 * 10 + 0 + 4 + 2) / 9000)
    assert found["cgs"]["fw_error"]["mean"] == pytest.approx((10 + 10) / 2000)


def test_costs_are_totals_and_medians_on_common_instances():
    found = tables.costs(Runs(rows()))
    # cgs has two of three instances, more than half: all are compared on these two.
    assert found.block == Block(("nug12", "had14"), (0,))
    assert found.table["fw"]["lap_total"] == 10 * (12 + 14)
    assert found.table["cgs"]["lap_median"] == 1000 * 13
    assert found.table["dcfw-1"]["seconds_total"] == pytest.approx(0.1 * (12 + 14))
    assert found.table["cgs"]["error_mean"] == pytest.approx((20 + 5) / 2000)
    assert (found.table["cgs"]["converged"], found.table["fw"]["converged"]) == (0, 2)
    assert found.set_aside == {}


def test_a_method_that_has_just_begun_does_not_empty_the_table_of_costs():
    begun = {**VALUES, "cgs": {"nug12": (120,)}}
    found = tables.costs(Runs(rows(begun)))
    assert len(found.block.instances) == 3
    assert found.set_aside == {"cgs": 1}
    assert "Set aside for having too few rows: CGS (instances: 1)" in text(values=begun)


def test_protocols_are_never_mixed():
    both = rows() + [{**row, "value": 1} for row in rows(protocol="text")]
    assert score(tables.single_run(Runs(both))) == Score(2, 1, 1)
    assert score(tables.single_run(Runs(both, "text"))) == Score(0, 0, 4)
    assert Runs(both, "text").error == "error_relative"
    with pytest.raises(ValueError, match="protocol must be one of published, text"):
        Runs(both, "paper")


def test_the_published_heat_map_is_that_of_the_paper():
    found = tables.PUBLISHED_HEAT_MAP
    assert len(found) == 20
    for wins in found.values():
        # Student's intervals are symmetric, which a slip in copying a number would break.
        assert (wins.low + wins.high) / 2 == pytest.approx(wins.mean, abs=0.0051)
    assert found["dcfw-1", "cgs"] == (68.7, 66.17, 71.23)
    assert found["cgs", "dcfw-1"] == (46.4, 43.76, 49.04)
    for (a, b), wins in found.items():
        assert wins.mean + found[b, a].mean <= tables.PUBLISHED_INSTANCES
    assert sum(tables.PUBLISHED_SCORE) == tables.PUBLISHED_INSTANCES


def test_the_study_has_the_papers_instances_without_any_data():
    found = expected_instances()
    assert len(found) == 134
    assert sum(n <= 50 for n in found.values()) == 102
    assert found["tai256c"] == 256


# ------------------------------------------------------------------------------------------- words


def test_coverage_names_what_is_missing():
    found = {(c["method"], *c["seeds"]): c for c in tables.coverage(Runs(rows()), SIZES)}
    assert found["fw", 0]["missing"] == []
    assert found["fw", 1, 2]["missing"] == ["tai60a"]
    assert found["cgs", 0]["missing"] == ["esc16a", "tai60a"]


def test_the_commands_compute_all_rows_that_are_there():
    commands = tables.run_commands(Runs(rows()), SIZES)
    prefix = "dcfw-studies reproduce qap --store STORE --set"
    assert commands == [
        f"{prefix} methods=fw,dcfw-1 --set seeds=1 --set protocol=published",
        f"{prefix} methods=fw,dcfw-1 --set seeds=3 --set protocol=published --set max_n=16",
        f"{prefix} methods=cgs --set seeds=1 --set protocol=published --set max_n=14",
    ]


def test_the_readme_has_the_command_the_protocol_and_the_honest_statement():
    found = text()
    assert "dcfw-studies report STORE --study qap -o FOLDER --set protocol=published" in found
    assert "Protocol **published**" in found
    assert "the study is **not complete**" in found
    assert "No result is extrapolated" in found
    # 4 + 3 + 3 rows of fw and dcfw-1, two of cgs, of 5 methods x 4 instances x 10 seeds
    assert "22 of these 200 rows" in found
    assert "Runs that a cap ended: CGS 2." in found


def test_the_readme_shows_our_numbers_beside_the_published_ones():
    found = text()
    assert "| ours, all sizes | 4 | 2 (50%) | 1 (25%) | 1 (25%) | 1 | 0.0043 | 0.0075 |" in found
    assert "| published | 134 | 73 (54%) | 43 (32%) | 18 (13%) |  | 0.0085 | 0.0112 |" in found
    assert "| ours, n <= 50 | 3 | 1 (33%) | 1 (33%) | 1 (33%) | 1 | 0.0057 | 0.0067 |" in found
    line = "| DC-FW (var 1) < FW | 3 x 3 | 1.67 [0.69, 2.64] | 55.6% | 73.40 [70.80, 76.00] | 54.8% |"
    assert line in found


def test_the_readme_says_when_the_claim_does_not_hold():
    assert "better more often than FW holds, and the claim of a lower mean error holds" in text()
    swapped = {"fw": VALUES["dcfw-1"], "dcfw-1": VALUES["fw"]}
    worse = text(values=swapped)
    assert (
        "better more often than FW does not hold, and the claim of a lower mean error does not hold" in worse
    )


def test_a_complete_study_says_so():
    full = {m: {"nug12": (110,) * 10} for m in ("fw", "dcfw-1", "cgs")}
    more = [{**row, "method": m} for m in ("dcfw-2", "dcfw-3") for row in rows(full) if row["method"] == "fw"]
    found = readme(Runs(rows(full) + more), {"nug12": 12})
    assert "It is complete here." in found
    assert "not complete" not in found
    assert "Missing rows" not in found


def test_one_method_alone_still_gives_a_report():
    found = text(values={"fw": VALUES["fw"]})
    assert "No instance has a row of both methods" in found
    assert "No two methods have a row in common." in found


# ------------------------------------------------------------------------------------------- files


def command(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_writes_the_whole_folder(store, tmp_path):
    out = tmp_path / "results" / "qap"
    printed = command("report", store, "--study", "qap", "-o", out, "--set", "protocol=published")
    figures = [f"{name}.{kind}" for name in ("errors", "heat_map", "costs") for kind in ("png", "svg")]
    files = ["README.md", "costs.csv", "missing.csv", "rows.csv", "summary.json", *figures]
    assert sorted(path.name for path in out.iterdir()) == sorted(files)
    assert sorted(printed.split()) == sorted(str(out / name) for name in files)
    for name in figures:
        start = (out / name).read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if name.endswith("png") else start.startswith(b"<?xml")
    with (out / "rows.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 22
    found = (out / "README.md").read_text()
    assert all(f"({name}.png)" in found for name in ("errors", "heat_map", "costs"))
    assert "| tai60a | cgs | 0 | MemoryError: too large |" in found
    assert str(tmp_path) not in found


def test_the_summary_is_strict_json_with_what_was_run(store, tmp_path):
    write_report("qap", store, tmp_path / "out", figures=False, expected=SIZES)

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    found = json.loads((tmp_path / "out" / "summary.json").read_text(), parse_constant=refuse)
    assert found["run"]["rows"] == 22
    assert found["run"]["statuses"]["cgs"] == {"MAXITER": 2}
    assert found["run"]["seconds_total"] == pytest.approx(sum(row["seconds"] for row in rows()))
    assert "numpy" in found["run"]["versions"][0]
    assert (found["single_run"]["all"]["wins"], found["single_run"]["published"]["wins"]) == (2, 73)
    cell = next(c for c in found["heat_map"] if (c["row"], c["column"]) == ("cgs", "fw"))
    assert (cell["ours"]["mean"], cell["ours"]["low"], cell["ours"]["instances"]) == (1.0, None, 2)
    assert cell["published"]["fraction"] == pytest.approx(59.2 / 134)
    assert found["heat_map_common"]["instances"] == 2


def test_the_report_names_the_pairs_that_go_the_other_way_than_in_the_paper():
    def cell(a, b, ours, published, instances=134):
        found = {"fraction": ours, "instances": instances, "seeds": list(range(10))}
        return {"row": a, "column": b, "ours": found, "published": {"fraction": published}}

    same = [cell("fw", "cgs", 0.2, 0.3), cell("cgs", "fw", 0.4, 0.5), cell("fw", "dcfw-1", 0.1, 0.2)]
    assert order(same).startswith("In every pair")
    turned = order([cell("fw", "cgs", 0.2, 0.5), cell("cgs", "fw", 0.4, 0.3)])
    assert "CGS over FW (40.0% to 20.0%; published 30.0% to 50.0%)" in turned
    assert "FW over CGS" not in turned
    assert "cannot turn them" in turned
    # A lead of 200 runs, with 340 missing.
    few = order([cell("fw", "cgs", 0.2, 0.5, 100), cell("cgs", "fw", 0.4, 0.3, 100)])
    assert "could still turn CGS over FW." in few


def test_methods_are_compared_by_the_size_of_the_instances():
    some = next(iter(rows()))
    values = {("small", "dcfw-1"): 5, ("small", "cgs"): 7, ("large", "dcfw-1"): 9, ("large", "cgs"): 8}
    runs = Runs(
        [
            {**some, "dataset": name, "n": n, "method": method, "seed": 0, "value": values[name, method]}
            | {"status": "MAXITER" if (name, method) == ("large", "cgs") else "CONVERGED"}
            for name, n in (("small", 20), ("large", 21))
            for method in ("dcfw-1", "cgs")
        ]
    )
    small, large = tables.by_size(runs)
    assert small["scores"] == {"cgs": {"wins": 1, "losses": 0, "ties": 0}}
    assert large["scores"] == {"cgs": {"wins": 0, "losses": 1, "ties": 0}}
    assert (small["up_to"], large["above"], large["capped"]) == (20, 20, {"dcfw-1": 0.0, "cgs": 1.0})


def test_the_same_rows_give_the_same_files(store, tmp_path):
    first, second = (write_report("qap", store, tmp_path / name) for name in ("one", "two"))
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name


def test_costs_csv_leaves_a_gap_where_a_run_is_missing():
    found = {line["dataset"]: line for line in cost_rows(Runs(rows()))}
    assert list(found) == ["nug12", "had14", "esc16a"]
    assert found["nug12"]["lap_solves cgs"] == 12000
    assert found["esc16a"]["lap_solves cgs"] == ""


def test_a_study_goes_on_from_the_rows_of_its_report(store, tmp_path):
    write_report("qap", store, tmp_path / "out", figures=False, expected=SIZES)
    command("study", "import", tmp_path / "again.db", "qap", tmp_path / "out" / "rows.csv")
    with Store(store, readonly=True) as before, Store(tmp_path / "again.db") as after:
        assert after.rows("qap") == before.rows("qap")
    # Rows from before there was a column for the protocol.
    lines = list(csv.DictReader((tmp_path / "out" / "rows.csv").read_text().splitlines()))
    with open(tmp_path / "old.csv", "w", newline="") as file:
        names = [name for name in lines[0] if name not in ("protocol", "started")]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    command("study", "import", tmp_path / "again.db", "qap", tmp_path / "old.csv")
    with Store(tmp_path / "again.db") as after:
        assert len(after.rows("qap")) == len(lines)


def test_imported_rows_keep_the_software_that_computed_them(store, tmp_path):
    task = Task("nug12", "fw", 77, {"protocol": "published"}, "qap")
    result = {
        k: v for k, v in rows()[0].items() if k not in ("protocol", "method", "dataset", "seed", "started")
    }
    with Store(store) as opened:
        opened.finish(task, result, seconds=1.0, versions={"numpy": "0.1"})
        before = opened.versions("qap")
    write_report("qap", store, tmp_path / "out", figures=False, expected=SIZES)
    with Store(store, readonly=True) as opened:
        opened.export_csv(tmp_path / "export.csv", "qap", versions=True)
    for file in (tmp_path / "out" / "rows.csv", tmp_path / "export.csv"):
        with Store(":memory:") as after:
            import_rows(after, str(file))
            assert after.versions("qap") == before
            assert after.rows(versions=True)[0]["versions"] != {}


def test_rows_of_a_file_without_software_versions_have_none(store, tmp_path):
    write_report("qap", store, tmp_path / "out", figures=False, expected=SIZES)
    lines = list(csv.DictReader((tmp_path / "out" / "rows.csv").read_text().splitlines()))
    for line in lines:
        del line["versions"]
    (tmp_path / "old.csv").write_text(csv_text(lines))
    command("study", "import", tmp_path / "old.db", "qap", tmp_path / "old.csv")
    with Store(tmp_path / "old.db") as opened:
        assert opened.versions("qap") == [{}]
    write_report("qap", tmp_path / "old.db", tmp_path / "old", figures=False, expected=SIZES)
    assert "- Software: not known.\n" in (tmp_path / "old" / "README.md").read_text()


def test_a_protocol_without_rows_is_an_error_that_names_the_others(store, tmp_path):
    with pytest.raises(ValueError, match=re.escape("no row of protocol 'text'; protocols there: published")):
        write_report("qap", store, tmp_path / "out", protocol="text")
    assert not (tmp_path / "out").exists()


def test_the_heat_map_figure_has_both_numbers_and_the_gaps():
    from dcfw_studies.drawing import _draw_heat, drawing

    (figure,) = [
        part
        for below in section(Runs(rows()), summarise(Runs(rows()), SIZES)).sections
        for part in below.parts
        if getattr(part, "file", "") == "heat_map"
    ]
    shown = []
    with drawing() as figure_class:
        for axes, table in zip(figure_class().subplots(1, 2), figure.parts, strict=True):
            _draw_heat(axes, table)
            shown.append([label.get_text() for label in axes.texts])
    ours, published = shown
    assert {"56%", "50%"} <= set(ours)  # DC-FW (var 1) over FW on 3 x 3 runs, CGS and FW on one each
    assert {"55%", "33%"} <= set(published)
    assert len(ours) == 9  # FW, DC-FW (var 1) and CGS; a dash on the diagonal
    assert ours.count("–") == 3


def test_missing_rows_have_the_cost_of_the_same_instance_or_a_scaled_one():
    runs = Runs([{**row, "n": 40} for row in rows()])
    sizes = dict.fromkeys(SIZES, 40)
    found = {(e["dataset"], e["method"]): e for e in tables.missing(runs, sizes)}
    assert found["nug12", "fw"]["seeds"] == "3 4 5 6 7 8 9"
    fw = [r["seconds"] for r in rows() if (r["dataset"], r["method"]) == ("nug12", "fw")]
    assert found["nug12", "fw"]["seconds_each"] == pytest.approx(np.mean(fw))
    cgs = found["esc16a", "cgs"]
    assert (cgs["runs"], cgs["measured"]) == (10, False)
    means = {
        (m, i): np.mean([r["seconds"] for r in rows() if (r["method"], r["dataset"]) == (m, i)])
        for m, i in [("cgs", "nug12"), ("cgs", "had14"), *(("dcfw-1", i) for i in SIZES)]
    }
    ratios = [means["cgs", i] / means["dcfw-1", i] for i in ("nug12", "had14")]
    assert cgs["seconds_each"] == pytest.approx(means["dcfw-1", "esc16a"] * np.sqrt(np.prod(ratios)))
    assert sum(e["runs"] for e in found.values()) == 5 * 4 * 10 - 22


def test_the_cost_of_a_missing_row_is_scaled_as_on_similar_instances():
    seconds = {"esc32a": 50.0, "nug30": 2.0, "tai40a": 3.0, "tai64c": 7.0}  # of CGS; variant 1 takes 1
    names = [*seconds, "esc128", "tai256c", "wil100"]
    lines = [("dcfw-1", name, 1.0) for name in names] + [("cgs", *item) for item in seconds.items()]
    some = next(iter(rows()))
    runs = Runs([{**some, "method": m, "dataset": name, "n": 40, "seconds": s} for m, name, s in lines])
    costs = {
        e["dataset"]: e["seconds_each"]
        for e in tables.missing(runs, dict.fromkeys(names, 40))
        if e["method"] == "cgs"
    }
    assert costs["esc128"] == pytest.approx(50.0)
    assert costs["tai256c"] == pytest.approx(7.0)
    assert costs["wil100"] == pytest.approx(np.prod(list(seconds.values())) ** 0.25)
