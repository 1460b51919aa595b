"""The source contains no call through which a file or a server could do harm.

The rules are checked on the syntax tree of every module of both packages, and each rule on a line that breaks
it, so that a rule that has stopped working is noticed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from places import PACKAGE, ROOT

SOURCES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "studies" / "dcfw_studies").rglob("*.py")])
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "yaml", "xml", "telnetlib"}
"""Modules that execute, or expand without a bound, what they read."""
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp", "joblib.load"}
ADDRESS = re.compile(r"http://(?!localhost|127\.0\.0\.1|www\.w3\.org)")
"""A namespace of XML is a name and no address."""


def dotted(node: ast.expr) -> str:
    """Return the dotted name that is called, empty if it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def constant(call: ast.Call, name: str) -> object:
    """Return the constant given for a keyword, None if there is none."""
    found = [k.value for k in call.keywords if k.arg == name]
    return found[0].value if found and isinstance(found[0], ast.Constant) else None


def offences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, what is wrong)."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            for name in names:
                if name.split(".")[0] in MODULES:
                    yield node.lineno, f"imports {name}"
        elif isinstance(node, ast.Call):
            yield from _wrong_call(node)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings and _plain(node.value):
            yield node.lineno, "has an address without TLS"


def _plain(value: object) -> bool:
    return isinstance(value, str) and ADDRESS.search(value) is not None


def _wrong_call(call: ast.Call) -> Iterator[tuple[int, str]]:
    name = dotted(call.func)
    if name in CALLS:
        yield call.lineno, f"calls {name}"
    if name in ("np.load", "numpy.load") and constant(call, "allow_pickle") is not False:
        yield call.lineno, "calls np.load without allow_pickle=False"
    if name.endswith("torch.load") and constant(call, "weights_only") is not True:
        yield call.lineno, "calls torch.load without weights_only=True"
    if constant(call, "shell") is True:
        yield call.lineno, "starts a shell"
    if constant(call, "verify") is False or name.endswith("_create_unverified_context"):
        yield call.lineno, "does not check certificates"
    if name.endswith((".extractall", ".extract")):
        yield call.lineno, "unpacks an archive by the names of its members"
    if constant(call, "trust_remote_code") is True or constant(call, "allow_pickle") is True:
        yield call.lineno, "runs what it loads"


def test_the_source_keeps_the_rules() -> None:
    assert len(SOURCES) > 100
    found = [
        f"{file}, line {line} {what}"
        for file in SOURCES
        for line, what in offences(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml",
        "np.load(file)",
        "np.load(file, allow_pickle=True)",
        "torch.load(file)",
        "torch.load(file, weights_only=False)",
        "eval('1')",
        "exec(text)",
        "os.system('ls')",
        "subprocess.run('ls', shell=True)",
        "tempfile.mktemp()",
        "requests.get(url, verify=False)",
        "ssl._create_unverified_context()",
        "archive.extractall(folder)",
        "URL = 'http://example.org/data'",
        "np.savez(file, allow_pickle=True)",
    ],
)
def test_each_rule_finds_what_it_is_for(line: str) -> None:
    assert list(offences(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "np.load(file, allow_pickle=False)",
        "torch.load(file, weights_only=True)",
        "model.eval()",
        "re.compile('x')",
        "URL = 'https://example.org'",
        "subprocess.run(['ls'])",
    ],
)
def test_the_rules_leave_good_lines_alone(line: str) -> None:
    assert not list(offences(ast.parse(line)))
