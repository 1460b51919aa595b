"""The SQLite file of a store: creation, opening, checks, and the meaning of its errors.

A file is untrusted: the header is read before anything is written, so a text file, another program's database
or a store of a newer dcfw is named and left unchanged.  A view in the place of a table would run any query
(one without an end, for example), so the tables are compared with those that are created here.

Write-ahead mode (WAL) with ``synchronous=FULL`` is the basis of the promise of :mod:`dcfw_studies.store`: a
commit is one synchronised append to a log, and readers do not wait for writers.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

APPLICATION_ID = 0x64634657  # "dcFW" in the file's header: tells a store from other SQLite files
SCHEMA = 1

_TASK = (
    "key TEXT PRIMARY KEY, study TEXT, version INTEGER,"
    " dataset TEXT, method TEXT, seed INTEGER, settings TEXT"
)
_TABLES = (
    f"CREATE TABLE rows ({_TASK}, result TEXT, versions TEXT, started TEXT, seconds REAL) WITHOUT ROWID",
    f"CREATE TABLE failures ({_TASK}, error TEXT, traceback TEXT, attempts INTEGER, failed TEXT)"
    " WITHOUT ROWID",
    "CREATE TABLE claims (key TEXT PRIMARY KEY, study TEXT, version INTEGER, method TEXT,"
    " owner TEXT, machine TEXT, pid INTEGER, birth TEXT, expires REAL) WITHOUT ROWID",
    "CREATE INDEX rows_by_study ON rows (study, version)",
)
_NAMES = {statement.split()[2]: statement for statement in _TABLES}


class StoreError(RuntimeError):
    """A store cannot be opened, read or written; the message says what to do and what is kept.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dcfw_studies import Store, StoreError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("not a store " * 100)
    ...     try:
    ...         Store(path)
    ...     except StoreError as error:
    ...         print("notes.txt" in str(error))
    True
    """


def _primary(error: sqlite3.Error) -> int:
    # The low byte is the primary code; SQLite puts details (which call failed) above it.
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def explain(error: sqlite3.Error, path: str) -> StoreError:
    """Return the error that explains an SQLite error and its meaning for the rows of the study."""
    kept = "every row reported as finished is kept; run the study again to go on from there"
    locked = f"another process kept the store locked for too long; {kept}"
    read_only = "the store or its folder is read-only: make both writable, or copy the store elsewhere"
    texts = {
        sqlite3.SQLITE_FULL: f"the disk is full: the row could not be stored. Free some space; {kept}",
        sqlite3.SQLITE_READONLY: read_only,
        sqlite3.SQLITE_PERM: read_only,
        sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: check that its folder exists and is writable",
        sqlite3.SQLITE_NOTADB: "this file is not a store of dcfw (nor any SQLite file): give another path",
        sqlite3.SQLITE_CORRUPT: "the file is damaged: save what can be read with `sqlite3 STORE .recover`, "
        "or use a new path",
        sqlite3.SQLITE_BUSY: locked,
        sqlite3.SQLITE_LOCKED: locked,
        sqlite3.SQLITE_IOERR: f"reading or writing failed (a full quota, or a disk that went away?); {kept}",
    }
    return StoreError(f"store {path}: {texts.get(_primary(error), str(error))} [SQLite: {error}]")


def open_to_write(path: str) -> sqlite3.Connection:
    """Open the store at ``path`` (``":memory:"`` for none on disk), and create it if it does not exist."""
    uri = "file::memory:" if path == ":memory:" else f"{Path(path).absolute().as_uri()}?mode=rwc"
    try:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        db = _connect(uri)
    except OSError as error:
        message = f"store {path}: its folder cannot be made ({error.strerror}); give another path"
        raise StoreError(message) from error
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        # Read before writing anything: the file may belong to another program.
        _check_schema(db, path)
        _enter_wal(db)
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA fullfsync=ON")  # on macOS fsync alone does not reach the disk
        db.execute("BEGIN IMMEDIATE")
        if not _check_schema(db, path):  # again, since another runner may have been faster
            for statement in _TABLES:
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={SCHEMA}")
        db.execute("COMMIT")
    except BaseException as error:
        db.close()
        if isinstance(error, sqlite3.Error):
            raise explain(error, path) from error
        raise
    return db


def open_to_read(path: str) -> sqlite3.Connection:
    """Open the existing store at ``path``, also in a folder that cannot be written."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no store at {path}")
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        try:
            return _checked(uri, path)
        except sqlite3.OperationalError as error:
            # A read-only folder has no place for the files of write-ahead mode, and no writer either:
            # the file can be read as it stands, unless such a file with finished rows lies beside it.
            beside = Path(path + "-wal")
            left = beside.exists() and beside.stat().st_size > 0
            if left or _primary(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        return _checked(uri + "&immutable=1", path)
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _connect(uri: str) -> sqlite3.Connection:
    # Autocommit (isolation_level=None): every transaction begins and ends explicitly.
    db = sqlite3.connect(uri, uri=True, timeout=60.0, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA trusted_schema=OFF")
    return db


def _checked(uri: str, path: str) -> sqlite3.Connection:
    db = _connect(uri)
    try:
        if not _check_schema(db, path):
            raise StoreError(f"store {path}: the file is empty, nothing was ever stored in it")
    except BaseException:
        db.close()
        raise
    return db


def _enter_wal(db: sqlite3.Connection) -> None:
    # Where two runners create the same store at once, SQLite does not wait for the other one.
    for attempt in range(200):
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if _primary(error) != sqlite3.SQLITE_BUSY or attempt == 199:
                raise
            time.sleep(0.05)


def _check_schema(db: sqlite3.Connection, path: str) -> bool:
    """Return whether the tables exist; raise if the file is something else."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application == APPLICATION_ID:
        schema = db.execute("PRAGMA user_version").fetchone()[0]
        if schema > SCHEMA:
            raise StoreError(
                f"store {path} has schema {schema}, this dcfw knows up to {SCHEMA}: "
                "update dcfw, or give another path"
            )
        _check_tables(db, path)
        return True
    if application or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"store {path}: this SQLite file belongs to another program: give another path")
    return False


def _check_tables(db: sqlite3.Connection, path: str) -> None:
    """Raise unless the tables are those that dcfw creates, with nothing that acts when they are used.

    Other plain tables are never read and may be there: SQLite's ``.recover`` and ``ANALYZE`` create some.
    """
    missing = dict(_NAMES)
    for kind, name, of, sql in db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        statement = sql if isinstance(sql, str) else ""
        if name in missing and statement == missing[name]:
            del missing[name]
            continue
        plain = kind == "table" and statement[:13].upper() == "CREATE TABLE "
        aside = kind == "index" and of not in _NAMES
        if name in _NAMES or not (plain or aside):
            raise StoreError(
                f"store {path}: the {kind!s:.20} {name!r:.60} is not one that dcfw has made, so the file is "
                "not read: give another path, or ask where the file came from"
            )
    if missing:
        raise StoreError(
            f"store {path}: the table or index {min(missing)!r} is missing, so the file is no whole store of "
            "dcfw: give another path, or save what can be read with `sqlite3 STORE .recover`"
        )
