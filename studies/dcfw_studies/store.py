"""The store of a study: one SQLite file that survives whatever happens to the runner.

The promise: **a row that was reported as finished is in the store**, after a crash or a SIGKILL of any
process, and after a power cut as far as SQLite promises.  Each row is one transaction in write-ahead mode
with ``synchronous=FULL``, so it is on the disk, once and whole, before :meth:`Store.finish` returns.

Each table has the key of a task as its primary key:

=========  =====================================================================================
rows       finished tasks: the task, its result, versions of the software, start, seconds
failures   tasks that raised an error or killed their worker, with the traceback, until they succeed
claims     tasks that a runner computes now (see :mod:`dcfw_studies.claims`)
=========  =====================================================================================

No host or user name is stored, so a store can be published.  (A claim identifies a process by its number and
a hash, and is deleted with the end of the row.)
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dcfw_studies import checks
from dcfw_studies.claims import Owner
from dcfw_studies.records import encode_result, software_versions, utc_now
from dcfw_studies.sqlite_file import StoreError, explain, open_to_read, open_to_write
from dcfw_studies.study import RESERVED, Study, Task, canonical, printable
from dcfw_studies.table_file import inert

__all__ = ["Store", "StoreError", "csv_text"]

NUMBERS = {"version": int, "seed": int, "attempts": int, "pid": int, "seconds": float, "expires": float}
"""The columns that are not strings, and their types: SQLite would store anything there."""


Finished = tuple[Task, Mapping[str, Any], float, str, Mapping[str, str]]
"""A row: its task, its result, seconds, start, and versions of the software."""


class Store:
    """Finished rows, failures and claims in one SQLite file.

    Parameters
    ----------
    path : path-like
        The file; it and its folder are created if they do not exist.  ``":memory:"`` keeps the rows in
        memory.
    readonly : bool
        Open an existing store to read it, also from a read-only folder.
    lease : float
        Seconds for which a claim holds without renewal, for owners on other machines.

    Notes
    -----
    A store may be used by several threads and, through one object each, by several processes.  It must
    lie on a local disk: SQLite's write-ahead mode does not work over a network.

    Examples
    --------
    >>> task = Task("bur26a", "fw", 0, study="demo")
    >>> with Store(":memory:") as store:
    ...     stored = store.finish(task, {"error": 0.25}, seconds=1.5)
    ...     store.rows("demo")[0]["error"]
    0.25
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False, lease: float = 120.0) -> None:
        self.path = os.fspath(path)
        self.lease = checks.scalar(lease, "lease", low=0.0, open_low=True)
        self._lock = threading.RLock()
        self._db = open_to_read(self.path) if readonly else open_to_write(self.path)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise explain(error, self.path) from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Hold one transaction: the whole block is stored at its end, or nothing."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                # SQLite has already rolled back after some errors (a full disk is one of them).
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file.  Rows are safe without it."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.path!r})"

    def claim(self, task: Task, owner: Owner) -> str:
        """Try to claim ``task`` for ``owner``.

        Return "claimed", "finished" (its row exists) or "held" (a live runner computes it).
        """
        now = time.time()
        with self._writing() as db:
            if db.execute("SELECT 1 FROM rows WHERE key = ?", (task.key,)).fetchone():
                return "finished"
            columns = "owner, machine, pid, birth, expires"
            found = db.execute(f"SELECT {columns} FROM claims WHERE key = ?", (task.key,)).fetchone()
            if found is not None and found[0] != owner.id and not Owner(*found[:4]).is_gone(found[4], now):
                # A claim that is not renewed ends at most a lease from now.
                latest = min(found[4], now + self.lease)
                db.execute("UPDATE claims SET expires = ? WHERE key = ?", (latest, task.key))
                return "held"
            claim: list[Any] = [task.key, task.study, task.version, task.method]
            claim += [owner.id, owner.machine, owner.pid, owner.birth, now + self.lease]
            db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", claim)
        return "claimed"

    def renew(self, owner: Owner) -> None:
        """Extend the leases of all claims of ``owner``."""
        with self._writing() as db:
            db.execute("UPDATE claims SET expires = ? WHERE owner = ?", (time.time() + self.lease, owner.id))

    def release(self, owner: Owner) -> None:
        with self._writing() as db:
            db.execute("DELETE FROM claims WHERE owner = ?", (owner.id,))

    def finish(
        self,
        task: Task,
        result: Mapping[str, Any],
        *,
        seconds: float,
        started: str | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> bool:
        """Store the row of ``task`` on the disk; return False if it was there already.

        The result has JSON values (NaN and infinities are kept); its entry ``seconds``, if any, overrides the
        argument.  ``started`` (ISO 8601) is now by default, ``versions`` those of this process; empty means
        unknown.
        """
        software = software_versions() if versions is None else versions
        row = (task, result, seconds, utc_now() if started is None else started, software)
        return self.finish_all([row]) == 1

    def finish_all(self, rows: Iterable[Finished]) -> int:
        """Store rows in one transaction, all or none, and return the number of new ones."""
        stored = 0
        with self._writing() as db:
            for task, result, seconds, started, software in rows:
                text = encode_result(task, result)
                seconds = checks.scalar(result.get("seconds", seconds), "seconds", low=0.0)
                stored += db.execute(
                    "INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*_columns(task), text, canonical(dict(software)), started, seconds),
                ).rowcount
                db.execute("DELETE FROM failures WHERE key = ?", (task.key,))
                db.execute("DELETE FROM claims WHERE key = ?", (task.key,))
        return stored

    def fail(self, task: Task, error: str, traceback: str = "") -> None:
        """Store the failure of ``task``: one line, and the traceback."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)"
                " ON CONFLICT (key) DO UPDATE SET error = excluded.error, traceback = excluded.traceback,"
                " failed = excluded.failed, attempts = attempts + 1",
                (*_columns(task), printable(error), printable(traceback), utc_now()),
            )
            db.execute("DELETE FROM claims WHERE key = ?", (task.key,))

    def studies(self) -> list[str]:
        return list(self.newest())

    def newest(self) -> dict[str, int]:
        """Return the names of the studies that have a row or a failure, each with its newest version."""
        columns = ("study", "version")
        found: dict[str, int] = {}
        for table in ("rows", "failures"):
            for name, version in self._records(f"SELECT DISTINCT study, version FROM {table}", columns):
                found[name] = max(version, found.get(name, version))
        return dict(sorted(found.items()))

    def finished_keys(self, study: Study) -> set[str]:
        """Return the keys of the finished tasks of ``study``."""
        return {key for (key,) in self._select(("key",), "rows", study)}

    def rows(self, study: Study | str | None = None, *, versions: bool = False) -> list[dict[str, Any]]:
        """Return finished rows as flat dicts: the task, its settings, its result, seconds, start.

        A :class:`Study` selects the rows of its tasks, in their order; a name all rows of that study in its
        newest version, by dataset, method and seed; None those of all studies. ``versions`` adds the versions
        of the software that computed each row, as a dict.
        """
        task, of = ("study", "dataset", "method", "seed"), ("seconds", "started")
        columns = ("key", *task, *of, "settings", "result", *["versions"] * versions)
        rows = []
        for record in self._select(columns, "rows", study):
            found = dict(zip(columns, record, strict=True))
            row = {name: found[name] for name in task}
            row |= self._decoded(found["settings"], RESERVED) | self._decoded(found["result"], RESERVED)
            row |= {name: found[name] for name in of}
            rows.append(row | ({"versions": self._decoded(found["versions"])} if versions else {}))
        return rows

    def stored(self, study: str) -> list[tuple[Task, dict[str, Any], float, dict[str, str]]]:
        """Return the finished rows of a study as (task, result, seconds, versions)."""
        columns = ("key", "dataset", "method", "seed", "settings", "result", "versions", "seconds")
        version, found = self.newest().get(study, 1), []
        for _, dataset, method, seed, *rest in self._select(columns, "rows", study):
            settings, result, versions, seconds = rest
            task = Task(dataset, method, seed, self._decoded(settings), study, version)
            found.append((task, self._decoded(result), seconds, self._decoded(versions)))
        return found

    def failures(self, study: Study | str | None = None) -> list[dict[str, Any]]:
        """Return the failures without a later success, with ``error``, ``traceback`` and ``attempts``."""
        columns: tuple[str, ...] = ("key", "study", "dataset", "method", "seed", "settings")
        columns += ("error", "traceback", "attempts", "failed")
        records = self._select(columns, "failures", study)
        found = [dict(zip(columns, record, strict=True)) for record in records]
        return [failure | {"settings": self._decoded(failure["settings"])} for failure in found]

    def _decoded(self, text: Any, taken: Sequence[str] = ()) -> dict[str, Any]:
        """Return the JSON object in a column (perhaps of another program); refuse ``taken`` names."""
        try:
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError(f"{type(found).__name__} where an object was expected")
            if not found.keys().isdisjoint(taken):
                raise ValueError(f"an entry {min(found.keys() & set(taken))!r}, which is a column")
        except (TypeError, ValueError, RecursionError) as error:
            raise self._foreign(str(error)) from None
        return found

    def _foreign(self, what: str) -> StoreError:
        text = f"store {self.path}: a row holds what dcfw did not write ({what})"
        return StoreError(f"{text}; use a new path, or delete that row")

    def _records(self, statement: str, columns: Sequence[str], values: Sequence[Any] = ()) -> list[Any]:
        """Return the result of a SELECT of these columns, each value of the type that dcfw writes there."""
        with self._reading() as db:
            found = db.execute(statement, values).fetchall()
        for record in found:
            for name, value in zip(columns, record, strict=True):
                fits = type(value) is NUMBERS.get(name, str)
                if not fits or (name == "seconds" and not 0.0 <= value < math.inf):
                    raise self._foreign(f"{name} is {value!r:.40}")
        return found

    def _select(self, columns: Sequence[str], table: str, study: Study | str | None) -> list[tuple[Any, ...]]:
        """Return the records of a study (the first column must be the key) in a stable order."""
        names = ", ".join(columns)
        select = f"SELECT {names} FROM {table} WHERE study = ? AND version = ?"
        if isinstance(study, Study):
            records = self._records(select, columns, (study.name, study.version))
            by_key = {record[0]: record for record in records}
            return [by_key[task.key] for task in study.tasks if task.key in by_key]
        select += " ORDER BY dataset, method, seed, settings"
        return [
            record
            for name, version in self.newest().items()
            if study is None or name == study
            for record in self._records(select, columns, (name, version))
        ]

    def versions(self, study: str | None = None) -> list[dict[str, str]]:
        """Return the sets of software versions that computed the rows of the newest version of each study.

        An empty set stands for rows from a file without versions.
        """
        select = "SELECT DISTINCT versions FROM rows WHERE study = ? AND version = ?"
        found = {
            text
            for name, version in self.newest().items()
            if study is None or name == study
            for (text,) in self._records(select, ("versions",), (name, version))
        }
        return [self._decoded(text) for text in sorted(found)]

    def status(self) -> list[dict[str, Any]]:
        """Return one dict per study, version and method: rows done, failed, running, seconds in all."""
        now = time.time()
        table: dict[tuple[str, int, str], dict[str, Any]] = {}

        def entry(study: str, version: int, method: str) -> dict[str, Any]:
            new = {"study": study, "version": version, "method": method}
            new |= {"done": 0, "failed": 0, "running": 0, "seconds": 0.0}
            return table.setdefault((study, version, method), new)

        def records(name: str, *more: str) -> list[Any]:
            columns = ("study", "version", "method", *more)
            return self._records(f"SELECT {', '.join(columns)} FROM {name} ORDER BY key", columns)

        for *point, seconds in records("rows", "seconds"):
            entry(*point)["done"] += 1
            entry(*point)["seconds"] += seconds
        for point in records("failures"):
            entry(*point)["failed"] += 1
        claims = records("claims", "owner", "machine", "pid", "birth", "expires")
        for study, version, method, *owner, expires in claims:
            if not Owner(*owner).is_gone(expires, now):
                entry(study, version, method)["running"] += 1
        return [table[point] for point in sorted(table)]

    def export_csv(self, path: str | os.PathLike[str], study: Study | str, *, versions: bool = False) -> int:
        """Write the rows of ``study`` as a CSV file, whole or not at all, and return their number.

        The arguments and columns are those of :meth:`rows`; a list or dict in a column is written as JSON.
        """
        rows, target = self.rows(study, versions=versions), Path(path)
        if target.is_dir():
            raise IsADirectoryError(f"{target} is a folder: give the name of a file")
        if not rows:
            name = study.name if isinstance(study, Study) else study
            known = ", ".join(self.studies()) or "none"
            raise ValueError(f"study {name!r} has no finished row in {self.path}; studies there: {known}")
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            draft.write_text(csv_text(rows), encoding="utf-8", newline="")
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        return len(rows)


def _columns(task: Task) -> tuple[Any, ...]:
    settings = canonical(task.settings)
    return task.key, task.study, task.version, task.dataset, task.method, task.seed, settings


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return flat rows as CSV text, with a column for every name that occurs."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, restval="")
    writer.writerow({name: inert(name) for name in names})
    for row in rows:
        nested = {k: canonical(v, allow_nan=True) for k, v in row.items() if isinstance(v, list | dict)}
        writer.writerow({name: nested[name] if name in nested else inert(v) for name, v in row.items()})
    return printable(buffer.getvalue())
