"""What is shipped: the package's resources, its bounds, and the scripts that try them out.

The scripts themselves build and install for minutes (``scripts/wheel.sh``, ``scripts/versions.sh``,
``scripts/audit.sh``); the quick checks are here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest

from places import ROOT

SCRIPTS = ("wheel.sh", "versions.sh", "audit.sh")
pytestmark = pytest.mark.skipif(
    not (ROOT / "src" / "dcfw").is_dir(), reason="needs the source tree; this is an installed package"
)


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def versions() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n")
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split(".post")[0]))


def test_the_package_is_typed_and_has_its_resources() -> None:
    package = ROOT / "src" / "dcfw"
    assert (package / "py.typed").is_file()
    present = {file.name for file in package.rglob("*") if file.suffix in (".json", ".css", ".js")}
    assert {"best_known.json", "checksums.json", "page.css", "chart.js"} <= present


def test_every_dependency_has_a_lower_bound_that_the_constraints_meet() -> None:
    pinned = versions()
    requirements = list(project()["project"]["dependencies"])
    for extra in ("cli", "parallel", "plots", "graphs", "sklearn", "torch"):
        requirements += project()["project"]["optional-dependencies"][extra]
    for requirement in requirements:
        match = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement)
        assert match, f"{requirement} has no plain lower bound, which scripts/versions.sh could install"
        name = re.sub(r"[-_.]+", "-", match[1]).lower()
        assert name in pinned, f"constraints.txt does not pin {name}"
        assert numbers(pinned[name]) >= numbers(match[2])


def test_every_constraint_is_one_exact_version() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n")
    for line in lines:
        assert not line or line.startswith("#") or re.fullmatch(r"[\w.-]+==[\w.]+", line), line


def test_the_source_archive_takes_folders_of_the_root_only() -> None:
    target = project()["tool"]["scikit-build"]["sdist"]
    assert (
        "include" not in target
    )  # it would take what .gitignore leaves out, an extension built in place too
    assert all(pattern.startswith("/") for pattern in target["exclude"])
    assert "/results" in {pattern.rstrip("/") for pattern in target["exclude"]}


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_explains_itself_and_refuses_what_it_does_not_know(script: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    path = str(ROOT / "scripts" / script)
    helped = subprocess.run([bash, path, "--help"], capture_output=True, text=True, check=True)
    assert f"scripts/{script}" in helped.stdout
    assert "Exit code" in helped.stdout
    refused = subprocess.run([bash, path, "--no-such-option"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--help" in refused.stderr


def test_the_oldest_versions_are_those_of_the_project() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    listed = subprocess.run(
        [bash, str(ROOT / "scripts" / "versions.sh"), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    bounds = [r.replace(">=", "==") for r in project()["project"]["dependencies"]]
    for bound in bounds:
        assert any(line == bound or line.startswith(bound + ".0") for line in listed), bound
