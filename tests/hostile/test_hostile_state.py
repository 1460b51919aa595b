"""Files in which the library keeps its own state, after something else has written to them.

Stores, checkpoints of solves and of training runs, cached features: each is used or refused with an error
that names the file, in bounded time and memory, and a file that was refused is left as it was.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import dcfw
from dcfw import functions, images, sets
from dcfw.checkpoints import file as checkpoint_file
from dcfw.cli import app
from dcfw.experiments import Store, StoreError, Task
from dcfw.experiments.page.parts import Column
from dcfw.experiments.page.render import numbers
from dcfw.experiments.table_file import naming, read_versions
from dcfw.images import backbones
from hostile_files import fuzz, mutations, read_bounded

MB = 2**20


# -- stores ------------------------------------------------------------------------------------------------


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
        # The status needs fewer columns: it may know nothing of the others.
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


# -- checkpoints of solves -----------------------------------------------------------------------------------


def solve(path: Path, callback: Any = None) -> Any:
    A = np.random.default_rng(0).standard_normal((8, 8))
    return dcfw.minimize(
        functions.Quadratic(A @ A.T) - functions.L2Norm(0.5),
        sets.Simplex(8),
        maxiter=8,
        tol=0.0,
        inner="pairwise",
        callback=callback,
        checkpoint=dcfw.checkpoints.Checkpoint(path, every=0.0),
    )


@pytest.fixture(scope="module")
def checkpoint_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint from the middle of a run: half of it is still to be done."""
    path = tmp_path_factory.mktemp("run") / "run.npz"
    states: list[bytes] = []

    def keep(intermediate_result: Any) -> None:
        if path.exists():
            states.append(path.read_bytes())

    solve(path, keep)
    assert len(states) > 4
    return states[len(states) // 2]


def test_a_mutated_checkpoint_is_refused_or_resumed(
    checkpoint_bytes: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.npz"

    @fuzz
    @given(mutations(checkpoint_bytes))
    def check(changed: bytes) -> None:
        path.write_bytes(changed)
        result = read_bounded(lambda: solve(path), memory=32 * MB, names="run.npz")
        if isinstance(result, Exception):
            assert path.read_bytes() == changed

    check()


def rewritten(content: bytes, change: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a checkpoint with another state in it, in an archive that is in order."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for name in old.namelist():
            member = old.read(name)
            if name == "state.npy":
                text = np.load(io.BytesIO(member)).tobytes()
                buffer = io.BytesIO()
                np.save(buffer, np.frombuffer(change(text), dtype=np.uint8))
                member = buffer.getvalue()
            new.writestr(name, member)
    return out.getvalue()


def test_a_checkpoint_with_other_numbers_in_its_state_is_refused_or_resumed(
    checkpoint_bytes: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.npz"

    @fuzz
    @given(st.data())
    def check(data: st.DataObject) -> None:
        changed = rewritten(checkpoint_bytes, lambda text: data.draw(mutations(text)))
        path.write_bytes(changed)
        read_bounded(lambda: solve(path), memory=64 * MB, names="run.npz")

    check()


def test_a_compressed_checkpoint_is_no_bomb(checkpoint_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    bomb = rewritten(checkpoint_bytes, lambda text: text + b" " * (64 * MB), zipfile.ZIP_DEFLATED)
    assert len(bomb) < MB
    path.write_bytes(bomb)
    result = read_bounded(lambda: solve(path), memory=8 * MB, names="run.npz")
    assert isinstance(result, ValueError)


@pytest.mark.parametrize("depth", [300, 900, 100_000])
def test_a_deep_state_is_refused(checkpoint_bytes: bytes, depth: int, tmp_path: Path) -> None:
    def deeper(text: bytes) -> bytes:
        header = json.loads(text)
        marked = json.dumps({**header, "tree": "HERE"})
        return marked.replace('"HERE"', '{"tuple": [' * depth + "1" + "]}" * depth).encode()

    path = tmp_path / "run.npz"
    path.write_bytes(rewritten(checkpoint_bytes, deeper))
    assert isinstance(read_bounded(lambda: solve(path), memory=64 * MB, names="run.npz"), ValueError)


def test_an_array_larger_than_its_member_is_not_allocated(checkpoint_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(checkpoint_bytes)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            member = old.read(name)
            if name == "data.npy":
                header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,), }\n"
                member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"abc"
            new.writestr(name, member)
    path.write_bytes(out.getvalue())
    result = read_bounded(lambda: solve(path), memory=8 * MB, names="run.npz")
    assert isinstance(result, ValueError)
    assert checkpoint_file.FORMAT.encode() in checkpoint_bytes


# -- training runs and features ------------------------------------------------------------------------------


def test_a_mutated_training_checkpoint_is_refused_or_resumed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    torch = pytest.importorskip("torch")
    from dcfw.experiments import training

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
    from dcfw.experiments import training

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
    from dcfw.experiments import training

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
