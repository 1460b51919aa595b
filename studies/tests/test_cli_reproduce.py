"""``dcfw-studies reproduce`` runs a study into a store, goes on from there, and writes the report."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dcfw
from dcfw_studies import Store, Study, catalogue, run
from dcfw_studies.catalogue import CATALOGUE, Entry, Part
from dcfw_studies.commands import app, reproduce
from places import SOURCE


def row(dataset, method, seed):
    if dataset == "bad":
        raise ValueError("this row fails")
    return {"value": seed}


def small(datasets=("a",), seeds=3):
    return Study("small", row, list(datasets), ["x"], range(seeds))


def write_report(study, store, folder):
    with Store(store, readonly=True) as opened:
        count = len(opened.rows("small"))
    folder = Path(folder)
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(f"{count} rows\n")
    return [folder / "README.md"]


COUNTS = {"n_lmo", "n_grad_f", "n_grad_g", "n_fun", "nit"}


@pytest.mark.parametrize("name", ["qap", "inner"])
def test_a_row_records_versions_seed_time_and_oracle_counts(name):
    try:
        study = CATALOGUE[name].study(full=False)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    quickest = min(study.tasks, key=study.cost)
    with Store(":memory:") as store:
        assert run(replace(study, datasets=(), methods=(), seeds=(), tasks=[quickest]), store).done == 1
        (row,) = store.rows(name)
        (versions,) = store.versions(name)
    assert set(row) >= COUNTS
    assert row["n_lmo"] >= 1
    assert row["n_grad_f"] >= 1
    assert (row["seed"], row["dataset"], row["method"]) == (0, quickest.dataset, quickest.method)
    assert row["seconds"] > 0.0
    assert versions["numpy"] == np.__version__
    assert versions["dcfw"] == dcfw.__version__


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder, and a catalogue whose study ``inner`` is a small one."""
    monkeypatch.chdir(tmp_path)
    entry = Entry(
        "inner",
        "a small one",
        quick=Part("three rows", 1.0, lambda module: small()),
        full=Part("five rows", 90.0, lambda module: small(seeds=5)),
    )
    monkeypatch.setitem(CATALOGUE, "inner", entry)
    monkeypatch.setattr("dcfw_studies.report.write_report", write_report)
    for name in ("OPENBLAS", "MKL", "OMP"):  # the command sets them, for the processes it starts
        monkeypatch.setenv(f"{name}_NUM_THREADS", "1")
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_command_knows_the_studies_of_the_catalogue_and_states_their_times():
    assert [name.value for name in reproduce.Name] == [*CATALOGUE, "all"]
    text = call("--help").stdout
    for name, entry in CATALOGUE.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(f"{name} "))
        stated = entry.time(True, 2).removeprefix("about ").partition(" on ")[0]
        assert line.endswith(stated), name


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_quick_part_takes_minutes_and_keeps_its_rows_for_the_whole(name):
    entry = CATALOGUE[name]
    assert entry.quick.minutes <= 4.0  # of one core: a minute or two on two
    for package in ("matplotlib", *entry.packages):
        pytest.importorskip(package, reason=f"the study needs {package}")
    module = importlib.import_module(f"dcfw_studies.{name}")
    try:
        quick, full = entry.quick.make(module), entry.full.make(module)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    assert quick.tasks
    assert {task.key for task in quick.tasks} <= {task.key for task in full.tasks}
    assert quick.name == name
    report = importlib.import_module(f"dcfw_studies.{name}_report")
    assert callable(report.sections)
    assert callable(report.files)


def test_rows_and_report_land_where_the_output_says(here):
    done = call("inner")
    assert done.exit_code == 0, done.stderr
    assert (here / "dcfw-results" / "inner" / "README.md").read_text() == "3 rows\n"
    assert "dcfw-study.db" in done.stdout
    assert str(Path("dcfw-results/inner/README.md")) in done.stdout
    assert "inner, quick: three rows" in done.stderr
    assert "about 1 minute on" in done.stderr
    with Store(here / "dcfw-study.db", readonly=True) as store:
        assert len(store.rows("small")) == 3


def test_the_whole_goes_on_from_the_quick_part_and_says_so_in_json(here):
    call("inner", "--store", "s.db", "-o", "one")
    done = call("inner", "--full", "--n-jobs", 1, "--store", "s.db", "-o", "two", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    (study,) = answer["studies"]
    assert answer["store"] == "s.db"
    assert (study["part"], study["rows"], study["done"], study["skipped"]) == ("full", 5, 2, 3)
    assert study["report"] == [str(Path("two/inner/README.md"))]
    assert "3 of them in s.db already" in done.stderr
    assert "about 2 hours on 1 process" in done.stderr


def test_the_address_of_a_cluster_reaches_the_runner(here):
    done = call("inner", "--dask", "nonsense://nowhere")
    assert done.exit_code == 1
    assert "no scheduler answers at 'nonsense://nowhere'" in done.stderr
    assert "about 1 minute of one core's time" in done.stderr
    assert "Traceback" not in done.stderr


def test_failed_rows_are_exit_code_1_and_a_line_says_where_to_look(here, monkeypatch):
    bad = replace(CATALOGUE["inner"], quick=Part("one bad", 1.0, lambda module: small(("a", "bad"))))
    monkeypatch.setitem(CATALOGUE, "inner", bad)
    done = call("inner", "--n-jobs", 1, "--json")
    assert done.exit_code == 1
    (study,) = json.loads(done.stdout)["studies"]
    assert (study["done"], study["failed"], study["finished"]) == (3, 3, 3)
    assert study["failures"][0]["error"] == "ValueError: this row fails"
    assert "3 rows failed: see dcfw-studies study status dcfw-study.db --failures" in done.stderr


def test_all_missing_packages_are_named_at_once():
    without = replace(
        CATALOGUE["inner"], packages={"no_such": "networks", "nor_this": "torch", "nor": "torch"}
    )
    with pytest.raises(
        ModuleNotFoundError, match=r'no_such, nor_this, nor: pip install "dcfw-studies\[networks,torch\]"'
    ):
        without.study(full=False)


def test_the_catalogue_counts_the_families_of_problems():
    entry, families = CATALOGUE["inner"], importlib.import_module("dcfw_studies.inner").FAMILIES
    assert len(families) == 9
    assert "nine families" in entry.about
    assert "9 families" in entry.quick.what
    assert "9 families" in entry.full.what
    assert "nine families" in reproduce.reproduce.__doc__


def test_a_missing_extra_is_named_and_all_leaves_its_study_out(here, monkeypatch):
    without = replace(CATALOGUE["inner"], packages={"no_such_package": "networks"})
    monkeypatch.setattr(catalogue, "CATALOGUE", {"networks": without, "inner": CATALOGUE["inner"]})
    done = call("networks")
    assert done.exit_code == 1
    assert 'needs no_such_package: pip install "dcfw-studies[networks]"' in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (here / "dcfw-study.db").exists()
    done = call("all", "--json")
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert [study["study"] for study in answer["studies"]] == ["inner"]
    assert list(answer["not_run"]) == ["networks"]


def test_missing_data_say_how_to_bring_them(here, monkeypatch):
    monkeypatch.setenv("DCFW_DATA", str(here))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    done = call("qap")
    assert done.exit_code == 1
    assert "dcfw-studies fetch qaplib" in done.stderr


@pytest.mark.parametrize("arguments", [("nonsense",), (), ("inner", "--n-jobs", "two")])
def test_a_wrong_command_line_is_exit_code_2(here, arguments):
    assert call(*arguments).exit_code == 2


def test_a_number_of_processes_that_makes_no_sense_is_a_wrong_command_line(here):
    done = call("inner", "--n-jobs", 0)
    assert done.exit_code == 2
    assert "n_jobs must be" in done.stderr
    assert not (here / "dcfw-study.db").exists()


def test_a_store_that_cannot_be_made_is_one_line(here):
    (here / "file").write_text("")
    done = call("inner", "--store", "file/s.db")
    assert done.exit_code == 1
    assert "folder cannot be made" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_an_interrupt_is_exit_code_130_and_the_same_command_goes_on(tmp_path):
    pytest.importorskip("matplotlib", reason="the report draws figures")
    command = [sys.executable, "-m", "dcfw_studies", "reproduce", "gaps", "--n-jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    # A background job of a shell ignores Ctrl-C, and its children would as well: the root's conftest.py gives
    # it back to both (preexec_fn would fork, of which JAX warns once a test has loaded it).
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120

    def finished():
        if not (tmp_path / "dcfw-study.db").exists():
            return 0
        with Store(tmp_path / "dcfw-study.db") as store:
            return len(store.rows("gaps"))

    while finished() < 1 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == ""
    assert "the same command goes on from there" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert 1 <= finished() < 5  # the second row takes seconds
    with Store(tmp_path / "dcfw-study.db") as store:
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


def test_a_study_whose_rows_all_fail_has_no_report(here, monkeypatch):
    failing = Part("three rows", 1.0, lambda module: small(datasets=["bad"]))
    monkeypatch.setitem(CATALOGUE, "inner", replace(CATALOGUE["inner"], quick=failing))
    done = call("inner")
    assert done.exit_code == 1
    assert "3 rows failed" in done.stderr
    assert not (here / "dcfw-results" / "inner" / "README.md").exists()
