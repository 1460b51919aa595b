"""Imports point downwards, and no package reaches into another one's private names."""

from __future__ import annotations

from pathlib import Path

import pytest

from import_graph import Import, imports, private_uses
from places import PACKAGE, ROOT

LAYERS = (
    ("_arrays", "_html", "_lazy", "terminal", "progress", "parallel", "version"),
    ("_validate", "_protocol", "files", "kernels", "npy", "result"),
    ("data", "profiles", "callbacks", "tolerances", "sets"),
    ("functions",),
    ("splits", "_spectral"),
    ("steps", "solvers"),
    ("gaps", "_minimize", "checkpoints", "plots"),
    ("_check",),
    ("qap", "align", "torch", "traffic", "gromov", "completion"),
    ("cli", "__main__"),
)
"""The modules and packages of dcfw from the ground up: each knows only those above it in this table."""

APPLICATIONS = LAYERS[-2]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
STUDIES = ROOT / "studies"


def part(module: str) -> str:
    """Return the module or package of dcfw that a module belongs to; the package itself is its version."""
    return module.split(".")[1] if "." in module else "version"


def target(each: Import) -> str:
    """Return the part that is imported: ``from dcfw import sets`` is about sets."""
    if each.module != "dcfw":
        return part(each.module)
    return each.name if each.name in RANK else "version"


def ours() -> list[Import]:
    return [i for i in imports(PACKAGE.parent, "dcfw") if i.module.split(".")[0] == "dcfw"]


def test_every_part_of_the_library_has_a_layer():
    parts = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}
    parts |= {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    assert parts == set(RANK) - {"version"}


def test_imports_point_downwards():
    upwards = [
        each
        for each in ours()
        if not each.late and each.importer != "dcfw" and part(each.importer) != target(each)
        if RANK[part(each.importer)] < RANK[target(each)]
    ]
    assert upwards == []


def test_the_core_knows_no_application_and_applications_do_not_know_each_other():
    above = {*APPLICATIONS, *LAYERS[-1]}
    crossing = [
        each
        for each in ours()
        if each.importer != "dcfw" and target(each) in above and part(each.importer) != target(each)
        if part(each.importer) not in LAYERS[-1]
    ]
    assert crossing == []


def test_the_library_knows_neither_studies_nor_benches_nor_tests():
    foreign = {"dcfw_studies", "bench", "tests", "pytest", "hypothesis"}
    assert [i for i in imports(PACKAGE.parent, "dcfw") if i.module.split(".")[0] in foreign] == []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_package_of_the_library_uses_a_private_name_of_another():
    used = [
        each
        for each in ours()
        if is_private(each.name) and each.module != "dcfw" and part(each.importer) != part(each.module)
    ]
    assert used == []
    across = [(a, b) for a, b in private_uses(PACKAGE.parent, "dcfw") if part(a) != part(b)]
    assert [pair for pair in across if not is_private(part(pair[1]))] == []


@pytest.mark.skipif(not STUDIES.is_dir(), reason="not a clone: the studies are a package of their own")
def test_the_studies_use_no_private_name_of_the_library():
    used = [
        each
        for each in imports(STUDIES, "dcfw_studies")
        if each.module.split(".")[0] == "dcfw"
        if any(is_private(word) for word in (*each.module.split("."), each.name))
    ]
    assert used == []
    assert [b for _, b in private_uses(STUDIES, "dcfw_studies") if b.startswith("dcfw.")] == []


def test_the_graph_sees_late_imports_aliases_and_private_attributes(tmp_path: Path):
    package = tmp_path / "dcfw"
    package.mkdir()
    (package / "low.py").write_text(
        "from dcfw import high\ndef f():\n    from dcfw.qap.task import _x\n    return high._secret\n"
    )
    assert list(imports(tmp_path, "dcfw")) == [
        Import("dcfw.low", "dcfw", "high", False),
        Import("dcfw.low", "dcfw.qap.task", "_x", True),
    ]
    assert list(private_uses(tmp_path, "dcfw")) == [("dcfw.low", "dcfw.high._secret")]
