"""``dcfw-studies bench`` finds the benches of a clone, and says where to get them when there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dcfw
from dcfw_studies.commands import app, bench
from places import ROOT


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make dcfw look installed elsewhere, and work in an empty folder."""
    monkeypatch.setattr(dcfw, "__file__", str(tmp_path / "lib" / "site-packages" / "dcfw" / "__init__.py"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path


def test_the_benches_are_found_from_anywhere_when_dcfw_runs_from_its_clone(tmp_path, monkeypatch):
    if not (ROOT / "bench").is_dir() or ROOT not in Path(dcfw.__file__).resolve().parents:
        pytest.skip("not a clone")
    monkeypatch.chdir(tmp_path)
    assert bench.find() == ROOT


def test_an_installed_dcfw_finds_the_benches_of_the_clone_one_works_in(installed, monkeypatch):
    clone = installed / "clone"
    (clone / "bench").mkdir(parents=True)
    (clone / "bench" / "__main__.py").write_text("")
    (clone / "src" / "dcfw").mkdir(parents=True)
    (clone / "docs").mkdir()
    monkeypatch.chdir(clone / "docs")
    assert bench.find() == clone


def test_without_a_clone_one_line_says_where_to_get_it(installed):
    done = CliRunner().invoke(app, ["bench", "core"])
    assert done.exit_code == 1
    assert "not part of the installed package" in done.stderr
    assert "clone it" in done.stderr
    assert done.stderr.count("\n") == 1


def test_names_and_options_are_passed_on_and_the_exit_code_comes_back(monkeypatch):
    asked = []

    def run(command, cwd, check):
        asked.append(command[1:])
        return subprocess.CompletedProcess(command, 3 if "lap" in command else 0)

    monkeypatch.setattr(bench, "find", lambda: ROOT)
    monkeypatch.setattr(bench.subprocess, "run", run)
    assert CliRunner().invoke(app, ["bench", "qap", "lap", "core", "--full", "--json"]).exit_code == 3
    assert asked == [["-m", "bench", name, "--full", "--json"] for name in ("qap", "lap")]
    asked.clear()
    assert CliRunner().invoke(app, ["bench"]).exit_code == 0
    assert asked == [["-m", "bench", "all"]]


def test_a_bench_prints_json_for_programs():
    if not (ROOT / "bench").is_dir():
        pytest.skip("bench is not part of an installed dcfw")
    code = (
        "import sys, bench.imports as imports;"
        "imports.seconds = imports.processor_seconds = lambda statement: 0.5;"
        "from bench.__main__ import main; main(['imports', '--json'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(Path(dcfw.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    first, *_ = map(json.loads, done.stdout.splitlines())
    assert (first["bench"], first["ours"], first["peer"], first["ratio"]) == ("imports", 0.5, 0.5, 1.0)
