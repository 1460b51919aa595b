"""The commands ``study`` and ``fetch`` answer, and exit with the right code."""

import csv
import json

import pytest
import typer
from typer.testing import CliRunner

from dcfw_studies import Store, Task
from dcfw_studies.commands import app


def call(*arguments, target=app):
    return CliRunner().invoke(target, [str(argument) for argument in arguments])


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.db"
    with Store(path) as store:
        for seed in range(3):
            store.finish(Task("a", "fw", seed, {"tol": 0.5}, study="demo"), {"x": seed}, seconds=1.5)
        store.finish(Task("a", "dcfw", 0, {"tol": 0.5}, study="demo"), {"x": 9}, seconds=1.0)
        store.fail(Task("a", "dcfw", 1, {"tol": 0.5}, study="demo"), "ValueError: bad", "Traceback: here")
    return path


def test_study_status_counts_rows_by_method(store):
    done = call("study", "status", store)
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines == [
        ["study", "version", "method", "done", "failed", "running", "seconds"],
        ["demo", "1", "dcfw", "1", "1", "0", "1.0"],
        ["demo", "1", "fw", "3", "0", "0", "4.5"],
    ]
    assert "Traceback: here" in call("study", "status", store, "--failures").stdout
    found = json.loads(call("study", "status", store, "--json").stdout)
    assert [entry["done"] for entry in found["studies"]] == [1, 3]
    assert found["failures"][0]["error"] == "ValueError: bad"
    assert len(found["versions"]["demo"]) == 1


def test_study_status_of_an_empty_store_says_so(tmp_path):
    Store(tmp_path / "s.db").close()
    assert call("study", "status", tmp_path / "s.db").stdout == "no rows yet\n"


def test_study_export_writes_the_rows(store, tmp_path):
    target = tmp_path / "rows.csv"
    done = call("study", "export", store, "demo", "-o", target)
    assert done.exit_code == 0
    assert "4 rows" in done.stderr
    with target.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["method"], row["seed"], row["x"], row["tol"]) for row in rows] == [
        *[("dcfw", "0", "9", "0.5"), ("fw", "0", "0", "0.5")],
        *[("fw", "1", "1", "0.5"), ("fw", "2", "2", "0.5")],
    ]


def test_fetch_passes_the_folder_on_and_prints_where_the_files_are(tmp_path, monkeypatch):
    def fetch_qaplib(folder, *, url):
        return folder

    monkeypatch.setattr("dcfw_studies.fetch.fetch_qaplib", fetch_qaplib)
    done = call("fetch", "qaplib", "--folder", tmp_path)
    assert (done.exit_code, done.stdout.strip()) == (0, str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("study", "status", "no-such.db"), "there is no store at no-such.db"),
        (("study", "status", __file__), "not a store"),
        (("fetch", "qaplib", "--url", "http://example.org"), "https://"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_1(arguments, said):
    done = call(*arguments)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.startswith("dcfw-studies: ")
    assert done.stderr.count("\n") == 1


def test_exporting_an_unknown_study_fails_and_names_those_there_are(store, tmp_path):
    done = call("study", "export", store, "other", "-o", tmp_path / "x.csv")
    assert done.exit_code == 1
    assert "studies there: demo" in done.stderr
    assert not (tmp_path / "x.csv").exists()


def test_an_export_that_cannot_be_written_names_the_file_that_was_asked_for(store, tmp_path):
    for target in (tmp_path / "nofolder" / "s.csv", tmp_path):
        done = call("study", "export", store, "demo", "-o", target)
        assert done.exit_code == 1
        assert f"dcfw-studies: {target} could not be written (" in done.stderr
        assert f".{target.name}." not in done.stderr
        assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".db" and "-" not in path.name] == []


def commands(group, path=()):
    for name, command in getattr(group, "commands", {}).items():
        yield (*path, name), command
        yield from commands(command, (*path, name))


def test_every_command_explains_itself_with_an_example_in_80_columns():
    found = list(commands(typer.main.get_command(app)))
    assert {("fetch", "qaplib"), ("study", "status"), ("study", "export")} <= {path for path, _ in found}
    for path, _ in found:
        done = call(*path, "--help")
        assert done.exit_code == 0
        assert f"dcfw-studies {' '.join(path)}" in done.stdout.partition("Example")[2], path
        assert max(map(len, done.stdout.splitlines())) <= 80, path
        assert "..." not in done.stdout.partition("Commands:")[2], path
