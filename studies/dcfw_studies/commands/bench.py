"""``dcfw-studies bench``: measure this installation with the benches of the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from dcfw_studies.commands.settings import AsJson


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which benches; all by default.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Larger instances and more passes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare dcfw with its peers on this machine: ours, peer, ratio.

    A ratio above 1 says that ours is better. Each bench takes less than a minute; run them on an idle
    machine. They are part of the repository, not of the installed package: run this in a clone.

    \b
    Examples:
      dcfw-studies bench
      dcfw-studies bench qap lap
      dcfw-studies bench imports --json
      dcfw-studies bench core --full
    """
    root = find()
    for name in names or ["all"]:
        command = [sys.executable, "-m", "bench", name, *["--full"] * full, *["--json"] * as_json]
        # In a process of its own, since the number of BLAS threads is set before NumPy is loaded.
        code = subprocess.run(command, cwd=root, check=False).returncode
        if code:
            raise typer.Exit(code)


def find() -> Path:
    """Return the folder of the clone that holds ``bench``: of this package, or of the working folder."""
    import dcfw

    here = Path.cwd()
    for folder in (Path(dcfw.__file__).resolve().parents[2], here, *here.parents):
        if (folder / "bench" / "__main__.py").is_file() and (folder / "src" / "dcfw").is_dir():
            return folder
    raise FileNotFoundError(
        f"the benches are not part of the installed package, and {here} is not in a clone of the repository: "
        "clone it, change to its folder and run this command there"
    )
