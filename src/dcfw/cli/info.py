"""``dcfw info``: installed packages, settings, and the data that are found."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
from typing import Any

import typer

from dcfw.cli.application import AsJson

PACKAGES = (
    *("numpy", "scipy", "array-api-compat", "joblib", "typer", "rich"),
    *("torch", "matplotlib", "networkx", "scikit-learn", "threadpoolctl", "copt"),
)
DATA_SETS = ("qaplib", "embeddings", "cifar10")
EXTRAS = {  # the packages that ``pip install "dcfw[EXTRA]"`` installs
    "cli": ("typer", "rich"),
    "parallel": ("joblib",),
    "plots": ("matplotlib",),
    "graphs": ("networkx",),
    "sklearn": ("scikit-learn",),
    "torch": ("torch",),
}


def info(as_json: AsJson = False) -> None:
    """Show versions, extras, BLAS, threads and the data that are found.

    Put the output into a bug report, or beside the numbers of a study.

    \b
    Examples:
      dcfw info
      dcfw info --json
    """
    from dcfw import kernels

    found = collect()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"dcfw {found['dcfw']}, Python {found['python']} on {found['platform']}")
    state = "compiled" if found["kernels"] else f"missing, NumPy and SciPy instead: {kernels.REMEDY}"
    typer.echo(f"kernels: {state}")
    typer.echo("\npackages")
    for name, version in found["packages"].items():
        typer.echo(f"  {name:<18}{version or 'not installed'}")
    typer.echo("\nextras")
    for name, missing in found["extras"].items():
        state = f'missing {", ".join(missing)}: pip install "dcfw[{name}]"' if missing else "installed"
        typer.echo(f"  {name:<18}{state}")
    typer.echo("\nBLAS and threads")
    for pool in found["blas"]:
        typer.echo(f"  {pool['name']} {pool['version'] or ''}, threads: {pool['threads'] or 'unknown'}")
    typer.echo(f"  processors for this process: {found['cpus']}")
    for name, value in found["environment"].items():
        typer.echo(f"  {name}={value}")
    typer.echo("\ndata")
    absent = f"not found (looked in {found['data_folder']})"
    for name, place in found["data"].items():
        typer.echo(f"  {name:<18}{place or absent}")


def collect() -> dict[str, Any]:
    """Return the data that ``dcfw info`` shows."""
    import dcfw
    from dcfw import data, kernels

    versions: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    places: dict[str, str | None] = dict.fromkeys(DATA_SETS)
    for name in DATA_SETS:
        with contextlib.suppress(FileNotFoundError):
            places[name] = str(data.find(name))
    threads = sorted(name for name in os.environ if name.endswith("_NUM_THREADS"))
    return {
        "dcfw": dcfw.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "kernels": kernels.native is not None,
        "packages": versions,
        "extras": {key: [name for name in EXTRAS[key] if versions[name] is None] for key in EXTRAS},
        "blas": _blas(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "environment": {name: os.environ[name] for name in threads},
        "data_folder": str(data.data_folder()),
        "data": places,
    }


def _blas() -> list[dict[str, Any]]:
    """Return the BLAS and OpenMP libraries in use, or the one NumPy was built with."""
    import numpy as np

    try:
        import scipy.linalg  # noqa: F401  (its own BLAS is loaded with it)
        from threadpoolctl import threadpool_info
    except ImportError:
        built: Any = np.show_config(mode="dicts")
        blas = built.get("Build Dependencies", {}).get("blas", {})
        return [{"name": blas.get("name", "unknown"), "version": blas.get("version"), "threads": None}]
    pools = [
        {"name": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpool_info()
        if pool["user_api"] in ("blas", "openmp")  # SciPy's reader of matrix files registers its own
    ]
    return [pool for place, pool in enumerate(pools) if pool not in pools[:place]]
