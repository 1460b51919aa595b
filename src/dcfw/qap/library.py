"""The instances of QAPLIB in the data folder, with the best values known for them.

The best values come with dcfw, the permutations from the ``.sln`` files in the folder, which are checked.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from dcfw import _validate, data
from dcfw.qap.checksums import checksum, checksums
from dcfw.qap.instances import MARK, Instance, read_instance, read_solution
from dcfw.qap.objective import evaluate

NOT_IN_PAPER = frozenset({"tai10a", "tai10b"})  # in QAPLIB's archive but not on its web list


def load(name: str) -> Instance:
    """Return the QAPLIB instance ``name`` from the data folder, with the best value known for it.

    The folder is ``qaplib`` in the one named by the environment variable ``DCFW_DATA``, or in the cache
    folder, where ``dcfw-studies fetch qaplib`` puts it.  A file with the name of an instance of QAPLIB but
    other numbers gets no best value.

    Raises
    ------
    FileNotFoundError
        If there is no such data folder.
    KeyError
        If it has no instance of that name; the message lists similar names.
    ValueError
        If the file or the ``.sln`` file beside it is damaged.

    Examples
    --------
    >>> load("nug12")  # doctest: +SKIP
    Instance('nug12', n=12, best=578, status='optimal')
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'nug12', got {type(name).__name__}")
    available = names()
    if name not in available:
        near = difflib.get_close_matches(name.lower(), available, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "dcfw.qap.names() lists them"
        if name.lower().endswith((".dat", ".sln")):
            hint = "name is an instance's name, not a file; to read a file use dcfw.qap.read(path)"
        raise _UnknownName(f"name {name!r} is not a QAPLIB instance in {data.find('qaplib')}: {hint}")
    file = data.find(f"qaplib/{name}.dat")
    instance = read_instance(file)
    best, status = best_known(file)
    permutation = _known_permutation(file.with_suffix(".sln"), instance)
    if permutation is not None:
        value = evaluate(instance.A, instance.B, permutation)
        if best is None or value < best:
            best, status = value, "best_known"
    return replace(instance, best=best, status=status, permutation=permutation)


def names(paper: bool = False) -> list[str]:
    """Return the names of the instances in the data folder, by family and then by size.

    Parameters
    ----------
    paper : bool
        Only those of QAPLIB's web list, which the paper's study uses (134 when all are there).

    Examples
    --------
    >>> names(paper=True)[:2]  # doctest: +SKIP
    ['bur26a', 'bur26b']
    """
    paper = _validate.flag(paper, "paper")
    folder = data.find("qaplib")
    found = [file.stem for file in folder.glob("*.dat")]
    if paper:
        known = shipped_best().keys() - NOT_IN_PAPER
        found = [name for name in found if name in known]
    return sorted(found, key=lambda name: re.sub(r"\d+", lambda digits: f"{int(digits[0]):09}", name))


@cache
def shipped_best() -> dict[str, tuple[int, str]]:
    text = resources.files("dcfw.qap").joinpath("best_known.json").read_text(encoding="utf-8")
    return {name: (int(value), str(status)) for name, (value, status) in json.loads(text).items()}


class _UnknownName(KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


def best_known(file: Path) -> tuple[int | float | None, str | None]:
    """Return the best value and its status if a file has the name and the numbers of one of QAPLIB's."""
    known = checksums().get(file.stem)
    if known is None or checksum(file.read_bytes().removeprefix(MARK)) != known:
        return None, None
    return shipped_best()[file.stem]


def _known_permutation(file: Path, instance: Instance) -> np.ndarray | None:
    """Return the permutation of a ``.sln`` file if it exists, or its inverse if that is better."""
    if not file.is_file():
        return None
    solution = read_solution(file)
    if solution.n != instance.n:
        raise ValueError(f"{file}: a permutation of {solution.n} for an instance of size {instance.n}")
    p = solution.permutation
    return min(p, np.argsort(p), key=lambda q: evaluate(instance.A, instance.B, q))
