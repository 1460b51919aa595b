"""The command line answers, exits with the right code, and shows no traceback for a user's mistake."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
import typer
from typer.testing import CliRunner

import dcfw
from dcfw.cli import app
from dcfw.cli.info import EXTRAS, PACKAGES
from places import ROOT, SOURCE


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


def test_the_version_is_the_packages():
    done = call("--version")
    assert (done.exit_code, done.stdout) == (0, f"dcfw {dcfw.__version__}\n")


def commands(group, path=()):
    for name, command in getattr(group, "commands", {}).items():
        yield (*path, name), command
        yield from commands(command, (*path, name))


def test_every_command_explains_itself_with_an_example():
    found = list(commands(typer.main.get_command(app)))
    assert {path for path, _ in found} == {("align",), ("demo",), ("info",), ("qap",)}
    for path, _ in found:
        done = call(*path, "--help")
        assert done.exit_code == 0
        assert f"dcfw {' '.join(path)}" in done.stdout.partition("Example")[2], path


def test_help_fits_a_terminal_of_80_columns():
    for path in [(), *(path for path, _ in commands(typer.main.get_command(app)))]:
        lines = call(*path, "--help").stdout.splitlines()
        assert max(map(len, lines)) <= 80, (path, max(lines, key=len))


def test_no_summary_in_the_list_of_commands_is_cut_off():
    listed = call("--help").output.split("Commands:")[1]
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
    monkeypatch.setitem(EXTRAS, "graphs", ("numpy", "no-such-package"))
    monkeypatch.setattr("dcfw.cli.info.PACKAGES", ("numpy", "no-such-package", *PACKAGES))
    assert json.loads(call("info", "--json").stdout)["extras"]["graphs"] == ["no-such-package"]
    assert 'missing no-such-package: pip install "dcfw[graphs]"' in call("info").stdout


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [("dcfw de", 1, {"demo"}), ("dcfw qap --me", 2, {"--method"})],
)
def test_the_shell_completes_commands_and_options(words, place, offered):
    done = in_a_process(_DCFW_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(place))
    assert offered <= set(done.stdout.split())
    assert "info" not in done.stdout
    assert "--install-completion" in call("--help").stdout


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("qap",), ("info", "--no-such-option")])
def test_a_wrong_command_line_is_exit_code_2(arguments):
    assert call(*arguments).exit_code == 2


def test_a_file_that_is_not_there_is_named_without_numbers_of_the_system():
    done = call("qap", "no-such.dat")
    assert (done.exit_code, done.stderr) == (1, "dcfw: no-such.dat: No such file or directory\n")


def test_debug_shows_the_error_itself():
    done = call("--debug", "qap", "no-such.dat")
    assert isinstance(done.exception, FileNotFoundError)


def test_a_bug_is_not_hidden(monkeypatch):
    def broken():
        raise AttributeError("a bug")

    monkeypatch.setattr("dcfw.cli.info.collect", broken)
    assert isinstance(call("info").exception, AttributeError)


def test_a_real_process_has_the_same_exit_codes(tmp_path):
    good = in_a_process("--version")
    assert (good.returncode, good.stdout) == (0, f"dcfw {dcfw.__version__}\n")
    bad = in_a_process("qap", tmp_path / "no.dat")
    assert bad.returncode == 1
    assert bad.stderr == f"dcfw: {tmp_path / 'no.dat'}: No such file or directory\n"
    assert "Traceback" not in bad.stderr
    assert in_a_process("nonsense").returncode == 2
    debug = in_a_process("--debug", "qap", tmp_path / "no.dat")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr


def test_an_interrupt_is_one_line_and_exit_code_130(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("dcfw.cli.info.collect", interrupted)
    done = call("info")
    assert (done.exit_code, done.stderr) == (130, "dcfw: interrupted\n")


def test_help_loads_nothing_heavy():
    heavy = ("numba", "torch", "matplotlib", "pandas", "scipy", "joblib", "numpy", "rich")
    code = f"import sys, dcfw.cli; print([name for name in {heavy} if name in sys.modules])"
    assert in_a_process(code=code).stdout == "[]\n"


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_the_command_says_how_to_install_it(package):
    code = f"""
import sys
sys.modules["{package}"] = None
sys.argv = ["dcfw", "demo"]
from dcfw.__main__ import main
main()
"""
    done = in_a_process(code=code)
    assert done.returncode == 1
    assert done.stderr == f'dcfw: the command line needs {package}: pip install "dcfw[cli]"\n'
