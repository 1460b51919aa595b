"""Reports and pages of incomplete studies: existing rows are shown, missing ones are named."""

import csv
import json

import numpy as np
import pytest
from page_cases import curve

from dcfw.cli.page.parts import Cards, Chart, Section, Series, Table, Text
from dcfw.cli.page.render import Renderer, alternative
from dcfw_studies import (
    alignment_report,
    alignment_tables,
    drawing,
    gaps,
    gaps_report,
    inner_report,
    networks_report,
    networks_tables,
    qap_report,
    qap_summary,
)
from dcfw_studies.networks import import_rows as import_networks
from dcfw_studies.pages import generic
from dcfw_studies.qap_tables import Runs
from dcfw_studies.report import markdown, write_report
from dcfw_studies.runner import run
from dcfw_studies.store import Store, csv_text
from dcfw_studies.study import Study, Task


@pytest.fixture(autouse=True)
def only_names(monkeypatch):
    """Draw figures without writing them: only their names are tested here."""

    def save(figure, folder, name):
        return [f"{name}.png", f"{name}.svg"]

    monkeypatch.setattr(drawing, "save", save)


def parts_of(sections, kind):
    return [part for section in sections for part in section.walk() if isinstance(part, kind)]


def titles(section):
    return [below.title for below in section.sections if below.title != "What is missing"]


# -- empty stores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [alignment_report, gaps_report, inner_report, networks_report, qap_report])
def test_a_study_without_rows_has_no_section(page):
    with Store(":memory:") as store:
        assert page.sections(store) == []


@pytest.mark.parametrize("study", ["alignment", "inner", "networks"])
def test_a_report_of_a_store_without_rows_is_refused_and_writes_nothing(tmp_path, study):
    with Store(tmp_path / "s.db"):
        pass
    with pytest.raises(ValueError, match=f"no row of the study '{study}': run it first"):
        write_report(study, tmp_path / "s.db", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_study_without_rows_has_only_its_count():
    with Store(":memory:") as store:
        section = generic(store, "own")
    assert section.count(Table) == 0
    assert next(part.text for part in section.parts if isinstance(part, Text)).startswith("0 rows")


def test_a_value_that_some_rows_lack_is_an_empty_cell():
    with Store(":memory:") as store:
        store.finish(Task("a", "m", 0, study="own"), {"note": "said"}, seconds=1.0)
        store.finish(Task("a", "m", 1, study="own"), {"note": None}, seconds=1.0)
        (table,) = [t for t in parts_of([generic(store, "own")], Table) if t.caption == "Rows"]
    place = [getattr(column, "title", column) for column in table.columns].index("note")
    assert [getattr(row[place], "text", row[place]) for row in table.rows] == ["said", None]


def test_a_part_of_an_unknown_kind_is_refused():
    with pytest.raises(TypeError, match="a section cannot hold a str"):
        Renderer().section(Section("Numbers", ["text that is no Text"]), "s-1")


def test_one_measure_alone_gives_its_tables_and_no_finding(tmp_path):
    whole = gaps.study(step=0.1)
    with Store(tmp_path / "s.db") as store:
        run(Study("gaps", gaps.row, tasks=[t for t in whole.tasks if t.method == "pgm"]), store)
        assert gaps_report.findings(gaps_report.select(store.rows("gaps"))) == []
    write_report("gaps", tmp_path / "s.db", tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "gap_PGM" in text
    assert "As the paper says" not in text


def test_a_series_of_gaps_alone_is_said_to_have_no_points():
    chart = Chart("Gap", "steps", "FW gap", [Series("FW", [1, 2], [float("nan"), float("inf")])])
    assert alternative(chart).endswith("FW: no points.")


# -- networks -------------------------------------------------------------------------------------------


def network_row(method="dcfw", c=10.0, seed=0, part="digits", loss=1.0, steps=(3.0, 2.0), **settings):
    dataset = "digits" if part == "digits" else "cifar10"
    task = Task(dataset, method, seed, {"part": part, "epochs": 2, "c": c, **settings}, study="networks")
    inner = list(steps) if method.startswith("dcfw") else [None, None]
    curves = {name: [2 * loss, loss] for name in ("train_loss", "test_loss")}
    curves |= {name: [0.5, 0.75] for name in ("train_accuracy", "test_accuracy")} | {"inner_steps": inner}
    result = {name: values[-1] for name, values in curves.items()}
    return task, {**result, "at_bound": 0.25, "largest": 1.0, "curves": curves}


@pytest.fixture
def networks(tmp_path):
    """Makes a store of the given rows; returns its report, its page and its rows."""

    def make(*rows):
        path = tmp_path / "networks.db"
        with Store(path) as store:
            for task, result in rows:
                store.finish(task, result, seconds=60.0)
        files = [f.name for f in write_report("networks", path, tmp_path / "out")]
        with Store(path, readonly=True) as store:
            return (
                files,
                (tmp_path / "out" / "README.md").read_text(),
                networks_report.sections(store)[0],
                store.rows(),
            )

    return make


RADII = (1.0, 10.0, 100.0)


def test_a_method_with_one_radius_is_shown_and_not_judged(networks):
    files, text, section, rows = networks(network_row(c=10.0), network_row("fw", c=10.0))
    assert networks_tables.growth(rows) == []
    assert "is multiplied by" not in text
    assert "| DC-FW | 10 | 10 | 1 | 1 |" in text
    assert "epochs-digits.png" in files
    assert section.summary == "Neither DC-FW nor FW has been run with c = 1, 10 and 100 yet."
    (found,) = [t for t in parts_of([section], Table) if t.caption == "Last epoch"]
    assert len(found.rows) == 2


def test_radii_without_a_common_seed_are_not_compared(networks):
    rows = networks(*(network_row(c=c, seed=seed) for seed, c in enumerate(RADII)))[3]
    assert networks_tables.growth(rows) == []


def test_runs_that_differ_in_precision_alone_are_shown_in_pairs(networks):
    half = {"part": "cnn", "precision": "bfloat16"}
    _, text, _, rows = networks(
        network_row(part="cnn", loss=1.0),
        network_row(loss=2.0, **half),
        network_row("fw", loss=3.0, **half),
        network_row(seed=1, loss=4.0, **half, images=5),
    )
    ((one, other),) = networks_tables.precisions(rows)
    assert (one["train_loss"], other["train_loss"]) == (1.0, 2.0)
    assert "| CNN, CIFAR-10 | DC-FW | 10 | 0 | 1 | 2 | 75.0% | 75.0% |" in text


def test_a_loss_that_falls_with_the_radius_is_called_better(networks):
    losses = dict(zip(RADII, (1.0, 0.5, 0.25), strict=True))
    _, text, section, rows = networks(
        *(network_row(m, c, loss=losses[c]) for m in ("dcfw", "dcfw-exact") for c in RADII)
    )
    (line,) = networks_tables.verdicts(networks_tables.growth(rows))  # none about the closed form
    assert line in text
    assert (
        "DC-FW becomes better as c grows: from c = 1 to c = 100 the training loss is multiplied by 0.25"
        in line
    )
    assert section.summary == "From c = 1 to c = 100 the training loss is multiplied by 0.25 (DC-FW, digits)."


@pytest.mark.parametrize(
    ("loss", "accuracy", "what", "words"),
    [
        (2.0, 0.762, "trains worse as c grows", "2 but the test accuracy rises by 1.2 points."),
        (2.0, 0.55, "becomes worse as c grows", "2 and the test accuracy falls by 20.0 points."),
        (0.5, 0.70, "trains better as c grows", "0.5 but the test accuracy falls by 5.0 points."),
        (1.0, 0.75, "stays put", "1 and the test accuracy is the same to a tenth of a point."),
        (1.0, 0.55, "keeps its training loss", "1 but the test accuracy falls by 20.0 points."),
    ],
)
def test_the_verdict_follows_the_signs_of_both_changes(networks, loss, accuracy, what, words):
    rows = [network_row("sfw", c) for c in RADII]
    rows[-1] = network_row("sfw", 100.0, loss=loss)
    rows[-1][1]["test_accuracy"] = accuracy
    text = networks(*rows)[1]
    start = f"- CNN, digits: SFW, rescaled {what}: from c = 1 to c = 100 the training loss is multiplied by"
    assert f"{start} {words}" in text


def test_a_change_of_the_loss_within_the_spread_of_the_seeds_is_none(networks):
    losses = {1.0: (1.0, 3.0), 10.0: (1.0, 3.0), 100.0: (1.0, 6.0)}
    text = networks(*(network_row("sfw", c, seed=k, loss=losses[c][k]) for c in RADII for k in (0, 1)))[1]
    assert (
        "stays put: from c = 1 to c = 100 the training loss is multiplied by 1.75 (within the spread" in text
    )


def test_the_report_says_what_is_behind_plus_minus(networks):
    text = networks(*(network_row(seed=seed) for seed in range(2)))[1]
    assert "± is the standard deviation over the seeds, not an interval for the mean" in text


def settings_rows():
    """The same runs with 2 and 3 epochs, and with fewer images, each with its own loss."""
    found = []
    for c in RADII:
        for epochs, images, loss in ((2, None, 1.0), (3, None, 5.0), (2, 10, 9.0)):
            more = {} if images is None else {"images": images}
            task, result = network_row(c=c, loss=loss * (2.0 if c == 100.0 else 1.0), epochs=epochs, **more)
            result["curves"] = {
                name: [*values, values[-1]][:epochs] for name, values in result["curves"].items()
            }
            found.append((task, result))
    return found


def test_runs_of_several_settings_are_reported_apart_and_not_mixed(networks, tmp_path):
    _, text, section, rows = networks(*settings_rows())
    table = networks_tables.summary_table(rows)
    assert {(e["epochs"], e["images"], e["seeds"]) for e in table} == {(2, None, 1), (3, None, 1), (2, 10, 1)}
    assert sorted({e["train_loss"] for e in table if e["c"] == 1.0}) == [1.0, 5.0, 9.0]
    growth = networks_tables.growth(rows)
    assert [e["setting"] for e in growth] == [
        "2 epochs, 10 images",
        "2 epochs, all images",
        "3 epochs, all images",
    ]
    assert [e["loss_ratio"] for e in growth] == [2.0] * 3
    for setting in (e["setting"] for e in growth):
        assert f"## Convolutional network, digits, {setting}" in text
        assert f"- CNN, digits, {setting}: DC-FW becomes worse" in text
        assert f"Convolutional network, digits, {setting}" in titles(section)
    assert text.count("--set parts=digits") == 3
    assert "--set epochs=2 --set images=10\n" in text


def test_curves_of_several_settings_are_read_back_each_to_its_run(networks, tmp_path):
    rows = networks(*settings_rows())[3]
    with Store(tmp_path / "again.db") as store:
        assert import_networks(store, str(tmp_path / "out")) == len(rows)
        assert [r["curves"] for r in store.rows()] == [r["curves"] for r in rows]
        with Store(tmp_path / "networks.db") as before:
            assert store.versions("networks") == before.versions("networks")
            keys = "SELECT key FROM rows ORDER BY key"
            assert store._db.execute(keys).fetchall() == before._db.execute(keys).fetchall()


def without(file, *names):
    """Leave columns out of a CSV file, as older reports did."""
    lines = list(csv.DictReader(file.read_text().splitlines()))
    file.write_text(csv_text([{k: v for k, v in line.items() if k not in names} for line in lines]))


def test_reports_of_before_the_longer_keys_are_read_unless_their_runs_are_mixed(networks, tmp_path):
    rows = networks(*(network_row(c=c) for c in RADII))[3]
    without(tmp_path / "out" / "curves.csv", "epochs", "images", "precision")
    without(tmp_path / "out" / "rows.csv", "versions")
    with Store(":memory:") as store:
        assert import_networks(store, str(tmp_path / "out")) == 3
        assert [r["curves"] for r in store.rows()] == [r["curves"] for r in rows]
        assert store.versions("networks") == [{}]
        assert import_networks(store, str(tmp_path / "out")) == 0
    networks(*settings_rows())
    without(tmp_path / "out" / "curves.csv", "epochs", "images", "precision")
    with Store(":memory:") as store, pytest.raises(ValueError, match=r"curves\.csv, row .*twice"):
        import_networks(store, str(tmp_path / "out"))


def test_software_that_is_not_known_is_said_to_be_so(tmp_path):
    with Store(tmp_path / "s.db") as store:
        task, result = network_row()
        store.finish(task, result, seconds=1.0, versions={})
    write_report("networks", tmp_path / "s.db", tmp_path / "out")
    assert "Software: not known." in (tmp_path / "out" / "README.md").read_text()


def test_a_run_with_more_epochs_than_it_says_is_an_error_that_says_so(tmp_path):
    with Store(tmp_path / "s.db") as store:
        for seed in range(2):
            task, result = network_row(seed=seed)
            if seed:
                result["curves"] = {name: [*values, values[-1]] for name, values in result["curves"].items()}
            store.finish(task, result, seconds=1.0)
    with pytest.raises(ValueError, match="curves of different lengths"):
        write_report("networks", tmp_path / "s.db", tmp_path / "out")


def test_networks_on_the_larger_data_are_not_named_after_the_smaller():
    run = {"part": "cnn", "dataset": "cifar100", "epochs": 2, "precision": "bfloat16"}
    assert list(networks_tables.short_names([run]).values()) == ["CNN, CIFAR-100"]
    (_, line) = networks_tables.commands([run])
    assert line.endswith("--set parts=cnn --set epochs=2 --set dataset=cifar100 --set precision=bfloat16")


def test_unconstrained_methods_alone_have_no_inner_steps(networks):
    files, text, section, _ = networks(network_row("sgd", None), network_row("adamw", None))
    assert not any(name.startswith("inner_steps") for name in files)
    assert "Inner steps" not in text
    assert not [c for c in parts_of([section], Chart) if c.title.startswith("Inner steps")]
    assert len([c for c in parts_of([section], Chart) if c.title.startswith("Training loss")]) == 3


def test_methods_that_the_figures_leave_out_are_in_the_table_only(networks):
    _, text, section, _ = networks(network_row("dcfw-exact", 1.0))
    assert "| DC-FW, closed form | 10 | 1 | 1 |" in text
    assert section.count(Chart) == 0


def test_every_part_has_its_row_of_radii_and_its_panel_of_inner_steps(networks):
    rows = [
        network_row(c=c, part=part, steps=(1.0, 900.0)) for part in ("digits", "head", "cnn") for c in RADII
    ]
    files, text, section, _ = networks(*rows)
    assert {"epochs-head.png", "epochs-cnn.png", "inner_steps.png"} <= set(files)
    assert "(inner_steps.png)" in text
    assert titles(section)[1:-1] == [networks_tables.PART_TITLES[p] for p in ("digits", "head", "cnn")]
    assert "not run" not in text


def test_a_readme_names_only_the_figures_that_were_drawn(tmp_path):
    with Store(tmp_path / "s.db") as store:
        store.finish(*network_row(), seconds=1.0)
    write_report("networks", tmp_path / "s.db", tmp_path / "out", figures=False)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "## Inner steps" in text
    assert ".png" not in text


# -- alignment ------------------------------------------------------------------------------------------


def alignment_row(dataset="planted", method="dcfw", part="long", rate=0.1, points=40, **settings):
    scores = {f"{name} cosine": 0.9 for name in ("map", "vertex", "full")}
    if dataset == "real":
        scores |= {f"{n} {m}": 0.5 for n in ("map", "vertex", "full") for m in ("held cosine", "p@1", "p@5")}
    task = Task(dataset, method, 0, {"rate": rate, "steps": 100, "part": part, **settings}, study="alignment")
    counts = {"nit": 9, "n_lmo": 1000, "n_grad_g": 42, "n_grad_f": 10, "n_fun": 0, "words": 500}
    result = {"gap": 1e-4, "dc_gap_high": 1e-5, "curve": curve(np.random.default_rng(0), points)}
    return task, {**result, **counts, **scores}


@pytest.fixture
def alignment(tmp_path):
    def make(*rows):
        path = tmp_path / "alignment.db"
        with Store(path) as store:
            for task, result in rows:
                store.finish(task, result, seconds=60.0)
        files = [f.name for f in write_report("alignment", path, tmp_path / "out")]
        with Store(path, readonly=True) as store:
            (section,) = alignment_report.sections(store)
        return files, (tmp_path / "out" / "README.md").read_text(), section

    return make


@pytest.mark.parametrize("dataset", ["planted", "real"])
def test_long_runs_on_one_data_set_give_its_part_of_the_report(alignment, tmp_path, dataset):
    other = {"planted": "real", "real": "planted"}[dataset]
    files, text, section = alignment(alignment_row(dataset), alignment_row(dataset, "fw-k"))
    assert [f"gaps_{dataset}.png" in files, f"gaps_{other}.png" in files] == [True, False]
    assert f"Least gap at equal time, {dataset} data" in text
    assert f"{other} data" not in text
    assert "| the first vertex, rounded |" in text
    assert "## How much must be observed" not in text
    assert "## Lambda" not in text
    assert "rates.png" not in files
    assert titles(section) == [f"10,000 steps on the {dataset} data"]
    assert section.summary.startswith(f"On the {dataset} data DC-FW took 42 subgradients")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert set(summary["equal_budgets"]) == {dataset}


def test_the_missing_rows_of_the_whole_study_are_counted(alignment):
    text = alignment(alignment_row(), alignment_row(method="fw-k"))[1]
    assert "| long | planted | fw-m | 1 | 60.0 s |" in text
    assert "| rates | real | dcfw | 15 | not known |" in text


def test_rates_alone_give_a_report_without_curves(alignment):
    files, text, section = alignment(*(alignment_row(part="rates", rate=rate) for rate in (0.1, 0.5)))
    assert "curves.csv" not in files
    assert "rates.png" in files
    assert "10,000 steps on" not in text
    assert "| planted | 50% | DC-FW | 1 |" in text
    assert titles(section) == ["How much must be observed"]
    assert section.summary == "An orthogonal map between two embedding spaces from a few observed entries."
    (cards,) = parts_of([section], Cards)
    assert [card.label for card in cards.cards] == ["runs"]


def test_choices_without_real_pairs_are_not_explained_by_them(alignment):
    files, text, section = alignment(alignment_row("shrunken", "dcfw-exact", "choices", target=2.0))
    assert "| shrunken | unit | 2 | 0.0001 | 100 |" in text
    assert "Why the first vertex beats" not in text
    assert not any(name.endswith(".png") for name in files)
    assert titles(section) == ["Lambda, scaling, stop, and a factor on the target"]


def test_runs_that_share_no_budget_are_not_compared_at_equal_ones(alignment):
    early, late = alignment_row(), alignment_row(method="fw-k")
    late[1]["curve"] = {name: [v + 1e6 for v in values] for name, values in late[1]["curve"].items()}
    assert (
        alignment_tables.equal_budgets([{"method": "a", **early[1]}, {"method": "b", **late[1]}], "time")
        == []
    )
    _, text, section = alignment(early, late)
    assert "Least gap at equal" not in text
    assert not [t for t in parts_of([section], Table) if t.caption.startswith("Least gap at equal")]


# -- inner solvers ---------------------------------------------------------------------------------------


def test_families_without_the_general_splits_give_no_profile_of_splits(tmp_path):
    path = tmp_path / "inner.db"
    with Store(path) as store:
        for place, inner in enumerate(("fw", "blended")):
            counts = {"nit": 5, "n_lmo": 10 + place, "n_grad_f": 10, "n_grad_g": 6, "n_inner": 9}
            counts |= {"value": -1.0, "gap": 1e-6, "first_gap": 1.0, "dc_gap_high": 1e-6, "seconds": 0.1}
            task = Task("recovery", f"{inner}/given", 0, {"rtol": 1e-5, "max_lmo": 9}, study="inner")
            store.finish(task, {"status": "CONVERGED", **counts}, seconds=0.1)
    files = [f.name for f in write_report("inner", path, tmp_path / "out")]
    assert "inner_solvers.png" in files
    assert not any(name.startswith("splits") for name in files)
    assert "splits.png" not in (tmp_path / "out" / "README.md").read_text()
    with Store(path, readonly=True) as store:
        (section,) = inner_report.sections(store)
    assert "Which inner solver" in titles(section)
    assert "Which split" not in titles(section)


# -- QAPLIB ----------------------------------------------------------------------------------------------


def qap_rows(**sizes):
    """Rows of methods (with "_" for "-") on instances of the given sizes."""
    found = []
    for place, (method, instances) in enumerate(sizes.items()):
        for n in instances:
            value = 1000 + 10 * place
            found.append(
                {
                    **{"protocol": "published", "method": method.replace("_", "-"), "dataset": f"tai{n}a"},
                    **{"seed": 0, "n": n, "value": value, "best": 1000, "gap": 1e-3, "nit": 1, "n_inner": 9},
                    **{"error_published": place / 1e3, "error_relative": place / 1e2, "status": "CONVERGED"},
                    **{"n_lmo": 10 * n, "seconds": 0.1, "started": "2020-01-01"},
                }
            )
    return found


ACTIVE = "Active sets: the paper's split with vanilla and with blended steps"
COSTS = "What the splits cost, n <= 50"


def figures(section):
    found = [part for part in section.parts if hasattr(part, "file")]
    return found + [part for below in section.sections for part in figures(below)]


def qap_report_of(rows):
    runs = Runs(rows, "published")
    section = qap_report.section(runs, qap_summary.summarise(runs, {r["dataset"]: r["n"] for r in rows}))
    return section, markdown(section), {part.file for part in figures(section)}


def test_one_method_alone_has_a_page_without_comparisons():
    section, text, drawn = qap_report_of(qap_rows(fw=[12, 20]))
    assert section.summary == "2 runs; DC-FW (var 1) and FW have no instance in common yet."
    words = [part.text for part in parts_of([section], Text)]
    assert "No instance has a row of both methods with seed 0." in words
    assert "No two methods have a row in common." in words
    assert "Every method against FW" not in titles(section)
    assert ACTIVE not in titles(section)
    assert COSTS in titles(section)
    assert drawn == {"costs"}
    assert "## Every method against FW" not in text


def test_large_instances_alone_are_compared_and_not_counted_among_the_small():
    section, text, drawn = qap_report_of(qap_rows(dcfw_1=[60, 80], fw=[60, 80]))
    assert COSTS not in titles(section)
    (table,) = [t for t in parts_of([section], Table) if t.caption == "Ours beside the published run"]
    assert "ours, all sizes" in [row[0] for row in table.rows]
    assert "ours, n <= 50" not in [row[0] for row in table.rows]
    assert drawn == {"errors", "heat_map"}
    assert "## What the splits cost" not in text


def test_methods_on_different_instances_have_no_common_heat_map():
    section, text, _ = qap_report_of(qap_rows(fw=[12, 20], dcfw_1=[12, 20], cgs=[25], dcfw_2=[25]))
    assert "The same on the one set" not in text
    (table,) = [t for t in parts_of([section], Table) if t.caption == "The pairs with their intervals"]
    compared = {frozenset(row[0].split(" < ")) for row in table.rows}
    assert compared == {frozenset({"FW", "DC-FW (var 1)"}), frozenset({"CGS", "DC-FW (var 2)"})}


def test_blended_steps_are_compared_with_vanilla_ones_on_the_same_runs():
    rows = qap_rows(fw=[12, 20], dcfw_1=[12, 20], blended_1=[12, 20])
    for row in rows:
        row["n_lmo"] = {"fw": 10, "dcfw-1": 800, "blended-1": 100}[row["method"]]
    section, text, _ = qap_report_of(rows)
    assert "| 2 (n <= 20) x 1 | 800 | 100 | 8.0 |" in text
    assert ACTIVE in titles(section)


def test_a_smaller_run_whose_seeds_a_larger_one_has_needs_no_command():
    rows = qap_rows(fw=[12, 60])
    again = [{**row, "seed": 1} for row in rows[:1]]
    sizes = {"tai12a": 12, "tai60a": 60}
    both = qap_summary.summarise(Runs(rows + again, "published"), sizes)["commands"]["rows"]
    assert [line.split("--set seeds=")[1].split()[0] for line in both] == ["1", "2"]
    swapped = [{**row, "seed": 1 - row["seed"]} for row in rows + again]
    alone = qap_summary.summarise(Runs(swapped, "published"), sizes)["commands"]["rows"]
    assert [line.split("--set seeds=")[1].split()[0] for line in alone] == ["2"]


def test_sections_of_a_protocol_need_rows_of_it():
    with Store(":memory:") as store:
        for row in qap_rows(fw=[12]):
            keys = ("protocol", "method", "dataset", "seed", "started")
            result = {name: value for name, value in row.items() if name not in keys}
            store.finish(Task(row["dataset"], "fw", 0, {"protocol": "published"}, "qap"), result, seconds=1.0)
        (section,) = qap_report.sections(store)
    assert isinstance(section, Section)
    assert section.title.startswith("QAPLIB, protocol “published”")
