"""Word vectors that repeat or unpack beyond measure, and folders that are not there.

Each ends in an error that names the file and the remedy, or does not matter, in bounded time and memory.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from dcfw import align, data
from dcfw.align import rows, stream
from hostile_files import alarm, read_bounded

MB = 2**20


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
    with pytest.raises(ValueError, match=r"x\.vec, line 4: the word 'b' repeats word 2"):
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
            ValueError, match=rf"{name}: the dimension is {d}, but must be between 1 and 65536"
        ):
            align.read_vectors(tmp_path / name)
        with pytest.raises(ValueError, match=r"matrix must have at most 65536 columns.*\.npy"):
            align.write_vectors(tmp_path / f"new{name}", ["a"], np.zeros((1, d)))
        assert not (tmp_path / f"new{name}").exists()
    align.write_vectors(tmp_path / "x.npy", ["a"], np.zeros((1, d)))
    assert align.read_vectors(tmp_path / "x.npy").matrix.shape == (1, d)


# -- caches and folders ------------------------------------------------------------------------------------


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the user a bare number without a home, as in some containers."""

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
