"""What the README says works: its Python runs, its commands exist, and CI runs its very test line."""

import doctest
import re
import subprocess
import tomllib

import pytest
from typer.testing import CliRunner

from dcfw.cli import app
from dcfw_studies.commands import app as studies
from places import ROOT

README = ROOT / "README.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def shell_lines():
    return [line for block in blocks("sh") for line in block.splitlines() if line]


def test_the_python_blocks_print_what_stands_below_them(capsys):
    found, shown = blocks("python"), blocks("text")
    assert len(found) == len(shown) >= 3
    namespace = {}
    for block, expected in zip(found, shown, strict=True):
        exec(compile(block, "README.md", "exec"), namespace)
        printed = capsys.readouterr().out
        assert doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS), printed


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 160


def test_the_commands_exist_and_know_their_options():
    lines = [line.split("&& ")[-1] for line in shell_lines()]
    commands = [line.split() for line in lines if re.match(r"(\S*/)?dcfw(-studies)? ", line)]
    assert len(commands) >= 3
    for command in commands:
        words = command[1:]
        verbs = words[:2] if words[0] == "fetch" else words[:1]
        program = studies if command[0].endswith("dcfw-studies") else app
        help_text = CliRunner().invoke(program, [*verbs, "--help"])
        assert help_text.exit_code == 0, command
        for option in (word for word in words if word.startswith("--")):
            assert option in help_text.stdout, command


def test_each_copy_paste_line_makes_its_own_environment_and_uses_no_other():
    lines = [line for line in shell_lines() if "venv" in line]
    assert len(lines) == 2
    for line in lines:
        folder = re.match(r"python3 -m venv (\S+) && ", line)[1]
        for step in line.split(" && ")[1:]:
            assert step.startswith(f"{folder}/bin/")


def test_ci_runs_the_test_line_of_the_readme():
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("not a clone: .ci is not part of the source distribution")
    grep = re.search(r"^line=\$\((grep .*)\)$", script.read_text(encoding="utf-8"), re.M)[1]
    picked = subprocess.run(["bash", "-c", grep], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert picked.strip() == next(line for line in shell_lines() if "pytest" in line)
    assert 'bash -c "set -euo pipefail; $line"' in script.read_text(encoding="utf-8")


def test_what_ci_installs_is_pinned_and_the_tests_do_not_need_torch():
    project, other = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (".", "studies")
    )
    extras = project["optional-dependencies"]
    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            pins[re.sub("[-_.]+", "-", name).lower()] = version
    assert pins["torch"] == "2.13.0"
    wanted = project["dependencies"] + extras["test"] + extras["dev"] + extras["bench"] + extras["docs"]
    wanted += other["dependencies"] + other["optional-dependencies"]["test"]
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in wanted} - {"dcfw"}
    assert names <= pins.keys()
    assert "torch" not in names
    assert {"cli", "parallel", "plots", "torch", "graphs", "test", "bench", "dev", "all"} <= extras.keys()
    assert "torch" not in extras["all"][0]
