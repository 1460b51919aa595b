"""A hash of the code that can decide a row: the modules which the row's function imports, directly or not.

A row carries it among its versions, under the name ``code``.  A row with another hash is *unverified*: the
code has changed, and a rerun shows whether the result has (:mod:`dcfw_studies.row_checks`).

Comments, docstrings and line breaks do not count.  Imports are read from the source, including those inside
functions; names that a package loads lazily are followed through its table.  Compiled kernels count through
the hash of their sources, which the build writes into the extension.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
from functools import cache
from pathlib import Path

PACKAGES = ("dcfw", "dcfw_studies")
NO_RESULTS = ("dcfw.plots", "dcfw.cli", "dcfw.progress", "dcfw_studies.store", "dcfw_studies.table_file")
"""Modules that show or keep rows and do not compute any."""


@cache
def code_hash(module: str) -> str:
    """Return the hash of a module and of all modules of this project that it can import."""
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in found and not name.startswith(NO_RESULTS):
            found.add(name)
            waiting += _imports(name)
    digests = [f"{name} {_digest(name)}" for name in sorted(found)]
    if "dcfw.kernels" in found:
        from dcfw import kernels

        digests.append(f"native {getattr(kernels.native, 'source_hash', 'absent')}")
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:16]


@cache
def _source(module: str) -> Path | None:
    root, *parts = module.split(".")
    if root not in PACKAGES:
        return None
    home = Path(str(importlib.import_module(root).__file__)).parent.joinpath(*parts)
    return next((f for f in (home.with_suffix(".py"), home / "__init__.py") if f.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    source = _source(module)
    tree = ast.parse(source.read_text(encoding="utf-8") if source else "")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


@cache
def _digest(module: str) -> str:
    return hashlib.sha256(ast.dump(_tree(module)).encode()).hexdigest()


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Return the modules of this project that a module imports, also lazily."""
    found = []
    packages = {}  # local name -> the package that it stands for
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if _source(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and _source(node.module):
            if node.module not in PACKAGES:  # a root package only passes names on
                found.append(node.module)
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                packages[alias.asname or alias.name] = inside
                found.append(inside if _source(inside) else _home(node.module, alias.name))
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = packages.get(node.value.id, "")
            if _source(package):
                found.append(_home(package, node.attr))
    return tuple(found)


@cache
def _homes(package: str) -> dict[str, str]:
    """Return the tables of a package that map lazily loaded names to their modules."""
    found = {}
    for node in ast.walk(_tree(package)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    home = str(value.value)
                    found[str(key.value)] = home if home.startswith(PACKAGES) else f"{package}.{home}"
    return found


def _home(package: str, name: str) -> str:
    """Return the module that defines a name of a package (the package itself if no table says)."""
    home = _homes(package).get(name, package)
    return home if _source(home) else package
