"""Stores, checkpoints of training runs and cached features that something else has written to."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dcfw.cli.page.parts import Column
from dcfw.cli.page.render import numbers
from dcfw_studies import Store, StoreError, Task, images
from dcfw_studies.commands import app
from dcfw_studies.images import backbones
from dcfw_studies.table_file import naming, read_versions
from hostile_files import fuzz, mutations, read_bounded

MB = 2**20


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 20_000])
def test_versions_that_are_nested_without_end_name_the_row(text: str) -> None:
    with pytest.raises(ValueError, match=r"rows\.csv, row 2: versions must be"), naming("rows.csv", 2):
        read_versions(text)


@pytest.fixture(scope="module")
def store_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("store") / "study.sqlite"
    with Store(path) as store:
        for seed in range(20):
            store.finish(Task("data", "method", seed, study="s"), {"value": 1.5 * seed}, seconds=0.1)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=DELETE")  # all rows in the one file
    db.close()
    return path.read_bytes()


def use(path: Path, readonly: bool) -> Any:
    with Store(path, readonly=readonly) as store:
        if not readonly:
            store.finish(Task("data", "other", 1, study="s"), {"value": 2.0}, seconds=0.1)
        return store.rows(), store.status(), store.failures(), store.studies(), store.versions()


@pytest.mark.parametrize("readonly", [True, False])
def test_a_mutated_store_is_used_or_refused(
    store_bytes: bytes, readonly: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stores")

    @fuzz
    @given(mutations(store_bytes), st.integers(0, 10**9))
    def check(changed: bytes, number: int) -> None:
        for old in folder.iterdir():
            old.unlink()
        path = folder / "study.sqlite"
        path.write_bytes(changed)
        read_bounded(
            lambda: use(path, readonly), memory=64 * MB, errors=(StoreError, OSError), names="study.sqlite"
        )

    check()


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE rows",
        "ALTER TABLE rows DROP COLUMN result",
        "UPDATE rows SET result = '{'",
        "UPDATE rows SET result = '[1, 2]'",
        "UPDATE rows SET result = NULL",
        "UPDATE rows SET result = x'00ff'",
        "UPDATE rows SET settings = 'null', versions = '3'",
        "UPDATE rows SET versions = '{'",
        "UPDATE rows SET seed = 'many', seconds = 'long'",
        "UPDATE rows SET result = '" + "[" * 100_000 + "'",
        "DROP TABLE rows; CREATE VIEW rows AS SELECT 1 AS key",
    ],
)
def test_a_store_with_foreign_content_is_named(store_bytes: bytes, statement: str, tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    path.write_bytes(store_bytes)
    with sqlite3.connect(path) as db:
        db.executescript(statement)
    db.close()
    result = read_bounded(
        lambda: use(path, True), memory=64 * MB, errors=(StoreError, OSError), names="study.sqlite"
    )
    assert isinstance(result, StoreError)  # SQLite keeps any type in any column


OF_A_TASK = (
    *("study = NULL", "study = x'ff'", "method = NULL", "method = x'00ff'", "dataset = NULL"),
    *("seed = 'q'", "seed = 1.5", "version = 'a'", "version = NULL"),
)


OF_A_ROW = (
    *(
        "seconds = 'x'",
        "seconds = NULL",
        "seconds = -1",
        "seconds = 9e999",
        "started = NULL",
        "versions = '5'",
    ),
    *("settings = '{\"seed\": 3}'", "result = '{\"method\": {}}'", "result = '{\"dataset\": [1]}'"),
)


OF_A_FAILURE = ("error = NULL", "traceback = x'00'", "attempts = 'many'", "failed = x'03'")


@pytest.mark.parametrize(
    ("table", "change"),
    [
        *(("rows", change) for change in (*OF_A_TASK, *OF_A_ROW)),
        *(("failures", change) for change in (*OF_A_TASK, *OF_A_FAILURE)),
    ],
)
def test_columns_of_odd_types_are_one_line_of_every_command(
    store_bytes: bytes, table: str, change: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.sqlite"
    path.write_bytes(store_bytes)
    with Store(path) as store:
        store.fail(Task("data", "bad", 99, study="s"), "ValueError: no", "Traceback")
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {table} SET {change} WHERE seed IN (3, 99)")
    db.close()
    for command in (["report", str(path), "-o", str(tmp_path / "page.html")], ["study", "status", str(path)]):
        answer = CliRunner().invoke(app, command)
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
        # The status needs fewer columns, and may ignore the others.
        assert answer.exit_code == 1 or (answer.exit_code, command[0]) == (0, "study")
        if answer.exit_code:
            assert len(answer.stderr.splitlines()) == 1
            assert "study.sqlite: a row holds what dcfw did not write" in answer.stderr


def test_an_integer_beyond_all_floats_is_shown_as_it_stands(tmp_path: Path) -> None:
    path, large = tmp_path / "study.sqlite", 10**400 + 7
    with Store(path) as store:
        for seed in range(2):
            store.finish(Task("data", "m", seed, study="s"), {"value": large, "n": seed}, seconds=0.1)
    answer = CliRunner().invoke(app, ["report", str(path), "-o", str(tmp_path / "page.html")])
    assert answer.exit_code == 0, answer.output
    assert str(large)[:100] in (tmp_path / "page.html").read_text()
    assert Column("value", ",.6g").show(large) == str(large)
    assert numbers([1, large]) == [1, None]


def test_a_mutated_training_checkpoint_is_refused_or_resumed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    torch = pytest.importorskip("torch")
    from dcfw_studies import training

    options = training.Settings(model="head", dataset="digits", epochs=1, images=64, batch=64)
    path = tmp_path_factory.mktemp("training") / "run.pt"
    training.train(options, checkpoint=path)
    whole = path.read_bytes()
    model = training.network(options, (64,), 10)

    def resume() -> Any:
        run = training.Trained(options, {name: [] for name in training.CURVES}, model)
        with torch.random.fork_rng(devices=[]):
            training._resume(path, run, training.make_optimizer(options, model))
        return run

    assert not isinstance(read_bounded(resume, memory=64 * MB), Exception)

    @fuzz
    @given(mutations(whole))
    def check(changed: bytes) -> None:
        path.write_bytes(changed)
        read_bounded(resume, memory=64 * MB, errors=(ValueError,), names="run.pt")

    check()


@pytest.mark.parametrize(
    "change", [{"model": {}}, {"model": 3}, {"optimizer": {}}, {"random": "seed"}, {"curves": {}}]
)
def test_a_training_checkpoint_with_parts_missing_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from dcfw_studies import training

    options = training.Settings(model="head", dataset="digits", epochs=1, images=64, batch=64)
    path = tmp_path / "run.pt"
    training.train(options, checkpoint=path)
    torch.save({**torch.load(path, weights_only=True), **change}, path)
    with pytest.raises(ValueError, match=r"run\.pt is a damaged checkpoint"):
        training.train(options, checkpoint=path)


class _Evil:
    def __reduce__(self) -> Any:
        return (os.system, ("touch was-here",))


def test_a_training_checkpoint_with_code_in_it_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from dcfw_studies import training

    monkeypatch.chdir(tmp_path)
    torch.save({"fingerprint": _Evil()}, tmp_path / "run.pt")
    options = training.Settings(model="head", dataset="digits", epochs=1, images=64, batch=64)
    with pytest.raises(ValueError, match=r"run\.pt is not a checkpoint"):
        training.train(options, checkpoint=tmp_path / "run.pt")
    assert not (tmp_path / "was-here").exists()


def test_mutated_features_are_computed_again(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("features")
    pictures = np.zeros((2, 3, 8, 8), dtype=np.uint8)
    truth = np.full((2, backbones.WIDTH), 0.5, dtype=np.float32)
    monkeypatch.setattr(backbones, "backbone", lambda network: lambda part: truth[: len(part)])
    images.features(pictures, folder=folder)
    (kept,) = folder.rglob("*.npy")
    whole = kept.read_bytes()

    @fuzz
    @given(mutations(whole))
    def check(changed: bytes) -> None:
        kept.write_bytes(changed)
        found = read_bounded(lambda: images.features(pictures, folder=folder), memory=8 * MB, errors=())
        assert found.shape == truth.shape
        assert np.isfinite(found).all()

    check()
