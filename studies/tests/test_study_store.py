"""A store keeps every row exactly once, and says clearly why when it cannot."""

import contextlib
import csv
import hashlib
import json
import math
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcfw_studies import Store, StoreError, Study, Task, rng_for
from dcfw_studies.claims import Owner, birth_of, this_machine
from dcfw_studies.study import canonical
from dcfw_studies.table_file import read_table

NOBODY = 65534


def task(seed=0, dataset="a", method="fw", settings=None, **more):
    return Task(dataset, method, seed, settings or {}, study=more.pop("study", "demo"), **more)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "s.db") as store:
        yield store


@contextlib.contextmanager
def unprivileged():
    """Give up root's right to write everywhere, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


# ---------------------------------------------------------------------------------------------- keys


def test_the_key_of_a_task_never_changes():
    # A frozen value: with another key, every store of every user would start from nothing.
    point = Task("bur26a", "dcfw", 3, {"tol": 1e-3, "split": "spectral"}, study="qap", version=2)
    text = (
        '{"dataset":"bur26a","method":"dcfw","seed":3,"settings":{"split":"spectral","tol":0.001},'
        '"study":"qap","version":2}'
    )
    assert point.key == hashlib.sha256(text.encode()).hexdigest()
    assert point.key == "bf3334f1c2151125bf99ab3b682365b0ee3d91fc69768c23fff76495477813ff"


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "b"},
        {"method": "dcfw"},
        {"seed": 1},
        {"settings": {"tol": 2e-3}},
        {"study": "other"},
        {"version": 2},
    ],
)
def test_the_key_changes_with_everything_that_decides_the_row(change):
    point = task(settings={"tol": 1e-3})
    assert replace(point, **change).key != point.key


words = st.text('abc\u00e9"\n', max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@given(settings=st.dictionaries(words, json_values, max_size=4))
def test_the_key_does_not_depend_on_the_order_of_the_settings(settings):
    backwards = dict(reversed(list(settings.items())))
    assert task(settings=settings).key == task(settings=backwards).key
    assert task(settings=json.loads(canonical(settings))).key == task(settings=settings).key


def test_numpy_numbers_and_tuples_are_the_same_task_as_plain_ones():
    plain = task(settings={"tol": 0.5, "sizes": [1, 2]})
    assert task(np.int64(0), settings={"tol": np.float64(0.5), "sizes": (np.int32(1), 2)}).key == plain.key
    assert task(settings={"sizes": np.array([1, 2]), "tol": 0.5}).settings == plain.settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"f": print}, "settings"),
        ({"x": math.nan}, "settings"),
        ({"x": {1: 2}}, "1 is not a string"),
        ({"seed": 1}, "must not be called seed"),
        ({"seconds": 60}, "must not be called seconds"),
    ],
)
def test_settings_that_cannot_be_hashed_are_refused(settings, said):
    with pytest.raises((TypeError, ValueError), match=said):
        task(settings=settings)


def test_random_numbers_depend_on_the_task_only():
    here = [*task().rng().random(3), *rng_for("a", 0).random(3)]
    code = (
        "from dcfw_studies import Task, rng_for;"
        "t = Task('a', 'fw', 0, {}, study='demo');"
        "print([*map(float, t.rng().random(3)), *map(float, rng_for('a', 0).random(3))])"
    )
    there = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert here == there
    assert task().rng().random() != task(1).rng().random() != rng_for("a", 0).random()


def test_a_study_is_the_product_of_its_parts_in_order():
    study = Study("s", dict, ["a", "b"], ["x", "y"], range(2), settings={"tol": 1})
    assert [str(t) for t in study.tasks[:3]] == ["a/x/0", "a/x/1", "a/y/0"]
    assert len(study.tasks) == 8
    assert all(t.settings == {"tol": 1} and t.study == "s" for t in study.tasks)


def test_a_tasks_own_settings_win_over_those_of_the_study():
    study = Study("s", dict, tasks=[Task("a", "x", 0, {"tol": 2})], settings={"tol": 1, "cap": 9})
    assert study.tasks[0].settings == {"tol": 2, "cap": 9}


def test_the_longest_tasks_come_first():
    study = Study("s", dict, ["a", "bbb", "cc"], ["x"], [0], cost=lambda t: len(t.dataset))
    assert [t.dataset for t in study.ordered()] == ["bbb", "cc", "a"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"datasets": "abc"}, r"write \['abc'\]"),
        ({"datasets": ["a", "a"], "methods": ["x"], "seeds": [0]}, "a/x/0"),
        ({"datasets": ["a"], "tasks": [Task("a", "x", 0)]}, "not both"),
        ({"datasets": ["a"], "methods": ["x"], "seeds": [-1]}, "seed must be at least 0"),
        ({"datasets": [1], "methods": ["x"], "seeds": [0]}, "dataset must be a string"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(arguments, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Study("s", dict, **arguments)


# ---------------------------------------------------------------------------------------------- rows


def test_a_finished_row_is_read_back_as_it_was(store):
    result = {
        "error": 0.1,
        "n": 3,
        "name": "é\n",
        "list": [1, 2.5],
        "none": None,
        "inf": math.inf,
        "ok": True,
    }
    assert store.finish(task(settings={"tol": 0.5}), result, seconds=2.0)
    (row,) = store.rows("demo")
    assert row.pop("started").endswith("+00:00")
    assert row == {
        "study": "demo",
        "dataset": "a",
        "method": "fw",
        "seed": 0,
        "tol": 0.5,
        "seconds": 2.0,
        **result,
    }


def test_numpy_results_are_stored_as_plain_numbers(store):
    store.finish(task(), {"x": np.float32(0.5), "k": np.int64(7), "v": np.arange(2)}, seconds=0.0)
    (row,) = store.rows()
    assert (row["x"], row["k"], row["v"]) == (0.5, 7, [0, 1])


def test_seconds_of_the_result_win(store):
    store.finish(task(), {"seconds": 0.125}, seconds=9.0)
    assert store.rows()[0]["seconds"] == 0.125
    assert store.status()[0]["seconds"] == 0.125


def test_the_first_row_of_a_task_is_kept(store):
    assert store.finish(task(), {"x": 1}, seconds=1.0)
    assert not store.finish(task(), {"x": 2}, seconds=1.0)
    assert [row["x"] for row in store.rows()] == [1]


@pytest.mark.parametrize(
    "result", [[1], {"dataset": "b"}, {"x": object()}, {"tol": 0.25}, {"seconds": "long"}]
)
def test_a_result_that_is_not_a_row_is_refused(store, result):
    with pytest.raises((TypeError, ValueError)):
        store.finish(task(settings={"tol": 0.5}), result, seconds=1.0)
    assert store.rows() == []


def test_rows_come_in_the_order_of_the_tasks_not_of_their_ends(store):
    study = Study("demo", dict, ["b", "a"], ["y", "x"], [1, 0])
    for point in sorted(study.tasks, key=lambda t: t.key):
        store.finish(point, {}, seconds=0.0)
    place = [(row["dataset"], row["method"], row["seed"]) for row in store.rows(study)]
    assert place == [(t.dataset, t.method, t.seed) for t in study.tasks]
    assert [(row["dataset"], row["method"], row["seed"]) for row in store.rows("demo")] == sorted(place)


def test_a_name_selects_the_newest_version_only(store):
    store.finish(task(version=1), {"x": "old"}, seconds=0.0)
    store.finish(task(version=2), {"x": "new"}, seconds=0.0)
    assert [row["x"] for row in store.rows("demo")] == ["new"]
    assert [row["x"] for row in store.rows()] == ["new"]
    old = Study("demo", dict, tasks=[task()], version=1)
    assert [row["x"] for row in store.rows(old)] == ["old"]
    assert {(entry["version"], entry["done"]) for entry in store.status()} == {(1, 1), (2, 1)}


def test_failures_and_versions_of_an_older_version_of_a_study_are_not_shown(store):
    store.finish(task(9, version=1), {}, seconds=0.0, versions={"numpy": "1.0"})
    for seed in (0, 1):
        store.fail(task(seed, version=1), "ValueError: old bug")
        store.finish(task(seed, version=2), {}, seconds=0.0, versions={"numpy": "2.0"})
    assert store.failures("demo") == store.failures() == []
    assert store.versions("demo") == store.versions() == [{"numpy": "2.0"}]
    store.fail(task(0, version=3), "ValueError: new bug")
    assert store.newest() == {"demo": 3}
    assert [failure["error"] for failure in store.failures("demo")] == ["ValueError: new bug"]
    assert store.rows("demo") == store.versions("demo") == []
    old = Study("demo", dict, tasks=[task(0), task(1)], version=1)
    assert [failure["error"] for failure in store.failures(old)] == ["ValueError: old bug"] * 2


def test_a_setting_called_seconds_that_an_older_store_has_can_still_be_read(store):
    store.finish(task(settings={"tol": 1}), {"x": 1}, seconds=2.0)
    store._db.execute("UPDATE rows SET settings = '{\"seconds\":60}'")
    (row,) = store.rows("demo")
    assert (row["x"], row["seconds"]) == (1, 2.0)


def test_names_that_no_store_takes_are_refused_before_a_row_is_computed():
    for name in ("dataset", "method", "study"):
        with pytest.raises(ValueError, match=rf"{name} must be Unicode text, got 'caf\\udce9'"):
            task(**{name: "caf\udce9"})


def test_rows_name_the_software_that_computed_them_if_asked(store, tmp_path):
    store.finish(task(0), {"x": 1}, seconds=0.0, versions={"numpy": "1.0"})
    store.finish(task(1), {"x": 1}, seconds=0.0, versions={})
    assert "versions" not in store.rows("demo")[0]
    assert [row["versions"] for row in store.rows("demo", versions=True)] == [{"numpy": "1.0"}, {}]
    store.export_csv(tmp_path / "out.csv", "demo", versions=True)
    with (tmp_path / "out.csv").open(newline="") as lines:
        assert [line["versions"] for line in csv.DictReader(lines)] == ['{"numpy":"1.0"}', "{}"]


def test_rows_survive_closing_and_are_seen_by_others(tmp_path):
    with Store(tmp_path / "deep" / "folder" / "s.db") as first:
        first.finish(task(0), {"x": 0}, seconds=0.0)
        with Store(first.path) as second:
            first.finish(task(1), {"x": 1}, seconds=0.0)
            assert len(second.rows()) == 2
    with Store(first.path, readonly=True) as third:
        assert [row["x"] for row in third.rows()] == [0, 1]


def test_software_versions_are_stored_and_no_name_of_the_machine(store):
    store.finish(task(), {}, seconds=0.0)
    (versions,) = store.versions("demo")
    assert set(versions) - {"torch", "instructions"} == {"python", "numpy", "scipy", "dcfw"}
    assert versions["numpy"] == np.__version__
    owner = Owner.enter()
    store.claim(task(1), owner)
    owner.leave()
    values = [
        str(value)
        for table in ("rows", "claims")
        for row in store._db.execute(f"SELECT * FROM {table}")
        for value in row
    ]
    assert len(values) == 20
    assert platform.node() not in values


def test_the_store_syncs_every_commit(store):
    # 2 is FULL: together with the write-ahead log, a committed row survives a power cut.
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_failure_is_kept_until_the_row_succeeds(store):
    store.fail(task(), "ValueError: no", "Traceback ...")
    store.fail(task(), "ValueError: again", "Traceback 2 ...")
    (failure,) = store.failures("demo")
    assert (failure["error"], failure["traceback"], failure["attempts"]) == (
        *("ValueError: again", "Traceback 2 ..."),
        2,
    )
    assert store.failures("other") == []
    assert store.status()[0]["failed"] == 1
    store.finish(task(), {}, seconds=0.0)
    assert store.failures() == []


def test_csv_has_every_column_and_reads_back(store, tmp_path):
    store.finish(task(0), {"x": 0.1, "list": [1, 2]}, seconds=1.0)
    store.finish(task(1), {"x": 1e-300, "note": 'a,"b"\n'}, seconds=1.0)
    target = tmp_path / "out.csv"
    assert store.export_csv(target, "demo") == 2
    with target.open(newline="") as lines:
        first, second = csv.DictReader(lines)
    assert (float(first["x"]), json.loads(first["list"]), first["note"]) == (0.1, [1, 2], "")
    assert (float(second["x"]), second["note"], second["list"]) == (1e-300, 'a,"b"\n', "")
    assert sorted(p.name for p in tmp_path.iterdir() if ".csv" in p.name) == ["out.csv"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", "\t=1", "'=kept"])
def test_no_text_in_csv_is_a_formula_and_it_reads_back(store, tmp_path, text):
    store.finish(task(0), {"note": text, "x": -1.5, "figure": "-1.5"}, seconds=1.0)
    target = tmp_path / "out.csv"
    store.export_csv(target, "demo")
    with target.open(newline="") as lines:
        (line,) = csv.DictReader(lines)
    assert line["note"][0] == "'"
    assert (line["x"], line["figure"]) == ("-1.5", "-1.5")
    assert text in (line["note"], read_table(target, ["note"])[0]["note"])


def test_text_that_is_not_unicode_is_escaped_in_csv(store, tmp_path):
    store.finish(task(), {"file": "caf\udce9.txt"}, seconds=0.0)
    assert store.rows()[0]["file"] == "caf\udce9.txt"
    store.export_csv(tmp_path / "out.csv", "demo")
    assert r"caf\udce9.txt" in (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_exporting_to_a_folder_is_said_to_be_that(store, tmp_path, monkeypatch):
    store.finish(task(), {}, seconds=0.0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError, match=r"\. is a folder: give the name of a file"):
        store.export_csv(".", "demo")


def test_exporting_an_unknown_study_names_those_there_are(store, tmp_path):
    store.finish(task(), {}, seconds=0.0)
    with pytest.raises(ValueError, match="studies there: demo"):
        store.export_csv(tmp_path / "x.csv", "dmeo")
    assert not (tmp_path / "x.csv").exists()


# -------------------------------------------------------------------------------------------- claims


def test_a_claimed_task_is_held_until_it_is_released(store):
    mine, other = Owner.enter(), Owner.enter()
    assert store.claim(task(), mine) == "claimed"
    assert store.claim(task(), mine) == "claimed"
    assert store.claim(task(), other) == "held"
    assert store.status()[0]["running"] == 1
    store.release(mine)
    assert store.claim(task(), other) == "claimed"
    store.finish(task(), {}, seconds=0.0)
    assert store.claim(task(), mine) == "finished"
    assert store.status()[0]["running"] == 0


def test_a_claim_of_a_run_that_ended_in_this_process_is_void(store):
    mine, other = Owner.enter(), Owner.enter()
    store.claim(task(), mine)
    mine.leave()
    assert store.claim(task(), other) == "claimed"


def test_a_claim_of_a_dead_process_is_void_at_once_and_of_a_living_one_never(store):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    birth = birth_of(child.pid)
    owner = Owner("child", this_machine(), child.pid, birth or "")
    long_ago = time.time() - 1e6
    store.claim(task(), owner)
    try:
        assert store.claim(task(), Owner.enter()) == "held"
        if birth is not None:
            assert not owner.is_gone(expires=long_ago, now=time.time())
            # The same number, born at another time: the number was given to a new process.
            assert replace(owner, birth=birth + "1").is_gone(math.inf, time.time())
        child.kill()
        deadline = time.time() + 30  # dead, but its parent has not asked for it yet: a zombie
        while birth_of(child.pid) and time.time() < deadline:
            time.sleep(0.01)
        if birth is not None:
            assert owner.is_gone(math.inf, time.time())
    finally:
        child.kill()
        child.communicate()
    assert store.claim(task(), Owner.enter()) == "claimed"


def test_a_claim_from_elsewhere_holds_until_its_lease_expires(tmp_path):
    with Store(tmp_path / "s.db", lease=100.0) as store:
        far = Owner("far", "another machine", os.getpid(), "")
        store.claim(task(), far)
        assert store.claim(task(), Owner.enter()) == "held"
        now = time.time()
        assert not far.is_gone(expires=now + 1, now=now)
        assert far.is_gone(expires=now - 1, now=now)
        store._db.execute("UPDATE claims SET expires = ?", (now - 1,))
        store.renew(far)
        assert store.claim(task(), Owner.enter()) == "held"
        store._db.execute("UPDATE claims SET expires = ?", (now - 1,))
        assert store.claim(task(), Owner.enter()) == "claimed"


def test_a_claim_for_ten_years_ends_a_lease_after_it_was_met(tmp_path):
    with Store(tmp_path / "s.db", lease=100.0) as store:
        store.claim(task(), Owner("far", "another machine", os.getpid(), ""))
        store._db.execute("UPDATE claims SET expires = expires + 3e8")
        assert store.claim(task(), Owner.enter()) == "held"
        (expires,) = store._db.execute("SELECT expires FROM claims").fetchone()
        assert expires <= time.time() + 100.0


# -------------------------------------------------------------------------------------------- errors


def test_a_full_disk_is_named_and_finished_rows_are_kept(store):
    store.finish(task(0), {"x": 0}, seconds=0.0)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages}")  # SQLite reports this as a full disk
    with pytest.raises(StoreError, match=r"disk is full.*finished is kept"):
        store.finish(task(1), {"x": "x" * 100_000}, seconds=0.0)
    assert [row["x"] for row in store.rows()] == [0]
    store._db.execute("PRAGMA max_page_count=1000000")
    store.finish(task(1), {"x": 1}, seconds=0.0)
    assert len(store.rows()) == 2


def test_a_text_file_is_not_a_store_and_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes\n" * 100)
    for readonly in (False, True):
        with pytest.raises(StoreError, match="not a store"):
            Store(path, readonly=readonly)
    assert path.read_text() == "these are my notes\n" * 100


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_schema_asks_for_an_update(store):
    store._db.execute("PRAGMA user_version=99")
    for readonly in (False, True):
        with pytest.raises(StoreError, match=r"schema 99.*update dcfw"):
            Store(store.path, readonly=readonly)


def test_a_path_below_a_file_or_to_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder cannot be made"):
        Store(tmp_path / "file" / "s.db")
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path)


def test_reading_a_store_that_is_not_there_makes_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="no store at"):
        Store(tmp_path / "s.db", readonly=True)
    (tmp_path / "empty.db").write_bytes(b"")
    with pytest.raises(StoreError, match="empty"):
        Store(tmp_path / "empty.db", readonly=True)
    assert [p.name for p in tmp_path.iterdir()] == ["empty.db"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_read_only_folder_is_named_and_can_still_be_read():
    # Not tmp_path: its parents are closed to the unprivileged user.
    folder = Path(tempfile.mkdtemp())
    try:
        with Store(folder / "s.db") as store:
            store.finish(task(), {"x": 1}, seconds=0.0)
        (folder / "s.db").chmod(0o444)
        folder.chmod(0o555)
        with unprivileged():
            with pytest.raises(StoreError, match=r"cannot be opened|cannot be made"):
                Store(folder / "new.db")
            with pytest.raises(StoreError, match=r"read-only|writable"):
                Store(folder / "s.db")
            with Store(folder / "s.db", readonly=True) as store:
                assert [row["x"] for row in store.rows()] == [1]
                with pytest.raises(StoreError, match="read-only"):
                    store.finish(task(1), {}, seconds=0.0)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_read_only_folder_with_an_unmerged_log_is_not_read_without_it():
    folder = Path(tempfile.mkdtemp())
    try:
        store = Store(folder / "s.db")
        store.finish(task(), {"x": 1}, seconds=0.0)
        copy = folder / "copy"
        copy.mkdir()
        shutil.copy(folder / "s.db", copy)
        shutil.copy(folder / "s.db-wal", copy)  # as a killed runner leaves it: the row is only here
        store.close()
        for path in copy.iterdir():
            path.chmod(0o444)
        copy.chmod(0o555)
        folder.chmod(0o755)
        with unprivileged(), pytest.raises(StoreError):
            Store(copy / "s.db", readonly=True)
        copy.chmod(0o755)
        with Store(copy / "s.db", readonly=True) as saved:
            assert [row["x"] for row in saved.rows()] == [1]
    finally:
        for path in (folder, folder / "copy"):
            path.chmod(0o755)
        shutil.rmtree(folder)


def test_a_locked_store_is_waited_for_then_named(store):
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store._db.execute("PRAGMA busy_timeout=10")
        with pytest.raises(StoreError, match="locked for too long"):
            store.finish(task(), {}, seconds=0.0)
        other.execute("ROLLBACK")
    assert store.finish(task(), {}, seconds=0.0)
