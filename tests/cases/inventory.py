"""The public surface of dcfw: names with their parameters, JSON fields, exit codes, promises.

    python tests/cases/inventory.py > tests/cases/inventory.json

The file is written once per release.  Between releases ``test_inventory.py`` compares: whatever is in the
file must still be there, or be named in the section "Unreleased" of ``CHANGELOG.md``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from typer.testing import CliRunner

import dcfw
from dcfw import align
from dcfw.cli import app, showcase

FILE = Path(__file__).with_suffix(".json")
SMALL = {"NODES": 20, "WORDS": 100, "DIMENSION": 10, "ALIGNMENT_BUDGET": 20, "REGRESSION_BUDGET": 20}
"""Sizes of the demonstration that print the same fields in no time."""
ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "dcfw",
    "dcfw.align",
    "dcfw.callbacks",
    "dcfw.checkpoints",
    "dcfw.data",
    "dcfw.functions",
    "dcfw.gaps",
    "dcfw.plots",
    "dcfw.qap",
    "dcfw.qap.generators",
    "dcfw.sets",
    "dcfw.splits",
    "dcfw.steps",
    "dcfw.tolerances",
    "dcfw.torch",
)


def public_names() -> dict[str, list[str]]:
    """Return every public name with its parameters, and the public methods of classes."""
    found: dict[str, list[str]] = {}
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:  # gone, or an extra that is not installed
            continue
        for name in _names(module):
            value = getattr(module, name)
            if not inspect.ismodule(value):
                found[f"{module_name}.{name}"] = _parameters(value)
            if inspect.isclass(value):
                for method, function in inspect.getmembers(value, inspect.isfunction):
                    if not method.startswith("_") and function.__module__.startswith("dcfw"):
                        found[f"{module_name}.{name}.{method}"] = _parameters(function)
    return found


def _names(module: Any) -> list[str]:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return sorted(getattr(module, "__all__", None) or own)


def _parameters(value: Any) -> list[str]:
    try:
        return [
            name for name in inspect.signature(value).parameters if name not in ("self", "args", "kwargs")
        ]
    except (TypeError, ValueError):
        return []


def fields(value: Any, path: str = "", *, depth: int = 3) -> set[str]:
    """Return the paths of all keys in a JSON value; entries of a list share the path ``[]``."""
    found: set[str] = set()
    if isinstance(value, dict) and depth:
        for key, below in value.items():
            here = f"{path}.{key}".lstrip(".")
            found |= {here} | fields(below, here, depth=depth - 1)
    elif isinstance(value, list):
        for entry in value:
            found |= fields(entry, f"{path}[]", depth=depth)
    return found


def json_fields() -> dict[str, list[str]]:
    """Return the fields that each command prints with ``--json``, for small inputs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.dat").write_text("3\n0 1 2\n1 0 3\n2 3 0\n0 5 1\n5 0 2\n1 2 0\n")
        rng = np.random.default_rng(0)
        vectors = rng.standard_normal((40, 4))
        for language in ("a", "b"):
            words = [f"{language}{i}" for i in range(40)]
            align.write_vectors(folder / f"{language}.vec", words, vectors)
        (folder / "pairs.txt").write_text("".join(f"a{i} b{i}\n" for i in range(40)))
        sides = (
            "--source",
            f"{name}/a.vec",
            "--target",
            f"{name}/b.vec",
            "--dictionary",
            f"{name}/pairs.txt",
        )
        calls = {
            "info": ((), 1),
            "qap": ((f"{name}/small.dat", "--restarts", "2"), 3),
            "align": ((*sides, "--observed", "0.5"), 3),
            "demo": (("-o", f"{name}/demo.html"), 2),
        }
        found = {}
        for command, (arguments, depth) in calls.items():
            with mock.patch.multiple(showcase, **SMALL):
                done = CliRunner().invoke(app, [command, *arguments, "--json"])
            assert done.exit_code == 0, done.output
            found[command] = sorted(fields(json.loads(done.stdout), depth=depth))
    return found


def exit_codes() -> dict[str, int]:
    """Return the exit code of each way in which a command can end, Ctrl-C apart (see test_cli)."""
    ends = {
        "success": ["info"],
        "a missing file": ["qap", "no-such-file.dat"],
        "no command": [],
        "an unknown command": ["no-such-command"],
        "an unknown option": ["info", "--no-such-option"],
        "a wrong value": ["qap", "nug12", "--restarts", "none"],
    }
    return {what: CliRunner().invoke(app, arguments).exit_code for what, arguments in ends.items()}


def promises() -> dict[str, list[list[str]]]:
    """Return, for each section of ``docs/promises.md``, the tests and commands of each promise."""
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    found: dict[str, list[list[str]]] = {}
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        rows = [line.rstrip(" |").rpartition("|")[2] for line in body.splitlines() if line.startswith("| ")]
        held = [re.findall(r"`([^`]+)`", row) for row in rows]
        found[title] = [names for names in held if names]
    return found


def collect() -> dict[str, Any]:
    """Return the whole inventory."""
    return {
        "public names": public_names(),
        "statuses": {status.name: int(status) for status in dcfw.Status},
        "history": list(dcfw.minimize(
            dcfw.functions.SquaredNorm(), dcfw.sets.Simplex(2)
        ).history.columns),
        "json fields": json_fields(),
        "exit codes": exit_codes(),
        "promises": promises(),
    }  # fmt: skip


def main() -> None:
    sections = []
    for name, content in collect().items():
        if isinstance(content, dict):
            lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
            sections.append(f"{json.dumps(name)}: {{\n{lines}\n}}")
        else:
            sections.append(f"{json.dumps(name)}: {json.dumps(content)}")
    print("{\n" + ",\n".join(sections) + "\n}")


if __name__ == "__main__":
    main()
