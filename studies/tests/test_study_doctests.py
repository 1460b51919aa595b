"""Every example in the docstrings of the studies runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np

import dcfw_studies

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dcfw_studies.__path__, "dcfw_studies.")
    if "__main__" not in module.name
)
OPTIONAL = ("torch", "sklearn", "distributed")


def test_the_examples_of_the_studies_run():
    examples = 0
    for name in ("dcfw_studies", *MODULES):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] in OPTIONAL:
                continue
            raise
        failed, attempted = doctest.testmod(module, extraglobs={"np": np})
        assert failed == 0, name
        examples += attempted
    assert examples > 40  # a few need PyTorch
