"""The graph of imports, read from the syntax trees without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Import(NamedTuple):
    """One imported name: where, from which module, and whether only when a function is called."""

    importer: str
    module: str
    name: str
    late: bool


def imports(source: Path, package: str) -> Iterator[Import]:
    """Yield the imports of all modules of a package in the folder ``source``, type hints' own apart."""
    for file in sorted((source / package).rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        importer = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield from _walk(ast.parse(file.read_text(encoding="utf-8")), importer, late=False)


def _walk(node: ast.AST, importer: str, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(importer, alias.name, "", late)
        elif isinstance(child, ast.ImportFrom) and child.module:
            for alias in child.names:
                yield Import(importer, child.module, alias.name, late)
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _walk(child, importer, late or inside)


def private_uses(source: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) wherever a module uses a private attribute of another of our modules."""
    for file in sorted((source / package).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        parts = file.relative_to(source).with_suffix("").parts
        importer = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules = {}
        for each in _walk(tree, importer, late=False):
            if each.name and each.module.startswith("dcfw"):
                modules[each.name] = f"{each.module}.{each.name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                private = node.attr.startswith("_") and not node.attr.startswith("__")
                if private and node.value.id in modules and node.value.id.islower():
                    yield importer, f"{modules[node.value.id]}.{node.attr}"
