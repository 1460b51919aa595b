"""Paths of the clone, the tests, and the sources that other processes must be able to import."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import Any

import dcfw

ROOT = Path(__file__).resolve().parents[2]
TESTS = (ROOT / "tests", ROOT / "studies" / "tests")
PACKAGE = Path(dcfw.__file__).parent  # an editable install has a second folder, of the extension alone
STUDIES = importlib.util.find_spec("dcfw_studies")
SOURCE = os.pathsep.join(
    [str(PACKAGE.parent), *([str(Path(STUDIES.origin).parents[1])] if STUDIES and STUDIES.origin else [])]
)
"""The PYTHONPATH with which other processes import the packages tested here."""


def shell(command: list[str], **environment: str) -> Any:
    """Run a command in which dcfw can be imported."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def in_namespace(command: str, **environment: str) -> Any:
    """Run a shell command with mounts of its own, which are gone at its end."""
    return shell(["unshare", "-rm", "bash", "-c", command], **environment)
