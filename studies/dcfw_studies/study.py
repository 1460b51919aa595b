"""A study: a name, a list of tasks, and one function that turns a task into a row.

A *task* is a point of datasets x methods x seeds together with the settings of the study.  Its *key* is a
hash of everything that decides its result, so that a store can recognise it:

- the same task asked for tomorrow, or in another order, has the same key and is not run again;
- another tolerance in the settings, or another study version, has another key and is run.

The hash does not include the code.  Raise ``version`` when a change of the row function changes its results;
rows of older versions stay in the store but are no longer shown.

Random numbers are derived from the task alone, so a row does not depend on the process that computed it, nor
on the rows computed before it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dcfw_studies import checks

RESERVED = ("key", "study", "version", "dataset", "method", "seed", "started")
"""Columns of every row that no setting or result may use (results may use ``seconds``, settings may not)."""


def printable(text: str) -> str:
    r"""Return a string that every file accepts: characters that are not Unicode are escaped.

    Python makes such characters of file names that are not UTF-8.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any) -> Any:
    """Convert NumPy scalars and arrays to JSON values."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a number, a string, a list or a dict")


def _check_names(value: Any) -> None:
    # json.dumps would silently turn the key 1 into "1", and two tasks into one.
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"the name {name!r} is not a string")
        value = list(value.values())
    if isinstance(value, list | tuple):
        for entry in value:
            _check_names(entry)


def canonical(value: Any, name: str = "value", *, allow_nan: bool = False) -> str:
    """Return ``value`` as canonical JSON: sorted names, no blanks, NumPy numbers as plain ones."""
    try:
        _check_names(value)
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain, allow_nan=allow_nan)
    except (TypeError, ValueError, RecursionError) as error:
        raise type(error)(f"{name} must hold JSON values only: {error}") from None


def rng_for(*parts: Any) -> np.random.Generator:
    """Return a generator that depends on ``parts`` only, the same on every machine and in every process.

    The parts are JSON values: a row function uses ``rng_for(dataset, seed)`` for the same random start for
    all methods, and adds ``method`` for different ones.

    Examples
    --------
    >>> bool(rng_for("bur26a", 0).random() == rng_for("bur26a", 0).random())
    True
    """
    digest = hashlib.sha256(canonical(list(parts), "the parts of rng_for").encode()).digest()
    return np.random.default_rng(np.random.SeedSequence(int.from_bytes(digest, "big")))


@dataclass(frozen=True)
class Task:
    """One row to compute: a dataset, a method (the row function knows these names) and a seed.

    The row function gets the settings, JSON values, as keyword arguments; :class:`Study` fills in its name
    and version.
    Examples
    --------
    >>> task = Task("bur26a", "dcfw", 0, {"tol": 1e-3})
    >>> task.key == Task("bur26a", "dcfw", 0, {"tol": 0.001}).key
    True
    """

    dataset: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    study: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        for name in ("dataset", "method", "study"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {type(value).__name__}")
            if printable(value) != value:
                raise ValueError(f"{name} must be Unicode text, got {value!a}: no store takes it")
        object.__setattr__(self, "seed", checks.integer(self.seed, "seed", high=2**63 - 1))
        object.__setattr__(self, "version", checks.integer(self.version, "version", low=1))
        if not isinstance(self.settings, Mapping):
            raise TypeError(f"settings must be a dict, got {type(self.settings).__name__}")
        taken = sorted(set(self.settings) & {*RESERVED, "seconds"})
        if taken:
            raise ValueError(f"settings must not be called {', '.join(taken)}: every row has such a column")
        # Normalised as in the key: a tuple becomes a list for the run as well.
        object.__setattr__(self, "settings", json.loads(canonical(dict(self.settings), "settings")))

    @cached_property
    def key(self) -> str:
        """The sha256 of everything that decides the result, as 64 hexadecimal digits."""
        names = ("study", "version", "dataset", "method", "seed", "settings")
        return hashlib.sha256(canonical({name: getattr(self, name) for name in names}).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.dataset}/{self.method}/{self.seed}"

    def rng(self) -> np.random.Generator:
        """Return a new generator of this task alone, seeded by its key (see also :func:`rng_for`)."""
        return np.random.default_rng(np.random.SeedSequence(int(self.key, 16)))


Row = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Study:
    """A set of rows to compute: the tasks, and the function that computes one.

    Parameters
    ----------
    name : str
        Name of the study in the store.
    run : callable
        ``run(dataset, method, seed, **settings)`` returns a dict of JSON values (numbers, strings, short
        lists).  It must be pure: the same arguments, the same row (see :func:`rng_for`).  An entry
        ``seconds`` is the time of the row (say, of the solver without its metrics); by default that is the
        time of the whole call.
    datasets, methods, seeds : sequences
        The tasks are their product, in this order.
    settings : dict
        Keyword arguments of every row.
    tasks : sequence of Task, optional
        The tasks themselves, in place of a product.  A task's own settings override those of the study.
    cost : callable, optional
        ``cost(task)`` is a guess of the time of a row, in any unit.  The longest rows are started first.
    version : int
        Raise it when a change of ``run`` changes its results.

    Examples
    --------
    >>> def row(dataset, method, seed):
    ...     return {"value": seed}
    >>> study = Study("demo", row, ["small", "large"], ["fw", "dcfw"], range(3))
    >>> len(study.tasks), str(study.tasks[0])
    (12, 'small/fw/0')
    >>> Study("demo", row, tasks=[Task("small", "fw", 0)]).tasks[0].key == study.tasks[0].key
    True
    """

    name: str
    run: Row
    datasets: Sequence[str] = ()
    methods: Sequence[str] = ()
    seeds: Sequence[int] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: Sequence[Task] = ()
    cost: Callable[[Task], float] | None = None
    version: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must be a string that is not empty, got {self.name!r}")
        if not callable(self.run):
            raise TypeError(f"run must be callable, got {type(self.run).__name__}")
        for name in ("datasets", "methods", "seeds"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise TypeError(f"{name} must be a list, got the string {value!r}; write [{value!r}]")
            object.__setattr__(self, name, tuple(value))
        given = tuple(self.tasks)
        if given and (self.datasets or self.methods or self.seeds):
            raise ValueError("give either tasks or datasets, methods and seeds, not both")
        product = itertools.product(self.datasets, self.methods, self.seeds)
        given = given or tuple(itertools.starmap(Task, product))
        tasks = tuple(
            replace(task, settings={**self.settings, **task.settings}, study=self.name, version=self.version)
            for task in given
        )
        counts = Counter(task.key for task in tasks)
        twice = [str(task) for task in tasks if counts[task.key] > 1]
        if twice:
            raise ValueError(f"tasks must differ, but these are there more than once: {twice[0]}")
        object.__setattr__(self, "tasks", tasks)

    def ordered(self) -> list[Task]:
        """Return the tasks with the longest first (in the given order without ``cost``)."""
        cost = self.cost or (lambda task: 0.0)
        return sorted(self.tasks, key=lambda task: -float(cost(task)))
