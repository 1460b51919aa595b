"""Stores with foreign tables, archives of vectors that unpack without measure, folders that are not there.

Each ends in an error that names the file and the remedy, or does not matter, in bounded time and memory.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from dcfw import align, data, images
from dcfw.align import rows, stream
from dcfw.experiments import Store, StoreError, Task, alignment
from dcfw.images import backbones
from hostile_files import alarm, read_bounded

MB = 2**20


# -- stores ------------------------------------------------------------------------------------------------

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
    # At the opening: a query to such a view would not come back, and cannot be interrupted.
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


# -- word vectors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.vec", "x.bin", "x.npy"])
def test_words_that_come_again_are_skipped_in_time_in_proportion_to_the_file(
    name: str, tmp_path: Path
) -> None:
    words = [f"w{i}" for i in range(20_000)]
    words += words[-1:] * 100_000
    file = tmp_path / name
    if name == "x.npy":
        np.save(file, np.zeros((len(words), 1), dtype=np.float32))
        (tmp_path / "x_words.txt").write_text("\n".join(words))
    elif name == "x.bin":
        file.write_bytes(b"%d 1\n" % len(words) + b"".join(w.encode() + b" \x00\x00\x00\x00" for w in words))
    else:
        file.write_text("".join(f"{w} 0\n" for w in words))
    with alarm(20.0):
        found = align.read_vectors(file, on_error="skip")
    assert len(found.words) == len(found.matrix) == 20_000
    assert found.skipped == {"duplicate": 100_000}


def test_broken_lines_are_skipped_without_a_look_at_each_of_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, loadtxt = [], np.loadtxt
    monkeypatch.setattr(np, "loadtxt", lambda *args, **options: parsed.append(1) or loadtxt(*args, **options))
    broken = "".join(f"w{i} {'0.5 ' * 299}nan\n" for i in range(50))
    (tmp_path / "x.vec").write_text(f"51 300\n{broken}ok {'0.5 ' * 300}\n")
    assert align.read_vectors(tmp_path / "x.vec", on_error="skip").skipped == {"broken": 50}
    assert len(parsed) < 5 * 51
    with pytest.raises(ValueError, match="line 2: 'nan' is not a finite number"):
        align.read_vectors(tmp_path / "x.vec")


def test_the_error_for_a_word_that_comes_again_says_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "x.vec").write_text("a 1 2\nb 1 2\nc 1 2\nb 3 4\n")
    with pytest.raises(ValueError, match=r"x\.vec, line 4: the word 'b' was there before, as word 2"):
        align.read_vectors(tmp_path / "x.vec")


def test_an_archive_of_vectors_that_unpacks_beyond_measure_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.vec.gz"
    with gzip.open(file, "wb", 9) as out:
        for i in range(2000):
            out.write(b"w%d" % i + b" 0" * 30_000 + b"\n")
    # What is unpacked before the ratio is looked at, and its numbers: a matrix of all would have 240 MB.
    result = read_bounded(lambda: align.read_vectors(file), memory=64 * MB, names="x.vec.gz", seconds=60.0)
    assert isinstance(result, ValueError)
    assert "more than 200 times its size" in str(result)
    assert "gunzip" in str(result)


def test_an_archive_of_vectors_that_unpacks_well_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small one may be packed as well as can be, and a large one as well as vectors are."""
    small = tmp_path / "small.vec.gz"
    small.write_bytes(gzip.compress(b"".join(b"w%d" % i + b" 0" * 1000 + b"\n" for i in range(1000)), 9))
    assert 100 * small.stat().st_size < 2_000_000
    assert align.read_vectors(small).matrix.shape == (1000, 1000)
    monkeypatch.setattr(stream, "FREE", 0)
    matrix = np.random.default_rng(0).standard_normal((200, 50))
    align.write_vectors(tmp_path / "large.vec.gz", [f"w{i}" for i in range(200)], matrix)
    assert align.read_vectors(tmp_path / "large.vec.gz").matrix.shape == (200, 50)


def test_vectors_that_are_too_wide_are_refused_when_read_and_when_written(tmp_path: Path) -> None:
    d = rows.WIDEST + 1
    (tmp_path / "x.vec").write_bytes(b"a" + b" 0" * d + b"\n")
    (tmp_path / "x.bin").write_bytes(b"1 %d\na " % d + bytes(4 * d))
    for name in ("x.vec", "x.bin"):
        with pytest.raises(
            ValueError, match=rf"{name}: a dimension of {d}, and vectors of at most 65536 numbers"
        ):
            align.read_vectors(tmp_path / name)
        with pytest.raises(ValueError, match=r"matrix must have at most 65536 columns.*\.npy"):
            align.write_vectors(tmp_path / f"new{name}", ["a"], np.zeros((1, d)))
        assert not (tmp_path / f"new{name}").exists()
    align.write_vectors(tmp_path / "x.npy", ["a"], np.zeros((1, d)))
    assert align.read_vectors(tmp_path / "x.npy").matrix.shape == (1, d)


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


# -- caches and folders ------------------------------------------------------------------------------------


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
    """A user who is a mere number, as in some containers."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "DCFW_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(data.Path, "home", nowhere)


def test_data_that_are_there_are_found_without_a_home(
    homeless: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set").mkdir()
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    assert data.find("set") == tmp_path / "set"
    with pytest.raises(
        FileNotFoundError, match=r"'other' was not found in .*set the environment variable DCFW_DATA"
    ):
        data.find("other")


def test_without_a_home_errors_say_what_to_set(homeless: None) -> None:
    with pytest.raises(FileNotFoundError, match=r"no home.*set the environment variable DCFW_DATA"):
        data.find("qaplib")
    for folder in (data.cache_folder, data.data_folder):
        with pytest.raises(
            FileNotFoundError, match=r"no home folder.*set .* (XDG_CACHE_HOME|LOCALAPPDATA).*DCFW_DATA"
        ):
            folder()


@pytest.mark.skipif(os.name != "posix", reason="homes of other users are named on POSIX systems")
def test_a_data_folder_in_a_home_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCFW_DATA", "~no-such-user/data")
    for call in (data.data_folder, lambda: data.find("qaplib")):
        with pytest.raises(FileNotFoundError, match=r"DCFW_DATA is '~no-such-user/data'.*absolute path"):
            call()


def test_features_are_computed_without_a_home(homeless: None, pictures: np.ndarray) -> None:
    with pytest.warns(
        RuntimeWarning, match=r"not kept: this user has no home folder.*(XDG_CACHE_HOME|LOCALAPPDATA)"
    ):
        found = images.features(pictures)
    np.testing.assert_array_equal(found, np.full((3, backbones.WIDTH), 0.5))
