"""The command line answers, exits with the right code, and shows no traceback for a user's mistake."""

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import dcfw
from dcfw.cli import app
from dcfw.commands.info import EXTRAS, PACKAGES
from dcfw.experiments import Store, Task
from places import ROOT

SOURCE = str(Path(dcfw.__file__).parents[1])


def call(*arguments, target=app):
    return CliRunner().invoke(target, [str(argument) for argument in arguments])


def in_a_process(*arguments, code=None, **environment):
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "dcfw"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        timeout=120,
    )


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.db"
    with Store(path) as store:
        for seed in range(3):
            store.finish(Task("a", "fw", seed, {"tol": 0.5}, study="demo"), {"x": seed}, seconds=1.5)
        store.finish(Task("a", "dcfw", 0, {"tol": 0.5}, study="demo"), {"x": 9}, seconds=1.0)
        store.fail(Task("a", "dcfw", 1, {"tol": 0.5}, study="demo"), "ValueError: bad", "Traceback: here")
    return path


def test_the_version_is_the_packages():
    done = call("--version")
    assert (done.exit_code, done.stdout) == (0, f"dcfw {dcfw.__version__}\n")


def commands(group, path=()):
    for name, command in getattr(group, "commands", {}).items():
        yield (*path, name), command
        yield from commands(command, (*path, name))


def test_every_command_explains_itself_with_an_example():
    found = list(commands(typer.main.get_command(app)))
    assert {("info",), ("fetch", "qaplib"), ("study", "status"), ("study", "export")} <= {p for p, _ in found}
    for path, _ in found:
        done = call(*path, "--help")
        assert done.exit_code == 0
        assert f"dcfw {' '.join(path)}" in done.stdout.partition("Example")[2], path


def test_help_fits_a_terminal_of_80_columns():
    for path in [(), *(path for path, _ in commands(typer.main.get_command(app)))]:
        lines = call(*path, "--help").stdout.splitlines()
        assert max(map(len, lines)) <= 80, (path, max(lines, key=len))


@pytest.mark.parametrize("group", [(), ("fetch",), ("study",)])
def test_no_summary_in_the_list_of_commands_is_cut_off(group):
    listed = call(*group, "--help").output.split("Commands:")[1]
    assert listed.strip()
    assert "..." not in listed


def test_info_names_versions_blas_and_data(tmp_path, monkeypatch):
    (tmp_path / "qaplib").mkdir()
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = json.loads(call("info", "--json").stdout)
    import numpy

    assert found["dcfw"] == dcfw.__version__
    assert found["packages"]["numpy"] == numpy.__version__
    assert found["data"] == {"qaplib": str(tmp_path / "qaplib"), "embeddings": None, "cifar10": None}
    assert found["extras"]["plots"] == [] or found["packages"]["matplotlib"] is None
    assert found["blas"]
    assert found["cpus"] >= 1
    text = call("info").stdout
    assert numpy.__version__ in text
    assert "not found" in text
    assert str(tmp_path / "qaplib") in text


def test_info_knows_the_extras_of_the_project():
    project = ROOT / "pyproject.toml"
    if not project.exists():
        pytest.skip("not a clone")
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    for name, needed in EXTRAS.items():
        assert [re.match(r"[\w-]+", requirement)[0] for requirement in extras[name]] == list(needed)


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(EXTRAS, "dask", ("numpy", "no-such-package"))
    monkeypatch.setattr("dcfw.commands.info.PACKAGES", ("numpy", "no-such-package", *PACKAGES))
    assert json.loads(call("info", "--json").stdout)["extras"]["dask"] == ["no-such-package"]
    assert 'missing no-such-package: pip install "dcfw[dask]"' in call("info").stdout


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [("dcfw re", 1, {"report", "reproduce"}), ("dcfw reproduce al", 2, {"alignment", "all"})],
)
def test_the_shell_completes_commands_and_studies(words, place, offered):
    done = in_a_process(_DCFW_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(place))
    assert offered <= set(done.stdout.split())
    assert "info" not in done.stdout
    assert "--install-completion" in call("--help").stdout


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
    def fetch_qaplib(folder, *, url, progress):
        progress("https://example.org/a.tar.gz", 1, 2)
        progress("https://example.org/a.tar.gz", 2, 2)
        return folder

    monkeypatch.setattr("dcfw.fetch.fetch_qaplib", fetch_qaplib)
    done = call("fetch", "qaplib", "--folder", tmp_path)
    assert (done.exit_code, done.stdout.strip()) == (0, str(tmp_path))
    assert done.stderr == "downloading https://example.org/a.tar.gz\n"


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
    assert done.stderr.startswith("dcfw: ")
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
        assert f"dcfw: {target} could not be written (" in done.stderr
        assert f".{target.name}." not in done.stderr
        assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".db" and "-" not in path.name] == []


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("study", "status"), ("info", "--no-such-option")])
def test_a_wrong_command_line_is_exit_code_2(arguments):
    assert call(*arguments).exit_code == 2


def test_a_file_that_is_not_there_is_named_without_numbers_of_the_system():
    done = call("qap", "no-such.dat")
    assert (done.exit_code, done.stderr) == (1, "dcfw: no-such.dat: No such file or directory\n")


def test_debug_shows_the_error_itself():
    done = call("--debug", "study", "status", "no-such.db")
    assert isinstance(done.exception, FileNotFoundError)


def test_a_bug_is_not_hidden(monkeypatch):
    def broken():
        raise AttributeError("a bug")

    monkeypatch.setattr("dcfw.commands.info.collect", broken)
    assert isinstance(call("info").exception, AttributeError)


def test_a_real_process_has_the_same_exit_codes(tmp_path):
    good = in_a_process("--version")
    assert (good.returncode, good.stdout) == (0, f"dcfw {dcfw.__version__}\n")
    bad = in_a_process("study", "status", tmp_path / "no.db")
    assert bad.returncode == 1
    assert bad.stderr.startswith("dcfw: there is no store")
    assert "Traceback" not in bad.stderr
    assert in_a_process("nonsense").returncode == 2
    debug = in_a_process("--debug", "study", "status", tmp_path / "no.db")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr


def test_an_interrupt_is_one_line_and_exit_code_130(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("dcfw.commands.info.collect", interrupted)
    done = call("info")
    assert (done.exit_code, done.stderr) == (130, "dcfw: interrupted\n")


def test_help_loads_nothing_heavy():
    heavy = ("numba", "torch", "matplotlib", "pandas", "scipy", "joblib", "numpy", "rich")
    code = f"import sys, dcfw.cli; print([name for name in {heavy} if name in sys.modules])"
    assert in_a_process(code=code).stdout == "[]\n"
