"""Count the files of dcfw that a default call passes through: ``minimize``, ``qap.solve``, a torch step.

    python scripts/life_of_a_call.py [--names]

``sys.setprofile`` records every Python function that runs during the call.  The call is made once
beforehand, so that imports do not count.  ``--names`` prints the files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dcfw

HOME = Path(dcfw.__file__).resolve().parent


def files(call: Callable[[], Any]) -> list[str]:
    """Return the files of dcfw, relative to the package, whose functions a call runs."""
    call()  # lazy imports and caches are not part of the life of a call
    seen: set[str] = set()

    def look(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    paths = (Path(name).resolve() for name in seen if not name.startswith("<"))
    return sorted(str(path.relative_to(HOME)) for path in paths if path.is_relative_to(HOME))


def minimize() -> Callable[[], Any]:
    from dcfw import functions, sets

    f, g = functions.Quadratic(np.diag([1.0, 2.0, 3.0]), np.ones(3)), functions.SquaredNorm(0.5)
    objective, domain = f - g, sets.Simplex(3)
    return lambda: dcfw.minimize(objective, domain)


def qap_solve() -> Callable[[], Any]:
    from dcfw import qap

    A = np.arange(25.0).reshape(5, 5) % 7
    return lambda: qap.solve(A, A[::-1])


def torch_step() -> Callable[[], Any]:
    import torch

    import dcfw.torch

    weight = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = dcfw.torch.DCFW([weight], lr=0.1)
    weight.grad = torch.ones(4, 3)
    return optimizer.step


CALLS = {"minimize": minimize, "qap.solve": qap_solve, "torch step": torch_step}


def main() -> None:
    for name, make in CALLS.items():
        try:
            passed = files(make())
        except ModuleNotFoundError as missing:
            print(f"{name:12} needs {missing.name}")
            continue
        print(f"{name:12} {len(passed):3} files")
        if "--names" in sys.argv[1:]:
            print(*(f"             {path}" for path in passed), sep="\n")


if __name__ == "__main__":
    main()
