"""The documentation is complete: every public name has a page and an example, every page is reachable.

The site itself is built, and the examples on its pages are run, by ``scripts/docs.sh``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dcfw.cli import app
from dcfw_studies.commands import app as studies
from places import ROOT, TESTS

DOCS = ROOT / "docs"
if not DOCS.is_dir():
    pytest.skip("not a clone: the source distribution has no docs", allow_module_level=True)

MODULES = {
    "dcfw": "dcfw",
    "dcfw.functions": "functions",
    "dcfw.sets": "sets",
    "dcfw.splits": "splits",
    "dcfw.steps": "steps",
    "dcfw.tolerances": "tolerances",
    "dcfw.gaps": "gaps",
    "dcfw.callbacks": "callbacks",
    "dcfw.checkpoints": "checkpoints",
    "dcfw.plots": "plots",
    "dcfw.qap": "qap",
    "dcfw.qap.generators": "qap",
    "dcfw.align": "align",
    "dcfw.torch": "torch",
    "dcfw.traffic": "traffic",
    "dcfw.gromov": "gromov",
    "dcfw.data": "data",
    "dcfw_studies": "studies",
}
"""Public module -> the page of the reference that lists its names."""

INTERNAL = {
    "dcfw.splits": {"Auto", "Remainder", "choose"},
    "dcfw.steps": {"first_estimate", "resolve", "search"},
    "dcfw.tolerances": {"resolve"},
}
"""What modules without ``__all__`` define for the solvers, not for users."""


def public_names(module: str) -> list[str]:
    """Return the functions and classes that a module offers."""
    if module == "dcfw.torch":
        pytest.importorskip("torch")
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        found = (name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module)
        names = [name for name in found if not name.startswith("_") and name not in INTERNAL.get(module, ())]
    return [name for name in names if callable(getattr(loaded, name))]


def listed(page: str, module: str) -> set[str]:
    """Return the names in the autosummary tables of a page, as attributes of the module."""
    text = (DOCS / "api" / f"{page}.rst").read_text(encoding="utf-8")
    current = re.search(r"^\.\. currentmodule:: (\S+)$", text, re.M)[1]
    tables = re.findall(r"^\.\. autosummary::\n   :toctree: generated\n\n((?:   \S+\n)+)", text, re.M)
    full = {f"{current}.{name}" for table in tables for name in table.split()}
    return {name.removeprefix(f"{module}.") for name in full if name.rpartition(".")[0] == module}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_entry_in_the_reference_and_no_other_name_has(module):
    assert listed(MODULES[module], module) == set(public_names(module))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example(module):
    names = public_names(module)
    loaded = importlib.import_module(module)
    without = [name for name in names if ">>>" not in (inspect.getdoc(getattr(loaded, name)) or "")]
    assert without == []


def written() -> list[Path]:
    pages = [*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]
    made = {"_build", "gallery", "tutorials", "generated", "_templates"}
    return [p for p in sorted(pages) if not made & set(p.relative_to(DOCS).parts) and p.name[:3] != "sg_"]


def test_every_page_is_listed_in_a_table_of_contents():
    entries = set()
    for page in written():
        text = page.read_text(encoding="utf-8")
        trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.M | re.S)
        trees += re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.M)
        for line in "\n".join(trees).split():
            entries.add((page.parent / line).resolve())
    missing = [p.relative_to(DOCS) for p in written() if p.with_suffix("").resolve() not in entries]
    assert [str(p) for p in missing] == ["index.md"]


def test_every_example_has_a_place_in_the_order_of_the_gallery():
    namespace: dict[str, object] = {}
    exec((DOCS / "_ext" / "gallery_order.py").read_text(encoding="utf-8"), namespace)
    assert sorted(namespace["ORDER"]) == sorted(p.name for p in (ROOT / "examples").glob("plot_*.py"))


def commands() -> list[str]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in written())
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return sorted(
        {line for block in blocks for line in block.splitlines() if re.match(r"dcfw(-studies)? ", line)}
    )


@pytest.mark.parametrize("line", commands())
def test_the_commands_on_the_pages_exist_and_know_their_options(line):
    program, *words = line.split()
    verbs = words[:2] if words[0] in ("fetch", "study") else words[:1]
    shown = CliRunner().invoke(app if program == "dcfw" else studies, [*verbs, "--help"])
    assert shown.exit_code == 0
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"(?<![\w-]){option}\b", shown.stdout), option


def test_what_pages_include_is_there_and_a_link_for_those_who_read_the_file():
    found = 0
    for page in written():
        text = page.read_text(encoding="utf-8")
        assert "<!-- include" not in text, f"{page} has a hole unless it is built"
        for title, path, anchor in re.findall(
            r'^\[(.+)\]\(([^\s#]+)(?:#(\S+))? "included here"\)$', text, re.M
        ):
            found += 1
            source = (page.parent / path).read_text(encoding="utf-8")
            if anchor:
                assert re.search(rf"^#+ {re.escape(title)}$", source, re.M), (page, title)
                assert anchor == re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"), page
    assert found > 10


def test_every_test_that_the_promises_name_exists():
    text = (DOCS / "promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:tests/(?:\w+/)?)?(test_\w+\*?\.py|\w+\.py)(?:::(\w+))?`", text)
    scripts = re.findall(r"`(scripts/\w+\.sh)`", text)
    assert len(named) > 40
    assert len(scripts) == 3
    for file, test in named:
        files = [found for folder in TESTS for found in folder.rglob(file)]
        assert files, file
        assert not test or f"def {test}(" in files[0].read_text(encoding="utf-8")
    for script in scripts:
        assert (DOCS.parent / script).exists()
