"""Records of rows: the result as JSON, the time of the computation, and the software."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from dcfw_studies import checks
from dcfw_studies.study import RESERVED, Task, canonical


def utc_now() -> str:
    """Return the time as ISO 8601 text in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def software_versions() -> dict[str, str]:
    """Return the versions of Python, NumPy, SciPy and dcfw, without importing the heavy ones.

    If PyTorch is loaded, the row may have used it: its version and the processor, on which the rounding of
    its products depends, are included.
    >>> sorted(set(software_versions()) - {"torch", "instructions"})
    ['dcfw', 'numpy', 'python', 'scipy']
    """
    import dcfw

    loaded = "torch" in sys.modules
    found = {"python": platform.python_version(), "dcfw": dcfw.__version__}
    found |= {name: _installed(name) for name in ("numpy", "scipy", *["torch"] * loaded)}
    if loaded:
        found["instructions"] = instructions()
    return found


@cache
def instructions() -> str:
    """Return what decides the kernels of PyTorch: its instructions, and on Linux the kind of processor."""
    import torch

    words = [str(torch.backends.cpu.get_cpu_capability())]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        known = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        words += [known[name] for name in ("vendor_id", "cpu family", "model") if name in known]
    return " ".join(words)


@cache
def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def software_text(versions: Mapping[str, Any]) -> str:
    """Return versions of software as a line.

    >>> software_text({"scipy": "1.17.1", "numpy": "2.4.6"}), software_text({})
    ('numpy 2.4.6, scipy 1.17.1', 'not known')
    """
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or "not known"


def encode_result(task: Task, result: Any) -> str:
    """Return a row's result as JSON; raise an error unless it is a dict of JSON values with free names."""
    if not isinstance(result, Mapping):
        raise TypeError(f"the row function must return a dict, got {type(result).__name__}")
    text = canonical(dict(result), "the result", allow_nan=True)
    clean = json.loads(text)
    if "seconds" in clean:
        checks.scalar(clean["seconds"], "the result's seconds", low=0.0)
    taken = [name for name in clean if name in RESERVED]
    taken += [name for name, value in task.settings.items() if name in clean and clean[name] != value]
    if taken:
        raise ValueError(
            f"the result must not change the column(s) {', '.join(taken)} of the task: use other names"
        )
    return text
