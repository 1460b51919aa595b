"""Stores with foreign tables and folders of features that cannot be written: an error that names the file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dcfw import data
from dcfw_studies import Store, StoreError, Task, alignment, images
from dcfw_studies.images import backbones
from hostile_files import read_bounded

MB = 2**20


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"


VIEW = (
    f"DROP TABLE rows; CREATE VIEW rows AS {ENDLESS} SELECT 'k' || x AS key, 's' AS study, 1 AS version,"
    " 'd' AS dataset, 'm' AS method, x AS seed, '{}' AS settings, '{}' AS result, '{}' AS versions,"
    " 't' AS started, 1.0 AS seconds FROM c"
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "study.sqlite"
    with Store(path) as made:
        made.finish(Task("data", "method", 1, study="s"), {"value": 1.5}, seconds=0.1)
    return path


def change(path: Path, statements: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.executescript(statements)
    db.close()


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (VIEW, "view 'rows'"),
        (
            "CREATE TRIGGER t AFTER INSERT ON rows"
            f" BEGIN INSERT INTO claims(key) {ENDLESS} SELECT x FROM c; END",
            "trigger 't'",
        ),
        ("CREATE VIEW other AS SELECT 1", "view 'other'"),
        ("CREATE VIRTUAL TABLE searched USING fts5(a)", "table 'searched'"),
        ("CREATE INDEX slow ON rows (length(hex(zeroblob(100000000))))", "index 'slow'"),
        (
            "DROP TABLE failures; CREATE TABLE failures (key, d AS (hex(zeroblob(100000000))))",
            "table 'failures'",
        ),
        ("DROP TABLE claims", "'claims' is missing"),
        ("DROP INDEX rows_by_study", "'rows_by_study' is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)
def test_a_store_whose_tables_are_not_ours_is_refused_and_left_as_it_was(
    store: Path, statements: str, named: str, readonly: bool
) -> None:
    try:
        change(store, "DELETE FROM rows;" + statements)
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite makes no such thing: {error}")
    before = store.read_bytes()
    # Refused on opening: a query to such a view would not return, and cannot be interrupted.
    with pytest.raises(StoreError, match=rf"study\.sqlite: .*{named}"):
        Store(store, readonly=readonly)
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    "statements",
    [
        "VACUUM",
        "ANALYZE",
        "CREATE TABLE lost_and_found (a UNIQUE, b); CREATE INDEX found ON lost_and_found (b)",
    ],
)
def test_plain_tables_beside_those_of_a_store_do_not_matter(store: Path, statements: str) -> None:
    change(store, statements)
    for readonly in (True, False):
        with Store(store, readonly=readonly) as opened:
            assert [row["value"] for row in opened.rows("s")] == [1.5]


def test_a_store_of_the_first_version_is_still_read(tmp_path: Path) -> None:
    task = (
        "key TEXT PRIMARY KEY, study TEXT, version INTEGER,"
        " dataset TEXT, method TEXT, seed INTEGER, settings TEXT"
    )
    with sqlite3.connect(tmp_path / "old.sqlite") as db:
        db.executescript(
            f"CREATE TABLE rows ({task}, result TEXT, versions TEXT, started TEXT, seconds REAL)"
            " WITHOUT ROWID;"
            f"CREATE TABLE failures ({task}, error TEXT, traceback TEXT, attempts INTEGER, failed TEXT)"
            " WITHOUT ROWID;"
            "CREATE TABLE claims (key TEXT PRIMARY KEY, study TEXT, version INTEGER, method TEXT,"
            " owner TEXT, machine TEXT, pid INTEGER, birth TEXT, expires REAL) WITHOUT ROWID;"
            "CREATE INDEX rows_by_study ON rows (study, version);"
            "INSERT INTO rows VALUES ('k', 's', 1, 'd', 'm', 3, '{}', '{\"value\": 2.5}', '{}', 't', 1.0);"
            "PRAGMA application_id=0x64634657; PRAGMA user_version=1"
        )
    db.close()
    with Store(tmp_path / "old.sqlite", readonly=True) as opened:
        assert [row["value"] for row in opened.rows("s")] == [2.5]


def test_the_study_of_alignments_does_not_believe_the_sizes_of_a_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "embeddings"
    folder.mkdir()
    np.save(folder / "en.npy", np.eye(4, dtype=np.float32))
    whole = (folder / "en.npy").read_bytes()
    (folder / "fr.npy").write_bytes(whole.replace(b"(4, 4), }" + b" " * 9, b"(4000000000, 4), }"))
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    (dataset,) = [name for name in alignment.DATASETS if name not in alignment.PLANTED]
    result = read_bounded(
        lambda: alignment.load(dataset, 0), memory=16 * MB, errors=(ValueError, MemoryError), names="fr.npy"
    )
    assert isinstance(result, ValueError)


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Three pictures, in parts of one, whose features are 0.5."""
    monkeypatch.setattr(
        backbones,
        "backbone",
        lambda network: lambda part: np.full((len(part), backbones.WIDTH), 0.5, dtype=np.float32),
    )
    monkeypatch.setattr(backbones, "PART", 1)
    return np.arange(3 * 3 * 8 * 8, dtype=np.uint8).reshape(3, 3, 8, 8)


def test_features_are_returned_where_they_cannot_be_kept(tmp_path: Path, pictures: np.ndarray) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match=r"not kept: .*file.* cannot be written .*folder=") as caught:
        found = images.features(pictures, folder=tmp_path / "file" / "features")
    np.testing.assert_array_equal(found, np.full((3, backbones.WIDTH), 0.5))
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the user a bare number without a home, as in some containers."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "DCFW_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(data.Path, "home", nowhere)


def test_features_are_computed_without_a_home(homeless: None, pictures: np.ndarray) -> None:
    with pytest.warns(
        RuntimeWarning, match=r"not kept: this user has no home folder.*(XDG_CACHE_HOME|LOCALAPPDATA)"
    ):
        found = images.features(pictures)
    np.testing.assert_array_equal(found, np.full((3, backbones.WIDTH), 0.5))
