"""Every example in the docstrings of the library runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import dcfw

MODULES = [
    "dcfw",
    *sorted(m.name for m in pkgutil.walk_packages(dcfw.__path__, "dcfw.") if "__main__" not in m.name),
]
OPTIONAL = ("torch", "matplotlib", "networkx", "pandas", "jax", "sklearn", "dask")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name and missing.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"needs {missing.name}, which is not installed")
        raise
    failed, _ = doctest.testmod(module, extraglobs={"np": np, "dcfw": dcfw})
    assert failed == 0


def test_the_core_has_examples():
    counted = 0
    finder = doctest.DocTestFinder()
    for name in (
        "dcfw",
        "dcfw._minimize",
        "dcfw._check",
        "dcfw.splits",
        "dcfw.steps",
        "dcfw.functions.quadratic",
    ):
        counted += sum(bool(test.examples) for test in finder.find(importlib.import_module(name)))
    assert counted >= 10
