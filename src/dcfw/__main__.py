"""The command line, ``dcfw`` or ``python -m dcfw``, which needs the extra ``cli``."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run the command line, or exit with the name of a missing package."""
    for package in ("typer", "rich"):
        if importlib.util.find_spec(package) is None:
            sys.exit(f'dcfw: the command line needs {package}: pip install "dcfw[cli]"')
    from dcfw.cli import app

    app(prog_name="dcfw")


if __name__ == "__main__":
    main()
