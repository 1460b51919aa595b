"""The studies by name, each with a quick part and the whole, for ``dcfw-studies reproduce``.

A quick part is a part of the whole: its rows have the same keys, so ``--full`` on the same store continues
from them.  The modules of the studies are loaded on use, so that listing the catalogue is cheap and a missing
extra is an error only of the study that needs it.

>>> sorted(CATALOGUE)
['alignment', 'gaps', 'inner', 'networks', 'qap']
>>> CATALOGUE["inner"].time(full=False, n_jobs=2)
'about 2 minutes on 2 processes'
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dcfw_studies.study import Study, Task


@dataclass(frozen=True)
class Part:
    """One way to run a study: a description, and how to make it from the study's module.

    The ``minutes`` are for one core of the machine on which the results in the repository were computed,
    partly extrapolated unless ``measured``; ``data`` names the data sets it needs (:mod:`dcfw.data`).
    """

    what: str
    minutes: float
    make: Callable[[Any], Study]
    data: tuple[str, ...] = ()
    measured: bool = True


@dataclass(frozen=True)
class Entry:
    """A study: the name of its module, its question in a line, and the extras of the packages it needs."""

    name: str
    about: str
    quick: Part
    full: Part
    packages: Mapping[str, str] = field(default_factory=dict)

    def part(self, full: bool) -> Part:
        return self.full if full else self.quick

    def study(self, full: bool, settings: Sequence[str] | None = None) -> Study:
        """Make a part of the study, or one from NAME=VALUE settings.

        Errors name the extra to install for a missing package, or how to get missing data.
        """
        from dcfw import data

        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if missing:
            extras = ",".join(dict.fromkeys(self.packages[package] for package in missing))
            raise ModuleNotFoundError(
                f'the study {self.name!r} needs {", ".join(missing)}: pip install "dcfw-studies[{extras}]"',
                name=missing[0],
            )
        part = self.part(full)
        for name in part.data:
            data.find(name)
        module = importlib.import_module(f"dcfw_studies.{self.name}")
        if not settings:
            return part.make(module)
        from dcfw_studies.commands.settings import settings_for

        chosen: Study = module.study(**settings_for(module.study, settings))
        return chosen

    def write_report(
        self, store: str, folder: str | Path, settings: Sequence[str] | None = None
    ) -> list[Path]:
        """Write tables and figures beside the published numbers into ``folder``; return the files."""
        from dcfw_studies.commands.settings import settings_for
        from dcfw_studies.report import write_report

        files = importlib.import_module(f"dcfw_studies.{self.name}_report").files
        return write_report(self.name, store, folder, **settings_for(files, settings))

    def time(self, full: bool, n_jobs: int | None) -> str:
        """Describe how long it takes on ``n_jobs`` processes (None if their number is not known)."""
        part = self.part(full)
        minutes = part.minutes / (n_jobs or 1)
        amount, unit = (minutes / 60.0, "hour") if minutes >= 90.0 else (minutes, "minute")
        number = f"{math.ceil(amount)} {unit}" + ("s" if amount > 1.0 else "")
        place = "of one core's time" if n_jobs is None else f"on {n_jobs} process" + "es" * (n_jobs != 1)
        return f"about {number} {place}" + ("" if part.measured else " (extrapolated)")


def _only(study: Study, keep: Callable[[Task], bool]) -> Study:
    tasks = [task for task in study.tasks if keep(task)]
    return replace(study, datasets=(), methods=(), seeds=(), tasks=tasks)


def _tenth(task: Task) -> bool:
    return bool(task.settings["rate"] == 0.1)


_PAPER_QAP = ("fw", "dcfw-1", "dcfw-2", "dcfw-3", "cgs")
_OURS_QAP = ("dcfw-spectral", "blended-1", "blended-spectral", "best")

CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(
            "gaps",
            "the paper's figure 1: what the gaps of two splits look like near minima, saddles and maxima",
            quick=Part(
                "gap_PGM, gap_PPM, the FW gap and the gaps of two splits on a fine grid: all of it",
                1.0,
                lambda module: module.study(),
            ),
            full=Part("the same as --quick", 1.0, lambda module: module.study()),
        ),
        Entry(
            "qap",
            "quadratic assignment: DC-FW against Frank-Wolfe and conditional gradient sliding on QAPLIB",
            quick=Part(
                "FW and DC-FW (variant 1; vanilla and blended inner steps) on the 77 QAPLIB instances with "
                "n <= 30, from one start each; the whole has 9 methods, 134 instances, 10 starts",
                1.0,
                lambda module: module.study(("fw", "dcfw-1", "blended-1"), seeds=1, max_n=30),
                data=("qaplib",),
            ),
            full=Part(
                "the paper's 5 methods and 4 of ours on all 134 instances of the paper, from 10 starts each",
                160 * 60.0,
                lambda module: module.study((*_PAPER_QAP, *_OURS_QAP), seeds=10),
                data=("qaplib",),
                measured=False,
            ),
        ),
        Entry(
            "alignment",
            "alignment of partially observed embeddings: DC-FW, FW-K and FW-M",
            quick=Part(
                "DC-FW, FW-K and FW-M with 1000 steps on planted data (d = 300, 10,000 words, 10 % "
                "observed), one seed; the whole has 10,000 steps, real word vectors, five rates, three seeds",
                2.7,
                lambda module: _only(module.study(("rates",), 1, ("planted",)), _tenth),
            ),
            full=Part(
                "10,000 steps at 10 % observed, 1000 steps at five rates and three seeds, and the choices of "
                "lambda, scaling and steps, on planted and real data",
                205.0,
                lambda module: module.study(),
                data=("embeddings",),
            ),
        ),
        Entry(
            "networks",
            "training networks in a box that grows: DC-FW against Frank-Wolfe and SGD",
            quick=Part(
                "DC-FW, FW, SFW, SGD and AdamW on the convolutional network and scikit-learn's digits, 30 "
                "epochs, one seed; the whole has five, and two networks on CIFAR-10",
                2.0,
                lambda module: _only(
                    module.study(("digits",), seeds=1),
                    lambda task: task.method in ("dcfw", "fw", "sfw", "sgd", "adamw"),
                ),
            ),
            full=Part(
                "digits with five seeds; on CIFAR-10 a linear head on features with three and the "
                "convolutional network with one; optimizers on a byte-level GPT with three",
                8 * 60.0,
                lambda module: module.study(),
                data=("cifar10",),
                measured=False,
            ),
            packages={"torch": "networks", "sklearn": "networks"},
        ),
        Entry(
            "inner",
            "which inner solver and which split: nine families of problems",
            quick=Part(
                "4 inner solvers on all splits of 9 families of problems, one instance of each; the whole "
                "has 10",
                2.1,
                lambda module: module.study(seeds=1),
            ),
            full=Part(
                "4 inner solvers on all splits of 9 families of problems, 10 instances each",
                20.0,
                lambda module: module.study(seeds=10),
            ),
        ),
    )
}
"""Name -> entry, in the order in which ``dcfw-studies reproduce all`` runs them."""
